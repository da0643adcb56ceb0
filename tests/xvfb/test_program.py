"""The whole program in a real X server: real keys in, rows in the database out.

Nothing here reaches into the program. The database is read from outside, read-only, while
the program runs.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest
from outside import rows, setting
from x_server import Program, wait_for

from models.store.store import Store

pytestmark = pytest.mark.xvfb

ROOT = Path(__file__).resolve().parents[2]
SHORT_REPLY = {"tokens": [{"text": "Paris"}, {"text": " it is."}]}
LONG_REPLY = {"tokens": [{"repeat": 20_000, "text": "on and ", "ms": 5}]}


class Row(NamedTuple):
    role: str
    state: str
    content: str
    weights_name: str | None


class Outside:
    """What another program sees of the data folder."""

    def __init__(self, data_dir: Path) -> None:
        self._data_dir = data_dir

    def messages(self) -> list[Row]:
        question = "SELECT role, state, content, weights_name FROM message ORDER BY row_id"
        return [Row(*row) for row in rows(self._data_dir, question)]

    def setting(self, name: str) -> object:
        return setting(self._data_dir, name)

    def reply(self, state: str, holds: str = "") -> Row | None:
        """The last message, if it is a reply in this state that holds this text."""
        last = self.messages()[-1:]
        matching = [
            row
            for row in last
            if row.role == "assistant" and row.state == state and holds in row.content
        ]
        return matching[0] if matching else None


@pytest.fixture
def outside(data_dir):
    return Outside(data_dir)


def close(program: Program, window: str) -> None:
    """Close by the window manager's message: orderly, silent, and nothing stays."""
    program.children()
    program.ask_to_close(window)
    assert program.wait() == 0, program.printed()[-2000:]
    assert program.survivors() == []
    assert "Traceback" not in program.printed()


def ask(program: Program, question: str) -> str:
    window = program.window("Cutaway")
    program.type(question)
    program.key("Return")
    return window


def test_a_typed_question_is_answered_and_kept(start_anew, outside):
    program = start_anew(SHORT_REPLY)
    window = ask(program, "What is the capital of France?")
    wait_for("the reply", lambda: outside.reply("complete"))
    assert [row[:3] for row in outside.messages()] == [
        ("user", "complete", "What is the capital of France?"),
        ("assistant", "complete", "Paris it is."),
    ]
    close(program, window)


def test_shift_enter_breaks_the_line_and_sends_nothing(start, outside):
    program = start(SHORT_REPLY)
    window = program.window("Cutaway")
    program.type("one")
    program.key("shift+Return")
    program.type("two")
    program.key("Return")
    wait_for("the reply", lambda: outside.reply("complete"))
    assert outside.messages()[0].content == "one\ntwo"
    close(program, window)


def test_the_palettes_key_is_the_windows_and_not_the_text_fields(start, outside):
    """On X11 Ctrl+K in a text field deletes to the end of the line."""
    program = start(SHORT_REPLY)
    window = ask(program, "Are you there?")
    wait_for("the reply", lambda: outside.reply("complete"))
    program.type("kept as typed")
    program.key("Home", "ctrl+k")
    program.type("zoom in")
    program.key("Return", "Return")
    wait_for("the next reply", lambda: len(outside.messages()) == 4)
    assert outside.messages()[2].content == "kept as typed"
    wait_for("the zoom", lambda: outside.setting("zoom_percent") == 110)
    close(program, window)


def test_escape_stops_a_reply_and_keeps_its_text(start, outside):
    program = start(LONG_REPLY)
    window = ask(program, "Go on and on.")
    wait_for("growing text", lambda: outside.reply("streaming", "on and on"))
    program.key("Escape")
    stopped = wait_for("the stop", lambda: outside.reply("stopped"), timeout_s=5.0)
    assert stopped.content.startswith("on and on")
    close(program, window)


def test_closing_while_a_reply_grows_keeps_it(start, outside):
    program = start(LONG_REPLY)
    window = ask(program, "Go on and on.")
    wait_for("growing text", lambda: outside.reply("streaming", "on and on"))
    close(program, window)
    last = outside.messages()[-1]
    assert last.state in ("stopped", "interrupted")
    assert last.content.startswith("on and on")


def test_a_killed_program_leaves_no_child_and_its_text(start_anew, outside):
    program = start_anew(LONG_REPLY)
    ask(program, "Go on and on.")
    wait_for("growing text", lambda: outside.reply("streaming", "on and on"))
    assert program.children()
    program.kill()
    assert program.survivors() == []
    kept = outside.reply("streaming", "on and on")
    assert kept

    again = start_anew(SHORT_REPLY)
    window = again.window("Cutaway")
    interrupted = wait_for("the start to notice", lambda: outside.reply("interrupted"))
    assert interrupted.content == kept.content
    close(again, window)


def test_quit_after_ends_by_itself(start, outside):
    program = start(SHORT_REPLY, options=("--quit-after", "1"))
    program.window("Cutaway")
    program.children()
    assert program.wait() == 0, program.printed()[-2000:]
    assert program.survivors() == []
    assert "Traceback" not in program.printed()


@pytest.mark.weights
def test_the_included_weights_answer_real_keys(start, outside, data_dir, starter_gguf):
    data_dir.mkdir()
    store = Store.open(data_dir, backup_after_s=None)
    store.set_setting("n_threads", 1).result()  # several wait for each other on a busy machine
    store.close()
    program = start()
    window = ask(program, "Tell me a long story about a city in France.")
    growing = wait_for(
        "a reply of the included weights",
        lambda: (row := outside.reply("streaming")) and len(row.content) > 20 and row,
        timeout_s=90.0,
    )
    assert growing.weights_name.startswith("SmolLM2")
    program.key("Escape")
    stopped = wait_for("the stop", lambda: outside.reply("stopped"), timeout_s=10.0)
    assert stopped.content.startswith(growing.content)
    close(program, window)
