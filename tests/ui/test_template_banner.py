"""The banner of weights without a chat template (row A01)."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from PySide6.QtWidgets import QPushButton
from recording_desk import FakeBridge, FakeDesk, loaded

from app.chat.events import EngineStateChanged, LevelsChanged, Noticed
from app.chat.resolved import Resolved
from app.chat.settings import Settings
from ui.library.view import LibraryView
from ui.template_banner import KEY, SENTENCE, TemplateBanner
from ui.window import MainWindow


@pytest.fixture
def window(open_window: Callable[..., MainWindow], desk: FakeDesk) -> MainWindow:
    desk.resolved_settings = lambda message=None: Resolved(desk.settings, {})
    return open_window()


def load(desk: FakeDesk, bridge: FakeBridge, *, has_template: bool) -> None:
    desk.engine_state = EngineStateChanged("ready", "Some", loaded(has_template=has_template))
    bridge.engine_state_changed.emit(desk.engine_state)


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
    assert desk.called("set_at_level") == [("weights", "chat_format", "chatml")]

    desk.settings = Settings(chat_format="chatml")
    bridge.levels_changed.emit(LevelsChanged("weights"))
    assert window.chat.banners.card(KEY) is None


def test_a_template_of_ones_own_is_written_among_the_defaults(
    window: MainWindow, desk: FakeDesk, bridge: FakeBridge, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(LibraryView, "_add_pages", lambda _: None)  # they ask a real desk
    shown: list[tuple[str, str]] = []
    monkeypatch.setattr(window.lazy._library_view(), "show_defaults", lambda *of: shown.append(of))
    desk.weights_path = "/weights/base.gguf"
    load(desk, bridge, has_template=False)
    banner = window.findChild(TemplateBanner)
    assert banner is not None

    def choose_own() -> None:
        menu = banner.choose()
        next(a for a in menu.actions() if a.objectName() == "own").trigger()
        menu.close()

    choose_own()
    assert shown == [("/weights/base.gguf", "template")]
    desk.settings = Settings(chat_format="own")  # nothing is written yet
    bridge.levels_changed.emit(LevelsChanged("weights"))
    assert window.chat.banners.card(KEY) is not None
    desk.settings = Settings(chat_format="own", chat_template="{{ 1 }}")
    bridge.levels_changed.emit(LevelsChanged("weights"))
    assert window.chat.banners.card(KEY) is None
    choose_own()
    assert desk.called("set_at_level") == [("weights", "chat_format", "own")]


def test_weights_with_a_template_have_no_banner(
    window: MainWindow, desk: FakeDesk, bridge: FakeBridge
):
    load(desk, bridge, has_template=False)
    load(desk, bridge, has_template=True)
    assert window.chat.banners.card(KEY) is None


def test_what_the_banner_says_is_not_said_again(
    window: MainWindow, desk: FakeDesk, bridge: FakeBridge
):
    load(desk, bridge, has_template=False)
    note = "This file has no chat template, so a plain format is used. Replies may run on."
    bridge.noticed.emit(Noticed("info", note))
    assert window.chat.toasts.cards() == []
