"""What is said about one token: in its card, and to a screen reader. No Qt.

Probability, rank and entropy are those that were recorded before samplers, at temperature 1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from app.chat.replies.calls import calls_of
from app.engine.protocol.messages import TokenTrace
from app.engine.protocol.pieces import Pieces
from app.insight.trace import alternatives
from app.insight.trace.alternatives import has_ids
from app.insight.trace.message_tokens import MessageTokens
from app.insight.trace.text_places import TextPlaces
from app.insight.trace.tokens_shown import (
    bits_text,
    hexadecimal,
    percent,
    surprise_at_draw,
    visible,
)
from models.records import Message

N_ALTERNATIVES: Final = 5
IN_CALL: Final = "in a tool call"
INSERTED: Final = "Not drawn: the engine wrote it to end the reasoning at its limit."
RECORDED: Final = "Recorded live; before samplers, at temperature 1."
FROM_SERVER: Final = "As the server told it, with the probabilities that it tells."
CHOSEN: Final = "Chosen by you; measured before samplers, at temperature 1."
NOT_READ: Final = "Load the model that wrote this to see the text of its tokens and to branch."
NO_TOKENS: Final = "This is a word of the text; its tokens are unknown."
CUT_NOW: Final = "Not generated: typed text, tokenised with the loaded model's vocabulary."


@dataclass(frozen=True, slots=True)
class Alternative:
    """`probability`: before samplers, at temperature 1. `is_drawn`: it became the token;
    `is_chosen`: and that by hand. `piece`: its bytes, where a server said them."""

    token_id: int
    text: str
    probability: float
    is_drawn: bool
    may_branch: bool
    is_chosen: bool = False
    piece: bytes = b""


@dataclass(frozen=True, slots=True)
class TokenFacts:
    """`figures` stand beside the piece, `details` and `bytes` below it, `caption` says how they
    were had."""

    piece: str
    figures: str
    details: str
    bytes: str = ""
    alternatives: tuple[Alternative, ...] = ()
    caption: str = ""


def facts_of(
    tokens: MessageTokens,
    number: int,
    words: Pieces | None,
    may_branch: bool,
    message: Message | None = None,
) -> TokenFacts:
    """`message`: whose tokens they are, where it is known."""
    place, piece = tokens.place_of(number), tokens.piece(number)
    if place is None:
        return _not_drawn(tokens, number, piece)
    trace = tokens.traces[place]
    named = [f"ID {trace.token_id}"] if trace.token_id >= 0 else []
    named.append(f"{percent(trace.logprob)}%")
    named += [f"rank {trace.rank:,}"] if trace.rank else []
    named += [f"entropy {bits_text(trace.entropy)} bits"] if trace.entropy is not None else []
    figures = " · ".join(named)
    details = [f"token {place + 1:,} of {len(tokens.traces):,}", f"{trace.ms:.1f} ms"]
    bits = surprise_at_draw(trace)
    if bits is not None:
        details.append(f"surprise when drawn {bits:.2f} bits")
    if message is not None and _is_in_call(tokens, number, message):
        details.append(IN_CALL)
    if told := _draft(trace):
        details.append(told)
    recorded = INSERTED if trace.inserted else CHOSEN if trace.chosen else RECORDED
    is_read = words is not None or bool(trace.alternative_pieces)
    caption = recorded if is_read else f"{recorded} {NOT_READ}"
    if not has_ids(trace):
        caption = f"{FROM_SERVER} {CHOSEN}" if trace.chosen else FROM_SERVER
    found = _alternatives(trace, words, may_branch)
    return TokenFacts(visible(piece), figures, " · ".join(details), _bytes(piece), found, caption)


def _is_in_call(tokens: MessageTokens, number: int, message: Message) -> bool:
    """Whether it is of the calls that a reply ends with; read off when somebody points at it."""
    if not calls_of(message):
        return False
    first = TextPlaces(tokens, message.reasoning, message.content).behind
    return first is not None and number >= first


def _not_drawn(tokens: MessageTokens, number: int, piece: bytes) -> TokenFacts:
    if not tokens.are_tokens:
        hint = tokens.hint or NO_TOKENS
        return TokenFacts(visible(piece), "", "", _bytes(piece), caption=hint)
    token_id = tokens.id_of(number)
    figures = "" if token_id is None else f"ID {token_id}"
    details = f"token {number + 1:,} of {len(tokens):,}"
    hint = tokens.hint or CUT_NOW
    return TokenFacts(visible(piece), figures, details, _bytes(piece), caption=hint)


def _alternatives(
    trace: TokenTrace, words: Pieces | None, may_branch: bool
) -> tuple[Alternative, ...]:
    def text(each: alternatives.Alternative) -> str:
        if each.piece is not None:
            return visible(each.piece)
        return f"ID {each.token_id}" if words is None else visible(words.piece(each.token_id))

    return tuple(
        Alternative(
            each.token_id,
            text(each),
            math.exp(min(each.logprob, 0.0)),
            each.is_drawn,
            may_branch and not each.is_drawn and (words is not None or each.piece is not None),
            trace.chosen and each.is_drawn,
            each.piece or b"",
        )
        for each in alternatives.alternatives_of(trace)[:N_ALTERNATIVES]
    )


def _draft(trace: TokenTrace) -> str:
    """What a draft had proposed here, with what both gave it; empty where nothing was."""
    if trace.drafted:
        given = trace.draft_logprob
        return "drafted" + ("" if given is None else f" (draft model {percent(given)}%)")
    lost = trace.rejected
    if lost is None:
        return ""
    given_it = f", draft model {percent(lost.draft_logprobs[0])}%" if lost.draft_logprobs else ""
    more = f" and {len(lost.ids) - 1} more" if len(lost.ids) > 1 else ""
    return f"draft {visible(lost.pieces[0])} rejected ({percent(lost.logprob)}%{given_it}){more}"


def _bytes(piece: bytes) -> str:
    shown = hexadecimal(piece[:16]) + ("…" if len(piece) > 16 else "")
    return f"{'byte' if len(piece) == 1 else 'bytes'} {shown}" if piece else "no bytes"


def spoken(tokens: MessageTokens, number: int) -> str:
    """A token as a screen reader says it."""
    facts = facts_of(tokens, number, None, may_branch=False)
    place = tokens.place_of(number)
    if place is None:
        return ". ".join(part for part in (facts.piece, facts.figures, facts.caption) if part)
    return f"{facts.piece}. Token {place + 1} of {len(tokens.traces)}. {facts.figures}"


def shown_percent(probability: float) -> str:
    return percent(math.log(probability) if probability > 0 else -math.inf)
