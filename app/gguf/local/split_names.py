"""Names of weights that come in several files.

llama.cpp's own way is `NAME-00001-of-00003.gguf`: each part is a GGUF, and the first is opened.
Older uploads were cut with a byte splitter (`NAME.gguf-split-a`, `NAME.gguf.part1of2`): only
joined together they are a file.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

MAX_PARTS: Final = 1000
_SPLIT: Final = re.compile(r"(?P<stem>.+)-(?P<part>\d{5})-of-(?P<of>\d{5})\.gguf", re.DOTALL)
_PIECE: Final = re.compile(
    r"(?P<whole>.+?)(?:\.gguf)?[.\-_]"
    r"(?:part[-_]?\d+[-_]?of[-_]?\d+|(?:split|part)[-_]?(?:\d{1,3}|[a-z]{1,2}))(?:\.gguf)?",
    re.DOTALL | re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class SplitName:
    """`part` counts from 1 to `of`."""

    stem: str
    part: int
    of: int

    def name_of(self, part: int) -> str:
        return f"{self.stem}-{part:05d}-of-{self.of:05d}.gguf"


def split_name(name: str) -> SplitName | None:
    """What a file name says about parts; None for a file that is whole by its name.

    >>> split_name("big-00002-of-00003.gguf")
    SplitName(stem='big', part=2, of=3)
    """
    match = _SPLIT.fullmatch(name)
    if match is None:
        return None
    part, of = int(match["part"]), int(match["of"])
    return SplitName(match["stem"], part, of) if 1 <= part <= of else None


def set_name(name: str) -> SplitName | None:
    """The same where there can be a set: of more than `MAX_PARTS` nobody has the others, and
    counting them would take long."""
    split = split_name(name)
    return split if split is not None and split.of <= MAX_PARTS else None


def part_names(split: SplitName) -> list[str]:
    """The names of all parts, in order.

    >>> part_names(SplitName("big", 2, 2))
    ['big-00001-of-00002.gguf', 'big-00002-of-00002.gguf']
    """
    return [split.name_of(part) for part in range(1, split.of + 1)]


def piece_of(name: str) -> str | None:
    """The name of the file that this is a byte piece of, by its name; None if it is no piece.

    >>> piece_of("big.Q5_K_M.gguf.part1of2"), piece_of("big.gguf-split-a"), piece_of("big.gguf")
    ('big.Q5_K_M.gguf', 'big.gguf', None)
    """
    match = None if split_name(name) else _PIECE.fullmatch(name)
    return f"{match['whole']}.gguf" if match else None
