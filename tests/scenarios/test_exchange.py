"""Export and import in the whole window, by keys and clicks, with the file dialog's own field."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import foreign_exports
import pypdfium2
from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication, QImage
from PySide6.QtWidgets import QDialog, QLabel, QLineEdit, QRadioButton

SCRIPT: dict[str, Any] = {"replies": [{"text": "It is **Paris**."}]}
CTRL_SHIFT = Qt.KeyboardModifier.ControlModifier | Qt.KeyboardModifier.ShiftModifier


def dialog(person: Any, name: str) -> Any:
    """The one that is shown; a second of its kind would lie under it."""

    def shown() -> list[QDialog]:
        return [each for each in person.window.findChildren(QDialog, name) if each.isVisible()]

    person.wait(shown)
    (found,) = shown()
    return found


def press_return(person: Any, widget: Any) -> None:
    person.qtbot.keyClick(widget, Qt.Key.Key_Return)


def name_file(person: Any, name: str, path: Path) -> None:
    """Put a path into the file dialog's field, and confirm."""
    files = dialog(person, name)
    field = files.findChild(QLineEdit, "fileNameEdit")
    field.setText(str(path))  # typed, the list of completions would take Return
    press_return(person, field)
    person.wait(lambda: not files.isVisible())
    person.window.activateWindow()  # offscreen there is no window manager to do it
    person.wait(person.window.isActiveWindow)


def toast(person: Any, words: str) -> str:
    return str(
        person.wait(
            lambda: next(
                (
                    label.text()
                    for label in person.window.chat.toasts.findChildren(QLabel)
                    if words in label.text()
                ),
                "",
            )
        )
    )


def test_a_chat_is_exported_deleted_and_imported_again_by_keyboard(
    open_window: Any, tmp_path: Path
) -> None:
    person = open_window(SCRIPT)
    person.wait_ready()
    person.send("What is the capital of France?")
    person.wait_ended()
    desk = person.app.desk
    title = desk.shelf.open.title
    target = tmp_path / "chat.json"

    person.press(Qt.Key.Key_S, CTRL_SHIFT)
    press_return(person, dialog(person, "export_dialog"))
    name_file(person, "export_file_dialog", target)
    assert "1 chat was exported to “chat.json”." in toast(person, "exported")
    assert len(json.loads(target.read_bytes())["conversations"][0]["messages"]) == 2

    desk.folders.trash_one(desk.shelf.open.id)
    person.wait(lambda: not desk.shelf.conversations)
    person.press(Qt.Key.Key_O, CTRL_SHIFT)
    name_file(person, "import_file_dialog", target)
    preview = dialog(person, "import_dialog")
    row = [preview.rows.index(0, column).data() for column in (0, 3)]
    assert row == [title, "Added next to yours"]
    press_return(person, preview)
    toast(person, "imported")
    person.wait(lambda: [c.title for c in desk.shelf.conversations] == [title])
    desk.shelf.open_stored(desk.shelf.conversations[0].id)
    person.wait(lambda: person.reply() and person.reply().content == "It is **Paris**.")


def test_an_archive_that_is_dropped_moves_house_and_what_does_not_come_is_said(
    open_window: Any, tmp_path: Path
) -> None:
    person = open_window(SCRIPT)
    person.wait_ready()
    desk = person.app.desk
    archive = foreign_exports.gpt_archive(tmp_path / "chatgpt.zip")
    person.window.composing.give_files([str(archive)])
    preview = dialog(person, "import_dialog")
    assert preview.rows.index(0, 0).data() == "Branches"
    kinds = [preview.left_out.topLevelItem(row).text(0) for row in (0, 1)]
    assert kinds == ["Files missing from the export (named in the messages)", "Files without chats"]
    press_return(person, preview)
    toast(person, "1 chat was imported.")
    person.wait(lambda: [c.title for c in desk.shelf.conversations] == ["Branches"])
    desk.shelf.open_stored(desk.shelf.conversations[0].id)
    person.wait(lambda: len(desk.shelf.path) == 5)
    assert desk.shelf.path[3].weights_name == "o3"
    person.send("And tomorrow?")  # it goes on with the model that is loaded here
    person.wait_ended()
    assert person.reply().content == "It is **Paris**."


