"""*Cut*: parts of the network to take out, and the reply written again without them, from here on.

What is cut is replaced by its mean over the prompt, which is kinder than zero: a head that writes
nothing is something that the layers behind it have never met. Beside the reply with the cut stand
the same with nothing cut, and one with as many other parts cut, chosen by chance: what only the
first one does differently is about the parts that were chosen.
"""

from __future__ import annotations

from typing import Final, get_args

from PySide6.QtCore import QRectF
from PySide6.QtGui import QColor, QPainter
from PySide6.QtWidgets import QHBoxLayout, QWidget

from app.amounts import bytes_words
from app.chat.inspection.inside import Seen
from app.engine.protocol.cut_messages import Cut, CutKind, CutMode
from app.insight.inside.attention import group_of
from app.insight.inside.cuts import cut_words
from ui.look.theme import Theme
from ui.section.card import small_label
from ui.section.inside.card import InsideCard
from ui.section.inside.rows import LEFT, RIGHT, PaintedRows, elided
from ui.section.inside.view import InsideView
from ui.section.panel import Tools
from ui.section.segments import Segments
from ui.widgets.combo import Combo
from ui.widgets.kit import push_button

KINDS: Final[dict[CutKind, str]] = {
    "head": "Head",
    "kv_head": "KV head",
    "attention": "Attention",
    "ffn": "FFN",
    "layer": "Layer",
}
MODES: Final = dict(zip(get_args(CutMode), ("Mean", "Zero"), strict=True))
HELP: Final = (
    "“Mean” replaces a part's output with its average over the prompt. “Zero” removes it, which "
    "later layers have never seen. Nothing is cut for the text before this token. The control cuts "
    "as many other parts, chosen at random."
)
CHOOSE: Final = "Select a layer or head above, then add it."
NOT_HERE: Final = "Choose a token of the reply. The prompt can't be rewritten."
TAKES: Final = "Uses up to {size} more memory, freed after a minute without use."
_REMOVE_PX: Final = 60


class PartRows(PaintedRows):
    """What will be cut, a row each; a click takes one out again."""

    def __init__(self, theme: Theme, parent: QWidget) -> None:
        super().__init__(theme, "inside_cut_parts", parent, can_choose=True)
        self.parts: list[Cut] = []

    def show_parts(self, parts: list[Cut]) -> None:
        self.parts = parts
        self.choose(None)
        self.set_rows(len(parts))
        self.setAccessibleName("Parts to cut: " + "; ".join(map(cut_words, parts)))

    def paint_row(self, painter: QPainter, row: int, rect: QRectF) -> None:
        colors, px = self._theme.colors, self._theme.px
        painter.setPen(QColor(colors.ink))
        room = rect.adjusted(0, 0, -px(_REMOVE_PX), 0)
        elided(painter, room, cut_words(self.parts[row]), LEFT)
        painter.setPen(QColor(colors.dim))
        painter.drawText(rect, RIGHT, "Remove")


