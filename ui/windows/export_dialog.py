"""Which chats to export, as what, and with what in it. Where to, the file dialog asks after it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from PySide6.QtCore import QLocale, Qt
from PySide6.QtGui import QShowEvent
from PySide6.QtWidgets import (
    QButtonGroup,
    QDialog,
    QDialogButtonBox,
    QFrame,
    QRadioButton,
    QVBoxLayout,
    QWidget,
)

from app.chat.exchange.choices import TOGETHER, Choices, Form
from models.records import Conversation
from ui.look.theme import Theme
from ui.shell.dialogs import space_buttons
from ui.widgets.check_box import CheckBox
from ui.widgets.combo import Combo
from ui.widgets.kit import plain_label, push_button
from ui.widgets.steady_area import SteadyArea

WIDTH_PX = 480
ROOM_PX = 48
"""What is left of the screen around the dialog, where it would be higher."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of file: what it is called, what to know of it, and which options it has."""

    form: Form
    words: str
    hint: str
    options: tuple[str, ...] = ()


KINDS = (
    Kind(
        "json",
        "Everything (JSON)",
        "All versions, settings, token IDs and traces. Can be imported here or elsewhere.",
    ),
    Kind(
        "markdown",
        "Shown text (Markdown)",
        "The text of the versions on screen, for reading and sharing.",
    ),
    Kind(
        "html",
        "Web page (HTML)",
        "As it looks here, in one file that opens in any browser and loads nothing.",
        ("branches", "reasoning", "tints"),
    ),
    Kind(
        "pdf",
        "PDF",
        "As it looks here, on pages with numbers and bookmarks.",
        ("branches", "reasoning"),
    ),
    Kind(
        "docx",
        "Word document (DOCX)",
        "Headings, lists, tables and code, to be edited. Formulas stay as they were written.",
        ("branches", "reasoning"),
    ),
    Kind(
        "training",
        "Training data (JSONL)",
        "One line per chat that ends with a reply. Can't be imported here.",
        ("shape", "branches", "reasoning", "system"),
    ),
    Kind(
        "tokens",
        "Tokens (CSV)",
        "Every token of every reply: ID, probability, rank, entropy, alternatives, time.",
        ("alternatives", "branches"),
    ),
)
SHAPES = (("messages", "messages (OpenAI, Hugging Face)"), ("sharegpt", "ShareGPT"))
ALTERNATIVES = ((10, "10 alternatives"), (0, "No alternatives"), (64, "All alternatives"))

Chosen = Callable[[Sequence[str] | None, Choices, bool], object]
"""Called with the ids (None: all chats), how they are written, and whether into a ZIP archive."""


