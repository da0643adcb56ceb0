"""How a chat template has tools called: found by rendering calls, and looking at what is around.

    asked     Hi
    answered  ⟨mark⟩                     what begins and ends a reply
    calls     first(city, level, zone)   one call; with a number last; two of them

    <|im_start|>assistant ⟨<tool_call>⟩ {"name": "first", "arguments": {…}} ⟨</tool_call>⟩ …
                            opening       the call                             closing

So a template that nobody has seen before is read as any other. One that takes tools and renders no
calls describes a form in words: it is looked for among the known ones. One that renders calls and
tells of no tools (DeepSeek V3.1) has them told in the system prompt, in its own form. One that
knows neither gets ours. A template's text is somebody's program and may be
anything: whatever cannot be made sense of is ours, too.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from app.engine.prompts.tokens import TemplateWords
from app.engine.protocol.template_messages import TemplateFailed
from app.engine.text.call_form import ID, OWN, CallForm, Pairs, known_in
from app.engine.text.reasoning import KNOWN as TAGS

MAX_CHARACTERS: Final = 200_000
"""Of a rendered probe; a template that writes more about one tool is not looked at."""

_MARK: Final = "\ue000reply\ue001"
_FIRST: Final = "probe_clock"
_ID, _OTHER_ID = "a1B2c3D4e", "z9Y8x7W6v"
_WHOLE: Final[dict[str, Any]] = {"city": "Nukualofa", "level": 731, "zone": "Vaduz"}
_NUMBER: Final[dict[str, Any]] = {"level": 731}
_TEXT: Final[dict[str, Any]] = {"zone": "Vaduz"}
_USER: Final = {"role": "user", "content": "Hi"}
_TOOLS: Final = [
    {
        "type": "function",
        "function": {
            "name": _FIRST,
            "description": "tellsTheTime",
            "parameters": {
                "type": "object",
                "properties": {
                    "city": {"type": "string", "description": "a city"},
                    "level": {"type": "integer", "description": "a level"},
                    "zone": {"type": "string", "description": "a zone"},
                },
                "required": ["city"],
            },
        },
    }
]
_MARKER: Final = re.compile(r"<[^<>\s]*>|\[/?[A-Z_]+\]|＜[^＜＞\s]*＞")

_HALF: Final = re.compile(r"<[^<>\s]*$")


@dataclass(frozen=True, slots=True)
class ToolTemplate:
    """What a chat template makes of tools. `has_tools`: it tells the weights of them; `has_calls`:
    it writes the calls of earlier replies. What it has not is ours to tell."""

    form: CallForm = OWN
    has_tools: bool = False
    has_calls: bool = False


def tool_template(
    template: str, words: TemplateWords, render: Callable[..., str], extra: Mapping[str, Any]
) -> ToolTemplate:
    """`extra`: variables of the template besides. Raises TemplateFailed where nothing is rendered
    at all because the process ended."""
    probe = _Probe(template, words, render, extra)
    asked = probe.text([_USER])
    if asked is None:
        return ToolTemplate()
    has_tools = _FIRST in asked and "tellsTheTime" in asked
    form = _rendered_form(probe)
    if form is not None:
        return ToolTemplate(form, has_tools, has_calls=True)
    spoken = known_in(asked) or known_in(template) if has_tools else None
    if spoken is not None:
        return ToolTemplate(spoken, has_tools)
    return ToolTemplate(OWN, has_tools)


class _Probe:
    def __init__(
        self,
        template: str,
        words: TemplateWords,
        render: Callable[..., str],
        extra: Mapping[str, Any],
    ) -> None:
        self._template = template
        self.words = words
        self._render = render
        self._extra = extra

    def text(self, messages: list[dict[str, Any]]) -> str | None:
        """None: the template refuses them, or writes more than anybody looks at."""
        try:
            text = self._render(
                self._template,
                messages,
                bos_token=self.words.bos_text,
                eos_token=self.words.eos_text,
                add_generation_prompt=False,
                extra={**self._extra, "tools": _TOOLS},
            )
        except TemplateFailed as failed:
            if failed.fault not in ("raised", "failed"):
                raise
            return None
        return text if len(text) <= MAX_CHARACTERS else None

    def calling(self, *arguments: dict[str, Any], takes_text: bool) -> str | None:
        calls = [
            {
                "id": call_id,
                "type": "function",
                "function": {
                    "name": _FIRST,
                    "arguments": json.dumps(given) if takes_text else given,
                },
            }
            for call_id, given in zip((_ID, _OTHER_ID), arguments, strict=False)
        ]
        return self.text([_USER, {"role": "assistant", "content": "", "tool_calls": calls}])


def _rendered_form(probe: _Probe) -> CallForm | None:
    answered = probe.text([_USER, {"role": "assistant", "content": _MARK}])
    if answered is None or _MARK not in answered:
        return None
    before, _, after = answered.partition(_MARK)
    for takes_text in (False, True):
        one = probe.calling(_WHOLE, takes_text=takes_text)
        if one is None:
            continue
        start = _common_start(before, one)
        if "<|channel|>" in one[start:] and "<|message|>" in one[start:]:
            return CallForm("channel", takes_text=takes_text)
        core = _core(one, start, _WHOLE)
        if core is None:
            continue
        found = _around(probe, core, one, start, after, takes_text)
        if found is not None:
            return found
    return None


@dataclass(frozen=True, slots=True)
class _Core:
    """Characters [start, end) of a rendered text are a call: from its object or its name to the
    last of its arguments."""

    start: int
    end: int
    form: CallForm


def _core(text: str, start: int, arguments: dict[str, Any]) -> _Core | None:
    return (
        _object_core(text, start, arguments)
        or _named_core(text, start, arguments)
        or _pairs_core(text, start, arguments)
    )


def _object_core(text: str, start: int, arguments: dict[str, Any]) -> _Core | None:
    """`{"name": …, "arguments": …}`, its keys whatever they are."""
    for found in _objects(text, start):
        begin, end, value = found
        inner = value.get("function")
        holder = inner if isinstance(inner, dict) else value
        name = next((key for key, each in holder.items() if each == _FIRST), None)
        given = next((k for k, v in holder.items() if v == arguments), None)
        if name is None or given is None:
            continue
        ids = (_ID, _OTHER_ID)
        call_id = next((k for k, v in value.items() if v in ids or str(v).isdecimal()), "")
        return _Core(begin, end, CallForm("object", keys=(name, given, call_id)))
    return None


def _objects(text: str, start: int) -> list[tuple[int, int, dict[str, Any]]]:
    found = []
    decoder = json.JSONDecoder(strict=False)
    for brace in [m.start() for m in re.finditer(r"\{", text[start:])][:64]:
        try:
            value, end = decoder.raw_decode(text, start + brace)
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict):
            found.append((start + brace, end, value))
    return found


def _named_core(text: str, start: int, arguments: dict[str, Any]) -> _Core | None:
    """A name, or an id that holds it, and arguments in JSON behind it."""
    given = next((each for each in _objects(text, start) if each[2] == arguments), None)
    if given is None:
        return None
    begin, end, _ = given
    name = text.find(_FIRST, start, begin)
    is_id_named = name < 0
    name = text.find(_ID, start, begin) if is_id_named else name
    if name < 0:
        return None
    length = len(_ID if is_id_named else _FIRST)
    behind = text[name + length : begin].replace(_ID, ID)
    return _Core(name, end, CallForm("named", behind_name=behind, is_id_named=is_id_named))


def _pairs_core(text: str, start: int, arguments: dict[str, Any]) -> _Core | None:
    """A name and its arguments one by one; the pairs themselves are read off later."""
    at = text.find(_FIRST, start)
    if at < 0:
        return None
    end = at
    for key, value in arguments.items():
        end = text.find(key, end)
        end = text.find(str(value), end + len(key)) if end >= 0 else -1
        if end < 0:
            return None
        end += len(str(value))
    return _Core(at, end, CallForm("pairs"))


def _around(
    probe: _Probe, core: _Core, one: str, start: int, after: str, takes_text: bool
) -> CallForm | None:
    opening, behind = one[start : core.start], one[core.end :]
    opening = _without_reasoning(opening)
    form = replace(core.form, takes_text=takes_text)
    if form.kind == "pairs":
        read = _pairs(probe, one, core, takes_text)
        if read is None:
            return None
        form, behind = read
    two = probe.calling(_WHOLE, _WHOLE if form.kind != "pairs" else _TEXT, takes_text=takes_text)
    between = _between(two, core, one, form) if two is not None else None
    closing_of_turn = _without_end(behind, after, probe.words)
    if between is None:
        return replace(form, opening=opening, closing=closing_of_turn, is_many=False)
    closing = _whole_start(_common_start_of(between, behind), between)
    rest = between[len(closing) :]
    shared = _whole_end(_common_end(rest, opening), opening)
    end = _without_end(behind[len(closing) :], after, probe.words)
    return replace(
        form,
        begin=opening[: len(opening) - len(shared)],
        opening=shared,
        closing=closing,
        between=rest[: len(rest) - len(shared)],
        end=end.rstrip(),
    )


def _between(two: str, core: _Core, one: str, form: CallForm) -> str | None:
    """What stands between two calls."""
    at = len(_common_start_of(one[: core.start], two))
    first = _core(two, at, _WHOLE)
    if first is None:
        return None
    end = first.end + (len(form.pairs.text_closing) if form.pairs else 0)
    if form.kind == "pairs":
        second = _pairs_core(two, end, _TEXT)
    else:
        second = _object_core(two, end, _WHOLE) or _named_core_of(two, end, form)
    return None if second is None else two[end : second.start]


def _named_core_of(text: str, start: int, form: CallForm) -> _Core | None:
    return (
        _named_core(text.replace(_OTHER_ID, _ID), start, _WHOLE) if form.kind == "named" else None
    )


def _pairs(probe: _Probe, one: str, core: _Core, takes_text: bool) -> tuple[CallForm, str] | None:
    """The form with what stands around keys and values, and what stands behind the last of them.

    A text is followed by another pair (city), and comes last (zone); so does a number.
    """
    numbered = probe.calling(_NUMBER, takes_text=takes_text)
    at = core.start + len(_FIRST)
    before_city, at = _up_to(one, at, "city")
    city, at = _up_to(one, at, str(_WHOLE["city"]))
    before_level, at = _up_to(one, at, "level")
    level, at = _up_to(one, at, str(_WHOLE["level"]))
    before_zone, at = _up_to(one, at, "zone")
    _, at = _up_to(one, at, str(_WHOLE["zone"]))
    behind_text = one[at:]
    number = None if numbered is None else _pairs_core(numbered, len(one[: core.start]), _NUMBER)
    if number is None or numbered is None:
        return None
    behind_number = numbered[number.end :]
    text_closing = _whole_start(_common_start_of(before_level, behind_text), before_level)
    other_closing = _whole_start(_common_start_of(before_zone, behind_number), before_zone)
    rest = before_level[len(text_closing) :]
    opening = _whole_end(_common_end(rest, before_city), before_city)
    middle = _whole_start(_common_start_of(city, level), city)
    pairs = Pairs(
        opening,
        middle,
        city[len(middle) :],
        text_closing,
        level[len(middle) :],
        other_closing,
        rest[: len(rest) - len(opening)],
    )
    name = before_city[: len(before_city) - len(opening)]
    return replace(core.form, behind_name=name, pairs=pairs), behind_text[len(text_closing) :]


def _up_to(text: str, at: int, wanted: str) -> tuple[str, int]:
    """What stands before `wanted`, and where that ends; `_pairs_core` has found it there."""
    found = text.find(wanted, at)
    return text[at:found], found + len(wanted)


# --- texts --------------------------------------------------------------------------------------


def _common_start_of(one: str, other: str) -> str:
    at, most = 0, min(len(one), len(other))
    while at < most and one[at] == other[at]:
        at += 1
    return one[:at]


def _common_start(before: str, one: str) -> int:
    """Where a call's text parts from that of an answer, not within a mark."""
    return len(_whole_start(_common_start_of(before, one), one))


