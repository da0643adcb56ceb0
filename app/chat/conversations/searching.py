"""Search: what is typed becomes a question to the store, and its pages become events.

What must hold: only the newest question is answered. An answer that comes after the text has
changed is dropped here, also where the database was too quick to be interrupted.
"""

from __future__ import annotations

from typing import Final

from app.chat.conversations.paths import Paths
from app.chat.conversations.shelf import Shelf
from app.chat.documents.text_mode import TextMode
from app.chat.events import MessageSought, SearchAnswered
from app.chat.surroundings import Surroundings
from models.records import ConversationKind, SearchPage
from models.search.query import parse, with_filter

__all__ = ["PAGE", "Searching", "with_filter"]

PAGE: Final = 30


class Searching:
    """One search at a time, page by page."""

    def __init__(self, around: Surroundings, shelf: Shelf, paths: Paths, text: TextMode) -> None:
        self._around = around
        self._shelf = shelf
        self._paths = paths
        self._text = text
        self._typed = ""
        self._number = 0
        self._next_below: int | None = None
        self._is_asking = False

    def search(self, typed: str) -> None:
        """Ask for the first page; SearchAnswered answers, at once where there is nothing to search
        for."""
        self._typed = typed
        self._number += 1
        self._next_below = None
        self._is_asking = False
        if parse(typed).is_empty or self._around.store is None:
            self._tell(SearchPage(problems=parse(typed).problems), is_first=True)
            return
        self._ask(None)

    def more(self) -> None:
        """Ask for the page after the last one, if there is one."""
        if self._next_below is not None and not self._is_asking:
            self._ask(self._next_below)

    def _ask(self, below: int | None) -> None:
        store, number = self._around.store, self._number
        assert store is not None
        self._is_asking = True
        is_first = below is None
        self._around.when_done(
            store.search(self._typed, PAGE, below),
            lambda page: self._tell(page, is_first),
            lambda sentence: self._tell(SearchPage(problems=(sentence,)), is_first),
            still=lambda: number == self._number,
        )

    def _tell(self, page: SearchPage, is_first: bool) -> None:
        self._is_asking = False
        self._next_below = page.next_below
        self._around.emit(
            SearchAnswered(
                typed=self._typed,
                hits=page.hits,
                is_first=is_first,
                has_more=page.next_below is not None,
                has_more_titles=page.has_more_titles,
                problems=page.problems,
            )
        )

    # --- the way to a hit -----------------------------------------------------------------------

    def open_at(self, conversation_id: str, message_id: str) -> None:
        """Open the conversation with this message on the path, and say where it is (MessageSought).

        On another branch than the one shown last, that branch is shown; nothing is lost.
        """
        store = self._around.store
        if store is None:
            return

        def tell() -> None:
            self._around.emit(MessageSought(conversation_id, message_id))

        if conversation_id == self._shelf.open.id and self._shelf.is_on_path(message_id):
            tell()
            return
        if conversation_id == self._shelf.open.id:
            self._text.settle()
            self._paths.go_to_leaf(store.leaf_through(message_id), self._paths.want(), tell)
            return
        if self._is_half_written(conversation_id):
            # What was typed there belongs to the branch that was shown last.
            self._shelf.open_stored(
                conversation_id, then=lambda: self.open_at(conversation_id, message_id)
            )
            return

        is_wanted = self._shelf.want(conversation_id)

        def choose(leaf_id: str) -> None:
            def find() -> None:
                # An earlier wish may have opened it, at another branch.
                is_there = self._shelf.leaf_id == leaf_id
                tell() if is_there else self.open_at(conversation_id, message_id)

            if self._around.can_write:
                self._around.saved(store.set_active_leaf(conversation_id, leaf_id))
            self._shelf.open_stored(conversation_id, then=find)

        self._around.when_done(store.leaf_through(message_id), choose, still=is_wanted)

    def _is_half_written(self, conversation_id: str) -> bool:
        """Whether it is a document with changes that are not yet one of its messages."""
        found = self._shelf.conversation(conversation_id)
        return found is not None and found.kind is ConversationKind.TEXT and bool(found.draft)
