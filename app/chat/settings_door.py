"""The part of the desk for presets, the levels of settings, and running a reply again.

It only delegates; `app.chat.desk` tells what holds for every method.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from app.chat.replies.again import Again
from app.chat.sampling_door import SamplingDoor
from app.chat.settings.levels import Levels
from app.chat.settings.presets import Presets
from app.chat.settings.resolved import Resolved
from models.records import Preset


class SettingsDoor(SamplingDoor):
    """Mixed into `Desk`, which makes `_levels`, `_presets` and `_again`."""

    _levels: Levels
    _presets: Presets
    _again: Again

    # --- levels ---------------------------------------------------------------------------------

    def resolved_settings(self, message: Mapping[str, Any] | None = None) -> Resolved:
        """What the next reply of the open chat is made with, and whence each value comes.

        `message`: what is set for that reply alone.
        """
        return self._levels.resolved(message=message)

    def level_values(self, level: str) -> dict[str, Any]:
        """What a level (app, weights, chat) sets otherwise."""
        return self._levels.own(level)

    def set_at_level(self, level: str, name: str, value: Any) -> None:
        """Set a value at a level. One that does not fit is refused in words."""
        self._levels.change(level, name, value)

    def set_where_it_counts(self, name: str, value: Any) -> None:
        """Set a value at the level whose value counts in the open chat."""
        self._levels.change_where_it_counts(name, value)

    def reset_at_level(self, level: str, name: str) -> None:
        """Let the level below speak; at the app's, the default."""
        self._levels.reset(level, name)

    # --- presets --------------------------------------------------------------------------------

    @property
    def presets(self) -> tuple[Preset, ...]:
        """As far as they were read: ask for them with `list_presets`."""
        return self._presets.all

    def list_presets(self) -> None:
        """Ask for all presets; PresetsListed answers."""
        self._presets.list()

    def create_preset(self, name: str, values: Mapping[str, Any] | None = None) -> str:
        """A preset of these values, or of what counts in the open chat; its id, or nothing."""
        return self._presets.create(name, values)

    def rename_preset(self, preset_id: str, name: str) -> None:
        self._presets.rename(preset_id, name)

    def duplicate_preset(self, preset_id: str) -> str:
        return self._presets.duplicate(preset_id)

    def change_preset(self, preset_id: str, values: Mapping[str, Any]) -> None:
        self._presets.change(preset_id, values)

    def delete_preset(self, preset_id: str) -> None:
        """Delete it, with an undo."""
        self._presets.delete(preset_id)

    def apply_preset(self, preset_id: str, level: str = "chat") -> None:
        """Copy its values to the open chat, the loaded weights or the app."""
        self._presets.apply(preset_id, level)

    def leave_preset(self) -> None:
        """The open chat stands under no preset any more; its values stay."""
        self._presets.leave()

    def applied_preset(self) -> tuple[Preset | None, bool]:
        """The preset that was put on the open chat; False: its values were changed since."""
        return self._presets.applied()

    def preset_text(self, preset_id: str) -> str:
        """A preset as the text of a JSON file."""
        return self._presets.as_text(preset_id)

    def take_preset_text(self, text: str) -> str:
        """Add the preset of a JSON file; its id, or nothing."""
        return self._presets.take_text(text)

    # --- again ----------------------------------------------------------------------------------

    def run_again(self, message_id: str) -> None:
        """Run a reply again exactly and say whether it is identical."""
        self._again.run(message_id)
