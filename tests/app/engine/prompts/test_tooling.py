"""Tools in prompts, by family: told of, called, answered; and none of it can be control."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st
from tool_families import (
    COMMAND,
    DEEPSEEK_V31,
    FAMILIES,
    GEMMA4,
    GPT_OSS,
    GRANITE,
    HERMES,
    KIMI,
    LLAMA3,
    MISTRAL,
    PLAIN,
    QWEN3,
    QWEN3_CODER,
    FamilyVocabulary,
    ToolFamily,
)

from app.engine.prompts.call_forms import tool_template
from app.engine.prompts.fitting import fit_prompt
from app.engine.prompts.prompt import BuiltPrompt, build_prompt
from app.engine.prompts.tooling import reader_of
from app.engine.protocol.prompt_messages import ChatMessage, ChatPrompt
from app.engine.protocol.template_messages import RenderTemplate
from app.engine.protocol.tool_messages import Tool, ToolCall
from app.engine.templates import renderer
from app.engine.text.call_form import CallForm
from app.engine.text.calls import parts_in

SCHEMA = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "description": "Where."},
        "n": {"type": "integer", "description": "How many."},
    },
    "required": ["city"],
}
CLOCK = Tool("clock", "Tells the time.", json.dumps(SCHEMA))
CALL = ToolCall("a1b2c3d4e", "clock", '{"city": "Oslo", "n": 3}')
ASK = ChatMessage("user", "What time is it?", message_id="u")
SAID = ChatMessage("assistant", "", message_id="a", tool_calls=[CALL])
TOLD = ChatMessage("tool", "3 am", message_id="t", tool_call_id=CALL.id, tool_name="clock")

DOCS = Path(__file__).resolve().parents[4] / "docs" / "tools.md"

families = pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
NATIVE = [f for f in FAMILIES if f not in (GPT_OSS, GRANITE, PLAIN)]
native = pytest.mark.parametrize("family", NATIVE, ids=lambda family: family.name)


def render(source: str, messages: list[dict[str, Any]], **fields: Any) -> str:
    fields.setdefault("extra", {})
    return renderer.render(RenderTemplate(source, messages, deadline_s=5, **fields))


def build(
    family: ToolFamily, *messages: ChatMessage, tools: tuple[Tool, ...] = (CLOCK,), **fields: Any
) -> BuiltPrompt:
    prompt = ChatPrompt(list(messages), tools=list(tools), **fields)
    return build_prompt(prompt, FamilyVocabulary(family), family.template, render)


def form_of(family: ToolFamily) -> CallForm:
    return tool_template(family.template, FamilyVocabulary(family), render, {}).form


def text_of(built: BuiltPrompt, family: ToolFamily, origin: str) -> str:
    vocabulary = FamilyVocabulary(family)
    ids = [i for p in built.parts if p.origin == origin for i in built.ids[p.start : p.end]]
    return b"".join(map(vocabulary.piece, ids)).decode()


# --- the family's form --------------------------------------------------------------------------


@native
def test_what_a_template_writes_is_read_in_the_form_that_was_found(family: ToolFamily) -> None:
    form = form_of(family)
    rendered = build(family, ASK, SAID, TOLD).rendered
    _, _, said = rendered.rpartition(ASK.content)
    reader = reader_of(form, [CALL])
    reader.feed(said[said.index(form.trigger or "{") :])
    (found,) = (one for one in reader.take() if isinstance(one, ToolCall))
    assert found.name == "clock"
    assert json.loads(found.arguments) == {"city": "Oslo", "n": 3}


@pytest.mark.parametrize("family", [f for f in NATIVE if f is not LLAMA3], ids=lambda f: f.name)
def test_several_calls_are_read_back_as_well(family: ToolFamily) -> None:
    other = ToolCall("f6g7h8i9j", "clock", '{"city": "Rome"}')
    both = ChatMessage("assistant", "", tool_calls=[CALL, other])
    form = form_of(family)
    assert form.is_many
    rendered = build(family, ASK, both, TOLD).rendered
    _, _, said = rendered.rpartition(ASK.content)
    reader = reader_of(form, [CALL, other])
    spans = parts_in(reader, said)
    found = [one for one in reader.take() if isinstance(one, ToolCall)]
    assert [json.loads(one.arguments) for one in found] == [
        {"city": "Oslo", "n": 3},
        {"city": "Rome"},
    ]
    assert [part for part, _, _ in spans].count("call") == 1


def test_forms_by_family() -> None:
    """As each family documents it."""
    assert form_of(HERMES).opening == "<tool_call>\n"
    assert form_of(MISTRAL).keys == ("name", "arguments", "id")
    assert form_of(LLAMA3).keys == ("name", "parameters", "")
    assert not form_of(LLAMA3).is_many
    assert form_of(COMMAND).keys == ("tool_name", "parameters", "tool_call_id")
    assert form_of(COMMAND).begin == "<|START_ACTION|>["
    assert form_of(DEEPSEEK_V31).takes_text
    assert form_of(DEEPSEEK_V31).end == "<｜tool▁calls▁end｜>"
    assert form_of(KIMI).is_id_named
    coder = form_of(QWEN3_CODER)
    assert coder.pairs is not None
    assert (coder.opening, coder.behind_name) == ("<tool_call>\n<function=", ">\n")
    assert coder.pairs.text_closing == "\n</parameter>\n"
    gemma = form_of(GEMMA4)
    assert gemma.pairs is not None
    assert gemma.pairs.text_opening == '<|"|>'
    assert form_of(GPT_OSS).kind == "channel"
    assert form_of(GRANITE).begin == "<|tool_call|>["


def test_a_template_that_nobody_has_seen_is_read_as_any_other() -> None:
    invented = ToolFamily(
        "invented",
        "{% for tool in tools or [] %}@{{ tool.function.name }}: {{ tool.function.description }}\n"
        "{% endfor %}{% for m in messages %}#{{ m.role }}\n{{ m.content }}"
        "{% for call in m.tool_calls or [] %}<|run|>{{ call.function.name }} with "
        "{{ call.function.arguments | tojson }} <|done|>{% endfor %}<|over|>\n{% endfor %}"
        "{% if add_generation_prompt %}#assistant\n{% endif %}",
        "<|over|>",
        ("<|run|>", "<|done|>"),
    )
    form = form_of(invented)
    assert (form.kind, form.opening, form.behind_name) == ("named", "<|run|>", " with ")
    reader = reader_of(form, [CALL])
    reader.feed('Hm.<|run|>clock with {"city": "Oslo"} <|done|>')
    assert [one.name for one in reader.take() if isinstance(one, ToolCall)] == ["clock"]


def test_the_table_of_families_is_right() -> None:
    """docs/tools.md."""
    lines = [line for line in DOCS.read_text("utf-8").splitlines() if line.startswith("|")]
    rows = [[cell.replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line)] for line in lines]
    begins = {name: row for row in rows for name in row[1].strip().split(", ")}
    for family in FAMILIES:
        form = form_of(family)
        told = "|".join(begins[family.name])
        assert form.trigger.partition(" ")[0] in told
        assert (form.keys[1] if form.kind == "object" else "") in told
        if form.pairs is not None:
            assert form.pairs.opening in told


@pytest.mark.parametrize(
    "template",
    [
        "{{ raise_exception('never') }}",
        "{{ messages[0].nothing.at_all }}",
        "x",
        "{% for m in messages %}{{ m.content }}{% endfor %}{{ tools | tojson }}",
        "{% for m in messages %}{{ m }}{% endfor %}{{ tools | tojson }}" * 3,
    ],
)
def test_a_template_that_makes_no_sense_gets_our_form(template: str) -> None:
    found = tool_template(template, FamilyVocabulary(PLAIN), render, {})
    assert found.form.trigger in ("<tool_call>", "")


# --- as text, where the template knows no tools -------------------------------------------------


def test_without_tools_in_the_template_all_of_it_is_told_as_text() -> None:
    system = ChatMessage("system", "Be brief.", message_id="s")
    built = build(PLAIN, system, ASK, SAID, TOLD)
    assert built.rendered.startswith("<|im_start|>system\nBe brief.\n\nYou can call tools.")
    assert '{"name": "clock", "description": "Tells the time.", "parameters": ' in built.rendered
    assert (
        '<|im_start|>assistant\n<tool_call>\n{"name": "clock", "arguments": '
        '{"city": "Oslo", "n": 3}}\n</tool_call><|im_end|>\n'
        "<|im_start|>user\n<tool_response>\n3 am\n</tool_response><|im_end|>\n"
    ) in built.rendered
    assert built.calls is not None
    assert text_of(built, PLAIN, "system") == "Be brief."
    assert json.loads(text_of(built, PLAIN, "tools"))["name"] == "clock"
    assert text_of(built, PLAIN, "tool") == "3 am"


def test_a_template_that_renders_calls_and_tells_of_no_tools_has_them_told_in_its_form() -> None:
    built = build(DEEPSEEK_V31, ASK, SAID, TOLD)
    assert built.rendered.startswith("<s>You can call tools.")
    example = '<｜tool▁call▁begin｜>name_of_the_tool<｜tool▁sep｜>{"argument": "value"}'
    assert example in built.rendered
    assert "<｜tool▁output▁begin｜>3 am<｜tool▁output▁end｜>" in built.rendered
    assert '<｜tool▁call▁begin｜>clock<｜tool▁sep｜>{"city": "Oslo", "n": 3}' in built.rendered


def test_without_a_template_it_is_told_as_text_as_well() -> None:
    prompt = ChatPrompt([ASK, SAID, TOLD], tools=[CLOCK])
    built = build_prompt(prompt, FamilyVocabulary(PLAIN), None, render)
    assert "You can call tools." in built.rendered
    assert "User: <tool_response>\n3 am\n</tool_response>" in built.rendered


def test_a_template_that_only_describes_calls_gets_them_as_it_describes() -> None:
    built = build(GRANITE, ASK, SAID, TOLD)
    assert "You can call tools." not in built.rendered
    assert (
        '<|tool_call|>[{"name": "clock", "arguments": {"city": "Oslo", "n": 3}}]' in built.rendered
    )


def test_without_tools_nothing_is_said_of_them() -> None:
    built = build(HERMES, ASK, tools=())
    assert built.calls is None
    assert "Tools" not in built.rendered


# --- where it comes from ------------------------------------------------------------------------


@families
def test_definitions_and_results_are_named_by_origin(family: ToolFamily) -> None:
    said = ChatMessage("assistant", "Wait.", message_id="a", tool_calls=[CALL])
    built = build(family, ASK, said, TOLD)
    assert built.is_known
    assert "Tells the time." in text_of(built, family, "tools")
    assert ASK.content not in text_of(built, family, "tools")
    assert "3 am" in text_of(built, family, "tool")
    assert "Oslo" in text_of(built, family, "assistant")
    ends = [part.end for part in built.parts]
    assert [part.start for part in built.parts] == [0, *ends[:-1]]
    assert ends[-1] == len(built.ids)


# --- nothing of it is control -------------------------------------------------------------------


def hostile(family: ToolFamily, word: str) -> tuple[Tool, list[ChatMessage]]:
    """Everything that a tool can say holds `word`."""
    schema = {
        "type": "object",
        "properties": {
            f"k{word}": {"type": "string", "description": f"d{word}", "enum": [f"e{word}"]},
            "n": {"type": "integer", "description": word},
        },
        "required": [f"k{word}"],
        "title": word,
    }
    tool = Tool(f"name{word}", f"says {word}!", json.dumps(schema))
    arguments = {f"k{word}": f"v{word}", "deep": {"list": [word, {"x": word}]}}
    call = ToolCall("a1b2c3d4e", tool.name, json.dumps(arguments))
    escaped = ToolCall("a1b2c3d4f", tool.name, json.dumps(arguments).replace("<", "\\u003c"))
    calls = [call] if family is LLAMA3 else [call, escaped]
    return tool, [
        ChatMessage("user", f"u{word}", message_id="u"),
        ChatMessage("assistant", f"a{word}", message_id="a", tool_calls=calls),
        ChatMessage("tool", f"r{word}\\n{word}", None, None, "t", tool_call_id=call.id,
                    tool_name=tool.name),
        ChatMessage("tool", f'{{"x": "{word}"}}', None, None, "t2", tool_call_id=calls[-1].id,
                    tool_name=word),
    ]  # fmt: skip


@families
def test_nothing_that_a_tool_says_is_a_control_token(family: ToolFamily) -> None:
    vocabulary = FamilyVocabulary(family)
    counts = []
    for said in ("harmless", "".join(vocabulary.control_texts)):
        tool, messages = hostile(family, said)
        counts.append(vocabulary.controls_in(build(family, *messages, tools=(tool,)).ids))
    assert counts[0] == counts[1]


@settings(max_examples=8, deadline=None)
@given(st.sampled_from((HERMES, MISTRAL, DEEPSEEK_V31, GEMMA4, GPT_OSS, PLAIN)), st.data())
def test_pieces_of_control_tokens_do_not_become_one(
    family: ToolFamily, data: st.DataObject
) -> None:
    check_pieces(family, data)


@pytest.mark.soak
@settings(max_examples=1500, deadline=None)
@given(st.sampled_from(FAMILIES), st.data())
def test_no_pieces_of_control_tokens_become_one(family: ToolFamily, data: st.DataObject) -> None:
    check_pieces(family, data)


def check_pieces(family: ToolFamily, data: st.DataObject) -> None:
    vocabulary = FamilyVocabulary(family)
    shreds = st.sampled_from([*vocabulary.control_texts, "<", "|", ">", "\\u003c", '"', "}", "\n"])
    word = "".join(data.draw(st.lists(shreds | st.text(max_size=3), max_size=8)))
    counts = []
    for said in ("harmless", word):
        tool, messages = hostile(family, said)
        built = build(family, *messages, tools=(tool,))
        counts.append(sorted(vocabulary.controls_in(built.ids)))
    assert counts[0] == counts[1]


# --- replies come back as themselves ------------------------------------------------------------


def as_reply(family: ToolFamily, text: str, **fields: Any) -> ChatMessage:
    ids = FamilyVocabulary(family).tokenize(text, special=True)
    return ChatMessage("assistant", token_ids=ids, message_id="a", **fields)


WRITTEN = {
    "hermes": '<tool_call>\n{"name":"clock","arguments":{"n":3,"city":"Oslo"}}\n</tool_call>',
    "qwen3-coder": "<tool_call>\n<function=clock>\n<parameter=city>\nOslo\n</parameter>\n"
    "<parameter=n>\n3\n</parameter>\n</function>\n</tool_call>",
    "llama-3": '{"name":"clock","parameters":{"city":"Oslo","n":3}}',
    "mistral": '[TOOL_CALLS][{"name":"clock","arguments":{"city":"Oslo","n":3},"id":"a1b2c3d4e"}]',
    "mistral-args": '[TOOL_CALLS]clock[ARGS]{"city":"Oslo","n":3}',
    "deepseek-v3.1": "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>clock<｜tool▁sep｜>"
    '{"city":"Oslo","n":3}<｜tool▁call▁end｜><｜tool▁calls▁end｜>',
    "kimi-k2": "<|tool_calls_section_begin|><|tool_call_begin|>functions.clock:0"
    '<|tool_call_argument_begin|>{"city":"Oslo","n":3}<|tool_call_end|><|tool_calls_section_end|>',
    "gemma-4": '<|tool_call>call:clock{n:3,city:<|"|>Oslo<|"|>}<tool_call|>',
    "chatml": '<tool_call>{"name":"clock","arguments":{"city":"Oslo","n":3}}</tool_call>',
    "granite-3": '<|tool_call|>[{"name":"clock","arguments":{"city":"Oslo","n":3}}]',
}


@pytest.mark.parametrize("name", sorted(WRITTEN))
def test_a_reply_comes_back_with_its_call_as_it_wrote_it(name: str) -> None:
    """So the next round's prompt begins with what the cache has."""
    family = next(family for family in FAMILIES if family.name == name)
    call_id = "functions.clock:0" if name == "kimi-k2" else CALL.id
    call = ToolCall(call_id, "clock", CALL.arguments)
    first = build(family, ASK)
    reply = as_reply(family, WRITTEN[name], content="", tool_calls=[call])
    result = ChatMessage("tool", "3 am", tool_call_id=call.id, tool_name="clock", message_id="t")
    second = build(family, ASK, reply, result)
    assert second.returned == ["a"]
    assert second.retokenized == []
    held = [*first.ids, *(reply.token_ids or [])]
    assert second.ids[: len(held)] == held


