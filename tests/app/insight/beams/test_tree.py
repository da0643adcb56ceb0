"""The tree as it was told, and what is refused of it."""

from __future__ import annotations

from typing import Any

import pytest

from app.engine.protocol.beam_messages import BeamNode, BeamsFound, BeamsGrew
from app.engine.protocol.frames import ProtocolError
from app.insight.beams.tree import BeamTree


def node(number: int, parent: int, piece: bytes, kind: Any = "alive", **more: Any) -> BeamNode:
    score = more.pop("score", -float(number))
    return BeamNode(number, parent, number + 100, piece, -1.0, -2.0, score, kind, **more)


FIRST = BeamsGrew(
    1,
    1,
    [
        node(1, 0, b" Paris", is_greedy=True),
        node(2, 0, b" a"),
        node(3, 0, b" the", "pruned"),
    ],
)
SECOND = BeamsGrew(
    1,
    2,
    [
        node(4, 1, b"<end>", "finished", is_end=True, score=-1.5),
        node(5, 1, b",", is_greedy=True, score=-0.5),
        node(6, 1, b" is"),
        node(7, 2, b" city", "pruned"),
    ],
    pruned=[2],
)


def grown() -> BeamTree:
    tree = BeamTree()
    tree.take(FIRST)
    tree.take(SECOND)
    return tree


def found(leaves: list[int], greedy: int) -> BeamsFound:
    return BeamsFound(9, 0, 9, 1, 2, leaves, greedy, "length", 0.1, 0.2, 1)


def test_texts_ids_and_fates() -> None:
    tree = grown()

    assert tree.text(5) == b" Paris,"
    assert tree.text(4) == b" Paris"
    assert tree.ids(4) == [101, 104]
    assert tree.leaves == [5, 4, 6]
    assert tree.kept == {1, 4, 5, 6}
    assert tree.greedy == 5
    fates = {number: tree.fate(number) for number in tree.grown}
    assert fates[2] == fates[3] == fates[7] == "pruned"
    assert fates[4] == "finished"
    assert fates[5] == fates[6] == "alive"
    assert tree.grown[2].pruned_at == 2
    assert tree.grown[3].pruned_at == 1


def test_the_end_says_which_leaves_there_are() -> None:
    tree = grown()
    tree.end(found([5, 6, 4], 5))

    assert tree.leaves == [5, 6, 4]
    assert tree.fate(5) == "cut off"
    assert tree.fate(4) == "finished"


@pytest.mark.parametrize(
    "grew",
    [
        BeamsGrew(1, 4, []),
        BeamsGrew(1, 2, []),
        BeamsGrew(1, 3, [node(9, 8, b"x")]),
        BeamsGrew(1, 3, [node(9, 1, b"x")]),
        BeamsGrew(1, 3, [node(5, 4, b"x")]),
        BeamsGrew(1, 3, [], pruned=[99]),
    ],
)
def test_what_hangs_on_nothing_is_refused(grew: BeamsGrew) -> None:
    with pytest.raises(ProtocolError):
        grown().take(grew)


@pytest.mark.parametrize(("leaves", "greedy"), [([99], 5), ([5], 99)])
def test_an_end_that_names_what_is_not_there_is_refused(leaves: list[int], greedy: int) -> None:
    with pytest.raises(ProtocolError):
        grown().end(found(leaves, greedy))
    tree = grown()
    tree.end(found([5], 5))
    with pytest.raises(ProtocolError):
        tree.take(BeamsGrew(1, 3, []))
