"""Small GGUF files put into folders as other programs do, and what is found there."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from gguf_writer import CHATML, Tensor, write_gguf

from app.gguf.local.entries import entries
from app.gguf.local.finding import look_at, scan
from app.gguf.local.places import Origin, Place
from app.gguf.local.seen import LookedFile

_content = itertools.count()


def put(path: Path, name: str = "") -> Path:
    """A small GGUF: with content of its own, or the same for the same name."""
    path.parent.mkdir(parents=True, exist_ok=True)
    words = {"general.name": name or f"No {next(_content)}"}
    write_gguf(path, template=CHATML, metadata=words, tensors={"t": Tensor((4,), (0.0,) * 4)})
    return path


def chosen(path: Path) -> Place:
    return Place(Origin.FOLDER, path, is_chosen=True)


def looked_into(*places: Place | Path) -> list[LookedFile]:
    taken = [each if isinstance(each, Place) else chosen(each) for each in places]
    return [look_at(seen) for place in taken for seen in scan(place).files]


def names_in(folder: Path) -> list[str]:
    return [found.name for found in entries(looked_into(folder))]


def hashed(looked: Sequence[LookedFile]) -> list[LookedFile]:
    """As after the idle time: with the hash of each file, computed here in one go."""
    return [replace(e, sha256=hashlib.sha256(e.seen.path.read_bytes()).hexdigest()) for e in looked]


def part(number: int, of: int = 3) -> str:
    return f"big-{number:05d}-of-{of:05d}.gguf"
