"""What our reader lets through does not end llama.cpp's process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from gguf_writer import Shape, tiny_llama

TESTS = Path(__file__).parents[4]


@pytest.mark.weights
@pytest.mark.soak
@pytest.mark.parametrize("n_expert", [0, 4])
def test_mutations_that_are_accepted_end_well_in_llama_cpp(tmp_path: Path, n_expert: int) -> None:
    path = tmp_path / "tiny.gguf"
    shape = Shape(n_layer=1, n_expert=n_expert)
    more: dict[str, object] = {
        "general.alignment": 32,
        "llama.nextn_predict_layers": 0,
        "llama.rope.scaling.type": "linear",
    }
    if n_expert:
        more |= {"llama.expert_group_count": 2, "llama.expert_group_used_count": 1}
    tiny_llama(path, shape=shape, metadata=more)
    done = subprocess.run(
        [sys.executable, str(TESTS / "hostile_native.py"), str(path)],
        capture_output=True,
        text=True,
        timeout=600,
        check=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join((str(TESTS), str(TESTS.parent)))},
    )
    said = json.loads(done.stdout.splitlines()[-1])
    assert said["tried"] > 200
    assert said["bad"] == []
