"""Streams of bytes, cut anywhere, become the text that the whole would give."""

from __future__ import annotations

import codecs

import pytest
from each import each
from hypothesis import given, strategies as st

from app.engine.text.reasoning import ReasoningSplitter
from app.engine.text.text import CharacterStream, Match, ReplyText, StopMatcher

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
    whole = codecs.getincrementaldecoder("utf-8")("replace").decode(data)
    assert read_all([], cuts(data, sizes))[0] == whole


@each("text", ["🙂", "é", "模", "नी", "👩‍👩‍👧‍👦"])
@each("before", ["", "a", "<think>b", "<think>b</think>\n\nc", "c STO"])
def test_a_reply_that_is_cut_inside_a_character_ends_before_it(text: str, before: str) -> None:
    """N11. Nothing stands for what is missing; whoever goes on from there completes it."""
    data = text.encode()
    for at in range(1, len(data)):
        whole = data[:at].decode("utf-8", "ignore")
        content, reasoning = read_all(["STOP"], [before.encode(), data[:at]], splitter=True)
        assert (reasoning + content).endswith(
            before.rpartition("\n")[2].removeprefix("<think>") + whole
        )
        tail = data[len(whole.encode()) : at]
        going_on = ReplyText([], None, tail=tail)
        assert whole + "".join(piece for _, piece in going_on.feed(data[at:] + b"!").pieces) == (
            text + "!"
        )


def test_a_character_that_is_not_completed_after_all_is_none() -> None:
    going_on = ReplyText([], None, tail=b"\xf0\x9f")
    assert going_on.feed(b"no").pieces == [("content", "\ufffdno")]


@each("cut", range(1, 20))
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
