"""Tokens as they are shown: nothing invisible, nothing lost, characters whole."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, strategies as st
from whole_characters import groups

from app.engine.protocol.frames import Array
from app.engine.protocol.messages import StageEffect, TokenTrace
from app.insight.trace.tokens_shown import (
    TINTS,
    hexadecimal,
    strength,
    surprise_at_draw,
    visible,
)

NONE = Array("i4", [0], b"")


def token(**fields: object) -> TokenTrace:
    values: dict[str, object] = {
        "index": 0,
        "token_id": 1,
        "piece": b"x",
        "logprob": -1.0,
        "rank": 1,
        "entropy": 1.0,
        "alternative_ids": NONE,
        "alternative_logprobs": NONE,
        "stages": [],
        "ms": 10.0,
    }
    return TokenTrace(**{**values, **fields})  # type: ignore[arg-type]


TEXTS = ["Tür", "👩‍👩‍👧‍👦 family", "汉字 and kana かな", "a\r\n\tb", "\u200b\u202e", "e\u0301"]


@given(text=st.sampled_from(TEXTS), sizes=st.lists(st.integers(1, 5), min_size=1))
def test_groups_spell_whole_characters_however_the_text_is_cut(text: str, sizes: list[int]) -> None:
    data, pieces, at = text.encode(), [], 0
    while at < len(data):
        size = sizes[at % len(sizes)]
        pieces.append(data[at : at + size])
        at += size
    found = groups(pieces)
    assert [one.first for one in found] == [0, *(one.end for one in found[:-1])]
    assert found[-1].end == len(pieces)
    for one in found:
        b"".join(pieces[one.first : one.end]).decode("utf-8")
    assert "".join(one.text for one in found) == visible(data)
    # No group could be cut: a shorter beginning of it ends inside a character.
    for one in found:
        for end in range(one.first + 1, one.end):
            with pytest.raises(UnicodeDecodeError):
                b"".join(pieces[one.first : end]).decode("utf-8")


@given(pieces=st.lists(st.binary(max_size=6), max_size=12))
def test_any_bytes_are_shown_once(pieces: list[bytes]) -> None:
    found = groups(pieces)
    covered = [at for one in found for at in range(one.first, one.end)]
    assert covered == list(range(len(pieces)))
    assert all(character.isprintable() for one in found for character in one.text)


def test_bytes_that_are_no_character_are_numbers() -> None:
    assert [one.text for one in groups([b"\xe2\x82", b"x", b"\xff\xfe"])] == [
        "⟨E2⟩⟨82⟩",
        "x",
        "⟨FF⟩⟨FE⟩",
    ]
    assert groups([b"a\nb"])[0].breaks_line
    assert hexadecimal("€".encode()) == "E2 82 AC"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\ufe0f", "⟨U+FE0F⟩"),
        ("\ufe00\U000e0101", "⟨U+FE00⟩⟨U+E0101⟩"),
        ("❤\ufe0f", "❤\ufe0f"),
        ("❤\ufe0f\ufe0f!", "❤\ufe0f⟨U+FE0F⟩!"),
        ("葛\U000e0100", "葛\U000e0100"),
    ],
)
def test_a_selector_that_belongs_to_no_character_is_a_number(text: str, shown: str) -> None:
    assert visible(text.encode()) == shown


def test_a_tint_is_none_where_nothing_is_recorded() -> None:
    plain = token()
    assert strength(plain, "surprise") is None
    assert strength(plain, "time") is None
    assert strength(token(logprob=math.nan), "probability") is None
    assert surprise_at_draw(token(stages=[StageEffect("dist", 4, 0.25)])) == 2.0


@pytest.mark.parametrize("tint", TINTS)
def test_tints_grow_from_sure_to_unsure_within_bounds(tint: str) -> None:
    def made(level: float) -> TokenTrace:
        return token(
            logprob=-level,
            rank=1 + round(level * 100),
            entropy=level,
            ms=level * 5,
            stages=[StageEffect("dist", 9, math.exp(-level))],
        )

    found = [strength(made(level), tint, 10.0) for level in (0.0, 0.5, 2.0, 8.0, 50.0)]  # type: ignore[arg-type]
    assert found == sorted(found)
    assert found[0] == 0.0
    assert found[-1] == pytest.approx(1.0)
