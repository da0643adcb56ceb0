"""The window with all that a file says of itself: reading, searching, and corrected copies."""

from __future__ import annotations

import random
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from gguf_fields import mutations_of
from gguf_writer import CHATML, Shape, Tensor, Typed, tiny_llama, write_gguf
from made_projectors import put_projector, put_weights
from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QAbstractButton, QApplication, QWidget
from pytestqt.qtbot import QtBot
from squeezed import squeezed_headings

from app.bridge import Bridge
from app.chat.alarms import Alarms
from app.chat.settings.settings import Settings
from app.chat.surroundings import Still, Surroundings
from app.chat.weights.header_files import HeaderFiles
from app.gguf.header import read_header
from app.gguf.values import value_typed
from app.library.header_shown import read_shown
from ui.library.header.long_text import fit_for_field
from ui.library.header.models import share_text
from ui.library.header.value_dialog import ValueDialog
from ui.library.header.window import TEMPLATE, TENSORS, VALUES, HeaderWindow, show_file
from ui.library.header.words import summary
from ui.look.fonts import MONO_FAMILY
from ui.look.theme import Theme

Key, Held = Qt.Key, Qt.KeyboardModifier


class HeaderDesk:
    """Only what looks into headers: with real files, threads and turns."""

    def __init__(self) -> None:
        bridge = Bridge()
        self.around = Surroundings(
            post=bridge.post, emit=lambda _: None, alarms=Alarms(bridge.post)
        )
        self.bridge = bridge
        self.headers = HeaderFiles(self.around)
        self.local = self

    def folder_for_copy(self, original: Path) -> Path:
        return original.parent


@pytest.fixture
def header_desk(qapp: object) -> Iterator[HeaderDesk]:
    desk = HeaderDesk()
    yield desk
    desk.around.is_closing = True
    desk.headers.close()
    desk.around.alarms.close()
    desk.bridge.close()


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    numbers = Typed("array:i16", list(range(1000)))
    extra = {"general.license": "mit", "a.numbers": numbers, "a.pair": [1, 2], "a.long": "x" * 9}
    made = tmp_path_factory.mktemp("written") / "tiny.gguf"
    tiny_llama(made, metadata=extra)
    return made


@pytest.fixture
def path(written: Path, tmp_path: Path) -> Path:
    """A copy of its own, since tests change the file."""
    return Path(shutil.copy(written, tmp_path))


@pytest.fixture
def window(qtbot: QtBot, header_desk: HeaderDesk, theme: Theme) -> HeaderWindow:
    made = HeaderWindow(header_desk, theme)  # type: ignore[arg-type]
    qtbot.addWidget(made)
    made.show()
    made.activateWindow()
    qtbot.waitUntil(made.isActiveWindow)
    return made


@pytest.fixture
def opened(window: HeaderWindow, path: Path, qtbot: QtBot) -> HeaderWindow:
    window.open(path)
    qtbot.waitUntil(lambda: window.pages.currentIndex() == VALUES)
    return window


def keys(window: HeaderWindow) -> list[str]:
    return [row.key for row in window.values.shown]


def choose(window: HeaderWindow, key: str) -> None:
    at = window.values.row_of(key)
    assert at is not None
    window.values_table.setCurrentIndex(window.values.index(at, 0))


def press(widget: QWidget, key: Qt.Key, held: Qt.KeyboardModifier = Held.NoModifier) -> None:
    QTest.keyClick(widget, key, held)


def dialog_of(window: HeaderWindow) -> ValueDialog:
    dialog = window.findChild(ValueDialog)
    assert dialog is not None
    return dialog


def clipboard() -> str:
    return QGuiApplication.clipboard().text()


# --- reading ------------------------------------------------------------------------------------


