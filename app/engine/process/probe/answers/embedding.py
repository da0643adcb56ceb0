"""The embedding matrix: the vector that each token enters the network as.

    token ID ─▶ row of token_embd.weight [n_vocab, n_embd] ─▶ (× a scale, in some files) ─▶ layer 0

It is read from the file and not from the loaded weights, which may lie on a device or be packed in
another order. A file stores it quantised; ggml's own code makes float32 of it, some thousand rows
at a time: 152,064 × 4,096 numbers would be 2.3 GiB at once. What is kept of a whole matrix is a
number or two for each token.

Tokens are compared by the cosine of their *centred* rows. All rows share a long component, the
mean row m, and with it any two of them look alike; without it a random pair has a cosine of 0:

    cos(x, y) = (x − m) · (y − m) ÷ (‖x − m‖ ‖y − m‖)

A sum of tokens (king − man + woman) is centred term by term, so that the factors, which need not
add up to one, do not bring the mean back. (Mu and Viswanath, arXiv 1702.01417; that inputs must
stay in the ranking: Nissim et al., 1905.09866.)

What must hold: memory is bounded by a chunk, whatever the matrix; a question can be dropped after
each slice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from app.engine.process.native.arrays import as_array
from app.engine.process.probe.file_tensors import FileTensors
from app.engine.process.probe.tensors import Values
from app.engine.protocol.embedding_messages import (
    MAX_NEAREST,
    MAX_ROWS,
    MAX_TERMS,
    PERCENTILES,
    DescribeEmbedding,
    EmbeddingCommand,
    EmbeddingFacts,
    EmbeddingResult,
    EmbeddingRows,
    FindNearest,
    NearestTokens,
    ReadEmbedding,
)
from app.refusal import Refusal

Progress = Callable[[int, int], None]
"""Rows that were read, of how many."""

MATRIX: Final = "token_embd.weight"
MAX_FACTOR: Final = 1000

NO_MATRIX: Final = "This file has no embedding matrix with a row for each token."
CANCELLED: Final = "These tokens cancel each other out, so no direction is left."


@dataclass(frozen=True, slots=True)
class Facts:
    """What one reading of all rows tells. `mean` [n_embd] (float64), `norms` [n_vocab]. The mean
    cosine of two different rows, over all pairs."""

    mean: Values
    norms: Values
    mean_cosine: float


@dataclass(frozen=True, slots=True)
class Nearest:
    """`scores` [n_vocab]: the cosine of each token. `best`: the IDs of the first ones."""

    scores: Values
    best: Values
    input_ranks: Values


class Embedding:
    """The matrix of one file: what was found out about it is kept. Every question is a generator:
    a slice for each `next`, None while there is more to do, then the answer. It raises Refusal."""

    def __init__(self, file: Callable[[], FileTensors], notes: Sequence[str] = ()) -> None:
        """`file` is asked at each question and may raise Refusal. `notes`: what goes along with
        each answer."""
        self._file = file
        self._notes = list(notes)
        self._facts: Facts | None = None
        self._centred_norms: Values | None = None

    def answer(
        self, command: EmbeddingCommand, progress: Progress
    ) -> Iterator[EmbeddingResult | None]:
        """What is told of it to whoever asked."""
        match command:
            case ReadEmbedding():
                return self._answer_read(command)
            case DescribeEmbedding():
                return self._answer_describe(progress)
            case FindNearest():
                return self._answer_nearest(command, progress)

    def _answer_read(self, command: ReadEmbedding) -> Iterator[EmbeddingRows | None]:
        if len(command.token_ids) > MAX_ROWS:
            raise Refusal("bad_setting", f"At most {MAX_ROWS} tokens can be read at once.")
        for rows in self.read(command.token_ids):
            if rows is None:
                yield None
            else:
                n_embd = int(rows.shape[1])
                with np.errstate(all="ignore"):
                    norms = _lengths(rows)
                yield EmbeddingRows(
                    n_embd, as_array(rows.reshape(-1)), as_array(norms), self._notes
                )

    def _answer_describe(self, progress: Progress) -> Iterator[EmbeddingFacts | None]:
        for facts in self.describe(progress):
            if facts is None:
                yield None
                continue
            norms = facts.norms[facts.norms > 0]
            spread = np.percentile(norms, PERCENTILES) if norms.size else np.zeros(len(PERCENTILES))
            yield EmbeddingFacts(
                n_vocab=len(facts.norms),
                n_embd=len(facts.mean),
                type_name=self._file().type_name(MATRIX),
                mean=as_array(facts.mean.astype(np.float32)),
                norms=as_array(spread.astype(np.float32)),
                mean_cosine=facts.mean_cosine,
                notes=self._notes,
            )

    def _answer_nearest(
        self, command: FindNearest, progress: Progress
    ) -> Iterator[NearestTokens | None]:
        terms = [(term.token_id, float(term.factor)) for term in command.terms]
        if len(terms) > MAX_TERMS:
            raise Refusal("bad_setting", f"At most {MAX_TERMS} tokens can be combined.")
        if not all(abs(factor) <= MAX_FACTOR for _, factor in terms):  # nor NaN
            raise Refusal("bad_setting", f"Factors must be between −{MAX_FACTOR} and {MAX_FACTOR}.")
        if not 1 <= command.n <= MAX_NEAREST:
            raise Refusal("bad_setting", f"Choose 1 to {MAX_NEAREST} nearest tokens.")
        for found in self.nearest(terms, command.n, progress):
            if found is None:
                yield None
                continue
            inputs = [token_id for token_id, _ in terms]
            yield NearestTokens(
                token_ids=as_array(found.best),
                cosines=as_array(found.scores[found.best]),
                input_ranks=as_array(found.input_ranks),
                input_cosines=as_array(found.scores[inputs]),
                n_vocab=len(found.scores),
                notes=self._notes,
            )

    # --- reading ------------------------------------------------------------------------------

    def read(self, token_ids: Sequence[int]) -> Iterator[Values | None]:
        """The rows of these tokens, [n_tokens, n_embd] float32, as the file has them."""
        file = self._opened()
        self._check_ids(token_ids, file)
        yield _rows_of(file, token_ids)

    def describe(self, progress: Progress) -> Iterator[Facts | None]:
        """What all rows have in common. Read once.

        The mean of the cosines of all pairs needs no pairs: with u = x ÷ ‖x‖ it is
        Σᵢ≠ⱼ uᵢ·uⱼ = ‖Σ u‖² − n, over n (n − 1).
        """
        if self._facts is not None:
            yield self._facts
            return
        file = self._opened()
        n_vocab, n_embd = file.shape(MATRIX)
        total, directions = np.zeros(n_embd), np.zeros(n_embd)
        norms = np.zeros(n_vocab, np.float32)
        for first, rows, lengths in _chunks(file):
            norms[first : first + len(rows)] = lengths
            total += rows.sum(axis=0, dtype=np.float64)
            directions += _inverse(lengths) @ rows
            progress(first + len(rows), n_vocab)
            yield None
        n_real = int(np.count_nonzero(norms))  # a row of zeros points nowhere
        pairs = max(n_real * (n_real - 1), 1)
        mean_cosine = float((directions @ directions - n_real) / pairs)
        self._facts = Facts(total / n_vocab, norms, mean_cosine)
        yield self._facts

    def nearest(
        self, terms: Sequence[tuple[int, float]], n: int, progress: Progress
    ) -> Iterator[Nearest | None]:
        """The `n` tokens that point the way that Σ factor · (x − m) does, best first. `progress`
        counts rows of all passes: the first question of a file reads it twice."""
        file = self._opened()
        inputs = [token_id for token_id, _ in terms]
        self._check_ids(inputs, file)
        passes = 1 if self._facts is not None else 2
        facts: Facts | None = None
        for facts in self.describe(lambda done, total: progress(done, passes * total)):
            if facts is None:
                yield None
        assert facts is not None
        n_vocab = len(facts.norms)
        before = (passes - 1) * n_vocab
        scores = np.zeros(n_vocab, np.float32)
        known = self._centred_norms
        norms = np.zeros(n_vocab, np.float32) if known is None else known
        mean = facts.mean.astype(np.float32)
        direction = _direction(file, terms, facts.mean)
        for first, rows, _ in _chunks(file):
            rows -= mean
            part = slice(first, first + len(rows))
            if known is None:
                norms[part] = _lengths(rows)
            scores[part] = (rows @ direction) * _inverse(norms[part])
            progress(before + first + len(rows), passes * n_vocab)
            yield None
        self._centred_norms = norms
        scores[(facts.norms == 0) | ~np.isfinite(scores)] = -1.0  # they are like nothing
        yield Nearest(scores, _best(scores, n), _ranks(scores, inputs))

    def _opened(self) -> FileTensors:
        """The file, which has a matrix. Raises Refusal."""
        file = self._file()
        if MATRIX not in file or len(file.shape(MATRIX)) != 2:
            raise Refusal("unsupported", NO_MATRIX)
        return file

    def _check_ids(self, token_ids: Sequence[int], file: FileTensors) -> None:
        n_vocab, _ = file.shape(MATRIX)
        if not token_ids or not 0 <= min(token_ids) <= max(token_ids) < n_vocab:
            sentence = f"Choose tokens with IDs from 0 to {n_vocab - 1:,}."
            raise Refusal("bad_setting", sentence)


def _rows_of(file: FileTensors, token_ids: Sequence[int]) -> Values:
    """[n_tokens, n_embd] float32."""
    return np.concatenate([file.rows(MATRIX, token_id, 1) for token_id in token_ids])


def _chunks(file: FileTensors) -> Iterator[tuple[int, Values, Values]]:
    """All rows: the number of the first one, [some, n_embd], and the length of each. A row whose
    numbers are none (a damaged file) is one of zeros."""
    for first, rows in file.chunks(MATRIX):
        lengths = _lengths(rows)
        if not np.isfinite(lengths).all():
            rows[~np.isfinite(lengths)] = 0.0
            lengths = _lengths(rows)
        yield first, rows, lengths


def _direction(file: FileTensors, terms: Sequence[tuple[int, float]], mean: Values) -> Values:
    """Σ factor · (x − m), made one long, [n_embd] float32. Raises Refusal where nothing is left."""
    factors = np.array([factor for _, factor in terms])
    inputs = _rows_of(file, [token_id for token_id, _ in terms]) - mean
    wanted = factors @ inputs
    length = np.linalg.norm(wanted)
    # What rounding leaves of a − a is no direction.
    if not length > 1e-6 * np.abs(factors) @ np.linalg.norm(inputs, axis=1):
        raise Refusal("bad_setting", CANCELLED)
    direction: Values = (wanted / length).astype(np.float32)
    return direction


def _lengths(rows: Values) -> Values:
    """‖row‖ of each, [n_rows]. Infinite, or no number, of a row that is damaged."""
    with np.errstate(over="ignore", invalid="ignore"):
        lengths: Values = np.sqrt(np.einsum("ij,ij->i", rows, rows))
    return lengths


def _inverse(lengths: Values) -> Values:
    """1 ÷ length; 0 of what has none."""
    found: Values = np.divide(1.0, lengths, out=np.zeros_like(lengths), where=lengths > 0)
    return found


def _best(scores: Values, n: int) -> Values:
    """The IDs of the `n` highest scores, best first; of equal ones the lower ID."""
    n = min(n, len(scores))
    floor = np.partition(scores, len(scores) - n)[len(scores) - n]
    among = np.flatnonzero(scores >= floor)
    return among[np.argsort(-scores[among], kind="stable")][:n].astype(np.int32)


def _ranks(scores: Values, token_ids: Sequence[int]) -> Values:
    """How many tokens stand before each of these, in the order of `_best`."""
    before = [
        np.count_nonzero(scores > scores[i]) + np.count_nonzero(scores[:i] == scores[i])
        for i in token_ids
    ]
    return np.array(before, np.int32)
