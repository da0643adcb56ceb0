"""Reads the header of a GGUF file: metadata and tensor table, never the weights.

The file is untrusted. Before anything is allocated or skipped, its size is checked against
the bytes that are really left; arrays are skipped unless they are asked for; what is kept
is limited in bytes; and the time is limited in processor seconds of this thread (so that
a busy machine does not turn a good file away). Nothing here imports numpy or llama.cpp.

Layout (version 3, little endian): magic, version u32, tensor count u64, key count u64;
then the keys (string, type u32, value), then per tensor name, dimension count u32,
dimensions u64, type u32, offset u64; then padding to `general.alignment`, then the data.
"""

from __future__ import annotations

import stat
import struct
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, Final

from app.gguf import first_bytes
from app.gguf.tensor_types import TENSOR_TYPES, tensor_bytes

MAGIC: Final = b"GGUF"
MAX_LAYERS: Final = 512  # LLAMA_MAX_LAYERS: llama.cpp keeps per-layer values in arrays of this size
MAX_KEY_BYTES: Final = 65535
MAX_KEPT_BYTES: Final = 32 * 1024 * 1024
MAX_COUNT: Final = 1 << 24
MAX_ALIGNMENT: Final = 1 << 20
MAX_DIMENSIONS: Final = 4
DEADLINE_S: Final = 2.0

Scalar = int | float | bool | str
Value = Scalar | list[Scalar]

_SCALARS: Final[dict[int, str]] = {
    0: "<B",
    1: "<b",
    2: "<H",
    3: "<h",
    4: "<I",
    5: "<i",
    6: "<f",
    7: "<?",
    10: "<Q",
    11: "<q",
    12: "<d",
}
_STRING: Final = 8
_ARRAY: Final = 9

NOT_GENERATING: Final = frozenset(
    {
        "bert",
        "clip",
        "cosmos",
        "eurobert",
        "flux",
        "gemma-embedding",
        "hidream",
        "hunyuan_video",
        "jina-bert-v2",
        "jina-bert-v3",
        "llama-embed",
        "ltxv",
        "lumina2",
        "modern-bert",
        "neo-bert",
        "nomic-bert",
        "nomic-bert-moe",
        "qwen_image",
        "sd1",
        "sd3",
        "sdxl",
        "t5encoder",
        "wan",
        "wavtokenizer-dec",
    }
)
"""Architectures that embed, look, draw or speak, but write no text."""

_NOT_WEIGHTS: Final = {
    "adapter": "a LoRA adapter, which needs the weights that it was made for",
    "mmproj": "a projector for images, which needs its language weights",
    "imatrix": "an importance matrix, which is used to make other files",
    "vocab": "a vocabulary without weights",
}


class HeaderRefused(Exception):  # noqa: N818
    """The file cannot be used. `kind` is one of `protocol.Failed`'s; `sentence` is for the user."""

    def __init__(self, kind: str, sentence: str, evidence: str = "") -> None:
        super().__init__(sentence)
        self.kind = kind
        self.sentence = sentence
        self.evidence = evidence


class _Fault(Exception):  # noqa: N818
    """What is wrong with the file, found where its name is not known: `words` go on from it."""

    def __init__(self, kind: str, words: str, evidence: str = "") -> None:
        super().__init__(words)
        self.kind = kind
        self.words = words
        self.evidence = evidence


MAIN_TEMPLATE: Final = "default"
"""How the file's main chat template is called, as in Transformers."""

