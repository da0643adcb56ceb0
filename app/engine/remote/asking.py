"""A request of ours as one of the server's: path, JSON body, and what had to be left out of it.

    Generate(ChatPrompt)             → POST /v1/chat/completions
    Generate(TextPrompt, IdsPrompt)  → POST /v1/completions

Names of fields are those of OpenAI's API reference; what is a server's own is in `kinds`.
"""

from __future__ import annotations

import random
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from app.engine.protocol.messages import Generate
from app.engine.protocol.prompt_messages import ChatMessage, ChatPrompt, IdsPrompt
from app.engine.protocol.remote_messages import EngineOffer
from app.engine.protocol.stage_rules import MAX_SEED, in_words, stage_name
from app.engine.protocol.stages import (
    AdaptiveP,
    Greedy,
    LogitBias,
    Mirostat,
    MirostatV2,
    Penalties,
    Sampling,
    Stage,
    Temperature,
    TopK,
)
from app.engine.protocol.template_variables import read_variables
from app.engine.protocol.thinking_messages import OFF, ON
from app.engine.protocol.tool_messages import AUTO, NONE, REQUIRED, Tool
from app.engine.protocol.without_effect import idle_stages
from app.engine.remote.kinds import KINDS, SAMPLERS
from app.engine.remote.media import as_one, with_media
from app.engine.remote.target import Target
from app.refusal import Refusal

CHAT: Final = "/v1/chat/completions"
TEXT: Final = "/v1/completions"
BETWEEN: Final = "\n\n"
_UNLIMITED: Final = 32_768
"""Where a server would end after a few tokens unless it is told a number."""
_MANY: Final = 2**20
"""Larger than any vocabulary."""


@dataclass(slots=True)
class Asked:
    """`notes`: kind and sentence of each. `seed`: what was sent; None where none is taken."""

    path: str
    body: dict[str, Any]
    notes: list[tuple[str, str]] = field(default_factory=list)
    seed: int | None = None
    n_logprobs: int = 0


def asked_for(generate: Generate, target: Target, begin: str = "", prompt: Any = None) -> Asked:
    """`begin`: what the reply begins with, besides what the prompt continues. `prompt`: the
    rendered one (a text, or IDs), to be completed as it is. Raises Refusal."""
    offer = target.offer
    body: dict[str, Any] = {
        "model": target.model.id,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    asked = Asked(CHAT, body)
    if prompt is None and isinstance(generate.prompt, ChatPrompt):
        _add_chat(asked, generate.prompt, offer, begin)
    else:
        _add_text(asked, generate, offer, begin, prompt)
    _add_limits(asked, generate, target)
    _add_sampling(asked, generate.sampling, target)
    _add_logprobs(asked, generate, offer)
    _note_the_rest(asked, generate, offer)
    return without(asked, target.refused)


# --- what stands before the reply ---------------------------------------------------------------


def template_fields(prompt: ChatPrompt, offer: EngineOffer) -> dict[str, Any]:
    """What a chat is rendered from, for who only wants to see or count it."""
    asked = Asked(CHAT, {"messages": messages_of(prompt, offer)})
    kwargs = _template_variables(asked, prompt, offer)
    if kwargs:
        asked.body["chat_template_kwargs"] = kwargs
    if prompt.tools and prompt.tool_choice != NONE and offer.can("tools"):
        _add_tools(asked, prompt, offer)
    return asked.body


def _add_chat(asked: Asked, prompt: ChatPrompt, offer: EngineOffer, begin: str) -> None:
    messages = messages_of(prompt, offer)
    goes_on = prompt.continue_last and bool(prompt.messages)
    if begin and not goes_on:
        messages.append({"role": "assistant", "content": ""})
    if begin or goes_on:
        _continue(asked, messages, offer, begin)
    asked.body["messages"] = messages
    kwargs = _template_variables(asked, prompt, offer)
    if kwargs:
        asked.body["chat_template_kwargs"] = kwargs
    if prompt.tools and prompt.tool_choice != NONE:
        _add_tools(asked, prompt, offer)


def _continue(asked: Asked, messages: list[dict[str, Any]], offer: EngineOffer, begin: str) -> None:
    """The last message is the reply's own beginning. llama-server continues it unasked; vLLM and
    SGLang where they are told to."""
    why_not = offer.why_not("continue")
    if why_not:
        raise Refusal("unsupported", f"{why_not} Regenerate the reply, or continue it locally.")
    last = messages[-1]
    last["content"] += begin
    if not last["content"]:
        raise Refusal(
            "unsupported",
            f"“{offer.name}” can't continue inside the reasoning. Regenerate the reply, or "
            "continue it with a local model.",
        )
    if offer.kind in ("vllm", "sglang"):
        asked.body["continue_final_message"] = True
    if offer.kind == "vllm":
        asked.body["add_generation_prompt"] = False


def messages_of(prompt: ChatPrompt, offer: EngineOffer) -> list[dict[str, Any]]:
    """As OpenAI has them. What stands side by side in one role is one message: templates want turns
    to alternate. Nothing of it is told as tokens: how they are cut is the server's."""
    found: list[dict[str, Any]] = []
    for message in prompt.messages:
        told = _message(message, offer)
        before = found[-1] if found else None
        if before is not None and _are_one(before, told):
            before["content"] = as_one(before["content"], told["content"], BETWEEN)
        else:
            found.append(told)
    return found


def _are_one(before: dict[str, Any], told: dict[str, Any]) -> bool:
    is_same = before["role"] == told["role"] and told["role"] in ("user", "assistant")
    return is_same and "tool_calls" not in before and "tool_calls" not in told


def _message(message: ChatMessage, offer: EngineOffer) -> dict[str, Any]:
    content = with_media(message, offer) if message.media else message.content
    told: dict[str, Any] = {"role": message.role, "content": content}
    if message.reasoning and (offer.speaks_llama or offer.kind in ("vllm", "sglang")):
        told["reasoning_content"] = message.reasoning
        if offer.kind == "vllm":  # its name since 0.12
            told["reasoning"] = message.reasoning
    if message.tool_calls:
        told["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": call.arguments},
            }
            for call in message.tool_calls
        ]
    if message.role == "tool":
        told["tool_call_id"] = message.tool_call_id
        if message.tool_name:
            told["name"] = message.tool_name
    return told


