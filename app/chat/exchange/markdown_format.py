"""One path of a chat as Markdown that people read, and back.

Texts stand in it as they are stored, not a character changed. So that they can be told from what
is around them, each part has a comment before it, which no renderer shows, with the number of
characters that belong to it:

    <!-- cutaway {"part":"message","key":"5c0e91d2","role":"user","skip":2,"chars":22} -->
    ## User

    The capital of France?

`skip` counts the lines to pass over. `key` is the same in all comments of a file and stands in no
text of it, so a message that quotes such a comment is not taken for two. Where somebody has edited
the file and the number is not right any more, a part ends where the next comment begins, and of the
lines to pass over those count that are still there; editors that end lines with CR LF, here or
there, and formatters that set comments apart by an empty line change nothing. A file without such
comments is read by its headings (`app.chat.exchange.markdown_foreign`).
"""

from __future__ import annotations

import itertools
import json
import re
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from hashlib import blake2b
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta, Struct

from app.chat.attachments.kinds import AUDIO, PICTURE
from app.chat.exchange.json_format import Id, Time
from app.chat.exchange.refusals import FileRefused
from app.chat.replies.calls import answered_by, as_answer, calls_of, with_calls
from app.chat.replies.summary_nodes import SUMMARY, kept_marks
from app.engine.protocol.tool_messages import ToolCall
from models.records import (
    Attachment,
    Conversation,
    ConversationKind,
    Message,
    MessageState,
    Role,
    WholeConversation,
)

FORMAT: Final = "cutaway-markdown"
VERSION: Final = 1
NAMESPACE: Final = uuid.UUID("0c1a1f0e-4a34-4b7e-9d0a-5d4fd0a4a3c1")

_NAMES: Final = {
    Role.USER: "User",
    Role.ASSISTANT: "Assistant",
    Role.SYSTEM: "System",
    Role.TOOL: "Tool",
}
_MARKER: Final = re.compile(r"^<!-- cutaway (\{.*\}) -->\r?\n?", re.MULTILINE)
_BEGINNING: Final = "<!-- cutaway {"
_DETAILS_END: Final = "\n\n</details>"
_AFTER: Final = "\n\n"
_FENCE: Final = re.compile(r"^`{3,}", re.MULTILINE)
_OPENINGS: Final = {
    "message": ("#", ""),
    "system_prompt": ("#", ""),
    "reasoning": ("<", ""),
    "attachment": ("*", "", "`"),
    "call": ("*", "", "`"),
}
"""What the lines before a part's text begin with; "": an empty line."""
_MEDIA: Final = {PICTURE: " picture", AUDIO: " sound"}


class Marker(Struct, omit_defaults=True):
    """part: chat, system_prompt, message, reasoning, text, call, attachment. key: "" in files of an
    older Cutaway, which had none. summary: what a summary stands for. call_id, name: of a call, and
    of a tool's message that answers one. what: the kind of an attachment whose bytes are not in
    the file."""

    part: str = ""
    key: str = ""
    format: str = ""
    version: int = 0
    id: Id | None = None
    title: str = ""
    kind: ConversationKind = ConversationKind.CHAT
    role: Role = Role.USER
    state: MessageState = MessageState.COMPLETE
    weights: str | None = None
    summary: dict[str, Any] | None = None
    name: str = ""
    call_id: str = ""
    created_at: Time | None = None
    what: str = ""
    skip: Annotated[int, Meta(ge=0, le=10)] = 0
    chars: Annotated[int, Meta(ge=0)] = 0


@dataclass(slots=True)
class _Part:
    """`is_whole`: it has the number of characters that it was written with."""

    marker: Marker
    text: str
    is_whole: bool


# --- out ----------------------------------------------------------------------------------------


def written(chat: WholeConversation) -> str:
    """The active path as Markdown."""
    return "".join(_pieces(chat))


def active_path(chat: WholeConversation) -> list[Message]:
    """Root first; where no leaf is marked, the path to the newest message."""
    messages = {message.id: message for message in chat.messages}
    at = messages.get(chat.conversation.active_leaf_id or "")
    if at is None and chat.messages:
        at = chat.messages[-1]
    path: list[Message] = []
    while at is not None:
        path.append(at)
        at = messages.get(at.parent_id or "")
    return path[::-1]


def _pieces(chat: WholeConversation) -> Iterator[str]:
    c = chat.conversation
    path = active_path(chat)
    key = _key(c, path)
    yield f"# {one_line(c.title) or 'Chat'}\n\n"
    yield _comment(
        part="chat",
        key=key,
        format=FORMAT,
        version=VERSION,
        id=c.id,
        title=c.title,
        kind=c.kind,
        created_at=c.created_at.isoformat(),
    )
    yield "\n"
    if c.system_prompt:
        yield _part(c.system_prompt, ["## System prompt", ""], part="system_prompt", key=key)
    for message in path:
        yield from _message_pieces(message, key)