class CutCard(InsideCard):
    title_words = "Cut"
    name = "cut"
    needs = ("logits",)
    wants = ("attention", "k_after")
    help_words = HELP

    def __init__(self, tools: Tools, view: InsideView, parent: QWidget | None = None) -> None:
        super().__init__(tools, view, parent)
        theme = tools.theme
        self.parts: list[Cut] = []
        self.kind = Combo(theme, self.content)
        self.kind.setObjectName("inside_cut_kind")
        self.kind.setMinimumContentsLength(7)
        self.kind.setAccessibleName("What to cut")
        for kind, words in KINDS.items():
            self.kind.addItem(words, kind)
        self.add_button = push_button("Add", self.content, "inside_cut_add")
        self.clear_button = push_button("Clear", self.content, "inside_cut_clear")
        self.mode = Segments(theme, list(MODES.values()), "What takes its place", self.content)
        self.mode.setObjectName("inside_cut_mode")
        self.table = PartRows(theme, self.content)
        self.sentence = small_label(CHOOSE, self.content)
        self.sentence.setObjectName("inside_cut_sentence")
        self.write_button = push_button(
            "Rewrite without them",
            self.content,
            "inside_cut_write",
            hint="Three versions from here on: nothing cut, these parts cut, and a random control",
        )
        self._lay_out()
        self.table.row_chosen.connect(self._remove)
        self.add_button.clicked.connect(lambda _=False: self._add())
        self.clear_button.clicked.connect(lambda _=False: self._set([]))
        self.write_button.clicked.connect(lambda _=False: self._write())
        self.kind.currentIndexChanged.connect(lambda _at: self._say())
        view.layer_changed.connect(self._say)
        view.head_changed.connect(self._say)
        self._set([])

    def _lay_out(self) -> None:
        theme = self._tools.theme
        top, middle, bottom = QHBoxLayout(), QHBoxLayout(), QHBoxLayout()
        top.addWidget(self.kind)
        top.addWidget(self.add_button, 1)
        middle.addWidget(self.sentence, 1)
        middle.addStretch()
        middle.addWidget(self.clear_button)
        bottom.addWidget(self.mode)
        bottom.addStretch(1)
        bottom.addWidget(self.write_button)
        theme.space(top, 6)
        theme.space(middle, 6)
        theme.space(bottom, 6)
        self.rows.addLayout(top)
        self.rows.addWidget(self.table)
        self.rows.addLayout(middle)
        self.rows.addLayout(bottom)
        for button in (self.add_button, self.clear_button, self.write_button):
            button.setAutoDefault(False)
            theme.font(button, Theme.font_small)
        theme.font(self.kind, Theme.font_small)

    # --- what is chosen -------------------------------------------------------------------------

    def show_figure(self, seen: Seen | None) -> None:
        count = len(self.parts)
        self.figure.set_text(f"{count} part{'' if count == 1 else 's'}" if count else "")

    def show_seen(self, seen: Seen) -> None:
        self._say()

    @property
    def _chosen(self) -> Cut | None:
        """What *Add* would add: of the layer and head that are selected in the panel."""
        view, kind = self.view, self.kind.currentData()
        if view.layer is None or (kind in ("head", "kv_head") and view.head is None):
            return None
        if kind == "head":
            return Cut("head", view.layer, view.head or 0)
        if kind == "kv_head":
            arrays = {} if view.seen is None else view.seen.arrays
            if "attention" not in arrays or "k_after" not in arrays:
                return None
            n_head, n_kv_head = arrays["attention"].shape[1], arrays["k_after"].shape[1]
            return Cut("kv_head", view.layer, group_of(view.head or 0, n_head, n_kv_head))
        return Cut(kind, view.layer)

    def choose(self, part: Cut) -> None:
        """This part alone, from another card."""
        self.set_open(True)
        self._set([part])

    def _add(self) -> None:
        part = self._chosen
        if part is not None and part not in self.parts:
            self._set([*self.parts, part])

    def _remove(self, row: int) -> None:
        self._set([part for at, part in enumerate(self.parts) if at != row])

    def _set(self, parts: list[Cut]) -> None:
        self.parts = parts
        self.table.show_parts(parts)
        self.table.setVisible(bool(parts))
        self.show_figure(self.view.seen)
        self._say()

    def _say(self) -> None:
        part = self._chosen
        self.add_button.setEnabled(part is not None and part not in self.parts)
        self.add_button.setText("Add" if part is None else f"Add {cut_words(part)}")
        self.clear_button.setVisible(bool(self.parts))
        is_reply = self.view.index is not None
        self.write_button.setEnabled(bool(self.parts) and is_reply)
        words = self._takes() if is_reply else NOT_HERE
        self.sentence.setText(words if self.parts else CHOOSE)
        self.sentence.setVisible(bool(self.sentence.text()))

    def _takes(self) -> str:
        """What the button will take, before it is pressed."""
        text, place = self.view.text, self.view.place
        if text is None or place is None or not self.parts:
            return ""
        size_bytes = self._tools.desk.cuts.takes_bytes(text.message_id, place + 1)
        return TAKES.format(size=bytes_words(size_bytes)) if size_bytes else ""

    def _write(self) -> None:
        text, index = self.view.text, self.view.index
        if text is not None and index is not None and self.parts:
            mode = list(MODES)[max(self.mode.currentIndex(), 0)]
            self._tools.desk.cuts.run(text.message_id, index, list(self.parts), mode)
