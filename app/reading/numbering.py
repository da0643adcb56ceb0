"""Numbers of lists and headings, as office programs count them: the file has only the rules."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

BULLET: Final = "- "
_PLACE: Final = re.compile(r"%(\d)")
_ROMAN: Final = (
    *((1000, "m"), (900, "cm"), (500, "d"), (400, "cd"), (100, "c"), (90, "xc"), (50, "l")),
    *((40, "xl"), (10, "x"), (9, "ix"), (5, "v"), (4, "iv"), (1, "i")),
)


@dataclass(frozen=True, slots=True)
class Level:
    """`form`: "1", "a", "A", "i", "I", "-" for a bullet, "" for no number. `template`: its text,
    with %1 where the number of level 1 stands."""

    form: str
    template: str
    start: int = 1


class Numbering:
    """Counts. A list goes on where it was left; a level begins anew below a higher one."""

    def __init__(self) -> None:
        self._counts: defaultdict[str, dict[int, int]] = defaultdict(dict)

    def next(self, list_id: str, levels: Mapping[int, Level], level: int) -> str:
        """The marker of the next item at this level (from 0), with a space behind it.

        >>> outline = {0: Level("1", "%1."), 1: Level("a", "%1.%2)")}
        >>> count = Numbering()
        >>> [count.next("x", outline, level) for level in (0, 1, 1, 0, 1)]
        ['1. ', '1.a) ', '1.b) ', '2. ', '2.a) ']
        """
        own = levels.get(level)
        if own is None or own.form == "-":
            return BULLET
        counts = self._counts[list_id]
        counts[level] = counts.get(level, own.start - 1) + 1
        for deeper in [each for each in counts if each > level]:
            del counts[deeper]

        def put(found: re.Match[str]) -> str:
            at = int(found[1]) - 1
            if at > level or at not in levels:
                return ""
            return numeral(counts.get(at, levels[at].start), levels[at].form)

        text = _PLACE.sub(put, own.template).strip()
        return f"{text} " if text else ""


def numeral(number: int, form: str) -> str:
    """
    >>> [numeral(28, form) for form in "1aAiI"], numeral(0, "i"), numeral(-3, "a")
    (['28', 'bb', 'BB', 'xxviii', 'XXVIII'], '0', '-3')
    """
    if form in "aA" and 0 < number < 1000:
        letters = chr(ord("a") + (number - 1) % 26) * ((number - 1) // 26 + 1)
        return letters if form == "a" else letters.upper()
    if form in "iI" and 0 < number < 4000:
        text = ""
        for worth, letters in _ROMAN:
            times, number = divmod(number, worth)
            text += letters * times
        return text if form == "i" else text.upper()
    return str(number) if form else ""
