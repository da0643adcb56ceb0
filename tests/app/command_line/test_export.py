"""Chats into files without a window."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from whole_chats import a_chat

from app.command_line import export
from models.store.store import Store


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A data folder with two chats, whose store another program holds open."""
    data_dir = tmp_path / "data"
    data_dir.mkdir()
    store = Store.open(data_dir, backup_after_s=None)
    store.opened.result(20)
    for name in ("one", "two"):
        store_chat(store, a_chat(name, 1))
    yield data_dir
    store.close()


def store_chat(store: Store, chat: Any) -> None:
    store.add_all([chat])


def test_chats_go_into_files_as_they_are_called(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ["--data-dir", str(folder)]
    assert export.main([str(tmp_path / "all.jsonl"), *given]) == 0
    assert "2 chats were exported to “all.jsonl”." in capsys.readouterr().err
    lines = (tmp_path / "all.jsonl").read_text().splitlines()
    assert all("messages" in json.loads(line) for line in lines)
    title = json.loads(_json(tmp_path, given))["conversations"][0]["title"]
    assert export.main([str(tmp_path / "one.html"), "--chat", title.upper(), *given]) == 0
    assert title in (tmp_path / "one.html").read_text()
    assert export.main([str(tmp_path / "pages"), "--format", "html", *given]) == 0
    assert len(list((tmp_path / "pages").glob("*.html"))) == 2


def _json(tmp_path: Path, given: list[str]) -> str:
    assert export.main([str(tmp_path / "all.json"), *given]) == 0
    return (tmp_path / "all.json").read_text()


def test_what_cannot_be_is_one_sentence(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for arguments, words in (
        ([str(tmp_path / "all.html"), "--data-dir", str(folder)], "Each of the 2 chats is a file"),
        ([str(tmp_path / "x.pdf")], "Say which format"),
        ([str(tmp_path / "x.html"), "--chat", "no such"], "No chat is called “no such”."),
        ([str(tmp_path / "x.html"), "--data-dir", str(tmp_path / "none")], "no data folder"),
        ([str(tmp_path / "no" / "x.json")], "couldn't be saved"),
    ):
        given = arguments if "--data-dir" in arguments else [*arguments, "--data-dir", str(folder)]
        assert export.main(given) != 0
        said = capsys.readouterr().err
        assert words in said
        assert "Traceback" not in said
