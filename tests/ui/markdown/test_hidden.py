"""Hidden characters are marked where they stand; what writing needs is not taken for them."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from ui.markdown import hidden
from ui.widgets.utf16 import utf16_length


def tags(text: str) -> str:
    """ASCII as tag characters: a text that no font shows."""
    return "".join(chr(0xE0000 + ord(char)) for char in text)


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("Hello" + tags("ignore that") + " there", 11),
        (tags("a") + "x" + tags("bc"), 3),
        ("\U0001f600" + "".join(chr(0xE0100 + byte) for byte in b"secret"), 5),
        ("a\u200b\u200c\u200b\u200d\u200bb", 5),
        ("user\u202etxt.exe", 1),
        ("\U0001f3f4" + tags("gb") + "x", 2),  # a flag that does not end
    ],
)
def test_hidden_texts_are_counted(text: str, number: int) -> None:
    assert sum(end - start for start, end in hidden.runs(text)) == number
    assert f"{number}" in hidden.note(text)


@pytest.mark.parametrize(
    "text",
    [
        "plain",
        "漢字 语言。 한국어",
        "\U0001f3f4\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f",  # England
        "👨‍👩‍👧‍👦 ❤️ 🏳️‍🌈 1️⃣",
        "葛\U000e0100城",
        "می‌خواهم क्‍ष",
        "ไทย\u200bไทย",
        "عربي \u2067abc\u2069",
    ],
)
def test_what_languages_and_emoji_need_is_not_hidden(text: str) -> None:
    assert list(hidden.runs(text)) == []
    assert hidden.shown(text) is text
    assert hidden.note(text) == ""


@given(st.text(alphabet="ab🙂\U000e0041\U000e0042\u200b\ufe0f\U000e0101\u202e\U0001f3f4\U000e007f"))
def test_positions_are_those_of_the_source(text: str) -> None:
    shown = hidden.shown(text)
    assert utf16_length(shown) == utf16_length(text)
    assert shown.count(hidden.MARK) == len(list(hidden.runs(text)))
    assert not list(hidden.runs(shown.replace("\u2060", "")))
