"""A request that the server got, looked at as a chat: its messages, and its reply as it grows.

It is a temporary chat with a memory of its own, so all panels, versions and branches work in it as
in any other, and the user's own temporary chat stays beside it. It leaves when another one is
opened, unless it was kept. What must hold: the reply that is served goes on whatever happens to the
chat; only Stop stops it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Final

from app.chat.attachments.attachments import Attachments
from app.chat.conversations.edits import Edits
from app.chat.conversations.shelf import Shelf, new_id
from app.chat.events import Noticed
from app.chat.replies.beams import Beams
from app.chat.replies.replies import Replies
from app.chat.replies.reply import fields_at_end
from app.chat.server.log import Logged, LoggedReply
from app.chat.surroundings import ALWAYS, Still, Surroundings
from app.chat.weights.file_work import begin
from app.insight.trace.columns import pack
from models.records import Attachment, Conversation, File, Message, WholeConversation

if TYPE_CHECKING:
    from app.chat.conversations.temporary import Stores, TemporaryChat
    from models.store.store import Store

NO_REPLY: Final = "This request asked for no reply, so there is nothing to open."
IS_GROWING: Final = "Wait until the reply has finished, or stop it. Then keep the chat."
KEPT: Final = "Saved as a chat."
NOT_KEPT: Final = "The chat couldn't be saved. {why}"


class OpenedRequest:
    def __init__(
        self,
        around: Surroundings,
        shelf: Shelf,
        replies: Replies,
        attachments: Attachments,
        edits: Edits,
        beams: Beams,
        temporary: TemporaryChat,
    ) -> None:
        self._around = around
        self._shelf = shelf
        self._replies = replies
        self._attachments = attachments
        self._edits = edits
        self._beams = beams
        self._temporary = temporary
        self._row: Logged | None = None
        self._n_moves = 0
        self._is_being_kept = False

    @property
    def row(self) -> Logged | None:
        """The request that there is a chat of."""
        return self._row

    def is_served(self, message_id: str) -> bool:
        """Whether this reply was asked for by the client of the request, not here."""
        served = self._row.replies if self._row is not None else ()
        return any(each.reply.message.id == message_id for each in served)

    @property
    def has_own(self) -> bool:
        """Whether somebody has gone on in it, or has begun to: that would be lost."""
        chat = self._shelf.conversation(self._shelf.served_id) if self._shelf.served_id else None
        if chat is None:
            return False
        typed = self._shelf.draft if self.is_on_screen else chat.draft
        return bool(typed) or self._shelf.n_moves(chat.id) != self._n_moves

    @property
    def engine_name(self) -> str:
        """What the engine calls the chat on screen, where that is another name than its own: while
        its last reply is the one that was served."""
        served = self._row.replies if self._row is not None and self.is_on_screen else ()
        leaf = self._shelf.leaf_id
        return next((each.chat_name for each in served if each.reply.message.id == leaf), "")

    @property
    def is_on_screen(self) -> bool:
        return bool(self._shelf.served_id) and self._shelf.open.id == self._shelf.served_id

    def open(self, row: Logged) -> None:
        """Show it. The one before leaves."""
        if not row.replies:
            self._around.emit(Noticed("info", NO_REPLY))
            return
        there = row.kept_as if self._shelf.is_stored(row.kept_as) else ""
        if not there and row is self._row:
            there = self._shelf.served_id
        if there:
            self._shelf.open_stored(there)
            return
        if self._is_being_kept or self._around.store is None:
            return
        self.close()
        self._row = row
        first = row.replies[0]
        chat = first.asked.conversation
        self._stores.begin_temporary(chat.id)
        self._put(chat, row.replies)
        for served in row.replies:
            if served.ended is None:
                self._replies.growing.adopt(served.reply, served.engine_id)
        self._shelf.open_served(chat, (*first.asked.above.messages, self._placed(row.replies)))
        self._n_moves = self._shelf.n_moves(chat.id)

    def _put(self, chat: Conversation, replies: list[LoggedReply]) -> None:
        store, saved = self._store, self._around.saved
        saved(store.create_conversation(chat))
        there: set[str] = set()
        for served in reversed(replies):  # the path to what comes last is the one that is shown
            for message in served.asked.above.messages:
                if message.id not in there:
                    there.add(message.id)
                    self._put_files(message, served.asked.above.files)
                    saved(store.append_message(message))
            saved(store.append_message(served.message))
            if served.ended is None:
                continue
            saved(store.update_message(served.ended.id, **fields_at_end(served.ended)))
            if len(served.reply.traces):
                saved(store.save_trace(served.ended.id, partial(pack, served.reply.traces)))

    def _put_files(self, message: Message, files: Mapping[str, File]) -> None:
        """Its pictures and sounds, which the message then claims."""
        for each in message.attachments:
            self._shelf.files.keep(each.id, files[each.id][1])
            loose = dataclasses.replace(each, message_id=None)
            self._around.saved(self._store.create_attachment(loose, files[each.id]))

    @staticmethod
    def _placed(replies: list[LoggedReply]) -> Message:
        """The first one, as the last version of those with its prompt."""
        first = replies[0]
        n = sum(each.asked.above is first.asked.above for each in replies)
        return dataclasses.replace(first.message, sibling_index=n - 1, sibling_count=n)

    def close(self) -> None:
        """The chat is gone; the reply that is served goes on."""
        row, self._row = self._row, None
        ended = self._shelf.served_id
        if not ended:
            return
        for served in row.replies if row is not None else ():
            self._replies.growing.let_go(served.reply.message.id)
            self._shelf.files.forget(served.asked.above.files)
        self._replies.forget(ended)
        self._attachments.forget(ended)
        self._edits.forget(ended)
        self._shelf.drop_served()
        self._stores.end_temporary(ended)
        self._beams.forget(ended)

    # --- keeping --------------------------------------------------------------------------------

    def keep(self) -> None:
        """Store it: from now on it is a chat as any other."""
        chat = self._shelf.served_id
        if not chat or self._is_being_kept or not self._around.may_write():
            return
        if self._replies.is_busy(chat):
            self._around.emit(Noticed("info", IS_GROWING))
            return
        self._is_being_kept = True
        self._shelf.flush_draft()
        self._around.when_done(
            self._stores.read_temporary(chat), self._write, self._on_not_kept, still=ALWAYS
        )  # it is a part of what was begun

    def _write(self, whole: WholeConversation) -> None:
        """As a chat of its own: what the memory has keeps its ids."""
        store, copy = self._store, renamed(whole)
        future, _ = begin(lambda: store.add_all((copy,)), "keep-chat")
        is_wanted = self._shelf.while_open()
        self._around.when_done(
            future,
            lambda _: self._on_kept(copy.conversation, is_wanted),
            self._on_not_kept,
            still=ALWAYS,  # done
        )

    def _on_kept(self, chat: Conversation, is_wanted: Still) -> None:
        self._is_being_kept = False
        if self._row is not None:
            self._row.kept_as = chat.id
        self._around.emit(Noticed("info", KEPT))
        self._shelf.take_in(chat, lambda: False)
        if not (self.is_on_screen and is_wanted()):
            self.close()
            return
        self._shelf.open_stored(chat.id, then=lambda: self._leave_for(chat))

    def _leave_for(self, kept: Conversation) -> None:
        """The stored one is on screen. What was typed since goes along."""
        left = self._shelf.conversation(self._shelf.served_id)
        self.close()
        if left is not None and left.draft != self._shelf.draft:
            self._shelf.save_draft(left.draft)
            self._shelf.open_stored(kept.id)

    def _on_not_kept(self, why: str) -> None:
        self._is_being_kept = False
        self._around.emit(Noticed("error", NOT_KEPT.format(why=why)))

    @property
    def _store(self) -> Store:
        assert self._around.store is not None
        return self._around.store

    @property
    def _stores(self) -> Stores:
        return self._temporary.stores


def renamed(whole: WholeConversation) -> WholeConversation:
    """The same with other ids."""
    chat = whole.conversation
    ids = {message.id: new_id() for message in whole.messages}
    own = new_id()
    files: dict[str, File] = {}

    def of_attachment(each: Attachment) -> Attachment:
        message_id = None if each.message_id is None else ids[each.message_id]
        its_id = new_id()
        if each.id in whole.files:
            files[its_id] = whole.files[each.id]
        return dataclasses.replace(each, id=its_id, conversation_id=own, message_id=message_id)

    def of_message(each: Message) -> Message:
        return dataclasses.replace(
            each,
            id=ids[each.id],
            conversation_id=own,
            parent_id=ids.get(each.parent_id or ""),
            attachments=tuple(map(of_attachment, each.attachments)),
        )

    messages = tuple(map(of_message, whole.messages))
    drafted = tuple(map(of_attachment, whole.draft_attachments))
    return dataclasses.replace(
        whole,
        conversation=dataclasses.replace(
            chat, id=own, active_leaf_id=ids.get(chat.active_leaf_id or "")
        ),
        messages=messages,
        traces={ids[message]: trace for message, trace in whole.traces.items()},
        draft_attachments=drafted,
        files=files,
    )
