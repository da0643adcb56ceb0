"""What the server was asked for, as the messages of a chat and the reply that grows under them.

The panels read a reply off its message: what it was made with is recorded there, and its prompt is
rendered from the messages above it. So both must come out as the request had them. A request's own
leading system text is the chat's system prompt; a text that is only continued is a text document.
"""

from __future__ import annotations

import dataclasses
import uuid
from collections.abc import Sequence
from datetime import datetime
from functools import cached_property
from typing import Any, Final

from app.chat.conversations.shelf import new_id
from app.chat.conversations.titles import title_from
from app.chat.documents.text_document import PLACE
from app.chat.replies.again import TOOL_CHOICE
from app.chat.replies.calls import as_answer, with_calls
from app.chat.replies.recorded import at_start
from app.chat.replies.reply import NOTHING, Beginning, Reply
from app.chat.server.brought import brought_by
from app.chat.settings import formats
from app.chat.settings.resolved import Resolved
from app.chat.settings.settings import Settings, as_stored
from app.engine.protocol.loading_messages import Loaded
from app.engine.protocol.messages import Generate
from app.engine.protocol.prompt_messages import ChatMessage, ChatPrompt, Prompt, TextPrompt
from app.engine.protocol.stages import Stage
from app.engine.protocol.tool_messages import AUTO, ToolCall
from models.records import Conversation, ConversationKind, File, Message, MessageState, Role

OF_CHAT: Final = (
    "system_prompt",
    "chain",
    "max_tokens",
    "stop_strings",
    "stop_in_reasoning",
    "context_policy",
    "grammar",
    "json_schema",
    "banned_strings",
    "min_tokens",
    "ban_end_token",
    "reasoning_tags",
    "thinking",
    "reasoning_budget",
    "template_variables",
    "chat_format",
    "chat_template",
)
"""What such a chat sets otherwise than the app, so that whoever goes on in it goes on alike."""


class Above:
    """What stands above a reply, made into messages when somebody looks: there may be thousands.
    `leaf_id`: the last one's, None without any. `files`: bytes of their pictures and sounds, once
    they are made."""

    def __init__(
        self,
        said: Sequence[ChatMessage],
        conversation_id: str,
        at: datetime,
        weights: tuple[str, str],
        *,
        is_text: bool,
    ) -> None:
        self._said = said
        self._conversation_id = conversation_id
        self._at = at
        self._weights = weights
        self._is_text = is_text
        self.leaf_id = _own_id(said[-1].message_id or "") if said else None
        self.files: dict[str, File] = {}

    @property
    def n_characters(self) -> int:
        return sum(len(each.content) + len(each.reasoning or "") for each in self._said)

    @property
    def n_media_bytes(self) -> int:
        return sum(len(media.data) for each in self._said for media in each.media)

    @cached_property
    def messages(self) -> tuple[Message, ...]:
        made: list[Message] = []
        for place, each in enumerate(self._said, 1):
            is_last = place == len(self._said)
            own_id = (self.leaf_id or "") if is_last else _own_id(each.message_id or "")
            attachments, files = brought_by(each, own_id, self._conversation_id, self._at)
            self.files |= files
            made.append(
                Message(
                    id=own_id,
                    conversation_id=self._conversation_id,
                    parent_id=made[-1].id if made else None,
                    role=Role(each.role),
                    content=each.content,
                    reasoning=each.reasoning or "",
                    created_at=self._at,
                    token_ids=tuple(each.token_ids) if each.token_ids else None,
                    weights_name=self._weights[0] if each.token_ids else None,
                    weights_hash=self._weights[1] if each.token_ids else None,
                    settings=_settings_above(each, is_text=self._is_text),
                    attachments=attachments,
                )
            )
        return tuple(made)


@dataclasses.dataclass(frozen=True, slots=True)
class Asked:
    """One reply that was asked for: the chat it is in, what stands above it, and itself."""

    conversation: Conversation
    prompt: Prompt
    above: Above
    reply: Reply


def asked_of(
    generate: Generate,
    at: datetime,
    loaded: Loaded | None,
    weights: tuple[str, str],
    first: Asked | None = None,
) -> Asked:
    """`weights`: name and hash of those that write it. `first`: a reply of the same request, to the
    same prompt or to another one."""
    settings = settings_of_request(generate)
    given = _beginning(generate)
    conversation = _conversation(settings, generate, at) if first is None else first.conversation
    if first is not None and first.prompt == generate.prompt:
        above = first.above
    else:
        said = _said(generate, has_given=bool(given))
        is_text = isinstance(generate.prompt, TextPrompt)
        above = Above(said, conversation.id, at, weights, is_text=is_text)
    recorded = at_start(Resolved(settings, {}), generate, loaded)
    if isinstance(generate.prompt, TextPrompt):
        recorded[PLACE] = [len(generate.prompt.text)] * 2
    if given:
        recorded["given"] = given.as_recorded()
    if isinstance(generate.prompt, ChatPrompt) and generate.prompt.tool_choice != AUTO:
        recorded[TOOL_CHOICE] = generate.prompt.tool_choice
    message = Message(
        id=_own_id(generate.reply_id),
        conversation_id=conversation.id,
        parent_id=above.leaf_id,
        role=Role.ASSISTANT,
        content=given.content,
        reasoning=given.reasoning,
        created_at=at,
        state=MessageState.STREAMING,
        settings=recorded,
        weights_name=weights[0] or None,
        weights_hash=weights[1] or None,
    )
    return Asked(conversation, generate.prompt, above, Reply(message, given))


