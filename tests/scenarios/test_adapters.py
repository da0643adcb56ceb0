"""Adapters in the whole window: a control vector is made, used, slid, compared, run again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from made_adapters import write_vector
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QFileDialog, QMenu

from ui.section.sampling.adapters_room import AdaptersRoom
from ui.settings.adapter_field import AdapterField, AdapterRow
from ui.settings.levels_window import LevelsWindow
from ui.windows.vectors_window import VectorsWindow

Key = Qt.Key
CONTROL = Qt.KeyboardModifier.ControlModifier
ALT = Qt.KeyboardModifier.AltModifier
SHIFT = Qt.KeyboardModifier.ShiftModifier
TALK: dict[str, Any] = {
    "load": {"ms": 1},
    "inside": {"ms": 4, "chunks": 2},
    "replies": [{"text": "Fine, thank you."}],
    "loop": True,
}


@pytest.fixture
def person(open_window: Any) -> Any:
    person = open_window(TALK)
    person.wait_ready()
    return person


def bench_of(person: Any) -> VectorsWindow:
    person.press(Key.Key_V, CONTROL | ALT)
    window = person.find(VectorsWindow, "vectors_window")
    person.wait(window.isVisible)
    return window


def come_back(person: Any) -> None:
    """To the chat: keys work in the window that is active."""
    person.app.window.activateWindow()
    person.wait(person.app.window.isActiveWindow)


def room_of(person: Any) -> AdaptersRoom:
    come_back(person)
    person.press(Key.Key_L, CONTROL | ALT)
    room = person.find(AdaptersRoom, "adapters_room")
    person.wait(room.isVisible)
    return room


def make(person: Any, window: VectorsWindow, name: str = "Calm") -> None:
    for field, text in zip(window.examples, ("Be calm.\nBe still.", "Be wild."), strict=True):
        field.setPlainText(text)
    window.name_field.setFocus()
    QTest.keyClicks(window.name_field, name)
    QTest.keyClick(window.make_button, Key.Key_Space)
    person.wait(lambda: window.list.count() == 1)


def rows_of(field: AdapterField) -> list[AdapterRow]:
    return [row for row in field.rows if row.isVisibleTo(field)]


def chat_vectors(person: Any) -> Any:
    return person.app.desk.levels.resolved().settings.control_vectors


def test_one_is_made_used_and_slid_without_a_reload(person: Any) -> None:
    desk, window = person.app.desk, bench_of(person)
    assert window.pages.currentIndex() == 0
    make(person, window)
    assert window.pages.currentIndex() == 1
    assert "2 and 1 examples" in window.facts.text()
    assert "100%" in window.separation.accessibleName()
    forms = [window.name_field.text(), *(field.toPlainText() for field in window.examples)]
    assert forms == ["", "", ""], "the next one begins anew"
    QTest.keyClick(window.use_button, Key.Key_Space)
    assert not window.isVisible()
    room = room_of(person)
    field = room.fields["control_vectors"]
    (row,) = person.wait(lambda: rows_of(field))
    assert row.name.text() == "Calm"
    loads = person.app.desk.loader.choice
    row.slider.setFocus()
    for _ in range(4):
        QTest.keyClick(row.slider, Key.Key_Right)
    person.wait(lambda: chat_vectors(person)[0].scale == 1.2)
    for layer, text in zip(row.layers, ("1", "2"), strict=True):
        layer.setFocus()
        QTest.keyClicks(layer, text)
        QTest.keyClick(layer, Key.Key_Return)
    assert [(v.first, v.last) for v in chat_vectors(person)] == [(1, 2)]
    person.send("Hello")
    person.wait(lambda: len(desk.shelf.path) == 2 and not desk.replies.is_generating)
    (used,) = desk.shelf.path[-1].settings["control_vectors"]
    assert (used["scale"], used["first"], used["last"], len(used["hash"])) == (1.2, 1, 2, 32)
    assert desk.loader.choice == loads, "nothing was loaded again"
    person.press(Key.Key_Period, CONTROL | SHIFT)
    levels = person.find(LevelsWindow, "levels_window")
    person.wait(levels.isVisible)
    shown = levels.findChild(AdapterField, "setting_control_vectors")
    assert shown is not None
    (named,) = person.wait(lambda: rows_of(shown))
    assert named.hash.text() == f"Content {used['hash'][:12]}"
    assert Path(used["path"]).stem == named.name.text()
    levels.close()
    QTest.keyClick(room.resets["control_vectors"], Key.Key_Space)
    assert chat_vectors(person) == ()
    assert not rows_of(field)
    assert not room.compare.isEnabled()


def test_with_and_without_stand_side_by_side(person: Any) -> None:
    desk = person.app.desk
    make(person, window := bench_of(person))
    QTest.keyClick(window.use_button, Key.Key_Space)
    person.send("Hello")
    person.wait(lambda: len(desk.shelf.path) == 2 and not desk.replies.is_generating)
    come_back(person)
    person.press(Key.Key_O, CONTROL | ALT)
    store, first = desk.around.store, desk.shelf.path[-1].id

    def versions() -> list[Any]:
        return list(store.siblings(first).result(20))

    person.wait(lambda: len(versions()) == 3 and not desk.replies.is_generating)
    names = [version.settings.get("preset_name") for version in versions()]
    assert names == [None, "Without adapters", "Calm × 1"]


def test_a_file_is_chosen_and_one_that_is_gone_is_named(person: Any, tmp_path: Path) -> None:
    desk, room = person.app.desk, room_of(person)
    path = tmp_path / "kind.gguf"
    write_vector(path, 4, 32)
    field = room.fields["control_vectors"]
    QTest.keyClick(field.add_button, Key.Key_Space)
    dialog = person.find(QFileDialog, "gguf_dialog")
    dialog.fileSelected.emit(str(path))
    dialog.reject()
    assert [v.path for v in chat_vectors(person)] == [str(path)]
    (row,) = person.wait(lambda: rows_of(field))
    assert (row.name.text(), row.toolTip()) == ("kind", str(path))
    path.unlink()
    person.send("Hello")
    person.wait(lambda: desk.shelf.path[-1].state == "failed")
    assert "kind.gguf” no longer exists" in (desk.shelf.path[-1].error or "")
    QTest.keyClick(row.remove, Key.Key_Space)
    assert chat_vectors(person) == ()


def test_files_of_one_name_are_told_apart_and_tab_goes_as_the_eye(
    person: Any, tmp_path: Path
) -> None:
    room = room_of(person)
    field = room.fields["control_vectors"]
    for folder in ("old", "new"):
        path = tmp_path / folder / "kind.gguf"
        path.parent.mkdir()
        write_vector(path, 4, 32)
        field.add(str(path))
    first, second = person.wait(lambda: rows_of(field))
    assert [row.name.text() for row in (first, second)] == ["kind (old)", "kind (new)"]
    assert second.scale.accessibleName() == "Scale of control vector kind (new)"
    stops = [*first.stops, *second.stops, field.add_button, room.resets["control_vectors"]]
    stops[0].setFocus()
    for stop in stops[1:]:
        QTest.keyClick(person.app.window.focusWidget(), Key.Key_Tab)
        assert person.app.window.focusWidget() is stop


def test_those_made_here_are_offered(person: Any) -> None:
    make(person, window := bench_of(person))
    window.close()
    room = room_of(person)
    field = room.fields["control_vectors"]
    person.wait(lambda: bool(field._offer()))
    QTest.keyClick(field.add_button, Key.Key_Space)
    menu = field.findChild(QMenu, "adapter_menu")
    assert menu is not None
    assert [action.text() for action in menu.actions()] == ["Calm", "", "Choose a file…"]
    menu.actions()[0].trigger()
    menu.close()
    assert len(chat_vectors(person)) == 1


def test_the_list_is_renamed_deleted_and_brought_back(person: Any) -> None:
    make(person, window := bench_of(person))
    window.rename_field.setText("Serene")
    QTest.keyClick(window.rename_field, Key.Key_Return)
    assert window.list.item(0).text() == "Serene"
    window.list.setFocus()
    QTest.keyClick(window.list, Key.Key_Delete)
    assert window.list.count() == 0
    assert window.pages.currentIndex() == 0
    undo = [key for key in person.app.desk.shelf._undo if key.startswith("vector ")]
    person.app.desk.shelf.undo(undo[0])
    assert window.list.item(0).text() == "Serene"


def test_what_cannot_be_made_is_said_in_the_form(person: Any) -> None:
    window = bench_of(person)
    QTest.keyClick(window.make_button, Key.Key_Space)
    assert "name" in window.words.text()
    window.name_field.setText("x")
    QTest.keyClick(window.make_button, Key.Key_Space)
    assert "at least one example" in window.words.text()
    assert window.make_button.isEnabled()
    assert not window.stop_button.isVisible()


def test_what_is_typed_counts_for_the_chat_where_it_was_typed(person: Any, tmp_path: Path) -> None:
    """Another chat is opened before the keys have rested."""
    desk, room = person.app.desk, room_of(person)
    path, field = tmp_path / "kind.gguf", room.fields["control_vectors"]
    write_vector(path, 4, 32)
    person.send("First")
    first = person.wait_ended().conversation_id
    field.add(str(path))
    (row,) = person.wait(lambda: rows_of(field))
    row.scale.setFocus()
    row.scale.selectAll()
    QTest.keyClicks(row.scale, "50")
    row.slider.setSliderDown(True)
    row.slider.setSliderDown(False)
    for step in range(2):
        person.press(Key.Key_N, CONTROL)
        person.wait(lambda: desk.shelf.open.id != first)
        assert chat_vectors(person) == ()
        field.add(str(path))
        assert [vector.scale for vector in chat_vectors(person)] == [1.0]
        (row,) = person.wait(lambda: rows_of(field))
        assert row.scale.text() == "1"
        desk.shelf.open_stored(first)
        person.wait(lambda: desk.shelf.open.id == first)
        assert [vector.scale for vector in chat_vectors(person)] == [(50.0, -4.0)[step]]
        (row,) = person.wait(lambda: rows_of(field))
        row.slider.setFocus()
        QTest.keyClick(row.slider, Key.Key_Home)


@pytest.mark.parametrize("zoom", [pytest.param(100, marks=pytest.mark.soak), 200])
def test_nothing_is_cut_off_in_a_small_window(person: Any, zoom: int) -> None:
    person.app.desk.settings.set("zoom_percent", zoom)
    person.app.window.resize(900, 600)
    window = bench_of(person)
    assert window.minimumSizeHint().width() <= 900
    make(person, window)
    QTest.keyClick(window.use_button, Key.Key_Space)
    room = room_of(person)
    body = room.area.body
    assert body.minimumSizeHint().width() <= room.area.viewport().width()
    (row,) = person.wait(lambda: rows_of(room.fields["control_vectors"]))
    assert row.slider.height() >= person.app.window._theme.px(20), "its handle has room"
