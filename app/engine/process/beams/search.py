"""Beam search over rows of scores: which continuations go on, which end, which are given up.

Each step continues every beam by every token, and keeps the `width` best of all of them (Lowerre,
*The HARPY Speech Recognition System*, 1976; Sutskever, Vinyals, Le, 1409.3215, §3.2). With two
beams, three tokens and these probabilities, of which "." ends a text:

    step 1   a 0.6   b 0.3   . 0.1          kept: a, b
    step 2   a → aa 0.1   ab 0.3   a. 0.2
             b → ba 0.2   bb 0.05  b. 0.05  kept: ab 0.3, ba 0.2; a. 0.2 is finished

An end token takes no beam's place: what is met on the way down to the last that is kept has
finished, and is put aside. What comes after it is pruned; the best `width` of that are told, so
that the choice can be seen. Sums are in float64: in float32 those of long texts would lose the
differences that decide.

A text of n tokens, its end token included, scores Σ log p ÷ nᵅ: the plain form of length
normalisation in Wu et al., 1609.08144, §7, where α of 0.6 to 0.7 is found to be best. Their final
form divides by ((5 + n) ÷ 6)ᵅ instead; both order texts of one length alike, so which beams are
kept depends on neither. As no token adds to a sum, nothing that a beam may become scores above its
sum ÷ (longest n)ᵅ: where that is below the `width` best finished ones, no more is searched.

The greedy line, always the most probable token, is followed beside them, also where the beams have
given it up.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from app.engine.process.trace.shortlist import Scores
from app.engine.protocol.beam_messages import BeamNode, Ended, NodeKind
from app.refusal import Refusal

NOT_FINITE: Final = "The model's scores aren't numbers, so nothing can be searched."

LogProbs = np.ndarray[Any, np.dtype[np.float64]]
Allowed = Callable[["Node", LogProbs], LogProbs]


@dataclass(eq=False, slots=True)
class Node:
    """A token of the tree; number 0 is the root, which has none. `step`: how many tokens its text
    has, itself included."""

    number: int
    parent: Node | None
    token_id: int = -1
    logprob: float = 0.0
    total: float = 0.0
    score: float = 0.0
    step: int = 0
    kind: NodeKind = "alive"
    is_greedy: bool = False
    is_end: bool = False

    @property
    def ids(self) -> list[int]:
        """The tokens of its text."""
        found, node = list[int](), self
        while node.parent is not None:
            found.append(node.token_id)
            node = node.parent
        return found[::-1]


def told(node: Node, piece: bytes) -> BeamNode:
    """The node as it travels. `piece`: its token's bytes."""
    return BeamNode(
        node.number,
        node.parent.number if node.parent is not None else 0,
        node.token_id,
        piece,
        node.logprob,
        node.total,
        node.score,
        node.kind,
        node.is_greedy,
        node.is_end,
    )


@dataclass(frozen=True, slots=True)
class Grown:
    """One step: its nodes, best first, and those that were given up in it."""

    nodes: list[Node]
    pruned: list[Node]


@dataclass(frozen=True, slots=True)
class _Candidate:
    parent: Node
    token_id: int
    logprob: float

    @property
    def total(self) -> float:
        return self.parent.total + self.logprob


def scored(total: float, n_tokens: int, length_penalty: float) -> float:
    """
    >>> scored(-8.0, 4, 1.0), scored(-8.0, 4, 0.5), scored(-8.0, 4, 0.0)
    (-2.0, -4.0, -8.0)
    """
    return total / math.pow(n_tokens, length_penalty)


def log_softmax(scores: Scores) -> LogProbs:
    """ln of the probabilities at temperature 1, in float64. −inf stays −inf. Raises Refusal where
    there is no best score."""
    values = scores.astype(np.float64)
    best = values.max()
    if not math.isfinite(best):
        raise Refusal("no_candidate", NOT_FINITE)
    values -= best
    values -= math.log(np.exp(values).sum())
    return values


def best_of(logprobs: LogProbs, count: int) -> list[tuple[int, float]]:
    """The `count` most probable tokens, best first, the smaller ID first where two are equal;
    fewer where fewer are possible.

    >>> best_of(np.array([-1.5, -0.5, -np.inf, -1.5]), 2)
    [(1, -0.5), (0, -1.5)]
    """
    if count < len(logprobs):
        least = np.partition(logprobs, -count)[-count]
        ids = np.flatnonzero(logprobs >= least)
    else:
        ids = np.arange(len(logprobs))
    ids = ids[np.isfinite(logprobs[ids])]
    ids = ids[np.lexsort((ids, -logprobs[ids]))][:count]
    return [(int(token_id), float(logprobs[token_id])) for token_id in ids]


