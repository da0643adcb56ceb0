"""Folders in the sidebar, and what is done with many conversations at once.

What must hold: a conversation is never lost by what happens to its folder; every act here can
be taken back, as one act however many conversations it was about; and what has lain in the
trash for longer than the user's days is deleted at the start, bit by bit, and said.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from typing import Any, Final

from app.chat.conversations.shelf import Shelf, new_id
from app.chat.events import FoldersChanged, Noticed
from app.chat.replies.prompts import clean_message
from app.chat.surroundings import ALWAYS, Surroundings, now
from models.records import Conversation, Folder, Imported
from models.store.store import Store

MAX_NAME_LENGTH: Final = 100
PURGED_AT_ONCE: Final = 20
_NEVER_DAYS: Final = 730
"""Where nothing is purged: for how the times are judged if that is changed."""

Fields = dict[str, Any]


class Folders:
    """The folders, and the conversations as things that are put somewhere. `stop` ends what is
    written in one; `on_deleted` is told that chats or messages were deleted for good, with the ids
    of chats as far as they are known."""

    def __init__(
        self,
        around: Surroundings,
        shelf: Shelf,
        stop: Callable[[str], None],
        on_deleted: Callable[[tuple[str, ...]], None],
    ) -> None:
        self._around = around
        self._shelf = shelf
        self._stop = stop
        self._on_deleted = on_deleted
        self._listed: dict[str, Folder] = {}
        self._deleted: set[str] = set()
        self._n_acts = 0

    @property
    def all(self) -> tuple[Folder, ...]:
        """By name, inner ones too."""
        return tuple(sorted(self._listed.values(), key=lambda f: (f.name.casefold(), f.id)))

    @property
    def _store(self) -> Store:
        assert self._around.store is not None
        return self._around.store

    def read(self) -> None:
        """At the start: ask which folders there are."""

        def take(folders: tuple[Folder, ...]) -> None:
            found = {each.id: each for each in folders if each.id not in self._deleted}
            self._listed = found | self._listed
            self._tell()

        # Folders that were made, changed or deleted here since are newer, and stay as they are.
        self._around.when_done(self._store.list_folders(), take, still=ALWAYS)

    def take_in(self, imported: Imported, sentence: str) -> None:
        """Chats were added to the store, perhaps folders too: show them, with a way back. What was
        added to chats that are there stays."""
        ids = imported.ids
        if not ids:
            self._around.emit(Noticed("info", sentence))
            if not imported.grown:
                return

        def show(conversations: tuple[Conversation, ...]) -> None:
            self._shelf.take_grown(c for c in conversations if c.id in set(imported.grown))
            self._shelf.show_list(conversations)
            if ids:
                self._offer_undo(sentence, lambda: self.trash(ids))

        # What is in the store anew is no longer what was thrown away here before.
        self._shelf.expect(ids)
        self._deleted.clear()
        self.read()
        self._around.when_done(self._store.list_conversations(), show, still=ALWAYS)  # merged

    def _tell(self) -> None:
        self._around.emit(FoldersChanged(self.all))

    # --- folders --------------------------------------------------------------------------------

    def create(self, name: str, parent_id: str | None = None) -> str:
        """A new folder, in another one or at the top; its id, or nothing where none can be."""
        if not self._around.may_write():
            return ""
        parent_id = parent_id if parent_id in self._listed else None
        folder = Folder(new_id(), _name(name) or "New folder", now(), parent_id)
        self._listed[folder.id] = folder
        self._around.saved(self._store.create_folder(folder))
        self._tell()
        return folder.id

    def rename(self, folder_id: str, name: str) -> None:
        if not self._around.may_write():
            return
        folder, name = self._listed.get(folder_id), _name(name)
        if folder is None or not name or name == folder.name:
            return
        self._listed[folder_id] = dataclasses.replace(folder, name=name)
        self._around.saved(self._store.update_folder(folder_id, name=name))
        self._tell()

    def move(self, folder_id: str, parent_id: str | None) -> None:
        """Into another folder or to the top, with all that is in it; with an undo."""
        if not self._around.may_write():
            return
        folder = self._listed.get(folder_id)
        if folder is None or folder.parent_id == parent_id:
            return
        if not self.may_hold(parent_id, folder_id):
            self._around.emit(Noticed("warning", "A folder can't be moved into itself."))
            return
        before = folder.parent_id
        self._put(folder, parent_id)
        where = f"in “{self._listed[parent_id].name}”" if parent_id else "outside all folders"
        self._offer_undo(
            f"“{folder.name}” is now {where}.", lambda: self._put_again(folder_id, before)
        )

    def may_hold(self, parent_id: str | None, folder_id: str) -> bool:
        """Whether one folder may lie in the other: not in itself nor in what it holds."""
        if parent_id is not None and parent_id not in self._listed:
            return False
        return folder_id not in self._way_up(parent_id)

    def _way_up(self, folder_id: str | None) -> list[str]:
        way: list[str] = []
        while folder_id is not None and folder_id in self._listed and folder_id not in way:
            way.append(folder_id)
            folder_id = self._listed[folder_id].parent_id
        return way

    def _put(self, folder: Folder, parent_id: str | None) -> None:
        self._listed[folder.id] = dataclasses.replace(folder, parent_id=parent_id)
        self._around.saved(self._store.move_folder(folder.id, parent_id))
        self._tell()

    def _put_again(self, folder_id: str, parent_id: str | None) -> None:
        folder = self._listed.get(folder_id)
        if folder is not None and self.may_hold(parent_id, folder_id):
            self._put(folder, parent_id)

    def delete(self, folder_id: str) -> None:
        """The folder alone: its chats and folders go to the one around it; with an undo."""
        if not self._around.may_write():
            return
        folder = self._listed.pop(folder_id, None)
        if folder is None:
            return
        self._deleted.add(folder_id)
        above = folder.parent_id if folder.parent_id in self._listed else None
        for inner in [f for f in self._listed.values() if f.parent_id == folder_id]:
            self._listed[inner.id] = dataclasses.replace(inner, parent_id=above)
        members = [c.id for c in self._shelf.conversations if c.folder_id == folder_id]
        self._shelf.change_listed({member: {"folder_id": above} for member in members})
        self._tell()

        contents = self._store.take_folder_out(folder_id)
        count = _chats(len(members))
        kept = f" {count[0].upper()}{count[1:]} from it stayed." if members else ""
        self._offer_undo(
            f"The folder “{folder.name}” was deleted.{kept}",
            lambda: self._around.when_done(
                contents,
                lambda each: self._put_back(folder, each),
                still=ALWAYS,  # what went elsewhere meanwhile stays there
            ),
        )

    def _put_back(self, folder: Folder, contents: tuple[tuple[str, ...], tuple[str, ...]]) -> None:
        """Undo of `delete`: what went elsewhere meanwhile stays there."""
        self._around.saved(self._store.put_folder_back(folder, contents))
        chats, inner = contents
        self._deleted.discard(folder.id)
        self._listed[folder.id] = folder
        for each in inner:
            moved = self._listed.get(each)
            if moved is not None and moved.parent_id == folder.parent_id:
                self._listed[each] = dataclasses.replace(moved, parent_id=folder.id)
        found = (self._shelf.conversation(each) for each in chats)
        back = [c.id for c in found if c is not None and c.folder_id == folder.parent_id]
        self._shelf.change_listed({each: {"folder_id": folder.id} for each in back})
        self._tell()

    # --- many conversations ---------------------------------------------------------------------

    def move_chats(self, ids: Iterable[str], folder_id: str | None) -> None:
        """Into a folder, or out of all of them."""
        if not self._around.may_write() or not (folder_id is None or folder_id in self._listed):
            return
        where = f"in “{self._listed[folder_id].name}”" if folder_id else "in no folder"
        self._change(ids, {"folder_id": folder_id}, f"is now {where}", f"are now {where}")

    def pin(self, ids: Iterable[str], is_pinned: bool) -> None:
        """To the top of the list, or down again."""
        if not self._around.may_write():
            return
        words = "pinned" if is_pinned else "no longer pinned"
        self._change(ids, {"is_pinned": is_pinned}, f"is {words}", f"are {words}")

    def archive(self, ids: Iterable[str], is_archived: bool) -> None:
        """Out of the list without throwing away, or back."""
        if not self._around.may_write():
            return
        words = "in the archive" if is_archived else "back in the list"
        self._change(ids, {"is_archived": is_archived}, f"is {words}", f"are {words}")

    def _change(self, ids: Iterable[str], fields: Fields, one: str, many: str) -> None:
        """One act, one undo. Conversations that are so already are left out of both."""
        before: dict[str, Fields] = {}
        for conversation in self._stored(ids):
            old = {name: getattr(conversation, name) for name in fields}
            if old != fields:
                before[conversation.id] = old
        if not before:
            return
        subject = self._subject(before)
        self._write(dict.fromkeys(before, fields))
        self._offer_undo(
            f"{subject} {one if len(before) == 1 else many}.", lambda: self._write(before)
        )

    def _write(self, changes: Mapping[str, Fields]) -> None:
        self._around.saved(self._store.change_conversations(changes))
        self._shelf.change_listed(changes)

    def _stored(self, ids: Iterable[str]) -> list[Conversation]:
        """Those of the list, each once, in the order of the list of ids."""
        found = (self._shelf.conversation(each) for each in dict.fromkeys(ids))
        return [c for c in found if c is not None and self._shelf.is_stored(c.id)]

    def _subject(self, ids: Iterable[str]) -> str:
        listed = list(ids)
        only = self._shelf.conversation(listed[0]) if len(listed) == 1 else None
        return f"“{only.title}”" if only is not None else _chats(len(listed)).capitalize()

    # --- trash ----------------------------------------------------------------------------------

    def trash_one(self, conversation_id: str) -> None:
        """To the trash, with a way back that opens it again."""
        if self._around.may_write():
            self._stop(conversation_id)
            self._shelf.trash(conversation_id)

    def trash(self, ids: Iterable[str]) -> None:
        """Many to the trash, with one way back."""
        if not self._around.may_write():
            return
        gone = self._stored(ids)
        if not gone:
            return
        subject = self._subject(c.id for c in gone)
        for conversation in gone:
            self._stop(conversation.id)
        open_id = self._shelf.open.id
        ids = [c.id for c in gone]
        self._shelf.flush_draft()
        gone = self._stored(ids)
        written = self._store.trash_conversations(ids)
        self._shelf.take_away(ids)
        self._around.when_done(written, lambda _: self._shelf.list_trash(), still=ALWAYS)  # done
        verb = "is" if len(gone) == 1 else "are"
        self._offer_undo(f"{subject} {verb} in the trash.", lambda: self._restore(gone, open_id))

    def restore(self, ids: Iterable[str]) -> None:
        """Out of the trash, whenever they were thrown away; one alone is opened."""
        if not self._around.may_write():
            return
        wanted = tuple(dict.fromkeys(ids))
        is_wanted = self._shelf.want(wanted[0]) if len(wanted) == 1 else (lambda: False)

        def find(trashed: tuple[Conversation, ...]) -> None:
            found = [
                each for each in trashed if each.id in wanted and not self._shelf.is_stored(each.id)
            ]
            if found:
                self._restore(found, found[0].id if is_wanted() else "")

        # They come back whatever is on screen; those that are back already are left alone.
        self._around.when_done(self._store.list_trash(), find, still=ALWAYS)

    def _restore(self, trashed: list[Conversation], open_id: str) -> None:
        changes: dict[str, Fields] = {c.id: {"trashed_at": None} for c in trashed}
        self._shelf.put_back([dataclasses.replace(c, trashed_at=None) for c in trashed])
        is_wanted = self._shelf.want(open_id) if open_id in changes else (lambda: False)

        def settle(there: tuple[Conversation, ...]) -> None:
            """Some of them may have been deleted for good meanwhile."""
            self._shelf.take_away(changes.keys() - {c.id for c in there})
            self._shelf.list_trash()
            if is_wanted() and any(c.id == open_id for c in there):
                self._shelf.open_stored(open_id)

        self._around.when_done(
            self._store.change_conversations(changes), settle, still=ALWAYS
        )  # done

    def delete_for_good(self, ids: Iterable[str]) -> None:
        """What is in the trash, and only that; there is no way back. The view has asked the user
        before."""
        if not self._around.may_write():
            return

        gone = tuple(ids)

        def tell(count: int) -> None:
            self._around.emit(Noticed("info", f"{_were(count)} permanently deleted."))
            self._shelf.list_trash()
            self._on_deleted(gone)

        self._around.when_done(self._store.delete_trashed(gone), tell, still=ALWAYS)  # done

    def see_clock(self) -> None:
        """At the start and at the end: a clock that jumps makes nothing in the trash old."""
        days = self._around.settings.trash_days or _NEVER_DAYS
        self._around.saved(self._store.see_clock(now(), timedelta(days=days) / 2))

    def purge_expired(self) -> None:
        """Delete what has been in the trash for too long: bit by bit, so that the writing of
        messages comes in between."""
        if not self._around.can_write or self._around.is_closing:
            return
        self.see_clock()
        days = self._around.settings.trash_days
        if days <= 0:
            return
        store, latest = self._store, now() - timedelta(days=days)
        total = 0

        def go_on(count: int) -> None:
            nonlocal total
            total += count
            if count == PURGED_AT_ONCE:
                purge()
            elif total:
                self._on_deleted(())
                sentence = (
                    f"{_were(total)} in the trash for {_days(days)} and has now been permanently "
                    "deleted."
                )
                self._around.emit(Noticed("info", sentence))

        def purge() -> None:
            purged = store.purge_some(latest, PURGED_AT_ONCE)
            self._around.when_done(purged, go_on, still=ALWAYS)  # done

        purge()
        self._around.when_done(
            store.purge_branches(latest),
            lambda count: self._on_deleted(()) if count else None,
            still=ALWAYS,  # done
        )

    def delete_backups(self) -> None:
        """All of them, and what repairs have kept, since they hold what was deleted for good; the
        store then makes a new one."""
        if not self._around.may_write():
            return

        def tell(count: int) -> None:
            were = "One backup was" if count == 1 else f"{count:,} backups were"
            self._around.emit(Noticed("info", f"{were} deleted. A new one is made."))

        self._around.when_done(self._store.delete_backups(), tell, still=ALWAYS)  # done

    # --- undo -----------------------------------------------------------------------------------

    def _offer_undo(self, sentence: str, act: Callable[[], None]) -> None:
        self._n_acts += 1
        self._shelf.offer_undo(f"sidebar {self._n_acts}", sentence, act)


def _name(text: str) -> str:
    return " ".join(clean_message(text).split())[:MAX_NAME_LENGTH]


def _chats(count: int) -> str:
    return "one chat" if count == 1 else f"{count:,} chats"


def _were(count: int) -> str:
    return "One chat was" if count == 1 else f"{count:,} chats were"


def _days(count: int) -> str:
    return "a day" if count == 1 else f"{count:,} days"
