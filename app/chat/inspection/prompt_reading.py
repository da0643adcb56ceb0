"""What the engine was given for a reply, and what it would be given next, token by token.

A stored reply keeps the text of its prompt, not its tokens. They are had again by rendering the
path above it once more, with the settings that it was made with, and comparing the two texts: only
where they are the same to the last character is it said that this is what the engine was given.
Else the stored text is shown alone, and a sentence says why.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

from app.chat.attachments.attachments import Attachments
from app.chat.attachments.media_files import media_of, media_of_draft
from app.chat.conversations.shelf import Shelf
from app.chat.documents.text_document import PLACE, document, place_of
from app.chat.documents.text_mode import TextMode
from app.chat.inspection.questions import Questions
from app.chat.replies.again import given_to
from app.chat.replies.next_reply import NextReply
from app.chat.replies.prompts import chat_prompt
from app.chat.replies.recorded import settings_of
from app.chat.replies.reply import Branch
from app.chat.replies.reply_request import reply_request
from app.chat.retrieval.draft import DraftParts
from app.chat.settings.levels import resolved_for
from app.chat.settings.settings import Settings
from app.chat.surroundings import Still, Surroundings
from app.chat.weights.loading import Loader
from app.engine.protocol.prompt_messages import (
    ChatMessage,
    ContextPolicy,
    Prompt,
    PromptShown,
    ReadPrompt,
)
from app.insight.prompt.parts import PromptTokens, tokens_of
from models.records import Conversation, ConversationKind, Message, MessageState, Role

NOT_A_REPLY: Final = "Only replies have a prompt. Choose a reply, or see the next prompt."
NOTHING_YET: Final = "Nothing to send yet. Write a message first."
READING: Final = "The start of this chat is still loading."
GIVEN: Final = "The exact prompt, identical to the stored text."
GROWING: Final = "Rendered with the settings of the reply being generated."
NEXT: Final = "What would be sent now, including your draft."
NEXT_TEXT: Final = "What would be continued now: the text before the cursor."
NOT_SENT: Final = (
    "“{engine}” would render it, and is given nothing before you send it. Afterwards “This reply” "
    "shows what it was."
)
NOT_STORED: Final = (
    "The prompt of this reply wasn't stored. This is how it renders now with its settings."
)
NOTHING_STORED: Final = "The prompt of this reply wasn't stored."
STORED_ALONE: Final = "The stored text, without tokens."
NO_WEIGHTS: Final = "Load the model that wrote the reply to see them."
OTHER_WEIGHTS: Final = "It was written by “{name}”. Load that model to see them."


@dataclass(frozen=True, slots=True)
class PromptOf:
    """`message_id` None: of what would be sent next. `tokens` None: only `text` is known (or
    nothing). `sentence` says what this is, or why it is no more. `is_given`: it is known to be
    what the engine was given. `lacks_weights`: those that wrote it aren't loaded."""

    message_id: str | None
    sentence: str
    text: str = ""
    tokens: PromptTokens | None = None
    shown: PromptShown | None = None
    is_given: bool = False
    lacks_weights: bool = False


Then = Callable[[PromptOf], None]


