"""Reading files that shall be imported: looked through first, and again while they are stored.

What must hold: whatever a file holds, it is refused in a sentence or understood, and what of it
does not come is listed. It is read chat by chat both times, so it must be the same one:
`ImportSource.stamp` tells. Cutaway's own files are understood as a whole or not at all; those of
other apps (`brought`) as far as they can be.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import BinaryIO, Final, cast

from app.amounts import bytes_words
from app.chat.exchange import json_file, markdown_foreign, markdown_format
from app.chat.exchange.brought import sampler_presets
from app.chat.exchange.brought.formats import recognised
from app.chat.exchange.brought.places import Place, Stamp, opened_place
from app.chat.exchange.brought.told import Brought, NotUnderstood
from app.chat.exchange.json_format import folders_of, presets_of
from app.chat.exchange.recognising import own_in
from app.chat.exchange.refusals import FileRefused
from app.reading.files import shown_name
from models.conversations.importing import same_preset
from models.records import Folder, Preset, Whereabouts, WholeConversation
from models.store.store import Store

MAX_MARKDOWN_BYTES: Final = 16 * 1024 * 1024
MAX_FILES: Final = 1000
MAX_NAMED: Final = 200
"""So many places of one kind of thing that does not come are told; all are counted."""
MAX_KINDS: Final = 500


@dataclass(frozen=True, slots=True)
class Looked:
    """A chat of a file, or a preset that no chat there has, and what the store has of it. `app`:
    who wrote it, where not Cutaway."""

    id: str
    title: str
    n_messages: int
    created_at: datetime
    updated_at: datetime
    file: str
    whereabouts: Whereabouts
    app: str = ""
    is_preset: bool = False


@dataclass(slots=True)
class LeftOut:
    """Something that does not come, how often, and where it was met first."""

    app: str
    what: str
    count: int = 0
    where: list[str] = field(default_factory=list)


@dataclass(slots=True)
class ImportSource:
    """A file that could be read from its beginning to its end."""

    path: Path
    stamp: Stamp


@dataclass(slots=True)
class ImportPreview:
    """What an import would bring. `refusals` are sentences about files that bring nothing."""

    now: datetime
    sources: list[ImportSource] = field(default_factory=list)
    chats: list[Looked] = field(default_factory=list)
    refusals: list[str] = field(default_factory=list)
    folders: list[Folder] = field(default_factory=list)
    presets: list[Preset] = field(default_factory=list)
    left_out: dict[tuple[str, str], LeftOut] = field(default_factory=dict)

    def chats_again(
        self, check: Callable[[], None], chosen: frozenset[str] | None = None
    ) -> Iterator[WholeConversation]:
        """What was looked at, for the store; `chosen`: ids of chats, None for all. Raises where a
        file has changed."""
        for source in self.sources:
            with opened_place(source.path) as place:
                place.check = check
                if place.stamp != source.stamp:
                    raise FileRefused(
                        f"{place.name} has changed since you chose it. Choose it again."
                    )
                for _, brought in _contents(place, self.now):
                    check()
                    if isinstance(brought, WholeConversation) and (
                        chosen is None or brought.conversation.id in chosen
                    ):
                        yield brought

    def leave_out(self, app: str, found: NotUnderstood) -> None:
        if (app, found.what) not in self.left_out and len(self.left_out) >= MAX_KINDS:
            found = NotUnderstood(
                "Other things that Cutaway doesn't know", found.where, found.count
            )
        out = self.left_out.setdefault((app, found.what), LeftOut(app, found.what))
        out.count += found.count
        if found.where and len(out.where) < MAX_NAMED and found.where not in out.where:
            out.where.append(found.where)


def look_through(
    store: Store,
    paths: Sequence[str],
    now: datetime,
    check: Callable[[], None],
    told: Callable[[int], None] = lambda _n_chats: None,
) -> ImportPreview:
    """Read every file and ask the store about every chat. A bad file costs a sentence. `told` gets
    the number of chats that were found so far."""
    preview = ImportPreview(now)
    if len(paths) > MAX_FILES:
        preview.refusals.append(f"Only the first {MAX_FILES} files were read. Choose fewer.")
    seen: set[str] = set()
    for path in paths[:MAX_FILES]:
        found = ImportPreview(now, left_out=preview.left_out)
        try:
            _look_at(
                store,
                Path(path),
                found,
                seen,
                check,
                partial(_told_after, told, len(preview.chats)),
            )
        except FileRefused as refused:
            preview.refusals.append(str(refused))
            continue
        for name in ("sources", "chats", "folders", "presets"):
            getattr(preview, name).extend(getattr(found, name))
    return preview


def _told_after(told: Callable[[int], None], before: int, n_chats: int) -> None:
    told(before + n_chats)


def _look_at(
    store: Store,
    path: Path,
    found: ImportPreview,
    seen: set[str],
    check: Callable[[], None],
    told: Callable[[int], None],
) -> None:
    needed: set[str | None] = set()

    def look() -> None:
        check()
        told(len(found.chats))  # also while nothing is found yet

    with opened_place(path) as place:
        place.check = look
        for app, brought in _contents(place, found.now):
            look()
            match brought:
                case WholeConversation():
                    needed.add(brought.conversation.preset_id)
                    found.chats.append(_looked(store, brought, app, place.name, seen))
                    told(len(found.chats))
                case Folder():
                    found.folders.append(brought)
                case Preset():
                    found.presets.append(brought)
                case NotUnderstood():
                    found.leave_out(app, brought)
        if not found.chats and not found.presets:
            raise FileRefused(f"{place.name} contains no chat.")
        there = store.list_presets().result() if found.presets else ()
        for preset in found.presets:
            if preset.id not in needed and preset.id not in seen:
                seen.add(preset.id)
                is_there = same_preset(preset, there) is not None
                found.chats.append(_looked_preset(preset, place.name, is_there=is_there))
        found.sources.append(ImportSource(path, place.stamp))


def _looked(store: Store, chat: WholeConversation, app: str, file: str, seen: set[str]) -> Looked:
    where = store.whereabouts(chat).result()
    c = chat.conversation
    if c.id in seen and where is Whereabouts.NEW:
        # Unless it is the same, which the import will see.
        where = Whereabouts.MORE if chat.is_brought else Whereabouts.OTHER
    seen.add(c.id)
    return Looked(c.id, c.title, len(chat.messages), c.created_at, c.updated_at, file, where, app)


def _looked_preset(preset: Preset, file: str, *, is_there: bool) -> Looked:
    where = Whereabouts.THERE if is_there else Whereabouts.NEW
    times = preset.created_at, preset.updated_at
    return Looked(preset.id, preset.name, 0, *times, file, where, is_preset=True)


def _contents(place: Place, now: datetime) -> Iterator[tuple[str, Brought]]:
    """All that a place holds, with the app that wrote it ("": Cutaway, or a person)."""
    own = own_in(place)
    for name in own:
        yield from (("", each) for each in _own(place, name, now))
    claimed = set(own)
    for app in recognised(place) if not (own and place.kind == "file") else ():
        claimed.update(app.claimed)
        for brought in app.read(place):
            yield app.format.app, brought
    if claimed:
        yield from (("", each) for each in _unclaimed(place, claimed))
    elif presets := sampler_presets.of_a_file(place):
        yield from ((sampler_presets.APP, each) for each in presets)
    elif place.kind == "file":  # Markdown of anybody's, or what is refused in words
        yield from (("", each) for each in _own(place, place.entries[0].name, now))
    else:
        if place.unread:
            raise FileRefused(f"{place.name} can't be read. Check that it exists and is yours.")
        what = "a folder" if place.kind == "folder" else "an archive"
        raise FileRefused(f"{place.name} is {what} without chats that Cutaway can read.")


def _own(place: Place, name: str, now: datetime) -> Iterator[Brought]:
    """Of a file that Cutaway wrote. In a folder or archive a bad one costs a sentence."""
    found = ImportPreview(now)
    try:
        with place.open(name) as file:
            shown = place.name if place.kind == "file" else shown_name(name)
            chats = _own_chats(cast(BinaryIO, file), place.head(name, 64), shown, now, found)
            yield from found.folders
            yield from found.presets
            yield from chats
    except FileRefused as refused:
        if place.kind == "file":
            raise
        yield NotUnderstood(str(refused), place.name)


def _unclaimed(place: Place, claimed: set[str]) -> Iterator[NotUnderstood]:
    for name in place.named(".json"):
        if name not in claimed:
            yield NotUnderstood("Files without chats", name)
    for name in place.unread:
        yield NotUnderstood("Files and folders that can't be read", name)
    if place.is_cut:
        yield NotUnderstood("Files beyond the first 200,000, or too deep in folders", place.name)


def _own_chats(
    file: BinaryIO, beginning: bytes, name: str, now: datetime, found: ImportPreview
) -> Iterable[WholeConversation]:
    is_json = beginning.lstrip(b"\xef\xbb\xbf \t\r\n").startswith((b"{", b"["))
    if not is_json and not name.lower().endswith(".json"):
        return [_markdown(file, name, now)]
    head, chats = json_file.read(file, name)
    found.folders += folders_of(head)
    found.presets += presets_of(head)
    return chats


def _markdown(file: BinaryIO, name: str, now: datetime) -> WholeConversation:
    raw = file.read(MAX_MARKDOWN_BYTES + 1)
    if len(raw) > MAX_MARKDOWN_BYTES:
        raise FileRefused(
            f"{name} is larger than {bytes_words(MAX_MARKDOWN_BYTES)}, too large for a Markdown "
            "chat."
        )
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise FileRefused(
            f"{name} is neither a JSON chat nor UTF-8 text. Choose an exported file."
        ) from error
    if markdown_format.is_ours(text):
        return markdown_format.read(text, name, now)
    return markdown_foreign.read(text, name, now)
