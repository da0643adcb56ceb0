"""The words of the loaded vocabulary: what each token ID stands for, read when somebody looks.

The table of a large vocabulary is megabytes, and whoever only chats needs none of it. It belongs
to its weights: IDs of a reply that others wrote mean nothing here.
"""

from __future__ import annotations

from app.chat.events import VocabularyRead
from app.chat.surroundings import Surroundings
from app.chat.weights.loading import Loader
from app.engine.protocol.messages import Failed, Finished, ReadVocabulary, Stopped, VocabularyTable
from app.engine.protocol.pieces import Pieces


class Words:
    """Asks the engine at most once for the same weights."""

    def __init__(self, around: Surroundings, loader: Loader) -> None:
        self._around = around
        self._loader = loader
        self._pieces: Pieces | None = None
        self._hash = ""
        self._request_id: int | None = None
        self._asked_for = ""

    def of(self, weights_hash: str | None) -> Pieces | None:
        """The vocabulary of these weights, if it has been read."""
        return self._pieces if weights_hash and weights_hash == self._hash else None

    def read(self) -> None:
        """Have that of the loaded weights read; VocabularyRead says when it is here."""
        loaded = self._loader.loaded
        if loaded is None or self._loader.is_loading:
            return  # the answer could be that of the weights that come
        if self._request_id is not None or not loaded.fast_hash:
            return
        if loaded.fast_hash == self._hash:
            return
        self._asked_for = loaded.fast_hash
        self._request_id = self._loader.engine.request(ReadVocabulary(0))

    def is_read(self, request_id: int) -> bool:
        return request_id == self._request_id

    def take_ending(self, event: Finished | Stopped | Failed) -> None:
        """Where it failed, IDs are shown without words; the next look asks again."""
        self._request_id = None
        if isinstance(event, Finished) and isinstance(event.result, VocabularyTable):
            self._pieces, self._hash = Pieces(event.result), self._asked_for
            self._around.emit(VocabularyRead(self._hash))
