"""A day with the window: first run, send, stop, crash, reopen, rename, trash."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QWidget

from app.gguf import starter

ROOT = Path(__file__).resolve().parents[2]
QUICK: dict[str, Any] = {"load": {"ms": 20}, "replies": [{"text": "Paris, of course."}]}
SLOW: dict[str, Any] = {
    "load": {"ms": 20},
    "replies": [{"tokens": [{"text": "again ", "ms": 5, "repeat": 5000}]}],
}
DYING: dict[str, Any] = {
    "load": {"ms": 20},
    "replies": [
        {
            "match": "die",
            "tokens": [{"text": "half ", "ms": 2, "repeat": 20}, {"signal": "SEGV"}],
        },
        {"text": "All is well."},
    ],
}


def test_first_run_takes_keys_before_anything_is_loaded(open_window):
    person = open_window({"load": {"ms": 100}, "replies": [{"text": "Here I am."}]})
    person.type("typed at once")
    assert person.written() == "typed at once"
    person.wait_ready()
    assert person.written() == "typed at once"


def test_a_message_is_sent_streamed_and_kept(open_window):
    person = open_window(QUICK)
    person.wait_ready()
    person.send("What is the capital of France?")
    assert person.wait_ended().content == "Paris, of course."
    assert person.written() == ""
    shown = shown_texts(person)
    assert "What is the capital of France?" in shown
    assert "Paris, of course." in shown
    assert person.window.windowTitle().startswith("What is the capital of France?")


def test_a_reply_can_be_read_at_300_percent_in_the_smallest_window(open_window):
    person = open_window(QUICK)
    person.wait_ready()
    person.window.resize(900, 600)
    person.send("What is the capital of France?")
    person.wait_ended()
    person.app.desk.settings.set("zoom_percent", 300)
    person.wait(lambda: person.app.desk.settings.now.zoom_percent == 300)
    transcript = person.window.chat.transcript
    person.wait(lambda: transcript.viewport().height() >= 190)
    last = len(transcript.rows) - 1
    top = transcript.rows.top(last) + transcript.top_space
    person.wait(lambda: transcript.is_at_end and transcript.verticalScrollBar().value() <= top)


@pytest.mark.alone
def test_send_becomes_stop_and_stop_keeps_the_text(open_window):
    person = open_window(SLOW)
    person.wait_ready()
    person.send("Go on")
    person.wait_growing(40)
    stop = person.find(QWidget, "stop_button")
    assert stop.isVisible()
    begun = time.monotonic()
    person.click("stop_button")
    reply = person.wait_ended()
    assert time.monotonic() - begun < 2.0
    assert reply.state == "stopped"
    assert reply.content.startswith("again again")
    person.wait(lambda: person.find(QWidget, "send_button").isVisible())


def test_escape_stops_too(open_window):
    person = open_window(SLOW)
    person.wait_ready()
    person.send("Go on")
    person.wait_growing(10)
    person.press(Qt.Key.Key_Escape)
    assert person.wait_ended().state == "stopped"


def test_message_sent_while_loading_is_answered_afterwards(open_window):
    person = open_window({"load": {"ms": 700}, "replies": [{"text": "Now I am here."}]})
    person.send("Are you there?")
    assert person.app.desk.replies.is_generating
    assert person.wait_ended().content == "Now I am here."


def test_crash_of_the_engine_keeps_the_text_and_retry_works(open_window):
    person = open_window(DYING)
    person.wait_ready()
    person.send("Please die")
    reply = person.wait_ended()
    assert reply.state == "interrupted"
    assert reply.content == "half " * 20
    assert reply.error
    click_in_transcript(person, "try_again")
    person.wait(lambda: person.reply() and person.reply().id != reply.id)
    assert person.wait_ended().sibling_index == 1
    person.send("And now?")
    person.wait(lambda: len(person.app.desk.shelf.path) == 4)
    assert person.wait_ended().content == "All is well."


def test_failed_load_says_why_and_leaves_the_chat_usable(open_window):
    failure = {"kind": "not_a_gguf", "sentence": "“notes.gguf” is a text file."}
    person = open_window({"load": {"fail": failure}, "replies": [{"text": "Never."}]})
    person.wait(lambda: person.app.desk.loader.state.sentence)
    card = person.wait(lambda: person.window.chat.banners.card("engine"))
    assert card.notice.sentence == "“notes.gguf” is a text file."
    person.send("Still here?")
    assert [m.content for m in person.app.desk.shelf.path] == ["Still here?"]


def test_reopening_shows_the_last_chat_and_its_draft(open_window):
    person = open_window(QUICK)
    person.wait_ready()
    person.send("Hello")
    person.wait_ended()
    person.type("half a thought")
    person.app.close()

    again = open_window(QUICK)
    again.wait(lambda: len(again.app.desk.shelf.path) == 2)
    assert again.written() == "half a thought"
    assert "Paris, of course." in shown_texts(again)


def test_closing_while_a_reply_grows_keeps_it(open_window):
    person = open_window(SLOW)
    person.wait_ready()
    person.send("Go on")
    text = person.wait_growing(40).content
    person.app.close()

    again = open_window(QUICK)
    again.wait(lambda: len(again.app.desk.shelf.path) == 2)
    reply = again.reply()
    assert reply.state == "interrupted"
    assert reply.content.startswith(text)


def test_rename_and_trash_with_undo(open_window):
    person = open_window(QUICK)
    person.wait_ready()
    person.send("Hello")
    person.wait_ended()
    desk, sidebar = person.app.desk, person.window.sidebar
    conversation_id = desk.shelf.open.id
    sidebar.rename_requested.emit(conversation_id, "About greetings")
    person.wait(lambda: person.window.windowTitle().startswith("About greetings"))

    sidebar.trash_requested.emit((conversation_id,))
    assert desk.shelf.conversations == ()
    sidebar.undo_requested.emit()
    person.wait(lambda: desk.shelf.open.id == conversation_id)
    assert [c.title for c in desk.shelf.conversations] == ["About greetings"]


def test_without_weights_the_window_says_how_to_get_some(open_window, monkeypatch):
    monkeypatch.setattr(starter, "find", lambda: None)
    person = open_window()
    person.wait(lambda: person.app.desk.loader.state.sentence == starter.HOW_TO_GET_WEIGHTS)
    assert person.window.chat.empty.isVisible()


def test_second_window_on_the_same_data_reads_only(open_window):
    person = open_window(QUICK)
    person.wait_ready()
    person.send("Hello")
    person.wait_ended()
    second = open_window(QUICK)
    second.wait(lambda: second.app.desk.around.store_state.state == "read_only")
    second.wait(lambda: len(second.app.desk.shelf.path) == 2)
    second.type("May I?")
    second.press(Qt.Key.Key_Return)
    assert len(second.app.desk.shelf.path) == 2
    assert second.written() == "May I?"


# --- the program as a process of its own --------------------------------------------------------


def start_program(data_dir: Path, script: Path, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [
            sys.executable,
            "main.py",
            f"--data-dir={data_dir}",
            f"--scripted={script}",
            *arguments,
        ],
        cwd=ROOT,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "QT_QPA_PLATFORM": "offscreen"},
    )


@pytest.fixture
def slow_script(tmp_path: Path) -> Path:
    path = tmp_path / "slow.json"
    path.write_text(json.dumps({**SLOW, "loop": True}))
    return path


def test_signal_closes_in_an_orderly_way(data_dir, slow_script):
    closes_at_a_signal(data_dir, slow_script, signal.SIGTERM)


def test_a_key_in_the_terminal_does_as_well(forked_windows, data_dir, slow_script):
    closes_at_a_signal(data_dir, slow_script, signal.SIGINT)


def closes_at_a_signal(data_dir: Path, script: Path, number: int) -> None:
    process = start_program(data_dir, script)
    try:
        ends_at = time.monotonic() + 30
        while saved_lock(data_dir) is False and time.monotonic() < ends_at:
            time.sleep(0.01)
        process.send_signal(number)
        assert process.wait(20) == 0
        assert process.stderr.read() == ""
    finally:
        process.kill()
        process.wait()
        process.stderr.close()


def saved_lock(data_dir: Path) -> bool:
    return (data_dir / "cutaway.lock").exists()


def test_program_that_is_killed_loses_less_than_a_second(
    forked_windows, open_window, data_dir, slow_script
):
    """A child process runs the window, sends, and tells us how far the reply has grown."""
    code = f"""
