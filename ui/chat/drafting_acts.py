"""Speculative decoding of the open chat, from the palette and the menus."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from ui.shell.actions import Action

if TYPE_CHECKING:
    from app.chat.desk import Desk
    from ui.shell.actions import Actions

ACTS: Final = {
    "off": ("Speculative decoding: off", "Ctrl+Alt+Shift+O"),
    "lookup": ("Speculative decoding: lookup in the chat", "Ctrl+Alt+Shift+L"),
    "model": ("Speculative decoding: draft model", "Ctrl+Alt+Shift+M"),
}
"""Of each way: its action and key."""


def add_drafting_actions(desk: Desk, actions: Actions) -> None:
    """One for each way. A draft model has to be loaded with the model."""

    def is_set(kind: str) -> bool:
        return desk.levels.resolved().settings.drafts == kind

    def can_be(kind: str) -> bool:
        loaded = desk.loader.loaded
        if desk.loader.remote is not None:
            return False
        return kind != "model" or (loaded is not None and bool(loaded.draft))

    for kind, (title, key) in ACTS.items():
        actions.add(
            Action(
                f"drafts_{kind}",
                title,
                key,
                partial(desk.levels.change, "chat", "drafts", kind),
                is_enabled=partial(can_be, kind),
                is_checked=partial(is_set, kind),
            )
        )
