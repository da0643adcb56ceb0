"""Whether weights fit into the memory that is free, in words, and which settings would make them.

Pure arithmetic on what a header says and on what each device says is free; nothing here imports
llama.cpp. It plans as the engine will (`load_plan.py`), counts what that takes (`estimate.py`), and
holds it against each device. What must hold: a verdict is about a load that the engine would do,
and every suggestion was tried in the same way.

What is needed is a little less than what llama.cpp reports: a matrix that the processor keeps in
another order counts there twice, but nobody reads its first place in the mapped file any more, so
the system takes that memory back when it is short. Which tensor types that is, only llama.cpp
knows: the engine's Hello tells it. What is loaded now counts as free, because it makes way. An
`Outline` is all that is kept of a header: some kilobytes, judged anew in 0.1 to 3 ms.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Final

import msgspec

from app.amounts import bytes_words
from app.engine.planning.estimate import HOST, looking_bytes
from app.engine.planning.load_plan import LoadPlan, Machine, check_wish, estimate_of, plan_on
from app.engine.planning.placement import CONTEXT_CAP, CONTEXT_STEP, DeviceMemory, round_up_context
from app.engine.planning.projector_plan import (
    PROJECTOR,
    ProjectorSizes,
    left_beside,
    projector_parts,
)
from app.engine.planning.sizes import MIB, PLAIN_TYPES, Outline, outline_of
from app.engine.protocol.loading_messages import LoadOptions, MemoryPart
from app.gguf.header import Header
from app.refusal import Refusal

GRAPHICS: Final = ("gpu", "igpu")
SMALLER_CACHE: Final = "q8_0"
"""Half of f16; with it the scores of replies move less than with any smaller type."""

HOST_LABEL: Final = "main memory"
CACHE_WORDS: Final = f"the KV cache in {SMALLER_CACHE}"
LEAST_CONTEXT: Final = 512
"""With fewer tokens nobody can chat, so such a context is not suggested."""

_NICE_STEP: Final = 1024
_ROUGH_SHARE: Final = 0.1
_ROUGH_BYTES: Final = 512 * MIB


class Verdict(StrEnum):
    FITS = "fits"
    FITS_LESS = "fits with less"
    FITS_NOT = "does not fit"


@dataclass(frozen=True, slots=True)
class Suggestion:
    """Settings that fit. `words`: what they change, short; `why`: a sentence."""

    words: str
    why: str
    options: LoadOptions


@dataclass(frozen=True, slots=True)
class DeviceNeed:
    """One device. `free_bytes` has `returning_bytes` in it: what the weights that are loaded now
    give back. `label` is what people call the device; `parts` are as llama.cpp counts them.
    `is_shared`: its memory is the host's."""

    name: str
    label: str
    description: str
    need_bytes: int
    free_bytes: int
    total_bytes: int
    returning_bytes: int
    parts: tuple[MemoryPart, ...]
    fits: bool
    is_shared: bool = False


@dataclass(frozen=True, slots=True)
class Fit:
    """How weights fit. `words` is a short label, `why` a sentence or two.

    `parts`: what a load takes, as llama.cpp counts it. `need_bytes` of `free_bytes` must be free
    on all devices together. `n_ctx`, `n_gpu_layers`: of the load that was judged (of `n_layers`,
    the output among them); `n_ctx_train`: tokens that the weights were trained for.
    """

    verdict: Verdict
    words: str
    why: str
    parts: tuple[MemoryPart, ...]
    need_bytes: int
    free_bytes: int
    suggestions: tuple[Suggestion, ...] = ()
    devices: tuple[DeviceNeed, ...] = ()
    n_ctx: int = 0
    n_gpu_layers: int = 0
    n_layers: int = 0
    n_ctx_train: int = 0

    @property
    def is_held(self) -> bool:
        """Whether the load that was wished for has room."""
        return bool(self.devices) and all(need.fits for need in self.devices)

    @property
    def looking_bytes(self) -> int:
        """What looking inside takes beside the load; no part of the verdict."""
        return looking_bytes(self.parts, self.n_ctx, self.n_layers)

    @property
    def can_look(self) -> bool:
        """Whether there is room for that, too."""
        return all(
            need.need_bytes + looking_bytes(need.parts, self.n_ctx, self.n_layers)
            <= need.free_bytes
            for need in self.devices
        )


