"""Folders in the store against a plain reference: nothing that happens to one loses a chat."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta

import pytest
from examples import examples
from hypothesis import given, settings, strategies as st
from sqlalchemy import Connection
from store_records import START, a_conversation

from models.conversations import folders, reading, writing
from models.migrations.migrating import create_tables
from models.records import Folder
from models.store.connecting import close, connect_in_memory
from models.store.errors import NotFoundError, RefusedError
from models.store.store import Store

FOLDERS = [f"f{number}" for number in range(4)]
CHATS = [f"c{number}" for number in range(4)]
PLACES = st.sampled_from([*FOLDERS, None])
ACTS = st.one_of(
    st.tuples(st.just("move folder"), st.sampled_from(FOLDERS), PLACES),
    st.tuples(st.just("move chat"), st.sampled_from(CHATS), PLACES),
    st.tuples(st.just("delete"), st.sampled_from(FOLDERS), st.none()),
    st.tuples(st.just("undo"), st.sampled_from(FOLDERS), st.none()),
)


class Plain:
    """What folders and chats should be, as two dictionaries."""

    def __init__(self) -> None:
        self.parents: dict[str, str | None] = dict.fromkeys(FOLDERS)
        self.places: dict[str, str | None] = dict.fromkeys(CHATS)
        self.deleted: dict[str, tuple[str | None, list[str], list[str]]] = {}

    def is_below(self, place: str | None, folder: str) -> bool:
        while place is not None and place != folder:
            place = self.parents.get(place)
        return place == folder

    def move_folder(self, folder: str, parent: str | None) -> bool:
        known = folder in self.parents and (parent is None or parent in self.parents)
        if not known or self.is_below(parent, folder):
            return False
        self.parents[folder] = parent
        return True

    def delete(self, folder: str) -> None:
        above = self.parents.pop(folder)
        chats = [chat for chat, place in self.places.items() if place == folder]
        inner = [each for each, place in self.parents.items() if place == folder]
        self.places |= dict.fromkeys(chats, above)
        self.parents |= dict.fromkeys(inner, above)
        self.deleted[folder] = (above, chats, inner)

    def undo(self, folder: str) -> None:
        above, chats, inner = self.deleted.pop(folder)
        self.parents[folder] = above
        self.places |= {chat: folder for chat in chats if self.places[chat] == above}
        back = [each for each in inner if each in self.parents and self.parents[each] == above]
        self.parents |= dict.fromkeys(back, folder)


@pytest.fixture(scope="module")
def connection() -> Iterator[Connection]:
    """Tables that are made once; each example rolls back what it did."""
    made = connect_in_memory()
    with made.begin():
        create_tables(made)
    yield made
    close(made)


@settings(max_examples=examples(60))
@given(acts=st.lists(ACTS, max_size=14))
def test_folders_do_what_two_dictionaries_do(
    connection: Connection, acts: list[tuple[str, str, str | None]]
) -> None:
    plain = Plain()
    contents: dict[str, tuple[Folder, folders.Contents]] = {}
    with connection.begin() as transaction:
        for each in FOLDERS:
            folders.create_folder(connection, Folder(each, each, START))
        for each in CHATS:
            writing.create_conversation(connection, a_conversation(id=each))
        for act, what, place in acts:
            if act == "move folder":
                if plain.move_folder(what, place):
                    folders.move_folder(connection, what, place)
                else:
                    with pytest.raises((RefusedError, NotFoundError)):
                        folders.move_folder(connection, what, place)
            elif act == "move chat" and (place is None or place in plain.parents):
                plain.places[what] = place
                folders.change_conversations(connection, {what: {"folder_id": place}})
            elif act == "delete" and what in plain.parents:
                record = next(f for f in folders.list_folders(connection) if f.id == what)
                contents[what] = (record, folders.take_out(connection, what))
                plain.delete(what)
            elif act == "undo" and what in plain.deleted:
                above = plain.deleted[what][0]
                if above is None or above in plain.parents:
                    folders.put_back(connection, *contents.pop(what))
                    plain.undo(what)
        stored = {f.id: f.parent_id for f in folders.list_folders(connection)}
        places = {c.id: c.folder_id for c in reading.list_conversations(connection)}
        transaction.rollback()
    assert stored == plain.parents
    assert places == plain.places


def test_many_conversations_are_changed_in_one_go(store: Store) -> None:
    chats = [a_conversation() for _ in range(1200)]
    made = store._write(lambda c: [writing.create_conversation(c, each) for each in chats]).result()
    changes = {each.id: {"is_pinned": True} for each in made} | {"nobody": {"is_pinned": True}}
    changed = store.change_conversations(changes).result()
    assert {c.id: c for c in changed} == {c.id: replace(c, is_pinned=True) for c in made}
    assert all(c.is_pinned for c in store.list_conversations().result())


def test_the_trash_is_purged_bit_by_bit_the_oldest_first(store: Store) -> None:
    times = [START + timedelta(days=number) for number in range(5)]
    made = [store.create_conversation(a_conversation()).result() for _ in times]
    trashed = {c.id: {"trashed_at": when} for c, when in zip(made, times, strict=True)}
    store.change_conversations(trashed).result()
    latest = times[3]
    assert store.purge_some(latest, 2).result() == 2
    assert {c.id for c in store.list_trash().result()} == {c.id for c in made[2:]}
    assert store.purge_some(latest, 2).result() == 1
    assert store.purge_some(latest, 2).result() == 0
    assert {c.id for c in store.list_trash().result()} == {c.id for c in made[3:]}


def test_only_what_is_in_the_trash_is_deleted_for_good(store: Store) -> None:
    kept, gone = (store.create_conversation(a_conversation()).result() for _ in range(2))
    store.trash_conversation(gone.id).result()
    assert store.delete_trashed([kept.id, gone.id, "nobody"]).result() == 1
    assert [c.id for c in store.list_conversations().result()] == [kept.id]
    assert store.list_trash().result() == ()
