"""Fields of a request's JSON, read one by one; what nobody has read in the end is refused.

    fields = Fields({"temperature": 0.5, "n": 2, "sufix": ""})
    fields.number("temperature", 0.8), fields.whole("n", 1)
    fields.close()   →   400: Unknown field “sufix”. Did you mean “suffix”?

null counts as not given: that is how both libraries send it.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable
from typing import Any

from app.engine.protocol.bounds import shown, shown_text
from app.engine.protocol.frames import clean_text
from app.server.errors import ApiError, bad_request


def is_id(value: object) -> bool:
    """Whether it can be a token's ID."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**31


class Fields:
    """An object of the request. `place`: what errors put before its fields' names."""

    def __init__(self, values: object, place: str = "") -> None:
        if not isinstance(values, dict):
            where = place.rstrip(".") or "The request"
            raise bad_request(f"{where} must be a JSON object, not {shown(values)}.", where or None)
        self._values = values
        self._place = place
        self._read: set[str] = set()

    def named(self, name: str) -> str:
        """As errors name a field."""
        return f"{self._place}{name}"

    def refuse(self, name: str, sentence: str) -> ApiError:
        return bad_request(sentence, self.named(name))

    def __contains__(self, name: str) -> bool:
        return self._values.get(name) is not None

    def need(self, name: str) -> None:
        """Raise ApiError where it is not given."""
        if name not in self:
            raise self.refuse(name, f"{name} is missing.")

    def any(self, name: str, default: Any = None) -> Any:
        """Whatever it is."""
        self._read.add(name)
        value = self._values.get(name)
        return default if value is None else value

    def skip(self, names: Iterable[str]) -> None:
        """These change no reply."""
        self._read.update(names)

    def whole(self, name: str, default: int, low: int = -(2**31), high: int = 2**31) -> int:
        value = self.number(name, default, low, high)
        if value != int(value):
            raise self.refuse(name, f"{name} must be a whole number, not {shown(value)}.")
        return int(value)

    def number(
        self, name: str, default: float, low: float = -(10**9), high: float = 10**9
    ) -> float | int:
        """Within the bounds; a whole one stays whole, however it is written."""
        value = self.any(name, default)
        if not isinstance(value, int | float) or isinstance(value, bool):
            raise self.refuse(name, f"{name} must be a number, not {shown(value)}.")
        if not low <= value <= high or not math.isfinite(value):
            words = f"{name} must be between {low:,} and {high:,}, not {shown(value)}."
            raise self.refuse(name, words)
        return value

    def flag(self, name: str, default: bool = False) -> bool:
        value = self.any(name, default)
        if not isinstance(value, bool):
            raise self.refuse(name, f"{name} must be true or false, not {shown(value)}.")
        return value

    def text(self, name: str, default: str = "", *, most: int = 0) -> str:
        """`most` characters; 0: as many as a request may have."""
        value = self.any(name, default)
        if not isinstance(value, str):
            raise self.refuse(name, f"{name} must be text, not {shown(value)}.")
        if most and len(value) > most:
            raise self.refuse(name, f"{name} may have at most {most:,} characters.")
        return clean_text(value)

    def choice(self, name: str, choices: tuple[str, ...], default: str) -> str:
        value = self.any(name, default)
        if value not in choices:
            known = ", ".join(f"“{one}”" for one in choices)
            raise self.refuse(name, f"{name} must be one of {known}, not {shown(value)}.")
        return str(value)

    def entries(self, name: str, *, most: int = 0) -> list[Any]:
        value = self.any(name, [])
        if not isinstance(value, list):
            raise self.refuse(name, f"{name} must be a list, not {shown(value)}.")
        if most and len(value) > most:
            raise self.refuse(name, f"{name} may have at most {most:,} entries.")
        return value

    def texts(self, name: str, *, most: int) -> list[str]:
        """A text, or a list of texts."""
        if isinstance(self.any(name), str):
            return [self.text(name)]
        found = self.entries(name, most=most)
        for at, value in enumerate(found):
            if not isinstance(value, str):
                raise self.refuse(f"{name}[{at}]", f"{name} must hold texts, not {shown(value)}.")
        return [clean_text(value) for value in found]

    def object(self, name: str) -> Fields | None:
        value = self.any(name)
        return None if value is None else Fields(value, f"{self.named(name)}.")

    def only(self, name: str, allowed: tuple[Any, ...], sentence: str) -> None:
        """A field that has one value here; any other is refused with the sentence."""
        value = self.any(name)
        if value is not None and value not in allowed:
            raise self.refuse(name, sentence)

    def close(self) -> None:
        """Refuse the first field that nobody has read: it may be meant to change the reply."""
        for name, value in self._values.items():
            if name in self._read or value is None:
                continue
            near = difflib.get_close_matches(name[:80], self._read, 1, 0.75)
            hint = f" Did you mean “{near[0]}”?" if near else " Remove it."
            called = shown_text(name)
            raise self.refuse(called, f"The field “{called}” isn't supported here.{hint}")
