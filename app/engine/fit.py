"""Whether weights fit into the memory that is free, in words, and which settings would make them.

Pure arithmetic on a header and on what each device says is free; nothing here imports llama.cpp.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from app.engine.placement import DeviceMemory, in_words
from app.engine.protocol import LoadOptions, MemoryPart
from app.engine.sizes import MIB

HOST_KIND: Final = "cpu"
_ROUGH_SHARE: Final = 0.1
_ROUGH_BYTES: Final = 512 * MIB


class Verdict(StrEnum):
    FITS = "fits"
    FITS_LESS = "fits with less"
    FITS_NOT = "does not fit"


@dataclass(frozen=True, slots=True)
class Suggestion:
    """Settings that fit. `words`: what they change, short; `why`: a sentence."""

    words: str
    why: str
    options: LoadOptions


@dataclass(frozen=True, slots=True)
class Fit:
    """How weights fit. `words` is a short label, `why` a sentence or two.

    `parts`: what a load takes, as llama.cpp counts it. `need_bytes` of `free_bytes` must be free
    on all devices together. `is_rough`: judged by the size of the file alone.
    """

    verdict: Verdict
    words: str
    why: str
    parts: tuple[MemoryPart, ...]
    need_bytes: int
    free_bytes: int
    suggestions: tuple[Suggestion, ...] = ()
    is_rough: bool = False

    @property
    def suggestion(self) -> LoadOptions | None:
        """The first of the suggested settings."""
        return self.suggestions[0].options if self.suggestions else None


def rough_fit(size_bytes: int, devices: Sequence[DeviceMemory]) -> Fit:
    """By the size of the file (all parts) alone, before its header is known.

    To the weights come a tenth of them and half a GiB for cache and buffers: what 7 to 70
    billion weights take with a few thousand tokens of context.
    """
    need = size_bytes + int(size_bytes * _ROUGH_SHARE) + _ROUGH_BYTES
    host = next((d for d in devices if d.kind == HOST_KIND), None)
    own = sum(d.budget_bytes for d in devices if d.kind == "gpu")
    host_budget = host.budget_bytes if host is not None else 0
    free = sum(d.free_bytes for d in devices if d.kind in (HOST_KIND, "gpu"))
    if need <= (own or host_budget):
        verdict, words = Verdict.FITS, "probably fits"
    elif own and need <= own + host_budget:
        verdict, words = Verdict.FITS_LESS, "probably fits in part on graphics devices"
    else:
        verdict, words = Verdict.FITS_NOT, "probably does not fit"
    why = (
        f"Judged roughly, by its size alone: about {in_words(need)} would be needed, and "
        f"{in_words(free)} are free. The header tells more once it is read."
    )
    return Fit(verdict, words, why, (), need, free, is_rough=True)
