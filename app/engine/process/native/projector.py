"""Pictures and sounds become vectors: llama.cpp's `mtmd` beside loaded weights.

What the header tells is checked before native code sees the file, as what a picture's file says is
before it is decoded (`media_files.py`): in there a claim that does not hold ends the process. A
projector that cannot be used leaves the weights loaded, with a sentence.

    see       text thread      decodes a picture, cuts it as the projector wants it → token IDs
    Looking   context thread   computes the vectors of one part, a slice at a time

An encode is one native call that may take a minute on a processor, and nothing ends it from
outside. But it asks before each node of its graph whether somebody wants to see the result, and
stops there if so. So it runs on a thread that waits at such a place until it is given its next
slice: between two slices other replies decode, and a stop leaves it there. The two threads never
compute at the same time. What must hold: the vectors of a pass that was left off are never used.
"""

from __future__ import annotations

import ctypes
import hashlib
import importlib
import os
import threading
import time
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import msgspec
import numpy as np

from app.engine.process.native.logparse import read_load
from app.engine.process.native.media_files import check_file
from app.engine.process.native.native import NativeLog, llama
from app.engine.prompts.media import MAX_POSITIONS, Seen, check_media, media_ids
from app.engine.protocol.bounds import shown_text
from app.engine.protocol.loading_messages import Loaded
from app.engine.protocol.media_messages import Media, ProjectorOffer
from app.gguf.fingerprint import fast_hash
from app.gguf.header import Header, read_header
from app.gguf.projector import projector_of
from app.refusal import Refusal

Vectors = np.ndarray[Any, np.dtype[np.float32]]
Positions = np.ndarray[Any, np.dtype[np.int32]]

KEPT_BYTES: Final = 256 * 2**20
"""Of pictures that were looked at: who sends one again, or retries, does not wait for it again."""
KEPT_CELLS: Final = 1 << 19
"""Of how many cells the IDs are kept: longer than the rest, since each count asks for them."""
_PIXEL_BYTES: Final = 12
"""Three colours in float32. (A sample of a sound becomes about as much.)"""
SLICE_S: Final = 0.05
"""An encode is asked so often whether others are to go on, or it shall stop."""
_FIRST_STRIDE: Final = 16
_MOST_STRIDE: Final = 4096
_MAX_SIDE: Final = 16_384
_UNSUPPORTED: Final = ("hunyuanvl", "qwen3tts_spkenc", "pockettts_spkenc")
"""The first counts the pictures before one in its positions, so that no picture is ever the same;
the others make speech."""


def _mtmd() -> ModuleType:
    """Raises Refusal where the library is not there: not each build of llama.cpp has it."""
    try:
        return importlib.import_module("llama_cpp.mtmd_cpp")
    except (ImportError, OSError, RuntimeError, AttributeError) as error:
        raise Refusal(
            "unsupported",
            "This build of the engine has no part for pictures (libmtmd). Install another build of "
            "llama-cpp-python.",
            str(error),
        ) from error


class Pixels:
    """What a part is computed from, in native memory: freed with this object."""

    def __init__(self, native_chunk: Any, free: Any, size_bytes: int) -> None:
        self.native = native_chunk
        self.size_bytes = size_bytes
        weakref.finalize(self, free, native_chunk)


class Chunk:
    """Part `number` of a picture, or of a sound, as the projector takes it. `positions`
    [4, n_cells]: offsets from the first one, by axis; None: one after the other. `vectors`
    [n_cells, width]. Its pixels are there or, to be cut again, its file: a chat of many pictures
    has more of them than fit into memory."""

    def __init__(
        self,
        ids: list[int],
        media: Media | None,
        number: int,
        *,
        is_causal: bool,
        positions: Positions | None,
    ) -> None:
        self.ids = ids
        self.media = media
        self.number = number
        self.is_causal = is_causal
        self.vectors: Vectors | None = None
        self._positions = positions
        self._pixels: list[Pixels] = []

    @property
    def size_bytes(self) -> int:
        """The file apart."""
        vectors = self.vectors
        return sum(each.size_bytes for each in self._pixels) + (
            0 if vectors is None else vectors.nbytes
        )

    def of(self, media: Media | None) -> Chunk:
        """The same part of the same file, of which nothing has been computed."""
        return Chunk(
            self.ids, media, self.number, is_causal=self.is_causal, positions=self._positions
        )

    def put(self, pixels: Pixels) -> None:
        self._pixels = [pixels]

    def take(self) -> Pixels | None:
        """They are the taker's: two threads may want them, one to free them."""
        try:
            return self._pixels.pop()
        except IndexError:
            return None

    def positions(self, first: int, offset: int, count: int, *, has_axes: bool) -> Positions:
        """Of `count` cells from `offset` on, where the picture begins at position `first`."""
        if not has_axes:
            return np.arange(first + offset, first + offset + count, dtype=np.int32)
        if self._positions is None:
            row = np.arange(first + offset, first + offset + count, dtype=np.int32)
            return np.tile(row, 4)
        found = self._positions[:, offset : offset + count].copy()
        found[:3] += first  # the fourth axis does not move on with the text
        return np.ascontiguousarray(found).reshape(-1)


