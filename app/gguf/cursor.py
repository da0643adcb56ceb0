"""Reads forward through an untrusted source, within bounds of bytes, memory and time.

Nothing is allocated or skipped before its size is checked against the bytes that are left. What is
kept is counted in bytes of memory, as Python holds it. The time is counted in processor seconds of
this thread, so that a busy machine or a slow disk does not turn a good file away. Pieces of 1 to 4
MiB are read ahead, larger each time, so that a header over a network costs three to five requests.
"""

from __future__ import annotations

import struct
import sys
import time
from typing import Final

from app.gguf.refusal import damaged, incomplete
from app.gguf.source import Source

FIRST_PIECE_BYTES: Final = 1 << 20
MAX_PIECE_BYTES: Final = 4 << 20
MAX_READ_BYTES: Final = 256 << 20
"""Of all pieces together: a header that makes the reader jump reads most of them for nothing."""

_LENGTH: Final = struct.Struct("<Q")


class Cursor:
    """Where the reading stands. Raises Fault where the source says what cannot be."""

    def __init__(self, source: Source, deadline_s: float, max_held_bytes: int) -> None:
        self.size = source.size_bytes
        self._source = source
        self._ends_at = time.thread_time() + deadline_s
        self._may_hold = max_held_bytes
        self._piece_bytes = FIRST_PIECE_BYTES
        self._may_read = MAX_READ_BYTES
        self._buffer = b""
        self._start = 0  # where the buffer lies in the source
        self._at = 0  # where the reading stands in the buffer

    @property
    def position(self) -> int:
        return self._start + self._at

    @property
    def left(self) -> int:
        return self.size - self.position

    def peek(self, count: int) -> bytes:
        """The next `count` bytes, or all that there are; they are read again afterwards."""
        count = min(count, self.left)
        self._fill(count)
        return self._buffer[self._at : self._at + count]

    def take(self, count: int) -> bytes:
        self.need(count)
        begin = self._at
        if begin + count > len(self._buffer):
            self._fill(count)
            begin = self._at
        self._at = begin + count
        return self._buffer[begin : self._at]

    def skip(self, count: int) -> None:
        self.need(count)
        self._at += count
        if self._at > len(self._buffer):
            self._start += self._at
            self._buffer, self._at = b"", 0

    def need(self, count: int) -> None:
        """Refuse if fewer than `count` bytes are left, or if the time is up."""
        if count > self.size - self._start - self._at:
            raise incomplete(self.size, None)
        if time.thread_time() > self._ends_at:
            raise damaged("its header takes too long to read")

    def hold(self, size_bytes: int) -> None:
        """Count this much memory as taken, before it is."""
        self._may_hold -= size_bytes
        if self._may_hold < 0:
            raise damaged("its header is implausibly large")

    def number(self, form: str) -> int:
        return int(self.unpack(form))

    def unpack(self, form: str) -> int | float | bool:
        value: int | float | bool = struct.unpack(form, self.take(struct.calcsize(form)))[0]
        return value

    def numbers(self, form: str) -> tuple[int, ...]:
        """Several integers that lie behind each other."""
        return struct.unpack(form, self.take(struct.calcsize(form)))

    def text(self, limit: int) -> str:
        """A string of at most `limit` bytes; what is no UTF-8 in it is replaced."""
        return self.text_of(self.text_length(limit))

    def text_length(self, limit: int) -> int:
        length = self.number("<Q")
        if length > self.left:
            raise incomplete(self.size, None)
        if length > limit:
            raise damaged(f"it contains a text of {length:,} bytes")
        return length

    def text_of(self, length: int) -> str:
        text = self.take(length).decode("utf-8", "replace")
        self.hold(sys.getsizeof(text))
        return text

    def texts(self, count: int, limit: int) -> list[str]:
        """The next `count` strings, kept."""
        self.hold(8 * count)
        found: list[str] = []
        while len(found) < count:
            found.append(self.text(limit))
            found += self._texts_at_hand(count - len(found), limit)
        return found

    def _texts_at_hand(self, count: int, limit: int) -> list[str]:
        """Of the next `count` strings those that lie in the buffer as a whole, without a call for
        each: up to the first that `text` has to refuse or to read on for."""
        unpack, size_of = _LENGTH.unpack_from, sys.getsizeof
        buffer, at, end = self._buffer, self._at, len(self._buffer)
        found: list[str] = []
        for _ in range(count):
            begin = at + 8
            if begin > end:
                break
            behind = begin + unpack(buffer, at)[0]
            if behind > end or behind - begin > limit:
                break
            text = buffer[begin:behind].decode("utf-8", "replace")
            if size_of(text) > self._may_hold:
                break
            self._may_hold -= size_of(text)
            found.append(text)
            at = behind
        self._at = at
        return found

    def skip_texts(self, count: int) -> None:
        """Skip `count` strings: vocabularies have 262,144 of them."""
        unpack = _LENGTH.unpack_from
        buffer, at, end = self._buffer, self._at, len(self._buffer)
        for _ in range(count):
            if at + 8 > end:
                self._at = at
                if at > end:
                    self._start, self._at, self._buffer = self._start + at, 0, b""
                self.need(8)
                self._fill(8)
                buffer, at, end = self._buffer, self._at, len(self._buffer)
            (length,) = unpack(buffer, at)
            at += 8 + length
            if self._start + at > self.size:
                raise incomplete(self.size, None)
        self._at = at
        if at > end:
            self._start, self._at, self._buffer = self._start + at, 0, b""

    def _fill(self, count: int) -> None:
        """Have at least `count` bytes in the buffer, which the source must have."""
        rest = len(self._buffer) - self._at
        if rest >= count:
            return
        begin = self.position + rest
        wanted = min(max(count - rest, self._piece_bytes), self.size - begin)
        self._may_read -= wanted
        if self._may_read < 0:
            raise damaged("its header is implausibly large")
        data = self._source.read_at(begin, wanted)
        if len(data) < count - rest:  # it shrank while it was read
            raise incomplete(begin + len(data), None)
        self._start, self._buffer = self.position, self._buffer[self._at :] + data
        self._at = 0
        self._piece_bytes = min(2 * self._piece_bytes, MAX_PIECE_BYTES)
