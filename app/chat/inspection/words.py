"""The words of the loaded vocabulary: what each token ID stands for, read when somebody looks.

The table of a large vocabulary is megabytes, and whoever only chats needs none of it. It belongs
to its weights: IDs of a reply that others wrote mean nothing here.
"""

from __future__ import annotations

from functools import partial

from app.chat.events import VocabularyRead
from app.chat.inspection.questions import Questions
from app.chat.surroundings import Surroundings
from app.chat.weights.loading import Loader
from app.engine.protocol.messages import ReadVocabulary, VocabularyTable
from app.engine.protocol.pieces import Pieces


class Words:
    """Asks the engine at most once for the same weights."""

    def __init__(self, around: Surroundings, loader: Loader, questions: Questions) -> None:
        self._around = around
        self._loader = loader
        self._questions = questions
        self._pieces: Pieces | None = None
        self._hash = ""
        self._asked_for = ""

    def of(self, weights_hash: str | None) -> Pieces | None:
        """The vocabulary of these weights, if it has been read."""
        return self._pieces if weights_hash and weights_hash == self._hash else None

    def read(self) -> None:
        """Have that of the loaded weights read; VocabularyRead says when it is here."""
        loaded = self._loader.loaded
        if loaded is None or self._loader.is_loading or not loaded.fast_hash:
            return
        if loaded.remote is not None and not loaded.remote.can("vocabulary"):
            return
        wanted = loaded.fast_hash
        if wanted in (self._hash, self._asked_for):
            return
        self._asked_for = wanted
        self._questions.ask(
            ReadVocabulary(0),
            VocabularyTable,
            partial(self._take, wanted),
            self._fail,
            still=lambda: self._asked_for == wanted,
        )

    def _take(self, weights_hash: str, table: VocabularyTable) -> None:
        self._pieces, self._hash, self._asked_for = Pieces(table), weights_hash, ""
        self._around.emit(VocabularyRead(weights_hash))

    def _fail(self, _sentence: str) -> None:
        """IDs are shown without words; the next look asks again."""
        self._asked_for = ""
