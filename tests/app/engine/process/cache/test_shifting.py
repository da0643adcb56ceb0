"""A window that fills up while a reply is written: cells are shifted, or read again, and the reply
goes on; against llama.cpp's own calls made by hand."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from gguf_writer import Shape, tiny_llama
from native_cache import decode, ends, native_used, shown
from native_session import NativeSession, load_in_float32, load_quietly
from other_shapes import bound_of
from small_networks import small_network

from app.engine.process.cache.shifting import QUANTIZED, WINDOW
from app.engine.process.native.native import Batch, NativeLog, llama
from app.engine.process.native.weights import Weights
from app.engine.process.trace.scores import scores_of
from app.engine.prompts.midway import Stretch
from app.engine.protocol.messages import Finished, Note
from app.engine.protocol.prompt_messages import CutMessage
from app.engine.protocol.stages import Greedy, Sampling

N_CTX = 256
ENDLESS = Sampling(filters=[], select=Greedy(), ban_end_token=True)
PROMPT = [3 + 7 * i % 200 for i in range(200)]
TURNS = [
    Stretch(10, 60, (CutMessage("q1", "user", 20), CutMessage("a1", "assistant", 30))),
    Stretch(60, 110, (CutMessage("q2", "user", 20), CutMessage("a2", "assistant", 30))),
    Stretch(110, 150, (CutMessage("q3", "user", 20), CutMessage("a3", "assistant", 20))),
]
FREED = 150 - 10
"""256 cells down to at most 153: all but the last of these turns would do, 256 - 100 would not."""


@pytest.fixture(scope="module")
def grouped(tmp_path_factory: pytest.TempPathFactory, native_log: NativeLog) -> Iterator[Weights]:
    path = tmp_path_factory.mktemp("shifting") / "grouped.gguf"
    small_network(path, "grouped")
    weights = load_in_float32(path, native_log, n_ctx=N_CTX)
    yield weights
    weights.close()


@pytest.fixture
def small(grouped: Weights, native_log: NativeLog) -> NativeSession:
    return NativeSession(grouped, native_log)


def ended(session: NativeSession, request_id: int) -> Finished:
    ending = session.ending(request_id)
    assert isinstance(ending, Finished), ending
    return ending


@pytest.mark.parametrize("over", [-1, 0, 1])
def test_at_the_limit_a_reply_goes_on_and_only_over_it_something_goes(
    small: NativeSession, over: int
) -> None:
    """The last token of a reply needs no cell: 57 tokens fill a window of 256 behind 200."""
    summary = small.reply(PROMPT, ENDLESS, max_tokens=57 + over, stretches=TURNS)
    assert (summary.generated, summary.stop_reason) == (57 + over, "max_tokens")
    assert [shift.n_tokens for shift in summary.shifts] == ([140] if over > 0 else [])
    assert summary.prompt_tokens == 200
    if over > 0:
        (shift,) = summary.shifts
        assert (shift.after, shift.n_messages, shift.was_read_again) == (57, 6, False)
        assert [message.message_id for message in shift.messages][:2] == ["q1", "a1"]
        assert summary.evaluated == 200  # nothing was read again
        (note,) = [event for event in small.events if isinstance(event, Note)]
        assert "6 messages were dropped from the prompt (140 tokens)" in note.sentence
        assert "nothing was processed again" in note.sentence


def by_hand(
    weights: Weights, tokens: list[int], n_first: int, low: int = 10, high: int = 150
) -> list[list[float]]:
    """The scores before each of `tokens` from `n_first` on: the prompt is decoded, then token by
    token, with the same stretches removed by llama.cpp's own calls where the window is full."""
    memory, batch = weights.memory, Batch(weights.n_ubatch, weights.n_slots)
    llama.llama_memory_clear(memory, True)
    position, found = 0, []

    def decode(chunk: list[int]) -> None:
        nonlocal position
        batch.clear()
        batch.add(chunk, position, 0, want_scores=True)
        assert llama.llama_decode(weights.context, batch.native) == 0
        position += len(chunk)

    for start in range(0, n_first, weights.n_ubatch):
        decode(tokens[start : min(start + weights.n_ubatch, n_first)])
    n_last = (n_first - 1) % weights.n_ubatch
    found.append(scores_of(weights.context, n_last, weights.vocabulary.n_vocab).tolist())
    for token in tokens[n_first:]:
        if position == weights.n_ctx:
            assert llama.llama_memory_seq_rm(memory, 0, low, high)
            llama.llama_memory_seq_add(memory, 0, high, -1, low - high)
            position -= high - low
        decode([token])
        found.append(scores_of(weights.context, 0, weights.vocabulary.n_vocab).tolist())
    return found


