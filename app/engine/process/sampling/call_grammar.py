"""From tools to GBNF: how a call of one of them may be written, in the family's form.

    root ::= "<tool_call>" "\\n"? call "\\n"? "</tool_call>" …
    call ::= "{" … "\\"name\\"" … "\\"clock\\"" … "\\"arguments\\"" … arguments-of-clock "}" | …

Names are words of the grammar and arguments fit their tool's schema, as far as a grammar can hold
one (`schema_grammar.py`). A tool whose schema cannot be converted, or is too large beside the
others, has arguments of any kind: tools of others must not keep a reply from being written.
White space that a form has between its marks may be left out, as weights do.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

from app.engine.process.sampling.grammar import is_sound
from app.engine.process.sampling.schema_grammar import convert
from app.engine.protocol.bounds import BadSetting
from app.engine.protocol.messages import MAX_GRAMMAR_BYTES
from app.engine.protocol.tool_messages import AUTO, MAX_BOUND_SCHEMA, NONE, REQUIRED, Tool
from app.engine.text.call_form import ID, CallForm, Pairs, object_of

WHOLE: Final = ""
"""The key of the grammar of a whole call; the others are those of one tool's arguments."""

MOST_CALLS: Final = 16
"""Of a reply that is bound: small weights repeat themselves, and would never end."""

_MAX_CHARACTERS: Final = 3 * MAX_GRAMMAR_BYTES
_ANY: Final = {"type": "object"}
_NAMES: Final = re.compile(
    r'("(?:\\.|[^"\\])*"|\[(?:\\.|[^\]\\])*\]|#[^\n]*)|([a-zA-Z][a-zA-Z0-9-]*)'
)


@lru_cache(maxsize=8)
def call_grammars(
    form: CallForm, tools: tuple[Tool, ...], choice: str, is_many: bool
) -> tuple[Mapping[str, str], frozenset[str]]:
    """The grammar of a whole call, and of a form in channels those of each tool's arguments; empty
    where none can be held. And the names of the tools whose arguments they leave open."""
    chosen = [t for t in tools if choice in (AUTO, REQUIRED, NONE) or t.name == choice]
    for schemas in _attempts(chosen):
        found = _written(form, chosen, schemas, is_many=is_many and form.is_many)
        if all(len(text) <= _MAX_CHARACTERS and is_sound(text) for text in found.values()):
            pairs = zip(chosen, schemas, strict=True)
            return found, frozenset(tool.name for tool, schema in pairs if schema is _ANY)
    return {}, frozenset(tool.name for tool in chosen)


def _attempts(tools: Sequence[Tool]) -> Iterable[list[dict[str, Any]]]:
    """The schemas, then without the largest ones, at last without all of them."""
    schemas = [_convertible(tool) for tool in tools]
    yield schemas
    by_size = sorted(range(len(tools)), key=lambda i: -len(tools[i].parameters))
    kept = len(tools)
    while kept:
        kept //= 2
        dropped = set(by_size[: len(tools) - kept])
        yield [_ANY if i in dropped else schema for i, schema in enumerate(schemas)]


def _convertible(tool: Tool) -> dict[str, Any]:
    schema = object_of(tool.parameters)
    if schema.get("type", "object") != "object" or len(tool.parameters) > MAX_BOUND_SCHEMA:
        return _ANY
    try:
        convert({**schema, "type": "object"})
    except BadSetting:
        return _ANY
    return {**schema, "type": "object"}


