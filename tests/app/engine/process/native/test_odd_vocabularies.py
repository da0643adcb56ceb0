"""Vocabularies as they come from odd converters: replies through them, and hostile ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from gguf_writer import (
    BYTE,
    NORMAL,
    Shape,
    Vocabulary,
    bpe_vocabulary,
    spm_vocabulary,
    tiny_llama,
)
from native_session import NativeSession, load_quietly

from app.engine.client.engine import Engine
from app.engine.client.process import child_command
from app.engine.process.native.native import NativeLog
from app.engine.process.native.weights import Weights
from app.engine.protocol.loading_messages import LoadOptions
from app.engine.protocol.messages import Failed, Finished, Generate
from app.engine.protocol.prompt_messages import TextPrompt

pytestmark = pytest.mark.weights

Say = Callable[[Vocabulary, list[int]], str]

NO_BYTES = ["<0x-1>", "<0xZZ>", "<0xFFF>", "<0x>"]


@pytest.fixture
def say(tmp_path: Path, native_log: NativeLog) -> Iterator[Say]:
    """Lets a file say some tokens in a row, and returns the text of the reply."""
    opened: list[Weights] = []

    def say(vocabulary: Vocabulary, tokens: list[int]) -> str:
        start = vocabulary.id_of("#")
        path = tmp_path / f"odd{len(opened)}.gguf"
        following = dict(zip([start, *tokens], [*tokens, vocabulary.eos_id or 0], strict=True))
        tiny_llama(path, vocabulary=vocabulary, successors=following, shape=Shape(n_embd=64))
        opened.append(load_quietly(path, native_log, n_ctx=256, n_threads=1))
        session = NativeSession(opened[-1], native_log)
        summary = session.reply([start], max_tokens=32)
        assert summary.token_ids == tokens
        assert session.streamed(1) == summary.text
        return summary.text

    yield say
    for weights in opened:
        weights.close()


@pytest.mark.parametrize("prefix", [None, True, False])
def test_white_space_at_the_beginning_is_kept(say: Say, prefix: bool | None) -> None:
    """B04: with and without a space that the vocabulary puts before texts."""
    vocabulary = spm_vocabulary(["hello", " world"], add_space_prefix=prefix)
    hello, world = vocabulary.id_of("hello"), vocabulary.id_of(" world")
    space, line = vocabulary.id_of(" "), vocabulary.id_of_byte(10)
    assert say(vocabulary, [world, hello]) == " worldhello"
    assert say(vocabulary, [space, hello]) == " hello"
    assert say(vocabulary, [line, space, world]) == "\n  world"


def test_a_code_block_keeps_its_indentation(say: Say) -> None:
    """B04."""
    vocabulary = bpe_vocabulary(["    x", "hello"])
    indented, hello = vocabulary.id_of("    x"), vocabulary.id_of("hello")
    assert say(vocabulary, [indented, hello]) == "    xhello"


@pytest.mark.parametrize(("kind", "shown"), [(BYTE, "\n"), (NORMAL, "<0x0A>")])
def test_byte_tokens_are_shown_as_the_file_defines_them(say: Say, kind: int, shown: str) -> None:
    """B05: some converters write byte tokens as ordinary ones."""
    vocabulary = spm_vocabulary(["hello"], byte_type=kind)
    hello, line = vocabulary.id_of("hello"), vocabulary.tokens.index("<0x0A>")
    assert say(vocabulary, [hello, line]) == f"hello{shown}"


@pytest.mark.parametrize(
    ("model", "token"),
    [
        *(("plamo2", token) for token in NO_BYTES),
        ("llama", NO_BYTES[0]),
        *(pytest.param("llama", token, marks=pytest.mark.soak) for token in NO_BYTES[1:]),
    ],
)
def test_byte_tokens_of_no_byte_are_refused_or_end_the_child_alone(
    forked_engines: None, tmp_path: Path, model: str, token: str
) -> None:
    """D04: such a token made a tokeniser write outside its memory."""
    sound = spm_vocabulary(["hello"])
    tokens = [token if text == "<0x00>" else text for text in sound.tokens]
    tiny_llama(tmp_path / "odd.gguf", vocabulary=replace(sound, tokens=tokens, model=model))
    tiny_llama(tmp_path / "sound.gguf", vocabulary=sound)
    engine = Engine(child_command("engine"), lambda _: None)
    try:
        options = LoadOptions(n_ctx=256, n_threads=1)
        ending = engine.wait_for(engine.load(tmp_path / "odd.gguf", options), 60)
        assert isinstance(ending, Finished | Failed)
        if isinstance(ending, Finished):
            reply = engine.generate(Generate(0, TextPrompt(f"hello {token}"), max_tokens=4))
            assert isinstance(engine.wait_for(reply, 60), Finished | Failed)
        ending = engine.wait_for(engine.load(tmp_path / "sound.gguf", options), 60)
        assert isinstance(ending, Finished)
    finally:
        engine.close()
