"""Replies on their way from the engine's thread to the loop's.

The engine's thread only puts an event down and wakes the loop, once for all that come together; the
loop takes what is there. What has been asked of the engine and has not ended is counted here, so
that a slot is known to be free when it is.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Protocol

from app.engine.client.engine import Listener
from app.engine.client.supervisor import EngineEvent, EngineState
from app.engine.protocol.loading_messages import Loaded
from app.engine.protocol.messages import Command, Failed, Finished, Result, Stopped, Summary
from app.server.errors import CLOSING, STOPPED, UNLOADED, ApiError
from app.server.exchange import Exchange, Served

RETRY_AFTER_S = 2


class EngineHandle(Protocol):
    """What of an engine the server uses: `app.engine.client.engine.Engine`, or what stands in."""

    @property
    def loaded(self) -> Loaded | None: ...

    @property
    def state(self) -> EngineState: ...

    def request(self, command: Command, listener: Listener | None = None) -> int: ...

    def stop(self, request_id: int) -> None: ...


class TooSlow(Exception):  # noqa: N818 - an outcome
    """The client takes less than the engine gives."""


class Replies:
    """What is asked of the engine. `told` hears of each exchange whenever it has changed."""

    def __init__(
        self,
        engine: EngineHandle,
        loop: asyncio.AbstractEventLoop,
        told: Callable[[Exchange], None],
        waiting: int,
        behind: int,
    ) -> None:
        self.engine = engine
        self._loop = loop
        self.told = told
        self._waiting = waiting
        self._behind = behind
        self._lock = threading.Lock()
        self._jobs: set[Job] = set()
        self._asked = 0
        self._is_closed = False

    @property
    def open_count(self) -> int:
        """Requests that the engine has not ended."""
        return self._asked

    def why_stopped(self, result: Result) -> str:
        """Of a reply that nobody who asked for it has stopped. One that the engine's child has
        stopped itself knows its threads; where the child has ended, nobody does."""
        if self._is_closed:
            return CLOSING
        loaded = self.engine.loaded
        is_remote = loaded is not None and loaded.remote is not None  # and still there
        is_by_hand = isinstance(result, Summary) and (result.n_threads > 0 or is_remote)
        return STOPPED if is_by_hand else UNLOADED

    def ask(self, exchange: Exchange, commands: list[Command]) -> Job:
        """Send them all, or none. Raises ApiError where too many wait already."""
        if self._is_closed:
            raise ApiError(503, CLOSING)
        loaded = self.engine.loaded
        most = (loaded.n_slots if loaded is not None else 1) + self._waiting
        with self._lock:
            if self._asked and self._asked + len(commands) > most:
                sentence = f"{self._asked} requests are running or waiting. Try again later."
                raise ApiError(429, sentence, code="too_many_requests", retry_after_s=RETRY_AFTER_S)
            self._asked += len(commands)
            job = Job(self.engine, exchange, self._loop, self._behind, len(commands))
            self._jobs.add(job)
        sent = 0
        try:
            for at, command in enumerate(commands):
                served = exchange.replies[at] if at < len(exchange.replies) else None
                request_id = self.engine.request(command, partial(self._heard, job, at, served))
                sent += 1
                job.request_ids.append(request_id)
                if served is not None:
                    served.request_id = request_id
        except RuntimeError as error:  # the engine is closed
            with self._lock:
                self._asked -= len(commands) - sent
                self._jobs.discard(job)
            job.leave()
            raise ApiError(503, CLOSING) from error
        return job

    def stop_all(self) -> None:
        """End all that is open, and take nothing more."""
        self._is_closed = True
        with self._lock:
            jobs = list(self._jobs)
        for job in jobs:
            job.stop_open()

    def _heard(self, job: Job, at: int, served: Served | None, event: EngineEvent) -> None:
        """On the engine's thread."""
        if served is not None:
            served.take(event)
        is_ending = isinstance(event, Finished | Stopped | Failed)
        if is_ending:
            job.ended.add(at)
            with self._lock:
                self._asked -= 1
                if len(job.ended) == job.count:
                    self._jobs.discard(job)
        job.put(at, event)
        if is_ending and served is not None:
            self.told(job.exchange)


class Job:
    """The events of one HTTP request's commands, numbered by their place."""

    def __init__(
        self,
        engine: EngineHandle,
        exchange: Exchange,
        loop: asyncio.AbstractEventLoop,
        behind: int,
        count: int,
    ) -> None:
        self.exchange = exchange
        self.count = count
        self.request_ids: list[int] = []
        self.ended: set[int] = set()
        self._engine = engine
        self._loop = loop
        self._behind = behind
        self._arrived: deque[tuple[int, EngineEvent]] = deque()
        self._is_called = False
        self._wake = asyncio.Event()
        self._is_left = False

    def put(self, at: int, event: EngineEvent) -> None:
        """On the engine's thread."""
        if self._is_left:
            return
        self._arrived.append((at, event))
        if not self._is_called:
            self._is_called = True
            try:
                self._loop.call_soon_threadsafe(self._wake.set)
            except RuntimeError:  # the loop has ended
                self._is_left = True

    async def next(self) -> list[tuple[int, EngineEvent]]:
        """All that has come since, at least one event. Raises TooSlow where it is too much."""
        while not self._arrived:
            self._wake.clear()
            self._is_called = False
            if not self._arrived:
                await self._wake.wait()
        if len(self._arrived) > self._behind:
            raise TooSlow
        return [self._arrived.popleft() for _ in range(len(self._arrived))]

    def leave(self) -> None:
        """Nobody wants to hear any more: what has not ended is stopped."""
        self._is_left = True
        self._arrived.clear()
        self.stop_open()

    def stop_open(self) -> None:
        for at, request_id in enumerate(self.request_ids):
            if at not in self.ended:
                with contextlib.suppress(RuntimeError):  # closed, and with it all requests
                    self._engine.stop(request_id)
