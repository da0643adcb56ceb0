"""Makes the pictures of the library: `docs/library/*.png`, light and dark, at 100 % and 200 %.

Run by hand, from the repository's root, after a change that is seen:

    .venv/bin/python tests/look_library.py [SCENE …]

A hub on loopback serves the included weights and two more files with their header, in other types
and without their numbers, so that there is something to compare. Whoever is shown here has a home
of his own, made for the pictures: nothing of this machine is seen but its memory. What is done is
what a user does: actions, keys, clicks. Look at the pictures before they are committed. No test:
nothing here asserts.
"""

from __future__ import annotations

import os
import shutil
import struct
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from tour import offscreen  # noqa: E402

os.environ["QT_QPA_PLATFORM"] = offscreen()

import look_inside  # noqa: E402
from fake_hub.acts import Act  # noqa: E402
from fake_hub.hub import FakeHub  # noqa: E402
from fake_hub.repos import FakeFile, FakeRepo  # noqa: E402
from screenshots import settle, wait_for  # noqa: E402

if TYPE_CHECKING:
    from PySide6.QtWidgets import QWidget

    from main import App

OUT = ROOT / "docs" / "library"
SIZES = {100: (980, 680), 200: (1500, 1040)}
REPO = "harbour/SmolLM2-135M-Instruct-GGUF"
NAME = "SmolLM2-135M-Instruct.{}.gguf"
BLOCKS = {"Q8_0": (8, 32, 34), "F16": (1, 1, 2)}
"""GGUF's number of a type, and the values and bytes of its blocks."""
CARD = """# SmolLM2 135M Instruct

Small weights for a small machine, in three types.

| file | for |
|---|---|
| Q4_1 | least memory |
| Q8_0 | nearly as the original |
| F16 | the original |
"""