_TEMPLATE_KEY: Final = "tokenizer.chat_template"


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """One row of the tensor table. `offset` counts from the header's `data_offset`."""

    name: str
    shape: tuple[int, ...]
    type_name: str
    offset: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Header:
    """What a GGUF file says about itself.

    `metadata` has every scalar and the arrays that were asked for; `array_counts` has the
    length of every array. `expected_bytes` is the size that the whole file must have.
    """

    path: Path
    size_bytes: int
    version: int
    metadata: dict[str, Value]
    array_counts: dict[str, int]
    tensors: tuple[TensorInfo, ...]
    data_offset: int
    expected_bytes: int

    @property
    def architecture(self) -> str:
        return str(self.metadata.get("general.architecture", ""))

    @property
    def name(self) -> str:
        """The name that the file gives itself, else its file name."""
        return str(self.metadata.get("general.name", "")).strip() or self.path.stem

    @property
    def kind(self) -> str:
        """`general.type`: model, adapter, mmproj, …; files that do not say are model files."""
        return str(self.metadata.get("general.type", "model"))

    @property
    def chat_template(self) -> str | None:
        template = self.metadata.get(_TEMPLATE_KEY)
        return template if isinstance(template, str) else None

    @property
    def template_names(self) -> list[str]:
        """Names of all chat templates: the main one as "default", then the others as the file
        has them (`tokenizer.chat_template.NAME`)."""
        start = f"{_TEMPLATE_KEY}."
        others = [
            key.removeprefix(start)
            for key, value in self.metadata.items()
            if key.startswith(start) and key != start and isinstance(value, str)
        ]
        has_main = bool((self.chat_template or "").strip())
        return [MAIN_TEMPLATE] * has_main + [name for name in others if name != MAIN_TEMPLATE]

    @property
    def n_layer(self) -> int | None:
        return self.number("block_count")

    @property
    def n_ctx_train(self) -> int | None:
        return self.number("context_length")

    @property
    def n_embd(self) -> int | None:
        return self.number("embedding_length")

    def number(self, key: str) -> int | None:
        """An integer stored under the architecture's own prefix (`llama.block_count`)."""
        value = self.metadata.get(f"{self.architecture}.{key}")
        return value if isinstance(value, int) and not isinstance(value, bool) else None


def read_header(
    path: Path | str,
    *,
    for_chat: bool = True,
    keep_arrays: frozenset[str] = frozenset(),
    deadline_s: float = DEADLINE_S,
) -> Header:
    """Read and check the header of `path`, or raise HeaderRefused.

    `for_chat` also refuses files that are whole but write no text (embedding weights,
    projectors, adapters). `keep_arrays` names arrays to keep as lists.
    """
    path = Path(path)
    size = _regular_size(path)
    try:
        with path.open("rb", buffering=1 << 16) as file:
            cursor = _Cursor(file, size, deadline_s)
            header = _read(path, cursor, keep_arrays)
    except OSError as error:
        raise _not_readable(path, error) from error
    except _Fault as fault:
        sentence = f"“{path.name}” {fault.words}"
        raise HeaderRefused(fault.kind, sentence, fault.evidence) from fault
    if for_chat:
        check_for_chat(header)
    return header


def check_for_chat(header: Header) -> None:
    """Raise HeaderRefused if the file is sound but cannot write text."""
    name = header.path.name
    if header.kind in _NOT_WEIGHTS:
        raise HeaderRefused(
            "not_a_chat_model",
            f"“{name}” is {_NOT_WEIGHTS[header.kind]}. Choose language weights instead.",
        )
    if not header.architecture:
        raise HeaderRefused(
            "unsupported",
            f"“{name}” does not say which architecture it holds, so it cannot be loaded. "
            "Choose another file.",
        )
    if header.architecture in NOT_GENERATING:
        raise HeaderRefused(
            "not_a_chat_model",
            f"“{name}” holds {header.architecture} weights, which do not write text. "
            "Choose language weights instead.",
        )
    layers = header.n_layer
    if layers is not None and not 0 < layers <= MAX_LAYERS:
        raise HeaderRefused(
            "unsupported",
            f"“{name}” says that it has {layers:,} layers; the engine takes at most {MAX_LAYERS}. "
            "The file is damaged, or it needs a newer engine.",
        )
    _check_parts(header)


