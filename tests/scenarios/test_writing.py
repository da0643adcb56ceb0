"""Writing in the window: attachments, the queue, the temporary chat, and text mode; and what
`kill -9` leaves of each."""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from PySide6.QtCore import QMimeData, Qt, QUrl
from PySide6.QtGui import QCloseEvent
from PySide6.QtWidgets import QComboBox, QLabel, QPushButton, QWidget

from models.records import Role

ROOT = Path(__file__).resolve().parents[2]
SCRIPT: dict[str, Any] = {
    "load": {"ms": 20},
    "replies": [
        {"match": "slow", "tokens": [{"text": "slow ", "ms": 5, "repeat": 5000}]},
        {"text": "Understood."},
    ],
}
LONG = "All happy families are alike; every unhappy family is unhappy in its own way. " * 60
CONTROL = Qt.KeyboardModifier.ControlModifier
KILLED_AFTER_S = 1.4
"""What was there a second before is kept."""


def paste(person: Any, text: str = "", files: tuple[str, ...] = ()) -> None:
    mime = QMimeData()
    if text:
        mime.setText(text)
    if files:
        mime.setUrls([QUrl.fromLocalFile(file) for file in files])
    person.find(QWidget, "composer").insertFromMimeData(mime)


def said(person: Any) -> list[str]:
    return [m.content for m in person.app.desk.shelf.path if m.role is Role.USER]


def chips(person: Any) -> list[Any]:
    return person.window.chat.composer.chips.chips()


def test_a_huge_paste_becomes_a_chip_and_survives_a_restart(open_window):
    person = open_window({**SCRIPT, "load": {"ms": 20, "loaded": {"n_ctx": 20_000}}})
    person.wait_ready()
    paste(person, LONG)
    person.wait(lambda: chips(person) and chips(person)[0].attachment.tokens)
    assert person.written() == ""
    person.type("What is this?")
    person.wait(lambda: person.app.desk.shelf.open.draft)
    person.app.close()

    again = open_window({**SCRIPT, "load": {"ms": 20, "loaded": {"n_ctx": 20_000}}})
    again.wait_ready()
    again.wait(lambda: [chip.attachment.text for chip in chips(again)] == [LONG])
    assert again.written() == "What is this?"
    again.press(Qt.Key.Key_Return)
    assert again.wait_ended().content == "Understood."
    assert chips(again) == []
    question = again.app.desk.shelf.path[0]
    assert [a.text for a in question.attachments] == [LONG]
    item = again.window.chat.transcript.rows.item(0)
    assert any(a.name == "open_attachment" for a in item.actions(0, 500))

    again.window.chat.transcript.attachment_opened.emit(question.attachments[0].id)
    reader = again.find(QWidget, "attachment_reader")
    assert reader.view.toPlainText() == LONG
    reader.close()


@pytest.mark.parametrize(
    ("text", "comes_as", "is_busy"),
    [
        pytest.param("What is this?", "paste", False, marks=pytest.mark.soak),
        ("", "paste", False),
        pytest.param("What is this?", "file", False, marks=pytest.mark.soak),
        ("What is this?", "json", False),
        ("What is this?", "paste", True),
    ],
)
def test_what_was_pasted_right_before_enter_goes_along(
    open_window, tmp_path, text, comes_as, is_busy
):
    person = open_window({**SCRIPT, "load": {"ms": 20, "loaded": {"n_ctx": 20_000}}})
    person.wait_ready()
    if is_busy:
        person.send("slow")
    file = tmp_path / f"notes.{'json' if comes_as == 'json' else 'txt'}"
    file.write_text(LONG)
    if text:
        person.type(text)
    if comes_as == "paste":
        paste(person, LONG)
    else:
        paste(person, files=(str(file),))
    person.press(Qt.Key.Key_Return)
    if is_busy:
        (waiting,) = person.wait(lambda: person.app.desk.queue.of_open)
        assert (waiting.text, [a.text for a in waiting.attachments]) == (text, [LONG])
    else:
        person.wait(lambda: person.app.desk.shelf.path)
        person.wait_ended()
        question = person.app.desk.shelf.path[0]
        assert (question.content, [a.text for a in question.attachments]) == (text, [LONG])
    assert (person.written(), chips(person)) == ("", [])


