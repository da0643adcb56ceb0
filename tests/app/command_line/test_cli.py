"""`ask`: what stands on stdout and stderr, and how it ends. The engine plays a script."""

from __future__ import annotations

import array
import io
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest
from gguf_writer import bpe_vocabulary, tiny_llama

from app.command_line import cli

ROOT = Path(__file__).resolve().parents[3]

pytestmark = pytest.mark.usefixtures("forked_children", "forked_engines")


@pytest.fixture
def script(tmp_path: Path) -> Any:
    def write(*replies: dict[str, Any], **fields: Any) -> str:
        path = tmp_path / "script.json"
        content = {"load": {"ms": 1}, "replies": list(replies), **fields}
        path.write_text(json.dumps(content), encoding="utf-8")
        return str(path)

    return write


def _ask(*argv: str) -> int:
    return cli.main(list(argv))


def _lines(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def _start(*argv: str, **options: Any) -> subprocess.Popen[bytes]:
    command = [sys.executable, str(ROOT / "main.py"), "ask", *argv]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options)


# --- plain text -------------------------------------------------------------------------------


def test_the_answer_stands_alone_on_stdout(script: Any, capsys: pytest.CaptureFixture[str]) -> None:
    tokens = [
        {"text": "hm", "part": "reasoning"},
        {"note": ["kind", "A note."]},
        {"text": "Hi"},
        {"text": " there"},
    ]
    assert _ask("Hello", "--scripted", script({"tokens": tokens})) == 0
    out, err = capsys.readouterr()
    assert out == "Hi there\n"
    assert err == "hm\nA note.\n"


