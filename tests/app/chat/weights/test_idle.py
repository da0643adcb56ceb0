"""Weights that nobody uses: when they leave memory, when they stay, and how they come back."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from app.chat import events
from app.chat.weights.loading import UNLOADED

SLOW = {"replies": [{"tokens": [{"text": "again ", "ms": 5, "repeat": 4000}]}, {"text": "Again."}]}


@pytest.fixture
def room(make_room: Any) -> Any:
    made = make_room({"replies": [{"text": "Hi."}, {"text": "Again."}]}).start_ready()
    return idle_after(made, 10)


def idle_after(room: Any, minutes: int) -> Any:
    room.now = 1000.0
    room.desk.around.clock = lambda: room.now
    room.desk.settings.set("unload_after_min", minutes)
    room.desk.idle.touch()
    return room


def wait(room: Any, minutes: float) -> None:
    """So long nothing happens; then the alarm rings."""
    room.until(lambda: room.desk.growing.is_any or not room.desk.loader.engine.is_owing, "rest")
    ring(room, minutes)


def ring(room: Any, minutes: float) -> None:
    room.now += 60 * minutes
    room.desk.idle._look()


def is_loaded(room: Any) -> bool:
    return room.desk.loader.loaded is not None


def gone(room: Any) -> bool:
    room.until(lambda: not is_loaded(room), "unloaded")
    return bool(room.until(lambda: room.desk.loader.state.state == "stopped", "stopped"))


def test_after_ten_minutes_it_is_unloaded_and_the_next_message_loads_it_again(room: Any) -> None:
    wait(room, 9.9)
    assert is_loaded(room)
    wait(room, 0.2)
    assert gone(room)
    assert room.desk.loader.state.note == UNLOADED.format(minutes=10)
    assert room.desk.loader.state.note == (
        "Unloaded after 10 min idle. The next message loads it again."
    )
    assert room.desk.loader.state.weights_name, "which one comes back"
    assert not [n for n in room.of(events.Noticed) if n.level != "info"]
    room.desk.replies.send("Hello")
    room.until(lambda: is_loaded(room), "loaded again")
    room.until(lambda: room.desk.shelf.path[-1].content == "Hi.", "the reply")
    assert room.desk.loader.state.note == ""


@pytest.mark.parametrize("idle_min", [10, 0])
def test_a_message_in_the_very_moment_of_unloading_is_answered(room: Any, idle_min: int) -> None:
    """Also of an unload by hand; nobody is told to load a model."""
    room.until(lambda: not room.desk.loader.engine.is_owing, "rest")
    room.desk.loader.unload(idle_min=idle_min)
    room.desk.replies.send("Hello")
    room.until(lambda: room.desk.shelf.path[-1].content == "Hi.", "the reply")
    assert not room.of(events.Noticed)
    assert room.desk.loader.state.note == ""


def test_it_is_off_until_somebody_sets_it(make_room: Any) -> None:
    room = make_room().start_ready()
    assert room.desk.settings.now.unload_after_min == 0
    idle_after(room, 0)
    wait(room, 100_000)
    assert is_loaded(room)


def test_time_counts_from_the_last_use(room: Any) -> None:
    wait(room, 9)
    answers: list[Any] = []
    room.desk.questions.tokenize("x", answers.append, answers.append, still=lambda: True)
    room.until(lambda: answers, "tokens")
    wait(room, 9)
    assert is_loaded(room)
    wait(room, 2)
    assert gone(room)


def test_an_unload_by_hand_says_nothing_of_idling(room: Any) -> None:
    wait(room, 11)
    assert gone(room)
    room.desk.replies.send("Hello")
    room.until(lambda: is_loaded(room), "loaded again")
    room.desk.loader.unload()
    assert gone(room)
    assert room.desk.loader.state.note == ""
    assert room.desk.loader.state.weights_name == ""


def test_while_a_reply_is_written_it_stays(make_room: Any) -> None:
    room = idle_after(make_room(SLOW).start_ready(), 1)
    room.desk.replies.send("Hello")
    room.until(lambda: room.desk.growing.is_any, "the reply")
    wait(room, 10)
    assert is_loaded(room)
    room.desk.replies.stop()
    room.until(lambda: not room.desk.growing.is_any, "the end")
    wait(room, 0.9)
    assert is_loaded(room)
    wait(room, 0.2)
    assert gone(room)


def test_a_token_that_is_held_in_step_mode_waits_for_its_user(room: Any) -> None:
    wait(room, 0)
    room.desk.step.begin()
    room.desk.replies.send("Hello")
    room.until(lambda: room.desk.step.held_token is not None, "the held token")
    ring(room, 1000)
    assert is_loaded(room)
    room.desk.step.stop()
    room.until(lambda: not room.desk.growing.is_any, "the end")
    wait(room, 11)
    assert gone(room)


NEEDS: dict[str, Callable[[Any, pytest.MonkeyPatch], None]] = {
    "a question of a panel": lambda room, patch: patch.setattr(
        type(room.desk.loader.engine), "is_owing", True
    ),
    "a queued message": lambda room, patch: patch.setattr(
        room.desk.queue, "_queues", {"c": [SimpleNamespace(text="x")]}
    ),
    "a download that is checked": lambda room, patch: patch.setattr(
        type(room.desk.downloads), "all", (SimpleNamespace(phase="checking"),)
    ),
    "a message that waits": lambda room, patch: patch.setattr(
        room.desk.replies, "_waiting", {"c": SimpleNamespace(is_announced=False)}
    ),
}


@pytest.mark.parametrize("what", NEEDS)
def test_while_anything_runs_or_waits_it_stays(
    what: str, room: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    wait(room, 0)
    with monkeypatch.context() as patch:
        NEEDS[what](room, patch)
        ring(room, 100)
        assert is_loaded(room)
    wait(room, 9)
    assert is_loaded(room), "time counts from its end"
    wait(room, 2)
    assert gone(room)


def test_a_held_queue_waits_for_the_user_and_holds_nothing(
    room: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(room.desk.queue, "_queues", {"c": [SimpleNamespace(text="x")]})
    monkeypatch.setattr(room.desk.queue, "_held", {"c"})
    wait(room, 11)
    assert gone(room)


# --- what it takes now ----------------------------------------------------------------------------


def test_memory_is_measured_when_somebody_looks(room: Any) -> None:
    """And looking is no use of the weights."""
    told: list[Any] = []
    room.desk.memory.read(told.append)
    room.until(lambda: told, "memory")
    room.now += 60
    room.desk.memory.read(told.append)
    room.until(lambda: len(told) == 2, "memory again")
    assert room.desk.idle._used_at < room.now
    assert told[0].engine_bytes > 1_000_000
    assert any(line.startswith("Engine now: ") for line in told[0].lines())
    room.desk.memory.tell()
    room.until(
        lambda: any("Engine now: " in n.sentence for n in room.of(events.Noticed)), "the notice"
    )


def test_a_newer_look_at_memory_replaces_an_older_one(room: Any) -> None:
    first: list[Any] = []
    second: list[Any] = []
    room.desk.memory.read(first.append)
    room.desk.memory.read(second.append)
    room.until(lambda: second, "memory")
    assert first == []


def test_without_an_engine_nothing_is_measured(room: Any) -> None:
    room.desk.loader.unload()
    assert gone(room)
    told: list[Any] = []
    room.desk.memory.read(told.append)
    room.pump()
    assert told == []
