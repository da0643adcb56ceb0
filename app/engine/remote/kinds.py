"""What each kind of server takes, and under which names.

Where it is documented (read in November 2026):

* llama-server: `tools/server/README.md` of llama.cpp, "POST /completion", "POST
  /v1/chat/completions", "GET /props".
* Cutaway's own server: `docs/server.md`, llama-server's fields.
* vLLM: "OpenAI-Compatible Server" of its documentation (extra parameters), and
  `ChatCompletionRequest` and `CompletionRequest` in `vllm/entrypoints/openai/`.
* SGLang: "OpenAI APIs - Completions", "Sampling Parameters", "Native APIs"; the same classes in
  `sglang/srt/entrypoints/openai/protocol.py`.
* Ollama: "OpenAI compatibility" (supported request fields).
* LM Studio: "OpenAI Compatibility Endpoints", "REST API v0".
* llama-cpp-python: "OpenAI Compatible Web Server"; `llama_cpp/server/types.py`.
* All others: OpenAI's API reference, "Create chat completion".

A row of `stages` maps the fields of a stage to the server's. A stage without a row, and a field
that a row lacks, is not taken: it is in the offer, is not sent, and a note names it. `neutral`
switches off, in so many words, what the chain does not have; else the server's defaults would
count.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Final

from app.engine.protocol.remote_messages import KIND_NAMES, Ability, Lack, ServerKind
from app.engine.protocol.stage_rules import RULES
from app.engine.protocol.stages import (
    AdaptiveP,
    Dry,
    DynamicTemperature,
    LogitBias,
    MinP,
    Mirostat,
    MirostatV2,
    Penalties,
    Stage,
    Temperature,
    TopK,
    TopNSigma,
    TopP,
    Typical,
    Xtc,
)

Fields = Mapping[str, str]
NO_FIELDS: Final[Fields] = MappingProxyType({})

_OPENAI_PENALTIES: Final = {"frequency": "frequency_penalty", "presence": "presence_penalty"}
_OPENAI: Final[dict[type[Stage], Fields]] = {
    Temperature: {"t": "temperature"},
    TopP: {"p": "top_p"},
    Penalties: _OPENAI_PENALTIES,
    LogitBias: NO_FIELDS,
}
_OPENAI_NEUTRAL: Final = {
    "temperature": 1.0,
    "top_p": 1.0,
    "frequency_penalty": 0.0,
    "presence_penalty": 0.0,
}
_VLLM: Final[dict[type[Stage], Fields]] = {
    **_OPENAI,
    TopK: {"k": "top_k"},
    MinP: {"p": "min_p"},
    Penalties: {**_OPENAI_PENALTIES, "repeat": "repetition_penalty"},
}
_VLLM_NEUTRAL: Final = {**_OPENAI_NEUTRAL, "top_k": -1, "min_p": 0.0, "repetition_penalty": 1.0}


@dataclass(frozen=True, slots=True)
class Kind:
    """`most_logprobs`: alternatives of a token that can be asked for. `missing`: abilities, with
    why not; `{}` stands for the server's name. `biases_texts`: a bias may name a text."""

    stages: Mapping[type[Stage], Fields]
    neutral: Mapping[str, Any]
    most_logprobs: int
    missing: Mapping[Ability, str] = field(default_factory=dict)
    biases_texts: bool = False
    stage_words: Mapping[str, str] = field(default_factory=dict)


_ORDER: Final = "{} applies its filters in an order of its own, whatever the chain's."
_NO_TOKENIZE: Final = "{} has no way to ask how a text is tokenised."
_NO_COUNT: Final = "{} counts a prompt only when it answers it."
_NO_PROMPT: Final = "{} doesn't tell the rendered prompt."
_NO_IDS: Final = "{} doesn't tell token IDs."
_NO_TEMPLATE: Final = "{} renders the chat with the model's own template."
_NO_GRAMMAR: Final = "{} takes no grammar."
_NO_CONTINUE: Final = "{} has no documented way to continue a reply."
_NO_PROMPT_SCORES: Final = "{} doesn't tell how probable a prompt's tokens are."
_NO_TIMINGS: Final = "{} doesn't tell how long reading and writing took; times are measured here."
_NO_CACHED: Final = "{} doesn't tell how much of a prompt was cached."
_NO_STOP_IDS: Final = "{} takes no stop tokens by ID."
_NO_MIN: Final = "{} takes no minimum number of tokens."
_NO_BAN_END: Final = "{} can't be told to go on after the end token."
_NO_BANNED: Final = "{} takes no banned texts."
_NO_THINKING: Final = "{} doesn't say how the model’s thinking is switched."

_NO_AUDIO: Final = "{} takes no sounds."

