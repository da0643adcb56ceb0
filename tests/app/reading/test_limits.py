"""What the process that reads may not do: tried by Python, and past it by the C library."""

from __future__ import annotations

import json
import platform
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]

TRIES = """
import ctypes, json, os, platform, resource, socket, subprocess, sys, threading
folder = sys.argv[1]
X86 = platform.machine() == "x86_64"
TGKILL = 234 if X86 else 131
from app.reading.limits import MEMORY_BYTES, limit_process
limit_process()
C = ctypes.CDLL(None, use_errno=True)
said = {}
def attempt(name, act):
    try:
        said[name] = act()
    except BaseException as error:
        said[name] = type(error).__name__
def native(*call):
    return f"errno {ctypes.get_errno()}" if getattr(C, call[0])(*call[1:]) < 0 else "done"
path = (folder + "/x").encode()
attempt("write", lambda: open(folder + "/x", "w"))
attempt("os.open", lambda: os.open(folder + "/x", os.O_CREAT | os.O_WRONLY))
attempt("connect", lambda: socket.socket().connect(("127.0.0.1", 9)))
attempt("run", lambda: subprocess.run(["true"]))
attempt("remove", lambda: os.remove(folder + "/kept"))
attempt("memory", lambda: bytearray(MEMORY_BYTES + 1))
attempt("C open", lambda: native("open", path, os.O_CREAT | os.O_RDWR, 0o600))
attempt("C socket", lambda: native("socket", 2, 1, 0))
attempt("C unlink", lambda: native("unlink", (folder + "/kept").encode()))
attempt("C fork", lambda: native("fork"))
parent = os.getppid()
attempt("C signal", lambda: native("syscall", TGKILL, parent, parent, 0))
attempt("C limits", lambda: native("prlimit", parent, 7, None, bytes(16)))
second = 0x40000000 + 41  # socket, by the numbers of x32
attempt("C second", lambda: native("syscall", second, 2, 1, 0) if X86 else "errno 1")
attempt("way back", lambda: resource.getrlimit(resource.RLIMIT_FSIZE)[1])
attempt("terminal", lambda: os.getsid(0) != os.getpid())
attempt("read", lambda: open(folder + "/kept").read())
thread = threading.Thread(target=lambda: said.update(thread="runs"))
thread.start(); thread.join()
print(json.dumps(said))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="the limits of POSIX")
def test_nothing_is_written_connected_or_started(tmp_path: Path) -> None:
    (tmp_path / "kept").write_text("kept")
    command = [sys.executable, "-c", TRIES, str(tmp_path)]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=True)
    said = json.loads(ran.stdout)
    refused = ("write", "os.open", "connect", "run", "remove")
    assert {said.pop(name) for name in refused} == {"PermissionError"}
    assert said.pop("read") == "kept"
    assert said.pop("thread") == "runs"
    assert not said.pop("way back"), "a hard limit"
    assert not said.pop("terminal"), "of another session"
    if sys.platform == "linux":
        assert said.pop("memory") == "MemoryError"
        if platform.machine() in ("x86_64", "aarch64"):
            assert set(said.values()) == {"errno 1"}, said
    assert [each.name for each in tmp_path.iterdir()] == ["kept"]
