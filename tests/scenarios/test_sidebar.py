"""Order among chats: folders, archive, several at once, finding again, and random keys."""

from __future__ import annotations

import random
from typing import Any

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import (
    QApplication,
    QDialog,
    QFileDialog,
    QLineEdit,
    QMenu,
    QMessageBox,
    QWidget,
)
from store_records import a_conversation, a_message

from models.records import Role

QUICK: dict[str, Any] = {"load": {"ms": 10}, "replies": [{"text": "It rains in Paris."}]}
Key = Qt.Key
CONTROL, SHIFT = Qt.KeyboardModifier.ControlModifier, Qt.KeyboardModifier.ShiftModifier


@pytest.fixture
def person(open_window: Any) -> Any:
    made = open_window(QUICK)
    made.wait_ready()
    return made


def store_of(person: Any) -> Any:
    return person.app.desk.around.store


def put(person: Any, *titles: str) -> list[str]:
    """Chats of a former run, each with a question and an answer; their ids, newest first."""
    store, made = store_of(person), []
    for title in titles:
        conversation = store.create_conversation(a_conversation(title=title)).result()
        question = a_message(conversation, content=f"About {title}")
        store.append_message(question).result()
        answer = a_message(conversation, question, content="So it is.", role=Role.ASSISTANT)
        store.append_message(answer).result()
        made.append(conversation.id)
    person.app.desk.shelf.show_list(store.list_conversations().result())
    return made[::-1]


def press(widget: QWidget, *keys: Any) -> None:
    for key in keys:
        pair = key if isinstance(key, tuple) else (key, Qt.KeyboardModifier.NoModifier)
        QTest.keyClick(widget, *pair)


def test_folders_without_the_mouse(person: Any) -> None:
    """Make a folder, move three chats into it, delete it, take that back."""
    desk, sidebar = person.app.desk, person.window.sidebar
    ids = put(person, "one", "two", "three", "four")
    press(person.window, (Key.Key_G, CONTROL | SHIFT))
    field = person.wait(lambda: sidebar.view.findChild(QLineEdit, "rename_field"))
    QTest.keyClicks(field, "Work")
    press(field, Key.Key_Return)
    person.wait(lambda: [f.name for f in desk.folders.all] == ["Work"])

    sidebar.view.go_to(sidebar._model.index_of(ids[0]))
    sidebar.view.setFocus()
    press(sidebar.view, (Key.Key_Down, SHIFT), (Key.Key_Down, SHIFT))
    press(sidebar.view, (Key.Key_M, CONTROL | SHIFT))
    dialog = person.wait(lambda: sidebar.findChild(QDialog, "folder_dialog"))
    press(dialog.field, Key.Key_Down, Key.Key_Return)
    work = desk.folders.all[0].id
    person.wait(lambda: sum(c.folder_id == work for c in desk.shelf.conversations) == 3)

    sidebar.view.choose_only_current()
    sidebar.view.go_to(sidebar._model.folder_index(work))
    press(sidebar.view, Key.Key_Delete)
    assert desk.folders.all == ()
    assert {c.folder_id for c in desk.shelf.conversations} == {None}
    assert any("was deleted" in c.notice.sentence for c in cards(person))
    press(sidebar.view, (Key.Key_Z, CONTROL))
    person.wait(lambda: sum(c.folder_id == work for c in desk.shelf.conversations) == 3)


def cards(person: Any) -> list[Any]:
    return list(person.window.chat.toasts.cards())


def test_several_go_to_the_archive_and_one_comes_back(person: Any) -> None:
    desk, sidebar = person.app.desk, person.window.sidebar
    ids = put(person, "one", "two", "three")
    sidebar.view.go_to(sidebar._model.index_of(ids[0]))
    sidebar.view.setFocus()
    press(sidebar.view, (Key.Key_Down, SHIFT), (Key.Key_E, CONTROL | SHIFT))
    person.wait(lambda: sum(c.is_archived for c in desk.shelf.conversations) == 2)
    assert [r for r in ids if sidebar._model.index_of(r).isValid()] == ids[2:]
    press(person.window, (Key.Key_H, CONTROL | SHIFT))
    assert sidebar.back_button.isVisible()
    sidebar.view.go_to(sidebar._model.index_of(ids[1]))
    press(sidebar.view, (Key.Key_E, CONTROL | SHIFT))
    person.wait(lambda: [c.id for c in desk.shelf.conversations if c.is_archived] == ids[:1])


def test_a_word_leads_to_the_message_on_another_branch(person: Any) -> None:
    """Typed into the field, found, and shown with its branch, although another was on screen."""
    store, desk, sidebar = store_of(person), person.app.desk, person.window.sidebar
    conversation = store.create_conversation(a_conversation(title="Weather")).result()
    root = store.append_message(a_message(conversation, content="Tell me")).result()
    old = store.append_message(
        a_message(conversation, root, content="It is very foggy", role=Role.ASSISTANT)
    ).result()
    store.append_message(
        a_message(conversation, root, content="It is sunny", role=Role.ASSISTANT)
    ).result()
    desk.shelf.show_list(store.list_conversations().result())
    desk.shelf.open_stored(conversation.id)
    person.wait(lambda: [m.content for m in desk.shelf.path] == ["Tell me", "It is sunny"])

    press(person.window, (Key.Key_F, CONTROL | SHIFT))
    person.wait(sidebar.search_field.hasFocus)
    QTest.keyClicks(sidebar.search_field, '"very fog')
    person.wait(lambda: sidebar.results.isVisible() and sidebar.results.model().rowCount() == 1)
    press(sidebar.search_field, Key.Key_Down, Key.Key_Return)
    press(sidebar.results, Key.Key_Return)
    person.wait(lambda: [m.id for m in desk.shelf.path] == [root.id, old.id])
    rows = person.window.chat.transcript.rows
    person.wait(lambda: rows.index_of(old.id) is not None)
    press(sidebar.results, Key.Key_Escape)
    press(sidebar.search_field, Key.Key_Escape)
    assert sidebar.view.isVisible()


