"""The desk's room (`tests/app/chat/conftest.py`), for chats that leave and come."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from app.chat import events


@pytest.fixture
def room(make_room: Callable[..., Any]) -> Any:
    """A desk with a ready scripted engine and one answered question."""
    room = make_room().start_ready()
    room.ask("What is the capital of France?")
    return room


@pytest.fixture
def told(room: Any) -> Callable[[str], str]:
    """told(words) waits for a notice with these words."""

    def wait(words: str) -> str:
        def found() -> str:
            said = [e.sentence for e in room.of(events.Noticed) if words in e.sentence]
            return said[-1] if said else ""

        return str(room.until(found, f"a notice with {words!r}"))

    return wait


@pytest.fixture
def looked(room: Any) -> Callable[..., events.ImportPreviewed]:
    """looked(*paths) asks what an import of these files would bring."""

    def ask(*paths: Path) -> events.ImportPreviewed:
        count = len(room.of(events.ImportPreviewed))
        room.desk.exchange.preview([str(path) for path in paths])
        return room.until(lambda: room.of(events.ImportPreviewed)[count:], "a preview")[-1]

    return ask
