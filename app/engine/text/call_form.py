"""How a family of weights writes the calls of tools: what stands around them, and in them.

    begin  opening ⟨call⟩ closing  between  opening ⟨call⟩ closing  end

    object   {"name": "clock", "arguments": {"city": "Oslo"}}             Hermes, Mistral
    named    clock[ARGS]{"city": "Oslo"}                                  DeepSeek, Kimi K2
    pairs    clock> <parameter=city> Oslo </parameter>                    Qwen3-Coder, GLM
    channel  assistant to=functions.clock … ⟨message⟩{"city": "Oslo"}     gpt-oss

A form is found by rendering a call with the chat template (`prompts/call_forms.py`), so it has
whatever the template writes. `KNOWN` are those that a reply may be read by besides: some templates
describe a form in words and render none, and weights that were tuned further write another one
than their template. Only names and arguments come from here; nobody runs anything.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from app.engine.protocol.tool_messages import ToolCall

Kind = Literal["object", "named", "pairs", "channel"]

ID: Final = "\0"
"""In `CallForm.behind_name`: where the call's id stands."""


@dataclass(frozen=True, slots=True)
class Pairs:
    """Arguments one by one: `opening` key `middle` value. A text stands between `text_opening` and
    `text_closing`, any other value between the other two; `between` is what separates them."""

    opening: str
    middle: str
    text_opening: str
    text_closing: str
    other_opening: str
    other_closing: str
    between: str = ""


@dataclass(frozen=True, slots=True)
class CallForm:
    """`keys`: of an object those of name and arguments, and of the id where it has one.
    `behind_name`: what stands between name and arguments. `is_id_named`: the name stands in the id
    (`functions.clock:0`). `takes_text`: the template wants arguments as JSON text. `is_many`: it
    takes several calls at once."""

    kind: Kind
    begin: str = ""
    opening: str = ""
    closing: str = ""
    between: str = ""
    end: str = ""
    keys: tuple[str, str, str] = ("name", "arguments", "")
    behind_name: str = ""
    pairs: Pairs | None = None
    is_id_named: bool = False
    takes_text: bool = False
    is_many: bool = True

    @property
    def trigger(self) -> str:
        """The first word of it; a call begins there. Empty: it begins with the call itself."""
        words = words_of(self.begin + self.opening)
        return words[0] if words else ""

    @property
    def is_marked(self) -> bool:
        """Whether nobody writes its first word by chance."""
        return _MARKER.match(self.trigger) is not None


_WORD: Final = re.compile(r"<[^<>\s]*>?|\[[A-Z_/]+\]|[^\s<\[]+|\[")


def words_of(text: str) -> list[str]:
    """What a form writes, mark by mark; white space between them does not count.

    >>> words_of("]</s>"), words_of("[TOOL_CALLS] [")
    ([']', '</s>'], ['[TOOL_CALLS]', '['])
    """
    return _WORD.findall(text)


_MARKER: Final = re.compile(r"<[^\s<>]{2,}|\[[A-Z_]{3,}\]|>>>|＜\S{2,}")

OWN: Final = CallForm("object", opening="<tool_call>\n", closing="\n</tool_call>", between="\n")
"""Where a template knows no tools. It is Hermes', which more weights have seen than any other."""

_CALLS, _CALL = "<｜tool▁calls▁begin｜>", "<｜tool▁call▁begin｜>"
_XML = Pairs("<parameter=", ">\n", "", "\n</parameter>\n", "", "\n</parameter>\n")