def _key(conversation: Conversation, path: list[Message]) -> str:
    """Eight digits that stand in none of the texts; the same chat has the same ones."""
    texts = [conversation.system_prompt or ""]
    for message in path:
        texts += (message.content, message.reasoning or "")
        texts += (attachment.text for attachment in message.attachments)
        texts += (call.arguments for call in calls_of(message))
    for number in itertools.count():
        key = blake2b(f"{conversation.id} {number}".encode(), digest_size=4).hexdigest()
        if not any(key in text for text in texts):
            return key
    raise AssertionError


def _message_pieces(message: Message, key: str) -> Iterator[str]:
    marks = kept_marks(message)
    heading = f"## {'Summary' if marks else _NAMES[message.role]}"
    if message.weights_name:
        heading += f" · {one_line(message.weights_name)}"
    fields: dict[str, Any] = {
        "key": key,
        "role": message.role,
        "id": message.id,
        "created_at": message.created_at.isoformat(),
    }
    if message.state is not MessageState.COMPLETE:
        fields["state"] = message.state
    if message.weights_name:
        fields["weights"] = message.weights_name
    answered = answered_by(message)
    if answered.name or answered.id:
        heading += f" · {one_line(answered.name)}" if answered.name else ""
        fields |= {"call_id": answered.id, "name": answered.name}
    fields |= marks
    head = [heading, ""]
    if not message.reasoning:
        yield _part(message.content, head, part="message", **fields)
    else:
        yield _part("", head, part="message", **fields)
        what = "Called" if message.role is Role.TOOL else "Reasoning"
        opening = [f"<details><summary>{what}</summary>", ""]
        yield _part(message.reasoning, opening, _DETAILS_END, part="reasoning", key=key)
        yield _part(message.content, [], part="text", key=key)
    for call in calls_of(message):
        fence = _fence(call.arguments)
        opening = [f"**Called: {one_line(call.name)}**", "", f"{fence}json"]
        yield _part(
            call.arguments,
            opening,
            f"\n{fence}",
            part="call",
            key=key,
            call_id=call.id,
            name=call.name,
        )
    for attachment in message.attachments:
        fence = _fence(attachment.text)
        what = _MEDIA.get(attachment.kind, "")
        opening = [f"**Attached{what}: {one_line(attachment.name)}**", "", f"{fence}text"]
        yield _part(
            attachment.text,
            opening,
            f"\n{fence}",
            part="attachment",
            key=key,
            id=attachment.id,
            name=attachment.name,
            created_at=attachment.created_at.isoformat(),
            **({"what": attachment.kind} if what else {}),
        )


def _fence(text: str) -> str:
    """Longer than any in the text."""
    return "`" * max(3, 1 + max(map(len, re.findall("`+", text)), default=0))


def _part(text: str, opening: list[str], closing: str = "", **fields: Any) -> str:
    comment = _comment(**fields, skip=len(opening), chars=len(text))
    return comment + "".join(f"{line}\n" for line in opening) + text + closing + _AFTER


def _comment(**fields: Any) -> str:
    inside = json.dumps(fields, ensure_ascii=False).replace("--", r"\u002d\u002d")
    return f"<!-- cutaway {inside} -->\n"


def one_line(text: str) -> str:
    return " ".join(text.replace("\0", " ").split())


# --- in -----------------------------------------------------------------------------------------


def is_ours(text: str) -> bool:
    return _first(text) is not None


def read(text: str, name: str, now: datetime) -> WholeConversation:
    """The chat of a file that `is_ours`; FileRefused where it cannot be read."""
    head, parts = _read_parts(text)
    if "\r\n" in text and not all(part.is_whole for part in parts):
        # Somebody's editor ends lines so: what was exported with such ends is whole.
        text = text.replace("\r\n", "\n")
        head, parts = _read_parts(text)
    if head.version != VERSION:
        raise FileRefused(
            f"{name} was saved by another version of Cutaway (format {head.version}). Import it "
            "with that version or a newer one."
        )
    salt = blake2b(text.encode()).hexdigest()
    conversation = Conversation(
        id=head.id or made_id(salt, "chat"),
        title=head.title,
        created_at=head.created_at or now,
        updated_at=now,
        kind=head.kind,
        is_titled_by_user=True,
    )
    return _assembled(conversation, parts, salt, name)


def _read_parts(text: str) -> tuple[Marker, list[_Part]]:
    found = _first(text)
    assert found is not None
    head, position = found
    return head, list(_parts(text, position, head.key))


def made_id(salt: str, what: str) -> str:
    """The same file gives the same ids, so that it is known again."""
    return str(uuid.uuid5(NAMESPACE, f"{salt} {what}"))


def _first(text: str) -> tuple[Marker, int] | None:
    for found in _MARKER.finditer(text):
        marker = _marker_of(found)
        if marker is not None and marker.part == "chat" and marker.format == FORMAT:
            return marker, found.end()
    return None


def _marker_of(found: re.Match[str]) -> Marker | None:
    try:
        return msgspec.json.decode(found[1], type=Marker)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None


def _next_marker(text: str, position: int, key: str) -> tuple[Marker, int, int] | None:
    for found in _MARKER.finditer(text, position):
        marker = _marker_of(found)
        if marker is not None and marker.part and marker.key == key:
            return marker, found.start(), found.end()
    return None


