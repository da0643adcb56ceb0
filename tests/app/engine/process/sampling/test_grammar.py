"""Grammars against llama.cpp's own way (draw, test, redraw), and what native code must not see."""

from __future__ import annotations

import json
import math
from contextlib import suppress
from typing import Any

import numpy as np
import pytest
from native_chains import Array, native_chain
from native_session import NativeSession

from app.engine.process.native.native import Batch, NativeLog, llama
from app.engine.process.native.weights import Weights
from app.engine.process.sampling import schema_grammar
from app.engine.process.sampling.candidates import Candidates
from app.engine.process.sampling.chain import Chain, NoCandidate
from app.engine.process.sampling.grammar import (
    Grammar,
    GrammarTooSlow,
    check_grammar,
    grammar_text,
    new_grammar,
    schema_to_gbnf,
)
from app.engine.process.sampling.grammar_limits import (
    MAX_NESTING,
    MAX_WAYS,
    beginnings_of,
    shape_of,
)
from app.engine.process.sampling.schema_grammar import convert
from app.engine.process.trace.scores import scores_of
from app.engine.protocol.bounds import BadSetting
from app.engine.protocol.messages import MAX_GRAMMAR_BYTES, Failed, Finished, Held, Note, Summary
from app.engine.protocol.stages import Dist, Greedy, Penalties, Sampling, Temperature, TopK

pytestmark = pytest.mark.weights

SCHEMA = json.dumps(
    {
        "type": "object",
        "properties": {
            "name": {"type": "string", "maxLength": 12},
            "age": {"type": "integer"},
            "tags": {"type": "array", "items": {"enum": ["red", "green"]}, "maxItems": 3},
        },
        "required": ["name", "age", "tags"],
        "additionalProperties": False,
    }
)

GRAMMARS = {
    "choice": 'root ::= " yes" | " no" | " perhaps, " [a-z]+ "."',
    "numbers": 'root ::= ([0-9]{1,3} " ")+ "end"',
    "verse": 'root ::= line line line\nline ::= [A-Z] [a-z ,]* "\\n"',
    "other letters": "root ::= [а-яё🙂 ]+ [!]",
    "json": schema_to_gbnf(SCHEMA),
}


def bare_reply(
    weights: Weights, prompt: list[int], sampling: Sampling, gbnf: str, most: int
) -> tuple[list[int], int]:
    """The reply as llama.cpp's server would write it; and how often a token was refused."""
    vocabulary = llama.llama_model_get_vocab(weights.model)
    grammar = llama.llama_sampler_init_grammar(vocabulary, gbnf.encode(), b"root")
    chain = native_chain(sampling, weights, prompt)
    llama.llama_memory_clear(weights.memory, True)
    batch, tokens, position = Batch(64, 1), prompt, 0
    written: list[int] = []
    refused = 0
    while len(written) < most:
        batch.clear()
        row = batch.add(tokens, position, 0, want_scores=True)
        position += len(tokens)
        assert llama.llama_decode(weights.context, batch.native) == 0
        scores = scores_of(weights.context, row, weights.vocabulary.n_vocab)
        drawn = Array(scores)
        drawn.apply(chain)
        token_id = drawn.selected
        one = Array(np.ones(1, np.float32))
        one.data["id"] = token_id
        one.apply(grammar)
        if one.data["logit"][0] == -math.inf:
            refused += 1
            again = Array(scores)
            again.apply(grammar)
            again.apply(chain)
            token_id = again.selected
        if llama.llama_vocab_is_eog(vocabulary, token_id):
            break
        llama.llama_sampler_accept(grammar, token_id)
        llama.llama_sampler_accept(chain, token_id)
        written.append(token_id)
        tokens = [token_id]
    llama.llama_sampler_free(grammar)
    llama.llama_sampler_free(chain)
    return written, refused


CHAINS = [
    Sampling([Penalties(64, 1.1), TopK(40), Temperature(0.9)], Dist(), seed=3),
    Sampling([Temperature(1.3)], Dist(), seed=4),
    Sampling([], Greedy(), seed=0),
]


