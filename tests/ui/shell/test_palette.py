"""The command palette and the list of keys in the window: found, done, closed, spoken."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QAccessible
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication
from recording_desk import FakeDesk, conversation

from app.chat.engines.engines import Standing
from app.engine.protocol.remote_messages import EngineAddress, EngineOffer, RemoteModel
from models.records import Weights
from ui.look.theme import Theme
from ui.shell.palette import ROW_PX, Palette
from ui.shell.palette_rows import ALSO
from ui.shell.window import MainWindow

Key = Qt.Key
CONTROL = Qt.KeyboardModifier.ControlModifier


@pytest.fixture
def window(open_window: Callable[..., MainWindow], desk: FakeDesk) -> MainWindow:
    desk.shelf.conversations = (
        conversation(1, "Trip to Paris"),
        conversation(2, "Quicksort explained"),
    )
    return open_window()


def press(key: Qt.Key, modifiers: Qt.KeyboardModifier = Qt.KeyboardModifier.NoModifier) -> None:
    focus = QApplication.focusWidget()
    assert focus is not None
    QTest.keyClick(focus, key, modifiers)


def opened(window: MainWindow) -> Palette:
    press(Key.Key_K, CONTROL)
    palette = window.findChild(Palette)
    assert palette is not None
    assert palette.isVisible()
    assert palette.field.hasFocus()
    return palette


def shown(palette: Palette) -> list[str]:
    return [row.title for row in palette.model.rows]


def chosen(palette: Palette) -> str:
    return str(palette.view.currentIndex().data())


def test_it_is_not_built_before_it_is_asked_for(window: MainWindow) -> None:
    assert window.findChild(Palette) is None


def test_a_name_and_return_do_it(window: MainWindow, desk: FakeDesk) -> None:
    palette = opened(window)
    QTest.keyClicks(palette.field, "newch")
    assert chosen(palette) == "New chat"
    press(Key.Key_Return)
    assert desk.called("shelf.open_new") == [()]
    assert not palette.isVisible()
    assert window.chat.composer.isAncestorOf(QApplication.focusWidget())  # type: ignore[arg-type]


def test_a_chat_is_opened_by_its_title(window: MainWindow, desk: FakeDesk) -> None:
    palette = opened(window)
    QTest.keyClicks(palette.field, "quicks")
    assert chosen(palette) == "Quicksort explained"
    press(Key.Key_Return)
    assert desk.called("shelf.open_stored") == [("c2",)]


def test_escape_gives_the_focus_back_and_does_nothing(window: MainWindow, desk: FakeDesk) -> None:
    window.sidebar.view.setFocus()
    before, calls = QApplication.focusWidget(), len(desk.calls)
    palette = opened(window)
    press(Key.Key_Escape)
    assert not palette.isVisible()
    assert QApplication.focusWidget() is before
    assert desk.calls[calls:] == []


def test_the_focus_comes_back_where_qt_was_late_to_know_of_it(
    window: MainWindow, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As under X where keys arrive before the window's activation does."""
    before = window.focusWidget()
    with monkeypatch.context() as late:
        late.setattr(QApplication, "focusWidget", lambda: None)
        window.action_registry.run("palette")
    press(Key.Key_Escape)
    assert QApplication.focusWidget() is before


def test_a_click_elsewhere_closes_it(window: MainWindow) -> None:
    palette = opened(window)
    viewport = window.chat.transcript.viewport()
    none = Qt.KeyboardModifier.NoModifier
    QTest.mouseClick(viewport, Qt.MouseButton.LeftButton, none, viewport.rect().bottomLeft())
    assert not palette.isVisible()


def test_a_click_on_a_row_does_it(window: MainWindow, desk: FakeDesk) -> None:
    palette = opened(window)
    place = palette.view.visualRect(palette.model.index(0, 0)).center()
    QTest.mouseClick(
        palette.view.viewport(), Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier, place
    )
    assert desk.called("shelf.open_new") == [()]


def test_arrows_and_tab_move_and_go_round(window: MainWindow) -> None:
    palette = opened(window)
    first = chosen(palette)
    press(Key.Key_Down)
    second = chosen(palette)
    assert second != first
    press(Key.Key_Tab)
    assert chosen(palette) not in (first, second)
    press(Key.Key_Up)
    press(Key.Key_Up)
    assert chosen(palette) == first
    press(Key.Key_Up)
    assert chosen(palette) == shown(palette)[-1]


def test_what_fits_nothing_says_so(window: MainWindow, desk: FakeDesk) -> None:
    palette = opened(window)
    QTest.keyClicks(palette.field, "xqzj")
    assert shown(palette) == []
    assert palette.words.isVisible()
    calls = len(desk.calls)
    press(Key.Key_Return)
    assert palette.isVisible()
    assert desk.calls[calls:] == []


