"""Small GGUF files for tests: written here byte by byte, damaged here on purpose.

`write_gguf` writes any metadata and tensors. `tiny_llama` builds a whole llama-type file of
some tens of kB that llama.cpp loads and decodes: seeded random weights, or, with `successors`,
weights that say exactly what a test wants to hear. Both return a `Layout`, which tells where
each part of the file lies, so that it can be cut and overwritten at telling places.

    vocabulary = bpe_vocabulary(["hello", " world"])
    hello, world = vocabulary.id_of("hello"), vocabulary.id_of(" world")
    tiny_llama(path, vocabulary=vocabulary,
               successors={hello: world, world: vocabulary.eos_id})

Only the standard library: numpy must not enter a process before llama.cpp's library, and the
file under test must not be written by the code that reads it.
"""

from __future__ import annotations

import array
import functools
import itertools
import math
import random
import struct
import sys
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

MAGIC: Final = b"GGUF"
DEFAULT_ALIGNMENT: Final = 32

CHATML: Final = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)

# llama.cpp's token types (llama_token_type)
NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = 1, 2, 3, 4, 5, 6

_SCALARS: Final = {
    "u8": (0, "<B"),
    "i8": (1, "<b"),
    "u16": (2, "<H"),
    "i16": (3, "<h"),
    "u32": (4, "<I"),
    "i32": (5, "<i"),
    "f32": (6, "<f"),
    "bool": (7, "<?"),
    "u64": (10, "<Q"),
    "i64": (11, "<q"),
    "f64": (12, "<d"),
}
_STRING: Final = 8
_ARRAY: Final = 9
_IS_LITTLE_ENDIAN: Final = sys.byteorder == "little"
_TENSOR_TYPES: Final = {"f32": (0, "f", 4), "f16": (1, "e", 2)}


@dataclass(frozen=True)
class Typed:
    """A metadata value whose GGUF type matters: `Typed("u64", 5)`, `Typed("raw", b"…")`.

    "raw" is written as it is, type number included: for files that no writer should make.
    """

    kind: str
    value: Any


@dataclass(frozen=True)
class Tensor:
    """One tensor. `shape` is in ggml's order (fastest first); `values` are flat.

    `type_id`, `stored_shape` and `stored_offset` replace what the table says, to lie in it.
    """

    shape: tuple[int, ...]
    values: Sequence[float]
    kind: str = "f32"
    type_id: int | None = None
    stored_shape: tuple[int, ...] | None = None
    stored_offset: int | None = None

    @functools.cached_property
    def data(self) -> bytes:
        code = _TENSOR_TYPES[self.kind][1]
        values = self.values
        if isinstance(values, array.array) and values.typecode == code and _IS_LITTLE_ENDIAN:
            return values.tobytes()
        if isinstance(values, array.array) and values.typecode == "d" and code in ("e", "f"):
            import numpy

            return numpy.frombuffer(values).astype(f"<{code}").tobytes()
        return struct.pack(f"<{len(self.values)}{code}", *self.values)


def normal_numbers(source: random.Random, count: int, spread: float) -> array.array[float]:
    """`count` times `source.gauss(0.0, spread)`, thirty times as fast. `gauss` makes two numbers of
    two others, and keeps the second one for the next call."""
    import numpy

    version, (*state, at), kept = source.getstate()
    twister = numpy.random.RandomState()
    twister.set_state(("MT19937", state, at))
    kept_ones = [] if kept is None else [kept]
    n_pairs = (count - len(kept_ones) + 1) // 2
    angle, chance = twister.random_sample(2 * n_pairs).reshape(-1, 2).T
    length = numpy.sqrt(-2.0 * numpy.log(1.0 - chance))
    turned = numpy.stack([numpy.cos(angle * math.tau), numpy.sin(angle * math.tau)], axis=1)
    found = numpy.concatenate([kept_ones, (turned * length[:, None]).reshape(-1)])
    _, state, at, *_ = twister.get_state()
    rest = float(found[count]) if len(found) > count else None
    source.setstate((version, (*state.tolist(), at), rest))
    return array.array("d", (found[:count] * spread).tobytes())


