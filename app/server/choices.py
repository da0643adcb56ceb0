"""The events of one reply as what a client is told: pieces of text, and their tokens.

Text may come later than its tokens (half a character, what might be a stop string), so scores wait
for the text that they belong to, and go with what a stop string swallowed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

from app.engine.client.supervisor import EngineEvent
from app.engine.protocol.messages import (
    Failed,
    Finished,
    Progress,
    Result,
    Stopped,
    Summary,
    TextFlushed,
    TextTakenBack,
    TokenArrived,
    TokenTrace,
)
from app.engine.protocol.pieces import Pieces
from app.engine.protocol.tool_messages import ToolCall, ToolCalled
from app.server.errors import ApiError, of_failure


@dataclass(slots=True)
class Delta:
    """`tokens`: those whose text this is, with what was held back before. `call`: a call of a tool
    that is whole now, in place of text; `number`: which one, from 0."""

    part: Literal["content", "reasoning", "call"]
    text: str
    tokens: list[TokenTrace] = field(default_factory=list)
    call: ToolCall | None = None
    number: int = 0


class Choice:
    """What has come of one reply. `why_stopped`: the sentence where it was stopped by nobody who
    asked for it."""

    def __init__(self, why_stopped: Callable[[Result], str]) -> None:
        self._why_stopped = why_stopped
        self.deltas: list[Delta] = []
        self.summary: Summary | None = None
        self.error: ApiError | None = None
        self.n_tokens = 0
        self.n_evaluated = 0
        """Tokens of the prompt that nothing cached could save, as soon as that is known."""
        self._pending: list[TokenTrace] = []

    @property
    def has_ended(self) -> bool:
        return self.summary is not None or self.error is not None

    def take(self, event: EngineEvent) -> list[Delta]:
        """What the client is to be told of it."""
        found: list[Delta] = []
        if isinstance(event, TokenArrived):
            self.n_tokens += 1
            self._pending.append(event.token)
            found += self._told(event)
        elif isinstance(event, TextFlushed):
            found += self._told(event)
        elif isinstance(event, ToolCalled):
            found.append(Delta("call", "", call=event.call, number=event.index))
        elif isinstance(event, TextTakenBack):
            del self._pending[max(len(self._pending) - event.n_tokens, 0) :]
        elif isinstance(event, Progress) and event.phase == "prefill":
            self.n_evaluated = max(self.n_evaluated, event.total)
        elif isinstance(event, Failed):
            self.error = of_failure(event)
        elif isinstance(event, Finished | Stopped):
            found += self._end(event)
        return found

    def _told(self, event: TokenArrived | TextFlushed) -> list[Delta]:
        """A call is told once it is whole, without its marks."""
        if event.part == "call":
            self._pending.clear()
            return []
        return [self._delta(event.part, event.text)] if event.text else []

    def _delta(self, part: Any, text: str) -> Delta:
        tokens, self._pending = self._pending, []
        return Delta(part, text, tokens)

    def _end(self, ending: Finished | Stopped) -> list[Delta]:
        if isinstance(ending, Stopped) or not isinstance(ending.result, Summary):
            self.error = ApiError(503, self._why_stopped(ending.result))
            return []
        self.summary = ending.result
        if self._pending and self.summary.stop_reason != "stop_string":
            return [self._delta("content", "")]
        return []


# --- scores -----------------------------------------------------------------------------------


def chat_score(token: TokenTrace, pieces: Pieces | None, count: int) -> dict[str, Any]:
    """A token in the form of chat completions, with llama-server's `id` where it is known."""
    top = [
        {**_named(number, piece), "logprob": _nats(logprob)}
        for number, piece, logprob in _alternatives(token, pieces, count)
    ]
    own = {**_named(token.token_id, token.piece), "logprob": _nats(token.logprob)}
    return {**own, "top_logprobs": top}


def text_scores(
    tokens: list[TokenTrace], pieces: Pieces | None, count: int, offset: int
) -> dict[str, list[Any]]:
    """Tokens in the form of text completions; `offset`: characters before the first one."""
    offsets, at = [], offset
    for token in tokens:
        offsets.append(at)
        at += len(_shown(token.piece))
    return {
        "tokens": [_shown(token.piece) for token in tokens],
        "token_logprobs": [_nats(token.logprob) for token in tokens],
        "top_logprobs": [
            {_shown(piece): _nats(value) for _, piece, value in _alternatives(token, pieces, count)}
            for token in tokens
        ],
        "text_offset": offsets,
    }


def _alternatives(
    token: TokenTrace, pieces: Pieces | None, count: int
) -> list[tuple[int, bytes, float]]:
    """ID, bytes and log-probability. `pieces` None: the token's record has the bytes."""
    ids, logprobs = token.alternative_ids.numbers(), token.alternative_logprobs.numbers()
    own = token.alternative_pieces if pieces is None else map(pieces.piece, ids)
    return list(zip(ids, own, logprobs, strict=True))[:count]


def _named(number: int, piece: bytes) -> dict[str, Any]:
    named = {"token": _shown(piece), "bytes": list(piece)}
    return {"id": number, **named} if number >= 0 else named


def _shown(piece: bytes) -> str:
    return piece.decode("utf-8", "replace")


def _nats(value: float) -> float:
    """JSON has no -inf; OpenAI says -9999 for what is next to impossible."""
    return max(float(value), -9999.0)


# --- counts -----------------------------------------------------------------------------------


def usage_of(summaries: list[Summary]) -> dict[str, Any] | None:
    """OpenAI's counts; None where a server elsewhere did not tell them. The prompt of several
    choices counts once."""
    if any({"prompt_tokens", "generated"} & set(summary.unknown) for summary in summaries):
        return None
    prompts: dict[str, int] = {}
    first = summaries[0] if summaries else Summary("stopped")
    for summary in summaries:
        prompts.setdefault(summary.rendered_prompt, summary.prompt_tokens)
    prompt = sum(prompts.values())
    generated = sum(summary.generated for summary in summaries)
    return {
        "prompt_tokens": prompt,
        "completion_tokens": generated,
        "total_tokens": prompt + generated,
        "prompt_tokens_details": {"cached_tokens": first.reused},
        "completion_tokens_details": {
            "reasoning_tokens": sum(summary.reasoning_tokens for summary in summaries)
        },
    }


def timings_of(summary: Summary) -> dict[str, Any]:
    """llama-server's times, in milliseconds."""
    read_ms, written_ms = summary.prefill_s * 1000, summary.decode_s * 1000
    return {
        "cache_n": summary.reused,
        "prompt_n": summary.evaluated,
        "prompt_ms": read_ms,
        "prompt_per_token_ms": read_ms / summary.evaluated if summary.evaluated else 0.0,
        "prompt_per_second": summary.evaluated / summary.prefill_s if summary.prefill_s else 0.0,
        "predicted_n": summary.generated,
        "predicted_ms": written_ms,
        "predicted_per_token_ms": written_ms / summary.generated if summary.generated else 0.0,
        "predicted_per_second": summary.tokens_per_s,
    }
