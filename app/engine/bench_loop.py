"""The bare decode loop that the app is measured against. It imports nothing of the app.

`llama_decode` and one native sampler chain (penalties, top-k, top-p, min-p, temperature,
dist), nothing recorded, no text made. The last line on stdout is
one JSON object. Tokens per second are counted as the app and llama-bench do: the time from
the first token to the last one, divided into the tokens after the first.

    python -I app/engine/bench_loop.py --gguf FILE --text TEXT --tokens 128 --threads 2
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import sys
import time
from typing import Any

os.environ.setdefault("GGML_NO_BACKTRACE", "1")

import llama_cpp.llama_cpp as llama


def main() -> int:
    """Load, prefill, decode; print the figures."""
    options = _parse()
    quiet = llama.llama_log_callback(lambda *_: None)
    llama.llama_log_set(quiet, ctypes.c_void_p(0))
    llama.llama_backend_init()
    began = time.perf_counter()
    weights = _load_weights(options)
    context = _make_context(weights, options)
    load_s = time.perf_counter() - began
    vocabulary = llama.llama_model_get_vocab(weights)
    chain = _make_chain(llama.llama_vocab_n_tokens(vocabulary), options.seed)
    figures = _run(context, chain, vocabulary, options)
    sys.stdout.write(json.dumps({"load_s": load_s, **figures}) + "\n")
    return 0


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="The bare llama.cpp loop, measured.")
    parser.add_argument("--gguf", required=True)
    parser.add_argument("--text", required=True)
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--ctx", type=int, default=4096)
    parser.add_argument("--ubatch", type=int, default=512)
    parser.add_argument("--gpu-layers", type=int, default=0)
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args()


def _load_weights(options: argparse.Namespace) -> Any:
    params = llama.llama_model_default_params()
    params.n_gpu_layers = options.gpu_layers
    weights = llama.llama_model_load_from_file(os.fsencode(options.gguf), params)
    if not weights:
        sys.exit(f"The weights {options.gguf} do not load.")
    return weights


def _make_context(weights: Any, options: argparse.Namespace) -> Any:
    params = llama.llama_context_default_params()
    params.n_ctx = options.ctx
    params.n_batch = options.ubatch
    params.n_ubatch = options.ubatch
    params.n_threads = params.n_threads_batch = options.threads
    context = llama.llama_init_from_model(weights, params)
    if not context:
        sys.exit("There is not enough memory for the context.")
    return context


def _make_chain(n_vocab: int, seed: int) -> Any:
    chain = llama.llama_sampler_chain_init(llama.llama_sampler_chain_default_params())
    for stage in (
        llama.llama_sampler_init_penalties(n_vocab, 64, 1.0, 0.0, 0.0),
        llama.llama_sampler_init_top_k(40),
        llama.llama_sampler_init_top_p(0.95, 1),
        llama.llama_sampler_init_min_p(0.05, 1),
        llama.llama_sampler_init_temp(0.8),
        llama.llama_sampler_init_dist(seed),
    ):
        llama.llama_sampler_chain_add(chain, stage)
    return chain


def _run(context: Any, chain: Any, vocabulary: Any, options: argparse.Namespace) -> dict[str, Any]:
    """Prefill the text, then sample and decode; end tokens do not end it."""
    began = time.perf_counter()
    prompt = _tokenize(vocabulary, options.text)
    for start in range(0, len(prompt), options.ubatch):
        _decode(context, prompt[start : start + options.ubatch])
    token_ids = [llama.llama_sampler_sample(chain, context, -1)]
    first = last = time.perf_counter()
    while len(token_ids) < options.tokens:
        _decode(context, token_ids[-1:])
        token_ids.append(llama.llama_sampler_sample(chain, context, -1))
        last = time.perf_counter()
    return {
        "tokens_per_s": (len(token_ids) - 1) / (last - first),
        "first_token_s": first - began,
        "prompt_tokens": len(prompt),
        "generated": len(token_ids),
        "token_ids": token_ids,
    }


def _tokenize(vocabulary: Any, text: str) -> list[int]:
    data = text.encode()
    ids = (llama.llama_token * (len(data) + 8))()
    add_special = bool(llama.llama_vocab_get_add_bos(vocabulary))
    count = llama.llama_tokenize(vocabulary, data, len(data), ids, len(ids), add_special, False)
    return list(ids[:count])


def _decode(context: Any, token_ids: list[int]) -> None:
    # llama_batch_get_one keeps a pointer: the array must live until the decode returns.
    array = (llama.llama_token * len(token_ids))(*token_ids)
    code = llama.llama_decode(context, llama.llama_batch_get_one(array, len(token_ids)))
    if code != 0:
        sys.exit(f"llama_decode returned {code}.")


if __name__ == "__main__":
    sys.exit(main())