def test_what_is_drawn_after_a_shift_is_what_llama_cpp_says(
    small: NativeSession, grouped: Weights
) -> None:
    request_id = small.add(PROMPT, ENDLESS, max_tokens=90, stretches=TURNS)
    cells = small.scheduler.sequences()[0]
    while len(small.tokens(request_id)) < 80:
        small.scheduler.step()
    assert len(cells) == 200 + 79 - FREED
    assert ends(grouped, 0) == (0, len(cells) - 1)
    assert native_used(grouped, len(cells)) == len(cells)
    assert sum(shown(small.scheduler.cache.read()).values()) == len(cells)
    written = [token.token.token_id for token in small.tokens(request_id)]
    assert cells.ids == [*PROMPT[:10], *PROMPT[150:], *written[:-1]]
    (turn,) = small.scheduler.cache.read().turns
    assert (turn.dropped, turn.was_read_again) == (FREED, False)
    small.run()
    summary = ended(small, request_id).result
    assert len(summary.shifts) == 1
    assert len(cells) == 10  # what is left for another prompt to go on from
    expected = by_hand(grouped, [*PROMPT, *summary.token_ids[:-1]], 200)
    best = [max(range(len(row)), key=row.__getitem__) for row in expected]
    assert summary.token_ids == best


def test_no_other_prompt_goes_on_from_cells_that_saw_what_is_gone(small: NativeSession) -> None:
    reply = small.reply(PROMPT, ENDLESS, max_tokens=90, stretches=TURNS, conversation="chat")
    behind = [*PROMPT[:10], *PROMPT[150:], *reply.token_ids, 5, 6]
    after = small.reply(behind, max_tokens=4, conversation="chat")
    assert (after.reused, after.reuse_source) == (10, "slot")
    fresh = small.reply(behind, max_tokens=4, reuse_prefix=False)
    assert after.token_ids == fresh.token_ids


def test_a_copy_of_shifted_cells_ends_where_the_gap_was(small: NativeSession) -> None:
    gone = [Stretch(100, 190)]
    small.reply(PROMPT, ENDLESS, max_tokens=90, stretches=gone, conversation="chat")
    small.reply([9] * 40, max_tokens=2, conversation="another")
    assert [copy.n_tokens for copy in small.scheduler.cache.read().parked] == [100]
    after = small.reply(PROMPT, max_tokens=2, conversation="chat")
    assert (after.reused, after.reuse_source) == (100, "parked")


def test_with_nothing_left_to_go_a_reply_ends_with_a_full_window(small: NativeSession) -> None:
    """B12: none goes on for ever."""
    summary = small.reply(PROMPT, ENDLESS, stretches=TURNS)
    assert (summary.stop_reason, summary.context_used) == ("context_full", N_CTX)
    assert len(summary.shifts) == 1
    assert summary.generated == 57 + FREED
    cut = small.reply(PROMPT, ENDLESS, stretches=[])
    assert (cut.stop_reason, cut.generated, cut.shifts) == ("context_full", 57, [])


@pytest.mark.parametrize("length", [N_CTX - 1, N_CTX, N_CTX + 1])
def test_a_prompt_that_fills_the_window_makes_room_for_its_reply(
    small: NativeSession, length: int
) -> None:
    request_id = small.add([1 + i % 200 for i in range(length)], max_tokens=5, stretches=TURNS)
    small.run()
    if length > N_CTX:
        assert small.ending(request_id).kind == "prompt_too_long"
    else:
        assert ended(small, request_id).result.generated == 5
        assert len(ended(small, request_id).result.shifts) == 1


