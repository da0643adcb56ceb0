"""Tokens of a reply drawn again: the same prefix, the same number, another chain.

    prompt and reply ──decode, in a context of its own──▶ scores of each asked position
    scores ──the other chain's filters, llama.cpp's own──▶ what is left ──the given number──▶ token

llama.cpp's drawing samplers take their numbers from a generator that no one can set. So the filters
alone are its work here, XTC's too once it is decided whether it acts; the last step, adding up
shares until they reach the number, is done as `llama_sampler_dist` does it: softmax in float32, sum
in float64. The reply is read token by token, as it was written: read in one pass its scores differ
so much that the same settings drew another token (Gemma 3 270M). What must hold: nothing that the
cache holds is touched; stages with a memory (penalties, DRY, the grammar) have seen just the tokens
before the position.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec
import numpy as np

from app.amounts import bytes_words
from app.engine.process.cache.step_meter import free_bytes, needed_bytes
from app.engine.process.native.native import Batch, llama
from app.engine.process.native.weights import Weights
from app.engine.process.sampling.candidates import Candidates
from app.engine.process.sampling.chain import Chain, NoCandidate, check
from app.engine.process.trace.effects import Snapshot
from app.engine.process.trace.scores import scores_of
from app.engine.process.trace.shortlist import Scores
from app.engine.protocol.replay_messages import (
    MAX_ASKED,
    AskedDraw,
    DrawsReplayed,
    ReplayDraws,
    ReplayedDraw,
)
from app.engine.protocol.stages import AdaptiveP, Dist, Greedy, Sampling, Xtc
from app.refusal import Refusal

HAS_MEMORY: Final = "Mirostat and adaptive-p depend on all earlier draws."
NO_NUMBER: Final = "No number was drawn for this token."
NO_DECISION: Final = "The random number that decided whether XTC applies here wasn't recorded."
GRAMMAR: Final = (
    "The grammar rejects the token that the number selects, and there is no number for a second "
    "draw."
)
NONSENSE: Final = "This reply doesn't match the loaded model."
LEFT_OFF: Final = (
    "The engine was interrupted by another request. Try again when the reply is finished."
)
FAILED: Final = "llama.cpp couldn't replay the reply. The engine log has the details."
_NO_ROOM: Final = (
    "Replaying the reply needs another {needed} of memory, which isn't free. Close other "
    "programs or choose a shorter chat."
)


class _Undecided(Exception):  # noqa: N818 - an outcome with a sentence for the user
    pass


class ReplayedChain(Chain):
    """A chain whose numbers are given. `draw` may not be called."""

    def __init__(self, sampling: Sampling, **named: Any) -> None:
        filters = [
            msgspec.structs.replace(s, probability=1.0 if s.probability > 0 else 0.0)
            if isinstance(s, Xtc)
            else s
            for s in sampling.filters
        ]
        super().__init__(
            msgspec.structs.replace(sampling, filters=filters, seed=sampling.seed or 0), **named
        )
        self._select = sampling.select
        chances = (s.probability for s in sampling.filters if isinstance(s, Xtc))
        xtc = (at for at, step in enumerate(self._steps) if step.name == "xtc")
        self._xtc = {
            id(self._steps[at]): (nth, np.float32(chance))
            for nth, (at, chance) in enumerate(zip(xtc, chances, strict=True))
        }
        self._given: Sequence[float | None] = ()

    def replayed(
        self, scores: Scores, candidates: Candidates, asked: AskedDraw
    ) -> tuple[int, float, int]:
        """The token on which the number falls, its share, and how many are left. Raises
        NoCandidate or _Undecided."""
        if not isinstance(self._select, Greedy):
            is_plain = isinstance(self._select, AdaptiveP) and self._select.target < 0
            if not isinstance(self._select, Dist) and not is_plain:
                raise _Undecided(HAS_MEMORY)
            if asked.uniform is None:
                raise _Undecided(NO_NUMBER)
        self._given = asked.deciding
        self._fill(scores, candidates, (), None)
        selected, _ = self._apply(candidates, None)
        left = candidates.view
        weights = np.exp(left["logit"] - left["logit"].max())
        together = np.cumsum(weights, dtype=np.float64)
        total = float(together[-1])
        if isinstance(self._select, Greedy):
            place = int(np.flatnonzero(left["id"] == selected)[0])
        else:
            assert asked.uniform is not None
            reached = together >= asked.uniform * total
            place = int(np.argmax(reached)) if reached.any() else len(left) - 1
        token_id, share = int(left["id"][place]), float(weights[place]) / total
        n_left = int(np.count_nonzero(left["logit"] > -np.inf))
        if not self.allows(token_id):
            raise _Undecided(GRAMMAR)
        return token_id, share, n_left

    def _apply_one(
        self,
        step: Any,
        candidates: Candidates,
        is_whole: bool,
        snapshots: list[Snapshot] | None,
    ) -> bool:
        if step.name == "xtc" and not self._acts(step, int(candidates.native.size)):
            return is_whole
        return super()._apply_one(step, candidates, is_whole, snapshots)

    def _acts(self, step: Any, size: int) -> bool:
        """Whether XTC would act with its own probability and the number that is given."""
        at, chance = self._xtc[id(step)]
        if chance >= 1 or size < 2:
            return True
        number = self._given[at] if at < len(self._given) else None
        if number is None:
            raise _Undecided(NO_DECISION)
        return bool(np.float32(number) <= chance)


@dataclass(slots=True)
class DrawReplay:
    """One question. `go_on` raises where it shall end; `progress` counts tokens read."""

    weights: Weights
    command: ReplayDraws
    go_on: Callable[[], None]
    progress: Callable[[int, int], None]
    _context: Any = field(default=None, init=False)
    _batch: Batch = field(init=False)

    def answer(self) -> DrawsReplayed:
        """Raises Refusal, or what `go_on` raises."""
        command, vocabulary = self.command, self.weights.vocabulary
        positions = [asked.position for asked in command.asked]
        self._check(positions)
        check(command.sampling, vocabulary)
        chain = ReplayedChain(
            command.sampling,
            n_vocab=vocabulary.n_vocab,
            n_ctx=self.weights.n_ctx,
            vocabulary=vocabulary,
        )
        try:
            chain.see_prompt(command.token_ids[: command.n_prompt])
            needed = needed_bytes(self.weights, positions[-1])
            if free_bytes(self.weights) < needed:
                raise _no_room(needed)
            self._context = self.weights.open_beside(positions[-1] + 1)
            if not self._context:
                raise _no_room(needed)
            self._batch = Batch(self.weights.n_ubatch, 1)
            return DrawsReplayed(self._draws(chain))
        finally:
            chain.close()
            if self._context:
                llama.llama_free(self._context)
                self._context = None

    def _check(self, positions: Sequence[int]) -> None:
        command = self.command
        n_tokens, n_vocab = len(command.token_ids), self.weights.vocabulary.n_vocab
        is_ascending = list(positions) == sorted(set(positions))
        if (
            not 0 < len(positions) <= MAX_ASKED
            or not is_ascending
            or not 0 < command.n_prompt <= positions[0]
            or not positions[-1] <= n_tokens < self.weights.n_ctx + 1
            or not all(0 <= token_id < n_vocab for token_id in command.token_ids)
            or not all(map(_is_number, command.asked))
        ):
            raise Refusal("bad_setting", NONSENSE)

    def _draws(self, chain: ReplayedChain) -> list[ReplayedDraw]:
        command, n_vocab = self.command, self.weights.vocabulary.n_vocab
        candidates, found = Candidates(n_vocab), []
        read = accepted = 0
        for asked in command.asked:
            self._read(read, asked.position)
            read = asked.position
            for token_id in command.token_ids[max(command.n_prompt, accepted) : asked.position]:
                if not chain.allows(token_id):  # llama.cpp would end the process
                    raise Refusal("bad_setting", NONSENSE)
                chain.accept(token_id)
            accepted = asked.position
            scores = scores_of(self._context, self._batch.size - 1, n_vocab)
            try:
                token_id, share, left = chain.replayed(scores, candidates, asked)
            except (_Undecided, NoCandidate) as reason:
                found.append(ReplayedDraw(asked.position, -1, reason=str(reason)))
            else:
                found.append(ReplayedDraw(asked.position, token_id, share, left))
        return found

    def _read(self, start: int, end: int) -> None:
        """Tokens [start, end) into the context; the last one gives scores.

        The prompt in chunks, and the reply one by one, as it was written: read at once, scores
        differ so much (1.7 on Gemma 3 270M) that the same settings would draw other tokens.
        """
        first = start
        while first < end:
            self.go_on()
            n_left = self.command.n_prompt - first
            count = min(self.weights.n_ubatch, n_left) if n_left > 0 else 1
            tokens = self.command.token_ids[first : min(first + count, end)]
            self._batch.clear()
            self._batch.add(tokens, first, 0, want_scores=first + len(tokens) == end)
            code = llama.llama_decode(self._context, self._batch.native)
            llama.llama_synchronize(self._context)
            if code:
                self.go_on()
                raise Refusal("native_error", FAILED)
            first += len(tokens)
            self.progress(first, self.command.asked[-1].position)


def _is_number(asked: AskedDraw) -> bool:
    """Whether its numbers could have been drawn; float32 may round one up to 1."""
    return all(number is None or 0 <= number <= 1 for number in (asked.uniform, *asked.deciding))


def _no_room(needed: int) -> Refusal:
    return Refusal("out_of_memory", _NO_ROOM.format(needed=bytes_words(needed)))
