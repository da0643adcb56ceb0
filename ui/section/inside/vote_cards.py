"""*Logits* and *Probabilities*: the vote for the next token, raw and as shares of one."""

from __future__ import annotations

import math
from typing import Final

from PySide6.QtCore import QRectF
from PySide6.QtGui import QColor, QPainter
from PySide6.QtWidgets import QWidget

from app.amounts import percent
from app.chat.inspection.inside import Seen
from app.insight.inside.votes import Vote, Votes
from app.insight.trace.tokens_shown import quoted
from ui.look.theme import Theme
from ui.section.card import small_label
from ui.section.inside.card import InsideCard
from ui.section.inside.rows import RIGHT, PaintedRows, elided
from ui.section.inside.view import InsideView
from ui.section.panel import Tools
from ui.widgets.figures import signed

LOGITS_HELP: Final = (
    "A logit is the product of the last vector with a token’s row of the output matrix: one raw "
    "score for every token of the vocabulary. Only differences matter for the draw, but the "
    "numbers here are the model’s own, not shifted."
)
PROBABILITIES_HELP: Final = (
    "Softmax turns logits into shares of 1: e^logit, divided by the sum of e^logit over the whole "
    "vocabulary. This is at temperature 1, before samplers."
)
_RANK_PX: Final = 30
_NAME_SHARE: Final = 0.34
_MOST_NAME_PX: Final = 160
_FIGURE_PX: Final = 54


class VoteRows(PaintedRows):
    """A row for each token; that which came next is the accent's."""

    def __init__(self, theme: Theme, name: str, view: InsideView, parent: QWidget) -> None:
        super().__init__(theme, name, parent)
        self._view = view
        self.votes: Votes | None = None

    def show_votes(self, found: Votes) -> None:
        self.votes = found
        self.set_rows(len(found.rows))
        self.setAccessibleName(
            "; ".join(f"{self._view.word(v.token_id)} {self.figure(v)}" for v in found.rows)
        )

    def share(self, vote: Vote) -> float:
        """How long its bar is, from 0 to 1."""
        raise NotImplementedError

    def figure(self, vote: Vote) -> str:
        raise NotImplementedError

    def paint_row(self, painter: QPainter, row: int, rect: QRectF) -> None:
        assert self.votes is not None
        vote, colors, px = self.votes.rows[row], self._theme.colors, self._theme.px
        is_next = vote.token_id == self._view.target
        painter.setPen(QColor(colors.dim))
        rank = QRectF(rect.left(), rect.top(), px(_RANK_PX) - px(6), rect.height())
        elided(painter, rank, f"{vote.rank:,}", RIGHT)
        width = min(rect.width() * _NAME_SHARE, px(_MOST_NAME_PX))
        name = QRectF(rank.right() + px(6), rect.top(), width, rect.height())
        painter.setPen(QColor(colors.accent if is_next else colors.ink))
        elided(painter, name, self._view.word(vote.token_id))
        room = QRectF(name.right() + px(6), rect.top(), 0, rect.height())
        room.setRight(rect.right() - px(_FIGURE_PX) - px(6))
        color = QColor(colors.accent)
        color.setAlphaF(1.0 if is_next else 0.45)
        self.paint_bar(painter, room, self.share(vote), color)
        painter.setPen(QColor(colors.ink))
        painter.drawText(rect, RIGHT, self.figure(vote))


class LogitRows(VoteRows):
    def share(self, vote: Vote) -> float:
        """Against the highest; what is below zero has none."""
        assert self.votes is not None
        return vote.logit / max(self.votes.rows[0].logit, 1e-9)

    def figure(self, vote: Vote) -> str:
        return signed(vote.logit)

    def words_of(self, row: int, x: float) -> str:
        assert self.votes is not None
        vote, best = self.votes.rows[row], self.votes.rows[0]
        word = quoted(self._view.word(vote.token_id))
        lines = [
            f"{word} · ID {vote.token_id} · rank {vote.rank:,}",
            f"logit {signed(vote.logit, '.4f')}",
        ]
        if vote is not best:
            lines.append(f"{best.logit - vote.logit:.4f} below the best")
        return "\n".join(lines)


class ProbabilityRows(VoteRows):
    def share(self, vote: Vote) -> float:
        return vote.probability

    def figure(self, vote: Vote) -> str:
        return percent(vote.probability)

    def words_of(self, row: int, x: float) -> str:
        assert self.votes is not None
        vote, total = self.votes.rows[row], self.votes.total
        word = quoted(self._view.word(vote.token_id))
        return (
            f"{word} · rank {vote.rank:,}\n"
            f"e^(logit − total) = e^({signed(vote.logit, '.3f')} − {signed(total, '.3f')})"
            f" = {vote.probability:.4%}"
        )


class _VoteCard(InsideCard):
    needs = ("logits",)
    kind: type[VoteRows]

    def __init__(self, tools: Tools, view: InsideView, parent: QWidget | None = None) -> None:
        super().__init__(tools, view, parent)
        self.table = self.kind(tools.theme, f"inside_{self.name}_rows", view, self.content)
        self.note = small_label("", self.content)
        self.rows.addWidget(self.table)
        self.rows.addWidget(self.note)
        self.told = [self.note]

    def show_figure(self, seen: Seen | None) -> None:
        found = self.view.votes
        if found is None:
            self.figure.set_text("")
            return
        vote = found.of(self.view.target) or found.rows[0]
        self.figure.set_text(f"{quoted(self.view.word(vote.token_id))} {self.table.figure(vote)}")

    def show_seen(self, seen: Seen) -> None:
        found = self.view.votes
        assert found is not None
        self.table.show_votes(found)
        words = self._note(found, len(seen.arrays["logits"]))
        self.note.setText(words)
        self.note.setVisible(bool(words))

    def _note(self, found: Votes, n_vocab: int) -> str:
        return ""


class LogitsCard(_VoteCard):
    title_words = "Logits"
    name = "logits"
    kind = LogitRows
    help_words = LOGITS_HELP

    def _note(self, found: Votes, n_vocab: int) -> str:
        return f"The highest of {n_vocab:,} raw scores."


class ProbabilitiesCard(_VoteCard):
    title_words = "Probabilities"
    name = "probabilities"
    kind = ProbabilityRows
    help_words = PROBABILITIES_HELP

    def _note(self, found: Votes, n_vocab: int) -> str:
        """What was recorded as the reply was written, beside what is computed now."""
        token, vote = self.view.drawn, found.of(self.view.target)
        if token is None or vote is None:
            return ""
        then = math.exp(min(token.logprob, 0.0))
        return f"Recorded while it was written: {then:.2%}. Replayed now: {vote.probability:.2%}."
