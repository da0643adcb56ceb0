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
    QRadioButton,
    QVBoxLayout,
    QWidget,
)

from models.records import Conversation
from ui.look.theme import Theme
from ui.look.theme_sheet import CHOICE_PX, RING_INSET
from ui.shell.dialogs import space_buttons
from ui.widgets.kit import plain_label, push_button

JSON, MARKDOWN = "json", "markdown"
_FORMS = (
    (
        JSON,
        "Everything (JSON)",
        (
            "All versions, settings, token IDs and traces. Can be imported here or on another "
            "computer."
        ),
    ),
    (
        MARKDOWN,
        "Shown text (Markdown)",
        "The text of the versions on screen, for reading and sharing. One file per chat.",
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
        self._hints: list[QLabel] = []
        self._ids: list[Sequence[str] | None] = []
        self.setObjectName("export_dialog")
        self.setWindowTitle("Export chats")
        self.setAccessibleName("Export chats")
        self.setProperty("plane", "side")
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self._column = QVBoxLayout(self)
        theme.space(self._column, 20, margins=20)
        self._whats = QButtonGroup(self)
        self._forms = QButtonGroup(self)
        self._heading("Chats to export")
        if shown is not None:
            self._what("export_this", f"This chat: {_short(shown.title)}", [shown.id])
        ids = [each.id for each in chosen_chats]
        if ids and (shown is None or ids != [shown.id]):
            words = f"The {len(ids):,} selected chats" if len(ids) > 1 else "The selected chat"
            if len(ids) == 1:
                words += f": {_short(chosen_chats[0].title)}"
            self._what("export_chosen", words, ids)
            self._whats.buttons()[-1].setChecked(True)
        self._what("export_all", f"All chats, including archived ({n_all:,})", None)
        self._heading("Format")
        for name, words, hint in _FORMS:
            self._form(name, words, hint)
        self._column.addWidget(
            plain_label("Chats in the trash aren't exported.", self, "small", wraps=True)
        )
        self._column.addStretch()
        buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Cancel, self)
        self.export_button = push_button("Export…", self, "export_button", kind="primary")
        buttons.addButton(self.export_button, QDialogButtonBox.ButtonRole.AcceptRole)
        self.export_button.setDefault(True)
        buttons.accepted.connect(self.accept)
        buttons.rejected.connect(self.reject)
        self._column.addWidget(buttons)
        space_buttons(theme, buttons)
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
        """What follows belongs to it."""
        self._group = QVBoxLayout()
        self._theme.space(self._group, 6)
        self._column.addLayout(self._group)
        self._group.addWidget(plain_label(words, self, "small", wraps=True))

    def _what(self, name: str, words: str, ids: Sequence[str] | None) -> None:
        button = QRadioButton(words.replace("&", "&&"), self)
        button.setObjectName(name)
        self._whats.addButton(button, len(self._ids))
        self._ids.append(ids)
        self._group.addWidget(button, 0, Qt.AlignmentFlag.AlignLeft)

    def _form(self, name: str, words: str, hint: str) -> None:
        button = QRadioButton(words, self)
        button.setObjectName(f"export_{name}")
        button.setAccessibleDescription(hint)
        self._forms.addButton(button, len(self._forms.buttons()))
        self._hints.append(plain_label(hint, self, "small", wraps=True))
        pair = QVBoxLayout()
        pair.setSpacing(0)
        pair.addWidget(button, 0, Qt.AlignmentFlag.AlignLeft)
        pair.addWidget(self._hints[-1])
        self._group.addLayout(pair)

    def _fit(self) -> None:
        px = self._theme.px
        for label in self._hints:
            # Under the words of its button, not under the ring.
            label.setContentsMargins(px(CHOICE_PX) + px(8) + RING_INSET, 0, 0, 0)
        wide = px(440)
        self.setMinimumSize(wide, self._column.totalHeightForWidth(wide))
        self.adjustSize()


def _short(title: str) -> str:
    line = " ".join(title.split())
    return f"“{line}”" if len(line) <= 40 else f"“{line[:40].rstrip(' ,;:')}…”"
