"""Outlines of the weights in files: read once, kept as long as the file stays as it is."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from app.engine.planning.sizes import Outline, outline_of
from app.gguf.header import Header, read_header
from app.gguf.local.split_names import part_names, set_name

MAX_KEPT: Final = 2000
"""Some kilobytes each."""

_Seen = tuple[tuple[str, int, int], ...]


def joined(headers: Sequence[Header]) -> Header:
    """The header of weights in several files: the first one's, with the tensors of all."""
    first, *others = headers
    if not others:
        return first
    tensors = tuple(tensor for header in headers for tensor in header.tensors)
    return replace(first, tensors=tensors)


class Outlines:
    """Used on one thread."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, tuple[_Seen, Outline]] = OrderedDict()

    def read(self, path: str) -> Outline:
        """Of a file, or of the set whose part it is. Raises HeaderRefused with a sentence."""
        paths = _parts(Path(path))
        seen = _seen(paths)
        known = self._kept.get(path)
        if known is not None and known[0] == seen:
            self._kept.move_to_end(path)
            return known[1]
        outline = outline_of(joined([read_header(part) for part in paths]))
        if seen is not None:
            self._kept[path] = (seen, outline)
            if len(self._kept) > MAX_KEPT:
                self._kept.popitem(last=False)
        return outline


def _parts(path: Path) -> list[Path]:
    split = set_name(path.name)
    return [path] if split is None else [path.with_name(name) for name in part_names(split)]


def _seen(paths: Sequence[Path]) -> _Seen | None:
    """Where and how the files lie; None where that cannot be known."""
    try:
        stats = [(str(path), path.stat()) for path in paths]
    except (OSError, ValueError):
        return None
    return tuple((name, stat.st_size, stat.st_mtime_ns) for name, stat in stats)
