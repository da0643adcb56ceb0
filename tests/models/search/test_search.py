"""Search: what is found, in which order, and that what is typed is never an instruction."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import example, given, strategies as st
from store_records import START, a_conversation, a_message, next_time

from models.conversations import writing
from models.migrations.migrating import create_tables
from models.records import (
    Attachment,
    Conversation,
    Folder,
    Message,
    MessageState,
    Role,
    SearchPage,
)
from models.search.index import create_search_index, cut, query_for
from models.search.search import FIRST_SPAN, find
from models.store.connecting import close, connect_in_memory
from models.store.store import Store


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
    return [hit.message_id for hit in store.search(text).result(20).hits]


def test_titles_come_first_then_messages_newest_first(
    store: Store, chat: Conversation, say: Callable[..., str]
) -> None:
    first, second = say("Europe is a continent."), say("Which one? Europe.")
    hits = store.search("europe").result().hits
    assert [hit.message_id for hit in hits] == [None, second, first]
    assert {hit.conversation_id for hit in hits} == {chat.id}
    assert {hit.conversation_title for hit in hits} == {"Capitals of Europe"}
    assert hits[1].role is Role.USER
    assert hits[1].snippet == "Which one? Europe."
    assert len(store.search("europe", 1).result().hits) == 2
    assert store.search("europe", 0).result().hits == ()


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


@pytest.mark.parametrize(
    ("typed", "text"),
    [
        ("🙂", "Well done 🙂!"),
        ("→", "a → b"),
        ("&&", "if (a && b)"),
        (":=", "x := 1"),
        ("c++", "written in C++ only"),
        ("C# code", "some code in C#"),
        ("100%", "it is 100% sure"),
        ("a_b%", "a_b% and more"),
        ("-", "this - that"),
        ("*", "2 * 3"),
        ('"x := 1"', "let x := 1 hold"),
        ("€ 5", "it costs € 50"),
    ],
)
def test_signs_are_found(store: Store, say: Callable[..., str], typed: str, text: str) -> None:
    """Also in titles and reasoning; what is like them in LIKE's eyes is not taken for them."""
    other = say("No such signs here: axb, 1000, cat, x: 1 = code, done.")
    message = say(text)
    assert found(store, typed) == [message]
    thought = say("Nothing.", reasoning=text)
    assert found(store, typed) == [thought, message]
    store.update_conversation(store.list_conversations().result()[0].id, title=text).result()
    assert found(store, typed) == [None, thought, message]
    assert other not in found(store, typed)


def test_the_line_of_a_sign_marks_it(store: Store, say: Callable[..., str]) -> None:
    say("if (a && b) return")
    (hit,) = store.search("&&", 5).result().hits
    assert [hit.snippet[a:b] for a, b in hit.marks] == ["&&"]


def test_punctuation_among_words_is_none_of_them(store: Store, say: Callable[..., str]) -> None:
    message = say("The quick brown fox")
    assert found(store, "quick - fox") == found(store, "(quick, brown)") == [message]


@pytest.mark.parametrize("typed", ["", " ", '"', '""', "\0", '" "'])
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
    assert store.search("behind").result().hits[0].snippet == "before behind"


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
    assert store.purge_some(trashed.replace(year=trashed.year + 1)).result() == 1

    def counted(connection: Any) -> list[Any]:
        # 'integrity-check' compares nothing in a table without content: look at the terms.
        connection.exec_driver_sql(
            "CREATE VIRTUAL TABLE temp.terms USING fts5vocab('main', 'message_search', 'row')"
        )
        return list(connection.exec_driver_sql("SELECT term FROM temp.terms"))

    assert store._write(counted).result() == []


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

    store._write(rebuild).result()
    assert found(store, "elephant") == found(store, "北京") == [message]
    assert found(store, "capitals") == [None]


@given(st.text(max_size=30))
@example('NEAR("a" OR b) AND NOT content:*^ {x}: -')
def test_nothing_that_is_typed_is_an_error(typed: str) -> None:
    connection = connect_in_memory()
    with connection.begin():
        create_tables(connection)
        assert find(connection, typed, 5).hits == ()
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


# --- filters ------------------------------------------------------------------------------------


