"""What `ask` prints: the plain text of the answer, or one JSON object per line."""

from __future__ import annotations

import contextlib
import json
import math
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any, Final, TextIO

import msgspec

from app.engine.protocol.beam_messages import BeamsFound, BeamsGrew
from app.engine.protocol.draft_messages import Rejected
from app.engine.protocol.frames import WireMessage
from app.engine.protocol.loading_messages import Loaded
from app.engine.protocol.messages import (
    Event,
    Failed,
    Hello,
    Log,
    Note,
    Progress,
    PromptScores,
    Queued,
    Summary,
    TextFlushed,
    TextTakenBack,
    ThreadsChanged,
    TokenArrived,
    TokenTrace,
)
from app.engine.protocol.pieces import Pieces, unpack
from app.engine.protocol.tool_messages import ToolCalled
from app.insight.beams.tree import BeamTree


class AskOutput(ABC):
    """Takes the events of one answer, in order. `pieces` names alternatives, once known."""

    def __init__(self) -> None:
        self.pieces: Pieces | None = None
        self.tree = BeamTree()
        """Of a beam search."""

    @abstractmethod
    def event(self, event: Event) -> None:
        """Something happened that does not end the request."""

    @abstractmethod
    def loaded(self, loaded: Loaded) -> None:
        """The weights are in memory."""

    @abstractmethod
    def summary(self, summary: Summary) -> None:
        """The answer is complete, or was stopped."""

    @abstractmethod
    def beams(self, found: BeamsFound) -> None:
        """A beam search is complete."""

    @abstractmethod
    def failed(self, failed: Failed) -> None:
        """It failed; the sentence itself goes to stderr elsewhere."""

    def flush(self) -> None:  # noqa: B027 - most keep nothing back
        """Nothing more is at hand: write what was kept back to be written together."""


class PlainText(AskOutput):
    """The answer on stdout as it arrives; reasoning and notes on stderr."""

    def __init__(self, stdout: TextIO, stderr: TextIO) -> None:
        super().__init__()
        self._stdout = stdout
        self._stderr = stderr
        self._line_is_open: dict[str, bool] = {}

    def loaded(self, loaded: Loaded) -> None:
        """What was decided at loading is no part of the answer; --json tells it."""

    def event(self, event: Event) -> None:
        if isinstance(event, TokenArrived | TextFlushed) and event.text:
            self._write(event.part, event.text)
        elif isinstance(event, BeamsGrew):
            self.tree.take(event)
        elif isinstance(event, Note):
            self._end_line("reasoning")
            self._remark(event.sentence + "\n")

    def summary(self, summary: Summary) -> None:
        self._end_line("reasoning")
        self._end_line("content")

    def beams(self, found: BeamsFound) -> None:
        """The best text on stdout; all of them, with their sums, beside it."""
        for note in found.notes:
            self._remark(note + "\n")
        for line in _beam_lines(self.tree, found):
            self._remark(line + "\n")
        if found.leaves:
            self._write("content", _text(self.tree.text(found.leaves[0])))
        self._end_line("content")

    def failed(self, failed: Failed) -> None:
        self._end_line("reasoning")
        self._end_line("content")

    def _write(self, part: str, text: str) -> None:
        if part == "content":
            self._end_line("reasoning")
        self._print(part, text)
        self._line_is_open[part] = not text.endswith("\n")

    def _end_line(self, part: str) -> None:
        if self._line_is_open.pop(part, False):
            self._print(part, "\n")

    def _print(self, part: str, text: str) -> None:
        if part == "content":
            self._stdout.write(text)
            self._stdout.flush()
        else:
            self._remark(text)

    def _remark(self, text: str) -> None:
        """What stands beside the answer; nobody need take it for the answer to go on."""
        with contextlib.suppress(OSError):
            self._stderr.write(text)
            self._stderr.flush()


_NAMES: Final = {
    Hello: "hello",
    Progress: "progress",
    Queued: "queued",
    Note: "note",
    TextFlushed: "text_flushed",
    TextTakenBack: "tokens_taken_back",
    ThreadsChanged: "threads_changed",
    ToolCalled: "tool_called",
}


