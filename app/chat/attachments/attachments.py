"""Texts that go along with the next message: pasted or dropped, counted, kept with the draft.

What must hold:

* An attachment is in the database before it is shown as one, and stays with its conversation's
  draft until it is sent or removed; a removal can be undone.
* Files are read, and tokens counted, away from the owner's thread. From the moment that something
  is given, or a draft is opened, until it is there or refused it is said to be coming: a message
  waits for it.
* A file that cannot be attached costs one sentence and changes nothing; several that were given
  together are summed up in one notice.
* Where a file's encoding was guessed its bytes are kept until it is sent or the app ends, and
  another one can be chosen.
"""

from __future__ import annotations

import dataclasses
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Final

from app.chat.attachments.attached_text import block_of
from app.chat.attachments.document_parts import without_found
from app.chat.attachments.documents import read_file
from app.chat.attachments.kinds import AUDIO, PICTURE
from app.chat.attachments.media_files import media_of, media_of_draft
from app.chat.attachments.pictures import (
    PASTED_NAME as PASTED_PICTURE,
    picture_file,
    read_media,
    too_many,
)
from app.chat.attachments.sight import why_unseen
from app.chat.attachments.text_files import (
    FileRefused,
    Guess,
    TextFile,
    guess_words,
    read_as,
    read_text_file,
    refusal_words,
)
from app.chat.conversations.shelf import Shelf, new_id
from app.chat.events import AttachmentsChanged, DocumentReached, Noticed
from app.chat.inspection.questions import Questions
from app.chat.replies.prompts import clean_message
from app.chat.surroundings import ALWAYS, Surroundings, now
from app.chat.weights.loading import Loader
from app.engine.protocol.loading_messages import Loaded
from app.engine.protocol.media_messages import MAX_SENT_BYTES
from app.engine.protocol.messages import CountPrompt, PromptCount
from app.engine.protocol.prompt_messages import ChatMessage, ChatPrompt, TextPrompt
from app.reading.client import Reading
from app.reading.files import shown_name
from models.records import Attachment, File, Message
from models.store.store import Store

MAX_ATTACHMENTS: Final = 50
PASTED_NAME: Final = "Pasted text"
ABOVE: Final = {
    PICTURE: "The loaded model can't see the pictures of this chat. It is only told their names.",
    AUDIO: "The loaded model can't hear the sounds of this chat. It is only told their names.",
}
LEFT_KIND: Final = "You left the chat before the file was read"
LEFT_SENTENCE: Final = "“{name}” wasn't attached: you left its chat before the file was read."


