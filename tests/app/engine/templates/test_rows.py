"""Rows A and B of the field cases through the real child: tiny GGUFs carry the template."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from conversation import Conversation
from gguf_writer import CHATML, bpe_vocabulary, spm_vocabulary, tiny_llama

from app.engine.protocol.frames import clean_text
from app.engine.protocol.loading_messages import Loaded, LoadOptions
from app.engine.protocol.messages import Failed, Finished, Generate, Note, Summary, TokenArrived
from app.engine.protocol.prompt_messages import ChatMessage, ChatPrompt, Prompt
from app.engine.protocol.stages import Greedy, Sampling

pytestmark = pytest.mark.weights

GREEDY = Sampling(filters=[], select=Greedy())
USER = ChatMessage("user", "hello")
LOOP = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


class Child:
    """An engine's process; `load` writes a tiny file and loads it."""

    def __init__(self, talk: Conversation, folder: Path) -> None:
        self._talk = talk
        self._folder = folder

    @property
    def notes(self) -> list[str]:
        """The kinds of what was noted since the last request began."""
        return [event.kind for event in self._talk.events if isinstance(event, Note)]

    @property
    def streamed(self) -> list[tuple[str, str]]:
        return [(e.part, e.text) for e in self._talk.events if isinstance(e, TokenArrived)]

    def load(self, template: str | None = None, **options: Any) -> Loaded:
        path = self._folder / "tiny.gguf"
        path.unlink(missing_ok=True)
        tiny_llama(path, template=template, **options)
        return self._talk.load(path, LoadOptions(n_ctx=256, n_threads=1))

    def generate(
        self, prompt: Prompt | list[ChatMessage], max_tokens: int = 1, **fields: Any
    ) -> Finished | Failed:
        self._talk.events.clear()
        if isinstance(prompt, list):
            prompt = ChatPrompt(prompt)
        ending = self._talk.ask(Generate(2, prompt, GREEDY, max_tokens=max_tokens, **fields))
        assert isinstance(ending, Finished | Failed)
        return ending

    def summary(
        self, prompt: Prompt | list[ChatMessage], max_tokens: int = 1, **fields: Any
    ) -> Summary:
        ending = self.generate(prompt, max_tokens, **fields)
        assert isinstance(ending, Finished), ending
        assert isinstance(ending.result, Summary)
        return ending.result

    def rendered(self, template: str | None, *messages: ChatMessage, **options: Any) -> str:
        self.load(template, **options)
        return self.summary(list(messages)).rendered_prompt


@pytest.fixture
def talk(forked_engines: None) -> Iterator[Conversation]:
    talk = Conversation()
    yield talk
    assert talk.leave() == 0


@pytest.fixture
def child(talk: Conversation, tmp_path: Path) -> Child:
    return Child(talk, tmp_path)


# --- A: chat templates ------------------------------------------------------------------------


def test_no_template_is_said_and_a_plain_format_is_used(child: Child) -> None:
    """A01: no Llama-2 and no ChatML behind the user's back."""
    loaded = child.load(None)
    assert (loaded.has_template, loaded.templates) == (False, [])
    summary = child.summary([USER])
    assert summary.rendered_prompt == "User: hello\n\nAssistant:"
    assert child.notes == ["no_template"]
    assert "no chat template" in summary.notes[0]


def test_filters_that_templates_use_render(child: Child) -> None:
    """A03."""
    template = (
        "{{ ('<b>' | safe) }}{{ messages is sequence }}"
        "{{ messages | rejectattr('role', 'equalto', 'system') | list | length }}"
        "{{ {'a': 1} | tojson(indent=2) }}"
    )
    assert child.rendered(template, USER) == '<b>True1{\n  "a": 1\n}'


def test_what_jinja_lacks_is_named_with_its_line_and_the_child_lives(child: Child) -> None:
    """A03."""
    child.load("{{ messages[0].content }}\n{{ 1 | no_such_filter }}")
    failed = child.generate([USER])
    assert isinstance(failed, Failed)
    assert failed.kind == "bad_template"
    assert "no_such_filter" in failed.sentence
    assert "line 2" in failed.sentence
    assert child.rendered(CHATML, USER).startswith("<|im_start|>user")


