"""*Embedding*: the vector that enters the first layer."""

from __future__ import annotations

from typing import Any, cast

from PySide6.QtWidgets import QWidget

from app.chat.inspection.inside import Seen
from app.insight.inside.way import norms
from ui.section.card import small_label
from ui.section.inside.card import InsideCard
from ui.section.inside.strip import VectorStrip
from ui.section.inside.view import InsideView
from ui.section.panel import Tools


class EmbeddingCard(InsideCard):
    title_words = "Embedding"
    name = "embedding"
    needs = ("embedding",)
    is_open_at_first = True

    def __init__(self, tools: Tools, view: InsideView, parent: QWidget | None = None) -> None:
        super().__init__(tools, view, parent)
        self.strip = VectorStrip(tools.theme, parent=self.content)
        self.strip.setObjectName("inside_embedding_strip")
        self.words = small_label("", self.content)
        self.rows.addWidget(self.strip)
        self.rows.addWidget(self.words)

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
        self.words.setText(f"What the first layer reads of “{self.view.read_word}”.")
