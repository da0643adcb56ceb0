"""*This reply*: its tokens in a table, the figures of the whole, and what else was on the table."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Final

from PySide6.QtCore import QItemSelectionModel, QModelIndex, QPoint, Qt, Signal
from PySide6.QtGui import QGuiApplication, QKeyEvent, QKeySequence, QResizeEvent
from PySide6.QtWidgets import (
    QAbstractItemView,
    QHBoxLayout,
    QHeaderView,
    QLineEdit,
    QMenu,
    QSplitter,
    QTableView,
    QVBoxLayout,
    QWidget,
)

from app.insight.trace.alternatives import NO_ID
from app.insight.trace.message_tokens import drafted_of, n_taken_over
from app.insight.trace.tokens_shown import bits_text, visible
from app.insight.trace.totals import RunningTotals, Totals, speeds
from ui.look.icons import icon
from ui.section.card import Card, column_px, show_rows, small_label, tighten
from ui.section.heading_terms import HeadingTerms
from ui.section.panel import Panel, Tools
from ui.section.plain_cells import PlainCells
from ui.section.tokens.alternatives import FEWEST_ROWS, Alternatives
from ui.section.tokens.model import (
    CHOSEN,
    COLUMNS,
    DRAFTED,
    ID,
    INSERTED,
    NUMBER,
    RANK,
    TOKEN,
    TokenModel,
    heading_lines,
)
from ui.section.tokens.speed_plot import SpeedPlot
from ui.widgets.figures import signed
from ui.widgets.icon_button import IconButton

CAPTION: Final = "Recorded live. Probabilities before samplers, at temperature 1."
TOLD: Final = "Tokens and probabilities as {engine} told them. Times are {times}."
LOW_PX: Final = 600
_USUAL_VOCABULARY: Final = 99_999


class TokenTable(QTableView):
    """`copy_wanted`: by Ctrl+C. `menu_wanted`: at which place of the table."""

    copy_wanted = Signal()
    menu_wanted = Signal(QPoint)

    def __init__(self, model: TokenModel, parent: QWidget) -> None:
        super().__init__(parent)
        self.setObjectName("token_table")
        self.setAccessibleName("Tokens of the reply")
        self.setModel(model)
        self.setShowGrid(False)
        self.setSortingEnabled(True)
        self.sortByColumn(0, Qt.SortOrder.AscendingOrder)
        self.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
        self.setSelectionMode(QAbstractItemView.SelectionMode.SingleSelection)
        self.setTabKeyNavigation(False)
        self.setWordWrap(False)
        self.setHorizontalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        self.setContextMenuPolicy(Qt.ContextMenuPolicy.CustomContextMenu)
        self.customContextMenuRequested.connect(self.menu_wanted)
        self.verticalHeader().hide()
        header = self.horizontalHeader()
        header.setHighlightSections(False)
        header.setSectionResizeMode(QHeaderView.ResizeMode.Interactive)
        header.setStretchLastSection(True)
        header.sectionResized.connect(self._on_resized)
        HeadingTerms(self)
        self._widths: tuple[int, ...] = ()
        self._is_sharing = self._is_users = False

    def set_widths(self, widths: Sequence[int]) -> None:
        """Of the columns, in pixels; that of the pieces is the least that they have."""
        if tuple(widths) != self._widths:
            self._widths, self._is_users = tuple(widths), False
            self._share_room()

    def _share_room(self) -> None:
        """As many columns as there is room for are seen whole: pieces have what these leave."""
        if self._is_users or not self._widths:
            return
        room, whole = self.viewport().width(), list(accumulate(self._widths))
        left = room - max((width for width in whole if width <= room), default=room)
        self._is_sharing = True
        for column, width in enumerate(self._widths):
            is_grown = column == TOKEN and room < whole[-1]
            self.setColumnWidth(column, width + left if is_grown else width)
        self._is_sharing = False

    def _on_resized(self, column: int, _before: int, _now: int) -> None:
        if not self._is_sharing and column < len(self._widths) - 1:
            self._is_users = True  # by hand; the last one stretches by itself

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._share_room()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.matches(QKeySequence.StandardKey.Copy):
            self.copy_wanted.emit()
        else:
            super().keyPressEvent(event)


class ReplyTokens(Panel):
    """`vocabulary_wanted`: to look an ID up."""

    title = "This reply"

    vocabulary_wanted = Signal(int)

    def __init__(self, tools: Tools, parent: QWidget | None = None) -> None:
        super().__init__(tools, parent)
        self._is_following = False
        self._is_at_end = True
        self._plot_follows = True
        self._totals = RunningTotals()
        self.setObjectName("reply_tokens")
        self.model = TokenModel()
        self._make()
        self._build()
        self.filter.textChanged.connect(self._on_filter)
        self.uncertain_button.clicked.connect(self._looking.go_to_most_uncertain)
        self.copy_button.clicked.connect(self.copy_csv)
        self.plot_button.toggled.connect(self.plot.setVisible)
        self.plot_button.clicked.connect(self._on_plot_clicked)
        self.table.copy_wanted.connect(self.copy_csv)
        self.table.menu_wanted.connect(self._open_menu)
        self.table.selectionModel().currentRowChanged.connect(self._on_row)
        self.table.horizontalHeader().sortIndicatorChanged.connect(self._on_sorted)
        bar = self.table.verticalScrollBar()
        bar.valueChanged.connect(self._on_scrolled)
        bar.rangeChanged.connect(self._stay_at_end)
        self._theme.changed.connect(self._fit)
        self._theme.space(self._column, 8)
        self._theme.space(self._row, 4)
        self._fit()

    # --- building -------------------------------------------------------------------------------

    def _make(self) -> None:
        theme = self._theme
        self.certainty = Card(theme, "Certainty", self)
        self.certainty.figure.setObjectName("perplexity_figure")
        self.certainty.setToolTip(
            "How certain the model was of this text, before samplers. Perplexity: the number of "
            "equally likely tokens that would be as hard to guess."
        )
        self.figures = small_label("", self.certainty, name="token_figures")
        self.certainty.body.addWidget(self.figures)
        self.speed = Card(theme, "Speed", self)
        self.speed.figure.setObjectName("speed_figure")
        self.speed.setToolTip(
            "Decode speed in tokens per second, without the first token, which waits for prefill."
        )
        self.plot = SpeedPlot(theme, self.speed)
        self.plot_button = IconButton(
            theme, "chart-line", "Tokens per second over time", parent=self.speed
        )
        self.plot_button.setObjectName("speed_plot_button")
        self.plot_button.setCheckable(True)
        self.plot_button.setChecked(True)
        self.speed.head.addWidget(self.plot_button)
        self.speed.body.addWidget(self.plot)
        self.filter = QLineEdit(self)
        self.filter.setObjectName("token_filter")
        self.filter.setPlaceholderText("Find text or ID")
        self.filter.setAccessibleName("Find text or ID")
        self.uncertain_button = IconButton(
            theme, "target", "Go to the least certain token", parent=self
        )
        self.uncertain_button.setObjectName("most_uncertain_button")
        self.copy_button = IconButton(theme, "copy", "Copy the table as CSV", parent=self)
        self.copy_button.setObjectName("copy_csv_button")
        self.table = TokenTable(self.model, self)
        self.table.setItemDelegate(PlainCells(theme, self.model, self.table))
        self.alternatives = Alternatives(self._tools, self)
        self.caption = small_label(CAPTION, self)

    def _build(self) -> None:
        self._row = QHBoxLayout()
        self._row.addWidget(self.filter, 1)
        self._row.addWidget(self.uncertain_button)
        self._row.addWidget(self.copy_button)
        self._halves = QSplitter(Qt.Orientation.Vertical, self)
        self._halves.setProperty("kind", "unseen")
        self._halves.setChildrenCollapsible(False)
        self._halves.addWidget(self.table)
        self._halves.addWidget(self.alternatives)
        self._halves.setStretchFactor(0, 3)
        self._halves.setStretchFactor(1, 2)
        self._column = QVBoxLayout(self)
        self._column.setContentsMargins(0, 0, 0, 0)
        self._column.addWidget(self.certainty)
        self._column.addWidget(self.speed)
        self._column.addLayout(self._row)
        self._column.addWidget(self._halves, 1)
        self._column.addWidget(self.caption)

    def _fit(self) -> None:
        colors = self._theme.colors
        self.model.signs = {
            CHOSEN: icon("hand-pointing", colors.accent),
            DRAFTED: icon("lightning", colors.dim),
            INSERTED: icon("brain", colors.dim),
        }
        tighten(self.table, self._theme)
        show_rows(self.table, FEWEST_ROWS)
        self._fit_columns()

    def _fit_columns(self) -> None:
        """As wide as their headings and cells, in the fonts of now."""
        words, count = self._looking.words, len(self._looking.traces)
        largest = max(_USUAL_VOCABULARY, 0 if words is None else len(words))
        widest = {NUMBER: f"{max(10, count):,}", ID: str(largest), RANK: f"{largest:,}"}
        self.table.set_widths(
            [
                column_px(self._theme, heading_lines(at), *column.widest, widest.get(at, ""))
                for at, column in enumerate(COLUMNS)
            ]
        )

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Where it is low the table comes first, until the user says otherwise."""
        super().resizeEvent(event)
        if self._plot_follows:
            self.plot_button.setChecked(self.height() >= self._theme.px(LOW_PX))

    def _on_plot_clicked(self) -> None:
        self._plot_follows = False

    # --- copying --------------------------------------------------------------------------------

    def copy_csv(self) -> None:
        """The table as it stands: order and filter too."""
        QGuiApplication.clipboard().setText(self.model.as_csv())

    def _open_menu(self, at: QPoint) -> None:
        menu = QMenu(self)
        menu.setObjectName("token_menu")
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        token = self._looking.token
        if token is not None:
            text = token.piece.decode("utf-8", "replace")
            name = visible(token.piece)
            menu.addAction(
                f"Copy “{name}”", lambda: QGuiApplication.clipboard().setText(text)
            ).setObjectName("copy_token")
            if self._looking.words is not None:
                menu.addAction(
                    f"Show “{name}” in the vocabulary",
                    lambda: self.vocabulary_wanted.emit(token.token_id),
                ).setObjectName("show_in_vocabulary")
        if self.copy_button.isEnabled():
            menu.addAction("Copy the table as CSV", self.copy_csv).setObjectName("copy_table")
            menu.addAction("Go to the least certain token", self._looking.go_to_most_uncertain)
        menu.popup(self.table.viewport().mapToGlobal(at))

    # --- following ------------------------------------------------------------------------------

    def _refresh_message(self) -> None:
        self._totals = RunningTotals()
        self.model.show(self._looking.traces)
        self._is_at_end = True
        self._fit_columns()
        self._say()

    def _refresh_trace(self) -> None:
        if self.model.holds(self._looking.traces):
            self.model.grow()
        else:
            self._totals = RunningTotals()
            self.model.show(self._looking.traces)
        self.model.set_words(self._looking.words)
        self._fit_columns()
        self._say()
        self._refresh_token()

    def _refresh_token(self) -> None:
        row = self.model.row_of(self._looking.index)
        selection = self.table.selectionModel()
        current = selection.currentIndex()
        self._is_following = True
        if row is None:
            selection.clear()
        elif not current.isValid() or current.row() != row or not selection.hasSelection():
            index = self.model.index(row, 0)
            flags = QItemSelectionModel.SelectionFlag
            selection.setCurrentIndex(index, flags.ClearAndSelect | flags.Rows)
            self.table.scrollTo(index)
        self._is_following = False
        self.alternatives.show_token(self._looking.token, self._looking.words)

    def _refresh_words(self) -> None:
        self.model.set_words(self._looking.words)
        self._fit_columns()
        self.alternatives.show_token(self._looking.token, self._looking.words)

    def _say(self) -> None:
        self._totals.follow(self._looking.traces)
        message = self._looking.message
        taken_over = 0 if message is None else n_taken_over(message)
        found = self._totals.totals(taken_over)
        self.speed.setVisible(found is not None and found.tokens_per_s is not None)
        drafted = drafted_of(self._looking.traces, taken_over)
        self.plot.show_speeds(speeds(self._totals.times[taken_over:], drafted=drafted))
        self.caption.setText(self._caption() + _of_others(taken_over))
        self.copy_button.setEnabled(found is not None)
        self.uncertain_button.setEnabled(found is not None)
        if found is None:
            self.certainty.figure.set_text("")
            self.figures.setText(self._looking.sentence)
            return
        self.certainty.figure.set_text(
            f"{found.n_tokens:,} token{'' if found.n_tokens == 1 else 's'} · "
            f"perplexity {found.perplexity:.2f}"
        )
        if found.tokens_per_s is not None:
            self.speed.figure.set_text(f"{found.tokens_per_s:.1f} tokens/s")
        self.figures.setText(_figures(found))

    def _caption(self) -> str:
        """How the figures were had; of a server's reply also what is not known of them."""
        writer, traces = self._looking.writer, self._looking.traces
        if writer is None:
            return CAPTION
        times = "its own" if writer.has_timings else "those of their arrival here"
        told = TOLD.format(engine=writer.words, times=times)
        if not len(traces):
            return ""
        first = traces[0]
        lacking = [
            words
            for words, is_lacking in (
                ("IDs", first.token_id == NO_ID),
                ("ranks", first.rank is None),
                ("entropies", first.entropy is None),
            )
            if is_lacking
        ]
        names = " and ".join([", ".join(lacking[:-1]), lacking[-1]] if lacking[1:] else lacking)
        return f"{told} It doesn't tell {names}." if lacking else told

    def _on_scrolled(self, value: int) -> None:
        self._is_at_end = value >= self.table.verticalScrollBar().maximum()

    def _stay_at_end(self, _minimum: int, maximum: int) -> None:
        """New rows of a reply that grows come into view, unless the reader is elsewhere."""
        if self._is_at_end and self._looking.is_growing and self._looking.index is None:
            self.table.verticalScrollBar().setValue(maximum)

    def _on_filter(self, text: str) -> None:
        self.model.set_filter(text)
        self._refresh_token()

    def _on_sorted(self) -> None:
        """From the first row on, or where the chosen token is now."""
        self._refresh_token()
        row = self.model.row_of(self._looking.index)
        if row is None:
            self.table.scrollToTop()
        else:
            self.table.scrollTo(self.model.index(row, 0))

    def _on_row(self, current: QModelIndex, _previous: QModelIndex) -> None:
        if current.isValid() and not self._is_following:
            self._looking.select(self.model.place_of(current.row()))


def _of_others(count: int) -> str:
    if not count:
        return ""
    first = "The first token is" if count == 1 else f"The first {count:,} tokens are"
    return f" {first} from the version this one was branched from; the speed covers the rest."


def _figures(found: Totals) -> str:
    logprob = signed(found.mean_logprob)
    told = f"mean log-probability {logprob} nats"
    if found.mean_entropy is None:
        return told
    return f"{told} · mean entropy {bits_text(found.mean_entropy)} bits"
