"""The probabilities of each token of a reply, from llama.cpp's logits by plain softmax in float64.

Nothing of the app is imported. The prompt is read in one batch, the reply token by token. The last
line on stdout is a list with one object per token of the reply.

    python tests/native_softmax.py weights.gguf '{"prompt": [1, 2], "reply": [3, 4], "n_ctx": 4096}'
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
from typing import Any

os.environ.setdefault("GGML_NO_BACKTRACE", "1")

import llama_cpp
import numpy as np

N_BEST = 64


def main(path: str, asked: dict[str, Any]) -> None:
    quiet = llama_cpp.llama_log_callback(lambda *_: None)
    llama_cpp.llama_log_set(quiet, ctypes.c_void_p(0))
    llama_cpp.llama_backend_init()
    weights = llama_cpp.llama_model_load_from_file(
        path.encode(), llama_cpp.llama_model_default_params()
    )
    params = llama_cpp.llama_context_default_params()
    params.n_ctx, params.n_batch, params.n_ubatch = asked["n_ctx"], 512, 512
    params.n_threads = params.n_threads_batch = 1
    context = llama_cpp.llama_init_from_model(weights, params)
    n_vocab = llama_cpp.llama_vocab_n_tokens(llama_cpp.llama_model_get_vocab(weights))
    told, batch = [], asked["prompt"]
    for token_id in asked["reply"]:
        array = (llama_cpp.llama_token * len(batch))(*batch)
        assert (
            llama_cpp.llama_decode(context, llama_cpp.llama_batch_get_one(array, len(batch))) == 0
        )
        logits = np.ctypeslib.as_array(
            llama_cpp.llama_get_logits_ith(context, -1), (n_vocab,)
        ).astype(np.float64)
        told.append(of_token(logits, token_id))
        batch = [token_id]
    sys.stdout.write(json.dumps(told) + "\n")


def of_token(logits: np.ndarray, token_id: int) -> dict[str, Any]:
    """Softmax: e^l over the sum of all e^l. Entropy: −Σ p log2 p."""
    weights = np.exp(logits - logits.max())
    p = weights / weights.sum()
    best = np.argsort(-p, kind="stable")[:N_BEST]
    return {
        "p": float(p[token_id]),
        "rank": int((p > p[token_id]).sum()) + 1,
        "entropy": float(-(p[p > 0] * np.log2(p[p > 0])).sum()),
        "best": [[int(i), float(p[i])] for i in best],
    }


if __name__ == "__main__":
    main(sys.argv[1], json.loads(sys.argv[2]))
