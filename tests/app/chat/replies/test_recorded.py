"""What a reply's time went into is stored with it, and stands in nobody's way."""

from __future__ import annotations

from typing import Any

import pytest

from app.chat.replies.recorded import at_start, settings_of
from app.chat.settings.resolved import resolve
from app.chat.settings.settings import Settings
from app.engine.protocol.messages import Generate
from app.engine.protocol.prompt_messages import TextPrompt
from app.insight.time.timeline import from_stored, total_ms
from models.records import MessageState

REPLY = {
    "prefill": {"tokens": 20, "ms": 20, "chunks": 2},
    "tokens": [{"text": word, "ms": 5} for word in ("blue", " sky")],
}


def script(**fields: Any) -> dict[str, Any]:
    return {"replies": [{**REPLY, **fields}]}


def test_it_outlives_the_window(make_room: Any) -> None:
    room = make_room(script()).start_ready()
    reply = room.ask("Colour?")
    line = from_stored(reply.settings["timeline"])
    assert [(one.kind, one.tokens) for one in line if one.kind not in ("between", "ending")] == [
        ("prefill", 10),
        ("prefill", 10),
        ("first", 1),
        ("decode", 1),
    ]
    assert total_ms(line) == pytest.approx(1000 * reply.counts.total_s, abs=0.01)
    conversation_id = reply.conversation_id
    room.close()
    again = make_room().start_ready()
    assert again.stored(conversation_id)[-1].settings["timeline"] == reply.settings["timeline"]


def test_a_reply_is_run_again_whatever_it_says(make_room: Any) -> None:
    room = make_room(script()).start_ready()
    reply = room.ask("Colour?")
    with_line, refusal = settings_of(reply.settings, Settings())
    without = {name: value for name, value in reply.settings.items() if name != "timeline"}
    assert refusal == ""
    assert (with_line, "") == settings_of(without, Settings())


@pytest.mark.parametrize("happening", [{"exit": 3}, {"signal": "SEGV"}])
def test_where_the_engine_died_nobody_measured(make_room: Any, happening: dict[str, Any]) -> None:
    room = make_room(script(tokens=[{"text": "blue"}, happening])).start_ready()
    reply = room.ask("Colour?")
    assert reply.state is MessageState.INTERRUPTED
    assert "timeline" not in reply.settings


def test_a_stopped_reply_has_its_line(make_room: Any) -> None:
    tokens = [{"text": "again ", "ms": 5, "repeat": 4000}]
    room = make_room(script(tokens=tokens)).start_ready()
    room.desk.replies.send("Go on")
    room.until(lambda: room.growing(20), "some text")
    room.desk.replies.stop()
    reply = room.until(room.ended_reply, "the end")
    line = from_stored(reply.settings["timeline"])
    assert reply.state is MessageState.STOPPED
    assert sum(one.tokens for one in line if one.kind in ("first", "decode")) == len(
        reply.token_ids
    )


def test_one_that_is_stopped_before_its_first_token_too(make_room: Any) -> None:
    room = make_room(script(prefill={"tokens": 20, "ms": 60_000})).start_ready()
    room.desk.replies.send("Go on")
    room.until(lambda: room.desk.shelf.path[-1].state == "streaming", "the reply's row")
    room.until(lambda: room.desk.growing._requests, "the engine's request")
    room.desk.replies.stop()
    reply = room.until(room.ended_reply, "the end")
    assert [one.kind for one in from_stored(reply.settings["timeline"])] == ["ending"]


def recorded_with(values: dict[str, Any]) -> dict[str, Any]:
    found = resolve(Settings(), values)
    asked = Generate(0, TextPrompt("Hi"), sampling=found.settings.sampling())
    return at_start(found, asked, None)


def test_a_template_of_ones_own_is_stored_with_the_reply_that_it_made() -> None:
    mine = {"chat_format": "own", "chat_template": "{{ messages[0].content }}"}
    again, refusal = settings_of(recorded_with(mine), Settings())
    assert (again.template, refusal) == (mine["chat_template"], "")
    other = recorded_with({**mine, "chat_format": "gemma"})
    assert "chat_template" not in other


def test_a_long_template_is_known_again_by_its_hash() -> None:
    mine = {"chat_format": "own", "chat_template": "{{ 1 }}" * 1000}
    recorded = recorded_with(mine)
    assert "chat_template" not in recorded
    present = resolve(Settings(), mine).settings
    assert settings_of(recorded, present)[0].template == mine["chat_template"]
    assert "template has changed" in settings_of(recorded, Settings())[1]
