"""A document of 200 pages with known facts: each page is about one town, and says how deep its
harbour is and who keeps its light. Everything else is the same sea of words on all pages."""

from __future__ import annotations

import random
import re
from functools import cache
from typing import Any

N_PAGES = 200
_SEA: list[str] = re.findall(
    r"\w+",
    """the ferry leaves at noon and returns before dark when wind and tide allow it while the
    council counts ships ropes barrels and letters of the season as every year""",
)
_STARTS = ("Ar", "Bel", "Cor", "Dun", "Es", "Fal", "Gol", "Hav", "Il", "Jor")
_ENDS = ("den", "fir", "gate", "holm", "kirk", "lund", "mere", "nes", "por", "rath")
TOWNS = [f"{start}{end}{tail}" for tail in ("", "o") for start in _STARTS for end in _ENDS]


def depth(page: int) -> str:
    return f"{page * 7 % 97 + 3}.{page % 10}"


def page_text(page: int, words: int = 260) -> str:
    dice, town = random.Random(page), TOWNS[page - 1]
    sea = [dice.choice(_SEA) for _ in range(words)]
    for place in range(12, words, 13):
        sea[place] += ".\n\n" if place % 5 == 0 else "."
    half = words // 2
    facts = (
        f"The harbour of {town} is {depth(page)} metres deep. Its light is kept by {town[::-1]}."
    )
    return f"{' '.join(sea[:half])}\n\n{facts}\n\n{' '.join(sea[half:])}"


@cache
def long_text(n_pages: int = N_PAGES) -> tuple[str, list[list[Any]]]:
    """As a document that was read: the text, and where its pages begin."""
    text, places = "", []
    for page in range(1, n_pages + 1):
        places.append([len(text), f"page {page}"])
        text += f"[Page {page}]\n\n{page_text(page, 130)}\n\n"
    return text, places


def long_details(n_pages: int = N_PAGES) -> dict[str, Any]:
    _, places = long_text(n_pages)
    return {"media_type": "application/pdf", "places": places, "mode": "whole", "pages": ""}