KNOWN: Final = (
    OWN,  # Hermes, Qwen 2.5 and 3, Granite 4, SmolLM3
    CallForm("object", begin="[TOOL_CALLS][", between=", ", end="]"),  # Mistral
    CallForm("named", opening="[TOOL_CALLS]", behind_name="[ARGS]"),  # Mistral, since 2025
    CallForm("object", begin="<|tool_call|>[", between=", ", end="]<|/tool_call|>"),  # Phi-4-mini
    CallForm("object", begin="<|tool_call|>[", between=", ", end="]"),  # Granite 3
    CallForm("object", opening="<|python_tag|>", keys=("name", "parameters", "")),  # Llama 3.x
    CallForm(
        "named",
        begin=_CALLS,
        opening=_CALL,
        behind_name="<｜tool▁sep｜>",
        closing="<｜tool▁call▁end｜>",
        end="<｜tool▁calls▁end｜>",
    ),  # DeepSeek V3.1
    CallForm(
        "named",
        begin=_CALLS,
        opening=f"{_CALL}function<｜tool▁sep｜>",
        behind_name="\n```json\n",
        closing="\n```<｜tool▁call▁end｜>",
        between="\n",
        end="<｜tool▁calls▁end｜>",
    ),  # DeepSeek V3, R1
    CallForm(
        "named",
        begin="<|tool_calls_section_begin|>",
        opening="<|tool_call_begin|>",
        behind_name="<|tool_call_argument_begin|>",
        closing="<|tool_call_end|>",
        end="<|tool_calls_section_end|>",
        is_id_named=True,
    ),  # Kimi K2
    CallForm(
        "object",
        begin="<|START_ACTION|>[",
        between=",",
        end="]<|END_ACTION|>",
        keys=("tool_name", "parameters", "tool_call_id"),
    ),  # Command R7B, Command A
    CallForm("named", opening="<function=", behind_name=">", closing="</function>"),  # functionary
    CallForm("named", opening=">>>", behind_name="\n"),  # functionary 3.2
    CallForm(
        "pairs",
        opening="<tool_call>\n<function=",
        behind_name=">\n",
        pairs=_XML,
        closing="</function>\n</tool_call>",
        between="\n",
    ),  # Qwen3-Coder, Nemotron 3
    CallForm(
        "pairs",
        opening="<function=",
        behind_name=">\n",
        pairs=_XML,
        closing="</function>",
        between="\n",
    ),
    CallForm(
        "pairs",
        opening="<tool_call>",
        behind_name="\n",
        pairs=Pairs(
            *("<arg_key>", "</arg_key>\n<arg_value>", "", "</arg_value>\n", "", "</arg_value>\n")
        ),
        closing="</tool_call>",
    ),  # GLM 4.5 and later
    CallForm(
        "pairs",
        opening="<|tool_call>call:",
        behind_name="{",
        pairs=Pairs("", ":", '<|"|>', '<|"|>', "", "", ","),
        closing="}<tool_call|>",
    ),  # Gemma 4
    CallForm(
        "pairs",
        begin="<minimax:tool_call>\n",
        opening='<invoke name="',
        behind_name='">\n',
        pairs=Pairs('<parameter name="', '">', "", "</parameter>\n", "", "</parameter>\n"),
        closing="</invoke>\n",
        end="</minimax:tool_call>",
    ),  # MiniMax M2
    CallForm(
        "pairs",
        begin="<|tool_call_start|>[",
        behind_name="(",
        pairs=Pairs("", "=", '"', '"', "", "", ", "),
        closing=")",
        between=", ",
        end="]<|tool_call_end|>",
    ),  # LFM2
)
"""Forms in use, as their families document them."""


def known_in(text: str) -> CallForm | None:
    """The first of them that a text (a rendered prompt, a template) speaks of."""
    spoken = (form for form in KNOWN if form.is_marked and form.trigger in text)
    return max(spoken, key=lambda form: _n_spoken(form, text), default=None)


def _n_spoken(form: CallForm, text: str) -> int:
    words = words_of(form.begin + form.opening + form.closing + form.end + form.behind_name)
    return sum(len(word) if word in text else -len(word) for word in words)


def written(form: CallForm, calls: Sequence[ToolCall]) -> str:
    """The calls as weights of this family would write them; of a channel, nothing.

    >>> written(OWN, [ToolCall("c1", "clock", '{"city": "Oslo"}')])
    '<tool_call>\\n{"name": "clock", "arguments": {"city": "Oslo"}}\\n</tool_call>'
    """
    if form.kind == "channel" or not calls:
        return ""
    each = [f"{form.opening}{_one(form, call, at)}{form.closing}" for at, call in enumerate(calls)]
    return form.begin + form.between.join(each) + form.end


def _one(form: CallForm, call: ToolCall, at: int) -> str:
    if form.kind == "object":
        name, arguments, call_id = form.keys
        last = f', "{call_id}": {as_json(call.id)}' if call_id else ""
        return f'{{"{name}": {as_json(call.name)}, "{arguments}": {call.arguments}{last}}}'
    name = f"functions.{call.name}:{at}" if form.is_id_named else call.name
    behind = form.behind_name.replace(ID, call.id)
    if form.kind == "named" or form.pairs is None:
        return f"{name}{behind}{call.arguments}"
    pairs = form.pairs
    texts = []
    for key, value in object_of(call.arguments).items():
        if isinstance(value, str):
            text = as_json(value)[1:-1] if pairs.text_opening == '"' else value
            shown = f"{pairs.text_opening}{text}{pairs.text_closing}"
        else:
            shown = f"{pairs.other_opening}{as_json(value)}{pairs.other_closing}"
        texts.append(f"{pairs.opening}{key}{pairs.middle}{shown}")
    return f"{name}{behind}{pairs.between.join(texts)}"


def as_json(value: object) -> str:
    """JSON with its letters as they are, which is how weights write it."""
    return json.dumps(value, ensure_ascii=False)


def object_of(text: str) -> dict[str, object]:
    """A JSON object; an empty one for what is none."""
    try:
        found = json.loads(text, strict=False)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
