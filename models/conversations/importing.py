"""Whole conversations into the database, in pieces, so that a message is saved in between.

What must hold:

* Each piece is a transaction of at most `PIECE_MESSAGES` messages or `PIECE_CHARS` characters.
* Until everything is there nothing of it is seen: the chats are staged, which is to say in the
  trash since `STAGED_US`, a time at which nobody deleted anything. One short transaction at the
  end shows them all, with the folders and presets that they need.
* What is added to a chat that is there already is staged in the same way: message by message.
* Done twice, as a transaction may be (`models.conversations.writing`), a piece adds nothing twice.
* What fails or is cancelled leaves nothing. What a kill or a close leaves staged is dropped at
  the next start (`drop_some`).
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, Protocol, TypeVar

from sqlalchemy import Connection, delete, func, insert, select, text, update

from models import settings
from models.conversations import attachments, folders, tags
from models.conversations.exchange import NAMESPACE, placed
from models.conversations.writing import INTERRUPTED_SENTENCE
from models.mapping import columns_for, fields_of
from models.records import (
    Attachment,
    Conversation,
    File,
    Folder,
    Imported,
    Message,
    MessageState,
    Preset,
    Whereabouts,
    WholeConversation,
)
from models.store.errors import ClosedError, NotFoundError
from models.store.salvage import LOST_STATE
from models.tables import STAGED_US, AttachmentRow, ConversationRow, MessageRow, TokenTraceRow

PIECE_MESSAGES: Final = 500
PIECE_CHARS: Final = 4_000_000

_AT_ONCE: Final = 500
"""Ids in one question: SQLite takes a bounded number of values."""
_PLACE: Final = frozenset(
    {"conversation_id", "parent_id", "sibling_index", "sibling_count", "attachments"}
)

T = TypeVar("T")


class Transactions(Protocol):
    """Does work in a transaction of its own."""

    def __call__(self, work: Callable[[Connection], T], /) -> Future[T]: ...


@dataclass(frozen=True, slots=True)
class _Piece:
    """Some messages of a staged conversation, with what belongs to them. `is_more`: of one that was
    there, so they are staged themselves."""

    conversation_id: str
    messages: tuple[Message, ...]
    traces: Mapping[str, bytes]
    attachments: tuple[Attachment, ...]
    files: Mapping[str, File]
    is_more: bool = False


def add_all(
    read: Transactions,
    write: Transactions,
    chats: Iterable[WholeConversation],
    folders: Sequence[Folder] = (),
    presets: Sequence[Preset] = (),
    told: Callable[[int], None] = lambda _count: None,
    wanted: frozenset[str] = frozenset(),
    check: Callable[[], None] = lambda: None,
) -> Imported:
    """Add what is not there; `wanted`: ids of presets that come also where no chat needs them.
    `check` is called on the writer's thread before each piece and may raise: a piece for which the
    disk has no room is tried again and again.
    `told` gets the number of messages that are done, and may raise:
    then, as after any failure, nothing is added."""
    staged: dict[str, Conversation] = {}
    grown: dict[str, Conversation] = {}
    try:
        found = _stage_all(read, write, chats, staged, grown, told, check)
        names = write(
            lambda c: _show(c, staged.values(), grown.values(), folders, presets, wanted)
        ).result()
    except ClosedError:
        raise  # whoever closes does not wait for it: the next start does it
    except BaseException:
        while write(lambda c: drop_some(c, (*staged, *grown))).result():
            pass
        raise
    return replace(found, presets=names)


def _stage_all(
    read: Transactions,
    write: Transactions,
    chats: Iterable[WholeConversation],
    staged: dict[str, Conversation],
    grown: dict[str, Conversation],
    told: Callable[[int], None],
    check: Callable[[], None],
) -> Imported:
    done = renamed = there = 0
    for chat in chats:
        known = frozenset(staged)
        place, new = read(partial(placed, chat=chat, staged=known)).result()
        if place is Whereabouts.THERE:
            there += 1
            done += len(chat.messages)
            told(done)
            continue
        renamed += place is Whereabouts.OTHER
        is_more = place is Whereabouts.MORE and new.conversation.id not in staged
        if is_more:
            grown[new.conversation.id] = new.conversation
        else:
            staged[new.conversation.id] = new.conversation
            write(partial(_begin, conversation=new.conversation)).result()
        done += len(chat.messages) - len(new.messages)
        for piece in _pieces(new, is_more):
            write(partial(_add, piece=piece, check=check)).result()
            done += len(piece.messages)
            told(done)
    return Imported(tuple(staged), renamed, there, tuple(grown))


def _pieces(chat: WholeConversation, is_more: bool = False) -> Iterator[_Piece]:
    """In the order of the messages; the first one also has what belongs to the draft."""
    some: list[Message] = []
    attached = list(chat.draft_attachments)

    def length(attachment: Attachment) -> int:
        return len(attachment.text) + len(chat.files.get(attachment.id, ("", b""))[1])

    def piece() -> _Piece:
        traces = {m.id: chat.traces[m.id] for m in some if m.id in chat.traces}
        files = {each.id: chat.files[each.id] for each in attached if each.id in chat.files}
        return _Piece(chat.conversation.id, tuple(some), traces, tuple(attached), files, is_more)

    size = sum(map(length, attached))

    for message in chat.messages:
        some.append(message)
        attached += message.attachments
        size += len(message.content) + len(message.reasoning) + len(message.rendered_prompt or "")
        size += len(chat.traces.get(message.id, b"")) + sum(map(length, message.attachments))
        if len(some) == PIECE_MESSAGES or size >= PIECE_CHARS:
            yield piece()
            some, attached, size = [], [], 0
    if some or attached:
        yield piece()


# --- what is staged -----------------------------------------------------------------------------


_STAGED: Final = select(ConversationRow.id).where(ConversationRow.trashed_us == STAGED_US)


_GROWING: Final = (
    select(ConversationRow.id)
    .join(MessageRow, MessageRow.conversation_row_id == ConversationRow.row_id)
    .where(MessageRow.trashed_us == STAGED_US)
    .distinct()
)


def staged_ids(connection: Connection) -> tuple[str, ...]:
    """What an import that came to no end has left: chats, and chats with messages of it."""
    return (*connection.scalars(_STAGED), *connection.scalars(_GROWING))


def drop_some(connection: Connection, ids: Sequence[str]) -> int:
    """Delete some of these staged conversations' messages, the newest first, and those that have
    none left; of others, messages that are staged. How many rows went; 0: all are gone."""
    for conversation_id in ids:
        row_id = _staged_row_id(connection, conversation_id)
        is_staged = row_id is not None
        newest = (
            select(MessageRow.row_id)
            .join(ConversationRow, ConversationRow.row_id == MessageRow.conversation_row_id)
            .where(ConversationRow.id == conversation_id)
            .order_by(MessageRow.row_id.desc())
            .limit(PIECE_MESSAGES)
        )
        if not is_staged:
            newest = newest.where(MessageRow.trashed_us == STAGED_US)
        rows = connection.scalars(newest).all()
        if not rows and not is_staged:
            continue
        connection.execute(delete(MessageRow).where(MessageRow.row_id.in_(rows)))
        if is_staged and len(rows) < PIECE_MESSAGES:
            connection.execute(delete(ConversationRow).where(ConversationRow.row_id == row_id))
        return len(rows) + 1
    return 0


def _staged_row_id(connection: Connection, conversation_id: str) -> int | None:
    return connection.scalar(
        select(ConversationRow.row_id).where(
            ConversationRow.id == conversation_id, ConversationRow.trashed_us == STAGED_US
        )
    )


def _begin(connection: Connection, conversation: Conversation) -> None:
    if _staged_row_id(connection, conversation.id) is not None:
        return
    hidden = {"trashed_us": STAGED_US, "folder_id": None, "preset_id": None}
    values = columns_for(fields_of(conversation)) | hidden
    connection.execute(insert(ConversationRow).values(**values))
    tags.put_back(connection, {conversation.id: conversation.tags})


def _show(
    connection: Connection,
    conversations: Iterable[Conversation],
    grown: Iterable[Conversation],
    folders: Sequence[Folder],
    presets: Sequence[Preset],
    wanted: frozenset[str],
) -> tuple[str, ...]:
    """All that was staged is there now; folders and presets only as far as it needs them, or they
    are wanted. The names of those presets that are new."""
    belongings = _Belongings(connection, folders, presets)
    for conversation in conversations:
        connection.execute(
            update(ConversationRow)
            .where(ConversationRow.id == conversation.id)
            .values(trashed_us=None, **belongings.settled(conversation))
        )
    for conversation in grown:
        _show_more(connection, conversation)
    return tuple(filter(None, (belongings.added(p) for p in presets if p.id in wanted)))


_FOLLOWED: Final = text(
    """
    WITH RECURSIVE up(row_id, id, parent_row_id) AS (
        SELECT row_id, id, parent_row_id FROM message WHERE id = :leaf
        UNION
        SELECT m.row_id, m.id, m.parent_row_id FROM up JOIN message AS m
            ON m.row_id = up.parent_row_id
    )
    UPDATE conversation SET active_leaf_id = :leaf
    WHERE id = :conversation AND active_leaf_id IN (SELECT id FROM up)
    """
)
"""Who was at a chat's end sees how it went on; who was elsewhere in it stays there."""