def test_a_chip_can_be_put_into_the_text_instead(open_window):
    person = open_window(SCRIPT)
    person.wait_ready()
    paste(person, LONG)
    (chip,) = person.wait(lambda: chips(person))
    chip.wanted_as_text.emit(chip.attachment.id)
    person.wait(lambda: person.written() == LONG)
    assert chips(person) == []


def test_files_are_attached_and_what_is_no_text_is_said(open_window, tmp_path):
    person = open_window(SCRIPT)
    person.wait_ready()
    good, bad = tmp_path / "notes.txt", tmp_path / "film.bin"
    good.write_text("some notes")
    bad.write_bytes(b"\0\1\2\3" * 50)
    paste(person, files=(str(good), str(bad)))
    person.wait(lambda: [chip.attachment.name for chip in chips(person)] == ["notes.txt"])
    person.wait(
        lambda: any(
            "film.bin” can't be attached" in card.notice.sentence
            for card in person.window.chat.toasts.cards()
        )
    )


def test_a_wrong_guess_of_the_encoding_is_mended_in_the_reader(open_window, tmp_path):
    person = open_window(SCRIPT)
    person.wait_ready()
    notes = tmp_path / "notes.txt"
    notes.write_bytes("設定\n日本語のメモです\n".encode("cp932"))
    paste(person, files=(str(notes),))
    (chip,) = person.wait(lambda: chips(person))
    person.window.composing.open_attachment(chip.attachment.id)
    reader = person.find(QWidget, "attachment_reader")
    combo = reader.findChild(QComboBox, "attachment_encoding")
    assert reader.view.toPlainText() == "設定\n日本語のメモです\n"
    assert combo.currentText() == "Japanese (Shift-JIS)"
    for encoding in ("cp949", "cp932"):
        combo.setCurrentIndex(combo.findData(encoding))
        combo.activated.emit(combo.currentIndex())
        wanted = notes.read_bytes().decode(encoding, "replace")
        person.wait(lambda wanted=wanted: reader.view.toPlainText() == wanted)
        person.wait(lambda wanted=wanted: chips(person)[0].attachment.text == wanted)
    reader.close()


def test_messages_are_queued_while_a_reply_runs_and_sent_in_order(open_window):
    person = open_window(SCRIPT)
    person.wait_ready()
    person.send("slow")
    person.wait_growing(10)
    for text in ("one", "two"):
        person.type(text)
        person.press(Qt.Key.Key_Return)
    rows = person.window.chat.composer.queue.rows
    assert [row.message.text for row in rows()] == ["one", "two"]
    assert said(person) == ["slow"]
    person.click("stop_button")
    person.wait_ended()
    assert said(person) == ["slow"], "Stop sends nothing"
    person.click("send_queued_button")
    person.wait(lambda: said(person) == ["slow", "one", "two"])
    person.wait_ended()
    person.wait(lambda: not person.window.chat.composer.queue.isVisible())
    person.press(Qt.Key.Key_Up)
    assert person.written() == "two"
    person.press(Qt.Key.Key_Up)
    assert person.written() == "one"


def test_the_temporary_chat_is_marked_and_warned_of(open_window):
    person = open_window(SCRIPT)
    person.wait_ready()
    person.click("temporary_chat_button")
    assert person.app.desk.temporary.is_open
    card = person.wait(lambda: person.window.chat.banners.card("temporary"))
    assert "it is never saved" in card.notice.sentence
    person.send("a secret")
    person.wait_ended()
    assert person.app.desk.shelf.conversations == ()

    person.window.action_registry.run("quit")
    assert person.window.isVisible(), "it asks first"
    dialog = person.find(QWidget, "temporary_dialog")
    dialog.reject()
    person.wait(lambda: person.window.findChild(QWidget, "temporary_dialog") is None)
    person.click("temporary_chat_button")
    assert not person.app.desk.temporary.is_open
    assert person.window.chat.banners.card("temporary") is None

    person.window.action_registry.run("quit")
    accept = person.find(QPushButton, "temporary_accept_button")
    person.qtbot.mouseClick(accept, Qt.MouseButton.LeftButton)
    person.wait(lambda: not person.window.isVisible())


