"""The random numbers of a seed, as llama.cpp's samplers draw them.

Samplers that draw have a `std::mt19937` of their own, seeded with the request's seed, and make of
it one number in [0, 1) per draw. The C++ standard fixes the generator to the last bit, and so does
numpy's legacy seeding; `generate_canonical<double>` takes two outputs, the low one first:

    u = (x0 + x1 · 2³²) / 2⁶⁴

The first numbers for the seed 5489, the standard's own, whose 10,000th output is 4123659995:

    >>> [round(Uniforms(5489)[i], 4) for i in range(3)]
    [0.1355, 0.835, 0.9689]

XTC decides by a float, of which `generate_canonical<float>` makes one output: u = x0 / 2³².

With each token its number was recorded, so the same dice can fall again on other candidates. What a
draw of the reply did not need, another chain's may: a greedy reply drew none, one without XTC
decided nothing, and a grammar that refuses a token has a second one drawn. Those numbers are in the
seed as well: at the token's place, or behind the recorded one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from app.engine.protocol.messages import TokenTrace
from app.engine.protocol.stage_rules import MAX_SEED

_BLOCK: Final = 256
_SAME: Final = 1e-7
"""They are stored with as many digits."""
_SEARCHED: Final = 512
"""A draw may take two numbers or none, so a place is known but roughly."""


class Uniforms:
    """The draws of one seed by index. Kept, since a reply may go back to an earlier draw.
    `is_float`: numbers as `generate_canonical<float>` makes them."""

    def __init__(self, seed: int, *, is_float: bool = False) -> None:
        self._seed = seed
        self._is_float = is_float
        self._source: Any = None
        self._numbers: list[float] = []

    def __getitem__(self, index: int) -> float:
        while index >= len(self._numbers):
            self._extend()
        return self._numbers[index]

    def _extend(self) -> None:
        if self._source is None:
            self._source = np.random.RandomState(self._seed)._bit_generator
        # Sums and quotients round just as C++'s do; 1.0 would become the number below it.
        if self._is_float:
            one = np.float32(1)
            raw = self._source.random_raw(_BLOCK).astype(np.float32)
            numbers = np.minimum(raw / np.float32(2**32), np.nextafter(one, np.float32(0)))
        else:
            raw = self._source.random_raw(2 * _BLOCK).astype(np.float64)
            numbers = (raw[0::2] + raw[1::2] * 2.0**32) / 2.0**64
            numbers = np.minimum(numbers, np.nextafter(1.0, 0.0))
        self._numbers += numbers.tolist()

    def place(self, number: float, near: int) -> int | None:
        """Which of them this is: the one nearest to a place where it should be.

        >>> numbers = Uniforms(5)
        >>> numbers.place(numbers[9], 7), numbers.place(0.5, 7)
        (9, None)
        """
        for away in range(_SEARCHED):
            for at in (near + away, near - away):
                if at >= 0 and abs(self[at] - number) < _SAME:
                    return at
        return None


@dataclass(frozen=True, slots=True)
class Numbers:
    """What a token is drawn with: the number of the selecting stage and those of the XTC stages;
    the same for a second draw under the grammar. `is_of_seed`: the reply had drawn none."""

    uniform: float | None = None
    deciding: Sequence[float | None] = ()
    again: float | None = None
    deciding_again: Sequence[float | None] = ()
    is_of_seed: bool = False


class Dice:
    """The numbers of a reply. `seed`: None where it is not known. `first`: its first own token."""

    def __init__(self, seed: int | None, first: int = 0) -> None:
        self._first = first
        if seed is not None and not 0 <= seed <= MAX_SEED:  # an imported reply may have any
            seed = None
        self._uniforms = None if seed is None else Uniforms(seed)
        self._floats = None if seed is None else Uniforms(seed, is_float=True)

    def of(self, token: TokenTrace, index: int, n_xtc: int = 0) -> Numbers:
        """`index`: its place in the trace. `n_xtc`: so many XTC stages have to decide."""
        recorded = [effect.uniform for effect in token.stages if effect.stage == "xtc"]
        if self._uniforms is None or self._floats is None:
            return Numbers(token.uniform, recorded)
        near = max(index - self._first, 0)
        is_second = any(effect.stage == "grammar" for effect in token.stages)
        found = [_both(self._floats, number, near, is_second) for number in recorded[:n_xtc]]
        found += [_both(self._floats, None, near, False)] * (n_xtc - len(found))
        deciding, deciding_again = [one for one, _ in found], [two for _, two in found]
        if token.chosen:
            return Numbers(None, deciding, None, deciding_again)
        uniform, again = _both(self._uniforms, token.uniform, near, is_second)
        return Numbers(uniform, deciding, again, deciding_again, token.uniform is None)


def _both(
    numbers: Uniforms, number: float | None, near: int, is_second: bool
) -> tuple[float | None, float | None]:
    """The number of the first draw and of the second. `number`: the recorded one, which is that of
    the second draw where a grammar decided."""
    if number is None:
        return numbers[near], numbers[near + 1]
    at = numbers.place(number, near)
    if at is None or (is_second and at == 0):
        return (None, number) if is_second else (number, None)
    return (numbers[at - 1], number) if is_second else (number, numbers[at + 1])
