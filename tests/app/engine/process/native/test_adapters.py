"""LoRA adapters and control vectors in force: against a transformer in numpy whose weights have
them merged in, and files that no native code may see."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest
from gguf_writer import Tensor, truncated_copy
from made_adapters import (
    Adapted,
    Values,
    distance,
    last_scores,
    scaled,
    write_lora,
    write_vector,
)
from native_session import load_in_float32
from small_networks import small_network

from app.engine.process.native import native
from app.engine.process.native.adapters import MAX_SETS
from app.engine.process.native.native import Batch, NativeLog, llama
from app.engine.process.native.weights import Weights
from app.engine.process.trace.scores import scores_of
from app.engine.protocol.adapter_messages import Adapters, ControlVector, Lora
from app.gguf.header import read_header
from app.refusal import Refusal

pytestmark = pytest.mark.weights

IDS: Final = [3, 41, 7, 19, 200, 12, 5]
TARGETS: Final = (
    "blk.0.attn_q.weight",
    "blk.0.attn_v.weight",
    "blk.1.attn_output.weight",
    "blk.1.ffn_gate.weight",
    "blk.2.ffn_down.weight",
    "output.weight",
)
BOUND: Final = 2e-5
"""Of the scores' spread; measured: 1.4e-6, with adapters and without."""
N_LAYER, N_EMBD = 3, 64


class Case:
    """A small llama, its adapters, and what they add."""

    def __init__(self, folder: Path, weights: Weights) -> None:
        self.base = folder / "base.gguf"
        self.weights = weights
        self.lora, self.vector = folder / "lora.gguf", folder / "vector.gguf"
        self.added = write_lora(self.lora, self.base, TARGETS)
        self.directions = write_vector(self.vector, N_LAYER, N_EMBD)

    def scores(self, adapters: Adapters | None) -> Values:
        weights = self.weights
        weights.use(weights.adapter_set(adapters))
        llama.llama_memory_clear(weights.memory, True)
        batch = Batch(weights.n_ubatch, weights.n_slots)
        batch.add(IDS, 0, 0, want_scores=True)
        assert weights.decode(batch.native) == 0
        found: Values = scores_of(weights.context, len(IDS) - 1, weights.vocabulary.n_vocab).copy()
        return found

    def refusal(self, **asked: Any) -> Refusal:
        with pytest.raises(Refusal) as caught:
            self.weights.adapter_set(Adapters(**asked))
        return caught.value


@pytest.fixture(scope="module")
def case(tmp_path_factory: pytest.TempPathFactory, native_log: NativeLog) -> Iterator[Case]:
    folder = tmp_path_factory.mktemp("adapted")
    small_network(folder / "base.gguf", "grouped")
    weights = load_in_float32(folder / "base.gguf", native_log)
    yield Case(folder, weights)
    weights.close()


def test_scales_equal_merged_weights(case: Case) -> None:
    """One file, two scales, both kinds, layers from-to; nothing is loaded again in between."""
    tries = [
        (Adapters(), {}, {}),
        (Adapters([Lora(str(case.lora), 0.7)]), scaled(case.added, 0.7), {}),
        (Adapters([Lora(str(case.lora), -1.5)]), scaled(case.added, -1.5), {}),
        (
            Adapters(vectors=[ControlVector(str(case.vector), 0.8)]),
            {},
            scaled(case.directions, 0.8),
        ),
        (
            Adapters(
                [Lora(str(case.lora), 0.4)],
                [
                    ControlVector(str(case.vector), 1.2, 2, 2),
                    ControlVector(str(case.vector), 0.3, 1, 0),
                ],
            ),
            scaled(case.added, 0.4),
            {1: 0.3 * case.directions[1], 2: 1.5 * case.directions[2]},
        ),
    ]
    seen = []
    for adapters, added, directions in tries:
        wanted = last_scores(Adapted(case.base, added, directions), IDS)
        found = case.scores(adapters)
        assert distance(found, wanted) < BOUND
        seen.append(found)
    assert all(distance(other, seen[0]) > 0.05 for other in seen[1:])


