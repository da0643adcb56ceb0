"""Loads weights, or refuses them with a sentence; says how they now stand in memory.

Whatever can be known without native code is checked before it runs: the file itself (see
`app/gguf/header.py`), the options, and what fits (`placement.py`). What llama.cpp reports while
loading is measured and goes into `protocol.Loaded`.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

import msgspec

from app.engine.planning.draft_plan import as_draft, plan_beside_draft
from app.engine.planning.estimate import HOST
from app.engine.planning.load_checks import (
    check_options,
)
from app.engine.planning.load_plan import LoadPlan, Machine, check_wish, estimate_of, plan_load
from app.engine.planning.placement import unused_graphics_note
from app.engine.planning.projector_plan import (
    PROJECTOR,
    left_beside,
    projector_parts,
    projector_sizes,
)
from app.engine.planning.sizes import cache_layers, outline_of
from app.engine.process.native import native
from app.engine.process.native.adapters import NO_ADAPTERS, AdapterFiles, AdapterSet, is_on
from app.engine.process.native.logparse import (
    LoadReport,
    last_error,
    names_lack_of_memory,
    names_missing_tensor,
    names_unknown_architecture,
    names_unknown_tokeniser,
    read_load,
)
from app.engine.process.native.native import GGML_TYPES, AbortFlag, NativeLog, llama
from app.engine.process.native.projector import Positions, Projector, Vectors, load_projector
from app.engine.process.native.vocabulary import Vocabulary
from app.engine.protocol.adapter_messages import Adapters
from app.engine.protocol.cache_messages import CacheShape
from app.engine.protocol.loading_messages import Loaded, LoadOptions, MemoryPart, RopeScaling
from app.engine.protocol.media_messages import ProjectorOffer
from app.gguf.fingerprint import fast_hash
from app.gguf.header import Header, read_header
from app.gguf.local.split_names import part_names, split_name
from app.gguf.token_check import read_for_load
from app.refusal import Refusal

FlashAttention = Literal["auto", "on", "off"]

MAX_OUTPUTS: Final = 16
"""Batch rows that may ask for scores at once; the compute buffer holds room for them."""

_PROGRESS_EVERY_S: Final = 0.03

_LOAD_MODES: Final = {(False, False): 0, (True, False): 1, (False, True): 2, (True, True): 3}
_FLASH: Final = {"auto": -1, "off": 0, "on": 1}
_SPLIT_MODES: Final = {"none": 0, "layer": 1, "row": 2}
_ROPE_KINDS: Final = {"file": -1, "none": 0, "linear": 1, "yarn": 2, "longrope": 3}


class LoadCancelled(Exception):  # noqa: N818
    """The user stopped the load; nothing is left of it."""


class Weights:
    """Loaded weights and their one context for generating. `close` frees both."""

    def __init__(
        self,
        model: Any,
        context: Any,
        loaded: Loaded,
        abort: AbortFlag,
        open_context: Callable[[int, int, Any, FlashAttention | None], Any] | None = None,
        log: NativeLog | None = None,
        adapters: AdapterFiles | None = None,
    ) -> None:
        """`open_context(n_ctx, n_slots, watch, flash_attention)`: another one like `context`, or
        nothing. `log`: where llama.cpp says what it takes. `adapters`: those for these weights;
        the usual ones are in force."""
        self.model = model
        self.context = context
        self.loaded = loaded
        self.abort = abort
        self._open_context = open_context
        self._log = log
        self._adapters = adapters
        self._in_force = self.usual_adapters.key
        self.vocabulary = Vocabulary(llama.llama_model_get_vocab(model))
        self.vocabulary.eog_ids = loaded.eog_ids  # found once, or the first reply would wait
        self.n_ctx = loaded.n_ctx
        self.n_ubatch = loaded.n_ubatch
        self.n_slots = loaded.n_slots
        self.n_threads = loaded.n_threads
        self.draft: Weights | None = None
        """Smaller ones with the same vocabulary, which draft for these."""
        self.no_draft = ""
        """Why there are none where some were wished for."""
        self.projector: Projector | None = None
        """What lets them see or hear."""

    @property
    def chat_template(self) -> str | None:
        """The file's own template, as Jinja source."""
        text: bytes | None = llama.llama_model_chat_template(self.model, None)
        return None if text is None else text.decode("utf-8", "replace")

    def named_template(self, name: str) -> str | None:
        """One of the file's further templates (`tokenizer.chat_template.NAME`)."""
        text: bytes | None = llama.llama_model_chat_template(self.model, name.encode())
        return None if text is None else text.decode("utf-8", "replace")

    @property
    def memory(self) -> Any:
        return llama.llama_get_memory(self.context)

    @property
    def n_layer(self) -> int:
        return self.loaded.n_layer

    @property
    def n_embd(self) -> int:
        return self.loaded.n_embd

    # --- adapters -----------------------------------------------------------------------------

    @property
    def usual_adapters(self) -> AdapterSet:
        """What the weights were loaded with."""
        return self._adapters.usual if self._adapters is not None else NO_ADAPTERS

    def check_adapters(self, wanted: Adapters | None) -> None:
        """Read and check their files; from any thread. Raises Refusal."""
        if wanted is not None and self._adapters is not None:
            self._adapters.check(wanted)

    def adapter_set(self, wanted: Adapters | None) -> AdapterSet:
        """What these come to, loaded; None: the usual ones. Raises Refusal."""
        return self._adapters.set_of(wanted) if self._adapters is not None else NO_ADAPTERS

    def adapters_by_key(self, key: str) -> AdapterSet:
        """Those that cells were computed with."""
        return self._adapters.by_key(key) if self._adapters is not None else NO_ADAPTERS

    def use(self, adapters: AdapterSet) -> None:
        """Compute with these from the next decode on. Raises Refusal."""
        if adapters.key != self._in_force:
            self._in_force = ""
            adapters.apply(self.context)
            self._in_force = adapters.key

    # --- contexts -----------------------------------------------------------------------------

    def open_beside(
        self,
        n_ctx: int,
        *,
        n_slots: int = 1,
        watch: Any = None,
        adapters: AdapterSet | None = None,
    ) -> Any:
        """Another context on these weights, for `n_slots` sequences of `n_ctx` tokens together, as
        this one in all else; whoever asks frees it. `watch`: an evaluation callback, kept alive by
        the caller. `adapters`: what it computes with (None: the usual ones). A false value where
        there is no room for it."""
        context = None
        if self._open_context is not None:
            context = self._open_context(n_ctx, n_slots, watch, None)
        if context:
            (self.usual_adapters if adapters is None else adapters).apply(context)
            llama.llama_set_n_threads(context, self.n_threads, self.n_threads)
        return context

    def decode(self, batch: Any) -> int:
        """Compute a llama_batch; llama.cpp's code, 0 where it has."""
        return int(llama.llama_decode(self.context, batch))

    def decode_vectors(
        self, vectors: Vectors, positions: Positions, sequence: int, *, is_causal: bool
    ) -> int:
        """Compute cells of a picture. Where it `is_causal` none sees those behind it."""
        batch = native.vector_batch(vectors, positions, sequence)
        if not is_causal:
            llama.llama_set_causal_attn(self.context, False)
        try:
            return int(llama.llama_decode(self.context, batch))
        finally:
            if not is_causal:
                llama.llama_set_causal_attn(self.context, True)

    def open_measured(self, n_ctx: int, *, flash_attention: bool) -> tuple[Any, LoadReport]:
        """The same with flash attention or without, and what llama.cpp's log said as it was made:
        its sizes, and whether it has it."""
        if self._open_context is None or self._log is None:
            return None, LoadReport()
        with self._log.recording() as lines:
            context = self._open_context(n_ctx, 1, None, "on" if flash_attention else "off")
        if context:
            self.usual_adapters.apply(context)
            llama.llama_set_n_threads(context, self.n_threads, self.n_threads)
        return context, read_load(lines)

    def set_threads(self, n_threads: int) -> None:
        """Takes effect with the next step."""
        llama.llama_set_n_threads(self.context, n_threads, n_threads)
        self.n_threads = n_threads

    def close(self) -> None:
        if self.draft is not None:
            self.draft.close()
            self.draft = None
        if self.projector is not None:
            self.projector.close()
            self.projector = None
        if self.context is not None:
            llama.llama_free(self.context)
            llama.llama_model_free(self.model)
        self.context = self.model = None