def test_a_reply_with_words_before_its_call_comes_back_whole() -> None:
    text = 'One moment.\n\n<tool_call>{"name": "clock", "arguments": {}}</tool_call>'
    for family in (HERMES, PLAIN):
        reply = as_reply(
            family, text, content="One moment.\n\n", tool_calls=[ToolCall("i", "clock", "{}")]
        )
        second = build(family, ASK, reply, TOLD)
        held = [*build(family, ASK).ids, *(reply.token_ids or [])]
        assert second.ids[: len(held)] == held


def test_reasoning_that_the_template_keeps_comes_back_with_the_call() -> None:
    text = f"<think>\nWhere?\n</think>\n\n{WRITTEN['hermes']}"
    reply = as_reply(QWEN3, text, content="", reasoning="Where?", tool_calls=[CALL])
    second = build(QWEN3, ASK, reply, TOLD)
    held = [*build(QWEN3, ASK).ids, *(reply.token_ids or [])]
    assert second.ids[: len(held)] == held
    later = build(QWEN3, ASK, reply, TOLD, ChatMessage("assistant", "3 am."), ASK)
    assert later.retokenized == ["a"]  # the template drops it once there is another question


def test_a_call_in_a_channel_comes_back() -> None:
    text = (
        "<|channel|>analysis<|message|>Where?<|end|><|start|>assistant<|channel|>commentary "
        'to=functions.clock <|constrain|>json<|message|>{"city":"Oslo","n":3}'
    )
    reply = as_reply(GPT_OSS, text, content="", reasoning="Where?", tool_calls=[CALL])
    second = build(GPT_OSS, ASK, reply, TOLD)
    held = [*build(GPT_OSS, ASK).ids, *(reply.token_ids or [])]
    assert second.ids[: len(held)] == held


