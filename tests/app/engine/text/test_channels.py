"""Channels of a reply, however the stream is cut, and on a file whose vocabulary has them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from gguf_writer import bpe_vocabulary, tiny_llama
from hypothesis import given, strategies as st
from native_session import GREEDY, NativeSession, ReadyPrompt, load_quietly

from app.engine.process.cache.slot import splitter_for
from app.engine.process.native.native import NativeLog
from app.engine.prompts.tokens import PromptTokenizer, split_control
from app.engine.protocol.messages import Finished, Generate, Note, Summary
from app.engine.protocol.prompt_messages import ChatMessage, ChatPrompt
from app.engine.protocol.tool_messages import Part, ToolCall
from app.engine.text.calls import CUT_OFF, NOT_JSON, ChannelReader, Offered
from app.engine.text.channels import MARKS, ChannelSplitter, channel_marks
from app.engine.text.text import ReplyText

CONTROL = ("<|startoftext|>", *MARKS, "<|return|>")

REPLIES = {
    "<|channel|>analysis<|message|>2+2?<|end|><|start|>assistant<|channel|>final<|message|>4": (
        "2+2?",
        "4",
    ),
    "<|channel|>final<|message|>4": ("", "4"),
    "<|message|>4": ("", "4"),
    "just 4": ("", "just 4"),
    " to": ("", " to"),
    "<|channel|>analysis<|message|>hm": ("hm", ""),
    "<|channel|>analy": ("", ""),
    "<|channel|>analysis<|message|>a<|end|><|start|>assistant<|channel|>analysis<|message|>b": (
        "a\n\nb",
        "",
    ),
    "<|channel|>commentary<|message|>I will look.<|end|>"
    "<|start|>assistant to=functions.f<|channel|>commentary <|constrain|>json<|message|>{}": (
        "to=functions.f\n{}",
        "I will look.",
    ),
    "<|channel|>commentary to=functions.f <|constrain|>json<|message|>{}": (
        "to=functions.f\n{}",
        "",
    ),
    " to=functions.f<|channel|>commentary<|message|>{}": ("to=functions.f\n{}", ""),
    "<|channel|>final<|message|>one<|end|>two": ("", "one\n\ntwo"),
}


def marked(text: str) -> bytes:
    for name, mark in MARKS.items():
        text = text.replace(name, mark)
    return text.encode()


def parts(text: ReplyText) -> tuple[str, str]:
    return text.reasoning, text.content


@given(whole=st.sampled_from(list(REPLIES)), sizes=st.lists(st.integers(1, 9), min_size=1))
def test_each_message_goes_to_its_part(whole: str, sizes: list[int]) -> None:
    data, reply, at = marked(whole), ReplyText([], ChannelSplitter()), 0
    while at < len(data):
        size = sizes[at % len(sizes)]
        reply.feed(data[at : at + size])
        at += size
    reply.flush()
    assert parts(reply) == REPLIES[whole]


def test_written_names_of_marks_are_ordinary_words() -> None:
    reply = ReplyText([], ChannelSplitter())
    reply.feed(marked("<|channel|>final<|message|>") + b"an <|end|> and a <|channel|>final")
    assert reply.content == "an <|end|> and a <|channel|>final"


def test_a_header_that_does_not_end_is_text() -> None:
    reply = ReplyText([], ChannelSplitter())
    words = "word " * 100
    for word in words.split(" "):
        reply.feed(marked("<|channel|>") if not word else f"{word} ".encode())
    reply.feed(marked("<|channel|>"))
    for _ in range(100):
        reply.feed(b"word ")
    assert reply.content.count("word") == 200


@pytest.mark.parametrize(
    ("text", "unclosed"),
    [
        ("<|channel|>analysis<|message|>hm", True),
        ("<|channel|>analysis<|message|>hm<|end|><|start|>assistant", True),
        (
            "<|channel|>analysis<|message|>hm<|end|><|start|>assistant<|channel|>final<|message|>x",
            0,
        ),
        ("x", False),
    ],
)
def test_a_reply_without_an_answer_is_reported(text: str, unclosed: bool) -> None:
    reply = ReplyText([], ChannelSplitter())
    reply.feed(marked(text))
    reply.flush()
    assert reply.reasoning_unclosed == unclosed


@pytest.mark.parametrize("inside", ["content", "reasoning"])
def test_a_continued_message_goes_on(inside: Part) -> None:
    reply = ReplyText([], ChannelSplitter(inside))
    reply.feed(marked(" on<|end|><|start|>assistant<|channel|>final<|message|>then"))
    wanted = ("", " on\n\nthen") if inside == "content" else (" on", "then")
    assert parts(reply) == wanted


@pytest.mark.parametrize("size", [1, 4, 1000])
def test_stop_strings_count_in_the_answers_channel(size: int) -> None:
    """N08. What is held back for one when the channel changes is that channel's."""
    text = marked(
        "<|channel|>analysis<|message|>a END b E<|end|><|start|>assistant"
        "<|channel|>final<|message|>c E<|end|><|start|>assistant"
        "<|channel|>analysis<|message|>ND<|end|><|start|>assistant"
        "<|channel|>final<|message|>d END e"
    )
    reply, stop = ReplyText(["END"], ChannelSplitter()), None
    for at in range(0, len(text), size):
        stop = stop or reply.feed(text[at : at + size]).stop
    reply.flush()
    assert stop is not None
    assert parts(reply) == ("a END b E\n\nND", "c E\n\nd ")


