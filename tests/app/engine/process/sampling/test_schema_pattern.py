r"""A schema's `pattern`: JSON texts whose decoded string fits it, by Python's `re`.

Python reads `$` and `\s` otherwise than ECMAScript, so it is asked with `\Z` and ASCII. The rules
are read here by a reader of their own, and by llama.cpp."""

from __future__ import annotations

import json
import random
import re
import time
from collections.abc import Iterator
from functools import cache

import numpy as np
import pytest
from examples import examples
from gguf_writer import bpe_vocabulary, tiny_llama
from hypothesis import HealthCheck, assume, given, settings, strategies as st
from native_session import load_quietly

from app.engine.process.native.native import NativeLog
from app.engine.process.native.weights import Weights
from app.engine.process.sampling.candidates import Candidates
from app.engine.process.sampling.grammar import Grammar, grammar_text, new_grammar, schema_notes
from app.engine.process.sampling.schema_grammar import MAX_COUNT
from app.engine.process.sampling.schema_pattern import NotHeld, rules_of
from app.engine.protocol.bounds import BadSetting


def expected(pattern: str, text: str) -> bool:
    return re.search(re.sub(r"(?<!\\)\$", r"\\Z", pattern), text, re.ASCII) is not None


# --- a reader of the rules ------------------------------------------------------------------------


@cache
def sign(token: str) -> re.Pattern[str]:
    if token.startswith("["):
        return re.compile(token)
    return re.compile(re.escape(json.loads(token)))


def fits(rules: dict[str, str], text: str) -> bool:
    """Whether the rules write exactly this text (without the space that may follow)."""
    todo, seen = [("pattern", 0)], set()
    while todo:
        name, at = todo.pop()
        if name == "space":
            if at == len(text):
                return True
            continue
        for way in rules[name].split(" | "):
            *signs, last = way.split(" ")
            for end in after(rules, signs, text, at):
                if (last, end) not in seen:
                    seen.add((last, end))
                    todo.append((last, end))
    return False


def after(rules: dict[str, str], signs: list[str], text: str, at: int) -> list[int]:
    ends = [at]
    for token in signs:
        if token in rules:
            ways = [way.split(" ") for way in rules[token].split(" | ")]
            ends = [end for at in ends for way in ways for end in after(rules, way, text, at)]
        else:
            matches = [sign(token).match(text, at) for at in ends]
            ends = [match.end() for match in matches if match]
    return ends


def json_of(text: str) -> str:
    """As `rules_of` writes it: one way for each character."""
    return json.dumps(text, ensure_ascii=False)


LETTERS = 'ab1"\\\n\té🙂- _/'
PIECES = [
    "a", "b", "1", '"', r"\\", r"\n", r"\t", "é", "🙂", r"\-", r"\/", r"\d", r"\D", r"\w", r"\W",
    r"\s", r"\S", ".", "[ab]", "[^a]", r"[^\n\"]", r"[\w-]", r"[^\s]", r"[^\d\\]", "[a-é]", r"\x61",
    "\\u0062",
]  # fmt: skip
patterns = st.recursive(
    st.sampled_from(PIECES),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map("".join),
        st.lists(inner, min_size=2, max_size=3).map(lambda parts: f"(?:{'|'.join(parts)})"),
        st.tuples(inner, st.sampled_from(["*", "+", "?", "{2}", "{0,2}", "{1,3}", "{2,}", "*?"]))
        .map(lambda both: f"({both[0]}){both[1]}"),
    ),
    max_leaves=8,
)  # fmt: skip
anchored = st.tuples(st.sampled_from(["", "^"]), patterns, st.sampled_from(["", "$"])).map("".join)
whole = st.lists(anchored, min_size=1, max_size=2).map("|".join)


