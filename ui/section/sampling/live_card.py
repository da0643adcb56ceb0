"""*Live*: one token's candidates while the chain's values are being moved.

It begins with the chain of the open chat, so that one sees what the next reply's settings would
have made of this token, before anything is sent; a button makes the moved values the chat's. What
the record does not tell of a chain the engine replays, a moment after it was moved.

    card = LiveCard(tools, parent)      # a card of the sampling panel
    card.set_active(True)               # while it is on screen; else it follows nothing
"""

from __future__ import annotations

from typing import Final

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QHBoxLayout, QWidget

from app.chat.events import ConversationOpened, EngineStateChanged, LevelsChanged, SettingsChanged
from app.chat.inspection.what_if import Question
from app.chat.settings.sampler_links import Links
from app.engine.protocol.stage_rules import in_words, stage_name
from app.engine.protocol.stages import AdaptiveP, Stage
from app.engine.protocol.without_effect import idle_stages
from app.insight.sampling.live import BANNED, BY_RULE, Live, Row, live_at
from app.insight.sampling.pool import Between, CannotTell, best_logit
from app.insight.sampling.selecting import remembers
from app.insight.trace.tokens_shown import bits_text, visible
from models.records import Message
from ui.section.card import Card, small_label
from ui.section.panel import Tools
from ui.section.sampling.live_bars import LiveBars, LiveRow
from ui.section.sampling.live_values import LiveValues
from ui.section.switch import Switch
from ui.section.term_label import term_label
from ui.widgets.figures import signed
from ui.widgets.kit import push_button, rest_timer

ROWS: Final = 8
CHOOSE: Final = (
    "Choose a token of the reply, then change a value to see the effect on its probabilities."
)
RELATIVE: Final = "Logits are relative to the best one. "
REPLAYED: Final = "Replayed: computed by the engine from all candidates. "
REPLAYING: Final = "Replaying this token…"
NO_MODEL: Final = "Load the model that wrote this reply to replay the token."
GROWING: Final = "The engine can replay this token when the reply is finished."
MOST_TOKENS: Final = 1_000_000
"""Of a vocabulary whose size is not known; the more there are, the wider are the bounds."""

REST_MS: Final = 250
"""So long after the last move the engine is asked."""

_BEFORE: Final = {BANNED: "banned", BY_RULE: "cut: grammar"}


