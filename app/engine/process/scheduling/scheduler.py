"""Continuous batching: every step is one llama_decode over whatever there is to do.

Each writing slot adds its last token; waiting prompts fill the rest of the batch in chunks;
slots join and leave between steps. One thread calls `step` over and over; the thread that reads
commands calls `stop`, `hold`, `choose` and `resume` at any time.

    step:  end what was stopped → admit → build a batch → decode → draw for every finished row

On a device a decode is only started by llama_decode: what the last step has to say is said while
the next one runs. What must hold: a slot's cells are only recorded after the decode that filled
them succeeded; each request ends exactly once, by `_end` or `_fail`; whatever goes wrong in one
reply ends that reply and no other; a repeatable reply shares no step with anybody.
"""

from __future__ import annotations

import threading
import time
import traceback
from collections.abc import Callable
from functools import partial
from typing import Final

import psutil

from app.engine.process.cache.cache import CacheControl
from app.engine.process.cache.calling import sampling_of
from app.engine.process.cache.cells import Cells, Traits
from app.engine.process.cache.keeping import SAVED_LOST, Keeping
from app.engine.process.cache.parking import Parking, default_cap
from app.engine.process.cache.saved import SavedStates
from app.engine.process.cache.saved_identity import identity_of
from app.engine.process.cache.shifting import Shifting
from app.engine.process.cache.slot import (
    Origins,
    Phase,
    PreparedPrompt,
    Request,
    Slot,
    SlotReply,
)
from app.engine.process.cache.space import CellSpace, Plan
from app.engine.process.native.adapters import TOO_STRONG
from app.engine.process.native.native import Batch, NativeError, NativeLog, llama
from app.engine.process.native.weights import MAX_OUTPUTS, Weights
from app.engine.process.sampling.chain import SCORES, Chain
from app.engine.process.sampling.grammar import schema_notes
from app.engine.process.scheduling.admission import (
    DECODE_FAILED,
    GAVE_WAY,
    NO_ROOM_BEHIND,
    PERSON_FIRST,
    READ_AGAIN,
    TAKE_TURNS,
    UNCLOSED,
    admit,
    reason_of,
)
from app.engine.process.scheduling.batching import Batching
from app.engine.process.scheduling.drafting import Drafting
from app.engine.process.scheduling.guests import GuestShare
from app.engine.process.scheduling.pace import Pace
from app.engine.process.scheduling.rows import Row
from app.engine.process.scheduling.threads import Threads
from app.engine.process.scheduling.turns import Turns
from app.engine.process.scheduling.waiting import WaitingRoom, awaits
from app.engine.process.scheduling.writing import Calls, Writer
from app.engine.process.trace.lanes import LaneRecorder
from app.engine.process.trace.outbox import TokenRecord
from app.engine.process.trace.prompt_scores import PromptScorer
from app.engine.process.trace.scores import scores_of
from app.engine.process.trace.timeline import Pass, Timeline
from app.engine.prompts.media import is_media
from app.engine.protocol.adapter_messages import Adapters
from app.engine.protocol.lane_messages import Lanes, LaneWaiting
from app.engine.protocol.loading_messages import LoadOptions
from app.engine.protocol.messages import (
    Event,
    Failed,
    Finished,
    Generate,
    Log,
    Note,
    Progress,
    Stopped,
    Summary,
    TextFlushed,
    ThreadsChanged,
)
from app.engine.protocol.midway_messages import SHIFT_NOTE
from app.engine.protocol.saved_messages import SavedFolder
from app.engine.protocol.tool_messages import BAD_CALL, CALLED, LOOSE_CALL, ToolCalled
from app.engine.protocol.without_effect import worth_saying
from app.engine.text.calls import CUT_OFF, Bad
from app.engine.text.text import Piece
from app.refusal import Refusal

_ABORTED: Final = 2
_BY_ITSELF: Final = ("end_token", "turn_end")

Emit = Callable[[Event | TokenRecord], None]
Clock = Callable[[], float]