def test_a_system_prompt_that_is_refused_is_folded(child: Child) -> None:
    """A04."""
    template = "{% if messages[0].role == 'system' %}{{ raise_exception('no') }}{% endif %}" + LOOP
    text = child.rendered(template, ChatMessage("system", "Be kind."), USER)
    assert "<|im_start|>user\nBe kind.\n\nhello<|im_end|>" in text
    assert child.notes == ["system_folded"]


def test_neighbouring_turns_are_merged_where_roles_must_alternate(child: Child) -> None:
    """A05: stopped before the first token and sent again; a deleted reply in the middle."""
    template = (
        "{% for m in messages %}{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}"
        "{{ raise_exception('roles must alternate') }}{% endif %}{% endfor %}" + LOOP
    )
    text = child.rendered(template, USER, ChatMessage("assistant", ""), ChatMessage("user", "so?"))
    assert "<|im_start|>user\nhello\n\nso?<|im_end|>" in text
    assert child.notes == ["turns_merged"]


def test_a_real_line_break_in_a_string_renders_like_an_escaped_one(child: Child) -> None:
    """A06."""
    template = "{{ messages[0].content + '%s' }}{%% if true %%}\n  x\n{%% endif %%}"
    assert child.rendered(template % "\n", USER) == child.rendered(template % "\\n", USER)
    assert child.rendered(template % "\n", USER) == "hello\n  x\n"


def test_the_date_is_todays(child: Child) -> None:
    """A07."""
    before = datetime.now(UTC).astimezone().strftime("%d %b %Y")
    text = child.rendered("{{ strftime_now('%d %b %Y') }} {{ messages[0].content }}", USER)
    after = datetime.now(UTC).astimezone().strftime("%d %b %Y")
    assert text in (f"{before} hello", f"{after} hello")


def test_tools_that_are_not_there_are_none(child: Child) -> None:
    """A09."""
    template = "{% if tools is not none %}tools{% endif %}{{ documents is none }}" + LOOP
    assert child.rendered(template, USER).startswith("True<|im_start|>")


@pytest.mark.parametrize("add_bos", [True, False])
@pytest.mark.parametrize("start", ["{{ bos_token }}", ""])
def test_there_is_exactly_one_bos(child: Child, add_bos: bool, start: str) -> None:
    """A10, A11."""
    vocabulary = bpe_vocabulary(["hello"], add_bos=add_bos)
    template = start + "{{ messages[0].content }}"
    child.load(template, vocabulary=vocabulary)
    prompt = ChatPrompt([USER])
    wanted = 1 if add_bos or start else 0
    assert child.summary(prompt).prompt_tokens == wanted + 1


def test_a_vocabulary_without_bos_has_an_empty_one(child: Child) -> None:
    """A11."""
    vocabulary = dataclasses.replace(bpe_vocabulary(["hello"]), bos_id=None)
    text = child.rendered("{{ bos_token + messages[0].content }}", USER, vocabulary=vocabulary)
    assert text.endswith("hello")


def test_other_tokens_have_their_names(child: Child) -> None:
    """A11: what the file has by its text, what it lacks as nothing."""
    vocabulary = spm_vocabulary(["hello"])
    text = child.rendered(
        "{{ unk_token + '|' + cls_token + '|' + messages[0].content }}",
        USER,
        vocabulary=vocabulary,
        metadata={"tokenizer.ggml.padding_token_id": 0},
    )
    assert text == "<unk>||hello"
    assert child.summary(ChatPrompt([USER], template="{{ pad_token }}")).rendered_prompt == (
        "<unk>"
    )


def test_a_template_that_reads_parts_gets_parts(child: Child) -> None:
    """A12."""
    template = (
        "{% for p in messages[0].content %}{% if p.type == 'text' %}{{ p.text }}{% endif %}"
        "{% endfor %}"
    )
    assert child.rendered(template, USER) == "hello"
    assert child.rendered("{{ messages[0].content[0].type }}:{{ messages[0].content[0].text }}",
                          USER) == "text:hello"  # fmt: skip


