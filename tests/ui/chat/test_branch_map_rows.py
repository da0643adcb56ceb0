"""The lines of the map, against what must hold for any tree."""

from __future__ import annotations

from datetime import UTC, datetime

from hypothesis import given, strategies as st

from models.records import MessageState, Role, TreeNode
from ui.chat.branch_map_rows import LONGEST_RUN, Line, lines_of

NOON = datetime(2026, 11, 28, 12, tzinfo=UTC)


def node(number: int, parent: int | None, *, is_gone: bool = False) -> TreeNode:
    role = Role.USER if number % 2 else Role.ASSISTANT
    return TreeNode(
        str(number),
        None if parent is None else str(parent),
        role,
        MessageState.COMPLETE,
        f"text {number}",
        NOON,
        NOON if is_gone else None,
    )


def drawn(lines: list[Line], depth: int = 0) -> list[str]:
    """The map as text."""
    found = []
    for line in lines:
        words = "…" if line.node is None else line.node.id
        mark = f" {line.version}/{line.versions}" if line.versions else ""
        found.append("  " * depth + words + mark)
        found += drawn(line.inside, depth + 1)
    return found


def test_a_conversation_without_branches_is_one_list():
    nodes = [node(i, i - 1 if i else None) for i in range(4)]
    assert drawn(lines_of(nodes, "3", with_deleted=False)) == ["0", "1", "2", "3"]


def test_versions_stand_below_each_other_with_what_follows_inside():
    nodes = [node(0, None), node(1, 0), node(2, 1), node(3, 2), node(4, 0), node(5, 4), node(6, 4)]
    assert drawn(lines_of(nodes, "5", with_deleted=False)) == [
        "0",
        "1 1/2",
        "  2",
        "  3",
        "4 2/2",
        "  5 1/2",
        "  6 2/2",
    ]


def test_several_first_messages_are_versions_too():
    nodes = [node(0, None), node(1, 0), node(2, None)]
    assert drawn(lines_of(nodes, "2", with_deleted=False)) == ["0 1/2", "  1", "2 2/2"]


def test_of_a_long_run_the_middle_is_folded_but_never_where_you_are():
    nodes = [node(i, i - 1 if i else None) for i in range(20)]
    folded = lines_of(nodes, "19", with_deleted=False)
    assert drawn(folded)[:4] == ["0", "1", "2", "…"]
    assert drawn(folded)[-2:] == ["18", "19"]
    whole = lines_of(nodes, "9", with_deleted=False)
    assert drawn(whole) == [str(i) for i in range(20)]


def test_what_was_deleted_is_shown_only_where_it_is_asked_for():
    nodes = [node(0, None), node(1, 0, is_gone=True), node(2, 1, is_gone=True), node(3, 0)]
    assert drawn(lines_of(nodes, "3", with_deleted=False)) == ["0", "3"]
    assert drawn(lines_of(nodes, "3", with_deleted=True)) == ["0", "1 1/2", "  2", "3 2/2"]


@given(st.lists(st.integers(0, 30), max_size=60), st.integers(0, 60))
def test_every_message_is_in_exactly_one_line(parents: list[int], leaf: int):
    nodes = [node(0, None)]
    for number, parent in enumerate(parents, 1):
        nodes.append(node(number, None if parent == 30 else min(parent, number - 1)))
    lines = lines_of(nodes, str(leaf), with_deleted=False)
    seen = [each.node.id for line in lines for each in line.walk() if each.node is not None]
    assert sorted(seen) == sorted(n.id for n in nodes)
    folded = [each for line in lines for each in line.walk() if each.node is None]
    for fold in folded:
        assert str(leaf) not in [inner.node.id for inner in fold.inside if inner.node]
        assert len(fold.inside) > LONGEST_RUN - 4


def test_a_chain_of_many_forks_is_laid_out_without_going_deep():
    nodes = [node(0, None)]
    for number in range(1, 6_000, 2):
        nodes += [node(number, number - 1 if number > 1 else 0), node(number + 1, nodes[-1].id)]
        nodes[-1] = node(number + 1, int(nodes[-2].parent_id or 0))
    lines = lines_of(nodes, "0", with_deleted=False)
    assert sum(1 for line in lines for each in line.walk() if each.node) == len(nodes)