def _add_tools(asked: Asked, prompt: ChatPrompt, offer: EngineOffer) -> None:
    why_not = offer.why_not("tools")
    if why_not:
        raise Refusal("unsupported", f"{why_not} Turn tools off for this chat.")
    asked.body["tools"] = [_tool(each) for each in prompt.tools]
    choice = prompt.tool_choice
    if choice != AUTO:
        named = {"type": "function", "function": {"name": choice}}
        asked.body["tool_choice"] = choice if choice == REQUIRED else named
    if not prompt.parallel_tool_calls:
        asked.body["parallel_tool_calls"] = False


def _tool(tool: Tool) -> dict[str, Any]:
    try:
        parameters = msgspec.json.decode(tool.parameters)
    except msgspec.MsgspecError:
        raise Refusal(
            "bad_setting",
            f"The parameters of the tool “{tool.name}” aren't valid JSON. Turn it off or mend it.",
        ) from None
    function = {"name": tool.name, "description": tool.description, "parameters": parameters}
    return {"type": "function", "function": function}


def _template_variables(asked: Asked, prompt: ChatPrompt, offer: EngineOffer) -> dict[str, Any]:
    """What the template is given, where the server passes it on."""
    variables = dict(read_variables(prompt.variables))
    has_kwargs = offer.speaks_llama or offer.kind in ("vllm", "sglang")
    choice = prompt.thinking
    if choice:
        why_not = offer.why_not("thinking")
        if why_not:
            asked.notes.append(("thinking", f"{why_not} The choice isn't sent."))
        elif not has_kwargs:
            asked.body["reasoning_effort"] = {OFF: "none", ON: "medium"}.get(choice, choice)
        elif choice in (ON, OFF):
            variables.setdefault("enable_thinking", choice == ON)
        else:
            variables.setdefault("reasoning_effort", choice)
    if variables and not has_kwargs:
        names = ", ".join(sorted(variables))
        words = f"“{offer.name}” takes no template variables: {names} isn't sent."
        asked.notes.append(("template_variables", words))
        return {}
    return variables


