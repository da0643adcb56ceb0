"""A thousand requests on real weights, a client killed in each tenth: no slot is lost, and memory
stays where it was."""

from __future__ import annotations

import json
import socket
import struct
import threading
from pathlib import Path

import psutil
import pytest
from serving import PATIENCE_S, Served, serving

from app.engine.client.engine import Engine
from app.engine.client.process import child_command
from app.engine.protocol.loading_messages import Loaded, LoadOptions
from app.engine.protocol.messages import Finished
from app.server.options import ServerOptions

pytestmark = [pytest.mark.soak, pytest.mark.weights]

REQUESTS = 1000
CLIENTS = 8
LONG = {"max_tokens": 48, "ignore_eos": True}
WARM = 300
"""After so many, all that is kept for a while is there."""
MORE_BYTES = 24 * 2**20


def _kill_one(served: Served, number: int) -> None:
    """A client that is gone in the middle of its answer, without a word."""
    messages = [{"role": "user", "content": f"Count to {number}."}]
    body = json.dumps({"messages": messages, "stream": True, "ignore_eos": True}).encode()
    head = (
        "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    with socket.create_connection(("127.0.0.1", served.port), PATIENCE_S) as connection:
        connection.sendall(head.encode() + body)
        if number % 20:  # the others go before anything is said
            assert connection.recv(64)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def _run(served: Served, numbers: range) -> None:
    """All of them, by as many clients as there are slots."""
    waiting = iter(numbers)
    lock = threading.Lock()
    failures: list[str] = []

    def work() -> None:
        while True:
            with lock:
                number = next(waiting, None)
            if number is None or failures:
                return
            try:
                if number % 10 == 0:
                    _kill_one(served, number)
                    continue
                answer = served.chat(
                    f"Say {number}.", max_tokens=3, stream=number % 2 == 0, seed=number
                )
                if answer.status != 200 or b'"error"' in answer.body:
                    failures.append(answer.body.decode())
            except OSError as error:
                failures.append(f"{number}: {error}")

    clients = [threading.Thread(target=work) for _ in range(CLIENTS)]
    for client in clients:
        client.start()
    for client in clients:
        client.join()
    assert not failures, failures[:3]
    served.wait_until(lambda: served.server.open_count == 0)


def _memory(engine: Engine) -> list[int]:
    """Resident bytes of this process, and of the engine's."""
    assert engine.pid is not None
    return [psutil.Process(pid).memory_info().rss for pid in (None, engine.pid)]


def test_a_thousand_requests_leave_nothing_behind(starter_gguf: Path) -> None:
    engine = Engine(child_command("engine"), lambda _: None)
    try:
        options = LoadOptions(n_ctx=2048, n_slots=CLIENTS, parked_bytes=64 * 2**20)
        ending = engine.wait_for(engine.load(starter_gguf, options), PATIENCE_S)
        assert isinstance(ending, Finished)
        assert isinstance(ending.result, Loaded)
        with serving(engine, ServerOptions(port=0)) as served:
            _run(served, range(1, WARM))
            served.exchanges.clear()
            before = _memory(engine)
            _run(served, range(WARM, REQUESTS + 1))
            n_replies = sum(len(each.replies) for each in served.exchanges)
            assert n_replies == REQUESTS + 1 - WARM
            assert all(r.ending is not None for each in served.exchanges for r in each.replies)
            served.exchanges.clear()
            after = _memory(engine)
            print([f"{size / 2**20:.1f} MiB" for size in (*before, *after)])
            for was, now in zip(before, after, strict=True):
                assert now - was <= MORE_BYTES
            at_once = [threading.Thread(target=served.chat, kwargs=LONG) for _ in range(CLIENTS)]
            for client in at_once:
                client.start()
            served.wait_until(lambda: served.server.open_count == CLIENTS)
            for client in at_once:
                client.join()
    finally:
        engine.close()
