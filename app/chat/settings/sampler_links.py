"""The sampling chain of the open chat as it is edited: its stages, also those switched off.

A stage that is switched off is no part of what the engine is asked for, but stays where it stands
with its values: the chat's settings keep it under `off_stages`, beside the chain. Presets, replies
and exports know only stages that are on.

What must hold: of what the chat sets only what differs from the levels below it is kept. A chain
that differs in plain numbers alone (temperature, top-k, …) is kept as those numbers, so that the
rest goes on following the app and the weights.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from app.chat.settings.levels import Levels
from app.chat.settings.resolved import APP, IN_CHAIN, Resolved, merged, shown_value
from app.chat.settings.settings import FILTERS, SELECTING, Settings, as_stored, checked
from app.engine.protocol.stages import (
    Dist,
    Dry,
    DynamicTemperature,
    LogitBias,
    MinP,
    Penalties,
    Stage,
    Temperature,
    TopK,
    TopNSigma,
    TopP,
    Typical,
    Xtc,
)
from app.refusal import Refusal

OFF: Final = "off_stages"
MAX_OFF: Final = 32

USUAL_ORDER: Final[tuple[type[Stage], ...]] = (
    LogitBias,
    Penalties,
    Dry,
    TopNSigma,
    TopK,
    Typical,
    TopP,
    MinP,
    Xtc,
    Temperature,
    DynamicTemperature,
)
"""llama.cpp's own order: where a stage that is added finds its place."""

Values = dict[str, Any]
_OF_CHAIN: Final = ("filters", "select")


@dataclass(frozen=True, slots=True)
class Link:
    """A stage of the chain. `levels`: which level says each of its values."""

    stage: Stage
    is_on: bool = True
    levels: Mapping[str, str] = field(default_factory=dict, compare=False)

    @property
    def selects(self) -> bool:
        return isinstance(self.stage, SELECTING)


Links = tuple[Link, ...]


def links_of(resolved: Resolved, own: Mapping[str, Any]) -> Links:
    """The chain that counts, with what the chat has switched off. The selecting stage is last."""
    stages = resolved.settings.stages()
    if not isinstance(stages[-1], SELECTING):
        stages = (*stages, Dist())
    links = [Link(stage, levels=_levels(stage, resolved)) for stage in stages]
    for at, stage in _off(own):
        links.insert(min(at, len(links) - 1), Link(stage, is_on=False))
    return tuple(links)


def _levels(stage: Stage, resolved: Resolved) -> dict[str, str]:
    chain = resolved.level_of("chain") if resolved.settings.chain else APP
    names = {pair: name for name, pair in IN_CHAIN.items()}
    return {
        attribute: resolved.level_of(names[pair]) if (pair := (type(stage), attribute)) in names
        else chain
        for attribute in stage.__struct_fields__
    }  # fmt: skip


def _off(own: Mapping[str, Any]) -> list[tuple[int, Stage]]:
    """What is switched off, by its place among all; what cannot be read is left out."""
    kept = own.get(OFF)
    found = []
    for entry in kept[:MAX_OFF] if isinstance(kept, list | tuple) else ():
        if isinstance(entry, list | tuple) and len(entry) == 2 and isinstance(entry[0], int):
            try:
                (stage,) = checked("chain", [entry[1]])
            except Refusal:
                continue
            if isinstance(stage, FILTERS):
                found.append((max(entry[0], 0), stage))
    return sorted(found, key=lambda each: each[0])


def values_of_links(
    links: Sequence[Link],
    own: Mapping[str, Any],
    resolve_with: Callable[[Mapping[str, Any]], Resolved],
) -> Values:
    """What the chat sets so that its chain is this one; `own`: what it sets until now.
    `resolve_with`: what would count if the chat set these values. Raises Refusal."""
    wanted = checked("chain", [link.stage for link in links if link.is_on])
    base = {
        name: value for name, value in own.items() if name not in (*IN_CHAIN, "chain", OFF)
    }  # fmt: skip
    below = resolve_with(base)
    if below.settings.stages() == wanted:
        values = base
    else:
        values = {**base, **_numbers(wanted, below.settings)}
        if resolve_with(values).settings.stages() != wanted:
            values = {**base, "chain": as_stored(wanted)}
    off = [[at, as_stored(link.stage)] for at, link in enumerate(links) if not link.is_on]
    return {**values, OFF: off[:MAX_OFF]} if off else values


def values_over(wanted: Sequence[Stage], settings: Settings) -> Values:
    """What to set over these settings so that their chain is this one."""
    if settings.stages() == tuple(wanted):
        return {}
    numbers = _numbers(wanted, settings)
    same = merged(settings, numbers).stages() == tuple(wanted)
    return numbers if same else {"chain": as_stored(tuple(wanted))}


def _numbers(wanted: Sequence[Stage], below: Settings) -> Values:
    """The plain numbers in which a chain differs from what the levels below say."""
    numbers = {}
    for name, (kind, attribute) in IN_CHAIN.items():
        found = [stage for stage in wanted if isinstance(stage, kind)]
        if len(found) == 1 and getattr(found[0], attribute) != shown_value(below, name):
            numbers[name] = getattr(found[0], attribute)
    return numbers