@pytest.mark.parametrize(
    ("file", "name", "chains"),
    [
        *(("made", name, [0, 1, 2]) for name in GRAMMARS),
        ("starter", "choice", [0]),
        *(pytest.param("starter", name, [0, 1, 2], marks=pytest.mark.soak) for name in GRAMMARS),
    ],
)
def test_replies_equal_llama_cpps_own_way(
    file: str,
    name: str,
    chains: list[int],
    request: pytest.FixtureRequest,
    native_log: NativeLog,
) -> None:
    weights: Weights = request.getfixturevalue(file)
    session = NativeSession(weights, native_log)
    prompt = weights.vocabulary.tokenize("Question: is it so?\nAnswer:")
    refusals = 0
    for sampling in (CHAINS[at] for at in chains):
        with_grammar = Sampling(
            sampling.filters, sampling.select, seed=sampling.seed, grammar=GRAMMARS[name]
        )
        request_id = session.add(prompt, with_grammar, max_tokens=20, reuse_prefix=False)
        session.run()
        ending = session.ending(request_id)
        assert isinstance(ending, Finished), ending
        assert isinstance(ending.result, Summary)
        theirs, refused = bare_reply(weights, prompt, sampling, GRAMMARS[name], 20)
        for slot in session.scheduler._slots:
            slot.cells.clear()
        assert ending.result.token_ids == theirs
        refusals += refused
    assert refusals > 0


def test_json_schema_gives_json_that_fits(made_session: NativeSession, made: Weights) -> None:
    """No escaping, no reading past the end: the reply ends where its grammar is complete."""
    prompt = made.vocabulary.tokenize("Bob's data as JSON:")
    for seed in range(3):
        summary = made_session.reply(prompt, Sampling(seed=seed, json_schema=SCHEMA), max_tokens=80)
        if summary.stop_reason != "end_token":
            assert summary.stop_reason == "max_tokens"
            continue
        data = json.loads(summary.text)
        assert set(data) == {"name", "age", "tags"}
        assert isinstance(data["age"], int)


def test_complete_grammar_ends_the_reply_even_if_end_tokens_are_banned(
    session: NativeSession, starter: Weights
) -> None:
    prompt = starter.vocabulary.tokenize("Yes or no?")
    for fields in ({}, {"ban_end_token": True}, {"min_tokens": 50}):
        sampling = Sampling(seed=1, grammar='root ::= "yes" | "no"', **fields)
        summary = session.reply(prompt, sampling, max_tokens=30)
        assert summary.text in ("yes", "no")
        assert summary.stop_reason == "end_token"


def test_constants_with_backslashes_stay_what_they_are(starter: Weights) -> None:
    constant = 'a\n"b\\c'
    grammar = new_grammar("", json.dumps({"const": constant}), starter.vocabulary)
    assert grammar is not None
    for token_id in starter.vocabulary.tokenize(json.dumps(constant)):
        assert grammar.allows(token_id)
        grammar.accept(token_id)
    assert grammar.allows(starter.vocabulary.eos_id or 0)
    grammar.close()