class PromptReading:
    """Every question is answered once, on the desk's thread, unless it is so no longer what it was
    asked for (`still`)."""

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

    # --- what would be sent next ------------------------------------------------------------------

    def read_next(
        self, then: Then, *, still: Still, path: tuple[Message, ...] | None = None
    ) -> None:
        """What would be given for what stands in the composer, or before the caret. `path`: for
        these messages of a chat instead, without what stands in the composer. A server is not asked
        to render what nobody has sent."""
        if (remote := self._loader.remote) is not None:
            then(PromptOf(None, NOT_SENT.format(engine=remote.name)))
            return
        conversation = self._shelf.open
        chosen = self._next.changes(conversation) if path is None else {}
        settings = resolved_for(self._around, self._loader, conversation, chosen).settings
        if conversation.kind is ConversationKind.TEXT:
            text = self._text.prompt()
            prompt: Prompt = text
            is_empty, sentence = not text.text, NEXT_TEXT
        else:
            attachments = (*self._attachments.of_open, *self._parts.of_earlier())
            draft = self._shelf.draft
            thoughts = self._next.thoughts(conversation)
            if path is not None:
                attachments, draft, thoughts = (), "", ""
            files, said = self._shelf.files, self._shelf.path if path is None else path
            media = [*media_of(said), *media_of_draft(attachments)]
            if not files.is_held(media):
                again = partial(self.read_next, then, still=still, path=path)
                files.hold(media, again, lambda why: then(PromptOf(None, why)), still=still)
                return
            prompt = chat_prompt(
                conversation,
                said,
                settings,
                self._loader.weights_hash,
                draft,
                ChatMessage("assistant", "", thoughts) if thoughts else None,
                attachments=attachments,
                media=files.for_prompt(media, self._loader.loaded),
            )
            is_empty, sentence = not (self._shelf.path or draft.strip() or attachments), NEXT
        if is_empty:
            then(PromptOf(None, NOTHING_YET))
        elif not self._shelf.is_whole:
            then(PromptOf(None, READING))
        else:
            self._ask(prompt, settings.policy, lambda found: then(_next(found, sentence)), still)

    # --- of a reply -------------------------------------------------------------------------------

    def read(self, message_id: str, then: Then, *, still: Still) -> None:
        """What the engine was given for a reply of the open chat."""
        message = next((m for m in self._shelf.path if m.id == message_id), None)
        chat = self._shelf.open
        if message is None or message.role is not Role.ASSISTANT:
            then(PromptOf(message_id, NOT_A_REPLY))
            return
        above = self._shelf.path_to(message.parent_id)
        if message.rendered_prompt is not None or message.state is MessageState.STREAMING:
            self._read_with(message, chat, above, message.rendered_prompt, then, still)
        elif self._around.store is None:
            then(PromptOf(message_id, NOTHING_STORED))
        else:
            self._around.when_done(
                self._around.store.load_message(message_id),
                lambda stored: self._read_with(
                    message, chat, above, stored.rendered_prompt, then, still
                ),
                lambda sentence: then(PromptOf(message_id, sentence)),
                still=still,
            )

    def _read_with(
        self,
        message: Message,
        chat: Conversation,
        above: tuple[Message, ...],
        stored: str | None,
        then: Then,
        still: Still,
    ) -> None:
        """`chat` and the path `above` are those of the message; others may be on screen by now."""
        refusal = self._refusal(message)
        settings, why = self._settings_of(message, chat)
        if refusal or why or settings is None:
            found = _stored_alone(message.id, stored, refusal or why)
            then(dataclasses.replace(found, lacks_weights=bool(refusal)))
            return

        def render(path: tuple[Message, ...]) -> None:
            given = given_to(message)
            request = reply_request(
                chat,
                path,
                settings,
                self._loader.weights_hash,
                given,
                place_of(message, len(document(path))) if PLACE in message.settings else None,
                self._loader.loaded,
                self._shelf.files,
            )
            if isinstance(given, Branch):
                request = given.begun(request)
            self._ask(
                request.prompt,
                request.context_policy,
                lambda found: then(self._compared(message, stored, found)),
                still,
            )

        self._shelf.with_whole(
            above,
            render,
            lambda sentence: then(_stored_alone(message.id, stored, sentence)),
            still=still,
        )

    def _refusal(self, message: Message) -> str:
        """Why it cannot be rendered again."""
        if self._loader.loaded is None:
            return NO_WEIGHTS
        if not message.weights_hash or message.weights_hash != self._loader.weights_hash:
            return OTHER_WEIGHTS.format(name=message.weights_name or "another model")
        return ""

    def _settings_of(self, message: Message, chat: Conversation) -> tuple[Settings | None, str]:
        present = resolved_for(self._around, self._loader, chat).settings
        if message.state is MessageState.STREAMING and "sampling" not in message.settings:
            return present, ""  # it waits, and will be asked with these
        settings, why = settings_of(message.settings, present)
        return (None if why else settings), why

    def _compared(self, message: Message, stored: str | None, found: PromptOf) -> PromptOf:
        """What was rendered, as far as it is what was given."""
        tokens, refusal = found.tokens, self._refusal(message)  # other weights may be here by now
        if tokens is None or refusal:
            alone = _stored_alone(message.id, stored, refusal or found.sentence)
            return dataclasses.replace(alone, lacks_weights=bool(refusal))
        found = dataclasses.replace(found, message_id=message.id)
        if message.state is MessageState.STREAMING:
            return dataclasses.replace(found, sentence=GROWING)
        if not stored:
            return dataclasses.replace(found, sentence=NOT_STORED)
        if stored != found.text:
            return _stored_alone(message.id, stored, self._why_other(message, stored, found.text))
        n_then, n_now = message.counts.prompt_tokens, len(tokens)
        if n_then is not None and n_then != n_now:
            sentence = (
                f"This is the exact text. It had {n_then:,} tokens then and has {n_now:,} now "
                "because earlier replies were tokenised differently."
            )
            return dataclasses.replace(found, sentence=sentence)
        return dataclasses.replace(found, sentence=GIVEN, is_given=True)

    def _why_other(self, message: Message, stored: str, now: str) -> str:
        """Rendered again it is another text: what is likely to have changed."""
        most = min(len(stored), len(now))
        place = next((i for i in range(most) if stored[i] != now[i]), most)
        facts = f"Rendered again, it differs from character {place + 1:,} on"
        loaded = self._loader.loaded
        size = message.counts.context_size
        if loaded is not None and size and size != loaded.n_ctx:
            return (
                f"{facts}: it was cut for a context window of {size:,} tokens, and the model is "
                f"loaded with {loaded.n_ctx:,}."
            )
        return f"{facts}: something above the reply has changed since."

    # --- asking -----------------------------------------------------------------------------------

    def _ask(self, prompt: Prompt, policy: ContextPolicy, then: Then, still: Still) -> None:
        def take(shown: PromptShown) -> None:
            then(PromptOf(None, "", shown.rendered, tokens_of(shown), shown))

        self._questions.ask(
            ReadPrompt(0, prompt, policy),
            PromptShown,
            take,
            lambda sentence: then(PromptOf(None, sentence)),
            still=still,
        )


def _next(found: PromptOf, sentence: str) -> PromptOf:
    return found if found.tokens is None else dataclasses.replace(found, sentence=sentence)


def _stored_alone(message_id: str, stored: str | None, why: str) -> PromptOf:
    if not stored:
        return PromptOf(message_id, f"{NOTHING_STORED} {why}".strip())
    return PromptOf(message_id, f"{STORED_ALONE} {why}".strip(), stored)