def _check_parts(header: Header) -> None:
    """A split file is opened by its first part, with all others beside it."""
    count = header.metadata.get("split.count")
    if not isinstance(count, int) or count <= 1:
        return
    number = header.metadata.get("split.no")
    stem, dash, _ = header.path.stem.rpartition("-of-")
    prefix = stem.rpartition("-")[0]
    if not dash or count > 99999:
        return
    if isinstance(number, int) and number > 0:
        raise HeaderRefused(
            "unsupported",
            f"“{header.path.name}” is part {number + 1} of {count}. "
            f"Open “{prefix}-00001-of-{count:05d}.gguf”.",
        )
    for part in range(1, count + 1):
        other = header.path.with_name(f"{prefix}-{part:05d}-of-{count:05d}.gguf")
        if not other.exists():
            raise HeaderRefused(
                "incomplete_file",
                f"“{header.path.name}” has {count} parts and “{other.name}” is missing. "
                "Download that into the same folder.",
            )


def _regular_size(path: Path) -> int:
    try:
        info = path.stat()
    except (FileNotFoundError, NotADirectoryError) as error:
        raise HeaderRefused(
            "missing_file",
            f"There is no file “{path}” any more. Choose another file, or put it back.",
            str(error),
        ) from error
    except (OSError, ValueError) as error:
        raise _not_readable(path, error) from error
    if stat.S_ISDIR(info.st_mode):
        raise HeaderRefused(
            "not_a_gguf", f"“{path.name}” is a folder. Choose a file that ends in .gguf inside it."
        )
    if not stat.S_ISREG(info.st_mode):
        raise HeaderRefused(
            "not_a_gguf", f"“{path.name}” is a device or a pipe. Choose a file that ends in .gguf."
        )
    return info.st_size


def _not_readable(path: Path, error: Exception) -> HeaderRefused:
    return HeaderRefused(
        "not_readable",
        f"“{path}” cannot be read. Check its permissions and the disk that it lies on.",
        str(error),
    )


class _Cursor:
    """Reads forward through the file and refuses to look past its end."""

    def __init__(self, file: BinaryIO, size: int, deadline_s: float) -> None:
        self._file = file
        self._position = 0
        self._kept = 0
        self._ends_at = time.thread_time() + deadline_s
        self.size = size

    @property
    def position(self) -> int:
        return self._position

    @property
    def left(self) -> int:
        return self.size - self._position

    def take(self, count: int) -> bytes:
        """The next `count` bytes; they are counted as kept."""
        self.need(count)
        self._kept += count
        if self._kept > MAX_KEPT_BYTES:
            raise _damaged("its header is larger than any real one")
        data = self._file.read(count)
        if len(data) != count:  # the file shrank while it was read
            raise _incomplete(self._position + len(data), None)
        self._position += count
        return data

    def rewind(self) -> None:
        self._file.seek(0)
        self._position = 0

    def skip(self, count: int) -> None:
        self.need(count)
        self._file.seek(count, 1)
        self._position += count

    def need(self, count: int) -> None:
        """Refuse if fewer than `count` bytes are left, or if the time is up."""
        if count > self.left:
            raise _incomplete(self.size, None)
        if time.thread_time() > self._ends_at:
            raise _damaged("its header takes too long to read")

    def number(self, form: str) -> int:
        value = self.unpack(form)
        return int(value)

    def unpack(self, form: str) -> int | float | bool:
        value: int | float | bool = struct.unpack(form, self.take(struct.calcsize(form)))[0]
        return value

    def text(self, limit: int = MAX_KEPT_BYTES) -> str:
        length = self.number("<Q")
        if length > limit:
            raise (
                _incomplete(self.size, None)
                if length > self.left
                else _damaged(f"it holds a name of {length:,} bytes")
            )
        return self.take(length).decode("utf-8", "replace")

    def texts(self, count: int) -> list[Scalar]:
        """The next `count` strings, kept."""
        sized = struct.Struct("<Q").unpack
        found: list[Scalar] = []
        for _ in range(count):
            (length,) = sized(self.take(8))
            found.append(self.take(length).decode("utf-8", "replace"))
        return found

    def skip_texts(self, count: int) -> None:
        """Skip `count` strings. Reads in large pieces: vocabularies have 262,144 of them."""
        unpack = struct.Struct("<Q").unpack_from
        buffer, at = b"", 0
        while count:
            if len(buffer) - at < 8:
                self.need(8)
                buffer, at = self._refill(buffer[at:]), 0
            (length,) = unpack(buffer, at)
            at += 8 + length
            self._position += 8 + length
            if self._position > self.size:
                raise _incomplete(self.size, None)
            if at > len(buffer):
                self._file.seek(at - len(buffer), 1)
                buffer, at = b"", 0
            count -= 1
        self._file.seek(at - len(buffer), 1)

    def _refill(self, rest: bytes) -> bytes:
        data = rest + self._file.read(1 << 18)
        if len(data) < 8:
            raise _incomplete(self.size, None)
        return data