class ExportDialog(QDialog):
    """`shown` is the chat on screen, if it is stored; `chosen_chats` those marked in the list;
    `folder` the name of the folder around the chat on screen, and the chats in it; `before` what
    was chosen the last time."""

    def __init__(
        self,
        theme: Theme,
        shown: Conversation | None,
        chosen_chats: Sequence[Conversation],
        n_all: int,
        chosen: Chosen,
        parent: QWidget | None = None,
        *,
        folder: tuple[str, Sequence[str]] = ("", ()),
        before: Choices | None = None,
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
        self._inside = QWidget(self)
        self._column = QVBoxLayout(self._inside)
        theme.space(self._column, 20, margins=(20, 20))
        self._area = SteadyArea(self)
        self._area.setWidget(self._inside)
        self._area.setWidgetResizable(True)
        self._area.setFrameShape(QFrame.Shape.NoFrame)
        self._area.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self._whats = QButtonGroup(self)
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
        name, in_folder = folder
        if in_folder:
            words = f"The folder {_short(name)} ({len(in_folder):,})"
            self._what("export_folder", words, list(in_folder))
        self._what("export_all", f"All chats, including archived ({n_all:,})", None)
        self._make_format(before or Choices())
        hint = plain_label("Chats in the trash aren't exported.", self, "small", wraps=True)
        self._column.addWidget(hint)
        self._column.addStretch()
        self._make_buttons()
        theme.changed.connect(self._fit)
        checked = self._whats.checkedButton() or self._whats.buttons()[0]
        checked.setChecked(True)
        checked.setFocus()
        self._whats.idToggled.connect(self._on_changed)
        self._on_changed()

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self._fit()  # only now are fonts and margins those of the theme

    def accept(self) -> None:
        ids = self._ids[self._whats.checkedId()]
        choices, as_zip = self.choices, self._is_zipped()
        super().accept()
        self._chosen(ids, choices, as_zip)

    @property
    def choices(self) -> Choices:
        """How the chats are written, as it is set now."""
        is_american = QLocale.system().measurementSystem() is (
            QLocale.MeasurementSystem.ImperialUSSystem
        )
        return replace(
            Choices(self._kind().form),
            branches=self.branches.isChecked(),
            reasoning=self.reasoning.isChecked(),
            tints=self.tints.isChecked(),
            system=self.system.isChecked(),
            shape=self.shape.currentData(),
            alternatives=self.alternatives.currentData(),
            paper="Letter" if is_american else "A4",
        )

    # --- building -------------------------------------------------------------------------------

    def _make_format(self, before: Choices) -> None:
        self._heading("Format")
        self.format = Combo(self._theme, self._inside)
        self.format.setObjectName("export_format")
        self.format.setAccessibleName("Format")
        for kind in KINDS:
            self.format.addItem(kind.words, kind.form)
        self.format.setCurrentIndex(self.format.findData(before.form))
        self._hint = plain_label("", self._inside, "small", wraps=True)
        self._group.addWidget(self.format)
        self._group.addWidget(self._hint)
        self.shape = self._choice("export_shape", "Shape of each line", SHAPES, before.shape)
        self.alternatives = self._choice(
            "export_alternatives", "Alternatives", ALTERNATIVES, before.alternatives
        )
        self.branches = self._box("All versions and branches", "branches", before.branches)
        self.reasoning = self._box("Reasoning", "reasoning", before.reasoning)
        self.system = self._box("System prompt", "system", before.system)
        self.tints = self._box("Replies as tokens, tinted by probability", "tints", before.tints)
        self.zip = self._box("Pack the files into a ZIP archive", "zip", False)
        self.format.currentIndexChanged.connect(self._on_changed)

    def _make_buttons(self) -> None:
        buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Cancel, self)
        self.export_button = push_button("Export…", self, "export_button", kind="primary")
        buttons.addButton(self.export_button, QDialogButtonBox.ButtonRole.AcceptRole)
        self.export_button.setDefault(True)
        buttons.accepted.connect(self.accept)
        buttons.rejected.connect(self.reject)
        space_buttons(self._theme, buttons)
        below = QVBoxLayout()
        self._theme.space(below, 0, margins=(20, 12))
        below.addWidget(buttons)
        self._below = below
        whole = QVBoxLayout(self)
        whole.setContentsMargins(0, 0, 0, 0)
        whole.setSpacing(0)
        whole.addWidget(self._area, 1)
        whole.addLayout(below)

    def _heading(self, words: str) -> None:
        """What follows belongs to it."""
        self._group = QVBoxLayout()
        self._theme.space(self._group, 6)
        self._column.addLayout(self._group)
        self._group.addWidget(plain_label(words, self._inside, "small", wraps=True))

    def _what(self, name: str, words: str, ids: Sequence[str] | None) -> None:
        button = QRadioButton(words.replace("&", "&&"), self._inside)
        button.setObjectName(name)
        self._whats.addButton(button, len(self._ids))
        self._ids.append(ids)
        self._group.addWidget(button, 0, Qt.AlignmentFlag.AlignLeft)

    def _box(self, words: str, name: str, is_on: bool) -> CheckBox:
        box = CheckBox(self._theme, words, self._inside)
        box.setObjectName(f"export_{name}")
        box.setChecked(is_on)
        self._group.addWidget(box, 0, Qt.AlignmentFlag.AlignLeft)
        return box

    def _choice(
        self, name: str, spoken: str, rows: Sequence[tuple[object, str]], before: object
    ) -> Combo:
        combo = Combo(self._theme, self._inside)
        combo.setObjectName(name)
        combo.setAccessibleName(spoken)
        for value, words in rows:
            combo.addItem(words, value)
        combo.setCurrentIndex(max(0, combo.findData(before)))
        self._group.addWidget(combo)
        return combo

    # --- what is chosen -------------------------------------------------------------------------

    def _kind(self) -> Kind:
        return KINDS[self.format.currentIndex()]

    def _is_several(self) -> bool:
        ids = self._ids[self._whats.checkedId()]
        return (ids is None or len(ids) > 1) and self._kind().form not in TOGETHER

    def _is_zipped(self) -> bool:
        return self._is_several() and self.zip.isChecked()

    def _on_changed(self) -> None:
        kind = self._kind()
        several = " Each chat is a file of its own." if self._is_several() else ""
        self._hint.setText(kind.hint + several)
        options: dict[str, QWidget] = {
            "branches": self.branches,
            "reasoning": self.reasoning,
            "system": self.system,
            "tints": self.tints,
            "shape": self.shape,
            "alternatives": self.alternatives,
        }
        for name, widget in options.items():
            widget.setVisible(name in kind.options)
        self.zip.setVisible(self._is_several())
        if self.isVisible():
            self._fit()

    def _fit(self) -> None:
        wide = self._theme.px(WIDTH_PX)
        self._column.activate()
        inside = self._column.totalHeightForWidth(wide)
        below = self._below.sizeHint().height()
        screen = self.screen()
        room = screen.availableGeometry().height() - self._theme.px(ROOM_PX)
        if (window := self.parentWidget()) is not None:
            room = min(room, window.window().height())
        high = max(min(inside + below, room), below + self._theme.px(80))
        self._area.allow_bar(inside + below > high)
        self.setMinimumWidth(wide)
        self.resize(wide, high)


def _short(title: str) -> str:
    line = " ".join(title.split())
    return f"“{line}”" if len(line) <= 40 else f"“{line[:40].rstrip(' ,;:')}…”"
