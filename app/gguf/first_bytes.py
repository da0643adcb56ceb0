"""What a file that calls itself GGUF is instead, told from its first bytes, in words."""

from __future__ import annotations

from typing import Final

ENOUGH_BYTES: Final = 512

_SIGNATURES: Final[tuple[tuple[bytes, str], ...]] = (
    (b"version https://git-lfs", "a Git LFS pointer: the text that stands for the real file"),
    (b"PK\x03\x04", "a zip archive (perhaps a PyTorch file)"),
    (b"\x1f\x8b", "a gzip archive"),
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive"),
    (b"lmgg", "an old GGML file, from before GGUF"),
    (b"fmgg", "an old GGML file (ggmf), from before GGUF"),
    (b"tjgg", "an old GGML file (ggjt), from before GGUF"),
    (b"algg", "an old GGML adapter, from before GGUF"),
    (b"\x89HDF", "an HDF5 file"),
    (b"%PDF", "a PDF document"),
)
_MARKUP: Final = (b"<!doctype html", b"<html", b"<head", b"<?xml")

_ADVICE: Final = {
    "a Git LFS pointer: the text that stands for the real file": "Download the real file.",
    "a web page": "The download was answered by a page instead of the file: download it again.",
}


def describe(first: bytes) -> str:
    """Say what a file is that begins with these bytes and is no GGUF.

    >>> describe(b"<!DOCTYPE html><title>404</title>")
    'a web page'
    """
    if not first:
        return "empty"
    for signature, words in _SIGNATURES:
        if first.startswith(signature):
            return words
    start = first.lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    if start.startswith(_MARKUP):
        return "a web page"
    if first[8:10] == b'{"':
        return "a safetensors file: convert it to GGUF first"
    if start.startswith((b"{", b"[")) and _is_text(first):
        return "a JSON file"
    if _is_text(first):
        return "a text file"
    return "not a GGUF file"


def advice(description: str) -> str:
    """What to do next about a file of this description."""
    return _ADVICE.get(description, "Choose another file, or download it again.")


def _is_text(first: bytes) -> bool:
    # A character may be cut at the end of what was read: up to three bytes are let go.
    for cut in range(4):
        try:
            text = first[: len(first) - cut].decode("utf-8")
        except UnicodeDecodeError:
            continue
        return bool(text) and all(c.isprintable() or c in "\t\r\n\f" for c in text)
    return False
