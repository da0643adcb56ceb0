"""A day with the program by keys alone, in a real X server, watched from outside.

The way that a new user goes: a chat, an edit in its middle, two answers and a choice, another
chat and back by a word, out to a file, to the trash and back, and into another data folder.
"""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import pytest
from outside import rows, setting
from x_server import Program, wait_for

pytestmark = pytest.mark.xvfb

STAIRS = "Think of a staircase of blocks."
REPLIES = (
    {"text": "The sum is n(n+1)/2."},
    {"text": STAIRS},
    {"text": "Take them in pairs."},
    {"text": "Write them backwards below."},
)


def texts(data_dir: Path, role: str) -> list[str]:
    """The complete messages of a role, in the order in which they were written."""
    found = rows(
        data_dir,
        "SELECT content FROM message WHERE role = ? AND state = 'complete' ORDER BY row_id",
        role,
    )
    return [row[0] for row in found]


def shown(data_dir: Path) -> list[str]:
    """The messages of the path that the only chat with messages shows."""
    found = rows(
        data_dir,
        "WITH RECURSIVE up(row_id, parent, content, depth) AS ("
        " SELECT m.row_id, m.parent_row_id, m.content, 0 FROM message AS m"
        " JOIN conversation AS c ON m.id = c.active_leaf_id WHERE c.trashed_us IS NULL"
        " UNION ALL SELECT m.row_id, m.parent_row_id, m.content, depth + 1"
        " FROM message AS m JOIN up ON m.row_id = up.parent)"
        " SELECT content FROM up ORDER BY depth DESC",
    )
    return [row[0] for row in found]


def ask(program: Program, data_dir: Path, question: str, n_replies: int) -> None:
    program.type(question)
    program.key("Return")
    wait_for(f"reply {n_replies}", lambda: len(texts(data_dir, "assistant")) == n_replies)


def edit_the_third_message(program: Program, data_dir: Path) -> None:
    program.key("shift+Tab", "Up", "e")
    program.key("ctrl+a")
    program.type("Say it so that a child sees it.")
    program.key("ctrl+Return")
    wait_for("the answer to the edit", lambda: len(texts(data_dir, "assistant")) == 3)
    assert texts(data_dir, "user")[1:] == ["Why?", "Say it so that a child sees it."]
    assert shown(data_dir)[2] == "Say it so that a child sees it."


def choose_one_of_two(program: Program, data_dir: Path) -> str:
    """Returns what was chosen."""
    program.window("Cutaway")
    program.key("ctrl+d")
    program.window("several")
    program.key("Return")
    wait_for("two more answers", lambda: len(texts(data_dir, "assistant")) == 5)
    program.window("Cutaway")
    first, second = texts(data_dir, "assistant")[3:]
    assert shown(data_dir)[-1] == first

    program.key("3")
    wait_for("the choice", lambda: shown(data_dir)[-1:] == [second])
    return second


def find_it_again(program: Program, data_dir: Path) -> None:
    chat = setting(data_dir, "last_conversation_id")
    program.key("ctrl+n")
    program.type("something else")
    wait_for("another chat", lambda: setting(data_dir, "last_conversation_id") != chat)
    program.key("ctrl+a", "BackSpace")
    program.key("ctrl+shift+f")
    program.type("staircase")

    def is_opened() -> bool:
        program.key("Return")  # nothing is there to be opened until the search has answered
        return bool(setting(data_dir, "last_conversation_id") == chat)

    wait_for("the chat", is_opened)


def export(program: Program, file: Path) -> Any:
    program.window("Cutaway")
    program.key("ctrl+shift+s")
    what = program.window("Export")
    program.key("Return")
    program.window("Export", other_than=what)
    program.key("ctrl+a")
    program.type(str(file))
    program.key("Return")
    wait_for("the file", lambda: file.exists() and file.stat().st_size > 0)
    return wait_for("a whole file", lambda: _as_json(file))


def throw_away_and_bring_back(program: Program, data_dir: Path) -> None:
    def is_trashed() -> bool:
        found = rows(data_dir, "SELECT trashed_us IS NOT NULL FROM conversation ORDER BY row_id")
        return bool(found and found[0][0])

    program.window("Cutaway")
    program.key("ctrl+shift+BackSpace")
    wait_for("the trash", is_trashed)
    program.key("ctrl+shift+Delete")
    program.window("Trash")
    program.key("Return")
    wait_for("the chat out of the trash", lambda: not is_trashed())
    program.key("Escape")


def take_in(program: Program, data_dir: Path, file: Path) -> None:
    program.window("Cutaway")
    wait_for("the whole window", lambda: rows(data_dir, "SELECT count(*) FROM conversation"))
    program.key("ctrl+shift+o")
    which = program.window("Import")
    program.type(str(file))
    program.key("Return")

    program.window("Import", other_than=which)  # what the file holds
    program.key("Return")
    wait_for(
        "the import",
        lambda: rows(data_dir, "SELECT 1 FROM conversation WHERE trashed_us IS NULL"),
    )


def _as_json(file: Path) -> Any:
    with contextlib.suppress(json.JSONDecodeError):
        return json.loads(file.read_text("utf-8"))
    return None


def test_a_day_by_keys(start, data_dir, tmp_path):
    program = start(*REPLIES)
    program.window("Cutaway")
    ask(program, data_dir, "What is the sum of the first n numbers?", 1)
    ask(program, data_dir, "Why?", 2)
    edit_the_third_message(program, data_dir)
    choose_one_of_two(program, data_dir)
    find_it_again(program, data_dir)
    # It was in the branch that the edit left behind: that one is shown.
    wait_for("its branch", lambda: shown(data_dir)[1:] == ["The sum is n(n+1)/2.", "Why?", STAIRS])
    file = tmp_path / "chats.json"
    assert STAIRS in json.dumps(export(program, file))
    throw_away_and_bring_back(program, data_dir)
    said = texts(data_dir, "user"), texts(data_dir, "assistant")
    assert len(said[1]) == 5
    program.ask_to_close(program.window("Cutaway"))
    assert program.wait() == 0
    other = tmp_path / "another folder"
    second = start(*REPLIES, options=("--data-dir", str(other)))
    take_in(second, other, file)
    wait_for("all messages", lambda: (texts(other, "user"), texts(other, "assistant")) == said)
