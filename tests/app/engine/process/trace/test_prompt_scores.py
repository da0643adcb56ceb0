"""How probable the prompt was, against a naive softmax over scores that were read row by row."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest
from native_session import GREEDY, NativeSession

from app.engine.process.native.native import NativeLog, llama
from app.engine.process.native.weights import Weights
from app.engine.process.trace.prompt_scores import PromptScorer
from app.engine.process.trace.scores import scores_of
from app.engine.protocol.messages import PromptScores


def naive(scores: np.ndarray, token_id: int) -> tuple[float, int]:
    """Written as the formula says, in float64. Of equal scores the lower ID comes first."""
    wide = scores.astype(np.float64)
    weights = np.exp(wide - wide.max())
    probabilities = weights / weights.sum()
    n_before = (wide > wide[token_id]).sum() + (wide[:token_id] == wide[token_id]).sum()
    return float(np.log(probabilities[token_id])), int(n_before) + 1


def test_against_a_naive_softmax() -> None:
    source = np.random.default_rng(5)
    scorer = PromptScorer(300)
    for _ in range(50):
        scores = source.normal(0, 8, 300).astype(np.float32)
        token_id = int(source.integers(300))
        logprob, rank = scorer.score(scores, token_id)
        expected, expected_rank = naive(scores, token_id)
        assert logprob == pytest.approx(expected, abs=1e-12)
        assert rank == expected_rank


def test_candidates_that_are_impossible() -> None:
    scores = np.array([0.0, -np.inf, 0.0], np.float32)
    assert PromptScorer(3).score(scores, 0) == (pytest.approx(np.log(0.5)), 1)
    assert PromptScorer(3).score(scores, 1) == (-np.inf, 3)


def scored(session: NativeSession, ids: list[int], **fields: object) -> list[PromptScores]:
    request_id = session.add(ids, max_tokens=1, score_prompt=True, **fields)
    session.run()
    return [event for event in session.of(request_id) if isinstance(event, PromptScores)]


def joined(chunks: list[PromptScores]) -> tuple[list[int], np.ndarray, np.ndarray]:
    ids = [token_id for chunk in chunks for token_id in chunk.token_ids]
    logprobs = np.concatenate([np.frombuffer(c.logprobs.check().data, "<f4") for c in chunks])
    ranks = np.concatenate([np.frombuffer(c.ranks.check().data, "<i4") for c in chunks])
    return ids, logprobs, ranks


def row_by_row(weights: Weights, ids: list[int]) -> list[tuple[float, int]]:
    """One decode per token, and the naive softmax."""
    llama.llama_memory_clear(weights.memory, True)
    results = []
    for position, token_id in enumerate(ids[:-1]):
        array = (llama.llama_token * 1)(token_id)
        assert llama.llama_decode(weights.context, llama.llama_batch_get_one(array, 1)) == 0
        results.append(
            naive(scores_of(weights.context, 0, weights.vocabulary.n_vocab), ids[position + 1])
        )
    llama.llama_memory_clear(weights.memory, True)
    return results


@pytest.mark.weights
def test_every_prompt_token_but_the_first(session: NativeSession, starter: Weights) -> None:
    ids = starter.vocabulary.tokenize(
        "The capital of France is Paris, and the capital of Italy is Rome. Nobody doubts it.",
        special=False,
    )
    chunks = scored(session, ids)
    token_ids, logprobs, ranks = joined(chunks)
    assert token_ids == ids[1:]
    assert [chunk.start for chunk in chunks] == [1 + 16 * i for i in range(len(chunks))]
    assert len(chunks) > 1
    expected = row_by_row(starter, ids)
    # Rows of a chunk are computed in another order than single ones: measured 0.12.
    assert np.max(np.abs(logprobs - [logprob for logprob, _ in expected])) < 0.5
    assert np.mean([abs(a - b[1]) / b[1] for a, b in zip(ranks, expected, strict=True)]) < 0.2


@pytest.mark.weights
def test_all_rows_of_262k_candidates_in_bounded_memory(
    gemma: Weights, native_log: NativeLog
) -> None:
    ids = gemma.vocabulary.tokenize("One, two, three, four, five, six, seven, " * 3)[:40]
    chunks = scored(NativeSession(gemma, native_log), ids)
    token_ids, logprobs, _ = joined(chunks)
    assert token_ids == ids[1:]
    assert max(len(chunk.token_ids) for chunk in chunks) <= 16
    # The text repeats itself, so it is less surprising every time.
    assert logprobs[-10:].mean() > logprobs[:10].mean()


@pytest.mark.weights
def test_nothing_is_reused_and_the_same_shape_gives_the_same_bits(
    made_session: NativeSession,
) -> None:
    session, ids = made_session, [100 + i % 400 for i in range(40)]
    plain = session.reply(ids, max_tokens=2)
    first, second = scored(session, ids, repeatable=True), scored(session, ids, repeatable=True)
    assert plain.evaluated == len(ids)
    for request_id in (2, 3):
        assert session.ending(request_id).result.evaluated == len(ids)
    assert [c.logprobs.data for c in first] == [c.logprobs.data for c in second]


@pytest.mark.weights
def test_scoring_beside_somebody_who_writes(made_session: NativeSession) -> None:
    session = made_session
    writer = session.add(
        [30, 40, 50], msgspec.structs.replace(GREEDY, ban_end_token=True), max_tokens=30
    )
    while len(session.tokens(writer)) < 2:
        session.scheduler.step()
    ids = [100 + i % 400 for i in range(30)]
    token_ids, logprobs, _ = joined(scored(session, ids))
    assert token_ids == ids[1:]
    assert np.isfinite(logprobs).all()
    assert session.ending(writer).result.generated == 30


@pytest.mark.weights
def test_a_prompt_of_one_token_has_nothing_to_score(made_session: NativeSession) -> None:
    assert scored(made_session, [100]) == []


def in_the_same_steps(weights: Weights, ids: list[int], step: int) -> list[tuple[float, int]]:
    """The naive softmax over llama.cpp's own logits, read in steps of the same size."""
    llama.llama_memory_clear(weights.memory, True)
    batch = llama.llama_batch_init(step, 0, 1)
    results = []
    for start in range(0, len(ids), step):
        part = ids[start : start + step]
        batch.n_tokens = len(part)
        for row, token_id in enumerate(part):
            batch.token[row], batch.pos[row] = token_id, start + row
            batch.n_seq_id[row], batch.seq_id[row][0], batch.logits[row] = 1, 0, 1
        assert llama.llama_decode(weights.context, batch) == 0
        for row in range(len(part)):
            if start + row + 1 < len(ids):
                logits = llama.llama_get_logits_ith(weights.context, row)
                scores = np.ctypeslib.as_array(logits, (weights.vocabulary.n_vocab,))
                results.append(naive(scores, ids[start + row + 1]))
    llama.llama_batch_free(batch)
    llama.llama_memory_clear(weights.memory, True)
    return results


@pytest.mark.weights
@pytest.mark.parametrize("name", ["starter", pytest.param("gemma", marks=pytest.mark.soak)])
def test_in_the_same_steps_it_is_the_softmax_of_the_native_logits(
    name: str, request: pytest.FixtureRequest, native_log: NativeLog
) -> None:
    weights: Weights = request.getfixturevalue(name)
    ids = weights.vocabulary.tokenize(
        "<|im_start|>user\nWhat is the capital of France?<|im_end|>\n<|im_start|>assistant\n",
        special=True,
    )
    chunks = scored(NativeSession(weights, native_log), ids)
    _, logprobs, ranks = joined(chunks)
    expected = in_the_same_steps(weights, ids, len(chunks[0].token_ids))
    assert logprobs == pytest.approx([logprob for logprob, _ in expected], abs=1e-5)
    assert list(ranks) == [rank for _, rank in expected]
