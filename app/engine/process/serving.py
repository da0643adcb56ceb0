"""Answers the window's commands: the threads of the engine process.

    commands   reads frames; acts on Stop, Hold, Choose and Resume at once
    context    owns the llama.cpp context: loads, unloads, and runs the scheduler's steps
    text       renders, tokenises and counts, beside a running reply
    outbox     makes token events and writes frames, in order

    pulse      says `Alive` in a long step, and while a held reply waits (`pulse.py`)

What must hold: each request ends exactly once (whoever ends it takes it out of `_open`); an
exception ends the request that it is about (`Failed(internal)`), and one that ends a thread ends
the process, so that the window ends what was open; what has not begun is stopped at once, also
while others are in the middle of a long step; when stdin ends the process is gone within
`_LEAVE_AFTER_S`, whatever native code is doing.
"""

from __future__ import annotations

import os
import queue
import sys
import threading
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, BinaryIO, Final

import msgspec

from app.engine.planning.placement import unused_graphics_note
from app.engine.planning.projector_plan import chosen_projector
from app.engine.process.cache.keeping import SAVE_AT_END_S
from app.engine.process.cache.slot import empty_summary
from app.engine.process.memory_limit import limit_memory
from app.engine.process.native import native
from app.engine.process.native.native import NativeLog
from app.engine.process.native.weights import LoadCancelled, Weights, load
from app.engine.process.pulse import Pulse
from app.engine.process.sampling.grammar import checked_grammar
from app.engine.process.sampling.registry import prepare
from app.engine.process.scheduling.admission import check_ids, reason_of
from app.engine.process.scheduling.scheduler import Scheduler
from app.engine.process.trace.outbox import Outbox, TokenRecord
from app.engine.process.trace.timeline import Timeline
from app.engine.prompts.fitting import PromptTooLong, counted, fit_prompt
from app.engine.prompts.media import check_media, is_media, media_of, see_nothing
from app.engine.prompts.prompt import BuiltPrompt, build_prompt
from app.engine.prompts.shown import shown
from app.engine.prompts.thinking import inspected, with_thinking
from app.engine.prompts.tokens import inside_ids
from app.engine.prompts.turn_end import turn_end
from app.engine.protocol import wire
from app.engine.protocol.adapter_messages import Adapters, MakeVector, check_groups
from app.engine.protocol.beam_messages import SearchBeams
from app.engine.protocol.bounds import shown_text
from app.engine.protocol.cache_messages import CacheCommand
from app.engine.protocol.frames import ProtocolError
from app.engine.protocol.inside_messages import InsideCommand
from app.engine.protocol.lane_messages import ReadLanes
from app.engine.protocol.loading_messages import (
    DevicesRead,
    LoadWeights,
    ReadDevices,
)
from app.engine.protocol.messages import (
    PROTOCOL_VERSION,
    Alive,
    CheckGrammar,
    Choose,
    Command,
    CountPrompt,
    Done,
    Event,
    Failed,
    Finished,
    Generate,
    Hello,
    Hold,
    Log,
    Progress,
    PromptCount,
    ReadVocabulary,
    Result,
    Resume,
    SetThreads,
    Shutdown,
    Stop,
    Stopped,
    Tokenize,
    Tokens,
)
from app.engine.protocol.passage_messages import EmbedPassages
from app.engine.protocol.pooling_messages import EmbedTexts
from app.engine.protocol.prompt_messages import ChatPrompt, ContextPolicy, Prompt, ReadPrompt
from app.engine.protocol.template_messages import TemplateFailed
from app.engine.protocol.thinking_messages import ReadThinking, ThinkingOffer
from app.engine.templates.client import TemplateClient
from app.gguf.header import MAIN_TEMPLATE
from app.refusal import Refusal

if TYPE_CHECKING:  # imported at the first question, which a cold start need not wait for
    from app.engine.process.beams.room import BeamRoom
    from app.engine.process.cache.kept_scores import KeptScores
    from app.engine.process.pooling.passages import PassageRoom
    from app.engine.process.pooling.room import PoolingRoom
    from app.engine.process.probe.cut_replies import CutReplies
    from app.engine.process.probe.room import Examples, ProbeRoom

_LEAVE_AFTER_S: Final = 1.0
_WARM_UP_AFTER_S: Final = 2.0
"""After a load: the first reply comes first."""
_FAULT_EXIT_CODE: Final = 70
_LOG_BURST: Final = 400
_LOG_PER_S: Final = 40.0

TOOL_TEMPLATE: Final = "tool_use"
"""What files that have several templates call the one with tools."""

TextQuestion = Tokenize | CountPrompt | ReadPrompt | ReadThinking | ReadVocabulary | CheckGrammar
TextCommand = Generate | TextQuestion | ReadDevices | MakeVector

