"""*On this machine*: the list, its filter, what can be done with weights, and its folders."""

from __future__ import annotations

import time
import unicodedata
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from PySide6.QtCore import QEvent, QPoint, Qt, QUrl
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QMenu, QMessageBox
from pytestqt.qtbot import QtBot
from recording_desk import FakeBridge, FakeDesk, loaded

from app.chat.events import EngineStateChanged, MemoryChanged
from app.engine.planning.fit import Fit, Verdict
from app.gguf.facts import Facts
from app.gguf.local.entries import FoundWeights
from app.gguf.local.projecting import Projector
from app.gguf.projector import ProjectorFacts
from app.hub.downloads.progress import DownloadProgress
from app.library.local import LocalSnapshot
from models.records import DownloadState
from ui.library.local import page as local_page
from ui.library.local.delegate import LocalDelegate
from ui.library.local.model import CONTEXT, FIT, FROM, NAME, PARAMETERS, QUANTISATION, SIZE
from ui.library.local.page import LocalPage
from ui.library.local.words import folded, matches, second_line, status_text
from ui.library.view import LibraryView
from ui.look.theme import Theme
from ui.shell import dialogs

Key = Qt.Key
FITS = Fit(Verdict.FITS, "fits", "It needs 1 GB and 3 GB are free.", (), 1, 3)
ROUGH = Fit(Verdict.FITS_LESS, "may fit", "By its size it may fit.", (), 2, 3)
FITS_NOT = Fit(Verdict.FITS_NOT, "does not fit", "It needs 9 GB and 3 GB are free.", (), 9, 3)


def facts(**fields: Any) -> Facts:
    return replace(
        Facts(
            name="n",
            architecture="llama",
            kind="chat",
            n_parameters=8_030_000_000,
            n_layer=32,
            n_head=32,
            n_head_kv=8,
            n_embd=4096,
            n_ctx_train=131072,
            n_vocab=128256,
            tokenizer="gpt2",
            has_template=True,
            licence="apache-2.0",
            languages=(),
            size_label="8B",
            quantisation="Q4_K_M",
            bits_per_weight=4.8,
            types=(),
            trouble="",
        ),
        **fields,
    )


def found(name: str, **fields: Any) -> FoundWeights:
    path = Path(f"/models/{name}.gguf")
    known: dict[str, Any] = {
        "path": path,
        "parts": (path,),
        "missing": (),
        "size_bytes": 4_900_000_000,
        "origin": "Folder",
        "name": name,
        "facts": facts(),
    }
    return FoundWeights(**known | fields)


def snapshot(*entries: FoundWeights, **fields: Any) -> LocalSnapshot:
    by_name = tuple(sorted(entries, key=lambda each: each.name))
    return LocalSnapshot(by_name, **{"is_looking": False, **fields})


@pytest.fixture(autouse=True)
def chosen_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ui.library.local.page.JUDGE_AFTER_MS", 10)


@pytest.fixture
def page(qtbot: QtBot, desk: FakeDesk, bridge: FakeBridge, theme: Theme) -> LocalPage:
    made = LocalPage(desk, theme)  # type: ignore[arg-type]
    qtbot.addWidget(made)
    made.follow(bridge)  # type: ignore[arg-type]
    made.resize(860, 520)
    made.show()
    made.activateWindow()
    qtbot.waitUntil(made.isActiveWindow)
    desk.calls.clear()
    return made


def names(page: LocalPage) -> list[str]:
    return [page.model.index(row, NAME).data() for row in range(page.model.rowCount())]


def cells(page: LocalPage, row: int) -> list[str]:
    return [page.model.index(row, column).data() for column in range(page.model.columnCount())]


def choose(page: LocalPage, row: int) -> None:
    page.table.setCurrentIndex(page.model.index(row, NAME))


# --- what is shown ----------------------------------------------------------------------------


