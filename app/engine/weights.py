"""Loads weights, or refuses them with a sentence; says how they now stand in memory.

Whatever can be known without native code is checked before it runs: the file itself (see
`app/gguf/header.py`), the options, and what fits (`placement.py`). What llama.cpp reports while
loading is measured and goes into `protocol.Loaded`.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from app.engine import native
from app.engine.logparse import (
    LoadReport,
    last_error,
    names_lack_of_memory,
    names_unknown_architecture,
    names_unknown_tokeniser,
    read_load,
)
from app.engine.native import GGML_TYPES, AbortFlag, NativeLog, llama, row_bytes
from app.engine.placement import (
    DeviceMemory,
    DoesNotFit,
    Placement,
    WeightSizes,
    plan,
    unused_graphics_note,
)
from app.engine.protocol import Device, Loaded, LoadOptions
from app.engine.vocabulary import Vocabulary
from app.gguf.fingerprint import fast_hash
from app.gguf.header import Header, HeaderRefused, read_header

N_SLOTS: Final = 4
"""Sequences that may be worked on at once; they share one unified cache."""

PROCESSOR_UBATCH: Final = 128
DEVICE_UBATCH: Final = 512
"""On two cores 128 rows are read as fast as 512, and the buffer and the steps are a quarter."""

MAX_OUTPUTS: Final = 16
"""Batch rows that may ask for scores at once; the compute buffer holds room for them."""

_PROGRESS_EVERY_S: Final = 0.03

_LOAD_MODES: Final = {(False, False): 0, (True, False): 1, (False, True): 2, (True, True): 3}
_FLASH: Final = {"auto": -1, "off": 0, "on": 1}


class LoadRefused(Exception):  # noqa: N818
    """The weights cannot be loaded. `kind` is one of `protocol.Failed`'s."""

    def __init__(self, kind: str, sentence: str, evidence: str = "") -> None:
        super().__init__(sentence)
        self.kind = kind
        self.sentence = sentence
        self.evidence = evidence


class LoadCancelled(Exception):  # noqa: N818
    """The user stopped the load; nothing is left of it."""


class Weights:
    """Loaded weights and their one context for generating. `close` frees both."""

    def __init__(self, model: Any, context: Any, loaded: Loaded, abort: AbortFlag) -> None:
        self.model = model
        self.context = context
        self.loaded = loaded
        self.abort = abort
        self.vocabulary = Vocabulary(llama.llama_model_get_vocab(model))
        self.n_ctx = loaded.n_ctx
        self.n_ubatch = loaded.n_ubatch
        self.n_slots = N_SLOTS
        self.n_threads = loaded.n_threads

    @property
    def chat_template(self) -> str | None:
        """The file's own template, as Jinja source."""
        text: bytes | None = llama.llama_model_chat_template(self.model, None)
        return None if text is None else text.decode("utf-8", "replace")

    @property
    def memory(self) -> Any:
        return llama.llama_get_memory(self.context)

    def set_threads(self, n_threads: int) -> None:
        """Takes effect with the next step."""
        llama.llama_set_n_threads(self.context, n_threads, n_threads)
        self.n_threads = n_threads

    def close(self) -> None:
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
) -> Weights:
    """Load the file at `path`. Raises LoadRefused or LoadCancelled.

    `on_progress(done, total)` counts bytes and is called on this thread.
    """
    started = time.perf_counter()
    check_options(options)
    header = _read(path)
    sizes = sizes_of(header, options.type_k, options.type_v)
    devices = native.list_devices()
    on_processor = not (native.can_offload() and native.offload_devices(devices))
    n_ubatch = options.n_ubatch or (PROCESSOR_UBATCH if on_processor else DEVICE_UBATCH)
    placement = _place(sizes, devices, options, n_ubatch)
    with log.recording() as lines:
        model = _load_model(path, header, options, placement, on_progress, is_cancelled, lines)
        try:
            _refuse_what_cannot_chat(model, header)
            abort = AbortFlag()
            context = _make_context(model, options, placement, n_ubatch, abort, lines)
        except BaseException:
            llama.llama_model_free(model)
            raise
        report = read_load(lines)
    notes = [*placement.notes, *_graphics_notes()]
    per_token = sum(sizes.kv_bytes_per_token)
    loaded = _describe(model, context, header, options, report, per_token, notes, started)
    return Weights(model, context, loaded, abort)


# --- before native code ---------------------------------------------------------------------------


