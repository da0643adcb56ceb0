"""The search on made-up scores, against all texts that there are."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from app.engine.process.beams.search import Grown, Node, Search, best_of, log_softmax, scored
from app.refusal import Refusal

END = 0
Scores = np.ndarray[Any, np.dtype[np.float32]]


@dataclass(frozen=True)
class Language:
    """`n_vocab` tokens of which `END` ends a text; each text has scores of its own by chance."""

    n_vocab: int
    seed: int = 0
    spread: float = 2.0

    def scores(self, text: tuple[int, ...]) -> Scores:
        chance = np.random.default_rng([self.seed, len(text), *text])
        return (chance.standard_normal(self.n_vocab) * self.spread).astype(np.float32)

    def logprob(self, text: tuple[int, ...], token: int) -> float:
        """Softmax in plain Python, term by term."""
        exps = [math.exp(score) for score in self.scores(text).tolist()]
        return math.log(exps[token] / math.fsum(exps))

    def total(self, text: tuple[int, ...]) -> float:
        return math.fsum(self.logprob(text[:n], text[n]) for n in range(len(text)))

    def texts(self, length: int) -> list[tuple[int, ...]]:
        """Every text of at most `length` tokens that has ended, or is as long as that."""
        inner = [token for token in range(self.n_vocab) if token != END]
        found = [(*head, END) for n in range(length) for head in itertools.product(inner, repeat=n)]
        return found + list(itertools.product(inner, repeat=length))


@dataclass
class Searched:
    search: Search
    steps: list[Grown]

    @property
    def leaves(self) -> list[tuple[int, ...]]:
        return [tuple(node.ids) for node in self.search.leaves]

    @property
    def greedy(self) -> tuple[int, ...]:
        return tuple(self.search.greedy.ids)

    def nodes(self) -> list[Node]:
        return [node for step in self.steps for node in step.nodes]


def searched(
    language: Language, width: int, length: int, length_penalty: float = 0.0, **more: Any
) -> Searched:
    search = Search(width, length, length_penalty, frozenset([END]), **more)
    steps = []
    while search.open:
        rows = {node.number: language.scores(tuple(node.ids)) for node in search.open}
        steps.append(search.advance(rows))
    return Searched(search, steps)


def by_definition(language: Language, width: int, length: int) -> set[tuple[int, ...]]:
    """What a beam search leaves, by sorting all continuations of each step anew."""
    beams, finished = [()], set()
    for _ in range(length):
        pool = sorted(
            ((*text, token) for text in beams for token in range(language.n_vocab)),
            key=language.total,
            reverse=True,
        )
        beams = []
        for text in pool:
            if len(beams) == width:
                break
            if text[-1] == END:
                finished.add(text)
            else:
                beams.append(text)
    return finished | set(beams)


@pytest.mark.parametrize("seed", range(4))
def test_so_many_beams_that_none_is_given_up_find_every_text(seed: int) -> None:
    language, length = Language(4, seed), 4
    found = searched(language, 3**length + 1, length)

    every = language.texts(length)
    assert len(every) == 121
    assert sorted(found.leaves) == sorted(every)
    assert found.leaves == sorted(every, key=language.total, reverse=True)
    for node in found.search.leaves:
        assert node.total == pytest.approx(language.total(tuple(node.ids)), abs=1e-12)
    assert not any(step.pruned for step in found.steps)
    assert all(node.kind in ("alive", "finished") for node in found.nodes())
    # The shares of all texts make up the whole.
    assert math.fsum(math.exp(node.total) for node in found.search.leaves) == pytest.approx(1)


@pytest.mark.parametrize(("width", "seed"), [(1, 1), (2, 2), (3, 3), (5, 4)])
def test_fewer_beams_leave_what_the_definition_leaves(width: int, seed: int) -> None:
    language = Language(6, seed)
    found = searched(language, width, 5)

    wanted = by_definition(language, width, 5)
    if found.search.ended == "bound":  # the best ones, which are all that count, are known
        best = sorted(wanted, key=language.total, reverse=True)[:width]
        assert found.leaves[:width] == best
    else:
        assert set(found.leaves) == wanted
    for node in found.nodes():
        text = tuple(node.ids)
        assert node.logprob == pytest.approx(language.logprob(text[:-1], text[-1]), abs=1e-12)
        assert node.total == pytest.approx(language.total(text), abs=1e-12)


def test_greedy_takes_the_most_probable_token_each_time_whatever_the_beams_do() -> None:
    for seed in range(20):
        language = Language(5, seed)
        found = searched(language, 2, 6)

        wanted: tuple[int, ...] = ()
        while len(wanted) < 6 and wanted[-1:] != (END,):
            wanted += (int(np.argmax(language.scores(wanted))),)
        assert found.greedy == wanted
        on_it = [node for node in found.nodes() if node.is_greedy]
        assert [node.token_id for node in on_it] == list(wanted)
        assert all(child.parent is node for node, child in itertools.pairwise(on_it))


def test_one_beam_goes_past_an_end_where_greedy_stops() -> None:
    """An end token takes no beam's place."""
    language = Language(5, 7)
    found = searched(language, 1, 6)

    finished = [node for node in found.nodes() if node.kind == "finished"]
    for node in finished:
        assert node.is_end
        assert node.ids.count(END) == 1
    alive = [node for node in found.nodes() if node.kind == "alive"]
    assert all(END not in node.ids for node in alive)


