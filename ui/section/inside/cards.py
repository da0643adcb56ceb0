"""The cards of the panel, in the order of the way from vector to token.

A new one is a file with an `InsideCard` and a row here; it is imported when the panel is built.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from ui.section.inside.card import InsideCard


def _embedding() -> type[InsideCard]:
    from ui.section.inside.vectors.embedding_card import EmbeddingCard

    return EmbeddingCard


def _nearest() -> type[InsideCard]:
    from ui.section.inside.vectors.nearest_card import NearestCard

    return NearestCard


def _map() -> type[InsideCard]:
    from ui.section.inside.vectors.map_card import MapCard

    return MapCard


def _position() -> type[InsideCard]:
    from ui.section.inside.vectors.position_card import PositionCard

    return PositionCard


def _way() -> type[InsideCard]:
    from ui.section.inside.layers.way_card import WayCard

    return WayCard


def _lens() -> type[InsideCard]:
    from ui.section.inside.layers.lens_card import LensCard

    return LensCard


def _lens_map() -> type[InsideCard]:
    from ui.section.inside.layers.lens_map_card import LensMapCard

    return LensMapCard


def _logits() -> type[InsideCard]:
    from ui.section.inside.vote_cards import LogitsCard

    return LogitsCard


def _probabilities() -> type[InsideCard]:
    from ui.section.inside.vote_cards import ProbabilitiesCard

    return ProbabilitiesCard


def _who() -> type[InsideCard]:
    from ui.section.inside.layers.who_card import WhoCard

    return WhoCard


def _cut() -> type[InsideCard]:
    from ui.section.inside.layers.cut_card import CutCard

    return CutCard


def _sampling() -> type[InsideCard]:
    from ui.section.inside.token_cards import SamplingCard

    return SamplingCard


def _token() -> type[InsideCard]:
    from ui.section.inside.token_cards import TokenCard

    return TokenCard


def _attention() -> type[InsideCard]:
    from ui.section.inside.layers.attention_card import AttentionCard

    return AttentionCard


def _machine() -> type[InsideCard]:
    from ui.section.inside.machine.card import MachineCard

    return MachineCard


CARDS: Final[tuple[Callable[[], type[InsideCard]], ...]] = (
    _embedding,
    _nearest,
    _map,
    _position,
    _attention,
    _way,
    _lens,
    _lens_map,
    _logits,
    _probabilities,
    _who,
    _cut,
    _sampling,
    _token,
    _machine,
)
