"""*Vocabulary*: all tokens of the loaded weights, searched; and IDs that become text.

A search over 262,144 tokens runs in slices, so that no key waits for it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from PySide6.QtCore import QTimer
from PySide6.QtGui import QFontMetrics
from PySide6.QtWidgets import (
    QAbstractItemView,
    QHeaderView,
    QLineEdit,
    QPlainTextEdit,
    QTableView,
    QVBoxLayout,
    QWidget,
)

from app.chat.events import EngineStateChanged, VocabularyRead
from app.chat.inspection.questions import NO_WEIGHTS
from app.engine.protocol.pieces import Pieces
from app.insight.tokenizer.vocabulary_search import parse_ids, search
from ui.look.theme import Theme
from ui.section.card import Card, column_px, show_rows, small_label, tighten
from ui.section.heading_terms import HeadingTerms
from ui.section.panel import Panel, Tools
from ui.section.tokens.vocabulary_model import (
    BYTES,
    COLUMNS,
    ID,
    SCORE,
    TOKEN,
    TYPE,
    VocabularyModel,
)
from ui.widgets.kit import rest_timer

if TYPE_CHECKING:
    from app.gguf.vocabulary import FileVocabulary

REST_MS: Final = 150
SLICE_S: Final = 0.006
MAX_IDS: Final = 20_000

READING: Final = "Reading the vocabulary…"
NO_IDS: Final = "Paste IDs such as 1 2 3 or [1, 2, 3] to see their text."
_KINDS: Final = {
    "gpt2": "byte-level BPE",
    "llama": "SentencePiece",
    "t5": "Unigram",
    "bert": "WordPiece",
}
_WIDEST: Final = {TOKEN: ("·government",), BYTES: ("e2 96 81 41",), TYPE: ("normal",)}
"""What is seen whole in a column; kinds that are longer are seen by scrolling."""
_USUAL_VOCABULARY: Final = 99_999


class VocabularyBrowser(Panel):
    title = "Vocabulary"
    ability = "vocabulary"

    def __init__(self, tools: Tools, parent: QWidget | None = None) -> None:
        super().__init__(tools, parent)
        self._pieces: Pieces | None = None
        self._wanted: int | None = None
        self._is_done = True
        self._found: Iterator[int | None] = iter(())
        self.setObjectName("vocabulary_browser")
        self.model = VocabularyModel()
        self._rest = rest_timer(self, self._search, REST_MS)
        self._slices = QTimer(self)
        self._slices.setInterval(0)
        self._slices.timeout.connect(self._search_on)
        self._make()
        self._build()
        self.search.textChanged.connect(self._rest.start)
        self.search.returnPressed.connect(self._search)
        self.ids.textChanged.connect(self._spell)
        tools.bridge.on(VocabularyRead, self._follow)
        tools.bridge.on(EngineStateChanged, self._follow)
        self._theme.changed.connect(self._fit)
        self._theme.space(self._column, 8)
        self._theme.font(self.ids_text, Theme.font_small)
        self._fit()
        self._spell()

    # --- building -------------------------------------------------------------------------------

    def _make(self) -> None:
        self.card = Card(self._theme, "Vocabulary", self)
        self.card.figure.setObjectName("vocabulary_figure")
        self.search = QLineEdit(self.card)
        self.search.setObjectName("vocabulary_search")
        self.search.setAccessibleName("Search the vocabulary by text, ID or bytes")
        self.search.setPlaceholderText("Text, ID, or bytes (0x20, E2 82 AC)")
        self.search.setToolTip(
            "Text in the token (· or a space for a space), a token ID, or bytes in hexadecimal. "
            "Uppercase letters make the search case-sensitive."
        )
        self.table = QTableView(self.card)
        self.table.setObjectName("vocabulary_table")
        self.table.setAccessibleName("Vocabulary tokens")
        self.table.setModel(self.model)
        self.table.setShowGrid(False)
        self.table.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
        self.table.setSelectionMode(QAbstractItemView.SelectionMode.SingleSelection)
        self.table.setTabKeyNavigation(False)
        self.table.setWordWrap(False)
        self.table.setHorizontalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        rows = self.table.verticalHeader()
        rows.hide()
        rows.setSectionResizeMode(QHeaderView.ResizeMode.Fixed)
        columns = self.table.horizontalHeader()
        columns.setHighlightSections(False)
        columns.setStretchLastSection(True)
        HeadingTerms(self.table)
        self.sentence = small_label("", self.card, name="vocabulary_caption")
        self.ids_card = Card(self._theme, "IDs to text", self)
        self.ids_card.figure.setObjectName("ids_figure")
        self.ids = QLineEdit(self.ids_card)
        self.ids.setObjectName("ids_field")
        self.ids.setAccessibleName("IDs to text")
        self.ids.setPlaceholderText("1 2 3 or [1, 2, 3]")
        self.ids.setMaxLength(1 << 20)
        self.ids_text = QPlainTextEdit(self.ids_card)
        self.ids_text.setObjectName("ids_text")
        self.ids_text.setAccessibleName("Text of the IDs")
        self.ids_text.setReadOnly(True)
        self.ids_text.setTabChangesFocus(True)
        self.ids_sentence = small_label(NO_IDS, self.ids_card, name="ids_sentence")

    def _build(self) -> None:
        self.card.body.addWidget(self.search)
        self.card.body.addWidget(self.table, 1)
        self.card.body.addWidget(self.sentence)
        self.ids_card.body.addWidget(self.ids)
        self.ids_card.body.addWidget(self.ids_text)
        self.ids_card.body.addWidget(self.ids_sentence)
        self._column = QVBoxLayout(self)
        self._column.setContentsMargins(0, 0, 0, 0)
        self._column.addWidget(self.card, 1)
        self._column.addWidget(self.ids_card)

    def _fit(self) -> None:
        px, font = self._theme.px, self._theme.font_small()
        tighten(self.table, self._theme)
        show_rows(self.table, 3)
        self._fit_columns()
        self.ids_text.setFixedHeight(3 * QFontMetrics(font).lineSpacing() + px(20))

    def _fit_columns(self) -> None:
        """As wide as their headings and cells, in the fonts of now. The last one stretches."""
        largest = max(_USUAL_VOCABULARY, 0 if self._pieces is None else len(self._pieces))
        widest = {**_WIDEST, ID: (str(largest),), SCORE: (f"{largest:,}",)}
        for column, heading in enumerate(COLUMNS):
            self.table.setColumnWidth(column, column_px(self._theme, heading, *widest[column]))

    # --- the vocabulary of the loaded weights ---------------------------------------------------

    def set_active(self, is_active: bool) -> None:
        was_active = self._is_active
        super().set_active(is_active)
        if is_active and not was_active:
            self._follow()

    def _follow(self) -> None:
        """Show what is loaded now; read it first if need be."""
        if not self._is_active:
            return
        desk, loaded = self._tools.desk, self._tools.desk.loader.state.loaded
        pieces = None if loaded is None else desk.words.of(loaded.fast_hash)
        if pieces is None:
            desk.words.read()
            self.sentence.setText(NO_WEIGHTS if loaded is None else READING)
        if pieces is self._pieces:
            return
        self._pieces = pieces
        self.model.show(pieces)
        self._fit_columns()
        self._slices.stop()
        if pieces is not None:
            self.sentence.setText("")
            desk.vocabulary.read(
                self._take_file,
                self.sentence.setText,
                still=lambda: pieces is self._pieces,  # no other weights were loaded
            )
            self._search()
        self._say()
        self._spell()
        if pieces is not None and self._wanted is not None:
            self.go_to(self._wanted)

    def _take_file(self, file: FileVocabulary) -> None:
        self.model.set_file(file)
        kind = _KINDS.get(file.model, file.model or "of unknown type")
        merges = f", {len(file.merges):,} merges" if file.merges else ""
        source = "ranks of merges" if file.merges else "scores"
        self.sentence.setText(
            f"{kind}{merges}. Text and types from llama.cpp, {source} from the file."
        )

    def go_to(self, token_id: int) -> None:
        """Show this token among all; later, if they are not read yet."""
        self._wanted = token_id
        if self._pieces is None:
            return
        self.search.clear()
        self._search()
        row, self._wanted = self.model.row_of(token_id), None
        if row is not None:
            index = self.model.index(row, 0)
            self.table.setCurrentIndex(index)
            self.table.scrollTo(index, QAbstractItemView.ScrollHint.PositionAtCenter)
            self.table.setFocus()

    # --- searching ------------------------------------------------------------------------------

    def _search(self) -> None:
        self._rest.stop()
        self._slices.stop()
        query = self.search.text()
        if self._pieces is None:
            return
        if not query:
            self.model.show(self._pieces)
            self._say()
            return
        self._found = search(self._pieces, query)
        self.model.show_found()
        self._search_on()
        if not self._is_done:
            self._slices.start()

    def _search_on(self) -> None:
        """Search for as long as the window may wait."""
        ends_at, found = time.perf_counter() + SLICE_S, []
        self._is_done = True
        for token_id in self._found:
            if token_id is not None:
                found.append(token_id)
            elif time.perf_counter() > ends_at:
                self._is_done = False
                break
        self.model.add_found(found)
        if self._is_done:
            self._slices.stop()
        self._say()

    def _say(self) -> None:
        if self._pieces is None:
            self.card.figure.set_text("")
            return
        n_all, n_shown = len(self._pieces), self.model.rowCount()
        has_all = not self.search.text() or n_all == n_shown
        self.card.figure.set_text(
            f"{n_all:,} tokens" if has_all else f"{n_shown:,} of {n_all:,} tokens"
        )

    # --- IDs to text ----------------------------------------------------------------------------

    def _spell(self) -> None:
        try:
            ids = parse_ids(self.ids.text())
        except ValueError as refused:
            self._show_spelled("", "", str(refused))
            return
        if self._pieces is None or not ids:
            self._show_spelled("", "", NO_IDS if self._pieces is not None else NO_WEIGHTS)
            return
        unknown = [token_id for token_id in ids if token_id >= len(self._pieces)]
        if unknown:
            last = len(self._pieces) - 1
            self._show_spelled("", "", f"{unknown[0]} isn't a token here: IDs go from 0 to {last}.")
            return
        data = b"".join(map(self._pieces.piece, ids[:MAX_IDS]))
        text = data.decode("utf-8", "replace")
        note = "" if "\ufffd" not in text else "� marks bytes that don't form a whole character."
        if len(ids) > MAX_IDS:
            note = f"Text of the first {MAX_IDS:,} only. {note}".strip()
        tokens = f"{len(ids):,} token{'' if len(ids) == 1 else 's'}"
        self._show_spelled(text, f"{tokens} · {len(data):,} bytes", note)

    def _show_spelled(self, text: str, figure: str, sentence: str) -> None:
        self.ids_text.setPlainText(text)
        self.ids_card.figure.set_text(figure)
        self.ids_sentence.setText(sentence)
        self.ids_sentence.setVisible(bool(sentence))
