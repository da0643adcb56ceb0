"""Replies read aloud through the desk, by a program that writes down what it was given."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import psutil
import pytest

from app.chat import events
from app.chat.aloud.speakers import Speaker

SCRIPT: dict[str, Any] = {
    "load": {"ms": 1},
    "replies": [
        {
            "tokens": [
                {"text": "It rains. "},
                {"text": "It pours. "},
                {"text": "The end", "ms": 150},
            ]
        }
    ]
    * 3,
}
WRITES = 'cat >> "$0"'
"""It says a sentence at once."""
WAITS = 'cat >> "$0"; exec sleep 60'
"""It says it for ever."""


class Ear:
    """What a program was given, and that program."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "said.txt"
        self.does = WRITES

    def find(self, voice: str, rate: int, language: str) -> Speaker | None:
        return Speaker("fake", ("/bin/sh", "-c", self.does, str(self.path)))

    @property
    def heard(self) -> list[str]:
        return self.path.read_text().splitlines() if self.path.exists() else []


@pytest.fixture
def ear(tmp_path: Path) -> Ear:
    return Ear(tmp_path)


@pytest.fixture
def room(make_room: Any, ear: Ear) -> Any:
    room = make_room(SCRIPT).start_ready()
    room.desk.aloud._find = ear.find
    return room


def follow(room: Any) -> None:
    """As the window does: it tells of what the desk has told."""
    for event in room.events[getattr(room, "seen", 0) :]:
        match event:
            case events.TextArrived():
                room.desk.aloud.follow(event.message_id)
            case events.MessageChanged():
                room.desk.aloud.follow(event.message.id)
            case events.MessageAdded():
                room.desk.aloud.began(event.message)
    room.seen = len(room.events)


def until(room: Any, condition: Any) -> None:
    def followed() -> Any:
        follow(room)
        return condition()

    room.until(followed)


def children() -> list[psutil.Process]:
    """The program that speaks, if it does."""
    mine = psutil.Process(os.getpid()).children()
    return [child for child in mine if child.name() in ("sh", "dash", "bash", "sleep")]


def test_a_reply_is_read_as_it_is_written(room: Any, ear: Ear) -> None:
    desk = room.desk
    desk.settings.set("read_aloud", True)
    desk.replies.send("How is the weather?")
    until(room, lambda: ear.heard[:1] == ["It rains."])
    until(room, lambda: ear.heard == ["It rains.", "It pours.", "The end"])
    until(room, lambda: not desk.aloud.is_reading)
    told = room.of(events.ReadingChanged)
    assert [e.sentence for e in told if e.sentence] == ["It rains.", "It pours.", "The end"]
    assert told[-1] == events.ReadingChanged()
    # Once more from the beginning, since somebody says so.
    desk.aloud.read(desk.shelf.path[-1].id)
    until(room, lambda: len(ear.heard) == 6 and not desk.aloud.is_reading)


def test_it_stops_at_once_pauses_goes_on_and_skips(room: Any, ear: Ear) -> None:
    desk = room.desk
    desk.replies.send("How is the weather?")
    until(room, lambda: not desk.replies.is_generating and len(desk.shelf.path) == 2)
    reply, ear.does = desk.shelf.path[-1].id, WAITS
    desk.aloud.read(reply)
    until(room, lambda: ear.heard == ["It rains."])
    desk.aloud.toggle_pause()
    until(room, lambda: not children())
    assert desk.aloud.is_paused
    desk.aloud.toggle_pause()
    until(room, lambda: ear.heard == ["It rains.", "It rains."])
    desk.aloud.skip()
    until(room, lambda: ear.heard[2:] == ["It pours."])
    desk.aloud.toggle_pause()
    desk.aloud.skip()
    desk.aloud.toggle_pause()
    until(room, lambda: ear.heard[3:] == ["The end"])
    desk.aloud.stop()
    assert not desk.aloud.is_reading
    until(room, lambda: not children())
    # One voice at a time: another reading ends the first.
    desk.aloud.read(reply)
    desk.aloud.read(reply)
    until(room, lambda: len(ear.heard) >= 5)
    until(room, lambda: len(children()) <= 1)
    # Another chat comes on screen.
    desk.shelf.open_new()
    assert not desk.aloud.is_reading
    until(room, lambda: not children())


def test_it_ends_with_the_window_and_what_fails_is_said(room: Any, ear: Ear) -> None:
    desk = room.desk
    desk.replies.send("How is the weather?")
    until(room, lambda: not desk.replies.is_generating and len(desk.shelf.path) == 2)
    reply = desk.shelf.path[-1].id
    ear.does = 'cat > /dev/null; echo "no sound card" >&2; exit 3'
    desk.aloud.read(reply)
    until(room, lambda: not desk.aloud.is_reading)
    said = [e.sentence for e in room.of(events.Noticed)]
    assert said == ["Reading aloud ended. fake failed: no sound card."]
    # A language that is not installed: once more without it.
    says = ("/bin/sh", "-c", WRITES, str(ear.path))
    desk.aloud._find = lambda *_: Speaker("fake", ("/bin/false",), else_command=says)
    desk.aloud.read(reply)
    until(room, lambda: len(ear.heard) == 3 and not desk.aloud.is_reading)
    ear.path.unlink()
    desk.aloud._find = lambda *_: Speaker("fake", ("/nowhere/fake",))
    desk.aloud.read(reply)
    until(room, lambda: len(room.of(events.Noticed)) == 2)
    assert "fake couldn't be started" in room.of(events.Noticed)[-1].sentence
    desk.aloud._find = lambda *_: None
    assert not desk.aloud.is_possible
    desk.aloud.read(reply)
    assert room.of(events.Noticed)[-1].sentence == desk.aloud.why_not()
    ear.does = WAITS
    desk.aloud._find = ear.find
    desk.aloud.read(reply)
    until(room, lambda: ear.heard == ["It rains."])
    room.close()  # and the guard looks for children and threads
    assert not children()
