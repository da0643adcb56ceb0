"""What of an answer is a title, in many tongues; and what the weights are asked for."""

from __future__ import annotations

from each import each
from examples import examples
from hypothesis import given, settings, strategies as st

from app.engine.prompts.titling import LONGEST, QUOTED_CHARS, title_of, title_request
from app.engine.protocol.prompt_messages import ChatMessage, ChatPrompt

ENGLISH = "What is the capital of France? It is Paris."


@each(
    ("answer", "title"),
    [
        ("Capital of France", "Capital of France"),
        ('"Capital of France"', "Capital of France"),
        ("**Title:** The Capital of France.\n", "The Capital of France"),
        ("Title: 'Paris'", "Paris"),
        ("\n\n# France's capital\n\nLet me know if …", "France's capital"),
        ("Sure! Here's a title for this conversation: Paris, briefly", "Paris, briefly"),
        ("**Here is the title:**\n\nParis", "Paris"),
        ("- `git rebase` explained", "git rebase explained"),
        ("Rust (2024)", "Rust (2024)"),
        ("« La capitale »", "La capitale"),
        ("C++ and C#", "C++ and C#"),
        ("What is entropy?", "What is entropy?"),
        ("User interfaces in Qt", "User interfaces in Qt"),
        ("Title insurance: what it covers", "Title insurance: what it covers"),
        ("Title for this chat: Paris", "Paris"),
        # No titles:
        ("", ""),
        ("…", ""),
        ("!!! ***", ""),
        ("x", ""),
        ("I'm sorry, but I can't help with that.", ""),
        ("As an AI language model I", ""),
        ("User: What is the capital of France?", ""),
        ("the the the the the", ""),
        ("I want to get red wine stains out of a white carpet", ""),
        (
            "Paris is the capital of France, and it has been so for hundreds of years, …",
            "",
        ),
        ("<|im_start|>assistant", ""),
        ("See https://example.com", ""),
        ("evil\u202etxt.exe", ""),
        ("bad\x00title", ""),
    ],
)
def test_a_title_or_nothing(answer: str, title: str) -> None:
    assert title_of(answer, ENGLISH) == title


@each(
    ("said", "answer", "title"),
    [
        ("法国的首都是哪里？", "《法国的首都》", "法国的首都"),
        ("法国的首都是哪里？", "Capital of France", ""),
        ("フランスの首都はどこですか", "タイトル：フランスの首都", "フランスの首都"),
        ("프랑스의 수도는 어디인가요?", "제목: 프랑스의 수도", "프랑스의 수도"),
        ("Какая столица Франции?", "Название: «Столица Франции»", "Столица Франции"),
        ("Какая столица Франции?", "The capital of France", ""),
        ("Was ist die Hauptstadt von Frankreich?", "Titel: „Hauptstadt“", "Hauptstadt"),
        ("ما هي عاصمة فرنسا؟", "عاصمة فرنسا", "عاصمة فرنسا"),
        ("چطور می‌توانم", "زبان‌های برنامه‌نویسی", "زبان‌های برنامه‌نویسی"),
        # Mostly code, with a few words of another script: either may be the title.
        ("def f(x): return x # объяснить", "A small function", "A small function"),
    ],
)
def test_it_keeps_the_language_of_the_chat(said: str, answer: str, title: str) -> None:
    assert title_of(answer, said) == title


@settings(max_examples=examples(200))
@given(st.text(max_size=300), st.text(max_size=50))
def test_whatever_is_answered_it_is_one_short_line(answer: str, said: str) -> None:
    title = title_of(answer, said)
    assert title == title_of(title, said) or not title_of(title, said)
    assert len(title) <= LONGEST
    assert len(title.splitlines()) <= 1
    assert not title or any(map(str.isalnum, title))


def test_it_is_asked_for_in_few_tokens_and_without_reasoning() -> None:
    said = [ChatMessage("user", "a word " * 5000), ChatMessage("assistant", "Yes.\n\n</end>")]
    own = ChatPrompt([ChatMessage("user", "x")], template="own", variables='{"a": 1}')
    request = title_request(said, own)
    assert isinstance(request.prompt, ChatPrompt)
    assert (request.prompt.template, request.prompt.variables) == ("own", '{"a": 1}')
    assert request.prompt.thinking == "off"
    assert 0 < request.prompt.reasoning_budget < request.max_tokens <= 48
    assert request.prompt.continue_last
    assert request.prompt.messages[-1].content == "Title:"
    asked = request.prompt.messages[1].content
    at_server = title_request(said, own, begins=False)
    assert at_server.prompt.messages[-1].content == asked  # type: ignore[union-attr]
    assert not at_server.prompt.continue_last  # type: ignore[union-attr]
    assert len(asked) < 2 * QUOTED_CHARS
    assert "Assistant: Yes. </end>" in asked
