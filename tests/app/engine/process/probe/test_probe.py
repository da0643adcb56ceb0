"""What a probe finds does not depend on how it came there; what goes wrong ends one question."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest
from native_session import BROKEN_OFF, NativeSession
from probing import PLAIN, Arrays, distance, look, probe_of, some_ids, weights_of
from recurrent_gguf import tiny_jamba, tiny_mamba
from small_networks import NETWORKS, WINDOW, small_network, tiny_bert

from app.engine.planning.estimate import looking_bytes
from app.engine.process.cache.cells import Cells
from app.engine.process.native.logparse import read_load
from app.engine.process.native.native import Batch, NativeLog, llama
from app.engine.process.native.weights import Weights
from app.engine.process.probe import probe as probe_module
from app.engine.process.probe.graph import (
    NO_ATTENTION,
    NO_LOGITS,
    NO_STREAM,
    SOME_LAYERS,
    read_graph,
)
from app.engine.process.probe.probe import Asked, Probe
from app.engine.process.probe.state import positions_in
from app.engine.process.probe.watch import Watch
from app.engine.process.scheduling.scheduler import traits_of
from app.engine.protocol.cut_messages import Cut
from app.engine.protocol.inside_messages import AXES, NO_EXPERTS, OF_EXPERTS, WANTED
from app.refusal import Refusal

pytestmark = pytest.mark.weights

IDS: Final = some_ids(90)
FLASH: Final = pytest.mark.parametrize("flash", ["off", "on"])

ATTENTION: Final = ("attention", "value_norms", "q_before", "q_after", "k_after", "heads")

SAME: Final = {"off": 1e-4, "on": 0.01}
"""How far two ways to the same cells may lie apart, relative: float32's last bits, which go another
way in batches of another shape; float16 in flash attention."""


def agree(found: Arrays, wanted: Arrays, flash: str = "off") -> None:
    assert set(found) == set(wanted)
    for name in wanted:
        if name not in ("lens_ids", "lens_target_ranks", "lens_target_logits"):
            assert distance(found[name], wanted[name]).max() < SAME[flash], name


@pytest.fixture
def small(tmp_path: Path, native_log: NativeLog) -> Iterator[Callable[..., Weights]]:
    """Weights of a small network."""
    held: list[Any] = []

    def load(kind: str = "grouped", **options: Any) -> Weights:
        path = tmp_path / f"{kind}.gguf"
        small_network(path, kind)
        held.append(weights_of(path, native_log, **(PLAIN | options)))
        loaded: Weights = held[-1].__enter__()
        return loaded

    yield load
    for each in held:
        each.__exit__(None, None, None)


def anew(weights: Weights, ids: list[int]) -> Arrays:
    """What a probe finds that has never seen anything else."""
    with probe_of(weights) as probe:
        return look(probe, ids).arrays


# --- a beginning that is there already --------------------------------------------------------


class Slots:
    """Sequences of the context that replies use, filled by hand."""

    def __init__(self, weights: Weights) -> None:
        self._weights = weights
        self._batch = Batch(weights.n_ubatch, weights.n_slots)
        self.cells = [
            Cells(weights.context, at, traits_of(weights)) for at in range(weights.n_slots)
        ]

    def __call__(self) -> list[Cells]:
        return self.cells

    def write(self, slot: int, ids: list[int], until: int) -> None:
        """Go on with a text up to so many tokens."""
        cells = self.cells[slot]
        while (done := len(cells)) < until:
            chunk = ids[done : min(until, done + self._weights.n_ubatch)]
            self._batch.clear()
            self._batch.add(chunk, done, slot, want_scores=False)
            assert llama.llama_decode(self._weights.context, self._batch.native) == 0
            cells.extend(chunk)

    def order(self, slot: int, n_caches: int) -> list[list[int]]:
        """Positions in the order of the cells that hold them."""
        data = self.cells[slot].save()
        assert data is not None
        found = positions_in(data, n_caches, len(self.cells[slot]))
        assert found is not None
        return [positions.tolist() for positions, _ in found]


def fragmented(weights: Weights, n_caches: int) -> Slots:
    """The first slot holds all but the last of IDS, in cells that are anything but in order."""
    slots = Slots(weights)
    other = some_ids(90, seed=4)
    slots.write(0, IDS, 20)
    slots.write(1, other, 10)
    slots.write(0, IDS, 40)
    slots.write(1, other, 25)
    slots.cells[0].cut(30)
    slots.cells[1].clear()  # leaves holes before, between and behind the first one's cells
    slots.write(1, other, 4)  # takes the first of them
    slots.write(0, IDS, len(IDS) - 1)
    whole = slots.order(0, n_caches)[0]
    assert whole != sorted(whole) == list(range(len(IDS) - 1))
    return slots


@FLASH
@pytest.mark.parametrize("kind", NETWORKS)
def test_a_copy_of_scattered_cells_is_as_good_as_reading(
    small: Callable[..., Weights], kind: str, flash: str
) -> None:
    weights = small(kind, flash_attention=flash, n_slots=2, n_ubatch=64)
    n_caches = 2 if kind in ("window", "capped") else 1
    slots = fragmented(weights, n_caches)
    with probe_of(weights, slots) as probe:
        found = look(probe, IDS)
    assert (found.n_copied, found.n_read) == (len(IDS) - 1, 0)
    agree(found.arrays, anew(weights, IDS), flash)


def test_what_is_cut_off_a_scattered_copy_leaves_no_trace(small: Callable[..., Weights]) -> None:
    """Its cells are free again one here, one there, and are filled in another order."""
    weights = small(n_slots=2, n_ubatch=64)
    slots = fragmented(weights, 1)
    with probe_of(weights, slots) as probe:
        look(probe, IDS)
        slots.cells[0].clear()
        for length in (60, 25, 12):
            ids = IDS[:length] + some_ids(3, seed=length)
            found = look(probe, ids)
            assert (found.n_copied, found.n_reused) == (0, length)
            agree(found.arrays, anew(weights, ids))


def test_the_copied_slot_is_as_it_was(small: Callable[..., Weights]) -> None:
    weights = small(n_slots=2, n_ubatch=64)
    slots = fragmented(weights, 1)
    before = slots.cells[0].save()
    with probe_of(weights, slots) as probe:
        look(probe, IDS)
        look(probe, IDS[:50])
    after = slots.cells[0].save()
    assert before is not None
    assert after is not None
    assert np.array_equal(before, after)
    assert slots.cells[0].ids == IDS[:-1]


@FLASH
def test_a_window_that_has_moved_on_is_read_again(
    small: Callable[..., Weights], flash: str
) -> None:
    """Of a window a copy holds the last tokens alone; with another chat in the other slot there is
    no sequence to make an earlier one through."""
    weights = small("window", n_slots=2, n_ubatch=64, flash_attention=flash)
    slots = Slots(weights)
    slots.write(0, IDS, len(IDS))
    slots.write(1, some_ids(5, seed=2), 5)
    for length, n_copied in ((len(IDS), len(IDS) - 1), (50, 0)):
        with probe_of(weights, slots) as probe:
            ids = IDS[:length]
            found = look(probe, ids)
        assert (found.n_copied, found.n_read) == (n_copied, length - 1 - n_copied)
        agree(found.arrays, anew(weights, ids), flash)
    assert WINDOW < 50


@FLASH
@pytest.mark.parametrize("kind", ["window", "capped"])
def test_an_earlier_token_behind_a_window_is_copied_where_a_sequence_is_free(
    small: Callable[..., Weights], kind: str, flash: str
) -> None:
    """A copy holds the window of its own last token, so it is made of the beginning alone."""
    weights = small(kind, flash_attention=flash, n_slots=3, n_ubatch=64)
    slots = fragmented(weights, 2)
    before = [slots.order(at, 2) for at in (0, 1)], slots.cells[0].save()
    with probe_of(weights, slots) as probe:
        for length in (70, 50, 51):
            found = look(probe, IDS[:length])
            is_next = length == 51
            assert (found.n_copied, found.n_read) == ((0 if is_next else length - 1), 0)
            agree(found.arrays, anew(weights, IDS[:length]), flash)
    after = [slots.order(at, 2) for at in (0, 1)], slots.cells[0].save()
    assert before[0] == after[0]
    assert before[1] is not None
    assert np.array_equal(before[1], after[1])
    assert llama.llama_memory_seq_pos_max(weights.memory, 2) == -1


@pytest.mark.parametrize("kind", NETWORKS)
def test_reading_stops_for_one_layer_of_each_cache(
    small: Callable[..., Weights], kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At each node that is looked at all threads wait."""
    stops: list[str] = []
    computed = Watch._computed

    def count(watch: Watch, address: int) -> bool:
        if watch._writes is not None:
            stops.append("")
        return computed(watch, address)

    monkeypatch.setattr(Watch, "_computed", count)
    with probe_of(small(kind, n_ubatch=64)) as probe:
        look(probe, IDS)  # 89 before it, in chunks of 64
    assert len(stops) == 2 * (2 if kind in ("window", "capped") else 1)


