"""Trace and frames of a token, made beside the next decode, and everything else that is sent.

The decoding thread leaves a `TokenRecord` in the `Outbox`, whose thread measures it
(`measuring.py`) where that is not done yet, follows what the stages did (`effects.py`) and writes
the frames.
"""

from __future__ import annotations

import queue
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from app import cores
from app.engine.process.drafting.state import Proposal
from app.engine.process.native.arrays import as_array
from app.engine.process.trace.effects import Snapshot, StageFollower
from app.engine.process.trace.measuring import Measured, Measurer
from app.engine.process.trace.shortlist import Scores, Shortlist
from app.engine.protocol.draft_messages import Rejected
from app.engine.protocol.messages import (
    Event,
    Failed,
    Finished,
    Held,
    Log,
    Stopped,
    TokenArrived,
    TokenTrace,
)
from app.engine.protocol.tool_messages import Part

_FIRST: Final = 2
"""So many tokens of a reply are sent without gathering: somebody waits for them."""

_NOT_SENT: Final = "The engine couldn't send its response. Try again with less at once."


class TokenRecord(msgspec.Struct, frozen=True):
    """What the decoding thread leaves behind of a token; the event is made of it elsewhere.

    `scores` is a copy, since the next decode overwrites the original; None where the token is
    `measured` and nothing else is found out from them. `held`: announce the token
    instead of appending it (step mode). `proposed`: what a draft had here and behind it, with its
    pieces where another token came.
    """

    request_id: int
    index: int
    token_id: int
    piece: bytes
    scores: Scores | None
    snapshots: tuple[Snapshot, ...]
    alternatives: int
    ms: float
    uniform: float | None = None
    text: str = ""
    part: Part = "content"
    context_used: int = 0
    held: bool = False
    shortlist: Shortlist | None = None
    chosen: bool = False
    proposed: tuple[Proposal, ...] = ()
    proposed_pieces: tuple[bytes, ...] = ()
    inserted: bool = False
    measured: Measured | None = None

    def event(self, measurer: Measurer | None) -> TokenArrived | Held:
        """`measurer`: for one that is not measured yet."""
        measured = self.measured
        if measured is None:
            assert measurer is not None
            assert self.scores is not None
            wanted = self.alternatives
            measured = measurer.measure(self.scores, self.token_id, wanted, self.shortlist)
        follower = StageFollower(self.scores, self.token_id, measured.alternative_ids, measured)
        trace = TokenTrace(
            index=self.index,
            token_id=self.token_id,
            piece=self.piece,
            logprob=measured.logprob,
            rank=measured.rank,
            entropy=measured.entropy,
            alternative_ids=as_array(measured.alternative_ids),
            alternative_logprobs=as_array(measured.alternative_logprobs),
            stages=[follower.follow(snapshot) for snapshot in self.snapshots],
            ms=self.ms,
            removed_by=as_array(follower.removed_by) if self.snapshots else None,
            uniform=self.uniform,
            chosen=self.chosen,
            inserted=self.inserted,
            log_total=measured.log_total,
            drafted=bool(self.proposed) and not self.proposed_pieces and not self.chosen,
            draft_logprob=self.proposed[0].logprob if self.proposed else None,
            rejected=self._rejected(measured.log_total),
        )
        if self.held:
            return Held(self.request_id, trace)
        return TokenArrived(self.request_id, trace, self.text, self.part, self.context_used)

    def _rejected(self, log_total: float) -> Rejected | None:
        if not self.proposed_pieces or self.scores is None:
            return None
        ids = [each.token_id for each in self.proposed]
        known = [each.logprob for each in self.proposed if each.logprob is not None]
        logprob = min(float(self.scores[ids[0]]) - log_total, 0.0)
        return Rejected(ids, list(self.proposed_pieces), logprob, known)