def test_all_that_the_file_says_is_there(opened: HeaderWindow, path: Path) -> None:
    header = read_header(path)
    assert keys(opened) == list(header.entries)
    assert len(opened.tensors.shown) == len(header.tensors)
    assert opened.windowTitle() == "tiny.gguf"
    assert opened.name.text() == "Tiny test file"
    for words in ("llama (chat)", "F16", "2 layers", "context window 512 tokens", "licence mit"):
        assert words in opened.summary.text()
    assert opened.trouble.isHidden()
    assert opened.values_table.hasFocus()
    assert opened.pane.text.toPlainText() == "llama"
    assert opened.tabs.tabText(VALUES) == f"Values ({len(header.entries)})"
    assert opened.tabs.tabText(TENSORS) == f"Tensors ({len(header.tensors)})"


def test_an_array_is_read_a_page_at_a_time(opened: HeaderWindow, qtbot: QtBot) -> None:
    pane = opened.pane
    choose(opened, "a.numbers")
    qtbot.waitUntil(lambda: "items 0 to 199 of 1,000" in pane.title.text())
    assert pane.text.toPlainText().splitlines()[7].split() == ["7", "7"]
    assert (pane.earlier_button.isEnabled(), pane.later_button.isEnabled()) == (False, True)
    pane.later_button.click()
    qtbot.waitUntil(lambda: "items 200 to 399" in pane.title.text())
    QTest.keyClicks(pane.go_field, "990")
    press(pane.go_field, Key.Key_Return)
    qtbot.waitUntil(lambda: "items 990 to 999" in pane.title.text())
    assert not pane.later_button.isEnabled()
    pane.go_field.setText("1000")
    press(pane.go_field, Key.Key_Return)
    assert "item from 0 to 999" in pane.title.text()
    choose(opened, "tokenizer.ggml.tokens")
    qtbot.waitUntil(lambda: "<|im_start|>" in pane.text.toPlainText())
    pane.copy_button.click()
    assert clipboard().splitlines()[1].split() == ["1", "<|im_start|>"]


def test_a_text_is_shown_whole_with_its_lines(opened: HeaderWindow) -> None:
    choose(opened, "tokenizer.chat_template")
    assert opened.pane.text.toPlainText() == CHATML
    assert opened.pane.pages.isHidden()


def test_a_long_text_is_read_on_demand(window: HeaderWindow, tmp_path: Path, qtbot: QtBot) -> None:
    long = {"a.long": "line\n" * 500_000, "a.line": "x" * 1_000_000}
    write_gguf(tmp_path / "long.gguf", metadata=long)
    window.open(tmp_path / "long.gguf")
    qtbot.waitUntil(lambda: window.pages.currentIndex() == VALUES)
    choose(window, "a.long")
    qtbot.waitUntil(lambda: "first 1,048,576 characters" in window.pane.title.text())
    assert "more characters" in window.pane.text.toPlainText()
    assert not window.change_button.isEnabled()
    choose(window, "a.line")
    text = window.pane.text
    assert max(map(len, text.toPlainText().splitlines())) <= 500
    begun = time.thread_time()
    text.grab()
    assert time.thread_time() - begun < 1.0  # one line of 300,000 takes ten times as long
    window.pane.copy_button.click()
    assert clipboard() == "x" * 1_000_000


def test_the_value_of_another_key_that_comes_late_is_not_shown(
    opened: HeaderWindow, header_desk: HeaderDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Still] = []
    monkeypatch.setattr(
        header_desk.headers, "read_items", lambda *_arguments, still: asked.append(still)
    )
    choose(opened, "a.numbers")
    assert asked[0]()
    choose(opened, "general.name")
    assert not asked[0]()
    assert opened.pane.text.toPlainText() == "Tiny test file"


@pytest.mark.parametrize("is_other_file", [False, True])
def test_a_list_that_is_read_too_late_to_be_changed_is_neither_offered_nor_told_of(
    opened: HeaderWindow,
    header_desk: HeaderDesk,
    path: Path,
    monkeypatch: pytest.MonkeyPatch,
    is_other_file: bool,
) -> None:
    asked: list[Still] = []
    choose(opened, "a.pair")
    monkeypatch.setattr(header_desk.headers, "read_items", lambda *_, still: asked.append(still))
    opened.change_button.click()
    if not asked:
        pytest.fail("nothing was asked")
    assert asked[-1]()
    if is_other_file:
        opened.open(path.with_name("other.gguf"))
    else:
        choose(opened, "general.license")
    assert not asked[-1]()


