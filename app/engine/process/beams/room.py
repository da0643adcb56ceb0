"""Beam searches on the loaded weights, in slices between the steps of replies.

A search has a context of its own beside the one that replies are written in, with a sequence for
each beam and one for the greedy line, so that it takes no slot and no cell from a chat. The text
before it is copied from a slot that holds it, or read. A beam that splits is forked: the cells of
what both have in common are shared (`llama_memory_seq_cp`), so a step costs a row for each beam.
Where a layer keeps one state instead of cells, llama.cpp copies that at the next step.

What must hold: each search ends once; no cell of a slot is touched; beside a reply it has at most
half of the time; the context is freed as the search ends.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterable
from typing import Final

from app.amounts import bytes_words
from app.engine.process.beams.forbidding import NOT_APPLIED, Forbidding, would_be_shaped
from app.engine.process.beams.forks import BeamWeights, Forks
from app.engine.process.beams.search import Node, Search, told
from app.engine.process.cache.cells import Cells, Traits
from app.engine.process.cache.step_meter import free_bytes, needed_bytes
from app.engine.process.native.weights import Weights
from app.engine.process.sampling.grammar import check_grammar
from app.engine.process.scheduling.admission import EMPTY_PROMPT, check_ids
from app.engine.process.scheduling.pace import Pace
from app.engine.process.scheduling.slices import Slices
from app.engine.process.scheduling.threads import Threads
from app.engine.process.trace.shortlist import Scores
from app.engine.protocol.beam_messages import (
    BeamsFound,
    BeamsGrew,
    SearchBeams,
    check_beams,
)
from app.engine.protocol.bounds import BadSetting
from app.engine.protocol.messages import Event, Progress
from app.engine.protocol.stage_rules import check_stages
from app.refusal import Refusal

NO_ROOM: Final = (
    "This search needs another {needed} of memory, which isn't free. Close other programs, or "
    "choose fewer beams, shorter ones, or a shorter chat."
)
FULL: Final = (
    "This text fills the context window of {n_ctx:,} tokens, so no beam can continue it. Reload "
    "the model with a larger context window."
)
SHORTENED: Final = "Only {length:,} more tokens fit the context window, so beams end there."

_SHARE: Final = 0.5
"""Of the time, while a reply is written."""


class BeamRoom:
    """The searches of one pair of weights, one after the other, on the thread that owns their
    contexts; `break_off` is for the thread that reads commands. `may_begin`: asked once of each,
    False where it has been ended from another thread. `governed`: the number of threads is steered,
    as that of replies is."""

    def __init__(
        self,
        weights: Weights,
        slots: Callable[[], Iterable[Cells]],
        traits: Traits,
        emit: Callable[[Event], None],
        clock: Callable[[], float] = time.perf_counter,
        may_begin: Callable[[int], bool] = lambda request_id: True,
        *,
        governed: bool = False,
    ) -> None:
        self._weights = weights
        self._slots = slots
        self._traits = traits
        self._emit = emit
        self._clock = clock
        self._slices = Slices(self._searching, emit, clock, may_begin, _SHARE)
        self._is_beside = False
        self._own = BeamWeights(weights)
        self._threads = Threads(self._own, governed=governed)
        self._forks: Forks | None = None
        self._pace = Pace(weights.n_ubatch, can_abort=weights.loaded.n_gpu_layers == 0)

    # --- commands -----------------------------------------------------------------------------

    def ask(self, command: SearchBeams) -> None:
        """Queue a search; it ends by Finished, Stopped or Failed."""
        self._slices.ask(command.id, command)

    def stop(self, request_id: int) -> None:
        """End a search now. Nothing where it has ended already."""
        self._slices.stop(request_id)

    def set_threads(self, n_threads: int) -> None:
        self._threads.set_by_user(n_threads)

    def break_off(self, request_id: int) -> None:
        """Have the decode of this search end early, if it is in one. From any thread."""
        forks = self._forks
        if forks is not None and forks.request_id == request_id:
            forks.break_off()

    def has_work(self, *, beside_replies: bool) -> bool:
        """Whether `step` would do anything now."""
        self._is_beside = beside_replies
        return self._slices.has_work(beside_replies=beside_replies)

    def close(self) -> None:
        """Stop what is open."""
        self._slices.stop_all()

    # --- work ---------------------------------------------------------------------------------

    def step(self) -> None:
        """One slice of a search: a chunk of its text, or a step of all beams."""
        self._slices.step()

    def _searching(self, command: SearchBeams) -> Generator[BeamsFound | None, None, None]:
        """Raises Refusal."""
        began = self._clock()
        length, notes = self._checked(command)
        vocabulary = self._weights.vocabulary
        end_ids = sorted({*vocabulary.eog_ids, *command.end_ids})
        forbidding = Forbidding(command, vocabulary, end_ids)
        try:
            forks = self._forks = self._open(command, length)
            yield None
            adapters = self._weights.adapter_set(command.adapters).key
            forks.copy_prefix(command.token_ids, list(self._slots()), adapters)
            while forks.n_left(command.token_ids):
                yield None
                self._read(forks, command)
            yield None
            search_began = self._clock()
            search = Search(
                command.width, length, command.length_penalty, frozenset(end_ids), forbidding
            )
            scores = {0: forks.scores_of_text()}
            n_rows = 0
            while True:
                grown = search.advance(scores)
                nodes = [told(node, vocabulary.piece(node.token_id)) for node in grown.nodes]
                pruned = [node.number for node in grown.pruned]
                self._emit(BeamsGrew(command.id, search.step, nodes, pruned))
                following = search.open
                if not following:
                    break
                forbidding.forget_all_but(following)
                yield None
                scores = self._follow(forks, following)
                n_rows += len(following)
            now = self._clock()
            yield BeamsFound(
                n_before=len(command.token_ids),
                n_copied=forks.n_copied,
                n_read=forks.n_read,
                n_steps=search.step - 1,
                n_rows=n_rows,
                leaves=[node.number for node in search.leaves],
                greedy=search.greedy.number,
                ended=search.ended,
                search_s=now - search_began,
                total_s=now - began,
                n_threads=self._own.n_threads,
                notes=notes,
            )
        finally:
            forbidding.close()
            if self._forks is not None:
                self._forks.close()
                self._forks = None

    def _follow(self, forks: Forks, nodes: list[Node]) -> dict[int, Scores]:
        is_watched = self._threads.wants_processor_time
        had_s = time.process_time() if is_watched else 0.0
        began = self._clock()
        scores = forks.follow(nodes)
        now = self._clock()
        processor_s = time.process_time() - had_s if is_watched else None
        self._threads.after_step(len(nodes), forks.n_cells(nodes), now - began, now, processor_s)
        return scores

    def _read(self, forks: Forks, command: SearchBeams) -> None:
        """A chunk of the text: a short one while somebody is written to."""
        began, before = self._clock(), forks.n_read
        forks.read(command.token_ids, self._pace.chunk(somebody_writes=self._is_beside))
        self._pace.measure(forks.n_read - before, self._clock() - began)
        done = len(command.token_ids) - forks.n_left(command.token_ids)
        self._emit(Progress(command.id, "beams", done, len(command.token_ids)))

    def _checked(self, command: SearchBeams) -> tuple[int, list[str]]:
        """The length that fits, and what is to be said. Raises Refusal."""
        n_ctx, vocabulary = self._weights.n_ctx, self._weights.vocabulary
        check_beams(command.width, command.length, command.length_penalty)
        check_stages(command.sampling, vocabulary.n_vocab)
        check_grammar(command.sampling.grammar, command.sampling.json_schema, vocabulary)
        if not command.token_ids:
            raise BadSetting("prompt", EMPTY_PROMPT)
        check_ids([*command.token_ids, *command.end_ids], vocabulary.n_vocab)
        length = min(command.length, n_ctx - len(command.token_ids))
        if length < 1:
            raise Refusal("prompt_too_long", FULL.format(n_ctx=n_ctx))
        notes = [SHORTENED.format(length=length)] if length < command.length else []
        if would_be_shaped(command):
            notes.append(NOT_APPLIED)
        return length, notes

    def _open(self, command: SearchBeams, length: int) -> Forks:
        """Raises Refusal."""
        n_sequences = command.width + 1
        n_cells = len(command.token_ids) + n_sequences * length
        needed = needed_bytes(self._weights, n_cells)
        refusal = Refusal("out_of_memory", NO_ROOM.format(needed=bytes_words(needed)))
        if free_bytes(self._weights) < needed:
            raise refusal
        adapters = self._weights.adapter_set(command.adapters)
        context = self._weights.open_beside(n_cells, n_slots=n_sequences, adapters=adapters)
        if not context:
            raise refusal
        self._own.take(context)
        return Forks(self._own, self._traits, command.id, n_sequences)
