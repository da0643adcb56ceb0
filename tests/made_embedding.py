"""A small vocabulary whose vectors mean something, and a desk that answers about it by hand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
from made_words import made_pieces
from recording_desk import FakeDesk

from app.chat.inspection.embedding import Placed, unheard
from app.chat.surroundings import Still
from app.engine.process.scripted.embedding import answer_of, rotations
from app.engine.process.scripted.inside import D_HEAD, N_LAYER, ROPE_BASE
from app.engine.protocol.embedding_messages import (
    DescribeEmbedding,
    FindNearest,
    ReadEmbedding,
    Term,
)
from app.engine.protocol.pieces import Pieces
from app.insight.inside.embedding import word_map

N_VOCAB: Final = 300
N_EMBD: Final = 32
KING, MAN, WOMAN, QUEEN, CAPITAL_KING, DOG, CAT = range(10, 17)
WORDS: Final = {
    "king": (KING,),
    "man": (MAN,),
    "woman": (WOMAN,),
    "queen": (QUEEN,),
    "dog": (DOG,),
    "cat": (CAT,),
    **{word: (20 + at,) for at, word in enumerate(("cow", "red", "blue", "Paris", "Rome"))},
    "strawberry": (200, 201),
}
"""What is typed, and its tokens."""


def pieces() -> Pieces:
    """` king` … by their IDs; the others are called ` w0`, ` w1`, …"""
    texts = [b" w%d" % token_id for token_id in range(N_VOCAB)]
    for word, ids in WORDS.items():
        if len(ids) == 1:
            texts[ids[0]] = f" {word}".encode()
    texts[CAPITAL_KING], texts[200], texts[201] = b"King", b" straw", b"berry"
    texts[100], texts[101], texts[102] = b"\xe2", b"\x82", b"\xac"
    return made_pieces(texts)


def rows() -> np.ndarray:
    """[N_VOCAB, N_EMBD]: queen is king − man + woman, nearly, and King nearly king; all share a
    long component."""
    chance = np.random.default_rng(5)
    found = chance.standard_normal((N_VOCAB, N_EMBD))
    found[QUEEN] = found[KING] - found[MAN] + found[WOMAN] + 0.3 * found[QUEEN]
    found[CAPITAL_KING] = found[KING] + 0.2 * found[CAPITAL_KING]
    return (found + 3).astype(np.float32)


class EmbeddingByHand:
    """Stands for `desk.embedding`: words are found at once, all else waits until the test answers
    it; what is asked anew ends what was asked before of its kind."""

    def __init__(self, desk: FakeDesk) -> None:
        self.rows = rows()
        self.asked: list[tuple[str, Any]] = []
        self._open: dict[str, tuple[Any, ...]] = {}
        self.has_words_at_once = True
        self.waiting_words: list[Callable[[], None]] = []
        vocabulary = pieces()
        desk.words.of = lambda _hash: vocabulary
        part = desk.embedding
        part.find, part.nearest, part.lay_out = self._find, self._nearest, self._lay_out
        part.read, part.describe = self._read, self._describe
        part.rotations, part.stop = self._rotations, self._stop
        part.beside = lambda: part
        self.told = rotations(N_LAYER, D_HEAD, ROPE_BASE)

    def _find(self, word: str, then: Any, failed: Any, *, still: Still) -> None:
        self.asked.append(("find", word))

        def give() -> None:
            if still():
                then(WORDS.get(word, ()))

        if self.has_words_at_once:
            give()
        else:
            self.waiting_words.append(give)

    def _ask(self, kind: str, about: Any, result: Any, then: Any, failed: Any, *rest: Any) -> None:
        self.asked.append((kind, about))
        self._open[kind] = (result, then, failed, *rest)

    def _nearest(
        self,
        terms: Sequence[tuple[int, float]],
        then: Any,
        failed: Any,
        progress: Any = unheard,
        *,
        still: Still,
        n: int = 60,
    ) -> None:
        command = FindNearest(0, [Term(*term) for term in terms], n)
        self._ask(
            "nearest", tuple(terms), lambda: answer_of(self.rows, command), then, failed, still
        )
        self._progress = progress

    def _read(self, token_ids: Sequence[int], then: Any, failed: Any, *, still: Still) -> None:
        command = ReadEmbedding(0, list(token_ids))
        self._ask(
            "read", tuple(token_ids), lambda: answer_of(self.rows, command), then, failed, still
        )

    def _describe(self, then: Any, failed: Any, progress: Any = unheard, *, still: Still) -> None:
        self._ask(
            "facts", None, lambda: answer_of(self.rows, DescribeEmbedding(0)), then, failed, still
        )

    def _lay_out(
        self,
        token_ids: Sequence[int],
        then: Any,
        failed: Any,
        progress: Any = unheard,
        *,
        still: Still,
    ) -> None:
        ids = tuple(dict.fromkeys(token_ids))
        self._ask(
            "map",
            ids,
            lambda: Placed(ids, word_map(self.rows[list(ids)], self.rows.mean(axis=0))),
            then,
            failed,
            still,
        )

    def _rotations(self, then: Any, failed: Any, *, still: Still) -> None:
        self._ask("turn", None, lambda: self.told, then, failed, still)

    def _stop(self, *kinds: str) -> None:
        for kind in kinds or tuple(self._open):
            self._open.pop(kind, None)

    # --- answering ------------------------------------------------------------------------------

    def is_asked(self, kind: str) -> bool:
        return kind in self._open

    def answer(self, kind: str) -> None:
        self.late_answer(kind)()

    def late_answer(self, kind: str) -> Callable[[], None]:
        """To what is asked now, to be given later."""
        result, then, _failed, still = self._open.pop(kind)
        found = result()
        return lambda: then(found) if still() else None

    def fail(self, kind: str, sentence: str) -> None:
        self._open.pop(kind)[2](sentence)

    def progress(self, done: int, total: int) -> None:
        self._progress(done, total)
