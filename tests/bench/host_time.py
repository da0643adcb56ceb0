"""Host time of the decoding thread per token, by what it does: draw, copy, hand over.

    PYTHONPATH=.:tests/app/engine .venv/bin/python tests/bench/host_time.py FILE.gguf …

Scores of one decode are drawn from again and again, so nothing of llama.cpp's own computing is in
the figures. The smallest of many rounds is shown, since the machine is shared. `native` is
llama_sampler_sample with the same chain, for comparison.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path

from native_chains import Steps, native_chain
from native_session import load_quietly

from app.engine.process.native import native
from app.engine.process.native.native import llama
from app.engine.process.sampling.candidates import Candidates
from app.engine.process.sampling.chain import Chain
from app.engine.process.trace.measuring import Measurer
from app.engine.process.trace.outbox import TokenRecord
from app.engine.protocol.stages import (
    Dist,
    FilterStage,
    MinP,
    Penalties,
    Sampling,
    Temperature,
    TopK,
    TopP,
)

ROUNDS = 15
CHAINS: dict[str, list[FilterStage]] = {
    "default": [Penalties(), TopK(), TopP(), MinP(), Temperature()],
    "penalties 1.1": [Penalties(repeat=1.1), TopK(), TopP(), MinP(), Temperature()],
    "no top-k": [Penalties(repeat=1.1), Temperature(), MinP()],
}


def best_ms(steps: Steps, act: Callable[[int], object]) -> float:
    """Milliseconds per token, the best of `ROUNDS` rounds over all rows."""
    times = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        for row in range(len(steps.rows)):
            act(row)
        times.append((time.perf_counter() - began) / len(steps.rows))
    return 1000 * min(times)


def measure(steps: Steps, name: str, filters: list[FilterStage]) -> None:
    vocabulary, n_ctx = steps.weights.vocabulary, steps.weights.n_ctx
    sampling = Sampling(filters, Dist(), seed=1)
    chain = Chain(sampling, n_vocab=vocabulary.n_vocab, n_ctx=n_ctx, vocabulary=vocabulary)
    chain.see_prompt(steps.prompt)
    theirs = native_chain(sampling, steps.weights, steps.prompt)
    candidates, measurer = Candidates(vocabulary.n_vocab), Measurer(vocabulary.n_vocab)

    def draw(row: int, *, record: bool) -> TokenRecord:
        scores = steps.rows[row].copy()
        drawn = chain.draw(scores, candidates, record=record)
        return TokenRecord(
            1, row, drawn.token_id, b"", scores, drawn.snapshots, 64, 1.0, drawn.uniform
        )

    records = [draw(row, record=True) for row in range(len(steps.rows))]
    figures = {
        "native": best_ms(
            steps, lambda row: llama.llama_sampler_sample(theirs, steps.context, row)
        ),
        "stages off": best_ms(steps, lambda row: draw(row, record=False)),
        "stages on": best_ms(steps, lambda row: draw(row, record=True)),
        "beside (outbox)": best_ms(steps, lambda row: records[row].event(measurer)),
    }
    words = "   ".join(f"{what} {ms:6.3f}" for what, ms in figures.items())
    print(f"  {name:14}  {words}")
    chain.close()
    llama.llama_sampler_free(theirs)


def main() -> None:
    log = native.NativeLog()
    native.start(log)
    for path in sys.argv[1:]:
        weights = load_quietly(Path(path), log, n_ctx=256, n_ubatch=64, n_threads=1)
        steps = Steps(weights)
        print(f"{Path(path).name}: {weights.vocabulary.n_vocab:,} tokens, ms per token")
        for name, filters in CHAINS.items():
            measure(steps, name, filters)
        steps.close()
        weights.close()


if __name__ == "__main__":
    main()
