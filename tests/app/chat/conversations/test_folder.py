"""The data folder is private, found by rule, and written by one process."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from app.chat.conversations.folder import DataFolder, FolderRefused, default_data_dir
from app.chat.settings import first_look
from app.chat.settings.settings import Settings, changed


def test_folder_is_made_for_its_owner_alone(tmp_path: Path) -> None:
    folder = DataFolder(tmp_path / "a" / "b c")
    folder.prepare()
    assert stat.S_IMODE(folder.path.stat().st_mode) == 0o700


def test_folder_that_exists_keeps_its_mode(tmp_path: Path) -> None:
    (tmp_path / "shared").mkdir(mode=0o755)
    DataFolder(tmp_path / "shared").prepare()
    assert stat.S_IMODE((tmp_path / "shared").stat().st_mode) == 0o755


def test_folder_that_cannot_be_made_is_refused_in_words(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(FolderRefused, match=r"--data-dir\.$"):
        DataFolder(tmp_path / "file" / "data").prepare()


def test_a_name_that_nobody_has_is_a_plain_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert DataFolder(Path("~no-such-user/x")).path == tmp_path / "~no-such-user" / "x"


def test_one_instance_writes_the_second_reads(tmp_path: Path) -> None:
    first, second = DataFolder(tmp_path), DataFolder(tmp_path)
    assert first.take_lock()
    assert not second.take_lock()
    first.release()
    assert second.take_lock()
    second.release()


def test_environment_decides_where_data_lies(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("CUTAWAY_DATA_DIR", str(tmp_path / "mine"))
    assert default_data_dir() == tmp_path / "mine"
    monkeypatch.delenv("CUTAWAY_DATA_DIR")
    assert default_data_dir().name == "Cutaway"


def test_first_look_comes_back(tmp_path: Path) -> None:
    settings = changed(changed(Settings(), "theme", "dark"), "zoom_percent", 125)
    first_look.write(tmp_path, changed(settings, "top_k", 3))
    assert first_look.read(tmp_path) == settings


@pytest.mark.parametrize(
    "content",
    [b"", b"[]", b"{", b'{"theme": 5}', b"\xff\xfe", b"[" * 90_000, b'{"zoom_percent":0}'],
)
def test_broken_first_look_is_the_default(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "first-look.json").write_bytes(content)
    assert first_look.read(tmp_path) == Settings()


def test_first_look_in_a_folder_that_is_gone_is_no_error(tmp_path: Path) -> None:
    first_look.write(tmp_path / "gone", Settings())
    assert first_look.read(tmp_path / "gone") == Settings()