class Scheduler:
    """Works on the sequences of one context. `emit` gets events and token records in order.
    `wake` is called where there is work again that no command has brought."""

    def __init__(
        self,
        weights: Weights,
        emit: Emit,
        log: NativeLog,
        clock: Clock = time.perf_counter,
        options: LoadOptions | None = None,
        wake: Callable[[], None] = lambda: None,
        saved: SavedFolder | None = None,
    ) -> None:
        options = options or LoadOptions()
        self._weights = weights
        self._vocabulary = weights.vocabulary
        self._send = emit
        self._log = log
        self._clock = clock
        self._wake = wake
        self._is_stuck = False
        self.traits = traits = traits_of(weights)
        self._slots = [Slot(Cells(weights.context, s, traits)) for s in range(weights.n_slots)]
        cap = options.parked_bytes
        cap = default_cap(psutil.virtual_memory().available) if cap is None else cap
        self._space = CellSpace(self._slots, weights.n_ctx, Parking(cap, traits))
        states = SavedStates(
            identity_of(weights, options),
            traits,
            wake,
            lambda line: emit(Log("info", line)),
            n_ctx=weights.n_ctx,
        )
        states.use(saved)
        self.keeping = Keeping(
            self._slots, self._space, states, clock, lambda: len(self._waiting) > 0
        )
        self.cache = CacheControl(
            weights,
            self._slots,
            self._space,
            self.keeping,
            emit,
            clock,
            lambda: bool(self.open_ids),
        )
        self._lock = threading.Lock()
        self._waiting = WaitingRoom(self._lock, emit, clock, weights.n_ctx)
        self._batch = Batch(weights.n_ubatch, weights.n_slots)
        self._shifting = Shifting(weights, self._slots)
        calls = Calls(
            self._emit,
            self._end,
            self._flush,
            self._note,
            self._tell_calls,
            self._restart,
            self._make_room,
        )
        self._on_processor = weights.loaded.n_gpu_layers == 0
        self._writer = Writer(weights, calls, clock, measures=self._on_processor)
        self._in_flight: frozenset[int] = frozenset()
        # What cannot be cut back after an aborted step would have to be read again by everybody.
        self._may_abort_others = self._on_processor and not traits.is_recurrent
        self._pace = Pace(weights.n_ubatch, can_abort=self._on_processor)
        outputs = min(max(MAX_OUTPUTS, weights.n_slots), weights.n_ubatch)
        self._drafting = Drafting(weights, traits, clock)
        self._guests = GuestShare()
        self._aside: list[SlotReply] = []
        """Those whose slots a person has taken: guests, the oldest first, then the background's."""
        self._expected: set[int] = set()
        """A person's requests whose prompts are being made."""
        self._may_break_off = False
        self._batching = Batching(
            self._slots,
            self._space,
            self._pace,
            self._batch,
            outputs,
            self._drafting,
            self._guests,
        )
        self._scorer: PromptScorer | None = None
        self._turns = Turns()
        self._threads = Threads(weights, governed=options.governor)
        self._latest = Pass()
        self._looks_again_at = 0.0
        self._lanes = LaneRecorder(weights.n_slots, clock)
        self._news: list[Event | TokenRecord] = []
        """Seconds from a decode's end to the next one's begin: what the host adds to a step."""

    # --- from the thread that owns the context --------------------------------------------

    def add(
        self,
        generate: Generate,
        prompt: PreparedPrompt,
        arrived: float,
        timeline: Timeline | None = None,
    ) -> Request:
        """Queue a request, or end it at once with the reason why it cannot run. `timeline`: what
        its time went into since it arrived."""
        timeline = timeline or Timeline(arrived)
        timeline.latest = self._latest
        request = Request(generate, prompt, timeline, hold=generate.hold)
        n_vocab, n_ctx = self._vocabulary.n_vocab, self._weights.n_ctx
        try:
            admit(
                generate,
                prompt.ids,
                n_vocab=n_vocab,
                n_ctx=n_ctx,
                vocabulary=self._vocabulary,
                has_media=bool(prompt.media),
            )
            request.adapters = self._weights.adapter_set(generate.adapters)
        except Refusal as refused:
            self._send(Failed(request.id, refused.kind, refused.sentence, refused.evidence))
            return request
        with self._lock:
            self._waiting.add(request)
        self._is_stuck = False
        if generate.deadline_s > 0:  # only now, or it could come before there is what expires
            try:
                self._set_alarm(request)
            except RuntimeError:  # no thread to be had
                with self._lock:
                    self._waiting.take(request)
                raise
        return request

    def _set_alarm(self, request: Request) -> None:
        left = max(request.generate.deadline_s - (self._clock() - request.arrived), 0.0)
        request.timer = threading.Timer(left, self.expire, [request.id])
        request.timer.daemon = True
        request.timer.start()

    @property
    def has_work(self) -> bool:
        """Whether `step` would do anything now: a held slot waits for its choice, and so does
        who waits for a held slot's end."""
        running = [slot.reply for slot in self._slots if slot.reply is not None] + self._aside
        if not self._is_stuck and any(reply.phase is Phase.WRITING for reply in running):
            return True
        if any(map(_has_news, running)):
            return True
        if len(self._waiting) and self.keeping.has_news:
            return True
        can_move = len(self._waiting) > 0 or any(r.phase is not Phase.HELD for r in running)
        return can_move and not self._is_stuck

    def sequences(self) -> list[Cells]:
        """What each slot holds now, to copy from; a part goes through one that is empty."""
        return [slot.cells for slot in self._slots]

    def read_lanes(self, since: int) -> Lanes:
        """Who shared which passes, from span `since` on (`lane_messages.py`)."""
        with self._lock:
            waiting = [
                LaneWaiting(r.generate.reply_id, r.generate.conversation, r.timeline.awaited)
                for r in self._waiting
            ]
        return self._lanes.read(since, waiting)

    def foresee(self, ids: list[int], adapters: Adapters | None) -> None:
        """A prompt like this may come soon. Raises Refusal where its adapters can't be used."""
        self.keeping.foresee(ids, self._weights.adapter_set(adapters).key)

    def begin_with(self, ids: list[int], adapters: str = "") -> None:
        """The context's first sequence holds these tokens already, computed with these adapters."""
        if ids:
            self._slots[0].cells.extend(ids)
            self._slots[0].cells.adapters = adapters

    @property
    def is_held(self) -> bool:
        """Whether a reply waits for a choice. From any thread."""
        replies = [slot.reply for slot in self._slots]
        return any(reply is not None and reply.phase is Phase.HELD for reply in replies)

    @property
    def open_ids(self) -> set[int]:
        """Requests that have not ended."""
        running = {slot.reply.request.id for slot in self._slots if slot.reply is not None}
        running |= {reply.request.id for reply in self._aside}
        return running | {request.id for request in self._waiting}

    def step(self) -> None:
        """One batch. Returns without decoding where every slot waits for something."""
        self._is_stuck = True
        began = self._clock()
        self._sweep()
        self._take_back()
        self._begin_again()
        self._admit()
        self._drafting.waits = self._threads.is_trying
        self._batching.is_person_coming = bool(self._expected)
        has_looked = self._look()
        rows = self._rows()
        if not rows and not has_looked:  # who was to have the time has nothing to compute
            self._looks_again_at = 0.0
            self._look()
        self._is_stuck = self._is_stuck and not rows
        if not rows or not self._take_off(rows):
            self._tell()
            return
        if self._on_processor:
            self._tell()
        is_watched = self._threads.wants_processor_time
        processor_s = time.process_time() if is_watched else 0.0
        started = self._clock()
        code = self._compute(rows)
        with self._lock:  # from here on `stop` breaks nothing off: a probe may decode before us
            self._in_flight = frozenset()
        if not self._on_processor:
            self._tell()  # a device is still computing
            if code == 0:
                llama.llama_synchronize(self._weights.context)
        now = self._clock()
        had_s = time.process_time() - processor_s if is_watched else None
        if code == 0:
            if any(row.is_reading for row in rows):
                self._pace.measure(self._batch.size, now - started)
            self._share(rows, now - started)
            is_writing = not any(row.is_reading for row in rows)
            self._land(rows, started)
            if is_writing:
                self._learn_of_drafts(rows, self._clock() - began, now - started)
            self._govern(rows, now - started, now, had_s)
        else:
            self._crash(rows, code)
        if self._on_processor or not self.has_work:
            self._tell()

    def _rows(self) -> list[Row]:
        """The next step's, with their adapters in force. Where those whose turn it is can compute
        nothing (there is no room), others can."""
        for adapters in self._turns.order(self._batching.adapters, self._clock()):
            if rows := self._batching.build(self._give_way, adapters):
                self._weights.use(rows[0].reply.request.adapters)
                return rows
        return []

    def _compute(self, rows: list[Row]) -> int:
        """llama.cpp's code, 0 where it has."""
        row, projector = rows[0], self._weights.projector
        if row.picture is None:
            return self._weights.decode(self._batch.native)
        assert projector is not None
        assert row.picture.vectors is not None
        cells, offset, count = row.slot.cells, row.picture_offset, len(row.tokens)
        first = cells.position(len(cells) - offset)
        return self._weights.decode_vectors(
            row.picture.vectors[offset : offset + count],
            row.picture.positions(first, offset, count, has_axes=projector.has_axes),
            cells.sequence,
            is_causal=row.picture.is_causal,
        )

    # --- pictures -------------------------------------------------------------------------

    def _look(self) -> bool:
        """A slice of the work on a picture that a prompt comes to next. Beside others it takes
        half of the time. False: none is wanted, or it is the others' turn."""
        projector = self._weights.projector
        if projector is None:
            return False
        passes, slots = projector.passes, self._slots
        held = {id(c) for s in slots if s.reply is not None for c in s.reply.pictures.values()}
        if passes.chunk is not None and id(passes.chunk) not in held:
            passes.leave()
        unseen = self._batching.unseen()
        if not unseen or self._clock() < self._looks_again_at:
            return False
        of = {slot.cells.sequence: self._batching.next_chunk(slot) for slot in unseen}
        begun = [slot for slot in unseen if of[slot.cells.sequence] is passes.chunk]
        slot = (begun or unseen)[0]
        chunk = of[slot.cells.sequence]
        waiting = [other for other in unseen if of[other.cells.sequence] is chunk]
        assert chunk is not None
        self._is_stuck = False
        began = self._clock()
        if not begun:
            self._for_replies(waiting, lambda reply: reply.request.timeline.mark("between", began))
            self._for_replies(waiting, self._tell_seen)
        try:
            is_there = passes.step(chunk)
        except Refusal as refused:
            for other in waiting:
                self._fail(other, refused.kind, refused.sentence, refused.evidence)
            return True
        now = self._clock()
        others = [s for s in slots if s.reply is not None and s not in unseen]
        self._looks_again_at = now + (now - began) if others else 0.0
        self._for_replies(waiting, lambda reply: reply.request.timeline.mark("seeing", now))
        if is_there:  # of another part, its begin tells
            self._for_replies([s for s in waiting if _has_seen_all(s.reply)], self._tell_seen)
        return True

    @staticmethod
    def _for_replies(slots: list[Slot], act: Callable[[SlotReply], None]) -> None:
        for slot in slots:
            if slot.reply is not None:
                act(slot.reply)

    def _tell_seen(self, reply: SlotReply) -> None:
        parts = reply.pictures.values()
        n_seen = sum(part.vectors is not None for part in parts)
        self._emit(Progress(reply.request.id, "seeing", n_seen, len(parts)))

    def _emit(self, item: Event | TokenRecord) -> None:
        self._news.append(item)

    def _tell(self) -> None:
        news, self._news = self._news, []
        for item in news:
            self._send(item)

    def end_all(self, kind: str, sentence: str) -> None:
        """Fail whatever is open (the weights are about to go)."""
        for slot in self._slots:
            if slot.reply is not None:
                self._fail(slot, kind, sentence)
        with self._lock:
            waiting = [request for request in self._waiting if self._waiting.take(request)]
            waiting += [reply.request for reply in self._aside]
            aside, self._aside = self._aside, []
        for reply in aside:
            self._close(reply)
        for request in waiting:
            self._emit(Failed(request.id, kind, sentence))
        self._tell()

    def set_threads(self, n_threads: int) -> None:
        """What the user wants; the governor may use fewer."""
        self._threads.set_by_user(n_threads)

    # --- from the thread that reads commands ----------------------------------------------

    def stop(self, request_id: int) -> bool:
        """End a request: at once if it waits, soon if it runs. A decode that it is in is broken
        off; the others in it do it again."""
        with self._lock:
            if self._waiting.end(request_id, "stopped"):
                return True
            request = self._running(request_id)
            if request is not None:
                request.stop = True
                self._abort(request_id)
        return request is not None

    def expire(self, request_id: int) -> None:
        """The request's deadline has come."""
        with self._lock:
            if self._waiting.end(request_id, "deadline"):
                return
            request = self._running(request_id)
            if request is not None:
                request.expired = True
                self._abort(request_id)
        self._wake()

    def _abort(self, request_id: int) -> None:
        """Break off the decode in flight for a request that is in it. Needs the lock."""
        if request_id in self._in_flight and (self._may_abort_others or len(self._in_flight) == 1):
            self._weights.abort.set()

    def expect(self, request_id: int) -> None:
        """A person's request will come as soon as its prompt is made: guests rest until then, and a
        prompt of theirs that is just being read is broken off."""
        with self._lock:
            self._expected.add(request_id)
            if self._in_flight and self._may_break_off and self._may_abort_others:
                self._weights.abort.set()

    def hold(self, request_id: int) -> None:
        if request := self._find(request_id):
            request.hold = True

    def choose(self, request_id: int, token_id: int) -> None:
        if request := self._find(request_id):
            request.choice = token_id

    def resume(self, request_id: int) -> None:
        if request := self._find(request_id):
            request.hold = False

    def _running(self, request_id: int) -> Request | None:
        running = [slot.reply for slot in self._slots if slot.reply is not None] + self._aside
        return next((r.request for r in running if r.request.id == request_id), None)

    def _find(self, request_id: int) -> Request | None:
        with self._lock:
            waiting = next((r for r in self._waiting if r.id == request_id), None)
            return waiting or self._running(request_id)

    # --- joining --------------------------------------------------------------------------

    def _admit(self) -> None:
        """Give waiting requests their slots, first come first served. Only one that can share
        what another one is just reading lets others pass."""
        self.keeping.take_news()
        for request in self._waiting:
            reuse = _reuses(request.generate)
            if request.is_persons:
                self._make_slot(everyone=request.generate.repeatable)
            elif self._expected or self._is_behind(request):
                self._waiting.hold_up(request, "queued")
                break
            if reuse and self._space.waits_for_prefix(request):
                request.timeline.awaits("prefix", self._clock())
                continue
            plan = self._space.plan(request, reuse=reuse)
            awaited = awaits(request, plan, self._space, self._slots, reuse=reuse)
            if reuse and awaited is None and plan is not None:
                awaited = "restoring" if self.keeping.awaits(request, plan.keep) else None
            if plan is None or awaited is not None:
                self._waiting.hold_up(request, awaited or "queued")
                break
            if request.generate.is_background and self._space.would_lose(plan, request):
                self._refuse(request, "no_room", NO_ROOM_BEHIND, "")
                continue
            try:
                reply = self._begin(request)
            except Exception as error:  # noqa: BLE001 - it ends this request
                self._refuse(request, *_failure(error))
                continue
            with self._lock:  # so that `stop` finds the request in one place or the other
                taken = self._waiting.take(request)
                plan.target.reply = reply if taken else None
            if taken:
                self._join(plan.target, reply)
                self._guard(plan.target, partial(self._settle, plan))
            else:
                reply.close()
        if len(self._waiting):
            with self._lock:
                self._waiting.tell_places()

    # --- guests ---------------------------------------------------------------------------

    def arrived(self, request_id: int) -> None:
        """What was expected has come, or will not come."""
        with self._lock:
            self._expected.discard(request_id)
        self._is_stuck = False

    def _is_behind(self, request: Request) -> bool:
        """Whether any that lost its slot goes on before this one begins."""
        if request.generate.is_background:
            return len(self._aside) > 0
        return any(not reply.is_background for reply in self._aside)

    def _make_slot(self, *, everyone: bool) -> None:
        """A person waits: where no slot is idle, what is done in the background leaves its own, or
        the newest guest. `everyone`: all of them do, since nobody may be beside what comes."""
        found = [(_in_turn(s.reply), s) for s in self._slots if s.reply is not None]
        others = [slot for _, slot in sorted(found, key=lambda each: each[0])]
        others = [s for s in others if s.reply is not None and not s.reply.is_persons]
        while others and (everyone or not any(slot.is_idle for slot in self._slots)):
            self._guard(others.pop(), self._set_aside)

    def _set_aside(self, slot: Slot) -> None:
        """Take a reply out of its slot; it goes on in another one, later."""
        reply = slot.reply
        assert reply is not None
        self._space.give_way(slot)
        self._restart(reply)
        self._note(reply, "person_first", PERSON_FIRST)
        self._lanes.leave(slot.cells.sequence, "set_aside")
        with self._lock:  # so that `stop` finds it in one place or the other
            self._aside.append(reply)
            self._aside.sort(key=_in_turn)
            slot.reply = None

    def _take_back(self) -> None:
        """Who was set aside goes on where slots are idle again."""
        running = [slot.reply for slot in self._slots if slot.reply is not None]
        if self._expected or any(reply.request.generate.repeatable for reply in running):
            return
        for slot in self._space.idle():
            if not self._aside or self._waiting.has_before(self._aside[0].request):
                return
            reply = self._aside[0]
            if reply.is_background and self._batching.is_anybody_at_work:
                return
            if reply.is_background and self._space.would_lose(Plan(slot), reply.request):
                with self._lock:
                    self._aside.remove(reply)
                self._emit(Failed(reply.request.id, "no_room", NO_ROOM_BEHIND))
                self._close(reply)
                continue
            self._space.give_way(slot)
            generate = reply.request.generate
            slot.conversation, slot.is_stored = generate.conversation, generate.is_stored
            slot.cells.adapters, slot.origins = reply.request.adapters.key, Origins()
            with self._lock:
                slot.reply = self._aside.pop(0)
            self._join(slot, reply)

    def _end_aside(self, reply: SlotReply, reason: str, detail: str) -> None:
        """End a reply that has no slot."""
        with self._lock:
            self._aside.remove(reply)
        try:
            self._flush(reply, [*reply.release(0), *reply.text.flush().pieces])
            summary = self._summary(reply, reason, detail, 0)
            ending = Stopped if reason == "stopped" else Finished
            self._emit(ending(reply.request.id, summary))
        except Exception as error:  # noqa: BLE001 - it ends this request
            self._emit(Failed(reply.request.id, *_failure(error)))
        self._close(reply)

    def _share(self, rows: list[Row], seconds: float) -> None:
        """What a step cost a person's reply goes to the guests' account."""
        if any(row.is_reading and row.reply.is_persons for row in rows):
            return
        persons = any(row.reply.is_persons for row in rows)
        guests = any(row.reply.is_guest for row in rows)
        self._guests.after(seconds, persons=persons, guests=guests)

    def _join(self, slot: Slot, reply: SlotReply) -> None:
        generate, arrived = reply.request.generate, reply.request.arrived
        number = slot.cells.sequence
        self._lanes.join(number, reply, generate.reply_id, generate.conversation, arrived)

    def _refuse(self, request: Request, kind: str, sentence: str, evidence: str) -> None:
        """Fail a request that could not begin, unless it has been ended meanwhile."""
        with self._lock:
            taken = self._waiting.take(request)
        if taken:
            if request.timer is not None:
                request.timer.cancel()
            self._emit(Failed(request.id, kind, sentence, evidence))

    def _begin_again(self) -> None:
        """Replies that have lost their cells come before those that wait, the oldest one first."""
        lost = [
            (slot.reply.started, slot.cells.sequence, slot)
            for slot in self._slots
            if slot.reply is not None and slot.reply.phase is Phase.RESTARTING
            if not self._batching.rests(slot)
        ]
        for _, _, slot in sorted(lost):
            assert slot.reply is not None
            reuse = _reuses(slot.reply.request.generate)
            if self._space.may_restart(slot, reuse=reuse):
                self._guard(slot, partial(self._read_anew, reuse))

    def _read_anew(self, reuse: bool, slot: Slot) -> None:
        reply = slot.reply
        assert reply is not None
        if reuse:
            self._space.restart(slot)
        reply.phase = Phase.READING
        reply.request.timeline.begin_again(self._clock())
        self._progress(slot, reply)

    def _begin(self, request: Request) -> SlotReply:
        request.timeline.end_waiting(self._clock())
        chain = Chain(
            sampling_of(request.generate),
            n_vocab=self._vocabulary.n_vocab,
            n_ctx=self._weights.n_ctx,
            vocabulary=self._vocabulary,
        )
        try:
            ids = request.prompt.ids
            seen = ids[: len(ids) - request.prompt.n_begun]
            chain.see_prompt([i for i in seen if not is_media(i)] if request.prompt.media else seen)
            chain.see_beginning(seen[len(seen) - request.prompt.n_continued :])
            reply = SlotReply(request, self._vocabulary, chain)
        except BaseException:
            chain.close()
            raise
        reply.started = self._clock()
        return reply

    def _settle(self, plan: Plan, slot: Slot) -> None:
        """Bring into the slot's cells what is known of the prompt already."""
        reply = slot.reply
        assert reply is not None
        for note in reply.request.prompt.notes:
            self._note(reply, note.kind, note.sentence)
        sampling, n_vocab = reply.request.generate.sampling, self._vocabulary.n_vocab
        for _, sentence in worth_saying(sampling, n_vocab=n_vocab, n_ctx=self._weights.n_ctx):
            self._note(reply, "no_effect", sentence)
        for sentence in schema_notes(sampling.json_schema):
            self._note(reply, "schema_not_held", sentence)
        for sentence in reply.request.adapters.notes:
            self._note(reply, "adapters", sentence)
        if self._is_apart(reply.request):  # quietly: whoever asked for it so knows
            reply.request.notes.append(TAKE_TURNS)
        timeline = reply.request.timeline
        if plan.parked is not None:
            timeline.mark("settling", self._clock())
        reply.drafts, undrafted = self._drafting.begin(
            reply.request.generate, has_pictures=bool(reply.pictures)
        )
        if undrafted:
            self._note(reply, "no_drafts", undrafted)
        refused = self._space.settle(plan, reply.request)
        if refused is None and self.keeping.is_lost(reply.request):
            refused = SAVED_LOST
        if refused is not None:
            self._note(reply, "full_pass", refused)
        reply.reused = len(slot.cells)
        reply.reuse_source = plan.source if reply.reused else ""
        is_restored = reply.reuse_source in ("parked", "saved")
        timeline.mark("restoring" if is_restored else "settling", self._clock(), reply.reused)
        self._threads.begin(repeatable=reply.request.generate.repeatable)
        if reply.request.generate.repeatable:
            self._isolate()
        elif not reply.is_background:  # which may be slow, and leaves what is there where it is
            self._space.thin_out()
        timeline.mark("settling", self._clock())
        self._flush(reply, reply.begin(self._vocabulary.shown_piece))
        self._progress(slot, reply)

    def _is_apart(self, request: Request) -> bool:
        """Whether others are written with other adapters."""
        others = (slot.reply.request for slot in self._slots if slot.reply is not None)
        return any(other.adapters.key != request.adapters.key for other in others)

    def _isolate(self) -> None:
        """An empty cache, so that a run meets what the last one met."""
        self._space.vacate_all()
        llama.llama_memory_clear(self._weights.memory, True)

    # --- leaving --------------------------------------------------------------------------

    def _sweep(self) -> None:
        """Act on what the commands asked for since the last step, and on what it left to do."""
        for aside in list(self._aside):
            if aside.request.stop:
                self._end_aside(aside, "stopped", "")
            elif aside.request.expired:
                self._end_aside(aside, "deadline", f"{aside.request.generate.deadline_s:g} s")
        for slot in self._slots:
            reply = slot.reply
            if reply is None:
                continue
            if reply.request.stop:
                self._guard(slot, partial(self._end, reason="stopped", detail=""))
            elif reply.request.expired:
                deadline = f"{reply.request.generate.deadline_s:g} s"
                self._guard(slot, partial(self._end, reason="deadline", detail=deadline))
            elif reply.phase is Phase.HELD and _has_news(reply):
                self._is_stuck = False
                self._guard(slot, self._writer.leave_hold)
            elif reply.phase is Phase.REDRAWING:
                self._is_stuck = False
                self._guard(slot, self._writer.draw_on)

    def _end(self, slot: Slot, reason: str, detail: str) -> None:
        reply = slot.reply
        assert reply is not None
        flushed = reply.text.flush()
        self._flush(reply, [*reply.release(0), *flushed.pieces])
        self._tell_calls(reply, is_stopped=reason == "stopped")
        if flushed.stop is not None:
            reason, detail = flushed.stop.reason, flushed.stop.words
        if reply.calling is not None and reply.calling.calls and reason in _BY_ITSELF:
            reason = CALLED
        if reply.text.reasoning_unclosed and reply.text.reasoning:
            self._note(reply, "reasoning_unclosed", UNCLOSED)
        summary = self._summary(reply, reason, detail, len(slot.cells))
        ending = Stopped if reason == "stopped" else Finished
        self._emit(ending(reply.request.id, summary))
        self._release(slot, reason)

    def _fail(self, slot: Slot, kind: str, sentence: str, evidence: str = "") -> None:
        reply = slot.reply
        assert reply is not None
        partial: Summary | None = None
        try:
            self._flush(reply, [*reply.release(0), *reply.text.flush().pieces])
            self._tell_calls(reply, is_stopped=True)
            partial = self._summary(reply, "failed", kind, len(slot.cells))
        except Exception:  # noqa: BLE001 - without its text it still has to end
            evidence = f"{evidence}\n{traceback.format_exc(limit=-6)}"
        self._emit(Failed(reply.request.id, kind, sentence, evidence, partial))
        self._release(slot, "failed")

    def _release(self, slot: Slot, ending: str) -> None:
        """The slot is idle again."""
        self._lanes.leave(slot.cells.sequence, ending)
        reply, slot.reply = slot.reply, None
        self._is_stuck = False
        self._weights.abort.clear()  # it may have been set for this one alone
        slot.used_at = self._clock()
        slot.cells.cut_to_exact()  # nobody else may go on from what saw a text that is gone
        if reply is not None:
            try:
                self.cache.remember(reply)
            except Exception:  # noqa: BLE001 - the reply has its ending; the others go on
                self._emit(Log("error", traceback.format_exc(limit=-6)))
            if reply.request.is_passing:
                slot.cells.clear()
            self._close(reply)

    @staticmethod
    def _close(reply: SlotReply) -> None:
        reply.close()
        if reply.request.timer is not None:
            reply.request.timer.cancel()

    def _summary(self, reply: SlotReply, reason: str, detail: str, used: int) -> Summary:
        return reply.summary(
            reason,
            detail,
            now=self._clock(),
            n_threads=self._weights.n_threads,
            used=used,
            n_ctx=self._weights.n_ctx,
        )

    # --- the batch ------------------------------------------------------------------------

    def _give_way(self, slot: Slot) -> None:
        """Others need its cells. It goes on as soon as there is room: only a reply that fills the
        whole window, with nothing to leave out, has come to its end."""
        reply = slot.reply
        assert reply is not None
        if all(other.is_idle for other in self._slots if other is not slot):
            if not self._make_room(slot):
                self._end(slot, "context_full", f"{self._weights.n_ctx:,} tokens")
            elif len(slot.cells) < reply.n_tokens - 1:
                self._restart(reply)
            return
        self._space.give_way(slot)
        self._restart(reply)
        self._note(reply, "gave_way", GAVE_WAY)

    def _make_room(self, slot: Slot) -> bool:
        """The window is full: leave out what the reply's policy says. False: nothing can go."""
        reply = slot.reply
        assert reply is not None
        shift = self._shifting.make_room(slot)
        if shift is None:
            return False
        reply.shifts.append(shift)
        self._note(reply, SHIFT_NOTE, shift.sentence)
        return True

    def _take_off(self, rows: list[Row]) -> bool:
        """Announce the batch to `stop`; False if one of its requests was stopped meanwhile. What
        `stop` sets after the decode does nothing, and is taken back here or as its reply ends."""
        with self._lock:
            if any(row.reply.request.stop or row.reply.request.expired for row in rows):
                return False
            self._weights.abort.clear()
            self._in_flight = frozenset(row.reply.request.id for row in rows)
            is_reading = any(row.is_reading for row in rows)
            self._may_break_off = is_reading and not any(row.reply.is_persons for row in rows)
            return not (self._expected and self._may_break_off)

    def _land(self, rows: list[Row], started: float) -> None:
        """Record what the decode filled, then draw for every row that asked for scores."""
        now = self._clock()
        self._latest.slots, self._latest.batch = len(rows), self._batch.size
        shares = tuple((r.slot.cells.sequence, len(r.tokens), r.is_reading) for r in rows)
        self._lanes.passed(shares, started, now)
        for row in rows:
            if row.scores_prompt:
                self._guard(row.slot, partial(self._score, row))
            row.slot.cells.extend(row.tokens[:1] if row.proposed else row.tokens)
            if row.slot.reply is row.reply and row.is_reading:
                row.reply.evaluated += len(row.tokens)
                row.reply.request.timeline.prefilled(started, now, len(row.tokens))
                self._progress(row.slot, row.reply)
                if row.wants_scores:
                    row.reply.read_at = row.reply.last_at = now
        for row in rows:
            if row.wants_scores and row.slot.reply is row.reply:
                self._guard(row.slot, partial(self._writer.draw, row))

    def _score(self, row: Row, _: Slot) -> None:
        """Say how probable the tokens after those of the row were; needs the cells as they were."""
        reply, context, n_vocab = row.reply, self._weights.context, self._vocabulary.n_vocab
        first = max(len(row.slot.cells) + 1, reply.scored)
        after = reply.request.prompt.ids[first : len(row.slot.cells) + len(row.tokens) + 1]
        if not after:
            return
        offset = row.start + first - len(row.slot.cells) - 1
        self._scorer = self._scorer or PromptScorer(n_vocab)
        scores = self._scorer.chunk(
            reply.request.id, first, after, lambda i: scores_of(context, offset + i, n_vocab)
        )
        reply.scored = first + len(after)
        self._emit(scores)

    def _learn_of_drafts(self, rows: list[Row], seconds: float, pass_s: float) -> None:
        n_threads, size = self._weights.n_threads, self._batch.size
        for row in self._drafting.learn(rows, size, seconds, pass_s, n_threads):
            if row.slot.reply is row.reply and row.reply.drafts is not None:
                self._note(row.reply, "drafts_off", row.reply.drafts.off)

    def _govern(
        self, rows: list[Row], elapsed_s: float, now: float, processor_s: float | None
    ) -> None:
        """Let the governor see a step in which everybody wrote."""
        if self._batch.size != len(rows):
            return
        cells = 0
        for row in rows:
            length = len(row.slot.cells)
            if length == len(row.reply.ids):
                return  # the last token of a prompt is no ordinary step
            cells += length
        change = self._threads.after_step(len(rows), cells, elapsed_s, now, processor_s)
        if change is not None and change.reason:
            request_id = rows[0].reply.request.id
            self._emit(ThreadsChanged(request_id, change.n_threads, change.reason))

    def _crash(self, rows: list[Row], code: int) -> None:
        """The decode did not happen. Cut the cells back; say why, unless somebody stopped it."""
        now = self._clock()
        for row in rows:
            row.reply.request.timeline.mark("broken_off" if code == _ABORTED else "failed", now)
            before = len(row.slot.cells)
            row.slot.cells.repair()
            if len(row.slot.cells) < before and row.slot.reply is row.reply:
                self._restart(row.reply)
        if code == _ABORTED:
            return
        evidence = f"llama_decode returned {code}\n" + "\n".join(self._log.tail(6))
        for row in rows:
            if row.slot.reply is not row.reply:
                continue
            row.slot.cells.clear()
            if row.reply.retried:
                self._fail(row.slot, "native_error", DECODE_FAILED, evidence)
            else:
                self._read_again(row.reply)

    def _read_again(self, reply: SlotReply) -> None:
        """Once per reply: all cells are gone, so prompt and text so far are read anew."""
        reply.retried = True
        self._restart(reply)
        self._note(reply, "read_again", READ_AGAIN)

    @staticmethod
    def _restart(reply: SlotReply) -> None:
        reply.ids = [*reply.prompt_ids, *reply.generated]
        reply.next_token, reply.phase = None, Phase.RESTARTING

    # --- small things ---------------------------------------------------------------------

    def _guard(self, slot: Slot, act: Callable[[Slot], None]) -> None:
        """What goes wrong in one reply ends that reply only."""
        try:
            act(slot)
        except Exception as error:
            if slot.reply is None:
                raise
            kind, sentence, evidence = _failure(error)
            if evidence == SCORES and slot.reply.request.adapters.key:
                sentence = TOO_STRONG
            self._fail(slot, kind, sentence, evidence)

    def _progress(self, slot: Slot, reply: SlotReply) -> None:
        done = max(len(slot.cells) - reply.reused, 0)  # read again, it begins anew
        total = max(len(reply.ids) - reply.reused, done)  # or is shorter than what it began with
        self._emit(Progress(reply.request.id, "prefill", done, total))

    def _flush(self, reply: SlotReply, pieces: list[Piece]) -> None:
        for part, text in pieces:
            self._emit(TextFlushed(reply.request.id, text, part))

    def _tell_calls(self, reply: SlotReply, *, is_stopped: bool = False) -> None:
        """`is_stopped`: somebody ended it, so that a half call needs no words."""
        for one in reply.found():
            if isinstance(one, Bad):
                if not (is_stopped and one.sentence == CUT_OFF):
                    self._note(reply, BAD_CALL, one.sentence)
            else:
                self._emit(ToolCalled(reply.request.id, *one))
                name = one[1].name
                if name in reply.request.prompt.loose_tools:
                    self._note(reply, LOOSE_CALL, LOOSE.format(name))

    def _note(self, reply: SlotReply, kind: str, sentence: str) -> None:
        reply.request.notes.append(sentence)
        self._emit(Note(reply.request.id, kind, sentence))


