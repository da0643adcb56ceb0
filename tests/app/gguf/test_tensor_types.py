"""Our table of tensor types is ggml's, as the gguf package has it."""

from __future__ import annotations

import doctest

import pytest
from gguf.constants import GGML_QUANT_SIZES

from app.gguf import first_bytes, tensor_types
from app.gguf.tensor_types import TENSOR_TYPES, tensor_bytes


def test_table_equals_the_gguf_package() -> None:
    theirs = {int(kind): (kind.name, *sizes) for kind, sizes in GGML_QUANT_SIZES.items()}
    # Q8_1 holds intermediate results and is never stored.
    theirs = {kind: row for kind, row in theirs.items() if row[0] != "Q8_1"}
    assert {kind: tuple(row) for kind, row in TENSOR_TYPES.items()} == theirs


def test_rows_that_do_not_divide_into_blocks_are_refused() -> None:
    assert tensor_bytes((32, 3), TENSOR_TYPES[2]) == 54
    with pytest.raises(ValueError, match="blocks of 32"):
        tensor_bytes((33, 32), TENSOR_TYPES[2])


@pytest.mark.parametrize("module", [tensor_types, first_bytes])
def test_examples_in_the_docstrings_hold(module) -> None:
    result = doctest.testmod(module)
    assert result.attempted
    assert result.failed == 0
