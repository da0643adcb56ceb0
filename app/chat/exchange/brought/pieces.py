"""JSON of any size, value by value, by ijson: a list's elements one after another.

ijson's own builder knows no bound (a list of a hundred thousand lists took all memory), so the
values are built here, from its events. What must hold: memory is that of one element, at most
`MAX_COST`; of a file that ends too early, or is wrong somewhere, all comes that stands before it.
The interpreter's lock is held for one event at a time, so the window goes on (one decoder's call on
a chat of 100 MB would stop it for a second).
"""

from __future__ import annotations

import codecs
import io
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO, Any, Final

import ijson

from app.chat.exchange.refusals import FileRefused

MAX_COST: Final = 400_000_000
"""Of one element, in bytes of memory, about."""
MAX_DEPTH: Final = 200

JSON_FAULTS: Final = (ijson.JSONError, ValueError, UnicodeError, OverflowError)
TOO_LARGE: Final = "It is too large"
TOO_DEEP: Final = "It is nested too deeply"
CUT_OFF: Final = "The file ends too early or is damaged here"

_COST_OF_EVENT: Final = 80
_CONTROLS: Final = bytes(c for c in range(32) if c not in b"\t\n\r")
_TO_SPACE: Final = bytes.maketrans(_CONTROLS, b" " * len(_CONTROLS))
_UTF_16: Final = {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}


@dataclass(frozen=True, slots=True)
class Cut:
    """An element that did not come whole: what there is of it (None: nothing), and why."""

    value: Any
    why: str


def values(file: IO[bytes], within: frozenset[str] = frozenset()) -> Iterator[Any]:
    """The elements of a list; an object itself. `within`: keys of an object whose list is meant
    instead, and whose elements come one by one; the object without them comes last.

    A `Cut` stands where something could not be read; behind one for `CUT_OFF` nothing comes.
    """
    building = _Building(within)
    try:
        for event, value in events(cleaned(file)):
            yield from building.take(event, value)
    except (*JSON_FAULTS, FileRefused) as fault:
        why = str(fault) if isinstance(fault, FileRefused) else CUT_OFF
        yield Cut(building.partial(), why)


def lines(file: IO[bytes]) -> Iterator[Any]:
    """The values of JSON Lines; a `Cut` for a line that is none."""
    reader = cleaned(file)
    while line := reader.readline(MAX_COST):
        if line.strip():
            found = list(values(io.BytesIO(line)))
            yield found[0] if len(found) == 1 else Cut(found, CUT_OFF)


def events(file: IO[bytes]) -> Iterator[tuple[str, Any]]:
    return ijson.basic_parse(file, use_float=True)  # type: ignore[no-any-return]


def cleaned(file: IO[bytes]) -> io.BufferedReader:
    """As UTF-8 that a parser takes: without a mark at its beginning, with U+FFFD for what is no
    text, without control characters, and with numbers that it knows (`_Numbers`)."""
    return io.BufferedReader(_Cleaned(file), 1 << 16)


class _Cleaned(io.RawIOBase):
    def __init__(self, file: IO[bytes]) -> None:
        super().__init__()
        self._file = file
        self._decoder: codecs.IncrementalDecoder | None = None
        self._numbers = _Numbers()
        self._left = b""
        self._is_over = False

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._left and not self._is_over:
            raw = self._file.read(1 << 16)
            self._is_over = not raw
            if self._decoder is None:
                self._decoder = codecs.getincrementaldecoder(_UTF_16.get(raw[:2], "utf-8"))(
                    "replace"
                )
                text = self._decoder.decode(raw, not raw).removeprefix("\ufeff")
            else:
                text = self._decoder.decode(raw, not raw)
            plain = text.encode("utf-8", "replace").translate(_TO_SPACE)
            self._left = self._numbers.known(plain, is_over=self._is_over)
        some, self._left = self._left[: len(buffer)], self._left[len(buffer) :]
        buffer[: len(some)] = some
        return len(some)


