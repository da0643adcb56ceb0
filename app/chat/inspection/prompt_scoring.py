"""How surprising each token of a prompt was: read once more, beside the conversations.

The engine computes the scores of every prompt token only when it is asked to, since a whole pass
with all rows of scores costs far more than a reply's prompt, of which most is reused. So it is a
question of its own: the same IDs under a key of its own, one token drawn and thrown away, no
message. What must hold: it never makes a reply wait. It is refused while one is written, and
ends when one begins; and it leaves nothing in the cache.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from app.chat.inspection.questions import Questions
from app.chat.replies.growing import Growing
from app.chat.surroundings import ALWAYS
from app.engine.protocol.adapter_messages import Adapters
from app.engine.protocol.cache_messages import ChangeCache
from app.engine.protocol.messages import Done, Generate, PromptScores, Summary
from app.engine.protocol.prompt_messages import IdsPrompt
from app.engine.protocol.stages import Greedy, Sampling

CONVERSATION: Final = "surprise of a prompt"
"""The key of its cells: no conversation's."""

BUSY: Final = "A reply is being generated. Try again when it is finished."
ENDED_FOR_A_REPLY: Final = (
    "Stopped because a reply is being generated. Try again when it is finished."
)
ALREADY: Final = "Another prompt is being processed. Stop it first."
TOO_SHORT: Final = "A prompt of one token has no surprise: nothing comes before it."


@dataclass(slots=True)
class _Reading:
    """A prompt that is being read. `is_wanted`: whoever asked still waits for it."""

    take: Callable[[PromptScores], None]
    then: Callable[[], None]
    failed: Callable[[str], None]
    request_id: int | None = None
    is_wanted: bool = True


class PromptScoring:
    """One prompt at a time."""

    def __init__(self, questions: Questions, growing: Growing) -> None:
        self._questions = questions
        self._growing = growing
        self._now: _Reading | None = None

    def ask(
        self,
        token_ids: Sequence[int],
        take: Callable[[PromptScores], None],
        then: Callable[[], None],
        failed: Callable[[str], None],
        adapters: Adapters | None = None,
    ) -> None:
        """Read a prompt once more, with the adapters of its reply, to learn how surprising each of
        its tokens is: `take` gets the scores in chunks, then either `then` or `failed` is called,
        unless somebody says `stop`."""
        if len(token_ids) < 2:
            failed(TOO_SHORT)
        elif self._growing.is_any:
            failed(BUSY)
        elif self._now is not None:
            failed(ALREADY)
        else:
            self._now = reading = _Reading(take, then, failed)
            reading.request_id = self._questions.ask(
                _request(token_ids, adapters),
                Summary,
                lambda _summary: self._end(reading, None),
                lambda sentence: self._end(reading, sentence),
                still=ALWAYS,  # what it left in the cache goes, also where nobody waits any more
            )

    def stop(self) -> None:
        """It is not wanted any more: nobody is called."""
        reading, self._now = self._now, None
        if reading is not None:
            reading.is_wanted = False
            if reading.request_id is not None:
                self._questions.break_off(reading.request_id)

    def give_way(self) -> None:
        """A reply begins: it must not wait for this."""
        reading = self._now
        if reading is not None:
            self.stop()
            reading.failed(ENDED_FOR_A_REPLY)

    def take(self, event: PromptScores) -> None:
        if self._now is not None and event.id == self._now.request_id:
            self._now.take(event)

    def _end(self, reading: _Reading, sentence: str | None) -> None:
        """It has ended: what it left in the KV cache is of no use to anybody."""
        if self._now is reading:
            self._now = None
        if reading.request_id is not None:
            drop = ChangeCache(0, "drop", CONVERSATION)
            self._questions.ask(
                drop, Done, lambda _done: None, lambda _sentence: None, still=ALWAYS
            )
        if reading.is_wanted and sentence is None:
            reading.then()
        elif reading.is_wanted and sentence is not None:
            reading.failed(sentence)


def _request(token_ids: Sequence[int], adapters: Adapters | None) -> Generate:
    return Generate(
        id=0,
        prompt=IdsPrompt(list(token_ids)),
        sampling=Sampling(filters=[], select=Greedy(), seed=0),
        max_tokens=1,
        conversation=CONVERSATION,
        alternatives=0,
        score_prompt=True,
        adapters=adapters,
    )
