"""The template process: it renders chat templates that came with somebody's file.

A template is a program. The sandbox keeps it from Python's objects; nothing in the sandbox
stops a loop or a 3 GB string, so it runs here, in a small process of its own with a limit of
memory and a deadline, and the engine only sees text or a sentence.

Templates are written for Transformers' `apply_chat_template`, so the environment is the one
of its `_compile_jinja_template`: block trimming, loop controls, the `generation` tag, a
`tojson` that leaves HTML alone, `raise_exception` and `strftime_now`.
"""

from __future__ import annotations

import functools
import json
import os
import queue
import re
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from types import TracebackType
from typing import Any, Final

import jinja2
from jinja2 import nodes
from jinja2.ext import Extension
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

from app.engine.protocol import wire
from app.engine.protocol.frames import ProtocolError
from app.engine.protocol.template_messages import (
    AT_FAULT,
    InspectTemplate,
    NotRendered,
    Rendered,
    RenderTemplate,
    TemplateFailed,
    TemplateRequest,
    TemplatesReady,
    decode_request,
)
from app.engine.protocol.thinking_messages import TemplateInspected

MEMORY_LIMIT_BYTES: Final = 1024 * 1024 * 1024
MAX_TEXT_CHARACTERS: Final = 12_000_000
MAX_QUOTED: Final = 1000
_NEEDLE: Final = "needle"
_OTHER_TOKENS: Final = ("unk_token", "pad_token", "sep_token", "cls_token", "mask_token")
"""Names that a tokeniser gives templates. A file that has no such token says nothing there, so
that a template which puts them together with other texts still renders."""

Clock = Callable[[], datetime]


