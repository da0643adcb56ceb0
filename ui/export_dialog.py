"""Which chats to export, and as what. Where to, the file dialog asks after it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from PySide6.QtCore import Qt
from PySide6.QtGui import QShowEvent
from PySide6.QtWidgets import (
    QButtonGroup,
    QDialog,
    QDialogButtonBox,
    QLabel,
    QPushButton,
    QRadioButton,
    QVBoxLayout,
    QWidget,
)

from models.records import Conversation
from ui.theme import Theme

JSON, MARKDOWN = "json", "markdown"
_FORMS = (
    (
        JSON,
        "Everything (JSON)",
        "All versions, settings, token IDs and traces. Import it here or on another machine.",
    ),
    (
        MARKDOWN,
        "What is shown (Markdown)",
        "The texts of the shown versions, to read and to pass on. Several chats become files.",
    ),
)

Chosen = Callable[[Sequence[str] | None, str], object]
"""Called with the ids (None: all chats) and json or markdown."""


class ExportDialog(QDialog):
    """`shown` is the chat on screen, if it is stored; `chosen_chats` those marked in the list."""

    def __init__(
        self,
        theme: Theme,
        shown: Conversation | None,
        chosen_chats: Sequence[Conversation],
        n_all: int,
        chosen: Chosen,
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent)
        self._theme = theme
        self._chosen = chosen
        self._ids: list[Sequence[str] | None] = []
        self.setObjectName("export_dialog")
        self.setWindowTitle("Export chats")
        self.setAccessibleName("Export chats")
        self.setProperty("plane", "side")
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self._column = QVBoxLayout(self)
        self._whats = QButtonGroup(self)
        self._forms = QButtonGroup(self)
        self._heading("What")
        if shown is not None:
            self._what("export_this", f"This chat: {_short(shown.title)}", [shown.id])
        ids = [each.id for each in chosen_chats]
        if ids and (shown is None or ids != [shown.id]):
            words = f"The {len(ids):,} chosen chats" if len(ids) > 1 else "The chosen chat"
            if len(ids) == 1:
                words += f": {_short(chosen_chats[0].title)}"
            self._what("export_chosen", words, ids)
            self._whats.buttons()[-1].setChecked(True)
        all_words = "The one chat that there is" if n_all == 1 else f"All {n_all:,} chats"
        self._what("export_all", f"{all_words}, the archive too", None)
        self._heading("As")
        for name, words, hint in _FORMS:
            self._form(name, words, hint)
        self._hint("What is in the trash is left out.")
        self._column.addStretch()
        buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Cancel, self)
        self.export_button = QPushButton("Export…", self)
        self.export_button.setObjectName("export_button")
        self.export_button.setProperty("kind", "primary")
        buttons.addButton(self.export_button, QDialogButtonBox.ButtonRole.AcceptRole)
        self.export_button.setDefault(True)
        buttons.accepted.connect(self.accept)
        buttons.rejected.connect(self.reject)
        self._column.addWidget(buttons)
        theme.changed.connect(self._fit)
        checked = self._whats.checkedButton() or self._whats.buttons()[0]
        checked.setChecked(True)
        self._forms.buttons()[0].setChecked(True)
        checked.setFocus()

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self._fit()  # only now are fonts and margins those of the theme

    def accept(self) -> None:
        ids = self._ids[self._whats.checkedId()]
        form = _FORMS[self._forms.checkedId()][0]
        super().accept()
        self._chosen(ids, form)

    # --- building -----------------------------------------------------------------------

    def _heading(self, words: str) -> None:
        label = QLabel(words, self)
        label.setProperty("kind", "small")
        self._column.addWidget(label)

    def _what(self, name: str, words: str, ids: Sequence[str] | None) -> None:
        button = QRadioButton(words.replace("&", "&&"), self)
        button.setObjectName(name)
        self._whats.addButton(button, len(self._ids))
        self._ids.append(ids)
        self._column.addWidget(button)

    def _form(self, name: str, words: str, hint: str) -> None:
        button = QRadioButton(words, self)
        button.setObjectName(f"export_{name}")
        button.setAccessibleDescription(hint)
        self._forms.addButton(button, len(self._forms.buttons()))
        self._column.addWidget(button)
        self._hint(hint)

    def _hint(self, words: str) -> None:
        label = QLabel(words, self)
        label.setProperty("kind", "small")
        label.setWordWrap(True)
        label.setTextFormat(Qt.TextFormat.PlainText)
        self._column.addWidget(label)

    def _fit(self) -> None:
        px = self._theme.px
        self._column.setContentsMargins(px(20), px(16), px(20), px(16))
        self._column.setSpacing(px(8))
        wide = px(440)
        self.setMinimumSize(wide, self._column.totalHeightForWidth(wide))
        self.adjustSize()


def _short(title: str) -> str:
    line = " ".join(title.split())
    return f"“{line[:40]}{'…' if len(line) > 40 else ''}”"
