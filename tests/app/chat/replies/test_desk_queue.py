"""Messages that wait for the reply before them: order, failures, other chats, restarts."""

from __future__ import annotations

from typing import Any

from app.chat import events
from models.records import Role

SLOW: dict[str, Any] = {
    "load": {"ms": 10},
    "replies": [
        {"match": "slow", "tokens": [{"text": "slow ", "ms": 5, "repeat": 4000}]},
        {"match": "brief", "tokens": [{"text": "brief ", "ms": 5, "repeat": 100}]},
        {"match": "die", "tokens": [{"text": "half "}, {"exit": 3}]},
        {"text": "Quick."},
    ],
}


def said(room: Any) -> list[str]:
    return [m.content for m in room.desk.messages if m.role is Role.USER]


def texts(room: Any) -> list[str]:
    return [each.text for each in room.desk.queued]


def begin_slow(room: Any) -> None:
    begin(room, "slow")


def begin(room: Any, text: str) -> None:
    assert room.desk.send(text)
    room.until(room.growing, "a growing reply")


def test_queued_messages_are_sent_in_order_when_the_reply_ends(make_room):
    room = make_room(SLOW).start_ready()
    begin(room, "brief")
    assert room.desk.queue_message("one")
    assert room.desk.queue_message("two")
    assert texts(room) == ["one", "two"]
    assert said(room) == ["brief"]
    room.until(lambda: said(room) == ["brief", "one", "two"] and room.ended_reply())
    assert [m.content for m in room.desk.messages][-3:] == ["Quick.", "two", "Quick."]
    assert texts(room) == []
    assert room.of(events.QueueChanged)[-1].messages == ()
    assert room.desk.conversation.draft == ""


def test_without_a_reply_in_the_making_it_is_sent_at_once(make_room):
    room = make_room(SLOW).start_ready()
    room.ask("Hello")
    assert room.desk.queue_message("next")
    room.until(lambda: len(room.desk.messages) == 4 and room.ended_reply())
    assert said(room) == ["Hello", "next"]


def test_nothing_is_queued_without_words(make_room):
    room = make_room(SLOW).start_ready()
    begin_slow(room)
    assert not room.desk.queue_message(" \n")
    assert texts(room) == []


def test_a_queued_message_can_be_changed_and_removed(make_room):
    room = make_room(SLOW).start_ready()
    begin_slow(room)
    for text in ("one", "two", "three"):
        room.desk.queue_message(text)
    one, two, _three = room.desk.queued
    room.desk.change_queued(one.id, "first")
    room.desk.remove_queued(two.id)
    assert texts(room) == ["first", "three"]
    room.desk.undo(room.of(events.Noticed)[-1].undo)
    assert texts(room) == ["first", "two", "three"]
    room.desk.change_queued(one.id, "  ")
    assert texts(room)[0] == "first"


def test_one_that_is_being_edited_waits(make_room):
    room = make_room(SLOW).start_ready()
    begin(room, "brief")
    room.desk.queue_message("one")
    (one,) = room.desk.queued
    room.desk.edit_queued(one.id)
    room.until(room.ended_reply)
    assert texts(room) == ["one"]
    room.desk.change_queued(one.id, "one and more")
    room.until(lambda: said(room) == ["brief", "one and more"] and room.ended_reply())


def test_the_composer_keeps_its_text_while_the_queue_is_sent(make_room):
    room = make_room(SLOW).start_ready()
    begin(room, "brief")
    room.desk.queue_message("one")
    room.desk.save_draft("half a thought")
    room.until(lambda: said(room) == ["brief", "one"] and room.ended_reply())
    room.until(lambda: room.desk.conversation.draft == "half a thought")


def test_after_a_failed_reply_they_wait_until_the_user_says_so(make_room):
    room = make_room(SLOW).start_ready()
    room.desk.send("die")
    room.desk.queue_message("afterwards")
    room.until(lambda: room.ended_reply() and room.ended_reply().error)
    last = room.of(events.QueueChanged)[-1]
    assert last.is_held
    assert texts(room) == ["afterwards"]
    room.desk.send_queued()
    room.until(lambda: said(room) == ["die", "afterwards"] and room.ended_reply())
    assert room.ended_reply().content == "Quick."


def test_stop_holds_them_until_the_user_says_so(make_room):
    room = make_room(SLOW).start_ready()
    begin_slow(room)
    room.desk.queue_message("one")
    room.desk.queue_message("two")
    room.desk.stop()
    room.until(room.ended_reply)
    assert room.of(events.QueueChanged)[-1].is_held
    room.ask("Instead")
    assert said(room) == ["slow", "Instead"], "an answer to something else sends nothing"
    assert texts(room) == ["one", "two"]
    room.desk.send_queued()
    room.until(lambda: said(room)[2:] == ["one", "two"] and room.ended_reply())


