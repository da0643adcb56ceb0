"""Every load option: served, refused in words, or said to change nothing."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from gguf_writer import Shape, tiny_llama, tiny_lora, truncated_copy
from native_session import NativeSession, load_quietly

from app.engine.planning import load_plan
from app.engine.planning.load_checks import (
    MAX_LORAS,
    check_cache_types,
    check_devices_and_split,
    check_options,
    choose_devices,
)
from app.engine.planning.placement import DeviceMemory
from app.engine.planning.sizes import outline_of
from app.engine.process.native import native
from app.engine.process.native.native import NativeLog
from app.engine.process.native.weights import Weights
from app.engine.process.trace.scores import scores_of
from app.engine.protocol.adapter_messages import Lora
from app.engine.protocol.loading_messages import Device, LoadOptions, RopeScaling
from app.gguf.header import read_header
from app.refusal import Refusal

pytestmark = pytest.mark.weights

GIB = 1024**3


@pytest.fixture(scope="module")
def tiny_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("tiny") / "tiny.gguf"
    tiny_llama(path)
    return path


def refusal(path: Path, log: NativeLog, **options: Any) -> Refusal:
    with pytest.raises(Refusal) as caught:
        load_quietly(path, log, **options)
    assert caught.value.sentence.endswith(".")
    assert len(caught.value.sentence) < 300
    return caught.value


def scores(opened: Weights, ids: list[int]) -> list[float]:
    """The first scores after `ids`: what the whole network makes of them."""
    native.llama.llama_memory_clear(opened.memory, True)
    batch = native.Batch(opened.n_ubatch, opened.n_slots)
    batch.add(ids, 0, 0, want_scores=True)
    assert native.llama.llama_decode(opened.context, batch.native) == 0
    row = scores_of(opened.context, len(ids) - 1, opened.vocabulary.n_vocab)
    return [float(value) for value in row[:50]]


def scores_with(path: Path, log: NativeLog, **options: Any) -> list[float]:
    opened = load_quietly(path, log, n_threads=1, **options)
    try:
        return scores(opened, [7, 11, 13, 17, 19, 23])
    finally:
        opened.close()


# --- values -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"n_slots": 0}, "Replies at once"),
        ({"n_slots": 65}, "between 1 and 64"),
        ({"n_slots": 8, "n_ubatch": 4}, "too small for 8 replies"),
        ({"parked_bytes": -1}, "parked chats"),
        ({"main_device": -1}, "Main device"),
        ({"cpu_moe_layers": -2}, "Experts in main memory"),
        ({"tensor_split": [math.nan]}, "one number per device"),
        ({"tensor_split": [0.0, 0.0]}, "at least one above"),
        ({"tensor_split": [-1.0, 2.0]}, "one number per device"),
        ({"tensor_split": []}, "at least one"),
        ({"rope": RopeScaling(freq_base=math.inf)}, "frequency base"),
        ({"rope": RopeScaling(freq_base=0.5)}, "makes positions indistinguishable"),
        ({"rope": RopeScaling(freq_scale=math.nan)}, "frequency scale"),
        ({"rope": RopeScaling(freq_scale=1e-9)}, "makes positions indistinguishable"),
        ({"rope": RopeScaling(freq_scale=-1)}, "frequency scale"),
        ({"rope": RopeScaling(yarn_orig_ctx=-1)}, "trained context"),
        ({"rope": RopeScaling(yarn_ext_factor=-1.0)}, "extrapolation"),
        ({"rope": RopeScaling(yarn_attn_factor=math.nan)}, "attention factor"),
        ({"rope": RopeScaling(yarn_beta_fast=1e9)}, "fast beta"),
        ({"loras": [Lora("")]}, "LoRA adapter has no path"),
        ({"loras": [Lora("x", math.nan)]}, "scale of a LoRA"),
        ({"loras": [Lora("x", 1e9)]}, "between -100 and 100"),
        ({"loras": [Lora("x")] * (MAX_LORAS + 1)}, "At most 16"),
    ],
    ids=str,
)
def test_nonsense_is_refused_before_the_file_is_looked_at(
    tmp_path: Path, native_log: NativeLog, options: dict[str, Any], words: str
) -> None:
    refused = refusal(tmp_path / "is not even there", native_log, **options)
    assert refused.kind == "bad_setting"
    assert words in refused.sentence


# --- slots, threads, memory --------------------------------------------------------------------


@pytest.mark.parametrize("n_slots", [1, 3, 32])
def test_as_many_slots_as_asked(tiny_file: Path, native_log: NativeLog, n_slots: int) -> None:
    opened = load_quietly(tiny_file, native_log, n_slots=n_slots, n_threads=1)
    assert opened.n_slots == opened.loaded.n_slots == n_slots
    batch = native.Batch(opened.n_ubatch, n_slots)
    for slot in range(n_slots):
        batch.add([5 + slot], 0, slot, want_scores=True)
    assert native.llama.llama_decode(opened.context, batch.native) == 0
    opened.close()


@pytest.mark.parametrize("n_ubatch", [1, 3])
def test_tiny_batch_has_no_more_slots_than_rows(
    tiny_file: Path, native_log: NativeLog, n_ubatch: int
) -> None:
    """llama.cpp aborts where one step cannot hold a token of each sequence."""
    opened = load_quietly(tiny_file, native_log, n_ubatch=n_ubatch, n_threads=1)
    assert (opened.n_slots, opened.n_ubatch) == (n_ubatch, n_ubatch)
    opened.close()


def test_locked_memory_is_locked_or_said(tiny_file: Path, native_log: NativeLog) -> None:
    with native_log.recording() as lines:
        opened = load_quietly(tiny_file, native_log, use_mlock=True, n_threads=1)
    refused = any("failed to mlock" in line for line in lines)
    assert any("ulimit -l" in note for note in opened.loaded.notes) is refused
    opened.close()


def test_a_lock_that_the_system_refuses_is_said(
    tiny_file: Path, native_log: NativeLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    make = native.llama.llama_init_from_model

    def refuse_lock(*arguments: Any) -> Any:
        native_log._receive(3, b"warning: failed to mlock 98304-byte buffer\n", None)
        return make(*arguments)

    monkeypatch.setattr(native.llama, "llama_init_from_model", refuse_lock)
    opened = load_quietly(tiny_file, native_log, use_mlock=True, n_threads=1)
    assert any("ulimit -l" in note for note in opened.loaded.notes)
    opened.close()


# --- C09 --------------------------------------------------------------------------------------


def test_c09_the_files_own_maximum_is_estimated_first(
    tmp_path: Path, native_log: NativeLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C09: 1,048,576 tokens on a machine that has no room for them: both numbers, no attempt."""
    path = tmp_path / "long.gguf"
    shape = Shape(n_embd=256, n_head_kv=4, n_layer=4)
    tiny_llama(path, n_ctx_train=1_048_576, shape=shape, successors={3: 4})
    cpu = Device("CPU", "made up", "cpu", 2 * GIB, 4 * GIB)
    monkeypatch.setattr(native, "list_devices", lambda: [cpu])
    monkeypatch.setattr(native.llama, "llama_model_load_from_file", lambda *_: pytest.fail("tried"))
    refused = refusal(path, native_log, n_ctx=1_048_576)
    assert refused.kind == "out_of_memory"
    assert "A context window of 1,048,576 tokens needs" in refused.sentence
    assert "2.15 GB are free" in refused.sentence


