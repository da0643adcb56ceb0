"""Versions of a reply that were taken from a beam search, recorded as such.

`BEAMS` in a reply's settings: what the search was and which of its texts this is, so that it is
labelled for good; a rerun repeats its tokens, which were chosen and not drawn. What the file or a
newer version wrote may be anything: what can't be read is no such version.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from app.engine.protocol.beam_messages import check_beams
from app.engine.protocol.bounds import BadSetting

BEAMS: Final = "beams"

UNBOUND: Final[Mapping[str, Any]] = {
    "stop_strings": [],
    "stop_in_reasoning": False,
    "min_tokens": 0,
    "ban_end_token": False,
    "banned_strings": [],
    "grammar": "",
    "json_schema": "",
    "reasoning_budget": 0,
    "drafts": "off",
}
"""What would end such a version early, put a token in, refuse one, or propose others. The search
has heeded what binds beams; what was set since then was not asked for."""


class BeamVersion(msgspec.Struct, frozen=True):
    """`rank`: its place among the `n_found` texts by score, from 1; 0: the greedy line, which was
    none of them. `total`: Σ log p of its tokens."""

    width: int
    length: int
    length_penalty: float
    rank: int
    n_found: int
    total: float
    score: float
    is_greedy: bool = False

    @property
    def label(self) -> str:
        """
        >>> BeamVersion(4, 32, 0.6, 2, 7, -4.5, -1.125).label
        'Beam search: text 2 of 7'
        """
        if not self.rank:
            which = "the greedy text" if self.is_greedy else "a pruned branch"
            return f"Beam search: {which}"
        return f"Beam search: text {self.rank} of {self.n_found}"

    @property
    def words(self) -> str:
        """
        >>> BeamVersion(4, 32, 0.6, 2, 7, -4.5, -1.125).words
        '4 beams of 32 tokens, length penalty 0.6; Σ log p −4.50, score −1.125'
        """
        beams = "1 beam" if self.width == 1 else f"{self.width} beams"
        total, score = (f"{value:.{n}f}".replace("-", "−") for value, n in self._figures)
        return (
            f"{beams} of {self.length} tokens, length penalty {self.length_penalty:g}; "
            f"Σ log p {total}, score {score}"
        )

    @property
    def _figures(self) -> tuple[tuple[float, int], tuple[float, int]]:
        return (self.total, 2), (self.score, 3)


def as_recorded(version: BeamVersion) -> dict[str, Any]:
    """As it stands in a reply's settings."""
    stored: dict[str, Any] = msgspec.to_builtins(version)
    return stored


def beams_of(settings: Mapping[str, Any]) -> BeamVersion | None:
    """Which search a reply was taken from; None where it was not, or nobody can tell any more."""
    try:
        version = msgspec.convert(settings[BEAMS], BeamVersion)
        check_beams(version.width, version.length, version.length_penalty)
    except (KeyError, msgspec.ValidationError, BadSetting):
        return None
    return version