def test_what_was_read_is_not_read_again(small: Callable[..., Weights]) -> None:
    weights = small()
    with probe_of(weights) as probe:
        assert look(probe, IDS[:40]).n_read == 39
        next_one = look(probe, IDS[:41])
        assert (next_one.n_reused, next_one.n_read) == (40, 0)
        earlier = look(probe, IDS[:20])
        assert (earlier.n_reused, earlier.n_read) == (19, 0)
        agree(earlier.arrays, anew(weights, IDS[:20]))
        other = look(probe, [7, *IDS[:30]])
        assert other.n_read == 30
        agree(other.arrays, anew(weights, [7, *IDS[:30]]))


def test_a_copy_that_does_not_come_is_read(
    small: Callable[..., Weights], monkeypatch: pytest.MonkeyPatch
) -> None:
    weights = small(n_slots=2, n_ubatch=64)
    slots = Slots(weights)
    slots.write(0, IDS, len(IDS) - 1)
    monkeypatch.setattr(probe_module, "positions_in", lambda *_: None)
    with probe_of(weights, slots) as probe:
        found = look(probe, IDS)
    assert (found.n_copied, found.n_reused, found.n_read) == (0, 0, len(IDS) - 1)
    agree(found.arrays, anew(weights, IDS))


@pytest.mark.parametrize("n_ubatch", [1, 2, 5, 16])
def test_small_batches_find_the_same(small: Callable[..., Weights], n_ubatch: int) -> None:
    """llama.cpp ends the process where more is decoded at once than its batch holds."""
    found, wanted = small(n_ubatch=n_ubatch), small(n_ubatch=64)
    agree(anew(found, IDS), anew(wanted, IDS))
    cuts = [Cut("head", 1, 2)]
    with probe_of(found) as first, probe_of(wanted) as second:
        agree(look(first, IDS, cuts=cuts).arrays, look(second, IDS, cuts=cuts).arrays)