def _written(
    form: CallForm, tools: Sequence[Tool], schemas: Sequence[dict[str, Any]], *, is_many: bool
) -> dict[str, str]:
    rules: dict[str, str] = {}
    calls = []
    for number, (tool, schema) in enumerate(zip(tools, schemas, strict=True)):
        prefix = f"t{number}-"
        if form.kind == "pairs" and form.pairs is not None:
            rules |= _pairs(form.pairs, schema, prefix)
        else:
            rules |= _renamed(convert(schema).text, prefix)
        calls.append(f"({_call(form, tool, prefix + 'root')})")
    one = " | ".join(calls)
    if form.kind == "channel":
        bare = {
            tool.name: _renamed(convert(s).text, "") for tool, s in zip(tools, schemas, strict=True)
        }
        each = {name: _text(of) for name, of in bare.items()}
        head = _literal("<|channel|>commentary to=functions.")
        rules["root"] = f"{head} ({one})"
        return {**each, WHOLE: _text(rules)}
    first = _marks((form.begin + form.opening).lstrip())
    rest = f"{_marks(form.between + form.opening)} call {_marks(form.closing)}"
    more = f" ({rest}){{0,{MOST_CALLS - 1}}}" if is_many else ""
    root = f"gap {first} call {_marks(form.closing)}{more} {_marks(form.end)}"
    rules |= {"root": root, "call": one, "gap": r"[ \n]{0,3}", "sp": r"[ \t\n]{0,8}"}
    return {WHOLE: _text(rules)}


def _call(form: CallForm, tool: Tool, arguments: str) -> str:
    name = json.dumps(tool.name, ensure_ascii=False)
    if form.kind == "object":
        name_key, given_key, id_key = form.keys
        parts = f'{_member(name_key, _literal(name))} "," sp {_member(given_key, arguments)}'
        if id_key:
            its_id = _member(id_key, r'"\"" [a-zA-Z0-9]{1,16} "\"" sp')
            parts = f'({its_id} "," sp)? {parts} ("," sp {its_id})?'
        return f'"{{" sp {parts} "}}"'
    said = _literal(tool.name)
    if form.kind == "channel":
        constrain = '(" <|constrain|>json" | " json")?'
        return f'{said} {constrain} "<|message|>" {arguments}'
    if form.is_id_named:
        said = f'"functions." {said} ":" [0-9]{{1,3}}'
    before, has_id, behind = form.behind_name.partition(ID)
    its_id = "[a-zA-Z0-9]{9}" if has_id else ""
    return f"{said} {_marks(before)} {its_id} {_marks(behind)} {arguments}"


def _member(key: str, value: str) -> str:
    return f'{_literal(json.dumps(key, ensure_ascii=False))} sp ":" sp {value}'


# --- arguments one by one -----------------------------------------------------------------------


def _pairs(form: Pairs, schema: dict[str, Any], prefix: str) -> dict[str, str]:
    """Required ones in their order, others where they stand."""
    rules: dict[str, str] = {}
    fields = schema.get("properties")
    fields = fields if isinstance(fields, dict) else {}
    required = schema.get("required")
    required = required if isinstance(required, list) else []
    shared: dict[str, Any] = {k: schema[k] for k in ("$defs", "definitions") if k in schema}
    pairs, is_first = [], True
    for number, (key, field) in enumerate(fields.items()):
        name = f"{prefix}p{number}"
        rules |= _pair(form, key, {**shared, **field} if isinstance(field, dict) else {}, name)
        separator = "" if is_first or not form.between else f"{_literal(form.between)} "
        if key in required:
            pairs.append(f"{separator}{name}")
            is_first = False
        elif is_first and form.between:  # a separator only stands between two of them
            continue
        else:
            pairs.append(f"({separator}{name})?")
    rules[f"{prefix}root"] = " ".join(pairs) or '""'
    return rules


