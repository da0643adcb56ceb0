"""The composition root: what it answers before Qt, bad arguments, the first paint's imports."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

import main

ROOT = Path(__file__).resolve().parent.parent
HEAVY = (
    "numpy",
    "sqlalchemy",
    "alembic",
    "keyring",
    "huggingface_hub",
    "ziamath",
    "llama_cpp",
    "msgspec",
)
FIRST = {
    "app.chat",
    "app.chat.conversations",
    "app.chat.conversations.folder",
    "app.chat.settings",
    "app.chat.settings.first_look",
    "app.paths",
    "ui.chat",
    "ui.chat.composer",
    "ui.chat.message_edit",
    "ui.look",
    "ui.look.colors",
    "ui.look.fonts",
    "ui.look.theme",
    "ui.look.theme_sheet",
    "ui.shell",
    "ui.shell.first_frame",
    "ui.shell.life",
    "ui.shell.sizes",
    "ui.shell.window",
    "ui.widgets",
    "ui.widgets.click_focus",
    "ui.widgets.elided",
}
"""All that is ours at the first paint (a folder is its head, some lines of text). More would make
the start slower than its budget."""


def run(*arguments: str, code: str | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, *(["-c", code] if code else ["main.py"]), *arguments]
    return subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--no-such-option"], "--no-such-option"),
        (["--gguf"], "expected one argument"),
        (["--gguf", "no-such-file.gguf"], "File not found"),
        (["--scripted", "no-such-script.json"], "File not found"),
        (["--gguf", "~no-such-user/file.gguf"], "File not found"),
        (["--gguf", "long" * 100], "File not found"),
        (["--data-dir", ""], "expected a folder"),
        (["--quit-after", "soon"], "soon"),
        (["unexpected"], "unexpected"),
    ],
)
def test_bad_arguments_are_one_sentence_and_no_traceback(arguments, words, capsys):
    with pytest.raises(SystemExit) as ended:
        main.main(arguments)
    assert ended.value.code == 2
    said = capsys.readouterr().err
    assert words in said
    assert said.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "command", "rest"),
    [
        (["ask", "hi"], "ask", ["hi"]),
        (["--data-dir", "D", "ask", "hi"], "ask", ["--data-dir", "D", "hi"]),
        (["--data-dir=D", "--offline", "ask", "hi"], "ask", ["--data-dir=D", "--offline", "hi"]),
        (["--offline", "bench", "--quick"], "bench", ["--offline", "--quick"]),
        (["--offline", "inside", "hi"], "inside", ["--offline", "hi"]),
        (["--gguf", "ask"], "", ["--gguf", "ask"]),
        (["--data-dir", "bench", "--offline"], "", ["--data-dir", "bench", "--offline"]),
        (["unexpected", "ask"], "", ["unexpected", "ask"]),
        ([], "", []),
    ],
)
def test_options_may_stand_before_the_command(arguments, command, rest):
    assert main.command_in(arguments) == (command, rest)


def test_commands_take_the_options_of_the_window(tmp_path, capsys):
    script = tmp_path / "script.json"
    script.write_text('{"replies": [{"text": "Hello."}]}')
    options = ["--data-dir", str(tmp_path / "data"), "--offline"]
    assert main.main([*options, "--scripted", str(script), "ask", "hi"]) == 0
    assert capsys.readouterr().out == "Hello.\n"
    assert main.main([*options, "--scripted", str(script), "inside", "hi"]) == 0
    assert "Looking at token" in capsys.readouterr().out
    missing = [*options, "--gguf", str(tmp_path / "none.gguf"), "bench"]
    assert main.main(missing) != 0
    assert "none.gguf" in capsys.readouterr().err, "what is wrong is the file, not the options"


def test_every_option_with_a_value_is_known(capsys):
    with pytest.raises(SystemExit):
        main.parse(["--help"])
    shown = re.findall(r"(--[a-z-]+) [A-Z]+", capsys.readouterr().out)
    assert set(shown) | {"--quit-after"} == set(main.TAKE_A_VALUE)


def test_data_folder_that_cannot_be_made_is_one_sentence(tmp_path, capsys):
    (tmp_path / "file").write_text("")
    assert main.main(["--data-dir", str(tmp_path / "file" / "data")]) == 1
    assert capsys.readouterr().err.count("\n") == 1


def test_unknown_child_is_refused(capsys):
    assert main.main(["--child=nothing"]) == 2
    assert "nothing" in capsys.readouterr().err


def test_children_and_commands_are_answered_without_qt():
    code = "import sys, main; print([m for m in sys.modules if m.startswith(('PySide6', 'app'))])"
    assert run(code=code).stdout.strip() == "[]"


def test_nothing_heavy_is_imported_at_the_first_paint(tmp_path):
    """The list is taken when the frame has painted and takes keys, before anything begins."""
    code = f"""
