"""A beam search over made-up scores: the real search, so that whoever draws its tree can be tested.

Each text has scores of its own by chance, which follow from its token IDs alone; what the script
says next is likelier than the rest, and a text grows likelier to end.
"""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable, Iterator
from typing import Final

import numpy as np

from app.engine.process.beams.search import Search, told
from app.engine.process.scripted.prompt import END_ID
from app.engine.process.scripted.script import ScriptVocabulary
from app.engine.process.trace.shortlist import Scores
from app.engine.protocol.beam_messages import BeamsFound, BeamsGrew, SearchBeams, check_beams

_SAID: Final = 3.0
_UNLIKELY: Final = -20.0
_GROWING: Final = 0.3
"""What the end's score gains with each token."""


def searched(
    command: SearchBeams,
    vocabulary: ScriptVocabulary,
    said_behind: Callable[[list[int]], int | None],
) -> Iterator[BeamsGrew | BeamsFound]:
    """Each step, then what was found. Raises Refusal."""
    check_beams(command.width, command.length, command.length_penalty)
    began = time.perf_counter()
    end_ids = frozenset([END_ID, *command.end_ids])
    search = Search(command.width, command.length, command.length_penalty, end_ids)
    n_rows = 0
    while nodes := search.open:
        scores = {
            node.number: _scores(
                [*command.token_ids, *node.ids], node.step, vocabulary, said_behind
            )
            for node in nodes
        }
        n_rows += len(nodes)
        grown = search.advance(scores)
        yield BeamsGrew(
            command.id,
            search.step,
            [told(node, vocabulary.pieces[node.token_id]) for node in grown.nodes],
            [node.number for node in grown.pruned],
        )
    spent = time.perf_counter() - began
    yield BeamsFound(
        n_before=len(command.token_ids),
        n_copied=0,
        n_read=len(command.token_ids),
        n_steps=search.step,
        n_rows=n_rows,
        leaves=[node.number for node in search.leaves],
        greedy=search.greedy.number,
        ended=search.ended,
        search_s=spent,
        total_s=spent,
        n_threads=1,
    )


def _scores(
    ids: list[int],
    step: int,
    vocabulary: ScriptVocabulary,
    said_behind: Callable[[list[int]], int | None],
) -> Scores:
    chance = np.random.default_rng(zlib.crc32(np.array(ids, "<i4").tobytes()))
    scores = np.full(len(vocabulary.pieces), _UNLIKELY, np.float32)
    first = vocabulary.first_word if vocabulary.first_word < len(scores) else 1
    scores[first:] = chance.standard_normal(len(scores) - first)
    scores[END_ID] = chance.standard_normal() + _GROWING * (step - 4)
    if (said := said_behind(ids)) is not None:
        scores[said] += _SAID
    return scores
