"""What somebody typed into the search field, taken apart: words, and filters among them.

    'rust "borrow checker" role:user after:2026-05 folder:"My work"'
    ->  words 'rust "borrow checker"', roles {user}, after 2026-05-01, folder 'My work'

Nothing that is typed is an error. A filter whose value makes no sense is left out of the
search and named in `problems`; a word with a colon that is no filter is a word. Days are days
of this machine's time zone. Pure: no SQL here.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta

from models.records import Role

FILTERS = ("in:title", "role:", "before:", "after:", "folder:", "tag:", "file:", "has:reasoning")
"""What can be typed, as the filter menu offers it."""

_FILTER = re.compile(
    r'(?:^|(?<=\s))(in|role|before|after|folder|tag|file|has):("[^"]*"|[^\s"]+)(?=\s|$)',
    re.IGNORECASE,
)
_DATE = re.compile(r"(\d{4})(?:-(\d{1,2})(?:-(\d{1,2}))?)?$")
_FOLDER_PATTERN_LIMIT = 200
_HASH_TAG = re.compile(r'(?:^|(?<=\s))#("[^"]+"|[^\s"#]+)(?=\s|$)')


@dataclass(frozen=True, slots=True)
class SearchQuery:
    """`words` is what is left for the index. `before` is earlier than that moment, `after` is
    that moment and later, both in UTC. `folders` are casefolded names; chats in folders below
    them count. `tags`: a chat has all of them. `files`: a message has attachments whose names hold
    these."""

    words: str = ""
    in_title: bool = False
    roles: frozenset[Role] = frozenset()
    before: datetime | None = None
    after: datetime | None = None
    folders: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    has_reasoning: bool = False
    problems: tuple[str, ...] = ()
    files: tuple[str, ...] = ()

    @property
    def is_empty(self) -> bool:
        return not (
            self.words.strip()
            or self.roles
            or self.before
            or self.after
            or self.folders
            or self.tags
            or self.files
            or self.has_reasoning
        )

    @property
    def wants_titles(self) -> bool:
        """Whether chats are looked for too: not where a filter speaks of messages."""
        return not (self.roles or self.files or self.has_reasoning)


def parse(typed: str, today: date | None = None) -> SearchQuery:
    """`today` is what “today” and “yesterday” mean; None: by this machine's clock."""
    reading = _Reading(today or datetime.now().astimezone().date())
    words = []
    end = 0
    for match in _FILTER.finditer(typed):
        if typed.count('"', 0, match.start()) % 2:
            continue  # inside of a phrase
        words.append(typed[end : match.start()])
        end = match.end()
        reading.take(match.group(1).casefold(), match.group(2).strip('"').strip())
    words.append(typed[end:])
    return SearchQuery(
        words="".join(words).strip(),
        in_title=reading.in_title,
        roles=frozenset(reading.roles),
        before=reading.before,
        after=reading.after,
        folders=tuple(reading.folders),
        tags=tuple(reading.tags),
        has_reasoning=reading.has_reasoning,
        problems=tuple(reading.problems),
        files=tuple(reading.files),
    )


def with_hash_tags(query: SearchQuery, is_tag: Callable[[str], bool]) -> SearchQuery:
    """What is typed as `#work` or `#"my work"` means a tag where there is one, else the words.

    >>> with_hash_tags(parse("#work #include"), lambda name: name == "work")
    SearchQuery(words='#include', in_title=False, roles=frozenset(), before=None, after=None, \
folders=(), tags=('work',), has_reasoning=False, problems=(), files=())
    """
    found: list[str] = []

    def take(match: re.Match[str]) -> str:
        name = match.group(1).strip('"')
        if query.words.count('"', 0, match.start()) % 2 or not is_tag(name):
            return match.group()
        found.append(name)
        return ""

    words = _HASH_TAG.sub(take, query.words)
    if not found:
        return query
    return replace(query, words=" ".join(words.split()), tags=(*query.tags, *found))


def with_filter(typed: str, wanted: str) -> str:
    """The typed text with a filter added in front of its words, in place of one of its kind.

    >>> with_filter("rain before:2025", "before:2026")
    'before:2026 rain'
    """
    kind = wanted.partition(":")[0]
    rest = _FILTER.sub(
        lambda match: "" if match.group(1).casefold() == kind else match.group(), typed
    )
    return f"{wanted} {' '.join(rest.split(' ')).strip()}".rstrip() + ("" if rest.strip() else " ")


class _Reading:
    """The filters met so far. Of two that cannot both hold the later one counts."""

    def __init__(self, today: date) -> None:
        self._today = today
        self.in_title = self.has_reasoning = False
        self.roles: set[Role] = set()
        self.before: datetime | None = None
        self.after: datetime | None = None
        self.folders: list[str] = []
        self.tags: list[str] = []
        self.files: list[str] = []
        self.problems: list[str] = []

    def take(self, name: str, value: str) -> None:
        match name, value.casefold():
            case "in", "title" | "titles":
                self.in_title = True
            case "in", _:
                self.problems.append(f"Unknown filter “in:{value}”. Try in:title.")
            case "has", "reasoning":
                self.has_reasoning = True
            case "has", _:
                self.problems.append(f"Unknown filter “has:{value}”. Try has:reasoning.")
            case "role", role:
                self._take_role(value, role)
            case "folder", folder:
                self.folders.append(folder[:_FOLDER_PATTERN_LIMIT])
            case "file", _:
                self.files.append(value[:_FOLDER_PATTERN_LIMIT])
            case "tag", _:
                self.tags.append(value[:_FOLDER_PATTERN_LIMIT])
            case _, day:
                self._take_day(name, value, day)

    def _take_role(self, value: str, role: str) -> None:
        if role in set(Role):
            self.roles.add(Role(role))
        else:
            names = ", ".join(Role)
            self.problems.append(f"Unknown filter “role:{value}”. Use one of {names}.")

    def _take_day(self, name: str, value: str, day: str) -> None:
        moment = self._start_of(day)
        if moment is None:
            self.problems.append(f"“{name}:{value}” isn't a date. Write it like {name}:2026-05-31.")
        elif name == "before":
            self.before = moment
        else:
            self.after = moment

    def _start_of(self, day: str) -> datetime | None:
        """When that day, month or year begins here, in UTC."""
        if day in ("today", "yesterday"):
            begun = self._today - timedelta(days=int(day == "yesterday"))
            return _midnight(begun.year, begun.month, begun.day)
        match = _DATE.match(day)
        if match is None:
            return None
        year, month, number = (int(part or 1) for part in match.groups())
        return _midnight(year, month, number)


def _midnight(year: int, month: int, day: int) -> datetime | None:
    try:
        return datetime(year, month, day).astimezone().astimezone(UTC)
    except (ValueError, OverflowError, OSError):
        return None
