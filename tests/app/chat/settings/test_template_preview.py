"""A preview is what the engine would be given; a faulty template gets a sentence and a line."""

from __future__ import annotations

import dataclasses
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from gguf_writer import CHATML, bpe_vocabulary, spm_vocabulary, tiny_llama

from app.chat.settings.settings import Settings
from app.chat.settings.template_preview import NO_TEMPLATE, SAMPLE, Preview
from app.engine.client.engine import Engine
from app.engine.client.process import child_command
from app.engine.protocol.loading_messages import LoadOptions
from app.engine.protocol.messages import Finished
from app.engine.protocol.prompt_messages import ChatMessage, ChatPrompt, PromptShown, ReadPrompt
from app.engine.protocol.template_messages import TemplateFailed
from app.engine.templates.client import TemplateClient

ENDLESS = "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}"
Asks = Callable[..., Preview]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    made = tmp_path / "weights.gguf"
    tiny_llama(made, vocabulary=bpe_vocabulary())
    return made


@pytest.fixture
def ask(make_room: Any, path: Path) -> Iterator[Asks]:
    room = make_room().start_ready()

    def preview(
        template: str | None, system: str = "Be brief.", file: Path = path, **chosen: Any
    ) -> Preview:
        got: list[Preview] = []
        settings = dataclasses.replace(Settings(), **chosen)
        room.desk.previews.ask(str(file), template, system, got.append, settings)
        found: Preview = room.until(lambda: got, "the preview")[0]
        return found

    yield preview
    room.close()
    assert not any(t.name == "template-preview" and t.is_alive() for t in threading.enumerate())


def stretches(found: Preview, kind: str) -> list[str]:
    return [found.text[each.start : each.end] for each in found.stretches if each.kind == kind]


def test_the_files_own_template_is_rendered_and_everything_in_it_is_told(ask: Asks) -> None:
    found = ask(None)
    assert found.source == CHATML
    assert found.text.startswith("<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\n")
    assert found.text.endswith("<|im_start|>assistant\n")
    assert stretches(found, "system") == ["Be brief."]
    assert stretches(found, "user") == [SAMPLE[0].content, SAMPLE[2].content]
    assert stretches(found, "assistant") == ["Paris."]
    assert stretches(found, "control") == ["<|im_start|>", "<|im_end|>"] * 4 + ["<|im_start|>"]
    assert (found.sentence, found.line, found.notes) == ("", 0, ())


SWITCH = CHATML + (
    "{% if enable_thinking is defined and not enable_thinking %}<think></think>{% endif %}"
    "{% if motto %}{{ motto }}{% endif %}"
)


def test_what_is_chosen_about_thinking_and_the_variables_are_rendered(ask: Asks) -> None:
    assert ask(SWITCH).text.endswith("assistant\n")
    assert ask(SWITCH).variables == ("motto",)
    off = ask(SWITCH, thinking="off", template_variables='{"motto": "Ad astra"}')
    assert off.text.endswith("assistant\n<think></think>Ad astra")
    own = ask(SWITCH, template_variables='{"enable_thinking": false}')
    assert own.text.endswith("assistant\n<think></think>")
    assert ask(SWITCH, thinking="extreme").notes != ()


def test_what_looks_like_a_control_token_in_a_message_is_text(ask: Asks) -> None:
    found = ask(None, "a <|im_end|> b")
    assert stretches(found, "system") == ["a <|im_end|> b"]
    assert len(stretches(found, "control")) == 9


@pytest.mark.parametrize(
    ("template", "words", "line"),
    [
        ("a\n{% for m in messages %}\n{{ m", "can't be read", 3),
        ("a\n{{ messages[9].content.x }}", "line 2", 2),
        ("{{ raise_exception('Only poems.') }}", "Only poems", 1),
    ],
)
def test_a_faulty_template_gets_a_sentence_and_its_line(
    ask: Asks, template: str, words: str, line: int
) -> None:
    found = ask(template)
    assert found.text == ""
    assert found.sentence
    assert words in found.sentence
    assert found.line == line
    assert ask(CHATML).text  # and the next one is rendered


def test_a_form_that_a_template_asks_for_is_said(ask: Asks) -> None:
    strict = (
        "{% if messages[0].role == 'system' %}{{ raise_exception('no system') }}{% endif %}"
        "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}"
        "{% if add_generation_prompt %}assistant:{% endif %}"
    )
    found = ask(strict)
    assert found.text.startswith("user: Be brief.\n\nWhat is")
    (note,) = found.notes
    assert "has no system prompt" in note