def test_c09_nobody_asked_so_it_is_capped_and_said(tmp_path: Path, native_log: NativeLog) -> None:
    path = tmp_path / "long.gguf"
    tiny_llama(path, n_ctx_train=1_048_576)
    opened = load_quietly(path, native_log, n_threads=1)
    assert opened.loaded.n_ctx == 8192
    assert any("trained for 1,048,576. You can set more" in note for note in opened.loaded.notes)
    opened.close()


def test_c09_weights_that_are_read_whole_count_too(
    starter_gguf: Path, native_log: NativeLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Mapped weights may be larger than what is free; weights read into memory may not."""
    free = 160 * 1024**2
    cpu = Device("CPU", "made up", "cpu", free, 4 * GIB)
    monkeypatch.setattr(native, "list_devices", lambda: [cpu])
    assert refusal(starter_gguf, native_log, n_ctx=512, use_mmap=False).kind == "out_of_memory"
    load_quietly(starter_gguf, native_log, n_ctx=512, n_threads=1).close()


# --- devices ----------------------------------------------------------------------------------


def device(name: str, kind: str = "gpu") -> DeviceMemory:
    return DeviceMemory(name, f"Made-up {name}", kind, 8 * GIB, 8 * GIB)


def test_devices_by_name_in_the_order_of_the_wish() -> None:
    usable = [device("CUDA0"), device("CUDA1")]
    assert choose_devices(None, usable) == usable
    assert choose_devices([], usable) == []
    assert choose_devices(["CUDA1", "CUDA0"], usable) == usable[::-1]


@pytest.mark.parametrize(
    ("names", "usable", "words"),
    [
        (["CUDA7"], [device("CUDA0"), device("CUDA1")], "Available: CUDA0, CUDA1"),
        (["CPU"], [device("CUDA0")], "An empty list means CPU only"),
        (["CUDA0"], [], "runs on the CPU only"),
        (["CUDA0", "CUDA0"], [device("CUDA0")], "listed twice"),
        (["—🙂" * 200], [device("CUDA0")], "Unknown device"),
    ],
)
def test_unknown_devices_are_named(names: list[str], usable: list[Device], words: str) -> None:
    with pytest.raises(Refusal, match=words) as caught:
        choose_devices(names, usable)
    assert caught.value.kind == "bad_setting"


def test_split_must_speak_of_devices_that_are_there() -> None:
    with pytest.raises(Refusal, match="Main device 2 doesn't exist: 2 can be used"):
        check_devices_and_split(LoadOptions(split_mode="none", main_device=2), 2)
    with pytest.raises(Refusal, match="lists 3 devices, but only 2"):
        check_devices_and_split(LoadOptions(tensor_split=[1.0, 1.0, 1.0]), 2)
    check_devices_and_split(LoadOptions(split_mode="row", main_device=1, tensor_split=[1.0]), 2)
    check_devices_and_split(LoadOptions(split_mode="none", main_device=9), 0)


def test_no_devices_is_the_processor_alone(tiny_file: Path, native_log: NativeLog) -> None:
    opened = load_quietly(tiny_file, native_log, devices=[], n_threads=1)
    assert opened.loaded.devices == []
    assert opened.loaded.n_gpu_layers == 0
    opened.close()


def test_device_list_ends_in_null() -> None:
    names = [d.name for d in native.list_devices()]
    handles = native.device_list(names)
    assert len(handles) == len(names) + 1
    assert all(handles[i] for i in range(len(names)))
    assert handles[len(names)] is None
    assert list(native.device_list([])) == [None]


def test_shared_graphics_devices_are_used_alone_or_by_name() -> None:
    cpu, own, shared = device("CPU", "cpu"), device("A"), device("B", "igpu")
    assert load_plan.Machine((cpu, own, shared)).usable() == [own]
    assert load_plan.Machine((cpu, own, shared)).usable(by_name=True) == [own, shared]
    assert load_plan.Machine((cpu, shared)).usable() == [shared]
    assert load_plan.Machine((cpu,)).usable() == []
    assert load_plan.Machine((cpu, own), can_offload=False).usable() == []
    assert load_plan.Machine((own, cpu)).host == cpu
    assert load_plan.Machine(()).host.free_bytes == 0


def test_plan_uses_the_named_device_and_the_shares(tiny_file: Path) -> None:
    cpu = DeviceMemory("CPU", "made up", "cpu", 8 * GIB, 8 * GIB)
    devices = (device("CUDA0"), device("CUDA1"), device("Vk0", "igpu"), cpu)
    machine = load_plan.Machine(devices)
    header = read_header(tiny_file)

    def planned(**options: Any) -> load_plan.LoadPlan:
        return load_plan.plan_load(header, LoadOptions(**options), machine)

    assert planned().devices == ("CUDA0", "CUDA1")
    assert planned().placement.layers_by_device == (3, 0)
    assert planned(devices=["Vk0"]).devices == ("Vk0",)
    assert planned(devices=[]).devices == ()
    assert planned(devices=[]).n_ubatch == 512
    for size, rows in ((150, 512), (151, 256), (600, 256), (601, 128)):
        outline = replace(outline_of(header), layer_bytes=(size * 2**20,))
        assert (
            load_plan.plan_on(outline, LoadOptions(), machine, (), must_hold=False).n_ubatch == rows
        )
    assert planned().n_ubatch == load_plan.DEVICE_UBATCH
    assert planned(split_mode="none", main_device=1).devices == ("CUDA1",)
    assert planned(tensor_split=[1.0, 2.0]).placement.layers_by_device == (1, 2)
    assert planned(tensor_split=[0.0, 2.0], n_gpu_layers=2).placement.layers_by_device == (0, 2)
    assert planned(tensor_split=[1.0]).placement.layers_by_device == (3, 0)
    parts = {(p.device, p.what) for p in load_plan.estimate_of(planned(tensor_split=[1.0, 2.0]))}
    assert {("CPU", "weights"), ("CUDA0", "kv"), ("CUDA1", "weights"), ("CUDA1", "kv")} <= parts


# --- wishes that change nothing are said ---------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"cpu_moe_layers": 3}, "has no experts"),
        ({"tensor_split": [1.0, 1.0]}, "split over devices has no effect"),
        ({"split_mode": "row"}, "split over devices has no effect"),
        ({"rope": RopeScaling("none", freq_scale=0.5)}, "its scale and window have no effect"),
        ({"rope": RopeScaling("linear")}, "has no effect without a frequency scale"),
    ],
    ids=str,
)
def test_wishes_without_effect_are_noted(
    tiny_file: Path, native_log: NativeLog, options: dict[str, Any], words: str
) -> None:
    plain = scores_with(tiny_file, native_log)
    opened = load_quietly(tiny_file, native_log, n_threads=1, **options)
    assert any(words in note for note in opened.loaded.notes)
    assert scores(opened, [7, 11, 13, 17, 19, 23]) == plain
    opened.close()


# --- experts ----------------------------------------------------------------------------------


@pytest.mark.parametrize("layers", [0, 1, 2, -1])
def test_experts_on_the_processor_answer_alike(
    tmp_path: Path, native_log: NativeLog, layers: int
) -> None:
    path = tmp_path / "experts.gguf"
    tiny_llama(path, shape=Shape(n_expert=4))
    plain = scores_with(path, native_log)
    assert scores_with(path, native_log, cpu_moe_layers=layers) == plain
    assert len(set(plain)) > 10


def test_experts_on_host_are_named_as_llama_cpp_names_them() -> None:
    assert native.experts_on_host(0) is None
    rows = native.experts_on_host(2)
    assert [row.pattern for row in rows][:2] == [
        rb"blk\.0\.ffn_(up|down|gate|gate_up)_(ch|)exps",
        rb"blk\.1\.ffn_(up|down|gate|gate_up)_(ch|)exps",
    ]
    assert all(row.buffer_type for row in rows[:2])
    assert (rows[2].pattern, rows[2].buffer_type) == (None, None)


# --- RoPE -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "rope",
    [
        RopeScaling(freq_base=50_000.0),
        RopeScaling("linear", freq_scale=0.5),
        RopeScaling("yarn", freq_scale=0.25, yarn_orig_ctx=128),
        RopeScaling(
            "yarn",
            freq_scale=0.25,
            yarn_orig_ctx=128,
            yarn_ext_factor=1.0,
            yarn_attn_factor=0.9,
            yarn_beta_fast=16.0,
            yarn_beta_slow=2.0,
        ),
    ],
    ids=str,
)
def test_rope_scaling_reaches_the_network(
    tiny_file: Path, native_log: NativeLog, rope: RopeScaling
) -> None:
    assert scores_with(tiny_file, native_log, rope=rope) != scores_with(tiny_file, native_log)


def test_yarn_numbers_reach_the_network(tiny_file: Path, native_log: NativeLog) -> None:
    base = {"freq_scale": 0.25, "yarn_orig_ctx": 128}
    plain = scores_with(tiny_file, native_log, rope=RopeScaling("yarn", **base))
    for name, value in (
        ("yarn_ext_factor", 0.5),
        ("yarn_attn_factor", 0.5),
        ("yarn_beta_fast", 4.0),
        ("yarn_beta_slow", 3.0),
    ):
        rope = RopeScaling("yarn", **base, **{name: value})
        scaled = scores_with(tiny_file, native_log, rope=rope)
        # llama.cpp works the attention factor out itself wherever YaRN extrapolates.
        assert (scaled != plain) is (name != "yarn_attn_factor"), name


@pytest.mark.parametrize("kind", ["none", "longrope"])
def test_other_kinds_load_and_answer(tiny_file: Path, native_log: NativeLog, kind: Any) -> None:
    assert len(scores_with(tiny_file, native_log, rope=RopeScaling(kind))) == 50


def test_a_stretched_window_is_used_where_nobody_set_a_context(
    tiny_file: Path, native_log: NativeLog
) -> None:
    rope = RopeScaling("linear", freq_scale=0.5)
    opened = load_quietly(tiny_file, native_log, n_threads=1, rope=rope)
    assert opened.loaded.n_ctx == 2 * opened.loaded.n_ctx_train == 1024
    opened.close()


# --- LoRA -------------------------------------------------------------------------------------


def test_adapter_is_applied_with_its_scale_and_seen(
    tiny_file: Path, tmp_path: Path, native_log: NativeLog
) -> None:
    path = tmp_path / "adapter.gguf"
    tiny_lora(path)
    plain = scores_with(tiny_file, native_log)
    by_scale = [
        scores_with(tiny_file, native_log, loras=[Lora(str(path), scale)])
        for scale in (1.0, 0.5, 0.0)
    ]
    assert by_scale[2] == plain
    assert by_scale[0] != plain
    assert by_scale[1] not in (plain, by_scale[0])
    loras = [Lora(str(tmp_path / "gone.gguf"), 0.0), Lora(str(path), 0.5)]
    opened = load_quietly(tiny_file, native_log, n_threads=1, loras=loras)
    assert opened.loaded.loras == loras
    assert "LoRA adapter “Tiny adapter” is applied with scale 0.5." in opened.loaded.notes
    measured = [p.size_bytes for p in opened.loaded.memory if p.what == "adapter"]
    estimated = [p.size_bytes for p in opened.loaded.estimate if p.what == "adapter"]
    assert estimated == [2 * 4 * (64 + 64) * 4]
    assert measured[0] == pytest.approx(estimated[0], abs=0.01 * 1024**2)  # the log rounds so
    opened.close()


def test_two_adapters_add_up(tiny_file: Path, tmp_path: Path, native_log: NativeLog) -> None:
    first, second = tmp_path / "a.gguf", tmp_path / "b.gguf"
    tiny_lora(first, targets=["blk.0.attn_q.weight"])
    tiny_lora(second, targets=["blk.1.attn_k.weight"])
    both = scores_with(tiny_file, native_log, loras=[Lora(str(first)), Lora(str(second))])
    alone = [scores_with(tiny_file, native_log, loras=[Lora(str(p))]) for p in (first, second)]
    assert both not in alone


def test_adapter_answers_through_the_scheduler(
    tiny_file: Path, tmp_path: Path, native_log: NativeLog
) -> None:
    path = tmp_path / "adapter.gguf"
    tiny_lora(path)
    opened = load_quietly(tiny_file, native_log, n_threads=1, loras=[Lora(str(path))])
    assert NativeSession(opened, native_log).reply([7, 11, 13], max_tokens=5).generated <= 5
    opened.close()


def test_d13_truncated_adapter_is_refused_before_native_code(
    tiny_file: Path, tmp_path: Path, native_log: NativeLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """D13: cut anywhere, it is never loaded with zeroed weights."""
    whole = tmp_path / "whole.gguf"
    layout = tiny_lora(whole)
    monkeypatch.setattr(native.llama, "llama_model_load_from_file", lambda *_: pytest.fail("tried"))
    points = layout.cut_points()
    assert len(points) > 20
    for size in points:
        cut = truncated_copy(whole, tmp_path / "cut.gguf", size)
        refused = refusal(tiny_file, native_log, loras=[Lora(str(cut))])
        assert refused.kind in ("incomplete_file", "not_a_gguf"), size
        assert refused.sentence.startswith("A LoRA adapter can't be loaded. ")


@pytest.mark.parametrize(
    ("writing", "words"),
    [
        ({"architecture": "gemma3"}, "made for gemma3 models"),
        ({"shape": Shape(n_embd=128)}, "don't match"),
        ({"metadata": {"general.type": "model"}}, "isn't a LoRA adapter"),
        ({"metadata": {"adapter.type": "control_vector"}}, "isn't a LoRA adapter"),
        ({"shape": Shape(n_layer=9), "targets": ["blk.8.attn_q.weight"]}, "don't match"),
        ({"targets": []}, "don't match"),
        ({"metadata": {"adapter.alora.invocation_tokens": [1, 2]}}, "activated"),
    ],
    ids=str,
)
def test_adapters_for_other_weights_are_refused(
    tiny_file: Path, tmp_path: Path, native_log: NativeLog, writing: dict[str, Any], words: str
) -> None:
    path = tmp_path / "other.gguf"
    tiny_lora(path, **writing)
    refused = refusal(tiny_file, native_log, loras=[Lora(str(path))])
    assert refused.kind == "unsupported"
    assert words in refused.sentence


def test_weights_are_no_adapter_and_the_other_way_round(
    tiny_file: Path, tmp_path: Path, native_log: NativeLog
) -> None:
    assert (
        "isn't a LoRA adapter"
        in refusal(tiny_file, native_log, loras=[Lora(str(tiny_file))]).sentence
    )
    path = tmp_path / "adapter.gguf"
    tiny_lora(path)
    assert refusal(path, native_log).kind == "not_a_chat_model"
    missing = refusal(tiny_file, native_log, loras=[Lora(str(tmp_path / "gone.gguf"))])
    assert missing.kind == "missing_file"


def test_what_llama_cpp_finds_wrong_with_an_adapter_has_evidence(
    tiny_file: Path, tmp_path: Path, native_log: NativeLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "adapter.gguf"
    tiny_lora(path)
    monkeypatch.setattr(native.llama, "llama_adapter_lora_init", lambda *_: None)
    refused = refusal(tiny_file, native_log, loras=[Lora(str(path))])
    assert refused.kind == "native_error"
    assert "Remove it" in refused.sentence
    monkeypatch.undo()
    load_quietly(tiny_file, native_log, n_threads=1).close()


# --- cache types ------------------------------------------------------------------------------


def test_latent_attention_needs_one_type_for_both(tmp_path: Path) -> None:
    path = tmp_path / "latent.gguf"
    tiny_llama(path, metadata={"llama.attention.kv_lora_rank": 512})
    header = read_header(path)
    with pytest.raises(Refusal, match="same type"):
        check_cache_types(outline_of(header), LoadOptions(type_k="f16", type_v="f32"))
    check_cache_types(outline_of(header), LoadOptions())


def test_good_options_pass() -> None:
    check_options(
        LoadOptions(
            n_slots=4,
            devices=["CUDA0"],
            tensor_split=[1.0],
            cpu_moe_layers=-1,
            rope=RopeScaling("yarn", freq_scale=0.25, yarn_orig_ctx=4096),
            loras=[Lora("x", -1.0)],
            parked_bytes=0,
        )
    )
