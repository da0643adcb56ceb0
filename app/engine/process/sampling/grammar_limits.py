"""How large a grammar is before llama.cpp sees it: nesting, repetitions, how far it branches.

llama.cpp parses GBNF recursively and keeps every way to go on as a stack of its own. So a text of
brackets overflows the C stack, and one of 700 bytes can need more memory than there is:

    r0 ::= r1 "b" | r1 "c"
    r1 ::= r2 "b" | r2 "c"
    …                            each level doubles the ways to begin: 30 levels, 2³⁰ stacks

`beginnings_of` counts them without expanding any: the ways of a rule are the sum over its
alternatives, and an alternative begins with its first item or, where that may be empty, with the
next one.

    >>> beginnings_of(shape_of('root ::= a | "x"\\na ::= "y"? "z"')).ways
    3

A rule that can begin with itself needs no branching: each round puts what follows on the stack,
and the stacks never end. llama.cpp looks for that, but not behind a rule that is empty only by
what it calls. Here that is found:

    >>> shape = shape_of('expr ::= ws expr "+" num | num\\nws ::= [ ]*\\nnum ::= [0-9]')
    >>> beginnings_of(shape).growing
    'expr'

Where nothing follows the rule the stack does not grow, and llama.cpp meets the same one again:

    >>> beginnings_of(shape_of('list ::= ws list | "x"\\nws ::= [ ]*')).growing
    ''

Repetitions are written out: `"abc"{2000}` is 6,000 elements, and `{5,2}` would be 2⁶⁴ - 3 times.

Only the shape is read here; whether the text is right, llama.cpp says (`grammar.py`). What cannot
be read counts as nothing. All of it takes time in proportion to the text, whatever stands there:
it is also asked while somebody types.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

MAX_NESTING: Final = 100
MAX_WAYS: Final = 10_000
MAX_DEPTH: Final = 2_000
"""llama.cpp follows rules that begin with one another recursively."""
MAX_REPETITION: Final = 2_000
"""llama.cpp's own: it refuses a first number above, and takes a second one for no limit."""
MAX_ELEMENTS: Final = 500_000
"""Characters, ranges and references after the repetitions are written out; 8 bytes each."""

_TOKEN: Final = re.compile(
    r"""
    (?P<skip>[ \t\r\n]++|\#[^\n]*+)
  | (?P<assign>::=)
  | (?P<name>[a-zA-Z0-9-]++)
  | (?P<text>"(?:\\.|[^"\\])*+"?)
  | (?P<class>\[(?:\\.|[^\]\\])*+\]?)
  | (?P<terminal>!?<[^>]*+>?|\.)
  | (?P<repeat>[*+?]|\{[^}]*+\}?)
  | (?P<mark>[|()])
  | (?P<other>.)
    """,
    re.VERBOSE | re.DOTALL,
)
"""Nothing is looked at twice: what is not closed reaches to the end."""

_NOTHING: Final = ('""', "[]", "[^]")
"""What leaves no element behind."""

_ESCAPES: Final = re.compile(r"\\(?:x..|u.{4}|U.{8}|.)", re.DOTALL)


@dataclass(slots=True)
class _Item:
    """A part of an alternative: a rule or group by its name, or a terminal of `elements`. It
    stands `least` times, then up to `more` times (without end: it `loops`)."""

    name: str = ""
    elements: int = 1
    least: int = 1
    more: int = 0
    loops: bool = False

    @property
    def optional(self) -> int:
        """The rules that llama.cpp makes of what may follow, each of which ends with the next."""
        return self.more + self.loops


Alternatives = list[list[_Item]]


