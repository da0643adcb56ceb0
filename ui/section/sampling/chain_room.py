"""The chain that the next reply is drawn with, and what the stages of a reply did to a token.

What must hold: evidence stands beside the stages that the reply was made with. Where the chain of
the chat is another one by now, the reply's own is shown apart, to be looked at and not changed.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Final

from PySide6.QtCore import QPoint, Qt, QTimer
from PySide6.QtWidgets import (
    QMenu,
    QVBoxLayout,
    QWidget,
)

from app.chat.events import (
    ConversationChanged,
    ConversationOpened,
    EngineStateChanged,
    LevelsChanged,
    PresetsListed,
    SettingsChanged,
)
from app.chat.replies.written_by import not_taken_of, writer_of
from app.chat.settings.not_taken import not_taken
from app.chat.settings.sampler_links import (
    USUAL_ORDER,
    Link,
    Links,
    added,
    neutralised,
    stages_at,
    stages_of_reply,
)
from app.engine.protocol.messages import TokenTrace
from app.engine.protocol.remote_messages import EngineOffer
from app.engine.protocol.stages import Sampling, Stage
from app.engine.protocol.without_effect import idle_stages
from app.insight.sampling.stage_evidence import Evidence, evidence
from app.insight.trace.message_tokens import n_taken_over
from ui.section.card_column import CardColumn
from ui.section.panel import Panel, Tools
from ui.section.sampling.before_stages import BeforeStages
from ui.section.sampling.preset_bar import PresetBar
from ui.section.sampling.sampler_chain import SamplerChain
from ui.section.sampling.stage_words import WORDS
from ui.section.term_label import term_label
from ui.settings.fields import ChoiceField
from ui.shell.tab_order import put_in_order, stops_in
from ui.widgets.flow import FlowLayout
from ui.widgets.kit import plain_label, push_button

NEXT: Final = "next"
REPLY: Final = "reply"
CHOOSE: Final = (
    "Choose a token in the Tokens panel or the chat (Ctrl+T) to see what each stage did."
)
OTHER: Final = (
    "This reply used a different chain. Choose “This reply” to see it and what it did to the token."
)
OF_ANOTHER: Final = (
    "This token comes from the version this one was branched from, with a different chain. "
    "Switch to that version to see its stages."
)
NOT_TOLD: Final = "{engine} doesn't tell what each stage did to a token."
UNKNOWN: Final = "The sampling settings of this reply weren't stored."
CAPTION: Final = (
    "Recorded live. Bars: the top candidates left after each stage, with shares computed from "
    "the recorded 64."
)


class ChainRoom(Panel):
    title = "Sampling chain"

    def __init__(self, tools: Tools, parent: QWidget | None = None) -> None:
        super().__init__(tools, parent)
        theme, desk = tools.theme, tools.desk
        self._desk = desk
        self._stages: tuple[Stage, ...] = ()
        self._is_own = False
        self._is_changing = False
        self._shown_token: TokenTrace | None = None
        self._shown_sentence = ""
        self._shown_seed: int | None = None
        self.setObjectName("chain_room")
        self.presets = PresetBar(theme, desk, self)
        compact = partial(push_button, parent=self, kind="compact")
        self.add_button = compact("Add stage", name="add_stage_button", act=self.open_stages)
        self.neutral_button = compact(
            "Turn all off",
            name="neutralise_button",
            hint="Turn every stage off: plain sampling at temperature 1. Values are kept.",
            act=self._on_neutralise,
        )
        self.reset_button = compact(
            "Reset",
            name="reset_chain_button",
            hint="Use the inherited chain",
            act=lambda: desk.chain.reset(),
        )
        self.which = ChoiceField(theme, [(NEXT, "Next reply"), (REPLY, "This reply")], self)
        self.which.setObjectName("which_chain")
        self.which.name_choices("Chain for")
        self.which.show_value(NEXT)
        self.note = term_label("", self, "small", wraps=True, name="sampling_note")
        self.uncertain_button = compact(
            "Go to the least certain token",
            name="choose_uncertain_button",
            act=self._looking.go_to_most_uncertain,
        )
        self.server = plain_label("", self, "caution", name="server_note", wraps=True)
        self.server.hide()
        self.before = BeforeStages(theme, self)
        tokenize = partial(
            desk.questions.tokenize, inside=True
        )  # as the engine reads a bias by text
        self.chain = SamplerChain(theme, tokenize, parent=self)
        self.reply_chain = SamplerChain(theme, tokenize, is_editable=False, parent=self)
        self.use_button = compact(
            "Use this chain in the chat", name="use_reply_chain_button", act=self._on_use
        )
        self.caption = term_label("", self, "small", wraps=True)
        self.caption.setText(CAPTION)
        self._build()
        self._connect()
        self._theme.space(self._column, 8)
        self._theme.space(self.rows, 8)
        self._theme.space(self._flow, 6)

    def _build(self) -> None:
        self._acts = QWidget(self)
        policy = self._acts.sizePolicy()
        policy.setHeightForWidth(True)
        self._acts.setSizePolicy(policy)
        self._flow = FlowLayout(self._acts)
        for button in (self.add_button, self.neutral_button, self.reset_button):
            self._flow.addWidget(button)
        self.area = CardColumn(self)
        self.area.setObjectName("sampling_scroll")
        self.body, self.rows = self.area.body, self.area.rows
        self.area.fill(
            self.which,
            self.server,
            self.note,
            self.uncertain_button,
            self.before,
            self.chain,
            self.reply_chain,
            self.use_button,
            self.caption,
        )
        self._column = QVBoxLayout(self)
        self._column.setContentsMargins(0, 0, 0, 0)
        self._column.addWidget(self.presets)
        self._column.addWidget(self._acts)
        self._column.addWidget(self.area, 1)

    def _connect(self) -> None:
        bridge = self._tools.bridge
        bridge.on(
            (
                SettingsChanged,
                LevelsChanged,
                ConversationOpened,
                ConversationChanged,
                EngineStateChanged,
                PresetsListed,
            ),
            self._follow,
        )
        self.chain.links_changed.connect(self._on_links)
        self.chain.removed.connect(self._on_links)
        self.chain.seed_changed.connect(partial(self._set, "seed"))
        self.chain.card_moved.connect(self._keep_in_view)
        self.chain.cards_changed.connect(self._order_tabs)
        self.chain.dragged_over.connect(self._scroll_to)
        self.which.changed_by_user.connect(lambda _value: self._show_which())

    # --- what counts ----------------------------------------------------------------------------

    def set_active(self, is_active: bool) -> None:
        if is_active and not self._is_active:
            self._desk.presets.list()
        super().set_active(is_active)

    def _follow(self) -> None:
        """Settings, the chat or the weights are others now."""
        if self._is_active and not self._is_changing:
            self._show_chain()
            self._show_which()

    @contextmanager
    def _one_change(self) -> Iterator[None]:
        """What is changed meanwhile is followed once, when all of it is done."""
        self._is_changing = True
        try:
            yield
        finally:
            self._is_changing = False
        self._follow()

    def _show_chain(self) -> None:
        links, resolved = self._desk.chain.links(), self._desk.levels.resolved()
        loaded, remote = self._desk.loader.state.loaded, self._desk.loader.remote
        n_vocab = (loaded.n_vocab or None) if loaded is not None else None
        self.chain.show_links(
            links,
            _idle(links, resolved.settings.sampling(), n_vocab),
            n_vocab,
            not_taken([link.stage for link in links], remote),
        )
        self._say_server(remote)
        message = self._looking.message
        self.chain.show_seed(
            resolved.settings.seed,
            resolved.level_of("seed"),
            message.seed if message is not None else None,
        )
        self._show_pieces()
        self.presets.show_presets()
        self.reset_button.setEnabled(self._desk.chain.is_own())

    def _say_server(self, remote: EngineOffer | None) -> None:
        """What holds for the whole chain there."""
        whys = [] if remote is None else [remote.why_not("order"), remote.why_not("seed")]
        text = " ".join(why for why in whys if why)
        self.server.setText(text)
        self.server.setVisible(bool(text))

    def _show_pieces(self) -> None:
        loaded = self._desk.loader.state.loaded
        self.chain.show_pieces(
            self._desk.words.of(loaded.fast_hash) if loaded is not None else None
        )

    def _on_links(self, links: Links, undo: str = "") -> None:
        with self._one_change():
            refusal = self._desk.chain.put(links, undo)
        if refusal:
            self.note.setText(refusal)
            self.note.show()

    def _set(self, name: str, value: object) -> None:
        with self._one_change():
            self._desk.levels.change("chat", name, value)

    def _on_neutralise(self) -> None:
        self._on_links(neutralised(self.chain.links))

    def stages_menu(self) -> QMenu:
        """Every stage that can be added, those that are not there yet first."""
        menu = QMenu(self)
        menu.setObjectName("stages_menu")
        there = {type(link.stage) for link in self.chain.links}
        missing = [kind for kind in USUAL_ORDER if kind not in there]
        for kind in (*missing, None, *(kind for kind in USUAL_ORDER if kind in there)):
            if kind is None:
                menu.addSeparator()
                continue
            action = menu.addAction(WORDS[kind].title + (" again" if kind in there else ""))
            action.setToolTip(WORDS[kind].sentence)
            action.triggered.connect(lambda _=False, kind=kind: self._on_add(kind))
        menu.setToolTipsVisible(True)
        return menu

    def open_stages(self) -> None:
        menu = self.stages_menu()
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        menu.popup(self.add_button.mapToGlobal(self.add_button.rect().bottomLeft()))

    def _on_add(self, kind: type[Stage]) -> None:
        links, place = added(self.chain.links, kind())
        self._on_links(links)
        if place < len(self.chain.cards):
            self.chain.cards[place].take_keyboard()
            self._keep_in_view(self.chain.cards[place])

    def _on_use(self) -> None:
        """The reply's chain becomes the chat's."""
        self.which.show_value(NEXT)
        links = tuple(Link(stage) for stage in self._stages)
        self._on_links(links, "This chat now uses the chain of this reply.")

    # --- what happened --------------------------------------------------------------------------

    def _refresh_message(self) -> None:
        message = self._looking.message
        self._stages = stages_of_reply(message.settings) if message is not None else ()
        self._shown_token = None
        self._shown_seed = message.seed if message is not None else None
        self._show_chain()
        self._show_which()

    def _refresh_trace(self) -> None:
        message = self._looking.message
        if message is not None and not self._stages and stages_of_reply(message.settings):
            self._refresh_message()  # its settings came with the reply's beginning
        elif message is not None and message.seed != self._shown_seed:
            self._refresh_message()  # it has ended
        elif (
            self._looking.token is not self._shown_token
            or self._looking.sentence != self._shown_sentence  # the first token is there, say
        ):
            self._show_evidence()

    def _refresh_token(self) -> None:
        self._show_evidence()

    def _refresh_words(self) -> None:
        self._show_pieces()
        self._show_evidence()

    def _show_which(self) -> None:
        """The chain that the user wants to see; where both are the same there is one."""
        on = tuple(link.stage for link in self.chain.links if link.is_on)
        self._is_own = bool(self._stages) and on != self._stages
        self.which.setVisible(self._is_own)
        is_reply = self._is_own and self.which.value() == REPLY
        if is_reply:  # its cards are made when somebody looks at them
            message = self._looking.message
            away = not_taken_of(message.settings, self._stages) if message is not None else {}
            self.reply_chain.show_links([Link(stage) for stage in self._stages], {}, away=away)
            self.reply_chain.show_seed(self._shown_seed, "", None)
        self.chain.setVisible(not is_reply)
        self._acts.setVisible(not is_reply)
        self.reply_chain.setVisible(is_reply)
        self.use_button.setVisible(is_reply)
        self._show_evidence()

    def _show_evidence(self) -> None:
        looking = self._looking
        token = self._shown_token = looking.token
        self._shown_sentence = looking.sentence
        message = looking.message
        told: Evidence | None = None
        if token is not None and self._stages:
            told = self._told(token)
        seed = message.seed if message is not None else None
        is_reply = self._is_own and self.which.value() == REPLY
        self.chain.show_evidence(None if self._is_own else told, looking.words, seed)
        self.reply_chain.show_evidence(told if is_reply else None, looking.words, seed)
        shows = told is not None and (is_reply or not self._is_own)
        self.before.show_rows(told if shows else None, looking.words)
        self.caption.setVisible(shows and not (told is not None and told.sentence))
        self._say(told, shows)

    def _told(self, token: TokenTrace) -> Evidence:
        """What the stages did to the token that is looked at; of one that another version drew, if
        that was with the same chain."""
        message, index = self._looking.message, self._looking.index
        if (
            message is not None
            and index is not None
            and index < n_taken_over(message)
            and stages_at(message.settings, index) != self._stages
        ):
            return Evidence(sentence=OF_ANOTHER)
        writer = writer_of(message.settings) if message is not None else None
        if writer is not None:
            return Evidence(sentence=NOT_TOLD.format(engine=writer.words))
        return evidence(token, self._stages, self._looking.n_vocab)

    def _say(self, told: Evidence | None, shows: bool) -> None:
        if told is not None and told.sentence and shows:
            text = told.sentence
        elif self._is_own and not shows and self.which.value() == NEXT:
            text = OTHER
        elif self._looking.message is None or self._looking.sentence:
            text = self._looking.sentence
        elif not self._stages:
            text = UNKNOWN
        else:
            text = "" if self._looking.token is not None else CHOOSE
        self.note.setText(text)
        self.note.setVisible(bool(text))
        traces = self._looking.traces
        is_known = bool(len(traces)) and traces[0].entropy is not None
        self.uncertain_button.setVisible(text == CHOOSE and is_known)

    # --- looks ----------------------------------------------------------------------------------

    def _keep_in_view(self, card: QWidget) -> None:
        """After the cards have found their places."""
        QTimer.singleShot(0, card, lambda: self.area.ensureWidgetVisible(card, 0, 8))

    def _scroll_to(self, y: int) -> None:
        """A card is dragged there: what is around it comes into view."""
        at = self.chain.mapTo(self.body, QPoint(0, y))
        self.area.ensureVisible(0, at.y(), 0, self._theme.px(48))

    def _order_tabs(self) -> None:
        stops = [*stops_in(self.presets), *stops_in(self._acts), *stops_in(self.which)]
        stops += [self.uncertain_button]
        for card in self.chain.cards:
            stops += card.stops()
        # A list that opens is a window of its own.
        stops = [stop for stop in stops if stop.window() is self.window()]
        put_in_order(stops, stops[0])


def _idle(links: Links, sampling: Sampling, n_vocab: int | None) -> dict[int, str]:
    """Why stages change nothing, by their place among all links."""
    found = idle_stages(sampling, n_vocab=n_vocab or 2**31)
    on = [at for at, link in enumerate(links) if link.is_on]
    return {on[position]: reason for position, reason in found.items() if position < len(on)}
