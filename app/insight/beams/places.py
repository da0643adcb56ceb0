"""Where the nodes of a beam search's tree stand: a column for each step, as few rows as fit.

The best text lies straight along the top; each other branch leaves its parent for the first row
below that is free as far as the branch goes. A row is free again behind a branch that has ended, so
a tree of four beams stays some ten rows high, however long it is.

    row 0   " Paris" ─ "," ─ " which"
    row 1             └ "." ─ <end>
    row 2   " a" ─ " city"          " and"     the second of them hangs on ","
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from app.insight.beams.tree import BeamTree


class Place(NamedTuple):
    row: int
    column: int


def places_of(tree: BeamTree, *, with_pruned: bool = True) -> dict[int, Place]:
    """Number of a node → its place. Without pruned branches only texts and the greedy line."""
    placed: dict[int, Place] = {}
    taken: defaultdict[int, set[int]] = defaultdict(set)
    for end in _ends(tree, with_pruned=with_pruned):
        branch = list(_unplaced(tree, end, placed))[::-1]
        if not branch:
            continue
        first = tree.grown[branch[0]]
        start = first.step - 1
        columns = range(start, start + len(branch))
        row = placed[first.node.parent].row + 1 if first.node.parent else 0
        while not taken[row].isdisjoint(columns):
            row += 1
        taken[row].update(columns)
        for number, column in zip(branch, columns, strict=True):
            placed[number] = Place(row, column)
    return placed


def _ends(tree: BeamTree, *, with_pruned: bool) -> Iterator[int]:
    """Where branches end, those that shall lie straight first."""
    yield from tree.leaves
    if tree.greedy:
        yield tree.greedy
    if with_pruned:
        # Those that were beams for longest first: what hangs on them comes to lie beside them.
        yield from sorted(_childless(tree), key=lambda n: (-tree.grown[n].step, n))


def _childless(tree: BeamTree) -> Iterable[int]:
    return (number for number, grown in tree.grown.items() if not grown.children)


def _unplaced(tree: BeamTree, end: int, placed: dict[int, Place]) -> Iterator[int]:
    """From the end up to what stands already."""
    number = end
    while number and number not in placed:
        yield number
        number = tree.grown[number].node.parent
