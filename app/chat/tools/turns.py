"""The calls of replies on their way to results: asked, run, kept, and then the next reply.

Calls are worked off one after another. What is asked is read off the path itself (`open_calls`), so
a chat that is opened again, after a crash in the middle of a call too, stands where it stood; only
what runs at this moment is kept here. What must hold:

* Nothing runs before a person has said so: for this call, or for this tool as it is now. What was
  open when a chat came on screen is asked, whatever was allowed; so is a tool that is off there.
* Each result is on disk before the engine sees it, and goes below the call that it is of. Where
  that is on screen no more (another version, the trash) it is dropped, and said.
* What a reply calls that another program asked for (`is_served`) is for that program: it is neither
  run nor asked here.
* After so many rounds in a row (`tool_rounds`) a person decides whether it goes on.
* A stop ends the call at its server; the call is open again.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from app.chat.conversations.shelf import Shelf, new_id
from app.chat.events import CallsChanged, Noticed
from app.chat.surroundings import Surroundings, now
from app.chat.tools.results import Ended, Open, Result, laid_out, open_calls, result_message
from app.chat.tools.servers import OfferedTool, ToolServers
from app.engine.protocol.tool_messages import ToolCall
from app.tools.records import Outcome, ServerState
from app.tools.schemas import read_arguments, trouble
from models.records import Attachment, Conversation, Message, MessageState

if TYPE_CHECKING:
    from app.chat.replies.replies import Replies
    from app.tools.host import CallHandle

UNKNOWN: Final = "There is no tool “{name}”."
NOT_ALLOWED: Final = "The user doesn't allow this tool."
DECLINED: Final = "The user declined this call."
EDITED: Final = "(The user changed the arguments to {arguments})\n\n{text}"
DROPPED: Final = "The result of “{name}” came after you had left its place, so it was dropped."
UNSAVED: Final = "The result of “{name}” couldn't be saved. {sentence}"
STOPPED: Final = "Stopped. Run it again, or skip it."
OFF_HERE: Final = "This tool is off in this chat."
CHANGED: Final = "This tool isn't the one you allowed: its description has changed."

Phase = Literal["asking", "running", "saving", "limit", "over"]


@dataclass(frozen=True, slots=True)
class Asked:
    """What stands at the end of the open chat. asking: `call` waits for a person. running: it was
    allowed. saving: its result is on its way to disk. limit: all have results, and so many rounds
    have been made that a person is asked; over: all have results, and nobody asked for the reply.

    `offered` None: nobody knows this tool; `trouble`: why the arguments do not fit, `note`: what is
    worth knowing. `number` of `n_calls`, from 1. `progress`: what its server says of it."""

    phase: Phase
    reply: Message
    call: ToolCall | None = None
    offered: OfferedTool | None = None
    arguments: str = "{}"
    trouble: str = ""
    note: str = ""
    number: int = 0
    n_calls: int = 0
    n_rounds: int = 0
    progress: str = ""


@dataclass(slots=True)
class _Turn:
    """A call that runs. `path` ends with the message that its result goes below."""

    path: tuple[Message, ...]
    open: Open
    call: ToolCall
    offered: OfferedTool
    arguments: str
    is_edited: bool
    handle: CallHandle | None = None
    progress: str = ""
    is_stopped: bool = False
    is_saving: bool = False


class Turns:
    def __init__(
        self,
        around: Surroundings,
        shelf: Shelf,
        servers: ToolServers,
        replies: Replies,
        is_served: Callable[[str], bool],
    ) -> None:
        self._around = around
        self._shelf = shelf
        self._servers = servers
        self._replies = replies
        self._is_served = is_served
        self._running: dict[str, _Turn] = {}
        self._refusing: dict[str, Asked] = {}
        """Calls that did not run, while what the model reads of them is on its way to disk."""
        self._notes: dict[tuple[str, str], str] = {}
        """By reply and call: some families number the calls of each reply from 0."""
        self._for_all: set[str] = set()

    # --- what is asked --------------------------------------------------------------------------

    @property
    def asked(self) -> Asked | None:
        """What the open chat waits for; None: nothing of tools."""
        turn = self._running.get(self._shelf.open.id)
        if turn is not None:
            phase: Phase = "saving" if turn.is_saving else "running"
            return dataclasses.replace(
                self._about(phase, turn.open, turn.call, turn.offered),
                arguments=turn.arguments,
                trouble="",
                progress=turn.progress,
            )
        if self._shelf.open.id in self._refusing:
            return self._refusing[self._shelf.open.id]
        if self._replies.is_busy(self._shelf.open.id):
            return None
        found = open_calls(self._shelf.path)
        if found is None or self._is_served(found.reply.id):
            return None
        if not found.calls:
            limit = self._around.settings.tool_rounds
            is_limit = found.n_rounds >= limit
            return Asked("limit" if is_limit else "over", found.reply, n_rounds=found.n_rounds)
        return self._about("asking", found, found.calls[0], self._offered(found.calls[0].name))

    def _about(
        self, phase: Phase, found: Open, call: ToolCall, offered: OfferedTool | None
    ) -> Asked:
        note = self._notes.get((found.reply.id, call.id), "")
        if not note and offered is not None:
            if self._servers.is_off_in(self._shelf.open, offered):
                note = OFF_HERE
            elif offered.tool.name in offered.server.always and offered.permission == "ask":
                note = CHANGED
        return Asked(
            phase,
            found.reply,
            call,
            offered,
            laid_out(call.arguments),
            self.trouble_of(call, offered, call.arguments),
            note,
            found.n_calls - len(found.calls) + 1,
            found.n_calls,
            found.n_rounds,
        )

    def trouble_of(self, call: ToolCall, offered: OfferedTool | None, arguments: str) -> str:
        """Why a call cannot run with these arguments; "": it can."""
        if offered is None:
            return UNKNOWN.format(name=call.name[:80])
        values, wrong = read_arguments(arguments)
        return wrong or trouble(values, offered.tool.schema)

    def _offered(self, name: str) -> OfferedTool | None:
        return next((each for each in self._servers.known() if each.name == name), None)

    def is_running(self, conversation_id: str) -> bool:
        """Whether a call runs there: Send is Stop then."""
        return conversation_id in self._running

    # --- acts -----------------------------------------------------------------------------------

    def run(self, arguments: str = "", *, always: bool = False, rest: bool = False) -> str:
        """Run the call that is asked; `arguments`: JSON text instead of the model's. `always`: this
        tool need not be asked again. `rest`: nor need the other calls of this reply. Returns a
        sentence where it cannot run, else ""."""
        asked = self.asked
        if asked is None or asked.phase != "asking" or asked.call is None:
            return ""
        text = arguments.strip() or asked.call.arguments
        wrong = self.trouble_of(asked.call, asked.offered, text)
        if wrong or asked.offered is None:
            return wrong
        if not self._replies.may_ask():
            return ""
        if always:
            self._servers.set_permission(asked.offered.server.id, asked.offered.tool, "always")
        if rest:
            self._for_all.add(asked.reply.id)
        is_edited = read_arguments(text)[0] != read_arguments(asked.call.arguments)[0]
        path = self._shelf.path
        found = open_calls(path)
        if found is not None and found.calls:
            self._begin(path, found, asked.offered, text, is_edited=is_edited)
        return ""

    def decline(self, *, never: bool = False) -> None:
        """The call that is asked does not run; the model is told. `never`: nor will this tool."""
        asked = self.asked
        if asked is None or asked.phase != "asking" or not self._replies.may_ask():
            return
        if never and asked.offered is not None:
            self._servers.set_permission(asked.offered.server.id, asked.offered.tool, "never")
        path = self._shelf.path
        found = open_calls(path)
        if found is not None and found.calls:
            text = f"{DECLINED} {asked.trouble}".strip()
            self._refuse(path, found, text, asked.offered)

    def go_on(self) -> None:
        """Ask for the reply to the results, also where it is one round more."""
        asked = self.asked
        if asked is not None and asked.phase in ("limit", "over") and self._replies.may_ask():
            self._ask(self._shelf.path)

    def stop(self, conversation_id: str) -> None:
        """End what runs there; the call is open again."""
        turn = self._running.get(conversation_id)
        if turn is None or turn.is_saving:
            return
        turn.is_stopped = True
        if turn.handle is not None:
            turn.handle.cancel()
        self._let_go(conversation_id, turn, STOPPED)

    def close(self) -> None:
        self._running.clear()

    # --- what happens ---------------------------------------------------------------------------

    def on_reply_ended(self, message: Message) -> bool:
        """A reply has ended. Whether its calls, or the reply to their results, come next."""
        is_whole = message.state is MessageState.COMPLETE and not self._is_served(message.id)
        if not is_whole or open_calls((message,)) is None:
            self._tell(message.conversation_id)
            return False
        if message.conversation_id == self._shelf.open.id:
            if self._shelf.leaf_id != message.id:
                return False  # another version is on screen
            self._advance(self._shelf.path)
        elif self._around.store is not None:
            self._around.when_done(
                self._around.store.load_path(message.conversation_id, message.id),
                self._advance,
                still=lambda: not self._replies.is_busy(message.conversation_id),
            )
        return True

    def on_opened(self) -> None:
        """Another path is on screen. A call whose place is on it no more is ended."""
        open_id = self._shelf.open.id
        turn = self._running.get(open_id)
        if turn is not None and not turn.is_saving and self._shelf.leaf_id != turn.open.below.id:
            turn.is_stopped = True
            if turn.handle is not None:
                turn.handle.cancel()
            del self._running[open_id]
            self._around.emit(Noticed("info", DROPPED.format(name=turn.call.name)))
        self._tell(open_id)

    def on_servers_changed(self) -> None:
        self._tell(self._shelf.open.id)

    def _advance(self, path: tuple[Message, ...]) -> None:
        """The next call, or the reply to all results; what nobody need be asked for is done."""
        found = open_calls(path)
        if found is None:
            return
        conversation_id = found.reply.conversation_id
        chat = self._shelf.conversation(conversation_id)
        if chat is None:
            return
        if not found.calls:
            self._for_all.discard(found.reply.id)
            if found.n_rounds < self._around.settings.tool_rounds:
                self._ask(path)
            self._tell(conversation_id)
            return
        call = found.calls[0]
        offered = self._offered(call.name)
        if offered is None:
            self._refuse(path, found, self._no_such_tool(chat, call), None, "failed")
        elif offered.permission == "never":
            self._refuse(path, found, NOT_ALLOWED, offered)
        elif self._servers.is_off_in(chat, offered):
            self._tell(conversation_id)
        elif offered.permission == "always" or found.reply.id in self._for_all:
            wrong = self.trouble_of(call, offered, call.arguments)
            if wrong:
                self._refuse(path, found, f"Error: {wrong}", offered, "failed")
            else:
                self._begin(path, found, offered, call.arguments, is_edited=False)
        else:
            self._tell(conversation_id)

    def _no_such_tool(self, chat: Conversation, call: ToolCall) -> str:
        names = ", ".join(each.name for each in self._servers.offered(chat)[:50])
        known = f" Tools: {names}." if names else ""
        return f"Error: {UNKNOWN.format(name=call.name[:80])}{known}"

    def _begin(
        self,
        path: tuple[Message, ...],
        found: Open,
        offered: OfferedTool,
        arguments: str,
        *,
        is_edited: bool,
    ) -> None:
        turn = _Turn(path, found, found.calls[0], offered, arguments, is_edited)
        conversation_id = found.reply.conversation_id
        self._running[conversation_id] = turn
        self._notes.pop((found.reply.id, turn.call.id), None)
        self._tell(conversation_id)

        def call(state: ServerState) -> None:
            if self._running.get(conversation_id) is not turn:
                return
            if state.state != "ready":
                sentence = state.sentence or "The server isn't running."
                self._take(turn, Outcome("failed", sentence))
                return
            turn.handle = self._servers.call(
                offered,
                read_arguments(arguments)[0],
                lambda outcome: self._take(turn, outcome),
                lambda words: self._show(turn, words),
            )

        self._servers.when_ready(offered.server.id, call)

    def _show(self, turn: _Turn, words: str) -> None:
        conversation_id = turn.open.reply.conversation_id
        if self._running.get(conversation_id) is turn:
            turn.progress = words
            self._tell(conversation_id)

    def _take(self, turn: _Turn, outcome: Outcome) -> None:
        """A call has ended."""
        conversation_id = turn.open.reply.conversation_id
        if self._running.get(conversation_id) is not turn or turn.is_saving:
            return
        if outcome.kind == "cancelled":
            self._let_go(conversation_id, turn, STOPPED)
            return
        ended: Ended = "failed" if outcome.kind == "failed" else "done"
        if outcome.is_error:
            ended = "error"
        text = f"Error: {outcome.text}" if ended == "failed" else outcome.text
        if turn.is_edited:
            text = EDITED.format(arguments=turn.arguments.strip()[:4_000], text=text)
        whole = _attached(turn, outcome.whole)
        result = Result(
            ended, turn.offered.server.name, turn.arguments, outcome.took_s, turn.is_edited
        )
        message = result_message(turn.open.below, turn.call, text, result, whole)
        turn.is_saving = True
        self._keep(turn.path, message, turn.call.name)

    def _refuse(
        self,
        path: tuple[Message, ...],
        found: Open,
        text: str,
        offered: OfferedTool | None,
        ended: Ended = "declined",
    ) -> None:
        """A call does not run; the model reads why."""
        call = found.calls[0]
        server = offered.server.name if offered is not None else ""
        message = result_message(found.below, call, text, Result(ended, server, call.arguments))
        self._refusing[message.conversation_id] = self._about("saving", found, call, offered)
        self._keep(path, message, call.name)

    def _keep(self, path: tuple[Message, ...], message: Message, name: str) -> None:
        """Store a result, then go on."""
        conversation_id, store = message.conversation_id, self._around.store

        def over() -> None:
            self._running.pop(conversation_id, None)
            self._refusing.pop(conversation_id, None)

        is_open = conversation_id == self._shelf.open.id
        is_gone = is_open and self._shelf.leaf_id != message.parent_id
        if store is None or is_gone or self._shelf.conversation(conversation_id) is None:
            over()
            self._around.emit(Noticed("info", DROPPED.format(name=name)))
            self._tell(conversation_id)
            return
        self._shelf.add(message)

        def kept(stored: Message) -> None:
            over()
            self._shelf.place(stored)
            if stored.trashed_at is None and not self._replies.is_busy(conversation_id):
                self._advance((*path, stored))
            self._tell(conversation_id)

        def failed(sentence: str) -> None:
            over()
            self._around.emit(Noticed("error", UNSAVED.format(name=name, sentence=sentence)))
            self._shelf.replace_path(conversation_id, path)

        self._around.when_done(
            store.append_message(message),
            kept,
            failed,
            still=self._shelf.unless_ended(conversation_id),
        )

    def _ask(self, path: tuple[Message, ...]) -> None:
        self._replies.answer_calls(path)

    def _let_go(self, conversation_id: str, turn: _Turn, note: str) -> None:
        del self._running[conversation_id]
        self._notes[turn.open.reply.id, turn.call.id] = note
        self._for_all.discard(turn.open.reply.id)
        self._tell(conversation_id)

    def _tell(self, conversation_id: str) -> None:
        self._around.emit(CallsChanged(conversation_id))


def _attached(turn: _Turn, whole: str) -> tuple[Attachment, ...]:
    """The text of a long result in full, to be kept beside it."""
    if not whole:
        return ()
    name = f"{turn.offered.name}.txt"
    conversation_id = turn.open.reply.conversation_id
    size = len(whole.encode("utf-8", "replace"))
    return (Attachment(new_id(), conversation_id, name, whole, size, now()),)