def _add_text(
    asked: Asked, generate: Generate, offer: EngineOffer, begin: str, prompt: Any
) -> None:
    asked.path = TEXT
    given = generate.prompt
    if prompt is None and isinstance(given, IdsPrompt):
        why_not = offer.why_not("ids")
        if why_not:
            raise Refusal("unsupported", f"{why_not} Use a local model for this.")
        if begin:
            raise Refusal("unsupported", f"“{offer.name}” can't go on behind these tokens.")
        asked.body["prompt"] = list(given.token_ids)
    elif prompt is None:
        assert not isinstance(given, ChatPrompt | IdsPrompt)
        asked.body["prompt"] = given.text + begin
    else:
        asked.body["prompt"] = prompt + begin


# --- how it is drawn, and how much --------------------------------------------------------------


def _add_limits(asked: Asked, generate: Generate, target: Target) -> None:
    offer = target.offer
    body, kind = asked.body, offer.kind
    if generate.max_tokens:
        is_own = target.is_openai and asked.path == CHAT
        body["max_completion_tokens" if is_own else "max_tokens"] = generate.max_tokens
    elif asked.path == TEXT and not offer.speaks_llama:
        # Their default is 16 tokens. None means no limit to vLLM and llama-cpp-python.
        has_none = kind in ("vllm", "llama-cpp-python")
        body["max_tokens"] = None if has_none else target.model.n_ctx or _UNLIMITED
    if generate.stop:
        body["stop"] = list(generate.stop)
    if generate.stop_ids:
        _put(asked, offer, "stop_ids", "stop_token_ids", list(generate.stop_ids))
    if generate.sampling.min_tokens:
        _put(asked, offer, "min_tokens", "min_tokens", generate.sampling.min_tokens)
    if generate.sampling.ban_end_token:
        _put(asked, offer, "ban_end_token", "ignore_eos", True)
    if generate.sampling.banned_strings:
        banned = list(generate.sampling.banned_strings)
        _put(asked, offer, "banned_strings", "bad_words", banned)


def _put(asked: Asked, offer: EngineOffer, ability: Any, name: str, value: Any) -> None:
    why_not = offer.why_not(ability)
    if why_not:
        asked.notes.append((ability, f"{why_not} This setting isn't sent."))
    else:
        asked.body[name] = value


def _add_sampling(asked: Asked, sampling: Sampling, target: Target) -> None:
    offer = target.offer
    kind, body = KINDS[offer.kind], asked.body
    body.update({k: v for k, v in kind.neutral.items() if target.knows(k)})
    left_out: list[str] = []
    seen: set[type[Stage]] = set()
    idle = idle_stages(sampling, n_vocab=_MANY)
    for at, stage in enumerate(sampling.filters):
        if at in idle and not isinstance(stage, Temperature):
            continue
        if type(stage) in seen:
            left_out.append(f"the second {in_words(stage_name(stage))}")
            continue
        seen.add(type(stage))
        _add_stage(body, stage, target, left_out)
    _add_selection(body, sampling, target, left_out)
    if offer.speaks_llama:
        _add_order(body, sampling, offer)
    if left_out:
        words = " and ".join([", ".join(left_out[:-1]), left_out[-1]] if left_out[1:] else left_out)
        asked.notes.append(
            (f"not_sent {words}"[:200], f"“{offer.name}” doesn't take {words}: not applied.")
        )
    if offer.can("seed"):
        seed = (
            random.SystemRandom().randint(0, MAX_SEED) if sampling.seed is None else sampling.seed
        )
        body["seed"] = asked.seed = seed
    elif sampling.seed is not None:
        asked.notes.append(("seed", f"{offer.why_not('seed')} The seed isn't sent."))
    _add_format(asked, sampling, offer)


