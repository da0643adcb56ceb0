r"""From a JSON schema's `pattern` to rules of GBNF: the JSON texts whose decoded string fits it.

The pattern is read as ECMAScript reads it, as JSON Schema says: it may fit anywhere in the string
unless `^` and `$` bind it, and `\d`, `\w` and `\s` mean ASCII. It becomes an automaton with one
way to go on at each character (Thompson's construction, then sets of its states), and each of its
states a rule:

    ^a|b$      n ::= "\"" n-0
               n-0 ::= "a" n-1 | "b" n-2 | any but a, b n-3
               …

So no pattern is ambiguous for llama.cpp, whatever loops and choices nest in it, and `^` and `$`
count wherever they stand. A character is written as JSON writes it: quotes, backslashes and
controls escaped, all others as themselves.

What is no regular language (`\1`, `(?=…)`), depends on tables of Unicode (`\p{L}`), means
different things to different readers (`\Z`, `[[]`), or takes too many states is `NotHeld`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

MAX_STATES: Final = 1_500
MAX_STEPS: Final = 20_000
"""States of one pattern, and of what they are made from."""
_MAX_LOOKS: Final = 1_000_000
_MAX_NESTING: Final = 100

Ranges = tuple[tuple[int, int], ...]
"""Characters by their numbers, in order: first and last of each range."""


class NotHeld(Exception):  # noqa: N818
    """A pattern that no grammar of ours holds."""


# --- sets of characters ---------------------------------------------------------------------------

_ALL: Final[Ranges] = ((0, 0xD7FF), (0xE000, 0x10FFFF))
"""Surrogates are no characters."""
_DIGITS: Final[Ranges] = ((0x30, 0x39),)
_WORD: Final[Ranges] = ((0x30, 0x39), (0x41, 0x5A), (0x5F, 0x5F), (0x61, 0x7A))
_SPACE: Final[Ranges] = ((9, 13), (0x20, 0x20))
_WIDE_SPACE: Final[Ranges] = (
    (9, 13), (0x1C, 0x20), (0x85, 0x85), (0xA0, 0xA0), (0x1680, 0x1680), (0x2000, 0x200A),
    (0x2028, 0x2029), (0x202F, 0x202F), (0x205F, 0x205F), (0x3000, 0x3000), (0xFEFF, 0xFEFF),
)  # fmt: skip
r"""What anybody takes for space: `\S` is none of these, and `\s` only what all agree on."""


def _joined(ranges: Iterable[tuple[int, int]]) -> Ranges:
    found: list[tuple[int, int]] = []
    for low, high in sorted(ranges):
        if found and low <= found[-1][1] + 1:
            found[-1] = (found[-1][0], max(high, found[-1][1]))
        else:
            found.append((low, high))
    return tuple(found)


def _common(one: Ranges, other: Ranges) -> Ranges:
    found, i, j = [], 0, 0
    while i < len(one) and j < len(other):
        low, high = max(one[i][0], other[j][0]), min(one[i][1], other[j][1])
        if low <= high:
            found.append((low, high))
        if one[i][1] < other[j][1]:
            i += 1
        else:
            j += 1
    return tuple(found)


def _without(ranges: Iterable[tuple[int, int]]) -> Ranges:
    found, start = [], 0
    for low, high in _joined(ranges):
        if low > start:
            found.append((start, low - 1))
        start = high + 1
    return _common(_joined([*found, (start, 0x10FFFF)] if start <= 0x10FFFF else found), _ALL)


_LINE_ENDS: Final[Ranges] = ((10, 10), (13, 13), (0x2028, 0x2029))
_CLASSES: Final[dict[str, Ranges]] = {
    "d": _DIGITS, "D": _without(_DIGITS), "w": _WORD, "W": _without(_WORD),
    "s": _SPACE, "S": _without(_WIDE_SPACE),
}  # fmt: skip
_NEGATED: Final = _CLASSES | {"s": _WIDE_SPACE, "S": _without(_SPACE)}
r"""In `[^…]`: `[^\s]` is `\S`."""
_CONTROLS: Final = {"t": 9, "n": 10, "v": 11, "f": 12, "r": 13, "0": 0}


# --- reading --------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Node:
    """`set`: one character of `ranges`. `row`, `choice`: of `parts`. `repeat`: the one part, from
    `least` to `most` times. `start`, `end`: nothing, there."""

    kind: str
    parts: list[_Node] = field(default_factory=list)
    ranges: Ranges = ()
    least: int = 0
    most: int | None = None


_QUANTIFIER: Final = re.compile(r"([*+?])|\{([0-9]{1,9})(,)?([0-9]{0,9})\}")
_SIGNS: Final[dict[str, tuple[int, int | None]]] = {"*": (0, None), "+": (1, None), "?": (0, 1)}
_IDENTITY: Final = re.compile(r"[^a-zA-Z0-9]")
_NUMBERED: Final = re.compile(
    r"x([0-9a-fA-F]{2})|u([dD][89abAB][0-9a-fA-F]{2})\\u([dD][c-fC-F][0-9a-fA-F]{2})"
    r"|u([0-9a-fA-F]{4})|u\{([0-9a-fA-F]{1,6})\}|c([a-zA-Z])"
)


class _Reader:
    def __init__(self, pattern: str) -> None:
        self._text = pattern
        self._at = 0
        self._depth = 0

    def read(self) -> _Node:
        node = self._choice()
        if self._at < len(self._text):
            raise ValueError("a pattern has an unmatched “)”")
        return node

    def _next(self) -> str:
        return self._text[self._at : self._at + 1]

    def _take(self, text: str) -> bool:
        is_there = self._text.startswith(text, self._at)
        self._at += len(text) * is_there
        return is_there

    def _choice(self) -> _Node:
        parts = [self._row()]
        while self._take("|"):
            parts.append(self._row())
        return parts[0] if len(parts) == 1 else _Node("choice", parts)

    def _row(self) -> _Node:
        parts: list[_Node] = []
        while self._next() not in ("", "|", ")"):
            parts.append(self._repeated(self._atom()))
        return _Node("row", parts)

    def _repeated(self, node: _Node) -> _Node:
        match = _QUANTIFIER.match(self._text, self._at)
        if match is None:
            return node
        if node.kind in ("start", "end"):
            raise NotHeld("a repeated anchor")
        self._at = match.end()
        if match[1]:
            least, most = _SIGNS[match[1]]
        else:
            least = int(match[2])
            most = int(match[4]) if match[4] else None if match[3] else least
        if most is not None and most < least:
            raise ValueError(f"a pattern repeats from {least} to {most} times")
        self._take("?")  # as few as possible: the same strings fit
        if _QUANTIFIER.match(self._text, self._at):
            raise NotHeld("a repetition of a repetition")
        return _Node("repeat", [node], least=least, most=most)

    def _atom(self) -> _Node:
        sign = self._text[self._at]
        if _QUANTIFIER.match(self._text, self._at):
            raise ValueError("a pattern has nothing to repeat")
        self._at += 1
        if sign == "(":
            return self._group()
        if sign == "[":
            return self._class()
        if sign in "^$":
            return _Node("start" if sign == "^" else "end")
        if sign == ".":
            return _Node("set", ranges=_without(_LINE_ENDS))
        if sign == "{" and self._next() == ",":
            raise NotHeld("a repetition without a first number")
        if sign != "\\":
            return _character(ord(sign))
        return self._escaped(_CLASSES)

    def _group(self) -> _Node:
        self._depth += 1
        if self._depth > _MAX_NESTING:
            raise NotHeld("brackets too deep")
        if self._take("?"):
            name = re.compile(r":|P?<[a-zA-Z_][a-zA-Z0-9_]*>").match(self._text, self._at)
            if name is None:
                raise NotHeld("a look around, or flags")
            self._at = name.end()
        node = self._choice()
        if not self._take(")"):
            raise ValueError("a pattern has an unclosed “(”")
        self._depth -= 1
        return node

    def _escaped(self, classes: dict[str, Ranges]) -> _Node:
        if not self._next():
            raise ValueError("a pattern ends in a backslash")
        match = _NUMBERED.match(self._text, self._at)
        if match is not None:
            self._at = match.end()
            return _character(_number(match))
        sign = self._text[self._at]
        self._at += 1
        if sign in classes:
            return _Node("set", ranges=classes[sign])
        if sign == "0" and self._next().isdecimal():
            raise NotHeld("an octal number")
        if sign in _CONTROLS:
            return _character(_CONTROLS[sign])
        if _IDENTITY.match(sign):
            return _character(ord(sign))
        raise NotHeld(f"\\{sign}")

    def _class(self) -> _Node:
        is_negated = self._take("^")
        if self._next() == "]":
            raise NotHeld("a class that begins with “]”")
        classes = _NEGATED if is_negated else _CLASSES
        ranges: list[tuple[int, int]] = []
        while not self._take("]"):
            first = self._member(classes)
            if self._next() == "-" and self._text[self._at + 1 : self._at + 2] not in ("]", ""):
                self._at += 1
                last = self._member(classes)
                if not (_is_one(first) and _is_one(last)):
                    raise NotHeld("a range of classes")
                if first[0][0] > last[0][0]:
                    raise ValueError("a pattern has a reversed range of characters")
                first = ((first[0][0], last[0][0]),)
            ranges += first
        found = _without(ranges) if is_negated else _common(_joined(ranges), _ALL)
        return _Node("set", ranges=found)

    def _member(self, classes: dict[str, Ranges]) -> Ranges:
        if not self._next():
            raise ValueError("a pattern has an unclosed “[”")
        sign = self._text[self._at]
        self._at += 1
        if sign == "\\":
            if self._take("b"):
                return ((8, 8),)
            return self._escaped(classes).ranges
        if sign == "[" or (sign in "&-~|" and self._next() == sign):
            raise NotHeld("a set of classes")
        return ((ord(sign), ord(sign)),)


def _number(match: re.Match[str]) -> int:
    if match[2]:
        return 0x10000 + (int(match[2], 16) - 0xD800) * 1024 + int(match[3], 16) - 0xDC00
    if match[6]:
        return ord(match[6]) % 32
    return int(match[1] or match[4] or match[5], 16)


def _character(number: int) -> _Node:
    if not any(low <= number <= high for low, high in _ALL):
        raise NotHeld("half a character")
    return _Node("set", ranges=((number, number),))


def _is_one(ranges: Ranges) -> bool:
    return len(ranges) == 1 and ranges[0][0] == ranges[0][1]


# --- the automaton --------------------------------------------------------------------------------

_BEFORE: Final = 0
_FITS: Final = 1


class _Steps:
    """States that lead to others: by a character of some set, by nothing, or by nothing where the
    string starts or ends. In `_BEFORE` and `_FITS` any character may come: a pattern may fit
    anywhere."""

    def __init__(self, pattern: _Node) -> None:
        self.freely: list[list[int]] = []
        self.at_start: list[list[int]] = []
        self.at_end: list[list[int]] = []
        self.by: list[list[tuple[int, int]]] = []
        self.sets: dict[Ranges, int] = {}
        for state in (self._new(), self._new()):
            self.by[state].append((self._set(_ALL), state))
        self.freely[self._build(pattern, _BEFORE)].append(_FITS)

    def _set(self, ranges: Ranges) -> int:
        return self.sets.setdefault(ranges, len(self.sets))

    def _new(self) -> int:
        if len(self.by) >= MAX_STEPS:
            raise NotHeld("too many states")
        for table in (self.freely, self.at_start, self.at_end):
            table.append([])
        self.by.append([])
        return len(self.by) - 1

    def _build(self, node: _Node, start: int) -> int:
        """Add the node behind a state; return the state behind the node."""
        if node.kind == "row":
            for part in node.parts:
                start = self._build(part, start)
            return start
        if node.kind == "repeat":
            return self._repeat(node, start)
        end = self._new()
        if node.kind == "choice":
            for part in node.parts:
                self.freely[self._build(part, self._beside(start))].append(end)
        elif node.kind == "set":
            self.by[start].append((self._set(node.ranges), end))
        else:
            (self.at_start if node.kind == "start" else self.at_end)[start].append(end)
        return end

    def _beside(self, start: int) -> int:
        state = self._new()
        self.freely[start].append(state)
        return state

    def _repeat(self, node: _Node, start: int) -> int:
        for _ in range(node.least):
            start = self._build(node.parts[0], self._beside(start))
        if node.most is None:
            start = self._beside(start)
            self.freely[self._build(node.parts[0], self._beside(start))].append(start)
            return self._beside(start)
        ends = [start]
        for _ in range(node.most - node.least):
            ends.append(self._build(node.parts[0], self._beside(ends[-1])))
        end = self._new()
        for state in ends:
            self.freely[state].append(end)
        return end

    def reached(self, states: Iterable[int], *tables: Sequence[list[int]]) -> frozenset[int]:
        """What these states lead to without a character."""
        tables = (self.freely, *tables)
        found = set(states)
        todo = list(found)
        for state in todo:
            for table in tables:
                for following in table[state]:
                    if following not in found:
                        found.add(following)
                        todo.append(following)
        return frozenset(found)


@dataclass(slots=True)
class _State:
    """Where each character leads, and whether the string may end here."""

    to: dict[int, Ranges] = field(default_factory=dict)
    fits: bool = False


def _automaton(pattern: str) -> list[_State]:
    """The states that lead to a string that fits; the first is the beginning. None where no string
    does."""
    steps = _Steps(_Reader(pattern).read())
    atoms = _atoms(steps.sets)
    # `^` counts at the beginning alone, `$` only where nothing comes any more.
    start = steps.reached([_BEFORE], steps.at_start)
    fits = [_FITS in steps.reached([_BEFORE], steps.at_start, steps.at_end)]
    number = {start: 0}
    states = [_State()]
    todo = [start]
    looked_at = 0
    for inside in todo:
        looked_at += len(inside) * len(atoms)
        if looked_at > _MAX_LOOKS:
            raise NotHeld("too many ways")
        state = states[number[inside]]
        ways: dict[frozenset[int], list[tuple[int, int]]] = {}
        for atom, sets in atoms.items():
            to = frozenset([end for at in inside for found, end in steps.by[at] if found in sets])
            if to:
                ways.setdefault(to, []).extend(atom)
        for to, characters in ways.items():
            after = steps.reached(to)
            after = frozenset([_FITS]) if _FITS in after else after
            if after not in number:
                if len(states) >= MAX_STATES:
                    raise NotHeld("too many states")
                number[after] = len(states)
                states.append(_State())
                todo.append(after)
                fits.append(_FITS in steps.reached(after, steps.at_end))
            so_far = state.to.get(number[after], ())
            state.to[number[after]] = _joined([*so_far, *characters])
    for state, is_end in zip(states, fits, strict=True):
        state.fits = is_end
    return _with_an_end(states)


def _atoms(sets: dict[Ranges, int]) -> dict[Ranges, frozenset[int]]:
    """Characters that no set tells apart, with the sets that hold them."""
    edges = sorted({edge for ranges in sets for low, high in ranges for edge in (low, high + 1)})
    if len(edges) * len(sets) > 1_000_000:
        raise NotHeld("too many sets of characters")
    holders: dict[int, list[int]] = {edge: [] for edge in edges}
    position = {edge: index for index, edge in enumerate(edges)}
    for ranges, number in sets.items():
        for low, high in ranges:
            for edge in edges[position[low] : position[high + 1]]:
                holders[edge].append(number)
    found: dict[frozenset[int], list[tuple[int, int]]] = {}
    for low, after in pairwise(edges):
        if holders[low]:
            found.setdefault(frozenset(holders[low]), []).append((low, after - 1))
    return {_joined(ranges): held for held, ranges in found.items()}


def _with_an_end(states: list[_State]) -> list[_State]:
    """Only the states from which a string that fits can still be written, numbered anew."""
    before: dict[int, set[int]] = {}
    for number, state in enumerate(states):
        for to in state.to:
            before.setdefault(to, set()).add(number)
    good = {number for number, state in enumerate(states) if state.fits}
    todo = list(good)
    while todo:
        for number in before.get(todo.pop(), set()) - good:
            good.add(number)
            todo.append(number)
    if 0 not in good:
        return []
    anew = {number: index for index, number in enumerate(sorted(good))}
    return [
        _State({anew[to]: r for to, r in states[number].to.items() if to in anew},
               states[number].fits)
        for number in sorted(good)
    ]  # fmt: skip


# --- as GBNF --------------------------------------------------------------------------------------

_SHORT: Final = {0x22: '\\"', 0x5C: "\\\\", 8: "b", 9: "t", 10: "n", 12: "f", 13: "r"}
"""What follows the backslash in JSON, as a class of GBNF writes it."""
_PLAIN: Final = _without([(0, 0x1F), (0x22, 0x22), (0x5C, 0x5C)])


def rules_of(pattern: str, name: str) -> dict[str, str]:
    """The rules of the JSON texts whose string fits; that of the whole text is called `name`, and
    the names of all begin so. They use the converter's `space`.

    Raises NotHeld, or ValueError for what is no pattern or fits nothing.
    """
    states = _automaton(pattern)
    if not states:
        raise ValueError("no text can match a pattern")
    rules = {name: rf'"\"" {name}-0'}
    sets: dict[Ranges, str] = {}
    for number, state in enumerate(states):
        ways = []
        for to, ranges in state.to.items():
            if ranges not in sets:
                *several, sets[ranges] = _as_json(ranges)
                if several:
                    one_of = f"{name}-of-{len(sets)}"
                    rules[one_of] = " | ".join([*several, sets[ranges]])
                    sets[ranges] = one_of
            ways.append(f"{sets[ranges]} {name}-{to}")
        if state.fits:
            ways.append(r'"\"" space')
        rules[f"{name}-{number}"] = " | ".join(ways)
    return rules


def _as_json(ranges: Ranges) -> list[str]:
    """The ways to write one of these characters in a JSON text."""
    ways = []
    if plain := _common(ranges, _PLAIN):
        ways.append(f"[{''.join(_in_class(low, high) for low, high in plain)}]")
    special = [c for low, high in ranges for c in range(low, min(high, 0x5C) + 1)]
    if short := [_SHORT[c] for c in special if c in _SHORT]:
        ways.append(rf'"\\" [{"".join(short)}]')
    for row in (0, 1):
        others = [c % 16 for c in special if c // 16 == row and c not in _SHORT]
        if others:
            digits = "".join(f"{c:x}{c:X}" if c > 9 else str(c) for c in others)
            ways.append(rf'"\\u00{row}" [{digits}]')
    return ways


def _in_class(low: int, high: int) -> str:
    return _one(low) if low == high else f"{_one(low)}-{_one(high)}"


def _one(number: int) -> str:
    sign = chr(number)
    return sign if sign.isascii() and sign.isalnum() else f"\\U{number:08X}"
