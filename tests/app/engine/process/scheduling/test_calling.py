"""Calls of tools by real weights, small ones: what binds them, what is told, what is left free."""

from __future__ import annotations

import json
import time
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from native_session import NativeSession, ReadyPrompt

from app.engine.process.native.native import NativeLog
from app.engine.process.native.weights import Weights
from app.engine.process.sampling.call_grammar import call_grammars
from app.engine.process.sampling.grammar import grammar_of
from app.engine.protocol.bounds import BadSetting
from app.engine.protocol.messages import (
    Event,
    Finished,
    Generate,
    Note,
    Summary,
    TextFlushed,
    TokenArrived,
)
from app.engine.protocol.prompt_messages import ChatMessage, ChatPrompt
from app.engine.protocol.request_rules import check_request
from app.engine.protocol.stages import Dist, Greedy, Sampling, Temperature
from app.engine.protocol.tool_messages import BAD_CALL, Tool, ToolCall, ToolCalled
from app.engine.text.call_form import KNOWN, OWN, CallForm, written
from app.engine.text.calls import CallReader, Offered

pytestmark = pytest.mark.weights

SCHEMA = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "enum": ["Oslo", "Rome", "São “P”"]},
        "hours": {"type": "integer", "enum": [1, 24]},
    },
    "required": ["city"],
}
CLOCK = Tool("clock", "The time.", json.dumps(SCHEMA))
LIGHT = Tool("light.switch", "The light.", '{"type": "object", "properties": {}}')
LLAMA = CallForm("object", keys=("name", "parameters", ""), is_many=False)
FREE = Sampling([Temperature(1.0)], Dist(), seed=3)


def prompt_of(
    session: NativeSession, form: CallForm, choice: str, tools: tuple[Tool, ...], is_many: bool
) -> tuple[ChatPrompt, ReadyPrompt]:
    chat = ChatPrompt(
        [ChatMessage("user", "What time is it?")],
        tools=list(tools),
        tool_choice=choice,
        parallel_tool_calls=is_many,
    )
    ids = session.weights.vocabulary.tokenize("What time is it?")
    grammars, loose = call_grammars(form, tools, choice, is_many)
    return chat, ReadyPrompt(ids, calls=form, call_grammars=grammars, loose_tools=loose)


def ask(
    session: NativeSession,
    *,
    form: CallForm = OWN,
    choice: str = "auto",
    begun: str = "",
    sampling: Sampling = FREE,
    tools: tuple[Tool, ...] = (CLOCK, LIGHT),
    is_many: bool = True,
    rendered: str = "",
    **fields: Any,
) -> tuple[Summary, list[Event]]:
    """`begun`: what the reply is made to begin with."""
    chat, ready = prompt_of(session, form, choice, tools, is_many)
    ready.rendered = rendered
    forced = session.weights.vocabulary.tokenize(begun) if begun else []
    number = 1000 + len(session.events)
    fields.setdefault("max_tokens", 300)
    generate = Generate(number, chat, sampling, forced_ids=forced, **fields)
    session.scheduler.add(generate, ready, time.perf_counter())
    session.run()
    ending = session.ending(generate.id)
    assert isinstance(ending, Finished), ending
    assert isinstance(ending.result, Summary)
    return ending.result, session.of(generate.id)


def check_call(call: ToolCall) -> None:
    arguments = json.loads(call.arguments)
    assert call.name in ("clock", "light.switch")
    assert len(call.id) == 9 or call.id.startswith(f"functions.{call.name}:")
    if call.name == "clock":
        assert arguments["city"] in SCHEMA["properties"]["city"]["enum"]
        assert arguments.get("hours", 1) in (1, 24)
        assert arguments.keys() <= {"city", "hours"}


def test_a_call_that_no_grammar_held_to_its_schema_says_so(made_session: NativeSession) -> None:
    wide = Tool("wide", "", json.dumps({"type": "object", "description": "x" * 20_000}))
    for name, kinds in (("wide", ["loose_tool_call"]), ("clock", [])):
        begun = f'<tool_call>{{"name": "{name}", "arguments": {{"city": "Oslo"}}}}'
        length = len(made_session.weights.vocabulary.tokenize(begun))
        _, events = ask(made_session, begun=begun, tools=(wide, CLOCK), max_tokens=length)
        assert any(isinstance(event, ToolCalled) for event in events)
        assert [e.kind for e in events if isinstance(e, Note) and "tool" in e.kind] == kinds