def _pair(form: Pairs, key: str, field: dict[str, Any], name: str) -> dict[str, str]:
    head = f"{_literal(form.opening)} {_literal(key)} {_literal(form.middle)}"
    kinds = field.get("type", "string" if "enum" not in field else "")
    if kinds == "string" and isinstance(field.get("enum"), list):
        words = [word for word in field["enum"] if isinstance(word, str)]
        said = " | ".join(f'"{_escaped(word)}"' for word in words) or '""'
        value = f"{_literal(form.text_opening)} ({said}) {_literal(form.text_closing)}"
        return {name: f"{head} {value}"}
    is_told = form.text_opening != form.other_opening
    if kinds == "string" and form.text_opening == '"':
        return {
            name: f"{head} {name}-root",
            **_renamed(convert({"type": "string"}).text, f"{name}-"),
        }
    mark = form.text_closing.strip()
    if kinds == "string" and mark:
        gap = form.text_closing.partition(mark)[2]
        until = _until(mark, f"{name}-u")
        value = f"{_literal(form.text_opening)} {name}-u0 {_literal(gap)}"
        return {name: f"{head} {value}", **until}
    try:
        converted = convert(field if kinds else _ANYTHING)
    except BadSetting:
        converted = convert(_ANYTHING)
    rules = _renamed(converted.text, f"{name}-")
    opening, closing = (
        (form.other_opening, form.other_closing) if is_told else ("", form.text_closing)
    )
    return {name: f"{head} {_literal(opening)} {name}-root {_literal(closing)}", **rules}


_ANYTHING: Final = {"type": ["string", "number", "boolean", "null", "array", "object"]}


def _until(mark: str, name: str) -> dict[str, str]:
    """Rules of a text that ends with the first `mark` in it, which is part of it: a state for each
    beginning of the mark that was read."""
    letters = sorted(set(mark))
    rules = {}
    for state in range(len(mark)):
        ways: dict[int, list[str]] = {}
        for letter in letters:
            ways.setdefault(_state_behind(mark, state, letter), []).append(letter)
        choices = [f"[^{''.join(map(_in_class, letters))}] {name}0"]
        for following, of in sorted(ways.items()):
            one = f"[{''.join(map(_in_class, of))}]"
            choices.append(one if following == len(mark) else f"{one} {name}{following}")
        rules[f"{name}{state}"] = " | ".join(choices)
    return rules


def _state_behind(mark: str, state: int, letter: str) -> int:
    read = mark[:state] + letter
    return next((n for n in range(min(len(read), len(mark)), 0, -1) if read.endswith(mark[:n])), 0)


def _in_class(letter: str) -> str:
    return "\\" + letter if letter in "]\\^-[" else _escaped(letter)


# --- texts --------------------------------------------------------------------------------------


def _marks(text: str) -> str:
    """What stands around a call: white space in it may be more or less, and follow it. A token of
    the weights' may hold the end of a mark and an empty line."""
    words = [f'"{_escaped(word)}"' for word in text.split()]
    before = "gap " if text[:1].isspace() else ""
    return f"{before}{' gap '.join(words)} gap" if words else "gap" * bool(text)


def _literal(text: str) -> str:
    """A text as GBNF has it; line breaks and spaces at its ends may be left out."""
    bare = text.strip()
    if not text:
        return ""
    if not bare:
        return f'"{_escaped(text)}"?'
    before, _, behind = text.partition(bare)
    inner = [f'"{_escaped(part)}"' + ("?" if part.isspace() else "") for part in _SPACED.split(bare)
             if part]  # fmt: skip
    ends = [f'"{_escaped(end)}"?' if end else "" for end in (before, behind)]
    return " ".join(part for part in (ends[0], *inner, ends[1]) if part)


_SPACED: Final = re.compile(r"(\n+)")


def _escaped(text: str) -> str:
    """
    >>> _escaped('a"\\n')
    'a\\\\"\\\\n'
    """
    plain = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"}
    return "".join(plain.get(letter, letter) for letter in text)


def _renamed(grammar: str, prefix: str) -> dict[str, str]:
    """The rules of a grammar, all names with a prefix."""

    def renamed(found: re.Match[str]) -> str:
        return found[1] or prefix + found[2]

    rules = {}
    for line in grammar.split("\n"):
        name, is_rule, body = line.partition(" ::= ")
        if is_rule:
            rules[prefix + name] = _NAMES.sub(renamed, body)
    return rules


def _text(rules: Mapping[str, str]) -> str:
    return "\n".join(f"{name} ::= {body}" for name, body in rules.items())