@dataclass
class Shape:
    """What a grammar's text consists of: alternatives of items by rule.

    `rules`: those that have a name; `groups`: those of brackets, by names that no rule can have.
    `places`: where each rule is first defined. `bad_repetition` is the first one that llama.cpp
    cannot count, like `{5,2}`, and `large_repetition` the first that it counts otherwise than it
    is written.
    """

    rules: dict[str, Alternatives] = field(default_factory=dict)
    groups: dict[str, Alternatives] = field(default_factory=dict)
    places: dict[str, int] = field(default_factory=dict)
    nesting: int = 0
    elements: int = 0
    bad_repetition: str = ""
    large_repetition: str = ""

    @cached_property
    def all(self) -> dict[str, Alternatives]:
        return self.rules | self.groups

    @cached_property
    def empty(self) -> frozenset[str]:
        """The rules and groups that may be empty. Each alternative waits for one item after the
        other: whoever is found to be empty wakes those that wait for it."""
        found: set[str] = set()
        waiting: dict[str, list[tuple[str, Iterator[str]]]] = {}
        for name, alternatives in self.all.items():
            for items in alternatives:
                needs = iter([item.name for item in items if item.least])
                todo = [(name, needs)]
                while todo:
                    owner, rest = todo.pop()
                    blocker = next((need for need in rest if need not in found), None)
                    if blocker is not None:
                        waiting.setdefault(blocker, []).append((owner, rest))
                    elif owner not in found:
                        found.add(owner)
                        todo += waiting.pop(owner, [])
        return frozenset(found)

    def may_be_empty(self, item: _Item) -> bool:
        return not item.least or item.name in self.empty

    def beginnings(self, name: str) -> Iterator[tuple[_Item, bool]]:
        """The items that a rule can begin with, and whether something follows each of them."""
        for items in self.all.get(name, ()):
            for number, item in enumerate(items, 1):
                yield item, number < len(items) or item.least + item.more > 1 or item.loops
                if not self.may_be_empty(item):
                    break


def shape_of(text: str) -> Shape:
    """Read the rules of `text`. Nothing is read behind what makes it unusable: brackets deeper
    than `MAX_NESTING`, a bad repetition, too many elements."""
    shape = Shape()
    stray: Alternatives = [[]]
    open_groups: list[Alternatives] = [stray]
    for match in _TOKEN.finditer(text):
        kind, token = match.lastgroup, match.group()
        sequence = open_groups[-1][-1]
        if kind == "name":
            sequence.append(_Item(token))
            start = match.start()
        elif kind == "assign" and sequence and sequence[-1].name:
            name = sequence.pop().name
            # llama.cpp keeps the last definition; all of them count here.
            open_groups = [shape.rules.setdefault(name, [])]
            open_groups[0].append([])
            shape.places.setdefault(name, start)
        elif token in _NOTHING:
            continue
        elif kind == "text":
            sequence.append(_Item(elements=len(_ESCAPES.sub("x", token)) - 2))
        elif kind in ("class", "terminal"):
            sequence.append(_Item(elements=len(_ESCAPES.sub("x", token))))
        elif kind == "repeat":
            _repeat(shape, sequence, token)
        elif token == "|":
            open_groups[-1].append([])
        elif token == "(":
            group: Alternatives = [[]]
            name = f"({len(shape.groups)}"
            shape.groups[name] = group
            sequence.append(_Item(name))
            open_groups.append(group)
            shape.nesting = max(shape.nesting, len(open_groups) - 1)
        elif token == ")" and len(open_groups) > 1:
            open_groups.pop()
        if shape.bad_repetition or shape.large_repetition or shape.nesting > MAX_NESTING:
            return shape
    shape.elements = sum(
        1 + sum(item.elements for item in items)
        for alternatives in shape.all.values()
        for items in alternatives
    )
    return shape


def _repeat(shape: Shape, sequence: list[_Item], token: str) -> None:
    """Apply a repetition to the last item, as llama.cpp writes it out: `S{2,5}` is S S and a rule
    for each of the three that may follow."""
    bounds = _bounds(shape, token)
    if bounds is None or not sequence:
        return
    least, most = bounds
    if most == 0:
        sequence.pop()
        return
    item = sequence[-1]
    if (item.least, item.more, item.loops) != (1, 0, False):  # a repetition of a repetition
        # Named otherwise than brackets: llama.cpp sees that `x?` is empty, in brackets it does not.
        name = f"{'' if item.least else '?'}{{{len(shape.groups)}"
        shape.groups[name] = [[item]]
        sequence[-1] = item = _Item(name, item.elements)
    item.least, item.loops = least, most is None
    item.more = 0 if most is None else most - least
    elements = least * item.elements + item.optional * (item.elements + 3) + 1
    item.elements = min(elements, MAX_ELEMENTS + 1)


_SIGNS: Final[dict[str, tuple[int, int | None]]] = {"*": (0, None), "+": (1, None), "?": (0, 1)}


