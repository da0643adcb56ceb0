"""The least that a recorded reply can cost: what `ask` with the trace on is to be compared with.

    PYTHONPATH=.:tests/app/engine .venv/bin/python tests/bench/least_trace.py FILE.gguf [ROUNDS]

Three ways to write one reply, in one process and one thread, taking turns every few tokens, so
that the machine's moods and the cache's length are the same for all:

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

BLOCK = 8
TOP = 64


def main() -> None:
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 40
    log = native.NativeLog()
    native.start(log)
    weights = load_quietly(Path(sys.argv[1]), log, n_ctx=4096, governor=False)
    ways: dict[str, Callable[[int], None]] = {
        "bare": lambda _token: None,
        "noted": [].append,
        "least": _least(weights),
    }
    spent: dict[str, list[float]] = {name: [] for name in ways}
    write = _Writer(weights)
    for _ in range(rounds):
        for name, note in ways.items():
            spent[name].append(write(note))
    print(f"{sys.argv[1]}, {weights.n_threads} threads, {rounds} times {BLOCK} tokens of each")
    for name, times in spent.items():
        ratios = [bare / it for bare, it in zip(spent["bare"], times, strict=True)]
        share = f"bare ÷ it {statistics.median(ratios):.3f}"
        print(f"{name:<6} {statistics.median(times):7.3f} ms/token  {share}")


class _Writer:
    """One reply that goes on; a call writes a block and says how long a token took, in ms."""

    def __init__(self, weights: Any) -> None:
        self._context = weights.context
        self._chain = _chain(weights.vocabulary.n_vocab, sampling(1))
        _decode(self._context, weights.vocabulary.tokenize(TEXT, special=True))
        self._token = llama.llama_sampler_sample(self._chain, self._context, -1)

    def __call__(self, note: Callable[[int], None]) -> float:
        began = time.perf_counter()
        for _ in range(BLOCK):
            note(self._token)
            _decode(self._context, [self._token])
            self._token = llama.llama_sampler_sample(self._chain, self._context, -1)
        return (time.perf_counter() - began) / BLOCK * 1000


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