def test_scale_zero_is_none_to_the_last_bit(case: Case) -> None:
    plain = case.scores(Adapters())
    case.scores(Adapters([Lora(str(case.lora))], [ControlVector(str(case.vector))]))
    off = Adapters(
        [Lora(str(case.lora), 0.0)],
        [ControlVector(str(case.vector), 0.0), ControlVector(str(case.vector), -0.0, 1, 1)],
    )
    assert case.weights.adapter_set(off).key == ""
    assert np.array_equal(case.scores(off), plain)
    taken_back = Adapters([Lora(str(case.lora), 0.5), Lora(str(case.lora), -0.5)])
    assert np.array_equal(case.scores(taken_back), plain)
    assert np.array_equal(case.scores(None), plain)


def test_a_set_is_known_by_content_scales_and_layers(case: Case, tmp_path: Path) -> None:
    def key(*loras: Lora, vectors: tuple[ControlVector, ...] = ()) -> str:
        return case.weights.adapter_set(Adapters(list(loras), list(vectors))).key

    copy = tmp_path / "elsewhere.gguf"
    copy.write_bytes(case.lora.read_bytes())
    one = key(Lora(str(case.lora), 0.5))
    assert (
        one == key(Lora(str(copy), 0.5)) == key(Lora(str(copy), 0.25), Lora(str(case.lora), 0.25))
    )
    others = [
        "",
        one,
        key(Lora(str(case.lora), 0.6)),
        key(vectors=(ControlVector(str(case.vector)),)),
        key(vectors=(ControlVector(str(case.vector), 1.0, 2),)),
        key(Lora(str(case.lora), 0.5), vectors=(ControlVector(str(case.vector)),)),
    ]
    assert len(set(others)) == len(others)
    used = case.weights.adapter_set(Adapters(vectors=[ControlVector(str(case.vector), 2.0)])).used
    assert [(u.kind, u.path, u.scale, u.first, u.last) for u in used] == [
        ("control_vector", str(case.vector), 2.0, 1, 2)
    ]
    assert len(used[0].hash) == 32
    for number in range(MAX_SETS + 5):
        key(Lora(str(case.lora), 0.01 * number))
    assert case.weights.adapters_by_key(key(Lora(str(case.lora), 0.02))).loras[0][1] == np.float32(
        0.02
    )


def test_a_file_that_has_changed_is_refused_by_its_hash(case: Case, tmp_path: Path) -> None:
    path = tmp_path / "changing.gguf"
    write_lora(path, case.base, TARGETS[:1])
    asked = [Lora(str(path))]
    (used,) = case.weights.adapter_set(Adapters(asked)).used
    assert case.weights.adapter_set(Adapters([Lora(str(path), hash=used.hash)])).used[0] == used
    write_lora(path, case.base, TARGETS[:1], seed=9, rank=4)
    refused = case.refusal(loras=[Lora(str(path), hash=used.hash)])
    assert refused.kind == "changed_file"
    assert "“changing.gguf” has changed since" in refused.sentence
    assert case.weights.adapter_set(Adapters(asked)).used[0].hash != used.hash
    path.unlink()
    missing = case.refusal(loras=[Lora(str(path), hash=used.hash)])
    assert missing.kind == "missing_file"
    assert str(path) in missing.sentence


def test_each_place_of_a_file_is_told(case: Case, tmp_path: Path) -> None:
    """Whoever moves it and chooses it anew has it known by its content, as before."""
    copy = tmp_path / "copy.gguf"
    copy.write_bytes(case.lora.read_bytes())
    here, there = Lora(str(case.lora), 0.5), Lora(str(copy), 0.25)
    (first,) = case.weights.adapter_set(Adapters([here])).used
    (moved,) = case.weights.adapter_set(Adapters([Lora(str(copy), 0.5)])).used
    both = case.weights.adapter_set(Adapters([here, there]))
    assert (moved.path, moved.hash) == (str(copy), first.hash)
    assert [(used.path, used.hash, used.scale) for used in both.used] == [
        (str(case.lora), first.hash, 0.5),
        (str(copy), first.hash, 0.25),
    ]
    assert [scale for _, scale in both.loras] == [0.75]


def test_a_scale_of_zero_looks_at_no_file(case: Case, tmp_path: Path) -> None:
    """So what is gone, or another model's, is turned off by its scale."""
    foreign = tmp_path / "foreign.gguf"
    write_vector(foreign, N_LAYER, 32)
    off = Adapters(
        [Lora(str(tmp_path / "gone.gguf"), 0.0)],
        [ControlVector(str(foreign), -0.0), ControlVector(str(case.vector), 0.0, 900, 901)],
    )
    case.weights.check_adapters(off)
    assert case.weights.adapter_set(off).key == ""