def _bounds(shape: Shape, token: str) -> tuple[int, int | None] | None:
    """How often at least and at most; None where llama.cpp cannot count it or read it."""
    if token in _SIGNS:
        return _SIGNS[token]
    found = re.fullmatch(r"\{\s*([0-9]+)\s*(?:(,)\s*([0-9]*)\s*)?\}", token)
    if found is None:
        return None
    numbers = [number for number in (found[1], found[3]) if number]
    if any(len(number) > 9 for number in numbers) or int(numbers[-1]) < int(numbers[0]):
        shape.bad_repetition = token
        return None
    if max(map(int, numbers)) > MAX_REPETITION:
        shape.large_repetition = token
        return None
    least = int(numbers[0])
    return least, None if found[2] and not found[3] else int(numbers[-1])


# --- what begins with what ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Beginnings:
    """How the rules of a grammar begin. `ways`: the most for any rule; `depth`: the longest row of
    rules that begin with one another; `growing`: the first rule that can begin with itself and go
    on, which llama.cpp would follow without end; `circular`: the first that can begin with itself
    at all, which llama.cpp refuses where it finds it. Both "" where there is none."""

    ways: int
    depth: int
    growing: str
    circular: str
    idle: str


def beginnings_of(shape: Shape) -> Beginnings:
    """Rules that can begin with one another are counted together: what one can begin with, all
    of them can. Whoever they begin with is counted before them."""
    ways: dict[str, int] = {}
    depths: dict[str, int] = {}
    growing: list[str] = []
    circular: list[str] = []
    for knot in _knots(shape):
        inside = set(knot)
        total = deepest = 0
        for name in knot:
            for item, goes_on in shape.beginnings(name):
                if item.name in inside:
                    circular += knot
                    growing += knot if goes_on else ()
                else:
                    is_one = item.name not in shape.empty
                    total += ways.get(item.name, 1) * (1 if is_one else item.least + item.optional)
                    steps = min(item.optional, 1) if is_one else item.optional
                    deepest = max(deepest, steps + depths.get(item.name, 0))
            if name in shape.empty:
                total += 1
        ways |= dict.fromkeys(knot, min(total, MAX_WAYS + 1))
        depths |= dict.fromkeys(knot, deepest + len(knot))
    return Beginnings(
        max(ways.values(), default=0),
        max(depths.values(), default=0),
        _first(shape, growing),
        _first(shape, circular),
        _first(shape, _idle(shape)),
    )


def _first(shape: Shape, names: Iterable[str]) -> str:
    """The rule of these that stands first in the text; brackets have no name."""
    return min((n for n in names if n in shape.places), key=shape.places.__getitem__, default="")


def _knots(shape: Shape) -> Iterator[list[str]]:
    """The rules and groups, those together that can begin with one another, and those first that
    others begin with (Tarjan's algorithm, without recursion)."""
    number: dict[str, int] = {}
    lowest: dict[str, int] = {}
    open_names: list[str] = []
    closed: set[str] = set()
    for root in shape.all:
        path = [] if root in number else [(root, shape.beginnings(root))]
        while path:
            name, rest = path[-1]
            if name not in number:
                number[name] = lowest[name] = len(number)
                open_names.append(name)
            for item, _ in rest:
                if item.name in number:
                    if item.name not in closed:
                        lowest[name] = min(lowest[name], number[item.name])
                elif item.name in shape.all:
                    path.append((item.name, shape.beginnings(item.name)))
                    break
            else:
                path.pop()
                if path:
                    parent = path[-1][0]
                    lowest[parent] = min(lowest[parent], lowest[name])
                if lowest[name] == number[name]:
                    knot = []
                    while name not in closed:
                        knot.append(open_names.pop())
                        closed.add(knot[-1])
                    yield knot


def _idle(shape: Shape) -> Iterator[str]:
    """The rules in which something loops that has an empty alternative."""
    owners = {
        item.name: owner
        for owner, alternatives in shape.all.items()
        for items in alternatives
        for item in items
        if item.name in shape.groups
    }
    for owner, alternatives in shape.all.items():
        for items in alternatives:
            if any(
                item.loops and (item.name[:1] == "?" or [] in shape.all.get(item.name, ()))
                for item in items
            ):
                name = owner
                while name not in shape.rules:
                    name = owners[name]
                yield name