@dataclass(frozen=True, slots=True)
class Returning:
    """What loaded weights give back when others take their place: `parts` as measured."""

    name: str = ""
    parts: tuple[MemoryPart, ...] = ()

    def by_device(self, devices: Sequence[DeviceMemory]) -> dict[str, int]:
        """Bytes by the name of a device. The pages of a mapped file count as free already; what
        stands on a device that shares the host's memory comes back there, too."""
        host = next((d.name for d in devices if d.kind == "cpu"), HOST)
        shared = {device.name for device in devices if device.kind == "igpu"}
        found: dict[str, int] = {}
        for part in self.parts:
            name = device_of(part.device, devices) or host
            if name == host and part.device.endswith("_Mapped"):
                continue
            for each in {name, host} if name in shared else {name}:
                found[each] = found.get(each, 0) + part.size_bytes
        return found


def device_of(buffer_name: str, devices: Sequence[DeviceMemory]) -> str:
    """The graphics device of a buffer that llama.cpp names ("CUDA0", "MTL0_Mapped"); empty for the
    host's memory ("CPU", "CPU_REPACK", "CUDA_Host")."""
    for device in devices:
        if device.kind != "cpu" and (
            buffer_name == device.name or buffer_name.startswith(f"{device.name}_")
        ):
            return device.name
    return ""


def fit(
    header: Header | Outline,
    options: LoadOptions,
    devices: Sequence[DeviceMemory] | Machine,
    *,
    adapter_bytes: int = 0,
    projector: ProjectorSizes | None = None,
    returning: Returning | None = None,
) -> Fit:
    """Judge a load. `devices` as they are now, the processor among them. `projector`: what is
    loaded with it, or left out where there is room for the weights alone."""
    outline = header if isinstance(header, Outline) else outline_of(header)
    machine = devices if isinstance(devices, Machine) else Machine(tuple(devices))
    returned = (returning or Returning()).by_device(machine.devices)
    machine = replace(
        machine,
        devices=tuple(
            replace(device, free_bytes=device.free_bytes + returned.get(device.name, 0))
            for device in machine.devices
        ),
    )

    def judged(projector: ProjectorSizes | None) -> Fit:
        try:
            chosen = check_wish(outline, options, machine)
            beside = projector_parts(projector, chosen) if projector is not None else []
            left = left_beside(machine, beside)
            chosen = check_wish(outline, options, left)
        except Refusal as refused:
            return _refused(outline, options, machine, refused.sentence)
        judging = _Judging(
            outline, options, machine, left, tuple(chosen), adapter_bytes, tuple(beside), returned
        )
        return judging.judge((returning or Returning()).name)

    both = judged(projector)
    if projector is None or both.is_held:
        return both
    alone = judged(None)
    has_way = alone.is_held or bool(alone.suggestions and not both.suggestions)
    return _without_projector(alone, both, projector) if has_way else both


def _without_projector(alone: Fit, both: Fit, projector: ProjectorSizes) -> Fit:
    """What the load comes to where there is no room for both."""
    size = bytes_words(projector.size_bytes)
    why = (
        f"{alone.why} There is no room for its projector (up to {size}), so it's loaded without "
        "one and can't take pictures or sounds."
    )
    if both.suggestions:
        why += f" Both fit with {both.suggestions[0].words}."
    return replace(
        alone,
        verdict=Verdict.FITS_LESS,
        words=f"{alone.words}{',' * (alone.verdict != Verdict.FITS)} without its projector",
        why=why,
        suggestions=both.suggestions or alone.suggestions,
    )


def _refused(outline: Outline, options: LoadOptions, machine: Machine, sentence: str) -> Fit:
    """Settings that this file or this machine does not take; the usual ones where they would."""
    usual = LoadOptions(n_ctx=options.n_ctx, n_threads=options.n_threads)
    suggestions: tuple[Suggestion, ...] = ()
    try:
        check_wish(outline, usual, machine)
    except Refusal:
        pass
    else:
        suggestions = (Suggestion("the default settings", "These settings fit.", usual),)
    words = "does not load with these settings"
    return Fit(Verdict.FITS_NOT, words, sentence, (), 0, machine.host.free_bytes, suggestions)


