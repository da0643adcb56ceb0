"""Text mode on screen: one document that people and weights write in turn.

What must hold: what is generated appears at the caret, is marked until somebody edits it, and
can be undone in one step; typing in a document of a megabyte does not wait for anything that is
proportional to it but reading it; positions that leave this file count characters, as Python
does, while Qt counts UTF-16 units.
"""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import (
    QBrush,
    QColor,
    QKeyEvent,
    QResizeEvent,
    QShowEvent,
    QTextCharFormat,
    QTextCursor,
)
from PySide6.QtWidgets import (
    QFrame,
    QHBoxLayout,
    QLabel,
    QPlainTextEdit,
    QPushButton,
    QTextEdit,
    QVBoxLayout,
    QWidget,
)

from app.chat.documents.text_document import change
from ui.chat.message_edit import clean_text, wrap_long_lines
from ui.look.theme import Theme
from ui.shell.keys import with_key
from ui.shell.notices import announce
from ui.shell.sizes import COLUMN_PX, SIDE_PX
from ui.widgets.elided import PartsLabel
from ui.widgets.icon_button import IconButton
from ui.widgets.kit import plain_label, push_button, rest_timer

LARGE = 200_000
"""Documents of more characters are read a few times a second instead of at each key."""
READ_LARGE_MS = 100
CARET_MS = 200
UNSEEN_MS = 1000
"""What is generated while the page is hidden is put in at most so often."""

_RETURNS = (Qt.Key.Key_Return, Qt.Key.Key_Enter)


def utf16_position(text: str, index: int) -> int:
    """Where a character stands as Qt counts: characters beyond U+FFFF are two.

    >>> utf16_position("🙂ab", 2)
    3
    """
    head = text[:index]
    return len(head) if head.isascii() else len(head.encode("utf-16-le", "surrogatepass")) // 2


def index_of(text: str, position: int) -> int:
    """The other way round.

    >>> index_of("🙂ab", 3)
    2
    """
    if text.isascii():
        return min(position, len(text))
    raw = text.encode("utf-16-le", "surrogatepass")[: 2 * position]
    return len(raw.decode("utf-16-le", "ignore"))


class DocumentEdit(QPlainTextEdit):
    """The field. Ctrl+Enter continues, Escape stops."""

    continued = Signal()
    stopped = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("text_document")
        self.setAccessibleName("Text")
        self.setPlaceholderText("Write a beginning, then continue it from the cursor.")
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.document().setDocumentMargin(0)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)

    def text(self) -> str:
        return clean_text(self.document().toRawText())

    def keyPressEvent(self, event: QKeyEvent) -> None:
        is_control = bool(event.modifiers() & Qt.KeyboardModifier.ControlModifier)
        if event.key() in _RETURNS and is_control:
            if not event.isAutoRepeat():
                self.continued.emit()
        elif event.key() == Qt.Key.Key_Escape:
            self.stopped.emit()
        else:
            super().keyPressEvent(event)


