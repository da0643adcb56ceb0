"""The two sides that `bench` compares, and the programs that it starts for them.

The app's side is `main.py ask --json` with its whole trace, timed where its lines arrive, or an
engine of the app driven by its client. The bare side is `bench/loop.py`, which imports
nothing of the app. Whatever is started here is ended here, by its own handle.
"""

from __future__ import annotations

import json
import signal
import statistics
import subprocess
import sys
import threading
import time
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

from app.engine.client.engine import Engine
from app.engine.client.process import child_command
from app.engine.client.supervisor import EngineEvent
from app.engine.protocol.loading_messages import Loaded, LoadOptions
from app.engine.protocol.messages import (
    Command,
    Failed,
    Finished,
    Generate,
    Stopped,
    Summary,
    TokenArrived,
)
from app.engine.protocol.prompt_messages import ChatMessage, ChatPrompt, Prompt, TextPrompt
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

_Told = TypeVar("_Told")

RUN_TIMEOUT_S: Final = 600.0
_INTERRUPTED: Final = 130
TOP_CANDIDATES: Final = 64

_ROOT: Final = Path(__file__).resolve().parents[2]

TEXT: Final = (
    "It was late in the autumn when the first of the ships came back to the harbour, and "
    "everybody who could walk went down to the water to see who was on board. The captain "
    "stood at the rail with his hat in his hand, and he began to tell them what had happened "
    "on the long way home:"
)

SAMPLING: Final = (
    *("--temperature", "0.8", "--top-k", "40", "--top-p", "0.95"),
    *("--min-p", "0.05", "--repeat-penalty", "1"),
)
"""The chain that `bench/loop.py` has, whatever the app's defaults are."""


class BenchError(Exception):
    """Ends the program with a sentence for the user."""


@dataclass(frozen=True, slots=True)
class Run:
    """One measured run of either side. `peak_bytes`: 0 where it was not measured."""

    tokens_per_s: float
    first_token_s: float
    load_s: float
    generated: int
    token_ids: tuple[int, ...]
    peak_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Conditions:
    """What both sides have in common; read from what the app chose by itself."""

    gguf: str
    name: str
    threads: int
    ctx: int
    ubatch: int
    gpu_layers: int


@dataclass(frozen=True, slots=True)
class Window:
    """Which tokens are counted: from `after_s` on, at most `tokens`, for at most `most_s`."""

    tokens: int
    after_s: float = 0.0
    most_s: float = 0.0

    def rate(self, arrivals: Sequence[float]) -> float:
        """Tokens per second within the window, as llama-bench counts.

        >>> Window(3, after_s=1.0).rate([0.0, 0.5, 1.0, 1.5, 2.0, 9.0])
        2.0
        """
        start = arrivals[0] + self.after_s
        inside = [at for at in arrivals if at >= start][: self.tokens]
        if self.most_s and inside:
            inside = [at for at in inside if at - inside[0] <= self.most_s]
        if len(inside) < 2 or inside[-1] <= inside[0]:
            raise BenchError("Too few tokens to measure. Try again on a quieter machine.")
        return (len(inside) - 1) / (inside[-1] - inside[0])


def sampling(seed: int) -> Sampling:
    """The same chain for the app's engine. The penalties are there and change nothing."""
    filters: list[FilterStage] = [
        Penalties(),
        TopK(k=40),
        TopP(p=0.95),
        MinP(p=0.05),
        Temperature(t=0.8),
    ]
    return Sampling(filters=filters, select=Dist(), seed=seed)


# --- one run of a program -----------------------------------------------------------------------


def run_app(gguf: str, tokens: int, window: Window | None = None) -> tuple[Run, Conditions]:
    """One `ask` with its whole trace, timed where its lines arrive.

    It is interrupted, as by Ctrl-C, when its tokens have taken longer than `window` lets them.
    """
    command = [sys.executable, str(_ROOT / "main.py"), "ask", TEXT, "--raw", "--json"]
    command += ["--gguf", gguf, "--seed", "1", "--max-tokens", str(tokens), *SAMPLING]
    arrivals: list[float] = []
    loaded: dict[str, Any] = {}
    summary: dict[str, Any] = {}
    limit = _Limit(window)
    for line, at in lines_of(command, limit):
        event = line.split('"', 4)[3]
        if event == "token":
            arrivals.append(at)
        elif event == "loaded":
            loaded = json.loads(line)
        elif event == "summary":
            summary = json.loads(line)
    if len(arrivals) < 2 or not loaded or not summary:
        raise BenchError("The app's reply was too short to measure. Try another model.")
    run = Run(
        tokens_per_s=(window or Window(len(arrivals))).rate(arrivals),
        first_token_s=summary["first_token_s"],
        load_s=loaded["load_s"],
        generated=summary["generated"],
        token_ids=tuple(summary["token_ids"]),
    )
    conditions = Conditions(
        gguf=gguf,
        name=loaded["name"],
        threads=loaded["n_threads"],
        ctx=loaded["n_ctx"],
        ubatch=loaded["n_ubatch"],
        gpu_layers=loaded["n_gpu_layers"],
    )
    return run, conditions


