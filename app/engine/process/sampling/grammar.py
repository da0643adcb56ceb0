"""Grammars: what a reply must look like, as GBNF or as a JSON schema.

llama.cpp's grammar sampler holds the state; this file keeps it from everything that would end the
process. What must hold:

* The text is bounded in size, nesting, repetitions, depth and branching before native code parses
  it.
* Only a token that the grammar allows is accepted: any other one ends in an uncaught C++
  exception ("Unexpected empty grammar stack").
* Testing one token costs microseconds, the whole vocabulary 7 to 95 ms and, where a grammar is
  ambiguous, minutes. So the vocabulary is masked in pieces, and one that takes too long ends
  the reply (`GrammarTooSlow`), not the engine.

Parse errors come only as text on stderr: `_parse` reads it there.
"""

from __future__ import annotations

import ctypes
import json
import os
import re
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from app.engine.process.native import native
from app.engine.process.native.native import llama
from app.engine.process.sampling.candidates import Candidates
from app.engine.process.sampling.grammar_limits import (
    MAX_DEPTH,
    MAX_ELEMENTS,
    MAX_NESTING,
    MAX_REPETITION,
    MAX_WAYS,
    beginnings_of,
    shape_of,
)
from app.engine.protocol.bounds import BadSetting, check_text
from app.engine.protocol.messages import MAX_GRAMMAR_BYTES, CheckGrammar, GrammarChecked
from app.refusal import Refusal

if TYPE_CHECKING:
    from app.engine.process.native.vocabulary import Vocabulary
    from app.engine.process.sampling.schema_grammar import Converted

MAX_SCHEMA_DEPTH: Final = 32
_ROOT: Final = b"root"
_LIMIT_S: Final = 1.5
"""Below the two seconds after which an engine that does not react to Stop is ended."""

_PIECE: Final = 256

TOO_SLOW: Final = (
    "The grammar is too ambiguous: checking which tokens it allows takes too long. Rewrite it so "
    "that the next character decides which rule applies."
)


class GrammarTooSlow(Refusal):
    """Finding what the grammar allows takes too long."""

    def __init__(self) -> None:
        super().__init__("bad_setting", TOO_SLOW, "grammar")


class Grammar:
    """The state of one reply in its grammar. Close it, or give it to a `Chain` that does."""

    def __init__(self, sampler: Any, clock: Callable[[], float] = time.perf_counter) -> None:
        self._native = sampler
        self._clock = clock
        self._one = (llama.llama_token_data * 1)()
        self._array = llama.llama_token_data_array(data=self._one, size=1, selected=-1)
        self._reference = ctypes.byref(self._array)

    def allows(self, token_id: int) -> bool:
        """Whether the token may come next."""
        self._one[0].id, self._one[0].logit = token_id, 1.0
        began = self._clock()
        llama.llama_sampler_apply(self._native, self._reference)
        if self._clock() - began > _LIMIT_S:
            raise GrammarTooSlow
        return bool(self._one[0].logit > -np.inf)

    def mask(self, candidates: Candidates) -> None:
        """Set what may not come next to −inf. Each candidate is judged by itself, so judging them
        piece by piece gives the same as all at once."""
        size, address = int(candidates.native.size), candidates.address
        piece = llama.llama_token_data_array(selected=-1)
        began = self._clock()
        for start in range(0, size, _PIECE):
            piece.data = ctypes.cast(address + start * 12, llama.llama_token_data_p)
            piece.size = min(_PIECE, size - start)
            llama.llama_sampler_apply(self._native, ctypes.byref(piece))
            if self._clock() - began > _LIMIT_S:
                raise GrammarTooSlow

    def accept(self, token_id: int) -> None:
        """The token becomes part of the reply; `allows` must have said yes."""
        began = self._clock()
        llama.llama_sampler_accept(self._native, token_id)
        if self._clock() - began > _LIMIT_S:
            raise GrammarTooSlow

    def clone(self) -> Grammar:
        return Grammar(llama.llama_sampler_clone(self._native), self._clock)

    def close(self) -> None:
        if self._native:
            llama.llama_sampler_free(self._native)
            self._native = None


# --- from text ------------------------------------------------------------------------------------


def check_grammar(grammar: object, json_schema: object, vocabulary: Vocabulary | None) -> None:
    """Raise BadSetting where the grammar or the schema cannot be used. Without a vocabulary only
    its size and shape are looked at."""
    text = grammar_text(grammar, json_schema)
    if text and vocabulary is not None:
        Grammar(_parse(text, vocabulary, _field(json_schema))).close()


def checked_grammar(command: CheckGrammar, vocabulary: Vocabulary) -> GrammarChecked:
    """The answer to `CheckGrammar`, about one that is being written."""
    try:
        check_grammar(command.grammar, command.json_schema, vocabulary)
    except BadSetting as refused:
        line, column = refused.place or (0, 0)
        return GrammarChecked(refused.sentence, line, column)
    return GrammarChecked(notes=list(schema_notes(command.json_schema)))