def retyped(source: Path, target: Path, name: str) -> None:
    """The same weights in another type: header and size are right, the numbers are zeros."""
    from app.gguf.header import read_header

    header = read_header(source)
    number, n_values, n_bytes = BLOCKS[name]
    begin = max(entry.end for entry in header.entries.values())
    head = bytearray(source.read_bytes()[:begin])
    offset = 0
    for tensor in header.tensors:
        shape = tensor.shape
        n_weights = 1
        for extent in shape:
            n_weights *= extent
        kind, size = (
            (0, 4 * n_weights)
            if len(shape) == 1
            else (
                number,
                n_weights // n_values * n_bytes,
            )
        )
        text = tensor.name.encode()
        head += struct.pack("<Q", len(text)) + text + struct.pack("<I", len(shape))
        head += struct.pack(f"<{len(shape)}QIQ", *shape, kind, offset)
        offset += -(-size // 32) * 32
    head += bytes(-len(head) % 32)
    with target.open("wb") as file:
        file.write(head)
        file.truncate(len(head) + offset)


class Stay:
    """The window, its library, and somebody who goes through it."""

    def __init__(self, app: App, hub: FakeHub, wanted: set[str]) -> None:
        self.app, self.hub, self.wanted = app, hub, wanted
        self.desk, self.window = app.desk, app.window

    @property
    def view(self) -> Any:
        return self.window.lazy._library

    def wait(self, is_true: Callable[[], Any]) -> None:
        wait_for(self.app, lambda: bool(is_true()))

    def go(self, page: str) -> Any:
        self.window.lazy.show_library(page)
        settle(self.app)
        return self.view.page()

    def picture(self, scene: str, widget: QWidget | None = None) -> None:
        if self.wanted and scene not in self.wanted:
            return
        shown = widget or self.view
        for percent, size in SIZES.items():
            self.desk.settings.set("zoom_percent", percent)
            for theme in ("light", "dark"):
                self.desk.settings.set("theme", theme)
                if shown is self.view:
                    shown.resize(*size)
                settle(self.app)
                settle(self.app)
                look_inside.save(shown, f"{scene}-{theme}-{percent}")
        self.desk.settings.set("zoom_percent", 100)
        settle(self.app)


def nothing_yet(stay: Stay) -> None:
    stay.wait(stay.window.chat.empty.library_button.isVisible)
    stay.window.resize(*SIZES[100])
    settle(stay.app)
    stay.picture("nothing-yet", stay.window)


def search(stay: Stay) -> None:
    """Two repositories are found; one is looked into; each file's header is read on the hub."""
    from PySide6.QtCore import Qt
    from PySide6.QtTest import QTest
    from PySide6.QtWidgets import QListView, QTableView

    told: list[str] = []
    stay.wait(lambda: not stay.desk.hub.state.why_offline)
    stay.desk.hub.set_endpoint(stay.hub.endpoint, told.append, lambda t: sys.exit(t.sentence))
    stay.wait(lambda: told)
    page = stay.go("hub")
    stay.view.resize(*SIZES[100])
    QTest.keyClicks(page.search, "smol")
    QTest.keyClick(page.search, Qt.Key.Key_Return)
    results = page.findChild(QListView, "hub_results")
    stay.wait(lambda: results.model().rowCount() == 2)
    QTest.keyClick(page.search, Qt.Key.Key_Down)
    QTest.keyClick(results, Qt.Key.Key_Home)
    files = page.findChild(QTableView, "hub_files")
    stay.wait(lambda: files.isVisible() and files.model().rowCount() == 3)
    for row in range(3):
        files.setCurrentIndex(files.model().index(row, 0))
        stay.wait(lambda: "iB" in page.detail.file_words.text())
        settle(stay.app)
    stay.picture("hub-files")
    page.detail.tabs.setCurrentIndex(1)
    settle(stay.app)
    stay.picture("hub-card")
    page.detail.tabs.setCurrentIndex(0)
    settle(stay.app)


def choose(stay: Stay, quantisation: str) -> Any:
    from PySide6.QtWidgets import QTableView

    page = stay.go("hub")
    files = page.findChild(QTableView, "hub_files")
    item_model = files.model()
    rows = [item_model.index(at, 1).data() for at in range(item_model.rowCount())]
    files.setCurrentIndex(item_model.index(rows.index(quantisation), 0))
    stay.wait(lambda: "iB" in page.detail.file_words.text())
    return page.detail


def downloads(stay: Stay) -> None:
    """One is here, one is on its way, one waits for the user."""
    from models.records import DownloadState

    def found(quantisation: str) -> Any:
        name = NAME.format(quantisation)
        return next((d for d in stay.desk.downloads.all if d.name == name), None)

    def state_of(quantisation: str) -> Any:
        download = found(quantisation)
        return download.state if download is not None else None

    choose(stay, "Q4_1").act_button.click()
    stay.wait(lambda: state_of("Q4_1") is DownloadState.DONE)
    stay.hub.script(Act(drip=(200_000, 0.05)), server="cdn", for_ever=True)
    choose(stay, "Q8_0").act_button.click()
    stay.wait(lambda: (d := found("Q8_0")) and d.fraction > 0.02)
    running = found("Q8_0")
    stay.desk.downloads.pause(running.id)
    stay.wait(lambda: state_of("Q8_0") is DownloadState.PAUSED)
    choose(stay, "F16").act_button.click()
    stay.wait(lambda: state_of("F16") is DownloadState.RUNNING)
    stay.go("downloads")
    stay.wait(lambda: any(d.left_s for d in stay.desk.downloads.all))
    stay.picture("downloads")
    for each in stay.desk.downloads.all:
        if each.state is not DownloadState.DONE:
            stay.desk.downloads.cancel(each.id)
    over = (DownloadState.DONE, DownloadState.CANCELLED)
    stay.wait(lambda: all(d.state in over for d in stay.desk.downloads.all))


def local(stay: Stay, home: Path) -> None:
    """The same file in another program's folder is one entry; what is no chat weights says so."""
    from PySide6.QtCore import Qt
    from PySide6.QtTest import QTest
    from PySide6.QtWidgets import QTableView

    fetched = Path(next(d.path for d in stay.desk.downloads.all if d.path.endswith("Q4_1.gguf")))
    other = home / ".lmstudio" / "models" / "harbour" / "SmolLM2" / fetched.name
    other.parent.mkdir(parents=True)
    shutil.copy(fetched, other)
    retyped(fetched, other.with_name(NAME.format("Q8_0")), "Q8_0")
    (other.with_name("half.gguf")).write_bytes(fetched.read_bytes()[:5_000_000])
    page = stay.go("local")
    stay.desk.local.look_again()
    table = page.findChild(QTableView, "local_table")
    stay.wait(lambda: table.model().rowCount() == 3 and stay.desk.local.found())
    stay.wait(lambda: any(len(each.all_paths) > 1 for each in stay.desk.local.found()))
    QTest.keyClick(table, Qt.Key.Key_Home)
    stay.desk.loader.load(str(fetched))
    stay.wait(lambda: stay.desk.loader.state.state == "ready")
    settle(stay.app)
    stay.picture("local")


def memory(stay: Stay) -> None:
    stay.view.show_fit()
    fit = stay.view.fit_view()
    stay.wait(lambda: fit.fit is not None)
    settle(stay.app)
    stay.picture("memory", fit)
    fit.close()


def header(stay: Stay) -> None:
    from PySide6.QtWidgets import QApplication

    page = stay.go("local")
    page.details_button.click()
    settle(stay.app)
    found = [w for w in QApplication.topLevelWidgets() if w.isVisible()]
    window = next(w for w in found if w.objectName() == "header_window")
    settle(stay.app)
    stay.picture("header", window)
    window.close()


def defaults(stay: Stay) -> None:
    path = stay.desk.loader.path
    for name, value in (("n_ctx", 4096), ("type_k", "q8_0"), ("temperature", 0.7)):
        stay.desk.defaults.change(path, name, value)
    stay.window.lazy.show_defaults(path, "loading")
    stay.view.resize(*SIZES[100])
    settle(stay.app)
    stay.picture("defaults-loading")
    shown = stay.view.defaults()
    shown.show_path(path, "template")
    stay.wait(lambda: shown.template.preview.toPlainText())
    stay.picture("defaults-template")
    larger = next(
        str(each.path) for each in stay.desk.local.found() if each.path.name.endswith("Q8_0.gguf")
    )
    stay.window.lazy.show_defaults(larger, "draft")
    stay.wait(lambda: shown.drafts.list.count() > 1)
    stay.picture("defaults-draft")


@contextmanager
def at_home() -> Iterator[Path]:
    """A home in which nobody has ever had weights, and no included ones either."""
    from app.gguf import starter

    home = Path(tempfile.gettempdir()) / "ana"  # it is seen in the pictures
    home.mkdir()
    try:
        os.environ["HOME"] = str(home)
        for name in ("LMSTUDIO_HOME", "OLLAMA_MODELS", "LLAMA_CACHE", "HF_HUB_CACHE", "HF_HOME"):
            os.environ.pop(name, None)
        for name in [name for name in os.environ if name.startswith("XDG_")]:
            os.environ.pop(name)
        starter.find = lambda: None
        yield home
    finally:
        shutil.rmtree(home)


def main() -> None:
    from app.gguf import starter
    from main import build

    included = starter.find()
    if included is None:
        raise SystemExit("The included weights are needed: make installs them.")
    look_inside.OUT = OUT
    wanted = set(sys.argv[1:])
    with at_home() as home, tempfile.TemporaryDirectory() as folder, FakeHub() as hub:
        files = [FakeFile(NAME.format("Q4_1"), Path(included.path))]
        for name in BLOCKS:
            made = Path(folder) / f"{name}.gguf"
            retyped(Path(included.path), made, name)
            files.append(FakeFile(NAME.format(name), made))
        other = FakeFile("smol-draft.Q8_0.gguf", Path(folder) / "Q8_0.gguf")
        hub.add(
            FakeRepo(REPO, files, card=CARD, downloads=48_210, likes=96, updated_days=990),
            FakeRepo("quay/smol-draft-GGUF", [other], downloads=1_204, likes=7, updated_days=700),
        )
        data = home / ".local" / "share" / "cutaway"
        data.parent.mkdir(parents=True)
        app = build(["--data-dir", str(data)])
        try:
            stay = Stay(app, hub, wanted)
            nothing_yet(stay)
            search(stay)
            downloads(stay)
            local(stay, home)
            memory(stay)
            header(stay)
            defaults(stay)
        finally:
            app.close()


if __name__ == "__main__":
    main()