def load(
    path: str,
    options: LoadOptions,
    *,
    log: NativeLog,
    on_progress: Callable[[int, int], None],
    is_cancelled: Callable[[], bool],
    on_planned: Callable[[Sequence[MemoryPart]], object] = lambda parts: None,
    on_draft: Callable[[], object] = lambda: None,
    projector: str = "",
    on_projector: Callable[[], object] = lambda: None,
) -> Weights:
    """Load the file at `path`. Raises Refusal or LoadCancelled.

    `on_progress(done, total)` counts bytes and is called on this thread, as `on_planned` is before
    native code sees the file, with what the load will take, and `on_draft` before it sees that of a
    draft model, `on_projector` that of the `projector`.
    """
    kept = _kept_for(projector, path, options)
    try:
        weights = _load(path, options, log, on_progress, is_cancelled, on_planned, on_draft, kept)
    except Refusal as refused:
        if not kept or refused.kind != "out_of_memory":
            raise
        # Better no pictures than no model.
        weights = _load(path, options, log, on_progress, is_cancelled, on_planned, on_draft, [])
        offer = ProjectorOffer(projector, why=_NO_ROOM)
        weights.loaded = _with_projector(weights.loaded, offer, [], 0)
        return weights
    if not projector:
        return weights
    try:
        on_projector()
        device = next((part.device for part in kept if part.device != HOST), "")
        weights.projector, offer, computed = load_projector(
            projector, weights.model, weights.loaded, log, device
        )
        if is_cancelled():
            raise LoadCancelled
    except BaseException:
        weights.close()
        raise
    weights.loaded = _with_projector(weights.loaded, offer, kept, computed)
    return weights


