"""Logit bias by text: each entry with the IDs that its text stands for, a number, or a ban."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, Protocol

import msgspec
from PySide6.QtCore import Signal
from PySide6.QtWidgets import QHBoxLayout, QLineEdit, QVBoxLayout, QWidget
from shiboken6 import isValid

from app.chat.surroundings import Still
from app.engine.protocol.bounds import BadSetting, check_number
from app.engine.protocol.messages import Tokens
from app.engine.protocol.pieces import Pieces
from app.engine.protocol.stage_rules import BIAS
from app.engine.protocol.stages import TokenBias
from app.insight.trace.tokens_shown import visible
from ui.look.theme import Theme
from ui.section.drag_number import DragNumber
from ui.section.switch import Switch
from ui.section.term_label import term_label
from ui.widgets.elided import ElidedLabel
from ui.widgets.icon_button import IconButton
from ui.widgets.kit import plain_label


class Tokenize(Protocol):
    """A text, who takes its tokens, who is told why there are none, and whether they are wanted
    still."""

    def __call__(
        self,
        text: str,
        then: Callable[[Tokens], None],
        failed: Callable[[str], None],
        /,
        *,
        still: Still,
    ) -> object: ...


FIELD_PX: Final = 56
_MOST_DIGITS: Final = 20
"""Of “#ID”: a longer number is no ID of anything."""
EMPTY: Final = "No biases yet. Type text to add one; a leading space matters."


