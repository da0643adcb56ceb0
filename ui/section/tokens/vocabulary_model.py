"""The vocabulary as an item model: all of it, or what a search has found so far."""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from PySide6.QtCore import QModelIndex, QPersistentModelIndex, Qt

from app.engine.protocol.pieces import Pieces
from app.insight.trace.tokens_shown import hexadecimal, visible
from ui.widgets.figures import signed
from ui.widgets.table_model import TableModel

if TYPE_CHECKING:
    from app.gguf.vocabulary import FileVocabulary

Index = QModelIndex | QPersistentModelIndex

COLUMNS: Final = ("ID", "Token", "Bytes", "Type", "Score")
ID, TOKEN, BYTES, TYPE, SCORE = range(len(COLUMNS))
RANK: Final = "Rank"
_HINTS: Final = (
    "Its number in the vocabulary",
    "Text of the token; · is a space, ↵ a line break",
    "Bytes of the text, in hexadecimal",
    "Type in the vocabulary: normal text, control token, single byte, …",
    "",
)
_SCORE_HINT: Final = "SentencePiece joins the neighbours with the best score first"
_RANK_HINT: Final = (
    "Order of the merge that makes the token; BPE starts with 0, the most common pair"
)


class VocabularyModel(TableModel):
    columns, numbers = COLUMNS, frozenset({ID, SCORE})

    def __init__(self) -> None:
        super().__init__()
        self._pieces: Pieces | None = None
        self._file: FileVocabulary | None = None
        self._ids: array[int] | None = None

    def show(self, pieces: Pieces | None) -> None:
        """All of a vocabulary; None: there is none."""
        if pieces is not self._pieces:
            self._file = None
        self.beginResetModel()
        self._pieces, self._ids = pieces, None
        self.endResetModel()

    def show_found(self) -> None:
        """Nothing, until something is found."""
        self.beginResetModel()
        self._ids = array("i")
        self.endResetModel()

    def add_found(self, ids: Iterable[int]) -> None:
        more = array("i", ids)
        if self._ids is None or not more:
            return
        first = len(self._ids)
        self.beginInsertRows(QModelIndex(), first, first + len(more) - 1)
        self._ids.extend(more)
        self.endInsertRows()

    def set_file(self, file: FileVocabulary | None) -> None:
        """Scores and merges, which the engine does not tell."""
        self._file = file
        self.headerDataChanged.emit(Qt.Orientation.Horizontal, SCORE, SCORE)
        if self.rowCount():
            last = self.index(self.rowCount() - 1, SCORE)
            self.dataChanged.emit(self.index(0, SCORE), last)

    def id_of(self, row: int) -> int:
        return row if self._ids is None else self._ids[row]

    def row_of(self, token_id: int) -> int | None:
        if self._ids is None:
            return token_id if 0 <= token_id < self.rowCount() else None
        return self._ids.index(token_id) if token_id in self._ids else None

    def cell(self, token_id: int, column: int) -> str:
        if self._pieces is None:
            return ""
        match column:
            case 0:
                return str(token_id)
            case 1:
                return visible(self._pieces.piece(token_id))
            case 2:
                return hexadecimal(self._pieces.piece(token_id))
            case 3:
                return self._pieces.kind(token_id) or ""
            case _:
                return self._score(token_id)

    def _score(self, token_id: int) -> str:
        """Empty for a token that no merge makes."""
        file = self._file
        if file is None or token_id >= len(file.tokens):
            return ""
        if file.merges:
            rank = file.rank_of_token[token_id]
            return f"{rank:,}" if rank >= 0 else ""
        return score_text(file.scores[token_id]) if token_id < len(file.scores) else ""

    @property
    def _has_ranks(self) -> bool:
        return self._file is not None and bool(self._file.merges)

    # --- Qt -------------------------------------------------------------------------------------

    def rowCount(self, parent: Index = QModelIndex()) -> int:  # noqa: B008
        if parent.isValid() or self._pieces is None:
            return 0
        return len(self._pieces) if self._ids is None else len(self._ids)

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        if role == Qt.ItemDataRole.DisplayRole:
            return self.cell(self.id_of(index.row()), index.column())
        if role == Qt.ItemDataRole.ToolTipRole and index.column() in (TOKEN, BYTES):
            return self.cell(self.id_of(index.row()), index.column())
        if role == Qt.ItemDataRole.TextAlignmentRole:
            return self.alignment(index.column())
        return None

    def heading(self, column: int) -> str:
        return RANK if column == SCORE and self._has_ranks else COLUMNS[column]

    def hint(self, column: int) -> str:
        if column == SCORE:
            return _RANK_HINT if self._has_ranks else _SCORE_HINT
        return _HINTS[column]


def score_text(score: float) -> str:
    """
    >>> score_text(-1234567.0), score_text(0.5)
    ('−1234567', '0.5')
    """
    return signed(score, ".0f" if score == int(score) else ".4g")
