"""What of a sampling chain a server does not take: told at the stages, and kept with the reply.

The chain itself stays as it is set: on another engine all of it counts again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from app.chat.settings.resolved import IN_CHAIN
from app.engine.protocol.remote_messages import Ability, EngineOffer
from app.engine.protocol.stage_rules import RULES, stage_name
from app.engine.protocol.stages import Stage

_MOST: Final = 64


@dataclass(frozen=True, slots=True)
class NotTaken:
    """`stage`: why the whole stage is not taken; else `fields` has why which of its values are
    not."""

    stage: str = ""
    fields: Mapping[str, str] = field(default_factory=dict)

    @property
    def sentence(self) -> str:
        return self.stage or " ".join(dict.fromkeys(self.fields.values()))


def not_taken(stages: Sequence[Stage], offer: EngineOffer | None) -> dict[int, NotTaken]:
    """By the place of each stage that this server does not take, or not wholly."""
    if offer is None:
        return {}
    found = {}
    for at, stage in enumerate(stages):
        name = stage_name(stage)
        if why := offer.why_not_stage(name):
            found[at] = NotTaken(why)
        else:
            whys = {each: offer.why_not_stage(name, each) for each in stage.__struct_fields__}
            if lacking := {each: why for each, why in whys.items() if why}:
                found[at] = NotTaken(fields=lacking)
    return found


def as_recorded(stages: Sequence[Stage], offer: EngineOffer) -> dict[str, str]:
    """The same for a reply's settings: sentences by the name of a stage, or "name.field"."""
    found: dict[str, str] = {}
    for at, lack in not_taken(stages, offer).items():
        name = stage_name(stages[at])
        if lack.stage:
            found[name] = lack.stage
        found |= {f"{name}.{each}": why for each, why in lack.fields.items()}
    return found


def of_reply(recorded: Any, stages: Sequence[Stage]) -> dict[int, NotTaken]:
    """What was kept, at the stages of the reply. What is stored is untrusted."""
    if not isinstance(recorded, Mapping):
        return {}
    told = {str(n): str(why) for n, why in list(recorded.items())[:_MOST] if isinstance(why, str)}
    found = {}
    for at, stage in enumerate(stages):
        name = stage_name(stage)
        fields = {e: told[f"{name}.{e}"] for e in stage.__struct_fields__ if f"{name}.{e}" in told}
        if name in told or fields:
            found[at] = NotTaken(told.get(name, ""), fields)
    return found


_ABILITY_OF: Final[Mapping[str, Ability]] = {
    "seed": "seed",
    "repeatable": "repeatable",
    "drafts": "drafts",
    "draft_tokens": "drafts",
    "min_tokens": "min_tokens",
    "ban_end_token": "ban_end_token",
    "banned_strings": "banned_strings",
    "thinking": "thinking",
    "reasoning_budget": "reasoning_budget",
    "context_policy": "context_policy",
    "loras": "adapters",
    "control_vectors": "adapters",
    "chat_format": "template",
    "chat_template": "template",
    "grammar": "grammar",
    "json_schema": "json_schema",
}
"""The settings that a server may not take, besides the stages of the chain."""


def why_not_setting(name: str, offer: EngineOffer | None) -> str:
    """Why a setting has no effect there; empty: it has."""
    if offer is None:
        return ""
    if name in _ABILITY_OF:
        return offer.why_not(_ABILITY_OF[name])
    if name in IN_CHAIN:
        stage, field_name = IN_CHAIN[name]
        return offer.why_not_stage(RULES[stage].name, field_name)
    return ""
