"""What was typed into a message's editor and not saved yet, kept as drafts are.

What must hold:

* It is in the database at most `shelf.DRAFT_DELAY_S` after the last key, whatever ends the app,
  and is there again when the same editor is opened. That of a temporary chat is never written.
* What was decided, or is as it was before, is kept no longer; nor is what belongs to a chat that
  was deleted for good.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from app.chat.conversations.shelf import DRAFT_DELAY_S, Shelf
from app.chat.replies.prompts import clean_message
from app.chat.surroundings import ALWAYS, Surroundings

SETTING: Final = "unfinished_edits"
MAX_KEPT: Final = 200
"""Of all chats together; the oldest go first."""


class Edit(NamedTuple):
    """`removed`: the attachments of the message that shall not go along any more."""

    text: str
    reasoning: str = ""
    removed: tuple[str, ...] = ()


_Key = tuple[str, str, str]


class Edits:
    """Unfinished texts by chat, by what the editor is for, and by the message it is at."""

    def __init__(self, around: Surroundings, shelf: Shelf) -> None:
        self._around = around
        self._shelf = shelf
        self._kept: dict[_Key, Edit] = {}
        self._is_changed = False
        self._unknown: frozenset[str] = frozenset()

    def keep(self, task: str, message_id: str, edit: Edit | None) -> None:
        """Of the open chat; None: there is nothing to keep any more."""
        key = (self._shelf.open.id, task, message_id)
        if edit is None and key not in self._kept:
            return
        self._kept.pop(key, None)
        if edit is not None:
            self._kept[key] = _cleaned(edit)
        while len(self._kept) > MAX_KEPT:
            del self._kept[next(iter(self._kept))]
        self._is_changed = True
        self._around.alarms.set_once("edits", DRAFT_DELAY_S, self.flush)

    def drop(self, task: str, message_id: str, edit: Edit) -> None:
        """It is on disk as a message now, whatever chat is open by then. What was typed since into
        another editor of that kind is not it, and stays."""
        mine = [
            key
            for key, kept in self._kept.items()
            if key[1:] == (task, message_id) and kept == _cleaned(edit)
        ]
        for key in mine:
            del self._kept[key]
        if mine:
            self._is_changed = True
            self._around.alarms.set_once("edits", DRAFT_DELAY_S, self.flush)

    def of(self, task: str, message_id: str) -> Edit | None:
        return self._kept.get((self._shelf.open.id, task, message_id))

    def forget(self, conversation_id: str) -> None:
        """A temporary chat has ended."""
        self._kept = {key: edit for key, edit in self._kept.items() if key[0] != conversation_id}

    def flush(self) -> None:
        """Save them now, if they changed."""
        self._around.alarms.cancel("edits")
        if not self._is_changed or not self._around.can_write or self._around.store is None:
            return
        self._is_changed = False
        stored = [
            [*key, edit.text, edit.reasoning, *edit.removed]
            for key, edit in self._kept.items()
            if not self._shelf.is_temporary(key[0])
        ]
        self._around.saved(self._around.store.set_setting(SETTING, stored))

    def take_stored(self, settings: Mapping[str, Any], then: Callable[[], None]) -> None:
        """What the last run left; `then` is called when it is known what of it belongs to nothing
        that is there. Anything else that stands there counts as nothing."""
        stored = settings.get(SETTING)
        rows = stored if isinstance(stored, list) else []
        found = {
            (row[0], row[1], row[2]): Edit(row[3], row[4], tuple(row[5:]))
            for row in rows[:MAX_KEPT]
            if isinstance(row, list) and len(row) >= 5 and all(isinstance(v, str) for v in row)
        }
        self._kept = found | self._kept
        self._leave_out(frozenset(), then)

    def leave_out_deleted(self) -> None:
        """Chats or messages were deleted for good: what was typed at them goes, too."""
        self._leave_out(self._ids(2), lambda: None)

    def _ids(self, place: int) -> frozenset[str]:
        """Of what is stored: the chats (0) or the messages (2)."""
        own = (key for key in self._kept if not self._shelf.is_temporary(key[0]))
        return frozenset(key[place] for key in own) - self._unknown

    def _leave_out(self, messages: frozenset[str], then: Callable[[], None]) -> None:
        """What belongs to chats that are nowhere any more, or to these messages if they are not."""
        store = self._around.store
        chats = self._ids(0) - {self._shelf.open.id}
        if store is None or not self._kept:
            then()
            return

        def drop(missing: frozenset[str]) -> None:
            gone = [
                key
                for key in self._kept
                if key[0] in missing & chats or key[2] in missing & messages
            ]
            for key in gone:
                del self._kept[key]
                self._is_changed = True
            self._unknown |= missing
            if gone and self._around.can_write:
                self.flush()
                self._around.saved(store.note_deletion())
            then()

        asked = store.missing(chats | self._ids(2))
        # What was typed since is no part of what was asked about.
        self._around.when_done(asked, drop, lambda _: then(), still=ALWAYS)


def _cleaned(edit: Edit) -> Edit:
    return Edit(clean_message(edit.text), clean_message(edit.reasoning), edit.removed)
