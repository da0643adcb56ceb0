"""The embedding model that finds parts of documents by their meaning: which there are, and whether
one can be used here."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from app.amounts import bytes_words
from app.chat.inspection.questions import Questions
from app.chat.retrieval.search import AT_A_SERVER
from app.chat.surroundings import Still
from app.chat.weights.loading import Loader
from app.engine.protocol.passage_messages import EmbedPassages, PassagesEmbedded
from app.gguf.local.entries import FoundWeights

WORKS: Final = "Ready: {size} of memory while it is used, {n_embd} numbers for each part."
LATER: Final = "It is loaded when a document is searched."
_EMBEDDING: Final = "embedding"


@dataclass(frozen=True, slots=True)
class EmbeddingModel:
    path: str
    name: str


class Embedder:
    """`found`: all weights of this machine."""

    def __init__(
        self,
        loader: Loader,
        questions: Questions,
        found: Callable[[], Sequence[FoundWeights]],
    ) -> None:
        self._loader = loader
        self._questions = questions
        self._found = found

    def known(self) -> tuple[EmbeddingModel, ...]:
        """Embedding models on this machine, by name."""
        return tuple(
            EmbeddingModel(os.fspath(each.path), each.name)
            for each in self._found()
            if each.facts is not None and each.facts.kind == _EMBEDDING and not each.missing
        )

    def try_out(self, path: str, then: Callable[[str], None], *, still: Still) -> None:
        """Load it; `then` gets what came of that, in a sentence."""
        if self._loader.remote is not None:
            then(AT_A_SERVER)
        elif not Path(path).is_file():
            then(f"“{Path(path).name}” is no longer there. Choose another embedding model.")
        elif self._loader.loaded is None or self._loader.is_loading:
            then(LATER)
        else:

            def take(answer: PassagesEmbedded) -> None:
                size = bytes_words(answer.memory_bytes)
                then(WORKS.format(size=size, n_embd=f"{answer.n_embd:,}"))

            self._questions.ask(EmbedPassages(0, path), PassagesEmbedded, take, then, still=still)
