"""Summaries of what falls out: written before a message is sent or when nobody waits, kept as
messages, used where they hold, and never in the way of a reply."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest
from store_records import a_conversation, a_message

from app.chat import events
from app.chat.exchange import markdown_format
from app.chat.exchange.json_format import (
    JsonChat,
    decoded,
    encoded,
    json_chat,
    json_message,
    records_of,
)
from app.chat.replies import summaries
from app.chat.replies.prompts import chat_prompt
from app.chat.replies.summaries import SKIPPED, summary_node
from app.chat.replies.summary_nodes import (
    SUMMARY,
    covered_by,
    newest_summary,
    stands_for,
    stands_of,
)
from app.chat.settings.settings import Settings
from app.chat.surroundings import now
from app.engine.protocol.messages import Generate
from models.records import Attachment, Message, MessageState, Role, WholeConversation
from ui.sidebar.search_model import speaker_of

PLAIN = Settings(system_prompt="Be brief.", context_policy="summarize")
SCRIPT: dict[str, Any] = {
    "load": {"ms": 1, "loaded": {"n_ctx": 1024}},
    "replies": [
        {"match": "Summarize this conversation", "text": "They counted to ten."},
        *({"text": f"Ten words or so, number {i}, and that is all. " * 5} for i in range(20)),
    ],
}
QUESTION = "A question of a few words, number {}, is it not?" + " Or so?" * 25


def path_of(n: int) -> tuple[Message, ...]:
    chat, path = a_conversation(), list[Message]()
    for i in range(n):
        role = Role.ASSISTANT if i % 2 else Role.USER
        parent = path[-1] if path else None
        path.append(a_message(chat, parent, role=role, content=f"word {i}"))
    return tuple(path)


def an_attachment(message: Message, text: str) -> Attachment:
    chat, made = message.conversation_id, message.created_at
    return Attachment("file", chat, "notes.txt", text, len(text), made, message.id)


def summed(path: tuple[Message, ...], upto: int, text: str = "They spoke.") -> tuple[Message, ...]:
    covered = {message.id for message in path[:upto]}
    stands = stands_for(path, covered, 0)
    return (*path, summary_node(path[0].conversation_id, path[-1].id, text, stands))


# --- which summary stands for what ----------------------------------------------------------------


def test_it_goes_into_the_prompt_in_place_of_what_it_stands_for() -> None:
    path = summed(path_of(7), 4)
    prompt = chat_prompt(a_conversation(), path, PLAIN, "")
    assert [(m.role, m.origin) for m in prompt.messages[:2]] == [
        ("system", ""), ("system", "summary"),
    ]  # fmt: skip
    assert "They spoke." in prompt.messages[1].content
    assert prompt.messages[1].message_id == path[-1].id
    assert [m.content for m in prompt.messages[2:]] == ["word 4", "word 5", "word 6"]
    # Under another policy everything goes in, and no summary.
    other = dataclasses.replace(PLAIN, context_policy="drop_oldest")
    assert len(chat_prompt(a_conversation(), path, other, "").messages) == 8


def test_a_newer_one_stands_for_more_and_a_pinned_message_comes_back() -> None:
    path = summed(summed(path_of(9), 2, "old"), 6, "new")
    assert newest_summary(path).content == "new"
    assert [m.content for m in covered_by(path[-1], path)] == [f"word {i}" for i in range(6)]
    pinned = tuple(dataclasses.replace(m, is_pinned=m.content == "word 1") for m in path)
    said = [m.content for m in chat_prompt(a_conversation(), pinned, PLAIN, "").messages]
    assert said[2:] == ["word 1", "word 6", "word 7", "word 8"]


@pytest.mark.parametrize(
    "changed",
    [
        lambda path: path[1:],  # one of them was deleted
        lambda path: (dataclasses.replace(path[0], content="other"), *path[1:]),
        lambda path: (path[0], dataclasses.replace(path[1], role=Role.USER), *path[2:]),
        lambda path: path[:1] + path[-1:],
    ],
)
def test_where_what_it_stands_for_has_changed_it_is_not_used(
    changed: Callable[[tuple[Message, ...]], tuple[Message, ...]],
) -> None:
    path = changed(summed(path_of(7), 4))
    assert newest_summary(path) is None
    prompt = chat_prompt(a_conversation(), path, PLAIN, "")
    assert all(m.origin == "" for m in prompt.messages)


def test_what_is_attached_is_part_of_what_it_stands_for() -> None:
    path = path_of(7)
    attached = an_attachment(path[0], text="The ledger.")
    first = dataclasses.replace(path[0], attachments=(attached,))
    summary = summed((first, *path[1:]), 4)[-1]
    assert newest_summary((first, *path[1:], summary)) is summary
    assert newest_summary((*path, summary)) is None
    other = dataclasses.replace(first, attachments=(dataclasses.replace(attached, text="No."),))
    assert newest_summary((other, *path[1:], summary)) is None


def test_what_is_attached_is_summarized_too(room: Any) -> None:
    talk(room, 5)
    desk, asked = room.desk, list[Generate]()
    node = summaries_of(room)[0]
    first = desk.shelf.path[0]
    first = dataclasses.replace(first, attachments=(an_attachment(first, text="Its ledger."),))
    covered = [first, *covered_by(node, desk.shelf.path)[1:]]
    writing = desk.summaries._new(desk.shelf.open, (first, *desk.shelf.path[1:]), None, None)
    desk.questions.ask = lambda command, *_, **__: asked.append(command)
    desk.summaries._write(writing, covered, [40] * len(covered), "", node.id)
    said = asked[0].prompt.messages[-1].content
    assert "Its ledger." in said
    assert QUESTION.format(0) in said


def test_it_holds_on_a_copy_under_other_ids() -> None:
    path = summed(path_of(7), 4)
    copied = tuple(dataclasses.replace(m, id=f"copy {i}") for i, m in enumerate(path))
    assert newest_summary(copied) is copied[-1]


@pytest.mark.parametrize(
    "stored",
    [None, [], {}, {"first": -1, "last": 3, "kept": [], "digest": "x"},
     {"first": 0, "last": True, "kept": [], "digest": "x"},
     {"first": 4, "last": 3, "kept": [], "digest": "x"},
     {"first": 0, "last": 3, "kept": ["a"], "digest": "x"},
     {"first": 0, "last": 3, "kept": [], "digest": 5}],
)  # fmt: skip
def test_what_is_stored_is_untrusted(stored: Any) -> None:
    node = dataclasses.replace(summed(path_of(2), 1)[-1], settings={SUMMARY: stored})
    assert stands_of(node) is None


# --- written by the engine ------------------------------------------------------------------------


@pytest.fixture
def room(make_room: Any) -> Any:
    made = make_room(SCRIPT)
    made.start()
    made.desk.settings.set("context_policy", "summarize")
    made.desk.settings.set("system_prompt", "Be brief.")
    made.until(lambda: made.desk.loader.state.state == "ready")
    return made


def talk(room: Any, n: int) -> Message:
    for number in range(n):
        room.desk.replies.send(QUESTION.format(number))
        reply = room.until(
            lambda: (
                (m := room.desk.shelf.path[-1]).role is Role.ASSISTANT
                and m.state is MessageState.COMPLETE
                and not room.desk.replies.is_busy(m.conversation_id)
                and m
            )
        )
    return reply


def summaries_of(room: Any) -> list[Message]:
    return [m for m in room.desk.shelf.path if stands_of(m) is not None]


def test_before_a_message_is_sent_what_falls_out_is_summarized(room: Any) -> None:
    reply = talk(room, 6)
    (node, *_) = summaries_of(room)
    assert node.content == "They counted to ten."
    assert node.role is Role.SYSTEM
    path = room.desk.shelf.path
    above = path[path.index(node) - 1]
    assert above.role in (Role.USER, Role.ASSISTANT)
    assert stands_of(node).words.startswith("Summary of messages 1–")
    assert "They counted to ten." in reply.rendered_prompt
    assert "cut" not in reply.settings  # nothing was dropped without a summary
    assert QUESTION.format(0) not in reply.rendered_prompt
    # Nothing is gone from the chat.
    assert path[0].content == QUESTION.format(0)
    stored = room.desk.around.store.load_path(node.conversation_id, reply.id).result()
    assert [m.id for m in stored] == [m.id for m in path]


def test_if_it_fails_the_oldest_are_dropped_and_that_is_said(make_room: Any) -> None:
    failing = {"match": "Summarize this conversation", "text": ""}
    made = make_room({**SCRIPT, "replies": [failing, *SCRIPT["replies"][1:]]})
    made.start()
    made.desk.settings.set("context_policy", "summarize")
    made.until(lambda: made.desk.loader.state.state == "ready")
    reply = talk(made, 6)
    assert summaries_of(made) == []
    assert reply.settings["cut"]["n_messages"] > 0
    said = [event.sentence for event in made.events if isinstance(event, events.Noticed)]
    assert any("The summary failed, so the oldest messages are dropped" in s for s in said)


def test_if_the_engine_crashes_over_it_the_message_is_answered_without_one(
    make_room: Any,
) -> None:
    crash = {**SCRIPT["replies"][0], "tokens": [{"text": "On "}, {"signal": "SEGV"}]}
    del crash["text"]
    made = make_room({**SCRIPT, "replies": [crash, *SCRIPT["replies"][1:]]}).start_ready()
    talk(made, 5)
    made.desk.settings.set("context_policy", "summarize")
    reply = talk(made, 1)
    assert summaries_of(made) == []
    assert reply.settings["cut"]["n_messages"] > 0
    (said,) = (e.sentence for e in made.of(events.Noticed) if e.level == "warning")
    assert "The summary failed, so the oldest messages are dropped" in said


def test_stop_ends_the_summary_and_what_waits_for_it(make_room: Any) -> None:
    slow = {
        "match": "Summarize this conversation",
        "text": "They counted.",
        "prefill": {"ms": 60_000},
    }
    made = make_room({**SCRIPT, "replies": [slow, *SCRIPT["replies"][1:]]})
    made.start()
    desk = made.desk
    made.until(lambda: desk.loader.state.state == "ready")
    talk(made, 5)
    desk.settings.set("context_policy", "summarize")
    n_before = len(desk.shelf.path)
    desk.replies.send(QUESTION.format(9))
    made.until(
        lambda: (
            desk.summaries.is_writing(desk.shelf.open.id)
            and any(isinstance(e, events.SummaryChanged) and e.n_messages for e in made.events)
        )
    )
    assert desk.replies.is_generating
    desk.replies.stop()
    assert not desk.replies.is_generating
    assert not desk.summaries.is_writing(desk.shelf.open.id)
    assert len(desk.shelf.path) == n_before + 1
    # Asked again, and skipped: the oldest are dropped, and that is said.
    desk.replies.answer(desk.shelf.path[-1].id)
    made.until(lambda: desk.summaries.is_writing(desk.shelf.open.id))
    desk.summaries.skip()
    reply = made.until(
        lambda: (
            (r := desk.shelf.path[-1]).role is Role.ASSISTANT
            and r.state is MessageState.COMPLETE
            and r
        )
    )
    assert reply.settings["cut"]["n_messages"] > 0
    said = [event.sentence for event in made.events if isinstance(event, events.Noticed)]
    assert SKIPPED in said


def test_it_can_be_edited_and_written_again(room: Any) -> None:
    talk(room, 6)
    desk, (node, *_) = room.desk, summaries_of(room)
    n_path = len(desk.shelf.path)
    assert desk.tree.edit(node.id, "They counted to eleven.")
    room.until(lambda: summaries_of(room)[0].content == "They counted to eleven.")
    edited = summaries_of(room)[0]
    assert (edited.sibling_count, len(desk.shelf.path)) == (2, n_path)
    assert covered_by(edited, desk.shelf.path)
    desk.summaries.again(edited.id, lambda text: desk.tree.edit(edited.id, text))
    room.until(lambda: summaries_of(room)[0].content == "They counted to ten.")
    assert summaries_of(room)[0].sibling_count == 3


def test_where_no_message_waits_for_it_nothing_is_said_to_be_dropped(room: Any) -> None:
    talk(room, 6)
    node, desk = summaries_of(room)[0], room.desk
    desk.summaries.now(lambda _chat: False)
    desk.summaries.skip()
    desk.questions.ask = lambda _c, _kind, _then, failed, **_: failed("It broke.")
    desk.summaries.again(node.id, lambda _text: pytest.fail("there is none"))
    room.pump()
    said = [event.sentence for event in room.of(events.Noticed)]
    assert said == ["The summary failed. It broke."]


def test_one_that_was_edited_to_be_too_long_is_named(room: Any) -> None:
    talk(room, 6)
    desk = room.desk
    desk.tree.edit(summaries_of(room)[0].id, "word " * 3000)
    room.until(lambda: summaries_of(room)[0].content.startswith("word"))
    desk.replies.send("Short?")
    failed = room.until(lambda: (m := desk.shelf.path[-1]).state is MessageState.FAILED and m)
    assert "write a shorter message or summary, or" in failed.error


def test_when_nobody_waits_it_is_written_in_the_background(
    room: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(summaries, "IDLE_S", 0.0)
    talk(room, 4)
    desk = room.desk
    desk.shelf.ensure_stored()
    asked: list[Any] = []
    engine_request = desk.loader.engine.request

    def request(command: Any) -> int:
        asked.append(command)
        return int(engine_request(command))

    monkeypatch.setattr(desk.loader.engine, "request", request)
    desk.tree.insert(desk.shelf.leaf_id, Role.USER, "word " * 90)
    room.until(lambda: len(desk.shelf.path) == 9)
    desk.summaries.after_reply(desk.replies.is_occupied)
    node = room.until(lambda: (m := desk.shelf.path[-1]) and stands_of(m) is not None and m)
    assert any(isinstance(each, Generate) and each.is_background for each in asked)
    assert covered_by(node, desk.shelf.path)
    # Another chat is opened: what is written for this one ends.
    desk.shelf.open_new()
    assert not desk.summaries.is_writing(node.conversation_id)


@pytest.mark.parametrize("over", [-1, 0, 1])
def test_at_the_limit_only_what_does_not_fit_is_summarized(room: Any, over: int) -> None:
    """1,024 tokens hold a prompt of 960 as long as there is something to leave out."""
    talk(room, 3)
    desk = room.desk
    n_before = len(desk.shelf.path)

    def count(text: str) -> int:
        desk.shelf.save_draft(text)
        desk.meter.count_soon()
        told = len(room.of(events.ContextCounted))
        room.until(lambda: len(room.of(events.ContextCounted)) > told)
        return int(room.of(events.ContextCounted)[-1].used)

    text = "x" + " x" * ((960 + over - count("x")) // 2)
    while (used := count(text)) < 960 + over and not room.of(events.ContextCounted)[-1].n_cut:
        text += "!"
    assert used == 960 + over or over > 0
    desk.replies.send(text)
    room.until(lambda: len(desk.shelf.path) > n_before + 1 and room.ended_reply())
    assert len(summaries_of(room)) == (1 if over > 0 else 0)


def test_on_another_branch_it_is_not_used(room: Any) -> None:
    talk(room, 6)
    desk = room.desk
    node = summaries_of(room)[0]
    path = desk.shelf.path
    first = path[2]
    assert stands_of(node).last > 2
    desk.replies.send_version(
        dataclasses.replace(first, id="another", content="Let us talk of tea.", sibling_index=1)
    )
    reply = room.until(room.ended_reply)
    assert summaries_of(room) == []
    assert "They counted to ten." not in reply.rendered_prompt
    # Back there it stands for what it did.
    desk.tree.go_to(node.id)
    room.until(lambda: summaries_of(room))
    assert covered_by(node, desk.shelf.path)


def test_it_comes_back_from_a_file_and_is_found(room: Any) -> None:
    talk(room, 6)
    desk, node = room.desk, summaries_of(room)[0]
    whole = WholeConversation(desk.shelf.open, desk.shelf.path)
    told = json_chat(whole)
    told.messages = [json_message(message, None) for message in whole.messages]
    read = records_of(decoded(encoded(told), JsonChat, "chat"))
    copy = next(m for m in read.messages if stands_of(m) is not None)
    assert stands_of(copy) == stands_of(node)
    assert covered_by(copy, read.messages)
    written = markdown_format.written(whole)
    assert "## Summary" in written
    assert "## System\n" not in written
    copies = markdown_format.read(written, "chat.md", now()).messages
    assert [stands_of(m) for m in copies] == [stands_of(m) for m in whole.messages]
    # Somebody has changed what it stands for, or the file is not what it says.
    edited = markdown_format.read(written.replace("number 0", "number 7"), "chat.md", now())
    assert newest_summary(edited.messages) is None
    broken = markdown_format.read(written.replace('"digest"', '"other"'), "chat.md", now())
    assert all(not m.settings for m in broken.messages)
    desk.searching.search("counted")
    answered = room.until(lambda: (found := room.of(events.SearchAnswered)) and found[-1])
    (hit,) = (hit for hit in answered.hits if hit.message_id == node.id)
    assert speaker_of(hit) == "Summary"
    tree = desk.around.store.load_tree(desk.shelf.open.id).result(20)
    assert [each.id for each in tree if each.is_summary] == [node.id]


SLOW = {"match": "Summarize this conversation", "text": "Late.", "prefill": {"ms": 60_000}}


def summarizing(make_room: Any) -> Any:
    """A chat in which a message waits for its summary."""
    made = make_room({**SCRIPT, "replies": [SLOW, *SCRIPT["replies"][1:]]})
    made.start()
    made.until(lambda: made.desk.loader.state.state == "ready")
    talk(made, 5)
    made.desk.settings.set("context_policy", "summarize")
    made.desk.replies.send(QUESTION.format(9))
    made.until(lambda: any(e.n_messages for e in made.of(events.SummaryChanged)))
    return made


def test_unloaded_in_the_middle_the_message_waits_and_is_answered_later(make_room: Any) -> None:
    made = summarizing(make_room)
    desk, path = made.desk, made.desk.loader.state.loaded.path
    sent = desk.shelf.path[-1]
    desk.loader.unload()
    made.until(lambda: not desk.summaries.is_writing(sent.conversation_id))
    made.until(lambda: desk.loader.loaded is None)
    assert desk.shelf.path[-1].id == sent.id
    desk.settings.set("context_policy", "drop_oldest")
    if not desk.replies.is_busy(sent.conversation_id):
        desk.replies.answer(sent.id)
    desk.loader.load(path)
    reply = made.until(made.ended_reply)
    assert reply.parent_id == sent.id
    assert reply.state is MessageState.COMPLETE


def test_in_another_chat_meanwhile_it_stays_where_it_belongs(make_room: Any) -> None:
    made = summarizing(make_room)
    desk, sent = made.desk, made.desk.shelf.path[-1]
    desk.shelf.open_new()
    assert desk.summaries.is_writing(sent.conversation_id)  # somebody waits for it
    assert not desk.replies.is_generating
    desk.shelf.open_stored(sent.conversation_id)
    made.until(lambda: desk.shelf.path and desk.shelf.path[-1].id == sent.id)
    assert desk.replies.is_generating
    desk.summaries.skip()
    reply = made.until(made.ended_reply)
    assert reply.settings["cut"]["n_messages"] > 0
