"""What a fact is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Fact:
    """`value`: what was measured, in the unit that `names.py` gives. `text`: how it is shown."""

    value: float | str
    text: str


Facts = Mapping[str, Fact]
"""By the names of `names.NAMES`. What isn't known isn't there."""
