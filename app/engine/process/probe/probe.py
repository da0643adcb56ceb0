"""One position of a text, replayed in a context of its own, with its insides read on the way.

    text before the token ──copied from a slot, or read──▶ cells ──the token, watched──▶ arrays
                                                              └──its layers' streams──▶ lens

The context is made at the first question, as the one that writes in all that shapes the cache, so
that a sequence can be copied over; it keeps what it has read, so that the next token of the same
text costs one step. `close` frees it. Work comes in slices (`look` is a generator), so that replies
go first. What must hold: a slot is only copied from; a fault ends the question and nothing else.

The lens asks what each layer would say if it were the last one. Its streams are put into the last
layer's place, a row each, and llama.cpp does the rest: the file's own norm, output matrix, soft
cap, on whatever device. So the last row must be the real scores.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final, NamedTuple

import numpy as np

from app.amounts import bytes_words
from app.engine.planning.estimate import MEAN_OVER, cells_beside, mean_cells
from app.engine.process.cache.cells import Cells, Traits, common_length, usable_in_copy
from app.engine.process.cache.step_meter import free_bytes, needed_bytes
from app.engine.process.native.adapters import AdapterSet
from app.engine.process.native.native import Batch, llama
from app.engine.process.native.weights import MAX_OUTPUTS, Weights
from app.engine.process.probe.attention import (
    rows_of_flash_attention,
    rows_of_softmax,
    value_norms,
    values_in_cells,
)
from app.engine.process.probe.cutting import Cutting, Means, every_row
from app.engine.process.probe.graph import GraphMap, Node, read_graph
from app.engine.process.probe.state import positions_in
from app.engine.process.probe.tensors import Tensor, Values, layout_fits, name_of, read, write
from app.engine.process.probe.watch import OtherGraph, Take, Watch
from app.engine.process.trace.scores import scores_of
from app.engine.prompts.media import is_media
from app.engine.protocol.cut_messages import Cut, CutMode
from app.engine.protocol.inside_messages import BY_TEXT
from app.refusal import Refusal

N_LENS: Final = 10
"""Candidates of each layer."""

_LENS_ROWS: Final = 8
"""Layers that go through the output at once: a slice stays as short as a few steps."""

_CHUNK: Final = 64
"""Tokens read at once, so that a message that is sent waits for no more."""

_SEQUENCES: Final = 2
"""The text's, and one beside it for the lens and for means."""

_WORTH_COPYING: Final = 32
"""Fewer tokens are read as fast as they are copied."""

OLD_LAYOUT: Final = (
    "This version of llama.cpp lays its tensors out in another way, so they can't be read."
)
FAILED: Final = "llama.cpp couldn't replay this token. The engine log has the details."
_NO_ROOM: Final = (
    "Looking inside needs another {needed} of memory, which isn't free. Close other programs or "
    "choose a shorter chat."
)
PICTURES_GONE: Final = (
    "This chat's pictures are no longer in the cache, so nothing behind them can be looked into. "
    "Continue the chat, then try again."
)
TOO_LONG: Final = "This text has {n} tokens, more than the context window of {n_ctx}."

_SINGLE: Final = frozenset(("embedding", "result_norm", "norm", "output_in", "scores"))
"""What there is once, and not for each layer."""

Arrays = dict[str, Values]
Look = Callable[[Tensor], Values]


class Asked:
    """A question. `ids`: the text, the token that is looked at last. `want`: names of arrays, those
    of the protocol and, [n_embd] each: `mix`, `other_out` of each layer, `norm` (the last one,
    before its gain), `output_in` (what the output matrix reads); `scores` [n_vocab], its product.
    `targets`: tokens whose score each layer is asked for. `layers`: those whose attention is
    wanted; all of them where it is None. `only_layers`: it has a row for each of these and no
    other. `cuts`: what is cut while the token is replayed, by zero or by the mean over the last
    `MEAN_OVER` of the first `mean_tokens` tokens (None: all); see `cutting.py`. `mixing(name)`: a
    whole matrix of the file, which `value_norms` need."""

    def __init__(
        self,
        ids: Sequence[int],
        want: Iterable[str],
        *,
        targets: Sequence[int] = (),
        layers: Sequence[int] | None = None,
        only_layers: bool = False,
        cuts: Sequence[Cut] = (),
        cut_mode: CutMode = "mean",
        mean_tokens: int | None = None,
        mixing: Callable[[str], Values] | None = None,
    ) -> None:
        self.ids = list(ids)
        self.want = frozenset(want)
        self.targets = list(targets)
        self.layers = layers
        self.only_layers = only_layers
        self.cuts = list(cuts)
        self.cut_mode = cut_mode
        self.mean_ids = self.ids[:mean_tokens]
        self.mixing = mixing


