"""Rotating a query by hand gives the query that the graph has: on both test files, and on tiny
ones that scale their positions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from gguf_writer import Shape, Tensor, Vocabulary, bpe_vocabulary, tiny_llama

from app.engine.process.probe.graph import NO_ATTENTION, NO_ROTATION
from app.engine.protocol.embedding_messages import ReadRotations, Rotations
from app.engine.protocol.inside_messages import Inside, LookInside
from app.gguf.header import read_header
from app.insight.inside.arrays import arrays_of
from app.insight.inside.exchange import Exchanged, compare, exchanged
from app.insight.inside.position import (
    NO_POSITION,
    Rope,
    frequencies,
    magnitude,
    pairs_of,
    position_of,
    rope_of,
    rotated,
)

if TYPE_CHECKING:
    from app.engine.process.native.native import NativeLog
    from app.engine.process.native.weights import Weights

pytestmark = pytest.mark.weights


def told(
    weights: Weights, ids: list[int], want: Sequence[str] = ("q_before", "q_after")
) -> tuple[Rotations, dict[str, Any]]:
    """The rotations, and the last token's queries before and after, or what else is wanted."""
    from app.engine.process.cache.cells import Traits
    from app.engine.process.probe.room import ProbeRoom
    from app.engine.protocol.messages import Finished

    results: list[Any] = []
    room = ProbeRoom(
        weights,
        lambda: (),
        Traits(),
        lambda event: results.append(event.result) if isinstance(event, Finished) else None,
    )
    try:
        room.ask(ReadRotations(1))
        room.ask(LookInside(2, ids, [*want]))
        while room.has_work(beside_replies=False):
            room.step()
    finally:
        room.close()
    rotations, inside = results
    assert isinstance(rotations, Rotations)
    assert isinstance(inside, Inside)
    return rotations, arrays_of(inside)


def check(rotations: Rotations, arrays: dict[str, Any], position: int) -> None:
    """Every head of every layer; the graph works in float32, with angles that it multiplies up."""
    for rotation in rotations.rotations:
        for layer in rotation.layers:
            before, after = arrays["q_before"][layer], arrays["q_after"][layer]
            turned = rotated(rope_of(rotation), before, position)
            largest = np.abs(before).max()
            np.testing.assert_allclose(turned, after, atol=1e-4 * largest, err_msg=f"layer {layer}")
            moved = np.abs(after - before).max() / largest
            assert moved > 0.1, "what would not turn at all would pass"


TEXT = "The rain had stopped, and the river ran high between its banks that morning. "


@pytest.mark.parametrize("name", ["starter", pytest.param("gemma", marks=pytest.mark.soak)])
def test_a_query_turned_by_hand_is_the_graphs(request: pytest.FixtureRequest, name: str) -> None:
    """Of Gemma the window layers, which have another base, and the others."""
    weights: Weights = request.getfixturevalue(name)
    ids = weights.vocabulary.tokenize(TEXT * 4, False, True)[:60]
    rotations, arrays = told(weights, ids)
    assert len(rotations.rotations) == (1 if name == "starter" else 2)
    check(rotations, arrays, len(ids) - 1)


def test_with_the_other_layers_base_or_pairs_it_would_not_be(gemma: Weights) -> None:
    ids = gemma.vocabulary.tokenize(TEXT, False, True)
    rotations, arrays = told(gemma, ids)
    one, other = rotations.rotations
    layer = one.layers[0]
    before, after = arrays["q_before"][layer], arrays["q_after"][layer]
    tolerance = 1e-4 * np.abs(before).max()
    wrong = rope_of(one)
    for rope, position in (
        (rope_of(other), len(ids) - 1),
        (rope_of(one), len(ids) - 2),
        (Rope(wrong.n_dims, wrong.base, "interleaved"), len(ids) - 1),
    ):
        assert np.abs(rotated(rope, before, position) - after).max() > 100 * tolerance


@pytest.mark.parametrize("name", ["starter", "gemma"])
def test_the_header_says_the_same_as_the_graph(request: pytest.FixtureRequest, name: str) -> None:
    weights: Weights = request.getfixturevalue(name)
    rotations, _ = told(weights, weights.vocabulary.tokenize("Hi there", False, True))
    said = position_of(read_header(Path(weights.loaded.path)))
    for rotation in rotations.rotations:
        header, graph = said.window_rope if rotation.is_window else said.rope, rope_of(rotation)
        assert header is not None
        np.testing.assert_allclose(frequencies(header), frequencies(graph), rtol=1e-6)
        assert magnitude(header) == magnitude(graph)
        assert len(pairs_of(graph)) == header.n_pairs


