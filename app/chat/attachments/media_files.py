"""The bytes of pictures and sounds that are in use: read from the store when a prompt or a drawing
needs them, and held as long as there is room.

What must hold: no more than `MAX_HELD_BYTES` stay in memory, however many a chat has; and what goes
into one prompt is what `chosen` says, the newest first, so that whoever reads the bytes and whoever
builds the prompt mean the same ones. The others stand in the prompt as a line that names them
(`attached_text`).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from typing import Final, TypeVar

from app.chat.attachments.kinds import MEDIA, PICTURE
from app.chat.attachments.media_details import media_details
from app.chat.attachments.sight import sense_of, why_unseen
from app.chat.surroundings import ALWAYS, Still, Surroundings
from app.engine.protocol.loading_messages import Loaded
from app.engine.protocol.media_messages import MAX_MEDIA, MAX_SENT_BYTES, Media
from app.pictures.client import Pictures
from app.pictures.kinds import HEAD_BYTES, picture_type
from app.pictures.messages import PictureDrawn
from models.records import Attachment, File, Message

T = TypeVar("T")

MAX_HELD_BYTES: Final = 2 * MAX_SENT_BYTES
_ENGINE_READS: Final = frozenset({"image/png", "image/jpeg"})


class MediaFiles:
    """Of all chats. Methods are called on the owner's thread."""

    def __init__(self, around: Surroundings) -> None:
        self._around = around
        self._held: OrderedDict[str, bytes] = OrderedDict()
        self._sizes: dict[str, int] = {}
        """Of those that were read: what was made ready here is not as large as its record says."""
        self._lost: set[str] = set()
        self._coming: dict[str, list[tuple[Callable[[], None], Callable[[str], None]]]] = {}
        self.pictures: Final = Pictures()

    def close(self) -> None:
        """Nothing more is read or drawn."""
        self.pictures.close()

    # --- held -----------------------------------------------------------------------------------

    def keep(self, attachment_id: str, data: bytes) -> None:
        """These are its bytes."""
        self._lost.discard(attachment_id)
        self._held[attachment_id] = data
        self._sizes[attachment_id] = len(data)
        self._held.move_to_end(attachment_id)
        size = sum(map(len, self._held.values()))
        while size > MAX_HELD_BYTES and len(self._held) > 1:
            _, oldest = self._held.popitem(last=False)
            size -= len(oldest)

    def forget(self, attachment_ids: Iterable[str]) -> None:
        """They are gone: of a temporary chat, or deleted."""
        for each in attachment_ids:
            self._held.pop(each, None)
            self._sizes.pop(each, None)

    def chosen(self, attachments: Iterable[Attachment]) -> list[Attachment]:
        """What goes into one prompt, the newest first."""
        found: list[Attachment] = []
        size = 0
        for each in reversed(list(attachments)):
            if each.kind in MEDIA:
                size += self._sizes.get(each.id, each.size_bytes)
                if size > MAX_SENT_BYTES or len(found) == MAX_MEDIA:
                    break
                found.append(each)
        return found

    def is_held(self, attachments: Iterable[Attachment]) -> bool:
        """Whether a prompt can be built from them now."""
        return not self._missing(attachments)

    def _missing(self, attachments: Iterable[Attachment]) -> list[Attachment]:
        known = self._held.keys() | self._lost
        return [each for each in self.chosen(attachments) if each.id not in known]

    def hold(
        self,
        attachments: Sequence[Attachment],
        then: Callable[[], None],
        failed: Callable[[str], None],
        *,
        still: Still,
    ) -> None:
        """Call `then` when what goes into a prompt is there: at once, or when it was read."""
        missing = self._missing(attachments)
        left = len(missing)
        if not left:
            then()
            return
        is_failed = False

        def count() -> None:
            nonlocal left
            left -= 1
            if not left and not is_failed and still():
                # What was made ready may be more than there is room for, and others be chosen now.
                self.hold(attachments, then, failed, still=still)

        def fail(sentence: str) -> None:
            nonlocal is_failed
            if not is_failed:
                is_failed = True
                failed(sentence)

        for each in reversed(missing):  # the newest last: what comes last is held longest
            self._read(each, count, fail)

    def _read(
        self, attachment: Attachment, then: Callable[[], None], failed: Callable[[str], None]
    ) -> None:
        assert self._around.store is not None
        waiting = self._coming.setdefault(attachment.id, [])
        waiting.append((then, failed))
        if len(waiting) > 1:
            return

        def settle(data: bytes | None) -> None:
            if data is None:
                self._lost.add(attachment.id)
            else:
                self.keep(attachment.id, data)
            for has_come, _ in self._coming.pop(attachment.id):
                has_come()

        def fail(sentence: str) -> None:
            for _, has_failed in self._coming.pop(attachment.id):
                has_failed(sentence)

        def take(file: File | None) -> None:
            if file is not None and attachment.kind == PICTURE and _is_foreign(attachment, file[1]):
                # Another program's: it may be of any size and form, and say anything.
                asked = self.pictures.prepare(file[1], self._around.settings.picture_side)
                self._settle(asked, lambda found: settle(found.data if found else None))
            else:
                settle(file[1] if file is not None else None)

        self._around.when_done(
            self._around.store.load_file(attachment.id), take, fail, still=ALWAYS
        )

    def _settle(self, asked: Future[T], then: Callable[[T | None], None]) -> None:
        """None where it cannot be read, which is no fault of anybody here."""

        def give(done: Future[T]) -> None:
            with suppress(CancelledError):
                found = None if done.exception() is not None else done.result()
                self._around.hand_over(lambda: then(found), ALWAYS)

        asked.add_done_callback(give)

    # --- for a prompt ---------------------------------------------------------------------------

    def for_prompt(
        self, attachments: Iterable[Attachment], loaded: Loaded | None
    ) -> Mapping[str, Media]:
        """What the loaded weights are given, by the attachments' ids."""
        return {
            each.id: Media(each.id, sense_of(each.kind), data)
            for each in self.chosen(attachments)
            if (data := self._held.get(each.id)) is not None and not why_unseen(loaded, each.kind)
        }

    # --- for the eye ----------------------------------------------------------------------------

    def load(self, attachment_id: str, then: Callable[[File | None], None]) -> None:
        """The file as it is stored; None where it is lost. Not held: whoever looks has it."""
        if self._around.store is None:
            then(None)
            return
        self._around.when_done(
            self._around.store.load_file(attachment_id), then, lambda _: then(None), still=ALWAYS
        )

    def draw(
        self,
        attachment_id: str,
        width: int,
        height: int,
        then: Callable[[PictureDrawn | None], None],
        *,
        still: Still,
    ) -> None:
        """The pixels of a picture, for the window; None where it cannot be read."""

        def drawn(data: bytes) -> None:
            self._settle(self.pictures.draw(data, width, height), then)

        def take(file: File | None) -> None:
            if file is None:
                then(None)
            elif still():  # it may have left the screen while it was read
                drawn(file[1])
            else:
                then(None)

        held = self._held.get(attachment_id)
        if held is not None:
            drawn(held)
        else:
            self.load(attachment_id, take)


def media_of(messages: Iterable[Message]) -> list[Attachment]:
    """The pictures and sounds of a path, in its order."""
    return [each for message in messages for each in message.attachments if each.kind in MEDIA]


def media_of_draft(attachments: Iterable[Attachment]) -> list[Attachment]:
    return [each for each in attachments if each.kind in MEDIA]


def _is_foreign(attachment: Attachment, data: bytes) -> bool:
    """Whether it was not made ready here: what was has its size with it."""
    is_read = picture_type(data[:HEAD_BYTES]) in _ENGINE_READS
    return not is_read or media_details(attachment).size is None
