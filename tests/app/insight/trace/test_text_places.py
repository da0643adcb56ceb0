"""Where tokens stand in the text of their message, and back."""

from __future__ import annotations

import pytest

from app.insight.trace.message_tokens import MessageTokens
from app.insight.trace.text_places import TextPart, TextPlaces


def places(pieces: list[bytes], content: str, reasoning: str = "") -> TextPlaces:
    return TextPlaces(MessageTokens(before=pieces), reasoning, content)


def numbers(made: TextPlaces, text: str, part: str = "content") -> list[int | None]:
    return [made.token_at(part, at) for at in range(len(text))]  # type: ignore[arg-type]


def test_each_character_belongs_to_the_token_that_it_begins_in():
    text = "It is Paris"
    made = places([b"It", b" is", b" Par", b"is"], text)
    assert numbers(made, text) == [0, 0, 1, 1, 1, 2, 2, 2, 2, 3, 3]
    assert made.token_at("content", len(text)) is None
    assert made.token_at("reasoning", 0) is None
    assert made.part_of(2) == TextPart("content", 5, 9)
    assert (made.part_of(-1), made.part_of(4)) == (None, None)


def test_a_character_of_several_tokens_begins_in_the_first_and_is_all_of_theirs():
    smile = "🙂".encode()
    made = places(
        [b"a ", smile[:2], smile[2:], "é".encode()[:1], "é".encode()[1:] + b"!"], "a 🙂é!"
    )
    assert numbers(made, "a 🙂é!") == [0, 0, 1, 3, 4]
    assert [made.part_of(number) for number in range(5)] == [
        TextPart("content", 0, 2),
        TextPart("content", 2, 3),
        TextPart("content", 2, 3),
        TextPart("content", 3, 4),
        TextPart("content", 3, 5),
    ]


def test_reasoning_and_content_lie_apart():
    pieces = [b"<think>", b"\n2", b"+2", b"\n</think>", b"\n\n", b"2", b"+2", b" is 4"]
    made = places(pieces, "2+2 is 4", "2+2")
    assert numbers(made, "2+2", "reasoning") == [1, 2, 2]
    assert numbers(made, "2+2 is 4") == [5, 6, 6, 7, 7, 7, 7, 7]
    assert (made.part_of(0), made.part_of(3), made.part_of(4)) == (None, None, None)
    assert made.part_of(1) == TextPart("reasoning", 0, 1)
    assert made.part_of(5) == TextPart("content", 0, 1)


def test_a_short_answer_is_not_found_in_a_tag():
    """While it grows it may be one letter, which the tags hold as well."""
    made = places([b"<think>\nhm\n</think>\n\n", b"t"], "t", "hm")
    assert made.token_at("content", 0) == 1
    assert made.token_at("reasoning", 0) == 0


def test_what_a_stop_string_ended_is_no_text():
    made = places([b"one", b" two", b" END"], "one two")
    assert numbers(made, "one two") == [0, 0, 0, 1, 1, 1, 1]
    assert made.part_of(2) is None


@pytest.mark.parametrize(
    ("pieces", "content"),
    [
        ([b"It is Paris"], "It was Paris"),  # the text was edited
        ([b"<|x|>", b"to", b"<|y|>", b"to"], "to"),  # either could be meant
        ([], "to"),
    ],
)
def test_where_nothing_says_so_there_is_no_place(pieces, content):
    made = places(pieces, content)
    assert made.token_at("content", 0) is None
    assert [made.part_of(number) for number in range(len(pieces))] == [None] * len(pieces)


@pytest.mark.parametrize(
    ("pieces", "expected"),
    [
        ([b"hi ", b"\xf0\x9f", b"\x98", b" there"], [0, 0, 0, 1, 3, 3, 3, 3, 3, 3]),
        ([b"hi ", b"\xff", b"\xfe\xff"], [0, 0, 0, 1, 2, 2]),
        ([b"a\xe2", b"\x82", b"b \xed\xa0\x80 c"], [0, 0, *[2] * 7]),
        ([b"\xc3", b"\xa9t\xc3", b" e"], [0, 1, 1, 2, 2]),
    ],
)
def test_a_character_that_was_broken_off_moves_nothing_behind_it(pieces, expected):
    """A model may begin an emoji and go on with something else; the text has one U+FFFD for it."""
    text = b"".join(pieces).decode("utf-8", "replace")
    made = places(pieces, text)
    assert numbers(made, text) == expected
    for number, piece in enumerate(pieces):
        part = made.part_of(number)
        shown = piece.decode("utf-8", "ignore")
        assert set(shown) <= set(text[part.start : part.end])


def test_bytes_that_are_no_text_keep_their_place():
    made = places([b"a", b"\xff", b"b"], "a\ufffdb")
    assert numbers(made, "a\ufffdb") == [0, 1, 2]


def test_what_stands_behind_the_text_begins_with_a_token():
    call = [b"\n", b"<tool_call>", b"\n{", b"}</tool_call>"]
    assert places([b"Wait", b".", *call], "Wait.").behind == 3
    thought = [b"<think>", b"Hm", b"</think>", b"\n\n"]
    assert places([*thought, *call], "", "Hm").behind == 5
    assert places(call, "").behind == 1
    assert places([b"Wait", b".", b"\n"], "Wait.").behind is None