import json, sys
import main
from ui.shell import life
begun = []
def begin(imports):
    begun.extend(sys.modules)
    app.application.quit()
life.Imports.begin = begin
app = main.build(["--data-dir", {str(tmp_path / "data")!r}])
assert app.window.isVisible()
app.application.exec()
app.close()
print(json.dumps(begun))
"""
    result = run(code=code)
    assert result.returncode == 0, result.stderr
    imported = json.loads(result.stdout)
    assert "PySide6.QtWidgets" in imported
    assert [name for name in imported if name.partition(".")[0] in HEAVY] == []
    ours = {name for name in imported if name.startswith(("app.", "models", "ui."))}
    assert ours == FIRST


def test_rest_of_the_window_is_imported_in_the_background(tmp_path):
    """`REST` names all that the window is completed with: nothing is left to its own thread."""
    code = f"""
import importlib, sys
import main
app = main.build(["--data-dir", {str(tmp_path / "data")!r}])
for name in main.REST:
    importlib.import_module(name)
before = set(sys.modules)
app.desk
print([m for m in set(sys.modules) - before if m.startswith(("app", "models", "ui"))])
app.close()
"""
    result = run(code=code)
    assert result.returncode == 0, result.stderr
    assert result.stdout.strip() == "[]"


def test_qt_classes_are_made_on_the_windows_thread_alone_and_little_else(tmp_path):
    """Elsewhere they would end the window; and what else is imported there would freeze it."""
    script = ROOT / "resources" / "scripts" / "hello.json"
    code = f"""
import json, sys, threading
import main
from PySide6.QtCore import QTimer
from ui.shell import life
life.WARM_UP_AFTER_MS = 0
seen = []
class Watching:
    def find_spec(self, name, path=None, target=None):
        seen.append((name, threading.current_thread() is threading.main_thread()))
begin, act = life.Imports.begin, main.App._complete
def beginning(imports):
    if Watching not in map(type, sys.meta_path):
        sys.meta_path.insert(0, Watching())
    begin(imports)
def completing(app):
    until.append(len(seen))
    return act(app)
until = []
life.Imports.begin, main.App._complete = beginning, completing
app = main.build(["--data-dir", {str(tmp_path / "data")!r}, "--scripted", {str(script)!r}])
def look():
    if app._made is not None and app._warming and app.desk.loader.state.state == "ready":
        app.application.quit()
timer = QTimer()
timer.timeout.connect(look)
timer.start(10)
app.application.exec()
app.close()
print(json.dumps([seen, until[0]]))
"""
    result = run(code=code)
    assert result.returncode == 0, result.stderr
    seen, n_until_complete = json.loads(result.stdout)
    made = [
        pair for pair in seen if pair[0].startswith(("ui.", "PySide6.")) or pair[0] == "app.bridge"
    ]
    assert len(made) > 50
    assert [name for name, is_windows in made if not is_windows] == []
    on_the_windows = [name for name, is_windows in seen[:n_until_complete] if is_windows]
    assert {
        name
        for name in on_the_windows
        if name.partition(".")[0] in {*HEAVY, "models"} or name.startswith("app.")
    } == {"app.bridge", "app.local_time", "app.memory"}


def test_garbage_is_collected_on_the_windows_thread_alone(tmp_path):
    """Also while the rest is imported and the store opened: Qt's objects end where they lived."""
    script = ROOT / "resources" / "scripts" / "hello.json"
    code = f"""
import gc, threading
import main
from ui.shell import life
life.TIDY_EVERY_MS = 20
app = main.build(["--data-dir", {str(tmp_path / "data")!r}, "--scripted", {str(script)!r}])
print(gc.isenabled())
where = []
gc.callbacks.append(lambda *_: where.append(threading.current_thread() is threading.main_thread()))
from PySide6.QtCore import QTimer
def look():
    if where and app._made is not None and app.desk.loader.state.state == "ready":
        app.application.quit()
timer = QTimer()
timer.timeout.connect(look)
timer.start(20)
app.application.exec()
app.close()
print(set(where), gc.isenabled())
"""
    result = run(code=code)
    assert result.returncode == 0, result.stderr
    assert result.stdout.split("\n")[:2] == ["False", "{True} True"]
