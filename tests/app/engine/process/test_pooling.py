"""Vectors of texts, against llama-cpp-python's own way to the same."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from native_session import load_quietly

from app.engine.process.native.native import Batch, NativeLog, llama
from app.engine.process.native.weights import Weights
from app.engine.process.pooling.room import CHUNK, PoolingRoom
from app.engine.protocol.messages import Event, Failed, Finished, Stopped
from app.engine.protocol.pooling_messages import EmbedTexts, TextsEmbedded

TEXTS = [[5, 6, 7], [9, 8, 7, 6, 5, 4] * (CHUNK // 2), [300]]


@pytest.fixture(scope="module")
def weights(made_gguf: Path, native_log: NativeLog) -> Iterator[Weights]:
    found = load_quietly(made_gguf, native_log, n_ctx=256, n_ubatch=64, n_threads=1, n_slots=1)
    yield found
    found.close()


def _run(weights: Weights, inputs: list[list[int]], stop: bool = False) -> list[Event]:
    events: list[Event] = []
    room = PoolingRoom(weights, events.append)
    room.ask(EmbedTexts(1, inputs))
    room.step()
    if stop:
        room.stop(1)
    while room.has_work(beside_replies=False):
        room.step()
    return events


def _vectors(weights: Weights, inputs: list[list[int]]) -> np.ndarray:
    (ending,) = _run(weights, inputs)
    assert isinstance(ending, Finished), ending
    assert isinstance(ending.result, TextsEmbedded)
    numbers = np.array(ending.result.vectors.numbers())
    return numbers.reshape(ending.result.n, ending.result.n_embd)


def test_they_are_the_mean_as_llama_cpp_takes_it(weights: Weights) -> None:
    """Its own pooling, in a context that was made for it, over whole texts."""
    found = _vectors(weights, TEXTS)
    assert np.linalg.norm(found, axis=1) == pytest.approx(1.0)
    params = llama.llama_context_default_params()
    params.n_ctx = params.n_batch = params.n_ubatch = 256
    params.n_threads = params.n_threads_batch = 1
    params.embeddings = True
    params.pooling_type = llama.LLAMA_POOLING_TYPE_MEAN
    context = llama.llama_init_from_model(weights.model, params)
    try:
        for ids, vector in zip(TEXTS, found, strict=True):
            llama.llama_memory_clear(llama.llama_get_memory(context), True)
            batch = Batch(256, 1)
            batch.add(ids, 0, 0, want_scores=True, want_all=True)
            assert llama.llama_decode(context, batch.native) == 0
            native = llama.llama_get_embeddings_seq(context, 0)
            expected = np.ctypeslib.as_array(native, (len(vector),)).astype(float)
            assert vector == pytest.approx(expected / np.linalg.norm(expected), abs=2e-3)
    finally:
        llama.llama_free(context)


def test_a_text_has_the_same_vector_alone_and_beside_others(weights: Weights) -> None:
    together = _vectors(weights, TEXTS)
    for ids, vector in zip(TEXTS, together, strict=True):
        assert _vectors(weights, [ids])[0] == pytest.approx(vector, abs=1e-6)


@pytest.mark.parametrize(
    ("inputs", "sentence"),
    [
        ([], "Send 1 to"),
        ([[5], []], "is empty"),
        ([[10**6]], "outside 0 to"),
        ([[5] * 300], "has 300 tokens"),
    ],
)
def test_what_has_no_vector_is_a_sentence(
    weights: Weights, inputs: list[list[int]], sentence: str
) -> None:
    (ending,) = _run(weights, inputs)
    assert isinstance(ending, Failed)
    assert sentence in ending.sentence


def test_it_can_be_stopped(weights: Weights) -> None:
    (ending,) = _run(weights, TEXTS, stop=True)
    assert isinstance(ending, Stopped)
