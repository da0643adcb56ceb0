"""Groups that grow are those of the whole, however the tokens come."""

from __future__ import annotations

import random

import pytest
from each import each
from whole_characters import groups

from app.insight.trace.token_groups import EMPTY, Groups, Spelling
from app.insight.trace.tokens_shown import visible

TEXTS = (
    "The capital of France is Paris.\n\n",
    "Tür auf: 🙂 und 👩‍🚀, 日本語\tعربى\r\n",
    "a\u200bb\u00a0c",
)


def cut(data: bytes, rng: random.Random) -> list[bytes]:
    """Anywhere, as byte tokens do, with an empty piece now and then."""
    pieces = []
    while data:
        size = rng.randint(1, 4)
        pieces.append(data[:size])
        data = data[size:]
        if rng.random() < 0.05:
            pieces.append(b"")
    return pieces


@each("seed", range(40))
def test_fed_in_any_portions_it_is_what_the_whole_gives(seed: int) -> None:
    rng = random.Random(seed)
    data = rng.choice(TEXTS).encode() + rng.randbytes(12) + rng.choice(TEXTS).encode()
    pieces = cut(data, rng)
    whole = groups(pieces)
    found, start = Groups(), 0
    while start < len(pieces):
        end = min(start + rng.randint(1, 7), len(pieces))
        before = list(found.spellings)
        changed = found.feed(pieces[start:end])
        assert found.spellings[:changed] == before[:changed]
        start = end
    shown = [(found.firsts[i], found.end_of(i)) for i in range(len(found))]
    assert shown == [(one.first, one.end) for one in whole]
    assert [one.shown for one in found.spellings] == [one.text or EMPTY for one in whole]
    assert [one.breaks_line for one in found.spellings] == [one.breaks_line for one in whole]
    for token in range(len(pieces)):
        group = whole[found.group_of(token)]
        assert group.first <= token < group.end


@pytest.mark.parametrize("data", [b" a\n", "ü🙂\u200b".encode(), b"\xff\xfe", b"a\xe2b", b"\t"])
def test_a_spelling_is_the_text_and_what_is_visible_of_it(data: bytes) -> None:
    one = Spelling(data)
    assert one.shown == visible(data)
    assert one.raw == "".join(
        "\ufffd" if "\udc80" <= c <= "\udcff" else c
        for c in data.decode("utf-8", "surrogateescape")
    )
    assert one.length == len(one.raw.encode("utf-16-le")) // 2
    assert (one.shown_at(0), one.shown_at(one.length)) == (0, len(one.shown))
    marked = "".join(one.shown[start:end] for start, end in one.marks)
    kept = [c for c in data.decode("utf-8", "surrogateescape") if visible_one(c) == c]
    unmarked = list(one.shown)
    for start, end in reversed(one.marks):
        del unmarked[start:end]
    assert unmarked == kept
    assert len(marked) + len(kept) == len(one.shown)


def visible_one(character: str) -> str:
    return visible(character.encode("utf-8", "surrogateescape"))


def test_positions_count_utf16_units_and_follow_marks() -> None:
    one = Spelling("🙂\u200bx".encode())
    assert [one.shown_at(at) for at in range(5)] == [0, 0, 1, 1 + len("⟨U+200B⟩"), 10]


def test_a_piece_without_bytes_can_be_seen() -> None:
    found = Groups()
    found.feed([b"a", b"", b"b"])
    assert [one.shown for one in found.spellings] == ["a", EMPTY, "b"]
    assert "".join(one.raw for one in found.spellings) == "ab"
