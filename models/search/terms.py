"""The index's own words that begin as the last typed word does.

FTS5 answers `"with" *` by merging every occurrence of every word that begins so, before the
first row comes: a frequent word costs tens of milliseconds in a million messages. Asked for
the words themselves, `"with" OR "within" OR "without"`, it walks their lists side by side from
the newest row on and stops at the limit. Beginnings of two and three letters have lists of
their own in the index (`prefix='2 3'`) and need none of this.

What must hold: both questions find the same rows. So only letters are looked up whose form in
the index is known for certain, and of a beginning with more words than `MOST` nothing is known.
"""

from __future__ import annotations

import re
from typing import Final

from sqlalchemy import Connection

from models.search.index import CJK_PATTERN, is_finished, pieces
from models.search.snippet import fold

MOST: Final = 120
"""Looking up a word and walking its list costs about 0.1 ms; so many cost what merging may."""

_LETTER = "[0-9A-Za-z\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u017e\u0400-\u045f]"
_BEGINNING = re.compile(f"{_LETTER}{{4,}}")
_HAS_WORD = re.compile(f"{_LETTER}|{CJK_PATTERN}")

_TABLE: Final = "message_words"
_MAKE = f"""
    CREATE VIRTUAL TABLE IF NOT EXISTS temp.{_TABLE}
    USING fts5vocab('main', 'message_search', 'instance')
"""
# The least word from a place on is one step into the index; U+0001 is in no word and before
# every letter, so the next step begins behind all occurrences of the word before.
_WORDS = f"""
    WITH RECURSIVE found(term) AS (
        SELECT (SELECT term FROM temp.{_TABLE} WHERE term >= :beginning LIMIT 1)
        UNION ALL
        SELECT (SELECT term FROM temp.{_TABLE} WHERE term >= found.term || char(1) LIMIT 1)
        FROM found WHERE found.term < :behind LIMIT :limit
    )
    SELECT term FROM found WHERE term < :behind
"""
_HIGHEST = "\U0010ffff"


def words_that_begin(connection: Connection, typed: str) -> tuple[str, ...]:
    """All words of messages that begin as the last one typed; empty where they are too many,
    none, or where the index may write them in another way.

    'hello with'  ->  ('with', 'within', 'without')
    """
    beginning = _beginning(typed)
    if not beginning:
        return ()
    _make_table(connection)
    bound = {"beginning": beginning, "behind": beginning + _HIGHEST, "limit": MOST + 2}
    words = tuple(row[0] for row in connection.exec_driver_sql(_WORDS, bound))
    return words if len(words) <= MOST else ()


def _beginning(typed: str) -> str:
    """The last word as the index writes it, where that is known, and that the pieces before it
    are words to the index: of one that is none it takes no notice, unless an AND stands there.

    Of Cyrillic letters the index keeps the accents that `fold` takes away: й is not и.
    """
    *before, last = pieces(typed) or [""]
    if is_finished(typed) or not _BEGINNING.fullmatch(last):
        return ""
    if not all(map(_HAS_WORD.search, before)):
        return ""
    return "".join(char.lower() if char >= "\u0400" else fold(char) for char in last)


def _make_table(connection: Connection) -> None:
    """The view of the index's words is this connection's own, and nothing of it is on disk. It
    is gone with a transaction that failed."""
    sought = "SELECT 1 FROM sqlite_temp_master WHERE name = ?"
    if connection.exec_driver_sql(sought, (_TABLE,)).first():
        return
    is_guarded = connection.exec_driver_sql("PRAGMA query_only").scalar()
    connection.exec_driver_sql("PRAGMA query_only = OFF")
    try:
        connection.exec_driver_sql(_MAKE)
    finally:
        connection.exec_driver_sql(f"PRAGMA query_only = {'ON' if is_guarded else 'OFF'}")
