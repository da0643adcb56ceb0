"""Settings → Engines: what stands there of each, adding and changing one, a refusal in words."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QLineEdit, QPushButton
from pytestqt.qtbot import QtBot
from recording_desk import FakeBridge, FakeDesk

from app.chat.engines.engines import Standing
from app.engine.protocol.remote_messages import EngineAddress, EngineOffer, Lack, RemoteModel
from ui.look.theme import Theme
from ui.settings.engine_dialog import EngineDialog
from ui.settings.engine_list import EngineRow
from ui.settings.engine_words import can_words, cannot_lines
from ui.settings.settings_window import SettingsWindow

BOX = EngineAddress("e1", "Box", "http://box.example.org:8000/v1")
OFFER = EngineOffer(
    "e1",
    "Box",
    "vllm",
    "0.11",
    [RemoteModel("org/small")],
    [Lack("token_ids", "It sends no IDs.")],
    [Lack("mirostat", "It has no Mirostat.")],
)


@pytest.fixture
def window(qtbot: QtBot, desk: FakeDesk, bridge: FakeBridge, theme: Theme) -> SettingsWindow:
    desk.engines.all = (Standing(BOX, "keyring", offer=OFFER),)
    made = SettingsWindow(desk, bridge, theme)  # type: ignore[arg-type]
    qtbot.addWidget(made)
    made.show_page("engine")
    qtbot.waitUntil(made.isActiveWindow)
    return made


def row(window: SettingsWindow) -> EngineRow:
    return window.engines.rows["e1"]


def test_each_engine_says_what_it_is_what_it_offers_and_why_not(
    window: SettingsWindow, desk: FakeDesk, qtbot: QtBot
) -> None:
    shown = row(window)
    assert shown.state.text() == (
        "vLLM 0.11 · 1 model · http://box.example.org:8000/v1 · Key saved in the keyring"
    )
    assert shown.sentence.isHidden()
    assert shown.offers.isHidden()
    shown.more_button.click()
    text = shown.offers.text()
    assert "• org/small" in text
    assert "token probabilities" in text
    assert "Token IDs: It sends no IDs." in text
    assert "Sampling, Mirostat 1: It has no Mirostat." in text
    many = [RemoteModel(f"{'x' * 500}{number}") for number in range(1_234)]
    desk.engines.all = (Standing(BOX, offer=replace(OFFER, models=many)),)
    window.engines._show()
    assert "1,234 models" in shown.state.text()
    assert "… and 1,184 more" in shown.offers.text()
    qtbot.waitUntil(lambda: shown.offers.height() >= shown.offers.heightForWidth(shown.width()))
    assert shown.width() < window.width()
    desk.engines.all = (Standing(BOX, sentence="Nothing answers there."),)
    window.engines._show()
    assert row(window) is shown
    assert shown.sentence.text() == "Nothing answers there."
    assert "Can't be reached" in shown.state.text()
    assert "No key" in shown.state.text()
    assert shown.offers.isHidden()
    assert shown.forget_button.isHidden()


def test_its_buttons_ask_the_desk(window: SettingsWindow, desk: FakeDesk) -> None:
    for name in ("try_engine", "forget_engine_key", "remove_engine"):
        button = row(window).findChild(QPushButton, f"{name}_button")
        assert button is not None
        assert "Box" in button.accessibleName()
        button.click()
    for name in ("try_now", "forget_key", "remove"):
        assert desk.called(f"engines.{name}") == [("e1",)]
    desk.engines.all = ()
    window.engines._show()
    assert window.engines.rows == {}


def test_one_is_added_by_the_keyboard_and_what_is_wrong_is_said_there(
    window: SettingsWindow, desk: FakeDesk, qtbot: QtBot
) -> None:
    window.engines.add_button.setFocus()
    QTest.keyClick(window.engines.add_button, Qt.Key.Key_Space)
    dialog = window.findChild(EngineDialog)
    assert dialog is not None
    for name, text in (
        ("engine_name", "Lab"),
        ("engine_url", "http://lab.example.org/v1"),
        ("engine_key", "sk-1"),
    ):
        field = dialog.findChild(QLineEdit, name)
        assert field is not None
        QTest.keyClicks(field, text)
    assert dialog.plain.isVisibleTo(dialog)  # a key over plain http
    QTest.keyClick(dialog.key, Qt.Key.Key_Return)
    ((*given, told),) = desk.called("engines.add")
    assert given == ["Lab", "http://lab.example.org/v1", "sk-1"]
    told("“x” isn't an address.")
    assert dialog.isVisible()
    assert dialog.sentence.text() == "“x” isn't an address."
    assert dialog.focusWidget() is dialog.url
    told("")
    qtbot.waitUntil(lambda: window.findChild(EngineDialog) is None)


def test_one_is_changed_without_its_key_being_shown(window: SettingsWindow, desk: FakeDesk) -> None:
    row(window).change_button.click()
    dialog = window.findChild(EngineDialog)
    assert dialog is not None
    assert (dialog.name.text(), dialog.url.text(), dialog.key.text()) == ("Box", BOX.url, "")
    assert "leave empty to keep it" in dialog.key.placeholderText()
    dialog.save_button.click()
    ((*given, _),) = desk.called("engines.change")
    assert given == ["e1", "Box", BOX.url, ""]
    dialog.reject()


def test_on_this_machine_nothing_is_said_of_encryption(
    window: SettingsWindow, desk: FakeDesk
) -> None:
    row(window).change_button.click()
    dialog = window.findChild(EngineDialog)
    assert dialog is not None
    for text, is_said in (
        ("http://localhost:8080/v1", False),
        ("https://box.example.org/v1", False),
        ("box.local:8000", True),
    ):
        dialog.url.setText(text)
        assert dialog.plain.isVisibleTo(dialog) is is_said, text
    dialog.reject()


def test_pictures_are_offered_where_a_model_is_known_to_take_them() -> None:
    unknown = EngineOffer("e1", "Mine", "openai", models=[RemoteModel("m")])
    assert "pictures" not in can_words(unknown)
    assert not any(line.startswith("Pictures") for line in cannot_lines(unknown))
    seeing = EngineOffer("e1", "Mine", "openai", models=[RemoteModel("m", has_images=True)])
    assert "pictures" in can_words(seeing)
    assert "sounds" not in can_words(seeing)
