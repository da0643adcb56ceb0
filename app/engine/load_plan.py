"""What is decided before native code runs: devices, layers, context, and what they will take.

What must hold: everything here comes from the header, the options and what is free now; a wish
that cannot be met is refused with a sentence, one that changes nothing gets a note.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from app.engine import native
from app.engine.adapters import Adapter
from app.engine.estimate import estimate
from app.engine.load_checks import LoadRefused, check_devices_and_split, choose_devices
from app.engine.placement import DeviceMemory, DoesNotFit, Placement, plan
from app.engine.protocol import Device, LoadOptions, MemoryPart, RopeScaling
from app.engine.sizes import WeightSizes, sizes_of
from app.gguf.header import Header

N_SLOTS: Final = 4
"""Sequences that may be worked on at once; they share one unified cache."""

PROCESSOR_UBATCH: Final = 128
DEVICE_UBATCH: Final = 512
"""On two cores 128 rows are read as fast as 512, and the buffer and the steps are a quarter."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What was decided before native code runs. `devices` take layers, in this order."""

    sizes: WeightSizes
    placement: Placement
    devices: tuple[str, ...]
    n_ubatch: int
    n_slots: int
    notes: tuple[str, ...]


def estimate_of(planned: Plan) -> list[MemoryPart]:
    """What the load will take, by device and kind, before anything is loaded."""
    return estimate(planned.sizes, planned.placement, planned.devices, n_ubatch=planned.n_ubatch)


def plan_load(header: Header, options: LoadOptions, adapters: list[Adapter]) -> Plan:
    found = native.list_devices()
    usable = native.offload_devices(found) if native.can_offload() else []
    if options.devices is not None:
        usable = [d for d in found if d.kind in ("gpu", "igpu")] if native.can_offload() else []
    devices = choose_devices(options.devices, usable)
    check_devices_and_split(options, len(devices))
    if options.split_mode == "none":
        devices = devices[options.main_device : options.main_device + 1]
    repacked = native.repacked_types() if options.use_mmap else frozenset()
    sizes = replace(
        sizes_of(header, options.type_k, options.type_v, repacked),
        adapter_bytes=sum(adapter.size_bytes for adapter in adapters),
        n_ctx_train=trained_window(header, options.rope),
    )
    n_ubatch = options.n_ubatch or (DEVICE_UBATCH if devices else PROCESSOR_UBATCH)
    host_free = next((d.free_bytes for d in found if d.kind == "cpu"), 0)
    placement = _place(sizes, devices, host_free, options, n_ubatch)
    return Plan(
        sizes=sizes,
        placement=placement,
        devices=tuple(device.name for device in devices),
        n_ubatch=n_ubatch,
        n_slots=options.n_slots or min(N_SLOTS, n_ubatch),
        notes=(*placement.notes, *_wishes_without_effect(header, options, sizes, bool(devices))),
    )


def trained_window(header: Header, rope: RopeScaling) -> int:
    """Tokens that the positions reach: what the weights were trained for, stretched by RoPE
    scaling where it is asked for."""
    trained = header.n_ctx_train or 4096
    if rope.kind in ("linear", "yarn") and 0 < rope.freq_scale < 1:
        return min(int((rope.yarn_orig_ctx or trained) / rope.freq_scale), 1 << 24)
    return trained


def _place(
    sizes: WeightSizes,
    devices: list[Device],
    host_free: int,
    options: LoadOptions,
    n_ubatch: int,
) -> Placement:
    try:
        return plan(
            sizes,
            [
                DeviceMemory(d.name, d.description, d.kind, d.free_bytes, d.total_bytes)
                for d in devices
            ],
            host_free,
            n_ubatch=n_ubatch,
            n_ctx=options.n_ctx,
            n_gpu_layers=options.n_gpu_layers,
            tensor_split=options.tensor_split if options.split_mode != "none" else None,
            cpu_moe_layers=options.cpu_moe_layers,
            is_mapped=options.use_mmap,
        )
    except DoesNotFit as error:
        raise LoadRefused("out_of_memory", error.sentence) from error


def _wishes_without_effect(
    header: Header, options: LoadOptions, sizes: WeightSizes, has_devices: bool
) -> list[str]:
    """What was asked for and changes nothing here, said so that nobody looks for its effect."""
    notes = []
    if options.cpu_moe_layers and not sizes.has_experts:
        notes.append("Experts on the processor: these weights have no experts, so nothing changes.")
    if not has_devices and (options.tensor_split or options.split_mode != "layer"):
        notes.append("The split over devices changes nothing: all layers run on the processor.")
    rope = options.rope
    if rope.kind == "none" and (rope.freq_scale or rope.yarn_orig_ctx):
        notes.append("RoPE scaling is off, so its scale and window change nothing.")
    if rope.kind in ("linear", "yarn") and not rope.freq_scale:
        scaled = header.metadata.get(f"{header.architecture}.rope.scaling.factor")
        if not scaled:
            notes.append(
                f"RoPE scaling “{rope.kind}” changes nothing without a frequency scale below 1."
            )
    return notes
