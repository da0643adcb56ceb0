"""One server while it runs: connected, asked what it offers, called. All of it in the host's loop.

`Run.live` is the whole life: it connects, tells `ready`, and returns when the server ends or is
ended, having told why in a `ServerState`. What must hold:

* Whatever ends a run, each call that was under way ends in one `Outcome`.
* A server is asked for nothing that it did not say it has, each question has an end (`bounds`), and
  every list a largest size.
* It gets nothing from us but what it is asked: no sampling, no elicitation, no roots. `mcp` refuses
  those by itself, since we say that we have none; that it asked is noted.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import shutil
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, TypeVar

import anyio
import mcp_types as types
from mcp.client.client import Client
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from mcp.shared.message import SessionMessage
from pydantic import TypeAdapter, ValidationError

from app.hub.address import is_this_machine
from app.hub.async_transport import async_client, status_words, trouble_words
from app.hub.gate import Gate, GateClosed
from app.tools import bounds, process
from app.tools.answers import Answer, answer, bounded, resource_parts
from app.tools.bounds import ServerBroken, its_words
from app.tools.environment import environment
from app.tools.records import (
    Outcome,
    PromptArgument,
    ServerPrompt,
    ServerResource,
    ServerState,
    ServerTool,
)
from app.tools.schemas import fingerprint, schema_text
from app.tools.servers import ToolServer

T = TypeVar("T")
Tell = Callable[[ServerState], None]
Progress = Callable[[str], None]

REFUSED: Final = {
    "sampling/createMessage": "It asked to use the model (sampling); Cutaway refused.",
    "elicitation/create": "It asked you a question (elicitation); Cutaway refused.",
    "roots/list": "It asked for your folders (roots); Cutaway refused.",
}
WANTS_MORE: Final = "The server wants something else from you first, which Cutaway doesn't do."
_CALLED: Final[TypeAdapter[Any]] = TypeAdapter(types.CallToolResult | types.InputRequiredResult)
_READ: Final[TypeAdapter[Any]] = TypeAdapter(types.ReadResourceResult | types.InputRequiredResult)
_GOT: Final[TypeAdapter[Any]] = TypeAdapter(types.GetPromptResult | types.InputRequiredResult)

_log = logging.getLogger(__name__)
for _name in ("mcp", "client"):  # they write what servers say, arguments and results too
    logging.getLogger(_name).setLevel(logging.CRITICAL)


class Run:
    """One start of a server, until its end."""

    def __init__(self, server: ToolServer, values: Mapping[str, str], gate: Gate, tell: Tell):
        self.log = process.new_log()
        self._server = server
        self._values = values
        self._gate = gate
        self._tell = tell
        self._state = ServerState(server.id, "starting")
        self._client: Client | None = None
        self._ended = asyncio.Event()
        self._stirred = asyncio.Event()
        """It has ended, or its lists have changed."""
        self._broken = ""
        self._status = 200

    @property
    def is_ready(self) -> bool:
        return self._state.state == "ready"

    def _say(self, **fields: Any) -> None:
        self._state = replace(self._state, **fields)
        self._tell(self._state)

    # --- life -----------------------------------------------------------------------------------

    async def live(self) -> None:
        """Connect, and stay until it ends. Cancelled, everything of it is ended before this
        returns."""
        try:
            async with contextlib.AsyncExitStack() as stack:
                async with asyncio.timeout(bounds.START_S):
                    self._client = await stack.enter_async_context(
                        Client(
                            self._transport(),
                            client_info=_info(),
                            cache=None,
                            message_handler=self._take,
                        )
                    )
                    await self._look()
                self._say(state="ready", sentence="", program=self._program())
                await self._stay()
        except asyncio.CancelledError:
            self._end("off", "")
            raise
        except BaseException as error:  # noqa: BLE001 - groups of anyio's, of any depth
            _log.debug("tool server %s", self._server.name, exc_info=error)
            self._end(*self._why(error))
        else:
            self._end("failed" if self._broken else "ended", self._broken or self._last_words())

    def _end(self, state: Any, sentence: str) -> None:
        self._client = None
        self._say(state=state, sentence=sentence, tools=(), resources=(), prompts=(), note="")

    async def _stay(self) -> None:
        """Until the connection ends; lists that changed are read again meanwhile."""
        while not self._ended.is_set():
            await self._stirred.wait()
            self._stirred.clear()
            if not self._ended.is_set():
                await asyncio.sleep(bounds.LISTS_AGAIN_S)
                await self._look_again()

    async def _look_again(self) -> None:
        try:
            async with asyncio.timeout(bounds.ASK_S):
                await self._look()
        except TimeoutError:
            raise ServerBroken("It doesn't answer any more.") from None
        self._tell(self._state)

    def _why(self, error: BaseException) -> tuple[str, str]:
        """The state and the sentence for what ended it."""
        for each in _leaves(error):
            if isinstance(each, GateClosed):
                return "failed", bounds.OFFLINE
            if isinstance(each, ServerBroken):
                return "failed", each.sentence
        if self._broken:
            return "failed", self._broken
        first = next(_leaves(error))
        if self._state.state == "ready":
            return "ended", self._last_words()
        return "failed", self._in_words(first)

    def _in_words(self, error: BaseException) -> str:
        match error:
            case TimeoutError():
                return f"It didn't start within {bounds.START_S:g} seconds."
            case FileNotFoundError() | NotADirectoryError() if not self._server.is_by_address:
                return f"The folder “{self._server.folder}” isn't there."
            case PermissionError():
                return "Its command can't be run: permission denied."
            case MCPError(code=types.CONNECTION_CLOSED) if not self._server.is_by_address:
                return self._last_words("It ended before it was ready.")
            case MCPError() if self._status >= 400:
                return status_words(self._status)
            case MCPError() if self._server.is_by_address and _is_no_message(error):
                return "There is no tool server at this address: it answers something else."
            case MCPError():
                return f"It answered with an error: {its_words(error.message).rstrip('.')}."
            case RuntimeError() if "protocol version" in str(error):
                return "It speaks a version of the tool protocol (MCP) that Cutaway doesn't know."
            case ValidationError():
                return "It doesn't speak the tool protocol (MCP): its answer has the wrong form."
        return (
            trouble_words(error) or f"It can't be used: {its_words(error) or type(error).__name__}"
        )

    def _last_words(self, sentence: str = "The server ended.") -> str:
        last = next((line for line in reversed(self.log) if line.strip()), "")
        return f"{sentence} Its last words: {its_words(last)}" if last else sentence

    @contextlib.asynccontextmanager
    async def _transport(self) -> AsyncIterator[tuple[Any, Any]]:
        server = self._server
        if not server.is_by_address:
            variables = environment({**server.variables, **self._values})
            command = [_found(server.command, variables), *server.arguments]
            folder = str(Path(server.folder).expanduser() if server.folder else Path.home())
            if not Path(folder).is_dir():
                raise ServerBroken(f"The working folder “{server.folder}” isn't there.")
            connecting: Any = process.connected(command, variables, folder, self.log)
        else:
            self._gate.check(is_this_machine(server.address))
            own = {**server.variables, **self._values}
            if server.transport == "sse":
                connecting = sse_client(
                    server.address,
                    httpx_client_factory=lambda headers=None, timeout=None, auth=None: async_client(
                        self._gate, own, self._on_status, timeout
                    ),
                )
            else:
                connecting = self._http(own)
        async with connecting as (incoming, outgoing):
            yield _Watched(incoming, self), outgoing

    @contextlib.asynccontextmanager
    async def _http(self, headers: dict[str, str]) -> AsyncIterator[tuple[Any, Any]]:
        async with (
            async_client(self._gate, headers, self._on_status) as client,
            streamable_http_client(
                self._server.address,
                http_client=client,
                max_sse_event_size=bounds.MAX_EVENT_BYTES,
            ) as streams,
        ):
            yield streams

    def _on_status(self, status: int) -> None:
        # Streams that a server does not have are asked for, too, and 405 is its answer.
        if status != 405 or self._status == 200:
            self._status = status

    # --- what comes by itself -------------------------------------------------------------------

    def on_stream_over(self) -> None:
        self._ended.set()
        self._stirred.set()

    def on_broken(self, sentence: str) -> None:
        self._broken = sentence
        self.on_stream_over()

    def on_refused(self, method: str) -> None:
        note = REFUSED[method]
        if self._state.note != note:
            self._state = replace(self._state, note=note)
            if self.is_ready:
                self._tell(self._state)

    async def _take(self, message: Any) -> None:
        changes = (
            types.ToolListChangedNotification,
            types.ResourceListChangedNotification,
            types.PromptListChangedNotification,
        )
        if isinstance(message, changes):
            self._stirred.set()

    # --- what it offers -------------------------------------------------------------------------

    def _program(self) -> str:
        found = self._client.server_info if self._client is not None else None
        return its_words(f"{found.name} {found.version}")[:100] if found is not None else ""

    async def _look(self) -> None:
        """Read its lists. Those that fail are empty: tools of a server with broken prompts work."""
        assert self._client is not None
        has, session = self._client.server_capabilities, self._client.session
        tools = (
            [tool async for tool in _pages(session.list_tools, "tools", bounds.MAX_TOOLS)]
            if (has.tools is not None)
            else []
        )
        resources: list[Any] = []
        prompts: list[Any] = []
        with contextlib.suppress(MCPError, ValidationError, RuntimeError):
            if has.resources is not None:
                pages = _pages(session.list_resources, "resources", bounds.MAX_RESOURCES)
                resources = [each async for each in pages]
        with contextlib.suppress(MCPError, ValidationError, RuntimeError):
            if has.prompts is not None:
                pages = _pages(session.list_prompts, "prompts", bounds.MAX_PROMPTS)
                prompts = [each async for each in pages]
        note = self._state.note
        if len(tools) >= bounds.MAX_TOOLS:
            note = f"It lists more tools than {bounds.MAX_TOOLS}; the rest is left out."
        self._state = replace(
            self._state,
            note=note,
            tools=_once_each(_tool(self._server.id, tool) for tool in tools),
            resources=tuple(
                ServerResource(
                    each.uri,
                    its_words(each.title or each.name),
                    _text(each.description),
                    its_words(each.mime_type or ""),
                )
                for each in resources
                if len(each.uri) <= bounds.MAX_DESCRIPTION
            ),
            prompts=tuple(_prompt(each) for each in prompts if len(each.name) <= bounds.MAX_NAME),
        )

    # --- questions ------------------------------------------------------------------------------

    async def call(self, tool: str, arguments: dict[str, Any], on_progress: Progress) -> Outcome:
        """Call a tool. Cancelled, the server is told so."""
        params = types.CallToolRequestParams(name=tool, arguments=arguments)

        async def ask(still: Callable[[], None]) -> Answer:
            async def progressed(done: float, total: float | None, words: str | None) -> None:
                still()
                on_progress(_progress_words(done, total, words))

            found = await self._session.send_request(
                types.CallToolRequest(params=params), _CALLED, progress_callback=progressed
            )
            if not isinstance(found, types.CallToolResult):
                raise ServerBroken(WANTS_MORE)
            return answer(found.content, found.structured_content, is_error=found.is_error)

        return await self._asked(ask, bounds.CALL_S)

    async def read(self, uri: str) -> Outcome:
        """What a resource holds."""
        params = types.ReadResourceRequestParams(uri=uri)

        async def ask(_still: Callable[[], None]) -> Answer:
            found = await self._session.send_request(
                types.ReadResourceRequest(params=params), _READ
            )
            if not isinstance(found, types.ReadResourceResult):
                raise ServerBroken(WANTS_MORE)
            parts = [part for each in found.contents for part in resource_parts(each)]
            return bounded("\n\n".join(parts[: bounds.MAX_BLOCKS]))

        return await self._asked(ask, bounds.ASK_S)

    async def prompt(self, name: str, arguments: dict[str, str]) -> Outcome:
        """The text of a prompt with these arguments."""
        params = types.GetPromptRequestParams(name=name, arguments=arguments)

        async def ask(_still: Callable[[], None]) -> Answer:
            found = await self._session.send_request(types.GetPromptRequest(params=params), _GOT)
            if not isinstance(found, types.GetPromptResult):
                raise ServerBroken(WANTS_MORE)
            return answer(message.content for message in found.messages)

        return await self._asked(ask, bounds.ASK_S)

    @property
    def _session(self) -> Any:
        if self._client is None:
            raise ServerBroken("The server isn't running.")
        return self._client.session

    async def _asked(
        self, ask: Callable[[Callable[[], None]], Awaitable[Answer]], patience_s: float
    ) -> Outcome:
        """What a question brings, within `patience_s` from the last sign of life."""
        began = time.monotonic()

        def took_s() -> float:
            return time.monotonic() - began

        try:
            with anyio.CancelScope(deadline=anyio.current_time() + patience_s) as scope:
                last = scope.deadline - patience_s + bounds.CALL_IN_ALL_S

                def still() -> None:
                    scope.deadline = min(anyio.current_time() + patience_s, last)

                found = await ask(still)
        except asyncio.CancelledError:
            return Outcome("cancelled", "Stopped by you.", took_s=took_s())
        except BaseException as error:  # noqa: BLE001 - what a server makes of us, in words
            return Outcome("failed", self._call_words(error), took_s=took_s())
        if scope.cancelled_caught:
            words = f"No answer within {patience_s:g} seconds; the call was given up."
            return Outcome("failed", words, took_s=took_s())
        return Outcome("done", found.text, found.whole, found.is_error, took_s())

    def _call_words(self, error: BaseException) -> str:
        first = next(_leaves(error))
        if isinstance(first, GateClosed):
            return bounds.OFFLINE
        if isinstance(first, ServerBroken):
            return first.sentence
        if isinstance(first, MCPError) and first.code == types.CONNECTION_CLOSED:
            return self._broken or "The server ended in the middle of the call."
        if isinstance(first, MCPError):
            return f"The server refused: {its_words(first.message)}"
        if isinstance(first, ValidationError):
            return "The server's answer has the wrong form."
        return (
            trouble_words(first) or f"The call failed: {its_words(first) or type(first).__name__}"
        )


class _Bucket:
    """Of `size`, and filled with time."""

    def __init__(self, size: int) -> None:
        self._size = self._left = float(size)
        self._at = time.monotonic()

    def takes_one(self) -> bool:
        moment = time.monotonic()
        self._left = min(self._size, self._left + (moment - self._at) * bounds.PER_S)
        self._at = moment
        if self._left < 1:
            return False
        self._left -= 1
        return True


class _Watched:
    """The messages from a server on their way to the session: counted, and ended where they are
    too many. The session reads it as a stream."""

    def __init__(self, inner: Any, run: Run) -> None:
        self._inner = inner
        self._run = run
        self._n_nonsense = 0
        self._messages = _Bucket(bounds.MAX_MESSAGES)
        self._notices = _Bucket(bounds.PER_S)

    @property
    def last_context(self) -> Any:
        return getattr(self._inner, "last_context", None)

    async def receive(self) -> Any:
        while True:
            try:
                item = await self._inner.receive()
            except (anyio.EndOfStream, anyio.ClosedResourceError, anyio.BrokenResourceError):
                self._run.on_stream_over()
                raise
            if self._is_taken(item):
                return item

    def _is_taken(self, item: Any) -> bool:
        """Whether the session gets it. Ends the stream where there is too much of it."""
        if isinstance(item, ServerBroken):
            self._give_up(item.sentence)
        if not self._messages.takes_one():  # answers that nobody asked for, empty lines
            self._give_up("It floods Cutaway with messages.")
        if isinstance(item, Exception):
            if not str(item):  # an empty line
                return False
            self._n_nonsense += 1
            self._run.log.append(its_words(item))
            if self._n_nonsense > bounds.MAX_NONSENSE:
                self._give_up("It writes something else than the tool protocol (MCP).")
            return False
        message = item.message if isinstance(item, SessionMessage) else None
        if isinstance(message, types.JSONRPCRequest) and message.method in REFUSED:
            self._run.on_refused(message.method)
        by_itself = isinstance(message, types.JSONRPCRequest | types.JSONRPCNotification)
        return not by_itself or self._notices.takes_one()

    def _give_up(self, sentence: str) -> None:
        self._run.on_broken(sentence)
        raise anyio.EndOfStream

    def __aiter__(self) -> _Watched:
        return self

    async def __anext__(self) -> Any:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None

    def close(self) -> None:
        self._inner.close()

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def __aenter__(self) -> _Watched:
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self.aclose()


def _info() -> types.Implementation:
    return types.Implementation(name="Cutaway", version="1")


def _is_no_message(error: MCPError) -> bool:
    """Whether the SDK could not read an answer as one of the protocol."""
    words = error.message.lower()
    return error.code == types.PARSE_ERROR or "parse" in words or "content type" in words


def _found(command: str, variables: Mapping[str, str]) -> str:
    """Where a command is. Raises ServerBroken."""
    command = str(Path(command).expanduser())
    found = shutil.which(command, path=variables.get("PATH"))
    if found is None:
        raise ServerBroken(f"Command not found: “{command}”. Install it, or give its full path.")
    return found


async def _pages(ask: Callable[..., Awaitable[Any]], field: str, limit: int) -> AsyncIterator[Any]:
    """The entries of all pages of a list, up to `limit`."""
    cursor, n_found, seen = None, 0, set[str]()
    for _ in range(bounds.MAX_PAGES):
        params = types.PaginatedRequestParams(cursor=cursor) if cursor else None
        page = await ask(params=params)
        for each in getattr(page, field):
            if n_found >= limit:
                return
            n_found += 1
            yield each
        cursor = page.next_cursor
        if not cursor or cursor in seen:
            return
        seen.add(cursor)


def _tool(server_id: str, tool: Any) -> ServerTool:
    schema, trouble = schema_text(tool.input_schema)
    description = _text(tool.description)
    if len(tool.name) > bounds.MAX_NAME or not tool.name.strip():
        trouble = "Its name is too long or empty."
    if tool.description and len(tool.description) > bounds.MAX_DESCRIPTION:
        trouble = trouble or "Its description is too long."
    return ServerTool(
        server_id,
        tool.name[: bounds.MAX_NAME],
        its_words(tool.title or "")[: bounds.MAX_NAME],
        description,
        schema,
        fingerprint(tool.name, description, schema),
        trouble,
    )


def _once_each(tools: Iterator[ServerTool]) -> tuple[ServerTool, ...]:
    """The first of each name: which of two is called would be the server's guess."""
    found: dict[str, ServerTool] = {}
    for tool in tools:
        found.setdefault(tool.name, tool)
    return tuple(found.values())


def _prompt(prompt: Any) -> ServerPrompt:
    return ServerPrompt(
        prompt.name,
        its_words(prompt.title or ""),
        _text(prompt.description),
        tuple(
            PromptArgument(
                each.name[: bounds.MAX_NAME], _text(each.description), bool(each.required)
            )
            for each in (prompt.arguments or [])[:50]
        ),
    )


def _text(text: str | None) -> str:
    return (text or "").replace("\0", "\ufffd").strip()[: bounds.MAX_DESCRIPTION]


def _progress_words(done: float, total: float | None, words: str | None) -> str:
    share = f"{100 * done / total:.0f}%" if total else f"{done:g}"
    return f"{share} · {its_words(words)}" if words else share


def _leaves(error: BaseException) -> Iterator[BaseException]:
    """The errors in a group, of any depth."""
    if isinstance(error, BaseExceptionGroup):
        for each in error.exceptions:
            yield from _leaves(each)
    else:
        yield error
