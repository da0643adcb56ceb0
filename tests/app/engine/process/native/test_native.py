"""Loading order, log, abort flag and the arrays that C reads."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from app.engine.process.native import native
from app.engine.process.native.native import AbortFlag, Batch, NativeLog, llama

ROOT = Path(__file__).resolve().parents[5]


WATCH = """
import os, sys
class Watch:
    order = []
    def find_spec(self, name, path=None, target=None):
        if name in ("numpy", "llama_cpp.llama_cpp", "jinja2", "diskcache", "llama_cpp.llama"):
            self.order.append((name, os.environ.get("OPENBLAS_NUM_THREADS")))
        return None
sys.meta_path.insert(0, Watch())
"""


def in_fresh_process(source: str) -> str:
    """The last line of what it says; with nothing to read."""
    env = {name: value for name, value in os.environ.items() if name != "OPENBLAS_NUM_THREADS"}
    done = subprocess.run(
        [sys.executable, "-c", source],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=True,
        env=env,
    )
    return done.stdout.decode(errors="replace").strip().rpartition("\n")[2]


def test_llama_cpp_is_loaded_before_numpy_and_without_its_heavy_half() -> None:
    source = (
        WATCH
        + """
import app.engine.process.native.native
print([name for name, _ in Watch.order], os.environ["GGML_NO_BACKTRACE"])
"""
    )
    assert in_fresh_process(source) == "['llama_cpp.llama_cpp', 'numpy'] 1"


def test_so_it_is_in_the_engines_process_and_numpy_takes_one_core() -> None:
    """With a pool of its own, numpy's small products take ten times as long there."""
    source = (
        WATCH
        + """
from app.engine.process import child
said = os.dup(1)
child.main()
names = dict(Watch.order)
os.write(said, f"\\n{list(names)} {names['numpy']}".encode())
"""
    )
    assert in_fresh_process(source) == "['llama_cpp.llama_cpp', 'numpy'] 1"


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
