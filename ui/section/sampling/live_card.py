"""*Live*: one token's candidates while temperature, top-k, top-p and min-p are being moved.

It begins with the values of the open chat, so that one sees what the next reply's settings would
have made of this token, before anything is sent; a button makes the moved values the chat's.

    card = LiveCard(tools, parent)      # a card of the sampling panel
    card.set_active(True)               # while it is on screen; else it follows nothing
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QHBoxLayout, QWidget

from app.chat.events import ConversationOpened, EngineStateChanged, LevelsChanged, SettingsChanged
from app.chat.settings.resolved import shown_value
from app.chat.settings.settings import Settings
from app.engine.protocol.stages import Dist, Stage
from app.engine.protocol.without_effect import idle_stages
from app.insight.sampling.live import ORDER, Live, Row, Values, live
from app.insight.sampling.pool import Between, CannotTell, best_logit
from app.insight.trace.tokens_shown import visible
from ui.section.card import Card, small_label
from ui.section.panel import Tools
from ui.section.sampling.live_bars import LiveBars, LiveRow
from ui.section.sampling.live_values import FIELDS, LiveValues
from ui.section.sampling.stage_words import WORDS
from ui.widgets.figures import signed
from ui.widgets.kit import push_button

ROWS: Final = 8
CHOOSE: Final = (
    "Choose a token of the reply, then change a value to see the effect on its probabilities."
)
RELATIVE: Final = "Logits are relative to the best one. "
MOST_TOKENS: Final = 1_000_000
"""Of a vocabulary whose size is not known; the more there are, the wider are the bounds."""

_IN_ORDER: Final = {kind: WORDS[kind].title.lower() for kind in ORDER}


class LiveCard(Card):
    """Follows the token that is looked at while it is active. `moved`: other values than the
    chat's, or None where they are its own again."""

    moved = Signal(object)

    def __init__(self, tools: Tools, parent: QWidget | None = None) -> None:
        super().__init__(tools.theme, "Live: logits, softmax, cuts", parent)
        self._desk, self._looking = tools.desk, tools.looking
        self._is_active = False
        self._is_touched = False
        self._order: tuple[type[Stage], ...] = ORDER
        self.setObjectName("live_card")
        self.setAccessibleName(self.title.text())
        self.values = LiveValues(tools.theme, "Live", self)
        self.bars = LiveBars(tools.theme, self)
        self.refusal = small_label("", self)
        self.refusal.setProperty("kind", "refusal")
        self.refusal.setObjectName("live_refusal")
        self.summary = small_label("", self, name="live_summary")
        self.without = small_label("", self)
        self.without.setProperty("kind", "caution")
        self.without.setObjectName("live_without")
        self.caption = small_label("", self, name="live_caption")
        self.use_button = push_button(
            "Use in this chat",
            self,
            "live_use_button",
            kind="tiny",
            hint="Use these values for the next reply in this chat.",
        )
        self.back_button = push_button(
            "Reset",
            self,
            "live_back_button",
            kind="tiny",
            hint="Reset to the values of the next reply",
        )
        self.uncertain_button = push_button(
            "Go to the least certain token", self, "live_uncertain_button", kind="tiny"
        )
        self._acts = QHBoxLayout()
        tools.theme.space(self._acts, 6)
        self._acts.addWidget(self.uncertain_button)
        self._acts.addWidget(self.use_button)
        self._acts.addWidget(self.back_button)
        self._acts.addStretch(1)
        for widget in (
            self.values,
            self.refusal,
            self.bars,
            self.summary,
            self.without,
            self.caption,
        ):
            self.body.addWidget(widget)
        self.body.addLayout(self._acts)
        self._connect(tools)
        self._put_back()

    def _connect(self, tools: Tools) -> None:
        for signal in (
            tools.looking.message_changed,
            tools.looking.trace_changed,
            tools.looking.token_changed,
            tools.looking.words_changed,
        ):
            signal.connect(self._refresh)
        bridge = tools.bridge
        bridge.on(
            (SettingsChanged, LevelsChanged, ConversationOpened, EngineStateChanged),
            self._follow_chat,
        )
        self.values.changed.connect(self._on_moved)
        self.values.refused.connect(self._on_refused)
        self.back_button.clicked.connect(lambda _=False: self._put_back())
        self.uncertain_button.clicked.connect(lambda _=False: self._looking.go_to_most_uncertain())
        self.use_button.clicked.connect(lambda _=False: self._use())

    # --- whose values ---------------------------------------------------------------------------

    def set_active(self, is_active: bool) -> None:
        """Whether it is on screen."""
        was_active, self._is_active = self._is_active, is_active
        if is_active and not was_active:
            self._follow_chat()

    def _follow_chat(self) -> None:
        """The chat's settings are others now; values that somebody has moved stay."""
        if not self._is_active:
            return
        if self._is_touched:
            self._refresh()
        else:
            self._put_back()

    def _put_back(self) -> None:
        self._is_touched = False
        if self._is_active:
            settings = self._desk.levels.resolved().settings
            self._order = order_of(settings)
            self.values.show_values(values_of(settings))
            self._on_refused("")
            self._refresh()
        self._show_buttons()
        self.moved.emit(None)

    def _on_moved(self, values: Values) -> None:
        self._is_touched = True
        self._show_buttons()
        self.moved.emit(values)
        self._refresh()

    def _on_refused(self, sentence: str) -> None:
        self.refusal.setText(sentence)
        self.refusal.setVisible(bool(sentence))

    def _show_buttons(self) -> None:
        is_other = self._is_touched and self._is_active and self.values.values != self._of_chat()
        self.back_button.setEnabled(self._is_touched)
        self.use_button.setEnabled(is_other)

    def _of_chat(self) -> Values:
        return values_of(self._desk.levels.resolved().settings)

    def _use(self) -> None:
        of_chat = self._of_chat()
        for field in FIELDS:
            value = getattr(self.values.values, field.name)
            if value != getattr(of_chat, field.name):
                self._desk.levels.change("chat", field.name, value)
        self._is_touched = False
        self._show_buttons()
        self.moved.emit(None)

    # --- what comes of them ---------------------------------------------------------------------

    def _refresh(self) -> None:
        if not self._is_active:
            return
        token = self._looking.token
        self.figure.set_text("" if token is None else f"token {token.index + 1:,}")
        if token is None:
            self._show_sentence(CHOOSE if len(self._looking.traces) else self._looking.sentence)
            return
        try:
            n_vocab = self._looking.n_vocab or MOST_TOKENS
            found = live(token, n_vocab, self.values.values, self._order)
        except CannotTell as reason:
            self._show_sentence(reason.sentence)
            return
        best = best_logit(token)
        self.bars.show_rows(self._rows(found, best or 0.0))
        self._offer(is_choosing=False)
        self.summary.setText(summary(found))
        self.without.setText(without(left_out(self._desk.levels.resolved().settings)))
        self.without.setVisible(bool(self.without.text()))
        self.summary.setVisible(True)
        self.bars.setVisible(True)
        self.caption.setText(self._caption(found, is_relative=best is None))

    def _show_sentence(self, sentence: str) -> None:
        for widget in (self.bars, self.summary, self.without):
            widget.setVisible(False)
        self.caption.setText(sentence)
        self._offer(is_choosing=sentence == CHOOSE)

    def _offer(self, *, is_choosing: bool) -> None:
        """Without a token there is nothing to move, but one to choose."""
        self.uncertain_button.setVisible(is_choosing)
        self.use_button.setVisible(not is_choosing)
        self.back_button.setVisible(not is_choosing)

    def _rows(self, found: Live, best: float) -> list[LiveRow]:
        shown = [
            row for at, row in enumerate(found.rows) if at < ROWS or row.is_drawn or row.is_hit
        ]
        rows = [self._row(row, found, best) for row in shown]
        others = [row for row in found.rows if row not in shown]
        if others:
            after = [row.after for row in others if row.after is not None]
            span = Between(sum(each.low for each in after), sum(each.high for each in after))
            rows.append(_sum(f"{len(others)} more", sum(row.before for row in others), span))
        rows.append(_sum("not recorded", found.rest_before, found.rest_after))
        return rows

    def _row(self, row: Row, found: Live, best: float) -> LiveRow:
        words = self._looking.words
        known = words.piece(row.token_id) if words is not None else b""
        if row.removed_by is not None:
            after = f"cut: {_IN_ORDER[row.removed_by]}"
        else:
            after = "unknown" if row.after is None else percent(row.after)
        return LiveRow(
            visible(known) or f"ID {row.token_id}",
            signed(row.logit + best, ".1f"),
            percent(Between(row.before, row.before)),
            row.before,
            after,
            0.0 if row.after is None else (row.after.low + row.after.high) / 2,
            row.is_drawn,
            row.is_hit and not found.is_at_least,
        )

    def _caption(self, found: Live, *, is_relative: bool) -> str:
        order = ", ".join(_IN_ORDER[kind] for kind in self._order)
        text = (
            f"Computed from the {found.n_recorded} recorded candidates "
            f"({percent(Between(found.covered, found.covered))} of the probability). "
            f"{RELATIVE if is_relative else ''}Before: temperature 1, before samplers. "
            f"After: {order}."
        )
        if found.is_close:
            text += " Rounding may keep or cut one candidate at the limit."
        if found.uniform is not None and not found.is_at_least:
            number = f"the recorded number {found.uniform:.4f}"
            stays = any(row.is_hit and row.is_drawn for row in found.rows)
            text += f" With these values, {number} draws the same token." if stays else ""
            text += "" if stays else f" ▸ marks where {number} falls now."
        return text

    # --- looks ----------------------------------------------------------------------------------


