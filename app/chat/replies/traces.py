"""The traces of replies: kept beside the message, read when somebody looks.

Packing a reply of 2,000 tokens takes a tenth of a second, unpacking it half of that and numpy:
both are done on the database's threads, never on the one that paints. A trace is worth less than
a message: what cannot be kept or read costs a sentence at most.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Final, TypeVar

from app.chat.events import TraceRead
from app.chat.surroundings import ALWAYS, Still, Surroundings
from app.engine.protocol.messages import TokenTrace
from app.insight.trace.columns import TraceUnreadable, pack, unpack
from app.insight.trace.table import TraceTable

T = TypeVar("T")

MAX_TOKENS: Final = 16_384
"""Of a reply, its first ones: their traces take 14 MB of memory while it grows."""

NO_TRACE: Final = "The tokens of this message weren't recorded."


class Traces:
    """Saves and loads. Growing replies have their own in memory."""

    def __init__(self, around: Surroundings) -> None:
        self._around = around

    def keep(self, message_id: str, traces: Sequence[TokenTrace]) -> None:
        """Store the trace of a reply, which has ended: nobody adds to it any more. Its row must
        be on its way to disk already."""
        if traces and self._around.store is not None:
            self._around.saved(self._around.store.save_trace(message_id, lambda: pack(traces)))

    def read(self, message_id: str) -> None:
        """Read a stored trace; TraceRead answers, whatever happens."""

        def as_read(tokens: Sequence[TokenTrace], sentence: str) -> TraceRead:
            return TraceRead(message_id, tuple(tokens), sentence)

        def as_failed(sentence: str) -> None:
            self._around.emit(TraceRead(message_id, (), sentence))

        # Whoever looks at that message takes it.
        self._load(message_id, as_read, self._around.emit, as_failed, still=ALWAYS)

    def read_head(
        self,
        message_id: str,
        length: int,
        then: Callable[[TraceTable, int, str], None],
        *,
        still: Still,
    ) -> None:
        """Read the first `length` tokens of a stored trace. `then` gets them, how many tokens it
        has in all, and a sentence where there are none."""

        def head(tokens: Sequence[TokenTrace], sentence: str) -> tuple[TraceTable, int, str]:
            return TraceTable(tokens[:length]), len(tokens), sentence

        self._load(message_id, head, lambda found: then(*found), still=still)

    def _load(
        self,
        message_id: str,
        make: Callable[[Sequence[TokenTrace], str], T],
        then: Callable[[T], None],
        failed: Callable[[str], None] | None = None,
        *,
        still: Still,
    ) -> None:
        """`make` is called on the database's reading thread, `then` and `failed` on ours."""
        if self._around.store is None:
            return
        made: Future[T] = Future()

        def unpack_there(loaded: Future[bytes | None]) -> None:
            try:
                blob = loaded.result()
                tokens = unpack(blob) if blob is not None else []
                made.set_result(make(tokens, "" if tokens else NO_TRACE))
            except TraceUnreadable as error:
                made.set_result(make((), str(error)))
            except BaseException as error:  # noqa: BLE001 - it is raised again where it is awaited
                made.set_exception(error)

        self._around.store.load_trace(message_id).add_done_callback(unpack_there)
        self._around.when_done(made, then, failed, still=still)
