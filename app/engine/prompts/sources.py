"""Whose each stretch of a message is: typed, attached, or joined from another message.

A message of a person may hold attached texts, and where a template knows no system prompt, or
wants turns to alternate, messages are joined before they are rendered. What is shown of a prompt
tells them apart, so each content carries its *sources*, and they move along with it:

    system "Be brief."   user "Hi"     →   user "Be brief.\\n\\nHi"
    sources                                (0, 9, system)  (11, 13, user)

What belongs to no source (the blank line here) is scaffold. Where a picture stands the content has
a character for it from here on (`SHOWN`); `media` says which of them are pictures, so that one that
somebody typed is none.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from app.engine.prompts.tokens import Origin
from app.engine.protocol.frames import clean_text
from app.engine.protocol.media_messages import SHOWN, Media
from app.engine.protocol.prompt_messages import ChatMessage, Role
from app.engine.protocol.tool_messages import ToolCall

ATTACHMENT = "attachment"
PASSAGE = "passage"
SUMMARY = "summary"
BETWEEN = "\n\n"


class Sourced(ChatMessage, frozen=True, tag=True):
    """A message on its way into the template. `sources`: characters of `content`, in order."""

    sources: tuple[Origin, ...] = ()


def sourced(message: ChatMessage) -> Sourced:
    """A message with texts that can be encoded, and the sources that it has by itself."""
    content = clean_text(message.content)
    spans, media = [*message.attachments, *message.passages], message.media
    n_attached = len(message.attachments)
    if len(content) != len(message.content):  # pairs of surrogates became characters
        spans = [
            (len(clean_text(message.content[:start])), len(clean_text(message.content[:end])))
            for start, end in spans
        ]
        media = [
            msgspec.structs.replace(each, at=len(clean_text(message.content[: max(each.at, 0)])))
            for each in media
        ]
    if media:
        content, spans, media = _with_media(content, spans, media)
    return Sourced(
        message.role,
        content,
        None if message.reasoning is None else clean_text(message.reasoning),
        message.token_ids,
        message.message_id,
        sources=tuple(_own_sources(message, len(content), spans[:n_attached], spans[n_attached:])),
        tool_calls=[
            ToolCall(clean_text(call.id), clean_text(call.name), clean_text(call.arguments))
            for call in message.tool_calls
        ],
        tool_call_id=clean_text(message.tool_call_id),
        tool_name=clean_text(message.tool_name),
        media=media,
    )


def _with_media(
    content: str, spans: Sequence[tuple[int, int]], media: Sequence[Media]
) -> tuple[str, list[tuple[int, int]], list[Media]]:
    """The content with a character for each picture, and all places moved along."""
    places = sorted(media, key=lambda each: each.at)
    ats = [min(max(each.at, 0), len(content)) for each in places]
    moved = [
        (start + sum(at <= start for at in ats), end + sum(at < end for at in ats))
        for start, end in spans
    ]
    for at in reversed(ats):
        content = content[:at] + SHOWN + content[at:]
    placed = [
        msgspec.structs.replace(each, at=at + number)
        for number, (each, at) in enumerate(zip(places, ats, strict=True))
    ]
    return content, moved, placed


def is_summary(message: Sourced) -> bool:
    return any(origin == SUMMARY for _, _, origin, _ in message.sources)


def _own_sources(
    message: ChatMessage,
    length: int,
    spans: Sequence[tuple[int, int]],
    passages: Sequence[tuple[int, int]] = (),
) -> list[Origin]:
    """The attached spans, with the passages in them, and between them the message's own; nothing
    overlaps."""
    sources: list[Origin] = []
    at = 0
    for start, end in sorted(spans):
        start, end = max(start, at), min(end, length)
        if start >= end:
            continue
        if at < start:
            sources.append((at, start, message.origin or message.role, message.message_id))
        at = start
        for first, last in sorted(passages):
            if at <= first < last <= end:
                if at < first:
                    sources.append((at, first, ATTACHMENT, message.message_id))
                sources.append((first, last, PASSAGE, message.message_id))
                at = last
        if at < end:
            sources.append((at, end, ATTACHMENT, message.message_id))
        at = end
    if at < length:
        sources.append((at, length, message.origin or message.role, message.message_id))
    return sources


def empty(role: Role) -> Sourced:
    """A message that says nothing and is nobody's."""
    return Sourced(role, "")


def given_as(message: Sourced, role: Role) -> Sourced:
    """The message in another role; where it comes from stays known."""
    return msgspec.structs.replace(message, role=role)


def framed(message: Sourced, before: str, behind: str, *, is_own: bool = False) -> Sourced:
    """The message with texts around its content; `is_own`: they count as its own."""
    content = before + message.content + behind
    sources = _moved(message.sources, len(before))
    if is_own and behind:
        start = len(content) - len(behind)
        sources.append((start, len(content), message.role, message.message_id))
    return msgspec.structs.replace(
        message,
        content=content,
        sources=tuple(sources),
        media=_media_moved(message, len(before)),
    )


def led(message: Sourced, lead: str) -> Sourced:
    """The message with a few characters before it, which count as its own."""
    moved = _moved(message.sources, len(lead))
    own: Origin = (0, len(lead), message.role, message.message_id)
    return msgspec.structs.replace(
        message,
        content=lead + message.content,
        sources=(own, *moved),
        media=_media_moved(message, len(lead)),
    )


def joined(messages: Sequence[Sourced], into: Sourced) -> Sourced:
    """One message with all the contents, which is of the role of `into` and has its id."""
    content, sources, media = "", list[Origin](), list[Media]()
    for message in messages:
        content += BETWEEN if content and message.content else ""
        sources += _moved(message.sources, len(content))
        media += _media_moved(message, len(content))
        content += message.content
    return msgspec.structs.replace(
        into, content=content, token_ids=None, sources=tuple(sources), media=media
    )


def _media_moved(message: Sourced, by: int) -> list[Media]:
    return [msgspec.structs.replace(each, at=each.at + by) for each in message.media]


def _moved(sources: Sequence[Origin], by: int) -> list[Origin]:
    return [(start + by, end + by, origin, owner) for start, end, origin, owner in sources]


def rendered_sources(message: Sourced, text: str, start: int) -> list[Origin]:
    """The sources of a content that stands as `text` at character `start` of a rendered prompt.

    Templates trim, and some leave out what comes before the answer; where one writes something
    else than what it was given, all of it is the message's.
    """
    content = message.content
    at = len(content) - len(text) if content.endswith(text) else content.find(text)
    if at < 0:
        return [(start, start + len(text), message.role, message.message_id)]
    return [
        (start + max(low - at, 0), start + min(high - at, len(text)), origin, owner)
        for low, high, origin, owner in message.sources
        if low - at < len(text) and high > at
    ]