class Projector:
    """One projector beside loaded weights. `see` is called on one thread, all else on the one that
    owns the context."""

    def __init__(
        self,
        context: Any,
        offer: ProjectorOffer,
        n_ubatch: int,
        passes: Passes,
        key: bytes,
    ) -> None:
        """`key`: what it is known by, so that another one sees otherwise."""
        self._context = context
        self.offer = offer
        self.passes = passes
        self._key = key
        self._mtmd = _mtmd()
        self._n_ubatch = n_ubatch
        self.has_axes = bool(self._mtmd.mtmd_decode_use_mrope(context))
        self._known: OrderedDict[bytes, list[Seen]] = OrderedDict()
        self._outlines: OrderedDict[bytes, list[Seen]] = OrderedDict()
        self._cutting = threading.Lock()
        passes.cut = self._cut_again

    # --- looking at a file --------------------------------------------------------------------

    def see(self, media: Media) -> Sequence[Seen]:
        """What stands in the prompt for it. Raises Refusal."""
        check_media([media], self.offer)
        digest = hashlib.blake2b(media.kind.encode() + media.data, key=self._key[:64]).digest()
        seen = self._known.pop(digest, None)
        if seen is None and digest in self._outlines:
            seen = [_with_file(each, media) for each in self._outlines[digest]]
        if seen is None:
            check_file(media.kind, media.data)
            seen = self._cut(media, digest)
        self._known[digest] = seen
        self._outlines[digest] = [_with_file(each, None) for each in seen]
        self._outlines.move_to_end(digest)
        self._forget()
        return seen

    def _forget(self) -> None:
        size = sum(map(_size, self._known.values()))
        while size > KEPT_BYTES and len(self._known) > 1:
            _, oldest = self._known.popitem(last=False)
            size -= _size(oldest)
            for each in oldest:
                if isinstance(each.chunk, Chunk):
                    each.chunk.take()
        n_cells = sum(map(_n_cells, self._outlines.values()))
        while n_cells > KEPT_CELLS and len(self._outlines) > 1:
            n_cells -= _n_cells(self._outlines.popitem(last=False)[1])

    def _decoded(self, media: Media) -> Any:
        buffer = (ctypes.c_uint8 * len(media.data)).from_buffer_copy(media.data)
        bitmap = self._mtmd.mtmd_helper_bitmap_init_from_buf(
            self._context, buffer, len(media.data), False
        )
        what = "picture" if media.kind == "image" else "audio"
        if not bitmap:
            raise Refusal(
                "bad_media",
                f"The {what} is damaged, or stored in a way that can't be read. Save it anew as "
                f"{'PNG or JPEG' if media.kind == 'image' else 'WAV'} and attach that.",
            )
        if self._mtmd.mtmd_bitmap_is_audio(bitmap) != (media.kind == "audio"):
            self._mtmd.mtmd_bitmap_free(bitmap)
            raise Refusal("bad_media", f"The file is no {what}. Attach it as what it is.")
        return bitmap

    def _cut(self, media: Media, digest: bytes) -> list[Seen]:
        """As `mtmd_tokenize` would have it at this place: texts around and between the parts."""
        with self._parts(media) as (parts, pixel_bytes):
            return [
                self._seen(part, number, digest, media, pixel_bytes)
                for number, part in enumerate(parts)
            ]

    def _cut_again(self, chunk: Chunk) -> Pixels:
        assert chunk.media is not None
        with self._parts(chunk.media) as (parts, pixel_bytes):
            return self._pixels(parts[chunk.number], pixel_bytes)

    def _pixels(self, part: Any, size_bytes: int) -> Pixels:
        mtmd = self._mtmd
        return Pixels(mtmd.mtmd_input_chunk_copy(part), mtmd.mtmd_input_chunk_free, size_bytes)

    @contextmanager
    def _parts(self, media: Media) -> Iterator[tuple[list[Any], int]]:
        """What a file is cut into, and the bytes that each part takes."""
        mtmd = self._mtmd
        with self._cutting, ExitStack() as stack:
            bitmap = self._decoded(media)
            stack.callback(mtmd.mtmd_bitmap_free, bitmap)
            chunks = mtmd.mtmd_input_chunks_init()
            stack.callback(mtmd.mtmd_input_chunks_free, chunks)
            part = mtmd.mtmd_input_part(None, bitmap)
            parts = (ctypes.POINTER(mtmd.mtmd_input_part) * 1)(ctypes.pointer(part))
            code = mtmd.mtmd_tokenize_from_parts(self._context, chunks, parts, 1, False)
            if code != 0:
                raise Refusal(
                    "bad_media",
                    "The projector can't take this file: it may be too small or of an unusual "
                    "shape. Choose another one.",
                    f"mtmd_tokenize returned {code}",
                )
            found = [
                mtmd.mtmd_input_chunks_get(chunks, number)
                for number in range(int(mtmd.mtmd_input_chunks_size(chunks)))
            ]
            yield found, self._held_bytes(bitmap) // max(len(found), 1) + self._least_bytes

    @property
    def _least_bytes(self) -> int:
        """What each part takes until it was computed, however small the picture is."""
        return _PIXEL_BYTES * self.offer.image_size**2

    def _held_bytes(self, bitmap: Any) -> int:
        """The same, as far as it grows with the picture or the sound."""
        pixels = int(self._mtmd.mtmd_bitmap_get_nx(bitmap) * self._mtmd.mtmd_bitmap_get_ny(bitmap))
        return _PIXEL_BYTES * pixels

    def _seen(self, part: Any, number: int, digest: bytes, media: Media, pixel_bytes: int) -> Seen:
        mtmd = self._mtmd
        kind = mtmd.mtmd_input_chunk_get_type(part)
        if kind == mtmd.MTMD_INPUT_CHUNK_TYPE_TEXT:
            count = ctypes.c_size_t()
            tokens = mtmd.mtmd_input_chunk_get_tokens_text(part, ctypes.byref(count))
            return Seen([int(tokens[i]) for i in range(count.value)])
        n_cells = int(mtmd.mtmd_input_chunk_get_n_tokens(part))
        n_positions = int(mtmd.mtmd_input_chunk_get_n_pos(part))
        is_causal = not mtmd.mtmd_decode_use_non_causal(self._context, part)
        if not is_causal and n_cells > self._n_ubatch:
            raise Refusal(
                "bad_media",
                f"This picture takes {n_cells:,} cells, which this model has to read in one pass, "
                f"but a pass has at most {self._n_ubatch:,}. Reload the model with a larger batch.",
            )
        if n_cells < 1 or n_positions > MAX_POSITIONS:
            raise Refusal("bad_media", "The file is too long for the projector. Make it shorter.")
        hash_of_part = hashlib.blake2b(digest + number.to_bytes(4, "little")).digest()
        is_image = kind == mtmd.MTMD_INPUT_CHUNK_TYPE_IMAGE
        has_axes = self.has_axes and is_image
        ids = media_ids(hash_of_part, n_cells, n_positions if has_axes else 0)
        columns, rows, positions = 0, 0, None
        if has_axes:
            image = mtmd.mtmd_input_chunk_get_tokens_image(part)
            positions = self._axes(image, n_cells)
            columns, rows = (int(positions[axis].max()) + 1 for axis in (2, 1))
            if columns * rows != n_cells:
                columns = rows = 0
        elif is_image:
            side = round(n_cells**0.5)
            columns = rows = side if side * side == n_cells else 0
        chunk = Chunk(ids, media, number, is_causal=is_causal, positions=positions)
        chunk.put(self._pixels(part, pixel_bytes))
        return Seen(ids, True, columns, rows, chunk)

    def _axes(self, image: Any, n_cells: int) -> Positions:
        """[4, n_cells]: time, row, column, and the fourth axis, of a picture at position 0."""
        places = (self._mtmd.mtmd_decoder_pos * n_cells)()
        self._mtmd.mtmd_helper_image_get_decoder_pos(image, 0, places)
        return np.array(
            [
                [p.t for p in places],
                [p.y for p in places],
                [p.x for p in places],
                [p.z for p in places],
            ],
            np.int32,
        )

    # --- the end ------------------------------------------------------------------------------

    def close(self) -> None:
        self._known.clear()
        self._outlines.clear()
        self.passes.leave()
        if self._context is not None:
            self._mtmd.mtmd_free(self._context)
        self._context = None


