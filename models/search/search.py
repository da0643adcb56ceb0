"""Search over titles and messages, through the index (`models.search.index`).

Newest first, by the integer key, not by relevance: the index yields rows from the newest on
and stops at the limit, while ranking would look at every match of a frequent word.

Signs (🙂, →, &&, c++) are not in the index: they are looked for in the texts themselves, which
takes 0.37 s for a million messages.

What must hold: an answer comes soon. Words alone are answered by the index. Where a filter
has to look at the messages themselves, they are looked through in spans, the newest first,
until the page is full or `PATIENCE_S` is over; the page then says where to go on.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

from sqlalchemy import Connection, Row, text

from models.conversations import folders, reading, tags
from models.mapping import from_us, is_summary, to_us
from models.records import Role, SearchHit, SearchPage
from models.rows import message_row
from models.search.index import literals, query_for
from models.search.query import SearchQuery, parse, with_hash_tags
from models.search.snippet import Matcher
from models.search.terms import words_that_begin

PATIENCE_S: Final = 0.25
FIRST_SPAN: Final = 20_000
TITLE_LIMIT: Final = 20
"""Chats on a page that also has messages; with in:title, the page's limit counts."""

_ROLES: Final = {str(role): role for role in Role}

_Clock = Callable[[], float]


@dataclass(frozen=True, slots=True)
class _Source:
    """Where a query looks: its FROM and WHERE, the column that orders it, bound values."""

    columns: str
    table: str
    key: str
    conditions: tuple[str, ...]
    bound: dict[str, Any]

    def rows(self, connection: Connection, low: int, below: int, limit: int) -> list[Row[Any]]:
        """From the newest below `below` down to `low`."""
        where = " AND ".join((*self.conditions, f"{self.key} >= :low", f"{self.key} < :below"))
        statement = (
            f"SELECT {self.columns} FROM {self.table} WHERE {where} "
            f"ORDER BY {self.key} DESC LIMIT :limit"
        )
        bound = {**self.bound, "low": low, "below": below, "limit": limit}
        return list(connection.exec_driver_sql(statement, bound))


def find(
    connection: Connection,
    query: SearchQuery | str,
    limit: int,
    below: int | None = None,
    clock: _Clock = time.monotonic,
) -> SearchPage:
    """At most `limit` hits; `below` is the former page's `next_below`."""
    if isinstance(query, str):
        query = parse(query)
    query = with_hash_tags(query, lambda name: bool(tags.names_that_mean(connection, name)))
    match = index_query(query)
    if query.is_empty or limit <= 0 or (query.words and not match and not literals(query.words)):
        return SearchPage(problems=query.problems)
    scope = _Scope(connection, query, match)
    if scope.folder_ids is not None and not scope.folder_ids:
        names = ", ".join(f"“{name}”" for name in query.folders)
        return SearchPage(problems=(*query.problems, f"No folder is named {names}."))
    for typed, meant in zip(query.tags, scope.tags, strict=True):
        if not meant:
            return SearchPage(problems=(*query.problems, f"No tag is named “{typed}”."))
    chats_only = query.in_title or is_about_tags_alone(query)
    page = _titles(scope, limit, below) if chats_only else _all(scope, limit, below, clock)
    return SearchPage(page.hits, page.next_below, page.has_more_titles, query.problems)


def is_about_tags_alone(query: SearchQuery) -> bool:
    """Then the chats that have them are the answer, not each of their messages."""
    return bool(query.tags) and replace(query, tags=(), folders=(), problems=()).is_empty


def index_query(query: SearchQuery) -> str:
    """For FTS5. One letter alone is taken for a word: as the beginning of one it is in every
    message, and the index has no list of those."""
    words = query.words.strip()
    if len(words) == 1 and words.isascii():
        words = f'"{words}"'
    return query_for(words)


def leaf_through(connection: Connection, message_id: str) -> str:
    """The leaf of a path that the message is on: the active one if it is, else the newest."""
    row = message_row(connection, message_id)
    found = connection.execute(
        text(
            """
            WITH RECURSIVE path(row_id, parent_row_id) AS (
                SELECT m.row_id, m.parent_row_id FROM conversation AS c
                JOIN message AS m ON m.id = c.active_leaf_id AND m.conversation_row_id = c.row_id
                WHERE c.row_id = :conversation
                UNION
                SELECT m.row_id, m.parent_row_id FROM path
                JOIN message AS m ON m.row_id = path.parent_row_id
            )
            SELECT c.active_leaf_id FROM path JOIN conversation AS c ON c.row_id = :conversation
            WHERE path.row_id = :message
            """
        ),
        {"conversation": row.conversation_row_id, "message": row.row_id},
    ).scalar()
    return str(found) if found else reading.leaf_below(connection, message_id)