class JsonLines(AskOutput):
    """One object per line, each with its `event`. Probabilities are before samplers, at
    temperature 1. A token's `text` is its own bytes as text; `shown` is what it added to the
    answer (held back for stop strings and half characters): all `shown` together, with
    `text_flushed`, are the answer.

    Tokens come on the engine's thread, the ending on the caller's: lines are written whole."""

    def __init__(self, stdout: TextIO) -> None:
        super().__init__()
        self._stdout = stdout
        self._kept: list[str] = []
        self._lock = threading.Lock()

    def event(self, event: Event, answer: int = 0) -> None:
        """`answer`: of several the number, from 1."""
        of = {"answer": answer} if answer else {}
        if isinstance(event, TokenArrived):
            self._print("token", of | self._token(event))
        elif isinstance(event, PromptScores):
            self._print("prompt_scores", of | self._prompt_scores(event))
        elif isinstance(event, BeamsGrew):
            self.tree.take(event)
            self._print("beam_step", _beam_step(event))
        elif not isinstance(event, Log) and type(event) in _NAMES:
            self._print(_NAMES[type(event)], of | _fields(event))

    def line(self, name: str, fields: dict[str, Any]) -> None:
        """Something about several answers."""
        self._print(name, fields)

    def loaded(self, loaded: Loaded) -> None:
        self._print("loaded", _fields(loaded))

    def summary(self, summary: Summary, answer: int = 0) -> None:
        self._print("summary", ({"answer": answer} if answer else {}) | _fields(summary))

    def beams(self, found: BeamsFound) -> None:
        tree = self.tree
        best = found.leaves[0] if found.leaves else found.greedy
        fields = {
            **_fields(found),
            "text": _text(tree.text(best)) if best else "",
            "token_ids": tree.ids(best) if best else [],
            "leaves": [_leaf(tree, leaf) for leaf in found.leaves],
            "greedy": _leaf(tree, found.greedy) if found.greedy else None,
        }
        self._print("beams", fields)

    def failed(self, failed: Failed, answer: int = 0) -> None:
        of = {"answer": answer} if answer else {}
        fields = of | {
            "kind": failed.kind,
            "sentence": failed.sentence,
            "evidence": failed.evidence,
        }
        self._print("failed", fields)

    def _token(self, event: TokenArrived) -> dict[str, Any]:
        token = event.token
        return {
            "index": token.index,
            "token_id": token.token_id,
            "bytes": token.piece.hex(),
            "text": token.piece.decode("utf-8", "replace"),
            "shown": event.text,
            "part": event.part,
            "probability": math.exp(token.logprob),
            "logit": None if token.log_total is None else token.logprob + token.log_total,
            "rank": token.rank,
            "entropy": token.entropy,
            "alternatives": self._alternatives(token),
            "stages": [
                {"stage": s.stage, "left": s.left, "probability": s.probability}
                | ({} if s.uniform is None else {"uniform": s.uniform})
                for s in token.stages
            ],
            "removed_by": _removed_by(token),
            "uniform": token.uniform,
            "inserted": token.inserted,
            "drafted": token.drafted,
            "draft_probability": _share(token.draft_logprob),
            "rejected": None if token.rejected is None else _rejected(token.rejected),
            "ms": token.ms,
            "context_used": event.context_used,
        }

    def _prompt_scores(self, event: PromptScores) -> dict[str, Any]:
        """`start` is the index of the first token here; its probability follows from those before
        it. The first token of a prompt has none."""
        pieces = self.pieces
        return {
            "start": event.start,
            "token_ids": event.token_ids,
            "texts": [pieces.text(i) if pieces else "" for i in event.token_ids],
            "probabilities": [math.exp(logprob) for logprob in unpack(event.logprobs)],
            "ranks": [int(rank) for rank in unpack(event.ranks)],
        }

    def _alternatives(self, token: TokenTrace) -> list[tuple[int, str, float]]:
        ids = unpack(token.alternative_ids)
        logprobs = unpack(token.alternative_logprobs)
        pieces = self.pieces
        texts: Iterable[str] = map(pieces.text, ids) if pieces else [""] * len(ids)
        return list(zip(ids, texts, map(math.exp, logprobs), strict=False))

    def _print(self, name: str, fields: dict[str, Any]) -> None:
        text = json_text({"event": name, **fields}, self._stdout)
        with self._lock:
            self._kept.append(text)
        if name not in _FOLLOWED:
            self.flush()

    def flush(self) -> None:
        with self._lock:
            if self._kept:
                kept, self._kept = self._kept, []
                self._stdout.write("\n".join(kept) + "\n")
                self._stdout.flush()


