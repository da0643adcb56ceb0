"""Pictures of the choice: scores and probabilities, what each stage left, and the draw."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

from app.amounts import percent
from app.engine.protocol.messages import TokenTrace
from app.insight.inside.votes import votes
from app.insight.sampling.stage_evidence import DrawEvidence, Evidence, evidence
from app.insight.sampling.waterfall import waterfall
from app.insight.tour.page.markup import Markup, Row, bars, figure, lacking, picture, rect, words
from app.insight.tour.page.material import Material, short
from app.insight.trace.tokens_shown import quoted, rank_text, visible

N_BEST: Final = 10
OF_PROMPT: Final = "This token is part of the prompt: it was given, not drawn."
NONE: Final = "–"
FELL: Final = (
    "Side by side, {word} reaches from {start:.4f} to {end:.4f}. The number {at:.4f} fell on it."
)
_WIDE: Final = 1_000


def vote_rows(material: Material) -> Markup:
    """The ten best by score, and the token that came next: as the network computes it now, else as
    it was recorded."""
    logits = material.arrays.get("logits")
    token = material.token
    if token is not None and token.alternative_pieces:
        return _told_rows(token)
    if logits is not None:
        found = votes(logits, N_BEST, material.target).rows
        told = [(v.token_id, f"{v.rank:,}", f"{v.logit:+.2f}", v.probability) for v in found]
    elif token is not None:
        best = waterfall(token, material.n_vocab).candidates[:N_BEST]
        told = [
            (each.token_id, f"{at:,}", _logit(each.probability, token.log_total), each.probability)
            for at, each in enumerate(best, 1)
        ]
        if token.token_id not in [each.token_id for each in best]:
            own = math.exp(min(token.logprob, 0.0))
            told.append((token.token_id, rank_text(token.rank), _logit(own, token.log_total), own))
    else:
        return lacking(material.why("logits"))
    rows = [
        Row(
            words(material.said(token_id)),
            share,
            (rank, logit.replace("-", "−"), percent(share)),
            is_marked=token_id == material.target,
        )
        for token_id, rank, logit, share in told
    ]
    return figure(
        "Scores and probabilities before sampling",
        bars(("Token", "", "Rank", "Logit", "Probability"), rows),
        note=f"At temperature 1. {quoted(material.piece(material.at))} is marked.",
    )


def _logit(share: float, log_total: float | None) -> str:
    if log_total is None or share <= 0:
        return NONE
    return f"{math.log(share) + log_total:+.2f}"


def stage_rows(material: Material) -> Markup:
    """What each stage of the chain left."""

    def drawn(found: Evidence) -> Markup:
        token = material.token
        assert token is not None
        before = math.exp(min(token.logprob, 0.0))
        rows = [Row("before sampling", before, (NONE, percent(before)))]
        rows += [
            Row(effect.stage, effect.probability, (f"{effect.left:,}", percent(effect.probability)))
            for effect in token.stages
        ]
        own = quoted(material.piece(material.at))
        return figure(
            "What sampling left",
            bars(("After", "", "Tokens left", f"Share of {own}"), rows),
        )

    return _of_stages(material, drawn)


def draw_strip(material: Material) -> Markup:
    """What was left, side by side, with the number that was drawn."""

    def drawn(found: Evidence) -> Markup:
        draw, last = found.draw, found.stages[-1]
        before = _recorded(material)
        kept = [each for at, each in enumerate(last.kept) if at < N_BEST or each.is_drawn]
        shown = [
            Row(
                words(material.said(each.token_id)),
                each.share,
                (_share(before.get(each.token_id)), _share(each.share)),
                is_marked=each.is_drawn,
            )
            for each in kept
        ]
        table = bars(("Token", "", "Before sampling", "At the draw"), shown)
        n_left_out = last.left - len(shown)
        note = f"{n_left_out:,} more are left out of this table." if n_left_out > 0 else ""
        if draw is None or draw.uniform is None or not draw.parts:
            reason = last.reason if draw is None else draw.reason
            return figure("The draw", table, lacking(reason), note=note)
        own = next(part for part in draw.parts if part.is_drawn)
        fell = FELL.format(
            word=quoted(material.said(own.token_id)), start=own.start, end=own.end, at=draw.uniform
        )
        return figure("The draw", _strip(draw), table, note=f"{fell} {note}".rstrip())

    return _of_stages(material, drawn)


def _strip(draw: DrawEvidence) -> Markup:
    """All that was left, as wide as each one's share."""
    assert draw.uniform is not None
    parts = [
        rect(
            part.start * _WIDE,
            0,
            (part.end - part.start) * _WIDE,
            10,
            "now" if part.is_drawn else ("part", "part other")[at % 2],
        )
        for at, part in enumerate(draw.parts)
    ]
    mark = rect(draw.uniform * _WIDE - 1, 0, 2, 12, "mark")
    shows = f"{len(parts):,} tokens side by side, with a mark at {draw.uniform:.4f}"
    return picture(_WIDE, 12, shows, *parts, mark, rem=2.2)


def _told_rows(token: TokenTrace) -> Markup:
    """The candidates as a server told them: by their bytes, and without logits."""
    rows = [
        Row(
            words(short(visible(each.piece or b""))),
            each.probability,
            (f"{at:,}", NONE, percent(each.probability)),
            is_marked=each.is_drawn,
        )
        for at, each in enumerate(waterfall(token, None).candidates[:N_BEST], 1)
    ]
    return figure(
        "Scores and probabilities",
        bars(("Token", "", "Rank", "Logit", "Probability"), rows),
        note="As the server told them. The token that came next is marked.",
    )


def _recorded(material: Material) -> dict[int, float]:
    """Probabilities before sampling, of the candidates that were recorded."""
    token = material.token
    if token is None:
        return {}
    found = {each.token_id: each.probability for each in waterfall(token, None).candidates}
    return {**found, token.token_id: math.exp(min(token.logprob, 0.0))}


def _share(share: float | None) -> str:
    return NONE if share is None else percent(share)


def _of_stages(material: Material, drawn: Callable[[Evidence], Markup]) -> Markup:
    if material.token is None:
        return lacking(OF_PROMPT if material.at < material.n_prompt else material.why("token"))
    found = evidence(material.token, material.stages, material.n_vocab)
    return lacking(found.sentence) if found.sentence else drawn(found)
