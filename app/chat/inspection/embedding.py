"""Vectors of tokens: their numbers, their neighbours, sums of them, a map; and how layers rotate.

All of it is about the loaded weights, and what has been found is kept as long as they are. The
first question about all tokens reads the whole matrix, which takes a moment and tells how far it
is; a newer question of a kind ends an older one. numpy is imported where somebody asks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from app.chat.inspection.questions import Kept, Newest, Questions
from app.chat.surroundings import Still, Surroundings
from app.chat.weights.file_work import answer, begin
from app.chat.weights.loading import Loader
from app.engine.protocol.embedding_messages import (
    DescribeEmbedding,
    EmbeddingFacts,
    EmbeddingRows,
    FindNearest,
    NearestTokens,
    ReadEmbedding,
    ReadRotations,
    Rotations,
    Term,
)
from app.engine.protocol.messages import Tokens

if TYPE_CHECKING:
    from app.insight.inside.embedding import WordMap

N_NEAREST: Final = 60
"""Enough that some twenty words are left where spellings fold."""

KEPT_BYTES: Final = 16 * 2**20
"""Of answers, the newest aside."""

NO_MAP: Final = "These words couldn't be laid out ({fault})."

Say = Callable[[str], None]
HowFar = Callable[[int, int], None]


def unheard(_done: int, _total: int) -> None:
    """Nobody wants to know how far it is."""


@dataclass(frozen=True, slots=True)
class Placed:
    """Words on a map, in the order in which they were asked for."""

    token_ids: tuple[int, ...]
    map: WordMap


class Embeddings:
    """None of these waits. `then` or `failed` (with a sentence) is called once, at once where it is
    known already, unless a newer question of the same kind, `stop`, or `still` says that nobody
    waits any more. `progress`: rows that were read, of how many."""

    def __init__(self, around: Surroundings, loader: Loader, questions: Questions) -> None:
        self._around = around
        self._loader = loader
        self._questions = questions
        self._kept: Kept[Any] = Kept(loader, _size_bytes)
        kinds = ("read", "facts", "nearest", "map", "turn")
        self._newest = {kind: Newest(questions) for kind in kinds}

    def beside(self) -> Embeddings:
        """For somebody else who asks: neither ends the questions of the other, and what has been
        found is both's."""
        other = Embeddings(self._around, self._loader, self._questions)
        other._kept = self._kept
        return other

    def read(
        self,
        token_ids: Sequence[int],
        then: Callable[[EmbeddingRows], None],
        failed: Say,
        *,
        still: Still,
    ) -> None:
        """The vectors of some tokens, as the file has them."""
        command = ReadEmbedding(0, list(token_ids))
        key = ("read", *token_ids)
        self._ask("read", key, command, EmbeddingRows, then, failed, unheard, still=still)

    def describe(
        self,
        then: Callable[[EmbeddingFacts], None],
        failed: Say,
        progress: HowFar = unheard,
        *,
        still: Still,
    ) -> None:
        """What all vectors have in common: their mean, their lengths."""
        command = DescribeEmbedding(0)
        self._ask("facts", "facts", command, EmbeddingFacts, then, failed, progress, still=still)

    def nearest(
        self,
        terms: Sequence[tuple[int, float]],
        then: Callable[[NearestTokens], None],
        failed: Say,
        progress: HowFar = unheard,
        *,
        still: Still,
        n: int = N_NEAREST,
    ) -> None:
        """The tokens nearest to a sum: of each (token, factor)."""
        command = FindNearest(0, [Term(token_id, factor) for token_id, factor in terms], n)
        key = ("nearest", n, *terms)
        self._ask("nearest", key, command, NearestTokens, then, failed, progress, still=still)

    def lay_out(
        self,
        token_ids: Sequence[int],
        then: Callable[[Placed], None],
        failed: Say,
        progress: HowFar = unheard,
        *,
        still: Still,
    ) -> None:
        """Some words on a map: of each token once."""
        ids = tuple(dict.fromkeys(token_ids))
        is_newest = self._newest["map"].begin()

        def counts() -> bool:
            return is_newest() and still()

        def read(facts: EmbeddingFacts) -> None:
            command = ReadEmbedding(0, list(ids))

            def place(rows: EmbeddingRows) -> None:
                work, _ = begin(lambda: Placed(ids, _laid_out(rows, facts)), "word-map")
                answer(self._around, work, then, failed, _sentence, counts)

            key = ("read", *ids)
            self._ask_for("map", key, command, EmbeddingRows, place, failed, unheard, still=counts)

        self._ask_for(
            "map",
            "facts",
            DescribeEmbedding(0),
            EmbeddingFacts,
            read,
            failed,
            progress,
            still=counts,
        )

    def rotations(self, then: Callable[[Rotations], None], failed: Say, *, still: Still) -> None:
        """How each layer rotates its queries and keys (see `app/insight/inside/position.py`)."""
        command = ReadRotations(0)
        self._ask("turn", "turn", command, Rotations, then, failed, unheard, still=still)

    def find(
        self, word: str, then: Callable[[tuple[int, ...]], None], failed: Say, *, still: Still
    ) -> None:
        """The token that a word is: with a space before it, as inside a text, or as it stands.
        Where it is several tokens, all of these: such a word has no vector."""
        as_it_stands = word.strip()

        def try_alone(spaced: Tokens) -> None:
            def choose(bare: Tokens) -> None:
                is_shorter = 0 < len(bare.token_ids) < len(spaced.token_ids)
                then(tuple((bare if is_shorter else spaced).token_ids))

            if len(spaced.token_ids) == 1:
                then(tuple(spaced.token_ids))
            else:
                self._questions.tokenize(as_it_stands, choose, failed, still=still, inside=True)

        self._questions.tokenize(f" {as_it_stands}", try_alone, failed, still=still, inside=True)

    def stop(self, *kinds: str) -> None:
        """No answer of these kinds is wanted any more, or of any: nobody is called."""
        for kind in kinds or ("read", "facts", "nearest", "map", "turn"):
            self._newest[kind].begin()

    # --- asking ---------------------------------------------------------------------------------

    def _ask(
        self,
        kind: str,
        key: object,
        command: Any,
        result: type[Any],
        then: Callable[[Any], None],
        failed: Say,
        progress: HowFar,
        *,
        still: Still,
    ) -> None:
        is_newest = self._newest[kind].begin()
        self._ask_for(
            kind,
            key,
            command,
            result,
            then,
            failed,
            progress,
            still=lambda: is_newest() and still(),
        )

    def _ask_for(
        self,
        kind: str,
        key: object,
        command: Any,
        result: type[Any],
        then: Callable[[Any], None],
        failed: Say,
        progress: HowFar,
        *,
        still: Still,
    ) -> None:
        """What is known is told at once."""
        loaded = self._loader.loaded
        known = None if self._loader.is_loading else self._kept.get(key)
        if known is not None:
            then(known)
            return

        def keep(found: Any) -> None:
            if self._loader.loaded is loaded:
                self._kept.put(key, found, KEPT_BYTES)
            then(found)

        self._newest[kind].request_id = self._questions.ask(
            command, result, keep, failed, still=still, progress=progress
        )


def _size_bytes(found: Any) -> int:
    return len(found.rows.data) if isinstance(found, EmbeddingRows) else 0


def _laid_out(rows: EmbeddingRows, facts: EmbeddingFacts) -> WordMap:
    """On a thread: of some hundred words it takes a moment."""
    import numpy as np

    from app.insight.inside.embedding import word_map

    vectors = np.frombuffer(rows.rows.data, "<f4").reshape(-1, rows.n_embd)
    return word_map(vectors, np.frombuffer(facts.mean.data, "<f4"))


def _sentence(error: BaseException) -> str:
    return NO_MAP.format(fault=type(error).__name__)