import sys, time
import main
from PySide6.QtCore import QTimer
from PySide6.QtWidgets import QApplication
app = main.build(["--data-dir", {str(data_dir)!r}, "--scripted", {str(slow_script)!r}])
sent = []
def look():
    desk = app.desk
    if desk.loader.state.state == "ready" and not sent:
        sent.append(desk.replies.send("Go on"))
    if sent and len(desk.shelf.path) == 2:
        print(time.monotonic(), len(desk.shelf.path[1].content), flush=True)
timer = QTimer()
timer.timeout.connect(look)
timer.start(20)
QApplication.instance().exec()
"""
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "QT_QPA_PLATFORM": "offscreen"},
    )
    reports: list[tuple[float, int]] = []
    try:
        for line in process.stdout:
            moment, length = line.split()
            reports.append((float(moment), int(length)))
            if reports[-1][0] - reports[0][0] > 1.6:
                break
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
    last_moment, _ = reports[-1]
    a_second_before = max(length for moment, length in reports if moment <= last_moment - 1.0)
    assert a_second_before > 0

    person = open_window(QUICK)
    person.wait(lambda: len(person.app.desk.shelf.path) == 2)
    user, reply = person.app.desk.shelf.path
    assert user.content == "Go on"
    assert reply.state == "interrupted"
    assert len(reply.content) >= a_second_before


def test_quit_after_ends_with_code_0(forked_windows, data_dir, slow_script):
    process = start_program(data_dir, slow_script, "--quit-after", "0.8")
    try:
        assert process.wait(30) == 0
        assert process.stderr.read() == ""
    finally:
        process.kill()
        process.wait()
        process.stderr.close()


def click_in_transcript(person: Any, name: str) -> None:
    """Press an action of the last message with the mouse, where it is painted."""
    view = person.window.chat.transcript
    index = len(view.rows) - 1
    actions = view.rows.item(index).actions(0, view.rows.height(index))
    place = next(action.rect.center() for action in actions if action.name == name)
    place += view.item_origin(index)
    person.qtbot.mouseClick(view.viewport(), Qt.MouseButton.LeftButton, pos=place.toPoint())


def shown_texts(person: Any) -> str:
    """Everything that a person could select and copy in the transcript."""
    transcript = person.window.chat.transcript
    transcript.select_all()
    text = transcript.selected_text()
    transcript.clear_selection()
    return text
