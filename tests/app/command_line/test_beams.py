"""`ask --beams`: the best texts, their sums, and the tree they come from."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from gguf_writer import tiny_llama

from app.command_line import cli
from app.engine.protocol.beam_messages import STOPS_NOTHING

pytestmark = pytest.mark.usefixtures("forked_children", "forked_engines")


@pytest.fixture
def script(tmp_path: Path) -> str:
    path = tmp_path / "script.json"
    replies = [{"text": "Paris is the capital of France, and a large old city on a river."}]
    path.write_text(json.dumps({"load": {"ms": 1}, "replies": replies}), encoding="utf-8")
    return str(path)


def _ask(*argv: str) -> int:
    return cli.main(["Where?", *argv])


def _checked(lines: list[dict[str, Any]], width: int, length: int, alpha: float) -> dict[str, Any]:
    """The last line, once the tree before it bears it out."""
    steps = [line for line in lines if line["event"] == "beam_step"]
    nodes = {node["number"]: {**node, "step": s["step"]} for s in steps for node in s["nodes"]}
    for node in nodes.values():
        parent = nodes.get(node["parent"])
        before = parent["sum"] if parent else 0.0
        assert node["step"] == (parent["step"] if parent else 0) + 1
        assert node["sum"] == pytest.approx(before + node["logprob"], abs=1e-12)
        assert node["logprob"] == pytest.approx(math.log(node["probability"]))
        assert node["score"] == pytest.approx(node["sum"] / node["step"] ** alpha)
    for step in steps:
        assert sum(node["kind"] == "alive" for node in step["nodes"]) <= width
        assert sum(node["greedy"] for node in step["nodes"]) <= 1
    last = lines[-1]
    assert last["event"] == "beams"
    scores = [leaf["score"] for leaf in last["leaves"]]
    assert scores == sorted(scores, reverse=True)
    for leaf in (*last["leaves"], last["greedy"]):
        node, ids, pieces = nodes[leaf["number"]], [], b""
        while node is not None:
            ids.insert(0, node["token_id"])
            pieces = (b"" if node["end"] else bytes.fromhex(node["bytes"])) + pieces
            node = nodes.get(node["parent"])
        assert leaf["token_ids"] == ids
        assert leaf["text"] == pieces.decode("utf-8", "replace")
        assert len(ids) <= length
    assert last["text"] == last["leaves"][0]["text"]
    return last


@pytest.mark.parametrize("length", ["--beam-length", "--max-tokens"])
def test_json_has_the_whole_tree(
    length: str, script: str, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ("--beams", "3", length, "6", "--length-penalty", "0.5")
    assert _ask("--scripted", script, *options, "--json") == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    _checked(lines, 3, 6, 0.5)


def test_plain_text_is_the_best_one_and_all_stand_beside_it(
    script: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _ask("--scripted", script, "--beams", "3", "--beam-length", "4") == 0
    out, err = capsys.readouterr()
    lines = err.splitlines()
    assert "log p" in lines[0]
    assert repr(out.removesuffix("\n")) in lines[1]
    assert lines[-1].split()[0] == "greedy"
    assert [line.split()[0] for line in lines[1:4]] == ["1.", "2.", "3."]


def test_stop_strings_end_no_beam_and_that_is_said(
    script: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _ask("--scripted", script, "--beams", "2", "--stop", "a") == 0
    assert STOPS_NOTHING in capsys.readouterr().err


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["--beams", "9"], ["number of beams", "1 and 8", "9"]),
        (["--beams", "0"], ["number of beams"]),
        (["--beams", "2", "--beam-length", "257"], ["beam length", "256"]),
        (["--beams", "2", "--length-penalty", "nan"], ["length penalty"]),
        (["--beam-length", "4"], ["--beams"]),
        (["--length-penalty", "0"], ["--beams"]),
        (["--beams", "2", "--score-prompt"], ["--score-prompt"]),
        (["--beams", "many"], ["--beams"]),
    ],
)
def test_wrong_arguments(
    argv: list[str], words: list[str], script: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _ask("--scripted", script, *argv) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert len(err.splitlines()) == 1
    for word in words:
        assert word in err


@pytest.mark.weights
def test_a_real_file_is_searched(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tiny_llama(tmp_path / "tiny.gguf")
    options = ("--beams", "4", "--beam-length", "5", "--length-penalty", "0.0", "--threads", "1")
    assert _ask("--gguf", str(tmp_path / "tiny.gguf"), "--raw", *options, "--json") == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    last = _checked(lines, 4, 5, 0.0)
    assert last["n_before"] == last["n_read"]
