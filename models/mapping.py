"""Rows become records, and records values for rows.

Reading never raises: whatever cannot be understood (a null, an unknown word, broken JSON)
becomes its default, and a message whose content or state is not there becomes UNREADABLE.
"""

from __future__ import annotations

import json
import sys
import zlib
from array import array
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, fields, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeVar

from models.records import (
    Attachment,
    Conversation,
    ConversationKind,
    Download,
    DownloadFile,
    DownloadState,
    Folder,
    LocalFile,
    Message,
    MessageCounts,
    MessageState,
    Preset,
    Role,
    Weights,
)
from models.store.plain import MESSAGE_COLUMNS

if TYPE_CHECKING:
    from sqlalchemy import Row

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_COUNT_NAMES = frozenset(f.name for f in fields(MessageCounts))
_NO_COUNTS = MessageCounts()
_ROLES: dict[Any, Role] = {role.value: role for role in Role}
_STATES: dict[Any, MessageState] = {
    state.value: state for state in MessageState if state is not MessageState.UNREADABLE
}
_decode = json.JSONDecoder().decode

_shared = dict[int, int]().setdefault
"""Equal token IDs are one object: 10,000 messages hold a million of them, and a number of its
own costs four times as much as its place in a tuple. No vocabulary is large enough to matter."""

T = TypeVar("T")

# --- records to rows --------------------------------------------------------------------------


def clean(text: str) -> str:
    """Text that UTF-8 can hold: a lone surrogate becomes U+FFFD. NUL characters stay."""
    if text.isascii():
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def path_value(path: str) -> str | bytes:
    """A path as it is, or as bytes where UTF-8 cannot hold it (file names may be any bytes)."""
    try:
        path.encode()
    except UnicodeEncodeError:
        return path.encode("utf-8", "surrogatepass")
    return path


def to_us(time: datetime) -> int:
    """Microseconds since 1970; a time without a zone is taken for UTC."""
    aware = time if time.tzinfo else time.replace(tzinfo=UTC)
    return (aware - _EPOCH) // _MICROSECOND


def fields_of(record: Any) -> dict[str, Any]:
    """Shallow, unlike `dataclasses.asdict`: values stay what they are."""
    return {f.name: getattr(record, f.name) for f in fields(record)}


def columns_for(changes: Mapping[str, Any]) -> dict[str, Any]:
    """Columns for fields of a record by their names, without its place in a tree. Tags have a table
    of their own."""
    return dict(_column(name, value) for name, value in changes.items() if name != "tags")


def object_value(value: Mapping[str, Any]) -> str | None:
    """JSON of an object, None for an empty one."""
    return json.dumps(value) if value else None


def _column(name: str, value: Any) -> tuple[str, Any]:
    if name.endswith("_at"):
        return f"{name[:-3]}_us", None if value is None else to_us(value)
    match name:
        case "weights_path" | "folder":
            return name, None if value is None else path_value(value)
        case "kind" | "role" | "state":
            return name, str(value)
        case "settings" | "details":
            return name, object_value(value)
        case "value":
            return name, json.dumps(value)
        case "files":
            return name, json.dumps([asdict(file) for file in value])
        case "counts":
            measured = {key: v for key, v in asdict(value).items() if v is not None}
            return name, json.dumps(measured) if measured else None
        case "token_ids":
            return name, None if value is None else _ids_to_bytes(value)
        case "rendered_prompt":
            return name, None if value is None else zlib.compress(clean(value).encode(), 1)
    return name, clean(value) if isinstance(value, str) else value


def _ids_to_bytes(ids: tuple[int, ...]) -> bytes:
    numbers = array("i", ids)
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers.tobytes()


# --- rows to records --------------------------------------------------------------------------


def from_us(value: Any) -> datetime:
    """The time, or 1970 for a value that is none."""
    if isinstance(value, int):
        with suppress(OverflowError):
            return _EPOCH + timedelta(microseconds=value)
    return _EPOCH