_NOT_LOADED: Final = "No model is loaded. Load a GGUF file first."
_UNLOADED: Final = "The model was unloaded before the reply was finished."


@dataclass(frozen=True, slots=True)
class _Prepared:
    """A prompt that the text thread built, or why it could not."""

    generate: Generate
    prompt: BuiltPrompt | None
    failed: Failed | None
    timeline: Timeline


@dataclass(frozen=True, slots=True)
class _Told:
    """The examples of a `MakeVector` as token IDs, or why they are not."""

    id: int
    examples: Examples | None
    failed: Failed | None = None


@dataclass(frozen=True, slots=True)
class _StopInside:
    """Somebody no longer wants to know."""

    target: int


@dataclass(frozen=True, slots=True)
class _Foreseen:
    """A prompt that was counted: its chat may be asked for a reply soon."""

    ids: list[int]
    adapters: Adapters | None = None


class _Wake:
    """Put into the inbox so that the context thread looks at what the flags say."""


Job = Command | _Prepared | _Told | _StopInside | _Foreseen | _Wake


TOKENISE: Final = ("context", "text")
STACK_BYTES: Final = 64 * 2**20
"""Of the threads that tokenise. Some files' rule for cutting words (deepseek-llm) is matched by
std::regex, which recurses once per letter: a run of 40,000 without a space ended a thread with the
usual 8 MiB (SIGSEGV); so 300,000 do. What is not used takes no memory, but counts for the limit
(`memory_limit.py`)."""


