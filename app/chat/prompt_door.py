"""The part of the desk that shows prompts: what the engine was given, and how surprising it was.

It only delegates; `app.chat.desk` tells what holds for every method.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from app.chat.inspection.prompt_reading import PromptOf, PromptReading
from app.chat.inspection.prompt_scoring import PromptScoring
from app.engine.protocol.messages import PromptScores


class PromptDoor:
    """Mixed into `Desk`, which makes what is declared here."""

    _reading: PromptReading
    _scoring: PromptScoring

    def read_prompt(self, message_id: str, then: Callable[[PromptOf], None]) -> None:
        """What the engine was given for a reply of the open chat."""
        self._reading.read(message_id, then)

    def read_next_prompt(self, then: Callable[[PromptOf], None]) -> None:
        """What it would be given for what stands in the composer, or before the caret."""
        self._reading.read_next(then)

    def score_prompt(
        self,
        token_ids: Sequence[int],
        take: Callable[[PromptScores], None],
        then: Callable[[], None],
        failed: Callable[[str], None],
    ) -> None:
        """Read a prompt once more to learn how surprising each of its tokens is: `take` gets the
        scores in chunks, then either `then` or `failed` (with a sentence) is called."""
        self._scoring.ask(token_ids, take, then, failed)

    def stop_scoring(self) -> None:
        """That is not wanted any more: nobody is called."""
        self._scoring.stop()