_NO_ROOM: Final = (
    "There is too little memory for it beside the model. Use a shorter context or a smaller "
    "quantisation, and load the model again."
)


def _kept_for(projector: str, path: str, options: LoadOptions) -> list[MemoryPart]:
    """What is kept free for a projector. Of one that can't be read, loading it says why."""
    if not projector:
        return []
    try:
        sizes = projector_sizes(read_header(projector))
        devices = check_wish(outline_of(read_header(path)), options, native.machine())
    except Refusal:
        return []
    return projector_parts(sizes, devices) if sizes is not None else []


def _with_projector(
    loaded: Loaded, offer: ProjectorOffer, kept: Sequence[MemoryPart], computed: int
) -> Loaded:
    """`kept`: what was planned for it; `computed`: bytes of its buffers."""
    if offer.why:
        note = f"The projector can't be used. {offer.why}"
        return msgspec.structs.replace(loaded, projector=offer, notes=[*loaded.notes, note])
    device = kept[0].device if kept else HOST
    part = MemoryPart(device, PROJECTOR, offer.size_bytes + computed)
    return msgspec.structs.replace(
        loaded,
        projector=offer,
        memory=[*loaded.memory, part],
        estimate=[*loaded.estimate, *kept],
    )


def _load(
    path: str,
    options: LoadOptions,
    log: NativeLog,
    on_progress: Callable[[int, int], None],
    is_cancelled: Callable[[], bool],
    on_planned: Callable[[Sequence[MemoryPart]], object],
    on_draft: Callable[[], object],
    kept: Sequence[MemoryPart] = (),
) -> Weights:
    """`kept`: what stays free for others beside them."""
    started = time.perf_counter()
    check_options(options)
    header = read_for_load(path)
    adapters = AdapterFiles(header)
    usual = Adapters(loras=options.loras)
    files = adapters.check(usual)
    adapter_bytes = sum(tensor.size_bytes for file in files for tensor in file.tensors)
    machine = left_beside(native.machine(), kept)
    beside = _plan_draft(header, options, machine, adapter_bytes)
    if beside.plan is None:
        plan_ = plan_load(header, options, machine, adapter_bytes=adapter_bytes)
    else:
        plan_ = beside.plan
    on_planned([*estimate_of(plan_), *beside.parts, *kept])
    with log.recording() as lines:
        model = _load_model(path, header, options, plan_, on_progress, is_cancelled, lines)
        try:
            _refuse_what_cannot_chat(model, header)
            adapters.attach(model, log)
            adapters.usual = adapters.set_of(usual)
            abort = AbortFlag()

            def open_context(
                n_ctx: int,
                n_slots: int,
                watch: Any = None,
                flash_attention: FlashAttention | None = None,
            ) -> Any:
                flash = flash_attention or options.flash_attention
                own = msgspec.structs.replace(options, flash_attention=flash)
                return _new_context(model, own, plan_, abort, n_ctx, n_slots, watch)

            context = open_context(plan_.placement.n_ctx, plan_.n_slots)
            if not context:
                raise _context_failure(plan_, lines)
            adapters.usual.apply(context)
        except BaseException:
            llama.llama_model_free(model)
            raise
        report = read_load(lines)
    named = [
        f"LoRA adapter “{file.name}” is applied with scale {lora.scale:g}."
        for file, lora in zip(files, filter(is_on, options.loras), strict=True)
    ]
    notes = [*plan_.notes, *_notes_after(options, report), *named]
    loaded = _describe(model, context, header, options, report, plan_, notes, started)
    adapters.weights_hash = loaded.fast_hash
    weights = Weights(model, context, loaded, abort, open_context, log, adapters)
    if beside.options is None:
        return _with_draft(weights, None, beside.note, [])
    on_draft()
    try:
        draft = load(
            options.draft,
            beside.options,
            log=log,
            on_progress=lambda done, total: None,
            is_cancelled=is_cancelled,
        )
    except Refusal as refused:
        return _with_draft(weights, None, _NO_DRAFT.format(why=refused.sentence), [])
    except BaseException:
        weights.close()
        raise
    if not _same_vocabulary(weights.vocabulary, draft.vocabulary):
        draft.close()
        return _with_draft(weights, None, _NO_DRAFT.format(why=_OTHER_VOCABULARY), [])
    return _with_draft(weights, draft, "", beside.parts)


