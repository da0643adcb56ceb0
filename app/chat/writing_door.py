"""The part of the desk that is used while writing: sending, attachments, the queue, unfinished
edits, the temporary chat.

It only delegates; `app.chat.desk` tells what holds for every method.
"""

from __future__ import annotations

from collections.abc import Sequence

from app.chat.attachments.attachments import Attachments
from app.chat.conversations.edits import Edit, Edits
from app.chat.conversations.paths import Paths
from app.chat.conversations.shelf import Shelf
from app.chat.conversations.temporary import Stores
from app.chat.documents.text_mode import TextMode
from app.chat.door import Door
from app.chat.events import ContextCounted, QueuedMessage
from app.chat.inspection.cache import CacheLook
from app.chat.replies.counting import ContextCounter
from app.chat.replies.queue import MessageQueue
from app.chat.replies.replies import Replies
from app.chat.surroundings import Surroundings
from models.records import Attachment


class WritingDoor(Door):
    """Mixed into `Desk`, which makes what is declared here."""

    _around: Surroundings
    _sent_early: list[str]
    _shelf: Shelf
    _paths: Paths
    _attachments: Attachments
    _queue: MessageQueue
    _edits: Edits
    _replies: Replies
    _stores: Stores | None
    _text: TextMode
    _cache: CacheLook
    _meter: ContextCounter

    # --- sending --------------------------------------------------------------------------------

    def send(self, text: str) -> bool:
        """Send a message. False: it was not taken (empty, read-only, a reply is in the making)."""
        if self._around.store is None and text.strip():
            self._sent_early.append(text)  # keys come before the first paint, `start` after it
            return True
        if self._paths.is_changing(self._shelf.open.id):
            return self.queue_message(text)  # it goes below what comes on screen in a moment
        attachments = self._attachments.of_draft(self._shelf.open.id)
        is_taken = self._replies.send(text, attachments)
        if is_taken:
            self._attachments.take(self._shelf.open.id)
        return is_taken

    def _send_early(self) -> None:
        """What was sent before there was a store, the first at once and the others behind its
        reply. What is being written since stays the draft."""
        typed = self._shelf.draft
        for text in self._sent_early:
            if not self._replies.send(text):
                self._queue.add(text)
        if self._sent_early and typed:
            self._shelf.save_draft(typed)
        self._sent_early.clear()

    # --- what goes along, and what waits --------------------------------------------------------

    @property
    def attachments(self) -> tuple[Attachment, ...]:
        """Of the draft on screen."""
        return self._attachments.of_draft(self._shelf.open.id)

    @property
    def queued(self) -> tuple[QueuedMessage, ...]:
        """What waits for the reply on screen."""
        return self._queue.of(self._shelf.open.id)

    def attach_text(self, text: str) -> bool:
        """A long text from the clipboard goes along. False: not taken, it stays a text."""
        return self._attachments.add_paste(text)

    def attach_files(self, paths: Sequence[str]) -> None:
        self._attachments.add_files(paths)

    def remove_attachment(self, attachment_id: str) -> None:
        self._attachments.remove(attachment_id)

    def attachment_encoding(self, attachment_id: str) -> str:
        """What its text was read as, where that was a guess; else ""."""
        return self._attachments.encoding(attachment_id)

    def read_attachment_as(self, attachment_id: str, encoding: str) -> None:
        """`encoding`: a key of `app.chat.attachments.text_files.ENCODINGS`."""
        self._attachments.read_as(attachment_id, encoding)

    def take_attachment_as_text(self, attachment_id: str) -> str:
        """It is no attachment any more: its text, for the composer."""
        return self._attachments.take_as_text(attachment_id)

    def queue_message(self, text: str) -> bool:
        """Send it when the reply has ended. False: it was not taken."""
        return self._may_write() and self._queue.add(text)

    def edit_queued(self, message_id: str) -> None:
        self._queue.edit(message_id)

    def type_queued(self, message_id: str, text: str) -> None:
        """What stands in its editor now; it is kept, and not decided."""
        self._queue.type_into(message_id, text)

    def change_queued(self, message_id: str, text: str) -> None:
        self._queue.change(message_id, text)

    def remove_queued(self, message_id: str) -> None:
        self._queue.remove(message_id)

    def send_queued(self) -> None:
        """Go on with what waits after a reply that failed or was stopped."""
        self._queue.send_next(self._shelf.open.id)

    # --- editors --------------------------------------------------------------------------------

    def keep_edit(self, task: str, message_id: str, edit: Edit | None) -> None:
        """What stands in the editor of a message, which is open; None: nothing is to be kept."""
        self._edits.keep(task, message_id, edit)

    def drop_edit(self, task: str, message_id: str) -> None:
        """What was typed there is on disk as a message, or as a reply's beginning."""
        self._edits.drop(task, message_id)

    def kept_edit(self, task: str, message_id: str) -> Edit | None:
        """What was typed there and not decided, in this run or an earlier one."""
        return self._edits.of(task, message_id)

    def context_count(self) -> ContextCounted | None:
        """What was counted last of the open conversation's next prompt; None: nothing yet."""
        return self._meter.last

    # --- text mode ------------------------------------------------------------------------------

    @property
    def text_mode(self) -> TextMode:
        """The open document, where the open conversation is one."""
        return self._text

    def new_text(self) -> None:
        """Show an empty text document: one text without a template."""
        self._shelf.open_new_text()

    def save_text(self, text: str, caret: int) -> None:
        """What stands in the document now."""
        self._text.save(text, caret)
        self._meter.count_soon()

    def continue_text(self, text: str, caret: int) -> bool:
        """Go on at the caret. False: it was not taken."""
        return self._may_write() and self._text.go_on(text, caret)

    def retry_text(self) -> None:
        """Another version of the last continuation."""
        self._text.retry()

    def show_text_version(self, step: int) -> None:
        self._text.show_version(step)

    # --- the temporary chat ---------------------------------------------------------------------

    @property
    def is_temporary(self) -> bool:
        """Whether the open conversation is the one that is never written."""
        return self._shelf.open.id == self._shelf.temporary_id

    @property
    def has_temporary(self) -> bool:
        """Whether there is a temporary chat that holds something."""
        return self._shelf.is_stored(self._shelf.temporary_id)

    def open_temporary(self) -> None:
        """Show the temporary chat: the one that there is, or a new one."""
        if not self._may_write() or self.is_temporary or self._stores is None:
            return
        if self.has_temporary:
            self._shelf.open_stored(self._shelf.temporary_id)
        else:
            self._stores.begin_temporary(self._shelf.open_temporary())

    def end_temporary(self) -> None:
        """The temporary chat is gone, and a reply that is written in it."""
        ended = self._shelf.temporary_id
        if not ended or self._stores is None:
            return
        self._queue.leave_in_draft(ended)
        self._replies.forget(ended)
        self._attachments.forget(ended)
        self._edits.forget(ended)
        self._shelf.drop_temporary()
        self._stores.end_temporary()
        self._cache.forget(ended)