NODE = {"type": "object", "properties": {"c": {"type": "array", "items": {}}}, "required": ["c"]}


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        (
            NODE | {"properties": {"c": {"type": "array", "items": {"$ref": "#"}}}},
            '{"c":[{"c":[]}]}',
        ),
        ({"$ref": "#/$defs/tree_node"}, '{"c":[{"c":[]}]}'),
        ({"type": "array", "items": {"$ref": "#/$defs/string"}}, "[7]"),
        ({"type": "array", "items": {"$ref": "#/$defs/a~1b%20c"}}, "[true]"),
        ({"type": "array", "items": {"$ref": "#/$defs/list/0"}}, "[null]"),
        ({"const": "日本 é"}, '"日本 é"'),
        ({"type": "object", "properties": {"größe": {"type": "integer"}}}, '{"größe":1}'),
    ],
)
def test_schemas_refer_to_their_parts_and_keep_their_letters(
    schema: dict[str, Any], text: str, starter: Weights
) -> None:
    """What a data class's schema looks like: definitions that refer to themselves."""
    node = NODE | {"properties": {"c": {"type": "array", "items": {"$ref": "#/$defs/tree_node"}}}}
    defs = {
        "tree_node": node,
        "string": {"type": "integer"},
        "a/b c": {"type": "boolean"},
        "list": [{"type": "null"}],
    }
    grammar = new_grammar("", json.dumps(schema | {"$defs": defs}), starter.vocabulary)
    assert grammar is not None
    for token_id in starter.vocabulary.tokenize(text):
        assert grammar.allows(token_id)
        grammar.accept(token_id)
    assert grammar.allows(starter.vocabulary.eos_id or 0)
    grammar.close()


def test_masking_in_pieces_equals_masking_at_once(starter: Weights) -> None:
    n_vocab = starter.vocabulary.n_vocab
    vocabulary = llama.llama_model_get_vocab(starter.model)
    for gbnf in GRAMMARS.values():
        grammar = new_grammar(gbnf, "", starter.vocabulary)
        native = llama.llama_sampler_init_grammar(vocabulary, gbnf.encode(), b"root")
        assert grammar is not None
        candidates, at_once = Candidates(n_vocab), Array(np.zeros(n_vocab, np.float32))
        candidates.fill(np.zeros(n_vocab, np.float32))
        grammar.mask(candidates)
        at_once.apply(native)
        assert (candidates.view["logit"] == at_once.data["logit"]).all()
        llama.llama_sampler_free(native)
        grammar.close()


def test_a_clone_goes_its_own_way(starter: Weights) -> None:
    a, b, c = (starter.vocabulary.tokenize(letter)[0] for letter in "abc")
    grammar = new_grammar('root ::= "a" ("b" | "c") "a"', "", starter.vocabulary)
    assert grammar is not None
    grammar.accept(a)
    copy = grammar.clone()
    grammar.accept(b)
    assert (copy.allows(b), copy.allows(c), copy.allows(a)) == (True, True, False)
    assert (grammar.allows(b), grammar.allows(c), grammar.allows(a)) == (False, False, True)
    grammar.close()
    copy.accept(c)
    assert copy.allows(a)
    copy.close()


# --- nothing left ------------------------------------------------------------------------------


def test_grammar_that_leaves_nothing_fails_in_words(
    session: NativeSession, starter: Weights
) -> None:
    """A character that no token writes: none can come, and nothing aborts."""
    prompt = starter.vocabulary.tokenize("Write:")
    for gbnf in ('root ::= "\\x00"', 'root ::= "a" "\\x00"'):
        request = session.add(prompt, Sampling(seed=1, grammar=gbnf), max_tokens=5)
        session.run()
        failed = session.ending(request)
        assert isinstance(failed, Failed)
        assert failed.kind == "no_candidate"
        assert "grammar allows none" in failed.sentence
    assert session.reply(prompt, max_tokens=2).generated == 2


def test_a_reply_without_tokens_has_no_speed(session: NativeSession, starter: Weights) -> None:
    """The grammar is complete before the first token: nothing was written, at no rate."""
    prompt = starter.vocabulary.tokenize("Write:")
    summary = session.reply(prompt, Sampling(seed=1, grammar='root ::= ""'), max_tokens=5)
    assert (summary.generated, summary.tokens_per_s) == (0, 0.0)


