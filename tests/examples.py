"""How many made-up examples a property is tried with (hypothesis).

Each run makes up other ones, so `make test` tries a fifth; `make soak` sets the variable and
tries them all.
"""

from __future__ import annotations

import os
from typing import Final

ALL: Final = "CUTAWAY_ALL_EXAMPLES"
_FEW: Final = 10


def examples(count: int) -> int:
    """So many of `count` as this run tries.

    >>> [examples(count) for count in (6, 25, 100)]
    [6, 10, 20]
    """
    return count if os.environ.get(ALL) else max(min(count, _FEW), count // 5)
