"""The process that reads one document: it answers one request and ends.

It first takes its limits (memory, time, no more than one file) and only then looks into the file.
Parsers fail in any way on a hostile file, native ones with the whole process: the client has a
sentence for that, too.
"""

from __future__ import annotations

import os
import sys
import threading
from typing import Final

from app.engine.protocol import wire
from app.engine.protocol.frames import ProtocolError
from app.reading.document import MAX_FILE_BYTES, Document, DocumentRefused
from app.reading.files import opened
from app.reading.kinds import reader_of
from app.reading.limits import limit_process
from app.reading.messages import (
    DocumentNotRead,
    DocumentRead,
    ReadDocument,
    ReadingReply,
    decode_request,
)

OUT_OF_MEMORY: Final = 3


def main() -> int:
    """Read one document for the parent. When stdin ends it is gone, and so are we."""
    commands, events = wire.begin_child()
    requests = wire.FrameReader(commands)
    try:
        payload = requests.read()
        if payload is None:
            return 0
        request = decode_request(payload)
        threading.Thread(target=_end_with_parent, args=(requests,), daemon=True).start()
        wire.FrameWriter(events).write(answer(request))
    except (ProtocolError, OSError) as error:
        print(f"the process that reads documents ends: {error}", file=sys.stderr)  # noqa: T201
        return 2
    return 0


def _end_with_parent(requests: wire.FrameReader) -> None:
    try:
        requests.read()
    finally:
        os._exit(2)


def answer(request: ReadDocument) -> ReadingReply:
    try:
        document = read(request.path, request.name)
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


def read(path: str, name: str) -> Document:
    """In this process, under its limits from now on. Raises DocumentRefused, or whatever a parser
    stumbles over."""
    with opened(path, name, MAX_FILE_BYTES) as file:
        reader = reader_of(file, name)
        limit_process()
        return reader(file, name)
