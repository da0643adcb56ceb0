"""Chats as lines of JSON for fine-tuning, one line for each path. One way: what these shapes have
no place for (settings, times, versions, traces) is left out, and nothing imports them here.

`messages`, as OpenAI's and Hugging Face's trainers read it:

    {"messages": [
      {"role": "user", "content": "…"},
      {"role": "assistant", "content": "…", "reasoning_content": "…", "tool_calls": […]},
      {"role": "tool", "tool_call_id": "…", "name": "…", "content": "…"}]}

`sharegpt`, with the names that LLaMA-Factory and Axolotl know:

    {"conversations": [{"from": "human", "value": "…"}, {"from": "gpt", "value": "…"},
                       {"from": "function_call", "value": "{…}"},
                       {"from": "observation", "value": "…"}]}

What must hold: a line ends with a reply that is whole, every call has its result, and a user's
message says what the model was told, attached texts and all. Messages of the user that follow each
other (a failed reply between them is left out) are one, since most chat templates refuse two.
ShareGPT's readers skip every chat whose sides don't take turns: there those that ask (`human`,
`observation`) and those that answer (`gpt`, `function_call`) alternate, beginning with a question.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any, Final

from app.chat.attachments.attached_text import with_attachments
from app.chat.exchange.choices import Choices
from app.chat.exchange.markdown_format import active_path
from app.chat.exchange.pictures import type_of
from app.chat.exchange.reading import Chat, paths
from app.chat.replies.calls import answered_by, calls_of, without_unanswered
from app.chat.replies.summary_nodes import without_summaries
from app.engine.protocol.tool_messages import ToolCall
from models.records import ConversationKind, Message, MessageState, Role

_FROM: Final = {
    Role.SYSTEM: "system",
    Role.USER: "human",
    Role.ASSISTANT: "gpt",
    Role.TOOL: "observation",
}
_ANSWERS: Final = ("gpt", "function_call")
_WHOLE: Final = (MessageState.COMPLETE, MessageState.STOPPED)


def lines(chat: Chat, choices: Choices) -> Iterator[bytes]:
    """One for each path that ends with a reply; none of a text that is no chat."""
    if chat.conversation.kind is ConversationKind.TEXT:
        return
    every = paths(chat.whole) if choices.branches else iter([active_path(chat.whole)])
    written: set[tuple[str, ...]] = set()
    for path in every:
        kept = _kept(path)
        ids = tuple(message.id for message in kept)
        if not kept or ids in written:
            continue
        written.add(ids)
        system = chat.conversation.system_prompt if choices.system else ""
        made = _shaped(chat, kept, choices, system)
        yield json.dumps(made, ensure_ascii=False).encode("utf-8", "replace") + b"\n"


def _kept(path: Sequence[Message]) -> list[Message]:
    """Up to the last reply that came to its end; what failed and says nothing is left out."""
    found = [each for each in without_summaries(path) if _says_something(each)]
    while found and not _is_end(found[-1]):
        found.pop()
    answered = without_unanswered(found)
    while answered and not _is_end(answered[-1]):
        answered.pop()
    return answered


def _says_something(message: Message) -> bool:
    if message.state is MessageState.UNREADABLE:
        return False
    return bool(
        message.content or message.attachments or calls_of(message) or message.role is Role.TOOL
    )


def _is_end(message: Message) -> bool:
    is_reply = message.role is Role.ASSISTANT and message.state in _WHOLE
    return is_reply and bool(message.content) and not calls_of(message)


def _shaped(chat: Chat, path: Sequence[Message], choices: Choices, system: str) -> dict[str, Any]:
    if choices.shape == "sharegpt":
        spoken: list[dict[str, str]] = []
        for message in path:
            chat.step()
            spoken.append(_spoken(message, choices))
        first = [{"from": "system", "value": system}] if system else []
        return {"conversations": first + _taking_turns(spoken)}
    told = [{"role": "system", "content": system}] if system else []
    for message in path:
        found = _told(chat, message, choices)
        if told and found["role"] == told[-1]["role"] == Role.USER.value:
            told[-1]["content"] = _one_content(told[-1]["content"], found["content"])
        else:
            told.append(found)
    return {"messages": told}


def _one_content(first: Any, second: Any) -> Any:
    if isinstance(first, str) and isinstance(second, str):
        return f"{first}\n\n{second}"
    return [*_as_parts(first), *_as_parts(second)]


def _as_parts(content: Any) -> list[Any]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _told(chat: Chat, message: Message, choices: Choices) -> dict[str, Any]:
    chat.step()
    found: dict[str, Any] = {"role": message.role.value, "content": _content(message)}
    pictures = [
        {"type": "image_url", "image_url": {"url": _address(data, kind)}}
        for attachment in message.attachments
        if (kind := type_of(data := chat.picture(attachment)))
    ]
    if pictures:
        found["content"] = [*pictures, {"type": "text", "text": found["content"]}]
    if message.role is Role.TOOL:
        call = answered_by(message)
        found |= {"tool_call_id": call.id, "name": call.name}
    if message.role is Role.ASSISTANT and message.reasoning and choices.reasoning:
        found["reasoning_content"] = message.reasoning
    if calls := calls_of(message):
        found["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": call.arguments},
            }
            for call in calls
        ]
    return found


def _spoken(message: Message, choices: Choices) -> dict[str, str]:
    """Of a reply that calls, what it says beside the call has no place."""
    text, kind = _content(message), _FROM[message.role]
    if calls := calls_of(message):
        called = [_called(call) for call in calls]
        text = json.dumps(called if len(called) > 1 else called[0], ensure_ascii=False)
        kind = "function_call"
    if message.role is Role.ASSISTANT and message.reasoning and choices.reasoning:
        text = f"<think>\n{message.reasoning}\n</think>\n\n{text}"
    return {"from": kind, "value": text}


def _taking_turns(spoken: Sequence[dict[str, str]]) -> list[dict[str, str]]:
    """Those of one side are one entry: results a list, as the calls before them are."""
    found: list[dict[str, str]] = []
    for answers, group in groupby(spoken, lambda each: each["from"] in _ANSWERS):
        entries = list(group)
        if answers and not found:
            found.append({"from": "human", "value": ""})
        kind = entries[-1]["from"]
        if kind == "function_call":
            entries = entries[-1:]
        values = [each["value"] for each in entries]
        if all(each["from"] == "observation" for each in entries) and len(values) > 1:
            value = json.dumps(values, ensure_ascii=False)
        else:
            value = "\n\n".join(values)
        found.append({"from": "human" if kind == "system" else kind, "value": value})
    return found


def _called(call: ToolCall) -> dict[str, Any]:
    try:
        arguments = json.loads(call.arguments)
    except (ValueError, RecursionError):
        arguments = call.arguments
    return {"name": call.name, "arguments": arguments}


def _content(message: Message) -> str:
    """What the prompt had of it, but pictures and sounds."""
    texts = [each for each in message.attachments if each.kind not in ("picture", "audio")]
    return with_attachments(message.content, texts) if texts else message.content


def _address(data: bytes, kind: str) -> str:
    return f"data:{kind};base64,{base64.b64encode(data).decode()}"
