"""What is kept of what was made lately."""

from __future__ import annotations

from typing import Any


class Recent(dict[Any, Any]):
    """A cache that forgets what came first once it is full."""

    def __init__(self, limit: int) -> None:
        super().__init__()
        self._limit = limit

    def __setitem__(self, key: Any, value: Any) -> None:
        if len(self) >= self._limit and key not in self:
            del self[next(iter(self))]
        super().__setitem__(key, value)
