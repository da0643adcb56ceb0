"""Presets in what is brought: with chats or alone, dropped or chosen."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import foreign_exports as exports
from each import each

from app.chat import events
from app.chat.exchange.recognising import is_import
from models.records import Whereabouts

TAVERN = {"temp": 0.4, "top_p": 0.9, "top_k": 0, "min_p": 0.1, "typical_p": 1, "rep_pen": 1,
          "rep_pen_range": 0, "top_a": 0.2, "tfs": 1, "sampler_order": [6, 0]}  # fmt: skip
WEBUI = "temperature: 0.7\ntop_p: 0.9\ntop_k: 20\nrepetition_penalty: 1.15\n"


def names(room: Any) -> list[str]:
    return [preset.name for preset in room.store.list_presets().result(20)]


def test_presets_come_with_chats_and_only_those_that_are_ticked(
    room: Any, told: Callable[[str], str], looked: Any, tmp_path: Path
) -> None:
    room.desk.presets.list()
    room.until(lambda: room.of(events.PresetsListed))
    before = names(room)
    exports.gpt_archive(tmp_path / "chats.zip")
    for name, text in (("Calm.json", json.dumps(TAVERN)), ("Simple-1.yaml", WEBUI)):
        (tmp_path / name).write_text(text)
    paths = [tmp_path / name for name in ("chats.zip", "Calm.json", "Simple-1.yaml")]
    preview = looked(*paths)
    assert [(chat.title, chat.is_preset) for chat in preview.chats[1:]] == [
        *(("Calm", True), ("Simple-1", True))
    ]
    assert [(each.what, each.count) for each in preview.left_out if "preset" in each.what] == [
        ("Settings of presets: Top-a", 1)
    ]
    room.desk.exchange.import_previewed(frozenset({preview.chats[2].id}))
    assert told("imported") == "1 preset was imported."
    assert names(room) == [*before, "Simple-1"]
    room.until(lambda: "Simple-1" in [p.name for p in room.of(events.PresetsListed)[-1].presets])

    again = looked(*paths)
    there, new = Whereabouts.THERE, Whereabouts.NEW
    assert [chat.whereabouts for chat in again.chats] == [new, new, there]
    room.desk.exchange.import_previewed()
    assert told("were imported") == "1 chat and 1 preset were imported."
    assert names(room) == [*before, "Simple-1", "Calm"]
    looked(*paths)
    room.desk.exchange.import_previewed()
    assert told("Nothing is new").startswith("Nothing is new")
    assert names(room) == [*before, "Simple-1", "Calm"]


def test_cutaways_own_preset_is_one_and_files_of_settings_are_none(
    room: Any, told: Callable[[str], str], looked: Any, tmp_path: Path
) -> None:
    own = tmp_path / "own.json"
    own.write_text(json.dumps({"format": "cutaway-preset", "name": "Dry", "value": {"top_k": 1}}))
    assert looked(own).chats[0].title == "Dry"
    room.desk.exchange.import_previewed()
    told("1 preset was imported.")
    assert "Dry" in names(room)

    chosen = tmp_path / "few.json"
    chosen.write_text(json.dumps({"temp": 0.2, "top_p": 0.9, "top_k": 3}))
    assert not is_import(str(chosen))  # dropped, it is attached
    assert [chat.title for chat in looked(chosen).chats] == ["few"]

    def is_none(name: str, text: str) -> None:
        (tmp_path / name).write_text(text)
        assert not is_import(str(tmp_path / name))

    generation = {"temperature": 1, "top_p": 1, "top_k": 1, "do_sample": True, "eos_token_id": 2}
    each(
        is_none,
        [
            ("generation_config.json", json.dumps(generation)),
            ("many.json", json.dumps([TAVERN])),
            ("compose.yaml", "version: 3\nservices:\n  top_p: 1\n  top_k: 1\n  temperature: 1\n"),
            ("server.yaml", WEBUI + "".join(f"option_{n}: 1\n" for n in range(5))),
            ("long.yaml", WEBUI + "#" * 9000),
        ],
    )