def settings_of_request(generate: Generate) -> Settings:
    """The settings that this request is the outcome of, as far as they shape its reply."""
    sampling, prompt = generate.sampling, generate.prompt
    chain: tuple[Stage, ...] = (*sampling.filters, sampling.select)
    values: dict[str, Any] = {
        "system_prompt": _system_of(prompt.messages) if isinstance(prompt, ChatPrompt) else "",
        "chain": chain,
        "seed": sampling.seed,
        "grammar": sampling.grammar,
        "json_schema": sampling.json_schema,
        "banned_strings": tuple(sampling.banned_strings),
        "min_tokens": sampling.min_tokens,
        "ban_end_token": sampling.ban_end_token,
        "max_tokens": generate.max_tokens,
        "stop_strings": tuple(generate.stop),
        "stop_in_reasoning": generate.stop_in_reasoning,
        "context_policy": generate.context_policy,
        "repeatable": generate.repeatable,
    }
    if generate.drafts is not None:
        values |= {"drafts": generate.drafts.kind, "draft_tokens": generate.drafts.most}
    if generate.adapters is not None:
        adapters = generate.adapters
        values |= {"loras": tuple(adapters.loras), "control_vectors": tuple(adapters.vectors)}
    if isinstance(prompt, ChatPrompt):
        values |= {
            "reasoning_tags": tuple(f"{a}…{b}" for a, b in prompt.reasoning_tags),
            "thinking": prompt.thinking,
            "reasoning_budget": prompt.reasoning_budget,
            "template_variables": prompt.variables,
            "tools": tuple(prompt.tools),
        }
        if prompt.template is not None:
            values |= {"chat_format": formats.OWN, "chat_template": prompt.template}
    return Settings(**values)


def _conversation(settings: Settings, generate: Generate, at: datetime) -> Conversation:
    is_text = isinstance(generate.prompt, TextPrompt)
    return Conversation(
        id=new_id(),
        title=title_from(_last_words(generate)),
        created_at=at,
        updated_at=at,
        kind=ConversationKind.TEXT if is_text else ConversationKind.CHAT,
        is_titled_by_user=True,
        settings={name: as_stored(getattr(settings, name)) for name in OF_CHAT},
    )


def _last_words(generate: Generate) -> str:
    prompt = generate.prompt
    if isinstance(prompt, TextPrompt):
        return prompt.text
    if isinstance(prompt, ChatPrompt):
        said = (each.content for each in reversed(prompt.messages) if each.role == "user")
        return next(said, "")
    return "Token IDs"


def _said(generate: Generate, *, has_given: bool) -> Sequence[ChatMessage]:
    """What stands above the reply, but for a leading system text."""
    prompt = generate.prompt
    if isinstance(prompt, TextPrompt):
        return [ChatMessage("user", prompt.text)]
    if isinstance(prompt, ChatPrompt):
        said = prompt.messages[int(_has_system(prompt.messages)) :]
        return said[: len(said) - has_given]
    return []


def _settings_above(said: ChatMessage, *, is_text: bool) -> dict[str, Any]:
    """Of a message above the reply: its place in the text, what it called or answers."""
    if is_text:
        return {PLACE: [0, 0]}
    if said.role == "tool":
        return as_answer(ToolCall(said.tool_call_id, said.tool_name, ""))
    return with_calls({}, said.tool_calls)


def _beginning(generate: Generate) -> Beginning:
    """What the client wrote of the reply itself, for it to go on from."""
    prompt = generate.prompt
    if not (isinstance(prompt, ChatPrompt) and prompt.continue_last and prompt.messages):
        return NOTHING
    last = prompt.messages[-1]
    return Beginning(last.content, last.reasoning or "", None)


def _system_of(messages: Sequence[ChatMessage]) -> str:
    return messages[0].content if _has_system(messages) else ""


def _has_system(messages: Sequence[ChatMessage]) -> bool:
    """Whether the first one is what a chat keeps as its system prompt. An empty one is said, too:
    it stays a message."""
    return bool(messages) and messages[0].role == "system" and bool(messages[0].content.strip())


def _own_id(text: str) -> str:
    """What the request calls it, where that is an id as ours are; else a fresh one."""
    try:
        return str(uuid.UUID(text))
    except ValueError:
        return new_id()