def test_filters_narrow_the_search(store: Store, chat: Conversation) -> None:
    def say(content: str, **fields: Any) -> str:
        return store.append_message(a_message(chat, content=content, **fields)).result().id

    question = say("rain in May", created_at=datetime(2026, 5, 4, 12, tzinfo=UTC))
    answer = say(
        "rain again",
        role=Role.ASSISTANT,
        reasoning="think of rain",
        created_at=datetime(2026, 6, 4, 12, tzinfo=UTC),
    )
    assert found(store, "rain") == [answer, question]
    assert found(store, "rain role:user") == [question]
    assert found(store, "role:user role:assistant rain") == [answer, question]
    assert found(store, "has:reasoning") == [answer]
    assert found(store, "rain before:2026-06") == [question]
    assert found(store, "rain after:2026-06-01") == [answer]
    assert found(store, "rain after:2026-05-01 before:2026-06-01") == [question]
    assert found(store, "capitals in:title") == [None]
    assert found(store, "rain in:title") == []
    assert found(store, "role:system rain") == []


def test_a_message_is_found_by_the_name_of_its_picture(store: Store) -> None:
    chat = a_conversation()
    store.create_conversation(chat)
    attached = Attachment(
        "p", chat.id, "Holiday_100%.png", "", 4, next_time(), kind="picture", details={"width": 4}
    )
    question = a_message(chat, content="What is this?", attachments=(attached,))
    other = a_message(chat, question, content="What is this?")
    for message in (question, other):
        store.append_message(message)
    for typed in ("file:holiday", "this file:100%", 'file:"y_1"'):
        assert found(store, typed) == [question.id], typed
    assert found(store, "file:hol_day") == []
    assert found(store, "there file:holiday") == []


def test_the_folder_filter_takes_the_folders_inside_too(store: Store) -> None:
    outer = store.create_folder(Folder("f1", "Work at home", START)).result()
    inner = store.create_folder(Folder("f2", "Taxes", START, parent_id=outer.id)).result()
    ids = []
    for folder in (None, outer.id, inner.id):
        conversation = store.create_conversation(a_conversation(folder_id=folder)).result()
        ids.append(store.append_message(a_message(conversation, content="forms")).result().id)
    assert found(store, "forms") == ids[::-1]
    assert found(store, "forms folder:work") == [ids[2], ids[1]]
    assert found(store, 'folder:"work at home" forms') == [ids[2], ids[1]]
    assert found(store, "forms folder:TAX") == [ids[2]]
    page = store.search("forms folder:garden").result()
    assert page.hits == ()
    assert page.problems == ("No folder is named “garden”.",)


def test_what_was_deleted_in_a_chat_is_not_found(
    store: Store, say: Callable[..., str], execute: Callable[..., Any]
) -> None:
    kept, gone = say("zebra"), say("zebra")
    execute("UPDATE message SET trashed_us = 1 WHERE id = ?", gone)
    assert found(store, "zebra") == [kept]


# --- pages --------------------------------------------------------------------------------------


def test_pages_follow_each_other_without_a_gap(store: Store, say: Callable[..., str]) -> None:
    ids = [say(f"zebra {number}") for number in range(25)]
    seen: list[str | None] = []
    below = None
    while True:
        page = store.search("zebra", 10, below).result()
        seen += [hit.message_id for hit in page.hits]
        below = page.next_below
        if below is None:
            break
    assert seen == ids[::-1]


def test_titles_alone_are_paged_too(store: Store) -> None:
    ids = [
        store.create_conversation(a_conversation(title=f"zebra {number}")).result().id
        for number in range(25)
    ]
    first = store.search("zebra in:title", 15).result()
    second = store.search("zebra in:title", 15, first.next_below).result()
    assert [hit.conversation_id for hit in (*first.hits, *second.hits)] == ids[::-1]
    assert second.next_below is None
    both = store.search("zebra", 15).result()
    assert (len(both.hits), both.has_more_titles) == (15, True)


