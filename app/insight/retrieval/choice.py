"""Which parts go in: the best ones that fit, joined where they touch, in the order of the text.

    parts      1      2      3      4      5          budget 300, each costs 100
    scores     0.2    0.9    0      0.7    0.8
    taken             2             4      5
    chosen            [2]           [4 and 5 as one, with the better score]

A part with no score at all is never taken: filling the room with what fits nothing makes answers
worse, and costs time. In the text's order, since a model reads "then" and "it" as they were meant.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from app.insight.retrieval.chunks import Chunk


@dataclass(frozen=True, slots=True)
class Part:
    """Characters [start, end) that go in, how well they fit, and where they stand."""

    start: int
    end: int
    score: float
    label: str = ""


def choose(
    chunks: Sequence[Chunk],
    scores: Sequence[float],
    budget: float,
    cost: Callable[[Chunk], float],
    *,
    least_score: float = 0.0,
) -> list[Part]:
    """The chunks with the best scores above `least_score` whose costs come to `budget` at most; of
    equal scores, the earlier. One that doesn't fit any more is passed over, smaller ones may still
    fit. The best one is always taken.

    >>> chunks = [Chunk(0, 100), Chunk(100, 200), Chunk(200, 300), Chunk(300, 400)]
    >>> found = choose(chunks, [0.0, 0.5, 0.9, 0.4], 200, lambda chunk: chunk.end - chunk.start)
    >>> [(part.start, part.end, part.score) for part in found]
    [(100, 300, 0.9)]
    """
    taken: list[int] = []
    left = budget
    for place in sorted(range(len(chunks)), key=lambda place: (-scores[place], place)):
        if scores[place] <= least_score:
            break
        price = cost(chunks[place])
        if price <= left or not taken:
            taken.append(place)
            left -= price
    return merged(
        [Part(chunks[p].start, chunks[p].end, scores[p], chunks[p].label) for p in sorted(taken)]
    )


def within(parts: Sequence[tuple[int, Part]], budget: float, rates: Sequence[float]) -> set[int]:
    """Of parts of several texts, each with the number of its text, the places in `parts` of those
    that fit best and come to `budget` together, the very best always. `rates`: what a character of
    each text costs.

    >>> parts = [(0, Part(0, 10, 2.0)), (1, Part(0, 10, 9.0)), (1, Part(20, 30, 1.0))]
    >>> within(parts, 20, [1, 1]), within(parts, 1, [1, 1])
    ({0, 1}, {1})
    """
    taken: set[int] = set()
    for place in sorted(range(len(parts)), key=lambda place: (-parts[place][1].score, place)):
        text, part = parts[place]
        price = (part.end - part.start) * rates[text]
        if price <= budget or not taken:
            taken.add(place)
            budget -= price
    return taken


def merged(parts: Sequence[Part]) -> list[Part]:
    """Neighbours that touch on the same page as one; the better score is its score."""
    found: list[Part] = []
    for part in parts:
        last = found[-1] if found else None
        if last is not None and last.end == part.start and last.label == part.label:
            found[-1] = Part(last.start, part.end, max(last.score, part.score), last.label)
        else:
            found.append(part)
    return found
