"""Search through the desk: pages, superseded questions, the way to a hit on another branch."""

from __future__ import annotations

from typing import Any

import pytest
from store_records import a_conversation, a_message

from app.chat import events


@pytest.fixture
def room(make_room: Any) -> Any:
    return make_room().start()


def answers(room: Any) -> list[events.SearchAnswered]:
    return [e for e in room.events if isinstance(e, events.SearchAnswered)]


def sought(room: Any) -> list[str]:
    return [e.message_id for e in room.events if isinstance(e, events.MessageSought)]


def put(room: Any, *texts: str) -> list[str]:
    conversation = room.store.create_conversation(a_conversation(title="Weather")).result()
    made = [a_message(conversation, content=text) for text in texts]
    for each in made:
        room.store.append_message(each).result()
    return [each.id for each in made]


def test_the_answer_carries_what_was_typed(room: Any) -> None:
    rain, _ = put(room, "rain", "wind")
    room.desk.searching.search("rain role:usr")
    room.until(lambda: answers(room))
    (answer,) = answers(room)
    assert (answer.typed, answer.is_first, answer.has_more) == ("rain role:usr", True, False)
    assert [hit.message_id for hit in answer.hits] == [rain]
    assert "role:usr" in answer.problems[0]


def test_nothing_to_search_for_is_answered_at_once(room: Any) -> None:
    room.desk.searching.search("   ")
    assert answers(room) == [events.SearchAnswered("   ", (), True)]


def test_only_the_newest_question_is_answered(room: Any) -> None:
    put(room, *(f"rain {number}" for number in range(200)))
    for length in range(1, 5):
        room.desk.searching.search("rain"[:length])
    room.desk.searching.search("wind")
    room.until(lambda: answers(room))
    room.store.search("x").result()  # whatever was asked before is settled by now
    room.pump()
    assert [answer.typed for answer in answers(room)] == ["wind"]


def test_an_answer_on_its_way_is_dropped_when_the_field_is_emptied(room: Any) -> None:
    put(room, "rain")
    room.desk.searching.search("rain")
    room.store.list_trash().result()  # the search is answered, the answer not taken yet
    room.desk.searching.search("")
    room.pump()
    assert [answer.typed for answer in answers(room)] == [""]


def test_pages_come_when_they_are_asked_for(room: Any) -> None:
    ids = put(room, *(f"rain {number}" for number in range(100)))
    room.desk.searching.search("rain")
    room.until(lambda: len(answers(room)) == 1)
    while answers(room)[-1].has_more:
        count = len(answers(room))
        room.desk.searching.more()
        room.desk.searching.more()
        room.until(lambda count=count: len(answers(room)) > count)
    hits = [hit.message_id for answer in answers(room) for hit in answer.hits]
    assert hits == ids[::-1]
    room.desk.searching.more()
    room.pump()
    assert [answer.is_first for answer in answers(room)] == [True, False, False, False]


def test_a_hit_opens_its_chat_at_the_message(room: Any) -> None:
    (rain,) = put(room, "rain")
    conversation_id = room.store.load_message(rain).result().conversation_id
    room.desk.searching.open_at(conversation_id, rain)
    room.until(lambda: sought(room) == [rain])
    assert room.desk.shelf.open.id == conversation_id
    room.desk.searching.open_at(conversation_id, rain)
    assert sought(room) == [rain, rain]


@pytest.mark.parametrize("is_open", [True, False])
def test_a_hit_on_another_branch_shows_that_branch(room: Any, is_open: bool) -> None:
    store = room.store
    conversation = store.create_conversation(a_conversation()).result()
    root = store.append_message(a_message(conversation, content="root")).result()
    old = store.append_message(a_message(conversation, root, content="old version")).result()
    old_end = store.append_message(a_message(conversation, old, content="old end")).result()
    new = store.append_message(a_message(conversation, root, content="new version")).result()
    if is_open:
        room.desk.shelf.open_stored(conversation.id)
        room.until(lambda: [m.id for m in room.desk.shelf.path] == [root.id, new.id])
    room.desk.searching.open_at(conversation.id, old.id)
    room.until(lambda: sought(room) == [old.id])
    assert [m.id for m in room.desk.shelf.path] == [root.id, old.id, old_end.id]
    room.desk.searching.open_at(conversation.id, new.id)
    room.until(lambda: sought(room) == [old.id, new.id])
    assert [m.id for m in room.desk.shelf.path] == [root.id, new.id]
