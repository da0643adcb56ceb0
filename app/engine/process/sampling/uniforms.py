"""The numbers that a native sampler draws, computed beside it.

Samplers that draw have a `std::mt19937` of their own, seeded with the request's seed, and make of
it one number in [0, 1) per draw. The C++ standard fixes the generator to the last bit, and so does
numpy's legacy seeding; `generate_canonical<double>` takes two outputs, the low one first:

    u = (x0 + x1 · 2³²) / 2⁶⁴

The first numbers for the seed 5489, the standard's own, whose 10,000th output is 4123659995:

    >>> [round(Uniforms(5489)[i], 4) for i in range(3)]
    [0.1355, 0.835, 0.9689]

XTC decides by a float, of which `generate_canonical<float>` makes one output: u = x0 / 2³².

How many numbers a draw takes is up to the C++ library (none for a single candidate in
`std::discrete_distribution` of libstdc++), so `holds` tries it once on the native samplers; where
it fails, no number is shown rather than a wrong one.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Final

import numpy as np

from app.engine.process.native.native import llama
from app.engine.process.sampling.candidates import Candidates

_BLOCK: Final = 256


class Uniforms:
    """The draws of one seed by index. Kept, since a reply may go back to an earlier draw.
    `is_float`: numbers as `generate_canonical<float>` makes them."""

    def __init__(self, seed: int, *, is_float: bool = False) -> None:
        self._seed = seed
        self._is_float = is_float
        self._source: Any = None
        self._numbers: list[float] = []

    def __getitem__(self, index: int) -> float:
        while index >= len(self._numbers):
            self._extend()
        return self._numbers[index]

    def _extend(self) -> None:
        if self._source is None:
            self._source = np.random.RandomState(self._seed)._bit_generator
        # Sums and quotients round just as C++'s do; 1.0 would become the number below it.
        if self._is_float:
            one = np.float32(1)
            raw = self._source.random_raw(_BLOCK).astype(np.float32)
            numbers = np.minimum(raw / np.float32(2**32), np.nextafter(one, np.float32(0)))
        else:
            raw = self._source.random_raw(2 * _BLOCK).astype(np.float64)
            numbers = (raw[0::2] + raw[1::2] * 2.0**32) / 2.0**64
            numbers = np.minimum(numbers, np.nextafter(1.0, 0.0))
        self._numbers += numbers.tolist()


def takes_number(stage: str, candidates: int) -> bool:
    """Whether a selecting stage takes a number for a draw from so many candidates."""
    if stage == "dist":
        return True
    return stage != "greedy" and candidates > 1


def decides(candidates: int) -> bool:
    """Whether XTC takes a number for so many candidates."""
    return candidates > 1


@cache
def holds() -> bool:
    """Whether this library's draws are where these numbers say. Takes a millisecond."""
    return _is_reproduced("dist") and _is_reproduced("adaptive-p") and _xtc_is_reproduced()


def _is_reproduced(stage: str) -> bool:
    seed, drawn, fits = 7, 0, True
    uniforms, candidates = Uniforms(seed), Candidates(1000)
    sampler = (
        llama.llama_sampler_init_dist(seed)
        if stage == "dist"
        else llama.llama_sampler_init_adaptive_p(-1.0, 0.9, seed)
    )
    for size in (1000, 1, 512, 1, 1, 1000, 3, 1000):
        candidates.fill(np.zeros(1000, np.float32))
        candidates.native.size = size
        llama.llama_sampler_apply(sampler, candidates.reference)
        if takes_number(stage, size):
            # Between two candidates either may be right: the sums are rounded.
            fits = fits and abs(candidates.native.selected - uniforms[drawn] * size + 0.5) < 0.51
            drawn += 1
    llama.llama_sampler_free(sampler)
    return bool(fits)


def _xtc_is_reproduced() -> bool:
    """Of equal candidates that are all above its threshold XTC leaves one, where it acts."""
    seed, share, drawn, fits = 7, 0.5, 0, True
    uniforms, candidates = Uniforms(seed, is_float=True), Candidates(8)
    sampler = llama.llama_sampler_init_xtc(share, 0.01, 1, seed)
    for size in (8, 1, 4, 2, 1) * 8:
        candidates.fill(np.zeros(8, np.float32))
        candidates.native.size = size
        llama.llama_sampler_apply(sampler, candidates.reference)
        if decides(size):
            fits = fits and (candidates.native.size == 1) == (uniforms[drawn] <= share)
            drawn += 1
    llama.llama_sampler_free(sampler)
    return fits
