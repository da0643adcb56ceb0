"""Frames between the window's process and a child: length-prefixed msgpack over pipes.

A frame is four bytes of length (little endian) and that many bytes of msgpack, which hold
one struct of `messages.py`. What must hold:

* Whatever the other side sends, the reader answers with a struct or with `ProtocolError`,
  never with another exception: each side treats the other as untrusted.
* A frame that says it is longer than `MAX_FRAME_BYTES` is refused before memory is taken.
* In a child, fd 1 belongs to frames alone. Native code that aborts prints on stdout, so the
  child's first act is `begin_child()`, which keeps a copy and points fd 1 at stderr.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import signal
import struct
import sys
import threading
from collections.abc import Callable, Sequence
from typing import BinaryIO, Final, TypeVar, get_args

import msgspec

from app.engine.protocol.frames import (
    MAX_FRAME_BYTES,
    Array,
    FrameTooLarge,
    ProtocolError,
    WireMessage,
    clean_text,
)
from app.engine.protocol.messages import Command, Event

T = TypeVar("T")
M = TypeVar("M", bound=WireMessage)

_LENGTH: Final = struct.Struct("<I")
_READ_BYTES: Final = 65536
_PR_SET_PDEATHSIG: Final = 1

_encoder: Final = msgspec.msgpack.Encoder()
_commands: Final[msgspec.msgpack.Decoder[Command]] = msgspec.msgpack.Decoder(Command)
_events: Final[msgspec.msgpack.Decoder[Event]] = msgspec.msgpack.Decoder(Event)


class FrameReader:
    """Reads frames from a binary stream. One thread at a time."""

    def __init__(self, stream: BinaryIO, max_bytes: int = MAX_FRAME_BYTES) -> None:
        # A buffered stream's `read` would wait until it has all that was asked for.
        self._read: Callable[[int], bytes | None] = getattr(stream, "read1", stream.read)
        self._max_bytes = max_bytes
        self._held = bytearray()

    def read(self) -> bytes | None:
        """Return the next frame's payload, or None where the stream ends between two frames.

        Raises ProtocolError for a cut frame or a length that is not allowed.
        """
        while (payload := self._next()) is None:
            more = self._read(_READ_BYTES)
            if not more:
                self._check_end()
                return None
            self._held += more
        return payload

    def read_few(self) -> list[bytes]:
        """The next frame and what has come with it; empty where the stream ends. What is wrong
        with a later frame is said by the next call, so that the earlier ones are not lost."""
        first = self.read()
        if first is None:
            return []
        payloads = [first]
        with contextlib.suppress(ProtocolError):
            while (payload := self._next()) is not None:
                payloads.append(payload)
        return payloads

    def _next(self) -> bytes | None:
        """Take the first frame out of what is held, if it is there whole."""
        if len(self._held) < _LENGTH.size:
            return None
        (size,) = _LENGTH.unpack_from(self._held)
        if size == 0 or size > self._max_bytes:
            raise ProtocolError(f"a frame of {size} bytes is not allowed")
        end = _LENGTH.size + size
        if len(self._held) < end:
            return None
        payload = bytes(memoryview(self._held)[_LENGTH.size : end])
        del self._held[:end]
        return payload

    def _check_end(self) -> None:
        """The stream has ended; raises ProtocolError inside a frame."""
        if not self._held:
            return
        if len(self._held) < _LENGTH.size:
            raise ProtocolError("the stream ended inside a frame's length")
        (size,) = _LENGTH.unpack_from(self._held)
        came = len(self._held) - _LENGTH.size
        raise ProtocolError(f"the stream ended after {came} of {size} bytes")


class FrameWriter:
    """Writes structs as frames. Any thread may call `write`; frames never interleave."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._lock = threading.Lock()

    def write(self, message: WireMessage) -> None:
        """Send one struct. Raises ProtocolError if no frame can hold it, OSError if nobody
        reads."""
        self._write(encode_frame(message))

    def write_all(self, messages: Sequence[WireMessage]) -> None:
        """Send several structs with one write: the reader wakes once for all. All or none:
        raises ProtocolError before anything is sent."""
        self._write(b"".join([encode_frame(message) for message in messages]))

    def _write(self, frames: bytes) -> None:
        with self._lock:
            view = memoryview(frames)
            while view:
                written = self._stream.write(view)
                view = view[written:]
            self._stream.flush()


def encode_frame(message: WireMessage) -> bytes:
    """Return the struct as length and payload. Lone surrogates in its texts become U+FFFD.

    Raises ProtocolError for what msgpack cannot say (a number beyond 64 bits), FrameTooLarge.
    """
    try:
        payload = _encoded(message)
    except (ValueError, TypeError, OverflowError, RecursionError) as error:
        raise ProtocolError(f"{type(message).__name__} cannot be a frame: {error}") from error
    if len(payload) > MAX_FRAME_BYTES:
        raise FrameTooLarge(f"a frame of {len(payload)} bytes is not allowed")
    return _LENGTH.pack(len(payload)) + payload


