"""What stands in the middle of an empty place: words and buttons below each other."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QFrame, QHBoxLayout, QLabel, QSizePolicy, QVBoxLayout, QWidget

from ui.widgets.kit import plain_label
from ui.widgets.steady_area import SteadyArea


class CentredArea(SteadyArea):
    """`_fill` puts what it has one below the other; where that does not fit, it scrolls."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._column = QVBoxLayout()

    def _label(self, name: str, kind: str) -> QLabel:
        label = plain_label("", self, kind, name=name, wraps=True)
        label.setAlignment(Qt.AlignmentFlag.AlignHCenter)
        label.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Minimum)
        return label

    def _fill(self, *parts: QWidget | int) -> None:
        """Labels as wide as they may be, buttons as wide as they are; a number is that much
        space."""
        self._column.addStretch(2)
        for part in parts:
            if isinstance(part, int):
                self._column.addSpacing(part)
            elif isinstance(part, QLabel):
                self._column.addWidget(part)
            else:
                self._column.addWidget(part, 0, Qt.AlignmentFlag.AlignHCenter)
        self._column.addStretch(3)
        body = QWidget(self)
        row = QHBoxLayout(body)
        row.addStretch(1)
        row.addLayout(self._column, 1000)
        row.addStretch(1)
        self.setWidget(body)
        self.setWidgetResizable(True)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        body.setAutoFillBackground(False)
        self.viewport().setAutoFillBackground(False)
