"""Messages that wait for the reply before them: order, failures, other chats, restarts."""

from __future__ import annotations

from typing import Any

from app.chat import events
from models.records import Role

SLOW: dict[str, Any] = {
    "replies": [
        {"match": "slow", "tokens": [{"text": "slow ", "ms": 5, "repeat": 4000}]},
        {"match": "brief", "tokens": [{"text": "brief ", "ms": 5, "repeat": 50}]},
        {"match": "die", "tokens": [{"text": "half "}, {"exit": 3}]},
        {"text": "Quick."},
    ],
}


def said(room: Any) -> list[str]:
    return [m.content for m in room.desk.shelf.path if m.role is Role.USER]


def texts(room: Any) -> list[str]:
    return [each.text for each in room.desk.queue.of_open]


def begin_slow(room: Any) -> None:
    begin(room, "slow")


def begin(room: Any, text: str) -> None:
    assert room.desk.replies.send(text)
    room.until(room.growing, "a growing reply")


def test_queued_messages_are_sent_in_order_when_the_reply_ends(make_room):
    room = make_room(SLOW).start_ready()
    begin(room, "brief")
    assert room.desk.queue.add("one")
    assert room.desk.queue.add("two")
    assert texts(room) == ["one", "two"]
    assert said(room) == ["brief"]
    room.until(lambda: said(room) == ["brief", "one", "two"] and room.ended_reply())
    assert [m.content for m in room.desk.shelf.path][-3:] == ["Quick.", "two", "Quick."]
    assert texts(room) == []
    assert room.of(events.QueueChanged)[-1].messages == ()
    assert room.desk.shelf.open.draft == ""


def test_without_a_reply_in_the_making_it_is_sent_at_once(make_room):
    room = make_room(SLOW).start_ready()
    room.ask("Hello")
    assert room.desk.queue.add("next")
    room.until(lambda: len(room.desk.shelf.path) == 4 and room.ended_reply())
    assert said(room) == ["Hello", "next"]


def test_nothing_is_queued_without_words(make_room):
    room = make_room(SLOW).start_ready()
    begin_slow(room)
    assert not room.desk.queue.add(" \n")
    assert texts(room) == []


def test_a_queued_message_can_be_changed_and_removed(make_room):
    room = make_room(SLOW).start_ready()
    begin_slow(room)
    for text in ("one", "two", "three"):
        room.desk.queue.add(text)
    one, two, _three = room.desk.queue.of_open
    room.desk.queue.change(one.id, "first")
    room.desk.queue.remove(two.id)
    assert texts(room) == ["first", "three"]
    room.desk.shelf.undo(room.of(events.Noticed)[-1].undo)
    assert texts(room) == ["first", "two", "three"]
    room.desk.queue.change(one.id, "  ")
    assert texts(room)[0] == "first"


def test_one_that_is_being_edited_waits(make_room):
    room = make_room(SLOW).start_ready()
    begin(room, "brief")
    room.desk.queue.add("one")
    (one,) = room.desk.queue.of_open
    room.desk.queue.edit(one.id)
    room.until(room.ended_reply)
    assert texts(room) == ["one"]
    room.desk.queue.change(one.id, "one and more")
    room.until(lambda: said(room) == ["brief", "one and more"] and room.ended_reply())


def test_the_composer_keeps_its_text_while_the_queue_is_sent(make_room):
    room = make_room(SLOW).start_ready()
    begin(room, "brief")
    room.desk.queue.add("one")
    room.desk.shelf.save_draft("half a thought")
    room.until(lambda: said(room) == ["brief", "one"] and room.ended_reply())
    room.until(lambda: room.desk.shelf.open.draft == "half a thought")


def test_after_a_failed_reply_they_wait_until_the_user_says_so(make_room):
    room = make_room(SLOW).start_ready()
    room.desk.replies.send("die")
    room.desk.queue.add("afterwards")
    room.until(lambda: room.ended_reply() and room.ended_reply().error)
    last = room.of(events.QueueChanged)[-1]
    assert last.is_held
    assert texts(room) == ["afterwards"]
    room.desk.queue.send_next()
    room.until(lambda: said(room) == ["die", "afterwards"] and room.ended_reply())
    assert room.ended_reply().content == "Quick."


def test_stop_holds_them_until_the_user_says_so(make_room):
    room = make_room(SLOW).start_ready()
    begin_slow(room)
    room.desk.queue.add("one")
    room.desk.queue.add("two")
    room.desk.replies.stop()
    room.until(room.ended_reply)
    assert room.of(events.QueueChanged)[-1].is_held
    room.ask("Instead")
    assert said(room) == ["slow", "Instead"], "an answer to something else sends nothing"
    assert texts(room) == ["one", "two"]
    room.desk.queue.send_next()
    room.until(lambda: said(room)[2:] == ["one", "two"] and room.ended_reply())


def test_stop_holds_them_also_in_a_chat_that_is_not_on_screen(make_room):
    room = make_room(SLOW).start_ready()
    begin_slow(room)
    first = room.desk.shelf.open.id
    room.desk.queue.add("one")
    room.desk.shelf.open_new()
    room.desk.replies._stop_in(first)
    room.until(lambda: not room.desk.replies.is_busy(first))
    room.desk.shelf.open_stored(first)
    room.until(lambda: room.desk.shelf.open.id == first)
    assert texts(room) == ["one"]
    assert room.of(events.QueueChanged)[-1].is_held


