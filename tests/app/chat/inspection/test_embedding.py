"""Vectors of tokens as the window asks for them: kept, ended by newer ones, told how far."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from app.chat.inspection import embedding as module
from app.chat.inspection.questions import NO_WEIGHTS
from app.chat.surroundings import ALWAYS
from app.engine.protocol.embedding_messages import (
    EmbeddingFacts,
    EmbeddingRows,
    NearestTokens,
    Rotations,
)

SCRIPT: dict[str, Any] = {"replies": [{"text": "The cat saw the dog."}]}
SLOW: dict[str, Any] = {**SCRIPT, "inside": {"ms": 60_000, "chunks": 2}}


class Asking:
    """Whoever asks; what came."""

    def __init__(self, room: Any) -> None:
        self.room = room
        self.came: list[Any] = []
        self.failed: list[str] = []
        self.sent: list[Any] = []
        engine = room.desk.loader.engine
        request = engine.request

        def note(command: Any) -> int:
            self.sent.append(command)
            return int(request(command))

        engine.request = note

    @property
    def embedding(self) -> module.Embeddings:
        found: module.Embeddings = self.room.desk.embedding
        return found

    def answer(self, name: str, *args: Any, **named: Any) -> Any:
        self.came.clear()
        self.ask(name, *args, **named)
        self.room.until(lambda: self.came or self.failed, f"an answer to {name}")
        assert not self.failed
        return self.came[-1]

    def ask(self, name: str, *args: Any, still: Any = ALWAYS, **named: Any) -> None:
        ask = getattr(self.embedding, name)
        ask(*args, self.came.append, self.failed.append, still=still, **named)


@pytest.fixture
def asking(make_room: Any) -> Asking:
    return Asking(make_room(SCRIPT).start_ready())


def test_each_question_is_answered_and_asked_once(asking: Asking) -> None:
    for name, args, kind in (
        ("read", [[3, 4]], EmbeddingRows),
        ("describe", [], EmbeddingFacts),
        ("nearest", [[(3, 1.0), (4, -1.0)]], NearestTokens),
        ("rotations", [], Rotations),
    ):
        first = asking.answer(name, *args)
        assert isinstance(first, kind)
        n_sent = len(asking.sent)
        asking.came.clear()
        asking.ask(name, *args)
        assert asking.came == [first], "at once"
        assert len(asking.sent) == n_sent
    other = asking.answer("nearest", [(3, 1.0)])
    assert other.token_ids.numbers()[0] == 3


def test_two_who_ask_do_not_end_each_others_questions(asking: Asking) -> None:
    other = asking.embedding.beside()
    asking.ask("nearest", [(3, 1.0)])
    other.nearest([(4, 1.0)], asking.came.append, asking.failed.append, still=ALWAYS)
    asking.room.until(lambda: len(asking.came) == 2, "both answers")
    n_sent = len(asking.sent)
    other.nearest([(3, 1.0)], asking.came.append, asking.failed.append, still=ALWAYS)
    assert len(asking.came) == 3, "what one of them knows the other need not ask"
    assert len(asking.sent) == n_sent
    assert {found.token_ids.numbers()[0] for found in asking.came} == {3, 4}


def test_what_other_weights_said_is_forgotten(asking: Asking) -> None:
    asking.answer("describe")
    loader = asking.room.desk.loader
    loader.load(loader.state.loaded.path)
    asking.ask("describe")
    assert asking.failed == [NO_WEIGHTS], "nothing of weights that are about to go"
    asking.failed.clear()
    asking.room.until(lambda: not loader.is_loading, "the next ones")
    n_sent = len(asking.sent)
    asking.answer("describe")
    assert len(asking.sent) == n_sent + 1


def test_a_newer_question_of_a_kind_ends_an_older_one(make_room: Any) -> None:
    asking = Asking(make_room(SLOW).start_ready())
    stopped: list[int] = []
    engine = asking.room.desk.loader.engine
    stop = engine.stop
    engine.stop = lambda request_id: (stopped.append(request_id), stop(request_id))
    asking.ask("nearest", [(3, 1.0)])
    asking.ask("nearest", [(4, 1.0)])
    assert len(stopped) == 1
    asking.ask("describe")
    assert len(stopped) == 1, "of another kind"
    asking.embedding.stop("nearest")
    assert len(stopped) == 2
    asking.embedding.stop()
    assert len(stopped) == 3
    asking.embedding.stop()
    assert len(stopped) == 3
    asking.room.desk.questions.tokenize(
        "dog", asking.came.append, asking.failed.append, still=ALWAYS
    )
    asking.room.until(lambda: asking.came, "the tokens")
    assert len(asking.came) == 1
    assert asking.failed == []


def test_it_tells_how_far_it_is(make_room: Any) -> None:
    script = {**SCRIPT, "inside": {"ms": 2, "chunks": 4}}
    asking = Asking(make_room(script).start_ready())
    told: list[tuple[int, int]] = []
    facts = asking.answer("describe", progress=lambda *how_far: told.append(how_far))
    assert [done for done, _ in told] == sorted(done for done, _ in told)
    assert told[-1] == (facts.n_vocab, facts.n_vocab)


def test_an_answer_that_nobody_waits_for_any_more_is_dropped(asking: Asking) -> None:
    waits = [True]
    asking.ask("describe", still=lambda: waits[0])
    asking.ask("lay_out", [3, 4, 5], still=lambda: waits[0])
    waits[0] = False
    facts = asking.answer("describe")
    assert asking.came == [facts]


def test_words_are_laid_out_each_once(asking: Asking) -> None:
    placed = asking.answer("lay_out", [3, 4, 5, 4, 9])
    assert placed.token_ids == (3, 4, 5, 9)
    assert placed.map.points.shape == (4, 2)
    assert placed.map.neighbours.shape == (4, 3)
    n_sent = len(asking.sent)
    again = asking.answer("lay_out", [3, 4, 5, 9])
    np.testing.assert_array_equal(again.map.points, placed.map.points)
    assert len(asking.sent) == n_sent, "mean and rows are known"


def test_a_newer_map_replaces_an_older_one_that_is_still_computed(
    asking: Asking, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The thread of the older one is held back until the newer one has been told."""
    import threading

    first_may_go, laid_out = threading.Event(), module._laid_out

    def slow(rows: EmbeddingRows, facts: EmbeddingFacts) -> Any:
        if rows.norms.size == 2:
            assert first_may_go.wait(20)
        return laid_out(rows, facts)

    monkeypatch.setattr(module, "_laid_out", slow)
    asking.answer("describe")
    asking.answer("read", [3, 4])
    asking.came.clear()
    asking.ask("lay_out", [3, 4])
    placed = asking.answer("lay_out", [3, 4, 5])
    assert placed.token_ids == (3, 4, 5)
    older = [t for t in threading.enumerate() if t.name == "word-map"]
    first_may_go.set()
    for thread in older:
        thread.join(20)
    asking.room.pump()
    assert [each.token_ids for each in asking.came] == [(3, 4, 5)]