def _damaged(reason: str, evidence: str = "") -> _Fault:
    """A file that starts as a GGUF and then says what cannot be."""
    return _Fault("not_a_gguf", f"is damaged: {reason}. Download it again.", evidence)


def _incomplete(have: int, expected: int | None) -> _Fault:
    """A file that ends too early; `expected` is None where it ends inside its own header."""
    if expected is None:
        words = f"is incomplete: it ends after {have:,} bytes, inside its own header."
    else:
        words = f"is incomplete: {have:,} of {expected:,} bytes."
    return _Fault("incomplete_file", f"{words} Download it again.")


def _read(path: Path, cursor: _Cursor, keep_arrays: frozenset[str]) -> Header:
    version = _read_start(path, cursor)
    n_tensors = _checked_count(cursor, "tensors", smallest=8 + 1 + 4 + 8 + 4 + 8)
    n_keys = _checked_count(cursor, "keys", smallest=8 + 1 + 4 + 1, also=n_tensors * 33)
    entries = _Entries(keep_arrays)
    for _ in range(n_keys):
        entries.read_one(cursor)
    tensors = tuple(_read_tensor(cursor) for _ in range(n_tensors))
    _check_names(tensors)
    data_offset = _padded(cursor.position, _alignment(entries.metadata))
    if not tensors:
        data_offset = cursor.position
    expected = max((data_offset + t.offset + t.size_bytes for t in tensors), default=data_offset)
    if expected > cursor.size:
        raise _incomplete(cursor.size, expected)
    return Header(
        path=path,
        size_bytes=cursor.size,
        version=version,
        metadata=entries.metadata,
        array_counts=entries.array_counts,
        tensors=tensors,
        data_offset=data_offset,
        expected_bytes=expected,
    )


def _read_start(path: Path, cursor: _Cursor) -> int:
    """Check magic and version; name what the file is if it is no GGUF."""
    first = cursor.take(min(first_bytes.ENOUGH_BYTES, cursor.size))
    cursor.rewind()
    if not first.startswith(MAGIC):
        if first and MAGIC.startswith(first):
            raise _incomplete(cursor.size, None)
        what = first_bytes.describe(first)
        raise HeaderRefused(
            "not_a_gguf",
            f"“{path.name}” is {what}. {first_bytes.advice(what)}",
            f"first bytes: {first[:16].hex(' ')}",
        )
    cursor.skip(4)
    version = cursor.number("<I")
    if version in (2, 3):
        return version
    if int.from_bytes(version.to_bytes(4, "little"), "big") in (2, 3):
        words = "was written for big-endian machines, which the engine does not read"
    elif version == 1:
        words = "has GGUF version 1, which is no longer read"
    else:
        words = f"has GGUF version {version}, which needs a newer engine"
    raise HeaderRefused("unsupported", f"“{path.name}” {words}. Choose another file.")


def _checked_count(cursor: _Cursor, what: str, smallest: int, also: int = 0) -> int:
    """A count whose items, at their smallest, fit into the bytes that are left."""
    count = cursor.number("<Q")
    if count > MAX_COUNT:
        raise _damaged(f"it claims to have {count:,} {what}")
    if count * smallest + also > cursor.left:
        raise _incomplete(cursor.size, None)
    return count


