"""From a JSON schema to GBNF, by llama-cpp-python's converter (llama.cpp's own script).

What the converter lacks is added here: patterns (`schema_pattern.py`) and counts of any size, which
it nests and llama.cpp counts itself; references to a part that refers to itself, as every
schema of a tree has, whatever that part is called; letters beyond ASCII as themselves, which is
how weights write them, and no bare line break in a text; `true` for any value; arrays of anything;
an `allOf` of one part; a part of several types, with all else that it says, and one of no type.
Nothing is ever fetched: a reference stays inside. What a grammar cannot hold is named
(`schema_limits.py`).
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import unquote

from app.engine.process.sampling.grammar_limits import MAX_REPETITION
from app.engine.process.sampling.schema_limits import (
    Part,
    branch_of,
    contradiction,
    one_for_each_type,
    sentences,
    unheld,
    unheld_of_component,
)
from app.engine.process.sampling.schema_pattern import NotHeld, rules_of
from app.engine.protocol.bounds import BadSetting, shown, shown_text
from app.engine.protocol.frames import clean_text


@dataclass(frozen=True, slots=True)
class Converted:
    """A schema's grammar, and a sentence for each place where it lets more pass."""

    text: str
    notes: tuple[str, ...] = ()


def convert(schema: dict[str, Any]) -> Converted:
    """The grammar of the JSON texts that fit `schema`. Raises BadSetting."""
    try:
        schema = _with_whole_numbers(schema)
        converter = _converter(schema)
        converter.visit(schema, "")
        return Converted(str(converter.format_grammar()), tuple(sentences(converter.found.items())))
    except BadSetting:
        raise
    except RecursionError:
        raise _bad("is too large for one grammar") from None
    except (AssertionError, ValueError) as error:  # the converter's own words
        raise _bad(f"can't be converted to a grammar: {shown_text(str(error))}") from None
    except Exception:  # noqa: BLE001 - whatever a strange schema does to the converter
        raise _bad("isn't a valid schema: one of its values has the wrong type") from None


def _with_whole_numbers(part: Any) -> Any:
    """In JSON 2.0 is the whole number 2, and a count may be written so. Values that are to be
    written as they stand stay as they are."""
    if isinstance(part, float) and part.is_integer():
        return int(part)
    if isinstance(part, list):
        return [_with_whole_numbers(each) for each in part]
    if isinstance(part, dict):
        kept = ("const", "enum", "default", "examples")
        return {k: v if k in kept else _with_whole_numbers(v) for k, v in part.items()}
    return part


def _bad(words: str) -> BadSetting:
    return BadSetting("json_schema", f"The JSON schema {words}.")


class _Parts(dict[str, Any]):
    """The schema's parts by reference (`#/$defs/node`), found when they are asked for."""

    def __init__(self, schema: dict[str, Any]) -> None:
        super().__init__()
        self._schema = schema

    def __missing__(self, reference: object) -> dict[str, Any]:
        words = f"refers to “{shown_text(str(reference))}”"
        if not isinstance(reference, str) or not (reference == "#" or reference.startswith("#/")):
            raise _bad(
                f"{words}, which is outside the schema: only references like #/$defs/x are "
                "supported"
            )
        part: Any = self._schema
        for step in reference.split("/")[1:]:
            key = unquote(step).replace("~1", "/").replace("~0", "~")
            if isinstance(part, dict) and key in part:
                part = part[key]
            elif isinstance(part, list) and key.isdecimal() and int(key) < len(part):
                part = part[int(key)]
            else:
                raise _bad(f"{words}, which doesn't exist")
        if not isinstance(part, dict):
            raise _bad(f"{words}, which isn't a schema")
        return part


MAX_COUNT: Final = 1_000_000
"""Longer than any context; what is beyond it is not counted, and named."""

MAX_PATTERN_CHARACTERS: Final = 128 * 1024
"""Of the grammar, for all patterns of a schema."""

_COUNTS: Final[dict[str, tuple[str, ...]]] = {
    "length": ("minLength", "maxLength"),
    "items": ("minItems", "maxItems"),
    "pattern": (),
}

_CHARACTER: Final = (
    r'[^"\\\x00-\x1F] | "\\" '
    r'(["\\/bfnrt] | "u" [0-9a-fA-F] [0-9a-fA-F] [0-9a-fA-F] [0-9a-fA-F])'
)
"""The library's lets control characters through, which no JSON text may hold."""


