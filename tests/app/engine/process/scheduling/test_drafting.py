"""Drafts change how fast a reply is written, and nothing that it says."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import msgspec
import pytest
from native_session import GREEDY, NativeSession, load_in_float32
from recurrent_gguf import tiny_mamba
from small_networks import small_network

from app.engine.process.drafting.lookup import Chances
from app.engine.process.drafting.state import TRIAL
from app.engine.process.native.native import NativeLog, llama
from app.engine.process.native.weights import Weights
from app.engine.process.scheduling.drafting import CANNOT_CUT, NOT_REPEATABLE, WITH_CUTS
from app.engine.prompts.midway import Stretch
from app.engine.protocol.bounds import BadSetting
from app.engine.protocol.draft_messages import Drafts, check_drafts
from app.engine.protocol.messages import Failed, Held, Note, Summary, TextTakenBack
from app.engine.protocol.prompt_messages import CutMessage
from app.engine.protocol.stages import (
    Dist,
    Dry,
    Mirostat,
    Penalties,
    Sampling,
    Temperature,
    TopK,
    Xtc,
)

pytestmark = pytest.mark.weights

PROMPT = [*range(30, 60), *range(90, 120), *range(30, 60), 90, 91, 92]
ALL = Drafts(always=True)
SAMPLED = (
    GREEDY,
    Sampling([Temperature(3.0)], Dist(), seed=3, ban_end_token=True),
    Sampling([Penalties(last_n=64, repeat=1.3), TopK(k=20), Xtc(), Dry()], Dist(), seed=4),
    Sampling([Temperature(0.8)], Mirostat(tau=2.0, eta=0.3), seed=5),
    Sampling([Temperature(0.4)], Dist(), seed=6, grammar='root ::= ("ab" | "ba" | "a")+'),
    Sampling([Temperature(0.2)], Dist(), seed=7, banned_strings=["a", "th", "e"], min_tokens=9),
)


@pytest.fixture(scope="module", params=["grouped", "window"])
def weights(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, native_log: NativeLog
) -> Iterator[Weights]:
    """In float32, so that another batch shape tips no draw. One has a window of eight tokens,
    which nearly every rejected pass moves past what is kept."""
    path = tmp_path_factory.mktemp("drafts") / "small.gguf"
    small_network(path, request.param)
    loaded = load_in_float32(path, native_log, n_slots=3)
    yield loaded
    loaded.close()


@pytest.fixture
def session(weights: Weights, native_log: NativeLog) -> NativeSession:
    return NativeSession(weights, native_log)


class Knowing:
    """Proposes what the reply without drafts says, with a wrong token at every sixth place."""

    truth: ClassVar[list[int]] = []
    length = 3

    def __init__(self, ids: list[int]) -> None:
        self.chances = Chances()
        self._n = len(ids)

    def __len__(self) -> int:
        return self._n

    def feed(self, token_id: int) -> None:
        self._n += 1

    def propose(self, most: int) -> list[int]:
        at = self._n - len(PROMPT)
        told = enumerate(self.truth[at : at + most], at)
        return [token_id if place % 6 else (token_id + 1) % 200 + 20 for place, token_id in told]


@pytest.fixture(autouse=True)
def knowing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A random network says nothing twice, so there is nothing to look up."""
    monkeypatch.setattr("app.engine.process.scheduling.drafting.Lookup", Knowing)
    monkeypatch.setattr(Knowing, "truth", [])


def both(session: NativeSession, sampling: Sampling, **fields: Any) -> tuple[Summary, Summary]:
    """The same reply with drafts and without."""
    fields = {"max_tokens": 60, "reuse_prefix": False, "conversation": "one", **fields}
    plain = session.reply(PROMPT, sampling, **fields)
    Knowing.truth = plain.token_ids
    return session.reply(PROMPT, sampling, drafts=ALL, **fields), plain


def told(session: NativeSession, request: int) -> tuple[int, int]:
    """Tokens proposed and accepted, by the trace."""
    tokens = [event.token for event in session.tokens(request)]
    accepted = sum(token.drafted for token in tokens)
    lost = [len(token.rejected.ids) for token in tokens if token.rejected is not None]
    return accepted + sum(lost), accepted


def check_mirror(session: NativeSession) -> None:
    """No cell is left of what was rejected."""
    for slot in session.scheduler._slots:
        last = llama.llama_memory_seq_pos_max(session.weights.memory, slot.cells.sequence)
        assert last == len(slot.cells) - 1


@pytest.mark.parametrize("sampling", SAMPLED)
def test_the_reply_is_the_one_without_drafts(session: NativeSession, sampling: Sampling) -> None:
    drafted, plain = both(session, sampling)
    assert drafted.token_ids == plain.token_ids
    assert (drafted.text, drafted.stop_reason) == (plain.text, plain.stop_reason)
    assert plain.drafts is None
    check_mirror(session)


