"""The composition root: what it answers before Qt, bad arguments, the first paint's imports."""

from __future__ import annotations

import json
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
    "pyqtgraph",
    "keyring",
    "huggingface_hub",
    "ziamath",
    "llama_cpp",
)


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
        (["--gguf", "no-such-file.gguf"], "no file"),
        (["--scripted", "no-such-script.json"], "no file"),
        (["--gguf", "~no-such-user/file.gguf"], "no file"),
        (["--gguf", "long" * 100], "no file"),
        (["--data-dir", ""], "a folder is expected"),
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
    """The list is taken when the window has painted and takes keys, before anything begins."""
    code = f"""
import json, sys
import main
from app.chat.desk import Desk
from PySide6.QtWidgets import QApplication
begun = []
def started(desk):
    begun.extend(sys.modules)
    application.quit()
Desk.start = started
app = main.build(["--data-dir", {str(tmp_path / "data")!r}])
application = QApplication.instance()
assert app.window.isVisible()
application.exec()
app.close()
print(json.dumps(sorted({{name.partition(".")[0] for name in begun}})))
"""
    result = run(code=code)
    assert result.returncode == 0, result.stderr
    imported = json.loads(result.stdout)
    assert "PySide6" in imported
    assert [name for name in HEAVY if name in imported] == []
