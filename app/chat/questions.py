"""What views ask the engine beside replies: how a text is tokenised, what the cache holds.

Each question is one command that ends once. Its answer goes to whoever asked, and a failure is a
sentence for the same reader; nothing of it touches a conversation.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from app.chat.loading import Loader
from app.engine.protocol import Command, Failed, Finished, Result, Stopped

NO_WEIGHTS: Final = "This needs loaded weights. Load some first."
ENDED: Final = "The engine ended before it could answer. Try again."


class Questions:
    """`ask` never waits. Answers come on the desk's thread, each exactly once."""

    def __init__(self, loader: Loader) -> None:
        self._loader = loader
        self._asked: dict[int, tuple[Callable[[Result], None], Callable[[str], None]]] = {}

    def ask(
        self, command: Command, then: Callable[[Result], None], failed: Callable[[str], None]
    ) -> int | None:
        """Send a command (its id is filled in). `failed` gets a sentence for the user, at once
        where no weights are loaded. Returns the id, for `stop`."""
        if self._loader.loaded is None:
            failed(NO_WEIGHTS)
            return None
        request_id = self._loader.engine.request(command)
        self._asked[request_id] = (then, failed)
        return request_id

    def stop(self, request_id: int) -> None:
        """The answer is not wanted any more: nobody is called."""
        if self._asked.pop(request_id, None) is not None:
            self._loader.engine.stop(request_id)

    def break_off(self, request_id: int) -> None:
        """End it early; its answer still comes, as a failure."""
        if request_id in self._asked:
            self._loader.engine.stop(request_id)

    def is_asked(self, request_id: int) -> bool:
        return request_id in self._asked

    def take_ending(self, event: Finished | Stopped | Failed) -> None:
        then, failed = self._asked.pop(event.id)
        if isinstance(event, Finished):
            then(event.result)
        else:
            failed(event.sentence if isinstance(event, Failed) else ENDED)
