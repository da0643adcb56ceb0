"""Weights on this machine, through the whole window: they are found on a slow disk while a reply
comes in, and no key waits for it."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from placed_weights import put
from PySide6.QtCore import Qt, QTimer
from PySide6.QtWidgets import QLineEdit, QTableView

from app.gguf.local.finding import look_at
from app.gguf.local.seen import LookedFile, SeenFile
from app.library import local
from ui.library.local.page import LocalPage

N_FILES = 100
SLOW_DISK_S = 0.02
SCRIPT = {
    "load": {"ms": 10},
    "replies": [{"tokens": [{"text": "again ", "ms": 5, "repeat": 4000}]}],
}


@pytest.mark.soak
def test_d12_many_files_are_looked_into_and_the_window_goes_on(
    open_window, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def slowly(seen: SeenFile) -> LookedFile:
        time.sleep(SLOW_DISK_S)
        return look_at(seen)

    monkeypatch.setattr(local, "look_at", slowly)
    content = put(tmp_path / "one.gguf", "one").read_bytes()
    for number in range(N_FILES):
        folder = tmp_path / "models" / f"{number % 50:02d}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{number:04d}.gguf").write_bytes(content)
    person = open_window(SCRIPT)
    person.wait_ready()
    person.press(
        Qt.Key.Key_W, Qt.KeyboardModifier.ControlModifier | Qt.KeyboardModifier.ShiftModifier
    )
    page = person.wait(lambda: person.window.findChild(LocalPage))
    person.send("Write.")
    person.wait_growing()

    late: list[float] = []
    due = time.perf_counter() + 0.005

    def tick() -> None:
        nonlocal due
        late.append(time.perf_counter() - due)
        due = time.perf_counter() + 0.005

    timer = QTimer()
    timer.setTimerType(Qt.TimerType.PreciseTimer)
    timer.timeout.connect(tick)
    timer.start(5)
    began = time.perf_counter()
    person.app.desk.local.add_folder(str(tmp_path / "models"), lambda _sentence: None)
    person.wait(lambda: page.model.rowCount() > N_FILES - 1 and not page._snapshot.is_looking)
    timer.stop()
    assert time.perf_counter() - began > N_FILES * SLOW_DISK_S  # so long it would have stood still
    assert max(late) < N_FILES * SLOW_DISK_S / 4, sorted(late)[-20:]
    assert person.app.desk.replies.is_generating  # all of it was found beside the reply

    search, table = page.findChild(QLineEdit, "library_search"), page.findChild(QTableView)
    began = time.process_time()
    person.qtbot.keyClicks(search, f"{N_FILES - 1:04d}")
    assert time.process_time() - began < 1.0
    person.wait(lambda: page.model.rowCount() == 1)
    assert table.model().index(0, 0).data() == f"{N_FILES - 1:04d}"
