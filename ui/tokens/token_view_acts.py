"""The token view in its window: switched, remembered, and given what the desk knows of tokens.

A reply's tokens come from its trace (a growing one grows in the view too), those of other
messages from the loaded vocabulary. They are asked for when they come into view, a few at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from PySide6.QtCore import QObject
from PySide6.QtGui import QGuiApplication

from app.chat.events import EngineStateChanged, SettingsChanged, TraceRead, VocabularyRead
from app.chat.replies.written_by import writer_of
from app.chat.surroundings import ALWAYS
from app.engine.protocol.messages import Tokens, TokenTrace
from models.records import Message, MessageState, Role
from ui.chat.chat_column import ChatColumn
from ui.chat.header import TOKENS_KEY
from ui.look.theme import Theme
from ui.shell.actions import Action, Actions
from ui.shell.notices import Notice
from ui.widgets.figures import plain_name

if TYPE_CHECKING:
    from app.bridge import Bridge
    from app.chat.desk import Desk
    from ui.section.looking import Looking
    from ui.shell.section_acts import SectionActs
    from ui.tokens.token_bar import TokenBar

AT_ONCE: Final = 3
"""So many traces are read at the same time."""
MOST_CHARS: Final = 100_000
"""A longer message is not cut into tokens: it is shown as its text."""
KEPT_CUT: Final = 100_000
"""Tokens of messages that nobody drew: so many are kept as they were cut, some 10 MB."""
NOTHING_RECORDED: Final = "Nothing was recorded for these tokens, so they have no tint."
NO_WEIGHTS: Final = (
    "No model is loaded, so messages without recorded tokens appear as plain text. Load a model "
    "to see their tokens."
)
NOT_TOLD: Final = "{engine} doesn't tell {what}, so these tokens have no tint."
TINT_WORDS: Final = {
    "rank": "ranks",
    "entropy": "entropies",
    "surprise": "what its draws were made of",
}
NOT_GIVEN: Final = "“{engine}” hasn't been given this message, so how it cuts it isn't known."
TOO_LONG: Final = "This message is too long to show as tokens, so it appears as text."
COPIED: Final = "Tokens copied as an image."
OTHER_WEIGHTS: Final = "Written by another model and not recorded, so it appears as plain text."


class TokenViewActs(QObject):
    def __init__(
        self, desk: Desk, bridge: Bridge, theme: Theme, chat: ChatColumn, section: SectionActs
    ) -> None:
        super().__init__(chat)
        self._desk = desk
        self._theme = theme
        self._chat = chat
        self._section = section
        self._mode = chat.transcript.tokens
        self._actions: Actions | None = None
        self._bar: TokenBar | None = None
        self._looking: Looking | None = None
        self._asked: dict[str, Message] = {}
        self._growing: dict[str, Sequence[TokenTrace]] = {}
        self._cut: dict[tuple[str, str], Tokens] = {}
        chat.header.tokens_requested.connect(self.toggle)
        bridge.on(SettingsChanged, self._on_settings)
        bridge.on(TraceRead, self._on_trace)
        bridge.on(VocabularyRead, self._on_vocabulary)
        bridge.on(EngineStateChanged, self._on_engine)
        self._mode.wanted.connect(self._on_wanted)
        self._mode.chosen.connect(self._on_chosen)
        self._mode.branch_requested.connect(desk.branches.at)
        self._mode.piece_requested.connect(desk.branches.at_piece)
        self._mode.moved.connect(self._say)

    def add_actions(self, actions: Actions) -> None:
        def is_on() -> bool:
            return self._mode.is_on

        actions.add(
            Action(
                "toggle_token_view",
                "Token view: show messages as tokens or text",
                TOKENS_KEY,
                self.toggle,
                group="View",
            )
        )
        self._actions = actions
        for name, title, key, act in (
            ("most_uncertain", "Go to the least certain token", "Ctrl+U", self.go_to_uncertain),
            (
                "copy_tokens_picture",
                "Copy the tokens as an image",
                "Ctrl+Alt+C",
                self.copy_picture,
            ),
        ):
            actions.add(Action(name, title, key, act, is_on, group="View"))
        steps: tuple[tuple[str, str, str, Callable[[], object]], ...] = (
            ("token_next", "Next token", "Right", partial(self._mode.step, 1)),
            ("token_previous", "Previous token", "Left", partial(self._mode.step, -1)),
            ("token_below", "Token in the line below", "Down", partial(self._mode.step, 0, 1)),
            ("token_above", "Token in the line above", "Up", partial(self._mode.step, 0, -1)),
            ("token_choose", "Show the token in all panels", "Return", self._mode.choose),
        )
        for step, title, key, run in steps:
            place = "In the token view"
            actions.add(Action(step, title, key, run, is_on, "View", place=place, binds=False))
        self._hear()

    def _hear(self) -> None:
        """Keys that mean nothing without the view are not taken from text fields."""
        for name in ("most_uncertain", "copy_tokens_picture"):
            if self._actions is not None:
                self._actions.hear(name, self._mode.is_on)

    # --- on and off -----------------------------------------------------------------------------

    def toggle(self) -> None:
        self._desk.settings.set("token_view", not self._mode.is_on)

    def follow(self) -> None:
        """Bring the view into line with the settings."""
        settings = self._desk.settings.now
        self._mode.set_tint(settings.token_tint)  # type: ignore[arg-type]
        if settings.token_view != self._mode.is_on:
            self._show(settings.token_view)
        if self._bar is not None:
            self._say_tint()
            self._say()

    def _show(self, is_on: bool) -> None:
        if is_on:
            self._follow_looking()
            self._mode.words_of = lambda message: self._desk.words.of(message.weights_hash)
            self._mode.may_branch = self._may_branch
            self._desk.words.read()
        if self._looking is not None:
            self._looking.set_awake(is_on, "tokens")
        self._mode.set_on(is_on)
        self._hear()
        self._on_token_changed()
        self._chat.header.set_tokens_shown(is_on)
        self._chat.show_token_bar(self.bar() if is_on else None)
        self._say_tint()
        if not is_on:
            self._asked.clear()
            self._growing.clear()

    def bar(self) -> TokenBar:
        if self._bar is None:
            from ui.tokens.token_bar import TokenBar

            self._bar = TokenBar(self._theme, self._chat)
            self._bar.tint_chosen.connect(lambda tint: self._desk.settings.set("token_tint", tint))
            self._bar.uncertain_requested.connect(self.go_to_uncertain)
            self._bar.picture_requested.connect(self.copy_picture)
        return self._bar

    def _follow_looking(self) -> None:
        if self._looking is None:
            self._looking = self._section.looking()
            self._looking.token_changed.connect(self._on_token_changed)
            self._looking.message_changed.connect(self._on_token_changed)
            self._looking.paint_changed.connect(self._on_paint_changed)
            self._on_paint_changed()

    def _on_paint_changed(self) -> None:
        paint = None if self._looking is None else self._looking.paint
        self._mode.set_paint(None if paint is None else paint.of)
        self._say_tint()

    def _may_branch(self, message: Message) -> bool:
        return message.role is Role.ASSISTANT

    # --- what is known of tokens ----------------------------------------------------------------

    def _on_wanted(self, messages: list[Message]) -> None:
        for message in messages:
            if message.id in self._asked:
                continue
            if message.role is Role.ASSISTANT:
                self._look_for_trace(message)
            else:
                self._look_for_cut(message)

    def _look_for_trace(self, message: Message) -> None:
        """A reply that has ended keeps the trace that grew in the view."""
        growing = self._growing.pop(message.id, None)
        if growing is None:
            growing = self._desk.growing.trace_of(message.id)
        if growing is not None:
            if message.state is MessageState.STREAMING:
                self._growing[message.id] = growing
            self._show_reply(message, growing)
        elif len(self._asked) < AT_ONCE:
            self._asked[message.id] = message
            self._desk.growing.read_trace(message.id)

    def _on_trace(self, event: TraceRead) -> None:
        """Whoever asked for it: what lacks its tokens takes them."""
        self._asked.pop(event.message_id, None)
        message = self._mode.lacking(event.message_id)
        if message is not None:
            self._show_reply(message, event.tokens)
        else:
            self._mode.look_around()  # of a chat that was left: its place is free for another

    def _show_reply(self, message: Message, traces: Sequence[TokenTrace]) -> None:
        from app.insight.trace.message_tokens import of_reply, plain
        from ui.transcript.tokens.mode import text_of

        words = self._desk.words.of(message.weights_hash)
        tokens = of_reply(message, traces, words, NOTHING_RECORDED)
        is_growing = message.state is MessageState.STREAMING
        if tokens is None and is_growing:
            return
        if tokens is None:
            note, text = (
                NOTHING_RECORDED if not message.token_ids else OTHER_WEIGHTS,
                text_of(message),
            )
            tokens = plain(text, note if text else "", note)
        self._mode.show(message, tokens)

    def _look_for_cut(self, message: Message) -> None:
        """A message that nobody drew: as the loaded vocabulary cuts it."""
        from app.insight.trace.message_tokens import plain

        text, loaded = message.content, self._desk.loader.state.loaded
        key = ("" if loaded is None else loaded.fast_hash or loaded.path, text)
        if not text or key in self._cut:
            self._show_cut(message, self._cut.get(key))
        elif len(text) > MOST_CHARS:
            self._mode.show(message, plain(text, TOO_LONG, TOO_LONG))
        elif loaded is None:
            self._mode.show(message, plain(text, hint=NO_WEIGHTS.replace(" · ", " ")))
        elif loaded.remote is not None and not self._was_given(message, loaded.fast_hash):
            self._mode.show(message, plain(text, hint=NOT_GIVEN.format(engine=loaded.remote.name)))
        else:
            self._asked[message.id] = message
            self._desk.questions.tokenize(
                text,
                partial(self._on_cut, message, key),
                partial(self._on_not_cut, message),
                still=ALWAYS,  # kept for that text and those weights; the view shows what it has
            )

    def _was_given(self, message: Message, weights_hash: str) -> bool:
        """Whether a server's model has answered behind it: then it has had it already."""
        path = self._desk.shelf.path
        at = next((at for at, each in enumerate(path) if each.id == message.id), len(path))
        return any(each.weights_hash == weights_hash for each in path[at:])

    def _on_cut(self, message: Message, key: tuple[str, str], tokens: Tokens) -> None:
        self._cut[key] = tokens
        n_kept = sum(len(each.token_ids) for each in self._cut.values())
        while n_kept > KEPT_CUT and len(self._cut) > 1:
            n_kept -= len(self._cut.pop(next(iter(self._cut))).token_ids)
        self._asked.pop(message.id, None)
        self._show_cut(message, tokens)

    def _on_not_cut(self, message: Message, sentence: str) -> None:
        from app.insight.trace.message_tokens import plain

        self._asked.pop(message.id, None)
        self._mode.show(message, plain(message.content, hint=sentence))

    def _show_cut(self, message: Message, tokens: Tokens | None) -> None:
        from app.insight.trace.message_tokens import MessageTokens

        if tokens is None:
            self._mode.show(message, MessageTokens())
        else:
            found = MessageTokens(before=tokens.pieces, before_ids=tokens.token_ids)
            self._mode.show(message, found)

    def _on_engine(self, event: EngineStateChanged) -> None:
        if self._mode.is_on:
            if event.loaded is not None:
                self._desk.words.read()
            self._mode.ask_again()

    def _on_vocabulary(self) -> None:
        self._mode.ask_again()

    def _on_settings(self, event: SettingsChanged) -> None:
        if event.names & {"token_view", "token_tint"}:
            self.follow()

    # --- the chosen token -----------------------------------------------------------------------

    def _on_chosen(self, message_id: str, place: int) -> None:
        self._section.looking().look_at(message_id, place)

    def _on_token_changed(self) -> None:
        looking = self._looking
        if looking is not None and self._mode.is_on:
            message_id = looking.message.id if looking.message is not None else ""
            self._mode.select(message_id, looking.index)

    def _reply_at_hand(self) -> Message | None:
        """The reply of the chosen token, else the last one in view, with recorded tokens."""
        looking = self._looking
        chosen = looking.message if looking is not None and looking.index is not None else None
        shown = [] if chosen is None else [chosen]
        for message in (*shown, *reversed(self._mode.messages_in_view())):
            tokens = self._mode.tokens_of(message.id)
            if tokens is not None and len(tokens.traces):
                return message
        return None

    def go_to_uncertain(self) -> None:
        """To the token of the reply at hand whose choice was the most uncertain."""
        from app.insight.trace.message_tokens import most_uncertain_place

        message = self._reply_at_hand()
        tokens = self._mode.tokens_of(message.id) if message is not None else None
        place = most_uncertain_place(tokens.traces) if tokens is not None else None
        if message is not None and place is not None:
            self._on_chosen(message.id, place)
            self._mode.show_place(message.id, place)

    def copy_picture(self) -> None:
        """The reply at hand, onto the clipboard."""
        from app.insight.trace.tokens_shown import TINTS
        from ui.transcript.tokens.picture import picture_of

        message, view = self._reply_at_hand(), self._chat.transcript
        index = view.rows.index_of(message.id) if message is not None else None
        body = view.rows.item(index).tokens if index is not None else None
        if message is None or index is None or body is None:
            return
        caption = " · ".join(
            part
            for part in (
                TINTS[self._mode.tint],
                plain_name(message.weights_name or ""),
                f"{len(body.tokens.tokens):,} tokens",
            )
            if part
        )
        ends = self.bar().ends()
        top = max(view.scroll_top - view.rows.top(index), 0.0)
        QGuiApplication.clipboard().setImage(picture_of(body, view.styles, caption, ends, top))
        view.remeasure(index)
        self._chat.toasts.show_notice(Notice("picture", "info", COPIED))

    # --- the bar --------------------------------------------------------------------------------

    def _say_tint(self) -> None:
        if self._bar is not None and self._mode.is_on:
            message = self._reply_at_hand()
            usual = self._mode.usual_ms(message.id) if message is not None else 0.0
            self._bar.show_tint(self._mode.tint, usual)
            if self._looking is not None and self._looking.paint is not None:
                self._bar.show_paint(self._looking.paint.words)

    def _say(self) -> None:
        """Whether something in view lacks its tokens, and whether a reply is at hand."""
        if self._bar is None:
            return
        message = self._reply_at_hand()
        self._bar.set_has_trace(message is not None)
        if self._mode.tint == "time":
            self._say_tint()
        is_loaded = self._desk.loader.state.loaded is not None
        lacking = not is_loaded and any(
            (tokens := self._mode.tokens_of(m.id)) is not None and not tokens.are_tokens
            for m in self._mode.messages_in_view()
        )
        untold = "" if message is None else self._untold(message)
        self._bar.say(NO_WEIGHTS if lacking else untold)

    def _untold(self, message: Message) -> str:
        """Why a server's reply has no tint of this kind."""
        writer, tokens = writer_of(message.settings), self._mode.tokens_of(message.id)
        if writer is None or tokens is None or not len(tokens.traces):
            return ""
        first, tint = tokens.traces[0], self._mode.tint
        is_known = {"rank": first.rank, "entropy": first.entropy}.get(tint, 0) is not None
        if tint == "surprise" and not first.stages:
            is_known = False
        return "" if is_known else NOT_TOLD.format(engine=writer.words, what=TINT_WORDS[tint])