# --- what is asked of the tables ----------------------------------------------------------------


def _as_pattern(text: str) -> str:
    """For LIKE, as it is written."""
    return re.sub(r"[\\%_]", r"\\\g<0>", text)


class _Scope:
    """A query together with what it means in this database."""

    def __init__(self, connection: Connection, query: SearchQuery, match: str) -> None:
        self.connection = connection
        self.query = query
        self.match = match
        self.literals = literals(query.words)
        self.matcher = Matcher(query.words)
        self.folder_ids: tuple[str, ...] | None = None
        if query.folders:
            self.folder_ids = folders.ids_named(connection, query.folders)
        self.tags = [tags.names_that_mean(connection, typed) for typed in query.tags]

    @property
    def looks_at_rows(self) -> bool:
        """Whether the index alone cannot tell."""
        query = self.query
        return bool(
            not self.match
            or self.literals
            or query.roles
            or query.before
            or query.after
            or query.folders
            or query.tags
            or query.files
            or query.has_reasoning
        )

    def titles(self) -> _Source:
        table, conditions, bound = "conversation AS c", ["c.trashed_us IS NULL"], {}
        if self.match:
            table = "conversation_search AS s CROSS JOIN conversation AS c ON c.row_id = s.rowid"
            conditions.append("conversation_search MATCH :match")
            bound["match"] = self.match
        self._add_literals(("c.title",), conditions, bound)
        self._add_times("c.updated_us", conditions, bound)
        self._add_places(conditions, bound)
        columns = "c.row_id, c.id, c.title, c.updated_us, c.is_archived"
        key = "s.rowid" if self.match else "c.row_id"
        return _Source(columns, table, key, tuple(conditions), bound)

    def messages(self) -> _Source:
        table = "message AS m CROSS JOIN conversation AS c ON c.row_id = m.conversation_row_id"
        conditions = ["c.trashed_us IS NULL", "m.trashed_us IS NULL"]
        bound: dict[str, Any] = {}
        if self.match:
            last_words = words_that_begin(self.connection, self.query.words)
            table = (
                "message_search AS s CROSS JOIN message AS m ON m.row_id = s.rowid "
                "CROSS JOIN conversation AS c ON c.row_id = m.conversation_row_id"
            )
            conditions.append("message_search MATCH :match")
            bound["match"] = query_for(self.query.words, last_words) if last_words else self.match
        if self.query.roles:
            conditions.append(_one_of("m.role", "role", sorted(self.query.roles), bound))
        for number, name in enumerate(self.query.files):
            bound[f"file_{number}"] = f"%{_as_pattern(name)}%"
            conditions.append(
                "m.row_id IN (SELECT message_row_id FROM attachment "
                f"WHERE name LIKE :file_{number} ESCAPE '\\')"
            )
        if self.query.has_reasoning:
            conditions.append("m.reasoning <> '' AND m.role <> 'tool'")
        self._add_literals(("m.content", "m.reasoning"), conditions, bound)
        self._add_times("m.created_us", conditions, bound)
        self._add_places(conditions, bound)
        columns = (
            "m.row_id, m.id AS message_id, m.role, m.created_us, m.content, m.reasoning, "
            "CASE m.role WHEN 'system' THEN m.settings END AS settings, "
            "c.id, c.title, c.is_archived"
        )
        key = "s.rowid" if self.match else "m.row_id"
        return _Source(columns, table, key, tuple(conditions), bound)

    def _add_literals(
        self, columns: tuple[str, ...], conditions: list[str], bound: dict[str, Any]
    ) -> None:
        """LIKE finds ASCII letters in either case, and nothing else of what `fold` makes equal."""
        for number, piece in enumerate(self.literals):
            bound[f"sign_{number}"] = f"%{_as_pattern(piece)}%"
            found = (f"{column} LIKE :sign_{number} ESCAPE '\\'" for column in columns)
            conditions.append(f"({' OR '.join(found)})")

    def _add_times(self, column: str, conditions: list[str], bound: dict[str, Any]) -> None:
        if self.query.before is not None:
            conditions.append(f"{column} < :before")
            bound["before"] = to_us(self.query.before)
        if self.query.after is not None:
            conditions.append(f"{column} >= :after")
            bound["after"] = to_us(self.query.after)

    def _add_places(self, conditions: list[str], bound: dict[str, Any]) -> None:
        if self.folder_ids is not None:
            conditions.append(_one_of("c.folder_id", "folder", self.folder_ids, bound))
        for number, names in enumerate(self.tags):
            called = _one_of("t.name", f"tag_{number}", names, bound)
            having = f"SELECT t.conversation_row_id FROM conversation_tag AS t WHERE {called}"
            conditions.append(f"c.row_id IN ({having})")

    def highest(self, table: str) -> int:
        return int(self.connection.scalar(text(f"SELECT max(row_id) FROM {table}")) or 0)