class LiveCard(Card):
    """Follows the token that is looked at while it is active. `moved`: other values than the
    chat's, or None where they are its own again."""

    moved = Signal(object)

    def __init__(self, tools: Tools, parent: QWidget | None = None) -> None:
        super().__init__(tools.theme, "Live: logits, softmax, cuts", parent)
        self._desk, self._looking = tools.desk, tools.looking
        self._is_active = False
        self._is_touched = False
        self._before: tuple[object, list[int]] = (None, [])
        self._shown_for: object = None
        self._why = ""
        self.setObjectName("live_card")
        self.setAccessibleName(self.title.text())
        self.values = LiveValues(tools.theme, "Live", self)
        self.values.name_tokens(self._name)
        self.grammar_label = term_label("Grammar of this reply", self, "small")
        self.grammar = Switch(tools.theme, "Live: grammar of this reply", self)
        self.grammar.setObjectName("live_grammar")
        self.grammar.setChecked(True)
        self.bars = LiveBars(tools.theme, self)
        self.refusal = small_label("", self)
        self.refusal.setProperty("kind", "refusal")
        self.refusal.setObjectName("live_refusal")
        self.summary = small_label("", self, name="live_summary")
        self.replay = small_label("", self, name="live_replay")
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
        self._build(tools)
        self._rest = rest_timer(self, self._ask_engine, REST_MS)
        self._connect(tools)
        self._put_back()

    def _build(self, tools: Tools) -> None:
        self._rules = QHBoxLayout()
        self._rules.addWidget(self.grammar_label, 1)
        self._rules.addWidget(self.grammar)
        self._acts = QHBoxLayout()
        tools.theme.space(self._acts, 6)
        self._acts.addWidget(self.uncertain_button)
        self._acts.addWidget(self.use_button)
        self._acts.addWidget(self.back_button)
        self._acts.addStretch(1)
        self.body.addWidget(self.values)
        self.body.addLayout(self._rules)
        for widget in (self.refusal, self.bars, self.summary, self.replay, self.caption):
            self.body.addWidget(widget)
        self.body.addLayout(self._acts)

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
        self.grammar.clicked.connect(lambda _=False: self._refresh())
        self.back_button.clicked.connect(lambda _=False: self._put_back())
        self.uncertain_button.clicked.connect(lambda _=False: self._looking.go_to_most_uncertain())
        self.use_button.clicked.connect(lambda _=False: self._use())

    # --- whose values ---------------------------------------------------------------------------

    def set_active(self, is_active: bool) -> None:
        """Whether it is on screen."""
        was_active, self._is_active = self._is_active, is_active
        if is_active and not was_active:
            self._follow_chat()
        elif was_active and not is_active:
            self._stop()

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
            self.values.follow(self._desk.chain.links())
            self._on_refused("")
            self._refresh()
        self._show_buttons()
        self.moved.emit(None)

    def _on_moved(self, links: Links) -> None:
        self._is_touched = True
        self._show_buttons()
        self.moved.emit(links)
        self._refresh()

    def _on_refused(self, sentence: str) -> None:
        self.refusal.setText(sentence)
        self.refusal.setVisible(bool(sentence))

    def _show_buttons(self) -> None:
        is_other = self._is_touched and self._is_active and self.values.is_moved
        self.back_button.setEnabled(self._is_touched)
        self.use_button.setEnabled(is_other)

    def _use(self) -> None:
        refusal = self._desk.chain.put(self.values.moved_links)
        self._on_refused(refusal)
        if not refusal:
            self._put_back()

    # --- what comes of them ---------------------------------------------------------------------

    def _refresh(self) -> None:
        if not self._is_active:
            return
        self._stop()
        token, message = self._looking.token, self._looking.message
        has_grammar = message is not None and _is_bound(message)
        self.grammar_label.setVisible(has_grammar)
        self.grammar.setVisible(has_grammar)
        self.figure.set_text("" if token is None else f"token {token.index + 1:,}")
        if token is None or message is None:
            self._show_sentence(CHOOSE if len(self._looking.traces) else self._looking.sentence)
            return
        question = self._question(message)
        if remembers(question.sampling.select):
            if self._shown_for != self._place():
                self._hide_rows()
            self._desk.live_draws.walk(question, self._index, self._take_record, self._take_refusal)
            return
        try:
            found = live_at(
                token, self._index, self._tokens_before(message), question.draw_settings
            )
        except CannotTell as reason:
            self._take_refusal(reason.sentence)
        else:
            self._take_record(found)

    @property
    def _index(self) -> int:
        return self._looking.index or 0

    def _question(self, message: Message) -> Question:
        n_vocab = self._looking.n_vocab or MOST_TOKENS
        return Question(
            message,
            self._looking.traces,
            self.values.stages,
            n_vocab,
            is_bound=self.grammar.isChecked(),
        )

    def _tokens_before(self, message: Message) -> list[int]:
        """Of the reply, before the token; once for each token that is looked at."""
        key = (message.id, self._index, len(self._looking.traces))
        if self._before[0] != key:
            traces = self._looking.traces
            self._before = key, [traces[at].token_id for at in range(self._index)]
        return self._before[1]

    def _take_record(self, found: Live) -> None:
        """What the record says; where that is not all, the engine is asked."""
        self._show(found)
        if found.needs_engine:
            self._begin_replay("")
        elif found.unsure:
            self._say(found.unsure)

    def _take_refusal(self, sentence: str) -> None:
        """The record says nothing."""
        if self._shown_for != self._place():
            self._hide_rows()
        self.caption.setText("")
        self._offer(is_choosing=False)
        self._begin_replay(sentence)

    def _place(self) -> object:
        message = self._looking.message
        return None if message is None else (message.id, self._looking.index)

    # --- by the engine --------------------------------------------------------------------------

    def _begin_replay(self, why: str) -> None:
        """`why`: what the record did not tell, where it told nothing."""
        message = self._looking.message
        refusal = ""
        if self._looking.is_growing:
            refusal = GROWING
        elif message is None or self._looking.loaded is None:
            refusal = NO_MODEL
        self._why = why
        if refusal:
            self._not_replayed(refusal)
        else:
            self._say(REPLAYING)
            self._rest.start()

    def _ask_engine(self) -> None:
        message = self._looking.message
        if message is not None and self._looking.token is not None and self._is_active:
            self._desk.live_draws.replay(
                self._question(message), self._index, self._show, self._not_replayed, self._on_read
            )

    def _on_read(self, done: int, total: int) -> None:
        self._say(f"Replaying: {done:,} of {total:,} tokens…" if done < total else REPLAYING)

    def _not_replayed(self, sentence: str) -> None:
        if not self.caption.text():
            self._hide_rows()
        self._say(f"{self._why} {sentence}".strip())

    def _say(self, sentence: str) -> None:
        self.replay.setText(sentence)
        self.replay.setVisible(bool(sentence))

    def _stop(self) -> None:
        """Nothing is asked any more."""
        self._rest.stop()
        self._desk.live_draws.stop()
        self._say("")

    # --- showing --------------------------------------------------------------------------------

    def _show(self, found: Live) -> None:
        token = self._looking.token
        if token is None:
            return
        self._shown_for = self._place()
        best = found.best if found.is_replayed else best_logit(token)
        self.bars.show_rows(self._rows(found, best or 0.0))
        self._offer(is_choosing=False)
        self.summary.setText(summary(found))
        self.summary.setVisible(True)
        self.bars.setVisible(True)
        self._say(found.unsure if found.is_replayed else "")
        self.caption.setText(self._caption(found, is_relative=best is None))

    def _hide_rows(self) -> None:
        self._shown_for = None
        for widget in (self.bars, self.summary):
            widget.setVisible(False)

    def _show_sentence(self, sentence: str) -> None:
        self._hide_rows()
        self.caption.setText(sentence)
        self._offer(is_choosing=sentence == CHOOSE)

    def _offer(self, *, is_choosing: bool) -> None:
        """Without a token there is nothing to move, but one to choose."""
        self.uncertain_button.setVisible(is_choosing)
        self.use_button.setVisible(not is_choosing)
        self.back_button.setVisible(not is_choosing)

    def _rows(self, found: Live, best: float) -> list[LiveRow]:
        shown = [
            row
            for at, row in enumerate(found.rows)
            if at < ROWS or row.is_drawn or row.is_hit or _gains(row)
        ]
        rows = [self._row(row, found, best) for row in shown]
        others = [row for row in found.rows if row not in shown]
        if others:
            after = [row.after for row in others if row.after is not None]
            span = Between(sum(each.low for each in after), sum(each.high for each in after))
            rows.append(_sum(f"{len(others)} more", sum(row.before for row in others), span))
        rest = "all others" if found.is_replayed else "not recorded"
        rows.append(_sum(rest, found.rest_before, found.rest_after))
        return rows

    def _name(self, token_id: int) -> str:
        words = self._looking.words
        known = words.piece(token_id) if words is not None else b""
        return visible(known) or f"ID {token_id}"

    def _row(self, row: Row, found: Live, best: float) -> LiveRow:
        if row.removed_by is not None:
            after = self._cut(row.removed_by)
        else:
            after = "unknown" if row.after is None else percent(row.after)
        return LiveRow(
            self._name(row.token_id),
            signed(row.logit + best, ".1f"),
            percent(Between(row.before, row.before)),
            row.before,
            after,
            0.0 if row.after is None else (row.after.low + row.after.high) / 2,
            row.is_drawn,
            row.is_hit and not found.is_at_least,
        )

    def _cut(self, place: int) -> str:
        if place in _BEFORE:
            return _BEFORE[place]
        return f"cut: {in_words(stage_name(self.values.stages[place]))}"

    def _caption(self, found: Live, *, is_relative: bool) -> str:
        covered = percent(Between(found.covered, found.covered))
        whence = (
            REPLAYED
            if found.is_replayed
            else f"Computed from the {found.n_recorded} recorded candidates "
            f"({covered} of the probability). "
        )
        text = (
            f"{whence}{RELATIVE if is_relative else ''}Before: temperature 1, before samplers. "
            f"After: {', '.join(acting(self.values.stages))}."
        )
        if found.is_close:
            text += " Rounding may keep or cut one candidate at the limit."
        if found.memory is not None:
            text += f" {remembered(self.values.stages[-1], found.memory)}"
        if found.is_second:
            text += " The grammar rejected the first token drawn, so another was drawn."
        if found.uniform is not None and found.hit is not None:
            whose = "the seed's number" if found.is_of_seed else "the recorded number"
            number = f"{whose} {found.uniform:.4f}"
            stays = any(row.is_hit and row.is_drawn for row in found.rows)
            text += f" With these values, {number} draws the same token." if stays else ""
            text += "" if stays else f" ▸ marks where {number} falls now."
        return text