def _common_end(one: str, other: str) -> str:
    return _common_start_of(one[::-1], other[::-1])[::-1]


def _whole_start(start: str, text: str) -> str:
    """A beginning of `text` without the half of a mark at its end.

    >>> _whole_start("</a></", "</a></b>")
    '</a>'
    """
    for mark in _MARKER.finditer(text):
        if mark.start() < len(start) < mark.end():
            return start[: mark.start()]
    half = _HALF.search(start)
    return start[: half.start()] if half is not None and len(start) < len(text) else start


def _whole_end(end: str, text: str) -> str:
    """An end of `text` without the half of a mark at its beginning.

    >>> _whole_end("_begin> x", "<a_begin> x")
    ' x'
    """
    at = len(text) - len(end)
    for mark in _MARKER.finditer(text):
        if mark.start() < at < mark.end():
            return text[mark.end() :]
    return end


def _without_reasoning(opening: str) -> str:
    """An empty thought is no part of a call."""
    for tags in TAGS:
        at = opening.rfind(tags.closing)
        if at >= 0:
            opening = opening[at + len(tags.closing) :]
    return opening


def _without_end(behind: str, after: str, words: TemplateWords) -> str:
    """Without what ends the turn: a token that ends a reply, and all behind it."""
    ends = [text for text in getattr(words, "end_texts", [words.eos_text]) if text]
    cut = min((at for text in ends if (at := behind.find(text)) >= 0), default=len(behind))
    if cut < len(behind):
        return behind[:cut]
    shared = _whole_end(_common_end(behind, after), behind)
    return behind[: len(behind) - len(shared)]


def changed_lines(text: str, other: str) -> tuple[int, int]:
    """Where two texts part, from the beginning of a line or behind a mark to the end of one."""
    start = len(_common_start_of(text, other))
    end = max(len(text) - len(_common_end(text[start:], other[start:])), start)
    borders = [0, len(text), *(m.end() for m in _BORDER.finditer(text))]
    begins = [0, len(text), *(m.start() for m in _BORDER.finditer(text))]
    return max(b for b in borders if b <= start), min(b for b in begins if b >= end)


_BORDER: Final = re.compile(rf"\n|{_MARKER.pattern}")

OTHER_TOOLS: Final = [
    {
        "type": "function",
        "function": {
            "name": "~",
            "description": "~",
            "parameters": {"type": "object", "properties": {}},
        },
    }
]
"""In place of a prompt's tools, to see where those are told of."""


def as_tools(tools: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Tools in OpenAI's function form, as templates know them."""
    return [{"type": "function", "function": dict(tool)} for tool in tools]
