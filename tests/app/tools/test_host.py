"""The host and scripted servers that behave, and others: started, asked, called, ended."""

from __future__ import annotations

import json
import os
import queue
import re
import signal
import subprocess
import sys
import time

import pytest
from tool_talk import PATIENCE_S, SERVER, scripted

from app.hub.gate import OFFLINE
from app.tools import bounds, process
from app.tools.environment import PASSED_ON
from app.tools.process import GUARD
from app.tools.servers import ToolServer, new_id


def test_a_server_starts_and_its_tools_are_called(talk):
    server = scripted()
    ready = talk.start(server)
    assert (ready.state, ready.program, ready.sentence) == ("ready", "scripted 1.2", "")
    clock = ready.tools[0]
    assert (clock.name, clock.title, clock.trouble) == ("get_current_time", "Current time", "")
    assert json.loads(clock.schema)["required"] == ["timezone"]
    assert [each.uri for each in ready.resources] == ["note://one"]
    assert [each.name for each in ready.prompts[0].arguments] == ["topic"]

    told = talk.call(server, "get_current_time", timezone="Asia/Tokyo")
    assert (told.kind, told.is_error) == ("done", False)
    assert json.loads(told.text)["datetime"] == "2026-12-01T09:30:00+09:00"
    failed = talk.call(server, "get_current_time", timezone="Nowhere")
    assert (failed.kind, failed.is_error, failed.text) == (
        "done",
        True,
        "Invalid timezone: Nowhere",
    )

    answers: queue.SimpleQueue = queue.SimpleQueue()
    talk.host.read_resource(server.id, "note://one", answers.put)
    assert answers.get(timeout=PATIENCE_S).text == "The text of note://one"
    talk.host.get_prompt(server.id, "poem", {"topic": "rain"}, answers.put)
    assert answers.get(timeout=PATIENCE_S).text == "Write a poem about rain."

    talk.host.stop(server.id)
    assert talk.until(lambda state: state.state != "ready").state == "off"
    assert talk.call(server).text == "The server isn't running."


def test_a_server_sees_no_more_of_the_environment_than_is_documented(talk, monkeypatch, tmp_path):
    for name in ("OPENAI_API_KEY", "CUTAWAY_DATA_DIR", "HF_TOKEN", "LC_CTYPE", "PYTHONPATH"):
        monkeypatch.setenv(name, "not for a server")
    for name in PASSED_ON:
        monkeypatch.setenv(name, os.environ.get(name, "here"))
    server = scripted(variables={"CITY": "Tōkyō"}, secrets=("PASS",), folder=str(tmp_path))
    talk.start(server, PASS="open sesame")
    seen = json.loads(talk.call(server, what="environment").text)
    assert seen == sorted([*PASSED_ON, "CITY", "PASS"])
    assert talk.call(server, what="value", name="PASS").text == "open sesame"
    assert talk.call(server, what="value", name="CITY").text == "Tōkyō"
    assert talk.call(server, what="folder").text == str(tmp_path)


def test_the_documented_list_is_the_one_that_is_passed_on():
    page = (SERVER.parents[1] / "docs/tools.md").read_text("utf-8")
    listed = re.search(r"Linux and macOS: ([^\n]*)\.", page)
    assert listed is not None
    names = re.findall(r"`(\w+)`", listed[1])
    assert tuple(sorted(names)) == tuple(sorted(PASSED_ON))


def test_answers_of_all_kinds_become_bounded_text(talk):
    server = scripted()
    talk.start(server)
    whole = talk.call(server, what="huge")
    assert len(whole.whole) == 200_000
    assert len(whole.text) < bounds.MAX_RESULT_CHARACTERS + 200
    assert whole.text.endswith("[168,000 more characters are in the attached file, which the "
                               "model doesn't see]")  # fmt: skip
    pictures = talk.call(server, what="pictures").text
    assert pictures.split("\n\n") == [
        "Here:",
        "[Image, image/png, 3 kB: not text]",
        "[Audio, audio/wav, 3 bytes: not text]",
        "[Link to a resource: file:///etc/passwd]",
        "inside",
    ]
    assert json.loads(talk.call(server, what="structured").text) == {"answer": 42}
    assert talk.call(server, what="progress").text == "after progress"
    steps = [talk.progress.get(timeout=PATIENCE_S) for _ in range(3)]
    assert steps == ["33% · step 1", "67% · step 2", "100% · step 3"]