def test_a_search_out_of_patience_says_where_to_go_on() -> None:
    """Time that runs out between two spans ends a page early, and the next one goes on."""
    connection = connect_in_memory()
    with connection.begin():
        create_tables(connection)
        connection.exec_driver_sql(
            "INSERT INTO conversation(row_id, id, title, kind, created_us, updated_us, is_pinned,"
            " is_archived, is_titled_by_user, system_prompt, draft)"
            " VALUES (1, 'c', 't', 'chat', 0, 0, 0, 0, 0, '', '')"
        )
        for row in (1, FIRST_SPAN * 4):
            connection.exec_driver_sql(
                "INSERT INTO message(row_id, id, conversation_row_id, role, state, created_us,"
                " is_pinned, content, reasoning)"
                " VALUES (?, ?, 1, 'user', 'complete', 0, 0, 'zebra', '')",
                (row, f"m{row}"),
            )
        hours = itertools.count(step=3600)
        pages: list[SearchPage] = []
        below: int | None = None
        while not pages or below is not None:
            pages.append(find(connection, "zebra role:user", 5, below, lambda: next(hours)))
            below = pages[-1].next_below
    close(connection)
    assert len(pages) > 1
    assert [h.message_id for page in pages for h in page.hits] == [f"m{FIRST_SPAN * 4}", "m1"]


# --- against a plain reference ------------------------------------------------------------------

WORDS = ("rain", "Rain", "rainy", "wind", "café", "北京", "京都", "snow")


@given(
    st.lists(
        st.tuples(
            st.lists(st.sampled_from(WORDS), max_size=4),
            st.lists(st.sampled_from(WORDS), max_size=2),
            st.sampled_from([Role.USER, Role.ASSISTANT]),
        ),
        max_size=8,
    ),
    st.lists(st.sampled_from(("rain", "wind", "cafe", "snow", '"rain wind"')), max_size=2),
    st.sampled_from(("", "role:user", "has:reasoning", "role:assistant has:reasoning")),
)
def test_search_finds_what_a_plain_loop_finds(
    texts: list[tuple[list[str], list[str], Role]], typed: list[str], filters: str
) -> None:
    connection = connect_in_memory()
    with connection.begin():
        create_tables(connection)
        conversation = writing.create_conversation(connection, a_conversation(title="x"))
        messages = [
            writing.append_message(
                connection,
                a_message(
                    conversation, content=" ".join(content), reasoning=" ".join(why), role=role
                ),
            )
            for content, why, role in texts
        ]
        asked = " ".join([*typed, filters]).strip()
        hits = find(connection, asked, 50).hits
    close(connection)
    expected = [m.id for m in reversed(messages) if asked and plainly_matches(m, typed, filters)]
    assert [hit.message_id for hit in hits] == expected


def plainly_matches(message: Message, typed: list[str], filters: str) -> bool:
    if "role:user" in filters and message.role is not Role.USER:
        return False
    if "role:assistant" in filters and message.role is not Role.ASSISTANT:
        return False
    if "has:reasoning" in filters and not message.reasoning:
        return False
    fields = [
        part.casefold().replace("é", "e").split() for part in (message.content, message.reasoning)
    ]
    for number, piece in enumerate(typed):
        wanted = piece.strip('"').split()
        is_open = number == len(typed) - 1 and not piece.endswith('"')
        if not any(holds(words, wanted, is_open) for words in fields):
            return False
    return True


def holds(words: list[str], wanted: list[str], is_open: bool) -> bool:
    for start in range(len(words) - len(wanted) + 1):
        part = words[start : start + len(wanted)]
        if part[:-1] == wanted[:-1] and (
            part[-1].startswith(wanted[-1]) if is_open else part[-1] == wanted[-1]
        ):
            return True
    return False


# --- the way to a hit ---------------------------------------------------------------------------


def test_the_way_to_a_message_keeps_the_active_path_where_it_can(
    store: Store, chat: Conversation
) -> None:
    def say(parent: Message | None) -> Message:
        return store.append_message(a_message(chat, parent)).result()

    root = say(None)
    left = say(root)
    left_end = say(left)
    right_end = say(say(root))
    assert store.leaf_through(root.id).result() == right_end.id
    assert store.leaf_through(left.id).result() == left_end.id
    store.set_active_leaf(chat.id, left_end.id)
    assert store.leaf_through(root.id).result() == left_end.id
    assert store.leaf_through(right_end.id).result() == right_end.id