def test_chosen_token_that_the_grammar_refuses_is_not_taken(
    session: NativeSession, starter: Weights
) -> None:
    """Step mode: accepting it would end the process."""
    prompt = starter.vocabulary.tokenize("Yes or no?")
    yes, dog = starter.vocabulary.tokenize("yes")[0], starter.vocabulary.tokenize(" dog")[0]
    sampling = Sampling(seed=1, grammar='root ::= "yes" | "no"')
    request = session.add(prompt, sampling, hold=True, max_tokens=5)
    session.run()
    assert isinstance(session.of(request)[-1], Held)
    session.scheduler.choose(request, dog)
    session.run()
    note, again = session.of(request)[-2:]
    assert isinstance(note, Note)
    assert note.kind == "bad_choice"
    assert isinstance(again, Held)  # it still waits, and says so
    session.scheduler.choose(request, yes)
    session.run()
    session.scheduler.resume(request)
    session.run()
    ending = session.ending(request)
    assert isinstance(ending, Finished)
    assert isinstance(ending.result, Summary)
    assert ending.result.text == "yes"


class SlowClock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += 3.0
        return self.now


def test_a_grammar_that_takes_too_long_ends_in_words(starter: Weights) -> None:
    n_vocab = starter.vocabulary.n_vocab
    native = llama.llama_sampler_init_grammar(starter.vocabulary.handle, b'root ::= "a"', b"root")
    grammar = Grammar(native, SlowClock())
    candidates = Candidates(n_vocab)
    candidates.fill(np.zeros(n_vocab, np.float32))
    with pytest.raises(GrammarTooSlow) as caught:
        grammar.mask(candidates)
    assert caught.value.sentence.endswith(".")
    grammar.close()