def test_what_a_model_sees_by_and_what_a_projector_is_for(
    page: LocalPage, desk: FakeDesk, qtbot: QtBot
) -> None:
    sight = ProjectorFacts("gemma3", True, False, (4096,))
    eyes = found(
        "mmproj",
        facts=facts(kind="projector", projector=sight),
        trouble="It is a projector, which needs its language model.",
    )
    file = Projector(eyes.path, 900_000_000, sight, "F16")
    desk.projectors.used = lambda path: file if path == "/models/seeing.gguf" else None
    desk.projectors.may_need_one = lambda path: path == "/models/lacking.gguf"
    page.show_snapshot(snapshot(found("seeing"), found("lacking"), eyes))
    lacking, seeing, projector = page.model.shown
    assert page.model.words_of(seeing) == "sees pictures: mmproj.gguf, 900 MB · /models"
    assert page.model.words_of(lacking) == "/models"
    assert page.model.words_of(projector) == "projector · lets a model see pictures · /models"
    assert (eyes.can_load, projector) == (False, eyes)  # C13: no chat model
    page.search.setText("sees pictures")
    assert names(page) == ["seeing"]
    page.search.clear()
    choose(page, 1)
    tip = page.model.index(1, NAME).data(Qt.ItemDataRole.ToolTipRole)
    assert "Sees pictures: mmproj.gguf, 900 MB." in tip
    assert not page.projector_button.isVisible()
    choose(page, 0)
    with qtbot.waitSignal(page.projector_requested) as asked:
        QTest.mouseClick(page.projector_button, Qt.MouseButton.LeftButton)
    assert asked.args == ["/models/lacking.gguf"]


def test_a_row_says_what_the_file_holds(page: LocalPage) -> None:
    page.show_snapshot(snapshot(found("llama")))
    assert cells(page, 0) == ["llama", "8.0B", "Q4_K_M", "4.9 GB", "128k", "Folder", ""]
    assert page.status.text() == "1 found · 4.9 GB"
    assert page.body.currentWidget() is page.table


def test_what_cannot_be_loaded_stands_below_and_says_why(page: LocalPage) -> None:
    cut = found("a cut file", facts=None, trouble="“a” is incomplete. Download it again.")
    page.show_snapshot(snapshot(cut, found("b"), found("c")))
    assert names(page) == ["b", "c", "a cut file"]
    assert cells(page, 2) == ["a cut file", "", "", "4.9 GB", "", "Folder", ""]
    spoken = page.model.index(2, NAME).data(Qt.ItemDataRole.AccessibleTextRole)
    assert spoken == "a cut file. “a” is incomplete. Download it again."
    choose(page, 2)
    assert not page.load_button.isEnabled()
    assert page.words.text().startswith("“a” is incomplete.")


def test_the_second_line_says_where_it_lies_and_where_else() -> None:
    home = Path("/home/x")
    weights = found(
        "b",
        path=home / "models" / "b.gguf",
        parts=(home / "models" / "b.gguf",) * 3,
        also_at=(Path("/lm/b.gguf"), Path("/jan/b.gguf")),
        facts=facts(kind="base"),
    )
    assert second_line(weights, home) == (
        "no chat template · 3 files · ~/models · also at /lm and 1 more"
    )
    odd = found("b", path=Path("/a\nb/\udcff.gguf"), also_at=())
    assert second_line(odd, home) == "/a�b"


@pytest.mark.parametrize(
    ("text", "is_found"),
    [
        ("llama", True),
        ("LLAMA q4", True),
        ("lm studio", True),
        ("/models/l", True),
        ("8.0b apache", True),
        ("llama q8", False),
        ("", True),
    ],
)
def test_each_word_of_the_filter_must_be_found(text: str, is_found: bool) -> None:
    weights = found("Llama-3.1", origin="LM Studio", path=Path("/models/l.gguf"))
    assert matches(weights, folded(text).split()) is is_found


@pytest.mark.parametrize(("stored", "typed"), [("NFC", "NFD"), ("NFD", "NFC")])
def test_d09_the_filter_finds_accents_in_either_form(stored: Any, typed: Any) -> None:
    weights = found(unicodedata.normalize(stored, "Modèle"))
    assert matches(weights, folded(unicodedata.normalize(typed, "MODÈ")).split())


def test_the_filter_finds_weights_by_where_else_they_are() -> None:
    weights = found("a", also_at=(Path("/home/x/.lmstudio/models/b.gguf"),))
    assert matches(weights, ["lmstudio"])


def test_the_filter_leaves_what_matches_and_the_way_back(page: LocalPage, qtbot: QtBot) -> None:
    page.show_snapshot(snapshot(found("llama"), found("qwen"), found("gemma")))
    QTest.keyClicks(page.search, "wen")
    assert names(page) == ["qwen"]
    assert page.status.text() == "1 of 3 found · 14.7 GB"
    QTest.keyClicks(page.search, "x")
    assert page.nothing_words.text() == "No model on this computer matches “wenx”."
    assert not page.hub_button.isVisible()
    QTest.mouseClick(page.clear_button, Qt.MouseButton.LeftButton)
    assert len(names(page)) == 3


