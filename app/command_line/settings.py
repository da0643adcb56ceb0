"""What `ask` was told: the defaults, then the settings file, then the options.

The file is one JSON object (`docs/settings.md` shows all of it). Plain names are the window's
own settings (`temperature`, `top_k`, …); `chain` replaces the sampling that they describe by any
chain of stages; `load` holds the load options; the rest belongs to the request. Options change
what the file said: in a chain, the stages of that kind.
"""

from __future__ import annotations

import argparse
import json
import math
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, get_args

import msgspec

from app.chat.settings.resolved import LOADING
from app.chat.settings.settings import A, Settings, changed, names
from app.engine.protocol.adapter_messages import MAX_LAYER, Adapters, ControlVector, Lora
from app.engine.protocol.loading_messages import LoadOptions
from app.engine.protocol.messages import Generate
from app.engine.protocol.prompt_messages import ChatMessage, ChatPrompt
from app.engine.protocol.stages import (
    Dist,
    FilterStage,
    Greedy,
    MinP,
    Penalties,
    Sampling,
    SelectStage,
    Stage,
    Temperature,
    TopK,
    TopP,
)
from app.paths import typed_path
from app.refusal import Refusal, bad_setting
from app.strict_reading import (
    decode_object,
    field_types,
    read_fields,
    read_stage,
    read_struct,
    unknown,
)

ALTERNATIVES: Final = 8
"""Of a trace that is asked for without saying how many."""

REPEATABLE_SEED: Final = 0
"""Of a repeatable run without a seed: run again, it shall say the same."""

MAX_FILE_BYTES: Final = 16 * 1024 * 1024

_GENERATE: Final = (
    "alternatives",
    "record_stages",
    "reuse_prefix",
    "deadline_s",
    "context_policy",
    "repeatable",
    "score_prompt",
    "stop_ids",
    "cuts",
    "cut_mode",
)
_SAMPLING: Final = ("grammar", "json_schema", "banned_strings", "min_tokens", "ban_end_token")
_PROMPT: Final = ("template", "template_name")
DESCRIBES_SAMPLING: Final = (
    "temperature",
    "top_k",
    "top_p",
    "min_p",
    "repeat_penalty",
    "repeat_last_n",
)
_STARTS: Final = ("reply_start", "reasoning_start")
_READ_ELSEWHERE: Final = frozenset((*_GENERATE, *_SAMPLING, "chain"))
"""Settings of the window, too, that a file of `ask` has in its own words."""

_FILTERS: Final = get_args(FilterStage)
_SELECTING: Final = get_args(SelectStage)


