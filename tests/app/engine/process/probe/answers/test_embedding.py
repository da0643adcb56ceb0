"""The embedding matrix: read natively in chunks, and compared with what shares no code with it:
the `gguf` package's own dequantisation, and neighbours found in float64 by brute force."""

from __future__ import annotations

import os
import tracemalloc
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pytest
from gguf_writer import Layout, Tensor, overwrite, write_gguf

from app.engine.process.probe import file_tensors
from app.engine.process.probe.answers.embedding import (
    CANCELLED,
    MATRIX,
    MAX_FACTOR,
    NO_MATRIX,
    Embedding,
)
from app.engine.process.probe.file_tensors import FileTensors
from app.engine.protocol.embedding_messages import (
    MAX_NEAREST,
    MAX_ROWS,
    MAX_TERMS,
    DescribeEmbedding,
    EmbeddingCommand,
    EmbeddingFacts,
    EmbeddingRows,
    FindNearest,
    NearestTokens,
    ReadEmbedding,
    Term,
)
from app.gguf.fingerprint import fast_hash
from app.gguf.header import read_header
from app.refusal import Refusal

T = TypeVar("T")
Matrix = np.ndarray[Any, Any]


def embedding_of(path: Path, wanted_hash: str = "", notes: Sequence[str] = ()) -> Embedding:
    return Embedding(lambda: FileTensors(path, wanted_hash), notes)


def unheard(_done: int, _total: int) -> None:
    """Nobody wants to know how far it is."""


def end_of(slices: Iterator[T | None]) -> T:
    """The answer, which is the last thing that comes."""
    found = list(slices)
    assert all(each is None for each in found[:-1])
    assert found[-1] is not None
    return found[-1]


def reference(path: Path) -> Matrix:
    """The whole matrix in float64, by the `gguf` package's numpy code."""
    from gguf import GGMLQuantizationType, dequantize

    header = read_header(path)
    table = next(tensor for tensor in header.tensors if tensor.name == MATRIX)
    data = np.fromfile(path, np.uint8, table.size_bytes, offset=header.data_offset + table.offset)
    rows = dequantize(data.reshape(table.shape[1], -1), GGMLQuantizationType[table.type_name])
    return np.asarray(rows, np.float64)


@pytest.fixture(scope="module")
def starter_matrix(starter_gguf: Path) -> Matrix:
    return reference(starter_gguf)


@pytest.fixture(scope="module")
def starter_centred(starter_matrix: Matrix) -> Matrix:
    """The same with the mean taken off."""
    return np.asarray(starter_matrix - starter_matrix.mean(axis=0))


def made_file(path: Path, rows: Matrix, kind: str = "f32", **stored: Any) -> Layout:
    """A file with this embedding matrix [n_vocab, n_embd] and another tensor before it."""
    n_vocab, n_embd = rows.shape
    values = rows.astype(np.float64).reshape(-1).tolist()
    tensors = {
        "output_norm.weight": Tensor((n_embd,), [1.0] * n_embd),
        MATRIX: Tensor((n_embd, n_vocab), values, kind, **stored),
    }
    return write_gguf(path, tensors=tensors)


def random_rows(n_vocab: int, n_embd: int, seed: int = 0) -> Matrix:
    """Rows around a long mean, as real ones are."""
    source = np.random.default_rng(seed)
    mean = source.normal(size=n_embd) * 2
    return (mean + source.normal(size=(n_vocab, n_embd))).astype(np.float32)


# --- against another implementation -------------------------------------------------------------


def test_rows_are_those_that_the_file_holds(starter_gguf: Path, starter_matrix: Matrix) -> None:
    ids = [0, 1, 260, 49_151, 260]
    rows = end_of(embedding_of(starter_gguf).read(ids))
    assert rows.dtype == np.float32
    # Q8_0: a number is an int8 times a half; both sides multiply in float32.
    np.testing.assert_array_equal(rows.astype(np.float64), starter_matrix[ids])


