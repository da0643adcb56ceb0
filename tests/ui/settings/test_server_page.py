"""Settings → Server: what is shown of it, and the key that is seen once."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtTest import QTest
from pytestqt.qtbot import QtBot
from recording_desk import FakeBridge, FakeDesk

from app.chat.events import ServerChanged, SettingsChanged
from app.chat.settings.settings import checked
from app.refusal import Refusal
from ui.look.theme import Theme
from ui.settings.fields import Field, LineField
from ui.settings.rows import SettingRow
from ui.settings.server_page import HAS_KEY, NEW_KEY, NO_KEY, ServerPage


@pytest.fixture
def page(qtbot: QtBot, desk: FakeDesk, bridge: FakeBridge, theme: Theme) -> ServerPage:
    """On its own: the whole window takes a second and a half to build."""
    desk.server.read_key = lambda then: then()

    def apply(name: str, value: object) -> str:
        try:
            desk.settings.set(name, checked(name, value))
        except Refusal as refused:
            return refused.sentence
        return ""

    def row(name: str, label: str, hint: str, field: Field) -> SettingRow:
        return SettingRow(theme, name, label, hint, field, apply)

    made = ServerPage(desk, bridge, theme, row)  # type: ignore[arg-type]
    qtbot.addWidget(made)
    made.show()
    qtbot.waitExposed(made)
    return made


def test_its_state_is_said_and_its_address_copied(
    page: ServerPage, desk: FakeDesk, bridge: FakeBridge
) -> None:
    assert page.state_label.text() == "The server is off."
    desk.server.state = ServerChanged("on", "http://[::1]:8642")
    bridge.emit_event(desk.server.state)
    page.copy_button.click()
    assert QGuiApplication.clipboard().text() == "http://[::1]:8642/v1"


def test_a_new_key_is_seen_once_and_can_be_copied_later(
    page: ServerPage, desk: FakeDesk, bridge: FakeBridge
) -> None:
    assert page.key_words.text() == NO_KEY
    assert not page.remove_button.isEnabled()

    def make(then: Callable[[], None]) -> None:
        desk.server.key = "sk-secret"
        desk.settings.set("server_key_kept", True)
        then()

    desk.server.make_key = make
    page.make_button.click()
    assert (page.key_line.text(), page.key_words.text()) == ("sk-secret", NEW_KEY)
    page.hide()
    page.show()
    assert (page.key_line.isVisible(), page.key_line.text()) == (False, "")
    assert page.key_words.text() == HAS_KEY
    page.copy_key_button.click()
    assert QGuiApplication.clipboard().text() == "sk-secret"

    def remove(then: Callable[[], None]) -> None:
        desk.server.key = ""
        desk.settings.set("server_key_kept", False)
        then()

    desk.server.remove_key = remove
    page.remove_button.click()
    bridge.emit_event(SettingsChanged(frozenset({"server_key_kept"})))
    assert page.key_words.text() == NO_KEY


def test_an_address_that_is_none_is_refused_in_words(page: ServerPage, desk: FakeDesk) -> None:
    row = next(each for each in page.findChildren(SettingRow) if each.name == "server_address")
    assert isinstance(row.field, LineField)
    row.field.selectAll()
    QTest.keyClicks(row.field, "my computer")
    QTest.keyClick(row.field, Qt.Key.Key_Return)
    assert "IP address" in row.refusal.text()
    assert desk.settings.now.server_address == "127.0.0.1"
    row.field.setText("0.0.0.0")
    row.field.tell_now()
    assert (row.refusal.text(), desk.settings.now.server_address) == ("", "0.0.0.0")
