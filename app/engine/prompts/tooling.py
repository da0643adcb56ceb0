"""Tools in a prompt: their definitions, what earlier replies called, and what came back.

What a template knows of (`call_forms.py`) it gets as OpenAI has it: the tools' definitions, calls
and their results. What it does not is told as text: definitions and how to call in the system
prompt, calls in the replies, in the form that the template describes or ours, results as the user's
messages.

A reply that comes back as its own IDs comes with its call as it wrote it, whatever the template
would have made of it.
"""

from __future__ import annotations

import hashlib
import json
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from app.engine.prompts.call_forms import ToolTemplate, as_tools, tool_template
from app.engine.prompts.sources import Sourced, framed, joined
from app.engine.prompts.tokens import Origin, TemplateWords
from app.engine.protocol.frames import clean_text
from app.engine.protocol.tool_messages import Tool, ToolCall
from app.engine.text.call_form import CallForm, as_json, object_of, written
from app.engine.text.calls import CallReader, Offered, parts_in

TOOLS: Final = "tools"
"""The origin of their definitions."""

_REMEMBERED: Final = 16
_EXAMPLE: Final = ToolCall("", "name_of_the_tool", '{"argument": "value"}')
_HOW: Final = (
    "You can call tools. To call one, write this and nothing after it:\n{example}\n"
    "The arguments fit the tool's parameters. You will get the result, then answer or call "
    "again. Without need of a tool, just answer. These are the tools:"
)
_RESULT: Final = ("<tool_response>\n", "\n</tool_response>")


@dataclass(frozen=True, slots=True)
class Tooling:
    """What a prompt's template makes of tools, and the tools."""

    template: ToolTemplate = field(default_factory=ToolTemplate)
    tools: tuple[Tool, ...] = ()

    @property
    def form(self) -> CallForm:
        return self.template.form

    def definitions(self) -> list[dict[str, Any]]:
        """As templates know them; none where the template does not."""
        return as_tools([_defined(tool) for tool in self.tools]) if self.template.has_tools else []


NO_TOOLING: Final = Tooling()

_found: OrderedDict[tuple[object, ...], ToolTemplate] = OrderedDict()


def tooling_of(
    tools: Sequence[Tool],
    messages: Sequence[Sourced],
    template: str,
    words: TemplateWords,
    render: Callable[..., str],
    extra: Mapping[str, Any],
) -> Tooling:
    """Found once for each template. Raises TemplateFailed."""
    if not tools and not any(m.tool_calls or m.tool_call_id for m in messages):
        return NO_TOOLING
    clean = tuple(
        Tool(clean_text(tool.name), clean_text(tool.description), clean_text(tool.parameters))
        for tool in tools
    )
    if not template:
        return Tooling(ToolTemplate(), clean)
    ends = tuple(getattr(words, "end_texts", ()))
    key = (template, words.bos_text, words.eos_text, ends, json.dumps(extra, sort_keys=True))
    if key not in _found:
        _found[key] = tool_template(template, words, render, extra)
        while len(_found) > _REMEMBERED:
            _found.popitem(last=False)
    return Tooling(_found[key], clean)


def _defined(tool: Tool) -> dict[str, Any]:
    return {
        "name": tool.name,
        "description": tool.description,
        "parameters": object_of(tool.parameters) or {"type": "object", "properties": {}},
    }


# --- as text ------------------------------------------------------------------------------------


def told(
    messages: Sequence[Sourced], tooling: Tooling, spell: Callable[[list[int]], str | None]
) -> list[Sourced]:
    """The messages with what their template does not know of tools as text in them."""
    template = tooling.template
    out = list(messages)
    if not template.has_calls:
        out = [_as_text(message, tooling.form, spell) for message in out]
        if not template.has_tools:
            out = [_as_users(message) for message in out]
    if tooling.tools and not template.has_tools:
        out = _with_definitions(out, tooling)
    return out


def _as_text(message: Sourced, form: CallForm, spell: Callable[[list[int]], str | None]) -> Sourced:
    if not message.tool_calls:
        return message
    text = raw_calls(message, form, spell)
    if not text:
        gap = "\n" if message.content and not message.content.endswith("\n") else ""
        text = gap + written(form, message.tool_calls)
    return msgspec.structs.replace(framed(message, "", text, is_own=True), tool_calls=[])


def raw_calls(message: Sourced, form: CallForm, spell: Callable[[list[int]], str | None]) -> str:
    """The calls of a reply as its own IDs spell them, with what stands before them behind the
    content; nothing where they do not spell these calls."""
    spelled = spell(message.token_ids) if message.token_ids else None
    if not spelled:
        return ""
    start = content_start(message, form, spelled)
    if start is None or not spelled.startswith(message.content, start):
        return ""
    return spelled[start + len(message.content) :]


def content_start(message: Sourced, form: CallForm, spelled: str) -> int | None:
    """Where the content, or the first call, of a reply begins in what its IDs spell; None where
    they spell other calls than the message has."""
    start = 0
    if message.reasoning:
        start = spelled.find(message.reasoning)
        if start < 0:
            return None
        start += len(message.reasoning)
    reader = reader_of(form, message.tool_calls)
    spans = parts_in(reader, spelled[start:])
    if not same_calls(reader.take(), message.tool_calls):
        return None
    if message.content:
        found = spelled.find(message.content, start)
        return found if found >= 0 else None
    return next((start + at for part, at, _ in spans if part == "call"), None)


