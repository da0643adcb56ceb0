"""Which rows the list of conversations has: headings, folders and chats. Pure; no Qt.

What must hold: every conversation that is asked for has exactly one row, or lies in a folder
that is closed. A chat whose folder is not known stands among those without one; folders that
lie in each other in a circle (a damaged file) stand at the top. The order of conversations is
the one that is given (the store's: pinned first, then the newest activity).
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Sequence
from datetime import datetime, time, timedelta
from typing import NamedTuple

from app.chat.conversations.tagging import key_of
from models.records import Conversation, Folder

UNTITLED = "New chat"
PINNED = "Pinned"
FOLDERS = "Folders"
DEEPEST = 100
MONTHS = (
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
)


class Row(NamedTuple):
    """A row of the list. kind: heading, folder or chat.

    `depth` is how many folders it lies in; `n_chats` the chats in a folder, inner ones too;
    `folder_id` the one that a chat or folder lies in, empty for none. `is_branch`: the chat was
    branched off another one.
    """

    kind: str
    text: str
    id: str = ""
    depth: int = 0
    is_expanded: bool = False
    n_chats: int = 0
    folder_id: str = ""
    is_pinned: bool = False
    is_branch: bool = False
    tags: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        return f"{self.kind} {self.id or self.text}"


class Arrangement:
    """Makes rows, and keeps those of conversations that have not changed."""

    def __init__(self) -> None:
        self._kept: dict[str, tuple[Conversation, Row]] = {}

    def rows(
        self,
        conversations: Iterable[Conversation],
        folders: Sequence[Folder],
        closed: frozenset[str],
        now: datetime,
        *,
        archived: bool = False,
        tags: frozenset[str] = frozenset(),
    ) -> list[Row]:
        """The archive has no folders: only what was put away, by time. `tags`: keys of those that
        a chat must have; folders without any such chat are left out then."""
        shown = [c for c in conversations if c.is_archived == archived and has_tags(c, tags)]
        if archived:
            newest_first = sorted(shown, key=lambda c: c.updated_at, reverse=True)
            return self._by_time(newest_first, now)
        known = {folder.id for folder in folders}
        pinned = [c for c in shown if c.is_pinned]
        others = [c for c in shown if not c.is_pinned]
        rows = [Row("heading", PINNED), *map(self._chat, pinned)] if pinned else []
        if folders:
            rows.append(Row("heading", FOLDERS))
            filed: dict[str, list[Conversation]] = {}
            for conversation in others:
                if conversation.folder_id in known:
                    filed.setdefault(conversation.folder_id or "", []).append(conversation)
            if tags:
                folders = _holding(folders, filed)
            rows += self._tree(folders, filed, closed)
        rows += self._by_time((c for c in others if c.folder_id not in known), now)
        return rows

    def _by_time(self, conversations: Iterable[Conversation], now: datetime) -> list[Row]:
        rows = []
        for heading, members in group_conversations(conversations, now):
            rows.append(Row("heading", heading))
            rows += map(self._chat, members)
        return rows

    def _tree(
        self,
        folders: Sequence[Folder],
        filed: dict[str, list[Conversation]],
        closed: frozenset[str],
    ) -> list[Row]:
        inner = _children(folders)
        rows: list[Row] = []

        def add(folder: Folder, depth: int) -> int:
            """The folder's rows; how many chats are in it."""
            place = len(rows)
            is_expanded = folder.id not in closed
            rows.append(Row("folder", folder.name, folder.id))
            count = sum([add(each, depth + 1) for each in inner.get(folder.id, ())])
            members = filed.get(folder.id, [])
            rows.extend(self._chat(c)._replace(depth=depth + 1) for c in members)
            count += len(members)
            if not is_expanded:
                del rows[place + 1 :]
            rows[place] = Row(
                "folder", folder.name, folder.id, depth, is_expanded, count, folder.parent_id or ""
            )
            return count

        for top in inner.get(None, ()):
            add(top, 0)
        return rows

    def _chat(self, conversation: Conversation) -> Row:
        kept = self._kept.get(conversation.id)
        if kept is not None and kept[0] is conversation:
            return kept[1]
        title = " ".join(conversation.title.split()) or UNTITLED
        row = Row(
            "chat",
            title,
            conversation.id,
            folder_id=conversation.folder_id or "",
            is_pinned=conversation.is_pinned,
            is_branch=conversation.copied_from is not None,
            tags=conversation.tags,
        )
        self._kept[conversation.id] = (conversation, row)
        return row


