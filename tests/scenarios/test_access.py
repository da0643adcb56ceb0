"""The whole window without a mouse and for a screen reader (rows G15, G17, G18).

Names and roles of all that takes the focus, the way of Tab through every window, and a day's
work by keys alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from PySide6.QtCore import QObject, QPoint, Qt
from PySide6.QtGui import QAccessible, QAccessibleInterface, QGuiApplication
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QTabBar, QWidget

from app.chat.events import QueuedMessage
from models.records import Attachment
from ui.settings.rows import SettingRow

Key = Qt.Key
CONTROL = Qt.KeyboardModifier.ControlModifier
SHIFT = Qt.KeyboardModifier.ShiftModifier
TALK: dict[str, Any] = {
    "load": {"ms": 5},
    "replies": [
        {"match": "long", "tokens": [{"text": "again ", "ms": 5, "repeat": 5000}]},
        {"text": "Paris, with a [link](https://example.org).\n\n```python\nprint(1)\n```\n"},
    ],
}
MOST_STEPS = 200


@pytest.fixture
def person(open_window: Any) -> Any:
    person = open_window(TALK)
    person.wait_ready()
    person.window.activateWindow()
    person.wait(person.window.isActiveWindow)
    return person


def opened(person: Any, name: str) -> QWidget:
    """A window beside the main one, or the palette over it."""
    actions = {
        "settings_window": "settings",
        "levels_window": "chat_settings",
        "presets_window": "presets",
        "palette": "palette",
        "trash_window": "open_trash",
        "library_view": "library",
        "defaults in library_view": "weights_defaults",
    }
    if name != "main_window":
        person.window.action_registry.run(actions[name])
    found = name.rpartition(" ")[2]
    window = person.window if name == "main_window" else person.find(QWidget, found)
    assert window.isVisible()
    return window


def interfaces(interface: QAccessibleInterface, depth: int = 0) -> Iterator[Any]:
    """(depth, interface) of all that a screen reader can reach."""
    yield depth, interface
    for place in range(min(interface.childCount(), 300)):
        child = interface.child(place)
        if child is not None and child.isValid() and depth < 20:
            yield from interfaces(child, depth + 1)


def walk(window: QWidget, key: Qt.Key) -> list[QWidget]:
    """Where the key takes the focus until it is where it began."""
    first = window.focusWidget()
    assert first is not None
    seen = [first]
    for _ in range(MOST_STEPS):
        QTest.keyClick(seen[-1], key, SHIFT if key == Key.Key_Backtab else Qt.KeyboardModifier(0))
        focus = window.focusWidget()
        assert focus is not None
        if focus is first:
            return seen
        seen.append(focus)
    names = [widget.objectName() or type(widget).__name__ for widget in seen[-6:]]
    pytest.fail(f"the focus goes round without coming back: … {names}")


WINDOWS = (
    "main_window",
    "settings_window",
    "levels_window",
    "presets_window",
    "trash_window",
    "library_view",
    "defaults in library_view",
)


def test_tab_reaches_all_that_takes_the_focus_and_comes_back(person: Any) -> None:
    person.send("Hello")
    person.wait_ended()
    for name in WINDOWS:  # one after another: opening the program takes longest
        window = opened(person, name)
        start = window.focusWidget()
        assert start is not None
        forth = walk(window, Key.Key_Tab)
        wanted = {
            widget
            for widget in window.findChildren(QWidget)
            if widget.isVisible()
            and widget.isEnabled()
            and widget.focusPolicy() & Qt.FocusPolicy.TabFocus
            and widget.focusProxy() is None
            and widget.window() is window
        }
        missed = {w for w in wanted - set(forth) if not in_group(w, forth)}
        assert {w.objectName() or type(w).__name__ for w in missed} == set(), name
        assert window.focusWidget() is start, name
        back = walk(window, Key.Key_Backtab)
        assert stops(back)[1:] == stops(forth)[:0:-1], name


def test_tab_goes_through_the_composer_as_the_eye_does(person: Any) -> None:
    person.send("Hello")
    person.wait_ended()
    composer = person.window.chat.composer
    when = datetime(2026, 1, 1, tzinfo=UTC)
    composer.set_queue([QueuedMessage("q", "c", "waits")], is_held=True)
    composer.set_attachments([Attachment("a", "c", "notes.txt", "text", 4, when)])
    composer.set_text("What next?")
    composer.focus()
    names = [widget.objectName() for widget in walk(person.window, Key.Key_Tab)]
    assert names[:3] == ["composer", "attach_button", "send_button"]
    rest = names[3:]
    above = rest[rest.index("queued_message") :]
    assert above[-1] == "attachment_chip"
    assert rest.index("transcript") < rest.index("queued_message")
    window_parts = {"new_text_button", "new_chat_button", "transcript"}
    assert not window_parts & set(above), "nothing of the window in between"


def test_tab_goes_from_the_find_bar_to_the_messages_below_it(person: Any) -> None:
    person.send("Hello")
    person.wait_ended()
    person.window.chat.open_find()
    bar = person.window.chat.find_bar()
    bar.field.setText("Hello")
    person.qtbot.waitUntil(lambda: person.window.chat.transcript.finder.count > 0)
    bar.field.setFocus()
    walked = walk(person.window, Key.Key_Tab)
    assert all(bar.isAncestorOf(widget) for widget in walked[:4])
    assert walked[4].objectName() == "transcript"


def stops(walked: list[QWidget]) -> list[QWidget]:
    """Each widget once: messages have places inside. Of choices Qt takes another one backwards."""
    return [w for w in dict.fromkeys(walked) if not in_group(w, [w])]


def in_group(widget: QWidget, reached: list[QWidget]) -> bool:
    """Of exclusive choices Tab reaches the chosen one, the arrows the others."""
    group = getattr(widget, "group", lambda: None)()
    return group is not None and any(button in reached for button in group.buttons())


def test_every_control_has_a_name_and_a_role(person: Any) -> None:
    person.send("Hello")
    person.wait_ended()
    for name in (*WINDOWS, "palette"):
        window = opened(person, name)
        tabs = getattr(window, "tabs", None)
        if name.startswith("defaults"):
            tabs = window.findChild(QTabBar, "defaults_parts")
        nameless: list[str] = []
        dump: list[str] = []
        for page in range(tabs.count() if tabs is not None else 1):
            if tabs is not None:
                tabs.setCurrentIndex(page)
            tell_controls(window, nameless, dump)
        assert nameless == [], "\n".join([name, *dump])
        assert len(dump) > 3, name


def tell_controls(window: QWidget, nameless: list[str], dump: list[str]) -> None:
    """All that a screen reader can reach, and the controls that it could not name."""
    root = QAccessible.queryAccessibleInterface(window)
    assert root is not None
    for depth, each in interfaces(root):
        state, role = each.state(), each.role()
        words = each.text(QAccessible.Text.Name)
        dump.append(f"{'  ' * depth}{role.name} “{words}”")
        is_control = bool(state.focusable) and not state.invisible and not state.disabled
        if is_control and (not words.strip() or role == QAccessible.Role.NoRole):
            found = each.object()
            label = found.objectName() if isinstance(found, QObject) else ""
            nameless.append(f"{role.name} {label or type(found).__name__}")


def test_messages_are_reached_and_read_by_a_screen_reader(person: Any) -> None:
    person.send("Hello there")
    person.wait_ended()
    root = QAccessible.queryAccessibleInterface(person.window)
    assert root is not None
    said = [each.text(QAccessible.Text.Name) for _, each in interfaces(root)]
    assert any("Hello there" in text for text in said)
    assert any("Paris" in text for text in said)


def press(key: Qt.Key, modifiers: Any = Qt.KeyboardModifier.NoModifier) -> None:
    focus = QApplication.focusWidget()
    assert focus is not None, "nothing has the focus"
    QTest.keyClick(focus, key, modifiers)


def type_text(text: str) -> None:
    focus = QApplication.focusWidget()
    assert focus is not None
    QTest.keyClicks(focus, text)


def test_a_days_work_by_keyboard_alone(person: Any) -> None:
    """New chat, send, stop, copy, rename, delete and undo, settings. No click, no focus set."""
    desk, window = person.app.desk, person.window
    press(Key.Key_N, CONTROL)
    type_text("What is the capital?")
    press(Key.Key_Return)
    assert "Paris" in person.wait_ended().content
    type_text("A long one")
    press(Key.Key_Return)
    person.wait_growing(40)
    press(Key.Key_Escape)
    assert person.wait_ended().state == "stopped"

    # Copy the message that the keyboard is on.
    for _ in range(MOST_STEPS):
        if window.chat.transcript.hasFocus():
            break
        press(Key.Key_Tab)
    assert window.chat.transcript.hasFocus()
    press(Key.Key_Home)
    press(Key.Key_C, CONTROL)
    assert "What is the capital?" in QGuiApplication.clipboard().text()

    press(Key.Key_F2)
    type_text("Capitals")
    press(Key.Key_Return)
    person.wait(lambda: desk.shelf.open.title == "Capitals")

    conversation_id = desk.shelf.open.id
    press(Key.Key_Backspace, CONTROL | SHIFT)
    person.wait(lambda: all(each.id != conversation_id for each in desk.shelf.conversations))
    press(Key.Key_Z, CONTROL | Qt.KeyboardModifier.AltModifier)
    person.wait(lambda: desk.shelf.open.id == conversation_id)

    press(Key.Key_K, CONTROL)
    type_text("settings")
    press(Key.Key_Return)
    settings = person.window.settings_window()
    person.wait(settings.isActiveWindow)
    focus = settings.focusWidget()
    assert focus is not None
    QTest.keyClick(focus, Key.Key_Tab)  # from the tabs to the theme
    focus = settings.focusWidget()
    assert focus is not None
    assert focus.accessibleName() == "Theme: System"
    QTest.keyClick(focus, Key.Key_Right)
    assert desk.settings.now.theme == "light"
    QTest.keyClick(focus, Key.Key_Escape)
    assert not settings.isVisible()


def test_focus_is_visible_on_every_stop(person: Any) -> None:
    """Focused or not must look different, on each control that Tab reaches."""
    person.send("Hello")
    person.wait_ended()
    window = person.window
    for widget in walk(window, Key.Key_Tab):
        widget.setFocus(Qt.FocusReason.TabFocusReason)
        with_focus = widget.grab().toImage()
        widget.clearFocus()
        assert widget.grab().toImage() != with_focus, widget.objectName()


def test_zoom_is_there_after_a_restart_and_the_layout_holds(open_window: Any) -> None:
    person = open_window(TALK)
    person.wait_ready()
    person.send("Hello")
    person.wait_ended()
    for _ in range(12):
        person.press(Key.Key_Plus, CONTROL)
    assert person.app.desk.settings.now.zoom_percent == 300
    person.app.close()
    again = open_window(TALK)
    again.wait(lambda: again.window.findChild(QWidget, "transcript"))  # it is painted
    again.wait_ready()
    again.wait(lambda: again.app.desk.shelf.path)
    assert again.window._theme.zoom_percent == 300
    for name in ("composer", "send_button", "transcript"):
        widget = again.find(QWidget, name)
        corner = widget.mapTo(again.window, widget.rect().bottomRight())
        assert again.window.rect().contains(corner), name
        assert widget.width() > 0
        assert widget.height() > 0


@pytest.mark.parametrize("name", ["levels_window", "defaults in library_view"])
def test_tab_goes_through_settings_as_the_eye_does(person: Any, name: str) -> None:
    """Whatever was built first: lists and switches are older than fields."""
    window = opened(person, name)
    rows = [w for w in walk(window, Key.Key_Tab) if isinstance(w.parentWidget(), SettingRow)]
    tops = [row.mapTo(window, QPoint()).y() for row in rows]
    assert len(rows) > 5
    assert tops == sorted(tops)