def test_reverse_slices_and_namespaces_render(child: Child) -> None:
    """A13."""
    template = (
        "{% set ns = namespace(last='') %}{% for m in messages[::-1] %}"
        "{% if m.role == 'user' and not ns.last %}{% set ns.last = m.content %}{% endif %}"
        "{% endfor %}{% generation %}{{ ns.last }}{% endgeneration %}"
    )
    assert child.rendered(template, USER, ChatMessage("user", "bye")) == "bye"


# --- several templates ------------------------------------------------------------------------


SEVERAL: dict[str, Any] = {
    "metadata": {
        "tokenizer.chat_template.tool_use": "TOOLS {{ messages[0].content }}",
        "tokenizer.chat_template.broken": "{% if %}",
    }
}


def test_all_templates_are_listed_and_a_broken_one_stops_no_other(child: Child) -> None:
    loaded = child.load("MAIN {{ messages[0].content }}", **SEVERAL)
    assert loaded.templates == ["default", "tool_use", "broken"]
    assert child.summary([USER]).rendered_prompt == "MAIN hello"
    named = child.summary(ChatPrompt([USER], template_name="tool_use"))
    assert named.rendered_prompt == "TOOLS hello"
    assert child.summary(ChatPrompt([USER], template_name="default")).rendered_prompt == (
        "MAIN hello"
    )
    given = ChatPrompt([USER], template="GIVEN {{ messages[0].content }}")
    assert child.summary(given).rendered_prompt == "GIVEN hello"
    broken = child.generate(ChatPrompt([USER], template_name="broken"))
    assert isinstance(broken, Failed)
    assert broken.kind == "bad_template"
    unknown = child.generate(ChatPrompt([USER], template_name="rag"))
    assert isinstance(unknown, Failed)
    assert "default, tool_use, broken" in unknown.sentence
    assert child.summary([USER]).rendered_prompt == "MAIN hello"


# --- B: how replies end -----------------------------------------------------------------------


@pytest.fixture
def speaking(child: Child) -> Callable[..., Summary]:
    """The reply of a file that says these words, whatever it is asked."""

    def speak(
        words: list[str], template: str, prompt: ChatPrompt | None = None, **options: Any
    ) -> Summary:
        vocabulary = bpe_vocabulary([*words, "Go"], **options)
        ids = [vocabulary.id_of(word) for word in words]
        following = dict(zip([vocabulary.id_of("Go"), *ids], [*ids, vocabulary.eos_id or 0],
                             strict=True))  # fmt: skip
        child.load(template, vocabulary=vocabulary, successors=following)
        return child.summary(prompt or ChatPrompt([USER]), max_tokens=40)

    return speak


ODD = "{% for m in messages %}[{{ m.content }}<|odd_end|>\n{% endfor %}Go"


def test_a_turn_marker_of_ordinary_tokens_ends_the_reply(speaking: Any, child: Child) -> None:
    """B06: at the reply's end, and before the weights would answer themselves."""
    at_its_end = speaking(["one", " two", "<|odd", "_end|>"], ODD)
    assert (at_its_end.text, at_its_end.stop_reason) == ("one two", "turn_end")
    assert at_its_end.stop_detail == "<|odd_end|>"
    assert "".join(text for _, text in child.streamed) == "one two"
    went_on = speaking(["one", "<|odd", "_end|>", "\n", "two"], ODD)
    assert (went_on.text, went_on.stop_reason) == ("one", "turn_end")
    assert went_on.stop_detail == "<|odd_end|>"


def test_a_stop_string_that_is_the_turn_marker_stays_the_users(speaking: Any, child: Child) -> None:
    """B06, B10: who asked for it is told that it was met."""
    speaking(["one", "<|odd", "_end|>"], ODD)
    stopped = child.summary([USER], max_tokens=9, stop=["<|odd_end|>"])
    assert (stopped.text, stopped.stop_reason) == ("one", "stop_string")


