"""What a server can, in words. Pure; no Qt."""

from __future__ import annotations

from typing import Final

from app.chat.engines.engines import Standing
from app.engine.protocol.remote_messages import Ability, EngineOffer, model_name
from app.engine.protocol.stage_rules import in_words
from ui.widgets.figures import cut_short

MOST_MODELS: Final = 50
MOST_WORDS: Final = 60
"""Characters of a model's name: a line that can't be broken would be cut off."""
SHOWN: Final[dict[Ability, str]] = {
    "continue": "continuing a reply",
    "text": "plain text",
    "thinking": "thinking on or off",
    "tools": "tools",
    "images": "pictures",
    "audio": "sounds",
    "grammar": "grammars",
    "json_schema": "JSON schemas",
    "seed": "seeds",
    "logprobs": "token probabilities",
    "token_ids": "token IDs",
    "tokenize": "tokenising text",
    "rendered_prompt": "the rendered prompt",
    "prompt_logprobs": "prompt probabilities",
    "cached_tokens": "cached tokens",
    "timings": "timings",
}
"""What is told of each server. What only this program's own engine has is left out: no server has
it, and the panels say so where it is looked for."""


def model_lines(offer: EngineOffer) -> list[str]:
    """Its models, the first of them where they are many."""
    names = [f"• {cut_short(model_name(each.id), MOST_WORDS)}" for each in offer.models]
    n_more = len(names) - MOST_MODELS
    more = [f"… and {n_more:,} more"] if n_more > 0 else []
    return ["Models:", *names[:MOST_MODELS], *more] if names else []


def can_words(offer: EngineOffer) -> str:
    """What is there, in one line."""
    there = [words for ability, words in SHOWN.items() if _is_told(offer, ability)]
    return f"Offers {_listed(there)}." if there else ""


def _is_told(offer: EngineOffer, ability: Ability) -> bool:
    """Pictures and sounds are a model's: of most nobody says whether it takes them."""
    if ability == "images":
        return offer.can(ability) and any(each.has_images for each in offer.models)
    if ability == "audio":
        return offer.can(ability) and any(each.has_audio for each in offer.models)
    return offer.can(ability)


def cannot_lines(offer: EngineOffer) -> list[str]:
    """What is not there, each with the reason."""
    return [
        f"{words[:1].upper()}{words[1:]}: {offer.why_not(ability)}"
        for ability, words in SHOWN.items()
        if not offer.can(ability)
    ] + [f"Sampling, {in_words(lack.name)}: {lack.sentence}" for lack in offer.stages]


def state_words(standing: Standing) -> str:
    """How it stands, in a few words."""
    if standing.is_asking:
        return "Connecting…"
    if standing.sentence:
        return "Can't be reached"
    offer = standing.offer
    if offer is None:
        return "Not tried yet"
    version = f" {offer.version}" if offer.version else ""
    count = len(offer.models)
    return f"{offer.kind_name}{version} · {count:,} model{'' if count == 1 else 's'}"


def key_words(standing: Standing) -> str:
    return {
        "none": "No key",
        "keyring": "Key saved in the keyring",
        "this run": "Key kept until Cutaway closes",
    }[standing.key]


def _listed(words: list[str]) -> str:
    """
    >>> _listed(["a"]), _listed(["a", "b", "c"])
    ('a', 'a, b and c')
    """
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
