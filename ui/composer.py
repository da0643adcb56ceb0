"""Where a message is written: a text field that grows, Send that becomes Stop, a hint.

What must hold: Enter never sends while an input method composes a word; what is sent has no
lone surrogates (they cannot be stored as UTF-8); pasting brings plain text only.
"""

from __future__ import annotations

import re

from PySide6.QtCore import QEvent, QMimeData, QSize, Qt, Signal
from PySide6.QtGui import QFontMetrics, QInputMethodEvent, QKeyEvent, QResizeEvent
from PySide6.QtWidgets import (
    QFrame,
    QHBoxLayout,
    QLabel,
    QPlainTextEdit,
    QPushButton,
    QSizePolicy,
    QVBoxLayout,
    QWidget,
)

from ui.theme import Theme

SEND_KEYS = ("enter", "ctrl_enter")
MAX_LINES = 10
MAX_WIDTH = 720

_RETURNS = (Qt.Key.Key_Return, Qt.Key.Key_Enter)
_SURROGATES = re.compile("[\ud800-\udfff]")
# The document keeps paragraph and line separators where people pressed Enter.
_BREAKS = ("\r\n", "\r", "\u2029", "\u2028", "\ufdd0", "\ufdd1")


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


class MessageEdit(QPlainTextEdit):
    """The text field. It reports `submitted` and `stopped`, and grows with its text."""

    submitted = Signal()
    stopped = Signal()
    height_changed = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("composer")
        self.setAccessibleName("Message")
        self.setPlaceholderText("Write a message")
        self.setTabChangesFocus(True)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.document().setDocumentMargin(0)
        self.send_key = "enter"
        self._is_composing = False
        self._lines = 1
        self.textChanged.connect(self._on_size_changed)

    def text(self) -> str:
        """The whole text, cleaned. (toPlainText would turn no-break spaces into spaces.)"""
        return clean_text(self.document().toRawText())

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
        if event.key() in _RETURNS:
            self._on_return(event)
        elif event.key() == Qt.Key.Key_Escape and not self._is_composing:
            self.stopped.emit()
        else:
            super().keyPressEvent(event)

    def inputMethodEvent(self, event: QInputMethodEvent) -> None:
        self._is_composing = bool(event.preeditString())
        super().inputMethodEvent(event)

    def canInsertFromMimeData(self, source: QMimeData) -> bool:
        return source.hasText()

    def insertFromMimeData(self, source: QMimeData) -> None:
        if source.hasText():
            self.insertPlainText(clean_text(source.text()))

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


