"""A window to read an attachment in. It shows the text; nothing in it can be changed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from PySide6.QtCore import Qt
from PySide6.QtGui import QKeySequence, QShortcut
from PySide6.QtWidgets import (
    QHBoxLayout,
    QLabel,
    QPlainTextEdit,
    QPushButton,
    QVBoxLayout,
    QWidget,
)

from models.records import Attachment
from ui.composer_chips import cost_text
from ui.theme import Theme

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
    """`put_into_text`, where given, is offered for an attachment of the draft."""

    def __init__(
        self,
        theme: Theme,
        attachment: Attachment,
        parent: QWidget | None = None,
        *,
        put_into_text: Callable[[], object] | None = None,
        remove: Callable[[], object] | None = None,
    ) -> None:
        super().__init__(parent, Qt.WindowType.Window)
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self.setProperty("plane", "side")
        self.setObjectName("attachment_reader")
        self.setAccessibleName(f"Attachment {attachment.name}")
        self.setWindowTitle(attachment.name)
        px = theme.px
        text = shown_part(attachment.text)
        is_part = len(attachment.text) > MAX_SHOWN
        part = f" · the first {MAX_SHOWN:,} characters are shown" if is_part else ""
        words = QLabel(f"{cost_text(attachment)}{part}", self)
        words.setObjectName("attachment_words")
        words.setProperty("kind", "small")
        words.setWordWrap(True)
        self.view = QPlainTextEdit(text, self)
        self.view.setObjectName("attachment_text")
        self.view.setAccessibleName("Text of the attachment")
        self.view.setReadOnly(True)
        self.view.setTabChangesFocus(True)
        self.view.setFont(theme.font_mono(13))
        self.view.setTextInteractionFlags(
            Qt.TextInteractionFlag.TextSelectableByMouse
            | Qt.TextInteractionFlag.TextSelectableByKeyboard
        )
        row = QHBoxLayout()
        row.addWidget(words, 1)
        for name, title, act in (
            ("attachment_into_text_button", "Put into the text instead", put_into_text),
            ("attachment_remove_button", "Remove", remove),
        ):
            if act is not None:
                row.addWidget(self._button(name, title, act))
        column = QVBoxLayout(self)
        column.setContentsMargins(px(16), px(12), px(16), px(16))
        column.setSpacing(px(10))
        column.addLayout(row)
        column.addWidget(self.view, 1)
        for key in ("Esc", "Ctrl+W"):
            QShortcut(QKeySequence(key), self, self.close)
        self.resize(px(SIZE_PX[0]), px(SIZE_PX[1]))
        self.view.setFocus()

    def _button(self, name: str, title: str, act: Callable[[], object]) -> QPushButton:
        button = QPushButton(title, self)
        button.setObjectName(name)
        button.setAccessibleName(title)

        def do() -> None:
            act()
            self.close()

        button.clicked.connect(do)
        return button
