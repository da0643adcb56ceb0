"""The embedding model: of this computer's, of a file, or none; one that is gone stays named."""

from __future__ import annotations

from typing import Any

import pytest

from app.chat.retrieval.embedder import EmbeddingModel
from ui.look.theme import Theme
from ui.settings.embedding_field import NONE, EmbeddingField

KNOWN = (EmbeddingModel("/m/bge.gguf", "bge-small"), EmbeddingModel("/m/mini.gguf", "MiniLM"))


@pytest.fixture
def field(qtbot: Any) -> EmbeddingField:
    made = EmbeddingField(Theme("light"), lambda: KNOWN)
    qtbot.addWidget(made)
    return made


def choose(field: EmbeddingField, text: str) -> None:
    field.setCurrentIndex(field.findText(text))
    field.activated.emit(field.currentIndex())


def test_it_is_chosen_from_a_list(field: EmbeddingField) -> None:
    told: list[object] = []
    field.changed_by_user.connect(told.append)
    texts = [field.itemText(n) for n in range(field.count())]
    assert texts == [NONE, "bge-small", "MiniLM", "Choose a file…"]
    choose(field, "MiniLM")
    choose(field, NONE)
    assert told == ["/m/mini.gguf", ""]
    field.show_value("/elsewhere/own.gguf")
    assert field.currentText() == "own.gguf"
    field._take("/picked/nomic.gguf")
    assert told[-1] == field.value() == "/picked/nomic.gguf"
    assert field.currentText() == "nomic.gguf"
