"""Which engine wrote a reply, as it stands in the reply's settings where a server did.

Replies of this machine have no such entry, nor have rows of before there were servers. What is
stored is untrusted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from app.chat.settings import not_taken
from app.chat.settings.not_taken import NotTaken
from app.engine.protocol.loading_messages import Loaded
from app.engine.protocol.messages import Summary
from app.engine.protocol.remote_messages import KIND_NAMES
from app.engine.protocol.stages import Sampling, Stage

ENGINE: Final = "engine"
TIMINGS: Final = "timings"
"""In that entry: the server told how long its tokens took; else they were timed as they came."""
NOT_TAKEN: Final = "not_taken"
"""In that entry: what of the chain the server did not take (`app.chat.settings.not_taken`)."""
_MOST: Final = 200


@dataclass(frozen=True, slots=True)
class Writer:
    """`name`: what the user called the server; `kind`: what kind of server it said that it is;
    `model`: the one that was asked for."""

    engine_id: str
    name: str
    kind: str
    version: str
    model: str
    has_timings: bool = False

    @property
    def words(self) -> str:
        """The server in a few words: its name, and what it is."""
        kind = f"{self.kind} {self.version}".strip()
        return f"“{self.name}” ({kind})" if kind else f"“{self.name}”"


def as_recorded(loaded: Loaded, sampling: Sampling) -> dict[str, Any]:
    """What a reply that begins now keeps of its writer; nothing where it is this machine."""
    offer = loaded.remote
    if offer is None:
        return {}
    found: dict[str, Any] = {
        "id": offer.engine_id,
        "name": offer.name,
        "kind": offer.kind,
        "version": offer.version,
        "model": offer.model_id or loaded.name,
        TIMINGS: offer.can("timings"),
        NOT_TAKEN: not_taken.as_recorded([*sampling.filters, sampling.select], offer),
    }
    return {ENGINE: {name: value for name, value in found.items() if value}}


def as_told(settings: Mapping[str, Any], summary: Summary) -> Mapping[str, Any]:
    """The same at its end: a server that tells timings may not have done so this time."""
    found = settings.get(ENGINE)
    if not isinstance(found, Mapping) or "prefill_s" not in summary.unknown:
        return settings
    return {**settings, ENGINE: {k: v for k, v in found.items() if k != TIMINGS}}


def writer_of(settings: Mapping[str, Any]) -> Writer | None:
    """The server that wrote a reply with these settings; None: this machine did."""
    found = settings.get(ENGINE)
    if not isinstance(found, Mapping):
        return None
    told = [found.get(name, "") for name in ("id", "name", "kind", "version", "model")]
    engine_id, called, kind, version, model = (
        _one_line(text) if isinstance(text, str) else "" for text in told
    )
    shown = next((words for name, words in KIND_NAMES.items() if name == kind), kind)
    has_timings = found.get(TIMINGS) is True
    return Writer(engine_id, called or "a server", shown, version, model, has_timings)


def not_taken_of(settings: Mapping[str, Any], stages: Sequence[Stage]) -> dict[int, NotTaken]:
    """By place among the stages of a reply: what the server that wrote it did not take."""
    found = settings.get(ENGINE)
    return not_taken.of_reply(found.get(NOT_TAKEN), stages) if isinstance(found, Mapping) else {}


def drawn_with(settings: Mapping[str, Any], stages: Sequence[Stage]) -> tuple[Stage, ...]:
    """The stages of a reply without those that its server did not take, or not as they were set."""
    left_out = not_taken_of(settings, stages)
    return tuple(stage for at, stage in enumerate(stages) if at not in left_out)


def _one_line(text: str) -> str:
    return " ".join("".join(c if c.isprintable() else " " for c in text[:_MOST]).split())
