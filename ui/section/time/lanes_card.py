"""*Batch*: the engine's slots as lanes, live: who joined when, whose rows each pass had, how fast.

What is shown belongs to the engine and not to one reply: the last stretch in which somebody was in
a slot, or an earlier one. The engine is asked when the panel comes on screen, and every `STREAM_MS`
at most while replies are written.
"""

from __future__ import annotations

from typing import Final

from PySide6.QtCore import Signal
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QWidget

from app import cores
from app.amounts import time_text
from app.chat.events import (
    AnswersBegan,
    EngineStateChanged,
    MessageAdded,
    MessageChanged,
    PrefillProgressed,
    SendQueued,
    TokenRecorded,
)
from app.engine.protocol.lane_messages import LaneVisit, LaneWaiting
from app.insight.time.lanes import LaneRecord, LaneSpan, as_csv, rate_of
from app.insight.time.timeline import KINDS
from models.records import Message
from ui.section.figure_card import FigureCard
from ui.section.panel import Tools
from ui.section.time.lanes_view import HINT, LaneShown, LanesView
from ui.section.time.line import ZOOM_STEP
from ui.section.time.words import tokens_text
from ui.widgets.icon_button import IconButton
from ui.widgets.kit import rest_timer

STREAM_MS: Final = 1000 if cores.HAS_FEW else 400
SOON_MS: Final = 60
MOST_NAMES: Final = 1024

CAPTION: Final = (
    "A lane is a slot of the engine. Each pass has rows of every reply in it: many while a prompt "
    "is processed, then one per token."
)


