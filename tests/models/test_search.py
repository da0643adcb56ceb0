"""Search: what is found, in which order, and that what is typed is never an instruction."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import example, given, strategies as st
from store_records import a_conversation, a_message

from models.connecting import close, connect_in_memory
from models.migrations.migrating import create_tables
from models.records import Conversation, MessageState, Role
from models.search import find, snippet
from models.search_index import create_search_index, cut, query_for
from models.store import Store


@pytest.fixture
def chat(store: Store) -> Conversation:
    conversation = a_conversation(title="Capitals of Europe")
    return store.create_conversation(conversation).result()


@pytest.fixture
def say(store: Store, chat: Conversation) -> Callable[..., str]:
    """say(content, **fields) appends a message; its id."""
    return lambda content, **fields: (
        store.append_message(a_message(chat, content=content, **fields)).result().id
    )


def found(store: Store, text: str) -> list[str | None]:
    return [hit.message_id for hit in store.search(text).result(20)]


def test_titles_come_first_then_messages_newest_first(
    store: Store, chat: Conversation, say: Callable[..., str]
) -> None:
    first, second = say("Europe is a continent."), say("Which one? Europe.")
    hits = store.search("europe").result()
    assert [hit.message_id for hit in hits] == [None, second, first]
    assert {hit.conversation_id for hit in hits} == {chat.id}
    assert {hit.conversation_title for hit in hits} == {"Capitals of Europe"}
    assert hits[1].role is Role.USER
    assert hits[1].snippet == "Which one? Europe."
    assert len(store.search("europe", 1).result()) == 2
    assert store.search("europe", 0).result() == ()


@pytest.mark.parametrize(
    ("typed", "hit"),
    [
        ("quick brown", True),
        ("brown quick", True),
        ('"quick brown"', True),
        ('"brown quick"', False),
        ('"quick bro', True),
        ("qui", True),
        ("qui brown", False),
        ("QUICK", True),
        ("uick", False),
        ("jum fox", False),
        ("cafe", True),
        ("café", True),
        ("naïve", True),
        ("quick absent", False),
        ("foo.bar", True),
        ("foo c++", True),
    ],
)
def test_words(store: Store, say: Callable[..., str], typed: str, hit: bool) -> None:
    message = say("The quick brown fox jumps over a naïve Café; foo.bar() in C++.")
    assert found(store, typed) == ([message] if hit else [])


@pytest.mark.parametrize("typed", ["", " ", '"', '""', "*", "++", "-", "'", "\0", "( )", '" "'])
def test_nothing_to_search_for_finds_nothing(
    store: Store, say: Callable[..., str], typed: str
) -> None:
    say("something * ++ ' -")
    assert found(store, typed) == []


@pytest.mark.parametrize(
    ("typed", "hit"),
    [
        ("北", True),
        ("京", True),
        ("北京", True),
        ("我爱北京", True),
        ("爱北京", True),
        ("京北", False),
        ("我北", False),
        ("天安门 北京", True),
        ("京 abc", False),
        ("北京 天安", True),
        ("GPT模型", True),
        ("模型v2", True),
        ("型v2", True),
        ("GPT模", True),
        ("ひらがな", True),
        ("한국", True),
        ("국어", True),
        ("𠀋", True),
    ],
)
def test_chinese_japanese_and_korean(
    store: Store, say: Callable[..., str], typed: str, hit: bool
) -> None:
    message = say("我爱北京天安门。GPT模型v2 ひらがな 한국어 𠀋𠀌")
    assert found(store, typed) == ([message] if hit else [])


def test_text_behind_a_nul_is_found(store: Store, say: Callable[..., str]) -> None:
    """Case B19."""
    message = say("before\0behind")
    assert found(store, "behind") == [message]
    assert found(store, "before\0behind") == [message]
    assert store.search("behind").result()[0].snippet == "before behind"


def test_the_index_follows_every_change(
    store: Store, chat: Conversation, say: Callable[..., str]
) -> None:
    message = say("elephant", reasoning="giraffe")
    assert found(store, "giraffe") == [message]
    store.update_message(message, content="zebra")
    assert found(store, "elephant") == []
    assert found(store, "zebra giraffe") == [message]
    store.update_message(message, is_pinned=True)
    assert found(store, "zebra") == [message]
    store.update_conversation(chat.id, title="Animals")
    assert found(store, "capitals") == []
    assert found(store, "animals") == [None]
    store.trash_conversation(chat.id)
    assert found(store, "zebra") == found(store, "animals") == []
    store.restore_conversation(chat.id)
    assert found(store, "zebra") == [message]


def test_a_reply_is_found_when_it_is_finished(store: Store, say: Callable[..., str]) -> None:
    reply = say("", role=Role.ASSISTANT, state=MessageState.STREAMING)
    store.save_streaming_text(reply, "an antelope")
    assert found(store, "antelope") == []
    store.update_message(reply, state=MessageState.STOPPED)
    assert found(store, "antelope") == [reply]


def test_what_is_purged_leaves_the_index(store: Store, chat: Conversation) -> None:
    store.append_message(a_message(chat, content="elephant"))
    trashed = store.trash_conversation(chat.id).result().trashed_at
    assert trashed is not None
    assert store.purge_trash(trashed.replace(year=trashed.year + 1)).result() == 1

    def counted(connection: Any) -> list[Any]:
        # 'integrity-check' compares nothing in a table without content: look at the terms.
        connection.exec_driver_sql(
            "CREATE VIRTUAL TABLE temp.terms USING fts5vocab('main', 'message_search', 'row')"
        )
        return list(connection.exec_driver_sql("SELECT term FROM temp.terms"))

    assert store._write(counted, None).result() == []


def test_the_index_is_rebuilt_with_the_tables(store: Store, say: Callable[..., str]) -> None:
    """What a migration does that builds `message` anew."""
    message = say("elephant 北京")

    def rebuild(connection: Any) -> None:
        connection.exec_driver_sql("PRAGMA defer_foreign_keys = ON")
        connection.exec_driver_sql("DROP TRIGGER message_search_insert")
        connection.exec_driver_sql("DROP TRIGGER message_search_update")
        connection.exec_driver_sql("DROP TRIGGER message_search_delete")
        for name in ("insert", "delete", "update"):
            connection.exec_driver_sql(f"DROP TRIGGER conversation_search_{name}")
        connection.exec_driver_sql("DROP TABLE message_search")
        connection.exec_driver_sql("DROP TABLE conversation_search")
        create_search_index(connection, fill=True)

    store._write(rebuild, None).result()
    assert found(store, "elephant") == found(store, "北京") == [message]
    assert found(store, "capitals") == [None]


@given(st.text(max_size=30))
@example('NEAR("a" OR b) AND NOT content:*^ {x}: -')
def test_nothing_that_is_typed_is_an_error(typed: str) -> None:
    connection = connect_in_memory()
    with connection.begin():
        create_tables(connection)
        assert find(connection, typed, 5) == ()
    close(connection)


@given(st.text(alphabet="ab 北京天𠀋。-", min_size=1, max_size=12), st.data())
def test_every_part_of_a_text_finds_it(text: str, data: st.DataObject) -> None:
    """Any run of CJK characters in a text, and any words of it, lead back to it."""
    start = data.draw(st.integers(0, len(text) - 1))
    end = data.draw(st.integers(start + 1, len(text)))
    typed = text[start:end]
    before = text[start - 1] if start else " "
    if before in "ab" and typed[0] in "ab":
        return  # the middle of a word
    query = query_for(typed)
    if not query:
        return
    connection = connect_in_memory()
    with connection.begin():
        connection.exec_driver_sql(
            "CREATE VIRTUAL TABLE t USING fts5(x, content='', tokenize='unicode61')"
        )
        connection.exec_driver_sql("INSERT INTO t(rowid, x) VALUES (1, ?)", (cut(text),))
        hits = connection.exec_driver_sql("SELECT rowid FROM t WHERE t MATCH ?", (query,)).all()
        assert hits == [(1,)], (cut(text), query)
    close(connection)


def test_snippets_are_one_line_around_the_word() -> None:
    long = "word " * 100 + "here\nis the\tplace " + "word " * 100
    line = snippet(long, "place")
    assert line.startswith("…")
    assert line.endswith("…")
    assert "here is the place word" in line
    assert len(line) < 200
    assert snippet("short", "absent") == "short"
    assert snippet("a [bracket] (", "[bracket") == "a [bracket] ("