def test_ids_that_spell_another_call_are_not_used() -> None:
    reply = as_reply(
        HERMES, WRITTEN["hermes"], content="", tool_calls=[ToolCall("i", "clock", '{"n": 4}')]
    )
    built = build(HERMES, ASK, reply, TOLD)
    assert built.retokenized == ["a"]
    assert '{"n": 4}' in built.rendered


# --- what a template refuses --------------------------------------------------------------------


def test_ids_are_made_to_fit_where_a_template_demands_a_form() -> None:
    call = ToolCall("call_abc", "clock", "{}")
    said = ChatMessage("assistant", "", tool_calls=[call])
    told = ChatMessage("tool", "3 am", tool_call_id="call_abc", tool_name="clock")
    mistral = build(MISTRAL, ASK, said, told)
    assert "TOOL_CALLS" in mistral.rendered
    assert not mistral.notes
    assert "functions.clock:0" in build(KIMI, ASK, said, told).rendered


def test_calls_that_a_template_refuses_are_text() -> None:
    both = ChatMessage("assistant", "", tool_calls=[CALL, CALL])
    built = build(LLAMA3, ASK, both, TOLD)
    assert [note.kind for note in built.notes] == ["calls_as_text"]
    assert built.rendered.count('{"name": "clock", "arguments":') == 2