class Serving:
    """The engine behind one pair of streams. `run` returns when the parent has gone."""

    def __init__(self, commands: BinaryIO, frames: BinaryIO) -> None:
        self._reader = wire.FrameReader(commands)
        writer = wire.FrameWriter(frames)
        self._outbox = Outbox(writer.write, on_broken=self._leave, send_all=writer.write_all)
        self._log = NativeLog(_LogGate(self._outbox.put))
        self._templates = TemplateClient()
        self._inbox: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._texts: queue.PriorityQueue[tuple[int, int, TextCommand | None, float]] = (
            queue.PriorityQueue()
        )
        self._counter = count()
        self._weights: Weights | None = None
        self._weights_lock = threading.Lock()
        self._scheduler: Scheduler | None = None
        self._inside: ProbeRoom | None = None
        self._cut_replies: CutReplies | None = None
        self._is_governed = True
        self._n_threads = 0
        """What the user wants; the governor may use fewer."""
        self._beams: BeamRoom | None = None
        self._pooling: PoolingRoom | None = None
        self._passages: PassageRoom | None = None
        self._is_turn_of_cuts = False
        self._open: dict[int, float] = {}
        self._stopped: set[int] = set()
        self._is_hold_wanted: dict[int, bool] = {}
        self._ahead: set[int] = set()
        self._looks: set[int] = set()
        self._questions: set[int] = set()
        self._looking = 0
        self._unscheduled: dict[int, Generate] = {}
        self._at_rest: set[str] = set()
        self._turn_ends: dict[tuple[str, str], str] = {}
        self._leaving = threading.Event()
        self._exit_code = 0
        self._is_saving = False
        self._pulse = Pulse(
            is_open=lambda: bool(self._open),
            quiet_s=self._outbox.quiet_s,
            waits=self._waits_for_a_person,
            say=lambda: self._outbox.put(Alive()),
        )

    def run(self) -> int:
        """Say Hello and serve. Called on the main thread."""
        native.start(self._log)
        self._outbox.put(_hello())
        limit_memory()
        threads = [
            threading.Thread(target=self._or_leave, args=[target], name=name, daemon=True)
            for name, target in (
                ("commands", self._read_commands),
                ("context", self._run_context),
                ("text", self._run_text),
                ("pulse", lambda: self._pulse.run(self._leaving)),
            )
        ]
        for thread in threads:
            usual = threading.stack_size(STACK_BYTES if thread.name in TOKENISE else 0)
            thread.start()
            threading.stack_size(usual)
        for thread in threads[1:3]:
            thread.join()
        self._templates.close()
        self._outbox.close(timeout_s=0.5)
        return self._exit_code

    def _or_leave(self, run: Callable[[], None]) -> None:
        """Run a thread. One that ends by a fault could end no request any more, but the window does
        once the process is gone."""
        try:
            run()
        except Exception:  # noqa: BLE001 - what we did not foresee
            traceback.print_exc()
            self._exit_code = _FAULT_EXIT_CODE
            self._leave()

    def _waits_for_a_person(self) -> bool:
        """Whether nothing can go on before a held reply does."""
        return len(self._at_rest) == 2 and any(s.is_held for s in self._schedulers())

    def _schedulers(self) -> list[Scheduler]:
        """Those that write: of ordinary replies, and of one with cuts."""
        cuts = self._cut_replies
        found = [self._scheduler, cuts.scheduler if cuts is not None else None]
        return [scheduler for scheduler in found if scheduler is not None]

    def _leave(self) -> None:
        """End soon: in an orderly way if native code lets us, by force if not."""
        if self._leaving.is_set():
            return
        self._leaving.set()
        self._pulse.begin()
        weights = self._weights
        if weights is not None:
            weights.abort.set()
        self._inbox.put(None)
        self._texts.put((-1, next(self._counter), None, 0.0))
        timer = threading.Timer(_LEAVE_AFTER_S, self._end_by_force)
        timer.daemon = True
        timer.start()

    def _end_by_force(self) -> None:
        """Native code does not come back. Chats that are just being written have their time."""
        if self._is_saving:
            time.sleep(SAVE_AT_END_S)
        os._exit(self._exit_code)

    # --- commands -------------------------------------------------------------------------

    def _read_commands(self) -> None:
        try:
            while (payload := self._reader.read()) is not None:
                command = wire.decode_command(payload)
                if isinstance(command, Shutdown):
                    break
                self._guard(_subject(command), partial(self._take, command))
        except ProtocolError as error:
            # Whoever writes this is not our window: there is nobody to talk to.
            self._exit_code = 2
            sys.stderr.write(f"the engine was sent what it does not understand: {error}\n")
        except OSError:
            pass
        self._leave()

    def _take(self, command: Command) -> None:
        now = time.perf_counter()
        if isinstance(command, Stop):
            self._stop(command.target)
        elif isinstance(command, Hold | Choose | Resume):
            self._steer(command)
        elif isinstance(command, TextQuestion | ReadDevices):
            self._open[command.id] = now
            self._questions.add(command.id)
            self._texts.put((1, next(self._counter), command, now))
            self._pulse.begin()
        elif isinstance(command, MakeVector):
            self._open[command.id] = now
            self._looks.add(command.id)
            self._texts.put((2, next(self._counter), command, now))
            self._pulse.begin()
        elif not isinstance(command, Shutdown):
            self._open[command.id] = now
            if isinstance(command, Generate):
                self._unscheduled[command.id] = command
                if not (command.is_guest or command.is_background) and self._scheduler is not None:
                    self._scheduler.expect(command.id)
            if isinstance(
                command,
                CacheCommand | InsideCommand | SearchBeams | ReadLanes | EmbedTexts | EmbedPassages,
            ):
                self._looks.add(command.id)
            else:  # a measurement makes way for it
                self._ahead.add(command.id)
                if self._scheduler is not None:
                    self._scheduler.cache.interrupt()
            self._inbox.put(command)
            self._pulse.begin()

    def _stop(self, target: int) -> None:
        if target not in self._open:
            return
        # What has not begun waits for nobody's step; the answer of a question is dropped.
        generate = self._unscheduled.pop(target, None)
        if generate is not None:
            weights = self._weights
            n_ctx = weights.n_ctx if weights is not None else 0
            self._emit(Stopped(target, empty_summary(generate, n_ctx)))
            return
        if _taken_out(self._looks, target) or target in self._questions:
            self._emit(Stopped(target, Done()))
            return
        # First the mark, then the scheduler: a request that is just on its way into the
        # scheduler finds the mark afterwards.
        self._stopped.add(target)
        if self._beams is not None:
            self._beams.break_off(target)
        for scheduler in self._schedulers():
            scheduler.stop(target)
            if target == self._looking:
                scheduler.cache.interrupt()
        self._inbox.put(_StopInside(target))

    def _steer(self, command: Hold | Choose | Resume) -> None:
        if command.target in self._open and not isinstance(command, Choose):
            # First the mark, as for Stop.
            self._is_hold_wanted[command.target] = isinstance(command, Hold)
        for scheduler in self._schedulers():
            if isinstance(command, Hold):
                scheduler.hold(command.target)
            elif isinstance(command, Choose):
                scheduler.choose(command.target, command.token_id)
            else:
                scheduler.resume(command.target)
        self._inbox.put(_Wake())

    # --- endings --------------------------------------------------------------------------

    def _emit(self, item: Event | TokenRecord) -> None:
        """Send an event of the scheduler, and note which requests it ends."""
        if isinstance(item, Finished | Stopped | Failed):
            if self._open.pop(item.id, None) is None:
                return
            self._stopped.discard(item.id)
            self._questions.discard(item.id)
            self._unscheduled.pop(item.id, None)
            self._is_hold_wanted.pop(item.id, None)
        self._outbox.put(item)

    def _finish(self, request_id: int, result: Result) -> None:
        self._emit(Finished(request_id, result))

    def _fail(self, request_id: int, kind: str, sentence: str, evidence: str = "") -> None:
        self._emit(Failed(request_id, kind, sentence, evidence))

    def _guard(self, request_id: int, act: Callable[[], None]) -> None:
        """Run `act`; what we did not foresee ends the request, not the thread."""
        try:
            act()
        except Exception as error:  # noqa: BLE001 - what we did not foresee ends the request
            self._fail(request_id, *reason_of(error))

    # --- the context thread -----------------------------------------------------------------

    def _run_context(self) -> None:
        while not self._leaving.is_set():
            if self._inbox.empty() and self._go_on():
                continue
            self._at_rest.add("context")
            job = self._next_job()
            self._at_rest.discard("context")
            if job is None:
                break
            self._do(job)
        if self._weights_lock.acquire(timeout=_LEAVE_AFTER_S / 2):
            if self._scheduler is not None:
                self._scheduler.end_all("not_loaded", _UNLOADED)
                self._is_saving = self._exit_code == 0
                self._scheduler.keeping.close(is_sound=self._is_saving)
            if self._cut_replies is not None:
                self._cut_replies.close("not_loaded", _UNLOADED)
            if self._inside is not None:
                self._inside.close()
            if self._beams is not None:
                self._beams.close()
            for texts in (self._pooling, self._passages):
                if texts is not None:
                    texts.close()
            if self._weights is not None:
                self._weights.close()
            self._scheduler = self._weights = None
            self._inside = self._cut_replies = self._beams = self._pooling = None
            self._passages = None
            self._weights_lock.release()

    def _go_on(self) -> bool:
        """A step of replies, or a slice of what is asked about the inside. False: nothing to do."""
        replies = self._scheduler is not None and self._scheduler.has_work
        cuts = self._cut_replies
        has_cuts = cuts is not None and cuts.has_work
        if self._scheduler is not None:
            self._scheduler.keeping.tend(is_idle=not (replies or has_cuts))
        for room in self._rooms():
            room.give_back()
        if self._inside is not None and self._inside.has_work(beside_replies=replies or has_cuts):
            self._inside.step()
        elif self._beams is not None and self._beams.has_work(beside_replies=replies or has_cuts):
            self._beams.step()
        elif self._pooling is not None and self._pooling.has_work(
            beside_replies=replies or has_cuts
        ):
            self._pooling.step()
        elif self._passages is not None and self._passages.has_work(
            beside_replies=replies or has_cuts
        ):
            self._passages.step()
        elif cuts is not None and has_cuts and (self._is_turn_of_cuts or not replies):
            self._is_turn_of_cuts = False
            cuts.step()
        elif replies:
            self._is_turn_of_cuts = True
            self._step()
        else:
            return False
        return True

    def _next_job(self) -> Job | None:
        """Wait for a job. What nobody looks into any more is given back meanwhile."""
        while True:
            idle = [room.idle_s for room in self._rooms()]
            if self._scheduler is not None:
                idle.append(self._scheduler.keeping.idle_s)
            try:
                return self._inbox.get(
                    timeout=min((s for s in idle if s is not None), default=None)
                )
            except queue.Empty:
                for room in self._rooms():
                    room.give_back()
                if self._scheduler is not None:
                    self._scheduler.keeping.tend(is_idle=True)
                    if self._scheduler.has_work:
                        return _Wake()

    def _rooms(self) -> list[ProbeRoom | CutReplies | KeptScores | PassageRoom]:
        """Who holds what is needed only for a while: a context of its own, scores."""
        kept = None if self._scheduler is None else self._scheduler.cache.kept_scores
        rooms = (self._inside, self._cut_replies, kept, self._passages)
        return [room for room in rooms if room is not None]

    def _room_inside(self) -> ProbeRoom | None:
        """Made at the first question, as the other two; None without weights."""
        if self._inside is None and self._weights is not None and self._scheduler is not None:
            from app.engine.process.probe.room import ProbeRoom

            self._inside = ProbeRoom(
                self._weights,
                self._scheduler.sequences,
                self._scheduler.traits,
                self._emit,
                may_begin=lambda request_id: _taken_out(self._looks, request_id),
            )
        return self._inside

    def _room_of_beams(self) -> BeamRoom | None:
        if self._beams is None and self._weights is not None and self._scheduler is not None:
            from app.engine.process.beams.room import BeamRoom

            self._beams = BeamRoom(
                self._weights,
                self._scheduler.sequences,
                self._scheduler.traits,
                self._emit,
                may_begin=lambda request_id: _taken_out(self._looks, request_id),
                governed=self._is_governed,
            )
            self._beams.set_threads(self._n_threads)
        return self._beams

    def _room_of_texts(self) -> PoolingRoom | None:
        if self._pooling is None and self._weights is not None:
            from app.engine.process.pooling.room import PoolingRoom

            self._pooling = PoolingRoom(
                self._weights,
                self._emit,
                may_begin=lambda request_id: _taken_out(self._looks, request_id),
            )
        return self._pooling

    def _room_of_passages(self) -> PassageRoom | None:
        if self._passages is None and self._weights is not None:
            from app.engine.process.pooling.passages import PassageRoom

            self._passages = PassageRoom(
                self._log,
                self._emit,
                lambda: self._n_threads,
                may_begin=lambda request_id: _taken_out(self._looks, request_id),
                on_planned=limit_memory,
            )
        return self._passages

    def _room_of_cuts(self) -> CutReplies | None:
        if self._cut_replies is None and self._weights is not None and self._scheduler is not None:
            from app.engine.process.probe.cut_replies import CutReplies

            self._cut_replies = CutReplies(
                self._weights,
                self._scheduler.sequences,
                self._scheduler.traits,
                self._emit,
                self._log,
                wake=lambda: self._inbox.put(_Wake()),
                is_hold_wanted=self._is_hold_wanted.get,
            )
            self._cut_replies.set_threads(self._n_threads)
        return self._cut_replies

    def _step(self) -> None:
        scheduler = self._scheduler
        assert scheduler is not None
        try:
            scheduler.step()
        except Exception as error:  # noqa: BLE001 - it ends the open requests
            kind, sentence, evidence = reason_of(error)
            self._outbox.put(Log("error", evidence))
            scheduler.end_all(kind, sentence)

    def _do(self, job: Job) -> None:
        if isinstance(job, _Prepared):
            self._guard(job.generate.id, lambda: self._schedule(job))
        elif isinstance(job, LoadWeights):
            self._guard(job.id, lambda: self._load(job))
        elif isinstance(job, SetThreads):
            self._guard(job.id, lambda: self._set_threads(job))
        elif isinstance(job, Generate):
            self._guard(job.id, lambda: self._prepare(job))
        elif isinstance(job, CacheCommand):
            self._guard(job.id, lambda: self._look_at_cache(job))
        elif isinstance(job, ReadLanes):
            self._guard(job.id, lambda: self._read_lanes(job))
        elif isinstance(job, InsideCommand):
            self._guard(job.id, lambda: self._ask_inside(job))
        elif isinstance(job, SearchBeams):
            self._guard(job.id, lambda: self._search_beams(job))
        elif isinstance(job, EmbedTexts):
            self._guard(job.id, lambda: self._embed(job))
        elif isinstance(job, EmbedPassages):
            self._guard(job.id, lambda: self._embed_passages(job))
        elif isinstance(job, _Told):
            self._guard(job.id, lambda: self._find_direction(job))
        elif isinstance(job, _StopInside):
            if self._inside is not None:
                self._inside.stop(job.target)
            if self._cut_replies is not None:
                self._cut_replies.stop(job.target)
            if self._beams is not None:
                self._beams.stop(job.target)
            for texts in (self._pooling, self._passages):
                if texts is not None:
                    texts.stop(job.target)
        elif isinstance(job, _Foreseen) and self._scheduler is not None:
            with suppress(Refusal):
                self._scheduler.foresee(job.ids, job.adapters)
        if isinstance(job, LoadWeights | SetThreads | Generate):
            self._ahead.discard(job.id)

    def _load(self, command: LoadWeights) -> None:
        path = os.fsdecode(command.path_bytes) if command.path_bytes else command.path
        projector = chosen_projector(path, command.projector)
        command = msgspec.structs.replace(command, projector=projector)
        with self._weights_lock:
            assert self._weights is None  # others are loaded by another process
            try:
                weights = load(
                    path,
                    command.options,
                    log=self._log,
                    on_progress=lambda done, total: self._outbox.put(
                        Progress(command.id, "load", done, total)
                    ),
                    is_cancelled=lambda: command.id in self._stopped or self._leaving.is_set(),
                    on_planned=limit_memory,
                    on_draft=lambda: self._outbox.put(Progress(command.id, "draft", 0, 1)),
                    projector=command.projector,
                    on_projector=lambda: self._outbox.put(Progress(command.id, "projector", 0, 1)),
                )
            except LoadCancelled:
                self._emit(Stopped(command.id, Done()))
                return
            self._weights = weights
            self._n_threads = weights.n_threads
            self._is_governed = command.options.governor
            self._scheduler = Scheduler(
                weights,
                self._emit,
                self._log,
                options=command.options,
                wake=lambda: self._inbox.put(_Wake()),
                saved=command.saved,
            )
        self._finish(command.id, weights.loaded)
        warmer = threading.Timer(_WARM_UP_AFTER_S, _import_rooms)
        warmer.daemon = True
        warmer.start()

    def _set_threads(self, command: SetThreads) -> None:
        if self._weights is None:
            self._fail(command.id, "not_loaded", _NOT_LOADED)
        elif not 1 <= command.n_threads <= 512:
            self._fail(command.id, "bad_setting", "Threads must be between 1 and 512.")
        else:
            if self._scheduler is not None:
                self._scheduler.set_threads(command.n_threads)
            self._n_threads = command.n_threads
            if self._cut_replies is not None:
                self._cut_replies.set_threads(command.n_threads)
            if self._beams is not None:
                self._beams.set_threads(command.n_threads)
            self._finish(command.id, Done())

    def _look_at_cache(self, command: CacheCommand) -> None:
        self._looking = command.id  # first, so that `_stop` finds it in one place or the other
        if not _taken_out(self._looks, command.id):
            return
        if self._scheduler is None:
            self._fail(command.id, "not_loaded", _NOT_LOADED)
            return
        self._emit(
            self._scheduler.cache.answer(
                command,
                is_stopped=lambda: command.id in self._stopped or self._leaving.is_set(),
                is_in_the_way=lambda: bool(self._ahead or self._unscheduled),
            )
        )

    def _read_lanes(self, command: ReadLanes) -> None:
        if not _taken_out(self._looks, command.id):
            return
        if self._scheduler is None:
            self._fail(command.id, "not_loaded", _NOT_LOADED)
        else:
            self._finish(command.id, self._scheduler.read_lanes(command.since))

    def _ask_inside(self, command: InsideCommand) -> None:
        room = self._room_inside()
        if room is None:
            self._fail(command.id, "not_loaded", _NOT_LOADED)
        else:
            room.ask(command)

    def _search_beams(self, command: SearchBeams) -> None:
        room = self._room_of_beams()
        if room is None:
            self._fail(command.id, "not_loaded", _NOT_LOADED)
        else:
            room.ask(command)

    def _embed(self, command: EmbedTexts) -> None:
        room = self._room_of_texts()
        if room is None:
            self._fail(command.id, "not_loaded", _NOT_LOADED)
        else:
            room.ask(command)

    def _embed_passages(self, command: EmbedPassages) -> None:
        room = self._room_of_passages()
        if room is None:
            self._fail(command.id, "not_loaded", _NOT_LOADED)
        else:
            room.ask(command)

    def _find_direction(self, told: _Told) -> None:
        if told.id not in self._looks:  # stopped meanwhile
            return
        room = self._room_inside()
        if told.examples is None or room is None:
            self._looks.discard(told.id)
            self._emit(told.failed or Failed(told.id, "not_loaded", _NOT_LOADED))
        else:
            room.ask(told.examples)

    def _prepare(self, command: Generate) -> None:
        """Hand the prompt to the text thread; what runs goes on meanwhile."""
        if self._weights is None:
            self._fail(command.id, "not_loaded", _NOT_LOADED)
            return
        if command.id not in self._unscheduled:  # stopped meanwhile
            if self._scheduler is not None:
                self._scheduler.arrived(command.id)
            return
        arrived = self._open.get(command.id, time.perf_counter())
        order = 1 if command.is_guest else 0
        self._texts.put((order, next(self._counter), command, arrived))

    def _schedule(self, prepared: _Prepared) -> None:
        if self._scheduler is not None:
            self._scheduler.arrived(prepared.generate.id)
        generate = self._unscheduled.pop(prepared.generate.id, None)
        if generate is None:  # stopped meanwhile
            return
        if prepared.failed is not None:
            self._emit(prepared.failed)
        elif self._scheduler is None or prepared.prompt is None:
            self._fail(generate.id, "not_loaded", _UNLOADED)
        elif generate.cuts is not None:
            room = self._room_of_cuts()
            assert room is not None
            room.add(generate, prepared.prompt, prepared.timeline)
            if generate.id in self._stopped:
                room.stop(generate.id)
        else:
            timeline = prepared.timeline
            self._scheduler.add(generate, prepared.prompt, timeline.arrived, timeline)
            if generate.id in self._is_hold_wanted:
                hold = self._is_hold_wanted[generate.id]
                (self._scheduler.hold if hold else self._scheduler.resume)(generate.id)
            if generate.id in self._stopped:
                self._scheduler.stop(generate.id)

    # --- the text thread ----------------------------------------------------------------------

    def _run_text(self) -> None:
        while not self._leaving.is_set():
            self._at_rest.add("text")
            _, _, command, arrived = self._texts.get()
            self._at_rest.discard("text")
            if command is None:
                break
            if isinstance(command, Generate):
                self._inbox.put(self._build(command, arrived))
            elif isinstance(command, MakeVector):
                self._inbox.put(self._tell_examples(command))
            elif isinstance(command, ReadDevices):  # whatever is loaded, or loading
                self._read_devices(command)
            else:
                self._answer_guarded(command)

    def _build(self, generate: Generate, arrived: float) -> _Prepared:
        failed, timeline = None, Timeline(arrived)
        timeline.mark("arriving", time.perf_counter())
        try:
            with self._weights_lock:
                if self._weights is not None:
                    limit_memory()
                    self._weights.check_adapters(generate.adapters)
                    prompt = self._render(generate, self._weights)
                    prompt = self._with_turn_end(generate, prompt, self._weights)
                    prompt = _with_call_grammars(generate, prompt)
                    prepare(generate.sampling, self._weights.vocabulary, self._weights.n_ctx)
                    timeline.mark("rendering", time.perf_counter())
                    return _Prepared(generate, prompt, None, timeline)
        except Exception as error:  # noqa: BLE001 - it ends this request
            failed = Failed(generate.id, *reason_of(error))
        return _Prepared(generate, None, failed, timeline)

    def _tell_examples(self, command: MakeVector) -> _Told:
        """Each prompt as token IDs; the weights may be needed for a reply in between."""
        positive: list[list[int]] = []
        negative: list[list[int]] = []
        groups = ((positive, command.positive), (negative, command.negative))
        try:
            check_groups(command.positive, command.negative, command.method)
            for group, prompts in groups:
                for prompt in prompts:
                    if command.id not in self._looks:  # stopped meanwhile
                        return _Told(command.id, None)
                    with self._weights_lock:
                        if self._weights is None:
                            return _Told(command.id, None)
                        group.append(self._rendered(prompt, "stop", self._weights).ids)
        except Exception as error:  # noqa: BLE001 - it ends this request
            return _Told(command.id, None, Failed(command.id, *reason_of(error)))
        from app.engine.process.probe.room import Examples

        return _Told(command.id, Examples(command.id, positive, negative, command.method))

    def _render(
        self, command: Generate | CountPrompt | ReadPrompt, weights: Weights
    ) -> BuiltPrompt:
        """The prompt as it fits. Raises TemplateFailed or PromptTooLong."""
        return self._rendered(command.prompt, command.context_policy, weights)

    def _rendered(self, wanted: Prompt, policy: ContextPolicy, weights: Weights) -> BuiltPrompt:
        template, vocabulary = _template(wanted, weights), weights.vocabulary
        own = wanted.template if isinstance(wanted, ChatPrompt) else None
        projector = weights.projector
        check_media(media_of(wanted), weights.loaded.projector)
        see = see_nothing if projector is None else projector.see
        prompt, notes = with_thinking(
            wanted, template if own is None else own, vocabulary, self._templates.inspect
        )
        built = fit_prompt(
            prompt,
            lambda prompt: build_prompt(prompt, vocabulary, template, self._templates.render, see),
            weights.n_ctx,
            policy,
        )
        return replace(built, notes=[*notes, *built.notes]) if notes else built

    def _with_turn_end(
        self, command: Generate, built: BuiltPrompt, weights: Weights
    ) -> BuiltPrompt:
        """Found once for each template of the loaded weights."""
        if not isinstance(command.prompt, ChatPrompt):
            return built
        template = command.prompt.template
        template = _template(command.prompt, weights) if template is None else template
        key = (weights.loaded.path, template or "")
        if key not in self._turn_ends:
            self._turn_ends = {key: turn_end(template, weights.vocabulary, self._templates.render)}
        return replace(built, turn_end=self._turn_ends[key])

    def _count(self, command: CountPrompt, weights: Weights) -> PromptCount:
        """What does not fit has a count as well."""
        try:
            built = self._render(command, weights)
        except PromptTooLong as error:
            return PromptCount(error.used, error.limit)
        with suppress(Refusal):  # it is said where a reply is asked for
            weights.check_adapters(command.adapters)
            self._inbox.put(_Foreseen(built.ids, command.adapters))
        return counted(built, weights.n_ctx)

    def _thinking(self, command: ReadThinking, weights: Weights) -> ThinkingOffer:
        """What the template offers; a broken one, and none, offer nothing."""
        asked = ChatPrompt([], command.template, template_name=command.template_name)
        template = _template(asked, weights) if command.template is None else command.template
        if template is None or not template.strip():
            return ThinkingOffer()
        tags, variables = command.reasoning_tags, command.variables
        look = self._templates.inspect
        return inspected(template, weights.vocabulary, look, tags, variables).offer

    def _answer_guarded(self, command: TextQuestion) -> None:
        try:
            with self._weights_lock:
                if self._weights is None:
                    self._fail(command.id, "not_loaded", _NOT_LOADED)
                else:
                    self._finish(command.id, self._answer(command, self._weights))
        except Exception as error:  # noqa: BLE001 - it ends this request
            self._fail(command.id, *reason_of(error))

    def _read_devices(self, command: ReadDevices) -> None:
        def read() -> None:
            self._finish(command.id, DevicesRead(native.list_devices()))

        self._guard(command.id, read)

    def _answer(self, command: TextQuestion, weights: Weights) -> Result:
        vocabulary = weights.vocabulary
        if isinstance(command, CountPrompt):
            return self._count(command, weights)
        if isinstance(command, ReadPrompt):
            built = self._render(command, weights)
            check_ids([i for i in built.ids if not is_media(i)], vocabulary.n_vocab)
            return shown(
                built,
                weights.n_ctx,
                vocabulary.piece,
                lambda token_id: int(vocabulary.attributes[token_id]),
                vocabulary.is_control,
            )
        if isinstance(command, ReadThinking):
            return self._thinking(command, weights)
        if isinstance(command, ReadVocabulary):
            return vocabulary.table()
        if isinstance(command, CheckGrammar):
            limit_memory()
            return checked_grammar(command, vocabulary)
        if command.inside:
            ids = inside_ids(command.text, vocabulary)
        else:
            ids = vocabulary.tokenize(command.text, command.special)
        if command.add_special:
            ids = vocabulary.with_ends(ids)
        return Tokens(ids, [vocabulary.piece(token_id) for token_id in ids])


