"""How many tokens the next prompt would have, for the context meter.

Counting runs beside a running reply in the engine, but rendering a long conversation costs
something, so it is asked for after a short rest, and one count at a time. A server is asked nothing
here: a draft stays on this machine until it is sent. What it read is told with its replies.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from app.chat.attachments.attachments import Attachments
from app.chat.attachments.media_files import media_of, media_of_draft
from app.chat.conversations.shelf import Shelf
from app.chat.documents.text_mode import TextMode
from app.chat.events import ContextCounted
from app.chat.inspection.questions import Questions
from app.chat.replies.next_reply import NextReply
from app.chat.replies.prompts import chat_prompt
from app.chat.replies.summary_nodes import covered_by, newest_summary
from app.chat.retrieval.draft import DraftParts
from app.chat.settings.levels import resolved_for
from app.chat.surroundings import ALWAYS, Still, Surroundings
from app.chat.weights.loading import Loader
from app.engine.protocol.messages import CountPrompt, PromptCount
from app.engine.protocol.prompt_messages import ChatMessage, Prompt
from models.records import ConversationKind

COUNT_DELAY_S: Final = 0.3


class ContextCounter:
    """Counts the open conversation with its draft, whenever `count_soon` is called."""

    def __init__(
        self,
        around: Surroundings,
        shelf: Shelf,
        loader: Loader,
        questions: Questions,
        attachments: Attachments,
        text: TextMode,
        next_reply: NextReply,
        parts: DraftParts,
    ) -> None:
        self._parts = parts
        self._next = next_reply
        self._around = around
        self._shelf = shelf
        self._loader = loader
        self._questions = questions
        self._attachments = attachments
        self._text = text
        self._is_asked = False
        self._is_stale = False
        self._last: tuple[str, ContextCounted] | None = None

    @property
    def last(self) -> ContextCounted | None:
        """What was counted last of the open conversation's next prompt; None: nothing yet."""
        is_open = self._last is not None and self._last[0] == self._shelf.open.id
        return self._last[1] if self._last is not None and is_open else None

    def _say(self, count: ContextCounted) -> None:
        self._last = self._shelf.open.id, count
        self._around.emit(count)

    def count_soon(self) -> None:
        self._around.alarms.set("count", COUNT_DELAY_S, self._count)

    def _count(self) -> None:
        loaded = self._loader.loaded
        if loaded is None or self._loader.is_loading or not self._shelf.is_whole:
            return  # called again when it is there
        if loaded.remote is not None:
            self._last = None
            return
        if self._is_asked:
            self._is_stale = True
            return
        if self._shelf.open.kind is ConversationKind.TEXT:
            self._ask(self._text.prompt(), "", False)
            return
        path = self._shelf.path
        draft = self._shelf.draft
        attached = (*self._attachments.of_open, *self._parts.of_earlier())
        if not path and not draft.strip() and not attached:
            self._say(ContextCounted(0, loaded.n_ctx, last_cut=""))
            return
        chat, changes = self._shelf.open, self._next.changes(self._shelf.open)
        files, media = self._shelf.files, [*media_of(path), *media_of_draft(attached)]
        if not files.is_held(media):
            files.hold(media, self.count_soon, lambda _: None, still=self._shelf.while_open())
            return
        settings = resolved_for(self._around, self._loader, chat, changes).settings
        thoughts = self._next.thoughts(chat)
        begun = ChatMessage("assistant", "", thoughts) if thoughts else None
        prompt = chat_prompt(
            chat,
            path,
            settings,
            self._loader.weights_hash,
            draft,
            begun,
            attached,
            files.for_prompt(media, loaded),
        )
        is_summarized, covered = settings.policy == "summarize", ""
        if is_summarized and (summary := newest_summary(path)) is not None:
            covered = covered_by(summary, path)[-1].id
        self._ask(prompt, covered, is_summarized)

    def _ask(self, prompt: Prompt, covered: str, is_summarized: bool) -> None:
        """`covered`: the last message that a summary stands for; `is_summarized`: of what is left
        out, one is written."""
        self._is_stale = False
        settings = resolved_for(self._around, self._loader, self._shelf.open).settings
        self._is_asked = True
        self._questions.ask(
            CountPrompt(0, prompt, settings.policy, settings.adapters),
            PromptCount,
            partial(self._take, self._shelf.while_open(), (covered, is_summarized)),
            lambda _sentence: self._settle(),  # changes nothing: sending will say why in words
            still=ALWAYS,  # the next one may be asked for; said is only what is about the open chat
        )

    def _take(self, is_open: Still, summary: tuple[str, bool], count: PromptCount) -> None:
        if is_open():
            cut = count.n_cut, count.last_cut, count.first_cut
            self._say(ContextCounted(count.n_tokens, count.n_ctx, *cut, *summary))
        self._settle()

    def _settle(self) -> None:
        self._is_asked = False
        if self._is_stale:
            self.count_soon()