class Looked:
    """An answer. `missing`: what was wanted and is not there, with the reason. `n_reused` of the
    text's tokens were there already, `n_copied` of these came from a slot. `mean_over`: positions
    that a cut's mean was taken over."""

    def __init__(self) -> None:
        self.arrays: Arrays = {}
        self.missing: dict[str, str] = {}
        self.n_reused = 0
        self.n_copied = 0
        self.n_read = 0
        self.mean_over = 0


class Lent(NamedTuple):
    """The context, for somebody who writes in it, with `adapters` (a key) in force. Its first
    sequence holds `ids`. `graphs`: nodes
    and map of a decode of one token, and of several whose last one asks for scores."""

    context: Any
    watch: Watch
    graphs: tuple[tuple[list[Node], GraphMap], tuple[list[Node], GraphMap]]
    ids: list[int]
    means: Means | None
    adapters: str


class Again:
    """The last token of a text, to be decoded as often as one likes: nothing stays of it."""

    def __init__(self, graph: GraphMap, decode: Callable[..., None]) -> None:
        self.graph = graph
        self._decode = decode
        self.is_sound = True

    def decode(self, wanted: Mapping[int, Take], begins: Callable[[], None] | None = None) -> None:
        """Once, and hand out the wanted nodes; see `Watch.during`. Raises Refusal."""
        self.is_sound = False
        self._decode(wanted, begins)
        self.is_sound = True


