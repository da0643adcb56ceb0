"""Saving the tour of a token as a page: from the action to the file's name, and what is told."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from made_traces import trace_of
from PySide6.QtGui import QDesktopServices
from PySide6.QtWidgets import QDialog, QFileDialog
from recording_desk import FakeBridge, FakeDesk, conversation, message

from app.chat.events import ConversationOpened, PageProgressed, PageSaved, TraceRead
from app.insight.tour.facts import Fact
from models.records import Role
from ui.shell.window import MainWindow
from ui.windows import page_acts


@pytest.fixture
def window(open_window: Callable[..., MainWindow], desk: FakeDesk, bridge: FakeBridge,
           monkeypatch: pytest.MonkeyPatch) -> MainWindow:  # fmt: skip
    monkeypatch.setattr(page_acts, "PATIENCE_MS", 0)
    desk.growing.trace_of = lambda _id: None
    desk.words.of = lambda _hash: None
    made = open_window()
    looking = made.section_acts.looking()
    looking.set_awake(True)
    desk.shelf.path = (
        message(1, Role.USER, "Which city?"),
        message(2, Role.ASSISTANT, "Paris", weights_hash="w1"),
    )
    bridge.emit_event(ConversationOpened(conversation(1, "Chat"), desk.shelf.path))
    bridge.emit_event(TraceRead("m2", trace_of([b" Paris", b"."])))
    return made


def dialog_of(window: MainWindow) -> QFileDialog:
    (dialog,) = window.findChildren(QFileDialog, "page_file_dialog")
    return dialog


def shown(window: MainWindow) -> Any:
    found = window.findChildren(QDialog, "page_progress")
    return next((each for each in found if each.isVisible()), None)


def test_it_is_offered_of_a_token_that_is_looked_at(window: MainWindow) -> None:
    action = window.action_registry["tour_page"]
    looking = window.section_acts.looking()
    looking.select(None)
    assert not action.is_enabled()
    looking.select(0)
    assert action.is_enabled()
    assert action.group == "Help"


def test_where_to_is_asked_and_the_token_of_then_is_saved(
    window: MainWindow, desk: FakeDesk, tmp_path: Path
) -> None:
    looking = window.section_acts.looking()
    looking.select(0)
    window.page_acts.known = lambda: {"step_with": Fact(1.0, "1.00 ms")}
    window.action_registry.run("tour_page")
    dialog = dialog_of(window)
    assert dialog.acceptMode() is QFileDialog.AcceptMode.AcceptSave
    assert dialog.defaultSuffix() == "html"
    assert not dialog.testOption(QFileDialog.Option.DontConfirmOverwrite)
    assert Path(dialog.selectedFiles()[0]).name == "Follow one token Paris.html"
    looking.select(1)
    dialog.filesSelected.emit([str(tmp_path / "page.html")])
    ((wish, path),) = desk.called("pages.save")
    assert path == str(tmp_path / "page.html")
    assert (wish.message.id, wish.index, wish.asked) == ("m2", 0, "Which city?")
    assert wish.known["step_with"].text == "1.00 ms"


def test_a_long_one_says_how_far_it_is_and_can_be_cancelled(
    window: MainWindow, desk: FakeDesk, bridge: FakeBridge, qtbot: Any
) -> None:
    bridge.emit_event(PageProgressed(0, 10))
    bridge.emit_event(PageProgressed(3, 10))
    qtbot.waitUntil(lambda: shown(window) is not None)
    dialog = shown(window)
    assert dialog.words.text() == "Looking inside: 3 of 10"
    dialog.cancel.click()
    assert desk.called("pages.cancel") == [()]
    bridge.emit_event(PageProgressed(10, 10, is_over=True))
    assert shown(window) is None


def test_a_short_one_shows_nothing_of_its_way(
    window: MainWindow, bridge: FakeBridge, qtbot: Any
) -> None:
    bridge.emit_event(PageProgressed(0, 10))
    bridge.emit_event(PageProgressed(10, 10, is_over=True))
    qtbot.wait(1)
    assert shown(window) is None


def test_a_saved_page_can_be_opened_and_found(
    window: MainWindow, bridge: FakeBridge, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []

    def open_url(url: Any) -> bool:
        opened.append(url.toLocalFile())
        return True

    monkeypatch.setattr(QDesktopServices, "openUrl", open_url)
    path = tmp_path / "page.html"
    bridge.emit_event(PageSaved(str(path)))
    (card,) = window.chat.toasts.cards()
    assert card.notice.sentence == "Saved as “page.html”."
    for act in card.notice.acts:
        act.run()
    assert [act.text for act in card.notice.acts] == ["Open", "Show in folder"]
    assert opened == [str(path), str(tmp_path)]


def test_a_page_that_nothing_opens_is_named(
    window: MainWindow, bridge: FakeBridge, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(QDesktopServices, "openUrl", lambda _url: False)
    bridge.emit_event(PageSaved(str(tmp_path / "page.html")))
    (card,) = window.chat.toasts.cards()
    card.notice.acts[0].run()
    (box,) = window.findChildren(QDialog, "not_opened_dialog")
    assert box.windowTitle() == "Open file"
    assert box.informativeText() == str(tmp_path / "page.html")