class ClosedByUser(QCloseEvent):
    """As the window's own button sends it; the offscreen platform has none."""

    def spontaneous(self) -> bool:
        return True


def test_a_closing_that_is_refused_closes_nothing(open_window):
    person = open_window(SCRIPT)
    person.wait_ready()
    person.click("temporary_chat_button")
    person.send("a secret")
    person.wait_ended()
    lazy = person.window.lazy
    lazy.show_library()
    lazy.show_presets()
    lazy.show_levels()
    person.window.show_settings()
    names = ("library_view", "presets_window", "levels_window", "settings_window")
    windows = [w for w in person.app.application.topLevelWidgets() if w.objectName() in names]
    assert len(windows) == len(names)
    assert all(each.isVisible() for each in windows)

    close = ClosedByUser()
    person.app.application.sendEvent(person.window, close)
    assert not close.isAccepted()
    dialog = person.find(QWidget, "temporary_dialog")
    assert person.window.isVisible()
    assert all(each.isVisible() for each in windows)
    dialog.reject()
    assert all(each.isVisible() for each in windows)

    person.wait(lambda: person.window.findChild(QWidget, "temporary_dialog") is None)
    person.app.application.sendEvent(person.window, ClosedByUser())
    accept = person.find(QPushButton, "temporary_accept_button")
    person.qtbot.mouseClick(accept, Qt.MouseButton.LeftButton)
    person.wait(lambda: not person.window.isVisible())
    assert not any(each.isVisible() for each in windows)


def test_text_mode_from_the_first_word_to_another_version(open_window):
    replies = [{"text": "there was a fox."}, {"text": "lived a hare."}]
    person = open_window({"load": {"ms": 20}, "replies": replies})
    person.wait_ready()
    person.click("new_text_button")
    edit = person.find(QWidget, "text_document")
    assert edit.isVisible()
    assert not person.find(QWidget, "composer").isVisible()
    person.qtbot.keyClicks(edit, "Once upon a time ")
    person.qtbot.keyClick(edit, Qt.Key.Key_Return, CONTROL)
    first = "Once upon a time there was a fox."
    person.wait(lambda: edit.text() == first and not person.app.desk.replies.is_generating)
    assert edit.extraSelections(), "what was generated is marked"

    person.qtbot.keyClicks(edit, " Yes")
    person.wait(lambda: person.app.desk.shelf.open.draft == first + " Yes")
    person.click("text_retry_button")
    second = "Once upon a time lived a hare."
    person.wait(lambda: edit.text() == second and not person.app.desk.replies.is_generating)
    version = person.find(QWidget, "text_version")
    person.wait(lambda: version.isVisible() and version.text() == "2/2")
    person.click("text_previous_button")
    person.wait(lambda: edit.text() == first + " Yes")
    assert version.text() == "1/2"

    person.qtbot.keyClick(edit, Qt.Key.Key_Z, CONTROL)
    assert edit.text() == second, "a flip can be undone as well"
    person.window.new_chat()
    person.wait(lambda: person.find(QWidget, "composer").isVisible())
    assert not edit.isVisible()


def test_a_continuation_that_fails_says_why_below_the_document(open_window):
    """A chat shows it under the reply; a document has no replies to show it under."""
    sentence = "The grammar allows none of the tokens here. Make it wider."
    failure = {"fail": {"kind": "no_candidate", "sentence": sentence}}
    replies = [{"tokens": [failure]}, {"text": ""}, {"text": "a fox."}]
    person = open_window({"load": {"ms": 5}, "replies": replies})
    person.wait_ready()
    person.click("new_text_button")
    edit = person.find(QWidget, "text_document")
    trouble = person.find(QLabel, "text_trouble")
    person.qtbot.keyClicks(edit, "Once there was ")
    assert not trouble.isVisible()
    person.qtbot.keyClick(edit, Qt.Key.Key_Return, CONTROL)
    person.wait(lambda: trouble.isVisible() and trouble.text() == sentence)

    person.qtbot.keyClicks(edit, "Yes ")
    person.wait(lambda: not trouble.isVisible())
    person.qtbot.keyClick(edit, Qt.Key.Key_Return, CONTROL)
    person.wait(lambda: trouble.text() == "Nothing was added (finished).")
    person.qtbot.keyClick(edit, Qt.Key.Key_Return, CONTROL)
    person.wait(lambda: edit.text() == "Once there was Yes a fox.")
    assert not trouble.isVisible()