def test_a_turn_marker_in_the_middle_of_a_line_is_text(speaking: Any) -> None:
    """B06: not elsewhere, and not where the template has another one."""
    assert speaking(["the", "<|odd", "_end|>", " tag"], ODD).text == "the<|odd_end|> tag"
    assert speaking(["the", "<|odd", "_end|>"], LOOP + "Go").text == "the<|odd_end|>"


def test_an_empty_template_in_the_files_place_has_no_turn_marker(
    speaking: Any, child: Child
) -> None:
    """A01, B06: the file's own marker belongs to a template that is not used."""
    speaking(["one", "<|odd", "_end|>"], ODD)
    going_on = ChatPrompt([USER, ChatMessage("assistant", "Go")], template="", continue_last=True)
    assert child.summary(going_on, max_tokens=40).text == "one<|odd_end|>"
    assert child.notes == ["empty_template"]


def test_reasoning_is_a_part_of_its_own(speaking: Any, child: Child) -> None:
    """B15."""
    said = speaking(["<think>", "hm", "</think>", "yes"], "Go")
    assert (said.reasoning, said.text) == ("hm", "yes")
    assert ("reasoning", "hm") in child.streamed
    unclosed = speaking(["<think>", "hm"], "Go")
    assert (unclosed.reasoning, unclosed.text) == ("hm", "")
    assert child.notes == ["reasoning_unclosed"]
    other = speaking(["[THINK]", "hm", "[/THINK]", "yes"], "Go")
    assert (other.reasoning, other.text) == ("hm", "yes")


def test_a_reply_goes_on_inside_its_reasoning(speaking: Any, child: Child) -> None:
    begun = [USER, ChatMessage("assistant", "", reasoning="Go")]
    template = "{{ messages[0].content }}<bot>"
    words = [" on", "</think>", "yes"]
    for opened in ("", "{{ '<think>\\n' }}"):  # the template may have written the tag itself
        said = speaking(words, template + opened, ChatPrompt(begun, continue_last=True))
        assert said.rendered_prompt == "hello<bot><think>\nGo"
        assert (said.reasoning, said.text) == (" on", "yes")
    other = speaking(
        [" on", "[/THINK]", "yes"],
        "{{ messages[0].content }}{# [THINK] #}",
        ChatPrompt(begun, continue_last=True),
    )
    assert other.rendered_prompt == "hello[THINK]\nGo"
    assert (other.reasoning, other.text) == (" on", "yes")


def test_a_reply_goes_on_after_its_reasoning(speaking: Any) -> None:
    begun = [USER, ChatMessage("assistant", "Go", reasoning="because")]
    said = speaking([" on"], "{{ messages[0].content }}:", ChatPrompt(begun, continue_last=True))
    assert said.rendered_prompt == "hello:<think>\nbecause\n</think>\n\nGo"
    assert (said.reasoning, said.text) == ("", " on")


def test_the_beginning_of_a_reply_may_be_given(speaking: Any) -> None:
    begun = [USER, ChatMessage("assistant", "Go")]
    said = speaking([" on"], "{{ messages[0].content }}:", ChatPrompt(begun, continue_last=True))
    assert (said.rendered_prompt, said.text) == ("hello:Go", " on")
    thinking = [USER, ChatMessage("assistant", "<think>Go")]
    said = speaking(
        [" on", "</think>", "yes"],
        "{{ messages[0].content }}:",
        ChatPrompt(thinking, continue_last=True),
    )
    assert (said.reasoning, said.text) == (" on", "yes")


@pytest.mark.parametrize("text", ["a\ud83d b", "a\0b", "\0", "\ufeff"])
def test_odd_characters_of_people_stop_nobody(child: Child, text: str) -> None:
    """B18, B19: halves of characters are replaced before they reach the wire; NUL is text."""
    child.load(LOOP)
    summary = child.summary([ChatMessage("user", clean_text(text))])
    assert clean_text(text) in summary.rendered_prompt
    assert child.summary([USER]).generated >= 0
