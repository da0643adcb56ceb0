"""*Attention*: what the token looks at. On the words first, then head by head.

The text is painted with one row: that of the chosen head, or the mean over the heads of a layer, or
over all of them. Struck through is what a layer cannot see because of its window.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

import numpy as np
import numpy.typing as npt
from PySide6.QtCore import QRectF
from PySide6.QtGui import QColor, QPainter, QResizeEvent
from PySide6.QtWidgets import QHBoxLayout, QWidget

from app.amounts import percent
from app.chat.inspection.inside import HeadNames, ReadText, Seen
from app.insight.inside.attention import (
    HeadRole,
    by_span,
    entropy_bits,
    group_of,
    role_of,
    strongest,
    value_weighted,
    without_sink,
)
from app.insight.trace.message_tokens import MessageTokens
from ui.look.theme import Theme
from ui.look.tints import tint_colors
from ui.section.card import small_label
from ui.section.inside.card import InsideCard
from ui.section.inside.layers.head_grid import Head, HeadGrid
from ui.section.inside.layers.matrix_pane import MatrixPane, Meant
from ui.section.inside.rows import LEFT, RIGHT, PaintedRows, elided
from ui.section.inside.view import InsideView, TextSoFar
from ui.section.looking import Paint
from ui.section.panel import Tools
from ui.section.prompt.text import Look, PromptText
from ui.section.segments import Segments
from ui.section.switch import Switch
from ui.widgets.figures import signed
from ui.widgets.kit import push_button, rest_timer

Values = npt.NDArray[np.float32]

HELP: Final = (
    "Every head mixes what earlier tokens carry, in shares that add up to 100%. The words are "
    "tinted by those shares. In the grid each row is a layer and each tile a head: its left edge "
    "is the first token, its right edge the one that looks. Heads below one KV bracket share keys "
    "and values. Many heads put most of their share on the first token, whatever it says: hide it "
    "to see the rest. A share tells where a head looked, not what that was good for. Bits tell how "
    "spread out it is: 0 is one token, and each bit more is twice as many. The matrix has a row "
    "for each of the last tokens, and a column for each that it can look at. Hover a cell for its "
    "formula, click a row to select its token. What comes later has no tile: it can't be seen."
)
N_NAMED: Final = 3
TEXT_PX: Final = 132
"""Of the painted text, at most; it scrolls."""
ROLES: Final = {
    "previous": "previous token",
    "duplicate": "same token before",
    "induction": "induction",
    "sink": "sink",
}
"""What a person calls the scores of `HEAD_SCORES`."""

ORIGINS: Final = {
    "system": "System",
    "summary": "Summary",
    "user": "You",
    "assistant": "Reply",
    "scaffold": "Template",
    "tool": "Tool result",
    "tools": "Tool definitions",
    "attachment": "Attachment",
    "passage": "Part of a document",
    "reply": "This reply",
    "text": "Text",
}
LASTS: Final = (0, 64, 16)
"""How many of the last tokens are shown; 0: all."""

MOST_SPANS: Final = 6
_NAME_SHARE: Final = 0.6
_FIGURE_PX: Final = 40


def _on_words(
    text: ReadText, shares: Values, message_id: str, tokens: MessageTokens
) -> Sequence[float]:
    """What falls on each token of a message: of the reply by its trace, of the messages before it
    by their parts of the prompt, where these have as many tokens. Of any other message nothing."""
    if message_id == text.message_id:
        places = [tokens.place_of(number) for number in range(len(tokens))]
        found = [-1 if place is None else text.place_of(place) for place in places]
    else:
        parts = (part for part in text.prompt.parts if part.message_id == message_id)
        found = [place for part in parts for place in range(part.start, part.end)]
        if len(found) != len(tokens):
            return ()
    return [float(shares[at]) if 0 <= at < len(shares) else 0.0 for at in found]


class SpanRows(PaintedRows):
    """A row for each message that is looked at most, in the order of the text; a click goes there.
    The template's own tokens are one row."""

    def __init__(self, theme: Theme, parent: QWidget) -> None:
        super().__init__(theme, "inside_attention_spans", parent, can_choose=True)
        self.entries: list[tuple[str, float, int]] = []

    def show_spans(self, entries: list[tuple[str, float, int]]) -> None:
        """Words, share, and the first token of each."""
        self.entries = entries
        self.set_rows(len(entries))
        self.setAccessibleName(
            "; ".join(f"{words} {percent(share)}" for words, share, _ in entries)
        )

    def paint_row(self, painter: QPainter, row: int, rect: QRectF) -> None:
        words, share, _ = self.entries[row]
        colors, px = self._theme.colors, self._theme.px
        name = QRectF(rect.left(), rect.top(), rect.width() * _NAME_SHARE, rect.height())
        painter.setPen(QColor(colors.ink))
        elided(painter, name, words, LEFT)
        painter.drawText(rect, RIGHT, percent(share))
        room = QRectF(name.right() + px(6), rect.top(), 0, rect.height())
        room.setRight(rect.right() - px(_FIGURE_PX))
        self.paint_bar(painter, room, share, QColor(colors.accent))


