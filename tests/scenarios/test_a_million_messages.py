"""An archive of a million messages comes in while the window goes on.

Measured is the longest gap of the GUI's event loop in each part of the way, and the memory that the
whole of it takes. Another program can stretch a gap: of the import's second half and of its first
the calmer one counts.
"""

from __future__ import annotations

import itertools
import json
import time
import zipfile
from pathlib import Path
from typing import Any

import psutil
import pytest
from foreign_exports import gpt_chat, said, tree
from PySide6.QtWidgets import QDialog
from scenarios.test_gaps import GapMeter

N_CHATS = 5000
N_MESSAGES = 200
LONGEST_GAP_MS = 50
MOST_MEMORY_BYTES = 400_000_000
SCRIPT: dict[str, Any] = {"replies": [{"text": "Yes."}]}
WORDS = "the cat sat on a mat and looked at the river while nobody was there to see it "


def write(path: Path) -> Path:
    """ChatGPT's archive, chat by chat."""
    with (
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as file,
        file.open("conversations.json", "w", force_zip64=True) as member,
    ):
        for chat in range(N_CHATS):
            edges: dict[str, Any] = {}
            for at in range(N_MESSAGES):
                text = f"{chat} {at} " + WORDS * (1 + at % 5)
                above = f"{chat}-{at - 1}" if at else None
                edges[f"{chat}-{at}"] = (above, said("assistant" if at % 2 else "user", text))
            value = gpt_chat(f"Chat {chat}", linear(edges), f"{chat}-{N_MESSAGES - 1}")
            member.write((b",\n" if chat else b"[") + json.dumps(value).encode())
        member.write(b"]")
    return path


def linear(edges: dict[str, Any]) -> dict[str, Any]:
    """As `tree` makes it, which looks through all for each one's children."""
    keys = list(edges)
    made = {key: tree({key: edge})[key] for key, edge in edges.items()}
    for key, following in itertools.pairwise(keys):
        made[key]["children"] = [following]
    return made


@pytest.mark.soak
def test_a_million_messages_come_in_and_the_window_goes_on(
    open_window: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = write(tmp_path / "million.zip")
    person = open_window(SCRIPT)
    person.wait_ready()
    desk = person.app.desk
    process = psutil.Process()
    before = most = process.memory_info().rss
    gaps: dict[str, list[float]] = {}

    def until(part: str, is_over: Any) -> None:
        """In slices, each with a gap of its own."""
        nonlocal most
        began = time.monotonic()
        slices = gaps.setdefault(part, [])
        while not is_over():
            with GapMeter() as meter:
                ends_at = time.monotonic() + 2
                person.wait(lambda ends_at=ends_at: time.monotonic() > ends_at or is_over())
            slices.append(meter.longest_ms)
            most = max(most, process.memory_info().rss)
            assert time.monotonic() - began < 3600, part

    def dialog() -> Any:
        shown = person.window.findChildren(QDialog, "import_dialog")
        return next((each for each in shown if each.isVisible()), None)

    person.window.composing.give_files([str(archive)])
    until("looking", dialog)
    assert dialog().rows.rowCount() == N_CHATS
    dialog().accept()
    until("importing", lambda: len(desk.shelf.conversations) == N_CHATS)
    person.send("Are you there?")
    person.wait_ended()
    for part, slices in gaps.items():
        calm = sorted(slices)
        print(part, len(slices) * 2, "s; gaps, ms: median", calm[len(calm) // 2], "most", calm[-1])
        assert calm[len(calm) // 2] < LONGEST_GAP_MS
    print("memory, MB:", (most - before) / 1e6)
    assert most - before < MOST_MEMORY_BYTES
    last = desk.shelf.conversations[-1]
    assert len(desk.around.store.read_whole(last.id).result(60).messages) == N_MESSAGES
