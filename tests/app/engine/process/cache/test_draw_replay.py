"""Draws again by the engine, against llama.cpp's own chain with the same seed."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import msgspec
import numpy as np
import pytest
from native_chains import Array, native_chain
from native_session import NativeSession

from app.engine.process.cache.draw_replay import NONSENSE
from app.engine.process.cache.kept_scores import KEPT_S, KeptScores
from app.engine.process.native.native import NativeLog, llama
from app.engine.process.native.weights import Weights
from app.engine.process.sampling.replayed_chain import GRAMMAR, NO_DECISION, NO_NUMBER
from app.engine.process.scripted.scripted import scripted_draws
from app.engine.process.trace.scores import scores_of
from app.engine.protocol.messages import Failed, Finished, Stopped, TokenTrace
from app.engine.protocol.pieces import unpack
from app.engine.protocol.replay_messages import AskedDraw, DrawsReplayed, ReplayDraws
from app.engine.protocol.stages import (
    AdaptiveP,
    Dist,
    Dry,
    FilterStage,
    Greedy,
    MinP,
    Mirostat,
    MirostatV2,
    Penalties,
    Sampling,
    SelectStage,
    Temperature,
    TopK,
    TopNSigma,
    TopP,
    Xtc,
)
from app.insight.sampling.filters import Known
from app.insight.sampling.what_if import DrawSettings, Unsure, redrawn

pytestmark = pytest.mark.weights

PROMPT = "Once upon a time, in a small village by the sea, there lived"
N_TOKENS = 30


@pytest.fixture(scope="module")
def told(made: Weights, native_log: NativeLog) -> Told:
    """A reply of small weights. Draws are done again in a context of their own, so those of all
    tests can be those of one reply."""
    return Told(NativeSession(made, native_log), OWN, PROMPT[:14])


@pytest.fixture(scope="module")
def real(starter: Weights, native_log: NativeLog) -> Told:
    """A shorter one of the starter weights."""
    return Told(NativeSession(starter, native_log), OWN, n_tokens=10)


class Told:
    """A reply, and what the engine says when its draws are asked for again."""

    def __init__(
        self,
        session: NativeSession,
        sampling: Sampling,
        prompt: str = PROMPT,
        n_tokens: int = N_TOKENS,
    ) -> None:
        self.session, self.weights, self.sampling = session, session.weights, sampling
        self.prompt = self.weights.vocabulary.tokenize(
            prompt, add_bos=self.weights.vocabulary.add_bos
        )
        request = session.add(
            self.prompt, sampling, max_tokens=n_tokens, alternatives=64, record_stages=True
        )
        session.run()
        self.tokens: list[TokenTrace] = [each.token for each in session.tokens(request)]
        self.ids = [*self.prompt, *(token.token_id for token in self.tokens)]

    def asked(self) -> list[AskedDraw]:
        return [
            AskedDraw(
                len(self.prompt) + token.index,
                token.uniform,
                [effect.uniform for effect in token.stages if effect.stage == "xtc"],
            )
            for token in self.tokens
        ]

    def command(self, sampling: Sampling, **changes: Any) -> ReplayDraws:
        made = ReplayDraws(900, self.ids, len(self.prompt), sampling, self.asked())
        return msgspec.structs.replace(made, **changes)

    def answer(self, command: ReplayDraws, **named: Any) -> Finished | Stopped | Failed:
        return self.session.scheduler.cache.answer(command, **named)

    def drawn(self, sampling: Sampling) -> list[int]:
        ending = self.answer(self.command(sampling))
        assert isinstance(ending, Finished), ending
        assert isinstance(ending.result, DrawsReplayed)
        return [draw.token_id for draw in ending.result.draws]

    @cached_property
    def scores(self) -> list[np.ndarray]:
        """What each token was drawn from, computed in a context of its own."""
        params = llama.llama_context_default_params()
        params.n_ctx, params.n_batch, params.n_ubatch = 256, 64, 64
        params.n_threads = params.n_threads_batch = 1
        context = llama.llama_init_from_model(self.weights.model, params)
        rows, ids = [], list(self.prompt)
        for token in self.tokens:
            array = (llama.llama_token * len(ids))(*ids)
            assert llama.llama_decode(context, llama.llama_batch_get_one(array, len(ids))) == 0
            rows.append(scores_of(context, -1, self.weights.vocabulary.n_vocab))
            ids = [token.token_id]
        llama.llama_free(context)
        return rows

    def native(self, sampling: Sampling) -> list[int]:
        """What llama.cpp's own chain with the reply's seed draws in the place of each token."""
        sampling = msgspec.structs.replace(sampling, seed=self.sampling.seed)
        chain = native_chain(sampling, self.weights, self.prompt)
        drawn: list[int] = []
        for scores, token in zip(self.scores, self.tokens, strict=True):
            array = Array(scores)
            array.apply(chain)
            drawn.append(array.selected)
            if array.native.size < 2 and not isinstance(sampling.select, Dist):
                break  # it took no number, so its next one is that of another token
            llama.llama_sampler_accept(chain, token.token_id)
        llama.llama_sampler_free(chain)
        return drawn


OWN = Sampling([TopK(40), TopP(0.95), MinP(0.05), Temperature(0.8)], Dist(), seed=5)

OTHERS: list[list[FilterStage]] = [
    [Temperature(1.1)],
    [Penalties(64, 1.3, 0.2, 0.1), TopK(40)],
    [Dry(2.0, 1.75, 1), TopK(40), Temperature(1.2)],
    [TopNSigma(1.0), Temperature(1.5)],
    [TopP(0.999), Temperature(1.3)],
    [TopK(200), Xtc(1.0, 0.1)],
]


def names_of(filters: list[FilterStage]) -> str:
    return "-".join(type(stage).__name__ for stage in filters)


@pytest.mark.parametrize("filters", OTHERS, ids=names_of)
@pytest.mark.parametrize("file", ["told", pytest.param("real", marks=pytest.mark.soak)])
def test_other_settings_draw_what_llama_cpp_draws_with_the_same_seed(
    file: str, filters: list[FilterStage], request: pytest.FixtureRequest
) -> None:
    """Filters that the recorded 64 cannot answer for."""
    own: Told = request.getfixturevalue(file)
    other = Sampling(filters, Dist())
    assert own.drawn(other) == own.native(other)


def test_the_same_settings_draw_the_same_tokens(told: Told, real: Told) -> None:
    chain: list[FilterStage] = [TopK(40), Xtc(0.5, 0.1), Temperature(1.2)]
    xtc = Told(told.session, Sampling(chain, Dist(), seed=3), PROMPT[:14])
    for own in (told, xtc, real):
        assert own.drawn(own.sampling) == [token.token_id for token in own.tokens]


def test_tokens_between_are_read_as_they_were_written(
    native_log: NativeLog, gemma: Weights
) -> None:
    """Asked about one token alone: those before it, read at once, would give it other scores, and
    with them another share. The recorded one is that of llama.cpp's float32."""
    told = Told(NativeSession(gemma, native_log), OWN, n_tokens=13)
    shares = []
    for token in told.tokens[5::7]:
        asked = told.asked()[token.index]
        ending = told.answer(told.command(OWN, asked=[asked]))
        assert isinstance(ending, Finished)
        assert isinstance(ending.result, DrawsReplayed)
        (draw,) = ending.result.draws
        shares.append((draw.token_id, draw.probability))
    recorded = [(each.token_id, each.stages[-1].probability) for each in told.tokens[5::7]]
    assert [token_id for token_id, _ in shares] == [token_id for token_id, _ in recorded]
    assert [p for _, p in shares] == pytest.approx([p for _, p in recorded], abs=1e-6)


