"""BM25: how well a part of a text fits a question, by the words that they share.

For each term t of the question, a part D gets

              IDF(t) ·  f · (k1 + 1) / (f + k1 · (1 - b + b · |D| / avg))

and its score is the sum. Read from the right:

* `f` is how often t stands in D. Twice is better than once, but ten times is not five times better
  than twice: the fraction grows towards k1 + 1 and never beyond. `k1` says how slowly.
* `|D| / avg` is D's length over the average one, in terms. In a long part a word is more likely to
  stand by chance, so its f counts for less. `b` says by how much: 0 not at all, 1 in full.
* `IDF(t) = ln(1 + (N - n + 0.5) / (n + 0.5))`: of N parts, n hold t. A word that stands in all of
  them ("the") tells nothing and gets next to nothing; one that stands in a single one, nearly all.

Three parts, asked for "deep pier":

    the pier is deep       pier: n = 2 of 3, IDF 0.470    deep: n = 1, IDF 0.981
    the pier is old        only pier
    the tower was old      neither: 0

All are equally long, so |D| / avg = 1 and each term that stands there once has the fraction
(k1 + 1) / (1 + k1) = 1: the scores are 1.451, 0.470 and 0.

Source: Robertson and Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond",
Foundations and Trends in Information Retrieval 3 (2009), equation 3.15; the 1 + in the IDF, which
keeps it above 0, is Lucene's.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Final

from app.insight.retrieval.terms import terms

K1: Final = 1.2
B: Final = 0.75


class Bm25:
    """The parts of a text, ready for questions.

    >>> parts = Bm25(["the pier is deep", "the pier is old", "the tower was old"])
    >>> [f"{score:.3f}" for score in parts.scores("deep pier")]
    ['1.451', '0.470', '0.000']
    """

    def __init__(self, texts: Sequence[str], k1: float = K1, b: float = B) -> None:
        self._k1, self._b = k1, b
        counts = [Counter(terms(text)) for text in texts]
        self._lengths = [sum(count.values()) for count in counts]
        self._average = sum(self._lengths) / max(1, len(texts))
        self._holders: dict[str, list[tuple[int, int]]] = {}
        for place, count in enumerate(counts):
            for term, often in count.items():
                self._holders.setdefault(term, []).append((place, often))

    def scores(self, question: str) -> list[float]:
        """One for each part, 0 where it shares no term. A term that is asked for twice counts
        once: what is said twice in a question is rarely meant twice."""
        found = [0.0] * len(self._lengths)
        for term in set(terms(question)):
            holders = self._holders.get(term, ())
            idf = self._idf(len(holders))
            for place, often in holders:
                length = self._lengths[place] / self._average
                slowed = often + self._k1 * (1 - self._b + self._b * length)
                found[place] += idf * often * (self._k1 + 1) / slowed
        return found

    def _idf(self, n_holders: int) -> float:
        n = len(self._lengths)
        return math.log(1 + (n - n_holders + 0.5) / (n_holders + 0.5))
