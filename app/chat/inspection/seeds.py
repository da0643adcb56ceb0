"""One prompt, many seeds: how often each token comes where replies to it first differ.

Each seed is a request of its own, up to `AT_ONCE` of them in the engine together, so the prompt is
read once and forked. No messages come of it: what is drawn is counted and thrown away. What must
hold: a reply that begins does not wait for them (they stop, and go on with the same seeds when it
has ended); one that fails ends no other; nothing of it stays in the cache.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

import msgspec

from app.chat.conversations.shelf import Shelf
from app.chat.events import SeedsCounted
from app.chat.inspection.questions import ENDED, Questions
from app.chat.replies.growing import Growing
from app.chat.replies.reply import NOTHING
from app.chat.replies.reply_request import reply_request
from app.chat.settings.levels import resolved_for
from app.chat.settings.settings import MAX_SEED
from app.chat.surroundings import ALWAYS, Surroundings
from app.chat.weights.loading import Loader
from app.engine.protocol.cache_messages import ChangeCache
from app.engine.protocol.messages import Done, Generate, Summary, TextTakenBack, TokenArrived
from app.insight.sampling.outcomes import Outcomes, Run, outcomes, step_of
from models.records import ConversationKind, Message, Role

CONVERSATION: Final = "one prompt with many seeds"
"""The key of its cells: no conversation's."""

AT_ONCE: Final = 8
COUNTS: Final = (8, 16, 32, 64)
LENGTHS: Final = (8, 16, 32, 64)
ALTERNATIVES: Final = 16
TELL_S: Final = 0.2
AFTER_FAILURE_S: Final = 0.3
"""By then it is known whether the engine is gone; asked again at once, it would load anew."""

NO_MESSAGE: Final = "Choose a message or a reply first."
NOT_HERE: Final = "This works in chats, not in text documents."
BUSY: Final = "A reply is being generated. Try again when it is finished."
PAUSED: Final = "Paused while a reply is generated."


@dataclass(slots=True)
class _Counting:
    """A run of seeds. `left` are those that have not ended; `open_runs`: what each open request
    draws; `parent_id`: the message that is answered."""

    parent_id: str
    request: Generate | None
    wanted: int
    left: deque[int]
    runs: list[Run] = field(default_factory=list)
    open_runs: dict[int, Run] = field(default_factory=dict)
    is_paused: bool = False
    is_over: bool = False
    sentence: str = ""


