"""Our server beside llama.cpp's own: the same file, threads, slots and requests, in turns.

    python tests/bench/served.py GGUF

Each is a program of its own, asked over HTTP on loopback. The ratio is ours ÷ theirs of all tokens
per second, while eight clients stream at once.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

HERE: Final = Path(__file__).resolve().parent
ROOT: Final = HERE.parents[1]
CLIENTS: Final = 8
N_CTX: Final = 8 * 512
N_WRITTEN: Final = 96
PATIENCE_S: Final = 300.0
WORDS: Final = (
    "The ships came back to the harbour late in the year, and",
    "A recipe for bread begins with flour, water, salt and",
    "In the middle of the forest there stood a house with",
    "When the lights went out, everybody in the street",
    "The committee met on Tuesday to discuss the plan for",
    "Mathematics is the art of giving the same name to",
    "She opened the letter, read the first line, and",
    "The train to the north leaves at seven and arrives",
)


class Program:
    """A server as a program, and its address."""

    def __init__(self, command: list[str]) -> None:
        self._program = subprocess.Popen(
            command,
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert self._program.stdout is not None
        said = self._program.stdout.readline().strip()
        assert said.startswith("http://127.0.0.1:"), f"{command[1]} did not start"
        self.address = said.removesuffix("/v1")
        self.pid = self._program.pid

    def close(self) -> None:
        assert self._program.stdin is not None
        assert self._program.stdout is not None
        self._program.stdin.close()
        self._program.terminate()
        self._program.wait(PATIENCE_S)
        self._program.stdout.close()

    def ask(self, path: str, body: Any) -> Any:
        """One answer, whole."""
        with self._opened(path, body) as answer:
            return json.load(answer)

    def stream(self, path: str, body: Any) -> list[Any]:
        """All chunks of a streamed answer."""
        with self._opened(path, {**body, "stream": True}) as answer:
            lines = [line[6:] for line in answer if line.startswith(b"data: ")]
        return [json.loads(line) for line in lines if not line.startswith(b"[DONE]")]

    def _opened(self, path: str, body: Any) -> Any:
        headers = {"Content-Type": "application/json"}
        data = json.dumps(body).encode()
        request = urllib.request.Request(f"{self.address}{path}", data, headers)
        return urllib.request.urlopen(request, timeout=PATIENCE_S)


def ours(gguf: str, n_threads: int, n_slots: int = CLIENTS, n_ctx: int = N_CTX) -> Program:
    command = [sys.executable, "main.py", "serve", "--gguf", gguf, "--port", "0"]
    numbers = ["--threads", str(n_threads), "--slots", str(n_slots), "--ctx", str(n_ctx)]
    return Program([*command, *numbers])


def theirs(
    gguf: str, n_threads: int, n_slots: int = CLIENTS, n_ctx: int = N_CTX, *more: str
) -> Program:
    numbers = [str(n_ctx), str(n_threads), str(n_slots)]
    return Program([sys.executable, str(HERE / "peer_child.py"), gguf, *numbers, *more])


@contextmanager
def both(gguf: str, n_threads: int, n_slots: int = CLIENTS) -> Iterator[tuple[Program, Program]]:
    programs: list[Program] = []
    try:
        programs.append(ours(gguf, n_threads, n_slots))
        programs.append(theirs(gguf, n_threads, n_slots))
        yield programs[0], programs[1]
    finally:
        for program in programs:
            program.close()


def at_once(program: Program, round_number: int) -> float:
    """Tokens per second of all clients together, from the first request to the last end."""
    counts = [0] * CLIENTS

    def run(client: int) -> None:
        body = {
            "prompt": f"{round_number}. {WORDS[client]}",
            "max_tokens": N_WRITTEN,
            "temperature": 0.0,
            "ignore_eos": True,
            "stream_options": {"include_usage": True},
        }
        last = program.stream("/v1/completions", body)[-1]
        counts[client] = last["usage"]["completion_tokens"]

    clients = [threading.Thread(target=run, args=[client]) for client in range(CLIENTS)]
    began = time.perf_counter()
    for client in clients:
        client.start()
    for client in clients:
        client.join()
    assert counts == [N_WRITTEN] * CLIENTS, counts
    return sum(counts) / (time.perf_counter() - began)


def measure(gguf: str, rounds: int = 3, n_threads: int | None = None) -> tuple[float, float]:
    """Ours and theirs; the best of several rounds, since other programs only make it slower."""
    n_threads = n_threads or min(os.cpu_count() or 1, 4)
    rates: list[list[float]] = [[], []]
    with both(gguf, n_threads) as programs:
        for number in range(rounds):
            for side, program in enumerate(programs):
                rates[side].append(at_once(program, number))
    print([[round(rate, 1) for rate in side] for side in rates])
    return max(rates[0]), max(rates[1])


if __name__ == "__main__":
    found = measure(sys.argv[1], rounds=3)
    print(found, found[0] / found[1])