def _subject(command: Command) -> int:
    """The request that a command is, or is about."""
    if isinstance(command, Stop | Hold | Choose | Resume):
        return command.target
    return 0 if isinstance(command, Shutdown) else command.id


def _import_rooms() -> None:
    """What the first question about the inside would wait for."""
    import app.engine.process.beams.room
    import app.engine.process.probe.cut_replies
    import app.engine.process.probe.room  # noqa: F401


def _taken_out(ids: set[int], request_id: int) -> bool:
    """Whether it was in there; of two threads that ask one is told so."""
    try:
        ids.remove(request_id)
    except KeyError:
        return False
    return True


def _with_call_grammars(generate: Generate, built: BuiltPrompt) -> BuiltPrompt:
    """Made here, where nobody waits for the next token."""
    prompt = generate.prompt
    if built.calls is None or not isinstance(prompt, ChatPrompt):
        return built
    from app.engine.process.sampling.call_grammar import call_grammars  # few replies have one

    grammars, loose = call_grammars(
        built.calls, tuple(prompt.tools), prompt.tool_choice, prompt.parallel_tool_calls
    )
    return replace(built, call_grammars=grammars, loose_tools=loose)


def _template(prompt: Prompt, weights: Weights) -> str | None:
    """The template that the prompt asks for: the file's main one, or another one by name; with
    tools the one that is for them, if the file has it. A broken one stops nobody who uses another.
    """
    name = prompt.template_name if isinstance(prompt, ChatPrompt) else None
    if name is None and isinstance(prompt, ChatPrompt) and prompt.tools:
        name = TOOL_TEMPLATE if TOOL_TEMPLATE in weights.loaded.templates else None
    if name is None or name == MAIN_TEMPLATE:
        return weights.chat_template
    if name not in weights.loaded.templates:
        known = ", ".join(weights.loaded.templates) or "none"
        called = shown_text(name)
        sentence = f"This model has no chat template called “{called}”. Available: {known}."
        raise TemplateFailed("unknown", sentence)
    return weights.named_template(name)


