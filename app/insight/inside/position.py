"""How a network tells the order of words: the rotation of queries and keys (RoPE).

A head compares a query and a key by their product. Before, each is turned by an angle that grows
with its position: two of its dimensions are the hand of a clock, each pair a faster or slower one.

    angle(p, k) = p · θₖ          θₖ = base^(−2k ÷ n)          k = 0 … n/2 − 1

    (x, y) ─▶ (x cos − y sin, x sin + y cos)

Of two turned hands only the difference of the angles is left in the product, so that a head sees
how far apart two words are and never where they stand: q(p) · k(r) depends on p − r.
(Su et al., RoFormer, arXiv 2104.09864; ggml's `ggml_compute_forward_rope_flt`, which these formulas
follow.) A pair's wavelength, 2π ÷ θₖ, is after how many tokens it has come round once: pair 0 after
6.3, the last one of base 10,000 after some 54,000.

Longer texts than a network was trained on are made to fit by slower clocks:

    linear    θ ÷ factor                                      (Chen et al., 2306.15595)
    factors   θₖ ÷ factorₖ, one for each pair, in the file    (Llama 3.1; LongRoPE, 2402.13753)
    YaRN      fast pairs stay, slow ones are divided, in between a ramp; and what is turned is made
              longer by 1 + 0.1 ln(factor), so that attention stays as sharp  (Peng et al.,
              2309.00071)

`Rope` is one such rotation. What the running graph does is told by the engine (`rope_of`); what a
header says of it is read by `position_of`, for files that are not loaded. Which dimensions are a
pair stands in no header: that is known of a graph alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np

from app.engine.protocol.embedding_messages import Rotation
from app.gguf.header import Header

Values = np.ndarray[Any, Any]
Order = Literal["interleaved", "halves"]

_FACTORS: Final = ("rope_freqs", "rope_factors")
"""Tensors with a number for each pair."""


@dataclass(frozen=True, slots=True)
class Rope:
    """A rotation of `n_dims` dimensions of each head, from `first_dim` on; the others stay.

    `order`: a pair is dimensions 2k and 2k + 1 (interleaved), or k and k + n_dims ÷ 2 (halves);
    None where that is not known. `scale`: 1 ÷ factor. `ext_factor`: how much of YaRN's ramp is
    used, 0 is none; its ends are where a pair comes round `beta_fast` and `beta_slow` times in
    `n_ctx_orig` tokens. `attn_factor`: a length for what is turned. `factors`: by pair.
    """

    n_dims: int
    base: float = 10_000.0
    order: Order | None = None
    first_dim: int = 0
    scale: float = 1.0
    ext_factor: float = 0.0
    attn_factor: float = 1.0
    beta_fast: float = 32.0
    beta_slow: float = 1.0
    n_ctx_orig: int = 0
    factors: tuple[float, ...] = ()

    @property
    def n_pairs(self) -> int:
        return self.n_dims // 2


def rope_of(told: Rotation) -> Rope:
    """What the running graph does in some of its layers."""
    return Rope(
        n_dims=told.n_dims,
        base=told.freq_base,
        order=told.order,
        first_dim=told.first_dim,
        scale=told.freq_scale,
        ext_factor=told.ext_factor,
        attn_factor=told.attn_factor,
        beta_fast=told.beta_fast,
        beta_slow=told.beta_slow,
        n_ctx_orig=told.n_ctx_orig,
        factors=tuple(told.factors.numbers()),
    )


# --- the clocks ---------------------------------------------------------------------------------


def frequencies(rope: Rope) -> Values:
    """θ of each pair, in radians per token, [n_pairs] float64.

    >>> frequencies(Rope(4, base=100.0)).tolist()
    [1.0, 0.1]
    """
    pairs = np.arange(rope.n_pairs)
    turning: Values = rope.base ** (-2.0 * pairs / max(rope.n_dims, 1))
    if rope.factors:
        turning = turning / np.asarray(rope.factors)
    mix = _ramp(rope) * rope.ext_factor
    found: Values = turning * (rope.scale * (1.0 - mix) + mix)
    return found


def _ramp(rope: Rope) -> Values:
    """How much a pair keeps of its own speed (YaRN): 1 for fast ones, 0 for slow ones.

    A pair comes round r times in n_ctx_orig tokens where k = n ln(n_ctx_orig ÷ 2πr) ÷ 2 ln(base).
    """
    pairs = np.arange(rope.n_pairs)
    if rope.ext_factor == 0.0 or rope.n_ctx_orig <= 0 or rope.base <= 1.0:
        return np.zeros(len(pairs))

    def pair_of(turns: float) -> float:
        ratio = rope.n_ctx_orig / (turns * 2.0 * np.pi)
        return float(rope.n_dims * np.log(ratio) / (2.0 * np.log(rope.base)))

    low = max(0.0, np.floor(pair_of(rope.beta_fast)))
    high = min(rope.n_dims - 1.0, np.ceil(pair_of(rope.beta_slow)))
    ramp: Values = 1.0 - np.clip((pairs - low) / max(0.001, high - low), 0.0, 1.0)
    return ramp


def magnitude(rope: Rope) -> float:
    """By how much the rotation lengthens what it turns."""
    if rope.ext_factor == 0.0 or rope.scale <= 0.0:
        return rope.attn_factor
    return float(rope.attn_factor * (1.0 + 0.1 * np.log(1.0 / rope.scale)))


def wavelengths(rope: Rope) -> Values:
    """Tokens after which each pair has come round, [n_pairs]; infinite where it stands still."""
    turning = frequencies(rope)
    with np.errstate(divide="ignore"):
        found: Values = 2.0 * np.pi / turning
    return found


def angles(rope: Rope, positions: Values | int) -> Values:
    """Of each pair at each position, in radians, [..., n_pairs]. Not taken modulo 2π."""
    found: Values = np.asarray(positions, np.float64)[..., None] * frequencies(rope)
    return found


def pairs_of(rope: Rope) -> Values:
    """Which two dimensions of a head each pair is, [n_pairs, 2]. Raises ValueError where that is
    not known.

    >>> pairs_of(Rope(6, order="interleaved")).tolist(), pairs_of(Rope(6, order="halves")).tolist()
    ([[0, 1], [2, 3], [4, 5]], [[0, 3], [1, 4], [2, 5]])
    """
    pairs = np.arange(rope.n_pairs)
    if rope.order is None:
        raise ValueError("which dimensions are a pair is not known")
    if rope.order == "interleaved":
        both = np.stack([2 * pairs, 2 * pairs + 1], axis=1)
    else:
        both = np.stack([pairs, pairs + rope.n_pairs], axis=1)
    return both + rope.first_dim


def rotated(rope: Rope, vectors: Values, position: int) -> Values:
    """Queries or keys [..., d_head] as they leave the rotation at a position, float64."""
    found = vectors.astype(np.float64)
    first, second = pairs_of(rope).T
    turn, length = angles(rope, position), magnitude(rope)
    cos, sin = np.cos(turn) * length, np.sin(turn) * length
    x, y = found[..., first], found[..., second]
    found[..., first], found[..., second] = x * cos - y * sin, x * sin + y * cos
    return found


# --- what a header says -------------------------------------------------------------------------

Kind = Literal["rope", "learned", "alibi", "relative", "none", "unknown"]

LEARNED: Final = (
    "Each position has a vector of its own, learned in training and added to the token's; queries "
    "and keys aren't rotated."
)
ALIBI: Final = (
    "Attention falls off with distance, by a slope for each head (ALiBi); queries and keys aren't "
    "rotated."
)
RELATIVE: Final = (
    "Each distance between two words has a learned value that is added to attention; queries and "
    "keys aren't rotated."
)
NO_POSITION: Final = (
    "Nothing is added or rotated for position: this network knows the order of words because it "
    "reads one after the other."
)
UNKNOWN: Final = "The file doesn't say how it tells the order of words."

_WITHOUT_ROPE: Final[dict[str, Kind]] = {
    "gpt2": "learned",
    "mpt": "alibi",
    "refact": "alibi",
    "bloom": "alibi",
    "jina-bert-v2": "alibi",
    "jais": "alibi",
    "t5": "relative",
    "t5encoder": "relative",
    **dict.fromkeys(
        (
            *("mamba", "mamba2", "jamba", "rwkv6", "rwkv6qwen2", "rwkv7", "arwkv7"),
            *("nemotron_h", "nemotron_h_moe", "kimi-linear"),
        ),
        "none",
    ),
}
"""Architectures that llama.cpp rotates nothing of (`llama_model_rope_type`)."""

_BAICHUAN_13B: Final = 40
"""Layers; the smaller one rotates (`baichuan.cpp`)."""

_LOCAL_BASE: Final = 10_000.0
_LOCAL_BASE_OF: Final = ("gemma3", "gemma3n", "gemma-embedding")
"""Their window layers have this base where no key says so (`llama-hparams.h`)."""

_SENTENCES: Final[dict[Kind, str]] = {
    "rope": "",
    "learned": LEARNED,
    "alibi": ALIBI,
    "relative": RELATIVE,
    "none": NO_POSITION,
    "unknown": UNKNOWN,
}


@dataclass(frozen=True, slots=True)
class Position:
    """What a file says. `rope`: of layers that see the whole text, `window_rope` of those that look
    through a window (None where there are none, or where it is not said). `scaling`: none, linear,
    yarn, longrope or factors. `sentence`: of files that do it in another way."""

    kind: Kind
    rope: Rope | None = None
    window_rope: Rope | None = None
    window: int = 0
    scaling: str = "none"
    factor: float = 1.0
    n_ctx_train: int = 0
    n_ctx_orig: int = 0

    @property
    def sentence(self) -> str:
        return _SENTENCES[self.kind]


def position_of(header: Header) -> Position:
    """How a file tells the order of words, as far as its header says it."""
    kind = _kind_of(header)
    n_ctx_train = header.n_ctx_train or 0
    if kind != "rope":
        return Position(kind, n_ctx_train=n_ctx_train)
    n_dims = _n_dims(header)
    if n_dims < 2:
        return Position("unknown", n_ctx_train=n_ctx_train)
    factor = _real(header, "rope.scaling.factor") or _real(header, "rope.scale_linear") or 1.0
    scaling = header.metadata.get(f"{header.architecture}.rope.scaling.type", "linear")
    if scaling == "linear" and factor == 1.0:
        scaling = "none"
    if scaling == "none":
        factor = 1.0
        if any(name in tensor.name for tensor in header.tensors for name in _FACTORS):
            scaling = "factors"
    n_ctx_orig = header.number("rope.scaling.original_context_length") or n_ctx_train
    rope = Rope(
        n_dims=n_dims,
        base=_real(header, "rope.freq_base") or 10_000.0,
        scale=1.0 / factor,
        ext_factor=1.0 if scaling == "yarn" else 0.0,
        attn_factor=_real(header, "rope.scaling.attn_factor") or 1.0,
        beta_fast=_real(header, "rope.scaling.yarn_beta_fast") or 32.0,
        beta_slow=_real(header, "rope.scaling.yarn_beta_slow") or 1.0,
        n_ctx_orig=n_ctx_orig,
    )
    window = header.number("attention.sliding_window") or 0
    return Position(
        "rope",
        rope,
        _window_rope(header, rope) if window else None,
        window=window,
        scaling=str(scaling),
        factor=factor,
        n_ctx_train=n_ctx_train,
        n_ctx_orig=n_ctx_orig,
    )


def _kind_of(header: Header) -> Kind:
    if any(tensor.name == "position_embd.weight" for tensor in header.tensors):
        return "learned"
    known = _WITHOUT_ROPE.get(header.architecture)
    if known is not None:
        return known
    is_13b = header.architecture == "baichuan" and header.n_layer == _BAICHUAN_13B
    if is_13b or _real(header, "attention.max_alibi_bias"):
        return "alibi"
    has_heads = header.metadata.get(f"{header.architecture}.attention.head_count") is not None
    return "rope" if has_heads else "unknown"


def _n_dims(header: Header) -> int:
    """How many dimensions of a head are turned: all, where the file does not say."""
    n_dims = header.number("rope.dimension_count") or header.number("attention.key_length")
    if n_dims is None:
        heads = header.metadata.get(f"{header.architecture}.attention.head_count")
        n_head = max(heads, default=0) if isinstance(heads, list) else heads
        n_dims = (header.n_embd or 0) // n_head if isinstance(n_head, int) and n_head else 0
    return n_dims // 2 * 2 if 0 < n_dims <= 1 << 16 else 0


def _window_rope(header: Header, rope: Rope) -> Rope | None:
    """Window layers are not scaled where they have a base of their own: a window is never longer
    than what was trained. None where only the graph knows."""
    base = _real(header, "rope.freq_base_swa")
    if base is None and header.architecture in _LOCAL_BASE_OF:
        base = _LOCAL_BASE
    if base is None:
        return None
    n_dims = header.number("rope.dimension_count_swa") or rope.n_dims
    return Rope(n_dims=n_dims // 2 * 2, base=base, n_ctx_orig=rope.n_ctx_orig)


def _real(header: Header, key: str) -> float | None:
    """A positive, finite number of the architecture's own."""
    value = header.metadata.get(f"{header.architecture}.{key}")
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0 < value < 1e30 else None
