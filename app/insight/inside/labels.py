"""Where the names of points stand on a map, so that none lies on another.

Greedy, the most important first: a name is tried on each side of its point, and left out where
there is no room on any. What is left out is still a point.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class Box(NamedTuple):
    """In pixels; `y` grows downwards."""

    x: float
    y: float
    width: float
    height: float

    def meets(self, other: Box) -> bool:
        """Whether they share more than an edge.

        >>> Box(0, 0, 10, 10).meets(Box(9, 9, 5, 5)), Box(0, 0, 10, 10).meets(Box(10, 0, 5, 5))
        (True, False)
        """
        across = self.x < other.x + other.width and other.x < self.x + self.width
        return across and self.y < other.y + other.height and other.y < self.y + self.height

    def lies_in(self, other: Box) -> bool:
        is_across = other.x <= self.x and self.x + self.width <= other.x + other.width
        return is_across and other.y <= self.y and self.y + self.height <= other.y + other.height


def placed(
    points: Sequence[tuple[float, float]],
    sizes: Sequence[tuple[float, float]],
    room: Box,
    radius: float,
    order: Sequence[int] = (),
) -> list[Box | None]:
    """A box for the name of each point, of its size, inside of `room` and off all points; None
    where there is no room. `order`: which come first, over points that are none of them if need
    be; the others follow as they stand.

    >>> room = Box(0, 0, 100, 20)
    >>> placed([(40, 10), (44, 10)], [(30, 8), (60, 8)], room, 2)
    [Box(x=7, y=6.0, width=30, height=8), None]
    """
    dots = [Box(x - radius, y - radius, 2 * radius, 2 * radius) for x, y in points]
    found: list[Box | None] = [None] * len(points)
    taken: list[Box] = []
    everything = range(len(points))
    for at in dict.fromkeys((*order, *everything)):
        sides = _sides(points[at], sizes[at], radius + 1)
        for in_the_way in (everything, order) if at in order else (everything,):
            others = (*taken, *(dots[other] for other in in_the_way if other != at))
            free = (box for box in sides if box.lies_in(room))
            box = next((box for box in free if not any(map(box.meets, others))), None)
            if box is not None:
                found[at] = box
                taken.append(box)
                break
    return found


def _sides(point: tuple[float, float], size: tuple[float, float], gap: float) -> list[Box]:
    """Right, left, above, below, then the corners, then once more a line further off."""
    return [*_near(point, size, gap), *_near(point, size, gap + size[1])]


def _near(point: tuple[float, float], size: tuple[float, float], gap: float) -> list[Box]:
    (x, y), (width, height) = point, size
    right, left, middle = x + gap, x - gap - width, x - width / 2
    above, below, level = y - gap - height, y + gap, y - height / 2
    places = (
        *((right, level), (left, level), (middle, above), (middle, below)),
        *((right, above), (right, below), (left, above), (left, below)),
    )
    return [Box(at_x, at_y, width, height) for at_x, at_y in places]
