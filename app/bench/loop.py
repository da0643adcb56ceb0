"""The bare decode loop that the app is measured against. It imports nothing of the app.

`llama_decode` and one native sampler chain per sequence (penalties, top-k, top-p, min-p,
temperature, dist), nothing recorded, no text made. The last line on stdout is one JSON object.
Tokens per second are counted as llama-bench does: after a warm-up, without loading, the time
from the first token to the last one divided into the tokens after the first. Several sequences
share one cache and go through one batch; their tokens count together.

    python -I app/bench/loop.py --gguf FILE --text TEXT --tokens 128 --threads 2
"""

from __future__ import annotations

import argparse
import ctypes
import importlib
import importlib.util
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("GGML_NO_BACKTRACE", "1")


def _bindings() -> Any:
    """llama_cpp's low-level bindings alone: the package itself imports numpy and more."""
    spec = importlib.util.find_spec("llama_cpp")
    if spec is None:
        sys.exit("llama-cpp-python is not installed.")
    sys.modules["llama_cpp"] = importlib.util.module_from_spec(spec)
    return importlib.import_module("llama_cpp.llama_cpp")


llama = _bindings()


def main() -> int:
    """Load, warm up, prefill, decode; print the figures."""
    options = _parse()
    quiet = llama.llama_log_callback(lambda *_: None)
    llama.llama_log_set(quiet, ctypes.c_void_p(0))
    llama.llama_backend_init()
    began = time.perf_counter()
    weights = _load_weights(options)
    context = _make_context(weights, options)
    load_s = time.perf_counter() - began
    vocabulary = llama.llama_model_get_vocab(weights)
    n_vocab = llama.llama_vocab_n_tokens(vocabulary)
    chains = [make_chain(n_vocab, options.seed + n) for n in range(options.sequences)]
    _warm_up(context)
    figures = _run(context, chains, _tokenize(vocabulary, options.text), options)
    figures |= {"load_s": load_s, "peak_bytes": _peak_bytes()}
    sys.stdout.write(json.dumps(figures) + "\n")
    return 0


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="The bare llama.cpp loop, measured.")
    parser.add_argument("--gguf", required=True)
    parser.add_argument("--text", required=True)
    parser.add_argument("--tokens", type=int, default=128, help="counted, of each sequence")
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--ctx", type=int, default=4096)
    parser.add_argument("--ubatch", type=int, default=512)
    parser.add_argument("--gpu-layers", type=int, default=0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--sequences", type=int, default=1)
    parser.add_argument("--after-s", type=float, default=0.0, help="count only from then on")
    parser.add_argument("--most-s", type=float, default=0.0, help="count no longer than this")
    return parser.parse_args()


def _load_weights(options: argparse.Namespace) -> Any:
    params = llama.llama_model_default_params()
    params.n_gpu_layers = options.gpu_layers
    weights = llama.llama_model_load_from_file(os.fsencode(options.gguf), params)
    if not weights:
        sys.exit(f"The model {options.gguf} couldn't be loaded.")
    return weights


def _make_context(weights: Any, options: argparse.Namespace) -> Any:
    params = llama.llama_context_default_params()
    params.n_ctx = options.ctx
    params.n_batch = options.ubatch
    params.n_ubatch = options.ubatch
    params.n_seq_max = options.sequences
    params.n_outputs_max = max(options.sequences, 1)
    params.kv_unified = True
    params.n_threads = params.n_threads_batch = options.threads
    context = llama.llama_init_from_model(weights, params)
    if not context:
        sys.exit("Not enough memory for the context window.")
    return context


def make_chain(n_vocab: int, seed: int) -> Any:
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


def _warm_up(context: Any) -> None:
    """Touch all weights once, as llama-bench does, and forget it."""
    _decode(context, [0])
    llama.llama_memory_clear(llama.llama_get_memory(context), True)


class _Count:
    """When the counted tokens began and ended."""

    def __init__(self, options: argparse.Namespace, first: float) -> None:
        self._after = first + options.after_s
        self._most_s = options.most_s or float("inf")
        self._wanted = options.tokens
        self.first = first
        self.last = first
        self.counted = 0
        self._is_open = options.after_s == 0.0

    def step(self, now: float) -> bool:
        """One token more of each sequence; False when enough are counted."""
        if self._is_open:
            self.counted, self.last = self.counted + 1, now
        elif now >= self._after:
            self._is_open, self.first, self.last = True, now, now
        return self.counted < self._wanted - 1 and now - self.first < self._most_s


def _run(
    context: Any, chains: list[Any], prompt: list[int], options: argparse.Namespace
) -> dict[str, Any]:
    """Prefill the text once, share it, then sample and decode; end tokens do not end it."""
    began = time.perf_counter()
    for start in range(0, len(prompt), options.ubatch):
        _decode(context, prompt[start : start + options.ubatch])
    replies = [[llama.llama_sampler_sample(chain, context, -1)] for chain in chains]
    first = time.perf_counter()
    memory = llama.llama_get_memory(context)
    for sequence in range(1, len(chains)):
        llama.llama_memory_seq_cp(memory, 0, sequence, -1, -1)
    step = _one_step if len(chains) == 1 else _batch_step(context, len(chains))
    count = _Count(options, time.perf_counter())
    is_wanted = options.tokens > 1
    position = len(prompt)
    while is_wanted and position < options.ctx:
        step(context, chains, replies, position)
        position += 1
        is_wanted = count.step(time.perf_counter())
    spent = count.last - count.first
    return {
        "tokens_per_s": count.counted * len(chains) / spent if spent else 0.0,
        "first_token_s": first - began,
        "prompt_tokens": len(prompt),
        "generated": len(replies[0]),
        "counted": count.counted,
        "token_ids": replies[0],
    }


def _one_step(context: Any, chains: list[Any], replies: list[list[int]], _position: int) -> None:
    _decode(context, replies[0][-1:])
    replies[0].append(llama.llama_sampler_sample(chains[0], context, -1))


def _batch_step(context: Any, n_sequences: int) -> Any:
    """A step that decodes one token of each sequence in one batch."""
    batch = llama.llama_batch_init(n_sequences, 0, 1)
    batch.n_tokens = n_sequences
    for row in range(n_sequences):
        batch.n_seq_id[row] = 1
        batch.seq_id[row][0] = row
        batch.logits[row] = 1

    def step(context: Any, chains: list[Any], replies: list[list[int]], position: int) -> None:
        for row in range(n_sequences):
            batch.token[row] = replies[row][-1]
            batch.pos[row] = position
        code = llama.llama_decode(context, batch)
        if code != 0:
            sys.exit(f"llama_decode returned {code}.")
        for row, chain in enumerate(chains):
            replies[row].append(llama.llama_sampler_sample(chain, context, row))

    return step


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


def _peak_bytes() -> int:
    """The most memory this process ever held at once; 0 where the system does not say."""
    # Not getrusage: what a child reports there begins with its parent's peak.
    try:
        lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM")), 0)


if __name__ == "__main__":
    sys.exit(main())
