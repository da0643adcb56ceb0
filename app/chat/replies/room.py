"""Room for a prompt that is too long: a larger context window, or leaving out the oldest turns.

What was too long is kept with the failed reply (`room` in its settings), so that what helps can be
offered also after a restart. What must hold: a message is answered after the load that was asked
for it, and after no other one; where that load brings no larger window, it is said.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from app.chat.conversations.shelf import Shelf
from app.chat.events import Noticed
from app.chat.replies.replies import Replies
from app.chat.replies.window_size import larger_window
from app.chat.surroundings import Surroundings
from app.chat.weights.loading import Loader
from app.engine.protocol.loading_messages import Loaded

LARGEST_SENTENCE: Final = (
    "This model doesn't support a larger context window. Choose another model or shorten the chat."
)
STILL_SENTENCE: Final = "The context window still holds {size:,} tokens. Shorten the chat instead."


@dataclass(frozen=True, slots=True)
class _Waiting:
    """A message to be answered: after which choice of weights, in a window of at least which size.
    `before`: the weights as they stood in memory then."""

    message_id: str
    choice: int
    size: int
    before: Loaded


class RoomMaker:
    """Makes room, then has the message answered. `set_where_it_counts` changes a setting at the
    level whose value counts now: set below that, it would change nothing."""

    def __init__(
        self,
        around: Surroundings,
        shelf: Shelf,
        loader: Loader,
        replies: Replies,
        set_where_it_counts: Callable[[str, Any], None],
    ) -> None:
        self._around = around
        self._shelf = shelf
        self._loader = loader
        self._replies = replies
        self._set_where_it_counts = set_where_it_counts
        self._waiting: _Waiting | None = None

    def trim(self, message_id: str) -> None:
        """From now on the oldest turns are left out of prompts that are too long; the message is
        answered."""
        if not self._around.may_write():
            return
        self._set_where_it_counts("context_policy", "drop_oldest")
        self._replies.answer(message_id)

    def enlarge(self, message_id: str) -> None:
        """Load the weights again with a larger window; the message is answered afterwards."""
        if not self._around.may_write():
            return
        message, loaded = self._shelf.message(message_id), self._loader.loaded
        if message is None or loaded is None:
            return
        room = message.settings.get("room")
        needed = room.get("tokens") if isinstance(room, dict) else None
        size = None
        if isinstance(needed, int):
            size = larger_window(max(needed, loaded.n_ctx), loaded.n_ctx_train)
        if size is None or size <= loaded.n_ctx:
            self._around.emit(Noticed("info", LARGEST_SENTENCE))
            return
        self._set_where_it_counts("n_ctx", size)
        if self._loader.options_of(self._loader.path).n_ctx != size:
            return  # it could not be set, and why is said
        self._around.emit(Noticed("info", f"Enlarging the context window to {size:,} tokens."))
        self._loader.load(self._loader.path)
        self._waiting = _Waiting(message_id, self._loader.choice, size, loaded)

    def on_weights_ready(self) -> None:
        """Weights are there: if they are those with the larger window, go on."""
        waiting, loaded = self._waiting, self._loader.loaded
        if waiting is None or loaded is None or loaded is waiting.before:
            return
        self._waiting = None
        if waiting.choice != self._loader.choice:
            return  # something else was loaded or unloaded since
        if loaded.n_ctx < waiting.size:
            self._around.emit(Noticed("warning", STILL_SENTENCE.format(size=loaded.n_ctx)))
        elif self._shelf.is_on_path(waiting.message_id):
            self._replies.answer(waiting.message_id)
