"""The defaults of single weights: how they are loaded, what shapes their replies, their template,
who drafts for them, and notes.

Everything is kept at once. What counts only with a load says so, with the way to load again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import (
    QHBoxLayout,
    QStackedWidget,
    QVBoxLayout,
    QWidget,
)

from app.chat.events import EngineStateChanged, LevelsChanged, SettingsChanged
from app.chat.settings.resolved import IN_CHAIN, resolve, shown_value
from app.chat.weights.load_settings import usual_load
from app.chat.weights.weights_defaults import IN_LOAD, NOTES
from app.engine.protocol.remote_messages import is_remote
from ui.library.defaults.draft_list import DraftList
from ui.library.defaults.load_rows import load_rows
from ui.library.defaults.projector_list import ProjectorList
from ui.library.defaults.template_editor import TemplateEditor
from ui.look.theme import Theme
from ui.section.card import small_label
from ui.section.low_room import LowRoom
from ui.section.segments import Segments
from ui.settings.adapter_field import AnyField
from ui.settings.fields import NumberField, TextField
from ui.settings.rows import Page, SettingRow
from ui.settings.shaping import (
    Row,
    loading_cards,
    sampling_cards,
    setting_words,
)
from ui.shell.tab_order import put_in_order
from ui.widgets.elided import ElidedLabel
from ui.widgets.figures import plain_name
from ui.widgets.icon_button import IconButton
from ui.widgets.kit import plain_label, push_button

if TYPE_CHECKING:
    from app.bridge import Bridge
    from app.chat.desk import Desk

TITLES = ("Loading", "Replies", "Template", "Draft", "Projector", "Notes")
NAMES = ("loading", "replies", "template", "draft", "projector", "notes")
OF_FILES = ("loading", "template", "draft", "projector")
"""What only the model in a file has."""
NO_FILE = "This model is on a server: how it is loaded, its template and drafts are set there."
CALLED = {
    "n_ctx": "context window",
    "n_threads": "threads",
    "n_gpu_layers": "layers on the GPU",
    "type_k": "key cache",
    "type_v": "value cache",
    "flash_attention": "flash attention",
    "n_ubatch": "prefill batch",
    "n_slots": "replies at once",
    "parked_bytes": "memory for parked chats",
    "governor": "adjusting threads",
    "draft": "draft model",
    "projector": "projector",
    "use_mmap": "memory mapping",
    "use_mlock": "keeping in memory",
    "devices": "devices",
    "split_mode": "split over devices",
    "tensor_split": "shares",
    "main_device": "main device",
    "cpu_moe_layers": "experts in main memory",
    "rope": "RoPE scaling",
}
"""The options of a load in words."""
WORDS_FROM_PX = 300
NOT_LOADED = "Applies when this model is loaded."
AS_LOADED = "The loaded model uses these settings."


class WeightsSettings(QWidget):
    """`show_path` says of which file. `left`: the user wants back; `get_requested`: a projector for
    the model in this file."""

    left = Signal()
    get_requested = Signal(str)

    def __init__(
        self, desk: Desk, bridge: Bridge, theme: Theme, parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self._desk = desk
        self._theme = theme
        self._path = ""
        self._rows: dict[str, SettingRow] = {}
        self._resets: dict[str, IconButton] = {}
        self.setObjectName("weights_settings")
        self.setAccessibleName("Model defaults")
        self._build_head()
        self.pages = QStackedWidget(self)
        self.template = TemplateEditor(desk, theme, self._keep, self)
        self.drafts = DraftList(desk, theme, self._keep, self)
        self.projectors = ProjectorList(desk, theme, self._keep, self)
        self.projectors.get_requested.connect(self.get_requested)
        self.notes = TextField("Notes about this model", self)
        self._build_pages()
        self._column = QVBoxLayout(self)
        self._column.setContentsMargins(0, 0, 0, 0)
        self._column.addLayout(self._head)
        self._column.addWidget(self.load_words)
        self._column.addWidget(self.segments)
        self._column.addWidget(self.pages, 1)
        self._order_stops()
        self.segments.currentChanged.connect(self._on_page_turned)
        bridge.on((LevelsChanged, SettingsChanged, EngineStateChanged), self._follow)
        theme.changed.connect(self._arrange)
        theme.space(self._column, 8)
        theme.space(self._head, 8)
        self._arrange()

    def _build_head(self) -> None:
        self.back_button = IconButton(self._theme, "caret-left", "Back to the library", parent=self)
        self.back_button.setObjectName("leave_defaults_button")
        self.title = ElidedLabel("", self)
        self.title.setObjectName("defaults_title")
        self.title.setProperty("kind", "title")
        self.load_button = push_button("Load", self, "load_these_button")
        self.reset_button = IconButton(
            self._theme,
            "arrow-counter-clockwise",
            "Reset all settings of this model to defaults",
            parent=self,
        )
        self.reset_button.setObjectName("reset_weights_button")
        self._head = QHBoxLayout()
        self._head.addWidget(self.back_button)
        self._head.addWidget(self.title, 1)
        self._head.addWidget(self.load_button)
        self._head.addWidget(self.reset_button)
        self.load_words = small_label("", self, name="load_words")
        self.load_words.setTextFormat(Qt.TextFormat.PlainText)
        self.segments = Segments(self._theme, TITLES, "Default settings pages", self)
        self.segments.setObjectName("defaults_parts")
        self.segments.setUsesScrollButtons(True)
        self.back_button.clicked.connect(self.left)
        self.reset_button.clicked.connect(self._on_reset_all)
        self.load_button.clicked.connect(self._on_load)

    def _build_pages(self) -> None:
        loading = Page(self._theme, "weights_loading", self)
        for card in loading_cards(self._theme, self):
            loading.add_card(*(self._shaping_row(row) for row in card))
        for cards in load_rows(self._theme, self):
            loading.add_card(*(self._row(*each) for each in cards))
        replies = Page(self._theme, "weights_replies", self)
        prompt: list[Row] = [("system_prompt", "System prompt", TextField("None"))]
        for card in (prompt, *sampling_cards(self._theme, self)):
            replies.add_card(*(self._shaping_row(row) for row in card))
        self.notes.setObjectName("weights_notes")
        self.notes.setAccessibleName("Notes about this model")
        policy = self.notes.sizePolicy()
        policy.setVerticalPolicy(policy.Policy.Expanding)
        self.notes.setSizePolicy(policy)
        self.notes.changed_by_user.connect(lambda text: self._keep(NOTES, text))
        noted = QWidget(self)
        column = QVBoxLayout(noted)
        column.setContentsMargins(0, 0, 0, 0)
        self.notes_refusal = plain_label("", noted, "error", wraps=True)
        self.notes_refusal.hide()
        column.addWidget(self.notes, 1)
        column.addWidget(self.notes_refusal)
        for page in (loading, replies, self.template, self.drafts, self.projectors, noted):
            is_scrolling = isinstance(page, Page)
            self.pages.addWidget(page if is_scrolling else LowRoom(page, self.pages))

    def _order_stops(self) -> None:
        """Tab goes as the eye does, whatever was built first."""
        rows = [stop for row in self._rows.values() for stop in row.stops()]
        template, drafts = self.template, self.drafts
        head = (self.back_button, self.load_button, self.reset_button, self.segments)
        writing = (
            *(template.format_field, template.edit_button, template.source, template.preview),
            template.variables,
        )
        seeing = self.projectors
        beside = (drafts.list, seeing.list, seeing.file_button, seeing.get_button)
        put_in_order([*head, *rows, *writing, *beside, self.notes], self.segments)

    def _shaping_row(self, row: Row) -> SettingRow:
        name, label, field = row
        return self._row(name, label, " ", field)

    def _row(self, name: str, label: str, hint: str, field: AnyField) -> SettingRow:
        row = SettingRow(self._theme, name, label, hint, field, self._keep, self)
        reset = IconButton(self._theme, "arrow-counter-clockwise", f"Reset {label}", parent=self)
        reset.setObjectName(f"reset_{name}")
        reset.setToolTip("Use app default")
        reset.clicked.connect(lambda: self._on_reset(name))
        row.add_beside(reset)
        self._rows[name] = row
        self._resets[name] = reset
        return row

    # --- showing ------------------------------------------------------------------------

    @property
    def path(self) -> str:
        return self._path

    def show_path(self, path: str, part: str = "") -> None:
        if path != self._path:
            self._leave_fields()
            self._path = path
            for row in self._rows.values():
                row.refuse("")
        self._offer_parts()
        if part in NAMES and self.segments.isTabEnabled(NAMES.index(part)):
            self.segments.setCurrentIndex(NAMES.index(part))
        self._show()

    def _offer_parts(self) -> None:
        """A server's model has no file: what is set for one is not offered."""
        is_there = is_remote(self._path)
        for name in OF_FILES:
            self.segments.setTabEnabled(NAMES.index(name), not is_there)
            self.segments.setTabToolTip(NAMES.index(name), NO_FILE if is_there else "")
        if not self.segments.isTabEnabled(self.segments.currentIndex()):
            self.segments.setCurrentIndex(NAMES.index("replies"))

    def _leave_fields(self) -> None:
        """What was typed last belongs to the file that it was typed for."""
        focus = self.focusWidget()
        if not self._path:
            return
        if focus is not None:
            focus.clearFocus()
        fields = [row.field for row in self._rows.values()]
        for field in (*fields, self.template.source, self.template.variables, self.notes):
            if isinstance(field, NumberField | TextField):
                field.tell_now()

    def _on_page_turned(self, place: int) -> None:
        self.pages.setCurrentIndex(place)
        self._show()

    def _follow(self) -> None:
        if self.isVisible() and self._path:
            self._show()

    def _show(self) -> None:
        if not self._path:
            return
        desk, path = self._desk, self._path
        name = plain_name(desk.loader.name_of(path))
        self.title.set_text(name)
        self.setAccessibleName(f"Defaults of {name}")
        own = desk.defaults.own(path)
        found, app = desk.defaults.resolved(path), resolve(desk.settings.now)
        for each, row in self._rows.items():
            if each.startswith(IN_LOAD):
                self._show_load_row(row, own)
            else:
                value = shown_value(found.settings, each)
                below = setting_words(each, shown_value(app.settings, each))
                is_own = found.level_of(each) == "weights"
                mine = setting_words(each, value)
                row.show_hint(
                    f"Model: {mine}  ·  overrides App: {below}" if is_own else f"App: {below}"
                )
                if each in IN_CHAIN and isinstance(row.field, NumberField):
                    row.field.setPlaceholderText("Not in the chain" if value is None else "")
                row.show_value(value)
                self._resets[each].setVisible(each in own)
        if not is_remote(path):
            self.template.show_path(path)
            self.drafts.show_path(path)
            self.projectors.show_path(path)
        self.notes.show_value(desk.defaults.value(path, NOTES))
        self.reset_button.setEnabled(any(each != NOTES for each in own))
        self._show_load_state()

    def _show_load_row(self, row: SettingRow, own: dict[str, Any]) -> None:
        row.show_value(self._desk.defaults.value(self._path, row.name))
        self._resets[row.name].setVisible(
            row.name in own
            and self._desk.defaults.value(self._path, row.name)
            != usual_load(row.name.removeprefix(IN_LOAD))
        )

    def _show_load_state(self) -> None:
        state = self._desk.loader.state
        is_loaded = state.loaded is not None and self._desk.loader.path == self._path
        awaiting = self._desk.defaults.awaiting_load(self._path)
        if awaiting:
            words = ", ".join(CALLED.get(name, name) for name in awaiting)
            self.load_words.setText(f"Reload to apply: {words}.")
        else:
            words = AS_LOADED if is_loaded else NOT_LOADED
            self.load_words.setText(NO_FILE if is_remote(self._path) else words)
        self.load_button.setText("Reload" if is_loaded else "Load")
        self.load_button.setAccessibleName(self.load_button.text())
        self.load_button.setToolTip(self.load_words.text())
        self.load_button.setVisible(bool(awaiting) or not is_loaded)
        self.load_button.setProperty("kind", "primary" if awaiting else "")
        self.load_button.style().polish(self.load_button)

    # --- acts ---------------------------------------------------------------------------

    def _keep(self, name: str, value: object) -> str:
        """Set a value for these weights, or return why it is refused."""
        refusal = self._desk.defaults.change(self._path, name, value)
        if name == NOTES:
            self.notes_refusal.setText(refusal)
            self.notes_refusal.setVisible(bool(refusal))
        return refusal

    def _on_reset(self, name: str) -> None:
        self._rows[name].refuse("")
        self._desk.defaults.reset(self._path, [name])
        self._rows[name].field.setFocus()

    def _on_reset_all(self) -> None:
        for row in self._rows.values():
            row.refuse("")
        self._desk.defaults.reset_all(self._path)
        self.segments.setFocus(Qt.FocusReason.OtherFocusReason)

    def _on_load(self) -> None:
        self._leave_fields()
        # The button goes when they are loaded, and Qt's next choice takes everything away.
        self.segments.setFocus(Qt.FocusReason.OtherFocusReason)
        self._desk.loader.load(self._path)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._arrange()

    def _arrange(self) -> None:
        """Where height is short, the settings need it more; the button's tooltip says the words."""
        self.load_words.setVisible(self.height() >= self._theme.px(WORDS_FROM_PX))