# --- what does not fit --------------------------------------------------------------------------


@pytest.mark.parametrize("policy", ["drop_oldest", "keep_ends", "summarize"])
def test_a_result_never_stands_without_its_call(policy: Any) -> None:
    messages: list[ChatMessage] = []
    for turn in range(9):
        call = ToolCall(f"call{turn:05}", "clock", '{"city": "Oslo"}')
        messages += [
            ChatMessage("user", f"Question {turn}?", message_id=f"u{turn}"),
            ChatMessage("assistant", "", message_id=f"a{turn}", tool_calls=[call]),
            ChatMessage(
                "tool", "3 am " * 20, None, None, f"t{turn}", turn == 4,
                tool_call_id=call.id, tool_name="clock",
            ),
            ChatMessage("assistant", "It is 3 am.", message_id=f"b{turn}"),
        ]  # fmt: skip
    messages.append(ASK)
    vocabulary = FamilyVocabulary(HERMES)
    prompt = ChatPrompt(messages, tools=[CLOCK])
    built = fit_prompt(
        prompt,
        lambda each: build_prompt(each, vocabulary, HERMES.template, render),
        2600,
        policy,
    )
    gone = {message.message_id for message in built.cut}
    assert gone
    for turn in range(9):
        of_turn = {f"{kind}{turn}" for kind in "uatb"}
        assert of_turn <= gone or not of_turn & gone
    assert "t4" not in gone
