"""Replies in OpenAI's forms: chat completions and text completions, whole or in pieces."""

from __future__ import annotations

import secrets
import time
from typing import Any, Final

import msgspec

from app.engine.protocol.messages import Summary
from app.engine.protocol.pieces import Pieces
from app.engine.protocol.tool_messages import CALLED
from app.server.asking import Asked
from app.server.choices import Choice, Delta, chat_score, text_scores, timings_of, usage_of
from app.server.errors import ApiError
from app.server.tools_reading import told_call

_ENDINGS: Final = {
    "end_token": "stop",
    "turn_end": "stop",
    "stop_string": "stop",
    CALLED: "tool_calls",
}
"""All others were cut off at a limit."""


def finish_reason(summary: Summary) -> str:
    return _ENDINGS.get(summary.stop_reason, "length")


def sse(value: Any) -> bytes:
    return b"data: " + msgspec.json.encode(value) + b"\n\n"


class _Form:
    """What both have in common. `pieces`: of the vocabulary, where scores were asked for and their
    tokens' records have IDs alone."""

    kind = ""
    prefix = ""

    def __init__(self, asked: Asked, pieces: Pieces | None) -> None:
        self._asked = asked
        self._pieces = pieces
        self._id = f"{self.prefix}-{secrets.token_hex(12)}"
        self._created = int(time.time())

    def _top(self, kind: str, choices: list[dict[str, Any]]) -> dict[str, Any]:
        return {
            "id": self._id,
            "object": kind,
            "created": self._created,
            "model": self._asked.model,
            "system_fingerprint": None,
            "choices": choices,
        }

    def _chunk(self, choice: dict[str, Any]) -> dict[str, Any]:
        chunk = self._top(self.kind, [choice])
        if self._asked.with_usage:
            chunk["usage"] = None
        return chunk

    def ping(self) -> bytes:
        return b": waiting\n\n"

    def close(self, choices: list[Choice]) -> list[bytes]:
        """After all have ended."""
        found = []
        summaries = [choice.summary for choice in choices if choice.summary is not None]
        if self._asked.with_usage:
            last = self._top(self.kind, [])
            last |= {"usage": usage_of(summaries), **_extras(summaries)}
            found.append(sse(last))
        return [*found, b"data: [DONE]\n\n"]

    def failed(self, error: ApiError) -> bytes:
        """In the middle of a stream."""
        return sse(error.body(""))


class ChatForm(_Form):
    kind = "chat.completion.chunk"
    prefix = "chatcmpl"

    def begin(self, index: int) -> list[bytes]:
        delta = {"role": "assistant", "content": ""}
        return [sse(self._chunk(_choice(index, delta=delta)))]

    def piece(self, index: int, delta: Delta, choice: Choice) -> list[bytes]:
        if delta.call is not None:
            call = {"index": delta.number, **told_call(delta.call)}
            return [sse(self._chunk(_choice(index, delta={"tool_calls": [call]})))]
        name = "content" if delta.part == "content" else "reasoning_content"
        chunk = _choice(index, delta={name: delta.text})
        if self._asked.scores is not None and delta.part == "content":
            chunk["logprobs"] = {"content": self._scores(delta), "refusal": None}
        return [sse(self._chunk(chunk))]

    def end(self, index: int, summary: Summary, choice: Choice) -> list[bytes]:
        chunk = self._chunk(_choice(index, delta={}, finish=finish_reason(summary)))
        if not self._asked.with_usage:
            chunk |= _extras([summary])
        return [sse(chunk)]

    def whole(self, choices: list[Choice]) -> dict[str, Any]:
        made = []
        summaries = []
        for index, choice in enumerate(choices):
            summary = choice.summary
            assert summary is not None
            summaries.append(summary)
            message: dict[str, Any] = {"role": "assistant", "content": summary.text}
            message["refusal"] = None
            if summary.tool_calls:
                message["content"] = summary.text or None
                message["tool_calls"] = [told_call(call) for call in summary.tool_calls]
            if summary.reasoning:
                message["reasoning_content"] = summary.reasoning
            one: dict[str, Any] = {
                "index": index,
                "message": message,
                "logprobs": None,
                "finish_reason": finish_reason(summary),
            }
            if self._asked.scores is not None:
                told = [d for d in choice.deltas if d.part == "content"]
                scores = [score for delta in told for score in self._scores(delta)]
                one["logprobs"] = {"content": scores, "refusal": None}
            made.append(one)
        top = self._top("chat.completion", made)
        return {**top, "usage": usage_of(summaries), **_extras(summaries)}

    def _scores(self, delta: Delta) -> list[dict[str, Any]]:
        count = self._asked.scores or 0
        return [chat_score(token, self._pieces, count) for token in delta.tokens]


class TextForm(_Form):
    kind = "text_completion"
    prefix = "cmpl"

    def __init__(self, asked: Asked, pieces: Pieces | None) -> None:
        super().__init__(asked, pieces)
        self._offsets: dict[int, int] = {}

    def begin(self, index: int) -> list[bytes]:
        prefix = self._prefix(index)
        return [sse(self._chunk(_text_choice(index, prefix)))] if prefix else []

    def piece(self, index: int, delta: Delta, choice: Choice) -> list[bytes]:
        chunk = _text_choice(index, delta.text)
        if self._asked.scores is not None:
            at = self._offsets.get(index, 0)
            chunk["logprobs"] = self._scores([delta], at)
            self._offsets[index] = at + len(delta.text)
        return [sse(self._chunk(chunk))]

    def end(self, index: int, summary: Summary, choice: Choice) -> list[bytes]:
        chunk = self._chunk(_text_choice(index, "", finish_reason(summary)))
        if not self._asked.with_usage:
            chunk |= _extras([summary])
        return [sse(chunk)]

    def whole(self, choices: list[Choice]) -> dict[str, Any]:
        made, summaries = [], []
        for index, choice in enumerate(choices):
            summary = choice.summary
            assert summary is not None
            summaries.append(summary)
            text = self._prefix(index) + "".join(delta.text for delta in choice.deltas)
            one = _text_choice(index, text, finish_reason(summary))
            if self._asked.scores is not None:
                one["logprobs"] = self._scores(choice.deltas, 0)
            made.append(one)
        top = self._top(self.kind, made)
        return {**top, "usage": usage_of(summaries), **_extras(summaries)}

    def _prefix(self, index: int) -> str:
        return self._asked.prefix[index] if self._asked.prefix else ""

    def _scores(self, deltas: list[Delta], offset: int) -> dict[str, list[Any]]:
        tokens = [token for delta in deltas for token in delta.tokens]
        return text_scores(tokens, self._pieces, self._asked.scores or 0, offset)


def _choice(index: int, *, delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
    return {"index": index, "delta": delta, "logprobs": None, "finish_reason": finish}


def _text_choice(index: int, text: str, finish: str | None = None) -> dict[str, Any]:
    return {"index": index, "text": text, "logprobs": None, "finish_reason": finish}


def _extras(summaries: list[Summary]) -> dict[str, Any]:
    """llama-server's times, and what the engine had to say."""
    found: dict[str, Any] = {"timings": timings_of(summaries[0])} if summaries else {}
    notes = list(dict.fromkeys(note for summary in summaries for note in summary.notes))
    return {**found, "notes": notes} if notes else found