@pytest.mark.parametrize("seed", [OWN.seed, pytest.param(8, marks=pytest.mark.soak)])
def test_record_and_engine_agree(seed: int, real: Told) -> None:
    """Where the recorded 64 say what would be drawn, the engine draws it from all candidates."""
    told = real
    if seed != OWN.seed:
        told = Told(real.session, msgspec.structs.replace(OWN, seed=seed))
    other = Sampling([TopP(0.9), Temperature(1.3), TopK(40)], Dist())
    settings = DrawSettings(other.filters, other.select, told.weights.vocabulary.n_vocab)
    drawn, n_sure = told.drawn(other), 0
    assert drawn == told.native(other)
    for token, by_engine in zip(told.tokens, drawn, strict=True):
        found = redrawn(token, settings, Known(uniforms=[]))
        if isinstance(found, Unsure):
            assert not found.may_be or by_engine in found.may_be
        else:
            assert by_engine == found
            n_sure += 1
    assert n_sure > len(drawn) // 2


def test_greedy_is_the_best_of_all(told: Told) -> None:
    found = told.drawn(Sampling([], Greedy()))
    assert found == [unpack(token.alternative_ids)[0] for token in told.tokens]


def test_nothing_in_the_cache_is_touched(told: Told) -> None:
    before = told.session.scheduler.cache.read()
    told.drawn(Sampling([Temperature(1.2)], Dist()))
    assert told.session.scheduler.cache.read() == before


