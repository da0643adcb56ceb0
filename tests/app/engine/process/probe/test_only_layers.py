"""Attention of chosen layers: the others are not sent, so that a long text's fits its frames."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gguf_writer import Shape, tiny_llama
from recurrent_gguf import tiny_jamba

from app.engine.process.native.native import NativeLog
from app.engine.process.probe.probe import Asked, Looked, Probe

IDS = [5, 6, 7, 8, 9]


def _look(path: Path, log: NativeLog, **fields: Any) -> list[Looked]:
    """What is found with these fields, and all there is."""
    from native_session import load_quietly

    weights = load_quietly(path, log, n_ctx=256, n_threads=1)
    probe = Probe(weights)
    try:
        answers = []
        for asked in (Asked(IDS, ["attention"], **fields), Asked(IDS, ["attention"])):
            (found,) = [each for each in probe.look(asked) if each is not None]
            answers.append(found)
        return answers
    finally:
        probe.close()
        weights.close()


@pytest.mark.weights
def test_only_the_rows_of_the_layers_come(tmp_path: Path, native_log: NativeLog) -> None:
    path = tmp_path / "four.gguf"
    tiny_llama(path, shape=Shape(n_layer=4))
    some, whole = _look(path, native_log, layers=[3, 1], only_layers=True)
    rows = whole.arrays["attention"]
    assert rows.shape[0] == 4
    assert np.array_equal(some.arrays["attention"], rows[[3, 1]])


@pytest.mark.weights
def test_a_layer_without_attention_has_no_numbers(tmp_path: Path, native_log: NativeLog) -> None:
    path = tmp_path / "jamba.gguf"
    tiny_jamba(path)
    some, whole = _look(path, native_log, layers=[1, 2], only_layers=True)
    rows = some.arrays["attention"]
    assert np.array_equal(rows[0], whole.arrays["attention"][1])
    assert np.isnan(rows[1]).all()
