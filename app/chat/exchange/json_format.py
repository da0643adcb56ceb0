"""The shape of a chat in Cutaway's JSON, and its way to records and back.

The structs say what a file may hold; msgspec checks types, ranges and text while it decodes, so
what comes out of `decoded` has the right shape all through. What types cannot say (parents stand
before their children, names are given once) is checked in `records_of`. Fields are only ever
added, with a default; what means something else gets a new `VERSION`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Any, Final, TypeVar

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import asdict

from app.chat.exchange.refusals import FileRefused
from models.conversations.tag_names import tidied
from models.records import (
    Attachment,
    Conversation,
    ConversationKind,
    File,
    Folder,
    Message,
    MessageCounts,
    MessageState,
    Preset,
    Role,
    WholeConversation,
)

FORMAT: Final = "cutaway-chats"
VERSION: Final = 1

Id = Annotated[str, Meta(min_length=1, max_length=200)]
Time = Annotated[datetime, Meta(tz=True)]
Number = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
TokenId = Annotated[int, Meta(ge=-(2**31), le=2**31 - 1)]

S = TypeVar("S")

_NO_FILES: Final[Mapping[str, File]] = {}


class JsonFolder(Struct, omit_defaults=True):
    id: Id
    name: str
    created_at: Time
    parent_id: Id | None = None
    position: Number = 0


class JsonPreset(Struct, omit_defaults=True):
    id: Id
    name: str
    created_at: Time
    updated_at: Time
    value: dict[str, Any] = {}
    position: Number = 0


class JsonAttachment(Struct, omit_defaults=True):
    """`data`: the bytes of a picture or a sound, in base64."""

    id: Id
    name: str
    text: str
    created_at: Time
    size_bytes: Number = 0
    tokens: Number | None = None
    position: Number = 0
    kind: str = "text"
    details: dict[str, Any] = {}
    media_type: str = ""
    data: bytes | None = None


class JsonCounts(Struct, omit_defaults=True, frozen=True):
    prompt_tokens: Number | None = None
    reused: Number | None = None
    evaluated: Number | None = None
    generated: Number | None = None
    first_token_s: float | None = None
    total_s: float | None = None
    tokens_per_s: float | None = None
    context_used: Number | None = None
    context_size: Number | None = None
    reasoning_s: float | None = None


class JsonMessage(Struct, omit_defaults=True):
    """`trace` is the packed trace (`app.insight.trace.columns`), in base64."""

    id: Id
    role: Role
    content: str
    created_at: Time
    parent_id: Id | None = None
    state: MessageState = MessageState.COMPLETE
    reasoning: str = ""
    is_pinned: bool = False
    stop_reason: str | None = None
    error: str | None = None
    seed: Number | None = None
    settings: dict[str, Any] = {}
    weights_name: str | None = None
    weights_hash: str | None = None
    counts: JsonCounts | None = None
    attachments: list[JsonAttachment] = []
    token_ids: list[TokenId] | None = None
    rendered_prompt: str | None = None
    trace: bytes | None = None


class JsonChat(Struct, omit_defaults=True):
    id: Id
    title: str
    created_at: Time
    updated_at: Time
    kind: ConversationKind = ConversationKind.CHAT
    folder_id: Id | None = None
    is_pinned: bool = False
    is_archived: bool = False
    system_prompt: str = ""
    draft: str = ""
    weights_path: str | None = None
    preset_id: Id | None = None
    active_leaf_id: Id | None = None
    is_titled_by_user: bool = False
    settings: dict[str, Any] = {}
    copied_from: Id | None = None
    tags: list[str] = []
    draft_attachments: list[JsonAttachment] = []
    messages: list[JsonMessage] = []


class JsonHead(Struct):
    """The file without its chats."""

    format: str
    version: int
    exported_at: Time | None = None
    folders: list[JsonFolder] = []
    presets: list[JsonPreset] = []


class JsonFile(JsonHead):
    conversations: list[JsonChat] = []


def encoded(value: Struct) -> bytes:
    return msgspec.json.encode(value)


def decoded(raw: bytes, shape: type[S], what: str) -> S:
    """The value, or FileRefused."""
    try:
        return msgspec.json.decode(raw, type=shape)
    except msgspec.ValidationError as error:
        raise FileRefused(f"{what} isn't in Cutaway's format: {error}.") from error
    except msgspec.DecodeError as error:
        raise FileRefused(
            f"{what} isn't complete JSON. It is damaged or a different kind of file."
        ) from error
    except UnicodeDecodeError as error:
        raise FileRefused(
            f"{what} isn't UTF-8 text. It is damaged or a different kind of file."
        ) from error
    except RecursionError as error:
        raise FileRefused(f"{what} is nested too deeply, so Cutaway didn't write it.") from error


# --- records to structs -------------------------------------------------------------------------


def json_folder(folder: Folder) -> JsonFolder:
    return JsonFolder(folder.id, folder.name, folder.created_at, folder.parent_id, folder.position)


def json_preset(preset: Preset) -> JsonPreset:
    return JsonPreset(
        preset.id,
        preset.name,
        preset.created_at,
        preset.updated_at,
        plain(preset.value),
        preset.position,
    )


def json_chat(chat: WholeConversation) -> JsonChat:
    """The chat without its messages."""
    c = chat.conversation
    return JsonChat(
        id=c.id,
        title=c.title,
        created_at=c.created_at,
        updated_at=c.updated_at,
        kind=c.kind,
        folder_id=c.folder_id or None,
        is_pinned=c.is_pinned,
        is_archived=c.is_archived,
        system_prompt=c.system_prompt,
        draft=c.draft,
        weights_path=None if c.weights_path is None else plain(c.weights_path),
        preset_id=c.preset_id or None,
        active_leaf_id=c.active_leaf_id or None,
        is_titled_by_user=c.is_titled_by_user,
        settings=plain(c.settings),
        copied_from=c.copied_from or None,
        tags=list(c.tags),
        draft_attachments=[_json_attachment(a, chat.files) for a in chat.draft_attachments],
    )


def json_message(
    m: Message, trace: bytes | None, files: Mapping[str, File] = _NO_FILES
) -> JsonMessage:
    counts = {name: getattr(m.counts, name) for name in JsonCounts.__struct_fields__}
    return JsonMessage(
        id=m.id,
        role=m.role,
        content=m.content,
        created_at=m.created_at,
        parent_id=m.parent_id,
        state=m.state,
        reasoning=m.reasoning,
        is_pinned=m.is_pinned,
        stop_reason=m.stop_reason,
        error=m.error,
        seed=m.seed,
        settings=plain(m.settings),
        weights_name=m.weights_name,
        weights_hash=m.weights_hash,
        counts=JsonCounts(**plain(counts)) if m.counts != MessageCounts() else None,
        attachments=[_json_attachment(each, files) for each in m.attachments],
        token_ids=None if m.token_ids is None else list(m.token_ids),
        rendered_prompt=m.rendered_prompt,
        trace=trace,
    )


def _json_attachment(a: Attachment, files: Mapping[str, File]) -> JsonAttachment:
    media_type, data = files.get(a.id, ("", None))
    return JsonAttachment(
        a.id,
        a.name,
        a.text,
        a.created_at,
        a.size_bytes,
        a.tokens,
        a.position,
        a.kind,
        plain(a.details),
        media_type,
        data,
    )


def plain(value: Any) -> Any:
    """The value as JSON can hold it: a number that is none becomes null, a lone surrogate U+FFFD.

    >>> plain({"top_p": float("nan"), "stop": ("a",)})
    {'top_p': None, 'stop': ['a']}
    """
    match value:
        case str():
            return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
        case int() if not -(2**63) <= value < 2**63:
            return None
        case float():
            return value if math.isfinite(value) else None
        case Mapping():
            return {plain(str(key)): plain(each) for key, each in value.items()}
        case list() | tuple():
            return [plain(each) for each in value]
    return value


# --- structs to records -------------------------------------------------------------------------


def folders_of(head: JsonHead) -> tuple[Folder, ...]:
    """FileRefused where folders lie in each other in a circle."""
    around = {folder.id: folder.parent_id for folder in head.folders}
    for folder in head.folders:
        steps, place = 0, folder.parent_id
        while place is not None and steps <= len(around):
            steps, place = steps + 1, around.get(place)
        if place is not None:
            raise FileRefused(f"The folder {_quoted(folder.name)} in this file contains itself.")
    return tuple(
        Folder(f.id, f.name, _utc(f.created_at), f.parent_id, f.position) for f in head.folders
    )


def presets_of(head: JsonHead) -> tuple[Preset, ...]:
    return tuple(
        Preset(p.id, p.name, _utc(p.created_at), _utc(p.updated_at), p.value, p.position)
        for p in head.presets
    )


def records_of(chat: JsonChat) -> WholeConversation:
    """The chat's records; FileRefused where its messages make no tree."""
    _check_tree(chat)
    leaf_id = chat.active_leaf_id
    return WholeConversation(
        conversation=Conversation(
            id=chat.id,
            title=chat.title,
            created_at=_utc(chat.created_at),
            updated_at=_utc(chat.updated_at),
            kind=chat.kind,
            folder_id=chat.folder_id,
            is_pinned=chat.is_pinned,
            is_archived=chat.is_archived,
            system_prompt=chat.system_prompt,
            draft=chat.draft,
            weights_path=chat.weights_path,
            preset_id=chat.preset_id,
            active_leaf_id=leaf_id if any(m.id == leaf_id for m in chat.messages) else None,
            is_titled_by_user=chat.is_titled_by_user,
            settings=chat.settings,
            copied_from=chat.copied_from,
            tags=tidied(chat.tags),
        ),
        messages=tuple(_message(message, chat.id) for message in chat.messages),
        traces={m.id: m.trace for m in chat.messages if m.trace is not None},
        draft_attachments=tuple(_attachment(a, chat.id, None) for a in chat.draft_attachments),
        files={a.id: (a.media_type, a.data) for a in _attached(chat) if a.data},
    )