def test_the_white_space_behind_a_mark_does_not_set_a_call_free(
    made_session: NativeSession,
) -> None:
    for form in (OWN, KNOWN[12], KNOWN[14]):
        begun = form.opening.replace("\n", "\n\n") if "\n" in form.opening else form.opening
        call = written(form, [ToolCall("a1b2c3d4e", "clock", '{"city": "Oslo"}')])
        text = call.replace(form.opening, begun + "\n" * ("\n" not in begun))
        assert accepts(made_session.weights, form, (CLOCK,), text), text


@pytest.mark.parametrize("form", [OWN, LLAMA, KNOWN[1], KNOWN[6], KNOWN[8], KNOWN[12]])
def test_a_required_call_is_made_and_fits_its_schema(
    made_session: NativeSession, form: CallForm
) -> None:
    summary, events = ask(made_session, form=form, choice="required", is_many=False)
    assert summary.stop_reason == "tool_calls"
    (call,) = summary.tool_calls
    check_call(call)
    told = [event for event in events if isinstance(event, ToolCalled)]
    assert [(event.index, event.call) for event in told] == list(enumerate(summary.tool_calls))
    assert summary.text.strip() == ""


def test_a_named_tool_is_the_one_that_is_called(made_session: NativeSession) -> None:
    for seed in range(4):
        sampling = Sampling([Temperature(1.5)], Dist(), seed=seed)
        summary, _ = ask(made_session, choice="light.switch", sampling=sampling, is_many=False)
        assert [call.name for call in summary.tool_calls] == ["light.switch"]
        assert summary.stop_reason == "tool_calls"


@pytest.mark.parametrize(("choice", "n_calls"), [("required", 1), ("auto", 0)])
def test_a_grammar_of_the_answer_goes_before_a_call_unless_one_is_required(
    made_session: NativeSession, choice: str, n_calls: int
) -> None:
    sampling = Sampling([Temperature(1.0)], Dist(), seed=3, json_schema='{"const": "no call"}')
    summary, _ = ask(made_session, choice=choice, sampling=sampling, is_many=False)
    assert len(summary.tool_calls) == n_calls
    assert summary.text.strip() == ("" if n_calls else '"no call"')


def test_only_one_where_more_are_not_allowed(made_session: NativeSession) -> None:
    summary, _ = ask(made_session, choice="required", is_many=False)
    assert len(summary.tool_calls) == 1
    assert summary.stop_reason == "tool_calls"


@pytest.mark.parametrize("begun", ["One moment. <tool_call>", '<tool_call>\n{"name": "c'])
def test_a_call_that_begins_by_itself_is_bound_from_there_on(
    made_session: NativeSession, begun: str
) -> None:
    summary, events = ask(made_session, begun=begun, is_many=False)
    (call,) = summary.tool_calls
    check_call(call)
    assert summary.stop_reason == "tool_calls"
    assert summary.text == begun.partition("<tool_call>")[0]
    arrived = [event for event in events if isinstance(event, TokenArrived | TextFlushed)]
    assert "".join(e.text for e in arrived if e.part == "content") == summary.text


def test_text_without_a_call_is_free(made_session: NativeSession) -> None:
    free, _ = ask(made_session, sampling=Sampling([], Greedy()), max_tokens=30)
    with_tools, _ = ask(made_session, tools=(), sampling=Sampling([], Greedy()), max_tokens=30)
    assert free.token_ids == with_tools.token_ids
    assert free.tool_calls == []


def test_without_permission_no_call_can_begin(made_session: NativeSession) -> None:
    summary, events = ask(made_session, choice="none", begun="So <tool_call>", max_tokens=30)
    assert "<tool_call>" not in summary.text
    assert summary.tool_calls == []
    assert not [event for event in events if isinstance(event, ToolCalled)]


def test_a_call_that_is_cut_off_is_named_and_stays_visible(made_session: NativeSession) -> None:
    summary, events = ask(made_session, begun='<tool_call>\n{"name": "clock",', max_tokens=26)
    assert summary.tool_calls == []
    assert summary.stop_reason == "max_tokens"
    assert summary.text.startswith('<tool_call>\n{"name": "clo')
    assert BAD_CALL in [event.kind for event in events if isinstance(event, Note)]


def test_nonsense_behind_the_mark_is_text(made_session: NativeSession) -> None:
    """Another family's mark goes on unbound, and is told apart by the reader."""
    summary, events = ask(made_session, begun="[TOOL_CALLS]?? no", max_tokens=24)
    assert summary.text.startswith("[TOOL_CALLS]?? no")
    assert BAD_CALL in [event.kind for event in events if isinstance(event, Note)]