def test_attention_of_some_layers_alone(small: Callable[..., Weights]) -> None:
    with probe_of(small()) as probe:
        every = look(probe, IDS).arrays["attention"]
        some = look(probe, IDS, ["attention"], layers=[1]).arrays["attention"]
    assert np.array_equal(some[1], every[1])
    assert np.isnan(some[[0, 2]]).all()


# --- strange graphs ---------------------------------------------------------------------------


def test_a_state_space_has_reasons(tmp_path: Path, native_log: NativeLog) -> None:
    tiny_mamba(tmp_path / "mamba.gguf")
    with weights_of(tmp_path / "mamba.gguf", native_log) as weights, probe_of(weights) as probe:
        for ids in (IDS[:20], IDS[:21], IDS[:9]):  # it can't go back: the last is read anew
            found = look(probe, ids, targets=[3])
            attention = (*ATTENTION, "attn_out")
            assert {found.missing[name] for name in attention} == {NO_ATTENTION}
            assert set(found.missing) == {*attention, "ffn_out", *OF_EXPERTS}
            agree(found.arrays, anew(weights, ids) | _targets(found.arrays))
            lens, logits = found.arrays["lens_logits"][-1], found.arrays["logits"]
            assert np.array_equal(lens, np.sort(logits)[::-1][: len(lens)])


def _targets(arrays: Arrays) -> Arrays:
    return {name: value for name, value in arrays.items() if name.startswith("lens_target")}


@FLASH
def test_a_mixture_has_attention_where_it_has_it(
    tmp_path: Path, native_log: NativeLog, flash: str
) -> None:
    tiny_jamba(tmp_path / "jamba.gguf")
    with (
        weights_of(tmp_path / "jamba.gguf", native_log, flash_attention=flash) as weights,
        probe_of(weights) as probe,
    ):
        found = look(probe, IDS[:20])
    assert found.missing["attention"] == SOME_LAYERS
    assert found.missing["attn_out"] == SOME_LAYERS
    rows = found.arrays["attention"]
    assert np.isnan(rows[[0, 2]]).all()
    assert np.abs(rows[1].sum(axis=1) - 1).max() < 1e-5
    stream = found.arrays["residual"]
    added = found.arrays["attn_out"][1] + found.arrays["ffn_out"][1]
    assert distance(stream[0] + added, stream[1]) < 1e-5