def conversation_from(row: Row[Any], tags: Iterable[str] = ()) -> Conversation:
    return Conversation(
        id=_text(row.id),
        title=_text(row.title),
        created_at=from_us(row.created_us),
        updated_at=from_us(row.updated_us),
        kind=_known(ConversationKind, row.kind, ConversationKind.CHAT),
        folder_id=_text_or_none(row.folder_id),
        is_pinned=bool(row.is_pinned),
        is_archived=bool(row.is_archived),
        trashed_at=None if row.trashed_us is None else from_us(row.trashed_us),
        system_prompt=_text(row.system_prompt),
        draft=_text(row.draft),
        weights_path=_text_or_none(row.weights_path),
        preset_id=_text_or_none(row.preset_id),
        active_leaf_id=_text_or_none(row.active_leaf_id),
        is_titled_by_user=bool(row.is_titled_by_user),
        settings=_object(row.settings),
        copied_from=_text_or_none(row.copied_from),
        tags=tuple(tags),
    )


def message_from(
    values: Sequence[Any],
    conversation_id: str,
    parent_id: str | None,
    sibling_index: int,
    sibling_count: int,
    rendered_prompt: bytes | None = None,
) -> Message:
    """A record of the columns in `MESSAGE_COLUMNS`, in that order (more may follow).

    A chat may have 10,000 of them, so values are taken by position, and what is as it
    should be takes the short way.
    """
    (
        message_id,
        role,
        state,
        created_us,
        is_pinned,
        trashed_us,
        stop_reason,
        error,
        seed,
        weights_name,
        weights_hash,
        settings,
        counts,
        content,
        reasoning,
        token_ids,
    ) = values[: len(MESSAGE_COLUMNS)]
    known_role = _ROLES.get(role)
    known_state = _STATES.get(state)
    if known_role is None or content is None:
        known_state = None
    return Message(
        id=_text(message_id),
        conversation_id=conversation_id,
        parent_id=parent_id,
        role=known_role or Role.ASSISTANT,
        content=content if type(content) is str else _text(content),
        created_at=from_us(created_us),
        state=known_state or MessageState.UNREADABLE,
        reasoning=reasoning if type(reasoning) is str else _text(reasoning),
        token_ids=None if token_ids is None else _ids_from(token_ids),
        is_pinned=bool(is_pinned),
        stop_reason=None if stop_reason is None else _text(stop_reason),
        error=None if error is None else _text(error),
        seed=seed if type(seed) is int else None,
        settings={} if settings is None else _object(settings),
        weights_name=None if weights_name is None else _text(weights_name),
        weights_hash=None if weights_hash is None else _text(weights_hash),
        rendered_prompt=_prompt_from(rendered_prompt),
        counts=_NO_COUNTS if counts is None else _counts(counts),
        sibling_index=sibling_index,
        sibling_count=sibling_count,
        trashed_at=None if trashed_us is None else from_us(trashed_us),
    )


def weights_from(row: Row[Any]) -> Weights:
    return Weights(
        path=_text(row.path),
        name=_text(row.name),
        size_bytes=row.size_bytes if isinstance(row.size_bytes, int) else 0,
        last_used_at=None if row.last_used_us is None else from_us(row.last_used_us),
        fast_hash=_text_or_none(row.fast_hash),
        sha256=_text_or_none(row.sha256),
        settings=_object(row.settings),
    )


def folder_from(row: Row[Any]) -> Folder:
    return Folder(
        id=_text(row.id),
        name=_text(row.name),
        created_at=from_us(row.created_us),
        parent_id=_text_or_none(row.parent_id),
        position=_number(row.position) or 0,
    )


def attachment_from(row: Row[Any]) -> Attachment:
    """`conversation_id` and `message_id` are columns of the question, not of the table."""
    return Attachment(
        id=_text(row.id),
        conversation_id=_text(row.conversation_id),
        name=_text(row.name),
        text=_text(row.text),
        size_bytes=_number(row.size_bytes) or 0,
        created_at=from_us(row.created_us),
        message_id=_text_or_none(row.message_id),
        tokens=_number(row.tokens),
        position=_number(row.position) or 0,
        kind=_text(row.kind),
        details=_object(row.details),
    )


def attached_to(
    messages: tuple[Message, ...], attached: Mapping[str, Sequence[Attachment]]
) -> tuple[Message, ...]:
    """The messages with what was attached to them, by their ids."""
    return tuple(
        replace(message, attachments=tuple(attached[message.id]))
        if message.id in attached
        else message
        for message in messages
    )


