"""Two words of the text change places, and the token is voted for again: what order is worth."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
from PySide6.QtCore import QRectF, Signal
from PySide6.QtGui import QColor, QPainter, QResizeEvent
from PySide6.QtWidgets import QHBoxLayout, QVBoxLayout, QWidget

from app.amounts import percent
from app.chat.inspection.inside import ReadText
from app.insight.inside.word_spans import MOST_TOKENS, Span, last_words, words_of
from app.insight.trace.tokens_shown import quoted, visible
from ui.look.theme import Theme
from ui.look.tints import tint_colors
from ui.section.card import small_label
from ui.section.inside.rows import RIGHT, PaintedRows, elided
from ui.section.inside.view import InsideView, TextSoFar
from ui.section.panel import Tools
from ui.section.prompt.text import Look, PromptText
from ui.widgets.kit import push_button, rest_timer

if TYPE_CHECKING:
    from app.insight.inside.exchange import Exchanged

SHOWN: Final = 5
TEXT_PX: Final = 88
LOOKED_THROUGH: Final = 200
"""So many tokens of a message, from its end, two words are sought in."""
NO_WORDS: Final = "Click two words in the text."
STAYS: Final = "The last word casts the vote, so it stays where it is."
READING: Final = "Reading both texts… {share:.0%}"
OUTSIDE: Final = "{word} isn’t among the top tokens of either."
APART: Final = "Same tokens in other positions: the votes differ by {bits:.2f} bits (KL)."
_FIGURE_PX: Final = 44
_GAP_PX: Final = 14

Pair = tuple[Span, Span]


class SwapRows(PaintedRows):
    """The best of both votes side by side, below a heading. A column: (token, probability)."""

    def __init__(self, theme: Theme, view: InsideView, parent: QWidget | None = None) -> None:
        super().__init__(theme, "inside_swap_rows", parent)
        self._view = view
        self.columns: dict[str, list[tuple[int, float]]] = {}

    def show_votes(self, found: Exchanged | None) -> None:
        self.columns = {}
        if found is not None:
            for name, shares in (("Before", found.before), ("Swapped", found.after)):
                order = np.argsort(-shares, kind="stable")[:SHOWN]
                self.columns[name] = [(int(found.token_ids[i]), float(shares[i])) for i in order]
        self.set_rows(SHOWN + 1 if self.columns else 0)
        self.setAccessibleName("; ".join(map(self._column_words, self.columns)))

    def _column_words(self, name: str) -> str:
        rows = (f"{self._view.word(i)} {percent(share)}" for i, share in self.columns[name])
        return f"{name}: {', '.join(rows)}"

    def paint_row(self, painter: QPainter, row: int, rect: QRectF) -> None:
        colors, px = self._theme.colors, self._theme.px
        width = (rect.width() - px(_GAP_PX)) / 2
        for at, (name, votes) in enumerate(self.columns.items()):
            room = QRectF(
                rect.left() + at * (width + px(_GAP_PX)), rect.top(), width, rect.height()
            )
            if row == 0:
                painter.setPen(QColor(colors.dim))
                painter.drawText(room, name)
            elif row <= len(votes):
                token_id, share = votes[row - 1]
                bar = room.adjusted(0, 1, 0, -1)
                bar.setWidth(bar.width() * min(share, 1.0))
                painter.fillRect(bar, QColor(colors.accent_tone))
                is_next = token_id == self._view.target
                painter.setPen(QColor(colors.accent if is_next else colors.ink))
                name_room = room.adjusted(px(4), 0, -px(_FIGURE_PX), 0)
                elided(painter, name_room, self._view.word(token_id))
                painter.drawText(room.adjusted(0, 0, -px(3), 0), RIGHT, percent(share))

    def words_of(self, row: int, x: float) -> str:
        votes = list(self.columns.values())[0 if x < self.width() / 2 else 1]
        if not 0 < row <= len(votes):
            return ""
        token_id, share = votes[row - 1]
        return f"{quoted(self._view.word(token_id))} · {share:.4%}"


class WordSwap(QWidget):
    """`refresh` when another token is looked at. `answered`: both votes are shown."""

    answered = Signal()

    def __init__(self, tools: Tools, view: InsideView, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._tools = tools
        self._view = view
        self._shown: tuple[ReadText, int] | None = None
        self._asked: object = None
        self._found: tuple[object, Exchanged] | None = None
        self._is_chosen = False
        self.pair: Pair | None = None
        self.text = PromptText(tools.theme, self)
        self.text.setObjectName("inside_swap_text")
        self.text.setAccessibleName("The text; click the words to swap")
        self.hint = small_label(NO_WORDS, self)
        self.hint.setObjectName("inside_swap_hint")
        self.button = push_button("Swap", self, "inside_swap_button")
        self.table = SwapRows(tools.theme, view, self)
        self.words = small_label("", self)
        self.words.setObjectName("inside_swap_words")
        self._fit_soon = rest_timer(self, self._fit_text)
        self._lay_out()
        self.text.chosen.connect(self._on_token)
        self.button.clicked.connect(lambda _=False: self._on_button())
        tools.theme.changed.connect(self._show)

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
        if text is None or place is None or self._shown == (text, place):
            return
        if self._shown is None or self._shown[0].ids != text.ids:
            self._is_chosen = False
        self._stop()
        self._shown = (text, place)
        if not self._is_chosen or self.pair is None or self.pair[1][1] > place:
            self._is_chosen, self.pair = False, self._last_words(text, place)
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
        self.text.scroll_to(self._shown[1] if self.pair is None else self.pair[0][0])

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fit_soon.start()

    def _last_words(self, text: ReadText, place: int) -> Pair | None:
        """Two words of one message, of the last that has two; never of the template."""
        parts = [(part.start, part.end) for part in text.prompt.parts if part.origin != "scaffold"]
        for start, end in reversed([*parts, (text.n_prompt, len(text))]):
            end = min(end, place + 1)
            start = max(start, end - LOOKED_THROUGH)
            found = last_words(_decoded(text, start, end)) if start < end else None
            if found is not None:
                (a, b), (c, d) = found
                return (a + start, b + start), (c + start, d + start)
        return None

    def _on_token(self, token: int) -> None:
        """Its word takes the place of the nearer one."""
        if token < 0 or self._shown is None:
            return
        text, place = self._shown
        start = max(token - MOST_TOKENS, 0)
        spans = words_of(_decoded(text, start, min(token + MOST_TOKENS + 1, place + 1)))
        span = next((a + start, b + start) for a, b in spans if a + start <= token < b + start)
        if self.pair is not None and span in self.pair:
            return
        if span[1] > place:
            self._stop()
            self._show()
            self.hint.setText(STAYS)
            return
        if self.pair is None:
            self.pair = (span, span)
        else:
            apart = [abs(each[0] - token) for each in self.pair]
            other = self.pair[1] if apart[0] <= apart[1] else self.pair[0]
            self.pair = (min(span, other), max(span, other))
        self._is_chosen = True
        self._stop()
        self._show()

    # --- asking ---------------------------------------------------------------------------------

    @property
    def _key(self) -> object:
        """What a swap is about."""
        if self._shown is None or self.pair is None:
            return None
        text, place = self._shown
        loaded = self._tools.desk.loader.loaded
        return (text.ids[: place + 1].tobytes(), id(loaded), self.pair)

    def _on_button(self) -> None:
        if self._asked is not None:
            self._stop()
            self._show()
            return
        if self._shown is None or self.pair is None:
            return
        text, place = self._shown
        key = self._asked = self._key
        self._show()
        self._tools.desk.word_order.ask(
            text.ids[: place + 1].tolist(),
            *self.pair,
            lambda found: self._take(key, found),
            self._fail,
            lambda done, total: self._say(READING.format(share=done / max(total, 1))),
            still=lambda: key == self._asked,
            adapters=text.adapters,
        )

    def _stop(self) -> None:
        if self._asked is not None:
            self._asked = None
            self._tools.desk.word_order.stop()

    def _take(self, key: object, found: Exchanged) -> None:
        self._asked, self._found = None, (key, found)
        self._show()
        self.answered.emit()

    def _fail(self, sentence: str) -> None:
        self._asked = None
        self._show()
        self._say(sentence)

    # --- what is shown --------------------------------------------------------------------------

    def _say(self, words: str) -> None:
        self.words.setText(words)
        self.words.setVisible(bool(words))

    def _show(self) -> None:
        pair = self.pair
        tint = tint_colors(self._tools.theme.colors)[-1]
        tinted = {token for span in pair or () for token in range(*span)}
        self.text.set_look(Look(lambda token: tint if token in tinted else None))
        is_two = pair is not None and pair[0] != pair[1]
        self.hint.setText(self._pair_words(pair) if pair is not None and is_two else NO_WORDS)
        self.button.setText("Swap" if self._asked is None else "Cancel")
        self.button.setEnabled(is_two)
        is_known = self._found is not None and self._found[0] == self._key
        found = self._found[1] if self._found is not None and is_known else None
        self.table.show_votes(found)
        self.table.setVisible(found is not None)
        self._say("" if found is None else self._change(found))

    def _pair_words(self, pair: Pair) -> str:
        assert self._shown is not None
        text = self._shown[0]
        one, other = (quoted(visible(b"".join(text.pieces(*span)))) for span in pair)
        return f"{one} and {other}. Click another word to choose it instead."

    def _change(self, found: Exchanged) -> str:
        """Of the token that came next; else of the best one."""
        target, ids = self._view.target, found.token_ids.tolist()
        token_id = ids[int(found.before.argmax())] if target is None else target
        word, apart = quoted(self._view.word(token_id)), APART.format(bits=found.bits)
        if token_id not in ids:
            return f"{OUTSIDE.format(word=word)} {apart}"
        at = ids.index(token_id)
        before, after = (percent(float(each[at])) for each in (found.before, found.after))
        return f"{word}: {before} → {after}. {apart}"


def _decoded(text: ReadText, first: int, end: int) -> list[str]:
    return [piece.decode(errors="replace") for piece in text.pieces(first, end)]
