"""How the map lays a conversation's tree out in lines. No Qt.

Messages that follow one another stand one below the other; where a message has several
versions, each is a line with what follows it inside. Of a long run only its ends are shown:

    You: One?
    Reply: First answer      version 1 of 2
        You: Two?
        … 12 messages
        Reply: Good bye
    Reply: Edited answer     version 2 of 2

What must hold: every message is in exactly one line, and where you are is never folded away.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from models.records import TreeNode

LONGEST_RUN = 8
SHOWN_ENDS = 2


@dataclass(slots=True)
class Line:
    """One line of the map. `node` None: `inside` holds a folded part of a run.

    `version` counts from 1, among `versions`; both 0 for the only one.
    """

    node: TreeNode | None
    inside: list[Line] = field(default_factory=list)
    version: int = 0
    versions: int = 0

    def walk(self) -> Iterator[Line]:
        """This line and all inside of it, from above. Not recursive: a map may be deep."""
        todo = [self]
        while todo:
            line = todo.pop()
            yield line
            todo += reversed(line.inside)


def lines_of(nodes: Sequence[TreeNode], leaf_id: str | None, *, with_deleted: bool) -> list[Line]:
    """The uppermost lines. Parents come before children in `nodes`."""
    children: dict[str | None, list[TreeNode]] = {}
    for node in nodes:
        if with_deleted or node.trashed_at is None:
            children.setdefault(node.parent_id, []).append(node)
    top: list[Line] = []
    todo = [(top, children.get(None, []))]
    while todo:
        target, siblings = todo.pop()
        is_fork = len(siblings) > 1
        for number, first in enumerate(siblings, 1):
            line = Line(first, version=number if is_fork else 0, versions=len(siblings) * is_fork)
            target.append(line)
            run, below = _run_from(first, children)
            if is_fork:
                line.inside += _folded(run[1:], leaf_id)
                todo.append((line.inside, below))
            else:
                target += _folded(run[1:], leaf_id)
                todo.append((target, below))
    return top


def _run_from(
    first: TreeNode, children: dict[str | None, list[TreeNode]]
) -> tuple[list[TreeNode], list[TreeNode]]:
    """The messages that follow without another version, and the versions where that ends."""
    run = [first]
    while len(below := children.get(run[-1].id, [])) == 1:
        run.append(below[0])
    return run, below


def _folded(run: Sequence[TreeNode], leaf_id: str | None) -> list[Line]:
    lines = [Line(node) for node in run]
    if len(lines) <= LONGEST_RUN:
        return lines
    first, middle, last = (
        lines[:SHOWN_ENDS],
        lines[SHOWN_ENDS:-SHOWN_ENDS],
        lines[-SHOWN_ENDS:],
    )
    if any(line.node is not None and line.node.id == leaf_id for line in middle):
        return lines
    return [*first, Line(None, middle), *last]
