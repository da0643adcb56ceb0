"""How several workers (pytest-xdist) share the tests: hooks for a conftest.

Each file goes to one worker as a whole. A test in which a worker ends, because native code
crashed or the time limit struck, fails once; what is left of its file goes to another worker.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Iterable
from typing import TYPE_CHECKING, Any

import pytest
from turns import Turns

if TYPE_CHECKING:
    from xdist.scheduler import LoadFileScheduling


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
    if "PYTEST_XDIST_WORKER" not in os.environ:
        return (yield)
    shared = item.config._tmp_path_factory.getbasetemp().parent
    with Turns(shared).turn(alone=_is_alone(item)):
        return (yield)


class Known(list[str]):
    """The tests that a worker knows, in their order; each is found at once."""

    def __init__(self, tests: Iterable[str]) -> None:
        super().__init__(tests)
        self._places = {test: place for place, test in enumerate(self)}

    def index(self, test: str, *_among: Any) -> int:
        return self._places[test]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadFileScheduling | None:
    from xdist.scheduler import LoadFileScheduling

    class FilesOnce(LoadFileScheduling):
        """pytest-xdist 3.8 hands the test that ended a worker to the next one, and so on; and
        work to a worker that has not said yet which tests it knows, which ends the run. And it
        looks for each test among all of them, and after each through all that were done."""

        def add_node_collection(self, node: Any, collection: Any) -> None:
            super().add_node_collection(node, collection)
            if node in self.registered_collections:
                self.registered_collections[node] = Known(collection)

        def mark_test_complete(self, node: Any, item_index: int, duration: float = 0) -> None:
            test = self.registered_collections[node][item_index]
            work, file = self.assigned_work[node], self._split_scope(test)
            work[file][test] = True
            if all(work[file].values()):
                del work[file]
            self._reschedule(node)

        def _reschedule(self, node: Any) -> None:
            if node in self.registered_collections:
                super()._reschedule(node)

        def remove_node(self, node: Any) -> str | None:
            unfinished = {
                scope: unit
                for scope, unit in self.assigned_work[node].items()
                if not all(unit.values())
            }
            self.assigned_work[node] = unfinished
            for unit in unfinished.values():
                fatal = next(test for test, is_done in unit.items() if not is_done)
                unit[fatal] = True
                if all(unit.values()):
                    del unfinished[self._split_scope(fatal)]
                super().remove_node(node)
                return fatal
            return super().remove_node(node)

    return FilesOnce(config, log) if config.getvalue("dist") == "loadfile" else None
