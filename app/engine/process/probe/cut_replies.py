"""Replies that are written while parts of the network are cut out.

The generating context has no evaluation callback, which would cost every reply speed. So these
replies have a context of their own beside it, with the callback (`probe.py` makes it), and a
scheduler of their own over it, with one slot: the same chain, the same events, the same endings.

    prompt but its last token ──copied from a slot, or read──▶ cells, computed with every part
    the last token, and each that is written ──decoded with cuts──▶ scores ──▶ the next token

They are cut *from here on*: what the prompt's cells hold was computed with every part. A reply and
its control share those cells to the last bit. What must hold: one at a time, the others wait in
order; each ends once; nothing that another reply uses is touched; the context is given back when
nobody has asked for `IDLE_S`.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from app.engine.process.cache.cells import Cells, Traits
from app.engine.process.cache.slot import PreparedPrompt, empty_summary
from app.engine.process.native.native import NativeLog
from app.engine.process.native.weights import Weights
from app.engine.process.probe.cutting import Cutting
from app.engine.process.probe.probe import FAILED, Lent, Probe
from app.engine.process.probe.tensors import Values
from app.engine.process.probe.watch import OtherGraph
from app.engine.process.scheduling.admission import admit, reason_of
from app.engine.process.scheduling.scheduler import Emit, Scheduler
from app.engine.process.trace.timeline import Timeline
from app.engine.protocol.bounds import BadSetting
from app.engine.protocol.cut_messages import check_cuts
from app.engine.protocol.loading_messages import LoadOptions
from app.engine.protocol.messages import Failed, Generate, Log, Note, Progress, Queued, Stopped
from app.refusal import Refusal

IDLE_S: Final = 60.0

NO_ROOM: Final = (
    "Cutting parts needs another {needed} of memory, which isn't free. Close other programs, limit "
    "the reply's length, or choose a shorter chat."
)
CUT_FROM_HERE: Final = "Parts of the model were cut for this reply, but not for the text before it."
MEAN: Final = (
    "Each part's output was replaced by its average over the last {n:,} tokens of that text."
)
NO_SCORES: Final = "Prompt tokens can't be scored in a reply with cuts."


@dataclass(frozen=True, slots=True)
class _Waiting:
    generate: Generate
    prompt: PreparedPrompt
    timeline: Timeline


class CutWeights(Weights):
    """The same weights over a context that is watched. From position `first` on its decodes are
    cut."""

    def __init__(self, weights: Weights, lent: Lent, cutting: Cutting | None, first: int) -> None:
        self.__dict__.update(weights.__dict__)
        self.context = lent.context
        self.n_slots = 1
        self._in_force = lent.adapters
        self.projector = None  # no pictures here, and the usual scheduler is in the middle of one
        self._lent = lent
        self._cutting = cutting
        self._first = first

    def decode(self, batch: Any) -> int:
        """Raises Refusal where the graph is another one than was learned."""
        n_tokens = int(batch.n_tokens)
        meant = np.array(batch.pos[:n_tokens]) >= self._first
        if self._cutting is None or not meant.any():
            return super().decode(batch)
        asks = np.array(batch.logits[:n_tokens], bool)
        nodes, graph = self._lent.graphs[n_tokens > 1]
        codes = []

        def rows(n_rows: int) -> Values:
            # In the last layer only those are left whose scores are wanted.
            return meant if n_rows == n_tokens else meant[asks]

        try:
            self._lent.watch.during(
                lambda: codes.append(super(CutWeights, self).decode(batch)),
                self._cutting.writing(graph, rows),
                nodes,
            )
        except OtherGraph:
            if not codes[0]:  # otherwise it was broken off on the way
                raise Refusal("unsupported", FAILED) from None
        return int(codes[0])


class CutReplies:
    """The replies with cuts of one pair of weights, on the thread that owns their contexts. `stop`
    may be called from any thread where it runs, as the scheduler's own. `is_hold_wanted`: whether a
    request is to be held, None where nobody has said."""

    def __init__(
        self,
        weights: Weights,
        slots: Callable[[], Iterable[Cells]],
        traits: Traits,
        emit: Emit,
        log: NativeLog,
        *,
        wake: Callable[[], None] = lambda: None,
        is_hold_wanted: Callable[[int], bool | None] = lambda request_id: None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._weights = weights
        self._emit_event = emit
        self._log = log
        self._wake = wake
        self._is_hold_wanted = is_hold_wanted
        self._clock = clock
        self._n_threads = weights.n_threads
        self._probe = Probe(weights, slots, traits, clock, no_room=NO_ROOM)
        self._waiting: OrderedDict[int, _Waiting] = OrderedDict()
        self._preparing: tuple[_Waiting, Generator[Scheduler | None, None, None]] | None = None
        self.scheduler: Scheduler | None = None
        """Of the reply that is being written."""

    # --- questions ----------------------------------------------------------------------------

    @property
    def has_work(self) -> bool:
        if self.scheduler is not None:
            return self.scheduler.has_work or not self.scheduler.open_ids
        return bool(self._waiting) or self._preparing is not None

    @property
    def idle_s(self) -> float | None:
        """After how long to call `give_back`; None where there is nothing to give."""
        is_idle = self.scheduler is None and not self._waiting and self._preparing is None
        if not is_idle or not self._probe.is_open:
            return None
        return max(self._probe.used_at + IDLE_S - self._clock(), 0.0)

    # --- commands -----------------------------------------------------------------------------

    def add(self, generate: Generate, prompt: PreparedPrompt, timeline: Timeline) -> None:
        """Queue a request. Raises Refusal."""
        loaded = self._weights.loaded
        check_cuts(generate.cuts or (), loaded.n_layer, loaded.n_head, loaded.n_head_kv)
        vocabulary = self._weights.vocabulary
        admit(
            generate,
            prompt.ids,
            n_vocab=vocabulary.n_vocab,
            n_ctx=self._weights.n_ctx,
            vocabulary=vocabulary,
            has_media=bool(prompt.media),
        )
        if generate.score_prompt:
            raise BadSetting("score_prompt", NO_SCORES)
        if self.scheduler is not None or self._preparing is not None or self._waiting:
            self._emit_event(Queued(generate.id, len(self._waiting) + 1))
        self._waiting[generate.id] = _Waiting(generate, prompt, timeline)

    def stop(self, request_id: int) -> None:
        """End a request: at once where it is not written yet, else as the scheduler does."""
        waiting = self._waiting.pop(request_id, None)
        if self._preparing is not None and self._preparing[0].generate.id == request_id:
            waiting = self._leave_off()
        if waiting is not None:
            summary = empty_summary(waiting.generate, self._weights.n_ctx)
            self._emit_event(Stopped(request_id, summary))
        elif self.scheduler is not None:
            self.scheduler.stop(request_id)

    def set_threads(self, n_threads: int) -> None:
        self._n_threads = n_threads
        if self.scheduler is not None:
            self.scheduler.set_threads(n_threads)

    def give_back(self) -> None:
        """Free the context if nobody has asked for long enough."""
        if self.idle_s == 0.0:
            self._probe.close()

    def close(self, kind: str, sentence: str) -> None:
        """Fail what is open and free the context."""
        if self._preparing is not None:
            left = self._leave_off()
            self._waiting[left.generate.id] = left
        if self.scheduler is not None:
            self.scheduler.end_all(kind, sentence)
            self.scheduler = None
        while self._waiting:
            request_id, _ = self._waiting.popitem(last=False)
            self._emit_event(Failed(request_id, kind, sentence))
        self._probe.close()

    def _leave_off(self) -> _Waiting:
        """What is being prepared is not. Its generator ends while its context is there."""
        assert self._preparing is not None
        (waiting, working), self._preparing = self._preparing, None
        working.close()
        return waiting

    # --- work ---------------------------------------------------------------------------------

    def step(self) -> None:
        """A slice of getting ready, or a step of the reply."""
        if self.scheduler is not None:
            self._write(self.scheduler)
        else:
            self._prepare()

    def _write(self, scheduler: Scheduler) -> None:
        try:
            scheduler.step()
        except Exception as error:  # noqa: BLE001 - it ends this reply
            kind, sentence, evidence = reason_of(error)
            self._emit_event(Log("error", evidence))
            scheduler.end_all(kind, sentence)
        if not scheduler.open_ids:
            self.scheduler = None
            self._probe.take_back()

    def _prepare(self) -> None:
        if self._preparing is None:
            _, waiting = self._waiting.popitem(last=False)
            for place, request_id in enumerate(self._waiting, start=1):
                self._emit_event(Queued(request_id, place))
            self._preparing = (waiting, self._getting_ready(waiting))
        waiting, working = self._preparing
        try:
            scheduler = next(working)
        except Exception as error:  # noqa: BLE001 - it ends this request, and no other
            self._preparing = None
            kind, sentence, evidence = reason_of(error)
            self._emit_event(Failed(waiting.generate.id, kind, sentence, evidence))
            return
        if scheduler is not None:
            self._preparing, self.scheduler = None, scheduler
            self._begin(scheduler, waiting)

    def _begin(self, scheduler: Scheduler, waiting: _Waiting) -> None:
        generate = waiting.generate
        request = scheduler.add(
            generate, waiting.prompt, waiting.timeline.arrived, waiting.timeline
        )
        if request.id not in scheduler.open_ids:  # it was refused
            return
        wanted = self._is_hold_wanted(generate.id)
        if wanted is not None:
            (scheduler.hold if wanted else scheduler.resume)(generate.id)
        if generate.cuts:
            sentence = CUT_FROM_HERE
            if generate.cut_mode == "mean":
                sentence = f"{sentence} {MEAN.format(n=self._probe.mean_over)}"
            request.notes.append(sentence)
            self._emit_event(Note(generate.id, "cuts", sentence))

    def _getting_ready(self, waiting: _Waiting) -> Generator[Scheduler | None, None, None]:
        """The context with the prompt's cells, and what to put in place of what is cut. Raises
        Refusal."""
        generate, ids = waiting.generate, waiting.prompt.ids
        n_ctx = self._weights.n_ctx
        self._probe.use(self._weights.adapter_set(generate.adapters))
        most = min(len(ids) + generate.max_tokens, n_ctx) if generate.max_tokens else n_ctx
        needs_means = bool(generate.cuts) and generate.cut_mode == "mean"

        def progress(done: int, total: int) -> None:
            self._emit_event(Progress(generate.id, "prefill", done, total))

        # A repeatable reply reads all of its prompt itself, and meets what the last run met.
        # The governor of ordinary replies knows by now how many threads are best.
        n_threads = self._n_threads if generate.repeatable else self._weights.n_threads
        lent = yield from self._probe.lend(
            ids,
            most,
            needs_means=needs_means,
            is_alone=generate.repeatable,
            n_threads=n_threads,
            progress=progress,
        )
        cutting = None
        if generate.cuts:
            cutting = Cutting(generate.cuts, lent.graphs[0][1], lent.means)
        weights = CutWeights(self._weights, lent, cutting, first=len(ids) - 1)
        weights.set_threads(n_threads)
        scheduler = Scheduler(
            weights,
            self._emit_event,
            self._log,
            self._clock,
            LoadOptions(parked_bytes=0, governor=False),
            self._wake,
        )
        scheduler.begin_with(lent.ids, self._probe.adapters.key)
        waiting.timeline.mark("settling", self._clock())
        yield scheduler
