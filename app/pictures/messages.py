"""What the window and the picture process say to each other (frames as in `wire.py`)."""

from __future__ import annotations

from typing import Annotated, Final

import msgspec

from app.engine.protocol.frames import FEW, Blob, Count, ProtocolError, WireMessage, Word
from app.refusal import Refusal

FIRST_FRAME: Final = "first frame"
FIRST_PAGE: Final = "first page"
ON_WHITE: Final = "on white"
"""It was transparent in parts, which models cannot see."""

DEADLINE_S: Final = 20.0
MAX_DRAWN: Final = 3600
"""A drawing's longest side: one frame of the wire has to hold its pixels."""


class PictureRefused(Refusal):
    """kind: damaged, unknown (no picture, or of a kind that is not read), too_large, memory,
    timeout, failed. The sentence begins where the file's name ends: "is damaged …"."""


class PreparePicture(WireMessage, frozen=True, tag=True):
    """Make a picture ready to be stored and sent: upright, on white, none of its sides longer than
    `longest`, without what else the file said (where it was taken). `raw_width`, `raw_height`:
    `data` is no file but that many RGBA pixels."""

    data: Blob
    longest: Count
    raw_width: Count = 0
    raw_height: Count = 0


class DrawPicture(WireMessage, frozen=True, tag=True):
    """The pixels of a picture that fits into this, never enlarged."""

    data: Blob
    width: Count
    height: Count


class PicturesReady(WireMessage, frozen=True, tag=True):
    """The process has imported what it needs; deadlines count from here."""


class PicturePrepared(WireMessage, frozen=True, tag=True):
    """`given_width`, `given_height`: before it was scaled. `notes`: `FIRST_FRAME`, `FIRST_PAGE`,
    `ON_WHITE`."""

    data: Blob
    media_type: Word
    width: Count
    height: Count
    given_width: Count
    given_height: Count
    notes: Annotated[list[Word], FEW]


class PictureDrawn(WireMessage, frozen=True, tag=True):
    """`pixels`: rows of R, G, B and 255."""

    width: Count
    height: Count
    pixels: Blob

    def check(self) -> None:
        if not self.width or len(self.pixels) != 4 * self.width * self.height:
            raise ProtocolError("the pixels of a drawing do not cover it")


class PictureNotRead(WireMessage, frozen=True, tag=True):
    """See PictureRefused."""

    kind: Word
    sentence: Word


PictureRequest = PreparePicture | DrawPicture
PictureReply = PicturesReady | PicturePrepared | PictureDrawn | PictureNotRead

_requests: msgspec.msgpack.Decoder[PictureRequest] = msgspec.msgpack.Decoder(PictureRequest)
_replies: msgspec.msgpack.Decoder[PictureReply] = msgspec.msgpack.Decoder(PictureReply)


def decode_request(payload: bytes) -> PictureRequest:
    """Raises ProtocolError for anything that does not fit."""
    try:
        return _requests.decode(payload)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise ProtocolError(str(error)) from error


def decode_reply(payload: bytes) -> PictureReply:
    """Raises ProtocolError for anything that does not fit."""
    try:
        reply = _replies.decode(payload)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise ProtocolError(str(error)) from error
    if isinstance(reply, PictureDrawn):
        reply.check()
    return reply
