"""Finds the parts of a document that fit a question: by meaning where an embedding model is set,
by words where there is none, or where it fails.

What must hold: cutting and counting words goes on beside the desk's thread; a document is cut, and
its vectors are made, once while the app runs, whatever asks for them; whoever asked is answered
once, in the desk's thread, unless nobody wants to know any more.
"""

from __future__ import annotations

import dataclasses
import math
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from app.chat.attachments.document_parts import BY_MEANING, BY_WORDS, n_tokens_of, places_of
from app.chat.events import Noticed
from app.chat.inspection.questions import Questions
from app.chat.surroundings import ALWAYS, Still, Surroundings
from app.chat.weights.loading import Loader
from app.engine.protocol.passage_messages import EmbedPassages, PassagesEmbedded
from app.insight.retrieval.bm25 import Bm25
from app.insight.retrieval.choice import Part, choose, within
from app.insight.retrieval.chunks import Chunk, characters_for, chunks_of
from app.insight.retrieval.terms import terms
from models.records import Attachment

CHUNK_TOKENS: Final = 200
"""Of a part, about: a thought or two, and within the window of every embedding model."""
BATCH: Final = 16
"""Passages per question to the engine: what else is asked comes in between."""
SHARE: Final = 4
"""All parts together take at most a quarter of the window: the chat goes on, and each later
question brings parts of its own."""
MOST_TOKENS: Final = 4_000
LEAST_TOKENS: Final = 200
UNKNOWN_CTX: Final = 8_192
"""Where the window is not known: at a server that doesn't tell."""
FULL_QUESTION: Final = 6
"""A question with fewer words than this ("and the second?") is read together with the one before
it."""
NEARLY: Final = 0.3
"""Of the best score by words: what has less shares a word or two by chance."""
STANDS_OUT: Final = 1.5
"""Standard deviations above the mean of a document's cosines: models give texts that have nothing
to do with each other 0.1 to 0.7, so only what stands out of the others tells."""
QUESTION_END: Final = 1_000
"""Characters of a long message's beginning and end that are searched for."""
MOST_AT_ONCE: Final = 1_000
"""Parts that are scored on the desk's thread: 15 ms."""
MOST_KEPT: Final = 10_000_000
"""Characters of documents whose parts are held ready: about 27 bytes for each."""
MOST_VECTORS: Final = 60_000
"""Of all documents together: of 48 million characters, 90 MB with 384 numbers each."""
BY_WORDS_INSTEAD: Final = "Documents are searched by words. {why}"
AT_A_SERVER: Final = "The embedding model runs only beside a model on this computer."


_Text = tuple[str, tuple[tuple[int, str], ...]]
"""Of a document, with its places: the same text may have other pages in another file."""


@dataclass(slots=True)
class _Vectors:
    """Of a text's first parts, by the model at `path`."""

    path: str = ""
    rows: list[Any] = field(default_factory=list)


@dataclass(slots=True)
class _Cut:
    """A text in parts."""

    chunks: list[Chunk]
    texts: list[str]
    words: Bm25
    vectors: _Vectors


@dataclass(frozen=True, slots=True)
class Found:
    """`parts` in the text's order. `by`: how they were found. `is_beginning`: nothing fits, so
    they are the beginning. `why_words`: why not by meaning, though a model is set."""

    parts: list[Part]
    by: str = BY_WORDS
    is_beginning: bool = False
    why_words: str = ""


Then = Callable[[Found], None]
Told = Callable[[int, int], None]


def question_of(asked: list[str]) -> str:
    """What to search for: the last question, and where that has few words those before it.

    >>> question_of(["How deep is the harbour of Vell?", "And the second?"])
    'How deep is the harbour of Vell?\\nAnd the second?'
    >>> question_of(["Hello", "How deep is the harbour of Vell?"])
    'How deep is the harbour of Vell?'
    """
    taken: list[str] = []
    for text in map(_ends_of, reversed(asked[-3:])):
        taken.insert(0, text)
        if sum(not term.endswith("*") for term in terms("\n".join(taken))) >= FULL_QUESTION:
            break
    return "\n".join(taken).strip()


def _ends_of(text: str) -> str:
    if len(text) <= 2 * QUESTION_END:
        return text
    return f"{text[:QUESTION_END]}\n{text[-QUESTION_END:]}"


