"""Clocks of positions: formulas against worked examples, and what headers say."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gguf_writer import Tensor, write_gguf

from app.engine.protocol.embedding_messages import Rotation
from app.engine.protocol.frames import Array
from app.gguf.header import read_header
from app.insight.inside.position import (
    ALIBI,
    LEARNED,
    NO_POSITION,
    RELATIVE,
    UNKNOWN,
    Position,
    Rope,
    angles,
    frequencies,
    magnitude,
    pairs_of,
    position_of,
    rope_of,
    rotated,
    wavelengths,
)


def test_a_clock_as_one_works_it_out_by_hand() -> None:
    rope = Rope(8, base=10_000.0, order="halves")
    assert frequencies(rope).tolist() == pytest.approx([1.0, 0.1, 0.01, 0.001])
    assert wavelengths(rope)[0] == pytest.approx(2 * math.pi)
    assert angles(rope, 300)[2] == pytest.approx(3.0)
    assert angles(rope, np.arange(5)).shape == (5, 4)


@pytest.mark.parametrize("order", ["interleaved", "halves"])
def test_a_turned_pair_is_a_complex_number_turned(order: Any) -> None:
    rope = Rope(6, base=100.0, order=order, first_dim=2)
    vectors = np.random.default_rng(0).normal(size=(3, 10))
    turned = rotated(rope, vectors, 7)
    for k, (a, b) in enumerate(pairs_of(rope)):
        hand = (vectors[:, a] + 1j * vectors[:, b]) * np.exp(7j * 100.0 ** (-2 * k / 6))
        np.testing.assert_allclose(turned[:, a] + 1j * turned[:, b], hand)
    assert turned[:, [0, 1, 8, 9]].tolist() == vectors[:, [0, 1, 8, 9]].tolist(), "they stay"
    np.testing.assert_array_equal(rotated(rope, vectors, 0), vectors)


def test_only_the_distance_of_two_positions_counts() -> None:
    rope = Rope(16, order="halves")
    q, k = np.random.default_rng(1).normal(size=(2, 16))
    near = rotated(rope, q, 9) @ rotated(rope, k, 4)
    far = rotated(rope, q, 4_009) @ rotated(rope, k, 4_004)
    assert near == pytest.approx(far)
    assert rotated(rope, q, 9) @ rotated(rope, k, 3) != pytest.approx(near)


def test_pairs_that_are_not_known_are_not_guessed() -> None:
    with pytest.raises(ValueError, match="not known"):
        rotated(Rope(4), np.zeros(4), 1)


def test_longer_texts_slow_the_clocks_down() -> None:
    plain = frequencies(Rope(8))
    assert frequencies(Rope(8, scale=0.25)).tolist() == pytest.approx((plain / 4).tolist())
    factors = frequencies(Rope(8, factors=(1.0, 1.0, 2.0, 8.0)))
    assert factors.tolist() == pytest.approx((plain / [1, 1, 2, 8]).tolist())


def test_yarn_keeps_fast_pairs_and_slows_slow_ones() -> None:
    """As the authors' own formula has it (`find_correction_range`, `linear_ramp_mask`), for 128
    dimensions, base 10,000, 4,096 tokens stretched by 16."""
    rope = Rope(128, scale=1 / 16, ext_factor=1.0, n_ctx_orig=4_096)
    plain = 10_000.0 ** (-np.arange(64) / 64)

    def dimension(turns: float) -> float:
        return 128 * math.log(4_096 / (turns * 2 * math.pi)) / (2 * math.log(10_000))

    low, high = math.floor(dimension(32)), math.ceil(dimension(1))
    ramp = np.clip((np.arange(64) - low) / (high - low), 0, 1)
    wanted = plain / 16 * ramp + plain * (1 - ramp)
    assert (low, high) == (20, 46)
    np.testing.assert_allclose(frequencies(rope), wanted, rtol=1e-12)
    np.testing.assert_array_equal(frequencies(rope)[:20], plain[:20])
    np.testing.assert_allclose(frequencies(rope)[46:], plain[46:] / 16)
    assert magnitude(rope) == pytest.approx(0.1 * math.log(16) + 1)
    assert magnitude(Rope(128, attn_factor=1.19)) == 1.19
    turned = rotated(Rope(4, order="halves", attn_factor=2.0), np.ones(4), 3)
    assert np.linalg.norm(turned) == pytest.approx(4.0)


def test_what_the_engine_tells_is_taken_as_it_is() -> None:
    told = Rotation(
        *([0, 1], "halves", 4, 2, 500.0, 0.5, 1.0, 1.1, 30.0, 2.0, 77),
        factors=Array.of("f4", [1.0, 4.0]),
    )
    assert rope_of(told) == Rope(4, 500.0, "halves", 2, 0.5, 1.0, 1.1, 30.0, 2.0, 77, (1.0, 4.0))


# --- headers ------------------------------------------------------------------------------------


def said(
    tmp_path: Path, architecture: str = "llama", names: tuple[str, ...] = (), **keys: Any
) -> Position:
    """What is read from a header with these keys of its architecture."""
    usual = {
        "context_length": 8_192,
        "embedding_length": 64,
        "block_count": 2,
        "attention.head_count": 4,
    }
    metadata = {f"{architecture}.{k.replace('__', '.')}": v for k, v in (usual | keys).items()}
    path = tmp_path / "m.gguf"
    tensors = {name: Tensor((32,), [1.0] * 32) for name in names}
    write_gguf(path, architecture=architecture, metadata=metadata, tensors=tensors)
    return position_of(read_header(path))


def test_what_a_header_leaves_out_is_what_llama_cpp_takes(tmp_path: Path) -> None:
    found = said(tmp_path)
    assert (found.kind, found.sentence, found.scaling, found.factor) == ("rope", "", "none", 1.0)
    assert found.rope == Rope(16, 10_000.0, n_ctx_orig=8_192)
    assert found.window_rope is None


def test_a_header_that_says_all_of_it(tmp_path: Path) -> None:
    found = said(
        tmp_path,
        rope__dimension_count=8,
        rope__freq_base=500_000.0,
        rope__scaling__type="yarn",
        rope__scaling__factor=4.0,
        rope__scaling__original_context_length=2_048,
        rope__scaling__yarn_beta_fast=8.0,
        attention__key_length=32,
    )
    assert (found.scaling, found.factor, found.n_ctx_orig) == ("yarn", 4.0, 2_048)
    wanted = Rope(8, 500_000.0, scale=0.25, ext_factor=1.0, beta_fast=8.0, n_ctx_orig=2_048)
    assert found.rope == wanted
    plain = said(tmp_path, rope__scaling__type="none", rope__scaling__factor=4.0)
    assert plain.rope is not None
    assert (plain.scaling, plain.rope.scale) == ("none", 1.0)
    old = said(tmp_path, rope__scale_linear=2.0)
    assert old.rope is not None
    assert (old.scaling, old.rope.scale) == ("linear", 0.5)
    assert said(tmp_path, names=("rope_freqs.weight",)).scaling == "factors"


def test_window_layers_have_their_own_base(tmp_path: Path) -> None:
    gemma = said(tmp_path, "gemma3", attention__sliding_window=512, rope__freq_base=1e6)
    assert gemma.rope is not None
    assert gemma.window_rope is not None
    assert (gemma.rope.base, gemma.window_rope.base) == (1e6, 10_000.0)
    named = said(
        tmp_path, "gemma3", attention__sliding_window=512, rope__freq_base_swa=5_000.0
    ).window_rope
    assert named is not None
    assert named.base == 5_000.0
    unknown = said(tmp_path, "cohere2", attention__sliding_window=512)
    assert unknown.window_rope is None, "only its graph knows"
    assert unknown.window == 512


@pytest.mark.parametrize(
    ("architecture", "names", "keys", "sentence"),
    [
        ("gpt2", (), {}, LEARNED),
        ("starcoder", ("position_embd.weight",), {}, LEARNED),
        ("bloom", (), {}, ALIBI),
        ("baichuan", (), {"block_count": 40}, ALIBI),
        ("other", (), {"attention__max_alibi_bias": 8.0}, ALIBI),
        ("t5", (), {}, RELATIVE),
        ("mamba", (), {}, NO_POSITION),
        ("other", (), {"attention__head_count": "many"}, UNKNOWN),
        ("other", (), {"attention__head_count": 0}, UNKNOWN),
        ("other", (), {"rope__dimension_count": 2**31}, UNKNOWN),
    ],
)
def test_files_without_rotation_say_how_they_do_it(
    tmp_path: Path, architecture: str, names: tuple[str, ...], keys: dict[str, Any], sentence: str
) -> None:
    found = said(tmp_path, architecture, names, **keys)
    assert (found.rope, found.sentence) == (None, sentence)


@pytest.mark.parametrize("base", [0.0, -1.0, float("nan"), float("inf"), "ten"])
def test_a_base_that_is_none_is_the_usual_one(tmp_path: Path, base: Any) -> None:
    found = said(tmp_path, rope__freq_base=base, rope__scaling__factor=base)
    assert found.rope is not None
    assert np.isfinite(frequencies(found.rope)).all()
    assert found.rope.base == 10_000.0
