"""What every part of the desk stands on: the store, the way out, alarms, and the settings.

One object instead of globals; made by the desk, used on the owner's thread alone. A part asks
`may_write` at the beginning of what a person asks of it, if that is to be stored.

Whatever is asked of the store, of a thread or of the engine is answered later, and people go on
meanwhile: they open another chat, flip a version, type, load other weights. So an answer carries
what it was asked for (`still`) and is dropped where that is no longer so, its failure too; nor is
anybody told anything once the app closes. That is decided here, in `hand_over`, and for the engine
in `app.chat.inspection.questions`. `tests/app/chat/test_late_answers.py` lists all places.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, TypeVar

from app.chat.alarms import Alarms
from app.chat.events import Event, Noticed, StoreStateChanged
from app.chat.settings.settings import Settings

if TYPE_CHECKING:
    from app.engine.protocol.tool_messages import Tool
    from models.records import Conversation
    from models.store.store import Store

T = TypeVar("T")
Post = Callable[[Callable[[], None]], None]
Emit = Callable[[Event], None]
Still = Callable[[], bool]
"""Whether what an answer was asked for is still so. What stands in it is what was asked for: an id,
a number, a path. The state that it is compared with is looked at when the answer is here."""


def ALWAYS() -> bool:  # noqa: N802 - a constant to whoever uses it
    """For an answer that is right whatever has happened since: a write that has been done, facts
    that are merged with newer ones, a count that must be counted down. Say which, beside it."""
    return True


def no_tools(_chat: Conversation) -> tuple[Tool, ...]:
    return ()


CANNOT_SAVE: Final = "This window is read-only."

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class Surroundings:
    """`store` is None until `Desk.start`; `can_write` is False in a second instance."""

    post: Post
    emit: Emit
    alarms: Alarms
    clock: Callable[[], float] = time.monotonic
    settings: Settings = field(default_factory=Settings)
    store: Store | None = None
    can_write: bool = True
    is_closing: bool = False
    tools_of: Callable[[Conversation], tuple[Tool, ...]] = no_tools
    """What the next reply of a conversation may call."""
    store_state: StoreStateChanged = field(default_factory=lambda: StoreStateChanged("ok"))

    def may_write(self) -> bool:
        """Whether changes can be stored; says why not."""
        if self.can_write and self.store is not None:
            return True
        self.emit(Noticed("warning", self.store_state.sentence or CANNOT_SAVE))
        return False

    def when_done(
        self,
        future: Future[T],
        action: Callable[[T], None],
        failed: Callable[[str], None] | None = None,
        *,
        still: Still,
    ) -> None:
        """Run `action` with the result on the owner's thread; `failed` gets a sentence.

        Without `failed` the sentence goes to the user. That a write has failed is always said:
        where its answer may be dropped, give the future to `saved` too.
        """

        def settle() -> None:
            try:
                result = future.result()
            except CancelledError:
                return
            except Exception as error:  # noqa: BLE001 - the store's own words, or a fault of ours
                self._on_store_error(error, failed)
                return
            action(result)

        future.add_done_callback(lambda _: self.hand_over(settle, still))

    def hand_over(self, answer: Callable[[], None], still: Still) -> None:
        """Called on any thread: run `answer` on the owner's, if what it was asked for is still so
        by then."""

        def give() -> None:
            if not self.is_closing and still():
                answer()

        self.post(give)

    def saved(self, future: Future[Any]) -> None:
        """Only watch that a write succeeds."""
        self.when_done(future, lambda _: None, still=ALWAYS)

    def _on_store_error(self, error: Exception, failed: Callable[[str], None] | None) -> None:
        _log.warning("the store failed: %s", error, exc_info=error)
        sentence = str(error) or f"Database error ({type(error).__name__})."
        if failed is not None:
            failed(sentence)
        else:
            self.emit(Noticed("error", sentence))


def now() -> datetime:
    return datetime.now(UTC)
