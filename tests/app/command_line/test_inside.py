"""`inside`: what it saves and prints holds together, and every refusal is a sentence."""

from __future__ import annotations

import contextlib
import doctest
import errno
import io
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from gguf_writer import Shape, tiny_llama
from recurrent_gguf import tiny_jamba, tiny_mamba
from reference_network import Network
from small_networks import NETWORKS, WINDOW, small_network

from app.command_line import cli, inside, talk
from app.command_line.seen import FILE_ARRAYS, SAVED
from app.engine.protocol.frames import MAX_FRAME_BYTES
from app.engine.protocol.inside_messages import LookInside
from app.engine.protocol.loading_messages import Loaded, LoadOptions
from app.engine.protocol.messages import Event, Progress, ReadVocabulary
from app.refusal import Refusal

ROOT = Path(__file__).resolve().parents[3]

pytestmark = pytest.mark.usefixtures("forked_engines_here")

TEXT = "The capital of France is Paris, and the capital of Germany is"
CUT = "The capital of France is"

SHAPES = {
    "starter_gguf": {"n_layer": 30, "n_head": 9, "n_kv_head": 3, "d_head": 64, "n_embd": 576},
    "gemma_gguf": {"n_layer": 18, "n_head": 4, "n_kv_head": 1, "d_head": 256, "n_embd": 640},
}
VOCABULARIES = {"starter_gguf": 49_152, "gemma_gguf": 262_144}
MIDDLE = {"starter_gguf": 4, "gemma_gguf": 5}
"""Where “ is” stands; Gemma's text begins with <bos>."""


@dataclass
class Run:
    """What a run printed and saved."""

    said: dict[str, Any]
    arrays: dict[str, np.ndarray[Any, Any]]

    @property
    def token(self) -> int:
        return int(self.said["token"])


def _inside(*argv: str) -> int:
    return inside.main(list(argv))


def _run(folder: Path, *argv: str) -> Run:
    """With --json and --out. One thread: on a busy machine several wait for each other."""
    path, printed = folder / "out.npz", io.StringIO()
    with contextlib.redirect_stdout(printed):
        assert _inside(*argv, "--json", "--threads", "1", "--out", str(path)) == 0
    with np.load(path) as file:
        arrays = dict(file)
    return Run(json.loads(printed.getvalue()), arrays)


def _one_sentence(err: str, *words: str) -> None:
    assert err.count("\n") == 1
    assert err.rstrip().endswith(".")
    assert "Traceback" not in err
    for word in words:
        assert word in err


@pytest.fixture
def tiny(tmp_path: Path) -> str:
    """A file of four layers, of which two query heads share a KV head."""
    path = tmp_path / "tiny.gguf"
    tiny_llama(path, shape=Shape(n_layer=4, n_head=4, n_head_kv=2))
    return str(path)


@pytest.fixture
def script(tmp_path: Path, forked_children: None) -> Any:
    def write(**fields: Any) -> str:
        path = tmp_path / "script.json"
        path.write_text(json.dumps({"load": {"ms": 1}, "replies": [{"text": "Hi"}], **fields}))
        return str(path)

    return write


# --- both files -------------------------------------------------------------------------------


@pytest.fixture(
    scope="module", params=["starter_gguf", pytest.param("gemma_gguf", marks=pytest.mark.soak)]
)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def gguf(name: str, request: pytest.FixtureRequest) -> str:
    return str(request.getfixturevalue(name))


@pytest.fixture(scope="module")
def middle(
    forked_engines_here: None, name: str, gguf: str, tmp_path_factory: pytest.TempPathFactory
) -> Run:
    """“ is”, in the middle of a text."""
    argv = (TEXT, "--raw", "--gguf", gguf, "--ctx", "512", "--token", str(MIDDLE[name]))
    run = _run(tmp_path_factory.mktemp("middle"), *argv)
    assert run.said["tokens"][run.token]["text"] == " is"
    return run


