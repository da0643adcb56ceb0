"""Banned strings: the matcher on bytes, and whole replies against a plain reference."""

from __future__ import annotations

import math
import random
import re

import numpy as np
import pytest
from examples import examples
from native_chains import Array, native_chain
from native_session import NativeSession

from app.engine.process.native.native import Batch, NativeLog, llama
from app.engine.process.native.weights import Weights
from app.engine.process.sampling.banned import BannedMatcher
from app.engine.process.scheduling import writing as writing_module
from app.engine.process.scheduling.writing import REDRAW_S
from app.engine.process.trace.scores import scores_of
from app.engine.protocol.messages import (
    Failed,
    Finished,
    Held,
    Note,
    Stopped,
    Summary,
    TextTakenBack,
    TokenArrived,
)
from app.engine.protocol.stages import (
    AdaptiveP,
    Dist,
    Dry,
    FilterStage,
    Greedy,
    LogitBias,
    Mirostat,
    MirostatV2,
    Penalties,
    Sampling,
    SelectStage,
    Temperature,
    TokenBias,
    TopK,
    Xtc,
)

# --- the matcher ----------------------------------------------------------------------------------


def plain_match(tokens: list[bytes], banned: list[bytes]) -> int | None:
    """The token in which the first banned string of the joined bytes begins, if there is one."""
    data = b"".join(tokens)
    found = [(data.find(text) + len(text), data.find(text)) for text in banned if text in data]
    if not found:
        return None
    _, start = min(found)
    ends = np.cumsum([len(token) for token in tokens])
    return int(np.searchsorted(ends, start, side="right"))


def test_matcher_equals_the_plain_way_on_random_streams() -> None:
    matches, n_streams = 0, examples(3000)
    for seed in range(n_streams):
        source = random.Random(seed)
        banned = [bytes(source.choices(b"ab\xc3", k=source.randint(1, 4))) for _ in range(3)]
        matcher = BannedMatcher([])
        matcher._banned = banned
        tokens: list[bytes] = []
        for _ in range(20):
            tokens.append(bytes(source.choices(b"abc\xc3", k=source.randint(0, 3))))
            first = plain_match(tokens, banned)
            taken = matcher.feed(tokens[-1])
            assert taken == (0 if first is None else len(tokens) - first)
            if taken:
                del tokens[first:]
                matches += 1
            assert plain_match(tokens, banned) is None
            # The last tokens that may begin a banned string are held.
            released = b"".join(tokens[: len(tokens) - matcher.n_held])
            for text in banned:
                for cut in range(1, len(text)):
                    if b"".join(tokens).endswith(text[:cut]):
                        assert len(released) <= sum(map(len, tokens)) - cut
    assert matches > n_streams * 2 / 3


@pytest.mark.parametrize(
    ("banned", "pieces", "taken"),
    [
        ("red rose", [b"a", b" red", b" ro", b"se"], [0, 0, 0, 3]),
        ("red rose", [b"a", b" red", b" ro", b"pe"], [0, 0, 0, 0]),
        ("Red", [b"red", b"Re", b"d"], [0, 0, 2]),
        ("🙂", [b"\xf0\x9f", b"\x99", b"\x82"], [0, 0, 3]),
        ("🙂", [b"\xf0\x9f", b"\x99", b"\x83"], [0, 0, 0]),
        ("ab", [b"a", b"", b"b"], [0, 0, 3]),
        ("x", [b"box"], [1]),
        ("", [b"a"], [0]),
    ],
)
def test_matches_over_token_borders(banned: str, pieces: list[bytes], taken: list[int]) -> None:
    matcher = BannedMatcher([banned] if banned else [])
    assert [matcher.feed(piece) for piece in pieces] == taken


def test_what_is_taken_back_lets_what_is_before_it_match_again() -> None:
    """“a” is the last token again once “cd” is gone, so it must not have been let go."""
    matcher = BannedMatcher(["ab", "cd"])
    assert [matcher.feed(piece) for piece in (b"a", b"c")] == [0, 0]
    assert matcher.n_held == 2
    assert matcher.feed(b"d") == 2
    assert matcher.n_held == 1
    assert matcher.feed(b"b") == 2
    assert matcher.n_held == 0


def test_nothing_is_held_without_a_possible_match() -> None:
    matcher = BannedMatcher(["dragon"])
    held = []
    for piece in (b"a", b" d", b"r", b"y", b" dra", b"go", b"ns"):
        matcher.feed(piece)
        held.append(matcher.n_held)
    assert held == [0, 1, 2, 0, 1, 2, 0]


# --- replies -------------------------------------------------------------------------------------

pytestmark = pytest.mark.weights


@pytest.fixture
def session(made_session: NativeSession) -> NativeSession:
    return made_session


