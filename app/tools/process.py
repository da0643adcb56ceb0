"""A server by command: its process, and its messages, one a line, as `mcp`'s sessions take them.

The SDK's own transport is not used, since it reads lines of any length and lets a server live on
where the app is killed. What must hold:

* `ends` leaves no process of the server's group, nor a pipe; it takes `END_S` and the guard's
  patience at most.
* A line that is too long ends the connection with a sentence; nothing is read ahead of the session.
* What the server writes on stderr is kept (`log`), the last lines of it, and never in its way.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import subprocess
import sys
from collections import deque
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any, Final

import anyio
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter

from app.tools.bounds import (
    END_S,
    MAX_LINE_BYTES,
    STDERR_LINE_CHARACTERS,
    STDERR_LINES,
    ServerBroken,
)

GUARD: Final = Path(__file__).with_name("guard.py")
_CHUNK: Final = 65_536

Log = deque[str]


def new_log() -> Log:
    return deque(maxlen=STDERR_LINES)


async def started(
    command: list[str], variables: Mapping[str, str], folder: str
) -> tuple[asyncio.subprocess.Process, int | None]:
    """The process under its guard, and our end of the pipe that the guard watches. Raises
    OSError."""
    pipes: dict[str, Any] = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    if sys.platform == "win32":
        flags = subprocess.CREATE_NO_WINDOW | subprocess.CREATE_NEW_PROCESS_GROUP
        process = await asyncio.create_subprocess_exec(
            *command, **pipes, env=dict(variables), cwd=folder or None, creationflags=flags
        )
        return process, None
    theirs, ours = os.pipe()
    try:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-I", "-S", str(GUARD)),
            *(str(theirs), ",".join(variables), *command),
            **pipes,
            env=dict(variables),
            cwd=folder or None,
            pass_fds=(theirs,),
            start_new_session=True,
        )
    except BaseException:
        os.close(ours)
        raise
    finally:
        os.close(theirs)
    return process, ours


@contextlib.asynccontextmanager
async def connected(
    command: list[str], variables: Mapping[str, str], folder: str, log: Log
) -> AsyncIterator[tuple[Any, Any]]:
    """Start it; the streams of messages from and to it. Raises OSError where it cannot start."""
    process, lifeline = await started(command, variables, folder)
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    to_session, incoming = anyio.create_memory_object_stream[Any](0)
    outgoing, from_session = anyio.create_memory_object_stream[SessionMessage](0)
    tasks = [
        asyncio.create_task(_read_messages(process.stdout, to_session)),
        asyncio.create_task(_write_messages(process.stdin, from_session)),
    ]
    reading_log = asyncio.create_task(_read_log(process.stderr, log))
    try:
        yield incoming, outgoing
    finally:
        for stream in (incoming, outgoing, to_session, from_session):
            stream.close()
        # Whoever cancels us must not leave a process behind: a task of its own is not cancelled.
        ending = asyncio.create_task(_end(process, lifeline, [*tasks, reading_log]))
        while not ending.done():
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.shield(ending)


async def _end(
    process: asyncio.subprocess.Process, lifeline: int | None, tasks: list[asyncio.Task[None]]
) -> None:
    assert process.stdin is not None
    process.stdin.close()
    drain = asyncio.create_task(_drain(process))
    try:
        async with asyncio.timeout(END_S):
            await _gone(process)
    except TimeoutError:
        pass
    if lifeline is not None:
        os.close(lifeline)
    if process.returncode is None:
        if lifeline is None:
            await _end_tree(process)
        await _gone(process)
    for task in (*tasks, drain):
        task.cancel()
    await asyncio.gather(*tasks, drain, return_exceptions=True)
    transport = getattr(process, "_transport", None)
    if transport is not None:  # a grandchild of the server's may still hold a pipe's other end
        transport.close()


async def _gone(process: asyncio.subprocess.Process) -> None:
    """Until the process has ended. `wait` would wait for its pipes, too, which a grandchild may
    keep open."""
    while process.returncode is None:
        await asyncio.sleep(0.01)


async def _end_tree(process: asyncio.subprocess.Process) -> None:
    """Windows: the process with all that it has started."""
    ending = await asyncio.create_subprocess_exec(
        *("taskkill", "/T", "/F", "/PID", str(process.pid)),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    await ending.wait()
    with contextlib.suppress(ProcessLookupError):
        process.kill()


async def _drain(process: asyncio.subprocess.Process) -> None:
    """One that is writing must not wait for us to end."""
    assert process.stdout is not None
    with contextlib.suppress(Exception):
        while await process.stdout.read(_CHUNK):
            pass


async def _read_messages(stdout: asyncio.StreamReader, to_session: Any) -> None:
    held = bytearray()
    with contextlib.suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
        async with to_session:
            while chunk := await stdout.read(_CHUNK):
                start = len(held)
                held += chunk
                while (end := held.find(b"\n", start)) >= 0:
                    line, start = bytes(held[:end]).strip(), 0
                    del held[: end + 1]
                    await to_session.send(_message(line))
                if len(held) > MAX_LINE_BYTES:
                    await to_session.send(
                        ServerBroken("It sent a message that is longer than 16 MB.")
                    )
                    return


def _message(line: bytes) -> SessionMessage | Exception:
    with contextlib.suppress(ValueError, RecursionError):
        return SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False))
    try:
        # Names of files may hold bytes that are no text; a result has more than its one odd letter.
        found = json.loads(line.decode("utf-8", "replace"))
        line = json.dumps(found, ensure_ascii=False).encode("utf-8", "replace")
        return SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False))
    except (ValueError, RecursionError):
        if b'"jsonrpc"' in line[:4096]:
            # Somebody waits for it, and nobody can say who.
            return ServerBroken("It sent a message that can't be read.")
        return ValueError(line[:200].decode("utf-8", "replace"))


async def _write_messages(stdin: asyncio.StreamWriter, from_session: Any) -> None:
    with contextlib.suppress(OSError, anyio.ClosedResourceError):
        async with from_session:
            async for message in from_session:
                text = message.message.model_dump_json(by_alias=True, exclude_unset=True)
                stdin.write(text.encode("utf-8", "replace") + b"\n")
                await stdin.drain()


async def _read_log(stderr: asyncio.StreamReader, log: Log) -> None:
    held = b""
    while chunk := await stderr.read(_CHUNK):
        *lines, held = (held + chunk).split(b"\n")
        if len(held) > STDERR_LINE_CHARACTERS:
            lines, held = [*lines, held], b""
        log.extend(_log_line(line) for line in lines)
    if held:
        log.append(_log_line(held))


def _log_line(line: bytes) -> str:
    return line.decode("utf-8", "replace").rstrip()[:STDERR_LINE_CHARACTERS]
