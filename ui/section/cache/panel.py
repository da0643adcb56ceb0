"""*Cache*: the real KV cache of the loaded weights: its cells, sizes, what one step saves, and
changes by hand.

The engine is asked for a map when the panel comes on screen, after each change, and every
`STREAM_MS` at most while a reply is written; all figures are its own. What is computed from the
header stands beside what llama.cpp says.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial
from typing import Final

from PySide6.QtCore import Qt
from PySide6.QtGui import QColor
from PySide6.QtWidgets import (
    QAbstractButton,
    QButtonGroup,
    QFrame,
    QHBoxLayout,
    QPushButton,
    QVBoxLayout,
    QWidget,
)

from app import cores
from app.amounts import part_words
from app.chat.events import (
    ContextCounted,
    ConversationChanged,
    ConversationOpened,
    EngineStateChanged,
    LevelsChanged,
    MessageAdded,
    MessageChanged,
    PathChanged,
    PrefillProgressed,
    SettingsChanged,
    TokenRecorded,
)
from app.chat.replies.branch_at import n_untraced
from app.chat.surroundings import ALWAYS
from app.engine.protocol.cache_messages import CacheAct, CacheMap, CacheSlot, ChangeCache, LastTurn
from app.engine.protocol.saved_messages import DropSaved
from app.insight.cache.cells import CellMap
from app.insight.trace.message_tokens import is_from_server
from models.records import Message, Role
from ui.section.cache import words as words
from ui.section.cache.cards import PolicyCard, SizeCard, SmallButton, StepCard
from ui.section.cache.colors import MODES, CacheColoring, coloring
from ui.section.cache.copy_list import CopyList
from ui.section.cache.map import CacheMapView
from ui.section.figure_card import FigureCard
from ui.section.panel import Panel, Tools
from ui.section.prompt.shares import Swatch
from ui.transcript.summary import dropped_midway
from ui.widgets.flow import FlowLayout
from ui.widgets.kit import rest_timer
from ui.widgets.steady_area import SteadyArea

STREAM_MS: Final = 1500 if cores.HAS_FEW else 500
"""The map is asked for at most so often while a reply is written …"""

SOON_MS: Final = 60
"""… and so soon after anything else, once for all that happens together."""

POINT: Final = "Hover over a square or use the arrow keys."
ASKING: Final = "Reading the cache…"
EMPTY: Final = "The cache is empty. Send a message to fill it."
DELETED: Final = "Saved copy deleted."
ALL_DELETED: Final = "All saved copies deleted."
PARKED: Final = "No chat is in the cache. A parked chat returns with its next message."
COUNTED: Final = "Tokens in this chat."
RECORDED: Final = (
    "Recorded with the selected reply. No reply in this chat since the model was loaded."
)
NO_TURN: Final = "No reply in this chat since the model was loaded."
BY_HAND: Final = (
    "Whatever you remove is processed again when needed, which only costs time. Not available "
    "while a reply is being generated."
)
DONE: Final = {
    "clear": "Cache cleared. The next message processes everything again.",
    "park": "Chat parked in host memory. Its next message brings it back.",
    "drop": "Chat dropped. Its next message processes everything again.",
    "keep_prefix": "Prefix kept. The next message continues from there.",
}


class CachePanel(Panel):
    title = "Cache"
    ability = "cache"

    def __init__(self, tools: Tools, parent: QWidget | None = None) -> None:
        super().__init__(tools, parent)
        self._desk = tools.desk
        self._told: CacheMap | None = None
        self._cells: CellMap | None = None
        self._mode = MODES[0]
        self._is_asked = self._is_stale = self._is_changing = False
        self._coloring = CacheColoring()
        self._swatches: list[Swatch] = []
        self.setObjectName("panel_cache")
        self._timer = rest_timer(self, self._ask)
        self._make()
        self._build()
        self._connect()
        self._theme.space(self._cards, 8)
        self._theme.space(self._mode_row, 6)
        self._theme.space(self._legend_flow, 8)
        self._theme.space(self._acts_flow, 6)
        self._show()

    # --- its widgets ----------------------------------------------------------------------------

    def _make(self) -> None:
        theme = self._theme
        self.cells_card = FigureCard(theme, "", self)
        self.cells_card.title.setObjectName("cache_cells")
        self.cells_card.figure.setObjectName("cache_bytes")
        self.map = CacheMapView(theme, self.cells_card)
        self.mode_buttons = [self._chip(mode.words, mode.name, mode.hint) for mode in MODES]
        self._modes = QButtonGroup(self)
        for button in self.mode_buttons:
            button.setCheckable(True)
            self._modes.addButton(button)
        self.mode_buttons[0].setChecked(True)
        self.legend = QWidget(self.cells_card)
        self.legend.setObjectName("cache_legend")
        self.turn_card = FigureCard(theme, "Last turn", self)
        self.reused = self.turn_card.add_row("cache_reused", "reused")
        self.evaluated = self.turn_card.add_row("cache_evaluated", "processed (prefill)")
        self.written = self.turn_card.add_row("cache_written", "generated (decode)")
        self.dropped = self.turn_card.add_row("cache_dropped", "")
        self.turn_caption = self.turn_card.add_caption("cache_turn_caption")
        self.size_card = SizeCard(theme, self)
        self.step_card = StepCard(theme, self._desk, self)
        self.policy_card = PolicyCard(theme, self._desk, self)
        self._make_acts()

    def _make_acts(self) -> None:
        self.acts_card = FigureCard(self._theme, "Actions", self)
        self.clear_button = self._chip(
            "Clear",
            "cache_clear_button",
            "Clear the cache: all cells, all parked copies, and what is saved for this model",
        )
        self.park_button = self._chip(
            "Park", "cache_park_button", "Copy this chat to host memory and free its cells"
        )
        self.drop_button = self._chip(
            "Drop this chat", "cache_drop_button", "Remove this chat from the cache"
        )
        self.keep_button = self._chip("", "cache_keep_button", "")
        self.parked_card = FigureCard(self._theme, "Parked in host memory", self)
        self.parked_card.figure.setObjectName("cache_parked_bytes")
        self.parked = CopyList(
            self._theme, "parked", "Chats parked in host memory", self.parked_card
        )
        self.saved_card = FigureCard(self._theme, "Saved on disk", self)
        self.saved_card.figure.setObjectName("cache_saved_bytes")
        self.saved = CopyList(self._theme, "saved", "Chats saved on disk", self.saved_card)
        self.delete_button = self._chip(
            "Delete all",
            "delete_saved_button",
            "Delete all saved copies, of every model. The chats stay.",
        )

    def _chip(self, text: str, name: str, hint: str) -> QPushButton:
        return SmallButton(self._theme, text, name, hint, self)

    def _build(self) -> None:
        self._mode_row = QHBoxLayout()
        for button in self.mode_buttons:
            self._mode_row.addWidget(button)
        self._mode_row.addStretch(1)
        self._legend_flow = FlowLayout(self.legend)
        self.cells_card.body.addLayout(self._mode_row)
        self.cells_card.body.addWidget(self.map)
        self.cells_card.body.addWidget(self.legend)
        self.empty = self.cells_card.add_caption("cache_empty")
        self.where = self.cells_card.add_line("cache_where")
        self.whose = self.cells_card.add_line("cache_whose")
        self.grid_caption = self.cells_card.add_caption("cache_grid_caption")
        acts = QWidget(self.acts_card)
        self._acts_flow = FlowLayout(acts)
        for button in self._act_buttons():
            self._acts_flow.addWidget(button)
        self.acts_card.body.addWidget(acts)
        self.done = self.acts_card.add_caption("cache_done")
        self.done.setText(BY_HAND)
        self.parked_card.body.addWidget(self.parked)
        self.saved_card.body.addWidget(self.saved)
        delete_row = QHBoxLayout()
        delete_row.addWidget(self.delete_button)
        delete_row.addStretch(1)
        self.saved_card.body.addLayout(delete_row)
        inside = QWidget(self)
        self._cards = QVBoxLayout(inside)
        self._cards.setContentsMargins(0, 0, 0, 0)
        for card in self._all_cards():
            self._cards.addWidget(card)
        self._cards.addStretch(1)
        self.area = SteadyArea(self)
        self.area.setFrameShape(QFrame.Shape.NoFrame)
        self.area.setWidgetResizable(True)
        self.area.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.area.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.area.viewport().setAutoFillBackground(False)
        self.area.setWidget(inside)
        inside.setAutoFillBackground(False)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.addWidget(self.area)

    def _all_cards(self) -> tuple[FigureCard, ...]:
        return (
            self.cells_card,
            self.turn_card,
            self.size_card,
            self.step_card,
            self.acts_card,
            self.parked_card,
            self.saved_card,
            self.policy_card,
        )

    def _act_buttons(self) -> tuple[QPushButton, ...]:
        return (self.clear_button, self.park_button, self.drop_button, self.keep_button)

    def _connect(self) -> None:
        self._modes.buttonClicked.connect(self._on_mode)
        self.map.pointed.connect(self._on_pointed)
        self.map.chosen.connect(self._on_chosen)
        self.step_card.measured.connect(self.measured)
        self.step_card.ended.connect(self._on_measured)
        self.clear_button.clicked.connect(lambda: self._change("clear"))
        self.park_button.clicked.connect(lambda: self._change("park"))
        self.drop_button.clicked.connect(lambda: self._change("drop"))
        self.keep_button.clicked.connect(self._on_keep)
        self.parked.drop_requested.connect(lambda number: self._change("drop", copy=number))
        self.saved.drop_requested.connect(self._on_delete_saved)
        self.delete_button.clicked.connect(lambda: self._on_delete_saved(0))
        for copies in (self.parked, self.saved):
            copies.keyboard_left.connect(self.acts_card.setFocus)
        bridge = self._tools.bridge
        bridge.on(
            (
                MessageChanged,
                MessageAdded,
                PathChanged,
                ConversationOpened,
                ConversationChanged,
                EngineStateChanged,
            ),
            self._on_event,
        )
        bridge.on((TokenRecorded, PrefillProgressed), self._on_stream)
        bridge.on((MessageAdded, ConversationOpened), self._forget_news)
        bridge.on(ContextCounted, self._on_counted)
        bridge.on(ConversationOpened, self._on_other_chat)
        bridge.on((SettingsChanged, LevelsChanged), self._show_policy)

    # --- asking ---------------------------------------------------------------------------------

    def set_active(self, is_active: bool) -> None:
        was_active = self._is_active
        super().set_active(is_active)
        if is_active and not was_active:
            self._ask()
            self._show_policy()
        elif not is_active:
            self._timer.stop()

    def _ask_soon(self, delay_ms: int) -> None:
        if self._is_active and not (
            self._timer.isActive() and self._timer.remainingTime() <= delay_ms
        ):
            self._timer.start(delay_ms)

    def _ask(self) -> None:
        """One question at a time; what happens meanwhile is asked for afterwards."""
        self._timer.stop()
        if self._is_asked or self.step_card.is_measuring:
            self._is_stale = True
            return
        self._is_asked, self._is_stale = True, False
        # Of all chats: it is shown for the one that is open by then.
        self._desk.cache.read(self._take, self._on_failed, still=ALWAYS)

    def _take(self, told: CacheMap) -> None:
        self._is_asked = False
        self._told = told
        self._cells = CellMap(told, self._conversation)
        if self._is_active:
            self._show()
        self._ask_if_stale()

    def _on_failed(self, sentence: str) -> None:
        self._is_asked = False
        self._told = self._cells = None
        self._show(sentence)
        self._ask_if_stale()

    def _ask_if_stale(self) -> None:
        if self._is_stale and self._is_active:
            self._ask_soon(SOON_MS)

    @property
    def _conversation(self) -> str:
        """What the engine calls the open chat."""
        return self._desk.server.opened.engine_name or self._desk.shelf.open.id

    def _slots_here(self) -> list[CacheSlot]:
        """Where the open chat has cells."""
        told = self._told
        return [s for s in told.slots if s.conversation == self._conversation] if told else []

    # --- showing --------------------------------------------------------------------------------

    def _show(self, sentence: str = "") -> None:
        told, loaded = self._told, self._desk.loader.state.loaded
        self._show_parked(told)  # before its card goes, and the keyboard with it
        listed = {
            self.parked_card: bool(told and told.parked),
            self.saved_card: bool(told and told.saved),
        }
        for card in self._all_cards()[1:]:
            is_wanted = listed.get(card, True)
            card.setVisible(told is not None and loaded is not None and is_wanted)
        self.map.setVisible(told is not None)
        for button in self.mode_buttons:
            button.setVisible(told is not None)
        self.legend.setVisible(told is not None)
        self.cells_card.title.setText(words.cells_text(told) if told else "KV cache")
        per_token = loaded.kv_bytes_per_token if loaded is not None else 0
        figure = part_words(told.n_used * per_token, told.n_ctx * per_token) if told else ""
        self.cells_card.figure.set_text(figure if per_token else "")
        self._show_map()
        is_empty = told is None or not told.n_used
        empty = ASKING if told is None else PARKED if told.parked else EMPTY
        self.empty.setText((sentence or empty) if is_empty else "")
        self.empty.setVisible(is_empty)
        self.where.setVisible(not is_empty)
        self.whose.setVisible(not is_empty)
        self._show_turn(told)
        if loaded is not None:
            slots = self._slots_here()
            self.size_card.show_sizes(loaded, slots[0] if slots else None)
        self._show_acts()
        self.step_card.follow()

    def _show_map(self) -> None:
        told, cells = self._told, self._cells
        title_of = self._desk.cache.title
        self._coloring = coloring(self._mode, cells, title_of) if cells else CacheColoring()
        self.map.show_cells(cells, self._coloring.key, self._colors)
        self._show_legend()
        self.grid_caption.setVisible(told is not None)
        if told is not None:
            self.grid_caption.setText(
                f"{words.grid_text(self.map.grid, told.n_ctx)} In order of writing."
            )
        self._show_marked()

    def _colors(self) -> Sequence[QColor]:
        return self._coloring.colors(self._theme.colors)

    def _show_legend(self) -> None:
        texts = [entry.words() for entry in self._coloring.entries]
        while len(self._swatches) > len(texts):
            swatch = self._swatches.pop()
            self._legend_flow.removeWidget(swatch)
            swatch.hide()
            swatch.deleteLater()
        for number, text in enumerate(texts):
            if number == len(self._swatches):
                swatch = Swatch(self._theme, text, partial(self._color, number), self.legend)
                self._legend_flow.addWidget(swatch)
                swatch.show()
                self._swatches.append(swatch)
            self._swatches[number].setText(text)
            self._swatches[number].update()
        self.legend.updateGeometry()

    def _color(self, number: int) -> QColor:
        return self._colors()[number]

    def _show_turn(self, told: CacheMap | None) -> None:
        now = self._turn(told)
        turn = now or self._recorded_turn()
        self.turn_card.title.setText("Last turn" if now or not turn else "This reply")
        self.reused.show(f"{turn.reused:,}" if turn else "", words.reused_text(turn))
        self.evaluated.show(f"{turn.evaluated:,}" if turn else "")
        self.written.show(f"{turn.written:,}" if turn else "")
        is_short = turn is not None and turn.dropped > 0
        self.dropped.show(
            f"{turn.dropped:,}" if turn and is_short else "", words.dropped_text(turn)
        )
        self.turn_caption.setText(COUNTED if now else RECORDED if turn else NO_TURN)

    def _recorded_turn(self) -> LastTurn | None:
        """What was stored with the reply that is looked at."""
        message = self._looking.message
        if message is None:
            return None
        if is_from_server(message):
            return None  # it was read there
        counts, source = message.counts, message.settings.get("reuse_source")
        if counts.reused is None or counts.evaluated is None or counts.generated is None:
            return None
        return LastTurn(
            message.conversation_id,
            counts.reused,
            counts.evaluated,
            counts.generated,
            source if isinstance(source, str) else "",
            *dropped_midway(message),
        )

    def _turn(self, told: CacheMap | None) -> LastTurn | None:
        turns = told.turns if told is not None else []
        found = [turn for turn in turns if turn.conversation == self._conversation]
        return found[-1] if found else None

    def _show_parked(self, told: CacheMap | None) -> None:
        now, title = time.time(), self._desk.cache.title
        parked = told.parked if told is not None else []
        saved = told.saved if told is not None else []
        self.parked.show_copies(
            [words.parked_copy(copy, title(copy.conversation), now) for copy in parked]
        )
        self.saved.show_copies(
            [words.saved_copy(copy, title(copy.conversation), now) for copy in saved]
        )
        if told is not None:
            self.parked_card.figure.set_text(part_words(told.parked_bytes, told.parked_cap_bytes))
            self.saved_card.figure.set_text(part_words(told.saved_bytes, told.saved_cap_bytes))

    # --- what is looked at ----------------------------------------------------------------------

    def _refresh_message(self) -> None:
        self._ask_soon(SOON_MS)
        self._show_marked()

    def _refresh_trace(self) -> None:
        self._show_marked()

    def _refresh_token(self) -> None:
        self._show_marked()

    def _refresh_words(self) -> None:
        self._on_pointed(self.map.cell)

    def _show_marked(self) -> None:
        self.map.mark(self._marked())
        self._on_pointed(self.map.cell)
        self._show_keep()

    def _marked(self) -> tuple[int, int] | None:
        """The first and the last cell of what is looked at."""
        message, index, cells = self._looking.message, self._looking.index, self._cells
        if message is None or cells is None:
            return None
        if index is not None:
            cell = cells.cell_of(message.id, index + n_untraced(message))
            return None if cell is None else (cell, cell)
        return cells.cells_of(message.id)

    def _on_pointed(self, cell: int) -> None:
        cells = self._cells
        if cells is None or not cells.n_used:
            return
        marked = self._marked()
        if cell < 0 and marked is not None and marked[0] == marked[1]:
            cell = marked[0]  # nothing is pointed at: that of the chosen token
        if cell < 0:
            where, whose = POINT, ""
        else:
            where, whose = words.cell_lines(
                cells,
                cell,
                self.map.grid.per_square,
                self._piece(cells.token_id(cell)),
                self._message_at(cell),
                self._others_at(cell),
                {a.id: a.name for m in self._desk.shelf.path for a in m.attachments},
            )
        self.where.set_text(where)
        self.whose.set_text(whose)
        self.map.setAccessibleDescription(f"{where}. {whose}" if whose else where)

    def _piece(self, token_id: int | None) -> bytes | None:
        """What an ID stands for, once the vocabulary is read."""
        loaded = self._desk.loader.state.loaded
        pieces = self._desk.words.of(loaded.fast_hash or None) if loaded is not None else None
        return None if pieces is None or token_id is None else pieces.piece(token_id)

    def _message_at(self, cell: int) -> str:
        """The text of the message that a cell's token belongs to, where the open chat has it."""
        stretch = self._cells.at(cell) if self._cells is not None else None
        wanted = stretch.message_id if stretch is not None else None
        return next((m.content for m in self._desk.shelf.path if m.id == wanted), "")

    def _others_at(self, cell: int) -> list[str]:
        """The titles of other chats that hold it."""
        stretch = self._cells.at(cell) if self._cells is not None else None
        if stretch is None or self._told is None:
            return []
        chats = [self._told.slots[holder].conversation for holder in stretch.holders]
        return [self._desk.cache.title(chat) for chat in chats if chat != self._conversation]

    def _on_chosen(self, cell: int) -> None:
        """Look at the token, or at the message, where the open chat has it."""
        stretch = self._cells.at(cell) if self._cells is not None else None
        if stretch is None or stretch.message_id is None:
            return
        message_id, at = stretch.message_id, stretch.in_message + cell - stretch.first
        message = next((m for m in self._desk.shelf.path if m.id == message_id), None)
        index = None
        if message is not None and self._is_token_of(message, at, cell):
            index = at - n_untraced(message)
        self._looking.look_at(message_id, index)

    def _is_token_of(self, message: Message, at: int, cell: int) -> bool:
        """Whether a cell holds the token that was drawn there, and not the same text cut anew."""
        ids = message.token_ids
        is_reply = message.role is Role.ASSISTANT and at >= n_untraced(message)
        if not is_reply or self._cells is None or not ids:
            return is_reply
        return at < len(ids) and ids[at] == self._cells.token_id(cell)

    def _on_mode(self, button: QAbstractButton) -> None:
        self._mode = next(mode for mode in MODES if mode.name == button.objectName())
        self._show_map()

    # --- changes --------------------------------------------------------------------------------

    def _show_acts(self) -> None:
        told, slots = self._told, self._slots_here()
        is_busy = any(slot.is_busy for slot in told.slots) if told is not None else True
        is_here_busy = any(slot.is_busy for slot in slots)
        has_parked = told is not None and any(
            copy.conversation == self._conversation for copy in told.parked
        )
        is_saved = told is not None and any(
            copy.conversation == self._conversation for copy in told.saved
        )
        has_any = told is not None and bool(told.n_used or told.parked or told.saved)
        focused = next((each for each in self._pressed() if each.hasFocus()), None)
        self.clear_button.setEnabled(has_any and not is_busy)
        self.park_button.setEnabled(bool(slots) and not is_here_busy)
        self.drop_button.setEnabled(bool(slots or has_parked or is_saved) and not is_here_busy)
        self.step_card.set_possible(bool(slots or has_parked) and not is_busy)
        self._show_keep()
        if focused is not None and not focused.isEnabled():
            # Qt's choice would be the button beside it: a space would press that one.
            self.acts_card.setFocus()

    def _pressed(self) -> tuple[QPushButton, ...]:
        """What a space presses, and what may not always be pressed."""
        return (*self._act_buttons(), self.step_card.button)

    def _show_keep(self) -> None:
        keep = self._kept()
        is_busy = any(slot.is_busy for slot in self._slots_here())
        what = "the token" if self._looking.index is not None else "the end of the message"
        is_all = keep >= max((slot.token_ids.shape[0] for slot in self._slots_here()), default=0)
        if keep and is_all:
            hint = "That is the whole chat: choose an earlier message or token"
        elif keep:
            hint = f"Keep this chat only up to {what} you selected: {keep:,} tokens"
        else:
            hint = "Choose a message or token of this chat first: the cells up to it are kept"
        can_keep = bool(keep) and not is_all
        self.keep_button.setText(f"Keep {keep:,} tokens" if can_keep else "Keep a prefix")
        self.keep_button.setToolTip(hint)
        self.keep_button.setAccessibleName(hint)
        self.keep_button.setEnabled(can_keep and not is_busy)

    def _kept(self) -> int:
        """How many tokens there are up to what is looked at; 0 where that is not in the cache."""
        marked, cells = self._marked(), self._cells
        stretch = cells.at(marked[1]) if marked is not None and cells is not None else None
        if stretch is None or marked is None or cells is None:
            return 0
        if cells.slot_of(stretch).conversation != self._conversation:
            return 0
        return stretch.position + marked[1] - stretch.first + 1

    def _on_keep(self) -> None:
        if keep := self._kept():
            self._change("keep_prefix", keep=keep)

    def _change(self, act: CacheAct, keep: int = 0, copy: int = 0) -> None:
        """One change at a time: pressed twice it is done once."""
        change = ChangeCache(0, act, "" if copy else self._conversation, keep, copy)
        self._do(change, DONE[act])

    def _on_delete_saved(self, number: int) -> None:
        self._do(DropSaved(0, number), DELETED if number else ALL_DELETED)

    def _do(self, change: ChangeCache | DropSaved, done: str) -> None:
        if self._is_changing:
            return
        self._is_changing = True
        chat = self._conversation

        def say(sentence: str) -> None:
            self._is_changing = False
            if chat == self._conversation:
                self.done.setText(sentence)
            self._ask()

        self._desk.cache.change(change, lambda: say(done), say, still=ALWAYS)  # it is done

    def _on_measured(self) -> None:
        """What happened meanwhile is asked for now."""
        self._show_acts()
        self._ask_if_stale()

    # --- the policy -----------------------------------------------------------------------------

    def _on_counted(self, event: ContextCounted) -> None:
        if event.last_cut is not None:  # somebody has looked
            self.policy_card.set_count(event.used, event.size, event.n_cut)
            self._show_policy()

    def _on_event(self) -> None:
        self._ask_soon(SOON_MS)

    def _on_stream(self) -> None:
        self._ask_soon(STREAM_MS)

    def _forget_news(self) -> None:
        self.done.setText(BY_HAND)

    def _on_other_chat(self) -> None:
        """What was counted of the one before says nothing of this one."""
        self.policy_card.set_count(0, 0, 0)
        self._show_policy()

    def _show_policy(self) -> None:
        if self._is_active:
            count = self._desk.meter.last  # it may be older than the panel
            if count is not None:
                self.policy_card.set_count(count.used, count.size, count.n_cut)
            self.policy_card.show_policy()