@dataclass(frozen=True, slots=True)
class _Try:
    """One load, planned and counted."""

    options: LoadOptions
    planned: LoadPlan
    needs: tuple[DeviceNeed, ...]

    @property
    def is_held(self) -> bool:
        return all(need.fits for need in self.needs)

    @property
    def n_ctx(self) -> int:
        return self.planned.placement.n_ctx

    @property
    def n_gpu_layers(self) -> int:
        return self.planned.placement.n_gpu_layers

    @property
    def parts(self) -> tuple[MemoryPart, ...]:
        return tuple(part for need in self.needs for part in need.parts)


@dataclass(frozen=True, slots=True)
class _Judging:
    """`left`: the machine without what stands `beside` the weights; `devices` are its."""

    outline: Outline
    options: LoadOptions
    machine: Machine
    left: Machine
    devices: tuple[DeviceMemory, ...]
    adapter_bytes: int
    beside: tuple[MemoryPart, ...]
    returned: dict[str, int]

    @property
    def everything(self) -> int:
        return self.outline.n_layer + 1

    @property
    def can_deal(self) -> bool:
        """Whether the engine chooses how many layers go to graphics devices."""
        options = self.options
        return bool(self.devices) and options.n_gpu_layers is None and not options.tensor_split

    def judge(self, giver: str) -> Fit:
        wished = self.try_with()
        assert wished is not None  # `check_wish` passed
        less = self.less_words(wished) if wished.is_held else []
        if wished.is_held:
            verdict = Verdict.FITS_LESS if less else Verdict.FITS
            words = f"fits {' and '.join(less)}" if less else "fits"
            suggestions = self.more_layers(wished) if less else ()
        else:
            suggestions = self.what_fits(wished)
            verdict = Verdict.FITS_LESS if suggestions else Verdict.FITS_NOT
            words = f"fits with {suggestions[0].words}" if suggestions else "does not fit"
        return Fit(
            verdict=verdict,
            words=words,
            why=self.why(wished, less, suggestions, giver),
            parts=wished.parts,
            need_bytes=sum(need.need_bytes for need in wished.needs),
            free_bytes=self.free_bytes(),
            suggestions=suggestions,
            devices=wished.needs,
            n_ctx=wished.n_ctx,
            n_gpu_layers=wished.n_gpu_layers,
            n_layers=self.everything,
            n_ctx_train=wished.planned.sizes.n_ctx_train,
        )

    # --- one load -------------------------------------------------------------------------------

    def try_with(self, **changed: Any) -> _Try | None:
        """The load with some options changed; None where they cannot be."""
        options = msgspec.structs.replace(self.options, **changed)
        try:
            if "type_k" in changed:
                check_wish(self.outline, options, self.left)
            planned = plan_on(
                self.outline,
                options,
                self.left,
                self.devices,
                adapter_bytes=self.adapter_bytes,
                must_hold=False,
            )
        except Refusal:
            return None
        return _Try(options, planned, self.needs(planned))

    def needs(self, planned: LoadPlan) -> tuple[DeviceNeed, ...]:
        """By device: the host first, then those that take layers."""
        parts = [*estimate_of(planned), *self.beside]
        host = self.machine.host
        graphics = [device for device in self.machine.devices if device.kind in GRAPHICS]
        shared = sum(_sum(parts, device.name) for device in graphics if device.kind == "igpu")
        own = _sum(parts, HOST) - _kept_twice(planned)
        found = [self.need(host, own, parts, host_budget(host.free_bytes) >= own + shared)]
        for device in graphics:
            size = _sum(parts, device.name)
            found.append(self.need(device, size, parts, device.budget_bytes >= size or not size))
        return tuple(found)

    def need(
        self, device: DeviceMemory, size_bytes: int, parts: list[MemoryPart], fits: bool
    ) -> DeviceNeed:
        name = HOST if device.kind == "cpu" else device.name
        return DeviceNeed(
            name=device.name,
            label=self.label(device),
            description=device.description,
            need_bytes=size_bytes,
            free_bytes=device.free_bytes,
            total_bytes=device.total_bytes,
            returning_bytes=self.returned.get(device.name, 0),
            parts=tuple(part for part in parts if part.device == name),
            fits=fits,
            is_shared=device.kind == "igpu",
        )

    def label(self, device: DeviceMemory) -> str:
        """“GPU 0” for the first graphics device of the machine."""
        graphics = [d.name for d in self.machine.devices if d.kind in GRAPHICS]
        return f"GPU {graphics.index(device.name)}" if device.name in graphics else HOST_LABEL

    # --- settings that fit ----------------------------------------------------------------------

    def what_fits(self, wished: _Try) -> tuple[Suggestion, ...]:
        """Where the wish does not fit: what of it would, the least change first."""
        dealt: dict[str, Any] = {"n_gpu_layers": None, "tensor_split": None}
        below = min(wished.n_ctx, _reach(wished) + 1)
        found = []
        if self.devices and not self.can_deal:
            found.append(self.suggest_layers(self.try_with(**dealt)))
        for changed in ({}, dealt):
            small = {**changed, **self.smaller_cache()}
            found.append(self.suggest_cache(wished, self.try_with(**small)))
            found.append(self.suggest_context(self.longest(below, changed)))
            if not any(found):
                found.append(self.suggest_context(self.longest(below, small)))
            if any(found) or self.can_deal or not self.devices:
                break
        return tuple(suggestion for suggestion in found if suggestion is not None)

    def more_layers(self, wished: _Try) -> tuple[Suggestion, ...]:
        """Where it fits with less than it could be: that said in settings, and what would bring
        more layers onto graphics devices."""
        pinned = msgspec.structs.replace(wished.options, n_ctx=wished.n_ctx)
        if self.can_deal:
            pinned = msgspec.structs.replace(pinned, n_gpu_layers=wished.n_gpu_layers)
        words = " and ".join(self.less_words(wished, is_said=False))
        found = [Suggestion(words, "This is what fits in free memory.", pinned)]
        if self.can_deal and wished.n_gpu_layers < self.everything:
            found += self.suggest_experts(wished)
            small = self.try_with(**self.smaller_cache(), n_ctx=wished.n_ctx)
            if small is not None and small.is_held and small.n_gpu_layers > wished.n_gpu_layers:
                gained = small.n_gpu_layers - wished.n_gpu_layers
                why = (
                    f"Keys and values in {SMALLER_CACHE} take about half, which leaves room for "
                    f"{gained} more {'layer' if gained == 1 else 'layers'} on the GPU."
                )
                options = msgspec.structs.replace(small.options, n_gpu_layers=None)
                found.append(Suggestion(CACHE_WORDS, why, options))
        return tuple(found)

    def suggest_experts(self, wished: _Try) -> list[Suggestion]:
        """Experts are most of the bytes and little of the work: with those of the first layers in
        host memory all layers may find room. As few as will do."""
        low, high, found = wished.planned.placement.cpu_moe_layers + 1, self.outline.n_layer, None
        while any(self.outline.expert_bytes) and low <= high:
            middle = (low + high) // 2
            tried = self.try_with(cpu_moe_layers=middle, n_ctx=wished.n_ctx)
            if tried is not None and tried.is_held and tried.n_gpu_layers == self.everything:
                found, high = tried, middle - 1
            else:
                low = middle + 1
        if found is None:
            return []
        count = found.planned.placement.cpu_moe_layers
        where = "all" if count == self.outline.n_layer else f"{count} of {self.outline.n_layer}"
        why = (
            "Everything else then runs on the GPU, which is faster than keeping whole layers on "
            "the CPU."
        )
        return [Suggestion(f"the experts of {where} layers in {HOST_LABEL}", why, found.options)]

    def smaller_cache(self) -> dict[str, Any]:
        return {"type_k": SMALLER_CACHE, "type_v": SMALLER_CACHE, "flash_attention": "auto"}

    def suggest_layers(self, tried: _Try | None) -> Suggestion | None:
        if tried is None or not tried.is_held:
            return None
        why = "This many layers fit in the free memory of the GPUs."
        options = msgspec.structs.replace(tried.options, n_gpu_layers=tried.n_gpu_layers)
        words = self.layers_words(tried)
        said = self.try_with(tensor_split=None, n_gpu_layers=tried.n_gpu_layers)
        if said is None or not said.is_held:
            # With layers that are said the automatic context is another one.
            options = msgspec.structs.replace(options, n_ctx=tried.n_ctx)
            words += f" and {tried.n_ctx:,} tokens of context"
        return Suggestion(words, why, options)

    def suggest_cache(self, wished: _Try, tried: _Try | None) -> Suggestion | None:
        is_plain = self.options.type_k in PLAIN_TYPES and self.options.type_v in PLAIN_TYPES
        if tried is None or not tried.is_held or not is_plain:
            return None
        saved = _sum_of(wished.parts, "kv") - _sum_of(tried.parts, "kv")
        why = (
            f"Keys and values in {SMALLER_CACHE} take {bytes_words(saved)} less for the same "
            f"{tried.n_ctx:,} tokens; replies change little.{_beyond(tried)}"
        )
        return Suggestion(f"{CACHE_WORDS}{self.and_layers(tried)}", why, tried.options)

    def suggest_context(self, tried: _Try | None) -> Suggestion | None:
        if tried is None:
            return None
        per_thousand = bytes_words(tried.planned.sizes.kv_bytes(1000))
        why = (
            f"Each 1,000 tokens of context take {per_thousand}; with {tried.n_ctx:,}, everything "
            "fits in free memory."
        )
        words = f"{tried.n_ctx:,} tokens of context"
        if tried.options.type_k != self.options.type_k:
            words += f" and {CACHE_WORDS}"
        return Suggestion(words + self.and_layers(tried), why, tried.options)

    def and_layers(self, tried: _Try) -> str:
        """Said where the engine will put fewer than all layers onto graphics devices."""
        if not self.devices or tried.n_gpu_layers == self.everything:
            return ""
        is_asked = tried.options.n_gpu_layers is not None or tried.options.tensor_split
        return "" if is_asked else f" and {self.layers_words(tried)}"

    def longest(self, below: int, changed: dict[str, Any]) -> _Try | None:
        """The longest context, shorter than `below`, that fits; a round number if it is long."""
        low, high, found = LEAST_CONTEXT // CONTEXT_STEP, (below - 1) // CONTEXT_STEP, None
        while low <= high:
            middle = (low + high) // 2
            tried = self.try_with(**changed, n_ctx=middle * CONTEXT_STEP)
            if tried is not None and tried.is_held:
                found, low = tried, middle + 1
            else:
                high = middle - 1
        if found is not None and found.n_ctx > 2 * _NICE_STEP and found.n_ctx % _NICE_STEP:
            rounded = found.n_ctx // _NICE_STEP * _NICE_STEP
            found = self.try_with(**changed, n_ctx=rounded) or found
        return found

    # --- words ----------------------------------------------------------------------------------

    def less_words(self, tried: _Try, *, is_said: bool = True) -> list[str]:
        """What is less than it could be in a load that fits; empty: nothing. `is_said`: as it
        follows “fits”, else “fits with”."""
        before = "with " if is_said else ""
        found = []
        if self.can_deal and tried.n_gpu_layers < self.everything:
            found.append(self.layers_words(tried, before))
        if self.options.n_ctx is None:
            trained = tried.planned.sizes.n_ctx_train
            if tried.n_ctx < min(CONTEXT_CAP, round_up_context(trained)):
                found.append(f"{'' if found else before}{tried.n_ctx:,} tokens of context")
        return found

    def layers_words(self, tried: _Try, before: str = "") -> str:
        counts = tried.planned.placement.layers_by_device
        used = [
            self.label(device) for device, count in zip(self.devices, counts, strict=True) if count
        ]
        if not used:
            return "on the CPU only" if before else "all layers on the CPU"
        where = used[0] if len(used) == 1 else f"{len(used)} GPUs"
        return f"{before}{tried.n_gpu_layers} of {self.everything} layers on {where}"

    def why(
        self, tried: _Try, less: Sequence[str], suggestions: Sequence[Suggestion], giver: str
    ) -> str:
        """What it takes, what is free, and what follows from the two."""
        sizes = {what: _sum_of(tried.parts, what) for what in ("weights", "kv", "compute")}
        weights = sizes["weights"] + _sum_of(tried.parts, "adapter") - _kept_twice(tried.planned)
        need = bytes_words(sum(need.need_bytes for need in tried.needs))
        takes = (
            f"With {tried.n_ctx:,} tokens of context it takes {need}: weights "
            f"{bytes_words(weights)}, KV cache {bytes_words(sizes['kv'])}, compute buffers up to "
            f"{bytes_words(sizes['compute'])}{self.beside_words()}."
        )
        sentences = [takes, f"{self.free_words(tried)}{_given_back(tried, giver)}."]
        short = [need for need in tried.needs if not need.fits]
        if short and all(need.need_bytes <= need.free_bytes for need in short):
            sentences.append("Some of it is reserved for the system and other programs.")
        if not tried.is_held:
            sentences.append(
                f"It fits with {suggestions[0].words}." if suggestions else self.way_out(tried)
            )
        elif self.can_deal and tried.n_gpu_layers < self.everything:
            others = "The other" if tried.n_gpu_layers else "All"
            sentences.append(f"{others} layers run on the CPU, which is slower.")
        elif less:
            sentences.append(
                "A longer context window would leave too little memory for other programs."
            )
        return " ".join(sentences) + _beyond(tried)

    def beside_words(self) -> str:
        size = _sum_of(self.beside, PROJECTOR)
        return f", the projector up to {bytes_words(size)}" if size else ""

    def free_words(self, tried: _Try) -> str:
        host, *others = tried.needs
        free = [f"{bytes_words(need.free_bytes)} are free on {need.label}" for need in others]
        return ", ".join([*free, f"{bytes_words(host.free_bytes)} are free in {HOST_LABEL}"])

    def way_out(self, tried: _Try) -> str:
        host = tried.needs[0]
        apart = sum(p.size_bytes for p in host.parts if p.what in ("kv", "compute"))
        if self.options.use_mmap and apart <= host.free_bytes // 2:
            return (
                "It could run from disk, but many times slower. Choose a smaller file or "
                "quantisation."
            )
        return "Close other programs, or choose a smaller file or quantisation."

    def free_bytes(self) -> int:
        """On all devices together; what a device shares with the host counts once."""
        used = {device.name for device in self.devices if device.kind != "igpu"}
        own = (each.free_bytes for each in self.machine.devices if each.name in used)
        return self.machine.host.free_bytes + sum(own)


