"""The bar that finds a text in the open chat: Ctrl+F, Enter and Shift+Enter, Esc.

What must hold: it works by keyboard alone; Esc closes it and gives the focus back to where it
came from; how many places there are is said in words for screen readers, too, but not with
every letter typed.
"""

from __future__ import annotations

from PySide6.QtCore import QEvent, QObject, Qt, Signal
from PySide6.QtGui import QAccessible, QAccessibleAnnouncementEvent, QKeyEvent, QKeySequence
from PySide6.QtWidgets import QApplication, QHBoxLayout, QLineEdit, QWidget

from ui.look.theme import Theme
from ui.transcript.view import TranscriptView
from ui.widgets.icon_button import IconButton
from ui.widgets.kit import plain_label, rest_timer

SEARCH_MS = 120
SAY_MS = 700
FIELD_PX = 220
_RETURNS = (Qt.Key.Key_Return, Qt.Key.Key_Enter)


class FindField(QLineEdit):
    """`stepped`: 1 for the next place, -1 for the one before."""

    stepped = Signal(int)
    left = Signal()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        back = event.modifiers() & Qt.KeyboardModifier.ShiftModifier
        if event.key() == Qt.Key.Key_Escape:
            self.left.emit()
        elif event.key() in _RETURNS:
            self.stepped.emit(-1 if back else 1)
        elif event.key() in (Qt.Key.Key_Down, Qt.Key.Key_Up):
            self.stepped.emit(1 if event.key() == Qt.Key.Key_Down else -1)
        elif event.matches(QKeySequence.StandardKey.FindNext):
            self.stepped.emit(1)
        elif event.matches(QKeySequence.StandardKey.FindPrevious):
            self.stepped.emit(-1)
        else:
            super().keyPressEvent(event)


class FindBar(QWidget):
    """Stands at the upper right of the transcript, hidden until it is asked for."""

    def __init__(self, theme: Theme, view: TranscriptView) -> None:
        super().__init__(view)
        self._theme = theme
        self._view = view
        self._before: QWidget | None = None
        self.setObjectName("find_bar")
        self.setAccessibleName("Find in this chat")
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self.setProperty("plane", "above")
        self.field = FindField()
        self.field.setObjectName("find_field")
        self.field.setAccessibleName("Find in this chat")
        self.field.setPlaceholderText("Find in this chat")
        self.label = plain_label(kind="small", name="find_count")
        self._back = IconButton(
            theme, "caret-up", "Previous match", hint="Previous match (Shift+Enter)"
        )
        self._next = IconButton(theme, "caret-down", "Next match", hint="Next match (Enter)")
        self._close = IconButton(theme, "x", "Close", hint="Close (Esc)")
        self._row = QHBoxLayout(self)
        for widget in (self.field, self.label, self._back, self._next, self._close):
            self._row.addWidget(widget)
        self._search_timer = rest_timer(self, self._search, SEARCH_MS)
        self._say_timer = rest_timer(self, self._say, SAY_MS)
        self.field.textChanged.connect(lambda _: self._search_timer.start())
        self.field.stepped.connect(self.step)
        self.field.left.connect(self.close_bar)
        self._back.clicked.connect(lambda: self.step(-1))
        self._next.clicked.connect(lambda: self.step(1))
        self._close.clicked.connect(self.close_bar)
        view.finder.changed.connect(self._show_count)
        theme.changed.connect(self._on_theme_changed)
        view.installEventFilter(self)
        theme.space(self._row, 4, margins=(8, 4, 4, 4))
        theme.at_least(self.field, FIELD_PX / 2)
        theme.at_most(self.field, FIELD_PX)
        theme.at_least(self.label, 72)
        self.hide()

    def open_bar(self) -> None:
        """Show the bar with the keyboard in it, and what is selected as the text to find."""
        focus = QApplication.focusWidget()
        if focus is not None and not self.isAncestorOf(focus):
            self._before = focus
        chosen = self._view.selected_text().strip()
        if chosen and "\n" not in chosen and len(chosen) < 100:
            self.field.setText(chosen)
        self.show()
        self.raise_()
        self.place()
        self.field.setFocus(Qt.FocusReason.ShortcutFocusReason)
        self.field.selectAll()
        self._search()

    def close_bar(self) -> None:
        """Hide it, with the marks; the keyboard goes back."""
        self._search_timer.stop()
        self._view.finder.clear()
        had_focus = self.isAncestorOf(QApplication.focusWidget() or self._view)
        self.hide()
        self._view.cover_top(0)
        before, self._before = self._before, None
        if had_focus or before is not None:
            target = before if before is not None and before.isVisible() else self._view
            target.setFocus(Qt.FocusReason.OtherFocusReason)

    def step(self, direction: int) -> None:
        """To the next place or the one before. What was just typed is looked for first."""
        if self._search_timer.isActive():
            self._search()
        else:
            self._view.finder.step(direction)

    def place(self) -> None:
        """At the upper right of the column in which it stands."""
        px = self._theme.px
        area = self._view.rect()
        width = min(self.sizeHint().width(), area.width() - px(16))
        self.setGeometry(area.right() - width - px(24), px(8), width, self.sizeHint().height())
        self._view.cover_top(self.geometry().bottom() + px(8))

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if event.type() == QEvent.Type.Resize and self.isVisible():
            self.place()
        is_escape = isinstance(event, QKeyEvent) and event.key() == Qt.Key.Key_Escape
        if is_escape and event.type() == QEvent.Type.KeyPress and self.isVisible():
            self.close_bar()
            return True
        return False

    # Inside

    def _search(self) -> None:
        self._search_timer.stop()
        self._view.finder.search(self.field.text())

    def _show_count(self) -> None:
        self.label.setText(self.words())
        finder = self._view.finder
        # While it looks they stay as they are: the keyboard would leave a button that goes dark.
        is_of_use = finder.count > 0 or (finder.is_busy and self._back.isEnabled())
        if not is_of_use and (self._back.hasFocus() or self._next.hasFocus()):
            self.field.setFocus(Qt.FocusReason.OtherFocusReason)
        for button in (self._back, self._next):
            button.setEnabled(is_of_use)
        if self.isVisible() and not finder.is_busy:
            self._say_timer.start()

    def words(self) -> str:
        """How many places there are: "2 of 7", "7…" while there may be more."""
        finder = self._view.finder
        if not self.field.text().strip():
            return ""
        more = "…" if finder.is_busy else ""
        if not finder.count:
            return f"Searching{more}" if more else "No matches"
        if finder.position:
            return f"{finder.position:,} of {finder.count:,}{more}"
        return f"{finder.count:,}{more}"

    def _say(self) -> None:
        if QAccessible.isActive() and self.isVisible() and self.words():
            QAccessible.updateAccessibility(QAccessibleAnnouncementEvent(self, self.words()))

    def _on_theme_changed(self) -> None:
        if self.isVisible():
            self.place()
