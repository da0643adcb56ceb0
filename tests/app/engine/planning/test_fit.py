"""Whether weights fit, against sums made by hand; every suggestion is tried."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import msgspec
import pytest
from examples import examples
from hypothesis import given, settings as hypothesis_settings, strategies as st

from app.engine.planning.fit import (
    SMALLER_CACHE,
    Fit,
    Returning,
    Verdict,
    device_of,
    fit,
    host_budget,
    rough_fit,
)
from app.engine.planning.load_plan import Machine, check_wish, plan_on
from app.engine.planning.placement import GIB, DeviceMemory, plan
from app.engine.planning.sizes import MIB, Outline, outline_of
from app.engine.protocol.loading_messages import LoadOptions, MemoryPart
from app.gguf.header import read_header


def host(free: float, total: float = 64) -> DeviceMemory:
    return DeviceMemory("CPU", "a processor", "cpu", int(free * GIB), int(total * GIB))


def gpu(free: float, name: str = "CUDA0", kind: str = "gpu", total: float = 24) -> DeviceMemory:
    return DeviceMemory(name, "a device", kind, int(free * GIB), int(total * GIB))


def outline(
    n_layer: int = 32,
    layer_mib: float = 128,
    width: int = 1024,
    output_mib: float = 400,
    trained: int = 131_072,
) -> Outline:
    """By default 8B weights at four bits: 128 KiB of cache for a token in f16."""
    layer, output = int(layer_mib * MIB), int(output_mib * MIB)
    return Outline(
        file_name="made-up.gguf",
        layer_bytes=(layer,) * n_layer,
        expert_bytes=(0,) * n_layer,
        matrices=({"Q4_K": layer},) * n_layer + ({"Q6_K": output},),
        cache_widths=((width, width),) * n_layer,
        input_bytes=256 * MIB,
        output_bytes=output,
        tied_bytes=0,
        n_embd=4096,
        n_vocab=128_256,
        n_ctx_train=trained,
        head_widths=(128, 128),
        is_latent=False,
    )


def judge(devices: list[DeviceMemory], weights: Outline | None = None, **options: Any) -> Fit:
    return fit(weights or outline(), LoadOptions(**options), devices)


def by_kind(found: Fit) -> dict[str, int]:
    sums: dict[str, int] = {}
    for part in found.parts:
        sums[part.what] = sums.get(part.what, 0) + part.size_bytes
    return sums


# --- verdicts -----------------------------------------------------------------------------------


def test_it_fits_and_says_what_it_takes() -> None:
    found = judge([host(16)])
    assert (found.verdict, found.words, found.suggestions) == (Verdict.FITS, "fits", ())
    assert (found.n_ctx, found.n_gpu_layers, found.n_layers) == (8192, 0, 33)
    parts = by_kind(found)
    assert parts["weights"] == (32 * 128 + 256 + 400) * MIB
    assert parts["kv"] == 8192 * 32 * 2 * 1024 * 2 == GIB
    assert found.need_bytes == sum(parts.values())
    assert found.free_bytes == 16 * GIB
    assert "8,192 tokens of context it takes 6.17 GB: weights 4.98 GB, KV cache 1.07" in found.why
    assert "17.2 GB are free in main memory." in found.why


def test_fewer_layers_are_named_with_their_device() -> None:
    found = judge([host(16), gpu(4)])
    assert found.verdict is Verdict.FITS_LESS
    assert found.words == f"fits with {found.n_gpu_layers} of 33 layers on GPU 0"
    assert 10 <= found.n_gpu_layers <= 20
    assert "The other layers run on the CPU" in found.why
    pinned, smaller = found.suggestions
    assert found.suggestions[0].options == pinned.options
    assert pinned.options.n_gpu_layers == found.n_gpu_layers
    assert pinned.options.n_ctx == 8192
    assert smaller.options.type_k == smaller.options.type_v == SMALLER_CACHE
    assert "1 more layer on" in smaller.why


@pytest.mark.parametrize(
    ("devices", "words"),
    [
        ([host(16), gpu(24)], "fits"),
        ([host(16), gpu(0.5)], "fits on the CPU only"),
        ([host(16), gpu(12, "Vulkan0", "igpu")], "fits"),
        ([host(2), gpu(24)], "fits"),
        ([host(1), gpu(0.5)], "does not fit"),
        ([host(5.9)], "fits with 2,048 tokens of context"),
        ([host(4)], "does not fit"),
        ([], "does not fit"),
    ],
    ids=str,
)
def test_words(devices: list[DeviceMemory], words: str) -> None:
    assert judge(devices).words == words


def test_experts_make_room_for_whole_layers() -> None:
    """40 layers of 400 MiB, 380 of them experts, on 8 GiB: attention and cache have room."""
    experts = replace(outline(40, 400), expert_bytes=(380 * MIB,) * 40)
    found = judge([host(24), gpu(8)], experts)
    assert found.verdict is Verdict.FITS_LESS
    moved = next(each for each in found.suggestions if "experts" in each.words)
    count = moved.options.cpu_moe_layers
    assert moved.words == f"the experts of {count} of 40 layers in main memory"
    again = fit(experts, moved.options, [host(24), gpu(8)])
    assert (again.verdict, again.n_gpu_layers) == (Verdict.FITS, 41)
    one_less = msgspec.structs.replace(moved.options, cpu_moe_layers=count - 1)
    assert fit(experts, one_less, [host(24), gpu(8)]).n_gpu_layers < 41
    # Where the host has no room for them nothing is suggested; nor without experts.
    for weights, devices in ((experts, [host(9), gpu(8)]), (outline(40, 400), [host(24), gpu(8)])):
        assert not any("experts" in s.words for s in judge(devices, weights).suggestions)


def test_several_devices_are_counted() -> None:
    found = judge([host(16), gpu(3), gpu(3, "CUDA1")])
    assert found.words == f"fits with {found.n_gpu_layers} of 33 layers on 2 GPUs"
    assert [need.label for need in found.devices] == ["main memory", "GPU 0", "GPU 1"]


def test_a_long_context_is_shortened_or_kept_in_fewer_bits() -> None:
    """16 GiB of cache in f16: in q8_0 8.5 GiB, which 16 GiB have room for beside the weights."""
    found = judge([host(16)], n_ctx=131_072)
    assert found.verdict is Verdict.FITS_LESS
    smaller, shorter = found.suggestions
    assert smaller.options.n_ctx == 131_072
    assert (smaller.options.type_k, smaller.options.type_v) == (SMALLER_CACHE, SMALLER_CACHE)
    assert "8.05 GB less" in smaller.why
    assert shorter.options.type_k == "f16"
    assert shorter.options.n_ctx is not None
    assert shorter.options.n_ctx % 1024 == 0
    assert found.words == f"fits with {smaller.words}"
    tight = judge([host(8)], n_ctx=131_072)
    n_ctx = tight.suggestions[0].options.n_ctx
    assert tight.words == f"fits with {n_ctx:,} tokens of context"
    # The next thousand tokens would be too many.
    longer = judge([host(8)], n_ctx=n_ctx + 1024)
    assert longer.verdict is Verdict.FITS_LESS


@pytest.mark.parametrize("n_ctx", [8192, 100_000, 1 << 24])
def test_no_context_is_suggested_beyond_what_the_weights_were_trained_for(n_ctx: int) -> None:
    devices = [host(24)]
    found = judge(devices, outline(trained=8192), n_ctx=n_ctx)
    words = "The model was trained for 8,192 tokens; beyond that, replies may become incoherent."
    assert (words in found.why) is (n_ctx > 8192)
    is_held = n_ctx <= 100_000
    assert found.words == ("fits" if is_held else "fits with 8,192 tokens of context")
    assert [s.options.n_ctx for s in found.suggestions] == ([] if is_held else [8192])


def test_layers_that_were_asked_for_and_do_not_fit() -> None:
    found = judge([host(16), gpu(4)], n_gpu_layers=33)
    assert found.verdict is Verdict.FITS_LESS
    n_layers = found.suggestions[0].options.n_gpu_layers
    assert found.words == f"fits with {n_layers} of 33 layers on GPU 0"
    assert not found.devices[1].fits
    assert judge([host(16), gpu(4)], n_gpu_layers=8).words == "fits"
    assert judge([host(16), gpu(4)], n_gpu_layers=0).words == "fits"


def test_layers_are_suggested_with_the_context_that_fits() -> None:
    """The engine takes a shorter context where it deals the layers itself, not where they are
    said."""
    weights = outline(n_layer=50, layer_mib=101, output_mib=96, trained=8192)
    devices = [host(13), gpu(8, "Vulkan0", "igpu")]
    found = judge(devices, weights, n_gpu_layers=51, use_mmap=False)
    first = found.suggestions[0]
    assert first.options.n_ctx is not None
    assert first.words == f"51 of 51 layers on GPU 0 and {first.options.n_ctx:,} tokens of context"
    assert fit(weights, first.options, devices).words == "fits"


def test_what_cannot_be_met_is_said_in_the_engines_words() -> None:
    found = fit(outline(), LoadOptions(devices=["CUDA0"]), [host(16)])
    assert found.verdict is Verdict.FITS_NOT
    assert "Unknown device “CUDA0”" in found.why
    assert found.suggestions[0].options == LoadOptions()
    no_heads = replace(outline(), head_widths=(80, 80))
    assert "blocks of 32" in judge([host(16)], no_heads, type_k="q8_0").why
    # A file whose heads take no blocks is offered none.
    offered = judge([host(16)], no_heads, n_ctx=131_072).suggestions
    assert [suggestion.options.type_k for suggestion in offered] == ["f16"]


def test_weights_that_are_too_large_may_still_be_read_from_the_disk() -> None:
    assert "run from disk" in judge([host(4)]).why
    assert "Close other programs" in judge([host(4)], use_mmap=False).why
    assert "reserved for the system" in judge([host(5.1)], n_ctx=1024).why


def test_what_the_processor_keeps_twice_is_needed_once() -> None:
    machine = Machine((host(16),), repacked=frozenset({"Q4_K"}))
    found = fit(outline(), LoadOptions(), machine)
    plain = judge([host(16)])
    assert by_kind(found)["weights"] == by_kind(plain)["weights"] + 32 * 128 * MIB
    assert found.need_bytes == plain.need_bytes


def test_what_loaded_weights_give_back_counts_as_free() -> None:
    parts = (
        MemoryPart("CPU_Mapped", "weights", 4 * GIB),
        MemoryPart("CPU_REPACK", "weights", GIB),
        MemoryPart("CUDA_Host", "output", GIB),
        MemoryPart("CUDA0", "kv", 2 * GIB),
    )
    found = fit(outline(), LoadOptions(), [host(4), gpu(1)], returning=Returning("Old one", parts))
    assert [need.free_bytes for need in found.devices] == [6 * GIB, 3 * GIB]
    assert [need.returning_bytes for need in found.devices] == [2 * GIB, 2 * GIB]
    assert "including 4.29 GB freed by unloading “Old one”" in found.why


def test_memory_that_is_shared_comes_back_once() -> None:
    parts = (MemoryPart("Vulkan0", "weights", 2 * GIB),)
    devices = [host(4), gpu(4, "Vulkan0", "igpu")]
    found = fit(outline(), LoadOptions(), devices, returning=Returning("Old one", parts))
    assert [need.free_bytes for need in found.devices] == [6 * GIB, 6 * GIB]
    assert found.free_bytes == 6 * GIB
    assert "including 2.15 GB freed by unloading “Old one”" in found.why


def test_buffers_are_told_apart_by_device() -> None:
    devices = [host(1), gpu(1), gpu(1, "CUDA1"), gpu(1, "MTL0", "igpu")]
    names = ["CPU", "CPU_Mapped", "CUDA0", "CUDA1", "CUDA_Host", "MTL0_Mapped", "CUDA0_Split"]
    assert [device_of(name, devices) for name in names] == [
        *("", "", "CUDA0", "CUDA1", "", "MTL0", "CUDA0")
    ]


def test_looking_inside_takes_a_second_context_and_no_part_in_the_verdict() -> None:
    wide = judge([host(16)], n_ctx=8192)
    parts = by_kind(wide)
    least = parts["kv"] + parts["compute"]
    assert least < wide.looking_bytes < least + 300 * parts["kv"] / 8192
    assert wide.can_look
    room = (wide.need_bytes + wide.looking_bytes) / GIB
    assert judge([host(room)], n_ctx=8192).can_look
    tight = judge([host(room - 0.001)], n_ctx=8192)
    assert not tight.can_look
    assert tight.verdict is Verdict.FITS


def test_looking_inside_needs_room_on_each_device() -> None:
    found = judge([host(64), gpu(24)], n_gpu_layers=33, n_ctx=8192)
    on_gpu = next(need for need in found.devices if need.name == "CUDA0")
    taken = sum(part.size_bytes for part in on_gpu.parts if part.what in ("kv", "compute"))
    enough = (on_gpu.need_bytes + 1.1 * taken) / GIB
    assert judge([host(64), gpu(enough)], n_gpu_layers=33, n_ctx=8192).can_look
    too_little = (on_gpu.need_bytes + taken) / GIB
    assert not judge([host(64), gpu(too_little)], n_gpu_layers=33, n_ctx=8192).can_look


def test_adapters_count() -> None:
    found = fit(outline(), LoadOptions(), [host(16)], adapter_bytes=GIB)
    assert found.need_bytes == judge([host(16)]).need_bytes + GIB


# --- what must hold for any machine -------------------------------------------------------------

MACHINES = st.builds(
    lambda free, gpus, shared: [
        host(free),
        *(gpu(size, f"CUDA{index}") for index, size in enumerate(gpus)),
        *([gpu(shared, "Vulkan0", "igpu")] if shared else []),
    ],
    st.floats(0, 64),
    st.lists(st.floats(0, 24), max_size=3),
    st.sampled_from([0, 0, 8]),
)
WEIGHTS = st.builds(
    outline,
    n_layer=st.integers(1, 60),
    layer_mib=st.floats(1, 500),
    width=st.sampled_from([0, 128, 1024, 4096]),
    output_mib=st.floats(1, 1500),
    trained=st.sampled_from([512, 2048, 8192, 131_072]),
)
OPTIONS = st.builds(
    LoadOptions,
    n_ctx=st.none() | st.integers(1, 200_000),
    n_gpu_layers=st.none() | st.integers(0, 70),
    type_k=st.sampled_from(["f16", "q8_0"]),
    cpu_moe_layers=st.just(0),
    use_mmap=st.booleans(),
)


@hypothesis_settings(max_examples=examples(150))
@given(WEIGHTS, OPTIONS, MACHINES)
def test_a_verdict_and_its_suggestions_hold(
    weights: Outline, options: LoadOptions, devices: list[DeviceMemory]
) -> None:
    found = fit(weights, options, devices)
    machine = Machine(tuple(devices))
    if found.verdict is Verdict.FITS:
        assert found.words == "fits"
        for need in found.devices:
            assert need.need_bytes <= need.free_bytes
        # The engine would not refuse it.
        plan_on(weights, options, machine, check_wish(weights, options, machine))
    assert (found.verdict is Verdict.FITS_NOT) == (found.words == "does not fit")
    assert bool(found.suggestions) == (found.verdict is Verdict.FITS_LESS)
    for suggestion in found.suggestions:
        again = fit(weights, suggestion.options, devices)
        assert all(need.fits for need in again.devices), suggestion
        assert suggestion.why.endswith(".")


@hypothesis_settings(max_examples=examples(150))
@given(WEIGHTS, MACHINES)
def test_the_most_layers_are_found_as_by_trying_all(
    weights: Outline, devices: list[DeviceMemory]
) -> None:
    sizes, graphics = weights.sizes("f16", "f16"), devices[1:]
    found = plan(sizes, graphics, 64 * GIB, n_ubatch=512, n_ctx=4096)

    def holds(wanted: int) -> bool:
        """Each device takes as many as it has room for, in order."""
        layer, end = sizes.n_layer + 1 - wanted, sizes.n_layer + 1
        for device in graphics:
            is_shared = device.kind == "igpu"
            left = min(device.budget_bytes, 32 * GIB if is_shared else device.budget_bytes)
            left -= sizes.compute_bytes(512, 4096)
            while layer < end:
                is_output = layer == sizes.n_layer
                size = sizes.output_bytes if is_output else sizes.layer_bytes[layer]
                size += 0 if is_output else sizes.kv_bytes_per_token[layer] * 4096
                if size > left:
                    break
                left, layer = left - size, layer + 1
        return layer == end

    most = next((w for w in range(sizes.n_layer + 1, 0, -1) if holds(w)), 0)
    assert found.n_gpu_layers >= most
    if found.n_gpu_layers > most:  # one device alone held them all
        assert found.n_gpu_layers == sizes.n_layer + 1
        assert found.layers_by_device.count(0) == len(graphics) - 1


def test_two_hundred_files_are_judged_in_the_time_of_a_few_frames() -> None:
    weights = [outline(n_layer=40 + index % 60, layer_mib=400) for index in range(200)]
    machine = Machine((host(24), gpu(10), gpu(11, "CUDA1")), repacked=frozenset({"Q4_K"}))
    started = time.thread_time()
    found = [fit(each, LoadOptions(), machine) for each in weights]
    assert time.thread_time() - started < 1.5  # 0.3 s here; and it is done beside the window
    assert len({each.words for each in found}) > 10


# --- real headers -------------------------------------------------------------------------------


def test_real_files(starter_gguf: Any, gemma_gguf: Any) -> None:
    for path in (starter_gguf, gemma_gguf):
        header = read_header(path)
        assert fit(header, LoadOptions(), [host(8)]).words == "fits"
        assert fit(header, LoadOptions(), [host(8)]) == fit(
            outline_of(header), LoadOptions(), [host(8)]
        )


# --- by size alone ------------------------------------------------------------------------------


def test_rough_by_size_alone() -> None:
    assert rough_fit(4 * GIB, [host(8)]).verdict is Verdict.FITS
    assert rough_fit(8 * GIB, [host(8)]).verdict is Verdict.FITS_NOT
    assert rough_fit(8 * GIB, [host(8), gpu(20)]).verdict is Verdict.FITS
    in_part = rough_fit(20 * GIB, [host(20), gpu(8)])
    assert in_part.verdict is Verdict.FITS_LESS
    for found in (in_part, rough_fit(1, [])):
        assert "probably" in found.words
        assert "Rough estimate" in found.why


def test_a_margin_stays_with_the_system() -> None:
    assert host_budget(16 * GIB) == 15 * GIB
    assert host_budget(4 * GIB) == 3.5 * GIB
    assert host_budget(GIB) == 768 * MIB
    assert host_budget(100 * MIB) == 0
