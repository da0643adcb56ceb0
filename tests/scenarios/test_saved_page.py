"""The tour of a token saved as a page in the whole window, by keys, with the dialog's own field."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QDialog, QLabel, QLineEdit
from read_page import check_alone, pictures, read_page

SCRIPT: dict[str, Any] = {"replies": [{"text": "It is Paris."}]}
CTRL_ALT = Qt.KeyboardModifier.ControlModifier | Qt.KeyboardModifier.AltModifier
PARIS = 2


def test_a_token_is_saved_by_its_key(open_window: Any, tmp_path: Path) -> None:
    person = open_window(SCRIPT)
    person.wait_ready()
    person.send("Which city?")
    person.wait_ended()
    person.press(Qt.Key.Key_P, CTRL_ALT)
    assert person.window.findChildren(QDialog, "page_file_dialog") == []  # no token is chosen
    person.window.action_registry.run("toggle_section")
    looking = person.window.section_acts.looking()
    person.wait(lambda: len(looking.traces) > PARIS and not looking.is_growing)
    looking.select(PARIS)
    person.press(Qt.Key.Key_P, CTRL_ALT)
    (files,) = person.wait(lambda: person.window.findChildren(QDialog, "page_file_dialog"))
    person.wait(files.isVisible)
    field = files.findChild(QLineEdit, "fileNameEdit")
    assert field.text() == "Follow one token Paris.html"
    target = tmp_path / "Paris.html"
    field.setText(str(target))
    person.qtbot.keyClick(field, Qt.Key.Key_Return)
    toasts = person.window.chat.toasts
    person.wait(
        lambda: any(
            label.text() == "Saved as “Paris.html”." for label in toasts.findChildren(QLabel)
        )
    )
    page = read_page(target.read_text("utf-8"))
    check_alone(page)
    assert page.all("h1")[0].text == "Follow one token: “·Paris”"
    assert page.all("blockquote")[0].text == "Which city?"
    assert "The lens" in pictures(page)
