"""Replies that went out, so that they come back as the tokens that they were written as.

A client sends a reply's text back with the next question. Tokenised again, text gives other IDs in
up to two thirds of replies at a high temperature, and what is cached behind the first other one is
lost. What no longer fits is forgotten, the oldest first; it costs time only.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Final

import msgspec

from app.engine.protocol.messages import Summary
from app.engine.protocol.prompt_messages import ChatMessage

MAX_IDS: Final = 1_000_000
MAX_REPLIES: Final = 2_000


class KnownReplies:
    """By the weights and the text; from any thread."""

    def __init__(self, max_ids: int = MAX_IDS, max_replies: int = MAX_REPLIES) -> None:
        self._max_ids = max_ids
        self._max_replies = max_replies
        self._lock = threading.Lock()
        self._known: OrderedDict[tuple[str, str, str], list[int]] = OrderedDict()
        self._n_ids = 0

    def note(self, weights: str, summary: Summary) -> None:
        if not weights or not summary.text or not summary.token_ids:
            return
        key = (weights, summary.text, summary.reasoning)
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
        if message.role != "assistant" or not message.content:
            return message
        key = (weights, message.content, message.reasoning or "")
        with self._lock:
            ids = self._known.get(key)
            if ids is None:
                return message
            self._known.move_to_end(key)
        return msgspec.structs.replace(message, token_ids=list(ids))
