"""Calls in a reply: every family's are read, however the stream is cut; nonsense is named."""

from __future__ import annotations

import copy
import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from app.engine.protocol.tool_messages import MAX_CALLS, ToolCall
from app.engine.text.call_form import KNOWN, OWN, CallForm, known_in, words_of, written
from app.engine.text.calls import (
    CUT_OFF,
    MAX_CHARACTERS,
    NOT_JSON,
    ONLY_ONE,
    TOO_DEEP,
    TOO_LONG,
    TOO_MANY,
    Bad,
    CallReader,
    CallSplitter,
    Offered,
    parts_in,
)
from app.engine.text.reasoning import ReasoningSplitter

TOOLS = [Offered("clock", frozenset({"city"})), Offered("weather.in-town")]
LLAMA = CallForm("object", keys=("name", "parameters", ""), is_many=False)
PYTHONIC = next(form for form in KNOWN if form.begin.startswith("<|tool_call_start|>"))
BARE = CallForm("pairs", "[", behind_name="(", pairs=PYTHONIC.pairs, closing=")", end="]")


def reader(form: CallForm = OWN, **fields: Any) -> CallReader:
    return CallReader(form, TOOLS, new_id=lambda number: f"n{number}", **fields)


def read(
    text: str, form: CallForm = OWN, cuts: tuple[int, ...] = (), **fields: Any
) -> tuple[list[ToolCall | Bad], dict[str, str]]:
    """What is found in a text that comes in pieces, and the joined texts of both parts."""
    machine = reader(form, **fields)
    parts = {"content": "", "call": ""}
    found: list[ToolCall | Bad] = []
    edges = [0, *sorted(cut % (len(text) + 1) for cut in cuts), len(text)]
    for start, end in pairwise(edges):
        for part, piece in machine.feed(text[start:end]):
            parts[part] += piece
        found += machine.take()
    for part, piece in machine.flush():
        parts[part] += piece
    return [*found, *machine.take()], parts


def calls_in(found: list[ToolCall | Bad]) -> list[tuple[str, Any]]:
    return [(one.name, json.loads(one.arguments)) for one in found if isinstance(one, ToolCall)]


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-99, 99) | st.text("abc äλ{}[]\":,<>'\\\n", max_size=9),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text("xyz", min_size=1), inner),
    max_leaves=5,
)
CALLS = st.lists(
    st.tuples(
        st.sampled_from([tool.name for tool in TOOLS]),
        st.dictionaries(st.sampled_from(["city", "n", "deep"]), VALUES, max_size=3),
    ),
    min_size=1,
    max_size=3,
)
CUTS = st.lists(st.integers(0, 10**6), max_size=9).map(tuple)


@pytest.mark.parametrize("form", [f for f in KNOWN if f.kind != "pairs"], ids=lambda f: f.trigger)
@settings(max_examples=4, deadline=None)
@given(CALLS, CUTS)
def test_calls_come_back_whatever_they_hold_and_however_they_are_cut(
    form: CallForm, calls: list[tuple[str, dict[str, Any]]], cuts: tuple[int, ...]
) -> None:
    made = [
        ToolCall(f"id{i}", n, json.dumps(a, ensure_ascii=False)) for i, (n, a) in enumerate(calls)
    ]
    text = "Hm. " + written(form, made)
    found, parts = read(text, form, cuts)
    assert calls_in(found) == calls
    assert parts["content"] == "Hm. "
    assert parts["call"] == text.removeprefix("Hm. ")