def test_columns_sort_and_say_so(page: LocalPage) -> None:
    small = found("b", size_bytes=1, facts=facts(n_parameters=1, n_ctx_train=512), origin="Jan")
    large = found("a", size_bytes=9, facts=facts(quantisation="Q8_0"))
    broken = found("c", size_bytes=0, trouble="No.")
    page.show_snapshot(snapshot(small, large, broken))
    header = page.table.horizontalHeader()
    expected = {
        NAME: ["a", "b"],
        PARAMETERS: ["b", "a"],
        QUANTISATION: ["b", "a"],
        SIZE: ["b", "a"],
        CONTEXT: ["b", "a"],
        FROM: ["a", "b"],
    }
    for column, order in expected.items():
        page.table.sortByColumn(column, Qt.SortOrder.AscendingOrder)
        assert names(page) == [*order, "c"]
        page.table.sortByColumn(column, Qt.SortOrder.DescendingOrder)
        assert names(page) == [*order[::-1], "c"]
        title = header.model().headerData(column, Qt.Orientation.Horizontal)
        assert title.endswith(" ↓")


def test_what_is_chosen_stays_chosen_while_others_come(page: LocalPage) -> None:
    page.show_snapshot(snapshot(found("m"), is_looking=True))
    choose(page, 0)
    page.show_snapshot(snapshot(found("a"), found("m"), found("z")))
    chosen = page.chosen()
    assert chosen is not None
    assert chosen.name == "m"
    page.search.setText("m")
    page.search.setText("")
    assert page.chosen() == chosen
    # Seen under its other path after the copies have been found to be the same:
    merged = found("m", path=Path("/lm/m.gguf"), also_at=(chosen.path,))
    page.show_snapshot(snapshot(found("a"), merged))
    assert page.chosen() == merged
    page.show_snapshot(snapshot(found("a")))
    assert page.chosen() is None
    assert not page.load_button.isEnabled()


def test_before_anything_is_found_it_says_what_happens_and_what_to_do(
    page: LocalPage, qtbot: QtBot
) -> None:
    assert page.nothing_title.text() == local_page.LOOKING
    assert not page.hub_button.isVisible()
    page.show_snapshot(snapshot())
    assert page.nothing_title.text() == local_page.NOTHING
    assert page.add_button.isVisible()
    with qtbot.waitSignal(page.page_requested) as asked:
        QTest.mouseClick(page.hub_button, Qt.MouseButton.LeftButton)
    assert asked.args == ["hub"]


def test_troubles_of_folders_are_named_the_first_ones(page: LocalPage) -> None:
    page.show_snapshot(snapshot(found("a"), troubles=tuple(f"“/{n}” is odd." for n in range(5))))
    assert page.troubles.isVisible()
    assert page.troubles.text().splitlines()[-1] == "And 2 more."
    assert "/4" in page.troubles.toolTip()
    page.show_snapshot(snapshot(found("a")))
    assert not page.troubles.isVisible()


def test_the_status_says_what_is_going_on() -> None:
    assert status_text(LocalSnapshot(), 0) == "Looking…"
    looking = LocalSnapshot((found("a"),))
    assert status_text(looking, 1) == "1 found · 4.9 GB · looking…"
    hashing = LocalSnapshot((found("a"),), (), is_looking=False, n_unhashed=2)
    assert status_text(hashing, 1).endswith("2 files left to compare by content")


