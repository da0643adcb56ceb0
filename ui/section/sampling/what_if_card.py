"""*What if*: the same dice, other settings. Which token would have been another one first?

    card = WhatIfCard(tools, parent)    # a card of the sampling panel
    card.set_active(True)               # while it is on screen; else it follows nothing

Asked is what the chat's settings of now would have drawn, or values that are typed here. A click on
the answer looks at that token; from there the reply can be branched.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QHBoxLayout, QWidget

from app.chat.events import ConversationOpened, LevelsChanged, SettingsChanged
from app.chat.inspection.what_if import Question, can_ask_engine
from app.chat.settings.preset_words import differences
from app.chat.settings.resolved import merged
from app.chat.settings.sampler_links import Links, stages_of_reply, values_over
from app.chat.settings.settings import Settings
from app.insight.sampling.what_if import Unsure, WhatIf
from app.insight.trace.tokens_shown import visible
from models.records import Message
from ui.look.theme import Theme
from ui.section.card import Card, small_label
from ui.section.panel import Tools
from ui.section.sampling.live_card import MOST_TOKENS
from ui.section.sampling.live_values import LiveValues, stages_in
from ui.settings.fields import ChoiceField
from ui.widgets.elided import tip_text
from ui.widgets.elided_button import ElidedButton
from ui.widgets.kit import push_button

CHAT: Final = "chat"
TYPED: Final = "typed"
WHAT: Final = (
    "Redraws every token of this reply with the same random numbers and different settings."
)
UNKNOWN: Final = (
    "The sampling settings of this reply weren't stored, so there is nothing to compare with."
)
SAME: Final = "This is the chain this reply used. Change it, or change values here."
ASK: Final = "Same random numbers, other settings"
ASK_ENGINE: Final = "Ask the engine"
STOP: Final = "Stop asking"
FROM_RECORD: Final = (
    "Computed from the recorded candidates of each token (top 64 before samplers) and its "
    "random number. Grammar and bans unchanged."
)
BY_ENGINE: Final = "The engine replayed {count} of these, using all candidates."
_NAMED: Final = 6
_REASONS: Final = 3


class WhatIfCard(Card):
    """Asks when the button is pressed, and never by itself. `answered`: what it found is shown."""

    answered = Signal()

    def __init__(self, tools: Tools, parent: QWidget | None = None) -> None:
        super().__init__(tools.theme, "What if", parent)
        self._desk, self._looking = tools.desk, tools.looking
        self._is_active = False
        self._is_typed_by_hand = False
        self._offered: Links | None = None
        self._asked: Question | None = None
        self._asked_values: dict[str, Any] = {}
        self._found: WhatIf | None = None
        self.is_asking = False
        self.setObjectName("what_if_card")
        self.setAccessibleName(self.title.text())
        self.what = small_label(WHAT, self)
        self.which = ChoiceField(
            tools.theme, [(CHAT, "The chat's settings"), (TYPED, "Values here")], self
        )
        self.which.setObjectName("what_if_which")
        self.which.name_choices("Redraw with")
        self.which.show_value(CHAT)
        self.values = LiveValues(tools.theme, "What if", self)
        self.values.name_tokens(self._name)
        self.refusal = small_label("", self)
        self.refusal.setProperty("kind", "refusal")
        self.difference = small_label("", self, name="what_if_difference")
        self.ask_button = push_button(ASK, self, "what_if_button", kind="tiny", act=self.ask)
        self.answer = ElidedButton(self)
        self.answer.setObjectName("what_if_answer")
        self.answer.clicked.connect(lambda _=False: self._look())
        self.answer.setProperty("kind", "quiet")
        self.sentence = small_label("", self, name="what_if_sentence")
        self.unsure = small_label("", self, name="what_if_unsure")
        self.branch_button = push_button(
            "Branch from there",
            self,
            "what_if_branch",
            kind="tiny",
            hint="Creates a version that is the same up to this token, then continues with these "
            "settings.",
            act=self._branch,
        )
        self.engine_button = push_button(
            ASK_ENGINE,
            self,
            "what_if_engine_button",
            kind="tiny",
            hint="The engine processes the prompt and reply again and redraws the undecided tokens "
            "from all candidates. This takes as long as generating the reply did.",
            act=self._on_engine,
        )
        self.caption = small_label("", self, name="what_if_caption")
        self._build()
        self._connect(tools)
        for row in (self._acts, self._asks, self._answers):
            tools.theme.space(row, 6)
        self._theme.sheet(self.answer, _answer_sheet)
        self._forget()

    def _build(self) -> None:
        self._answers = QHBoxLayout()
        self._answers.addWidget(self.answer)
        self._answers.addStretch(1)
        self._acts = QHBoxLayout()
        self._acts.addWidget(self.branch_button)
        self._acts.addWidget(self.engine_button)
        self._acts.addStretch(1)
        self._asks = QHBoxLayout()
        self._asks.addWidget(self.ask_button)
        self._asks.addStretch(1)
        for widget in (self.what, self.which, self.values, self.refusal, self.difference):
            self.body.addWidget(widget)
        self.body.addLayout(self._asks)
        self.body.addLayout(self._answers)
        for widget in (self.sentence, self.unsure):
            self.body.addWidget(widget)
        self.body.addLayout(self._acts)
        self.body.addWidget(self.caption)

    def _connect(self, tools: Tools) -> None:
        tools.looking.message_changed.connect(self._on_message)
        tools.looking.trace_changed.connect(self._refresh)
        tools.looking.words_changed.connect(self._show_found)
        bridge = tools.bridge
        bridge.on((SettingsChanged, LevelsChanged, ConversationOpened), self._on_settings)
        self.which.changed_by_user.connect(self._on_which)
        self.values.changed.connect(self._on_values)
        self.values.refused.connect(self._on_refused)

    # --- with what ------------------------------------------------------------------------------

    def set_active(self, is_active: bool) -> None:
        """Whether it is on screen."""
        was_active, self._is_active = self._is_active, is_active
        if is_active and not was_active:
            shown = "" if self._looking.message is None else self._looking.message.id
            if self._asked is not None and shown != self._asked.message.id:
                self._forget()
            self._on_settings()

    def settings(self) -> Settings:
        """What would be drawn with."""
        settings = self._desk.levels.resolved().settings
        if self.which.value() == CHAT:
            return settings
        return merged(settings, self._typed(settings))

    def _typed(self, settings: Settings) -> dict[str, Any]:
        """What is typed here and differs from the chat's settings."""
        if self.which.value() == CHAT:
            return {}
        return values_over(stages_in(self.values.moved_links), settings)

    def offer(self, links: Links | None) -> None:
        """Values that are moved elsewhere: those here begin with them, until one types here.
        None: they are moved no more."""
        self._offered = links
        if not self._is_typed_by_hand:
            if self.which.value() == TYPED:
                self._forget()
            self._on_settings()

    def _on_which(self, _value: object) -> None:
        self._forget()
        self._on_settings()

    def _on_values(self) -> None:
        self._is_typed_by_hand = True
        self._forget()
        self._refresh()

    def _on_settings(self) -> None:
        if not self._is_active:
            return
        if not self._is_typed_by_hand:
            self.values.follow(self._desk.chain.links())
            if self._offered is not None:
                self.values.show_links(self._offered)
        self._refresh()

    def _on_refused(self, sentence: str) -> None:
        self.refusal.setText(sentence)
        self.refusal.setVisible(bool(sentence) and self.which.value() == TYPED)

    def _on_message(self) -> None:
        self._forget()
        self._refresh()

    def _refresh(self) -> None:
        if not self._is_active:
            return
        self.values.setVisible(self.which.value() == TYPED)
        self._on_refused(self.refusal.text())
        message = self._looking.message
        own = () if message is None else stages_of_reply(message.settings)
        can_ask = bool(own) and len(self._looking.traces) > 0
        self.ask_button.setEnabled(can_ask and not self.is_asking)
        if not len(self._looking.traces):
            text = self._looking.sentence
        elif message is None or not own:
            text = UNKNOWN
        else:
            found = self._differences(message)
            text = f"Changed: {'; '.join(found)}." if found else SAME
        self.difference.setText(text)

    def _differences(self, message: Message) -> list[str]:
        """In what the settings differ from those of the reply."""
        sampling = message.settings["sampling"]
        return differences({"chain": [*sampling["filters"], sampling["select"]]}, self.settings())

    # --- asking ---------------------------------------------------------------------------------

    def ask(self) -> None:
        """Draw again; the answer comes soon."""
        message = self._looking.message
        if message is None or not len(self._looking.traces):
            return
        self._forget()
        sampling = self.settings().sampling()
        stages = (*sampling.filters, sampling.select)
        n_vocab = self._looking.n_vocab or MOST_TOKENS
        self._asked = Question(message, self._looking.traces, stages, n_vocab)
        self._asked_values = self._typed(self._desk.levels.resolved().settings)
        self._set_asking(True)
        self._desk.what_ifs.ask(self._asked, self._take)

    def _on_engine(self) -> None:
        if self.is_asking:
            self._desk.what_ifs.stop()
            self._set_asking(False)
            self._show_found()
        elif self._asked is not None and self._found is not None:
            self._set_asking(True)
            self.engine_button.setText(STOP)
            self._desk.what_ifs.ask_engine(self._asked, self._found, self._take, self._on_failed)

    def _take(self, found: WhatIf) -> None:
        self._found = found
        self._set_asking(False)
        self._show_found()
        self.answered.emit()

    def _on_failed(self, sentence: str) -> None:
        self._set_asking(False)
        self._show_found()
        self.unsure.setText(sentence)
        self.unsure.setVisible(True)

    def _set_asking(self, is_asking: bool) -> None:
        self.is_asking = is_asking
        self.ask_button.setEnabled(not is_asking)
        self.engine_button.setText(ASK_ENGINE)

    def _forget(self) -> None:
        """The last answer is about something else now."""
        if self.is_asking:
            self._desk.what_ifs.stop()
            self._set_asking(False)
        self._asked = self._found = None
        self._show_found()

    # --- the answer -----------------------------------------------------------------------------

    def _show_found(self) -> None:
        asked, found = self._asked, self._found
        has = asked is not None and found is not None
        change = found.first if found is not None else None
        self.figure.set_text("")
        self.answer.setVisible(has and change is not None)
        self.branch_button.setVisible(has and change is not None)
        self.sentence.setVisible(has and change is None)
        self.caption.setVisible(has)
        self.unsure.setVisible(has and bool(found and found.unsure))
        if asked is None or found is None:
            self.engine_button.setVisible(False)
            return
        self.engine_button.setVisible(can_ask_engine(asked, found))
        if change is not None:
            was = asked.traces[change.index].token_id
            self.answer.setText(
                f"Token {change.index + 1:,} would have been “{self._name(change.token_id)}” "
                f"instead of “{self._name(was)}”."
            )
            self.answer.setAccessibleName(self.answer.text())
            self.answer.setToolTip(tip_text(f"{self.answer.text()} Show this token."))
        self.sentence.setText(nothing_changes(found))
        self.unsure.setText(named(found.unsure, before=change is not None))
        self.caption.setText(
            FROM_RECORD
            + (" " + BY_ENGINE.format(count=f"{found.replayed:,}") if found.replayed else "")
        )

    def _name(self, token_id: int) -> str:
        words = self._looking.words
        piece = words.piece(token_id) if words is not None else b""
        return visible(piece) or f"ID {token_id}"

    def _look(self) -> None:
        if self._found is not None and self._found.first is not None:
            self._looking.select(self._found.first.index)

    def _branch(self) -> None:
        if self._asked is not None and self._found is not None and self._found.first is not None:
            change = self._found.first
            place = (self._asked.message.id, change.index, change.token_id)
            if self._asked_values:
                self._desk.branches.at(*place, settings=self._asked_values)
            else:
                self._desk.branches.at(*place)


