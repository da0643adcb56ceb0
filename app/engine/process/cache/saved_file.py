"""One sequence of the KV cache in a file, and back.

    8 bytes      MAGIC: what this is, and the version of the form
    4 bytes      length of the head (little endian)
    head         `Head` as msgpack
    32 bytes     mark of the head
    data         what llama.cpp gave, in chunks of CHUNK_BYTES

A mark is a BLAKE2b keyed with this installation's key. The head holds one for each chunk, and where
the chunk stands is part of it. What must hold: nothing of a file is decoded before the head's mark
was found right, and no byte of the data goes to native code before its chunk's was: a state is
parsed by code that trusts it. A file lies under its name whole or not at all (written beside it,
synced, renamed), for its owner alone.

BLAKE2b: RFC 7693; keyed hashing in its section 2.9. Chunks can be looked at by several threads:
45 MB take 111 ms on one.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import os
import secrets
import struct
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, Final, TypeVar

import msgspec
import numpy as np

from app.engine.process.cache.cells import State
from app.engine.protocol.saved_messages import PART_SUFFIX, SUFFIX, name_start

T = TypeVar("T")

MAGIC: Final = b"cutkv\0\0\1"
MARK_BYTES: Final = 32
CHUNK_BYTES: Final = 1 << 20
MAX_HEAD_BYTES: Final = 64 << 20
_LENGTH: Final = struct.Struct("<I")


class BadFile(Exception):  # noqa: N818
    """It is not what we wrote, or cannot be read; the text says what is wrong, for the log."""


class Interrupted(Exception):  # noqa: N818
    """Writing or reading is not wanted any more."""


class Identity(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What must be the same for a state to mean the same: the engine's version, the weights, and
    `settings`, a digest of how they were loaded."""

    engine: str
    weights: str
    settings: str


