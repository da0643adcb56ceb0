"""Whole conversations out of the database, and under what ids they come into it.

`models.conversations.importing` adds them. What must hold:

* Nothing is overwritten. A conversation of which all is there already (the same ids with the
  same content, perhaps more besides) is not added again. Where one of its ids stands for
  something else, or for something in the trash, all of it gets new ids.
* New ids are made of the old ones and of the content, so the same file imported twice adds
  nothing twice.
* Of a chat that was brought from another app, a message that has its id here is there, whatever
  became of it: edited, renamed or deleted. Only what has none is added, below what is there.
* Deleted messages are no part of what is exported: what somebody threw away is not passed on.

Pinned, archived, the draft and the version on screen do not count as differing. Folders are taken
as they are now, presets get a free name. Chats out of Markdown are compared by their texts alone.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from hashlib import blake2b
from typing import Any, Final

from sqlalchemy import Connection, null, select

from models.conversations import attachments
from models.conversations.attachments import with_attachments
from models.conversations.tags import conversation_of
from models.conversations.writing import INTERRUPTED_SENTENCE
from models.mapping import message_from
from models.records import (
    Attachment,
    Conversation,
    File,
    Message,
    MessageState,
    Whereabouts,
    WholeConversation,
)
from models.rows import conversation_row
from models.store.errors import NotFoundError
from models.store.plain import MESSAGE_COLUMNS
from models.tables import (
    AttachmentDataRow,
    AttachmentRow,
    ConversationRow,
    MessageRow,
    TokenTraceRow,
)

NAMESPACE: Final = uuid.UUID("6f1b7a6e-2c77-4c0a-9a4e-0c6a0d9b7d52")
_AT_ONCE: Final = 500
"""Ids in one question: SQLite takes a bounded number of values."""

# --- out ----------------------------------------------------------------------------------------


def read_whole(connection: Connection, conversation_id: str) -> WholeConversation:
    """A reply that still grows is given as it is now, as interrupted."""
    row = conversation_row(connection, conversation_id)
    messages = tuple(_messages(connection, row.row_id, conversation_id))
    messages = with_attachments(connection, conversation_id, messages)
    listed = attachments.list_attachments(connection, conversation_id)
    drafted = tuple(each for each in listed if each.message_id is None)
    attached = {each.id for each in (*drafted, *(a for m in messages for a in m.attachments))}
    return WholeConversation(
        conversation=conversation_of(connection, row),
        messages=messages,
        traces=_traces(connection, row.row_id, {message.id for message in messages}),
        draft_attachments=drafted,
        files=_files(connection, row.row_id, attached),
    )


def read_texts(connection: Connection, conversation_id: str) -> WholeConversation:
    """As `read_whole`, without what is large and nobody reads: rendered prompts, traces, the draft.
    A trace is read alone (`load_trace`)."""
    row = conversation_row(connection, conversation_id)
    messages = tuple(_messages(connection, row.row_id, conversation_id, with_prompts=False))
    return WholeConversation(
        conversation=conversation_of(connection, row),
        messages=with_attachments(connection, conversation_id, messages),
    )


def _messages(
    connection: Connection,
    conversation_row_id: int,
    conversation_id: str,
    *,
    with_prompts: bool = True,
) -> Iterator[Message]:
    columns = [MessageRow.__table__.columns[name] for name in MESSAGE_COLUMNS]
    prompt_column = MessageRow.rendered_prompt if with_prompts else null()
    rows = connection.execute(
        select(*columns, prompt_column, MessageRow.row_id, MessageRow.parent_row_id)
        .where(
            MessageRow.conversation_row_id == conversation_row_id, MessageRow.trashed_us.is_(None)
        )
        .order_by(MessageRow.row_id)
    )
    ids: dict[int, str] = {}
    for *values, prompt, row_id, parent_row_id in rows:
        # Parents are older than their children; in a damaged tree one that is not is no parent.
        parent_id = ids.get(parent_row_id)
        message = message_from(values, conversation_id, parent_id, 0, 1, prompt)
        if message.state is MessageState.STREAMING:
            message = replace(message, state=MessageState.INTERRUPTED, error=INTERRUPTED_SENTENCE)
        ids[row_id] = message.id
        yield message


def _traces(connection: Connection, conversation_row_id: int, wanted: set[str]) -> dict[str, bytes]:
    rows = connection.execute(
        select(MessageRow.id, TokenTraceRow.blob)
        .join(MessageRow, MessageRow.row_id == TokenTraceRow.message_row_id)
        .where(MessageRow.conversation_row_id == conversation_row_id)
        .order_by(MessageRow.row_id)
    )
    return {message_id: bytes(blob) for message_id, blob in rows if message_id in wanted}


def _files(connection: Connection, conversation_row_id: int, wanted: set[str]) -> dict[str, File]:
    rows = connection.execute(
        select(AttachmentRow.id, AttachmentDataRow.media_type, AttachmentDataRow.blob)
        .join(AttachmentRow, AttachmentRow.row_id == AttachmentDataRow.attachment_row_id)
        .where(AttachmentRow.conversation_row_id == conversation_row_id)
        .order_by(AttachmentRow.row_id)
    )
    found = ((own, attachments.file_from(*file)) for own, *file in rows if own in wanted)
    return {own: file for own, file in found if file is not None}


# --- in -----------------------------------------------------------------------------------------


def whereabouts(connection: Connection, chat: WholeConversation) -> Whereabouts:
    """What the store has of it."""
    return placed(connection, chat)[0]


def placed(
    connection: Connection, chat: WholeConversation, staged: frozenset[str] = frozenset()
) -> tuple[Whereabouts, WholeConversation]:
    """What the store has, and the chat under ids that are free. `staged`: chats that are being
    added with this one (`models.conversations.importing`)."""
    candidate, attempt = chat, 0
    while True:
        if chat.is_brought and (found := _joined(connection, candidate, staged)) is not None:
            return found
        if _is_contained(connection, candidate, staged):
            return Whereabouts.THERE, candidate
        if _is_free(connection, candidate):
            return (Whereabouts.OTHER if attempt else Whereabouts.NEW), candidate
        attempt += 1
        candidate = _renamed(chat, attempt)


def _joined(
    connection: Connection, chat: WholeConversation, staged: frozenset[str]
) -> tuple[Whereabouts, WholeConversation] | None:
    """What a brought chat adds to the one that came earlier; None where that isn't there."""
    row = connection.execute(
        select(ConversationRow.row_id, ConversationRow.trashed_us).where(
            ConversationRow.id == chat.conversation.id
        )
    ).one_or_none()
    if row is None or (row.trashed_us is not None and chat.conversation.id not in staged):
        return None
    there = {
        each.id: each.trashed_us is None
        for each in connection.execute(
            select(MessageRow.id, MessageRow.trashed_us).where(
                MessageRow.conversation_row_id == row.row_id
            )
        )
    }
    new = [message for message in chat.messages if message.id not in there]
    if not new:
        return Whereabouts.THERE, chat
    above = {message.id: message.parent_id for message in chat.messages}

    def visible(parent_id: str | None) -> str | None:
        """The nearest one above that nobody has deleted here."""
        while parent_id is not None and not there.get(parent_id, True):
            parent_id = above.get(parent_id)
        return parent_id

    return Whereabouts.MORE, replace(
        chat,
        messages=tuple(replace(each, parent_id=visible(each.parent_id)) for each in new),
    )


