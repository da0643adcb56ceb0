"""Settles what of documents goes along with a message: after it is stored, before it is answered.

What must hold:

* Enter is never slower for it: the message is on disk and on screen before anything is searched.
* Parts are chosen once for a message, and stored with it. A retry, a continuation and another
  answer are given the same ones; who wants others has the question searched again, as another
  version of it.
* Whatever fails, the message is answered all the same, with what could be found.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from app.chat.attachments.attached_text import block_of
from app.chat.attachments.document_parts import (
    BY_MEANING,
    PARTS,
    follow_up,
    is_of_another,
    mode_of,
    searched_in,
    sent_of,
    with_sent,
)
from app.chat.conversations.shelf import Shelf, new_id
from app.chat.events import PartsSought
from app.chat.inspection.questions import Questions
from app.chat.retrieval.choosing import decided
from app.chat.retrieval.search import Found, PartsSearch, budget_of, question_of, together
from app.chat.surroundings import ALWAYS, Still, Surroundings
from app.engine.protocol.messages import CountPrompt, PromptCount
from app.engine.protocol.prompt_messages import TextPrompt
from models.records import Attachment, Message, Role
from models.store.store import Store

SEARCHING: Final = "Searching “{name}”…"
READING: Final = "Reading “{name}” for its meaning: {done:,} of {total:,} parts…"

Then = Callable[[tuple[Message, ...]], None]


class PartsBeforeReply:
    def __init__(
        self, around: Surroundings, shelf: Shelf, search: PartsSearch, questions: Questions
    ) -> None:
        self._around = around
        self._shelf = shelf
        self._search = search
        self._questions = questions
        self._hurried: set[str] = set()
        self._find_anew: dict[str, Callable[[], None]] = {}
        self._running: dict[str, Message] = {}

    @property
    def _store(self) -> Store:
        assert self._around.store is not None
        return self._around.store

    def wanted(self, path: Sequence[Message], *, is_new: bool) -> bool:
        """Whether something is to be searched before the message that `path` ends with is
        answered. `is_new`: it has not been answered before."""
        if not path or path[-1].role is not Role.USER or not self._around.can_write:
            return False
        last = path[-1]
        own = self._decided(last, is_new=is_new)
        is_open = own != [*last.attachments] or any(_is_open(each, is_new=is_new) for each in own)
        return is_open or bool(is_new and _later(path))

    def _decided(self, message: Message, *, is_new: bool) -> list[Attachment]:
        n_ctx = self._search.n_ctx
        return [decided(each, n_ctx) if is_new else each for each in message.attachments]

    def hurry(self, conversation_id: str) -> None:
        """Somebody would rather have it searched by words than wait; not even for the vectors that
        are being made."""
        self._hurried.add(conversation_id)
        if find := self._find_anew.get(conversation_id):
            find()

    def stop(self, conversation_id: str) -> None:
        """Nobody waits for it any more."""
        self._find_anew.pop(conversation_id, None)
        message = self._running.pop(conversation_id, None)
        if message is not None:
            self._around.emit(PartsSought(conversation_id, message.id))

    def prepare(self, path: tuple[Message, ...], then: Then, *, is_new: bool, still: Still) -> None:
        """Choose the parts and store them; `then` gets the path with them."""
        message = path[-1]
        own = self._decided(message, is_new=is_new)
        asked = [m.content for m in path if m.role is Role.USER and m.content.strip()]
        question = question_of(asked if message.content.strip() else [])
        work = [each for each in own if _is_open(each, is_new=is_new)]
        later = _later(path) if is_new and question else []
        budget = budget_of(self._search.n_ctx)
        share = budget // max(1, len(work) + len(later))
        found: dict[str, Found] = {}
        queue = [*work, *later]
        n_tries = 0
        self._hurried.discard(message.conversation_id)

        def is_newest(number: int) -> bool:
            return still() and number == n_tries

        def next_one() -> None:
            if queue:
                look(queue.pop(0))
                return
            self.stop(message.conversation_id)
            fitting = [each for each in later if not found[each.id].is_beginning]
            all_ = [(each, found[each.id]) for each in (*work, *fitting)]
            answers = together(all_, budget)
            by_id = {each.id: a for (each, _), a in zip(all_, answers, strict=True)}
            self._keep(path, own, fitting, by_id, question, then, still)

        def look(document: Attachment) -> None:
            def take(answer: Found) -> None:
                found[document.id] = answer
                next_one()

            kept = sent_of(document) if document.details.get("question") == question else None
            by = str(document.details.get("by", ""))
            is_best = by == BY_MEANING or not self._around.settings.embedding_model
            if document in work and kept is not None and by and is_best:  # while it was typed
                take(Found(kept, by))
                return
            self._tell(message, SEARCHING.format(name=document.name), still)

            def tell(done: int, total: int) -> None:
                sentence = READING.format(name=document.name, done=done, total=total)
                self._tell(message, sentence, still, is_slow=True)

            def find() -> None:
                nonlocal n_tries
                n_tries += 1
                self._search.find(
                    document,
                    question,
                    share,
                    take,
                    still=partial(is_newest, n_tries),
                    told=tell,
                    by_words=lambda: message.conversation_id in self._hurried,
                )

            self._find_anew[message.conversation_id] = find
            find()

        next_one()

    def _tell(
        self, message: Message, sentence: str, still: Still, *, is_slow: bool = False
    ) -> None:
        if still():
            self._running[message.conversation_id] = message
            sought = PartsSought(message.conversation_id, message.id, sentence, is_slow)
            self._around.emit(sought)

    def _keep(
        self,
        path: tuple[Message, ...],
        own: Sequence[Attachment],
        later: Sequence[Attachment],
        found: dict[str, Found],
        question: str,
        then: Then,
        still: Still,
    ) -> None:
        """With the message, in the store and on screen."""
        message = path[-1]
        attached: list[Attachment] = []
        for each in own:
            if each.id in found:
                answer = found[each.id]
                each = with_sent(each, answer.parts, question=question, by=answer.by)
                self._around.saved(
                    self._store.update_attachment(each.id, details=each.details, tokens=None)
                )
                each = dataclasses.replace(each, tokens=None)
            attached.append(each)
        for document in later:
            answer = found[document.id]
            if not answer.parts:
                continue  # nothing of it fits this question, or others fit better
            part = follow_up(document, answer.parts, message, new_id(), len(attached))
            part = with_sent(part, answer.parts, question=question, by=answer.by)
            self._around.saved(self._store.create_attachment(part))
            attached.append(part)
        for each, before in zip(own, message.attachments, strict=True):
            if each.details != before.details and each.id not in found:
                changed_ = self._store.update_attachment(
                    each.id, details=each.details, tokens=each.tokens
                )
                self._around.saved(changed_)
        changed = dataclasses.replace(message, attachments=tuple(attached))
        shown = self._shelf.message(message.id)
        if shown is not None:
            self._shelf.update(dataclasses.replace(shown, attachments=changed.attachments))
        self._count(changed)
        if still():
            then((*path[:-1], changed))

    def _count(self, message: Message) -> None:
        """What they cost, measured; a server isn't asked."""
        for each in message.attachments:
            if each.tokens is None and mode_of(each) == PARTS:
                self._questions.ask(
                    CountPrompt(0, TextPrompt(block_of(each))),
                    PromptCount,
                    partial(self._take_count, message.id, each),
                    lambda _sentence: None,  # it stays without a figure
                    still=ALWAYS,  # a fact about a stored text
                )

    def _take_count(self, message_id: str, attachment: Attachment, count: PromptCount) -> None:
        n_tokens = count.n_tokens
        self._around.saved(self._store.update_attachment(attachment.id, tokens=n_tokens))
        shown = self._shelf.message(message_id)
        if shown is not None:
            attached = tuple(
                dataclasses.replace(each, tokens=n_tokens) if each.id == attachment.id else each
                for each in shown.attachments
            )
            self._shelf.update(dataclasses.replace(shown, attachments=attached))


def _is_open(attachment: Attachment, *, is_new: bool) -> bool:
    """Whether its parts are to be looked for."""
    if is_of_another(attachment):
        return False
    return mode_of(attachment) == PARTS and (is_new or "sent" not in attachment.details)


def _later(path: Sequence[Message]) -> list[Attachment]:
    """Documents of earlier messages that are searched for this one, too."""
    given = {each.details.get("of") for each in path[-1].attachments}
    return [each for each in searched_in(path[:-1]) if each.id not in given]
