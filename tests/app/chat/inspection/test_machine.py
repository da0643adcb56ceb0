"""The machine of the loaded file as the window asks for it: read once, measured when asked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from gguf_writer import tiny_llama

from app.chat.inspection import machine as module
from app.chat.inspection.questions import NO_WEIGHTS
from app.chat.surroundings import ALWAYS
from app.engine.protocol.inside_messages import ReadGraph
from app.engine.protocol.machine_messages import FlashCompared, StepProfiled
from app.insight.inside.machine import Machine

SCRIPT: dict[str, Any] = {"replies": [{"text": "The cat saw the dog."}]}
SLOW: dict[str, Any] = {**SCRIPT, "inside": {"ms": 60_000, "chunks": 2}}


class Asking:
    """Whoever asks; what came."""

    def __init__(self, room: Any, path: Path) -> None:
        self.room = room
        self.came: list[Any] = []
        self.failed: list[str] = []
        self.steps: list[tuple[int, int]] = []
        self.sent: list[Any] = []
        self.machine: module.Machines = room.desk.machine
        engine = room.desk.loader.engine
        request = engine.request

        def note(command: Any) -> int:
            self.sent.append(command)
            return int(request(command))

        engine.request = note
        headers = room.desk.headers
        read = headers.read
        headers.read = lambda _path, *args, **named: read(path, *args, **named)

    def read(self, still: Any = ALWAYS) -> None:
        self.machine.read(self.came.append, self.failed.append, still=still)

    def measure(self, name: str, still: Any = ALWAYS) -> None:
        ask = getattr(self.machine, name)
        ask([5] * 9, self.came.append, self.failed.append, self.note, still=still)

    def note(self, done: int, total: int) -> None:
        self.steps.append((done, total))

    def wait(self) -> Any:
        self.room.until(lambda: self.came or self.failed, "an answer")
        assert not self.failed
        return self.came[-1]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """What the scripted engine has no file of."""
    tiny_llama(tmp_path / "tiny.gguf")
    return tmp_path / "tiny.gguf"


@pytest.fixture
def asking(make_room: Any, path: Path) -> Asking:
    return Asking(make_room(SCRIPT).start_ready(), path)


def test_it_is_read_once_per_load(asking: Asking) -> None:
    asking.read()
    machine = asking.wait()
    assert isinstance(machine, Machine)
    assert machine.n_embd == 64
    assert asking.sent == [], "the file says all of it"
    asking.came.clear()
    asking.read()
    assert asking.came == [machine], "at once"


def test_the_engine_says_which_layers_have_the_window(make_room: Any, path: Path) -> None:
    tiny_llama(path, metadata={"llama.attention.sliding_window": 64})
    asking = Asking(make_room(SCRIPT).start_ready(), path)
    asking.read()
    asking.room.until(lambda: len(asking.came) == 2, "both answers")
    first, second = asking.came
    assert not first.knows_windows
    assert second.knows_windows
    assert {layer[0].heads.window for layer in second.layers} == {0}, "this engine has no window"
    assert [type(command) for command in asking.sent] == [ReadGraph]
    asking.came.clear()
    asking.read()
    assert asking.came == [second]


def test_measurements_are_answered_and_say_how_far_they_are(asking: Asking) -> None:
    for name, kind in (("profile", StepProfiled), ("compare_flash", FlashCompared)):
        asking.came.clear()
        asking.measure(name)
        found = asking.wait()
        assert isinstance(found, kind)
        assert found.n_tokens == 9
    assert asking.steps[-1] == (8, 8)


def test_a_newer_measurement_ends_an_older_one(make_room: Any, path: Path) -> None:
    asking = Asking(make_room(SLOW).start_ready(), path)
    asking.measure("profile")
    asking.measure("compare_flash")
    first, second = asking.sent
    questions = asking.room.desk.questions
    assert len(asking.sent) == 2
    assert asking.machine._newest.request_id is not None
    assert questions.is_asked(asking.machine._newest.request_id)
    asking.machine.stop()
    asking.machine.stop()
    # What the template offers was asked for at the load.
    asking.room.until(lambda: not any(questions.is_asked(number) for number in range(100)))
    assert (asking.came, asking.failed) == ([], [])
    assert type(first) is not type(second)


def test_nothing_is_asked_of_weights_that_are_about_to_go(asking: Asking) -> None:
    loader = asking.room.desk.loader
    loader.load(loader.state.loaded.path)
    asking.read()
    asking.measure("profile")
    assert asking.failed == [NO_WEIGHTS, NO_WEIGHTS]
    assert asking.sent == []


def test_what_is_read_of_a_file_that_is_loaded_no_more_is_dropped(asking: Asking) -> None:
    held: list[Any] = []
    asking.room.desk.headers.read = lambda _path, _then, _failed, *, still: held.append(still)
    asking.read()
    (still,) = held
    assert still()
    loader = asking.room.desk.loader
    before = loader.loaded
    loader.load(loader.state.loaded.path)
    asking.room.until(
        lambda: loader.loaded is not None and loader.loaded is not before, "they are loaded anew"
    )
    assert not still()


def test_a_file_that_is_gone_is_said(asking: Asking, path: Path) -> None:
    path.unlink()
    asking.read()
    asking.room.until(lambda: asking.failed, "a sentence")
    assert "no longer exists" in asking.failed[0]
