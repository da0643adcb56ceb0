"""Step mode: a reply waits at each token, and the user takes the drawn one or another.

What must hold:

* While it is on, each reply that is asked for waits; several at once and exact repetitions do
  not, since nobody compares what was chosen by hand.
* A reply may wait for hours, in a chat that is not on screen, too; who leaves it is told where it
  waits. Whatever ends it (Stop, the engine's death, the app's end), what it said so far is kept.
* The engine counts no time in which it waited for somebody.
* It is one switch for all chats, off at each start; *Run on from here* turns it off. A choice that
  was refused is announced again as held, so that watchdog and bar know that it still waits.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from app.chat.conversations.shelf import Shelf
from app.chat.events import HeldEnded, Noticed, StepModeChanged, TokenHeld
from app.chat.replies.again import AGAIN
from app.chat.replies.growing import Growing
from app.chat.replies.reply import Reply
from app.chat.surroundings import Surroundings
from app.chat.weights.loading import Loader
from app.engine.protocol.messages import Choose, Held, Hold, Queued, Resume, TokenTrace
from app.insight.trace.table import TraceTable

LEFT_WAITING: Final = "The reply in “{title}” is waiting at a token. Open that chat to continue."
WAITS_FOR_HELD: Final = (
    "This reply is waiting for the one in “{title}”, which is paused at a token. Open that chat "
    "to continue or stop it."
)


@dataclass(slots=True)
class _Waiting:
    """A reply that is held. `token`: the one that it waits at; None while the next one is drawn.
    `is_told`: who left its chat knows that it waits."""

    reply: Reply
    token: TokenTrace | None = None
    is_told: bool = False


class StepMode:
    def __init__(
        self, around: Surroundings, shelf: Shelf, loader: Loader, growing: Growing
    ) -> None:
        self._around = around
        self._shelf = shelf
        self._loader = loader
        self._growing = growing
        self._waiting: dict[int, _Waiting] = {}
        self._told_waits: set[int] = set()
        self._released: set[int] = set()
        self.is_on = False
        """Whether replies wait at each token."""

    @property
    def held_token(self) -> TokenHeld | None:
        """Where a reply of the open chat waits."""
        found = self._in_open()
        return None if found is None else self._as_held(found[1])

    def is_held(self, reply: Reply) -> bool:
        """Whether a reply that is about to be asked for waits at each token."""
        is_here = self._loader.remote is None
        return self.is_on and is_here and not reply.is_beside and AGAIN not in reply.changes

    # --- acts -----------------------------------------------------------------------------------

    def begin(self) -> None:
        """From now on replies wait at each token; one that grows in the open chat does, too. A
        server can't wait; it is said, and nothing changes."""
        if self._loader.remote is not None:
            self._around.emit(Noticed("warning", self._loader.remote.why_not("step")))
            return
        self._set(True)
        for request_id in self._growing.requests_in(self._shelf.open.id):
            reply = self._growing.reply_of(request_id)
            if reply is not None and self.is_held(reply):
                self._released.discard(request_id)
                self._loader.engine.request(Hold(request_id))

    def take(self) -> None:
        """The drawn token becomes part of the reply, which waits at the next one."""
        found = self._in_open()
        if found is not None and found[1].token is not None:
            self.choose(found[1].token.token_id)

    def choose(self, token_id: int) -> None:
        """Another token takes its place."""
        found = self._in_open()
        if found is not None and found[1].token is not None:
            found[1].token = None
            self._loader.engine.request(Choose(found[0], token_id))

    def run_on(self) -> None:
        """Replies wait no more; one that waits in the open chat takes the drawn token and runs on
        to the end."""
        self._set(False)
        for request_id in self._growing.requests_in(self._shelf.open.id):
            self._released.add(request_id)
            self._loader.engine.request(Resume(request_id))
            self._end(request_id)

    def stop(self) -> None:
        """The reply ends here, without the token that it waits at."""
        found = self._in_open()
        if found is not None:
            self._growing.stop_reply(found[1].reply.message.id)

    # --- events ---------------------------------------------------------------------------------

    def take_held(self, event: Held) -> None:
        reply = self._growing.reply_of(event.id)
        if reply is None or event.id in self._released:
            return  # it had been let go before this came
        reply.hold(self._around.clock())
        waiting = self._waiting.setdefault(event.id, _Waiting(reply))
        # As a table has it: its arrays are bounded, like those of tokens that were appended.
        waiting.token = TraceTable([reply.placed(event.token)])[0]
        held = self._as_held(waiting)
        if held is not None and reply.conversation_id == self._shelf.open.id:
            self._around.emit(held)
        self.on_opened()

    def take_ending(self, request_id: int) -> None:
        self._told_waits.discard(request_id)
        self._released.discard(request_id)
        self._end(request_id)

    def take_queued(self, event: Queued) -> None:
        """Where a reply waits for a place in the engine that a held one has, say so."""
        reply = self._growing.reply_of(event.id)
        if reply is None or event.id in self._told_waits or event.position < 1:
            return
        for waiting in self._waiting.values():
            if waiting.reply.conversation_id != reply.conversation_id:
                self._told_waits.add(event.id)
                self._say(WAITS_FOR_HELD, waiting)
                return

    def on_opened(self) -> None:
        """A chat has come on screen, perhaps in the place of one whose reply waits."""
        for waiting in self._waiting.values():
            is_away = waiting.reply.conversation_id != self._shelf.open.id
            if is_away and not waiting.is_told:
                self._say(LEFT_WAITING, waiting)
            waiting.is_told = is_away

    # --- how it is done -------------------------------------------------------------------------

    def _set(self, is_on: bool) -> None:
        if is_on != self.is_on:
            self.is_on = is_on
            self._around.emit(StepModeChanged(is_on))

    def _in_open(self) -> tuple[int, _Waiting] | None:
        open_id = self._shelf.open.id
        found = (i for i in self._waiting.items() if i[1].reply.conversation_id == open_id)
        return next(found, None)

    @staticmethod
    def _as_held(waiting: _Waiting) -> TokenHeld | None:
        message = waiting.reply.message
        if waiting.token is None:
            return None
        return TokenHeld(message.conversation_id, message.id, waiting.token)

    def _end(self, request_id: int) -> None:
        waiting = self._waiting.pop(request_id, None)
        if waiting is not None:
            message = waiting.reply.message
            self._around.emit(HeldEnded(message.conversation_id, message.id))

    def _say(self, words: str, waiting: _Waiting) -> None:
        conversation = self._shelf.conversation(waiting.reply.conversation_id)
        if conversation is not None:
            self._around.emit(Noticed("info", words.format(title=conversation.title)))