def _one_of(
    column: str, name: str, values: tuple[str, ...] | list[Role], bound: dict[str, Any]
) -> str:
    names = [f"{name}_{number}" for number in range(len(values))]
    bound.update(zip(names, map(str, values), strict=True))
    return f"{column} IN ({', '.join(f':{each}' for each in names)})"


# --- pages --------------------------------------------------------------------------------------


def _titles(scope: _Scope, limit: int, below: int | None) -> SearchPage:
    """A page of titles alone; one more is asked for, to see whether there are more."""
    top = scope.highest("conversation") + 1 if below is None else below
    rows = scope.titles().rows(scope.connection, 0, top, limit + 1)
    hits = tuple(_title_hit(row, scope.matcher) for row in rows[:limit])
    return SearchPage(hits, rows[limit - 1].row_id if len(rows) > limit else None)


def _all(scope: _Scope, limit: int, below: int | None, clock: _Clock) -> SearchPage:
    """Titles, then messages; a later page has messages only."""
    titles = SearchPage()
    if below is None and scope.query.wants_titles and (scope.match or scope.literals):
        titles = _titles(scope, min(limit, TITLE_LIMIT), None)
    top = scope.highest("message") + 1 if below is None else below
    rows, next_below = _message_rows(scope, limit, top, clock)
    hits = (*titles.hits, *(_message_hit(row, scope.matcher) for row in rows))
    return SearchPage(hits, next_below, titles.next_below is not None)


def _message_rows(
    scope: _Scope, limit: int, top: int, clock: _Clock
) -> tuple[list[Row[Any]], int | None]:
    """The rows of a page, and where the next one begins (None: there is none)."""
    latest = clock() + PATIENCE_S
    source = scope.messages()
    rows: list[Row[Any]] = []
    for low, high in _spans(top, is_whole=not scope.looks_at_rows):
        rows += source.rows(scope.connection, low, high, limit + 1 - len(rows))
        if len(rows) > limit:
            return rows[:limit], rows[limit - 1].row_id
        if low > 0 and clock() > latest:
            return rows, low
    return rows, None


def _spans(top: int, *, is_whole: bool) -> Iterator[tuple[int, int]]:
    """Spans of row keys from the newest on, each twice as long as the one before."""
    length = top if is_whole else FIRST_SPAN
    while top > 0:
        low = max(0, top - length)
        yield low, top
        top, length = low, length * 2


def _title_hit(row: Row[Any], matcher: Matcher) -> SearchHit:
    line = matcher.snippet(row.title)
    return SearchHit(
        conversation_id=row.id,
        conversation_title=row.title,
        created_at=from_us(row.updated_us),
        snippet=line.text,
        marks=line.marks,
        is_archived=bool(row.is_archived),
    )


def _message_hit(row: Row[Any], matcher: Matcher) -> SearchHit:
    content, reasoning = str(row.content or ""), str(row.reasoning or "")
    in_reasoning = bool(reasoning) and not matcher.is_in(content) and matcher.is_in(reasoning)
    line = matcher.snippet(reasoning if in_reasoning else content)
    return SearchHit(
        conversation_id=row.id,
        conversation_title=row.title,
        created_at=from_us(row.created_us),
        message_id=row.message_id,
        role=_ROLES.get(row.role),
        snippet=line.text,
        marks=line.marks,
        in_reasoning=in_reasoning,
        is_archived=bool(row.is_archived),
        is_summary=is_summary(row.role, row.settings),
    )
