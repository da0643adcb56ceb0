"""Reads the header of a GGUF: metadata and tensor table, never the weights.

The source is untrusted. `cursor.py` checks every size against the bytes that are left and bounds
memory and time: 64 MiB and two seconds of this thread's processor time, whatever the file says.
Arrays are skipped unless they are asked for. Nothing here imports numpy or llama.cpp.

Layout (version 3, little endian): magic, version u32, tensor count u64, key count u64; then the
keys (string, type u32, value), then per tensor name, dimension count u32, dimensions u64, type u32,
offset u64; then padding to `general.alignment`, then the data. What ggml's reader (`gguf.cpp`) does
not take, or would abort at, is refused here first. `tests/app/gguf/test_hostile.py` mutates each
field and measures time and memory of it.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from app.gguf import first_bytes
from app.gguf.cursor import Cursor
from app.gguf.local.split_names import piece_of
from app.gguf.refusal import Fault, HeaderRefused, damaged, incomplete
from app.gguf.source import FileSource, NotAFile, Source
from app.gguf.tensor_types import TENSOR_TYPES, tensor_bytes

MAGIC: Final = b"GGUF"
MAX_KEY_BYTES: Final = 65535
MAX_NAME_BYTES: Final = 1024
MAX_KEYS: Final = 1 << 14
MAX_TENSORS: Final = 1 << 15
MAX_COUNT: Final = 1 << 24
"""A count above this is a lie; one below may be cut short."""

MAX_TEXT_BYTES: Final = 32 << 20
MAX_KEPT_TEXT_BYTES: Final = 2 << 20
MAX_HELD_BYTES: Final = 40 << 20
MAX_SHOWN: Final = 1000
MAX_ALIGNMENT: Final = 1 << 20
MAX_DIMENSIONS: Final = 4
DEADLINE_S: Final = 2.0

SHORT: Final = 512
"""Arrays of up to so many items are kept unasked if their key ends with one of the following."""
KEPT_IF_SHORT: Final = (
    "general.languages",
    "general.tags",
    ".attention.head_count",
    ".attention.head_count_kv",
    ".attention.sliding_window_pattern",
    ".feed_forward_length",
    ".expert_used_count",
    ".rope.dimension_sections",
)

Scalar = int | float | bool | str
Value = Scalar | list[Scalar]

SCALARS: Final[dict[int, str]] = {
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
"""GGUF's value types as `struct` writes them."""
STRING: Final = 8
ARRAY: Final = 9
U32: Final = 4

KIND_NAMES: Final[dict[int, str]] = {
    0: "uint8",
    1: "int8",
    2: "uint16",
    3: "int16",
    4: "uint32",
    5: "int32",
    6: "float32",
    7: "bool",
    8: "string",
    9: "array",
    10: "uint64",
    11: "int64",
    12: "float64",
}

_HELD_PER_KEY: Final = 400
_HELD_PER_TENSOR: Final = 500
_HELD_PER_ITEM: Final = 48  # a number, its place in the list, and its bytes


MAIN_TEMPLATE: Final = "default"
"""How the file's main chat template is called, as in Transformers."""

TEMPLATE_KEY: Final = "tokenizer.chat_template"