def preset_from(row: Row[Any]) -> Preset:
    return Preset(
        id=_text(row.id),
        name=_text(row.name),
        created_at=from_us(row.created_us),
        updated_at=from_us(row.updated_us),
        value=_object(row.value),
        position=_number(row.position) or 0,
    )


def download_from(row: Row[Any]) -> Download:
    return Download(
        id=_text(row.id),
        endpoint=_text(row.endpoint),
        repo_id=_text(row.repo_id),
        revision=_text(row.revision),
        folder=_text(row.folder),
        files=_download_files(row.files),
        added_at=from_us(row.added_us),
        state=_known(DownloadState, row.state, DownloadState.FAILED),
        error=_text(row.error),
        attempts=_number(row.attempts) or 0,
        retry_at=None if row.retry_us is None else from_us(row.retry_us),
        finished_at=None if row.finished_us is None else from_us(row.finished_us),
        position=_number(row.position) or 0,
    )


def local_file_from(row: Row[Any]) -> LocalFile:
    """An inode that is no number becomes -1, which no file has."""
    inode = _text(row.inode)
    return LocalFile(
        path=_text(row.path),
        size_bytes=_number(row.size_bytes) or 0,
        mtime_ns=_number(row.mtime_ns) or 0,
        inode=int(inode) if inode.isdecimal() and len(inode) < 50 else -1,
        seen_at=from_us(row.seen_us),
        sha256=_text(row.sha256),
        facts=_object(row.facts),
        reader=_text(row.reader),
    )


def _download_files(text: Any) -> tuple[DownloadFile, ...]:
    """All of them, or none where one cannot be read: half a set of files is no set."""
    try:
        values = _decode(text)
        return tuple(_download_file(value) for value in values)
    except (ValueError, TypeError, KeyError, RecursionError):
        return ()


def _download_file(value: Mapping[str, Any]) -> DownloadFile:
    mtime_ns = value.get("mtime_ns")
    return DownloadFile(
        name=str(value["name"]),
        size_bytes=int(value["size_bytes"]),
        sha256=str(value.get("sha256", "")),
        saved_as=str(value.get("saved_as", "")),
        etag=str(value.get("etag", "")),
        done_bytes=int(value.get("done_bytes", 0)),
        mtime_ns=None if mtime_ns is None else int(mtime_ns),
    )


def _number(value: Any) -> int | None:
    return value if isinstance(value, int) else None


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bytes):
        with suppress(UnicodeDecodeError):
            return value.decode("utf-8", "surrogatepass")
        return value.decode("utf-8", "replace")
    return "" if value is None else str(value)


def _text_or_none(value: Any) -> str | None:
    return None if value is None else _text(value)


def _known(kind: type[T], value: Any, default: T) -> T:
    try:
        return kind(value)  # type: ignore[call-arg]
    except ValueError:
        return default


def is_summary(role: Any, settings: Any) -> bool:
    """Whether a message stands for others (`app/chat/replies/summary_nodes.py`)."""
    return role == Role.SYSTEM.value and isinstance(_object(settings).get("summary"), dict)


def _object(text: Any) -> dict[str, Any]:
    if not text:
        return {}
    try:
        value = _decode(text)
    except (ValueError, TypeError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _counts(text: Any) -> MessageCounts:
    if not text:
        return _NO_COUNTS
    numbers = {
        name: value
        for name, value in _object(text).items()
        if name in _COUNT_NAMES and isinstance(value, int | float)
    }
    return MessageCounts(**numbers) if numbers else _NO_COUNTS  # type: ignore[arg-type]


def _ids_from(value: Any) -> tuple[int, ...] | None:
    if not isinstance(value, bytes) or len(value) % 4:
        return None
    numbers = array("i", value)
    if sys.byteorder == "big":
        numbers.byteswap()
    return tuple([_shared(number, number) for number in numbers])


def _prompt_from(value: Any) -> str | None:
    if not isinstance(value, bytes):
        return None
    try:
        return zlib.decompress(value).decode("utf-8", "replace")
    except zlib.error:
        return None
