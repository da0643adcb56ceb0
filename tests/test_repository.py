"""What people forget: locks, docstrings, executable bits, docs that drift."""

from __future__ import annotations

import ast
import os
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
REQUIREMENTS = ROOT / "requirements"
SOURCES = ("main.py", "app", "models", "ui")
TEXTS = {".py", ".md", ".toml", ".txt", ".in", ".json", ".svg", ".cfg", ".ini", ".mako", ""}
PIN = re.compile(r"^([A-Za-z0-9._-]+)==([^\s;]+)", re.MULTILINE)


def files_below(*names: str) -> Iterator[Path]:
    for name in names:
        place = ROOT / name
        if place.is_file():
            yield place
        else:
            yield from (
                path
                for path in sorted(place.rglob("*"))
                if path.is_file() and "__pycache__" not in path.parts
            )


def pins(name: str) -> dict[str, str]:
    return dict(PIN.findall((REQUIREMENTS / name).read_text()))


# --- the lock -----------------------------------------------------------------------------------

LOCKS = ["pip.txt", "app.txt", "data.txt", "dev.txt", "data-dev.txt"]


def unhashed(lock: str) -> list[str]:
    """Pinned releases without a sha256, and lines that are neither a pin nor part of one."""
    joined = lock.replace("\\\n", " ")
    lines = [line.strip() for line in joined.splitlines()]
    return [
        line
        for line in lines
        if line and not line.startswith("#") and not ("==" in line and "--hash=sha256:" in line)
    ]


@pytest.mark.parametrize("name", LOCKS)
def test_every_locked_release_has_a_hash(name):
    lock = (REQUIREMENTS / name).read_text()
    assert PIN.search(lock)
    assert unhashed(lock) == []


@pytest.mark.parametrize("line", ["a==1", "a>=1 --hash=sha256:00", "--index-url x", "a @ b"])
def test_a_line_without_hash_or_pin_is_found(line):
    assert unhashed(f"# a comment\n{line}\n") == [line]


def test_requirements_name_no_index_and_no_address():
    for path in files_below("requirements"):
        text = path.read_text()
        assert "://" not in text, path.name
        assert not re.search(r"^\s*(-i|-f|--(extra-)?index-url|--find-links)\b", text, re.M)


def test_the_whole_check_installs_what_readme_names_and_no_more():
    """Else it would prove nothing about a machine that was set up as README says."""
    script = (ROOT / ".ci" / "run").read_text()
    named = re.search(r"sudo apt install ([^`]*)\n```", (ROOT / "README.md").read_text())
    listed = re.search(r"^packages=\((.*?)^\)", script, re.M | re.S)
    assert named
    assert listed
    of_readme = set(named[1].replace("\\\n", " ").split())
    of_check = set(listed[1].split())
    added = set(re.findall(r"packages\+=\((\S+)\)", script))
    assert of_check | added == of_readme | {"xvfb", "xauth", "xdotool"}


def test_every_requirement_is_locked():
    for name in LOCKS:
        wanted = (REQUIREMENTS / name).with_suffix(".in").read_text()
        names = re.findall(r"^([A-Za-z0-9._-]+)", re.sub(r"^-r .*", "", wanted, flags=re.M), re.M)
        locked = {normal(pin) for pin in pins(name)}
        assert {normal(each) for each in names} <= locked, f"run make lock: {name} is behind"


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def test_the_tests_run_on_what_the_app_runs_on():
    app, dev = pins("app.txt"), pins("dev.txt")
    assert {name: dev.get(name) for name in app} == app


def test_no_lock_format_that_records_addresses():
    names = {path.name for path in ROOT.iterdir()}
    assert not names & {"uv.lock", "poetry.lock", "pdm.lock", "Pipfile.lock", "pylock.toml"}


def test_python_versions_agree():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert project["project"]["requires-python"] == ">=3.11"
    assert project["tool"]["ruff"]["target-version"] == "py311"
    assert project["tool"]["mypy"]["python_version"] == "3.11"
    assert "--python-version 3.11" in (ROOT / "Makefile").read_text()