def _is_contained(connection: Connection, chat: WholeConversation, staged: frozenset[str]) -> bool:
    try:
        stored = read_whole(connection, chat.conversation.id)
    except NotFoundError:
        return False
    if stored.conversation.trashed_at is not None and chat.conversation.id not in staged:
        return False
    shape = _written if chat.has_only_text else _made
    if shape(stored.conversation) != shape(chat.conversation):
        return False
    there = {message.id: shape(message) for message in stored.messages}
    if any(there.get(message.id) != shape(message) for message in chat.messages):
        return False
    drafted = {each.id for each in chat.draft_attachments}
    sent = {own: file for own, file in chat.files.items() if own not in drafted}
    return chat.traces.items() <= stored.traces.items() and sent.items() <= stored.files.items()


def _made(record: Conversation | Message) -> Any:
    """All of a record but how it is looked at."""
    if isinstance(record, Conversation):
        return (record.title, record.kind, record.system_prompt, record.settings)
    attachments = tuple((each.id, each.name, each.text, each.kind) for each in record.attachments)
    return replace(record, is_pinned=False, attachments=()), attachments


def _written(record: Conversation | Message) -> Any:
    """What is written in a record."""
    if isinstance(record, Conversation):
        return (record.title, record.system_prompt)
    attached = tuple((each.name, each.text) for each in record.attachments)
    return (record.parent_id, record.role, record.content, record.reasoning, attached)