@settings(max_examples=examples(600), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(pattern=whole, texts=st.lists(st.text(LETTERS, max_size=6), min_size=8, max_size=8))
def test_what_fits_is_what_python_says(pattern: str, texts: list[str]) -> None:
    rules = rules_of(pattern, "pattern")
    for text in texts:
        assert fits(rules, json_of(text)) == expected(pattern, text), (pattern, text)


@settings(max_examples=examples(200), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data(), pattern=whole)
def test_what_python_makes_up_fits(data: st.DataObject, pattern: str) -> None:
    letters = st.characters(codec="utf-8", exclude_characters="\r\u2028\u2029\x1c\x1d\x1e\x1f\x85")
    text = data.draw(st.from_regex(re.compile(pattern, re.ASCII), alphabet=letters))
    assume(expected(pattern, text))
    assume(not re.search(r"[^\S \t\n\v\f\r]", text))  # what only some take for space
    assert fits(rules_of(pattern, "pattern"), json_of(text))


def test_every_character_that_is_written_is_the_one_that_is_meant() -> None:
    rules = rules_of("^[^é]$", "pattern")
    for number in [*range(0x200), 0x2028, 0xD7FF, 0xE000, 0xFFFF, 0x10000, 0x10FFFF]:
        text = json.dumps(chr(number), ensure_ascii=False)
        assert fits(rules, text) == (chr(number) != "é")
    assert not fits(rules, '"\n"')
    assert not fits(rules, '"""')


# --- llama.cpp ------------------------------------------------------------------------------------

NATIVE = [
    r"^\d+$", r"^[\w-]+$", r"^\w+\/\w+$", "^.{3}$", "^a\\nb$", '^"x"$', "^a|b$", r"^a\\b$",
    r"^(a*)*(b?)*$", r"^[^@\s]+@[^@\s]+\.[a-z]{2,}$", "^.{1,150}$", r"b\n", "", r"^\s*$",
    r"^(?:[01]\d|2[0-3]):[0-5]\d$", "^[^\"\\\\]+$", "(^|x)a($|y)",
]  # fmt: skip
TEXTS = [
    "", "a", "b", "ab", "ba", "abc", "7", "123", "a-b", "a/b", "a\nb", 'a"b', '"x"', "x", "a\\b",
    "a\\", 'a\\"', "é🙂1", "x@y.de", "x@y", "a" * 150, "a" * 151, "b\n", " \t", "23:59", "24:00",
    "xa", "xay", "za",
]  # fmt: skip


def schema(pattern: str) -> str:
    part = {"type": "string", "pattern": pattern}
    whole = {"type": "object", "properties": {"p": part}, "required": ["p"]}
    return json.dumps(whole | {"additionalProperties": False})


@pytest.mark.weights
@pytest.mark.parametrize("pattern", NATIVE)
def test_llama_cpp_takes_the_texts_that_fit_and_no_others(pattern: str, starter: Weights) -> None:
    """N03, N04."""
    assert schema_notes(schema(pattern)) == ()
    begun = new_grammar("", schema(pattern), starter.vocabulary)
    assert begun is not None
    for text in TEXTS:
        grammar = begun.clone()
        ids = starter.vocabulary.tokenize(json.dumps({"p": text}, ensure_ascii=False))
        taken = all(grammar.allows(i) and not grammar.accept(i) for i in ids)  # type: ignore[func-returns-value]
        assert (taken and grammar.allows(starter.vocabulary.eos_id or 0)) == expected(pattern, text)
        grammar.close()
    begun.close()


WORDS = ['"a"', '"x"', 'ab"', '":', ': "', '{"p', '"}', r"\n\"", r"a\nb", r"\\\\", r"\u0061", "é🙂"]


@pytest.fixture(scope="module")
def made_of_json(
    native_log: NativeLog, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Weights]:
    """Quotes, escapes and letters in one token, as a real file has them, and few tokens."""
    path = tmp_path_factory.mktemp("json") / "json.gguf"
    tiny_llama(path, vocabulary=bpe_vocabulary(WORDS))
    weights = load_quietly(path, native_log, n_ctx=256, n_threads=1)
    yield weights
    weights.close()


@pytest.mark.weights
@pytest.mark.parametrize("file", ["made_of_json", pytest.param("starter", marks=pytest.mark.soak)])
@pytest.mark.parametrize(
    "pattern", ["^.{3}$", "^a\\nb$", '^"x"$', "^a|b$", r"^a\\b$", r"^\D{1,4}$"]
)
def test_whatever_llama_cpp_writes_decodes_to_what_fits(
    pattern: str, file: str, request: pytest.FixtureRequest
) -> None:
    """N04: tokens at random, as weights that know nothing would choose them."""
    draw = random.Random(pattern)
    vocabulary = request.getfixturevalue(file).vocabulary
    candidates = Candidates(vocabulary.n_vocab)
    for _ in range(4):
        grammar = new_grammar("", schema(pattern), vocabulary)
        assert grammar is not None
        written = b""
        while not (written and grammar.allows(vocabulary.eos_id or 0)):
            candidates.fill(np.zeros(vocabulary.n_vocab, np.float32))
            grammar.mask(candidates)
            allowed = np.flatnonzero(candidates.view["logit"] == 0)
            ids = candidates.view["id"][allowed].tolist()
            ending = [i for end in (b'"', b"b", b"}") for i in ids if vocabulary.piece(i) == end]
            token_id = ending[0] if ending and len(written) > 20 else draw.choice(ids)
            grammar.accept(token_id)
            written += vocabulary.piece(token_id)
        grammar.close()
        assert expected(pattern, json.loads(written)["p"]), written


# --- what is not held -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "pattern",
    [
        "(?=a)b", "(?!a)", "(?<=a)", "(a)\\1", "\\p{L}+", "\\ba", "a\\B", "a\\Z", "(?i)a", "[]a]",
        "[[a]", "a{,3}", "a**", "^*a", "[a-\\d]", "\\ud83d", "^a.{20000}$", "a.{20}$",
        "\\u{110000}", "(" * 200 + ")" * 200, "\\01", "(((a{99}){99}){99}){99}",
    ],
)  # fmt: skip
def test_what_is_not_held_is_named(pattern: str) -> None:
    text = json.dumps({"type": "string", "pattern": pattern, "maxLength": 3, "format": "x"})
    (note,) = schema_notes(text)
    assert "“pattern” and “format” at #, so" in note
    assert "char{0,3}" in grammar_text("", text)
    with pytest.raises(NotHeld):
        rules_of(pattern, "pattern")


