"""Presets: settings under a name, to be put on a chat, on weights or on the whole app.

A preset holds any of what shapes a reply (`resolved.SHAPING`): the sampling chain with all its
stages, the system prompt, stop strings, the context policy, the most tokens. What must hold:

* Putting a preset somewhere copies its values there. Changing or deleting it later changes no
  chat behind the user's back.
* Names are unique, and a deleted preset can be brought back.
* The starters are made once; whoever deletes them has seen the last of them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from app.chat.conversations.shelf import Shelf, new_id
from app.chat.events import Noticed, PresetsListed
from app.chat.replies.prompts import clean_message
from app.chat.settings import preset_files
from app.chat.settings.levels import Levels
from app.chat.settings.preset_files import as_kept
from app.chat.settings.resolved import APP, IN_CHAIN, SHAPING
from app.chat.settings.sampler_links import OFF
from app.chat.settings.settings import Settings, as_stored
from app.chat.surroundings import ALWAYS, Surroundings, now
from models.records import Preset
from models.store.store import Store

STARTERS: Final = Path(__file__).parents[3] / "resources" / "presets" / "starters.json"
MADE: Final = "starter_presets_made"
MAX_NAME_LENGTH: Final = 80
NOT_A_PRESET: Final = (
    "This file contains no preset. Choose one of Cutaway, SillyTavern or text-generation-webui."
)
_ALWAYS: Final = ("system_prompt", "stop_strings", "context_policy", "max_tokens")


class Presets:
    """All presets; read from the store when they are first asked for."""

    def __init__(self, around: Surroundings, shelf: Shelf, levels: Levels) -> None:
        self._around = around
        self._shelf = shelf
        self._levels = levels
        self._presets: dict[str, Preset] = {}
        self._deleted: set[str] = set()
        self._is_read = False

    @property
    def _store(self) -> Store:
        assert self._around.store is not None
        return self._around.store

    @property
    def all(self) -> tuple[Preset, ...]:
        """In the user's order, as far as they were read."""
        return tuple(sorted(self._presets.values(), key=lambda p: (p.position, p.created_at)))

    def list(self) -> None:
        """Ask for all presets; PresetsListed answers."""
        if self._is_read:
            self._tell()
        elif self._around.store is not None:
            self._is_read = True
            # What was made, changed or deleted here since it was asked for is newer.
            self._around.when_done(self._store.list_presets(), self._take, self._fail, still=ALWAYS)

    def read_again(self) -> None:
        """Others were added to the store."""
        if self._is_read:
            self._is_read = False
            self.list()

    def _fail(self, sentence: str) -> None:
        self._is_read = False
        self._around.emit(Noticed("error", sentence))

    def _take(self, stored: tuple[Preset, ...]) -> None:
        found = {preset.id: preset for preset in stored if preset.id not in self._deleted}
        self._presets = found | self._presets

        def settle(is_made: Any) -> None:
            if not is_made and self._around.can_write:
                self._make_starters()
            self._tell()

        self._around.when_done(self._store.get_setting(MADE, False), settle, still=ALWAYS)  # once

    def _make_starters(self) -> None:
        for starter in json.loads(STARTERS.read_text(encoding="utf-8")):
            if starter["name"] not in self._names():
                self._add(starter["name"], starter["value"])
        self._around.saved(self._store.set_setting(MADE, True))

    def _tell(self) -> None:
        self._around.emit(PresetsListed(self.all))

    # --- making and changing --------------------------------------------------------------------

    def create(self, name: str, values: Mapping[str, Any] | None = None) -> str:
        """A preset of these values, or of what counts in the open chat; its id, or nothing."""
        if not self._around.may_write():
            return ""
        if values is None:
            values = values_of(self._levels.resolved().settings)
        preset = self._add(self._free_name(name), values)
        self._tell()
        return preset.id

    def rename(self, preset_id: str, name: str) -> None:
        preset, name = self._presets.get(preset_id), _one_line(name)
        if preset is None or not name or name == preset.name or not self._around.may_write():
            return
        if name.casefold() in {n.casefold() for n in self._names()} - {preset.name.casefold()}:
            self._around.emit(Noticed("warning", f"A preset named “{name}” already exists."))
            self._tell()
            return
        self._change(preset, name=name)

    def duplicate(self, preset_id: str) -> str:
        preset = self._presets.get(preset_id)
        return self.create(preset.name, preset.value) if preset is not None else ""

    def change(self, preset_id: str, values: Mapping[str, Any]) -> None:
        """Other values under the same name."""
        preset = self._presets.get(preset_id)
        if preset is not None and self._around.may_write():
            self._change(preset, value=as_kept(values))

    def delete(self, preset_id: str) -> None:
        """Delete a preset, with an undo."""
        if preset_id not in self._presets or not self._around.may_write():
            return
        preset = self._presets.pop(preset_id)
        self._deleted.add(preset_id)
        self._around.saved(self._store.delete_preset(preset_id))
        self._tell()

        def bring_back() -> None:
            self._keep(preset, self._free_name(preset.name))
            self._tell()

        self._shelf.offer_undo(
            f"preset {preset_id}", f"Preset “{preset.name}” deleted.", bring_back
        )

    def _add(self, name: str, values: Mapping[str, Any]) -> Preset:
        position = max((preset.position for preset in self._presets.values()), default=-1) + 1
        preset = Preset(new_id(), name, now(), now(), as_kept(values), position)
        return self._keep(preset, name)

    def _keep(self, preset: Preset, name: str) -> Preset:
        preset = Preset(
            preset.id, name, preset.created_at, preset.updated_at, preset.value, preset.position
        )
        self._deleted.discard(preset.id)
        self._presets[preset.id] = preset
        self._around.saved(self._store.create_preset(preset))
        return preset

    def _change(self, preset: Preset, **fields: Any) -> None:
        changes = {**fields, "updated_at": now()}
        self._presets[preset.id] = Preset(
            preset.id,
            changes.get("name", preset.name),
            preset.created_at,
            changes["updated_at"],
            changes.get("value", preset.value),
            preset.position,
        )
        self._around.saved(self._store.update_preset(preset.id, **changes))
        self._tell()

    def _names(self) -> set[str]:
        return {preset.name for preset in self._presets.values()}

    def _free_name(self, name: str) -> str:
        """The name, or with a number where it is taken."""
        name = _one_line(name) or "Preset"
        taken_names = {each.casefold() for each in self._names()}
        candidates = (name if n == 1 else f"{name} {n}" for n in range(1, len(taken_names) + 2))
        return next(each for each in candidates if each.casefold() not in taken_names)

    # --- putting it somewhere -------------------------------------------------------------------

    def apply(self, preset_id: str, level: str = "chat") -> None:
        """Copy a preset's values to a level. What it does not speak of stays as it is."""
        preset = self._presets.get(preset_id)
        if preset is None or not self._around.may_write():
            return
        if level == APP:
            for name, value in preset.value.items():
                self._levels.change(APP, name, value)
        elif level == "weights":
            self._levels.put("weights", _over(self._levels.own("weights"), preset.value))
        else:
            values = _over(self._levels.own("chat"), preset.value)
            self._levels.put("chat", values, preset_id=preset.id)

    def leave(self) -> None:
        """The open chat stands under no preset any more; its values stay."""
        if self._shelf.open.preset_id and self._around.may_write():
            self._levels.put("chat", self._levels.own("chat"), preset_id=None)

    def applied(self) -> tuple[Preset | None, bool]:
        """The preset that was put on the open chat, and whether its values still are there."""
        preset = self._presets.get(self._shelf.open.preset_id or "")
        if preset is None:
            return None, False
        own = self._levels.own("chat")
        is_whole = all(own.get(name) == value for name, value in preset.value.items())
        has_own_numbers = "chain" in preset.value and any(name in own for name in IN_CHAIN)
        return preset, is_whole and not has_own_numbers

    # --- files ----------------------------------------------------------------------------------

    def as_text(self, preset_id: str) -> str:
        """A preset as the text of a JSON file."""
        preset = self._presets[preset_id]
        return preset_files.written(preset.name, preset.value)

    def take_text(self, text: str, name: str = "") -> str:
        """Add the preset of a file beside the others; its id, or nothing. `name`: the file's, which
        another app's preset is called by."""
        found = preset_files.read(text, name)
        if found is None:
            self._around.emit(Noticed("error", NOT_A_PRESET))
            return ""
        preset_id = self.create(found.name, found.values)
        if found.left_out and preset_id:
            words = ", ".join(found.left_out[:5])
            sentence = f"Some settings of the preset couldn't be read and were skipped: {words}."
            self._around.emit(Noticed("warning", sentence))
        return preset_id


def values_of(settings: Settings) -> dict[str, Any]:
    """Settings as a preset keeps them: the whole chain, and what else is set."""
    usual = Settings()
    values = {name: as_stored(getattr(settings, name)) for name in _ALWAYS}
    values["chain"] = as_stored(settings.stages())
    for name in SHAPING:
        differs = getattr(settings, name) != getattr(usual, name)
        if differs and name not in values and name not in IN_CHAIN:
            values[name] = as_stored(getattr(settings, name))
    return values


def _over(own: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """A level's values with a preset's over them. A chain replaces the numbers that it has."""
    dropped: Iterable[str] = (*IN_CHAIN, OFF) if "chain" in values else ()
    kept = {name: value for name, value in own.items() if name not in dropped}
    return {**kept, **values}


def _one_line(name: str) -> str:
    return " ".join(clean_message(name).split())[:MAX_NAME_LENGTH]
