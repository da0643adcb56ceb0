"""Sampler presets of other apps: SillyTavern, KoboldAI (JSON), text-generation-webui (YAML).

They have one number for each sampler under names of their own, and an order. Here they become
llama-server's names and from there a chain (`app.server.sampling`). A sampler that llama.cpp hasn't
got is named, where it would have acted.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final

from app.chat.exchange.brought import shapes
from app.chat.settings.settings import as_stored

MAX_YAML: Final = 8 * 1024
"""In characters; theirs have some hundred."""
_MOST_TOKENS: Final = 10_000_000
LEAST_KNOWN: Final = 3
"""So many names of theirs make a preset."""

_NAMES: Final = {
    "temp": "temperature",
    "temperature": "temperature",
    "top_p": "top_p",
    "top_k": "top_k",
    "min_p": "min_p",
    "typical_p": "typical_p",
    "typical": "typical_p",
    "rep_pen": "repeat_penalty",
    "repetition_penalty": "repeat_penalty",
    "rep_pen_range": "repeat_last_n",
    "repetition_penalty_range": "repeat_last_n",
    "freq_pen": "frequency_penalty",
    "frequency_penalty": "frequency_penalty",
    "presence_pen": "presence_penalty",
    "presence_penalty": "presence_penalty",
    "dynatemp_exponent": "dynatemp_exponent",
    "dry_multiplier": "dry_multiplier",
    "dry_base": "dry_base",
    "dry_allowed_length": "dry_allowed_length",
    "dry_penalty_last_n": "dry_penalty_last_n",
    "xtc_threshold": "xtc_threshold",
    "xtc_probability": "xtc_probability",
    "nsigma": "top_n_sigma",
    "top_n_sigma": "top_n_sigma",
    "mirostat_mode": "mirostat",
    "mirostat_tau": "mirostat_tau",
    "mirostat_eta": "mirostat_eta",
}
_WHOLE: Final = frozenset(
    {"top_k", "repeat_last_n", "dry_allowed_length", "dry_penalty_last_n", "mirostat"}
)
_OFF: Final = {"top_p": 1.0, "top_k": 0, "min_p": 0.0, "temperature": 1.0}
"""What isn't given does nothing there; llama-server has defaults that do."""
_ELSEWHERE: Final[dict[str, tuple[str, float]]] = {
    "tfs": ("Tail-free sampling", 1),
    "top_a": ("Top-a", 0),
    "epsilon_cutoff": ("Epsilon cutoff", 0),
    "eta_cutoff": ("Eta cutoff", 0),
    "smoothing_factor": ("Smooth sampling", 0),
    "penalty_alpha": ("Contrastive search", 0),
    "guidance_scale": ("Guidance", 1),
    "no_repeat_ngram_size": ("No-repeat n-grams", 0),
    "encoder_rep_pen": ("Penalty against the prompt", 1),
    "encoder_repetition_penalty": ("Penalty against the prompt", 1),
    "rep_pen_slope": ("Slope of the repeat penalty", 0),
    "skew": ("Skew", 0),
    "num_beams": ("Beam search", 1),
}
"""Samplers that aren't llama.cpp's, and the values at which they do nothing."""
_STAGES: Final = {
    "repetition_penalty": "penalties",
    "temperature": "temperature",
    "top_p": "top_p",
    "top_k": "top_k",
    "min_p": "min_p",
    "typical_p": "typ_p",
    "dry": "dry",
    "xtc": "xtc",
    "top_n_sigma": "top_n_sigma",
    "nsigma": "top_n_sigma",
}
"""In an order of samplers (`sampler_priority`)."""


_STEPS: Final = {0: "top_k", 2: "top_p", 4: "typ_p", 5: "temperature", 6: "penalties"}
"""KoboldAI's numbers, in `sampler_order` or `order`; 1 and 3 are Top-a and tail-free sampling."""
_NOT_NUMBERS: Final = {
    "prompts": "Prompts",
    "grammar_string": "Grammar",
    "negative_prompt": "Negative prompt",
    "banned_tokens": "Banned tokens",
    "logit_bias": "Logit bias",
}
KNOWN: Final = (
    frozenset(_NAMES)
    | frozenset(_ELSEWHERE)
    | {
        *("do_sample", "dynamic_temperature", "dynatemp_low", "dynatemp_high", "temperature_last"),
        *("sampler_priority", "sampler_order", "dry_sequence_breakers", "genamt", "ban_eos_token"),
    }
)
_YAML_KEY: Final = re.compile(r"^(\w+):", re.M)


@dataclass(frozen=True, slots=True)
class ForeignPreset:
    """`values`: as a preset keeps them; `left_out`: what of it does not come, by name."""

    values: dict[str, Any]
    left_out: tuple[str, ...]


