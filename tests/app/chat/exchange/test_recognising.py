"""What counts as an export of Cutaway, and what becomes of one that is dropped."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from app.chat import events
from app.chat.exchange.recognising import is_import

Told = Callable[[str], str]


@pytest.mark.parametrize(
    ("text", "is_ours"),
    [
        ('{"format":"cutaway-chats","version":1,"conversations":[\n', True),
        (json.dumps({"version": 1, "format": "cutaway-chats"}, indent=4), True),
        ('\ufeff{"format": "cutaway-chats"}', True),
        ('{"format":"other"}', False),
        ('{"inner":{"format":"cutaway-chats"}}', False),
        ('["format", "cutaway-chats"]', False),
        ("", False),
    ],
)
def test_it_is_known_by_its_beginning(tmp_path: Path, text: str, is_ours: bool) -> None:
    path = tmp_path / "file.JSON"
    path.write_text(text, encoding="utf-8")
    assert is_import(str(path)) is is_ours


def test_what_cannot_be_read_is_none(tmp_path: Path) -> None:
    (tmp_path / "folder.json").mkdir()
    os.mkfifo(tmp_path / "pipe.json")
    (tmp_path / "notes.txt").write_text('{"format":"cutaway-chats"}')
    for name in ("folder.json", "pipe.json", "notes.txt", "gone.json", "nul\0.json"):
        assert not is_import(str(tmp_path / name))


def test_a_dropped_export_is_offered_for_import_and_all_else_attached(
    room: Any, told: Told, tmp_path: Path
) -> None:
    export, notes, data = (tmp_path / name for name in ("chats.json", "notes.txt", "data.json"))
    room.desk.exchange.export(None, str(export), "json")
    told("exported")
    notes.write_text("Notes.")
    data.write_text('{"a": 1}')
    room.desk.exchange.take_files([str(export), str(notes), str(data)])
    (preview,) = room.until(lambda: room.of(events.ImportPreviewed))
    assert [chat.file for chat in preview.chats] == ["chats.json"]
    room.until(lambda: len(room.desk.attachments.of_open) == 2)
    assert [a.name for a in room.desk.attachments.of_open] == ["notes.txt", "data.json"]


def test_chosen_for_attaching_it_is_attached(room: Any, told: Told, tmp_path: Path) -> None:
    export = tmp_path / "chats.json"
    room.desk.exchange.export(None, str(export), "json")
    told("exported")
    room.desk.attachments.add_files([str(export)])
    room.until(lambda: room.desk.attachments.of_open)
    assert room.of(events.ImportPreviewed) == []
