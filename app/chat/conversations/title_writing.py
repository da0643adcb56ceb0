"""Titles that the loaded weights write, in an idle moment.

After a reply, once nothing else runs, a chat whose title still is the beginning of its first
message is given a better one. The request goes to a slot of its own, in the background: it rests
while anybody else is served, and the chat's cells stay where they are. What must hold:

* A title that a person gave is never touched, also where it is typed while the weights write; only
  "Write a title" replaces one, and then as an act that can be undone.
* A late answer is dropped: where the chat was renamed, thrown away or deleted meanwhile.
* What is no title (`app.engine.prompts.titling`) changes nothing, and is not asked for again.
* Nothing of it is a message. Temporary chats and text documents get none.
* A server is asked by itself only where a setting says so: there it may cost.

A chat that missed its title (the weights were busy, unloaded or failed) gets it later in the same
run, the newest first. Chats of former runs are left as they are: titles that people know their
chats by do not change by themselves.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from typing import Final

import msgspec

from app.chat.conversations.shelf import Shelf
from app.chat.conversations.titles import MAX_LENGTH, title_from
from app.chat.events import Noticed
from app.chat.inspection.questions import NO_WEIGHTS, Questions
from app.chat.replies.prompts import chat_prompt, clean_message
from app.chat.replies.summary_nodes import without_summaries
from app.chat.settings.levels import resolved_for
from app.chat.surroundings import Surroundings
from app.chat.weights.loading import Loader
from app.engine.prompts.titling import title_of, title_request
from app.engine.protocol.messages import Summary
from app.engine.protocol.prompt_messages import ChatMessage
from models.records import Conversation, ConversationKind, Message, Role

IDLE_S = 2.0
"""After a reply: so long nobody must want anything."""
LOOK_AGAIN_S: Final = 4.0
MOST_WAITING: Final = 20
"""Chats that missed theirs; of more, the newest."""
FIRST_MESSAGES: Final = 4
MOST_FAILED: Final = 2

ALARM: Final = "write titles"
NO_TITLE: Final = "The model wrote no usable title, so nothing was changed."
NOT_FOR_THIS: Final = "A title needs a chat with a question and a reply."
WRITING: Final = "A title is being written. Wait a moment."

Path = tuple[Message, ...]


class TitleWriting:
    """`is_busy`: whether anything runs or waits that a person or a program asked for."""

    def __init__(
        self,
        around: Surroundings,
        shelf: Shelf,
        loader: Loader,
        questions: Questions,
        is_busy: Callable[[], bool],
    ) -> None:
        self._around = around
        self._shelf = shelf
        self._loader = loader
        self._questions = questions
        self._is_busy = is_busy
        self._missing: dict[str, None] = {}
        """Chats whose title is to be written, the newest last."""
        self._tried: set[str] = set()
        self._asked_for: list[str] = []
        """Those that a person wants one for now, in order."""
        self._writing = ""
        self._is_asked = False
        self._request_id: int | None = None
        self._n_acts = 0
        self._n_failed = 0
        """In a row. After some of them none is written by itself: the engine may crash at each."""

    # --- by itself ------------------------------------------------------------------------------

    def after_reply(self, conversation_id: str) -> None:
        """A reply of this chat has ended."""
        chat = self._shelf.conversation(conversation_id)
        if chat is None or not self._may_have_one(chat) or chat.is_titled_by_user:
            return
        if not self._around.settings.write_titles or conversation_id in self._tried:
            return
        if self._title_is_own(conversation_id):
            return
        self._missing.pop(conversation_id, None)
        self._missing[conversation_id] = None
        while len(self._missing) > MOST_WAITING:
            del self._missing[next(iter(self._missing))]
        self.look_soon()

    def look_soon(self) -> None:
        """Something has ended, or weights are ready."""
        if self._missing and not self._writing and not self._around.is_closing:
            self._around.alarms.set(ALARM, IDLE_S, self._look)

    def give_way(self) -> None:
        """A reply begins. In this machine's engine a title rests by itself; a server is not asked
        for both at once, unless a person wants both."""
        if self._request_id is None or self._is_asked:
            return
        if self._loader.remote is not None:
            self._questions.stop(self._request_id)
            self._missing.setdefault(self._writing)
            self._end()

    def _look(self) -> None:
        if not self._missing or self._writing or self._around.is_closing:
            return
        if not self._may_write_now():
            self._around.alarms.set(ALARM, LOOK_AGAIN_S, self._look)
            return
        conversation_id = next(reversed(self._missing))
        del self._missing[conversation_id]
        self._begin(conversation_id, is_asked=False)

    def _may_write_now(self) -> bool:
        settings, loader = self._around.settings, self._loader
        is_allowed = settings.write_titles and (
            loader.remote is None or settings.write_titles_remote
        )
        is_ready = loader.loaded is not None and not loader.is_loading
        is_allowed = is_allowed and self._n_failed < MOST_FAILED
        return is_allowed and is_ready and not self._is_busy() and not loader.engine.is_owing

    # --- because somebody says so ---------------------------------------------------------------

    def may_write(self, ids: Iterable[str]) -> bool:
        """Whether any of these chats can have one."""
        chats = (self._shelf.conversation(each) for each in ids)
        return any(chat is not None and self._may_have_one(chat) for chat in chats)

    def write(self, ids: Iterable[str]) -> None:
        """New titles for these chats, whatever they are called now; each can be undone."""
        if not self._around.may_write():
            return
        wanted = [each for each in ids if self.may_write([each])]
        if self._loader.loaded is None or self._loader.is_loading:
            self._around.emit(Noticed("info", NO_WEIGHTS))
        elif not wanted:
            self._around.emit(Noticed("info", NOT_FOR_THIS))
        elif not (new := [each for each in wanted if each not in self._asked_for]):
            self._around.emit(Noticed("info", WRITING))
        else:
            self._asked_for += new
            if len(new) > 1:
                self._offer_undo(f"Writing titles for {len(new):,} chats.", self._asked_for.clear)
            self._go_on()

    def _go_on(self) -> None:
        if self._asked_for and not self._writing:
            self._begin(self._asked_for[0], is_asked=True)

    # --- one title ------------------------------------------------------------------------------

    def _may_have_one(self, chat: Conversation) -> bool:
        is_kept = self._shelf.is_stored(chat.id) and not self._shelf.is_temporary(chat.id)
        return is_kept and chat.kind is ConversationKind.CHAT

    def _title_is_own(self, conversation_id: str) -> bool:
        """Whether the title of the open chat is no longer the text's: the weights wrote it, or it
        came with an import. Of another chat that is looked at when it is read."""
        if conversation_id != self._shelf.open.id or not self._shelf.is_whole:
            return False
        return not _is_of_text(self._shelf.open, self._shelf.path)

    def _begin(self, conversation_id: str, *, is_asked: bool) -> None:
        self._writing, self._is_asked = conversation_id, is_asked
        chat = self._shelf.conversation(conversation_id)
        if chat is None or not self._may_have_one(chat):
            self._end()
            return
        title = chat.title
        if conversation_id == self._shelf.open.id and self._shelf.is_whole:
            self._ask(conversation_id, title, self._shelf.path, is_asked=is_asked)
            return
        store = self._around.store
        assert store is not None
        self._around.when_done(
            store.load_conversation(conversation_id),
            lambda loaded: self._ask(conversation_id, title, loaded[1], is_asked=is_asked),
            lambda _sentence: self._end(),
            still=lambda: self._writing == conversation_id,
        )

    def _ask(self, conversation_id: str, title: str, path: Path, *, is_asked: bool) -> None:
        chat = self._shelf.conversation(conversation_id)
        said = _said(path)
        if chat is None or not said or not (is_asked or _is_of_text(chat, path)):
            if is_asked:
                self._around.emit(Noticed("info", NOT_FOR_THIS))
            self._end()
            return
        settings = resolved_for(self._around, self._loader, chat).settings
        bare = dataclasses.replace(chat, system_prompt="")
        prompt = chat_prompt(bare, path[:1], settings, self._loader.weights_hash)
        request = title_request(said, prompt, begins=self._loader.remote is None)
        request = msgspec.structs.replace(request, is_background=not is_asked)
        text = "\n".join(message.content for message in said)

        def take(summary: Summary) -> None:
            self._request_id = None
            self._tried.add(conversation_id)
            self._n_failed = 0
            self._take(conversation_id, title, title_of(summary.text, text), is_asked=is_asked)

        def fail(sentence: str) -> None:
            if is_asked:
                self._around.emit(Noticed("warning", sentence))
                self._asked_for.clear()  # the others would fail alike
            elif self._loader.loaded is None or self._loader.is_loading:
                self._missing.setdefault(conversation_id)  # they were unloaded: later, then
            else:
                self._tried.add(conversation_id)  # a window too small for it, say
                self._n_failed += 1
            self._end()

        self._request_id = self._questions.ask(
            request, Summary, take, fail, still=lambda: self._writing == conversation_id
        )

    def _take(self, conversation_id: str, before: str, written: str, *, is_asked: bool) -> None:
        title = clean_message(written)
        chat = self._shelf.conversation(conversation_id)
        is_same = chat is not None and self._may_have_one(chat) and chat.title == before
        if chat is None or not is_same or (chat.is_titled_by_user and not is_asked):
            self._end()
            return
        if not title and is_asked:
            self._around.emit(Noticed("info", NO_TITLE))
        elif title and title != before and self._around.can_write:
            self._give(chat, title, is_asked=is_asked)
        self._end()

    def _give(self, chat: Conversation, title: str, *, is_asked: bool) -> None:
        self._shelf.change(chat.id, title=title)
        if not is_asked:
            return

        def undo() -> None:
            now = self._shelf.conversation(chat.id)
            if now is not None and now.title == title:
                self._shelf.change(chat.id, title=chat.title)

        self._offer_undo(f"“{chat.title}” is now called “{title}”.", undo)

    def _offer_undo(self, sentence: str, act: Callable[[], None]) -> None:
        self._n_acts += 1
        self._shelf.offer_undo(f"title {self._n_acts}", sentence, act)

    def _end(self) -> None:
        if self._is_asked and self._asked_for[:1] == [self._writing]:
            del self._asked_for[0]
        self._writing, self._request_id = "", None
        self._go_on()
        self.look_soon()


def _said(path: Path) -> list[ChatMessage]:
    """The first question and answer, and what follows at once; nothing without an answer."""
    spoken = [
        ChatMessage("user" if m.role is Role.USER else "assistant", m.content)
        for m in without_summaries(list(path))
        if m.role in (Role.USER, Role.ASSISTANT) and m.content.strip()
    ][:FIRST_MESSAGES]
    roles = {message.role for message in spoken}
    return spoken if {"user", "assistant"} <= roles else []


def _is_of_text(chat: Conversation, path: Path) -> bool:
    """Whether its title is what was made of its first message."""
    first = next((m for m in path if m.role is Role.USER), None)
    if first is None:
        return False
    has_words = first.content.strip() or not first.attachments
    text = first.content if has_words else first.attachments[0].name
    return chat.title == title_from(text) and len(chat.title) <= MAX_LENGTH