def _add_stage(body: dict[str, Any], stage: Stage, target: Target, left_out: list[str]) -> None:
    offer = target.offer
    name = stage_name(stage)
    if offer.why_not_stage(name):
        left_out.append(in_words(name))
        return
    if isinstance(stage, LogitBias):
        _add_biases(body, stage, offer, left_out)
        return
    for own, theirs in KINDS[offer.kind].stages[type(stage)].items():
        if not offer.why_not_stage(name, own) and target.knows(theirs):
            value = getattr(stage, own)
            if own == "last_n" and value < 0:  # newer llama-servers refuse their own -1
                value = target.model.n_ctx or value
            if own == "min_keep":
                body[theirs] = max(body.get(theirs, 0), value if value > 1 else 0)
            else:
                body[theirs] = value
    if isinstance(stage, TopK) and stage.k <= 0 and offer.kind in ("vllm", "sglang"):
        body["top_k"] = -1
    left_out += [
        in_words(f"{name}.{own}")
        for own in stage.__struct_fields__
        if f"{name}.{own}" in {lack.name for lack in offer.stages} and _matters(stage, own)
    ]


def _matters(stage: Stage, own: str) -> bool:
    """Whether a field that is not sent would have changed anything."""
    if not isinstance(stage, Penalties):
        return True
    if own == "last_n":
        return (stage.repeat, stage.frequency, stage.presence) != (1.0, 0.0, 0.0)
    neutral = {"repeat": 1.0}.get(own, 0.0)
    return bool(getattr(stage, own) != neutral)


def _add_biases(
    body: dict[str, Any], stage: LogitBias, offer: EngineOffer, left_out: list[str]
) -> None:
    has_texts = KINDS[offer.kind].biases_texts
    if has_texts:
        body["logit_bias"] = [
            [
                each.text if each.token_id is None else each.token_id,
                False if each.ban else each.bias,
            ]
            for each in stage.biases
        ]
        return
    known = [each for each in stage.biases if each.token_id is not None]
    body["logit_bias"] = {
        str(each.token_id): -100.0 if each.ban else max(-100.0, min(each.bias, 100.0))
        for each in known
    }
    if len(known) < len(stage.biases):
        left_out.append("logit biases of texts")


def _add_selection(
    body: dict[str, Any], sampling: Sampling, target: Target, left_out: list[str]
) -> None:
    offer = target.offer
    select = sampling.select
    if isinstance(select, Greedy):
        body["temperature"] = 0.0
    elif isinstance(select, Mirostat | MirostatV2 | AdaptiveP):
        _add_stage(body, select, target, left_out)
        if isinstance(select, Mirostat | MirostatV2) and not offer.why_not_stage(
            stage_name(select)
        ):
            name = "mirostat" if offer.speaks_llama else "mirostat_mode"
            body[name] = 1 if isinstance(select, Mirostat) else 2


def _add_order(body: dict[str, Any], sampling: Sampling, offer: EngineOffer) -> None:
    """llama-server applies what the list names, in its order; greedy is a temperature of 0."""
    names = [
        SAMPLERS[type(stage)]
        for stage in sampling.filters
        if type(stage) in SAMPLERS and not offer.why_not_stage(stage_name(stage))
    ]
    if isinstance(sampling.select, Greedy):
        names = [name for name in names if name != "temperature"] + ["temperature"]
        body.pop("dynatemp_range", None)
    elif isinstance(sampling.select, AdaptiveP) and not offer.why_not_stage("adaptive-p"):
        names.append("adaptive_p")
    body["samplers"] = list(dict.fromkeys(names))


def _add_format(asked: Asked, sampling: Sampling, offer: EngineOffer) -> None:
    body = asked.body
    if sampling.grammar:
        why_not = offer.why_not("grammar")
        if why_not:
            raise Refusal("unsupported", f"{why_not} Remove the grammar, or use a JSON schema.")
        if offer.kind == "vllm":
            body["structured_outputs"] = {"grammar": sampling.grammar}
        else:
            body["ebnf" if offer.kind == "sglang" else "grammar"] = sampling.grammar
    if sampling.json_schema:
        why_not = offer.why_not("json_schema")
        if why_not:
            raise Refusal("unsupported", f"{why_not} Remove the JSON schema.")
        try:
            schema = msgspec.json.decode(sampling.json_schema)
        except msgspec.MsgspecError:
            raise Refusal("bad_setting", "The JSON schema isn't valid JSON. Check it.") from None
        if offer.kind == "llama-cpp-python":
            body["response_format"] = {"type": "json_object", "schema": schema}
        elif asked.path == TEXT and offer.speaks_llama:
            body["json_schema"] = schema
        else:
            told = {"name": "reply", "schema": schema, "strict": True}
            body["response_format"] = {"type": "json_schema", "json_schema": told}


