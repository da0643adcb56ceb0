"""The worked examples in docstrings say what their functions really return."""

from __future__ import annotations

import doctest
import importlib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
FILES = sorted(
    path.relative_to(ROOT)
    for folder in ("app", "models", "ui")
    for path in (ROOT / folder).rglob("*.py")
    if ">>>" in path.read_text(encoding="utf-8")
)


@pytest.mark.parametrize("path", FILES, ids=str)
def test_examples_are_true(path: Path) -> None:
    module = importlib.import_module(".".join(path.with_suffix("").parts))
    # Not `testmod`: it runs what has no examples, too, and looks at every file before each run.
    told = [each for each in doctest.DocTestFinder().find(module) if each.examples]
    assert told
    runner = doctest.DocTestRunner()
    for each in told:
        runner.run(each)
    assert runner.tries
    assert not runner.failures
