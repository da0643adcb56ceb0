"""The embedding and the rotations of real weights, asked for beside replies as the window asks."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from app.engine.protocol.embedding_messages import (
    DescribeEmbedding,
    EmbeddingFacts,
    EmbeddingRows,
    FindNearest,
    NearestTokens,
    ReadEmbedding,
    ReadRotations,
    Rotation,
    Rotations,
    Term,
)
from app.engine.protocol.inside_messages import Inside, InsideCommand, LookInside
from app.engine.protocol.messages import Done, Event, Failed, Finished, Progress, Stopped
from app.gguf.header import read_header
from app.insight.inside.embedding import input_scale

if TYPE_CHECKING:
    from app.engine.process.native.weights import Weights
    from app.engine.process.probe.room import ProbeRoom

pytestmark = pytest.mark.weights


class Asking:
    """A room, and what it says."""

    def __init__(self, weights: Weights) -> None:
        from app.engine.process.cache.cells import Traits
        from app.engine.process.probe.room import ProbeRoom

        self.events: list[Event] = []
        self.now = 0.0
        self.room: ProbeRoom = ProbeRoom(
            weights, lambda: (), Traits(), self.events.append, lambda: self.now
        )

    def answer(self, command: InsideCommand) -> Any:
        """The result of a question, which ends well."""
        self.room.ask(command)
        while self.room.has_work(beside_replies=False):
            self.room.step()
        (ending,) = self.endings(command.id)
        assert isinstance(ending, Finished), ending
        return ending.result

    def endings(self, request_id: int) -> list[Event]:
        ends = (Finished, Stopped, Failed)
        return [e for e in self.events if isinstance(e, ends) and e.id == request_id]


@pytest.fixture(params=["starter", "gemma"])
def weights(request: pytest.FixtureRequest) -> Weights:
    found: Weights = request.getfixturevalue(request.param)
    return found


ONE = pytest.mark.parametrize(
    "weights", ["starter", pytest.param("gemma", marks=pytest.mark.soak)], indirect=True
)
"""For what is the same with any weights."""


@pytest.fixture
def asking(weights: Weights) -> Any:
    made = Asking(weights)
    yield made
    made.room.close()


def numbers_of(inside: Inside, name: str) -> np.ndarray[Any, Any]:
    array = next(each for each in inside.floats if each.name == name)
    return np.array(array.values.numbers(), np.float32).reshape(array.shape)


def test_a_row_is_what_enters_the_network(asking: Asking, weights: Weights) -> None:
    """Of the running graph, not of a formula: Llama takes the row as it is, Gemma times
    sqrt(n_embd)."""
    ids = weights.vocabulary.tokenize("The capital of France is Paris", False, True)
    read = asking.answer(ReadEmbedding(1, ids))
    assert isinstance(read, EmbeddingRows)
    rows = np.array(read.rows.numbers(), np.float32).reshape(len(ids), read.n_embd)
    for at in (1, len(ids) - 1):
        inside = asking.answer(LookInside(10 + at, ids[: at + 1], ["embedding"]))
        entered = numbers_of(inside, "embedding")
        scale = input_scale(rows[at], entered)
        is_gemma = weights.loaded.architecture == "gemma3"
        assert scale == pytest.approx(read.n_embd**0.5 if is_gemma else 1.0, rel=1e-6)
        np.testing.assert_allclose(entered / scale, rows[at], rtol=1e-6)
        assert input_scale(rows[at - 1], entered) is None, "it is no multiple of another row"


def test_neighbours_of_a_word_are_words_like_it(asking: Asking, weights: Weights) -> None:
    """The spellings of a word come first, and others of its kind are among them."""
    dog, cat, paris = (only(weights, f" {word}") for word in ("dog", "cat", "Paris"))
    near = asking.answer(FindNearest(1, [Term(dog)], 40))
    assert isinstance(near, NearestTokens)
    found = near.token_ids.numbers().tolist()
    words = [weights.vocabulary.piece(i).decode("utf-8", "replace").strip().lower() for i in found]
    assert found[0] == dog
    assert words[:3].count("dog") + words[:3].count("dogs") == 3
    assert cat in found
    assert paris not in found
    assert near.n_vocab == weights.vocabulary.n_vocab


def only(weights: Weights, word: str) -> int:
    (token_id,) = weights.vocabulary.tokenize(word)
    return token_id


@ONE
def test_progress_is_told_and_ends_before_the_answer(asking: Asking) -> None:
    asking.answer(DescribeEmbedding(7))
    told = [e for e in asking.events if isinstance(e, Progress)]
    assert {(e.id, e.phase) for e in told} == {(7, "embedding")}
    done = [e.done for e in told]
    assert done == sorted(set(done))
    assert done[-1] == told[0].total
    assert isinstance(asking.events[-1], Finished)


@ONE
def test_stopped_in_the_middle_it_ends_once_and_the_next_is_answered(asking: Asking) -> None:
    asking.room.ask(DescribeEmbedding(1))
    asking.room.ask(DescribeEmbedding(2))
    for _ in range(3):
        asking.room.step()
    asking.room.stop(1)
    asking.room.stop(1)
    facts = asking.answer(DescribeEmbedding(3))
    assert isinstance(facts, EmbeddingFacts)
    assert asking.endings(1) == [Stopped(1, Done())]
    assert [type(e) for i in (2, 3) for e in asking.endings(i)] == [Finished, Finished]


@ONE
def test_beside_a_reply_it_rests_after_each_slice(asking: Asking) -> None:
    """A slice that takes a second is followed by 24 without."""
    asking.room.ask(DescribeEmbedding(1))
    clock = iter([0.0, 1.0])
    asking.room._slices._clock = lambda: next(clock, asking.now)
    asking.room.step()
    asking.now = 24.9
    assert not asking.room.has_work(beside_replies=True)
    assert asking.room.has_work(beside_replies=False)
    asking.now = 25.1
    assert asking.room.has_work(beside_replies=True)
    assert asking.room.idle_s is None or asking.room.idle_s >= 0


@ONE
def test_a_refusal_ends_the_question_alone(asking: Asking) -> None:
    asking.room.ask(ReadEmbedding(1, [-5]))
    facts = asking.answer(DescribeEmbedding(2))
    assert isinstance(facts, EmbeddingFacts)
    (failed,) = asking.endings(1)
    assert isinstance(failed, Failed)
    assert failed.kind == "bad_setting"


def test_rotations_are_those_of_the_file(asking: Asking, weights: Weights) -> None:
    told = asking.answer(ReadRotations(1))
    assert isinstance(told, Rotations)
    header = read_header(Path(weights.loaded.path))
    assert told.n_layer == weights.n_layer
    assert told.sentence == ""
    layers = sorted(layer for each in told.rotations for layer in each.layers)
    assert layers == list(range(weights.n_layer))
    if weights.loaded.architecture == "llama":
        (rotation,) = told.rotations
        assert (rotation.order, rotation.is_window) == ("interleaved", False)
        assert rotation.n_dims == header.number("rope.dimension_count")
        assert rotation.freq_base == header.metadata["llama.rope.freq_base"]
    else:
        window, whole = sorted(told.rotations, key=lambda each: each.freq_base)
        assert (window.is_window, whole.is_window) == (True, False)
        assert whole.layers == [5, 11, 17], "every sixth"
        assert whole.freq_base == header.metadata["gemma3.rope.freq_base"]
        assert window.freq_base == 10_000.0, "which no key of this file says"
        assert {each.order for each in told.rotations} == {"halves"}
        assert {each.n_dims for each in told.rotations} == {256}
    assert all(isinstance(each, Rotation) and not each.factors.size for each in told.rotations)


def test_what_an_adapter_adds_is_said_to_be_left_out(tmp_path: Path, native_log: Any) -> None:
    from gguf_writer import bpe_vocabulary, tiny_llama, tiny_lora
    from native_session import load_quietly

    from app.engine.process.probe.room import ADAPTED
    from app.engine.protocol.adapter_messages import Lora

    tiny_llama(tmp_path / "m.gguf", vocabulary=bpe_vocabulary(["hello"]))
    tiny_lora(tmp_path / "l.gguf")
    loras = [Lora(str(tmp_path / "l.gguf"))]
    weights = load_quietly(tmp_path / "m.gguf", native_log, n_ctx=256, n_threads=1, loras=loras)
    adapted = Asking(weights)
    try:
        assert adapted.answer(ReadEmbedding(1, [3])).notes == [ADAPTED]
    finally:
        adapted.room.close()
        weights.close()
