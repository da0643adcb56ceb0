"""*Downloads*: the list, what can be done with a download, and the sign in the status line."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QLabel, QPushButton
from pytestqt.qtbot import QtBot
from recording_desk import FakeBridge, FakeDesk, loaded

from app.chat.events import EngineStateChanged
from app.hub.downloads.progress import DownloadProgress
from models.records import DownloadState as S
from ui.library.downloads.delegate import ICONS
from ui.library.downloads.page import DownloadPage
from ui.library.downloads.words import second_line, spoken, state_text, status_hint, status_text
from ui.look.theme import Theme
from ui.shell.window import MainWindow

NOON = datetime(2026, 11, 27, 12, 0, tzinfo=UTC)
ROOT = Path(__file__).resolve().parents[4]


def progress(number: int, state: S = S.RUNNING, **fields: Any) -> DownloadProgress:
    known: dict[str, Any] = {
        "id": f"d{number}",
        "repo_id": "ana/tiny-GGUF",
        "name": f"tiny-{number}.gguf",
        "folder": "/weights/ana/tiny-GGUF",
        "path": f"/weights/ana/tiny-GGUF/tiny-{number}.gguf",
        "n_files": 1,
        "size_bytes": 98_000_000,
        "done_bytes": 41_500_000,
        "state": state,
        "added_at": NOON + timedelta(minutes=number),
        "phase": "fetching" if state is S.RUNNING else "",
    }
    return DownloadProgress(**known | fields)


RUNNING = progress(1, speed_bytes_s=3_210_000.0, left_s=17.6)
WAITING = progress(2, S.WAITING, retry_in_s=11.2, sentence="The hub takes no more requests.")
PAUSED = progress(3, S.PAUSED)
FAILED = progress(4, S.FAILED, sentence="The disk is full. Free some space, then press Retry.")
DONE = progress(5, S.DONE, done_bytes=98_000_000, is_ours=True)
CANCELLED = progress(6, S.CANCELLED, done_bytes=0)
ALL = (RUNNING, WAITING, PAUSED, FAILED, DONE, CANCELLED)


@pytest.fixture
def page(qtbot: QtBot, desk: FakeDesk, theme: Theme) -> DownloadPage:
    page = DownloadPage(desk, theme)  # type: ignore[arg-type]
    qtbot.addWidget(page)
    page.resize(760, 520)
    page.show()
    qtbot.waitExposed(page)
    return page


def buttons(page: DownloadPage) -> list[str]:
    """What can be done with the chosen one."""
    names = [each for each in page.findChildren(QPushButton) if each.isVisible()]
    return [each.text() for each in names if each is not page.options_button]


# --- words --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("of", "words"),
    [
        (RUNNING, "42% · 3.2 MB/s · 18 s left"),
        (replace(RUNNING, speed_bytes_s=None, left_s=None), "42%"),
        (replace(RUNNING, phase="checking"), "Checking existing files…"),
        (replace(RUNNING, done_bytes=97_999_999, speed_bytes_s=None, left_s=None), "99%"),
        (WAITING, "Retrying in 12 s"),
        (replace(WAITING, retry_in_s=61.2), "Retrying in 1:02 min"),
        (PAUSED, "Paused at 42%"),
        (FAILED, "Failed"),
        (DONE, "Done"),
        (CANCELLED, "Cancelled"),
        (progress(1, S.QUEUED), "Queued"),
    ],
)
def test_how_far_it_is_in_words(of: DownloadProgress, words: str) -> None:
    assert state_text(of) == words


def test_the_second_line_says_what_is_wrong_or_what_it_is() -> None:
    assert second_line(RUNNING) == "41.5 MB of 98 MB · ana/tiny-GGUF"
    assert second_line(replace(DONE, n_files=2)) == "98 MB · 2 files · ana/tiny-GGUF"
    assert second_line(FAILED) == FAILED.sentence
    assert spoken(RUNNING) == f"tiny-1.gguf, {state_text(RUNNING)}. {second_line(RUNNING)}"


def test_an_odd_name_is_shown_on_one_line() -> None:
    assert "\n" not in second_line(replace(FAILED, sentence="a\nb"))
    assert "\u202e" not in spoken(replace(RUNNING, name="a\u202eb"))


def test_the_sign_is_one_number_for_all_that_run() -> None:
    other = progress(7, size_bytes=2_000_000, done_bytes=0, speed_bytes_s=1_000_000.0)
    assert status_text((RUNNING, other)) == "↓ 41% · 4.2 MB/s"
    assert status_text((WAITING, PAUSED)) == "↓ queued"
    assert status_text((PAUSED, FAILED, DONE)) == ""
    assert status_hint((RUNNING, DONE)) == f"Downloads\ntiny-1.gguf: {state_text(RUNNING)}"


def test_there_is_a_sign_for_each_state() -> None:
    assert set(ICONS) == set(S)


# --- the list -----------------------------------------------------------------------------------


def test_without_downloads_it_says_what_to_do(page: DownloadPage, qtbot: QtBot) -> None:
    assert page.body.currentWidget() is not page.list
    assert buttons(page) == ["Find models on the hub"]
    with qtbot.waitSignal(page.page_requested) as asked:
        page.hub_button.click()
    assert asked.args == ["hub"]


def test_what_goes_on_stands_first(page: DownloadPage, desk: FakeDesk) -> None:
    desk.show_downloads(CANCELLED, DONE, FAILED, PAUSED, WAITING, RUNNING)
    shown = [each.id for each in page.model.shown]
    assert shown == ["d2", "d1", "d4", "d3", "d6", "d5"]
    assert page.chosen() is not None
    spoken_row = page.model.index(1).data(Qt.ItemDataRole.AccessibleTextRole)
    assert spoken_row == spoken(RUNNING)


def test_what_was_chosen_stays_chosen(page: DownloadPage, desk: FakeDesk) -> None:
    desk.show_downloads(RUNNING, PAUSED)
    page.choose("d3")
    desk.show_downloads(replace(RUNNING, done_bytes=90_000_000), PAUSED)
    assert page.chosen() == PAUSED
    done = replace(RUNNING, state=S.DONE)
    desk.show_downloads(progress(9), done, PAUSED)
    assert page.chosen() == PAUSED
    desk.show_downloads(done)
    assert page.chosen() == done
    desk.show_downloads()
    assert page.chosen() is None


def test_a_hidden_page_rests(page: DownloadPage, desk: FakeDesk) -> None:
    page.hide()
    desk.show_downloads(RUNNING)
    assert page.model.shown == []
    page.show()
    assert page.model.shown == [RUNNING]
    assert ("downloads.begin",) in desk.calls


@pytest.mark.parametrize(
    ("of", "names"),
    [
        (RUNNING, ["Pause", "Cancel"]),
        (progress(1, S.QUEUED), ["Pause", "Cancel"]),
        (WAITING, ["Pause", "Try now", "Cancel"]),
        (PAUSED, ["Resume", "Cancel"]),
        (FAILED, ["Retry", "Remove from list"]),
        (DONE, ["Load", "Show in folder", "Move to trash", "Remove from list"]),
        (replace(DONE, is_ours=False), ["Load", "Show in folder", "Remove from list"]),
        (CANCELLED, ["Download again", "Remove from list"]),
    ],
)
def test_only_what_does_something_is_offered(
    page: DownloadPage, desk: FakeDesk, of: DownloadProgress, names: list[str]
) -> None:
    desk.show_downloads(of)
    assert buttons(page) == names
    for button in page.findChildren(QPushButton):
        if button.isVisible() and button is not page.options_button:
            assert button.accessibleName() == f"{button.text()}: {of.name}"


def test_what_is_loaded_is_not_loaded_again_nor_thrown_away(
    page: DownloadPage, desk: FakeDesk, bridge: FakeBridge
) -> None:
    page.follow(bridge)  # type: ignore[arg-type]
    desk.show_downloads(DONE)
    assert page.load_button.isEnabled()
    desk.loader.state = EngineStateChanged("ready", loaded=loaded(path=DONE.path))
    bridge.emit_event(desk.loader.state)
    assert page.load_button.text() == "Loaded"
    assert not page.load_button.isEnabled()
    assert not page.trash_button.isEnabled()
    assert page.trash_button.toolTip() == "Unload this model first"
    page._on_return()
    assert desk.called("loader.load") == []


def test_a_projector_is_not_loaded_alone(page: DownloadPage, desk: FakeDesk) -> None:
    desk.show_downloads(replace(DONE, name="mmproj-F16.gguf"))
    assert "Load" not in buttons(page)
    page._on_return()
    assert desk.called("loader.load") == []


def test_each_button_does_what_it_says(page: DownloadPage, desk: FakeDesk) -> None:
    desk.show_downloads(RUNNING)
    page.pause_button.click()
    page.cancel_button.click()
    desk.show_downloads(PAUSED)
    page.go_on_button.click()
    desk.show_downloads(DONE)
    page.load_button.click()
    page.remove_button.click()
    page.trash_button.click()
    desk.calls = [call for call in desk.calls if call[0] != "downloads.begin"]
    assert [call[:2] for call in desk.calls] == [
        ("downloads.pause", "d1"),
        ("downloads.cancel", "d1"),
        ("downloads.resume", "d3"),
        ("loader.load", DONE.path),
        ("downloads.remove", "d5"),
        ("downloads.to_trash", "d5"),
    ]


def test_by_the_keyboard_alone(page: DownloadPage, desk: FakeDesk, qtbot: QtBot) -> None:
    desk.show_downloads(RUNNING, PAUSED, DONE)
    page.list.setFocus()
    assert page.chosen() == RUNNING
    QTest.keyClick(page.list, Qt.Key.Key_Space)
    QTest.keyClick(page.list, Qt.Key.Key_Down)
    QTest.keyClick(page.list, Qt.Key.Key_Space)
    QTest.keyClick(page.list, Qt.Key.Key_Down)
    QTest.keyClick(page.list, Qt.Key.Key_Return)
    QTest.keyClick(page.list, Qt.Key.Key_Delete)
    QTest.keyClick(page.list, Qt.Key.Key_Up)
    QTest.keyClick(page.list, Qt.Key.Key_Delete)
    acts = [call for call in desk.calls if call[0] != "downloads.begin"]
    assert acts == [
        ("downloads.pause", "d1"),
        ("downloads.resume", "d3"),
        ("loader.load", DONE.path),
        ("downloads.remove", "d5"),
    ]


def test_the_keyboard_stays_in_the_page_when_a_button_goes(
    page: DownloadPage, desk: FakeDesk, qtbot: QtBot
) -> None:
    desk.show_downloads(RUNNING)
    page.activateWindow()
    page.pause_button.setFocus()
    desk.show_downloads(replace(RUNNING, state=S.DONE))
    assert page.focusWidget() is page.list


def test_the_whole_sentence_stands_below(page: DownloadPage, desk: FakeDesk) -> None:
    desk.show_downloads(FAILED)
    assert page.words.text().splitlines()[0] == FAILED.sentence
    desk.show_downloads(replace(DONE, folder=str(Path.home() / "weights")))
    assert page.words.text().splitlines() == ["98 MB from ana/tiny-GGUF", "~/weights"]


def test_a_window_that_only_reads_says_so_and_offers_nothing(
    page: DownloadPage, desk: FakeDesk
) -> None:
    desk.downloads.trouble = "Cutaway is already open with this data folder."
    desk.show_downloads(RUNNING, PAUSED)
    assert page.trouble.isVisible()
    assert page.trouble.text() == desk.downloads.trouble
    assert buttons(page) == []


def test_rows_are_painted_at_any_size_in_both_themes(
    qtbot: QtBot, desk: FakeDesk, theme: Theme, page: DownloadPage
) -> None:
    desk.show_downloads(*ALL)
    heights = []
    for scale in (100, 200):
        theme.set_zoom(scale)
        assert not page.list.grab().isNull()
        heights.append(page.list.sizeHintForRow(0))
    theme.set_zoom(100)
    assert heights[1] > 1.6 * heights[0]


# --- folder and limits --------------------------------------------------------------------------


def test_folder_and_limits(page: DownloadPage, desk: FakeDesk, qtbot: QtBot) -> None:
    page.show_options()
    options = page._options
    assert options is not None
    assert options.folder.text().endswith("weights")
    assert options.at_once.text() == "2"
    assert options.limit.text() == ""
    options.at_once.setText("3")
    options.at_once.editingFinished.emit()
    options.limit.setText("500")
    options.limit.editingFinished.emit()
    assert desk.called("settings.set") == [("downloads_at_once", 3), ("download_limit_kbs", 500)]
    options.use("/read/only")
    assert not options.change_button.isEnabled()
    ((path, then),) = desk.called("downloads.set_folder")
    assert path == "/read/only"
    then("Nothing can be saved there.")
    assert options.sentence.isVisible()
    assert options.change_button.isEnabled()
    then("")
    assert not options.sentence.isVisible()
    options.close()


# --- around it ----------------------------------------------------------------------------------


def test_the_window_shows_a_sign_while_something_is_fetched(
    open_window: Callable[..., MainWindow], desk: FakeDesk
) -> None:
    window = open_window()
    sign = window.findChild(QLabel, "status_downloads")
    assert sign is not None
    assert not sign.isVisible()
    desk.show_downloads(RUNNING)
    assert sign.text() == "↓ 42% · 3.2 MB/s"
    assert sign.isVisible()
    desk.show_downloads(DONE)
    assert not sign.isVisible()


def test_the_trash_is_the_systems(tmp_path: Path) -> None:
    """In a home folder of its own: the file is there no more, and in the trash."""
    file = tmp_path / "tiny.gguf"
    file.write_bytes(b"GGUF")
    code = (
        "import sys\n"
        "from ui.library.downloads.page import move_to_trash\n"
        "print(move_to_trash(sys.argv[1]), move_to_trash(sys.argv[1]))\n"
    )
    home = {"HOME": str(tmp_path / "home"), "XDG_DATA_HOME": str(tmp_path / "share")}
    for each in home.values():
        Path(each).mkdir()
    done = subprocess.run(
        [sys.executable, "-c", code, str(file)],
        cwd=ROOT,
        env=os.environ | home,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stdout.split() == ["True", "False"]
    assert not file.exists()
    if sys.platform == "linux":
        assert list(tmp_path.rglob("Trash/files/tiny.gguf")) != []