def test_undo_takes_a_continuation_back_in_one_step(open_window):
    tokens = [{"text": "and on ", "ms": 3, "repeat": 20}]
    person = open_window({"load": {"ms": 20}, "replies": [{"tokens": tokens}]})
    person.wait_ready()
    person.click("new_text_button")
    edit = person.find(QWidget, "text_document")
    person.qtbot.keyClicks(edit, "On ")
    person.qtbot.keyClick(edit, Qt.Key.Key_Return, CONTROL)
    person.wait(lambda: edit.text() == "On " + "and on " * 20 and not edit.isReadOnly())
    person.qtbot.keyClick(edit, Qt.Key.Key_Z, CONTROL)
    assert edit.text() == "On "
    person.qtbot.keyClick(edit, Qt.Key.Key_Y, CONTROL)
    assert edit.text() == "On " + "and on " * 20


def test_a_megabyte_of_text_does_not_hold_the_window(open_window):
    person = open_window(SCRIPT)
    person.wait_ready()
    person.click("new_text_button")
    edit = person.find(QWidget, "text_document")
    edit.setPlainText("All happy families are alike in their own way.\n" * 22_000)
    person.wait(lambda: person.app.desk.shelf.open.draft)
    longest = 0.0
    for _ in range(30):
        began = time.perf_counter()
        person.qtbot.keyClicks(edit, "x")
        person.app.application.processEvents()
        longest = max(longest, time.perf_counter() - began)
    assert longest < 0.5
    person.qtbot.keyClick(edit, Qt.Key.Key_Return, CONTROL)
    person.wait(lambda: edit.text().endswith("Understood.") or "Understood." in edit.text())


# --- kill -9 ------------------------------------------------------------------------------------


@pytest.fixture
def program(forked_windows: None, data_dir: Path, tmp_path: Path) -> Callable[..., Any]:
    """with program(what) as process: the window as a process of its own; `what` is run again and
    again as a step(app, desk)."""
    return functools.partial(_program, data_dir, tmp_path)


@contextmanager
def _program(data_dir: Path, tmp_path: Path, what: str) -> Iterator[subprocess.Popen[str]]:
    script = tmp_path / "killed.json"
    script.write_text(json.dumps({"loop": True, **SCRIPT}))
    code = f"""
import sys, time
import main
from PySide6.QtTest import QTest
from PySide6.QtCore import QTimer
from PySide6.QtGui import QCloseEvent
from PySide6.QtWidgets import QApplication, QWidget
app = main.build(["--data-dir", {str(data_dir)!r}, "--offline", "--scripted", {str(script)!r}])
state = {{}}
def tell(*words):
    print(*words, flush=True)
def step():
    desk, window = app.desk, app.window
    if desk.loader.state.state not in ("ready", "busy"):
        return
{what}
timer = QTimer()
timer.timeout.connect(step)
timer.start(10)
QApplication.instance().exec()
"""
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "QT_QPA_PLATFORM": "offscreen"},
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
        process.stderr.close()


TYPING = """
    edit = window.findChild(QWidget, {field!r})
    if not state:
        {begin}
        state["n"] = 0
        return
    state["n"] += 1
    QTest.keyClicks(edit, "k%05d " % state["n"])
    tell(time.monotonic(), state["n"])
"""