def _show_more(connection: Connection, conversation: Conversation) -> None:
    connection.execute(
        _FOLLOWED, {"leaf": conversation.active_leaf_id, "conversation": conversation.id}
    )
    updated_us = columns_for({"updated_at": conversation.updated_at})["updated_us"]
    row_id = connection.scalar(
        update(ConversationRow)
        .where(ConversationRow.id == conversation.id)
        .values(updated_us=func.max(ConversationRow.updated_us, updated_us))
        .returning(ConversationRow.row_id)
    )
    connection.execute(
        update(MessageRow)
        .where(MessageRow.conversation_row_id == row_id, MessageRow.trashed_us == STAGED_US)
        .values(trashed_us=None)
    )


# --- rows ---------------------------------------------------------------------------------------


def _add(connection: Connection, piece: _Piece, check: Callable[[], None]) -> None:
    check()
    conversation_row_id = connection.scalar(
        select(ConversationRow.row_id).where(
            ConversationRow.id == piece.conversation_id,
            ConversationRow.trashed_us.is_(None)
            if piece.is_more
            else ConversationRow.trashed_us == STAGED_US,
        )
    )
    if conversation_row_id is None:
        raise NotFoundError(
            "A chat that was being imported has disappeared. Import the file again."
        )
    if _is_there(connection, piece):
        return
    rows = _row_ids(connection, piece.messages)
    if piece.messages:
        connection.execute(
            insert(MessageRow),
            [
                _message_values(message, rows, conversation_row_id, piece.is_more)
                for message in piece.messages
            ],
        )
    if piece.traces:
        connection.execute(
            insert(TokenTraceRow),
            [{"message_row_id": rows[key], "blob": blob} for key, blob in piece.traces.items()],
        )
    if piece.attachments:
        connection.execute(
            insert(AttachmentRow),
            [_attachment_values(each, rows, conversation_row_id) for each in piece.attachments],
        )
    attachments.add_files(connection, piece.files)


