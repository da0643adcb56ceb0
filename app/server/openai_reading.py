"""Requests in OpenAI's form, with llama-server's fields beside them, as the engine is asked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, cast

import msgspec

from app.engine.protocol.bounds import shown
from app.engine.protocol.loading_messages import Loaded
from app.engine.protocol.prompt_messages import (
    ChatMessage,
    ChatPrompt,
    IdsPrompt,
    Prompt,
    Role,
    TextPrompt,
)
from app.engine.protocol.thinking_messages import OFF, ON, ThinkingOffer
from app.server.asking import (
    MAX_CHOICES,
    MAX_MESSAGES,
    MAX_PARTS,
    MAX_SCORES,
    Asked,
    conversation_of,
    model_name,
    read_generates,
    read_max_tokens,
    read_stop,
)
from app.server.errors import bad_request
from app.server.fields import Fields, is_id
from app.server.known_replies import KnownReplies
from app.server.media_reading import OPENAI_KINDS, WHOSE, Content, Files, openai_file
from app.server.options import ServerOptions
from app.server.sampling import read_sampling, with_format
from app.server.tools_reading import MAX_NAME, openai_calls, with_openai_tools

_ROLES: Final = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
}
MAX_PROMPT_IDS: Final = 10_000_000


@dataclass(frozen=True, slots=True)
class Context:
    """What reading needs to know."""

    loaded: Loaded
    options: ServerOptions
    known: KnownReplies


def read_chat(fields: Fields, context: Context, offer: ThinkingOffer | None) -> Asked:
    """`/v1/chat/completions`. `offer`: what the template can be told about reasoning, where the
    request says anything about that. Raises ApiError."""
    weights = context.loaded.fast_hash
    messages = context.known.given(weights, read_messages(fields, Files(context.loaded)))
    sampling = with_format(read_sampling(fields), fields)
    scores = _chat_scores(fields)
    prompt = ChatPrompt(
        messages,
        continue_last=messages[-1].role == "assistant" and not messages[-1].tool_calls,
        thinking=read_effort(fields, offer),
        variables=read_variables(fields),
    )
    prompt = with_openai_tools(prompt, fields)
    _refuse_other_media(fields)
    generates = read_generates(
        fields,
        [prompt],
        sampling,
        context.options,
        context.loaded,
        max_tokens=read_max_tokens(fields, "max_completion_tokens", "max_tokens", "n_predict"),
        stop=read_stop(fields),
        scores=scores,
        conversation=conversation_of(messages),
    )
    return _asked(fields, context, generates, scores, [])


def read_completion(fields: Fields, context: Context) -> Asked:
    """`/v1/completions`: a text, or IDs, that is gone on with. Raises ApiError."""
    prompts = read_prompts(fields)
    sampling = with_format(read_sampling(fields), fields)
    scores = _text_scores(fields)
    fields.only("suffix", ("",), "Filling in before a suffix isn't supported; leave suffix out.")
    count = fields.whole("n", 1, 1, MAX_CHOICES)
    sentence = "Choosing the best of several isn't supported; leave best_of out, or set it to n."
    fields.only("best_of", (1, count), sentence)
    echo = fields.flag("echo")
    if echo and (scores is not None or any(isinstance(p, IdsPrompt) for p in prompts)):
        raise fields.refuse("echo", "echo works with a text as the prompt, and without logprobs.")
    generates = read_generates(
        fields,
        prompts,
        sampling,
        context.options,
        context.loaded,
        max_tokens=read_max_tokens(fields, "max_tokens", "n_predict"),
        stop=read_stop(fields),
        scores=scores,
        conversation="served text",
    )
    prefix = [p.text if echo and isinstance(p, TextPrompt) else "" for p in prompts]
    return _asked(fields, context, generates, scores, [p for p in prefix for _ in range(count)])


def _asked(
    fields: Fields, context: Context, generates: list[Any], scores: int | None, prefix: list[str]
) -> Asked:
    is_streaming = fields.flag("stream")
    options = fields.object("stream_options")
    with_usage = False
    if options is not None:
        if not is_streaming:
            raise fields.refuse("stream_options", "stream_options needs “stream”: true.")
        with_usage = options.flag("include_usage")
        options.flag("include_obfuscation")
        options.close()
    asked = Asked(
        generates,
        model_name(context.loaded),
        is_streaming,
        with_usage,
        scores,
        fields.flag("timings_per_token"),
        prefix,
    )
    fields.close()
    return asked


# --- messages ---------------------------------------------------------------------------------


def read_messages(fields: Fields, files: Files) -> list[ChatMessage]:
    found = fields.entries("messages", most=MAX_MESSAGES)
    if not found:
        raise fields.refuse("messages", "messages is missing or empty. Send at least one message.")
    names: dict[str, str] = {}
    return [
        _message(Fields(value, f"messages[{at}]."), names, files) for at, value in enumerate(found)
    ]


def _message(fields: Fields, names: dict[str, str], files: Files) -> ChatMessage:
    """`names`: of the calls so far, by their IDs."""
    role = cast("Role", _ROLES[fields.choice("role", tuple(_ROLES), "")])
    if role != "assistant":
        fields.need("content")
    content = read_content(fields, "content", files if role in WITH_FILES else None)
    reasoning, calls, answers = "", [], ""
    if role == "assistant":
        reasoning, calls = fields.text("reasoning_content"), openai_calls(fields)
        names.update((call.id, call.name) for call in calls)
    elif role == "tool":
        answers = fields.text("tool_call_id", most=MAX_NAME)
    name = fields.text("name", names.get(answers, ""), most=MAX_NAME)
    fields.skip(("refusal", "annotations", "audio"))
    fields.close()
    return ChatMessage(
        role,
        content.text,
        reasoning or None,
        tool_calls=calls,
        tool_call_id=answers,
        tool_name=name if role == "tool" else "",
        media=content.media,
    )


WITH_FILES: Final = ("user", "tool")
"""Who may bring pictures along."""


def read_content(fields: Fields, name: str, files: Files | None) -> Content:
    """A text, or parts. `files`: where pictures and sounds may be among them."""
    value = fields.any(name, "")
    if isinstance(value, str):
        return Content(fields.text(name))
    found = Content()
    for at, part in enumerate(fields.entries(name, most=MAX_PARTS)):
        if isinstance(part, str):
            found.add_text(part)
            continue
        inner = Fields(part, f"{fields.named(name)}[{at}].")
        kind = inner.text("type")
        if files is not None and kind in OPENAI_KINDS:
            found.add(openai_file(inner, kind, files, len(found.text)))
            continue
        if kind not in ("text", "input_text", "output_text"):
            if kind in OPENAI_KINDS:
                sentence = WHOSE
            else:
                sentence = (
                    f"Only text, pictures and sounds are read; {shown(kind)} isn't supported."
                )
            raise inner.refuse("type", sentence)
        found.add_text(inner.text("text"))
        inner.skip(("annotations", "prompt_cache_breakpoint"))
        inner.close()
    return found


def read_prompts(fields: Fields) -> list[Prompt]:
    """A text, IDs, or a list of either."""
    value = fields.any("prompt")
    if isinstance(value, str):
        return [TextPrompt(fields.text("prompt"))]
    if not isinstance(value, list) or not value:
        raise fields.refuse("prompt", "prompt must be a text, token IDs, or a list of them.")
    if all(map(is_id, value)):
        return [IdsPrompt(value)]
    if len(value) > MAX_CHOICES:
        raise fields.refuse("prompt", f"One request may have at most {MAX_CHOICES} prompts.")
    prompts: list[Prompt] = []
    for each in value:
        if isinstance(each, str):
            prompts.append(TextPrompt(Fields({"prompt": each}).text("prompt")))
        elif isinstance(each, list) and each and all(map(is_id, each)):
            prompts.append(IdsPrompt(each))
        else:
            raise fields.refuse("prompt", "Each prompt must be a text, or a list of token IDs.")
    return prompts


# --- fields -----------------------------------------------------------------------------------

_EFFORTS: Final = ("none", "minimal", "low", "medium", "high", "xhigh", "max")


def read_effort(fields: Fields, offer: ThinkingOffer | None) -> str:
    """`reasoning_effort` as a choice of this template. Raises ApiError where it has none such."""
    if "reasoning_effort" not in fields:
        return ""
    effort = fields.choice("reasoning_effort", _EFFORTS, "medium")
    offered = offer.choices if offer is not None else []
    wanted = OFF if effort == "none" else effort
    by_lower = {choice.lower(): choice for choice in offered}
    if wanted in by_lower:
        return by_lower[wanted]
    has_efforts = bool(set(by_lower) - {ON, OFF})
    if wanted != OFF and ON in by_lower and not has_efforts:
        return ON
    known = f"It knows: {', '.join(offered)}." if offered else "It has no such switch."
    raise fields.refuse(
        "reasoning_effort", f"The model's chat template can't reason at “{effort}”. {known}"
    )


def read_variables(fields: Fields) -> str:
    """llama-server's `chat_template_kwargs`, as JSON."""
    value = fields.any("chat_template_kwargs")
    if value is None:
        return ""
    if not isinstance(value, dict):
        raise fields.refuse("chat_template_kwargs", "chat_template_kwargs must be an object.")
    return msgspec.json.encode(value).decode()