# --- changing -------------------------------------------------------------------------------------


def moved(links: Links, at: int, to: int) -> Links:
    """The link at `at` in the place `to`; the selecting stage stays last."""
    to = min(max(to, 0), len(links) - 2)
    if links[at].selects or at == to:
        return links
    rest = list(links)
    rest.insert(to, rest.pop(at))
    return tuple(rest)


def added(links: Links, stage: Stage) -> tuple[Links, int]:
    """With one more stage, where llama.cpp's own order has it; and its place."""
    rank = USUAL_ORDER.index(type(stage))
    before = [
        at + 1
        for at, link in enumerate(links)
        if not link.selects and USUAL_ORDER.index(type(link.stage)) <= rank
    ]
    place = max(before, default=0)
    return (*links[:place], Link(stage), *links[place:]), place


def removed(links: Links, at: int) -> Links:
    return links if links[at].selects else (*links[:at], *links[at + 1 :])


def with_stage(links: Links, at: int, stage: Stage) -> Links:
    """With other values, or another selecting stage, at a place."""
    return (*links[:at], replace(links[at], stage=stage), *links[at + 1 :])


def switched(links: Links, at: int, *, is_on: bool) -> Links:
    if links[at].selects:
        return links
    return (*links[:at], replace(links[at], is_on=is_on), *links[at + 1 :])


def neutralised(links: Links) -> Links:
    """Nothing stands between the scores and a plain draw; no value is lost."""
    off = tuple(replace(link, is_on=False) for link in links if not link.selects)
    return (*off, Link(Dist()))


# --- of replies -----------------------------------------------------------------------------------


def chains_before(recorded: Mapping[str, Any], index: int) -> list[tuple[int, Any]]:
    """With which chains, as they are stored, the first `index` tokens of a reply's trace were
    drawn: (up to which one, chain). A reply that was branched has the first ones of others."""
    found: list[tuple[int, Any]] = []
    given, sampling = recorded.get("given"), recorded.get("sampling")
    before = given.get("drawn_with") if isinstance(given, Mapping) else None
    n_before = given.get("traced") if isinstance(given, Mapping) else None
    if not isinstance(before, list | tuple):
        before = [(n_before, None)]
    own = {k: sampling.get(k) for k in _OF_CHAIN} if isinstance(sampling, Mapping) else None
    for entry in (*before, (index, own)):
        is_entry = isinstance(entry, list | tuple) and len(entry) == 2
        if not is_entry or not isinstance(entry[0], int):
            continue
        start, end = found[-1][0] if found else 0, min(entry[0], index)
        if end <= start:
            continue
        if found and found[-1][1] == entry[1]:
            found.pop()
        found.append((end, entry[1]))
    return found


def stages_at(recorded: Mapping[str, Any], index: int) -> tuple[Stage, ...]:
    """The stages that the token at this place of a reply's trace was drawn with; nothing where that
    is not known."""
    chains = chains_before(recorded, index + 1)
    return stages_of_reply({"sampling": chains[-1][1]}) if chains else ()


def stages_of_reply(recorded: Mapping[str, Any]) -> tuple[Stage, ...]:
    """The stages that a reply was drawn with, the selecting one last; nothing where they were not
    stored or cannot be read."""
    sampling = recorded.get("sampling")
    if not isinstance(sampling, Mapping) or not isinstance(sampling.get("filters"), list):
        return ()
    try:
        stages: tuple[Stage, ...] = checked("chain", [*sampling["filters"], sampling.get("select")])
    except Refusal:
        return ()
    return stages if isinstance(stages[-1], SELECTING) else ()


RESET: Final = "This chat now uses the inherited sampling chain."
_OF_THE_CHAIN: Final = frozenset((*IN_CHAIN, "chain", OFF))


class Chain:
    """The chain of the open chat."""

    def __init__(self, levels: Levels) -> None:
        self._levels = levels

    def links(self) -> Links:
        """The chain that the next reply is drawn with, and what is switched off in it."""
        return links_of(self._levels.resolved(), self._levels.own("chat"))

    def put(self, links: Sequence[Link], undo: str = "") -> str:
        """Make this the chain; returns why it cannot be, or nothing. `undo`: what is said of it,
        with a way back."""
        own = self._levels.own("chat")
        try:
            values = values_of_links(links, own, self._levels.if_chat_set)
        except Refusal as refused:
            return refused.sentence
        if values != own and undo:
            self._levels.put_with_undo(values, _OF_THE_CHAIN, undo)
        elif values != own:
            self._levels.put("chat", values)
        return ""

    def reset(self) -> None:
        """Let the levels below the chat say the chain, with a way back."""
        own = self._levels.own("chat")
        values = {name: value for name, value in own.items() if name not in _OF_THE_CHAIN}
        if values != own:
            self._levels.put_with_undo(values, _OF_THE_CHAIN, RESET)

    def is_own(self) -> bool:
        """Whether the open chat says anything of its chain itself."""
        return bool(_OF_THE_CHAIN & self._levels.own("chat").keys())