def _is_there(connection: Connection, piece: _Piece) -> bool:
    table: Any = MessageRow if piece.messages else AttachmentRow
    first = piece.messages[0].id if piece.messages else piece.attachments[0].id
    return connection.scalar(select(table.row_id).where(table.id == first)) is not None


def _row_ids(connection: Connection, messages: Sequence[Message]) -> dict[str, int]:
    """Keys that no message ever had, growing in the order of the messages; and those of parents
    that came with an earlier piece."""
    used = connection.scalar(text("SELECT seq FROM sqlite_sequence WHERE name = 'message'")) or 0
    rows = {message.id: used + number for number, message in enumerate(messages, 1)}
    above = list({m.parent_id for m in messages if m.parent_id is not None} - rows.keys())
    for start in range(0, len(above), _AT_ONCE):
        found = select(MessageRow.id, MessageRow.row_id).where(
            MessageRow.id.in_(above[start : start + _AT_ONCE])
        )
        rows |= {row.id: row.row_id for row in connection.execute(found)}
    return rows


def _message_values(
    message: Message, rows: Mapping[str, int], conversation_row_id: int, is_staged: bool
) -> dict[str, Any]:
    values = columns_for({n: v for n, v in fields_of(message).items() if n not in _PLACE})
    if message.state is MessageState.UNREADABLE:
        values["state"] = LOST_STATE
    elif message.state is MessageState.STREAMING:
        values |= {"state": MessageState.INTERRUPTED.value, "error": INTERRUPTED_SENTENCE}
    return values | {
        "row_id": rows[message.id],
        "conversation_row_id": conversation_row_id,
        "parent_row_id": None if message.parent_id is None else rows[message.parent_id],
        "trashed_us": STAGED_US if is_staged else None,
    }


