"""*Word map*: words of one's own, laid out by how much their vectors point the same way."""

from __future__ import annotations

import re
from functools import partial
from typing import Final

from PySide6.QtWidgets import QHBoxLayout, QPlainTextEdit, QWidget

from app.amounts import percent
from app.chat.inspection.embedding import Placed
from app.chat.inspection.inside import Seen
from ui.look.theme import Theme
from ui.section.card import small_label
from ui.section.inside.card import InsideCard
from ui.section.inside.vectors.word_map import WordMapView
from ui.section.inside.view import InsideView
from ui.section.panel import Tools
from ui.widgets.kit import push_button, rest_timer

REST_MS: Final = 500
MOST: Final = 100
"""Words; more than that would only be dots."""

MOST_NAMED: Final = 5
"""Of words that are left out."""

STARTING: Final = (
    "dog cat horse cow, red green blue yellow, Paris London Berlin Rome, one two three four, "
    "bread milk cheese apple, king queen man woman"
)
HELP: Final = (
    "Vectors have hundreds of dimensions, and a picture has two. The axes are those along which "
    "just these words differ most (principal components of their centred directions). Much is lost "
    "on the way: the line below the map says how much. Click a word to see what is nearest to it "
    "in all dimensions; a dashed line leads to one that isn’t nearest on the map."
)
TOO_FEW: Final = "Type at least two words that are one token each, separated by spaces or commas."
READING: Final = "Reading all vectors once… {share:.0%}"
LOST: Final = (
    "The axes show {shown} of the variance. {kept} of each word’s {k} nearest neighbours are also "
    "nearest on the map."
)


def words_in(text: str) -> list[str]:
    """Each word that is typed, once.

    >>> words_in("dog, cat\\n dog;horse")
    ['dog', 'cat', 'horse']
    """
    return list(dict.fromkeys(word for word in re.split(r"[\s,;]+", text) if word))


class MapCard(InsideCard):
    title_words = "Word map"
    name = "map"
    help_words = HELP

    def __init__(self, tools: Tools, view: InsideView, parent: QWidget | None = None) -> None:
        super().__init__(tools, view, parent)
        theme = tools.theme
        self._key: tuple[object, ...] = ()
        self._ids: dict[str, tuple[int, ...]] = {}
        self._ids_of: object = None
        self.placed: Placed | None = None
        self.text = QPlainTextEdit(STARTING, self.content)
        self.text.setObjectName("inside_map_text")
        self.text.setAccessibleName("Words on the map")
        self.text.setPlaceholderText("Words, separated by spaces or commas")
        self.text.setTabChangesFocus(True)
        self.map = WordMapView(theme, self.content)
        self.words = small_label("", self.content)
        self.words.setObjectName("inside_map_words")
        self.left_out = small_label("", self.content)
        self.left_out.setObjectName("inside_map_left_out")
        self.reset = push_button("Reset", self.content, "inside_map_reset")
        self.reset.setToolTip("Use the words that were here at first")
        self._rest = rest_timer(self, self._ask, REST_MS)
        self._lay_out()
        self.text.textChanged.connect(self._rest.start)
        self.reset.clicked.connect(self._on_reset)
        self.map.word_chosen.connect(self._on_word)

    def _lay_out(self) -> None:
        theme = self._tools.theme
        theme.font(self.text, Theme.font_small)
        theme.size(self.text, height=64)
        theme.font(self.reset, Theme.font_small)
        self.reset.setAutoDefault(False)
        below = QHBoxLayout()
        below.addWidget(self.left_out, 1)
        below.addWidget(self.reset)
        theme.space(below, 6)
        for widget in (self.text, self.map, self.words):
            self.rows.addWidget(widget)
        self.rows.addLayout(below)

    # --- asking ---------------------------------------------------------------------------------

    def show_seen(self, seen: Seen) -> None:
        if seen.is_whole:  # the first time it reads a whole matrix: what is quick comes first
            self._ask()

    def _on_reset(self) -> None:
        self.text.setPlainText(STARTING)
        self.text.setFocus()  # the button goes
        self._ask()

    def _ask(self) -> None:
        """Unless it is asked or known already: the token of each word first, then their places."""
        self._rest.stop()
        self.reset.setVisible(self.text.toPlainText() != STARTING)
        loaded = self._tools.desk.loader.loaded
        if not (self.is_open and self._is_active) or self.view.seen is None:
            return
        words = words_in(self.text.toPlainText())
        key = (id(loaded), *words)
        if key == self._key:
            self._show()
            return
        self._key = key
        if self._ids_of is not loaded:
            self._ids, self._ids_of, self.placed = {}, loaded, None
        self._find(key, words[:MOST])

    def _find(self, key: tuple[object, ...], words: list[str]) -> None:
        left = {word for word in words if word not in self._ids}

        def take(word: str, ids: tuple[int, ...]) -> None:
            self._ids[word] = ids
            left.discard(word)
            if not left:
                self._place(key, words)

        if not left:
            self._place(key, words)
        for word in sorted(left):
            self._tools.desk.embedding.find(
                word, partial(take, word), self._fail, still=lambda: key == self._key
            )

    def _place(self, key: tuple[object, ...], words: list[str]) -> None:
        token_ids = [self._ids[word][0] for word in words if len(self._ids[word]) == 1]
        outside = [
            f"“{word}” ({len(self._ids[word])} tokens)"
            for word in words
            if len(self._ids[word]) != 1
        ]
        self._leave_out(outside, len(key) - 1 - len(words))
        if len(set(token_ids)) < 2:
            self._give_up(TOO_FEW)
            return
        self._tools.desk.embedding.lay_out(
            token_ids,
            self._take,
            self._fail,
            lambda done, total: self.words.setText(READING.format(share=done / max(total, 1))),
            still=lambda: key == self._key,
        )

    def _leave_out(self, words: list[str], n_more: int) -> None:
        sentences = []
        if words:
            more = len(words) - MOST_NAMED
            names = ", ".join(words[:MOST_NAMED]) + (f" and {more:,} more" if more > 0 else "")
            sentences.append(f"Not one token here, so left out: {names}.")
        if n_more > 0:
            sentences.append(f"Only the first {MOST} words are shown.")
        self.left_out.setText(" ".join(sentences))
        self.left_out.setVisible(bool(sentences))

    def _take(self, placed: Placed) -> None:
        self.placed = placed
        self._show()

    def _fail(self, sentence: str) -> None:
        self._key = ()
        self._give_up(sentence)

    # --- what came ------------------------------------------------------------------------------

    def _give_up(self, sentence: str) -> None:
        """There is no map, for this reason."""
        self.placed = None
        self.map.setVisible(False)
        self.words.setText(sentence)

    def _show(self) -> None:
        if self.placed is None:
            return
        typed = {ids[0]: word for word, ids in reversed(self._ids.items()) if len(ids) == 1}
        words = [typed.get(token_id, "") for token_id in self.placed.token_ids]
        if self.map.map is not self.placed.map or self.map.words != tuple(words):
            self.map.show_map(self.placed.map, words)
        self.map.setVisible(True)
        self.words.setText(self._caption(self.placed))

    def _caption(self, placed: Placed) -> str:
        found, chosen = placed.map, self.map.chosen
        self.map.setAccessibleDescription("" if chosen is None else self.map.words_of(chosen))
        if chosen is not None:
            return self.map.words_of(chosen)
        return LOST.format(
            shown=percent(found.share_shown),
            kept=percent(found.share_kept),
            k=found.neighbours.shape[1],
        )

    def _on_word(self, word: int) -> None:
        self.map.choose(None if word < 0 else word)
        self._show()
