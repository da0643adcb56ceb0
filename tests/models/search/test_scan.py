"""Search against a plain scan of everything, in random databases of mixed scripts.

The scan knows nothing of the index: it takes texts apart into words and CJK signs and looks
for the pieces that were typed, row by row; for one with a plus, letter by letter as well.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from random import Random

import pytest
from sqlalchemy import Connection
from store_records import a_conversation, a_message

from models.conversations import folders, writing
from models.migrations.migrating import create_tables
from models.records import Folder, Message, Role, SearchHit
from models.search.search import TITLE_LIMIT, find
from models.store.connecting import close, connect_in_memory

NOON = datetime(2026, 5, 10, 12, tzinfo=UTC)
# fmt: off
WORDS = [
    "rain", "rainy", "Rainbow", "RAINS", "raïn", "café", "Cafeteria", "the", "Über", "uber",
    "дождь", "Дожди", "бой", "бои", "北京", "京都", "我爱北京", "北京天安门", "GPT模型", "模型v2",
    "ひらがな", "한국어", "foo.bar", "C++", "1234", "12345", "don't", "-",
]
# fmt: on
PAGE = 4

# --- the plain scan -----------------------------------------------------------------------------

Atom = tuple[str, bool]
"""A word or one CJK sign, and whether it is a sign that the next one follows at once."""


def is_cjk(char: str) -> bool:
    return unicodedata.name(char, "").startswith(("CJK", "HIRAGANA", "HANGUL"))


def atoms(text: str) -> list[Atom]:
    found: list[Atom] = []
    for part in re.findall(r"[^\W_]+", text):
        for run in re.findall(r"[一-鿿ぁ-ゟ가-힣]+|[^一-鿿ぁ-ゟ가-힣]+", part):
            if is_cjk(run[0]):
                found += [(char, at < len(run) - 1) for at, char in enumerate(run)]
            else:
                found.append((plain(run), False))
    return found


def plain(word: str) -> str:
    """As the index compares: Latin letters without their accents, others with them."""
    return "".join(
        unicodedata.normalize("NFD", char)[0] if char < "\u0250" else char for char in word.lower()
    )


def stands_in(piece: list[Atom], text: list[Atom], *, is_open: bool) -> bool:
    """Whether the piece is a run of the text's atoms; the last word may go on where it is open,
    the last sign always."""
    return any(
        all(
            fits(wanted, there, is_last=at == len(piece) - 1, is_open=is_open)
            for at, (wanted, there) in enumerate(zip(piece, text[start:], strict=False))
        )
        for start in range(len(text) - len(piece) + 1)
    )


def fits(wanted: Atom, there: Atom, *, is_last: bool, is_open: bool) -> bool:
    (sought, is_glued), (found, goes_on) = wanted, there
    if is_cjk(sought[0]):
        return sought == found and (is_last or is_glued == goes_on)
    return found.startswith(sought) if is_last and is_open else sought == found


def matches(pieces: list[str], *fields: str) -> bool:
    texts = [atoms(field) for field in fields]
    return all(
        any(stands_in(atoms(piece), text, is_open=is_open) for text in texts)
        for number, piece in enumerate(pieces)
        for is_open in [
            number == len(pieces) - 1 and not piece.startswith('"') and piece[-1] != "+"
        ]
    ) and all(
        any(piece.strip('"').lower() in field.lower() for field in fields)
        for piece in pieces
        if "+" in piece
    )


# --- the databases ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Chat:
    title: str
    folder: str | None
    is_archived: bool
    is_trashed: bool
    messages: tuple[tuple[str, str, Role, int, bool], ...]
    """Content, reasoning, role, days after NOON, whether it is in the trash."""


def some_text(dice: Random) -> str:
    return " ".join(dice.choices(WORDS, k=dice.randint(0, 6)))


def a_chat(dice: Random) -> Chat:
    return Chat(
        title=some_text(dice),
        folder=dice.choice([None, "work", "taxes"]),
        is_archived=dice.random() < 0.3,
        is_trashed=dice.random() < 0.2,
        messages=tuple(
            (
                some_text(dice),
                dice.choice(["", some_text(dice)]),
                dice.choice([Role.USER, Role.ASSISTANT]),
                dice.randint(-2, 2),
                dice.random() < 0.2,
            )
            for _ in range(dice.randint(0, 12))
        ),
    )


@dataclass(frozen=True, slots=True)
class Asked:
    """Words with what they were made of, and filters."""

    pieces: tuple[str, ...] = ()
    role: Role | None = None
    has_reasoning: bool = False
    before: int | None = None
    after: int | None = None
    folder: str = ""
    in_title: bool = False

    @property
    def typed(self) -> str:
        parts = list(self.pieces)
        for name, day in (("before", self.before), ("after", self.after)):
            if day is not None:
                parts.insert(0, f"{name}:{NOON + timedelta(days=day):%Y-%m-%d}")
        if self.role:
            parts.insert(0, f"role:{self.role}")
        if self.has_reasoning:
            parts.insert(0, "has:reasoning")
        if self.folder:
            parts.insert(0, f"folder:{self.folder}")
        if self.in_title:
            parts.insert(0, "in:title")
        return " ".join(parts)

    def takes_time(self, when: datetime) -> bool:
        day = (when.astimezone().date() - NOON.astimezone().date()).days
        return (self.before is None or day < self.before) and (
            self.after is None or day >= self.after
        )

    def takes_folder(self, folder: str | None) -> bool:
        """“taxes” lies in “work”."""
        return not self.folder or folder == self.folder or (folder, self.folder) == FOLDERS


FOLDERS = ("taxes", "work")


def words_typed(dice: Random) -> tuple[str, ...]:
    """Beginnings of words, whole words, phrases in quotation marks, runs of signs."""
    pieces = tuple(a_piece(dice) for _ in range(dice.choice([0, 1, 1, 1, 1, 2, 3])))
    if len(pieces) == 1 and len(pieces[0]) == 1:
        return (f'"{pieces[0]}"',)  # one letter alone is a word
    return pieces


def a_piece(dice: Random) -> str:
    word = dice.choice([word for word in WORDS if word != "-"])
    start = dice.randrange(len(word)) if is_cjk(word[0]) else 0
    part = word[start : dice.randint(start + 1, len(word))]
    match dice.choice(["beginning", "beginning", "whole", "quoted", "pair"]):
        case "whole":
            return word
        case "quoted":
            return f'"{part}"'
        case "pair":
            return f'"{dice.choice(("rain", "café", "дождь", "the"))} {part}"'
    return part


def a_question(dice: Random) -> Asked:
    asked = Asked(words_typed(dice))
    if dice.random() < 0.5:
        return asked
    asked = replace(
        asked,
        before=dice.choice([None, None, 0, 1]),
        after=dice.choice([None, None, -1, 0]),
        folder=dice.choice(["", "", "work", "taxes"]),
    )
    if dice.random() < 0.3:
        return replace(asked, in_title=True)
    return replace(
        asked,
        role=dice.choice([None, Role.USER, Role.ASSISTANT]),
        has_reasoning=dice.random() < 0.3,
    )


def build(connection: Connection, made: list[Chat]) -> dict[str, str]:
    """Store them; their numbers by the ids of messages and chats."""
    create_tables(connection)
    for name, parent in (("work", None), ("taxes", "work")):
        folders.create_folder(connection, Folder(name, name, NOON, parent_id=parent))
    ids: dict[str, str] = {}
    for number, chat in enumerate(made):
        stored = writing.create_conversation(
            connection,
            a_conversation(
                title=chat.title,
                folder_id=chat.folder,
                is_archived=chat.is_archived,
                updated_at=NOON - timedelta(days=9),
            ),
        )
        ids[stored.id] = f"{number}"
        parent: Message | None = None
        for at, (content, reasoning, role, day, is_trashed) in enumerate(chat.messages):
            parent = writing.append_message(
                connection,
                a_message(
                    stored,
                    parent,
                    content=content,
                    reasoning=reasoning,
                    role=role,
                    created_at=NOON + timedelta(days=day),
                ),
            )
            ids[parent.id] = f"{number}.{at}"
            if is_trashed:
                connection.exec_driver_sql(
                    "UPDATE message SET trashed_us = 1 WHERE id = ?", (parent.id,)
                )
                parent = None
        if chat.is_trashed:
            writing.trash_conversation(connection, stored.id)
    return ids


def scanned(made: list[Chat], asked: Asked) -> list[str]:
    """Numbers of what should be found, in order."""
    if asked in (Asked(), Asked(in_title=True)):
        return []
    pieces = [piece for piece in asked.pieces if atoms(piece)]
    wants_titles = bool(pieces) and not (asked.role or asked.has_reasoning)
    found = []
    for number, chat in reversed(list(enumerate(made))):
        updated = max([NOON + timedelta(days=m[3]) for m in chat.messages] + [START_OF_CHATS])
        is_wanted = wants_titles or asked.in_title
        is_there = is_open(chat, asked) and asked.takes_time(updated)
        if is_wanted and is_there and matches(pieces, chat.title):
            found.append(f"{number}")
    if asked.in_title:
        return found
    found = found[: min(TITLE_LIMIT, PAGE)]
    for number, chat in reversed(list(enumerate(made))):
        for at, (content, reasoning, role, day, is_trashed) in reversed(
            list(enumerate(chat.messages))
        ):
            if (
                not is_trashed
                and is_open(chat, asked)
                and asked.takes_time(NOON + timedelta(days=day))
                and asked.role in (None, role)
                and (reasoning or not asked.has_reasoning)
                and matches(pieces, content, reasoning)
            ):
                found.append(f"{number}.{at}")
    return found


START_OF_CHATS = NOON - timedelta(days=9)


def is_open(chat: Chat, asked: Asked) -> bool:
    return not chat.is_trashed and asked.takes_folder(chat.folder)


def all_pages(connection: Connection, typed: str) -> list[SearchHit]:
    page = find(connection, typed, PAGE)
    hits = list(page.hits)
    while page.next_below is not None:
        page = find(connection, typed, PAGE, page.next_below)
        assert page.hits
        hits += page.hits
    return hits


@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(1, 8))]
)
def test_every_search_finds_what_a_plain_scan_finds(seed: int) -> None:
    dice = Random(seed)
    made = [a_chat(dice) for _ in range(14)]
    connection = connect_in_memory()
    n_found = 0
    try:
        with connection.begin():
            ids = build(connection, made)
            for _ in range(120):
                asked = a_question(dice)
                hits = all_pages(connection, asked.typed)
                names = [ids[hit.message_id or hit.conversation_id] for hit in hits]
                assert names == scanned(made, asked), asked.typed
                n_found += len(hits) > 1
                for hit in hits:
                    assert hit.is_archived == made[int(ids[hit.conversation_id])].is_archived
                    assert bool(hit.marks) == any(map(atoms, asked.pieces))
    finally:
        close(connection)
    assert n_found > 30, "these databases hold too little of what is asked for"