def test_what_cannot_be_done_now_is_not_done(window: MainWindow, desk: FakeDesk) -> None:
    palette = opened(window)
    QTest.keyClicks(palette.field, "unload")
    assert chosen(palette) == "Unload the model"
    press(Key.Key_Return)
    assert desk.called("loader.unload") == []


def test_chosen_row_is_said_with_its_key(window: MainWindow) -> None:
    palette = opened(window)
    QTest.keyClicks(palette.field, "newch")
    interface = QAccessible.queryAccessibleInterface(palette.field)
    assert interface is not None
    assert interface.text(QAccessible.Text.Name) == "Command palette"
    assert "New chat" in interface.text(QAccessible.Text.Description)
    assert "Ctrl+N" in interface.text(QAccessible.Text.Description)


def test_no_row_is_cut_at_the_end_of_the_list(window: MainWindow, theme: Theme) -> None:
    window.resize(900, 601)
    palette = opened(window)
    assert palette.view.height() % theme.px(ROW_PX) == 0


def test_keys_are_listed_by_group(window: MainWindow) -> None:
    press(Key.Key_Slash, CONTROL)
    palette = window.findChild(Palette)
    assert palette is not None
    rows = palette.model.rows
    assert [row.title for row in rows if row.is_heading][:1] == ["Chat"]
    listed = {row.title: row.key for row in rows}
    assert listed["New chat"] == "Ctrl+N"
    assert listed["Zoom in"].split(" · ")[:2] == ["Ctrl++", "Ctrl+="]
    assert not palette.model.rows[palette.view.currentIndex().row()].is_heading


FOUND_BY = (
    ("load model", "Open a model (GGUF file)"),
    ("gpu", "Model defaults"),
    ("temperature", "Chat settings"),
    ("system prompt", "Chat settings"),
    ("dark mode", "Theme: dark"),
    ("delete chat", "Move this chat to the trash"),
    ("fork", "Branch to a new chat"),
    ("duplicate", "Branch to a new chat"),
    ("regenerate", "Regenerate the reply"),
    ("download", "Model downloads"),
    ("full screen", "Full screen"),
    ("fullscreen", "Full screen"),
    ("maximize", "Full screen"),
    ("help", "Follow one token: the tour"),
    ("tutorial", "Follow one token: the tour"),
    ("guide", "Follow one token: the tour"),
    ("getting started", "Follow one token: the tour"),
    ("learn", "Follow one token: the tour"),
    ("how it works", "Follow one token: the tour"),
)


def test_words_that_people_type_find_what_does_it(window: MainWindow) -> None:
    palette = opened(window)
    for query, title in FOUND_BY:
        palette.field.clear()
        QTest.keyClicks(palette.field, query)
        assert title in [row.title for row in palette.model.rows[:3]], query


def test_no_other_word_is_of_an_action_that_is_gone(window: MainWindow) -> None:
    assert set(ALSO) <= {action.name for action in window.action_registry}


def test_every_action_has_a_key_of_its_own_and_is_listed(window: MainWindow) -> None:
    actions = list(window.action_registry)
    assert window.action_registry.collisions == []
    chapters = [action.title for action in actions if not action.keys]
    others = [title for title in chapters if not title.startswith("Tour: ")]
    assert others == [], "they are in its card"
    press(Key.Key_Slash, CONTROL)
    palette = window.findChild(Palette)
    assert palette is not None
    listed = {action.title for action in actions if action.keys}
    assert listed <= set(shown(palette))


@pytest.mark.parametrize("size", [(480, 400), (1180, 780)])
def test_it_stays_inside_the_window(
    window: MainWindow, desk: FakeDesk, size: tuple[int, int]
) -> None:
    for zoom in (80, 100, 200, 300):
        desk.settings.set("zoom_percent", zoom)
        window.resize(*size)
        palette = opened(window)
        assert window.rect().contains(palette.geometry()), zoom
        assert palette.view.height() >= palette.view.sizeHintForRow(0), zoom
        press(Key.Key_Escape)


def test_a_model_is_loaded_by_its_name_here_and_on_a_server(
    window: MainWindow, desk: FakeDesk
) -> None:
    desk.weights.append(Weights("/here/small.gguf", "Small (included)", 98_000_000))
    offer = EngineOffer("e1", "Box", "vllm", "", [RemoteModel("org/large")])
    address = EngineAddress("e1", "Box", "http://box.example.org/v1")
    desk.engines.all = (Standing(address, offer=offer),)
    for typed, title, path in (
        ("load small", "Load Small", "/here/small.gguf"),
        ("org/lar", "Load org/large", "engine://e1/org/large"),
    ):
        palette = opened(window)
        QTest.keyClicks(palette.field, typed)
        assert chosen(palette) == title
        press(Key.Key_Return)
        assert desk.called("loader.load")[-1] == (path,)
    assert desk.called("engines.look")
