"""The matrix of the attention card: it asks for the rows of a layer, and tells formulas.

Rows are asked for one at a time and drawn as they come; the last one, the selected token's, is
there at once. What must hold: rows, labels and head always belong together.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
from PySide6.QtWidgets import QVBoxLayout, QWidget

from app.amounts import percent
from app.chat.inspection.inside import ReadText, Seen
from app.insight.inside.attention_matrix import AttentionMatrix, Cell, HeadRow, first_seen
from app.insight.trace.tokens_shown import quoted
from ui.section.card import small_label
from ui.section.inside.layers.attention_matrix import MatrixView
from ui.section.inside.view import InsideView
from ui.section.panel import Tools

Values = npt.NDArray[np.float32]

CHOOSE: Final = "Click a head below to see its matrix."
STRIPED: Final = "Striped: outside this layer's window."
PLAIN: Final = (
    "Not weighted by values: this layer's window hides some of them from the selected token."
)
NO_FORMULA: Final = (
    "q · k ÷ √d doesn't give this share: this model bends, scales or rounds its scores."
)


class Meant(NamedTuple):
    """What of a layer is shown: a head, or the mean of all (None)."""

    layer: int
    head: int | None
    hides_sink: bool = False
    weighs_values: bool = False


class MatrixPane(QWidget):
    """Asks for the rows of the layer that is meant, and shows them. Hidden it asks nothing."""

    def __init__(self, tools: Tools, view: InsideView, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._tools = tools
        self._view = view
        self._key: tuple[object, ...] = ()
        self._meant: Meant | None = None
        self._shares: Values = np.zeros((0, 0), np.float32)
        self._cells: npt.NDArray[np.int64] = np.zeros((0, 0), np.int64)
        self._failure = ""
        self.matrix: AttentionMatrix | None = None
        self.picture = MatrixView(tools.theme, self)
        self.note = small_label("", self)
        self.note.setObjectName("inside_attention_matrix_note")
        rows = QVBoxLayout(self)
        rows.setContentsMargins(0, 0, 0, 0)
        tools.theme.space(rows, 4)
        rows.addWidget(self.picture)
        rows.addWidget(self.note)
        self.picture.row_chosen.connect(self._go_to_row)

    # --- asking ---------------------------------------------------------------------------------

    def stop(self) -> None:
        """It is out of sight: no row is wanted any more."""
        if self._key:
            self._key = ()
            self._tools.desk.inside.stop_rows()

    def show_meant(self, seen: Seen, meant: Meant | None) -> None:
        """Of the token that is looked at."""
        text, place = self._view.text, self._view.place
        if text is None or place is None:
            return
        self._meant = meant
        self.picture.setVisible(meant is not None)
        if meant is None:
            self.stop()
            self._say(CHOOSE)
            return
        key = (text, place, meant.layer, id(self._tools.desk.loader.loaded))
        if key != self._key and seen.is_whole:
            self._begin(text, seen, meant.layer, key)
        elif key != self._key:
            self.stop()
            self.picture.set_pending(True)  # what is there is another token's, or layer's
            return
        self._draw()

    def _begin(self, text: ReadText, seen: Seen, layer: int, key: tuple[object, ...]) -> None:
        self._key, self._failure = key, ""
        attention = np.asarray(seen.arrays["attention"][layer], np.float32)
        norms = seen.arrays.get("value_norms")
        # They are those of the tokens that this one sees; rows before it see others in a window.
        is_known = norms is not None and first_seen(attention) == 0
        found = np.asarray(norms[layer], np.float32) if norms is not None and is_known else None
        self.matrix = made = AttentionMatrix(seen.place, found)
        if np.isfinite(attention).all():
            made.put(seen.place, HeadRow(attention))
        rows = [self._view.piece(place) for place in made.places]
        before = [self._view.piece(0), "…"][: made.n_before]
        self.picture.show_labels(rows, [*before, *rows], made.n_before)
        # From the first on: each token is then replayed behind the one before it.
        self._ask(text, list(made.places), layer, key)

    def _ask(self, text: ReadText, places: list[int], layer: int, key: tuple[object, ...]) -> None:
        """One after the other, so that nothing is asked for that is no longer wanted."""
        if not places:
            return

        def take(row: HeadRow) -> None:
            assert self.matrix is not None
            self.matrix.put(places[0], row)
            self._draw()
            self._ask(text, places[1:], layer, key)

        self._tools.desk.inside.row_at(
            text, places[0], layer, take, self._fail, still=lambda: self._key == key
        )

    def _fail(self, sentence: str) -> None:
        self._failure = sentence
        self._draw()

    # --- what is shown --------------------------------------------------------------------------

    def _draw(self) -> None:
        matrix, meant = self.matrix, self._meant
        if matrix is None or meant is None:
            return
        self._cells = matrix.cells
        self._shares = matrix.shares(
            meant.head, hides_sink=meant.hides_sink, weighs_values=meant.weighs_values
        )
        self.picture.set_pending(False)
        self.picture.show_cells(self._shares, self._cells, self._words)
        notes = [self._failure] if self._failure else []
        if (self._cells == Cell.OUTSIDE).any():
            notes.append(STRIPED)
        if meant.weighs_values and not matrix.has_norms:
            notes.append(PLAIN)
        self._say(" ".join(notes))

    def _say(self, words: str) -> None:
        self.note.setText(words)
        self.note.setVisible(bool(words))

    def _go_to_row(self, row: int) -> None:
        if self.matrix is not None and row < len(self.matrix):
            self._view.go_to(self.matrix.places[row])

    def _words(self, row: int, column: int) -> str:
        """Of a cell, with the formula that makes its share."""
        matrix, meant = self.matrix, self._meant
        if matrix is None or meant is None:
            return ""
        who = quoted(self._view.piece(matrix.places[row]))
        start, end = matrix.spans[column]
        whom = quoted(self._view.piece(start))
        if end - start > 1:
            whom = f"tokens {start + 1:,} to {end:,}"
        kind = Cell(int(self._cells[row, column]))
        if kind is Cell.LATER:
            return f"{whom} comes after {who}, so it can't be seen yet"
        if kind is Cell.OUTSIDE:
            return f"{whom} is outside this layer's window for {who}"
        if kind is Cell.UNREAD:
            return f"{who} → {whom}: waiting for the model"
        share = float(self._shares[row, column])
        lines = [f"{who} looks at {whom}: {percent(share)}"]
        if meant.head is None:
            return f"{lines[0]}\nMean of the layer's heads"
        return "\n".join(lines + self._formula(matrix, meant, meant.head, row, column))

    def _formula(
        self, matrix: AttentionMatrix, meant: Meant, head: int, row: int, column: int
    ) -> list[str]:
        """From query and key to the share, a line for each step."""
        plain = matrix.shares(head)[row]
        share, lines = float(plain[column]), []
        if column >= matrix.n_before and matrix.has_query(row):
            found = matrix.formula(head, row, column)
            if found is None:
                lines.append(NO_FORMULA)
            else:
                s, root = found.score, np.sqrt(found.d)
                lines += [
                    f"s = q · k ÷ √{found.d} = {found.product:.2f} ÷ {root:.4g} = {s:.3f}",
                    f"e^s ÷ Σ e^s = e^({s:.3f} − {found.total:.3f}) = {percent(share)}",
                ]
        shown = plain
        if meant.weighs_values and matrix.has_norms:
            shown = matrix.shares(head, weighs_values=True)[row]
            norm = matrix.norm(head, column)
            if norm is not None and shown[column] > 0:
                total = share * norm / float(shown[column])
                lines.append(
                    f"{percent(share)} · ‖v·W_O‖ {norm:.3g} ÷ Σ {total:.3g} = "
                    f"{percent(float(shown[column]))}"
                )
        if meant.hides_sink and column:
            lines.append(
                f"{percent(float(shown[column]))} ÷ (100% − {percent(float(shown[0]))} on the "
                f"first token) = {percent(float(self._shares[row, column]))}"
            )
        return lines
