"""*Who wrote it*: what each head and network added to the token's score, against another token.

A score has no author; a difference of two has. So the token is always held against another one, the
runner-up at first. What is listed wrote *directly*: what a head writes for a later one to read
counts as that one's. The test beside it takes a part out and reads the scores again, with another
part of the same kind, chosen at random, as control.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from PySide6.QtCore import QRectF, Qt, Signal
from PySide6.QtGui import QColor, QPainter
from PySide6.QtWidgets import QHBoxLayout, QLineEdit, QWidget

from app.chat.inspection.inside import ReadText, Seen
from app.engine.protocol.cut_messages import Cut
from app.engine.protocol.messages import Tokens
from app.insight.inside.cuts import control_of, cut_words
from app.insight.inside.wrote import MOST_ROWS, Written
from app.insight.trace.tokens_shown import quoted
from ui.look.theme import Theme
from ui.section.card import small_label
from ui.section.inside.card import InsideCard
from ui.section.inside.rows import LEFT, RIGHT, PaintedRows, elided
from ui.section.inside.view import InsideView
from ui.section.panel import Tools
from ui.widgets.figures import signed
from ui.widgets.kit import plain_label, push_button

HELP: Final = (
    "The difference of two scores is a sum over everything that wrote to the stream, once the last "
    "norm is held at this token’s scale. Parts that read what others wrote get the credit for it, "
    "and large parts may cancel each other, so test what you see here."
)
ONE_TOKEN: Final = "“{text}” is {n} tokens. Type one that is a single token."
CAVEAT: Final = (
    "Each part's output was replaced by its average over the prompt. Later layers often make up "
    "for some of it."
)
_FIGURE_PX: Final = 52
_NAME_SHARE: Final = 0.42
_BAR_PX: Final = 7


class WroteRows(PaintedRows):
    """A row for each of the largest parts, one for all others, one for what is unexplained."""

    def __init__(self, theme: Theme, parent: QWidget) -> None:
        super().__init__(theme, "inside_wrote_rows", parent, can_choose=True)
        self.entries: list[tuple[str, float]] = []

    def show_written(self, written: Written) -> None:
        shown = written.contributions[:MOST_ROWS]
        rest = written.contributions[MOST_ROWS:]
        self.entries = [(each.words, each.value) for each in shown]
        if rest:
            self.entries.append((f"{len(rest):,} others", sum(each.value for each in rest)))
        self.entries.append(("unexplained", written.unexplained))
        self.set_rows(len(self.entries))
        self.setAccessibleName(
            "; ".join(f"{words} {signed(value, '+.2f')}" for words, value in self.entries)
        )

    def words_of(self, row: int, x: float) -> str:
        words, value = self.entries[row]
        return f"{words}: {signed(value, '+.4f')}"

    def paint_row(self, painter: QPainter, row: int, rect: QRectF) -> None:
        words, value = self.entries[row]
        colors, px = self._theme.colors, self._theme.px
        name = QRectF(rect.left(), rect.top(), rect.width() * _NAME_SHARE, rect.height())
        is_part = row < len(self.entries) - 1
        painter.setPen(QColor(colors.ink if is_part else colors.dim))
        elided(painter, name, words, LEFT)
        painter.setPen(QColor(colors.ink))
        painter.drawText(rect, RIGHT, signed(value, "+.2f"))
        room = QRectF(name.right() + px(6), rect.top(), 0, rect.height())
        room.setRight(rect.right() - px(_FIGURE_PX) - px(6))
        most = max((abs(value) for _, value in self.entries), default=0.0) or 1.0
        middle, half = room.center().x(), room.width() / 2
        width = half * abs(value) / most
        left = middle if value > 0 else middle - width
        top = rect.center().y() - px(_BAR_PX) / 2
        color = QColor(colors.accent if value > 0 else colors.second)
        painter.fillRect(QRectF(left, top, max(width, 1.0), px(_BAR_PX)), color)
        painter.setPen(QColor(colors.line))
        painter.drawLine(round(middle), round(rect.top()), round(middle), round(rect.bottom()))


class WhoCard(InsideCard):
    """`tested`: what came of taking a part out is shown."""

    tested = Signal()

    title_words = "Who wrote it"
    name = "wrote"
    needs = ("logits",)
    help_words = HELP

    def __init__(self, tools: Tools, view: InsideView, parent: QWidget | None = None) -> None:
        super().__init__(tools, view, parent)
        self._key: tuple[object, ...] = ()
        self._other: int | None = None
        self._test_key: tuple[object, ...] = ()
        self.written: Written | None = None
        self.against = plain_label("rather than", self.content, "small")
        self.other = QLineEdit(self.content)
        self.other.setObjectName("inside_wrote_other")
        self.other.setAccessibleName("Token to compare with")
        self.table = WroteRows(tools.theme, self.content)
        self.sentence = small_label("", self.content)
        self.sentence.setObjectName("inside_wrote_sentence")
        self.test_button = push_button(
            "Test without it",
            self.content,
            "inside_wrote_test",
            hint="Take the selected part out and read the scores again",
        )
        self.result = small_label("", self.content)
        self.result.setObjectName("inside_wrote_result")
        self._lay_out()
        self.other.returnPressed.connect(self._read_other)
        self.table.row_chosen.connect(self._on_chosen)
        self.test_button.clicked.connect(lambda _=False: self._test())

    def _lay_out(self) -> None:
        theme = self._tools.theme
        top, bottom = QHBoxLayout(), QHBoxLayout()
        top.addWidget(self.against)
        top.addWidget(self.other, 1)
        bottom.addWidget(self.test_button)
        bottom.addStretch(1)
        theme.space(top, 6)
        theme.space(bottom, 6)
        self.rows.addLayout(top)
        self.rows.addWidget(self.table)
        self.rows.addWidget(self.sentence)
        self.rows.addLayout(bottom)
        self.rows.addWidget(self.result)
        self.test_button.setAutoDefault(False)
        for widget in (self.against, self.other, self.test_button):
            theme.font(widget, Theme.font_small)

    # --- asking ---------------------------------------------------------------------------------

    def show_seen(self, seen: Seen) -> None:
        text, place = self.view.text, self.view.place
        if text is None or place is None or not seen.is_whole:
            return
        key = (text, place, self._other, id(self._tools.desk.loader.loaded))
        if key == self._key:
            return
        if self._key[:2] != key[:2]:  # another token, which has a runner-up of its own
            self._other, key = None, (text, place, None, key[3])
        self._key = key
        self._clear()
        self.table.set_pending(True)
        self._tools.desk.inside.attribute(
            text, place, self._other, self._take, self._fail, still=lambda: self._key == key
        )

    def show_figure(self, seen: Seen | None) -> None:
        written = self.written
        if seen is None or written is None or self._key[:2] != (self.view.text, self.view.place):
            self.figure.set_text("")
            return
        word = quoted(self.view.word(written.target))
        self.figure.set_text(f"{word} {signed(written.shown_difference, '+.2f')}")

    def _take(self, written: Written) -> None:
        self.written = written
        self.table.set_pending(False)
        self.table.show_written(written)
        self.other.setText(self.view.word(written.other))
        self.sentence.setText(self._words(written))
        self.sentence.setVisible(bool(self.sentence.text()))
        self.show_figure(self.view.seen)

    def _fail(self, sentence: str) -> None:
        self._clear()
        self.sentence.setText(sentence)
        self.sentence.setVisible(True)

    def _clear(self) -> None:
        self.written = None
        self._test_key = ()
        self.table.set_pending(False)
        self.table.choose(None)
        self.table.set_rows(0)
        self.sentence.setText("")
        self.result.setText("")
        self.result.setVisible(False)
        self._keep_keyboard()
        self.test_button.setVisible(False)
        self.test_button.setEnabled(True)

    def _words(self, written: Written) -> str:
        found = [*written.notes]
        if "heads" in written.missing:
            found.append(written.missing["heads"])
        return " ".join(found)

    def _read_other(self) -> None:
        """The token that was typed, as it would stand inside a text."""
        typed, key = self.other.text().replace("·", " "), self._key
        if not typed:
            self._other = None
            self.refresh()
            return

        def take(tokens: Tokens) -> None:
            if len(tokens.token_ids) != 1:
                sentence = ONE_TOKEN.format(text=self.other.text(), n=len(tokens.token_ids))
                self.sentence.setText(sentence)
                self.sentence.setVisible(True)
                return
            self._other = tokens.token_ids[0]
            self.refresh()

        self._tools.desk.questions.tokenize(
            typed, take, self._fail, still=lambda: self._key == key, inside=True
        )

    # --- the test -------------------------------------------------------------------------------

    def _cut(self) -> Cut | None:
        row, written = self.table.chosen, self.written
        if row is None or written is None or row >= min(MOST_ROWS, len(written.contributions)):
            return None
        return written.contributions[row].cut

    def _on_chosen(self, row: int) -> None:
        self.table.choose(None if row < 0 else row)
        cut = self._cut()
        self.test_button.setVisible(cut is not None)
        if cut is not None:
            self.test_button.setText(f"Test without {cut_words(cut)}")
            if cut.kind == "head":
                self.view.choose_head(cut.layer, cut.index)
            else:
                self.view.choose_layer(cut.layer)

    def _test(self) -> None:
        cut, written = self._cut(), self.written
        text, place = self.view.text, self.view.place
        if cut is None or written is None or text is None or place is None:
            return
        control = control_of(
            [cut], n_layer=written.n_layer, n_head=written.n_head, n_kv_head=1, seed=0
        )
        key = self._test_key = (self._key, cut)
        found: list[str] = []
        self._keep_keyboard()
        self.test_button.setEnabled(False)

        def ask(cuts: list[Cut], is_control: bool) -> None:
            self._ask_without(text, place, cuts, is_control, key, take)

        def take(words: str, is_control: bool) -> None:
            found.append(words)
            if not is_control and control:
                ask(control, True)
            else:
                self._end_test(" ".join([*found, CAVEAT]))
                self.tested.emit()

        ask([cut], False)

    def _ask_without(
        self,
        text: ReadText,
        place: int,
        cuts: list[Cut],
        is_control: bool,
        key: tuple[object, ...],
        then: object,
    ) -> None:
        written = self.written
        assert written is not None
        assert callable(then)

        def take(logits: np.ndarray) -> None:
            difference = float(logits[written.target] - logits[written.other])
            best = self.view.word(int(logits.argmax()))
            what = cut_words(cuts[0])
            aside = " (random control)" if is_control else ""
            words = (
                f"Without {what}{aside}: {signed(difference, '+.2f')}, top token {quoted(best)}."
            )
            before = f"Whole model: {signed(written.shown_difference, '+.2f')}. "
            then(words if is_control else before + words, is_control)

        self._tools.desk.inside.without(
            text,
            place,
            cuts,
            take,
            self._end_test,
            still=lambda: key == self._test_key and key[0] == self._key,
        )

    def _keep_keyboard(self) -> None:
        """The button is about to lose it, which would take it to the next card."""
        if self.content.focusWidget() is self.test_button:
            self.table.setFocus(Qt.FocusReason.OtherFocusReason)

    def _end_test(self, sentence: str) -> None:
        self.test_button.setEnabled(True)
        self.result.setText(sentence)
        self.result.setVisible(True)