_NO_DRAFT: Final = "The draft model can't be used. {why}"
_OTHER_VOCABULARY: Final = "Its vocabulary differs from this model's."
_CANNOT_DRAFT: Final = "It can't drop part of its state, which drafting needs."


@dataclass(frozen=True, slots=True)
class _Beside:
    """What was decided about a draft model: nothing where none is wished for, or a `note` why it
    is left out."""

    plan: LoadPlan | None = None
    options: LoadOptions | None = None
    parts: Sequence[MemoryPart] = ()
    note: str = ""


def _plan_draft(
    header: Header, options: LoadOptions, machine: Machine, adapter_bytes: int
) -> _Beside:
    """A draft model that cannot be had stops no load."""
    if not options.draft:
        return _Beside()
    try:
        draft = read_for_load(options.draft)
        planned = plan_beside_draft(header, draft, options, machine, adapter_bytes=adapter_bytes)
    except Refusal as refused:
        return _Beside(note=_NO_DRAFT.format(why=refused.sentence))
    return _Beside(*planned)


def _same_vocabulary(one: Vocabulary, other: Vocabulary) -> bool:
    """Whether every ID is the same text of the same type, and replies end with the same ones."""
    if one.n_vocab != other.n_vocab or one.eog_ids != other.eog_ids:
        return False
    return one.table() == other.table()


