"""Requests in Anthropic's form (`/v1/messages`) as what the engine is asked.

A message of theirs holds blocks, and results of tools stand in a user's message: here each result
is a message of its own, before what the user says beside it.
"""

from __future__ import annotations

from typing import Final

import msgspec

from app.engine.protocol.bounds import shown
from app.engine.protocol.media_messages import Media
from app.engine.protocol.prompt_messages import ChatMessage, ChatPrompt
from app.engine.protocol.stages import Sampling
from app.engine.protocol.thinking_messages import OFF, ON, ThinkingOffer
from app.engine.protocol.tool_messages import MAX_CALLS, ToolCall
from app.server.asking import (
    MAX_MESSAGES,
    MAX_PARTS,
    Asked,
    conversation_of,
    model_name,
    read_generates,
    read_max_tokens,
    read_stop,
)
from app.server.fields import Fields
from app.server.media_reading import WHOSE, Content, Files, anthropic_file
from app.server.openai_reading import Context
from app.server.sampling import read_sampling, schema_text
from app.server.tools_reading import MAX_NAME, with_anthropic_tools

_HARMLESS: Final = (
    "metadata",
    "service_tier",
    "inference_geo",
    "cache_control",
    "user_profile_id",
    "workspace_id",
    "diagnostics",
    "speed",
)
_EFFORTS: Final = ("low", "medium", "high", "xhigh", "max")


def read_anthropic(
    fields: Fields, context: Context, offer: ThinkingOffer | None, *, is_counted: bool = False
) -> Asked:
    """`is_counted`: only the prompt matters (`/v1/messages/count_tokens`). Raises ApiError."""
    if not is_counted:
        fields.need("max_tokens")
    messages = read_blocks(fields, Files(context.loaded))
    messages = context.known.given(context.loaded.fast_hash, messages)
    thinking, budget = _thinking(fields, offer)
    sampling, effort = _output(fields, read_sampling(fields), offer)
    prompt = ChatPrompt(
        messages,
        continue_last=messages[-1].role == "assistant" and not messages[-1].tool_calls,
        thinking=effort or thinking,
        reasoning_budget=budget,
    )
    prompt = with_anthropic_tools(prompt, fields)
    fields.skip(_HARMLESS)
    generates = read_generates(
        fields,
        [prompt],
        sampling,
        context.options,
        context.loaded,
        max_tokens=read_max_tokens(fields, "max_tokens"),
        stop=read_stop(fields, "stop_sequences"),
        scores=None,
        conversation=conversation_of(messages),
    )
    if len(generates) > 1:
        raise fields.refuse("n", "There is one reply to a message; leave n out.")
    asked = Asked(generates, model_name(context.loaded), fields.flag("stream"))
    fields.close()
    return asked


# --- messages ---------------------------------------------------------------------------------


def read_blocks(fields: Fields, files: Files) -> list[ChatMessage]:
    """`system` and `messages`."""
    found: list[ChatMessage] = []
    system = _texts(fields, "system")
    if system:
        found.append(ChatMessage("system", system))
    given = fields.entries("messages", most=MAX_MESSAGES)
    if not given:
        raise fields.refuse("messages", "messages is missing or empty. Send at least one message.")
    names: dict[str, str] = {}
    for at, value in enumerate(given):
        message = Fields(value, f"messages[{at}].")
        role = message.choice("role", ("user", "assistant", "system"), "")
        message.need("content")
        if role == "assistant":
            found.append(_assistant(message, names))
        elif role == "system":
            found.append(ChatMessage("system", _texts(message, "content")))
        else:
            found += _user(message, names, files)
        message.close()
    return found


def _blocks(fields: Fields, name: str) -> list[Fields]:
    value = fields.any(name, "")
    if isinstance(value, str):
        return [Fields({"type": "text", "text": value})]
    place, parts = fields.named(name), fields.entries(name, most=MAX_PARTS)
    return [Fields(each, f"{place}[{at}].") for at, each in enumerate(parts)]


def _text(block: Fields) -> str:
    text = block.text("text")
    block.skip(("cache_control", "citations"))
    block.close()
    return text


def _texts(fields: Fields, name: str) -> str:
    return _content(fields, name, None).text


def _content(fields: Fields, name: str, files: Files | None) -> Content:
    """Texts; with `files` also pictures."""
    found = Content()
    for block in _blocks(fields, name):
        kind = block.text("type")
        if kind == "image" and files is not None:
            found.add(anthropic_file(block, files, len(found.text)))
        elif kind == "text":
            found.add_text(_text(block))
        else:
            raise _not_text(block, kind)
    return found


def _not_text(block: Fields, kind: str) -> Exception:
    if kind == "image":
        sentence = WHOSE
    else:
        sentence = f"Only text and pictures are read; {shown(kind)} isn't supported."
    return block.refuse("type", sentence)


