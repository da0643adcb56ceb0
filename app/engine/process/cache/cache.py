"""What the KV cache holds, told and changed by hand, between two steps of the scheduler.

Runs on the thread that owns the context; `interrupt` may be called on another one. What must hold:
telling costs a step less than a millisecond at 4,096 cells (3,800 cells: 0.2 ms with SmolLM2, 0.5
with Gemma 3 270M); a slot in which a reply is written is never changed; after a change the mirror
in `Cells` says what llama.cpp holds. Where a prefix is kept, longer parked copies of that chat go,
or its next turn would go on from them.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from app.engine.process.cache.cells import Cells, Traits, common_length
from app.engine.process.cache.keeping import Keeping
from app.engine.process.cache.kept_scores import KeptScores
from app.engine.process.cache.parking import Parked
from app.engine.process.cache.slot import Slot, SlotReply
from app.engine.process.cache.space import CellSpace
from app.engine.process.cache.step_meter import LEFT_OFF, MeasureStopped, StepMeter
from app.engine.process.native.weights import Weights
from app.engine.prompts.media import known_spans
from app.engine.protocol.cache_messages import (
    CacheCommand,
    CacheMap,
    CacheSlot,
    CellPart,
    CellRun,
    ChangeCache,
    LastTurn,
    MeasureStep,
    ParkedCopy,
    StepMeasured,
)
from app.engine.protocol.frames import Array
from app.engine.protocol.messages import Done, Event, Failed, Finished, Progress, Stopped
from app.engine.protocol.replay_messages import DrawsReplayed, ReplayDraws
from app.engine.protocol.saved_messages import (
    DropSaved,
    ForgetChats,
    SaveChats,
    SavedCommand,
    UseSaved,
)
from app.refusal import Refusal

TURNS: Final = 64
"""Conversations whose last turn is remembered."""

BUSY: Final = "A reply is being generated in this chat. Stop it or wait, then try again."
BUSY_ANYWHERE: Final = "A reply is being generated. Stop it or wait, then try again."
NOTHING_HERE: Final = "This chat isn't in the cache. Send a message first."
NO_CELLS: Final = (
    "This chat has no cells in the cache. It may be parked in host memory. Send a message, then "
    "try again."
)
GONE: Final = "That copy is no longer in host memory."
GONE_FROM_DISK: Final = "That copy is no longer on disk."
READ_ONLY: Final = "Saved chats can't be removed here: this window is read-only, or saving is off."
NOT_SAVED: Final = "Not everything could be saved."
SAVE_S: Final = 30.0
"""Saving by hand takes no longer."""
NO_ROOM: Final = (
    "This chat is too large to park. Increase the memory for parked chats and reload the model."
)
KEEP_ONE: Final = "Keep at least one position, or drop the chat."
ONE_STATE: Final = (
    "This model keeps a single state, so part of it can't be removed. Drop the chat instead."
)
WINDOW_PAST: Final = (
    "This model's sliding window has moved past that point. Keep a longer prefix or drop the chat."
)
WITH_PICTURES: Final = (
    "A step can't be measured here: this chat has pictures, which only replies can process."
)
TOO_SHORT: Final = "Too few tokens to measure. Send a message first."


class CacheControl:
    """The cells of one context as a person looks at them. `emit` gets progress."""

    def __init__(
        self,
        weights: Weights,
        slots: Sequence[Slot],
        space: CellSpace,
        keeping: Keeping,
        emit: Callable[[Event], None],
        clock: Callable[[], float] = time.perf_counter,
        is_open: Callable[[], bool] = lambda: False,
    ) -> None:
        """`is_open`: whether any request waits or is written."""
        self._weights = weights
        self._slots = slots
        self._space = space
        self._keeping = keeping
        self._emit = emit
        self._clock = clock
        self._is_open = is_open
        self._turns: OrderedDict[str, LastTurn] = OrderedDict()
        self._is_measuring = False
        self.kept_scores = KeptScores()

    def answer(
        self,
        command: CacheCommand,
        is_stopped: Callable[[], bool] = lambda: False,
        is_in_the_way: Callable[[], bool] = lambda: False,
    ) -> Finished | Stopped | Failed:
        """Do what was asked, and say how it ended. `is_in_the_way`: somebody waits for a reply."""
        try:
            if isinstance(command, ChangeCache):
                self._change(command)
                return Finished(command.id, Done())
            if isinstance(command, MeasureStep):
                return Finished(command.id, self._measure(command, is_stopped, is_in_the_way))
            if isinstance(command, ReplayDraws):
                return Finished(command.id, self._replay(command, is_stopped, is_in_the_way))
            if isinstance(command, SavedCommand):
                self._keep(command, lambda: not is_stopped() and not is_in_the_way())
                return Finished(command.id, Done())
            return Finished(command.id, self.read())
        except Refusal as refused:
            return Failed(command.id, refused.kind, refused.sentence, refused.evidence)
        except MeasureStopped:
            return Stopped(command.id, Done())

    # --- telling ----------------------------------------------------------------------------

    def read(self) -> CacheMap:
        parking = self._space.parking
        return CacheMap(
            n_ctx=self._weights.n_ctx,
            n_used=self._space.used,
            slots=[_told(slot) for slot in self._slots if len(slot.cells)],
            parked=[_told_copy(parked) for parked in parking],
            parked_bytes=parking.size_bytes,
            parked_cap_bytes=parking.cap_bytes,
            turns=[*self._turns.values(), *self._turns_now()],
            saved=self._keeping.states.listed(),
            saved_bytes=self._keeping.states.size_bytes,
            saved_cap_bytes=self._keeping.states.cap_bytes,
        )

    def remember(self, reply: SlotReply) -> None:
        """A reply has ended: what it read and wrote is its conversation's last turn."""
        turn = _turn_of(reply)
        self._turns[turn.conversation] = turn
        self._turns.move_to_end(turn.conversation)
        if len(self._turns) > TURNS:
            self._turns.popitem(last=False)

    def _turns_now(self) -> Iterator[LastTurn]:
        """Of replies that are being written; they come behind the ended ones and replace them."""
        return (_turn_of(slot.reply) for slot in self._slots if slot.reply is not None)

    # --- changing ---------------------------------------------------------------------------

    def _change(self, command: ChangeCache) -> None:
        """Raises Refusal, with nothing changed."""
        match command.act:
            case "clear":
                self._clear()
            case "park":
                self._park(command.conversation)
            case "drop" if command.copy:
                self._drop_copy(command.copy)
            case "drop":
                self._drop(command.conversation)
            case "keep_prefix":
                self._keep_prefix(command.conversation, command.keep)

    def _clear(self) -> None:
        if any(not slot.is_idle for slot in self._slots):
            raise Refusal("busy", BUSY_ANYWHERE)
        for slot in self._slots:
            slot.cells.clear()
        self._space.parking.clear()
        self._keeping.forget(only_usable=True)

    def _park(self, conversation: str) -> None:
        for slot in self._cells_of(conversation):
            if not self._space.move_out(slot):
                raise Refusal("out_of_memory", NO_ROOM)

    def _drop(self, conversation: str) -> None:
        slots = self._slots_of(conversation)
        copies = [p for p in self._space.parking if p.conversation == conversation]
        is_saved = self._keeping.forget(conversation=conversation)
        if not slots and not copies and not is_saved:
            raise Refusal("bad_setting", NOTHING_HERE)
        for slot in slots:
            slot.cells.clear()
        for parked in copies:
            self._space.parking.drop(parked)

    def _drop_copy(self, number: int) -> None:
        parked = next((p for p in self._space.parking if p.number == number), None)
        if parked is None:
            raise Refusal("bad_setting", GONE)
        self._space.parking.drop(parked)

    def _keep_prefix(self, conversation: str, keep: int) -> None:
        """Copies of the chat that hold more go too, or the next turn would go on from them."""
        if keep < 1:
            raise Refusal("bad_setting", KEEP_ONE)
        slots = [s for s in self._cells_of(conversation) if len(s.cells) > keep]
        for slot in slots:
            if slot.cells.usable(keep) is not None:
                is_state = slot.cells.traits.is_recurrent
                raise Refusal("unsupported", ONE_STATE if is_state else WINDOW_PAST)
        for slot in slots:
            for parked in list(self._space.parking):
                holds_more = common_length(parked.ids, slot.cells.ids) > keep
                if holds_more and parked.conversation == conversation:
                    self._space.parking.drop(parked)
            self._keeping.forget_longer(conversation, slot.cells.ids, keep)
            if not slot.cells.cut(keep):
                raise Refusal("unsupported", ONE_STATE)

    def _keep(self, command: SavedCommand, is_wanted: Callable[[], bool]) -> None:
        """Raises Refusal."""
        match command:
            case UseSaved():
                self._keeping.states.use(command.saved)
            case SaveChats():
                if not self._keeping.save_all(time.monotonic() + SAVE_S, is_wanted):
                    raise Refusal("busy", NOT_SAVED)
            case DropSaved():
                if not self._keeping.states.may_write:
                    raise Refusal("bad_setting", READ_ONLY)
                if not self._keeping.forget(number=command.number) and command.number:
                    raise Refusal("bad_setting", GONE_FROM_DISK)
            case ForgetChats():
                for conversation in command.conversations:
                    self._forget(conversation)

    def _forget(self, conversation: str) -> None:
        self._keeping.forget(conversation=conversation)
        for slot in self._slots:
            if slot.conversation == conversation:
                slot.is_stored = False
                if slot.is_idle:
                    slot.cells.clear()
        for parked in [p for p in self._space.parking if p.conversation == conversation]:
            self._space.parking.drop(parked)

    def _slots_of(self, conversation: str) -> list[Slot]:
        """Where a conversation has cells. Raises Refusal where a reply is written there."""
        slots = [s for s in self._slots if s.conversation == conversation and len(s.cells)]
        writing = [s for s in self._slots if s.conversation == conversation and not s.is_idle]
        if writing:
            raise Refusal("busy", BUSY)
        return slots

    def _cells_of(self, conversation: str) -> list[Slot]:
        slots = self._slots_of(conversation)
        if not slots:
            raise Refusal("bad_setting", NO_CELLS)
        return slots

    # --- measuring --------------------------------------------------------------------------

    def _measure(
        self,
        command: MeasureStep,
        is_stopped: Callable[[], bool],
        is_in_the_way: Callable[[], bool],
    ) -> StepMeasured:
        """Raises Refusal or MeasureStopped."""
        self._refuse_beside_replies()
        ids, adapters = self._ids_of(command.conversation)
        if len(ids) < 2:
            raise Refusal("bad_setting", TOO_SHORT)
        if min(ids) < -1:
            raise Refusal("bad_setting", WITH_PICTURES)

        def progress(done: int, total: int) -> None:
            self._emit(Progress(command.id, "measure", done, total))

        go_on = _go_on(is_stopped, is_in_the_way, LEFT_OFF)
        with self._beside():
            return StepMeter(self._weights, ids, go_on, progress, self._clock, adapters).measure()

    def _replay(
        self,
        command: ReplayDraws,
        is_stopped: Callable[[], bool],
        is_in_the_way: Callable[[], bool],
    ) -> DrawsReplayed:
        """As `_measure`."""
        from app.engine.process.cache.draw_replay import LEFT_OFF as REPLAY_LEFT_OFF, DrawReplay

        self._refuse_beside_replies()

        def progress(done: int, total: int) -> None:
            self._emit(Progress(command.id, "replay", done, total))

        go_on = _go_on(is_stopped, is_in_the_way, REPLAY_LEFT_OFF)
        with self._beside():
            cells = [slot.cells for slot in self._slots]
            traits = cells[0].traits if cells else Traits()
            return DrawReplay(
                self._weights, command, go_on, progress, self.kept_scores, cells, traits
            ).answer()

    def _refuse_beside_replies(self) -> None:
        """Nobody who waits for a reply waits for this as well."""
        if self._is_open():
            raise Refusal("busy", BUSY_ANYWHERE)

    @contextmanager
    def _beside(self) -> Iterator[None]:
        """While a context of its own decodes, `interrupt` may break that off."""
        self._is_measuring = True
        self._weights.abort.clear()
        try:
            yield
        finally:
            self._is_measuring = False
            self._weights.abort.clear()

    def _ids_of(self, conversation: str) -> tuple[list[int], str]:
        """And the key of the adapters that they were computed with."""
        held = [s.cells for s in self._slots if s.conversation == conversation]
        found = [(cells.ids, cells.adapters) for cells in held]
        parked = [p for p in self._space.parking if p.conversation == conversation]
        found += [(copy.ids.tolist(), copy.adapters) for copy in parked]
        return max(found, key=lambda each: len(each[0]), default=([], ""))

    def interrupt(self) -> None:
        """Have a measurement look whether it shall go on. For the thread that reads commands."""
        if self._is_measuring:
            self._weights.abort.set()