def test_what_a_server_does_wrong_is_told_in_a_sentence(talk):
    server = scripted()
    talk.start(server)
    assert talk.call(server, what="wrong form").text == "The server's answer has the wrong form."
    assert talk.call(server, what="refuse").text == "The server refused: No such thing"
    assert talk.call(server, what="sampling").text == "-32600"
    assert "sampling" in talk.until(lambda state: bool(state.note)).note


@pytest.mark.parametrize(
    ("what", "state", "words"),
    [
        ("die", "ended", "The server ended in the middle of the call."),
        pytest.param(
            "endless line",
            "failed",
            "It sent a message that is longer than 16 MB.",
            marks=pytest.mark.soak,
        ),
        ("nonsense", "failed", "It writes something else than the tool protocol (MCP)."),
    ],
)
def test_a_server_that_breaks_in_a_call_ends_with_it(talk, what, state, words):
    server = scripted()
    talk.start(server)
    outcome = talk.call(server, what=what)
    assert (outcome.kind, outcome.text) == ("failed", words)
    ended = talk.until(lambda told: told.state not in ("starting", "ready"))
    assert ended.state == state
    assert not ended.tools
    if what == "die":
        assert ended.sentence == "The server ended. Its last words: about to die"
        assert talk.host.log_of(server.id) == ("about to die",)
        assert talk.start(server).state == "ready", "it can be started again"


@pytest.mark.parametrize("what", ["flood", "answers", "empty lines"])
def test_a_server_that_floods_is_ended(talk, monkeypatch, what):
    monkeypatch.setattr(bounds, "MAX_MESSAGES", 200)
    monkeypatch.setattr(process, "END_S", 0.02)  # it writes on, for as long as it may
    server = scripted()
    talk.start(server)
    assert talk.call(server, what=what).text == "It floods Cutaway with messages."
    assert talk.until(lambda told: told.state != "ready").state == "failed"


def test_letters_that_are_none_are_replaced_in_what_a_server_says(talk):
    server = scripted()
    talk.start(server)
    assert talk.call(server, what="broken letters").text == "a?b\ufffd"
    assert talk.call(server).kind == "done", "it goes on"


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("dies", "It ended before it was ready. Its last words: No license found."),
        ("old", "It speaks a version of the tool protocol (MCP) that Cutaway doesn't know."),
    ],
)
def test_a_server_that_does_not_start_says_why(talk, kind, words):
    failed = talk.start(scripted(kind))
    assert (failed.state, failed.sentence) == ("failed", words)


def test_a_silent_server_is_given_up(talk, monkeypatch):
    monkeypatch.setattr(bounds, "START_S", 0.2)
    failed = talk.start(scripted("silent"))
    assert failed.sentence == "It didn't start within 0.2 seconds."


def test_a_call_without_an_answer_is_given_up_and_can_be_cancelled(talk, monkeypatch):
    server = scripted()
    talk.start(server)
    begun = talk.begin(server, what="hang")
    assert talk.progress.get(timeout=PATIENCE_S) == "1"
    begun[0].cancel()
    assert talk.ended(begun).kind == "cancelled"
    monkeypatch.setattr(bounds, "CALL_S", 0.1)
    assert "given up" in talk.call(server, what="hang").text
    # The server was told of both: it says so on its stderr, before it answers the next call.
    talk.call(server)
    deadline = time.monotonic() + PATIENCE_S
    while len(talk.host.log_of(server.id)) < 2 and time.monotonic() < deadline:
        talk.call(server)
    assert [line.split()[0] for line in talk.host.log_of(server.id)] == ["cancelled"] * 2


