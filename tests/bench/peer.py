"""What people wait for, beside llama.cpp's own server: the same file, prompts and threads, in
turns.

    python tests/bench/peer.py GGUF

Each figure is a time or a rate of our engine, driven by the client as the window drives it, and of
llama-server, asked over HTTP on loopback. What is called a ratio is 1 where both are equally quick,
and above 1 where we are quicker; of a cold start it is our time ÷ theirs, as the budget has it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

HERE: Final = Path(__file__).resolve().parent
ROOT: Final = HERE.parents[1]
if __name__ == "__main__":
    sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from app.engine.client.engine import Engine  # noqa: E402
from app.engine.client.process import child_command  # noqa: E402
from app.engine.client.supervisor import EngineEvent  # noqa: E402
from app.engine.protocol.loading_messages import LoadOptions  # noqa: E402
from app.engine.protocol.messages import (  # noqa: E402
    Failed,
    Finished,
    Generate,
    Stopped,
    TokenArrived,
    Tokenize,
    Tokens,
)
from app.engine.protocol.prompt_messages import IdsPrompt  # noqa: E402
from app.engine.protocol.stages import Greedy, Sampling  # noqa: E402

N_CTX: Final = 4096
PATIENCE_S: Final = 120.0
LONG: Final = 1_500
"""Tokens of the prompt that is read."""
FOLLOW_UP: Final = 60
N_WRITTEN: Final = 120
SCHEMA: Final = {
    "type": "object",
    "properties": {
        "names": {"type": "array", "items": {"type": "string", "maxLength": 12}, "minItems": 9},
    },
    "required": ["names"],
    "additionalProperties": False,
}


@dataclass(frozen=True)
class Reply:
    """When it was asked for, and when each token came (seconds of one clock)."""

    asked: float
    arrivals: tuple[float, ...]

    @property
    def first_s(self) -> float:
        return self.arrivals[0] - self.asked

    @property
    def rate(self) -> float:
        """Tokens per second between the first token and the last."""
        return (len(self.arrivals) - 1) / (self.arrivals[-1] - self.arrivals[0])


class Peer:
    """One llama-server."""

    def __init__(self, gguf: str, n_threads: int) -> None:
        command = [sys.executable, str(HERE / "peer_child.py"), gguf, str(N_CTX), str(n_threads)]
        self._program = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert self._program.stdout is not None
        self._address = self._program.stdout.readline().strip()
        assert self._address.startswith("http://127.0.0.1:"), "llama-server did not start"

    def close(self) -> None:
        assert self._program.stdin is not None
        self._program.stdin.close()
        self._program.wait(PATIENCE_S)

    def ask(self, ids: list[int], n: int, *, schema: Any = None) -> Reply:
        body = {
            "prompt": ids,
            "n_predict": n,
            "temperature": 0.0,
            "samplers": [],
            "stream": True,
            "cache_prompt": True,
            "ignore_eos": schema is None,
            "n_probs": 0,
        }
        if schema is not None:
            body["json_schema"] = schema
        request = urllib.request.Request(
            f"{self._address}/completion",
            json.dumps(body).encode(),
            {"Content-Type": "application/json"},
        )
        asked, arrivals = time.perf_counter(), []
        with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
            for line in answer:
                if line.startswith(b"data: "):
                    told = json.loads(line[6:])
                    if told.get("content") or told.get("tokens"):
                        arrivals.append(time.perf_counter())
        return Reply(asked, tuple(arrivals))


class Ours:
    """One engine of the app."""

    def __init__(self, gguf: str, n_threads: int) -> None:
        self._change = threading.Condition()
        self._arrivals: dict[int, list[float]] = {}
        self._endings: dict[int, Finished | Stopped | Failed] = {}
        self._engine = Engine(child_command("engine"), self._take)
        self._engine.load(gguf, LoadOptions(n_ctx=N_CTX, n_threads=n_threads))

    def close(self) -> None:
        self._engine.close()

    def tokenize(self, text: str) -> list[int]:
        ending = self._end(self._engine.request(Tokenize(0, text, add_bos=True)))
        assert isinstance(ending, Finished)
        assert isinstance(ending.result, Tokens)
        return ending.result.token_ids

    def ask(self, ids: list[int], n: int, *, schema: Any = None) -> Reply:
        text = "" if schema is None else json.dumps(schema)
        sampling = Sampling([], Greedy(), json_schema=text, ban_end_token=schema is None)
        asked = time.perf_counter()
        number = self._engine.generate(
            Generate(
                0,
                IdsPrompt(ids),
                sampling,
                max_tokens=n,
                conversation="peer",
                alternatives=64,
                record_stages=True,
            )
        )
        ending = self._end(number)
        assert not isinstance(ending, Failed), ending
        return Reply(asked, tuple(self._arrivals[number]))

    def _end(self, number: int) -> Finished | Stopped | Failed:
        with self._change:
            assert self._change.wait_for(lambda: number in self._endings, PATIENCE_S)
            return self._endings[number]

    def _take(self, event: EngineEvent) -> None:
        if isinstance(event, TokenArrived):
            self._arrivals.setdefault(event.id, []).append(time.perf_counter())
        elif isinstance(event, Finished | Stopped | Failed):
            with self._change:
                self._endings[event.id] = event
                self._change.notify_all()


Side = Ours | Peer


@contextmanager
def both(gguf: str, n_threads: int) -> Iterator[tuple[Ours, Peer]]:
    ours, peer = Ours(gguf, n_threads), Peer(gguf, n_threads)
    try:
        yield ours, peer
    finally:
        ours.close()
        peer.close()


def cold_start(
    make: Callable[[str, int], Side], gguf: str, ids: list[int], n_threads: int
) -> float:
    """Seconds from nothing to the first token."""
    began = time.perf_counter()
    side = make(gguf, n_threads)
    try:
        return side.ask(ids, 1).arrivals[0] - began
    finally:
        side.close()


def measure(gguf: str, runs: int = 3, n_threads: int | None = None) -> dict[str, float]:
    """The ratios; of several runs each side's best, since other programs only make it slower."""
    n_threads = n_threads or min(os.cpu_count() or 1, 4)
    found: dict[str, list[list[float]]] = {}

    def note(name: str, ours: float, theirs: float) -> None:
        found.setdefault(name, []).append([ours, theirs])

    with both(gguf, n_threads) as sides:
        words = sides[0].tokenize("The ships came back to the harbour late in the year, and ")
        for run in range(runs):
            replies = []
            for side in sides:
                start = [
                    *words[: 1 + run],
                    *(300 + (7 * at + 11 * run) % 4000 for at in range(LONG)),
                ]
                read = side.ask(start, 1)
                again = side.ask([*start, *(500 + at for at in range(FOLLOW_UP))], 1)
                written = side.ask(words, N_WRITTEN)
                held = side.ask(words, N_WRITTEN, schema=SCHEMA)
                replies.append((read.first_s, again.first_s, 1 / written.rate, 1 / held.rate))
            for name, ours, theirs in zip(
                ("prefill", "next", "decode", "schema"), *replies, strict=True
            ):
                note(name, ours, theirs)
    for _ in range(runs):
        note("cold", *(cold_start(make, gguf, words, n_threads) for make in (Ours, Peer)))
    best = {
        name: [min(column) for column in zip(*rows, strict=True)] for name, rows in found.items()
    }
    print({name: [round(each, 4) for each in pair] for name, pair in best.items()})
    return {
        name: ours / theirs if name == "cold" else theirs / ours
        for name, (ours, theirs) in best.items()
    }


if __name__ == "__main__":
    print(measure(sys.argv[1]))
