"""A database of a million messages to search in, made anew in a folder.

The words follow Zipf's law, as those of people do: the most frequent stand in every other
message, most in a handful. Frequent English words come first, because a long frequent word is
another thing for an index than a short one; the rest is made of syllables. One message in
thirty is Chinese.
"""

from __future__ import annotations

import itertools
import random
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from models.migrations.migrating import create_tables
from models.store.connecting import close, connect_in_memory, open_raw

SEED = 20
PER_CONVERSATION = 50
CHINESE_EVERY = 30
_ENGLISH = (
    "the of and to in is that for it with as this are on be have from which there would about"
    " their other could should because between something without"
)
FREQUENT = _ENGLISH.split()
START_US = 1_700_000_000_000_000
_PARTS = (
    "ba be bi bo bu da de di do du fa fe ga ge go ka ke ki ko la le li lo lu ma me mi mo mu na ne "
    "ni no pa pe pi po ra re ri ro ru sa se si so su ta te ti to tu va ve vi wa we ya zo"
)
_SYLLABLES = _PARTS.split()


def word(rank: int) -> str:
    """The word of that rank; frequent ones are short."""
    if rank < len(FREQUENT):
        return FREQUENT[rank]
    rank -= len(FREQUENT)
    count = len(_SYLLABLES)
    syllables = [_SYLLABLES[rank % count]]
    while rank >= count:
        rank = rank // count - 1
        syllables.append(_SYLLABLES[(rank * 7 + len(syllables)) % count])
    return "".join(syllables)


class Words:
    """Sentences of Zipf's words, the same for the same seed."""

    def __init__(self, seed: int = SEED, n_words: int = 60_000) -> None:
        self._dice = random.Random(seed)
        self._words = [word(rank) for rank in range(n_words)]
        self.signs = [chr(0x4E00 + number * 7) for number in range(2_000)]
        self._weights = list(itertools.accumulate(1 / (rank + 3) for rank in range(n_words)))
        self._sign_weights = list(itertools.accumulate(1 / (n + 8) for n in range(2_000)))

    def sentence(self) -> str:
        count = self._dice.randint(5, 16)
        return " ".join(self._dice.choices(self._words, cum_weights=self._weights, k=count)) + "."

    def chinese(self) -> str:
        count = self._dice.randint(10, 60)
        return "".join(self._dice.choices(self.signs, cum_weights=self._sign_weights, k=count))

    def message(self, number: int) -> str:
        if number % CHINESE_EVERY == 0:
            return self.chinese()
        return " ".join(self.sentence() for _ in range(self._dice.randint(1, 4)))


def build(path: Path, count: int, *, batch: int = 20_000) -> None:
    """The database at `path`, which must not exist, with `count` messages in chats of 50."""
    raw = sqlite3.connect(path)
    raw.close()
    _create(path)
    raw = open_raw(path, "rw")
    try:
        raw.execute("PRAGMA journal_mode = WAL")
        raw.execute("PRAGMA synchronous = OFF")
        words = Words()
        for first in range(0, count, batch):
            last = min(first + batch, count)
            raw.execute("BEGIN")
            raw.executemany(_CONVERSATION, _conversations(words, first, last))
            raw.executemany(_MESSAGE, _messages(words, first, last))
            raw.execute("COMMIT")
    finally:
        raw.close()


def _create(path: Path) -> None:
    connection = connect_in_memory()
    try:
        with connection.begin():
            create_tables(connection)
        raw = connection.connection.dbapi_connection
        assert isinstance(raw, sqlite3.Connection)
        target = sqlite3.connect(path)
        raw.backup(target)
        target.close()
    finally:
        close(connection)


_CONVERSATION = """
    INSERT INTO conversation(row_id, id, title, kind, created_us, updated_us, is_pinned,
        is_archived, is_titled_by_user, system_prompt, draft, active_leaf_id)
    VALUES (?, ?, ?, 'chat', ?, ?, 0, 0, 0, '', '', ?)
"""
_MESSAGE = """
    INSERT INTO message(row_id, id, conversation_row_id, parent_row_id, role, state, created_us,
        is_pinned, content, reasoning)
    VALUES (?, ?, ?, ?, ?, 'complete', ?, 0, ?, '')
"""


def _conversations(words: Words, first: int, last: int) -> Iterator[tuple[object, ...]]:
    for number in range(first, last, PER_CONVERSATION):
        row = number // PER_CONVERSATION + 1
        leaf = f"m{min(number + PER_CONVERSATION, last)}"
        time_us = START_US + number * 1_000_000
        yield row, f"c{row}", words.sentence(), time_us, time_us, leaf


def _messages(words: Words, first: int, last: int) -> Iterator[tuple[object, ...]]:
    for number in range(first, last):
        row = number + 1
        place = number % PER_CONVERSATION
        role = "user" if place % 2 == 0 else "assistant"
        parent = row - 1 if place else None
        chat = number // PER_CONVERSATION + 1
        time_us = START_US + number * 1_000_000
        yield row, f"m{row}", chat, parent, role, time_us, words.message(number)