def test_passes_are_saved_and_counted(session: NativeSession) -> None:
    drafted, plain = both(session, GREEDY)
    report = drafted.drafts
    assert report is not None
    assert report.accepted > 20
    assert report.proposed == sum(each.proposed for each in report.by_position)
    assert report.accepted == sum(each.accepted for each in report.by_position)
    assert report.by_position[0].proposed == report.passes
    assert not report.off
    spans = [span for span in drafted.timeline if span.kind == "decode"]
    assert sum(span.tokens for span in spans) == plain.generated - 1
    # Each pass draws one token by itself, and those that were accepted besides.
    assert drafted.generated - report.accepted < plain.generated - 20


def test_each_token_says_what_was_proposed_for_it(session: NativeSession) -> None:
    both(session, SAMPLED[1])
    request = session.add(PROMPT, SAMPLED[1], max_tokens=60, drafts=ALL)
    session.run()
    tokens = [event.token for event in session.tokens(request)]
    ending = session.ending(request).result
    assert isinstance(ending, Summary)
    assert ending.drafts is not None
    assert sum(token.drafted for token in tokens) == ending.drafts.accepted
    lost = [token for token in tokens if token.rejected is not None]
    assert lost
    for token in lost:
        assert not token.drafted
        assert token.rejected is not None
        assert token.rejected.ids[0] != token.token_id
        known = dict(
            zip(token.alternative_ids.numbers(), token.alternative_logprobs.numbers(), strict=True)
        )
        if token.rejected.ids[0] in known:
            assert token.rejected.logprob == pytest.approx(known[token.rejected.ids[0]], abs=1e-5)
        pieces = [session.weights.vocabulary.piece(i) for i in token.rejected.ids]
        assert token.rejected.pieces == pieces
    drafted = sum(token.drafted for token in tokens)
    rejected = sum(len(token.rejected.ids) for token in lost if token.rejected is not None)
    assert drafted + rejected == ending.drafts.proposed


def test_several_at_once_each_draft_for_themselves(session: NativeSession) -> None:
    prompts = [PROMPT, [*PROMPT[:-1], 93], [*PROMPT[:-1], 94]]
    Knowing.truth = session.reply(PROMPT, max_tokens=40, reuse_prefix=False).token_ids
    fields = {"max_tokens": 40, "reuse_prefix": False, "conversation": "one"}
    alone = [session.reply(ids, GREEDY, **fields).token_ids for ids in prompts]
    requests = [session.add(ids, drafts=ALL, **fields) for ids in prompts]
    sizes = []
    while session.scheduler.has_work:
        session.scheduler.step()
        sizes.append(session.scheduler._batch.size)
        check_mirror(session)
    assert max(size for size in sizes if size <= 16) > 10
    endings = [session.ending(request).result for request in requests]
    assert [end.token_ids for end in endings if isinstance(end, Summary)] == alone


def test_step_mode_takes_over_in_the_middle_of_a_pass(session: NativeSession) -> None:
    plain, _ = both(session, GREEDY, max_tokens=20)
    request = session.add(PROMPT, max_tokens=20, drafts=ALL)
    while len(session.tokens(request)) < 3:
        session.scheduler.step()
    session.scheduler.hold(request)
    session.run()
    assert isinstance(session.of(request)[-1], Held)
    check_mirror(session)
    session.scheduler.resume(request)
    session.run()
    ending = session.ending(request).result
    assert isinstance(ending, Summary)
    assert ending.token_ids == plain.token_ids
    assert ending.drafts is not None
    assert told(session, request) == (ending.drafts.proposed, ending.drafts.accepted)


def test_what_nobody_judged_is_not_counted(session: NativeSession) -> None:
    """A reply ends in the middle of a pass: what was proposed behind its end is no miss."""
    hot = SAMPLED[1]
    _, plain = both(session, hot)
    said = plain.token_ids
    places = [at for at in range(8, 40) if at % 6 and said[at] not in said[:at]]
    assert places
    for at in places[:4]:  # told right, or not told
        stop = said[at]
        request = session.add(PROMPT, hot, max_tokens=60, drafts=ALL, stop_ids=[stop])
        session.run()
        ending = session.ending(request).result
        assert isinstance(ending, Summary)
        assert ending.drafts is not None
        proposed, accepted = told(session, request)
        own = ending.drafts.accepted - accepted  # what ended it is in no trace
        assert own in (0, 1)
        assert ending.drafts.proposed - proposed == own
        assert ending.drafts.by_position[0].proposed == ending.drafts.passes


def test_what_is_taken_back_is_drafted_anew(session: NativeSession) -> None:
    hot = SAMPLED[1]
    said = session.reply(PROMPT, hot, max_tokens=30, reuse_prefix=False).text
    banned = next(letter for letter in said[6:] if letter.isascii() and letter.isprintable())
    sampling = msgspec.structs.replace(hot, banned_strings=[banned])
    drafted, plain = both(session, sampling, max_tokens=30)
    assert drafted.token_ids == plain.token_ids
    assert any(isinstance(event, TextTakenBack) for event in session.events)
    check_mirror(session)


