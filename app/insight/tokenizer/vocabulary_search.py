"""Looking for tokens in a vocabulary of 262,144: by a text, an ID, or bytes.

All pieces stand in one row of bytes, so one search over that row finds them all; what has to be
sorted out are hits that lie across the border of two pieces:

    pieces     the | re | her            looking for "ere"
    one row    therehere…                found at 2, in "the" and "re": none of them holds it
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from typing import Final

from app.engine.protocol.pieces import Pieces

BREATH: Final = 500
"""So many places are looked at before a search may be interrupted …"""
WINDOW: Final = 1 << 16
"""… and at most so many bytes of the row, also where nothing is found in them."""
MOST_DIGITS: Final = 10
"""Of an ID, which is a whole number of 32 bits."""

_BYTES: Final = re.compile(r"(?:0x)?[0-9a-f]{2}(?:[ ,]*(?:0x)?[0-9a-f]{2})*", re.IGNORECASE)
_SHOWN: Final = str.maketrans({"·": " ", "↵": "\n", "⇥": "\t", "␍": "\r"})


def search(pieces: Pieces, query: str) -> Iterator[int | None]:
    """IDs of the tokens that are meant, each once: the one with this ID first, the others in
    order. Capitals count only where the query has some. None: a good moment to pause.

    What means bytes begins with 0x, or is two or more pairs with spaces between ("E2 82").
    """
    wanted_id = _id_of(query.strip())
    first = -1
    if wanted_id is not None and wanted_id < len(pieces):
        first = wanted_id
        yield first
    for found in _found(pieces, *_pattern(query)):
        if found is None or found != first:
            yield found


def _id_of(word: str) -> int | None:
    digits = word.lstrip("0")
    is_id = word.isascii() and word.isdigit() and len(digits) <= MOST_DIGITS
    return int(digits or "0") if is_id else None


def _pattern(query: str) -> tuple[re.Pattern[bytes], int]:
    """What to look for in the row of bytes, and how long it is at most."""
    texts = {query, query.translate(_SHOWN)}
    if query == query.lower():
        texts |= {each for text in texts for each in (text.upper(), text.title())}
        flags = re.IGNORECASE
    else:
        flags = re.NOFLAG
    needles = {text.encode("utf-8", "replace") for text in texts}
    spelled = as_bytes(query)
    patterns = [re.escape(needle) for needle in needles if needle]
    longest = max(map(len, (*needles, spelled or b"")))
    if spelled is not None:
        # Bytes are meant as they are: letters among them have one size only.
        exact = b"(?-i:" + re.escape(spelled) + b")"
        patterns = [exact] if query.strip().lower().startswith("0x") else [*patterns, exact]
    patterns.sort(key=len, reverse=True)
    return re.compile(b"|".join(patterns) or rb"(?!)", flags), longest


def as_bytes(query: str) -> bytes | None:
    """
    >>> as_bytes("0x20"), as_bytes("E2 82 AC"), as_bytes("be"), as_bytes("the")
    (b' ', b'\\xe2\\x82\\xac', None, None)
    """
    query = query.strip()
    if not _BYTES.fullmatch(query) or not ("0x" in query.lower() or " " in query):
        return None
    return bytes.fromhex(re.sub(r"0x|,", " ", query, flags=re.IGNORECASE))


def _found(pieces: Pieces, pattern: re.Pattern[bytes], longest: int) -> Iterator[int | None]:
    """In one window of the row after the other; a hit may reach into the next one."""
    blob, offsets = pieces.blob, pieces.offsets
    at, n_looked = 0, 0
    for window in range(0, len(blob), WINDOW):
        ends = window + WINDOW
        while at < ends and (match := pattern.search(blob, at, ends + longest)) is not None:
            n_looked += 1
            token_id = bisect_right(offsets, match.start()) - 1
            end = offsets[token_id + 1] if token_id + 1 < len(offsets) else len(blob)
            if match.end() <= end:
                yield token_id
                at = end
            else:
                at = match.start() + 1
            if n_looked % BREATH == 0:
                yield None
        at = max(at, ends)
        yield None


def parse_ids(text: str) -> list[int]:
    """IDs as people paste them. Raises ValueError with a sentence.

    >>> parse_ids("[1, 2,3]"), parse_ids("1 2\\n3;"), parse_ids(" ")
    ([1, 2, 3], [1, 2, 3], [])
    """
    words = re.split(r"[\s,;\[\](){}]+", text.strip())
    found = []
    for word in filter(None, words):
        token_id = _id_of(word)
        if token_id is None:
            raise ValueError(f"“{word[:20]}” isn't an ID. IDs are whole numbers, such as 1 2 3.")
        found.append(token_id)
    return found
