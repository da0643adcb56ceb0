"""Replies in Anthropic's form: a message of blocks, whole or as events.

A reply's reasoning is a block "thinking", its text one "text", each call one "tool_use". In a
stream one block is open at a time; signatures are empty, since nobody has to be sure here that
reasoning is the model's own.
"""

from __future__ import annotations

import secrets
from typing import Any, Final

import msgspec

from app.engine.protocol.messages import Summary
from app.engine.protocol.tool_messages import CALLED
from app.server.asking import Asked
from app.server.choices import Choice, Delta
from app.server.errors import ANTHROPIC_PATH, ApiError
from app.server.tools_reading import arguments_of

_ENDINGS: Final = {
    "end_token": "end_turn",
    "turn_end": "end_turn",
    "stop_string": "stop_sequence",
    "context_full": "model_context_window_exceeded",
    CALLED: "tool_use",
}
_BLOCKS: Final = {"content": "text", "reasoning": "thinking"}


def event(kind: str, **fields: Any) -> bytes:
    data = msgspec.json.encode({"type": kind, **fields})
    return b"event: " + kind.encode() + b"\ndata: " + data + b"\n\n"


class MessageForm:
    def __init__(self, asked: Asked) -> None:
        self._asked = asked
        self._id = f"msg_{secrets.token_hex(12)}"
        self._block = -1
        self._open = ""

    def begin(self, index: int) -> list[bytes]:
        return []  # how much of the prompt was cached is known with the first piece

    def _start(self, choice: Choice) -> list[bytes]:
        usage = {"input_tokens": choice.n_evaluated, "output_tokens": 0}
        return [event("message_start", message=self._message([], None, None, usage))]

    def piece(self, index: int, delta: Delta, choice: Choice) -> list[bytes]:
        if not delta.text and delta.call is None:
            return []
        lines = self._start(choice) if self._block < 0 else []
        if delta.call is not None:
            start = {"type": "tool_use", "id": delta.call.id, "name": delta.call.name, "input": {}}
            lines += self._close_block()
            lines += self._open_block("tool_use", start)
            told = {"type": "input_json_delta", "partial_json": delta.call.arguments}
            lines.append(event("content_block_delta", index=self._block, delta=told))
            return lines + self._close_block()
        kind = _BLOCKS[delta.part]
        if self._open != kind:
            lines += self._close_block()
            start = {"type": "text", "text": ""}
            if kind == "thinking":
                start = {"type": "thinking", "thinking": "", "signature": ""}
            lines += self._open_block(kind, start)
        told = {"type": f"{kind}_delta", kind: delta.text}
        lines.append(event("content_block_delta", index=self._block, delta=told))
        return lines

    def end(self, index: int, summary: Summary, choice: Choice) -> list[bytes]:
        lines = self._start(choice) if self._block < 0 else []
        lines += self._close_block()
        reason, text = _stop(summary)
        delta = {"stop_reason": reason, "stop_sequence": text}
        return [*lines, event("message_delta", delta=delta, usage=_usage(summary))]

    def ping(self) -> bytes:
        return event("ping")

    def close(self, choices: list[Choice]) -> list[bytes]:
        return [event("message_stop")]

    def failed(self, error: ApiError) -> bytes:
        return event("error", error=error.body(ANTHROPIC_PATH)["error"])

    def whole(self, choices: list[Choice]) -> dict[str, Any]:
        summary = choices[0].summary
        assert summary is not None
        blocks: list[dict[str, Any]] = []
        if summary.reasoning:
            blocks.append({"type": "thinking", "thinking": summary.reasoning, "signature": ""})
        if summary.text:
            blocks.append({"type": "text", "text": summary.text})
        for call in summary.tool_calls:
            made = {"type": "tool_use", "id": call.id, "name": call.name}
            blocks.append({**made, "input": arguments_of(call)})
        return self._message(blocks, *_stop(summary), _usage(summary))

    def _open_block(self, kind: str, start: dict[str, Any]) -> list[bytes]:
        self._block += 1
        self._open = kind
        return [event("content_block_start", index=self._block, content_block=start)]

    def _close_block(self) -> list[bytes]:
        if not self._open:
            return []
        self._open = ""
        return [event("content_block_stop", index=self._block)]

    def _message(
        self,
        blocks: list[dict[str, Any]],
        reason: str | None,
        text: str | None,
        usage: dict[str, int],
    ) -> dict[str, Any]:
        return {
            "id": self._id,
            "type": "message",
            "role": "assistant",
            "model": self._asked.model,
            "content": blocks,
            "stop_reason": reason,
            "stop_sequence": text,
            "usage": usage,
        }


def _stop(summary: Summary) -> tuple[str, str | None]:
    reason = _ENDINGS.get(summary.stop_reason, "max_tokens")
    return reason, summary.stop_detail if reason == "stop_sequence" else None


def _usage(summary: Summary) -> dict[str, int]:
    """What was cached is not counted as input."""
    return {
        "input_tokens": max(summary.prompt_tokens - summary.reused, 0),
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": summary.reused,
        "output_tokens": summary.generated,
    }