def test_a_full_window_ends_it_at_the_same_token(session: NativeSession) -> None:
    sampling = Sampling([], GREEDY.select, ban_end_token=True)
    drafted, plain = both(session, sampling, max_tokens=0)
    assert (drafted.stop_reason, plain.stop_reason) == ("context_full", "context_full")
    assert drafted.token_ids == plain.token_ids
    assert drafted.context_used == plain.context_used == session.weights.n_ctx


def test_a_window_that_moves_on_in_the_middle_moves_for_drafts_too(session: NativeSession) -> None:
    turns = [Stretch(10, 40, (CutMessage("q1", "user", 30),))]
    endless = Sampling([], GREEDY.select, ban_end_token=True)
    fields = {"max_tokens": 190, "stretches": turns}
    drafted, plain = both(session, endless, **fields)
    assert [shift.n_tokens for shift in plain.shifts] == [30]
    assert [shift.after for shift in drafted.shifts] == [shift.after for shift in plain.shifts]
    assert drafted.token_ids == plain.token_ids
    assert drafted.drafts is not None
    assert drafted.drafts.accepted > 50
    check_mirror(session)


@pytest.mark.parametrize("limit", [1, 2, 5])
def test_no_more_is_proposed_than_may_come(session: NativeSession, limit: int) -> None:
    drafted, plain = both(session, GREEDY, max_tokens=limit)
    assert drafted.token_ids == plain.token_ids
    assert drafted.drafts is not None
    assert all(each.proposed <= limit for each in drafted.drafts.by_position)
    assert len(drafted.drafts.by_position) < limit


@pytest.mark.parametrize(
    ("fields", "said"), [({"repeatable": True}, NOT_REPEATABLE), ({"cuts": []}, WITH_CUTS)]
)
def test_what_is_compared_pass_by_pass_is_written_without(
    session: NativeSession, fields: dict[str, Any], said: str
) -> None:
    request = session.add(PROMPT, max_tokens=4, drafts=ALL, **fields)
    session.run()
    ending = session.ending(request).result
    assert isinstance(ending, Summary)
    assert ending.drafts is None
    assert said in ending.notes


def test_what_cannot_drop_its_end_is_written_without(
    tmp_path_factory: pytest.TempPathFactory, native_log: NativeLog
) -> None:
    path = tmp_path_factory.mktemp("drafts") / "mamba.gguf"
    tiny_mamba(path)
    loaded = load_in_float32(path, native_log)
    try:
        session = NativeSession(loaded, native_log)
        summary = session.reply([5, 6, 7, 5, 6, 7], max_tokens=8, drafts=ALL)
    finally:
        loaded.close()
    assert summary.drafts is None
    assert CANNOT_CUT in summary.notes


def test_where_they_are_slower_they_end_and_that_is_said(
    session: NativeSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A clock on which a pass takes as long as it has rows: then nothing can be gained.
    now = 0.0
    batch = session.scheduler._batch

    def tick() -> float:
        nonlocal now
        now += 0.001 * batch.size**2
        return now

    monkeypatch.setattr(session.scheduler, "_clock", tick)
    monkeypatch.setattr("app.engine.process.scheduling.drafting.best_count", lambda *_, **__: 4)
    both(session, GREEDY, max_tokens=100)
    request = session.add(PROMPT, max_tokens=100, drafts=Drafts())
    session.run()
    ending = session.ending(request).result
    assert isinstance(ending, Summary)
    assert ending.drafts is not None
    assert "switched off" in ending.drafts.off
    notes = [event for event in session.of(request) if isinstance(event, Note)]
    assert [note.kind for note in notes] == ["drafts_off"]
    assert ending.drafts.passes == TRIAL
    assert ending.drafts.plain_tokens > 40


@pytest.mark.parametrize("most", [0, 16, 2.5])
def test_numbers_out_of_bounds_are_refused(session: NativeSession, most: Any) -> None:
    with pytest.raises(BadSetting):
        check_drafts(Drafts(most=most))
    request = session.add(PROMPT, drafts=Drafts(most=most))
    assert isinstance(session.ending(request), Failed)


def test_while_threads_are_tried_passes_have_the_usual_shape(
    session: NativeSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    both(session, GREEDY, max_tokens=30)
    threads = type(session.scheduler._threads)
    monkeypatch.setattr(threads, "is_trying", property(lambda _: True))
    monkeypatch.setattr("app.engine.process.scheduling.drafting.best_count", lambda *_, **__: 4)
    summary = session.reply(PROMPT, max_tokens=30, drafts=Drafts(), reuse_prefix=False)
    assert summary.drafts is not None
    assert summary.drafts.passes == 0
    monkeypatch.setattr(threads, "is_trying", property(lambda _: False))
    summary = session.reply(PROMPT, max_tokens=30, drafts=Drafts(), reuse_prefix=False)
    assert summary.drafts is not None
    assert summary.drafts.passes > 0
