"""Load options that are kept with weights: taken, refused in words, and read back."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, strategies as st

from app.chat.settings.resolved import resolve
from app.chat.settings.settings import Settings
from app.chat.weights.load_settings import (
    BEYOND,
    ROPE,
    changed_load,
    load_options,
    load_value,
    usual_load,
    with_loras_in_place,
)
from app.engine.protocol.adapter_messages import Lora
from app.engine.protocol.loading_messages import LoadOptions, RopeScaling
from app.refusal import Refusal

SET: dict[str, Any] = {
    "n_ubatch": 256, "use_mmap": False, "use_mlock": True, "devices": ["GPU0"],
    "tensor_split": [1, 2.5], "split_mode": "row", "main_device": 1, "cpu_moe_layers": -1,
    "n_slots": 2, "parked_bytes": 0,
    "governor": False, "rope.kind": "yarn", "rope.freq_base": 1e6, "rope.freq_scale": 0.5,
    "rope.yarn_orig_ctx": 4096, "rope.yarn_ext_factor": 1.0, "rope.yarn_attn_factor": 1.0,
    "rope.yarn_beta_fast": 32.0, "rope.yarn_beta_slow": 1.0,
}  # fmt: skip


def test_every_option_of_a_load_can_be_set() -> None:
    """All of `LoadOptions`, by the app's settings or here."""
    parts = {f"{ROPE}{name}" for name in RopeScaling.__struct_fields__}
    assert {*BEYOND, *parts} - {"rope"} == SET.keys()
    stored: dict[str, Any] = {}
    for name, value in SET.items():
        stored = changed_load(stored, name, value)
    settings = Settings(n_ctx=2048, n_threads=3, n_gpu_layers=0, type_k="q8_0", type_v="q8_0")
    assert load_options(settings, stored) == LoadOptions(
        n_ctx=2048, n_threads=3, n_gpu_layers=0, type_k="q8_0", type_v="q8_0",
        n_ubatch=256, use_mmap=False, use_mlock=True, devices=["GPU0"], tensor_split=[1.0, 2.5],
        split_mode="row", main_device=1, cpu_moe_layers=-1, n_slots=2, parked_bytes=0,
        governor=False,
        rope=RopeScaling("yarn", 1e6, 0.5, 4096, 1.0, 1.0, 32.0, 1.0),
    )  # fmt: skip
    for name in SET:
        stored = changed_load(stored, name, usual_load(name))
    assert stored == {}


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("n_ubatch", 0, "between 1 and 16,384"),
        ("n_ubatch", "many", "whole number"),
        ("rope.kind", "odd", "yarn"),
        ("rope.freq_scale", 1e9, "between 0 and 1000"),
        ("split_mode", "heap", "layer"),
        ("tensor_split", [0, 0], "at least one above"),
        ("loras", [], "Unknown load setting"),
        ("nonsense", 1, "nonsense"),
        ("n_ctx", 1, "n_ctx"),
    ],
)
def test_what_does_not_fit_is_refused_in_words(name: str, value: object, words: str) -> None:
    with pytest.raises(Refusal, match=words):
        changed_load({}, name, value)


@given(
    st.one_of(
        st.none(),
        st.text(),
        st.dictionaries(
            st.sampled_from([*LoadOptions.__struct_fields__, "x"]),
            st.one_of(
                st.none(), st.booleans(), st.integers(), st.floats(), st.text(), st.lists(st.text())
            ),
        ),
    )
)
def test_whatever_is_stored_weights_are_loaded_somehow(stored: object) -> None:
    options = load_options(Settings(), stored)
    assert isinstance(options, LoadOptions)
    assert options.n_ctx is None  # the app's settings are elsewhere
    for name in SET:
        load_value(stored, name)


def test_one_bad_value_leaves_the_others_standing() -> None:
    options = load_options(Settings(), {"n_ubatch": "x", "use_mlock": True, "rope": 3})
    assert (options.n_ubatch, options.use_mlock, options.rope) == (None, True, RopeScaling())


def test_loras_of_an_older_version_are_a_setting_of_replies_now() -> None:
    loras = [{"path": "/a.gguf", "scale": 0.5}]
    old = {"top_k": 3, "load": {"n_ubatch": 64, "loras": loras}}
    assert with_loras_in_place(old) == {"top_k": 3, "load": {"n_ubatch": 64}, "loras": loras}
    newer = {"loras": [], "load": {"loras": loras}}
    assert with_loras_in_place(newer) == {"loras": [], "load": {}}
    assert with_loras_in_place({"load": 7}) == {"load": 7}
    settings = resolve(Settings(), with_loras_in_place(old)).settings
    assert settings.loras == (Lora("/a.gguf", 0.5),)
