"""Chat templates render as in Transformers, or end in a sentence; hostile ones too."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Any

import pytest

from app.engine.protocol.template_messages import NotRendered, RenderTemplate, TemplateFailed
from app.engine.templates import renderer as templates

HELLO = [{"role": "user", "content": "Hello"}]


def _render(source: str, messages: list[dict[str, Any]] | None = None, **extra: Any) -> str:
    return templates.render(
        RenderTemplate(
            source=source,
            messages=HELLO if messages is None else messages,
            bos_token="<s>",
            eos_token="</s>",
            add_generation_prompt=True,
            extra=extra,
            deadline_s=5,
        ),
        now=lambda: datetime(2026, 3, 5),  # noqa: DTZ001 - templates print local dates
    )


# --- as in Transformers -----------------------------------------------------------------------


def test_filters_and_tests_that_templates_use() -> None:
    """A03."""
    messages = [{"role": "user", "content": "a"}, {"role": "tool", "content": "b"}]
    source = (
        "{{ messages[0].content|safe }}{{ messages is sequence }}"
        "{{ messages|rejectattr('role', 'equalto', 'tool')|list|length }}"
    )
    assert _render(source, messages) == "aTrue1"


def test_tojson_leaves_html_and_unicode_alone_and_indents() -> None:
    assert _render("{{ x | tojson }}", x={"a": "<b> ž"}) == '{"a": "<b> ž"}'
    assert _render("{{ x | tojson(indent=2) }}", x={"a": 1}) == '{\n  "a": 1\n}'


def test_a_real_line_break_in_a_string_is_the_same_as_an_escaped_one() -> None:
    """A06."""
    real = _render("{{ 'a\nb' }}{% if true %}\n  {{ 'c' }}\n{% endif %}\n")
    assert real == _render(r"{{ 'a\nb' }}" + "{% if true %}\n  {{ 'c' }}\n{% endif %}\n")
    assert real == "a\nb  c\n"


def test_blocks_are_trimmed_and_their_indentation_is_stripped() -> None:
    assert _render("x\n   {% if true %}\ny\n   {% endif %}\nz") == "x\ny\nz"


def test_todays_date() -> None:
    """A07."""
    assert _render('{{ strftime_now("%d %b %Y") }}') == "05 Mar 2026"
    assert re.fullmatch(
        datetime.now().astimezone().strftime("%Y"),
        templates.render(RenderTemplate("{{ strftime_now('%Y') }}", [], "", "", False, {}, 5)),
    )


def test_null_content_is_an_empty_string() -> None:
    """A09."""
    message = {"role": "assistant", "content": None, "tool_calls": [{"name": "f"}]}
    source = "{{ messages[0].content + '!' }}{{ messages[0].tool_calls[0].name }}"
    assert _render(source, [message]) == "!f"


@pytest.mark.parametrize("extra", [{}, {"tools": None}, {"tools": []}])
def test_empty_tools_look_as_if_there_were_none(extra: dict[str, Any]) -> None:
    """A09."""
    assert _render("{{ 'tools' if tools is not none else 'none' }}", **extra) == "none"


def test_tools_that_are_there_arrive() -> None:
    assert _render("{{ tools[0].name }}", tools=[{"name": "clock"}]) == "clock"


def test_a_vocabulary_without_bos_gives_an_empty_string() -> None:
    """A11."""
    request = RenderTemplate("[{{ bos_token + 'x' }}]", HELLO, "", "", False, {}, 5)
    assert templates.render(request) == "[x]"


def test_an_undefined_name_is_empty() -> None:
    assert _render("[{{ no_such_thing }}]") == "[]"


def test_reverse_slices_namespaces_and_loop_controls() -> None:
    """A13."""
    source = (
        "{% set ns = namespace(last='') %}{% for m in messages[::-1] %}"
        "{% if m.role == 'tool' %}{% continue %}{% endif %}{% set ns.last = m.content %}{% break %}"
        "{% endfor %}{{ ns.last }}"
    )
    messages = [{"role": "user", "content": "a"}, {"role": "tool", "content": "b"}]
    assert _render(source, messages) == "a"


def test_the_generation_tag_is_transparent() -> None:
    assert _render("{% generation %}a{{ 1 }}{% endgeneration %}b") == "a1b"


# --- the shape of content ---------------------------------------------------------------------

PARTS = (
    "{% for part in messages[0].content %}"
    "{% if part.type == 'text' %}{{ part.text }}{% endif %}{% endfor %}"
)


@pytest.mark.parametrize("source", [PARTS, "{{ messages[0].content[0].text }}"])
def test_a_template_that_reads_parts_gets_parts(source: str) -> None:
    """A12."""
    assert _render(source) == "Hello"


def test_a_template_that_takes_both_gets_a_string() -> None:
    source = (
        "{% if messages[0].content is string %}{{ messages[0].content }}{% else %}no{% endif %}"
    )
    assert _render(source) == "Hello"


def test_content_that_fits_no_shape_is_a_readable_error() -> None:
    """A12."""
    with pytest.raises(TemplateFailed, match=r"failed.*line 2") as caught:
        _render("\n{{ messages[0].content[0].image.url }}")
    assert caught.value.line == 2


# --- errors name the line ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "kind", "line", "words"),
    [
        ("a\nb {{ x | nonsense }}", "bad_template", 2, "No filter named 'nonsense'"),
        ("{% if %}", "bad_template", 1, "can't be read"),
        ("\n\n{% for x in y %}", "bad_template", 3, "can't be read"),
        ("a\n{{ raise_exception('Only user roles!') }}", "raised", 2, "Only user roles!"),
        ("a\n\n{{ x.y.z }}", "failed", 3, "'x' is undefined"),
        ("{{ ''.__class__.__mro__ }}", "failed", 1, "unsafe"),
        ("{{ messages.append(1) }}", "failed", 1, "failed"),
        ("{{ 1 / 0 }}", "failed", 1, "division by zero"),
    ],
)
def test_an_error_is_a_sentence_with_its_line(
    source: str, kind: str, line: int, words: str
) -> None:
    """A03: what jinja2 lacks is named, with the line."""
    with pytest.raises(TemplateFailed) as caught:
        _render(source)
    assert (caught.value.fault, caught.value.line) == (kind, line)
    assert words in caught.value.sentence
    assert "\n" not in caught.value.sentence
    assert "Choose another chat format or another model." in caught.value.sentence


@pytest.mark.parametrize(
    "source",
    [
        "{{ raise_exception(messages[0].content) }}",
        "{{ " + "y" * 100_000 + ".x }}",
        "{{ x | " + "y" * 100_000 + " }}",
    ],
)
def test_what_a_template_says_is_quoted_only_in_part(source: str) -> None:
    with pytest.raises(TemplateFailed) as caught:
        _render(source, messages=[{"role": "user", "content": "word " * 100_000}])
    assert 1000 < len(caught.value.sentence) < 2000
    assert caught.value.sentence.endswith("Choose another chat format or another model.")


def test_more_text_than_allowed_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(templates, "MAX_TEXT_CHARACTERS", 10)
    with pytest.raises(TemplateFailed) as caught:
        _render("{{ 'a' * 11 }}")
    assert caught.value.fault == "too_large"


def test_memory_that_runs_out_is_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    def run_out(*_: object) -> str:
        raise MemoryError

    monkeypatch.setattr(templates, "render", run_out)
    reply = templates.answer(RenderTemplate("", [], "", "", False, {}, 5))
    assert isinstance(reply, NotRendered)
    assert reply.kind == "memory"
