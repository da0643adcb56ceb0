"""Another path of the open conversation: a version that is flipped to, a branch, what a change of
its messages leads to.

The store answers later, and a person goes on meanwhile. What must hold:

* A path is shown only where it is still wanted (`want`): no other conversation is open, no other
  path was asked for since, and nothing was sent.
* While a change of the messages is on its way to disk (`is_changing`) nothing is hung on the old
  path: what is sent waits in the queue, and other changes are refused.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

from app.chat.conversations.shelf import Shelf
from app.chat.events import Noticed
from app.chat.surroundings import ALWAYS, Still, Surroundings
from models.records import Message
from models.store.store import Store

T = TypeVar("T")


class Paths:
    """`on_settled` is told of a conversation whose messages have been changed."""

    def __init__(
        self, around: Surroundings, shelf: Shelf, on_settled: Callable[[str], None]
    ) -> None:
        self._around = around
        self._shelf = shelf
        self._on_settled = on_settled
        self._changes = Counter[str]()

    @property
    def _store(self) -> Store:
        assert self._around.store is not None
        return self._around.store

    def want(self) -> Still:
        """Another path of the open conversation shall come on screen, once the store has answered:
        whether that is still so."""
        shelf, conversation_id = self._shelf, self._shelf.open.id
        shelf.note_move(conversation_id)
        n_moves = shelf.n_moves(conversation_id)

        def is_wanted() -> bool:
            return shelf.open.id == conversation_id and shelf.n_moves(conversation_id) == n_moves

        return is_wanted

    def show_version(self, message_id: str, step: int) -> None:
        """Flip to an earlier (-1) or later (+1) version of a message, with the newest leaf below.

        Not while messages change: there may be no such version any more, and the path that the
        change leads to would not be shown either.
        """
        if not self._shelf.is_on_path(message_id) or self.is_changing(self._shelf.open.id):
            return
        is_wanted = self.want()

        def choose(versions: tuple[Message, ...]) -> None:
            place = next((i for i, v in enumerate(versions) if v.id == message_id), 0) + step
            if 0 <= place < len(versions):
                self.go_to_leaf(self._store.leaf_below(versions[place].id), is_wanted)

        self._around.when_done(self._store.siblings(message_id), choose, still=is_wanted)

    def go_to_leaf(
        self,
        leaf: Future[str],
        is_wanted: Still,
        then: Callable[[], None] = lambda: None,
    ) -> None:
        """Show the path to the leaf that the store finds, which is the active one from then on, if
        it is still wanted; `then` follows."""
        conversation_id = self._shelf.open.id

        def show(messages: tuple[Message, ...]) -> None:
            self._shelf.replace_path(conversation_id, messages)
            then()

        def take(leaf_id: str) -> None:
            if self._around.can_write:
                self._around.saved(self._store.set_active_leaf(conversation_id, leaf_id))
            path = self._store.load_path(conversation_id, leaf_id)
            self._around.when_done(path, show, still=is_wanted)

        self._around.when_done(leaf, take, still=is_wanted)

    def read_again(self) -> None:
        """The open conversation was added to in the store: show its path as it is now."""
        conversation_id = self._shelf.open.id
        self._around.when_done(
            self._store.load_conversation(conversation_id),
            lambda loaded: self._shelf.replace_path(conversation_id, loaded[1]),
            still=self.want(),
        )

    # --- changes of the messages ----------------------------------------------------------------

    def is_changing(self, conversation_id: str) -> bool:
        """Whether its messages are being changed, so that another path is about to be shown."""
        return self._changes[conversation_id] > 0

    def show_changed(
        self,
        written: Future[T],
        leaf_of: Callable[[T], str | None],
        then: Callable[[T], None] = lambda _result: None,
    ) -> None:
        """Messages of the open conversation are changed: once that is on disk `then` gets the
        result, and the path that it leads to comes on screen."""
        conversation_id = self._shelf.open.id
        is_wanted = self.want()
        self._changes[conversation_id] += 1

        def read(result: T) -> None:
            then(result)
            leaf_id = leaf_of(result)
            if leaf_id is None:
                settle(())
            else:
                path = self._store.load_path(conversation_id, leaf_id)
                self._around.when_done(path, settle, fail, still=ALWAYS)

        def settle(messages: tuple[Message, ...]) -> None:
            self._changes[conversation_id] -= 1
            if is_wanted():
                self._shelf.replace_path(conversation_id, messages)
            self._on_settled(conversation_id)

        def fail(sentence: str) -> None:
            self._changes[conversation_id] -= 1
            self._around.emit(Noticed("error", sentence))
            self._on_settled(conversation_id)

        # The change is made, whatever is on screen by now; only `settle` shows something.
        self._around.when_done(written, read, fail, still=ALWAYS)
