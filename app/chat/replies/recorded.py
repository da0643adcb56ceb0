"""What a reply was made with, as it is stored with it: everything that can shape its text.

The plain names are the user's settings, resolved; `levels` says which of them are not the app's
own (see `resolved.py`). `sampling` is the chain that they became, `load` how the weights stood
in memory. The seed, what the context policy left out, and what the time went into (`timeline`)
are known at the end. `settings_of` reads it all back, to run the reply again.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Mapping
from typing import Any, Final

from app.chat.replies import written_by
from app.chat.replies.adapters import loras_of_load, with_hashes
from app.chat.settings.formats import OWN
from app.chat.settings.resolved import SHAPING, Resolved
from app.chat.settings.settings import Settings, as_stored, from_stored
from app.engine.protocol.loading_messages import Loaded
from app.engine.protocol.messages import Generate, Summary
from app.engine.protocol.tool_messages import AUTO
from app.insight.time import timeline

LONG: Final = {
    "system_prompt": "The system prompt has changed since. Restore it to rerun this reply.",
    "chat_template": "The chat template has changed since. Restore it to rerun this reply.",
    "template_variables": "The template variables have changed since. Restore them to rerun this "
    "reply.",
}
"""Settings of any length, and what is said where another text counts by now."""
MAX_SYSTEM_PROMPT: Final = 4_000
"""Characters of such a text that are stored with each reply; of a longer one its hash is."""

REASONING: Final = "reasoning"
"""In a reply's settings: how many tokens its reasoning had, and where it was closed by force."""

_LOADED: Final = (
    "n_ctx",
    "n_ubatch",
    "n_threads",
    "n_gpu_layers",
    "flash_attention",
    "type_k",
    "type_v",
)
_ALWAYS: Final = frozenset(
    (
        "temperature",
        "top_k",
        "top_p",
        "min_p",
        "repeat_penalty",
        "repeat_last_n",
        "seed",
        "max_tokens",
        "stop_strings",
    )
)


def at_first(resolved: Resolved) -> dict[str, Any]:
    """The settings of a reply that has been asked for. What is off and nobody set is left out."""
    settings, usual = resolved.settings, Settings()
    recorded = {
        name: as_stored(getattr(settings, name))
        for name in SHAPING
        if name in _ALWAYS or getattr(settings, name) != getattr(usual, name)
    }
    recorded["system_prompt"] = settings.system_prompt
    if settings.chat_format != OWN:
        recorded.pop("chat_template", None)
    for name in LONG:
        text: str = getattr(settings, name)
        if name in recorded and len(text) > MAX_SYSTEM_PROMPT:
            del recorded[name]
            recorded[f"{name}_hash"] = hash_of(text)
    if settings.tools:
        recorded["tools"] = as_stored(settings.tools)
        if settings.tool_choice != AUTO:
            recorded["tool_choice"] = settings.tool_choice
    if resolved.levels:
        recorded["levels"] = dict(resolved.levels)
    return recorded


def at_start(resolved: Resolved, generate: Generate, loaded: Loaded | None) -> dict[str, Any]:
    """The settings of a reply that begins now."""
    recorded = at_first(resolved)
    recorded["sampling"] = as_stored(generate.sampling)
    recorded["context_policy"] = generate.context_policy
    if loaded is not None and loaded.remote is not None:
        recorded |= written_by.as_recorded(loaded, generate.sampling)
    elif loaded is not None:
        recorded["load"] = {name: getattr(loaded, name) for name in _LOADED}
    return recorded


def at_end(recorded: dict[str, Any], summary: Summary) -> dict[str, Any]:
    """The same, with what only the engine could tell."""
    ended = dict(written_by.as_told(recorded, summary))
    if "seed" not in summary.unknown:
        ended["seed"] = summary.seed
    if summary.reuse_source:
        ended["reuse_source"] = summary.reuse_source
    if summary.timeline:
        ended["timeline"] = timeline.as_stored(summary.timeline)
    if summary.drafts is not None:
        ended["draft_report"] = as_stored(summary.drafts)
    if summary.cut:
        # In short: a long conversation would list its whole beginning in each reply.
        ended["cut"] = {
            "n_messages": len(summary.cut),
            "n_tokens": sum(message.n_tokens for message in summary.cut),
            "last_message_id": summary.cut[-1].message_id,
        }
    if summary.reasoning_tokens:
        ended[REASONING] = {"n_tokens": summary.reasoning_tokens, "limit": summary.reasoning_limit}
    if summary.shifts:
        ended["shifts"] = [
            {
                "after": shift.after,
                "n_messages": shift.n_messages,
                "n_tokens": shift.n_tokens,
                "was_read_again": shift.was_read_again,
            }
            for shift in summary.shifts
        ]
    ended |= with_hashes(recorded, summary.adapters)
    if summary.n_threads and "load" in recorded:
        ended["load"] = {**recorded["load"], "n_threads": summary.n_threads}
    return ended


def settings_of(recorded: Mapping[str, Any], present: Settings) -> tuple[Settings, str]:
    """The settings to run a reply again with, or why that cannot be done exactly.

    `present` is what would be used now; from it come a system prompt and a template that were too
    long to be stored with the reply, if they are still the same.
    """
    if "sampling" not in recorded:
        return present, "Not all settings of this reply were recorded."
    values = {name: recorded[name] for name in SHAPING if name in recorded}
    values |= loras_of_load(recorded)
    values["tools"] = recorded.get("tools", ())
    values |= _sampling_values(recorded["sampling"])
    settings, refused = from_stored(values)
    if refused or not settings.chain:
        return present, "The settings stored with this reply can't be read."
    for name, sentence in LONG.items():
        is_hashed = f"{name}_hash" in recorded
        if is_hashed or (name == "system_prompt" and name not in recorded):
            text: str = getattr(present, name)
            if recorded.get(f"{name}_hash") != hash_of(text):
                return present, sentence
            now: dict[str, Any] = {name: text}
            settings = dataclasses.replace(settings, **now)
    return settings, ""


def _sampling_values(sampling: Any) -> dict[str, Any]:
    """The recorded chain, whatever the plain names beside it say."""
    if not isinstance(sampling, dict) or not isinstance(sampling.get("filters"), list):
        return {"chain": None}  # refused
    values = {
        name: sampling[name]
        for name in ("grammar", "json_schema", "banned_strings", "min_tokens", "ban_end_token")
        if name in sampling
    }
    select = sampling.get("select")
    return {**values, "chain": [*sampling["filters"], select]}


def hash_of(text: str) -> str:
    return hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=16).hexdigest()