def new_grammar(grammar: str, json_schema: str, vocabulary: Vocabulary) -> Grammar | None:
    """The grammar of a request at its beginning, or None if it has none. Raises BadSetting."""
    text = grammar_text(grammar, json_schema)
    return Grammar(_parse(text, vocabulary, _field(json_schema))) if text else None


def is_sound(text: str) -> bool:
    """Whether native code may be given this grammar."""
    return not _shape_problem(text)[0]


def grammar_of(text: str, vocabulary: Vocabulary) -> Grammar:
    """The state at the beginning of a grammar that is sound. Raises BadSetting."""
    return Grammar(_parse(text, vocabulary, "grammar"))


def grammar_text(grammar: object, json_schema: object) -> str:
    """The GBNF of a request within its bounds, or "". Raises BadSetting."""
    if grammar != "" and json_schema != "":
        raise BadSetting("json_schema", "Use either a grammar or a JSON schema, not both.")
    if json_schema != "":
        check_text(json_schema, "The JSON schema", "json_schema", most=MAX_GRAMMAR_BYTES)
        text = schema_to_gbnf(str(json_schema))
        _check_shape(text, "The grammar of this JSON schema", "json_schema")
        return text
    check_text(grammar, "The grammar", "grammar", most=MAX_GRAMMAR_BYTES, least=0)
    if grammar != "":
        _check_shape(str(grammar), "The grammar", "grammar")
    return str(grammar)


def _field(json_schema: object) -> str:
    return "json_schema" if json_schema else "grammar"


def _check_shape(text: str, label: str, field: str) -> None:
    check_text(text, label, field, most=4 * MAX_GRAMMAR_BYTES)
    problem, rule_at = _shape_problem(text)
    if problem:
        place = _line_and_column(text, rule_at) if rule_at >= 0 else None
        raise BadSetting(field, f"{label} {problem}.", None if field == "json_schema" else place)


@lru_cache(maxsize=4)
def _shape_problem(text: str) -> tuple[str, int]:
    """What is wrong with the shape, as words that follow "The grammar", or ""; and where the rule
    that it is about is defined, or -1. A grammar is looked at several times on its way, and a
    large one takes 0.1 s."""
    shape = shape_of(text)
    if shape.nesting > MAX_NESTING:
        return f"nests brackets more than {MAX_NESTING} levels deep", -1
    if shape.bad_repetition:
        words = (
            f"has an invalid repetition, {shown_words(shape.bad_repetition)}: the second number "
            "must not be below the first, and both must be small"
        )
        return words, -1
    if shape.large_repetition:
        words = (
            f"has the repetition {shown_words(shape.large_repetition)}, but llama.cpp allows at "
            f"most {MAX_REPETITION:,}. Use smaller numbers, or omit the second one for no limit"
        )
        return words, -1
    if shape.elements > MAX_ELEMENTS:
        return "is too large once its repetitions are expanded. Make them smaller", -1
    found = beginnings_of(shape)
    if found.growing:
        words = f"{_left_recursion(found.growing)}. Start it with something that is never empty"
        return words, shape.places[found.growing]
    if found.depth > MAX_DEPTH:
        return f"has a chain of more than {MAX_DEPTH:,} rules that start with each other", -1
    if found.ways > MAX_WAYS:
        words = f"is too ambiguous: one of its rules can start in more than {MAX_WAYS:,} ways"
        return words, -1
    return "", -1


def _left_recursion(rule: str) -> str:
    return (
        f"has a rule, “{shown_words(rule)}”, that can start with itself (left recursion), which "
        "llama.cpp doesn't support"
    )


def _parse(text: str, vocabulary: Vocabulary, field: str) -> Any:
    """The native grammar sampler of `text`, or BadSetting with what llama.cpp printed about it."""
    with _captured_stderr() as printed:
        sampler = llama.llama_sampler_init_grammar(vocabulary.handle, text.encode(), _ROOT)
    if sampler:
        return sampler
    label = "The JSON schema produces a grammar that" if field == "json_schema" else "The grammar"
    words, place = _reason(text, printed[0])
    # A grammar that was made from a schema is nothing that anybody could look into.
    raise BadSetting(field, f"{label} {words}.", None if field == "json_schema" else place)


