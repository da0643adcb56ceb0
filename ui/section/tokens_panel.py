"""*Tokens*: every token of the reply in a table, its figures, and what else was on the table."""

from __future__ import annotations

from PySide6.QtCore import QItemSelectionModel, QModelIndex, Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import (
    QAbstractItemView,
    QHBoxLayout,
    QHeaderView,
    QLabel,
    QLineEdit,
    QSplitter,
    QTableView,
    QVBoxLayout,
    QWidget,
)

from app.insight.totals import totals
from ui.icon_button import IconButton
from ui.section.alternatives import AlternativesTable
from ui.section.panel import Panel, Tools
from ui.section.token_model import TokenModel

_CAPTION = "Recorded as it was written. Probabilities before samplers, at temperature 1."


class TokensPanel(Panel):
    title = "Tokens"

    def __init__(self, tools: Tools, parent: QWidget | None = None) -> None:
        super().__init__(tools, parent)
        theme, looking = tools.theme, tools.looking
        self._is_following = False
        self.setObjectName("panel_tokens")
        self.figures = QLabel(self)
        self.figures.setObjectName("token_figures")
        self.figures.setProperty("kind", "small")
        self.figures.setWordWrap(True)
        self.caption = QLabel(_CAPTION, self)
        self.caption.setProperty("kind", "small")
        self.caption.setWordWrap(True)
        self.filter = QLineEdit(self)
        self.filter.setObjectName("token_filter")
        self.filter.setPlaceholderText("Find a piece or an ID")
        self.filter.setAccessibleName("Find a piece or an ID")
        self.filter.setClearButtonEnabled(False)
        self.uncertain_button = IconButton(
            theme, "target", "Go to the most uncertain token", parent=self
        )
        self.uncertain_button.setObjectName("most_uncertain_button")
        self.copy_button = IconButton(theme, "copy", "Copy the table as CSV", parent=self)
        self.copy_button.setObjectName("copy_csv_button")
        self.model = TokenModel()
        self.table = self._make_table()
        self.alternatives = AlternativesTable(theme, self)
        self._build()
        self.filter.textChanged.connect(self._on_filter)
        self.uncertain_button.clicked.connect(looking.go_to_most_uncertain)
        self.copy_button.clicked.connect(self.copy_csv)
        self.table.selectionModel().currentRowChanged.connect(self._on_row)
        theme.changed.connect(self._fit)
        self._fit()

    def _make_table(self) -> QTableView:
        table = QTableView(self)
        table.setObjectName("token_table")
        table.setAccessibleName("Tokens of the reply")
        table.setModel(self.model)
        table.setShowGrid(False)
        table.setSortingEnabled(True)
        table.sortByColumn(0, Qt.SortOrder.AscendingOrder)
        table.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
        table.setSelectionMode(QAbstractItemView.SelectionMode.SingleSelection)
        table.setTabKeyNavigation(False)
        table.setWordWrap(False)
        table.verticalHeader().hide()
        header = table.horizontalHeader()
        header.setHighlightSections(False)
        header.setSectionResizeMode(QHeaderView.ResizeMode.Interactive)
        header.setStretchLastSection(True)
        return table

    def _build(self) -> None:
        self._row = QHBoxLayout()
        self._row.addWidget(self.filter, 1)
        self._row.addWidget(self.uncertain_button)
        self._row.addWidget(self.copy_button)
        self._halves = QSplitter(Qt.Orientation.Vertical, self)
        self._halves.setChildrenCollapsible(False)
        self._halves.addWidget(self.table)
        self._halves.addWidget(self.alternatives)
        self._halves.setStretchFactor(0, 3)
        self._halves.setStretchFactor(1, 2)
        self._column = QVBoxLayout(self)
        self._column.setContentsMargins(0, 0, 0, 0)
        self._column.addWidget(self.figures)
        self._column.addLayout(self._row)
        self._column.addWidget(self._halves, 1)
        self._column.addWidget(self.caption)

    def _fit(self) -> None:
        px = self._theme.px
        self._column.setSpacing(px(8))
        self._row.setSpacing(px(4))
        self.table.setFont(self._theme.font_small())
        self.table.verticalHeader().setMinimumSectionSize(px(20))
        self.table.verticalHeader().setDefaultSectionSize(px(24))
        self.table.horizontalHeader().setFont(self._theme.font_small())
        self.table.horizontalHeader().setMinimumSectionSize(px(30))
        for column, width in enumerate((44, 84, 58, 66, 52, 80, 72)):
            self.table.setColumnWidth(column, px(width))

    def copy_csv(self) -> None:
        """The table as it stands: order and filter too."""
        QGuiApplication.clipboard().setText(self.model.as_csv())

    # --- following ------------------------------------------------------------------------------

    def _refresh_message(self) -> None:
        self.model.show(self._looking.traces)
        self._say()

    def _refresh_trace(self) -> None:
        bar = self.table.verticalScrollBar()
        was_at_end = bar.value() >= bar.maximum()
        if self.model.holds(self._looking.traces):
            self.model.grow()
        else:
            self.model.show(self._looking.traces)
        if was_at_end and self._looking.is_growing and self._looking.index is None:
            self.table.scrollToBottom()
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
        self.alternatives.candidates.show(self._looking.token, self._looking.words)

    def _refresh_words(self) -> None:
        self.alternatives.candidates.show(self._looking.token, self._looking.words)

    def _say(self) -> None:
        found = totals(self._looking.traces)
        self.figures.setText(
            self._looking.sentence
            if found is None
            else (
                f"{found.n_tokens:,} tokens · mean log-probability {found.mean_logprob:.2f} nat · "
                f"perplexity {found.perplexity:.2f} · mean entropy {found.mean_entropy:.2f} bit · "
                f"{found.tokens_per_s:.1f} tokens/s"
            )
        )
        self.copy_button.setEnabled(found is not None)
        self.uncertain_button.setEnabled(found is not None)

    def _on_filter(self, text: str) -> None:
        self.model.set_filter(text)
        self._refresh_token()

    def _on_row(self, current: QModelIndex, _previous: QModelIndex) -> None:
        if current.isValid() and not self._is_following:
            self._looking.select(self.model.place_of(current.row()))
