"""Made-up machines: each must get a number that fits and a sentence that says why."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from each import each

from app.engine.planning.placement import (
    GIB,
    DeviceMemory,
    GraphicsEvidence,
    Placement,
    plan,
    unused_graphics_note,
)
from app.engine.planning.sizes import MIB, WeightSizes
from app.refusal import Refusal

UBATCH = 512


def sizes(
    *,
    n_layer: int = 32,
    layer_mib: float = 130.0,
    kv_per_token: int = 4096,
    output_mib: float = 400.0,
    trained: int = 131_072,
    layer_bytes: tuple[int, ...] | None = None,
) -> WeightSizes:
    """By default an 8B file at four bits: 32 layers of 130 MiB, 4 KiB of cache per layer."""
    layers = layer_bytes or (int(layer_mib * MIB),) * n_layer
    return WeightSizes(
        layer_bytes=layers,
        kv_bytes_per_token=(kv_per_token,) * len(layers),
        input_bytes=280 * MIB,
        output_bytes=int(output_mib * MIB),
        n_embd=4096,
        n_vocab=128_256,
        n_ctx_train=trained,
    )


def gpu(free_gib: float, total_gib: float | None = None, kind: str = "gpu") -> DeviceMemory:
    total = free_gib if total_gib is None else total_gib
    return DeviceMemory("CUDA0", "Made-up RTX", kind, int(free_gib * GIB), int(total * GIB))


@dataclass(frozen=True)
class Machine:
    """A device table and what must come out of it."""

    devices: list[DeviceMemory]
    layers: tuple[int, ...] | None = None
    """Exact layers by device; None where only the bounds below are claimed."""
    at_least: int = 0
    at_most: int = 33
    n_ctx: int = 8192
    weights: WeightSizes = field(default_factory=sizes)
    host_gib: float = 16.0
    says: str = ""


MACHINES = {
    "no GPU": Machine([], (), says="no GPU is available"),
    "one big": Machine([gpu(24)], (33,), says="All 33 layers"),
    "one small": Machine([gpu(4)], at_least=15, at_most=25, says="the rest run on the CPU"),
    "one tiny": Machine([gpu(0.75, 2)], (0,), says="not even one fits"),
    "zero free": Machine([gpu(0, 8)], (0,), says="not even one fits"),
    "almost full": Machine([gpu(1.5, 24)], (0,), says="not even one fits"),
    "two equal, one is enough": Machine([gpu(12), gpu(12)], (33, 0), says="33 on Made-up RTX"),
    "two unequal, the second is enough": Machine([gpu(2), gpu(24)], (0, 33)),
    "two unequal, both needed": Machine([gpu(4), gpu(3)], (22, 11), says="22 on"),
    "three small": Machine([gpu(2.5), gpu(2.5), gpu(2.5)], at_least=30),
    "integrated, shares the host's memory": Machine(
        [gpu(14, 16, "igpu")], (33,), host_gib=14, says="All 33 layers"
    ),
    "integrated, host nearly full": Machine(
        [gpu(14, 16, "igpu")], at_least=1, at_most=20, host_gib=7, n_ctx=8192
    ),
    "unified memory of 64 GiB": Machine([gpu(48, 64)], (33,)),
    "huge cache": Machine(
        [gpu(8)], at_least=33, at_most=33, n_ctx=4096, weights=sizes(kv_per_token=16_384)
    ),
    "the same cache quantised to q8_0": Machine(
        [gpu(8)], (33,), n_ctx=8192, weights=sizes(kv_per_token=16_384 * 34 // 64)
    ),
    "tiny file": Machine(
        [gpu(6)], (31,), weights=sizes(n_layer=30, layer_mib=2.2, kv_per_token=768, output_mib=30)
    ),
    "tiny file, trained for little": Machine(
        [gpu(6)], (5,), n_ctx=512, weights=sizes(n_layer=4, layer_mib=1, trained=512)
    ),
    "layers uneven, the last ones large": Machine(
        [gpu(3)],
        (3,),
        weights=sizes(layer_bytes=(100 * MIB,) * 28 + (900 * MIB,) * 4, output_mib=100),
    ),
    "one layer larger than any device": Machine(
        [gpu(4), gpu(4)],
        (1, 0),
        weights=sizes(layer_bytes=(6 * GIB,) * 4),
        n_ctx=2048,
        says="1 of 5 layers is",
    ),
    "hardly any host memory": Machine([], (), n_ctx=768, host_gib=0.6, says="the most that fits"),
    "little host memory": Machine([], (), n_ctx=2048, host_gib=6.6, says="the most that fits"),
}


def needs(machine: Machine, placement: Placement) -> list[int]:
    """Bytes on each device, counted here once more and independently."""
    weights = machine.weights
    everything = [
        size + kv * placement.n_ctx
        for size, kv in zip(weights.layer_bytes, weights.kv_bytes_per_token, strict=True)
    ]
    everything.append(weights.output_bytes)
    at, result = len(everything) - placement.n_gpu_layers, []
    for count in placement.layers_by_device:
        result.append(sum(everything[at : at + count]))
        at += count
    return result


@each("name", MACHINES)
def test_machine(name: str) -> None:
    machine = MACHINES[name]
    placement = plan(machine.weights, machine.devices, int(machine.host_gib * GIB), n_ubatch=UBATCH)
    if machine.layers is not None:
        assert placement.layers_by_device == machine.layers
    assert machine.at_least <= placement.n_gpu_layers <= machine.at_most
    assert placement.n_gpu_layers == sum(placement.layers_by_device)
    assert placement.n_ctx == machine.n_ctx
    assert machine.says in " ".join(placement.notes)
    assert len(placement.notes) == 2
    assert all(note.endswith(".") for note in placement.notes)
    for device, need in zip(machine.devices, needs(machine, placement), strict=True):
        assert need == 0 or need < device.free_bytes - 256 * MIB


def llama_cpp_deals(split: list[float], n_gpu_layers: int) -> list[int]:
    """llama.cpp's own dealing (llama-model.cpp: load_tensors), in float32 as it does."""
    numpy = pytest.importorskip("numpy")
    total = numpy.float32(0)
    points = []
    for share in split:
        total = numpy.float32(total + numpy.float32(share))
        points.append(total)
    points = [point / total for point in points]
    counts = [0] * len(split)
    for layer in range(n_gpu_layers):
        position = numpy.float32(layer) / numpy.float32(n_gpu_layers)
        counts[next(i for i, point in enumerate(points) if point > position)] += 1
    return counts