class Probe:
    """The context, and what it has read. Belongs to the thread that owns the weights' contexts."""

    def __init__(
        self,
        weights: Weights,
        slots: Callable[[], Iterable[Cells]] = lambda: (),
        traits: Traits | None = None,
        clock: Callable[[], float] = time.perf_counter,
        no_room: str = _NO_ROOM,
    ) -> None:
        """`slots`: the sequences from which a beginning may be copied. `no_room`: what is said
        where there is no memory for the context."""
        self._no_room = no_room
        self._weights = weights
        self._slots = slots
        self._traits = traits or Traits()
        self._clock = clock
        self._watch = Watch()
        self.adapters = weights.usual_adapters
        """What it computes with."""
        most = max(weights.n_ubatch, _SEQUENCES)
        self._chunk, self._lens_rows = min(_CHUNK, most), min(_LENS_ROWS, most)
        self._context: Any = None
        self._n_ctx = 0
        self._nodes: list[Node] = []
        self._map: GraphMap | None = None
        self._lens_nodes: list[Node] = []
        self._many: tuple[list[Node], GraphMap] | None = None
        self._of_text: dict[int, tuple[list[Node], GraphMap]] = {}
        """By how many tokens are read at once."""
        self._means: tuple[tuple[bool, list[int]], Means] | None = None
        self.used_at = 0.0

    # --- the context --------------------------------------------------------------------------

    @property
    def is_open(self) -> bool:
        return bool(self._context)

    @property
    def graph(self) -> GraphMap | None:
        """What the graph offers, once something was asked."""
        return self._map

    def needed_bytes(self, n_tokens: int) -> int:
        """What `open` for a text of so many tokens would take."""
        return needed_bytes(self._weights, self._room_for(n_tokens))

    def close(self) -> None:
        """Free the context; the next question makes another one."""
        if self._context:
            llama.llama_free(self._context)
        self._context = None
        self._map = None
        self._lens_nodes = []
        self._many = None
        self._of_text = {}

    def use(self, adapters: AdapterSet) -> None:
        """Compute with these. The graph is another one then, and so is all that was read."""
        if adapters.key != self.adapters.key:
            self.close()
            self._means = None
        self.adapters = adapters

    def _room_for(self, n_tokens: int) -> int:
        return cells_beside(n_tokens, self._weights.n_ctx, self._weights.n_layer)

    def _open(self, n_tokens: int) -> None:
        """Raises Refusal."""
        if not layout_fits():
            raise Refusal("unsupported", OLD_LAYOUT)
        n_ctx, n_threads = self._room_for(n_tokens), self._weights.n_threads
        if self._context and self._n_ctx >= n_ctx:
            llama.llama_set_n_threads(self._context, n_threads, n_threads)
            return
        self.close()
        needed = needed_bytes(self._weights, n_ctx)
        refusal = Refusal("out_of_memory", self._no_room.format(needed=bytes_words(needed)))
        if free_bytes(self._weights) < needed:
            raise refusal
        self._context = self._weights.open_beside(
            n_ctx, watch=self._watch.callback, n_slots=_SEQUENCES, adapters=self.adapters
        )
        if not self._context:
            raise refusal
        self._n_ctx = n_ctx
        self._batch = Batch(max(self._chunk, self._lens_rows), _SEQUENCES)
        self._memory = llama.llama_get_memory(self._context)
        self._cells = Cells(self._context, 0, self._traits)
        self._positions: list[Values] = []

    def _use_threads(self, n_threads: int) -> None:
        """As many as replies use now: more would spin where the machine is busy."""
        llama.llama_set_n_threads(self._context, n_threads, n_threads)

    def _learn(self, token: int) -> GraphMap:
        """What this graph offers, from one token that is decoded for it. Raises Refusal."""
        if self._map is not None:
            return self._map
        self._cells.clear()

        def one() -> None:
            self._decode([token], 0, 0)

        self._nodes = self._watch.learn(one)
        self._forget()
        self._map = read_graph(self._nodes, self._weights.n_layer, self._weights.n_embd)
        self._positions = [np.full(0, -1, np.int32) for _ in self._map.caches]
        return self._map

    def learn(self) -> Iterator[GraphMap | None]:
        """What the graph offers, as `look` works. Raises Refusal."""
        self.used_at = self._clock()
        try:
            self._open(1)
            yield None
            graph = self._learn(0)
        except Exception:
            self.close()
            raise
        yield graph

    # --- one question -------------------------------------------------------------------------

    def look(
        self, asked: Asked, progress: Callable[[int, int], None] = lambda done, total: None
    ) -> Iterator[Looked | None]:
        """Work on a question, a slice for each `next`: None while there is more to do, then the
        answer. Raises Refusal; the context is then as good as new."""
        n_ctx = self._weights.n_ctx
        if not 0 < len(asked.ids) <= n_ctx:
            raise Refusal("bad_setting", TOO_LONG.format(n=len(asked.ids), n_ctx=n_ctx))
        self.used_at = self._clock()
        try:
            needs_means = bool(asked.cuts) and asked.cut_mode == "mean"
            more = self._mean_cells(len(asked.mean_ids)) if needs_means else 0
            self._open(len(asked.ids) + more)
            self._use_threads(self._weights.n_threads)
            yield None
            found = Looked()
            graph = self._learn(asked.ids[0])
            yield None
            yield from self._read_before(asked, found, progress)
            means = None
            if needs_means:
                means = yield from self.means(asked.mean_ids)
                found.mean_over = means.n
            cutting = Cutting(asked.cuts, graph, means)
            streams = self._replay(asked, graph, found, cutting)
            if "lens" in asked.want:
                yield None
                yield from self._lens(asked, graph, streams, found)
        except Exception:
            self.close()  # what it holds now is not known
            raise
        self.used_at = self._clock()
        yield found

    def again(
        self, ids: Sequence[int], progress: Callable[[int, int], None] = lambda done, total: None
    ) -> Iterator[Again | None]:
        """Have everything before the last of `ids` read, a slice for each `next`; then its last
        token, once. It must be done with when the next value is asked for. Raises Refusal."""
        n_ctx = self._weights.n_ctx
        if not 0 < len(ids) <= n_ctx:
            raise Refusal("bad_setting", TOO_LONG.format(n=len(ids), n_ctx=n_ctx))
        self.used_at = self._clock()
        again: Again | None = None
        try:
            self._open(len(ids))
            yield None
            graph = self._learn(ids[0])
            yield None
            yield from self._read_before(Asked(ids, ()), Looked(), progress)

            def decode(wanted: Mapping[int, Take], begins: Callable[[], None] | None) -> None:
                once = partial(self._decode, ids[-1:], len(ids) - 1, 1)
                llama.llama_memory_seq_cp(self._memory, 0, 1, 0, -1)
                try:
                    self._watch.during(once, wanted, self._nodes, begins)
                finally:
                    llama.llama_memory_seq_rm(self._memory, 1, -1, -1)

            again = Again(graph, decode)
            yield again
        except Exception:
            self.close()
            raise
        finally:
            if again is not None and not again.is_sound:
                self.close()  # it stopped in the middle of a step
        self.used_at = self._clock()

    def over_text(
        self, ids: Sequence[int], pick: Callable[[GraphMap, Sequence[Node], int], dict[int, Take]]
    ) -> Iterator[None]:
        """Read a text from its beginning, a chunk for each `next`, and hand out nodes of all its
        tokens. `pick(graph, nodes, first)`: which nodes of the chunk that begins at `first` are
        wanted. Raises Refusal."""
        self.used_at = self._clock()
        try:
            self._open(len(ids))
            self._learn(ids[0])
            self._forget()
            yield None
            of_text = self._of_text.get(min(self._chunk, len(ids)))
            while (first := len(self._cells)) < len(ids):
                tokens = ids[first : first + self._chunk]

                def decode(tokens: Sequence[int] = tokens, first: int = first) -> None:
                    self._decode(tokens, first, 0)

                if of_text is None:  # what one of several tokens looks like
                    nodes = self._watch.learn(decode)
                    graph = read_graph(nodes, self._weights.n_layer, self._weights.n_embd)
                    of_text = self._of_text[len(tokens)] = (nodes, graph)
                    self._cells.repair()
                    yield None
                nodes, graph = of_text
                self._watch.during(decode, pick(graph, nodes, first), nodes)
                self._cells.extend(tokens)
                yield None
        except Exception:
            self.close()
            raise
        finally:
            self._forget_if_open()

    def _forget_if_open(self) -> None:
        """Nobody has noted in which cells the text came to lie."""
        if self._context:
            self._forget()

    def _read_before(
        self, asked: Asked, found: Looked, progress: Callable[[int, int], None]
    ) -> Iterator[None]:
        """Have the cells of everything before the token."""
        before = asked.ids[:-1]
        keep = common_length(self._cells.ids, before)
        if self._cells.usable(keep) is not None:
            keep = 0
        every = list(self._slots())
        slots = [cells for cells in every if cells.adapters == self.adapters.key]
        spare = next((cells.sequence for cells in every if not cells.ids), None)

        def usable(cells: Cells) -> int:
            return usable_in_copy(cells, before, has_spare=spare is not None)

        source = max(slots, key=usable, default=None)
        there = usable(source) if source is not None else 0
        if source is not None and there >= keep + _WORTH_COPYING:
            found.n_copied = self._copy(source, there, spare)
            keep = found.n_copied or common_length(self._cells.ids, before)
        if not self._cells.cut(keep):
            self._forget()
        start = found.n_reused = len(self._cells)
        while (done := len(self._cells)) < len(before):
            tokens = before[done : done + self._chunk]
            if any(map(is_media, before[done:])):
                raise Refusal("bad_setting", PICTURES_GONE)
            self._read(tokens, done)
            found.n_read = len(self._cells) - start
            progress(len(self._cells), len(before))
            yield None

    def _copy(self, source: Cells, length: int, spare: int | None) -> int:
        """Take over the first `length` cells of a slot; how many came over. `spare`: a sequence of
        the slots' context that holds nothing."""
        assert self._map is not None
        ids = list(source.ids)
        if source.first_position_of_copy > 0 and length < len(ids) and spare is not None:
            ids = ids[:length]
            data = source.save_first(length, spare)
        else:
            data = source.save()
        if data is None:
            return 0
        copied = positions_in(data, len(self._map.caches), len(ids))
        order = copied and self._map.in_order_of_caches([n_layers for _, n_layers in copied])
        if not copied or not order:
            return 0
        self._forget()
        if not self._cells.restore(data, ids):
            return 0
        self._positions = [copied[at][0].copy() for at in order]
        return length if self._cells.cut(length) else 0

    def _forget(self) -> None:
        """Empty the cache, so that its cells are filled from the first one on."""
        llama.llama_memory_clear(self._memory, False)
        self._cells.clear()
        self._positions = [np.full(0, -1, np.int32) for _ in self._positions]

    def _read(self, tokens: Sequence[int], position: int) -> None:
        """Decode tokens, and note in which cells they came to lie."""
        assert self._map is not None
        self._watch.on_writes(
            lambda: self._decode(tokens, position, 0),
            lambda node: self._note_cells(_layer_in(node), node, position),
            [layers[0] for layers in self._map.caches],
        )
        self._cells.extend(tokens)

    def _note_cells(self, layer: int, node: Tensor, position: int) -> None:
        assert self._map is not None
        for at, layers in enumerate(self._map.caches):
            if layer == layers[0]:
                cells = read(node.src[1].contents).reshape(-1).astype(np.int64)
                known = self._positions[at]
                known[known >= position] = -1  # cut off before; other cells may hold them now
                if cells.size and cells.max() >= len(known):
                    grown = np.full(max(int(cells.max()) + 1, 2 * len(known)), -1, np.int32)
                    grown[: len(known)] = known
                    self._positions[at] = known = grown
                known[cells] = np.arange(position, position + len(cells))

    def _replay(
        self, asked: Asked, graph: GraphMap, found: Looked, cutting: Cutting
    ) -> Values | None:
        """The token itself, watched. Returns the stream after each layer, [n_layer, n_embd]."""
        want, n_layer, position = asked.want, self._weights.n_layer, len(asked.ids) - 1
        parts: dict[str, dict[int, Values]] = {}
        wanted = cutting.writing(graph, every_row)  # first, so that what is read is what came of it
        for layers in graph.caches:
            self._want_cells(wanted, graph, layers[0], position)

        def take(name: str, layer: int, ordinals: Iterable[int | None], look: Look) -> None:
            for ordinal in ordinals if name in want else ():
                if ordinal is not None:
                    _also(
                        wanted, ordinal, partial(_add_to, parts.setdefault(name, {}), layer, look)
                    )

        if "lens" in want:
            want = want | {"residual"}
        chosen = range(n_layer) if asked.layers is None else asked.layers
        take("embedding", 0, [graph.embedding], _vector)
        take("result_norm", 0, [graph.result_norm], _vector)
        take("norm", 0, [graph.norm], _vector)
        if graph.output is not None:
            take("output_in", 0, [graph.output.source], _vector)
            take("scores", 0, [graph.output.ordinal], _vector)
        for number, layer in enumerate(graph.layers):
            take("q_before", number, [layer.q_before], _heads)
            take("q_after", number, [layer.q_after], _heads)
            take("k_after", number, [layer.k_after], _heads)
            take("heads", number, [layer.heads], _vector)
            take("attn_out", number, layer.attn_writes, _vector)
            take("ffn_out", number, layer.ffn_writes, _vector)
            take("other_out", number, layer.other_writes, _vector)
            take("mix", number, [layer.mix.ordinal if layer.mix else None], _vector)
            take("residual", number, [layer.residual], _vector)
            take("experts", number, [layer.experts], _vector)
            take("expert_weights", number, [layer.expert_weights], _vector)
            if number in chosen and layer.attention is not None:
                look = self._attention_reader(graph, number, position)
                take("attention", number, [layer.attention], look)
            if number in chosen and layer.mix is not None and asked.mixing is not None:
                look = self._value_reader(graph, number, position, asked.mixing)
                take("value_norms", number, [layer.weighted], look)
        self._watch.during(lambda: self._decode(asked.ids[-1:], position, 0), wanted, self._nodes)
        self._cells.extend(asked.ids[-1:])
        for name in asked.want - {"lens", "logits"}:
            only = asked.layers if name in BY_TEXT and asked.only_layers else None
            self._keep(name, parts.get(name, {}), graph, found, only)
        if "logits" in want:
            found.arrays["logits"] = scores_of(self._context, 0, self._weights.vocabulary.n_vocab)
        streams = parts.get("residual", {})
        return np.stack([streams[n] for n in range(n_layer)]) if len(streams) == n_layer else None

    def _want_cells(
        self, wanted: dict[int, Take], graph: GraphMap, layer: int, position: int
    ) -> None:
        """Have it noted in which cell of a layer's cache the token comes to lie."""
        ordinal = graph.layers[layer].cache_write
        if ordinal is not None:
            _also(wanted, ordinal, lambda node: self._note_cells(layer, node, position))

    def _keep(
        self,
        name: str,
        by_layer: dict[int, Values],
        graph: GraphMap,
        found: Looked,
        only: Sequence[int] | None = None,
    ) -> None:
        """An array of the answer: one row for each layer, or each of `only`; NaN where a layer has
        none, and −1 of whole numbers."""
        if name in graph.missing and (not by_layer or name == "embedding"):
            found.missing[name] = graph.missing[name]
            return
        if name in _SINGLE:
            if 0 in by_layer:
                found.arrays[name] = by_layer[0]
            return
        if not by_layer:
            found.missing[name] = graph.missing.get(name, "")
            return
        shapes = {value.shape for value in by_layer.values()}
        if len(shapes) > 1:
            found.missing[name] = "The layers of this architecture have different sizes."
            return
        layers = range(self._weights.n_layer) if only is None else only
        is_whole = all(value.dtype.kind == "i" for value in by_layer.values())
        none, kind = (-1, np.int32) if is_whole else (np.nan, np.float32)
        rows = np.full((len(layers), *shapes.pop()), none, kind)
        for row, layer in enumerate(layers):
            if layer in by_layer:
                rows[row] = by_layer[layer]
        found.arrays[name] = rows
        if name in graph.missing:
            found.missing[name] = graph.missing[name]

    def _attention_reader(self, graph: GraphMap, layer: int, position: int) -> Look:
        """Reads [n_head, n_tok] of a layer: cells are put where their words stand."""
        cache = _ordinal(graph.layers[layer].cache)
        node = self._nodes[_ordinal(graph.layers[layer].attention)]
        rows_of = rows_of_flash_attention if node.op == "FLASH_ATTN_EXT" else rows_of_softmax

        return lambda tensor: self._by_place(rows_of(tensor), cache, position)

    def _value_reader(
        self, graph: GraphMap, layer: int, position: int, mixing: Callable[[str], Values]
    ) -> Look:
        """Reads [n_head, n_tok] of a layer: how much each head would bring from each token."""
        cache = _ordinal(graph.layers[layer].cache)
        nodes = graph.layers[layer]

        def look(tensor: Tensor) -> Values:
            assert nodes.mix is not None
            norms = value_norms(values_in_cells(tensor), mixing(nodes.mix.weight), nodes.n_head)
            return self._by_place(norms, cache, position)

        return look

    def _by_place(self, by_cell: Values, cache: int, position: int) -> Values:
        """[n_head, n_cells] → [n_head, n_tok]: what lies in a cell goes to its token's place; cells
        of nobody, and of tokens behind this one, are left out."""
        places = np.full(by_cell.shape[1], -1, np.int32)
        known = self._positions[cache][: len(places)]
        places[: len(known)] = known
        is_own = (places >= 0) & (places <= position)
        out = np.zeros((len(by_cell), position + 1), np.float32)
        out[:, places[is_own]] = by_cell[:, is_own]
        return out

    # --- means --------------------------------------------------------------------------------

    def _mean_cells(self, n_tokens: int) -> int:
        can_share = not (self._traits.n_swa or self._traits.is_recurrent)
        return mean_cells(n_tokens, can_share=can_share)

    @property
    def mean_over(self) -> int:
        """Positions of the last means."""
        return self._means[1].n if self._means is not None else 0

    def means(self, ids: Sequence[int], *, is_alone: bool = False) -> Generator[None, None, Means]:
        """What each part writes, averaged over the last positions of a text whose beginning is in
        the cells; read once per text. `is_alone`: nothing that is there already is made use of, so
        that each run is the same to the last bit. Returns Means. Raises Refusal."""
        key = (is_alone, list(ids))
        if self._means is not None and self._means[0] == key:
            return self._means[1]
        found, n_tokens = Means(), len(ids)
        first = max(n_tokens - MEAN_OVER, 0)
        graphs = self._graphs(ids)
        yield None
        # A sequence beside the text's, so that its cells stay to the last bit what they are. It
        # shares what comes before, unless a window or a state has moved on from there.
        is_there = common_length(self._cells.ids, ids) >= first
        is_there = is_there and not is_alone and self._cells.usable(first) is None
        start = first if is_there else 0
        try:
            if start:
                llama.llama_memory_seq_cp(self._memory, 0, 1, 0, start)
            step = min(MAX_OUTPUTS, self._weights.n_ubatch)
            while start < n_tokens:
                end = (
                    min(start + step, n_tokens)
                    if start >= first
                    else min(start + self._chunk, first)
                )
                tokens = ids[start:end]
                decode = partial(self._decode, tokens, start, 1, want_all=start >= first)
                if start >= first:
                    nodes, graph = graphs[len(tokens) > 1]
                    self._watch.during(decode, found.reading(graph), nodes)
                    found.add(len(tokens))
                else:
                    decode()
                start = end
                yield None
        finally:
            llama.llama_memory_seq_rm(self._memory, 1, -1, -1)
        self._means = (key, found)
        return found

    def lend(
        self,
        ids: Sequence[int],
        n_tokens: int,
        *,
        needs_means: bool,
        is_alone: bool,
        n_threads: int,
        progress: Callable[[int, int], None] = lambda done, total: None,
    ) -> Generator[None, None, Lent]:
        """Have the context, with room for `n_tokens`, hold all but the last of `ids` (`is_alone`:
        nothing at all), for somebody else to write in. Call `take_back` then. Raises Refusal."""
        self.used_at = self._clock()
        try:
            more = self._mean_cells(len(ids)) if needs_means and not is_alone else 0
            self._open(max(n_tokens, len(ids) + more))
            self._use_threads(n_threads)
            yield None
            graph = self._learn(ids[0])
            yield None
            if is_alone:
                self._forget()
            else:
                yield from self._read_before(Asked(ids, ()), Looked(), progress)
            means = None
            if needs_means:
                means = yield from self.means(ids, is_alone=is_alone)
            one = (self._nodes, graph)
            several = self._learned([ids[0], ids[0]], want_all=False)
        except Exception:
            self.close()
            raise
        return Lent(
            self._context,
            self._watch,
            (one, several),
            list(self._cells.ids),
            means,
            self.adapters.key,
        )

    def take_back(self) -> None:
        """Whoever wrote in the context is done: only what was there before is left."""
        self.used_at = self._clock()
        if self._cells.ids:
            self._cells.repair()
        else:
            self._forget()

    def _graphs(self, ids: Sequence[int]) -> tuple[tuple[list[Node], GraphMap], ...]:
        """Of one token, and of several that all ask for scores."""
        assert self._map is not None
        if self._many is None and len(ids) > 1:
            self._many = self._learned(ids[:2], want_all=True)
        return ((self._nodes, self._map), self._many or (self._nodes, self._map))

    def _learned(self, tokens: Sequence[int], *, want_all: bool) -> tuple[list[Node], GraphMap]:
        """The graph of several tokens, which are decoded for it beside the text's and dropped."""
        try:
            nodes = self._watch.learn(lambda: self._decode(tokens, 0, 1, want_all=want_all))
        finally:
            llama.llama_memory_seq_rm(self._memory, 1, -1, -1)
        return nodes, read_graph(nodes, self._weights.n_layer, self._weights.n_embd)

    # --- the lens -----------------------------------------------------------------------------

    def _lens(
        self, asked: Asked, graph: GraphMap, streams: Values | None, found: Looked
    ) -> Iterator[None]:
        """What each layer would say: `lens_ids`, `lens_logits` [n_layer, 10], the logarithm of the
        sum of exponentials (`lens_total`, for probabilities), and score and rank (from 0) of the
        targets [n_layer, n_targets]."""
        last = graph.layers[-1].residual
        if streams is None or last is None or graph.logits is None:
            found.missing["lens"] = graph.missing.get("lens", FAILED)
            return
        n_layer, n_vocab = self._weights.n_layer, self._weights.vocabulary.n_vocab
        ids = np.zeros((n_layer, N_LENS), np.int32)
        logits = np.zeros((n_layer, N_LENS), np.float32)
        totals = np.zeros(n_layer, np.float32)
        targets = np.asarray(asked.targets, np.int64)
        target_logits = np.zeros((n_layer, len(targets)), np.float32)
        target_ranks = np.zeros((n_layer, len(targets)), np.int32)
        for first in range(0, n_layer, self._lens_rows):
            rows = streams[first : first + self._lens_rows]
            self._through_output(asked.ids[-1], len(asked.ids), rows, last)
            for row in range(len(rows)):
                scores = scores_of(self._context, row, n_vocab)
                best = np.argpartition(scores, -N_LENS)[-N_LENS:]
                best = best[np.argsort(-scores[best], kind="stable")]
                layer = first + row
                ids[layer], logits[layer] = best, scores[best]
                highest = scores[best[0]]
                totals[layer] = highest + np.log(np.exp(scores - highest, dtype=np.float64).sum())
                target_logits[layer] = scores[targets]
                for at, score in enumerate(scores[targets]):
                    target_ranks[layer, at] = np.count_nonzero(scores > score)
            yield None
        found.arrays |= {
            "lens_ids": ids,
            "lens_logits": logits,
            "lens_total": totals,
            "lens_target_logits": target_logits,
            "lens_target_ranks": target_ranks,
        }

    def _through_output(self, token: int, position: int, rows: Values, last: int) -> None:
        """Scores of any streams, [n_rows, n_embd]: some tokens are decoded in a sequence beside the
        text's, and their last stream is replaced. That sequence shares the text's cells and is
        dropped, so nothing stays of it. Whether other tokens would be taken plays no part."""
        tokens = [token] * len(rows)

        def put(node: Tensor) -> None:
            write(node, rows.reshape(1, 1, *rows.shape))

        def decode() -> None:
            llama.llama_memory_seq_cp(self._memory, 0, 1, 0, -1)
            try:
                self._decode(tokens, position, 1, want_all=True)
            finally:
                llama.llama_memory_seq_rm(self._memory, 1, -1, -1)

        try:
            self._watch.during(decode, {last: put}, self._lens_nodes or self._nodes)
        except OtherGraph:
            self._lens_nodes = self._watch.learn(decode)
            graph = read_graph(self._lens_nodes, self._weights.n_layer, self._weights.n_embd)
            ordinal = graph.layers[-1].residual
            if ordinal != last:
                raise Refusal("unsupported", FAILED) from None
            self._watch.during(decode, {last: put}, self._lens_nodes)

    # --- native -------------------------------------------------------------------------------

    def _decode(
        self, tokens: Sequence[int], position: int, sequence: int, *, want_all: bool = False
    ) -> None:
        """Raises Refusal."""
        self._batch.clear()
        self._batch.add(list(tokens), position, sequence, want_scores=True, want_all=want_all)
        self._weights.abort.clear()  # it was set for a reply
        code = llama.llama_decode(self._context, self._batch.native)
        llama.llama_synchronize(self._context)
        if code:
            raise Refusal("native_error", FAILED)


def _layer_in(node: Tensor) -> int:
    """The number in `cache_k_l12 (view)`."""
    name = name_of(node).removeprefix("cache_k_l")
    digits = name[: len(name) - len(name.lstrip("0123456789"))]
    with suppress(ValueError):
        return int(digits)
    return -1


def _ordinal(ordinal: int | None) -> int:
    assert ordinal is not None
    return ordinal


def _also(wanted: dict[int, Take], ordinal: int, take: Take) -> None:
    """A node may be wanted more than once."""
    before = wanted.get(ordinal)

    def both(node: Tensor) -> None:
        if before is not None:
            before(node)
        take(node)

    wanted[ordinal] = both


def _add_to(kept: dict[int, Values], layer: int, look: Look, node: Tensor) -> None:
    """Several writes of a layer count together."""
    value = look(node)
    kept[layer] = kept[layer] + value if layer in kept else value


def _vector(node: Tensor) -> Values:
    """[n] of the only token."""
    return read(node).reshape(-1)


def _heads(node: Tensor) -> Values:
    """[n_head, d_head] of the only token."""
    values = read(node)
    return values.reshape(values.shape[-2], values.shape[-1])
