"""The part of the desk for whoever looks at the KV cache.

It only delegates; `app.chat.desk` tells what holds for every method.
"""

from __future__ import annotations

from collections.abc import Callable

from app.chat.inspection.cache import CacheLook
from app.engine.protocol.cache_messages import CacheMap, ChangeCache, StepMeasured


class CacheDoor:
    """Mixed into `Desk`, which makes what is declared here. Of each question `then` or `failed`
    (with a sentence) is called once."""

    _cache: CacheLook

    def read_cache(self, then: Callable[[CacheMap], None], failed: Callable[[str], None]) -> None:
        """What the cache holds now."""
        self._cache.read(then, failed)

    def change_cache(
        self, change: ChangeCache, then: Callable[[], None], failed: Callable[[str], None]
    ) -> None:
        """Clear, park, drop, or keep a prefix. The id is filled in."""
        self._cache.change(change, then, failed)

    def measure_step(
        self,
        conversation_id: str,
        then: Callable[[StepMeasured], None],
        failed: Callable[[str], None],
    ) -> None:
        """Time the next token of a chat with its cells and by reading everything again."""
        self._cache.measure(conversation_id, then, failed)

    def stop_measuring(self) -> None:
        """That is not wanted any more: nobody is called."""
        self._cache.stop_measuring()

    def chat_title(self, conversation_id: str) -> str:
        """What a conversation that has cells is called."""
        return self._cache.title(conversation_id)
