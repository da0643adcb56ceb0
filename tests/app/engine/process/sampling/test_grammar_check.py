"""A grammar that is being written: refused at its place, by llama.cpp's own parser."""

from __future__ import annotations

import pytest

from app.engine.process.native.weights import Weights
from app.engine.process.sampling.grammar import checked_grammar
from app.engine.process.scripted.grammar import scripted_check
from app.engine.protocol.messages import CheckGrammar, GrammarChecked

GBNF = [
    ('root ::= "yes" | "no"', 0, 0, ""),
    ("", 0, 0, ""),
    ('root ::= "a" nothing', 1, 14, "Undefined rule identifier 'nothing'"),
    ('root ::= a\na ::= "x" b\n', 2, 11, "Undefined rule identifier 'b'"),
    ('other ::= "a"', 0, 0, "no rule named “root”"),
]
ONLY_NATIVE = [
    ('root ::= ("a"', 1, 14, "expecting ')'"),
    ("root ::= [a-", 1, 13, ""),
    ('root ::= "a"\nroot2 ::= "\\q"', 2, 12, "unknown escape"),
    ("root ::= root", 1, 1, "left recursion"),
    ('root ::= "x" | b\n  b ::= c b "y" | "z"\nc ::= "c"*', 2, 3, "rule, “b”, that can start"),
    ("root ::= " + "(" * 200 + '"a"' + ")" * 200, 0, 0, "nests brackets"),
]
SCHEMAS = [
    ('{"type": "integer"}', 0, 0, ""),
    ('{"type":}', 1, 9, "valid JSON: Expecting value"),
    ('{"type": "object",\n "required": [}', 2, 15, "valid JSON"),
    ("[]", 0, 0, "must be an object"),
]


@pytest.mark.weights
@pytest.mark.parametrize(("text", "line", "column", "words"), [*GBNF, *ONLY_NATIVE])
def test_a_grammar_is_refused_at_its_place(
    text: str, line: int, column: int, words: str, starter: Weights
) -> None:
    found = checked_grammar(CheckGrammar(1, grammar=text), starter.vocabulary)
    assert (found.line, found.column) == (line, column), found.sentence
    assert words in found.sentence
    assert bool(found.sentence) == bool(line or words)


@pytest.mark.weights
@pytest.mark.parametrize(("text", "line", "column", "words"), SCHEMAS)
def test_a_schema_is_refused_at_its_place(
    text: str, line: int, column: int, words: str, starter: Weights
) -> None:
    found = checked_grammar(CheckGrammar(1, json_schema=text), starter.vocabulary)
    assert (found.line, found.column) == (line, column)
    assert words in found.sentence


@pytest.mark.weights
def test_what_a_schema_s_grammar_does_not_hold_is_noted(starter: Weights) -> None:
    schema = '{"type": "integer", "minimum": 3}'
    found = checked_grammar(CheckGrammar(1, json_schema=schema), starter.vocabulary)
    assert found.sentence == ""
    assert "“minimum”" in found.notes[0]


@pytest.mark.parametrize(("text", "line", "column", "words"), GBNF)
def test_the_scripted_engine_finds_some_at_the_same_places(
    text: str, line: int, column: int, words: str
) -> None:
    found = scripted_check(CheckGrammar(1, grammar=text))
    assert (found.line, found.column) == (line, column)
    assert words in found.sentence


@pytest.mark.parametrize(("text", "line", "column", "words"), SCHEMAS)
def test_the_scripted_engine_reads_json(text: str, line: int, column: int, words: str) -> None:
    found = scripted_check(CheckGrammar(1, json_schema=text))
    assert (found.line, found.column, words in found.sentence) == (line, column, True)
    assert isinstance(found, GrammarChecked)