def test_facts_are_those_of_the_whole_matrix(starter_gguf: Path, starter_matrix: Matrix) -> None:
    facts = end_of(embedding_of(starter_gguf).describe(unheard))
    norms = np.linalg.norm(starter_matrix, axis=1)
    units = starter_matrix / norms[:, None]
    n = len(norms)
    np.testing.assert_allclose(facts.mean, starter_matrix.mean(axis=0), atol=1e-7)
    np.testing.assert_allclose(facts.norms, norms, rtol=1e-6)
    total = units.sum(axis=0)
    assert facts.mean_cosine == pytest.approx((total @ total - n) / (n * (n - 1)), abs=1e-6)


@pytest.mark.parametrize(
    "terms",
    [
        [(5_000, 1.0), (6_000, -1.0), (7_000, 1.0)],
        *(
            pytest.param(terms, marks=pytest.mark.soak)
            for terms in ([(2_070, 1.0)], [(40_000, -0.5)])
        ),
    ],
)
def test_nearest_are_those_that_brute_force_finds(
    starter_gguf: Path, starter_centred: Matrix, terms: list[tuple[int, float]]
) -> None:
    """In float64, with the mean taken off, over all dimensions and all tokens."""
    centred = starter_centred
    wanted = sum(factor * centred[token_id] for token_id, factor in terms)
    cosines = centred @ wanted / np.linalg.norm(centred, axis=1) / np.linalg.norm(wanted)
    order = np.argsort(-cosines, kind="stable")

    found = end_of(embedding_of(starter_gguf).nearest(terms, 30, unheard))
    np.testing.assert_allclose(found.scores, cosines, atol=2e-6)
    # Neighbours that float32 tells apart stand in the same order.
    assert np.abs(np.diff(cosines[order[:31]])).min() > 1e-7
    assert found.best.tolist() == order[:30].tolist()
    ranks = [int(np.flatnonzero(order == token_id)[0]) for token_id, _ in terms]
    assert found.input_ranks.tolist() == ranks


def test_a_token_is_nearest_to_itself_and_inputs_stay_in_the_ranking(starter_gguf: Path) -> None:
    embedding = embedding_of(starter_gguf)
    alone = end_of(embedding.nearest([(2_070, 3.0)], 5, unheard))
    assert alone.best[0] == 2_070
    assert alone.scores[2_070] == pytest.approx(1.0, abs=1e-6)
    sum_of = end_of(embedding.nearest([(2_070, 1.0), (9_000, 0.01)], 5, unheard))
    assert sum_of.input_ranks[0] == 0, "what is asked with is not left out"


@pytest.mark.parametrize("kind", ["f32", "f16"])
def test_types_that_numpy_knows_are_read_as_well(tmp_path: Path, kind: str) -> None:
    rows = random_rows(40, 32)
    made_file(tmp_path / "m.gguf", rows, kind)
    exact = rows if kind == "f32" else rows.astype(np.float16).astype(np.float32)
    np.testing.assert_array_equal(
        end_of(embedding_of(tmp_path / "m.gguf").read([0, 39, 7])), exact[[0, 39, 7]]
    )


def test_the_matrix_is_found_in_another_file_of_the_set(tmp_path: Path) -> None:
    rows = random_rows(20, 32)
    write_gguf(
        tmp_path / "m-00001-of-00002.gguf", tensors={"other.weight": Tensor((32,), [1.0] * 32)}
    )
    made_file(tmp_path / "m-00002-of-00002.gguf", rows)
    embedding = embedding_of(tmp_path / "m-00001-of-00002.gguf")
    np.testing.assert_array_equal(end_of(embedding.read([3])), rows[[3]])
    assert end_of(embedding.nearest([(3, 1.0)], 1, unheard)).best.tolist() == [3]


# --- chunks, slices, progress -------------------------------------------------------------------