_PLAIN: Final[dict[Ability, str]] = {
    "ids": "{} takes no prompts of token IDs.",
    "continue": _NO_CONTINUE,
    "thinking": _NO_THINKING,
    "template": _NO_TEMPLATE,
    "grammar": _NO_GRAMMAR,
    "stop_ids": _NO_STOP_IDS,
    "min_tokens": _NO_MIN,
    "ban_end_token": _NO_BAN_END,
    "banned_strings": _NO_BANNED,
    "order": _ORDER,
    "token_ids": _NO_IDS,
    "prompt_logprobs": _NO_PROMPT_SCORES,
    "timings": _NO_TIMINGS,
    "tokenize": _NO_TOKENIZE,
    "count": _NO_COUNT,
    "rendered_prompt": _NO_PROMPT,
}
_SERVING: Final[dict[Ability, str]] = {
    "thinking": _NO_THINKING,
    "template": _NO_TEMPLATE,
    "order": _ORDER,
    "timings": _NO_TIMINGS,
}

ALWAYS_MISSING: Final[dict[Ability, str]] = {
    "context_policy": "{} refuses a chat that is too long. Start a new one, or ask a local model.",
    "reasoning_budget": "{} takes no limit for reasoning.",
    "repeatable": "{} shares its work among requests, so no run is bound to repeat.",
    "vocabulary": "{} doesn't tell its vocabulary.",
    "stages": "{} doesn't tell what each stage of the chain did.",
    "step": "{} can't wait for a choice at each token.",
    "drafts": "Whether {} drafts is set where it is started.",
    "adapters": "Adapters of {} are set where it is started.",
    "cuts": "Parts of the network can't be cut on {}.",
    "cache": "{} doesn't tell what its cache holds.",
    "lanes": "{} doesn't tell what it is working on.",
    "inside": "The inside of a network can only be read from a model on this computer.",
    "embedding": "The embedding can only be read from a model on this computer.",
    "machine": "Steps can only be measured on this computer.",
    "beams": "{} has no beam search that tells its beams.",
    "vectors": "Control vectors can only be made with a model on this computer.",
    "draws": "Draws can only be replayed with a model on this computer.",
    "saved": "{} keeps its own cache.",
    "threads": "Threads of {} are set where it is started.",
    "devices": "{} doesn't tell its devices.",
}


def _without(told: dict[Ability, str], name: Ability) -> dict[Ability, str]:
    return {ability: words for ability, words in told.items() if ability != name}


_LLAMA: Final = Kind(
    stages={
        LogitBias: NO_FIELDS,
        Penalties: {
            "last_n": "repeat_last_n",
            "repeat": "repeat_penalty",
            "frequency": "frequency_penalty",
            "presence": "presence_penalty",
        },
        Dry: {
            "multiplier": "dry_multiplier",
            "base": "dry_base",
            "allowed_length": "dry_allowed_length",
            "last_n": "dry_penalty_last_n",
            "breakers": "dry_sequence_breakers",
        },
        TopNSigma: {"n": "top_n_sigma"},
        TopK: {"k": "top_k"},
        Typical: {"p": "typical_p", "min_keep": "min_keep"},
        TopP: {"p": "top_p", "min_keep": "min_keep"},
        MinP: {"p": "min_p", "min_keep": "min_keep"},
        Xtc: {
            "probability": "xtc_probability",
            "threshold": "xtc_threshold",
            "min_keep": "min_keep",
        },
        Temperature: {"t": "temperature"},
        DynamicTemperature: {
            "t": "temperature",
            "spread": "dynatemp_range",
            "exponent": "dynatemp_exponent",
        },
        Mirostat: {"tau": "mirostat_tau", "eta": "mirostat_eta"},
        MirostatV2: {"tau": "mirostat_tau", "eta": "mirostat_eta"},
        AdaptiveP: {"target": "adaptive_target", "decay": "adaptive_decay"},
    },
    # What the list of samplers lacks does not act; these act without being in it.
    neutral={"mirostat": 0, "dynatemp_range": 0.0, "min_keep": 0},
    most_logprobs=64,
    missing={
        "template": _NO_TEMPLATE,
        "stop_ids": _NO_STOP_IDS,
        "min_tokens": _NO_MIN,
        "banned_strings": _NO_BANNED,
        "prompt_logprobs": _NO_PROMPT_SCORES,
    },
    biases_texts=True,
)

