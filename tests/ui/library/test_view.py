"""The library's window: its pages, how it is opened and left, and what stands at its foot."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QLineEdit, QWidget
from pytestqt.qtbot import QtBot
from recording_desk import FakeBridge, FakeDesk, loaded
from squeezed import squeezed

from app.chat.events import EngineStateChanged, LoadProgressed, Noticed
from app.gguf.starter import HOW_TO_GET_WEIGHTS
from app.hub.downloads.progress import DownloadProgress
from models.records import DownloadState
from ui.library.view import LibraryView
from ui.look.theme import Theme
from ui.shell.window import MainWindow

SMOL = "SmolLM2 135M (included)"
Key, Held = Qt.Key, Qt.KeyboardModifier


class Bare(LibraryView):
    """The shell with two pages of our own."""

    def _add_pages(self) -> None:
        self.field = QLineEdit(self)
        first, second = QWidget(self), QWidget(self)
        self.field.setParent(first)
        first.setFocusProxy(self.field)
        self.add_page("local", "On this computer", first)
        self.add_page("hub", "Hub", second)
        self.add_page("downloads", "Downloads", QWidget(self))


@pytest.fixture
def view(qtbot: QtBot, desk: FakeDesk, bridge: FakeBridge, theme: Theme) -> Bare:
    made = Bare(desk, bridge, theme)  # type: ignore[arg-type]
    qtbot.addWidget(made)
    made.show_page()
    qtbot.waitUntil(made.isActiveWindow)
    return made


def test_pages_are_turned_by_keys_and_the_field_to_write_in_has_the_focus(view: Bare) -> None:
    assert QApplication.focusWidget() is view.field
    QTest.keyClick(view, Key.Key_Tab, Held.ControlModifier)
    assert view.pages.currentIndex() == view.tabs.currentIndex() == 1
    QTest.keyClick(view, Key.Key_Tab, Held.ControlModifier)
    QTest.keyClick(view, Key.Key_Tab, Held.ControlModifier)
    assert view.pages.currentIndex() == 0
    assert QApplication.focusWidget() is view.field
    view.show_page("hub")
    assert view.pages.currentIndex() == 1
    assert QApplication.focusWidget() is view.tabs  # nothing to write on that page
    QTest.keySequence(view, "Ctrl+Shift+W")
    assert view.pages.currentIndex() == 0
    QTest.keySequence(view, "Ctrl+Alt+H")
    assert view.pages.currentIndex() == 1


@pytest.mark.parametrize("key", ["Esc", "Ctrl+W"])
def test_escape_leaves_it_as_it_was(view: Bare, key: str) -> None:
    view.show_page("hub")
    QTest.keySequence(view, key)
    assert view.isHidden()
    view.show_page()
    assert view.pages.currentIndex() == 1


def test_its_foot_says_what_is_loaded_and_how_far_a_load_is(
    view: Bare, desk: FakeDesk, bridge: FakeBridge
) -> None:
    def tell(state: EngineStateChanged) -> str:
        desk.loader.state = state
        bridge.emit_event(state)
        return view.loaded_label.text()

    assert tell(EngineStateChanged("stopped")) == "No model is loaded."
    assert tell(EngineStateChanged("loading", SMOL)) == "Loading SmolLM2 135M · 0%"
    bridge.emit_event(LoadProgressed(0.42))
    assert view.loaded_label.text() == "Loading SmolLM2 135M · 42%"
    assert view.progress.isVisible()
    view.cancel_button.click()
    assert ("loader.cancel",) in desk.calls
    assert tell(EngineStateChanged("ready", SMOL, loaded())) == "Loaded: SmolLM2 135M · Q4_1 · 4k"
    assert not view.progress.isVisible()
    assert view.chat_button.accessibleName() == "Chat with SmolLM2 135M"
    assert tell(EngineStateChanged("stopped", sentence="Not a GGUF.")) == "Not a GGUF."
    how = EngineStateChanged("stopped", sentence=HOW_TO_GET_WEIGHTS)  # it stands in the chat
    assert tell(how) == "No model is loaded."
    assert view.chat_button.accessibleName() == "Back to chat"


def test_what_is_noticed_is_said_where_it_is_seen(
    view: Bare, desk: FakeDesk, bridge: FakeBridge
) -> None:
    bridge.emit_event(Noticed("error", "The disk is full.", undo="k"))
    (card,) = view.toasts.cards()
    assert card.notice.sentence == "The disk is full."
    card.notice.acts[0].run()
    assert ("shelf.undo", "k") in desk.calls
    assert view.toasts.cards() == []
    desk.loader.state = EngineStateChanged("ready", SMOL, loaded(notes=["All on the CPU."]))
    bridge.emit_event(Noticed("info", "All on the CPU."))  # stands with the weights
    assert view.toasts.cards() == []
    view.close()
    bridge.emit_event(Noticed("error", "The disk is full."))
    assert view.toasts.cards() == []


def test_how_many_downloads_are_on_their_way_is_seen_from_every_page(view: Bare) -> None:
    def titles(*states: DownloadState) -> str:
        made = (progress(each) for each in states)
        view._on_downloads(tuple(made))
        return view.tabs.tabText(2)

    state = DownloadState
    assert titles() == "Downloads"
    assert titles(state.DONE, state.RUNNING, state.WAITING, state.PAUSED) == "Downloads (2)"
    assert titles(state.DONE, state.PAUSED) == "Downloads"


def progress(state: DownloadState) -> DownloadProgress:
    when = datetime(2026, 11, 28, tzinfo=UTC)
    return DownloadProgress("d", "ana/x", "x.gguf", "/w", "/w/x.gguf", 1, 10, 5, state, when)


def test_chat_goes_back_to_the_chat(view: Bare, qtbot: QtBot) -> None:
    with qtbot.waitSignal(view.chat_requested):
        view.chat_button.click()
    assert view.isHidden()


@pytest.mark.parametrize("percent", [100, 200, 300])
def test_its_own_parts_have_room_at_any_zoom(view: Bare, theme: Theme, percent: int) -> None:
    theme.set_zoom(percent)
    view.resize(880, 560)
    QApplication.processEvents()
    assert squeezed(view) == []
    assert view.size().toTuple() == (880, 560)
    assert view.chat_button.isVisible() == (percent < 200)  # the page needs the room more


@pytest.fixture
def no_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """They ask a real desk."""
    monkeypatch.setattr(LibraryView, "_add_pages", lambda _: None)


@pytest.mark.usefixtures("no_pages")
def test_it_opens_from_the_keys_the_menu_and_the_empty_state(
    open_window: Callable[..., MainWindow], qtbot: QtBot
) -> None:
    window = open_window()

    def opened() -> LibraryView:
        found = window.findChild(LibraryView, "library_view")
        assert found is not None
        qtbot.waitUntil(found.isVisible)
        return found

    QTest.keySequence(window, "Ctrl+Shift+W")
    view = opened()
    view.close()
    menu = window.chat.header.menu
    menu.aboutToShow.emit()
    next(a for a in menu.actions() if a.text().startswith("Library")).trigger()
    opened().close()
    window.chat.empty.library_button.click()
    assert opened() is view
    view.chat_button.click()
    assert window.chat.composer.isAncestorOf(QApplication.focusWidget() or window)
    assert {"library", "hub", "downloads"} <= {each.name for each in window.action_registry}


@pytest.mark.usefixtures("no_pages")
def test_it_closes_with_the_window(open_window: Callable[..., MainWindow]) -> None:
    window = open_window()
    window.lazy.show_library()
    view = window.findChild(LibraryView, "library_view")
    assert view is not None
    window.close()
    assert view.isHidden()