def test_many_to_the_trash_and_back_by_one_key(person: Any) -> None:
    desk, sidebar = person.app.desk, person.window.sidebar
    ids = put(person, "one", "two", "three")
    sidebar.view.go_to(sidebar._model.index_of(ids[0]))
    sidebar.view.setFocus()
    press(sidebar.view, (Key.Key_Down, SHIFT), Key.Key_Delete)
    person.wait(lambda: [c.id for c in desk.shelf.conversations] == ids[2:])
    person.wait(lambda: any("2 chats" in c.notice.sentence for c in cards(person)))
    press(sidebar.view, (Key.Key_Z, CONTROL))
    person.wait(lambda: {c.id for c in desk.shelf.conversations} == set(ids))


@pytest.mark.parametrize(
    ("n_keys", "seed"),
    [(100, 5), *(pytest.param(500, n, marks=pytest.mark.soak) for n in range(6))],
)
def test_random_keys_in_the_sidebar_lose_nothing(person: Any, n_keys: int, seed: int) -> None:
    """Case F09: a cat on the keyboard, for two seconds or ten. All that was there is there, or in
    the trash, from where it can be brought back."""
    desk, sidebar = person.app.desk, person.window.sidebar
    ids = put(person, *(f"chat {number}" for number in range(30)))
    store = store_of(person)
    paths = [store.load_conversation(each).result()[1] for each in ids]
    before = {message.id: message.content for path in paths for message in path}
    folder = desk.folders.create("Work")
    desk.folders.move_chats(ids[:10], folder)
    sidebar.view.setFocus()
    dice = random.Random(seed)
    keys = [
        *(Key.Key_Backspace, Key.Key_Delete, Key.Key_Up, Key.Key_Down, Key.Key_Left),
        *(Key.Key_Right, Key.Key_Space, Key.Key_Return, Key.Key_F2, Key.Key_Escape, Key.Key_Tab),
        *(Key.Key_Home, Key.Key_End, Key.Key_A, Key.Key_PageDown, Key.Key_Z, Key.Key_E, Key.Key_M),
    ]
    modifiers = [Qt.KeyboardModifier.NoModifier] * 4 + [SHIFT, CONTROL]
    for count in range(n_keys):
        strike(person, dice.choice(keys), dice.choice(modifiers))
        if isinstance(dialog := QApplication.activeModalWidget(), QFileDialog):
            dialog.close()  # the system's, not ours; Qt's own waits in a loop for an answer
        if count % 50 == 49:
            close_what_is_open(person)
            sidebar.view.setFocus()
    close_what_is_open(person)
    kept = {c.id for c in store.list_conversations().result()}
    trashed = {c.id for c in store.list_trash().result()}
    assert kept | trashed >= set(ids)
    for message_id, content in before.items():
        assert store.load_message(message_id).result().content == content
    desk.folders.restore(trashed)
    person.wait(lambda: {c.id for c in desk.shelf.conversations} >= set(ids))


def strike(person: Any, key: Qt.Key, modifier: Qt.KeyboardModifier) -> None:
    """As the system does: each half of a key's stroke, and of the modifier's around it, goes to
    the window that has the keyboard by then.

    Not `QTest.keyPress` and `keyRelease` with a modifier: they send two events to one window, and
    crash where the first one closed it for good (a menu, a dialog).
    """
    nothing = Qt.KeyboardModifier.NoModifier
    letter = chr(key) if key < 0x80 and modifier != CONTROL else ""
    text = letter if modifier == SHIFT else letter.lower()
    held = {SHIFT: Key.Key_Shift, CONTROL: Key.Key_Control}.get(modifier)
    strokes = [(True, key, modifier, text), (False, key, modifier, text)]
    if held is not None:
        strokes = [(True, held, nothing, ""), *strokes, (False, held, modifier, "")]
    for is_press, code, mods, typed in strokes:
        window = QApplication.focusWindow() or person.window.windowHandle()
        QTest.simulateEvent(window, is_press, code, mods, typed, False)
        QApplication.processEvents()


def close_what_is_open(person: Any) -> None:
    # Open lists first, as for a person: nobody can close a dialog beneath its open list.
    while popup := QApplication.activePopupWidget():
        popup.close()
    for window in QApplication.topLevelWidgets():
        if window is not person.window and window.isVisible():
            window.close()
    for kind in (QDialog, QMenu, QMessageBox):
        for each in person.window.findChildren(kind):
            each.close()
    person.window.activateWindow()
