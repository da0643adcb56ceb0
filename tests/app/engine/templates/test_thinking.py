"""What is found out about reasoning in a template of each family."""

from __future__ import annotations

from datetime import datetime
from typing import Any, ClassVar

import jinja2
import pytest
from test_prompt import MadeUpVocabulary
from thinking_families import (
    CHATML,
    DEEPSEEK_V31,
    FAMILIES,
    GPT_OSS,
    GRANITE33,
    KIMI_K3,
    QWEN3,
    QWEN35,
    R1,
    Family,
)

from app.engine.prompts.prompt import build_prompt, lay_out_chat
from app.engine.prompts.thinking import with_thinking
from app.engine.protocol.prompt_messages import ChatMessage, ChatPrompt
from app.engine.protocol.template_messages import InspectTemplate, RenderTemplate, TemplateFailed
from app.engine.protocol.template_variables import read_variables
from app.engine.protocol.thinking_messages import TemplateInspected
from app.engine.templates import renderer as templates


def looked_at(
    template: str, tags: list[tuple[str, str]] | None = None, **extra: Any
) -> TemplateInspected:
    return templates.inspected(InspectTemplate(template, "<s>", "</s>", extra, tags or [], 5.0))


def looks(source: str, **how: Any) -> TemplateInspected:
    return looked_at(source, **how["extra"])


def renders(source: str, messages: list[dict[str, Any]], **how: Any) -> str:
    extra = how.pop("extra", {})
    return templates.render(RenderTemplate(source, messages, extra=extra, deadline_s=5, **how))


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_what_a_template_offers_is_found_by_rendering_it(family: Family) -> None:
    found = looked_at(family.template)
    assert {one.name: read_variables(one.variables) for one in found.choices} == family.choices
    assert {one.name: one.flag for one in found.choices if one.flag} == family.flags
    assert found.offer.choices == list(family.choices)
    assert (found.offer.auto, found.budget) == (family.auto, family.budget)
    assert found.offer.variables == sorted(family.others)
    assert found.offer.has_reasoning == family.has_reasoning


# --- the prompt, against plain Jinja ------------------------------------------------------------

CHAT = [
    ChatMessage("system", "Be kind."),
    ChatMessage("user", "What is 2 + 2?"),
    ChatMessage("assistant", "4."),
    ChatMessage("user", "And 3 + 3?"),
]


class Words:
    """A vocabulary as far as rendering needs one."""

    control_texts: ClassVar[list[str]] = []
    bos_text, eos_text = "<s>", "</s>"


def in_plain_jinja(template: str, messages: list[ChatMessage], **variables: Any) -> str:
    """As Transformers renders it, without anything of ours."""
    environment = jinja2.Environment(
        trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
    )

    def refuse(sentence: str) -> None:
        raise jinja2.TemplateError(sentence)

    return environment.from_string(template).render(
        messages=[{"role": m.role, "content": m.content} for m in messages],
        bos_token="<s>",
        eos_token="</s>",
        add_generation_prompt=True,
        raise_exception=refuse,
        strftime_now=lambda form: datetime.now().strftime(form),  # noqa: DTZ005 - as they do
        **variables,
    )


def rendered(prompt: ChatPrompt, template: str) -> str:
    """As the engine renders it: what was chosen becomes variables, then the chat is laid out."""
    ready, notes = with_thinking(
        prompt,
        template,
        Words(),
        lambda source, *, bos_token, eos_token, extra, tags: looked_at(source, tags),
    )
    assert [n.sentence for n in notes if "system prompt" not in n.sentence] == []
    assert isinstance(ready, ChatPrompt)

    def render(source: str, messages: list[dict[str, Any]], **how: Any) -> str:
        extra = how.pop("extra", {})
        return templates.render(RenderTemplate(source, messages, extra=extra, deadline_s=5, **how))

    variables = read_variables(ready.variables)
    return lay_out_chat(ready.messages, Words(), template, render, variables)[0].text


CHOICES = [
    pytest.param(family, name, id=f"{family.name}, {name or 'auto'}")
    for family in FAMILIES
    for name in ("", *family.choices)
]


@pytest.mark.parametrize(("family", "name"), CHOICES)
def test_each_choice_reads_as_in_plain_jinja(family: Family, name: str) -> None:
    expected = list(CHAT)
    if flag := family.flags.get(name):
        expected[0] = ChatMessage("system", f"Be kind.\n{flag}")
    plain = in_plain_jinja(family.template, expected, **family.choices.get(name, {}))
    assert rendered(ChatPrompt(CHAT, thinking=name), family.template) == plain


