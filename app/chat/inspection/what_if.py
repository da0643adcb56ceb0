"""What if: which token of a reply would have been another one first, with other settings.

First the record is asked, on a thread: the 64 best candidates of each token and the number that
drew it. Where that is not enough, the engine may be asked about those positions. What must hold:
an answer is about the reply as it was when it was asked for; a newer question ends an older one;
the engine is asked only about a prompt that is known to be what the reply was made with.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from app.chat.inspection.prompt_reading import PromptOf, PromptReading
from app.chat.inspection.questions import Newest, Questions
from app.chat.replies.cut_versions import CUTS
from app.chat.surroundings import Surroundings
from app.engine.protocol.messages import TokenTrace
from app.engine.protocol.replay_messages import (
    MAX_ASKED,
    AskedDraw,
    DrawsReplayed,
    ReplayDraws,
    ReplayedDraw,
)
from app.engine.protocol.stages import Sampling, Stage
from app.insight.sampling.what_if import Change, DrawSettings, Unsure, WhatIf, what_if
from app.insight.trace.message_tokens import n_taken_over
from app.insight.trace.table import TraceTable
from models.records import Message

WITH_CUTS: Final = "The engine can't replay a reply that was written with parts of the model cut."
OTHER_PROMPT: Final = "The engine can't replay this: the exact prompt of this reply is unknown. "
_TOLD_BY_NOBODY: Final = frozenset(("grammar", "banned-strings"))
"""Where one of them decided, what else it forbade was not recorded."""


@dataclass(frozen=True, slots=True)
class Question:
    """`stages`: what to draw with instead, the selecting one last. `traces` are kept as they are
    now: a reply that grows adds to its table, and may take tokens back."""

    message: Message
    traces: Sequence[TokenTrace]
    stages: tuple[Stage, ...]
    n_vocab: int

    def __post_init__(self) -> None:
        if isinstance(self.traces, TraceTable):
            object.__setattr__(self, "traces", self.traces.head(len(self.traces)))

    @property
    def n_head(self) -> int:
        """How many of the first tokens another version drew, from which this one was branched."""
        return n_taken_over(self.message)

    @property
    def sampling(self) -> Sampling:
        """The chain, with what bound the reply beside it."""
        recorded = self.message.settings.get("sampling")
        bound: dict[str, Any] = {}
        if isinstance(recorded, Mapping):
            bound = {k: v for k, v in recorded.items() if k in _BINDING}
        try:
            beside = msgspec.convert(bound, Sampling)
        except msgspec.ValidationError:
            beside = Sampling()
        filters, select = list(self.stages[:-1]), self.stages[-1]
        return msgspec.structs.replace(beside, filters=filters, select=select, seed=None)


_BINDING: Final = ("grammar", "json_schema", "min_tokens", "ban_end_token")


class WhatIfs:
    """`ask` never waits. Every question is answered once, unless a newer one or `stop` ends it."""

    def __init__(
        self,
        around: Surroundings,
        questions: Questions,
        reading: PromptReading,
    ) -> None:
        self._around = around
        self._questions = questions
        self._reading = reading
        self._newest = Newest(questions)

    def ask(self, question: Question, then: Callable[[WhatIf], None]) -> None:
        """Which token would have been another one first, as far as the record says it."""
        still = self._newest.begin()

        def look() -> None:
            found = _from_record(question, lambda: not still())
            self._around.hand_over(lambda: then(found), still)

        threading.Thread(target=look, name="what-if", daemon=True).start()

    def ask_engine(
        self,
        question: Question,
        found: WhatIf,
        then: Callable[[WhatIf], None],
        failed: Callable[[str], None],
    ) -> None:
        """The same, where the engine draws again what the record left unsure. `then` or `failed`
        (with a sentence) is called once."""
        still = self._newest.begin()
        if CUTS in question.message.settings:
            failed(WITH_CUTS)
            return

        def read(prompt: PromptOf) -> None:
            if prompt.tokens is None or not prompt.is_given:
                failed(OTHER_PROMPT + prompt.sentence)
                return
            command = _command(question, found, prompt.tokens.ids)
            if command is None:
                then(found)
                return
            self._newest.request_id = self._questions.ask(
                command, DrawsReplayed, take, failed, still=still
            )

        def take(replayed: DrawsReplayed) -> None:
            then(_with_engine(question, found, replayed.draws))

        self._reading.read(question.message.id, read, still=still)

    def stop(self) -> None:
        """No answer is wanted any more: nobody is called."""
        self._newest.begin()


def _from_record(question: Question, is_unwanted: Callable[[], bool]) -> WhatIf:
    sampling = question.sampling
    return what_if(
        question.traces,
        DrawSettings(
            sampling.filters,
            sampling.select,
            question.n_vocab,
            is_bound=bool(sampling.grammar or sampling.json_schema),
            first=question.n_head,
        ),
        is_unwanted,
    )


# --- what the engine is asked -------------------------------------------------------------------


def _command(question: Question, found: WhatIf, prompt_ids: Sequence[int]) -> ReplayDraws | None:
    """The first unsure positions; None: none can be asked about."""
    traces, n_head = question.traces, question.n_head
    asked = [
        AskedDraw(
            len(prompt_ids) + each.index - n_head,
            traces[each.index].uniform,
            [e.uniform for e in traces[each.index].stages if e.stage == "xtc"],
        )
        for each in _askable(question, found)
    ]
    if not asked:
        return None
    last = asked[-1].position - len(prompt_ids) + n_head
    written = [traces[at].token_id for at in range(n_head, last)]
    return ReplayDraws(
        0, [*prompt_ids, *written], len(prompt_ids) - _n_begun(question), question.sampling, asked
    )


def can_ask_engine(question: Question, found: WhatIf) -> bool:
    """Whether the engine could say more."""
    return bool(_askable(question, found))


def _askable(question: Question, found: WhatIf) -> list[Unsure]:
    """What the engine can be asked about at once."""
    return [
        each
        for each in found.unsure
        if not each.is_asked
        and not any(e.stage in _TOLD_BY_NOBODY for e in question.traces[each.index].stages)
    ][:MAX_ASKED]


def _n_begun(question: Question) -> int:
    """How many of the prompt's last tokens are the reply's first ones: of a branch. What a reply
    that was continued begins with is prompt to the engine."""
    given = question.message.settings.get("given")
    if not isinstance(given, Mapping) or not isinstance(given.get("chosen"), list):
        return 0
    count = given.get("tokens")
    return count if isinstance(count, int) else 0


def _with_engine(question: Question, found: WhatIf, draws: Sequence[ReplayedDraw]) -> WhatIf:
    """What the record left unsure, as far as the engine has answered: up to the first change."""
    answers = {
        each.index: draw for each, draw in zip(_askable(question, found), draws, strict=False)
    }
    unsure: list[Unsure] = []
    n_replayed = found.replayed + len(draws)
    for each in found.unsure:
        draw = answers.get(each.index)
        if draw is None:
            unsure.append(each)
        elif draw.token_id < 0:
            unsure.append(Unsure(each.index, draw.reason, is_asked=True))
        elif draw.token_id != question.traces[each.index].token_id:
            change = Change(each.index, draw.token_id, is_replayed=True)
            return WhatIf(change, tuple(unsure), found.looked_at, n_replayed)
    return WhatIf(found.first, tuple(unsure), found.looked_at, n_replayed)
