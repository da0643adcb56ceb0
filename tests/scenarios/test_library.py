"""From "I have nothing" to a reply, and the same file in a second app's folder: the whole walk.

A hub on loopback serves the included SmolLM2 in three quantisations, one of them the real file.
What a person does is done with keys and buttons; the plug is pulled in the middle of the download,
and the app is started anew.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from fake_hub.acts import Act
from fake_hub.hub import FakeHub
from fake_hub.repos import FakeFile, FakeRepo
from gguf_writer import tiny_llama
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QLineEdit, QListView, QPushButton, QTableView, QWidget

from app.gguf import starter
from app.gguf.local import places
from models.records import DownloadState
from ui.library.view import LibraryView

Key = Qt.Key
REPO = "ana/SmolLM2-135M-GGUF"
REAL = "SmolLM2-135M-Instruct.Q4_1.gguf"
OTHERS = places.places_of_others
"""The real one, before the tests' own guard: here the whole home is made up."""
VARIABLES = ("LMSTUDIO_HOME", "OLLAMA_MODELS", "LLAMA_CACHE", "HF_HUB_CACHE", "HF_HOME")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home in which nobody has ever had weights, and no included ones either."""
    folder = tmp_path / "home"
    folder.mkdir()
    monkeypatch.setenv("HOME", str(folder))
    for name in (*VARIABLES, "XDG_CACHE_HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(starter, "find", lambda: None)
    monkeypatch.setattr(places, "places_of_others", OTHERS)
    return folder


@pytest.fixture
def hub(fake_hub: FakeHub, tmp_path: Path, starter_gguf: Path) -> FakeHub:
    files = [FakeFile(REAL, starter_gguf)]
    for name, kind, seed in (("Q2_K", "f16", 1), ("Q8_0", "f32", 2)):
        small = tmp_path / f"{name}.gguf"
        tiny_llama(small, kind=kind, seed=seed)
        files.append(FakeFile(f"SmolLM2-135M-Instruct.{name}.gguf", small.read_bytes()))
    fake_hub.add(
        FakeRepo(REPO, files, card="# SmolLM2\n\nA small one.", n_parameters=134_515_008),
        FakeRepo("bo/other-GGUF", [FakeFile("other-Q4_0.gguf", b"GGUF")], downloads=3),
    )
    return fake_hub


class Walk:
    """Somebody in the library."""

    def __init__(self, person: Any) -> None:
        self.person = person
        self.desk = person.app.desk

    @property
    def view(self) -> LibraryView:
        found: LibraryView = self.person.find(LibraryView, "library_view")
        return found

    def page(self, name: str) -> QWidget:
        """Turn to a page by its key, as anybody does."""
        self.person.window.action_registry.run(name)
        self.person.wait(self.view.isVisible)
        shown: QWidget = self.view.page()
        return shown

    def click(self, page: QWidget, name: str) -> None:
        button = page.findChild(QPushButton, name)
        assert button is not None, name
        self.person.wait(lambda: button.isVisible() and button.isEnabled())
        self.person.qtbot.mouseClick(button, Qt.MouseButton.LeftButton)

    def download(self) -> Any:
        found = self.desk.downloads.all
        return found[0] if found else None


def cells(table: QTableView) -> list[list[str]]:
    item_model = table.model()
    rows, columns = range(item_model.rowCount()), range(item_model.columnCount())
    return [[str(item_model.index(r, c).data() or "") for c in columns] for r in rows]


def test_from_nothing_to_a_reply_and_one_entry(
    open_window: Any, home: Path, hub: FakeHub, data_dir: Path, starter_gguf: Path
) -> None:
    walk = Walk(open_window(None, is_offline=False))
    person, desk = walk.person, walk.desk
    empty = person.window.chat.empty
    person.wait(empty.library_button.isVisible)
    person.wait(lambda: not desk.hub.state.why_offline)
    told: list[str] = []
    desk.hub.set_endpoint(hub.endpoint, told.append, lambda t: pytest.fail(t.sentence))
    person.wait(lambda: told)

    # Nothing on this machine: the empty page leads to the hub.
    person.click("find_weights_button")
    person.wait(walk.view.isVisible)
    local = walk.view.page()
    person.wait(lambda: local.findChild(QPushButton, "local_hub_button").isVisible())
    walk.click(local, "local_hub_button")
    page = walk.view.page()

    # Search.
    field = page.findChild(QLineEdit, "library_search")
    person.wait(field.hasFocus)
    person.qtbot.keyClicks(field, "smollm2")
    person.qtbot.keyClick(field, Key.Key_Return)
    results = page.findChild(QListView, "hub_results")
    person.wait(lambda: results.isVisible() and results.model().rowCount() == 1)
    person.qtbot.keyClick(field, Key.Key_Down)
    person.qtbot.keyClick(results, Key.Key_Home)

    # Compare three quantisations, and read the fit of each out of its header on the hub.
    files = page.findChild(QTableView, "hub_files")
    person.wait(lambda: files.isVisible() and len(cells(files)) == 3)
    rows = {row[1]: row for row in cells(files)}
    assert set(rows) == {"Q2_K", "Q4_1", "Q8_0"}
    assert rows["Q4_1"][3] == "98.4 MB"
    words = page.findChild(QWidget, "hub_file_words")
    whole = starter_gguf.stat().st_size
    for at, row in enumerate(cells(files)):
        hub.forget()
        files.setCurrentIndex(files.model().index(at, 0))
        person.wait(lambda: "iB" in words.text() or "GB" in words.text() or "MB" in words.text())
        person.wait(lambda at=at: cells(files)[at][4])
        assert "fits" in cells(files)[at][4], row
        # By ranges: far less was sent than the file.
        assert all(each.range for each in hub.asked("/resolve/", "cdn"))
    at = [row[1] for row in cells(files)].index("Q4_1")
    files.setCurrentIndex(files.model().index(at, 0))

    # Download; the plug is pulled in the middle.
    broken = (Act(close_after=whole // 2), Act(close_after=-1))
    hub.script(*broken, server="cdn", method="GET", for_ever=True)
    walk.click(page, "download_button")
    person.wait(lambda: (d := walk.download()) and d.state is DownloadState.WAITING)
    downloads = walk.page("downloads")
    assert downloads.findChild(QListView, "download_list").model().rowCount() == 1
    waiting = walk.download()
    assert 0 < waiting.done_bytes < whole
    assert waiting.sentence
    assert not list(data_dir.rglob(REAL)), "nothing partial under the final name"

    # The app is started anew, and the hub is there again: it goes on where it was.
    person.app.close()
    hub.unscript()
    hub.forget()
    walk = Walk(open_window(None, is_offline=False))
    person, desk = walk.person, walk.desk
    downloads = walk.page("downloads")
    person.wait(lambda: walk.download() and walk.download().state is DownloadState.DONE)
    asked = [each.range for each in hub.asked("", "cdn") if each.range]
    assert asked
    assert all(int(each.removeprefix("bytes=").partition("-")[0]) > 0 for each in asked)
    (fetched,) = data_dir.rglob(REAL)
    assert fetched.read_bytes() == starter_gguf.read_bytes()

    # Load, and chat.
    walk.click(downloads, "download_load_button")
    person.wait_ready()
    assert walk.view.loaded_label.text().startswith("Loaded: SmolLM2-135M-Instruct")
    person.qtbot.mouseClick(walk.view.chat_button, Qt.MouseButton.LeftButton)
    assert walk.view.isHidden()
    desk.settings.set("max_tokens", 8)
    desk.settings.set("n_threads", 1)
    person.send("What is the capital of France?")
    assert "Paris" in person.wait_ended().content

    # The same file in a second app's folder: one entry, which says where it also is.
    other = home / ".lmstudio" / "models" / "ana" / "SmolLM2" / "smol.gguf"
    other.parent.mkdir(parents=True)
    shutil.copy(starter_gguf, other)
    local = walk.page("library")
    walk.view.show_page("local")
    local = walk.view.page()
    person.qtbot.keyClick(walk.view, Key.Key_F5)
    table = local.findChild(QTableView, "local_table")

    def one_in_two_places() -> bool:
        found = desk.local.found()
        return len(found) == 1 and {fetched, other} <= set(found[0].all_paths)

    person.wait(one_in_two_places)
    person.wait(lambda: table.model().rowCount() == 1)