@dataclass
class AskSettings:
    """What the file and the options say; the methods turn it into what the engine is asked."""

    window: Settings = field(default_factory=Settings)
    load: dict[str, Any] = field(default_factory=dict)
    chain: list[Stage] | None = None
    sampling_fields: dict[str, Any] = field(default_factory=dict)
    generate_fields: dict[str, Any] = field(default_factory=dict)
    prompt_fields: dict[str, Any] = field(default_factory=dict)
    messages: list[ChatMessage] = field(default_factory=list)
    reply_start: str = ""
    reasoning_start: str = ""

    def load_options(self) -> LoadOptions:
        """How to load. What `load` says goes before the plain names."""
        loras = {"loras": list(self.window.loras), **self.load}
        return msgspec.structs.replace(self.window.load_options(), **loras)

    def adapters(self) -> Adapters:
        """What changes the weights. `load` may say which LoRA adapters, too."""
        loras = self.load.get("loras", self.window.loras)
        return Adapters(list(loras), list(self.window.control_vectors))

    def sampling(self) -> Sampling:
        base = self.window.sampling()
        if self.chain is not None:
            filters = [stage for stage in self.chain if isinstance(stage, _FILTERS)]
            select = next((s for s in self.chain if isinstance(s, _SELECTING)), Dist())
            base = msgspec.structs.replace(base, filters=filters, select=select)
        seed = self.window.seed
        if seed is None and self.generate_fields.get("repeatable"):
            seed = REPEATABLE_SEED
        return msgspec.structs.replace(base, seed=seed, **self.sampling_fields)

    def generate(self, prompt: Any, *, with_trace: bool) -> Generate:
        """The request. A trace that nobody sees is recorded only where the file asks for it."""
        fields = {
            "alternatives": ALTERNATIVES if with_trace else 0,
            "record_stages": with_trace,
            **self.generate_fields,
        }
        return Generate(
            id=0,
            prompt=prompt,
            sampling=self.sampling(),
            max_tokens=self.window.max_tokens,
            stop=list(self.window.stop_strings),
            conversation="ask",
            stop_in_reasoning=self.window.stop_in_reasoning,
            drafts=self.window.drafting,
            adapters=self.adapters(),
            **fields,
        )

    def chat_prompt(self, text: str) -> ChatPrompt:
        """System prompt, the file's messages, the text, and the beginning of the reply."""
        system = self.window.system_prompt
        has_own = any(message.role == "system" for message in self.messages)
        messages = [ChatMessage("system", system)] if system and not has_own else []
        messages += [*self.messages, ChatMessage("user", text)]
        is_begun = bool(self.reply_start or self.reasoning_start)
        if is_begun:
            thoughts = self.reasoning_start or None
            messages.append(ChatMessage("assistant", self.reply_start, thoughts))
        fields = self.prompt_fields or {"template": self.window.template}
        return ChatPrompt(
            messages,
            continue_last=is_begun,
            reasoning_tags=self.window.tag_pairs,
            thinking=self.window.thinking,
            reasoning_budget=self.window.reasoning_budget,
            variables=self.window.template_variables,
            **fields,
        )

    # --- the file -----------------------------------------------------------------------------

    def take_file(self, values: dict[str, Any]) -> None:
        """Take over a settings file. Raises Refusal for the first thing that does not fit."""
        for name in values:
            if name not in KNOWN:
                raise unknown(name, KNOWN, "a settings file")
        self._take_plain(values)
        self.generate_fields |= self._fields(values, Generate, _GENERATE)
        self.sampling_fields |= self._fields(_with_schema_text(values), Sampling, _SAMPLING)
        self.prompt_fields |= self._fields(values, ChatPrompt, _PROMPT)
        if "load" in values:
            self._take_load(values)
        if "chain" in values:
            self._take_chain(values)
        if "messages" in values:
            self.messages = _messages(values["messages"])
        for name in _STARTS:
            if name in values:
                types = {name: field_types(ChatMessage)["content"]}
                setattr(self, name, read_fields({name: values[name]}, types, "the file")[name])

    def _take_plain(self, values: dict[str, Any]) -> None:
        for name in names():
            if name in values and name not in _READ_ELSEWHERE:
                self.window = changed(self.window, name, values[name])
        for name in ("loras", "control_vectors"):
            files = [_typed(each) for each in getattr(self.window, name)]
            self.window = changed(self.window, name, files)

    @staticmethod
    def _fields(
        values: dict[str, Any], struct: type[msgspec.Struct], known: tuple[str, ...]
    ) -> dict[str, Any]:
        types = field_types(struct)
        given = {name: values[name] for name in known if name in values}
        return read_fields(given, types, "the file")

    def _take_load(self, values: dict[str, Any]) -> None:
        options = values["load"]
        if isinstance(options, dict):
            for name in LOADING:
                if name in options and name in values:
                    raise bad_setting(f"“{name}” appears twice: inside and outside “load”.")
        read = read_struct(LoadOptions, options, "“load”")
        self.load |= {name: getattr(read, name) for name in options}
        if self.load.get("draft"):
            self.load["draft"] = str(typed_path(self.load["draft"]))
        if "loras" in self.load:
            self.load["loras"] = [_typed(lora) for lora in self.load["loras"]]

    def _take_chain(self, values: dict[str, Any]) -> None:
        both = [name for name in DESCRIBES_SAMPLING if name in values]
        if both:
            raise bad_setting(
                f"Use either “chain” or “{both[0]}”, not both: the chain contains all stages."
            )
        stages = values["chain"]
        if not isinstance(stages, list):
            raise bad_setting("“chain” must be a list of stages.")
        self.chain = [
            read_stage(stage, [*_FILTERS, *_SELECTING], f"stage {number}")
            for number, stage in enumerate(stages, 1)
        ]
        for number, one in enumerate(self.chain[:-1], 1):
            if isinstance(one, _SELECTING):
                raise bad_setting(
                    f"Stage {number} of “chain” selects the token, so it must be the last stage."
                )

    # --- the options --------------------------------------------------------------------------

    def take_options(self, options: argparse.Namespace) -> None:
        """Take over what was typed. Raises Refusal."""
        self.take_load_options(options)
        for option, name in SHAPING_SETTING_OF.items():
            value = getattr(options, option)
            if value is None:
                continue
            self.window = changed(self.window, name, value)
            if self.chain is not None and option in _STAGE_OF:
                self._change_stage(option, getattr(self.window, name))
        if options.draft_model is not None:
            self.load["draft"] = str(typed_path(options.draft_model))
            if options.drafts is None:
                self.window = changed(self.window, "drafts", "model")
        if options.lora:
            self.load["loras"] = [_lora(text) for text in options.lora]
            self.window = changed(self.window, "loras", self.load["loras"])
        if options.control_vector:
            vectors = [_control_vector(text) for text in options.control_vector]
            self.window = changed(self.window, "control_vectors", vectors)
        for option in ("repeatable", "score_prompt"):
            if getattr(options, option):
                self.generate_fields[option] = True
        if options.policy is not None:
            self.generate_fields["context_policy"] = options.policy
        if options.reasoning_start is not None:
            self.reasoning_start = options.reasoning_start
        if options.stop_id is not None:
            self.generate_fields["stop_ids"] = options.stop_id
        self._take_bounds(options)

    def take_load_options(self, options: argparse.Namespace) -> None:
        """Take over how to load (`run.add_file_options`). Raises Refusal."""
        for option, name in LOAD_SETTING_OF.items():
            value = getattr(options, option)
            if value is not None:
                self.window = changed(self.window, name, value)
                self.load.pop(name, None)
        if options.kv_type is not None:
            of_k, _, of_v = options.kv_type.partition(",")
            self.load |= {"type_k": of_k, "type_v": of_v or of_k}
        if options.flash_attention is not None:
            self.load["flash_attention"] = options.flash_attention

    def _take_bounds(self, options: argparse.Namespace) -> None:
        """What binds every draw, and the template."""
        if options.grammar_file is not None:
            self.sampling_fields["grammar"] = _text_of(options.grammar_file, "--grammar-file")
            self.sampling_fields["json_schema"] = ""
        if options.json_schema is not None:
            self.sampling_fields["json_schema"] = _text_of(options.json_schema, "--json-schema")
            self.sampling_fields["grammar"] = self.sampling_fields.get("grammar", "") * (
                options.grammar_file is not None
            )
        if options.ban is not None:
            self.sampling_fields["banned_strings"] = options.ban
        if options.min_tokens is not None:
            self.sampling_fields["min_tokens"] = options.min_tokens
        if options.template is not None:
            self.prompt_fields = {"template": _text_of(options.template, "--template")}
        if options.template_name is not None:
            self.prompt_fields = {"template_name": options.template_name}

    def _change_stage(self, option: str, value: Any) -> None:
        """Set the value in each stage of its kind; without one, add it before the selection."""
        assert self.chain is not None
        kind, name = _STAGE_OF[option]
        if not any(isinstance(stage, kind) for stage in self.chain):
            at = len(self.chain) - bool(self.chain and isinstance(self.chain[-1], _SELECTING))
            self.chain.insert(at, kind())
        self.chain = [
            msgspec.structs.replace(stage, **{name: value}) if isinstance(stage, kind) else stage
            for stage in self.chain
        ]
        if kind is Temperature and value == 0:
            self.chain = [stage for stage in self.chain if not isinstance(stage, _SELECTING)]
            self.chain.append(Greedy())


