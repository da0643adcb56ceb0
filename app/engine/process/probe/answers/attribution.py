"""Direct logit attribution of one token: what each block and head added to its score.

`app/insight/inside/attribution.py` has the formula. The writes, the norm and the scores are read
while the token is replayed (`probe.py`); rows of the output matrix and slices of W_O come from the
file, layer by layer. What must hold: whatever is not a sum of direct writes for certain is missing,
for a reason, and whatever is left over is shown as unexplained.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

import numpy as np

from app.engine.process.native.arrays import named_arrays
from app.engine.process.native.weights import Weights
from app.engine.process.probe.file_tensors import FileTensors
from app.engine.process.probe.graph import NO_HEADS, NO_STREAM, GraphMap, Product
from app.engine.process.probe.probe import Asked, Looked, Probe
from app.engine.process.probe.tensors import Values
from app.engine.protocol.inside_messages import Missing, TokenAttributed
from app.insight.inside.attribution import (
    Attribution,
    FrozenNorm,
    by_head,
    fitted_scale,
    frozen_norm,
    misfit,
)
from app.refusal import Refusal

NO_OUTPUT: Final = "How this architecture makes scores of its last stream can't be found."
LORA: Final = (
    "LoRA adapters change how heads are mixed, so heads can't be told apart. Reload the model "
    "without them to see heads."
)
OTHER_MIX: Final = "This architecture does more with its heads than mixing them."
_FITS: Final = 1e-3
"""By what share the norm and the mixing may differ from their formulas: float32 rounds less."""

_BY_LAYER: Final = ("attn", "ffn", "others", "attn_bias", "between_heads")
_WANT: Final = (
    "embedding",
    "heads",
    "mix",
    "attn_out",
    "ffn_out",
    "other_out",
    "residual",
    "norm",
    "output_in",
    "scores",
    "logits",
)


class Attributed:
    """An attribution, and what it took to replay the token."""

    def __init__(self, looked: Looked, found: Attribution) -> None:
        self.looked = looked
        self.found = found


def attribute(
    probe: Probe,
    weights: Weights,
    tensors: Callable[[], FileTensors],
    ids: Sequence[int],
    target: int | None = None,
    other: int | None = None,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Iterator[Attributed | None]:
    """Work in slices, as `Probe.look`. `target`: by default the best token after `ids`; `other`:
    the best one besides it. `tensors`: those of the weights' file. Raises Refusal."""
    looked = Looked()
    for step in probe.look(Asked(ids, _WANT), progress):
        if step is None:
            yield None
        else:
            looked = step
    graph, arrays = probe.graph, looked.arrays
    if graph is None or "residual" not in arrays or "embedding" not in arrays:
        raise Refusal("unsupported", looked.missing.get("residual") or NO_STREAM)
    if graph.norm is None or graph.output is None:
        raise Refusal("unsupported", NO_OUTPUT)
    if target is None:
        target = _best(arrays["logits"], () if other is None else (other,))
    other = _best(arrays["logits"], (target,)) if other is None else other
    work = _Attributing(graph, looked, tensors(), has_lora=bool(probe.adapters.loras))
    yield from work.run(target, other)
    yield Attributed(looked, work.attribution(target, other))


NORM_BEHIND_HEADS: Final = (
    "A norm stands between the heads and the residual stream here. It's frozen at this token's "
    "scale."
)
BENT: Final = (
    "This model rescales or caps its scores at the end, so a difference of {before:.2f} becomes "
    "{after:.2f}."
)
NO_ADAPTERS: Final = (
    "LoRA adapters are active: what they write is included, but not what they change in the "
    "output matrix."
)


def told(
    attributed: Attributed, graph: GraphMap, notes: Sequence[str], seconds: float
) -> TokenAttributed:
    """The answer, with what its numbers are subject to."""
    found, notes = attributed.found, list(notes)
    if any(layer.mix is not None and layer.mix.has_norm for layer in graph.layers):
        notes.append(NORM_BEHIND_HEADS)
    before, after = found.difference, found.shown_difference
    if abs(before - after) > 1e-3 * max(abs(before), abs(after)):
        notes.append(BENT.format(before=before, after=after))
    if found.missing.get("heads") == LORA:
        notes.append(NO_ADAPTERS)
    axes: dict[str, tuple[str, ...]] = dict.fromkeys(_BY_LAYER, ("n_layer",))
    if not np.isnan(found.heads).all():
        axes["heads"] = ("n_layer", "n_head")
    floats, _ = named_arrays({name: getattr(found, name) for name in axes}, axes)
    return TokenAttributed(
        target=found.target,
        other=found.other,
        difference=before,
        shown_difference=after,
        embedding=found.embedding,
        norm_bias=found.norm_bias,
        output_bias=found.output_bias,
        unexplained=found.unexplained,
        floats=floats,
        seconds=seconds,
        missing=[Missing(name, sentence) for name, sentence in found.missing.items()],
        notes=notes,
    )


def _best(logits: Values, but: Sequence[int]) -> int:
    scores = logits.copy()
    scores[list(but)] = -np.inf
    return int(scores.argmax())


