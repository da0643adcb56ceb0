"""Renders chat templates through the template process, which may be killed at any time.

    client = TemplateClient()
    text = client.render(source, messages, bos_token="<s>", eos_token="</s>",
                         add_generation_prompt=True)

A render that takes longer than the deadline ends the process; the next render starts a new
one. So a hostile template costs one sentence, never the engine. A process that was ended from
outside is no template's fault: what it was asked, another one is asked once more.
"""

from __future__ import annotations

import json
import queue
import threading
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any, Final

from app.engine.client.process import (
    BrokenFrames,
    ChildProcess,
    Exited,
    Reports,
    child_command,
    reporting_child,
)
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
    decode_reply,
)
from app.engine.protocol.thinking_messages import TemplateInspected

DEADLINE_S: Final = 5.0
_START_S: Final = 30.0
_REMEMBERED: Final = 16
_NOT_STARTED: Final = (
    "The process for chat templates didn't start. Close other programs and try again."
)

_Answer = Rendered | NotRendered | TemplateInspected


class TemplateClient:
    """Owns the template process. Any thread may render; one at a time does."""

    def __init__(self, *, deadline_s: float = DEADLINE_S, command: list[str] | None = None) -> None:
        self._deadline_s = deadline_s
        self._command = command or child_command("templates")
        self._lock = threading.Lock()
        self._child: ChildProcess | None = None
        self._reports: Reports = queue.SimpleQueue()
        self._is_ready = False
        self._is_abandoned = False
        self._inspected: OrderedDict[tuple[object, ...], TemplateInspected] = OrderedDict()

    def start(self) -> None:
        """Start the process now, so that the first render need not wait for it."""
        with self._lock:
            self._ensure_child()

    def render(
        self,
        source: str,
        messages: list[dict[str, Any]],
        *,
        bos_token: str,
        eos_token: str,
        add_generation_prompt: bool,
        extra: dict[str, Any] | None = None,
    ) -> str:
        """Return the rendered prompt. Raises TemplateFailed."""
        request = RenderTemplate(
            source,
            messages,
            bos_token,
            eos_token,
            add_generation_prompt,
            extra or {},
            self._deadline_s,
        )
        reply = self._answered(request)
        assert isinstance(reply, Rendered)
        return reply.text

    def inspect(
        self,
        source: str,
        *,
        bos_token: str,
        eos_token: str,
        extra: dict[str, Any] | None = None,
        tags: Sequence[tuple[str, str]] = (),
    ) -> TemplateInspected:
        """What can be chosen about reasoning with this template, found out once and remembered.
        One that cannot be looked at offers nothing: rendering says why. `tags`: own pairs."""
        given = json.dumps(extra or {}, sort_keys=True)
        key = (source, bos_token, eos_token, given, tuple(tags))
        if key not in self._inspected:
            request = InspectTemplate(
                source, bos_token, eos_token, extra or {}, list(tags), self._deadline_s
            )
            try:
                found = self._answered(request)
            except TemplateFailed:
                found = TemplateInspected()
            assert isinstance(found, TemplateInspected)
            self._inspected[key] = found
            if len(self._inspected) > _REMEMBERED:
                self._inspected.popitem(last=False)
        return self._inspected[key]

    def _answered(self, request: TemplateRequest) -> Rendered | TemplateInspected:
        """What the process made of it. Raises TemplateFailed."""
        with self._lock:
            reply = self._answer(request)
            if reply is None:  # it may have been gone before it could read the template
                reply = self._answer(request)
        if reply is None:
            sentence = f"The chat template crashed. {AT_FAULT}"
            raise TemplateFailed("failed", sentence)
        if isinstance(reply, NotRendered):
            raise TemplateFailed(reply.kind, reply.sentence, reply.line)
        return reply

    def _answer(self, request: TemplateRequest) -> _Answer | None:
        """What the process makes of it; None where it ended first."""
        child = self._ensure_child()
        try:
            child.send(request)
        except ProtocolError as error:
            sentence = "This conversation is too large for its chat template. Shorten it."
            raise TemplateFailed("too_large", sentence) from error
        return self._await_reply()

    def close(self) -> None:
        """End the process; a later render starts a new one."""
        with self._lock:
            self._end_child()

    def abandon(self) -> None:
        """From another thread than the one that renders: end what it waits for, at once. Nothing
        is rendered any more."""
        self._is_abandoned = True
        child = self._child
        if child is not None:
            child.kill()

    def _ensure_child(self) -> ChildProcess:
        if self._is_abandoned:
            raise TemplateFailed("failed", "The template process was ended.")
        if self._child is None:
            self._reports = queue.SimpleQueue()
            reports = self._reports
            try:
                self._child = reporting_child(self._command, reports, decode_reply)
            except OSError as error:
                sentence = f"The process for chat templates couldn't be started: {error}."
                raise TemplateFailed("failed", sentence) from error
            self._is_ready = False
        return self._child

    def _await_reply(self) -> _Answer | None:
        """The next answer; None where the process is gone. One that is silent too long, or gone, is
        cleared away."""
        while True:
            try:
                report = self._reports.get(timeout=self._deadline_s if self._is_ready else _START_S)
            except queue.Empty:
                self._end_child()
                raise self._too_slow() from None
            if isinstance(report, TemplatesReady):
                self._is_ready = True
            elif isinstance(report, Rendered | TemplateInspected):
                return report
            elif isinstance(report, NotRendered):
                if report.kind == "memory":
                    self._end_child()
                return report
            elif isinstance(report, Exited | BrokenFrames):
                self._end_child()
                if self._is_ready or self._is_abandoned:
                    return None
                raise TemplateFailed("failed", _NOT_STARTED)

    def _too_slow(self) -> TemplateFailed:
        if not self._is_ready:
            return TemplateFailed("failed", _NOT_STARTED)
        seconds = f"{self._deadline_s:g} seconds"
        sentence = f"The chat template didn't finish within {seconds}. {AT_FAULT}"
        return TemplateFailed("timeout", sentence)

    def _end_child(self) -> None:
        child, self._child = self._child, None
        if child is not None:
            child.kill()
            child.join()