def is_one(keys: Collection[str]) -> bool:
    """Whether a file with these names at its top may be a preset."""
    return sum(name in _NAMES or name in _ELSEWHERE for name in keys) >= LEAST_KNOWN


def yaml_keys(text: str) -> set[str]:
    """Those at the top, without reading it."""
    return set(_YAML_KEY.findall(text)) if len(text) <= MAX_YAML else set()


def read(text: str) -> ForeignPreset | None:
    """None: it isn't one of theirs."""
    whole = _content(text)
    content = shapes.mapping(whole.get("preset")) or whole  # of a "master export"
    if not is_one(content):
        return None
    left_out = [title for name, title in _NOT_NUMBERS.items() if content.get(name)]
    left_out += [
        title
        for name, (title, idle) in _ELSEWHERE.items()
        if (value := shapes.number(content.get(name))) is not None and value != idle
    ]
    fields = _fields(content)
    from app.server.errors import ApiError
    from app.server.fields import Fields
    from app.server.sampling import check_sampling, read_sampling

    while True:
        try:
            sampling = read_sampling(Fields(fields))
            check_sampling(sampling)
            break
        except ApiError as error:
            name = error.param or ""
            if name not in fields:
                return None
            left_out.append(name)
            if fields.pop(name) != _OFF.get(name) and name in _OFF:
                fields[name] = _OFF[name]
    values: dict[str, Any] = {"chain": as_stored([*sampling.filters, sampling.select])}
    if sampling.ban_end_token:
        values["ban_end_token"] = True
    prompt = shapes.text(shapes.mapping(whole.get("sysprompt")).get("content"))
    if prompt.strip():
        values["system_prompt"] = prompt
    most = shapes.number(content.get("genamt"))
    if most and 0 < most <= _MOST_TOKENS:
        values["max_tokens"] = int(most)
    return ForeignPreset(values, tuple(dict.fromkeys(left_out)))


def _content(text: str) -> dict[str, Any]:
    try:
        return shapes.mapping(json.loads(text))
    except (ValueError, RecursionError):
        pass
    if not is_one(yaml_keys(text)):
        return {}
    found = shapes.mapping(shapes.yaml_value(text))
    return {key: value for key, value in found.items() if isinstance(key, str)}


def _fields(content: Mapping[str, Any]) -> dict[str, Any]:
    """By llama-server's names."""
    fields: dict[str, Any] = dict(_OFF)
    for name, own in _NAMES.items():
        value = shapes.number(content.get(name))
        if value is not None:
            fields[own] = int(value) if own in _WHOLE else value
    if not fields.get("repeat_last_n", 1):
        fields["repeat_last_n"] = -1  # there, 0 is all of the context
    if not fields.get("dry_penalty_last_n", 1):
        fields["dry_penalty_last_n"] = -1
    ends = [
        shapes.number(content.get(name, content.get(other)))
        for name, other in (("min_temp", "dynatemp_low"), ("max_temp", "dynatemp_high"))
    ]
    low, high = ends
    is_dynamic = content.get("dynatemp") is True or content.get("dynamic_temperature") is True
    if is_dynamic and low is not None and high is not None and high > low:
        fields["temperature"], fields["dynatemp_range"] = (low + high) / 2, (high - low) / 2
    if content.get("do_sample") is False:
        fields["temperature"] = 0.0
    breakers = _breakers(content.get("dry_sequence_breakers"))
    if breakers:
        fields["dry_sequence_breakers"] = breakers
    if content.get("ignore_eos_token") is True or content.get("ban_eos_token") is True:
        fields["ignore_eos"] = True
    order = _order(content)
    if order:
        fields["samplers"] = order
    return fields


def _breakers(value: object) -> list[str]:
    """A list, or one written as text, with its brackets or without."""
    if isinstance(value, str):
        for text in (value, f"[{value}]"):
            try:
                value = json.loads(text)
                break
            except (ValueError, RecursionError):
                continue
    return [each for each in shapes.listed(value) if isinstance(each, str) and each]


def _order(content: Mapping[str, Any]) -> list[str]:
    """The samplers in their order, those that stand in no list of theirs last. llama.cpp's own list
    counts before the other apps' lists."""
    own = shapes.listed(content.get("samplers"))
    if own and all(isinstance(each, str) for each in own):
        return own
    value = content.get("sampler_priority")
    names = value.split() if isinstance(value, str) else shapes.listed(value)
    order = [_STAGES[name] for name in names if isinstance(name, str) and name in _STAGES]
    if not order:
        steps = shapes.listed(content.get("sampler_order", content.get("order")))
        order = [_STEPS[step] for step in steps if isinstance(step, int) and step in _STEPS]
    if not order:
        return []
    if content.get("temperature_last") is True:
        order = [name for name in order if name != "temperature"]
    return list(dict.fromkeys([*order, *(n for n in _STAGES.values() if n not in order)]))
