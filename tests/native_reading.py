"""What llama.cpp itself says of a text: its IDs, its pieces, the scores behind it, and what each
head found at its last token.

Nothing of the app is imported: it runs in a process of its own, which reads the text in one batch
on one thread.

    told = native_reading(path, texts=["Paris"], prompt=[1, 2, 3], pieces=[4])
    told.ids[0], told.pieces[4], told.logits, told.heads
"""

from __future__ import annotations

import ctypes
import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parent.parent


@dataclass
class NativeReading:
    """`ids` of each text, without what begins or surrounds one; `pieces` by ID; `logits` [n_vocab]
    float64; `heads` [n_layer, n_head · d_head]: of the last token, before they are mixed."""

    ids: list[list[int]]
    pieces: dict[int, bytes]
    logits: np.ndarray[Any, np.dtype[np.float64]]
    heads: np.ndarray[Any, np.dtype[np.float32]]


def native_reading(
    path: Path, *, texts: Sequence[str], prompt: Sequence[int], pieces: Sequence[int]
) -> NativeReading:
    asked = {"texts": list(texts), "prompt": list(prompt), "pieces": list(pieces)}
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "told.npz"
        subprocess.run(
            [sys.executable, __file__, str(path), json.dumps(asked), str(out)],
            capture_output=True,
            text=True,
            timeout=120,
            check=True,
            cwd=ROOT,
        )
        with np.load(out) as file:
            told = json.loads(bytes(file["told"]))
            return NativeReading(
                told["ids"],
                {int(token): bytes.fromhex(piece) for token, piece in told["pieces"].items()},
                file["logits"].astype(np.float64),
                file["heads"],
            )


def main(path: str, asked: dict[str, Any], out: str) -> None:
    import llama_cpp as native

    native.llama_backend_init()
    model = native.llama_model_load_from_file(path.encode(), native.llama_model_default_params())
    vocab = native.llama_model_get_vocab(model)
    heads: dict[int, np.ndarray[Any, Any]] = {}
    watch = _watching(native, heads, len(asked["prompt"]))
    params = native.llama_context_default_params()
    params.n_ctx = 512
    params.n_threads = params.n_threads_batch = 1
    params.cb_eval = watch
    context = native.llama_init_from_model(model, params)
    ids = (native.llama_token * len(asked["prompt"]))(*asked["prompt"])
    assert native.llama_decode(context, native.llama_batch_get_one(ids, len(ids))) == 0
    n_vocab = native.llama_vocab_n_tokens(vocab)
    logits = np.ctypeslib.as_array(native.llama_get_logits_ith(context, -1), (n_vocab,))
    told = {
        "ids": [_ids(native, vocab, text.encode()) for text in asked["texts"]],
        "pieces": {token: _piece(native, vocab, token).hex() for token in asked["pieces"]},
    }
    np.savez(
        out,
        told=np.frombuffer(json.dumps(told).encode(), np.uint8),
        logits=logits,
        heads=np.stack([heads[layer] for layer in sorted(heads)]) if heads else np.zeros((0, 0)),
    )


def _watching(native: Any, heads: dict[int, np.ndarray[Any, Any]], n_tokens: int) -> Any:
    """A callback that keeps the last row of each layer's `kqv_out`."""
    folder = Path(native.__file__).parent / "lib"
    ggml = ctypes.CDLL(str(next(folder.glob("*ggml-base.*"))))
    ggml.ggml_get_name.restype, ggml.ggml_get_name.argtypes = ctypes.c_char_p, [ctypes.c_void_p]
    ggml.ggml_nelements.restype, ggml.ggml_nelements.argtypes = ctypes.c_int64, [ctypes.c_void_p]
    get = ggml.ggml_backend_tensor_get
    get.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t]

    def on_node(tensor: int, is_asked: bool, _data: Any) -> bool:
        name, _, layer = ggml.ggml_get_name(tensor).decode().partition("-")
        if name != "kqv_out":
            return not is_asked
        if not is_asked:
            n = ggml.ggml_nelements(tensor)
            row = np.zeros(n // n_tokens, np.float32)
            get(tensor, row.ctypes.data, 4 * (n - row.size), 4 * row.size)
            heads[int(layer)] = row
        return True

    return native.ggml_backend_sched_eval_callback(on_node)


def _ids(native: Any, vocab: Any, text: bytes) -> list[int]:
    found = (native.llama_token * (len(text) + 8))()
    n = native.llama_tokenize(vocab, text, len(text), found, len(found), False, False)
    return list(found[:n])


def _piece(native: Any, vocab: Any, token: int) -> bytes:
    buffer = ctypes.create_string_buffer(256)
    n = native.llama_token_to_piece(vocab, token, buffer, len(buffer), 0, True)
    return buffer.raw[:n]


if __name__ == "__main__":
    main(sys.argv[1], json.loads(sys.argv[2]), sys.argv[3])
