"""The tree on a plane: nothing lies on anything, branches are straight, and rows are few."""

from __future__ import annotations

import pytest
from made_beams import made_beams

from app.insight.beams.places import places_of
from app.insight.beams.tree import BeamTree


@pytest.mark.parametrize(("width", "length"), [(1, 5), (4, 30), (8, 60)])
@pytest.mark.parametrize("with_pruned", [True, False])
def test_each_node_has_a_place_of_its_own(width: int, length: int, with_pruned: bool) -> None:
    tree = made_beams(width, length, seed=width, n_vocab=40)
    places = places_of(tree, with_pruned=with_pruned)

    assert len(set(places.values())) == len(places)
    wanted = set(tree.grown) if with_pruned else tree.kept | set(tree.path(tree.greedy))
    assert set(places) == wanted
    for number, place in places.items():
        assert place.column == tree.grown[number].step - 1
        parent = tree.grown[number].node.parent
        if parent:
            assert places[parent].row <= place.row
            followers = [n for n in tree.grown[parent].children if n in places]
            in_row = [n for n in followers if places[n].row == places[parent].row]
            assert len(in_row) == 1  # one goes straight on
    assert {places[n].row for n in tree.path(tree.leaves[0])} == {0}
    most = 6 * width + 4 if with_pruned else 3 * width + 2 + len(tree.leaves)
    assert max(place.row for place in places.values()) <= most


def test_a_tree_without_nodes_has_no_places() -> None:
    assert places_of(BeamTree()) == {}
