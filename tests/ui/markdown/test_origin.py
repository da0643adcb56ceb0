"""From shown words back to the source, and from the source to what is shown of it."""

from __future__ import annotations

import re

import pytest
from forked import ROOT

from app.markdown.blocks import plain_text
from app.markdown.document import Document
from ui.markdown.origin import MOST_READ, Shown, shown_of, source_of
from ui.widgets.utf16 import utf16_length


def words_of(document: Document) -> list[tuple[str, Shown]]:
    """All shown words, in order."""
    found = []
    for number, segment in enumerate(document.segments):
        for place, block in enumerate(document.blocks(segment)):
            text = plain_text(block)
            for match in re.finditer(r"\w+", text):
                start, end = utf16_length(text[: match.start()]), utf16_length(text[: match.end()])
                found.append((match[0], Shown(number, place, start, end)))
    return found


def origins(source: str, **how: bool) -> list[tuple[str, int | None]]:
    document = Document(source, **how)
    return [(word, source_of(document, shown)) for word, shown in words_of(document)]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("one two", [("one", 0), ("two", 4)]),
        ("to **to** *to* `to`", [("to", 0), ("to", 5), ("to", 11), ("to", 16)]),
        ("# Title\n\ntext", [("Title", 2), ("text", 9)]),
        ("- one\n- two\n  - one", [("one", 2), ("two", 8), ("one", 16)]),
        ("1. three\n2. four", [("three", 3), ("four", 12)]),
        ("> said\n> so", [("said", 2), ("so", 9)]),
        ("```py\npy = 1\n```\n", [("py", 6), ("1", 11)]),
        ("| a | b |\n|---|---|\n| b | a |\n", [("a", 2), ("b", 6), ("b", 22), ("a", 26)]),
        ("[link](https://link.example) link", [("link", 1), ("link", 29)]),
        ("a \\*b\\* c", [("a", 0), ("b", 4), ("c", 8)]),
        ("🙂 hi 🙂🙂 ho", [("hi", 2), ("ho", 8)]),
        ("这是**重点。**然后", [("这是重点", 0), ("然后", 9)]),
        ("un**believ**able", [("unbelievable", 0)]),
        ("line one\r\nline two", [("line", 0), ("one", 5), ("line", 10), ("two", 15)]),
        ("aaa aa", [("aaa", 0), ("aa", 4)]),
        ("[the] and the\n\n[the]: https://a.example", [("the", None), ("and", 6), ("the", 10)]),
    ],
)
def test_a_word_is_found_where_it_was_written(source, expected):
    assert origins(source) == expected


@pytest.mark.parametrize(
    "source", ["Area $x^2 + y$ here", "$$\nx + y\n$$\n", "| f |\n|---|\n| $x + y$ |\n"]
)
def test_a_formula_has_no_place(source):
    places = dict(origins(source))
    assert [places[letter] for letter in "xy"] == [None, None]
    assert all(
        places[word] == source.index(word) for word in ("Area", "here", "f") if word in places
    )


def test_what_no_letter_stands_for_has_no_place():
    places = dict(origins("M&auml;dchen &copy ![alt](https://a.example/b.png)"))
    assert places["image"] is None
    assert places["alt"] == 21
    document = Document("a &amp; b")
    assert source_of(document, Shown(0, 0, 2, 3)) is None


@pytest.mark.parametrize("icon", ["\U000f0000", "\U000f0001", "\U00030000"])
def test_letters_that_look_like_those_for_a_trial_are_letters_of_the_text(icon):
    found = [each for each in origins(f"{icon} on **on** 是 {icon} **on**") if each[0] != icon]
    assert found == [("on", 2), ("on", 7), ("是", 12), ("on", 18)]
    document = Document(f"{icon} on **on**")
    words_of(document)
    assert shown_of(document, 7, 9) == [Shown(0, 0, 6, 8)]


