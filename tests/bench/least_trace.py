"""The least that a recorded reply can cost: what `ask` with the trace on is to be compared with.

    export PYTHONPATH=.:tests:tests/app/engine
    python tests/bench/least_trace.py FILE.gguf [ROUNDS [AT_ONCE [THREADS]]]

Ways to write one reply, in one process and one thread, taking turns every few tokens, so that the
machine's moods and the cache's length are the same for all:

    bare    llama_decode and llama_sampler_sample, nothing else (as `app/bench/loop.py`)
    noted   the same, and a Python list takes the token
    least   the same, and for each token: a copy of the scores, one exp over the vocabulary,
            the best 64 by the cheapest way there is here, one line of JSON written to a pipe
            whose other end nobody has to wake for
    piped   the same, but as frames through a pipe, sixteen tokens with one write, to a process
            that decodes them and writes the lines, as the engine's process and `ask` share it
    staged  as piped, but drawn stage by stage, and what each stage left and removed is in the
            frame: the whole trace that the app records

No scheduler, no text, no second thread: a trace that costs less than `staged` would leave
something out. So these ÷ bare bound what the app can reach where llama.cpp's threads have every
core: there each microsecond of ours is taken from them. With fewer THREADS than cores it is not.
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

from app.bench.loop import make_chain
from app.bench.sides import TEXT, sampling
from app.engine.process.native import native
from app.engine.process.native.arrays import as_array
from app.engine.process.native.native import Batch, llama
from app.engine.process.sampling.candidates import Candidates
from app.engine.process.sampling.chain import Chain
from app.engine.process.trace.measuring import Measured, Measurer
from app.engine.process.trace.outbox import TokenRecord
from app.engine.process.trace.scores import ScoreRows
from app.engine.process.trace.shortlist import ShortlistFinder
from app.engine.protocol.messages import TokenArrived, TokenTrace
from app.engine.protocol.wire import FrameReader, FrameWriter, decode_event

BLOCK = 8
TOP = 64
AT_ONCE = 16
READER = "--reader"


class Bare:
    """Draws as llama.cpp does, and says nothing of it. `sequences` replies at once."""

    def __init__(self, weights: Any, sequences: int) -> None:
        self._context = weights.context
        self._n_vocab = weights.vocabulary.n_vocab
        self._chains = [make_chain(self._n_vocab, seed + 1) for seed in range(sequences)]

    def __call__(self, row: int) -> int:
        return int(llama.llama_sampler_sample(self._chains[row], self._context, row))


class Noted(Bare):
    def __init__(self, weights: Any, sequences: int) -> None:
        super().__init__(weights, sequences)
        self._noted: list[int] = []

    def __call__(self, row: int) -> int:
        token = super().__call__(row)
        self._noted.append(token)
        return token


class Least(Bare):
    """Measures each token, and writes a line of it."""

    def __init__(self, weights: Any, sequences: int) -> None:
        super().__init__(weights, sequences)
        self._measurer, self._finder = Measurer(self._n_vocab), ShortlistFinder(self._n_vocab)
        self._rows = ScoreRows(weights.context, self._n_vocab)
        self._pieces = _pieces(weights.vocabulary)
        self._encode = msgspec.json.Encoder().encode
        self._out = os.open(os.devnull, os.O_WRONLY)

    def __call__(self, row: int) -> int:
        token = super().__call__(row)
        self._say(token, self._measured(row, token))
        return token

    def _measured(self, row: int, token: int) -> Measured:
        scores = self._buffers.copy(self._context, row)
        return self._measurer.measure(scores, token, TOP, self._finder.find(scores, TOP))

    def _say(self, token: int, found: Measured) -> None:
        ids = found.alternative_ids.tolist()
        shares = map(math.exp, found.alternative_logprobs.tolist())
        os.write(self._out, self._encode(_line(token, found, self._pieces, ids, shares)) + b"\n")


class Piped(Least):
    """Sends it to a process that writes the lines."""

    def __init__(self, weights: Any, sequences: int, writer: FrameWriter) -> None:
        super().__init__(weights, sequences)
        self._writer = writer
        self._waiting: list[TokenArrived] = []

    def _say(self, token: int, found: Measured) -> None:
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
        self._send(TokenArrived(1, trace, "", "content", 0))

    def _send(self, event: TokenArrived) -> None:
        self._waiting.append(event)
        if len(self._waiting) == AT_ONCE:
            self._writer.write_all(self._waiting)
            self._waiting.clear()


class Staged(Piped):
    """Draws stage by stage, and sends what each of them did."""

    def __init__(self, weights: Any, sequences: int, writer: FrameWriter) -> None:
        super().__init__(weights, sequences, writer)
        self._candidates = Candidates(self._n_vocab)
        self._staged = [
            Chain(
                sampling(seed + 1),
                n_vocab=self._n_vocab,
                n_ctx=4096,
                vocabulary=weights.vocabulary,
            )
            for seed in range(sequences)
        ]

    def __call__(self, row: int) -> int:
        scores, chain = self._rows.at(row), self._staged[row]
        listed = self._finder.find(scores, TOP)
        draw = chain.draw(scores, self._candidates, record=True, shortlist=listed)
        chain.accept(draw.token_id)
        record = TokenRecord(
            request_id=1,
            index=0,
            token_id=draw.token_id,
            piece=b"",
            scores=None,
            measured=self._measurer.measure(scores, draw.token_id, TOP, listed),
            snapshots=draw.snapshots,
            alternatives=TOP,
            ms=0.0,
            uniform=draw.uniform,
            shortlist=listed,
        )
        event = record.event(None)
        assert isinstance(event, TokenArrived)
        self._send(event)
        return draw.token_id


def main() -> None:
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 40
    sequences = int(sys.argv[3]) if len(sys.argv) > 3 else 1
    threads = int(sys.argv[4]) if len(sys.argv) > 4 else None
    log = native.NativeLog()
    native.start(log)
    path = Path(sys.argv[1])
    weights = load_quietly(path, log, n_ctx=4096, governor=False, n_threads=threads)
    reader = subprocess.Popen([sys.executable, __file__, READER], stdin=subprocess.PIPE)
    assert reader.stdin is not None
    reader.stdin.write(msgspec.json.encode(_pieces(weights.vocabulary)) + b"\n")
    writer = FrameWriter(cast(BinaryIO, reader.stdin))
    ways: dict[str, Callable[[int], int]] = {
        "bare": Bare(weights, sequences),
        "noted": Noted(weights, sequences),
        "least": Least(weights, sequences),
        "piped": Piped(weights, sequences, writer),
        "staged": Staged(weights, sequences, writer),
    }
    spent: dict[str, list[float]] = {name: [] for name in ways}
    write = _Writing(weights, sequences, ways["bare"])
    for _ in range(rounds):
        for name, draw in ways.items():
            spent[name].append(write(draw))
    reader.stdin.close()
    if reader.wait(timeout=60):
        sys.exit("the reader failed")
    what = f"{sequences} at once, {rounds} times {BLOCK} tokens of each"
    print(f"{sys.argv[1]}, {weights.n_threads} threads, {what}")
    for name, times in spent.items():
        ratios = [bare / it for bare, it in zip(spent["bare"], times, strict=True)]
        share = f"bare ÷ it {statistics.median(ratios):.3f}"
        print(f"{name:<6} {statistics.median(times):7.3f} ms/token  {share}")


class _Writing:
    """Replies to one prompt, written in one batch that goes on; a call writes a block and says how
    long a token took, in ms."""

    def __init__(self, weights: Any, sequences: int, draw: Callable[[int], int]) -> None:
        self._context = weights.context
        self._batch = Batch(512, sequences)
        ids = weights.vocabulary.tokenize(TEXT, special=True)
        self._position = len(ids) - 1
        self._batch.add(ids[:-1], 0, 0, want_scores=True)
        self._decode()
        for sequence in range(1, sequences):
            llama.llama_memory_seq_cp(weights.memory, 0, sequence, -1, -1)
        self._tokens = [ids[-1]] * sequences
        for _ in range(BLOCK):
            self._step(draw)

    def __call__(self, draw: Callable[[int], int]) -> float:
        began = time.perf_counter()
        for _ in range(BLOCK):
            self._step(draw)
        return (time.perf_counter() - began) / BLOCK / len(self._tokens) * 1000

    def _step(self, draw: Callable[[int], int]) -> None:
        for sequence, token in enumerate(self._tokens):
            self._batch.add([token], self._position, sequence, want_scores=True)
        self._decode()
        self._position += 1
        for row in range(len(self._tokens)):
            self._tokens[row] = draw(row)

    def _decode(self) -> None:
        if llama.llama_decode(self._context, self._batch.native) != 0:
            sys.exit("llama_decode failed")
        self._batch.clear()


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
        **_of_stages(found),
    }


def _of_stages(found: Measured | TokenTrace) -> dict[str, Any]:
    if not isinstance(found, TokenTrace) or found.removed_by is None:
        return {}
    return {"stages": found.stages, "removed_by": list(found.removed_by.data)}


def _pieces(vocabulary: Any) -> list[str]:
    return [vocabulary.piece(i).decode("utf-8", "replace") for i in range(vocabulary.n_vocab)]


if __name__ == "__main__":
    if sys.argv[1] == READER:
        read_frames()
    else:
        main()
