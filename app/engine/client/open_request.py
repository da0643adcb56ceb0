"""What the supervisor keeps of a request that has not ended.

A reply whose child dies still has the text that arrived: from what is kept here its ending
is made with a Summary of that part. Nobody measured its threads and most of its times: those
are 0, and `n_threads` 0 tells that the other zeros are no measurements either.
"""

from __future__ import annotations

from typing import Literal

from app.engine.protocol.messages import (
    Command,
    Done,
    Event,
    Failed,
    Generate,
    Note,
    Progress,
    Result,
    Stopped,
    Summary,
    TextFlushed,
    TextTakenBack,
    TokenArrived,
    tokens_per_s,
)
from app.engine.protocol.tool_messages import BAD_CALL, ToolCall, ToolCalled


class OpenRequest:
    """A request on its way, and what has arrived for it. `command` has an id."""

    def __init__(self, command: Command, started_s: float) -> None:
        self.command = command
        self.id: int = command.id  # type: ignore[union-attr]
        self.stopping = False
        self._texts: dict[str, list[str]] = {"content": [], "reasoning": [], "call": []}
        self._calls: list[ToolCall] = []
        self._token_ids: list[int] = []
        self._ms: list[float] = []
        self._prompt_tokens = 0
        self._prefilled = 0
        self._context_used = 0
        self.is_at: Literal["model", "draft", "projector", "media"] = "model"
        """What a load, or a prompt, has come to."""

    def note(self, event: Event) -> None:
        """Take in an event that belongs to this request and does not end it."""
        if isinstance(event, TokenArrived):
            self._texts[event.part].append(event.text)
            self._token_ids.append(event.token.token_id)
            self._ms.append(event.token.ms)
            self._context_used = event.context_used
        elif isinstance(event, TextFlushed):
            self._texts[event.part].append(event.text)
        elif isinstance(event, ToolCalled):
            self._calls.append(event.call)
            self._texts["call"].clear()
        elif isinstance(event, Note) and event.kind == BAD_CALL:
            self._texts["call"].clear()  # it comes again, as content
        elif isinstance(event, TextTakenBack):
            kept = max(len(self._token_ids) - event.n_tokens, 0)
            del self._token_ids[kept:], self._ms[kept:]
        elif isinstance(event, Progress) and event.phase == "prefill":
            self._prefilled, self._prompt_tokens = event.done, event.total
            self.is_at = "model"
        elif isinstance(event, Progress) and event.phase == "seeing":
            self.is_at = "media" if event.done < event.total else "model"
        elif isinstance(event, Progress) and event.phase in ("draft", "projector"):
            self.is_at = "draft" if event.phase == "draft" else "projector"

    def stopped(self, context_size: int) -> Stopped:
        """The ending for a request that was stopped and whose child cannot say so."""
        result: Result = Done()
        if isinstance(self.command, Generate):
            result = self._summary(self.command, "stopped", context_size)
        return Stopped(self.id, result)

    def failed(self, reason: Failed, context_size: int) -> Failed:
        """The ending for a request whose child is gone; what had arrived comes along."""
        partial = None
        if isinstance(self.command, Generate) and self._token_ids:
            partial = self._summary(self.command, "failed", context_size)
        return Failed(self.id, reason.kind, reason.sentence, reason.evidence, partial)

    def _summary(self, command: Generate, stop_reason: str, context_size: int) -> Summary:
        generated = len(self._token_ids)
        decode_s = sum(self._ms[1:]) / 1000
        return Summary(
            # A call that it was in the middle of is no call, and its text is not lost.
            text="".join(self._texts["content"] + self._texts["call"]),
            reasoning="".join(self._texts["reasoning"]),
            token_ids=self._token_ids,
            stop_reason=stop_reason,
            seed=command.sampling.seed or 0,
            prompt_tokens=self._prompt_tokens,
            evaluated=self._prefilled,
            generated=generated,
            decode_s=decode_s,
            total_s=decode_s,
            tokens_per_s=tokens_per_s(generated, decode_s),
            context_used=self._context_used,
            context_size=context_size,
            tool_calls=self._calls,
        )
