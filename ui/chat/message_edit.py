"""The text field in which a message is written.

What must hold: Enter never sends while an input method composes a word; what is sent has no lone
surrogates (they cannot be stored as UTF-8); pasting brings plain text only; a huge paste and files
are handed on instead of flooding the field.
"""

from __future__ import annotations

import re
from typing import Final

from PySide6.QtCore import QEvent, QMimeData, QSize, Qt, Signal
from PySide6.QtGui import (
    QDragEnterEvent,
    QDragLeaveEvent,
    QDropEvent,
    QFontMetrics,
    QInputMethodEvent,
    QKeyEvent,
    QResizeEvent,
    QTextOption,
)
from PySide6.QtWidgets import QFrame, QPlainTextEdit, QSizePolicy, QWidget

MAX_LINES: Final = 10
LONG_PASTE: Final = 4000
"""A paste of more characters becomes an attachment."""
LONG_LINE: Final = 20_000

_RETURNS = (Qt.Key.Key_Return, Qt.Key.Key_Enter)
_SURROGATES = re.compile("[\ud800-\udfff]")
# The document keeps paragraph and line separators where people pressed Enter.
_BREAKS = ("\r\n", "\r", "\u2029", "\u2028", "\ufdd0", "\ufdd1")


def whole_text(edit: QPlainTextEdit) -> str:
    """What stands there, cleaned. (toPlainText would turn no-break spaces into spaces.)"""
    return clean_text(edit.document().toRawText())


def clean_text(text: str) -> str:
    """Text as it may be stored and sent: line feeds only, no lone surrogates.

    It is asked for with every key, also in a text of five million characters: whole-string
    searches are a hundred times as fast as looking at each character.
    """
    for mark in _BREAKS:
        if mark in text:
            text = text.replace(mark, "\n")
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return _SURROGATES.sub("", text)
    return text


def wrap_long_lines(edit: QPlainTextEdit, text: str) -> None:
    """Break a very long line anywhere: looking for a word's end in each of its lines takes Qt
    seconds for a hundred thousand letters without a space."""
    is_long = len(text) > LONG_LINE and len(max(text.split("\n"), key=len)) > LONG_LINE
    modes = QTextOption.WrapMode
    wanted = modes.WrapAnywhere if is_long else modes.WrapAtWordBoundaryOrAnywhere
    if edit.wordWrapMode() != wanted:
        edit.setWordWrapMode(wanted)


def local_files(source: QMimeData) -> list[str]:
    """The files of this machine that are pasted or dropped."""
    if not source.hasUrls():
        return []
    return [url.toLocalFile() for url in source.urls() if url.isLocalFile()]


def may_be_attached(source: QMimeData) -> bool:
    """Whether a drop would attach it, or say why not: files, or a picture that is none."""
    return bool(local_files(source)) or _is_picture(source)


def _is_picture(source: QMimeData) -> bool:
    from ui.pictures.given import is_picture  # not on the way to the first paint

    return is_picture(source)


