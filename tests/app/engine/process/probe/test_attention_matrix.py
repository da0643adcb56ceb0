"""The matrix of a layer: rows that are replayed one after the other, and what proves each of them.

What `main.py inside --token i` saves, on both files for tests; and the network in numpy, on a small
file in float32 with a window. Rows are asked for as the panel does: the earliest first, of one
layer.
"""

from __future__ import annotations

import contextlib
import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from probing import PLAIN, look, probe_of, some_ids, weights_of
from reference_checks import EXACT, HALF
from reference_network import Network
from small_networks import WINDOW, small_network

from app.chat.inspection.inside import ROW_WANTED
from app.command_line import inside
from app.engine.process.native.native import NativeLog
from app.engine.process.probe.probe import Probe
from app.insight.inside.attention_matrix import AttentionMatrix, Cell, HeadRow

pytestmark = pytest.mark.weights

TEXT = "The capital of France is"


def matrix_of(probe: Probe, ids: list[int], layer: int) -> AttentionMatrix:
    """Of the whole text."""
    made = AttentionMatrix(len(ids) - 1)
    for place in made.places:
        asked = ids[: place + 1]
        found = look(probe, asked, ROW_WANTED, layers=[layer], only_layers=True)
        assert place == 0 or found.n_read == 0, "nothing is read twice"
        arrays = found.arrays
        row = HeadRow(arrays["attention"][0], arrays["q_after"][layer], arrays["k_after"][layer])
        made.put(place, row)
    return made


def heads_of(matrix: AttentionMatrix, n_head: int) -> np.ndarray[Any, Any]:
    """[n_head, n_rows, n_columns]."""
    return np.stack([matrix.shares(head) for head in range(n_head)])


def saved(gguf: Path, folder: Path, token: int) -> tuple[list[int], np.ndarray[Any, Any]]:
    """The text and the attention that the command saves, [n_layer, n_head, n_tok]."""
    path = folder / "out.npz"
    argv = ["--raw", "--gguf", str(gguf), "--ctx", "256", "--threads", "1", "--gpu-layers", "0"]
    with contextlib.redirect_stdout(io.StringIO()):
        assert inside.main([TEXT, *argv, "--token", str(token), "--out", str(path)]) == 0
    with np.load(path) as file:
        return file["token_ids"].tolist(), np.asarray(file["attention"])


@pytest.mark.soak
@pytest.mark.parametrize("fixture", ["starter_gguf", "gemma_gguf"])
def test_each_row_is_the_attention_that_the_command_saves(
    forked_engines: None,
    request: pytest.FixtureRequest,
    fixture: str,
    tmp_path: Path,
    native_log: NativeLog,
) -> None:
    gguf = request.getfixturevalue(fixture)
    ids, last = saved(gguf, tmp_path, -1)
    with weights_of(gguf, native_log) as weights, probe_of(weights) as probe:
        layers = (0, weights.n_layer // 2, weights.n_layer - 1)
        matrices = [matrix_of(probe, ids, layer) for layer in layers]
        n_head = weights.loaded.n_head
    wanted = {2: saved(gguf, tmp_path, 2)[1], len(ids) - 1: last}
    for token, attention in wanted.items():
        for layer, matrix in zip(layers, matrices, strict=True):
            found = heads_of(matrix, n_head)[:, token]
            assert np.abs(found - attention[layer]).max() < HALF, (token, layer)
            assert found.sum(axis=1) == pytest.approx(1, abs=1e-5)
    for matrix in matrices:
        formulas = [
            matrix.formula(head, row, column)
            for head in range(n_head)
            for row in range(len(ids))
            for column in range(row + 1)
        ]
        assert None not in formulas


@pytest.mark.parametrize("flash", ["off", "on"])
@pytest.mark.parametrize("kind", ["window", "grouped", "capped"])
def test_each_row_is_what_the_network_in_numpy_computes(
    tmp_path: Path, native_log: NativeLog, kind: str, flash: str
) -> None:
    path, ids = tmp_path / "small.gguf", some_ids(2 * WINDOW + 2)
    small_network(path, kind)
    network = Network(path)
    reading = network.read(ids)
    apart = EXACT if flash == "off" else HALF
    kinds = set()
    with weights_of(path, native_log, **(PLAIN | {"flash_attention": flash})) as weights:
        for layer in range(network.n_layer):
            with probe_of(weights) as probe:
                matrix = matrix_of(probe, ids, layer)
            found = heads_of(matrix, network.n_head)
            assert np.abs(found - reading.attention[layer]).max() < apart
            assert found.sum(axis=2) == pytest.approx(1, abs=1e-5)
            seen = reading.visible[layer]
            assert ((matrix.cells == Cell.SEEN) == seen).all()
            assert (found[:, ~seen] == 0).all()
            kinds |= {Cell(kind) for kind in matrix.cells.flat}
            for head, row, column in np.ndindex(found.shape):
                formula = matrix.formula(head, row, column)
                if kind == "capped" and formula is not None:
                    # A row whose scores the cap hardly bends.
                    share = np.exp(formula.score - formula.total)
                    assert share == pytest.approx(found[head, row, column], abs=0.02)
                elif kind != "capped":
                    assert (formula is not None) == bool(seen[row, column])
    assert (Cell.OUTSIDE in kinds) == (kind != "grouped")
    assert len(ids) > 2 * WINDOW
