"""A server without a network: what clients would ask for is asked here, on the same engine."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from app.engine.protocol.messages import Generate
from app.engine.protocol.prompt_messages import ChatMessage, ChatPrompt
from app.refusal import bad_setting
from app.server.exchange import Exchange, Served
from app.server.options import ServerOptions


class FakeServer:
    """`begun`: the options of each start. `taken`: ports that somebody else has."""

    def __init__(self) -> None:
        self.begun: list[ServerOptions] = []
        self.taken: set[int] = set()
        self.n_closed = 0
        self.engine: Any = None
        self.told: Callable[[Exchange], None]
        self.wake: Callable[[], Future[str]]

    def start(
        self, options: ServerOptions, engine: Any, *, told: Any, wake: Any, failed: Any
    ) -> FakeServer:
        self.failed = failed
        if options.port in self.taken:
            raise bad_setting(f"Port {options.port} is in use.")
        self.begun.append(options)
        self.engine, self.told, self.wake = engine, told, wake
        return self

    @property
    def url(self) -> str:
        return f"http://{self.begun[-1].host}:{self.begun[-1].port}"

    def close(self, timeout_s: float) -> None:
        self.n_closed += 1

    def ask(
        self, *texts: str, generate: Generate | None = None, n: int = 1, **fields: Any
    ) -> Exchange:
        """A request for `n` replies to these texts, the user's and the reply's in turn."""
        roles = ("user", "assistant")
        said = [ChatMessage(roles[i % 2], text) for i, text in enumerate(texts)]  # type: ignore[arg-type]
        return self.ask_all([generate or Generate(0, ChatPrompt(said), **fields)] * n)

    def ask_all(self, generates: list[Generate]) -> Exchange:
        exchange = Exchange("/v1/chat/completions", "127.0.0.1 · a client", "a model")
        exchange.status = 200
        exchange.replies = [Served(generate) for generate in generates]
        self.told(exchange)
        left = [len(generates)]
        for served in exchange.replies:

            def hear(event: Any, served: Served = served) -> None:
                served.take(event)
                if served.ending is event:
                    left[0] -= 1
                    if not left[0]:
                        exchange.end()
                    self.told(exchange)

            served.request_id = self.engine.generate(served.generate, hear)
        self.told(exchange)
        return exchange
