"""The choice of a chat format: the banner of weights without one (row A01), replies that failed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QMenu, QPushButton
from pytestqt.qtbot import QtBot
from recording_desk import NOON, FakeBridge, FakeDesk, loaded

from app.chat.events import EngineStateChanged, LevelsChanged, Noticed
from app.chat.settings.resolved import Resolved
from app.chat.settings.settings import Settings
from models.records import Message, MessageState, Role
from ui.chat.template_banner import KEY, SENTENCE, TemplateBanner
from ui.library.view import LibraryView
from ui.shell.window import MainWindow


@pytest.fixture
def window(open_window: Callable[..., MainWindow], desk: FakeDesk) -> MainWindow:
    desk.levels.resolved = lambda message=None: Resolved(desk.settings.now, {})
    return open_window()


def load(desk: FakeDesk, bridge: FakeBridge, *, has_template: bool) -> None:
    desk.loader.state = EngineStateChanged("ready", "Some", loaded(has_template=has_template))
    bridge.emit_event(desk.loader.state)


def test_it_stands_there_until_a_format_is_chosen(
    window: MainWindow, desk: FakeDesk, bridge: FakeBridge
):
    assert window.chat.banners.card(KEY) is None
    load(desk, bridge, has_template=False)
    card = window.chat.banners.card(KEY)
    assert card.notice.sentence == SENTENCE
    banner = window.findChild(TemplateBanner)
    button = next(b for b in card.findChildren(QPushButton) if b.text() == "Choose a format…")
    button.click()
    menu = window.chat.banners.findChild(object, "format_menu")
    entry = next(a for a in menu.actions() if a.objectName() == "chatml")
    entry.trigger()
    menu.close()
    assert banner is not None
    assert desk.called("levels.change") == [("weights", "chat_format", "chatml")]

    desk.settings.now = Settings(chat_format="chatml")
    bridge.emit_event(LevelsChanged("weights"))
    assert window.chat.banners.card(KEY) is None


def test_a_template_of_ones_own_is_written_among_the_defaults(
    window: MainWindow, desk: FakeDesk, bridge: FakeBridge, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(LibraryView, "_add_pages", lambda _: None)  # they ask a real desk
    shown: list[tuple[str, str]] = []
    monkeypatch.setattr(window.lazy._library_view(), "show_defaults", lambda *of: shown.append(of))
    desk.loader.path = "/weights/base.gguf"
    load(desk, bridge, has_template=False)
    banner = window.findChild(TemplateBanner)
    assert banner is not None

    def choose_own() -> None:
        menu = banner.choose()
        next(a for a in menu.actions() if a.objectName() == "own").trigger()
        menu.close()

    choose_own()
    assert shown == [("/weights/base.gguf", "template")]
    desk.settings.now = Settings(chat_format="own")  # nothing is written yet
    bridge.emit_event(LevelsChanged("weights"))
    assert window.chat.banners.card(KEY) is not None
    desk.settings.now = Settings(chat_format="own", chat_template="{{ 1 }}")
    bridge.emit_event(LevelsChanged("weights"))
    assert window.chat.banners.card(KEY) is None
    choose_own()
    assert desk.called("levels.change") == [("weights", "chat_format", "own")]


def test_weights_with_a_template_have_no_banner(
    window: MainWindow, desk: FakeDesk, bridge: FakeBridge
):
    load(desk, bridge, has_template=False)
    load(desk, bridge, has_template=True)
    assert window.chat.banners.card(KEY) is None


def fail(window: MainWindow) -> None:
    """A reply that failed at its template is on screen."""
    question = Message("u", "c0", None, Role.USER, "Hi", NOON)
    failed = Message("r", "c0", "u", Role.ASSISTANT, "", NOON, state=MessageState.FAILED)
    failed = replace(failed, stop_reason="bad_template", error="The chat template went wrong.")
    window.chat.transcript.set_conversation([question, failed])


def press(window: MainWindow) -> QMenu:
    """Click on the failed reply's “Choose a format…”."""
    transcript = window.chat.transcript
    actions = transcript.rows.item(1).actions(0, 10_000)
    button = next(each for each in actions if each.name == "choose_format")
    place = (button.rect.center() + transcript.item_origin(1)).toPoint()
    QTest.mouseClick(transcript.viewport(), Qt.MouseButton.LeftButton, pos=place)
    menus = window.chat.banners.findChildren(QMenu, "format_menu")
    return next(menu for menu in menus if menu.isVisible())


def pick(menu: QMenu, name: str) -> None:
    next(a for a in menu.actions() if a.objectName() == name).trigger()
    menu.close()


@pytest.mark.parametrize(("level", "set_at"), [("app", "weights"), ("chat", "chat")])
def test_a_reply_that_failed_at_its_template_is_tried_again_in_the_format_that_is_chosen(
    window: MainWindow, desk: FakeDesk, bridge: FakeBridge, level: str, set_at: str
):
    """At the level that counts: what weights say does not reach a chat that says otherwise."""
    load(desk, bridge, has_template=True)
    desk.levels.resolved = lambda message=None: Resolved(desk.settings.now, {"chat_format": level})
    fail(window)
    menu = press(window)
    assert not [a for a in menu.actions() if a.objectName() == "file"]
    pick(menu, "chatml")
    assert desk.called("levels.change") == [(set_at, "chat_format", "chatml")]
    assert desk.called("replies.answer") == [("r",)]


def test_a_template_of_ones_own_that_failed_is_opened_or_left_for_the_files(
    window: MainWindow, desk: FakeDesk, bridge: FakeBridge, qtbot: QtBot
):
    load(desk, bridge, has_template=True)
    desk.settings.now = Settings(chat_format="own", chat_template="{{ broken")
    fail(window)
    banner = window.findChild(TemplateBanner)
    assert banner is not None
    banner.own_requested.disconnect()
    with qtbot.waitSignal(banner.own_requested):
        pick(press(window), "own")
    assert desk.called("replies.answer") == []
    pick(press(window), "file")
    assert desk.called("levels.change") == [("weights", "chat_format", "")]
    assert desk.called("replies.answer") == [("r",)]


def test_what_the_banner_says_is_not_said_again(
    window: MainWindow, desk: FakeDesk, bridge: FakeBridge
):
    load(desk, bridge, has_template=False)
    note = "This model has no chat template, so a plain format is used. Replies may run on."
    bridge.emit_event(Noticed("info", note))
    assert window.chat.toasts.cards() == []