class LanesCard(FigureCard):
    """There only where something was recorded since the weights were loaded. `refreshed`: it shows
    what the engine has told."""

    refreshed = Signal()

    def __init__(self, tools: Tools, parent: QWidget | None = None) -> None:
        super().__init__(tools.theme, "Batch", parent)
        self._desk = tools.desk
        self._is_active = False
        self._place = 0
        """How many stretches before the last one is shown."""
        self._names: dict[str, str] = {}
        self.setObjectName("lanes_card")
        self.figure.setObjectName("lanes_together")
        self._timer = rest_timer(self, self._ask)
        self._make_buttons()
        self.view = LanesView(tools.theme, self)
        self.view.words_of = self._words_of
        self.view.pointed.connect(self._say_pointed)
        self.view.view_changed.connect(self._follow_view)
        self.body.addWidget(self.view)
        self.waiting = self.add_caption("lanes_waiting")
        self.readout = self.add_caption("lanes_readout")
        self.caption = self.add_caption("lanes_caption")
        self.caption.setText(CAPTION)
        bridge = tools.bridge
        bridge.on((TokenRecorded, PrefillProgressed), self._on_stream)
        bridge.on((EngineStateChanged, SendQueued), self._on_other)
        bridge.on(MessageAdded, self._on_message)
        bridge.on(MessageChanged, self._on_message)
        bridge.on(AnswersBegan, self._on_answers)
        self._show()

    def _make_buttons(self) -> None:
        theme = self._theme
        self.earlier = IconButton(theme, "caret-left", "Show the replies before", parent=self)
        self.later = IconButton(theme, "caret-right", "Show the replies after", parent=self)
        self.out = IconButton(theme, "magnifying-glass-minus", "Zoom out", parent=self)
        self.closer = IconButton(theme, "magnifying-glass-plus", "Zoom in", parent=self)
        self.copy = IconButton(theme, "copy", "Copy the passes as CSV", parent=self)
        for name, button in (
            ("lanes_earlier_button", self.earlier),
            ("lanes_later_button", self.later),
            ("lanes_out_button", self.out),
            ("lanes_in_button", self.closer),
            ("lanes_copy_button", self.copy),
        ):
            button.setObjectName(name)
            self._head.addWidget(button)
        self.earlier.clicked.connect(lambda: self._go(1))
        self.later.clicked.connect(lambda: self._go(-1))
        self.closer.clicked.connect(lambda: self.view.zoom(ZOOM_STEP))
        self.out.clicked.connect(lambda: self.view.zoom(1 / ZOOM_STEP))
        self.copy.clicked.connect(self.copy_csv)

    @property
    def record(self) -> LaneRecord:
        return self._desk.lanes.record

    def copy_csv(self) -> None:
        QGuiApplication.clipboard().setText(as_csv(self.record))

    # --- asking ---------------------------------------------------------------------------------

    def set_active(self, is_active: bool) -> None:
        was_active, self._is_active = self._is_active, is_active
        if is_active and not was_active:
            self._ask()
        elif not is_active:
            self._timer.stop()

    def _ask_soon(self, delay_ms: int) -> None:
        is_due = self._timer.isActive() and self._timer.remainingTime() <= delay_ms
        if self._is_active and not is_due:
            self._timer.start(delay_ms)

    def _ask(self) -> None:
        self._timer.stop()
        if self._desk.lanes.read(self._on_read) is False:
            self._ask_soon(STREAM_MS)

    def _on_read(self) -> None:
        if not self._is_active:
            return
        self._show()
        self.refreshed.emit()
        if self.record.present or self.record.waiting:
            self._ask_soon(STREAM_MS)  # also where nobody tells that somebody left

    # --- names ----------------------------------------------------------------------------------

    def _on_stream(self) -> None:
        self._ask_soon(STREAM_MS)

    def _on_other(self) -> None:
        self._ask_soon(SOON_MS)

    def _on_message(self, event: MessageAdded | MessageChanged) -> None:
        self._name(event.message)
        self._ask_soon(SOON_MS)

    def _on_answers(self, event: AnswersBegan) -> None:
        for message in event.messages:
            self._name(message)

    def _name(self, message: Message) -> None:
        if message.sibling_count > 1:
            self._names[message.id] = f"Version {message.sibling_index + 1}"
        while len(self._names) > MOST_NAMES:
            del self._names[next(iter(self._names))]

    def name_of(self, who: LaneVisit | LaneWaiting) -> str:
        """What a reply is called here: the client that it is for, its version in the open chat,
        else its chat."""
        client = self._desk.server.log.client_of(who.reply_id or who.conversation)
        if client:
            return client
        if who.conversation != self._desk.shelf.open.id:
            return self._desk.cache.title(who.conversation) or "Another chat"
        for message in self._desk.shelf.path:
            if message.id == who.reply_id:
                self._name(message)
        return self._names.get(who.reply_id, "This reply")

    # --- showing --------------------------------------------------------------------------------

    def _go(self, by: int) -> None:
        self._place += by
        self._show()

    def _show(self) -> None:
        record = self.record
        bursts = record.bursts()
        self.setVisible(bool(bursts or record.waiting))
        if not bursts:
            self.view.show_lanes((), (), 0.0, 0.0)
            self._say_waiting()
            return
        self._place = min(max(self._place, 0), len(bursts) - 1)
        self.earlier.setEnabled(self._place < len(bursts) - 1)
        self.later.setEnabled(self._place > 0)
        start, end = bursts[-1 - self._place]
        spans = record.spans_in(start, end)
        is_live = self._place == 0 and bool(record.present)
        most = max(spans, key=lambda span: span.prompt_rows + span.token_rows, default=None)
        shown = spans[-1] if is_live and spans else most
        words = rows_text(shown) if shown is not None else ""
        self.view.rows_figure = words if is_live or not words else f"up to {words}"
        self.view.show_lanes(self._lanes(start, end), spans, start, end)
        self._say_together(start, end)
        self._say_waiting()
        self._say_pointed()

    def _lanes(self, start: float, end: float) -> list[LaneShown]:
        by_slot: dict[int, list[LaneVisit]] = {}
        for visit in self.record.visits_in(start, end):
            by_slot.setdefault(visit.slot, []).append(visit)
        return [
            LaneShown(
                slot,
                tuple(visits),
                f"Slot {slot + 1} · {self.name_of(visits[-1])}",
                visit_figure(visits[-1]),
            )
            for slot, visits in sorted(by_slot.items())
        ]

    def _say_together(self, start: float, end: float) -> None:
        is_live = self._place == 0 and bool(self.record.present)
        rate = self.record.lately() if is_live else self.record.tokens_per_s(start, end)
        self.figure.set_text(f"{rate:,.1f} tokens/s" if rate is not None else "")
        self.figure.setToolTip("All replies together")
        lanes = "; ".join(f"{lane.name}: {lane.figure}" for lane in self.view.lanes)
        self.view.setAccessibleDescription(f"{self.figure.text()}. {lanes}. {HINT}")

    def _say_waiting(self) -> None:
        record = self.record
        waiting = [
            f"{self.name_of(who)}: {KINDS[who.awaited].sentence[0].lower()}"
            f"{KINDS[who.awaited].sentence[1:].rstrip('.')}"
            for who in record.waiting
        ]
        n_free = record.n_slots - len(record.present)
        slots = f"{len(record.present)} of {record.n_slots} slots in use" if n_free else ""
        full = f"All {record.n_slots} slots in use" if not n_free and record.n_slots else ""
        words = [full or slots, *waiting]
        self.waiting.setText(". ".join(filter(None, words)) + ".")

    def _say_pointed(self) -> None:
        number = self.view.marked
        span = next((one for one in self.view.spans if one.number == number), None)
        self.readout.setVisible(span is not None)
        if span is not None:
            self.readout.setText(" · ".join(self._span_lines(span)))

    def _follow_view(self) -> None:
        self.out.setEnabled(not self.view.scale.is_whole)

    # --- words ----------------------------------------------------------------------------------

    def _words_of(self, span: LaneSpan | None, lane: LaneShown | None) -> list[str]:
        lines = self._span_lines(span) if span is not None else []
        for visit in lane.visits if lane is not None else ():
            lines += [self.name_of(visit), *visit_lines(visit, self.view.start_ms)]
        return lines or [HINT]

    def _span_lines(self, span: LaneSpan) -> list[str]:
        at = time_text(max(span.start_ms - self.view.start_ms, 0.0))
        passes = "1 pass" if span.passes == 1 else f"{span.passes:,} passes"
        n = len(span.shares)
        replies = "1 reply" if n == 1 else f"{n} replies"
        return [
            f"At {at}: {passes} of {time_text(span.ms_per_pass)}",
            f"{replies}, {rows_text(span)}",
        ]


