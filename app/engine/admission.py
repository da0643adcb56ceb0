"""Whether a request can run at all, told before anything happens for it; and the sentences
that replies end or go on with."""

from __future__ import annotations

from typing import Final

from app.engine.bounds import BadSetting, Bounds, check_list, check_number
from app.engine.chain import check
from app.engine.protocol import Failed, Generate
from app.engine.slot import MAX_STOP_CHARACTERS, MAX_STOPS
from app.engine.vocabulary import Vocabulary

MAX_DEADLINE_S: Final = 1_000_000
"""Eleven days; a timer takes no more than 292 years."""


def refusal(
    generate: Generate,
    ids: list[int],
    *,
    n_vocab: int,
    n_ctx: int,
    vocabulary: Vocabulary | None = None,
) -> Failed | None:
    """Why the request cannot run with this prompt, or None. A prompt of n_ctx tokens can."""
    try:
        check_request(generate, vocabulary)
        check_stop_ids(generate, n_vocab)
    except BadSetting as error:
        return Failed(generate.id, "bad_setting", error.sentence, error.field)
    if not all(0 <= i < n_vocab for i in generate.forced_ids):
        sentence = f"The chosen tokens have IDs outside 0 to {n_vocab - 1:,}. Choose other ones."
        return Failed(generate.id, "bad_setting", sentence, "forced_ids")
    if not ids:
        return Failed(generate.id, "bad_setting", EMPTY_PROMPT, "prompt")
    try:
        check_ids(ids, n_vocab)
    except BadSetting as error:
        return Failed(generate.id, "bad_setting", error.sentence, error.field)
    if len(ids) > n_ctx:
        return Failed(
            generate.id,
            "prompt_too_long",
            f"The conversation has {len(ids):,} tokens and the context holds {n_ctx:,}. "
            "Shorten it, or load the weights with a longer context.",
            f"{len(ids)}/{n_ctx}",
        )
    return None


def check_ids(ids: list[int], n_vocab: int) -> None:
    """Raise BadSetting where a prompt has what is no token of the vocabulary."""
    if ids and not 0 <= min(ids) <= max(ids) < n_vocab:
        raise BadSetting(
            "prompt",
            f"The prompt has token IDs outside 0 to {n_vocab - 1:,}. "
            "Give those of the loaded weights.",
        )


def check_request(generate: Generate, vocabulary: Vocabulary | None = None) -> None:
    """Raise BadSetting for the first value that cannot be used. Without a vocabulary token IDs
    and grammars are not looked at."""
    check(generate.sampling, vocabulary)
    if generate.max_tokens < 0:
        raise BadSetting("max_tokens", "The largest number of tokens must be 0 (no limit) or more.")
    if not 0 <= generate.alternatives <= 64:
        raise BadSetting("alternatives", "Alternatives must be between 0 and 64.")
    if not 0 <= generate.deadline_s <= MAX_DEADLINE_S:
        raise BadSetting(
            "deadline_s", f"The deadline must be 0 (none) to {MAX_DEADLINE_S:,} seconds."
        )
    if len(generate.stop) > MAX_STOPS:
        raise BadSetting("stop", f"There may be at most {MAX_STOPS} stop strings.")
    for stop in generate.stop:
        if not 0 < len(stop) <= MAX_STOP_CHARACTERS:
            raise BadSetting(
                "stop", f"A stop string must have 1 to {MAX_STOP_CHARACTERS:,} characters."
            )


def check_stop_ids(generate: Generate, n_vocab: int) -> None:
    check_list(generate.stop_ids, "The list of stop tokens", "stop_ids", most=MAX_STOPS)
    bounds = Bounds(0, n_vocab - 1, f"a token's ID, 0 to {n_vocab - 1:,}", whole=True)
    for token_id in generate.stop_ids:
        check_number(token_id, "A stop token", "stop_ids", bounds)


EMPTY_PROMPT: Final = "The prompt is empty: there is nothing to go on from."
UNCLOSED: Final = "The reply ended inside its reasoning, without an answer after it."
READ_AGAIN: Final = (
    "llama.cpp failed at this step, so what it held of the conversation was read again."
)
DECODE_FAILED: Final = (
    "llama.cpp failed while computing. Try again; if it fails again, load the weights anew."
)
INTERNAL: Final = "Something went wrong in the engine. Try again; the log has the details."
