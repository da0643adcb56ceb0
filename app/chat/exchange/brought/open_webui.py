"""Open WebUI's chats: `chat-export-….json` (of one chat or of all), or its database `webui.db`.

A chat's `history` has its messages by id, with `parentId`, and `currentId`. Reasoning, calls of
tools and code that was run stand as `<details>` in a reply's text. The database has the same chats
as JSON, one a row, and the folders' names, which the export lacks.
"""

from __future__ import annotations

import contextlib
import io
import sqlite3
from collections.abc import Iterator, Sequence
from typing import Any, Final

from app.chat.exchange.brought import shapes
from app.chat.exchange.brought.media import data_picture
from app.chat.exchange.brought.pieces import Cut, values
from app.chat.exchange.brought.places import Place
from app.chat.exchange.brought.steps import Said, stepped, without_details
from app.chat.exchange.brought.told import Brought, NotUnderstood, Told
from app.chat.exchange.brought.trees import (
    Chat,
    File,
    Keys,
    Node,
    assembled,
    folder_of,
    made_id,
)
from models.records import MessageState, Role

APP: Final = "Open WebUI"
MAX_ROW_BYTES: Final = 256 * 1024 * 1024

_SQLITE: Final = b"SQLite format 3\0"
_ROLES: Final = {role.value: role for role in Role}
_ROW: Final = (
    "id",
    "title",
    "chat",
    "created_at",
    "updated_at",
    "archived",
    "pinned",
    "folder_id",
    "meta",
)


def claims(place: Place) -> Sequence[str]:
    return [
        *(name for name in place.named(".json") if _is_export(place, name)),
        *(name for name in place.named(".db") if _is_database(place, name)),
    ]


def _is_export(place: Place, name: str) -> bool:
    look = place.look(name)
    if look.has("chat") and {("chat", "history"), ("chat", "messages")} & look.inner:
        return True
    return look.has("history") and ("history", "messages") in look.inner


def _is_database(place: Place, name: str) -> bool:
    return (
        place.kind != "archive"
        and place.head(name, 16) == _SQLITE
        and _tables(place, name) >= {"chat", "user"}
    )


def read(place: Place, names: Sequence[str]) -> Iterator[Brought]:
    for name in names:
        if place.head(name, 16) == _SQLITE:
            yield from _database(place, name)
            continue
        with place.open(name) as file:
            for value in values(file):
                if isinstance(value, Cut):
                    yield NotUnderstood(value.why, name)
                    value = value.value
                yield from _chat(value, place.name, frozenset())


# --- the database -------------------------------------------------------------------------------


@contextlib.contextmanager
def _opened(place: Place, name: str) -> Iterator[sqlite3.Connection]:
    """To be read and nothing else: not even a file beside it is made, and no code in it runs."""
    path = place.path_of(name)
    with contextlib.closing(
        sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro&immutable=1", uri=True)
    ) as connection:
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MAX_ROW_BYTES)
        connection.execute("PRAGMA trusted_schema = OFF")
        connection.execute("PRAGMA query_only = ON")
        connection.text_factory = lambda raw: raw.decode("utf-8", "replace")
        yield connection


def _tables(place: Place, name: str) -> set[str]:
    try:
        with _opened(place, name) as connection:
            found = connection.execute(
                "SELECT name FROM sqlite_master WHERE type = 'table' LIMIT 1000"
            )
            return {str(row[0]) for row in found}
    except (sqlite3.Error, ValueError):
        return set()


def _database(place: Place, name: str) -> Iterator[Brought]:
    if any(entry.name == f"{name}-wal" and entry.size_bytes for entry in place.beside(name)):
        yield NotUnderstood(
            "What Open WebUI has saved last: quit it and import again for the newest chats", name
        )
    try:
        with _opened(place, name) as connection:
            known = _columns(connection, "folder")
            if {"id", "name"} <= known:
                parent = "parent_id" if "parent_id" in known else "NULL"
                rows = connection.execute(f"SELECT id, name, {parent} FROM folder LIMIT 100000")
                folders = {shapes.key(key): (title, above) for key, title, above in rows}
            else:
                folders = {}
            for key, (title, above) in folders.items():
                yield folder_of(APP, key, shapes.line(title), None, shapes.key(above))
            columns = [each for each in _ROW if each in _columns(connection, "chat")]
            chosen = ", ".join(columns)
            for row in connection.execute(f"SELECT {chosen} FROM chat ORDER BY rowid"):
                value = dict(zip(columns, row, strict=True))
                for column in ("chat", "meta"):
                    value[column] = _json(value.get(column))
                yield from _chat(value, name, frozenset(folders))
    except (sqlite3.Error, ValueError):
        yield NotUnderstood("Chats behind a place where the database is damaged", name)


def _columns(connection: sqlite3.Connection, table: str) -> set[str]:
    return {
        str(row[0]) for row in connection.execute("SELECT name FROM pragma_table_info(?)", [table])
    }


def _json(value: object) -> object:
    if isinstance(value, str):
        value = value.encode("utf-8", "replace")
    if not isinstance(value, bytes):
        return None
    found = next(values(io.BytesIO(value)), None)
    return found.value if isinstance(found, Cut) else found


# --- a chat -------------------------------------------------------------------------------------