def test_a_file_without_a_template_says_so(ask: Asks, tmp_path: Path) -> None:
    bare = tmp_path / "bare.gguf"
    tiny_llama(bare, template=None)
    assert ask(None, file=bare).sentence == NO_TEMPLATE
    assert ask("{{ bos_token }}x", file=bare).text.endswith("x")
    assert "no longer exists" in ask(None, file=tmp_path / "gone.gguf").sentence


def test_only_the_last_question_is_answered(make_room: Any, path: Path) -> None:
    room = make_room().start_ready()
    got: list[str] = []
    for number in range(20):
        room.desk.previews.ask(str(path), f"{number}", "", lambda f: got.append(f.text))
    room.until(lambda: "19" in got, "the last one")
    assert len(got) <= 3


@pytest.mark.alone
def test_closing_does_not_wait_for_a_template_that_never_ends(make_room: Any, path: Path) -> None:
    room = make_room().start_ready()
    got: list[Preview] = []
    room.desk.previews.ask(str(path), CHATML, "", got.append)
    room.until(lambda: got)
    room.desk.previews.ask(str(path), ENDLESS, "", got.append)
    time.sleep(0.2)
    began = time.monotonic()
    room.desk.previews.close()
    assert time.monotonic() - began < 2.0
    room.close()


@pytest.fixture
def sentence_pieces(tmp_path: Path) -> Path:
    path = tmp_path / "pieces.gguf"
    tiny_llama(path, vocabulary=spm_vocabulary())
    return path


@pytest.mark.parametrize(
    "file",
    ["starter_gguf", "sentence_pieces", pytest.param("gemma_gguf", marks=pytest.mark.soak)],
)
def test_it_is_what_the_engine_would_be_given(
    forked_engines: None, make_room: Any, request: pytest.FixtureRequest, file: str
) -> None:
    """llama.cpp's words for the special tokens against those out of the file."""
    real = request.getfixturevalue(file)
    template = (
        "{{ bos_token }}|{{ eos_token }}|{{ unk_token }}|{{ pad_token }}|"
        "{% for m in messages %}{{ m.role }}={{ m.content | trim }};{% endfor %}"
    )
    room = make_room().start_ready()
    got: list[Preview] = []
    room.desk.previews.ask(str(real), template, "Be brief.", got.append)
    preview = room.until(lambda: got, "the preview")[0]
    room.close()
    assert preview.text
    ended: list[Any] = []
    engine = Engine(child_command("engine"), ended.append)
    engine.start()
    try:
        engine.load(str(real), LoadOptions(n_ctx=512, n_threads=1))
        wait(lambda: [e for e in ended if isinstance(e, Finished)])
        chat = ChatPrompt([ChatMessage("system", "Be brief."), *SAMPLE], template=template)
        engine.request(ReadPrompt(0, chat))
        shown = wait(
            lambda: [
                e.result
                for e in ended
                if isinstance(e, Finished) and isinstance(e.result, PromptShown)
            ]
        )[0]
    finally:
        engine.close()
    assert preview.text == shown.rendered


def test_an_answer_that_is_under_way_as_a_newer_question_is_asked_is_dropped(
    make_room: Any, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    room = make_room().start_ready()
    previews, posted, came = room.desk.previews, [], threading.Semaphore(0)
    is_taken, goes_on = threading.Event(), threading.Event()
    told: list[str] = []

    def answer(question: Any) -> Preview:
        if question.template == "second":
            is_taken.set()
            goes_on.wait(20)
        return Preview(question.template)

    others = room.desk.around.post

    def post(act: Callable[[], None]) -> None:
        if threading.current_thread().name != "template-preview":
            others(act)
            return
        posted.append(act)
        came.release()

    monkeypatch.setattr(previews, "_answer", answer)
    room.desk.around.post = post
    previews.ask(str(path), "first", "", lambda found: told.append(found.source))
    assert came.acquire(timeout=20)
    previews.ask(str(path), "second", "", lambda found: told.append(found.source))
    assert is_taken.wait(20)
    posted.pop(0)()
    assert told == []
    goes_on.set()
    assert came.acquire(timeout=20)
    posted.pop(0)()
    assert told == ["second"]


def wait(condition: Callable[[], Any]) -> Any:
    ends_at = time.monotonic() + 30
    while not (found := condition()):
        assert time.monotonic() < ends_at
        time.sleep(0.01)
    return found


def test_an_abandoned_client_renders_nothing_any_more() -> None:
    client = TemplateClient()
    client.abandon()
    with pytest.raises(TemplateFailed):
        client.render("x", [], bos_token="", eos_token="", add_generation_prompt=True)
