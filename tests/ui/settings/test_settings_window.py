"""The settings window: each value applied at once, a refusal in words, the log, the folder."""

from __future__ import annotations

from typing import Any

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QAbstractButton, QLabel, QLineEdit, QPlainTextEdit, QPushButton
from pytestqt.qtbot import QtBot
from recording_desk import FakeBridge, FakeDesk, loaded

from app.chat.events import EngineStateChanged, LogLineArrived, SettingsChanged
from app.chat.settings.settings import Settings
from app.engine.protocol.loading_messages import Device
from app.engine.protocol.stages import Greedy, TopK
from ui.look.icons import icon
from ui.look.theme import Theme
from ui.settings.chain_field import ChainField
from ui.settings.fields import ChoiceField, FontField, NumberField, SwitchField, TextField
from ui.settings.settings_window import SettingsWindow

Key = Qt.Key


@pytest.fixture
def window(qtbot: QtBot, desk: FakeDesk, bridge: FakeBridge, theme: Theme) -> SettingsWindow:
    made = SettingsWindow(desk, bridge, theme)  # type: ignore[arg-type]
    qtbot.addWidget(made)
    made.show_page("appearance")
    qtbot.waitUntil(made.isActiveWindow)
    return made


def number(window: SettingsWindow, name: str) -> NumberField:
    field = window.findChild(NumberField, f"setting_{name}")
    assert field is not None
    return field


def type_number(window: SettingsWindow, name: str, text: str) -> None:
    field = number(window, name)
    field.selectAll()
    QTest.keyClick(field, Key.Key_Delete)
    QTest.keyClicks(field, text)
    QTest.keyClick(field, Key.Key_Return)


def refusal(window: SettingsWindow, name: str) -> QLabel:
    label = window.findChild(QLabel, f"refusal_{name}")
    assert label is not None
    return label


NUMBERS: list[tuple[str, str, str, object]] = [
    ("appearance", "zoom_percent", "150", 150),
    ("chat", "max_tokens", "256", 256),
    ("chat", "max_tokens", "", 0),
    ("sampling", "temperature", "1.2", 1.2),
    ("sampling", "top_k", "20", 20),
    ("sampling", "top_p", "0.9", 0.9),
    ("sampling", "min_p", "0", 0.0),
    ("sampling", "repeat_penalty", "1.1", 1.1),
    ("sampling", "repeat_last_n", "-1", -1),
    ("sampling", "seed", "42", 42),
    ("engine", "n_threads", "2", 2),
    ("engine", "n_ctx", "8,192", 8192),
    ("engine", "n_gpu_layers", "0", 0),
]


def test_a_number_is_applied_at_once(window: SettingsWindow, desk: FakeDesk) -> None:
    for page, name, text, value in NUMBERS:
        desk.settings.set(name, {"max_tokens": 7}.get(name, getattr(Settings(), name)))
        window.show_page(page)
        type_number(window, name, text)
        assert getattr(desk.settings.now, name) == value, (name, text)
        assert refusal(window, name).isHidden(), (name, text)


def test_a_bad_value_is_refused_in_words_and_changes_nothing(
    window: SettingsWindow, desk: FakeDesk
) -> None:
    for page, name, text, good in (
        ("appearance", "zoom_percent", "20", "110"),
        ("sampling", "temperature", "hot", "1"),
        ("sampling", "top_p", "1.5", "1"),
        ("sampling", "seed", "-3", "3"),
        ("engine", "n_threads", "2.5", "2"),
    ):
        before = desk.settings.now
        window.show_page(page)
        type_number(window, name, text)
        assert desk.settings.now == before, name
        label = refusal(window, name)
        assert label.isVisible(), name
        assert "number" in label.text()
        assert number(window, name).accessibleDescription() == label.text()
        type_number(window, name, good)
        assert not label.isVisible(), name


def test_choices_and_texts_are_applied(
    window: SettingsWindow, desk: FakeDesk, qtbot: QtBot
) -> None:
    for field in window.findChildren(ChoiceField):
        button = field.findChildren(QPushButton)[-1]
        button.click()
    assert desk.settings.now.theme == "dark"
    assert desk.settings.now.send_key == "ctrl_enter"
    window.show_page("chat")
    for name, text in (
        ("system_prompt", "Be brief."),
        ("stop_strings", "User:"),
        ("reasoning_tags", "<a>...</a>"),
    ):
        area = window.findChild(TextField, f"setting_{name}")
        assert area is not None
        area.setFocus()
        area.selectAll()
        QTest.keyClicks(area, text)
    window.close()
    assert desk.settings.now.system_prompt == "Be brief."
    assert desk.settings.now.stop_strings == ("User:",)
    assert desk.settings.now.stop_in_reasoning
    assert desk.settings.now.reasoning_tags == ("<a>…</a>",)


