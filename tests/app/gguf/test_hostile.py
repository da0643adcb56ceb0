"""Headers that lie: never the end of a process, never over two seconds or 64 MiB."""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from gguf_fields import fields_of, mutations_of, packed_text
from gguf_writer import Shape, tiny_llama

MAX_S = 2.0
MAX_BYTES = 64 << 20
TESTS = Path(__file__).parents[2]
NOTHING = struct.pack("<II", 4, 0)


def child_says(*arguments: object) -> Any:
    """What a process of its own found; it must end by itself, and well."""
    command = [sys.executable, str(TESTS / "hostile_headers.py"), *map(str, arguments)]
    paths = {"PYTHONPATH": os.pathsep.join((str(TESTS), str(TESTS.parent)))}
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=120, check=False, env=os.environ | paths
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout)


def test_a_thousand_mutated_headers(tmp_path: Path) -> None:
    """Each count, length, type, offset and text at 0, ±1, 2³¹, 2⁶³ and their neighbours, and the
    file cut there."""
    path = tmp_path / "tiny.gguf"
    tiny_llama(path, shape=Shape(n_layer=1), metadata={"general.alignment": 32})
    said = child_says("mutations", path)
    kinds = said["kinds"]
    assert sum(kinds.values()) >= 1000
    assert set(kinds) == {"accepted", "incomplete_file", "not_a_gguf", "unsupported"}
    assert said["wrong_cuts"] == []
    assert said["seconds"] < MAX_S
    assert said["grown"] < MAX_BYTES


def test_the_walk_knows_every_byte_of_the_header(tmp_path: Path) -> None:
    path = tmp_path / "tiny.gguf"
    layout = tiny_llama(path)
    data = path.read_bytes()
    fields = fields_of(data)
    assert fields[-1].at + fields[-1].size <= layout.data_start < fields[-1].at + 8 + 32
    names = {field.name for field in fields}
    assert {"tensor count", "key length", "output.weight offset", "llama.block_count"} <= names
    assert len({mutation.applied(data) for mutation in mutations_of(data)}) > 1000


# --- files made to be large in memory -----------------------------------------------------------


def start(n_tensors: int, n_keys: int) -> bytes:
    return b"GGUF" + struct.pack("<IQQ", 3, n_tensors, n_keys)


def pair(key: bytes, value: bytes) -> bytes:
    return packed_text(key) + value


def text_value(text: bytes) -> bytes:
    return struct.pack("<I", 8) + packed_text(text)


WIDE = "🙂".encode()
"""One such character makes each character of its text take four bytes in Python."""


def large_headers() -> Iterator[tuple[str, bytes]]:
    short = b"".join(pair(b"%d" % n, NOTHING) for n in range(1 << 14))
    yield "many keys", start(0, 1 << 14) + short
    yield "a key too many", start(0, (1 << 14) + 1) + short + pair(b"x", NOTHING)
    long = b"".join(pair(b"%5d" % n + b"k" * 65_500 + WIDE, NOTHING) for n in range(200))
    yield "long keys", start(0, 200) + long
    text = text_value(WIDE + b"x" * ((2 << 20) - 4))
    yield "wide texts", start(0, 7) + b"".join(pair(b"%d" % n, text) for n in range(7))
    broken = text_value(WIDE + b"\xff" * ((2 << 20) - 4))
    yield "broken texts", start(0, 7) + b"".join(pair(b"%d" % n, broken) for n in range(7))
    kept = struct.pack("<IIQ", 9, 8, 512) + 512 * packed_text(WIDE + b"x" * 25_000)
    yield "kept texts", start(0, 1) + pair(b"a.attention.head_count", kept)
    empty = struct.pack("<IIQ", 9, 8, 2 << 20) + bytes(16 << 20)
    yield "empty texts", start(0, 1) + pair(b"a", empty)
    table = b"".join(
        packed_text(b"%60d" % n) + struct.pack("<I4QIQ", 4, 8, 1, 1, 1, 0, 32 * n)
        for n in range(1 << 15)
    )
    yield "many tensors", start(1 << 15, 0) + table + bytes(32 + (32 << 15))
    named = packed_text(WIDE + b"n" * 1000) + struct.pack("<IQIQ", 1, 8, 0, 0)
    yield "long names", start(12_000, 0) + named * 12_000


def test_headers_made_to_be_large(tmp_path: Path) -> None:
    paths = []
    for name, data in large_headers():
        paths.append(tmp_path / f"{name}.gguf")
        paths[-1].write_bytes(data)
    said = {row.pop("name").removesuffix(".gguf"): row for row in child_says("each", *paths)}
    assert len(said) == len(paths)
    for name, row in said.items():
        assert row["seconds"] < MAX_S + 0.2, name  # a refusal takes a moment, too
        assert row["grown"] < MAX_BYTES, (name, row["grown"] >> 20)
    assert "doesn't name its architecture" in said["many tensors"]["kind"]
    assert "16,385 keys" in said["a key too many"]["kind"]
    larger = {name for name, row in said.items() if "implausibly large" in row["kind"]}
    assert {"long keys", "wide texts", "broken texts", "kept texts", "long names"} == larger


def test_texts_that_make_the_reader_jump(tmp_path: Path) -> None:
    """Each of 20,000 texts ends where nothing has been read yet: a sparse file of 100 GB."""
    path, step, count = tmp_path / "sparse.gguf", 5 << 20, 20_000
    with path.open("wb") as file:
        file.write(start(0, 1) + packed_text(b"a") + struct.pack("<IIQ", 9, 8, count))
        at = file.tell()
        for _ in range(200):
            file.seek(at)
            file.write(struct.pack("<Q", step))
            at += 8 + step
        file.truncate(count * (step + 8) + 1000)
    (row,) = child_says("each", path)
    assert "implausibly large" in row["kind"]
    assert row["seconds"] < MAX_S
    assert row["grown"] < MAX_BYTES


def test_files_of_a_few_bytes(tmp_path: Path) -> None:
    sizes = (0, 1, 3, 4, 7, 8, 23, 24)
    paths = [tmp_path / f"{size}.gguf" for size in sizes]
    for path, size in zip(paths, sizes, strict=True):
        path.write_bytes(start(1, 1)[:size])
    for row, size in zip(child_says("each", *paths), sizes, strict=True):
        assert row["name"] == f"{size}.gguf"
        assert "incomplete" in row["kind"] or size == 0
