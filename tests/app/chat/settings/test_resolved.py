"""Levels of settings: the last one wins, numbers and chains get along, bad values fall through."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from each import each
from hypothesis import given, strategies as st

from app.chat.events import Noticed, SettingsChanged
from app.chat.settings.resolved import APP, IN_CHAIN, LEVELS, SHAPING, resolve, shown_value
from app.chat.settings.settings import Settings
from app.engine.protocol.stages import Dist, Greedy, MinP, Temperature, TopK

APPS = Settings(temperature=0.3, top_k=40)
CHAIN = [{"stage": "min_p", "p": 0.1}, {"stage": "temperature", "t": 0.9}, {"stage": "dist"}]


def test_each_level_has_the_last_word_over_those_below() -> None:
    levels: list[dict[str, object]] = [{"max_tokens": 1}, {"max_tokens": 2}, {"max_tokens": 3}]
    for n_given in range(4):
        given_levels = [level if i < n_given else {} for i, level in enumerate(levels)]
        found = resolve(Settings(max_tokens=0), *given_levels)
        assert found.settings.max_tokens == n_given
        assert found.level_of("max_tokens") == LEVELS[n_given]


def test_what_nobody_else_sets_is_the_apps() -> None:
    found = resolve(APPS, {"top_k": 5}, {"seed": 1})
    assert found.settings.temperature == 0.3
    assert found.level_of("temperature") == APP
    assert dict(found.levels) == {"top_k": "weights", "seed": "chat"}


def test_value_that_does_not_fit_lets_the_level_below_speak() -> None:
    found = resolve(APPS, {"top_k": 5}, {"top_k": "many", "no_such": 1})
    assert found.settings.top_k == 5
    assert found.level_of("top_k") == "weights"


def test_only_weights_say_how_they_are_loaded() -> None:
    found = resolve(APPS, {"n_ctx": 2048}, {"n_ctx": 4096}, {"n_ctx": 8192})
    assert found.settings.n_ctx == 2048


def test_chain_replaces_the_numbers_from_below_and_owns_them() -> None:
    found = resolve(APPS, {"top_k": 5}, {"chain": CHAIN})
    assert found.settings.stages() == (MinP(p=0.1), Temperature(t=0.9), Dist())
    assert {found.level_of(name) for name in IN_CHAIN} == {"chat"}
    assert shown_value(found.settings, "temperature") == 0.9
    assert shown_value(found.settings, "top_k") is None


def test_number_over_a_chain_changes_its_stage_or_adds_one_before_the_selection() -> None:
    found = resolve(APPS, {"chain": CHAIN}, {"temperature": 0.5, "top_k": 7})
    stages = found.settings.stages()
    assert stages == (MinP(p=0.1), Temperature(t=0.5), TopK(k=7), Dist())
    assert found.level_of("temperature") == "chat"
    assert found.level_of("min_p") == "weights"


def test_temperature_0_over_a_chain_is_greedy_and_any_other_draws_again() -> None:
    cold = resolve(APPS, {"chain": CHAIN}, {"temperature": 0})
    assert cold.settings.stages()[-1] == Greedy()
    warm = resolve(APPS, {"chain": [{"stage": "greedy"}]}, {"temperature": 0.7})
    assert warm.settings.stages() == (Temperature(t=0.7), Dist())


def test_greedy_chain_shows_temperature_0() -> None:
    found = resolve(APPS, {"chain": [{"stage": "greedy"}]})
    assert shown_value(found.settings, "temperature") == 0


@each("name", SHAPING)
def test_every_shaping_setting_can_be_set_for_one_message(name: str) -> None:
    other = {
        "system_prompt": "other", "temperature": 1.5, "top_k": 3, "top_p": 0.5, "min_p": 0.2,
        "repeat_penalty": 1.2, "repeat_last_n": 8, "chain": [{"stage": "greedy"}], "seed": 9,
        "max_tokens": 9, "min_tokens": 2, "stop_strings": ["END"], "context_policy": "stop",
        "banned_strings": ["x"], "ban_end_token": True, "grammar": 'root ::= "x"',
        "json_schema": "{}", "repeatable": True, "chat_format": "gemma",
        "chat_template": "{{ 1 }}", "stop_in_reasoning": True, "reasoning_tags": ["<a>…</a>"],
        "thinking": "high", "reasoning_budget": 99, "template_variables": '{"a": 1}',
        "drafts": "lookup", "draft_tokens": 4,
            "loras": [{"path": "/a.gguf", "scale": 0.5}],
            "control_vectors": [{"path": "/v.gguf", "first": 2, "last": 3}],
    }[name]  # fmt: skip
    found = resolve(Settings(), None, None, {name: other})
    assert found.level_of(name) == "message"
    assert getattr(found.settings, name) != getattr(Settings(), name)


@given(
    st.lists(
        st.dictionaries(st.sampled_from(sorted(IN_CHAIN)), st.integers(1, 5)),
        min_size=3,
        max_size=3,
    ),
    st.sampled_from((None, 0, 1, 2)),
)
def test_shown_number_is_the_last_one_set(
    levels: list[dict[str, int]], chain_at: int | None
) -> None:
    """Whether a chain stands below or not; a chain itself is the last word for what it holds."""
    values = [dict(level) for level in levels]
    if chain_at is not None:
        values[chain_at] = {"chain": CHAIN}
    found = resolve(APPS, *values)
    for name in IN_CHAIN:
        if name in ("top_p", "min_p"):
            continue  # integers above 1 are refused there
        said = [v[name] for v in values[(chain_at or 0) :] if name in v]
        if said:
            assert shown_value(found.settings, name) == said[-1]


def test_number_of_the_app_goes_into_the_apps_own_chain(make_room: Any) -> None:
    room = make_room().start()
    room.desk.settings.set("chain", CHAIN)
    room.desk.settings.set("temperature", 0.2)
    assert room.desk.settings.now.stages() == (MinP(p=0.1), Temperature(t=0.2), Dist())
    changed = room.of(SettingsChanged)[-1].names
    assert changed == {"temperature", "chain"}
    stored = room.desk.around.store.all_settings().result(20)
    assert stored["chain"][1] == {"stage": "temperature", "t": 0.2}


def test_system_prompt_of_a_chat_can_be_none_at_all(make_room: Any) -> None:
    """Which is another thing than saying nothing about it."""
    room = make_room().start_ready()
    room.desk.levels.change("chat", "system_prompt", "Mine.")
    assert room.desk.shelf.open.system_prompt == "Mine."
    room.desk.levels.change("chat", "system_prompt", "")
    found = room.desk.levels.resolved()
    assert (found.settings.system_prompt, found.level_of("system_prompt")) == ("", "chat")
    room.desk.levels.reset("chat", "system_prompt")
    assert room.desk.levels.resolved().settings.system_prompt == Settings().system_prompt


def test_weights_that_are_not_known_take_no_settings(make_room: Any) -> None:
    room = make_room(remember_weights=False).start_ready()
    room.desk.levels.change("weights", "top_k", 3)
    assert "Load a model" in room.of(Noticed)[-1].sentence
    assert room.desk.levels.resolved().settings.top_k == Settings().top_k


def test_fresh_seed_over_a_fixed_one_can_be_taken_back(make_room: Any) -> None:
    room = make_room().start_ready()
    room.desk.settings.set("seed", 5)
    room.desk.levels.change("chat", "seed", None)
    assert room.desk.levels.resolved().settings.seed is None
    room.desk.levels.reset("chat", "seed")
    assert room.desk.levels.resolved().settings.seed == 5


def test_settings_of_a_temporary_chat_count_and_are_never_written(
    make_room: Any, data_dir: Path
) -> None:
    room = make_room().start_ready()
    room.desk.temporary.open()
    room.desk.levels.change("chat", "system_prompt", "Known to nobody else")
    room.desk.levels.change("chat", "max_tokens", 3)
    assert room.desk.levels.resolved().settings.max_tokens == 3
    assert room.desk.temporary.is_open
    room.ask("Hello")
    room.close()
    written = b"".join(path.read_bytes() for path in data_dir.rglob("*") if path.is_file())
    assert b"Known to nobody else" not in written