def run_bare(
    conditions: Conditions, tokens: int, *, sequences: int = 1, window: Window | None = None
) -> Run:
    """One run of the bare loop under the app's conditions."""
    command = [sys.executable, "-I", str(_ROOT / "app" / "bench" / "loop.py")]
    command += ["--text", TEXT, "--seed", "1", "--sequences", str(sequences)]
    for name in ("gguf", "threads", "ctx", "ubatch", "gpu_layers"):
        command += [f"--{name.replace('_', '-')}", str(getattr(conditions, name))]
    command += ["--tokens", str(max(2, tokens))]
    if window is not None:
        command += ["--after-s", str(window.after_s), "--most-s", str(window.most_s)]
    last = [line for line, _ in lines_of(command)][-1:]
    if not last:
        raise BenchError("The bare loop printed nothing, so there is nothing to compare with.")
    figures = json.loads(last[0])
    figures["token_ids"] = tuple(figures["token_ids"])
    return Run(**{name: figures[name] for name in Run.__dataclass_fields__})


class _Limit:
    """Says when a program has written tokens for long enough."""

    def __init__(self, window: Window | None) -> None:
        self._for_s = window.after_s + window.most_s if window and window.most_s else float("inf")
        self._ends_at = float("inf")

    def __call__(self, line: str, at: float) -> bool:
        if self._ends_at == float("inf") and line.startswith('{"event":"token"'):
            self._ends_at = at + self._for_s
        return at > self._ends_at


def lines_of(
    command: list[str], is_enough: Callable[[str, float], bool] | None = None
) -> list[tuple[str, float]]:
    """The lines that a program prints, and when each arrived. Raises BenchError if it fails.

    Once `is_enough` says so of a line, the program is interrupted and may end in order.
    """
    lines: list[tuple[str, float]] = []
    interrupted = False
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, encoding="utf-8"
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        try:
            # Its stderr is a sentence at most, so it cannot fill its pipe meanwhile.
            for line in process.stdout:
                at = time.perf_counter()
                lines.append((line, at))
                if is_enough is not None and not interrupted and is_enough(line, at):
                    interrupted = sys.platform != "win32"
                    if interrupted:
                        process.send_signal(signal.SIGINT)
            said = process.stderr.read().strip()
            code = process.wait(RUN_TIMEOUT_S)
        except BaseException:
            process.kill()
            raise
    if code not in ((0, _INTERRUPTED) if interrupted else (0,)):
        what = said.splitlines()[-1] if said else f"It ended with code {code}."
        raise BenchError(f"A measured run failed. {what}")
    return lines


@contextmanager
def one_core_taken() -> Iterator[int]:
    """A program that computes all the time, as any other program might; gives its pid."""
    process = subprocess.Popen([sys.executable, "-I", "-c", "while True: pass"])
    try:
        yield process.pid
    finally:
        process.kill()
        process.wait()


# --- an engine of the app, driven by its client ---------------------------------------------------


@dataclass(frozen=True, slots=True)
class Answer:
    """One reply of a session: when each token arrived, and how it ended."""

    arrivals: tuple[float, ...]
    summary: Summary
    ended_at: float


