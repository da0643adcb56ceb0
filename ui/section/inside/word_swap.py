"""Two words of the text change places, and the token is voted for again: what order is worth."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np
from PySide6.QtCore import QRectF
from PySide6.QtGui import QColor, QPainter, QResizeEvent
from PySide6.QtWidgets import QHBoxLayout, QVBoxLayout, QWidget

from app.chat.inspection.inside import ReadText, Seen
from app.insight.inside.votes import Votes, votes
from app.insight.inside.waves import exchanged, last_words
from app.insight.trace.tokens_shown import visible
from ui.look.theme import Theme
from ui.look.tints import tint_colors
from ui.section.card import small_label
from ui.section.inside.attention_card import TextSoFar
from ui.section.inside.rows import RIGHT, PaintedRows, elided
from ui.section.inside.view import InsideView
from ui.section.inside.words import percent, quoted
from ui.section.panel import Tools
from ui.section.prompt.text import Look, PromptText
from ui.widgets.kit import push_button, rest_timer

SHOWN: Final = 5
TEXT_PX: Final = 88
LOOKED_THROUGH: Final = 200
"""So many tokens back two words are sought."""
NO_WORDS: Final = "Click two tokens in the text, then swap them."
SAME: Final = "Both are the same token, so swapping them changes nothing."
READING: Final = "Reading the swapped text… {share:.0%}"
_FIGURE_PX: Final = 44
_GAP_PX: Final = 14


class SwapRows(PaintedRows):
    """The best of both votes side by side, below a heading."""

    def __init__(self, theme: Theme, view: InsideView, parent: QWidget | None = None) -> None:
        super().__init__(theme, "inside_swap_rows", parent)
        self._view = view
        self.before: Votes | None = None
        self.after: Votes | None = None

    def show_votes(self, before: Votes | None, after: Votes | None) -> None:
        self.before, self.after = before, after
        self.set_rows(0 if before is None else SHOWN + 1)
        self.setAccessibleName(
            "; ".join(
                f"{name}: {', '.join(self._figure(found, at) for at in range(SHOWN))}"
                for name, found in (("Before", before), ("Swapped", after))
                if found is not None
            )
        )

    def _figure(self, found: Votes, at: int) -> str:
        if at >= len(found.rows):
            return ""
        vote = found.rows[at]
        return f"{self._view.word(vote.token_id)} {percent(vote.probability)}"

    def paint_row(self, painter: QPainter, row: int, rect: QRectF) -> None:
        half = (rect.width() - self._theme.px(_GAP_PX)) / 2
        left = QRectF(rect.left(), rect.top(), half, rect.height())
        right = QRectF(rect.right() - half, rect.top(), half, rect.height())
        for room, name, found in ((left, "Before", self.before), (right, "Swapped", self.after)):
            if row == 0:
                painter.setPen(QColor(self._theme.colors.dim))
                painter.drawText(room, name)
            elif found is not None and row <= len(found.rows):
                self._paint_vote(painter, room, found, row - 1)

    def _paint_vote(self, painter: QPainter, room: QRectF, found: Votes, at: int) -> None:
        colors, px = self._theme.colors, self._theme.px
        vote = found.rows[at]
        is_next = vote.token_id == self._view.target
        bar = room.adjusted(0, 1, 0, -1)
        bar.setWidth(bar.width() * min(vote.probability, 1.0))
        painter.fillRect(bar, QColor(colors.accent_tone))
        painter.setPen(QColor(colors.accent if is_next else colors.ink))
        elided(painter, room.adjusted(px(4), 0, -px(_FIGURE_PX), 0), self._view.word(vote.token_id))
        painter.drawText(room.adjusted(0, 0, -px(3), 0), RIGHT, percent(vote.probability))

    def words_of(self, row: int, x: float) -> str:
        found = self.before if x < self.width() / 2 else self.after
        if found is None or not 0 < row <= len(found.rows):
            return ""
        vote = found.rows[row - 1]
        return f"{quoted(self._view.word(vote.token_id))} · {vote.probability:.4%}"


class WordSwap(QWidget):
    """`refresh` when another token is looked at, or more of it is known."""

    def __init__(self, tools: Tools, view: InsideView, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._tools = tools
        self._view = view
        self._shown: tuple[ReadText, int] | None = None
        self._asked: object = None
        self._found: tuple[object, Seen] | None = None
        self.is_chosen = False
        self.pair: tuple[int, int] | None = None
        self.hint = small_label(NO_WORDS, self)
        self.text = PromptText(tools.theme, self)
        self.text.setObjectName("inside_swap_text")
        self.text.setAccessibleName("The text; click the tokens to swap")
        self.button = push_button("Swap", self, "inside_swap_button")
        self.table = SwapRows(tools.theme, view, self)
        self.words = small_label("", self)
        self.words.setObjectName("inside_swap_words")
        self._fit_soon = rest_timer(self, self._fit_text)
        self._lay_out()
        self.text.chosen.connect(self._on_token)
        self.button.clicked.connect(lambda _=False: self._on_button())
        view.progress_changed.connect(self._on_view_asks)

    def _lay_out(self) -> None:
        theme = self._tools.theme
        self.button.setAutoDefault(False)
        theme.font(self.button, Theme.font_small)
        head = QHBoxLayout()
        head.addWidget(self.hint, 1)
        head.addWidget(self.button)
        theme.space(head, 6)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.addWidget(self.text)
        column.addLayout(head)
        column.addWidget(self.table)
        column.addWidget(self.words)
        theme.space(column, 4)

    # --- which words ----------------------------------------------------------------------------

    def refresh(self) -> None:
        text, place = self._view.text, self._view.place
        if text is None or place is None:
            return
        if self._shown != (text, place):
            if self._shown is None or self._shown[0] is not text:
                self.is_chosen, self.pair = False, None
            self._shown = (text, place)
            if not self.is_chosen or (self.pair is not None and max(self.pair) > place):
                self.is_chosen, self.pair = False, self._last_words(text, place)
            self.text.show_tokens(TextSoFar(text, place, 0), Look())
            self._fit_text()
        self._show()

    def _fit_text(self) -> None:
        """As high as its lines, up to a limit; before it is laid out that is not known."""
        if self._shown is None:
            return
        px = self._tools.theme.px
        wanted = min(max(self.text.whole_height, px(36)), px(TEXT_PX))
        if wanted != self.text.height():
            self.text.setFixedHeight(wanted)
        self.text.scroll_to(self._shown[1] if self.pair is None else min(self.pair))

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fit_soon.start()

    def _last_words(self, text: ReadText, place: int) -> tuple[int, int] | None:
        first = max(place + 1 - LOOKED_THROUGH, 0)
        pieces = [piece.decode(errors="replace") for piece in text.pieces(first, place + 1)]
        found = last_words(text.ids[first : place + 1], pieces)
        return None if found is None else (found[0] + first, found[1] + first)

    def _on_token(self, token: int) -> None:
        """It takes the place of the nearer one."""
        if token < 0 or self._shown is None or (self.pair is not None and token in self.pair):
            return
        if self.pair is None:
            self.pair = (token, token)
        else:
            nearer = min(self.pair, key=lambda place: abs(place - token))
            other = self.pair[1] if nearer == self.pair[0] else self.pair[0]
            self.pair = (min(token, other), max(token, other))
        self.is_chosen = True
        self._stop()
        self._show()

    @property
    def _key(self) -> object:
        """What a swap is about."""
        if self._shown is None or self.pair is None:
            return None
        text, place = self._shown
        return (text.message_id, text.ids.tobytes(), place, self.pair)

    # --- asking ---------------------------------------------------------------------------------

    def _on_button(self) -> None:
        if self._asked is not None:
            self._stop()
            self._show()
            return
        if self._shown is None or self.pair is None or self._view.is_waiting:
            return
        text, place = self._shown
        key = self._asked = self._key
        other = replace(text, ids=exchanged(text.ids, *self.pair))
        self._show()
        self._tools.desk.inside.look(
            other,
            place,
            ("logits",),
            lambda seen: self._take(key, seen),
            self._fail,
            lambda done, total: self.words.setText(READING.format(share=done / max(total, 1))),
            still=lambda: key == self._asked,
        )

    def _stop(self) -> None:
        if self._asked is not None:
            self._asked = None
            if not self._view.is_waiting:  # what the view asks has ended it already
                self._tools.desk.inside.stop()

    def _take(self, key: object, seen: Seen) -> None:
        self._found = (key, seen)
        if seen.is_whole:
            self._asked = None
        self._show()

    def _fail(self, sentence: str) -> None:
        self._asked = None
        self._show()
        self.words.setText(sentence)

    def _on_view_asks(self) -> None:
        """One question at a time: the view's own ends this one."""
        if self._view.is_waiting:
            self._asked = None
        if self._shown is not None and self.isVisible():
            self._show()

    # --- what is shown --------------------------------------------------------------------------

    def _show(self) -> None:
        pair, shown = self.pair, self._shown
        tint = tint_colors(self._tools.theme.colors)[-1]
        self.text.set_look(Look(lambda token: tint if pair and token in pair else None))
        is_two = pair is not None and pair[0] != pair[1] and shown is not None
        is_same = is_two and shown is not None and shown[0].ids[pair[0]] == shown[0].ids[pair[1]]  # type: ignore[index]
        self.hint.setText(SAME if is_same else self._pair_words() if is_two else NO_WORDS)
        self.button.setText("Cancel" if self._asked is not None else "Swap")
        can_ask = is_two and not is_same and not self._view.is_waiting
        self.button.setEnabled(self._asked is not None or can_ask)
        after = self._after()
        self.table.show_votes(None if after is None else self._view.votes, after)
        self.table.setVisible(after is not None)
        if self._asked is None:
            self.words.setText(self._change(after))
        self.words.setVisible(bool(self.words.text()) or self._asked is not None)

    def _pair_words(self) -> str:
        assert self.pair is not None
        assert self._shown is not None
        one, other = (quoted(visible(self._shown[0].piece(place))) for place in self.pair)
        return f"{one} and {other}. Click another token to choose it instead."

    def _after(self) -> Votes | None:
        """The vote behind the swapped text; None while it is not here."""
        if self._found is None or self._found[0] != self._key:
            return None
        logits = self._found[1].arrays.get("logits")
        if logits is None:
            return None
        return votes(np.asarray(logits, np.float32), SHOWN, self._view.target)

    def _change(self, after: Votes | None) -> str:
        """Of the token that came next; else of the best one."""
        before = self._view.votes
        if after is None or before is None:
            found = self._found
            is_here = found is not None and found[0] == self._key
            return found[1].missing.get("logits", "") if found is not None and is_here else ""
        vote = before.of(self._view.target) or before.rows[0]
        now = after.of(vote.token_id)
        if now is None:
            return ""
        return (
            f"{quoted(self._view.word(vote.token_id))}: {percent(vote.probability)} → "
            f"{percent(now.probability)}, rank {vote.rank:,} → {now.rank:,}. "
            "Same tokens, other positions."
        )