@dataclass(slots=True)
class Search:
    """`advance` takes the scores behind each node of `open`, step by step, until that is empty.
    `end_ids`: tokens that end a text. `allowed`: sets to −inf what may not follow a node."""

    width: int
    length: int
    length_penalty: float
    end_ids: Collection[int]
    allowed: Allowed = lambda node, logprobs: logprobs
    finished: list[Node] = field(default_factory=list)
    step: int = 0
    ended: Ended = "length"
    _count: int = 0
    _live: list[Node] = field(init=False)
    _greedy: Node = field(init=False)
    _is_greedy_done: bool = False

    def __post_init__(self) -> None:
        self._greedy = Node(0, None, is_greedy=True)
        self._live = [self._greedy]

    @property
    def open(self) -> list[Node]:
        """Nodes whose scores the next step needs: the beams, best first, then the greedy line's
        end where it is none of them."""
        if self.step == self.length:
            return []
        greedy = self._greedy
        alone = [] if self._is_greedy_done or greedy in self._live else [greedy]
        return [*self._live, *alone]

    @property
    def greedy(self) -> Node:
        """Where the greedy line ends by now."""
        return self._greedy

    @property
    def leaves(self) -> list[Node]:
        """All texts that were found, best score first: those that have finished, and the beams as
        long as they are."""
        found = [*self.finished, *self._live]
        return sorted(found, key=lambda node: (-node.score, node.number))

    def advance(self, scores: Mapping[int, Scores]) -> Grown:
        """One step. `scores`: number of each open node → [n_vocab]. Raises Refusal."""
        beams = self._live
        # An end token takes no place, so each beam may need that many more.
        most = 2 * self.width + len(self.end_ids)
        after = {
            node.number: best_of(self.allowed(node, log_softmax(scores[node.number])), most)
            for node in self.open
        }
        self.step += 1
        next_greedy = None
        if not self._is_greedy_done and after[self._greedy.number]:
            next_greedy = _Candidate(self._greedy, *after[self._greedy.number][0])
        chosen = self._chosen(
            _Candidate(node, *candidate) for node in beams for candidate in after[node.number]
        )
        if next_greedy is not None and all(each != next_greedy for each, _ in chosen):
            chosen.append((next_greedy, "greedy"))
        nodes = [self._node(each, kind, each == next_greedy) for each, kind in chosen]
        self._follow(nodes)
        self.finished += [node for node in nodes if node.kind == "finished"]
        self._live = [node for node in nodes if node.kind == "alive"]
        going_on = {node.parent for node in nodes if node.kind in ("alive", "finished")}
        pruned = [node for node in beams if node.number and node not in going_on]
        if self._is_decided():
            pruned += self._live
            self.ended, self._live = "bound", []
        elif not self._live and self.ended != "bound":
            self.ended = "finished"
        return Grown(nodes, pruned)

    def _chosen(self, pool: Iterable[_Candidate]) -> list[tuple[_Candidate, NodeKind]]:
        """What becomes a node, best first."""
        chosen, counts = list[tuple[_Candidate, NodeKind]](), {"alive": 0, "pruned": 0}
        order = sorted(pool, key=lambda each: (-each.total, each.parent.number, each.token_id))
        for candidate in order:
            kind: NodeKind = "finished" if candidate.token_id in self.end_ids else "alive"
            if counts["alive"] == self.width:
                kind = "pruned"
            if kind != "finished":
                counts[kind] += 1
            chosen.append((candidate, kind))
            if counts["pruned"] == self.width:
                break
        return chosen

    def _follow(self, nodes: Sequence[Node]) -> None:
        """The greedy line goes on, or has come to its end."""
        after = next((node for node in nodes if node.is_greedy), None)
        self._greedy = after or self._greedy
        self._is_greedy_done = after is None or after.is_end

    def _node(self, candidate: _Candidate, kind: NodeKind, is_greedy: bool) -> Node:
        self._count += 1
        return Node(
            self._count,
            candidate.parent,
            candidate.token_id,
            candidate.logprob,
            candidate.total,
            scored(candidate.total, self.step, self.length_penalty),
            self.step,
            kind,
            is_greedy=is_greedy,
            is_end=candidate.token_id in self.end_ids,
        )

    def _is_decided(self) -> bool:
        """Whether no beam can become better than the `width` best finished texts."""
        if len(self.finished) < self.width or not self._live or self.step == self.length:
            return False
        worst = sorted((node.score for node in self.finished), reverse=True)[self.width - 1]
        best = max(node.total for node in self._live)
        return scored(best, self.length, self.length_penalty) <= worst