def _with_draft(
    weights: Weights, draft: Weights | None, note: str, planned: Sequence[MemoryPart]
) -> Weights:
    """The weights with what came of their draft model."""
    loaded = weights.loaded
    if draft is not None and (
        llama.llama_model_is_recurrent(draft.model) or llama.llama_model_is_hybrid(draft.model)
    ):
        draft.close()
        draft, note, planned = None, _NO_DRAFT.format(why=_CANNOT_DRAFT), ()
    if note:
        loaded = msgspec.structs.replace(loaded, notes=[*loaded.notes, note])
    if draft is not None:
        loaded = msgspec.structs.replace(
            loaded,
            draft=draft.loaded.name,
            memory=[*loaded.memory, *as_draft(draft.loaded.memory)],
            estimate=[*loaded.estimate, *planned],
        )
    weights.loaded, weights.draft, weights.no_draft = loaded, draft, note
    return weights


# --- before native code ---------------------------------------------------------------------------


def _notes_after(options: LoadOptions, report: LoadReport) -> list[str]:
    notes = _graphics_notes()
    if options.use_mlock and not report.is_locked:
        notes.append(
            "The model couldn't be locked in memory because the system's limit is too low, so it "
            "may be swapped out. Raise the limit (ulimit -l) to keep it in memory."
        )
    return notes


def _graphics_notes() -> list[str]:
    note = unused_graphics_note(
        native.graphics_evidence(), can_offload=native.can_offload(), version=native.VERSION
    )
    return [note] if note else []


# --- native code ----------------------------------------------------------------------------------


def _load_model(
    path: str,
    header: Header,
    options: LoadOptions,
    plan_: LoadPlan,
    on_progress: Callable[[int, int], None],
    is_cancelled: Callable[[], bool],
    lines: list[str],
) -> Any:
    placement = plan_.placement
    params = llama.llama_model_default_params()
    params.n_gpu_layers = placement.n_gpu_layers
    params.load_mode = _LOAD_MODES[options.use_mmap, options.use_mlock]
    params.split_mode = _SPLIT_MODES[options.split_mode]
    params.main_gpu = options.main_device if options.split_mode == "row" else 0
    split = (ctypes.c_float * max(int(llama.llama_max_devices()), 1))()
    for index, share in enumerate(placement.tensor_split()[: len(split)]):
        split[index] = share
    params.tensor_split = split
    # These three must live until the weights are loaded.
    devices = native.device_list(plan_.devices)
    params.devices = ctypes.cast(devices, ctypes.c_void_p)
    overrides = native.experts_on_host(placement.cpu_moe_layers)
    params.tensor_buft_overrides = ctypes.cast(overrides, ctypes.c_void_p)
    reported_at = float("-inf")

    def report(fraction: float, _: object) -> bool:
        # Called by C between tensors. False ends the load; an exception would not.
        nonlocal reported_at
        now = time.perf_counter()
        if now - reported_at >= _PROGRESS_EVERY_S or fraction >= 1.0:
            reported_at = now
            on_progress(int(fraction * header.expected_bytes), header.expected_bytes)
        return not is_cancelled()

    callback = llama.llama_progress_callback(report)
    params.progress_callback = callback
    if is_cancelled():
        raise LoadCancelled
    model = llama.llama_model_load_from_file(str(path).encode("utf-8", "surrogateescape"), params)
    if is_cancelled():
        if model:
            llama.llama_model_free(model)
        raise LoadCancelled
    if not model:
        raise _load_failure(header, last_error(lines))
    return model


