"""`ask` with pictures and sounds: what goes to the engine, and what is refused in words."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from each import each

from app.command_line import cli, inside
from app.engine.protocol.media_messages import MAX_MEDIA_BYTES, MAX_SENT_BYTES

PNG = b"\x89PNG\r\n\x1a\n.."
WAV = b"RIFF\x04\0\0\0WAVEfmt "


@pytest.fixture
def files(tmp_path: Path) -> Path:
    (tmp_path / "cat.png").write_bytes(PNG)
    (tmp_path / "purr.wav").write_bytes(WAV)
    (tmp_path / "page.svg").write_bytes(b"<svg/>")
    (tmp_path / "mmproj.gguf").write_bytes(b"GGUF")
    for name, more in (("seeing", {"projector": {"tokens": 9}}), ("blind", {})):
        content: dict[str, Any] = {"load": {"ms": 1}, "replies": [{"text": "A cat."}], **more}
        (tmp_path / f"{name}.json").write_text(json.dumps(content), encoding="utf-8")
    with (tmp_path / "large.png").open("wb") as large:
        large.write(PNG)
        large.truncate(MAX_MEDIA_BYTES + 1)
    with (tmp_path / "half.png").open("wb") as half:
        half.write(PNG)
        half.truncate(MAX_SENT_BYTES // 2 + 1)
    return tmp_path


def ask(files: Path, *argv: str, script: str = "seeing", text: str = "What is it?") -> int:
    named = [str(files / each) if (files / each).is_file() else each for each in argv]
    return cli.main([text, "--scripted", str(files / f"{script}.json"), *named])


@pytest.mark.usefixtures("forked_children", "forked_engines")
def test_a_picture_is_part_of_the_prompt(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    counts = []
    for argv in ([], ["--image", "cat.png"], ["--image", "cat.png", "--image", "cat.png"]):
        assert ask(files, "--json", *argv) == 0
        summary = json.loads(capsys.readouterr().out.splitlines()[-1])
        assert summary["text"] == "A cat."
        counts.append(summary["prompt_tokens"])
    assert [count - counts[0] for count in counts] == [0, 9, 18]
    assert ask(files, "--image", "cat.png", "--projector", "mmproj.gguf", script="blind") == 0
    capsys.readouterr()
    assert ask(files, "--image", "cat.png", text="") == 0  # it is a message by itself
    assert "A cat." in capsys.readouterr().out


@pytest.mark.usefixtures("forked_children", "forked_engines")
def test_a_model_without_a_projector_is_said_before_it_answers(
    files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for argv in (["--image", "cat.png"], ["--audio", "purr.wav"]):
        assert ask(files, *argv, script="blind") == 1
        out, err = capsys.readouterr()
        assert out == ""
        assert "no projector is loaded with it" in err
        assert "--projector FILE" in err
    assert ask(files, "--image", "cat.png", "--projector", "none") == 1
    capsys.readouterr()
    assert ask(files, "--audio", "purr.wav") == 1  # it sees, and doesn't hear
    assert "is not made for that" in capsys.readouterr().err


@each(
    ("argv", "words"),
    [
        (["--image", "page.svg"], "can't be read with --image. Use PNG, JPEG, GIF or BMP."),
        (["--image", "purr.wav"], "can't be read with --image"),
        (["--audio", "cat.png"], "Use WAV, MP3 or FLAC."),
        (["--image", "gone.png"], "File not found"),
        (["--image", "large.png"], "is too large"),
        (["--image", "half.png"] * 2, "together may have at most 41.9 MB"),
        (["--image", "cat.png", "--raw"], "--raw takes no pictures"),
        (["--projector", "gone.gguf"], "File not found"),
    ],
)
def test_what_cannot_be_is_refused_in_one_sentence(
    argv: list[str], words: str, files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ask(files, *argv) in (1, 2)
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert words in err


def test_inside_looks_into_texts(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert inside.main(["Hi", "--image", str(files / "cat.png")]) == 2
    assert "Only texts can be looked inside" in capsys.readouterr().err