def _chat(value: object, where: str, folders: frozenset[str]) -> Iterator[Brought]:
    outer = shapes.mapping(value)
    inner = shapes.mapping(outer.get("chat")) or outer
    told = Told(shapes.line(outer.get("title")) or shapes.line(inner.get("title")) or where)
    history = shapes.mapping(inner.get("history"))
    messages = shapes.mapping(history.get("messages"))
    listed = list(shapes.mappings(inner.get("messages")))
    if not messages and not listed:
        yield NotUnderstood("Chats without a message", told.where)
        return
    folder = shapes.key(outer.get("folder_id"))
    tags = [*shapes.listed(shapes.mapping(outer.get("meta")).get("tags"))] or shapes.listed(
        inner.get("tags")
    )
    chat = Chat(
        APP,
        shapes.key(outer.get("id")) or shapes.key(inner.get("id")),
        told.where if told.where != where else "",
        shapes.time(outer.get("created_at")) or shapes.time(inner.get("timestamp")),
        shapes.time(outer.get("updated_at")),
        shapes.text(shapes.mapping(inner.get("params")).get("system"))
        or shapes.text(inner.get("system")),
        is_pinned=outer.get("pinned") in (True, 1),
        is_archived=outer.get("archived") in (True, 1),
        folder_id=made_id(APP, "folder", folder) if folder in folders else None,
        tags=tuple(dict.fromkeys(filter(None, map(_tag, tags)))),
    )
    if folder and folder not in folders:
        told.of("Folders, whose names the export doesn't tell")
    if not chat.key:
        chat.key = f"{chat.title} {inner.get('timestamp')} {min(messages, default='')}"
    nodes, leaf = _nodes(messages, listed, shapes.key(history.get("currentId")), told)
    chat.leaf = leaf
    whole = assembled(chat, nodes, told.of)
    yield from told.all()
    if whole is None:
        yield NotUnderstood("Chats without a message", told.where)
    else:
        yield whole


def _tag(value: object) -> str:
    return shapes.line(value) or shapes.line(shapes.mapping(value).get("name"))


def _nodes(
    messages: dict[str, Any], listed: list[dict[str, Any]], current: str, told: Told
) -> tuple[list[Node], str]:
    """A message may be edited where it stands, so its text belongs to what it is known by."""
    keys = Keys()
    found: list[Node] = []
    if not messages:  # of the first releases: a list without branches
        for message in listed:
            key = keys.of(shapes.key(message.get("id")), shapes.text(message.get("content")))
            found += _message(message, key, found[-1].key if found else None, told)
        return found, found[-1].key if found else ""
    named = {
        own: keys.of(own, shapes.text(shapes.mapping(message).get("content")))
        for own, message in messages.items()
    }
    above: dict[str, str] = {}
    for own, message in messages.items():
        for child in shapes.listed(shapes.mapping(message).get("childrenIds")):
            if isinstance(child, str):
                above.setdefault(child, own)
    for own, message in messages.items():
        if not isinstance(message, dict):
            told.of("Entries that aren't messages")
            continue
        parent = shapes.key(message.get("parentId"))
        parent = parent if parent in named else above.get(own, "")
        found += _message(message, named[own], named.get(parent), told)
    return found, named.get(current, "")


def _message(message: dict[str, Any], key: str, parent: str | None, told: Told) -> list[Node]:
    role = _ROLES.get(shapes.text(message.get("role")))
    if role is None:
        told.of(f"Messages by “{shapes.line(message.get('role')) or 'nobody'}”")
    fault = message.get("error")
    error = shapes.line(shapes.mapping(fault).get("content")) or shapes.line(fault)
    is_undone = role is Role.ASSISTANT and message.get("done") is False
    if message.get("sources") or message.get("citations"):
        told.of("Sources that replies cite")
    content = message.get("content")
    if not isinstance(content, str):
        content = "\n\n".join(
            filter(None, (shapes.text(part.get("text")) for part in shapes.mappings(content)))
        )
    node = Node(
        key,
        parent,
        role,
        shapes.text(content),
        created_at=shapes.time(message.get("timestamp")),
        weights_name=shapes.line(message.get("modelName")) or shapes.line(message.get("model")),
        state=MessageState.FAILED
        if error
        else MessageState.INTERRUPTED
        if is_undone
        else MessageState.COMPLETE,
        error=error,
        files=[_file(each) for each in shapes.mappings(message.get("files"))],
    )
    if role is not Role.ASSISTANT:
        return [node]
    reasoning = shapes.text(message.get("reasoning_content"))
    steps = list(without_details(node.content))
    if not steps and not reasoning:
        steps = [Said("")]
    node.reasoning = ""
    nodes = stepped(node, steps)
    nodes[0].reasoning = nodes[0].reasoning or reasoning
    return nodes


def _file(value: dict[str, Any]) -> File:
    own = shapes.mapping(value.get("file"))
    name = next(
        filter(
            None,
            (
                shapes.line(value.get("name")),
                shapes.line(own.get("filename")),
                shapes.line(shapes.mapping(own.get("meta")).get("name")),
            ),
        ),
        "Picture" if value.get("type") == "image" else "File",
    )
    if value.get("type") == "image":
        return data_picture(shapes.text(value.get("url")), name)
    text = shapes.text(shapes.mapping(own.get("data")).get("content"))
    return File(name, text or shapes.text(value.get("content")))