# --- sources and documents ----------------------------------------------------------------------


def test_every_source_says_what_lives_in_it():
    silent = [
        str(path.relative_to(ROOT))
        for path in files_below(*SOURCES)
        if path.suffix == ".py" and not says_something(path.read_text("utf-8"))
    ]
    assert silent == []


def says_something(source: str) -> bool:
    """Read up to the end of its first long text: parsing all of every source takes seconds."""
    beginning, mark, rest = source.partition('"""')
    docstring, end, _ = rest.partition('"""')
    try:
        return bool(ast.get_docstring(ast.parse(beginning + mark + docstring + end)))
    except SyntaxError:  # it was in the middle of something else
        return False


def test_no_init_file_below_tests():
    """A package tests/app would hide the real one."""
    assert [path for path in files_below("tests") if path.name == "__init__.py"] == []


MACHINE_PATHS = re.compile(r"/root/|/work/(main|shared)|/tmp/boot|/opt/pypi")


def test_no_file_names_a_path_of_some_machine():
    named = []
    documents = (path.name for path in ROOT.glob("*.md"))
    places = (*SOURCES, *documents, "Makefile", "pyproject.toml", ".ci", "requirements", "tests")
    for path in files_below(*places, "resources"):
        if path.suffix in TEXTS and path != Path(__file__).resolve():
            text = path.read_text(encoding="utf-8")
            named += [f"{path.relative_to(ROOT)}: {m[0]}" for m in MACHINE_PATHS.finditer(text)]
    assert named == []


def test_documents_name_only_targets_that_exist():
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.M))
    for name in ("README.md", "CONTRIBUTING.md"):
        named = re.findall(r"\bmake ([a-z]+)\b(?!\+)", code_of((ROOT / name).read_text()))
        assert named, name
        assert set(named) <= targets, name


def code_of(markdown: str) -> str:
    """Fenced blocks and code spans of a document, one after the other."""
    return "\n".join(re.findall(r"```.*?```|`[^`\n]+`", markdown, re.S))


def test_documents_name_only_files_that_exist():
    for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md"):
        links = re.findall(r"\]\(([^)#:]+)\)", (ROOT / name).read_text())
        missing = [link for link in links if not (ROOT / link).exists()]
        assert missing == [], name


def test_the_map_names_only_what_is_there():
    """Abbreviated paths are ends of whole ones: `replies/growing.py` lies in `app/chat/`."""
    found = [path.relative_to(ROOT) for path in files_below(*SOURCES, "resources", "tests", "docs")]
    folders = {folder for path in found for folder in path.parents}
    there = {f"/{path.as_posix()}" for path in found} | {f"/{each.as_posix()}/" for each in folders}
    whole = "\n".join(there) + "\n"
    for name in ("ARCHITECTURE.md", "docs/decisions.md"):
        spans = re.findall(r"`([\w./-]+)`", (ROOT / name).read_text())
        paths = [span for span in spans if re.search(r"/|\.(?:py|md)$", span)]
        assert len(paths) > 5
        assert [path for path in paths if f"/{path}\n" not in whole] == []


def test_the_way_in_is_read_in_ten_minutes():
    assert len((ROOT / "ARCHITECTURE.md").read_bytes()) <= 10_000


def test_the_ci_script_can_be_run():
    script = ROOT / ".ci" / "run"
    assert os.access(script, os.X_OK)
    assert script.read_text().startswith("#!/usr/bin/env bash\n")
    assert "set -euo pipefail" in script.read_text()


# --- PySide6 ------------------------------------------------------------------------------------


def test_void_calls_of_qt_lose_no_reference_to_none():
    """PySide6 6.12.0 on Python 3.11 does, and aborts after a few thousand calls."""
    from PySide6.QtCore import QObject, Signal

    class Sender(QObject):
        sent = Signal(int)

    sender = Sender()
    sender.sent.connect(lambda number: None)
    before = sys.getrefcount(None)
    for number in range(10_000):
        sender.setObjectName("name")
        sender.sent.emit(number)
    assert abs(sys.getrefcount(None) - before) < 100