def bare_reply(
    weights: Weights, prompt: list[int], sampling: Sampling, most: int
) -> tuple[list[int], int]:
    """The plain way: write the whole reply; where a banned string appears, ban the token it begins
    in at that position (what was banned behind it is forgotten) and write everything anew."""
    banned = [text.encode() for text in sampling.banned_strings]
    bans: dict[int, set[int]] = {}
    times = 0
    while True:
        tokens = _write(weights, prompt, sampling, most, bans, banned)
        first = plain_match([weights.vocabulary.shown_piece(t) for t in tokens], banned)
        if first is None:
            return tokens, times
        times += 1
        bans = {position: ids for position, ids in bans.items() if position <= first}
        bans.setdefault(first, set()).add(tokens[first])


def _write(
    weights: Weights,
    prompt: list[int],
    sampling: Sampling,
    most: int,
    bans: dict[int, set[int]],
    banned: list[bytes],
) -> list[int]:
    """One reply with these bans, up to the first banned string."""
    chain = native_chain(sampling, weights, prompt)
    llama.llama_memory_clear(weights.memory, True)
    batch, tokens, position = Batch(64, 1), prompt, 0
    written: list[int] = []
    while len(written) < most:
        batch.clear()
        row = batch.add(tokens, position, 0, want_scores=True)
        position += len(tokens)
        assert llama.llama_decode(weights.context, batch.native) == 0
        scores = scores_of(weights.context, row, weights.vocabulary.n_vocab).copy()
        scores[list(bans.get(len(written), ()))] = -math.inf
        array = Array(scores)
        array.apply(chain)
        token_id = array.selected
        if weights.vocabulary.is_eog(token_id):
            break
        llama.llama_sampler_accept(chain, token_id)
        written.append(token_id)
        tokens = [token_id]
        if plain_match([weights.vocabulary.shown_piece(t) for t in written], banned) is not None:
            break
    llama.llama_sampler_free(chain)
    return written


CHAINS: list[tuple[list[FilterStage], SelectStage]] = [
    ([], Greedy()),
    ([TopK(40), Temperature(0.9)], Dist()),
    ([Penalties(64, 1.2, 0.2, 0.2), Dry(1.0), TopK(40)], Dist()),
    ([TopK(60), Xtc(0.6, 0.1)], Dist()),
    ([TopK(100)], Mirostat(4.0, 0.2, 50)),
    ([TopK(100)], MirostatV2(4.0, 0.2)),
    ([TopK(100)], AdaptiveP(0.4, 0.8)),
]


def ascii_runs(text: str) -> list[str]:
    """What is no part of a character that random tokens have cut."""
    return re.findall("[ -~]{4,}", text)


ALL_CHAINS = range(len(CHAINS))
OF_STARTER = [pytest.param("starter", number, marks=pytest.mark.soak) for number in ALL_CHAINS]


@pytest.mark.parametrize(
    ("file", "number"), [*(("made", number) for number in ALL_CHAINS), *OF_STARTER]
)
def test_replies_equal_writing_anew_with_a_ban(
    file: str, number: int, request: pytest.FixtureRequest, native_log: NativeLog
) -> None:
    """State and all: penalties, DRY, every random generator, mirostat's mu, adaptive-p's mean."""
    weights: Weights = request.getfixturevalue(file)
    session = NativeSession(weights, native_log)
    filters, select = CHAINS[number]
    prompt = weights.vocabulary.tokenize("Once upon a time, there was a")
    free = session.reply(prompt, Sampling(filters, select, seed=7), max_tokens=12)
    runs = ascii_runs(free.text)
    banned = [max(runs, key=len)[2:9], runs[-1][-4:], " d", " the", "ing"]
    sampling = Sampling(filters, select, seed=7, banned_strings=banned)
    request_id = session.add(prompt, sampling, max_tokens=12, reuse_prefix=False)
    session.run()
    ending = session.ending(request_id)
    assert isinstance(ending, Finished), ending
    assert isinstance(ending.result, Summary)
    theirs, times = bare_reply(weights, prompt, sampling, 12)
    for slot in session.scheduler._slots:
        slot.cells.clear()
    assert ending.result.token_ids == theirs
    assert times > 0
    taken = [e for e in session.of(request_id) if isinstance(e, TextTakenBack)]
    assert len(taken) == times
    for text in banned:
        assert text not in ending.result.text
    assert session.streamed(request_id) == ending.result.text


def everywhere(weights: Weights) -> Sampling:
    """What is banned is all that would be said for thirty draws and more."""
    pieces = map(weights.vocabulary.piece, range(weights.vocabulary.n_vocab))
    words = [token_id for token_id, piece in enumerate(pieces) if piece.startswith(b" ")]
    push = LogitBias([TokenBias(token_id, bias=50.0) for token_id in words[:30]])
    return Sampling([push, TopK(40)], seed=5, banned_strings=[" "])


