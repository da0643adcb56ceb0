"""Replies that went out, so that they come back as the tokens that they were written as.

A client sends a reply's text back with the next question. Tokenised again, text gives other IDs in
up to two thirds of replies at a high temperature, and what is cached behind the first other one is
lost. What no longer fits is forgotten, the oldest first; it costs time only.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from functools import partial
from typing import Final

import msgspec

from app.engine.protocol.messages import Summary
from app.engine.protocol.prompt_messages import ChatMessage
from app.engine.protocol.tool_messages import ToolCall
from app.server.tools_reading import arguments_of

MAX_IDS: Final = 1_000_000
MAX_REPLIES: Final = 2_000


_Key = tuple[str, str, str, tuple[tuple[str, bytes], ...]]


def _key(weights: str, text: str, reasoning: str, calls: Sequence[ToolCall]) -> _Key:
    """Calls belong to it: their tokens are among the reply's. Their arguments may come back as an
    object that was read and written anew."""
    return weights, text, reasoning, tuple((c.name, _sorted(arguments_of(c))) for c in calls)


_sorted: Final = partial(msgspec.json.encode, order="sorted")


class KnownReplies:
    """By the weights, and all that a client sends back; from any thread."""

    def __init__(self, max_ids: int = MAX_IDS, max_replies: int = MAX_REPLIES) -> None:
        self._max_ids = max_ids
        self._max_replies = max_replies
        self._lock = threading.Lock()
        self._known: OrderedDict[_Key, list[int]] = OrderedDict()
        self._n_ids = 0

    def note(self, weights: str, summary: Summary) -> None:
        if not weights or not summary.token_ids or not (summary.text or summary.tool_calls):
            return
        key = _key(weights, summary.text, summary.reasoning, summary.tool_calls)
        with self._lock:
            self._n_ids -= len(self._known.pop(key, []))
            self._known[key] = list(summary.token_ids)
            self._n_ids += len(summary.token_ids)
            while self._known and (
                self._n_ids > self._max_ids or len(self._known) > self._max_replies
            ):
                self._n_ids -= len(self._known.popitem(last=False)[1])

    def given(self, weights: str, messages: list[ChatMessage]) -> list[ChatMessage]:
        """The same messages, the replies among them with their IDs where they are known."""
        return [self._with_ids(weights, message) for message in messages]

    def _with_ids(self, weights: str, message: ChatMessage) -> ChatMessage:
        if message.role != "assistant" or not (message.content or message.tool_calls):
            return message
        key = _key(weights, message.content, message.reasoning or "", message.tool_calls)
        with self._lock:
            ids = self._known.get(key)
            if ids is None:
                return message
            self._known.move_to_end(key)
        return msgspec.structs.replace(message, token_ids=list(ids))