def test_going_back_brings_back_the_channel() -> None:
    reply = ReplyText([], ChannelSplitter())
    reply.feed(marked("<|channel|>analysis<|message|>a"))
    mark = reply.mark()
    reply.feed(marked("b<|end|><|start|>assistant<|channel|>final<|message|>c"))
    reply.restore(mark)
    reply.feed(b"d")
    assert parts(reply) == ("ad", "")


def test_only_vocabularies_with_all_of_them_have_channels() -> None:
    ids = {text: number for number, text in enumerate(MARKS)}
    assert channel_marks(ids)[ids["<|message|>"]] == MARKS["<|message|>"].encode()
    for missing in ("<|start|>", "<|channel|>", "<|message|>"):
        assert channel_marks({t: i for t, i in ids.items() if t != missing}) == {}


def test_where_channels_are_looked_for() -> None:
    def splitter(*messages: ChatMessage, rendered: str, continue_last: bool = False) -> object:
        prompt = ChatPrompt(list(messages), continue_last=continue_last)
        return splitter_for(Generate(1, prompt), rendered, has_channels=True)

    user = ChatMessage("user", "hi")
    ends = "<|start|>user<|message|>hi<|end|><|start|>assistant"
    assert isinstance(splitter(user, rendered=ends), ChannelSplitter)
    assert not isinstance(splitter(user, rendered="user: hi"), ChannelSplitter)
    begun = splitter(user, ChatMessage("assistant", "So"), rendered=ends, continue_last=True)
    assert isinstance(begun, ChannelSplitter)
    assert begun.feed(" it is") == [("content", " it is")]


@pytest.fixture
def channels(tmp_path: Path, native_log: NativeLog) -> Iterator[NativeSession]:
    """A file that thinks, and ends: each token has one successor, so a mark has one too."""
    vocabulary = bpe_vocabulary(["hi", "analysis", "thought"], control=CONTROL)
    pairs = {"hi": "<|channel|>", "<|channel|>": "analysis", "analysis": "<|message|>"}
    pairs |= {"<|message|>": "thought", "thought": "<|return|>"}
    successors = {vocabulary.id_of(a): vocabulary.id_of(b) for a, b in pairs.items()}
    path = tmp_path / "channels.gguf"
    tiny_llama(path, vocabulary=vocabulary, successors=successors)
    weights = load_quietly(path, native_log, n_ctx=256, n_ubatch=32, n_threads=1)
    yield NativeSession(weights, native_log)
    weights.close()


@pytest.mark.parametrize("size", [1, 3, 1000])
def test_a_stop_string_is_not_looked_for_in_what_stands_between_messages(size: int) -> None:
    """Nobody wrote the empty line between two of them."""
    text = (
        "<|channel|>commentary<|message|>Let me look.\n<|end|><|start|>assistant<|channel|>analysis"
        "<|message|>a<|end|><|start|>assistant<|channel|>final<|message|>4.\n\nMore<|end|>"
    )
    for mark, sign in MARKS.items():
        text = text.replace(mark, sign)
    reply, stop = ReplyText(["\n\n"], ChannelSplitter()), None
    for at in range(0, len(text.encode()), size):
        reading = reply.feed(text.encode()[at : at + size])
        stop = stop or reading.stop
        assert all(type(piece) is str for _, piece in reading.pieces)
        if stop is not None:
            break
    assert stop is not None
    assert (reply.content, reply.reasoning) == ("Let me look.\n\n\n4.", "a")


@pytest.mark.weights
def test_a_file_with_channels(channels: NativeSession) -> None:
    prompt = ChatPrompt([ChatMessage("user", "hi")])
    rendered = "<|start|>user<|message|>hi<|end|><|start|>assistant"
    ready = ReadyPrompt(channels.weights.vocabulary.tokenize("hi"), rendered=rendered)
    channels.scheduler.add(Generate(1, prompt, GREEDY, max_tokens=20), ready, time.perf_counter())
    channels.run()
    ending = channels.ending(1)
    assert isinstance(ending, Finished)
    assert isinstance(ending.result, Summary)
    assert (ending.result.reasoning, ending.result.text) == ("thought", "")
    assert channels.streamed(1, "reasoning") == "thought"
    pieces = [token.token.piece for token in channels.tokens(1)]
    assert pieces == [b"<|channel|>", b"analysis", b"<|message|>", b"thought"]
    assert [e.kind for e in channels.of(1) if isinstance(e, Note)] == ["reasoning_unclosed"]


