"""A grammar or a JSON schema for replies, checked while it is written, with its fault underlined.

What must hold: only a text that can be used counts for the chat; one that cannot stays to be
mended, and what counted before goes on counting. Of each kind the text that was written is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final, Protocol

from PySide6.QtCore import QMimeData, Signal
from PySide6.QtGui import QColor, QFocusEvent, QTextCharFormat, QTextCursor, QTextFormat
from PySide6.QtWidgets import (
    QFrame,
    QPlainTextEdit,
    QSizePolicy,
    QTextEdit,
    QVBoxLayout,
    QWidget,
)

from app.chat.settings.resolved import Resolved
from app.chat.surroundings import Still
from app.engine.protocol.messages import MAX_GRAMMAR_BYTES, GrammarChecked
from ui.chat.message_edit import clean_text, whole_text
from ui.look.theme import Theme
from ui.section.sampling.stage_words import LEVELS
from ui.section.term_label import term_label
from ui.settings.fields import ChoiceField
from ui.widgets.kit import plain_label, rest_timer
from ui.widgets.utf16 import utf16_length

CHECK_AFTER_MS: Final = 400
MOST_LINES: Final = 24
"""Of more the text is scrolled."""
NONE: Final = "none"
GBNF: Final = "grammar"
SCHEMA: Final = "json_schema"
_HINTS: Final = {
    GBNF: 'root ::= "yes" | "no"',
    SCHEMA: '{"type": "object", "properties": {"city": {"type": "string"}}}',
}
STILL_BOUND: Final = "Until this is valid, the previous value stays in effect."
COUNTS_ALREADY: Final = "It is already in effect: replies fail until you fix or remove it."
STILL_FREE: Final = "Until this is valid, replies are unrestricted."
_SENTENCES: Final = {
    NONE: "Replies are unrestricted.",
    GBNF: "Every token must match this grammar (GBNF, starting with the rule “root”).",
    SCHEMA: "The reply is JSON that matches this schema.",
}


class Check(Protocol):
    """Asks the engine: grammar, schema, who takes the answer, who is told why there is none, and
    whether it is wanted still."""

    def __call__(
        self,
        grammar: str,
        json_schema: str,
        then: Callable[[GrammarChecked], None],
        failed: Callable[[str], None],
        /,
        *,
        still: Still,
    ) -> object: ...


class GrammarText(QPlainTextEdit):
    """Tab leaves it. `left`: the keyboard went elsewhere. `too_long`: so many characters were to be
    pasted; laying out a megabyte of them would hold the window up, and no grammar may be so long.
    """

    left = Signal()
    too_long = Signal(int)

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self.setObjectName("grammar_text")
        self.setTabChangesFocus(True)
        self.setLineWrapMode(QPlainTextEdit.LineWrapMode.NoWrap)

    def focusOutEvent(self, event: QFocusEvent) -> None:
        super().focusOutEvent(event)
        self.left.emit()

    def insertFromMimeData(self, source: QMimeData) -> None:
        length = len(source.text())
        if length > MAX_GRAMMAR_BYTES:
            self.too_long.emit(length)
        else:
            super().insertFromMimeData(source)

    def underline(self, line: int, column: int, wave: QColor, behind: QColor) -> None:
        """Mark the place, from there to the end of the word."""
        block = self.document().findBlockByNumber(line - 1)
        text = block.text()
        start = end = min(column - 1, len(text))
        while end < len(text) and (text[end].isalnum() or text[end] in "-_"):
            end += 1
        if end == start:
            end = min(start + 1, len(text))
        if end == start:  # the end of a line: the character before it
            start = max(start - 1, 0)
        cursor = QTextCursor(block)
        cursor.setPosition(block.position() + utf16_length(text[:start]))
        end = block.position() + utf16_length(text[:end])
        cursor.setPosition(end, QTextCursor.MoveMode.KeepAnchor)
        marked = QTextEdit.ExtraSelection()
        marked.cursor = cursor
        style = QTextCharFormat()
        style.setUnderlineStyle(QTextCharFormat.UnderlineStyle.WaveUnderline)
        style.setUnderlineColor(wave)
        style.setForeground(wave)
        marked.format = style
        whole = QTextEdit.ExtraSelection()
        whole.cursor = QTextCursor(block)
        tone = QTextCharFormat()
        tone.setBackground(behind)
        tone.setProperty(QTextFormat.Property.FullWidthSelection, True)
        whole.format = tone
        self.setExtraSelections([whole, marked])


class GrammarEditor(QFrame):
    """`changed(grammar, json_schema)`: what shall count; at most one of them says something."""

    changed = Signal(str, str)

    def __init__(self, theme: Theme, check: Check, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._check = check
        self._chat = ""
        self._texts = {GBNF: "", SCHEMA: ""}
        self._kept: dict[str, tuple[object, dict[str, str], bool]] = {}
        self._counting: tuple[str, str] = (NONE, "")
        self._level = ""
        self._is_dirty = False
        self._is_unchecked = False
        self._asked = 0
        self._is_showing = False
        self.setProperty("plane", "card")
        self.setObjectName("grammar_editor")
        self.setAccessibleName("Grammar for replies")
        self.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Minimum)
        self.title = term_label("Grammar", self, "strong")
        self.kind = ChoiceField(
            theme, [(NONE, "None"), (GBNF, "GBNF"), (SCHEMA, "JSON schema")], self
        )
        self.kind.setObjectName("grammar_kind")
        self.kind.name_choices("Grammar")
        self.kind.show_value(NONE)
        self.sentence = term_label("", self, "small", wraps=True)
        self.text = GrammarText(self)
        self.refusal = plain_label("", self, "refusal", name="grammar_refusal", wraps=True)
        self.refusal.hide()
        self.away = plain_label("", self, "caution", name="away_label", wraps=True)
        self.away.hide()
        self.state = plain_label("", self, "small", name="grammar_state", wraps=True)
        self._column = QVBoxLayout(self)
        for widget in (
            self.title, self.kind, self.sentence, self.away, self.text, self.refusal, self.state,
        ):  # fmt: skip
            self._column.addWidget(widget)
        self._timer = rest_timer(self, self.check_now, CHECK_AFTER_MS)
        self.kind.changed_by_user.connect(self._on_kind)
        self.text.textChanged.connect(self._on_text)
        self.text.too_long.connect(self._on_too_long)
        self.text.left.connect(lambda: self.check_now() if self._timer.isActive() else None)
        theme.changed.connect(self._fit_text)
        theme.space(self._column, 6, margins=(12, 10))
        theme.font(self.text, Theme.font_mono, 12)
        self._fit_text()
        self._arrange()

    # --- showing --------------------------------------------------------------------------------

    def show_chat(self, conversation_id: str) -> None:
        """Another chat: what is written in this one waits until it is open again."""
        if conversation_id == self._chat:
            return
        self._timer.stop()
        self._asked += 1
        self._kept[self._chat] = (self.kind.value(), self._texts, self._is_dirty)
        self._chat = conversation_id
        kind, self._texts, self._is_dirty = self._kept.pop(
            conversation_id, (NONE, {GBNF: "", SCHEMA: ""}, False)
        )
        self.kind.show_value(kind)
        self._put_text()
        self._arrange()
        self._is_unchecked = self._is_dirty

    def show_settings(self, resolved: Resolved) -> None:
        """What counts; while something is being written, that stays."""
        settings = resolved.settings
        kind = GBNF if settings.grammar else SCHEMA if settings.json_schema else NONE
        text = settings.grammar or settings.json_schema
        self._counting = (kind, text)
        self._level = LEVELS.get(resolved.level_of(kind if kind != NONE else GBNF), "")
        if self._is_dirty or self._timer.isActive():
            return
        if kind != NONE:
            self._texts[kind] = text
        if kind != self.kind.value() and not (kind == NONE and not self._texts_shown()):
            self.kind.show_value(kind)
        self._put_text()
        self._arrange()
        self._say(GrammarChecked())

    def show_away(self, whys: Mapping[str, str]) -> None:
        """By kind, why the engine does not take it; empty: it does."""
        for kind in (GBNF, SCHEMA):
            self.kind.enable_choice(kind, is_on=not whys[kind], hint=whys[kind])
        self.away.setText(" ".join(dict.fromkeys(why for why in whys.values() if why)))
        self.away.setVisible(bool(self.away.text()))

    def recheck(self) -> None:
        """Weights are here, or others: ask about what could not be checked."""
        if self._is_unchecked:
            self.check_now()

    def _texts_shown(self) -> str:
        return self._texts.get(str(self.kind.value()), "")

    def _put_text(self) -> None:
        if whole_text(self.text) != clean_text(self._texts_shown()):
            self._is_showing = True
            self.text.setPlainText(self._texts_shown())
            self._is_showing = False
            self._fit_text()

    def _arrange(self) -> None:
        kind = str(self.kind.value())
        self.sentence.setText(_SENTENCES[kind])
        self.text.setVisible(kind != NONE)
        self.text.setPlaceholderText(_HINTS.get(kind, ""))
        self.text.setAccessibleName("JSON schema" if kind == SCHEMA else "Grammar (GBNF)")

    def _say(self, found: GrammarChecked, state: str = "") -> None:
        self.refusal.setText(found.sentence)
        self.refusal.setVisible(bool(found.sentence))
        if found.line:
            colors = self._theme.colors
            self.text.underline(
                found.line, found.column, QColor(colors.error), QColor(colors.error_tone)
            )
        else:
            self.text.setExtraSelections([])
        if not state:
            is_set = self._counting[0] != NONE
            parts = [f"Set by {self._level}." if is_set and self._level else "", *found.notes]
            state = " ".join(part for part in parts if part)
        self.state.setText(state)
        self.state.setVisible(bool(state))
        self.text.setAccessibleDescription(found.sentence or self.sentence.text())

    # --- writing --------------------------------------------------------------------------------

    def _on_kind(self, _value: object) -> None:
        self._put_text()
        self._arrange()
        self.text.setExtraSelections([])
        self._is_dirty = True
        self.check_now()

    def _on_text(self) -> None:
        kind = str(self.kind.value())
        if self._is_showing or kind == NONE:
            return
        self._texts[kind] = whole_text(self.text)
        self._is_dirty = True
        self._timer.start()
        self._fit_text()

    def _on_too_long(self, length: int) -> None:
        what = "schema" if self.kind.value() == SCHEMA else "grammar"
        found = GrammarChecked(
            f"The pasted text has {length:,} characters, but a {what} can have at most "
            f"{MAX_GRAMMAR_BYTES:,} bytes. Shorten it and paste again."
        )
        self._say(found, "Nothing was changed.")

    def check_now(self) -> None:
        """Ask the engine about what stands there; an answer to an older text is dropped."""
        self._timer.stop()
        self._asked += 1
        number, text = self._asked, self._texts_shown()
        if not text.strip():
            self._take(GrammarChecked())
            return
        is_schema = self.kind.value() == SCHEMA
        self._check(
            "" if is_schema else text,
            text if is_schema else "",
            self._take,
            partial(self._take, GrammarChecked()),
            still=lambda: number == self._asked,
        )

    def _take(self, found: GrammarChecked, failed: str = "") -> None:
        self._is_unchecked = bool(failed)
        if found.sentence:
            self._say(found, self._meanwhile())
            return
        self._is_dirty = False
        kind, text = str(self.kind.value()), self._texts_shown()
        wanted = (kind, text) if text.strip() else (NONE, "")
        if wanted != self._counting:
            is_schema = wanted[0] == SCHEMA
            self.changed.emit("" if is_schema else wanted[1], wanted[1] if is_schema else "")
        self._say(found, f"Not checked yet. {failed}" if failed else "")

    def _meanwhile(self) -> str:
        """What counts while the text cannot be used: that may be it, put there unchecked."""
        if self._counting == (str(self.kind.value()), self._texts_shown()):
            return COUNTS_ALREADY
        return STILL_BOUND if self._counting[0] != NONE else STILL_FREE

    # --- looks ----------------------------------------------------------------------------------

    def _fit_text(self) -> None:
        """As high as what is written, within reason."""
        px, n_lines = self._theme.px, min(self.text.blockCount(), MOST_LINES)
        self.text.setFixedHeight(
            max(px(120), self.text.fontMetrics().lineSpacing() * n_lines + px(24))
        )
