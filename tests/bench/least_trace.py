"""The least that a recorded reply can cost: what `ask` with the trace on is to be compared with.

    export PYTHONPATH=.:tests:tests/app/engine
    python tests/bench/least_trace.py FILE.gguf [ROUNDS [AT_ONCE]]

Ways to write one reply, in one process and one thread, taking turns every few tokens, so that the
machine's moods and the cache's length are the same for all:

    bare    llama_decode and llama_sampler_sample, nothing else (as `app/engine/bench_loop.py`)
    noted   the same, and a Python list takes the token
    least   the same, and for each token: a copy of the scores, one exp over the vocabulary,
            the best 64 by the cheapest way there is here, one line of JSON written to a pipe
            whose other end nobody has to wake for
    piped   the same, but as frames through a pipe, sixteen tokens with one write, to a process
            that decodes them and writes the lines, as the engine's process and `ask` share it

No scheduler, no stages, no text, no second thread: a trace that costs less than `least` would
leave something out, and one less than `piped` would not have left the engine's process. So
these ÷ bare bound what the app can reach where llama.cpp's threads have every core: there each
microsecond of ours is taken from them.
"""

from __future__ import annotations

import math
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, BinaryIO, cast

import msgspec
from native_session import load_quietly

from app.bench_sides import TEXT
from app.engine import native
from app.engine.bench_loop import make_chain
from app.engine.measuring import Measured, Measurer, as_array
from app.engine.native import Batch, llama
from app.engine.protocol import TokenArrived, TokenTrace
from app.engine.scores import scores_of
from app.engine.shortlist import ShortlistFinder
from app.engine.wire import FrameReader, FrameWriter, decode_event

BLOCK = 8
TOP = 64
AT_ONCE = 16
READER = "--reader"

Note = Callable[[int, int], None]
"""Takes the batch row and the token that was drawn from it."""


def main() -> None:
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 40
    sequences = int(sys.argv[3]) if len(sys.argv) > 3 else 1
    log = native.NativeLog()
    native.start(log)
    weights = load_quietly(Path(sys.argv[1]), log, n_ctx=4096, governor=False)
    noted: list[int] = []
    reader = subprocess.Popen([sys.executable, __file__, READER], stdin=subprocess.PIPE)
    ways: dict[str, Note] = {
        "bare": lambda _row, _token: None,
        "noted": lambda _row, token: noted.append(token),
        "least": _least(weights),
        "piped": _piped(weights, reader),
    }
    spent: dict[str, list[float]] = {name: [] for name in ways}
    write = _Writer(weights, sequences)
    for _ in range(rounds):
        for name, note in ways.items():
            spent[name].append(write(note))
    assert reader.stdin is not None
    reader.stdin.close()
    if reader.wait(timeout=60):
        sys.exit("the reader failed")
    what = f"{sequences} at once, {rounds} times {BLOCK} tokens of each"
    print(f"{sys.argv[1]}, {weights.n_threads} threads, {what}")
    for name, times in spent.items():
        ratios = [bare / it for bare, it in zip(spent["bare"], times, strict=True)]
        share = f"bare ÷ it {statistics.median(ratios):.3f}"
        print(f"{name:<6} {statistics.median(times):7.3f} ms/token  {share}")


class _Writer:
    """Replies to one prompt, written in one batch that goes on; a call writes a block and says how
    long a token took, in ms."""

    def __init__(self, weights: Any, sequences: int) -> None:
        self._context = weights.context
        self._chains = [
            make_chain(weights.vocabulary.n_vocab, seed + 1) for seed in range(sequences)
        ]
        self._batch = Batch(512, sequences)
        ids = weights.vocabulary.tokenize(TEXT, special=True)
        self._batch.add(ids, 0, 0, want_scores=True)
        self._decode()
        for sequence in range(1, sequences):
            llama.llama_memory_seq_cp(weights.memory, 0, sequence, -1, -1)
        self._tokens = [self._draw(chain, -1) for chain in self._chains]
        self._position = len(ids)

    def __call__(self, note: Note) -> float:
        began = time.perf_counter()
        for _ in range(BLOCK):
            for sequence, token in enumerate(self._tokens):
                self._batch.add([token], self._position, sequence, want_scores=True)
            self._decode()
            self._position += 1
            for row, chain in enumerate(self._chains):
                self._tokens[row] = token = self._draw(chain, row)
                note(row, token)
        return (time.perf_counter() - began) / BLOCK / len(self._chains) * 1000

    def _draw(self, chain: Any, row: int) -> int:
        return int(llama.llama_sampler_sample(chain, self._context, row))

    def _decode(self) -> None:
        if llama.llama_decode(self._context, self._batch.native) != 0:
            sys.exit("llama_decode failed")
        self._batch.clear()