# --- what it is to tell -------------------------------------------------------------------------


def _add_logprobs(asked: Asked, generate: Generate, offer: EngineOffer) -> None:
    body = asked.body
    if offer.speaks_llama:
        body |= {"timings_per_token": True, "cache_prompt": generate.reuse_prefix}
    if offer.kind == "llama-server":
        body["return_progress"] = True
    if offer.kind in ("vllm", "sglang") and offer.can("token_ids"):
        body["return_token_ids"] = True
    if not offer.can("logprobs"):
        return
    n = min(generate.alternatives, offer.n_logprobs)
    asked.n_logprobs = n
    if asked.path == TEXT:
        if offer.speaks_llama:
            body["n_probs"] = max(n, 1)
        else:
            body["logprobs"] = min(n, 20) if offer.kind != "openai" else min(n, 5)
    else:
        body["logprobs"] = True
        body["top_logprobs"] = max(n, 1) if offer.speaks_llama else n  # 0: no token at all


MAY_BE_LEFT_OUT: Final = frozenset(
    {
        *("stream_options", "seed", "logit_bias", "parallel_tool_calls", "return_token_ids"),
        *("temperature", "top_p", "top_k", "min_p", "frequency_penalty", "presence_penalty"),
        *("repetition_penalty", "repeat_penalty", "logprobs", "top_logprobs", "n_probs"),
        *("timings_per_token", "return_progress", "cache_prompt", "samplers"),
        *("chat_template_kwargs", "reasoning_effort", "reasoning_content", "stop_token_ids"),
    }
)
"""Fields without which a request is still the one that was asked for, but for what a note says."""
_LOGPROBS: Final = frozenset({"logprobs", "top_logprobs", "n_probs"})


def refused_fields(asked: Asked, said: str) -> frozenset[str]:
    """The fields that an error names, of those that may be left out: servers that speak OpenAI's
    protocol refuse what they do not know, or what a model of theirs does not take.

    >>> body = {"model": "m", "seed": 1, "top_k": 3}
    >>> sorted(refused_fields(Asked(CHAT, body), "HTTP 422: Unrecognized request argument: seed"))
    ['seed']
    """
    words = set(re.findall(r"[a-z_]+", said.lower()))
    found = {name for name in asked.body if name in MAY_BE_LEFT_OUT and name in words}
    if "max_tokens" in asked.body and "max_completion_tokens" in words:
        found.add("max_tokens")
    if "logits_all" in words or found & _LOGPROBS:
        found |= _LOGPROBS & asked.body.keys()
    return frozenset(found)


def without(asked: Asked, names: Collection[str]) -> Asked:
    """The same without these fields; the limit has another name then."""
    body = {name: value for name, value in asked.body.items() if name not in names}
    if "max_tokens" in names and "max_tokens" in asked.body:
        body["max_completion_tokens"] = asked.body["max_tokens"]
    has_seed, has_logprobs = "seed" in body, bool(_LOGPROBS & body.keys())
    return Asked(
        asked.path,
        body,
        asked.notes,
        asked.seed if has_seed else None,
        asked.n_logprobs if has_logprobs else 0,
    )


def _note_the_rest(asked: Asked, generate: Generate, offer: EngineOffer) -> None:
    """What was asked for, and only the engine on this computer can."""
    if generate.cuts is not None:
        raise Refusal("unsupported", f"{offer.why_not('cuts')} Use a local model for this.")
    prompt, adapters = generate.prompt, generate.adapters
    has_adapters = adapters is not None and bool(adapters.loras or adapters.vectors)
    wishes: Sequence[tuple[bool, Any]] = (
        (generate.hold, "step"),
        (has_adapters, "adapters"),
        (generate.repeatable, "repeatable"),
        (isinstance(prompt, ChatPrompt) and prompt.template is not None, "template"),
        (isinstance(prompt, ChatPrompt) and prompt.reasoning_budget > 0, "reasoning_budget"),
    )
    asked.notes += [(name, offer.why_not(name)) for wish, name in wishes if wish]
