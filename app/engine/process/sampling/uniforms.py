"""The numbers that a native sampler draws, computed beside it (`app/insight/sampling/dice.py`).

How many numbers a draw takes is up to the C++ library (none for a single candidate in
`std::discrete_distribution` of libstdc++), so `holds` tries it once on the native samplers; where
it fails, no number is shown rather than a wrong one.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from app.engine.process.native.native import llama
from app.engine.process.sampling.candidates import Candidates
from app.insight.sampling.dice import Uniforms


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
