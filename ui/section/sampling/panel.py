"""*Sampling*, in four rooms: the chain and what it did, other values on the same token, what binds
every draw, and what changes the weights before any."""

from __future__ import annotations

from typing import Final

from PySide6.QtWidgets import QWidget

from ui.section.panel import Panel, Tools
from ui.section.rooms import Room, RoomsPanel


def _chain() -> type[Panel]:
    from ui.section.sampling.chain_room import ChainRoom

    return ChainRoom


def _what_if() -> type[Panel]:
    from ui.section.sampling.what_if_room import WhatIfRoom

    return WhatIfRoom


def _rules() -> type[Panel]:
    from ui.section.sampling.rules_room import RulesRoom

    return RulesRoom


def _adapters() -> type[Panel]:
    from ui.section.sampling.adapters_room import AdaptersRoom

    return AdaptersRoom


ROOMS: Final[tuple[Room, ...]] = (
    ("Chain", _chain),
    ("What if", _what_if),
    ("Grammar, limits", _rules),
    ("Adapters", _adapters),
)


class SamplingPanel(RoomsPanel):
    title = "Sampling"

    def __init__(self, tools: Tools, parent: QWidget | None = None) -> None:
        super().__init__(tools, ROOMS, "Sampling views", parent)
        self.setObjectName("panel_sampling")
        self.rooms.setObjectName("sampling_rooms")
