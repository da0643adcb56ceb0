"""How large a grammar is before llama.cpp sees it: nesting, repetitions, how far it branches.

llama.cpp parses GBNF recursively and keeps every way to go on as a stack of its own. So a text of
brackets overflows the C stack, and one of 700 bytes can need more memory than there is:

    r0 ::= r1 "b" | r1 "c"
    r1 ::= r2 "b" | r2 "c"
    …                            each level doubles the ways to begin: 30 levels, 2³⁰ stacks

`ways` counts them without expanding any: the ways of a rule are the sum over its alternatives, and
an alternative begins with its first item or, where that may be empty, with the next one.

    >>> largest_ways('root ::= a | "x"\\na ::= "y"? "z"')
    3

A repetition whose bounds are the wrong way round, `{5,2}`, is expanded 2⁶⁴ - 3 times.

Only the shape is read here; whether the text is right, llama.cpp says (`grammar.py`). What cannot
be read counts as nothing.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final

MAX_NESTING: Final = 100
MAX_WAYS: Final = 10_000
MAX_RULES: Final = 2_000
"""llama.cpp follows rules that begin with one another recursively."""

_TOKEN: Final = re.compile(
    r"""
    (?P<skip>[ \t\r\n]+|\#[^\n]*)
  | (?P<define>[a-zA-Z0-9-]+(?=\s*::=))
  | (?P<assign>::=)
  | (?P<name>[a-zA-Z0-9-]+)
  | (?P<text>"(?:\\.|[^"\\])*")
  | (?P<terminal>\[(?:\\.|[^\]\\])*\]|!?<[^>]*>|\.)
  | (?P<repeat>[*+?]|\{[^}]*\})
  | (?P<mark>[|()])
  | (?P<other>.)
    """,
    re.VERBOSE | re.DOTALL,
)


@dataclass(slots=True)
class _Item:
    """A part of an alternative: a terminal (neither name nor group), a rule, or a group."""

    name: str = ""
    group: list[list[_Item]] | None = None
    may_be_empty: bool = False


@dataclass(slots=True)
class Shape:
    """What a grammar's text consists of: alternatives of items by rule. `bad_repetition` is the
    first one that llama.cpp cannot count, like `{5,2}`."""

    rules: dict[str, list[list[_Item]]] = field(default_factory=dict)
    nesting: int = 0
    bad_repetition: str = ""


def shape_of(text: str) -> Shape:
    """Read the rules of `text`. Brackets deeper than `MAX_NESTING` are only counted."""
    shape = Shape()
    open_groups: list[list[list[_Item]]] = [[[]]]
    for match in _TOKEN.finditer(text):
        kind, token = match.lastgroup, match.group()
        if kind == "define":
            open_groups = [shape.rules.setdefault(token, [])]
            open_groups[0].append([])
        elif kind == "name":
            open_groups[-1][-1].append(_Item(name=token))
        elif kind in ("text", "terminal"):
            open_groups[-1][-1].append(_Item(may_be_empty=token == '""'))
        elif kind == "repeat" and _is_uncountable(token):
            shape.bad_repetition = token
            return shape
        elif kind == "repeat" and open_groups[-1][-1]:
            item = open_groups[-1][-1][-1]
            item.may_be_empty |= token in "*?" or re.match(r"\{\s*0", token) is not None
        elif token == "|":
            open_groups[-1].append([])
        elif token == "(":
            group: list[list[_Item]] = [[]]
            open_groups[-1][-1].append(_Item(group=group))
            open_groups.append(group)
            shape.nesting = max(shape.nesting, len(open_groups) - 1)
            if shape.nesting > MAX_NESTING:
                return shape
        elif token == ")" and len(open_groups) > 1:
            open_groups.pop()
    return shape


def _is_uncountable(repetition: str) -> bool:
    """Whether the bounds are the wrong way round, or numbers that no register holds."""
    bounds = re.findall(r"[0-9]+", repetition)
    if any(len(number) > 9 for number in bounds):
        return True
    return len(bounds) == 2 and int(bounds[1]) < int(bounds[0])


class _Counter:
    """Ways and emptiness of rules. Recursion is bounded: `depth` counts rules, groups nest."""

    def __init__(self, shape: Shape) -> None:
        self._rules = shape.rules
        self._ways: dict[str, int] = {}
        self._empty = self._find_empty()

    def count(self) -> int:
        """The largest number of ways of any rule; rules are counted before those that use them."""
        for name in self._in_order():
            self._ways[name] = self._of(self._rules[name])
        return max(self._ways.values(), default=0)

    def _of(self, alternatives: list[list[_Item]]) -> int:
        return min(sum(self._begins(items) for items in alternatives), MAX_WAYS + 1)

    def _begins(self, items: list[_Item]) -> int:
        ways = 0
        for item in items:
            if item.group is not None:
                ways += self._of(item.group)
            else:
                ways += self._ways.get(item.name, 1)
            if not self._is_empty(item):
                return ways
        return ways + 1

    def _is_empty(self, item: _Item) -> bool:
        if item.may_be_empty:
            return True
        if item.group is not None:
            return any(all(self._is_empty(i) for i in items) for items in item.group)
        return item.name in self._empty

    def _find_empty(self) -> set[str]:
        self._empty = set()
        while True:
            found = {
                name
                for name, alternatives in self._rules.items()
                if name not in self._empty
                and any(all(self._is_empty(i) for i in items) for items in alternatives)
            }
            if not found:
                return self._empty
            self._empty |= found

    def _in_order(self) -> list[str]:
        """Rules, those first that others begin with. A cycle is left recursion or follows a
        terminal; either way its ways are counted once."""
        order: list[str] = []
        state: dict[str, int] = {}
        for root in self._rules:
            todo = [root]
            while todo:
                name = todo[-1]
                if state.get(name) is None:
                    state[name] = 0
                    todo += [n for n in self._names(self._rules[name]) if n not in state]
                else:
                    todo.pop()
                    if state[name] == 0:
                        state[name] = 1
                        order.append(name)
        return order

    def _names(self, alternatives: list[list[_Item]]) -> list[str]:
        """Rules that one of the alternatives may begin with."""
        names: list[str] = []
        for items in alternatives:
            for item in items:
                if item.group is not None:
                    names += self._names(item.group)
                elif item.name in self._rules:
                    names.append(item.name)
                if not self._is_empty(item):
                    break
        return names


def largest_ways(text: str) -> int:
    """The largest number of ways in which a rule of `text` can begin."""
    return _Counter(shape_of(text)).count()
