"""What the window and the process that reads a document say to each other (frames: `wire.py`)."""

from __future__ import annotations

from typing import Annotated

import msgspec

from app.engine.protocol.frames import (
    MANY,
    Amount,
    Count,
    Name,
    ProtocolError,
    Sentence,
    Text,
    WireMessage,
    Word,
)
from app.reading.document import MAX_PLACES, MAX_TEXT_BYTES


class ReadDocument(WireMessage, frozen=True, tag=True):
    """`name`: what sentences call it."""

    path: str
    name: str


class DocumentRead(WireMessage, frozen=True, tag=True):
    """`places`: where each begins and its label, in order."""

    media_type: Word
    text: Text
    places: Annotated[list[tuple[Count, Name]], MANY]
    size_bytes: Amount
    note: Sentence

    def check(self) -> None:
        if len(self.text) > MAX_TEXT_BYTES or len(self.places) > MAX_PLACES:
            raise ProtocolError("the text of a document is longer than any is")
        starts = [start for start, _ in self.places]
        if starts != sorted(starts) or (starts and starts[-1] > len(self.text)):
            raise ProtocolError("the places of a document are not in its text")


class PagesRead(WireMessage, frozen=True, tag=True):
    """How far it is, now and then."""

    done: Count
    total: Count


class DocumentNotRead(WireMessage, frozen=True, tag=True):
    """See DocumentRefused."""

    kind: Word
    sentence: Sentence


ReadingReply = DocumentRead | DocumentNotRead | PagesRead

_requests: msgspec.msgpack.Decoder[ReadDocument] = msgspec.msgpack.Decoder(ReadDocument)
_replies: msgspec.msgpack.Decoder[ReadingReply] = msgspec.msgpack.Decoder(ReadingReply)


def decode_request(payload: bytes) -> ReadDocument:
    """Raises ProtocolError for anything that does not fit."""
    try:
        return _requests.decode(payload)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise ProtocolError(str(error)) from error


def decode_reply(payload: bytes) -> ReadingReply:
    """Raises ProtocolError for anything that does not fit."""
    try:
        reply = _replies.decode(payload)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise ProtocolError(str(error)) from error
    if isinstance(reply, DocumentRead):
        reply.check()
    return reply
