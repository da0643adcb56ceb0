"""Prompts that no engine was given, for tests of what shows them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import msgspec

from app.chat.inspection.prompt_reading import PromptOf
from app.engine.protocol.frames import Array
from app.engine.protocol.messages import PromptScores
from app.engine.protocol.prompt_messages import PromptShown, ShownPart
from app.insight.prompt.parts import tokens_of


def shown(parts: Sequence[ShownPart], pieces: Sequence[bytes], **fields: Any) -> PromptShown:
    """Tokens of ID 100, 101, …; those that look like `<x>` are control tokens."""
    ends = [0]
    for piece in pieces:
        ends.append(ends[-1] + len(piece))
    controls = [int(piece[:1] == b"<" and piece[-1:] == b">") for piece in pieces]
    blob = b"".join(pieces)
    found = PromptShown(
        token_ids=Array.of("i4", range(100, 100 + len(pieces))),
        offsets=Array.of("i8", ends),
        blob=blob,
        attributes=Array.of("i4", [8 if is_control else 4 for is_control in controls]),
        controls=Array.of("u1", controls),
        parts=list(parts),
        rendered=blob.decode("utf-8", "replace"),
        n_ctx=4096,
        notes=[],
        cut=[],
        n_whole=0,
        returned=[],
        retokenized=[],
    )
    return msgspec.structs.replace(found, **fields)


def prompt_of(
    message_id: str | None, *stretches: tuple[str, Sequence[bytes], str | None], **fields: Any
) -> PromptOf:
    """A prompt of stretches (origin, pieces, message_id)."""
    parts, pieces = list[ShownPart](), list[bytes]()
    for origin, some, owner in stretches:
        parts.append(ShownPart(len(pieces), len(pieces) + len(some), origin, owner))
        pieces += some
    sentence = fields.pop("sentence", "What the engine was given.")
    found = shown(parts, pieces, **fields)
    return PromptOf(message_id, sentence, found.rendered, tokens_of(found), found)


def scores(start: int, probabilities: Sequence[float], ranks: Sequence[int]) -> PromptScores:
    logprobs = [math.log(p) if p else -math.inf for p in probabilities]
    return PromptScores(
        1, start, [1] * len(logprobs), Array.of("f4", logprobs), Array.of("i4", ranks)
    )
