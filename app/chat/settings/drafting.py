"""What speculative decoding can be set to, as the window calls it."""

from __future__ import annotations

from typing import Final

DRAFTING: Final = (
    ("off", "Off"),
    ("lookup", "Lookup in the chat"),
    ("model", "Draft model"),
)


def drafting_name(value: object) -> str:
    return dict(DRAFTING).get(str(value), str(value))
