"""Whether a request can run at all, told before anything happens for it; and the sentences
that replies end or go on with."""

from __future__ import annotations

import traceback
from typing import Final

from app.engine.process.native.vocabulary import Vocabulary
from app.engine.process.sampling.grammar import check_grammar
from app.engine.prompts.media import is_media
from app.engine.protocol.bounds import BadSetting
from app.engine.protocol.messages import Generate
from app.engine.protocol.request_rules import check_request
from app.refusal import Refusal


def admit(
    generate: Generate,
    ids: list[int],
    *,
    n_vocab: int,
    n_ctx: int,
    vocabulary: Vocabulary | None = None,
    has_media: bool = False,
) -> None:
    """Raise Refusal where the request cannot run with this prompt. One of n_ctx tokens can.
    `has_media`: cells of pictures are among them, and all of those are known."""
    check_request(generate, n_vocab)
    check_grammar(generate.sampling.grammar, generate.sampling.json_schema, vocabulary)
    if not all(0 <= i < n_vocab for i in generate.forced_ids):
        sentence = f"Some chosen tokens have IDs outside 0 to {n_vocab - 1:,}. Choose other tokens."
        raise BadSetting("forced_ids", sentence)
    if not ids:
        raise BadSetting("prompt", EMPTY_PROMPT)
    if has_media:
        _check_media(generate, ids)
    check_ids([i for i in ids if not is_media(i)] if has_media else ids, n_vocab)
    if len(ids) > n_ctx:
        raise Refusal(
            "prompt_too_long",
            f"The chat has {len(ids):,} tokens, but the context window holds only {n_ctx:,}. "
            "Shorten it, or reload the model with a larger context window.",
            f"{len(ids)}/{n_ctx}",
        )


def _check_media(generate: Generate, ids: list[int]) -> None:
    if is_media(ids[-1]):
        raise BadSetting(
            "prompt",
            "The prompt ends with a picture, so there is no text to continue. Use a chat template "
            "that begins the reply.",
        )
    if generate.cuts is not None:
        raise BadSetting(
            "cuts", "Parts of the network can't be cut where the chat has pictures. Remove them."
        )
    if generate.score_prompt:
        raise BadSetting(
            "score_prompt", "A prompt with pictures can't be scored: pictures have no tokens."
        )


def check_ids(ids: list[int], n_vocab: int) -> None:
    """Raise BadSetting where a prompt has what is no token of the vocabulary."""
    if ids and min(ids) < -1:
        raise BadSetting(
            "prompt",
            "This text has pictures or sounds in it, so only replies can process it so far.",
        )
    if ids and not 0 <= min(ids) <= max(ids) < n_vocab:
        raise BadSetting(
            "prompt",
            f"The prompt has token IDs outside 0 to {n_vocab - 1:,}. Use IDs of the loaded model.",
        )


EMPTY_PROMPT: Final = "The prompt is empty, so there is nothing to continue."
UNCLOSED: Final = "The reply ended during its reasoning, without an answer."
READ_AGAIN: Final = "llama.cpp failed at this step, so the chat was processed again."
GAVE_WAY: Final = (
    "Other replies filled the context window, so this one paused until there was room."
)
PERSON_FIRST: Final = "A person used the model, so this reply paused."
NO_ROOM_BEHIND: Final = (
    "There is no room for this in the background: a chat would lose its place in the cache."
)
TAKE_TURNS: Final = (
    "Replies with other adapters are being written, so they and this one take turns."
)
DECODE_FAILED: Final = "llama.cpp failed. Try again; if it fails again, reload the model."
INTERNAL: Final = "Something went wrong in the engine. Try again; the log has the details."
NO_MEMORY: Final = (
    "The engine ran out of memory. Choose a smaller model or a shorter context, or close other "
    "programs."
)


def reason_of(error: Exception) -> tuple[str, str, str]:
    """(kind, sentence, evidence) of what ended a request; called where it is handled."""
    if isinstance(error, Refusal):
        return error.kind, error.sentence, error.evidence
    evidence = traceback.format_exc(limit=-6)
    if isinstance(error, MemoryError):
        return "out_of_memory", NO_MEMORY, evidence
    return "internal", INTERNAL, evidence