@dataclass(frozen=True)
class Layout:
    """Where the parts of a written file lie, in bytes from its beginning."""

    metadata_start: int
    tensor_table_start: int
    data_start: int
    size: int
    keys: Mapping[str, int] = field(default_factory=dict)
    tensors: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """name -> (offset of its first byte, number of bytes)"""

    def cut_points(self) -> list[int]:
        """Telling lengths to cut the file to: every part's end, one byte less, one more."""
        ends = [4, 8, 24, self.metadata_start, self.tensor_table_start, self.data_start]
        ends += list(self.keys.values())
        for start, size in self.tensors.values():
            ends += [start, start + size]
        points = {end + step for end in ends for step in (-1, 0, 1)}
        return sorted(point for point in points if 0 <= point < self.size)


# --- the file format --------------------------------------------------------------------------


def _string(text: str | bytes) -> bytes:
    data = text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")
    return struct.pack("<Q", len(data)) + data


def _kind_of(value: Any) -> str:
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int):
        if value < 0:
            return "i32" if value >= -(2**31) else "i64"
        return "u32" if value < 2**32 else "u64"
    if isinstance(value, float):
        return "f32"
    if isinstance(value, (str, bytes)):
        return "string"
    raise TypeError(f"{type(value).__name__} has no GGUF type")


def _array(values: Sequence[Any], kind: str | None) -> bytes:
    if kind is None:
        kind = _kind_of(values[0]) if values else "u32"
        if kind in ("u32", "u64") and all(-(2**31) <= value < 2**31 for value in values):
            kind = "i32"
    if kind == "string":
        body = b"".join(_string(value) for value in values)
        return struct.pack("<IQ", _STRING, len(values)) + body
    number, code = _SCALARS[kind]
    return struct.pack("<IQ", number, len(values)) + b"".join(map(struct.Struct(code).pack, values))


def _value(value: Any) -> bytes:
    """A metadata value with its type number before it."""
    kind = None
    if isinstance(value, Typed):
        if value.kind == "raw":
            return bytes(value.value)
        kind, value = value.kind, value.value
        if kind.startswith("array:"):
            return struct.pack("<I", _ARRAY) + _array(value, kind.removeprefix("array:"))
    if isinstance(value, (list, tuple)):
        return struct.pack("<I", _ARRAY) + _array(value, kind)
    kind = kind or _kind_of(value)
    if kind == "string":
        return struct.pack("<I", _STRING) + _string(value)
    number, code = _SCALARS[kind]
    return struct.pack("<I", number) + struct.pack(code, value)


def write_gguf(
    path: Path,
    *,
    architecture: str | None = "llama",
    vocabulary: Vocabulary | None = None,
    template: str | None = None,
    metadata: Mapping[str, Any] | None = None,
    tensors: Mapping[str, Tensor] | None = None,
    version: int = 3,
    alignment: int = DEFAULT_ALIGNMENT,
    n_tensors: int | None = None,
    n_metadata: int | None = None,
) -> Layout:
    """Write one GGUF file and say where its parts lie.

    `metadata` is written last and wins; a value of None leaves the key out. `n_tensors` and
    `n_metadata` replace the true counts in the header.
    """
    pairs: dict[str, Any] = {"general.architecture": architecture}
    if alignment != DEFAULT_ALIGNMENT:
        pairs["general.alignment"] = alignment
    if vocabulary is not None:
        pairs |= vocabulary.metadata()
    pairs["tokenizer.chat_template"] = template
    pairs |= metadata or {}
    pairs = {key: value for key, value in pairs.items() if value is not None}
    tensors = tensors or {}

    counts = (
        len(tensors) if n_tensors is None else n_tensors,
        len(pairs) if n_metadata is None else n_metadata,
    )
    out = bytearray(MAGIC + struct.pack("<IQQ", version, *counts))
    metadata_start = len(out)
    keys = {}
    for key, value in pairs.items():
        out += _string(key) + _value(value)
        keys[key] = len(out)
    tensor_table_start = len(out)

    data = bytearray()
    places = {}
    for name, tensor in tensors.items():
        data += bytes(-len(data) % alignment)
        body = tensor.data
        places[name] = (len(data), len(body))
        shape = tensor.stored_shape or tensor.shape
        offset = len(data) if tensor.stored_offset is None else tensor.stored_offset
        type_id = _TENSOR_TYPES[tensor.kind][0] if tensor.type_id is None else tensor.type_id
        out += _string(name) + struct.pack(f"<I{len(shape)}Q", len(shape), *shape)
        out += struct.pack("<IQ", type_id, offset)
        data += body
    data += bytes(-len(data) % alignment)
    out += bytes(-len(out) % alignment)
    data_start = len(out)

    path.write_bytes(bytes(out + data))
    return Layout(
        metadata_start=metadata_start,
        tensor_table_start=tensor_table_start,
        data_start=data_start,
        size=data_start + len(data),
        keys=keys,
        tensors={name: (data_start + at, size) for name, (at, size) in places.items()},
    )


