"""Tools that a request offers, and what it says of calls that were made before."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from app.amounts import bytes_words
from app.engine.protocol.prompt_messages import ChatPrompt
from app.engine.protocol.tool_messages import (
    AUTO,
    MAX_CALLS,
    MAX_TOOLS,
    NONE,
    REQUIRED,
    Tool,
    ToolCall,
)
from app.server.fields import Fields

MAX_NAME: Final = 128
MAX_TOOL_BYTES: Final = 256 * 1024


def with_openai_tools(prompt: ChatPrompt, fields: Fields) -> ChatPrompt:
    """`tools`, `tool_choice`, `parallel_tool_calls` of chat completions. Raises ApiError."""
    tools = []
    for at, value in enumerate(fields.entries("tools", most=MAX_TOOLS)):
        outer = Fields(value, f"tools[{at}].")
        outer.only("type", ("function",), "Only tools of the type “function” are supported.")
        inner = outer.object("function")
        if inner is None:
            raise outer.refuse("function", f"tools[{at}].function is missing.")
        inner.skip(("strict",))
        tools.append(_tool(inner, "parameters"))
        inner.close()
        outer.close()
    choice = fields.any("tool_choice", AUTO)
    if isinstance(choice, dict):
        outer = Fields(choice, "tool_choice.")
        sentence = "tool_choice must be “auto”, “none”, “required”, or name a function."
        outer.only("type", ("function",), sentence)
        inner = outer.object("function")
        choice = "" if inner is None else inner.text("name")
        _check_chosen(fields, choice, tools)
    elif choice not in (AUTO, NONE, REQUIRED):
        sentence = "tool_choice must be “auto”, “none”, “required”, or name a function."
        raise fields.refuse("tool_choice", sentence)
    return _with(
        prompt, fields, tools, choice, is_parallel=fields.flag("parallel_tool_calls", True)
    )


def with_anthropic_tools(prompt: ChatPrompt, fields: Fields) -> ChatPrompt:
    """`tools` and `tool_choice` of messages. Raises ApiError."""
    tools = []
    for at, value in enumerate(fields.entries("tools", most=MAX_TOOLS)):
        tool = Fields(value, f"tools[{at}].")
        tool.only("type", ("custom",), "Only tools of your own are supported, none of Anthropic's.")
        tool.skip(("cache_control", "strict", "eager_input_streaming", "defer_loading"))
        tools.append(_tool(tool, "input_schema"))
        tool.close()
    choice, is_parallel = AUTO, True
    asked = fields.object("tool_choice")
    if asked is not None:
        kind = asked.choice("type", ("auto", "any", "tool", "none"), "auto")
        choice = {"auto": AUTO, "any": REQUIRED, "none": NONE}.get(kind, "")
        if kind == "tool":
            choice = asked.text("name")
            _check_chosen(fields, choice, tools)
        is_parallel = not asked.flag("disable_parallel_tool_use")
        asked.close()
    return _with(prompt, fields, tools, choice, is_parallel=is_parallel)


def _with(
    prompt: ChatPrompt, fields: Fields, tools: list[Tool], choice: str, *, is_parallel: bool
) -> ChatPrompt:
    if choice not in (AUTO, NONE) and not tools:
        raise fields.refuse("tool_choice", "tool_choice asks for a call, but no tools are given.")
    is_named = choice not in (AUTO, NONE, REQUIRED)  # then both protocols mean one call
    return msgspec.structs.replace(
        prompt,
        tools=tools,
        tool_choice=choice,
        parallel_tool_calls=is_parallel and not is_named,
    )


def _check_chosen(fields: Fields, name: str, tools: list[Tool]) -> None:
    if name not in [tool.name for tool in tools] or name in (AUTO, NONE, REQUIRED):
        raise fields.refuse("tool_choice", "tool_choice names a tool that isn't among tools.")


def _tool(fields: Fields, schema_name: str) -> Tool:
    name = fields.text("name", most=MAX_NAME)
    if not name:
        raise fields.refuse("name", "A tool needs a name.")
    schema = fields.any(schema_name, {"type": "object", "properties": {}})
    if not isinstance(schema, dict):
        raise fields.refuse(schema_name, f"{schema_name} must be a JSON schema of an object.")
    text = msgspec.json.encode(schema).decode()
    if len(text.encode()) > MAX_TOOL_BYTES:
        sentence = f"A tool's schema may have at most {bytes_words(MAX_TOOL_BYTES)}."
        raise fields.refuse(schema_name, sentence)
    return Tool(name, fields.text("description"), text)


def openai_calls(fields: Fields) -> list[ToolCall]:
    """`tool_calls` of an assistant's message."""
    calls = []
    for at, value in enumerate(fields.entries("tool_calls", most=MAX_CALLS)):
        outer = Fields(value, f"{fields.named('tool_calls')}[{at}].")
        outer.only("type", ("function",), "Only calls of functions are supported.")
        outer.skip(("index",))
        inner = outer.object("function")
        if inner is None:
            raise outer.refuse("function", "A call names no function.")
        name, arguments = inner.text("name", most=MAX_NAME), inner.text("arguments", "{}")
        calls.append(ToolCall(outer.text("id", most=MAX_NAME), name, arguments))
        inner.close()
        outer.close()
    return calls


def told_call(call: ToolCall) -> dict[str, Any]:
    """A call in the form of chat completions."""
    return {
        "id": call.id,
        "type": "function",
        "function": {"name": call.name, "arguments": call.arguments},
    }


def arguments_of(call: ToolCall) -> dict[str, Any]:
    """As an object. What the weights wrote need not be one."""
    try:
        value = msgspec.json.decode(call.arguments or "{}")
    except (msgspec.DecodeError, RecursionError):
        value = call.arguments
    return value if isinstance(value, dict) else {"arguments": value}