@pytest.mark.parametrize("family", [f for f in FAMILIES if f.choices], ids=lambda f: f.name)
def test_choices_read_differently(family: Family) -> None:
    chat = CHAT[1:]  # Granite's passes over it where there is a system prompt
    texts = {rendered(ChatPrompt(chat, thinking=name), family.template) for name in family.choices}
    assert len(texts) == len(family.choices) - (family.name == "Kimi K3")  # on is its max


def test_a_flag_without_a_system_prompt_is_one() -> None:
    family = next(f for f in FAMILIES if f.flags)
    prompt = ChatPrompt([ChatMessage("user", "Hi")], thinking="off")
    flagged = [ChatMessage("system", "/no_think"), ChatMessage("user", "Hi")]
    assert rendered(prompt, family.template) == in_plain_jinja(family.template, flagged)


def test_the_template_is_told_of_the_limit_where_it_asks() -> None:
    family = next(f for f in FAMILIES if f.budget)
    limited = ChatPrompt(CHAT, reasoning_budget=300)
    expected = in_plain_jinja(family.template, CHAT, thinking_budget=300)
    assert rendered(limited, family.template) == expected
    off = ChatPrompt(CHAT, thinking="off", reasoning_budget=300)
    assert rendered(off, family.template) == in_plain_jinja(
        family.template, CHAT, thinking_budget=0
    )


def test_other_variables_are_given_and_a_choice_goes_before_them() -> None:
    text = '{"enable_thinking": true, "model_identity": "You are Ada.", "thinking": true}'
    own = ChatPrompt(CHAT, variables=text)
    assert rendered(own, GPT_OSS) == in_plain_jinja(GPT_OSS, CHAT, model_identity="You are Ada.")
    off = ChatPrompt(CHAT, variables=text, thinking="off")
    assert rendered(off, QWEN3) == in_plain_jinja(QWEN3, CHAT, enable_thinking=False)


def test_a_switch_that_a_system_prompt_turns_off_says_so() -> None:
    def inspect(source: str, **_: Any) -> TemplateInspected:
        return looked_at(source)

    _, notes = with_thinking(ChatPrompt(CHAT, thinking="on"), GRANITE33, Words(), inspect)
    assert ["with a system prompt" in note.sentence for note in notes] == [True]
    for prompt in (ChatPrompt(CHAT[1:], thinking="on"), ChatPrompt(CHAT, thinking="off")):
        assert with_thinking(prompt, GRANITE33, Words(), inspect)[1] == []


def test_an_effort_in_capitals_is_the_same() -> None:
    assert rendered(ChatPrompt(CHAT, thinking="High"), GPT_OSS) == rendered(
        ChatPrompt(CHAT, thinking="high"), GPT_OSS
    )


def test_an_effort_that_the_template_does_not_have_is_said() -> None:
    def inspect(source: str, **_: Any) -> TemplateInspected:
        return looked_at(source)

    prompt = ChatPrompt(CHAT, thinking="extreme")
    ready, notes = with_thinking(prompt, GPT_OSS, Words(), inspect)
    assert [note.sentence for note in notes] == [
        "This chat template has no thinking mode “extreme”, only low, medium, high."
    ]
    assert isinstance(ready, ChatPrompt)
    assert ready.variables == ""
    ready, notes = with_thinking(prompt, CHATML, Words(), inspect)
    assert notes == []