# --- vocabularies -----------------------------------------------------------------------------


@dataclass(frozen=True)
class Vocabulary:
    """A tokeniser as GGUF stores it. `model` "llama" is SentencePiece, "gpt2" byte-level BPE."""

    model: str
    tokens: Sequence[str | bytes]
    types: Sequence[int]
    scores: Sequence[float] = ()
    merges: Sequence[str] = ()
    pre: str | None = None
    bos_id: int | None = None
    eos_id: int | None = None
    eot_id: int | None = None
    unk_id: int | None = None
    add_bos: bool = False
    add_eos: bool = False
    add_space_prefix: bool | None = None

    def __len__(self) -> int:
        return len(self.tokens)

    def id_of(self, text: str) -> int:
        """The ID of the token with this text: as people write it, or as the file holds it."""
        for spelling in (text, _spm_text(text), _bpe_text(text)):
            if spelling in self.tokens:
                return self.tokens.index(spelling)
        raise KeyError(text)

    def id_of_byte(self, byte: int) -> int:
        """The ID of the token that is this one byte."""
        if self.model == "llama":
            return self.tokens.index(f"<0x{byte:02X}>")
        return self.tokens.index(_BYTE_TO_UNICODE[byte])

    def metadata(self) -> dict[str, Any]:
        prefix = "tokenizer.ggml."
        pairs: dict[str, Any] = {
            "model": self.model,
            "pre": self.pre,
            "tokens": Typed("array:string", list(self.tokens)),
            "scores": Typed("array:f32", list(self.scores)) if self.scores else None,
            "token_type": Typed("array:i32", list(self.types)),
            "merges": Typed("array:string", list(self.merges)) if self.merges else None,
            "bos_token_id": self.bos_id,
            "eos_token_id": self.eos_id,
            "eot_token_id": self.eot_id,
            "unknown_token_id": self.unk_id,
            "add_bos_token": self.add_bos,
            "add_eos_token": self.add_eos or None,
            "add_space_prefix": self.add_space_prefix,
        }
        return {prefix + key: value for key, value in pairs.items()}


CHAT_TOKENS: Final = ("<|im_start|>", "<|im_end|>")
WORDS: Final = (
    " the",
    " a",
    " is",
    " of",
    " and",
    " hello",
    " world",
    " capital",
    " France",
    " Paris",
    "user",
    "assistant",
    "system",
)


def _spm_text(text: str) -> str:
    return text.replace(" ", "\N{LOWER ONE EIGHTH BLOCK}")


