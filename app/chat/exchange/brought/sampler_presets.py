"""Presets among what is brought: SillyTavern's, KoboldAI's, text-generation-webui's, Cutaway's own.

A file of settings may well have some of the same names, so more of them are asked for here than
where somebody says that it is a preset (Presets › Import).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from app.chat.exchange.brought.cards import YAML
from app.chat.exchange.brought.places import Entry, Place
from app.chat.exchange.brought.told import Brought, NotUnderstood
from app.chat.exchange.brought.trees import NEVER, made_id
from app.chat.settings import foreign_presets, preset_files
from models.records import Preset

APP: Final = "Sampler presets"
JSON: Final = (".json", ".settings")
LEAST_KNOWN: Final = 8
"""Names of samplers in a JSON file. A model's generation_config.json has up to five."""


def claims(place: Place) -> Sequence[str]:
    return [entry.name for entry in place.entries if _is_preset(place, entry)]


def _is_preset(place: Place, entry: Entry) -> bool:
    if entry.suffix in YAML:
        head = place.head(entry.name, foreign_presets.MAX_YAML + 1).decode("utf-8", "replace")
        keys = foreign_presets.yaml_keys(head)
        return 2 * len(keys & foreign_presets.KNOWN) > len(keys) and foreign_presets.is_one(keys)
    if entry.suffix not in JSON:
        return False
    look = place.look(entry.name)
    return not look.is_list and (
        look.text("format") == preset_files.FORMAT
        or len(look.keys & foreign_presets.KNOWN) >= LEAST_KNOWN
        or foreign_presets.is_one({key for above, key in look.inner if above == "preset"})
    )


def of_a_file(place: Place) -> list[Brought]:
    """Of one that was chosen, and that nobody else knows: fewer names will do."""
    if place.kind != "file" or place.entries[0].suffix not in (*JSON, *YAML):
        return []
    found = list(read(place, [place.entries[0].name]))
    return found if isinstance(found[0], Preset) else []


def read(place: Place, names: Sequence[str]) -> Iterator[Brought]:
    for name in names:
        text = place.head(name, preset_files.MAX_BYTES + 1).decode("utf-8-sig", "replace")
        found = preset_files.read(text, name.rpartition("/")[2].rpartition(".")[0])
        if found is None:
            yield NotUnderstood("Presets that can't be read", name)
            continue
        when = place.changed_at(name) or NEVER
        title = " ".join(found.name.split())[:80] or "Preset"
        own_id = made_id(APP, title, repr(sorted(found.values.items())))
        yield Preset(own_id, title, when, when, found.values, 0)
        for what in found.left_out:
            yield NotUnderstood(f"Settings of presets: {what}", title)