def test_changes_made_elsewhere_are_shown(window: SettingsWindow, desk: FakeDesk) -> None:
    desk.settings.set("zoom_percent", 125)
    desk.settings.set("theme", "light")
    assert number(window, "zoom_percent").text() == "125"
    light = window.findChild(QPushButton, "choice_light")
    assert light is not None
    assert light.isChecked()


def test_defaults_come_back_for_sampling_alone(window: SettingsWindow, desk: FakeDesk) -> None:
    desk.settings.set("temperature", 1.9)
    desk.settings.set("seed", 5)
    desk.settings.set("zoom_percent", 125)
    window.defaults_button.click()
    assert desk.settings.now == Settings(zoom_percent=125)
    assert number(window, "temperature").value() == Settings().temperature
    assert number(window, "seed").text() == ""


def test_load_again_is_there_when_weights_are(
    window: SettingsWindow, desk: FakeDesk, bridge: FakeBridge
) -> None:
    assert not window.reload_button.isEnabled()
    desk.loader.state = EngineStateChanged("ready", "SmolLM2", loaded())
    bridge.emit_event(desk.loader.state)
    assert "llama 135M Q4_1" in window.loaded_label.text()
    assert "Memory: weights on CPU 102 MB" in window.loaded_label.text()
    window.reload_button.click()
    assert desk.called("loader.load") == [("/weights/smollm2.gguf",)]


def test_the_log_is_followed_and_copied(
    qtbot: QtBot, desk: FakeDesk, bridge: FakeBridge, theme: Theme
) -> None:
    desk.log = [("info", "load_tensors: ok\n"), ("error", "no <b>kv</b>")]
    window = SettingsWindow(desk, bridge, theme)  # type: ignore[arg-type]
    qtbot.addWidget(window)
    bridge.emit_event(LogLineArrived("warning", "slow"))
    area = window.findChild(QPlainTextEdit, "engine_log")
    assert area is not None
    lines = ["load_tensors: ok", "error: no <b>kv</b>", "warning: slow"]
    assert area.toPlainText().split("\n") == lines
    theme.set_mode("dark")
    assert area.toPlainText().split("\n") == lines
    window.log_view.copy_button.click()
    assert QGuiApplication.clipboard().text().split("\n") == lines


def test_the_data_folder_is_shown(window: SettingsWindow, desk: FakeDesk) -> None:
    field = window.findChild(QLineEdit, "data_folder")
    assert field is not None
    assert field.text() == str(desk.data_dir)
    assert field.isReadOnly()


def test_saved_chat_caches_are_measured_limited_and_deleted(
    window: SettingsWindow, desk: FakeDesk
) -> None:
    assert not desk.called("saved_chats.measure")  # nobody looks
    window.show_page("data")
    show, _ = desk.called("saved_chats.measure")[-1]
    label, button = window.saved_label, window.delete_saved_button
    for size, words in ((45_300_000, "In use: 45.3 MB."), (0, "In use: 0 bytes.")):
        show(size)
        assert label.text() == words
        assert button.isEnabled() == (size > 0)
    show(1000)
    button.click()
    (again,) = desk.called("saved_chats.drop_all")[-1]
    again()
    assert len(desk.called("saved_chats.measure")) >= 2
    type_number(window, "saved_chats_mb", "0")
    assert desk.settings.now.saved_chats_mb == 0
    type_number(window, "unload_after_min", "10")
    assert desk.settings.now.unload_after_min == 10


def test_pages_turn_by_key_and_escape_closes(window: SettingsWindow, qtbot: QtBot) -> None:
    control = Qt.KeyboardModifier.ControlModifier
    QTest.keyClick(window, Key.Key_Tab, control)
    assert window.tabs.tabText(window.tabs.currentIndex()) == "Chat"
    QTest.keyClick(window.tabs, Key.Key_Right)
    assert window.tabs.tabText(window.tabs.currentIndex()) == "Sampling"
    QTest.keyClick(window, Key.Key_Escape)
    qtbot.waitUntil(lambda: not window.isVisible())


def test_tab_reaches_every_control_of_a_page_and_comes_round(window: SettingsWindow) -> None:
    window.show_page("sampling")
    seen = []
    for _ in range(30):
        focus = window.focusWidget()
        assert focus is not None
        seen.append(focus.objectName())
        QTest.keyClick(focus, Key.Key_Tab)
    wanted = {f"setting_{n}" for n in ("temperature", "top_k", "top_p", "min_p", "seed")}
    assert wanted <= set(seen)
    assert "sampling_defaults_button" in seen
    assert seen.count("settings_tabs") >= 2