def test_a_required_call_waits_for_the_end_of_the_reasoning(made_session: NativeSession) -> None:
    summary, _ = ask(
        made_session,
        choice="required",
        rendered="What time is it?<think>\n",
        begun="Hm.</think>\n\n",
        is_many=False,
    )
    assert summary.reasoning == "Hm."
    assert len(summary.tool_calls) == 1


def test_ids_are_the_same_each_time_that_a_reply_is_written(made_session: NativeSession) -> None:
    ids = [
        [call.id for call in ask(made_session, choice="required", reply_id=reply)[0].tool_calls]
        for reply in ("r1", "r1", "r2")
    ]
    assert ids[0] == ids[1]
    assert not set(ids[0]) & set(ids[2])


@pytest.mark.parametrize("choice", ["auto", "required", "clock"])
def test_a_reply_that_goes_on_inside_a_call_is_bound_by_what_it_has(
    made_session: NativeSession, choice: str
) -> None:
    """A branch at a token of a call."""
    begun = '<tool_call>\n{"name": "clock", "arguments": {"city": "R'
    chat, ready = prompt_of(made_session, OWN, choice, (CLOCK, LIGHT), False)
    ids = made_session.weights.vocabulary.tokenize(begun)
    ready.ids, ready.n_begun = [*ready.ids, *ids], len(ids)
    generate = Generate(1, chat, FREE, max_tokens=200)
    made_session.scheduler.add(generate, ready, time.perf_counter())
    made_session.run()
    ending = made_session.ending(1)
    assert isinstance(ending, Finished)
    assert isinstance(ending.result, Summary)
    (call,) = ending.result.tool_calls
    assert json.loads(call.arguments)["city"] == "Rome"
    assert ending.result.text == ""


def test_a_half_call_is_gone_on_with(made_session: NativeSession) -> None:
    """Continue, after the token limit came in the middle of it."""
    half = 'Wait. <tool_call>\n{"name": "clock", "arguments": {"city": "R'
    chat, ready = prompt_of(made_session, OWN, "auto", (CLOCK, LIGHT), False)
    chat = msgspec.structs.replace(
        chat, messages=[*chat.messages, ChatMessage("assistant", half)], continue_last=True
    )
    ids = made_session.weights.vocabulary.tokenize(half)
    ready.ids, ready.n_continued = [*ready.ids, *ids], len(ids)
    made_session.scheduler.add(Generate(1, chat, FREE, max_tokens=200), ready, time.perf_counter())
    made_session.run()
    ending = made_session.ending(1)
    assert isinstance(ending, Finished)
    assert isinstance(ending.result, Summary)
    (call,) = ending.result.tool_calls
    assert json.loads(call.arguments)["city"] == "Rome"
    assert ending.result.text == ""


def test_a_banned_string_takes_a_call_back_to_where_it_was_free(
    made_session: NativeSession,
) -> None:
    """The mark itself is banned, so no call begins, and what follows is as free as before."""
    sampling = Sampling([Temperature(1.0)], Dist(), seed=3, banned_strings=["<tool_call>"])
    summary, events = ask(made_session, begun="So <tool_call>", sampling=sampling, max_tokens=40)
    assert summary.tool_calls == []
    assert "<tool_call>" not in summary.text
    assert summary.generated == 40 or summary.stop_reason == "end_token"
    assert not [event for event in events if isinstance(event, ToolCalled)]


def test_a_banned_string_inside_a_call_is_drawn_again_under_the_grammar(
    made_session: NativeSession,
) -> None:
    sampling = Sampling([Temperature(1.0)], Dist(), seed=3, banned_strings=["Rome", "Oslo"])
    summary, _ = ask(made_session, choice="clock", sampling=sampling, is_many=False)
    (call,) = summary.tool_calls
    assert json.loads(call.arguments)["city"] == "São “P”"


# --- grammars -----------------------------------------------------------------------------------

CITY = json.dumps({"type": "object", "properties": {"city": {"type": "string"}, "n": {
    "type": "integer"}}, "required": ["city", "n"]})  # fmt: skip
TEXTS = st.text(st.characters(blacklist_categories=["Cs", "Cc"]), max_size=12)


def accepts(weights: Weights, form: CallForm, tools: tuple[Tool, ...], text: str) -> bool:
    """Whether the whole of a text is one that the grammar ends with."""
    grammar = grammar_of(call_grammars(form, tools, "auto", True)[0][""], weights.vocabulary)
    try:
        for token_id in weights.vocabulary.tokenize(text):
            if not grammar.allows(token_id):
                return False
            grammar.accept(token_id)
        return grammar.allows(weights.vocabulary.eog_ids[0])
    finally:
        grammar.close()