def test_ambiguous_grammar_fails_the_reply_and_not_the_engine(
    session: NativeSession, starter: Weights, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.engine.process.sampling.grammar._LIMIT_S", -1.0)
    prompt = starter.vocabulary.tokenize("Write:")
    request = session.add(prompt, Sampling(seed=1, grammar='root ::= "a"'), max_tokens=5)
    session.run()
    failed = session.ending(request)
    assert isinstance(failed, Failed)
    assert failed.kind == "bad_setting"
    assert "too ambiguous" in failed.sentence


# --- refused before anything runs ----------------------------------------------------------------

DOUBLING = "".join(f'r{i} ::= r{i + 1} "b" | r{i + 1} "c"\n' for i in range(40))

N01 = [
    'root ::= e root "a" | "b"\ne ::= "z"?',
    'root ::= expr\nexpr ::= ws expr "+" num | num\nws ::= [ \\t]*\nnum ::= [0-9]+',
]
EMPTY_PAIRS = "e ::= " + '"a"? ' * 200 + "\nroot ::= e{200}"


def chain_of_rules(length: int) -> str:
    return (
        "root ::= r0\n" + "".join(f"r{i}::=r{i + 1}\n" for i in range(length)) + f'r{length}::="a"'
    )


MONSTERS: list[tuple[str, str]] = [
    ('root ::= ("a"', "has an error at line 1, column 14: expecting ')'"),
    ('root ::= "a" (\n\nb ::= "c"\n', "has an error at line 3, column 3: expecting ')'"),
    ('root ::= "a"\r\n  | "b"\r\n', "has an error at line 2, column 3: expecting name"),
    ('root ::= "a"\nroot2 ::= "\\q"', "at line 2, column 12: unknown escape"),
    ('root ::= "a" nothing', "at line 1, column 14: Undefined rule identifier 'nothing'"),
    ('other ::= "a"', "has no rule named “root”"),
    ('root ::= root "a"', "rule, “root”, that can start with itself (left recursion)"),
    ('root ::= e root "a" | "b"\ne ::= "z"?', "rule, “root”, that can start with itself"),
    ('root ::= a\na ::= b "x" | "y"\nb ::= (a "c"?)+', "rule, “a”, that can start with itself"),
    ('root ::= a\na ::= "x"? (("y" | a) "z")', "rule, “a”, that can start with itself"),
    ('root ::= a\na ::= ("x"? a)*', "rule, “a”, that can start with itself"),
    ('root ::= "b" | ("a"? root){2}', "rule, “root”, that can start with itself"),
    ('root ::= e root | "b"\ne ::= | "z"', "rule, “root”, that can start with itself"),
    ('root ::= "x" b\nb ::= ("a" | )*', "repeats something that can be empty, in the rule “b”"),
    ('root ::= e root | "b"\ne ::= "z"?', ""),
    ('root ::= ("a"?)* (e*)*\ne ::= "z"*', ""),
    (N01[1], "rule, “expr”, that can start with itself (left recursion), which llama.cpp doesn't"),
    ("root ::= —", "has an error at line 1, column 10"),
    ("🙂", "has an error"),
    ("   ", "has no rule named “root”"),
    ('root ::= "a"{5000}', "the repetition {5000}, but llama.cpp allows at most 2,000"),
    ('root ::= "a"{3,2001}', "the repetition {3,2001}, but llama.cpp allows at most 2,000"),
    ('root ::= "a"{3,2000}', ""),
    ('root ::= "' + "a" * 1000 + '"{1000}', "too large once its repetitions are expanded"),
    ('root ::= "a"{0}{3} "b"', "expecting preceding item"),
    ('root ::= "a"{5,2}', "an invalid repetition, {5,2}"),
    ('root ::= ("a" | "b"){ 99999999999999999999 }', "an invalid repetition"),
    ('root ::= "a" # {5,2}\nb ::= "{5,2}" [{5,2}]{2,5}', ""),
    ("root ::= " + "(" * 200_000 + '"a"' + ")" * 200_000, f"the limit is {MAX_GRAMMAR_BYTES:,}"),
    ("root ::= " + "(" * 5_000 + '"a"' + ")" * 5_000, f"more than {MAX_NESTING} levels deep"),
    (DOUBLING + 'r40 ::= "a"\nroot ::= r0', "too ambiguous"),
    (EMPTY_PAIRS, "too ambiguous"),
    ('root ::= ("a"?){50}\n' + 'x ::= "b"\n' * 9, ""),
    ("".join(f'r{i} ::= "a"\n' for i in range(3000)) + "root ::= r7", ""),
    (chain_of_rules(1990), ""),
    (chain_of_rules(2010), "more than 2,000 rules that start with each other"),
    ('root ::= "a\0b"', "NUL"),
    ("root ::= " + "x" * 10_000, "Undefined rule identifier"),
]


@pytest.mark.parametrize(("gbnf", "words"), MONSTERS, ids=range(len(MONSTERS)))
def test_unusable_grammar_is_refused_with_its_place(
    gbnf: str, words: str, starter: Weights
) -> None:
    if not words:
        check_grammar(gbnf, "", starter.vocabulary)
        return
    with pytest.raises(BadSetting) as caught:
        check_grammar(gbnf, "", starter.vocabulary)
    assert caught.value.field == "grammar"
    assert words in caught.value.sentence
    assert caught.value.sentence.startswith("The grammar ")
    assert len(caught.value.sentence) < 250


BAD_SCHEMAS: list[tuple[Any, str]] = [
    ("{", "isn't valid JSON: Expecting property name"),
    ("[1, 2]", "must be an object"),
    ('"—🙂"', "must be an object"),
    ("[" * 100_000 + "]" * 100_000, "the limit is 65,536"),
    ("[" * 20_000 + "]" * 20_000, "nested too deeply"),
    (json.dumps({"a": [[[[[[[[{}]]]]]]]]}).replace("{}", '{"b":[' * 15 + "1" + "]}" * 15), "deep"),
    ('{"$ref": "#/nowhere"}', "refers to “#/nowhere”, which doesn't exist"),
    ('{"items": {"$ref": "#/a"}, "a": 7}', "refers to “#/a”, which isn't a schema"),
    ('{"$ref": "https://example.invalid/x.json"}', "outside the schema"),
    ('{"items": {"$ref": "file:///etc/hosts"}}', "outside the schema"),
    ('{"enum": []}', "an empty “enum”"),
    ('{"type": "banana"}', "can't be converted to a grammar"),
    ('{"type": "string", "pattern": "(a"}', "a grammar: a pattern has an unclosed “(”"),
    ('{"type": "string", "pattern": "a^b"}', "a grammar: no text can match a pattern"),
    ('{"type": ["string", {}]}', "isn't a valid schema"),
    ('{"type": "string", "pattern": 5}', "isn't a valid schema"),
    ('{"required": true, "properties": {}}', "isn't a valid schema"),
    ('{"allOf": [1, 2]}', "isn't a valid schema"),
    (
        json.dumps({"properties": {f"p{i}": {} for i in range(2_000)}}),
        "is too large for one grammar",
    ),
    (7, "must be text, not 7"),
    (None, "must be text, not None"),
    ("x" * 100_000, "the limit is 65,536"),
]


@pytest.mark.parametrize(("schema", "words"), BAD_SCHEMAS, ids=range(len(BAD_SCHEMAS)))
def test_unusable_schema_is_refused_in_words(schema: Any, words: str) -> None:
    with pytest.raises(BadSetting) as caught:
        grammar_text("", schema)
    assert caught.value.field == "json_schema"
    assert words in caught.value.sentence
    assert len(caught.value.sentence) < 250


def test_what_a_schema_gives_is_found_out_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where it gives nothing: the second to ask is the thread that decodes."""
    asked = []
    monkeypatch.setattr(schema_grammar, "convert", lambda data: asked.append(data) or convert(data))
    for schema in ('{"const": "found out once"}', '{"type": "found out once"}'):
        for _ in range(2):
            with suppress(BadSetting):
                schema_to_gbnf(schema)
    assert len(asked) == 2


def test_grammar_and_schema_together_are_refused() -> None:
    with pytest.raises(BadSetting, match="either a grammar or a JSON schema"):
        grammar_text('root ::= "a"', "{}")


def test_refused_grammar_leaves_the_engine_as_it_was(
    session: NativeSession, starter: Weights, capfd: pytest.CaptureFixture[str]
) -> None:
    prompt = starter.vocabulary.tokenize("Write:")
    request = session.add(prompt, Sampling(grammar='root ::= ("a"'), max_tokens=5)
    assert isinstance(session.ending(request), Failed)
    assert session.reply(prompt, max_tokens=2).generated == 2
    assert "parse" not in capfd.readouterr().err


# --- shapes --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("gbnf", "ways"),
    [
        ('root ::= "a"', 1),
        ('root ::= "a" | "b" | [cd]', 3),
        ('root ::= a | "x"\na ::= "y"? "z"', 3),
        ('root ::= ("a" | "b") ("c" | "d")', 2),
        ('root ::= ("a" | "b")? ("c" | "d")', 4),
        ('root ::= "a" root "b" | "a"', 2),
        ("root ::= " + '"a"? ' * 100, 101),
        ('root ::= "(" ")" # ( | |\n', 1),
        ('root ::= [|()] "|"', 1),
        (DOUBLING + 'r40 ::= "a"\nroot ::= r0', MAX_WAYS + 1),
    ],
)
def test_ways_are_counted_without_expanding_them(gbnf: str, ways: int) -> None:
    assert beginnings_of(shape_of(gbnf)).ways == ways


def test_nesting_is_counted_outside_texts_and_classes() -> None:
    assert shape_of('root ::= (("((" [(] | ( "a" )))').nesting == 3


def test_chain_refuses_a_draw_that_the_grammar_makes_impossible(starter: Weights) -> None:
    n_vocab = starter.vocabulary.n_vocab
    sampling = Sampling([], Greedy(), grammar='root ::= "a"')
    chain = Chain(sampling, n_vocab=n_vocab, n_ctx=64, vocabulary=starter.vocabulary)
    a = [i for i in range(n_vocab) if starter.vocabulary.piece(i) == b"a"]
    with pytest.raises(NoCandidate) as caught:
        chain.draw(np.zeros(n_vocab, np.float32), Candidates(n_vocab), banned=a)
    assert caught.value.evidence == "grammar"
    chain.close()
