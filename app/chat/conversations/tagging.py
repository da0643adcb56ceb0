"""Tags on chats: put on and taken off, of several at once, renamed and deleted everywhere.

What must hold: every act can be taken back, as one act; names that mean the same tag
(`models.conversations.tag_names`) are written as they are already. A chat that is in no list (a
new one, a temporary one) has no tags.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from app.chat.conversations.shelf import Shelf
from app.chat.events import Noticed
from app.chat.surroundings import ALWAYS, Surroundings
from models.conversations.tag_names import MAX_TAGS, cleaned, key_of, tidied
from models.records import Conversation
from models.store.store import Store

__all__ = ["KnownTag", "Tagging", "cleaned", "key_of", "known_tags", "most_used"]

FULL = f"A chat can have {MAX_TAGS} tags."


class KnownTag(NamedTuple):
    """`n_chats` have it, archived ones too."""

    name: str
    n_chats: int


class Tagging:
    def __init__(self, around: Surroundings, shelf: Shelf) -> None:
        self._around = around
        self._shelf = shelf
        self._n_acts = 0

    @property
    def all(self) -> tuple[KnownTag, ...]:
        return known_tags(self._shelf.conversations)

    @property
    def _store(self) -> Store:
        assert self._around.store is not None
        return self._around.store

    def change(self, ids: Iterable[str], added: Iterable[str], removed: Iterable[str] = ()) -> None:
        """Put tags on chats and take others off; one act, one undo."""
        if not self._around.may_write():
            return
        added, removed = self._as_written(added), self._as_written(removed)
        before, after = dict[str, tuple[str, ...]](), dict[str, tuple[str, ...]]()
        is_full = False
        for chat in self._stored(ids):
            gone = {key_of(name) for name in removed}
            kept = [name for name in chat.tags if key_of(name) not in gone]
            tags = tidied([*kept, *added])
            is_full |= len({key_of(name) for name in (*kept, *added)}) > len(tags)
            if tags != chat.tags:
                before[chat.id], after[chat.id] = chat.tags, tags
        if is_full:
            self._around.emit(Noticed("warning", FULL))
        if not after:
            return
        self._write(after)
        self._offer_undo(self._words(before, added, removed), lambda: self._write(before))

    def rename(self, name: str, new_name: str) -> None:
        """In all chats, those in the trash too. Where both names are there, they become one tag."""
        new_name = cleaned(new_name)
        if not new_name or new_name == name:
            return
        other = [t.name for t in self.all if key_of(t.name) == key_of(new_name) != key_of(name)]
        new_name = other[0] if other else new_name
        words = "now one with" if other else "now"
        self._everywhere(name, new_name, f"The tag “{name}” is {words} “{new_name}”.")

    def delete(self, name: str) -> None:
        """Off all chats; these stay."""
        self._everywhere(name, "", f"The tag “{name}” was removed from all chats.")

    def _everywhere(self, name: str, new_name: str, sentence: str) -> None:
        if not self._around.may_write():
            return
        here = [chat for chat in self._shelf.conversations if _has(chat, name)]
        others = {chat.id: [t for t in chat.tags if not _is(t, name)] for chat in here}
        before = self._store.rename_tag(name, new_name)
        self._show({key: tidied([new_name, *tags]) for key, tags in others.items()})

        def put_back(tags: dict[str, tuple[str, ...]]) -> None:
            self._around.saved(self._store.put_tags_back(tags))
            self._show(tags)

        self._offer_undo(
            sentence,
            lambda: self._around.when_done(before, put_back, still=ALWAYS),  # as they were then
        )

    # --- inside ---------------------------------------------------------------------------------

    def _as_written(self, names: Iterable[str]) -> tuple[str, ...]:
        known = {key_of(tag.name): tag.name for tag in self.all}
        return tuple(known.get(key_of(name), name) for name in tidied(names))

    def _stored(self, ids: Iterable[str]) -> list[Conversation]:
        wanted = dict.fromkeys(ids)
        return [chat for chat in self._shelf.conversations if chat.id in wanted]

    def _write(self, tags: dict[str, tuple[str, ...]]) -> None:
        self._around.saved(self._store.put_tags_back(tags))
        self._show(tags)

    def _show(self, tags: dict[str, tuple[str, ...]]) -> None:
        self._shelf.change_listed({key: {"tags": names} for key, names in tags.items()})

    def _words(
        self, before: dict[str, tuple[str, ...]], added: tuple[str, ...], removed: tuple[str, ...]
    ) -> str:
        only = self._shelf.conversation(next(iter(before))) if len(before) == 1 else None
        what = f"“{only.title}”" if only is not None else f"{len(before):,} chats"
        if added and removed:
            return f"The tags of {what} were changed."
        names = ", ".join(added or removed)
        return f"{'Tagged' if added else 'Untagged'} {what}: {names}."

    def _offer_undo(self, sentence: str, act: Callable[[], None]) -> None:
        self._n_acts += 1
        self._shelf.offer_undo(f"tags {self._n_acts}", sentence, act)


def known_tags(chats: Iterable[Conversation]) -> tuple[KnownTag, ...]:
    """All tags of these chats, by name; of several spellings the most frequent one."""
    counts = Counter(name for chat in chats for name in chat.tags)
    spelt: dict[str, list[str]] = {}
    for name in sorted(counts, key=lambda each: (-counts[each], each)):
        spelt.setdefault(key_of(name), []).append(name)
    return tuple(
        KnownTag(names[0], sum(counts[name] for name in names))
        for _key, names in sorted(spelt.items())
    )


def most_used(tags: Sequence[KnownTag], most: int) -> list[KnownTag]:
    """Those that the most chats have, by name."""
    kept = frozenset(sorted(tags, key=lambda tag: -tag.n_chats)[:most])
    return [tag for tag in tags if tag in kept]


def _is(name: str, other: str) -> bool:
    return key_of(name) == key_of(other)


def _has(chat: Conversation, name: str) -> bool:
    return any(_is(each, name) for each in chat.tags)
