"""Whose each stretch of a message is, also where messages are joined, led, or trimmed."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, strategies as st
from test_prompt import (
    ALTERNATING,
    CHATML,
    NO_SYSTEM,
    TRIMMING,
    MadeUpVocabulary,
    _build,
    _origins,
    _render,
)

from app.engine.prompts.prompt import build_prompt
from app.engine.prompts.sources import joined, led, rendered_sources, sourced
from app.engine.protocol.prompt_messages import ChatMessage, TextPrompt


def attached(text: str, *spans: tuple[int, int], message_id: str = "u") -> ChatMessage:
    return ChatMessage("user", text, message_id=message_id, attachments=list(spans))


def whose(message: Any) -> list[tuple[str, str]]:
    return [(origin, message.content[start:end]) for start, end, origin, _ in message.sources]


def test_attached_texts_stand_between_what_was_typed() -> None:
    said = sourced(attached("FILE and FILE!", (0, 4), (9, 13)))
    assert whose(said) == [
        ("attachment", "FILE"),
        ("user", " and "),
        ("attachment", "FILE"),
        ("user", "!"),
    ]


def test_spans_that_overlap_or_lie_outside_claim_nothing_twice() -> None:
    said = sourced(attached("abcdef", (4, 99), (1, 3), (2, 5), (3, 3)))
    assert whose(said) == [
        ("user", "a"),
        ("attachment", "bc"),
        ("attachment", "de"),
        ("attachment", "f"),
    ]


def test_spans_move_along_where_halves_of_characters_are_put_together() -> None:
    said = sourced(attached("\ud83d\ude42 x \ud83d\ude42 y", (5, 7)))
    assert said.content == "🙂 x 🙂 y"
    assert whose(said) == [("user", "🙂 x "), ("attachment", "🙂"), ("user", " y")]


def test_joined_messages_keep_their_ids_and_the_blank_line_is_nobodys() -> None:
    system = sourced(ChatMessage("system", "Be brief.", message_id="s"))
    user = sourced(attached("FILE Hi", (0, 4)))
    both = joined([system, user], into=user)
    assert (both.role, both.message_id, both.content) == ("user", "u", "Be brief.\n\nFILE Hi")
    assert both.sources == (
        (0, 9, "system", "s"),
        (11, 15, "attachment", "u"),
        (15, 18, "user", "u"),
    )


def test_what_is_put_before_a_message_is_its_own() -> None:
    said = led(sourced(ChatMessage("assistant", "Paris", token_ids=[1], message_id="a")), " ")
    assert said.content == " Paris"
    assert said.token_ids == [1]
    assert said.sources == ((0, 1, "assistant", "a"), (1, 6, "assistant", "a"))


def test_sources_of_what_a_template_trims() -> None:
    said = sourced(attached("  FILE Hi  ", (2, 6)))
    assert rendered_sources(said, "FILE Hi", 100) == [
        (100, 104, "attachment", "u"),
        (104, 107, "user", "u"),
    ]
    assert rendered_sources(said, "Hi  ", 10) == [(10, 14, "user", "u")]
    assert rendered_sources(said, "file hi", 10) == [(10, 17, "user", "u")]


TEXTS = st.text(alphabet="ab \n🙂é<|im_end|>", min_size=1, max_size=12)


@given(st.lists(st.tuples(TEXTS, st.booleans()), min_size=1, max_size=4), st.integers(0, 3))
def test_sources_cover_a_content_and_any_trimmed_form_without_gaps(
    stretches: list[tuple[str, bool]], cut: int
) -> None:
    content, spans = "", []
    for text, is_file in stretches:
        if is_file:
            spans.append((len(content), len(content) + len(text)))
        content += text
    said = sourced(attached(content, *spans))
    for form in (content, content.strip(), content.lstrip(), content.rstrip(), content[cut:]):
        found = rendered_sources(said, form, 7)
        borders = [7, *(end for _, end, _, _ in found)]
        assert [start for start, *_ in found] == borders[:-1]
        assert borders[-1] == 7 + len(form)


# --- in a whole prompt --------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{}, {"add_bos": True}, {"space_prefix": True}])
def test_what_weights_wrote_of_a_document_is_told_from_what_was_typed(
    options: dict[str, Any],
) -> None:
    vocabulary = MadeUpVocabulary(["Hi", " there", "ere"], **options)
    text = "Hi there <|im_end|> Hi"
    generated = [(2, 8), (20, 22)]
    built = build_prompt(TextPrompt(text, generated=generated), vocabulary, None, _render)
    plain = build_prompt(TextPrompt(text), vocabulary, None, _render)
    assert built.ids == plain.ids
    found = [(origin, said.strip()) for origin, said in _origins(built, vocabulary)]
    if options.get("add_bos"):
        assert found.pop(0) == ("scaffold", "<s>")
    assert found == [
        ("text", "Hi"),
        ("assistant", "there"),
        ("text", "<|im_end|>"),
        ("assistant", "Hi"),
    ]


FILE = "Attached file “a.txt”:\n```\nbye <|im_end|>\n```"


def test_an_attachment_is_told_from_what_was_typed_also_with_control_text_in_it() -> None:
    vocabulary = MadeUpVocabulary()
    message = attached(f"{FILE}\n\nWhat is it?", (0, len(FILE)))
    for template in (CHATML, TRIMMING):
        built = _build([message], template, vocabulary)
        found = _origins(built, vocabulary)
        assert ("attachment", FILE) in found
        assert ("user", "\n\nWhat is it?") in found
        assert built.ids.count(vocabulary.id("<|im_end|>")) == 1


def test_a_system_prompt_that_is_folded_into_a_message_stays_the_system_s() -> None:
    vocabulary = MadeUpVocabulary()
    system = ChatMessage("system", "Be brief.", message_id="s")
    built = _build([system, attached("Hi")], NO_SYSTEM, vocabulary)
    found = _origins(built, vocabulary)
    assert ("system", "Be brief.") in found
    assert ("user", "Hi") in found
    owners = {part.origin: part.message_id for part in built.parts}
    assert (owners["system"], owners["user"]) == ("s", "u")


def test_merged_neighbours_stay_two_messages() -> None:
    vocabulary = MadeUpVocabulary()
    messages = [attached("one", message_id="1"), attached("two", message_id="2")]
    built = _build(messages, ALTERNATING, vocabulary)
    assert [p.message_id for p in built.parts if p.origin == "user"] == ["1", "2"]
    assert _origins(built, vocabulary)[1:4] == [
        ("user", "one"),
        ("scaffold", "\n\n"),
        ("user", "two"),
    ]