class _Numbers:
    """Puts what a double holds in the place of numbers that end ijson's reading: those beyond 64
    bits (a seed of a sampler), and the NaN of Python's own JSON, which becomes null.

    ijson could give any number as an exact one; then a number of 5,000 digits ends the process
    (3.6.0). Texts stay as they are: from piece to piece it is known whether a string goes on.
    """

    _ODD: Final = re.compile(rb"\d{19}|[eE][+-]?\d{3}|NaN|Infinity")
    _NUMBER: Final = re.compile(
        rb'"(?:[^"\\]|\\.)*"?|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?|NaN|-?Infinity', re.DOTALL
    )
    _STRING: Final = re.compile(rb'(?:[^"\\]|\\.)*"?', re.DOTALL)
    _UNENDED: Final = re.compile(rb"[\w.+\\-]{1,1000}\Z")

    def __init__(self) -> None:
        self._held = b""
        self._is_in_string = False

    def known(self, piece: bytes, *, is_over: bool) -> bytes:
        piece = self._held + piece
        self._held = b""
        if not is_over and (unended := self._UNENDED.search(piece[-1000:])):
            self._held = unended[0]
            piece = piece[: len(piece) - len(self._held)]
        begins_in_string = self._is_in_string
        plain = piece.replace(rb"\\", b"") if b"\\" in piece else piece
        self._is_in_string ^= bool((plain.count(b'"') - plain.count(rb"\"")) % 2)
        if self._ODD.search(piece) is None:
            return piece
        start = 0
        if begins_in_string and (rest := self._STRING.match(piece)):
            start = rest.end()
        return piece[:start] + self._NUMBER.sub(_known, piece[start:])


def _known(found: re.Match[bytes]) -> bytes:
    token = found[0]
    if token.startswith(b'"') or (len(token) < 19 and b"e" not in token.lower()):
        return b"null" if token in (b"NaN", b"Infinity", b"-Infinity") else token
    value = float(token)
    return repr(value).encode() if math.isfinite(value) else b"null"


class _Building:
    """One element after another, out of events."""

    def __init__(self, within: frozenset[str]) -> None:
        self._within = within
        self._outer = ""  # "list", "object": what the elements stand in
        self._root: dict[str, Any] | None = None
        self._stack: list[Any] = []
        self._keys: list[str] = []
        self._element: Any = None
        self._cost = 0
        self._skipped = 0  # how deep in what is too large
        self._why = ""

    def partial(self) -> Any:
        return self._element if self._element is not None else self._root

    def take(self, event: str, value: Any) -> Iterator[Any]:
        if self._skipped:
            yield from self._skip(event)
            return
        if event == "map_key":
            self._keys[-1] = value
            self._cost += len(value)
            return
        if event in ("start_map", "start_array"):
            self._begin(event)
            if self._is_too_much():
                self._leave_out()
            return
        if event in ("end_map", "end_array"):
            yield from self._end()
            return
        if self._stack:
            self._cost += _COST_OF_EVENT + (len(value) if event == "string" else 0)
            self._put(value)
            if self._is_too_much():
                self._leave_out()
        elif self._outer:
            yield value

    def _begin(self, event: str) -> None:
        if not self._stack and not self._outer and event == "start_array":
            self._outer = "list"
            return
        if (
            event == "start_array"
            and len(self._stack) == 1
            and self._stack[0] is self._root
            and self._keys[-1] in self._within
        ):
            self._outer = "object"
            self._stack, self._element = [], None
            return
        new: Any = {} if event == "start_map" else []
        if not self._stack:
            if not self._outer:
                self._root = new
            self._element = new
            self._cost = 0
        else:
            self._put(new)
        self._cost += _COST_OF_EVENT
        self._stack.append(new)
        self._keys.append("")

    def _put(self, value: Any) -> None:
        above = self._stack[-1]
        if isinstance(above, dict):
            above[self._keys[-1]] = value
        else:
            above.append(value)

    def _end(self) -> Iterator[Any]:
        if not self._stack:  # of the list around the elements
            if self._outer == "object":
                self._stack, self._element = [self._root], self._root
            self._outer = "" if self._outer == "object" else "over"
            return
        self._stack.pop()
        self._keys.pop()
        if not self._stack:
            element, self._element = self._element, None
            yield element

    # --- what is too large ----------------------------------------------------------------------

    def _is_too_much(self) -> bool:
        if len(self._stack) > MAX_DEPTH:
            self._why = TOO_DEEP
        elif self._cost > MAX_COST:
            self._why = TOO_LARGE
        return bool(self._why)

    def _leave_out(self) -> None:
        self._skipped = len(self._stack)
        if self._element is not None and isinstance(self._element, dict):
            # What says which one it was.
            self._element = {
                k: v for k, v in self._element.items() if isinstance(v, str) and len(v) < 500
            }
        else:
            self._element = None
        self._stack = []
        self._keys = self._keys[:1] if self._outer == "object" else []

    def _skip(self, event: str) -> Iterator[Any]:
        if event in ("start_map", "start_array"):
            self._skipped += 1
        elif event in ("end_map", "end_array"):
            self._skipped -= 1
            if not self._skipped:
                cut = Cut(self._element, self._why)
                self._element, self._why, self._cost = None, "", 0
                yield cut
