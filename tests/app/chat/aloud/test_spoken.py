"""Markdown that grows, as it is said: whole sentences, once, and nothing but speech."""

from __future__ import annotations

import random

from each import each
from examples import examples
from hypothesis import given, settings, strategies as st

from app.chat.aloud.spoken import MAX_CHARS, SpokenText, sentences

TEXT = """# Rain in Paris

It **rains** in Paris. Dr. Meier measured 3.14 mm at 8 p.m. today! See https://www.example.com/a?b=c#d.

1. Take an *umbrella*
2. Stay at home. Really.

```python
print("not said. never.")
```

| a | b |
|---|---|
| 1 | 2 |

$$E = mc^2 + x$$

The end: $x$ and $\\frac{1}{2}$, with `code` and a [link](https://example.org/long).
"""
SAID = [
    "Rain in Paris",
    "It rains in Paris.",
    "Dr. Meier measured 3.14 mm at 8 p.m. today!",
    "See example.com.",
    "Take an umbrella",
    "Stay at home.",
    "Really.",
    "Code.",
    "Table.",
    "Formula.",
    "The end: x and formula, with code and a link.",
]


def said(*pieces: str) -> list[str]:
    spoken, found = SpokenText(), []
    for piece in pieces:
        spoken.append(piece)
        found += spoken.take()
    spoken.end()
    return found + spoken.take()


def test_it_says_words_and_names_the_rest() -> None:
    assert said(TEXT) == SAID


def test_however_it_comes_it_says_the_same() -> None:
    dice = random.Random(7)
    assert said(*TEXT) == SAID
    for _ in range(10):
        cuts = sorted(dice.sample(range(len(TEXT)), 12))
        pieces = [TEXT[a:b] for a, b in zip([0, *cuts], [*cuts, len(TEXT)], strict=True)]
        assert said(*pieces) == SAID


def test_a_sentence_comes_as_soon_as_it_is_sure() -> None:
    spoken = SpokenText()
    spoken.append("It rains. It is 3.")
    assert spoken.take() == ["It rains."]
    spoken.append("14 mm")
    assert spoken.take() == []
    spoken.append(" deep. And")
    assert spoken.take() == ["It is 3.14 mm deep."]


@each(
    ("text", "expected"),
    [
        ("Hi! How are you? Fine…", ["Hi!", "How are you?", "Fine…"]),
        ("J. R. R. Tolkien, e.g. here.", ["J. R. R. Tolkien, e.g. here."]),
        ("Am 3. Mai, z.B. um 8 Uhr. Ja.", ["Am 3. Mai, z.B. um 8 Uhr.", "Ja."]),
        ("北京很大。上海也很大！对吗？", ["北京很大。", "上海也很大！", "对吗？"]),
        ("He said “Go.” Then he went.", ["He said “Go.”", "Then he went."]),
        ("one\ntwo", ["one", "two"]),
        ("🙂 ***", []),
        ("", []),
        ("[[rate 500]] loud", ["[rate 500] loud"]),
        ("a\x00b\u202ec", ["a b c"]),
    ],
)
def test_where_a_sentence_ends(text: str, expected: list[str]) -> None:
    assert list(sentences(text)) == expected


@settings(max_examples=examples(100))
@given(st.text(max_size=400))
def test_no_piece_is_too_long_or_more_than_a_line(text: str) -> None:
    for piece in sentences(text * 3):
        assert 0 < len(piece) <= MAX_CHARS
        assert len(piece.splitlines()) == 1
        assert piece.strip() == piece