def test_lists_are_bounded_and_odd_tools_are_not_offered(talk):
    assert len(talk.start(scripted("many")).tools) == bounds.MAX_TOOLS
    assert len(talk.start(scripted("pages")).tools) == bounds.MAX_PAGES
    odd = talk.start(scripted("odd"))
    assert [bool(tool.trouble) for tool in odd.tools] == [True, True, True, False, True]
    assert all(len(tool.description) <= bounds.MAX_DESCRIPTION for tool in odd.tools)
    assert all(len(tool.schema) <= bounds.MAX_SCHEMA_CHARACTERS for tool in odd.tools)


def test_changed_lists_are_read_again(talk, monkeypatch):
    monkeypatch.setattr(bounds, "LISTS_AGAIN_S", 0.0)
    server = scripted("noise")  # it greets in words first, which harms nobody
    assert talk.start(server).state == "ready"
    talk.call(server, what="change")
    assert talk.until(lambda state: len(state.tools) == 4).tools[3].name == "new_tool"


def test_a_command_that_is_not_there_and_a_folder(talk, tmp_path):
    missing = ToolServer(new_id(), "missing", command="no-such-command-here")
    assert talk.start(missing).sentence == (
        "Command not found: “no-such-command-here”. Install it, or give its full path."
    )
    server = scripted(folder=str(tmp_path / "gone"))
    assert "isn't there" in talk.start(server).sentence


def test_an_address_is_not_asked_while_offline(talk):
    talk.gate.close_it(OFFLINE)
    server = ToolServer(new_id(), "web", "http", address="http://127.0.0.1:9/mcp")
    failed = talk.start(server)
    assert (failed.state, failed.sentence) == ("failed", bounds.OFFLINE)
    talk.gate.open_it()
    assert talk.start(server).sentence == "Nothing answers at this address."


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.skipif(sys.platform == "win32", reason="process groups are POSIX")
@pytest.mark.parametrize("starts", ["guard", pytest.param("host", marks=pytest.mark.soak)])
def test_no_process_of_a_stubborn_server_outlives_the_app(tmp_path, starts):
    """The app is killed outright; the server ignores signals and has started another process."""
    program = tmp_path / "app.py"
    program.write_text(BY_HOST if starts == "host" else BY_GUARD)
    argv = [sys.executable, str(program), str(SERVER), str(GUARD)]
    app = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)
    assert app.stdout is not None
    members = [int(word) for word in app.stdout.readline().split()]
    assert len(members) == 2
    app.send_signal(signal.SIGKILL)
    app.wait()
    app.stdout.close()
    deadline = time.monotonic() + PATIENCE_S
    while any(map(_is_alive, members)) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not any(map(_is_alive, members))


BY_HOST = """
import sys, time
from pathlib import Path
server = Path(sys.argv[1])
sys.path[:0] = [str(server.parent), str(server.parents[1])]
from tool_talk import ToolTalk, scripted
talk, server = ToolTalk(), scripted('stubborn')
talk.start(server)
talk.call(server, what='orphan')
print(talk.call(server, what='group').text, flush=True)
time.sleep(600)
"""
BY_GUARD = """
import json, os, subprocess, sys, time
server, guard = sys.argv[1:]
python = [sys.executable, "-I", "-S"]
theirs, ours = os.pipe()
started = subprocess.Popen(
    [*python, guard, str(theirs), "PATH", *python, server, "stubborn"],
    stdin=subprocess.PIPE, stdout=subprocess.PIPE, pass_fds=(theirs,), start_new_session=True,
)
os.close(theirs)
for number, what in enumerate(("orphan", "group")):
    params = {"name": "do", "arguments": {"what": what}}
    call = {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}
    started.stdin.write(json.dumps(call).encode() + b"\\n")
    started.stdin.flush()
    answer = json.loads(started.stdout.readline())
print(answer["result"]["content"][0]["text"], flush=True)
time.sleep(600)
"""