def budget_of(n_ctx: int) -> int:
    """Tokens that all parts of one message may take together."""
    return min(MOST_TOKENS, max(LEAST_TOKENS, (n_ctx or UNKNOWN_CTX) // SHARE))


def together(found: Sequence[tuple[Attachment, Found]], budget: int) -> list[Found]:
    """Answers of several documents, in `budget` tokens together: each had a share, but its best
    part may be larger than that."""
    parts = [(n, part) for n, (_, answer) in enumerate(found) for part in answer.parts]
    rates = [n_tokens_of(each) / max(1, len(each.text)) for each, _ in found]
    taken = within(parts, budget, rates)
    kept: list[list[Part]] = [[] for _ in found]
    for place in sorted(taken):
        n, part = parts[place]
        most = max(1, int(budget / rates[n]))  # in a small window even the best one is too long
        end = min(part.end, part.start + most)
        kept[n].append(dataclasses.replace(part, end=end))
    answers = zip(found, kept, strict=True)
    return [dataclasses.replace(answer, parts=own) for (_, answer), own in answers]


class PartsSearch:
    def __init__(self, around: Surroundings, loader: Loader, questions: Questions) -> None:
        self._around = around
        self._loader = loader
        self._questions = questions
        self._cuts: OrderedDict[_Text, _Cut] = OrderedDict()
        self._vectors: OrderedDict[_Text, _Vectors] = OrderedDict()
        self._coming: dict[_Text, list[Callable[[_Cut], None]]] = {}
        self._said = ""

    @property
    def n_ctx(self) -> int:
        loaded = self._loader.loaded
        return loaded.n_ctx if loaded is not None and loaded.n_ctx else UNKNOWN_CTX

    def find(
        self,
        document: Attachment,
        question: str,
        budget: int,
        then: Then,
        *,
        still: Still,
        told: Told = lambda done, total: None,
        by_words: Still = lambda: False,
        when_ready: Callable[[], None] | None = None,
    ) -> None:
        """`budget`: tokens, about. `told`: how many vectors are made, of how many. `by_words`:
        asked between two steps whether somebody would rather not wait for them. `when_ready`: then
        nobody waits at all: where vectors are missing the answer is by words, they are made
        meanwhile, and this is called when it is worth asking again."""

        def search(cut: _Cut) -> None:
            if not still():
                return
            path = self._around.settings.embedding_model
            why = self._no_vectors() if path else ""
            made = cut.vectors
            is_missing = made.path != path or len(made.rows) < len(cut.chunks)
            if not path or why or not cut.chunks or (not question and when_ready is None):
                self._say(why)
                self._answer(
                    partial(_by_words, document, cut, question, budget, why), cut, then, still
                )
                return
            if when_ready is not None and (is_missing or not question):
                self._answer(partial(_by_words, document, cut, question, budget), cut, then, still)
                again = when_ready if question else lambda: None
                self._embed(cut, path, again, self._say, still, told, by_words)
                return

            def give_up(why: str) -> None:
                self._say(why)
                self._answer(
                    partial(_by_words, document, cut, question, budget, why), cut, then, still
                )

            def compare(vectors: list[Any]) -> None:
                self._answer(
                    partial(_by_meaning, document, cut, vectors[0], budget), cut, then, still
                )

            self._embed(
                cut,
                path,
                lambda: self._ask(path, [question], compare, give_up, still, are_questions=True),
                give_up,
                still,
                told,
                by_words,
            )

        self._with_cut(document, search)

    def _answer(self, work: Callable[[], Found], cut: _Cut, then: Then, still: Still) -> None:
        """At once; of a text that takes longer than a frame, on a thread."""
        if len(cut.chunks) <= MOST_AT_ONCE:
            then(work())
            return

        def find() -> None:
            found = work()
            self._around.hand_over(lambda: then(found), still)

        threading.Thread(target=find, name="document-parts", daemon=True).start()

    def _no_vectors(self) -> str:
        return AT_A_SERVER if self._loader.remote is not None else ""

    def _say(self, why: str) -> None:
        """Once, until it is another reason."""
        if why and why != self._said:
            self._around.emit(Noticed("warning", BY_WORDS_INSTEAD.format(why=why)))
        self._said = why

    # --- cutting ----------------------------------------------------------------------------------

    def _with_cut(self, document: Attachment, then: Callable[[_Cut], None]) -> None:
        text = document.text, tuple(places_of(document))
        if text in self._cuts:
            self._cuts.move_to_end(text)
            then(self._cuts[text])
            return
        waiting = self._coming.setdefault(text, [])
        waiting.append(then)
        if len(waiting) > 1:
            return
        vectors = self._vectors.setdefault(text, _Vectors())

        def take(cut: _Cut) -> None:
            self._cuts[text] = cut
            while len(self._cuts) > 1 and sum(len(kept) for kept, _ in self._cuts) > MOST_KEPT:
                self._cuts.popitem(last=False)
            self._vectors[text] = vectors
            self._vectors.move_to_end(text)
            while len(self._vectors) > 1 and self._n_vectors() > MOST_VECTORS:
                self._vectors.popitem(last=False)
            for each in self._coming.pop(text, []):
                each(cut)

        def work() -> None:
            cut = _cut(*text, vectors)
            self._around.hand_over(lambda: take(cut), ALWAYS)  # whoever waits looks for himself

        threading.Thread(target=work, name="document-parts", daemon=True).start()

    def _n_vectors(self) -> int:
        return sum(len(made.rows) for made in self._vectors.values())

    # --- vectors ----------------------------------------------------------------------------------

    def _embed(
        self,
        cut: _Cut,
        path: str,
        then: Callable[[], None],
        failed: Callable[[str], None],
        still: Still,
        told: Told,
        by_words: Still,
    ) -> None:
        """Make the vectors that are missing, a few at a time; then go on."""
        made = cut.vectors
        if made.path != path:
            made.path, made.rows = path, []
        start, total = len(made.rows), len(cut.chunks)
        if start < total:
            told(start, total)
        if start >= total:
            then()
            return
        if by_words():
            failed("")
            return

        def take(vectors: list[Any]) -> None:
            if made.path == path and len(made.rows) == start:
                made.rows += vectors
            self._embed(cut, path, then, failed, still, told, by_words)

        self._ask(path, cut.texts[start : start + BATCH], take, failed, still)

    def _ask(
        self,
        path: str,
        texts: list[str],
        then: Callable[[list[Any]], None],
        failed: Callable[[str], None],
        still: Still,
        *,
        are_questions: bool = False,
    ) -> None:
        def take(answer: PassagesEmbedded) -> None:
            import numpy as np

            if answer.n != len(texts):
                failed("The embedding model left out texts.")
                return
            numbers = np.array(answer.vectors.numbers(), np.float32)
            then(list(numbers.reshape(answer.n, answer.n_embd)))

        command = EmbedPassages(0, path, texts, are_questions)
        self._questions.ask(command, PassagesEmbedded, take, failed, still=still)


def least_of(scores: list[float], by: str) -> float:
    """The score that a part must exceed; the best one always does.

    >>> least_of([10.0, 4.0, 2.0], BY_WORDS), least_of([0.75, 0.25, 0.25, 0.25], BY_MEANING)
    (3.0, 0.6997595264191645)
    """
    best = max(scores, default=0.0)
    if by != BY_MEANING:
        return best * NEARLY
    mean = sum(scores) / max(1, len(scores))
    spread = math.sqrt(sum((score - mean) ** 2 for score in scores) / max(1, len(scores)))
    return max(0.0, min(mean + STANDS_OUT * spread, best - 1e-6))


def _cut(text: str, places: Sequence[tuple[int, str]], vectors: _Vectors) -> _Cut:
    """In any thread."""
    chunks = chunks_of(text, characters_for(CHUNK_TOKENS, text), places)
    texts = [text[chunk.start : chunk.end] for chunk in chunks]
    return _Cut(chunks, texts, Bm25(texts), vectors)


def _by_words(document: Attachment, cut: _Cut, question: str, budget: int, why: str = "") -> Found:
    return _chosen(document, cut, cut.words.scores(question), budget, BY_WORDS, why)


def _by_meaning(document: Attachment, cut: _Cut, question: Any, budget: int) -> Found:
    import numpy as np

    from app.insight.retrieval.cosine import cosines

    scores = cosines(np.array(cut.vectors.rows, np.float32), question)
    return _chosen(document, cut, scores, budget, BY_MEANING)


def _chosen(
    document: Attachment, cut: _Cut, scores: list[float], budget: int, by: str, why: str = ""
) -> Found:
    size = characters_for(budget, document.text, n_tokens_of(document))
    least = least_of(scores, by)

    def cost(chunk: Chunk) -> int:
        return chunk.end - chunk.start

    parts = choose(cut.chunks, scores, size, cost, least_score=least)
    if parts:
        return Found(parts, by, why_words=why)
    early = [1.0 - place / len(cut.chunks) for place in range(len(cut.chunks))]
    start = choose(cut.chunks, early, size, cost)
    unscored = [Part(part.start, part.end, 0.0, part.label) for part in start]
    return Found(unscored, by, is_beginning=True, why_words=why)