def test_a_network_for_embeddings_has_reasons(tmp_path: Path, native_log: NativeLog) -> None:
    """No such file is loaded, but its graph is the strangest there is: no cache, no scores, and a
    norm between any two additions."""
    path = tmp_path / "bert.gguf"
    tiny_bert(path)
    model = llama.llama_model_load_from_file(str(path).encode(), llama.llama_model_default_params())
    assert model, native_log.tail()
    watch = Watch()
    params = llama.llama_context_default_params()
    params.n_ctx, params.embeddings, params.cb_eval = 64, True, watch.callback
    context = llama.llama_init_from_model(model, params)
    batch = Batch(4, 1)
    batch.add([5], 0, 0, want_scores=True)

    def decode() -> None:
        assert llama.llama_decode(context, batch.native) == 0

    try:
        graph = read_graph(watch.learn(decode), 2, 64)
    finally:
        llama.llama_free(context)
        llama.llama_model_free(model)
    assert graph.missing == {
        **dict.fromkeys(("attn_out", "ffn_out", "residual", "lens"), NO_STREAM),
        **dict.fromkeys(ATTENTION, NO_ATTENTION),
        "logits": NO_LOGITS,
        **dict.fromkeys(OF_EXPERTS, NO_EXPERTS),
    }


# --- faults -------------------------------------------------------------------------------------


class Faults:
    """Fails the nth of what it stands in for, from now on."""

    def __init__(self, real: Callable[..., Any], nth: int, fault: Callable[[], Any]) -> None:
        self._real, self._left, self._fault = real, nth, fault

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        self._left -= 1
        if self._left == 0:
            return self._fault()
        return self._real(*arguments, **named)


def boom() -> None:
    raise ZeroDivisionError("in the middle")


@pytest.mark.parametrize("nth", [1, 4, 20, 24])
def test_a_fault_while_values_are_read_ends_the_question(
    small: Callable[..., Weights], monkeypatch: pytest.MonkeyPatch, nth: int
) -> None:
    """In a callback that llama.cpp calls: of the text that is read, and of the token."""
    weights = small()
    wanted = anew(weights, IDS)
    with probe_of(weights) as probe:
        look(probe, IDS[:5])
        with monkeypatch.context() as patch:
            patch.setattr(probe_module, "read", Faults(probe_module.read, nth, boom))
            with pytest.raises(ZeroDivisionError, match="in the middle"):
                look(probe, IDS)
        agree(look(probe, IDS).arrays, wanted)


def test_a_fault_while_values_are_written_ends_the_question(
    small: Callable[..., Weights], monkeypatch: pytest.MonkeyPatch
) -> None:
    weights = small()
    wanted = anew(weights, IDS)
    with probe_of(weights) as probe:
        with monkeypatch.context() as patch:
            patch.setattr(probe_module, "write", Faults(probe_module.write, 1, boom))
            with pytest.raises(ZeroDivisionError, match="in the middle"):
                look(probe, IDS)
        agree(look(probe, IDS).arrays, wanted)


@pytest.mark.parametrize("nth", [1, 2, 3, 4, 5])
def test_a_decode_that_fails_ends_the_question_in_words(
    small: Callable[..., Weights], monkeypatch: pytest.MonkeyPatch, nth: int
) -> None:
    """Of the token that tells the graph, of both chunks before the token, the token, the lens."""
    weights = small()
    wanted = anew(weights, IDS)
    with probe_of(weights) as probe:
        with monkeypatch.context() as patch:
            patch.setattr(llama, "llama_decode", Faults(llama.llama_decode, nth, lambda: -3))
            with pytest.raises(Refusal) as refused:
                look(probe, IDS)
        assert refused.value.kind == "native_error"
        assert refused.value.sentence == probe_module.FAILED
        agree(look(probe, IDS).arrays, wanted)


@pytest.mark.parametrize("missing", ["measured", "native"])
def test_no_memory_is_said_and_asked_for_again(
    small: Callable[..., Weights], monkeypatch: pytest.MonkeyPatch, missing: str
) -> None:
    weights = small()
    wanted = anew(weights, IDS)
    with probe_of(weights) as probe:
        look(probe, IDS[:5])
        probe.close()
        with monkeypatch.context() as patch:
            if missing == "measured":
                patch.setattr(probe_module, "free_bytes", lambda _: 1 << 10)
            else:
                patch.setattr(weights, "open_beside", lambda *_, **__: None)
            for _ in range(2):
                with pytest.raises(Refusal) as refused:
                    look(probe, IDS)
                assert refused.value.kind == "out_of_memory"
                assert "Looking inside needs another" in refused.value.sentence
                assert not probe.is_open
        agree(look(probe, IDS).arrays, wanted)


