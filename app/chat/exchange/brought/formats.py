"""Which apps' chats can be brought along, and what of them does not come.

A format says which entries of a place are its own, by what is in them and not by their names, and
reads them. A new app is a file beside this one and a line in `FORMATS`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from app.chat.exchange.brought import (
    cards,
    chatgpt,
    claude,
    jan,
    kobold,
    lm_studio,
    open_webui,
    sampler_presets,
    silly_tavern,
    text_generation_webui,
)
from app.chat.exchange.brought.places import Place
from app.chat.exchange.brought.told import Brought


@dataclass(frozen=True, slots=True)
class Format:
    """`claims`: those entries of a place that the app wrote, none where it wrote nothing there.
    `read`: what they hold, folders before the chats in them."""

    app: str
    claims: Callable[[Place], Sequence[str]]
    read: Callable[[Place, Sequence[str]], Iterator[Brought]]


FORMATS: Final = tuple(
    Format(app.APP, app.claims, app.read)
    for app in (
        chatgpt,
        claude,
        lm_studio,
        jan,
        open_webui,
        silly_tavern,
        cards,
        text_generation_webui,
        kobold,
        sampler_presets,
    )
)


@dataclass(frozen=True, slots=True)
class Recognised:
    format: Format
    claimed: tuple[str, ...]

    def read(self, place: Place) -> Iterator[Brought]:
        return self.format.read(place, self.claimed)


def recognised(place: Place) -> list[Recognised]:
    """The apps that wrote something here. An entry belongs to the first one that claims it."""
    taken: set[str] = set()
    found = []
    for each in FORMATS:
        claimed = tuple(name for name in each.claims(place) if name not in taken)
        taken.update(claimed)
        if claimed:
            found.append(Recognised(each, claimed))
    return found
