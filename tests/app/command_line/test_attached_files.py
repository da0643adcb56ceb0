"""`ask` with texts and documents: what goes to the engine, and what is refused in words."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pdfs import PICTURE, pdf

from app.command_line import cli


def ask(folder: Path, *argv: str) -> int:
    script = folder / "script.json"
    script.write_text(json.dumps({"load": {"ms": 1}, "replies": [{"text": "Paper."}]}), "utf-8")
    return cli.main(["What is it?", "--scripted", str(script), *argv])


@pytest.mark.usefixtures("forked_children", "forked_engines")
def test_documents_stand_before_the_message(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.pdf").write_bytes(pdf(["one two three four five six", PICTURE]))
    (tmp_path / "b.txt").write_bytes("sept, é".encode("cp1252"))
    counts = []
    for names in ([], ["a.pdf"], ["a.pdf", "b.txt"]):
        argv = [part for name in names for part in ("--attach", str(tmp_path / name))]
        assert ask(tmp_path, "--json", *argv) == 0
        out, said = capsys.readouterr()
        counts.append(json.loads(out.splitlines()[-1])["prompt_tokens"])
    assert counts[0] < counts[1] < counts[2]
    assert said.splitlines() == [
        "Page 2 of “a.pdf” has no text: pictures aren't read.",
        "“b.txt” was read as Western (Windows-1252).",
    ]


def test_what_cannot_be_read_is_said_before_anything_loads(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "scan.pdf").write_bytes(pdf([PICTURE]))
    for argv, said in (
        (["--attach", str(tmp_path / "scan.pdf")], "has no text in it: its page is a picture"),
        (["--attach", str(tmp_path / "gone.pdf")], "no longer there"),
        (["--attach", str(tmp_path / "scan.pdf"), "--raw"], "--raw takes no attached files"),
    ):
        assert ask(tmp_path, *argv) != 0
        out, err = capsys.readouterr()
        assert out == ""
        assert said in err