def _reason(text: str, printed: str) -> tuple[str, tuple[int, int] | None]:
    """llama.cpp's complaint as words that follow "The grammar", and its line and column."""
    # "error parsing grammar: <complaint> at <the rest of the text>", an empty line, the text.
    _, is_complaint, found = printed.partition("error parsing grammar: ")
    if not is_complaint:
        if re.search(r"^\s*root\s*::=", text, re.MULTILINE) is None:
            return "has no rule named “root”", None
        return _without_end(text)
    message, at, rest = found[: found.rfind(f"\n\n{text}\n")].partition(" at ")
    place = len(text) - len(rest) if at and text.endswith(rest) else _place_of(message, text)
    if place is None:
        return f"has an error: {shown_words(message)}", None
    line, column = _line_and_column(text, place)
    words = f"has an error at line {line}, column {column}: {shown_words(message)}"
    return words, (line, column)


def _without_end(text: str) -> tuple[str, tuple[int, int] | None]:
    """What llama.cpp takes for left recursion, and says nothing about."""
    shape = shape_of(text)
    found = beginnings_of(shape)
    if found.circular:
        words = _left_recursion(found.circular)
    elif found.idle:
        words = (
            f"repeats something that can be empty, in the rule “{shown_words(found.idle)}”, "
            "which llama.cpp can't handle"
        )
    else:
        return "isn't supported by llama.cpp", None
    return words, _line_and_column(text, shape.places[found.circular or found.idle])


def _line_and_column(text: str, place: int) -> tuple[int, int]:
    """Both from 1."""
    return text.count("\n", 0, place) + 1, place - text.rfind("\n", 0, place)


def _place_of(message: str, text: str) -> int | None:
    """Where the rule is used that does not exist, or the end that came too early; None for other
    complaints without a place."""
    if "end of input" in message:
        return len(text)
    named = re.search(r"Undefined rule identifier '(.*?)'", message)
    used = re.search(rf"(?<![\w-]){re.escape(named[1])}(?![\w-])", text) if named else None
    return used.start() if used else None


def shown_words(message: str) -> str:
    message = " ".join(message.split())
    return message if len(message) <= 100 else message[:100] + "…"


_stderr_lock = threading.Lock()


@contextmanager
def _captured_stderr() -> Iterator[list[str]]:
    """What is printed to file descriptor 2 meanwhile, as the one entry of the list.

    The parser prints with fprintf, past llama.cpp's log. What other threads print in these
    microseconds lands here too; it is printed again unless the parser complained as well. Where
    the parser ends the process, its last words go where they belong: they say why.
    """
    printed = [""]
    with _stderr_lock, tempfile.TemporaryFile() as file:
        sys.stderr.flush()
        kept = os.dup(2)
        with native.before_terminate(lambda: os.dup2(kept, 2)):
            os.dup2(file.fileno(), 2)
            try:
                yield printed
            finally:
                os.dup2(kept, 2)
                os.close(kept)
        file.seek(0)
        data = file.read()
        printed[0] = data.decode("utf-8", "replace")
        if data and b"error parsing grammar" not in data:
            os.write(2, data)


# --- from a JSON schema ---------------------------------------------------------------------------


def schema_to_gbnf(schema: str) -> str:
    """The grammar of the JSON texts that fit `schema`. Raises BadSetting."""
    converted, problem = _converted(schema)
    if problem is not None:
        raise problem
    return converted.text


def schema_notes(schema: str) -> tuple[str, ...]:
    """What of a schema that can be used its grammar does not hold: a sentence for each place."""
    return _converted(schema)[0].notes if schema else ()


@lru_cache(maxsize=4)
def _converted(schema: str) -> tuple[Converted, BadSetting | None]:
    """The grammar, or what is wrong with the schema. Both are remembered: a large schema takes a
    second, and the thread that decodes asks again."""
    try:
        data = json.loads(schema)
    except (ValueError, RecursionError) as error:
        words = str(error) if isinstance(error, json.JSONDecodeError) else "nested too deeply"
        place = (error.lineno, error.colno) if isinstance(error, json.JSONDecodeError) else None
        return _no_schema(f"The JSON schema isn't valid JSON: {words}.", place)
    if not isinstance(data, dict):
        return _no_schema("The JSON schema must be an object, like {…}.")
    if _depth(data) > MAX_SCHEMA_DEPTH:
        return _no_schema(f"The JSON schema is nested more than {MAX_SCHEMA_DEPTH} levels deep.")
    try:
        from app.engine.process.sampling.schema_grammar import convert  # few replies have one

        return convert(data), None
    except BadSetting as error:
        return _no_schema(error.sentence)


def _no_schema(sentence: str, place: tuple[int, int] | None = None) -> tuple[Converted, BadSetting]:
    from app.engine.process.sampling.schema_grammar import Converted

    return Converted(""), BadSetting("json_schema", sentence, place)


def _depth(value: object) -> int:
    """How deep objects and lists nest, without recursion."""
    deepest, todo = 0, [(value, 1)]
    while todo:
        part, depth = todo.pop()
        if isinstance(part, dict | list):
            deepest = max(deepest, depth)
            inner = part.values() if isinstance(part, dict) else part
            todo += [(child, depth + 1) for child in inner]
    return deepest