@dataclass(slots=True)
class _Entries:
    """The key-value part while it is read."""

    keep_arrays: frozenset[str]
    metadata: dict[str, Value] = field(default_factory=dict)
    array_counts: dict[str, int] = field(default_factory=dict)

    def read_one(self, cursor: _Cursor) -> None:
        key = cursor.text(MAX_KEY_BYTES)
        if key in self.metadata or key in self.array_counts:
            raise _damaged(f"it has the key “{key[:80]}” twice")
        kind = cursor.number("<I")
        if kind == _ARRAY:
            self._read_array(key, cursor)
        else:
            self.metadata[key] = _read_scalar(kind, cursor)

    def _read_array(self, key: str, cursor: _Cursor) -> None:
        kind = cursor.number("<I")
        item = _item_bytes(kind)
        count = cursor.number("<Q")
        if count * item > cursor.left:
            raise _incomplete(cursor.size, None)
        self.array_counts[key] = count
        if key in self.keep_arrays:
            self.metadata[key] = _read_items(kind, count, cursor)
        elif kind == _STRING:
            cursor.skip_texts(count)
        else:
            cursor.skip(count * item)


def _item_bytes(kind: int) -> int:
    """Bytes of one array item; for strings the smallest."""
    if kind == _STRING:
        return 8
    form = _SCALARS.get(kind)
    if form is None:
        raise _damaged("it holds a value of an unknown kind", f"array type {kind}")
    return struct.calcsize(form)


def _read_items(kind: int, count: int, cursor: _Cursor) -> list[Scalar]:
    """All items of an array, at once: vocabularies have 262,144 of them."""
    if kind == _STRING:
        return cursor.texts(count)
    form = _SCALARS[kind]
    data = cursor.take(count * struct.calcsize(form))
    return list(struct.unpack(f"<{count}{form[1]}", data))


def _read_scalar(kind: int, cursor: _Cursor) -> Scalar:
    if kind == _STRING:
        return cursor.text()
    form = _SCALARS.get(kind)
    if form is None:
        raise _damaged("it holds a value of an unknown kind", f"value type {kind}")
    return cursor.unpack(form)


def _read_tensor(cursor: _Cursor) -> TensorInfo:
    name = cursor.text(MAX_KEY_BYTES)
    dimensions = cursor.number("<I")
    if dimensions > MAX_DIMENSIONS:
        raise _damaged(f"tensor “{name[:80]}” has {dimensions:,} dimensions")
    shape = tuple(cursor.number("<Q") for _ in range(dimensions))
    if any(extent >= 1 << 63 for extent in shape):
        raise _damaged(f"tensor “{name[:80]}” has an impossible shape", str(shape))
    number, offset = cursor.number("<I"), cursor.number("<Q")
    tensor_type = TENSOR_TYPES.get(number)
    if tensor_type is None:
        raise _Fault(
            "unsupported",
            "uses a tensor type that this engine does not know: it needs a newer engine. "
            "Choose another file.",
            f"tensor {name[:80]!r} has type {number}",
        )
    try:
        size = tensor_bytes(shape, tensor_type)
    except ValueError as error:
        raise _damaged(f"tensor “{name[:80]}” has an impossible shape", str(error)) from error
    if size >= 1 << 63 or offset >= 1 << 63:
        raise _damaged(f"tensor “{name[:80]}” has an impossible size", str(shape))
    return TensorInfo(name, shape, tensor_type.name, offset, size)


def _check_names(tensors: tuple[TensorInfo, ...]) -> None:
    if len({tensor.name for tensor in tensors}) != len(tensors):
        raise _damaged("it lists a tensor twice")


def _alignment(metadata: dict[str, Value]) -> int:
    value = metadata.get("general.alignment", 32)
    if not isinstance(value, int) or value <= 0 or value & (value - 1) or value > MAX_ALIGNMENT:
        raise _damaged("its alignment is not a sensible power of two", f"alignment {value!r}")
    return value


def _padded(position: int, alignment: int) -> int:
    return -(-position // alignment) * alignment
