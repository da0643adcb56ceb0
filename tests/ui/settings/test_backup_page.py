"""Settings → Backups: listed, looked into, restored as a whole or in part."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from PySide6.QtWidgets import QMessageBox
from pytestqt.qtbot import QtBot
from recording_desk import NOON, FakeDesk

import main
from models.records import BackupFile, BackupList, BackupLooked, ChatInBackup
from ui.look.theme import Theme
from ui.settings.backup_page import BackupPage

FILES = (
    BackupFile("/b/3", NOON, 2_000_000, "by_hand"),
    BackupFile("/b/2", NOON - timedelta(days=1), 1_000_000, "daily"),
)
CHATS = (
    ChatInBackup("c1", "Rain in Paris", NOON, 12),
    ChatInBackup("c2", "<b>Tax</b>", NOON, 1),
)


class Asked:
    """What the page asked for, and the answers that wait."""

    def __init__(self) -> None:
        self.looks: dict[str, tuple[Any, Any]] = {}
        self.list = BackupList("/b", FILES)


@pytest.fixture
def asked() -> Asked:
    return Asked()


@pytest.fixture
def page(qtbot: QtBot, theme: Theme, desk: FakeDesk, asked: Asked) -> BackupPage:
    desk.backups.list = lambda then, *, still: then(asked.list)  # type: ignore[attr-defined]

    def look_into(path: str, then: Any, *, still: Any) -> None:
        asked.looks[path] = (then, still)

    desk.backups.look_into = look_into  # type: ignore[attr-defined]
    made = BackupPage(desk, theme)  # type: ignore[arg-type]
    qtbot.addWidget(made)
    made.resize(600, 700)
    made.show()
    made.read()
    return made


def answer(asked: Asked, path: str, looked: BackupLooked) -> None:
    then, still = asked.looks[path]
    if still():
        then(looked)


def words(tree: Any) -> list[list[str]]:
    rows = [tree.topLevelItem(row) for row in range(tree.topLevelItemCount())]
    return [[row.text(column) for column in range(3)] for row in rows]


def test_it_lists_what_there_is_and_looks_into_one(page: BackupPage, asked: Asked) -> None:
    made = f"{NOON.astimezone():%d %B %Y, %H:%M}".lstrip("0")
    assert words(page.table)[0] == [made, "By hand", "2 MB"]
    assert words(page.table)[1][1:] == ["Automatic", "1 MB"]
    assert page.space_label.text() == "2 backups, 3 MB."
    assert page.inside_label.text() == f"Checking the backup of {made}…"
    assert not page.restore_button.isEnabled()
    answer(asked, "/b/3", BackupLooked(2, 13, CHATS))
    assert page.inside_label.text().startswith(f"Backup of {made}: checked, 2 chats, 13 messages.")
    assert [row[:2] for row in words(page.chats)] == [["Rain in Paris", "12"], ["<b>Tax</b>", "1"]]
    assert page.restore_button.isEnabled()
    assert not page.back_button.isEnabled()
    page.field.setText("TAX")
    assert [row[0] for row in words(page.chats)] == ["<b>Tax</b>"]


def test_of_many_chats_the_newest_are_listed_and_any_is_found(
    page: BackupPage, asked: Asked
) -> None:
    many = tuple(ChatInBackup(f"c{i}", f"Chat {i}", NOON, 1) for i in range(600))
    answer(asked, "/b/3", BackupLooked(600, 600, many))
    assert page.chats.topLevelItemCount() == 500
    assert page.inside_label.text().endswith("The 500 newest are listed; type to find others.")
    page.field.setText("chat 599")
    assert [row[0] for row in words(page.chats)] == ["Chat 599"]
    assert "newest" not in page.inside_label.text()


def test_an_answer_about_another_backup_is_dropped(page: BackupPage, asked: Asked) -> None:
    page.table.setCurrentItem(page.table.topLevelItem(1))
    answer(asked, "/b/3", BackupLooked(2, 13, CHATS))
    assert words(page.chats) == []
    answer(asked, "/b/2", BackupLooked(why_not="This backup is damaged, so it can't be used."))
    assert page.inside_label.text() == "This backup is damaged, so it can't be used."
    assert not page.restore_button.isEnabled()


def test_chats_are_brought_back_or_all_is_restored_after_a_question(
    page: BackupPage, asked: Asked, desk: FakeDesk, qtbot: QtBot
) -> None:
    answer(asked, "/b/3", BackupLooked(2, 13, CHATS))
    page.chats.selectAll()
    assert page.back_button.text() == "Bring back 2 selected chats"
    page.back_button.click()
    assert desk.calls[-1] == ("backups.bring_back", "/b/3", ["c1", "c2"], 13)
    restarts: list[bool] = []
    page.restart_requested.connect(lambda: restarts.append(True))
    for name, n_asked in (("Cancel", 0), ("Restore and restart", 1)):
        page.restore_button.click()
        box = page.findChildren(QMessageBox)[-1]
        assert "What is here now is backed up first" in box.informativeText()
        next(b for b in box.buttons() if b.text().replace("&", "") == name).click()
        restores = [call for call in desk.calls if call[0] == "backups.restore"]
        assert [call[1] for call in restores] == ["/b/3"] * n_asked
    asked.list = BackupList("/b", FILES, restores_at=NOON)
    restores[0][2]()  # it is sure
    assert restarts == [True]
    # The window stayed open after all: what will happen is said, and can be taken back.
    assert page.pending_label.isVisible()
    page.keep_button.click()
    assert desk.calls[-1][0] == "backups.keep_as_is"


def test_one_is_made_by_hand(page: BackupPage, asked: Asked, desk: FakeDesk) -> None:
    page.make_button.click()
    assert not page.make_button.isEnabled()
    name, done = desk.calls[-1]
    asked.list = BackupList("/b")
    done()
    assert name == "backups.make"
    assert page.make_button.isEnabled()
    assert page.space_label.text() == "No backup yet."
    assert page.inside_label.text() == "Choose a backup to look into it."


def test_a_restart_is_the_same_program_with_the_same_arguments(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    done: list[Any] = []
    monkeypatch.setattr(main.sys, "platform", "linux")
    monkeypatch.setattr(main.sys, "executable", "/py")
    arguments = ["-X", "dev", "main.py", "--data-dir", "a b"]
    monkeypatch.setattr(main.sys, "orig_argv", ["python", *arguments])
    monkeypatch.setattr(main.os, "execv", lambda *args: done.append(args))
    main.start_again()
    assert done == [("/py", ["/py", *arguments])]
