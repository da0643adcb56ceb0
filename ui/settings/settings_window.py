"""All settings in one window, each applied at once. Built when it is first asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QCloseEvent, QKeySequence, QShortcut
from PySide6.QtWidgets import (
    QHBoxLayout,
    QLabel,
    QLineEdit,
    QPushButton,
    QStackedWidget,
    QTabBar,
    QToolButton,
    QVBoxLayout,
    QWidget,
)

from app.amounts import bytes_words
from app.chat.events import EngineStateChanged, LogLineArrived, SettingsChanged
from app.chat.settings.context_policies import POLICIES
from app.chat.settings.drafting import DRAFTING
from app.chat.settings.settings import Settings, checked
from app.chat.surroundings import ALWAYS
from app.refusal import Refusal
from ui.look.theme import Theme
from ui.settings.adapter_field import AnyField
from ui.settings.backup_page import BackupPage
from ui.settings.chain_field import ChainField
from ui.settings.embedding_field import EmbeddingField
from ui.settings.engine_list import EngineRows
from ui.settings.fields import (
    ChoiceField,
    FontField,
    LineField,
    LinesField,
    ListField,
    NumberField,
    SwitchField,
    TextField,
)
from ui.settings.rows import Page, SettingRow
from ui.settings.server_page import ServerPage
from ui.settings.tool_list import ToolRows
from ui.shell.dialogs import show_folder
from ui.shell.window_toasts import WindowToasts
from ui.widgets.figures import known_device_text, loaded_details
from ui.widgets.kit import plain_label, push_button
from ui.widgets.log_view import LogView
from ui.widgets.zoomed_size import ZoomedSize
from ui.windows.beside import WindowBeside

if TYPE_CHECKING:
    from app.bridge import Bridge
    from app.chat.desk import Desk

SIZE_PX = (740, 580)
ENGINES_WORDS = (
    "Models run on this computer, or on servers that speak OpenAI's protocol. Their models stand "
    "in the model menu beside those on this computer."
)
TOOLS_WORDS = (
    "Tool servers (MCP) let the model look things up and act. Each call asks you first, until you "
    "allow a tool for good."
)
SAMPLING_SETTINGS = (
    "temperature",
    "top_k",
    "top_p",
    "min_p",
    "repeat_penalty",
    "repeat_last_n",
    "seed",
    "chain",
    "repeatable",
    "drafts",
    "draft_tokens",
)


class SettingsWindow(WindowBeside):
    """Closing hides it; `show_page` brings it back where it was asked for."""

    levels_requested = Signal()
    presets_requested = Signal()

    def __init__(
        self, desk: Desk, bridge: Bridge, theme: Theme, parent: QWidget | None = None
    ) -> None:
        super().__init__(theme, "settings_window", "Settings", parent)
        self._desk = desk
        self._bridge = bridge
        self._rows: dict[str, SettingRow] = {}
        self.tabs = QTabBar(self)
        self.tabs.setObjectName("settings_tabs")
        self.tabs.setProperty("kind", "pages")
        self.tabs.setAccessibleName("Settings pages")
        self.tabs.setDrawBase(False)
        self.tabs.setExpanding(False)
        self.tabs.setUsesScrollButtons(True)
        for button in self.tabs.findChildren(QToolButton):  # the arrows go from tab to tab
            button.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self._pages = QStackedWidget(self)
        self._page_names: list[str] = []
        self.log_view = LogView(theme, self)
        self._build_pages()
        self._column = QVBoxLayout(self)
        self._column.addWidget(self.tabs)
        self._column.addWidget(self._pages, 1)
        self.toasts = WindowToasts(desk, bridge, theme, self)
        self.toasts.focus_released.connect(self.tabs.setFocus)
        self.tabs.currentChanged.connect(self._pages.setCurrentIndex)
        QShortcut(QKeySequence("Ctrl+Tab"), self, lambda: self._turn(1))
        QShortcut(QKeySequence("Ctrl+Shift+Tab"), self, lambda: self._turn(-1))
        bridge.on(SettingsChanged, self._on_settings_changed)
        bridge.on(LogLineArrived, self._on_log_line)
        bridge.on(EngineStateChanged, self._show_loaded)
        self.log_view.set_lines(desk.loader.log_lines())
        self._show_values(frozenset(self._rows))
        self._show_loaded()
        theme.space(self._column, 12, margins=(16, 12, 16, 16))
        ZoomedSize(self, theme, SIZE_PX)

    # --- pages --------------------------------------------------------------------------

    def _build_pages(self) -> None:
        self._add_page("appearance", "Appearance", self._appearance())
        self._add_page("chat", "Chat", self._chat())
        self._add_page("sampling", "Sampling", self._sampling())
        self._add_page("engine", "Engines", self._engine())
        self.server_page = ServerPage(self._desk, self._bridge, self._theme, self._row, self)
        self._add_page("server", "Server", self.server_page)
        self._add_page("tools", "Tools", self._tools(self._bridge))
        self._add_page("log", "Log", self.log_view)
        self._add_page("data", "Data", self._data())
        self.backup_page = BackupPage(self._desk, self._theme, self)
        self._add_page("backups", "Backups", self.backup_page)

    def _add_page(self, name: str, title: str, page: QWidget) -> None:
        self._page_names.append(name)
        self.tabs.addTab(title)
        self._pages.addWidget(page)

    def _row(self, name: str, label: str, hint: str, field: AnyField) -> SettingRow:
        row = SettingRow(self._theme, name, label, hint, field, self._apply, self)
        self._rows[name] = row
        return row

    def _appearance(self) -> Page:
        page = Page(self._theme, "appearance", self)
        themes = [("system", "System"), ("light", "Light"), ("dark", "Dark")]
        page.add_card(
            self._row(
                "theme",
                "Theme",
                "System follows your desktop.",
                ChoiceField(self._theme, themes, self),
            ),
            self._row(
                "zoom_percent",
                "Zoom",
                "80% to 300%. Ctrl++ and Ctrl+− change it anywhere, Ctrl+0 resets it.",
                NumberField(is_whole=True, step=10),
            ),
        )
        page.add_card(
            self._row(
                "font_text",
                "Interface font",
                "Lists, buttons, figures. Missing characters come from system fonts.",
                FontField(self._theme),
            ),
            self._row("font_reading", "Reading font", "Messages.", FontField(self._theme)),
            self._row(
                "font_mono", "Monospaced font", "Code.", FontField(self._theme, is_mono=True)
            ),
            self._row(
                "text_px",
                "Interface size",
                "Pixels at 100%: 10 to 28.",
                NumberField(is_whole=True),
            ),
            self._row(
                "reading_px",
                "Reading size",
                "Pixels at 100%: 10 to 40. Code and headings keep their proportion.",
                NumberField(is_whole=True),
            ),
        )
        return page

    def _chat(self) -> Page:
        page = Page(self._theme, "chat", self)
        keys = [("enter", "Enter"), ("ctrl_enter", "Ctrl+Enter")]
        page.add_card(
            self._row(
                "send_key",
                "Send with",
                "Shift+Enter always starts a new line.",
                ChoiceField(self._theme, keys, self),
            ),
            self._row(
                "max_tokens",
                "Maximum tokens",
                "Maximum length of a reply. Empty: until the context window is full.",
                NumberField(is_whole=True, step=64, automatic=0, placeholder="No limit"),
            ),
            self._row(
                "context_policy",
                "When the context is full",
                "Dropped messages stay in the chat; the model just doesn't see them.",
                ListField(self._theme, POLICIES, self),
            ),
            self._row(
                "stop_strings",
                "Stop strings",
                "Ends the reply before any of these. One per line; \\n is a line break.",
                LinesField(),
            ),
            self._row(
                "stop_in_reasoning",
                "Also stop in reasoning",
                "Off: stop strings are ignored while the model is thinking.",
                SwitchField(self._theme, self),
            ),
            self._row(
                "reasoning_budget",
                "Reasoning limit",
                "Tokens of reasoning after which the model is made to answer. Empty: no limit.",
                NumberField(is_whole=True, step=256, automatic=0, placeholder="No limit"),
            ),
            self._row(
                "reasoning_tags",
                "Reasoning tags",
                "Text between these is shown as reasoning. One pair per line. Common tags are "
                "built in.",
                LinesField("<think>…</think>"),
            ),
        )
        aloud = self._desk.aloud
        voice = LineField(self)
        voice.setPlaceholderText("System voice")
        page.add_card(
            self._row(
                "read_aloud",
                "Read replies aloud",
                "Sentence by sentence, as they are written."
                if aloud.is_possible
                else aloud.why_not(),
                SwitchField(self._theme, self),
            ),
            self._row(
                "voice",
                "Voice",
                "As your system's speech program calls it. Empty: its own.",
                voice,
            ),
            self._row(
                "voice_rate",
                "Speed",
                "Percent: 50 to 300.",
                NumberField(is_whole=True, step=10),
            ),
        )
        page.add_card(
            self._row(
                "write_titles",
                "Titles by the model",
                "The model titles a new chat while nothing else runs. Off: its first words.",
                SwitchField(self._theme, self),
            ),
            self._row(
                "write_titles_remote",
                "Also on servers",
                "A short request for each new chat, which may cost.",
                SwitchField(self._theme, self),
            ),
        )
        page.add_card(
            self._row(
                "picture_side",
                "Longest side of pictures",
                "Pixels. Larger pictures are made smaller when they are attached, and cost fewer "
                "tokens.",
                NumberField(is_whole=True, step=128),
            ),
        )
        page.add_card(
            self._row(
                "system_prompt",
                "System prompt",
                "Instructions given to the model at the start of new chats.",
                TextField("None (the template's own, if any)"),
            )
        )
        self.embedding_label = plain_label("", self, "small", name="embedding_words", wraps=True)
        self.embedding_label.hide()
        page.add_card(
            self._row(
                "embedding_model",
                "Embedding model",
                "Finds the parts of long documents that fit a question by their meaning. Without "
                "one they are found by the words they share.",
                EmbeddingField(self._theme, self._desk.embedder.known, self),
            ),
            self.embedding_label,
        )
        return page

    def _sampling(self) -> Page:
        page = Page(self._theme, "sampling", self)
        number = NumberField
        page.add_card(
            self._row(
                "temperature",
                "Temperature",
                "Higher is more varied; 0 always takes the most probable token.",
                number(is_whole=False, step=0.1),
            ),
            self._row(
                "top_k",
                "Top-k",
                "Keeps only this many of the most probable tokens. 0 keeps all.",
                number(is_whole=True, step=5),
            ),
            self._row(
                "top_p",
                "Top-p",
                "Keeps the most probable tokens up to this total probability. 1 keeps all.",
                number(is_whole=False, step=0.05),
            ),
            self._row(
                "min_p",
                "Min-p",
                "Drops tokens below this fraction of the best one's probability. 0 drops none.",
                number(is_whole=False, step=0.01),
            ),
        )
        page.add_card(
            self._row(
                "repeat_penalty",
                "Repetition penalty",
                "Makes repeated tokens less likely. 1: off.",
                number(is_whole=False, step=0.05),
            ),
            self._row(
                "repeat_last_n",
                "Repetition window",
                "How many recent tokens count. −1: the whole context; 0: off.",
                number(is_whole=True, step=16),
            ),
            self._row(
                "seed",
                "Seed",
                "The same seed draws the same tokens. Empty: random for each reply.",
                number(is_whole=True, automatic=None, placeholder="Random"),
            ),
        )
        page.add_card(
            self._row(
                "chain",
                "Sampling chain",
                "All stages in order, one per line. Empty: the default chain from the values "
                "above.",
                ChainField(),
            ),
            self._row(
                "repeatable",
                "Repeatable",
                "The same seed gives exactly the same reply. Slower.",
                SwitchField(self._theme, self),
            ),
        )
        page.add_card(
            self._row(
                "drafts",
                "Speculative decoding",
                "Tokens are proposed and checked several at a time. The same text, sooner; it "
                "switches itself off where it is slower.",
                ListField(self._theme, DRAFTING, self),
            ),
            self._row(
                "draft_tokens",
                "Draft tokens at once",
                "At most, 1 to 15.",
                number(is_whole=True),
            ),
        )
        self.levels_button = push_button(
            "Chat settings",
            self,
            "open_levels_button",
            spoken="Chat settings",
            act=self.levels_requested,
        )
        self.presets_button = push_button(
            "Presets", self, "open_presets_button", spoken="Presets", act=self.presets_requested
        )
        page.add_card(
            _beside("A chat or model can override these.", self.levels_button, self),
            _beside("Save settings under a name.", self.presets_button, self),
        )
        self.defaults_button = push_button(
            "Restore defaults",
            self,
            "sampling_defaults_button",
            spoken="Restore defaults",
            act=self._on_defaults,
        )
        page.add_card(_beside("Resets all of the above.", self.defaults_button, self))
        return page

    def _tools(self, bridge: Bridge) -> Page:
        page = Page(self._theme, "tools", self)
        self.tool_rows = ToolRows(self._desk, bridge, self._theme, self)
        page.add_card(plain_label(TOOLS_WORDS, self, "small", wraps=True), self.tool_rows)
        page.add_card(
            self._row(
                "tool_rounds",
                "Rounds in a row",
                "After so many replies that call tools you are asked whether to go on.",
                NumberField(is_whole=True),
            )
        )
        return page

    def _engine(self) -> Page:
        page = Page(self._theme, "engine", self)
        self.engines = EngineRows(self._desk, self._theme, self)
        page.add_card(
            plain_label(ENGINES_WORDS, self, "small", wraps=True),
            self.engines,
            self._row(
                "local_engines_offline",
                "On this computer while offline",
                "Addresses of this computer (localhost) also work while Offline is on.",
                SwitchField(self._theme, self),
            ),
        )
        automatic: dict[str, Any] = {"is_whole": True, "placeholder": "Automatic"}
        page.add_card(
            plain_label("This computer", self, "strong"),
            self._row(
                "n_threads",
                "Threads",
                "Number of CPU threads. Automatic: one per physical core.",
                NumberField(automatic=0, **automatic),
            ),
            self._row(
                "n_ctx",
                "Context window",
                "Tokens for prompt and reply together. More needs more memory.",
                NumberField(automatic=0, step=1024, **automatic),
            ),
            self._row(
                "n_gpu_layers",
                "Layers on the GPU",
                "Automatic: as many as fit. 0: none.",
                NumberField(automatic=-1, **automatic),
            ),
        )
        self.loaded_label = plain_label("", self, "small", name="loaded_details", wraps=True)
        flags = Qt.TextInteractionFlag
        self.loaded_label.setTextInteractionFlags(
            flags.TextSelectableByMouse | flags.TextSelectableByKeyboard
        )
        self.loaded_label.setAccessibleName("Loaded model")
        self.reload_button = push_button(
            "Reload now", self, "reload_button", spoken="Reload now", act=self._on_reload
        )
        self.reload_words = "Threads apply immediately; the rest after reloading."
        page.add_card(_beside(self.reload_words, self.reload_button, self))
        self.devices_label = plain_label(
            "", self, "small", name="devices", wraps=True, spoken="Devices on this computer"
        )
        page.add_card(QLabel("Devices on this computer", self), self.devices_label)
        page.add_card(QLabel("Loaded now", self), self.loaded_label)
        return page

    def _data(self) -> Page:
        page = Page(self._theme, "data", self)
        self.folder_field = QLineEdit(str(self._desk.data_dir), self)
        self.folder_field.setObjectName("data_folder")
        self.folder_field.setAccessibleName("Data folder")
        self.folder_field.setReadOnly(True)
        open_button = push_button(
            "Open folder",
            self,
            "open_folder_button",
            spoken="Open folder",
            act=self._on_open_folder,
        )
        page.add_card(
            QLabel("Data folder", self),
            self.folder_field,
            _beside("All chats and settings are stored here.", open_button, self),
            plain_label(
                "To move it, quit, move the folder, and start Cutaway with --data-dir or the "
                "environment variable CUTAWAY_DATA_DIR.",
                self,
                "small",
                wraps=True,
            ),
        )
        self.offline_field = SwitchField(self._theme, self)
        page.add_card(
            self._row(
                "trash_days",
                "Days in the trash",
                "Older items are deleted permanently. 0: never.",
                NumberField(is_whole=True, step=5),
            ),
            self._row(
                "offline",
                "Offline",
                "Cutaway connects only to the model hub, when you search or download, and to "
                "engines that you added. When on, Cutaway never uses the network.",
                self.offline_field,
            ),
        )
        self.saved_label = plain_label("", self, "small", name="saved_size", wraps=True)
        self.delete_saved_button = push_button(
            "Delete all",
            self,
            "delete_saved_button",
            spoken="Delete all saved chat caches",
            act=self._on_delete_saved,
        )
        page.add_card(
            self._row(
                "saved_chats_mb",
                "Saved chat cache",
                "Megabytes on disk. Chats continue at once after a restart. 0: off.",
                NumberField(is_whole=True, step=1000),
            ),
            _beside(self.saved_label, self.delete_saved_button, self),
            self._row(
                "unload_after_min",
                "Unload when idle",
                "Minutes without use until the model leaves memory; the next message loads it "
                "again. 0: never.",
                NumberField(is_whole=True, step=5),
            ),
        )
        self.tabs.currentChanged.connect(lambda _: self._measure_saved())
        if self._desk.offline:
            self._rows["offline"].show_hint("Turned on by --offline until Cutaway closes.")
            self.offline_field.setEnabled(False)
            self._rows["local_engines_offline"].show_hint("Not with --offline.")
            self._rows["local_engines_offline"].field.setEnabled(False)
        return page

    # --- acts ---------------------------------------------------------------------------

    def _try_embedding(self) -> None:
        """Say at once whether the model that was chosen can be used."""
        path = self._desk.settings.now.embedding_model
        self._say_embedding("Loading…" if path else "")
        if path:
            self._desk.embedder.try_out(
                path,
                self._say_embedding,
                still=lambda: self._desk.settings.now.embedding_model == path,
            )

    def _say_embedding(self, sentence: str) -> None:
        self.embedding_label.setText(sentence)
        self.embedding_label.setVisible(bool(sentence))

    def show_page(self, name: str = "") -> None:
        if name in self._page_names:
            self.tabs.setCurrentIndex(self._page_names.index(name))
        self._measure_saved()
        self.come_forward(self.tabs)

    def _turn(self, step: int) -> None:
        self.tabs.setCurrentIndex((self.tabs.currentIndex() + step) % self.tabs.count())

    def _apply(self, name: str, value: object) -> str:
        """Hand a value to the desk, or return why it is refused."""
        try:
            value = checked(name, value)
        except Refusal as refused:
            return refused.sentence
        self._desk.settings.set(name, value)
        return ""

    def _on_defaults(self) -> None:
        defaults = Settings()
        for name in SAMPLING_SETTINGS:
            if getattr(self._desk.settings.now, name) != getattr(defaults, name):
                self._desk.settings.set(name, getattr(defaults, name))

    def _on_reload(self) -> None:
        loaded = self._desk.loader.state.loaded
        if loaded is not None:
            self._desk.loader.load(loaded.path)

    def _on_log_line(self, line: LogLineArrived) -> None:
        self.log_view.add_line(line.level, line.text)

    def _show_loaded(self) -> None:
        loaded = self._desk.loader.state.loaded
        self.reload_button.setEnabled(loaded is not None)
        self.loaded_label.setText(loaded_details(loaded) if loaded else "No model.")
        self.devices_label.setText(
            "\n".join(map(known_device_text, self._desk.loader.devices))
            or "Shown once the engine has started."
        )

    def _on_open_folder(self) -> None:
        show_folder(self, self._desk.data_dir)

    def _measure_saved(self) -> None:
        """How much the saved caches take, and the backups, when their page is looked at."""
        if self._page_names[self.tabs.currentIndex()] == "backups":
            self.backup_page.read()
        if self._page_names[self.tabs.currentIndex()] == "data":
            self._desk.saved_chats.measure(self._show_saved, still=ALWAYS)  # the newest counts

    def _show_saved(self, size_bytes: int) -> None:
        self.saved_label.setText(f"In use: {bytes_words(size_bytes)}.")
        self.delete_saved_button.setEnabled(size_bytes > 0)

    def _on_delete_saved(self) -> None:
        self._desk.saved_chats.drop_all(self._measure_saved)

    # --- following ----------------------------------------------------------------------

    def _on_settings_changed(self, event: SettingsChanged) -> None:
        self._show_values(event.names)
        if "embedding_model" in event.names and self.isVisible():
            self._try_embedding()

    def _show_values(self, names: frozenset[str]) -> None:
        for name in names & self._rows.keys():
            value = getattr(self._desk.settings.now, name)
            is_forced = name == "offline" and self._desk.offline
            self._rows[name].show_value(True if is_forced else value)

    def closeEvent(self, event: QCloseEvent) -> None:
        """What was typed last is applied, even without Return."""
        focus = self.focusWidget()
        if focus is not None:
            focus.clearFocus()
        super().closeEvent(event)


def _beside(words: str | QLabel, button: QPushButton, parent: QWidget) -> QWidget:
    """A remark left, a button right."""
    widget = QWidget(parent)
    row = QHBoxLayout(widget)
    row.setContentsMargins(0, 0, 0, 0)
    label = plain_label(words, widget, "small", wraps=True) if isinstance(words, str) else words
    row.addWidget(label, 1)
    row.addWidget(button)
    return widget
