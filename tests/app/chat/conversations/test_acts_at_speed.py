"""Two acts in a row, the second before the first one's answer is back: on the real store."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import outside
import pytest

from app.chat import events
from app.chat.surroundings import ALWAYS
from models.records import Role

SCRIPT = {"replies": [{"text": "An answer."}]}

VISIBLE_BELOW_DELETED = """
    SELECT count(*) FROM message AS m JOIN message AS p ON p.row_id = m.parent_row_id
    WHERE m.trashed_us IS NULL AND p.trashed_us IS NOT NULL
"""


@pytest.fixture
def room(make_room: Any) -> Any:
    made = make_room(SCRIPT).start_ready()
    for text in ("One?", "Two?", "Three?"):
        made.ask(text)
    return made


def settle(room: Any) -> None:
    """Until every answer is back: the last question of each kind was answered."""
    room.until(lambda: not room.desk.replies.is_generating, "the replies")
    for _ in range(4):  # an answer may ask again
        done: list[bool] = []
        room.desk.around.when_done(
            room.store.all_settings(), lambda _, d=done: d.append(True), still=ALWAYS
        )
        room.until(lambda d=done: d, "the store")
    room.until(lambda: not room.desk.replies.is_generating, "the replies")


def rows(room: Any, sql: str, *values: object) -> list[tuple[Any, ...]]:
    return outside.rows(room.data_dir, sql, *values)


def errors(room: Any) -> list[str]:
    return [n.sentence for n in room.of(events.Noticed) if n.level == "error"]


ACTS: dict[str, Callable[[Any, Any], object]] = {
    "delete": lambda desk, m: desk.tree.trash(m.id, only_this=False),
    "delete alone": lambda desk, m: desk.tree.trash(m.id, only_this=True),
    "edit": lambda desk, m: desk.tree.edit(m.id, "typed by hand", keep_following=True),
    "insert": lambda desk, m: desk.tree.insert(m.id, Role.USER, "typed by hand"),
    "swap": lambda desk, m: desk.tree.swap_role(m.id),
    "retry": lambda desk, m: desk.replies.answer(m.id),
    "send": lambda desk, _m: desk.replies.send("typed by hand"),
    "other version": lambda desk, m: desk.paths.show_version(m.id, 1),
}


@pytest.mark.parametrize("second", ["edit", "insert"])
def test_what_is_typed_at_a_message_right_after_a_deletion_above_it_is_not_taken(
    room: Any, second: str
) -> None:
    """So the editor keeps it. What the store makes of it:
    `tests/models/conversations/test_tree_acts.py`."""
    above, below = room.desk.shelf.path[2], room.desk.shelf.path[4]
    ACTS["delete"](room.desk, above)
    assert ACTS[second](room.desk, below) is False
    settle(room)
    assert rows(room, VISIBLE_BELOW_DELETED) == [(0,)]
    assert [m.content for m in room.desk.shelf.path] == ["One?", "An answer."]


def test_what_is_sent_right_after_a_deletion_is_in_view(room: Any) -> None:
    ACTS["delete"](room.desk, room.desk.shelf.path[2])
    ACTS["send"](room.desk, room.desk.shelf.path[4])
    room.until(lambda: "typed by hand" in [m.content for m in room.desk.shelf.path])
    settle(room)
    assert rows(room, VISIBLE_BELOW_DELETED) == [(0,)]
    assert "typed by hand" in [m.content for m in room.stored()]
    assert errors(room) == []


@pytest.mark.parametrize(
    "seed", [*range(2), *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(2, 12))]
)
def test_no_two_acts_leave_a_message_below_a_deleted_one(room: Any, seed: int) -> None:
    dice = random.Random(seed)
    for _ in range(12):
        shown = room.desk.shelf.path
        for name in dice.choices(list(ACTS), k=2):
            if shown:
                ACTS[name](room.desk, dice.choice(shown))
        settle(room)
        assert rows(room, VISIBLE_BELOW_DELETED) == [(0,)]
        if dice.random() < 0.3:
            undo = [n.undo for n in room.of(events.Noticed) if n.undo]
            for key in undo[-2:]:
                room.desk.shelf.undo(key)
            settle(room)
            assert rows(room, VISIBLE_BELOW_DELETED) == [(0,)]
        alive = {key for (key,) in rows(room, "SELECT id FROM message WHERE trashed_us IS NULL")}
        assert {m.id for m in room.desk.shelf.path} <= alive
        if not room.desk.shelf.path:
            room.ask("Anew?")
    assert errors(room) == []


def test_a_chat_that_is_restored_as_it_is_deleted_for_good_is_no_ghost(room: Any) -> None:
    gone = room.desk.shelf.open.id
    room.desk.folders.trash_one(gone)
    undo = [n.undo for n in room.of(events.Noticed) if n.undo][-1]
    room.desk.folders.delete_for_good([gone])
    room.desk.shelf.undo(undo)
    settle(room)
    assert gone not in {c.id for c in room.desk.shelf.conversations}
    assert room.desk.shelf.open.id != gone
    assert errors(room) == ["This chat was deleted."]