class TextPage(QWidget):
    """The document with its bar: continue, stop, another version, flip."""

    changed = Signal(str, int)
    continue_requested = Signal(str, int)
    stop_requested = Signal()
    retry_requested = Signal()
    version_step_requested = Signal(int)

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._ranges: Sequence[tuple[int, int]] = ()
        self._marks: list[QTextEdit.ExtraSelection] = []
        self._growing: QTextCursor | None = None
        self._grown_from = 0
        self._has_grown = False
        self._waiting = ""
        self._is_setting = False
        self._is_generating = False
        self._unseen = rest_timer(self, self._put_in, UNSEEN_MS)
        self.setObjectName("text_page")
        self._build()
        self._later = rest_timer(self, self.report)
        self._connect()
        theme.changed.connect(self._dress)
        theme.font(self.edit, Theme.font_reply)
        for label in (self.trouble, self._hint, self._version):
            theme.font(label, Theme.font_small)
        theme.space(self._column, 8)
        theme.space(self._bar, 8)
        self._dress()
        self.set_versions(0, 0)
        self.set_generating(False)

    # What the window uses

    def text(self) -> str:
        self._put_in()
        return self.edit.text()

    def caret(self) -> int:
        """Where the caret is, in characters."""
        return index_of(self.text(), self.edit.textCursor().position())

    def focus(self) -> None:
        self.edit.setFocus(Qt.FocusReason.OtherFocusReason)

    def open_document(self, text: str) -> None:
        """Another document: nothing of the one before can be undone. The caret is at its end."""
        self._is_setting = True
        self._growing, self._waiting = None, ""
        wrap_long_lines(self.edit, text)
        self.edit.setPlainText(text)
        self.edit.moveCursor(QTextCursor.MoveOperation.End)
        self._is_setting = False

    def show_document(self, text: str) -> None:
        """The same document as it is now (another version, say); the change can be undone."""
        before = self.text()
        changed = change(before, text)
        self._growing = None
        if changed is None:
            return
        start, end, new = changed
        cursor = self._cursor(before, start)
        cursor.setPosition(utf16_position(before, end), QTextCursor.MoveMode.KeepAnchor)
        self._is_setting = True
        cursor.insertText(new)
        self._is_setting = False
        self.edit.setTextCursor(cursor)
        self.edit.ensureCursorVisible()

    def begin_growth(self, index: int) -> None:
        """What is generated from now on stands at that place. It is one step to undo."""
        self._growing = self._cursor(self.text(), index)
        self._grown_from = self._growing.position()
        self._has_grown = False

    def append(self, text: str) -> None:
        """More generated text. The view follows it if it was there. Where nobody sees it (its
        tokens are shown instead), it is put in later: laying the paragraph out each time would
        be for nobody."""
        if self._growing is None or not text:
            return
        self._waiting += text
        if self.edit.isVisible():
            self._put_in()
        elif not self._unseen.isActive():
            self._unseen.start()

    def _put_in(self) -> None:
        cursor, text = self._growing, self._waiting
        self._waiting = ""
        self._unseen.stop()
        if cursor is None or not text:
            return
        is_shown = self.edit.isVisible()
        was_visible = is_shown and self.edit.viewport().rect().intersects(
            self.edit.cursorRect(cursor)
        )
        self._is_setting = True
        if self._has_grown:
            cursor.joinPreviousEditBlock()
        else:
            cursor.beginEditBlock()
        cursor.insertText(text)
        cursor.endEditBlock()
        self._has_grown = True
        self._is_setting = False
        if was_visible:
            self.edit.setTextCursor(cursor)
            self.edit.ensureCursorVisible()
        if is_shown:
            self._show_marks()

    def end_growth(self) -> None:
        self._put_in()
        self._growing = None

    def set_generated(self, ranges: Sequence[tuple[int, int]]) -> None:
        """Mark what stands there as generated."""
        self._put_in()
        self._ranges = ranges
        self._mark()

    def flush(self) -> None:
        """Tell at once what was to be told in a moment."""
        if self._later.isActive():
            self.report()

    def set_versions(self, index: int, count: int) -> None:
        """The last continuation is version `index` of so many; none at all for 0."""
        focused = self._focused_button()
        self._version.setText(f"{index + 1}/{count}")
        for widget in (self.previous_button, self._version, self.next_button):
            widget.setVisible(count > 1)
        self.previous_button.setEnabled(index > 0 and not self._is_generating)
        self.next_button.setEnabled(index + 1 < count and not self._is_generating)
        self.retry_button.setVisible(count > 0)
        self._place = (index, count)
        self._write_on(focused)

    def set_generating(self, is_generating: bool) -> None:
        self._is_generating = is_generating
        self.edit.setReadOnly(is_generating)
        focused = self._focused_button()
        self.continue_button.setVisible(not is_generating)
        self.stop_button.setVisible(is_generating)
        self.retry_button.setEnabled(not is_generating)
        self.set_versions(*self._place)
        self._hint.set_text(
            "Esc to stop" if is_generating else with_key("Continue from the cursor", "Ctrl+Enter")
        )
        self._write_on(focused)

    def _focused_button(self) -> QPushButton | None:
        buttons = (
            self.continue_button,
            self.stop_button,
            self.retry_button,
            self.previous_button,
            self.next_button,
        )
        return next((button for button in buttons if button.hasFocus()), None)

    def _write_on(self, former: QPushButton | None) -> None:
        """Where a button that had the focus went or can no longer be pressed: Qt's choice would be
        any other one, and a space would press it."""
        if former is not None and not former.hasFocus():
            self.focus()

    def set_trouble(self, sentence: str) -> None:
        """Why the last continuation is not what was asked for; nothing: it is."""
        if sentence and sentence != self.trouble.text():
            announce(self, sentence)
        self.trouble.setText(sentence)
        self.trouble.setVisible(bool(sentence))

    def report(self) -> None:
        """Tell what stands in the field now."""
        self._later.stop()
        if not self._is_generating:
            text = self.text()
            wrap_long_lines(self.edit, text)
            self.changed.emit(text, index_of(text, self.edit.textCursor().position()))

    # Building

    def _build(self) -> None:
        theme = self._theme
        self._place = (0, 0)
        self.edit = DocumentEdit(self)
        self.trouble = plain_label("", self, "error", name="text_trouble", wraps=True)
        self.trouble.hide()
        self._hint = PartsLabel("", self)
        self._version: QLabel = QLabel(self)
        for label in (self._hint, self._version):
            label.setProperty("kind", "small")
        self._hint.setObjectName("text_hint")
        self._version.setObjectName("text_version")
        self.continue_button = push_button(
            "Continue", self, "continue_button", kind="primary", spoken="Continue"
        )
        self.stop_button = push_button("Stop", self, "text_stop_button", kind="stop", spoken="Stop")
        self.retry_button: IconButton = IconButton(
            theme, "arrow-clockwise", "Regenerate the continuation", parent=self
        )
        self.retry_button.setObjectName("text_retry_button")
        self.previous_button: IconButton = IconButton(
            theme, "caret-left", "Previous version", parent=self
        )
        self.previous_button.setObjectName("text_previous_button")
        self.next_button: IconButton = IconButton(theme, "caret-right", "Next version", parent=self)
        self.next_button.setObjectName("text_next_button")
        self._bar = QHBoxLayout()
        self._bar.addWidget(self._hint, 1)
        for widget in (
            self.previous_button,
            self._version,
            self.next_button,
            self.retry_button,
            self.continue_button,
            self.stop_button,
        ):
            self._bar.addWidget(widget)
        self._column = QVBoxLayout(self)
        self._column.addWidget(self.edit, 1)
        self._column.addWidget(self.trouble)
        self._column.addLayout(self._bar)
        self.setFocusProxy(self.edit)

    def _connect(self) -> None:
        self.edit.continued.connect(self._on_continue)
        self.edit.stopped.connect(self._on_stop)
        self.edit.textChanged.connect(self._on_text_changed)
        self.edit.cursorPositionChanged.connect(self._on_caret_moved)
        self.continue_button.clicked.connect(self._on_continue)
        self.stop_button.clicked.connect(self._on_stop)
        self.retry_button.clicked.connect(self.retry)
        self.previous_button.clicked.connect(lambda: self.step(-1))
        self.next_button.clicked.connect(lambda: self.step(1))

    def _dress(self) -> None:
        theme, colors = self._theme, self._theme.colors
        px = theme.px
        size = theme.font_reply().pixelSize()
        small = theme.font_text().pixelSize()
        self.setStyleSheet(
            f"""
            #text_document {{
                background: transparent; border: none; padding: 0;
                color: {colors.ink}; font-size: {size}px;
                selection-background-color: {colors.selection}; selection-color: {colors.ink};
            }}
            #text_hint, #text_version {{ color: {colors.dim}; }}
            #continue_button, #text_stop_button {{
                border-radius: {px(8)}px; font-size: {small}px; font-weight: 600;
                padding: {px(6)}px {px(14)}px; border: 2px solid transparent;
            }}
            #continue_button {{ background: {colors.accent}; color: {colors.on_accent}; }}
            #continue_button:focus {{ border-color: {colors.ink}; }}
            #text_stop_button {{ background: {colors.accent_tone}; color: {colors.accent}; }}
            #text_stop_button:focus {{ border-color: {colors.accent}; }}
            """
        )
        self._arrange()
        self._mark()

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self._put_in()
        self._show_marks()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._arrange()

    def _arrange(self) -> None:
        px = self._theme.px
        side = max(px(SIDE_PX), (self.width() - px(COLUMN_PX)) // 2)
        self._column.setContentsMargins(side, px(8), side, px(4))

    # Following

    def retry(self) -> None:
        if not self._is_generating:
            self.report()
            self.retry_requested.emit()

    def step(self, step: int) -> None:
        if not self._is_generating:
            self.report()
            self.version_step_requested.emit(step)

    def go_on(self) -> None:
        self._on_continue()

    def _on_continue(self) -> None:
        if not self._is_generating:
            self._later.stop()
            self.continue_requested.emit(self.text(), self.caret())

    def _on_stop(self) -> None:
        if self._is_generating:
            self.stop_requested.emit()

    def _on_text_changed(self) -> None:
        if self._is_setting or self._is_generating:
            return
        if self.edit.document().characterCount() > LARGE:
            if not self._later.isActive():
                self._later.start(READ_LARGE_MS)
        else:
            self.report()

    def _on_caret_moved(self) -> None:
        if not self._is_setting and not self._is_generating and not self._later.isActive():
            self._later.start(CARET_MS)

    def _cursor(self, text: str, index: int) -> QTextCursor:
        cursor = QTextCursor(self.edit.document())
        cursor.setPosition(utf16_position(text, index))
        return cursor

    def _mark(self) -> None:
        """A tone behind what was generated. Qt moves the marks with the text."""
        self._marks = []
        if self._ranges:
            text = self.text()
            for start, end in self._ranges:
                cursor = self._cursor(text, start)
                cursor.setPosition(utf16_position(text, end), QTextCursor.MoveMode.KeepAnchor)
                self._marks.append(self._marked(cursor))
        self._show_marks()

    def _show_marks(self) -> None:
        marks = list(self._marks)
        if self._growing is not None and self._has_grown:
            cursor = QTextCursor(self._growing)
            cursor.setPosition(self._grown_from, QTextCursor.MoveMode.KeepAnchor)
            marks.append(self._marked(cursor))
        self.edit.setExtraSelections(marks)

    def _marked(self, cursor: QTextCursor) -> QTextEdit.ExtraSelection:
        colors, mark = self._theme.colors, QTextCharFormat()
        mark.setBackground(QBrush(QColor(colors.accent_tone)))
        mark.setUnderlineStyle(QTextCharFormat.UnderlineStyle.DotLine)  # without colours, too
        mark.setUnderlineColor(QColor(colors.dim))
        selection = QTextEdit.ExtraSelection()
        selection.format = mark
        selection.cursor = cursor
        return selection