LOAD_SETTING_OF: Final = {"threads": "n_threads", "ctx": "n_ctx", "gpu_layers": "n_gpu_layers"}
SHAPING_SETTING_OF: Final = {
    "system": "system_prompt",
    "seed": "seed",
    "temperature": "temperature",
    "top_k": "top_k",
    "top_p": "top_p",
    "min_p": "min_p",
    "repeat_penalty": "repeat_penalty",
    "max_tokens": "max_tokens",
    "stop": "stop_strings",
    "stop_in_reasoning": "stop_in_reasoning",
    "reasoning_tags": "reasoning_tags",
    "thinking": "thinking",
    "reasoning_budget": "reasoning_budget",
    "template_variables": "template_variables",
    "drafts": "drafts",
    "draft_tokens": "draft_tokens",
}
"""Options whose values are settings of the window, too."""

_STAGE_OF: Final[dict[str, tuple[type[Stage], str]]] = {
    "temperature": (Temperature, "t"),
    "top_k": (TopK, "k"),
    "top_p": (TopP, "p"),
    "min_p": (MinP, "p"),
    "repeat_penalty": (Penalties, "repeat"),
}

KNOWN: Final = tuple(
    dict.fromkeys(
        (*names(), *_GENERATE, *_SAMPLING, *_PROMPT, "load", "chain", "messages", *_STARTS)
    )
)
"""All names at the top of a settings file."""


