"""What the panel says of a prompt, its parts and its tokens. Pure; no Qt."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from app.chat.inspection.prompt_reading import PromptOf
from app.engine.protocol.pieces import kind_of
from app.engine.protocol.prompt_messages import ShownPart
from app.insight.prompt.media import cell_words, fill_words, span_at
from app.insight.prompt.parts import (
    Difference,
    OriginCount,
    PromptTokens,
    Surprise,
    counts,
    origin_words,
)
from app.insight.trace.tokens_shown import hexadecimal, visible
from models.records import MessageCounts

MOST_BYTES: Final = 24
"""So many of a token's bytes are spelled out."""

VECTOR: Final = "No token: a vector that the projector made of this part."
NO_NAMES: Final[Mapping[str, str]] = {}
NO_PASSAGES: Final[Mapping[int, str]] = {}

UNKNOWN: Final = (
    "This chat template rewrites messages, so their places in the prompt can't be told."
)
REPLAYED: Final = (
    "Surprise: −log2 of the probability of each token given those before it, before samplers, "
    "at temperature 1. Computed now in one pass."
)


def size_words(of: PromptOf) -> str:
    """
    >>> size_words(PromptOf(None, "", "Hi"))
    '2 characters'
    """
    if of.tokens is None:
        return f"{len(of.text):,} characters" if of.text else ""
    return f"{_tokens(len(of.tokens))} · {_counted(len(of.tokens.blob), 'byte')}"


def context_words(of: PromptOf) -> str:
    """How much of the context window it takes."""
    if of.tokens is None or of.shown is None or not of.shown.n_ctx:
        return ""
    share = share_words(len(of.tokens) / of.shown.n_ctx)
    return f"{share} of the context window of {of.shown.n_ctx:,} tokens."


def share_words(share: float) -> str:
    """
    >>> share_words(0.123), share_words(0.0004), share_words(0.997), share_words(1)
    ('12%', '< 1%', '> 99%', '100%')
    """
    if 0 < share < 0.005:
        return "< 1%"
    return "> 99%" if 0.995 <= share < 1 else f"{100 * share:.0f}%"


def count_words(count: OriginCount) -> str:
    return f"{origin_words(count.origin)} {count.n_tokens:,} ({share_words(count.share)})"


def cache_words(figures: MessageCounts | None) -> str:
    """What of it the reply had to read.

    >>> cache_words(MessageCounts(reused=14, evaluated=16))
    '14 tokens from the KV cache, 16 processed (prefill).'
    """
    if figures is None or figures.reused is None or figures.evaluated is None:
        return ""
    reused = _tokens(figures.reused)
    return f"{reused} from the KV cache, {figures.evaluated:,} processed (prefill)."


def unknown_words(of: PromptOf) -> str:
    """Why some of it has no colour of its own."""
    parts = of.tokens.parts if of.tokens is not None else ()
    return UNKNOWN if any(part.origin == "unknown" for part in parts) else ""


def reply_words(of: PromptOf) -> str:
    """What pictures take of it, and how earlier replies entered it."""
    if of.shown is None:
        return ""
    seen = fill_words(of.shown.media)
    own, again = len(of.shown.returned), len(of.shown.retokenized)
    said = [seen] if seen else []
    if own:
        which = "1 reply is included" if own == 1 else f"{own:,} replies are included"
        said.append(f"{which} with its original token IDs.")
    if again:
        which = "1 reply was" if again == 1 else f"{again:,} replies were"
        said.append(f"{which} tokenised again because the template changes the text.")
    return " ".join(said)


def passage_words(
    parts: Sequence[ShownPart], sent: Mapping[str | None, Sequence[str]]
) -> dict[int, str]:
    """What each part of a document is, by the token that it begins at. `sent`: of each message, in
    order; None: of what is not sent yet."""
    found: dict[int, str] = {}
    left = {owner: list(words) for owner, words in sent.items()}
    for part in parts:
        if part.origin == "passage" and (words := left.get(part.message_id)):
            found[part.start] = words.pop(0)
    return found


