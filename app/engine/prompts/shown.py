"""A prompt as it was tokenised, packed for the window: IDs, bytes, and where each came from."""

from __future__ import annotations

from collections.abc import Callable
from itertools import accumulate

from app.engine.prompts.media import is_media
from app.engine.prompts.prompt import BuiltPrompt
from app.engine.prompts.tokens import PromptPart
from app.engine.protocol.frames import Array
from app.engine.protocol.prompt_messages import PromptShown, ShownPart


def shown(
    built: BuiltPrompt,
    n_ctx: int,
    piece: Callable[[int], bytes],
    attribute: Callable[[int], int],
    is_control: Callable[[int], bool],
) -> PromptShown:
    """`piece`, `attribute` (llama.cpp's) and `is_control` of a token ID of the vocabulary.

    A million tokens are about 25 MB, so any prompt that fits a window fits a frame.
    """
    pieces = [b"" if is_media(token_id) else piece(token_id) for token_id in built.ids]
    return PromptShown(
        token_ids=Array.of("i4", built.ids),
        offsets=Array.of("i8", [0, *accumulate(map(len, pieces))]),
        blob=b"".join(pieces),
        attributes=Array.of("i4", [0 if is_media(i) else attribute(i) for i in built.ids]),
        controls=Array.of("u1", [int(not is_media(i) and is_control(i)) for i in built.ids]),
        parts=[_part(part, is_known=built.is_known) for part in built.parts],
        rendered=built.rendered,
        n_ctx=n_ctx,
        notes=[note.sentence for note in built.notes],
        cut=built.cut,
        n_whole=built.n_whole,
        returned=built.returned,
        retokenized=built.retokenized,
        media=built.media,
    )


def _part(part: PromptPart, *, is_known: bool) -> ShownPart:
    """Where the messages' places are unknown, what stands outside of them may be theirs."""
    origin = "unknown" if part.origin == "scaffold" and not is_known else part.origin
    return ShownPart(part.start, part.end, origin, part.message_id)