@pytest.mark.parametrize("chunk", [1, 7, 64, 10_000])
def test_chunks_make_no_difference(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chunk: int
) -> None:
    """Of rows that do not divide into them, either; so small that a chunk is one row at least."""
    monkeypatch.setattr(file_tensors, "CHUNK_BYTES", 4 * (chunk))
    rows = random_rows(101, 16)
    made_file(tmp_path / "m.gguf", rows)
    embedding = embedding_of(tmp_path / "m.gguf")
    facts = end_of(embedding.describe(unheard))
    np.testing.assert_allclose(facts.mean, rows.astype(np.float64).mean(axis=0), atol=1e-12)
    found = end_of(embedding.nearest([(100, 1.0)], 3, unheard))
    centred = rows.astype(np.float64) - rows.astype(np.float64).mean(axis=0)
    lengths = np.linalg.norm(centred, axis=1)
    np.testing.assert_allclose(
        found.scores, centred @ centred[100] / lengths / lengths[100], atol=1e-6
    )


def test_it_says_how_far_it_is_and_gives_the_thread_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_tensors, "CHUNK_BYTES", 4 * (160))  # ten rows
    made_file(tmp_path / "m.gguf", random_rows(95, 16))
    embedding = embedding_of(tmp_path / "m.gguf")
    told: list[tuple[int, int]] = []
    slices = list(embedding.nearest([(1, 1.0)], 3, lambda *how_far: told.append(how_far)))
    tens = [*range(10, 95, 10), 95]
    assert told == [(done, 190) for done in [*tens, *(95 + done for done in tens)]]
    assert len(slices) == len(told) + 1, "a slice for each chunk, and the answer"
    told.clear()
    end_of(embedding.nearest([(2, 1.0)], 3, lambda *how_far: told.append(how_far)))
    assert told == [(done, 95) for done in tens], "the mean is known, and the file is read once"
    told.clear()
    end_of(embedding.describe(lambda *how_far: told.append(how_far)))
    assert told == [], "what is known is told"


def test_a_question_that_is_dropped_leaves_no_half_knowledge(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_tensors, "CHUNK_BYTES", 640)
    rows = random_rows(95, 16)
    made_file(tmp_path / "m.gguf", rows)
    embedding = embedding_of(tmp_path / "m.gguf")
    dropped = embedding.describe(unheard)
    assert [next(dropped) for _ in range(3)] == [None] * 3
    other = embedding.nearest([(1, 1.0)], 3, unheard)
    assert [next(other) for _ in range(13)] == [None] * 13, "all ten chunks for the mean, and three"
    del dropped, other
    fresh = embedding_of(tmp_path / "m.gguf")
    wanted = end_of(fresh.nearest([(2, 1.0)], 3, unheard))
    np.testing.assert_array_equal(
        end_of(embedding.nearest([(2, 1.0)], 3, unheard)).scores, wanted.scores
    )