@dataclass(frozen=True, slots=True)
class Entry:
    """Where a key lies: the entry itself from `start`, its value's bytes from `offset` to `end`
    (after the types and the length). `kind` is a GGUF value type; `item_kind` and `count` are
    those of an array, `count` of a string its bytes."""

    kind: int
    item_kind: int
    count: int
    start: int
    offset: int
    end: int

    @property
    def kind_name(self) -> str:
        """ "uint32", "string", "array of string"."""
        name = KIND_NAMES[self.kind]
        return f"{name} of {KIND_NAMES[self.item_kind]}" if self.kind == ARRAY else name


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

    `metadata` has every scalar, except texts over 2 MiB, and the arrays that were asked for or
    are short and say something of each layer or of the languages; `array_counts` has the length
    of every array, `entries` the place of every key. `expected_bytes` is the size that the whole
    file must have. `path` is a name alone where the source is no file.
    """

    path: Path
    size_bytes: int
    version: int
    metadata: dict[str, Value]
    array_counts: dict[str, int]
    tensors: tuple[TensorInfo, ...]
    data_offset: int
    expected_bytes: int
    entries: dict[str, Entry] = field(default_factory=dict)
    table_end: int = 0
    alignment: int = 32

    @property
    def architecture(self) -> str:
        return str(self.metadata.get("general.architecture", ""))

    @property
    def name(self) -> str:
        """The name that the file gives itself, else its file name. Never longer than a line."""
        return str(self.metadata.get("general.name", "")).strip()[:MAX_SHOWN] or self.path.stem

    @property
    def kind(self) -> str:
        """`general.type`: model, adapter, mmproj, …; files that do not say are model files."""
        return str(self.metadata.get("general.type", "model"))

    @property
    def chat_template(self) -> str | None:
        template = self.metadata.get(TEMPLATE_KEY)
        return template if isinstance(template, str) else None

    @property
    def template_names(self) -> list[str]:
        """Names of all chat templates: the main one as "default", then the others as the file
        has them (`tokenizer.chat_template.NAME`)."""
        start = f"{TEMPLATE_KEY}."
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
    keep_arrays: frozenset[str] = frozenset(),
    deadline_s: float = DEADLINE_S,
    max_held_bytes: int = MAX_HELD_BYTES,
) -> Header:
    """Read and check the header of `path`, or raise HeaderRefused.

    `keep_arrays` names arrays to keep as lists; large ones need more than the usual
    `max_held_bytes` of memory. Whether it can be chatted with is not asked: see `chat_check.py`.
    """
    with opened(Path(path)) as source:
        return read_header_of(
            source, keep_arrays, deadline_s=deadline_s, max_held_bytes=max_held_bytes
        )


def read_header_of(
    source: Source,
    keep_arrays: frozenset[str] = frozenset(),
    *,
    deadline_s: float = DEADLINE_S,
    max_held_bytes: int = MAX_HELD_BYTES,
) -> Header:
    """Read and check the header of any source, or raise HeaderRefused. The source stays open."""
    path = source.path if isinstance(source, FileSource) else Path(source.name)
    try:
        return _read(path, Cursor(source, deadline_s, max_held_bytes), keep_arrays)
    except OSError as error:
        raise _not_readable(path, error) from error
    except Fault as fault:
        sentence = f"“{path.name}” {fault.words}"
        if (whole := piece_of(path.name)) is not None:
            sentence = (
                f"“{path.name}” is only one piece of “{whole}”. Join all pieces into one file "
                "first, or download the whole file."
            )
        raise HeaderRefused(fault.kind, sentence, fault.evidence) from fault


def opened(path: Path) -> FileSource:
    """The file as a source, or HeaderRefused."""
    try:
        return FileSource(path)
    except (OSError, ValueError) as error:
        raise _not_opened(path, error) from error


def _not_opened(path: Path, error: Exception) -> HeaderRefused:
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        return HeaderRefused(
            "missing_file",
            f"“{path}” no longer exists. Choose another file or restore it.",
            str(error),
        )
    if isinstance(error, IsADirectoryError):
        return HeaderRefused(
            "not_a_gguf", f"“{path.name}” is a folder. Choose a file that ends in .gguf inside it."
        )
    if isinstance(error, NotAFile):
        return HeaderRefused(
            "not_a_gguf", f"“{path.name}” is a device or a pipe. Choose a file that ends in .gguf."
        )
    return _not_readable(path, error)


def _not_readable(path: Path, error: Exception) -> HeaderRefused:
    return HeaderRefused(
        "not_readable",
        f"“{path}” can't be read. Check its permissions and disk.",
        str(error),
    )


def _read(path: Path, cursor: Cursor, keep_arrays: frozenset[str]) -> Header:
    version = _read_start(cursor)
    n_tensors = _checked_count(cursor, "tensors", MAX_TENSORS, smallest=8 + 1 + 4 + 8 + 4 + 8)
    n_keys = _checked_count(cursor, "keys", MAX_KEYS, smallest=8 + 1 + 4 + 1, also=n_tensors * 33)
    found = _Metadata(keep_arrays)
    for _ in range(n_keys):
        found.read_one(cursor)
    tensors = tuple(_read_tensor(cursor) for _ in range(n_tensors))
    table_end = cursor.position
    alignment = _alignment(found)
    data_offset = padded(table_end, alignment) if tensors else table_end
    expected = max((data_offset + t.offset + t.size_bytes for t in tensors), default=data_offset)
    if expected > cursor.size:
        raise incomplete(cursor.size, expected)
    _check_table(tensors, alignment)
    return Header(
        path=path,
        size_bytes=cursor.size,
        version=version,
        metadata=found.metadata,
        array_counts=found.array_counts,
        tensors=tensors,
        data_offset=data_offset,
        expected_bytes=expected,
        entries=found.entries,
        table_end=table_end,
        alignment=alignment,
    )


def _read_start(cursor: Cursor) -> int:
    """Check magic and version; name what the file is if it is no GGUF."""
    first = cursor.peek(first_bytes.ENOUGH_BYTES)
    if not first.startswith(MAGIC):
        if first and MAGIC.startswith(first):
            raise incomplete(cursor.size, None)
        what = first_bytes.describe(first)
        raise Fault(
            "not_a_gguf",
            f"is {what}. {first_bytes.advice(what)}",
            f"first bytes: {first[:16].hex(' ')}",
        )
    cursor.skip(4)
    version = cursor.number("<I")
    if version in (2, 3):
        return version
    if int.from_bytes(version.to_bytes(4, "little"), "big") in (2, 3):
        words = "is in big-endian format, which isn't supported"
    elif version == 1:
        words = "uses GGUF version 1, which is no longer supported"
    else:
        words = f"uses GGUF version {version}, which needs a newer engine"
    raise Fault("unsupported", f"{words}. Choose another file.")


def _checked_count(cursor: Cursor, what: str, most: int, smallest: int, also: int = 0) -> int:
    """A count whose items, at their smallest, fit into the bytes that are left."""
    count = cursor.number("<Q")
    if count <= MAX_COUNT and count * smallest + also > cursor.left:
        raise incomplete(cursor.size, None)
    if count > most:
        raise damaged(f"it claims to have {count:,} {what}")
    return count


@dataclass(slots=True)
class _Metadata:
    """The key-value part while it is read."""

    keep_arrays: frozenset[str]
    metadata: dict[str, Value] = field(default_factory=dict)
    array_counts: dict[str, int] = field(default_factory=dict)
    entries: dict[str, Entry] = field(default_factory=dict)

    def read_one(self, cursor: Cursor) -> None:
        start = cursor.position
        cursor.hold(_HELD_PER_KEY)
        key = cursor.text(MAX_KEY_BYTES)
        if not key:
            raise damaged("it has a key without a name")
        if key in self.entries:
            raise damaged(f"it has the key “{key[:80]}” twice")
        kind, item_kind = cursor.number("<I"), 0
        if kind == ARRAY:
            item_kind, count = cursor.number("<I"), cursor.number("<Q")
            offset = cursor.position
            self._read_array(key, item_kind, count, cursor)
        elif kind == STRING:
            count = cursor.text_length(MAX_TEXT_BYTES)
            offset = cursor.position
            if count > MAX_KEPT_TEXT_BYTES:
                cursor.skip(count)
            else:
                self.metadata[key] = cursor.text_of(count)
        else:
            count, offset = 1, cursor.position
            self.metadata[key] = _read_number(kind, cursor)
        self.entries[key] = Entry(kind, item_kind, count, start, offset, cursor.position)

    def _read_array(self, key: str, kind: int, count: int, cursor: Cursor) -> None:
        item = _item_bytes(kind)
        if count * item > cursor.left:
            raise incomplete(cursor.size, None)
        self.array_counts[key] = count
        if key in self.keep_arrays or (count <= SHORT and key.endswith(KEPT_IF_SHORT)):
            self.metadata[key] = _read_items(kind, count, cursor)
        elif kind == STRING:
            cursor.skip_texts(count)
        else:
            cursor.skip(count * item)


def _item_bytes(kind: int) -> int:
    """Bytes of one array item; for strings the smallest."""
    if kind == STRING:
        return 8
    form = SCALARS.get(kind)
    if form is None:
        raise damaged("it contains a value of an unknown type", f"array type {kind}")
    return struct.calcsize(form)


def _read_items(kind: int, count: int, cursor: Cursor) -> list[Scalar]:
    """All items of an array, at once: vocabularies have 262,144 of them."""
    if kind == STRING:
        return list(cursor.texts(count, MAX_KEPT_TEXT_BYTES))
    form = SCALARS[kind]
    cursor.hold(count * _HELD_PER_ITEM)
    return list(struct.unpack(f"<{count}{form[1]}", cursor.take(count * struct.calcsize(form))))


def _read_number(kind: int, cursor: Cursor) -> Scalar:
    form = SCALARS.get(kind)
    if form is None:
        raise damaged("it contains a value of an unknown type", f"value type {kind}")
    return cursor.unpack(form)


def _read_tensor(cursor: Cursor) -> TensorInfo:
    cursor.hold(_HELD_PER_TENSOR)
    name = cursor.text(MAX_NAME_BYTES)
    dimensions = cursor.number("<I")
    if dimensions > MAX_DIMENSIONS:
        raise damaged(f"tensor “{name[:80]}” has {dimensions:,} dimensions")
    *extents, number, offset = cursor.numbers(f"<{dimensions}QIQ")
    shape = tuple(extents)
    if not all(0 < extent < 1 << 63 for extent in shape):
        raise damaged(f"tensor “{name[:80]}” has an impossible shape", str(shape))
    tensor_type = TENSOR_TYPES.get(number)
    if tensor_type is None:
        raise Fault(
            "unsupported",
            "uses an unknown tensor type, so it needs a newer engine. Choose another file.",
            f"tensor {name[:80]!r} has type {number}",
        )
    try:
        size = tensor_bytes(shape, tensor_type)
    except ValueError as error:
        raise damaged(f"tensor “{name[:80]}” has an impossible shape", str(error)) from error
    if size >= 1 << 63 or offset >= 1 << 63:
        raise damaged(f"tensor “{name[:80]}” has an impossible size", str(shape))
    return TensorInfo(name, shape, tensor_type.name, offset, size)


def _check_table(tensors: tuple[TensorInfo, ...], alignment: int) -> None:
    """Each tensor begins where the one before ends, padded: ggml takes no other file."""
    if len({tensor.name for tensor in tensors}) != len(tensors):
        raise damaged("it lists a tensor twice")
    begins = 0
    for tensor in tensors:
        if tensor.offset != begins:
            raise damaged(
                f"tensor “{tensor.name[:80]}” doesn't follow the previous one",
                f"offset {tensor.offset}, expected {begins}",
            )
        begins += padded(tensor.size_bytes, alignment)


def _alignment(found: _Metadata) -> int:
    value, entry = found.metadata.get("general.alignment"), found.entries.get("general.alignment")
    if entry is None:
        return 32
    is_number = entry.kind == U32 and isinstance(value, int)  # ggml aborts at any other kind
    if not is_number or not isinstance(value, int) or not 0 < value <= MAX_ALIGNMENT:
        raise damaged("its alignment isn't a valid power of two", f"alignment {value!r}")
    if value & (value - 1):
        raise damaged("its alignment isn't a valid power of two", f"alignment {value!r}")
    return value


def padded(position: int, alignment: int) -> int:
    """The next position that is a multiple of the alignment."""
    return -(-position // alignment) * alignment
