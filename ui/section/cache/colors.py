"""What the squares of the cache map are coloured by, with the legend of each way."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from PySide6.QtGui import QColor

from app.insight.cache.cells import TURNS, CellMap, CellStretch
from app.insight.prompt.parts import ORIGIN_WORDS, origin_words
from ui.look.colors import Colors
from ui.section.cache.words import short_title
from ui.tokens.origins import origin_color


@dataclass(frozen=True, slots=True)
class Mode:
    name: str
    words: str
    hint: str


BY_MESSAGE: Final = Mode("cache_by_message", "Message", "Colour cells by message")
BY_SLOT: Final = Mode("cache_by_slot", "Slot", "Colour cells by slot")
BY_TURN: Final = Mode("cache_by_turn", "Last turn", "Colour cells by their role in the last turn")
MODES: Final = (BY_MESSAGE, BY_SLOT, BY_TURN)

FREE: Final = "free"

_SLOT_ORIGINS: Final = ("user", "assistant", "attachment", "system", "tool")
"""Sequences have no colours of their own: those of origins are told apart well."""

_TURN_ORIGINS: Final = {"reused": "system", "evaluated": "user", "written": "assistant"}


@dataclass(frozen=True, slots=True)
class LegendEntry:
    """A line of the legend. `origin`: whose colour it has."""

    text: str
    n_cells: int
    origin: str

    def words(self) -> str:
        return f"{self.text} {self.n_cells:,}"


@dataclass(frozen=True, slots=True)
class CacheColoring:
    """`key`: which entry a stretch belongs to."""

    entries: tuple[LegendEntry, ...] = ()
    key: Callable[[CellStretch], int] = field(default=lambda _stretch: 0)

    def colors(self, colors: Colors) -> Sequence[QColor]:
        """Of each entry; free cells have the colour of their outline."""
        return [
            QColor(colors.line) if entry.origin == FREE else origin_color(colors, entry.origin)
            for entry in self.entries
        ]


def coloring(mode: Mode, cells: CellMap, title_of: Callable[[str], str]) -> CacheColoring:
    """The legend ends with what is free."""
    found = _coloring(mode, cells, title_of)
    free = LegendEntry("free", cells.told.n_ctx - cells.n_used, FREE)
    return replace(found, entries=(*found.entries, free))


def _coloring(mode: Mode, cells: CellMap, title_of: Callable[[str], str]) -> CacheColoring:
    if mode is BY_SLOT:
        return _by_slot(cells, title_of)
    if mode is BY_TURN:
        return _in_order(cells, lambda one: one.turn or "other", [*TURNS, "other"], _turn_entry)
    return _in_order(cells, lambda one: one.origin, ["text", *ORIGIN_WORDS], _origin_entry)


def _origin_entry(name: str, n_cells: int) -> LegendEntry:
    return LegendEntry(origin_words(name), n_cells, name)


def _turn_entry(name: str, n_cells: int) -> LegendEntry:
    return LegendEntry(
        name if name in TURNS else "not in a turn", n_cells, _TURN_ORIGINS.get(name, "")
    )


def _in_order(
    cells: CellMap,
    name_of: Callable[[CellStretch], str],
    order: Sequence[str],
    entry_of: Callable[[str, int], LegendEntry],
) -> CacheColoring:
    counts = cells.counts(name_of)
    names = [name for name in dict.fromkeys(order) if name in counts]
    names += [name for name in counts if name not in order]
    at = {name: number for number, name in enumerate(names)}
    return CacheColoring(
        tuple(entry_of(name, counts[name]) for name in names), lambda one: at[name_of(one)]
    )


def _by_slot(cells: CellMap, title_of: Callable[[str], str]) -> CacheColoring:
    """What several sequences share is one entry; the others are called by their chats."""
    slots = cells.told.slots
    chats = [slot.conversation for slot in slots]

    def name_of(stretch: CellStretch) -> str:
        return "" if len(stretch.holders) > 1 else str(stretch.holders[0])

    def entry_of(name: str, n_cells: int) -> LegendEntry:
        if not name:
            return LegendEntry("shared", n_cells, "scaffold")
        slot = slots[int(name)]
        text = f"“{short_title(title_of(slot.conversation))}”"
        if chats.count(slot.conversation) > 1:
            text = f"sequence {slot.sequence}, {text}"
        origin = _SLOT_ORIGINS[int(name) % len(_SLOT_ORIGINS)]
        return LegendEntry(text, n_cells, origin)

    order = ["", *(str(number) for number in range(len(slots)))]
    return _in_order(cells, name_of, order, entry_of)