@pytest.mark.parametrize(
    ("template", "thinking", "last", "ending"),
    [
        # A reply with reasoning goes on inside of it, whatever was chosen since.
        (QWEN3, "off", ChatMessage("assistant", "", "Hm"), "assistant\n<think>\nHm"),
        (QWEN35, "off", ChatMessage("assistant", "", "Hm"), "assistant\n<think>\nHm"),
        (DEEPSEEK_V31, "", ChatMessage("assistant", "", "Hm"), "<｜Assistant｜><think>Hm"),
        (QWEN3, "", ChatMessage("assistant", "6", "Hm"), "<think>\nHm\n</think>\n\n6"),
        # One without is not put into a block that the template opens.
        (QWEN35, "", ChatMessage("assistant", "6"), "<think>\n\n</think>\n\n6"),
        (DEEPSEEK_V31, "on", ChatMessage("assistant", "6"), "<｜Assistant｜></think>6"),
        (R1, "", ChatMessage("assistant", "6"), "assistant\n<think>\n\n</think>\n\n6"),
        (CHATML, "", ChatMessage("assistant", "6"), "assistant\n6"),
        # Sections have no line breaks, and each answer one of its own.
        (
            KIMI_K3,
            "off",
            ChatMessage("assistant", "", "Hm"),
            "assistant<|sep|><|open|>think<|sep|>Hm",
        ),
        (KIMI_K3, "", ChatMessage("assistant", "6"), "assistant<|sep|><|open|>response<|sep|>6"),
        (
            KIMI_K3,
            "",
            ChatMessage("assistant", "6", "Hm"),
            "<|open|>think<|sep|>Hm<|close|>think<|sep|><|open|>response<|sep|>6",
        ),
        # Channels have headers, and no tags.
        (
            GPT_OSS,
            "low",
            ChatMessage("assistant", "", "Hm"),
            "<|start|>assistant<|channel|>analysis<|message|>Hm",
        ),
        (
            GPT_OSS,
            "",
            ChatMessage("assistant", "6", "Hm"),
            "analysis<|message|>Hm<|end|><|start|>assistant<|channel|>final<|message|>6",
        ),
        (
            GPT_OSS,
            "",
            ChatMessage("assistant", "6"),
            "<|start|>assistant<|channel|>final<|message|>6",
        ),
    ],
)
def test_a_reply_goes_on_where_it_was(
    template: str, thinking: str, last: ChatMessage, ending: str
) -> None:
    prompt = ChatPrompt([*CHAT, last], thinking=thinking, continue_last=True)
    words = MadeUpVocabulary([], bos="<s>")
    ready, _ = with_thinking(prompt, template, words, looks)
    built = build_prompt(ready, words, template, renders)
    assert built.rendered.endswith(ending)


@pytest.mark.parametrize(
    ("template", "variables", "last", "ending"),
    [
        (
            QWEN35,
            '{"enable_thinking": false}',
            ChatMessage("assistant", "", "Hm"),
            "assistant\n<think>\nHm",
        ),
        (
            DEEPSEEK_V31,
            '{"thinking": true}',
            ChatMessage("assistant", "6"),
            "<｜Assistant｜></think>6",
        ),
    ],
)
def test_a_reply_goes_on_where_it_was_whatever_variables_say(
    template: str, variables: str, last: ChatMessage, ending: str
) -> None:
    prompt = ChatPrompt([*CHAT, last], variables=variables, continue_last=True)
    ready, _ = with_thinking(prompt, template, Words(), looks)
    assert isinstance(ready, ChatPrompt)
    built = build_prompt(ready, MadeUpVocabulary([], bos="<s>"), template, renders)
    assert built.rendered.endswith(ending)


def test_what_a_template_does_unasked_is_what_it_does_with_the_variables() -> None:
    assert looked_at(QWEN35).offer.auto == "on"
    found = looked_at(QWEN35, enable_thinking=False)
    assert (found.offer.choices, found.offer.auto) == (["off", "on"], "off")
    assert looked_at(DEEPSEEK_V31, thinking=True).offer.auto == "on"
    assert looked_at(GPT_OSS, reasoning_effort="high").offer.auto == "high"


# --- what a template may do to us ---------------------------------------------------------------


@pytest.mark.parametrize(
    "template",
    [
        "{{ raise_exception('never') }}",
        "{% for m in messages %}{{ m.content }}{% endfor %}" * 3,
        "",
        "{{ muse }}" + "".join(f"{{{{ v{n} }}}}" for n in range(500)),
    ],
)
def test_odd_templates_offer_nothing(template: str) -> None:
    assert looked_at(template).choices == []


def test_a_word_with_a_space_in_it_is_no_choice() -> None:
    """No setting could hold it, and no menu show it."""
    words = "{% if thinking_mode == 'a\\nb' %}1{% elif thinking_mode == 'c d' %}2{% endif %}"
    assert looked_at(CHATML + words).offer.choices == []


def test_a_template_that_cannot_be_read_says_so() -> None:
    with pytest.raises(TemplateFailed, match="can't be read"):
        looked_at("{% if %}")


def test_a_variable_that_is_only_printed_is_no_switch() -> None:
    assert looked_at(CHATML + "{{ thinking_style }}").offer.choices == []
    assert looked_at(CHATML + "{{ level }}").offer.choices == []
    assert looked_at(CHATML + "{{ date_string }}").offer.choices == []


def test_own_tags_tell_what_a_variable_is_for() -> None:
    template = CHATML + "{% if muse %}{{ '<musing>' }}{% endif %}"
    assert looked_at(template).offer.choices == []
    found = looked_at(template, [("<musing>", "</musing>")])
    assert found.offer.choices == ["off", "on"]
    assert found.choice("on") is not None
    assert found.offer.has_reasoning
