"""The facts of one drawn token that need no question: from its record, its reply, the loaded file.

    prompt → tokens → IDs → vectors → position → layers → logits → probabilities → choice → text

A token's logit is what its record says: log-probability + ln Σ e^logit over the vocabulary.
"""

from __future__ import annotations

from app.engine.protocol.loading_messages import Loaded
from app.engine.protocol.messages import TokenTrace
from app.insight.tour.facts import Fact, Facts
from app.insight.trace.message_tokens import n_taken_over
from app.insight.trace.tokens_shown import percent, visible
from models.records import Message

BY_HAND = "chosen by you"
MOST_PROBABLE = "the most probable"


def token_facts(message: Message, token: TokenTrace, at: int, loaded: Loaded | None) -> Facts:
    """`at`: the token's place in the reply's trace, from 0. `loaded`: the weights that wrote the
    reply; None where others are loaded."""
    found = {
        "token": Fact(piece := visible(token.piece), piece),
        "id": _count(token.token_id, grouped=False),
        "probability": Fact(token.logprob, f"{percent(token.logprob)}%"),
        "rank": _count(token.rank),
        "nth": _count(at + 1),
        "n_bytes": _count(len(token.piece)),
    }
    if token.log_total is not None:
        logit = token.logprob + token.log_total
        found["logit"] = Fact(logit, signed(logit))
    found["choice"] = _choice(token)
    n_prompt = message.counts.prompt_tokens
    if n_prompt is not None:
        found["n_prompt"] = _count(n_prompt)
        # Its vote came from the vector of the token before it; positions count from 0.
        found["position"] = _count(n_prompt - n_taken_over(message) + at - 1)
    if message.counts.generated is not None:
        found["n_reply"] = _count(message.counts.generated)
    if message.counts.context_used is not None:
        found["n_cells"] = _count(message.counts.context_used)
    if loaded is not None:
        found["n_embd"] = _count(loaded.n_embd)
        found["n_layer"] = _count(loaded.n_layer)
    return found


def _choice(token: TokenTrace) -> Fact:
    """How it was chosen: by hand, by the number that was drawn, or greedily."""
    if token.chosen:
        return Fact(BY_HAND, BY_HAND)
    if token.uniform is None:
        return Fact(MOST_PROBABLE, MOST_PROBABLE)
    return Fact(token.uniform, f"{token.uniform:.2f}")


def _count(number: int, *, grouped: bool = True) -> Fact:
    return Fact(number, f"{number:,}" if grouped else str(number))


def signed(number: float) -> str:
    """
    >>> signed(17.31), signed(-0.04)
    ('+17.3', '0.0')
    """
    shown = f"{number:+.1f}"
    return "0.0" if float(shown) == 0 else shown.replace("-", "−")
