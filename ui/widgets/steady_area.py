"""A scroll area that fits what it holds once for each change of size, and shows what the keyboard
reaches in it."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QObject, Qt
from PySide6.QtWidgets import QApplication, QScrollArea, QWidget


class SteadyArea(QScrollArea):
    """For what is as wide as the area and as high as its words need.

    A `QScrollArea` resizes what it holds, hears of that, and fits it again. Where two heights are
    right in turn (words wrap otherwise beside a scroll bar, cards lie anew) that goes on until the
    stack is used up. Here it is fitted once; what is left to do comes with the layout's next turn.

    And Qt brings into view what Tab reaches only where the way begins inside of the area.
    """

    _is_fitting = False

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        application = QApplication.instance()
        assert isinstance(application, QApplication)
        application.focusChanged.connect(self._on_focus_changed)

    def allow_bar(self, is_allowed: bool) -> None:
        """Not where all has room: beside a bar words need more lines, so that one that is there
        already would stay."""
        policy = Qt.ScrollBarPolicy
        self.setVerticalScrollBarPolicy(
            policy.ScrollBarAsNeeded if is_allowed else policy.ScrollBarAlwaysOff
        )

    def _on_focus_changed(self, old: QWidget | None, now: QWidget | None) -> None:
        """Not where the window itself comes back, nor from under the pointer that presses."""
        inside = self.widget()
        is_by_key = old is not None and QApplication.mouseButtons() == Qt.MouseButton.NoButton
        if is_by_key and now is not None and inside is not None and inside.isAncestorOf(now):
            self.ensureWidgetVisible(now)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if event.type() is not QEvent.Type.Resize:
            return super().eventFilter(watched, event)
        if self._is_fitting:
            return False
        self._is_fitting = True
        try:
            return super().eventFilter(watched, event)
        finally:
            self._is_fitting = False
