"""Widgets side by side that go on in the next line, and an area that is only so high."""

from __future__ import annotations

from typing import Final

from PySide6.QtCore import QEvent, QMargins, QObject, QPoint, QRect, QSize, Qt
from PySide6.QtGui import QResizeEvent, QShowEvent
from PySide6.QtWidgets import QFrame, QLayout, QLayoutItem, QSizePolicy, QWidget

from ui.widgets.steady_area import SteadyArea

SHARE: Final = 5


class FlowLayout(QLayout):
    """Lays its widgets out as words in a paragraph, in the direction of the language."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._items: list[QLayoutItem] = []
        self.setContentsMargins(QMargins())

    def addItem(self, item: QLayoutItem) -> None:
        self._items.append(item)

    def count(self) -> int:
        return len(self._items)

    # Qt ends a layout's items by an answer that its stubs do not know: None.
    def itemAt(self, index: int) -> QLayoutItem:
        return self._items[index] if 0 <= index < len(self._items) else None  # type: ignore[return-value]

    def takeAt(self, index: int) -> QLayoutItem:
        return self._items.pop(index) if 0 <= index < len(self._items) else None  # type: ignore[return-value]

    def expandingDirections(self) -> Qt.Orientation:
        return Qt.Orientation(0)

    def hasHeightForWidth(self) -> bool:
        return True

    def heightForWidth(self, width: int) -> int:
        return self._arrange(QRect(0, 0, width, 0), is_trial=True)

    def sizeHint(self) -> QSize:
        return self.minimumSize()

    def minimumSize(self) -> QSize:
        size = QSize()
        for item in self._items:
            size = size.expandedTo(QSize(0, item.sizeHint().height()))
        return size

    def setGeometry(self, rect: QRect) -> None:
        super().setGeometry(rect)
        self._arrange(rect, is_trial=False)

    def _arrange(self, rect: QRect, *, is_trial: bool) -> int:
        """The height that is needed."""
        x, y, line_height, gap = 0, 0, 0, max(0, self.spacing())
        parent = self.parentWidget()
        is_mirrored = parent is not None and parent.isRightToLeft()
        for item in self._items:
            if item.isEmpty():  # hidden: no gap either
                continue
            size = item.sizeHint().boundedTo(QSize(max(1, rect.width()), 1 << 14))
            if x and x + size.width() > rect.width():
                x, y, line_height = 0, y + line_height + gap, 0
            if not is_trial:
                left = rect.width() - x - size.width() if is_mirrored else x
                item.setGeometry(QRect(rect.topLeft() + QPoint(left, y), size))
            x += size.width() + gap
            line_height = max(line_height, size.height())
        return y + line_height


class ShortArea(SteadyArea):
    """As high as what it holds, up to a limit, and to its share of a low window (one part in
    `SHARE`); then it scrolls."""

    def __init__(self, inside: QWidget, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._limit = 1 << 14
        self.setWidget(inside)
        self.setWidgetResizable(True)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.viewport().setAutoFillBackground(False)
        inside.setAutoFillBackground(False)

    def set_limit(self, height: int) -> None:
        self._limit = height
        self.fit()

    def fit(self) -> None:
        """Ask what it holds how high it is now."""
        layout = self._layout()
        layout.invalidate()
        width = max(1, self.viewport().width())
        if layout.hasHeightForWidth():
            wanted = layout.heightForWidth(width)
        else:
            wanted = layout.sizeHint().height()
        height = min(wanted, self._limit, self.window().height() // SHARE)
        if height != self.height() or self.minimumHeight() != height:
            self.setFixedHeight(max(0, height))

    def _layout(self) -> QLayout:
        inside = self.widget()
        layout = inside.layout() if inside is not None else None
        assert layout is not None
        return layout

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self.window().installEventFilter(self)  # once, however often it is shown
        self.fit()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if event.type() == QEvent.Type.Resize and watched is self.window():
            self.fit()
        return super().eventFilter(watched, event)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        if event.size().width() != event.oldSize().width():
            self.fit()