@pytest.mark.parametrize("pattern", ["(a", "a)", "[a", "*a", "a{3,2}", "a\\", "[b-a]", "a^b", "$a"])
def test_what_is_no_pattern_or_fits_nothing_is_refused(pattern: str) -> None:
    with pytest.raises(BadSetting, match="can't be converted to a grammar: "):
        grammar_text("", json.dumps({"type": "string", "pattern": pattern}))


def test_many_long_patterns_are_named_from_where_there_is_no_room() -> None:
    properties = {f"p{i}": {"type": "string", "pattern": f"^a{i}.{{900}}$"} for i in range(20)}
    text = json.dumps({"type": "object", "properties": properties})
    assert 5 < len(grammar_text("", text)) / 20_000 < 10
    assert "“pattern” at #/properties/p" in schema_notes(text)[0]


def test_names_of_patterns_are_no_names_of_parts() -> None:
    first = {"type": "object", "properties": {"0": {"type": "integer"}}}
    parts = {"pattern-1": first, "x": {"type": "string", "pattern": "^ab$"}}
    text = grammar_text("", json.dumps({"type": "object", "properties": parts}))
    assert "pattern-1-p-1 ::= [b] pattern-1-p-2" in text.splitlines()


def test_equal_patterns_have_one_rule() -> None:
    part = {"type": "string", "pattern": "^ab$"}
    text = grammar_text("", json.dumps({"type": "array", "items": {"anyOf": [part, part]}}))
    assert text.count("[a]") == 1


# --- counts ---------------------------------------------------------------------------------------

COUNTS = [(0, 120), (120, 120), (1, 150), (100, None), (0, 2000), (0, 2001), (1999, 4500),
          (2001, 2001), (3000, None), (0, 0), (0, 1), (2500, 4100),
          pytest.param(0, 10_000, marks=pytest.mark.soak),
          pytest.param(5000, 8000, marks=pytest.mark.soak)]  # fmt: skip


@pytest.mark.weights
@pytest.mark.parametrize(("low", "high"), COUNTS)
@pytest.mark.parametrize("kind", ["string", "array"])
def test_counts_are_held_whatever_their_size(
    kind: str, low: int, high: int | None, starter: Weights
) -> None:
    """N05, and beyond the 2,000 to which llama.cpp counts."""
    names = ("minLength", "maxLength") if kind == "string" else ("minItems", "maxItems")
    part: dict[str, object] = {"type": kind, names[0]: low}
    part |= {} if high is None else {names[1]: high}
    part |= {"items": {"const": 1}} if kind == "array" else {}
    begun = new_grammar("", json.dumps(part), starter.vocabulary)
    assert begun is not None
    assert schema_notes(json.dumps(part)) == ()
    tried = {low - 1, low, low + 1, (low + (high or low)) // 2, 2000, 2001, 3999, 4000}
    tried |= {high - 1, high, high + 1} if high is not None else {low + 2500}
    first, each, last = ('"', "a", '"') if kind == "string" else ("[", ",1", "]")

    def takes(grammar: Grammar, text: str) -> bool:
        ids = starter.vocabulary.tokenize(text)
        return all(grammar.allows(i) and not grammar.accept(i) for i in ids)  # type: ignore[func-returns-value]

    taken, written = takes(begun, first), 0
    for count in sorted(number for number in tried if number >= 0):
        more = each * (count - written)
        taken = taken and takes(begun, more if written else more.removeprefix(","))
        written = count
        ended = begun.clone()
        is_whole = taken and takes(ended, last) and ended.allows(starter.vocabulary.eos_id or 0)
        assert is_whole == (low <= count <= (count if high is None else high)), count
        ended.close()
    begun.close()


def test_a_count_beyond_any_context_is_named() -> None:
    part = {"type": "string", "maxLength": MAX_COUNT + 1}
    assert "“maxLength” at #, so" in schema_notes(json.dumps(part))[0]
    assert grammar_text("", json.dumps({"type": "string", "maxLength": MAX_COUNT}))


SLOW = ["(" + "a?" * 500 + "){9}", "(a|b|" * 90 + "c" + ")*" * 90, "[" + "a-z" * 5000 + "]{300}",
        "".join(map(chr, range(0x4E00, 0x5A00))), ".*" * 400 + "a", "((a{1,9}){1,9}){1,9}",
        "(.{0,30}|[^a]{0,30}b){0,20}$", "[a\\" * 3000]  # fmt: skip


@pytest.mark.parametrize("pattern", SLOW, ids=range(len(SLOW)))
def test_no_pattern_takes_long(pattern: str) -> None:
    began = time.process_time()
    try:
        grammar_text("", json.dumps({"type": "string", "pattern": pattern}))
    except BadSetting as refused:
        assert refused.sentence  # noqa: PT017
    assert time.process_time() - began < 20
