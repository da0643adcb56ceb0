"""A desk on a real store and a real scripted engine; `post` is a queue that the test empties."""

from __future__ import annotations

import contextlib
import json
import queue
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest

from app.chat import events
from app.chat.desk import Desk
from app.engine.client.engine import Engine
from app.engine.client.process import child_command
from app.engine.protocol.prompt_messages import ChatPrompt
from models.records import Message, Role
from models.store.store import Store

Event = TypeVar("Event")
PATIENCE_S = 20.0

QUICK = {"replies": [{"text": "Paris is the capital of France."}]}
SLOW: dict[str, Any] = {"replies": [{"tokens": [{"text": "again ", "ms": 5, "repeat": 4000}]}]}


class Room:
    """The desk, the events that it emitted, and the thread that owns it (the test's)."""

    def __init__(self, data_dir: Path, script: dict[str, Any], tmp_path: Path, **options: Any):
        self.data_dir = data_dir
        self.events: list[events.Event] = []
        self._posted: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._script = tmp_path / f"script-{time.monotonic_ns()}.json"
        self._script.write_text(json.dumps(_at_once(script)))
        is_real = options.pop("is_real", False)  # llama.cpp's engine, on `gguf`
        scripted = child_command("scripted", str(self._script))
        command = child_command("engine") if is_real else scripted
        read_only = options.pop("read_only", False)
        busy_timeout_s = options.pop("busy_timeout_s", 3.0)
        options.setdefault("gguf", self._script)
        data_dir.mkdir(exist_ok=True)
        self.desk = Desk(
            open_store=lambda *, on_problem: Store.open(
                data_dir,
                read_only=read_only,
                read_only_sentence="Another window writes." if read_only else "",
                on_problem=on_problem,
                busy_timeout_s=busy_timeout_s,
                backup_after_s=None,
            ),
            engine_factory=lambda on_event: Engine(command, on_event),
            post=self._posted.put,
            emit=self.events.append,
            data_dir=data_dir,
            **options,
        )

    @property
    def store(self) -> Store:
        store = self.desk.around.store
        assert store is not None
        return store

    def pump(self) -> None:
        """Run what was posted."""
        with contextlib.suppress(queue.Empty):
            while True:
                self._posted.get_nowait()()

    def until(self, condition: Callable[[], Any], what: str = "") -> Any:
        """Run what is posted until the condition holds, and return what it returned."""
        ends_at = time.monotonic() + PATIENCE_S
        while True:
            self.pump()
            if result := condition():
                return result
            left = ends_at - time.monotonic()
            if left <= 0:
                pytest.fail(f"never came: {what or condition}; last events {self.events[-8:]}")
            with contextlib.suppress(queue.Empty):
                self._posted.get(timeout=min(left, 0.05))()

    def start(self) -> Room:
        self.desk.start()
        self.until(lambda: self.of(events.SettingsChanged), "settings")
        self.until(lambda: self.of(events.ConversationsChanged), "list")
        return self

    def start_ready(self) -> Room:
        self.start()
        self.until(lambda: self.desk.loader.state.state == "ready", "ready")
        return self

    def of(self, kind: type[Event]) -> list[Event]:
        return [event for event in self.events if isinstance(event, kind)]

    def ask(self, text: str) -> Message:
        """Send and wait for the end of the reply."""
        assert self.desk.replies.send(text)
        return self.until(self.ended_reply, f"the reply to {text!r}")

    @property
    def last(self) -> Message | None:
        """The last message of the path on screen."""
        path = self.desk.shelf.path
        return path[-1] if path else None

    def ended_reply(self) -> Message | None:
        last = self.last
        is_reply = last is not None and last.role is Role.ASSISTANT
        return last if is_reply and not self.desk.replies.is_generating else None

    def growing(self, at_least: int = 1) -> Message | None:
        last = self.last
        has_text = last is not None and last.state == "streaming" and len(last.content) >= at_least
        return last if has_text else None

    def stored(self, conversation_id: str | None = None) -> tuple[Message, ...]:
        """The active path as the database has it."""
        store = self.desk.around.store
        assert store is not None
        wanted = conversation_id or self.desk.shelf.open.id
        return store.load_conversation(wanted).result(PATIENCE_S)[1]

    def close(self) -> None:
        self.desk.shutdown()


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the desk does when the keys have rested, it does after a short rest."""
    for place in (
        "replies.counting.COUNT",
        "conversations.shelf.DRAFT",
        "conversations.edits.DRAFT",
    ):
        monkeypatch.setattr(f"app.chat.{place}_DELAY_S", 0.05)


def _at_once(script: dict[str, Any]) -> dict[str, Any]:
    """The script with nothing waited for but what it asks for."""
    load = {"ms": 0, "steps": 1, **script.get("load", {})}
    replies = [{"ms": 0, **reply} for reply in script["replies"]]
    return {"loop": True, **script, "load": load, "replies": replies}


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Any:
    """What the engine is asked to generate from: the last message of each prompt."""

    def watch(room: Any) -> list[str]:
        prompts: list[str] = []
        generate = room.desk._engine.generate

        def spy(request: Any) -> int:
            assert isinstance(request.prompt, ChatPrompt)
            prompts.append(request.prompt.messages[-1].content)
            return generate(request)

        monkeypatch.setattr(room.desk._engine, "generate", spy)
        return prompts

    return watch


@pytest.fixture
def make_room(
    forked_children: None, data_dir: Path, tmp_path: Path
) -> Iterator[Callable[..., Room]]:
    """Makes rooms on this test's data folder; all are closed at the end."""
    with contextlib.ExitStack() as rooms:

        def make(script: dict[str, Any] = QUICK, **options: Any) -> Room:
            room = Room(data_dir, script, tmp_path, **options)
            rooms.callback(room.close)
            return room

        yield make
