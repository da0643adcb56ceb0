"""The part of the desk for whoever looks into the vocabulary's file: scores, ranks, merges.

It only delegates; `app.chat.desk` tells what holds for every method.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from app.chat.weights.vocabulary_file import VocabularyFiles

if TYPE_CHECKING:
    from app.gguf.vocabulary import FileVocabulary
    from app.insight.tokenizer.merges import Replay


class VocabularyDoor:
    """Mixed into `Desk`, which makes what is declared here."""

    _vocabulary_files: VocabularyFiles

    def read_vocabulary_file(
        self, then: Callable[[FileVocabulary], None], failed: Callable[[str], None]
    ) -> None:
        """What the file of the loaded weights says of its vocabulary."""
        self._vocabulary_files.read(then, failed)

    def replay_merges(
        self,
        text: str,
        ids: Sequence[int],
        then: Callable[[Replay], None],
        failed: Callable[[str], None],
        *,
        special: bool = False,
    ) -> None:
        """How a text becomes the tokens that `tokenize` gave for it, step by step."""
        self._vocabulary_files.replay(text, ids, then, failed, special=special)
