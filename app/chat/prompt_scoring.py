"""How surprising each token of a prompt was: read once more, beside the conversations.

The engine computes the scores of every prompt token only when it is asked to, since a whole pass
with all rows of scores costs far more than a reply's prompt, of which most is reused. So it is a
question of its own: the same IDs under a key of its own, one token drawn and thrown away, no
message. What must hold: it never makes a reply wait. It is refused while one is written, and
ends when one begins.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from app.chat.questions import Questions
from app.engine.protocol import Generate, Greedy, IdsPrompt, PromptScores, Sampling

CONVERSATION: Final = "surprise of a prompt"
"""The key of its cells: no conversation's."""

BUSY: Final = "A reply is being written. Ask again when it has ended."
ENDED_FOR_A_REPLY: Final = "Stopped, because a reply is being written. Ask again when it has ended."
ALREADY: Final = "Another prompt is being read for this. Stop it first."
TOO_SHORT: Final = "A prompt of one token has nothing before it to be surprising after."


class PromptScoring:
    """One prompt at a time. `is_writing`: whether any reply waits or grows."""

    def __init__(self, questions: Questions, is_writing: Callable[[], bool]) -> None:
        self._questions = questions
        self._is_writing = is_writing
        self._request_id: int | None = None
        self._take: Callable[[PromptScores], None] = lambda _event: None
        self._failed: Callable[[str], None] = lambda _sentence: None

    def ask(
        self,
        token_ids: Sequence[int],
        take: Callable[[PromptScores], None],
        then: Callable[[], None],
        failed: Callable[[str], None],
    ) -> None:
        """`take` gets the scores in chunks, then either `then` or `failed` is called, unless
        somebody says `stop`."""
        if len(token_ids) < 2:
            failed(TOO_SHORT)
        elif self._is_writing():
            failed(BUSY)
        elif self._request_id is not None:
            failed(ALREADY)
        else:
            self._take, self._failed = take, failed
            self._request_id = self._questions.ask(
                _request(token_ids), lambda _result: self._end(then), self._fail
            )

    def stop(self) -> None:
        """It is not wanted any more: nobody is called."""
        if self._request_id is not None:
            request_id, self._request_id = self._request_id, None
            self._questions.stop(request_id)

    def give_way(self) -> None:
        """A reply begins: it must not wait for this."""
        if self._request_id is not None:
            self.stop()
            self._failed(ENDED_FOR_A_REPLY)

    def take(self, event: PromptScores) -> None:
        if event.id == self._request_id:
            self._take(event)

    def _end(self, then: Callable[[], None]) -> None:
        self._request_id = None
        then()

    def _fail(self, sentence: str) -> None:
        self._request_id = None
        self._failed(sentence)


def _request(token_ids: Sequence[int]) -> Generate:
    return Generate(
        id=0,
        prompt=IdsPrompt(list(token_ids)),
        sampling=Sampling(filters=[], select=Greedy(), seed=0),
        max_tokens=1,
        conversation=CONVERSATION,
        alternatives=0,
        score_prompt=True,
    )
