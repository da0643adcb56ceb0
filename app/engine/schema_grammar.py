"""From a JSON schema to GBNF, by llama-cpp-python's converter (llama.cpp's own script).

What the converter lacks is added here: references to a part that refers to itself, as every
schema of a tree has, whatever that part is called; letters beyond ASCII as themselves, which is
how weights write them; `true` for any value. Nothing is ever fetched: a reference stays inside.
"""

from __future__ import annotations

import importlib
import json
from typing import Any
from urllib.parse import unquote

from app.engine.bounds import BadSetting, shown
from app.engine.frames import clean_text


def convert(schema: dict[str, Any]) -> str:
    """The grammar of the JSON texts that fit `schema`. Raises BadSetting."""
    converter = _converter(schema)
    try:
        converter.visit(schema, "")
        return str(converter.format_grammar())
    except BadSetting:
        raise
    except Exception as error:  # noqa: BLE001 - whatever a strange schema does to the converter
        reason = shown(str(error) or type(error).__name__).strip("'\"")
        raise _bad(f"cannot be turned into a grammar: {reason}") from None


def _bad(words: str) -> BadSetting:
    return BadSetting("json_schema", f"The JSON schema {words}.")


class _Parts(dict[str, Any]):
    """The schema's parts by reference (`#/$defs/node`), found when they are asked for."""

    def __init__(self, schema: dict[str, Any]) -> None:
        super().__init__()
        self._schema = schema

    def __missing__(self, reference: object) -> dict[str, Any]:
        words = "refers to “{}”".format(shown(reference).strip("'"))
        if not isinstance(reference, str) or not (reference == "#" or reference.startswith("#/")):
            raise _bad(f"{words}, which is outside it: only references like #/$defs/x are followed")
        part: Any = self._schema
        for step in reference.split("/")[1:]:
            key = unquote(step).replace("~1", "/").replace("~0", "~")
            if isinstance(part, dict) and key in part:
                part = part[key]
            elif isinstance(part, list) and key.isdecimal() and int(key) < len(part):
                part = part[int(key)]
            else:
                raise _bad(f"{words}, which it does not have")
        if not isinstance(part, dict):
            raise _bad(f"{words}, which is no schema")
        return part


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

        def visit(self, schema: object, name: str) -> str:
            if schema is True:
                schema = {"type": "value"}
            if not isinstance(schema, dict):
                raise _bad(f"holds {shown(schema)} where a schema belongs")
            if schema.get("enum") == []:
                raise _bad("has an “enum” with nothing to choose from")
            return str(super().visit(schema, name))

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
