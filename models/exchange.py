"""Whole conversations out of the database, and into it without touching what is there.

What must hold:

* Nothing is overwritten. A conversation of which all is there already (the same ids with the
  same content, perhaps more besides) is not added again. Where one of its ids stands for
  something else, or for something in the trash, all of it gets new ids.
* New ids are made of the old ones and of the content, so the same file imported twice, or a
  transaction done twice (see `models.writing`), adds nothing twice.
* Deleted messages are no part of what is exported.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from hashlib import blake2b
from typing import Any, Final

from sqlalchemy import Connection, insert, select, text

from models import extras, reading
from models.attaching import with_attachments
from models.errors import NotFoundError
from models.mapping import MESSAGE_COLUMNS, columns_for, conversation_from, message_from
from models.records import (
    Attachment,
    Conversation,
    Folder,
    Imported,
    Message,
    MessageState,
    Preset,
    Whereabouts,
    WholeConversation,
)
from models.salvage import LOST_STATE
from models.tables import AttachmentRow, ConversationRow, MessageRow, TokenTraceRow
from models.writing import INTERRUPTED_SENTENCE

_NAMESPACE: Final = uuid.UUID("6f1b7a6e-2c77-4c0a-9a4e-0c6a0d9b7d52")
_AT_ONCE: Final = 500
"""Ids in one question: SQLite takes a bounded number of values."""

_PLACE: Final = frozenset(
    {"conversation_id", "parent_id", "sibling_index", "sibling_count", "attachments"}
)

Chats = Callable[[], Iterable[WholeConversation]]
"""Called once per attempt: a transaction may be done twice."""

# --- out ----------------------------------------------------------------------------------------


def read_whole(connection: Connection, conversation_id: str) -> WholeConversation:
    """A reply that still grows is given as it is now, as interrupted."""
    row = reading.conversation_row(connection, conversation_id)
    messages = tuple(_messages(connection, row.row_id, conversation_id))
    drafted = extras.list_attachments(connection, conversation_id)
    return WholeConversation(
        conversation=conversation_from(row),
        messages=with_attachments(connection, conversation_id, messages),
        traces=_traces(connection, row.row_id, {message.id for message in messages}),
        draft_attachments=tuple(each for each in drafted if each.message_id is None),
    )


def _messages(
    connection: Connection, conversation_row_id: int, conversation_id: str
) -> Iterator[Message]:
    columns = [MessageRow.__table__.columns[name] for name in MESSAGE_COLUMNS]
    rows = connection.execute(
        select(*columns, MessageRow.rendered_prompt, MessageRow.row_id, MessageRow.parent_row_id)
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


# --- in -----------------------------------------------------------------------------------------


def whereabouts(connection: Connection, chat: WholeConversation) -> Whereabouts:
    """What the store has of it."""
    return _placed(connection, chat)[0]


def add_all(
    connection: Connection,
    chats: Chats,
    folders: Sequence[Folder],
    presets: Sequence[Preset],
) -> Imported:
    """Add what is not there; folders and presets only as far as a chat that is added needs."""
    belongings = _Belongings(connection, folders, presets)
    ids: list[str] = []
    renamed = there = 0
    for chat in chats():
        place, placed = _placed(connection, chat)
        if place is Whereabouts.THERE:
            there += 1
            continue
        renamed += place is Whereabouts.OTHER
        _add(connection, belongings.settled(placed))
        ids.append(placed.conversation.id)
    return Imported(tuple(ids), renamed, there)


def _placed(
    connection: Connection, chat: WholeConversation
) -> tuple[Whereabouts, WholeConversation]:
    """What the store has, and the chat under ids that are free."""
    candidate, attempt = chat, 0
    while True:
        if _is_contained(connection, candidate):
            return Whereabouts.THERE, candidate
        if _is_free(connection, candidate):
            return (Whereabouts.OTHER if attempt else Whereabouts.NEW), candidate
        attempt += 1
        candidate = _renamed(chat, attempt)


def _is_contained(connection: Connection, chat: WholeConversation) -> bool:
    try:
        stored = read_whole(connection, chat.conversation.id)
    except NotFoundError:
        return False
    if stored.conversation.trashed_at is not None:
        return False
    shape = _written if chat.has_only_text else _made
    if shape(stored.conversation) != shape(chat.conversation):
        return False
    there = {message.id: shape(message) for message in stored.messages}
    if any(there.get(message.id) != shape(message) for message in chat.messages):
        return False
    return chat.traces.items() <= stored.traces.items()


def _made(record: Conversation | Message) -> Any:
    """All of a record but how it is looked at."""
    if isinstance(record, Conversation):
        return (record.title, record.kind, record.system_prompt, record.settings)
    attachments = tuple((each.id, each.name, each.text) for each in record.attachments)
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
        return str(uuid.uuid5(_NAMESPACE, f"{salt} {old}"))

    names = {message.id: new(message.id) for message in chat.messages}
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
    )


def _digest_of(chat: WholeConversation, attempt: int) -> str:
    """Part by part: the text of a whole long chat would stop everybody else for a while."""
    digest = blake2b(f"{attempt} {chat.conversation!r}".encode("utf-8", "replace"))
    for part in (*chat.messages, *chat.traces.items(), *chat.draft_attachments):
        digest.update(repr(part).encode("utf-8", "replace"))
    return digest.hexdigest()


def _with_new_cut(settings: dict[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    """What a reply recorded of its context names the last message that was left out."""
    cut = settings.get("cut")
    if not isinstance(cut, dict) or cut.get("last_message_id") not in names:
        return settings
    return {**settings, "cut": {**cut, "last_message_id": names[cut["last_message_id"]]}}


# --- rows ---------------------------------------------------------------------------------------


def _add(connection: Connection, chat: WholeConversation) -> None:
    added = connection.execute(
        insert(ConversationRow).values(**columns_for(_fields_of(chat.conversation)))
    )
    (conversation_row_id,) = added.inserted_primary_key or (None,)
    rows = _row_ids(connection, chat.messages)
    if chat.messages:
        connection.execute(
            insert(MessageRow),
            [_message_values(message, rows, conversation_row_id) for message in chat.messages],
        )
    if chat.traces:
        connection.execute(
            insert(TokenTraceRow),
            [{"message_row_id": rows[key], "blob": blob} for key, blob in chat.traces.items()],
        )
    attachments = [*chat.draft_attachments, *(a for m in chat.messages for a in m.attachments)]
    if attachments:
        connection.execute(
            insert(AttachmentRow),
            [_attachment_values(each, rows, conversation_row_id) for each in attachments],
        )


def _row_ids(connection: Connection, messages: Sequence[Message]) -> dict[str, int]:
    """Keys that no message ever had, growing in the order of the messages."""
    used = connection.scalar(text("SELECT seq FROM sqlite_sequence WHERE name = 'message'")) or 0
    return {message.id: used + number for number, message in enumerate(messages, 1)}


def _message_values(
    message: Message, rows: Mapping[str, int], conversation_row_id: int | None
) -> dict[str, Any]:
    values = columns_for({n: v for n, v in _fields_of(message).items() if n not in _PLACE})
    if message.state is MessageState.UNREADABLE:
        values["state"] = LOST_STATE
    elif message.state is MessageState.STREAMING:
        values |= {"state": MessageState.INTERRUPTED.value, "error": INTERRUPTED_SENTENCE}
    return values | {
        "row_id": rows[message.id],
        "conversation_row_id": conversation_row_id,
        "parent_row_id": None if message.parent_id is None else rows[message.parent_id],
    }


def _attachment_values(
    attachment: Attachment, rows: Mapping[str, int], conversation_row_id: int | None
) -> dict[str, Any]:
    values = _fields_of(attachment)
    del values["conversation_id"], values["message_id"]
    owner = attachment.message_id
    return columns_for(values) | {
        "conversation_row_id": conversation_row_id,
        "message_row_id": None if owner is None else rows[owner],
    }


def _fields_of(record: Conversation | Message | Attachment) -> dict[str, Any]:
    return {f.name: getattr(record, f.name) for f in fields(record)}


class _Belongings:
    """Folders and presets of a file, added when a chat first needs them."""

    def __init__(
        self, connection: Connection, folders: Sequence[Folder], presets: Sequence[Preset]
    ) -> None:
        self._connection = connection
        self._folders = {folder.id: folder for folder in folders}
        self._presets = {preset.id: preset for preset in presets}

    def settled(self, chat: WholeConversation) -> WholeConversation:
        """The chat with a folder and a preset that are there."""
        conversation = chat.conversation
        return replace(
            chat,
            conversation=replace(
                conversation,
                folder_id=self._folder(conversation.folder_id),
                preset_id=self._preset(conversation.preset_id),
            ),
        )

    def _folder(self, folder_id: str | None) -> str | None:
        """One that is there already is taken as it is, whatever its name is now."""
        there = {folder.id for folder in extras.list_folders(self._connection)}
        missing: list[Folder] = []
        around = folder_id
        while around is not None and around not in there:
            folder = self._folders.get(around)
            if folder is None or folder in missing:
                break
            missing.append(folder)
            around = folder.parent_id
        for folder in reversed(missing):
            is_rooted = folder.parent_id in there
            there.add(folder.id)
            extras.create_folder(
                self._connection,
                folder if is_rooted else replace(folder, parent_id=None),
            )
        return folder_id if folder_id in there else None

    def _preset(self, preset_id: str | None) -> str | None:
        there = extras.list_presets(self._connection)
        wanted = self._presets.get(preset_id or "")
        if wanted is None:
            return preset_id if any(preset.id == preset_id for preset in there) else None
        for preset in there:
            if preset.value == wanted.value and (
                preset.id == wanted.id or _base_name(preset.name) == wanted.name
            ):
                return preset.id
        if any(preset.id == wanted.id for preset in there):
            wanted = replace(wanted, id=str(uuid.uuid5(_NAMESPACE, repr(wanted))))
        name = _free_name(wanted.name, {preset.name for preset in there})
        return extras.create_preset(self._connection, replace(wanted, name=name)).id


def _free_name(name: str, taken: set[str]) -> str:
    number, free = 1, name
    while free in taken:
        number += 1
        free = f"{name} ({number})"
    return free


def _base_name(name: str) -> str:
    """The name without the number that `_free_name` gave it."""
    base, _, number = name.rpartition(" (")
    return base if base and number.removesuffix(")").isdigit() else name
