"""How several processes share the tests: hooks for a conftest.

All tests are collected once, and the workers are forked from there. pytest-xdist starts each
worker as a Python of its own, which imports everything and collects all tests again: with four
workers on two cores, 14 s before the first test, and as much again for what the workers and their
controller tell each other about 10,000 tests. Where a system cannot fork safely, the tests run one
after another in this process.

What must hold: each file goes to one worker as a whole, in the order of the collection. A test in
which a worker ends, because native code crashed or the time limit struck, fails once; what is left
of its file, and of the one it was to take next, goes to another worker.
"""

from __future__ import annotations

import itertools
import os
import signal
import sys
import traceback
from collections import deque
from collections.abc import Generator, Sequence
from multiprocessing.connection import Connection, Pipe, wait
from types import SimpleNamespace
from typing import Any, Final

import pytest
from turns import Turns

CAN_FORK: Final = sys.platform == "linux"
"""macOS's own libraries take no fork."""

_IS_WORKER: Final = pytest.StashKey[bool]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--workers", type=int, default=0, help="so many processes share the tests (0: this one)"
    )


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files with tests that run alone come first: at the start the workers have nothing to end
    before each of them. Then the real program, whose files take longest: at the end the other
    workers would wait for them."""
    lonely = {item.path for item in items if _is_alone(item)}
    items.sort(key=lambda item: (item.path not in lonely, "xvfb" not in item.path.parts))


def _is_alone(item: pytest.Item) -> bool:
    return item.get_closest_marker("alone") is not None


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Among several workers each test waits for its turn; the time limit begins after that."""
    if not item.config.stash.get(_IS_WORKER, False):
        return (yield)
    shared = item.config._tmp_path_factory.getbasetemp().parent
    with Turns(shared).turn(alone=_is_alone(item)):
        return (yield)


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool | None:
    option = session.config.option
    if option.workers < 2 or option.collectonly or not CAN_FORK or session.testsfailed:
        return None  # pytest's own loop, which says what could not be collected
    crew = Crew(session)
    try:
        crew.share(option.workers)
    finally:
        crew.dismiss()
    return True


class Worker:
    """One of them as the tests' own process sees it. `todo`: what it was given and has not begun,
    in its order; `running`: the test that it is in."""

    def __init__(self, number: int, pid: int, line: Connection) -> None:
        self.number = number
        self.pid = pid
        self.line = line
        self.todo: deque[int] = deque()
        self.running: int | None = None


