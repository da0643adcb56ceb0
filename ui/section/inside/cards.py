"""The cards of the panel, in the order of the way from vector to token.

A new one is a file with an `InsideCard` and a row here; it is imported when the panel is built.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from ui.section.inside.card import InsideCard


def _embedding() -> type[InsideCard]:
    from ui.section.inside.embedding_card import EmbeddingCard

    return EmbeddingCard


CARDS: Final[tuple[Callable[[], type[InsideCard]], ...]] = (_embedding,)
