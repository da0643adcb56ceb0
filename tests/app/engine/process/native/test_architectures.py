"""Our list of architectures against llama.cpp's own word."""

from __future__ import annotations

from pathlib import Path

import pytest
from gguf_writer import write_gguf

from app.engine.process.native import native
from app.engine.process.native.logparse import names_unknown_architecture
from app.engine.process.native.native import NativeLog
from app.gguf.architectures import KNOWN

pytestmark = pytest.mark.weights


def test_llama_cpp_knows_each_architecture_and_no_other(
    tmp_path: Path, native_log: NativeLog
) -> None:
    """D07."""
    options = native.llama.llama_model_default_params()
    options.vocab_only = True
    path = tmp_path / "bare.gguf"
    for name in [*sorted(KNOWN), "foo", "llama5000"]:
        write_gguf(path, architecture=name)
        with native_log.recording() as lines:
            assert not native.llama.llama_model_load_from_file(str(path).encode(), options)
        unknown = names_unknown_architecture("\n".join(lines))
        assert unknown == (None if name in KNOWN else name)