@pytest.mark.parametrize(
    ("source", "asked"),
    [
        ("amp &amp; " * 300, "amp"),
        ("| b |\n|---|\n" + "| a&nbsp;b&nbsp;nbsp |\n" * 2000, "nbsp"),
        ("".join(f"{number}. {number}\n" for number in range(1, 2000)), "1"),
    ],
)
def test_a_text_full_of_letters_that_mean_something_is_read_so_often_and_no_more(
    source, asked, monkeypatch
):
    """A click waits for it, and a reply may be anything."""
    read = []
    again = Document.rewritten
    monkeypatch.setattr(
        Document,
        "rewritten",
        lambda document, text: read.append(len(text)) or again(document, text),
    )
    source = (source + "\n\n") * (40_000 // len(source) + 1)
    document = Document(source)
    shown = [each for word, each in words_of(document) if word == asked]
    for each in (shown[0], shown[len(shown) // 2], shown[-1]):
        read.clear()
        found = source_of(document, each)
        assert found is None or source.startswith(asked, found)
        assert 0 < sum(read) < MOST_READ + len(source)


def test_a_number_is_found_among_those_of_the_lists_of_a_long_reply():
    section = "## Part 1\n\nHere are 3 of 10:\n\n" + "".join(
        f"{number}. Take {number} of 10, as 1 is too few.\n" for number in range(1, 11)
    )
    source = "\n\n".join([section] * 100)
    document = Document(source)
    shown = [each for word, each in words_of(document) if word == "1"]
    written = [match.start() for match in re.finditer(r"(?<!\d)1(?!\d|\.)", source)]
    assert len(shown) == len(written)
    for at in (0, 1, len(shown) // 2, len(shown) - 1):
        assert source_of(document, shown[at]) == written[at]


def test_all_words_of_a_long_reply_are_found_in_order():
    """What is found is what is shown, and no two words are found in one place."""
    source = (ROOT / "README.md").read_text("utf-8")
    document = Document(source)
    found = [(word, source_of(document, shown)) for word, shown in words_of(document)[:150]]
    places = [at for _word, at in found if at is not None]
    assert len(places) > 100
    assert places == sorted(set(places))
    assert all(source.startswith(word[0], at) for word, at in found if at is not None)


def test_a_text_that_is_being_written_is_as_far_as_it_is_read():
    document = Document("Say **hel", is_open=True)
    assert document.take_changes() == 0
    document.append("lo**, say hello\n\nand")
    (said, hel) = words_of_known(document)
    assert (said, hel) == (("Say", 0), ("hel", 6))
    document.take_changes()
    places = [place for _word, place in words_of_known(document)]
    assert places == [0, 6, 15, 19, 26]


def words_of_known(document: Document) -> list[tuple[str, int | None]]:
    found = []
    for number, segment in enumerate(document.known_segments):
        for place, block in enumerate(document.blocks(segment)):
            found += [
                (match[0], source_of(document, Shown(number, place, *match.span())))
                for match in re.finditer(r"\w+", plain_text(block))
            ]
    return found


def test_letter_by_letter_a_place_is_where_it_stands():
    assert origins("a **b**\nc", is_plain=True) == [("a", 0), ("b", 4), ("c", 8)]


@pytest.mark.parametrize(
    ("source", "part", "expected"),
    [
        ("to **to** to", (4, 7), ["to"]),
        ("to **to** to", (3, 5), []),  # the marks themselves are not shown
        ("one. two", (3, 4), ["."]),
        ("one two", (3, 7), ["two"]),
        ("1. three", (0, 2), []),
        ("| a | b |\n|---|---|\n| c | d |\n", (24, 28), ["d"]),
        ("[link](https://link.example) link", (15, 19), []),
        ("end of one\n\nstart", (7, 17), ["one", "start"]),
        ("🙂🙂 ho", (1, 2), ["🙂"]),
        ("这是重点", (2, 3), ["重"]),
    ],
)
def test_a_part_of_the_source_is_found_where_it_is_shown(source, part, expected):
    document = Document(source)
    document.take_changes()
    shown = []
    for place in shown_of(document, *part):
        text = plain_text(document.blocks(document.segments[place.segment])[place.block])
        units = text.encode("utf-16-le")[2 * place.start : 2 * place.end]
        shown.append(units.decode("utf-16-le"))
    assert shown == expected


def test_there_and_back_is_the_same_place():
    source = "The **cat** sat. The `cat` | the cat\n\n- cat\n"
    document = Document(source)
    document.take_changes()
    for match in re.finditer("cat", source):
        (shown,) = shown_of(document, *match.span())
        assert source_of(document, shown) == match.start()