def test_a_longer_chat_needs_a_larger_context(
    small: Callable[..., Weights], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A refused one leaves nothing behind, neither the old context."""
    weights = small(n_ctx=2048)
    ids = some_ids(1500)
    with probe_of(weights) as probe:
        look(probe, ids[:100], ["logits"])
        found = look(probe, ids, ["logits"])
        assert (found.n_reused, found.n_read) == (0, len(ids) - 1)
        monkeypatch.setattr(probe_module, "free_bytes", lambda _: 0)
        assert look(probe, ids[:1400], ["logits"]).n_read == 0
    with probe_of(weights) as probe, pytest.raises(Refusal):
        look(probe, ids, ["logits"])


@pytest.mark.parametrize("count", [0, 257])
def test_a_text_of_no_length_or_too_long_is_refused(
    small: Callable[..., Weights], count: int
) -> None:
    with probe_of(small()) as probe:
        with pytest.raises(Refusal) as refused:
            look(probe, some_ids(count))
        assert refused.value.kind == "bad_setting"
        full = look(probe, some_ids(256))  # all that the window holds
    assert full.arrays["attention"].shape[2] == 256


def test_a_question_may_be_dropped_after_each_slice(small: Callable[..., Weights]) -> None:
    """As Stop does."""
    weights = small("window")
    wanted = anew(weights, IDS)
    with probe_of(weights) as probe:
        n_slices = len(list(probe.look(Asked(IDS, WANTED))))
        probe.close()
        for n in range(n_slices):
            asked = probe.look(Asked(IDS, WANTED))
            for _ in range(n):
                next(asked)
            asked.close()
            agree(look(probe, IDS).arrays, wanted)
            if n % 2:
                probe.close()  # the next one begins without a context


def test_stopping_a_reply_breaks_no_question_off(
    small: Callable[..., Weights], native_log: NativeLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its flag is every context's, and is set from another thread at any time."""
    weights = small(n_slots=2, n_ubatch=64)
    session = NativeSession(weights, native_log)
    reply = session.add(IDS[:30], max_tokens=100)
    session.scheduler.step()
    session.scheduler.step()
    real, codes = llama.llama_decode, []

    def decode(context: Any, batch: Any) -> int:
        session.scheduler.stop(reply)
        codes.append(real(context, batch))
        return int(codes[-1])

    with monkeypatch.context() as patch, probe_of(weights, session.scheduler.sequences) as probe:
        patch.setattr(llama, "llama_decode", decode)
        found = look(probe, IDS)
    assert codes
    assert BROKEN_OFF not in codes
    session.run()
    session.ending(reply)
    agree(found.arrays, anew(weights, IDS))


def test_the_flag_of_a_reply_that_was_stopped_late_is_nobody_s(
    small: Callable[..., Weights],
) -> None:
    weights = small()
    weights.abort.set()
    agree(anew(weights, IDS), anew(weights, IDS))


def test_a_closed_probe_may_be_closed_and_asked_again(small: Callable[..., Weights]) -> None:
    weights = small()
    probe = Probe(weights, traits=traits_of(weights))
    probe.close()
    assert set(look(probe, IDS[:3]).arrays) == set(AXES) - set(OF_EXPERTS)
    probe.close()
    probe.close()
    assert not probe.is_open


@pytest.mark.parametrize("n_ctx", [256, 2048])
def test_the_context_takes_what_was_said_before(
    starter_gguf: Path, native_log: NativeLog, n_ctx: int
) -> None:
    """By what llama.cpp says that it allocates, for the longest text."""
    with weights_of(starter_gguf, native_log, n_ctx=n_ctx) as weights:
        loaded = weights.loaded
        said = looking_bytes(loaded.memory, loaded.n_ctx, loaded.n_layer)
        with probe_of(weights) as probe, native_log.recording() as lines:
            probe._open(loaded.n_ctx)
            assert probe.is_open
        taken = sum(part.size_bytes for part in read_load(lines).memory)
        assert taken <= said <= 1.1 * taken + 300 * loaded.kv_bytes_per_token
