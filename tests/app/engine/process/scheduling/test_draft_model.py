"""A draft model beside the weights: what it proposes, what it takes, and that replies are drawn as
without it, token by token and by distribution."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import msgspec
import numpy as np
import pytest
from gguf_writer import bpe_vocabulary, tiny_llama
from native_session import GREEDY, NativeSession, load_in_float32, load_quietly
from recurrent_gguf import tiny_mamba

from app.engine.process.drafting.state import TRIAL, DraftState
from app.engine.process.native.native import NativeLog
from app.engine.process.native.weights import Weights
from app.engine.process.scheduling.drafting import NO_MODEL, RESTS
from app.engine.protocol.draft_messages import Drafts
from app.engine.protocol.messages import Generate, Summary
from app.engine.protocol.prompt_messages import IdsPrompt
from app.engine.protocol.stages import Dist, Penalties, Sampling, Temperature, TopK

pytestmark = pytest.mark.weights

ALL = Drafts("model", always=True)
PROMPT = [*range(30, 70)]


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory, native_log: NativeLog) -> Iterator[Weights]:
    """Random weights that draft for themselves: greedily, so a hot reply takes some and not all."""
    path = tmp_path_factory.mktemp("drafts") / "tiny.gguf"
    tiny_llama(path, kind="f32", seed=5)
    loaded = load_in_float32(path, native_log, n_slots=3, draft=str(path))
    yield loaded
    loaded.close()


@pytest.fixture
def session(pair: Weights, native_log: NativeLog) -> NativeSession:
    return NativeSession(pair, native_log)


@pytest.mark.parametrize(
    "sampling",
    [
        GREEDY,
        Sampling([TopK(3)], Dist(), seed=3),
        Sampling([Penalties(repeat=1.4), TopK(5), Temperature(2.0)], Dist(), seed=4),
    ],
)
def test_the_reply_is_the_one_without(session: NativeSession, sampling: Sampling) -> None:
    sampling = msgspec.structs.replace(sampling, ban_end_token=True)
    fields = {"max_tokens": 60, "reuse_prefix": False, "conversation": "one"}
    plain = session.reply(PROMPT, sampling, **fields)
    drafted = session.reply(PROMPT, sampling, drafts=ALL, **fields)
    assert drafted.token_ids == plain.token_ids
    assert drafted.drafts is not None
    assert drafted.drafts.name == session.weights.loaded.draft
    assert drafted.drafts.accepted > 5
    assert len(drafted.drafts.by_position) == ALL.most


def test_both_probabilities_of_each_proposal_are_recorded(session: NativeSession) -> None:
    hot = Sampling([TopK(3)], Dist(), seed=3, ban_end_token=True)
    request = session.add(PROMPT, hot, max_tokens=60, drafts=ALL, alternatives=8)
    session.run()
    tokens = [event.token for event in session.tokens(request)]
    accepted = [token for token in tokens if token.drafted]
    lost = [token for token in tokens if token.rejected is not None]
    assert accepted
    assert lost
    for token in accepted:  # it drafts for itself, so both give it the same
        assert token.draft_logprob == pytest.approx(token.logprob, abs=1e-3)
    for token in lost:
        assert token.rejected is not None
        assert token.rejected.draft_logprobs[0] == pytest.approx(token.rejected.logprob, abs=1e-3)
        best = token.alternative_ids.numbers()[0]
        assert token.rejected.ids[0] == best


def test_known_tokens_are_taken_and_left_where_they_must_be(
    tmp_path: Path, native_log: NativeLog
) -> None:
    vocabulary = bpe_vocabulary([" a", " b", " c", " d"])
    a, b, c, d = (vocabulary.id_of(f" {letter}") for letter in "abcd")
    tiny_llama(
        tmp_path / "weights.gguf",
        vocabulary=vocabulary,
        successors={a: b, b: c, c: d, d: a},
        kind="f32",
    )
    tiny_llama(
        tmp_path / "draft.gguf",
        vocabulary=vocabulary,
        successors={a: b, b: c, c: a, d: a},
        kind="f32",
    )
    loaded = load_in_float32(
        tmp_path / "weights.gguf", native_log, draft=str(tmp_path / "draft.gguf")
    )
    try:
        session = NativeSession(loaded, native_log)
        wish = Drafts("model", most=3, always=True)
        summary = session.reply([a], max_tokens=12, drafts=wish)
    finally:
        loaded.close()
    assert summary.token_ids == [b, c, d, a] * 3
    # The first token comes with the prompt. Then behind b: c right, a wrong (it is d); behind d:
    # a, b, c right and d with them; behind d again; nothing is left to draft for the last one.
    report = summary.drafts
    assert report is not None
    assert [(each.proposed, each.accepted) for each in report.by_position] == [
        *((3, 3), (3, 2), (3, 2)),
    ]


def test_replies_at_once_draft_beside_each_other_in_little_room(
    session: NativeSession,
) -> None:
    prompts = [[*PROMPT, n] for n in (20, 21, 22)]
    fields = {"max_tokens": 30, "reuse_prefix": False, "conversation": "one"}
    calm = msgspec.structs.replace(GREEDY, ban_end_token=True)
    alone = [session.reply(ids, calm, **fields).token_ids for ids in prompts]
    requests = [session.add(ids, calm, drafts=ALL, **fields) for ids in prompts]
    draft = session.weights.draft
    assert draft is not None
    draft.n_ctx, whole = 100, draft.n_ctx  # less than the three take together
    session.run()
    draft.n_ctx = whole
    endings = [session.ending(request).result for request in requests]
    assert [end.token_ids for end in endings if isinstance(end, Summary)] == alone
    assert all(isinstance(end, Summary) and end.drafts and not end.drafts.off for end in endings)


def test_where_its_window_is_full_the_reply_goes_on_without(session: NativeSession) -> None:
    calm = msgspec.structs.replace(GREEDY, ban_end_token=True)
    plain = session.reply(PROMPT, calm, max_tokens=40, reuse_prefix=False)
    draft = session.weights.draft
    assert draft is not None
    draft.n_ctx, whole = 60, draft.n_ctx
    drafted = session.reply(PROMPT, calm, max_tokens=40, drafts=ALL, reuse_prefix=False)
    draft.n_ctx = whole
    assert drafted.token_ids == plain.token_ids
    assert drafted.drafts is not None
    assert "window" in drafted.drafts.off


# --- loading ----------------------------------------------------------------------------------


def test_its_memory_is_planned_and_measured(pair: Weights) -> None:
    assert pair.loaded.draft
    for parts in (pair.loaded.estimate, pair.loaded.memory):
        assert sum(part.size_bytes for part in parts if part.what == "draft") > 100_000


@pytest.mark.parametrize("fault", ["missing", "vocabulary", "recurrent"])
def test_one_that_cannot_draft_stops_no_load(
    tmp_path: Path, native_log: NativeLog, fault: str
) -> None:
    tiny_llama(tmp_path / "weights.gguf")
    path = tmp_path / "draft.gguf"
    if fault == "vocabulary":
        tiny_llama(path, vocabulary=bpe_vocabulary([" other"]))
    elif fault == "recurrent":
        tiny_mamba(path)
    loaded = load_quietly(
        tmp_path / "weights.gguf", native_log, n_ctx=256, n_threads=1, draft=str(path)
    )
    try:
        assert loaded.draft is None
        assert loaded.loaded.draft == ""
        notes = [note for note in loaded.loaded.notes if "draft model can't be used" in note]
        assert len(notes) == 1
        session = NativeSession(loaded, native_log)
        summary = session.reply([5, 6, 7], max_tokens=2, drafts=Drafts("model"))
        assert notes[0] in summary.notes
    finally:
        loaded.close()


def test_without_one_it_is_said(made_session: NativeSession) -> None:
    assert NO_MODEL in made_session.reply([5, 6], max_tokens=1, drafts=Drafts("model")).notes


# --- off where it is slower -------------------------------------------------------------------


def test_after_a_slow_reply_it_rests_and_is_tried_again(session: NativeSession) -> None:
    drafting = session.scheduler._drafting
    wish = Generate(1, IdsPrompt([1]), drafts=Drafts("model"))

    def state() -> DraftState:
        begun, refused = drafting.begin(wish)
        assert begun is not None
        assert not refused
        return begun

    assert not state().off
    drafting._streak, drafting._rest = 1, 1  # as after one that was switched off
    assert state().off == RESTS
    assert not state().off


def test_short_replies_are_judged_together(session: NativeSession) -> None:
    """Each of them has fewer passes than a trial needs."""
    drafting = session.scheduler._drafting
    wish = Generate(1, IdsPrompt([1]), drafts=Drafts("model"))
    found = []
    for _ in range(4):
        state, _said = drafting.begin(wish)
        assert state is not None
        if not state.off:
            state.time(1.0, 9, drafted=False)
            state.passes = TRIAL // 2
            state.time(1.5, 9, drafted=True)
            assert state.report().plain_tokens == 9
        found.append("over the last replies, 6.0 tokens/s with it" in state.judge())
        assert state.report().off == state.off
    # After a verdict, and after what was found to be no slower, a trial begins anew.
    assert found == [False, True, False, True]
    drafting._rest = 0
    for seconds in (0.5, 1.5, 1.5):
        state, _said = drafting.begin(wish)
        assert state is not None
        state.time(1.0, 9, drafted=False)
        state.passes = TRIAL if seconds == 0.5 else TRIAL // 2
        state.time(seconds, 9, drafted=True)
        found.append(bool(state.judge()))
    assert found[4:] == [False, False, True]


def test_it_is_off_only_where_it_is_clearly_slower() -> None:
    for drafted_s, is_off in ((0.9, False), (1.02, False), (1.2, True)):
        state = DraftState(Drafts("model"), passes=TRIAL)
        state.time(1.0, 20, drafted=False)
        state.time(drafted_s, 20, drafted=True)
        assert bool(state.judge()) is is_off
        assert bool(state.off) is is_off
    always = DraftState(ALL, passes=TRIAL, plain_s=0.1, plain_tokens=9, drafted_s=9)
    assert always.judge() == ""


# --- by distribution --------------------------------------------------------------------------


def chi_square(session: NativeSession, n_draws: int) -> tuple[float, int, int, int]:
    """Pearson's χ² of replies of three tokens against their exact probabilities, its degrees of
    freedom, and how many proposals were taken and left."""
    filters = [TopK(3), Temperature(1.5)]
    exact = {
        ids: share for ids, share in _exact(session, filters, 3).items() if share * n_draws >= 5
    }
    seen: Counter[tuple[int, ...]] = Counter()
    accepted = proposed = 0
    for seed in range(n_draws):
        sampling = Sampling(filters, Dist(), seed=seed, ban_end_token=True)
        drafts = Drafts("model", most=2, always=True)
        summary = session.reply(PROMPT, sampling, max_tokens=3, drafts=drafts, alternatives=0)
        assert summary.drafts is not None
        seen[tuple(summary.token_ids)] += 1
        proposed += summary.drafts.proposed
        accepted += summary.drafts.accepted
        session.events.clear()
    counts = {ids: seen.pop(ids, 0) for ids in exact}
    rest = n_draws - sum(counts.values())
    rest_expected = n_draws * (1 - sum(exact.values()))
    statistic = sum(
        (counts[ids] - n_draws * exact[ids]) ** 2 / (n_draws * exact[ids]) for ids in exact
    )
    if rest_expected >= 5:
        return (
            statistic + (rest - rest_expected) ** 2 / rest_expected,
            len(exact),
            accepted,
            proposed - accepted,
        )
    return statistic, len(exact) - 1, accepted, proposed - accepted


def _exact(session: NativeSession, filters: list, length: int) -> dict[tuple[int, ...], float]:
    """Of each sequence its probability, from the network's own scores, without drafts."""
    if not length:
        return {(): 1.0}
    found: dict[tuple[int, ...], float] = {}
    for before, share in _exact(session, filters, length - 1).items():
        sampling = Sampling([], GREEDY.select, ban_end_token=True)
        request = session.add([*PROMPT, *before], sampling, max_tokens=1, alternatives=8)
        session.run()
        token = session.tokens(request)[0].token
        ends = session.weights.vocabulary.eog_ids
        ids = token.alternative_ids.numbers()
        known = zip(ids, token.alternative_logprobs.numbers(), strict=True)
        best = [(token_id, logprob) for token_id, logprob in known if token_id not in ends][:3]
        weights = np.exp(np.array([logprob for _, logprob in best]) / 1.5)
        for (token_id, _), part in zip(best, weights / weights.sum(), strict=True):
            found[*before, token_id] = share * float(part)
    return found