class _Attributing:
    def __init__(
        self, graph: GraphMap, looked: Looked, tensors: FileTensors, *, has_lora: bool
    ) -> None:
        self._graph = graph
        self._arrays = looked.arrays
        self._tensors = tensors
        self._has_lora = has_lora
        self._missing: dict[str, str] = {}
        self._n_layer = len(graph.layers)
        n_head = max((layer.n_head for layer in graph.layers), default=0)
        self._heads = np.full((self._n_layer, n_head), np.nan, np.float32)
        self._attn_bias = np.zeros(self._n_layer, np.float32)
        self._direction: Values = np.empty(0)

    def run(self, target: int, other: int) -> Iterator[None]:
        self._row = self._row_of(target) - self._row_of(other)
        self._norm, self._factor = self._frozen()
        self._direction = self._norm.direction(self._row) * self._factor
        for number in range(self._n_layer):
            reason = self._attribute_heads(number)
            if reason and self._graph.layers[number].attn_writes:
                self._missing["heads"] = reason
            yield None

    def attribution(self, target: int, other: int) -> Attribution:
        arrays, logits = self._arrays, self._arrays["logits"]
        assert self._graph.output is not None
        scores = arrays["scores"].astype(np.float64)
        output_bias = 0.0
        if self._graph.output.bias:
            bias = self._tensors.vector(self._graph.output.bias)
            output_bias = float(bias[target]) - float(bias[other])
        for name in ("attn_out", "ffn_out"):
            if name not in arrays:
                self._missing[name] = self._graph.missing.get(name, "")
        return Attribution(
            target,
            other,
            difference=float(scores[target] - scores[other]) + output_bias,
            shown_difference=float(logits[target]) - float(logits[other]),
            embedding=float(arrays["embedding"] @ self._direction),
            attn=self._by_layer("attn_out"),
            ffn=self._by_layer("ffn_out"),
            others=self._by_layer("other_out"),
            heads=self._heads,
            attn_bias=self._attn_bias,
            norm_bias=float(self._norm.bias @ self._row) * self._factor,
            output_bias=output_bias,
            missing=self._missing,
        )

    def _row_of(self, token: int) -> Values:
        """Of the output matrix, [n_embd], float64."""
        assert self._graph.output is not None
        row: Values = self._tensors.rows(self._graph.output.weight, token, 1)[0]
        return row.astype(np.float64)

    def _frozen(self) -> tuple[FrozenNorm, float]:
        """The last norm, and the factor between it and the output matrix, if there is any."""
        graph, arrays = self._graph, self._arrays
        n_embd = len(arrays["embedding"])
        one, none = np.ones(n_embd, np.float32), np.zeros(n_embd, np.float32)
        gain = self._tensors.vector(graph.norm_gain) if graph.norm_gain else one
        bias = self._tensors.vector(graph.norm_bias) if graph.norm_bias else none
        last, normed = arrays["residual"][-1], arrays["norm"]
        # RMSNorm scales the stream; LayerNorm takes off the mean before.
        centred = misfit(last * fitted_scale(last, normed), normed) > _FITS
        norm = frozen_norm(last, normed, gain, bias, centred)
        x = last - last.mean() if centred else last
        made = norm.scale * x * gain + bias
        factor = fitted_scale(made, arrays["output_in"])
        if misfit(made * factor, arrays["output_in"]) > _FITS:
            raise Refusal("unsupported", NO_OUTPUT)
        return norm, factor

    def _by_layer(self, name: str) -> Values:
        """[n_layer] contributions of writes; 0 where a layer has none."""
        writes = self._arrays.get(name)
        if writes is None:
            return np.zeros(self._n_layer)
        return np.nan_to_num(writes).astype(np.float64) @ self._direction

    def _attribute_heads(self, number: int) -> str:
        """A layer's heads, or why they cannot be told apart. A norm behind them is frozen like the
        last one: a scale, found from what came in and what came out."""
        layer, arrays = self._graph.layers[number], self._arrays
        if self._has_lora:
            return LORA
        mix = layer.mix
        if mix is None or not layer.n_head or not {"heads", "mix"} <= arrays.keys():
            return NO_HEADS
        heads, mixed = arrays["heads"][number], arrays["mix"][number]
        if len(heads) % layer.n_head or not self._fits(mix, len(heads), len(mixed)):
            return OTHER_MIX
        gain = self._tensors.vector(mix.gain) if mix.gain else np.ones(1, np.float32)
        bias = self._tensors.vector(mix.bias) if mix.bias else np.zeros(1, np.float32)
        made, write = gain * (mixed + bias), arrays["attn_out"][number]
        scale = fitted_scale(made, write)
        if misfit(made * scale, write) > _FITS:
            return OTHER_MIX
        direction = scale * gain * self._direction
        seen = np.zeros(len(heads), np.float64)
        for first, rows in self._tensors.chunks(mix.weight):
            seen += direction[first : first + len(rows)].astype(np.float32) @ rows
        self._heads[number, : layer.n_head] = by_head(heads, seen, layer.n_head)
        self._attn_bias[number] = float(np.sum(bias * direction)) if mix.bias else 0.0
        return ""

    def _fits(self, mix: Product, n_in: int, n_out: int) -> bool:
        return mix.weight in self._tensors and self._tensors.shape(mix.weight) == (n_out, n_in)