class AttentionCard(InsideCard):
    title_words = "Attention"
    name = "attention"
    needs = ("attention",)
    wants = ("k_after", "value_norms")
    help_words = HELP
    is_open_at_first = True

    def __init__(self, tools: Tools, view: InsideView, parent: QWidget | None = None) -> None:
        super().__init__(tools, view, parent)
        theme = tools.theme
        self._pointed: Head | None = None
        self._row: Values = np.zeros(0, np.float32)
        self._shown: tuple[object, int, int] | None = None
        self._first = 0
        self._weighted: tuple[object, Values] | None = None
        self._names: HeadNames | None = None
        self._names_of: object = None
        self.words = small_label("", self.content)
        self.words.setObjectName("inside_attention_words")
        self.form = Segments(theme, ["Text", "Matrix"], "How attention is shown", self.content)
        self.form.setObjectName("inside_attention_form")
        self.matrix = MatrixPane(tools, view, self.content)
        self.matrix.setVisible(False)
        self.text = PromptText(theme, self.content)
        self.text.setObjectName("inside_attention_text")
        self.text.setAccessibleName("The text, tinted by what the token looks at")
        self.spans = SpanRows(theme, self.content)
        self.last = Segments(
            theme,
            ["All", *(f"Last {n}" for n in LASTS[1:])],
            "How many tokens are shown",
            self.content,
        )
        self.last.setObjectName("inside_attention_last")
        self.sink_switch = Switch(
            theme, "Hide the first token, which often takes most", self.content
        )
        self.sink_switch.setObjectName("inside_attention_sink")
        self.sink_label = small_label("Hide first token", self.content)
        self.value_switch = Switch(
            theme, "Weigh by what each token brings: attention × size of its value", self.content
        )
        self.value_switch.setObjectName("inside_attention_values")
        self.value_label = small_label("Weigh by values", self.content)
        self.mean_button = push_button(
            "All heads", self.content, "inside_attention_mean", hint="Mean over all heads"
        )
        self.name_button = push_button(
            "Name heads",
            self.content,
            "inside_attention_name",
            hint="Measure what each head does, on a text of repeated random tokens",
        )
        self.grid = HeadGrid(theme, self.content)
        self.grid.setObjectName("inside_attention_grid")
        self.notes = small_label("", self.content)
        self.notes.setObjectName("inside_attention_notes")
        self._lay_out()
        self.told = [self.words, self.notes]
        self._fit_soon = rest_timer(self, self._fit_text)
        self.grid.pointed.connect(self._on_pointed)
        self.grid.chosen.connect(lambda head: view.choose_head(*head))
        self.mean_button.clicked.connect(lambda _=False: view.choose_head(None, None))
        self.name_button.clicked.connect(lambda _=False: self._measure())
        for switch in (self.sink_switch, self.value_switch):
            switch.toggled.connect(lambda _on: self.refresh())
        self.form.currentChanged.connect(lambda _at: self.refresh())
        self.last.currentChanged.connect(lambda _at: self._show_anew())
        self.spans.row_chosen.connect(self._go_to_span)
        self.text.hovered.connect(lambda _token: self._say())
        self.text.chosen.connect(self._go_to)
        view.head_changed.connect(self.refresh)
        view.layer_changed.connect(self.refresh)

    def _lay_out(self) -> None:
        theme = self._tools.theme
        switches, buttons = QHBoxLayout(), QHBoxLayout()
        for switch, label in (
            (self.sink_switch, self.sink_label),
            (self.value_switch, self.value_label),
        ):
            switches.addWidget(switch)
            switches.addWidget(label, 1)
        buttons.addWidget(self.mean_button)
        buttons.addWidget(self.name_button)
        buttons.addStretch(1)
        theme.space(switches, 6)
        theme.space(buttons, 6)
        for button in (self.mean_button, self.name_button):
            button.setAutoDefault(False)
            theme.font(button, Theme.font_small)
        for widget in (self.words, self.form, self.last, self.text, self.spans, self.matrix):
            self.rows.addWidget(widget)
        self.rows.addLayout(switches)
        self.rows.addLayout(buttons)
        self.rows.addWidget(self.grid)
        self.rows.addWidget(self.notes)

    # --- what is shown --------------------------------------------------------------------------

    def show_figure(self, seen: Seen | None) -> None:
        if self._names_of is not self._tools.desk.loader.loaded:  # others, or none
            self._names = None
            self._end_measuring()
        rows = None if seen is None else seen.arrays.get("attention")
        shape = () if rows is None else rows.shape
        self.figure.set_text(f"{shape[0]} layers · {shape[1]} heads" if len(shape) == 3 else "")

    def show_seen(self, seen: Seen) -> None:
        has_norms = "value_norms" in seen.arrays
        self.value_switch.setEnabled(has_norms)
        self.value_label.setEnabled(has_norms)
        self.value_label.setToolTip(seen.missing.get("value_norms", ""))
        rows = self._rows(seen)
        keys = seen.arrays.get("k_after")
        self._n_kv_head = keys.shape[1] if keys is not None else rows.shape[1]
        shown = without_sink(rows)[0] if self.sink_switch.isChecked() else rows
        self._first = self._first_shown(rows.shape[2])
        is_matrix = self.is_matrix
        self.last.setVisible(rows.shape[2] > LASTS[-1] and not is_matrix)
        self.text.setVisible(not is_matrix)
        self.matrix.setVisible(is_matrix)
        self.grid.show_rows(shown[..., self._first :], self._n_kv_head)
        self.grid.show_current(self._chosen(seen))
        text, place = self.view.text, self.view.place
        if text is not None and place is not None and (text, place, self._first) != self._shown:
            self._shown = (text, place, self._first)
            self.text.show_tokens(TextSoFar(text, place, self._first), Look())
            self.text.choose(place - self._first)
            self._fit_text()
        self._paint(seen)

    @property
    def is_matrix(self) -> bool:
        return self.form.currentIndex() == 1

    def _fit_text(self) -> None:
        """As high as its lines, up to a limit; before it is laid out that is not known."""
        px = self._tools.theme.px
        wanted = min(max(self.text.whole_height, px(36)), px(TEXT_PX))
        if wanted != self.text.height():
            self.text.setFixedHeight(wanted)
            if self.view.place is not None:
                self.text.choose(self.view.place - self._first)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fit_soon.start()

    def refresh(self) -> None:
        super().refresh()
        is_there = self.view.seen is not None and "attention" in self.view.seen.arrays
        if not (is_there and self.is_open and self._is_active):
            self._tools.looking.set_paint(None)
        if self._is_active and not (is_there and self.is_open and self.is_matrix):
            self.matrix.stop()
        if self._is_active and not is_there:  # its colours are another token's
            self.text.set_look(Look())

    def set_active(self, is_active: bool) -> None:
        super().set_active(is_active)
        if not is_active:
            self.matrix.stop()

    def _rows(self, seen: Seen) -> Values:
        """What is shown: attention, or what it brings."""
        rows = np.asarray(seen.arrays["attention"], np.float32)
        norms = seen.arrays.get("value_norms")
        if self.value_switch.isChecked() and norms is not None:
            if self._weighted is None or self._weighted[0] is not norms:  # the pointer moves on
                weighted = value_weighted(rows, np.asarray(norms, np.float32))
                self._weighted = (norms, weighted)
            rows = self._weighted[1]
        return rows

    def _chosen(self, seen: Seen) -> Head | None:
        view, shape = self.view, seen.arrays["attention"].shape
        if view.layer is None or view.head is None:
            return None
        return (view.layer, view.head) if view.layer < shape[0] and view.head < shape[1] else None

    def _paint(self, seen: Seen) -> None:
        """The text in the colours of the row that is meant now."""
        rows = self._rows(seen)
        meant = self._pointed or self._chosen(seen)
        if meant is not None:
            row = rows[meant]
        elif self.view.layer is not None and self.view.layer < len(rows):
            row = rows[self.view.layer].mean(axis=0)
        else:
            row = np.nanmean(rows, axis=(0, 1))
        self._whole = np.nan_to_num(row)
        self._row = self._whole
        self._mass = float(self._whole[0]) if len(self._whole) else 0.0
        if self.sink_switch.isChecked():
            self._row = without_sink(self._whole)[0]
        hidden = 0
        if meant is not None or self.view.layer is not None:
            layer = meant[0] if meant is not None else self.view.layer
            of_layer = np.nan_to_num(seen.arrays["attention"][layer])  # never of what it brings
            seen_from = np.flatnonzero(of_layer.max(axis=0))
            hidden = int(seen_from[0]) if len(seen_from) else 0
        self._hidden = hidden
        highest = max(float(self._row.max(initial=0.0)), 1e-9)
        tints = tint_colors(self._tools.theme.colors)
        levels = np.floor(np.sqrt(self._row / highest) * len(tints)).astype(int)

        first = self._first

        def tone(token: int) -> QColor | None:
            level = levels[token + first] if token + first < len(levels) else 0
            return tints[min(level, len(tints)) - 1] if level else None

        self.text.set_look(
            Look(tone, is_struck=lambda token: token + first < hidden, has_borders=False)
        )
        self._paint_chat()
        self._say()
        if self.is_matrix:
            self.matrix.show_meant(seen, self._meant(seen))

    def _meant(self, seen: Seen) -> Meant | None:
        """The chosen head or layer as a matrix, or the head under the pointer where it is of the
        same layer: another layer's rows would have to be read first."""
        layer, chosen = self.view.layer, self._chosen(seen)
        if layer is None or layer >= len(seen.arrays["attention"]):
            return None
        head = None if chosen is None else chosen[1]
        if self._pointed is not None and self._pointed[0] == layer:
            head = self._pointed[1]
        return Meant(layer, head, self.sink_switch.isChecked(), self.value_switch.isChecked())

    def _paint_chat(self) -> None:
        """The same colours on the words of the chat, where it shows its tokens."""
        text = self.view.text
        if not (self.is_open and self._is_active) or text is None or not len(self._row):
            self._tools.looking.set_paint(None)
            return
        highest = max(float(self._row.max()), 1e-9)
        shares = np.sqrt(self._row / highest)
        self._tools.looking.set_paint(
            Paint(f"Attention of “{self.view.read_word}”", partial(_on_words, text, shares))
        )

    # --- words ----------------------------------------------------------------------------------

    def _say(self) -> None:
        seen = self.view.seen
        if seen is None or "attention" not in seen.arrays or not len(self._row):
            return
        self.words.setText(self._words(seen))
        self.grid.setAccessibleDescription(self.words.text())
        spans = self._spans()
        self.spans.show_spans(spans)
        self.spans.setVisible(len(spans) > 1 and not self.is_matrix)
        notes = [*seen.notes]
        if self._hidden:
            notes.insert(0, f"This layer can't see the first {self._hidden:,} tokens (window).")
        self.notes.setText(" ".join(notes))
        self.notes.setVisible(bool(notes))

    def _words(self, seen: Seen) -> str:
        meant = self._pointed or self._chosen(seen)
        token = self.text.pointed + self._first if self.text.pointed >= 0 else -1
        if meant is None:
            layer = self.view.layer
            who = "Mean of all heads" if layer is None else f"Layer {layer}, mean of its heads"
        else:
            group = group_of(meant[1], seen.arrays["attention"].shape[1], self._n_kv_head)
            who = f"Layer {meant[0]}, head {meant[1]}"
            if self._n_kv_head < seen.arrays["attention"].shape[1]:
                who += f" (KV {group})"
            if (role := self._role(meant)) is not None:
                who += f" · {ROLES[role.name]} {signed(role.score)}"
        if 0 <= token < len(self._row) and token != self.view.place:
            return f"{who}: {self._row[token]:.1%} on “{self.view.piece(token)}”"
        best = ", ".join(
            f"“{self.view.piece(at)}” {percent(share)}"
            for at, share in strongest(self._row, N_NAMED)
        )
        bits = float(entropy_bits(self._whole))
        if self.value_switch.isChecked() and self.value_switch.isEnabled():
            who += ", weighted by values"
        sink = f" · first token {percent(self._mass)}"
        sink += ", hidden; the rest is scaled to 100%" if self.sink_switch.isChecked() else ""
        return f"{who}: {best} · {bits:.1f} bits{sink}"

    def _spans(self) -> list[tuple[str, float, int]]:
        """How much falls on each message: those that get most, in the order of the text, and the
        template's tokens together. The words are its role and how it begins."""
        text, end = self.view.text, len(self._row)
        if text is None:
            return []
        spans = [(p.origin, p.start, min(p.end, end)) for p in text.prompt.parts if p.start < end]
        if text.n_prompt < end:
            spans.append(("reply", text.n_prompt, end))
        shares = by_span(self._row, [(start, stop) for _, start, stop in spans])
        template, found = 0.0, []
        for (origin, start, stop), share in zip(spans, shares, strict=True):
            if origin == "scaffold":
                template += float(share)
                continue
            begins = b"".join(text.pieces(start, min(stop, start + 12))).decode("utf-8", "replace")
            name = ORIGINS.get(origin, origin)
            found.append((f"{name}: {' '.join(begins.split())}", float(share), start))
        found = sorted(sorted(found, key=lambda each: -each[1])[:MOST_SPANS], key=lambda e: e[2])
        return [*found, *([(ORIGINS["scaffold"], template, 0)] if template else [])]

    def _go_to_span(self, row: int) -> None:
        if 0 <= row < len(self.spans.entries):
            self.text.scroll_to(max(self.spans.entries[row][2] - self._first, 0))

    def _go_to(self, token: int) -> None:
        """A word that is clicked is looked at next."""
        place = token + self._first
        if (
            token >= 0
            and place != self.view.place
            and (self.view.text, self.view.place) == (self._shown or (None, None))[:2]
        ):
            self.view.go_to(place)

    def _first_shown(self, n_tokens: int) -> int:
        count = LASTS[max(self.last.currentIndex(), 0)]
        return max(n_tokens - count, 0) if count else 0

    def _show_anew(self) -> None:
        self._shown = None
        self.refresh()

    # --- pointer and roles ----------------------------------------------------------------------

    def _on_pointed(self, head: Head | None) -> None:
        self._pointed = head
        if self.view.seen is not None and "attention" in self.view.seen.arrays:
            self._paint(self.view.seen)

    def _role(self, head: Head) -> HeadRole | None:
        names = self._names
        if names is None or head[0] >= len(names.scores) or head[1] >= names.scores.shape[1]:
            return None
        return role_of(names.scores[head])

    def _measure(self) -> None:
        self.name_button.setEnabled(False)
        self.name_button.setText("Measuring…")
        loaded = self._names_of = self._tools.desk.loader.loaded
        self._tools.desk.inside.name_heads(
            self._take_names,
            self._fail_names,
            still=lambda: self._tools.desk.loader.loaded is loaded,
        )

    def _take_names(self, names: HeadNames) -> None:
        self._names = names
        self._end_measuring()
        self.refresh()

    def _fail_names(self, sentence: str) -> None:
        self._end_measuring()
        self.notes.setText(sentence)
        self.notes.setVisible(True)

    def _end_measuring(self) -> None:
        self.name_button.setEnabled(True)
        self.name_button.setText("Name heads")
        self.name_button.setVisible(self._names is None)
