"""Every setting has a default that it accepts itself, and refuses what is out of range."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest
from each import each
from hypothesis import HealthCheck, given, settings as hypothesis_settings, strategies as st

from app.chat.settings.settings import (
    CACHE_TYPE_NAMES,
    MAX_SEED,
    Settings,
    as_stored,
    changed,
    checked,
    from_stored,
)
from app.engine.planning.sizes import CACHE_TYPES
from app.engine.protocol.loading_messages import LoadOptions
from app.engine.protocol.stages import Dist, Greedy, TopK
from app.refusal import Refusal

NAMES = [field.name for field in dataclasses.fields(Settings)]
ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=6,
)


@each("name", NAMES)
def test_default_is_accepted_and_survives_json(name: str) -> None:
    default = getattr(Settings(), name)
    assert checked(name, json.loads(json.dumps(as_stored(default)))) == default


@each(
    ("name", "value"),
    [
        ("theme", "pink"),
        ("zoom_percent", 79),
        ("zoom_percent", 301),
        ("zoom_percent", "100"),
        ("zoom_percent", True),
        ("temperature", float("nan")),
        ("temperature", float("inf")),
        ("temperature", -0.1),
        ("top_p", 1.5),
        ("seed", -1),
        ("seed", MAX_SEED + 1),
        ("max_tokens", 1.5),
        ("stop_strings", "stop"),
        ("stop_strings", ["x" * 10_000]),
        ("stop_strings", [1]),
        ("stop_strings", [str(i) for i in range(17)]),
        ("stop_in_reasoning", "yes"),
        ("reasoning_tags", "<a>…</a>"),
        ("reasoning_tags", ["<a>"]),
        ("reasoning_tags", ["<a>…"]),
        ("reasoning_tags", [" … </a>"]),
        ("reasoning_tags", [f"<{i}>…</{i}>" for i in range(17)]),
        ("section_visible", 1),
        ("no_such_setting", 1),
    ],
)
def test_bad_value_is_refused_with_a_sentence(name: str, value: object) -> None:
    with pytest.raises(Refusal, match=r"\.$"):
        checked(name, value)


@pytest.mark.parametrize("text", ["—", "🙂", "", "a\0b", "a\ud83d b"])
def test_text_settings_take_any_text(text: str) -> None:
    kept = checked("system_prompt", text)
    kept.encode()
    assert "\0" not in kept


def test_stop_strings_drop_empty_and_doubled_ones() -> None:
    assert checked("stop_strings", ["END", "", "END", "—"]) == ("END", "—")


def test_reasoning_tags_are_pairs() -> None:
    written = ["<a> … </a>", "", "(say it)...(stop...)", "<a>…</a>"]
    kept = checked("reasoning_tags", written)
    assert kept == ("<a>…</a>", "(say it)…(stop...)")
    assert checked("reasoning_tags", list(kept)) == kept
    settings = changed(Settings(), "reasoning_tags", written)
    assert settings.tag_pairs == [("<a>", "</a>"), ("(say it)", "(stop...)")]


def test_changed_leaves_the_rest_alone() -> None:
    settings = changed(Settings(), "top_k", 7.0)
    assert settings == dataclasses.replace(Settings(), top_k=7)


def test_stored_values_that_do_not_fit_are_named_and_replaced_by_defaults() -> None:
    settings, refused = from_stored({"theme": "dark", "zoom_percent": "big", "from_later": 1})
    assert settings == dataclasses.replace(Settings(), theme="dark")
    assert refused == ("zoom_percent",)


@hypothesis_settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.dictionaries(st.sampled_from(NAMES), ANY_JSON))
def test_nothing_stored_can_keep_the_app_from_starting(stored: dict[str, Any]) -> None:
    settings, _ = from_stored(stored)
    settings.sampling()
    settings.load_options()


def test_temperature_zero_is_greedy() -> None:
    assert isinstance(changed(Settings(), "temperature", 0).sampling().select, Greedy)


def test_sampling_carries_the_settings() -> None:
    sampling = dataclasses.replace(Settings(), top_k=3, seed=0).sampling()
    assert isinstance(sampling.select, Dist)
    assert TopK(k=3) in sampling.filters
    assert sampling.seed == 0


def test_automatic_values_leave_the_decision_to_the_engine() -> None:
    options = Settings().load_options()
    assert (options.n_ctx, options.n_threads, options.n_gpu_layers) == (None, None, None)
    assert dataclasses.replace(Settings(), n_gpu_layers=0).load_options().n_gpu_layers == 0
    assert Settings().load_options() == LoadOptions()


def test_the_cache_is_loaded_as_it_is_set() -> None:
    assert set(CACHE_TYPE_NAMES) == set(CACHE_TYPES)
    settings = Settings(type_k="q8_0", type_v="q4_0", flash_attention="on")
    options = settings.load_options()
    assert (options.type_k, options.type_v, options.flash_attention) == ("q8_0", "q4_0", "on")
    for name, value in (("type_k", "q9"), ("type_v", ""), ("flash_attention", True)):
        with pytest.raises(Refusal):
            checked(name, value)


def test_folders_of_weights_are_absolute_paths_each_once() -> None:
    awkward = "/a b/Ž models 模型 🙂/it's 100% #1 & “more”/ trailing dot."
    assert checked("weights_folders", [awkward, "/x", awkward]) == (awkward, "/x")
    assert checked("weights_folders", ["/" + "long/" * 100]) == ("/" + "long/" * 100,)
    too_many = [f"/{number}" for number in range(201)]
    for value in ("/x", ["x"], [""], [3], ["/a\0b"], ["/\udcff"], too_many):
        with pytest.raises(Refusal):
            checked("weights_folders", value)
