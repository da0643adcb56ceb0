"""From a path of messages to what the engine is asked for.

What enters a prompt: the system prompt, then every message of the path that says
something. A reply that holds no text (stopped before its first token, failed) is left
out; what then stands side by side is merged by the engine for the prompt alone, and the
stored conversation stays as it is. A summary stands for what it is of only where the context
policy asks for summaries; else it is left out, and all messages go in. A reply goes in as the
IDs that it was generated with, if the same weights wrote it, known by their `fast_hash` and not by
their name: IDs of other weights mean other text.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from app.chat.attachments.attached_text import (
    attached_spans,
    part_spans,
    placed_media,
    with_attachments,
)
from app.chat.replies.calls import answered_by, calls_of, kept_together, without_unanswered
from app.chat.replies.summary_nodes import covered_by, newest_summary, without_summaries
from app.chat.settings.settings import Settings
from app.engine.prompts.summarizing import summary_message
from app.engine.protocol.frames import clean_text
from app.engine.protocol.media_messages import Media
from app.engine.protocol.messages import Generate
from app.engine.protocol.prompt_messages import ChatMessage, ChatPrompt
from app.engine.protocol.tool_messages import AUTO
from models.records import Attachment, Conversation, Message, MessageState, Role

NO_MEDIA: Final[Mapping[str, Media]] = {}

ALTERNATIVES: Final = 64
"""How many candidates the trace of each token holds: all that it can."""


def chat_prompt(
    conversation: Conversation,
    path: Iterable[Message],
    settings: Settings,
    weights_hash: str,
    draft: str = "",
    beginning: ChatMessage | None = None,
    attachments: Sequence[Attachment] = (),
    media: Mapping[str, Media] = NO_MEDIA,
) -> ChatPrompt:
    """The prompt for the reply that follows `path` (and `draft` with its attachments, as one more
    user message). `media`: the pictures and sounds that the weights are given, by their
    attachments' ids (`MediaFiles.for_prompt`).

    `beginning`: what that reply begins with; the engine goes on from there.
    """
    messages: list[ChatMessage] = []
    path = list(path)
    system_prompt = conversation.system_prompt or settings.system_prompt
    if system_prompt.strip():
        messages.append(ChatMessage(role="system", content=system_prompt))
    if settings.policy == "summarize" and (summary := newest_summary(path)) is not None:
        messages.append(summary_message(summary.content, summary.id))
        covered = {message.id for message in covered_by(summary, path) if not message.is_pinned}
        gone = kept_together(path, covered)
        path = [message for message in path if message.id not in gone]
    said = without_unanswered(list(without_summaries(path)))
    messages += [_chat_message(m, weights_hash, media) for m in said if _says_something(m)]
    if draft.strip() or attachments:
        messages.append(_user_message(draft, attachments, media))
    if beginning is not None:
        messages.append(beginning)
    return ChatPrompt(
        messages=messages,
        template=settings.template,
        continue_last=beginning is not None,
        reasoning_tags=settings.tag_pairs,
        thinking=settings.thinking,
        reasoning_budget=settings.reasoning_budget,
        variables=settings.template_variables,
        tools=list(settings.tools),
        tool_choice=settings.tool_choice,
        parallel_tool_calls=settings.tool_choice == AUTO,  # small weights repeat themselves
    )


def generate_request(
    conversation: Conversation,
    path: Iterable[Message],
    settings: Settings,
    weights_hash: str,
    beginning: ChatMessage | None = None,
    media: Mapping[str, Media] = NO_MEDIA,
) -> Generate:
    """The whole request; its id is filled in by the engine's client."""
    return Generate(
        id=0,
        prompt=chat_prompt(
            conversation, path, settings, weights_hash, beginning=beginning, media=media
        ),
        sampling=settings.sampling(),
        max_tokens=settings.max_tokens,
        stop=list(settings.stop_strings),
        conversation=conversation.id,
        alternatives=ALTERNATIVES,
        record_stages=True,
        context_policy=settings.policy,
        repeatable=settings.repeatable,
        drafts=settings.drafting,
        stop_in_reasoning=settings.stop_in_reasoning,
        adapters=settings.adapters,
    )


def clean_message(text: str) -> str:
    """Text as it is stored and sent: no lone surrogates, no NUL, one kind of line end.

    A draft of five million characters comes here with every key: what is clean is not copied.
    """
    if not is_encodable(text):
        text = clean_text(text)
    if "\0" in text:
        text = text.replace("\0", "")
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    return text


def is_encodable(text: str) -> bool:
    """Whether it holds no lone surrogates, as a broken paste does; file names may, too."""
    if text.isascii():  # known without looking
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _says_something(message: Message) -> bool:
    if message.state is MessageState.UNREADABLE:
        return False
    if message.role is Role.ASSISTANT:
        return bool(message.content) or bool(calls_of(message))
    return True


def _chat_message(message: Message, weights_hash: str, media: Mapping[str, Media]) -> ChatMessage:
    is_own = bool(weights_hash) and message.weights_hash == weights_hash
    is_reply = message.role is Role.ASSISTANT
    answered = answered_by(message)
    # The rest of a long result is for people.
    attachments = message.attachments if message.role is not Role.TOOL else ()
    ids = list(message.token_ids) if is_reply and is_own and message.token_ids else None
    texts = [each for each in attachments if each.id not in media]
    content = with_attachments(message.content, texts)
    return ChatMessage(
        role=message.role.value,
        content=content,
        reasoning=(message.reasoning or None) if is_reply else None,
        token_ids=ids,
        message_id=message.id,
        is_pinned=message.is_pinned,
        attachments=attached_spans(texts),
        passages=part_spans(texts),
        tool_calls=list(calls_of(message)),
        tool_call_id=answered.id,
        tool_name=answered.name,
        media=placed_media(attachments, media, content),
    )


def _user_message(
    text: str, attachments: Sequence[Attachment], media: Mapping[str, Media]
) -> ChatMessage:
    texts = [each for each in attachments if each.id not in media]
    content = with_attachments(text, texts)
    placed = placed_media(attachments, media, content)
    return ChatMessage(
        "user",
        content,
        attachments=attached_spans(texts),
        passages=part_spans(texts),
        media=placed,
    )
