"""Where the time of one step goes: the same token again and again, timed at the end of each block.

    began ─prepare─▶ first node ─▶ embedding ─▶ attention 0 ─▶ FFN 0 ─▶ … ─▶ scores
                                   │           │             │
                                   cut         cut           cut: computed up to here, and waited

The evaluation callback says yes to the last node of each block, and what lies between two of them
is one block's time. Each cut ends a run of nodes that would have been computed without waiting, so
the cut step is slower than the plain one, which is measured in turn with it and told beside it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from statistics import median
from typing import Final, NamedTuple

from app.engine.process.probe.graph import NO_STREAM, GraphMap
from app.engine.process.probe.probe import Probe
from app.engine.process.probe.tensors import Tensor
from app.engine.process.probe.watch import Take
from app.engine.protocol.machine_messages import StepProfiled
from app.refusal import Refusal

RUNS: Final = 7
WARM_UP: Final = 1


class Border(NamedTuple):
    """The last node of a block. `layer` is −1 outside of layers."""

    ordinal: int
    block: str
    layer: int = -1


def borders_of(graph: GraphMap) -> list[Border]:
    """In the order in which they are computed. What lies behind the last write of a layer (the
    addition to the stream) counts with that write. Raises Refusal where the blocks of the graph
    can't be told apart."""
    if graph.embedding is None or graph.logits is None or "residual" in graph.missing:
        raise Refusal("unsupported", graph.missing.get("residual") or NO_STREAM)
    found = [Border(graph.embedding, "embedding")]
    for number, layer in enumerate(graph.layers):
        assert layer.residual is not None
        ends = sorted(
            Border(max(writes), block, number)
            for block, writes in (
                ("attention", layer.attn_writes),
                ("others", layer.other_writes),
                ("ffn", layer.ffn_writes),
            )
            if writes
        )
        last = ends.pop()
        found += [*ends, last._replace(ordinal=layer.residual)]
    return [*found, Border(graph.logits, "output")]


class _Run:
    """The times of one cut step."""

    def __init__(self, borders: Sequence[Border], clock: Callable[[], float]) -> None:
        self._clock = clock
        self._at: dict[int, float] = {}
        self._first: float | None = None
        self.wanted: dict[int, Take] = {each.ordinal: self._note(each.ordinal) for each in borders}

    def begins(self) -> None:
        self._first = self._clock()

    def _note(self, ordinal: int) -> Take:
        def note(_node: Tensor) -> None:
            self._at[ordinal] = self._clock()

        return note

    def times(self, borders: Sequence[Border], began: float, ended: float) -> list[float]:
        """Milliseconds: prepare, each block, the whole."""
        first = began if self._first is None else self._first
        ends = [began, first, *(self._at[each.ordinal] for each in borders)]
        spans = [1000 * (end - start) for start, end in pairwise(ends)]
        return [*spans, 1000 * (ended - began)]


def profile_step(
    probe: Probe,
    ids: Sequence[int],
    n_threads: int,
    progress: Callable[[int, int], None] = lambda done, total: None,
    clock: Callable[[], float] = time.perf_counter,
) -> Iterator[StepProfiled | None]:
    """A slice for each `next`: a chunk of the text, or a run; then the answer. Raises Refusal."""
    plain: list[float] = []
    cut: list[list[float]] = []
    borders: list[Border] = []
    for again in probe.again(ids, progress):
        if again is None:
            yield None
            continue
        borders = borders_of(again.graph)
        for _ in range(WARM_UP + RUNS):
            began = clock()
            again.decode({})
            plain.append(1000 * (clock() - began))
            yield None
            run = _Run(borders, clock)
            began = clock()
            again.decode(run.wanted, run.begins)
            cut.append(run.times(borders, began, clock()))
            yield None
    n_layer = 1 + max(each.layer for each in borders)
    prepare, *of_blocks, total = (median(times) for times in zip(*cut[WARM_UP:], strict=True))
    of_layers = {block: [0.0] * n_layer for block in ("attention", "others", "ffn")}
    single: dict[str, float] = {}
    for border, ms in zip(borders, of_blocks, strict=True):
        if border.layer < 0:
            single[border.block] = ms
        else:
            of_layers[border.block][border.layer] = ms
    yield StepProfiled(
        n_tokens=len(ids),
        n_runs=RUNS,
        n_threads=n_threads,
        prepare=prepare,
        embedding=single["embedding"],
        attention=of_layers["attention"],
        others=of_layers["others"],
        ffn=of_layers["ffn"],
        output=single["output"],
        total=total,
        plain=median(plain[WARM_UP:]),
    )
