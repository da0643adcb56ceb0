"""Ollama's store: names from the manifests, weights where their blobs lie."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from app.gguf.local.places import Origin, Place
from app.gguf.local.seen import SHA256, AtEachStep, Scan, SeenFile, is_folder, is_there, stamp_of

MAX_MANIFEST_BYTES: Final = 1 << 20
_BLOB: Final = "sha256"
_PROJECTOR: Final = " (projector)"
_OLLAMA_KINDS: Final = {
    "application/vnd.ollama.image.model": "",
    "application/vnd.ollama.image.projector": _PROJECTOR,
    "application/vnd.ollama.image.adapter": " (adapter)",
}


STORE: Final = frozenset({"manifests", "blobs"})
"""The folders in each folder that Ollama keeps, wherever its settings put it."""


def scan_ollama(found: Scan, store: Path, pace: AtEachStep) -> None:
    """What lies in a folder that Ollama keeps."""
    blobs = store / "blobs"
    named: dict[Path, SeenFile] = {}
    for manifest, name in _manifests(found, store / "manifests", pace):
        for digest, kind in _layers(manifest):
            pace()
            label = name + kind
            path = next(filter(is_there, _blob_paths(blobs, digest)), None)
            if path is None:
                found.lacks(
                    _blob_paths(blobs, digest)[0],
                    f"“{label}” from Ollama is incomplete: the model file is missing. Pull it "
                    "again.",
                )
                continue
            kept = f"ollama {name}"
            if path in named:
                names = tuple(dict.fromkeys((*named[path].names, label)))
                kept_with = (*named[path].kept_with, kept)
                named[path] = replace(named[path], names=names, kept_with=kept_with)
                continue
            try:
                info = path.stat()
            except OSError as error:
                found.add_trouble(path, error)
                continue
            real = Path(os.path.realpath(path))
            named[path] = SeenFile(
                path,
                real,
                stamp_of(info),
                Origin.OLLAMA,
                (label,),
                named_sha256=digest,
                kept_with=(kept,),
            )
    found.files.extend(named.values())


def layers_beside(blob: Path) -> tuple[Path, ...]:
    """The projectors that manifests of Ollama's name together with a blob of weights; nothing for
    any other file. Reads them all: for a thread."""
    digest = blob.name[len(_BLOB) + 1 :]
    is_blob = blob.name.startswith(_BLOB) and SHA256.fullmatch(digest)
    if not is_blob or blob.parent.name != "blobs":
        return ()
    store = blob.parent.parent
    found: dict[Path, None] = {}
    for manifest, _name in _manifests(Scan(Place(Origin.OLLAMA, store)), store / "manifests", _go):
        layers = dict(_layers(manifest))
        if layers.get(digest) == "":
            for other, kind in layers.items():
                if kind == _PROJECTOR:
                    found |= dict.fromkeys(filter(is_there, _blob_paths(blob.parent, other)))
    return tuple(found)


def _go() -> None:
    """No pace: one file is asked about."""


def _blob_paths(blobs: Path, digest: str) -> tuple[Path, Path]:
    """Where a blob lies; the second is how Ollama called it before 2024."""
    return blobs / f"sha256-{digest}", blobs / f"sha256:{digest}"


def _manifests(found: Scan, top: Path, pace: AtEachStep) -> Iterator[tuple[Path, str]]:
    """Each manifest with the name that Ollama shows for it."""
    entered: set[tuple[int, int]] = set()
    waiting = [top]
    while waiting:
        folder = waiting.pop()
        pace()
        try:
            info = folder.stat()
            if (info.st_dev, info.st_ino) in entered and info.st_ino:
                continue
            entered.add((info.st_dev, info.st_ino))
            with os.scandir(folder) as opened:
                listed = sorted(opened, key=lambda entry: entry.name)
        except OSError as error:
            if not isinstance(error, FileNotFoundError | NotADirectoryError):
                found.add_trouble(folder, error)
            continue
        found.folders[folder] = info.st_mtime_ns
        for entry in listed:
            path = folder / entry.name
            if is_folder(entry):
                waiting.append(path)
            elif not entry.name.startswith("."):
                yield path, ollama_name(path.relative_to(top).parts)


def ollama_name(parts: Sequence[str]) -> str:
    """As `ollama list` shows it.

    >>> ollama_name(("registry.ollama.ai", "library", "llama3.2", "3b"))
    'llama3.2:3b'
    >>> ollama_name(("hf.co", "someone", "tiny-GGUF", "Q4_K_M"))
    'hf.co/someone/tiny-GGUF:Q4_K_M'
    """
    *place, tag = parts
    if place[:1] == ["registry.ollama.ai"]:
        place = place[1:]
    if place[:1] == ["library"]:
        place = place[1:]
    return "/".join(place) + f":{tag}"


def _layers(manifest: Path) -> Iterator[tuple[str, str]]:
    """Digest and kind of each layer that holds a GGUF file."""
    try:
        if not manifest.is_file():
            return
        with manifest.open("rb") as file:
            value: Any = json.loads(file.read(MAX_MANIFEST_BYTES))
    except (OSError, ValueError, RecursionError):
        return
    layers = value.get("layers") if isinstance(value, dict) else None
    for layer in layers if isinstance(layers, list) else ():
        if not isinstance(layer, dict):
            continue
        kind = _OLLAMA_KINDS.get(str(layer.get("mediaType")))
        digest = str(layer.get("digest")).removeprefix("sha256:")
        if kind is not None and SHA256.fullmatch(digest):
            yield digest, kind
