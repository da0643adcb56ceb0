"""Which engine wrote a reply, as it stands in the reply's settings where a server did.

Replies of this machine have no such entry, nor have rows of before there were servers. What is
stored is untrusted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from app.engine.protocol.loading_messages import Loaded
from app.engine.protocol.remote_messages import KIND_NAMES

ENGINE: Final = "engine"
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

    @property
    def words(self) -> str:
        """The server in a few words: its name, and what it is."""
        kind = f"{self.kind} {self.version}".strip()
        return f"“{self.name}” ({kind})" if kind else f"“{self.name}”"


def as_recorded(loaded: Loaded) -> dict[str, Any]:
    """What a reply that begins now keeps of its writer; nothing where it is this machine."""
    offer = loaded.remote
    if offer is None:
        return {}
    found = {
        "id": offer.engine_id,
        "name": offer.name,
        "kind": offer.kind,
        "version": offer.version,
        "model": offer.model_id or loaded.name,
    }
    return {ENGINE: {name: value for name, value in found.items() if value}}


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
    return Writer(engine_id, called or "a server", shown, version, model)


def _one_line(text: str) -> str:
    return " ".join("".join(c if c.isprintable() else " " for c in text[:_MOST]).split())