def _chat_scores(fields: Fields) -> int | None:
    is_wanted = fields.flag("logprobs")
    count = fields.whole("top_logprobs", 0, 0, MAX_SCORES)
    if count and not is_wanted:
        raise fields.refuse("top_logprobs", "top_logprobs needs “logprobs”: true.")
    return _probs(fields, count if is_wanted else None)


def _text_scores(fields: Fields) -> int | None:
    given = "logprobs" in fields
    count = fields.whole("logprobs", 0, 0, MAX_SCORES)
    return _probs(fields, count if given else None)


def _probs(fields: Fields, count: int | None) -> int | None:
    """llama-server's `n_probs` asks for the same."""
    n_probs = fields.whole("n_probs", 0, 0, MAX_SCORES)
    sentence = "Probabilities are told before the samplers; leave post_sampling_probs out."
    fields.only("post_sampling_probs", (False,), sentence)
    return max(count or 0, n_probs) if count is not None or n_probs else None


def _refuse_other_media(fields: Fields) -> None:
    fields.only("modalities", (["text"],), "This model answers in text only.")
    fields.only("reasoning_format", ("auto", "deepseek"), "Reasoning is always told apart here.")
    if "functions" in fields or "function_call" in fields:
        raise bad_request("functions is out of use; send tools and tool_choice.", "functions")
