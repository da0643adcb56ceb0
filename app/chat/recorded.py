"""What a reply was made with, as it is stored with it: everything that can shape its text.

The plain names are the user's settings; `sampling` is the chain that they became, `load` how the
weights stood in memory. The seed and what the context policy left out are known at the end.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from app.chat.settings import Settings
from app.engine.protocol import Generate, Loaded, Stage, Summary
from app.strict_reading import STAGE, snake

_LOADED: Final = (
    "n_ctx",
    "n_ubatch",
    "n_threads",
    "n_gpu_layers",
    "flash_attention",
    "type_k",
    "type_v",
)


def at_start(settings: Settings, generate: Generate, loaded: Loaded | None) -> dict[str, Any]:
    """The settings of a reply that begins now."""
    recorded = settings.as_recorded()
    recorded["sampling"] = _written(generate.sampling)
    recorded["context_policy"] = generate.context_policy
    if loaded is not None:
        recorded["load"] = {name: getattr(loaded, name) for name in _LOADED}
        recorded["load"]["loras"] = [_written(lora) for lora in loaded.loras]
    return recorded


def at_end(recorded: dict[str, Any], summary: Summary) -> dict[str, Any]:
    """The same, with what only the engine could tell."""
    ended = {**recorded, "seed": summary.seed}
    if summary.reuse_source:
        ended["reuse_source"] = summary.reuse_source
    if summary.cut:
        # In short: a long conversation would list its whole beginning in each reply.
        ended["cut"] = {
            "n_messages": len(summary.cut),
            "n_tokens": sum(message.n_tokens for message in summary.cut),
            "last_message_id": summary.cut[-1].message_id,
        }
    if summary.n_threads and "load" in recorded:
        ended["load"] = {**recorded["load"], "n_threads": summary.n_threads}
    return ended


def _written(value: Any) -> Any:
    """A struct as JSON values; stages by their names, as in a settings file."""
    if isinstance(value, list):
        return [_written(item) for item in value]
    if not isinstance(value, msgspec.Struct):
        return value
    fields = {name: _written(getattr(value, name)) for name in value.__struct_fields__}
    return {STAGE: snake(type(value).__name__), **fields} if isinstance(value, Stage) else fields
