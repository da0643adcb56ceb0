"""The best cut against all cuts that there are."""

from __future__ import annotations

from array import array
from collections.abc import Iterator

import pytest
from hypothesis import given, strategies as st

from app.gguf.vocabulary import CONTROL, NORMAL, USER_DEFINED, FileVocabulary
from app.insight.tokenizer.unigram import best_cut, normalised


def vocabulary(scores: dict[str, float], **fields: bool) -> FileVocabulary:
    return FileVocabulary(
        model="t5",
        pre="",
        tokens=tuple(scores),
        types=bytes([NORMAL] * len(scores)),
        scores=array("f", scores.values()),
        merges=(),
        add_space_prefix=fields.get("add_space_prefix", False),
        merges_spaces=fields.get("merges_spaces", False),
    )


def all_cuts(text: str) -> Iterator[tuple[str, ...]]:
    if not text:
        yield ()
    for end in range(1, len(text) + 1):
        for rest in all_cuts(text[end:]):
            yield (text[:end], *rest)


PIECES = st.dictionaries(
    st.text(alphabet="ab", min_size=1, max_size=4),
    st.integers(-20, -1).map(float),
    max_size=8,
)


@given(text=st.text(alphabet="ab", max_size=8), pieces=PIECES)
def test_no_other_cut_has_a_better_sum(text: str, pieces: dict[str, float]) -> None:
    scores = {"a": -12.0, "b": -15.0, **pieces}
    cut = [piece for piece, _ in best_cut(text, vocabulary(scores))]
    assert "".join(cut) == text
    best = max(
        (sum(scores[piece] for piece in each), each)
        for each in all_cuts(text)
        if all(piece in scores for piece in each)
    )
    assert sum(scores[piece] for piece in cut) == best[0]


def test_what_no_token_spells_is_unknown_and_neighbours_are_one() -> None:
    found = best_cut("axyb", vocabulary({"a": -1.0, "b": -1.0}))
    assert found == [("a", 0), ("xy", None), ("b", 1)]
    assert best_cut("xx", vocabulary({})) == [("xx", None)]


def test_control_tokens_are_not_looked_for_and_user_defined_ones_cost_nothing() -> None:
    words = vocabulary({"a": -1.0, "aa": -1.5, "aaa": -99.0})
    odd = FileVocabulary(
        "t5", "", words.tokens, bytes([NORMAL, CONTROL, USER_DEFINED]), words.scores, (), False
    )
    assert best_cut("aa", odd) == [("a", 0), ("a", 0)]
    assert best_cut("aaa", odd) == [("aaa", 2)]


@pytest.mark.parametrize(
    ("text", "fields", "wanted"),
    [
        ("a b", {}, "a▁b"),
        ("a  b ", {}, "a▁▁b▁"),
        ("a b", {"add_space_prefix": True}, "▁a▁b"),
        (" a", {"add_space_prefix": True}, "▁▁a"),
        ("  ", {"add_space_prefix": True}, "▁▁"),
        ("  a  b ", {"merges_spaces": True}, "▁a▁b"),
        ("", {"add_space_prefix": True}, ""),
    ],
)
def test_spaces(text: str, fields: dict[str, bool], wanted: str) -> None:
    assert normalised(text, vocabulary({"a": -1.0}, **fields)) == wanted