@pytest.mark.parametrize("form", [OWN, *KNOWN[7:9], *KNOWN[12:16]], ids=lambda form: form.trigger)
def test_what_a_grammar_allows_is_what_the_family_writes(
    made_session: NativeSession, form: CallForm
) -> None:
    check_grammar_of(made_session, form, "São “Paulo”, a\nb", -7)


@pytest.mark.soak
@pytest.mark.parametrize("form", KNOWN, ids=lambda form: form.trigger)
@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(city=TEXTS, n=st.integers(-99, 99))
def test_grammars_allow_whatever_the_family_writes(
    made_session: NativeSession, form: CallForm, city: str, n: int
) -> None:
    check_grammar_of(made_session, form, city, n)


def check_grammar_of(made_session: NativeSession, form: CallForm, city: str, n: int) -> None:
    if form.pairs is not None:  # a text that holds the mark behind it cannot be written
        city = city.replace("<", "").replace('"', "").replace("\\", "")
    tools = (Tool("clock", "", CITY), LIGHT)
    call = ToolCall("a1b2c3d4e", "clock", json.dumps({"city": city, "n": n}, ensure_ascii=False))
    text = written(form, [call])
    assert accepts(made_session.weights, form, tools, text)
    if form.is_many and form.kind != "channel":
        assert accepts(made_session.weights, form, tools, written(form, [call, call]))
    other = ToolCall("a1b2c3d4e", "rm", call.arguments)
    assert not accepts(made_session.weights, form, tools, written(form, [other]))
    reader = CallReader(form, [Offered("clock", frozenset({"city"}))], new_id=str)
    reader.feed(text)
    reader.flush()
    (read,) = reader.take()
    assert isinstance(read, ToolCall)
    assert json.loads(read.arguments) == {"city": city.strip() if form.pairs else city, "n": n} or (
        form.pairs is not None
    )


def test_schemas_that_nobody_can_hold_do_not_stop_a_reply() -> None:
    bad = [
        "", "[]", "nonsense", '{"type": "array"}', '{"$ref": "#"}', '{"type": 5}',
        '{"properties": {"a": {"$ref": "https://example.org/x"}}}',
        '{"properties": {"a": ' * 40 + "{}" + "}}" * 40,
        json.dumps({"properties": {f"key{i}": {"type": "string"} for i in range(900)}}),
    ]  # fmt: skip
    tools = tuple(Tool(f"t{i}", "", schema) for i, schema in enumerate(bad))
    for form in (OWN, KNOWN[12]):
        grammars, loose = call_grammars(form, tools, "auto", True)
        assert grammars[""]
        assert {"t3", "t5", "t6"} <= loose
        assert not {"t0", "t1", "t2"} & loose, "they say nothing of their arguments"


def test_requests_with_tools_that_make_no_sense_are_refused() -> None:
    def refusal(tools: list[Tool], choice: str = "auto") -> str:
        prompt = ChatPrompt([], tools=tools, tool_choice=choice)
        with pytest.raises(BadSetting) as raised:
            check_request(Generate(1, prompt))
        return raised.value.sentence

    assert "can't be the name of a tool" in refusal([Tool("")])
    assert "can't be the name of a tool" in refusal([Tool("a b")])
    assert "can't be the name of a tool" in refusal([Tool("<|im_end|>")])
    assert "Two tools are called" in refusal([CLOCK, CLOCK])
    assert "tool choice" in refusal([CLOCK], "sometimes")
    assert "required" in refusal([], "required")
    check_request(Generate(1, ChatPrompt([], tools=[CLOCK], tool_choice="clock")))


# --- the real files -----------------------------------------------------------------------------


def required_calls(weights: Weights, log: NativeLog, n_seeds: int) -> None:
    session = NativeSession(weights, log)
    for seed in range(n_seeds):
        sampling = Sampling([Temperature(1.2)], Dist(), seed=seed)
        form = (OWN, KNOWN[1], LLAMA)[seed % 3]
        summary, _ = ask(
            session, form=form, choice="required", sampling=sampling, is_many=False, max_tokens=200
        )
        assert summary.stop_reason == "tool_calls"
        (call,) = summary.tool_calls
        check_call(call)


@pytest.mark.soak
def test_required_calls_of_the_starter(starter: Weights, native_log: NativeLog) -> None:
    required_calls(starter, native_log, 9)


@pytest.mark.soak
def test_required_calls_of_the_second_file(gemma: Weights, native_log: NativeLog) -> None:
    required_calls(gemma, native_log, 6)