def test_a_search_that_is_decided_ends_and_its_best_texts_are_those_of_a_whole_one() -> None:
    decided = 0
    for seed in range(30):
        language = Language(4, seed, spread=3.0)
        for length_penalty in (0.0, 0.7, 1.5):
            found = searched(language, 2, 7, length_penalty)
            if found.search.ended != "bound":
                continue
            decided += 1
            every = by_definition(language, 2, 7)

            def score(text: tuple[int, ...], alpha: float = length_penalty) -> float:
                return language.total(text) / len(text) ** alpha  # noqa: B023

            best = sorted(every, key=score, reverse=True)[:2]
            assert found.leaves[:2] == best
    assert decided > 10


def test_the_length_penalty_orders_leaves_and_keeps_the_same_beams() -> None:
    language = Language(5, 3)
    plain, longer = searched(language, 3, 3), searched(language, 3, 3, 2.0)

    kept = {tuple(node.ids) for node in plain.nodes() if node.kind == "alive"}
    assert kept == {tuple(node.ids) for node in longer.nodes() if node.kind == "alive"}
    for node in longer.search.leaves:
        assert node.score == pytest.approx(node.total / len(node.ids) ** 2)
    scores = [node.score for node in longer.search.leaves]
    assert scores == sorted(scores, reverse=True)


def test_what_is_given_up_is_told_once_and_runners_up_are_named() -> None:
    language = Language(6, 5)
    found = searched(language, 2, 6)

    gone = [node for step in found.steps for node in step.pruned]
    assert gone
    assert len(gone) == len(set(gone))
    for node in gone:
        assert node.kind == "alive"
    for step in found.steps:
        told = [node for node in step.nodes if node.kind == "pruned"]
        assert len(told) <= 2
        worst = min((n.total for n in step.nodes if n.kind == "alive"), default=-math.inf)
        assert all(node.total <= worst for node in told)


def test_what_is_forbidden_is_passed_over_and_dealt_to_nobody() -> None:
    language = Language(4, 2)

    def without_1(_: Node, logprobs: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        logprobs[1] = -np.inf
        return logprobs

    found = searched(language, 81, 3, allowed=without_1)

    assert sorted(found.leaves) == sorted(t for t in language.texts(3) if 1 not in t)
    for node in found.search.leaves:
        assert node.total == pytest.approx(language.total(tuple(node.ids)), abs=1e-12)


def test_beams_that_nothing_may_follow_end_the_search() -> None:
    def nothing_after_one(node: Node, logprobs: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        if node.step == 1:
            logprobs[:] = -np.inf
        return logprobs

    found = searched(Language(4), 2, 5, allowed=nothing_after_one)

    assert found.search.step == 2
    assert found.search.ended == "finished"
    assert len(found.greedy) == 1


def test_scores_that_are_no_numbers_are_refused() -> None:
    for bad in (np.nan, np.inf, -np.inf):
        with pytest.raises(Refusal):
            log_softmax(np.full(4, bad, np.float32))


def test_the_softmax_is_float64s() -> None:
    scores = (np.random.default_rng(1).standard_normal(5000) * 8).astype(np.float32)
    exact = [math.exp(value) for value in scores.astype(float).tolist()]
    total = math.log(math.fsum(exact))

    wanted = scores.astype(np.float64) - total
    assert np.abs(log_softmax(scores) - wanted).max() < 1e-11


@pytest.mark.parametrize("count", [1, 3, 50])
def test_the_best_are_found_with_ties_in_order_of_their_ids(count: int) -> None:
    values = np.array([1.0, 3.0, 2.0, 3.0, -np.inf, 2.0])
    wanted: list[tuple[int, float]] = sorted(
        [(i, v) for i, v in enumerate(values.tolist()) if v > -np.inf], key=lambda p: (-p[1], p[0])
    )
    assert best_of(values, count) == wanted[:count]


def test_a_longer_text_of_the_same_mean_scores_higher_from_one_on() -> None:
    means: Callable[[float], list[float]] = lambda alpha: [  # noqa: E731
        scored(-2.0 * n, n, alpha) for n in (1, 2, 4)
    ]
    assert means(1.0) == [-2.0, -2.0, -2.0]
    assert means(0.5) == sorted(means(0.5), reverse=True)
    assert means(1.5) == sorted(means(1.5))