@pytest.mark.weights
def test_a_limit_takes_a_reply_from_the_analysis_to_the_answer(channels: NativeSession) -> None:
    """The marks and the header of the answer are written for it."""
    prompt = ChatPrompt([ChatMessage("user", "hi")], reasoning_budget=1)
    rendered = "<|start|>user<|message|>hi<|end|><|start|>assistant"
    ready = ReadyPrompt(channels.weights.vocabulary.tokenize("hi"), rendered=rendered)
    channels.scheduler.add(Generate(1, prompt, GREEDY, max_tokens=40), ready, time.perf_counter())
    channels.run()
    ending = channels.ending(1)
    assert isinstance(ending, Finished)
    assert isinstance(ending.result, Summary)
    assert (ending.result.reasoning, ending.result.text) == ("thought", "thought")
    assert (ending.result.reasoning_tokens, ending.result.reasoning_limit) == (1, 1)
    inserted = b"".join(t.token.piece for t in channels.tokens(1) if t.token.inserted)
    assert inserted == b"<|end|><|start|>assistant<|channel|>final<|message|>"


@pytest.mark.weights
def test_marks_that_people_write_are_no_marks(channels: NativeSession) -> None:
    """llama.cpp finds them in any text."""
    vocabulary = channels.weights.vocabulary
    text = "a <|channel|>final<|message|> of mine"
    assert vocabulary.control_ids["<|channel|>"] in vocabulary.tokenize(text, special=False)
    tokenizer = PromptTokenizer(vocabulary)
    for piece, is_control in split_control(text, vocabulary):
        tokenizer.add(piece, "user", "m", ordinary=True, whole=not is_control)
    assert not set(tokenizer.ids) & set(vocabulary.control_ids.values())
    assert b"".join(map(vocabulary.piece, tokenizer.ids)).decode() == text


# --- calls of tools -----------------------------------------------------------------------------

CALLED = {
    "<|channel|>analysis<|message|>Where?<|end|><|start|>assistant<|channel|>commentary "
    'to=functions.f <|constrain|>json<|message|>{"a": 1}': ("Where?", "", [("f", '{"a": 1}')]),
    "<|channel|>commentary<|message|>I will look.<|end|><|start|>assistant to=functions.f"
    "<|channel|>commentary json<|message|>{}": ("", "I will look.", [("f", "{}")]),
    " to=functions.f<|channel|>commentary<|message|>": ("", "", [("f", "{}")]),
    "<|channel|>commentary to=functions.f<|message|>{}<|end|><|start|>assistant<|channel|>"
    'commentary to=functions.g<|message|>{"b": [2]}': ("", "", [("f", "{}"), ("g", '{"b": [2]}')]),
    '<|channel|>commentary to=functions.f<|message|>{"a": ': ("", '{"a": ', [CUT_OFF]),
    "<|channel|>commentary to=functions.f<|message|>no<|end|><|start|>assistant<|channel|>final"
    "<|message|>4": ("", "no\n\n4", [NOT_JSON]),
    "<|channel|>commentary to=browser.open<|message|>{}": (
        "",
        "{}",
        ["The model called “browser.open”, which isn't one of the tools on offer."],
    ),
}


@pytest.mark.parametrize("whole", list(CALLED))
@pytest.mark.parametrize("step", [1, 4, 1000])
def test_what_is_addressed_to_a_tool_is_a_call(whole: str, step: int) -> None:
    splitter = ChannelSplitter()
    splitter.reader = ChannelReader(
        [Offered("f"), Offered("g")], new_id=lambda number: f"c{number}"
    )
    data, reply = marked(whole), ReplyText([], splitter)
    for at in range(0, len(data), step):
        reply.feed(data[at : at + step])
    reply.flush()
    found = reply.calls.take() if reply.calls is not None else []
    told = [(o.name, o.arguments) if isinstance(o, ToolCall) else o.sentence for o in found]
    assert (*parts(reply), told) == CALLED[whole]


def test_going_back_forgets_a_call() -> None:
    splitter = ChannelSplitter()
    splitter.reader = ChannelReader([Offered("f")], new_id=str)
    reply = ReplyText([], splitter)
    reply.feed(marked("<|channel|>commentary to=functions.f<|message|>"))
    mark = reply.mark()
    reply.feed(marked('{"a": 1}'))
    reply.restore(mark)
    reply.feed(marked('{"b": 2}'))
    reply.flush()
    assert reply.calls is not None
    assert [call.arguments for call in reply.calls.take()] == ['{"b": 2}']