def _answer_sheet(theme: Theme) -> str:
    return (
        f"QPushButton {{ padding: {theme.px(3)}px 0; text-align: left; font-weight: 600;"
        f" font-size: {theme.font_small().pixelSize()}px; color: {theme.colors.accent}; }}"
    )


def nothing_changes(found: WhatIf) -> str:
    """
    >>> nothing_changes(WhatIf(None, (), 40))
    'Nothing would change: all 40 tokens would be the same.'
    """
    if not found.unsure:
        return f"Nothing would change: all {found.looked_at:,} tokens would be the same."
    sure = found.looked_at - len(found.unsure)
    return f"No token is certain to change; {sure:,} of {found.looked_at:,} are certain to stay."


def named(unsure: Sequence[Unsure], *, before: bool) -> str:
    """Which positions cannot be told, and why.

    >>> named([Unsure(3, "Too close."), Unsure(8, "Too close.")], before=True)
    "Before that, 2 tokens can't be determined from the record. Tokens 4, 9: Too close."
    """
    if not unsure:
        return ""
    count = f"{len(unsure):,} token" + ("s" if len(unsure) > 1 else "")
    parts = [f"{'Before that, ' if before else ''}{count} can't be determined from the record."]
    by_reason: dict[str, list[int]] = {}
    for each in unsure:
        by_reason.setdefault(each.reason, []).append(each.index + 1)
    for reason, numbers in list(by_reason.items())[:_REASONS]:
        shown = ", ".join(f"{number:,}" for number in numbers[:_NAMED])
        more = f" and {len(numbers) - _NAMED:,} more" if len(numbers) > _NAMED else ""
        parts.append(f"Token{'s' if len(numbers) > 1 else ''} {shown}{more}: {reason}")
    return " ".join(parts)
