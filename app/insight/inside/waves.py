"""A rotation as it is drawn: waves along the text, and the hands of dials."""

from __future__ import annotations

from typing import Any

import numpy as np

from app.insight.inside.position import Rope, angles, frequencies, magnitude, pairs_of

Values = np.ndarray[Any, Any]


def waves(rope: Rope, n_positions: int, n_columns: int) -> Values:
    """The cosine of each pair's angle along a text, [n_pairs, ≤ n_columns].

    Where there are more positions than columns, a column is the mean of n of them. For a fast pair
    that is near 0: it comes round many times in there, and a sample would show a slower wave that
    does not exist. Of the cosines of an arithmetic sequence, a … a + (n − 1)θ, the mean is

        cos(a + (n − 1)θ/2) · sin(nθ/2) ÷ (n sin(θ/2))

    >>> waves(Rope(2), 3, 10).round(2).tolist()
    [[1.0, 0.54, -0.42]]
    """
    n_columns = max(min(n_columns, n_positions), 1)
    ends = np.arange(n_columns + 1) * n_positions // n_columns
    first, n = ends[:-1], np.diff(ends)
    turning = frequencies(rope)[:, None]
    half = turning / 2
    middle = np.cos(turning * (first + (n - 1) / 2))
    down = np.sin(half)
    is_still = np.abs(down) < 1e-12  # a whole number of turns each step, or none
    shrunk = np.sin(n * half) / np.where(is_still, 1.0, n * down)
    found: Values = np.where(is_still, 1.0, middle * shrunk)
    return found


def hands(rope: Rope, vector: Values) -> Values:
    """The two dimensions of each pair of a query or key [d_head], [n_pairs, 2]. Raises ValueError
    where it is not known which these are."""
    found: Values = vector[pairs_of(rope)]
    return found


def unrotated(rope: Rope, vector: Values, position: int) -> Values:
    """What a query or key [d_head] was before it was turned at a position, float64."""
    found = vector.astype(np.float64)
    first, second = pairs_of(rope).T
    turn, length = angles(rope, position), magnitude(rope)
    cos, sin = np.cos(turn) / length, np.sin(turn) / length
    x, y = found[first], found[second]
    found[first], found[second] = x * cos + y * sin, y * cos - x * sin
    return found


def some_of(n_pairs: int, n: int) -> list[int]:
    """So many pairs at most, from the fastest to the slowest, and closer to each other among the
    fast ones: in a short text the others hardly move.

    >>> some_of(32, 8), some_of(3, 8)
    ([0, 1, 3, 6, 10, 16, 23, 31], [0, 1, 2])
    """
    if n_pairs <= n:
        return list(range(n_pairs))
    places = (round((at / (n - 1)) ** 2 * (n_pairs - 1)) for at in range(n))
    return list(dict.fromkeys(places))