def part_words(
    part: ShownPart, numbers: Mapping[str, int], passages: Mapping[int, str] = NO_PASSAGES
) -> str:
    """Whose a part is. `numbers`: the place of each message in the chat, from 1; `passages`: what
    parts of documents are (`passage_words`)."""
    words = passages.get(part.start) or origin_words(part.origin)
    number = numbers.get(part.message_id or "")
    return f"{words}, message {number:,}" if number else words


def token_words(
    tokens: PromptTokens,
    place: int,
    numbers: Mapping[str, int],
    surprise: Surprise | None,
    names: Mapping[str, str] = NO_NAMES,
    passages: Mapping[int, str] = NO_PASSAGES,
) -> tuple[str, str, str]:
    """Three lines about a token: where it is from, what it is, its bytes. `names`: of pictures and
    sounds."""
    if (span := span_at(tokens.media, place)) is not None:
        whose = (
            f"{part_words(tokens.part(place), numbers)} · token {place + 1:,} of {len(tokens):,}"
        )
        return whose, cell_words(span, place, names), VECTOR
    piece = tokens.piece(place)
    kind = "control" if tokens.is_control(place) else kind_of(tokens.attribute(place))
    whence = [
        part_words(tokens.part(place), numbers, passages),
        f"token {place + 1:,} of {len(tokens):,}",
    ]
    if surprise is not None:
        whence.append(surprise_words(surprise, place))
    what = [visible(piece) or "no bytes", f"ID {tokens.ids[place]}", kind]
    return " · ".join(whence), " · ".join(what), bytes_words(piece)


def bytes_words(piece: bytes) -> str:
    """
    >>> bytes_words(b"a b"), bytes_words(b"")
    ('3 bytes 61 20 62', '0 bytes')
    """
    more = " …" if len(piece) > MOST_BYTES else ""
    return f"{_counted(len(piece), 'byte')} {hexadecimal(piece[:MOST_BYTES])}{more}".rstrip()


def surprise_words(surprise: Surprise, place: int) -> str:
    bits, rank = surprise.bits(place), surprise.rank(place)
    if not place:
        return "no earlier token to compare with"
    if bits is None or rank is None:
        return "surprise not computed yet"
    return f"surprise {bits:.2f} bits · rank {rank:,}"


def reading_words(surprise: Surprise) -> str:
    done, total = surprise.n_known + 1, surprise.n_tokens
    return f"Processing the prompt again: {done:,} of {total:,} tokens."


def mean_words(tokens: PromptTokens, surprise: Surprise) -> str:
    """The mean of the whole, and of each origin."""
    whole = surprise.mean(0, len(tokens))
    if whole is None:
        return ""
    said = [f"Mean {whole:.2f} bits per token"]
    for count in counts(tokens):
        places = [p for p in tokens.parts if p.origin == count.origin]
        bits = [
            value
            for part in places
            for place in range(part.start, part.end)
            if (value := surprise.bits(place)) is not None
        ]
        if bits:
            said.append(f"{origin_words(count.origin)} {sum(bits) / len(bits):.2f}")
    return " · ".join(said)


def difference_words(found: Difference, figures: MessageCounts | None) -> str:
    """What changed since the turn before, and what the cache makes of it."""
    said = [f"Same beginning: {_tokens(found.common)}, reusable from the KV cache."]
    if found.removed:
        said.append(f"Removed (struck through): {_tokens(found.removed)} of the previous turn.")
    else:
        said.append("Nothing removed since the previous turn.")
    said.append(f"Added (tinted): {_tokens(found.added)}.")
    if found.same_end and found.removed:
        said.append(
            f"The last {_tokens(found.same_end)} are unchanged but follow a change, so they are "
            "processed again."
        )
    if figures is not None and figures.reused is not None:
        is_but_last = figures.reused == found.common - 1 and not found.removed
        why = " (the last token of a reply is drawn but not processed)" if is_but_last else ""
        said.append(f"Recorded as cached: {figures.reused:,}{why}.")
    return " ".join(said)


def _tokens(count: int) -> str:
    return _counted(count, "token")


def _counted(count: int, unit: str) -> str:
    return f"1 {unit}" if count == 1 else f"{count:,} {unit}s"