def _least(weights: Any) -> Note:
    n_vocab = weights.vocabulary.n_vocab
    measurer, finder = Measurer(n_vocab), ShortlistFinder(n_vocab)
    pieces = _pieces(weights.vocabulary)
    encode = msgspec.json.Encoder().encode
    out = os.open(os.devnull, os.O_WRONLY)

    def note(row: int, token: int) -> None:
        scores = scores_of(weights.context, row, n_vocab)
        found = measurer.measure(scores, token, TOP, finder.find(scores, TOP))
        ids = found.alternative_ids.tolist()
        shares = map(math.exp, found.alternative_logprobs.tolist())
        os.write(out, encode(_line(token, found, pieces, ids, shares)) + b"\n")

    return note


def _piped(weights: Any, reader: subprocess.Popen[bytes]) -> Note:
    n_vocab = weights.vocabulary.n_vocab
    measurer, finder = Measurer(n_vocab), ShortlistFinder(n_vocab)
    assert reader.stdin is not None
    writer, waiting = FrameWriter(cast(BinaryIO, reader.stdin)), list[TokenArrived]()
    reader.stdin.write(msgspec.json.encode(_pieces(weights.vocabulary)) + b"\n")

    def note(row: int, token: int) -> None:
        scores = scores_of(weights.context, row, n_vocab)
        found = measurer.measure(scores, token, TOP, finder.find(scores, TOP))
        trace = TokenTrace(
            index=0,
            token_id=token,
            piece=b"",
            logprob=found.logprob,
            rank=found.rank,
            entropy=found.entropy,
            alternative_ids=as_array(found.alternative_ids),
            alternative_logprobs=as_array(found.alternative_logprobs),
            stages=[],
            ms=0.0,
        )
        waiting.append(TokenArrived(1, trace, "", "content", 0))
        if len(waiting) == AT_ONCE:
            writer.write_all(waiting)
            waiting.clear()

    return note


def read_frames() -> None:
    """The other process: a line of all pieces comes first, then every frame becomes a line."""
    pieces = msgspec.json.decode(sys.stdin.buffer.readline(), type=list[str])
    frames = FrameReader(sys.stdin.buffer)
    encode = msgspec.json.Encoder().encode
    out = os.open(os.devnull, os.O_WRONLY)
    while payloads := frames.read_few():
        for payload in payloads:
            event = decode_event(payload)
            assert isinstance(event, TokenArrived)
            token = event.token
            ids = memoryview(token.alternative_ids.data).cast("i").tolist()
            logprobs = memoryview(token.alternative_logprobs.data).cast("f").tolist()
            line = _line(token.token_id, token, pieces, ids, map(math.exp, logprobs))
            os.write(out, encode(line) + b"\n")


def _line(
    token_id: int,
    found: Measured | TokenTrace,
    pieces: Sequence[str],
    ids: list[int],
    shares: Iterable[float],
) -> dict[str, Any]:
    return {
        "token_id": token_id,
        "probability": math.exp(found.logprob),
        "rank": found.rank,
        "entropy": found.entropy,
        "alternatives": list(zip(ids, map(pieces.__getitem__, ids), shares, strict=True)),
    }


def _pieces(vocabulary: Any) -> list[str]:
    return [vocabulary.piece(i).decode("utf-8", "replace") for i in range(vocabulary.n_vocab)]


if __name__ == "__main__":
    if sys.argv[1] == READER:
        read_frames()
    else:
        main()
