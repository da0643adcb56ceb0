"""Cards that stand below each other and scroll."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QVBoxLayout, QWidget

from ui.widgets.steady_area import SteadyArea


class CardColumn(SteadyArea):
    """Only the height is scrolled. `body` holds the cards, `rows` is its layout."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self.body = QWidget(self)
        self.rows = QVBoxLayout(self.body)
        self.rows.setContentsMargins(0, 0, 0, 0)
        self.setWidgetResizable(True)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.setWidget(self.body)
        # Qt has just switched this on; the section's own plane shall show.
        self.body.setAutoFillBackground(False)
        self.viewport().setAutoFillBackground(False)

    def show_top(self, widget: QWidget) -> None:
        """Scroll so that this widget stands at the top, as far as there is room below it."""
        self.verticalScrollBar().setValue(widget.y())

    def fill(self, *widgets: QWidget) -> None:
        """The widgets, and nothing below them."""
        for widget in widgets:
            self.rows.addWidget(widget)
        self.rows.addStretch(1)