class Attachments:
    """The attachments of all drafts. `on_changed` is told when those on screen are others."""

    def __init__(
        self,
        around: Surroundings,
        shelf: Shelf,
        loader: Loader,
        questions: Questions,
        on_changed: Callable[[], None],
    ) -> None:
        self._around = around
        self._shelf = shelf
        self._loader = loader
        self._questions = questions
        self._on_changed = on_changed
        self._drafts: dict[str, list[Attachment]] = {}
        self._left: set[str] = set()
        self._coming: Counter[str] = Counter()
        self._reading = ""
        self._counted_with: dict[str, str] = {}
        self._is_counting = False
        self._guesses: dict[str, Guess] = {}
        self._sources: dict[str, str] = {}
        self._new_reading: Callable[[], Reading] = Reading
        self._readings: dict[str, Reading] = {}  # of chats that something is coming to
        self.on_counted: Callable[[Attachment, int], None] = lambda attachment, n_tokens: None

    def close(self) -> None:
        """Nothing more is read."""
        for reading in self._readings.values():
            reading.end()

    @property
    def _store(self) -> Store:
        assert self._around.store is not None
        return self._around.store

    def of_draft(self, conversation_id: str) -> tuple[Attachment, ...]:
        return tuple(self._drafts.get(conversation_id, ()))

    @property
    def of_open(self) -> tuple[Attachment, ...]:
        """Of the draft on screen."""
        return self.of_draft(self._shelf.open.id)

    # --- acts -----------------------------------------------------------------------------------

    def add_paste(self, text: str) -> bool:
        """A long text from the clipboard. False: it was not taken (the text stays where it is)."""
        text = clean_message(text)
        if not text.strip() or not self._has_room(1, self._shelf.open.id):
            return False
        taken = {each.name for each in self.of_draft(self._shelf.open.id)}
        names = (
            f"{PASTED_NAME} {number}" if number > 1 else PASTED_NAME for number in range(1, 99)
        )
        name = next((name for name in names if name not in taken), PASTED_NAME)
        self._add(self._shelf.open.id, TextFile(name, text, len(text.encode())))
        return True

    def add_text(self, name: str, text: str, conversation_id: str) -> bool:
        """A text that a tool server had. False: it is not taken, and why is said."""
        text = clean_message(text)
        if not self._has_room(1, conversation_id):
            return False
        return self._add(conversation_id, TextFile(name, text, len(text.encode())))

    def add_files(self, paths: Sequence[str], conversation_id: str = "") -> bool:
        """Read files beside the window; each becomes an attachment, or is refused in words.
        `conversation_id`: of the chat that they were given to, where that may be open no more.
        False: not one of them is taken."""
        conversation_id = conversation_id or self._shelf.open.id
        if not paths or not self._has_room(len(paths), conversation_id):
            return False
        longest = self._around.settings.picture_side
        read = partial(self._read, self._reading_for(conversation_id), conversation_id, longest)
        self._add_beside(conversation_id, [partial(read, path) for path in paths])
        return True

    def add_picture(self, data: bytes, raw_size: tuple[int, int] = (0, 0)) -> bool:
        """A picture out of the clipboard, or dropped by a program: its file, or RGBA pixels of this
        size. False: it is not taken."""
        conversation_id = self._shelf.open.id
        if not self._has_room(1, conversation_id):
            return False
        taken = {each.name for each in self.of_draft(conversation_id)}
        names = (f"{PASTED_PICTURE} {n}" if n > 1 else PASTED_PICTURE for n in range(1, 99))
        name = next((name for name in names if name not in taken), PASTED_PICTURE)
        pictures, longest = self._shelf.files.pictures, self._around.settings.picture_side
        read = partial(picture_file, name, data, pictures, longest, raw_size)
        self._add_beside(conversation_id, [read])
        return True

    def stop_reading(self, conversation_id: str) -> None:
        """What is not read yet of the files that were given to this chat is not attached."""
        if (reading := self._readings.pop(conversation_id, None)) is not None:
            reading.end()

    def _reading_for(self, conversation_id: str) -> Reading:
        return self._readings.setdefault(conversation_id, self._new_reading())

    def _read(self, reading: Reading, conversation_id: str, longest: int, path: str) -> TextFile:
        found = read_media(path, self._shelf.files.pictures, longest)
        if found is not None:
            return found

        def reached(done: int, total: int) -> None:
            event = DocumentReached(conversation_id, shown_name(path), done, total)
            self._around.hand_over(partial(self._around.emit, event), is_shown)

        def is_shown() -> bool:
            return conversation_id == self._shelf.open.id and self._coming[conversation_id] > 0

        return read_file(path, reading, reached)

    def _add_beside(self, conversation_id: str, readers: Sequence[Callable[[], TextFile]]) -> None:
        """Each reads one on a thread of its own, or raises FileRefused."""
        refused: list[FileRefused] = []
        guessed: list[TextFile] = []
        taken: list[TextFile] = []
        reading = self._reading_for(conversation_id)
        self.expect(conversation_id)

        def take(file: TextFile) -> None:
            if why := self._too_much(conversation_id, file):
                refused.append(FileRefused(file.name, "Too much at once", why))
                return
            if not self._add(conversation_id, file):
                sentence = LEFT_SENTENCE.format(name=file.name)
                refused.append(FileRefused(file.name, LEFT_KIND, sentence))
                return
            taken.append(file)
            if file.guess is not None:
                guessed.append(file)

        def say() -> None:
            if guessed:
                self._around.emit(Noticed("info", guess_words(guessed)))
            if notes := [file.note for file in taken if file.note]:
                self._around.emit(Noticed("info", "\n".join(notes)))
            if refused:
                self._refuse(refusal_words(refused))
            self.has_come(conversation_id, is_refused=len(taken) < len(readers))

        def read_all() -> None:
            try:
                for each in readers:
                    if not reading.is_ended:
                        read_one(each)
            finally:  # a fault of ours ends the waiting, too
                self._around.hand_over(say, ALWAYS)

        def read_one(read: Callable[[], TextFile]) -> None:
            try:
                file = read()
            except FileRefused as why:
                if not reading.is_ended:
                    self._around.hand_over(partial(refused.append, why), ALWAYS)
            else:
                self._around.hand_over(partial(take, file), ALWAYS)  # for the chat it was for

        threading.Thread(target=read_all, name="attached-files", daemon=True).start()

    def _too_much(self, conversation_id: str, file: TextFile) -> str:
        """Why a message cannot take one more picture or sound; empty: it can."""
        if file.file is None:
            return ""
        held = media_of_draft(self.of_draft(conversation_id))
        size = file.size_bytes + sum(each.size_bytes for each in held)
        return too_many(size, MAX_SENT_BYTES) if size > MAX_SENT_BYTES else ""

    def expect(self, conversation_id: str) -> None:
        """Something is on its way to this chat's draft; `has_come` once for each."""
        self._coming[conversation_id] += 1
        self._tell(conversation_id)

    def has_come(self, conversation_id: str, *, is_refused: bool = False) -> None:
        self._coming[conversation_id] -= 1
        if not self._coming[conversation_id]:
            self._readings.pop(conversation_id, None)
        self._tell(conversation_id, is_refused=is_refused)

    def encoding(self, attachment_id: str) -> str:
        """What a file's text was read as, where that was a guess; else ""."""
        guess = self._guesses.get(attachment_id)
        return "" if guess is None else guess.encoding

    def read_as(self, attachment_id: str, encoding: str) -> None:
        """Read a file of the draft again, whose encoding was guessed. `encoding`: a key of
        `text_files.ENCODINGS`."""
        guess = self._guesses.get(attachment_id)
        if guess is None or encoding == guess.encoding or self.find(attachment_id) is None:
            return
        self._guesses[attachment_id] = Guess(encoding, guess.raw)

        def read() -> None:
            text = read_as(guess, encoding)
            size = len(text.encode())
            self._around.hand_over(lambda: self._set_text(attachment_id, text, size), is_wanted)

        def is_wanted() -> bool:
            return self.encoding(attachment_id) == encoding and self.find(attachment_id) is not None

        threading.Thread(target=read, name="attached-files", daemon=True).start()

    def use_sources(self, attachment_ids: Sequence[str] = ()) -> None:
        """Attach the source of web pages in place of what one reads of them: of these, or of all in
        the draft on screen."""
        pages = [
            each
            for each in self.of_open
            if each.id in self._sources and (not attachment_ids or each.id in attachment_ids)
        ]
        if not pages:
            self._refuse("There is no page to take the source of. Attach its file again.")
            return

        def read(page: Attachment) -> TextFile:
            file = read_text_file(self._sources[page.id])
            gone = partial(self.remove, page.id, silently=True)
            self._around.hand_over(gone, lambda: self.find(page.id) is not None)
            return file

        self._add_beside(pages[0].conversation_id, [partial(read, page) for page in pages])

    def change(self, changed: Attachment, *, is_kept: bool = True) -> None:
        """Another choice of what goes in of a document of a draft. `is_kept`: it is stored; what
        was found for half a question need not be."""
        draft = self._drafts.get(changed.conversation_id, [])
        place = next((i for i, each in enumerate(draft) if each.id == changed.id), None)
        if place is None:
            return
        draft[place] = changed
        self._counted_with.pop(changed.id, None)
        if is_kept:
            self._around.saved(self._store.update_attachment(changed.id, details=changed.details))
        self._tell(changed.conversation_id)
        self.count_missing()

    def _set_text(self, attachment_id: str, text: str, size_bytes: int) -> None:
        attachment = self.find(attachment_id)
        assert attachment is not None
        details = without_found(attachment.details)
        changed = dataclasses.replace(
            attachment, text=text, size_bytes=size_bytes, tokens=None, details=details
        )
        draft = self._drafts[attachment.conversation_id]
        draft[draft.index(attachment)] = changed
        self._counted_with.pop(attachment_id, None)
        self._around.saved(
            self._store.update_attachment(
                attachment_id, text=text, size_bytes=size_bytes, tokens=None, details=details
            )
        )
        self._tell(attachment.conversation_id)
        self.count_missing()

    def _refuse(self, sentence: str) -> None:
        self._around.emit(Noticed("warning", sentence))

    def _has_room(self, n_more: int, conversation_id: str) -> bool:
        if not self._around.can_write or self._around.store is None:
            self._refuse(self._around.store_state.sentence or "Nothing can be attached yet.")
            return False
        n_held = len(self.of_draft(conversation_id))
        if n_held + n_more > MAX_ATTACHMENTS:
            what = "remove some" if n_held and n_more <= MAX_ATTACHMENTS else "attach fewer"
            self._refuse(f"A message takes at most {MAX_ATTACHMENTS} attachments: {what}.")
            return False
        return True

    def _add(self, conversation_id: str, file: TextFile) -> bool:
        """False: a new chat was left before it held anything, or the chat is in the trash."""
        if conversation_id == self._shelf.open.id:
            self._shelf.ensure_stored()
        elif not self._shelf.is_stored(conversation_id):
            return False
        held = self.of_draft(conversation_id)
        attachment = Attachment(
            id=new_id(),
            conversation_id=conversation_id,
            name=file.name,
            text=file.text,
            size_bytes=file.size_bytes,
            created_at=now(),
            position=held[-1].position + 1 if held else 0,
            kind=file.kind,
            details=file.details,
        )
        if file.guess is not None:
            self._guesses[attachment.id] = file.guess
        if file.source:
            self._sources[attachment.id] = file.source
        self._store_and_put(attachment, file.file)
        return True

    def _put(self, attachment: Attachment) -> None:
        self._left.discard(attachment.id)
        draft = self._drafts.setdefault(attachment.conversation_id, [])
        draft.append(attachment)
        draft.sort(key=lambda each: each.position)
        self._tell(attachment.conversation_id)
        self.count_missing()

    def remove(self, attachment_id: str, *, silently: bool = False) -> None:
        """Out of the draft, with a way back."""
        attachment = self.find(attachment_id)
        if attachment is None:
            return
        self._left.add(attachment_id)
        self._drafts[attachment.conversation_id].remove(attachment)
        removed = self._store.delete_attachment(attachment_id)
        self._around.saved(removed)
        self._tell(attachment.conversation_id)

        def put_back() -> None:
            take = partial(self._store_and_put, attachment)
            self._around.when_done(removed, take, still=ALWAYS)  # its bytes come out of the store

        if not silently:
            self._shelf.offer_undo(
                f"attachment {attachment_id}",
                f"“{attachment.name}” removed.",
                put_back,
            )

    def _store_and_put(self, attachment: Attachment, file: File | None = None) -> None:
        conversation_id = attachment.conversation_id
        self.expect(conversation_id)
        if file is not None:
            self._shelf.files.keep(attachment.id, file[1])

        def put(_stored: Attachment) -> None:
            self._put(attachment)
            self.has_come(conversation_id)

        def give_up(sentence: str) -> None:
            self._shelf.files.forget([attachment.id])
            self._around.emit(Noticed("error", sentence))
            self.has_come(conversation_id, is_refused=True)

        self._around.when_done(
            self._store.create_attachment(attachment, file),
            put,
            give_up,
            still=self._shelf.unless_ended(conversation_id),
        )

    def take_as_text(self, attachment_id: str) -> str:
        """Its text; it is no attachment any more."""
        attachment = self.find(attachment_id)
        if attachment is None:
            return ""
        self.remove(attachment_id, silently=True)
        return attachment.text

    def find(self, attachment_id: str) -> Attachment | None:
        """An attachment of any draft."""
        found = (a for draft in self._drafts.values() for a in draft if a.id == attachment_id)
        return next(found, None)

    def take(self, conversation_id: str) -> tuple[Attachment, ...]:
        """They go with a message now, and are no part of the draft any more."""
        taken = tuple(self._drafts.pop(conversation_id, ()))
        for attachment in taken:
            self._guesses.pop(attachment.id, None)
        self._left |= {each.id for each in taken}
        if taken:
            self._tell(conversation_id)
        return taken

    def withdraw(self, attachment_id: str) -> None:
        """It goes back to the queued message that it came from."""
        attachment = self.find(attachment_id)
        if attachment is not None:
            self._left.add(attachment_id)
            self._drafts[attachment.conversation_id].remove(attachment)
            self._tell(attachment.conversation_id)

    def forget(self, conversation_id: str) -> None:
        """A temporary chat is gone, with what its draft held."""
        self.stop_reading(conversation_id)
        self._coming.pop(conversation_id, None)
        for attachment in self._drafts.pop(conversation_id, ()):
            self._guesses.pop(attachment.id, None)
            self._shelf.files.forget([attachment.id])

    def give_back(self, attachments: Iterable[Attachment]) -> None:
        """Of a message that was not sent after all."""
        for attachment in attachments:
            self._put(attachment)

    # --- following ------------------------------------------------------------------------------

    def read_draft(self, conversation_id: str) -> None:
        """A conversation came on screen: what its draft holds."""
        is_stored = self._around.store is not None and self._shelf.is_stored(conversation_id)
        self._reading = conversation_id if is_stored else ""
        self._tell(conversation_id)
        if not is_stored:
            return

        def take(found: tuple[Attachment, ...]) -> None:
            self._reading = ""
            # What was sent, queued or removed since it was asked for is in the draft no longer.
            mine = [a for a in found if a.message_id is None and a.id not in self._left]
            known = {each.id: each for each in self.of_draft(conversation_id)}
            merged = {each.id: each for each in mine} | known
            if merged:
                self._drafts[conversation_id] = sorted(merged.values(), key=lambda a: a.position)
            self._tell(conversation_id)
            self.count_missing()

        def give_up(sentence: str) -> None:
            self._reading = ""
            self._around.emit(Noticed("error", sentence))
            self._tell(conversation_id, is_refused=True)

        self._around.when_done(
            self._store.list_attachments(conversation_id),
            take,
            give_up,
            still=self._shelf.while_open(),
        )

    def _tell(self, conversation_id: str, *, is_refused: bool = False) -> None:
        if conversation_id == self._shelf.open.id:
            held = self.of_draft(conversation_id)
            is_coming = self._coming[conversation_id] > 0 or self._reading == conversation_id
            unseen = self.why_unseen(held) or self._why_unseen_above()
            self._around.emit(
                AttachmentsChanged(conversation_id, held, is_coming, is_refused, unseen)
            )
            self._on_changed()

    def why_unseen(self, attachments: Iterable[Attachment]) -> str:
        """Why the loaded weights get nothing of one of these; empty: they get all."""
        loaded = self._loader.loaded
        return next(filter(None, (why_unseen(loaded, each.kind) for each in attachments)), "")

    def may_be_sent(self, attachments: Iterable[Attachment]) -> bool:
        """False, and why is said: somebody who sends a picture wants it to be seen."""
        why = self.why_unseen(attachments)
        if why:
            self._refuse(why)
        return not why

    def say_unseen(self, message: Message) -> None:
        """Of a message that is sent now, or answered once more, by weights that came meanwhile."""
        if why := self.why_unseen(message.attachments):
            self._around.emit(Noticed("warning", why))

    def _why_unseen_above(self) -> str:
        """The same of the chat's messages."""
        loaded = self._loader.loaded
        kinds = {each.kind for each in media_of(self._shelf.path)}
        return next((ABOVE[kind] for kind in sorted(kinds) if why_unseen(loaded, kind)), "")

    # --- counting -------------------------------------------------------------------------------

    def count_missing(self) -> None:
        """Count what the weights that are loaded have not counted, one text at a time."""
        loaded = self._loader.loaded
        if self._is_counting or loaded is None or self._loader.is_loading:
            return
        if media_of_draft(self.of_open) or media_of(self._shelf.path):
            self._tell(self._shelf.open.id)
        if loaded.remote is not None:
            # A server is not given what nobody has sent; what another model counted is not true.
            for attachment in self.of_open:
                self._counted_with.pop(attachment.id, None)
                self._set_tokens(attachment, None)
            return
        for attachment in self.of_open:
            projector = loaded.projector.path if loaded.projector is not None else ""
            counter = f"{loaded.path}\n{projector}"
            if self._counted_with.get(attachment.id) == counter:
                continue
            self._counted_with[attachment.id] = counter
            if why_unseen(loaded, attachment.kind):
                self._set_tokens(attachment, None)
                continue
            self._is_counting = True
            count = partial(self._count, attachment, loaded)
            # It stays without a figure where it cannot be read, or not be counted.
            self._shelf.files.hold(
                media_of_draft([attachment]), count, lambda _: self._count_on(), still=ALWAYS
            )
            return

    def _count(self, attachment: Attachment, loaded: Loaded) -> None:
        """By the engine: of a picture, what it adds to a prompt, with what the model reads around
        its cells."""
        media = [*self._shelf.files.for_prompt([attachment], loaded).values()]
        if not media:
            text = TextPrompt(block_of(attachment))
            self._ask_count(text, partial(self._take_count, attachment))
            return

        def count_both(bare: PromptCount) -> None:
            seeing = ChatPrompt([ChatMessage("user", "?", media=media)])
            self._ask_count(seeing, partial(self._take_count, attachment, bare=bare.n_tokens))

        self._ask_count(ChatPrompt([ChatMessage("user", "?")]), count_both)

    def _ask_count(
        self, prompt: TextPrompt | ChatPrompt, then: Callable[[PromptCount], None]
    ) -> None:
        self._questions.ask(
            CountPrompt(0, prompt),
            PromptCount,
            then,
            lambda _sentence: self._count_on(),
            still=ALWAYS,  # the next one may be counted
        )

    def _take_count(self, attachment: Attachment, count: PromptCount, bare: int = 0) -> None:
        self._set_tokens(attachment, max(0, count.n_tokens - bare))
        now = self.find(attachment.id)
        if now is not None and _is_same(now, attachment):
            self.on_counted(now, count.n_tokens)
        self._count_on()

    def _count_on(self) -> None:
        self._is_counting = False
        self.count_missing()

    def _set_tokens(self, attachment: Attachment, tokens: int | None) -> None:
        """Unless its text is another one by now: a file that was read again."""
        draft = self._drafts.get(attachment.conversation_id, [])
        for place, each in enumerate(draft):
            if _is_same(each, attachment) and each.tokens != tokens:
                draft[place] = dataclasses.replace(each, tokens=tokens)
                self._around.saved(self._store.update_attachment(each.id, tokens=tokens))
                self._tell(attachment.conversation_id)
        if attachment.id in self._left and tokens is not None:
            self._set_tokens_sent(attachment.id, tokens)

    def _set_tokens_sent(self, attachment_id: str, tokens: int) -> None:
        """It was sent before it was counted."""
        for message in self._shelf.path:
            if any(a.id == attachment_id and a.tokens is None for a in message.attachments):
                counted = tuple(
                    dataclasses.replace(a, tokens=tokens) if a.id == attachment_id else a
                    for a in message.attachments
                )
                self._shelf.update(dataclasses.replace(message, attachments=counted))
                self._around.saved(self._store.update_attachment(attachment_id, tokens=tokens))


def _is_same(one: Attachment, other: Attachment) -> bool:
    """Whether what was counted of one is true of the other."""
    return (one.id, one.text, one.details) == (other.id, other.text, other.details)
