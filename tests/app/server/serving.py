"""A server over an engine that plays a script, for tests that read as a talk over HTTP."""

from __future__ import annotations

import http.client
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from scripted_talk import PATIENCE_S, ScriptedTalk

from app.engine.client.engine import Engine
from app.server.exchange import Exchange
from app.server.options import ServerOptions
from app.server.server import Server, ServerState

SCRIPT: Final[dict[str, Any]] = {
    "load": {"ms": 1},
    "replies": [
        {
            "match": "Hi",
            "ms": 0,
            "tokens": [
                {"text": "Hel", "probability": 0.9},
                {"text": "lo", "probability": 0.5, "alternatives": [["lo", 0.5], ["p", 0.3]]},
            ],
        },
        {
            "match": "think",
            "ms": 0,
            "tokens": [{"text": "hm", "part": "reasoning"}, {"text": "ok"}],
        },
        {
            "match": "time",
            "ms": 0,
            "text": "Let me look.",
            "calls": [
                {"name": "clock", "arguments": {"zone": "Asia/Tokyo"}, "id": "call_1"},
                {"name": "clock", "arguments": {"zone": "UTC"}, "id": "call_2"},
            ],
        },
        {"match": "12:00", "ms": 0, "text": "It is noon."},
        {
            "match": "biased",
            "tokens": [
                {
                    "fail": {
                        "kind": "bad_setting",
                        "sentence": "The token of a logit bias must be a token's ID.",
                        "evidence": "filters[0].biases[0].token_id",
                    }
                },
            ],
        },
        {"match": "late", "tokens": [{"text": "At last.", "ms": 300}]},
        {"match": "long", "tokens": [{"text": "a ", "ms": 5, "repeat": 4000}]},
        {
            "match": "fail",
            "ms": 0,
            "tokens": [
                {"text": "a", "ms": 1, "repeat": 50},
                {"fail": {"kind": "native_error", "sentence": "llama.cpp failed. Try again."}},
            ],
        },
        {
            "match": "refuse",
            "prefill": {"tokens": 0},
            "tokens": [
                {"fail": {"kind": "prompt_too_long", "sentence": "The chat has 9 tokens."}},
            ],
        },
    ],
}


@dataclass
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def error(self) -> dict[str, Any]:
        found: dict[str, Any] = self.json["error"]
        return found

    @property
    def chunks(self) -> list[Any]:
        """Of a stream: what its lines hold, but the last word."""
        lines = [line[6:] for line in self.body.split(b"\n") if line.startswith(b"data: ")]
        return [json.loads(line) for line in lines if line != b"[DONE]"]


@dataclass
class Served:
    """A running server, and what it told."""

    engine: Engine
    server: Server
    exchanges: list[Exchange]
    changed: threading.Condition
    key: str = ""
    states: list[ServerState] = field(default_factory=list)
    n_asked: int = 0

    @property
    def port(self) -> int:
        return int(self.server.address.rpartition(":")[2])

    def connect(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_S)

    def ask(
        self,
        path: str,
        body: Any = None,
        *,
        method: str = "",
        headers: dict[str, str] | None = None,
    ) -> Answer:
        connection = self.connect()
        self.n_asked += 1
        try:
            data = None if body is None else body if isinstance(body, bytes) else json.dumps(body)
            given = {"Content-Type": "application/json", **(headers or {})}
            method = method or ("GET" if body is None else "POST")
            connection.request(method, path, data, given)
            response = connection.getresponse()
            return Answer(response.status, dict(response.getheaders()), response.read())
        finally:
            connection.close()

    def chat(self, text: str = "Hi", **fields: Any) -> Answer:
        messages = [{"role": "user", "content": text}]
        return self.ask("/v1/chat/completions", {"messages": messages, **fields})

    def wait_until(self, is_so: Callable[[], bool]) -> None:
        with self.changed:
            assert self.changed.wait_for(is_so, PATIENCE_S), self.exchanges

    def last(self) -> Exchange:
        """The latest request, once it has ended."""
        self.wait_until(
            lambda: (
                len(self.exchanges) >= self.n_asked
                and all(each.seconds is not None for each in self.exchanges)
            )
        )
        return self.exchanges[-1]

    def generates(self) -> list[Any]:
        return [reply.generate for each in self.exchanges for reply in each.replies]


@contextmanager
def serving(engine: Engine, options: ServerOptions | None = None) -> Iterator[Served]:
    """A server over this engine, on a port of its own."""
    changed = threading.Condition()
    exchanges: list[Exchange] = []
    states: list[ServerState] = []

    def heard(exchange: Exchange) -> None:
        with changed:
            if exchange not in exchanges:
                exchanges.append(exchange)
            changed.notify_all()

    def told(state: ServerState) -> None:
        with changed:
            states.append(state)
            changed.notify_all()

    options = options or ServerOptions(port=0)
    server = Server(engine, options, on_state=told, on_exchange=heard)
    server.start()
    try:
        assert server.wait(PATIENCE_S) is ServerState.RUNNING, server.sentence
        yield Served(engine, server, exchanges, changed, options.key, states)
    finally:
        server.stop(PATIENCE_S)


@contextmanager
def scripted_server(
    folder: Path,
    script: dict[str, Any],
    options: ServerOptions | None = None,
    *,
    projector: str = "",
) -> Iterator[Served]:
    talk = ScriptedTalk(folder)
    try:
        engine = talk.loaded_engine(script)
        if projector:
            engine.wait_for(engine.load("weights.gguf", projector=projector), PATIENCE_S)
        with serving(engine, options) as served:
            yield served
    finally:
        talk.close()