KINDS: Final[dict[ServerKind, Kind]] = {
    "llama-server": replace(
        _LLAMA,
        missing={
            **_LLAMA.missing,
            "context_policy": "At {} older messages are dropped, and not summarized.",
        },
    ),
    "cutaway": replace(
        _LLAMA,
        most_logprobs=20,
        missing={
            **_LLAMA.missing,
            "thinking": _NO_THINKING,
            "count": _NO_COUNT,
            "rendered_prompt": _NO_PROMPT,
        },
    ),
    "vllm": Kind(
        stages=_VLLM,
        neutral=_VLLM_NEUTRAL,
        most_logprobs=20,
        missing=_SERVING,
    ),
    "sglang": Kind(
        stages=_VLLM,
        neutral=_VLLM_NEUTRAL,
        most_logprobs=20,
        missing={
            **_SERVING,
            "rendered_prompt": _NO_PROMPT,
            "prompt_logprobs": _NO_PROMPT_SCORES,
            "banned_strings": _NO_BANNED,
            "count": _NO_COUNT,
            "tokenize": "{} tells the IDs of a text's tokens, but not what each spells.",
        },
    ),
    "ollama": Kind(
        stages={
            Temperature: {"t": "temperature"},
            TopP: {"p": "top_p"},
            Penalties: _OPENAI_PENALTIES,
        },
        neutral=_OPENAI_NEUTRAL,
        most_logprobs=20,
        missing=_without(_PLAIN, "thinking") | {"cached_tokens": _NO_CACHED, "audio": _NO_AUDIO},
        stage_words={
            "top-k": "{} doesn't take top-k this way: what the model's Modelfile says applies.",
            "min-p": "{} doesn't take min-p this way: what the model's Modelfile says applies.",
        },
    ),
    "lm-studio": Kind(
        stages={
            **_OPENAI,
            TopK: {"k": "top_k"},
            Penalties: {**_OPENAI_PENALTIES, "repeat": "repeat_penalty"},
        },
        neutral={**_OPENAI_NEUTRAL, "top_k": 0, "repeat_penalty": 1.0},
        most_logprobs=0,
        missing={
            **_PLAIN,
            "logprobs": "{} doesn't tell probabilities in chats.",
            "cached_tokens": _NO_CACHED,
            "audio": _NO_AUDIO,
        },
    ),
    "llama-cpp-python": Kind(
        stages={
            **_OPENAI,
            TopK: {"k": "top_k"},
            MinP: {"p": "min_p"},
            Penalties: {**_OPENAI_PENALTIES, "repeat": "repeat_penalty"},
            Mirostat: {"tau": "mirostat_tau", "eta": "mirostat_eta"},
            MirostatV2: {"tau": "mirostat_tau", "eta": "mirostat_eta"},
        },
        neutral={
            **_OPENAI_NEUTRAL,
            "top_k": 0,
            "min_p": 0.0,
            "repeat_penalty": 1.0,
            "mirostat_mode": 0,
        },
        most_logprobs=20,
        missing=_without(_PLAIN, "grammar") | {"cached_tokens": _NO_CACHED, "audio": _NO_AUDIO},
    ),
    "openai": Kind(
        stages=_OPENAI,
        neutral=_OPENAI_NEUTRAL,
        most_logprobs=20,
        missing=_PLAIN,
    ),
}

SAMPLERS: Final[dict[type[Stage], str]] = {
    Penalties: "penalties",
    Dry: "dry",
    TopNSigma: "top_n_sigma",
    TopK: "top_k",
    Typical: "typ_p",
    TopP: "top_p",
    MinP: "min_p",
    Xtc: "xtc",
    Temperature: "temperature",
    DynamicTemperature: "temperature",
    AdaptiveP: "adaptive_p",
}
"""llama-server's names in `samplers`, which says their order."""


def lacks_of(kind: ServerKind, name: str) -> list[Lack]:
    """Abilities that a server of this kind never has."""
    told = {**ALWAYS_MISSING, **KINDS[kind].missing}
    return [Lack(ability, words.format(f"“{name}”")) for ability, words in told.items()]


def stage_lacks(kind: ServerKind, name: str, known: frozenset[str] | None = None) -> list[Lack]:
    """Stages, and fields of stages, that are not taken. `known`: the names of all parameters that
    the server says it has, where it does: an older one has fewer."""
    kind_words, who = KIND_NAMES[kind], f"“{name}”"
    taken, words = KINDS[kind].stages, KINDS[kind].stage_words
    found: list[Lack] = []
    for stage, rule in RULES.items():
        fields = taken.get(stage)
        theirs = set(fields.values()) if fields else set()
        is_known = known is None or not theirs or bool(theirs & known)
        if rule.name in ("greedy", "dist"):
            continue
        if fields is None or not is_known:
            why = words.get(rule.name, "{} doesn't take this stage, so it isn't applied there.")
            found.append(Lack(rule.name, why.format(who)))
            continue
        own = [name_ for name_ in stage.__struct_fields__ if name_ not in ("min_keep", "biases")]
        for each in own:
            if each not in fields or (known is not None and fields[each] not in known):
                why = f"{kind_words} has no such setting, so it isn't applied on {who}."
                found.append(Lack(f"{rule.name}.{each}", why))
    return found
