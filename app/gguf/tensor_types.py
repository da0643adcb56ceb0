"""The tensor types that GGUF files store: name, elements per block, bytes per block.

Numbers and sizes are ggml's (`enum ggml_type`, `type_traits`). A test compares them with
the `gguf` package, which the program itself does not import: it would bring numpy.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class TensorType(NamedTuple):
    """One row of `TENSOR_TYPES`."""

    name: str
    block_elements: int
    block_bytes: int


TENSOR_TYPES: Final[dict[int, TensorType]] = {
    0: TensorType("F32", 1, 4),
    1: TensorType("F16", 1, 2),
    2: TensorType("Q4_0", 32, 18),
    3: TensorType("Q4_1", 32, 20),
    6: TensorType("Q5_0", 32, 22),
    7: TensorType("Q5_1", 32, 24),
    8: TensorType("Q8_0", 32, 34),
    10: TensorType("Q2_K", 256, 84),
    11: TensorType("Q3_K", 256, 110),
    12: TensorType("Q4_K", 256, 144),
    13: TensorType("Q5_K", 256, 176),
    14: TensorType("Q6_K", 256, 210),
    15: TensorType("Q8_K", 256, 292),
    16: TensorType("IQ2_XXS", 256, 66),
    17: TensorType("IQ2_XS", 256, 74),
    18: TensorType("IQ3_XXS", 256, 98),
    19: TensorType("IQ1_S", 256, 50),
    20: TensorType("IQ4_NL", 32, 18),
    21: TensorType("IQ3_S", 256, 110),
    22: TensorType("IQ2_S", 256, 82),
    23: TensorType("IQ4_XS", 256, 136),
    24: TensorType("I8", 1, 1),
    25: TensorType("I16", 1, 2),
    26: TensorType("I32", 1, 4),
    27: TensorType("I64", 1, 8),
    28: TensorType("F64", 1, 8),
    29: TensorType("IQ1_M", 256, 56),
    30: TensorType("BF16", 1, 2),
    34: TensorType("TQ1_0", 256, 54),
    35: TensorType("TQ2_0", 256, 66),
    39: TensorType("MXFP4", 32, 17),
    40: TensorType("NVFP4", 64, 36),
    41: TensorType("Q1_0", 128, 18),
}


def tensor_bytes(shape: tuple[int, ...], tensor_type: TensorType) -> int:
    """Size of a tensor in the file. ValueError if its rows do not divide into blocks.

    >>> tensor_bytes((64, 2), TENSOR_TYPES[8])   # four blocks of 34 bytes
    136
    """
    elements = 1
    for extent in shape:
        elements *= extent
    row = shape[0] if shape else 1
    if row % tensor_type.block_elements:
        raise ValueError(f"rows of {row} do not divide into blocks of {tensor_type.block_elements}")
    return elements // tensor_type.block_elements * tensor_type.block_bytes