def has_tags(conversation: Conversation, keys: frozenset[str]) -> bool:
    return not keys or keys <= {key_of(name) for name in conversation.tags}


def _holding(folders: Sequence[Folder], filed: Container[str]) -> list[Folder]:
    """The folders that lead to a chat."""
    parents = {folder.id: folder.parent_id for folder in folders}
    wanted: set[str] = set()
    for folder in folders:
        place: str | None = folder.id if folder.id in filed else None
        while place in parents and place not in wanted:
            wanted.add(place)
            place = parents[place]
    return [folder for folder in folders if folder.id in wanted]


def tree_of(folders: Sequence[Folder]) -> Iterator[tuple[Folder, int]]:
    """Each folder once, outer ones before inner ones, with its depth."""
    inner = _children(folders)

    def walk(parent: str | None, depth: int) -> Iterator[tuple[Folder, int]]:
        for folder in inner.get(parent, ()):
            yield folder, depth
            yield from walk(folder.id, depth + 1)

    yield from walk(None, 0)


def _children(folders: Sequence[Folder]) -> dict[str | None, list[Folder]]:
    """By the folder that they lie in; None: at the top, where those of a circle are too."""
    parents = {folder.id: folder.parent_id for folder in folders}
    children: dict[str | None, list[Folder]] = {}
    for folder in sorted(folders, key=lambda f: (f.name.casefold(), f.id)):
        parent = folder.parent_id if folder.parent_id in parents else None
        if parent is not None and _is_in_circle(folder.id, parents):
            parent = None
        children.setdefault(parent, []).append(folder)
    return children


def _is_in_circle(folder_id: str, parents: dict[str, str | None]) -> bool:
    """Or so deep that nobody put it there."""
    place, steps = parents[folder_id], 0
    while place in parents and place != folder_id and steps < DEEPEST:
        place, steps = parents[place], steps + 1
    return place == folder_id or steps == DEEPEST


def group_conversations(
    conversations: Iterable[Conversation], now: datetime
) -> list[tuple[str, list[Conversation]]]:
    """Headings in the order of their first conversation, each with its conversations."""
    namer = _GroupNames(now)
    groups: dict[str, list[Conversation]] = {}
    for conversation in conversations:
        groups.setdefault(namer.name_of(conversation.updated_at), []).append(conversation)
    return list(groups.items())


class _GroupNames:
    """Names of times by the calendar days of `now`'s time zone.

    A list of tens of thousands is grouped with each reply, so a time is only compared; the
    calendar is asked once for each month.
    """

    def __init__(self, now: datetime) -> None:
        today = datetime.combine(now.date(), time(), now.tzinfo)
        self._zone = now.tzinfo
        self._recent = (
            (today, "Today"),
            (today - timedelta(days=1), "Yesterday"),
            (today - timedelta(days=6), "Last 7 days"),
            (today - timedelta(days=29), "Last 30 days"),
        )
        self._month: tuple[datetime, datetime, str] | None = None

    def name_of(self, when: datetime) -> str:
        for begin, name in self._recent:
            if when >= begin:
                return name
        if self._month is None or not self._month[0] <= when < self._month[1]:
            try:
                day = when.astimezone(self._zone)
                begin = datetime(day.year, day.month, 1, tzinfo=self._zone)
                end = datetime(day.year + day.month // 12, day.month % 12 + 1, 1, tzinfo=self._zone)
            except (OverflowError, ValueError):  # of a chat brought along: the calendar's ends
                return f"{MONTHS[when.month - 1]} {when.year}"
            self._month = (begin, end, f"{MONTHS[day.month - 1]} {day.year}")
        return self._month[2]
