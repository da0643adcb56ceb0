"""The painted tree: pointed at, walked through by keys, and what marks each kind of branch."""

from __future__ import annotations

import math

import pytest
from made_beams import made_beams
from PySide6.QtCore import QEvent, QPoint, Qt
from PySide6.QtGui import QHelpEvent
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from app.insight.beams.tree import BeamTree
from ui.look.theme import Theme
from ui.windows import beam_tree
from ui.windows.beam_tree import BeamTreeView

Key = Qt.Key
LEFT = Qt.MouseButton.LeftButton


@pytest.fixture
def view(qtbot: QtBot, theme: Theme) -> BeamTreeView:
    made = BeamTreeView(theme)
    qtbot.addWidget(made)
    made.resize(500, 260)
    made.show()
    made.show_tree(made_beams())
    return made


def test_each_box_is_found_where_it_is_painted(view: BeamTreeView) -> None:
    for number in view.tree.grown:
        view.choose(number)  # has it in view
        assert view.viewport().rect().contains(view.box_of(number))
        assert view.node_at(view.box_of(number).center()) == number
        assert view.current == number
    assert view.node_at(QPoint(-5, -5)) == 0


def test_a_click_chooses_and_a_double_click_takes(view: BeamTreeView, qtbot: QtBot) -> None:
    leaf = view.tree.leaves[0]
    view.choose(leaf)
    place = view.box_of(leaf).center()
    view.choose(0)
    with qtbot.waitSignal(view.chosen) as chosen:
        QTest.mouseClick(view.viewport(), LEFT, pos=place)
    assert chosen.args == [leaf]
    with qtbot.waitSignal(view.taken) as taken:
        QTest.mouseDClick(view.viewport(), LEFT, pos=place)
    assert taken.args == [leaf]


def test_keys_reach_every_node_along_branches_and_between_them(
    view: BeamTreeView, qtbot: QtBot
) -> None:
    tree = view.tree
    view.choose(tree.leaves[0])
    QTest.keyClick(view, Key.Key_Home)
    assert view.current == tree.path(tree.leaves[0])[0]
    QTest.keyClick(view, Key.Key_End)
    assert view.current == tree.leaves[0]
    QTest.keyClick(view, Key.Key_Left)
    assert view.current == tree.grown[tree.leaves[0]].node.parent
    QTest.keyClick(view, Key.Key_Right)
    assert view.current == tree.leaves[0]
    reached, todo = {view.current}, [view.current]
    while todo:
        start = todo.pop()
        for key in (Key.Key_Left, Key.Key_Right, Key.Key_Up, Key.Key_Down):
            view.choose(start)
            QTest.keyClick(view, key)
            if view.current not in reached:
                reached.add(view.current)
                todo.append(view.current)
    assert reached == set(tree.grown)
    with qtbot.waitSignal(view.taken) as taken:
        QTest.keyClick(view, Key.Key_Return)
    assert taken.args == [view.current]


def test_the_words_say_text_figures_and_fate(view: BeamTreeView) -> None:
    tree = view.tree
    fates = {number: view.words_of(number).splitlines()[-1] for number in tree.grown}
    assert any("finished" in fate or "length" in fate for fate in fates.values())
    assert any(fate.startswith("pruned at step") for fate in fates.values())
    for number, grown in tree.grown.items():
        words = view.words_of(number)
        assert f"Token {grown.step}:" in words
        assert f"{100 * math.exp(grown.node.logprob):.1f}%" in words
        assert f"{abs(grown.node.total):.3f}" in words
        if grown.node.is_greedy:
            assert "greedy" in words
    view.choose(tree.leaves[0])
    assert view.accessibleDescription() == view.words_of(tree.leaves[0])


def test_hover_shows_the_words(view: BeamTreeView, monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[str] = []
    monkeypatch.setattr(beam_tree, "show_tip", lambda where, words, widget: shown.append(words))
    number = view.tree.leaves[0]
    view.choose(number)
    at = view.box_of(number).center()
    event = QHelpEvent(QEvent.Type.ToolTip, at, view.viewport().mapToGlobal(at))
    QApplication.sendEvent(view.viewport(), event)
    assert shown == [view.words_of(number)]


def test_pruned_branches_can_be_hidden(view: BeamTreeView) -> None:
    pruned = next(n for n, g in view.tree.grown.items() if g.node.kind == "pruned")
    view.choose(pruned)
    view.show_pruned(False)
    assert view.current == 0
    assert pruned not in view._places
    assert set(view.tree.leaves) <= set(view._places)
    view.show_pruned(True)
    assert set(view._places) == set(view.tree.grown)


def test_kept_pruned_and_greedy_differ_not_by_colour_alone(view: BeamTreeView) -> None:
    """In grey, a dashed frame has gaps, and the greedy line a bar."""
    kept = view.tree.kept
    greedy = next(n for n in view.tree.path(view.tree.greedy) if n in kept)
    other = next(
        n for n in kept if not view.tree.grown[n].node.is_greedy and n != view.tree.leaves[0]
    )
    pruned = next(n for n, g in view.tree.grown.items() if g.node.kind == "pruned")

    def top_edge(number: int) -> set[int]:
        view.choose(number)
        view.choose(0)
        image = view.viewport().grab().toImage()
        box = view.box_of(number)
        return {
            image.pixelColor(x, box.top()).lightness() // 8
            for x in range(box.left() + 6, box.right() - 6)
        }

    def below(number: int) -> int:
        view.choose(number)
        view.choose(0)
        box = view.box_of(number)
        return view.viewport().grab().toImage().pixelColor(box.center().x(), box.bottom() + 2).rgb()

    assert len(top_edge(other)) == 1
    assert len(top_edge(pruned)) > 1
    assert below(greedy) != below(other)


def test_it_grows_without_losing_the_place(qtbot: QtBot, theme: Theme) -> None:
    view = BeamTreeView(theme)
    qtbot.addWidget(view)
    view.resize(300, 200)
    view.show()
    view.show_tree(BeamTree())
    view.grab()  # says that there is nothing yet
    early, late = made_beams(steps=3), made_beams(steps=9)
    view.show_tree(early)
    view.choose(early.leaves[0])
    chosen = view.current
    view.show_tree(late)
    assert view.current == chosen
    theme.set_zoom(200)
    assert view.box_of(chosen).height() > 30
    view.grab()
