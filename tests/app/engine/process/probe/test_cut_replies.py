"""Replies with cuts, against ordinary ones of files in which the part is nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from native_session import GREEDY, NativeSession, ReadyPrompt, load_in_float32, load_quietly
from one_token import D_HEAD, N_HEAD, Network, write_network
from recurrent_gguf import tiny_mamba
from scripted_talk import PATIENCE_S, ScriptedTalk

from app.engine.client.process import child_command
from app.engine.planning.estimate import MEAN_OVER, cut_bytes
from app.engine.process.native.logparse import read_load
from app.engine.process.native.native import NativeLog, llama
from app.engine.process.native.weights import Weights
from app.engine.process.probe import cut_replies, probe
from app.engine.process.probe.cut_replies import CUT_FROM_HERE, MEAN, NO_SCORES, CutReplies
from app.engine.process.probe.probe import Asked, Probe
from app.engine.process.trace.timeline import Timeline
from app.engine.protocol.cut_messages import Cut
from app.engine.protocol.loading_messages import LoadOptions
from app.engine.protocol.messages import (
    Failed,
    Finished,
    Generate,
    Held,
    Progress,
    Queued,
    Stopped,
    Summary,
    TokenTrace,
)
from app.engine.protocol.prompt_messages import IdsPrompt
from app.engine.protocol.stages import Dist, Sampling, Temperature

pytestmark = pytest.mark.weights

Values = np.ndarray[Any, Any]
PROMPT = [40, 41, 42, 43, 44, 45, 46, 47, 48, 49, 50, 51]
DRAWN = Sampling(filters=[Temperature(1.0)], select=Dist(), seed=5)


class CutSession(NativeSession):
    """Ordinary replies, and replies with cuts beside them."""

    def __init__(self, weights: Weights, log: NativeLog) -> None:
        super().__init__(weights, log)
        self.cuts = CutReplies(
            weights, self.scheduler.sequences, self.scheduler.traits, self._take, log
        )

    def add_cut(self, ids: Sequence[int], cuts: Sequence[Cut], **fields: Any) -> int:
        request_id = next(self._ids)
        fields = {"sampling": GREEDY, "max_tokens": 8, "cut_mode": "zero", **fields}
        generate = Generate(request_id, IdsPrompt(list(ids)), cuts=list(cuts), **fields)
        self.cuts.add(generate, ReadyPrompt(list(ids)), Timeline(self.cuts._clock()))
        return request_id

    def run_cut(self) -> None:
        while self.cuts.has_work:
            self.cuts.step()

    def cut_reply(self, ids: Sequence[int], cuts: Sequence[Cut], **fields: Any) -> int:
        request_id = self.add_cut(ids, cuts, **fields)
        self.run_cut()
        assert isinstance(self.ending(request_id), Finished), self.ending(request_id)
        return request_id

    def traces(self, request_id: int) -> list[TokenTrace]:
        return [event.token for event in self.tokens(request_id)]

    def ids(self, request_id: int) -> list[int]:
        return [trace.token_id for trace in self.traces(request_id)]

    def numbers(self, request_id: int) -> list[tuple[int, float, bytes]]:
        """What a reply's tokens were drawn from, to the last bit."""
        return [
            (trace.token_id, trace.logprob, trace.alternative_logprobs.data)
            for trace in self.traces(request_id)
        ]

    def close(self) -> None:
        self.cuts.close("not_loaded", "Gone.")