def test_three_thousand_stay_smooth(
    page: LocalPage, desk: FakeDesk, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    painted: set[int] = set()
    paint = LocalDelegate.paint

    def counted(self: LocalDelegate, painter: Any, option: Any, index: Any) -> None:
        painted.add(index.row())
        paint(self, painter, option, index)

    monkeypatch.setattr(LocalDelegate, "paint", counted)
    many = tuple(found(f"weights {n:04d}", size_bytes=n) for n in range(3000))
    times: list[float] = []

    def timed(action: Callable[[], object]) -> None:
        before = time.process_time()
        action()
        QApplication.processEvents()
        times.append(time.process_time() - before)

    page.show_snapshot(snapshot(*many[:2999]))
    timed(lambda: page.show_snapshot(snapshot(*many)))
    timed(lambda: page.search.setText("weights 1"))
    timed(lambda: page.search.setText(""))
    timed(lambda: page.table.sortByColumn(SIZE, Qt.SortOrder.DescendingOrder))
    timed(page.table.scrollToBottom)
    assert max(times) < 0.15, times
    assert len(painted) < 120
    qtbot.waitUntil(lambda: bool(desk.called("fits.files")))
    assert max(len(paths) for paths, _ in desk.called("fits.files")) < 40


# --- whether it fits --------------------------------------------------------------------------


def test_rows_in_view_are_judged_and_others_by_their_size(
    page: LocalPage, desk: FakeDesk, bridge: FakeBridge, qtbot: QtBot
) -> None:
    desk.fits.rough = lambda size: FITS if size < 5 else FITS_NOT
    desk.calls.clear()
    page.show_snapshot(
        snapshot(found("a", size_bytes=1), found("b", size_bytes=9), found("c", trouble="No."))
    )
    assert [cells(page, row)[FIT] for row in range(3)] == ["fits", "does not fit", ""]
    qtbot.waitUntil(lambda: bool(desk.called("fits.files")))
    ((paths, then),) = desk.called("fits.files")
    assert paths == ["/models/a.gguf", "/models/b.gguf"]
    then("/models/b.gguf", FITS)
    assert cells(page, 1)[FIT] == "fits"
    assert page.model.index(1, FIT).data(Qt.ItemDataRole.ToolTipRole) == FITS.why
    desk.calls.clear()
    bridge.emit_event(MemoryChanged())
    assert desk.called("fits.stop")
    assert cells(page, 1)[FIT] == "fits"  # until it is judged anew
    qtbot.waitUntil(lambda: bool(desk.called("fits.files")))
    page.show_snapshot(snapshot(found("b", size_bytes=10)))  # another file under that path
    assert cells(page, 0)[FIT] == "does not fit"


def asked_of_fits(desk: FakeDesk, qtbot: QtBot) -> Callable[[str, Fit], None]:
    """Who waits for the verdicts that are asked for next."""
    qtbot.waitUntil(lambda: bool(desk.called("fits.files")))
    then = desk.called("fits.files")[-1][1]
    desk.calls.clear()
    return then  # type: ignore[no-any-return]


def test_a_verdict_is_of_the_file_that_was_asked_about(
    page: LocalPage, desk: FakeDesk, qtbot: QtBot
) -> None:
    """Another file came under that path before the verdict, and its own one comes first."""
    desk.fits.rough = lambda _size: ROUGH
    page.show_snapshot(snapshot(found("a", size_bytes=1)))
    first = asked_of_fits(desk, qtbot)
    page.show_snapshot(snapshot(found("a", size_bytes=9)))
    first("/models/a.gguf", FITS)
    assert cells(page, 0)[FIT] == "may fit"
    second = asked_of_fits(desk, qtbot)
    second("/models/a.gguf", FITS_NOT)
    first("/models/a.gguf", FITS)
    assert cells(page, 0)[FIT] == "does not fit"


def test_a_verdict_that_comes_while_others_are_searched_for_is_there_afterwards(
    page: LocalPage, desk: FakeDesk, qtbot: QtBot
) -> None:
    desk.fits.rough = lambda _size: ROUGH
    page.show_snapshot(snapshot(found("alpha", size_bytes=1), found("omega", size_bytes=2)))
    then = asked_of_fits(desk, qtbot)
    page.search.setText("omega")
    qtbot.waitUntil(lambda: names(page) == ["omega"])
    then("/models/alpha.gguf", FITS_NOT)
    page.search.setText("")
    qtbot.waitUntil(lambda: len(names(page)) == 2)
    assert [cells(page, row)[FIT] for row in range(2)] == ["does not fit", "may fit"]


def test_rows_that_come_into_view_are_judged(page: LocalPage, desk: FakeDesk, qtbot: QtBot) -> None:
    def asked() -> str:
        qtbot.waitUntil(lambda: bool(desk.called("fits.files")))
        first = desk.called("fits.files")[0][0][0]
        desk.calls.clear()
        return Path(first).stem

    page.show_snapshot(snapshot(*(found(f"w{n:02}", size_bytes=10 + n) for n in range(60))))
    assert asked() == "w00"
    page.table.sortByColumn(SIZE, Qt.SortOrder.DescendingOrder)
    assert asked() == "w59"
    n_before = len(page._asked)
    page.resize(page.width(), page.height() + 200)
    assert asked() not in ("w00", "w59")
    assert len(page._asked) > n_before
    # Another file under a path that was judged:
    page.show_snapshot(snapshot(found("w59", size_bytes=5)))
    assert asked() == "w59"


def test_sorting_by_memory_puts_first_what_fits(page: LocalPage, desk: FakeDesk) -> None:
    desk.fits.rough = lambda size: FITS if size < 5 else FITS_NOT
    page.show_snapshot(snapshot(found("a", size_bytes=9), found("b", size_bytes=1)))
    page.table.sortByColumn(FIT, Qt.SortOrder.AscendingOrder)
    assert names(page) == ["b", "a"]


def test_what_is_chosen_stays_chosen_where_rows_change_places(
    page: LocalPage, desk: FakeDesk, qtbot: QtBot
) -> None:
    page.show_snapshot(snapshot(*(found(name, size_bytes=ord(name)) for name in "abcd")))
    choose(page, 1)
    page.table.sortByColumn(SIZE, Qt.SortOrder.DescendingOrder)
    assert names(page) == ["d", "c", "b", "a"]
    assert page.chosen() == found("b", size_bytes=ord("b"))
    assert page.load_button.isEnabled()
    page.table.sortByColumn(FIT, Qt.SortOrder.AscendingOrder)
    then = asked_of_fits(desk, qtbot)
    then("/models/a.gguf", FITS_NOT)
    then("/models/c.gguf", FITS)
    assert names(page) == ["c", "a", "b", "d"]
    assert page.chosen() == found("b", size_bytes=ord("b"))
    assert page.table.currentIndex().row() == 2


# --- acts -------------------------------------------------------------------------------------


def test_weights_are_loaded_from_where_they_lie(page: LocalPage, desk: FakeDesk) -> None:
    page.show_snapshot(snapshot(found("a"), found("b"), found("cut", trouble="No.")))
    assert not page.load_button.isEnabled()
    choose(page, 1)
    QTest.mouseClick(page.load_button, Qt.MouseButton.LeftButton)
    page.table.setFocus()
    choose(page, 0)
    QTest.keyClick(page.table, Key.Key_Return)
    choose(page, 2)
    QTest.keyClick(page.table, Key.Key_Return)
    assert desk.called("loader.load") == [("/models/b.gguf",), ("/models/a.gguf",)]


def test_rows_stay_under_the_mouse_between_two_clicks(
    page: LocalPage, desk: FakeDesk, qtbot: QtBot
) -> None:
    desk.fits.rough = lambda _size: replace(FITS, why="It fits. " * 30)
    page.show_snapshot(snapshot(*(found(f"w{n:02}", sha256="0" * 64) for n in range(60))))
    qtbot.waitUntil(lambda: page.table.rowAt(0) == 0)
    viewport = page.table.viewport()
    row = page.table.rowAt(viewport.height() - 1) - 1  # the last one in view as a whole
    at = page.table.visualRect(page.model.index(row, NAME)).center()
    before = viewport.mapTo(page, at)
    QTest.mouseClick(viewport, Qt.MouseButton.LeftButton, pos=at)
    qtbot.wait(50)
    assert page.words.text()
    assert page.childAt(before) is viewport
    assert page.table.rowAt(viewport.mapFrom(page, before).y()) == row
    QTest.mouseDClick(viewport, Qt.MouseButton.LeftButton, pos=viewport.mapFrom(page, before))
    assert desk.called("loader.load") == [(f"/models/w{row:02}.gguf",)]


def test_what_is_loaded_is_marked_by_any_of_its_paths(
    page: LocalPage, desk: FakeDesk, bridge: FakeBridge
) -> None:
    page.show_snapshot(snapshot(found("a"), found("b", also_at=(Path("/lm/b.gguf"),))))
    choose(page, 1)
    state = EngineStateChanged("ready", "b", replace_path("/lm/b.gguf"))
    bridge.emit_event(state)
    assert (page.load_button.text(), page.load_button.isEnabled()) == ("Loaded", False)
    spoken = page.model.index(1, NAME).data(Qt.ItemDataRole.AccessibleTextRole)
    assert spoken.startswith("b, loaded.")
    QTest.keyClick(page.table, Key.Key_Return)
    assert not desk.called("loader.load")
    bridge.emit_event(EngineStateChanged("stopped"))
    assert (page.load_button.text(), page.load_button.isEnabled()) == ("Load", True)


def replace_path(path: str) -> Any:
    import msgspec

    return msgspec.structs.replace(loaded(), path=path)


def test_d11_the_folder_is_shown_by_an_encoded_address(
    page: LocalPage, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[QUrl] = []
    monkeypatch.setattr(dialogs.QDesktopServices, "openUrl", lambda url: not opened.append(url))
    folder = "/a b/Ž 模型 🙂/it's 100% #1 & “more”?"
    page.show_snapshot(snapshot(found("x", path=Path(folder) / "x.gguf")))
    choose(page, 0)
    QTest.mouseClick(page.show_button, Qt.MouseButton.LeftButton)
    assert opened[0].toLocalFile() == folder
    encoded = opened[0].toString(QUrl.ComponentFormattingOption.FullyEncoded)
    assert encoded.startswith("file:///a%20b/")
    assert "#" not in encoded
    assert not opened[0].hasQuery()
    assert page.findChild(QMessageBox) is None


def test_where_the_system_shows_no_folders_it_is_said_where_it_is(
    page: LocalPage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dialogs.QDesktopServices, "openUrl", lambda _url: False)
    page.show_snapshot(snapshot(found("x", path=Path("/a b/x.gguf"))))
    choose(page, 0)
    QTest.mouseClick(page.show_button, Qt.MouseButton.LeftButton)
    box = page.findChild(QMessageBox, "not_opened_dialog")
    assert box is not None
    assert "No file manager was found" in box.text()
    assert box.informativeText() == "/a b"
    box.close()


def test_a_path_that_is_no_text_is_shown_and_told_as_it_is(page: LocalPage, desk: FakeDesk) -> None:
    path = Path("/models/\udcff\udcfe.gguf")
    page.show_snapshot(snapshot(found("\udcff\udcfe", path=path)))
    choose(page, 0)
    assert cells(page, 0)[NAME] == "\ufffd\ufffd"
    assert page.words.text().startswith("/models/\ufffd\ufffd.gguf")
    page.grab()
    QTest.mouseClick(page.load_button, Qt.MouseButton.LeftButton)
    assert desk.called("loader.load") == [(str(path),)]


def test_it_is_gone_through_by_keys_alone(page: LocalPage, desk: FakeDesk) -> None:
    page.show_snapshot(snapshot(found("a"), found("b")))
    page.setFocus()
    assert QApplication.focusWidget() is page.search
    QTest.keyClick(page.search, Key.Key_Down)
    assert QApplication.focusWidget() is page.table
    QTest.keyClick(page.table, Key.Key_Down)
    assert page.chosen() == found("b")
    QTest.keyClick(page.table, Key.Key_Tab)
    assert QApplication.focusWidget() is page.load_button
    QTest.keyClick(page, Key.Key_F5)
    assert desk.called("local.look_again")
    for button in (page.load_button, page.details_button, page.show_button, page.again_button):
        assert button.accessibleName()
    assert page.load_button.accessibleName() == "Load b"


def test_defaults_and_details_are_asked_for_the_chosen_file(
    page: LocalPage, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown: list[Path] = []

    class Details:
        def show_file(self, _parent: object, _desk: object, _theme: object, path: Path) -> None:
            shown.append(path)

    monkeypatch.setattr(local_page, "_details", Details)
    page.show_snapshot(snapshot(found("a"), found("cut", trouble="No.")))
    assert not page.details_button.isEnabled()
    choose(page, 1)
    assert not page.defaults_button.isEnabled()
    QTest.mouseClick(page.details_button, Qt.MouseButton.LeftButton)
    assert shown == [Path("/models/cut.gguf")]
    choose(page, 0)
    with qtbot.waitSignal(page.defaults_requested) as asked:
        QTest.mouseClick(page.defaults_button, Qt.MouseButton.LeftButton)
    assert asked.args == ["/models/a.gguf"]
    with qtbot.waitSignal(page.fit_requested) as asked:
        QTest.mouseClick(page.memory_button, Qt.MouseButton.LeftButton)
    assert asked.args == ["/models/a.gguf"]


def test_the_menu_of_a_row_has_what_the_buttons_do(page: LocalPage, desk: FakeDesk) -> None:
    page.show_snapshot(snapshot(found("a"), found("cut", trouble="No.")))
    page.table.customContextMenuRequested.emit(QPoint(5, 5))
    assert page.findChild(QMenu, "local_menu") is None  # nothing is chosen
    choose(page, 0)
    page.table.customContextMenuRequested.emit(QPoint(5, 5))
    menu = page.findChild(QMenu, "local_menu")
    assert menu is not None
    texts = [action.text() for action in menu.actions()]
    assert texts == ["Load", "Details…", "Defaults…", "Memory…", "Show in folder"]
    menu.actions()[0].trigger()
    assert desk.called("loader.load") == [("/models/a.gguf",)]
    menu.close()


def test_a_click_on_whether_it_fits_asks_why(page: LocalPage, qtbot: QtBot) -> None:
    page.show_snapshot(snapshot(found("a"), found("cut", trouble="No.")))
    place = page.table.visualRect(page.model.index(0, FIT)).center()
    with qtbot.waitSignal(page.fit_requested) as asked:
        QTest.mouseClick(page.table.viewport(), Qt.MouseButton.LeftButton, pos=place)
    assert asked.args == ["/models/a.gguf"]
    place = page.table.visualRect(page.model.index(1, FIT)).center()
    with qtbot.assertNotEmitted(page.fit_requested):
        QTest.mouseClick(page.table.viewport(), Qt.MouseButton.LeftButton, pos=place)


def test_only_what_was_downloaded_here_goes_to_the_trash(
    page: LocalPage, desk: FakeDesk, bridge: FakeBridge
) -> None:
    def progress(path: str, *, is_ours: bool) -> DownloadProgress:
        state, when = DownloadState.DONE, datetime.now(UTC)
        known = ("r", "n", "/models", path, 1, 1, 1, state, when)
        return DownloadProgress(f"of {path}", *known, is_ours=is_ours)

    ours, theirs = found("a"), found("b")
    desk.downloads.all = (
        progress(str(ours.path), is_ours=True),
        progress(str(theirs.path), is_ours=False),
    )
    page.show_snapshot(snapshot(ours, theirs, found("c")))
    for row in (1, 2):
        choose(page, row)
        assert not page.trash_button.isVisible()
    choose(page, 0)
    assert page.trash_button.isVisible()
    QTest.mouseClick(page.trash_button, Qt.MouseButton.LeftButton)
    ((download_id, _trash),) = desk.called("downloads.to_trash")
    assert download_id == "of /models/a.gguf"
    bridge.emit_event(EngineStateChanged("ready", "a", replace_path("/models/a.gguf")))
    assert not page.trash_button.isEnabled()
    assert page.trash_button.toolTip() == "Unload this model first"


def test_a_narrow_page_keeps_names_and_leaves_columns_out(page: LocalPage, theme: Theme) -> None:
    page.show_snapshot(snapshot(found("a")))
    narrow = [CONTEXT, PARAMETERS, FROM, QUANTISATION]
    for width, hidden in ((900, []), (700, [CONTEXT]), (420, narrow), (310, [*narrow, FIT])):
        page.resize(width, 500)
        columns = range(page.model.columnCount())
        assert {c for c in columns if page.table.isColumnHidden(c)} == set(hidden)
    page.resize(900, 500)
    theme.set_zoom(150)
    assert page.table.isColumnHidden(PARAMETERS)


def test_at_300_percent_page_and_folders_fit_into_900_pixels(page: LocalPage, theme: Theme) -> None:
    theme.set_zoom(300)
    page.show_snapshot(snapshot(found("a" * 200), troubles=("“/nowhere” is not there. " * 3,)))
    choose(page, 0)
    page.resize(800, 1000)
    assert page.minimumSizeHint().width() < 800
    name_px = page.table.columnWidth(NAME)
    assert name_px > page.table.viewport().width() // 2
    page.show_folders()
    assert page._folders is not None
    assert page._folders.minimumSizeHint().width() <= 900
    page._folders.close()


@pytest.mark.parametrize("zoom", [100, 200, 300])
def test_rows_are_high_enough_for_two_lines(page: LocalPage, theme: Theme, zoom: int) -> None:
    theme.set_zoom(zoom)
    page.show_snapshot(snapshot(found("a")))
    lines = theme.font_text().pixelSize() + theme.font_small().pixelSize()
    assert page.table.rowHeight(0) >= lines * 1.2
    width = page.table.columnWidth(SIZE)
    assert page.fontMetrics().horizontalAdvance("999.9 GB") < width


# --- folders ----------------------------------------------------------------------------------


class FolderDesk(FakeDesk):
    def __init__(self, bridge: FakeBridge, data_dir: Path) -> None:
        super().__init__(bridge, data_dir)
        self.refusal = ""
        self.waiting: list[Callable[[], None]] = []
        self.local.add_folder = self._add_folder
        self.local.remove_folder = self._remove_folder

    def _add_folder(self, path: str, then: Callable[[str], None]) -> None:
        def answer() -> None:
            if not self.refusal:
                folders = (*self.settings.now.weights_folders, path)
                self.settings.set("weights_folders", folders)
            then(self.refusal)

        self.waiting.append(answer)

    def _remove_folder(self, path: str) -> None:
        rest = tuple(each for each in self.settings.now.weights_folders if each != path)
        self.settings.set("weights_folders", rest)


@pytest.fixture
def desk(bridge: FakeBridge, tmp_path: Path) -> FolderDesk:
    return FolderDesk(bridge, tmp_path)


def test_folders_are_added_and_removed_and_a_refusal_is_said(
    page: LocalPage, desk: FolderDesk, qtbot: QtBot
) -> None:
    QTest.mouseClick(page.folders_button, Qt.MouseButton.LeftButton)
    dialog = page._folders
    assert dialog is not None
    qtbot.waitUntil(dialog.isActiveWindow)
    assert dialog.none.isVisible()
    assert not dialog.remove_button.isEnabled()
    dialog.add("/models")
    assert not dialog.add_button.isEnabled()  # it is being looked at
    desk.waiting.pop()()
    assert dialog.list.item(0).text() == "/models"
    assert dialog.add_button.isEnabled()
    desk.refusal = "“/gone” can't be found. Connect its disk, or choose another one."
    dialog.add("/gone")
    desk.waiting.pop()()
    assert dialog.sentence.text() == desk.refusal
    assert dialog.sentence.isVisible()
    assert desk.settings.now.weights_folders == ("/models",)
    dialog.accept()
    QTest.mouseClick(page.folders_button, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(dialog.isActiveWindow)
    assert not dialog.sentence.isVisible()  # it was about something else
    dialog.close_button.setFocus()
    QTest.keyClick(dialog.close_button, Key.Key_Delete)
    assert desk.settings.now.weights_folders == ("/models",)
    dialog.list.setFocus()
    QTest.keyClick(dialog.list, Key.Key_Delete)
    assert desk.settings.now.weights_folders == ()
    dialog.add("/models")
    desk.refusal = ""
    desk.waiting.pop()()
    QTest.mouseClick(dialog.remove_button, Qt.MouseButton.LeftButton)
    assert desk.settings.now.weights_folders == ()
    assert dialog.none.isVisible()
    assert QApplication.focusWidget() is dialog.add_button
    QTest.mouseClick(dialog.others, Qt.MouseButton.LeftButton, pos=QPoint(20, 12))
    assert not desk.settings.now.find_other_apps
    dialog.accept()


def test_the_library_follows_with_its_first_page(
    qtbot: QtBot,
    desk: FolderDesk,
    bridge: FakeBridge,
    theme: Theme,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def add_local(view: LibraryView) -> None:
        view.add_page("local", "On this computer", LocalPage(desk, theme))  # type: ignore[arg-type]

    monkeypatch.setattr(LibraryView, "_add_pages", add_local)
    view = LibraryView(desk, bridge, theme)  # type: ignore[arg-type]
    qtbot.addWidget(view)
    page = view.findChild(LocalPage)
    assert page is not None
    page.show_snapshot(snapshot(found("a")))
    bridge.emit_event(EngineStateChanged("ready", "a", replace_path("/models/a.gguf")))
    assert page.model.is_loaded(found("a"))
    view.show_page("local")
    QApplication.sendEvent(view, QEvent(QEvent.Type.WindowActivate))
    assert page.search.objectName() == "library_search"


def test_a_page_that_is_gone_is_told_nothing_any_more(
    qtbot: QtBot, desk: FakeDesk, theme: Theme
) -> None:
    ended: list[str] = []
    desk.local.follow = lambda _follower: lambda: ended.append("followed")
    page = LocalPage(desk, theme)  # type: ignore[arg-type]
    page.deleteLater()
    qtbot.waitUntil(lambda: ended == ["followed"])
