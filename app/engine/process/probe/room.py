"""Questions about the inside, answered in slices between the steps of replies.

What must hold: each question ends once; a reply loses at most `_SHARE` of its time to them; the
context that they need is given back when nobody has asked for `IDLE_S`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from app.engine.planning.sizes import PLAIN_TYPES
from app.engine.process.cache.cells import Cells, Traits
from app.engine.process.native.arrays import as_array, named_arrays
from app.engine.process.native.weights import Weights
from app.engine.process.probe.answers.attribution import attribute, told
from app.engine.process.probe.answers.behaviour import N_RANDOM, N_TEXTS, N_TIMES, HeadScores
from app.engine.process.probe.answers.embedding import Embedding
from app.engine.process.probe.answers.flash import compare_flash
from app.engine.process.probe.answers.profile import profile_step
from app.engine.process.probe.answers.rotation import told_rotations
from app.engine.process.probe.answers.steering import make_vector
from app.engine.process.probe.file_tensors import FileTensors
from app.engine.process.probe.graph import SOME_LAYERS, GraphMap
from app.engine.process.probe.probe import Asked, Looked, Probe
from app.engine.process.probe.tensors import Values
from app.engine.process.scheduling.admission import check_ids
from app.engine.process.scheduling.slices import Slices
from app.engine.prompts.media import is_media
from app.engine.protocol.adapter_messages import VectorMade, VectorMethod, check_groups
from app.engine.protocol.cut_messages import check_cuts
from app.engine.protocol.embedding_messages import (
    EmbeddingCommand,
    EmbeddingResult,
    ReadRotations,
    Rotations,
)
from app.engine.protocol.inside_messages import (
    AXES,
    MAX_TARGETS,
    WANTED,
    AttributeToken,
    GraphOffer,
    HeadsMeasured,
    Inside,
    InsideCommand,
    LookInside,
    MeasureHeads,
    Missing,
    TokenAttributed,
)
from app.engine.protocol.machine_messages import (
    FlashCompared,
    MachineCommand,
    ProfileStep,
    StepProfiled,
)
from app.engine.protocol.messages import Event, Progress, Result
from app.refusal import Refusal

IDLE_S: Final = 60.0

_SHARE: Final = 0.04
"""Of the time, while a reply is written."""

_ORDINARY: Final = 1 << 2
"""LLAMA_TOKEN_ATTR_NORMAL."""

NO_ORDINARY_TOKENS: Final = "This model's vocabulary has no ordinary tokens to make a text of."
_NOTHING_WANTED: Final = "Choose at least one of: {names}."
NO_MEAN: Final = "A mean needs at least one of this text's tokens."
_NO_TOKEN: Final = "This is a part of a picture and no token. Choose a token."
_AXES: Final = (
    "This model places the cells of a picture side by side, where nothing inside can be followed "
    "yet."
)
_CUTS_AND_PICTURES: Final = "Nothing can be cut where the chat has pictures. Remove the cuts."
_SAME_TOKEN: Final = "Choose two different tokens to compare."
ADAPTED_VALUES: Final = "LoRA adapters change how values are mixed, so their size can't be told."
ROUNDED_VALUES: Final = "The V cache is quantised, so values can't be read from it."
QUANTISED: Final = (
    "The KV cache is quantised, so keys and values were rounded before attention read them."
)

ADAPTED: Final = "LoRA adapters aren't included: these are the vectors in the model's own file."

Answering = Iterator[
    Inside
    | GraphOffer
    | HeadsMeasured
    | TokenAttributed
    | Rotations
    | EmbeddingResult
    | StepProfiled
    | FlashCompared
    | VectorMade
    | None
]


@dataclass(frozen=True, slots=True)
class Examples:
    """A `MakeVector` whose prompts are token IDs by now."""

    id: int
    positive: list[list[int]]
    negative: list[list[int]]
    method: VectorMethod


Question = InsideCommand | Examples


class ProbeRoom:
    """The questions of one pair of weights, on the thread that owns their contexts."""

    def __init__(
        self,
        weights: Weights,
        slots: Callable[[], Iterable[Cells]],
        traits: Traits,
        emit: Callable[[Event], None],
        clock: Callable[[], float] = time.perf_counter,
        may_begin: Callable[[int], bool] = lambda request_id: True,
    ) -> None:
        """`may_begin`: asked once of each question, before its first slice; False where it has been
        ended from another thread."""
        self._weights = weights
        self._emit = emit
        self._clock = clock
        self._probe = Probe(weights, slots, traits, clock)
        self._tensors: FileTensors | None = None
        notes = [ADAPTED] if weights.usual_adapters.loras else []
        self._embedding = Embedding(self._file_tensors, notes)
        self._slices = Slices(self._begun, emit, clock, may_begin, _SHARE)

    def ask(self, command: Question) -> None:
        """Queue a question; it ends by Finished, Stopped or Failed."""
        self._slices.ask(command.id, command)

    def stop(self, request_id: int) -> None:
        """End a question now. Nothing where it has ended already."""
        self._slices.stop(request_id)

    def has_work(self, *, beside_replies: bool) -> bool:
        """Whether `step` would do anything now."""
        return self._slices.has_work(beside_replies=beside_replies)

    @property
    def idle_s(self) -> float | None:
        """After how long to call `give_back`; None where there is nothing to give."""
        if not self._probe.is_open or not self._slices.is_empty:
            return None
        return max(self._probe.used_at + IDLE_S - self._clock(), 0.0)

    def give_back(self) -> None:
        """Free the context if nobody has asked for long enough."""
        if self.idle_s == 0.0:
            self._probe.close()

    def close(self) -> None:
        """Stop what is open and free the context."""
        self._slices.stop_all()
        self._probe.close()

    def step(self) -> None:
        """One slice of a question."""
        self._slices.step()

    def _begun(self, command: Question) -> Generator[Result | None, None, None]:
        """With the adapters of the reply that is asked about, where it is one."""
        if not isinstance(command, EmbeddingCommand):
            wanted = getattr(command, "adapters", None)
            self._probe.use(self._weights.adapter_set(wanted))
        yield from self._answering(command)

    def _answering(self, command: Question) -> Answering:
        if isinstance(command, LookInside):
            return self._look(command)
        if isinstance(command, MeasureHeads):
            return self._measure_heads()
        if isinstance(command, AttributeToken):
            return self._attribute(command)
        if isinstance(command, EmbeddingCommand):
            return self._embedding.answer(command, self._progress(command.id, "embedding"))
        if isinstance(command, ReadRotations):
            return self._rotations()
        if isinstance(command, MachineCommand):
            return self._measure(command)
        if isinstance(command, Examples):
            return self._make_vector(command)
        return self._offer()

    def _progress(self, request_id: int, phase: str = "inside") -> Callable[[int, int], None]:
        return lambda done, total: self._emit(Progress(request_id, phase, done, total))

    def _measure(self, command: MachineCommand) -> Answering:
        """On a text, by the clock."""
        weights = self._weights
        check_ids(command.token_ids, weights.vocabulary.n_vocab)
        progress = self._progress(command.id)

        if isinstance(command, ProfileStep):
            yield from profile_step(self._probe, command.token_ids, weights.n_threads, progress)
        else:
            self._probe.close()  # its memory may be needed
            yield from compare_flash(weights, command.token_ids, progress)

    def _make_vector(self, examples: Examples) -> Answering:
        check_groups(examples.positive, examples.negative, examples.method)
        for ids in (*examples.positive, *examples.negative):
            check_ids(ids, self._weights.vocabulary.n_vocab)
        progress = self._progress(examples.id, "examples")
        yield from make_vector(
            self._probe, examples.positive, examples.negative, examples.method, progress
        )

    def _measure_heads(self) -> Answering:
        vocabulary, loaded = self._weights.vocabulary, self._weights.loaded
        scores = HeadScores(self._probe, loaded.n_layer, loaded.n_head)
        ordinary = np.flatnonzero(vocabulary.attributes == _ORDINARY).tolist()
        if len(ordinary) < 2:
            raise Refusal("unsupported", NO_ORDINARY_TOKENS)
        start = ordinary[0] if vocabulary.bos_id is None else vocabulary.bos_id
        for _ in scores.run(start, ordinary):
            yield None
        yield HeadsMeasured(
            loaded.n_layer,
            loaded.n_head,
            as_array(scores.result.reshape(-1)),
            N_TEXTS,
            1 + N_RANDOM * N_TIMES,
        )

    def _rotations(self) -> Answering:
        for graph in self._probe.learn():
            if graph is None:
                yield None
            else:
                windows = self._window_layers(graph)
                yield told_rotations(graph, self._file_tensors, windows)

    def _offer(self) -> Answering:
        for graph in self._probe.learn():
            yield None if graph is None else self._offered(graph)

    def _offered(self, graph: GraphMap) -> GraphOffer:
        return GraphOffer(
            n_layer=self._weights.n_layer,
            missing=[Missing(name, why) for name, why in graph.missing.items()],
            window_layers=self._window_layers(graph),
            bytes_per_token=self._weights.loaded.kv_bytes_per_token,
            fixed_bytes=self._probe.needed_bytes(0),
            notes=self._notes(),
            in_some_layers=[
                name for name, why in graph.missing.items() if why == SOME_LAYERS and name != "lens"
            ],
        )

    def _window_layers(self, graph: GraphMap) -> list[int]:
        shape = self._weights.loaded.cache
        if shape is None or not shape.n_window_layers:
            return []
        n_others = sum(map(len, graph.caches)) - shape.n_window_layers
        order = graph.in_order_of_caches([n_others, shape.n_window_layers])
        return graph.caches[order.index(1)] if order else []

    def _look(self, command: LookInside) -> Answering:
        self._check(command)
        began = self._clock()
        asked = Asked(
            command.token_ids,
            command.want,
            targets=command.targets,
            layers=command.layers,
            only_layers=command.only_layers,
            cuts=command.cuts,
            cut_mode=command.cut_mode,
            mean_tokens=command.mean_tokens,
            mixing=None if self._why_no_norms() else self._matrix,
        )
        progress = self._progress(command.id)

        for found in self._probe.look(asked, progress):
            if found is None:
                yield None
            else:
                if "value_norms" in found.missing and (why := self._why_no_norms()):
                    found.missing["value_norms"] = why
                yield self._told(found, len(command.token_ids), self._clock() - began)

    def _attribute(self, command: AttributeToken) -> Answering:
        began = self._clock()
        named = [token for token in (command.target, command.other) if token is not None]
        check_ids([*command.token_ids, *named], self._weights.vocabulary.n_vocab)
        if len(named) == 2 and command.target == command.other:
            raise Refusal("bad_setting", _SAME_TOKEN)
        for found in attribute(
            self._probe,
            self._weights,
            self._file_tensors,
            command.token_ids,
            command.target,
            command.other,
            self._progress(command.id),
        ):
            graph = self._probe.graph
            if found is None or graph is None:
                yield None
            else:
                yield told(found, graph, self._notes(), self._clock() - began)

    def _why_no_norms(self) -> str:
        """Why the size of values can't be told; empty where it can."""
        loaded = self._weights.loaded
        if self._probe.adapters.loras:
            return ADAPTED_VALUES
        return "" if loaded.type_v in PLAIN_TYPES else ROUNDED_VALUES

    def _matrix(self, name: str) -> Values:
        tensors = self._file_tensors()
        return tensors.rows(name, 0, tensors.shape(name)[0])

    def _file_tensors(self) -> FileTensors:
        """Read once: a large vocabulary in the header takes a moment."""
        if self._tensors is None:
            loaded = self._weights.loaded
            self._tensors = FileTensors(Path(loaded.path), loaded.fast_hash)
        return self._tensors

    def _check_pictures(self, command: LookInside) -> None:
        """Cells of pictures are copied from where they were computed. Raises Refusal."""
        projector = self._weights.projector
        if is_media(command.token_ids[-1]):
            raise Refusal("bad_setting", _NO_TOKEN)
        if projector is None or projector.has_axes:
            raise Refusal("unsupported", _AXES)
        if command.cuts:
            raise Refusal("bad_setting", _CUTS_AND_PICTURES)

    def _check(self, command: LookInside) -> None:
        """Raises Refusal."""
        unknown = [name for name in command.want if name not in WANTED]
        if unknown or not command.want:
            raise Refusal("bad_setting", _NOTHING_WANTED.format(names=", ".join(WANTED)))
        if len(command.targets) > MAX_TARGETS:
            raise Refusal("bad_setting", f"At most {MAX_TARGETS} tokens can be followed.")
        n_vocab = self._weights.vocabulary.n_vocab
        tokens = [token for token in command.token_ids if not is_media(token)]
        if len(tokens) < len(command.token_ids):
            self._check_pictures(command)
        check_ids([*tokens, *command.targets], n_vocab)
        n_layer, loaded = self._weights.n_layer, self._weights.loaded
        check_cuts(command.cuts, n_layer, loaded.n_head, loaded.n_head_kv)
        if command.mean_tokens is not None and not (
            0 < command.mean_tokens <= len(command.token_ids)
        ):
            raise Refusal("bad_setting", NO_MEAN)
        if not all(0 <= layer < n_layer for layer in command.layers or ()):
            raise Refusal("bad_setting", f"This model has the layers 0 to {n_layer - 1}.")

    def _told(self, found: Looked, n_tokens: int, seconds: float) -> Inside:
        floats, ints = named_arrays(found.arrays, AXES)
        missing = [Missing(name, sentence) for name, sentence in found.missing.items()]
        return Inside(
            n_tokens=n_tokens,
            n_reused=found.n_reused,
            n_copied=found.n_copied,
            n_read=found.n_read,
            seconds=seconds,
            floats=floats,
            ints=ints,
            missing=missing,
            notes=self._notes(),
            mean_over=found.mean_over,
        )

    def _notes(self) -> list[str]:
        loaded = self._weights.loaded
        is_plain = loaded.type_k in PLAIN_TYPES and loaded.type_v in PLAIN_TYPES
        return [] if is_plain else [QUANTISED]
