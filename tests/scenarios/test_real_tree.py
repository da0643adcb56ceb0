"""Versions on the included weights: several answers in one batch, and going on with a reply."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from app.chat.events import TokenRecorded
from models.records import Message
from ui.chat.compare import Comparison

pytestmark = [pytest.mark.weights, pytest.mark.soak]


@pytest.fixture
def person(open_window: Any) -> Any:
    """One thread, and a first reply of a few tokens."""
    made = open_window()
    desk = made.app.desk
    desk.settings.set("n_threads", 1)
    desk.settings.set("max_tokens", 8)
    desk.settings.set("seed", 5)
    made.send("Tell me a story about a fox.")
    made.qtbot.waitUntil(
        lambda: not desk.replies.is_generating and made.reply() is not None, timeout=90_000
    )
    return made


def test_a_reply_has_other_versions(person: Any):
    """One after another: to load the weights and to answer takes longest."""
    first = person.reply()
    it_goes_on_from_its_own_tokens(person, first)
    it_begins_with_what_was_written(person)
    several_answers_are_written_in_one_batch(person, first)


def several_answers_are_written_in_one_batch(person: Any, first: Message):
    desk, prompt = person.app.desk, first.counts.prompt_tokens
    desk.settings.set("max_tokens", 14)
    order: list[str] = []
    person.app.bridge.on(TokenRecorded, lambda event: note(order, event))
    desk.replies.ask_several(person.reply().id, [{"seed": 1, "temperature": 1.0}, {"seed": 2}])
    shown = person.wait(lambda: comparison(person))
    person.qtbot.waitUntil(lambda: not desk.replies.is_generating, timeout=90_000)
    left, right = (column.message for column in shown.columns)
    assert left.content
    assert right.content
    assert (left.seed, right.seed) == (1, 2)
    changes = sum(1 for one, other in pairwise(order) if one != other)
    assert changes > 10, f"they took turns only {changes} times: {order}"
    for message in (left, right):
        assert message.counts.reused >= prompt - 1, "the prompt is not read again"


def it_goes_on_from_its_own_tokens(person: Any, old: Message):
    desk = person.app.desk
    desk.replies.go_on(old.id)
    person.qtbot.waitUntil(
        lambda: not desk.replies.is_generating and person.reply().id != old.id, timeout=90_000
    )
    new = person.reply()
    assert new.content.startswith(old.content)
    assert len(new.content) > len(old.content)
    assert new.token_ids[: len(old.token_ids)] == old.token_ids
    assert new.counts.generated == 8
    assert new.counts.evaluated <= 2, "only what is new is read"


def it_begins_with_what_was_written(person: Any):
    desk, old = person.app.desk, person.reply()
    desk.replies.begin_with(old.id, "In a dark wood there lived")
    person.qtbot.waitUntil(
        lambda: not desk.replies.is_generating and person.reply().id != old.id, timeout=90_000
    )
    new = person.reply()
    assert new.content.startswith("In a dark wood there lived ")
    assert new.token_ids is None
    assert new.rendered_prompt.endswith("In a dark wood there lived")


def note(order: list[str], event: TokenRecorded) -> None:
    order.append(event.message_id)


def comparison(person: Any) -> Any:
    shown = person.window.chat.body.currentWidget()
    return shown if isinstance(shown, Comparison) else None
