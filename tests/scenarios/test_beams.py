"""A beam search in the whole window: from a question to a text of it in the chat."""

from __future__ import annotations

from typing import Any

from PySide6.QtCore import Qt
from PySide6.QtTest import QTest

from app.chat.replies.beam_versions import beams_of
from app.chat.replies.beams import NOT_HERE, NOTHING_YET, STOPPED
from ui.windows.beams_window import CARET, FROM_TOKEN, LAST_QUESTION, BeamsWindow

Key = Qt.Key
LEFT = Qt.MouseButton.LeftButton
TALK: dict[str, Any] = {
    "load": {"ms": 5},
    "replies": [{"text": "Paris is the capital of France and a large city on a river."}],
}
SLOW: dict[str, Any] = {**TALK, "inside": {"ms": 40, "chunks": 4}}


def beams_window(person: Any, action: str = "beam_search") -> BeamsWindow:
    person.window.action_registry.run(action)
    window: BeamsWindow = person.find(BeamsWindow, "beams_window")
    assert window.isVisible()
    return window


def search(person: Any, window: BeamsWindow, width: int, length: int) -> None:
    window.width_field.setText(str(width))
    window.length_field.setText(str(length))
    QTest.mouseClick(window.search_button, LEFT)
    person.wait(lambda: not person.app.desk.beams.is_running)
    person.wait(lambda: window.tree.tree is person.app.desk.beams.tree)


def test_from_the_question_to_a_version_by_keys(open_window: Any) -> None:
    person = open_window(TALK)
    person.wait_ready()
    window = beams_window(person)
    assert window.where.text() == NOTHING_YET
    assert not window.search_button.isEnabled()
    person.send("Where?")
    first = person.wait_ended()
    assert window.where.text() == LAST_QUESTION
    QTest.keyClick(window.length_field, Key.Key_Return)
    person.wait(lambda: not person.app.desk.beams.is_running)
    window.penalty_field.setText("much")
    QTest.mouseClick(window.search_button, LEFT)
    assert "length penalty must be a number" in window.status.text()
    window.penalty_field.setText("0.6")
    search(person, window, 3, 5)

    desk = person.app.desk
    tree = desk.beams.tree
    assert window.list.topLevelItemCount() == len(tree.leaves) + 1
    rows = [window.list.topLevelItem(at) for at in range(window.list.topLevelItemCount())]
    texts = [tree.text(leaf).decode() for leaf in tree.leaves]
    assert [" ".join(text.split()) for text in texts] == [row.text(1) for row in rows[1:]]
    assert rows[0].text(0) == "Greedy"
    assert window.tree.current == tree.leaves[0]
    window.list.setCurrentItem(rows[2])
    assert window.tree.current == tree.leaves[1]
    QTest.keyClick(window.tree, Key.Key_Return)
    taken = person.wait(
        lambda: (m := person.wait_ended()) and m.id != first.id and m.state == "complete" and m
    )
    assert taken.content == texts[1]
    version = beams_of(taken.settings)
    assert version is not None
    assert (version.rank, version.width, version.length) == (2, 3, 5)
    from ui.transcript.summary import figures_text

    assert version.label in figures_text(taken)
    # Another chat has nothing to do with it.
    desk.shelf.open_new()
    window.use_button.click()
    person.wait(lambda: NOT_HERE in {toast.notice.sentence for toast in _toasts(person)})


def _toasts(person: Any) -> list[Any]:
    from ui.shell.notices import NoticeCard

    return person.window.findChildren(NoticeCard)


def test_from_a_chosen_token_and_a_stop(open_window: Any) -> None:
    person = open_window(SLOW)
    person.wait_ready()
    registry = person.window.action_registry
    assert not registry["beam_search_here"].is_enabled()
    person.send("Where?")
    reply = person.wait_ended()
    person.app.desk.settings.set("section_panel", "Tokens")
    person.window.section_acts.show(True)
    looking = person.window.section_acts.looking()
    looking.look_at(reply.id)
    person.wait(lambda: len(looking.traces) > 3)
    looking.select(2)
    window = beams_window(person, "beam_search_here")
    assert window.where.text() == FROM_TOKEN.format(place=3)
    window.length_field.setText("200")
    QTest.mouseClick(window.search_button, LEFT)
    person.wait(lambda: person.app.desk.beams.tree.step >= 2)
    person.wait(lambda: window.search_button.text() == "Stop")
    QTest.mouseClick(window.search_button, LEFT)
    assert window.status.text() == STOPPED
    assert window.search_button.text() == "Search"
    tree = person.app.desk.beams.tree
    window.tree.choose(tree.leaves[0])
    window.use_button.click()
    taken = person.wait(lambda: (m := person.wait_ended()) and m.id != reply.id and m)
    said = [*reply.token_ids[:2], *tree.ids(tree.leaves[0])]
    assert list(taken.token_ids) == [i for i in said if i]  # 0 ends a text
    # Opened anew it is about the last question again.
    window = beams_window(person)
    assert window.where.text() == LAST_QUESTION


def test_a_text_is_continued_from_the_cursor(open_window: Any) -> None:
    person = open_window(TALK)
    person.wait_ready()
    person.app.desk.shelf.open_new_text()
    person.app.desk.text.save("Paris is", 8)
    window = beams_window(person)
    assert window.where.text() == CARET
    search(person, window, 2, 1)
    assert "2 texts in 1 step (" in window.status.text()
    search(person, window, 2, 4)
    leaf = person.app.desk.beams.tree.leaves[0]
    window.tree.choose(leaf)
    window.use_button.click()
    said = person.app.desk.beams.tree.text(leaf).decode()
    person.wait(lambda: person.app.desk.text.text == f"Paris is{said}")
