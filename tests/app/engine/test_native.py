"""Loading order, log, abort flag and the arrays that C reads."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from app.engine import native
from app.engine.native import CANDIDATE, AbortFlag, Batch, Candidates, NativeLog, llama
from app.engine.shortlist import ShortlistFinder

ROOT = Path(__file__).resolve().parents[3]


def in_fresh_process(source: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", source], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def test_llama_cpp_is_loaded_before_numpy_and_without_its_heavy_half() -> None:
    source = """
import sys
class Watch:
    order = []
    def find_spec(self, name, path=None, target=None):
        if name in ("numpy", "llama_cpp.llama_cpp", "jinja2", "diskcache", "llama_cpp.llama"):
            self.order.append(name)
        return None
sys.meta_path.insert(0, Watch())
import app.engine.native, os
print(Watch.order, os.environ["GGML_NO_BACKTRACE"])
"""
    assert in_fresh_process(source) == "['llama_cpp.llama_cpp', 'numpy'] 1"


def test_candidate_is_llama_token_data() -> None:
    import ctypes

    assert CANDIDATE.itemsize == ctypes.sizeof(llama.llama_token_data)
    candidates = Candidates(5)
    candidates.fill(np.array([0.5, 1.5, 2.5, 3.5, 4.5], np.float32))
    assert candidates.reference  # written as soon as somebody takes it
    rows = [(candidates.native.data[i].id, candidates.native.data[i].logit) for i in range(5)]
    assert rows == [(0, 0.5), (1, 1.5), (2, 2.5), (3, 3.5), (4, 4.5)]
    assert (candidates.native.size, candidates.native.selected) == (5, -1)


def test_view_follows_what_a_sampler_leaves() -> None:
    candidates = Candidates(1000)
    scores = np.linspace(-1, 1, 1000).astype(np.float32)
    sampler = llama.llama_sampler_init_top_k(3)
    for _ in range(2):  # filling again brings everything back
        candidates.fill(scores)
        assert len(candidates.view) == 1000
        llama.llama_sampler_apply(sampler, candidates.reference)
        assert candidates.view["id"].tolist() == [999, 998, 997]
    llama.llama_sampler_free(sampler)


def test_view_follows_an_array_elsewhere() -> None:
    candidates = Candidates(3)
    candidates.fill(np.zeros(3, np.float32))
    other = (llama.llama_token_data * 2)()
    other[1].id, other[1].logit = 42, 7.0
    candidates.native.data, candidates.native.size = other, 2
    assert candidates.view["id"].tolist() == [0, 42]
    assert candidates.view["logit"].tolist() == [0.0, 7.0]


def test_batch_rows_are_what_c_reads() -> None:
    batch = Batch(16, 4)
    assert batch.add([7, 8, 9], 5, 2, want_scores=True) == 2
    assert batch.add([3], 11, 0, want_scores=False) == 3
    n = batch.native
    assert n.n_tokens == 4
    assert [n.token[i] for i in range(4)] == [7, 8, 9, 3]
    assert [n.pos[i] for i in range(4)] == [5, 6, 7, 11]
    assert [n.seq_id[i][0] for i in range(4)] == [2, 2, 2, 0]
    assert [n.n_seq_id[i] for i in range(4)] == [1, 1, 1, 1]
    assert [n.logits[i] for i in range(4)] == [0, 0, 1, 0]
    batch.clear()
    assert (batch.room, batch.native.n_tokens) == (16, 0)
    batch.add([1], 0, 0, want_scores=False)
    assert n.logits[0] == 0


def test_abort_flag_answers_c_without_python() -> None:
    flag = AbortFlag()
    assert not flag.callback(flag.data)
    flag.set()
    assert flag.is_set
    assert flag.callback(flag.data)
    flag.clear()
    assert not flag.callback(flag.data)


def test_abort_flag_stops_a_real_decode(starter: object, native_log: NativeLog) -> None:
    weights = starter
    llama.llama_memory_clear(weights.memory, True)
    batch = Batch(weights.n_ubatch, 4)
    batch.add(list(range(100, 100 + weights.n_ubatch)), 0, 0, want_scores=False)
    weights.abort.set()
    assert llama.llama_decode(weights.context, batch.native) == 2
    weights.abort.clear()
    assert llama.llama_decode(weights.context, batch.native) == 0


def log_with(lines: list[tuple[int, bytes]]) -> tuple[NativeLog, list[tuple[str, str]]]:
    heard: list[tuple[str, str]] = []
    log = NativeLog(lambda level, text: heard.append((level, text)))
    for level, data in lines:
        log._receive(level, data, None)
    return log, heard


def test_log_lines_are_joined_and_debug_is_dropped() -> None:
    log, heard = log_with(
        [
            (1, b"a debug line\n"),
            (2, b"half "),
            (5, b"and half\n"),
            (3, b"careful\n"),
            (4, b"bad \xff byte\n"),
            (5, b"."),
            (5, b".\n"),
            (2, b"two\nlines\n"),
        ]
    )
    assert heard == [
        ("info", "half and half"),
        ("warning", "careful"),
        ("error", "bad \ufffd byte"),
        ("info", "two"),
        ("info", "lines"),
    ]
    assert log.tail(2) == ["two", "lines"]


def test_log_without_line_ends_stays_bounded() -> None:
    _, heard = log_with([(2, b"x" * 300) for _ in range(10)])
    assert heard
    assert all(len(text) <= 500 for _, text in heard)


def test_recording_holds_only_its_own_lines() -> None:
    log = NativeLog()
    log._receive(2, b"before\n", None)
    with log.recording() as lines:
        log._receive(2, b"inside\n", None)
    log._receive(2, b"after\n", None)
    assert lines == ["inside"]


def test_devices_name_the_processor_with_free_memory() -> None:
    cpu = next(device for device in native.list_devices() if device.kind == "cpu")
    assert cpu.description
    assert 0 < cpu.free_bytes <= cpu.total_bytes


def test_shared_graphics_devices_are_used_only_alone() -> None:
    from app.engine.protocol import Device

    cpu = Device("CPU", "cpu", "cpu", 1, 1)
    own, shared = Device("A", "a", "gpu", 1, 1), Device("B", "b", "igpu", 1, 1)
    assert native.offload_devices([cpu, own, shared]) == [own]
    assert native.offload_devices([cpu, shared]) == [shared]
    assert native.offload_devices([cpu]) == []


@pytest.mark.parametrize(
    ("text", "cores"), [("max 100000", 1 << 16), ("150000 100000", 1), ("400000 100000", 4)]
)
def test_cores_that_a_container_grants(tmp_path: Path, text: str, cores: int) -> None:
    path = tmp_path / "cpu.max"
    path.write_text(text)
    assert native._container_limit(path) == cores
    assert native._container_limit(tmp_path / "missing") == 1 << 16


def test_physical_cores_are_at_least_one() -> None:
    assert 1 <= native.physical_cores() <= 1024


def test_graphics_evidence_is_read_from_the_system(tmp_path: Path) -> None:
    device = tmp_path / "sys/class/drm/card0/device"
    device.mkdir(parents=True)
    (device / "vendor").write_text("0x10de\n")
    connector = tmp_path / "sys/class/drm/card0-HDMI-A-1/device"
    connector.mkdir(parents=True)
    evidence = native.graphics_evidence(tmp_path)
    assert evidence.drm_vendors == ("0x10de",)
    (tmp_path / "proc/driver/nvidia").mkdir(parents=True)
    (tmp_path / "proc/driver/nvidia/version").touch()
    assert native.graphics_evidence(tmp_path).nvidia_driver


@pytest.mark.parametrize("k", [1, 40, 100])
@pytest.mark.parametrize("spread", [0.3, 3.0, 30.0])
def test_narrowed_candidates_hold_the_best(k: int, spread: float) -> None:
    source = np.random.default_rng(k)
    candidates = Candidates(5000)
    for _ in range(30):
        scores = source.normal(0, spread, 5000).astype(np.float32)
        candidates.fill(scores)
        candidates.narrow(k)
        view = candidates.view
        best = np.sort(scores)[-k:]
        assert k < len(view) <= 5000
        assert np.array_equal(np.sort(view["logit"])[-k:], best)
        assert np.array_equal(scores[view["id"]], view["logit"])
        assert np.all(np.diff(view["id"]) > 0)
    assert len(view) < 2000


@pytest.mark.parametrize("k", [1, 40, 100, 500])
def test_a_shortlist_that_is_too_short_for_a_stage_is_not_enough(k: int) -> None:
    """It holds more than the stage keeps, but not for sure the best ones."""
    source = np.random.default_rng(k)
    candidates, finder = Candidates(50_000), ShortlistFinder(50_000)
    for _ in range(10):
        scores = source.normal(0, 3, 50_000).astype(np.float32)
        candidates.fill(scores, finder.find(scores, 64))
        candidates.narrow(k)
        best = np.sort(scores)[-k:]
        assert np.array_equal(np.sort(candidates.view["logit"])[-k:], best)
        assert len(candidates.view) < 50_000


def test_equal_scores_are_left_to_the_sorting_stage() -> None:
    scores = np.arange(5000, dtype=np.float32)
    scores[10] = scores[4999]
    candidates = Candidates(5000)
    for given in (scores, np.zeros(5000, np.float32), np.full(5000, -np.inf, np.float32)):
        candidates.fill(given)
        candidates.narrow(40)
        assert candidates.native.size == len(candidates.view) == 5000
    candidates.fill(np.arange(5000, dtype=np.float32))
    candidates.narrow(3000)  # not worth it
    assert candidates.native.size == 5000


def test_scores_that_were_given_are_never_changed() -> None:
    scores = np.arange(50, dtype=np.float32)
    candidates = Candidates(50)
    candidates.fill(scores)
    candidates.ban(np.array([49], np.int32))
    assert candidates.best_score == 48
    assert candidates.first_score == 0
    assert scores[49] == 49
    assert candidates.view["logit"][49] == -np.inf
    assert candidates.first_score == 0


def test_memory_is_what_the_control_group_leaves(tmp_path: Path) -> None:
    _, total = native.host_memory(tmp_path)  # no control group here: the machine's own
    assert total > 1 << 28
    (tmp_path / "memory.max").write_text("1000000\n")
    (tmp_path / "memory.current").write_text("900000\n")
    (tmp_path / "memory.stat").write_text("anon 100\ninactive_file 400000\n")
    assert native.host_memory(tmp_path) == (500_000, 1_000_000)
    (tmp_path / "memory.max").write_text("max\n")
    assert native.host_memory(tmp_path)[1] == total


def test_scores_of_a_row_that_has_none(starter: object) -> None:
    with pytest.raises(native.NativeError):
        native.scores_of(starter.context, 10_000, starter.vocabulary.n_vocab)
