"""Room for a panel that is higher than its place: it scrolls, and nothing of it is squeezed.

`tests/scenarios/test_low_window.py` looks at 900×600, 100, 200 and 300 % for what is cut or laid
over something.
"""

from __future__ import annotations

from PySide6.QtCore import QEvent, QSize, Qt
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QWidget

from ui.widgets.steady_area import SteadyArea


class _Place(QWidget):
    """As high as its panel has to be. `QScrollArea` alone would ask for the height that the panel
    would like, and a panel of tables likes more than it needs."""

    def __init__(self, panel: QWidget) -> None:
        super().__init__()
        self._panel = panel
        panel.setParent(self)
        policy = self.sizePolicy()
        policy.setHeightForWidth(True)
        self.setSizePolicy(policy)

    def hasHeightForWidth(self) -> bool:
        return True

    def heightForWidth(self, width: int) -> int:
        layout = self._panel.layout()
        if layout is None:
            return self._panel.minimumSizeHint().height()
        return max(layout.totalMinimumHeightForWidth(width), layout.totalMinimumSize().height())

    def minimumSizeHint(self) -> QSize:
        return QSize(0, 0)

    def sizeHint(self) -> QSize:
        return self._panel.sizeHint()

    def event(self, event: QEvent) -> bool:
        if event.type() is QEvent.Type.LayoutRequest:
            self.updateGeometry()  # the panel needs another height: the area is told
        return super().event(event)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._panel.setGeometry(self.rect())


class LowRoom(SteadyArea):
    """Only the height is scrolled."""

    def __init__(self, panel: QWidget, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWidgetResizable(True)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        place = _Place(panel)
        self.setWidget(place)
        # Qt has just switched this on; the section's own plane shall show.
        place.setAutoFillBackground(False)
        self.viewport().setAutoFillBackground(False)
        panel.show()