def _parts(text: str, position: int, key: str) -> Iterator[_Part]:
    following = _next_marker(text, position, key)
    is_spaced = False
    while following is not None:
        marker, _, begin = following
        start = begin
        for _ in range(marker.skip):
            start = _next_line(text, start)
        closing = _closing(marker, text[begin:start])
        if not _is_end(text, start + marker.chars, closing):
            is_spaced = text.startswith("\n", begin) if marker.skip else is_spaced
            start = _behind_opening(text, begin + is_spaced, marker)
            closing = _closing(marker, text[begin:start])
        end = start + marker.chars
        is_whole = _is_end(text, end, closing)
        following = _next_marker(text, end if is_whole else start, key)
        if is_whole:
            yield _Part(marker, text[start:end], is_whole)
        else:  # somebody has edited it
            end = len(text) if following is None else following[1]
            yield _Part(marker, _without_closing(text[start:end], closing), is_whole)


def _behind_opening(text: str, start: int, marker: Marker) -> int:
    """Past those of the lines before a text that are as they were written."""
    for sign in _OPENINGS.get(marker.part, ())[: marker.skip]:
        after = _next_line(text, start)
        line = text[start:after].strip()
        if line.startswith(sign) if sign else not line:
            start = after
    return start


def _next_line(text: str, start: int) -> int:
    return text.find("\n", start) + 1 or len(text)


def _closing(marker: Marker, opening: str) -> str:
    """What stands behind a part's text: a fence is closed by one of its own length."""
    if marker.part == "reasoning":
        return _DETAILS_END
    if marker.part in ("attachment", "call") and (fence := _FENCE.search(opening)):
        return f"\n{fence[0]}"
    return ""


def _is_end(text: str, position: int, closing: str) -> bool:
    """Whether a part's text ends here as it was written, with nothing lost or added."""
    behind = closing + _AFTER
    after = position + len(behind)
    if not text.startswith(behind, position):
        return False
    return after == len(text) or text.startswith(_BEGINNING, after)


def _without_closing(part: str, closing: str) -> str:
    """The text of a part that was edited; editors also cut lines at the end of a file."""
    if part.endswith(closing + _AFTER):
        return part.removesuffix(closing + _AFTER)
    if closing and part.rstrip().endswith(closing.strip()):
        return part.rstrip().removesuffix(closing.strip()).removesuffix("\n").removesuffix("\n")
    return part.removesuffix("\n").removesuffix("\n")


def _assembled(
    conversation: Conversation, parts: list[_Part], salt: str, name: str
) -> WholeConversation:
    messages: list[Message] = []
    for number, part in enumerate(parts):
        marker, last = part.marker, messages[-1] if messages else None
        match marker.part:
            case "system_prompt":
                conversation = replace(conversation, system_prompt=part.text)
            case "message":
                messages.append(_message(part, conversation, last, made_id(salt, f"{number}")))
            case "reasoning" if last is not None:
                messages[-1] = replace(last, reasoning=part.text)
            case "text" if last is not None:
                messages[-1] = replace(last, content=part.text)
            case "call" if last is not None:
                call = ToolCall(marker.call_id, marker.name, part.text)
                called = with_calls(last.settings, [*calls_of(last), call])
                messages[-1] = replace(last, settings=called)
            case "attachment" if last is not None:
                attached = _attachment(part, last, made_id(salt, f"{number}"))
                messages[-1] = replace(last, attachments=(*last.attachments, attached))
    if len({message.id for message in messages}) < len(messages):
        raise FileRefused(f"{name} contains a message twice. It was changed or damaged.")
    attachments = [each.id for message in messages for each in message.attachments]
    if len(set(attachments)) < len(attachments):
        raise FileRefused(f"{name} contains an attachment twice. It was changed or damaged.")
    leaf_id = messages[-1].id if messages else None
    latest = max((m.created_at for m in messages), default=conversation.created_at)
    return WholeConversation(
        replace(conversation, active_leaf_id=leaf_id, updated_at=latest),
        tuple(messages),
        has_only_text=True,
    )


def _message(part: _Part, conversation: Conversation, above: Message | None, made: str) -> Message:
    marker = part.marker
    message = Message(
        id=marker.id or made,
        conversation_id=conversation.id,
        parent_id=None if above is None else above.id,
        role=marker.role,
        content=part.text,
        created_at=marker.created_at or conversation.created_at,
        state=marker.state,
        weights_name=marker.weights,
        settings={SUMMARY: marker.summary},
    )
    kept = kept_marks(message)  # of what holds together
    if marker.role is Role.TOOL and (marker.call_id or marker.name):
        kept |= as_answer(ToolCall(marker.call_id, marker.name))
    return replace(message, settings=kept)


def _attachment(part: _Part, message: Message, made: str) -> Attachment:
    return Attachment(
        id=part.marker.id or made,
        conversation_id=message.conversation_id,
        name=part.marker.name or "Attachment",
        text=part.text,
        size_bytes=len(part.text.encode()),
        created_at=part.marker.created_at or message.created_at,
        message_id=message.id,
        position=len(message.attachments),
        kind=part.marker.what if part.marker.what in _MEDIA else "text",
    )
