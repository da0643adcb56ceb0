"""Traces and resolved settings of replies: kept with the message, read when asked for."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from app.chat import events
from app.chat.replies import traces
from models.records import MessageState

TOKEN = {
    "text": "blue",
    "probability": 0.25,
    "alternatives": [["red", 0.5], ["blue", 0.25]],
    "stages": [["top-k", 2, 0.33], ["dist", 1, 1.0]],
    "removed_by": [0, 255],
    "uniform": 0.75,
}


def _script(*tokens: dict[str, Any], **load: Any) -> dict[str, Any]:
    return {"load": {**load}, "replies": [{"tokens": list(tokens)}]}


def _trace(room: Any, message_id: str) -> events.TraceRead:
    before = len(room.of(events.TraceRead))
    room.desk.growing.read_trace(message_id)
    room.until(lambda: len(room.of(events.TraceRead)) > before, "the trace")
    read: events.TraceRead = room.of(events.TraceRead)[-1]
    return read


def test_the_trace_of_a_reply_outlives_the_window(make_room):
    room = make_room(_script(TOKEN, {"text": " sky"})).start_ready()
    reply = room.ask("Colour?")
    live = [event.token for event in room.of(events.TokenRecorded)]
    room.close()
    again = make_room().start_ready()
    read = _trace(again, reply.id)
    assert read.message_id == reply.id
    assert read.sentence == ""
    assert [token.token_id for token in read.tokens] == list(reply.token_ids or ())
    first = read.tokens[0]
    assert (first.piece, first.rank, first.uniform) == (b"blue", 2, 0.75)
    assert first.removed_by == live[0].removed_by
    assert [(s.stage, s.left) for s in first.stages] == [("top-k", 2), ("dist", 1)]
    assert struct.unpack("<2i", first.alternative_ids.data)[1] == first.token_id


def test_a_reply_that_is_cut_short_keeps_the_trace_of_what_came(make_room):
    room = make_room(_script({"text": "Once"}, {"text": " upon"}, {"signal": "SEGV"})).start_ready()
    reply = room.ask("Tell.")
    assert reply.state is MessageState.INTERRUPTED
    assert [t.piece for t in _trace(room, reply.id).tokens] == [b"Once", b" upon"]


def test_closing_in_mid_reply_keeps_the_trace_of_what_came(make_room):
    room = make_room(_script({"text": "again ", "ms": 5, "repeat": 4000})).start_ready()
    assert room.desk.replies.send("Go on.")
    growing = room.until(lambda: room.growing(20))
    live = _trace(room, growing.id)
    assert len(live.tokens) >= 3
    room.close()
    again = make_room().start_ready()
    assert len(_trace(again, growing.id).tokens) >= len(live.tokens)


def test_what_was_taken_back_is_in_neither_trace_nor_reply(make_room):
    bad = {"text": "bad", "withheld": True}
    room = make_room(_script({"text": "good "}, bad, bad, {"take_back": 2}, {"text": "day"}))
    room.start_ready()
    reply = room.ask("Well?")
    assert reply.content == "good day"
    assert [event.n_tokens for event in room.of(events.TokensTakenBack)] == [2]
    assert [t.piece for t in _trace(room, reply.id).tokens] == [b"good ", b"day"]
    assert len(reply.token_ids or ()) == 2


def test_a_message_without_a_trace_is_said_to_have_none(make_room):
    room = make_room().start_ready()
    room.ask("Hello?")
    question = room.desk.shelf.path[0]
    assert _trace(room, question.id).sentence == traces.NO_TRACE


def test_a_damaged_trace_is_a_sentence(make_room):
    room = make_room().start_ready()
    reply = room.ask("Hello?")
    store = room.desk.around.store
    assert store is not None
    store.save_trace(reply.id, b"CTR1 rubbish").result(10)
    read = _trace(room, reply.id)
    assert read.tokens == ()
    assert "damaged" in read.sentence


def test_very_long_replies_keep_the_trace_of_their_beginning(
    make_room, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("app.chat.replies.reply.MAX_TOKENS", 3)
    room = make_room(_script({"text": "a ", "repeat": 10})).start_ready()
    reply = room.ask("Go.")
    assert len(reply.token_ids or ()) == 10
    assert len(_trace(room, reply.id).tokens) == 3


def test_the_settings_of_a_reply_are_complete(make_room):
    room = make_room().start_ready()
    room.desk.settings.set("temperature", 0.5)
    reply = room.ask("Hello?")
    (kept,) = [m for m in room.stored() if m.id == reply.id]
    assert kept.settings == reply.settings
    assert kept.settings["temperature"] == 0.5
    assert kept.settings["seed"] == kept.seed == 1
    assert kept.settings["context_policy"] == "drop_oldest"
    stages = [stage["stage"] for stage in kept.settings["sampling"]["filters"]]
    assert stages == ["penalties", "top_k", "top_p", "min_p", "temperature"]
    assert kept.settings["sampling"]["select"] == {"stage": "dist"}
    assert kept.settings["sampling"]["filters"][-1]["t"] == 0.5
    assert kept.settings["load"]["n_ctx"] == 4096
    assert "cut" not in kept.settings


def test_what_was_left_out_is_said_once_and_stored(make_room):
    room = make_room(
        {"load": {"loaded": {"n_ctx": 256}}, "replies": [{"text": "Ten words or so."}]}
    ).start_ready()
    replies = [room.ask("A question of a few words, is it not?") for _ in range(10)]
    assert all(reply.state is MessageState.COMPLETE for reply in replies)
    cuts = [reply.settings.get("cut", {}).get("n_messages", 0) for reply in replies]
    assert cuts[0] == 0
    assert cuts == sorted(cuts)
    assert 0 < cuts[-1] < 20
    last = room.desk.shelf.path[cuts[-1] - 1].id
    assert replies[-1].settings["cut"]["last_message_id"] == last
    assert replies[-1].settings["cut"]["n_tokens"] > 0
    assert len(room.desk.shelf.path) == 20  # nothing is deleted
    said = [n for n in room.of(events.Noticed) if "dropped" in n.sentence]
    assert len(said) == len({cut for cut in cuts if cut})
    room.desk.shelf.save_draft("More?")
    room.until(lambda: any(c.n_cut for c in room.of(events.ContextCounted)), "a count with a cut")


def test_the_policy_is_a_setting(make_room):
    room = make_room(
        {"load": {"loaded": {"n_ctx": 256}}, "replies": [{"text": "Ten words or so."}]}
    ).start_ready()
    room.desk.settings.set("context_policy", "stop")
    replies = [room.ask("A question of a few words, is it not?") for _ in range(9)]
    assert replies[-1].stop_reason == "prompt_too_long"
    assert "allow older messages to be dropped" in (replies[-1].error or "")
    room.desk.settings.set("context_policy", "drop_oldest")
    assert room.ask("And now?").state is MessageState.COMPLETE