def test_stopping_one_of_several_answers_does_not_hold_them(make_room):
    room = make_room(SLOW).start_ready()
    room.ask("Hello")
    begin(room, "brief")
    room.until(lambda: room.ended_reply())
    room.desk.replies.ask_several(room.desk.shelf.path[-2].id, [{"seed": 1}, {"seed": 2}])
    room.until(lambda: room.of(events.AnswersBegan))
    room.desk.queue.add("one")
    first = room.of(events.AnswersBegan)[-1].messages[0]
    room.desk.growing.stop_reply(first.id)
    room.until(lambda: said(room)[-1] == "one" and room.ended_reply())


def test_they_are_sent_in_their_own_chat_while_another_is_on_screen(make_room):
    room = make_room(SLOW).start_ready()
    begin(room, "brief")
    first = room.desk.shelf.open.id
    room.desk.queue.add("one")
    room.desk.shelf.open_new()
    room.desk.shelf.save_draft("elsewhere")
    assert room.desk.queue.of_open == ()
    room.until(lambda: [m.content for m in room.stored(first)][-2:] == ["one", "Quick."])
    assert room.desk.shelf.path == ()
    room.desk.shelf.open_stored(first)
    room.until(lambda: room.desk.shelf.open.id == first)
    assert room.of(events.ConversationOpened)[-1].conversation.draft == ""
    assert said(room) == ["brief", "one"]


def test_coming_back_to_a_chat_shows_its_draft_without_what_is_queued(make_room):
    room = make_room(SLOW).start_ready()
    begin_slow(room)
    first = room.desk.shelf.open.id
    room.desk.queue.add("one")
    room.desk.shelf.save_draft("mine")
    room.desk.shelf.open_new()
    room.desk.shelf.open_stored(first)
    room.until(lambda: room.desk.shelf.open.id == first)
    assert room.of(events.ConversationOpened)[-1].conversation.draft == "mine"
    assert [each.text for each in room.of(events.QueueChanged)[-1].messages] == ["one"]


def test_what_was_queued_at_a_crash_is_a_draft_again(make_room):
    """The first room is never closed before the second one reads: as after `kill -9`."""
    room = make_room(SLOW).start_ready()
    begin_slow(room)
    room.desk.attachments.add_paste("a long text " * 500)
    room.until(lambda: room.desk.attachments.of_open)
    room.desk.queue.add("one")
    room.desk.queue.add("two")
    room.desk.shelf.save_draft("three")
    chat = room.desk.shelf.open.id
    store = room.desk.around.store
    room.until(lambda: store.load_conversation(chat).result(20)[0].draft == "one\n\ntwo\n\nthree")

    again = make_room(SLOW, read_only=True).start()
    again.until(lambda: again.desk.attachments.of_open, "the attachment is with the draft")
    opened = again.of(events.ConversationOpened)[-1].conversation
    assert opened.draft == "one\n\ntwo\n\nthree"
    assert again.desk.queue.of_open == ()


def test_attachments_go_with_the_queued_message(make_room):
    room = make_room(SLOW).start_ready()
    begin(room, "brief")
    room.desk.attachments.add_paste("a long text " * 500)
    room.until(lambda: room.desk.attachments.of_open)
    room.desk.queue.add("one")
    assert room.desk.attachments.of_open == ()
    assert [a.name for a in room.desk.queue.of_open[0].attachments] == ["Pasted text"]
    room.desk.queue.remove(room.desk.queue.of_open[0].id)
    assert [a.name for a in room.desk.attachments.of_open] == ["Pasted text"]
    room.desk.shelf.undo(room.of(events.Noticed)[-1].undo)
    assert room.desk.attachments.of_open == ()
    room.until(lambda: said(room) == ["brief", "one"] and room.ended_reply())
    assert [a.name for a in room.stored()[-2].attachments] == ["Pasted text"]


def test_a_trashed_chat_sends_nothing_and_keeps_the_texts(make_room):
    room = make_room(SLOW).start_ready()
    begin_slow(room)
    chat = room.desk.shelf.open.id
    room.desk.queue.add("one")
    room.desk.folders.trash_one(chat)
    room.until(lambda: not room.desk.replies.is_busy(chat))
    room.desk.shelf.restore(chat)
    room.until(lambda: room.desk.shelf.open.id == chat and room.desk.shelf.path)
    assert said(room) == ["slow"]
    assert room.of(events.ConversationOpened)[-1].conversation.draft == "one"


def test_stopping_before_the_weights_are_there_holds_the_queue(make_room):
    room = make_room({"load": {"ms": 60_000}, "replies": [{"text": "Never."}]}).start()
    room.desk.replies.send("first")
    room.until(lambda: room.of(events.SendQueued))
    room.desk.queue.add("second")
    room.desk.replies.stop()
    assert room.of(events.QueueChanged)[-1].is_held
    assert texts(room) == ["second"]