@pytest.mark.parametrize("form", [f for f in KNOWN if f.kind == "pairs"], ids=lambda f: f.trigger)
@pytest.mark.parametrize("step", [1, 3, 1000])
def test_arguments_one_by_one(form: CallForm, step: int) -> None:
    given_ = {"city": "Ålesund, “North”", "n": 7, "deep": {"a": [1, True, None, "z"], "b": {}}}
    made = [
        ToolCall("i", "clock", json.dumps(given_, ensure_ascii=False)),
        ToolCall("j", "weather.in-town", "{}"),
        ToolCall("k", "clock", '{"city": "two\\nlines"}'),
    ]
    text = written(form, made)
    found, parts = read(text, form, tuple(range(0, len(text), step)))
    assert calls_in(found) == [(call.name, json.loads(call.arguments)) for call in made]
    assert parts == {"content": "", "call": text}


def test_a_text_argument_stays_a_text_where_the_form_does_not_say() -> None:
    form = next(form for form in KNOWN if form.pairs and form.opening.endswith("<function="))
    text = written(form, [ToolCall("i", "clock", '{"city": "7", "n": 7}')])
    assert calls_in(read(text, form)[0]) == [("clock", {"city": "7", "n": 7})]


@pytest.mark.parametrize(
    "text",
    [
        '<tool_call>{"name":"clock","arguments":{"city":"Oslo"}}</tool_call>',
        '<tool_call>\n\n {"arguments": {"city": "Oslo"}, "name": "clock"}\n',
        '<tool_call>{"name": "clock", "arguments": "{\\"city\\": \\"Oslo\\"}"}</tool_call>',
        '<tool_call>[{"name": "clock", "parameters": {"city": "Oslo"}}]</tool_call>',
        '<tool_call>{"function": {"name": "clock", "arguments": {"city": "Oslo"}}}</tool_call>',
        '[TOOL_CALLS][{"name": "clock", "arguments": {"city": "Oslo"}, "id": "123456789"}]',
        '[TOOL_CALLS]clock{"city": "Oslo"}',
        "<function=clock>\n<parameter=city>\nOslo\n</parameter>\n</function>",
        '<|python_tag|>{"name": "clock", "parameters": {"city": "Oslo"}}',
        '<|channel_of_nothing|><tool_call>{"name": "clock", "arguments": {"city": "Oslo"}}',
    ],
)
def test_other_families_and_looser_writing_are_read_as_well(text: str) -> None:
    """Weights that were tuned further write another form than their template."""
    for cuts in ((), tuple(range(len(text)))):
        found, parts = read(text, OWN, cuts)
        assert calls_in(found) == [("clock", {"city": "Oslo"})]
        assert parts["content"] in ("", "<|channel_of_nothing|>")


def test_arguments_are_the_text_that_the_weights_wrote() -> None:
    text = '<tool_call>{"name": "clock", "arguments": {"city" :\n "Oslo"}}</tool_call>'
    (call,) = read(text)[0]
    assert call == ToolCall("n0", "clock", '{"city" :\n "Oslo"}')


def test_ids_are_the_familys_own_where_it_has_them() -> None:
    mistral, kimi = KNOWN[1], next(form for form in KNOWN if form.is_id_named)
    text = '[TOOL_CALLS][{"name": "clock", "arguments": {}, "id": "a1b2c3d4e"}]'
    assert read(text, mistral)[0] == [ToolCall("a1b2c3d4e", "clock", "{}")]
    made = written(kimi, [ToolCall("", "clock", "{}"), ToolCall("", "clock", "{}")])
    ids = [one.id for one in read(made, kimi)[0] if isinstance(one, ToolCall)]
    assert ids == ["functions.clock:0", "functions.clock:1"]


# --- calls without a mark -----------------------------------------------------------------------


@pytest.mark.parametrize("step", [1, 5, 1000])
def test_a_bare_object_is_a_call_where_it_names_a_tool(step: int) -> None:
    text = '\n{"name": "clock", "parameters": {"city": "Oslo"}}'
    found, parts = read(text, LLAMA, tuple(range(0, len(text), step)))
    assert calls_in(found) == [("clock", {"city": "Oslo"})]
    assert parts["content"] == "\n"


