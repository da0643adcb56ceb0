"""Searches on real graphs, against a reference in numpy, and what they do to their surroundings."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from native_session import NativeSession, load_in_float32, load_quietly
from recurrent_gguf import tiny_jamba, tiny_mamba
from reference_network import Network
from small_networks import small_network

from app.engine.process.beams import forks, room
from app.engine.process.beams.room import FULL, NO_ROOM, SHORTENED, BeamRoom
from app.engine.process.native.native import NativeLog, llama
from app.engine.process.native.weights import Weights
from app.engine.process.trace.scores import scores_of
from app.engine.protocol.beam_messages import (
    MAX_WIDTH,
    BeamNode,
    BeamsFound,
    BeamsGrew,
    SearchBeams,
)
from app.engine.protocol.messages import Failed, Finished, Progress, Stopped
from app.engine.protocol.stages import LogitBias, Penalties, Sampling, TokenBias

pytestmark = pytest.mark.weights

PROMPT = [40, 41, 42, 43, 44, 45, 46, 47, 48, 49, 50, 51]


class BeamSession(NativeSession):
    """Replies, and searches beside them."""

    def __init__(self, weights: Weights, log: NativeLog) -> None:
        super().__init__(weights, log)
        self.room = BeamRoom(weights, self.scheduler.sequences, self.scheduler.traits, self._take)

    def search(self, ids: Sequence[int], width: int, length: int, **fields: Any) -> int:
        request_id = next(self._ids)
        self.room.ask(SearchBeams(request_id, list(ids), len(ids), width, length, **fields))
        while self.room.has_work(beside_replies=False):
            self.room.step()
        return request_id

    def found(self, request_id: int) -> BeamsFound:
        ending = self.ending(request_id)
        assert isinstance(ending, Finished), ending
        assert isinstance(ending.result, BeamsFound)
        return ending.result

    def nodes(self, request_id: int) -> dict[int, BeamNode]:
        grew = [event for event in self.of(request_id) if isinstance(event, BeamsGrew)]
        assert [event.step for event in grew] == [*range(1, len(grew) + 1)]
        return {node.number: node for event in grew for node in event.nodes}

    def leaves(self, request_id: int) -> dict[tuple[int, ...], float]:
        """Text → Σ log p, best first."""
        nodes = self.nodes(request_id)
        found = self.found(request_id)
        return {text_of(nodes, leaf): nodes[leaf].total for leaf in found.leaves}

    def refusal(self, request_id: int) -> str:
        ending = self.ending(request_id)
        assert isinstance(ending, Failed)
        return ending.sentence


def text_of(nodes: dict[int, BeamNode], leaf: int) -> tuple[int, ...]:
    text: tuple[int, ...] = ()
    while leaf:
        text = (nodes[leaf].token_id, *text)
        leaf = nodes[leaf].parent
    return text


def only(ids: Sequence[int], n_vocab: int) -> Sampling:
    """Every other token is banned: a vocabulary as tiny as that."""
    others = [TokenBias(token_id=i, ban=True) for i in range(n_vocab) if i not in ids]
    return Sampling(filters=[LogitBias(others)])


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory, native_log: NativeLog) -> Iterator[Weights]:
    """A llama of three layers in float32."""
    path = tmp_path_factory.mktemp("beams") / "grouped.gguf"
    small_network(path, "grouped")
    weights = load_in_float32(path, native_log)
    yield weights
    weights.close()


@pytest.fixture(scope="module")
def reference(small: Weights) -> Network:
    return Network(Path(small.loaded.path))


@pytest.fixture
def beams(small: Weights, native_log: NativeLog) -> BeamSession:
    return BeamSession(small, native_log)


def total_by_reference(network: Network, ids: Sequence[int], text: Sequence[int]) -> float:
    """Σ log p of a text behind `ids`, read as a whole in numpy."""
    whole = [*ids, *text]
    streams = network.read(whole).residual[-1][len(ids) - 1 : -1]
    scores = network.scores(streams).astype(np.float64)
    logs = scores - np.log(np.exp(scores).sum(1, keepdims=True))
    return math.fsum(logs[n, token] for n, token in enumerate(text))


def test_beams_that_are_as_many_as_texts_find_all_of_them_with_the_same_sums(
    beams: BeamSession, reference: Network
) -> None:
    """Two tokens and an end token: 2 + 4 + 8 texts go on, and as wide as eight none is lost."""
    end = beams.weights.vocabulary.eog_ids[0]
    tokens = (60, 61)
    sampling = only([*tokens, end], beams.weights.vocabulary.n_vocab)
    request_id = beams.search(PROMPT, MAX_WIDTH, 3, sampling=sampling, length_penalty=0.0)

    every = [*itertools.product(tokens, repeat=3)]
    ended = [(*head, end) for n in range(3) for head in itertools.product(tokens, repeat=n)]
    leaves = beams.leaves(request_id)
    assert set(every) <= set(leaves) <= {*every, *ended}
    # An end that comes after the eighth beam of its step is no leaf, but every other one is.
    for text in set(ended) - set(leaves):
        of_its_step = [t for t in every if len(t) == len(text)]
        assert len(of_its_step) == MAX_WIDTH
        assert total_by_reference(reference, PROMPT, text) < min(map(leaves.get, of_its_step))  # type: ignore[type-var]
    for text, total in leaves.items():
        assert total == pytest.approx(total_by_reference(reference, PROMPT, text), abs=2e-4)
    assert list(leaves.values()) == sorted(leaves.values(), reverse=True)


def test_the_best_eight_of_all_pairs_of_seven_tokens(
    beams: BeamSession, reference: Network
) -> None:
    tokens = [*range(60, 67)]
    sampling = only(tokens, beams.weights.vocabulary.n_vocab)
    request_id = beams.search(PROMPT, 8, 2, sampling=sampling)

    totals = {
        pair: total_by_reference(reference, PROMPT, pair)
        for pair in itertools.product(tokens, repeat=2)
    }
    best = sorted(totals, key=totals.__getitem__, reverse=True)
    leaves = beams.leaves(request_id)
    assert list(leaves) == best[:8]
    for pair, total in leaves.items():
        assert total == pytest.approx(totals[pair], abs=2e-4)


def total_alone(weights: Weights, ids: Sequence[int], text: Sequence[int]) -> float:
    """Σ log p of a text that is read token by token in a context of its own."""
    context = weights.open_beside(256)
    batch = llama.llama_batch_init(1, 0, 1)
    total = 0.0
    try:
        for position, token in enumerate([*ids, *text[:-1]]):
            batch.n_tokens, batch.token[0], batch.pos[0] = 1, token, position
            batch.n_seq_id[0], batch.seq_id[0][0], batch.logits[0] = 1, 0, 1
            assert llama.llama_decode(context, batch) == 0
            if position >= len(ids) - 1:
                scores = scores_of(context, 0, weights.vocabulary.n_vocab).astype(np.float64)
                logs = scores - scores.max() - np.log(np.exp(scores - scores.max()).sum())
                total += float(logs[text[position - len(ids) + 1]])
    finally:
        llama.llama_batch_free(batch)
        llama.llama_free(context)
    return total


def hold_against_alone(session: BeamSession, ids: Sequence[int], bound: float) -> None:
    """Forks of four beams and the greedy line have the sums of texts that are read alone."""
    request_id = session.search(ids, 4, 6)
    leaves = session.leaves(request_id)
    assert len(leaves) >= 4
    nodes, found = session.nodes(request_id), session.found(request_id)
    texts = {**leaves, text_of(nodes, found.greedy): nodes[found.greedy].total}
    for text, total in texts.items():
        alone = total_alone(session.weights, ids, text)
        assert total == pytest.approx(alone, abs=bound * len(text))


@pytest.mark.parametrize("write", [tiny_mamba, tiny_jamba])
def test_a_state_is_forked_as_well_as_cells(
    write: Callable[..., Any], tmp_path: Path, native_log: NativeLog
) -> None:
    write(tmp_path / "state.gguf")
    weights = load_quietly(tmp_path / "state.gguf", native_log, n_ctx=256, n_threads=1)
    try:
        hold_against_alone(BeamSession(weights, native_log), PROMPT, 0.01)
    finally:
        weights.close()


def test_forks_of_a_sliding_window_go_on_from_a_copy_of_a_slot(
    made_window: Weights, native_log: NativeLog
) -> None:
    session = BeamSession(made_window, native_log)
    ids = [40 + i % 90 for i in range(600)]
    session.reply(ids, max_tokens=4)
    held = [list(cells.ids) for cells in session.scheduler.sequences()]

    request_id = session.search(ids[:560], 4, 6)
    assert session.found(request_id).n_copied == 559
    read_anew = BeamSession(made_window, native_log)
    other_id = read_anew.search(ids[:560], 4, 6)
    assert read_anew.found(other_id).n_copied == 0
    for (text, total), (other, wanted) in zip(
        session.leaves(request_id).items(), read_anew.leaves(other_id).items(), strict=True
    ):
        assert text == other
        assert total == pytest.approx(wanted, abs=0.02)
    assert [list(cells.ids) for cells in read_anew.scheduler.sequences()] != held


@pytest.mark.soak
@pytest.mark.parametrize("name", ["starter", "gemma"])
def test_beams_of_both_files_have_the_sums_of_texts_read_alone(
    name: str, request: pytest.FixtureRequest, native_log: NativeLog
) -> None:
    session = BeamSession(request.getfixturevalue(name), native_log)
    ids = session.weights.vocabulary.tokenize("The capital of France is", add_bos=True)
    hold_against_alone(session, ids, 0.2)


def test_greedy_is_what_a_greedy_reply_says(beams: BeamSession) -> None:
    request_id = beams.search(PROMPT, 3, 10)
    reply = beams.reply(PROMPT, max_tokens=10)

    text = text_of(beams.nodes(request_id), beams.found(request_id).greedy)
    assert list(text[: len(reply.token_ids)]) == reply.token_ids


def test_a_reply_before_and_after_is_the_same_and_its_cells_stay(beams: BeamSession) -> None:
    first = beams.reply(PROMPT, max_tokens=6)
    held = [(list(c.ids), c.runs) for c in beams.scheduler.sequences()]
    free = beams.weights.loaded.n_ctx

    found = beams.found(beams.search([*PROMPT, *first.token_ids[:3]], 8, 8))
    assert [(list(c.ids), c.runs) for c in beams.scheduler.sequences()] == held
    assert found.n_copied + found.n_read == found.n_before == len(PROMPT) + 3
    assert found.n_steps == 7
    assert 7 * 8 <= found.n_rows <= 7 * 9
    again = beams.reply(PROMPT, max_tokens=6)
    assert again.token_ids == first.token_ids
    assert beams.weights.loaded.n_ctx == free


def test_a_grammar_binds_each_beam(beams: BeamSession) -> None:
    sampling = Sampling(grammar='root ::= ("a" | "b") [0-9] [0-9]')
    request_id = beams.search(PROMPT, 4, 6, sampling=sampling)

    nodes, vocabulary = beams.nodes(request_id), beams.weights.vocabulary
    texts = []
    for leaf in beams.found(request_id).leaves:
        ids = text_of(nodes, leaf)
        assert vocabulary.is_eog(ids[-1])
        texts.append(b"".join(map(vocabulary.piece, ids[:-1])))
    assert len({*texts}) >= 4
    for text in texts:
        assert len(text) == 3
        assert text[:1] in (b"a", b"b")
        assert text[1:].isdigit()


def test_a_grammar_goes_on_from_the_reply_so_far(beams: BeamSession) -> None:
    a = beams.weights.vocabulary.tokenize("a")
    sampling = Sampling(grammar='root ::= "ab"')
    ids = [*PROMPT, *a]
    request_id = 99
    beams.room.ask(SearchBeams(request_id, ids, len(PROMPT), 2, 4, sampling=sampling))
    while beams.room.has_work(beside_replies=False):
        beams.room.step()

    nodes = beams.nodes(request_id)
    leaves = beams.found(request_id).leaves
    assert leaves
    for leaf in leaves:
        first, *others = text_of(nodes, leaf)
        assert beams.weights.vocabulary.piece(first) == b"b"
        assert list(map(beams.weights.vocabulary.is_eog, others)) == [True]


def test_end_tokens_come_no_earlier_than_is_asked(beams: BeamSession) -> None:
    end = beams.weights.vocabulary.eog_ids
    n_vocab = beams.weights.vocabulary.n_vocab
    allowed = only([60, end[0]], n_vocab)
    early = beams.leaves(beams.search(PROMPT, 8, 3, sampling=allowed))
    late = Sampling(filters=allowed.filters, min_tokens=2)
    later = beams.leaves(beams.search(PROMPT, 8, 3, sampling=late))
    never = Sampling(filters=allowed.filters, ban_end_token=True)

    assert {len(text) for text in early if text[-1] in end} == {1, 2, 3}
    assert {len(text) for text in later if text[-1] in end} == {3}
    assert list(beams.leaves(beams.search(PROMPT, 8, 3, sampling=never))) == [(60, 60, 60)]


def test_what_does_not_apply_is_said(beams: BeamSession) -> None:
    plain = beams.search(PROMPT, 2, 2)
    shaped = beams.search(PROMPT, 2, 2, sampling=Sampling(filters=[Penalties(repeat=1.3)]))

    assert beams.found(plain).notes == []
    assert len(beams.found(shaped).notes) == 1
    assert beams.leaves(plain) == beams.leaves(shaped)


def test_a_full_window_and_numbers_out_of_bounds_are_refused_in_words(
    beams: BeamSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    n_ctx = beams.weights.n_ctx
    whole = [40 + i % 90 for i in range(n_ctx)]
    assert beams.refusal(beams.search(whole, 2, 4)) == FULL.format(n_ctx=n_ctx)
    found = beams.found(beams.search(whole[:-2], 2, 4))
    assert found.notes == [SHORTENED.format(length=2)]
    assert "between 1 and 8" in beams.refusal(beams.search(PROMPT, 9, 4))
    assert "between 1 and 256" in beams.refusal(beams.search(PROMPT, 2, 0))
    assert "0 and 4" in beams.refusal(beams.search(PROMPT, 2, 2, length_penalty=-1.0))
    assert "empty" in beams.refusal(beams.search([], 2, 2))
    assert "IDs" in beams.refusal(beams.search([10**6], 2, 2))
    monkeypatch.setattr(room, "free_bytes", lambda weights: 0)
    assert NO_ROOM.split("{")[0] in beams.refusal(beams.search(PROMPT, 2, 2))


def test_a_stop_ends_a_search_wherever_it_is(
    beams: BeamSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits, runs = SearchBeams(91, PROMPT, 0, 4, 8), SearchBeams(92, PROMPT, 0, 4, 8)
    beams.room.ask(runs)
    beams.room.ask(waits)
    for _ in range(4):
        beams.room.step()
    beams.room.stop(91)
    beams.room.stop(92)
    beams.room.stop(92)
    assert not beams.room.has_work(beside_replies=False)
    assert isinstance(beams.ending(91), Stopped)
    assert isinstance(beams.ending(92), Stopped)
    assert any(isinstance(event, BeamsGrew) for event in beams.of(92))

    # In the middle of a decode, from the thread that reads commands.
    decode = llama.llama_decode

    def broken_off(context: Any, batch: Any) -> int:
        beams.room.break_off(93)
        return int(decode(context, batch))

    monkeypatch.setattr(forks.llama, "llama_decode", broken_off)
    beams.room.ask(SearchBeams(93, PROMPT, 0, 4, 8))
    while beams.room.has_work(beside_replies=False):
        beams.room.step()
    assert isinstance(beams.ending(93), Stopped)
    monkeypatch.undo()
    assert beams.reply(PROMPT, max_tokens=3).generated == 3


def test_what_goes_wrong_ends_the_search_and_frees_all(
    beams: BeamSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed = []
    monkeypatch.setattr(forks.Forks, "close", lambda self: closed.append(self._context))
    monkeypatch.setattr(forks.llama, "llama_decode", lambda context, batch: 1)
    assert beams.refusal(beams.search(PROMPT, 4, 8)) == forks.FAILED
    assert len(closed) == 1
    llama.llama_free(closed[0])


def test_beside_a_reply_it_has_half_of_the_time(small: Weights, native_log: NativeLog) -> None:
    ticks = iter(range(10**6))
    session = BeamSession(small, native_log)
    session.room._clock = lambda: float(next(ticks))
    session.room.ask(SearchBeams(1, PROMPT, 0, 2, 3))
    session.room.step()
    assert not session.room.has_work(beside_replies=True)
    assert session.room.has_work(beside_replies=False)
    waited = 1
    while not session.room.has_work(beside_replies=True):
        waited += 1
    assert waited >= 1
    session.room.stop(1)


def test_progress_counts_the_text(beams: BeamSession) -> None:
    request_id = beams.search(PROMPT, 2, 2)
    progress = [event for event in beams.of(request_id) if isinstance(event, Progress)]
    assert progress[-1].phase == "beams"
    assert progress[-1].done == progress[-1].total == len(PROMPT)
