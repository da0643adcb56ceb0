"""The documents of a draft: whole, pages or parts, the cost, and which parts would go in now.

What must hold: what the composer, the context meter and the prompt panel show of a draft is what
would be sent, as far as it is known; a choice of a person's is kept and never changed by the app.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import Final

from app.chat.attachments.attached_text import block_of
from app.chat.attachments.attachments import Attachments
from app.chat.attachments.document_parts import (
    PAGES,
    PARTS,
    SEARCHABLE,
    WHOLE,
    WHOLE_TOKENS,
    follow_up,
    mode_of,
    n_tokens_of,
    pages_chosen,
    searched_in,
    sent_of,
    whole_tokens,
    with_sent,
)
from app.chat.conversations.shelf import Shelf, new_message
from app.chat.events import Noticed, PartsFound
from app.chat.inspection.questions import Questions
from app.chat.retrieval.choosing import CHOSEN, decided, is_open
from app.chat.retrieval.search import Found, PartsSearch, budget_of, question_of, together
from app.chat.surroundings import Surroundings
from app.chat.weights.loading import Loader
from app.engine.protocol.messages import CountPrompt, PromptCount
from app.engine.protocol.prompt_messages import TextPrompt
from app.refusal import Refusal
from models.records import Attachment, ConversationKind, Role

SEARCH_DELAY_S: Final = 0.4
TOO_LONG: Final = (
    "“{name}” has {about}{tokens:,} tokens, {size}, so only the parts that fit your question are "
    "sent. You can change that above the message."
)
LARGER: Final = "more than the context window holds"
OVER_HALF: Final = "more than half of the context window"
LEFT: Final = "“{name}” isn't searched for later messages any more."


class DraftParts:
    """Of the draft on screen."""

    def __init__(
        self,
        around: Surroundings,
        shelf: Shelf,
        loader: Loader,
        questions: Questions,
        attachments: Attachments,
        search: PartsSearch,
        on_changed: Callable[[], None],
    ) -> None:
        """`on_changed`: what would go along is something else."""
        self._on_changed = on_changed
        self._around = around
        self._shelf = shelf
        self._loader = loader
        self._questions = questions
        self._attachments = attachments
        self._search = search
        self._number = 0
        self._asked = ""
        self._found: tuple[str, tuple[Attachment, ...]] = ("", ())
        attachments.on_counted = self._on_counted

    # --- choosing ---------------------------------------------------------------------------------

    def choose(self, attachment_id: str, mode: str, pages: str = "") -> str:
        """Send it whole, chosen pages ("1-3, 7") or parts. What is wrong with it, else ""."""
        attachment = self._attachments.find(attachment_id)
        if attachment is None:
            return ""
        kept = {
            name: value
            for name, value in attachment.details.items()
            if name not in ("sent", "question", "by")
        }
        if mode == WHOLE and attachment.tokens is not None and mode_of(attachment) == WHOLE:
            kept[WHOLE_TOKENS] = attachment.tokens
        changed = dataclasses.replace(
            attachment,
            details=kept | {"mode": mode, "pages": pages, CHOSEN: "person"},
            tokens=None,
        )
        if mode == PAGES:
            try:
                parts = pages_chosen(changed, pages)
            except Refusal as refused:
                return refused.sentence
            changed = with_sent(changed, parts)
        elif mode == PARTS:
            changed = with_sent(changed, [])
        self._attachments.change(changed)
        self._ask_again()
        return ""

    def _on_counted(self, attachment: Attachment, n_tokens: int) -> None:
        """The whole of a document was counted: whether that leaves room to talk."""
        if mode_of(attachment) != WHOLE or attachment.kind not in SEARCHABLE:
            return
        counted = dataclasses.replace(
            attachment, tokens=n_tokens, details=attachment.details | {WHOLE_TOKENS: n_tokens}
        )
        self._decide(attachment, counted, n_tokens)

    def _decide(
        self, attachment: Attachment, counted: Attachment, n_tokens: int, about: str = ""
    ) -> None:
        n_ctx = self._search.n_ctx
        changed = decided(counted, n_ctx)
        if changed.details == attachment.details:
            return
        if mode_of(changed) == PARTS:
            size = LARGER if n_tokens > n_ctx else OVER_HALF
            sentence = TOO_LONG.format(name=changed.name, about=about, tokens=n_tokens, size=size)
            self._around.emit(Noticed("info", sentence))
            changed = with_sent(changed, [])
        self._attachments.change(changed)
        self._ask_again()

    def leave(self, attachment_id: str) -> None:
        """A document of an earlier message is not searched for later ones any more; with a way
        back."""
        if not self._around.may_write():
            return

        def come_back() -> None:
            self._set_asked(attachment_id, "on")

        if name := self._set_asked(attachment_id, "off"):
            sentence = LEFT.format(name=name)
            self._shelf.offer_undo(f"document {attachment_id}", sentence, come_back)

    def _set_asked(self, attachment_id: str, value: str) -> str:
        """Returns its name; empty where it is not on screen any more."""
        assert self._around.store is not None
        for message in self._shelf.path:
            for each in message.attachments:
                if each.id != attachment_id:
                    continue
                changed = dataclasses.replace(each, details=each.details | {"asked": value})
                attached = tuple(
                    changed if other.id == attachment_id else other for other in message.attachments
                )
                written = self._around.store.update_attachment(each.id, details=changed.details)
                self._around.saved(written)
                self._shelf.update(dataclasses.replace(message, attachments=attached))
                self._ask_again()
                return each.name
        return ""

    # --- what would go in -------------------------------------------------------------------------

    def of_earlier(self) -> tuple[Attachment, ...]:
        """Parts of documents of earlier messages that would go along with the draft."""
        conversation_id, found = self._found
        return found if conversation_id == self._shelf.open.id else ()

    def refresh_soon(self) -> None:
        """The draft, its attachments or the path are others."""
        self._around.alarms.set("parts", SEARCH_DELAY_S, self._refresh)

    def _refresh(self) -> None:
        chat = self._shelf.open
        if chat.kind is ConversationKind.TEXT or self._around.is_closing:
            return
        self._choose_anew()
        own = [each for each in self._attachments.of_open if mode_of(each) == PARTS]
        draft = self._shelf.draft
        later = searched_in(self._shelf.path) if draft.strip() else []
        said = [m.content for m in self._shelf.path if m.role is Role.USER and m.content.strip()]
        question = question_of([*said, draft]) if draft.strip() else ""
        budget, model = budget_of(self._search.n_ctx), self._around.settings.embedding_model
        ids = [(each.id, hash(each.text)) for each in (*own, *later)]
        asked = repr((chat.id, question, ids, len(own), budget, model))
        if asked == self._asked:
            return
        self._asked = asked
        self._number = number = self._number + 1
        if not own and not later:
            self._show(())
            return
        found: list[tuple[Attachment, Found]] = []
        queue = [*own, *later]
        share = budget // len(queue)

        def is_newest() -> bool:
            return number == self._number and chat.id == self._shelf.open.id

        def next_one() -> None:
            if not queue:
                show()
                return
            document = queue.pop(0)

            def take(answer: Found) -> None:
                if document in own or not answer.is_beginning:
                    found.append((document, answer))
                next_one()

            self._search.find(
                document, question, share, take, still=is_newest, when_ready=self._ask_again
            )

        def show() -> None:
            message, parts = new_message(chat.id, None, draft), list[Attachment]()
            answers = together(found, budget)
            for (document, _), answer in zip(found, answers, strict=True):
                if document in own:
                    self._put(document, answer, question)
                elif answer.parts:
                    part = follow_up(document, answer.parts, message, document.id, len(parts))
                    parts.append(with_sent(part, answer.parts, question=question, by=answer.by))
            self._show(tuple(parts))

        next_one()

    def _choose_anew(self) -> None:
        """What the app chose: a server counts nothing that is not sent, and another model may have
        another window."""
        if self._loader.loaded is None:
            return
        for each in self._attachments.of_open:
            counted = whole_tokens(each)
            if is_open(each) and (counted is not None or self._loader.remote is not None):
                about = "about " if counted is None else ""
                self._decide(each, each, n_tokens_of(each), about)

    def _ask_again(self) -> None:
        """By meaning now, where it was by words."""
        self._asked = ""
        self.refresh_soon()

    def _put(self, document: Attachment, answer: Found, question: str) -> None:
        now = self._attachments.find(document.id)
        if now is None or mode_of(now) != PARTS:
            return
        if not sent_of(now):  # it was counted with nothing in it
            now = dataclasses.replace(now, tokens=None)
        changed = with_sent(now, answer.parts, question=question, by=answer.by)
        if changed.details != now.details:
            self._attachments.change(changed, is_kept=False)

    def _show(self, found: tuple[Attachment, ...]) -> None:
        if not found and not self.of_earlier():
            return
        chat_id = self._shelf.open.id
        self._found = chat_id, found
        self._around.emit(PartsFound(chat_id, found))
        self._on_changed()
        self._count_each(found)

    def _count_each(self, found: tuple[Attachment, ...]) -> None:
        number = self._number
        for each in found:
            self._questions.ask(
                CountPrompt(0, TextPrompt(block_of(each))),
                PromptCount,
                partial(self._take_count, each.id),
                lambda _sentence: None,  # it stays without a figure
                still=lambda: number == self._number,
            )

    def _take_count(self, own_id: str, count: PromptCount) -> None:
        chat_id, found = self._found
        found = tuple(
            dataclasses.replace(each, tokens=count.n_tokens) if each.id == own_id else each
            for each in found
        )
        self._found = chat_id, found
        if chat_id == self._shelf.open.id:
            self._around.emit(PartsFound(chat_id, found))
