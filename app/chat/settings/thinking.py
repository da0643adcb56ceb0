"""Thinking, as the composer offers it: what the chat's template knows, and what is chosen where.

The engine finds out what a template offers once its weights are loaded; asked is again where
another template counts. A choice stands at one of three levels: the next reply alone, the chat, or
the model; what is chosen at one of them is what counts from now on, so nothing above it stays.
"""

from __future__ import annotations

from functools import partial
from typing import Final, Literal

from app.chat.conversations.shelf import Shelf
from app.chat.events import LevelsChanged, ThinkingChanged
from app.chat.inspection.questions import Questions
from app.chat.replies.next_reply import THOUGHTS, NextReply
from app.chat.settings.levels import Levels
from app.chat.settings.resolved import Resolved
from app.chat.surroundings import ALWAYS, Surroundings
from app.chat.weights.loading import Loader
from app.engine.protocol.thinking_messages import ReadThinking, ThinkingOffer
from models.records import ConversationKind

Scope = Literal["message", "chat", "weights"]

SETTING: Final = "thinking"
BUDGET: Final = "reasoning_budget"
NONE: Final = ThinkingOffer()

_Key = tuple[str, str, str | None, tuple[tuple[str, str], ...], str]
"""Path and hash of the weights, the template in place of theirs, reasoning tags and variables of
one's own."""


class Thinking:
    """`offer` is of the open chat with the loaded weights, or those that the next message loads
    again; of nothing where there are none."""

    def __init__(
        self,
        around: Surroundings,
        shelf: Shelf,
        loader: Loader,
        questions: Questions,
        levels: Levels,
        next_reply: NextReply,
    ) -> None:
        self._around = around
        self._shelf = shelf
        self._loader = loader
        self._questions = questions
        self._levels = levels
        self._next = next_reply
        self._offers: dict[_Key, ThinkingOffer] = {}
        self._asked: _Key | None = None
        self._said: tuple[object, ...] = ()
        self.offer = NONE
        self.scope: Scope = "chat"
        """Where the next choice goes."""

    # --- what there is --------------------------------------------------------------------------

    @property
    def chosen(self) -> str:
        """What counts for the next reply; empty: as the template does."""
        return self._resolved.settings.thinking

    @property
    def chosen_at(self) -> str:
        """The level that it comes from."""
        return self._resolved.level_of(SETTING)

    @property
    def limit(self) -> int:
        return self._resolved.settings.reasoning_budget

    @property
    def thoughts(self) -> str:
        """What the reasoning of the next reply begins with."""
        return self._next.thoughts(self._shelf.open)

    @property
    def _resolved(self) -> Resolved:
        return self._levels.resolved(self._next.changes(self._shelf.open))

    # --- choosing -------------------------------------------------------------------------------

    def choose(self, name: str, scope: Scope | None = None) -> None:
        """Empty: as the template does by itself."""
        self._put(SETTING, name, scope or self.scope)

    def limit_to(self, n_tokens: int, scope: Scope | None = None) -> None:
        """0: no limit."""
        self._put(BUDGET, n_tokens, scope or self.scope)

    def begin_with(self, text: str) -> None:
        """How the reasoning of the next reply begins; empty: as the model likes."""
        self._next.put(THOUGHTS, text)
        self._around.emit(LevelsChanged("message"))
        self.refresh()

    def _put(self, name: str, value: object, scope: Scope) -> None:
        if scope == "message":
            self._next.put(name, value)
            self._around.emit(LevelsChanged("message"))
        else:
            if name in self._next.changes(self._shelf.open):
                self._next.put(name, None)
            if scope == "weights":
                self._levels.change("weights", name, value)
                if name in self._levels.own("weights"):  # where there is no model, it was refused
                    self._levels.reset("chat", name)
            else:
                self._levels.change("chat", name, value)
        self.refresh()

    # --- asking ---------------------------------------------------------------------------------

    def refresh(self) -> None:
        """Another chat, template or model may count by now."""
        key = self._key()
        if key is None:
            self._show(NONE)
        elif key in self._offers:
            self._show(self._offers[key])
        elif self._loader.loaded is None:
            self._show(NONE)
        elif key != self._asked:
            self._asked = key
            command = ReadThinking(0, key[2], reasoning_tags=list(key[3]), variables=key[4])
            self._questions.ask(
                command,
                ThinkingOffer,
                partial(self._take, key),
                lambda _sentence: self._miss(key),
                still=ALWAYS,
            )

    def _key(self) -> _Key | None:
        loader = self._loader
        loaded = loader.loaded or loader.last_loaded
        if loaded is None or loader.is_loading or loaded.path != loader.path:
            return None
        if self._shelf.open.kind is ConversationKind.TEXT:
            return None
        settings = self._levels.resolved().settings
        tags, variables = tuple(settings.tag_pairs), settings.template_variables
        return loaded.path, loaded.fast_hash, settings.template, tags, variables

    def _take(self, key: _Key, offer: ThinkingOffer) -> None:
        self._asked = None
        self._offers = {key: offer, **dict(list(self._offers.items())[:15])}
        self.refresh()

    def _miss(self, key: _Key) -> None:
        """The engine ended first, most likely: nothing is known, and it is asked again later."""
        if key == self._asked:
            self._asked = None
            self._show(NONE)

    def _show(self, offer: ThinkingOffer) -> None:
        self.offer = offer
        resolved = self._resolved
        said = (
            offer,
            resolved.settings.thinking,
            resolved.level_of(SETTING),
            resolved.settings.reasoning_budget,
            self.thoughts,
        )
        if said != self._said:
            self._said = said
            self._around.emit(ThinkingChanged())