class Crew:
    """Who is at work, and what is to be done: files, each the places of its tests."""

    def __init__(self, session: pytest.Session) -> None:
        self._session = session
        self._hook = session.config.hook
        by_file = itertools.groupby(range(len(session.items)), lambda at: session.items[at].path)
        self._files = deque(list(tests) for _, tests in by_file)
        self._workers: dict[Connection, Worker] = {}
        self._n_hired = 0
        session.config._tmp_path_factory.getbasetemp()  # one folder for what all of them make

    def share(self, n_workers: int) -> None:
        """Run all tests. Raises as pytest's own loop does where it is to stop early."""
        for _ in range(min(n_workers, len(self._files))):
            self._hire()
        while self._workers:
            for line in wait(list(self._workers)):
                worker = self._workers[line]
                try:
                    said = line.recv()
                except (EOFError, ConnectionError):
                    self._bury(worker)
                else:
                    self._take(worker, said)
                if self._session.shouldfail:
                    raise self._session.Failed(self._session.shouldfail)
                if self._session.shouldstop:
                    raise self._session.Interrupted(self._session.shouldstop)

    def dismiss(self) -> None:
        """End who is still at work."""
        for worker in self._workers.values():
            os.kill(worker.pid, signal.SIGKILL)
            os.waitpid(worker.pid, 0)
            worker.line.close()

    def _hire(self) -> None:
        self._n_hired += 1
        ours, theirs = Pipe()
        # What stands in the buffers would be written by each of them.
        sys.stdout.flush()
        sys.stderr.flush()
        pid = os.fork()
        if not pid:
            # Whoever else held our end would keep the worker from seeing that we have ended.
            for line in (ours, *self._workers):
                line.close()
            _work(self._session, theirs, self._n_hired)
        theirs.close()
        self._workers[ours] = Worker(self._n_hired, pid, ours)

    def _take(self, worker: Worker, said: Any) -> None:
        match said:
            case "next":
                tests = self._files.popleft() if self._files else []
                worker.todo.extend(tests)
                worker.line.send(tests)
            case int():
                worker.todo.remove(said)
                worker.running = said
            case _:
                report = self._hook.pytest_report_from_serializable(
                    config=self._session.config, data=said
                )
                self._report(worker, report)

    def _report(self, worker: Worker, report: pytest.TestReport) -> None:
        # By pytest-xdist's names: pytest's terminal expects no order then, and names the worker.
        name = f"worker {worker.number}"
        report.node = SimpleNamespace(gateway=SimpleNamespace(id=name), _workerinfocache=name)
        self._hook.pytest_runtest_logreport(report=report)

    def _bury(self, worker: Worker) -> None:
        """It has ended: because there is no more to do, or in the middle of a test."""
        _, status = os.waitpid(worker.pid, 0)
        del self._workers[worker.line]
        worker.line.close()
        if status == 0 and not worker.todo:
            return
        if worker.running is not None:
            item = self._session.items[worker.running]
            sentence = f"A worker ended ({_how(status)}) while running {item.nodeid!r}"
            self._report(
                worker,
                pytest.TestReport(item.nodeid, item.location, {}, "failed", sentence, "call"),
            )
        left = itertools.groupby(worker.todo, lambda at: self._session.items[at].path)
        self._files.extendleft(reversed([list(tests) for _, tests in left]))
        if self._files:
            self._hire()


def _how(status: int) -> str:
    code = os.waitstatus_to_exitcode(status)
    return f"exit code {code}" if code >= 0 else signal.Signals(-code).name


# --- in a worker --------------------------------------------------------------------------------


class _Telling:
    """The plugin that tells how each test went."""

    def __init__(self, config: pytest.Config, line: Connection) -> None:
        self._config = config
        self._line = line

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.passed and report.when != "call" and not report.sections:
            return  # nobody asks how a test's fixtures went well
        told = self._config.hook.pytest_report_to_serializable(config=self._config, report=report)
        self._line.send(told)


def _work(session: pytest.Session, line: Connection, number: int) -> None:
    """Run what is handed out until there is no more, and end this process."""
    exit_code = 1
    try:
        _settle_in(session.config, line, number)
        _run(session, line)
        exit_code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        line.close()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(exit_code)


def _settle_in(config: pytest.Config, line: Connection, number: int) -> None:
    plugins = config.pluginmanager
    plugins.unregister(name="terminalreporter")
    plugins.register(_Telling(config, line))
    # What was captured until now is in files that all workers would write to at once.
    capture = plugins.getplugin("capturemanager")
    capture.stop_global_capturing()
    capture.start_global_capturing()
    capture.suspend_global_capture()
    factory = config._tmp_path_factory  # type: ignore[attr-defined]
    factory._basetemp = factory.getbasetemp() / f"worker-{number}"
    factory._basetemp.mkdir(mode=0o700)
    config.stash[_IS_WORKER] = True


def _run(session: pytest.Session, line: Connection) -> None:
    def asked_for() -> Sequence[pytest.Item]:
        line.send("next")
        return [session.items[place] for place in line.recv()]

    places = {item: place for place, item in enumerate(session.items)}
    tests = asked_for()
    while tests:
        following: Sequence[pytest.Item] = ()
        for item, later in itertools.zip_longest(tests, tests[1:]):
            if later is None:
                # The last test of a file ends the fixtures that the next one has no use for.
                following = asked_for()
                later = following[0] if following else None
            line.send(places[item])
            session.config.hook.pytest_runtest_protocol(item=item, nextitem=later)
            if session.shouldfail or session.shouldstop:
                return
        tests = following
