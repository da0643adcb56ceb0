"""Which weights a file holds, told from a small part of it.

Two files with the same fingerprint have the same size, the same header (so the same
vocabulary, template and shapes) and the same bytes in every sampled block of the tensors.
That is enough to know weights again after a rename, and to tell apart files of one name; it
is no proof against somebody who makes files on purpose: the full SHA-256 is that.

Reads at most `MAX_HEADER_BYTES` + `BLOCKS` × `BLOCK_BYTES`, about 5 ms for a small file.
"""

from __future__ import annotations

import hashlib
from typing import Final

from app.gguf.header import Header

BLOCKS: Final = 16
BLOCK_BYTES: Final = 64 * 1024
MAX_HEADER_BYTES: Final = 64 * 1024 * 1024
_DIGEST_BYTES: Final = 16


def fast_hash(header: Header) -> str:
    """32 hexadecimal digits. Raises OSError where the file cannot be read (any more)."""
    digest = hashlib.blake2b(digest_size=_DIGEST_BYTES, person=b"cutaway gguf 1")
    digest.update(header.size_bytes.to_bytes(8, "little"))
    with header.path.open("rb", buffering=0) as file:
        left = min(header.data_offset, MAX_HEADER_BYTES)
        while left > 0 and (read := file.read(min(left, 1 << 20))):
            digest.update(read)
            left -= len(read)
        for start in _block_starts(header.data_offset, header.size_bytes):
            file.seek(start)
            digest.update(file.read(BLOCK_BYTES))
    return digest.hexdigest()


def _block_starts(first: int, size: int) -> list[int]:
    """Evenly from the first tensor byte to the last block that ends with the file.

    >>> _block_starts(1000, 1000 + 16 * 65536)[:3]
    [1000, 66536, 132072]
    """
    last = max(first, size - BLOCK_BYTES)
    return [first + (last - first) * step // (BLOCKS - 1) for step in range(BLOCKS)]
