"""*Sampling* and *Token*: what the chain left of the vote, and what was drawn."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from PySide6.QtCore import QRectF, Qt, Signal
from PySide6.QtGui import QColor, QPainter
from PySide6.QtWidgets import QWidget

from app.amounts import percent
from app.chat.inspection.inside import Seen
from app.insight.sampling.waterfall import Step, waterfall
from app.insight.trace.tokens_shown import quoted
from ui.look.theme import Theme
from ui.section.card import small_label
from ui.section.inside.card import InsideCard
from ui.section.inside.rows import RIGHT, PaintedRows, elided
from ui.section.inside.view import InsideView
from ui.section.panel import Tools
from ui.widgets.kit import push_button

OF_PROMPT: Final = "This token is part of the prompt: it was given, not drawn."
BEHIND: Final = "Nothing was drawn here: the reply ends before it."
_STAGE_PX: Final = 96
_LEFT_PX: Final = 72
_FIGURE_PX: Final = 44
NO_STAGES: Final = "The stages weren't recorded for this token."


class StageRows(PaintedRows):
    """Before the samplers, and after each: how many tokens were left, and the drawn one's share."""

    def __init__(self, theme: Theme, name: str, parent: QWidget | None = None) -> None:
        super().__init__(theme, name, parent)
        self.word = ""
        self.cells: tuple[tuple[str, str, float], ...] = ()

    def show_steps(self, word: str, before: float, steps: Sequence[Step]) -> None:
        self.word = word
        first = ("before samplers", "", before)
        self.cells = (first, *((s.stage, f"{s.left:,} left", s.probability) for s in steps))
        self.set_rows(len(self.cells))
        self.setAccessibleName(
            "; ".join(f"{name} {left} {percent(share)}" for name, left, share in self.cells)
        )

    def paint_row(self, painter: QPainter, row: int, rect: QRectF) -> None:
        name, left, share = self.cells[row]
        colors, px = self._theme.colors, self._theme.px
        words = QRectF(rect.left(), rect.top(), px(_STAGE_PX), rect.height())
        count = QRectF(words.right(), rect.top(), px(_LEFT_PX), rect.height())
        room = QRectF(count.right() + px(8), rect.top(), 0, rect.height())
        room.setRight(rect.right() - px(_FIGURE_PX))
        painter.setPen(QColor(colors.ink))
        elided(painter, words, name)
        painter.drawText(rect, RIGHT, percent(share))
        painter.setPen(QColor(colors.dim))
        elided(painter, count, left, RIGHT)
        self.paint_bar(painter, room, share, QColor(colors.accent))

    def words_of(self, row: int, x: float) -> str:
        name, left, share = self.cells[row]
        return (
            f"{name}{': ' + left if left else ''}\nprobability of {quoted(self.word)}: {share:.3%}"
        )


class _DrawnCard(InsideCard):
    """About the token that came next, as its trace has it."""

    def _why_none(self) -> str:
        return BEHIND if self.view.target is None else OF_PROMPT


class SamplingCard(_DrawnCard):
    """`panel_wanted`: the panel where the chain stands in full."""

    title_words = "Sampling"
    name = "sampling"
    panel_wanted = Signal(str, str)

    def __init__(self, tools: Tools, view: InsideView, parent: QWidget | None = None) -> None:
        super().__init__(tools, view, parent)
        self.stages = StageRows(tools.theme, "inside_sampling_stages", self.content)
        self.note = small_label("", self.content)
        self.note.setObjectName("inside_sampling_note")
        self.link = push_button("Open the Sampling panel", self.content, "inside_sampling_link")
        self.link.setAutoDefault(False)
        tools.theme.font(self.link, Theme.font_small)
        self.rows.addWidget(self.stages)
        self.rows.addWidget(self.note)
        self.told = [self.note]
        self.rows.addWidget(self.link, 0, Qt.AlignmentFlag.AlignLeft)
        self.link.clicked.connect(lambda _=False: self.panel_wanted.emit("Sampling", "Chain"))

    def show_figure(self, seen: Seen | None) -> None:
        token = self.view.drawn
        if token is None or not token.stages:
            self.figure.set_text("")
        else:
            n_left = token.stages[-1].left
            self.figure.set_text(f"{n_left:,} left at the draw")

    def show_seen(self, seen: Seen) -> None:
        token = self.view.drawn
        self.link.setVisible(token is not None)
        steps: Sequence[Step] = ()
        if token is not None:
            steps = waterfall(token, len(seen.arrays.get("logits", ())) or None).steps
            before = math.exp(min(token.logprob, 0.0))
            self.stages.show_steps(self.view.piece(self.view.place + 1), before, steps)  # type: ignore[operator]
        self.stages.setVisible(bool(steps))
        note = self._why_none() if token is None else "" if steps else NO_STAGES
        self.note.setText(note)
        self.note.setVisible(bool(note))


class TokenCard(_DrawnCard):
    title_words = "Token"
    name = "token"
    is_open_at_first = True

    def __init__(self, tools: Tools, view: InsideView, parent: QWidget | None = None) -> None:
        super().__init__(tools, view, parent)
        self.words = small_label("", self.content)
        self.words.setObjectName("inside_token_words")
        self.rows.addWidget(self.words)
        self.told = [self.words]

    def show_figure(self, seen: Seen | None) -> None:
        view = self.view
        if view.place is None or view.target is None:
            self.figure.set_text("")
        else:
            self.figure.set_text(quoted(view.piece(view.place + 1)))

    def show_seen(self, seen: Seen) -> None:
        token = self.view.drawn
        if token is None:
            self.words.setText(self._why_none())
            return
        parts = [f"ID {token.token_id}", f"rank {token.rank:,} before samplers"]
        if token.chosen:
            parts.append("chosen by you")
        elif token.uniform is not None:
            parts.append(f"drawn with the random number {token.uniform:.4f}")
        self.words.setText(" · ".join(parts))
