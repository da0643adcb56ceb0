"""A window to read an attachment in. The text can't be changed; where a file's encoding was
guessed, another can be chosen."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from PySide6.QtCore import Qt
from PySide6.QtGui import QKeySequence, QShortcut
from PySide6.QtWidgets import (
    QHBoxLayout,
    QPlainTextEdit,
    QPushButton,
    QVBoxLayout,
    QWidget,
)

from app.chat.attachments.text_files import ENCODINGS, encoding_label
from models.records import Attachment
from ui.chat.composer_chips import cost_text
from ui.look.theme import Theme
from ui.widgets.combo import Combo
from ui.widgets.kit import plain_label, push_button
from ui.widgets.zoomed_size import ZoomedSize

SIZE_PX = (640, 520)
MAX_SHOWN: Final = 500_000
MAX_LINE: Final = 10_000
"""Qt lays a paragraph out whole: one of a million letters takes seconds."""


def shown_part(text: str) -> str:
    """The beginning of a long text, very long lines broken, for the eye alone.

    >>> shown_part("short")
    'short'
    """
    head = text[:MAX_SHOWN]
    if len(max(head.split("\n"), key=len)) <= MAX_LINE:
        return head
    lines = head.split("\n")
    return "\n".join(
        line[at : at + MAX_LINE] for line in lines for at in range(0, max(1, len(line)), MAX_LINE)
    )


class AttachmentReader(QWidget):
    """`put_into_text`, where given, is offered for an attachment of the draft; `encoding`, what
    its text was read as, with `read_as` to read it as another."""

    def __init__(
        self,
        theme: Theme,
        attachment: Attachment,
        parent: QWidget | None = None,
        *,
        put_into_text: Callable[[], object] | None = None,
        remove: Callable[[], object] | None = None,
        encoding: str = "",
        read_as: Callable[[str], object] | None = None,
    ) -> None:
        super().__init__(parent, Qt.WindowType.Window)
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self.setProperty("plane", "side")
        self.setObjectName("attachment_reader")
        self.setAccessibleName(f"Attachment {attachment.name}")
        self.setWindowTitle(attachment.name)
        px = theme.px
        self._words = plain_label("", self, "small", name="attachment_words", wraps=True)
        self.view = QPlainTextEdit(self)
        self.view.setObjectName("attachment_text")
        self.view.setAccessibleName("Text of the attachment")
        self.view.setReadOnly(True)
        self.view.setTabChangesFocus(True)
        self.view.setFont(theme.font_mono(13))
        self.view.setTextInteractionFlags(
            Qt.TextInteractionFlag.TextSelectableByMouse
            | Qt.TextInteractionFlag.TextSelectableByKeyboard
        )
        row, acts = QHBoxLayout(), QHBoxLayout()
        row.addWidget(self._words, 1)
        if encoding and read_as is not None:
            row.addWidget(self._encodings(theme, encoding, read_as))
        acts.addStretch(1)
        for name, title, act in (
            ("attachment_into_text_button", "Paste into the message instead", put_into_text),
            ("attachment_remove_button", "Remove", remove),
        ):
            if act is not None:
                acts.addWidget(self._button(name, title, act))
        column = QVBoxLayout(self)
        column.setContentsMargins(px(16), px(12), px(16), px(16))
        column.setSpacing(px(10))
        column.addLayout(row)
        column.addWidget(self.view, 1)
        if put_into_text is not None or remove is not None:
            column.addLayout(acts)
        for key in ("Esc", "Ctrl+W"):
            QShortcut(QKeySequence(key), self, self.close)
        ZoomedSize(self, theme, SIZE_PX)
        self.show_attachment(attachment)
        self.view.setFocus()

    def show_attachment(self, attachment: Attachment) -> None:
        """The same one; its text may have been read as another encoding, its cost be known."""
        is_part = len(attachment.text) > MAX_SHOWN
        part = f" · showing the first {MAX_SHOWN:,} characters" if is_part else ""
        self._words.setText(f"{cost_text(attachment)}{part}")
        text = shown_part(attachment.text)
        if text != self.view.toPlainText():
            self.view.setPlainText(text)

    def _encodings(self, theme: Theme, encoding: str, read_as: Callable[[str], object]) -> Combo:
        combo = Combo(theme, self)
        combo.setObjectName("attachment_encoding")
        combo.setAccessibleName("Encoding")
        combo.setToolTip("Encoding used to read the file")
        for name in (*ENCODINGS, *({encoding} - set(ENCODINGS))):
            combo.addItem(encoding_label(name), name)
        combo.setSizeAdjustPolicy(Combo.SizeAdjustPolicy.AdjustToContents)
        combo.setCurrentIndex(combo.findData(encoding))
        combo.activated.connect(lambda _: read_as(combo.currentData()))
        return combo

    def _button(self, name: str, title: str, act: Callable[[], object]) -> QPushButton:
        button = push_button(title, self, name, spoken=title)

        def do() -> None:
            act()
            self.close()

        button.clicked.connect(do)
        return button