def _encoded(message: WireMessage) -> bytes:
    try:
        return _encoder.encode(message)
    except UnicodeEncodeError:
        return _encoder.encode(_without_surrogates(message))


def encode_command(command: WireMessage) -> bytes:
    """The frame of a command that the engine will understand. msgspec checks no types where a
    struct is made, and the engine ends at a frame that does not fit, with everybody's replies.

    Raises ProtocolError for a command that the engine would not take.
    """
    frame = encode_frame(command)
    decode_command(memoryview(frame)[_LENGTH.size :])
    return frame


def decode_command(payload: bytes | memoryview) -> Command:
    """Decode what the window sent. Raises ProtocolError for anything that does not fit."""
    return _decode(_commands, payload)


def decode_event(payload: bytes) -> Event:
    """Decode what the child sent, arrays checked. Raises ProtocolError if it does not fit."""
    return _decode(_events, payload)


def _decode(decoder: msgspec.msgpack.Decoder[M], payload: bytes | memoryview) -> M:
    try:
        message = decoder.decode(payload)
    except (msgspec.MsgspecError, ValueError, RecursionError, MemoryError) as error:
        raise ProtocolError(f"a frame does not fit the protocol: {error}") from error
    _check(message)
    return message


def _check(message: msgspec.Struct) -> None:
    """What the types of single fields do not say: each Array is of its field's dtype, and each
    struct that has a `check` fits together. What holds neither is not looked at: this runs for
    each token, and the time comes from the engine's cores."""
    for name, dtype in _fields_to_check(type(message)):
        value = getattr(message, name)
        if isinstance(value, Array):
            value.check()
            if value.dtype != dtype or len(value.shape) != 1:
                raise ProtocolError(f"“{name}” is {value.dtype!r} {value.shape}")
        elif isinstance(value, msgspec.Struct):
            _check(value)
        elif isinstance(value, list):
            for item in value:
                _check(item)
    if hasattr(message, "check"):
        message.check()


@functools.cache
def _fields_to_check(kind: type[msgspec.Struct]) -> tuple[tuple[str, str], ...]:
    """Names of the fields of a struct type that hold an Array or a struct with a `check`, at any
    depth; of an Array the dtype, else nothing."""
    found = ((field.name, _dtype_to_check(field.type)) for field in msgspec.structs.fields(kind))
    return tuple((name, dtype) for name, dtype in found if dtype is not None)


def _dtype_to_check(hint: object) -> str | None:
    """The dtype of an Array; nothing for what else must be looked at; None for all the rest."""
    for meta in getattr(hint, "__metadata__", ()):
        if isinstance(meta, msgspec.Meta) and meta.extra:
            return str(meta.extra["dtype"])
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        return "" if hasattr(hint, "check") or _fields_to_check(hint) else None
    found = (_dtype_to_check(part) for part in get_args(hint))
    return next((dtype for dtype in found if dtype is not None), None)


def _without_surrogates(value: T) -> T:
    """Copy a struct with all its texts cleaned."""
    if isinstance(value, str):
        return clean_text(value)  # type: ignore[return-value]
    if isinstance(value, list):
        return [_without_surrogates(item) for item in value]  # type: ignore[return-value]
    if isinstance(value, msgspec.Struct):
        fields = {
            name: _without_surrogates(getattr(value, name)) for name in value.__struct_fields__
        }
        return type(value)(**fields)
    return value


# --- a child's first acts -------------------------------------------------------------------


def begin_child() -> tuple[BinaryIO, BinaryIO]:
    """Make this process a child that talks frames; return (commands in, events out).

    It takes fds 0 and 1 for frames, leaves Ctrl-C in a terminal to the parent, and lets the
    kernel end this process with its parent where it can (the end of stdin is the other sign).
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    die_with_parent()
    return claim_stdin(), claim_stdout()


def claim_stdout() -> BinaryIO:
    """Keep a private copy of fd 1 for frames and point fd 1 at stderr."""
    sys.stdout.flush()
    frames = os.dup(1)
    os.dup2(2, 1)
    _binary(frames)
    return os.fdopen(frames, "wb")


def claim_stdin() -> BinaryIO:
    """Keep a private copy of fd 0 for frames and point fd 0 at nothing.

    A thread that blocks in `sys.stdin` while the interpreter ends is a fatal error in CPython;
    one that blocks in a stream of its own is not.
    """
    frames = os.dup(0)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    _binary(frames)
    return os.fdopen(frames, "rb")


def die_with_parent() -> None:
    """Ask Linux for SIGKILL when the thread that started this process ends; else do nothing."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _binary(fd: int) -> None:
    """Windows opens fds in text mode, which would change every byte 10."""
    if sys.platform == "win32":
        import msvcrt

        msvcrt.setmode(fd, os.O_BINARY)