def _attachment_values(
    attachment: Attachment, rows: Mapping[str, int], conversation_row_id: int
) -> dict[str, Any]:
    values = fields_of(attachment)
    del values["conversation_id"], values["message_id"]
    owner = attachment.message_id
    return columns_for(values) | {
        "conversation_row_id": conversation_row_id,
        "message_row_id": None if owner is None else rows[owner],
    }


class _Belongings:
    """Folders and presets of a file, added when a chat first needs them. Asked once for each."""

    def __init__(
        self, connection: Connection, folders: Sequence[Folder], presets: Sequence[Preset]
    ) -> None:
        self._connection = connection
        self._folders = {folder.id: folder for folder in folders}
        self._presets = {preset.id: preset for preset in presets}
        self._settled: dict[tuple[str, str | None], str | None] = {}

    def settled(self, conversation: Conversation) -> dict[str, str | None]:
        """A folder and a preset that are there."""
        return {
            "folder_id": self._once("folder", conversation.folder_id, self._folder),
            "preset_id": self._once("preset", conversation.preset_id, self._preset),
        }

    def added(self, preset: Preset) -> str:
        """Its name here, where it wasn't there."""
        before = {each.id for each in settings.list_presets(self._connection)}
        settled = self._once("preset", preset.id, self._preset)
        there = settings.list_presets(self._connection)
        return next((p.name for p in there if p.id == settled and p.id not in before), "")

    def _once(
        self, kind: str, wanted: str | None, settle: Callable[[str | None], str | None]
    ) -> str | None:
        if (kind, wanted) not in self._settled:
            self._settled[kind, wanted] = settle(wanted) if wanted is not None else None
        return self._settled[kind, wanted]

    def _folder(self, folder_id: str | None) -> str | None:
        """One that is there already is taken as it is, whatever its name is now."""
        there = {folder.id for folder in folders.list_folders(self._connection)}
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
            folders.create_folder(
                self._connection,
                folder if is_rooted else replace(folder, parent_id=None),
            )
        return folder_id if folder_id in there else None

    def _preset(self, preset_id: str | None) -> str | None:
        there = settings.list_presets(self._connection)
        wanted = self._presets.get(preset_id or "")
        if wanted is None:
            return preset_id if any(preset.id == preset_id for preset in there) else None
        same = same_preset(wanted, there)
        if same is not None:
            return same.id
        if any(preset.id == wanted.id for preset in there):
            wanted = replace(wanted, id=str(uuid.uuid5(NAMESPACE, repr(wanted))))
        name = _free_name(wanted.name, {preset.name for preset in there})
        last = 1 + max((preset.position for preset in there), default=-1)
        return settings.create_preset(
            self._connection, replace(wanted, name=name, position=last)
        ).id


def same_preset(wanted: Preset, there: Iterable[Preset]) -> Preset | None:
    """One with the same values that came from it, or is called so."""
    return next(
        (
            preset
            for preset in there
            if preset.value == wanted.value
            and (preset.id == wanted.id or _base_name(preset.name) == wanted.name)
        ),
        None,
    )


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