def _reach(tried: _Try) -> int:
    """Tokens of the longest context with which replies keep their sense."""
    return round_up_context(tried.planned.sizes.n_ctx_train)


def _beyond(tried: _Try) -> str:
    if tried.n_ctx <= _reach(tried):
        return ""
    trained = tried.planned.sizes.n_ctx_train
    return (
        f" The model was trained for {trained:,} tokens; beyond that, replies may become "
        "incoherent."
    )


def _given_back(tried: _Try, giver: str) -> str:
    returned = sum(need.returning_bytes for need in tried.needs if not need.is_shared)
    return f", including {bytes_words(returned)} freed by unloading “{giver}”" if returned else ""


def host_budget(free_bytes: int) -> int:
    """What may be taken of the host's free memory: an eighth stays with the system and other
    programs, at least 256 MiB and at most 1 GiB."""
    return max(free_bytes - min(max(free_bytes // 8, 256 * MIB), 1024 * MIB), 0)


def _sum(parts: Iterable[MemoryPart], device: str) -> int:
    return sum(part.size_bytes for part in parts if part.device == device)


def _sum_of(parts: Iterable[MemoryPart], what: str) -> int:
    return sum(part.size_bytes for part in parts if part.what == what)


def _kept_twice(planned: LoadPlan) -> int:
    """Bytes of the mapped file that stand in memory in another order, too."""
    sizes, on_host = planned.sizes, planned.sizes.n_layer + 1 - planned.placement.n_gpu_layers
    return sum(sizes.repacked_of(layer) for layer in range(on_host))


def rough_fit(size_bytes: int, devices: Sequence[DeviceMemory]) -> Fit:
    """By the size of the file (all parts) alone, before its header is known.

    To the weights come a tenth of them and half a GiB for cache and buffers: what 7 to 70
    billion weights take with a few thousand tokens of context.
    """
    need = size_bytes + int(size_bytes * _ROUGH_SHARE) + _ROUGH_BYTES
    machine = Machine(tuple(devices))
    own = sum(device.budget_bytes for device in devices if device.kind == "gpu")
    in_host = host_budget(machine.host.free_bytes)
    free = sum(device.free_bytes for device in devices if device.kind in ("cpu", "gpu"))
    if need <= (own or in_host):
        verdict, words = Verdict.FITS, "probably fits"
    elif own and need <= own + in_host:
        verdict, words = Verdict.FITS_LESS, "probably fits partly on the GPU"
    else:
        verdict, words = Verdict.FITS_NOT, "probably does not fit"
    why = (
        f"Rough estimate from its size: about {bytes_words(need)} needed, {bytes_words(free)} "
        "free. Reading the header gives more detail."
    )
    return Fit(verdict, words, why, (), need, free)
