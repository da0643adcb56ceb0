"""The machine in rows: blocks along the stream, in the order in which a token passes them.

    ┃ Embedding                    one row for each block; its box is as wide as its share of all
    ┃ Layers 0–4 · window 512      parameters. Neighbouring layers that are alike stand once;
    ┃   Attention  ▪▪▪ ▪▪▪ ▪▪▪     heads are squares, one bracket for those that share a KV head
    ┃   Feed-forward
    ┃ Layers 6–10 · as 0–4         what was drawn above is not drawn again until it is opened
    ┃ Output

Nothing stands here that the file doesn't say.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from app.amounts import bytes_words, count_words, ms_words
from app.engine.protocol.machine_messages import StepProfiled
from app.insight.inside.machine import Block, Fold, Heads, Hidden, Machine, bits

NAMES: Final = {
    "embedding": "Embedding",
    "attention": "Attention",
    "state": "State",
    "ffn": "Feed-forward",
    "other": "Other tensors",
    "output_norm": "Output norm",
    "output": "Output",
}
STATE: Final = "keeps a state instead of a KV cache"
TIED: Final = "the embedding once more"


@dataclass(frozen=True, slots=True)
class FoldRow:
    """The title of layers that are alike. With a `key` they are drawn above already."""

    words: str
    figure: str
    key: str = ""


@dataclass(frozen=True, slots=True)
class BlockRow:
    """`n_params` of all its layers together, `share` of the whole file. `times`: milliseconds of
    one step, in each layer; empty where nothing was measured, or no such thing could be."""

    key: str
    kind: str
    words: str
    detail: str
    n_params: int
    size_bytes: int
    share: float
    heads: Heads | None = None
    hidden: Hidden | None = None
    times: tuple[float, ...] = ()

    @property
    def ms(self) -> float | None:
        """Of all layers together."""
        return sum(self.times) if self.times else None

    @property
    def bits(self) -> float:
        return bits(self.size_bytes, self.n_params)


@dataclass(frozen=True, slots=True)
class PartRow:
    """A tensor of an opened block, or those of one name in all its layers."""

    name: str
    shape: str
    types: str
    size_bytes: int
    bits: float


@dataclass(frozen=True, slots=True)
class HeadRow:
    """What the columns of the tensors are. `note`: that they are those of several layers."""

    note: str


MachineRow = FoldRow | BlockRow | PartRow | HeadRow


def rows_of(
    machine: Machine, opened: frozenset[str], profiled: StepProfiled | None = None
) -> list[MachineRow]:
    """Everything that is drawn, from top to bottom."""
    times, of_all = _Times(profiled), machine.n_params

    def block(key: str, blocks: Sequence[Block], ms: Sequence[float]) -> Iterator[MachineRow]:
        return _block(machine, of_all, key, blocks, opened, ms)

    found = [*block("embedding", (machine.embedding,), times.embedding)]
    drawn: dict[tuple[object, ...], Fold] = {}
    for fold in machine.folds:
        same = drawn.setdefault(fold.form, fold)
        key = f"layers {fold.first}"
        is_again = same is not fold
        is_folded = is_again and key not in opened
        found.append(
            _fold_row(
                machine,
                fold,
                same if is_again else None,
                key,
                times.of_layers(fold.first, fold.last) if is_folded else None,
            )
        )
        if is_folded:
            continue
        for at, each in enumerate(fold.blocks[0]):
            ms = times.of(each.kind, fold.first, fold.last)
            found += block(f"{key} {at}", fold.column(at), ms)
    for name, each, ms in (
        ("output_norm", machine.output_norm, ()),
        ("output", machine.output, times.output),
        ("other", machine.other, ()),
    ):
        if each.parts or (name == "output" and machine.is_tied):
            found += block(name, (each,), ms)
    return found


class _Times:
    """Milliseconds of blocks, where they were measured."""

    def __init__(self, profiled: StepProfiled | None) -> None:
        self._profiled = profiled

    @property
    def embedding(self) -> Sequence[float]:
        return () if self._profiled is None else (self._profiled.embedding,)

    @property
    def output(self) -> Sequence[float]:
        """With the last norm."""
        return () if self._profiled is None else (self._profiled.output,)

    def of_layers(self, first: int, last: int) -> float | None:
        if self._profiled is None:
            return None
        return sum(sum(self.of(kind, first, last)) for kind in ("attention", "state", "ffn"))

    def of(self, kind: str, first: int, last: int) -> Sequence[float]:
        """Of each of these layers."""
        by_kind = {"attention": "attention", "ffn": "ffn", "state": "others"}
        if self._profiled is None or kind not in by_kind:
            return ()
        times: list[float] = getattr(self._profiled, by_kind[kind])
        return times[first : last + 1] if last < len(times) else ()


# --- layers -------------------------------------------------------------------------------------


def _fold_row(
    machine: Machine, fold: Fold, same: Fold | None, key: str, ms: float | None
) -> FoldRow:
    words = layers_words(fold.first, fold.last)
    n_params = sum(block.n_params for block in fold.blocks[0])
    figure = count_words(n_params) + (f" × {len(fold):,}" if len(fold) > 1 else "")
    figure += "" if ms is None else f" · {ms_words(ms)}"
    if same is not None:
        as_these = layers_words(same.first, same.last).lower()
        return FoldRow(f"{words} · as {as_these}", figure, key)
    seen = _window_words(machine, fold)
    return FoldRow(f"{words} · {seen}" if seen else words, figure)


def layers_words(first: int, last: int) -> str:
    """
    >>> layers_words(0, 4), layers_words(5, 5)
    ('Layers 0–4', 'Layer 5')
    """
    return f"Layer {first}" if first == last else f"Layers {first}–{last}"


def _window_words(machine: Machine, fold: Fold) -> str:
    heads = next((b.heads for b in fold.blocks[0] if b.heads is not None), None)
    if heads is None or not machine.window:
        return ""
    if heads.window is None:
        return f"window {machine.window:,} in some"
    return f"window {heads.window:,}" if heads.window else "sees the whole text"


# --- a block ------------------------------------------------------------------------------------


def _block(
    machine: Machine,
    of_all: int,
    key: str,
    blocks: Sequence[Block],
    opened: frozenset[str],
    times: Sequence[float],
) -> Iterator[MachineRow]:
    first = blocks[0]
    n_params = sum(block.n_params for block in blocks)
    yield BlockRow(
        key=key,
        kind=first.kind,
        words=NAMES[first.kind],
        detail=_detail(machine, first),
        n_params=n_params,
        size_bytes=sum(block.size_bytes for block in blocks),
        share=n_params / (of_all or 1),
        heads=first.heads,
        hidden=first.hidden,
        times=tuple(times),
    )
    if key in opened:
        yield from _parts(machine, blocks)


def _detail(machine: Machine, block: Block) -> str:
    n_embd = f"{machine.n_embd:,}"
    if block.kind == "embedding":
        return f"{machine.n_vocab:,} tokens × {n_embd}" if machine.n_vocab else ""
    if block.kind == "output":
        return TIED if not block.parts else f"{n_embd} → {machine.n_vocab:,} scores"
    if block.kind == "state":
        return STATE
    if block.heads is not None:
        return heads_words(block.heads, block.norms)
    return hidden_words(block.hidden) if block.hidden is not None else ""


def heads_words(heads: Heads, norms: Sequence[str] = ()) -> str:
    """
    >>> heads_words(Heads(9, 3, 64, 64))
    '9 heads, 3 KV, 64 wide'
    """
    n_kv = "" if heads.n_kv == heads.n_head else f", {heads.n_kv:,} KV"
    words = [f"{heads.n_head:,} head{'s' * (heads.n_head > 1)}{n_kv}, {heads.d_key:,} wide"]
    words += ["latent KV"] * heads.is_latent + ["q/k norm"] * heads.has_qk_norm
    words += ["bias"] * heads.has_bias + ["sinks"] * heads.has_sinks
    if any(name.startswith("post_") for name in norms):
        words.append("norm after")
    return " · ".join(words)


def hidden_words(hidden: Hidden) -> str:
    """
    >>> hidden_words(Hidden(1536, True)), hidden_words(Hidden(96, True, 8, 2, 1))
    ('1,536 wide, gated', '2 of 8 experts + 1 shared, 96 wide, gated')
    """
    words = f"{hidden.size:,} wide" + (", gated" * hidden.is_gated)
    if not hidden.n_expert:
        return words
    used = f"{hidden.n_used:,} of " if hidden.n_used else ""
    shared = f" + {hidden.n_shared:,} shared" if hidden.n_shared else ""
    return f"{used}{hidden.n_expert:,} experts{shared}, {words}"


def _parts(machine: Machine, blocks: Sequence[Block]) -> Iterator[MachineRow]:
    """The tensors of each name in one row."""
    parts = [part for block in blocks for part in block.parts]
    if not parts:  # tied: shown where they are, in the embedding
        yield HeadRow("Uses token_embd.weight, counted with the embedding")
        return
    yield HeadRow(f"{len(blocks):,} layers" if len(blocks) > 1 else "")
    for name in dict.fromkeys(part.name for part in parts):
        same = [part for part in parts if part.name == name]
        size = sum(part.size_bytes for part in same)
        yield PartRow(
            name=name.removesuffix(".weight"),
            shape="×".join(f"{extent:,}" for extent in same[0].shape),
            types=", ".join(dict.fromkeys(part.type_name for part in same)),
            size_bytes=size,
            bits=bits(size, sum(part.n_params for part in same)),
        )


def words_of(row: MachineRow) -> str:
    """For hover, and for who doesn't see it."""
    if isinstance(row, FoldRow):
        return f"{row.words}: {row.figure} parameters"
    if isinstance(row, BlockRow):
        lines = [
            row.words + (f": {row.detail}" if row.detail else ""),
            f"{row.n_params:,} parameters, {row.share:.1%} of all",
            f"{bytes_words(row.size_bytes)}, {row.bits:.2f} bits per weight",
        ]
        if row.hidden is not None and row.hidden.n_expert:
            lines.append(f"{row.hidden.n_expert:,} squares: experts")
        if row.heads is not None:
            lines.append("Squares: heads; a bracket: those that share keys and values")
        if row.ms is not None:
            lines.append(f"{ms_words(row.ms)} of one step, profiled")
            if len(row.times) > 1:
                least, most = ms_words(min(row.times)), ms_words(max(row.times))
                lines.append(f"{least} to {most} a layer, one stretch of the bar each")
        return "\n".join(lines)
    if isinstance(row, PartRow):
        return (
            f"{row.name}: {row.shape}, {row.types}, {bytes_words(row.size_bytes)}, "
            f"{row.bits:.2f} bits per weight"
        )
    return row.note