def test_an_answer_that_ends_its_line_gets_no_second_end(
    script: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _ask("Hello", "--scripted", script({"text": "One line.\n"})) == 0
    assert capsys.readouterr().out == "One line.\n"


def test_the_text_may_come_from_stdin(
    script: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    stdin = io.TextIOWrapper(io.BytesIO("über \xff".encode("latin-1")), encoding="utf-8")
    monkeypatch.setattr(sys, "stdin", stdin)
    path = script({"match": "\ufffdber", "text": "Seen"}, {"text": "Not seen"})
    assert _ask("-", "--scripted", path) == 0
    assert capsys.readouterr().out == "Seen\n"


def test_stop_strings_and_the_maximum_of_tokens(
    script: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    path = script({"text": "one two three four"})
    assert _ask("x", "--scripted", path, "--stop", "four", "--stop", " three") == 0
    assert _ask("x", "--scripted", path, "--max-tokens", "1") == 0
    assert capsys.readouterr().out == "one two\none\n"


# --- JSON -------------------------------------------------------------------------------------


def test_json_holds_every_token_and_last_the_summary(
    script: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    tokens = [
        {"hex": "f09f", "probability": 0.5},
        {"hex": "9982", "alternatives": [["a", 0.75], ["b", 0.25]]},
        {"note": ["kind", "A note."]},
    ]
    assert _ask("Hello", "--json", "--seed", "7", "--scripted", script({"tokens": tokens})) == 0
    lines = _lines(capsys.readouterr().out)
    names = [line["event"] for line in lines]
    assert names[0] == "hello"
    assert names[-1] == "summary"
    assert {"progress", "loaded", "note"} <= set(names)
    first, second = (line for line in lines if line["event"] == "token")
    assert (first["bytes"], first["text"], first["shown"]) == ("f09f", "\ufffd", "")
    assert (second["bytes"], second["shown"]) == ("9982", "🙂")
    assert first["probability"] == pytest.approx(0.5)
    assert [a[1] for a in second["alternatives"]] == ["a", "b"]
    assert [a[2] for a in second["alternatives"]] == pytest.approx([0.75, 0.25])
    assert {"token_id", "rank", "stages", "ms", "entropy"} <= first.keys()
    summary = lines[-1]
    assert (summary["text"], summary["seed"], summary["generated"]) == ("🙂", 7, 2)
    assert {"stop_reason", "prompt_tokens", "reused", "evaluated", "tokens_per_s"} <= summary.keys()
    assert "id" not in summary


def test_what_is_shown_joins_to_the_answer(script: Any, capsys: pytest.CaptureFixture[str]) -> None:
    path = script({"text": "alpha beta gam"})
    assert _ask("x", "--json", "--stop", "beta gamma", "--scripted", path) == 0
    lines = _lines(capsys.readouterr().out)
    shown = [line.get("shown", line.get("text")) for line in lines[:-1] if "part" in line]
    assert "".join(shown) == lines[-1]["text"] == "alpha beta gam"


def test_a_failure_in_json_is_a_line_and_a_sentence(
    script: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    path = script({"tokens": [{"text": "Hi"}, {"signal": "SEGV"}]})
    assert _ask("x", "--json", "--scripted", path) == 1
    out, err = capsys.readouterr()
    lines = _lines(out)
    assert [line["event"] for line in lines[-2:]] == ["summary", "failed"]
    assert lines[-2]["text"] == "Hi"
    assert "SIGSEGV" in lines[-1]["sentence"]
    assert "evidence" in lines[-1]
    assert err == lines[-1]["sentence"] + "\n"


# --- settings ---------------------------------------------------------------------------------


def test_options_go_before_the_settings_file(script: Any, tmp_path: Path) -> None:
    path = tmp_path / "settings.json"
    path.write_text(json.dumps({"temperature": 0.1, "top_k": 3, "n_ctx": 300}))
    options = cli._parse(["x", "--settings", str(path), "--temperature", "0.5", "--threads", "2"])
    settings = cli._settings(options)
    window = settings.window
    assert (window.temperature, window.top_k, window.n_ctx) == (0.5, 3, 300)
    assert window.n_threads == 2


def test_the_system_prompt_goes_first() -> None:
    options = cli._parse(["x", "--system", "Be kind."])
    prompt = cli._prompt(options, cli._settings(options), [], [])
    assert [m.role for m in getattr(prompt, "messages", [])] == ["system", "user"]


# --- errors are one sentence ------------------------------------------------------------------


def _one_sentence(err: str, *words: str) -> None:
    assert err.count("\n") == 1
    assert err.rstrip().endswith(".")
    assert "Traceback" not in err
    for word in words:
        assert word in err


@pytest.mark.parametrize(
    ("argv", "code", "words"),
    [
        ([], 2, ["required"]),
        (["x", "--nonsense"], 2, ["--nonsense"]),
        (["x", "--seed", "many"], 2, ["--seed"]),
        (["x", "--temperature", "-1"], 2, ["temperature"]),
        (["x", "--temperature", "nan"], 2, ["temperature"]),
        (["x", "--top-p", "1.5"], 2, ["Top-p"]),
        (["x", "--seed", "4294967295"], 2, ["seed"]),
        (["x", "--min-tokens", "99999999999999999999"], 2, ["minimum length", "10,000,000"]),
        (["x", "--min-tokens", "-1"], 2, ["minimum length"]),
        (["x", "--stop-id", "99999999999999999999"], 2, ["stop token"]),
        (["x", "--stop-id", "-1"], 2, ["stop token"]),
        (["x", *["--stop-id", "1"] * 65], 2, ["stop tokens", "64"]),
        (["x", "--stop", "y" * 5000], 2, ["top string"]),
        (["x", "--ban", ""], 2, ["anned"]),
        (["x", "--gguf", "/does/not/exist.gguf"], 1, ["/does/not/exist.gguf"]),
        (["x", "--settings", "/does/not/exist.json"], 1, ["/does/not/exist.json"]),
        (["x", "--gguf", "y" * 5000], 1, ["File not found", "--gguf"]),
        (["x", "--gguf", "~nobody-has-this-name/x.gguf"], 1, ["File not found", "--gguf"]),
        (["x", "--gguf", ""], 2, ["needs a file", "--gguf"]),
        (["x", "--settings", ""], 2, ["needs a file", "--settings"]),
        (["x", "--settings", "y" * 5000], 1, ["File not found", "--settings"]),
        (["x", "--scripted", "/does/not/exist.json"], 1, ["File not found", "--scripted"]),
        (["", "--gguf", __file__], 2, ["empty"]),
        (["", "--raw", "--gguf", __file__], 2, ["No text"]),
        (["x", "--raw", "--system", "S", "--gguf", __file__], 2, ["--system"]),
        (
            ["x", "--raw", "--reasoning-budget", "3", "--gguf", __file__],
            2,
            ["no --reasoning-budget"],
        ),
    ],
)
def test_wrong_arguments(
    argv: list[str], code: int, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert _ask(*argv) == code
    out, err = capsys.readouterr()
    assert out == ""
    _one_sentence(err, *words)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("{", "isn't valid JSON"),
        ("[" * 100_000, "isn't valid JSON"),
        ("[1]", "object"),
        ('{"colour": 1}', "colour"),
        ('{"temperature": NaN}', "temperature"),
        ('{"seed": 1e400}', "seed"),
        ('{"deadline_s": 1e300}', "deadline"),
        ('{"alternatives": 9000000000000000000}', "Alternatives"),
        ('{"stop_ids": [99999999999999999999]}', "too large a number"),
        ('{"chain": [{"stage": "top_k", "k": 99999999999999999999}]}', "too large a number"),
    ],
)
def test_a_settings_file_that_does_not_fit(
    content: str, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "settings.json"
    path.write_text(content)
    assert _ask("x", "--settings", str(path)) in (1, 2)
    _one_sentence(capsys.readouterr().err, words)


def test_without_any_weights_it_says_how_to_get_some(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from app.gguf import starter

    monkeypatch.setattr(starter, "find", lambda: None)
    assert _ask("x") == 1
    assert "--gguf" in capsys.readouterr().err


def test_a_failed_load(script: Any, capsys: pytest.CaptureFixture[str]) -> None:
    failure = {"kind": "not_a_gguf", "sentence": "This is no GGUF file."}
    assert _ask("x", "--scripted", script(load={"ms": 1, "fail": failure})) == 1
    assert capsys.readouterr() == ("", "This is no GGUF file.\n")


def test_an_engine_that_crashes_keeps_what_it_said(
    script: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    path = script({"tokens": [{"text": "Once"}, {"exit": 3}]})
    assert _ask("x", "--scripted", path) == 1
    out, err = capsys.readouterr()
    assert out == "Once\n"
    _one_sentence(err, "exit code 3")


def test_what_cannot_be_printed_ends_it_in_a_sentence(
    script: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fault on the thread that prints is told where the answer is waited for."""

    def fail(*_: object) -> None:
        raise KeyError("what nobody foresaw")

    monkeypatch.setattr(cli.PlainText, "event", fail)
    assert _ask("x", "--scripted", script({"text": "Hi there."})) == 1
    _one_sentence(capsys.readouterr().err, "what nobody foresaw")


def test_a_script_that_cannot_be_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "bad.json"
    path.write_text('{"replies": [{"txt": "x"}]}')
    assert _ask("x", "--scripted", str(path)) == 1
    _one_sentence(capsys.readouterr().err)


# --- the process ------------------------------------------------------------------------------


@pytest.mark.skipif(sys.platform == "win32", reason="SIGINT of one process only exists on POSIX")
def test_ctrl_c_stops_nicely(script: Any) -> None:
    path = script({"tokens": [{"text": "a ", "ms": 5, "repeat": 100_000}]})
    with _start("x", "--json", "--scripted", path) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        while json.loads(process.stdout.readline())["event"] != "token":
            pass
        process.send_signal(signal.SIGINT)
        last = process.stdout.read().splitlines()[-1]
        assert process.wait(20) == 130
        assert process.stderr.read() == b""
    summary = json.loads(last)
    assert (summary["event"], summary["stop_reason"]) == ("summary", "stopped")


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux says how full a pipe is")
def test_the_second_ctrl_c_does_not_wait_for_a_reader_who_takes_nothing(script: Any) -> None:
    import fcntl
    import termios

    path = script({"tokens": [{"text": "a ", "ms": 0, "repeat": 100_000}]})
    with _start("x", "--json", "--scripted", path) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        held, before = array.array("i", [0]), -1
        while held[0] < 20_000 or held[0] != before:  # it is full where it grows no more
            before = held[0]
            time.sleep(0.5)
            fcntl.ioctl(process.stdout, termios.FIONREAD, held)
        process.send_signal(signal.SIGINT)
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(1)
        process.send_signal(signal.SIGINT)
        try:
            assert process.wait(10) == 130
        finally:
            process.kill()
        assert process.stderr.read() == b""


@pytest.mark.skipif(sys.platform == "win32", reason="SIGINT of one process only exists on POSIX")
def test_ctrl_c_before_there_is_anything_to_stop() -> None:
    """From here to the end of the imports; before that only Python itself could be silent."""
    code = (
        "import os, signal, sys\n"
        "class Interrupt:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'app.command_line.cli': os.kill(os.getpid(), signal.SIGINT)\n"
        "import main\n"
        "sys.meta_path.insert(0, Interrupt())\n"
        "sys.exit(main.main(['ask', 'x']))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, timeout=30, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGINT, b"", b"")


@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGPIPE on Windows")
def test_a_reader_that_goes_away_is_no_error(script: Any) -> None:
    path = script({"tokens": [{"text": "a ", "ms": 1, "repeat": 100_000}]})
    with _start("x", "--scripted", path) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.read(2) == b"a "
        children = psutil.Process(process.pid).children()
        process.stdout.close()
        assert process.wait(20) == 141
        assert process.stderr.read() == b""
    psutil.wait_procs(children, timeout=5)
    assert not any(child.is_running() for child in children)


def test_a_console_without_unicode(script: Any) -> None:
    path = script({"text": "naïve 🙂"})
    env = {**os.environ, "LC_ALL": "C", "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    for options, expected in (([], b"na?ve ?"), (["--json"], b"na\\u00efve \\ud83d\\ude42")):
        with _start("x", *options, "--scripted", path, env=env) as process:
            out, err = process.communicate(timeout=30)
        assert process.returncode == 0, err
        assert expected in out


def test_an_argument_that_is_no_utf8(script: Any) -> None:
    if sys.platform != "linux":
        pytest.skip("arguments are bytes on Linux only")
    path = script({"match": "a\ufffdb", "text": "Seen"}, {"text": "Not seen"})
    command = [sys.executable, str(ROOT / "main.py"), "ask", b"a\xffb", "--scripted", path]
    done = subprocess.run(command, capture_output=True, timeout=30, check=True)
    assert done.stdout == b"Seen\n"


@pytest.mark.skipif(sys.platform == "win32", reason="the C locale and /dev are POSIX")
def test_text_is_utf8_whatever_the_locale_says(script: Any) -> None:
    """B18: in the C locale Python takes each byte of an argument for a lone surrogate."""
    path = script({"match": "Grüße 🙂", "text": "Seen"}, {"text": "Not seen"})
    env = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    with _start("Grüße 🙂", "--stop", "—", "--scripted", path, env=env) as process:
        assert process.communicate(timeout=30) == (b"Seen\n", b"")


@pytest.mark.skipif(sys.platform == "win32", reason="the shell and /dev are POSIX")
@pytest.mark.parametrize(
    ("redirection", "code", "out", "words"),
    [
        (">&-", 1, b"", b"stdout is closed"),
        ("2>&-", 0, b"Hi\n", b""),
        ("<&-", 0, b"Hi\n", b""),
        ("<&- >&- 2>&-", 1, b"", b""),
        (">/dev/full", 1, b"", b"can't be written"),
        ("2>/dev/full", 0, b"Hi\n", b""),
    ],
)
def test_streams_that_are_closed_or_full(
    redirection: str, code: int, out: bytes, words: bytes, script: Any
) -> None:
    if "/dev/full" in redirection and not Path("/dev/full").exists():
        redirection, code, out, words = "2>&-", 0, b"Hi\n", b""
    path = script({"tokens": [{"text": "hm", "part": "reasoning"}, {"text": "Hi"}]})
    command = f'exec "$@" {redirection}'
    argv = [sys.executable, str(ROOT / "main.py"), "ask", "x", "--scripted", path]
    done = subprocess.run(
        ["sh", "-c", command, "sh", *argv], capture_output=True, timeout=30, check=False
    )
    assert (done.returncode, done.stdout) == (code, out), done.stderr
    assert words in done.stderr
    assert b"Traceback" not in done.stderr


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no full device here")
def test_an_error_that_nobody_can_take_has_its_exit_code() -> None:
    command = 'exec "$@" 2>/dev/full'
    argv = [sys.executable, str(ROOT / "main.py"), "ask", "x", "--no-such-option"]
    done = subprocess.run(
        ["sh", "-c", command, "sh", *argv], capture_output=True, timeout=30, check=False
    )
    assert (done.returncode, done.stdout) == (2, b"")


@pytest.mark.skipif(sys.platform == "win32", reason="os.devnull opens both ways there")
def test_a_text_that_cannot_be_read_from_stdin(script: Any) -> None:
    for_writing = os.open(os.devnull, os.O_WRONLY)
    try:
        with _start("-", "--scripted", script({"text": "Hi"}), stdin=for_writing) as process:
            out, err = process.communicate(timeout=30)
    finally:
        os.close(for_writing)
    assert (process.returncode, out) == (1, b"")
    _one_sentence(err.decode(), "stdin")


def test_nothing_is_written(script: Any, data_dir: Path, tmp_path: Path) -> None:
    path = script({"text": "Hi"})
    before = sorted(tmp_path.rglob("*"))
    assert _ask("x", "--offline", "--data-dir", str(data_dir), "--scripted", path) == 0
    assert sorted(tmp_path.rglob("*")) == before


# --- real weights -----------------------------------------------------------------------------


@pytest.mark.weights
def test_paris_is_first(starter_gguf: Path, capsys: pytest.CaptureFixture[str]) -> None:
    argv = [
        "The capital of France is",
        "--raw",
        "--max-tokens",
        "8",
        "--json",
        "--temperature",
        "0",
    ]
    argv += ["--threads", "1", "--ctx", "512", "--gguf", str(starter_gguf)]
    assert _ask(*argv) == 0
    lines = _lines(capsys.readouterr().out)
    tokens = [line for line in lines if line["event"] == "token"]
    assert len(tokens) == 8
    first = tokens[0]
    assert (first["text"], bytes.fromhex(first["bytes"]), first["rank"]) == (" Paris", b" Paris", 1)
    assert first["alternatives"][0][:2] == [first["token_id"], " Paris"]
    assert first["alternatives"][0][2] == pytest.approx(first["probability"], rel=1e-4)
    assert first["stages"]
    assert b"".join(bytes.fromhex(t["bytes"]) for t in tokens).decode() == lines[-1]["text"]


@pytest.mark.weights
@pytest.mark.parametrize("option", ["--grammar-file", "--settings"])
def test_a_grammar_without_end(
    option: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """N01: it would take all memory."""
    grammar, weights, path = 'root ::= e root "a" | "b"\ne ::= "z"?', tmp_path / "a", tmp_path / "b"
    tiny_llama(weights)
    path.write_text(grammar if option != "--settings" else json.dumps({"grammar": grammar}))
    assert _ask("x", "--raw", "--threads", "1", "--gguf", str(weights), option, str(path)) == 1
    _one_sentence(capsys.readouterr().err, "“root”", "start with itself (left recursion)")


@pytest.mark.weights
def test_reasoning_in_sections_of_several_control_tokens(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As Kimi K3 has them: the words between the marks are ordinary tokens."""
    marks = ["<|open|>", "<|sep|>", "<|close|>", "<|end_of_msg|>"]
    vocabulary = bpe_vocabulary(["think", "response", "hm"], control=marks)
    sep, hm = vocabulary.id_of("<|sep|>"), vocabulary.id_of("hm")
    template = (
        "{% macro o(t) %}<|open|>{{ t }}<|sep|>{% endmacro %}"
        "{% for m in messages %}{{ o('message') }}{{ m.content }}{% endfor %}"
        "{{ o('message') }}{{ o('response' if thinking is defined and not thinking else 'think') }}"
    )
    path = tmp_path / "sections.gguf"
    tiny_llama(path, vocabulary=vocabulary, successors={sep: hm, hm: hm}, template=template)
    often = ("hi", "--threads", "1", "--gguf", str(path), "--max-tokens")
    assert _ask(*often, "10", "--reasoning-budget", "2") == 0
    said = capsys.readouterr()
    assert (said.out, said.err.split("\n")[0]) == ("hmhm\n", "hmhm")
    assert _ask(*often, "3", "--thinking", "off") == 0
    assert capsys.readouterr().out == "hmhmhm\n"


@pytest.mark.weights
@pytest.mark.skipif(sys.platform != "linux", reason="names of files are bytes on Linux only")
def test_a_name_that_is_no_utf8(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """D09, D11: the name goes to the engine as the bytes that it is."""
    vocabulary = bpe_vocabulary(["hello", " world"])
    hello, world = vocabulary.id_of("hello"), vocabulary.id_of(" world")
    path = tmp_path / os.fsdecode(b"bad\xff \xfe.gguf")
    tiny_llama(path, vocabulary=vocabulary, successors={hello: world, world: vocabulary.eos_id})
    assert _ask("hello", "--raw", "--threads", "1", "--gguf", str(path)) == 0
    assert capsys.readouterr().out == " world\n"


@pytest.mark.weights
def test_a_text_file_named_gguf(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "notes.gguf"
    path.write_text("These are my notes.")
    began = time.monotonic()
    assert _ask("x", "--gguf", str(path)) == 1
    assert time.monotonic() - began < 30
    _one_sentence(capsys.readouterr().err)


@pytest.mark.weights
def test_a_repeatable_run_says_the_same_again(
    tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    """B14: two engines, one of them of a process of its own, and a settings file that draws with
    a seed."""
    weights, path = tmp_path / "tiny.gguf", tmp_path / "settings.json"
    words = [f" {a}{b}{c}" for a in "abcdefgh" for b in "ijklmnop" for c in "qrstuvwx"]
    tiny_llama(weights, vocabulary=bpe_vocabulary(words))
    path.write_text(
        json.dumps(
            {
                "repeatable": True,
                "max_tokens": 20,
                "chain": [{"stage": "top_k", "k": 50}, {"stage": "temperature", "t": 1.2}],
                "load": {"n_ctx": 512, "n_threads": 1},
            }
        )
    )
    argv = ["Tell me a story.", "--settings", str(path), "--gguf", str(weights)]
    with _start(*argv) as process:
        out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert _ask(*argv) == 0
    assert capsysbinary.readouterr().out == out
    assert len(out) > 20


@pytest.mark.weights
def test_json_shows_the_stages_of_a_chain(
    made_gguf: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "settings.json"
    chain = [{"stage": "top_k", "k": 5}, {"stage": "temperature", "t": 0.7}, {"stage": "dist"}]
    path.write_text(json.dumps({"chain": chain, "seed": 1, "max_tokens": 4, "alternatives": 16}))
    argv = ["Hi", "--json", "--settings", str(path), "--threads", "1", "--ctx", "512"]
    assert _ask(*argv, "--gguf", str(made_gguf)) == 0
    lines = _lines(capsys.readouterr().out)
    tokens = [line for line in lines if line["event"] == "token"]
    assert len(tokens) == 4
    for token in tokens:
        assert len(token["alternatives"]) == 16
        assert [s["left"] for s in token["stages"]][:2] == [5, 5]
    assert lines[-1]["cut"] == []


@pytest.mark.weights
def test_adapters_change_the_answer_and_a_scale_of_0_does_not(
    made_gguf: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from made_adapters import write_lora, write_vector

    lora, vector = tmp_path / "l.gguf", tmp_path / "v.gguf"
    write_lora(lora, made_gguf, ["blk.0.ffn_down.weight"], alpha=40.0)
    write_vector(vector, 2, 64, spread=3.0)

    def answer(*more: str) -> list[int]:
        argv = ["Hi", "--json", "--temperature", "0", "--max-tokens", "6", "--threads", "1"]
        assert _ask(*argv, "--ctx", "512", "--gguf", str(made_gguf), *more) == 0
        lines = _lines(capsys.readouterr().out)
        return [line["token_id"] for line in lines if line["event"] == "token"]

    plain = answer()
    assert answer("--lora", f"{lora}:0", "--control-vector", f"{vector}:0") == plain
    assert answer("--control-vector", f"{vector}:2:1-1") != plain
    assert answer("--lora", str(lora)) != plain


# --- context policies -------------------------------------------------------------------------


@pytest.mark.parametrize("policy", ["drop_oldest", "keep_ends", "summarize"])
def test_each_context_policy_is_reached(
    script: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str], policy: str
) -> None:
    """By the flag; the same name stands in a settings file (`test_settings.py`)."""
    file = tmp_path / "settings.json"
    turns = [
        {"role": "assistant" if i % 2 else "user", "content": f"number {i} " * 15} for i in range(8)
    ]
    file.write_text(json.dumps({"messages": turns, "system_prompt": "Be brief."}))
    path = script(
        {"match": "Summarize this conversation", "text": "They counted."},
        {"text": "Nine."},
        load={"ms": 1, "loaded": {"n_ctx": 1024}},
    )
    told = ["--json", "--scripted", path, "--settings", str(file), "--policy", policy]
    assert _ask("And now?", *told) == 0
    lines = _lines(capsys.readouterr().out)
    summary = lines[-1]
    assert summary["text"] == "Nine."
    assert sum(line["event"] == "token" for line in lines) == summary["generated"]
    notes = [line["sentence"] for line in lines if line["event"] == "note"]
    if policy == "summarize":
        assert any("are sent as a summary: They counted." in note for note in notes)
        assert "They counted." in summary["rendered_prompt"]
        assert summary["cut"] == []
        assert "number 0 " not in summary["rendered_prompt"]
    else:
        assert summary["cut"]
        assert ("number 0 " in summary["rendered_prompt"]) == (policy == "keep_ends")


def test_a_summary_that_fails_is_no_reason_not_to_answer(
    script: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "settings.json"
    turns = [
        {"role": "assistant" if i % 2 else "user", "content": f"number {i} " * 15} for i in range(8)
    ]
    file.write_text(json.dumps({"messages": turns, "context_policy": "summarize"}))
    path = script(
        {"match": "Summarize this conversation", "text": ""},
        {"text": "Nine."},
        load={"ms": 1, "loaded": {"n_ctx": 1024}},
    )
    assert _ask("And now?", "--scripted", path, "--settings", str(file)) == 0
    told = capsys.readouterr()
    assert told.out == "Nine.\n"
    assert "messages are dropped" in told.err


@pytest.mark.weights
def test_what_no_summary_can_help_is_said_once(
    made_gguf: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    argv = ["so " * 600, "--policy", "summarize", "--threads", "1", "--ctx", "256"]
    assert _ask(*argv, "--gguf", str(made_gguf)) == 1
    _one_sentence(capsys.readouterr().err)
