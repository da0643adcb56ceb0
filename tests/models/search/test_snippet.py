"""The line around a match, and the marks in it."""

from __future__ import annotations

from each import each
from hypothesis import given, strategies as st

from models.search.snippet import Matcher, fold


def marked(words: str, text: str) -> list[str]:
    line = Matcher(words).snippet(text)
    return [line.text[start:end] for start, end in line.marks]


@each(
    ("words", "text", "expected"),
    [
        ("rain", "Rain, raining, train, rain", ["Rain", "rain", "rain"]),
        ('"rain"', "Rain, raining, train", ["Rain"]),
        ("rain wind", "wind and rain and winds", ["wind", "rain", "wind"]),
        ('"big wind" x', "a big wind, big", ["big wind"]),
        ('"big wind', "a big\n  windy day", ["big wind"]),
        ("cafe", "the Café", ["Café"]),
        ("café", "the cafe", ["cafe"]),
        ("cafe", "the cafe\u0301", ["cafe\u0301"]),
        ("北京", "我爱北京天安门", ["北京"]),
        ("京", "北京, 东京", ["京", "京"]),
        ("foo.bar", "call foo.bar()", ["foo.bar"]),
        ("absent", "nothing here", []),
        ("++", "c++", ["++"]),
        ("c++", "C++, cc", ["C++"]),
        ("🙂 fine", "🙂 all fine", ["🙂", "fine"]),
        ("한국", "한국어", ["한국"]),
        ('"GPT"', "GPT模型, GPTs, 北GPT", ["GPT", "GPT"]),
        ('"cafe"', "cafe\u0301s, cafe\u0301", ["cafe\u0301"]),
        ('"a b"', "xa b a b", ["a b"]),
        ('"rain"', "rain, " + "y" * 152 + " rainy", ["rain"]),
        ("GPT模", "the GPT 模型", ["GPT 模"]),
        ("型v2", "模型v2, 型 v2.1", ["型v2", "型 v2"]),
    ],
)
def test_marks(words: str, text: str, expected: list[str]) -> None:
    assert marked(words, text) == expected


def test_one_line_around_the_word() -> None:
    long = "word " * 100 + "here\nis the\tplace " + "word " * 100
    line = Matcher("place").snippet(long)
    assert line.text.startswith("…")
    assert line.text.endswith("…")
    assert "here is the place word" in line.text
    assert len(line.text) < 200
    assert [line.text[a:b] for a, b in line.marks] == ["place"]


def test_short_texts_are_whole() -> None:
    assert Matcher("absent").snippet("short").text == "short"
    assert Matcher("[bracket").snippet("a [bracket] (").text == "a [bracket] ("
    assert Matcher("").snippet("").text == ""


@given(st.text(max_size=400), st.text(max_size=8))
def test_any_text_gives_one_line_with_marks_inside(text: str, words: str) -> None:
    line = Matcher(words).snippet(text)
    assert "\n" not in line.text
    assert "\0" not in line.text
    assert len(line.text) <= 163
    ends = [place for mark in line.marks for place in mark]
    assert ends == sorted(ends)
    assert all(0 <= place <= len(line.text) for place in ends)
    assert all(start < end for start, end in line.marks)


@given(st.text(max_size=100))
def test_folding_keeps_every_place(text: str) -> None:
    assert len(fold(text)) == len(text)