@pytest.mark.parametrize(
    ("field", "begin"),
    [
        ("composer", "pass"),
        pytest.param("text_document", "desk.shelf.open_new_text()", marks=pytest.mark.soak),
    ],
)
def test_killed_while_typing_without_a_pause(open_window, program, field, begin):
    reports: list[tuple[float, int]] = []
    with program(TYPING.format(field=field, begin=begin)) as process:
        for line in process.stdout:
            moment, number = line.split()
            reports.append((float(moment), int(number)))
            if reports[-1][0] - reports[0][0] > KILLED_AFTER_S:
                break
    killed_at = reports[-1][0]
    # 0.4 s of rest, and what a busy machine needs to write it.
    before = max(number for moment, number in reports if moment <= killed_at - 1.0)
    person = open_window(SCRIPT)
    person.wait(lambda: person.app.desk.shelf.conversations and person.app.desk.shelf.open.draft)
    if field == "composer":
        kept = person.written()
    else:
        kept = person.app.desk.text.text
        assert person.wait(lambda: person.find(QWidget, field).text()) == kept
    words = kept.split()
    assert words == [f"k{number:05d}" for number in range(1, len(words) + 1)]
    assert len(words) >= before


def test_killed_in_a_temporary_chat_nothing_of_it_is_on_disk(program, data_dir):
    secret, answer = "zanzibar-velvet-teapot", "Understood."
    what = f"""
    if not state:
        desk.temporary.open()
        desk.attachments.add_paste("{secret} attached " * 30)
        state["sent"] = desk.replies.send("{secret} sent")
        window.chat.composer._edit.insertPlainText("{secret} draft")
    elif len(desk.shelf.path) == 2 and not desk.replies.is_generating and "late" not in state:
        state["late"] = time.monotonic()
    elif "late" in state and time.monotonic() - state["late"] > 1.0:
        tell(desk.temporary.is_open, desk.shelf.path[1].content)
        state["late"] += 100
"""
    with program(what) as process:
        assert process.stdout.readline() == f"True {answer}\n"
        process.kill()
        printed = process.stderr.read()
    files = [path for path in data_dir.rglob("*") if path.is_file()]
    assert any(path.name.endswith(".sqlite3") for path in files)
    for path in files:
        content = path.read_bytes()
        for word in (secret, answer):
            assert word.encode() not in content, path
            assert word.encode("utf-16-le") not in content, path
    assert secret not in printed


def test_killed_with_a_queue_it_is_a_draft_again(open_window, program):
    what = """
    if not state:
        state["sent"] = desk.replies.send("slow")
    elif desk.replies.is_generating and "queued" not in state:
        state["queued"] = [desk.queue.add("first in line"), desk.queue.add("second")]
        desk.shelf.save_draft("half a thought")
    elif "second\\n\\nhalf" in desk.shelf.open.draft and "told" not in state:
        state["told"] = time.monotonic()
    elif "told" in state and time.monotonic() - state["told"] > 0.5:
        tell("kept")
        state["told"] += 100
"""
    with program(what) as process:
        assert process.stdout.readline() == "kept\n"
    person = open_window(SCRIPT)
    person.wait(lambda: person.written())
    assert person.written() == "first in line\n\nsecond\n\nhalf a thought"


def test_killed_in_a_continuation_the_document_has_what_came(open_window, program):
    what = """
    if not state:
        desk.shelf.open_new_text()
        desk.text.save("slow beginning ", 15)
        state["asked"] = desk.text.go_on("slow beginning ", 15)
    elif desk.shelf.path and desk.shelf.path[-1].content:
        tell(time.monotonic(), len(desk.shelf.path[-1].content))
"""
    reports: list[tuple[float, int]] = []
    with program(what) as process:
        for line in process.stdout:
            moment, length = line.split()
            reports.append((float(moment), int(length)))
            if reports[-1][0] - reports[0][0] > KILLED_AFTER_S:
                break
    before = max(length for moment, length in reports if moment <= reports[-1][0] - 1.0)
    person = open_window(SCRIPT)
    person.wait(lambda: len(person.app.desk.shelf.path) == 2)
    text = person.app.desk.text.text
    assert text.startswith("slow beginning ")
    assert len(text) - len("slow beginning ") >= before
    person.wait(lambda: person.find(QWidget, "text_document").text() == text)
