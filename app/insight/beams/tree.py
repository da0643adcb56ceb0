"""A beam search's tree as it was told, step by step: texts, sums, and what became of each branch.

    (text) ─ " Paris" ─ "," ─ " which"     alive
                      └ "." ─ <end>        finished
           └ " a" ─ " city"                pruned at step 3: of it nothing was kept

What the engine says is untrusted: what does not fit the tree so far raises ProtocolError.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from app.engine.protocol.beam_messages import BeamNode, BeamsFound, BeamsGrew
from app.engine.protocol.frames import ProtocolError

Fate = Literal["alive", "finished", "cut off", "pruned", "greedy"]
"""alive: still searched from; cut off: as long as was asked for."""


@dataclass(slots=True)
class Grown:
    """A node, when it came, what follows it, and at which step it was given up (0: it was not)."""

    node: BeamNode
    step: int
    children: list[int] = field(default_factory=list)
    pruned_at: int = 0


@dataclass(slots=True)
class BeamTree:
    """`grown` by number; `tops`: those behind the text that was searched from."""

    grown: dict[int, Grown] = field(default_factory=dict)
    tops: list[int] = field(default_factory=list)
    step: int = 0
    found: BeamsFound | None = None
    _alive: list[int] = field(default_factory=list)
    _finished: list[int] = field(default_factory=list)
    greedy: int = 0
    """Where the greedy line ends by now; 0: it has not begun."""

    def take(self, grew: BeamsGrew) -> None:
        """One more step."""
        if grew.step != self.step + 1 or self.found is not None:
            raise ProtocolError("a beam search's steps do not follow each other")
        self.step = grew.step
        for node in grew.nodes:
            self._add(node)
        for number in grew.pruned:
            self._of(number).pruned_at = self.step
        given_up = set(grew.pruned)
        self._alive = [
            node.number
            for node in grew.nodes
            if node.kind == "alive" and node.number not in given_up
        ]
        self._finished += [node.number for node in grew.nodes if node.kind == "finished"]

    def _add(self, node: BeamNode) -> None:
        if node.number in self.grown or (node.parent and node.parent not in self.grown):
            raise ProtocolError("a node of a beam search hangs on nothing")
        if node.parent:
            parent = self.grown[node.parent]
            if parent.step != self.step - 1:
                raise ProtocolError("a node of a beam search skips a step")
            parent.children.append(node.number)
        else:
            self.tops.append(node.number)
        at_once = self.step if node.kind == "pruned" else 0
        self.grown[node.number] = Grown(node, self.step, pruned_at=at_once)
        if node.is_greedy:
            self.greedy = node.number

    def end(self, found: BeamsFound) -> None:
        for number in (*found.leaves, *([found.greedy] if found.greedy else [])):
            self._of(number)
        self.found = found

    def _of(self, number: int) -> Grown:
        if number not in self.grown:
            raise ProtocolError("a beam search names a node that is not there")
        return self.grown[number]

    # --- questions ----------------------------------------------------------------------------

    @property
    def leaves(self) -> list[int]:
        """All texts that were found, or would be if it ended now: best score first."""
        if self.found is not None:
            return list(self.found.leaves)
        every = [*self._finished, *self._alive]
        return sorted(every, key=lambda number: (-self.grown[number].node.score, number))

    @property
    def kept(self) -> set[int]:
        """Nodes on the way to a leaf; all others were given up."""
        found: set[int] = set()
        for leaf in self.leaves:
            found.update(self.path(leaf))
        return found

    def path(self, number: int) -> list[int]:
        """From the first token to this node."""
        found = []
        while number:
            found.append(number)
            number = self.grown[number].node.parent
        return found[::-1]

    def ids(self, number: int) -> list[int]:
        return [self.grown[each].node.token_id for each in self.path(number)]

    def text(self, number: int) -> bytes:
        """What its tokens spell; an end token spells nothing.

        >>> tree = BeamTree()
        >>> tree.take(BeamsGrew(1, 1, [BeamNode(1, 0, 5, b"Hi", -1.0, -1.0, -1.0, "alive")]))
        >>> tree.take(BeamsGrew(1, 2, [
        ...     BeamNode(2, 1, 0, b"<end>", -1.0, -2.0, -1.0, "finished", is_end=True)
        ... ]))
        >>> tree.text(2), tree.ids(2), tree.fate(2), tree.leaves
        (b'Hi', [5, 0], 'finished', [2])
        """
        nodes = (self.grown[each].node for each in self.path(number))
        return b"".join(node.piece for node in nodes if not node.is_end)

    def fate(self, number: int) -> Fate:
        """What became of the text that ends here."""
        grown = self.grown[number]
        if grown.node.kind == "finished":
            return "finished"
        if grown.node.kind == "greedy":
            return "greedy"
        if grown.pruned_at:
            return "pruned"
        if self.found is not None and number in self._alive:
            return "cut off"
        return "alive"
