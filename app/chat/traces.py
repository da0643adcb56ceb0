"""The traces of replies: kept beside the message, read when somebody looks.

Packing a reply of 2,000 tokens takes a tenth of a second, unpacking it half of that and numpy:
both are done on the database's threads, never on the one that paints. A trace is worth less than
a message: what cannot be kept or read costs a sentence at most.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from typing import Final

from app.chat.events import TraceRead
from app.chat.surroundings import Surroundings
from app.engine.protocol import TokenTrace
from app.insight.trace_columns import TraceUnreadable, pack, unpack

MAX_TOKENS: Final = 16_384
"""Of a reply, its first ones: their traces take 14 MB of memory while it grows."""

NO_TRACE: Final = "Nothing was recorded about the tokens of this message."


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
        """Read a stored trace; TraceRead answers."""
        if self._around.store is None:
            return
        read: Future[TraceRead] = Future()

        def unpack_there(loaded: Future[bytes | None]) -> None:
            """On the database's reading thread."""
            try:
                blob = loaded.result()
                tokens = tuple(unpack(blob)) if blob is not None else ()
                read.set_result(TraceRead(message_id, tokens, "" if tokens else NO_TRACE))
            except TraceUnreadable as error:
                read.set_result(TraceRead(message_id, (), str(error)))
            except BaseException as error:  # noqa: BLE001 - it is raised again where it is awaited
                read.set_exception(error)

        self._around.store.load_trace(message_id).add_done_callback(unpack_there)
        self._around.when_done(read, self._around.emit)