LOOSE: Final = (
    "The arguments of “{}” weren't held to its schema, which is too large for a grammar or says "
    "what no grammar can."
)


def _failure(error: Exception) -> tuple[str, str, str]:
    """(kind, sentence, evidence) of a request that met this; called where it is handled."""
    if isinstance(error, NativeError):
        return "native_error", DECODE_FAILED, str(error)
    return reason_of(error)


def _in_turn(reply: SlotReply) -> tuple[bool, float]:
    """Who of those that nobody waits for comes first."""
    return reply.is_background, reply.started


def _reuses(generate: Generate) -> bool:
    return generate.reuse_prefix and not generate.repeatable and not generate.score_prompt


def traits_of(weights: Weights) -> Traits:
    is_recurrent = llama.llama_model_is_recurrent(weights.model)
    is_hybrid = llama.llama_model_is_hybrid(weights.model)
    return Traits(bool(is_recurrent or is_hybrid), int(llama.llama_model_n_swa(weights.model)))


def _has_seen_all(reply: SlotReply | None) -> bool:
    return reply is not None and all(p.vectors is not None for p in reply.pictures.values())


def _has_news(reply: SlotReply) -> bool:
    """Whether the commands or the clock want something of a reply, whatever it waits for."""
    request = reply.request
    is_chosen = not request.hold or request.choice is not None
    return request.stop or request.expired or (reply.phase is Phase.HELD and is_chosen)
