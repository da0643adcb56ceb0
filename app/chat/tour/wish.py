"""Which token's tour is to be saved as a page, and what has come of what it needs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from app.engine.protocol.loading_messages import Loaded
from app.engine.protocol.messages import TokenTrace
from app.insight.tour.facts import Facts
from models.records import Message


@dataclass(frozen=True, slots=True)
class Wish:
    """What a page is to be about. `index`: of the followed token in the reply's `traces`. `asked`:
    the message that was answered. `known`: facts that are there already: what was measured."""

    message: Message
    traces: Sequence[TokenTrace]
    index: int
    asked: str = ""
    known: Facts = field(default_factory=dict)


@dataclass(slots=True)
class Run:
    """A page on its way. `loaded`: the weights that wrote the reply, None where they aren't here.
    `found`: answers, by the steps that they belong to; `missing`: why there is none. `step`: what
    is asked for now, and `left` after it."""

    wish: Wish
    target: str
    loaded: Loaded | None
    left: list[str]
    step: str = ""
    found: dict[str, Any] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)