def read_settings_file(path: Path) -> dict[str, Any]:
    """The file's object. Raises Refusal, or OSError."""
    if path.stat().st_size > MAX_FILE_BYTES:
        raise bad_setting(f"The settings file {path} is larger than 16 MB.")
    try:
        return decode_object(path.read_text(encoding="utf-8-sig"))
    except Refusal as refused:
        raise bad_setting(f"The settings file {path} can't be used. {refused}") from refused
    except (ValueError, RecursionError) as error:
        raise bad_setting(f"The settings file {path} isn't valid JSON: {error}.") from error


def _with_schema_text(values: dict[str, Any]) -> dict[str, Any]:
    """A JSON schema may stand there as the object that it is."""
    schema = values.get("json_schema")
    return {**values, "json_schema": json.dumps(schema)} if isinstance(schema, dict) else values


def _messages(value: object) -> list[ChatMessage]:
    """Earlier messages of the conversation."""
    if not isinstance(value, list):
        raise bad_setting("“messages” must be a list.")
    return [
        read_struct(ChatMessage, message, f"message {number}")
        for number, message in enumerate(value, 1)
    ]


def _lora(text: str) -> Lora:
    """FILE or FILE:SCALE.

    >>> _lora("/a/b.gguf:0.5").scale
    0.5
    """
    path, scale = _scaled(text, "LoRA adapter")
    return Lora(path, scale)


_LAYERS: Final = re.compile(r"(\d+)-(\d+)")


def _control_vector(text: str) -> ControlVector:
    """FILE, FILE:SCALE or FILE:SCALE:FROM-TO.

    >>> found = _control_vector("/a/b.gguf:-1.5:8-20")
    >>> found.path, found.scale, found.first, found.last
    ('/a/b.gguf', -1.5, 8, 20)
    """
    rest, _, last = text.rpartition(":")
    layers = _LAYERS.fullmatch(last)
    if layers is None or not rest:
        return ControlVector(*_scaled(text, "control vector"))
    first, to = (min(int(number), MAX_LAYER + 1) for number in layers.groups())
    return ControlVector(*_scaled(rest, "control vector"), first, to)


def _scaled(text: str, words: str) -> tuple[str, float]:
    """FILE or FILE:SCALE."""
    if not text:
        raise bad_setting(f"A {words} has no path. Choose a GGUF file.")
    path, colon, scale = text.rpartition(":")
    try:
        number = float(scale) if colon and path else None
    except ValueError:
        number = None
    if number is None:
        return str(typed_path(text)), 1.0
    if not math.isfinite(number):
        raise bad_setting(f"The scale of the {words} in “{text}” must be a number.")
    return str(typed_path(path)), number


def _typed(adapter: A) -> A:
    """With the path as somebody typed it made whole."""
    return msgspec.structs.replace(
        adapter, path=str(typed_path(adapter.path)) if adapter.path else ""
    )


def _text_of(name: str, option: str) -> str:
    """What a named file holds."""
    path = typed_path(name)
    try:
        if path.stat().st_size > MAX_FILE_BYTES:
            raise bad_setting(f"The file given with {option} is larger than 16 MB.")
        return path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise bad_setting(
            f"The file given with {option} can't be read: {error.strerror}."
        ) from error
    except UnicodeDecodeError as error:
        raise bad_setting(f"The file given with {option} isn't UTF-8 text.") from error


def resolved(options: argparse.Namespace, file: dict[str, Any] | None) -> AskSettings:
    """The file's settings, then the options. Raises Refusal."""
    settings = AskSettings()
    if file is not None:
        settings.take_file(file)
    settings.take_options(options)
    return settings