class MessageEdit(QPlainTextEdit):
    """It reports `submitted` and `stopped`, and grows with its text.

    `long_pasted` carries a text that is too long for the field, `files_given` paths;
    `picture_given` carries what has a picture which is no file (a screenshot), to be read at
    once. `dragged_over` says whether something that would be attached is held above the field.
    `recalled` asks for an earlier (-1) or later (+1) message, in an empty field or one that shows
    such.
    """

    submitted = Signal()
    stopped = Signal()
    height_changed = Signal()
    long_pasted = Signal(str)
    files_given = Signal(list)
    picture_given = Signal(QMimeData)
    dragged_over = Signal(bool)
    recalled = Signal(int)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("composer")
        self.setAccessibleName("Message")
        self.setPlaceholderText("Message")
        self.setTabChangesFocus(True)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.document().setDocumentMargin(0)
        self.send_key = "enter"
        self._is_composing = False
        self._recalled_text: str | None = None
        self._lines = 1
        self.textChanged.connect(self._on_size_changed)

    def text(self) -> str:
        """The whole text, cleaned."""
        return whole_text(self)

    def show_recalled(self, text: str) -> None:
        """A message of before, as a text to go on with; an empty one ends recalling."""
        self.selectAll()
        self.insertPlainText(text)
        self.moveCursor(self.textCursor().MoveOperation.End)
        self._recalled_text = text or None

    def line_count(self) -> int:
        """Lines on screen, wrapped ones counted, at most `MAX_LINES`."""
        return max(1, min(MAX_LINES, round(self.document().size().height())))

    def sizeHint(self) -> QSize:
        spacing = QFontMetrics(self.font()).lineSpacing()
        margins = self.contentsMargins()
        height = self.line_count() * spacing + margins.top() + margins.bottom() + 2
        return QSize(super().sizeHint().width(), height)

    def minimumSizeHint(self) -> QSize:
        return QSize(0, self.sizeHint().height())

    def keyPressEvent(self, event: QKeyEvent) -> None:
        key = event.key()
        if key in _RETURNS:
            self._on_return(event)
        elif key == Qt.Key.Key_Escape and not self._is_composing:
            self.stopped.emit()
        elif key in (Qt.Key.Key_Up, Qt.Key.Key_Down) and self._recalls(event):
            self.recalled.emit(-1 if key == Qt.Key.Key_Up else 1)
        else:
            super().keyPressEvent(event)

    def inputMethodEvent(self, event: QInputMethodEvent) -> None:
        self._is_composing = bool(event.preeditString())
        super().inputMethodEvent(event)

    def canInsertFromMimeData(self, source: QMimeData) -> bool:
        return source.hasText() or may_be_attached(source)

    def insertFromMimeData(self, source: QMimeData) -> None:
        files = local_files(source)
        if files:
            self.files_given.emit(files)
        elif _is_picture(source):
            self.picture_given.emit(source)
        elif source.hasText():
            self._insert(clean_text(source.text()))

    def _insert(self, text: str) -> None:
        if len(text) > LONG_PASTE:
            self.long_pasted.emit(text)
        else:
            self.insertPlainText(text)

    def dragEnterEvent(self, event: QDragEnterEvent) -> None:
        super().dragEnterEvent(event)
        self.dragged_over.emit(may_be_attached(event.mimeData()))

    def dragLeaveEvent(self, event: QDragLeaveEvent) -> None:
        super().dragLeaveEvent(event)
        self.dragged_over.emit(False)

    def dropEvent(self, event: QDropEvent) -> None:
        super().dropEvent(event)
        self.dragged_over.emit(False)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._on_size_changed()

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() == QEvent.Type.FontChange:
            self._on_size_changed()

    def _on_return(self, event: QKeyEvent) -> None:
        event.accept()
        if self._is_composing:
            return
        modifiers = event.modifiers() & ~Qt.KeyboardModifier.KeypadModifier
        if self._sends(modifiers):
            if not event.isAutoRepeat():
                self.submitted.emit()
            return
        self.insertPlainText("\n")
        self.ensureCursorVisible()

    def _sends(self, modifiers: Qt.KeyboardModifier) -> bool:
        if modifiers == Qt.KeyboardModifier.ControlModifier:
            return True
        return self.send_key == "enter" and modifiers == Qt.KeyboardModifier.NoModifier

    def _recalls(self, event: QKeyEvent) -> bool:
        """Up and Down move the caret in a text that is being written, and recall elsewhere."""
        modifiers = event.modifiers() & ~Qt.KeyboardModifier.KeypadModifier
        if self._is_composing or modifiers != Qt.KeyboardModifier.NoModifier:
            return False
        if self.document().isEmpty():
            return event.key() == Qt.Key.Key_Up
        return self._recalled_text is not None and self.text() == self._recalled_text

    def _on_size_changed(self) -> None:
        lines = self.line_count()
        if lines != self._lines or self.height() != self.sizeHint().height():
            self._lines = lines
            self.updateGeometry()
            self.height_changed.emit()
        always = lines >= MAX_LINES
        policy = Qt.ScrollBarPolicy
        self.setVerticalScrollBarPolicy(
            policy.ScrollBarAsNeeded if always else policy.ScrollBarAlwaysOff
        )
