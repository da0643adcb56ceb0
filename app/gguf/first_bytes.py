"""What a file that calls itself GGUF is instead, told from its first bytes, in words."""

from __future__ import annotations

from typing import Final

ENOUGH_BYTES: Final = 512

_POINTER: Final = "a Git LFS pointer, not the real file"
_PAGE: Final = "a web page"
_ZEROS: Final = "filled with zeros, probably an unfinished download"
_SAFETENSORS: Final = "a safetensors file: convert it to GGUF first"
_PYTORCH: Final = "a PyTorch file: convert it to GGUF first"
_ARCHIVE: Final = "Unpack it if the model is inside, or download the model again."

_SIGNATURES: Final[tuple[tuple[bytes, str], ...]] = (
    (b"version https://git-lfs", _POINTER),
    (b"PK\x03\x04", "a zip archive (perhaps a PyTorch file)"),
    (b"PK\x05\x06", "an empty zip archive"),
    (b"\x1f\x8b", "a gzip archive"),
    (b"BZh", "a bzip2 archive"),
    (b"\xfd7zXZ\0", "an xz archive"),
    (b"\x28\xb5\x2f\xfd", "a Zstandard archive"),
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive"),
    (b"Rar!\x1a\x07", "a RAR archive"),
    (b"lmgg", "an old GGML file, from before GGUF"),
    (b"fmgg", "an old GGML file (ggmf), from before GGUF"),
    (b"tjgg", "an old GGML file (ggjt), from before GGUF"),
    (b"algg", "an old GGML adapter, from before GGUF"),
    (b"FUGG", "a GGUF file with swapped bytes"),
    (b"\x89HDF", "an HDF5 file"),
    (b"\x93NUMPY", "a NumPy array"),
    (b"%PDF", "a PDF document"),
    (b"\x89PNG", "an image (PNG)"),
    (b"\xff\xd8\xff", "an image (JPEG)"),
    (b"GIF8", "an image (GIF)"),
    (b"SQLite format 3\0", "an SQLite database"),
    (b"\x7fELF", "a program"),
    (b"MZ", "a Windows program"),
    (b"ID3", "an audio file"),
    (b"OggS", "an audio or video file"),
    (b"\0asm", "a WebAssembly program"),
)
_LATER: Final[tuple[tuple[int, bytes, str], ...]] = (
    (4, b"ftyp", "a video or image (MP4 or similar)"),
    (4, b"TFL3", "a TensorFlow Lite file"),
    (8, b"WEBP", "an image (WebP)"),
    (8, b"WAVE", "an audio file"),
    (257, b"ustar", "a tar archive"),
)
_MARKUP: Final = (b"<!doctype html", b"<html", b"<head", b"<?xml")

_ADVICE: Final = {
    _POINTER: "Download the real file.",
    _PAGE: "The server sent this page instead of the file. Download it again.",
    _ZEROS: "Wait until it is finished, or download it again.",
}


def describe(first: bytes) -> str:
    """Say what a file is that begins with these bytes and is no GGUF.

    >>> describe(b"<!DOCTYPE html><title>404</title>")
    'a web page'
    """
    if not first:
        return "empty"
    if _is_pickle(first) or (first.startswith(b"PK\x03\x04") and b"/data.pkl" in first):
        return _PYTORCH
    for signature, words in _SIGNATURES:
        if first.startswith(signature) and not (len(signature) < 4 and _is_text(first)):
            return words
    for offset, signature, words in _LATER:
        if first[offset : offset + len(signature)] == signature:
            return words
    if _is_safetensors(first):
        return _SAFETENSORS
    return _ZEROS if not first.strip(b"\0") else _describe_text(first)


def _describe_text(first: bytes) -> str:
    start = first.lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    if start.startswith(_MARKUP):
        return _PAGE
    if not _is_text(first):
        return "not a GGUF file"
    return "a JSON file" if start.startswith((b"{", b"[")) else "a text file"


def advice(description: str) -> str:
    """What to do next about a file of this description."""
    if "archive" in description and "PyTorch" not in description:
        return _ARCHIVE
    return _ADVICE.get(description, "Choose another file, or download it again.")


def _is_pickle(first: bytes) -> bool:
    """Protocol 2 and later; PyTorch's files from before 1.6 begin with a number pickled so."""
    return len(first) > 2 and first[0] == 0x80 and 2 <= first[1] <= 5


def _is_safetensors(first: bytes) -> bool:
    """The length of a JSON object, then the object."""
    return first[8:10] == b'{"' and int.from_bytes(first[:8], "little") < 1 << 32


def _is_text(first: bytes) -> bool:
    # A character may be cut at the end of what was read: up to three bytes are let go.
    for cut in range(4):
        try:
            text = first[: len(first) - cut].decode("utf-8")
        except UnicodeDecodeError:
            continue
        return bool(text) and all(c.isprintable() or c in "\t\r\n\f" for c in text)
    return False