def test_refusals_and_faults_are_sentences(asking: Asking, monkeypatch: pytest.MonkeyPatch) -> None:
    asking.ask("nearest", [(10**9, 1.0)])
    asking.room.until(lambda: asking.failed, "the refusal")
    assert asking.failed[0].startswith("Choose tokens with IDs from 0 to ")
    asking.failed.clear()

    def broken(*_: object) -> Any:
        raise ZeroDivisionError

    monkeypatch.setattr(module, "_laid_out", broken)
    asking.ask("lay_out", [3, 4])
    asking.room.until(lambda: asking.failed, "the fault")
    assert asking.failed == [module.NO_MAP.format(fault="ZeroDivisionError")]
    assert asking.came == []


def test_a_word_is_found_as_inside_a_text_or_as_it_stands(
    asking: Asking, monkeypatch: pytest.MonkeyPatch
) -> None:
    from app.engine.protocol.messages import Tokens

    cuts = {" dog": [7], " paris": [8, 9], "paris": [5], " xyz": [1, 2], "xyz": [1, 2, 3], "": []}
    cuts[" "] = [4, 4]

    def tokenize(text: str, then: Any, _failed: Any, *, still: Any, inside: bool) -> None:
        assert inside
        then(Tokens(cuts[text], [b"x"] * len(cuts[text])))

    monkeypatch.setattr(asking.room.desk.questions, "tokenize", tokenize)
    for word in ("dog", " paris ", "xyz", " "):
        asking.ask("find", word)
    assert asking.came == [(7,), (5,), (1, 2), (4, 4)]


def test_what_is_kept_has_a_bound(asking: Asking, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "KEPT_BYTES", 32 * 4 * 3)
    asking.answer("read", [3, 4])
    asking.answer("read", [5, 6])
    n_sent = len(asking.sent)
    asking.answer("read", [5, 6])
    assert len(asking.sent) == n_sent
    asking.answer("read", [3, 4])
    assert len(asking.sent) == n_sent + 1, "the oldest was let go"