@pytest.mark.weights
def test_the_file_holds_all_arrays(middle: Run, name: str) -> None:
    arrays, dims = middle.arrays, SHAPES[name] | {"n_vocab": VOCABULARIES[name]}
    dims |= {"n_tok": len(middle.said["tokens"]), "n_lens": 10}
    assert tuple(arrays) == FILE_ARRAYS
    assert middle.said["missing"] == {}
    for each, values in arrays.items():
        told = middle.said["arrays"][each]
        assert values.dtype == (np.int32 if each.endswith("_ids") else np.float32)
        assert np.isfinite(values).all()
        assert told["shape"] == [*values.shape] == [dims[axis] for axis in told["axes"]]
        assert told["dtype"] == values.dtype.name
    assert arrays["token_ids"].tolist() == [token["id"] for token in middle.said["tokens"]]
    text = b"".join(bytes.fromhex(token["bytes"]) for token in middle.said["tokens"])
    assert text.removeprefix(b"<bos>").decode() == TEXT


@pytest.mark.weights
def test_the_stream_is_the_sum_of_what_was_added(middle: Run) -> None:
    """Nothing else is added, so only float32's rounding may be between: one part in 2^23 of the
    largest number, for each of two additions."""
    arrays = middle.arrays
    before = np.vstack([arrays["embedding"][None], arrays["residual"][:-1]])
    added = (arrays["attn_out"] + arrays["ffn_out"]).astype(np.float64)
    difference = arrays["residual"].astype(np.float64) - before - added
    largest = np.abs(np.stack([before, arrays["attn_out"], arrays["ffn_out"], arrays["residual"]]))
    assert (np.abs(difference) <= largest.max(axis=(0, 2))[:, None] * 4 * 2**-23).all()


@pytest.mark.weights
def test_the_last_row_of_the_lens_is_the_answer(middle: Run) -> None:
    """It goes through the output among other rows, whose sums may be added up in another order:
    0.0 measured on both files, and a hundredth of what other batches move whole texts by."""
    ids, scores = middle.arrays["lens_ids"][-1], middle.arrays["lens_logits"][-1]
    logits = middle.arrays["logits"]
    close = 0.005
    assert np.abs(logits[ids] - scores).max() <= close
    assert (np.diff(scores) <= 0).all()
    assert np.abs(np.sort(logits)[::-1][:10] - scores).max() <= close
    assert len(set(ids.tolist())) == 10


@pytest.mark.weights
def test_attention_is_shared_out_among_what_was_there(middle: Run) -> None:
    rows = middle.arrays["attention"]
    seen, behind = rows[:, :, : middle.token + 1], rows[:, :, middle.token + 1 :]
    assert behind.shape[2] > 0
    assert not behind.any()
    assert (seen >= 0).all()
    # Each row was divided by its sum in float32: a rounding for each token at most.
    assert np.abs(seen.sum(axis=2, dtype=np.float64) - 1).max() < seen.shape[2] * 2**-23


@pytest.mark.weights
def test_a_turned_query_keeps_its_length(middle: Run) -> None:
    before, after = (np.linalg.norm(middle.arrays[n], axis=2) for n in ("q_before", "q_after"))
    assert np.allclose(before, after, rtol=1e-4)
    assert not np.allclose(middle.arrays["q_before"], middle.arrays["q_after"])


@pytest.mark.weights
def test_a_token_knows_nothing_of_what_follows(middle: Run, gguf: str, tmp_path: Path) -> None:
    """The same as the last token of the text that is cut behind it. Both read what is before it
    in the same steps, by one thread, and then the token alone: so there is no tolerance."""
    cut = _run(tmp_path, CUT, "--raw", "--gguf", gguf, "--ctx", "512")
    n_seen = middle.token + 1
    assert cut.said["token"] == middle.token == len(cut.said["tokens"]) - 1
    assert cut.arrays["token_ids"].tolist() == middle.arrays["token_ids"][:n_seen].tolist()
    assert np.array_equal(cut.arrays["attention"], middle.arrays["attention"][:, :, :n_seen])
    for each in set(FILE_ARRAYS) - {"token_ids", "attention"}:
        assert np.array_equal(cut.arrays[each], middle.arrays[each]), each
    assert cut.said["layers"] == middle.said["layers"]
    assert cut.said["next"] == middle.said["next"]


