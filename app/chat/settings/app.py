"""The app's own settings: what they are now, changing them, and keeping what was changed.

A value that is set before the database has been opened counts at once, and over what stands there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from app.chat.events import Noticed, SettingsChanged
from app.chat.settings import first_look
from app.chat.settings.resolved import merged
from app.chat.settings.settings import Settings, as_stored, changed, from_stored
from app.chat.surroundings import Surroundings
from app.refusal import Refusal


class AppSettings:
    """`on_changed` is told which of them have other values now, before the views are."""

    def __init__(
        self,
        around: Surroundings,
        data_dir: Path,
        on_changed: Callable[[frozenset[str]], None],
    ) -> None:
        self._around = around
        self._data_dir = data_dir
        self._on_changed = on_changed
        self._early: dict[str, Any] = {}
        self._is_opened = False
        self.is_read = False
        """What the last run left is in `now`; until then only what the first paint needs."""

    @property
    def now(self) -> Settings:
        return self._around.settings

    def set(self, name: str, value: Any) -> None:
        """Change a setting. A value that does not fit is refused in words and changes nothing."""
        before = self.now
        try:
            # A number goes into the app's own chain too, if there is one.
            settings = merged(changed(before, name, value), {name: value})
        except Refusal as refused:
            self._around.emit(Noticed("error", refused.sentence))
            return
        names = frozenset(
            each for each in (name, "chain") if getattr(settings, each) != getattr(before, each)
        )
        if not names:
            return
        self._around.settings = settings
        for each in names:
            self._store(each, getattr(settings, each))
        if name in first_look.NAMES and self._around.can_write:
            first_look.write(self._data_dir, settings)
        self._on_changed(names)
        self._around.emit(SettingsChanged(names))

    def on_store_opened(self) -> None:
        """From now on what is set can be stored."""
        self._is_opened = True

    def take_stored(self, stored: Mapping[str, Any]) -> frozenset[str]:
        """What the last run left, under what was set since the start; returns the names of those
        that have other values now."""
        before = self.now
        after, refused = from_stored({**stored, **self._early})
        self._around.settings = after
        self.is_read = True
        for name, value in self._early.items():
            self._store(name, value)
        self._early.clear()
        if refused:
            names_read = ", ".join(refused).replace("_", " ")
            sentence = (
                f"Some settings couldn't be read and were reset to their defaults: {names_read}."
            )
            self._around.emit(Noticed("warning", sentence))
        if self._around.can_write:
            first_look.write(self._data_dir, after)
        return frozenset(n for n in after.__slots__ if getattr(before, n) != getattr(after, n))

    def _store(self, name: str, value: Any) -> None:
        if not self._is_opened:
            self._early[name] = as_stored(value)
        elif self._around.can_write and self._around.store is not None:
            self._around.saved(self._around.store.set_setting(name, as_stored(value)))
