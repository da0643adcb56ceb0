"""Prompts on the wire: what the engine is given, and how it shows what became of it."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from app.engine.protocol.frames import (
    FEW,
    MANY,
    Amount,
    Blob,
    Count,
    Int32s,
    Int64s,
    Name,
    ProtocolError,
    Sentence,
    Text,
    UInt8s,
    WireMessage,
    Word,
    check_equal,
    check_pieces,
)
from app.engine.protocol.media_messages import Media, Spans, check_spans
from app.engine.protocol.tool_messages import AUTO, Tool, ToolCall

Role = Literal["system", "user", "assistant", "tool"]
ContextPolicy = Literal["stop", "drop_oldest", "keep_ends", "summarize"]


class ChatMessage(WireMessage, frozen=True, tag=True):
    """One message as it enters the chat template.

    `token_ids`: the IDs a reply was generated with (without the end token), so that it can
    enter the prompt as itself; None means: tokenise `content`. `is_pinned`: the context policy
    never cuts it. `attachments`: characters [start, end) of `content` that are attached texts;
    `passages`: which of these are parts of a document.
    `origin`: what its tokens are said to come from, where that is not its role. `tool_calls`: what
    a reply called. `tool_call_id`, `tool_name`: of a tool's result, which call it answers. `media`:
    pictures and sounds, in the order of their places.
    """

    role: Role
    content: str
    reasoning: str | None = None
    token_ids: list[int] | None = None
    message_id: str | None = None
    is_pinned: bool = False
    attachments: list[tuple[int, int]] = msgspec.field(default_factory=list)
    passages: list[tuple[int, int]] = msgspec.field(default_factory=list)
    origin: str = ""
    tool_calls: list[ToolCall] = msgspec.field(default_factory=list)
    tool_call_id: str = ""
    tool_name: str = ""
    media: list[Media] = msgspec.field(default_factory=list)


class ChatPrompt(WireMessage, frozen=True, tag=True):
    """Messages rendered with a chat template.

    `template`: Jinja source, or None for the file's own; of a file with several, `template_name`
    picks one (see `Loaded.templates`). `continue_last`: the last message is an assistant's and is
    continued instead of opening a new turn: inside its reasoning where it has no content yet.
    `begin_ids`: tokens that the reply begins with, whatever they spell. Their text is the reply's
    (`TextFlushed`), they themselves are the prompt's. `reasoning_tags`: what opens and closes
    reasoning, besides the tags that are known. `thinking`: what was chosen of a `ThinkingOffer`,
    empty: as the template does by itself. `reasoning_budget`: after so many tokens reasoning is
    closed (0: never). `variables`: more names for the template,
    as JSON (`template_variables.py`). `tools`: what the reply may call; `tool_choice`: whether it
    does: auto (as it likes), none, required, or the name of the one that it must call.
    `parallel_tool_calls`: more than one in a reply.
    """

    messages: list[ChatMessage]
    template: str | None = None
    continue_last: bool = False
    template_name: str | None = None
    begin_ids: list[int] = msgspec.field(default_factory=list)
    reasoning_tags: list[tuple[str, str]] = msgspec.field(default_factory=list)
    thinking: str = ""
    reasoning_budget: int = 0
    variables: str = ""
    tools: list[Tool] = msgspec.field(default_factory=list)
    tool_choice: str = AUTO
    parallel_tool_calls: bool = True


class TextPrompt(WireMessage, frozen=True, tag=True):
    """Plain text, no template. Control-token text in it is ordinary text unless `special`.
    `generated`: characters [start, end) of it that weights wrote, in order.
    `begin_ids` as in a ChatPrompt."""

    text: str
    special: bool = False
    generated: list[tuple[int, int]] = msgspec.field(default_factory=list)
    begin_ids: list[int] = msgspec.field(default_factory=list)


class IdsPrompt(WireMessage, frozen=True, tag=True):
    """Raw token IDs, used as they are (no BOS is added)."""

    token_ids: list[int]


Prompt = ChatPrompt | TextPrompt | IdsPrompt


class CutMessage(WireMessage, frozen=True, tag=True):
    """A message that the context policy left out of the prompt, and how many tokens that saved."""

    message_id: Name | None
    role: Word
    n_tokens: Count


class ReadPrompt(WireMessage, frozen=True, tag=True):
    """What the engine would be given, token by token; answered beside a running reply.
    -> PromptShown"""

    id: Amount
    prompt: Prompt
    context_policy: ContextPolicy = "stop"


class ShownPart(WireMessage, frozen=True, tag=True):
    """Tokens [start, end) come from one place. origin: scaffold (the template's), system, user,
    assistant, tool, tools (their definitions), attachment, passage (a part of an attached
    document), summary (of what was left out), text (a plain document), unknown (the template looks
    into the messages, so nobody can tell what is theirs)."""

    start: Count
    end: Count
    origin: Word
    message_id: Name | None = None


class PromptShown(WireMessage, frozen=True, tag=True):
    """A prompt as it was tokenised. Parts follow each other and cover all tokens.

    `token_ids` (i4); piece i is blob[offsets[i]:offsets[i + 1]] (`offsets` i8); `attributes` (i4)
    are llama.cpp's of each token, `controls` (u1) is 1 where it is a control token. `rendered`:
    the text before it was tokenised. `cut` and `n_whole`: see `Summary.cut` and `PromptCount`.
    `returned`: message_ids of replies that entered as the IDs they were generated with;
    `retokenized`: of those whose IDs could not be used, so that their text was tokenised again.
    `media`: which tokens are cells of pictures; their pieces are empty.
    """

    token_ids: Int32s
    offsets: Int64s
    blob: Blob
    attributes: Int32s
    controls: UInt8s
    parts: Annotated[list[ShownPart], MANY]
    rendered: Text
    n_ctx: Count
    notes: Annotated[list[Sentence], FEW]
    cut: Annotated[list[CutMessage], MANY]
    n_whole: Count
    returned: Annotated[list[Name], MANY]
    retokenized: Annotated[list[Name], MANY]
    media: Spans = msgspec.field(default_factory=list)

    def check(self) -> None:
        n_tokens = self.token_ids.size
        check_pieces(self.offsets, self.blob)
        sizes = (self.offsets.size - 1, self.attributes.size, self.controls.size)
        check_equal("a prompt's arrays", n_tokens, *sizes)
        at = 0
        for part in self.parts:
            if part.start != at or part.end <= at:
                raise ProtocolError("a prompt's parts do not follow each other")
            at = part.end
        if at != n_tokens:
            raise ProtocolError("a prompt's parts do not cover it")
        check_spans(self.media, n_tokens)
