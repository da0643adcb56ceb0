"""ggml's tensors as the callback hands them out: named, measured, read and written.

They may be looked at while the callback runs, and no longer: their memory is used again by later
nodes. The layout of `ggml_tensor` is that of the llama.cpp that the pinned llama-cpp-python
carries; `layout_fits` says whether the library agrees, and without it nothing here may be used.
"""

from __future__ import annotations

import ctypes
from typing import Any, Final

import numpy as np

from app.engine.process.native.native import ggml_function

Values = np.ndarray[Any, Any]


class Tensor(ctypes.Structure):
    """`ggml_tensor` of ggml.h. `ne`: extents, fastest first; `nb`: strides in bytes."""


Tensor._fields_ = [
    ("type", ctypes.c_int),
    ("buffer", ctypes.c_void_p),
    ("ne", ctypes.c_int64 * 4),
    ("nb", ctypes.c_size_t * 4),
    ("op", ctypes.c_int),
    ("op_params", ctypes.c_int32 * 16),
    ("flags", ctypes.c_int32),
    ("src", ctypes.POINTER(Tensor) * 10),
    ("view_src", ctypes.POINTER(Tensor)),
    ("view_offs", ctypes.c_size_t),
    ("data", ctypes.c_void_p),
    ("name", ctypes.c_char * 64),
    ("extra", ctypes.c_void_p),
    ("padding", ctypes.c_char * 8),
]

_OBJECT_BYTES: Final = 32
"""`sizeof(struct ggml_object)`, which `ggml_tensor_overhead` counts in."""

_overhead = ggml_function("base", "ggml_tensor_overhead", ctypes.c_size_t)
_op_name = ggml_function("base", "ggml_op_name", ctypes.c_char_p, ctypes.c_int)
_type_name = ggml_function("base", "ggml_type_name", ctypes.c_char_p, ctypes.c_int)
_row_bytes = ggml_function("base", "ggml_row_size", ctypes.c_size_t, ctypes.c_int, ctypes.c_int64)
_block_size = ggml_function("base", "ggml_blck_size", ctypes.c_int64, ctypes.c_int)
_n_bytes = ggml_function("base", "ggml_nbytes", ctypes.c_size_t, ctypes.POINTER(Tensor))
_get = ggml_function(
    "base",
    "ggml_backend_tensor_get",
    None,
    ctypes.POINTER(Tensor),
    ctypes.c_void_p,
    ctypes.c_size_t,
    ctypes.c_size_t,
)
_set = ggml_function(
    "base",
    "ggml_backend_tensor_set",
    None,
    ctypes.POINTER(Tensor),
    ctypes.c_void_p,
    ctypes.c_size_t,
    ctypes.c_size_t,
)

F32: Final = 0
_PLAIN: Final[dict[int, np.dtype[Any]]] = {
    F32: np.dtype("<f4"),
    1: np.dtype("<f2"),
    24: np.dtype("i1"),
    25: np.dtype("<i2"),
    26: np.dtype("<i4"),
    27: np.dtype("<i8"),
}
"""ggml's type numbers whose values numpy knows as they lie."""


class _Traits(ctypes.Structure):
    """`ggml_type_traits` of ggml.h."""

    _fields_ = (
        ("type_name", ctypes.c_char_p),
        ("block_size", ctypes.c_int64),
        ("block_size_interleave", ctypes.c_int64),
        ("type_size", ctypes.c_size_t),
        ("is_quantized", ctypes.c_bool),
        (
            "to_float",
            ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64),
        ),
        ("from_float_ref", ctypes.c_void_p),
    )


_traits = ggml_function("base", "ggml_get_type_traits", ctypes.POINTER(_Traits), ctypes.c_int)


def layout_fits() -> bool:
    """Whether the loaded library's `ggml_tensor` is as long as ours."""
    return bool(_overhead() == _OBJECT_BYTES + ctypes.sizeof(Tensor))


def op_of(tensor: Tensor) -> str:
    return str(_op_name(tensor.op).decode())


def name_of(tensor: Tensor) -> str:
    return str(tensor.name.decode("utf-8", "replace"))


def shape_of(tensor: Tensor) -> tuple[int, ...]:
    """As numpy has it: slowest first, four of them."""
    return tuple(reversed(tensor.ne))


def to_float32(type_number: int, data: Values, n_values: int) -> Values:
    """`n_values` numbers of a ggml type that lie in `data` (u1) one after the other, [n_values].
    By ggml's own code. Raises ValueError for a type that cannot be read back."""
    plain = _PLAIN.get(type_number)
    if plain is not None:
        return np.frombuffer(data, plain, n_values).astype(np.float32)
    traits = _traits(type_number).contents
    if not traits.to_float or n_values % max(traits.block_size, 1):
        raise ValueError(f"ggml cannot read {type_name(type_number)} back")
    out = np.empty(n_values, np.float32)
    traits.to_float(data.ctypes.data, out.ctypes.data, n_values)
    return out


def type_name(type_number: int) -> str:
    name = _type_name(type_number)
    return name.decode() if name else str(type_number)


def row_bytes(type_number: int, n_values: int) -> int:
    """Bytes of a row of `n_values` numbers."""
    return int(_row_bytes(type_number, n_values))


def read(tensor: Tensor) -> Values:
    """All values, float32, in `shape_of`. Integers stay integers. Views are read with their
    strides, whatever device the values lie on."""
    shape, plain = shape_of(tensor), _PLAIN.get(tensor.type)
    size = int(_n_bytes(ctypes.byref(tensor)))
    data = np.empty(size, np.uint8)
    if size:
        _get(ctypes.byref(tensor), data.ctypes.data, 0, size)
    if plain is not None:
        strides = tuple(reversed(tensor.nb))
        values = np.ndarray(shape, plain, data, strides=strides)
        return values.astype(np.float32) if plain.kind == "f" else values.copy()
    # Blocks lie along the first extent, so that one is whole; the others may be strided.
    row = row_bytes(tensor.type, shape[-1])
    rows = np.ndarray((*shape[:-1], row), np.uint8, data, strides=(*reversed(tensor.nb[1:]), 1))
    whole = np.ascontiguousarray(rows)
    n_values = int(np.prod(shape))
    return to_float32(tensor.type, whole.reshape(-1), n_values).reshape(shape)


def write(tensor: Tensor, values: Values) -> None:
    """Put float32 `values` in place of the tensor's own. It must be float32 and contiguous, and
    have just been computed. Raises ValueError where it is not so."""
    values = np.ascontiguousarray(values, np.float32)
    if tensor.type != F32 or values.nbytes != _n_bytes(ctypes.byref(tensor)):
        raise ValueError(f"{name_of(tensor)} does not take {values.nbytes} bytes of float32")
    _set(ctypes.byref(tensor), values.ctypes.data, 0, values.nbytes)
