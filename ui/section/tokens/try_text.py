"""*Try a text*: how the loaded vocabulary cuts any text, and the merges that lead there.

Asked of the engine, 150 ms after the last key. An answer that is overtaken by another key is
dropped.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from PySide6.QtCore import QModelIndex, Qt, Signal
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QPlainTextEdit, QSplitter, QVBoxLayout, QWidget

from app.chat.events import EngineStateChanged, VocabularyRead
from app.engine.protocol.messages import Tokens
from app.engine.protocol.pieces import Pieces
from app.insight.trace.tokens_shown import hexadecimal, visible
from ui.chat.message_edit import whole_text
from ui.look.theme import Theme
from ui.section.card import Card, set_alone, small_label
from ui.section.chips import Chip, ChipView
from ui.section.panel import Panel, Tools
from ui.section.tokens.merge_steps import MergeSteps
from ui.widgets.check_box import CheckBox
from ui.widgets.icon_button import IconButton
from ui.widgets.kit import rest_timer

REST_MS: Final = 150
MAX_CHIPS: Final = 2000
EXAMPLE: Final = "The capital of France is"
EMPTY: Final = "Type or paste text above to see its tokens."
CHOOSE: Final = "Choose a token for details. Enter looks it up in the vocabulary."
READING: Final = "Reading merges from the file…"


class TryText(Panel):
    """`vocabulary_wanted`: to look an ID up, by Enter or a double click on its chip."""

    title = "Try a text"
    ability = "tokenize"

    vocabulary_wanted = Signal(int)

    def __init__(self, tools: Tools, parent: QWidget | None = None) -> None:
        super().__init__(tools, parent)
        self._asked = 0
        self._tokens: Tokens | None = None
        self._answered_by = ""
        self.setObjectName("try_text")
        self._timer = rest_timer(self, self._ask, REST_MS)
        self._make()
        self._build()
        self.text.textChanged.connect(self._timer.start)
        self.special.toggled.connect(lambda _: self._ask())
        self.copy_button.clicked.connect(self.copy_ids)
        self.chips.selectionModel().currentChanged.connect(self._on_chip)
        self.chips.activated.connect(self._on_activated)
        tools.bridge.on(EngineStateChanged, self._ask_again)
        tools.bridge.on(VocabularyRead, self._draw)
        self._theme.space(self._column, 8)
        self._theme.font(self.text, Theme.font_text)
        self._theme.size(self.text, height=84)
        self._theme.font(self.special, Theme.font_small)
        self._theme.at_least(self.chips, height=44)
        self._theme.at_least(self.tokens_card, height=130)
        self._theme.at_least(self.steps, height=236)
        self._theme.keep(self._halves, QSplitter.setHandleWidth, 8)
        self._halves.setProperty("plane", "none")

    # --- building -------------------------------------------------------------------------------

    def _make(self) -> None:
        theme = self._theme
        self.text = QPlainTextEdit(EXAMPLE, self)
        self.text.setObjectName("tokenise_text")
        self.text.setAccessibleName("Text to tokenise")
        self.text.setPlaceholderText("Text to tokenise")
        self.text.setTabChangesFocus(True)
        self.special = CheckBox(theme, "Parse control tokens", self)
        self.special.setObjectName("tokenise_special")
        self.special.setToolTip(
            "Treat text such as <|im_end|> as the control token, as chat templates do, instead "
            "of ordinary text"
        )
        self.tokens_card = Card(theme, "Tokens", self)
        self.tokens_card.figure.setObjectName("tokenise_figure")
        self.copy_button = IconButton(theme, "copy", "Copy the IDs", parent=self.tokens_card)
        self.copy_button.setObjectName("copy_ids_button")
        self.tokens_card.head.addWidget(self.copy_button)
        self.chips = ChipView(theme, "Tokens of the text", self.tokens_card)
        self.chips.setObjectName("tokenise_chips")
        self.detail = small_label("", self.tokens_card, name="tokenise_detail")
        self.steps = MergeSteps(theme, self)

    def _build(self) -> None:
        self.tokens_card.body.addWidget(self.chips, 1)
        self.tokens_card.body.addWidget(self.detail)
        self._halves = QSplitter(Qt.Orientation.Vertical, self)
        self._halves.setProperty("kind", "unseen")
        self._halves.setChildrenCollapsible(False)
        self._halves.addWidget(self.tokens_card)
        self._halves.addWidget(self.steps)
        self._halves.setStretchFactor(0, 1)
        self._halves.setStretchFactor(1, 1)
        self._halves.setSizes([1000, 1000])
        self._column = QVBoxLayout(self)
        self._column.setContentsMargins(0, 0, 0, 0)
        self._column.addWidget(self.text)
        self._column.addWidget(self.special)
        self._column.addWidget(self._halves, 1)

    # --- asking ---------------------------------------------------------------------------------

    def set_active(self, is_active: bool) -> None:
        was_active = self._is_active
        super().set_active(is_active)
        if is_active and not was_active:
            self._ask_again()

    def _ask_again(self) -> None:
        """Where there is no answer yet, or other weights could give another one."""
        is_answered = self._tokens is not None and self._answered_by == self._weights()
        if self._is_active and not is_answered:
            self._tools.desk.words.read()
            self._ask()

    def _weights(self) -> str:
        """What the loaded weights are known by."""
        loaded = self._tools.desk.loader.state.loaded
        return "" if loaded is None else loaded.fast_hash

    def _ask(self) -> None:
        self._timer.stop()
        self._asked += 1
        number, text, special = self._asked, whole_text(self.text), self.special.isChecked()
        if not text:
            self._take(Tokens([], []), text, special)
            return
        self._tools.desk.questions.tokenize(
            text,
            lambda tokens: self._take(tokens, text, special),
            self._fail,
            special=special,
            still=lambda: number == self._asked,
        )

    def _take(self, tokens: Tokens, text: str, special: bool) -> None:
        self._tokens, self._answered_by = tokens, self._weights()
        self._count(text, tokens)
        self._draw()
        if not tokens.token_ids:
            self.detail.setText(EMPTY)
            self.steps.say("")
            return
        number = self._asked
        if self.steps.sentence.text() == "":
            self.steps.say(READING)
        self._tools.desk.vocabulary.replay(
            text,
            tokens.token_ids,
            self.steps.show_replay,
            self.steps.say,
            special=special,
            still=lambda: number == self._asked,
        )

    def _fail(self, sentence: str) -> None:
        self._tokens = None
        self.tokens_card.figure.set_text("")
        self._show_chips(())
        self.copy_button.setEnabled(False)
        self.detail.setText(sentence)
        self.steps.say("")

    # --- showing --------------------------------------------------------------------------------

    def _count(self, text: str, tokens: Tokens) -> None:
        n_bytes, n_tokens = len(text.encode("utf-8", "replace")), len(tokens.token_ids)
        self.tokens_card.figure.set_text(
            f"{_many(n_tokens, 'token')} · {_many(len(text), 'character')} · "
            f"{_many(n_bytes, 'byte')}"
        )
        self.copy_button.setEnabled(bool(n_tokens))

    def _words(self) -> Pieces | None:
        return self._tools.desk.words.of(self._weights())

    def _draw(self) -> None:
        tokens, words = self._tokens, self._words()
        if tokens is None:
            return
        found = []
        for token_id, piece in zip(
            tokens.token_ids[:MAX_CHIPS], tokens.pieces[:MAX_CHIPS], strict=True
        ):
            kind = None if words is None else words.kind(token_id)
            below = str(token_id) if kind in (None, "normal") else f"{token_id} · {kind}"
            found.append(Chip(visible(piece), below, about(token_id, piece, kind)))
        left = len(tokens.token_ids) - len(found)
        if left > 0:
            found.append(
                Chip("…", f"{left:,} more", ("Not all tokens are shown, but all are counted"))
            )
        self._show_chips(found)
        self.detail.setText(
            "Choose a token for details. Enter looks it up in the vocabulary." if found else EMPTY
        )

    def _show_chips(self, chips: Sequence[Chip]) -> None:
        self.chips.show_chips(chips)
        self.chips.setVisible(bool(chips))
        set_alone(self.tokens_card.body, self.detail, not chips)

    def _on_chip(self, current: QModelIndex, _previous: QModelIndex) -> None:
        if current.isValid():
            self.detail.setText(self.chips.chips.chip(current.row()).hint)

    def _on_activated(self, index: QModelIndex) -> None:
        if self._tokens is not None and index.row() < len(self._tokens.token_ids[:MAX_CHIPS]):
            self.vocabulary_wanted.emit(self._tokens.token_ids[index.row()])

    def copy_ids(self) -> None:
        """As a list that programs read."""
        if self._tokens is not None:
            QGuiApplication.clipboard().setText(str(list(self._tokens.token_ids)))


def about(token_id: int, piece: bytes, kind: str | None) -> str:
    """One token in a line.

    >>> about(260, b" the", "normal")
    '“·the” · ID 260 · normal · 4 bytes: 20 74 68 65'
    """
    parts = [f"“{visible(piece)}”", f"ID {token_id}", *([kind] if kind else [])]
    return " · ".join((*parts, f"{_many(len(piece), 'byte')}: {hexadecimal(piece)}"))


def _many(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"