class Outbox:
    """Sends everything that the engine says, in the order in which it was put in.

    One thread makes the events of tokens while the next decode runs. On a processor it takes its
    time from the threads that decode, so tokens that follow each other quickly are made and sent
    a few at a time: one that was put waits `GATHER_S` at most, and everything else wakes the
    thread at once, and so do as many as go out together. It is bounded: when the reader at the
    other end stops reading, `put` waits, and so does decoding.
    """

    GATHER_S: Final = 0.12 if cores.HAS_FEW else 0.04
    _LIMIT: Final = 64
    _MOST_AT_ONCE: Final = 16

    def __init__(
        self,
        send: Callable[[Event], None],
        on_broken: Callable[[], None],
        send_all: Callable[[Sequence[Event]], None] | None = None,
    ) -> None:
        """`send_all` may send several events with one write; `send` is used for one that fails."""
        self._send = send
        self._send_all = send_all
        self._on_broken = on_broken
        self._queue: queue.SimpleQueue[Event | TokenRecord | None] = queue.SimpleQueue()
        self._urgent = threading.Event()
        self._measurer: Measurer | None = None
        self._broken = threading.Event()
        self._sent_at = time.monotonic()
        self._thread = threading.Thread(target=self._run, name="outbox", daemon=True)
        self._thread.start()

    def put(self, item: Event | TokenRecord) -> None:
        """Send `item` after everything before it; it is dropped when nobody reads any more."""
        while self._queue.qsize() >= self._LIMIT and not self._broken.is_set():
            time.sleep(0.002)
        if self._broken.is_set():
            return
        self._queue.put(item)
        is_urgent = not isinstance(item, TokenRecord) or item.held or item.index < _FIRST
        if is_urgent or self._queue.qsize() >= self._MOST_AT_ONCE:
            self._urgent.set()

    def quiet_s(self) -> float:
        """How long nothing was sent."""
        return time.monotonic() - self._sent_at

    def close(self, timeout_s: float = 2.0) -> None:
        """Send what is left and end the thread."""
        self._queue.put(None)
        self._urgent.set()
        self._thread.join(timeout_s)

    def _run(self) -> None:
        try:
            while items := self._gather():
                self._send_few(items)
        except (OSError, ValueError):  # the pipe is closed: the window is gone
            pass
        except Exception:  # noqa: BLE001 - without this thread no request would end
            traceback.print_exc()
        else:
            return
        self._broken.set()
        self._on_broken()

    def _gather(self) -> list[Event | TokenRecord]:
        """What there is to send now, at least one; empty at the end."""
        items: list[Event | TokenRecord] = []
        while len(items) < self._MOST_AT_ONCE:
            try:
                item = self._queue.get(block=not items)
            except queue.Empty:
                break
            if item is None:
                self._queue.put(None)  # found again when what came before it is sent
                break
            items.append(item)
        return items

    def _send_few(self, items: list[Event | TokenRecord]) -> None:
        began = time.monotonic()
        self._urgent.clear()
        if self._send_all is None or len(items) == 1:
            for item in items:
                self._send_one(self._event(item))
        else:
            self._send_together(items, self._send_all)
        self._sent_at = time.monotonic()
        if self._queue.qsize() == 0:
            self._urgent.wait(max(began + self.GATHER_S - time.monotonic(), 0.0))

    def _send_together(
        self, items: list[Event | TokenRecord], send_all: Callable[[Sequence[Event]], None]
    ) -> None:
        """With one write; one by one where one of them cannot be sent."""
        events = [self._event(item) for item in items]
        try:
            send_all(events)
        except (OSError, ValueError):
            raise
        except Exception:  # noqa: BLE001 - nothing was written yet; each is tried alone
            for event in events:
                self._send_one(event)

    def _send_one(self, event: Event) -> None:
        """What cannot be sent must not silence the rest; its request still ends."""
        try:
            self._send(event)
        except (OSError, ValueError):
            raise
        except Exception as error:  # noqa: BLE001 - reported as the ending of its request
            if isinstance(event, Finished | Stopped):
                self._send(Failed(event.id, "internal", _NOT_SENT, repr(error)))
            else:
                self._send(_not_sent(event, error))

    def _event(self, item: Event | TokenRecord) -> Event:
        """What cannot be measured must not silence the rest either."""
        if not isinstance(item, TokenRecord):
            return item
        try:
            if item.measured is not None or item.scores is None:
                return item.event(None)
            if self._measurer is None or self._measurer.n_vocab != len(item.scores):
                self._measurer = Measurer(len(item.scores))
            return item.event(self._measurer)
        except Exception as error:  # noqa: BLE001 - a fault of ours in one token's numbers
            return _not_sent(item, error)


def _not_sent(item: Event | TokenRecord, error: Exception) -> Log:
    return Log("error", f"{type(item).__name__} was not sent: {error!r}")
