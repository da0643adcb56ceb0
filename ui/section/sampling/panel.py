"""*Sampling*, in three rooms: the chain and what it did, other values on the same token, and what
binds every draw."""

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


ROOMS: Final[tuple[Room, ...]] = (
    ("Chain", _chain),
    ("What if", _what_if),
    ("Grammar, limits", _rules),
)


class SamplingPanel(RoomsPanel):
    title = "Sampling"

    def __init__(self, tools: Tools, parent: QWidget | None = None) -> None:
        super().__init__(tools, ROOMS, "Sampling views", parent)
        self.setObjectName("panel_sampling")
        self.rooms.setObjectName("sampling_rooms")