def _bytes_to_unicode() -> dict[int, str]:
    """GPT-2's table: printable bytes are themselves, the others move up from U+0100."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    table = {byte: chr(byte) for byte in printable}
    others = (byte for byte in range(256) if byte not in table)
    return table | {byte: chr(256 + n) for n, byte in enumerate(others)}


_BYTE_TO_UNICODE: Final = _bytes_to_unicode()


def _bpe_text(text: str) -> str:
    return "".join(_BYTE_TO_UNICODE[byte] for byte in text.encode("utf-8", "surrogatepass"))


def spm_vocabulary(
    words: Iterable[str] = WORDS,
    *,
    control: Sequence[str] = CHAT_TOKENS,
    user_defined: Sequence[str] = (),
    byte_tokens: bool = True,
    byte_type: int = BYTE,
    add_bos: bool = True,
    add_space_prefix: bool | None = None,
) -> Vocabulary:
    """A SentencePiece vocabulary: <unk>, <s>, </s>, 256 bytes, control tokens, pieces.

    SentencePiece merges neighbours whose joined text is a piece, best score first. So each
    word brings its own beginnings along ("he", "hel", "hell", "hello"), in this order.
    """
    rows: list[tuple[str, int, float]] = [
        ("<unk>", UNKNOWN, 0.0),
        ("<s>", CONTROL, 0.0),
        ("</s>", CONTROL, 0.0),
    ]
    if byte_tokens:
        rows += [(f"<0x{byte:02X}>", byte_type, 0.0) for byte in range(256)]
    rows += [(text, CONTROL, 0.0) for text in control]
    rows += [(text, USER_DEFINED, 0.0) for text in user_defined]
    letters = [chr(code) for code in range(0x21, 0x7F)]
    pieces = dict.fromkeys(
        piece
        for word in map(_spm_text, words)
        for piece in itertools.accumulate(word)
        if len(piece) > 1
    )
    singles = dict.fromkeys([_spm_text(" "), *letters, *(c for w in words for c in _spm_text(w))])
    rows += [(piece, NORMAL, -float(n)) for n, piece in enumerate(pieces, start=1)]
    rows += [(single, NORMAL, -1000.0 - n) for n, single in enumerate(singles)]
    texts = [row[0] for row in rows]
    eot = texts.index(control[-1]) if control else None
    return Vocabulary(
        model="llama",
        pre="default",
        tokens=texts,
        types=[row[1] for row in rows],
        scores=[row[2] for row in rows],
        bos_id=1,
        eos_id=2,
        eot_id=eot,
        unk_id=0,
        add_bos=add_bos,
        add_space_prefix=add_space_prefix,
    )


def bpe_vocabulary(
    words: Iterable[str] = WORDS,
    *,
    control: Sequence[str] = CHAT_TOKENS,
    user_defined: Sequence[str] = (),
    pre: str = "gpt-2",
    add_bos: bool = False,
) -> Vocabulary:
    """A byte-level BPE vocabulary: <|endoftext|>, control tokens, 256 bytes, merged words.

    The first control token after <|endoftext|> is BOS, the last one the end of a turn.
    """
    texts: list[str] = ["<|endoftext|>", *control]
    types = [CONTROL] * len(texts)
    texts += list(user_defined)
    types += [USER_DEFINED] * len(user_defined)
    texts += [_BYTE_TO_UNICODE[byte] for byte in range(256)]
    merges: dict[str, None] = {}
    merged: dict[str, None] = {}
    for word in map(_bpe_text, words):
        for end in range(2, len(word) + 1):
            merges[f"{word[: end - 1]} {word[end - 1]}"] = None
            merged[word[:end]] = None
    texts += list(merged)
    types += [NORMAL] * (len(texts) - len(types))
    return Vocabulary(
        model="gpt2",
        pre=pre,
        tokens=texts,
        types=types,
        merges=list(merges),
        bos_id=1 if control else 0,
        eos_id=0,
        eot_id=texts.index(control[-1]) if control else None,
        add_bos=add_bos,
    )


# --- whole files ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Shape:
    """The sizes of a tiny network. `n_embd` is a multiple of `2 * n_head`."""

    n_embd: int = 64
    n_layer: int = 2
    n_head: int = 4
    n_head_kv: int = 2
    n_ff: int = 64
    n_expert: int = 0
    """Experts per layer, two of them used; 0: one dense network, as usual."""

    @property
    def n_embd_kv(self) -> int:
        return self.n_embd // self.n_head * self.n_head_kv


def tiny_llama(
    path: Path,
    *,
    architecture: str | None = "llama",
    vocabulary: Vocabulary | None = None,
    template: str | None = CHATML,
    shape: Shape | None = None,
    n_ctx_train: int = 512,
    kind: str = "f16",
    seed: int = 0,
    successors: Mapping[int, int] | None = None,
    otherwise: int | None = None,
    logit: float = 30.0,
    metadata: Mapping[str, Any] | None = None,
    extra_tensors: Mapping[str, Tensor] | None = None,
    **options: Any,
) -> Layout:
    """Write a complete llama-type file that llama.cpp loads (about 150 kB).

    Without `successors` the weights are random, seeded by `seed`. With them the file says
    after token t the token successors[t], and after any other token `otherwise` (the end
    token if not given); `logit` is how far the chosen token stands above all others, which
    are at 0. `extra_tensors` stand beside the usual ones; `metadata` and the remaining options go
    to `write_gguf`.
    """
    vocabulary = vocabulary or bpe_vocabulary()
    shape = shape or Shape()
    if successors is None:
        tensors = dict(_random_tensors(shape, len(vocabulary), kind, seed))
    else:
        if otherwise is None:
            otherwise = vocabulary.eos_id or 0
        tensors = _successor_tensors(shape, len(vocabulary), successors, otherwise, logit)
    prefix = architecture or "llama"
    pairs: dict[str, Any] = {
        "general.name": "Tiny test file",
        "general.file_type": _TENSOR_TYPES[kind][0],
        f"{prefix}.context_length": n_ctx_train,
        f"{prefix}.embedding_length": shape.n_embd,
        f"{prefix}.block_count": shape.n_layer,
        f"{prefix}.feed_forward_length": shape.n_ff,
        f"{prefix}.attention.head_count": shape.n_head,
        f"{prefix}.attention.head_count_kv": shape.n_head_kv,
        f"{prefix}.attention.layer_norm_rms_epsilon": 1e-5,
        f"{prefix}.rope.dimension_count": shape.n_embd // shape.n_head,
        f"{prefix}.rope.freq_base": 10000.0,
        f"{prefix}.vocab_size": len(vocabulary),
    }
    if shape.n_expert:
        pairs |= {f"{prefix}.expert_count": shape.n_expert, f"{prefix}.expert_used_count": 2}
    return write_gguf(
        path,
        architecture=architecture,
        vocabulary=vocabulary,
        template=template,
        metadata=pairs | dict(metadata or {}),
        tensors=tensors | dict(extra_tensors or {}),
        **options,
    )


def _matrices(shape: Shape, n_vocab: int) -> dict[str, tuple[int, ...]]:
    """Every tensor of a llama-type file and its shape, in ggml's order."""
    shapes: dict[str, tuple[int, ...]] = {"token_embd.weight": (shape.n_embd, n_vocab)}
    for layer in range(shape.n_layer):
        shapes |= {
            f"blk.{layer}.attn_norm.weight": (shape.n_embd,),
            f"blk.{layer}.attn_q.weight": (shape.n_embd, shape.n_embd),
            f"blk.{layer}.attn_k.weight": (shape.n_embd, shape.n_embd_kv),
            f"blk.{layer}.attn_v.weight": (shape.n_embd, shape.n_embd_kv),
            f"blk.{layer}.attn_output.weight": (shape.n_embd, shape.n_embd),
            f"blk.{layer}.ffn_norm.weight": (shape.n_embd,),
        }
        ending = "_exps.weight" if shape.n_expert else ".weight"
        experts = (shape.n_expert,) if shape.n_expert else ()
        shapes |= {
            f"blk.{layer}.ffn_gate{ending}": (shape.n_embd, shape.n_ff, *experts),
            f"blk.{layer}.ffn_up{ending}": (shape.n_embd, shape.n_ff, *experts),
            f"blk.{layer}.ffn_down{ending}": (shape.n_ff, shape.n_embd, *experts),
        }
        if experts:
            shapes[f"blk.{layer}.ffn_gate_inp.weight"] = (shape.n_embd, shape.n_expert)
    shapes["output_norm.weight"] = (shape.n_embd,)
    shapes["output.weight"] = (shape.n_embd, n_vocab)
    return shapes


