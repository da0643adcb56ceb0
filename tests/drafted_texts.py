"""A text that says its prompt again, and one that does not: to measure and to prove drafts."""

from __future__ import annotations

from typing import Final

_BOOK: Final = (
    "The keeper of the lighthouse wrote every evening into a thick green book. On the third of May "
    "he noted: wind from the west, two ships, one gull with a broken wing. On the fourth he noted: "
    "no wind, no ships, the gull ate bread from my hand. On the fifth he noted: storm from the "
    "north, the lamp burned all night, nobody came. "
)
REPEATS: Final = _BOOK + _BOOK + "The keeper of the lighthouse wrote"
TELLS: Final = (
    "Once upon a time there was a small village by the sea where an old fisherman lived with his"
)
