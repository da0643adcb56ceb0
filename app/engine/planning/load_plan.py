"""What is decided before native code runs: devices, layers, context, and what they will take.

What must hold: everything here comes from the header, the options and what is free now; a wish
that cannot be met is refused with a sentence, one that changes nothing gets a note. Nothing here
asks a device or imports llama.cpp, so the window plans as the engine will.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from app.engine.planning.estimate import estimate
from app.engine.planning.load_checks import (
    check_cache_types,
    check_devices_and_split,
    check_options,
    choose_devices,
)
from app.engine.planning.placement import DeviceMemory, Placement, plan
from app.engine.planning.sizes import Outline, WeightSizes, outline_of
from app.engine.protocol.loading_messages import LoadOptions, MemoryPart, RopeScaling
from app.gguf.header import Header

N_SLOTS: Final = 8
"""Sequences that may be worked on at once; they share one unified cache, so one more takes no
memory of its own (llama.cpp keeps sliding windows whole by default: `swa_full`)."""

N_STATES: Final = 4
"""The same where each sequence keeps a state beside its cells, or in place of them."""

DEVICE_UBATCH: Final = 512
PROCESSOR_UBATCH: Final = ((150 * 2**20, 512), (600 * 2**20, 256))
LEAST_UBATCH: Final = 128
"""Rows of a step by the bytes of the layers, which say how long it takes. On two cores 512 rows are
read up to 6 % faster than four times 128 (SmolLM2), in steps of less than two seconds; of larger
weights the steps would be long, and the buffer large."""


@dataclass(frozen=True, slots=True)
class Machine:
    """What there is to place weights on, now.

    `devices`: all that this build of llama.cpp knows, the processor (kind "cpu") with the host's
    memory among them. `repacked`: tensor types that the processor keeps a second time.
    """

    devices: tuple[DeviceMemory, ...]
    can_offload: bool = True
    repacked: frozenset[str] = frozenset()

    @property
    def host(self) -> DeviceMemory:
        """The host's memory; nothing is free where no device tells."""
        cpu = next((device for device in self.devices if device.kind == "cpu"), None)
        return cpu or DeviceMemory("CPU", "", "cpu", 0, 0)

    def usable(self, *, by_name: bool = False) -> list[DeviceMemory]:
        """The devices that llama.cpp deals layers to: graphics devices; those that share the
        host's memory only alone, unless they are asked for by name."""
        if not self.can_offload:
            return []
        own = [device for device in self.devices if device.kind == "gpu"]
        shared = [device for device in self.devices if device.kind == "igpu"]
        return own + shared if by_name else own or shared[:1]


@dataclass(frozen=True, slots=True)
class LoadPlan:
    """What was decided before native code runs. `devices` take layers, in this order."""

    sizes: WeightSizes
    placement: Placement
    devices: tuple[str, ...]
    n_ubatch: int
    n_slots: int
    notes: tuple[str, ...]


def estimate_of(planned: LoadPlan) -> list[MemoryPart]:
    """What the load will take, by device and kind, before anything is loaded."""
    return estimate(planned.sizes, planned.placement, planned.devices, n_ubatch=planned.n_ubatch)


def check_wish(outline: Outline, options: LoadOptions, machine: Machine) -> list[DeviceMemory]:
    """The devices that shall take layers. Raises Refusal where the options cannot be met by
    this file or this machine, whatever is free."""
    check_options(options)
    check_cache_types(outline, options)
    usable = machine.usable(by_name=options.devices is not None)
    devices = choose_devices(options.devices, usable)
    check_devices_and_split(options, len(devices))
    if options.split_mode == "none":
        return devices[options.main_device : options.main_device + 1]
    return devices


def plan_load(
    header: Header, options: LoadOptions, machine: Machine, *, adapter_bytes: int = 0
) -> LoadPlan:
    """Decide. Raises Refusal."""
    outline = outline_of(header)
    devices = check_wish(outline, options, machine)
    planned = plan_on(outline, options, machine, devices, adapter_bytes=adapter_bytes)
    notes = _wishes_without_effect(header, options, planned.sizes, bool(devices))
    return replace(planned, notes=(*planned.notes, *notes))


def plan_on(
    outline: Outline,
    options: LoadOptions,
    machine: Machine,
    devices: Sequence[DeviceMemory],
    *,
    adapter_bytes: int = 0,
    must_hold: bool = True,
) -> LoadPlan:
    """Decide where the devices are chosen already (`check_wish`). Raises Refusal, if it
    `must_hold`."""
    repacked = machine.repacked if options.use_mmap else frozenset[str]()
    n_ubatch = options.n_ubatch or (DEVICE_UBATCH if devices else _processor_ubatch(outline))
    n_slots = options.n_slots or min(N_STATES if outline.state_bytes else N_SLOTS, n_ubatch)
    sizes = replace(
        outline.sizes(options.type_k, options.type_v, repacked, n_slots),
        adapter_bytes=adapter_bytes,
        n_ctx_train=trained_window(outline.n_ctx_train, options.rope),
    )
    placement = plan(
        sizes,
        devices,
        machine.host.free_bytes,
        n_ubatch=n_ubatch,
        n_ctx=options.n_ctx,
        n_gpu_layers=options.n_gpu_layers,
        tensor_split=options.tensor_split if options.split_mode != "none" else None,
        cpu_moe_layers=options.cpu_moe_layers,
        is_mapped=options.use_mmap,
        must_hold=must_hold,
    )
    return LoadPlan(
        sizes=sizes,
        placement=placement,
        devices=tuple(device.name for device in devices),
        n_ubatch=n_ubatch,
        n_slots=n_slots,
        notes=placement.notes,
    )


def _processor_ubatch(outline: Outline) -> int:
    size = sum(outline.layer_bytes)
    return next((rows for most, rows in PROCESSOR_UBATCH if size <= most), LEAST_UBATCH)


def trained_window(n_ctx_train: int, rope: RopeScaling) -> int:
    """Tokens that the positions reach: what the weights were trained for, stretched by RoPE
    scaling where it is asked for."""
    if rope.kind in ("linear", "yarn") and 0 < rope.freq_scale < 1:
        return min(int((rope.yarn_orig_ctx or n_ctx_train) / rope.freq_scale), 1 << 24)
    return n_ctx_train


def _wishes_without_effect(
    header: Header, options: LoadOptions, sizes: WeightSizes, has_devices: bool
) -> list[str]:
    """What was asked for and changes nothing here, said so that nobody looks for its effect."""
    notes = []
    if options.cpu_moe_layers and not sizes.has_experts:
        notes.append("Keeping experts on the CPU has no effect: this model has no experts.")
    if not has_devices and (options.tensor_split or options.split_mode != "layer"):
        notes.append("The split over devices has no effect: all layers run on the CPU.")
    rope = options.rope
    if rope.kind == "none" and (rope.freq_scale or rope.yarn_orig_ctx):
        notes.append("RoPE scaling is off, so its scale and window have no effect.")
    if rope.kind in ("linear", "yarn") and not rope.freq_scale:
        scaled = header.metadata.get(f"{header.architecture}.rope.scaling.factor")
        if not scaled:
            notes.append(
                f"RoPE scaling “{rope.kind}” has no effect without a frequency scale below 1."
            )
    return notes