@pytest.mark.parametrize(
    ("writing", "words"),
    [
        ({"n_embd": 32}, "made for a different model"),
        ({"layers": [1, 2, 3]}, "made for a different model"),
        ({"layers": []}, "isn't a control vector"),
        ({"architecture": "llama"}, "isn't a control vector"),
        ({"replaced": {"direction.0": Tensor((64,), [0.0] * 64)}}, "isn't a control vector"),
        ({"replaced": {"x": Tensor((64,), [0.0] * 64)}}, "isn't a control vector"),
        ({"replaced": {"direction.2": Tensor((64, 2), [0.0] * 128)}}, "different model"),
        ({"replaced": {"direction.2": Tensor((64,), [0.0] * 64, kind="f16")}}, "as F32"),
        ({"replaced": {"direction.1": Tensor((64,), [math.nan] * 64)}}, "aren't numbers"),
        ({"replaced": {"direction.1": Tensor((64,), [math.inf] + [0.0] * 63)}}, "aren't numbers"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_foreign_vectors_are_refused_before_native_code(
    case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, writing: dict[str, Any], words: str
) -> None:
    monkeypatch.setattr(native.llama, "llama_set_adapter_cvec", lambda *_: pytest.fail("tried"))
    path = tmp_path / "bad.gguf"
    write_vector(path, **({"n_layer": N_LAYER, "n_embd": N_EMBD} | writing))
    assert words in case.refusal(vectors=[ControlVector(str(path))]).sentence


def test_cut_and_poisoned_files_are_refused(
    case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(native.llama, "llama_adapter_lora_init", lambda *_: pytest.fail("tried"))
    size = case.vector.stat().st_size
    for kept in (0, 7, 40, size // 2, size - 1):
        cut = truncated_copy(case.vector, tmp_path / "cut.gguf", kept)
        refused = case.refusal(vectors=[ControlVector(str(cut))])
        assert refused.sentence.startswith("A control vector can't be loaded. ")
    poisoned, start = bytearray(case.lora.read_bytes()), read_header(case.lora).data_offset
    poisoned[start : start + 4] = np.float32(math.nan).tobytes()
    (tmp_path / "poisoned.gguf").write_bytes(bytes(poisoned))
    refused = case.refusal(loras=[Lora(str(tmp_path / "poisoned.gguf"))])
    assert (refused.kind, "aren't numbers" in refused.sentence) == ("damaged_file", True)
    assert "isn't a LoRA adapter" in case.refusal(loras=[Lora(str(case.vector))]).sentence
    assert (
        "isn't a control vector" in case.refusal(vectors=[ControlVector(str(case.lora))]).sentence
    )


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"loras": [Lora("")]}, "has no path"),
        ({"vectors": [ControlVector("x", math.nan)]}, "between -100 and 100"),
        ({"vectors": [ControlVector("x")] * 17}, "At most 16 control vectors"),
        ({"vectors": [ControlVector("x", 1.0, 3, 2)]}, "3 to 2"),
        ({"vectors": [ControlVector("x", 1.0, -1, 2)]}, "from 1 on"),
    ],
    ids=str,
)
def test_values_out_of_bounds_are_refused(case: Case, asked: dict[str, Any], words: str) -> None:
    assert words in case.refusal(**asked).sentence


def test_layers_that_the_model_lacks_are_refused(case: Case) -> None:
    refused = case.refusal(vectors=[ControlVector(str(case.vector), 1.0, 2, 9)])
    assert "the layers 1 to 2 of this model, not 2 to 9" in refused.sentence


def test_a_vector_made_with_another_model_is_said(case: Case, tmp_path: Path) -> None:
    path = tmp_path / "other.gguf"
    write_vector(
        path, N_LAYER, N_EMBD, metadata={"cutaway.weights_hash": "f" * 32, "general.name": "Happy"}
    )
    found = case.weights.adapter_set(Adapters(vectors=[ControlVector(str(path))]))
    assert found.notes == ("The control vector “Happy” was made with another model than this one.",)
