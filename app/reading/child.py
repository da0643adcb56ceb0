"""The process that reads one document: it answers one request and ends.

It first takes its limits (memory, time, no more than one file) and only then looks into the file.
Parsers fail in any way on a hostile file, native ones with the whole process: the client has a
sentence for that, too.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from collections.abc import Callable
from typing import Final

from app.engine.protocol import wire
from app.engine.protocol.frames import ProtocolError
from app.reading.document import MAX_FILE_BYTES, Document, DocumentRefused, Progress
from app.reading.files import opened
from app.reading.kinds import reader_of
from app.reading.limits import limit_process
from app.reading.messages import (
    DocumentNotRead,
    DocumentRead,
    PagesRead,
    ReadDocument,
    decode_request,
)

_PACE_S: Final = 0.2


def main() -> int:
    """Read one document for the parent. When stdin ends it is gone, and so are we."""
    commands, events = wire.begin_child()
    with contextlib.suppress(AttributeError, OSError):
        os.nice(5)  # behind the engine in the queue for a core
    requests = wire.FrameReader(commands)
    try:
        payload = requests.read()
        if payload is None:
            return 0
        request = decode_request(payload)
        threading.Thread(target=_end_with_parent, args=(requests,), daemon=True).start()
        writer = wire.FrameWriter(events)
        writer.write(answer(request, _Pace(writer.write)))
    except (ProtocolError, OSError) as error:
        print(f"the process that reads documents ends: {error}", file=sys.stderr)  # noqa: T201
        return 2
    return 0


def _end_with_parent(requests: wire.FrameReader) -> None:
    try:
        requests.read()
    finally:
        os._exit(2)


class _Pace:
    """Tells how far the reading is, a few times a second."""

    def __init__(self, write: Callable[[PagesRead], None]) -> None:
        self._write = write
        self._next = time.monotonic() + _PACE_S

    def __call__(self, done: int, total: int) -> None:
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + _PACE_S
            self._write(PagesRead(done, total))


def answer(request: ReadDocument, progress: Progress) -> DocumentRead | DocumentNotRead:
    try:
        document = read(request.path, request.name, progress)
    except DocumentRefused as refused:
        return DocumentNotRead(refused.kind, refused.sentence)
    except MemoryError:
        sentence = f"“{request.name}” needs too much memory. Attach only the part that matters."
        return DocumentNotRead("Needs too much memory", sentence)
    except Exception as error:  # noqa: BLE001 - a parser may stumble over anything
        print(f"not read: {error!r}", file=sys.stderr)  # noqa: T201
        sentence = (
            f"“{request.name}” couldn't be read: it may be damaged. Save it again or copy its text."
        )
        return DocumentNotRead("Damaged", sentence)
    places = [(place.start, place.label) for place in document.places]
    return DocumentRead(
        document.media_type, document.text, places, document.size_bytes, document.note
    )


def read(path: str, name: str, progress: Progress) -> Document:
    """In this process, under its limits from now on. Raises DocumentRefused, or whatever a parser
    stumbles over."""
    limit_process()
    with opened(path, name, MAX_FILE_BYTES) as file:
        return reader_of(file, name, progress)(file, name)
