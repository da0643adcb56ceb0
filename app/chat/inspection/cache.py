"""The KV cache of the loaded weights, for whoever looks at it: read, changed by hand, timed.

Nothing here belongs to a conversation; what the engine says of its cells is passed on as it is.
What must hold: one measurement at a time, and it never outlives the wish for it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from app.chat.conversations.shelf import Shelf
from app.chat.inspection.prompt_scoring import CONVERSATION as SCORED
from app.chat.inspection.questions import Questions
from app.chat.inspection.seeds import CONVERSATION as SEEDS
from app.chat.surroundings import ALWAYS, Still, Surroundings
from app.engine.protocol.cache_messages import (
    CacheMap,
    ChangeCache,
    MeasureStep,
    ReadCache,
    StepMeasured,
)
from app.engine.protocol.messages import Done
from app.engine.protocol.saved_messages import DropSaved

ELSEWHERE: Final = "another chat"
"""A conversation that is in no list: a temporary one, or one that is in the trash."""

FOR_SEEDS: Final = "one prompt with many seeds"
FOR_SURPRISE: Final = "a prompt, processed for its surprise"

FORGET_S: Final = 0.3
FORGET_TRIES: Final = 5

ALREADY: Final = "A measurement is already running."


class CacheLook:
    """Questions about the cache. `then` or `failed` (with a sentence) is called once. `client_of`:
    whose chat the server's are, by their names; nothing for others."""

    def __init__(
        self,
        around: Surroundings,
        questions: Questions,
        shelf: Shelf,
        client_of: Callable[[str], str],
    ) -> None:
        self._around = around
        self._questions = questions
        self._shelf = shelf
        self._client_of = client_of
        self._measured: int | None = None

    def read(
        self, then: Callable[[CacheMap], None], failed: Callable[[str], None], *, still: Still
    ) -> None:
        """What the cache holds now."""
        self._questions.ask(ReadCache(0), CacheMap, then, failed, still=still)

    def change(
        self,
        change: ChangeCache | DropSaved,
        then: Callable[[], None],
        failed: Callable[[str], None],
        *,
        still: Still,
    ) -> None:
        """Clear, park, drop, keep a prefix, or delete what is saved. The id is filled in."""
        self._questions.ask(change, Done, lambda _done: then(), failed, still=still)

    def measure(
        self,
        conversation_id: str,
        then: Callable[[StepMeasured], None],
        failed: Callable[[str], None],
        *,
        still: Still,
    ) -> None:
        """Time the next token of a chat with its cells and by reading everything again."""
        if self._measured is not None and self._questions.is_asked(self._measured):
            failed(ALREADY)
            return

        command = MeasureStep(0, conversation_id)
        self._measured = self._questions.ask(command, StepMeasured, then, failed, still=still)

    def stop_measuring(self) -> None:
        """It is not wanted any more: nobody is called."""
        if self._measured is not None:
            self._questions.stop(self._measured)
            self._measured = None

    def forget(self, conversation_id: str, tries: int = FORGET_TRIES) -> None:
        """A temporary chat has ended: nobody shall read its tokens in the cache. They can go once
        its reply has stopped."""

        def try_again(_sentence: str) -> None:
            if tries > 1:
                self._around.alarms.set(
                    f"forget {conversation_id}",
                    FORGET_S,
                    lambda: self.forget(conversation_id, tries - 1),
                )

        drop = ChangeCache(0, "drop", conversation_id)
        # It has ended for good: its cells go, however often that is tried.
        self._questions.ask(drop, Done, lambda _done: None, try_again, still=ALWAYS)

    def title(self, conversation_id: str) -> str:
        """What a conversation that has cells is called."""
        if conversation_id == SCORED:
            return FOR_SURPRISE
        if conversation_id == SEEDS:
            return FOR_SEEDS
        if client := self._client_of(conversation_id):
            return client
        conversation = self._shelf.conversation(conversation_id)
        return ELSEWHERE if conversation is None else conversation.title
