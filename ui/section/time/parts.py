"""What a reply's time went into: one row per part with its figures, and a sentence below each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from PySide6.QtCore import Qt
from PySide6.QtGui import QFont
from PySide6.QtWidgets import QFrame, QGridLayout, QLabel, QSizePolicy, QWidget

from app.insight.time.timeline import WRITING, Part
from ui.look.theme import Theme
from ui.section.term_label import ElidedTermLabel, TermLabel

HEADINGS: Final = ("Part", "ms", "%", "tokens", "tokens/s")
TOTAL: Final = "Total"
_RIGHT: Final = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter


def cells_of(part: Part) -> tuple[str, ...]:
    """Its row, below `HEADINGS`."""
    rate = part.tokens_per_s
    return (
        part.name,
        f"{part.ms:,.1f}",
        f"{100 * part.share:.1f}",
        f"{part.tokens:,}" if part.tokens else "",
        "" if rate is None else f"{rate:,.{0 if rate >= 100 else 1}f}",
    )


def as_csv(parts: Sequence[Part]) -> str:
    """All of it as comma-separated values, unrounded."""
    lines = ["part,ms,share,tokens,tokens_per_s"]
    for part in parts:
        rate = "" if part.tokens_per_s is None else f"{part.tokens_per_s:.3f}"
        lines.append(f"{part.name},{part.ms:.3f},{part.share:.6f},{part.tokens},{rate}")
    return "\n".join(lines) + "\n"


class TimeParts(QFrame):
    """A card. Rows are made anew only where there are other parts than before."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self.parts: tuple[Part, ...] = ()
        self._kinds: tuple[str, ...] = ()
        self._rows: list[list[QLabel]] = []
        self.setObjectName("time_parts")
        self.setAccessibleName("Time by part")
        self.setProperty("plane", "card")
        self._grid = QGridLayout(self)
        self._grid.setColumnStretch(0, 1)
        self._make_rows(())
        theme.space(self._grid, (8, 0), margins=12)

    def show_parts(self, parts: Sequence[Part], *, total_ms: float) -> None:
        self.parts = tuple(parts)
        kinds = tuple(part.kind for part in parts)
        if kinds != self._kinds:
            self._make_rows(kinds)
        n_tokens = sum(part.tokens for part in parts if part.kind in WRITING)
        total = (TOTAL, f"{total_ms:,.1f}", "100.0", f"{n_tokens:,}" if n_tokens else "", "")
        for row, cells in zip(self._rows, [*map(cells_of, parts), total], strict=True):
            for label, words in zip(row, cells, strict=True):
                label.setText(words)
            row[0].setAccessibleName(", ".join(_spoken(cells)))

    def _make_rows(self, kinds: tuple[str, ...]) -> None:
        while (item := self._grid.takeAt(0)) is not None:
            widget = item.widget()
            if widget is not None:
                widget.hide()
                widget.deleteLater()
        self._kinds, self._rows = kinds, []
        for column, words in enumerate(HEADINGS):
            self._grid.addWidget(self._label(words, column, "small"), 0, column)
        for number, part in enumerate([*self.parts, None] if kinds or self.parts else [None]):
            line = 2 * number + 1
            row = [self._label("", column, "cell") for column in range(len(HEADINGS))]
            for column, label in enumerate(row):
                self._grid.addWidget(label, line, column)
                weight = QFont.Weight.Normal if column else QFont.Weight.DemiBold
                self._theme.font(label, Theme.font_small, weight)
                self._theme.keep(label, QLabel.setContentsMargins, 0, 8, 0, 0)
            self._rows.append(row)
            if part is not None:
                sentence = self._label(part.sentence, 0, "small", wraps=True)
                self._grid.addWidget(sentence, line + 1, 0, 1, len(HEADINGS))

    def _label(self, words: str, column: int, kind: str, *, wraps: bool = False) -> QLabel:
        label: QLabel
        if column == 0 and not wraps:
            label = ElidedTermLabel(words, self)
        else:
            label = QLabel(words, self) if kind == "cell" else TermLabel(words, self)
        label.setProperty("kind", kind)
        label.setWordWrap(wraps)
        if column:
            label.setAlignment(_RIGHT)
        elif not wraps:
            label.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)
        return label


def _spoken(cells: Sequence[str]) -> list[str]:
    """A row as a screen reader says it.

    >>> _spoken(("Decode", "20.0", "50.0", "2", ""))
    ['Decode', '20.0 ms', '50.0%', '2 tokens']
    """
    units = ("", " ms", "%", " tokens", " tokens/s")
    return [cell + unit for cell, unit in zip(cells, units, strict=True) if cell]
