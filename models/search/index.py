"""What is indexed for search, and how text is cut for it.

Two FTS5 tables without content of their own (`rowid` is the `row_id` of the message or
conversation) are kept by triggers. A reply enters when it is no longer `streaming`, so that
saving it once a second does not index it once a second.

FTS5's tokenizer takes a run of Chinese, Japanese or Korean text for one word. So such runs
are cut into overlapping pairs before indexing, and a last single character:

    "我爱北京"  ->  "我爱 爱北 北京 京"

The search for 北京 then is a word, one for 爱北京 the phrase "爱北 北京", and one for 京 the
beginning of a word. SQL calls this cutting `search_text(text)`; every connection that writes
defines it (`models.store.connecting`).
"""

from __future__ import annotations

import re
import sqlite3
import unicodedata
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from sqlalchemy import Connection

CJK_PATTERN = (
    "[\u1100-\u11ff\u3005-\u3007\u3040-\u30ff\u3130-\u318f\u31f0-\u31ff\u3400-\u4dbf"
    "\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003ffff]+"
)
_CJK = re.compile(CJK_PATTERN)
_CJK_AT_END = re.compile(f"{CJK_PATTERN}$")
_SIGNS = frozenset("#%&@/\\<>=+^|~$`")
"""ASCII that programs, addresses and sums mean. What prose has around its words is none."""

_STATEMENTS = (
    """
    CREATE VIRTUAL TABLE message_search USING fts5(
        content, reasoning, content='', prefix='2 3', tokenize='unicode61 remove_diacritics 2'
    )
    """,
    """
    CREATE VIRTUAL TABLE conversation_search USING fts5(
        title, content='', prefix='2 3', tokenize='unicode61 remove_diacritics 2'
    )
    """,
    """
    CREATE TRIGGER message_search_insert AFTER INSERT ON message
    WHEN new.state <> 'streaming' BEGIN
        INSERT INTO message_search(rowid, content, reasoning)
        VALUES (new.row_id, search_text(new.content), search_text(new.reasoning));
    END
    """,
    """
    CREATE TRIGGER message_search_delete AFTER DELETE ON message
    WHEN old.state <> 'streaming' BEGIN
        INSERT INTO message_search(message_search, rowid, content, reasoning)
        VALUES ('delete', old.row_id, search_text(old.content), search_text(old.reasoning));
    END
    """,
    """
    CREATE TRIGGER message_search_update AFTER UPDATE OF content, reasoning, state ON message
    BEGIN
        INSERT INTO message_search(message_search, rowid, content, reasoning)
        SELECT 'delete', old.row_id, search_text(old.content), search_text(old.reasoning)
        WHERE old.state <> 'streaming';
        INSERT INTO message_search(rowid, content, reasoning)
        SELECT new.row_id, search_text(new.content), search_text(new.reasoning)
        WHERE new.state <> 'streaming';
    END
    """,
    """
    CREATE TRIGGER conversation_search_insert AFTER INSERT ON conversation BEGIN
        INSERT INTO conversation_search(rowid, title)
        VALUES (new.row_id, search_text(new.title));
    END
    """,
    """
    CREATE TRIGGER conversation_search_delete AFTER DELETE ON conversation BEGIN
        INSERT INTO conversation_search(conversation_search, rowid, title)
        VALUES ('delete', old.row_id, search_text(old.title));
    END
    """,
    """
    CREATE TRIGGER conversation_search_update AFTER UPDATE OF title ON conversation BEGIN
        INSERT INTO conversation_search(conversation_search, rowid, title)
        VALUES ('delete', old.row_id, search_text(old.title));
        INSERT INTO conversation_search(rowid, title)
        VALUES (new.row_id, search_text(new.title));
    END
    """,
)


_FILL = (
    """
    INSERT INTO message_search(rowid, content, reasoning)
    SELECT row_id, search_text(content), search_text(reasoning) FROM message
    WHERE state <> 'streaming'
    """,
    """
    INSERT INTO conversation_search(rowid, title)
    SELECT row_id, search_text(title) FROM conversation
    """,
)


TABLES: Final = ("message_search", "conversation_search")
_SHADOWS: Final = tuple(
    f"{table}_{part}" for table in TABLES for part in ("data", "idx", "docsize", "config")
)
_TRIGGERS: Final = tuple(
    f"{table}_{act}" for table in TABLES for act in ("insert", "delete", "update")
)