def _assistant(fields: Fields, names: dict[str, str]) -> ChatMessage:
    texts: list[str] = []
    thoughts: list[str] = []
    calls: list[ToolCall] = []
    for block in _blocks(fields, "content"):
        kind = block.text("type")
        if kind == "text":
            texts.append(_text(block))
        elif kind == "thinking":
            thoughts.append(block.text("thinking"))
            block.skip(("signature", "cache_control"))
            block.close()
        elif kind == "tool_use":
            call = _call(block)
            names[call.id] = call.name
            calls.append(call)
        elif kind != "redacted_thinking":  # nobody can read that
            raise _not_text(block, kind)
    if len(calls) > MAX_CALLS:
        raise fields.refuse("content", f"A message may have at most {MAX_CALLS} calls.")
    reasoning = "\n".join(thoughts) or None
    return ChatMessage("assistant", "\n".join(texts), reasoning, tool_calls=calls)


def _call(block: Fields) -> ToolCall:
    arguments = block.any("input", {})
    if not isinstance(arguments, dict):
        raise block.refuse("input", f"input must be an object, not {shown(arguments)}.")
    block.skip(("cache_control", "caller"))
    call = ToolCall(
        block.text("id", most=MAX_NAME),
        block.text("name", most=MAX_NAME),
        msgspec.json.encode(arguments).decode(),
    )
    block.close()
    return call


def _user(fields: Fields, names: dict[str, str], files: Files) -> list[ChatMessage]:
    found: list[ChatMessage] = []
    said: Content | None = None
    for block in _blocks(fields, "content"):
        kind = block.text("type")
        if kind == "tool_result":
            number = block.text("tool_use_id", most=MAX_NAME)
            result = _content(block, "content", files)
            text = result.text
            if block.flag("is_error"):
                text = f"{_ERROR}{text}"
                result.media = [_moved(each, len(_ERROR)) for each in result.media]
            block.skip(("cache_control",))
            block.close()
            name = names.get(number, "")
            answer = ChatMessage("tool", text, tool_call_id=number, tool_name=name)
            found.append(msgspec.structs.replace(answer, media=result.media))
            continue
        said = said or Content()
        if kind == "text":
            said.add_text(_text(block))
        elif kind == "image":
            said.add(anthropic_file(block, files, len(said.text)))
        else:
            raise _not_text(block, kind)
    if said is None and found:
        return found
    said = said or Content()
    return [*found, ChatMessage("user", said.text, media=said.media)]


_ERROR: Final = "Error: "


def _moved(media: Media, by: int) -> Media:
    return msgspec.structs.replace(media, at=media.at + by)


# --- fields -----------------------------------------------------------------------------------


def wants_offer(fields: Fields) -> bool:
    """Whether it has to be known what the template can do about reasoning."""
    return any(name in fields for name in ("thinking", "output_config", "reasoning_effort"))


def _thinking(fields: Fields, offer: ThinkingOffer | None) -> tuple[str, int]:
    """What is chosen, and the budget. On where the template has a switch; off likewise."""
    asked = fields.object("thinking")
    if asked is None:
        return "", 0
    kinds = ("enabled", "disabled", "adaptive", "between_tools")
    kind = asked.choice("type", kinds, "disabled")
    asked.skip(("display",))
    budget = asked.whole("budget_tokens", 0, 0, 10_000_000)
    asked.close()
    choices = offer.choices if offer is not None else []
    if kind == "disabled":
        if offer is not None and offer.has_reasoning and OFF not in choices:
            sentence = "The loaded model's chat template always reasons; leave thinking out."
            raise fields.refuse("thinking", sentence)
        return (OFF if OFF in choices else "", 0)
    if kind != "enabled":
        return "", budget
    if not choices and not (offer is not None and offer.has_reasoning):
        sentence = "The loaded model's chat template has no reasoning; leave thinking out."
        raise fields.refuse("thinking", sentence)
    return (ON if ON in choices else "", budget)


def _output(
    fields: Fields, sampling: Sampling, offer: ThinkingOffer | None
) -> tuple[Sampling, str]:
    """`output_config`: a JSON schema, and an effort."""
    asked = fields.object("output_config")
    if asked is None:
        return sampling, ""
    effort = ""
    if "effort" in asked:
        effort = asked.choice("effort", _EFFORTS, "high")
        choices = offer.choices if offer is not None else []
        if effort not in choices:
            known = ", ".join(choices) or "none"
            sentence = f"The model's chat template has no effort “{effort}”. It knows: {known}."
            raise asked.refuse("effort", sentence)
    form = asked.object("format")
    if form is not None:
        form.choice("type", ("json_schema",), "")
        schema = schema_text(form, "schema", None)
        sampling = msgspec.structs.replace(sampling, json_schema=schema)
        form.close()
    asked.close()
    return sampling, effort
