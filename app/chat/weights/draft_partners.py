"""Which weights can draft for others: smaller ones whose token IDs mean the same.

Every known and found file is looked at by itself; its vocabulary is read out of the file and
compared token by token (`app.gguf.vocabulary`), not by name or family: as many tokens, the same
texts and types in the same order, the same tokens that begin and end, the same rule of adding them.
Padding and masks may differ. The engine looks once more when it has loaded both.

On a thread of its own: a vocabulary of 262,144 tokens takes a second. What was read is remembered
as a mark of some bytes.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from app.chat.surroundings import Surroundings

if TYPE_CHECKING:
    from app.gguf.vocabulary import VocabularyMark

_log = logging.getLogger(__name__)

EFFECT: Final = (
    "A draft model proposes tokens, and this model checks several in one pass. The text doesn't "
    "change. It takes memory of its own, and switches itself off where it is slower. Applies after "
    "reloading."
)
LOOKING: Final = "Comparing vocabularies…"
NONE_SMALLER: Final = "No smaller model was found on this computer to use as a draft model."


@dataclass(frozen=True, slots=True)
class DraftCandidate:
    path: str
    name: str
    size_bytes: int


@dataclass(frozen=True, slots=True)
class ComparedDraft:
    """`difference` is empty where the vocabulary is the same; else it says what is not."""

    candidate: DraftCandidate
    difference: str


@dataclass(frozen=True, slots=True)
class Partners:
    """`fitting`: the largest first. `others`: looked at, and why they do not fit. `sentence`: why
    nothing could be compared."""

    fitting: tuple[DraftCandidate, ...] = ()
    others: tuple[ComparedDraft, ...] = ()
    sentence: str = ""


Then = Callable[[Partners], None]


class DraftPartners:
    """`candidates`: all weights that are known on this machine now, asked on the desk's thread."""

    def __init__(
        self, around: Surroundings, candidates: Callable[[], Sequence[DraftCandidate]]
    ) -> None:
        self._around = around
        self._candidates = candidates
        self._marks: dict[tuple[str, int, int], VocabularyMark] = {}
        self._asked = 0

    def find(self, path: str, then: Then) -> None:
        """`then` gets them on the desk's thread, unless somebody asked anew meanwhile."""
        self._asked += 1
        asked, candidates = self._asked, tuple(self._candidates())

        def is_newest() -> bool:
            return asked == self._asked

        def work() -> None:
            found = self._compare(path, candidates, is_newest)
            self._around.hand_over(lambda: then(found), is_newest)

        threading.Thread(target=work, name="draft-partners", daemon=True).start()

    def close(self) -> None:
        """Nobody is told any more; a file that is just being read is read to its end."""
        self._asked += 1

    # --- on a thread ----------------------------------------------------------------------------

    def _compare(
        self, path: str, candidates: Sequence[DraftCandidate], is_wanted: Callable[[], bool]
    ) -> Partners:
        from app.gguf.refusal import HeaderRefused

        try:
            own, size_bytes = self._mark(path), Path(path).stat().st_size
        except HeaderRefused as refused:
            return Partners(sentence=refused.sentence)
        except OSError as error:
            return Partners(sentence=f"The file can't be read: {error.strerror or error}.")
        real = os.path.realpath(path)
        smaller = [
            each
            for each in candidates
            if 0 < each.size_bytes < size_bytes and os.path.realpath(each.path) != real
        ]
        fitting, others = [], []
        for each in sorted(smaller, key=lambda each: -each.size_bytes):
            if not is_wanted():
                break
            try:
                difference = self._difference(own, each.path)
            except HeaderRefused as refused:
                difference = refused.sentence
            except OSError as error:
                difference = f"it can't be read ({error.strerror or error})"
            except Exception as error:  # noqa: BLE001 - one file is not all of them
                _log.error("a vocabulary: %s", error, exc_info=error)
                difference = f"it can't be read ({type(error).__name__})"
            if difference:
                others.append(ComparedDraft(each, difference))
            else:
                fitting.append(each)
        return Partners(tuple(fitting), tuple(others), "" if smaller else NONE_SMALLER)

    def _difference(self, own: VocabularyMark, path: str) -> str:
        from app.gguf.vocabulary import difference

        return difference(own, self._mark(path))

    def _mark(self, path: str) -> VocabularyMark:
        """Raises HeaderRefused, and OSError for a file that goes away meanwhile."""
        from app.gguf.vocabulary import read_vocabulary

        try:
            info = Path(path).stat()
        except (OSError, ValueError):
            return read_vocabulary(path).mark  # which says what is wrong with it
        key = (path, info.st_size, info.st_mtime_ns)
        if key not in self._marks:
            self._marks[key] = read_vocabulary(path).mark
        return self._marks[key]