def is_sound(raw: sqlite3.Connection, *, check_all: bool) -> bool:
    """Whether the index is there with all that belongs to it; check_all: and holds together."""
    names = {name for (name,) in raw.execute("SELECT name FROM sqlite_master")}
    if not names.issuperset((*TABLES, *_SHADOWS, *_TRIGGERS)):
        return False
    try:
        for table in TABLES if check_all else ():
            raw.execute(f"INSERT INTO {table}({table}) VALUES ('integrity-check')")
    except sqlite3.DatabaseError as error:
        if (getattr(error, "sqlite_errorcode", 0) & 0xFF) == sqlite3.SQLITE_CORRUPT:
            return False
        raise
    return True


def rebuild_search_index(connection: Connection) -> None:
    """Make it anew of the texts, whatever is left of the old one.

    A virtual table that lacks its own tables cannot be dropped, so it is first struck from the
    schema; what was its own are then plain tables.
    """
    for trigger in _TRIGGERS:
        connection.exec_driver_sql(f"DROP TRIGGER IF EXISTS {trigger}")
    connection.exec_driver_sql("PRAGMA writable_schema = ON")
    for table in TABLES:
        connection.exec_driver_sql("DELETE FROM sqlite_master WHERE name = ?", (table,))
    connection.exec_driver_sql("PRAGMA writable_schema = RESET")
    for shadow in _SHADOWS:
        connection.exec_driver_sql(f"DROP TABLE IF EXISTS {shadow}")
    create_search_index(connection, fill=True)


def create_search_index(connection: Connection, *, fill: bool = False) -> None:
    """Create the tables and triggers, and index what is there already where `fill` is set."""
    for statement in (*_STATEMENTS, *(_FILL if fill else ())):
        connection.exec_driver_sql(statement)


def cut(text: object) -> str:
    """Text as it is indexed: runs of CJK in overlapping pairs, the rest as it is."""
    if not isinstance(text, str):
        return ""
    if text.isascii():
        return text
    return _CJK.sub(lambda match: f" {_pairs(match.group())} ", text)


def query_for(text: str, last_words: tuple[str, ...] = ()) -> str:
    """An FTS5 query for what somebody typed; empty where there is nothing to search for.

    Every piece is quoted, so no character of the user's is an operator. A piece in quotation
    marks is a phrase; the last piece may be the beginning of a word. `last_words`: all words that
    begin so, where they are known.

        'hello "big wor'  ->  '"hello" "big wor" *'
        'hello wor'       ->  '"hello" AND ("word" OR "world")', with the words given
    """
    queries = [query for piece in pieces(text) if (query := _phrase(piece))]
    if queries and last_words:
        before, words = " ".join(queries[:-1]), '" OR "'.join(last_words)
        return f'{before} AND ("{words}")' if before else f'("{words}")'
    is_open = not is_finished(text) and not _ends_in_a_sign(text)
    if queries and is_open and not queries[-1].endswith("*"):
        queries[-1] += " *"
    return " ".join(queries)


def literals(text: str) -> tuple[str, ...]:
    """The pieces with signs that the index leaves out: they have to be looked for in the texts.
    Punctuation counts where nothing else was typed.

    >>> literals("🙂 && c++ don't (see: it) - so"), literals(" - ")
    (('🙂', '&&', 'c++'), ('-',))
    """
    found = pieces(text)
    signs = tuple(piece for piece in found if any(map(_is_sign, piece)))
    if signs or any(char.isalnum() for char in text):
        return signs
    return tuple(found)


def _is_sign(char: str) -> bool:
    return char in _SIGNS if char.isascii() else unicodedata.category(char).startswith("S")


def _ends_in_a_sign(text: str) -> bool:
    """Then the word before it is whole: `c++` is no beginning of `cat`."""
    return _is_sign(text.rstrip()[-1:] or " ")


def is_finished(text: str) -> bool:
    """Whether the last piece is whole: it stands in quotation marks."""
    return text.rstrip().endswith('"') and text.count('"') % 2 == 0


def pieces(text: str) -> list[str]:
    """The words and "quoted phrases" that somebody typed."""
    found: list[str] = []
    for position, part in enumerate(text.replace("\0", " ").split('"')):
        is_quoted = position % 2 == 1
        found += [" ".join(part.split())] if is_quoted else part.split()
    return [piece for piece in found if piece]


def _phrase(piece: str) -> str:
    """The piece as a quoted FTS5 phrase, or nothing where no letter or digit is in it."""
    if not any(char.isalnum() for char in piece):
        return ""
    tokens = cut(piece).split()
    run_at_end = _CJK_AT_END.search(piece)
    if run_at_end is None:
        return f'"{" ".join(tokens)}"'
    if len(run_at_end.group()) > 1:  # its last character may go on in the text: 京 in 京都
        return f'"{" ".join(tokens[:-1])}"'
    return f'"{" ".join(tokens)}" *'


def _pairs(run: str) -> str:
    return " ".join(run[i : i + 2] for i in range(len(run)))
