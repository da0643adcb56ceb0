"""In what the settings that count differ from a preset, in a few words each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from app.chat.settings.resolved import IN_CHAIN, SHAPING
from app.chat.settings.settings import Settings, as_stored, checked
from app.engine.protocol.stage_rules import in_words, stage_name
from app.engine.protocol.stages import Stage
from app.refusal import Refusal

_MOST_SHOWN: Final = 24


def differences(preset: Mapping[str, Any], settings: Settings) -> list[str]:
    """What counts now where the preset says otherwise; nothing: all of it is as the preset has it.

    >>> differences({"chain": [{"stage": "top_k", "k": 20}, {"stage": "dist"}], "seed": 3},
    ...             Settings(chain=checked("chain", [{"stage": "top_k"}, {"stage": "dist"}])))
    ['top-k 20 → 40', 'seed 3 → none']
    """
    found = []
    for name, value in preset.items():
        if name == "chain":
            found += _of_chains(value, settings.stages())
        elif name in SHAPING and name not in IN_CHAIN:
            now = as_stored(getattr(settings, name))
            if now != value:
                words = name.replace("_", " ")
                found.append(f"{words} {_value(value)} → {_value(now)}")
    return found


def _of_chains(value: object, now: Sequence[Stage]) -> list[str]:
    try:
        was: tuple[Stage, ...] = checked("chain", value)
    except Refusal:
        return ["its chain can't be read"]
    found, unmatched = [], list(was)
    for stage in now:
        same = next((each for each in unmatched if type(each) is type(stage)), None)
        if same is None:
            found.append(f"with {in_words(stage_name(stage))}")
            continue
        unmatched.remove(same)
        found += _of_stages(same, stage)
    found += [f"without {in_words(stage_name(stage))}" for stage in unmatched]
    kinds = [type(stage) for stage in now if type(stage) in {type(each) for each in was}]
    in_order = [type(stage) for stage in was if type(stage) in {type(each) for each in now}]
    return [*found, "different order"] if not unmatched and kinds != in_order else found


def _of_stages(was: Stage, now: Stage) -> list[str]:
    return [
        f"{_called(now, attribute)} {_value(getattr(was, attribute))} → "
        f"{_value(getattr(now, attribute))}"
        for attribute in now.__struct_fields__
        if getattr(was, attribute) != getattr(now, attribute)
    ]


_ONLY: Final = frozenset("kptn")
"""The one letter of top-k, top-p, temperature, top-n-sigma and their like."""


def _called(stage: Stage, attribute: str) -> str:
    """The value that has its stage's name needs no other: its letter says nothing beside it."""
    name = in_words(stage_name(stage))
    return name if attribute in _ONLY else f"{name} {attribute.replace('_', ' ')}"


def _value(value: object) -> str:
    if value is None or value == "" or value == []:
        return "none"
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, list):
        return "one entry" if len(value) == 1 else f"{len(value)} entries"
    words = f"{value:.6g}" if isinstance(value, float) else " ".join(str(value).split())
    return words if len(words) <= _MOST_SHOWN else words[:_MOST_SHOWN] + "…"
