"""What may not follow in a beam search: the part of a reply's settings that forbids tokens.

Probabilities stay as they are: what is forbidden is passed over, and its share is dealt to nobody.
Everything else in a chain (temperature, penalties, biases, filters) makes other numbers of the
model's own, which a search ranks by; so it does not apply, and that is said.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from app.engine.process.beams.search import LogProbs, Node
from app.engine.process.native.vocabulary import Vocabulary
from app.engine.process.sampling.candidates import Candidates
from app.engine.process.sampling.grammar import Grammar, new_grammar
from app.engine.process.sampling.registry import biases_of
from app.engine.protocol.beam_messages import SearchBeams
from app.engine.protocol.stages import Dry, LogitBias, Penalties

NOT_APPLIED: Final = (
    "Penalties, biases and banned strings don't apply to beams, which are ranked by the model's "
    "own probabilities."
)

_TRIED: Final = 64
"""Candidates that a grammar is asked about one by one, before it is asked about all."""


@dataclass(slots=True)
class Forbidding:
    """What may not follow: banned tokens, end tokens that come too early, what a grammar refuses.
    A node's grammar is made from its parent's when it is first asked for."""

    command: SearchBeams
    vocabulary: Vocabulary
    end_ids: Sequence[int]
    _banned: list[int] = field(default_factory=list)
    _grammars: dict[int, Grammar] = field(default_factory=dict)
    _candidates: Candidates | None = None

    def __post_init__(self) -> None:
        sampling, vocabulary = self.command.sampling, self.vocabulary
        for stage in sampling.filters:
            if isinstance(stage, LogitBias):
                biases = biases_of(stage, vocabulary)
                self._banned += [token for token, bias in biases.items() if bias == -np.inf]
        grammar = new_grammar(sampling.grammar, sampling.json_schema, vocabulary)
        if grammar is not None:
            self._grammars[0] = grammar
            self._candidates = Candidates(vocabulary.n_vocab)
            self._see_reply(grammar)

    def _see_reply(self, grammar: Grammar) -> None:
        """As a reply that is continued: text that does not fit leaves the grammar at its start."""
        ahead = grammar.clone()
        for token_id in self.command.token_ids[self.command.n_prompt :]:
            if not ahead.allows(token_id):
                ahead.close()
                return
            ahead.accept(token_id)
        grammar.close()
        self._grammars[0] = ahead

    def __call__(self, node: Node, logprobs: LogProbs) -> LogProbs:
        sampling = self.command.sampling
        n_written = len(self.command.token_ids) - self.command.n_prompt + node.step
        logprobs[self._banned] = -np.inf
        if sampling.ban_end_token or n_written < sampling.min_tokens:
            logprobs[list(self.end_ids)] = -np.inf
        if self._grammars:
            self._bind(self._grammar_of(node), logprobs)
        return logprobs

    def _grammar_of(self, node: Node) -> Grammar:
        if node.number not in self._grammars:
            assert node.parent is not None
            grammar = self._grammar_of(node.parent).clone()
            self._grammars[node.number] = grammar
            grammar.accept(node.token_id)
        return self._grammars[node.number]

    def _bind(self, grammar: Grammar, logprobs: LogProbs) -> None:
        """Testing a token takes microseconds, the vocabulary up to 95 ms (`grammar.py`)."""
        wanted = 2 * self.command.width + len(self.end_ids)
        tried = min(max(_TRIED, wanted), len(logprobs))
        likely = np.argpartition(logprobs, len(logprobs) - tried)[-tried:]
        allowed = [int(i) for i in likely if np.isfinite(logprobs[i]) and grammar.allows(int(i))]
        if len(allowed) < min(wanted, len(logprobs)):
            assert self._candidates is not None
            self._candidates.fill(logprobs.astype(np.float32))
            _ = self._candidates.reference
            grammar.mask(self._candidates)
            allowed = np.flatnonzero(self._candidates.view["logit"] > -np.inf).tolist()
        kept = logprobs[allowed].copy()
        logprobs[:] = -np.inf
        logprobs[allowed] = kept

    def forget_all_but(self, following: Sequence[Node]) -> None:
        """Free the grammars that the ones of these nodes are not made from."""
        kept = {node.parent.number for node in following if node.parent is not None}
        for number in [number for number in self._grammars if number not in kept]:
            self._grammars.pop(number).close()

    def close(self) -> None:
        for grammar in self._grammars.values():
            grammar.close()
        self._grammars.clear()


def would_be_shaped(command: SearchBeams) -> bool:
    """Whether a reply of these settings would be ranked by other numbers than the model's own, in
    a way that nobody would guess of a search."""
    sampling = command.sampling
    if sampling.banned_strings:
        return True
    for stage in sampling.filters:
        if isinstance(stage, LogitBias) and any(not bias.ban for bias in stage.biases):
            return True
        if isinstance(stage, Dry) and stage.multiplier:
            return True
        if isinstance(stage, Penalties) and stage.last_n and _acts(stage):
            return True
    return False


def _acts(stage: Penalties) -> bool:
    return stage.repeat != 1.0 or stage.frequency != 0.0 or stage.presence != 0.0
