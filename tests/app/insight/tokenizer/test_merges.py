"""Merges one by one: they end where llama.cpp ends, and each is the one that the rules ask for."""

from __future__ import annotations

import math
from array import array
from collections.abc import Sequence
from dataclasses import replace as with_changes
from itertools import pairwise

import pytest
from hypothesis import given, strategies as st

from app.gguf.vocabulary import BYTE, CONTROL, NORMAL, USER_DEFINED, FileVocabulary
from app.insight.tokenizer.merges import (
    MAX_CHARACTERS,
    NOT_THE_SAME,
    TOO_LONG,
    NotReplayed,
    Replay,
    byte_name,
    merge,
    partition,
    replay,
    spelled,
    unspelled,
)

MERGES = ("h e", "l l", "he ll", "hell o", "Ġ w", "o r", "Ġw or", "Ġwor ld", "l d")


def bpe(merges: Sequence[str] = MERGES, pre: str = "smollm", **fields: object) -> FileVocabulary:
    letters = [spelled(bytes((byte,))) for byte in range(256)]
    tokens = ["<|end|>", *letters, *(each.replace(" ", "") for each in merges)]
    types = bytes([CONTROL] + [NORMAL] * (len(tokens) - 1))
    found = FileVocabulary("gpt2", pre, tuple(tokens), types, array("f"), tuple(merges), False)
    return with_changes(found, **fields)


def sentencepiece(pieces: dict[str, float], **fields: object) -> FileVocabulary:
    tokens = ["<s>", *(byte_name(byte) for byte in range(256)), *pieces]
    types = bytes([CONTROL] + [BYTE] * 256 + [NORMAL] * len(pieces))
    scores = array("f", [0.0] * 257 + list(pieces.values()))
    found = FileVocabulary("llama", "default", tuple(tokens), types, scores, (), False)
    return with_changes(found, **fields)


def texts(found: Replay, count: int) -> list[bytes]:
    return [part.data for part in found.parts_after(count)]


def test_the_lesson_s_example() -> None:
    vocabulary = bpe()
    found = replay("hello", [vocabulary.ids["hello"]], vocabulary)
    assert [b" ".join(texts(found, count)) for count in range(5)] == [
        b"h e l l o",
        b"he l l o",
        b"he ll o",
        b"hell o",
        b"hello",
    ]
    assert [step.rank for step in found.steps] == [0, 1, 2, 3]
    assert found.words_from == "rule"


def test_no_merge_crosses_the_border_of_a_word() -> None:
    vocabulary = bpe((*MERGES, "o Ġ"))
    ids = [vocabulary.ids["hello"], vocabulary.ids["Ġw"], *(vocabulary.ids[c] for c in "e")]
    found = replay("hello we", ids, vocabulary)
    assert texts(found, len(found.steps)) == [b"hello", b" w", b"e"]
    assert [part.word for part in found.start] == [0] * 5 + [1] * 3


def test_sentencepiece_takes_the_best_score_first_and_falls_back_to_bytes() -> None:
    vocabulary = sentencepiece(
        {"a": -9, "b": -9, "c": -9, "ab": -2, "bc": -1, "▁": -9, "▁a": -3},
    )
    ids = vocabulary.ids
    euro = [ids[byte_name(byte)] for byte in "€".encode()]
    found = replay("abc a€", [ids["a"], ids["bc"], ids["▁a"], *euro], vocabulary)
    assert texts(found, 1) == [b"a", b"bc", b" ", b"a", "€".encode()]
    assert [step.score for step in found.steps] == [-1, -3, None]
    assert texts(found, 3) == [b"a", b"bc", b" a", b"\xe2", b"\x82", b"\xac"]
    assert found.words_from == "text"


def test_the_space_that_a_vocabulary_puts_before_texts() -> None:
    vocabulary = sentencepiece({"a": -9, "▁": -9, "▁a": -3}, add_space_prefix=True)
    found = replay("a", [vocabulary.ids["▁a"]], vocabulary)
    assert (found.words_from, texts(found, 0)) == ("text", [b" ", b"a"])