def reader_of(form: CallForm, calls: Sequence[ToolCall]) -> CallReader:
    return CallReader(form, [Offered(call.name) for call in calls], new_id=str)


def same_calls(found: Sequence[object], calls: Sequence[ToolCall]) -> bool:
    """Whether they have the same names and arguments."""
    read = [one for one in found if isinstance(one, ToolCall)]
    if [one.name for one in read] != [one.name for one in calls]:
        return False
    return all(_alike(one, other) for one, other in zip(read, calls, strict=True))


def _alike(one: ToolCall, other: ToolCall) -> bool:
    """Without a schema a text that looks like a number cannot be told from one."""
    first, second = object_of(one.arguments), object_of(other.arguments)
    return first == second or (
        first.keys() == second.keys()
        and all(as_json(first[k]).strip('"') == as_json(second[k]).strip('"') for k in first)
    )


def _as_users(message: Sourced) -> Sourced:
    """A result as the user's message."""
    if message.role != "tool" or not message.tool_call_id:
        return message
    return msgspec.structs.replace(framed(message, *_RESULT), role="user")


def _with_definitions(messages: list[Sourced], tooling: Tooling) -> list[Sourced]:
    lines = "\n".join(as_json(_defined(tool)) for tool in tooling.tools)
    how = _HOW.format(example=written(tooling.form, [_EXAMPLE]) or _EXAMPLE.name)
    start = len(how) + 1
    source: Origin = (start, start + len(lines), TOOLS, None)
    ours = Sourced("system", f"{how}\n{lines}", sources=(source,))
    if messages and messages[0].role == "system":
        return [joined([messages[0], ours], into=messages[0]), *messages[1:]]
    return [ours, *messages]


# --- as templates know them ---------------------------------------------------------------------


def fields_of(message: Sourced, tooling: Tooling, hide: Callable[[str], str]) -> dict[str, Any]:
    """What a message has besides its texts."""
    fields: dict[str, Any] = {}
    if message.role == "tool":
        fields |= {"name": hide(message.tool_name), "tool_call_id": hide(message.tool_call_id)}
    if message.tool_calls:
        form = tooling.form
        fields["tool_calls"] = [
            {
                "id": hide(call.id),
                "type": "function",
                "function": {
                    "name": hide(call.name),
                    "arguments": hide(call.arguments)
                    if form.takes_text
                    else hidden(object_of(call.arguments), hide),
                },
            }
            for call in message.tool_calls
        ]
    return fields


def with_ids(messages: Sequence[Sourced], tooling: Tooling) -> list[Sourced]:
    """Ids as this template needs them: some hold the name and the number of their call."""
    if not tooling.form.is_id_named:
        return list(messages)
    names = {
        call.id: call.id if call.name in call.id else f"functions.{call.name}:{number}"
        for number, call in enumerate(call for m in messages for call in m.tool_calls)
    }
    return _renamed(messages, names)


def with_short_ids(messages: Sequence[Sourced]) -> list[Sourced]:
    """Nine letters and digits, as Mistral's templates demand them."""
    calls = [call for message in messages for call in message.tool_calls]
    names = {call.id: _short(call.id) for call in calls}
    names |= {m.tool_call_id: _short(m.tool_call_id) for m in messages if m.role == "tool"}
    return _renamed(messages, names)


def _short(call_id: str) -> str:
    if len(call_id) == 9 and call_id.isalnum() and call_id.isascii():
        return call_id
    return hashlib.blake2b(call_id.encode(), digest_size=8).hexdigest()[:9]


def _renamed(messages: Sequence[Sourced], names: Mapping[str, str]) -> list[Sourced]:
    return [
        msgspec.structs.replace(
            m,
            tool_calls=[msgspec.structs.replace(c, id=names.get(c.id, c.id)) for c in m.tool_calls],
            tool_call_id=names.get(m.tool_call_id, m.tool_call_id),
        )
        if m.tool_calls or m.tool_call_id
        else m
        for m in messages
    ]


def hidden(value: Any, hide: Callable[[str], str]) -> Any:
    """All texts in a value of JSON, keys included."""
    if isinstance(value, str):
        return hide(value)
    if isinstance(value, list):
        return [hidden(each, hide) for each in value]
    if isinstance(value, dict):
        return {hide(key): hidden(each, hide) for key, each in value.items()}
    return value


def texts_of(messages: Sequence[Sourced], tooling: Tooling) -> Iterator[str]:
    """All texts that come from tools, in whatever form a template may be given them."""
    for message in messages:
        yield from (message.tool_name, message.tool_call_id)
        for call in message.tool_calls:
            yield from (call.id, call.name, call.arguments)
            yield from _texts_in(object_of(call.arguments))
    yield from _texts_in(tooling.definitions())


def _texts_in(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for each in value:
            yield from _texts_in(each)
    elif isinstance(value, dict):
        for key, each in value.items():
            yield key
            yield from _texts_in(each)
