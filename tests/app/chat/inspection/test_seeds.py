"""One prompt with many seeds: counted as drawn, no message of it, and no reply waits for it."""

from __future__ import annotations

from typing import Any

import pytest

from app.chat import events
from app.chat.inspection.seeds import BUSY, CONVERSATION, NO_MESSAGE, PAUSED
from app.engine.protocol.cache_messages import CacheMap

WAYS = [["The", " cat"], ["The", " dog"], ["The", " cat"], ["A", " cat"]]


def _reply(words: list[str], **token: Any) -> dict[str, Any]:
    stages = [["temperature", 9, 0.5], ["dist", 9, 0.25]]
    given = {"probability": 0.5, "stages": stages, **token}
    return {"tokens": [{"text": word, **given} for word in words]}


SCRIPT = {
    "replies": [
        {"match": "Hello", "text": "Hi."},
        {"match": "Now", "text": "Now."},
        *(_reply(words) for words in WAYS),
    ]
}


def _counted(room: Any) -> Any:
    return room.until(lambda: [e for e in room.of(events.SeedsCounted) if e.is_over])


def test_outcomes_are_counted_and_nothing_is_stored(make_room: Any) -> None:
    room = make_room(SCRIPT).start_ready()
    room.ask("Any?")  # takes the first way
    stored = room.stored()
    assert room.desk.seeds.start(room.desk.shelf.path[-1].id, 8, 16) == ""
    assert _counted(room)[-1].n_over == 8
    found = room.desk.seeds.outcomes()
    assert (found.position, found.n) == (0, 8)
    rows = [(row.piece, row.count, row.expected, row.model) for row in found.rows]
    assert rows == [(b"The", 6, 0.25, 0.5), (b"A", 2, 0.25, 0.5)]
    behind = room.desk.seeds.outcomes((found.rows[0].token_id,))
    assert [(row.piece, row.count) for row in behind.rows] == [(b" cat", 4), (b" dog", 2)]
    assert room.stored() == stored
    assert not room.of(events.TokenRecorded)[len(WAYS[0]) :]
    assert room.desk.cache.title(CONVERSATION) == "one prompt with many seeds"
    maps: list[CacheMap] = []

    def look() -> bool:
        room.desk.cache.read(maps.append, lambda _s: None, still=lambda: True)
        return bool(maps) and all(s.conversation != CONVERSATION for s in maps[-1].slots)

    room.until(look)


def test_it_stops_at_any_time_and_keeps_what_it_has(make_room: Any) -> None:
    room = make_room({"replies": [_reply(["one", " two", " three"], ms=30)]}).start_ready()
    room.ask("Any?")
    room.desk.seeds.start(room.desk.shelf.path[0].id, 64, 16)
    room.until(lambda: room.desk.seeds.n_over >= 1)
    room.desk.seeds.stop()
    assert not room.desk.seeds.is_running
    room.until(lambda: room.desk.questions._asked == {})
    assert 1 <= room.desk.seeds.n_over < 64
    first = [run.steps[0].piece for run in room.desk.seeds._now.runs if run.steps]
    assert set(first) == {b"one"}
    assert len(first) >= room.desk.seeds.n_over


def test_a_reply_goes_first_and_the_same_seeds_go_on_behind_it(make_room: Any) -> None:
    script = {"replies": [{"match": "Now", "text": "Now."}, _reply(["one", " two"], ms=20)]}
    room = make_room(script).start_ready()
    room.ask("Any?")
    seeds = room.desk.seeds
    assert seeds.start(room.desk.shelf.path[0].id, 8, 16) == ""
    room.until(lambda: seeds.n_over >= 1)
    planned = {run.seed for run in seeds._now.runs} | set(seeds._now.left)
    room.desk.replies.send("Now")
    room.until(lambda: seeds.sentence == PAUSED)
    assert seeds.start("nobody", 8, 16) == NO_MESSAGE
    room.until(lambda: not room.desk.replies.is_generating)
    assert _counted(room)[-1].n_over == 8
    assert {run.seed for run in seeds._now.runs} == planned
    assert room.desk.shelf.path[-1].content == "Now."


def test_one_that_fails_ends_no_other(make_room: Any) -> None:
    fail = {"fail": {"kind": "native_error", "sentence": "llama.cpp failed."}}
    broken = {"tokens": [{"text": "The"}, fail]}
    room = make_room({"replies": [_reply(["The", " cat"]), broken, _reply(["A"])]}).start_ready()
    room.ask("Any?")
    room.desk.seeds.start(room.desk.shelf.path[0].id, 8, 16)
    assert _counted(room)[-1].n_over == 8
    assert room.desk.seeds.outcomes().n == 8
    assert room.desk.seeds.sentence == "llama.cpp failed."


def test_while_a_reply_is_written_it_does_not_begin(make_room: Any) -> None:
    room = make_room({"replies": [_reply(["again "] * 400, ms=5)]}).start_ready()
    room.desk.replies.send("Any?")
    room.until(lambda: room.growing(2))
    assert room.desk.seeds.start(room.desk.shelf.path[0].id, 8, 8) == BUSY
    room.desk.replies.stop()
    room.until(lambda: not room.desk.replies.is_generating)


@pytest.mark.parametrize("message_id", ["", "nobody"])
def test_without_a_message_there_is_nothing_to_count(make_room: Any, message_id: str) -> None:
    room = make_room(SCRIPT).start_ready()
    assert room.desk.seeds.start(message_id, 8, 8) == NO_MESSAGE
    assert room.desk.seeds.outcomes() is None


def test_an_engine_that_dies_ends_it_with_what_it_has(make_room: Any) -> None:
    dies = {"tokens": [{"text": "The"}, {"exit": 3}]}
    script = {"replies": [_reply(["Hi"]), _reply(["The", " cat"]), _reply(["A"]), dies]}
    room = make_room(script).start_ready()
    room.ask("Any?")
    room.desk.seeds.start(room.desk.shelf.path[0].id, 16, 16)
    room.until(lambda: not room.desk.seeds.is_running)
    found = room.desk.seeds.outcomes()
    assert {row.piece for row in found.rows} == {b"The", b"A"}
    assert "crashed" in room.desk.seeds.sentence or "stopped" in room.desk.seeds.sentence
    assert room.desk.questions._asked == {}


def test_a_path_that_comes_after_another_one_was_begun_is_dropped(make_room: Any) -> None:
    room = make_room(SCRIPT).start_ready()
    room.ask("Any?")
    desk, held = room.desk, list[Any]()
    whole = desk.shelf.with_whole
    desk.shelf.with_whole = lambda path, then, _failed, *, still: held.append((path, then, still))
    desk.seeds.start(desk.shelf.path[-1].id, 4, 16)
    desk.shelf.with_whole = whole
    desk.seeds.start(desk.shelf.path[-1].id, 8, 16)
    ((path, _then, still),) = held
    assert path
    assert not still()
    room.until(lambda: room.of(events.SeedsCounted)[-1].n_over == 8)
