"""*Many seeds*: one prompt, drawn again and again, and how often each token came where the replies
first differ, beside how often it should.

A row is a token; Enter follows it to where the replies that chose it part again, Backspace goes
back. It can be stopped at any time, and what has been counted stays.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from PySide6.QtCore import QModelIndex, QPersistentModelIndex, QRectF, QSize, Qt, Signal
from PySide6.QtGui import QColor, QKeyEvent, QPainter
from PySide6.QtWidgets import (
    QAbstractItemView,
    QDialog,
    QHBoxLayout,
    QHeaderView,
    QStyledItemDelegate,
    QStyleOptionViewItem,
    QTableWidget,
    QTableWidgetItem,
    QVBoxLayout,
    QWidget,
)

from app.chat.events import EngineStateChanged, SeedsCounted
from app.chat.inspection.seeds import COUNTS, LENGTHS
from app.insight.sampling.outcomes import Outcome, Outcomes
from app.insight.trace.tokens_shown import visible
from ui.look.theme import Theme
from ui.widgets.combo import Combo
from ui.widgets.elided import ElidedLabel
from ui.widgets.kit import plain_label, push_button

if TYPE_CHECKING:
    from app.bridge import Bridge
    from app.chat.desk import Desk

SHARE: Final = 2
COLUMNS: Final = ("Token", "Came", "Share", "Expected", "Model")
HINTS: Final = (
    "Enter: where the replies that chose it part again",
    "How many replies have this token here",
    "Of the replies that came this far",
    "Its probability at the draw, after the sampling chain; ± one standard deviation",
    "Its probability before the sampling chain, at temperature 1",
)
IDLE: Final = "Draws replies to this prompt with random seeds. None of them is kept."
ALL_SAME: Final = "All {n} agree up to token {place}."
DIFFER: Final = "First difference at token {place}, in {n} replies."
UNSEEN: Final = " Tokens that didn't come: {share} expected."
FOLLOWED: Final = "After “{text}”: "
LEAST_UNSEEN: Final = 0.0005
_SAID_CHARS: Final = 120
END: Final = "(end)"
_BAR_PX: Final = 72
_ALIGNED: Final = (
    Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter,
    Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter,
)


class _ShareDelegate(QStyledItemDelegate):
    """A share as a bar behind its figure, and the expected one as a mark on it."""

    def __init__(self, theme: Theme, parent: QWidget) -> None:
        super().__init__(parent)
        self._theme = theme

    def sizeHint(
        self, option: QStyleOptionViewItem, index: QModelIndex | QPersistentModelIndex
    ) -> QSize:
        return super().sizeHint(option, index).expandedTo(QSize(self._theme.px(_BAR_PX), 0))

    def paint(
        self,
        painter: QPainter,
        option: QStyleOptionViewItem,
        index: QModelIndex | QPersistentModelIndex,
    ) -> None:
        super().paint(painter, option, index)
        share, expected = index.data(Qt.ItemDataRole.UserRole) or (0.0, None)
        colors, px = self._theme.colors, self._theme.px
        room = QRectF(option.rect).adjusted(px(4), 0, -px(4), -px(2))
        bar = QRectF(room.left(), room.bottom() - px(3), room.width(), px(3))
        painter.fillRect(bar, QColor(colors.line))
        bar.setWidth(room.width() * min(share, 1.0))
        painter.fillRect(bar, QColor(colors.accent))
        if expected is not None:
            x = room.left() + room.width() * min(expected, 1.0)
            painter.fillRect(QRectF(x - px(1), bar.top() - px(3), px(2), px(6)), QColor(colors.ink))


class _Table(QTableWidget):
    """Enter follows a row, Backspace goes back."""

    entered_row = Signal()
    left_row = Signal()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            self.entered_row.emit()
        elif event.key() == Qt.Key.Key_Backspace:
            self.left_row.emit()
        else:
            super().keyPressEvent(event)


class SeedsWindow(QDialog):
    """`version_wanted`: the message and the seed of a row, to be generated as a version."""

    version_wanted = Signal(str, int)

    def __init__(
        self, desk: Desk, bridge: Bridge, theme: Theme, parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self._desk = desk
        self._theme = theme
        self._message_id = ""
        self._prefixes: list[tuple[int, ...]] = []
        self._rows: tuple[Outcome, ...] = ()
        self.setObjectName("seeds_window")
        self.setWindowTitle("Many seeds")
        self.setModal(False)
        self._make()
        self._build()
        bridge.on(SeedsCounted, self._on_counted)
        bridge.on(EngineStateChanged, self._show)
        self.start_button.clicked.connect(self._on_start)
        self.back.clicked.connect(self.go_back)
        self.follow.clicked.connect(self.follow_row)
        self.version.clicked.connect(self._on_version)
        self.table.itemSelectionChanged.connect(self._follow_selection)
        self.table.cellDoubleClicked.connect(lambda _row, _column: self.follow_row())

    def _make(self) -> None:
        theme = self._theme
        self.question = ElidedLabel("")
        self.question.setProperty("kind", "dim")
        self.count = self._choice("seeds_count", "Number of seeds", COUNTS, "{} seeds")
        self.length = self._choice("seeds_length", "Tokens of each reply", LENGTHS, "{} tokens")
        self.start_button = push_button("Start", self, "seeds_start", kind="primary")
        self.progress = plain_label("", self, "small", name="seeds_progress")
        self.where = plain_label("", self, name="seeds_where", wraps=True)
        self.table = _Table(0, len(COLUMNS), self)
        self.table.setObjectName("seeds_table")
        self.table.setAccessibleName("Outcomes")
        self.table.entered_row.connect(self.follow_row)
        self.table.left_row.connect(self.go_back)
        for column, (name, hint) in enumerate(zip(COLUMNS, HINTS, strict=True)):
            item = QTableWidgetItem(name)
            item.setToolTip(hint)
            item.setTextAlignment(_ALIGNED[column > 0])
            self.table.setHorizontalHeaderItem(column, item)
        self.back = push_button("Back", self, "seeds_back", hint="Backspace")
        self.follow = push_button("Follow token", self, "seeds_follow", hint="Enter")
        self.version = push_button(
            "Generate as version",
            self,
            "seeds_version",
            hint="A whole reply with the first seed that drew this token",
        )
        self.caption = plain_label("", self, "small", name="seeds_caption", wraps=True)
        theme.font(self.table, Theme.font_small)

    def _choice(self, name: str, spoken: str, values: tuple[int, ...], words: str) -> Combo:
        choice = Combo(self._theme, self)
        choice.setObjectName(name)
        choice.setAccessibleName(spoken)
        for value in values:
            choice.addItem(words.format(value), value)
        choice.setCurrentIndex(len(values) - 2)
        return choice

    def _build(self) -> None:
        head = QHBoxLayout()
        for widget in (self.count, self.length, self.start_button):
            head.addWidget(widget)
        head.addWidget(self.progress, 1)
        foot = QHBoxLayout()
        for widget in (self.back, self.follow, self.version):
            foot.addWidget(widget)
        foot.addStretch(1)
        column = QVBoxLayout(self)
        column.addWidget(self.question)
        column.addLayout(head)
        column.addWidget(self.where)
        column.addWidget(self.table, 1)
        column.addLayout(foot)
        column.addWidget(self.caption)
        self._theme.space(column, 10, margins=(16, 12))
        self._theme.space(head, 8)
        self._theme.space(foot, 8)
        self.table.setItemDelegateForColumn(SHARE, _ShareDelegate(self._theme, self.table))
        self.table.verticalHeader().hide()
        self.table.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
        self.table.setSelectionMode(QAbstractItemView.SelectionMode.SingleSelection)
        self.table.setEditTriggers(QAbstractItemView.EditTrigger.NoEditTriggers)
        self.table.setShowGrid(False)
        header = self.table.horizontalHeader()
        header.setSectionResizeMode(QHeaderView.ResizeMode.ResizeToContents)
        header.setSectionResizeMode(0, QHeaderView.ResizeMode.Stretch)
        header.setHighlightSections(False)
        self._theme.changed.connect(self._fit)
        self._fit()

    def _fit(self) -> None:
        """Rows as high as their text and its bar; never smaller than what is to be read."""
        px = self._theme.px
        self.table.verticalHeader().setDefaultSectionSize(
            self.table.fontMetrics().height() + px(14)
        )
        wanted = QSize(px(560), px(460))
        screen = self.screen().availableSize()
        self.resize(self.size().expandedTo(wanted).boundedTo(screen))

    # --- acts -----------------------------------------------------------------------------------

    def open_for(self, message_id: str, question: str) -> None:
        """Of the answer to this message, or of what this reply answers."""
        if self._desk.seeds.is_running and message_id != self._message_id:
            self._desk.seeds.stop()
        if message_id != self._message_id:
            self._prefixes = []
        self._message_id = message_id
        self.question.set_text(" ".join(question[:300].split()))
        self._show()
        self.show()
        self.raise_()
        self.activateWindow()
        self.start_button.setFocus(Qt.FocusReason.OtherFocusReason)

    def _on_start(self) -> None:
        seeds = self._desk.seeds
        if seeds.is_running:
            seeds.stop()
            return
        self._prefixes = []
        sentence = seeds.start(
            self._message_id, self.count.currentData(), self.length.currentData()
        )
        self._show()
        if sentence:
            self.caption.setText(sentence)

    def follow_row(self) -> None:
        """Where those that chose this token part again."""
        row = self._selected()
        found = self._found()
        if row is None or row.is_end or found is None or not found.differs:
            return
        self._prefixes.append((*found.beginning, row.token_id))
        self._show()
        self.table.selectRow(0)

    def go_back(self) -> None:
        if self._prefixes:
            self._prefixes.pop()
            self._show()

    def _on_version(self) -> None:
        row = self._selected()
        if row is not None:
            self.version_wanted.emit(self._message_id, row.seed)

    def done(self, result: int) -> None:
        self._desk.seeds.stop()
        super().done(result)

    # --- showing --------------------------------------------------------------------------------

    def _on_counted(self, _event: SeedsCounted) -> None:
        if self.isVisible():
            self._show()

    def _is_mine(self) -> bool:
        """Whether what is counted is of this prompt."""
        return self._desk.seeds.is_of(self._message_id)

    def _found(self) -> Outcomes | None:
        prefix = self._prefixes[-1] if self._prefixes else ()
        return self._desk.seeds.outcomes(prefix) if self._is_mine() else None

    def _selected(self) -> Outcome | None:
        at = self.table.currentRow()
        return self._rows[at] if 0 <= at < len(self._rows) else None

    def _show(self) -> None:
        seeds = self._desk.seeds
        is_running = seeds.is_running
        has_weights = self._desk.loader.state.loaded is not None
        self.start_button.setText("Stop" if is_running else "Start")
        self.start_button.setEnabled(is_running or has_weights)
        for choice in (self.count, self.length):
            choice.setEnabled(not is_running)
        is_mine = self._is_mine()
        self.progress.setText(f"{seeds.n_over} of {seeds.n_wanted}" if is_mine else "")
        found = self._found()
        chosen = self._selected()
        self._rows = found.rows if found is not None else ()
        self._fill(found)
        self._select(chosen)
        self._say(found, seeds.sentence if is_mine else "", has_weights=has_weights)
        self._follow_selection()

    def _fill(self, found: Outcomes | None) -> None:
        self.table.setRowCount(len(self._rows))
        for place, row in enumerate(self._rows):
            assert found is not None
            name = END if row.is_end else visible(row.piece)
            expected = "–"
            if row.expected is not None:
                expected = f"{row.expected:.1%} ± {found.stray(row.expected):.1%}"
            model = "–" if row.model is None else f"{row.model:.1%}"
            texts = (name, f"{row.count:,}", f"{row.share:.1%}", expected, model)
            for column, text in enumerate(texts):
                item = QTableWidgetItem(text)
                item.setTextAlignment(_ALIGNED[column > 0])
                item.setToolTip(HINTS[column])
                if column == SHARE:
                    item.setData(Qt.ItemDataRole.UserRole, (row.share, row.expected))
                self.table.setItem(place, column, item)

    def _select(self, chosen: Outcome | None) -> None:
        """The same token, wherever it stands now."""
        ids = [row.token_id for row in self._rows]
        if chosen is not None and chosen.token_id in ids:
            self.table.selectRow(ids.index(chosen.token_id))
        elif self._rows and self.table.currentRow() < 0:
            self.table.selectRow(0)

    def _say(self, found: Outcomes | None, sentence: str, *, has_weights: bool) -> None:
        if found is None:
            self.where.setText("")
        else:
            words = DIFFER if found.differs else ALL_SAME
            said = words.format(place=f"{found.position + 1:,}", n=found.n)
            unseen = found.unseen if found.differs else None
            is_some = unseen is not None and unseen >= LEAST_UNSEEN
            more = UNSEEN.format(share=f"{unseen:.1%}") if is_some else ""
            text = found.said.decode("utf-8", "replace")
            text = ("…" if len(text) > _SAID_CHARS else "") + text[-_SAID_CHARS:].strip()
            after = FOLLOWED.format(text=text) if text else ""
            self.where.setText(after + (said[:1].lower() + said[1:] if after else said) + more)
        self.where.setVisible(found is not None)
        self.caption.setText(sentence or (IDLE if has_weights else "Load a model first."))

    def _follow_selection(self) -> None:
        row, found = self._selected(), self._found()
        may = row is not None and not row.is_end and found is not None and found.differs
        self.follow.setEnabled(may)
        self.back.setEnabled(bool(self._prefixes))
        self.version.setEnabled(row is not None and not self._desk.replies.is_generating)
