"""Text mode: one document without a template, written by people and weights in turn.

What is being written is the conversation's draft until something depends on it; then it becomes a
message of its own (`text_document` says how a document is a tree). What must hold:

* What was typed is saved as a draft is: at most `shelf.DRAFT_DELAY_S` later.
* Before a continuation, another version, or the way to another branch, what was typed is a
  message.
* The prompt is the text before the caret, as far as the context window reaches.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from app.chat.conversations.paths import Paths
from app.chat.conversations.shelf import NEW_TEXT, Shelf, new_message
from app.chat.conversations.titles import title_from
from app.chat.documents.text_document import (
    PLACE,
    change,
    document,
    generated_ranges,
    moved,
    place_of,
)
from app.chat.documents.text_prompt import text_prompt
from app.chat.replies.prompts import clean_message
from app.chat.replies.replies import Replies
from app.chat.replies.reply import NOTHING, Beginning
from app.chat.surroundings import Surroundings
from app.chat.weights.loading import Loader
from app.engine.protocol.prompt_messages import TextPrompt
from models.records import ConversationKind, Message, Role


class TextMode:
    """What can be done with the open document, where the open conversation is one. `on_changed` is
    told when the next prompt is another one."""

    def __init__(
        self,
        around: Surroundings,
        shelf: Shelf,
        paths: Paths,
        loader: Loader,
        replies: Replies,
        on_changed: Callable[[], None],
    ) -> None:
        self._around = around
        self._shelf = shelf
        self._paths = paths
        self._loader = loader
        self._replies = replies
        self._on_changed = on_changed
        self._caret = 0

    @property
    def is_open(self) -> bool:
        return self._shelf.open.kind is ConversationKind.TEXT

    @property
    def is_whole(self) -> bool:
        """Whether all of the document is here; a long one is read in parts."""
        return self._shelf.is_whole

    @property
    def text(self) -> str:
        """The document as it stands: what was typed last, else what its messages say."""
        return self._shelf.draft or document(self._shelf.path)

    @property
    def generated(self) -> tuple[tuple[int, int], ...]:
        """Where in `text` continuations stand that nobody has changed."""
        ranges = generated_ranges(self._shelf.path)
        changed = change(document(self._shelf.path), self.text)
        if changed is None:
            return ranges
        start, end, new = changed
        return tuple(moved(ranges, start, end, len(new)))

    @property
    def continuation(self) -> Message | None:
        """The last continuation on the path: the one whose versions are flipped."""
        path = reversed(self._shelf.path)
        return next((message for message in path if message.role is Role.ASSISTANT), None)

    @property
    def caret(self) -> int:
        """Where in `text` the next continuation would stand."""
        return self._caret

    def when_asked(self, tell: Callable[[], None]) -> None:
        """`tell` is called before the draft is saved for good: a view may hold newer text."""
        self._shelf.before_flush = tell

    # --- acts -----------------------------------------------------------------------------------

    def save(self, text: str, caret: int = 0) -> None:
        """What stands in the field. The store gets it after a short rest."""
        text = clean_message(text)
        self._caret = min(caret, len(text))
        if text == document(self._shelf.path):
            self._shelf.note_draft("")
        elif text:
            self._shelf.note_draft(text)
        else:  # an empty draft says that nothing was typed
            self._commit(text)
        self._name(text)
        self._on_changed()

    def go_on(
        self,
        text: str,
        caret: int,
        beginning: Beginning = NOTHING,
        answers: tuple[Mapping[str, Any], ...] = ({},),
    ) -> bool:
        """Continue the text at the caret; `beginning` and `answers` as in `Replies.answer`. False:
        it was not taken (a reply grows, read-only)."""
        text = clean_message(text)
        if not self._replies.may_ask() or not self._shelf.is_whole:
            return False
        self._commit(text)
        if not self._shelf.leaf_id:
            self._append(0, 0, "")
        self._name(text)
        place = min(max(0, caret), len(text))
        self._replies.write_on(
            self._shelf.path, (place, place), beginning=beginning, answers=answers
        )
        return True

    def retry(
        self, beginning: Beginning = NOTHING, answers: tuple[Mapping[str, Any], ...] = ({},)
    ) -> None:
        """Another version of the last continuation; what was typed since stays with the old."""
        continuation = self.continuation
        if continuation is None or not self._replies.may_ask() or not self._shelf.is_whole:
            return
        self._commit(self.text)
        path = self._shelf.path_to(continuation.parent_id)
        place = place_of(continuation, len(document(path)))
        n_versions = continuation.sibling_count
        self._replies.write_on(path, place, n_versions, beginning, answers)

    def show_version(self, step: int) -> None:
        """Flip to an earlier (-1) or later (+1) version of the last continuation."""
        continuation = self.continuation
        if continuation is not None and self._shelf.is_whole:
            self._commit(self.text)
            self._paths.show_version(continuation.id, step)

    def settle(self) -> None:
        """Another branch is about to be shown: what was typed stays with this one."""
        if self.is_open and self._shelf.is_whole:
            self._shelf.before_flush()
            self._commit(self.text)

    # --- how it is done -------------------------------------------------------------------------

    def _commit(self, text: str) -> None:
        """What was typed becomes a message of the document."""
        changed = change(document(self._shelf.path), text)
        if changed is not None and self._around.can_write:
            self._append(*changed)
        self._shelf.drop_draft()

    def _append(self, start: int, end: int, new: str) -> None:
        shelf = self._shelf
        shelf.ensure_stored()
        message = new_message(shelf.open.id, shelf.leaf_id, new)
        message = dataclasses.replace(message, settings={PLACE: [start, end]})
        store = self._around.store
        assert store is not None
        self._around.saved(store.append_message(message, keep_in_view=True))
        shelf.add(message)
        shelf.touch(shelf.open.id)

    def _name(self, text: str) -> None:
        """A document is called by its first line, until the user names it."""
        conversation = self._shelf.open
        title = title_from(text) if text.strip() else NEW_TEXT
        if not conversation.is_titled_by_user and title != conversation.title:
            self._shelf.change(conversation.id, title=title)

    def prompt(self) -> TextPrompt:
        """What a continuation at the caret would be asked with."""
        return text_prompt(self.text[: self._caret], self._window(), self.generated)

    def _window(self) -> int:
        loaded = self._loader.loaded
        return loaded.n_ctx if loaded is not None else 0