def check_options(options: LoadOptions) -> None:
    """Refuse values, and combinations that llama.cpp aborts on, with a sentence."""
    limits = {
        "n_ctx": ("Context size", 1, 1 << 24),
        "n_threads": ("Threads", 1, 512),
        "n_gpu_layers": ("Layers on graphics devices", 0, 1 << 16),
        "n_ubatch": ("Prefill batch", 1, 1 << 14),
    }
    for field, (label, low, high) in limits.items():
        value = getattr(options, field)
        if value is not None and not low <= value <= high:
            raise _bad(f"{label} must be between {low:,} and {high:,}, not {value:,}.")
    for label, name in (("keys", options.type_k), ("values", options.type_v)):
        if name not in GGML_TYPES:
            choices = ", ".join(GGML_TYPES)
            raise _bad(f"The cache type for {label} must be one of {choices}, not “{name[:20]}”.")
    if options.flash_attention == "off" and options.type_v not in ("f32", "f16", "bf16"):
        raise _bad(
            f"A value cache of type {options.type_v} needs flash attention. "
            "Turn flash attention on, or use f16 for values."
        )


def _bad(sentence: str) -> LoadRefused:
    return LoadRefused("bad_setting", sentence)


def _read(path: str) -> Header:
    try:
        return read_header(path)
    except HeaderRefused as refused:
        raise LoadRefused(refused.kind, refused.sentence, refused.evidence) from refused


def sizes_of(header: Header, type_k: str, type_v: str) -> WeightSizes:
    """Bytes per layer from the tensor table, and bytes of cache per token and layer."""
    n_layer = header.n_layer or 1
    layers, cache = [0] * n_layer, [0] * n_layer
    shapes: dict[str, tuple[int, ...]] = {}
    output = outside = embedding = 0
    for tensor in header.tensors:
        shapes[tensor.name] = tensor.shape
        layer = _layer_of(tensor.name, n_layer)
        if layer is not None:
            layers[layer] += tensor.size_bytes
        elif tensor.name.startswith("output"):
            output += tensor.size_bytes
        else:
            outside += tensor.size_bytes
            if tensor.name == "token_embd.weight":
                embedding = tensor.size_bytes
    for layer in range(n_layer):
        keys, values = _cache_widths(header, shapes, layer)
        cache[layer] = row_bytes(type_k, keys) + row_bytes(type_v, values)
    tied = "output.weight" not in shapes
    return WeightSizes(
        layer_bytes=tuple(layers),
        kv_bytes_per_token=tuple(cache),
        input_bytes=outside,
        output_bytes=output + (embedding if tied else 0),
        n_embd=header.n_embd or 4096,
        n_vocab=shapes.get("token_embd.weight", (0, 32_000))[-1],
        n_ctx_train=header.n_ctx_train or 4096,
    )


def _layer_of(name: str, n_layer: int) -> int | None:
    """
    >>> _layer_of("blk.7.attn_k.weight", 30)
    7
    """
    parts = name.split(".", 2)
    if parts[0] != "blk" or len(parts) < 3 or not parts[1].isdecimal():
        return None
    layer = int(parts[1])
    return layer if layer < n_layer else None


def _cache_widths(
    header: Header, shapes: dict[str, tuple[int, ...]], layer: int
) -> tuple[int, int]:
    """Values per token that one layer keeps: for K and for V.

    The widths stand in the shapes of the key and value matrices, whatever the metadata say;
    fused matrices need the metadata, and latent attention (MLA) keeps one compressed row.
    """
    keys = shapes.get(f"blk.{layer}.attn_k.weight")
    values = shapes.get(f"blk.{layer}.attn_v.weight")
    if keys is not None and len(keys) == 2:
        return keys[1], values[1] if values is not None and len(values) == 2 else keys[1]
    latent = header.number("attention.kv_lora_rank")
    if latent:
        return latent + (header.number("rope.dimension_count") or 64), 0
    if f"blk.{layer}.attn_qkv.weight" not in shapes:
        return 0, 0
    heads = header.number("attention.head_count") or 1
    per_head = header.number("attention.key_length") or (header.n_embd or 4096) // heads
    width = (header.number("attention.head_count_kv") or heads) * per_head
    return width, width


def _place(
    sizes: WeightSizes, devices: list[Device], options: LoadOptions, n_ubatch: int
) -> Placement:
    usable = native.offload_devices(devices) if native.can_offload() else []
    host_free = next((d.free_bytes for d in devices if d.kind == "cpu"), 0)
    try:
        return plan(
            sizes,
            [
                DeviceMemory(d.name, d.description, d.kind, d.free_bytes, d.total_bytes)
                for d in usable
            ],
            host_free,
            n_ubatch=n_ubatch,
            n_ctx=options.n_ctx,
            n_gpu_layers=options.n_gpu_layers,
        )
    except DoesNotFit as error:
        raise LoadRefused("out_of_memory", error.sentence) from error


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
    placement: Placement,
    on_progress: Callable[[int, int], None],
    is_cancelled: Callable[[], bool],
    lines: list[str],
) -> Any:
    params = llama.llama_model_default_params()
    params.n_gpu_layers = placement.n_gpu_layers
    params.load_mode = _LOAD_MODES[options.use_mmap, options.use_mlock]
    split = (ctypes.c_float * max(int(llama.llama_max_devices()), 1))()
    for index, share in enumerate(placement.tensor_split()[: len(split)]):
        split[index] = share
    params.tensor_split = split
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


