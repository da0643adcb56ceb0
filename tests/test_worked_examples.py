"""The worked examples in docstrings say what their functions really return."""

from __future__ import annotations

import ast
import doctest
import importlib
import linecache
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
    # For each example doctest's debugger asks the disk about each file whose lines are cached.
    linecache.clearcache()
    module = importlib.import_module(".".join(path.with_suffix("").parts))
    # Not doctest's own finder: for each object it looks through all modules that are imported,
    # which takes seconds where the other tests have imported thousands.
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    texts = {
        node: ast.get_docstring(node) or "" for node in ast.walk(tree) if isinstance(node, kinds)
    }
    parser, runner = doctest.DocTestParser(), doctest.DocTestRunner()
    for node, text in texts.items():
        if ">>>" in text:
            name = getattr(node, "name", "")
            line = getattr(node, "lineno", 0)
            runner.run(parser.get_doctest(text, dict(vars(module)), name, str(path), line))
    assert runner.tries
    assert not runner.failures
