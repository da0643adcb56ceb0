"""Flash attention on and off: the same tokens, one context at a time, and refusals in words."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gguf_writer import Shape, tiny_llama
from probing import probe_of, some_ids, weights_of
from small_networks import small_network

from app.engine.process.native.native import NativeLog, llama
from app.engine.process.native.weights import Weights
from app.engine.process.probe.answers import flash as flash_module
from app.engine.process.probe.answers.flash import NEEDS_FLASH, RUNS, TOO_SHORT, compare_flash
from app.engine.process.probe.probe import Asked
from app.engine.protocol.machine_messages import FlashCompared
from app.refusal import Refusal

pytestmark = pytest.mark.weights

IDS = some_ids(100)


@pytest.fixture
def weights(tmp_path: Path, native_log: NativeLog) -> Iterator[Weights]:
    small_network(tmp_path / "small.gguf", "grouped")
    with weights_of(tmp_path / "small.gguf", native_log) as loaded:
        yield loaded


def compare(weights: Weights, ids: list[int] = IDS, **options: Any) -> FlashCompared:
    *before, found = compare_flash(weights, ids, **options)
    assert before == [None] * len(before)
    assert found is not None
    return found


def test_both_sides_are_timed_and_compared(
    weights: Weights, tmp_path: Path, native_log: NativeLog
) -> None:
    told: list[tuple[int, int]] = []
    found = compare(weights, progress=lambda done, total: told.append((done, total)))
    assert (found.n_tokens, found.n_chunk) == (100, 64)
    for side in (found.on, found.off):
        assert len(side.chunk_ms) == len(side.step_ms) == RUNS
        assert min(*side.chunk_ms, *side.step_ms) > 0
        assert side.compute_bytes > 0
    assert told == [(36, 200), (100, 200), (136, 200), (200, 200)]
    # What each side must come to: a context that is loaded so from the beginning.
    scores = {}
    for flash in ("on", "off"):
        path = tmp_path / "small.gguf"
        with weights_of(path, native_log, flash_attention=flash) as other, probe_of(other) as probe:
            (answer,) = [each for each in probe.look(Asked(IDS, ["logits"])) if each is not None]
            scores[flash] = answer.arrays["logits"]
    assert found.on.top == int(scores["on"].argmax())
    assert found.off.top == int(scores["off"].argmax())
    difference = float(np.abs(scores["on"] - scores["off"]).max())
    assert found.largest_difference == pytest.approx(difference, rel=0.5)
    assert 0 < found.largest_difference < 0.1


def test_there_is_never_more_than_one_context(
    weights: Weights, monkeypatch: pytest.MonkeyPatch
) -> None:
    n_open, most = 0, 0
    opened, free = weights.open_measured, llama.llama_free

    def open_one(n_ctx: int, *, flash_attention: bool) -> Any:
        nonlocal n_open, most
        n_open += 1
        most = max(most, n_open)
        return opened(n_ctx, flash_attention=flash_attention)

    def free_one(context: Any) -> None:
        nonlocal n_open
        n_open -= 1
        free(context)

    monkeypatch.setattr(weights, "open_measured", open_one)
    monkeypatch.setattr(flash_module.llama, "llama_free", free_one)
    compare(weights)
    assert (n_open, most) == (0, 1)
    asked = compare_flash(weights, IDS)
    next(asked)
    next(asked)
    assert n_open == 1
    del asked  # as the room does with what is stopped
    assert n_open == 0


def test_a_quantised_cache_of_values_leaves_nothing_to_compare(
    tmp_path: Path, native_log: NativeLog
) -> None:
    path = tmp_path / "wide.gguf"
    tiny_llama(path, shape=Shape(n_head=2))  # 32 wide: a whole block
    options = {"type_k": "q8_0", "type_v": "q8_0", "flash_attention": "on"}
    with weights_of(path, native_log, **options) as weights, pytest.raises(Refusal) as refused:
        compare(weights)
    assert refused.value.sentence == NEEDS_FLASH


def test_memory_is_asked_for_before(weights: Weights, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flash_module, "free_bytes", lambda _weights: 10)
    with pytest.raises(Refusal, match="memory") as refused:
        compare(weights)
    assert refused.value.kind == "out_of_memory"


@pytest.mark.parametrize(("ids", "words"), [([5], TOO_SHORT), ([5] * 300, "300 tokens")])
def test_texts_that_cannot_be_measured(weights: Weights, ids: list[int], words: str) -> None:
    with pytest.raises(Refusal, match=words):
        compare(weights, ids)


def test_a_failure_frees_its_context(weights: Weights, monkeypatch: pytest.MonkeyPatch) -> None:
    freed = []
    free = llama.llama_free
    monkeypatch.setattr(
        flash_module.llama, "llama_free", lambda each: (freed.append(each), free(each))
    )
    monkeypatch.setattr(flash_module.llama, "llama_decode", lambda *_: -1)
    with pytest.raises(Refusal, match="engine log"):
        compare(weights)
    assert len(freed) == 1