class Composer(QWidget):
    """The card at the bottom of a chat.

    `send_requested` carries the text; the field is cleared by then. While a reply is being
    generated Send is Stop, Enter keeps the text, and Escape stops.
    """

    send_requested = Signal(str)
    stop_requested = Signal()
    draft_changed = Signal(str)

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._is_generating = False
        self._reason: str | None = None
        self._is_setting = False
        self._build()
        self._connect()
        self._dress()
        self._update_state()

    # What the window uses

    def text(self) -> str:
        return self._edit.text()

    def set_text(self, text: str) -> None:
        """Replace the text (a draft), the caret behind it. `draft_changed` stays silent."""
        if text == self.text():
            return
        self._is_setting = True
        self._edit.setPlainText(clean_text(text))
        self._edit.moveCursor(self._edit.textCursor().MoveOperation.End)
        self._is_setting = False
        self._update_state()

    def set_generating(self, is_generating: bool) -> None:
        self._is_generating = is_generating
        self._update_state()

    def set_enabled_reason(self, reason: str | None) -> None:
        """A sentence why nothing can be sent now, shown as the hint; None where it can."""
        self._reason = reason
        self._update_state()

    def set_send_key(self, name: str) -> None:
        """enter: Enter sends, Shift+Enter breaks. ctrl_enter: Ctrl+Enter sends, Enter breaks."""
        if name not in SEND_KEYS:
            raise ValueError(f"unknown send key {name!r}")
        self._edit.send_key = name
        self._update_state()

    def focus(self) -> None:
        self._edit.setFocus(Qt.FocusReason.OtherFocusReason)

    def send(self) -> None:
        """What Enter and the button do."""
        text = self.text()
        if not text.strip() or self._is_generating or self._reason is not None:
            return
        self._edit.clear()
        self.send_requested.emit(text)

    # Building

    def _build(self) -> None:
        self._edit = MessageEdit()
        self._hint = QLabel()
        self._hint.setObjectName("composer_hint")
        self._hint.setProperty("kind", "small")
        self._hint.setWordWrap(True)
        self._send_button = _button("Send", "send_button", "primary")
        self._stop_button = _button("Stop", "stop_button", "stop")
        self._stop_button.setToolTip("Stop the reply (Esc)")
        self._card = QFrame()
        self._card.setObjectName("composer_card")
        self._row = QHBoxLayout()
        self._row.addWidget(self._hint, 1)
        self._row.addWidget(self._send_button, 0, Qt.AlignmentFlag.AlignBottom)
        self._row.addWidget(self._stop_button, 0, Qt.AlignmentFlag.AlignBottom)
        self._inside = QVBoxLayout(self._card)
        self._inside.addWidget(self._edit)
        self._inside.addLayout(self._row)
        outside = QHBoxLayout(self)
        outside.setContentsMargins(0, 0, 0, 0)
        outside.addStretch(0)
        outside.addWidget(self._card, 1000)
        outside.addStretch(0)
        self.setFocusProxy(self._edit)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)

    def _connect(self) -> None:
        self._edit.submitted.connect(self.send)
        self._edit.stopped.connect(self._on_stop)
        self._edit.textChanged.connect(self._on_text_changed)
        self._edit.height_changed.connect(self.updateGeometry)
        self._send_button.clicked.connect(self.send)
        self._stop_button.clicked.connect(self._on_stop)
        self._theme.changed.connect(self._dress)

    def _dress(self) -> None:
        theme, c = self._theme, self._theme.colors
        pad = theme.px(16)
        self._inside.setContentsMargins(pad, theme.px(12), theme.px(12), theme.px(12))
        self._inside.setSpacing(theme.px(8))
        self._row.setSpacing(theme.px(8))
        self._card.setMaximumWidth(theme.px(MAX_WIDTH))
        self._edit.setFont(theme.font_reply())
        self._hint.setFont(theme.font_small())
        small = theme.font_text().pixelSize()
        self.setStyleSheet(
            f"""
            #composer_card {{
                background: {c.card}; border: 1px solid {c.line};
                border-radius: {theme.px(14)}px;
            }}
            #composer {{
                background: transparent; border: none; padding: 0; color: {c.ink};
                selection-background-color: {c.selection}; selection-color: {c.ink};
                font-size: {theme.font_reply().pixelSize()}px;
            }}
            #composer_hint {{ color: {c.dim}; background: transparent; }}
            #send_button, #stop_button {{
                border-radius: {theme.px(8)}px; font-size: {small}px; font-weight: 600;
                padding: {theme.px(6)}px {theme.px(14)}px; border: 2px solid transparent;
            }}
            #send_button {{ background: {c.accent}; color: {c.on_accent}; }}
            #send_button:hover {{ background: {c.accent_hover}; }}
            #send_button:disabled {{ background: {c.hover}; color: {c.dim}; }}
            #stop_button {{ background: {c.accent_tone}; color: {c.accent}; }}
            #send_button:focus {{ border-color: {c.ink}; }}
            #stop_button:focus {{ border-color: {c.accent}; }}
            """
        )
        self._edit.updateGeometry()

    # Following

    def _on_text_changed(self) -> None:
        text = self.text()
        self._update_state(text)
        if not self._is_setting:
            self.draft_changed.emit(text)

    def _on_stop(self) -> None:
        if self._is_generating:
            self.stop_requested.emit()

    def _update_state(self, text: str | None = None) -> None:
        """Show what can be done now. `text`: what is in the field, where that is known."""
        has_focus = self._send_button.hasFocus() or self._stop_button.hasFocus()
        self._send_button.setVisible(not self._is_generating)
        self._stop_button.setVisible(self._is_generating)
        text = self.text() if text is None else text
        can_send = self._reason is None and bool(text) and not text.isspace()
        self._send_button.setEnabled(can_send)
        self._hint.setText(self._hint_text())
        if has_focus and not self._edit.hasFocus():
            self._edit.setFocus()

    def _hint_text(self) -> str:
        if self._is_generating:
            return "Esc stops the reply"
        if self._reason is not None:
            return self._reason
        if self._edit.send_key == "enter":
            return "Enter sends · Shift Enter breaks"
        return "Ctrl Enter sends · Enter breaks"


def _button(text: str, name: str, kind: str) -> QPushButton:
    button = QPushButton(text)
    button.setObjectName(name)
    button.setAccessibleName(text)
    button.setProperty("kind", kind)
    button.setAutoDefault(False)
    return button