def _is_bound(message: Message) -> bool:
    sampling = message.settings.get("sampling")
    return isinstance(sampling, dict) and bool(
        sampling.get("grammar") or sampling.get("json_schema")
    )


def _gains(row: Row) -> bool:
    """Whether a candidate that was behind has come to the front."""
    return row.after is not None and row.after.low >= 0.05


def acting(stages: tuple[Stage, ...]) -> list[str]:
    """The stages that may change anything, by their names.

    >>> from app.engine.protocol.stages import Dist, Greedy, Penalties, TopK, TopP
    >>> acting((Penalties(), TopK(40), TopP(1.0), Dist())), acting((TopK(0), Greedy()))
    (['top-k'], ['greedy'])
    """
    from app.engine.protocol.stages import Dist, Sampling

    sampling = Sampling(list(stages[:-1]), stages[-1])  # type: ignore[arg-type]
    idle = idle_stages(sampling, n_vocab=2**31)
    names = [
        in_words(stage_name(stage))
        for at, stage in enumerate(stages)
        if not (isinstance(stage, Dist) or (at in idle and at < len(stages) - 1))
    ]
    return names or ["no stage changes anything"]


def remembered(select: Stage, memory: float) -> str:
    """
    >>> from app.engine.protocol.stages import MirostatV2
    >>> remembered(MirostatV2(), 8.312)
    'After the draws before, mirostat keeps tokens of up to 8.31 bits.'
    """
    if isinstance(select, AdaptiveP):
        return f"After the draws before, adaptive-p aims at a probability of {100 * memory:.0f}%."
    return f"After the draws before, mirostat keeps tokens of up to {memory:.2f} bits."


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
    return f"{left} · entropy {bits_text(found.entropy_before)} → {after} bits · sum 100%"


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