def test_tokens_that_are_found_whole_are_taken_out_first() -> None:
    vocabulary = bpe()
    end, hello = vocabulary.ids["<|end|>"], vocabulary.ids["hello"]
    assert partition("a<|end|>b", vocabulary, special=True) == ["a", end, "b"]
    assert partition("a<|end|>b", vocabulary, special=False) == ["a<|end|>b"]
    found = replay("hello<|end|>hello", [hello, end, hello], vocabulary, special=True)
    assert [part.is_whole for part in found.parts_after(8)] == [False, True, False]
    own = with_changes(vocabulary, types=bytes([USER_DEFINED]) + vocabulary.types[1:])
    assert partition("<|end|>", own, special=False) == [end]


def test_the_longest_of_them_wins() -> None:
    tokens = ("<a>", "<a><b>", "<b>")
    own = FileVocabulary("gpt2", "", tokens, bytes([USER_DEFINED] * 3), array("f"), (), False)
    assert partition("<b><a><b><a>", own, special=False) == [2, 1, 0]


def test_where_the_rule_is_not_known_each_token_is_replayed_by_itself() -> None:
    vocabulary = bpe(pre="a rule of tomorrow")
    ids = [vocabulary.ids[piece] for piece in ("hello", "Ġworld")]
    found = replay("hello world", ids, vocabulary)
    assert found.words_from == "tokens"
    assert found.ids == ids
    assert [step.rank for step in found.steps] == [0, 1, 2, 3, 4, 5, 6, 8, 7]


def test_a_wrong_end_is_never_shown() -> None:
    vocabulary = bpe()
    with pytest.raises(NotReplayed, match=NOT_THE_SAME[:40]):
        replay("hello", [999_999], vocabulary)
    other = replay("hello", [vocabulary.ids[c] for c in "hello"], vocabulary)
    assert (other.words_from, other.steps) == ("tokens", ()), "llama.cpp's own end is the truth"


def test_what_is_not_offered_is_said() -> None:
    with pytest.raises(NotReplayed, match="another kind: bert"):
        replay("x", [1], bpe(model="bert"))
    with pytest.raises(NotReplayed, match=TOO_LONG[:20]):
        replay("x" * (MAX_CHARACTERS + 1), [1], bpe())


@given(st.text(alphabet="helo wrd", max_size=30))
def test_each_merge_is_the_cheapest_that_there_is(text: str) -> None:
    ranks = {pair: rank for rank, pair in enumerate(MERGES)}

    def cost(left: str, right: str) -> float:
        return ranks.get(f"{left} {right}", math.inf)

    parts = list(spelled(text.encode()))
    for at, joined, paid in merge(parts, cost):
        every = [(cost(left, right), place) for place, (left, right) in enumerate(pairwise(parts))]
        assert (paid, at) == min(every)
        parts[at : at + 2] = [joined]
    assert all(math.isinf(cost(left, right)) for left, right in pairwise(parts))


@given(st.binary())
def test_bytes_are_spelled_without_loss(data: bytes) -> None:
    text = spelled(data)
    assert unspelled(text) == data
    assert len(text) == len(data)
    assert " " not in text


ODD = ["<0xZZ>", "<0x41>", "<0x>", "", " ", "a", "b", "ab", "▁", "Ġ", "aĠ", "\ufffd", "<s>"]


@st.composite
def odd_vocabularies(draw: st.DrawFn) -> FileVocabulary:
    tokens = tuple(draw(st.lists(st.sampled_from(ODD), max_size=12)))
    n = len(tokens)
    scores = st.sampled_from([0.0, -1.0, math.nan, math.inf, -math.inf])
    return FileVocabulary(
        model=draw(st.sampled_from(["gpt2", "llama"])),
        pre=draw(st.sampled_from(["smollm", "llama-bpe", "?"])),
        tokens=tokens,
        types=bytes(draw(st.lists(st.integers(1, 6), min_size=n, max_size=n))),
        scores=array("f", draw(st.lists(scores, min_size=n, max_size=n) | st.just([]))),
        merges=tuple(draw(st.lists(st.sampled_from(["a b", "ab", " ", "", "Ġ a", "a  b"])))),
        add_space_prefix=draw(st.booleans()),
    )


@given(
    text=st.text(alphabet="ab <s>é", max_size=12),
    ids=st.lists(st.integers(-2, 14), max_size=8),
    vocabulary=odd_vocabularies(),
    special=st.booleans(),
)
def test_whatever_a_file_says_the_end_is_llama_cpp_s_or_there_is_none(
    text: str, ids: list[int], vocabulary: FileVocabulary, special: bool
) -> None:
    try:
        found = replay(text, ids, vocabulary, special=special)
    except NotReplayed:
        return
    assert found.ids == ids