def _go_on(
    is_stopped: Callable[[], bool], is_in_the_way: Callable[[], bool], left_off: str
) -> Callable[[], None]:
    """Raises where what runs beside the scheduler shall end."""

    def go_on() -> None:
        if is_stopped():
            raise MeasureStopped
        if is_in_the_way():
            raise Refusal("busy", left_off)

    return go_on


def _turn_of(reply: SlotReply) -> LastTurn:
    generate = reply.request.generate
    return LastTurn(
        generate.conversation,
        reply.reused,
        reply.evaluated,
        len(reply.generated),
        reply.reuse_source,
        sum(shift.n_tokens for shift in reply.shifts),
        any(shift.was_read_again for shift in reply.shifts),
    )


def _told_copy(parked: Parked) -> ParkedCopy:
    return ParkedCopy(
        parked.number,
        parked.conversation,
        len(parked.ids),
        parked.size_bytes,
        parked.first_position,
        max(int(parked.parked_at), 0),
    )


def _told(slot: Slot) -> CacheSlot:
    cells = slot.cells
    return CacheSlot(
        sequence=cells.sequence,
        conversation=slot.conversation,
        is_busy=not slot.is_idle,
        first_position=max(cells.first_position(), 0),
        token_ids=Array.of("i4", cells.ids),
        runs=[CellRun(*run) for run in cells.runs],
        parts=list(_parts(slot, cells)),
        state_bytes=cells.state_bytes(),
        media=known_spans(cells.ids, slot.origins.media),
    )


def _parts(slot: Slot, cells: Cells) -> Iterator[CellPart]:
    """The prompt's parts as far as the cells reach, then what the reply has drawn."""
    n_cells, n_prompt = len(cells), min(slot.origins.n_prompt, len(cells))
    for part in slot.origins.parts:
        end = min(part.end, n_prompt)
        if part.start < end:
            is_begun = part.message_id is None and part.origin == "assistant"
            message_id = slot.origins.reply_id or None if is_begun else part.message_id
            yield CellPart(part.start, end, part.origin, message_id)
    if n_prompt < n_cells:
        yield CellPart(n_prompt, n_cells, "reply", slot.origins.reply_id or None)
