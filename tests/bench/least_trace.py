"""The least that a recorded reply can cost: what `ask` with the trace on is to be compared with.

    PYTHONPATH=.:tests/app/engine .venv/bin/python tests/bench/least_trace.py FILE.gguf [TOKENS]

Three loops in one process and one thread, in turn, with the same chain, seed and prompt:

    bare    llama_decode and llama_sampler_sample, nothing else (as `app/engine/bench_loop.py`)
    noted   the same, and a Python list takes the token
    least   the same, and for each token: a copy of the scores, one exp over the vocabulary,
            the best 64 by the cheapest way there is here, one line of JSON written to a pipe
            whose other end nobody has to wake for

No engine process, no threads, no stages, no text: a trace that costs less than `least` would
leave something out. So least ÷ bare bounds what the app can reach where llama.cpp's threads have
every core: there each microsecond of ours is taken from them.
"""

from __future__ import annotations

import math
import os
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
from native_session import load_quietly

from app.bench_sides import TEXT, sampling
from app.engine import native
from app.engine.measuring import Measurer
from app.engine.native import llama, scores_of
from app.engine.protocol import Sampling
from app.engine.shortlist import ShortlistFinder

ROUNDS = 7
TOP = 64


def main() -> None:
    tokens = int(sys.argv[2]) if len(sys.argv) > 2 else 96
    log = native.NativeLog()
    native.start(log)
    weights = load_quietly(Path(sys.argv[1]), log, n_ctx=2048, governor=False)
    loops: dict[str, Callable[[], Callable[[int], None]]] = {
        "bare": lambda: lambda _token: None,
        "noted": lambda: [].append,
        "least": lambda: _least(weights),
    }
    spent: dict[str, list[float]] = {name: [] for name in loops}
    for _ in range(ROUNDS):
        for name, make in loops.items():
            spent[name].append(_run(weights, make(), tokens))
    print(f"{sys.argv[1]}, {weights.n_threads} threads, {tokens} tokens, {ROUNDS} rounds")
    bare = statistics.median(spent["bare"])
    for name, times in spent.items():
        middle = statistics.median(times)
        print(f"{name:<6} {middle:7.3f} ms/token  bare ÷ it {bare / middle:.3f}")


def _run(weights: Any, note: Callable[[int], None], tokens: int) -> float:
    """Milliseconds per token."""
    llama.llama_memory_clear(weights.memory, True)
    chain = _chain(weights.vocabulary.n_vocab, sampling(1))
    ids = weights.vocabulary.tokenize(TEXT, special=True)
    _decode(weights.context, ids)
    token = llama.llama_sampler_sample(chain, weights.context, -1)
    began = time.perf_counter()
    for _ in range(tokens):
        note(token)
        _decode(weights.context, [token])
        token = llama.llama_sampler_sample(chain, weights.context, -1)
    spent = time.perf_counter() - began
    llama.llama_sampler_free(chain)
    return spent / tokens * 1000


def _least(weights: Any) -> Callable[[int], None]:
    n_vocab = weights.vocabulary.n_vocab
    measurer, finder = Measurer(n_vocab), ShortlistFinder(n_vocab)
    pieces = [weights.vocabulary.piece(i).decode("utf-8", "replace") for i in range(n_vocab)]
    encode = msgspec.json.Encoder().encode
    out = os.open(os.devnull, os.O_WRONLY)

    def note(token: int) -> None:
        scores = scores_of(weights.context, -1, n_vocab)
        found = measurer.measure(scores, token, TOP, finder.find(scores, TOP))
        ids = found.alternative_ids.tolist()
        shares = map(math.exp, found.alternative_logprobs.tolist())
        line = {
            "token_id": token,
            "probability": math.exp(found.logprob),
            "rank": found.rank,
            "entropy": found.entropy,
            "alternatives": list(zip(ids, map(pieces.__getitem__, ids), shares, strict=True)),
        }
        os.write(out, encode(line) + b"\n")

    return note


def _chain(n_vocab: int, wanted: Sampling) -> Any:
    chain = llama.llama_sampler_chain_init(llama.llama_sampler_chain_default_params())
    for stage in (
        llama.llama_sampler_init_penalties(n_vocab, 64, 1.0, 0.0, 0.0),
        llama.llama_sampler_init_top_k(40),
        llama.llama_sampler_init_top_p(0.95, 1),
        llama.llama_sampler_init_min_p(0.05, 1),
        llama.llama_sampler_init_temp(0.8),
        llama.llama_sampler_init_dist(wanted.seed),
    ):
        llama.llama_sampler_chain_add(chain, stage)
    return chain


def _decode(context: Any, ids: list[int]) -> None:
    array = (llama.llama_token * len(ids))(*ids)
    if llama.llama_decode(context, llama.llama_batch_get_one(array, len(ids))) != 0:
        sys.exit("llama_decode failed")


if __name__ == "__main__":
    main()
