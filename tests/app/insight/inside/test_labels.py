"""Names on a map: none on another, none outside, the important ones first."""

from __future__ import annotations

import random
from itertools import combinations

import pytest

from app.insight.inside.labels import Box, placed

ROOM = Box(0, 0, 340, 280)


def scattered(n: int, seed: int) -> tuple[list[tuple[float, float]], list[tuple[float, float]]]:
    chance = random.Random(seed)
    points = [(chance.uniform(20, 320), chance.uniform(15, 265)) for _ in range(n)]
    return points, [(chance.uniform(15, 60), 12.0) for _ in range(n)]


def overlap(one: Box, other: Box) -> float:
    """In square pixels."""
    across = min(one.x + one.width, other.x + other.width) - max(one.x, other.x)
    down = min(one.y + one.height, other.y + other.height) - max(one.y, other.y)
    return max(across, 0.0) * max(down, 0.0)


@pytest.mark.parametrize("seed", range(5))
def test_no_name_lies_on_another_or_on_a_point_or_outside(seed: int) -> None:
    points, sizes = scattered(60, seed)
    found = placed(points, sizes, ROOM, 2)
    boxes = [box for box in found if box is not None]
    assert len(boxes) > 25
    assert max(overlap(one, other) for one, other in combinations(boxes, 2)) < 1e-9
    for box in boxes:
        assert box.x >= 0
        assert box.y >= 0
        assert box.x + box.width <= 340
        assert box.y + box.height <= 280
        assert all(overlap(box, Box(x, y, 0.01, 0.01)) == 0 for x, y in points)
    assert [(b.width, b.height) for b in found if b] == [
        size for size, box in zip(sizes, found, strict=True) if box
    ]


def test_what_comes_first_gets_its_place() -> None:
    points, sizes = scattered(150, 1)
    left_out = placed(points, sizes, ROOM, 2).index(None)
    assert placed(points, sizes, ROOM, 2, [left_out])[left_out] is not None