class Session:
    """One engine with loaded weights; requests run through the client as the window's do."""

    def __init__(self, gguf: str, options: LoadOptions) -> None:
        """Raises BenchError if the weights do not load."""
        self._lock = threading.Condition()
        self._arrivals: dict[int, list[float]] = {}
        self._endings: dict[int, tuple[float, Finished | Stopped | Failed]] = {}
        self._engine = Engine(child_command("engine"), self._take)
        ending = self._engine.wait_for(self._engine.load(gguf, options), RUN_TIMEOUT_S)
        if not isinstance(ending, Finished) or not isinstance(ending.result, Loaded):
            self.close()
            why = ending.sentence if isinstance(ending, Failed) else "It was stopped."
            raise BenchError(f"The model couldn't be loaded. {why}")
        self.loaded = ending.result

    def close(self) -> None:
        self._engine.close()

    def ask(self, prompt: Prompt, tokens: int, *, trace: bool = True, seed: int = 1) -> int:
        """Start a reply; return its id."""
        return self._engine.generate(
            Generate(
                id=0,
                prompt=prompt,
                sampling=sampling(seed),
                max_tokens=tokens,
                conversation=f"bench {seed}",
                alternatives=TOP_CANDIDATES if trace else 0,
                record_stages=trace,
            )
        )

    def answer(self, request_id: int) -> Answer:
        """Wait for the end of a reply. Raises BenchError if it failed."""
        ended_at, ending = self._ending(request_id)
        arrivals = tuple(self._arrivals.get(request_id, ()))
        if isinstance(ending, Failed):
            raise BenchError(f"A measured reply failed. {ending.sentence}")
        assert isinstance(ending.result, Summary)
        return Answer(arrivals, ending.result, ended_at)

    def told(self, command: Command, kind: type[_Told]) -> tuple[_Told, float]:
        """The answer to a question, and the seconds until it was here. Raises BenchError."""
        began = time.perf_counter()
        ended_at, ending = self._ending(self._engine.request(command))
        if isinstance(ending, Failed):
            raise BenchError(f"A measured question failed. {ending.sentence}")
        if not isinstance(ending.result, kind):
            raise BenchError("A measured question was stopped. Try again.")
        return ending.result, ended_at - began

    def has_ended(self, request_id: int) -> bool:
        return request_id in self._endings

    def stop_after(self, request_id: int, tokens: int) -> float:
        """Stop a reply once so many tokens are there; return the seconds until it has ended."""
        with self._lock:
            self._lock.wait_for(
                lambda: (
                    len(self._arrivals.get(request_id, ())) >= tokens or request_id in self._endings
                ),
                RUN_TIMEOUT_S,
            )
        asked_at = time.perf_counter()
        self._engine.stop(request_id)
        return self.answer(request_id).ended_at - asked_at

    def peak_bytes(self) -> int:
        """The most memory that the engine's process ever held at once; 0 if unknown."""
        hello = self._engine.hello
        return peak_bytes(hello.pid) if hello is not None else 0

    def _ending(self, request_id: int) -> tuple[float, Finished | Stopped | Failed]:
        with self._lock:
            if not self._lock.wait_for(lambda: request_id in self._endings, RUN_TIMEOUT_S):
                raise BenchError("The engine didn't respond for ten minutes.")
            return self._endings[request_id]

    def _take(self, event: EngineEvent) -> None:
        now = time.perf_counter()
        if isinstance(event, TokenArrived):
            # Appending is atomic; only whoever waits for the first tokens needs to be woken.
            arrivals = self._arrivals.setdefault(event.id, [])
            arrivals.append(now)
            if len(arrivals) > _WAKING_TOKENS:
                return
        elif isinstance(event, Finished | Stopped | Failed):
            self._endings[event.id] = (now, event)
        else:
            return
        with self._lock:
            self._lock.notify_all()


_WAKING_TOKENS: Final = 16


def peak_bytes(pid: int) -> int:
    """VmHWM of a process, where /proc tells it; else 0."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text(encoding="ascii", errors="replace")
    except OSError:
        return 0
    peak = (int(line.split()[1]) * 1024 for line in lines.splitlines() if line[:6] == "VmHWM:")
    return next(peak, 0)


def together(answers: Sequence[Answer]) -> float:
    """Total tokens/s of several replies while all of them were being written.

    Tokens of one pass arrive one after the other, so where the first reply ends the others are in
    the middle of a token: of that one their share counts.
    """
    start = max(answer.arrivals[0] for answer in answers)
    end = min(answer.arrivals[-1] for answer in answers)
    count = sum(_count_at(answer, end) - _count_at(answer, start) for answer in answers)
    if end <= start or count < len(answers):
        raise BenchError("The replies were too short to measure together. Try another model.")
    return count / (end - start)


def _count_at(answer: Answer, at: float) -> float:
    """How many tokens behind the first were there.

    >>> _count_at(Answer((1.0, 2.0, 4.0), Summary("max_tokens"), 4.0), 3.0)
    1.5
    """
    arrivals = answer.arrivals
    before = bisect_right(arrivals, at)
    if not 0 < before < len(arrivals):
        return max(before - 1, 0)
    last, following = arrivals[before - 1 : before + 1]
    return before - 1 + (at - last) / (following - last)


def text_prompt() -> Prompt:
    return TextPrompt(TEXT)


def turns(first_reply: Summary | None = None) -> ChatPrompt:
    """The first turn of a small chat, or its second one after the reply to the first."""
    messages = [
        ChatMessage("system", "You are a helpful assistant."),
        ChatMessage("user", "Tell me about the harbour of Hamburg."),
    ]
    if first_reply is not None:
        reply = ChatMessage("assistant", first_reply.text, token_ids=first_reply.token_ids)
        messages += [reply, ChatMessage("user", "And which ships call there?")]
    return ChatPrompt(messages)


def busy_share(measure: Callable[[float], float]) -> float:
    """How much of the machine others use now, 0 ... 1; the median of three short looks."""
    return statistics.median(measure(0.15) for _ in range(3)) / 100
