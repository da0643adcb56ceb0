"""The words behind a beginning: asked for one by one, they find what the beginning finds."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, strategies as st
from sqlalchemy import Connection
from store_records import a_conversation, a_message

from models.conversations import writing
from models.migrations.migrating import create_tables
from models.search.index import query_for
from models.search.terms import MOST, words_that_begin
from models.store.connecting import close, connect_for_reading, connect_in_memory
from models.store.store import Store

LETTERS = [chr(code) for code in range(0x30, 0x460) if chr(code).isalnum()]


def filled(*texts: str) -> Connection:
    """A database with these messages, whose row keys are 1, 2, …"""
    connection = connect_in_memory()
    with connection.begin():
        create_tables(connection)
        chat = writing.create_conversation(connection, a_conversation())
        for text in texts:
            writing.append_message(connection, a_message(chat, content=text))
    return connection


def rows(connection: Connection, match: str) -> list[int]:
    found = connection.exec_driver_sql(
        "SELECT rowid FROM message_search WHERE message_search MATCH ? ORDER BY rowid DESC",
        (match,),
    )
    return [row[0] for row in found]


def look_and_fail(connection: Connection) -> None:
    transaction = connection.begin()
    words_that_begin(connection, "with")
    transaction.rollback()


KNOWN = "azAZ09äÄéÉßñøœčŞйЙёЁжя"
UNKNOWN = "µſάς"


@pytest.fixture(scope="module")
def of_letters() -> Iterator[Connection]:
    connection = filled(*(f"ab{letter}cd" for letter in LETTERS))
    yield connection
    close(connection)


@pytest.mark.parametrize("one_of", [5, pytest.param(1, marks=pytest.mark.soak)])
def test_every_letter_is_looked_up_as_the_index_writes_it(
    one_of: int, of_letters: Connection
) -> None:
    """Capitals and accents as well; a letter whose form is not known is not looked up."""
    known = set()
    with of_letters.begin():
        for letter in [*LETTERS[::one_of], *KNOWN, *UNKNOWN]:
            typed = f"ab{letter}c"
            words = words_that_begin(of_letters, typed)
            if words:
                known.add(letter)
                assert rows(of_letters, query_for(typed, words)) == rows(
                    of_letters, query_for(typed)
                ), letter
    assert known >= set(KNOWN)
    assert not known & set(UNKNOWN)


def test_all_words_with_that_beginning_are_found_and_no_other() -> None:
    connection = filled("with Within", "wit witty wither without", "WITH", "w within")
    with connection.begin():
        assert words_that_begin(connection, "with") == ("with", "wither", "within", "without")
        assert words_that_begin(connection, "so it is withi") == ("within",)
        assert words_that_begin(connection, '"in a phrase" With') == (
            "with",
            "wither",
            "within",
            "without",
        )
        assert words_that_begin(connection, "withal") == ()
    close(connection)


@pytest.mark.parametrize(
    "typed", ["", "wit", "with-in", '"with"', '"a with', "with北京", "北京", "withε", "ꟲ with"]
)
def test_what_the_index_may_write_otherwise_is_left_to_it(typed: str) -> None:
    connection = filled("with within")
    with connection.begin():
        assert words_that_begin(connection, typed) == ()
    close(connection)


@pytest.mark.parametrize(("count", "is_known"), [(MOST, True), (MOST + 1, False)])
def test_of_a_beginning_with_too_many_words_nothing_is_known(count: int, is_known: bool) -> None:
    connection = filled(*(f"with{number:04}" for number in range(count)), "wither")
    with connection.begin():
        assert len(words_that_begin(connection, "with0")) == (count if is_known else 0)
        query = query_for("with0", words_that_begin(connection, "with0"))
        assert rows(connection, query) == list(range(count, 0, -1))
    close(connection)


def test_a_connection_that_reads_stays_one(store: Store, database: Path) -> None:
    chat = store.create_conversation(a_conversation()).result()
    store.append_message(a_message(chat, content="with within")).result()
    connection = connect_for_reading(database, "ro", busy_timeout_s=1.0)
    try:
        with connection.begin():
            assert words_that_begin(connection, "with") == ("with", "within")
            assert connection.exec_driver_sql("PRAGMA query_only").scalar() == 1
        look_and_fail(connection)
        store.append_message(a_message(chat, content="withal")).result()
        with connection.begin():
            assert words_that_begin(connection, "with") == ("with", "withal", "within")
    finally:
        close(connection)
    with sqlite3.connect(database) as raw:
        names = [row[0] for row in raw.execute("SELECT name FROM sqlite_master")]
    raw.close()
    assert not [name for name in names if name.startswith("message_words")]


def test_the_words_are_there_again_after_a_transaction_that_failed() -> None:
    connection = filled("with within")
    look_and_fail(connection)
    with connection.begin():
        assert words_that_begin(connection, "with") == ("with", "within")
    close(connection)


# fmt: off
PARTS = st.sampled_from([
    "with", "With", "within", "wither", "rain", "raïn", "Дождь", "дожди", "北京", "北", "ꟲ",
    "-", "without.rain", "ª", "1234", "12345", "über", "uberall",
])
# fmt: on


@given(
    st.lists(st.lists(PARTS, max_size=5).map(" ".join), min_size=1, max_size=8),
    st.lists(PARTS, max_size=2),
    st.sampled_from(["with", "Wither", "rain", "Дожд", "дождь", "1234", "Über", "withou"]),
)
def test_both_questions_find_the_same(texts: list[str], before: list[str], last: str) -> None:
    connection = filled(*texts)
    typed = " ".join([*before, last])
    with connection.begin():
        words = words_that_begin(connection, typed)
        assert rows(connection, query_for(typed, words)) == rows(connection, query_for(typed))
        plain = [word.lower() for text in texts for word in re.findall(r"[^\W_]+", text)]
        if last == "withou" and "without" in plain and not before:
            assert words == ("without",)
    close(connection)
