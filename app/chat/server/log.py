"""What the server was asked and what became of it, as long as the window is open.

Kept in memory alone: at most `MAX_REQUESTS` of them and `MAX_BYTES` of texts and traces; the oldest
that have ended go first. The server tells that there is something new; what is new is read here, on
the owner's thread, a few times a second while anything runs, so that nobody waits for the log. A
reply that is looked at as a chat grows there (`forward`), and here it is the same object: its
figures are read off it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from app.chat.replies.reply import Reply
from app.chat.server.as_chat import Asked, asked_of
from app.chat.surroundings import Surroundings
from app.chat.weights.loading import Loader
from app.engine.client.supervisor import EngineEvent
from app.engine.protocol.messages import (
    Failed,
    Finished,
    Note,
    Progress,
    Queued,
    Stopped,
    TextFlushed,
    TextTakenBack,
    TokenArrived,
)
from app.engine.protocol.tool_messages import ToolCalled
from models.records import Message, MessageState

if TYPE_CHECKING:
    from app.server.exchange import Exchange, Served

MAX_REQUESTS: Final = 500
MAX_BYTES: Final = 64_000_000
MAX_NAME: Final = 80
MAX_NOTES: Final = 8
"""Of a reply: what the engine has to say of how it does what was asked for."""

WAITING: Final = "waiting"
RUNNING: Final = "running"
DONE: Final = "done"
STOPPED: Final = "stopped"
FAILED: Final = "failed"

STOPPED_HERE: Final = "Stopped in Cutaway."
CLIENT_LEFT: Final = "The client closed the connection."


@dataclass(slots=True)
class LoggedReply:
    """A reply of a request. `chat_name`, `reply_name`: what the engine calls its chat and it.
    `ended`: its message, once it has ended."""

    asked: Asked
    engine_id: int
    chat_name: str
    reply_name: str
    is_reading: bool = False
    notes: list[str] = field(default_factory=list)
    ended: Message | None = None

    @property
    def reply(self) -> Reply:
        return self.asked.reply

    @property
    def message(self) -> Message:
        """As it is now."""
        return self.ended or self.reply.snapshot()

    @property
    def has_begun(self) -> bool:
        return self.is_reading or self.reply.n_generated > 0 or self.ended is not None

    @property
    def size_bytes(self) -> int:
        prompts = self.asked.above.n_characters
        message = self.ended or self.reply.message
        text = len(message.content) + len(message.rendered_prompt or "") + prompts
        media = self.asked.above.n_media_bytes
        return 4 * text + media + self.reply.traces.size_bytes


@dataclass(slots=True)
class Logged:
    """A request. `status`: of HTTP, 0 while it is not answered; `sentence`: what went wrong, as the
    client was told; `is_cut`: the client went before the end; `seconds`: None while it runs."""

    number: int
    client: str
    endpoint: str
    at: datetime
    model: str = ""
    prompt_tokens: int | None = None
    body: bytes = b""
    replies: list[LoggedReply] = field(default_factory=list)
    status: int = 0
    sentence: str = ""
    is_cut: bool = False
    is_stop_wanted: bool = False
    kept_bytes: int = 0
    kept_as: str = ""
    """The chat that it was stored as."""
    seconds: float | None = None

    @property
    def is_over(self) -> bool:
        return self.seconds is not None

    @property
    def state(self) -> str:
        if not self.is_over:
            is_begun = any(each.has_begun for each in self.replies)
            return RUNNING if is_begun or not self.replies else WAITING
        ended = [each.ended.state for each in self.replies if each.ended is not None]
        if self.is_cut or self.is_stop_wanted or MessageState.STOPPED in ended:
            return STOPPED
        return FAILED if self.sentence or self.status >= 400 else DONE

    @property
    def why(self) -> str:
        """Why it did not come to its end."""
        if self.is_stop_wanted and self.is_over:
            return STOPPED_HERE
        return self.sentence or (CLIENT_LEFT if self.is_cut else "")

    @property
    def notes(self) -> tuple[str, ...]:
        """What the engine noted, each once."""
        return tuple(dict.fromkeys(note for each in self.replies for note in each.notes))

    @property
    def tokens_in(self) -> int | None:
        """Of the prompt; where several replies were asked for, of all of them."""
        if not self.replies:
            return self.prompt_tokens
        return _sum([r.ended.counts.prompt_tokens for r in self.replies if r.ended is not None])

    @property
    def cached(self) -> int | None:
        return _sum([r.ended.counts.reused for r in self.replies if r.ended is not None])

    @property
    def tokens_out(self) -> int | None:
        return _sum([each.reply.n_generated for each in self.replies])

    @property
    def tokens_per_s(self) -> float | None:
        """Of its one reply, or of several that were written together."""
        rates = [
            each.reply.figures(0, 0).tokens_per_s
            if each.ended is None
            else each.ended.counts.tokens_per_s
            for each in self.replies
        ]
        known = [rate for rate in rates if rate]
        return sum(known) if known else None

    @property
    def size_bytes(self) -> int:
        return len(self.body) + sum(each.size_bytes for each in self.replies)


class RequestLog:
    """One owner, as all of the desk. `forward`: takes what the engine says of a reply that is open
    as a chat, and does with it what is done with any reply; `is_open` says whether it is."""

    def __init__(
        self,
        around: Surroundings,
        loader: Loader,
        is_open: Callable[[str], bool],
        forward: Callable[[EngineEvent], None],
    ) -> None:
        self._around = around
        self._loader = loader
        self._is_open = is_open
        self._forward = forward
        self._rows: dict[int, Logged] = {}
        self._running: dict[int, Exchange] = {}
        self._names: dict[str, int] = {}
        self._kept_bytes = 0
        self._last_forgotten = 0

    def __iter__(self) -> Iterator[Logged]:
        """The oldest first."""
        return iter(tuple(self._rows.values()))

    def __len__(self) -> int:
        return len(self._rows)

    def get(self, number: int) -> Logged | None:
        return self._rows.get(number)

    @property
    def is_any_running(self) -> bool:
        return bool(self._running)

    @property
    def n_running(self) -> int:
        """How many have not been answered yet."""
        return sum(not self._rows[number].is_over for number in self._running)

    def client_of(self, name: str) -> str:
        """Whose reply or chat the engine knows by this name; empty where it is none of these."""
        row = self._rows.get(self._names.get(name, 0))
        return row.client if row is not None else ""

    def clear(self) -> None:
        """All that have ended are forgotten."""
        for row in self:
            if row.number not in self._running:
                self._forget(row)

    # --- what is told ---------------------------------------------------------------------------

    def see(self, exchange: Exchange) -> None:
        """There is this one, or more of it."""
        if exchange.number not in self._rows:
            if exchange.number <= self._last_forgotten and exchange.seconds is not None:
                return
            self._rows[exchange.number] = Logged(
                exchange.number,
                one_line(exchange.who) or "Unknown client",
                one_line(exchange.endpoint),
                datetime.fromtimestamp(exchange.began, UTC),
            )
            self._running[exchange.number] = exchange
        if exchange.number in self._running:
            self._read(exchange)

    def read_on(self) -> bool:
        """Read what is new of those that run; whether there are any."""
        running = tuple(self._running.values())
        for exchange in running:
            self._read(exchange)
        return bool(running)

    def _read(self, exchange: Exchange) -> None:
        row = self._rows[exchange.number]
        is_over = exchange.seconds is not None  # before the rest: nothing comes after it but ends
        row.model, row.body = one_line(exchange.model), exchange.body
        row.prompt_tokens = exchange.prompt_tokens
        for place, served in enumerate(tuple(exchange.replies)):
            if served.request_id:
                self._read_reply(row, place, served)
        row.status, row.sentence, row.is_cut = exchange.status, exchange.sentence, exchange.is_gone
        if is_over:
            row.seconds = exchange.seconds
            if all(each.ended is not None for each in row.replies):
                del self._running[exchange.number]
                row.kept_bytes = row.size_bytes  # once: a prompt may have 4,096 parts
                self._kept_bytes += row.kept_bytes
                self._keep_within_bounds()

    def _read_reply(self, row: Logged, place: int, served: Served) -> None:
        if place >= len(row.replies):
            row.replies.append(logged := self._logged(row, served))
            names = {logged.chat_name, logged.reply_name} - {""}
            self._names |= dict.fromkeys(names, row.number)
        logged = row.replies[place]
        events = served.events[:]
        del served.events[: len(events)]  # as objects they take six times as much as in a trace
        for event in events:
            self._take(logged, event)

    def _logged(self, row: Logged, served: Served) -> LoggedReply:
        same = (each.asked for each in row.replies if each.asked.prompt == served.generate.prompt)
        first = next(same, row.replies[0].asked if row.replies else None)
        weights = (self._loader.weights_name, self._loader.weights_hash)
        asked = asked_of(served.generate, row.at, self._loader.loaded, weights, first)
        asked.reply.asked_at = self._around.clock()
        asked.reply.request_id = served.request_id
        generate = served.generate
        return LoggedReply(asked, served.request_id, generate.conversation, generate.reply_id)

    def _take(self, logged: LoggedReply, event: EngineEvent) -> None:
        reply = logged.reply
        if self._is_open(reply.message.id):
            self._forward(event)
        else:
            match event:
                case TokenArrived():
                    reply.take_token(event, self._around.clock())
                case TextFlushed():
                    reply.take_flushed(event)
                case TextTakenBack():
                    reply.take_back(event)
                case ToolCalled():
                    reply.take_call(event.call)
                case Queued():
                    reply.queue_place = event.position
            reply.unshown.clear()
        if isinstance(event, Progress):
            logged.is_reading = True
        elif isinstance(event, Note) and len(logged.notes) < MAX_NOTES:
            logged.notes.append(event.sentence)
        elif isinstance(event, Finished | Stopped | Failed):
            logged.ended = reply.ended(event)

    def _keep_within_bounds(self) -> None:
        for row in self:
            if len(self._rows) <= MAX_REQUESTS and self._kept_bytes <= MAX_BYTES:
                return
            if row.number not in self._running:
                self._forget(row)

    def _forget(self, row: Logged) -> None:
        del self._rows[row.number]
        self._kept_bytes -= row.kept_bytes
        for each in row.replies:
            for name in (each.chat_name, each.reply_name):
                if self._names.get(name) == row.number:  # a later request may go on in that chat
                    del self._names[name]
        self._last_forgotten = max(self._last_forgotten, row.number)


def one_line(text: str) -> str:
    """What a client says of itself, fit to be shown."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())[:MAX_NAME]


def _sum(counts: list[int | None]) -> int | None:
    known = [count for count in counts if count is not None]
    return sum(known) if known else None
