"""The second test file is put together right, and never half."""

from __future__ import annotations

from pathlib import Path

import gemma_file
import pytest


def test_the_joined_file_is_a_gguf(gemma_gguf: Path):
    with gemma_gguf.open("rb") as file:
        assert file.read(4) == b"GGUF"
    assert gemma_gguf.stat().st_size == sum(part.stat().st_size for part in gemma_file.parts())


def test_parts_that_do_not_match_leave_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    part = tmp_path / "part"
    part.write_bytes(b"something else")
    monkeypatch.setattr(gemma_file, "parts", lambda: [part])
    target = tmp_path / "joined" / "whole.gguf"
    with pytest.raises(gemma_file.GemmaMissingError):
        gemma_file.join(target)
    assert list(target.parent.iterdir()) == []
