"""What a file begins with, as JSON: whether it is a list or an object, and the first one's keys.

By this, and not by its name, an export is known. Only the beginning is read, so a key that stands
behind a very long text is not seen.
"""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import Final

LOOKED_AT: Final = 64 * 1024
MAX_DEPTH: Final = 64


@dataclass(frozen=True, slots=True)
class Look:
    """`is_list`: the keys are those of its first element that has any. `inner`: keys one level
    below, by the key that they stand under; `deeper`: those one more level below. `texts`: short
    texts that stand right below."""

    is_json: bool = False
    is_list: bool = False
    keys: frozenset[str] = frozenset()
    inner: frozenset[tuple[str, str]] = frozenset()
    deeper: frozenset[str] = frozenset()
    texts: tuple[tuple[str, str], ...] = ()

    def has(self, *keys: str) -> bool:
        return self.keys.issuperset(keys)

    def text(self, key: str) -> str:
        return dict(self.texts).get(key, "")


def look_at(head: bytes) -> Look:
    """
    >>> look_at(b'[{"title": "A", "mapping": {"n": {"id": "n", "mess').keys == {"title", "mapping"}
    True
    """
    from app.chat.exchange.brought.pieces import JSON_FAULTS, cleaned, events  # on its own thread

    keys: set[str] = set()
    inner: set[tuple[str, str]] = set()
    deeper: set[str] = set()
    texts: list[tuple[str, str]] = []
    at: list[str] = []
    is_json = is_list = False
    try:
        for event, value in events(cleaned(io.BytesIO(head))):
            if not is_json:
                if event not in ("start_map", "start_array"):
                    break
                is_json, is_list = True, event == "start_array"
                at = [""]
                continue
            depth = len(at) - is_list  # 1: in the object
            if event in ("start_map", "start_array"):
                at.append("")
                if len(at) > MAX_DEPTH:
                    break
            elif event in ("end_map", "end_array"):
                at.pop()
                if len(at) - is_list <= 0 and keys:
                    break  # the first object is over
            elif event == "map_key":
                at[-1] = str(value)
                if depth == 1:
                    keys.add(at[-1])
                elif depth == 2:
                    inner.add((at[-2], at[-1]))
                elif depth == 3:
                    deeper.add(at[-1])
            elif depth == 1 and event == "string" and len(value) < 200:
                texts.append((at[-1], value))
    except JSON_FAULTS:
        pass  # where the beginning ends
    return Look(
        is_json, is_list, frozenset(keys), frozenset(inner), frozenset(deeper), tuple(texts)
    )