def main() -> int:
    """Render for the parent until stdin ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    requests: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    reader = wire.FrameReader(wire.claim_stdin())
    replies = wire.FrameWriter(wire.claim_stdout())
    _limit_memory(MEMORY_LIMIT_BYTES)
    replies.write(TemplatesReady())
    threading.Thread(target=_read, args=(reader, requests.put), daemon=True).start()
    try:
        while True:
            reply = answer(decode_request(requests.get()))
            replies.write(reply)
            if isinstance(reply, NotRendered) and reply.kind == "memory":
                return 3  # what is left of the memory is not worth trusting
    except (ProtocolError, OSError) as error:
        print(f"the template process ends: {error}", file=sys.stderr)  # noqa: T201
        return 2


def _read(reader: wire.FrameReader, put: Callable[[bytes], None]) -> None:
    """Pass requests on. When stdin ends the engine is gone, and so are we, whatever a template
    is just doing."""
    code = 2
    try:
        while (payload := reader.read()) is not None:
            put(payload)
        code = 0
    finally:
        os._exit(code)


def answer(request: TemplateRequest) -> Rendered | NotRendered | TemplateInspected:
    """Do what one request asks, under its deadline."""
    _set_alarm(request.deadline_s)
    try:
        if isinstance(request, InspectTemplate):
            return inspected(request)
        return Rendered(render(request))
    except TemplateFailed as failed:
        return NotRendered(failed.fault, failed.sentence, failed.line)
    except MemoryError:
        sentence = f"The chat template used too much memory. {AT_FAULT}"
        return NotRendered("memory", sentence, 0)
    finally:
        _set_alarm(0)


def render(request: RenderTemplate, now: Clock = datetime.now) -> str:
    """Return the rendered text. Raises TemplateFailed, or MemoryError."""
    messages = [_without_nulls(message) for message in request.messages]
    if needs_parts(request.source, now):
        messages = [_as_parts(message) for message in messages]
    variables = {
        "tools": None,
        "documents": None,
        **dict.fromkeys(_OTHER_TOKENS, ""),
        **request.extra,
        "messages": messages,
        "add_generation_prompt": request.add_generation_prompt,
        "bos_token": request.bos_token,
        "eos_token": request.eos_token,
    }
    # An empty list of tools must look as if there were none: templates test `is not none`.
    variables = {k: v for k, v in variables.items() if k not in ("tools", "documents") or v} | {
        name: None for name in ("tools", "documents") if not variables[name]
    }
    text = _render(request.source, variables, now)
    if len(text) > MAX_TEXT_CHARACTERS:
        raise TemplateFailed(
            "too_large", f"The chat template wrote more text than is allowed. {AT_FAULT}"
        )
    return text


def inspected(request: InspectTemplate, now: Clock = datetime.now) -> TemplateInspected:
    """What a template lets one choose about reasoning. Raises TemplateFailed, or MemoryError."""
    from app.engine.templates.thinking import inspect

    began = now()  # one moment for all: a text that holds the time must not differ by it

    def clock() -> datetime:
        return began

    def run(messages: list[dict[str, Any]], variables: Mapping[str, Any]) -> str:
        return render(
            RenderTemplate(
                request.source,
                messages,
                request.bos_token,
                request.eos_token,
                True,
                {**request.extra, **variables},
                request.deadline_s,
            ),
            clock,
        )

    tree = _parse(request.source, now)
    return inspect(tree, request.source, run, request.tags)


def needs_parts(source: str, now: Clock = datetime.now) -> bool:
    """Whether the template wants `content` as a list of parts instead of a string.

    Such a template walks over the characters of a string and silently writes nothing, so
    it is tried: a needle that does not come out as a string but does as a part.
    """
    return _needs_parts(source, now)


@functools.lru_cache(maxsize=8)
def _needs_parts(source: str, now: Clock) -> bool:
    message = {"role": "user", "content": _NEEDLE}
    return not _writes(source, message, now) and _writes(source, _as_parts(message), now)


def _writes(source: str, message: dict[str, Any], now: Clock) -> bool:
    variables = {
        "messages": [message],
        "tools": None,
        "documents": None,
        "add_generation_prompt": True,
        "bos_token": "",
        "eos_token": "",
    }
    try:
        return _NEEDLE in _render(source, variables, now)
    except TemplateFailed:
        return False


def _without_nulls(message: dict[str, Any]) -> dict[str, Any]:
    """A message as templates expect it: content is a string, and no field is null."""
    filled = {key: value for key, value in message.items() if value is not None}
    return {"content": "", **filled}


def _as_parts(message: dict[str, Any]) -> dict[str, Any]:
    content = message["content"]
    if not isinstance(content, str):
        return message
    return {**message, "content": [{"type": "text", "text": content}]}


def _parse(source: str, now: Clock) -> nodes.Template:
    with _in_words():
        return _environment(now).parse(source)


def _render(source: str, variables: dict[str, Any], now: Clock) -> str:
    with _in_words():
        return _compile(source, now).render(variables)


@contextmanager
def _in_words() -> Iterator[None]:
    """What goes wrong in a template, as TemplateFailed."""
    try:
        yield
    except jinja2.TemplateSyntaxError as error:
        what = _cut(str(error.message)).rstrip(".")
        sentence = f"The chat template can't be read: {what} (line {error.lineno}). {AT_FAULT}"
        raise TemplateFailed("bad_template", sentence, error.lineno) from error
    except _RaisedByTemplateError as error:
        what = _cut(str(error)).rstrip(".")
        sentence = f"The chat template refuses this conversation: {what}. {AT_FAULT}"
        raise TemplateFailed("raised", sentence, _line_of(error.__traceback__)) from error
    except MemoryError:
        raise
    except Exception as error:
        line = _line_of(error.__traceback__)
        what = re.sub(r"\s+", " ", _cut(str(error))).rstrip(".") or type(error).__name__
        at = f" (line {line})" if line else ""
        sentence = f"The chat template failed: {what}{at}. {AT_FAULT}"
        raise TemplateFailed("failed", sentence, line) from error


def _cut(text: str) -> str:
    """What a template says may be of any length, a sentence for the user may not."""
    return text if len(text) <= MAX_QUOTED else text[:MAX_QUOTED] + "…"


def _line_of(traceback: TracebackType | None) -> int:
    """The last line inside the template that a traceback passes through (jinja2 maps them)."""
    line = 0
    while traceback is not None:
        if traceback.tb_frame.f_code.co_filename == "<template>":
            line = traceback.tb_lineno
        traceback = traceback.tb_next
    return line


class _RaisedByTemplateError(jinja2.TemplateError):
    """The template called `raise_exception`."""


class _GenerationTag(Extension):
    """`{% generation %}` marks the reply for training; here its body is just rendered."""

    tags = {"generation"}  # noqa: RUF012 - jinja2's interface

    def parse(self, parser: Parser) -> list[nodes.Node]:
        next(parser.stream)
        return list(parser.parse_statements(("name:endgeneration",), drop_needle=True))


@functools.lru_cache(maxsize=8)
def _compile(source: str, now: Clock) -> jinja2.Template:
    return _environment(now).from_string(source)


def _environment(now: Clock) -> ImmutableSandboxedEnvironment:
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True,
        lstrip_blocks=True,
        extensions=[_GenerationTag, "jinja2.ext.loopcontrols"],
    )
    environment.filters["tojson"] = _tojson
    environment.globals["raise_exception"] = _raise_exception
    environment.globals["strftime_now"] = lambda form: now().strftime(form)
    return environment


def _raise_exception(message: str) -> None:
    raise _RaisedByTemplateError(message)


def _tojson(
    value: object,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """As in Transformers: jinja2's own escapes HTML, which models have not been trained on."""
    return json.dumps(
        value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
    )


def _limit_memory(size_bytes: int) -> None:
    """Bound the address space where the system can (Linux; others have the deadline only)."""
    if sys.platform != "win32":
        import resource

        _, hard = resource.getrlimit(resource.RLIMIT_AS)
        limit = size_bytes if hard == resource.RLIM_INFINITY else min(size_bytes, hard)
        resource.setrlimit(resource.RLIMIT_AS, (limit, hard))


def _set_alarm(seconds: float) -> None:
    """Let the system end this process after `seconds` (0: never), whatever it is doing.

    The parent kills it a little earlier; this is for a parent that is itself gone.
    """
    if sys.platform != "win32":
        signal.setitimer(signal.ITIMER_REAL, seconds * 2)
