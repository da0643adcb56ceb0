"""One view of all settings that shape a reply: what counts, and which level says so.

Open chat: what its next reply is made with, changed at the app's level, these weights' or this
chat's. A reply: what it was made with; changed values then count for one more answer alone, and
"Run again" asks for the very same one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from PySide6.QtCore import Qt
from PySide6.QtWidgets import (
    QHBoxLayout,
    QInputDialog,
    QLabel,
    QVBoxLayout,
    QWidget,
)

from app.chat.events import (
    ConversationOpened,
    EngineStateChanged,
    LevelsChanged,
    PresetsListed,
    SettingsChanged,
)
from app.chat.replies.beam_versions import beams_of
from app.chat.replies.recorded import settings_of
from app.chat.replies.written_by import writer_of
from app.chat.settings.not_taken import why_not_setting
from app.chat.settings.resolved import APP, IN_CHAIN, LEVELS, LOADING, SHAPING, resolve, shown_value
from app.chat.settings.settings import as_stored, checked
from app.engine.protocol.remote_messages import model_name
from app.refusal import Refusal
from models.records import Message
from ui.look.theme import Theme
from ui.settings.adapter_field import AnyField
from ui.settings.fields import ChoiceField, NumberField
from ui.settings.rows import Page, SettingRow
from ui.settings.shaping import loading_cards, setting_words, shaping_cards
from ui.shell.tab_order import put_in_order
from ui.shell.window_toasts import WindowToasts
from ui.widgets.combo import Combo
from ui.widgets.flow import FlowLayout
from ui.widgets.icon_button import IconButton
from ui.widgets.kit import plain_label, push_button
from ui.widgets.zoomed_size import ZoomedSize
from ui.windows.beside import WindowBeside

if TYPE_CHECKING:
    from app.bridge import Bridge
    from app.chat.desk import Desk

SIZE_PX = (720, 660)
LEVEL_WORDS = {"app": "App", "weights": "Model", "chat": "Chat", "message": "Reply"}
NO_PRESET = "No preset"
OF_FILES = "For models on this computer; a server is set where it is started."


class LevelsWindow(WindowBeside):
    """Closing hides it. `show_chat` and `show_reply` bring it back."""

    def __init__(
        self, desk: Desk, bridge: Bridge, theme: Theme, parent: QWidget | None = None
    ) -> None:
        super().__init__(theme, "levels_window", "", parent)
        self._desk = desk
        self._level = "chat"
        self._reply: Message | None = None
        self._changes: dict[str, Any] = {}
        self._rows: dict[str, SettingRow] = {}
        self._resets: dict[str, IconButton] = {}
        self._build_top()
        self.page = self._build_page()
        self._build_bottom()
        self._column = QVBoxLayout(self)
        self._column.addWidget(self._top)
        self._column.addWidget(self.page, 1)
        self._column.addWidget(self._bottom)
        self.toasts = WindowToasts(desk, bridge, theme, self)
        self.toasts.focus_released.connect(self._focus_first)
        bridge.on(
            (SettingsChanged, LevelsChanged, ConversationOpened, EngineStateChanged, PresetsListed),
            self._follow,
        )
        stops = [stop for row in self._rows.values() for stop in row.stops()]
        put_in_order(stops, stops[0])
        theme.space(self._column, 12, margins=(16, 12, 16, 16))
        theme.size(self.preset_picker, 200)
        ZoomedSize(self, theme, SIZE_PX)

    # --- opening ------------------------------------------------------------------------

    def show_chat(self) -> None:
        self._reply = None
        self._changes = {}
        self._desk.presets.list()
        self._present("Chat settings")

    def show_reply(self, message_id: str) -> None:
        found = next((m for m in self._desk.shelf.path if m.id == message_id), None)
        if found is None:
            return
        self._reply = found
        self._changes = {}
        self._present("Generation settings")

    def _present(self, title: str) -> None:
        self.setWindowTitle(title)
        self.setAccessibleName(title)
        is_chat = self._reply is None
        self._chat_top.setVisible(is_chat)
        self._bottom.setVisible(not is_chat)
        for name in LOADING:
            self._rows[name].setVisible(is_chat)
        self._show_values()
        self.come_forward()
        self._focus_first()

    def _focus_first(self) -> None:
        is_chat = self._reply is None
        first = self.preset_picker if is_chat else self._rows["system_prompt"].field
        first.setFocus(Qt.FocusReason.ActiveWindowFocusReason)

    # --- building -----------------------------------------------------------------------

    def _build_top(self) -> None:
        self._top = QWidget(self)
        column = QVBoxLayout(self._top)
        self._theme.space(column, 8, margins=0)
        self.words = plain_label("", self, "small", name="levels_words", wraps=True)
        column.addWidget(self.words)
        self._chat_top = QWidget(self)
        policy = self._chat_top.sizePolicy()
        policy.setHeightForWidth(True)
        self._chat_top.setSizePolicy(policy)
        row = FlowLayout(self._chat_top)
        self._theme.space(row, 8)
        self.preset_picker = Combo(self._theme, self)
        self.preset_picker.setObjectName("preset_picker")
        self.preset_picker.setAccessibleName("Preset for this chat")
        self.preset_picker.activated.connect(self._on_preset_chosen)
        self.save_button = push_button(
            "Save as preset…",
            self,
            "save_preset_button",
            spoken="Save these settings as a preset",
            act=self._on_save,
        )
        levels = [(level, LEVEL_WORDS[level]) for level in LEVELS[:3]]
        box = QWidget(self)
        pair = QHBoxLayout(box)
        pair.setContentsMargins(0, 0, 0, 0)
        pair.addWidget(QLabel("Apply to", box))
        self.level_field = ChoiceField(self._theme, levels, self)
        self.level_field.setObjectName("level_field")
        self.level_field.setAccessibleName("Level that changes apply to")
        self.level_field.name_choices("Apply to")
        self.level_field.show_value(self._level)
        self.level_field.changed_by_user.connect(self._on_level_chosen)
        pair.addWidget(self.level_field)
        for widget in (self.preset_picker, self.save_button, box):
            row.addWidget(widget)
        column.addWidget(self._chat_top)

    def _build_bottom(self) -> None:
        self._bottom = QWidget(self)
        row = QHBoxLayout(self._bottom)
        self._theme.space(row, 8, margins=0)
        self.again_button = push_button(
            "Rerun exactly",
            self,
            "run_again_button",
            spoken="Rerun this reply with the same settings and seed",
            act=self._on_run_again,
        )
        self.answer_button = push_button(
            "Regenerate with the changes",
            self,
            "answer_again_button",
            spoken="Regenerate with the changes",
            act=self._on_answer_again,
        )
        row.addStretch(1)
        row.addWidget(self.answer_button)
        row.addWidget(self.again_button)

    def _build_page(self) -> Page:
        page = Page(self._theme, "levels", self)
        for card in (*shaping_cards(self._theme, self), *loading_cards(self._theme, self)):
            page.add_card(*(self._row(*row) for row in card))
        return page

    def _row(self, name: str, label: str, field: AnyField) -> SettingRow:
        row = SettingRow(self._theme, name, label, " ", field, self._apply, self)
        reset = IconButton(self._theme, "arrow-counter-clockwise", f"Reset {label}", parent=self)
        reset.setObjectName(f"reset_{name}")
        reset.clicked.connect(lambda: self._on_reset(name))
        row.add_beside(reset)
        self._rows[name] = row
        self._resets[name] = reset
        return row

    # --- showing ------------------------------------------------------------------------

    def _follow(self) -> None:
        if self.isVisible() and self._reply is None:
            self._show_values()

    def _show_values(self) -> None:
        if self._reply is None:
            self._show_chat_values()
        else:
            self._show_reply_values(self._reply)

    def _show_chat_values(self) -> None:
        self.words.setText(
            "Settings for the next reply. Chat overrides model; model overrides app."
        )
        self._show_presets()
        app = self._desk.settings.now
        weights, chat = self._desk.levels.own("weights"), self._desk.levels.own("chat")
        found = self._desk.levels.resolved()
        steps = (
            (APP, resolve(app)),
            ("weights", resolve(app, weights)),
            ("chat", resolve(app, weights, chat)),
        )
        own, remote = self._desk.levels.own(self._level), self._desk.loader.remote
        for name, row in self._rows.items():
            counting = found.level_of(name)
            said = [
                f"{LEVEL_WORDS[level]}: {setting_words(name, shown_value(each.settings, name))}"
                for level, each in reversed(steps)
                if each.level_of(name) == level and LEVELS.index(level) <= LEVELS.index(counting)
            ]
            why_not = why_not_setting(name, remote)
            if remote is not None and name in LOADING:
                why_not = OF_FILES
            row.show_hint(why_not or "  ·  overrides ".join(said))
            self._show_value(row, shown_value(found.settings, name))
            is_settable = self._level != "chat" or name not in LOADING
            row.field.setEnabled(is_settable and not (why_not and self._level == "chat"))
            self._resets[name].setVisible(name in own and is_settable)
            self._resets[name].setToolTip(f"Use the value below {LEVEL_WORDS[self._level]}")

    def _show_reply_values(self, reply: Message) -> None:
        settings, refusal = settings_of(reply.settings, self._desk.settings.now)
        self.words.setText(refusal or _reply_words(reply))
        recorded = reply.settings.get("levels")
        levels = recorded if isinstance(recorded, Mapping) else {}
        found = resolve(settings, None, None, self._changes)
        for name in SHAPING:
            row, is_changed = self._rows[name], name in self._changes
            level = "message" if is_changed else str(levels.get(name, APP))
            words = LEVEL_WORDS.get(level, "App")
            value = setting_words(name, shown_value(settings, name))
            row.show_hint(f"Changed from {value}" if is_changed else f"{words}: {value}")
            self._show_value(row, shown_value(found.settings, name))
            row.field.setEnabled(not refusal)
            self._resets[name].setVisible(is_changed)
            self._resets[name].setToolTip("Reset to the reply's value")
        self.again_button.setEnabled(not refusal)
        self.answer_button.setEnabled(not refusal and bool(self._changes))

    def _show_value(self, row: SettingRow, value: Any) -> None:
        if row.name in IN_CHAIN and isinstance(row.field, NumberField):
            row.field.setPlaceholderText("Not in the chain" if value is None else "")
        row.show_value(value)

    def _show_presets(self) -> None:
        applied, is_whole = self._desk.presets.applied()
        self.preset_picker.clear()
        self.preset_picker.addItem(NO_PRESET, "")
        for preset in self._desk.presets.all:
            is_own = applied is not None and preset.id == applied.id
            words = f"{preset.name} (changed)" if is_own and not is_whole else preset.name
            self.preset_picker.addItem(words, preset.id)
            if is_own:
                self.preset_picker.setCurrentIndex(self.preset_picker.count() - 1)

    # --- acts ---------------------------------------------------------------------------

    def _apply(self, name: str, value: object) -> str:
        """Set a value at the chosen level, or return why it is refused."""
        try:
            value = as_stored(checked(name, value))
        except Refusal as refused:
            return refused.sentence
        if self._reply is not None:
            self._changes[name] = value
            self._show_values()
        else:
            self._desk.levels.change(self._level, name, value)
        return ""

    def _on_reset(self, name: str) -> None:
        self._rows[name].refuse("")
        if self._reply is not None:
            self._changes.pop(name, None)
            self._show_values()
        else:
            self._desk.levels.reset(self._level, name)
        self._rows[name].field.setFocus()

    def _on_level_chosen(self, level: object) -> None:
        self._level = str(level)
        self._show_values()

    def _on_preset_chosen(self, place: int) -> None:
        preset_id = self.preset_picker.itemData(place)
        if preset_id:
            self._desk.presets.apply(preset_id, self._level)
        else:
            for name in self._desk.levels.own("chat"):
                self._desk.levels.reset("chat", name)

    def _on_save(self) -> None:
        dialog = QInputDialog(self)
        dialog.setObjectName("preset_name_dialog")
        dialog.setWindowTitle("Save as preset")
        dialog.setLabelText("Preset name")
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        dialog.textValueSelected.connect(lambda name: self._desk.presets.create(name))
        dialog.open()

    def _on_run_again(self) -> None:
        if self._reply is not None:
            self._desk.again.run(self._reply.id)
            self.close()

    def _on_answer_again(self) -> None:
        if self._reply is None:
            return
        settings, _ = settings_of(self._reply.settings, self._desk.settings.now)
        found = resolve(settings, None, None, self._changes).settings
        values = {
            name: as_stored(getattr(found, name))
            for name in SHAPING
            if name not in IN_CHAIN or not found.chain
        }
        self._desk.replies.ask_several(self._reply.id, [values])
        self.close()


def _reply_words(reply: Message) -> str:
    """Who wrote it, and how the weights stood in memory."""
    load, writer = reply.settings.get("load"), writer_of(reply.settings)
    parts = [f"Written by {reply.weights_name}." if reply.weights_name else ""]
    if writer is not None:
        model = model_name(writer.model) or reply.weights_name
        parts = [f"Written by {model} on {writer.words}."]
    if isinstance(load, Mapping):
        parts.append(
            f"Context window {load.get('n_ctx')}, {load.get('n_threads')} threads, chunks of "
            f"{load.get('n_ubatch')}, KV {load.get('type_k')}/{load.get('type_v')}."
        )
    if (beam := beams_of(reply.settings)) is not None:
        parts.append(f"{beam.label} ({beam.words}).")
    again = reply.settings.get("again")
    if isinstance(again, Mapping):
        place = again.get("first_difference")
        parts.append(
            "Rerun of another version: identical."
            if place is None
            else f"Rerun of another version: first differs at token {int(place) + 1}."
        )
    return " ".join(part for part in parts if part)
