"""Keys at every step of the start: what is written is sent or in the field, once and in order.

The steps are those of the window: built, painted, complete, and then each answer of another
thread, run one at a time.
"""

from __future__ import annotations

import contextlib
import queue
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication
from store_records import a_conversation, a_message

from app.bridge import Bridge
from models.records import Role
from models.store.store import Store

QUICK: dict[str, Any] = {"load": {"ms": 10}, "replies": [{"text": "Yes."}]}


def some_steps(*often: int) -> list[Any]:
    return [
        step if step in often else pytest.param(step, marks=pytest.mark.soak) for step in range(18)
    ]


STEPS, FEW_STEPS = some_steps(0, 1, 2, 5, 9, 17), some_steps(1, 5, 17)
"""At the last one everything stands. `tests/app/chat/inspection/test_early_words.py` always takes
each."""

Posted = queue.SimpleQueue[Callable[[], None]]


@pytest.fixture
def posted(monkeypatch: pytest.MonkeyPatch) -> Posted:
    """What other threads have answered and nobody has taken yet."""
    waiting: Posted = queue.SimpleQueue()
    monkeypatch.setattr(Bridge, "post", lambda _bridge, action: waiting.put(action))
    return waiting


def steps(person: Any, posted: Posted) -> Iterator[None]:
    """Start step by step; ends when the weights are ready."""
    app = person.app
    yield
    person.wait(lambda: app._first_paint._action is None)
    yield
    person.wait(lambda: app._made is not None)
    yield
    while app.desk.loader.state.state != "ready" or app.desk.shelf.awaits_last:
        run(app, posted)
        yield


def run(app: Any, posted: Posted) -> None:
    with contextlib.suppress(queue.Empty):
        app.bridge._run(posted.get(timeout=0.05))
    QApplication.processEvents()


def strike(person: Any, text: str) -> None:
    """Through the window's own way of keys, whatever widget that leads to."""
    for letter in text:
        key = Qt.Key.Key_Return if letter == "\n" else Qt.Key(ord(letter.upper()))
        for is_press in (True, False):
            handle = person.window.windowHandle()
            none = Qt.KeyboardModifier.NoModifier
            QTest.simulateEvent(handle, is_press, key, none, letter.strip("\n"), False)


def start(person: Any, posted: Posted, step: int, text: str) -> None:
    """Start, strike these keys at that step, and see it through to the last reply."""
    person.window.activateWindow()
    person.wait(person.window.isActiveWindow)
    has_struck = False
    for number, _ in enumerate(steps(person, posted)):
        if number == step:
            strike(person, text)
            has_struck = True
    if not has_struck:
        strike(person, text)
    desk = person.app.desk

    def is_over() -> bool:
        run(person.app, posted)
        is_asking = person.window.chat.composer._asked  # what belongs to the chat is being read
        return not (is_asking or desk.replies.is_generating or desk.queue.of_open)

    person.wait(is_over)


def asked(person: Any) -> list[str]:
    return [m.content for m in person.app.desk.shelf.path if m.role is Role.USER]


@pytest.mark.parametrize("step", STEPS)
def test_at_a_first_start(open_window: Any, posted: Posted, step: int) -> None:
    person = open_window(QUICK)
    start(person, posted, step, "one\ntwo\nthree")
    assert asked(person) == ["one", "two"]
    assert person.written() == "three"


@pytest.fixture
def former_id(data_dir: Path) -> str:
    """A chat of a former run, with a draft."""
    store = Store.open(data_dir, backup_after_s=None)
    conversation = a_conversation(draft="old")
    store.create_conversation(conversation)
    store.append_message(a_message(conversation, content="before"))
    store.set_setting("last_conversation_id", conversation.id).result()
    store.close()
    return conversation.id


@pytest.mark.parametrize("step", FEW_STEPS)
def test_where_there_was_a_chat_with_a_draft(
    open_window: Any, posted: Posted, former_id: str, step: int
) -> None:
    """They go to the former chat, which is on screen first: with its draft, if that is in the
    field by then, else without, and the draft comes to what is written meanwhile."""
    person = open_window(QUICK)
    start(person, posted, step, "one\nmore")
    assert person.app.desk.shelf.open.id == former_id
    assert asked(person) in (["before", "oldone"], ["before", "one"])
    is_with_draft = asked(person)[-1] == "oldone"
    assert person.written() == "more" if is_with_draft else "old" in person.written()
    assert person.written().endswith("more")


@pytest.mark.parametrize("step", FEW_STEPS)
def test_typed_words_join_the_draft_that_was_there(
    open_window: Any, posted: Posted, former_id: str, step: int
) -> None:
    person = open_window(QUICK)
    start(person, posted, step, "new")
    assert asked(person) == ["before"]
    assert person.written() in ("old\nnew", "oldnew")
    assert person.app.desk.shelf.open.id == former_id
    assert len(person.app.desk.shelf.conversations) == 1
