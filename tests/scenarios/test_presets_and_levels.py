"""Presets and the levels of settings in the whole window, by keyboard where a key is given."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QComboBox, QInputDialog, QLineEdit, QWidget

from app.chat.settings.resolved import LOADING, SHAPING
from app.chat.settings.settings import checked
from app.engine.protocol.stages import Greedy
from models.records import Preset
from ui.settings.chain_field import ChainField, stage_of
from ui.settings.fields import ChoiceField, NumberField
from ui.settings.levels_window import LevelsWindow
from ui.settings.rows import SettingRow
from ui.settings.shaping import setting_words
from ui.windows.presets_window import PresetsWindow, content_words

Key = Qt.Key
CONTROL = Qt.KeyboardModifier.ControlModifier
SHIFT = Qt.KeyboardModifier.ShiftModifier
TALK: dict[str, Any] = {"load": {"ms": 5}, "replies": [{"text": "Paris, of course."}]}


@pytest.fixture
def person(open_window: Any) -> Any:
    person = open_window(TALK)
    person.wait_ready()
    return person


def levels_of(person: Any) -> LevelsWindow:
    person.press(Key.Key_Period, CONTROL)
    window = person.find(LevelsWindow, "levels_window")
    person.wait(window.isVisible)
    return window


def presets_of(person: Any) -> PresetsWindow:
    person.press(Key.Key_P, CONTROL)
    window = person.find(PresetsWindow, "presets_window")
    person.wait(lambda: window.list.count() >= 5)
    return window


def row(window: QWidget, name: str) -> SettingRow:
    return next(each for each in window.findChildren(SettingRow) if each.name == name)


def type_number(window: QWidget, name: str, text: str) -> None:
    field = window.findChild(NumberField, f"setting_{name}")
    assert field is not None
    field.selectAll()
    QTest.keyClicks(field, text)
    QTest.keyClick(field, Key.Key_Return)


def choose_level(window: QWidget, level: str) -> None:
    field = window.findChild(ChoiceField, "level_field")
    assert field is not None
    button = field.findChild(QWidget, f"choice_{level}")
    QTest.mouseClick(button, Qt.MouseButton.LeftButton)


def hint(window: QWidget, name: str) -> str:
    return row(window, name).field.accessibleDescription()


def test_view_says_whence_each_value_comes_and_changes_it_there(person: Any) -> None:
    window = levels_of(person)
    assert hint(window, "temperature") == "App: 0.3"
    type_number(window, "temperature", "0.8")
    assert hint(window, "temperature") == "Chat: 0.8  ·  overrides App: 0.3"
    choose_level(window, "app")
    type_number(window, "top_k", "11")
    assert person.app.desk.settings.now.top_k == 11
    assert hint(window, "top_k") == "App: 11"
    choose_level(window, "chat")
    reset = window.findChild(QWidget, "reset_temperature")
    assert reset is not None
    QTest.mouseClick(reset, Qt.MouseButton.LeftButton)
    assert hint(window, "temperature") == "App: 0.3"
    assert not reset.isVisible()


def test_every_setting_of_a_reply_has_a_row(person: Any) -> None:
    window = levels_of(person)
    assert {each.name for each in window.findChildren(SettingRow)} == {*SHAPING, *LOADING}


def test_what_does_not_fit_is_refused_in_words_and_changes_nothing(person: Any) -> None:
    window = levels_of(person)
    type_number(window, "top_p", "7")
    assert "0 to 1" in row(window, "top_p").refusal.text()
    chain = window.findChild(ChainField)
    assert chain is not None
    chain.setPlainText("dist\ntop_k k=3")
    chain.clearFocus()
    chain._tell()
    assert "last stage" in row(window, "chain").refusal.text()
    chain.setPlainText("warp speed=9")
    chain._tell()
    assert "warp" in row(window, "chain").refusal.text()
    assert dict(person.app.desk.levels.resolved().levels) == {}


def test_reply_is_made_with_the_chats_own_chain(person: Any) -> None:
    window = levels_of(person)
    chain = window.findChild(ChainField)
    assert chain is not None
    chain.setPlainText("top_k k=3\n\nmin_p p=0.2\ntemperature t=0.6\ndist")
    chain._tell()
    assert hint(window, "temperature").startswith("Chat: 0.6")
    assert hint(window, "top_p").startswith("Chat: not in the chain")
    window.close()
    person.send("Hello")
    reply = person.wait_ended()
    names = [stage["stage"] for stage in reply.settings["sampling"]["filters"]]
    assert names == ["top_k", "min_p", "temperature"]
    assert reply.settings["levels"]["chain"] == "chat"


@pytest.mark.parametrize(
    ("line", "stage"),
    [
        ("dist", {"stage": "dist"}),
        ("top_p p=0.9 min_keep=2", {"stage": "top_p", "p": 0.9, "min_keep": 2}),
        ('dry breakers=["\\n", " "] base=2', {"stage": "dry", "breakers": ["\n", " "], "base": 2}),
        ("top_k k", {"stage": "top_k k"}),
        ("top_k k=", {"stage": "top_k k="}),
    ],
)
def test_line_of_a_chain_is_read_as_it_stands(line: str, stage: dict[str, Any]) -> None:
    assert stage_of(line) == stage


def test_reply_shows_its_settings_and_is_asked_for_again_with_others(person: Any) -> None:
    person.send("Hello")
    first = person.wait_ended()
    person.app.desk.settings.set("temperature", 1.7)
    person.press(Key.Key_Period, CONTROL | SHIFT)
    window = person.find(LevelsWindow, "levels_window")
    assert "Context" in window.words.text()
    assert hint(window, "temperature") == "App: 0.3"
    assert not window.answer_button.isEnabled()
    type_number(window, "temperature", "0.9")
    assert hint(window, "temperature") == "Changed from 0.3"
    QTest.mouseClick(window.answer_button, Qt.MouseButton.LeftButton)
    second = person.wait(lambda: (r := person.wait_ended()) and r.id != first.id and r)
    filters = second.settings["sampling"]["filters"]
    assert next(s["t"] for s in filters if s["stage"] == "temperature") == 0.9
    assert second.settings["levels"]["temperature"] == "message"


def test_last_reply_is_run_again_by_its_key(person: Any) -> None:
    person.send("Hello")
    first = person.wait_ended()
    person.press(Key.Key_R, CONTROL | SHIFT)
    second = person.wait(lambda: (r := person.wait_ended()) and r.id != first.id and r)
    assert second.settings["again"]["of"] == first.id
    words = [
        w.text() for w in person.window.chat.toasts.findChildren(QWidget) if hasattr(w, "text")
    ]
    assert any("identical" in str(text) for text in words)


def test_preset_is_used_renamed_deleted_and_brought_back_by_keyboard(person: Any) -> None:
    window = presets_of(person)
    desk = person.app.desk
    assert window.list.hasFocus()
    QTest.keyClick(window.list, Key.Key_End)
    assert window.name_field.text() == "The same every time"
    QTest.keyClick(window.list, Key.Key_Return)
    assert not window.isVisible()
    assert desk.levels.resolved().settings.stages() == (Greedy(),)
    assert desk.presets.applied()[1]
    window = presets_of(person)
    window.name_field.selectAll()
    QTest.keyClicks(window.name_field, "Steady")
    QTest.keyClick(window.name_field, Key.Key_Return)
    assert "Steady" in [p.name for p in desk.presets.all]
    window.list.setFocus()
    QTest.keyClick(window.list, Key.Key_Delete)
    assert "Steady" not in [p.name for p in desk.presets.all]
    window.close()
    person.window.following.undo_last()
    assert "Steady" in [p.name for p in desk.presets.all]


def test_preset_is_made_of_the_chat_and_chosen_in_another(person: Any) -> None:
    window = levels_of(person)
    type_number(window, "min_p", "0.33")
    QTest.mouseClick(window.save_button, Qt.MouseButton.LeftButton)
    dialog = window.findChild(QInputDialog, "preset_name_dialog")
    assert dialog is not None
    field = dialog.findChild(QLineEdit)
    QTest.keyClicks(field, "Third")
    QTest.keyClick(field, Key.Key_Return)
    person.app.desk.shelf.open_new()
    picker = window.findChild(QComboBox, "preset_picker")
    assert picker is not None
    person.wait(lambda: picker.findText("Third") > 0)
    assert picker.currentText() == "No preset"
    picker.setFocus()
    QTest.keyClicks(picker, "Third")
    picker.activated.emit(picker.findText("Third"))
    assert hint(window, "min_p").startswith("Chat: 0.33")
    type_number(window, "min_p", "0.1")
    assert picker.currentText() == "Third (changed)"


def test_preset_goes_out_as_a_file_and_comes_back(person: Any, tmp_path: Path) -> None:
    window = presets_of(person)
    window.list.setCurrentRow(2)
    name = window.name_field.text()
    path = tmp_path / "preset.json"
    window._write(path, person.app.desk.presets.as_text(window._presets[2].id))
    assert json.loads(path.read_text("utf-8"))["name"] == name
    window.take_file(str(path))
    assert window.name_field.text() == f"{name} 2"


def test_weights_keep_their_own_settings(open_window: Any, made_gguf: Path) -> None:
    """Which a script cannot show: its weights are not remembered."""
    person = open_window(None, "--gguf", str(made_gguf))
    person.app.desk.settings.set("n_threads", 1)
    person.wait_ready()
    window = levels_of(person)
    choose_level(window, "weights")
    type_number(window, "n_ctx", "512")
    type_number(window, "temperature", "0.45")
    assert hint(window, "temperature") == "Model: 0.45  ·  overrides App: 0.3"
    window.close()
    person.app.close()
    again = open_window(None, "--gguf", str(made_gguf))
    again.wait_ready()
    loaded = again.app.desk.loader.state.loaded
    assert loaded is not None
    assert loaded.n_ctx == 512
    assert again.app.desk.levels.resolved().level_of("temperature") == "weights"


def test_windows_close_with_the_main_window(person: Any) -> None:
    levels, presets = levels_of(person), presets_of(person)
    person.window.close()
    assert not levels.isVisible()
    assert not presets.isVisible()
    assert QApplication.activeModalWidget() is None


def test_message_under_the_keyboard_shows_its_settings_and_runs_again(person: Any) -> None:
    person.send("Hello")
    first = person.wait_ended()
    transcript = person.window.chat.transcript
    transcript.setFocus()
    QTest.keyClick(transcript, Key.Key_End)
    QTest.keyClick(transcript, Key.Key_G)
    window = person.find(LevelsWindow, "levels_window")
    assert window.windowTitle() == "Generation settings"
    window.close()
    transcript.setFocus()
    QTest.keyClick(transcript, Key.Key_End)
    QTest.keyClick(transcript, Key.Key_X)
    second = person.wait(lambda: (r := person.wait_ended()) and r.id != first.id and r)
    assert second.settings["again"]["of"] == first.id


def test_adapters_of_a_preset_are_named_with_their_scales() -> None:
    files = [{"path": "/a/calm.gguf", "scale": 1.5, "first": 8, "last": 20}]
    now = datetime.now(UTC)
    preset = Preset("p", "Calm", now, now, {"control_vectors": files})
    assert content_words(preset) == "Control vectors\ncalm × 1.5, layers 8–20"
    assert setting_words("control_vectors", checked("control_vectors", files)) == (
        "calm × 1.5, layers 8–20"
    )