def json_text(value: object, stream: TextIO) -> str:
    """In one line, with what the stream's encoding cannot say escaped; so are the line breaks
    beyond ASCII, which JSON may hold as they are: `str.splitlines` would tear the object."""
    encoding = (getattr(stream, "encoding", None) or "ascii").lower().replace("-", "")
    if encoding != "utf8":
        return json.dumps(value)
    return msgspec.json.encode(value).decode().translate(_LINE_BREAKS)


_LINE_BREAKS: Final = {ord(mark): f"\\u{ord(mark):04x}" for mark in "\x85\u2028\u2029"}


def _removed_by(token: TokenTrace) -> list[str | None]:
    """For each alternative the stage that removed it; None: it was there at the draw."""
    if token.removed_by is None:
        return []
    stage = dict(enumerate(effect.stage for effect in token.stages)).get
    return [stage(i) for i in unpack(token.removed_by)]


def _share(logprob: float | None) -> float | None:
    return None if logprob is None else math.exp(logprob)


def _rejected(rejected: Rejected) -> dict[str, Any]:
    """What a draft had proposed instead, and what the model gave the first of it."""
    return {
        "token_ids": rejected.ids,
        "texts": [piece.decode("utf-8", "replace") for piece in rejected.pieces],
        "probability": math.exp(rejected.logprob),
        "draft_probabilities": [math.exp(logprob) for logprob in rejected.draft_logprobs],
    }


def _fields(message: WireMessage) -> dict[str, Any]:
    """A struct as plain values, without what belongs to the wire."""
    return {k: _plain(v) for k, v in msgspec.to_builtins(message).items() if k not in _INNER}


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items() if key != "@"}
    return [_plain(item) for item in value] if isinstance(value, list) else value


def _beam_step(event: BeamsGrew) -> dict[str, Any]:
    """Sums of natural logarithms, before samplers, at temperature 1."""
    nodes = [
        {
            "number": node.number,
            "parent": node.parent,
            "token_id": node.token_id,
            "bytes": node.piece.hex(),
            "text": _text(node.piece),
            "probability": math.exp(node.logprob),
            "logprob": node.logprob,
            "sum": node.total,
            "score": node.score,
            "kind": node.kind,
            "greedy": node.is_greedy,
            "end": node.is_end,
        }
        for node in event.nodes
    ]
    return {"step": event.step, "nodes": nodes, "pruned": event.pruned}


def _leaf(tree: BeamTree, number: int) -> dict[str, Any]:
    node = tree.grown[number].node
    return {
        "number": number,
        "text": _text(tree.text(number)),
        "token_ids": tree.ids(number),
        "sum": node.total,
        "score": node.score,
        "finished": node.is_end,
        "greedy": node.is_greedy,
    }


def _beam_lines(tree: BeamTree, found: BeamsFound) -> list[str]:
    """A line for each text, best first, and the greedy one."""
    numbers = [(f"{place}.", leaf) for place, leaf in enumerate(found.leaves, 1)]
    if found.greedy:
        numbers.append(("greedy", found.greedy))
    lines = [f"{'':>6}  {'log p':>8}  {'score':>8}  text"]
    for name, number in numbers:
        node, text = tree.grown[number].node, _text(tree.text(number))
        end = "" if node.is_end else " …"
        lines.append(f"{name:>6}  {node.total:8.3f}  {node.score:8.3f}  {text!r}{end}")
    return lines


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


_INNER: Final = ("@", "id")

_FOLLOWED: Final = frozenset(
    ("token", "text_flushed", "tokens_taken_back", "prompt_scores", "beam_step")
)
"""Events that others come with: they are written together, which wakes the reader once."""