@pytest.mark.weights
def test_it_votes_for_what_ask_would_answer(
    middle: Run, gguf: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """`ask` reads the whole text in one step, which adds up in another order: as far apart as
    tests/app/engine/other_shapes.py measured, half a nat at most."""
    options = ["--max-tokens", "1", "--temperature", "0", "--threads", "1", "--ctx", "512"]
    assert cli.main([CUT, "--raw", "--json", "--gguf", gguf, *options]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    token = next(line for line in lines if line["event"] == "token")
    logits = middle.arrays["logits"].astype(np.float64)
    logprobs = logits - logits.max() - np.log(np.exp(logits - logits.max()).sum())
    assert len(token["alternatives"]) == 8
    for token_id, text, probability in token["alternatives"]:
        assert abs(np.log(probability) - logprobs[token_id]) < 0.5, text


@pytest.mark.weights
def test_the_figures_follow_from_the_arrays(middle: Run) -> None:
    said, arrays = middle.said, middle.arrays
    length = {n: np.sqrt((arrays[n].astype(np.float64) ** 2).sum(axis=-1)) for n in arrays}
    assert said["embedding_norm"] == pytest.approx(float(length["embedding"]))
    for at, layer in enumerate(said["layers"]):
        assert layer["layer"] == at
        assert layer["norm"] == pytest.approx(length["residual"][at])
        share = length["attn_out"][at] / length["residual"][at]
        assert layer["attention_share"] == pytest.approx(share)
        assert layer["ffn_share"] == pytest.approx(length["ffn_out"][at] / length["residual"][at])
        rows, look = arrays["attention"][at], layer["look"]
        assert look["token"] > 0
        assert rows[look["head"], look["token"]] == rows[:, 1:].max() == np.float32(look["weight"])
        assert layer["lens"]["id"] == arrays["lens_ids"][at, 0]
        assert layer["lens"]["logit"] == arrays["lens_logits"][at, 0]
        assert 0 < layer["lens"]["probability"] <= 1
    logits = arrays["logits"].astype(np.float64)
    exponentials = np.exp(logits - logits.max())
    order = np.lexsort((np.arange(logits.size), -logits))[:10]
    assert [each["id"] for each in said["next"]] == order.tolist()
    for each in said["next"]:
        expected = exponentials[each["id"]] / exponentials.sum()
        assert each["probability"] == pytest.approx(expected, rel=1e-5)
    assert said["layers"][-1]["lens"]["probability"] == pytest.approx(
        said["next"][0]["probability"], rel=0.01
    )


@pytest.mark.weights
@pytest.mark.parametrize("kind", NETWORKS)
def test_the_saved_numbers_are_the_networks(kind: str, tmp_path: Path) -> None:
    """Of small files in float32, against a transformer written in numpy; tolerance as argued in
    tests/app/engine/reference_checks.py."""
    path = tmp_path / "small.gguf"
    small_network(path, kind)
    options = ["--flash-attention", "off", "--kv-type", "f32", "--gguf", str(path)]
    run = _run(tmp_path, "What follows is seen by no token", "--raw", *options, "--token", "-4")
    network = Network(path)
    reading = network.read(run.arrays["token_ids"].tolist())
    wanted: dict[str, Any] = reading.at(run.token)
    streams = np.stack([layer[run.token] for layer in reading.residual])
    scores = network.scores(streams)
    wanted["logits"] = scores[-1]
    wanted["lens_logits"] = -np.sort(-scores, axis=1)[:, :10]
    behind = np.zeros((*wanted["attention"].shape[:2], 3), np.float32)
    wanted["attention"] = np.concatenate([wanted["attention"], behind], axis=2)
    if kind == "experts":
        chosen = np.stack([layer[run.token] for layer in reading.experts])
        assert run.arrays["experts"].tolist() == chosen.tolist()
        wanted["expert_weights"] = np.stack([layer[run.token] for layer in reading.expert_weights])
    for each in {*run.arrays} - {"token_ids", "lens_ids", "experts"}:
        found, expected = run.arrays[each].astype(np.float64), np.asarray(wanted[each])
        assert found.shape == expected.shape
        apart = np.linalg.norm(found - expected, axis=-1)
        assert (apart <= 1e-4 * np.linalg.norm(expected, axis=-1)).all(), each
    at_ids = np.take_along_axis(scores, run.arrays["lens_ids"].astype(np.int64), axis=1)
    assert np.allclose(at_ids, run.arrays["lens_logits"], rtol=1e-3, atol=1e-3)
    assert run.token > 2 * WINDOW
    hidden = (run.arrays["attention"][:, :, : run.token + 1 - WINDOW] == 0).all(axis=(1, 2))
    has_window = {"window": [True] * 5 + [False, True], "capped": [True, False] * 2}
    assert hidden.tolist() == has_window.get(kind, [False] * 3)


# --- which token of which text ----------------------------------------------------------------


@pytest.mark.weights
def test_the_tokens_are_those_that_ask_reads(
    tiny: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for raw in ([], ["--raw"]):
        run = _run(tmp_path, "Hello <|im_end|> there", *raw, "--gguf", tiny)
        options = ["--score-prompt", "--max-tokens", "1", "--threads", "1", "--json"]
        assert cli.main(["Hello <|im_end|> there", *raw, "--gguf", tiny, *options]) == 0
        lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        ids, start = run.arrays["token_ids"].tolist(), 1  # nothing stands before the first one
        for line in lines:
            if line["event"] == "prompt_scores":
                assert line["start"] == start
                start += len(line["token_ids"])
                assert line["token_ids"] == ids[line["start"] : start]
        assert len(ids) == start == lines[-1]["prompt_tokens"]


@pytest.mark.weights
def test_positions_count_from_either_end(tiny: str, tmp_path: Path) -> None:
    runs = [_run(tmp_path, "one two", "--raw", "--gguf", tiny, "--token", n) for n in ("2", "-4")]
    assert len(runs[0].said["tokens"]) == 6
    assert [run.token for run in runs] == [2, 2]
    assert np.array_equal(runs[0].arrays["residual"], runs[1].arrays["residual"])


@pytest.mark.weights
def test_the_first_token_sees_itself_alone(
    tiny: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = _run(tmp_path, "one", "--raw", "--gguf", tiny, "--token", "0")
    assert (run.arrays["attention"][:, :, 0] == 1).all()
    assert not run.arrays["attention"][:, :, 1:].any()
    assert [layer["look"] for layer in run.said["layers"]] == [None] * 4
    assert _inside("one", "--raw", "--gguf", tiny, "--token", "0", "--threads", "1") == 0
    assert "–" in capsys.readouterr().out


# --- what is too large for one answer ---------------------------------------------------------


@pytest.mark.weights
def test_a_large_answer_comes_in_parts(
    tiny: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    argv = ("one two three", "--raw", "--gguf", tiny, "--token", "8")
    whole = _run(tmp_path, *argv)
    asked: list[LookInside] = []
    real = talk.Talk.ask

    def ask(self: talk.Talk, command: Any, kind: type[Any]) -> Any:
        asked.extend([command] if isinstance(command, LookInside) else [])
        return real(self, command, kind)

    monkeypatch.setattr(talk.Talk, "ask", ask)
    monkeypatch.setattr(inside, "ROOM_BYTES", 3 * 4 * 4 * 9)  # three layers of four heads
    parts = _run(tmp_path, *argv)
    assert [each.layers for each in asked if "attention" in each.want] == [[0, 1, 2], [3]]
    assert len(asked) > 3
    assert parts.said == whole.said
    assert list(parts.arrays) == list(whole.arrays)
    for each, values in whole.arrays.items():
        assert np.array_equal(values, parts.arrays[each]), each


LARGE = {
    "Llama 405B": ({"n_layer": 126, "n_embd": 16_384, "n_head": 128, "n_vocab": 128_256}, 128),
    "DeepSeek V3": ({"n_layer": 61, "n_embd": 7_168, "n_head": 128, "n_vocab": 129_280}, 576),
    "Qwen3 235B": ({"n_layer": 94, "n_embd": 4_096, "n_head": 64, "n_vocab": 151_936}, 128),
    "a small one": ({"n_layer": 30, "n_embd": 576, "n_head": 9, "n_vocab": 49_152}, 64),
}


@pytest.mark.parametrize("n_tok", [1, 500, 8_192, 120_000])
@pytest.mark.parametrize("shape", list(LARGE))
def test_no_answer_outgrows_a_frame(shape: str, n_tok: int) -> None:
    dims, d_head = LARGE[shape]
    n_layer, heads = dims["n_layer"], dims["n_head"] * d_head
    bytes_of = {
        "embedding": 4 * dims["n_embd"],
        "logits": 4 * dims["n_vocab"],
        "lens": 84 * n_layer,
        **dict.fromkeys(("attn_out", "ffn_out", "residual"), 4 * n_layer * dims["n_embd"]),
        **dict.fromkeys(("q_before", "q_after", "k_after"), 4 * n_layer * heads),
        **dict.fromkeys(("experts", "expert_weights"), 4 * n_layer * 8),
    }
    names: list[str] = []
    layers: list[int] = []
    for want, of in inside.questions(cast("Loaded", SimpleNamespace(**dims)), n_tok):
        chosen = [*range(n_layer)] if of is None else of
        size = sum(bytes_of.get(each, 0) for each in want)
        if "attention" in want:
            layers += chosen
            size += 4 * len(chosen) * dims["n_head"] * n_tok
        names += [each for each in want if each != "attention"]
        assert size < MAX_FRAME_BYTES - 2**16
    assert sorted(names) == sorted(bytes_of)
    assert layers == [*range(n_layer)]


@pytest.mark.weights
def test_a_layer_that_no_frame_holds_is_missing(
    tiny: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inside, "ROOM_BYTES", 100)
    monkeypatch.setattr(inside, "MAX_FRAME_BYTES", 2**20 + 90)
    run = _run(tmp_path, "one two", "--raw", "--gguf", tiny)
    assert "attention" not in run.arrays
    assert list(run.said["missing"]) == ["attention"]
    assert "Choose an earlier token." in run.said["missing"]["attention"]
    assert run.arrays["residual"].shape[0] == 4


# --- architectures that have less -------------------------------------------------------------


@pytest.mark.weights
def test_mamba_says_what_it_has_not(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "mamba.gguf"
    tiny_mamba(path)
    run = _run(tmp_path, "hello world", "--raw", "--gguf", str(path))
    has_not = {"q_before", "q_after", "k_after", "attention", "attn_out", "ffn_out"}
    assert set(run.said["missing"]) == has_not == set(FILE_ARRAYS) - set(run.arrays)
    assert "no attention" in run.said["missing"]["attention"]
    assert "no feed-forward" in run.said["missing"]["ffn_out"]
    assert all(why.endswith(".") for why in run.said["missing"].values())
    assert np.isfinite(run.arrays["residual"]).all()
    assert np.abs(run.arrays["lens_logits"][-1, 0] - run.arrays["logits"].max()) < 1e-3
    assert {(each["look"], each["ffn_share"]) for each in run.said["layers"]} == {(None, None)}
    assert _inside("hello world", "--raw", "--gguf", str(path), "--threads", "1") == 0
    assert "This architecture has no attention." in capsys.readouterr().out


@pytest.mark.weights
def test_layers_without_attention_hold_nan(tmp_path: Path) -> None:
    path = tmp_path / "jamba.gguf"
    tiny_jamba(path)
    run = _run(tmp_path, "hello world", "--raw", "--gguf", str(path), "--token", "3")
    has = [bool(np.isfinite(rows).all()) for rows in run.arrays["attention"]]
    assert has == [False, True, False]
    assert np.isnan(run.arrays["attention"][[0, 2]]).all()
    assert not run.arrays["attention"][1, :, 4:].any()
    assert "Some layers" in run.said["missing"]["attention"]
    shares = [layer["attention_share"] for layer in run.said["layers"]]
    assert [share is None for share in shares] == [True, False, True]


# --- the file ---------------------------------------------------------------------------------


def test_a_file_takes_the_place_of_another(tmp_path: Path) -> None:
    path, link = tmp_path / "a.npz", tmp_path / "link.npz"
    path.write_bytes(b"old")
    link.symlink_to(path)
    inside.save(inside._target(str(link)), {"x": np.arange(3)})
    assert link.is_symlink()
    with np.load(path) as file:
        assert file["x"].tolist() == [0, 1, 2]
    assert sorted(each.name for each in tmp_path.iterdir()) == ["a.npz", "link.npz"]
    fresh = tmp_path / "fresh"
    fresh.touch()
    assert path.stat().st_mode == fresh.stat().st_mode  # as the user's umask says


@pytest.mark.parametrize(
    ("fault", "code"),
    [(OSError(errno.ENOSPC, "No space left on device"), 1), (KeyboardInterrupt(), 130)],
)
def test_no_half_file_is_left(
    fault: BaseException,
    code: int,
    script: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def fail(file: Any, **arrays: Any) -> None:
        file.write(b"half")
        raise fault

    folder = tmp_path / "out"
    folder.mkdir()
    path = folder / "a.npz"
    path.write_bytes(b"old")
    monkeypatch.setattr(np, "savez", fail)
    assert _inside("x", "--scripted", script(), "--out", str(path)) == code
    assert [each.name for each in folder.iterdir()] == ["a.npz"]
    assert path.read_bytes() == b"old"
    out, err = capsys.readouterr()
    assert out == ""
    if code == 1:
        _one_sentence(err, "No space left on device", "--out")
    else:
        assert err == ""


# --- printing ---------------------------------------------------------------------------------


@pytest.mark.weights
def test_the_summary_names_what_json_has(
    tiny: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    argv = ("one\ntwo", "--raw", "--gguf", tiny, "--token", "3")
    said = _run(tmp_path, *argv).said
    out = tmp_path / "again.npz"
    assert _inside(*argv, "--threads", "1", "--out", str(out)) == 0
    text, err = capsys.readouterr()
    assert err == ""
    lines = text.splitlines()
    assert "→ 3  “\\n”" in lines
    assert f"{len(said['tokens'])} tokens. Looking at token 3:" in lines
    first = lines.index(next(line for line in lines if line.startswith("Layer ")))
    for line, layer in zip(lines[first + 1 :], said["layers"], strict=False):
        assert line.split()[0] == str(layer["layer"])
        assert f"{layer['attention_share']:.0%}" in line.split()
        assert f"{layer['ffn_share']:.0%}" in line.split()
        look = layer["look"]
        assert f"head {look['head']}, {look['weight']:.0%} on {look['token']} " in line
        assert f"{layer['lens']['probability']:.1%}" in line
    at = lines.index("Next token")
    for line, each in zip(lines[at + 1 : at + 11], said["next"], strict=True):
        assert f"{each['probability']:.1%}" in line
        assert f"logit {each['logit']:>6.2f}" in line
    assert lines[-1] == f"Saved to {out}"


def test_a_long_text_is_shown_around_the_token(
    script: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _inside("word " * 200, "--raw", "--scripted", script(), "--token", "100") == 0
    lines = capsys.readouterr().out.splitlines()
    assert sum(line.strip() == "…" for line in lines) == 2
    assert sum("“" in line for line in lines[: lines.index("    …", 10)]) == 25
    assert any(line.startswith("→ 100 ") for line in lines)


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_is_told_how_far_it_is(
    script: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    terminal = _Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    path = script(inside={"ms": 2, "chunks": 2})
    assert _inside("a b c", "--raw", "--scripted", path) == 0
    lines = ["", "Reading: 2 of 4 tokens", "Reading: 4 of 4 tokens", " " * 22, ""]
    assert terminal.getvalue().split("\r") == lines
    assert "Reading" not in capsys.readouterr().out


def test_nobody_is_told_where_stderr_is_no_terminal(
    script: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    path = script(inside={"ms": 2, "chunks": 2})
    assert _inside("a b c", "--raw", "--scripted", path) == 0
    assert capsys.readouterr().err == ""


def test_a_console_without_unicode(script: Any) -> None:
    env = {**os.environ, "LC_ALL": "C", "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    command = [sys.executable, str(ROOT / "main.py"), "inside", "naïve 🙂", "--scripted", script()]
    for options in ([], ["--json"]):
        done = subprocess.run(
            [*command, *options], capture_output=True, timeout=60, check=False, env=env
        )
        assert (done.returncode, done.stderr) == (0, b"")
        assert done.stdout.isascii()
    tokens = json.loads(done.stdout)["tokens"]
    assert "naïve 🙂" in b"".join(bytes.fromhex(each["bytes"]) for each in tokens).decode()


# --- refusals ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("argv", "code", "words"),
    [
        ([], 2, ["required", "main.py inside --help"]),
        (["x", "--nonsense"], 2, ["--nonsense"]),
        (["x", "--token", "first"], 2, ["--token"]),
        (["", "--gguf", __file__], 2, ["The text is empty"]),
        ([" \n", "--gguf", __file__], 2, ["The text is empty"]),
        (["", "--raw", "--gguf", __file__], 2, ["The text is empty"]),
        (["x", "--gguf", "/does/not/exist.gguf"], 1, ["File not found", "--gguf"]),
        (["x", "--scripted", "/does/not/exist.json"], 1, ["File not found", "--scripted"]),
        (["x", "--out", ""], 2, ["needs a file name", "--out"]),
        (["x", "--out", "/does/not/exist/a.npz"], 1, ["Folder not found", "--out"]),
        (["x", "--out", "/"], 1, ["isn't a file", "--out"]),
        (["x", "--out", os.devnull], 1, ["isn't a file", "--out"]),
        (["x", "--out", "y" * 5000], 1, ["can't be saved", "--out"]),
        (["x", "--ctx", "-5"], 2, ["context"]),
        (["x", "--threads", "-5"], 2, ["hreads"]),
    ],
)
def test_wrong_arguments(
    argv: list[str], code: int, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert _inside(*argv) == code
    out, err = capsys.readouterr()
    assert out == ""
    _one_sentence(err, *words)


@pytest.mark.parametrize("position", ["5", "-6", "99999999999999999999"])
def test_a_position_that_is_not_there(
    position: str, script: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    argv = ["a b c", "--raw", "--scripted", script(), "--token", position]
    assert _inside(*argv) == 2
    out, err = capsys.readouterr()
    assert out == ""
    _one_sentence(err, f"no token {position}", "has 5: choose 0 to 4, or -5 to -1")


@pytest.mark.weights
@pytest.mark.parametrize("raw", [[], ["--raw"]])
def test_a_text_longer_than_the_context(
    raw: list[str], tiny: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    argv = ["word " * 300, *raw, "--gguf", tiny, "--ctx", "256", "--threads", "1"]
    assert _inside(*argv, "--out", str(tmp_path / "a.npz")) == 1
    out, err = capsys.readouterr()
    assert out == ""
    _one_sentence(err, "256")
    assert not (tmp_path / "a.npz").exists()


@pytest.mark.weights
def test_a_cache_type_that_is_none(tiny: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert _inside("x", "--gguf", tiny, "--kv-type", "q3_7") == 1
    _one_sentence(capsys.readouterr().err, "q3_7")


@pytest.mark.weights
def test_a_quantised_cache_is_told(tmp_path: Path) -> None:
    path = tmp_path / "tiny.gguf"
    tiny_llama(path, shape=Shape(n_embd=64, n_head=2))  # a block holds 32 numbers of a head
    argv = ("Hi", "--raw", "--gguf", str(path), "--kv-type", "q8_0", "--ctx", "256")
    run = _run(tmp_path, *argv)
    assert any("quantised" in note for note in run.said["notes"])


def test_what_the_engine_cannot_tell_is_its_sentence(
    script: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    failure = {"kind": "not_a_gguf", "sentence": "This is no GGUF file."}
    assert _inside("x", "--scripted", script(load={"ms": 1, "fail": failure})) == 1
    assert capsys.readouterr() == ("", "This is no GGUF file.\n")


def test_a_look_that_fails_is_its_sentence(
    script: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    failure = {"kind": "out_of_memory", "sentence": "There is no room. Choose a shorter chat."}
    out = tmp_path / "a.npz"
    path = script(inside={"fail": failure})
    assert _inside("x", "--scripted", path, "--out", str(out)) == 1
    assert capsys.readouterr() == ("", "There is no room. Choose a shorter chat.\n")
    assert not out.exists()


def test_an_answer_of_another_kind_is_refused(script: Any) -> None:
    asking = talk.Talk(inside._parse(["x", "--scripted", script()]))
    try:
        asking.load("x", LoadOptions())
        with pytest.raises(Refusal, match="invalid response"):
            asking.ask(ReadVocabulary(0), Loaded)
    finally:
        asking.close()


def test_what_is_too_large_for_the_memory(
    script: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise MemoryError

    monkeypatch.setattr(np, "full", fail)
    assert _inside("x", "--scripted", script()) == 1
    _one_sentence(capsys.readouterr().err, "doesn't fit in memory")


def test_a_text_without_tokens() -> None:
    with pytest.raises(Refusal, match="no tokens"):
        inside._position(None, 0)


@pytest.mark.skipif(sys.platform == "win32", reason="SIGINT of one thread only exists on POSIX")
def test_ctrl_c_ends_in_order(
    script: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """In the middle of the text, which would take half a minute to read."""

    came: list[Progress] = []

    class Interrupted(talk.Talk):
        def __init__(self, options: Any, _: Any) -> None:
            super().__init__(options, self.interrupt)

        def interrupt(self, event: Event) -> None:
            if isinstance(event, Progress) and event.phase == "inside":
                came.append(event)
                if len(came) == 1:
                    main_thread = threading.main_thread().ident
                    assert main_thread is not None
                    signal.pthread_kill(main_thread, signal.SIGINT)

    monkeypatch.setattr(inside, "Talk", Interrupted)
    path = script(inside={"ms": 30_000, "chunks": 3_000})
    out = tmp_path / "a.npz"
    before = signal.getsignal(signal.SIGINT)
    assert _inside("a b c d", "--raw", "--scripted", path, "--out", str(out)) == 130
    assert capsys.readouterr() == ("", "")
    assert len(came) < 3_000, "it was read to the end"
    assert not out.exists()
    assert signal.getsignal(signal.SIGINT) is before


# --- the document -----------------------------------------------------------------------------


@pytest.mark.weights
def test_the_documents_session_runs(
    starter_gguf: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its command writes the file, and what stands there comes out."""
    text = (ROOT / "docs" / "inside.md").read_text(encoding="utf-8")
    assert f'main.py inside "{CUT}" --raw --out paris.npz' in text
    monkeypatch.chdir(tmp_path)
    argv = [CUT, "--raw", "--out", "paris.npz", "--gguf", str(starter_gguf), "--ctx", "512"]
    with contextlib.redirect_stdout(io.StringIO()):
        assert _inside(*argv, "--threads", "1") == 0
    session = doctest.DocTestParser().get_doctest(text, {}, "inside.md", "docs/inside.md", 0)
    assert len(session.examples) > 15
    said: list[str] = []
    failed, _ = doctest.DocTestRunner(verbose=False).run(session, out=said.append)
    assert failed == 0, "".join(said)


def test_the_document_names_every_array_with_its_axes() -> None:
    from app.engine.protocol.inside_messages import AXES

    text = (ROOT / "docs" / "inside.md").read_text(encoding="utf-8")
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in text.splitlines()
        if line.startswith("| `")
    ]
    told = {row[0].strip("`"): row[1] for row in rows if len(row) == 4}
    axes = {**AXES, "token_ids": ("n_tok",)}
    named = {each: " × ".join(axes[each]).replace("n_lens", "10") for each in SAVED}
    assert told == named


def test_the_document_names_every_field_of_the_json(
    script: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (ROOT / "docs" / "inside.md").read_text(encoding="utf-8")
    assert _inside("Hello there", "--json", "--scripted", script()) == 0
    said = json.loads(capsys.readouterr().out)
    parts = (said["tokens"][0], said["arrays"]["logits"], said["layers"][-1], said["next"][0])
    names = {*said, *said["layers"][-1]["look"], *(name for part in parts for name in part)}
    assert {"embedding_norm", "probability", "weight", "axes", "bytes"} <= names
    assert [name for name in names if f"`{name}`" not in text] == []


def test_the_document_names_every_option() -> None:
    text = (ROOT / "docs" / "inside.md").read_text(encoding="utf-8")
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), pytest.raises(SystemExit):
        inside._parse(["--help"])
    for option in _options(printed.getvalue().split()):
        assert f"`{option}" in text, option


def _options(words: Sequence[str]) -> Iterator[str]:
    accepted = {"--help", "--offline", "--data-dir"}
    for word in words:
        option = word.strip("[],.")
        if option.startswith("--") and option not in accepted:
            yield option
