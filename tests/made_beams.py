"""A beam search's tree without an engine: the real search over made-up scores."""

from __future__ import annotations

import numpy as np

from app.engine.process.beams.search import Search, told
from app.engine.protocol.beam_messages import BeamsFound, BeamsGrew
from app.insight.beams.tree import BeamTree

PIECES = [b"<end>", b" Paris", b" is", b",", b".", b" the", b" city", b" of", b"\n", b" \xc3"]


def made_beams(
    width: int = 4, length: int = 12, seed: int = 0, n_vocab: int = len(PIECES), steps: int = 0
) -> BeamTree:
    """`steps`: so many of them, and no end; 0: whole."""
    search, tree = Search(width, length, 0.6, frozenset([0])), BeamTree()
    while (nodes := search.open) and search.step != (steps or -1):
        scores = {
            node.number: np.random.default_rng([seed, node.number])
            .standard_normal(n_vocab)
            .astype(np.float32)
            * 2
            for node in nodes
        }
        step = search.advance(scores)
        made = [told(node, PIECES[node.token_id % len(PIECES)]) for node in step.nodes]
        tree.take(BeamsGrew(1, search.step, made, [node.number for node in step.pruned]))
    if not steps:
        leaves = [node.number for node in search.leaves]
        greedy = search.greedy.number
        tree.end(BeamsFound(9, 0, 9, search.step, 40, leaves, greedy, search.ended, 0.1, 0.2, 1))
    return tree
