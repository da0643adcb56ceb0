"""The scripted engine's look at a grammar: it has no parser of llama.cpp's, and knows only a few of
the faults that one finds, at the same places."""

from __future__ import annotations

import json
import re

from app.engine.process.sampling.grammar_limits import shape_of
from app.engine.protocol.messages import CheckGrammar, GrammarChecked


def scripted_check(command: CheckGrammar) -> GrammarChecked:
    """
    >>> found = scripted_check(CheckGrammar(1, json_schema='{"type":}'))
    >>> found.line, found.column
    (1, 9)
    """
    if command.json_schema:
        return _schema(command.json_schema)
    return _gbnf(command.grammar) if command.grammar else GrammarChecked()


def _schema(text: str) -> GrammarChecked:
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        sentence = f"The JSON schema isn't valid JSON: {error}."
        return GrammarChecked(sentence, error.lineno, error.colno)
    except RecursionError:
        return GrammarChecked("The JSON schema isn't valid JSON: nested too deeply.")
    if not isinstance(value, dict):
        return GrammarChecked("The JSON schema must be an object, like {…}.")
    return GrammarChecked()


def _gbnf(text: str) -> GrammarChecked:
    rules = shape_of(text).rules
    if "root" not in rules:
        return GrammarChecked("The grammar has no rule named “root”.")
    plain = re.sub(r'"(?:\\.|[^"\\\n])*"|\[(?:\\.|[^\]\\\n])*\]|#[^\n]*', _blank, text)
    for match in re.finditer(r"[a-zA-Z][a-zA-Z0-9-]*", plain):
        if match.group() not in rules:
            line = text.count("\n", 0, match.start()) + 1
            column = match.start() - text.rfind("\n", 0, match.start())
            return GrammarChecked(
                f"The grammar has an error at line {line}, column {column}: "
                f"Undefined rule identifier '{match.group()}'.",
                line,
                column,
            )
    return GrammarChecked()


def _blank(match: re.Match[str]) -> str:
    return " " * len(match.group())
