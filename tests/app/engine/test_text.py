"""Streams of bytes, cut anywhere, become the text that the whole would give."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from app.engine.text import (
    CharacterStream,
    Match,
    ReasoningSplitter,
    ReplyText,
    StopMatcher,
    opened_reasoning,
    unclosed_reasoning,
)

AWKWARD = [
    "🙂",
    "👩‍👩‍👧‍👦",
    "🇩🇪🇫🇷",
    "模型是一个",
    "नमस्ते",
    "e\u0301",
    "\u0000",
    "a\tb\r\n",
    "\ufeffx",
    "ﷺ",
    "￿",
]


def cuts(data: bytes, sizes: list[int]) -> list[bytes]:
    """Cut `data` into pieces of the given sizes, the last piece being what is left."""
    pieces, at = [], 0
    for size in sizes:
        pieces.append(data[at : at + size])
        at += size
    return [*pieces, data[at:]]


def read_all(stops: list[str], pieces: list[bytes], splitter: bool = False) -> tuple[str, str]:
    """Feed all pieces; return (content, reasoning) as the events would join them."""
    reply = ReplyText(stops, ReasoningSplitter() if splitter else None)
    shown = {"content": "", "reasoning": ""}
    for piece in pieces:
        reading = reply.feed(piece)
        for part, text in reading.pieces:
            shown[part] += text
        if reading.stop is not None:
            break
    for part, text in reply.flush().pieces:
        shown[part] += text
    assert (shown["content"], shown["reasoning"]) == (reply.content, reply.reasoning)
    return shown["content"], shown["reasoning"]


@given(st.text(), st.lists(st.integers(0, 4)))
def test_valid_text_never_shows_a_replacement_sign(text: str, sizes: list[int]) -> None:
    """B01."""
    stream = CharacterStream()
    shown = [stream.feed(piece) for piece in cuts(text.encode(), sizes)]
    assert "".join(shown) == text
    assert stream.flush() == ""
    if "\ufffd" not in text:
        assert not any("\ufffd" in piece for piece in shown)


@pytest.mark.parametrize("text", AWKWARD)
def test_every_single_cut_of_an_awkward_string(text: str) -> None:
    """B01."""
    data = text.encode()
    for at in range(len(data) + 1):
        assert read_all([], [data[:at], data[at:]]) == (text, "")
    assert read_all([], [bytes([byte]) for byte in data]) == (text, "")


@given(st.binary(max_size=60), st.lists(st.integers(0, 3)))
def test_bytes_that_are_no_text_equal_the_whole_decoded(data: bytes, sizes: list[int]) -> None:
    assert read_all([], cuts(data, sizes))[0] == data.decode("utf-8", "replace")


def test_unfinished_character_at_the_end_is_replaced_only_there() -> None:
    stream = CharacterStream()
    assert stream.feed(b"a\xe2\x82") == "a"
    assert stream.flush() == "\ufffd"


@pytest.mark.parametrize("cut", range(1, 20))
def test_stop_string_over_tokens_is_never_shown(cut: int) -> None:
    """B10."""
    text = "alpha beta gamma delta"
    matcher = StopMatcher(["beta gamma"])
    shown = matcher.feed(text[:cut]) + matcher.feed(text[cut:]) + matcher.flush()
    assert shown == "alpha "
    assert matcher.matched == Match("stop_string", "beta gamma")


def test_near_miss_is_flushed() -> None:
    """B10."""
    matcher = StopMatcher(["beta gamma"])
    assert matcher.feed("beta gam") == ""
    assert matcher.flush() == "beta gam"
    assert matcher.matched is None


def test_the_match_that_ends_first_wins_whatever_the_cut() -> None:
    for pieces in (["abcd"], ["ab", "cd"], ["a", "b", "c", "d"]):
        matcher = StopMatcher(["abcd", "bc", "c"])
        assert "".join(matcher.feed(piece) for piece in pieces) == "a"
        assert matcher.matched == Match("stop_string", "bc")


@given(
    st.text("abc", max_size=30),
    st.lists(st.text("abc", min_size=1, max_size=4), max_size=4),
    st.lists(st.integers(0, 4)),
)
def test_stop_strings_do_not_depend_on_the_cut(
    text: str, stops: list[str], sizes: list[int]
) -> None:
    whole = read_all(stops, [text.encode()])[0]
    assert read_all(stops, cuts(text.encode(), sizes))[0] == whole
    assert not any(stop in whole for stop in stops)
    assert text.startswith(whole)


REASONING_CASES = [
    ("plain answer", "plain answer", ""),
    ("\n\n  indented", "\n\n  indented", ""),
    ("<think>a b</think>answer", "answer", "a b"),
    ("\n\n<think>\na b\n</think>\n\nanswer\n", "answer\n", "a b"),
    ("<think>never closed", "", "never closed"),
    ("</think>\n\nanswer", "answer", ""),
    ("thoughts</think>answer", "thoughts</think>answer", ""),
    ("<think>a<think>b</think>c", "c", "a<think>b"),
    ("```\n<think>code</think>\n```", "```\n<think>code</think>\n```", ""),
    ("<think></think>answer", "answer", ""),
    ("<thinking>a</thinking>b", "b", "a"),
    ("[THINK]a[/THINK]b", "b", "a"),
    ("<thin", "<thin", ""),
    ("  \n", "  \n", ""),
    ("<think>a < b </thin", "", "a < b </thin"),
    ("<table>", "<table>", ""),
    ("<think>x\n\n\ny</think>z</think>", "z</think>", "x\n\n\ny"),
]


@pytest.mark.parametrize(("text", "content", "reasoning"), REASONING_CASES)
def test_reasoning_is_told_apart(text: str, content: str, reasoning: str) -> None:
    """B15."""
    data = text.encode()
    for size in (1, 2, 3, 7, 1000):
        pieces = [data[at : at + size] for at in range(0, len(data), size)]
        assert read_all([], pieces, splitter=True) == (content, reasoning)


@given(
    st.lists(
        st.sampled_from(["<think>", "</think>", "a", " ", "\n", "<", "thi", "🙂", "```"]),
        max_size=12,
    ),
    st.lists(st.integers(0, 5)),
)
def test_reasoning_does_not_depend_on_the_cut_and_loses_nothing(
    words: list[str], sizes: list[int]
) -> None:
    """B15."""
    text = "".join(words)
    whole = read_all([], [text.encode()], splitter=True)
    assert read_all([], cuts(text.encode(), sizes), splitter=True) == whole
    for letter in "a🙂`":
        assert sum(part.count(letter) for part in whole) == text.count(letter)


def test_unclosed_reasoning_is_reported() -> None:
    reply = ReplyText([], ReasoningSplitter())
    reply.feed(b"<think>hm")
    reply.flush()
    assert reply.reasoning_unclosed
    assert reply.reasoning == "hm"


def test_template_that_opened_the_tag_starts_inside() -> None:
    reply = ReplyText([], ReasoningSplitter(inside=True))
    reply.feed(b"\nhm\n</th")
    reply.feed(b"ink>\nyes")
    assert (reply.reasoning, reply.content) == ("hm", "yes")


def test_stop_string_inside_reasoning_ends_the_reply() -> None:
    assert read_all(["END"], [b"<think>a b E", b"ND c"], splitter=True) == ("", "a b ")


def test_open_tags_at_the_end_of_prompts() -> None:
    assert opened_reasoning("<|im_start|>assistant\n<think>\n") == "</think>"
    assert opened_reasoning("<|im_start|>assistant\n") is None
    assert opened_reasoning("<think>\n\n</think>\n\n") is None
    assert unclosed_reasoning("<think>half of a thou") == "</think>"
    assert unclosed_reasoning("<think>a</think>b") is None
    assert unclosed_reasoning("no tag") is None


def test_text_goes_back_to_a_mark_any_number_of_times() -> None:
    """Characters, stop strings and reasoning stand as they stood; what came since is forgotten."""
    for cut in range(1, 24):
        data = "<think>a🙂</think>\n\nb stop c".encode()
        text = ReplyText(["stop now"], ReasoningSplitter())
        text.feed(data[:cut])
        mark = text.mark()
        before = (text.content, text.reasoning)
        for other in (b"</think> stop now", data[cut:], b"\xf0\x9f stop"):
            text.feed(other)
            text.flush()
            text.restore(mark)
            assert (text.content, text.reasoning) == before
        text.feed(data[cut:])
        text.flush()
        assert (text.content, text.reasoning) == ("b stop c", "a🙂")


@given(st.text(alphabet="ab<", max_size=12), st.text(alphabet="ab<", max_size=12))
def test_what_was_said_before_stops_nothing_and_is_all_there(before: str, after: str) -> None:
    """Against the definition: a stop string counts where it ends behind the beginning, and begins
    behind the last one that ended in it."""
    stop = "ab<"
    text = ReplyText([stop], None)
    shown = "".join(piece for _, piece in text.begin(before.encode()))
    reading = text.feed(after.encode())
    shown += "".join(piece for _, piece in reading.pieces)
    if reading.stop is None:
        shown += "".join(piece for _, piece in text.flush().pieces)
    whole, free_from = before + after, before.rfind(stop) + len(stop) if stop in before else 0
    at = whole.find(stop, free_from)
    assert (reading.stop is not None) == (at >= 0)
    assert shown == (whole if at < 0 else whole[:at])


def test_a_beginning_may_end_inside_a_tag_or_a_character() -> None:
    text = ReplyText([], ReasoningSplitter())
    assert text.begin(b"<thi") == []
    assert text.begin("nk>Größe".encode()[:-2]) == [("reasoning", "Grö")]
    assert text.feed("ße</think>\n\nJa".encode()[1:]).pieces == [
        ("reasoning", "ße"),
        ("content", "Ja"),
    ]
