"""The vocabulary as the loaded weights' file holds it, and what is computed from it.

The engine tells pieces and types; merges and scores stand in the file alone. Both reading (a second
for 262,144 tokens) and replaying happen on a thread of their own.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING, Final

from app.chat.inspection.questions import NO_WEIGHTS
from app.chat.inspection.words import Words
from app.chat.surroundings import Still, Surroundings
from app.chat.weights.file_work import answer, begin
from app.chat.weights.loading import Loader
from app.engine.protocol.frames import clean_text

if TYPE_CHECKING:
    from app.gguf.vocabulary import FileVocabulary
    from app.insight.tokenizer.merges import Replay

_log = logging.getLogger(__name__)

THREAD: Final = "vocabulary-file"
REPLACED: Final = "The file was replaced after the model was loaded. Reload it."
Say = Callable[[str], None]


class VocabularyFiles:
    """Keeps the vocabulary of the weights that are loaded, once somebody has asked for it."""

    def __init__(self, around: Surroundings, loader: Loader, words: Words) -> None:
        self._around = around
        self._loader = loader
        self._words = words
        self._read: dict[str, Future[FileVocabulary]] = {}

    def read(self, then: Callable[[FileVocabulary], None], failed: Say, *, still: Still) -> None:
        """What the file of the loaded weights says of its vocabulary. `failed` gets a sentence; at
        once where no weights are loaded."""
        future = self._future()
        if future is None:
            failed(NO_WEIGHTS)
        else:
            answer(self._around, future, then, failed, _sentence, still)

    def replay(
        self,
        text: str,
        ids: Sequence[int],
        then: Callable[[Replay], None],
        failed: Say,
        *,
        still: Still,
        special: bool = False,
    ) -> None:
        """How a text becomes `ids`, the tokens that the engine gave for it, step by step."""
        text, loaded = clean_text(text), self._loader.loaded

        def replay_with(vocabulary: FileVocabulary) -> None:
            # Of the weights that gave the IDs; others may be loaded by now.
            pieces = self._words.of(loaded.fast_hash) if loaded is not None else None

            def work() -> Replay:
                from app.insight.tokenizer.merges import replay

                controls = pieces.control_ids if pieces is not None else ()
                return replay(text, ids, vocabulary, special=special, controls=controls)

            answer(self._around, begin(work, THREAD)[0], then, failed, _sentence, still)

        self.read(replay_with, failed, still=still)

    def _future(self) -> Future[FileVocabulary] | None:
        loaded = self._loader.loaded
        if loaded is None:
            return None
        key = f"{loaded.fast_hash} {loaded.path}"
        known = self._read.get(key)
        if known is None or (known.done() and known.exception() is not None):
            path, fast_hash = loaded.path, loaded.fast_hash
            known, _ = begin(lambda: _read(path, fast_hash), THREAD)
            self._read = {key: known}
        return known


def _read(path: str, wanted_hash: str) -> FileVocabulary:
    """Raises HeaderRefused, also where the file holds other weights by now."""
    from app.gguf.chat_check import read_chat_header
    from app.gguf.fingerprint import fast_hash
    from app.gguf.refusal import HeaderRefused
    from app.gguf.vocabulary import read_vocabulary

    found = read_vocabulary(path)
    if wanted_hash and fast_hash(read_chat_header(path)) != wanted_hash:
        raise HeaderRefused("not_readable", REPLACED)
    return found


def _sentence(error: BaseException) -> str:
    from app.gguf.refusal import HeaderRefused
    from app.insight.tokenizer.merges import NO_FILE, NotReplayed

    if isinstance(error, HeaderRefused):
        return NO_FILE if error.kind == "not_a_gguf" else error.sentence
    if isinstance(error, NotReplayed):
        return str(error)
    _log.error("the vocabulary's file: %s", error, exc_info=error)
    return f"The vocabulary of this file couldn't be read ({type(error).__name__})."