@pytest.mark.parametrize(
    "text",
    [
        '{"city": "Oslo", "hour": 3}',
        '{"name": "Ada", "age": 36}',
        '{"name": "Ada", "parameters": {}}',
        "{ not json",
        "{",
        "[1, 2, 3]",
        'Here it is: {"name": "clock", "parameters": {}}',
    ],
)
def test_an_answer_in_json_is_an_answer(text: str) -> None:
    for cuts in ((), tuple(range(len(text)))):
        found, parts = read(text, LLAMA, cuts)
        assert found == []
        assert parts == {"content": text, "call": ""}


def test_a_bare_list_of_calls_as_in_python() -> None:
    text = '[clock(city="Oslo"), clock(city=\'Rome, "old"\', n=-2.5, deep=[True, None])]'
    found, parts = read(text, BARE, tuple(range(len(text))))
    assert calls_in(found) == [
        ("clock", {"city": "Oslo"}),
        ("clock", {"city": 'Rome, "old"', "n": -2.5, "deep": [True, None]}),
    ]
    assert parts["content"] == ""


# --- nonsense -----------------------------------------------------------------------------------


def bad_in(text: str, **fields: Any) -> list[str]:
    """The sentences; and the text stays visible."""
    found, parts = read(text, cuts=tuple(range(0, len(text), 3)), **fields)
    assert parts["content"].strip()
    assert read(text, **fields)[1]["content"] == parts["content"]
    return [one.sentence for one in found if isinstance(one, Bad)]


def test_nonsense_is_named_and_stays_visible() -> None:
    assert bad_in('<tool_call>{"name": "clock", "arg') == [CUT_OFF]
    assert bad_in("<tool_call>{'name': 'clock'}</tool_call>") == [NOT_JSON]
    assert bad_in('<tool_call>{"name": "rm", "arguments": {}}</tool_call>') == [
        "The model called “rm”, which isn't one of the tools on offer."
    ]
    assert len(bad_in('<tool_call>{"arguments": {}}</tool_call>')) == 1
    assert len(bad_in('<tool_call>{"name": "clock", "arguments": [1]}</tool_call>')) == 1
    assert len(bad_in("<tool_call>the weather?</tool_call>")) == 1
    assert len(bad_in("<tool_call>")) == 1
    deep = '{"a":' * 500 + "1" + "}" * 500
    assert bad_in(f'<tool_call>{{"name": "clock", "arguments": {deep}}}</tool_call>')[0] == TOO_DEEP


def test_a_good_call_behind_nonsense_is_found() -> None:
    text = 'No: <tool_call>?</tool_call> <tool_call>{"name": "clock", "arguments": {}}</tool_call>'
    found, parts = read(text)
    assert [type(one) for one in found] == [Bad, ToolCall]
    assert parts["content"] == "No: <tool_call>?</tool_call> "


def test_of_several_calls_only_the_one_that_is_none_is_text() -> None:
    text = '[TOOL_CALLS][{"name": "clock", "arguments": {}}, {"name": "rm", "arguments": {}}] !'
    found, parts = read(text, KNOWN[1])
    assert calls_in(found) == [("clock", {})]
    assert parts["content"] == '{"name": "rm", "arguments": {}}] !'


def test_size_and_number_are_bounded() -> None:
    long = '<tool_call>{"name": "clock", "arguments": {"city": "' + "x" * MAX_CHARACTERS
    found, parts = read(long, cuts=tuple(range(0, len(long), 60_000)))
    assert found == [Bad(TOO_LONG)]
    assert parts["content"] == long
    one = '<tool_call>{"name": "clock", "arguments": {}}</tool_call>\n'
    found, _ = read(one * (MAX_CALLS + 1))
    assert len(found) == MAX_CALLS + 1
    assert found[-1] == Bad(TOO_MANY)
    assert [type(each) for each in read(one * 2, is_many=False)[0]] == [ToolCall, Bad]
    assert read(one * 2, is_many=False)[0][1] == Bad(ONLY_ONE)