def test_a_header_that_comes_when_another_file_is_shown_is_dropped(
    window: HeaderWindow, header_desk: HeaderDesk, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = path.with_name("other.gguf")
    tiny_llama(other, metadata={"a.other": 1})
    held: list[Callable[[], None]] = []

    def hold(file: Path, take: Any, _fail: Any, *, still: Still) -> None:
        held.append(lambda: take(read_shown(file)) if still() else None)

    monkeypatch.setattr(header_desk.headers, "read", hold)
    for each in (path, other, path):
        window.open(each)
    for too_late in held[:2]:
        too_late()
        assert window.pages.currentWidget() is window.state
    held[2]()
    assert "a.pair" in keys(window)
    window.open(other)
    held[3]()
    window.open(other)  # read anew
    held[2]()
    assert "a.other" in keys(window)


def test_searching_finds_keys_and_values(opened: HeaderWindow) -> None:
    press(opened, Key.Key_F, Held.ControlModifier)
    assert opened.search.hasFocus()
    QTest.keyClicks(opened.search, "MIT license")
    assert keys(opened) == ["general.license"]
    assert opened.values_figure.text().startswith("1 of ")
    press(opened.search, Key.Key_Down)
    assert opened.values_table.hasFocus()
    assert opened.pane.text.toPlainText() == "mit"
    press(opened, Key.Key_Escape)
    assert opened.search.text() == ""
    assert len(keys(opened)) > 20
    press(opened, Key.Key_Escape)
    assert opened.isHidden()


def test_tensors_by_type_and_sorted(opened: HeaderWindow) -> None:
    press(opened, Key.Key_Tab, Held.ControlModifier)
    assert opened.tabs.currentIndex() == TENSORS
    types = {row.type_name: row for row in opened.types.shown}
    assert set(types) == {"F16", "F32"}
    opened.types_table.setCurrentIndex(opened.types.index(1, 0))
    press(opened.types_table, Key.Key_Return)
    assert {row.type_name for row in opened.tensors.shown} == {"F32"}
    assert len(opened.tensors.shown) == types["F32"].n_tensors
    opened.search.clear()
    opened.tensors_table.sortByColumn(5, Qt.SortOrder.DescendingOrder)
    sizes = [row.size_bytes for row in opened.tensors.shown]
    assert sizes == sorted(sizes, reverse=True)
    assert opened.tensors.headerData(5, Qt.Orientation.Horizontal) == "Size ↓"
    opened.tensors_table.sortByColumn(-1, Qt.SortOrder.AscendingOrder)
    begins = [row.begins for row in opened.tensors.shown]
    assert begins == sorted(begins)


def test_rows_are_copied_with_tabs(opened: HeaderWindow) -> None:
    choose(opened, "general.license")
    press(opened.values_table, Key.Key_C, Held.ControlModifier)
    assert clipboard() == "general.license\tstring\tmit"
    opened.tabs.setCurrentIndex(TENSORS)
    opened.tensors_table.selectAll()
    press(opened.tensors_table, Key.Key_C, Held.ControlModifier)
    assert len(clipboard().splitlines()) == len(opened.tensors.shown)
    assert clipboard().splitlines()[0].split("\t")[0] == "token_embd.weight"


def test_the_template_is_laid_out_and_copied_as_it_is(opened: HeaderWindow) -> None:
    page = opened.template_page
    opened.tabs.setCurrentIndex(TEMPLATE)
    assert opened.search.isHidden()
    assert page.text.toPlainText().startswith("{% for message in messages %}\n  {{")
    page.copy_button.click()
    assert clipboard() == CHATML
    page.lay_out.setChecked(False)
    assert page.text.toPlainText() == CHATML


def test_several_templates_and_none(window: HeaderWindow, tmp_path: Path, qtbot: QtBot) -> None:
    other = {"tokenizer.chat_template.tool_use": "tools {{ x }}"}
    write_gguf(tmp_path / "two.gguf", template=CHATML, metadata=other)
    write_gguf(tmp_path / "none.gguf")
    window.open(tmp_path / "two.gguf")
    qtbot.waitUntil(lambda: window.pages.currentIndex() == VALUES)
    window.tabs.setCurrentIndex(TEMPLATE)
    page = window.template_page
    assert [page.names.itemText(n) for n in range(page.names.count())] == ["default", "tool_use"]
    page.names.setCurrentIndex(1)
    assert page.template() == "tools {{ x }}"
    window.open(tmp_path / "none.gguf")
    qtbot.waitUntil(lambda: page.text.isHidden())
    assert "no chat template" in page.words.text()


# --- what cannot be read ------------------------------------------------------------------------


def test_a_file_that_is_none_is_a_sentence(
    window: HeaderWindow, tmp_path: Path, qtbot: QtBot
) -> None:
    page = tmp_path / "page.gguf"
    page.write_bytes(b"<!DOCTYPE html>")
    window.open(page)
    qtbot.waitUntil(lambda: "a web page" in window.state.text())
    assert window.tabs.isHidden()
    assert window.copy_bar.isHidden()
    tiny_llama(page)
    press(window, Key.Key_F5)
    qtbot.waitUntil(lambda: window.pages.currentIndex() == VALUES)
    assert window.tabs.isVisible()


def test_a_file_that_is_gone_is_described_no_more(
    opened: HeaderWindow, path: Path, qtbot: QtBot
) -> None:
    assert opened.summary.isVisible()
    path.unlink()
    press(opened, Key.Key_F5)
    qtbot.waitUntil(opened.state.isVisible)
    assert "no longer exists" in opened.state.text()
    assert not opened.summary.isVisible()
    assert not opened.copy_bar.isVisible()


def test_what_cannot_be_chatted_with_is_said(
    window: HeaderWindow, tmp_path: Path, qtbot: QtBot
) -> None:
    tiny_llama(tmp_path / "bert.gguf", architecture="bert")
    window.open(tmp_path / "bert.gguf")
    qtbot.waitUntil(window.trouble.isVisible)
    assert "doesn't generate text" in window.trouble.text()


def test_hostile_headers_never_end_the_window(
    window: HeaderWindow, tmp_path: Path, qtbot: QtBot
) -> None:
    """Some of the thousand: each is shown, or refused in a sentence."""
    whole = tmp_path / "whole.gguf"
    tiny_llama(whole, shape=Shape(n_layer=1))
    data, path = whole.read_bytes(), tmp_path / "hostile.gguf"
    endings = set()
    for mutation in random.Random(4).sample(list(mutations_of(data)), 60):
        path.write_bytes(mutation.applied(data))
        window.open(path)
        asked = window._asked
        qtbot.waitUntil(lambda: window.state.text() != "Reading the header…" or shown(window))
        assert window._asked == asked
        endings.add(shown(window))
        window.tabs.setCurrentIndex(random.Random(asked).randrange(3))
        window.path = Path()
        window._shown = None
    assert endings == {True, False}


def shown(window: HeaderWindow) -> bool:
    return window._shown is not None


# --- corrected copies ---------------------------------------------------------------------------


def test_a_corrected_copy(
    opened: HeaderWindow, path: Path, header_desk: HeaderDesk, qtbot: QtBot
) -> None:
    before = path.read_bytes()
    assert not opened.copy_bar.copy_button.isEnabled()
    choose(opened, "general.name")
    press(opened.values_table, Key.Key_Return)
    dialog = dialog_of(opened)
    dialog.value_field.setPlainText("A better name")
    dialog.ok_button.click()
    choose(opened, "general.license")
    press(opened.values_table, Key.Key_Delete)
    opened.set_value("general.description", value_typed("string", "new"))
    assert opened.copy_bar.words.text() == "3 changes to save in a copy."
    rows = {row.key: row for row in opened.values.shown}
    assert rows["general.license"].is_removed
    assert rows["general.name"].preview == "A better name"
    assert keys(opened)[-1] == "general.description"
    target = path.with_name("better.gguf")
    opened.copy_bar.write(path, target, opened._changes)
    assert not opened.change_button.isEnabled()
    assert not opened.add_button.isEnabled()
    opened.set_value("b.late", value_typed("bool", "true"))
    assert "b.late" not in opened._changes
    qtbot.waitUntil(lambda: "Copy saved" in opened.copy_bar.words.text())
    written = read_header(target)
    assert written.name == "A better name"
    assert "general.license" not in written.metadata
    assert written.metadata["general.description"] == "new"
    assert path.read_bytes() == before
    assert opened._changes == {}
    assert {row.is_changed for row in opened.values.shown} == {False}
    opened.copy_bar.show_button.click()
    (other,) = opened.findChildren(HeaderWindow)
    qtbot.waitUntil(lambda: other.name.text() == "A better name")


def test_a_copy_that_fails_keeps_the_changes(
    opened: HeaderWindow, path: Path, qtbot: QtBot
) -> None:
    opened.set_value("general.name", value_typed("string", "x"))
    opened.copy_bar.write(path, path, opened._changes)
    qtbot.waitUntil(lambda: "the original file" in opened.copy_bar.words.text())
    assert set(opened._changes) == {"general.name"}
    assert opened.copy_bar.copy_button.isEnabled()
    assert opened.change_button.isEnabled()


def test_a_copy_is_cancelled(
    opened: HeaderWindow, path: Path, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    from app.gguf import rewrite

    put = rewrite._Copy._put

    def slow(copy: Any, file: Any, data: bytes) -> None:
        while not copy._is_cancelled():
            QTest.qSleep(5)
        put(copy, file, data)

    monkeypatch.setattr(rewrite._Copy, "_put", slow)
    opened.set_value("general.name", value_typed("string", "x"))
    opened.copy_bar.write(path, path.with_name("copy.gguf"), opened._changes)
    assert opened.copy_bar.progress.isVisible()
    assert not opened.copy_bar.copy_button.isVisible()
    opened.copy_bar.cancel_button.click()
    qtbot.waitUntil(lambda: "was cancelled" in opened.copy_bar.words.text())
    assert [each.name for each in path.parent.iterdir()] == ["tiny.gguf"]


def test_changes_are_taken_back(opened: HeaderWindow) -> None:
    choose(opened, "general.name")
    opened.remove_button.click()
    assert opened.remove_button.text() == "Undo"
    assert not opened.change_button.isEnabled()
    opened.remove_button.click()
    assert opened._changes == {}
    opened.set_value("general.name", value_typed("string", "x"))
    opened.set_value("b.new", value_typed("bool", "true"))
    opened.copy_bar.undo_button.click()
    assert "b.new" not in keys(opened)
    assert opened.copy_bar.words.text().startswith("This file is never changed")


def test_a_list_is_changed_item_by_item(opened: HeaderWindow, qtbot: QtBot) -> None:
    choose(opened, "a.pair")
    opened.change_button.click()
    qtbot.waitUntil(lambda: opened.findChild(ValueDialog) is not None)
    dialog = dialog_of(opened)
    assert dialog.value_field.toPlainText() == "[1, 2]"
    dialog.value_field.setPlainText("[3]")
    dialog.accept()
    row = next(row for row in opened.values.shown if row.key == "a.pair")
    assert row.new is not None
    assert row.new.value == [3]
    choose(opened, "a.numbers")
    assert not opened.change_button.isEnabled()
    assert "512 items" in opened.change_button.toolTip()


def test_a_value_that_cannot_be_is_not_kept(opened: HeaderWindow) -> None:
    choose(opened, "llama.context_length")
    opened.change_value()
    dialog = dialog_of(opened)
    dialog.value_field.setPlainText("many")
    assert dialog.sentence.text() == "Enter a whole number."
    assert not dialog.ok_button.isEnabled()
    dialog.accept()
    assert opened._changes == {}
    dialog.value_field.setPlainText("1,024")
    dialog.accept()
    assert opened._changes["llama.context_length"] == value_typed("uint32", "1024")


@pytest.mark.parametrize("text", ["no\u00a0break {}", "one\r\ntwo {}\r\n", "a\u2028b {}"])
def test_what_is_not_changed_of_a_text_stays(opened: HeaderWindow, text: str) -> None:
    opened.set_value("a.text", value_typed("string", text))
    choose(opened, "a.text")
    opened.change_value()
    dialog = dialog_of(opened)
    assert dialog.value().value == text
    end = dialog.value_field.textCursor()
    end.setPosition(text.replace("\r\n", "\n").index("{") + 1)
    end.insertText("x")
    if "\u2028" not in text:
        assert dialog.value().value == text.replace("{", "{x")
    dialog.reject()


def test_a_new_key_has_a_name_that_is_not_there(opened: HeaderWindow) -> None:
    opened.add_button.click()
    dialog = dialog_of(opened)
    assert not dialog.sentence.isVisible()
    for key, words in (
        ("general.name", "already"),
        ("a b", "without spaces"),
        ("split.no", "Split information"),
    ):
        dialog.key_field.setText(key)
        assert words in dialog.sentence.text()
        assert not dialog.ok_button.isEnabled()
    dialog.key_field.setText("notes.of.mine")
    dialog.kind_field.setCurrentText("array of string")
    dialog.value_field.setPlainText('["a"]')
    dialog.ok_button.click()
    assert keys(opened)[-1] == "notes.of.mine"


def test_what_lies_by_it_stays(window: HeaderWindow, tmp_path: Path, qtbot: QtBot) -> None:
    tiny_llama(tmp_path / "a.gguf", alignment=64)
    window.open(tmp_path / "a.gguf")
    qtbot.waitUntil(lambda: window.pages.currentIndex() == VALUES)
    choose(window, "general.alignment")
    assert not window.change_button.isEnabled()
    assert not window.remove_button.isEnabled()
    assert "depend on it" in window.change_button.toolTip()


def test_a_file_in_parts_is_shown_whole_and_not_changed(
    window: HeaderWindow, tmp_path: Path, qtbot: QtBot
) -> None:
    for number in (1, 2):
        write_gguf(
            tmp_path / f"big-{number:05d}-of-00003.gguf",
            metadata={"split.no": Typed("u16", number - 1), "split.count": Typed("u16", 3)},
            tensors={f"t{number}": Tensor((8,), [0.0] * 8)},
        )
    window.open(tmp_path / "big-00001-of-00003.gguf")
    qtbot.waitUntil(lambda: shown(window))
    assert "missing big-00003-of-00003.gguf" in window.summary.text()
    assert [window.tensors.cell(row, 6).partition(":")[0] for row in window.tensors.shown] == [
        "1",
        "2",
    ]
    for button in (window.change_button, window.remove_button, window.add_button):
        assert not button.isEnabled()
    assert "Join its parts" in window.change_button.toolTip()


# --- windows ------------------------------------------------------------------------------------


def test_each_file_has_a_window_and_a_closed_one_is_used_again(
    qtbot: QtBot, header_desk: HeaderDesk, theme: Theme, path: Path
) -> None:
    parent = QWidget()
    qtbot.addWidget(parent)
    parent.show()
    other = path.with_name("other.gguf")
    tiny_llama(other)

    def show(file: Path) -> HeaderWindow:
        made = show_file(parent, header_desk, theme, file)  # type: ignore[arg-type]
        qtbot.waitUntil(lambda: shown(made))
        return made

    first = show(path)
    assert show(path) is first
    second = show(other)
    assert second is not first
    second.close()
    first.set_value("general.name", value_typed("string", "kept"))
    first.close()
    third = path.with_name("third.gguf")
    tiny_llama(third)
    assert show(third) is second
    assert show(path) is first
    assert first._changes
    parent.close()
    assert first.isHidden()
    assert second.isHidden()


def test_a_copy_is_offered_beside_the_file_that_it_was_made_of(
    opened: HeaderWindow, path: Path, qtbot: QtBot
) -> None:
    opened.set_value("general.name", value_typed("string", "x"))
    opened.copy_bar.write(path, path.with_name("copy.gguf"), opened._changes)
    qtbot.waitUntil(opened.copy_bar.show_button.isVisible)
    other = path.with_name("other.gguf")
    tiny_llama(other)
    opened.close()
    opened.open(other)
    opened.show()
    qtbot.waitUntil(lambda: opened._shown is not None)
    assert not opened.copy_bar.show_button.isVisible()


def test_everything_that_takes_keys_has_a_name(opened: HeaderWindow) -> None:
    choose(opened, "a.numbers")
    seen = set()
    for page in (VALUES, TENSORS, TEMPLATE):
        opened.tabs.setCurrentIndex(page)
        for widget in opened.findChildren(QWidget):
            if widget.isVisible() and widget.focusPolicy() & Qt.FocusPolicy.TabFocus:
                text = widget.text() if isinstance(widget, QAbstractButton) else ""
                assert widget.accessibleName() or text, widget
                seen.add(widget.objectName())
    assert {"values_table", "go_to_item", "tensors_table", "template_text"} <= seen


@pytest.mark.parametrize("zoom", [100, 200])
def test_nothing_is_squeezed(opened: HeaderWindow, theme: Theme, qtbot: QtBot, zoom: int) -> None:
    theme.set_zoom(zoom)
    opened.resize(opened.minimumSizeHint())
    qtbot.wait(10)
    for button in opened.findChildren(QAbstractButton):
        if button.isVisible() and not button.objectName().startswith("qt_"):
            assert button.width() >= button.minimumSizeHint().width(), button.objectName()
    is_narrow = opened.width() < theme.px(500)
    assert not is_narrow or opened.search.y() > opened.tabs.y()


@pytest.mark.parametrize(("family", "size_px"), [("", 14), (MONO_FAMILY, 14), ("", 24)])
def test_headings_are_whole_in_any_font(
    opened: HeaderWindow, theme: Theme, qapp: QApplication, family: str, size_px: int
) -> None:
    theme.apply_to(qapp)
    theme.set_fonts(Settings(font_text=family, text_px=size_px))
    for table in (opened.values_table, opened.types_table, opened.tensors_table):
        for column in range(table.model().columnCount()):
            table.sortByColumn(column, Qt.SortOrder.AscendingOrder)
            assert squeezed_headings(table) == []


def test_texts_fit_for_a_field() -> None:
    assert fit_for_field("") == ""
    assert fit_for_field("Ž 模\u200d型\t🙂\nא") == "Ž 模\u200d型\t🙂\nא"
    assert fit_for_field("\u202ea\x1b[0m\r") == "�a�[0m�"
    lines = fit_for_field("a\n" * 10_000).splitlines()
    assert (len(lines), lines[-1]) == (3001, "… 14,000 more characters")
    cut = fit_for_field("x" * 100_000).splitlines()
    assert sum(map(len, cut[:-1])) == 60_000
    assert cut[-1] == "… 40,000 more characters"


def test_shares() -> None:
    assert [share_text(part, 1000) for part in (0, 1, 500, 1000)] == [
        "0.0%",
        "0.1%",
        "50.0%",
        "100.0%",
    ]
    assert (share_text(1, 10**6), share_text(0, 0)) == ("< 0.1%", "")


def test_of_a_projector_it_says_for_what_and_for_whom(tmp_path: Path) -> None:
    words = summary(read_shown(put_projector(tmp_path / "mmproj.gguf", 96, hears=True)))
    assert words.startswith("clip (projector)")
    assert "for pictures of 28 × 28 and sounds · for models with an embedding of 96" in words
    seeing = summary(read_shown(put_weights(tmp_path / "tiny.gguf")))
    assert "has a place for pictures" in seeing