def test_who_draws_again_lets_others_write(
    session: NativeSession, made: Weights, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However often one reply draws again, a step that others wait for ends; and what it draws is
    what it draws at one go."""
    prompt = made.vocabulary.tokenize("Once upon a time, there was a")
    sampling = everywhere(made)
    whole = session.reply(prompt, sampling, max_tokens=2)
    now = 0.0

    def clock() -> float:
        nonlocal now
        now += 0.010
        return now

    monkeypatch.setattr(session.scheduler._writer, "_clock", clock)
    endless = Sampling([], Greedy(), ban_end_token=True)
    other = session.add(prompt, endless, max_tokens=200)
    picky = session.add(prompt, sampling, max_tokens=2)
    most = 0
    while session.scheduler.open_ids >= {other, picky}:
        before = len(session.events)
        session.scheduler.step()
        new = session.events[before:]
        most = max(most, sum(isinstance(event, TextTakenBack) for event in new))
        if len(session.tokens(other)) not in (0, 200) and session.tokens(picky):
            assert any(isinstance(e, TokenArrived) and e.id == other for e in new)
    assert 0 < most <= REDRAW_S / 0.010 + 1
    assert 2 * most < sum(isinstance(e, TextTakenBack) for e in session.of(picky))
    session.scheduler.stop(other)
    session.run()
    ending = session.ending(picky)
    assert isinstance(ending, Finished)
    assert isinstance(ending.result, Summary)
    assert ending.result.token_ids == whole.token_ids
    assert [e.token.token_id for e in trace_of(session, picky)] == whole.token_ids


def test_who_draws_again_can_be_stopped_and_held(
    session: NativeSession, made: Weights, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writing_module, "REDRAW_S", 0.0)
    prompt = made.vocabulary.tokenize("Once upon a time, there was a")
    request = session.add(prompt, everywhere(made), max_tokens=2)
    while not any(isinstance(e, TextTakenBack) for e in session.of(request)):
        session.scheduler.step()
    session.scheduler.hold(request)
    session.run()
    assert isinstance(session.of(request)[-1], Held)
    session.scheduler.resume(request)
    session.scheduler.step()
    assert session.scheduler.has_work
    session.scheduler.stop(request)
    session.run()
    assert isinstance(session.ending(request), Stopped)


def trace_of(session: NativeSession, request: int) -> list[TokenArrived]:
    """The tokens of the reply as a reader keeps them: what is taken back goes."""
    kept: list[TokenArrived] = []
    for event in session.of(request):
        if isinstance(event, TokenArrived):
            kept.append(event)
            assert event.token.index == len(kept) - 1
        elif isinstance(event, TextTakenBack):
            assert event.n_tokens >= 1
            assert all(e.text == "" for e in kept[len(kept) - event.n_tokens :])
            del kept[len(kept) - event.n_tokens :]
    return kept


def test_trace_goes_back_with_the_text(session: NativeSession, made: Weights) -> None:
    prompt = made.vocabulary.tokenize("Once upon a time, there was a")
    sampling = Sampling([TopK(40)], seed=5, banned_strings=[" d", "e", "town"])
    request = session.add(prompt, sampling, max_tokens=25, record_stages=True, alternatives=64)
    session.run()
    ending = session.ending(request)
    assert isinstance(ending, Finished)
    assert isinstance(ending.result, Summary)
    kept = trace_of(session, request)
    assert [e.token.token_id for e in kept] == ending.result.token_ids
    assert any(e.token.stages[0].stage == "banned-strings" for e in kept)
    assert "e" not in ending.result.text


def test_nothing_is_kept_while_nothing_can_match(
    session: NativeSession, made: Weights, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Penalties and grammars are cloned only for tokens that are held back."""
    from app.engine.process.sampling.chain import Chain

    completed: list[int] = []
    real = Chain.complete
    monkeypatch.setattr(
        Chain, "complete", lambda self, moment: (completed.append(1), real(self, moment))[1]
    )
    prompt = made.vocabulary.tokenize("Once upon a time, there was a")
    plain = Sampling(seed=5, banned_strings=["\xad\x02"])
    text = session.reply(prompt, plain, max_tokens=15).text
    assert completed == []
    near = Sampling(seed=5, banned_strings=[ascii_runs(text)[0] + "\x02"])
    session.reply(prompt, near, max_tokens=15)
    assert completed


def test_one_that_leaves_nothing_fails_in_words(session: NativeSession, made: Weights) -> None:
    prompt = made.vocabulary.tokenize("Once")
    sampling = Sampling([], Greedy(), grammar="root ::= [ab]+", banned_strings=["a", "b"])
    request = session.add(prompt, sampling, max_tokens=15)
    session.run()
    failed = session.ending(request)
    assert isinstance(failed, Failed)
    assert failed.kind == "no_candidate"
    assert failed.sentence.endswith(".")


def test_step_mode_takes_back_too(session: NativeSession, made: Weights) -> None:
    vocabulary = made.vocabulary
    prompt = vocabulary.tokenize("Roses are")
    first, second = vocabulary.tokenize(" aiq")[0], vocabulary.tokenize(" bjr")[0]
    sampling = Sampling([], Greedy(), banned_strings=["aiq bjr"])
    request = session.add(prompt, sampling, hold=True, max_tokens=3)
    session.run()
    for token_id in (first, second):
        session.scheduler.choose(request, token_id)
        session.run()
    taken = [e for e in session.of(request) if isinstance(e, TextTakenBack)]
    assert [e.n_tokens for e in taken] == [2]
    held = session.of(request)[-1]
    assert isinstance(held, Held)
    assert held.token.index == 0
    assert held.token.token_id != first
    session.scheduler.resume(request)
    session.run()
    ending = session.ending(request)
    assert isinstance(ending, Finished)
    assert isinstance(ending.result, Summary)
    assert ending.result.generated == 3
    assert "aiq bjr" not in ending.result.text


def test_weights_that_cannot_cut_read_again(
    session: NativeSession, made: Weights, monkeypatch: pytest.MonkeyPatch
) -> None:
    from app.engine.process.cache.cells import Cells

    monkeypatch.setattr(Cells, "usable", lambda self, keep: "cannot")
    prompt = made.vocabulary.tokenize("Once upon a time, there was a")
    plain = session.reply(prompt, Sampling(seed=5), max_tokens=20, reuse_prefix=False)
    banned = max(ascii_runs(plain.text), key=len)
    sampling = Sampling(seed=5, banned_strings=[banned])
    request = session.add(prompt, sampling, max_tokens=20, reuse_prefix=False)
    session.run()
    ending = session.ending(request)
    assert isinstance(ending, Finished)
    summary = ending.result
    assert isinstance(summary, Summary)
    assert banned not in summary.text
    assert summary.generated == 20
    assert summary.evaluated > len(prompt)
    assert summary.context_used == len(prompt) + 19
    assert [e.token.token_id for e in trace_of(session, request)] == summary.token_ids
    assert not [e for e in session.of(request) if isinstance(e, Note) and "again" in e.kind]


def test_stop_string_that_ends_first_wins(session: NativeSession, made: Weights) -> None:
    """The stop string is seen at once, though its last token may begin a banned one."""
    prompt = made.vocabulary.tokenize("Once upon a time, there was a")
    plain = session.reply(prompt, Sampling(seed=5), max_tokens=20)
    stop = ascii_runs(plain.text)[-1]
    sampling = Sampling(seed=5, banned_strings=[stop[-1] + "\x01"])
    request = session.add(prompt, sampling, max_tokens=20, stop=[stop])
    session.run()
    ending = session.ending(request)
    assert isinstance(ending, Finished)
    assert isinstance(ending.result, Summary)
    assert ending.result.stop_reason == "stop_string"
    assert ending.result.text == session.streamed(request)
    assert ending.result.text == plain.text[: plain.text.index(stop)]


def test_a_near_miss_at_the_end_is_shown(session: NativeSession, made: Weights) -> None:
    prompt = made.vocabulary.tokenize("Once upon a time, there was a")
    plain = session.reply(prompt, Sampling(seed=5), max_tokens=9)
    near = ascii_runs(plain.text)[-1]
    assert plain.text.endswith(near)
    sampling = Sampling(seed=5, banned_strings=[near + "\x01"])
    request = session.add(prompt, sampling, max_tokens=9)
    session.run()
    assert session.streamed(request) == plain.text


@pytest.mark.parametrize("file", ["made_window", pytest.param("gemma", marks=pytest.mark.soak)])
def test_sliding_window_weights_take_back(
    file: str, request: pytest.FixtureRequest, native_log: NativeLog
) -> None:
    weights: Weights = request.getfixturevalue(file)
    session = NativeSession(weights, native_log)
    prompt = weights.vocabulary.tokenize("Once upon a time, there was a", add_bos=True)
    chain = [TopK(40), Temperature(0.9)]
    plain = session.reply(prompt, Sampling(chain, seed=2), max_tokens=8)
    banned = max(ascii_runs(plain.text), key=len)[2:]
    sampling = Sampling(chain, seed=2, banned_strings=[banned, " of"])
    request_id = session.add(prompt, sampling, max_tokens=8, reuse_prefix=False)
    session.run()
    ending = session.ending(request_id)
    assert isinstance(ending, Finished)
    assert isinstance(ending.result, Summary)
    theirs, times = bare_reply(weights, prompt, sampling, 8)
    assert ending.result.token_ids == theirs
    assert times > 0