def values_of(settings: Settings) -> Values:
    """The four values that the next reply is drawn with; where a stage is not in the chain, what
    cuts nothing."""
    found = {name: shown_value(settings, name) for name in (field.name for field in FIELDS)}
    return replace(Values(), **{name: v for name, v in found.items() if v is not None})


def order_of(settings: Settings) -> tuple[type[Stage], ...]:
    """The four stages as they stand in the chain; those that it lacks are behind them."""
    there = [type(stage) for stage in settings.stages() if type(stage) in ORDER]
    if settings.temperature <= 0 and not settings.chain:
        there = []
    return tuple(dict.fromkeys([*there, *ORDER])) if there else ORDER


def left_out(settings: Settings) -> list[str]:
    """What the chain has beside one of each of the four stages, as far as it may change anything.

    >>> left_out(Settings())
    []
    """
    sampling = settings.sampling()
    idle = idle_stages(sampling, n_vocab=2**31)
    there: set[type[Stage]] = set()
    names = []
    for at, stage in enumerate([*sampling.filters, sampling.select]):
        kind = type(stage)
        if kind in ORDER and kind not in there:
            there.add(kind)
        elif at not in idle and kind is not Dist:
            names.append(("another " if kind in there else "") + WORDS[kind].title)
    return names


def without(names: Sequence[str]) -> str:
    """
    >>> without(["XTC"]), without([])
    ("The chain also has XTC, which isn't included here.", '')
    >>> without(["DRY", "another Top-p", "Greedy"])
    "The chain also has DRY, another Top-p and Greedy, which aren't included here."
    """
    if len(names) < 2:
        return f"The chain also has {names[0]}, which isn't included here." if names else ""
    listed = f"{', '.join(names[:-1])} and {names[-1]}"
    return f"The chain also has {listed}, which aren't included here."