def _load_failure(header: Header, evidence: str) -> Refusal:
    """Why llama.cpp gave no model, as far as its log tells."""
    name = header.path.name
    if names_lack_of_memory(evidence):
        return Refusal(
            "out_of_memory",
            f"Not enough free memory for “{name}”. Close other programs or choose a smaller file.",
            evidence,
        )
    architecture = names_unknown_architecture(evidence)
    if architecture is not None:
        return Refusal(
            "unsupported",
            f"“{name}” uses the architecture “{architecture}”, which this version of llama.cpp "
            "doesn't support. Update the engine or choose another file.",
            evidence,
        )
    tokeniser = names_unknown_tokeniser(evidence)
    if tokeniser is not None:
        return Refusal(
            "unsupported",
            f"“{name}” uses the tokeniser “{tokeniser}”, which this version of llama.cpp doesn't "
            "support. Update the engine or choose another file.",
            evidence,
        )
    tensor = names_missing_tensor(evidence)
    if tensor is not None:
        return Refusal(
            "unsupported",
            f"“{name}” lacks the tensor “{tensor}”, which {header.architecture} models need. The "
            "file is damaged or needs a newer engine.",
            evidence,
        )
    return Refusal(
        "native_error",
        f"llama.cpp couldn't load “{name}”. The file may be damaged or need a newer engine. The "
        "engine log has the details.",
        evidence,
    )


def _refuse_what_cannot_chat(model: Any, header: Header) -> None:
    name = header.path.name
    if not llama.llama_model_has_decoder(model):
        raise Refusal(
            "not_a_chat_model",
            f"“{name}” is a model that reads text but doesn't write any. Choose a language model.",
        )
    if llama.llama_model_has_encoder(model) or llama.llama_model_is_diffusion(model):
        raise Refusal(
            "unsupported",
            f"“{name}” doesn't generate token by token (it is an encoder-decoder or diffusion "
            "model), which isn't supported. Choose another language model.",
        )
    vocabulary = llama.llama_model_get_vocab(model)
    # A file without a tokeniser may still claim tokens; asking for one aborts.
    is_none = llama.llama_vocab_type(vocabulary) == llama.LLAMA_VOCAB_TYPE_NONE
    if is_none or llama.llama_vocab_n_tokens(vocabulary) < 1:
        raise Refusal(
            "unsupported",
            f"“{name}” has no vocabulary, so it can't read or write text. Choose a language model.",
        )


def _new_context(
    model: Any,
    options: LoadOptions,
    plan_: LoadPlan,
    abort: AbortFlag,
    n_ctx: int,
    n_slots: int,
    watch: Any = None,
) -> Any:
    threads = options.n_threads or native.physical_cores()
    params = llama.llama_context_default_params()
    params.n_ctx = n_ctx
    n_ubatch = max(plan_.n_ubatch, n_slots)  # llama.cpp aborts where a sequence has no row
    params.n_batch = params.n_ubatch = n_ubatch
    params.n_seq_max = n_slots
    params.n_outputs_max = min(max(MAX_OUTPUTS, n_slots), n_ubatch)
    params.kv_unified = True
    params.n_threads = params.n_threads_batch = threads
    params.flash_attn_type = _FLASH[options.flash_attention]
    params.type_k = GGML_TYPES[options.type_k]
    params.type_v = GGML_TYPES[options.type_v]
    _set_rope(params, options.rope)
    params.abort_callback = abort.callback
    params.abort_callback_data = abort.data
    if watch is not None:
        params.cb_eval = watch
    return llama.llama_init_from_model(model, params)


def _context_failure(plan_: LoadPlan, lines: list[str]) -> Refusal:
    evidence = last_error(lines)
    if names_lack_of_memory(evidence):
        return Refusal(
            "out_of_memory",
            f"Not enough free memory for a context window of {plan_.placement.n_ctx:,} tokens. "
            "Choose a smaller context window or cache type.",
            evidence,
        )
    return Refusal(
        "unsupported",
        "llama.cpp doesn't support this combination of context window, cache types and flash "
        "attention. Restore the default settings. The engine log has the details.",
        evidence,
    )


def _set_rope(params: Any, rope: RopeScaling) -> None:
    params.rope_scaling_type = _ROPE_KINDS[rope.kind]
    params.rope_freq_base = rope.freq_base
    params.rope_freq_scale = rope.freq_scale
    params.yarn_orig_ctx = rope.yarn_orig_ctx
    for name in ("ext_factor", "attn_factor", "beta_fast", "beta_slow"):
        value = getattr(rope, f"yarn_{name}")
        if value is not None:
            setattr(params, f"yarn_{name}", value)


