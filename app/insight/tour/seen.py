"""The facts of what was seen inside at one place of the text: attention, layers, scores, vectors.

Arrays are those of `inside_messages.AXES`: attention [n_layer, n_head, n_tok], k_after [n_layer,
n_kv_head, d_head], lens_ids [n_layer, n_lens]; a layer without attention is NaN. What must hold: no
array is copied but for heads that are NaN, since they may be megabytes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from app.engine.protocol.cut_messages import Cut
from app.insight.inside.attention import HardLook, hardest_look
from app.insight.inside.cuts import cut_words
from app.insight.inside.embedding import Neighbour, outcome
from app.insight.inside.votes import Votes, lens_of
from app.insight.inside.wrote import MOST_ROWS, Written
from app.insight.tour.facts import Fact, Facts, count, said, share, signed, times
from app.insight.tour.token import probability

Arrays = Mapping[str, Any]
Word = Callable[[int], str | None]
"""What a token ID stands for, with nothing invisible; None while the vocabulary isn't read."""
Piece = Callable[[int], str]
"""The token at a place of the text."""

NEEDED: Final = ("attention", "k_after", "lens", "logits")
"""The arrays that facts are made from."""

_MOST_LEAD: Final = 700.0
"""e to the power of more is no number."""


# --- attention ----------------------------------------------------------------------------------


def attention_facts(arrays: Arrays, missing: Mapping[str, str], piece: Piece) -> Facts:
    """Of all heads at once. The first token of a text can look nowhere else.

    mean(t) = Σ over heads a[layer, head, t] ÷ heads     sink_share = mean(0)
    looked_at = argmax over t > 0 of mean(t)             look_head = that of max a[layer, head, t>0]
    """
    attention = arrays.get("attention")
    if attention is None:
        sentence = missing.get("attention", "")
        return {"no_attention": said(sentence)} if sentence else {}
    has_attention = ~np.isnan(attention[:, :, 0])
    n_head = attention.shape[1]
    found = {
        "n_head": count(n_head),
        "n_heads": count(n_head * int(has_attention.any(axis=1).sum())),
    }
    keys = arrays.get("k_after")
    if keys is not None and keys.shape[1] < n_head:
        found["n_kv_head"] = count(keys.shape[1], "sets")
    n_tok = attention.shape[2]
    if n_tok < 2 or not has_attention.any():
        return found
    rows = attention.reshape(-1, n_tok)
    if not has_attention.all():
        rows = attention[has_attention]
    mean = rows.mean(axis=0, dtype=np.float64)
    found["sink_share"] = share(float(mean[0]))
    at = 1 + int(mean[1:].argmax())
    if mean[at] > 0:
        found["looked_at"] = said(piece(at))
    look = _hardest(attention)
    if look is not None:
        layer, hard = look
        found["look_head"] = said(cut_words(Cut("head", layer, hard.head)))
        found["look_token"] = said(piece(hard.token))
        found["look_share"] = share(hard.weight)
    return found


def _hardest(attention: Any) -> tuple[int, HardLook] | None:
    """The layer whose hardest look is the hardest, the first of equals."""
    looks = [(layer, look) for layer, rows in enumerate(attention) if (look := hardest_look(rows))]
    return max(looks, key=lambda each: each[1].weight, default=None)


def head_facts(arrays: Arrays, layer: int | None, head: int | None, piece: Piece) -> Facts:
    """Of the head that is chosen: argmax over all t of a[layer, head, t]."""
    attention = arrays.get("attention")
    if attention is None or layer is None or head is None:
        return {}
    if not (layer < attention.shape[0] and head < attention.shape[1]):
        return {}
    row = attention[layer, head]
    if np.isnan(row[0]):
        return {}
    at = int(row.argmax())
    words = cut_words(Cut("head", layer, head))
    return {
        "chosen_head": said(words[:1].upper() + words[1:]),
        "chosen_token": said(piece(at)),
        "chosen_share": share(float(row[at])),
    }


# --- layers -------------------------------------------------------------------------------------


def layer_facts(arrays: Arrays, layer: int | None, n_layer: int, word: Word) -> Facts:
    """What the lens reads: where the token that came next leads, and what the chosen layer says."""
    found = dict[str, Fact]()
    if layer is not None and layer < n_layer:
        found["chosen_layer"] = count(layer)
    lens = lens_of(arrays)
    if lens is None:
        return found
    if lens.ranks is not None and len(lens):
        if lens.leads_from is not None:
            found["lead_layer"] = count(lens.leads_from)
        else:
            found["end_rank"] = count(int(lens.ranks[-1]))
            leading = np.flatnonzero(np.asarray(lens.ranks) == 1)
            if len(leading):
                found["first_lead"] = count(int(leading[0]))
    if layer is not None and layer < len(lens):
        best = word(int(lens.ids[layer, 0]))
        if best is not None:
            found["layer_best"] = said(best)
        if lens.ranks is not None:
            found["layer_rank"] = count(int(lens.ranks[layer]))
    return found


def written_facts(written: Written, word: Word) -> Facts:
    """The head that did most for the token, among what is listed."""
    found = dict[str, Fact]()
    other = word(written.other)
    if other is not None:
        found["other"] = said(other)
    for each in written.contributions[:MOST_ROWS]:
        if each.cut is not None and each.cut.kind == "head" and each.value > 0:
            found["top_head"] = said(cut_words(each.cut))
            found["top_head_logits"] = signed(each.value, 2)
            break
    return found


# --- scores -------------------------------------------------------------------------------------


def vote_facts(votes: Votes, target: int | None, word: Word) -> Facts:
    """Of the vote: `target` is the token that came next.

    lead = logit(best) − logit(second)        odds = p(best) ÷ p(second) = e^lead
    """
    found = dict[str, Fact]()
    own = votes.of(target)
    if own is not None:
        found["logit"] = signed(own.logit)
        found["probability"] = probability(own.logprob)
        found["rank"] = count(own.rank)
    first_two = sorted(votes.rows, key=lambda vote: vote.rank)[:2]
    for name, vote in zip(("best", "second"), first_two, strict=False):
        said_word = word(vote.token_id)
        if said_word is not None:
            found[name] = said(said_word)
    if len(first_two) == 2:
        lead = first_two[0].logit - first_two[1].logit
        if math.isfinite(lead):
            found["lead"] = Fact(lead, f"{lead:.2f}")
            if lead < _MOST_LEAD:
                found["odds"] = times(math.exp(lead))
    return found


# --- vectors ------------------------------------------------------------------------------------


def nearest_facts(neighbours: Sequence[Neighbour], word: Word) -> Facts:
    """The first that is neither the token itself nor another spelling of it."""
    best = outcome(neighbours)
    nearest = None if best is None else word(best.token_ids[0])
    return {} if nearest is None else {"nearest": said(nearest)}
