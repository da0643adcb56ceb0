"""One token of a reply under a chain that is being changed (`app/insight/sampling/live.py`).

    record ──▶ the answer, or as much of it as follows ──not all──▶ the engine replays the position

Along a reply, for a selecting stage that remembers its draws, the record is read on a thread. What
must hold: a newer question ends an older one; the engine is asked only about a prompt that is known
to be what the reply was made with.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final

from app.chat.inspection.prompt_reading import PromptOf, PromptReading
from app.chat.inspection.questions import Newest, Questions
from app.chat.inspection.what_if import WITH_CUTS, Question, banned_at, why_not_replayed
from app.chat.replies.cut_versions import CUTS
from app.chat.surroundings import Surroundings
from app.engine.protocol.replay_messages import DrawsReplayed
from app.engine.protocol.stages import Greedy, Xtc
from app.insight.sampling.dice import Dice, Numbers
from app.insight.sampling.live import Live, live_along, replayed
from app.insight.sampling.pool import CannotTell
from app.insight.sampling.selecting import remembers

BANNED_UNKNOWN: Final = (
    "A banned string kept tokens out of this draw, and not all of them were recorded."
)
OF_ANOTHER: Final = (
    "This token was drawn for the version that this one was branched from. Choose a later one."
)

Then = Callable[[Live], None]
Failed = Callable[[str], None]


class LiveDraws:
    """`ask` never waits. `then` may be called twice: with what the record says, and with what the
    engine adds to that."""

    def __init__(self, around: Surroundings, questions: Questions, reading: PromptReading) -> None:
        self._around = around
        self._questions = questions
        self._reading = reading
        self._newest = Newest(questions)

    def walk(self, question: Question, index: int, then: Then, failed: Failed) -> None:
        """What the record says of a token, with all draws before it; `failed` why it says
        nothing."""
        still = self._newest.begin()

        def look() -> None:
            try:
                found = live_along(question.traces, index, question.draw_settings)
            except CannotTell as reason:
                sentence = reason.sentence
                self._around.hand_over(lambda: failed(sentence), still)
            else:
                self._around.hand_over(lambda: then(found), still)

        threading.Thread(target=look, name="live-draw", daemon=True).start()

    def replay(
        self,
        question: Question,
        index: int,
        then: Then,
        failed: Failed,
        progress: Callable[[int, int], None] = lambda done, total: None,
    ) -> None:
        """What the engine says of it, with all candidates; `failed` gets a sentence."""
        still = self._newest.begin()
        if refusal := _refusal(question, index):
            failed(refusal)
            return
        walks = remembers(question.sampling.select)
        indices = list(range(question.n_head, index + 1)) if walks else [index]

        def read(prompt: PromptOf) -> None:
            if (refusal := why_not_replayed(prompt)) or prompt.tokens is None:
                failed(refusal)
                return
            command = question.command(indices, prompt.tokens.ids, explain=True)
            self._newest.request_id = self._questions.ask(
                command, DrawsReplayed, take, failed, still=still, progress=progress
            )

        def take(found: DrawsReplayed) -> None:
            draw = found.draws[-1] if found.draws else None
            if draw is None or found.explained is None:
                failed(draw.reason if draw is not None else "")
                return
            then(replayed(question.traces[index], found.explained, draw, _numbers(question, index)))

        self._reading.read(question.message.id, read, still=still)

    def stop(self) -> None:
        """No answer is wanted any more: nobody is called."""
        self._newest.begin()


def _refusal(question: Question, index: int) -> str:
    if CUTS in question.message.settings:
        return WITH_CUTS
    if index < question.n_head:
        return OF_ANOTHER
    return "" if banned_at(question.traces[index], question.n_vocab)[1] else BANNED_UNKNOWN


def _numbers(question: Question, index: int) -> Numbers:
    if isinstance(question.sampling.select, Greedy):
        return Numbers()
    n_xtc = sum(isinstance(stage, Xtc) for stage in question.stages)
    return Dice(question.message.seed, question.n_head).of(question.traces[index], index, n_xtc)
