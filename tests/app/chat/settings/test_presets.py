"""Presets on a real store: making, changing, deleting with undo, files, and putting them on."""

from __future__ import annotations

import json
from typing import Any

import pytest

from app.chat.events import Noticed, PresetsListed
from app.chat.settings.preset_files import as_kept
from app.chat.settings.presets import STARTERS
from app.chat.settings.resolved import resolve
from app.chat.settings.settings import Settings
from app.engine.protocol.stages import Dist, Greedy
from models.records import Preset

GREEDY = {"chain": [{"stage": "greedy"}]}


@pytest.fixture
def room(make_room: Any) -> Any:
    room = make_room().start_ready()
    room.desk.presets.list()
    room.until(lambda: room.of(PresetsListed), "presets")
    return room


def named(room: Any, name: str) -> Preset:
    return next(preset for preset in room.desk.presets.all if preset.name == name)


def stored(room: Any) -> list[tuple[str, dict[str, Any]]]:
    store = room.desk.around.store
    return [(p.name, p.value) for p in store.list_presets().result(20)]


def test_starters_are_there_whole_and_valid(room: Any) -> None:
    starters = json.loads(STARTERS.read_text(encoding="utf-8"))
    assert [p.name for p in room.desk.presets.all] == [each["name"] for each in starters]
    for starter in starters:
        # Nothing of a starter is refused, and all of it can be sampled with.
        kept = as_kept(starter["value"])
        assert kept.keys() == starter["value"].keys()
        sampling = resolve(Settings(), None, kept).settings.sampling()
        assert isinstance(sampling.select, Dist | Greedy)


def test_deleted_starters_do_not_come_back(room: Any, make_room: Any) -> None:
    for preset in room.desk.presets.all:
        room.desk.presets.delete(preset.id)
    room.close()
    again = make_room().start()
    again.desk.presets.list()
    assert again.until(lambda: again.of(PresetsListed))[0].presets == ()


def test_preset_of_what_counts_now_holds_the_whole_chain(room: Any) -> None:
    room.desk.settings.set("temperature", 0.9)
    room.desk.settings.set("stop_strings", ["END"])
    room.desk.settings.set("stop_in_reasoning", True)
    room.desk.settings.set("reasoning_tags", ["<a>…</a>"])
    room.desk.presets.create("Mine")
    value = named(room, "Mine").value
    assert [stage["stage"] for stage in value["chain"]] == [
        "penalties", "top_k", "top_p", "min_p", "temperature", "dist",
    ]  # fmt: skip
    assert value["chain"][4] == {"stage": "temperature", "t": 0.9}
    assert value["stop_strings"] == ["END"]
    assert (value["stop_in_reasoning"], value["reasoning_tags"]) == (True, ["<a>…</a>"])
    assert {"system_prompt", "context_policy", "max_tokens"} <= value.keys()
    assert ("Mine", value) in stored(room)


def test_names_are_unique_whatever_their_case(room: Any) -> None:
    room.desk.presets.create("Mine", GREEDY)
    room.desk.presets.create("mine", GREEDY)
    room.desk.presets.duplicate(named(room, "Mine").id)
    assert [p.name for p in room.desk.presets.all][-3:] == ["Mine", "mine 2", "Mine 3"]
    room.desk.presets.rename(named(room, "mine 2").id, "MINE")
    assert "MINE" not in [p.name for p in room.desk.presets.all]
    assert "already" in room.of(Noticed)[-1].sentence
    room.desk.presets.rename(named(room, "mine 2").id, "  Other \n name ")
    assert named(room, "Other name").value == named(room, "Mine").value


def test_deleting_can_be_undone(room: Any) -> None:
    preset_id = room.desk.presets.create("Mine", GREEDY)
    room.desk.presets.delete(preset_id)
    assert "Mine" not in dict(stored(room))
    room.desk.shelf.undo(room.of(Noticed)[-1].undo)
    assert dict(stored(room))["Mine"] == as_kept(GREEDY)
    assert named(room, "Mine").id == preset_id


def test_put_on_a_chat_it_counts_there_alone_and_later_changes_leave_it(room: Any) -> None:
    preset_id = room.desk.presets.create("Cold", {**GREEDY, "system_prompt": "Be brief."})
    room.desk.levels.change("chat", "temperature", 1.5)
    room.desk.presets.apply(preset_id)
    found = room.desk.levels.resolved()
    assert found.settings.stages() == (Greedy(),)
    assert found.settings.system_prompt == "Be brief."
    assert found.level_of("system_prompt") == found.level_of("chain") == "chat"
    assert room.desk.presets.applied() == (named(room, "Cold"), True)
    room.desk.presets.change(preset_id, {"chain": [{"stage": "dist"}]})
    assert room.desk.levels.resolved().settings.stages() == (Greedy(),)
    assert room.desk.presets.applied() == (named(room, "Cold"), False)
    room.desk.shelf.open_new()
    assert room.desk.levels.resolved().level_of("chain") == "app"


def test_put_on_a_chat_it_survives_a_restart(room: Any, make_room: Any) -> None:
    room.desk.presets.apply(room.desk.presets.create("Cold", {**GREEDY, "max_tokens": 7}))
    conversation_id = room.desk.shelf.open.id
    room.ask("Hello")
    room.close()
    again = make_room().start_ready()
    again.desk.shelf.open_stored(conversation_id)
    again.until(lambda: again.desk.shelf.open.id == conversation_id)
    assert again.desk.levels.resolved().settings.max_tokens == 7


def test_file_brings_the_same_preset_and_overwrites_none(room: Any) -> None:
    preset_id = room.desk.presets.create("Mine", {**GREEDY, "stop_strings": ["—", "🙂"]})
    copy_id = room.desk.presets.take_text(room.desk.presets.as_text(preset_id))
    assert copy_id != preset_id
    assert named(room, "Mine 2").value == named(room, "Mine").value


@pytest.mark.parametrize("text", ["", "{", "[]", '{"format": "other"}', "[" * 100_000])
def test_file_that_is_no_preset_is_refused_in_words(room: Any, text: str) -> None:
    before = room.desk.presets.all
    assert room.desk.presets.take_text(text) == ""
    assert room.of(Noticed)[-1].level == "error"
    assert room.desk.presets.all == before


def test_file_with_values_that_do_not_fit_keeps_the_rest_and_says_so(room: Any) -> None:
    value = {"max_tokens": 5, "temperature": "hot", "theme": "dark"}
    text = json.dumps({"format": "cutaway-preset", "name": "Odd", "value": value})
    room.desk.presets.take_text(text)
    assert named(room, "Odd").value == {"max_tokens": 5}
    assert "temperature" in room.of(Noticed)[-1].sentence