@pytest.fixture(scope="module", params=["llama", "gemma2", "gpt2"])
def network(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Network:
    return write_network(tmp_path_factory.mktemp("cuts") / "network.gguf", request.param)


@pytest.fixture(scope="module", params=["off", "on"])
def flash(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def weights(network: Network, flash: str, native_log: NativeLog) -> Iterator[Weights]:
    weights = load_in_float32(network.path, native_log, flash)
    yield weights
    weights.close()


@pytest.fixture
def session(weights: Weights, native_log: NativeLog) -> Iterator[CutSession]:
    made = CutSession(weights, native_log)
    yield made
    made.close()
    weights.set_threads(1)


SOAK = pytest.mark.soak


@pytest.fixture(
    params=["made_window", *(pytest.param(file, marks=SOAK) for file in ("starter", "gemma"))]
)
def whole(request: pytest.FixtureRequest, native_log: NativeLog) -> Iterator[CutSession]:
    """Of weights that write ordinary replies, too."""
    made = CutSession(request.getfixturevalue(request.param), native_log)
    yield made
    made.close()


ANY = pytest.mark.parametrize(
    ("network", "flash"),
    [
        ("gemma2", "on"),
        *(
            pytest.param(network, flash, marks=SOAK)
            for network in ("llama", "gemma2", "gpt2")
            for flash in ("off", "on")
            if (network, flash) != ("gemma2", "on")
        ),
    ],
    indirect=True,
)
"""For what does not depend on how a network is computed."""


# --- what is cut ----------------------------------------------------------------------------------


@dataclass
class Case:
    """Cuts, and what to do to a file so that these parts of it are nothing."""

    cuts: list[Cut]
    change: Callable[[dict[str, Values]], None]


def _head(layer: int, heads: Sequence[int]) -> Callable[[dict[str, Values]], None]:
    def change(tensors: dict[str, Values]) -> None:
        for head in heads:
            own = slice(head * D_HEAD, (head + 1) * D_HEAD)
            tensors[f"blk.{layer}.attn_output.weight"][:, own] = 0

    return change


def _block(layer: int, *names: str) -> Callable[[dict[str, Values]], None]:
    def change(tensors: dict[str, Values]) -> None:
        for name in names:
            for ending in ("weight", "bias"):
                if f"blk.{layer}.{name}.{ending}" in tensors:
                    tensors[f"blk.{layer}.{name}.{ending}"][:] = 0

    return change


CASES = {
    "a head": Case([Cut("head", 1, 2)], _head(1, [2])),
    "two heads": Case([Cut("head", 0, 0), Cut("head", 0, 3)], _head(0, [0, 3])),
    "attention": Case([Cut("attention", 2)], _block(2, "attn_output")),
    "the last FFN": Case([Cut("ffn", 2)], _block(2, "ffn_down")),
    "a layer": Case([Cut("layer", 1)], _block(1, "attn_output", "ffn_down")),
}


@pytest.mark.parametrize("case", CASES.values(), ids=list(CASES))
def test_a_reply_is_that_of_a_file_without_the_part(
    session: CutSession, network: Network, case: Case, tmp_path: Path, native_log: NativeLog
) -> None:
    """The prompt is one token, so that all of it is cut."""
    flash = "on" if session.weights.loaded.flash_attention else "off"
    path = tmp_path / "without.gguf"
    write_network(path, network.architecture, change=case.change)
    without = load_in_float32(path, native_log, flash)
    try:
        other = NativeSession(without, native_log)
        expected = other.reply([40], max_tokens=8)
        probabilities = [event.token.logprob for event in other.tokens(1)]
    finally:
        without.close()
    found = session.cut_reply([40], case.cuts)
    assert session.ids(found) == expected.token_ids
    own = [trace.logprob for trace in session.traces(found)]
    np.testing.assert_allclose(own, probabilities, atol=1e-4)
    whole_id = session.add([40], max_tokens=8)
    session.run()
    whole = [trace.logprob for trace in session.traces(whole_id)]
    assert np.abs(np.subtract(own, whole)).max() > 1e-3


def test_by_the_mean_a_part_is_a_constant(
    network: Network, flash: str, tmp_path: Path, native_log: NativeLog
) -> None:
    """Of a prompt of one token the mean is what the head found there: a file has it as a bias."""
    if network.architecture != "gpt2":
        network = write_network(tmp_path / "plain.gguf", "gpt2")
    own = slice(D_HEAD, 2 * D_HEAD)
    found = network.run(40).heads[1][own]

    def constant(tensors: dict[str, Values]) -> None:
        mixing = tensors["blk.1.attn_output.weight"]
        tensors["blk.1.attn_output.bias"] += mixing[:, own] @ found.astype(np.float32)
        mixing[:, own] = 0

    path = tmp_path / "constant.gguf"
    write_network(path, "gpt2", change=constant)
    replies = []
    for file, cuts in ((path, []), (network.path, [Cut("head", 1, 1)])):
        weights = load_in_float32(file, native_log, flash)
        session = CutSession(weights, native_log)
        found_id = session.cut_reply([40], cuts, cut_mode="mean")
        replies.append((session.ids(found_id), [t.logprob for t in session.traces(found_id)]))
        session.close()
        weights.close()
    assert replies[0][0] == replies[1][0]
    np.testing.assert_allclose(replies[0][1], replies[1][1], atol=2e-3)


@pytest.mark.parametrize("whole", ["starter", pytest.param("gemma", marks=SOAK)], indirect=True)
def test_the_first_token_is_what_the_replay_says(whole: CutSession) -> None:
    """From the prompt's last token on; what stands before was computed with every part."""
    cuts = [Cut("head", 8, 1), Cut("ffn", 5)]
    weights, ids = whole.weights, list(range(300, 312))
    found = whole.cut_reply(ids, cuts, cut_mode="mean", max_tokens=2)
    looking = Probe(weights, traits=whole.scheduler.traits)
    try:
        *_, looked = looking.look(Asked(ids, ["logits"], cuts=cuts, cut_mode="mean"))
    finally:
        looking.close()
    assert looked is not None
    scores = looked.arrays["logits"].astype(np.float64)
    best = int(scores.argmax())
    total = scores[best] + np.log(np.exp(scores - scores[best]).sum())
    first = whole.traces(found)[0]
    assert first.token_id == best
    assert first.logprob == pytest.approx(scores[best] - total, abs=1e-4)


# --- nothing else is changed ----------------------------------------------------------------------


@pytest.mark.parametrize(
    "whole",
    ["made_window", *(pytest.param(file, marks=SOAK) for file in ("starter", "gemma"))],
    indirect=True,
)
def test_without_cuts_it_is_the_ordinary_reply_to_the_last_bit(whole: CutSession) -> None:
    """Where steps have the same shapes: in repeatable mode, and longer than one chunk."""
    ids = list(range(300, 300 + whole.weights.n_ubatch + 6))
    fields: dict[str, Any] = {"max_tokens": 6, "repeatable": True, "sampling": DRAWN}
    ordinary = whole.add(ids, **fields)
    whole.run()
    beside = whole.cut_reply(ids, [], **fields)
    assert whole.numbers(beside) == whole.numbers(ordinary)


def test_an_ordinary_reply_is_as_before(whole: CutSession) -> None:
    """A step of each in turn, and again afterwards."""
    ids = list(range(300, 340))
    first = whole.add(ids, max_tokens=6)
    whole.run()
    second = whole.add(ids, max_tokens=6, reuse_prefix=False)
    cut = whole.add_cut(ids, [Cut("layer", 4)], max_tokens=6)
    while whole.scheduler.has_work or whole.cuts.has_work:
        if whole.scheduler.has_work:
            whole.scheduler.step()
        if whole.cuts.has_work:
            whole.cuts.step()
    third = whole.add(ids, max_tokens=6, reuse_prefix=False)
    whole.run()
    assert whole.numbers(first) == whole.numbers(second) == whole.numbers(third)
    assert whole.numbers(cut) != whole.numbers(first)


@pytest.mark.parametrize("mode", ["mean", "zero"])
def test_the_same_cuts_are_the_same_reply(session: CutSession, mode: str) -> None:
    """Repeatable, whatever was written and cut in between."""
    ids = list(range(40, 40 + MEAN_OVER + 20))
    fields: dict[str, Any] = {
        "max_tokens": 5,
        "repeatable": True,
        "sampling": DRAWN,
        "cut_mode": mode,
    }
    first = session.cut_reply(ids, [Cut("head", 1, 0)], **fields)
    session.reply(ids[:50], max_tokens=3)
    session.cut_reply(ids[:40], [Cut("ffn", 2)], cut_mode="mean", max_tokens=3)
    second = session.cut_reply(ids, [Cut("head", 1, 0)], **fields)
    assert session.numbers(first) == session.numbers(second)


def test_a_reply_and_its_control_share_their_cells(session: CutSession) -> None:
    """Nothing of the prompt but its last token is read for the second one."""
    session.cut_reply(PROMPT, [Cut("head", 1, 2)], cut_mode="mean")
    decoded: list[int] = []
    decode = llama.llama_decode

    def counting(context: Any, batch: Any) -> Any:
        decoded.append(int(batch.n_tokens))
        return decode(context, batch)

    session.cuts._probe._clock = session.cuts._clock
    llama.llama_decode = counting
    try:
        control = session.cut_reply(PROMPT, [Cut("head", 1, 0)], cut_mode="mean", max_tokens=4)
    finally:
        llama.llama_decode = decode
    assert decoded == [2, 1, 1, 1, 1]  # a graph of two tokens is learned, then four are written
    ending = session.ending(control)
    assert isinstance(ending.result, Summary)  # type: ignore[union-attr]
    assert ending.result.reused == len(PROMPT) - 1  # type: ignore[union-attr]


def test_a_prefix_comes_from_an_ordinary_slot(whole: CutSession) -> None:
    ids = list(range(300, 400))
    whole.reply(ids, max_tokens=2)
    read: list[int] = []
    original = whole.cuts._probe._read

    def reading(tokens: Sequence[int], position: int) -> None:
        read.append(len(tokens))
        original(tokens, position)

    whole.cuts._probe._read = reading  # type: ignore[method-assign]
    whole.cut_reply(ids, [Cut("head", 3, 0)], max_tokens=2)
    assert not read


@ANY
def test_reading_tells_how_far_it_is(session: CutSession) -> None:
    ids = list(range(40, 40 + 150))
    request_id = session.cut_reply(ids, [Cut("head", 1, 0)], max_tokens=2)
    told = [e for e in session.of(request_id) if isinstance(e, Progress) and e.total == 149]
    assert [event.done for event in told] == [64, 128, 149]
    assert {event.phase for event in told} == {"prefill"}


# --- notes, steps, queue --------------------------------------------------------------------------


@ANY
def test_it_is_said_what_was_cut_and_from_where(session: CutSession) -> None:
    by_mean = session.cut_reply(PROMPT, [Cut("ffn", 1)], cut_mode="mean")
    by_zero = session.cut_reply(PROMPT, [Cut("ffn", 1)])
    words = f"{CUT_FROM_HERE} {MEAN.format(n=len(PROMPT))}"
    whole = session.cut_reply(PROMPT, [])
    for request_id, expected in ((by_mean, [words]), (by_zero, [CUT_FROM_HERE]), (whole, [])):
        result = session.ending(request_id).result  # type: ignore[union-attr]
        assert isinstance(result, Summary)
        assert result.notes == expected


@ANY
def test_a_held_reply_waits_for_each_choice(session: CutSession) -> None:
    held = session.add_cut(PROMPT, [Cut("head", 1, 2)], hold=True, max_tokens=2)
    session.run_cut()
    assert isinstance(session.of(held)[-1], Held)
    assert session.cuts.scheduler is not None
    session.cuts.scheduler.choose(held, 77)
    session.run_cut()
    session.cuts.scheduler.resume(held)
    session.run_cut()
    assert session.ids(held)[0] == 77
    assert isinstance(session.ending(held), Finished)


@ANY
def test_it_uses_as_many_threads_as_ordinary_replies_do(session: CutSession) -> None:
    """What the governor has settled on; a repeatable reply the user's number."""
    session.weights.set_threads(2)
    for is_repeatable, expected in ((False, 2), (True, 1), (False, 2)):
        cuts = [Cut("ffn", 1)]
        request_id = session.cut_reply(PROMPT, cuts, repeatable=is_repeatable, max_tokens=1)
        context = session.cuts._probe._context
        assert llama.llama_n_threads(context) == expected
        result = session.ending(request_id).result  # type: ignore[union-attr]
        assert isinstance(result, Summary)
        assert result.n_threads == expected


@ANY
def test_the_next_one_waits(session: CutSession) -> None:
    first = session.add_cut(PROMPT, [Cut("head", 1, 2)])
    session.cuts.step()
    second = session.add_cut(PROMPT, [Cut("head", 1, 3)])
    third = session.add_cut(PROMPT, [Cut("ffn", 1)])
    session.run_cut()
    assert [event for event in session.of(third) if isinstance(event, Queued)] == [
        Queued(third, 2),
        Queued(third, 1),
    ]
    for request_id in (first, second, third):
        assert isinstance(session.ending(request_id), Finished)


# --- endings --------------------------------------------------------------------------------------


@ANY
def test_each_is_stopped_wherever_it_is(session: CutSession) -> None:
    running = session.add_cut(PROMPT, [Cut("head", 1, 2)], cut_mode="mean")
    waiting = session.add_cut(PROMPT, [Cut("head", 1, 2)])
    session.cuts.step()
    session.cuts.step()
    session.cuts.stop(running)  # while its prompt is read
    session.cuts.stop(waiting)
    assert not session.cuts.has_work
    writing = session.add_cut(PROMPT, [Cut("head", 1, 2)], max_tokens=0)
    while len(session.tokens(writing)) < 2:
        session.cuts.step()
    session.cuts.stop(writing)
    session.run_cut()
    for request_id in (running, waiting, writing):
        assert isinstance(session.ending(request_id), Stopped)
    assert session.ending(writing).result.token_ids  # type: ignore[union-attr]
    session.cut_reply(PROMPT, [Cut("head", 1, 2)])  # and goes on


@ANY
def test_a_step_that_is_broken_off_is_done_again(session: CutSession) -> None:
    undisturbed = session.cut_reply(PROMPT, [Cut("head", 1, 2)], max_tokens=5)
    broken = session.add_cut(PROMPT, [Cut("head", 1, 2)], max_tokens=5)
    decode, codes = llama.llama_decode, []

    def breaking(context: Any, batch: Any) -> Any:
        if len(session.tokens(broken)) == 2 and not codes:
            session.weights.abort.set()
        code = decode(context, batch)
        if session.weights.abort.is_set:
            codes.append(code)
            session.weights.abort.clear()
        return code

    llama.llama_decode = breaking
    try:
        session.run_cut()
    finally:
        llama.llama_decode = decode
    assert codes == [2]
    assert session.ids(broken) == session.ids(undisturbed)


@ANY
def test_without_memory_it_is_refused_in_words(
    session: CutSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(probe, "free_bytes", lambda weights: 1000)
    refused = session.add_cut(PROMPT, [Cut("head", 1, 2)])
    session.run_cut()
    failed = session.ending(refused)
    assert isinstance(failed, Failed)
    assert failed.kind == "out_of_memory"
    assert "Cutting parts needs another" in failed.sentence
    monkeypatch.undo()
    session.cut_reply(PROMPT, [Cut("head", 1, 2)])


@pytest.mark.parametrize(
    "whole",
    ["made_window", *(pytest.param(file, marks=SOAK) for file in ("starter", "gemma"))],
    indirect=True,
)
@pytest.mark.parametrize("share", [0.1, 0.7])
@pytest.mark.parametrize("max_tokens", [2, 600])
def test_it_takes_what_was_said_before(
    whole: CutSession, native_log: NativeLog, share: float, max_tokens: int
) -> None:
    """By what llama.cpp says that it allocates."""
    loaded = whole.cuts._weights.loaded
    n_before = int(share * loaded.n_ctx)
    ids = np.random.default_rng(5).integers(40, 90, n_before).tolist()
    said = cut_bytes(loaded, n_before, max_tokens)
    request_id = whole.add_cut(ids, [Cut("head", 1, 0)], cut_mode="mean", max_tokens=max_tokens)
    with native_log.recording() as lines:
        while not whole.cuts._probe.is_open:
            whole.cuts.step()
    whole.cuts.stop(request_id)
    taken = read_load(lines).memory
    assert sum(part.size_bytes for part in taken) <= said
    cells = sum(part.size_bytes for part in taken if part.what == "kv")
    others = sum(p.size_bytes for p in loaded.memory if p.what in ("compute", "output"))
    wider = max(1.0, cells / (loaded.kv_bytes_per_token * loaded.n_ctx))
    # What is computed in may be smaller than that of the loaded context, for fewer cells.
    assert said <= cells + wider * others + 300 * loaded.kv_bytes_per_token


def test_what_cannot_be_cut_fails_with_a_reason(tmp_path: Path, native_log: NativeLog) -> None:
    tiny_mamba(tmp_path / "mamba.gguf")
    weights = load_quietly(tmp_path / "mamba.gguf", native_log, n_ctx=256, n_threads=1)
    session = CutSession(weights, native_log)
    try:
        refused = session.add_cut(PROMPT, [Cut("head", 0, 0)])
        session.run_cut()
        assert isinstance(session.ending(refused), Failed)
        for mode in ("zero", "mean"):
            one = session.cut_reply(PROMPT, [Cut("layer", 1)], cut_mode=mode)
            again = session.cut_reply(PROMPT, [Cut("layer", 1)], cut_mode=mode)
            assert session.ids(one) == session.ids(again)
    finally:
        session.close()
        weights.close()


@ANY
def test_what_is_asked_wrongly_is_refused(session: CutSession) -> None:
    for cuts, fields in (
        ([Cut("layer", 99)], {}),
        ([Cut("head", 0, N_HEAD)], {}),
        ([Cut("head", 0, 0)], {"score_prompt": True}),
        ([Cut("head", 0, 0)], {"max_tokens": -1}),
    ):
        with pytest.raises(cut_replies.Refusal):
            session.add_cut(PROMPT, cuts, **fields)
    with pytest.raises(cut_replies.Refusal):
        session.add_cut([], [Cut("head", 0, 0)])
    assert NO_SCORES.endswith(".")


@ANY
def test_a_graph_that_is_another_one_ends_the_reply(session: CutSession) -> None:
    request_id = session.add_cut(PROMPT, [Cut("head", 1, 2)])
    while session.cuts.scheduler is None:
        session.cuts.step()
    weights = session.cuts.scheduler._weights
    (nodes, graph), several = weights._lent.graphs  # type: ignore[attr-defined]
    strange = [type(node)("x", node.op, node.shape, node.sources) for node in nodes]
    weights._lent = weights._lent._replace(graphs=((strange, graph), several))  # type: ignore[attr-defined]
    session.run_cut()
    failed = session.ending(request_id)
    assert isinstance(failed, Failed)
    assert failed.kind == "unsupported"
    session.cut_reply(PROMPT, [Cut("head", 1, 2)])


@ANY
def test_the_context_is_given_back_when_idle(session: CutSession) -> None:
    session.cut_reply(PROMPT, [Cut("head", 1, 2)])
    assert session.cuts.idle_s is not None
    session.cuts.give_back()
    assert session.cuts.idle_s is not None  # not yet
    session.cuts._probe.used_at -= cut_replies.IDLE_S
    session.cuts.give_back()
    assert session.cuts.idle_s is None


# --- the whole engine -----------------------------------------------------------------------------


def test_the_engine_writes_both_beside_each_other(tmp_path: Path) -> None:
    path = write_network(tmp_path / "network.gguf", "llama").path
    talk = ScriptedTalk(tmp_path)
    try:
        engine = talk.over(child_command("engine"))
        options = LoadOptions(n_ctx=256, n_ubatch=64, n_slots=1, n_threads=1)
        engine.wait_for(engine.load(path, options), PATIENCE_S)

        def generate(**fields: Any) -> int:
            return engine.generate(Generate(0, IdsPrompt(PROMPT), GREEDY, **fields))

        cuts = [Cut("layer", 1)]
        endless = generate(cuts=cuts)
        plain, cut = generate(max_tokens=6), generate(max_tokens=6, cuts=cuts, cut_mode="zero")
        whole = engine.wait_for(plain, PATIENCE_S)
        engine.stop(endless)
        assert isinstance(engine.wait_for(endless, PATIENCE_S), Stopped | Finished)
        without = engine.wait_for(cut, PATIENCE_S)
        wrong = engine.wait_for(generate(cuts=[Cut("layer", 9)]), PATIENCE_S)
    finally:
        talk.close()
    assert isinstance(whole, Finished)
    assert isinstance(without, Finished)
    assert isinstance(whole.result, Summary)
    assert isinstance(without.result, Summary)
    assert whole.result.token_ids != without.result.token_ids
    assert CUT_FROM_HERE in without.result.notes
    assert isinstance(wrong, Failed)
