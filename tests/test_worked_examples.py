"""The worked examples in docstrings say what their functions really return."""

from __future__ import annotations

import doctest
import importlib
from pathlib import Path

from each import each

ROOT = Path(__file__).resolve().parents[1]
FILES = sorted(
    path.relative_to(ROOT)
    for folder in ("app", "models", "ui")
    for path in (ROOT / folder).rglob("*.py")
    if ">>>" in path.read_text(encoding="utf-8")
)


@each("path", FILES)
def test_examples_are_true(path: Path) -> None:
    module = importlib.import_module(".".join(path.with_suffix("").parts))
    # Not `testmod`: it runs what has no examples, too, and looks at every file before each run.
    told = [found for found in doctest.DocTestFinder().find(module) if found.examples]
    assert told
    runner = doctest.DocTestRunner()
    for found in told:
        runner.run(found)
    assert runner.tries
    assert not runner.failures