def test_cells_that_another_sequence_shares_are_known(small: NativeSession) -> None:
    """llama.cpp would move them for both. Behind what is shared they may move."""
    one, two = small.scheduler.sequences()[:2]
    decode(small.weights, PROMPT, 0, one.sequence)
    one.extend(PROMPT)
    two.fork_from(one, 50)
    assert one.shares_from(49, [one, two])
    assert not one.shares_from(50, [one, two])
    assert one.leave_out(50, 90)
    assert (len(one), len(two)) == (160, 50)
    assert (ends(small.weights, one.sequence), ends(small.weights, two.sequence)) == (
        (0, 159),
        (0, 49),
    )
    assert native_used(small.weights, 160 + 50) == 160
    assert sum(shown(small.scheduler.cache.read()).values()) == 160


def test_a_cache_that_cannot_be_shifted_is_read_again_and_why_is_said(
    tmp_path: Path, native_log: NativeLog, made_window: Weights
) -> None:
    """C03: quantised keys, with flash attention as they need it; and a sliding window."""
    path = tmp_path / "wide.gguf"
    tiny_llama(path, shape=Shape(n_head=2))  # 32 wide: a whole block
    options = {"type_k": "q8_0", "type_v": "q8_0", "flash_attention": "on", "n_ctx": N_CTX}
    weights = load_quietly(path, native_log, n_threads=1, **options)
    try:
        session = NativeSession(weights, native_log)
        summary = session.reply(PROMPT, ENDLESS, max_tokens=70, stretches=TURNS)
        assert summary.shifts[0].was_read_again
        kept = [*PROMPT[:10], *PROMPT[150:], *summary.token_ids[:57]]
        assert summary.evaluated == 200 + len(kept) - 10
        assert session.reply(kept, ENDLESS, max_tokens=13).token_ids == summary.token_ids[57:]
        assert any(QUANTIZED in getattr(event, "sentence", "") for event in session.events)
    finally:
        weights.close()
    session = NativeSession(made_window, native_log)
    long = [3 + 7 * i % 200 for i in range(1000)]
    summary = session.reply(long, ENDLESS, max_tokens=40, stretches=[Stretch(10, 900)])
    assert summary.shifts[0].was_read_again
    assert any(WINDOW in getattr(event, "sentence", "") for event in session.events)
    kept = [*long[:10], *long[900:], *summary.token_ids[:25]]
    assert session.reply(kept, ENDLESS, max_tokens=15).token_ids == summary.token_ids[25:]


@pytest.mark.soak
@pytest.mark.parametrize("name", ["starter", "gemma"])
def test_both_test_files_go_on(
    name: str, request: pytest.FixtureRequest, native_log: NativeLog
) -> None:
    """One is shifted, one reads again: greedy, what llama.cpp says by hand, or a fresh prompt."""
    weights: Weights = request.getfixturevalue(name)
    session = NativeSession(weights, native_log)
    text = "The harbour lay still, and one after the other the lamps along the quay went out. "
    prompt = weights.vocabulary.tokenize(text * 80, add_bos=weights.vocabulary.add_bos)[:990]
    summary = session.reply(prompt, ENDLESS, max_tokens=80, stretches=[Stretch(100, 700)])
    (shift,) = summary.shifts
    assert shift.was_read_again == (name == "gemma")
    n_before = 1024 - 990 + 1
    if shift.was_read_again:
        kept = [*prompt[:100], *prompt[700:], *summary.token_ids[:n_before]]
        again = session.reply(kept, ENDLESS, max_tokens=80 - n_before, reuse_prefix=False)
        assert again.token_ids == summary.token_ids[n_before:]
        return
    expected = by_hand(weights, [*prompt, *summary.token_ids[:-1]], 990, 100, 700)
    best = [max(range(len(row)), key=row.__getitem__) for row in expected]
    chosen = [row[token] for row, token in zip(expected, summary.token_ids, strict=True)]
    lost = [row[top] - score for row, top, score in zip(expected, best, chosen, strict=True)]
    print(f"{name}: at most {max(lost):.3f} below the best score")
    assert max(lost) <= bound_of(weights)