class Head(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`ids`: the tokens, as int32 little endian. `marks`: of the chunks, one after the other.
    `adapters`: key of the set that it was computed with."""

    identity: Identity
    conversation: str
    ids: bytes
    first_position: int
    data_bytes: int
    marks: bytes
    adapters: str = ""

    @property
    def token_ids(self) -> np.ndarray[Any, np.dtype[np.int32]]:
        return np.frombuffer(self.ids, "<i4").astype(np.int32)


def write(
    folder: Path,
    key: bytes,
    identity: Identity,
    conversation: str,
    ids: np.ndarray[Any, np.dtype[np.int32]],
    first_position: int,
    data: State,
    pause: Callable[[], None] = lambda: None,
    adapters: str = "",
    n_threads: int = 1,
) -> Path:
    """Write a file and return where it lies. `pause` is called between chunks, and may wait or
    raise Interrupted. Raises OSError; nothing is left then."""
    view = memoryview(data.data).cast("B")

    def mark(number: int) -> bytes:
        pause()
        return _mark_of_chunk(key, number, view[number * CHUNK_BYTES :][:CHUNK_BYTES])

    marks = b"".join(_mapped(mark, -(-len(view) // CHUNK_BYTES), n_threads))
    head = msgspec.msgpack.encode(
        Head(
            identity,
            conversation,
            np.asarray(ids, "<i4").tobytes(),
            first_position,
            len(view),
            marks,
            adapters,
        )
    )
    stem = f"{name_start(conversation)}-{secrets.token_hex(8)}"
    part, path = folder / (stem + PART_SUFFIX), folder / (stem + SUFFIX)
    try:
        descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _BINARY, 0o600)
        with os.fdopen(descriptor, "wb", buffering=0) as file:
            for block in (MAGIC + _LENGTH.pack(len(head)), head, _mark_of_head(key, head)):
                _write_all(file, memoryview(block))
            for chunk in _chunks(view):
                pause()
                _write_all(file, chunk)
            os.fsync(file.fileno())
        part.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            part.unlink()
        raise
    _sync_folder(folder)
    return path


def read_head(path: Path, key: bytes) -> Head:
    """Raises BadFile for what was not written here as it stands, or cannot be read."""
    try:
        with _opened(path) as file:
            return _read_head(file, key)[0]
    except OSError as error:
        raise BadFile(f"cannot be read: {error}") from error


def read(path: Path, key: bytes, n_threads: int = 1) -> tuple[Head, State]:
    """The whole file, each byte of it checked. Raises BadFile and MemoryError."""
    try:
        with _opened(path) as file:
            head, start = _read_head(file, key)
            data = np.empty(head.data_bytes, np.uint8)
            view = memoryview(data.data).cast("B")
            lock = threading.Lock()

            def is_right(number: int) -> bool:
                at = number * CHUNK_BYTES
                chunk = view[at : at + CHUNK_BYTES]
                with lock:
                    file.seek(start + at)
                    is_there = _read_into(file, chunk)
                mark = head.marks[number * MARK_BYTES : (number + 1) * MARK_BYTES]
                return is_there and hmac.compare_digest(_mark_of_chunk(key, number, chunk), mark)

            is_all_right = all(_mapped(is_right, len(head.marks) // MARK_BYTES, n_threads))
    except OSError as error:
        raise BadFile(f"cannot be read: {error}") from error
    if not is_all_right:
        raise BadFile("was changed since it was written")
    return head, data


def _opened(path: Path) -> BinaryIO | Any:
    """Raises OSError, also for a pipe in its place: opening that waits for who never comes."""
    if not path.is_file():
        raise OSError("it is no file")
    return path.open("rb", buffering=0)


def _mapped(act: Callable[[int], T], count: int, n_threads: int) -> list[T]:
    """`act` of each number below `count`, by so many threads."""
    if n_threads <= 1:
        return list(map(act, range(count)))
    from concurrent.futures import ThreadPoolExecutor  # not for a start

    with ThreadPoolExecutor(n_threads, "saved-kv") as pool:
        return list(pool.map(act, range(count)))


_BINARY: Final[int] = getattr(os, "O_BINARY", 0)


def _read_head(file: BinaryIO | Any, key: bytes) -> tuple[Head, int]:
    """The head, and where the data begins."""
    size = os.fstat(file.fileno()).st_size
    start = len(MAGIC) + _LENGTH.size
    first = bytearray(start)
    if not _read_into(file, memoryview(first)) or first[: len(MAGIC)] != MAGIC:
        raise BadFile("is no saved KV state, or one of another version")
    (length,) = _LENGTH.unpack(first[len(MAGIC) :])
    if length > min(MAX_HEAD_BYTES, size - start - MARK_BYTES):
        raise BadFile("is cut off")
    raw, mark = bytearray(length), bytearray(MARK_BYTES)
    if not _read_into(file, memoryview(raw)) or not _read_into(file, memoryview(mark)):
        raise BadFile("is cut off")
    if not hmac.compare_digest(_mark_of_head(key, raw), bytes(mark)):
        raise BadFile("was not written by this installation, or was changed since")
    try:
        head = msgspec.msgpack.decode(raw, type=Head)
    except msgspec.DecodeError as error:  # ours, but of another version
        raise BadFile(f"has another head: {error}") from error
    n_chunks = -(-head.data_bytes // CHUNK_BYTES)
    start += length + MARK_BYTES
    if size != start + head.data_bytes or len(head.marks) != n_chunks * MARK_BYTES:
        raise BadFile("has another length")
    return head, start


def _mark_of_head(key: bytes, head: bytes | bytearray) -> bytes:
    return hashlib.blake2b(
        head, key=key, digest_size=MARK_BYTES, person=b"cutaway kv head"
    ).digest()


def _mark_of_chunk(key: bytes, number: int, chunk: memoryview) -> bytes:
    return hashlib.blake2b(
        chunk,
        key=key,
        digest_size=MARK_BYTES,
        salt=number.to_bytes(8, "little"),
        person=b"cutaway kv data",
    ).digest()


def _chunks(view: memoryview) -> Iterator[memoryview]:
    for at in range(0, len(view), CHUNK_BYTES):
        yield view[at : at + CHUNK_BYTES]


def _write_all(file: Any, block: memoryview) -> None:
    while block:
        block = block[file.write(block) :]


def _read_into(file: Any, block: memoryview) -> bool:
    """Whether there was as much as was asked for."""
    while block:
        count = file.readinto(block)
        if not count:
            return False
        block = block[count:]
    return True


def _sync_folder(folder: Path) -> None:
    """So that the name outlives a power cut; where folders cannot be synced it may not."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