MADE = [ToolCall("i", "clock", '{"city": "Oslo"}')] * 2
MARKS = sorted({word for form in KNOWN for word in words_of(written(form, MADE))})
SHREDS = st.lists(
    st.sampled_from([*MARKS, "{", "}", "[", "]", '"', ",", ":", "clock", "\\", "\n", " ", "(", ")"])
    | st.text(max_size=4),
    max_size=25,
).map("".join)


def check_shreds(text: str, cuts: tuple[int, ...]) -> None:
    for form in (OWN, LLAMA, BARE):
        whole, parts = read(text, form)
        found, cut_parts = read(text, form, cuts)
        assert found == whole
        assert cut_parts["content"] == parts["content"]
        assert all(isinstance(json.loads(one.arguments, strict=False), dict) for one in found
                   if isinstance(one, ToolCall))  # fmt: skip
        if not any(isinstance(one, Bad) for one in found):
            assert sorted(parts["content"] + parts["call"]) == sorted(text)


@settings(max_examples=40, deadline=None)
@given(SHREDS, CUTS)
def test_shreds_of_calls_are_read_the_same_however_they_are_cut(
    text: str, cuts: tuple[int, ...]
) -> None:
    check_shreds(text, cuts)


@pytest.mark.soak
@settings(max_examples=30_000, deadline=None)
@given(SHREDS, CUTS)
def test_many_shreds_of_calls(text: str, cuts: tuple[int, ...]) -> None:
    check_shreds(text, cuts)


# --- beside reasoning ---------------------------------------------------------------------------


def test_a_call_behind_reasoning_is_one_and_a_call_in_it_is_thought() -> None:
    call = '<tool_call>{"name": "clock", "arguments": {}}</tool_call>'
    splitter = CallSplitter(ReasoningSplitter(), reader())
    pieces = splitter.feed(f"<think>Shall I {call}?</think>\n\nYes. {call}")
    pieces += splitter.flush()
    assert pieces == [("reasoning", f"Shall I {call}?"), ("content", "Yes. "), ("call", call)]
    assert len(splitter.reader.take()) == 1


def test_a_reply_that_goes_on_within_a_call_ends_it() -> None:
    machine = reader()
    machine.go_on_from('Wait. <tool_call>{"name": "clo')
    assert machine.feed('ck", "arguments": {}}</tool_call> So') == [
        ("call", 'ck", "arguments": {}}</tool_call> '),
        ("content", "So"),
    ]
    assert [call.name for call in machine.take() if isinstance(call, ToolCall)] == ["clock"]
    broken = reader()
    broken.go_on_from('<tool_call>{"name": "clo')
    assert broken.feed('ck" ?} no') == [("content", 'ck" ?} no')]
    assert broken.take() == [Bad(NOT_JSON)]
    other = reader()
    other.go_on_from("Here is JSON: ")
    assert other.feed('{"name": "clock"}') == [("content", '{"name": "clock"}')]


def test_a_copy_goes_its_own_way() -> None:
    """The way back before a banned string."""
    splitter = CallSplitter(None, reader())
    splitter.feed('<tool_call>{"name": "clock", ')
    other = copy.copy(splitter)
    assert splitter.feed('"arguments": {}}</tool_call>') != other.feed("?} and on")
    assert [type(one) for one in splitter.reader.take()] == [ToolCall]
    assert [type(one) for one in other.reader.take()] == [Bad]


def test_places_of_calls_in_a_whole_text() -> None:
    text = 'Hm. <tool_call>{"name": "clock", "arguments": {}}</tool_call>'
    assert parts_in(reader(), text) == [("content", 0, 4), ("call", 4, len(text))]


def test_forms_that_a_text_speaks_of() -> None:
    assert known_in("Answer with <tool_call> tags: <tool_call>{…}</tool_call>") == OWN
    assert known_in("Begin with [TOOL_CALLS].") is not None
    assert known_in("Be brief.") is None
