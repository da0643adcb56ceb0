"""What heads do: the scores of made-up attention are known, and those of real heads do not depend
on how attention is computed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from native_session import load_quietly
from small_networks import small_network

from app.engine.process.native.native import NativeLog
from app.engine.process.probe.answers import behaviour
from app.engine.process.probe.answers.behaviour import (
    N_RANDOM,
    N_TIMES,
    HeadScores,
    random_text,
    scores_of_rows,
)
from app.engine.process.probe.probe import Probe
from app.engine.process.scheduling.scheduler import traits_of
from app.engine.protocol.inside_messages import HEAD_SCORES


def test_the_text_is_a_start_and_four_times_the_same_tokens() -> None:
    ids = random_text(1, range(100, 900), seed=3)
    assert ids[0] == 1
    assert len(ids) == 1 + N_RANDOM * N_TIMES
    first = ids[1 : 1 + N_RANDOM]
    assert len(set(first)) == N_RANDOM
    assert ids[1:] == first * N_TIMES
    assert ids != random_text(1, range(100, 900), seed=4)


def looks(ids: list[int], target: str) -> np.ndarray:
    """[n_tok, 1, n_tok] of a head that looks at one place, by its definition in words."""
    n = len(ids)
    rows = np.zeros((n, 1, n), np.float32)
    for i in range(n):
        equal = [j for j in range(i) if ids[j] == ids[i]]
        places = {
            "previous": [max(i - 1, 0)],
            "duplicate": equal,
            "induction": [j + 1 for j in equal],
            "sink": [0],
            "everywhere": list(range(i + 1)),
        }[target]
        for j in places or [i]:
            rows[i, 0, j] += 1 / len(places or [i])
    return rows


@pytest.mark.parametrize("target", ["previous", "duplicate", "induction", "sink"])
def test_a_head_that_does_one_thing_has_that_score(target: str) -> None:
    ids = random_text(1, range(100, 900), seed=0)
    found = dict(zip(HEAD_SCORES, scores_of_rows(looks(ids, target), ids)[0], strict=True))
    assert found[target] == pytest.approx(1.0, abs=1e-6)
    others = [v for k, v in found.items() if k not in (target, "entropy")]
    # The first tokens have nobody but the start to look at, and look there or at themselves.
    assert max(others) < 0.05
    # Of up to three equal tokens one takes as much as another: that is all the entropy there is.
    assert found["entropy"] < np.log2(N_TIMES - 1) / np.log2(2 * N_RANDOM)


def test_a_head_that_looks_everywhere_has_all_the_entropy() -> None:
    ids = random_text(1, range(100, 900), seed=0)
    found = dict(zip(HEAD_SCORES, scores_of_rows(looks(ids, "everywhere"), ids)[0], strict=True))
    assert found["entropy"] == pytest.approx(1.0, abs=1e-6)


def measured(
    path: Path, log: NativeLog, flash: str, tokens: range = range(1000, 9000), **options: Any
) -> np.ndarray:
    options |= {"n_ctx": 512, "n_threads": 1, "n_gpu_layers": 0, "flash_attention": flash}
    weights = load_quietly(path, log, **options)
    probe = Probe(weights, traits=traits_of(weights))
    try:
        scores = HeadScores(probe, weights.n_layer, weights.loaded.n_head)
        for _ in scores.run(1, tokens):
            pass
        return scores.result
    finally:
        probe.close()
        weights.close()


@pytest.mark.parametrize("kind", ["grouped", "window"])
def test_flash_attention_changes_no_score_of_small_networks(
    kind: str, tmp_path: Path, native_log: NativeLog
) -> None:
    small_network(tmp_path / "small.gguf", kind)
    on, off = (
        measured(tmp_path / "small.gguf", native_log, flash, range(4, 60))
        for flash in ("on", "off")
    )
    assert not np.isnan(on).any()
    assert np.abs(on - off).max() < 0.012


@pytest.mark.soak
def test_flash_attention_changes_no_score(
    starter_gguf: Path, native_log: NativeLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(behaviour, "N_TEXTS", 2)
    on, off = (measured(starter_gguf, native_log, flash) for flash in ("on", "off"))
    assert not np.isnan(on).any()
    # Half-precision keys and another order of sums move single weights of a row by up to 0.012.
    assert np.abs(on - off).max() < 0.012
    # Small models have induction heads too (Olsson et al.), and most heads are none.
    induction = on[:, :, HEAD_SCORES.index("induction")]
    assert induction.max() > 0.5
    assert np.median(induction) < 0.1


@pytest.mark.parametrize("kind", ["grouped", "window"])
def test_a_batch_that_leaves_one_token_over_changes_no_score(
    kind: str, tmp_path: Path, native_log: NativeLog
) -> None:
    small_network(tmp_path / "small.gguf", kind)
    # 101 tokens end in 37, or in a single one, which has another graph.
    many, one = (
        measured(tmp_path / "small.gguf", native_log, "off", range(4, 60), n_ubatch=n_ubatch)
        for n_ubatch in (64, 50)
    )
    assert not np.isnan(many).any()
    np.testing.assert_allclose(one, many, atol=1e-3)