def test_every_control_has_a_name(window: SettingsWindow) -> None:
    controls = [
        *window.findChildren(QLineEdit),
        *window.findChildren(QPlainTextEdit),
        *(each for each in window.findChildren(QAbstractButton) if each.objectName()),
    ]
    assert len(controls) > 20
    unnamed = [
        each.objectName()
        for each in controls
        if not each.accessibleName() and not each.objectName().startswith("Scroll")
    ]
    assert unnamed == []


def test_nothing_is_cut_sideways_at_any_zoom(
    window: SettingsWindow, theme: Theme, qtbot: QtBot
) -> None:
    for percent in (80, 100, 200, 300):
        theme.set_zoom(percent)
        window.resize(900, 600)
        for page in ("appearance", "chat", "sampling", "engine", "data"):
            window.show_page(page)
            area = window._pages.currentWidget()
            body = area.widget()  # type: ignore[attr-defined]
            qtbot.waitUntil(lambda body=body, area=area: body.width() <= area.viewport().width())


def test_fonts_are_chosen_from_what_is_installed(window: SettingsWindow, desk: FakeDesk) -> None:
    field = window.findChild(FontField, "setting_font_reading")
    assert field is not None
    assert (field.value(), field.currentText()) == ("", "Inter (included)")
    field.setFocus()
    assert field.itemText(1) == "System font"
    assert not [at for at in range(field.count()) if "Cutaway" in field.itemText(at)]
    QTest.keyClick(field, Key.Key_Down)
    assert desk.settings.now.font_reading == field.itemData(1)
    desk.settings.set("font_reading", "A font from elsewhere")
    assert field.currentText() == "A font from elsewhere (not installed)"


def test_fonts_of_signs_are_not_offered(window: SettingsWindow) -> None:
    assert icon("copy", "#000").pixmap(16, 16)  # loads the font of the icons
    for name in ("setting_font_text", "setting_font_reading", "setting_font_mono"):
        field = window.findChild(FontField, name)
        field.setFocus()
        assert field.count() > 1
        assert not [at for at in range(field.count()) if "phosphor" in field.itemText(at).lower()]


def test_switch_is_a_flag(window: SettingsWindow, desk: FakeDesk) -> None:
    field = window.findChild(SwitchField, "setting_repeatable")
    assert field is not None
    on = field.findChild(QPushButton, "choice_on")
    assert on is not None
    window.show_page("sampling")
    QTest.mouseClick(on, Qt.MouseButton.LeftButton)
    assert desk.settings.now.repeatable is True
    assert field.value() is True


def test_devices_are_named(window: SettingsWindow, desk: FakeDesk, bridge: FakeBridge) -> None:
    desk.loader.devices = (Device("CUDA0", "NVIDIA H100", "gpu", 60_000_000_000, 80_000_000_000),)
    bridge.emit_event(EngineStateChanged("ready", loaded=loaded()))
    assert window.devices_label.text() == "CUDA0: NVIDIA H100, 60 of 80 GB free"


def test_offline_by_argument_cannot_be_switched_off(
    qtbot: QtBot, desk: FakeDesk, bridge: FakeBridge, theme: Theme
) -> None:
    desk.offline = True
    made = SettingsWindow(desk, bridge, theme)  # type: ignore[arg-type]
    qtbot.addWidget(made)
    assert not made.offline_field.isEnabled()
    assert made.offline_field.value() is True


def test_chain_is_written_one_stage_a_line(window: SettingsWindow, desk: FakeDesk) -> None:
    field = window.findChild(ChainField, "setting_chain")
    assert field is not None
    field.setPlainText("top_k k=7\ngreedy")
    field._tell()
    assert desk.settings.now.stages() == (TopK(k=7), Greedy())
    field.setPlainText("greedy\ntop_k k=7")
    field._tell()
    assert "last stage" in refusal(window, "chain").text()
    assert desk.settings.now.stages() == (TopK(k=7), Greedy())


def test_an_embedding_model_is_tried_as_it_is_chosen_and_only_the_last_one_counts(
    window: SettingsWindow, desk: FakeDesk, bridge: FakeBridge
) -> None:
    asked: list[tuple[str, Any, Any]] = []
    desk.embedder.try_out = lambda path, then, *, still: asked.append((path, then, still))
    window.show_page("chat")
    for path in ("/m/one.gguf", "/m/two.gguf"):
        desk.settings.now = Settings(embedding_model=path)
        bridge.emit_event(SettingsChanged(frozenset({"embedding_model"})))
    assert [path for path, _, _ in asked] == ["/m/one.gguf", "/m/two.gguf"]
    assert [still() for _, _, still in asked] == [False, True]
    asked[1][1]("Ready.")
    assert window.embedding_label.text() == "Ready."