def _load_failure(header: Header, evidence: str) -> LoadRefused:
    """Why llama.cpp gave no model, as far as its log tells."""
    name = header.path.name
    if names_lack_of_memory(evidence):
        return LoadRefused(
            "out_of_memory",
            f"There is not enough free memory for “{name}”. "
            "Close other programs, or choose a smaller file.",
            evidence,
        )
    architecture = names_unknown_architecture(evidence)
    if architecture is not None:
        return LoadRefused(
            "unsupported",
            f"“{name}” holds “{architecture}” weights, which this version of llama.cpp does not "
            "know. A newer engine may; or choose another file.",
            evidence,
        )
    tokeniser = names_unknown_tokeniser(evidence)
    if tokeniser is not None:
        return LoadRefused(
            "unsupported",
            f"“{name}” uses the tokeniser “{tokeniser}”, which this version of llama.cpp does not "
            "know. A newer engine may; or choose another file.",
            evidence,
        )
    return LoadRefused(
        "native_error",
        f"llama.cpp could not load “{name}”. The file may be damaged, or need a newer engine; "
        "the engine's log says more.",
        evidence,
    )


def _refuse_what_cannot_chat(model: Any, header: Header) -> None:
    name = header.path.name
    if not llama.llama_model_has_decoder(model):
        raise LoadRefused(
            "not_a_chat_model",
            f"“{name}” holds weights that read text and write none. Choose language weights.",
        )
    if llama.llama_model_has_encoder(model) or llama.llama_model_is_diffusion(model):
        raise LoadRefused(
            "unsupported",
            f"“{name}” does not write token by token (it is an encoder-decoder or a diffusion "
            "file), which is not supported. Choose other language weights.",
        )
    vocabulary = llama.llama_model_get_vocab(model)
    # A file without a tokeniser may still claim tokens; asking for one aborts.
    is_none = llama.llama_vocab_type(vocabulary) == llama.LLAMA_VOCAB_TYPE_NONE
    if is_none or llama.llama_vocab_n_tokens(vocabulary) < 1:
        raise LoadRefused(
            "unsupported",
            f"“{name}” has no vocabulary, so it cannot read or write text. "
            "Choose language weights.",
        )


def _make_context(
    model: Any,
    options: LoadOptions,
    placement: Placement,
    n_ubatch: int,
    abort: AbortFlag,
    lines: list[str],
) -> Any:
    threads = options.n_threads or native.physical_cores()
    params = llama.llama_context_default_params()
    params.n_ctx = placement.n_ctx
    params.n_batch = params.n_ubatch = n_ubatch
    params.n_seq_max = N_SLOTS
    params.n_outputs_max = min(MAX_OUTPUTS, n_ubatch)
    params.kv_unified = True
    params.n_threads = params.n_threads_batch = threads
    params.flash_attn_type = _FLASH[options.flash_attention]
    params.type_k = GGML_TYPES[options.type_k]
    params.type_v = GGML_TYPES[options.type_v]
    params.abort_callback = abort.callback
    params.abort_callback_data = abort.data
    context = llama.llama_init_from_model(model, params)
    if context:
        return context
    evidence = last_error(lines)
    if names_lack_of_memory(evidence):
        raise LoadRefused(
            "out_of_memory",
            f"There is not enough free memory for a context of {placement.n_ctx:,} tokens. "
            "Choose a shorter context or a smaller cache type.",
            evidence,
        )
    raise LoadRefused(
        "unsupported",
        "llama.cpp refused this combination of context, cache types and flash attention. "
        "Go back to the default options; the engine's log says more.",
        evidence,
    )


def _describe(
    model: Any,
    context: Any,
    header: Header,
    options: LoadOptions,
    report: LoadReport,
    kv_bytes_per_token: int,
    notes: list[str],
    started: float,
) -> Loaded:
    description = ctypes.create_string_buffer(256)
    llama.llama_model_desc(model, description, len(description))
    vocabulary = Vocabulary(llama.llama_model_get_vocab(model))
    n_ctx = int(llama.llama_n_ctx(context))
    return Loaded(
        path=str(Path(header.path).absolute()),
        name=header.name,
        architecture=header.architecture,
        description=description.value.decode("utf-8", "replace"),
        size_bytes=int(llama.llama_model_size(model)),
        n_params=int(llama.llama_model_n_params(model)),
        n_layer=int(llama.llama_model_n_layer(model)),
        n_embd=int(llama.llama_model_n_embd(model)),
        n_head=int(llama.llama_model_n_head(model)),
        n_head_kv=int(llama.llama_model_n_head_kv(model)),
        n_vocab=vocabulary.n_vocab,
        n_ctx=n_ctx,
        n_ctx_train=int(llama.llama_model_n_ctx_train(model)),
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
        kv_bytes_per_token=_per_token(report.kv_bytes, n_ctx, kv_bytes_per_token),
        load_s=time.perf_counter() - started,
        notes=notes,
        fast_hash=_fast_hash(header),
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