def reasons(ending: Finished | Stopped | Failed) -> set[str]:
    assert isinstance(ending, Finished)
    assert isinstance(ending.result, DrawsReplayed)
    assert {draw.token_id for draw in ending.result.draws if draw.reason} <= {-1}
    return {draw.reason for draw in ending.result.draws if draw.reason}


def test_what_cannot_be_told_has_its_reason(told: Told) -> None:
    assert reasons(told.answer(told.command(Sampling([Xtc(0.5, 0.1)], Dist())))) == {NO_DECISION}
    bare = [msgspec.structs.replace(each, uniform=None) for each in told.asked()]
    assert reasons(told.answer(told.command(OWN, asked=bare))) == {NO_NUMBER}
    digits = Sampling([TopK(40)], Dist(), grammar="root ::= [0-9]+")
    first = told.asked()[:1]
    assert reasons(told.answer(told.command(digits, asked=first))) == {GRAMMAR}


@pytest.mark.parametrize(
    "changes",
    [
        {"asked": []},
        {"asked": [AskedDraw(0, 0.5)]},
        {"asked": [AskedDraw(99_999, 0.5)]},
        {"asked": [AskedDraw(20, 0.5), AskedDraw(18, 0.5)]},
        {"asked": [AskedDraw(14 + at % 2, 0.5) for at in range(80)]},
        {"token_ids": [-1] * 40},
        {"token_ids": [9_999_999] * 40},
        {"n_prompt": 0},
    ],
    ids=range(8),
)
def test_nonsense_is_refused(changes: dict[str, Any], told: Told) -> None:
    ending = told.answer(told.command(OWN, **changes))
    assert isinstance(ending, Failed)
    assert (ending.kind, ending.sentence) == ("bad_setting", NONSENSE)


def test_settings_that_native_code_must_not_see_are_refused(told: Told) -> None:
    ending = told.answer(told.command(Sampling([TopP(7.0)], Dist())))
    assert isinstance(ending, Failed)
    assert ending.kind == "bad_setting"
    assert "between 0 and 1" in ending.sentence


def test_a_reply_that_the_grammar_forbids_does_not_end_the_process(told: Told) -> None:
    digits = Sampling([TopK(40)], Dist(), grammar="root ::= [0-9]+")
    ending = told.answer(told.command(digits, asked=told.asked()[3:]))
    assert isinstance(ending, Failed)


def test_it_ends_when_it_is_stopped_or_in_the_way(told: Told) -> None:
    command = told.command(OWN)
    assert isinstance(told.answer(command, is_stopped=lambda: True), Stopped)
    ending = told.answer(command, is_in_the_way=lambda: True)
    assert isinstance(ending, Failed)
    assert ending.kind == "busy"


def test_a_script_leaves_every_token_as_it_was() -> None:
    command = ReplayDraws(1, [5, 6, 7], 1, Sampling(), [AskedDraw(1), AskedDraw(2), AskedDraw(3)])
    assert [draw.token_id for draw in scripted_draws(command).draws] == [6, 7, -1]


# --- stages that remember their draws -------------------------------------------------------------


