"""With adapters and without: two versions of a reply, from the same settings and seed.

So what differs between them comes from the adapters alone, and from chance nowhere.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import Any, Final

from app.chat.conversations.shelf import Shelf
from app.chat.events import Noticed
from app.chat.replies.adapters import adapter_words
from app.chat.replies.replies import PRESET, Replies
from app.chat.settings.levels import Levels
from app.chat.settings.settings import MAX_SEED, as_stored
from app.chat.surroundings import Surroundings

NOTHING_ON: Final = "This chat uses no adapters. Add a LoRA adapter or a control vector first."
WITHOUT_WORDS: Final = "Without adapters"
NO_MESSAGE: Final = "Send a message first: its reply is then written with and without adapters."

WITHOUT: Final[dict[str, Any]] = {"loras": [], "control_vectors": []}


class WithWithout:
    def __init__(
        self,
        around: Surroundings,
        shelf: Shelf,
        levels: Levels,
        replies: Replies,
        name_of: Callable[[str], str],
    ) -> None:
        """`name_of`: what people call a file."""
        self._name_of = name_of
        self._around = around
        self._shelf = shelf
        self._levels = levels
        self._replies = replies

    def ask(self) -> None:
        """Write the last reply twice more, or the one that is still to come; what stands against
        it is said in words."""
        settings = self._levels.resolved().settings
        path = self._shelf.path
        if not (settings.loras or settings.control_vectors) or not path:
            self._around.emit(Noticed("info", NO_MESSAGE if not path else NOTHING_ON))
            return
        if (remote := self._levels.remote) is not None:
            self._around.emit(Noticed("info", remote.why_not("adapters")))
            return
        seed = settings.seed if settings.seed is not None else secrets.randbelow(MAX_SEED)
        with_all = {name: as_stored(getattr(settings, name)) for name in WITHOUT}
        words = " · ".join(adapter_words(with_all, self._name_of))
        answers = [
            {**WITHOUT, "seed": seed, PRESET: WITHOUT_WORDS},
            {**with_all, "seed": seed, PRESET: words},
        ]
        self._replies.ask_several(path[-1].id, answers)