class BiasEditor(QWidget):
    """`changed`: the new list of entries. `refused`: why a number cannot be used, until it can."""

    changed = Signal(object)
    refused = Signal(str)

    def __init__(
        self, theme: Theme, tokenize: Tokenize, parent: QWidget, *, is_editable: bool = True
    ) -> None:
        super().__init__(parent)
        self._theme = theme
        self._tokenize = tokenize
        self._is_editable = is_editable
        self._entries: list[TokenBias] = []
        self._rows: list[QWidget] = []
        self._numbers: list[DragNumber] = []
        self._refused: dict[int, str] = {}
        self._ids: list[ElidedLabel] = []
        self._pieces: Pieces | None = None
        self.text = QLineEdit(self)
        self.text.setObjectName("bias_text")
        self.text.setAccessibleName("Text to bias")
        self.text.setPlaceholderText("Text, or #ID")
        self.text.setToolTip("Press Return to add. “#42” is the token with ID 42.")
        self.add_button = IconButton(theme, "plus", "Add this text", parent=self)
        self.add_button.setObjectName("bias_add_button")
        self.empty = term_label(EMPTY, self, "small", wraps=True)
        self._top = QHBoxLayout()
        self._top.addWidget(self.text, 1)
        self._top.addWidget(self.add_button)
        self._column = QVBoxLayout(self)
        self._column.setContentsMargins(0, 0, 0, 0)
        self._column.addLayout(self._top)
        self._column.addWidget(self.empty)
        self.text.setVisible(is_editable)
        self.add_button.setVisible(is_editable)
        self.text.returnPressed.connect(self._add)
        self.add_button.clicked.connect(self._add)
        theme.space(self._column, 4)
        theme.space(self._top, 4)

    def show_biases(self, entries: Sequence[TokenBias]) -> None:
        if list(entries) == self._entries and (self._rows or not entries):
            return
        same = [(e.token_id, e.text) for e in entries] == [
            (e.token_id, e.text) for e in self._entries
        ]
        self._entries = list(entries)
        if same:
            for at, (number, entry) in enumerate(zip(self._numbers, entries, strict=True)):
                if at not in self._refused and not number.is_dragging:
                    number.show_value(entry.bias)
            return
        for row in self._rows:
            row.hide()
            row.deleteLater()
        self._numbers.clear()
        self._ids.clear()
        self._refused.clear()
        self.refused.emit("")
        self._rows = [self._row(at, entry) for at, entry in enumerate(self._entries)]
        self.empty.setVisible(not self._rows)

    def _row(self, at: int, entry: TokenBias) -> QWidget:
        row = QWidget(self)
        row.setObjectName(f"bias_{at}")
        line = QHBoxLayout(row)
        line.setContentsMargins(0, 0, 0, 0)
        shown = visible(entry.text.encode()) if entry.text is not None else f"ID {entry.token_id}"
        name = ElidedLabel(shown, row)
        self._theme.font(name, Theme.font_mono, 12)
        ids = ElidedLabel("", row)
        ids.setObjectName("bias_ids")
        ids.setProperty("kind", "small")
        self._ids.append(ids)
        bias = DragNumber(is_whole=False, step=0.5, bounds=(BIAS.low, BIAS.high), parent=row)
        bias.setObjectName("bias_number")
        bias.setAccessibleName(f"Bias of {shown}, added to the logit")
        bias.setEnabled(self._is_editable and not entry.ban)
        bias.show_value(entry.bias)
        self._theme.keep(bias, DragNumber.set_least_width, FIELD_PX)
        bias.taken_back.connect(partial(self._take_back, at))
        self._numbers.append(bias)
        ban = Switch(self._theme, f"Ban {shown}", row)
        ban.setObjectName("bias_ban")
        ban.setChecked(entry.ban)
        ban.setEnabled(self._is_editable)
        gone = IconButton(self._theme, "x", f"Remove {shown}", parent=row)
        gone.setObjectName("bias_remove_button")
        gone.setVisible(self._is_editable)
        line.setSpacing(self._theme.px(4))
        words = QVBoxLayout()
        words.setSpacing(0)
        words.addWidget(name)
        words.addWidget(ids)
        line.addLayout(words, 1)
        word = plain_label("ban", row, "small")
        for widget in (bias, word, ban, gone):
            line.addWidget(widget)
        bias.changed_by_user.connect(partial(self._on_number, at))
        ban.clicked.connect(lambda is_on: self._change(at, "ban", is_on))
        ban.toggled.connect(bias.setDisabled)
        gone.clicked.connect(
            lambda: self._tell([e for n, e in enumerate(self._entries) if n != at])
        )
        self._column.addWidget(row)
        row.show()
        if entry.text is not None:
            self._tokenize(
                entry.text,
                partial(_show_ids, ids),
                ids.set_text,
                still=partial(isValid, ids),  # its entry may be taken out meanwhile
            )
        else:
            self._show_piece(at)
        return row

    def show_pieces(self, pieces: Pieces | None) -> None:
        """What IDs stand for in the loaded vocabulary, where that is known."""
        if pieces is not self._pieces:
            self._pieces = pieces
            for at in range(len(self._ids)):
                self._show_piece(at)

    def _show_piece(self, at: int) -> None:
        token_id = self._entries[at].token_id
        if token_id is not None:
            piece = self._pieces.piece(token_id) if self._pieces is not None else b""
            self._ids[at].set_text(f"“{visible(piece)}”" if piece else "")

    def _add(self) -> None:
        text = self.text.text()
        if not text:
            return
        is_id = text.startswith("#") and text[1:].isdecimal() and len(text) <= _MOST_DIGITS
        entry = TokenBias(token_id=int(text[1:])) if is_id else TokenBias(text=text)
        self._tell([*self._entries, entry])
        if entry in self._entries:  # else it was refused, and stays to be mended
            self.text.clear()

    def _on_number(self, at: int, value: object) -> None:
        try:
            check_number(value, "Logit bias", "", BIAS)
        except BadSetting as refused:
            self._refuse(at, refused.sentence)
        else:
            self._refuse(at, "")
            self._change(at, "bias", value)
            self.refused.emit(next(iter(self._refused.values()), ""))

    def _refuse(self, at: int, sentence: str) -> None:
        if sentence:
            self._refused[at] = sentence
        else:
            self._refused.pop(at, None)
        self._numbers[at].show_refused(bool(sentence))
        self.refused.emit(next(iter(self._refused.values()), ""))

    def _take_back(self, at: int) -> None:
        self._refuse(at, "")
        self._numbers[at].show_value(self._entries[at].bias)

    def _change(self, at: int, attribute: str, value: object) -> None:
        entry = msgspec.structs.replace(self._entries[at], **{attribute: value})
        self._tell([*self._entries[:at], entry, *self._entries[at + 1 :]])

    def _tell(self, entries: list[TokenBias]) -> None:
        self.changed.emit(entries)


def _show_ids(label: ElidedLabel, tokens: Tokens) -> None:
    """Every token of the text gets the bias: that is worth seeing where it is several."""
    ids = ", ".join(str(token_id) for token_id in tokens.token_ids)
    pieces = " ".join(visible(piece) for piece in tokens.pieces)
    many = len(tokens.token_ids) != 1
    one = f"ID {ids}" if ids else "no token, so it has no effect"
    label.set_text(f"each of IDs {ids}" if many and ids else one)
    label.setAccessibleName(f"{label.text()}: {pieces}. Each token gets the bias.")