class SeedRuns:
    """One run at a time; SeedsCounted follows it. What it has counted stays until the next one."""

    def __init__(
        self,
        around: Surroundings,
        shelf: Shelf,
        loader: Loader,
        questions: Questions,
        growing: Growing,
    ) -> None:
        self._around = around
        self._shelf = shelf
        self._loader = loader
        self._questions = questions
        self._growing = growing
        self._now: _Counting | None = None

    # --- what there is --------------------------------------------------------------------------

    @property
    def is_running(self) -> bool:
        return self._now is not None and not self._now.is_over

    @property
    def n_over(self) -> int:
        """Seeds whose reply has ended."""
        return sum(run.is_over for run in self._now.runs) if self._now is not None else 0

    @property
    def n_wanted(self) -> int:
        return self._now.wanted if self._now is not None else 0

    @property
    def sentence(self) -> str:
        """What went wrong, or what it waits for."""
        now = self._now
        if now is None:
            return ""
        return PAUSED if now.is_paused and not now.is_over else now.sentence

    def is_of(self, message_id: str) -> bool:
        """Whether it is about this message, or about what this reply answers."""
        message = self._shelf.message(message_id)
        return (
            self._now is not None
            and message is not None
            and self._now.parent_id == _answered_id(message)
        )

    def outcomes(self, prefix: Sequence[int] = ()) -> Outcomes | None:
        loaded = self._loader.last_loaded
        end_ids = loaded.eog_ids if loaded is not None else ()
        return outcomes(self._now.runs, prefix, end_ids) if self._now is not None else None

    # --- acts -----------------------------------------------------------------------------------

    def start(self, message_id: str, n_seeds: int, max_tokens: int) -> str:
        """Answer a message, or what a reply answers, with so many seeds. A sentence why not, or
        nothing."""
        message = self._shelf.message(message_id)
        if message is None:
            return NO_MESSAGE
        if self._growing.is_any:
            return BUSY
        if (remote := self._loader.remote) is not None:
            # What is counted are tokens by their IDs, drawn from seeds that are known.
            whys = (remote.why_not(each) for each in ("token_ids", "logprobs", "seed"))
            if why := next(filter(None, whys), ""):
                return why
        self.stop()
        path = self._shelf.path_to(_answered_id(message))
        conversation = self._shelf.conversation(message.conversation_id)
        if not path or conversation is None:
            return NO_MESSAGE
        if conversation.kind is not ConversationKind.CHAT:
            return NOT_HERE
        seeds = deque(random.sample(range(MAX_SEED), n_seeds))
        self._now = now = _Counting(path[-1].id, None, n_seeds, seeds)

        def begin(whole: tuple[Message, ...]) -> None:
            resolved = resolved_for(self._around, self._loader, conversation)
            request = reply_request(
                conversation,
                whole,
                resolved.settings,
                self._loader.weights_hash,
                NOTHING,
                None,
                self._loader.loaded,
                self._shelf.files,
            )
            now.request = msgspec.structs.replace(
                request,
                max_tokens=max_tokens,
                conversation=CONVERSATION,
                reply_id="",
                alternatives=ALTERNATIVES,
                record_stages=True,
                hold=False,
                repeatable=False,
                score_prompt=False,
            )
            self._fill(now)

        self._shelf.with_whole(
            path, begin, partial(self._give_up, now), still=lambda: self._now is now
        )
        self._tell()
        return ""

    def stop(self) -> None:
        """What has been drawn so far stays counted."""
        now = self._now
        if now is not None and not now.is_over:
            now.is_over = True
            now.left.clear()
            for request_id in list(now.open_runs):
                self._questions.break_off(request_id)
            self._tell()

    def give_way(self) -> None:
        """A reply begins: those that are open stop, and are drawn anew afterwards."""
        now = self._now
        if now is None or now.is_over or now.is_paused:
            return
        now.is_paused = True
        for request_id, run in list(now.open_runs.items()):
            now.left.appendleft(run.seed)
            now.runs.remove(run)
            del now.open_runs[request_id]
            self._questions.break_off(request_id)
        self._tell()

    def go_on(self) -> None:
        """No reply is written any more."""
        now = self._now
        if now is not None and now.is_paused and not self._growing.is_any:
            now.is_paused = False
            self._fill(now)

    # --- the engine -----------------------------------------------------------------------------

    def _fill(self, now: _Counting) -> None:
        loaded = self._loader.loaded
        if loaded is None or self._loader.is_loading:  # none of the rest would come
            now.left.clear()
        most = min(AT_ONCE, loaded.n_slots) if loaded is not None else 1
        while now.left and len(now.open_runs) < most and self._may_ask(now):
            self._ask(now, now.left.popleft())
        if not now.left and not now.open_runs and not now.is_over:
            now.is_over = True
        if now.is_over and not now.open_runs:
            drop = ChangeCache(0, "drop", CONVERSATION)
            self._questions.ask(drop, Done, lambda _d: None, lambda _s: None, still=ALWAYS)
        self._tell_soon()

    def _may_ask(self, now: _Counting) -> bool:
        return not (now.is_over or now.is_paused or self._now is not now)

    def _ask(self, now: _Counting, seed: int) -> None:
        assert now.request is not None
        sampling = msgspec.structs.replace(now.request.sampling, seed=seed)
        request = msgspec.structs.replace(now.request, sampling=sampling)
        run = Run(seed)
        now.runs.append(run)
        request_id = self._questions.ask(
            request,
            Summary,
            lambda summary: self._on_ended(now, run, summary),
            lambda sentence: self._on_failed(now, run, sentence),
            still=ALWAYS,
        )
        if request_id is not None:
            now.open_runs[request_id] = run

    def take(self, event: object) -> bool:
        """A token of one of them. False: of somebody else."""
        now = self._now
        if now is None or not isinstance(event, TokenArrived | TextTakenBack):
            return False
        run = now.open_runs.get(event.id)
        if run is None:
            return False
        if isinstance(event, TextTakenBack):
            del run.steps[max(len(run.steps) - event.n_tokens, 0) :]
        else:
            run.steps.append(step_of(event.token))
        self._tell_soon()
        return True

    def _on_ended(self, now: _Counting, run: Run, summary: Summary) -> None:
        run.is_over = True
        run.has_ended = summary.stop_reason in ("end_token", "turn_end")
        self._close(now, run)

    def _on_failed(self, now: _Counting, run: Run, sentence: str) -> None:
        """It counts as far as it came, unless it was stopped to give way; the others go on."""
        if run in now.runs:
            run.is_over = True
            if not run.steps:  # nothing to be counted
                now.runs.remove(run)
        is_stopped = sentence == ENDED
        now.sentence = now.sentence if is_stopped else sentence
        self._close(now, run, after_s=0.0 if is_stopped else AFTER_FAILURE_S)

    def _close(self, now: _Counting, run: Run, after_s: float = 0.0) -> None:
        now.open_runs = {i: one for i, one in now.open_runs.items() if one is not run}
        if after_s:
            self._around.alarms.set("seeds go on", after_s, lambda: self._fill(now))
        else:
            self._fill(now)

    def _give_up(self, now: _Counting, sentence: str) -> None:
        now.is_over, now.sentence = True, sentence
        self._tell()

    def _tell_soon(self) -> None:
        if self.is_running:
            self._around.alarms.set_once("seeds", TELL_S, self._tell)
        else:
            self._tell()

    def _tell(self) -> None:
        self._around.emit(SeedsCounted(self.n_over, self.n_wanted, is_over=not self.is_running))


def _answered_id(message: Message) -> str | None:
    return message.parent_id if message.role is Role.ASSISTANT else message.id