def _is_free(connection: Connection, chat: WholeConversation) -> bool:
    attachments = [*chat.draft_attachments, *(a for m in chat.messages for a in m.attachments)]
    return not (
        _has_any(connection, ConversationRow, [chat.conversation.id])
        or _has_any(connection, MessageRow, [message.id for message in chat.messages])
        or _has_any(connection, AttachmentRow, [each.id for each in attachments])
    )


def _has_any(connection: Connection, table: Any, ids: Sequence[str]) -> bool:
    return any(
        connection.scalar(
            select(table.row_id).where(table.id.in_(ids[start : start + _AT_ONCE])).limit(1)
        )
        is not None
        for start in range(0, len(ids), _AT_ONCE)
    )


def _renamed(chat: WholeConversation, attempt: int) -> WholeConversation:
    salt = _digest_of(chat, attempt)

    def new(old: str) -> str:
        return str(uuid.uuid5(NAMESPACE, f"{salt} {old}"))

    names = {message.id: new(message.id) for message in chat.messages}
    files = _Renamed({new(own): own for own in chat.files}, chat.files)
    conversation_id = new(chat.conversation.id)

    def attached(attachment: Attachment) -> Attachment:
        owner = attachment.message_id
        return replace(
            attachment,
            id=new(attachment.id),
            conversation_id=conversation_id,
            message_id=None if owner is None else names[owner],
        )

    leaf_id = chat.conversation.active_leaf_id
    return replace(
        chat,
        conversation=replace(
            chat.conversation,
            id=conversation_id,
            active_leaf_id=None if leaf_id is None else names.get(leaf_id),
        ),
        messages=tuple(
            replace(
                message,
                id=names[message.id],
                conversation_id=conversation_id,
                parent_id=None if message.parent_id is None else names[message.parent_id],
                settings=_with_new_cut(message.settings, names),
                attachments=tuple(map(attached, message.attachments)),
            )
            for message in chat.messages
        ),
        traces={names[message_id]: blob for message_id, blob in chat.traces.items()},
        draft_attachments=tuple(map(attached, chat.draft_attachments)),
        files=files,
    )


class _Renamed(Mapping[str, File]):
    """The same files by other ids. They may be read only when they are asked for."""

    def __init__(self, names: dict[str, str], files: Mapping[str, File]) -> None:
        self._names = names
        self._files = files

    def __getitem__(self, new: str) -> File:
        return self._files[self._names[new]]

    def __contains__(self, new: object) -> bool:
        return new in self._names

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def _digest_of(chat: WholeConversation, attempt: int) -> str:
    """Part by part: the text of a whole long chat would stop everybody else for a while."""
    digest = blake2b(f"{attempt} {chat.conversation!r}".encode("utf-8", "replace"))
    for part in (*chat.messages, *chat.traces.items(), *chat.draft_attachments):
        digest.update(repr(part).encode("utf-8", "replace"))
    for own, (media_type, data) in () if chat.is_brought else chat.files.items():
        digest.update(f"{own} {media_type}".encode("utf-8", "replace"))
        digest.update(data)
    return digest.hexdigest()


def _with_new_cut(settings: dict[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    """What a reply recorded of its context names the last message that was left out."""
    cut = settings.get("cut")
    if not isinstance(cut, dict) or cut.get("last_message_id") not in names:
        return settings
    return {**settings, "cut": {**cut, "last_message_id": names[cut["last_message_id"]]}}
