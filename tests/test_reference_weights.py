"""The reference's own reading of quantised blocks, against the gguf package's."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from gguf_writer import Tensor, write_gguf
from reference_weights import _BLOCKS, Weights, _values, cpu_product

_FLOATS = {"Q8_0": [0], "Q5_0": [0], "Q4_1": [0, 2], "Q4_K": [0, 2], "Q6_K": [208]}
"""Where in a block its float16 numbers lie."""


@pytest.mark.parametrize("type_name", sorted(_BLOCKS))
def test_any_block_means_what_the_gguf_package_says(type_name: str) -> None:
    from gguf import GGMLQuantizationType
    from gguf.quants import dequantize

    size = _BLOCKS[type_name][0]
    blocks = np.random.default_rng(0).integers(0, 256, (500, size), np.uint8)
    for at in _FLOATS[type_name]:
        blocks[:, at + 1] &= 0xFB  # no exponent of ones alone: neither infinite nor no number
    wanted = dequantize(blocks, GGMLQuantizationType[type_name]).reshape(-1)
    assert np.array_equal(_values(type_name, blocks.reshape(-1)), wanted)


def test_a_tensor_is_read_from_its_place(tmp_path: Path) -> None:
    values = [float(n) for n in range(12)]
    tensors = {
        "first": Tensor((3,), [9.0, 9.0, 9.0]),
        "whole": Tensor((4, 3), values),
        "half": Tensor((2, 3, 2), values, "f16"),
    }
    write_gguf(tmp_path / "file.gguf", tensors=tensors)
    file = Weights(tmp_path / "file.gguf")
    assert file.matrix("whole").tolist() == np.arange(12.0).reshape(3, 4).tolist()
    assert file.matrix("whole", (1, 3)).tolist() == np.arange(12.0).reshape(3, 4)[1:].tolist()
    assert file.tensor("half").tolist() == np.arange(12.0).reshape(2, 3, 2).tolist()
    assert "half" in file
    assert "third" not in file


def test_a_product_rounds_what_a_processor_rounds(tmp_path: Path) -> None:
    """Of float32 nothing; of float16 the other factor, too."""
    source = np.random.default_rng(1)
    x = source.normal(size=(2, 4)).astype(np.float32)
    w = source.normal(size=12).astype(np.float16)
    for kind in ("f32", "f16"):
        path = tmp_path / f"{kind}.gguf"
        write_gguf(path, tensors={"w": Tensor((4, 3), w.tolist(), kind)})
        taken = x if kind == "f32" else x.astype(np.float16).astype(np.float32)
        wanted = taken @ w.astype(np.float32).reshape(3, 4).T
        assert cpu_product(Weights(path), "w", x) == pytest.approx(wanted, rel=1e-6)
