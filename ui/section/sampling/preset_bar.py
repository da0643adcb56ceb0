"""Presets above the chain: choosing one, what differs from it, saving what counts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from PySide6.QtWidgets import QHBoxLayout, QInputDialog, QVBoxLayout, QWidget

from app.chat.settings.preset_words import differences
from app.chat.settings.presets import values_of
from ui.look.theme import Theme
from ui.section.term_label import term_label
from ui.widgets.combo import Combo
from ui.widgets.icon_button import IconButton

if TYPE_CHECKING:
    from app.chat.desk import Desk

NONE: Final = "No preset"
_MOST_SAID: Final = 4


class PresetBar(QWidget):
    """Choosing puts a preset on the open chat. `show_presets` follows what counts."""

    def __init__(self, theme: Theme, desk: Desk, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._desk = desk
        self.picker = Combo(theme, self)
        self.picker.setObjectName("preset_picker")
        self.picker.setAccessibleName("Preset for this chat")
        self.picker.activated.connect(self._on_chosen)
        self.save_button = IconButton(
            theme, "plus", "Save these settings as a new preset", parent=self
        )
        self.save_button.setObjectName("save_preset_button")
        self.save_button.clicked.connect(self._on_save)
        self.update_button = IconButton(
            theme, "floppy-disk", "Update this preset with these settings", parent=self
        )
        self.update_button.setObjectName("update_preset_button")
        self.update_button.clicked.connect(self._on_update)
        self.words = term_label("", self, "small", name="preset_differences", wraps=True)
        self._row = QHBoxLayout()
        self._row.addWidget(self.picker, 1)
        self._row.addWidget(self.update_button)
        self._row.addWidget(self.save_button)
        self._column = QVBoxLayout(self)
        self._column.setContentsMargins(0, 0, 0, 0)
        self._column.addLayout(self._row)
        self._column.addWidget(self.words)
        theme.space(self._row, 4)
        theme.space(self._column, 4)

    def show_presets(self) -> None:
        applied, _ = self._desk.presets.applied()
        presets = self._desk.presets.all
        entries = [(NONE, ""), *((preset.name, preset.id) for preset in presets)]
        if entries != [
            (self.picker.itemText(at), self.picker.itemData(at))
            for at in range(self.picker.count())
        ]:
            self.picker.clear()
            for name, preset_id in entries:
                self.picker.addItem(name, preset_id)
        self.picker.setCurrentIndex(max(self.picker.findData(applied.id if applied else ""), 0))
        found = (
            differences(applied.value, self._desk.levels.resolved().settings)
            if applied is not None
            else []
        )
        self.update_button.setEnabled(bool(found))
        self._say(applied is not None, found)

    def _say(self, is_applied: bool, found: list[str]) -> None:
        shown, more = found[:_MOST_SAID], len(found) - _MOST_SAID
        text = "Same as the preset." if is_applied else ""
        if found:
            text = "Differs: " + "; ".join(shown) + (f"; and {more} more" if more > 0 else "") + "."
        self.words.setText(text)
        self.words.setToolTip("; ".join(found) if more > 0 else "")
        self.words.setVisible(bool(text))

    def _on_chosen(self, at: int) -> None:
        preset_id = self.picker.itemData(at)
        if preset_id:
            self._desk.presets.apply(preset_id, "chat")
        else:
            self._desk.presets.leave()

    def _on_save(self) -> None:
        dialog = QInputDialog(self)
        dialog.setObjectName("preset_name_dialog")
        dialog.setWindowTitle("Save as preset")
        dialog.setLabelText("Preset name")
        dialog.textValueSelected.connect(self._save)
        dialog.finished.connect(dialog.deleteLater)
        dialog.open()

    def _save(self, name: str) -> None:
        preset_id = self._desk.presets.create(name)
        if preset_id:
            self._desk.presets.apply(preset_id, "chat")

    def _on_update(self) -> None:
        applied, _ = self._desk.presets.applied()
        if applied is not None:
            values = values_of(self._desk.levels.resolved().settings)
            self._desk.presets.change(applied.id, values)
