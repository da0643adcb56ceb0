"""One request for replies: asked of the engine, followed, told to the client.

A stream's head is sent when the first reply has begun, so that what cannot run at all still has
its HTTP status. Whatever ends this early (the client goes, or takes nothing; a fault of ours) stops
what is still open at the engine.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, MutableMapping
from typing import Any, Final, Protocol

from starlette.types import Send

from app.engine.client.supervisor import EngineEvent
from app.engine.protocol.messages import Alive, Log, Note, Progress, Queued, Summary
from app.server.asking import Asked
from app.server.choices import Choice, Delta
from app.server.errors import ApiError
from app.server.exchange import Exchange, Served
from app.server.options import Limits
from app.server.replying import Job, Replies, TooSlow
from app.server.sampling import sent_as

Message = MutableMapping[str, Any]
_NOT_YET: Final = (Queued, Note, Log, Alive, Progress)
"""Events that come before it is known whether a reply can begin."""


class Form(Protocol):
    """How a reply is told: `openai_forms.py`, `anthropic_forms.py`."""

    def begin(self, index: int) -> list[bytes]: ...

    def piece(self, index: int, delta: Delta, choice: Choice) -> list[bytes]: ...

    def end(self, index: int, summary: Summary, choice: Choice) -> list[bytes]: ...

    def ping(self) -> bytes:
        """Nothing new, in a stream."""

    def close(self, choices: list[Choice]) -> list[bytes]: ...

    def failed(self, error: ApiError) -> bytes: ...

    def whole(self, choices: list[Choice]) -> dict[str, Any]: ...


class Client:
    """Where an answer goes. Each piece has its time; who takes none of it is dropped."""

    def __init__(self, send: Send, limits: Limits, abort: Callable[[], None]) -> None:
        self._send = send
        self.limits = limits
        self._abort = abort
        self.has_begun = False
        self.headers: dict[str, str] = {}
        """Of every answer."""

    async def begin(self, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        self.has_begun = True
        headers = headers + [(name.encode(), text.encode()) for name, text in self.headers.items()]
        await self._put({"type": "http.response.start", "status": status, "headers": headers})

    async def put(self, body: bytes, *, more: bool) -> None:
        await self._put({"type": "http.response.body", "body": body, "more_body": more})

    async def _put(self, message: Message) -> None:
        try:
            async with asyncio.timeout(self.limits.send_s):
                await self._send(message)
        except TimeoutError as error:
            self.drop()
            raise TooSlow from error

    def drop(self) -> None:
        """End the connection with all that waits to be sent."""
        self._abort()


async def answer(
    replies: Replies,
    exchange: Exchange,
    asked: Asked,
    form: Form,
    client: Client,
    *,
    noted: Callable[[Summary], None],
) -> None:
    """Answer a request. `noted` hears of each reply that has ended well. Raises ApiError before
    anything was sent."""
    exchange.model = asked.model
    exchange.is_streaming = asked.is_streaming
    exchange.replies = [Served(generate) for generate in asked.generates]
    job = replies.ask(exchange, list(asked.generates))
    replies.told(exchange)
    try:
        follow = _stream if asked.is_streaming else _collect
        await follow(
            job, [Choice(replies.why_stopped) for _ in asked.generates], form, client, noted
        )
    except ApiError as error:
        if error.param is not None:  # the engine's place of it
            error.param = sent_as(asked.generates[0].sampling, error.param)
        raise
    finally:
        job.leave()


async def _collect(
    job: Job,
    choices: list[Choice],
    form: Form,
    client: Client,
    noted: Callable[[Summary], None],
) -> None:
    while not all(choice.has_ended for choice in choices):
        for index, event in await job.next():
            choices[index].deltas += choices[index].take(event)
        for choice in choices:
            if choice.error is not None:
                raise choice.error
    for choice in choices:
        if choice.summary is not None:
            noted(choice.summary)
    await send_json(client, form.whole(choices))


async def _stream(
    job: Job,
    choices: list[Choice],
    form: Form,
    client: Client,
    noted: Callable[[Summary], None],
) -> None:
    begun: set[int] = set()
    while not all(choice.has_ended for choice in choices):
        lines: list[bytes] = []
        for index, deltas in _merged(choices, await _next(job, form, client), begun):
            choice = choices[index]
            if choice.error is not None:
                if not client.has_begun:
                    raise choice.error
                job.exchange.sentence = choice.error.sentence
                lines.append(form.failed(choice.error))
                return await client.put(b"".join(lines), more=False)
            if index not in begun:
                begun.add(index)
                lines += form.begin(index)
            for delta in deltas:
                lines += form.piece(index, delta, choice)
            if choice.summary is not None:
                noted(choice.summary)
                lines += form.end(index, choice.summary, choice)
        if lines:
            await _begin_stream(job, client)
        if lines:
            await client.put(b"".join(lines), more=True)
    return await client.put(b"".join(form.close(choices)), more=False)


async def _begin_stream(job: Job, client: Client) -> None:
    if not client.has_begun:
        job.exchange.status = 200
        await client.begin(200, STREAM_HEADERS)


async def _next(job: Job, form: Form, client: Client) -> list[tuple[int, EngineEvent]]:
    """What comes next; meanwhile the client is told that it waits for something."""
    while True:
        try:
            async with asyncio.timeout(client.limits.ping_s):
                return await job.next()
        except TimeoutError:
            await _begin_stream(job, client)
            await client.put(form.ping(), more=True)


def _merged(
    choices: list[Choice], events: list[tuple[int, EngineEvent]], begun: set[int]
) -> list[tuple[int, list[Delta]]]:
    """What came for each choice; pieces of one part that came together are one."""
    found: dict[int, list[Delta]] = {}
    for index, event in events:
        told = choices[index].take(event)
        if index not in begun and isinstance(event, _NOT_YET):
            continue
        deltas = found.setdefault(index, [])
        for delta in told:
            if deltas and deltas[-1].part == delta.part and delta.call is None:
                deltas[-1].text += delta.text
                deltas[-1].tokens += delta.tokens
            else:
                deltas.append(delta)
    return list(found.items())


STREAM_HEADERS: Final = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache"),
    (b"x-accel-buffering", b"no"),
]


async def send_json(
    client: Client, value: object, status: int = 200, headers: dict[str, str] | None = None
) -> None:
    body = json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
    head = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    head += [(name.encode(), text.encode()) for name, text in (headers or {}).items()]
    await client.begin(status, head)
    await client.put(body, more=False)
