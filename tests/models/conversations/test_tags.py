"""Tags in the store against plain dictionaries, and in what is searched, copied and imported."""

from __future__ import annotations

import unicodedata

from each import each
from examples import examples
from hypothesis import given, settings, strategies as st
from store_records import a_conversation, a_message, next_time

from models.conversations import folders, reading, tags, writing
from models.conversations.tag_names import MAX_LENGTH, MAX_TAGS, cleaned, key_of, tidied
from models.migrations.migrating import create_tables
from models.records import PathStretch, WholeConversation
from models.search.query import parse
from models.store.connecting import close, connect_in_memory
from models.store.store import Store

NAMES = ["work", "Work", "Arbeit", "#home", "straße", "STRASSE", "e\u0301t\u00e9", "été", "東京"]
CHATS = ["a", "b", "c"]
ACTS = st.one_of(
    st.tuples(st.just("set"), st.sampled_from(CHATS), st.lists(st.sampled_from(NAMES))),
    st.tuples(st.just("rename"), st.sampled_from(NAMES), st.sampled_from([*NAMES, ""])),
    st.tuples(st.just("undo"), st.none(), st.none()),
)


def meaning(name: str) -> str:
    """What makes two names one tag, said in another way than the code does."""
    return unicodedata.normalize("NFKC", name.lstrip("#")).casefold()


@settings(max_examples=examples(40))
@given(acts=st.lists(ACTS, max_size=10))
def test_tags_do_what_sets_in_a_dictionary_do(acts: list[tuple[str, str, object]]) -> None:
    connection = connect_in_memory()
    plain: dict[str, set[str]] = {chat: set() for chat in CHATS}
    before: list[tuple[tags.Before, dict[str, set[str]]]] = []
    with connection.begin():
        create_tables(connection)
        for chat in CHATS:
            writing.create_conversation(connection, a_conversation(id=chat))
        for act, what, value in acts:
            if act == "set":
                assert isinstance(value, list)
                folders.change_conversations(connection, {what: {"tags": value}})
                plain[what] = set(map(meaning, value))
                before.clear()
            elif act == "rename":
                had = {chat: set(names) for chat, names in plain.items() if meaning(what) in names}
                before.append((tags.rename_tag(connection, what, str(value)), had))
                for chat in had:
                    plain[chat] = plain[chat] - {meaning(what)} | {meaning(str(value))} - {""}
            elif before:
                undone, had = before.pop()
                tags.put_back(connection, undone)
                plain |= had
        stored = {c.id: c.tags for c in reading.list_conversations(connection)}
    close(connection)
    assert {chat: set(map(meaning, names)) for chat, names in stored.items()} == plain
    assert all(len(names) == len(plain[chat]) for chat, names in stored.items())


@each(
    ("typed", "name"),
    [
        ("#work", "work"),
        ("  a \t b\n", "a b"),
        ('say "hi", you', "say hi you"),
        ("\u202eevil", "evil"),
        ("\u200b\ufeff", ""),
        ("C#", "C#"),
        ("!?", "!?"),
        ("x" * 500, "x" * MAX_LENGTH),
        ("e\u0301", "é"),
        ("a\x00b", "a b"),
        ("👩\u200d💻", "👩\u200d💻"),
        ("می\u200cخواهم\u200c", "می\u200cخواهم"),
    ],
)
def test_a_name_can_be_seen_and_typed(typed: str, name: str) -> None:
    assert cleaned(typed) == name
    assert cleaned(name) == name


@settings(max_examples=examples(100))
@given(st.lists(st.text(max_size=60), max_size=50))
def test_tidied_names_are_stable_each_once_and_bounded(names: list[str]) -> None:
    found = tidied(names)
    assert tidied(found) == found
    assert len(found) <= MAX_TAGS
    assert len(set(map(key_of, found))) == len(found)
    assert all(0 < len(name) <= MAX_LENGTH for name in found)
    # Whatever it is called, it can be searched for.
    assert all(parse(f'tag:"{name}"').tags == (name,) for name in found)


def test_they_come_along_and_are_searched(store: Store) -> None:
    work = store.create_conversation(a_conversation(title="Taxes", tags=("work", "2026"))).result()
    other = store.create_conversation(a_conversation(title="Taxes again")).result()
    for chat in (work, other):
        store.append_message(a_message(chat, content="How much tax? #include")).result()
    assert work.tags == ("2026", "work")
    assert store.load_conversation(work.id).result()[0].tags == ("2026", "work")

    def found(typed: str) -> list[tuple[str, bool]]:
        page = store.search(typed).result()
        return [(hit.conversation_id, hit.message_id is None) for hit in page.hits]

    both = [(other.id, True), (work.id, True), (other.id, False), (work.id, False)]
    assert found("tax") == both
    for typed in ("tag:work", "#WORK", "tag:wor", 'tag:"work" #2026'):
        assert found(typed) == [(work.id, True)], typed
    assert found("tax tag:work") == found("#work tax") == [(work.id, True), (work.id, False)]
    assert found("#include") == [(other.id, False), (work.id, False)]
    assert found('"#work"') == found("tag:work tag:home") == []
    assert "No tag is named “home”." in store.search("tag:home").result().problems

    message = store.load_conversation(work.id).result()[1][0]
    copy = a_conversation(id="copy", tags=work.tags)
    copied = store.copy_conversation(copy, PathStretch(message.id, None, work.id)).result()
    assert copied.tags == work.tags
    brought = a_conversation(id="brought", tags=("#New", "new", "x" * 99))
    store.add_all([WholeConversation(brought, (a_message(brought),))])
    assert store.read_whole("brought").result().conversation.tags == ("New", "x" * MAX_LENGTH)

    store.trash_conversation(other.id).result()
    store.update_conversation(other.id, tags=("Work",), updated_at=next_time()).result()
    before = store.rename_tag("work", "job").result()
    assert before == {work.id: ("2026", "work"), other.id: ("Work",), "copy": ("2026", "work")}
    store.put_tags_back(before).result()
    assert store.restore_conversation(other.id).result().tags == ("Work",)
