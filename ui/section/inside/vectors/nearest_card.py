"""*Similar tokens*: which tokens point the same way as this one, or as a − b + c.

One ranking for both: with nothing typed it is about the token that was read. It follows from token
to token, once all else is known of the token; what is typed stays.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from PySide6.QtCore import QRectF
from PySide6.QtGui import QColor, QPainter
from PySide6.QtWidgets import QHBoxLayout, QLineEdit, QWidget

from app.chat.inspection.inside import Seen
from app.engine.protocol.embedding_messages import NearestTokens
from app.insight.inside.embedding import Neighbour, folded_words, outcome
from app.insight.trace.tokens_shown import quoted
from ui.look.theme import Theme
from ui.section.card import small_label
from ui.section.inside.card import InsideCard
from ui.section.inside.rows import RIGHT, PaintedRows, elided
from ui.section.inside.view import InsideView
from ui.section.panel import Tools
from ui.widgets.figures import signed
from ui.widgets.kit import plain_label, push_button, rest_timer

SHOWN: Final = 12
REST_MS: Final = 350
SIGNS: Final = (1.0, -1.0, 1.0)
EXAMPLE: Final = ("king", "man", "woman")

HELP: Final = (
    "Every token has a vector. Here they are compared by the cosine of the angle between two of "
    "them, in all dimensions: 1 is the same direction, 0 is what two random tokens have. First the "
    "mean of all vectors is taken off, because all of them share it. Spellings of one word are one "
    "row. For a − b + c the words that you typed stay in the ranking and are marked: without that, "
    "an analogy often looks better than it is."
)
MANY_TOKENS: Final = "“{word}” is {n} tokens here ({pieces}), so it has no vector of its own."
NO_TOKEN: Final = "“{word}” isn’t a token here."
READING: Final = "Comparing with all tokens… {share:.0%}"

_RANK_PX: Final = 24
_NAME_SHARE: Final = 0.48
_MOST_NAME_PX: Final = 220
_FIGURE_PX: Final = 40


def many_tokens(view: InsideView, word: str, ids: tuple[int, ...]) -> str:
    """Why a word that was typed has no vector."""
    if not ids:
        return NO_TOKEN.format(word=word)
    pieces = ", ".join(quoted(view.word(token_id)) for token_id in ids)
    return MANY_TOKENS.format(word=word, n=len(ids), pieces=pieces)


class NearestRows(PaintedRows):
    """A row for each word; its spellings are under the pointer."""

    def __init__(self, theme: Theme, view: InsideView, parent: QWidget | None = None) -> None:
        super().__init__(theme, "inside_nearest_rows", parent)
        self._view = view
        self.found: tuple[Neighbour, ...] = ()
        self.best: Neighbour | None = None

    def show_found(self, found: tuple[Neighbour, ...], best: Neighbour | None) -> None:
        """`best`: what an analogy gives."""
        self.found, self.best = found, best
        self.set_rows(len(found))
        self.setAccessibleName(
            "; ".join(f"{self._view.word(n.token_ids[0])} {signed(n.cosine)}" for n in found)
            or "No tokens"
        )

    def paint_row(self, painter: QPainter, row: int, rect: QRectF) -> None:
        each, colors, px = self.found[row], self._theme.colors, self._theme.px
        dim, is_asked = QColor(colors.dim), each.is_input or each.is_variant
        painter.setPen(dim)
        rank = QRectF(rect.left(), rect.top(), px(_RANK_PX) - px(6), rect.height())
        painter.drawText(rank, RIGHT, f"{each.rank + 1}")
        width = min(rect.width() * _NAME_SHARE, px(_MOST_NAME_PX))
        name = QRectF(rank.right() + px(6), rect.top(), width, rect.height())
        tag = self._tag(each)
        metrics = painter.fontMetrics()
        tag_width = metrics.horizontalAdvance(tag) + px(6) if tag else 0
        word = self._view.word(each.token_ids[0])
        room = QRectF(name.left(), name.top(), max(name.width() - tag_width, 0), name.height())
        painter.setPen(QColor(colors.accent if each is self.best else colors.ink))
        elided(painter, room, word)
        painter.setPen(dim)
        behind = name.left() + min(metrics.horizontalAdvance(word), room.width()) + px(6)
        elided(painter, QRectF(behind, name.top(), tag_width, name.height()), tag)
        bar = QRectF(name.right() + px(6), rect.top(), 0, rect.height())
        bar.setRight(rect.right() - px(_FIGURE_PX))
        color = QColor(colors.second if is_asked else colors.accent)
        color.setAlphaF(1.0 if each is self.best or is_asked else 0.45)
        self.paint_bar(painter, bar, each.cosine, color)
        painter.setPen(QColor(colors.ink))
        painter.drawText(rect, RIGHT, signed(each.cosine))

    def _tag(self, each: Neighbour) -> str:
        more = f"+{len(each.token_ids) - 1}" if len(each.token_ids) > 1 else ""
        return " ".join((*(["input"] if each.is_input else []), *([more] if more else [])))

    def words_of(self, row: int, x: float) -> str:
        each = self.found[row]
        first = each.token_ids[0]
        place = f"rank {each.rank + 1:,} · cosine {signed(each.cosine, '.4f')}"
        lines = [f"{quoted(self._view.word(first))} · ID {first} · {place}"]
        others = [quoted(self._view.word(token_id)) for token_id in each.token_ids[1:]]
        if others:
            lines.append(f"also spelled {', '.join(others)}")
        if each.is_input:
            lines.append("one of the inputs")
        elif each.is_variant:
            lines.append("another spelling of an input")
        return "\n".join(lines)


class NearestCard(InsideCard):
    title_words = "Similar tokens"
    name = "nearest"
    help_words = HELP

    def __init__(self, tools: Tools, view: InsideView, parent: QWidget | None = None) -> None:
        super().__init__(tools, view, parent)
        self._key: tuple[object, ...] = ()
        self._ids: list[tuple[int, ...]] = []
        self._terms: tuple[tuple[int, float], ...] = ()
        self._told: NearestTokens | None = None
        self.fields = [self._field(at) for at in range(3)]
        self.example = push_button("Example", self.content, "inside_nearest_example")
        self.example.setToolTip(f"{EXAMPLE[0]} − {EXAMPLE[1]} + {EXAMPLE[2]}")
        self.clear = push_button("Clear", self.content, "inside_nearest_clear")
        self.words = small_label("", self.content)
        self.words.setObjectName("inside_nearest_words")
        self.table = NearestRows(tools.theme, view, self.content)
        self.note = small_label("", self.content)
        self.note.setObjectName("inside_nearest_note")
        self._rest = rest_timer(self, self._ask, REST_MS)
        self._lay_out()
        tools.looking.token_changed.connect(self._on_other_token)
        self.example.clicked.connect(lambda _=False: self._put(*EXAMPLE))
        self.clear.clicked.connect(lambda _=False: self._put("", "", ""))

    def _field(self, at: int) -> QLineEdit:
        field = QLineEdit(self.content)
        field.setObjectName(f"inside_nearest_{'abc'[at]}")
        field.setAccessibleName(("Word", "Minus this word", "Plus this word")[at])
        field.setPlaceholderText("word")
        field.setMinimumWidth(0)
        self._tools.theme.keep(field, QLineEdit.setMaximumWidth, 170)
        self._tools.theme.font(field, Theme.font_small)
        field.textChanged.connect(lambda _text: self._rest.start())
        field.returnPressed.connect(self._ask)
        return field

    def _lay_out(self) -> None:
        theme = self._tools.theme
        row = QHBoxLayout()
        for sign, field in zip(("", "−", "+"), self.fields, strict=True):
            if sign:
                row.addWidget(plain_label(sign, self.content))
            row.addWidget(field, 1)
        for button in (self.example, self.clear):
            button.setAutoDefault(False)
            theme.font(button, Theme.font_small)
            row.addWidget(button)
        row.addStretch()
        theme.space(row, 5)
        self.rows.addLayout(row)
        for widget in (self.words, self.table, self.note):
            self.rows.addWidget(widget)
        self._fit_buttons()

    def _fit_buttons(self) -> None:
        has_words = any(self._typed())
        self.example.setVisible(not has_words)
        self.clear.setVisible(has_words)

    # --- asking ---------------------------------------------------------------------------------

    def _typed(self) -> tuple[str, ...]:
        return tuple(field.text().strip() for field in self.fields)

    def _put(self, *words: str) -> None:
        for field, word in zip(self.fields, words, strict=True):
            field.setText(word)
        self.fields[0].setFocus()  # the button that was clicked goes
        self._ask()

    def show_seen(self, seen: Seen) -> None:
        self.fields[0].setPlaceholderText(self.view.read_word)
        if seen.is_whole:  # it reads a whole matrix: what is quick comes first
            self._ask()

    def _ask(self) -> None:
        """Unless it is asked or known already: the token of each word first, then their sum."""
        self._rest.stop()
        self._fit_buttons()
        view, typed = self.view, self._typed()
        seen, text = view.seen, view.text
        if not (self.is_open and self._is_active) or seen is None or text is None:
            return
        own = (text.ids[seen.place],)
        key = (id(self._tools.desk.loader.loaded), typed, () if typed[0] else own)
        if key == self._key:
            self._show()
            return
        self._key, self._told = key, None
        self.table.show_found((), None)
        self._say("")
        self._ids = [() if word else own for word in typed]
        self._ids[1:] = [(), ()]
        wanted = [at for at, word in enumerate(typed) if word]
        left = set(wanted)
        if not left:
            self._compare(key, typed)
            return

        def take(at: int, ids: tuple[int, ...]) -> None:
            self._ids[at] = ids
            left.discard(at)
            if not left:
                self._compare(key, typed)

        for at in wanted:
            self._tools.desk.embedding.find(
                typed[at], partial(take, at), self._fail, still=lambda: key == self._key
            )

    def _compare(self, key: tuple[object, ...], typed: tuple[str, ...]) -> None:
        for word, ids in zip(typed, self._ids, strict=True):
            if word and len(ids) != 1:
                self._say(many_tokens(self.view, word, ids))
                return
        pairs = zip(self._ids, SIGNS, strict=True)
        self._terms = tuple((ids[0], sign) for ids, sign in pairs if ids)
        self._tools.desk.embedding.nearest(
            self._terms,
            self._take,
            self._fail,
            lambda done, total: self._say(READING.format(share=done / max(total, 1))),
            still=lambda: key == self._key,
        )

    def _on_other_token(self) -> None:
        """Whoever goes on does not wait until the whole matrix is read for the token before."""
        if self._key and self._told is None and not self._typed()[0]:
            self._key = ()
            self._tools.desk.embedding.stop("nearest")

    def _take(self, told: NearestTokens) -> None:
        self._told = told
        self._show()

    def _fail(self, sentence: str) -> None:
        self._key = ()
        self._say(sentence)

    # --- what came ------------------------------------------------------------------------------

    def _say(self, words: str) -> None:
        self.words.setText(words)
        self.words.setVisible(bool(words))
        self.note.setVisible(False)

    def _show(self) -> None:
        told, words = self._told, self._tools.looking.words
        if told is None:
            return
        inputs = [token_id for token_id, _ in self._terms]
        found = folded_words(told, inputs, words)
        best = outcome(found) if len(inputs) > 1 else None
        self.table.show_found(found[:SHOWN], best)
        self._say(self._sum(best))
        self.note.setText(self._note(told, inputs, found[:SHOWN]))
        self.note.setVisible(True)

    def _sum(self, best: Neighbour | None) -> str:
        """The question, and what it gives."""
        word = self.view.word
        first, *others = self._terms
        parts = [quoted(word(first[0])) if first[1] > 0 else f"−{quoted(word(first[0]))}"]
        parts += [f"{'+' if sign > 0 else '−'} {quoted(word(i))}" for i, sign in others]
        if not others:
            return f"Closest to {parts[0]}"
        given = "no other word" if best is None else quoted(word(best.token_ids[0]))
        return f"{' '.join(parts)} → {given}"

    def _note(self, told: NearestTokens, inputs: list[int], shown: tuple[Neighbour, ...]) -> str:
        """Among how many; and where inputs stand that are too far down to be seen."""
        seen = {token_id for each in shown for token_id in each.token_ids}
        ranked = zip(inputs, told.input_ranks.numbers(), told.input_cosines.numbers(), strict=True)
        below = [
            f"{quoted(self.view.word(token_id))} has rank {int(rank) + 1:,} ({signed(cosine)})"
            for token_id, rank, cosine in ranked
            if token_id not in seen
        ]
        return " ".join(
            [f"Of {told.n_vocab:,} tokens.", *(f"{each}." for each in below), *told.notes]
        )
