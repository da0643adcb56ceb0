"""*Time*: what the time of the reply went into, on a line and in sums.

The line of a reply that has ended was recorded by the engine and is stored with the message. Of a
reply that grows, and of one that was written before the line was recorded, the trace's tokens are
all there is: the panel says so.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Final

from PySide6.QtCore import Qt
from PySide6.QtGui import QFont, QGuiApplication
from PySide6.QtWidgets import (
    QFrame,
    QHBoxLayout,
    QLabel,
    QScrollBar,
    QVBoxLayout,
    QWidget,
)

from app.amounts import time_text
from app.chat.events import PrefillProgressed
from app.engine.protocol.messages import TokenTrace
from app.insight.time.drafts import (
    DraftFigures,
    from_stored as from_stored_drafts,
    of_trace as of_drafted_trace,
)
from app.insight.time.timeline import (
    COUNTED,
    Lane,
    Stretch,
    from_stored,
    is_gathered,
    lane_ms,
    of_server,
    of_trace,
    parts,
    total_ms,
)
from app.insight.trace.message_tokens import n_taken_over
from app.insight.trace.table import TraceTable
from app.insight.trace.tokens_shown import visible
from models.records import Message, Role
from ui.look.theme import Theme
from ui.section.panel import Panel, Tools
from ui.section.term_label import term_label
from ui.section.time.drafts import DraftsCard
from ui.section.time.lanes_card import LanesCard
from ui.section.time.line import HINT, LANES, ZOOM_STEP, Hit, TimeLine, lane_figure
from ui.section.time.parts import TimeParts, as_csv
from ui.section.time.words import stretch_lines, token_lines, tokens_text
from ui.transcript.summary import ending_text
from ui.widgets.elided import ElidedLabel
from ui.widgets.icon_button import IconButton
from ui.widgets.steady_area import SteadyArea

RECORDED: Final = "Recorded by the engine's clock from the arrival of the request."
GATHERED: Final = " Neighbouring parts were merged: totals are exact, positions approximate."
GROWING: Final = (
    "Only decode is shown while the reply is generated. The rest appears when it is finished."
)
NOT_RECORDED: Final = (
    "Prefill and waiting weren't recorded for this reply. Decode comes from its trace."
)
OF_SERVER: Final = "{engine} doesn't tell what its time went into, only its tokens are timed."
NOTHING_RECORDED: Final = "No times were recorded for this reply."

BEFORE_BRANCH: Final = "Token {number:,} comes from the version this one was branched from."
POINT: Final = "Hover over a block or bar for its figures. Click a bar to show its token."

BATCH: Final = "Batch"
"""The room that it has besides."""

_TICKS_OF_BAR: Final = 10_000


class TimePanel(Panel):
    title = "Time"

    def __init__(self, tools: Tools, parent: QWidget | None = None) -> None:
        super().__init__(tools, parent)
        self._line_of: str | None = None
        self._wants_batch = False
        self._n_head = 0
        self._known: tuple[Sequence[TokenTrace], Sequence[float]] = ((), ())
        self._prefilled: PrefillProgressed | None = None
        self.setObjectName("panel_time")
        self._make()
        self._build()
        self.line.words_of = self._words_of
        self.line.token_clicked.connect(self._on_token_clicked)
        self.line.step_wanted.connect(self._looking.step)
        self.line.view_changed.connect(self._follow_view)
        self.bar.valueChanged.connect(self._on_bar)
        self.in_button.clicked.connect(lambda: self.line.zoom(ZOOM_STEP))
        self.out_button.clicked.connect(lambda: self.line.zoom(1 / ZOOM_STEP))
        self.fit_button.clicked.connect(self.line.fit)
        self.copy_button.clicked.connect(self.copy_csv)
        tools.bridge.on(PrefillProgressed, self._on_prefill)
        self.lanes.refreshed.connect(self._on_lanes)
        self._theme.space(self._cards, 8)
        self._theme.space(self._inner, 4, margins=(12, 8, 12, 12))
        self._theme.space(self._head, 4)

    # --- building -------------------------------------------------------------------------------

    def _make(self) -> None:
        theme = self._theme
        self.area = SteadyArea(self)
        self._content = QWidget(self)
        self._card = QFrame(self._content)
        self._card.setProperty("plane", "card")
        self.heading = QLabel("Time", self._card)
        self.total = ElidedLabel("", self._card)
        self.total.setObjectName("time_total")
        # Before the area looks at them: where there is a style sheet, a label that gets another
        # parent (a stack, later) has the font again that it had when it was first looked at.
        theme.font(self.heading, Theme.font_small, QFont.Weight.DemiBold)
        theme.font(self.total, Theme.font_small)
        self.line = TimeLine(theme, self._card)
        self.bar = QScrollBar(Qt.Orientation.Horizontal, self._card)
        self.bar.setObjectName("time_scroll")
        self.bar.setAccessibleName("Visible part of the timeline")
        self.readout = term_label("", self._card, "small", name="time_readout", wraps=True)
        self.shared = term_label("", self._card, "small", name="time_shared", wraps=True)
        self.prefill = term_label("", self._card, "small", name="time_prefill", wraps=True)
        self.ending = term_label("", self._content, "small", name="time_ending", wraps=True)
        self.caption = term_label("", self._content, "small", name="time_caption", wraps=True)
        self.out_button = IconButton(theme, "magnifying-glass-minus", "Zoom out", parent=self._card)
        self.in_button = IconButton(theme, "magnifying-glass-plus", "Zoom in", parent=self._card)
        self.fit_button = IconButton(
            theme, "arrows-in-line-horizontal", "Show the whole timeline", parent=self._card
        )
        self.copy_button = IconButton(theme, "copy", "Copy the parts as CSV", parent=self._card)
        for name, button in (
            ("time_out_button", self.out_button),
            ("time_in_button", self.in_button),
            ("time_fit_button", self.fit_button),
            ("time_copy_button", self.copy_button),
        ):
            button.setObjectName(name)
        self.parts = TimeParts(theme, self._content)
        self.drafts = DraftsCard(theme, self._content)
        self.lanes = LanesCard(self._tools, self._content)

    def _build(self) -> None:
        self._head = QHBoxLayout()
        self._head.addWidget(self.heading)
        self._head.addWidget(self.total, 1)
        for button in (self.out_button, self.in_button, self.fit_button, self.copy_button):
            self._head.addWidget(button)
        self._inner = QVBoxLayout(self._card)
        self._inner.addLayout(self._head)
        self._inner.addWidget(self.prefill)
        self._inner.addWidget(self.line)
        self._inner.addWidget(self.bar)
        self._inner.addWidget(self.shared)
        self._inner.addWidget(self.readout)
        self._cards = QVBoxLayout(self._content)
        self._cards.setContentsMargins(0, 0, 0, 0)
        for widget in (
            *(self._card, self.parts, self.drafts, self.ending, self.caption),
            self.lanes,
        ):
            self._cards.addWidget(widget)
        self._cards.addStretch(1)
        self.area.setWidgetResizable(True)
        self.area.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.area.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.area.setWidget(self._content)
        self.area.viewport().setAutoFillBackground(False)
        self._content.setAutoFillBackground(False)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.addWidget(self.area)

    def set_active(self, is_active: bool) -> None:
        super().set_active(is_active)
        self.lanes.set_active(is_active)

    def enter(self, room: str) -> None:
        if room == BATCH:
            self._wants_batch = True
            self.lanes.view.setFocus(Qt.FocusReason.OtherFocusReason)
            self._go_to_batch()

    def _go_to_batch(self) -> None:
        if self._wants_batch and not self.lanes.isHidden():
            self._cards.activate()
            self.area.verticalScrollBar().setValue(self.lanes.y())

    def _on_lanes(self) -> None:
        """The card may only now have come, or have its height."""
        self._go_to_batch()
        self._wants_batch = False

    def copy_csv(self) -> None:
        QGuiApplication.clipboard().setText(as_csv(self.parts.parts))

    # --- following ------------------------------------------------------------------------------

    def _refresh_message(self) -> None:
        self._refresh_trace()

    def _refresh_trace(self) -> None:
        message = self._looking.message
        self._n_head = 0 if message is None else n_taken_over(message)
        token_ms = self._token_ms()[self._n_head :]
        stretches = self._stretches(message, token_ms)
        if message is None or message.id != self._line_of:
            self._line_of = None if message is None else message.id
            self.line.scale.fit()
        self.line.figures = _figures(stretches)
        self.line.show_line(stretches, token_ms)
        self.parts.show_parts(parts(stretches), total_ms=total_ms(stretches))
        self._say(message, stretches)
        self.drafts.show_figures(self._drafted(message), is_growing=self._looking.is_growing)
        self._refresh_token()

    def _drafted(self, message: Message | None) -> DraftFigures | None:
        if message is None or message.role is not Role.ASSISTANT:
            return None
        if self._looking.is_growing:
            return of_drafted_trace(self._looking.traces, self._n_head)
        return from_stored_drafts(message.settings.get("draft_report"))

    def _refresh_token(self) -> None:
        index = self._looking.index
        is_on_line = index is not None and index >= self._n_head
        self.line.select(index - self._n_head if index is not None and is_on_line else None)
        lines = [] if index is None else self._token_lines(index)
        self.readout.setText(" · ".join(lines) or POINT)
        self.readout.setVisible(bool(lines) or bool(self.line.stretches))
        self.line.setAccessibleDescription(" · ".join(lines) or HINT)

    def _stretches(self, message: Message | None, token_ms: Sequence[float]) -> tuple[Stretch, ...]:
        if message is None or message.role is not Role.ASSISTANT:
            return ()
        recorded = () if self._looking.is_growing else from_stored(message.settings.get("timeline"))
        if recorded or (writer := self._looking.writer) is None:
            return recorded or of_trace(token_ms)
        return of_server(token_ms, is_told=writer.has_timings)

    def _token_ms(self) -> Sequence[float]:
        """Of a trace that grows the column; of one that does not it is made once."""
        traces = self._looking.traces
        if isinstance(traces, TraceTable):
            return traces.column("ms")
        if self._known[0] is not traces:
            self._known = (traces, array("d", [token.ms for token in traces]))
        return self._known[1]

    def _say(self, message: Message | None, stretches: Sequence[Stretch]) -> None:
        has_line = bool(stretches)
        self._card.setVisible(has_line or self._says_prefill(message))
        self.parts.setVisible(has_line)
        self.total.set_text(f"{time_text(total_ms(stretches))} in total" if has_line else "")
        self.copy_button.setEnabled(has_line)
        self._say_shared()
        self.caption.setText(self._caption(message, stretches))
        ending = "" if message is None or self._looking.is_growing else ending_text(message)
        self.ending.setText(f"Ended: {ending}." if ending else "")
        self.ending.setVisible(bool(ending) and has_line)
        self._say_prefill(message)

    def _say_shared(self) -> None:
        most = int(self.line.bars.slots.max()) if len(self.line.bars) else 0
        self.shared.setText(f"Line above the bars: up to {most} replies per pass.")
        self.shared.setVisible(most > 1)

    def _caption(self, message: Message | None, stretches: Sequence[Stretch]) -> str:
        if message is None or message.role is not Role.ASSISTANT:
            return self._looking.sentence
        if (writer := self._looking.writer) is not None and stretches:
            return OF_SERVER.format(engine=writer.words)
        if self._looking.is_growing:
            return GROWING
        recorded = from_stored(message.settings.get("timeline"))
        if not recorded:
            return NOT_RECORDED if stretches else self._looking.sentence or NOTHING_RECORDED
        return RECORDED + (GATHERED if is_gathered(recorded) else "") + _checked(message, recorded)

    # --- prefill of a reply that grows ----------------------------------------------------------

    def _on_prefill(self, event: PrefillProgressed) -> None:
        self._prefilled = event
        if self._is_active:
            message = self._looking.message
            if message is not None and message.id == event.message_id:
                self._card.setVisible(self._says_prefill(message) or bool(self.line.stretches))
                self._say_prefill(message)

    def _says_prefill(self, message: Message | None) -> bool:
        return (
            message is not None
            and self._looking.is_growing
            and self._prefilled is not None
            and self._prefilled.message_id == message.id
        )

    def _say_prefill(self, message: Message | None) -> None:
        is_said = self._says_prefill(message)
        self.prefill.setVisible(is_said)
        if is_said and self._prefilled is not None:
            done, total = self._prefilled.done_tokens, self._prefilled.total_tokens
            words = f"Prefill: {done:,} of {tokens_text(total)} of the prompt processed."
            if self._prefilled.is_media:
                words = (
                    f"Media: {done:,} of {total:,} {'part' if total == 1 else 'parts'} processed."
                )
            self.prefill.setText(words)

    # --- the view -------------------------------------------------------------------------------

    def _follow_view(self) -> None:
        scale = self.line.scale
        is_zoomed = not scale.is_whole and scale.whole_ms > 0
        self.bar.setVisible(is_zoomed)
        self.fit_button.setEnabled(is_zoomed)
        self.out_button.setEnabled(is_zoomed)
        if not is_zoomed:
            return
        per_ms = _TICKS_OF_BAR / scale.whole_ms
        was_blocked = self.bar.blockSignals(True)
        self.bar.setRange(0, round((scale.whole_ms - scale.shown_ms) * per_ms))
        self.bar.setPageStep(max(round(scale.shown_ms * per_ms), 1))
        self.bar.setSingleStep(max(self.bar.pageStep() // 10, 1))
        self.bar.setValue(round(scale.left_ms * per_ms))
        self.bar.blockSignals(was_blocked)

    def _on_bar(self, value: int) -> None:
        self.line.move_to(value * self.line.scale.whole_ms / _TICKS_OF_BAR)

    # --- words ----------------------------------------------------------------------------------

    def _on_token_clicked(self, bar: int) -> None:
        self._looking.select(bar + self._n_head)

    def _words_of(self, hit: Hit) -> list[str]:
        if hit.token is not None:
            return [*self._token_lines(hit.token + self._n_head), "Click to show this token"]
        if hit.stretch is not None and hit.stretch < len(self.line.stretches):
            return stretch_lines(self.line.stretches[hit.stretch])
        return [HINT]

    def _token_lines(self, index: int) -> list[str]:
        found, bar = self.line.bars, index - self._n_head
        if bar < 0:
            return [BEFORE_BRANCH.format(number=index + 1)]
        if bar >= len(found) or index >= len(self._looking.traces):
            return []
        return token_lines(
            index,
            visible(self._looking.traces[index].piece),
            float(found.ms[bar]),
            float(found.starts[bar]),
            int(found.slots[bar]),
            int(found.batch[bar]),
        )


def _checked(message: Message, recorded: Sequence[Stretch]) -> str:
    """The sum beside the engine's clock, which leaves out what step mode held."""
    clock = message.counts.total_s
    if clock is None:
        return ""
    held = total_ms([one for one in recorded if one.kind == "held"])
    whole = total_ms(recorded) - held
    but = ", without holds," if held else ""
    return f" The parts{but} add up to {whole:,.1f} ms; the clock says {1000 * clock:,.1f} ms."


def _figures(stretches: Sequence[Stretch]) -> dict[Lane, str]:
    whole = total_ms(stretches)
    found: dict[Lane, str] = {}
    for lane in LANES:
        ms = lane_ms(stretches, lane)
        n_tokens = sum(one.tokens for one in stretches if one.lane == lane and one.kind in COUNTED)
        tokens = tokens_text(n_tokens) if n_tokens else ""
        if ms > 0:
            found[lane] = lane_figure(ms, ms / whole, tokens)
    return found