@functools.cache
def _random_tensors(shape: Shape, n_vocab: int, kind: str, seed: int) -> Mapping[str, Tensor]:
    """Made once: a hundred thousand random numbers take 40 ms, and files are written by hundreds
    of tests."""
    source, tensors = random.Random(seed), {}
    for name, extents in _matrices(shape, n_vocab).items():
        if len(extents) == 1:
            tensors[name] = Tensor(extents, [1.0] * extents[0])
            continue
        count = math.prod(extents)
        tensors[name] = Tensor(extents, normal_numbers(source, count, 0.2), kind)
    return tensors


def _successor_tensors(
    shape: Shape, n_vocab: int, successors: Mapping[int, int], otherwise: int, logit: float
) -> dict[str, Tensor]:
    """Weights that are a table. Layers add nothing, so that the residual stream stays the
    embedding; each token of the table has a direction of its own (a one-hot vector), all
    others share direction 0; and the output row of a token points along the directions that
    it follows. The norm makes a one-hot vector sqrt(n_embd) long.
    """
    if len(successors) >= shape.n_embd:
        raise ValueError(f"{len(successors)} successors need n_embd > {len(successors)}")
    directions = {token: n for n, token in enumerate(successors, start=1)}
    scale = logit / shape.n_embd**0.5
    embedding = [0.0] * (shape.n_embd * n_vocab)
    output = [0.0] * (shape.n_embd * n_vocab)
    for token in range(n_vocab):
        embedding[token * shape.n_embd + directions.get(token, 0)] = 1.0
    output[otherwise * shape.n_embd] = scale
    for token, following in successors.items():
        output[following * shape.n_embd + directions[token]] = scale
    tensors = {}
    for name, extents in _matrices(shape, n_vocab).items():
        if len(extents) == 1:
            tensors[name] = Tensor(extents, [1.0] * extents[0])
        elif name == "token_embd.weight":
            tensors[name] = Tensor(extents, embedding)
        elif name == "output.weight":
            tensors[name] = Tensor(extents, output)
        else:
            tensors[name] = Tensor(extents, [0.0] * (extents[0] * extents[1]), "f16")
    return tensors


