"""The probe's arrays against the network in numpy: what two test files ask of them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest
from probing import Arrays, distance
from reference_network import Network, Reading
from reference_weights import Values

from app.engine.process.probe.probe import N_LENS

EXACT: Final = 1e-4
"""Relative, of whole vectors. float32 has 1.2e-7, and sums of some hundred numbers that cancel lose
a digit or two; Gemmas look GELU up in a table of float16. 6e-5 measured, of a Gemma's FFN."""

ONE_ROUNDING: Final = 0.02
"""Relative, of whole vectors: a few roundings to 8 bits that fell the other way. The length of a
block is about a quarter of 32 · its largest number, so that one of them moves it by 0.3 %, and an
FFN's product makes more of it: 0.8 % measured."""

HALF: Final = 0.005
"""Relative, of whole vectors: keys, values and their sums in float16 (0.05 %) over 20 tokens:
0.14 % measured."""

ALL_ROUNDINGS: Final = 0.2
"""Relative, of whole vectors: what all roundings of the way add up to. An 8-bit rounding moves a
product by about 0.7 %; over some 200 products of which most feed the next, 13 % measured."""

FLASH_OR_NOT: Final = pytest.mark.parametrize("flash", ["off", "on"])
FLASH: Final = ("off", "on")
PIECES: Final = ("q_before", "q_after", "k_after", "attn_out", "ffn_out", "residual")
"""Whose products round nothing but their input."""


@dataclass
class Case:
    """A network and what the probe found at each token of a text."""

    path: Path
    ids: list[int]
    found: list[Arrays]

    @property
    def last(self) -> Arrays:
        return self.found[-1]

    @cached_property
    def exact(self) -> Network:
        """What the file says."""
        return Network(self.path)

    @cached_property
    def as_cpu(self) -> Network:
        """The same, rounded as the processor rounds."""
        return Network(self.path, as_cpu=True)

    @cached_property
    def said(self) -> Values:
        """What the last token's stream says after each layer, so rounded, [n_layer, n_vocab]."""
        return self.as_cpu.scores(self.last["residual"])


def piecewise(network: Network, found: list[Arrays]) -> Reading:
    """Each piece of each layer, of the input that it had in the graph."""
    x = np.stack([arrays["embedding"] for arrays in found])
    reading = Reading(x)
    for layer in range(network.n_layer):
        heads, attn_out, ffn_out, residual = (
            np.stack([arrays[name][layer] for arrays in found])
            for name in ("heads", "attn_out", "ffn_out", "residual")
        )
        network.find(layer, x, reading)
        network.mix(layer, heads, reading)
        network.feed_forward(layer, x + attn_out, reading)
        reading.residual.append(x + attn_out + ffn_out)
        x = residual
    return reading


def all_distances(reading: Reading, found: list[Arrays]) -> dict[str, np.ndarray[Any, Any]]:
    """How far each array is from the reference, [n_tok, n_layer]."""
    wanted = [reading.at(at) for at in range(len(found))]
    return {
        name: np.stack([distance(f[name], w[name]) for f, w in zip(found, wanted, strict=True)])
        for name in wanted[0]
        if name != "embedding"
    }


def shares_of(case: Case) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """The last token's attention [n_layer, n_head, n_tok], and what it sees [n_layer, n_tok]."""
    network = case.exact
    n = len(case.ids)
    seen = np.stack([network._visible(layer, n)[-1] for layer in range(network.n_layer)])
    return case.last["attention"], seen


def check_rows(case: Case) -> None:
    rows, seen = shares_of(case)
    assert np.abs(rows.sum(axis=2) - 1).max() < 1e-5
    everywhere = np.broadcast_to(seen[:, None, :], rows.shape)
    assert (rows[~everywhere] == 0).all()
    assert (rows[everywhere] > 0).all()


def check_lens(case: Case) -> None:
    """The last row is the real scores to the last bit, and each row what its stream says."""
    last = case.last
    logits = last["logits"]
    best = np.sort(logits)[::-1][:N_LENS]
    assert np.array_equal(last["lens_logits"][-1], best)
    assert np.array_equal(logits[last["lens_ids"][-1]], best)
    targets = [case.ids[0], 7]
    assert np.array_equal(last["lens_target_logits"][-1], logits[targets])
    ranks = [int((logits > logits[target]).sum()) for target in targets]
    assert last["lens_target_ranks"][-1].tolist() == ranks
    total = np.log(np.exp(logits.astype(np.float64) - logits.max()).sum()) + logits.max()
    assert last["lens_total"][-1] == pytest.approx(total, rel=1e-6)
    said = case.said
    rows = np.arange(len(said))[:, None]
    assert distance(last["lens_logits"], said[rows, last["lens_ids"]]).max() < ONE_ROUNDING
    assert distance(last["lens_target_logits"], said[:, targets]).max() < 3 * ONE_ROUNDING


def check_rotation(case: Case) -> None:
    network = case.exact
    n = len(case.ids)
    for layer, (before, after) in enumerate(
        zip(case.last["q_before"], case.last["q_after"], strict=True)
    ):
        turned = network.rotated(np.broadcast_to(before, (n, *before.shape)), layer)[-1]
        assert distance(turned, after).max() < EXACT, layer
        assert distance(before, after).max() > 0.1, "it turns"
