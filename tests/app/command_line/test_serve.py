"""`main.py serve`: it says where it listens, and Ctrl-C ends it in mid-stream."""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import threading
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from app.command_line import serve
from app.gguf.local.places import Origin, Place
from app.refusal import Refusal

SCRIPT = {
    "load": {"ms": 1, "loaded": {"notes": ["The projector can't be used."]}},
    "replies": [{"tokens": [{"text": "a ", "ms": 5, "repeat": 4000}]}],
}


@pytest.fixture
def script(tmp_path: Path) -> str:
    path = tmp_path / "script.json"
    path.write_text(json.dumps(SCRIPT), encoding="utf-8")
    return str(path)


class _Reader:
    """Asks as soon as the address is said, and interrupts in the middle of the answer."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.address = ""
        self.lines: list[bytes] = []
        self._thread = threading.Thread(target=self._ask)
        self._said = serve._say
        monkeypatch.setattr(serve, "_say", self._say)

    def _say(self, stream: Any, line: str) -> None:
        self._said(stream, line)
        if stream is sys.stdout:
            self.address = line
            self._thread.start()

    def _ask(self) -> None:
        body = {"messages": [{"role": "user", "content": "Hi"}], "stream": True}
        headers = {"Content-Type": "application/json"}
        url = f"{self.address}/chat/completions"
        request = urllib.request.Request(url, json.dumps(body).encode(), headers)
        with urllib.request.urlopen(request, timeout=30) as answer:
            self.lines.append(answer.readline())
            os.kill(os.getpid(), signal.SIGINT)
            self.lines += answer.readlines()

    def join(self) -> None:
        self._thread.join(30)


@pytest.mark.skipif(sys.platform == "win32", reason="no signal can be sent to oneself there")
def test_it_says_its_address_and_ctrl_c_ends_it_in_mid_stream(
    forked_children: None,
    script: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    reader = _Reader(monkeypatch)
    assert serve.main(["--scripted", script, "--port", "0"]) == 0
    reader.join()
    assert reader.lines[0].startswith(b"data: ")
    assert any(b"turned off" in line for line in reader.lines)
    said = capsys.readouterr()
    assert said.out == f"{reader.address}\n"
    assert "Press Ctrl-C to stop.\nThe projector can't be used.\n" in said.err
    with socket.socket() as again:
        again.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        again.bind(("127.0.0.1", int(reader.address.split(":")[2].split("/")[0])))


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--host", "0.0.0.0"], "needs a key"),
        (["--host", "0.0.0.0", "--key", "a-long-key", "--offline"], "this computer alone"),
        (["--port", "99999"], "between 0 and 65535"),
        (["--key", "abc"], "The key must have"),
        (["--gguf", "no/such/file.gguf"], "File not found"),
        (["--gguf", "no-such-model-anywhere"], "No model called"),
    ],
)
def test_wrong_arguments_are_a_sentence(
    arguments: list[str],
    sentence: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("app.gguf.local.places.places_of_others", tuple)
    assert serve.main(arguments) != 0
    assert sentence in capsys.readouterr().err


def test_weights_are_found_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parts = ("Big-00001-of-00002.gguf", "Big-00002-of-00002.gguf")
    for name in ("Qwen3-4B-Q4.gguf", "Qwen3-8B-Q4.gguf", "mmproj-Qwen3-8B-f16.gguf", *parts):
        (tmp_path / name).write_bytes(b"GGUF")
    places = (Place(Origin.FOLDER, tmp_path),)
    monkeypatch.setattr("app.gguf.local.places.places_of_others", lambda: places)
    assert serve.named_weights("qwen3-4b-q4").name == "Qwen3-4B-Q4.gguf"
    assert serve.named_weights("8b").name == "Qwen3-8B-Q4.gguf"
    assert serve.named_weights("big").name == parts[0]
    with pytest.raises(Refusal, match="several models"):
        serve.named_weights("qwen3")
