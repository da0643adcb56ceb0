"""What is said of a prompt as a whole: its size, its parts, and whether it is what was given."""

from __future__ import annotations

from collections.abc import Mapping

from PySide6.QtCore import Qt
from PySide6.QtGui import QColor, QFont
from PySide6.QtWidgets import QFrame, QHBoxLayout, QLabel, QVBoxLayout, QWidget

from app.chat.inspection.prompt_reading import PromptOf
from app.engine.protocol.prompt_messages import ShownPart
from app.insight.prompt.parts import OriginCount, counts
from models.records import MessageCounts
from ui.look.theme import Theme
from ui.section.prompt.shares import PartsBar, Swatch
from ui.section.prompt.words import (
    NO_PASSAGES,
    cache_words,
    context_words,
    count_words,
    part_words,
    reply_words,
    size_words,
    unknown_words,
)
from ui.section.term_label import term_label
from ui.tokens.origins import origin_color
from ui.widgets.elided import PartsLabel
from ui.widgets.flow import FlowLayout


def small_words(name: str, parent: QWidget) -> QLabel:
    """A sentence that may take several lines."""
    label = term_label("", parent, "small", name=name, wraps=True)
    label.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
    label.setFocusPolicy(Qt.FocusPolicy.NoFocus)
    return label


class PromptCard(QFrame):
    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._swatches: list[Swatch] = []
        self.setProperty("plane", "card")
        self.heading = term_label("", self, name="prompt_heading")
        self.figure = PartsLabel("", self)
        self.figure.setObjectName("prompt_size")
        self.bar = PartsBar(theme, self)
        self.legend = QWidget(self)
        self.legend.setObjectName("prompt_legend")
        self.sentence = small_words("prompt_sentence", self)
        self.facts = small_words("prompt_facts", self)
        self._head = QHBoxLayout()
        self._head.addWidget(self.heading)
        self._head.addStretch(1)
        self._head.addWidget(self.figure)
        self._flow = FlowLayout(self.legend)
        self._inside = QVBoxLayout(self)
        self._inside.addLayout(self._head)
        for widget in (self.bar, self.legend, self.sentence, self.facts):
            self._inside.addWidget(widget)
        theme.changed.connect(self.bar.update)
        theme.space(self._inside, 6, margins=12)
        theme.space(self._head, 6)
        theme.space(self._flow, 8)
        theme.font(self.heading, Theme.font_small, QFont.Weight.DemiBold)
        theme.font(self.figure, Theme.font_small)

    def show_prompt(
        self,
        heading: str,
        of: PromptOf,
        figures: MessageCounts | None,
        numbers: Mapping[str, int],
        passages: Mapping[int, str] = NO_PASSAGES,
    ) -> None:
        """`figures`: of the reply to it. `numbers`: the place of each message in the chat;
        `passages`: what parts of documents are."""
        self.heading.setText(heading)
        self.figure.set_text(size_words(of))
        self.sentence.setText(of.sentence)
        said = [context_words(of), cache_words(figures), reply_words(of), unknown_words(of)]
        said += of.shown.notes if of.shown is not None else []
        self.facts.setText(" ".join(words for words in said if words))
        self.facts.setVisible(bool(self.facts.text()))
        n_tokens = len(of.tokens) if of.tokens is not None else 0

        def words_of(part: ShownPart) -> str:
            n_own = part.end - part.start
            return f"{part_words(part, numbers, passages)}: {n_own:,} of {n_tokens:,} tokens"

        self.bar.show_parts(of.tokens.parts if of.tokens is not None else (), words_of)
        self._show_counts(counts(of.tokens) if of.tokens is not None else ())

    def _show_counts(self, found: tuple[OriginCount, ...]) -> None:
        for swatch in self._swatches:
            self._flow.removeWidget(swatch)
            swatch.hide()
            swatch.deleteLater()
        self._swatches = [self._swatch(count) for count in found]
        self.legend.setVisible(bool(found))

    def _swatch(self, count: OriginCount) -> Swatch:
        def color() -> QColor:
            return origin_color(self._theme.colors, count.origin)

        swatch = Swatch(self._theme, count_words(count), color, self.legend)
        swatch.setToolTip(f"{count.n_bytes:,} bytes in {count.n_parts:,} places")
        self._flow.addWidget(swatch)
        swatch.show()
        return swatch