@pytest.mark.parametrize(
    "select", [Mirostat(4.0, 0.1, 50), MirostatV2(6.0, 0.2), AdaptiveP(0.4, 0.8)], ids=repr
)
@pytest.mark.parametrize("file", ["told", pytest.param("real", marks=pytest.mark.soak)])
def test_what_remembers_its_draws_is_asked_about_all_of_them(
    file: str, select: SelectStage, request: pytest.FixtureRequest
) -> None:
    """The reply's own text, and in the place of each token what llama.cpp would have drawn, as long
    as it has more than one to draw from: of one it takes no number."""
    own: Told = request.getfixturevalue(file)
    other = Sampling([TopK(60), Temperature(0.5 if file == "told" else 1.5)], select)
    native = own.native(other)
    assert len(native) > 5
    assert own.drawn(other)[: len(native)] == native


def test_the_last_one_is_explained(told: Told) -> None:
    command = told.command(Sampling([TopK(5)], MirostatV2(3.0, 0.5)), explain=True)
    explained = result(told.answer(command)).explained
    assert explained is not None
    assert explained.left[0] == 5
    assert explained.memory != 6.0
    assert sum(explained.shares.numbers()) == pytest.approx(1.0, abs=1e-5)
    assert result(told.answer(told.command(OWN))).explained is None


def test_it_ends_with_the_first_change(told: Told) -> None:
    other = Sampling([Temperature(1.1)], Dist())
    drawn = told.drawn(other)
    changed = next(at for at, token in enumerate(told.tokens) if token.token_id != drawn[at])
    draws = result(told.answer(told.command(other, until_change=True))).draws
    assert [draw.token_id for draw in draws] == drawn[: changed + 1]


def test_scores_are_kept_for_the_next_question(told: Told) -> None:
    """Other settings on the same positions read nothing; another text reads what is new of it."""
    read: list[int] = []

    def draws(command: ReplayDraws) -> list[int]:
        del read[:]
        told.session.scheduler.cache._emit = lambda event: read.append(event.done)  # type: ignore[union-attr]
        return [draw.token_id for draw in result(told.answer(command)).draws]

    other = Sampling([Temperature(1.3)], Dist())
    told.session.scheduler.cache.kept_scores.begin([], 0)
    first = draws(told.command(other))
    assert read
    assert draws(told.command(other)) == first
    assert not read
    shorter = told.command(other, token_ids=told.ids[:-3], asked=told.asked()[:-3])
    assert draws(shorter) == first[:-3]
    assert not read
    at = len(told.prompt) + 4
    changed = told.command(other, token_ids=[*told.ids[:at], told.ids[0], *told.ids[at + 1 :]])
    assert draws(changed)[:5] == first[:5]
    assert read


def test_what_a_slot_holds_is_copied_and_not_read_again(told: Told) -> None:
    """And the scores are those of the reply: its own settings draw its own token."""
    own = Told(told.session, OWN)
    read: list[int] = []
    cache = own.session.scheduler.cache
    cache._emit = lambda event: read.append(event.done)  # type: ignore[union-attr]
    cache.kept_scores.begin([], 0)
    last = own.asked()[-1]
    (draw,) = result(own.answer(own.command(OWN, asked=[last]))).draws
    assert draw.token_id == own.tokens[-1].token_id
    assert read == [last.position]
    assert last.position > 32


def test_kept_scores_have_a_limit_and_an_end() -> None:
    now = [0.0]
    kept = KeptScores(most_bytes=100, clock=lambda: now[0])
    kept.begin([1, 2, 3], 1)
    for position in range(1, 4):
        kept.put(position, np.zeros(10, np.float32))
    assert [kept.get(position) is not None for position in range(1, 4)] == [True, True, False]
    kept.begin([1, 5], 1)
    assert [kept.get(position) is not None for position in (1, 2)] == [True, False]
    assert kept.idle_s == KEPT_S
    now[0] = KEPT_S
    kept.give_back()
    assert kept.get(1) is None
    assert kept.idle_s is None


def result(ending: Finished | Stopped | Failed) -> DrawsReplayed:
    assert isinstance(ending, Finished), ending
    assert isinstance(ending.result, DrawsReplayed)
    return ending.result