def _check_tree(chat: JsonChat) -> None:
    seen: set[str] = set()
    for message in chat.messages:
        if message.id in seen:
            raise FileRefused(f"The chat {_quoted(chat.title)} contains a message twice.")
        if message.parent_id is not None and message.parent_id not in seen:
            raise FileRefused(
                f"In the chat {_quoted(chat.title)}, a message isn't below the one it follows. "
                "The file was changed or damaged."
            )
        seen.add(message.id)
    attachments = _attached(chat)
    if len({each.id for each in attachments}) < len(attachments):
        raise FileRefused(f"The chat {_quoted(chat.title)} contains an attachment twice.")


def _attached(chat: JsonChat) -> list[JsonAttachment]:
    """All of it, the draft's first."""
    return [*chat.draft_attachments, *(a for m in chat.messages for a in m.attachments)]


def _message(m: JsonMessage, conversation_id: str) -> Message:
    return Message(
        id=m.id,
        conversation_id=conversation_id,
        parent_id=m.parent_id,
        role=m.role,
        content=m.content,
        created_at=_utc(m.created_at),
        state=m.state,
        reasoning=m.reasoning,
        token_ids=None if m.token_ids is None else tuple(m.token_ids),
        is_pinned=m.is_pinned,
        stop_reason=m.stop_reason,
        error=m.error,
        seed=m.seed,
        settings=m.settings,
        weights_name=m.weights_name,
        weights_hash=m.weights_hash,
        rendered_prompt=m.rendered_prompt,
        counts=MessageCounts() if m.counts is None else MessageCounts(**asdict(m.counts)),
        attachments=tuple(_attachment(each, conversation_id, m.id) for each in m.attachments),
    )


def _attachment(a: JsonAttachment, conversation_id: str, message_id: str | None) -> Attachment:
    return Attachment(
        id=a.id,
        conversation_id=conversation_id,
        name=a.name,
        text=a.text,
        size_bytes=a.size_bytes,
        created_at=_utc(a.created_at),
        message_id=message_id,
        tokens=a.tokens,
        position=a.position,
        kind=a.kind,
        details=a.details,
    )


def _utc(time: datetime) -> datetime:
    try:
        return time.astimezone(UTC)
    except OverflowError:
        raise FileRefused("This file contains an impossible date.") from None


def _quoted(title: str) -> str:
    line = " ".join(title.split())
    return f"“{line[:60]}{'…' if len(line) > 60 else ''}”"
