"""Two words exchanged, as the window asks for it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from app.chat.inspection import exchange as module
from app.chat.inspection.questions import NO_WEIGHTS
from app.chat.surroundings import ALWAYS
from app.insight.inside.exchange import Exchanged

SCRIPT: dict[str, Any] = {"replies": [{"text": "The cat saw the dog."}]}
IDS = [5, 6, 7, 8, 9]


class Asking:
    def __init__(self, room: Any) -> None:
        self.room = room
        self.came: list[Exchanged] = []
        self.failed: list[str] = []
        self.progress: list[tuple[int, int]] = []

    def ask(self, *args: Any, still: Any = ALWAYS) -> None:
        self.room.desk.word_order.ask(
            *args,
            self.came.append,
            self.failed.append,
            lambda *how_far: self.progress.append(how_far),
            still=still,
        )

    def until(self) -> None:
        self.room.until(lambda: self.came or self.failed, "an answer")


@pytest.fixture
def asking(make_room: Any) -> Asking:
    return Asking(make_room({**SCRIPT, "inside": {"chunks": 2}}).start_ready())


def test_both_orders_are_read_and_compared(asking: Asking) -> None:
    asking.ask(IDS, (0, 1), (2, 3))
    asking.until()
    (found,) = asking.came
    assert found.bits > 0
    assert found.turned.shape == (4,)
    assert (found.turned > 0).all()
    assert np.isclose(found.before.max(), found.before[0])
    assert asking.progress == [(2, 8), (4, 8), (6, 8), (8, 8)]


def test_what_cannot_be_exchanged_is_said_at_once(asking: Asking) -> None:
    asking.ask(IDS, (0, 1), (4, 5))
    asking.ask([5, 6, 5, 8], (0, 1), (2, 3))
    assert asking.failed == [module.NO_PLACES, module.SAME]


def test_a_newer_question_ends_an_older_one(make_room: Any) -> None:
    asking = Asking(make_room({**SCRIPT, "inside": {"ms": 100, "chunks": 50}}).start_ready())
    asking.ask(IDS, (0, 1), (2, 3))
    asking.room.until(lambda: asking.progress, "the first text is being read")
    asking.ask(IDS, (0, 1), (1, 2))
    asking.until()
    assert len(asking.came) == 1
    asking.ask(IDS, (0, 1), (2, 3))
    asking.room.desk.word_order.stop()
    answered: list[Any] = []
    asking.room.desk.questions.tokenize("dog", answered.append, answered.append, still=ALWAYS)
    asking.room.until(lambda: answered, "the tokens")
    assert len(asking.came) == 1
    assert asking.failed == []


def test_it_is_not_told_to_whoever_has_gone_on(asking: Asking) -> None:
    waits = [True]
    asking.ask(IDS, (0, 1), (2, 3), still=lambda: waits[0])
    waits[0] = False
    other = Asking(asking.room)
    asking.room.desk.embedding.describe(other.came.append, other.failed.append, still=ALWAYS)
    other.until()
    assert asking.came == []
    assert asking.failed == []


def test_without_scores_there_is_nothing_to_compare(make_room: Any) -> None:
    missing = {"logits": "None here."}
    asking = Asking(make_room({**SCRIPT, "inside": {"missing": missing}}).start_ready())
    asking.ask(IDS, (0, 1), (2, 3))
    asking.until()
    assert asking.failed == [module.NO_SCORES]


def test_without_streams_the_votes_are_compared(make_room: Any) -> None:
    missing = {"residual": "None here."}
    asking = Asking(make_room({**SCRIPT, "inside": {"missing": missing}}).start_ready())
    asking.ask(IDS, (0, 1), (2, 3))
    asking.until()
    assert asking.came[0].turned.size == 0
    assert asking.came[0].bits > 0


def test_without_weights_it_is_said(make_room: Any) -> None:
    asking = Asking(make_room({**SCRIPT, "load": {"fail": ["not_a_gguf", "No."]}}).start())
    asking.ask(IDS, (0, 1), (2, 3))
    assert asking.failed == [NO_WEIGHTS]
