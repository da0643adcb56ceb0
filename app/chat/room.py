"""Room for a prompt that is too long: a larger context window, or leaving out the oldest turns.

What was too long is kept with the failed reply (`room` in its settings), so that what helps can be
offered also after a restart.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from app.chat.events import Noticed
from app.chat.loading import Loader
from app.chat.replies import Replies
from app.chat.shelf import Shelf
from app.chat.surroundings import Surroundings
from app.chat.window_size import larger_window

LARGEST_SENTENCE: Final = (
    "These weights were made for no larger window. Choose other weights, or shorten the chat."
)


class Room:
    """Makes room, then has the message answered. `set_setting` changes the app's level;
    `set_where_it_counts` the one whose value counts now."""

    def __init__(
        self,
        around: Surroundings,
        shelf: Shelf,
        loader: Loader,
        replies: Replies,
        set_setting: Callable[[str, Any], None],
        set_where_it_counts: Callable[[str, Any], None],
    ) -> None:
        self._around = around
        self._shelf = shelf
        self._loader = loader
        self._replies = replies
        self._set_setting = set_setting
        self._set_where_it_counts = set_where_it_counts
        self._waiting = ""
        self._size = 0

    def trim(self, message_id: str) -> None:
        """From now on the oldest turns are left out of prompts that are too long."""
        self._set_where_it_counts("context_policy", "drop_oldest")
        self._replies.retry(message_id)

    def enlarge(self, message_id: str) -> None:
        """Load the weights again with a larger window; the message is answered afterwards."""
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
        self._waiting, self._size = message_id, size
        self._set_setting("n_ctx", size)
        self._around.emit(Noticed("info", f"The window becomes {size:,} tokens large."))
        self._loader.load(self._loader.path)

    def on_weights_ready(self) -> None:
        """Weights are there: if they are those with the larger window, go on."""
        loaded = self._loader.loaded
        if self._waiting and loaded is not None and loaded.n_ctx >= self._size:
            waiting, self._waiting = self._waiting, ""
            if self._shelf.is_on_path(waiting):
                self._replies.retry(waiting)
