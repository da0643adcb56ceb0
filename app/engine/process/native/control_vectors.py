"""Control vectors: small GGUF files with one direction for each layer.

The form is llama.cpp's (`common_control_vector_load`, and what repeng exports): the architecture is
"controlvector", and the tensor `direction.N`, N from 1 on, is added to what layer N writes into the
stream, layers counted from 0. So there is none for the first layer. llama.cpp leaves out in silence
what is too long; here it is refused.
"""

from __future__ import annotations

import re
from typing import Any, Final

import numpy as np

from app.engine.process.native.adapter_content import unreadable
from app.gguf.header import Header
from app.refusal import Refusal

ARCHITECTURE: Final = "controlvector"
WEIGHTS_KEY: Final = "cutaway.weights_hash"
"""Of which weights it was made, by their `fast_hash`: in files that were made here."""

_DIRECTION: Final = re.compile(r"direction\.([1-9][0-9]{0,5})")
_WORDS: Final = "control vector"

Directions = np.ndarray[Any, np.dtype[np.float32]]


def check_vector(header: Header, weights: Header) -> None:
    """Raises Refusal where a file is no control vector for these weights."""
    name, base = header.path.name, weights.path.name
    layers = [layer_of(tensor.name) for tensor in header.tensors]
    if header.architecture != ARCHITECTURE or not layers or 0 in layers:
        raise Refusal(
            "unsupported",
            f"“{name}” isn't a control vector. Choose one in llama.cpp's GGUF format.",
        )
    n_embd, n_layer = weights.n_embd or 0, weights.n_layer or 0
    fits = all(t.shape == (n_embd,) for t in header.tensors)
    if not fits or max(layers) >= n_layer:
        raise Refusal(
            "unsupported",
            f"The control vector “{name}” was made for a different model than “{base}”: its "
            "layers or their width don't match. Choose a matching one, or make one here.",
        )
    if any(t.type_name != "F32" for t in header.tensors):
        raise Refusal(
            "unsupported", f"The control vector “{name}” isn't stored as F32. Make it again."
        )


def layer_of(name: str) -> int:
    """
    >>> layer_of("direction.12"), layer_of("direction.0"), layer_of("blk.3.attn_q.weight")
    (12, 0, 0)
    """
    match = _DIRECTION.fullmatch(name)
    return int(match[1]) if match else 0


def read_directions(header: Header, n_layer: int) -> Directions:
    """[n_layer - 1, n_embd]: row i is layer i + 1's; zeros where the file has none. Raises
    Refusal."""
    n_embd = header.tensors[0].shape[0]
    directions = np.zeros((n_layer - 1, n_embd), np.float32)
    try:
        with header.path.open("rb") as file:
            for tensor in header.tensors:
                file.seek(header.data_offset + tensor.offset)
                row = np.frombuffer(file.read(tensor.size_bytes), "<f4")
                if len(row) != n_embd:
                    raise OSError("the file is shorter than its header says")
                directions[layer_of(tensor.name) - 1] = row
    except OSError as error:
        raise unreadable(header.path, _WORDS, error) from error
    return directions
