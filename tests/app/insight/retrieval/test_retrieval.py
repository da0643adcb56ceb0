"""Cutting, scoring and choosing, each against something that was worked out in another way."""

from __future__ import annotations

import math
import random

import numpy as np
from each import each
from hypothesis import given, settings, strategies as st

from app.insight.retrieval.bm25 import K1, B, Bm25
from app.insight.retrieval.choice import Part, choose, within
from app.insight.retrieval.chunks import Chunk, characters_for, chunks_of, label_at
from app.insight.retrieval.cosine import cosines
from app.insight.retrieval.terms import terms

LETTERS = st.text(alphabet="ab .!?\n#1東京。\u0e01", max_size=300)
PLACES = st.lists(
    st.tuples(st.integers(-5, 400), st.sampled_from(["page 1", "page 2"])), max_size=4
)


@settings(max_examples=60, deadline=None)
@given(LETTERS, st.integers(1, 60), PLACES)
def test_parts_cover_the_text_in_order_and_cross_no_page(text, size, places):
    parts = chunks_of(text, size, places)
    at = 0
    for part in parts:
        assert text[at : part.start].strip() == ""  # only spaces are left out
        assert at <= part.start < part.end <= part.start + size
        at = part.end
        assert not any(part.start < min(start, len(text)) < part.end for start, _ in places)
    assert text[at:].strip() == ""


@each(
    ("text", "size", "parts"),
    [
        # a paragraph before a sentence, a sentence before a word, a heading before a paragraph
        ("One fact. Two.\n\nA third one here.", 20, ["One fact. Two.\n\n", "A third one here."]),
        ("One fact here. Two of them there.", 20, ["One fact here. ", "Two of them there."]),
        ("aaa bbb ccc ddd", 9, ["aaa bbb ", "ccc ddd"]),
        ("Old text.\n\n3.2 Depth\nIt\n\nis.", 21, ["Old text.\n\n", "3.2 Depth\nIt\n\nis."]),
        ("東京。大阪。京都。", 7, ["東京。大阪。", "京都。"]),
        ("x" * 25, 10, ["x" * 10, "x" * 10, "x" * 5]),
        ("version 1.5 of it, 2.5 of that", 22, ["version 1.5 of it, ", "2.5 of that"]),
        ("", 5, []),
    ],
)  # fmt: skip
def test_a_part_ends_at_the_strongest_border(text, size, parts):
    assert [text[part.start : part.end] for part in chunks_of(text, size)] == parts


def test_a_text_of_dots_is_gone_through_once():
    """Each dot tried as the end of a sentence, and each run read anew, would take an hour."""
    for text in ("." * 300_000, "!?" * 100_000 + '"' * 100_000, "\n" + " " * 99_000 + "x"):
        assert sum(part.end - part.start for part in chunks_of(text, 800)) > 0


def test_of_many_texts_the_parts_that_fit_best_are_within_the_budget():
    parts = [(n, Part(0, 100, float(n))) for n in range(20)]
    assert within(parts, 300, [1.0] * 20) == {17, 18, 19}
    assert within(parts, 10, [1.0] * 20) == {19}
    assert within([], 10, []) == set()


def test_a_part_has_the_name_of_its_place():
    places = [(0, "page 1"), (10, "page 2")]
    parts = chunks_of("aaaa bbbb cccc dddd", 8, places)
    assert [part.label for part in parts] == ["page 1", "page 1", "page 2", "page 2"]
    assert [label_at(at, places) for at in (0, 9, 10, 99)] == [
        "page 1",
        "page 1",
        "page 2",
        "page 2",
    ]
    assert label_at(3, []) == ""
    assert characters_for(10, "x" * 900, 300) == 30
    assert characters_for(10, "京" * 900) == 10


@each(
    ("text", "found"),
    [
        ("The piers, 3.5 m", ["the", "piers", "3", "5", "m"]),
        ("HARBOURS harbour's", ["harbours", "harbo*", "harbour", "harbo*", "s"]),
        ("東京に行く", ["東京", "京に", "に行", "行く"]),
        ("猫", ["猫"]),
        ("GPT模型2", ["gpt", "模型", "2"]),
        ("서울은 가", ["서울", "울은", "가"]),  # a particle is joined to Seoul
        ("हिन्दी में", ["हिन्दी", "में"]),
        ("கடல் כִּתָב كِتَاب", ["கடல்", "כתב", "كتاب"]),
        ("Zürich e\u0301te がかﾞ", ["zurich", "zuric*", "ete", "がが"]),
        ("ﬁve co\u00adop Straße", ["five", "coop", "strasse", "stras*"]),
        ("... !", []),
    ],
)  # fmt: skip
def test_terms(text, found):
    assert terms(text) == found


def by_the_book(texts: list[str], question: str) -> list[float]:
    """Equation 3.15, written down part by part and term by term, as it stands there."""
    parts = [terms(text) for text in texts]
    average = sum(len(part) for part in parts) / len(parts)
    scores = []
    for part in parts:
        score = 0.0
        for term in sorted(set(terms(question))):
            tf = part.count(term)
            df = sum(term in other for other in parts)
            length_norm = (1 - B) + B * len(part) / average
            idf = math.log((len(parts) - df + 0.5) / (df + 0.5) + 1)
            score += idf * (tf * (K1 + 1)) / (tf + K1 * length_norm)
        scores.append(score)
    return scores


def test_bm25_is_the_formula_of_the_book():
    dice = random.Random(7)
    words = ["pier", "harbour", "harbours", "deep", "of", "14", "東京都"]
    texts = [" ".join(dice.choices(words, k=dice.randint(1, 12))) for _ in range(40)]
    for question in ("deep pier", "harbour of 14", "東京", "nothing of it", "deep deep"):
        np.testing.assert_allclose(
            Bm25(texts).scores(question), by_the_book(texts, question), rtol=1e-12
        )
    assert Bm25([]).scores("deep") == []
    assert Bm25(["", "deep"]).scores("deep")[0] == 0


def test_cosines_are_those_of_the_angles():
    angles = np.linspace(0, math.pi, 9)
    parts = np.array([[3 * math.cos(a), 3 * math.sin(a)] for a in angles], "f4")
    found = cosines(parts, np.array([2, 0], "f4"))
    np.testing.assert_allclose(found, np.cos(angles), atol=1e-6)
    assert cosines(np.zeros((1, 2), "f4"), np.array([1, 0], "f4")) == [0.0]


def test_the_best_that_fit_are_taken_in_the_texts_order():
    chunks = [Chunk(at * 10, at * 10 + 10, f"page {at // 3}") for at in range(6)]
    scores = [0.1, 0.9, 0.0, 0.8, 0.7, 0.05]

    def cost(chunk: Chunk) -> int:
        return chunk.end - chunk.start

    def taken(budget: float) -> list[tuple[int, int, float]]:
        return [(p.start, p.end, p.score) for p in choose(chunks, scores, budget, cost)]

    assert taken(30) == [(10, 20, 0.9), (30, 50, 0.8)]  # neighbours are one
    assert taken(5) == [(10, 20, 0.9)]  # the best one always
    assert taken(1000) == [(0, 20, 0.9), (30, 60, 0.8)]  # never what fits nothing
    assert choose([], [], 10, cost) == []
    across = [Chunk(0, 10, "page 1"), Chunk(10, 20, "page 2")]
    assert len(choose(across, [1, 1], 20, cost)) == 2  # each opens at its own page
