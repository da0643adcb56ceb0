"""What if: which token of a reply would have been another one first, with other settings.

First the record is asked, on a thread: the 64 best candidates of each token and the number that
drew it. Where that is not enough, the engine may be asked about those positions; about all of them
where the selecting stage remembers its draws. `live_draw.py` asks about one token. What must hold:
an answer is about the reply as it was when it was asked for; a newer question ends an older one;
the engine is asked only about a prompt that is known to be what the reply was made with.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

import msgspec

from app.chat.inspection.prompt_reading import STORED_ALONE, PromptOf, PromptReading
from app.chat.inspection.questions import Newest, Questions
from app.chat.replies.adapters import adapters_of
from app.chat.replies.cut_versions import CUTS
from app.chat.surroundings import Surroundings
from app.engine.protocol.messages import TokenTrace
from app.engine.protocol.pieces import unpack
from app.engine.protocol.replay_messages import (
    MAX_ASKED,
    MAX_WALKED,
    AskedDraw,
    DrawsReplayed,
    ReplayDraws,
    ReplayedDraw,
)
from app.engine.protocol.stages import Sampling, Stage, Xtc
from app.insight.sampling.dice import Dice
from app.insight.sampling.selecting import remembers
from app.insight.sampling.what_if import Change, DrawSettings, Unsure, WhatIf, what_if
from app.insight.trace.message_tokens import n_taken_over
from app.insight.trace.table import TraceTable
from models.records import Message

WITH_CUTS: Final = "The engine can't replay a reply that was written with parts of the model cut."
OTHER_PROMPT: Final = "The engine can't replay this: the exact prompt of this reply is unknown. "
OTHER_WEIGHTS: Final = "Load the model that wrote this reply to replay it."


def why_not_replayed(prompt: PromptOf) -> str:
    """Empty where the prompt is known to be what the reply was made with."""
    if prompt.lacks_weights:
        return OTHER_WEIGHTS
    if prompt.tokens is None or not prompt.is_given:
        return OTHER_PROMPT + prompt.sentence.removeprefix(STORED_ALONE).strip()
    return ""


@dataclass(frozen=True, slots=True)
class Question:
    """`stages`: what to draw with instead, the selecting one last. `traces` are kept as they are
    now: a reply that grows adds to its table, and may take tokens back. `is_bound`: by the grammar
    that the reply was bound by."""

    message: Message
    traces: Sequence[TokenTrace]
    stages: tuple[Stage, ...]
    n_vocab: int
    is_bound: bool = True

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
        if not self.is_bound:
            beside = msgspec.structs.replace(beside, grammar="", json_schema="")
        filters, select = list(self.stages[:-1]), self.stages[-1]
        return msgspec.structs.replace(beside, filters=filters, select=select, seed=None)

    @property
    def draw_settings(self) -> DrawSettings:
        """The same for what was recorded."""
        sampling = self.sampling
        return DrawSettings(
            sampling.filters,
            sampling.select,
            self.n_vocab,
            is_bound=bool(sampling.grammar or sampling.json_schema),
            first=self.n_head,
            seed=self.message.seed,
        )

    def asked(self, indices: Sequence[int], n_prompt: int) -> list[AskedDraw]:
        """What the engine is asked about these tokens. `n_prompt`: how many the prompt has."""
        dice = Dice(self.message.seed, self.n_head)
        n_xtc = sum(isinstance(stage, Xtc) for stage in self.stages)
        found = []
        for index in indices:
            token = self.traces[index]
            numbers = dice.of(token, index, n_xtc)
            found.append(
                AskedDraw(
                    n_prompt + index - self.n_head,
                    numbers.uniform,
                    list(numbers.deciding),
                    numbers.again,
                    list(numbers.deciding_again),
                    banned_at(token, self.n_vocab)[0],
                )
            )
        return found

    def command(
        self, indices: Sequence[int], prompt_ids: Sequence[int], **how: bool
    ) -> ReplayDraws:
        """Asks the engine about these tokens, and what it needs for that."""
        n_head, last = self.n_head, indices[-1]
        written = [self.traces[at].token_id for at in range(n_head, last + 1)]
        n_prompt = len(prompt_ids) - _n_begun(self)
        asked = self.asked(indices, len(prompt_ids))
        adapters = adapters_of(self.message.settings)
        return ReplayDraws(
            0, [*prompt_ids, *written], n_prompt, self.sampling, asked, adapters=adapters, **how
        )


def banned_at(token: TokenTrace, n_vocab: int) -> tuple[list[int], bool]:
    """What a banned string kept out of a draw, and whether that is all of it: of those that were
    not recorded only the number is known."""
    before = n_vocab
    for at, effect in enumerate(token.stages):
        if effect.stage == "banned-strings":
            ends = token.removed_by.data if token.removed_by is not None else b""
            ids = unpack(token.alternative_ids)
            banned = [ids[place] for place, end in enumerate(ends) if end == at]
            return banned, len(banned) == before - effect.left
        before = effect.left
    return [], True


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
            if (refusal := why_not_replayed(prompt)) or prompt.tokens is None:
                failed(refusal)
                return
            indices = _indices(question, found)
            if not indices:
                then(found)
                return
            walks = remembers(question.sampling.select)
            command = question.command(indices, prompt.tokens.ids, until_change=walks)
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
    return what_if(question.traces, question.draw_settings, is_unwanted)


# --- what the engine is asked -------------------------------------------------------------------


def _indices(question: Question, found: WhatIf) -> list[int]:
    """The tokens that the engine is asked about at once: the first unsure ones. A selecting stage
    that remembers has to draw them all."""
    unsure = [each.index for each in _askable(question, found)]
    if unsure and remembers(question.sampling.select):
        return list(range(question.n_head, unsure[-1] + 1))[:MAX_WALKED]
    return unsure


def can_ask_engine(question: Question, found: WhatIf) -> bool:
    """Whether the engine could say more."""
    return bool(_askable(question, found))


def _askable(question: Question, found: WhatIf) -> list[Unsure]:
    """What the engine can tell of."""
    dice = Dice(question.message.seed, question.n_head)

    def has_numbers(index: int) -> bool:
        token = question.traces[index]
        if not banned_at(token, question.n_vocab)[1]:
            return False
        is_second = any(effect.stage == "grammar" for effect in token.stages)
        return not is_second or dice.of(token, index).again is not None

    some = (u for u in found.unsure if not u.is_asked and has_numbers(u.index))
    if remembers(question.sampling.select):
        return list(some)
    return list(islice(some, MAX_ASKED))


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
    answers = dict(zip(_indices(question, found), draws, strict=False))
    unsure: list[Unsure] = []
    n_replayed = found.replayed + len(draws)
    left_unsure = {each.index: each for each in found.unsure}
    for index in sorted({*answers, *left_unsure}):
        draw = answers.get(index)
        if draw is None:
            unsure.append(left_unsure[index])
        elif draw.token_id < 0:
            if not question.traces[index].chosen:
                unsure.append(Unsure(index, draw.reason, is_asked=True))
        elif draw.token_id != question.traces[index].token_id:
            if question.traces[index].chosen:
                continue
            change = Change(index, draw.token_id, is_replayed=True)
            return WhatIf(change, tuple(unsure), found.looked_at, n_replayed)
    return WhatIf(found.first, tuple(unsure), found.looked_at, n_replayed)
