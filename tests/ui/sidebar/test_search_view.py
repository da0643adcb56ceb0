"""The rows of what was found: how texts are cut to them, and that they follow the theme."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from PySide6.QtGui import QImage, QTextCharFormat, QTextLayout
from pytestqt.qtbot import QtBot

from app.chat.events import SearchAnswered
from models.records import Role, SearchHit
from ui.look.theme import Theme
from ui.sidebar.search_model import SearchModel
from ui.sidebar.search_view import Face, SearchView, fitted

LONG = {
    "English": "the rain in Spain stays mainly in the plain, as everybody there will tell you. "
    * 3,
    "Chinese": "我爱北京天安门上太阳升" * 16,
    "one word": "x" * 200,
    "emoji": "😀🎉 rain " * 30,
    "Arabic": "المطر في الصباح جميل جدا " * 8,
    "narrow": "il.il " * 60,
}


@pytest.fixture
def face(theme: Theme) -> Face:
    return Face(theme.font_small())


def lines_of(layout: QTextLayout) -> int:
    """How many characters the lines hold (UTF-16)."""
    return sum(layout.lineAt(number).textLength() for number in range(layout.lineCount()))


@pytest.mark.parametrize("name", LONG)
@pytest.mark.parametrize("n_lines", [1, 2])
def test_a_long_text_fills_its_lines_and_ends_in_an_ellipsis(
    face: Face, name: str, n_lines: int
) -> None:
    text = LONG[name]
    # Broken at spaces; a text without them may be broken at any sign.
    parts = text.split(" ") if len(text.split(" ")) > 1 else list(set(text))
    longest_px = max(face.metrics.horizontalAdvance(f"{part} ") for part in parts)
    for width in range(80, 320, 7):
        layout = fitted(text, (), face, QTextCharFormat(), width, n_lines)
        shown = layout.text()
        assert layout.lineCount() == n_lines
        assert shown.endswith("…")
        assert text.startswith(shown[:-1])
        assert lines_of(layout) == len(shown.encode("utf-16-le")) // 2, "the ellipsis has no room"
        widths = [layout.lineAt(number).naturalTextWidth() for number in range(n_lines)]
        assert round(max(widths)) <= width
        assert min(widths) >= width - 2 * longest_px, "a word more would have had room"


def test_a_text_that_fits_is_whole(face: Face) -> None:
    for text in ("", "rain", "rain 😀 北京"):
        layout = fitted(text, (), face, QTextCharFormat(), 200, 2)
        assert layout.text() == text
        assert lines_of(layout) == len(text.encode("utf-16-le")) // 2


def test_marks_stand_where_the_words_stand_also_behind_an_emoji(face: Face) -> None:
    text = "😀 rain and wind " * 20
    marks = tuple((at, at + 4) for at in range(len(text)) if text.startswith("rain", at))
    layout = fitted(text, marks, face, QTextCharFormat(), 160, 2)
    units = layout.text().encode("utf-16-le")
    words = [
        units[2 * each.start : 2 * (each.start + each.length)].decode("utf-16-le")
        for each in layout.formats()
    ]
    assert len(words) > 1
    assert set(words[:-1]) == {"rain"}
    assert "rain".startswith(words[-1])


def test_the_rows_follow_the_theme(qtbot: QtBot, theme: Theme) -> None:
    """What the delegate keeps is made anew: as a view that is made afterwards."""

    def rows() -> SearchView:
        model = SearchModel()
        made = SearchView(theme, model)
        model.setParent(made)
        qtbot.addWidget(made)
        made.resize(240, 400)
        when = datetime(2025, 3, 4, tzinfo=UTC)
        hits = tuple(
            SearchHit("c", "Rain in Spain", when, "m", Role.USER, LONG["English"], ((4, 8),))
            for _ in range(3)
        )
        model.show_page(SearchAnswered("rain", hits, is_first=True))
        return made

    def picture(view: SearchView) -> QImage:
        return view.viewport().grab().toImage()

    theme.set_mode("light")
    view = rows()
    before = picture(view)
    for change in (lambda: theme.set_zoom(150), lambda: theme.set_mode("dark")):
        change()
        assert picture(view) != before
        assert picture(view) == picture(rows())
        before = picture(view)
