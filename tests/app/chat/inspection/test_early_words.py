"""What is written while the desk starts: at whatever step, it is kept once, in order, in view.

The steps are the answers of other threads that the desk waits for: here they run one at a time.
"""

from __future__ import annotations

import queue
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from app.chat.conversations import shelf
from models.records import Role

STEPS = range(16)
"""At the last ones everything stands: 14 answers come until the former chat is shown."""
SOME_OF_THEM = [
    step if step in (0, 1, 2, 3, 5, 8, 13) else pytest.param(step, marks=pytest.mark.soak)
    for step in STEPS
]
"""In make soak all."""


@pytest.fixture(autouse=True)
def short_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    """Drafts are saved almost at once, as if the start took long."""
    monkeypatch.setattr(shelf, "DRAFT_DELAY_S", 0.0)


@pytest.fixture(scope="module")
def kept() -> dict[Any, tuple[Path, str]]:
    """Data folders as somebody's former start left them, by what they did."""
    return {}


Former = Callable[..., str]


@pytest.fixture
def former(
    make_room: Any,
    data_dir: Path,
    kept: dict[Any, tuple[Path, str]],
    tmp_path_factory: pytest.TempPathFactory,
) -> Former:
    """former(act) leaves this data folder as a start does in which that was done to the desk;
    the id of the chat that was open."""

    def start(act: Callable[[Any], None]) -> str:
        if act in kept:
            shutil.copytree(kept[act][0], data_dir)
        else:
            room = make_room().start_ready()
            act(room)
            room.close()
            folder = tmp_path_factory.mktemp("former") / "data"
            shutil.copytree(data_dir, folder)
            kept[act] = folder, str(room.desk.shelf.open.id)
        return kept[act][1]

    return start


def ask_before(room: Any) -> None:
    room.ask("before")


def leave_a_draft(room: Any) -> None:
    room.ask("before")
    room.desk.shelf.save_draft("left over")


def write_a_document(room: Any) -> None:
    room.desk.shelf.open_new_text()
    room.desk.text.save("Once upon a time", 16)


def start_until(room: Any, step: int) -> None:
    """Start and run that many answers; with none, do not even start."""
    if step:
        room.desk.start()
    for _ in range(step - 1):
        try:
            room._posted.get(timeout=0.5)()
        except queue.Empty:
            return


def finish(room: Any, step: int) -> None:
    if not step:
        room.desk.start()
    room.until(lambda: not room.desk.shelf.awaits_last, "the former chat, or that none comes")
    room.until(lambda: room.desk.loader.state.state == "ready", "ready")
    room.until(
        lambda: not room.desk.replies.is_generating and not room.desk.queue.of_open,
        "the last reply",
    )


def enter(room: Any, text: str) -> None:
    """As the window does."""
    room.desk.shelf.save_draft(text)
    room.desk.shelf.save_draft("")
    assert (room.desk.queue.add if room.desk.replies.is_generating else room.desk.replies.send)(
        text
    )


def asked(room: Any) -> list[str]:
    return [m.content for m in room.desk.shelf.path if m.role is Role.USER]


@pytest.mark.parametrize("step", SOME_OF_THEM)
def test_sent_at_any_step_of_a_first_start(make_room: Any, step: int) -> None:
    room = make_room()
    start_until(room, step)
    enter(room, "one")
    enter(room, "two")
    room.desk.shelf.save_draft("three")
    finish(room, step)
    assert asked(room) == ["one", "two"]
    room.until(lambda: room.desk.shelf.open.draft == "three")
    assert len(room.desk.shelf.conversations) == 1


@pytest.mark.parametrize("step", SOME_OF_THEM)
def test_sent_at_any_step_where_there_was_a_chat(make_room: Any, former: Former, step: int) -> None:
    """In a chat of its own, or in the former one if that was on screen: in view in any case."""
    former_id = former(ask_before)
    room = make_room()
    start_until(room, step)
    was_shown = room.desk.shelf.open.id == former_id
    enter(room, "one")
    finish(room, step)
    assert asked(room) == (["before", "one"] if was_shown else ["one"])
    assert len(room.desk.shelf.conversations) == (1 if was_shown else 2)


@pytest.mark.parametrize("step", SOME_OF_THEM)
def test_typed_at_any_step_joins_the_draft_of_the_chat_that_was_there(
    make_room: Any, former: Former, step: int
) -> None:
    former_id = former(leave_a_draft)
    room = make_room()
    start_until(room, step)
    was_shown = room.desk.shelf.open.id == former_id
    room.desk.shelf.save_draft("left over\nmore" if was_shown else "more")
    finish(room, step)
    room.until(lambda: room.desk.shelf.open.draft == "left over\nmore")
    assert room.desk.shelf.open.id == former_id
    assert len(room.desk.shelf.conversations) == 1


@pytest.mark.parametrize("step", SOME_OF_THEM)
def test_typed_at_any_step_leaves_the_document_that_was_there_alone(
    make_room: Any, former: Former, step: int
) -> None:
    former(write_a_document)
    room = make_room()
    start_until(room, step)
    if room.desk.text.is_open:
        assert room.desk.text.text == "Once upon a time"
        return
    room.desk.shelf.save_draft("a question")
    finish(room, step)
    room.until(lambda: room.desk.shelf.open.draft == "a question")
    assert not room.desk.text.is_open
    (document,) = [c for c in room.desk.shelf.conversations if c.kind == "text"]
    assert document.draft == "Once upon a time"


def test_what_is_typed_before_the_start_is_saved_without_another_key(make_room: Any) -> None:
    room = make_room()
    room.desk.shelf.save_draft("typed early")
    room._posted.get(timeout=5.0)()
    room.start()
    room.until(
        lambda: [c.draft for c in room.store.list_conversations().result()] == ["typed early"]
    )


def test_a_chat_that_was_asked_for_meanwhile_stays(make_room: Any, former: Former) -> None:
    former(ask_before)
    room = make_room()
    room.desk.start()
    room.desk.shelf.open_new()
    new_id = room.desk.shelf.open.id
    finish(room, 1)
    assert room.desk.shelf.open.id == new_id
