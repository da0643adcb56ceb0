"""Where the weights go, and how long a context fits: arithmetic on each device's free memory.

Pure functions on plain numbers; nothing here asks a device or imports llama.cpp. The answer is
always a number and sentences that say why; llama.cpp's own "-1: all layers" is never used,
since it aborts or swaps when the layers do not fit.

How llama.cpp counts: `n_gpu_layers` = n takes the *last* n of the layers, where the output
matrix counts as one more layer behind the repeating ones. Those n are dealt to the devices in
their order, in contiguous runs. The token embedding stays in host memory.

    n_layer = 4, n_gpu_layers = 3 on two devices holding 1 + 2:
    layer 0, layer 1 → host;  layer 2 → first device;  layer 3, output → second device
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from app.amounts import bytes_words
from app.engine.planning.sizes import MIB, WeightSizes
from app.refusal import Refusal

GIB: Final = 1024 * MIB
CONTEXT_CAP: Final = 8192
CONTEXT_FLOOR: Final = 2048
CONTEXT_STEP: Final = 256
"""llama.cpp rounds contexts up to a multiple of this, and uses no smaller one."""

_CONTEXT_TRIES: Final = (8192, 6144, 4096)
_MARGIN_SHARE: Final = 0.05
_MARGIN_BYTES: Final = 256 * MIB


@dataclass(frozen=True, slots=True)
class DeviceMemory:
    """A device as ggml lists it. `kind`: gpu (its own memory), igpu (shares the host's)."""

    name: str
    description: str
    kind: str
    free_bytes: int
    total_bytes: int

    @property
    def budget_bytes(self) -> int:
        """What may be taken: the free memory less a margin for the driver and other programs."""
        margin = max(_MARGIN_BYTES, int(self.total_bytes * _MARGIN_SHARE))
        return max(self.free_bytes - margin, 0)


@dataclass(frozen=True, slots=True)
class Placement:
    """`layers_by_device[d]` of the last `n_gpu_layers` layers lie on device d (the output counts).

    `cpu_moe_layers`: the experts of the first so many layers stay in host memory. `notes` are
    sentences for the user.
    """

    n_ctx: int
    n_gpu_layers: int
    layers_by_device: tuple[int, ...]
    notes: tuple[str, ...]
    cpu_moe_layers: int = 0

    def tensor_split(self) -> list[float]:
        """Proportions for llama.cpp that deal the layers out just so.

        Layer j of n goes to the first device whose cumulated share exceeds j / n. The shares
        end half a layer early, so that rounding in float32 cannot push one over the edge.
        """
        ends, total = [], 0
        for count in self.layers_by_device:
            total += count
            ends.append(max(total - 0.5, 0.0))
        if ends:
            ends[-1] = max(float(total), 1.0)
        starts = [0.0, *ends][: len(ends)]
        return [end - start for start, end in zip(starts, ends, strict=True)]


def plan(
    sizes: WeightSizes,
    devices: Sequence[DeviceMemory],
    host_free_bytes: int,
    *,
    n_ubatch: int,
    n_ctx: int | None = None,
    n_gpu_layers: int | None = None,
    tensor_split: Sequence[float] | None = None,
    cpu_moe_layers: int = 0,
    is_mapped: bool = True,
    must_hold: bool = True,
) -> Placement:
    """Decide context and layers. Raises Refusal if a context that was asked for cannot fit
    (not without `must_hold`: for whoever wants to show by how much).

    A context that nobody asked for is what fits, at most CONTEXT_CAP and what the weights were
    trained for; a shorter one (down to 4,096) is taken where that brings all layers onto the
    devices. `tensor_split` deals the layers in these shares instead of by free memory;
    `cpu_moe_layers` (-1: of all) keeps experts in host memory; `is_mapped`: weights in host
    memory are read from the disk as they are needed, so they may be larger than it.
    """
    experts_on_host = sizes.n_layer if cpu_moe_layers < 0 else min(cpu_moe_layers, sizes.n_layer)
    task = _Task(
        sizes,
        tuple(devices),
        host_free_bytes,
        n_ubatch,
        tuple(tensor_split or ()),
        experts_on_host if sizes.has_experts else 0,
        is_mapped,
    )
    if n_ctx is not None:
        rounded = round_up_context(n_ctx)
        if must_hold:
            task.check_context(rounded)
        return task.place(rounded, n_gpu_layers, _notes_on_wish(n_ctx, rounded, sizes))
    longest = min(CONTEXT_CAP, round_up_context(sizes.n_ctx_train))
    chosen = task.best_context(longest, n_gpu_layers)
    return task.place(chosen, n_gpu_layers, (_context_note(chosen, longest, sizes),))


def round_up_context(n_ctx: int) -> int:
    """The context that llama.cpp really makes of a wish.

    >>> round_up_context(64), round_up_context(257)
    (256, 512)
    """
    return max(-(-n_ctx // CONTEXT_STEP), 1) * CONTEXT_STEP


@dataclass(frozen=True, slots=True)
class _Task:
    sizes: WeightSizes
    devices: tuple[DeviceMemory, ...]
    host_free_bytes: int
    n_ubatch: int
    split: tuple[float, ...] = ()
    experts_on_host: int = 0
    is_mapped: bool = True

    # --- layers ---------------------------------------------------------------------------

    def place(self, n_ctx: int, wanted: int | None, notes: tuple[str, ...]) -> Placement:
        most = self.sizes.n_layer + 1
        if wanted is not None or (self.split and self.devices):
            wanted = most if wanted is None else min(max(wanted, 0), most)
            counts, notes = self._as_asked(n_ctx, wanted, notes)
        else:
            counts = self._most_layers(n_ctx)
        notes = (*notes, self._layers_note(counts), *self._experts_note(counts))
        return Placement(n_ctx, sum(counts), counts, notes, self.experts_on_host)

    def _as_asked(
        self, n_ctx: int, wanted: int, notes: tuple[str, ...]
    ) -> tuple[tuple[int, ...], tuple[str, ...]]:
        """The user's number of layers, in the user's shares or else dealt by free memory."""
        counts = None if self.split else self._deal(wanted, n_ctx)
        if counts is None:
            shares = [*self.split, *(0.0 for _ in self.devices)][: len(self.devices)]
            counts = _shares(wanted, shares if self.split else self._budgets())
            if wanted and self.devices and not self._holds(counts, n_ctx):
                notes = (*notes, f"The {wanted} layers you set may not fit in free memory.")
        return counts, notes

    def _holds(self, counts: tuple[int, ...], n_ctx: int) -> bool:
        layer = self.sizes.n_layer + 1 - sum(counts)
        for count, budget in zip(counts, self._budgets(), strict=True):
            need = sum(self._layer_need(i, n_ctx) for i in range(layer, layer + count))
            if count and need + self._compute(n_ctx) > budget:
                return False
            layer += count
        return True

    def _most_layers(self, n_ctx: int) -> tuple[int, ...]:
        """The largest number of layers that fits, on one device if one can hold them all."""
        everything = self.sizes.n_layer + 1
        for device in sorted(range(len(self.devices)), key=lambda d: -self._budgets()[d]):
            if self._alone(device, n_ctx):
                return tuple(everything if d == device else 0 for d in range(len(self.devices)))
        found, low, high = (0,) * len(self.devices), 1, everything
        while low <= high:  # what holds some layers holds fewer of them, too
            middle = (low + high) // 2
            counts = self._deal(middle, n_ctx)
            if counts is None:
                high = middle - 1
            else:
                found, low = counts, middle + 1
        return found

    def _alone(self, device: int, n_ctx: int) -> bool:
        need = sum(self._layer_need(i, n_ctx) for i in range(self.sizes.n_layer + 1))
        return need + self._compute(n_ctx) <= self._budgets()[device]

    def _deal(self, wanted: int, n_ctx: int) -> tuple[int, ...] | None:
        """Fill the devices in their order with the last `wanted` layers; None if they overflow.

        First fit is the most that contiguous runs in a fixed order can hold.
        """
        layer, end = self.sizes.n_layer + 1 - wanted, self.sizes.n_layer + 1
        counts = []
        for budget in self._budgets():
            left, count = budget - self._compute(n_ctx), 0
            while layer < end and self._layer_need(layer, n_ctx) <= left:
                left -= self._layer_need(layer, n_ctx)
                layer, count = layer + 1, count + 1
            counts.append(count)
        return tuple(counts) if layer == end else None

    def _layer_need(self, layer: int, n_ctx: int) -> int:
        if layer == self.sizes.n_layer:
            return self.sizes.output_bytes
        need = self.sizes.layer_bytes[layer] + self.sizes.kv_bytes_per_token[layer] * n_ctx
        need += self.sizes.state_of(layer)
        return need - (self.sizes.experts_of(layer) if layer < self.experts_on_host else 0)

    def _budgets(self) -> list[int]:
        """Per device; what shares the host's memory may take at most half of what is free."""
        return [
            min(d.budget_bytes, self.host_free_bytes // 2) if d.kind == "igpu" else d.budget_bytes
            for d in self.devices
        ]

    def _compute(self, n_ctx: int) -> int:
        return self.sizes.compute_bytes(self.n_ubatch, n_ctx)

    # --- context --------------------------------------------------------------------------

    def best_context(self, longest: int, wanted_layers: int | None) -> int:
        everything = self.sizes.n_layer + 1
        if self.devices and wanted_layers is None:
            for n_ctx in _CONTEXT_TRIES:
                if n_ctx <= longest and sum(self._most_layers(n_ctx)) == everything:
                    return n_ctx
            if longest < _CONTEXT_TRIES[-1] and sum(self._most_layers(longest)) == everything:
                return longest
        fitting = longest
        while fitting > CONTEXT_FLOOR and not self._host_holds(fitting):
            fitting -= CONTEXT_STEP
        # Weights that are larger than the memory can still be read from the disk as they are
        # needed; a cache cannot. So below the floor only the cache counts.
        while fitting > CONTEXT_STEP and not self._host_holds_cache(fitting):
            fitting -= CONTEXT_STEP
        return fitting

    def check_context(self, n_ctx: int) -> None:
        """Refuse a context that is larger than all free memory together."""
        free = self.host_free_bytes + sum(d.free_bytes for d in self.devices if d.kind != "igpu")
        need = self.sizes.kv_bytes(n_ctx) + self._compute(n_ctx)
        if not self.is_mapped:
            need += sum(self.sizes.layer_bytes) + self.sizes.input_bytes
        if need > free:
            raise Refusal(
                "out_of_memory",
                f"A context window of {n_ctx:,} tokens needs {bytes_words(need)}, but only "
                f"{bytes_words(free)} are free. Choose a smaller context window or cache type.",
            )

    def _host_holds(self, n_ctx: int) -> bool:
        """Whether the host's share of weights, cache and buffers fits in three quarters of it."""
        counts = self._most_layers(n_ctx)
        first_on_device = self.sizes.n_layer + 1 - sum(counts)
        need = self.sizes.input_bytes + self._compute(n_ctx)
        need += sum(self._layer_need(layer, n_ctx) for layer in range(first_on_device))
        need += sum(self.sizes.experts_of(layer) for layer in range(self.experts_on_host))
        return need <= self.host_free_bytes * 3 // 4

    def _host_holds_cache(self, n_ctx: int) -> bool:
        return self.sizes.kv_bytes(n_ctx) + self._compute(n_ctx) <= self.host_free_bytes // 2

    # --- words ----------------------------------------------------------------------------

    def _layers_note(self, counts: tuple[int, ...]) -> str:
        everything = self.sizes.n_layer + 1
        placed = sum(counts)
        used = [
            f"{count} on {device.description or device.name}"
            for device, count in zip(self.devices, counts, strict=True)
            if count
        ]
        verb = "is" if placed == 1 else "are"
        if not self.devices:
            return "All layers run on the CPU: no GPU is available."
        if not placed:
            return "All layers run on the CPU: not even one fits on the GPU."
        if placed == everything:
            return f"All {everything} layers run on the GPU: {', '.join(used)}."
        return (
            f"{placed} of {everything} layers {verb} on the GPU ({', '.join(used)}); the rest run "
            "on the CPU."
        )

    def _experts_note(self, counts: tuple[int, ...]) -> tuple[str, ...]:
        """Said where it makes a difference: some layer on a device has experts in host memory."""
        first = self.sizes.n_layer + 1 - sum(counts)
        if first >= self.experts_on_host:
            return ()
        moved = sum(self.sizes.experts_of(i) for i in range(first, self.experts_on_host))
        note = (
            f"The experts of the first {self.experts_on_host} layers stay on the CPU, which saves "
            f"{bytes_words(moved)} of GPU memory."
        )
        return (note,)


def _shares(count: int, weights: Sequence[float]) -> tuple[int, ...]:
    """Split `count` in proportion to `weights` (largest remainders); all to the first if all 0.

    >>> _shares(10, [3, 1])
    (8, 2)
    """
    if not weights:
        return ()
    total = sum(weights)
    if total == 0:
        return (count, *(0 for _ in weights[1:]))
    exact = [count * weight / total for weight in weights]
    parts = [int(share) for share in exact]
    order = sorted(range(len(parts)), key=lambda i: (parts[i] - exact[i], i))
    for index in order[: count - sum(parts)]:
        parts[index] += 1
    return tuple(parts)


def _notes_on_wish(wanted: int, rounded: int, sizes: WeightSizes) -> tuple[str, ...]:
    """What to know of a context that was asked for."""
    notes = []
    if rounded != wanted:
        notes.append(
            f"Context window: {rounded:,} tokens instead of {wanted:,}, rounded to a multiple of "
            f"{CONTEXT_STEP}."
        )
    if rounded > round_up_context(sizes.n_ctx_train):
        notes.append(
            f"The model was trained for {sizes.n_ctx_train:,} tokens; beyond that, replies may "
            "become incoherent. RoPE scaling can extend the window."
        )
    return tuple(notes)


def _context_note(chosen: int, longest: int, sizes: WeightSizes) -> str:
    """Say which context was taken, and why not more."""
    trained = f"the model was trained for {sizes.n_ctx_train:,}"
    if chosen < longest:
        return f"Context window: {chosen:,} tokens, the most that fits in free memory; {trained}."
    if longest < sizes.n_ctx_train:
        per_thousand = bytes_words(sizes.kv_bytes(1000))
        return (
            f"Context window: {chosen:,} tokens; {trained}. You can set more, at {per_thousand} "
            "per 1,000 tokens."
        )
    return f"Context window: {chosen:,} tokens, the model's maximum."


# --- graphics devices that this build cannot use --------------------------------------------------

_REBUILD: Final = (
    'CMAKE_ARGS="{flag}" pip install --force-reinstall --no-cache-dir '
    "--no-binary llama-cpp-python llama-cpp-python=={version}"
)
_FLAGS: Final = {
    "nvidia": "-DGGML_CUDA=on",
    "amd": "-DGGML_VULKAN=on",
    "intel": "-DGGML_VULKAN=on",
    "apple": "-DGGML_METAL=on",
}
_MAKERS: Final = {"nvidia": "An NVIDIA", "amd": "An AMD", "intel": "An Intel", "apple": "An Apple"}
_PCI_VENDORS: Final = {"0x10de": "nvidia", "0x1002": "amd", "0x8086": "intel"}


@dataclass(frozen=True, slots=True)
class GraphicsEvidence:
    """What the operating system shows of graphics devices, whatever this build can do."""

    nvidia_driver: bool = False
    drm_vendors: tuple[str, ...] = ()
    apple_silicon: bool = False

    def makers(self) -> list[str]:
        """Makers by how much they help, best first; virtual displays are no graphics devices."""
        found = {_PCI_VENDORS[v] for v in self.drm_vendors if v in _PCI_VENDORS}
        if self.nvidia_driver:
            found.add("nvidia")
        if self.apple_silicon:
            found.add("apple")
        return [maker for maker in _FLAGS if maker in found]


def unused_graphics_note(
    evidence: GraphicsEvidence, *, can_offload: bool, version: str
) -> str | None:
    """Name a graphics device that this build of llama.cpp cannot use, and the cure; or None."""
    makers = evidence.makers()
    if can_offload or not makers:
        return None
    command = _REBUILD.format(flag=_FLAGS[makers[0]], version=version)
    return (
        f"{_MAKERS[makers[0]]} GPU was found, but this build of llama.cpp can't use it. To build "
        f"one that can: {command}"
    )