class _LogGate:
    """Lets a burst of log lines through, then a few per second, and says what it left out."""

    def __init__(self, put: Callable[[Log], None]) -> None:
        self._put = put
        self._lock = threading.Lock()
        self._allowed = float(_LOG_BURST)
        self._filled_at = time.monotonic()
        self._dropped = 0

    def __call__(self, level: str, text: str) -> None:
        with self._lock:
            now = time.monotonic()
            self._allowed += (now - self._filled_at) * _LOG_PER_S
            self._allowed, self._filled_at = min(self._allowed, _LOG_BURST), now
            if self._allowed < 1:
                self._dropped += 1
                return
            self._allowed -= 1
            dropped, self._dropped = self._dropped, 0
        if dropped:
            self._put(Log("warning", f"{dropped} log lines were skipped"))
        self._put(Log(level, text))


def _hello() -> Hello:
    note = unused_graphics_note(
        native.graphics_evidence(), can_offload=native.can_offload(), version=native.VERSION
    )
    return Hello(
        protocol=PROTOCOL_VERSION,
        engine="llama.cpp",
        version=native.library_version(),
        pid=os.getpid(),
        devices=native.list_devices(),
        physical_cores=native.physical_cores(),
        notes=[note] if note else [],
        can_offload=native.can_offload(),
        repacked=sorted(native.repacked_types()),
    )