def test_several_chats_are_exported_as_markdown_files(open_window: Any, tmp_path: Path) -> None:
    person = open_window(SCRIPT)
    person.wait_ready()
    for question in ("First question", "Second question"):
        person.send(question)
        person.wait_ended()
        person.window.new_chat()
    person.press(Qt.Key.Key_S, CTRL_SHIFT)
    export = dialog(person, "export_dialog")
    assert export.findChild(QRadioButton, "export_this") is None
    export.format.setCurrentIndex(export.format.findData("markdown"))
    press_return(person, export)
    name_file(person, "export_file_dialog", tmp_path)
    toast(person, "2 chats were exported")
    texts = [path.read_text() for path in tmp_path.glob("*.md")]
    assert len(texts) == 2
    assert any("## User\n\nFirst question\n" in text for text in texts)


def test_a_file_that_is_no_chat_says_so(open_window: Any, tmp_path: Path) -> None:
    person = open_window(SCRIPT)
    person.wait_ready()
    notes = tmp_path / "notes.md"
    notes.write_text("Buy milk.")
    person.press(Qt.Key.Key_O, CTRL_SHIFT)
    name_file(person, "import_file_dialog", notes)
    preview = dialog(person, "import_dialog")
    words = [label.text() for label in preview.findChildren(QLabel)]
    assert any("needs headings such as" in each for each in words)
    person.qtbot.keyClick(preview, Qt.Key.Key_Escape)
    person.wait(lambda: not preview.isVisible())
    assert not person.app.desk.shelf.conversations


def test_the_list_exports_what_is_chosen_in_it(open_window: Any) -> None:
    person = open_window(SCRIPT)
    person.wait_ready()
    person.send("A question")
    person.wait_ended()
    ids = [c.id for c in person.app.desk.shelf.conversations]
    person.window.sidebar.export_requested.emit(ids)
    export = dialog(person, "export_dialog")
    assert export.findChild(QRadioButton, "export_this").isChecked()
    export.reject()


def test_a_chat_goes_out_as_pdf_and_a_reply_as_a_picture(open_window: Any, tmp_path: Path) -> None:
    person = open_window(SCRIPT)
    person.wait_ready()
    person.send("What is the capital of France?")
    person.wait_ended()
    target = tmp_path / "chat.pdf"
    person.press(Qt.Key.Key_S, CTRL_SHIFT)
    export = dialog(person, "export_dialog")
    export.format.setCurrentIndex(export.format.findData("pdf"))
    press_return(person, export)
    name_file(person, "export_file_dialog", target)
    toast(person, "1 chat was exported to “chat.pdf”.")
    (page,) = pypdfium2.PdfDocument(target)
    text = page.get_textpage().get_text_range()
    assert "What is the capital of France?" in text
    assert "It is Paris." in text
    assert [path.name for path in tmp_path.glob("*.p*")] == ["chat.pdf"], "no part is left"

    clipboard = QGuiApplication.clipboard()
    clipboard.clear()
    person.window.action_registry.run("copy_picture")
    person.wait(lambda: not clipboard.image().isNull())
    image = clipboard.image()
    assert image.width() == 2 * (720 + 2 * 32)
    colors = {image.pixelColor(x, y).name() for x in range(0, 900, 3) for y in range(60, 160, 3)}
    assert person.app.window._theme.colors.chat in colors
    assert len(colors) > 10, "letters, with soft edges"
    toast(person, "Copied as a picture.")

    person.window.action_registry.run("save_picture")
    name_file(person, "picture_file_dialog", tmp_path / "reply.png")
    toast(person, "Saved as “reply.png”.")
    saved = QImage(str(tmp_path / "reply.png"))
    assert saved.size() == image.size()