SCALED: dict[str, tuple[dict[str, Any], tuple[float, ...]]] = {
    "linear": ({"rope.scaling.type": "linear", "rope.scaling.factor": 4.0}, ()),
    "yarn": (
        {
            "rope.scaling.type": "yarn",
            "rope.scaling.factor": 8.0,
            "rope.scaling.original_context_length": 64,
        },
        (),
    ),
    "factors": ({}, (1.0, 1.0, 1.5, 2.0, 4.0, 4.0, 8.0, 8.0)),
}


@pytest.fixture(params=SCALED)
def scaled(
    request: pytest.FixtureRequest, tmp_path: Path, native_log: NativeLog
) -> Iterator[tuple[str, Weights]]:
    from native_session import load_quietly

    keys, factors = SCALED[request.param]
    path = tmp_path / "tiny.gguf"
    extra = {"rope_freqs.weight": Tensor((len(factors),), list(factors))} if factors else {}
    tiny_llama(
        path,
        vocabulary=vocabulary(),
        shape=Shape(n_embd=64, n_head=4, n_head_kv=2),
        metadata={f"llama.{key}": value for key, value in keys.items()},
        extra_tensors=extra,
    )
    weights = load_quietly(path, native_log, n_ctx=512, n_threads=1)
    yield request.param, weights
    weights.close()


def vocabulary() -> Vocabulary:
    return bpe_vocabulary(["hello", " world"])


def test_scaled_positions_are_followed(scaled: tuple[str, Weights]) -> None:
    name, weights = scaled
    ids = weights.vocabulary.tokenize("hello world, " * 30)
    rotations, arrays = told(weights, ids)
    (rotation,) = rotations.rotations
    assert rotation.factors.numbers().tolist() == list(SCALED[name][1])
    check(rotations, arrays, len(ids) - 1)
    said = position_of(read_header(Path(weights.loaded.path)))
    assert said.rope is not None
    assert said.scaling == name
    assert said.rope.n_dims == rotation.n_dims
    assert magnitude(said.rope) == pytest.approx(magnitude(rope_of(rotation)), rel=1e-6)
    if not rotation.factors.size:  # they are numbers of a tensor
        np.testing.assert_allclose(
            frequencies(said.rope), frequencies(rope_of(rotation)), rtol=1e-6
        )


def test_what_rotates_nothing_says_so_and_what_rotates_in_part_is_told_in_part(
    tmp_path: Path, native_log: NativeLog
) -> None:
    """Mamba has no attention; Jamba has some, which rotates nothing either."""
    from native_session import load_quietly
    from recurrent_gguf import tiny_jamba, tiny_mamba

    for write, sentence in ((tiny_mamba, NO_ATTENTION), (tiny_jamba, NO_ROTATION)):
        path = tmp_path / f"{write.__name__}.gguf"
        write(path)
        weights = load_quietly(path, native_log, n_ctx=256, n_threads=1)
        try:
            rotations, _ = told(weights, [3, 4, 5])
        finally:
            weights.close()
        assert rotations.rotations == []
        assert rotations.sentence == sentence
        assert position_of(read_header(path)).sentence == NO_POSITION


@pytest.mark.parametrize("name", ["starter", pytest.param("gemma", marks=pytest.mark.soak)])
def test_two_words_exchanged_change_the_vote(request: pytest.FixtureRequest, name: str) -> None:
    """The last token is the same and stands where it stood: only the order before it differs."""
    weights: Weights = request.getfixturevalue(name)
    ids = weights.vocabulary.tokenize("The dog chased the cat because the", False, True)
    (dog,), (cat,) = (weights.vocabulary.tokenize(f" {word}") for word in ("dog", "cat"))
    one, other = ids.index(dog), ids.index(cat)
    want = ["embedding", "residual", "logits"]
    other_ids = exchanged(ids, (one, one + 1), (other, other + 1))
    before, again, after = (told(weights, each, want)[1] for each in (ids, ids, other_ids))
    np.testing.assert_array_equal(before["embedding"], after["embedding"])

    def compared(other: dict[str, Any]) -> Exchanged:
        return compare(before["logits"], other["logits"], (before["residual"], other["residual"]))

    same, found = compared(again), compared(after)
    assert same.bits == 0.0
    assert found.bits > 0.01
    # From the first layer on, which looks at the words before.
    assert (found.turned > 1e3 * np.abs(same.turned).max()).all()