def tiny_lora(
    path: Path,
    *,
    architecture: str = "llama",
    shape: Shape | None = None,
    rank: int = 4,
    strength: float = 0.5,
    targets: Sequence[str] = ("blk.0.attn_q.weight", "blk.1.ffn_down.weight"),
    metadata: Mapping[str, Any] | None = None,
    **options: Any,
) -> Layout:
    """Write a LoRA adapter for `tiny_llama` of the same shape: random factors, seeded.

    `strength` is the spread of the numbers in b; 0 makes an adapter that changes nothing.
    """
    source = random.Random(1)
    matrices = _matrices(shape or Shape(), 1)
    tensors = {}
    for target in targets:
        n_in, n_out = matrices[target][:2]
        for half, extents, spread in (("a", (n_in, rank), 0.5), ("b", (rank, n_out), strength)):
            values = normal_numbers(source, math.prod(extents), spread)
            tensors[f"{target}.lora_{half}"] = Tensor(extents, values)
    pairs: dict[str, Any] = {
        "general.type": "adapter",
        "general.name": "Tiny adapter",
        "adapter.type": "lora",
        "adapter.lora.alpha": float(rank),
    }
    return write_gguf(
        path,
        architecture=architecture,
        template=None,
        metadata=pairs | dict(metadata or {}),
        tensors=tensors,
        **options,
    )


# --- damage -----------------------------------------------------------------------------------


def truncated_copy(source: Path, target: Path, size: int) -> Path:
    """The first `size` bytes of a file."""
    with source.open("rb") as file:
        target.write_bytes(file.read(size))
    return target


def overwrite(path: Path, offset: int, data: bytes) -> None:
    """Replace bytes in place."""
    with path.open("r+b") as file:
        file.seek(offset)
        file.write(data)


def impostors(folder: Path) -> dict[str, Path]:
    """Things named .gguf that are none, by what they are."""
    contents = {
        "empty": b"",
        "text": b"These are my notes about models.\n",
        "web page": b"<!DOCTYPE html>\n<html><head><title>404 Not Found</title></head></html>\n",
        "pointer": (
            b"version https://git-lfs.github.com/spec/v1\n"
            b"oid sha256:" + b"0" * 64 + b"\nsize 98362432\n"
        ),
        "ggml v3": struct.pack("<II", 0x67676A74, 3) + bytes(64),
        "magic only": MAGIC,
    }
    paths = {}
    for name, content in contents.items():
        paths[name] = folder / f"{name}.gguf"
        paths[name].write_bytes(content)
    paths["archive"] = folder / "archive.gguf"
    with zipfile.ZipFile(paths["archive"], "w") as archive:
        archive.writestr("weights.gguf", MAGIC)
    paths["directory"] = folder / "directory.gguf"
    paths["directory"].mkdir()
    return paths
