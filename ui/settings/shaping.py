"""The controls of all that shapes a reply, in cards, and their values in a few words.

Where a value is set (which level, which weights) is the business of whoever shows the rows.
"""

from __future__ import annotations

from typing import Any

from PySide6.QtWidgets import QWidget

from app.chat.replies.adapters import adapter_words
from app.chat.settings.context_policies import POLICIES, policy_name
from app.chat.settings.drafting import DRAFTING, drafting_name
from app.chat.settings.formats import FORMATS
from app.chat.settings.settings import CACHE_TYPE_NAMES, as_stored
from ui.look.theme import Theme
from ui.settings.adapter_field import AdapterField, AnyField
from ui.settings.chain_field import ChainField, lines_of
from ui.settings.fields import (
    ChoiceField,
    LinesField,
    ListField,
    NumberField,
    SwitchField,
    TextField,
)

MAX_SHOWN = 40
EFFORTS = ("low", "medium", "high")
Row = tuple[str, str, AnyField]
"""Name of the setting, its label, its control."""


class ThinkingField(ListField):
    """The choices that templates have; one that only a certain template has is added."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        names = ("", "on", "off", *EFFORTS)
        super().__init__(theme, [(name, name.capitalize() or "Auto") for name in names], parent)

    def show_value(self, value: object) -> None:
        if self.findData(value) < 0:
            self.addItem(str(value), value)
        super().show_value(value)


def shaping_cards(theme: Theme, parent: QWidget) -> list[list[Row]]:
    """A fresh control for each name of `app.chat.settings.resolved.SHAPING`."""
    return [prompt_card(theme, parent), *sampling_cards(theme, parent)]


def prompt_card(theme: Theme, parent: QWidget) -> list[Row]:
    formats = [("", "From the file"), *((each.name, each.title) for each in FORMATS)]
    return [
        ("system_prompt", "System prompt", TextField("None")),
        ("chat_format", "Chat format", ListField(theme, formats, parent)),
        ("chat_template", "My own chat template", TextField("None")),
        ("template_variables", "Template variables (JSON)", TextField('{"name": true}')),
    ]


def sampling_cards(theme: Theme, parent: QWidget) -> list[list[Row]]:
    whole = NumberField
    seed = whole(is_whole=True, automatic=None, placeholder="Random")
    limit = whole(is_whole=True, step=256, automatic=0, placeholder="No limit")
    longest = whole(is_whole=True, step=64, automatic=0, placeholder="No limit")
    return [
        [
            ("temperature", "Temperature", whole(is_whole=False, step=0.1)),
            ("top_k", "Top-k", whole(is_whole=True, step=5)),
            ("top_p", "Top-p", whole(is_whole=False, step=0.05)),
            ("min_p", "Min-p", whole(is_whole=False, step=0.01)),
            ("repeat_penalty", "Repetition penalty", whole(is_whole=False, step=0.05)),
            ("repeat_last_n", "Repetition window", whole(is_whole=True, step=16)),
            ("chain", "Sampling chain", ChainField()),
            ("seed", "Seed", seed),
            ("repeatable", "Repeatable", SwitchField(theme, parent)),
        ],
        [
            ("drafts", "Speculative decoding", ListField(theme, DRAFTING, parent)),
            ("draft_tokens", "Draft tokens at once", whole(is_whole=True)),
        ],
        [
            ("max_tokens", "Maximum tokens", longest),
            ("min_tokens", "Minimum tokens", whole(is_whole=True, step=16)),
            ("stop_strings", "Stop strings", LinesField()),
            ("stop_in_reasoning", "Also stop in reasoning", SwitchField(theme, parent)),
            ("thinking", "Thinking", ThinkingField(theme, parent)),
            ("reasoning_budget", "Reasoning limit", limit),
            ("reasoning_tags", "Reasoning tags", LinesField("<think>…</think>")),
            ("banned_strings", "Banned strings", LinesField()),
            ("ban_end_token", "Continue past the end", SwitchField(theme, parent)),
            (
                "context_policy",
                "When the context is full",
                ListField(theme, POLICIES, parent),
            ),
        ],
        [
            ("loras", "LoRA adapters", AdapterField(theme, "loras", parent)),
            ("control_vectors", "Control vectors", AdapterField(theme, "control_vectors", parent)),
        ],
        [
            ("grammar", "Grammar (GBNF)", TextField("None")),
            ("json_schema", "JSON schema", TextField("None")),
        ],
    ]


def loading_cards(theme: Theme, parent: QWidget) -> list[list[Row]]:
    """A fresh control for each name of `app.chat.settings.resolved.LOADING`."""
    automatic: dict[str, Any] = {"is_whole": True, "placeholder": "Automatic"}
    types = [(name, name) for name in CACHE_TYPE_NAMES]
    attention = [("auto", "Automatic"), ("on", "On"), ("off", "Off")]
    return [
        [
            ("n_ctx", "Context window", NumberField(automatic=0, step=1024, **automatic)),
            ("n_threads", "Threads", NumberField(automatic=0, **automatic)),
            ("n_gpu_layers", "Layers on the GPU", NumberField(automatic=-1, **automatic)),
        ],
        [
            ("type_k", "Key cache", ListField(theme, types, parent)),
            ("type_v", "Value cache", ListField(theme, types, parent)),
            ("flash_attention", "Flash attention", ChoiceField(theme, attention, parent)),
        ],
    ]


def setting_words(name: str, value: Any) -> str:
    """A value in a few words."""
    if value is None:
        return "random" if name == "seed" else "not in the chain"
    if isinstance(value, bool):
        return "on" if value else "off"
    if name == "chain":
        return " → ".join(line.split(" ")[0] for line in lines_of(value)) or "default"
    if name in ("loras", "control_vectors"):
        value = adapter_words({name: as_stored(value)})
    if isinstance(value, tuple | list):
        value = ", ".join(value)
    if name in ("max_tokens", "reasoning_budget") and value == 0:
        return "no limit"
    if (name in ("n_ctx", "n_threads") and value == 0) or (name == "thinking" and value == ""):
        return "automatic"
    if (name, value) in (("n_gpu_layers", -1), ("flash_attention", "auto")):
        return "automatic"
    if name == "chat_format":
        return next((each.title for each in FORMATS if each.name == value), "from the file")
    if name == "context_policy":
        return policy_name(value).lower()
    if name == "drafts":
        return drafting_name(value).lower()
    text = " ".join(f"{value:.6g}".split() if isinstance(value, float) else str(value).split())
    if not text:
        return "none"
    return text if len(text) <= MAX_SHOWN else text[:MAX_SHOWN] + "…"
