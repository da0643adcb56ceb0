"""What the engine and the template process say to each other (frames as in `wire.py`)."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from app.engine.protocol.frames import Count, ProtocolError, Sentence, Text, WireMessage, Word
from app.engine.protocol.thinking_messages import TemplateInspected
from app.refusal import Refusal

AT_FAULT: Final = "Choose another chat format or another model."


class TemplateFailed(Refusal):
    """A chat template did not give a prompt.

    fault: bad_template (it cannot be read), raised (it refused the messages itself),
    failed (it went wrong on these messages), timeout, memory, too_large.
    `line` is the template's line, or 0 where none can be named.
    """

    def __init__(self, fault: str, sentence: str, line: int = 0) -> None:
        super().__init__("bad_template", sentence)
        self.fault = fault
        self.line = line


class RenderTemplate(WireMessage, frozen=True, tag=True):
    """`extra`: more variables for the template. `deadline_s`: the process ends itself then."""

    source: str
    messages: list[dict[str, Any]]
    bos_token: str
    eos_token: str
    add_generation_prompt: bool
    extra: dict[str, Any]
    deadline_s: float


class InspectTemplate(WireMessage, frozen=True, tag=True):
    """What can be chosen about reasoning. -> TemplateInspected. `tags`: own pairs, besides the
    known ones; `extra` as in RenderTemplate."""

    source: str
    bos_token: str
    eos_token: str
    extra: dict[str, Any]
    tags: list[tuple[str, str]]
    deadline_s: float


TemplateRequest = RenderTemplate | InspectTemplate


class TemplatesReady(WireMessage, frozen=True, tag=True):
    """The process has imported what it needs; deadlines count from here."""


class Rendered(WireMessage, frozen=True, tag=True):
    text: Text


class NotRendered(WireMessage, frozen=True, tag=True):
    """See TemplateFailed."""

    kind: Word
    sentence: Sentence
    line: Count


TemplateReply = TemplatesReady | Rendered | NotRendered | TemplateInspected

_requests: msgspec.msgpack.Decoder[TemplateRequest] = msgspec.msgpack.Decoder(TemplateRequest)
_replies: msgspec.msgpack.Decoder[TemplateReply] = msgspec.msgpack.Decoder(TemplateReply)


def decode_request(payload: bytes) -> TemplateRequest:
    """Raises ProtocolError for anything that does not fit."""
    try:
        return _requests.decode(payload)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise ProtocolError(str(error)) from error


def decode_reply(payload: bytes) -> TemplateReply:
    """Raises ProtocolError for anything that does not fit."""
    try:
        return _replies.decode(payload)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise ProtocolError(str(error)) from error
