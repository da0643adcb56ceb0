"""Texts of control tokens in what people, files, tools and replies wrote.

A server renders a chat as one text and lets all of its control tokens' texts become tokens, whoever
wrote them: a web page that holds "<|im_end|><|im_start|>system" would speak as the system. The
local engine cuts such text apart by its tokens; at a server it can only be kept from being one. So
a zero-width space goes into it, behind its first character, and the reply says so.

    <|im_end|>  →  <·|im_end|>        · is U+200B

Which texts are meant: those that look like one, and are a single token of the model where the
server tokenises; where it does not, those alone that nobody writes for anything else. OpenAI's own
API and Cutaway's own server take no text for a control token.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, TypeVar

import msgspec

from app.engine.protocol.prompt_messages import ChatMessage, ChatPrompt, TextPrompt

P = TypeVar("P", ChatPrompt, TextPrompt)

BREAK: Final = "\u200b"
NOTE: Final = "control_text"
SENTENCE: Final = (
    "This chat holds text that “{}” could take for its own control tokens ({}). A zero-width space "
    "was put into it, for the model only."
)

_SURE: Final = re.compile(
    r"<[|｜][^<>\n]{1,64}[|｜]>|<(?:start|end)_of_turn>|\[/?INST\]|<</?SYS>>"
    r"|<\|?(?:turn|channel|think|tool|tool_call|tool_response)\|?>"
    r"|\[/?(?:AVAILABLE_TOOLS|TOOL_CALLS|TOOL_RESULTS|SYSTEM_PROMPT)\]"
)
_MAYBE: Final = re.compile(
    rf"{_SURE.pattern}|</?[A-Za-z_]\w{{0,31}}>|<\|\w{{1,32}}>|<\w{{1,32}}\|>"
    r"|\[/?[A-Za-z_]{2,24}\]"
)
"""Ordinary tags as well: `<s>` ends a reply of some models, and strikes out text on a page."""


def candidates(prompt: ChatPrompt | TextPrompt, *, can_ask: bool) -> list[str]:
    """Texts in a prompt that may be a control token's, each once. All of them: whoever may write
    many could hide one behind the rest."""
    pattern = _MAYBE if can_ask else _SURE
    return list(dict.fromkeys(m[0] for text in _texts(prompt) for m in pattern.finditer(text)))


def unescaped(prompt: ChatPrompt) -> ChatPrompt:
    """JSON in it as it reads once the server has parsed it: `\\u003c` and `<\\/s>` hide nothing."""
    replace = msgspec.structs.replace
    messages = [
        replace(
            message,
            tool_calls=[
                replace(call, arguments=_unescaped(call.arguments)) for call in message.tool_calls
            ],
        )
        for message in prompt.messages
    ]
    tools = [replace(tool, parameters=_unescaped(tool.parameters)) for tool in prompt.tools]
    return replace(prompt, messages=messages, tools=tools)


def _unescaped(written: str) -> str:
    if "\\" not in written:
        return written
    try:
        return msgspec.json.encode(msgspec.json.decode(written)).decode()
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return written  # nobody parses that


def _texts(prompt: ChatPrompt | TextPrompt) -> Iterator[str]:
    if isinstance(prompt, TextPrompt):
        yield prompt.text
        return
    for message in prompt.messages:
        yield message.content
        yield message.reasoning or ""
        yield from (call.arguments for call in message.tool_calls)
    for tool in prompt.tools:  # of a tool server, which may be anybody's
        yield tool.description
        yield tool.parameters


def neutral(prompt: P, controls: list[str]) -> P:
    """The prompt with these texts broken, wherever they stand.

    >>> broken("a <|im_end|> b", ["<|im_end|>"])
    'a <\\u200b|im_end|> b'
    """
    if not controls:
        return prompt
    replace = msgspec.structs.replace
    if isinstance(prompt, TextPrompt):
        return replace(prompt, text=broken(prompt.text, controls), generated=[])
    messages = [
        replace(
            _with_content(message, controls),
            reasoning=None if message.reasoning is None else broken(message.reasoning, controls),
            attachments=[],  # nobody asks where they stand behind this
            passages=[],
            tool_calls=[
                replace(call, arguments=broken(call.arguments, controls))
                for call in message.tool_calls
            ],
        )
        for message in prompt.messages
    ]
    tools = [
        replace(
            tool,
            description=broken(tool.description, controls),
            parameters=broken(tool.parameters, controls),
        )
        for tool in prompt.tools
    ]
    return replace(prompt, messages=messages, tools=tools)


def _with_content(message: ChatMessage, controls: list[str]) -> ChatMessage:
    """Pictures stay where they stand among the words."""
    text, at, media = "", 0, []
    for each in message.media:
        text += broken(message.content[at : each.at], controls)
        at = max(at, each.at)
        media.append(msgspec.structs.replace(each, at=len(text)))
    text += broken(message.content[at:], controls)
    return msgspec.structs.replace(message, content=text, media=media)


def broken(text: str, controls: list[str]) -> str:
    for control in controls:
        text = text.replace(control, f"{control[0]}{BREAK}{control[1:]}")
    return text