def _with_file(seen: Seen, media: Media | None) -> Seen:
    return replace(seen, chunk=seen.chunk.of(media)) if isinstance(seen.chunk, Chunk) else seen


def _size(seen: Sequence[Seen]) -> int:
    parts = [each.chunk for each in seen if isinstance(each.chunk, Chunk)]
    # The thread of the context lets go of a file meanwhile.
    files = {id(media): len(media.data) for part in parts if (media := part.media) is not None}
    return sum(part.size_bytes for part in parts) + sum(files.values())


def _n_cells(seen: Sequence[Seen]) -> int:
    return sum(len(each.ids) for each in seen)


# --- computing --------------------------------------------------------------------------------


class Passes:
    """Encodes chunks slice by slice, one after the other, on a thread of its own."""

    def __init__(self) -> None:
        self.context: Any = None
        self.width = 0
        self.cut: Callable[[Chunk], Pixels]
        self._callback = llama.ggml_backend_sched_eval_callback(self._asked)
        self._chunk: Chunk | None = None
        self._thread: threading.Thread | None = None
        self._go = threading.Semaphore(0)
        self._came = threading.Semaphore(0)
        self._is_left = False
        self._code = -1
        self._is_done = False
        self._stride = _FIRST_STRIDE
        self._at = 0
        self._since = 0.0

    @property
    def watch(self) -> Any:
        """What ggml asks; must live as long as the context that was made with it."""
        return self._callback

    @property
    def chunk(self) -> Chunk | None:
        """What is being looked at."""
        return self._chunk

    def step(self, chunk: Chunk) -> bool:
        """One slice of this chunk's encode; what was begun of another one is left. True: its
        vectors are there. Raises Refusal where the projector failed."""
        if self._chunk is not chunk:
            self.leave()
            self._begin(chunk)
        self._go.release()
        self._came.acquire()
        if not self._is_done:
            return False
        self._join()
        if self._code != 0:
            raise Refusal(
                "native_error",
                "The projector failed at this file. Try another one; if it fails again, reload "
                "the model.",
                f"mtmd_encode_chunk returned {self._code}",
            )
        mtmd = _mtmd()
        found = mtmd.mtmd_get_output_embd(self.context)
        shape = (len(chunk.ids), self.width)
        vectors = np.ctypeslib.as_array(found, shape).copy()
        if not np.isfinite(vectors).all():
            raise Refusal(
                "native_error",
                "The projector computed values that aren't numbers. Its file may be damaged or "
                "made for another model.",
            )
        chunk.vectors, chunk.media = vectors, None  # which nobody needs any more
        return True

    def leave(self) -> None:
        """What was begun is no longer wanted."""
        if self._thread is None:
            return
        self._is_left = True
        while not self._is_done:
            self._go.release()
            self._came.acquire()
        self._join()

    def _begin(self, chunk: Chunk) -> None:
        self._chunk = chunk
        self._is_left = self._is_done = False
        self._code, self._at = -1, 0
        self._thread = threading.Thread(target=self._run, name="projector", daemon=True)
        self._thread.start()

    def _join(self) -> None:
        assert self._thread is not None
        self._thread.join()
        self._thread = self._chunk = None

    def _run(self) -> None:
        self._go.acquire()
        self._since = time.perf_counter()
        try:
            if not self._is_left:
                assert self._chunk is not None
                pixels = self._chunk.take() or self.cut(self._chunk)
                self._code = int(_mtmd().mtmd_encode_chunk(self.context, pixels.native))
        finally:
            self._is_done = True
            self._came.release()

    def _asked(self, _: Any, ask: bool, __: Any) -> bool:
        """Called by ggml on the encode's thread. It must not raise."""
        if self._thread is None or threading.current_thread() is not self._thread:
            return not ask  # as it loads
        if ask:
            self._at += 1
            return self._is_left or self._at % self._stride == 0
        now = time.perf_counter()
        took, wanted = now - self._since, SLICE_S
        if took < wanted / 2:
            self._stride = min(self._stride * 2, _MOST_STRIDE)
        elif took > wanted * 2:
            self._stride = max(self._stride // 2, 1)
        if self._is_left:
            return False
        self._came.release()
        self._go.acquire()
        self._since = time.perf_counter()
        return not self._is_left


# --- loading ----------------------------------------------------------------------------------


def offer_of(path: str, header: Header | None, why: str = "") -> ProjectorOffer:
    """What the header tells."""
    facts = projector_of(header) if header is not None else None
    if header is None or facts is None:
        return ProjectorOffer(path, why=why)
    return ProjectorOffer(
        path,
        facts.kind,
        facts.sees and bool(facts.vision.image_size),
        facts.hears,
        image_size=facts.vision.image_size,
        size_bytes=header.size_bytes,
        why=why,
    )


def checked_header(path: str, n_embd: int) -> Header:
    """The header of a projector for weights of this width. Raises Refusal."""
    header = read_header(path)
    name = shown_text(header.path.name)
    facts = projector_of(header)
    if facts is None:
        raise Refusal(
            "unsupported",
            f"“{name}” is not a projector but a {header.architecture or 'different'} file. Choose "
            "the file that is usually called mmproj.",
        )
    if header.size_bytes < header.expected_bytes:
        raise Refusal(
            "incomplete_file",
            f"The projector “{name}” is incomplete: it has {header.size_bytes:,} of "
            f"{header.expected_bytes:,} bytes. Download it again.",
        )
    if facts.kind in _UNSUPPORTED:
        raise Refusal(
            "unsupported",
            f"The projector “{name}” is of the type “{facts.kind}”, which isn't supported.",
        )
    if header.kind == "mmproj" and not facts.fits(n_embd):
        widths = " or ".join(f"{width:,}" for width in facts.widths)
        raise Refusal(
            "unsupported",
            f"The projector “{name}” was made for another model: it gives vectors of {widths} "
            f"numbers, this model takes {n_embd:,}. Choose the projector of this model.",
        )
    _check_numbers(header)
    return header


def _check_numbers(header: Header) -> None:
    """What llama.cpp divides by, or takes memory for, without a look."""
    for modality in ("vision", "audio"):
        if header.metadata.get(f"clip.has_{modality}_encoder") is not True:
            continue
        wanted = ["embedding_length", "attention.head_count", "block_count"]
        wanted += ["image_size", "patch_size"] if modality == "vision" else ["num_mel_bins"]
        found = {key: header.number(f"{modality}.{key}") for key in wanted}
        is_odd = any(not value or not 0 < value <= _MAX_SIDE for value in found.values())
        if not is_odd and modality == "vision":
            is_odd = (found["patch_size"] or 1) > (found["image_size"] or 0)
        if not is_odd:
            is_odd = (found["embedding_length"] or 0) % (found["attention.head_count"] or 1) != 0
        if is_odd:
            told = ", ".join(f"{key} {value}" for key, value in found.items())
            raise Refusal(
                "unsupported",
                f"The projector “{shown_text(header.path.name)}” is damaged: its sizes make no "
                "sense. Download it again.",
                told,
            )
    _check_stacking(header)


_FRAMES: Final = 3000
"""Thirty seconds of sound, as whisper's encoder takes them."""
_HALVINGS: Final = {"ultravox": 1, "voxtral": 2}
"""How often the frames are halved before some are put together (`clip.cpp`)."""


def _check_stacking(header: Header) -> None:
    """llama.cpp counts the cells of a sound in one way and computes them in another, and ends the
    process where they differ: its `build_stack` pads with a mask that is right for powers of two
    alone, and is as the count has it only where it is not. (Whisper's own 1,280 and 8 go: 187.)"""
    facts = projector_of(header)
    width, factor = (
        header.number(f"audio.{key}") or 0 for key in ("embedding_length", "projector.stack_factor")
    )
    halvings = _HALVINGS.get(facts.kind if facts is not None else "", 0)
    if not halvings or not factor or not width:
        return
    stride, numbers = width * factor, width * (_FRAMES >> halvings)
    computed = ((numbers + stride - 1) & ~(stride - 1)) // stride
    counted = -(-_FRAMES // factor) >> halvings
    if factor > 1 and computed != counted:
        raise Refusal(
            "unsupported",
            f"The projector “{shown_text(header.path.name)}” joins {factor} frames of sound at a "
            f"width of {width:,}, which this version of llama.cpp can't compute. Choose another "
            "one.",
            f"{counted} cells counted, {computed} computed",
        )


def load_projector(
    path: str, model: Any, loaded: Loaded, log: NativeLog, device: str = ""
) -> tuple[Projector | None, ProjectorOffer, int]:
    """The projector beside these weights, or why there is none, and the bytes of its buffers.
    `device`: where it goes; nothing for the processor."""
    header: Header | None = None
    try:
        width = int(llama.llama_model_n_embd_inp(model))
        header = checked_header(path, loaded.n_embd)
        return _loaded(path, header, model, width, loaded, log, device)
    except Refusal as refused:
        return None, offer_of(path, header, refused.sentence), 0


_DEVICE: Final = "MTMD_BACKEND_DEVICE"
"""By which llama.cpp's `clip.cpp` is told a device; without it the first one there is."""


def _loaded(
    path: str,
    header: Header,
    model: Any,
    width: int,
    loaded: Loaded,
    log: NativeLog,
    device: str,
) -> tuple[Projector, ProjectorOffer, int]:
    mtmd = _mtmd()
    log.install_into(mtmd.mtmd_helper_log_set)
    passes = Passes()
    params = mtmd.mtmd_context_params_default()
    params.use_gpu = bool(device)
    if device:
        os.environ[_DEVICE] = device
    params.n_threads = loaded.n_threads
    params.print_timings = False
    params.cb_eval = passes.watch
    with log.recording() as lines:
        context = mtmd.mtmd_init_from_file(
            str(path).encode("utf-8", "surrogateescape"), model, params
        )
    if not context:
        raise _failure(header, "\n".join(lines[-6:]))
    sees = bool(mtmd.mtmd_support_vision(context))
    offer = msgspec.structs.replace(
        offer_of(str(Path(path).absolute()), header),
        images=sees,
        audio=bool(mtmd.mtmd_support_audio(context)),
        tokens_per_image=_fixed_cells(context) if sees else 0,
    )
    passes.context, passes.width = context, width
    key = fast_hash(header).encode()
    report = read_load(lines)
    computed = sum(part.size_bytes for part in report.memory if part.what == "compute")
    return Projector(context, offer, loaded.n_ubatch, passes, key), offer, computed


def _fixed_cells(context: Any) -> int:
    """The cells of any picture; 0 where that depends on its size."""
    mtmd, found = _mtmd(), set[int]()
    for width, height in ((64, 64), (1024, 640)):
        bitmap = mtmd.mtmd_bitmap_init(width, height, None)  # a size without pixels
        chunks = mtmd.mtmd_input_chunks_init()
        part = mtmd.mtmd_input_part(None, bitmap)
        parts = (ctypes.POINTER(mtmd.mtmd_input_part) * 1)(ctypes.pointer(part))
        if mtmd.mtmd_tokenize_from_parts(context, chunks, parts, 1, False) == 0:
            found.add(int(mtmd.mtmd_helper_get_n_tokens(chunks)))
        mtmd.mtmd_input_chunks_free(chunks)
        mtmd.mtmd_bitmap_free(bitmap)
    return found.pop() if len(found) == 1 else 0


def _failure(header: Header, evidence: str) -> Refusal:
    name = shown_text(header.path.name)
    if "mismatch between text model" in evidence:
        return Refusal(
            "unsupported",
            f"The projector “{name}” was made for another model. Choose the one of this model.",
            evidence,
        )
    if "unknown projector type" in evidence:
        return Refusal(
            "unsupported",
            f"The projector “{name}” is of a type that this version of llama.cpp doesn't know. "
            "Update the engine or choose another one.",
            evidence,
        )
    if "unable to find tensor" in evidence:
        return Refusal(
            "unsupported",
            f"The projector “{name}” lacks tensors that its type needs. It is damaged, or needs a "
            "newer engine.",
            evidence,
        )
    return Refusal(
        "native_error",
        f"llama.cpp couldn't load the projector “{name}”. It may be damaged or need a newer "
        "engine. The engine log has the details.",
        evidence,
    )