@pytest.mark.parametrize(
    "counts", [(33,), (33, 0), (0, 33), (1, 32), (32, 1), (0, 1), (7, 11, 13), (5, 0, 9), (81, 40)]
)
def test_tensor_split_deals_as_planned(counts: tuple[int, ...]) -> None:
    placement = Placement(4096, sum(counts), counts, ())
    assert llama_cpp_deals(placement.tensor_split(), sum(counts)) == list(counts)


def test_more_memory_never_means_fewer_layers() -> None:
    placed = [
        plan(sizes(), [gpu(free / 4)], 16 * GIB, n_ubatch=UBATCH, n_ctx=4096).n_gpu_layers
        for free in range(1, 40)
    ]
    assert placed == sorted(placed)
    assert placed[0] == 0
    assert placed[-1] == 33


def test_longer_context_never_means_more_layers() -> None:
    placed = [
        plan(sizes(), [gpu(6)], 16 * GIB, n_ubatch=UBATCH, n_ctx=n_ctx).n_gpu_layers
        for n_ctx in (512, 2048, 8192, 32_768)
    ]
    assert placed == sorted(placed, reverse=True)
    assert placed[0] > placed[-1]


def test_context_that_was_asked_for_is_kept_and_rounded_up() -> None:
    placement = plan(sizes(), [], 16 * GIB, n_ubatch=UBATCH, n_ctx=64)
    assert placement.n_ctx == 256
    assert plan(sizes(), [], 16 * GIB, n_ubatch=UBATCH, n_ctx=9000).n_ctx == 9216


@pytest.mark.parametrize(
    ("wanted", "says"),
    [
        (4096, []),
        (4000, ["Context window: 4,096 tokens instead of 4,000"]),
        (8192, ["trained for 4,096 tokens; beyond that"]),
        (8000, ["Context window: 8,192 tokens instead of 8,000", "trained for 4,096 tokens"]),
    ],
)
def test_what_is_odd_about_a_context_that_was_asked_for_is_said(
    wanted: int, says: list[str]
) -> None:
    trained = sizes(trained=4096)
    notes = plan(trained, [], 16 * GIB, n_ctx=wanted, n_ubatch=UBATCH).notes
    assert len(notes) == len(says) + 1  # where the layers are is always said
    assert all(words in note for words, note in zip(says, notes, strict=False))


def test_context_beyond_all_memory_is_refused_with_both_numbers() -> None:
    with pytest.raises(Refusal, match=r"1,048,576 tokens needs .* GB, but only 17\.2 GB are free"):
        plan(sizes(), [], 16 * GIB, n_ubatch=UBATCH, n_ctx=1_048_576)


@pytest.mark.parametrize(("wanted", "placed"), [(0, 0), (12, 12), (33, 33), (999, 33), (-1, 0)])
def test_layers_that_were_asked_for(wanted: int, placed: int) -> None:
    devices = [gpu(2), gpu(4)]
    placement = plan(sizes(), devices, 16 * GIB, n_ubatch=UBATCH, n_gpu_layers=wanted)
    assert placement.n_gpu_layers == placed
    assert ("may not fit" in " ".join(placement.notes)) == (placed == 33)


def test_layers_asked_for_without_a_device_stay_on_the_processor() -> None:
    placement = plan(sizes(), [], 16 * GIB, n_ubatch=UBATCH, n_gpu_layers=20)
    assert (placement.n_gpu_layers, placement.tensor_split()) == (0, [])


@pytest.mark.parametrize(
    ("evidence", "flag"),
    [
        (GraphicsEvidence(nvidia_driver=True), "-DGGML_CUDA=on"),
        (GraphicsEvidence(drm_vendors=("0x10de",)), "-DGGML_CUDA=on"),
        (GraphicsEvidence(drm_vendors=("0x8086", "0x10de")), "-DGGML_CUDA=on"),
        (GraphicsEvidence(drm_vendors=("0x1002",)), "-DGGML_VULKAN=on"),
        (GraphicsEvidence(apple_silicon=True), "-DGGML_METAL=on"),
    ],
)
def test_unused_graphics_device_is_named_with_its_cure(
    evidence: GraphicsEvidence, flag: str
) -> None:
    note = unused_graphics_note(evidence, can_offload=False, version="0.3.36")
    assert note is not None
    assert f'CMAKE_ARGS="{flag}" pip install' in note
    assert "llama-cpp-python==0.3.36" in note
    assert unused_graphics_note(evidence, can_offload=True, version="0.3.36") is None


def test_virtual_displays_are_no_graphics_devices() -> None:
    evidence = GraphicsEvidence(drm_vendors=("0x1af4", "0x1234", "0x15ad"))
    assert unused_graphics_note(evidence, can_offload=False, version="0.3.36") is None
