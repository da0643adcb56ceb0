"""Backups through the desk, on a real store."""

from __future__ import annotations

from typing import Any

from store_records import a_conversation, a_message

from app.chat import events
from models.records import BackupList


def listed(room: Any) -> BackupList:
    found: list[BackupList] = []
    room.desk.backups.list(found.append, still=lambda: True)
    return room.until(lambda: found and found[0])  # type: ignore[no-any-return]


def notices(room: Any) -> list[str]:
    return [e.sentence for e in room.events if isinstance(e, events.Noticed)]


def test_one_is_made_looked_into_and_a_chat_comes_back_out_of_it(make_room: Any) -> None:
    room = make_room().start()
    made = []
    chats = [room.store.create_conversation(a_conversation(title=t)).result() for t in "ab"]
    for chat in chats:
        room.store.append_message(a_message(chat, content="Hello")).result()
    room.desk.shelf.show_list(room.store.list_conversations().result())
    room.desk.backups.make(lambda: made.append(True))
    room.until(lambda: made)
    assert notices(room)[-1] == "Backup made and checked."
    (backup,) = listed(room).backups
    assert backup.why == "by_hand"
    looked: list[Any] = []
    room.desk.backups.look_into(backup.path, looked.append, still=lambda: True)
    room.until(lambda: looked)
    assert [(each.title, each.n_messages) for each in looked[0].chats] == [("b", 1), ("a", 1)]

    room.desk.folders.trash([chats[0].id])
    room.desk.folders.delete_for_good([chats[0].id])
    room.until(lambda: "One chat was permanently deleted." in notices(room))
    room.desk.backups.bring_back(backup.path, [each.id for each in chats], 2)
    room.until(lambda: {c.title for c in room.desk.shelf.conversations} == {"a", "b"})
    assert notices(room)[-1] == "1 chat was imported; 1 was there already."
    back = room.store.load_conversation(chats[0].id).result()
    assert [message.content for message in back[1]] == ["Hello"]


def test_a_restore_is_chosen_and_done_by_the_next_start(make_room: Any) -> None:
    room = make_room().start()
    room.store.create_conversation(a_conversation(title="then")).result()
    room.store.back_up().result()
    room.store.create_conversation(a_conversation(title="now")).result()
    (backup,) = listed(room).backups
    done: list[str] = []
    room.desk.backups.restore(backup.path, lambda: done.append("chosen"))
    room.desk.backups.keep_as_is(lambda: done.append("not"))
    room.until(lambda: len(done) == 2)
    assert listed(room).restores_at is None
    room.desk.backups.restore(backup.path, lambda: done.append("again"))
    room.until(lambda: done[2:] == ["again"])
    assert listed(room).restores_at == backup.made_at
    room.close()
    again = make_room().start()
    again.until(lambda: [c.title for c in again.desk.shelf.conversations] == ["then"])
    assert any("Restored the backup of" in each for each in notices(again))


def test_what_cannot_be_done_is_said(make_room: Any) -> None:
    room = make_room().start()
    room.desk.backups.restore("/nowhere.sqlite3", lambda: None)
    room.until(lambda: notices(room) == ["This backup is no longer there."])
    looked: list[Any] = []
    room.desk.backups.look_into("/nowhere.sqlite3", looked.append, still=lambda: True)
    room.until(lambda: looked)
    assert looked[0].why_not == "This backup is no longer there."
    room.desk.backups.bring_back("/nowhere.sqlite3", ["a"], 1)
    room.until(lambda: notices(room)[1:] == ["This backup is no longer there."])
