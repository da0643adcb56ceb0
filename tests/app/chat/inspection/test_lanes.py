"""The lanes from the desk: what is asked, and which answers count."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from app.chat.inspection.lanes import LaneWatch
from app.engine.protocol.lane_messages import Lanes


class Questions:
    def __init__(self) -> None:
        self.open: list[tuple[Any, Any]] = []

    def ask(self, command: Any, kind: type, then: Any, failed: Any, *, still: Any) -> None:
        assert kind is Lanes
        assert still()
        self.open.append((then, failed))


def test_what_an_engine_that_is_gone_tells_is_dropped() -> None:
    questions, loader, called = (
        Questions(),
        SimpleNamespace(loaded=object(), remote=None),
        list[int](),
    )
    watch = LaneWatch(loader, questions)  # type: ignore[arg-type]
    taken: list[object] = []
    watch.record.take = taken.append  # type: ignore[method-assign]
    assert watch.read(lambda: called.append(1))
    assert not watch.read(lambda: called.append(2))  # one question at a time
    loader.loaded = object()
    assert watch.read(lambda: called.append(3))
    for answer in questions.open[0]:
        answer("of the one before")
    assert called == taken == []
    assert not watch.read(lambda: called.append(4))
    questions.open[1][0]("of this one")
    assert (called, taken) == ([3], ["of this one"])
