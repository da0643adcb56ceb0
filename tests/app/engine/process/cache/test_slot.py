"""Cells and their mirror, stop strings, and where a reply's reasoning begins."""

from __future__ import annotations

import pytest
from native_session import NativeSession

from app.engine.process.cache.cells import Cells, common_length
from app.engine.process.cache.slot import empty_summary, shown_tags, split_stops, splitter_for
from app.engine.process.native.native import llama
from app.engine.process.native.weights import Weights
from app.engine.protocol.messages import Generate
from app.engine.protocol.prompt_messages import ChatMessage, ChatPrompt, IdsPrompt, TextPrompt


@pytest.mark.parametrize(
    ("first", "second", "length"),
    [([], [], 0), ([1], [], 0), ([1, 2, 3], [1, 2, 4], 2), ([1, 2], [1, 2, 3], 2), ([5], [6], 0)],
)
def test_common_length(first: list[int], second: list[int], length: int) -> None:
    assert common_length(first, second) == common_length(second, first) == length


def fill(session: NativeSession, cells: Cells, count: int) -> None:
    batch = session.scheduler._batch
    batch.clear()
    ids = list(range(100, 100 + count))
    batch.add(ids, len(cells), cells.sequence, want_scores=False)
    assert llama.llama_decode(session.weights.context, batch.native) == 0
    cells.extend(ids)


def last_position(weights: Weights, cells: Cells) -> int:
    return int(llama.llama_memory_seq_pos_max(weights.memory, cells.sequence))


@pytest.mark.weights
def test_cells_are_cut_on_both_sides(session: NativeSession, starter: Weights) -> None:
    cells = session.scheduler._slots[1].cells
    fill(session, cells, 10)
    assert last_position(starter, cells) == 9
    assert cells.common_prefix([100, 101, 7]) == 2
    assert cells.cut(4)
    assert (cells.ids, last_position(starter, cells)) == ([100, 101, 102, 103], 3)
    assert cells.cut(0)
    assert (cells.ids, last_position(starter, cells)) == ([], -1)
    assert cells.first_position() == -1


@pytest.mark.weights
def test_repair_drops_what_the_mirror_does_not_know(
    session: NativeSession, starter: Weights
) -> None:
    cells = session.scheduler._slots[0].cells
    fill(session, cells, 10)
    cells._forget(6)  # as if the last four had not been recorded
    cells.repair()
    assert last_position(starter, cells) == 5
    cells.ids.append(9)  # as if a cell were gone
    cells.repair()
    assert (cells.ids, last_position(starter, cells)) == ([], -1)


@pytest.mark.weights
def test_tags_of_ones_own_may_be_made_of_several_control_tokens(starter: Weights) -> None:
    """As Kimi K3 writes them: a word between two marks, which have no text of their own."""
    vocabulary = starter.vocabulary
    one, two, three = list(vocabulary.control_ids)[-3:]
    own = [(f"{one}think{two}", f"{three}think{two}")]
    splitter = splitter_for(
        Generate(1, ChatPrompt([ChatMessage("user", "Hi")], reasoning_tags=own)), f"Hi{own[0][0]}"
    )
    assert splitter is not None
    shown = shown_tags(splitter.tag_texts, vocabulary, own)
    said = vocabulary.tokenize(f"Hm{own[0][1]}Six", special=True)
    text = b"".join(shown.get(i) or vocabulary.shown_piece(i) for i in said).decode()
    assert splitter.feed(text) == [("reasoning", "Hm"), ("content", "Six")]


@pytest.mark.weights
def test_stop_strings_that_are_control_tokens(starter: Weights) -> None:
    texts, ids = split_stops(["END", "<|im_start|>"], starter.vocabulary)
    assert texts == ["END"]
    assert ids == {1: "<|im_start|>"}


def chat(*messages: ChatMessage, continue_last: bool = False) -> Generate:
    return Generate(1, ChatPrompt(list(messages), continue_last=continue_last))


def test_where_reasoning_is_looked_for() -> None:
    user = ChatMessage("user", "hi")
    assert splitter_for(Generate(1, TextPrompt("x")), "<think>") is None
    assert splitter_for(Generate(1, IdsPrompt([1])), "<think>") is None
    plain = splitter_for(chat(user), "assistant\n")
    assert plain is not None
    assert plain.feed("<think>a</think>b") == [("reasoning", "a"), ("content", "b")]
    opened = splitter_for(chat(user), "assistant\n<think>\n")
    assert opened is not None
    assert opened.feed("a</think>b") == [("reasoning", "a"), ("content", "b")]


def test_where_a_continued_reply_is() -> None:
    user = ChatMessage("user", "hi")
    inside = ChatMessage("assistant", "<think>half a")
    splitter = splitter_for(chat(user, inside, continue_last=True), "…<think>half a")
    assert splitter is not None
    assert splitter.feed(" thought</think>yes") == [("reasoning", " thought"), ("content", "yes")]
    after = ChatMessage("assistant", "<think>a</think>The")
    assert splitter_for(chat(user, after, continue_last=True), "…The") is None
    empty = ChatMessage("assistant", "")
    assert splitter_for(chat(user, empty, continue_last=True), "assistant\n") is not None


def test_summary_of_what_never_ran() -> None:
    summary = empty_summary(chat(ChatMessage("user", "x")), 512)
    assert (summary.stop_reason, summary.context_size, summary.generated) == ("stopped", 512, 0)