def _size_on_disk(path: Path) -> int:
    """Bytes of the file, or of all files of a set. (llama.cpp's own figure leaves the header out,
    and one file would have two sizes on the screen.)"""
    split = split_name(path.name)
    names = part_names(split) if split is not None else [path.name]
    return sum(path.with_name(name).stat().st_size for name in names)


def _describe(
    model: Any,
    context: Any,
    header: Header,
    options: LoadOptions,
    report: LoadReport,
    plan_: LoadPlan,
    notes: list[str],
    started: float,
) -> Loaded:
    description = ctypes.create_string_buffer(256)
    llama.llama_model_desc(model, description, len(description))
    vocabulary = Vocabulary(llama.llama_model_get_vocab(model))
    n_ctx = int(llama.llama_n_ctx(context))
    per_token = sum(plan_.sizes.kv_bytes_per_token)
    return Loaded(
        path=str(Path(header.path).absolute()),
        name=header.name,
        architecture=header.architecture,
        description=description.value.decode("utf-8", "replace"),
        size_bytes=_size_on_disk(Path(header.path)),
        n_params=int(llama.llama_model_n_params(model)),
        n_layer=int(llama.llama_model_n_layer(model)),
        n_embd=int(llama.llama_model_n_embd(model)),
        n_head=int(llama.llama_model_n_head(model)),
        n_head_kv=int(llama.llama_model_n_head_kv(model)),
        n_vocab=vocabulary.n_vocab,
        n_ctx=n_ctx,
        n_ctx_train=max(int(llama.llama_model_n_ctx_train(model)), 0),  # of 2³² - 1 it says -1
        n_ubatch=int(llama.llama_n_ubatch(context)),
        n_threads=int(llama.llama_n_threads(context)),
        n_gpu_layers=report.offloaded,
        flash_attention=report.flash_attention,
        type_k=options.type_k,
        type_v=options.type_v,
        has_template=llama.llama_model_chat_template(model, None) is not None,
        add_bos=vocabulary.add_bos,
        eog_ids=vocabulary.eog_ids,
        memory=report.memory,
        kv_bytes_per_token=_per_token(report.kv_bytes, n_ctx, per_token),
        load_s=time.perf_counter() - started,
        notes=notes,
        fast_hash=_fast_hash(header),
        estimate=estimate_of(plan_),
        loras=list(options.loras),
        n_slots=int(llama.llama_n_seq_max(context)),
        devices=[
            name
            for name, count in zip(plan_.devices, plan_.placement.layers_by_device, strict=True)
            if count
        ],
        templates=header.template_names,
        cache=_cache_shape(model, header, options, report),
    )


def _cache_shape(
    model: Any, header: Header, options: LoadOptions, report: LoadReport
) -> CacheShape:
    """Which layers look through a window stands in no header; how many do is in the log."""
    window = int(llama.llama_model_n_swa(model))
    has_two = window > 0 and len(report.cache_layers) == 2
    is_state = llama.llama_model_is_recurrent(model) or llama.llama_model_is_hybrid(model)
    return CacheShape(
        cache_layers(header, options.type_k, options.type_v),
        n_window_layers=report.cache_layers[1] if has_two else 0,
        window=window if has_two else 0,
        is_state=bool(is_state),
    )


def _fast_hash(header: Header) -> str:
    try:
        return fast_hash(header)
    except OSError:
        return ""  # gone since it was loaded: nothing can be known again by it


def _per_token(measured_bytes: int, n_ctx: int, by_arithmetic: int) -> int:
    """Bytes of cache per token: measured. The log rounds to 0.01 MiB, so where the arithmetic on
    the header says the same within that, its exact number is taken."""
    rounding = 64 * 0.01 * 1024 * 1024
    if abs(by_arithmetic * n_ctx - measured_bytes) <= rounding:
        return by_arithmetic
    return measured_bytes // n_ctx