def summary(found: Live) -> str:
    """
    >>> from app.insight.sampling.live import Live
    >>> rest, entropy = Between(0.0, 0.0), Between(1.8, 1.8)
    >>> summary(Live((), 64, 1.0, 0.0, rest, 12, False, False, 3.2, entropy, None))
    '12 left · entropy 3.20 → 1.80 bits · sum 100%'
    """
    left = f"more than {found.left:,} left" if found.is_at_least else f"{found.left:,} left"
    low, high = f"{found.entropy_after.low:.2f}", f"{found.entropy_after.high:.2f}"
    after = low if low == high else f"{low}–{high}"
    return f"{left} · entropy {found.entropy_before:.2f} → {after} bits · sum 100%"


def percent(span: Between) -> str:
    """
    >>> percent(Between(0.41, 0.41)), percent(Between(0.41, 0.44)), percent(Between(0.0, 0.0))
    ('41.0%', '41–44%', '0%')
    >>> percent(Between(0.99996, 0.99996)), percent(Between(1.0, 1.0))
    ('> 99.9%', '100%')
    """
    if span.low >= 0.9995:
        return "100%" if span.low > 1 - 5e-7 else "> 99.9%"
    low, high = f"{100 * span.low:.1f}", f"{100 * span.high:.1f}"
    if low == high:
        return "0%" if span.high == 0 else "< 0.1%" if low == "0.0" else f"{low}%"
    low, high = f"{100 * span.low:.0f}", f"{100 * span.high:.0f}"
    return f"{100 * span.high:.1f}%" if low == high else f"{low}–{high}%"


def _sum(name: str, before: float, after: Between) -> LiveRow:
    middle = (after.low + after.high) / 2
    return LiveRow(
        name, "", percent(Between(before, before)), before, percent(after), middle, is_sum=True
    )