def test_stop_holds_them_also_in_a_chat_that_is_not_on_screen(make_room):
    room = make_room(SLOW).start_ready()
    begin_slow(room)
    first = room.desk.conversation.id
    room.desk.queue_message("one")
    room.desk.new_conversation()
    room.desk._replies.stop(first)
    room.until(lambda: not room.desk._replies.is_busy(first))
    room.desk.open_conversation(first)
    room.until(lambda: room.desk.conversation.id == first)
    assert texts(room) == ["one"]
    assert room.of(events.QueueChanged)[-1].is_held


def test_stopping_one_of_several_answers_does_not_hold_them(make_room):
    room = make_room(SLOW).start_ready()
    room.ask("Hello")
    begin(room, "brief")
    room.until(lambda: room.ended_reply())
    room.desk.ask_several(room.desk.messages[-2].id, [{"seed": 1}, {"seed": 2}])
    room.until(lambda: room.of(events.AnswersBegan))
    room.desk.queue_message("one")
    first = room.of(events.AnswersBegan)[-1].messages[0]
    room.desk.stop_reply(first.id)
    room.until(lambda: said(room)[-1] == "one" and room.ended_reply())


def test_they_are_sent_in_their_own_chat_while_another_is_on_screen(make_room):
    room = make_room(SLOW).start_ready()
    begin(room, "brief")
    first = room.desk.conversation.id
    room.desk.queue_message("one")
    room.desk.new_conversation()
    room.desk.save_draft("elsewhere")
    assert room.desk.queued == ()
    room.until(lambda: [m.content for m in room.stored(first)][-2:] == ["one", "Quick."])
    assert room.desk.messages == ()
    room.desk.open_conversation(first)
    room.until(lambda: room.desk.conversation.id == first)
    assert room.of(events.ConversationOpened)[-1].conversation.draft == ""
    assert said(room) == ["brief", "one"]


def test_coming_back_to_a_chat_shows_its_draft_without_what_is_queued(make_room):
    room = make_room(SLOW).start_ready()
    begin_slow(room)
    first = room.desk.conversation.id
    room.desk.queue_message("one")
    room.desk.save_draft("mine")
    room.desk.new_conversation()
    room.desk.open_conversation(first)
    room.until(lambda: room.desk.conversation.id == first)
    assert room.of(events.ConversationOpened)[-1].conversation.draft == "mine"
    assert [each.text for each in room.of(events.QueueChanged)[-1].messages] == ["one"]


def test_what_was_queued_at_a_crash_is_a_draft_again(make_room):
    """The first room is never closed before the second one reads: as after `kill -9`."""
    room = make_room(SLOW).start_ready()
    begin_slow(room)
    room.desk.attach_text("a long text " * 500)
    room.until(lambda: room.desk.attachments)
    room.desk.queue_message("one")
    room.desk.queue_message("two")
    room.desk.save_draft("three")
    chat = room.desk.conversation.id
    store = room.desk._around.store
    room.until(lambda: store.load_conversation(chat).result(20)[0].draft == "one\n\ntwo\n\nthree")

    again = make_room(SLOW, read_only=True).start()
    again.until(lambda: again.desk.attachments, "the attachment is with the draft")
    opened = again.of(events.ConversationOpened)[-1].conversation
    assert opened.draft == "one\n\ntwo\n\nthree"
    assert again.desk.queued == ()


def test_attachments_go_with_the_queued_message(make_room):
    room = make_room(SLOW).start_ready()
    begin(room, "brief")
    room.desk.attach_text("a long text " * 500)
    room.until(lambda: room.desk.attachments)
    room.desk.queue_message("one")
    assert room.desk.attachments == ()
    assert [a.name for a in room.desk.queued[0].attachments] == ["Pasted text"]
    room.desk.remove_queued(room.desk.queued[0].id)
    assert [a.name for a in room.desk.attachments] == ["Pasted text"]
    room.desk.undo(room.of(events.Noticed)[-1].undo)
    assert room.desk.attachments == ()
    room.until(lambda: said(room) == ["brief", "one"] and room.ended_reply())
    assert [a.name for a in room.stored()[-2].attachments] == ["Pasted text"]


def test_a_trashed_chat_sends_nothing_and_keeps_the_texts(make_room):
    room = make_room(SLOW).start_ready()
    begin_slow(room)
    chat = room.desk.conversation.id
    room.desk.queue_message("one")
    room.desk.trash_conversation(chat)
    room.until(lambda: not room.desk._replies.is_busy(chat))
    room.desk.restore_conversation(chat)
    room.until(lambda: room.desk.conversation.id == chat and room.desk.messages)
    assert said(room) == ["slow"]
    assert room.of(events.ConversationOpened)[-1].conversation.draft == "one"


def test_stopping_before_the_weights_are_there_holds_the_queue(make_room):
    room = make_room({"load": {"ms": 60_000}, "replies": [{"text": "Never."}]}).start()
    room.desk.send("first")
    room.until(lambda: room.of(events.SendQueued))
    room.desk.queue_message("second")
    room.desk.stop()
    assert room.of(events.QueueChanged)[-1].is_held
    assert texts(room) == ["second"]