def tail(statistic: float, freedom: int) -> float:
    """About the chance of so large a χ² (Wilson and Hilferty, 1931)."""
    spread = 2 / (9 * freedom)
    z = ((statistic / freedom) ** (1 / 3) - (1 - spread)) / math.sqrt(spread)
    return math.erfc(z / math.sqrt(2)) / 2


def test_replies_are_drawn_as_they_should_be(session: NativeSession) -> None:
    statistic, freedom, accepted, rejected = chi_square(session, 300)
    assert accepted > 50
    assert rejected > 50
    assert tail(statistic, freedom) > 1e-3


@pytest.mark.soak
def test_20000_replies_are_drawn_as_they_should_be(session: NativeSession) -> None:
    statistic, freedom, accepted, rejected = chi_square(session, 20_000)
    print(f"χ² {statistic:.1f} at {freedom} degrees, {accepted} accepted, {rejected} rejected")
    assert min(accepted, rejected) > 5_000
    assert tail(statistic, freedom) > 1e-3


def test_the_proof_would_see_a_wrong_rule(session: NativeSession) -> None:
    """Were each proposal simply taken, the most probable replies would be far too many."""
    exact = _exact(session, [], 1)
    best = max(exact.values())
    n = 300
    statistic = (n - n * best) ** 2 / (n * best) + n * (1 - best)
    assert tail(statistic, len(exact) - 1) < 1e-6
    assert len(list(itertools.islice(exact, 3))) == 3
