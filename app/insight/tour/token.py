"""The facts of one drawn token that need no question: from its record, its reply, the loaded file.

    prompt → tokens → IDs → vectors → position → layers → logits → probabilities → choice → text

A token's logit is what its record says: log-probability + ln Σ e^logit over the vocabulary.
"""

from __future__ import annotations

import math

from app.amounts import time_text
from app.engine.protocol.loading_messages import Loaded
from app.engine.protocol.messages import TokenTrace
from app.insight.tour.facts import Fact, Facts, count, said, signed
from app.insight.tour.file import loaded_facts
from app.insight.tour.reply import reply_facts
from app.insight.trace.message_tokens import is_from_server, n_taken_over
from app.insight.trace.tokens_shown import hexadecimal, percent, visible
from models.records import Message

BY_HAND = "chosen by you"
BY_BEAMS = "found by beam search"
BY_ENGINE = "written to end the reasoning"
MOST_PROBABLE = "the most probable"


def token_facts(message: Message, token: TokenTrace, at: int, loaded: Loaded | None) -> Facts:
    """With those of its reply and file. `at`: the token's place in the reply's trace, from 0.
    `loaded`: the weights that wrote the reply; None where others are loaded."""
    found = {**reply_facts(message), **drawn_facts(token, at)}
    n_prompt = message.counts.prompt_tokens
    if is_from_server(message):
        found.pop("choice" if not token.chosen else "", None)  # how it drew, it does not tell
        return found
    if n_prompt is not None:
        # Its vote came from the vector of the token before it; positions count from 0.
        found["position"] = count(n_prompt - n_taken_over(message) + at - 1)
    if "draft_report" in message.settings:
        found.setdefault("draft", said("none"))
    is_own = at >= n_taken_over(message)  # what came before it was drawn for another version
    if is_own and token.chosen and not token.inserted and "beams" in message.settings:
        found["choice"] = said(BY_BEAMS)
    if message.seed is not None and token.uniform is not None:
        found["seed"] = Fact(message.seed, str(message.seed))
    return found if loaded is None else {**found, **loaded_facts(loaded)}


def drawn_facts(token: TokenTrace, at: int) -> Facts:
    """What its record says: its score, and the draw behind the last stage.

    logit = logprob + log_total        probability = e^logprob        draw = stages[−1].probability
    """
    found = {
        "token": said(visible(token.piece)),
        "nth": count(at + 1),
        "probability": probability(token.logprob),
        "n_bytes": count(len(token.piece)),
        "token_bytes": said(hexadecimal(token.piece)),
        "token_time": Fact(token.ms, time_text(token.ms)),
        "choice": _choice(token),
    }
    if token.token_id >= 0:
        found["id"] = Fact(token.token_id, str(token.token_id))
    if token.rank:
        found["rank"] = count(token.rank)
    if token.drafted or token.rejected is not None:
        found["draft"] = said("right" if token.drafted else "wrong")
    if token.log_total is not None:
        found["logit"] = signed(token.logprob + token.log_total)
    if token.stages:
        found["n_left"] = count(token.stages[-1].left)
    if token.uniform is not None:
        found["uniform"] = Fact(token.uniform, f"{token.uniform:.4f}")
        if token.stages and token.stages[-1].probability > 0:
            drawn = token.stages[-1].probability
            found["draw_share"] = Fact(drawn, f"{percent(math.log(drawn))}%")
    return found


def probability(logprob: float) -> Fact:
    """The value is ln p: of a small p that says more."""
    return Fact(logprob, f"{percent(logprob)}%")


def _choice(token: TokenTrace) -> Fact:
    """How it was chosen: by hand, by the number that was drawn, or greedily."""
    if token.inserted:
        return said(BY_ENGINE)
    if token.chosen:
        return said(BY_HAND)
    if token.uniform is None:
        return said(MOST_PROBABLE)
    return Fact(token.uniform, f"{token.uniform:.2f}")
