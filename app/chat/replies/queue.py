"""Messages that wait for the reply before them.

Each conversation has a queue of its own. What must hold:

* They are sent in order, one whenever the reply before has ended by itself; also where their
  conversation is not on screen. After one that failed or was stopped they are held until the
  user says so: whoever presses Stop wants nothing more to be said. So are they where the weights
  that came meanwhile don't take what is attached.
* Until it is sent a queued message is kept with its conversation's draft, before what stands in
  the composer: whatever ends the app, it is found there again.
  So it leaves the queue when it is on its way to disk as a message, and not before.
* One that is being edited waits, and those behind it. What is typed into it is kept, too.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from app.chat.attachments.attachments import Attachments
from app.chat.conversations.shelf import Shelf, new_id
from app.chat.events import QueueChanged, QueuedMessage
from app.chat.replies.prompts import clean_message
from app.chat.surroundings import Surroundings
from models.records import Attachment, Message, MessageState

SendIn = Callable[[str, str, tuple[Attachment, ...], Callable[[bool], None]], None]
"""Send in a conversation: its id, the text, what goes along. The last one is told whether it is on
its way to disk."""


class MessageQueue:
    """All queues. `is_busy` tells whether nothing can be sent in a conversation now."""

    def __init__(
        self,
        around: Surroundings,
        shelf: Shelf,
        attachments: Attachments,
        send: SendIn,
        is_busy: Callable[[str], bool],
    ) -> None:
        self._around = around
        self._shelf = shelf
        self._attachments = attachments
        self._send = send
        self._is_busy = is_busy
        self._queues: dict[str, list[QueuedMessage]] = {}
        self._held: set[str] = set()
        self._edited = ""

    @property
    def of_open(self) -> tuple[QueuedMessage, ...]:
        """What waits for the reply on screen."""
        return self.of(self._shelf.open.id)

    def of(self, conversation_id: str) -> tuple[QueuedMessage, ...]:
        return tuple(self._queues.get(conversation_id, ()))

    @property
    def is_any(self) -> bool:
        """Whether a message waits anywhere that will be sent by itself."""
        return any(queue and chat not in self._held for chat, queue in self._queues.items())

    def kept_text(self, conversation_id: str) -> str:
        """What waits there, as one text for the draft; empty where nothing does."""
        return "\n\n".join(each.text for each in self.of(conversation_id) if each.text)

    # --- acts -----------------------------------------------------------------------------------

    def add(self, text: str) -> bool:
        """Queue a message in the open conversation. False: it was not taken."""
        if not self._around.may_write():
            return False
        conversation_id = self._shelf.open.id
        text = clean_message(text)
        attachments = self._attachments.of_draft(conversation_id)
        if not (text.strip() or attachments) or not self._attachments.may_be_sent(attachments):
            return False
        self._attachments.take(conversation_id)
        queued = QueuedMessage(new_id(), conversation_id, text, attachments)
        self._change(conversation_id, (*self.of(conversation_id), queued), draft="")
        self.go_on(conversation_id)
        return True

    def edit(self, message_id: str) -> None:
        """Its text is being changed: it waits until `change` or `remove`."""
        self._edited = message_id

    def type_into(self, message_id: str, text: str) -> None:
        """This stands in its editor now: it is kept as it would be after `change`."""
        queued, text = self._find(message_id), clean_message(text)
        if queued is None or not text.strip():
            return
        queue = self._queues[queued.conversation_id]
        queue[queue.index(queued)] = dataclasses.replace(queued, text=text)
        if queued.conversation_id == self._shelf.open.id:
            self._shelf.note_draft(self._shelf.draft)

    def change(self, message_id: str, text: str) -> None:
        """Another text for it; an empty one leaves it as it was."""
        queued = self._find(message_id)
        self._edited = ""
        if queued is None:
            return
        text = clean_message(text)
        if text.strip() and text != queued.text:
            changed = dataclasses.replace(queued, text=text)
            self._change(
                queued.conversation_id,
                tuple(
                    changed if each.id == message_id else each
                    for each in self.of(queued.conversation_id)
                ),
            )
        self.go_on(queued.conversation_id)

    def remove(self, message_id: str) -> None:
        """Out of the queue, with a way back. What went along returns with it."""
        queued = self._find(message_id)
        if queued is None:
            return
        if self._edited == message_id:
            self._edited = ""
        before = self.of(queued.conversation_id)
        place = before.index(queued)
        self._change(queued.conversation_id, before[:place] + before[place + 1 :])
        for attachment in queued.attachments:
            self._attachments.give_back((attachment,))

        def put_back() -> None:
            now_there = self.of(queued.conversation_id)
            for attachment in queued.attachments:
                self._attachments.withdraw(attachment.id)
            self._change(queued.conversation_id, (*now_there[:place], queued, *now_there[place:]))
            self.go_on(queued.conversation_id)

        self._shelf.offer_undo(f"queued {message_id}", "Queued message removed.", put_back)
        self.go_on(queued.conversation_id)

    def send_next(self) -> None:
        """Go on in the open conversation after a reply that failed or was stopped."""
        conversation_id = self._shelf.open.id
        self._held.discard(conversation_id)
        self.go_on(conversation_id)
        self._tell(conversation_id)

    def hold(self, conversation_id: str) -> None:
        """They wait until the user says so."""
        if self.of(conversation_id):
            self._held.add(conversation_id)
            self._tell(conversation_id)

    def leave_in_draft(self, conversation_id: str) -> None:
        """The conversation goes to the trash: nothing is sent there. Texts and attachments are its
        draft's from now on."""
        text = self.kept_text(conversation_id)
        waited = self._queues.pop(conversation_id, [])
        self._held.discard(conversation_id)
        for each in waited:
            self._attachments.give_back(each.attachments)
        self._shelf.take_into_draft(conversation_id, text)
        self._tell(conversation_id)

    # --- following ------------------------------------------------------------------------------

    def on_reply_ended(self, message: Message) -> None:
        """A reply has its end. The next message follows a reply that ended by itself; one of
        several answers may be stopped while another goes on."""
        conversation_id = message.conversation_id
        is_last = not self._is_busy(conversation_id)
        if message.state is MessageState.COMPLETE:
            self.go_on(conversation_id)
        elif message.state is not MessageState.STOPPED or is_last:
            self.hold(conversation_id)

    def go_on(self, conversation_id: str) -> None:
        """Send the next one, if nothing stands against it."""
        waiting = self.of(conversation_id)
        if not waiting or conversation_id in self._held or self._around.is_closing:
            return
        if waiting[0].id == self._edited or self._is_busy(conversation_id):
            return
        first = waiting[0]
        if not self._attachments.may_be_sent(first.attachments):  # other weights came meanwhile
            self.hold(conversation_id)
            return

        def settle(is_sent: bool) -> None:
            if is_sent:
                rest = tuple(each for each in self.of(conversation_id) if each.id != first.id)
                self._change(conversation_id, rest)
            else:
                self.hold(conversation_id)

        self._send(conversation_id, first.text, first.attachments, settle)

    def _find(self, message_id: str) -> QueuedMessage | None:
        found = (each for queue in self._queues.values() for each in queue)
        return next((each for each in found if each.id == message_id), None)

    def _change(
        self,
        conversation_id: str,
        queue: tuple[QueuedMessage, ...],
        draft: str | None = None,
    ) -> None:
        before = self.kept_text(conversation_id)
        if queue:
            self._queues[conversation_id] = list(queue)
        else:
            self._queues.pop(conversation_id, None)
            self._held.discard(conversation_id)
        self._shelf.keep_queued(conversation_id, before, self.kept_text(conversation_id), draft)
        self._tell(conversation_id)

    def _tell(self, conversation_id: str) -> None:
        if conversation_id == self._shelf.open.id:
            is_held = conversation_id in self._held
            self._around.emit(QueueChanged(conversation_id, self.of(conversation_id), is_held))

    def tell(self) -> None:
        """A conversation came on screen."""
        self._tell(self._shelf.open.id)
