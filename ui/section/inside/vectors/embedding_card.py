"""*Embedding*: the vector that enters the first layer."""

from __future__ import annotations

from typing import Any, Final, cast

import numpy as np
from PySide6.QtWidgets import QWidget

from app.chat.inspection.inside import Seen
from app.engine.protocol.embedding_messages import PERCENTILES, EmbeddingFacts, EmbeddingRows
from app.insight.inside.embedding import input_scale, lengths_said
from app.insight.inside.way import norms
from ui.section.card import small_label
from ui.section.inside.card import InsideCard
from ui.section.inside.strip import VectorStrip
from ui.section.inside.view import InsideView
from ui.section.panel import Tools

HELP: Final = (
    "Each token of the vocabulary has a vector: one row of the embedding matrix. Looking up that "
    "row is all that happens here. A column of the strip is one of its numbers: blue above zero, "
    "ochre below. The norm is the vector’s length."
)
NOT_A_ROW: Final = "What enters is not a multiple of the token’s row: something is added to it."


class EmbeddingCard(InsideCard):
    title_words = "Embedding"
    name = "embedding"
    needs = ("embedding",)
    help_words = HELP
    is_open_at_first = True

    def __init__(self, tools: Tools, view: InsideView, parent: QWidget | None = None) -> None:
        super().__init__(tools, view, parent)
        self._key: tuple[object, ...] = ()
        self._facts: EmbeddingFacts | None = None
        self._row: EmbeddingRows | None = None
        self.strip = VectorStrip(tools.theme, parent=self.content)
        self.strip.setObjectName("inside_embedding_strip")
        self.words = small_label("", self.content)
        self.words.setObjectName("inside_embedding_words")
        self.rows.addWidget(self.strip)
        self.rows.addWidget(self.words)
        self.told = [self.words]
        tools.looking.token_changed.connect(self._on_other_token)

    def show_figure(self, seen: Seen | None) -> None:
        vector = None if seen is None else seen.arrays.get("embedding")
        if vector is None:
            self.figure.set_text("")
        else:
            norm = float(norms(cast("Any", vector[None]))[0])
            self.figure.set_text(f"{len(vector):,} numbers · norm {norm:,.2f}")

    def show_seen(self, seen: Seen) -> None:
        vector = cast("Any", seen.arrays["embedding"])
        self.strip.show_vector(vector)
        self.strip.setAccessibleName(f"Embedding of “{self.view.read_word}”, {self.figure.text()}")
        if seen.is_whole:
            self._ask(seen)
        self._say(seen)

    # --- what its length means ------------------------------------------------------------------

    def _ask(self, seen: Seen) -> None:
        """How long the others are, which reads the matrix once per load, and the file's own row."""
        text, desk = self.view.text, self._tools.desk
        if text is None:
            return
        loaded, token_id = desk.loader.loaded, text.ids[seen.place]
        key = (id(loaded), token_id)
        if key == self._key:
            return
        if self._key[:1] != key[:1]:
            self._facts = None
        self._key, self._row = key, None
        is_meant = lambda: key == self._key  # noqa: E731 - of both questions
        desk.embedding.describe(self._take_facts, self._fail, still=is_meant)
        desk.embedding.read([token_id], self._take_row, self._fail, still=is_meant)

    def _on_other_token(self) -> None:
        """Whoever goes on does not wait until the whole matrix is read."""
        if self._key and self._facts is None:
            self._key = ()
            self._tools.desk.embedding.stop("facts", "read")

    def _take_facts(self, facts: EmbeddingFacts) -> None:
        self._facts = facts
        self._say(self.view.seen)

    def _take_row(self, row: EmbeddingRows) -> None:
        self._row = row
        self._say(self.view.seen)

    def _fail(self, _sentence: str) -> None:
        """The vector is here; what its length means is not known. The next look asks again."""
        self._key = ()

    def _say(self, seen: Seen | None) -> None:
        vector = None if seen is None else seen.arrays.get("embedding")
        if vector is None:
            return
        sentences = [f"What the first layer reads of “{self.view.read_word}”."]
        if self._row is not None:
            sentences += self._scaled(self._row, cast("Any", vector))
        if self._facts is not None:
            first, median, last = (
                self._facts.norms.numbers()[PERCENTILES.index(at)] for at in (1, 50, 99)
            )
            sentences.append(lengths_said(first, median, last))
        self.words.setText(" ".join(sentences))

    def _scaled(self, row: EmbeddingRows, entered: Any) -> list[str]:
        """How the file's row became what enters; nothing where it is the same."""
        own = np.frombuffer(row.rows.data, "<f4")
        if own.shape != entered.shape:
            return []
        scale = input_scale(own, entered)
        if scale is None:
            return [NOT_A_ROW]
        if abs(scale - 1) < 1e-3:
            return []
        norm = float(np.linalg.norm(own))
        return [f"In the file it is {norm:.2f} long; this model multiplies it by {scale:.2f}."]