def _places(value: object, place: str) -> Iterator[tuple[int, str]]:
    """Each object in the schema by its identity, and where it is."""
    if isinstance(value, dict):
        yield id(value), place
        for name, item in value.items():
            yield from _places(item, f"{place}/{name}")
    elif isinstance(value, list):
        for number, item in enumerate(value):
            yield from _places(item, f"{place}/{number}")


def _only_part(schema: dict[str, Any]) -> Any:
    """The part of an `allOf` that joins nothing: the schema is that part."""
    parts = schema.get("allOf")
    if isinstance(parts, list) and len(parts) == 1 and not schema.keys() - _SAYS_NOTHING:
        return parts[0]
    return None


def _plainer(schema: dict[str, Any]) -> dict[str, Any]:
    """An array of anything in words that the converter understands."""
    counts = schema.get("type") == "array" and ("minItems" in schema or "maxItems" in schema)
    is_bare = counts and "items" not in schema and "prefixItems" not in schema
    return {**schema, "items": True} if is_bare or schema.get("items") == {} else schema


_SAYS_NOTHING: Final = {"allOf", "title", "description", "default", "examples", "$defs",
                        "definitions", "$schema", "$id", "$comment"}  # fmt: skip


def _converter(schema: dict[str, Any]) -> Any:
    """The library's module imports nothing heavy."""
    library = importlib.import_module("llama_cpp.llama_grammar")

    class Converter(library.SchemaConverter):  # type: ignore[misc, name-defined]
        """Rules of references are numbered: the library calls them as the schema does, and so
        mixes up a part called "string" or "tree_node" with its own rules."""

        def __init__(self) -> None:
            super().__init__(prop_order={}, allow_fetch=False, dotall=False, raw_pattern=False)
            self._refs = _Parts(schema)
            self._rule_of: dict[str, str] = {}
            self._places = dict(_places(schema, "#"))
            self._patterns: dict[str, str | None] = {}
            self._room = MAX_PATTERN_CHARACTERS
            self._made: list[Part] = []
            self.found: dict[str, list[str]] = {}

        def visit(self, schema: object, name: str) -> str:
            if schema is True:
                schema = {"type": "value"}
            if not isinstance(schema, dict):
                raise _bad(f"has {shown(schema)} where a schema is expected")
            if words := contradiction(schema):
                raise _bad(words)
            if (only := _only_part(schema)) is not None:
                return self.visit(only, name)
            plain = _plainer(schema)
            if (branch := branch_of(plain)) in ("pattern", "length", "items"):
                return self._visit_here(schema, plain, branch, name)
            if branch == "types":
                parts = [self._instead(schema, part) for part in one_for_each_type(plain)]
                if len(parts) == 1:
                    return self.visit(parts[0], name)
                union = self._generate_union_rule(name, parts)
                return str(self._add_rule(self._rule_name(name), union))
            self._note(schema, unheld(plain))
            if "allOf" in schema and "allOf" not in unheld(plain):
                self._look_at_components(schema["allOf"])
            if branch == "type" and "type" not in plain and (plain or name):
                plain = {"type": "value"}  # `{}` alone is any object, as llama.cpp has it
            return str(super().visit(plain, name))

        def _visit_here(self, schema: Part, plain: Part, branch: str, name: str) -> str:
            """What the converter would write otherwise than it is meant."""
            rule_name = self._rule_name(name)
            too_large = [n for n in _COUNTS[branch] if plain.get(n, 0) > MAX_COUNT]
            counted = {n: count for n, count in plain.items() if n not in too_large}
            low, high = (counted.get(n) for n in _COUNTS[branch] or ("", ""))
            if branch == "pattern":
                return self._visit_pattern_here(schema, plain, name, rule_name)
            self._note(schema, [*unheld(plain), *too_large])
            if branch == "length":
                one = self._add_primitive("char", library.PRIMITIVE_RULES["char"])
                rule = rf'"\"" {self._times(one, low or 0, high)} "\"" space'
            else:
                one = self.visit(plain["items"], f"{name}{'-' if name else ''}item")
                rule = f'"[" space {self._listed(one, low or 0, high)} "]" space'
            return str(self._add_rule(rule_name, rule))

        def _visit_pattern_here(self, schema: Part, plain: Part, name: str, rule_name: str) -> str:
            found = self._pattern(plain["pattern"])
            if found is not None:
                self._note(schema, unheld(plain))
                return str(self._add_rule(rule_name, found))
            without = {key: value for key, value in plain.items() if key != "pattern"}
            self._note(schema, ["pattern"])
            return self.visit(self._instead(schema, {**without, "type": "string"}), name)

        def _pattern(self, pattern: str) -> str | None:
            """The rule of the texts that fit; equal patterns have one. None: it is not held."""
            if pattern not in self._patterns:
                self._patterns[pattern] = None
                name = f"pattern-{len(self._patterns)}"
                while any(known.startswith(name) for known in self._rules):
                    name += "-p"
                try:
                    rules = rules_of(pattern, name)
                except NotHeld:
                    return None
                self._room -= sum(map(len, rules)) + sum(map(len, rules.values()))
                if self._room >= 0:
                    self._rules |= rules
                    self._patterns[pattern] = name
            return self._patterns[pattern]

        def _listed(self, one: str, low: int, high: int | None) -> str:
            """So many of them with commas between."""
            if high == 0:
                return ""
            more = self._add_rule(f"{one}-more", f'"," space {one}')
            rest = self._times(more, max(low - 1, 0), None if high is None else high - 1)
            if low:
                return f"{one} {rest}"
            # A rule of its own: what is repeated in brackets counts against what repeats them.
            return f"{self._add_rule(f'{one}-some', f'{one} {rest}')}?"

        def _times(self, one: str, low: int, high: int | None) -> str:
            """A rule so often. llama.cpp counts to MAX_REPETITION, so larger numbers are counted in
            blocks: 0 to 4,500 is up to one block and then up to 1,999 more, or two and up to 500.
            """
            if max(low, high or 0) <= MAX_REPETITION:
                return f"{one}{{{low},{'' if high is None else high}}}"
            block = self._add_rule(f"{one}-block", f"{one}{{{MAX_REPETITION}}}")
            blocks, rest = divmod(low, MAX_REPETITION)
            first = f"{block}{{{blocks}}} {one}{{{rest}}}"
            if high is None:
                return f"{first} {one}*"
            blocks, rest = divmod(high - low, MAX_REPETITION)
            last = f"{block}{{{blocks}}} {one}{{0,{rest}}}"
            if not blocks:
                return f"{first} {last}"
            fewer = f"{block}{{0,{blocks - 1}}} {one}{{0,{MAX_REPETITION - 1}}}"
            return f"{first} ({fewer} | {last})"

        def _look_at_components(self, parts: list[dict[str, Any]]) -> None:
            """Of what an `allOf` joins, the converter reads the properties."""
            for given in parts:
                part = self._refs[given["$ref"]] if "$ref" in given else given
                if part.get("type", "object") != "object":
                    raise _bad("has an “allOf” with parts that aren't objects")
                if words := contradiction(part):
                    raise _bad(words)
                self._note(part, unheld_of_component(part))

        def _note(self, part: Part, names: list[str]) -> None:
            """What is found at a place adds up: it may be visited as parts of several types."""
            if names:
                noted = self.found.setdefault(self._places.get(id(part), "#"), [])
                noted += [name for name in names if name not in noted]

        def _instead(self, schema: Part, made: Part) -> Part:
            """A part that stands for one of the schema is where that is."""
            self._made.append(made)  # kept, or another part could get its identity
            self._places[id(made)] = self._places.get(id(schema), "#")
            return made

        @staticmethod
        def _rule_name(name: str) -> str:
            return f"{name}-" if name in library.RESERVED_NAMES else name or "root"

        def _add_primitive(self, name: str, rule: Any) -> str:
            if name == "char":
                rule = library.BuiltinRule(_CHARACTER, [])
            return str(super()._add_primitive(name, rule))

        def _resolve_ref(self, ref: str) -> str:
            part = self._refs[ref]
            if ref not in self._rule_of:
                name = self._rule_of[ref] = f"reference-{len(self._rule_of)}"
                self._rule_of[ref] = self.visit(part, name)
            return self._rule_of[ref]

        def _format_literal(self, literal: str) -> str:
            """A constant, which comes as JSON in ASCII. Its backslashes are escaped: "a\\nb"
            would else demand a bare line break."""
            if "\\u" in literal:
                plain = json.dumps(json.loads(literal), ensure_ascii=False)
                literal = plain if plain == clean_text(plain) else literal
            return str(super()._format_literal(literal.replace("\\", "\\\\")))

    return Converter()
