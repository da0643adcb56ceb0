"""All presets in one window: what each holds, its name, and where it is put.

Closing hides it; deleting can be undone by the window's own undo.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QKeyEvent, QResizeEvent
from PySide6.QtWidgets import (
    QBoxLayout,
    QFileDialog,
    QFrame,
    QHBoxLayout,
    QLineEdit,
    QListWidget,
    QListWidgetItem,
    QPushButton,
    QVBoxLayout,
    QWidget,
)

from app.chat.events import PresetsListed
from app.chat.replies.adapters import NAMES as ADAPTERS, adapter_words
from app.chat.settings.context_policies import policy_name
from app.chat.settings.preset_files import MAX_BYTES
from app.chat.settings.presets import values_of
from models.records import Preset
from ui.look.theme import Theme
from ui.settings.chain_field import lines_of
from ui.shell.notices import Notice
from ui.shell.window_toasts import WindowToasts
from ui.widgets.flow import FlowLayout
from ui.widgets.kit import plain_label, push_button
from ui.widgets.steady_area import SteadyArea
from ui.widgets.zoomed_size import ZoomedSize
from ui.windows.beside import WindowBeside

if TYPE_CHECKING:
    from app.bridge import Bridge
    from app.chat.desk import Desk

SIZE_PX = (720, 520)
LIST_PX = 220
STACK_BELOW_PX = 560
EMPTY = "No presets yet. “New” saves the settings of the open chat as one."
NAMES = {
    "system_prompt": "System prompt",
    "stop_strings": "Stop strings",
    "stop_in_reasoning": "Also stop in reasoning",
    "reasoning_tags": "Reasoning tags",
    "thinking": "Thinking",
    "reasoning_budget": "Reasoning limit",
    "template_variables": "Template variables",
    "banned_strings": "Banned strings",
    "context_policy": "When the context is full",
    "max_tokens": "Maximum tokens",
    "min_tokens": "Minimum tokens",
    "seed": "Seed",
    "grammar": "Grammar",
    "json_schema": "JSON schema",
    "ban_end_token": "Continue past the end",
    "repeatable": "Repeatable",
    "drafts": "Speculative decoding",
    "draft_tokens": "Draft tokens at once",
    "loras": "LoRA adapters",
    "control_vectors": "Control vectors",
}


class PresetList(QListWidget):
    """Names; Return uses the one that is chosen, Delete deletes it."""

    delete_requested = Signal()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() == Qt.Key.Key_Delete:
            self.delete_requested.emit()
        else:
            super().keyPressEvent(event)


class PresetsWindow(WindowBeside):
    def __init__(
        self, desk: Desk, bridge: Bridge, theme: Theme, parent: QWidget | None = None
    ) -> None:
        super().__init__(theme, "presets_window", "Presets", parent)
        self._desk = desk
        self._presets: tuple[Preset, ...] = ()
        self._wanted_id = ""
        self.list = PresetList(self)
        self.list.setObjectName("preset_list")
        self.list.setAccessibleName("Presets")
        self.list.currentRowChanged.connect(lambda _: self._show_chosen())
        self.list.itemActivated.connect(lambda _: self._put("chat"))
        self.list.delete_requested.connect(self._on_delete)
        self._card = QFrame(self)
        self._card.setProperty("plane", "card")
        self.name_field = QLineEdit(self)
        self.name_field.setObjectName("preset_name")
        self.name_field.setAccessibleName("Preset name")
        self.name_field.editingFinished.connect(self._on_named)
        self.content = plain_label(
            "", self, name="preset_content", spoken="Preset settings", wraps=True
        )
        self.content.setAlignment(Qt.AlignmentFlag.AlignTop)
        flags = Qt.TextInteractionFlag
        self.content.setTextInteractionFlags(
            flags.TextSelectableByMouse | flags.TextSelectableByKeyboard
        )
        self._build()
        self.toasts = WindowToasts(desk, bridge, theme, self)
        self.toasts.focus_released.connect(self.list.setFocus)
        bridge.on(PresetsListed, self._on_listed)
        theme.changed.connect(self._arrange)
        theme.space(self._columns, 12, margins=16)
        theme.space(self._right, 12, margins=(16, 14))
        theme.space(self._inner, 12)
        theme.space(self._flow, 8)
        self._arrange()
        ZoomedSize(self, theme, SIZE_PX)
        self._show_chosen()

    # --- building -----------------------------------------------------------------------

    def _build(self) -> None:
        self.new_button = self._button("New", "Save this chat's settings as a preset", self._on_new)
        self.import_button = self._button("Import…", "Import a preset file", self._on_import)
        self._left = QWidget(self)
        left = QVBoxLayout(self._left)
        left.setContentsMargins(0, 0, 0, 0)
        left.addWidget(self.list, 1)
        row = QHBoxLayout()
        row.addWidget(self.new_button)
        row.addWidget(self.import_button)
        left.addLayout(row)
        self.put_button = self._button(
            "Use in this chat", "Use this preset in the open chat", lambda: self._put("chat")
        )
        self.put_button.setProperty("kind", "primary")
        self._chosen_buttons = [
            self.put_button,
            self._button(
                "Use for this model",
                ("Use this preset for the loaded model"),
                lambda: self._put("weights"),
            ),
            self._button(
                ("Use as app default"),
                ("Use this preset as the app's default"),
                lambda: self._put("app"),
            ),
            self._button("Update", "Update it with this chat's settings", self._on_update),
            self._button("Duplicate", "Duplicate this preset", self._on_duplicate),
            self._button("Export…", "Save this preset as a file", self._on_export),
            self._button("Delete", "Delete this preset", self._on_delete),
        ]
        self._chosen_buttons[-1].setProperty("kind", "danger")
        inner = QWidget(self)
        self._inner = QVBoxLayout(inner)
        self._inner.setContentsMargins(0, 0, 0, 0)
        self._inner.addWidget(self.content, 1)
        box = QWidget(inner)
        policy = box.sizePolicy()
        policy.setHeightForWidth(True)
        box.setSizePolicy(policy)
        self._flow = FlowLayout(box)
        for button in self._chosen_buttons:
            self._flow.addWidget(button)
        self._inner.addWidget(box)
        scroll = SteadyArea(self)
        scroll.setWidgetResizable(True)
        scroll.setWidget(inner)
        scroll.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        scroll.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        # Qt has just switched this on; the card shall show.
        inner.setAutoFillBackground(False)
        scroll.viewport().setAutoFillBackground(False)
        self._right = QVBoxLayout(self._card)
        self._right.addWidget(self.name_field)
        self._right.addWidget(scroll, 1)
        self._columns = QBoxLayout(QBoxLayout.Direction.LeftToRight, self)
        self._columns.addWidget(self._left)
        self._columns.addWidget(self._card, 1)

    def _button(self, text: str, spoken: str, act: Callable[[], object]) -> QPushButton:
        name = spoken.lower().replace("'", "").replace(" ", "_")
        return push_button(text, self, f"{name}_button", spoken=spoken, hint=spoken, act=act)

    # --- showing ------------------------------------------------------------------------

    def open(self) -> None:
        self._desk.presets.list()
        self.come_forward(self.list)

    def _on_listed(self, event: PresetsListed) -> None:
        chosen = self._wanted_id or getattr(self._chosen(), "id", "")
        former_row = self.list.currentRow()
        self._wanted_id = ""
        self._presets = event.presets
        self.list.blockSignals(True)
        self.list.clear()
        for preset in self._presets:
            QListWidgetItem(preset.name, self.list)
        places = [i for i, preset in enumerate(self._presets) if preset.id == chosen]
        row = places[0] if places else min(max(former_row, 0), len(self._presets) - 1)
        self.list.setCurrentRow(row)
        self.list.blockSignals(False)
        self._show_chosen()

    def _chosen(self) -> Preset | None:
        row = self.list.currentRow()
        return self._presets[row] if 0 <= row < len(self._presets) else None

    def _show_chosen(self) -> None:
        preset = self._chosen()
        self.name_field.setEnabled(preset is not None)
        self.name_field.setText(preset.name if preset else "")
        self.name_field.setCursorPosition(0)
        self.content.setText(content_words(preset) if preset else EMPTY)
        for button in self._chosen_buttons:
            button.setEnabled(preset is not None)

    # --- acts ---------------------------------------------------------------------------

    def _put(self, level: str) -> None:
        preset = self._chosen()
        if preset is not None:
            self._desk.presets.apply(preset.id, level)
            self.close()

    def _on_new(self) -> None:
        values = values_of(self._desk.levels.resolved().settings)
        self._choose(self._desk.presets.create("New preset", values))
        self.name_field.setFocus()
        self.name_field.selectAll()

    def _on_duplicate(self) -> None:
        preset = self._chosen()
        if preset is not None:
            self._choose(self._desk.presets.duplicate(preset.id))

    def _choose(self, preset_id: str) -> None:
        """The list may have been told already, or be told of it later."""
        self._wanted_id = preset_id
        for row, preset in enumerate(self._presets):
            if preset.id == preset_id:
                self._wanted_id = ""
                self.list.setCurrentRow(row)

    def _on_update(self) -> None:
        preset = self._chosen()
        if preset is not None:
            values = values_of(self._desk.levels.resolved().settings)
            self._desk.presets.change(preset.id, values)

    def _on_named(self) -> None:
        preset = self._chosen()
        if preset is not None and self.name_field.text() != preset.name:
            self._desk.presets.rename(preset.id, self.name_field.text())
            self._show_chosen()

    def _on_delete(self) -> None:
        preset = self._chosen()
        if preset is not None:
            self._desk.presets.delete(preset.id)

    def _on_export(self) -> None:
        preset = self._chosen()
        if preset is None:
            return
        text = self._desk.presets.as_text(preset.id)
        dialog = QFileDialog(self, "Export a preset", str(Path.home()))
        dialog.setObjectName("export_preset_dialog")
        dialog.setAcceptMode(QFileDialog.AcceptMode.AcceptSave)
        dialog.setDefaultSuffix("json")
        dialog.selectFile(f"{_file_name(preset.name)}.json")
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        dialog.fileSelected.connect(lambda path: self._write(Path(path), text))
        dialog.open()

    def _write(self, path: Path, text: str) -> None:
        from app.chat.exchange.exporting import write_text
        from app.chat.exchange.refusals import FileRefused

        try:
            write_text(path, text)
        except FileRefused as refused:
            self._say(str(refused))

    def _on_import(self) -> None:
        dialog = QFileDialog(
            self, "Import a preset", str(Path.home()), "Presets (*.json *.yaml *.yml *.settings)"
        )
        dialog.setObjectName("import_preset_dialog")
        dialog.setFileMode(QFileDialog.FileMode.ExistingFile)
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        dialog.fileSelected.connect(self.take_file)
        dialog.open()

    def take_file(self, path: str) -> None:
        """Add the preset of a file."""
        try:
            with Path(path).open(encoding="utf-8", errors="replace") as file:
                text = file.read(MAX_BYTES + 1)
        except OSError as error:
            self._say(f"The file can't be read: {error.strerror}. Choose another file.")
            return
        self._choose(self._desk.presets.take_text(text, Path(path).stem))

    def _say(self, sentence: str) -> None:
        self.toasts.show_notice(Notice(sentence, "error", sentence))

    # --- size ---------------------------------------------------------------------------

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._arrange()

    def _arrange(self) -> None:
        """Side by side where there is room, else the list above."""
        px, most = self._theme.px, 16_777_215
        is_narrow = self.width() < px(STACK_BELOW_PX)
        direction = QBoxLayout.Direction
        self._columns.setDirection(direction.TopToBottom if is_narrow else direction.LeftToRight)
        self._left.setMaximumSize(
            most if is_narrow else px(LIST_PX), px(180) if is_narrow else most
        )
        self._left.setMinimumWidth(0 if is_narrow else px(LIST_PX))


def content_words(preset: Preset) -> str:
    """What a preset holds, a paragraph for each value."""
    parts = []
    if preset.value.get("chain"):
        parts.append("Sampling chain\n" + "\n".join(lines_of(preset.value["chain"])))
    for name, value in preset.value.items():
        if name == "chain" or value in ("", [], 0):
            continue
        words = "\n".join(map(str, value)) if isinstance(value, list) else str(value)
        if name in ADAPTERS.values():
            words = "\n".join(adapter_words({name: value}))
        words = {"True": "on", "False": "off"}.get(words, words)
        words = policy_name(value).lower() if name == "context_policy" else words
        title = NAMES.get(name, name.replace("_", " ").capitalize())
        parts.append(f"{title}\n{words}")
    return "\n\n".join(parts) or "Nothing set."


def _file_name(name: str) -> str:
    kept = "".join(c if c.isalnum() or c in " -_" else " " for c in name)
    return " ".join(kept.split()) or "preset"
