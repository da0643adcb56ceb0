"""Where each setting of a reply comes from: app → weights → chat → message, the last one wins.

A level is a dict of what it sets otherwise. What must hold:

* A value that a level does not take (a newer version wrote it, a hand edited it) is left out;
  the level below then speaks.
* `chain` holds all sampling stages, the plain numbers (`temperature`, …) describe the usual
  chain. A level that sets a number over a chain from below changes the stages of that kind;
  without such a stage it adds one before the selection. So the last word counts, as in `ask`.
* Load options have no chat and no message: weights stand in memory once, for all of them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from app.chat.settings.settings import SELECTING, Settings, checked
from app.engine.protocol.stages import Dist, Greedy, MinP, Penalties, Stage, Temperature, TopK, TopP
from app.refusal import Refusal

APP: Final = "app"
LEVELS: Final = (APP, "weights", "chat", "message")

LOADING: Final = (
    "n_ctx",
    "n_threads",
    "n_gpu_layers",
    "type_k",
    "type_v",
    "flash_attention",
)
SHAPING: Final = (
    "system_prompt",
    "temperature",
    "top_k",
    "top_p",
    "min_p",
    "repeat_penalty",
    "repeat_last_n",
    "chain",
    "seed",
    "max_tokens",
    "min_tokens",
    "stop_strings",
    "stop_in_reasoning",
    "reasoning_tags",
    "thinking",
    "reasoning_budget",
    "template_variables",
    "context_policy",
    "banned_strings",
    "ban_end_token",
    "grammar",
    "json_schema",
    "repeatable",
    "drafts",
    "draft_tokens",
    "loras",
    "control_vectors",
    "chat_format",
    "chat_template",
)
"""What shapes a reply and can be set at every level."""

IN_CHAIN: Final[dict[str, tuple[type[Stage], str]]] = {
    "temperature": (Temperature, "t"),
    "top_k": (TopK, "k"),
    "top_p": (TopP, "p"),
    "min_p": (MinP, "p"),
    "repeat_penalty": (Penalties, "repeat"),
    "repeat_last_n": (Penalties, "last_n"),
}
"""The stage and field of a chain that a plain number stands for."""


@dataclasses.dataclass(frozen=True, slots=True)
class Resolved:
    """The settings that count. `levels` has each name that another level than the app set."""

    settings: Settings
    levels: Mapping[str, str]

    def level_of(self, name: str) -> str:
        return self.levels.get(name, APP)


def resolve(
    app: Settings,
    weights: Mapping[str, Any] | None = None,
    chat: Mapping[str, Any] | None = None,
    message: Mapping[str, Any] | None = None,
) -> Resolved:
    """What counts, and whence.

    >>> found = resolve(Settings(), {"top_k": 20, "temperature": 1}, {"temperature": 0.7})
    >>> found.settings.temperature, found.level_of("temperature"), found.level_of("top_k")
    (0.7, 'chat', 'weights')
    """
    settings, levels = app, dict[str, str]()
    for level, values in (("weights", weights), ("chat", chat), ("message", message)):
        allowed = (*SHAPING, *LOADING) if level == "weights" else SHAPING
        settings = _with_level(settings, taken(values or {}, allowed), level, levels)
    return Resolved(settings, levels)


def merged(settings: Settings, values: Mapping[str, Any]) -> Settings:
    """`settings` with these values over them, as one more level would change them."""
    return _with_level(settings, taken(values, (*SHAPING, *LOADING)), APP, {})


def shown_value(settings: Settings, name: str) -> Any:
    """What counts for a name: of a number in a chain the stage's own; None: no such stage."""
    if not settings.chain or name not in IN_CHAIN:
        return getattr(settings, name)
    kind, field = IN_CHAIN[name]
    found = [stage for stage in settings.chain if isinstance(stage, kind)]
    if not found and name == "temperature" and isinstance(settings.chain[-1], Greedy):
        return 0.0
    return getattr(found[-1], field) if found else None


def taken(values: Mapping[str, Any], allowed: tuple[str, ...]) -> dict[str, Any]:
    """The values that are valid, as settings keep them."""
    valid = {}
    for name in allowed:
        if name in values:
            try:
                valid[name] = checked(name, values[name])
            except Refusal:
                continue
    return valid


def _with_level(
    settings: Settings, values: dict[str, Any], level: str, levels: dict[str, str]
) -> Settings:
    if not values:  # most levels: a copy of all settings takes a tenth of a millisecond
        return settings
    settings = dataclasses.replace(settings, **values)
    if "chain" in values:
        # A whole chain leaves no number from below standing.
        for name in IN_CHAIN:
            levels[name] = level
    for name, value in values.items():
        levels[name] = level
        if settings.chain and name in IN_CHAIN:
            settings = dataclasses.replace(settings, chain=_changed(settings.chain, name, value))
    return settings


def _changed(chain: tuple[Stage, ...], name: str, value: Any) -> tuple[Stage, ...]:
    """The chain with that number in each stage of its kind; greedy where temperature is 0."""
    kind, field = IN_CHAIN[name]
    stages = list(chain)
    if not any(isinstance(stage, kind) for stage in stages):
        stages.insert(len(stages) - isinstance(stages[-1], SELECTING), kind())
    stages = [
        msgspec.structs.replace(stage, **{field: value}) if isinstance(stage, kind) else stage
        for stage in stages
    ]
    if kind is Temperature:
        if value == 0:
            stages = [stage for stage in stages if not isinstance(stage, SELECTING)] + [Greedy()]
        elif isinstance(stages[-1], Greedy):
            stages[-1] = Dist()
    return tuple(stages)
