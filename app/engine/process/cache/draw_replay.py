"""Tokens of a reply drawn again: the same prefix, the same number, another chain.

    prompt and reply ──decode, in a context of its own──▶ scores of each asked position
    scores ──the other chain (sampling/replayed_chain.py), the given number──▶ token

What a slot still holds of the text is copied from there, as it was written; the rest is read token
by token: read in one pass its scores differ so much that the same settings drew another token
(Gemma 3 270M). Scores are kept for the next question, so that a value that is moved costs the chain
alone. What must hold: nothing that the cache holds is touched; stages with a memory (penalties,
DRY, the grammar) have seen just the tokens before the position.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from app.amounts import bytes_words
from app.engine.process.cache.cells import Cells, Traits
from app.engine.process.cache.kept_scores import KeptScores
from app.engine.process.cache.step_meter import free_bytes, needed_bytes
from app.engine.process.native.adapters import NO_ADAPTERS, AdapterSet
from app.engine.process.native.native import Batch, llama
from app.engine.process.native.weights import Weights
from app.engine.process.sampling.candidates import Candidates
from app.engine.process.sampling.chain import NoCandidate, check
from app.engine.process.sampling.replayed_chain import ReplayedChain, Undecided, remembers
from app.engine.process.trace.scores import scores_of
from app.engine.process.trace.shortlist import Scores
from app.engine.prompts.media import is_media
from app.engine.protocol.replay_messages import (
    MAX_ASKED,
    MAX_WALKED,
    AskedDraw,
    DrawsReplayed,
    ReplayDraws,
    ReplayedDraw,
)
from app.refusal import Refusal

NONSENSE: Final = "This reply doesn't match the loaded model."
LEFT_OFF: Final = (
    "The engine was interrupted by another request. Try again when the reply is finished."
)
PICTURES_GONE: Final = (
    "This chat's pictures are no longer in the cache, so its draws can't be replayed. Continue the "
    "chat, then try again."
)
FAILED: Final = "llama.cpp couldn't replay the reply. The engine log has the details."
_NO_ROOM: Final = (
    "Replaying the reply needs another {needed} of memory, which isn't free. Close other "
    "programs or choose a shorter chat."
)
_WORTH_COPYING: Final = 32
"""Fewer tokens are read as fast as they are copied."""


@dataclass(slots=True)
class DrawReplay:
    """One question. `go_on` raises where it shall end; `progress` counts tokens read."""

    weights: Weights
    command: ReplayDraws
    go_on: Callable[[], None]
    progress: Callable[[int, int], None]
    kept: KeptScores = field(default_factory=KeptScores)
    slots: Iterable[Cells] = ()
    traits: Traits = field(default_factory=Traits)
    _context: Any = field(default=None, init=False)
    _adapters: AdapterSet = field(default=NO_ADAPTERS, init=False)
    _batch: Batch = field(init=False)
    _cells: Cells = field(init=False)

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
            chain.see_prompt([i for i in command.token_ids[: command.n_prompt] if not is_media(i)])
            self._adapters = self.weights.adapter_set(command.adapters)
            self.kept.begin(command.token_ids, command.n_prompt, self._adapters.key)
            return self._draws(chain)
        finally:
            chain.close()
            if self._context:
                llama.llama_free(self._context)
                self._context = None

    def _open(self) -> None:
        """A context for all positions that have to be read, with what a slot holds of them."""
        missing = [a.position for a in self.command.asked if self.kept.get(a.position) is None]
        source, length = self._source(self.command.token_ids[: missing[0] - 1])
        n_cells = max(missing[-1], 0 if source is None else len(source.ids))
        needed = needed_bytes(self.weights, n_cells)
        if free_bytes(self.weights) < needed:
            raise _no_room(needed)
        self._context = self.weights.open_beside(n_cells + 1, adapters=self._adapters)
        if not self._context:
            raise _no_room(needed)
        self._batch = Batch(self.weights.n_ubatch, 1)
        self._cells = Cells(self._context, 0, self.traits)
        data = None if source is None else source.save()
        if source is not None and data is not None and self._cells.restore(data, source.ids):
            self._cells.cut(length)
        if any(map(is_media, self.command.token_ids[len(self._cells) :])):
            raise Refusal("bad_setting", PICTURES_GONE)

    def _source(self, ids: Sequence[int]) -> tuple[Cells | None, int]:
        """The slot that holds most of these first tokens, so that a copy of it can be gone on from
        behind them; and how many it holds."""

        def there(cells: Cells) -> int:
            length = cells.common_prefix(ids, self._adapters.key)
            first = cells.first_position_of_copy
            is_usable = self.traits.usable(len(cells.ids), first, length) is None
            return length if length >= _WORTH_COPYING and is_usable else 0

        source = max(self.slots, key=there, default=None)
        return (None, 0) if source is None or not there(source) else (source, there(source))

    def _check(self, positions: Sequence[int]) -> None:
        command = self.command
        n_tokens, n_vocab = len(command.token_ids), self.weights.vocabulary.n_vocab
        most = MAX_WALKED if remembers(command.sampling.select) else MAX_ASKED
        is_ascending = list(positions) == sorted(set(positions))
        if (
            not 0 < len(positions) <= most
            or not is_ascending
            or not 0 < command.n_prompt <= positions[0]
            or not positions[-1] <= n_tokens < self.weights.n_ctx + 1
            or not all(
                0 <= token_id < n_vocab or (is_media(token_id) and at < command.n_prompt)
                for at, token_id in enumerate(command.token_ids)
            )
            or not all(map(_is_number, command.asked))
            or not all(0 <= t < n_vocab for asked in command.asked for t in asked.banned)
        ):
            raise Refusal("bad_setting", NONSENSE)

    def _draws(self, chain: ReplayedChain) -> DrawsReplayed:
        command, ids = self.command, self.command.token_ids
        candidates, found = Candidates(self.weights.vocabulary.n_vocab), []
        accepted = command.n_prompt
        for nth, asked in enumerate(command.asked):
            for token_id in ids[accepted : asked.position]:
                if not chain.allows(token_id):  # llama.cpp would end the process
                    raise Refusal("bad_setting", NONSENSE)
                chain.accept(token_id)
            accepted = asked.position
            written = ids[asked.position] if asked.position < len(ids) else -1
            explain = command.explain and nth + 1 == len(command.asked)
            self.go_on()
            scores = self._scores(asked.position)
            try:
                drawn = chain.replayed(scores, candidates, asked, written=written, explain=explain)
            except (Undecided, NoCandidate) as reason:
                found.append(ReplayedDraw(asked.position, -1, reason=str(reason)))
                continue
            found.append(ReplayedDraw(asked.position, drawn.token_id, drawn.share, drawn.left))
            if command.until_change and drawn.token_id != written:
                break
        return DrawsReplayed(found, chain.explained)

    def _scores(self, position: int) -> Scores:
        """What the token at this position is drawn from."""
        kept = self.kept.get(position)
        if kept is None:
            if not self._context:
                self._open()
            self._read(position)
            kept = scores_of(self._context, self._batch.size - 1, self.weights.vocabulary.n_vocab)
            self.kept.put(position, kept)
        return kept

    def _read(self, end: int) -> None:
        """Tokens up to `end` into the context; the last one gives scores.

        The prompt in chunks, and the reply one by one, as it was written: read at once, scores
        differ so much (1.7 on Gemma 3 270M) that the same settings would draw other tokens.
        """
        while (first := len(self._cells)) < end:
            self.go_on()
            n_left = self.command.n_prompt - first
            count = min(self.weights.n_ubatch, n_left) if n_left > 0 else 1
            tokens = self.command.token_ids[first : min(first + count, end)]
            self._batch.clear()
            at = self._cells.position(first)
            self._batch.add(tokens, at, 0, want_scores=first + len(tokens) == end)
            code = llama.llama_decode(self._context, self._batch.native)
            llama.llama_synchronize(self._context)
            if code:
                self.go_on()
                raise Refusal("native_error", FAILED)
            self._cells.extend(tokens)
            self.progress(len(self._cells), self.command.asked[-1].position)


def _is_number(asked: AskedDraw) -> bool:
    """Whether its numbers could have been drawn; float32 may round one up to 1."""
    numbers = (asked.uniform, asked.again, *asked.deciding, *asked.deciding_again)
    return all(number is None or 0 <= number <= 1 for number in numbers)


def _no_room(needed: int) -> Refusal:
    return Refusal("out_of_memory", _NO_ROOM.format(needed=bytes_words(needed)))