def test_memory_is_that_of_a_chunk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A wide matrix of 16 MiB, read 64 KiB at a time."""
    monkeypatch.setattr(file_tensors, "CHUNK_BYTES", 4 * (1 << 14))
    n_vocab, n_embd = 1_024, 4_096
    path = tmp_path / "wide.gguf"
    layout = write_gguf(
        path,
        tensors={
            MATRIX: Tensor((n_embd, n_vocab), [0.0] * 32, "f32"),
        },
    )
    rows = random_rows(n_vocab, n_embd)
    with path.open("r+b") as file:  # as a list of numbers the matrix itself would take 130 MB
        file.seek(layout.tensors[MATRIX][0])
        file.write(rows.tobytes())
    whole = rows.nbytes
    del rows
    embedding = embedding_of(path)
    tracemalloc.start()
    try:
        end_of(embedding.nearest([(5, 1.0)], 10, unheard))
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < whole / 8, f"{most:,} of {whole:,} bytes"


# --- hostile files ------------------------------------------------------------------------------


def refused(embedding: Embedding, command: EmbeddingCommand | None = None) -> str:
    with pytest.raises(Refusal) as found:
        end_of(embedding.answer(command or ReadEmbedding(1, [0]), unheard))
    return found.value.sentence


@pytest.mark.parametrize("ids", [[-1], [40], [0, 2**40], []])
def test_ids_outside_are_refused(tmp_path: Path, ids: list[int]) -> None:
    made_file(tmp_path / "m.gguf", random_rows(40, 32))
    embedding = embedding_of(tmp_path / "m.gguf")
    wanted = "Choose tokens with IDs from 0 to 39."
    assert refused(embedding, ReadEmbedding(1, ids)) == wanted
    assert refused(embedding, FindNearest(1, [Term(i) for i in ids])) == wanted


def test_questions_have_bounds(tmp_path: Path) -> None:
    made_file(tmp_path / "m.gguf", random_rows(40, 32))
    embedding = embedding_of(tmp_path / "m.gguf")
    assert str(MAX_ROWS) in refused(embedding, ReadEmbedding(1, [0] * (MAX_ROWS + 1)))
    assert str(MAX_TERMS) in refused(embedding, FindNearest(1, [Term(0)] * (MAX_TERMS + 1)))
    for n in (0, -1, MAX_NEAREST + 1):
        assert str(MAX_NEAREST) in refused(embedding, FindNearest(1, [Term(0)], n))
    for factor in (float("nan"), float("inf"), -1e30):
        assert str(MAX_FACTOR) in refused(embedding, FindNearest(1, [Term(0, factor)]))
    assert refused(embedding, FindNearest(1, [Term(3), Term(3, -1.0)])) == CANCELLED
    assert refused(embedding, FindNearest(1, [Term(3, 0.0)])) == CANCELLED
    found = end_of(embedding.answer(FindNearest(1, [Term(3)], 500), unheard))
    assert isinstance(found, NearestTokens)
    assert found.token_ids.size == 40, "no more than there are"


def test_a_tensor_that_is_shorter_than_its_table_says_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "m.gguf"
    made_file(path, random_rows(40, 32), stored_shape=(32, 4_000))
    assert "incomplete" in refused(embedding_of(path))


REPLACED = "The file was replaced after the model was loaded. Reload it."


def test_a_file_that_shrinks_while_it_is_read_ends_in_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_tensors, "CHUNK_BYTES", 1280)
    path = tmp_path / "m.gguf"
    layout = made_file(path, random_rows(40, 32))
    asked = embedding_of(path).describe(unheard)
    assert next(asked) is None
    with path.open("r+b") as file:
        file.truncate(layout.tensors[MATRIX][0] + 1_500)
    with pytest.raises(Refusal) as found:
        end_of(asked)
    assert (found.value.kind, found.value.sentence) == ("not_readable", REPLACED)


def test_another_file_in_its_place_is_refused(tmp_path: Path) -> None:
    """Put there before the first question, or after it."""
    path = tmp_path / "m.gguf"
    made_file(path, random_rows(40, 32))
    was = fast_hash(read_header(path))
    file = FileTensors(path, was)
    embedding = Embedding(lambda: file)
    end_of(embedding.read([0]))
    before = path.stat().st_mtime_ns
    made_file(path, random_rows(40, 32, seed=1))
    os.utime(path, ns=(before, before + 10**9))
    assert refused(embedding) == REPLACED
    assert refused(embedding_of(path, was)) == REPLACED
    path.unlink()
    assert "can no longer be read" in refused(embedding)
    assert "no longer exists" in refused(embedding_of(path, was))


@pytest.mark.parametrize("tensor", [None, Tensor((64,), [0.0] * 64), Tensor((8, 2, 4), [0.0] * 64)])
def test_a_file_without_such_a_matrix_is_refused(tmp_path: Path, tensor: Tensor | None) -> None:
    path = tmp_path / "m.gguf"
    tensors = {"other.weight": Tensor((64,), [0.0] * 64)} | ({MATRIX: tensor} if tensor else {})
    write_gguf(path, tensors=tensors)
    assert refused(embedding_of(path)) == NO_MATRIX


def test_rows_that_are_no_numbers_are_like_nothing_and_spoil_no_other(tmp_path: Path) -> None:
    rows = random_rows(40, 32)
    made_file(tmp_path / "good.gguf", np.delete(rows, [4, 5, 6], axis=0))
    rows[4, 3], rows[5, 0], rows[6] = np.nan, np.inf, 3e38
    path = tmp_path / "m.gguf"
    layout = made_file(path, np.nan_to_num(rows, posinf=0.0))
    overwrite(path, layout.tensors[MATRIX][0], rows.tobytes())
    embedding = embedding_of(path)
    facts = end_of(embedding.answer(DescribeEmbedding(1), unheard))
    assert isinstance(facts, EmbeddingFacts)
    alone = end_of(embedding_of(tmp_path / "good.gguf").answer(DescribeEmbedding(1), unheard))
    assert isinstance(alone, EmbeddingFacts)
    assert facts.norms == alone.norms
    assert facts.mean_cosine == pytest.approx(alone.mean_cosine, abs=1e-6)
    found = end_of(embedding.nearest([(0, 1.0)], 40, unheard))
    assert set(found.best[-3:].tolist()) == {4, 5, 6}
    assert np.isfinite(found.scores).all()
    assert refused(embedding, FindNearest(1, [Term(4)])) == CANCELLED


def test_a_matrix_of_zeros_has_no_neighbours(tmp_path: Path) -> None:
    path = tmp_path / "m.gguf"
    made_file(path, np.zeros((40, 32), np.float32))
    facts = end_of(embedding_of(path).answer(DescribeEmbedding(1), unheard))
    assert isinstance(facts, EmbeddingFacts)
    assert set(facts.norms.numbers()) == {0.0}
    assert refused(embedding_of(path), FindNearest(1, [Term(4)])) == CANCELLED


def test_a_type_that_ggml_cannot_read_back_is_refused(tmp_path: Path) -> None:
    """Q8_K is of products alone: nothing stores it."""
    rows = random_rows(8, 256)
    path = tmp_path / "m.gguf"
    made_file(path, rows, type_id=15)  # 292 bytes for 256 numbers, fewer than there are
    assert "Q8_K" in refused(embedding_of(path))


# --- as it is told ------------------------------------------------------------------------------


def test_answers_fit_the_wire(tmp_path: Path) -> None:
    rows = random_rows(300, 32)
    made_file(tmp_path / "m.gguf", rows)
    embedding = embedding_of(tmp_path / "m.gguf", notes=["A note."])
    exact = rows.astype(np.float64)
    read = end_of(embedding.answer(ReadEmbedding(1, [2, 299]), unheard))
    assert isinstance(read, EmbeddingRows)
    read.check()
    np.testing.assert_array_equal(np.array(read.rows.numbers()).reshape(2, 32), rows[[2, 299]])
    np.testing.assert_allclose(
        read.norms.numbers(), np.linalg.norm(exact[[2, 299]], axis=1), rtol=1e-6
    )
    facts = end_of(embedding.answer(DescribeEmbedding(2), unheard))
    assert isinstance(facts, EmbeddingFacts)
    facts.check()
    assert (facts.n_vocab, facts.n_embd, facts.type_name) == (300, 32, "F32")
    spread = np.percentile(np.linalg.norm(exact, axis=1), [0, 1, 50, 99, 100])
    np.testing.assert_allclose(facts.norms.numbers(), spread, rtol=1e-6)
    near = end_of(embedding.answer(FindNearest(3, [Term(2), Term(9, -1.0)], 4), unheard))
    assert isinstance(near, NearestTokens)
    near.check()
    assert near.token_ids.size == near.cosines.size == 4
    assert near.input_ranks.size == 2
    assert near.cosines.numbers()[0] == max(near.cosines.numbers())
    assert read.notes == facts.notes == near.notes == ["A note."]
