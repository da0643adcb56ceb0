"""Words that have no room: cut with an ellipsis, or by whole parts."""

from __future__ import annotations

from pytestqt.qtbot import QtBot

from ui.widgets.elided import ElidedLabel, PartsLabel

WORDS = "Enter to send · Shift+Enter for a new line"


def shown_at(qtbot: QtBot, label: ElidedLabel, width: int) -> str:
    qtbot.addWidget(label)
    label.resize(width, 30)
    label.set_text(WORDS)
    return label.shown_text()


def width_of(words: str) -> int:
    return PartsLabel().fontMetrics().horizontalAdvance(words)


def test_what_fits_is_shown_whole(qtbot: QtBot) -> None:
    label = PartsLabel()
    assert shown_at(qtbot, label, width_of(WORDS) + 4) == WORDS
    assert label.toolTip() == ""


def test_a_part_leaves_whole_and_the_rest_is_in_the_tooltip(qtbot: QtBot) -> None:
    label = PartsLabel()
    assert shown_at(qtbot, label, width_of(WORDS) - 4) == "Enter to send"
    assert label.text() == label.toolTip() == WORDS


def test_the_last_part_is_cut(qtbot: QtBot) -> None:
    words = shown_at(qtbot, PartsLabel(), width_of("Enter to send") - 4)
    assert words.endswith("…")
    assert words.startswith("Enter")


def test_a_title_is_cut_where_it_ends(qtbot: QtBot) -> None:
    words = shown_at(qtbot, ElidedLabel(), width_of(WORDS) - 4)
    assert words.endswith("…")
    assert "Shift" in words


def test_a_tooltip_is_no_markup(qtbot: QtBot) -> None:
    label = ElidedLabel()
    qtbot.addWidget(label)
    label.resize(30, 30)
    label.set_text("<b>A long name of a server</b>")
    assert "&lt;b&gt;A long" in label.toolTip()