def rows_text(span: LaneSpan) -> str:
    """How many rows each of its passes had.

    >>> from app.insight.time.lanes import Share
    >>> rows_text(LaneSpan(0, 0.0, 1.0, 1, (Share(0, 64, True), Share(1, 1, False))))
    '64 prompt + 1 token row'
    """
    tokens = f"{span.token_rows:,} token row{'s' * (span.token_rows != 1)}"
    if span.prompt_rows and span.token_rows:
        return f"{span.prompt_rows:,} prompt + {tokens}"
    return f"{span.prompt_rows:,} prompt rows" if span.prompt_rows else tokens


def visit_figure(visit: LaneVisit) -> str:
    """What stands at the right of a lane."""
    rate = rate_of(visit)
    parts = [tokens_text(visit.written)] if visit.written else []
    if rate is not None:
        parts.append(f"{rate:,.1f}/s")
    if not parts:
        parts.append(f"{visit.read:,} of its prompt processed")
    return " · ".join(parts)


def visit_lines(visit: LaneVisit, start_ms: float) -> list[str]:
    """When it joined and left, and what it did meanwhile."""
    joined = time_text(max(visit.joined_ms - start_ms, 0.0))
    waited = f" after waiting {time_text(visit.waited_ms)}" if visit.waited_ms >= 1 else ""
    lines = [
        f"Joined at {joined}{waited}",
        f"Prompt: {visit.reused:,} cached, {visit.read:,} processed",
        visit_figure(visit),
    ]
    if visit.left_ms:
        left = time_text(max(visit.left_ms - start_ms, 0.0))
        lines.append(f"Left at {left}: {visit.ending.replace('_', ' ')}")
    return lines
