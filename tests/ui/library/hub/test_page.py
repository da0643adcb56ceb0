"""The hub's page: its states, each with a way on; keys, names, and what it asks of the desk."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtWidgets import QAbstractButton, QComboBox, QLineEdit, QWidget
from recording_desk import FakeDesk

from app.chat.events import HubState, HubTrouble, MemoryChanged
from app.engine.planning.fit import Fit, Verdict
from app.engine.planning.load_plan import Machine
from app.engine.planning.placement import DeviceMemory
from app.hub.downloads.progress import DownloadProgress
from app.hub.records import HubFile, HubRepo, HubSearchPage, RepoPage, SearchWish
from models.records import DownloadState
from ui.library.hub.card_view import CardView
from ui.library.hub.files import COLUMNS, FILE, FIT
from ui.library.hub.page import SEARCH_AFTER_MS, SEARCHING_AFTER_MS, HubPage
from ui.library.hub.state import StatePanel
from ui.library.view import LibraryView

NOW = datetime(2026, 11, 28, tzinfo=UTC)
TINY = HubRepo("ana/tiny-GGUF", "ana", 1234, 56, NOW, NOW, "mit", ("en",), n_parameters=135_000_000)
GATED = HubRepo("ben/gated-GGUF", "ben", 7, 1, is_gated=True)
COMMIT = "0" * 40
SMALL = HubFile(TINY.id, COMMIT, ("tiny-Q4_K_M.gguf",), (98_000_000,), ("",), "Q4_K_M", 4.89)
PARTS = HubFile(
    TINY.id, COMMIT, ("b/x-00001-of-00003.gguf", "b/x-00002-of-00003.gguf"), (5, 6), ("", ""),
    "F16", 16.0, missing=("b/x-00003-of-00003.gguf",),
)  # fmt: skip
EYES = HubFile(TINY.id, COMMIT, ("mmproj-F16.gguf",), (9,), ("",), "F16", 16.0, is_projector=True)
ADDRESS = "https://hub.example.org/ana/tiny-GGUF"
ONLINE = HubState("https://hub.example.org", "hub.example.org")


def fit(words: str, verdict: Verdict = Verdict.FITS) -> Fit:
    return Fit(verdict, words, f"Because it {words}.", (), 1, 2)


def made_header() -> Any:
    """As much of a header as the page shows."""
    return SimpleNamespace(
        name="Tiny", architecture="llama", n_layer=2, n_ctx_train=None, chat_template=None
    )


class HubDesk(FakeDesk):
    """Answers are given by hand: `answer(name, value)` or `fail(name, trouble)`."""

    def __init__(self, bridge: Any, data_dir: Any) -> None:
        super().__init__(bridge, data_dir)
        self.followers: list[Any] = []
        self.hub.state = ONLINE
        self.hub.follow = self._follow_hub
        memory = DeviceMemory("CPU", "", "cpu", 8_000_000_000, 16_000_000_000)
        self.fits.machine = lambda: Machine((memory,))
        self.fits.rough = lambda size_bytes: fit("probably fits")

    def _follow_hub(self, follower: Any) -> Any:
        self.followers.append(follower)
        return lambda: self.followers.remove(follower)

    def turn(self, **fields: Any) -> None:
        self.hub.state = replace(self.hub.state, **fields)
        for follower in list(self.followers):
            follower(self.hub.state)

    def answer(self, name: str, *values: Any) -> None:
        self.called(name)[-1][-2](*values)

    def fail(self, name: str, kind: str, sentence: str, wait_s: float | None = None) -> None:
        self.called(name)[-1][-1](HubTrouble(kind, sentence, wait_s))


@pytest.fixture(autouse=True)
def chosen_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ui.library.hub.page.CHOOSE_AFTER_MS", 10)


@pytest.fixture
def desk(bridge, tmp_path):
    return HubDesk(bridge, tmp_path)


@pytest.fixture
def page(qtbot, desk, theme):
    made = HubPage(desk, theme)
    qtbot.addWidget(made)
    made.resize(900, 560)
    made.show()
    qtbot.waitExposed(made)
    return made


def search(
    qtbot: Any, page: HubPage, desk: HubDesk, text: str, *repos: HubRepo, **more: Any
) -> None:
    page.search.clear()
    qtbot.keyClicks(page.search, text)
    qtbot.keyClick(page.search, Qt.Key.Key_Return)
    desk.answer("hub.search", HubSearchPage(repos, **more))


def choose(qtbot: Any, page: HubPage, desk: HubDesk, *files: HubFile, repo: HubRepo = TINY) -> None:
    search(qtbot, page, desk, "gguf", repo)
    page.results.choose(0)
    qtbot.waitUntil(lambda: bool(desk.called("hub.look")))
    desk.answer("hub.look", RepoPage(repo, files))


def progress(file: HubFile, state: DownloadState) -> DownloadProgress:
    return DownloadProgress(
        *(file.name, file.repo_id, file.name, "/w", f"/w/{file.name}", 1, 9, 9, state, NOW),
        names=file.names,
        revision=file.revision,
        sha256s=file.sha256s,
    )


def state(panel: StatePanel) -> tuple[str, str, str]:
    button = panel.button.text() if panel.button.isVisible() else ""
    return panel.title.text(), panel.words.text(), button


# --- states -------------------------------------------------------------------------------------


def test_nothing_is_asked_before_somebody_does(page, desk, qtbot):
    title, words, button = state(page.panel)
    assert (title, button) == ("Find a model", "Show the most downloaded")
    assert "hub.example.org" in words
    qtbot.wait(SEARCH_AFTER_MS + 50)
    assert desk.called("hub.search") == []
    qtbot.mouseClick(page.panel.button, Qt.MouseButton.LeftButton)
    assert desk.called("hub.search")[0][0] == SearchWish()
    qtbot.waitUntil(lambda: state(page.panel) == ("Searching…", "", "Stop"))
    page.panel.button.click()
    assert desk.called("hub.stop")[-1] != ()
    assert state(page.panel) == ("Stopped", "", "Search")
    page.panel.button.click()
    assert len(desk.called("hub.search")) == 2


def test_what_was_found_stays_in_view_while_the_next_search_is_quick(page, desk, qtbot):
    search(qtbot, page, desk, "gguf", TINY)
    qtbot.keyClick(page.search, Qt.Key.Key_Return)
    assert page.results.isVisible()
    desk.answer("hub.search", HubSearchPage((GATED,)))
    qtbot.wait(SEARCHING_AFTER_MS + 50)
    assert page.results.isVisible()
    assert page.results.results.repos == [GATED]
    page.results.choose(0)
    qtbot.waitUntil(lambda: bool(desk.called("hub.look")))
    assert state(page.detail.panel) == ("", f"Reading {GATED.id}…", "Stop")
    page.detail.panel.button.click()
    assert desk.called("hub.stop")[-1] == ("look", "card", "headers")
    assert state(page.detail.panel)[1].startswith("Choose a repository")


def test_typing_searches_a_moment_later_and_once(page, desk, qtbot):
    qtbot.keyClicks(page.search, "tiny")
    assert desk.called("hub.search") == []
    qtbot.waitUntil(lambda: bool(desk.called("hub.search")))
    qtbot.wait(SEARCH_AFTER_MS)
    (asked,) = desk.called("hub.search")
    assert asked[0].text == "tiny"
    desk.answer("hub.search", HubSearchPage((TINY, GATED)))
    assert page.results.isVisible()
    assert page.results.results.rowCount() == 2
    page.search.clear()
    assert state(page.panel)[0] == "Find a model"
    assert ("search",) in desk.called("hub.stop")


def test_nothing_found_says_what_to_try(page, desk, qtbot):
    search(qtbot, page, desk, "zzz")
    assert state(page.panel) == ("No results", "Try fewer or different words.", "")
    page.filters.licence.setCurrentIndex(1)
    desk.answer("hub.search", HubSearchPage())
    assert state(page.panel)[2] == "Clear filters"
    qtbot.mouseClick(page.panel.button, Qt.MouseButton.LeftButton)
    assert desk.called("hub.search")[-1][0] == SearchWish("zzz")


def test_what_may_be_private_is_looked_for_by_its_name(page, desk, qtbot):
    search(qtbot, page, desk, "cleo/private")
    assert desk.called("hub.look")[-1][:2] == ("cleo/private", "")
    desk.fail("hub.look", "private_or_missing", "There is none, or it is private.")
    title, _, button = state(page.detail.panel)
    assert (title, button) == ("Not found", "Try again")
    assert page.detail.panel.second.text() == "Enter a token…"
    qtbot.mouseClick(page.detail.panel.second, Qt.MouseButton.LeftButton)
    assert page._dialog is not None
    assert page._dialog.isVisible()
    page._dialog.close()


@pytest.mark.parametrize(
    ("kind", "title", "second"),
    [
        ("network", "Can't reach the hub", "Token and address…"),
        ("not_hub", "Not a hub", "Token and address…"),
        ("token_bad", "Token rejected", "Token and address…"),
        ("server", "Hub error", ""),
        ("fault", "Something went wrong", ""),
    ],
)
def test_each_trouble_has_a_way_on(page, desk, qtbot, kind, title, second):
    qtbot.keyClicks(page.search, "tiny")
    qtbot.keyClick(page.search, Qt.Key.Key_Return)
    desk.fail("hub.search", kind, "It is so. Do that.")
    assert state(page.panel) == (title, "It is so. Do that.", "Try again")
    assert page.panel.second.text() == second
    qtbot.mouseClick(page.panel.button, Qt.MouseButton.LeftButton)
    assert len(desk.called("hub.search")) == 2


def test_a_limit_counts_down_and_tries_again(page, desk, qtbot):
    qtbot.keyClicks(page.search, "tiny")
    qtbot.keyClick(page.search, Qt.Key.Key_Return)
    desk.fail("hub.search", "rate_limited", "Too many. Wait.", 0.4)
    assert state(page.panel)[2] == "Retry in 1 s"
    qtbot.waitUntil(lambda: len(desk.called("hub.search")) == 2)
    desk.fail("hub.search", "rate_limited", "Too many. Wait.", 90.1)
    assert state(page.panel)[2] == "Retry in 1:31"
    qtbot.waitUntil(lambda: page.panel.button.text() == "Retry in 1:30")
    page.panel.button.click()  # nobody has to wait
    assert len(desk.called("hub.search")) == 3
    desk.fail("hub.search", "rate_limited", "Too many. Wait.", 0.1)
    page.search.clear()
    qtbot.wait(300)
    assert len(desk.called("hub.search")) == 3


def test_a_token_is_entered_and_forgotten(page, desk, qtbot):
    page.hub_button.click()
    dialog = page._dialog
    assert dialog.token.echoMode() is QLineEdit.EchoMode.Password
    assert not dialog.forget_button.isEnabled()
    qtbot.keyClicks(dialog.token, "hf_x")
    qtbot.keyClick(dialog.token, Qt.Key.Key_Return)
    assert desk.called("hub.set_token")[-1][0] == "hf_x"
    assert dialog.token_sentence.text() == "Checking with the hub…"
    assert not dialog.use_button.isEnabled()
    desk.fail("hub.set_token", "token_bad", "It is not known. Make a new one.")
    assert dialog.isVisible()
    assert dialog.token_sentence.text() == "It is not known. Make a new one."
    assert dialog.token_sentence.property("kind") == "error"
    dialog.use_button.click()
    desk.turn(token_where="keyring", account="ana")
    desk.answer("hub.set_token", "Now using the token of “ana”.")
    assert (dialog.token.text(), dialog.token_sentence.property("kind")) == ("", "dim")
    assert page.hub_label.text() == "hub.example.org · as ana"
    dialog.forget_button.click()
    desk.called("hub.forget_token")[-1][0](False)
    assert "couldn't be deleted from the system keyring" in dialog.token_sentence.text()
    dialog.close()


def test_another_address_is_tried_first(page, desk, qtbot):
    page.hub_button.click()
    dialog = page._dialog
    assert dialog.address.placeholderText() == "https://hub.example.org"
    qtbot.keyClicks(dialog.address, "mirror.example.org")
    qtbot.keyClick(dialog.address, Qt.Key.Key_Return)
    desk.fail("hub.set_endpoint", "not_hub", "There is no hub.")
    assert dialog.isVisible()
    words = "There is no hub. The address is still hub.example.org."
    assert dialog.address_sentence.text() == words
    dialog.set_button.click()
    desk.settings.now = replace(desk.settings.now, hub_endpoint="https://mirror.example.org")
    desk.turn(endpoint="https://mirror.example.org", host="mirror.example.org")
    desk.answer("hub.set_endpoint", "Now using the hub at “mirror.example.org”.")
    assert dialog.address.text() == "https://mirror.example.org"
    assert page.hub_label.text() == "mirror.example.org · no token"
    assert "mirror.example.org" in page.panel.words.text()
    dialog.close()


def test_offline_is_a_state_with_a_switch(page, desk, qtbot):
    desk.turn(why_offline="Cutaway is offline. Switch it off.")
    assert state(page.panel) == ("Offline", "Cutaway is offline. Switch it off.", "Go online")
    qtbot.mouseClick(page.panel.button, Qt.MouseButton.LeftButton)
    assert desk.called("settings.set") == [("offline", False)]
    desk.turn(why_offline="")
    desk.offline = True
    desk.turn(why_offline="Started with --offline.")
    page.search.clear()
    assert state(page.panel) == ("Offline", "Started with --offline.", "")


# --- addresses ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "asked", "chosen"),
    [
        ("ana/tiny-GGUF:Q4_K_M", ("ana/tiny-GGUF", ""), SMALL),
        (f"{ADDRESS}/blob/v1/mmproj-F16.gguf", ("ana/tiny-GGUF", "v1"), EYES),
        ("hf.co/ana/tiny-GGUF", ("ana/tiny-GGUF", ""), None),
    ],
)  # fmt: skip
def test_an_address_goes_straight_to_its_file(page, desk, qtbot, text, asked, chosen):
    qtbot.keyClicks(page.search, text)
    qtbot.keyClick(page.search, Qt.Key.Key_Return)
    assert desk.called("hub.search") == []
    assert desk.called("hub.look")[-1][:2] == asked
    desk.answer("hub.look", RepoPage(TINY, (SMALL, EYES)))
    assert page.detail._file is chosen
    assert not page.results.isVisible()


def test_a_quantisation_that_is_not_there_is_said(page, desk, qtbot):
    qtbot.keyClicks(page.search, "ana/tiny-GGUF:Q2_K")
    qtbot.keyClick(page.search, Qt.Key.Key_Return)
    desk.answer("hub.look", RepoPage(TINY, (SMALL,)))
    assert page.detail.facts.text().startswith("No Q2_K here.")


def test_an_address_elsewhere_is_refused_in_words(page, desk, qtbot):
    qtbot.keyClicks(page.search, "https://example.org/ana/tiny")
    qtbot.keyClick(page.search, Qt.Key.Key_Return)
    title, words, button = state(page.panel)
    assert (title, button) == ("Not an address on this hub", "Token and address…")
    assert "“example.org” isn't the current hub" in words
    assert desk.called("hub.search") == desk.called("hub.look") == []


# --- results and files --------------------------------------------------------------------------


def test_filters_and_sort_ask_anew(page, desk, qtbot):
    search(qtbot, page, desk, "tiny", TINY)
    page.filters.sort.setCurrentIndex(page.filters.sort.findData("likes"))
    page.filters.language.setCurrentIndex(page.filters.language.findData("fr"))
    page.filters.age.setCurrentIndex(1)
    page.filters.gguf_only.setChecked(False)
    page.filters.fitting.setChecked(True)
    page.filters.author.setText("ana")
    page.filters.author.editingFinished.emit()
    assert desk.called("hub.search")[-1][0] == SearchWish(
        "tiny", "likes", False, "ana", "", "fr", 30, 12_800_000_000
    )
    assert len(desk.called("hub.search")) == 7
    page.filters.author.editingFinished.emit()
    assert len(desk.called("hub.search")) == 7


def test_more_is_listed_at_the_end_and_nothing_twice(page, desk, qtbot):
    repos = [HubRepo(f"ana/n{n}", "ana") for n in range(40)]
    search(qtbot, page, desk, "n", *repos[:20], has_more=True)
    bar = page.results.verticalScrollBar()
    bar.setValue(bar.maximum())
    bar.setValue(0)
    bar.setValue(bar.maximum())
    assert len(desk.called("hub.more")) == 1
    desk.answer("hub.more", HubSearchPage(tuple(repos[19:]), has_more=True))
    assert [repo.id for repo in page.results.results.repos] == [repo.id for repo in repos]
    bar.setValue(bar.maximum())
    desk.fail("hub.more", "network", "No network.")
    assert page.more.text() == "Can't list more. No network."
    assert page.results.results.rowCount() == 40


def test_a_filter_that_lets_little_pass_looks_further_on_request(page, desk, qtbot):
    search(qtbot, page, desk, "n", has_more=True)
    assert state(page.panel) == (
        "No matches yet", "None of the first 200 match your filters.", "Search further",
    )  # fmt: skip
    assert desk.called("hub.more") == []  # thousands could be asked for
    page.panel.button.click()
    assert state(page.panel)[0] == "Searching…"
    desk.answer("hub.more", HubSearchPage((), has_more=True))
    assert state(page.panel)[1] == "None of the first 400 match your filters."
    page.panel.button.click()
    desk.answer("hub.more", HubSearchPage((TINY,), has_more=True))
    assert page.results.isVisible()
    assert page.more_button.isVisible()  # one row does not scroll
    page.more_button.click()
    assert not page.more_button.isVisible()
    desk.fail("hub.more", "network", "No network.")
    assert page.more.isVisible()
    page.more_button.click()
    desk.answer("hub.more", HubSearchPage((GATED,)))
    assert page.results.results.rowCount() == 2
    assert not page.more_button.isVisible()
    assert not page.more.isVisible()


def test_a_walk_with_the_keys_alone(page, desk, qtbot):
    search(qtbot, page, desk, "gguf", TINY, GATED)
    page.search.setFocus()
    qtbot.keyClick(page.search, Qt.Key.Key_Down)
    assert page.results.hasFocus()
    qtbot.keyClick(page.results, Qt.Key.Key_Down)
    qtbot.waitUntil(lambda: bool(desk.called("hub.look")))
    assert [each[0] for each in desk.called("hub.look")] == [GATED.id]  # one, not two
    qtbot.keyClick(page.results, Qt.Key.Key_Up)
    qtbot.keyClick(page.results, Qt.Key.Key_Up)
    assert page.search.hasFocus()
    qtbot.waitUntil(lambda: len(desk.called("hub.look")) == 2)
    desk.answer("hub.look", RepoPage(TINY, (SMALL, PARTS)))
    table = page.detail.table
    table.setFocus()
    assert page.detail._file is SMALL
    assert [index.row() for index in table.selectionModel().selectedRows()] == [0]
    qtbot.keyClick(table, Qt.Key.Key_Down)
    qtbot.keyClick(table, Qt.Key.Key_Return)
    assert desk.called("downloads.add") == []  # parts of it are missing
    qtbot.keyClick(table, Qt.Key.Key_Up)
    qtbot.keyClick(table, Qt.Key.Key_Return)
    assert desk.called("downloads.add") == [(SMALL,)]


def test_a_file_is_judged_by_its_header(page, desk, qtbot):
    choose(qtbot, page, desk, SMALL, PARTS, EYES)
    weights = page.detail.table.weights
    assert weights.fit_of(SMALL).words == "probably fits"
    assert not page.detail.act_button.isEnabled()
    page.detail.table.choose(SMALL)
    assert desk.called("hub.headers")[-1][0] is SMALL
    assert page.detail.act_button.isEnabled()
    desk.fail("hub.headers", "gated", "It is gated. Ask.")
    assert page.detail.file_words.text() == "It is gated. Ask. By its size: probably fits."
    page.detail._on_fit(SMALL.name, fit("fits"))
    assert weights.fit_of(SMALL).words == "fits"
    assert page.detail.file_words.text() == "Because it fits."
    page.detail._on_fit("another", fit("does not fit"))
    assert weights.fit_of(SMALL).words == "fits"


def test_the_fit_of_a_file_can_be_seen_in_full_once_its_header_is_there(page, desk, qtbot):
    choose(qtbot, page, desk, SMALL, EYES)
    button = page.detail.memory_button
    assert not button.isVisible()
    page.detail.table.choose(SMALL)
    assert not button.isVisible()
    headers = (made_header(),)
    desk.answer("hub.headers", headers)
    with qtbot.waitSignal(page.headers_fit_requested) as asked:
        qtbot.mouseClick(button, Qt.MouseButton.LeftButton)
    assert asked.args == [headers, SMALL.name]
    page.detail.table.choose(EYES)
    assert not button.isVisible()


def test_fits_follow_the_memory_that_is_free(page, desk, bridge, qtbot):
    page.follow(bridge)
    other = replace(SMALL, names=("tiny-Q8_0.gguf",))
    choose(qtbot, page, desk, SMALL, other, EYES)
    page.detail.table.choose(SMALL)
    desk.answer("hub.headers", (made_header(),))
    assert page.detail.file_line.text() == "Tiny · llama · 2 layers · no chat template"
    page.detail._on_fit(SMALL.name, fit("fits"))
    desk.fits.rough = lambda _: fit("probably does not fit")
    bridge.emit_event(MemoryChanged())
    weights = page.detail.table.weights
    assert weights.fit_of(SMALL).words == "fits"
    assert weights.fit_of(other).words == "probably does not fit"
    assert weights.fit_of(EYES) is None  # it is never loaded alone
    asked = desk.called("fits.headers")
    assert [(call[1], call[-1]) for call in asked] == [(SMALL.name, {"projector_bytes": 9})] * 2


# --- projectors ---------------------------------------------------------------------------------

MODEL = replace(SMALL, sizes=(2_000_000_000,))
LARGE = replace(EYES, names=("mmproj-F32.gguf",), sizes=(1_800_000_000,), quantisation="F32")
EYES_F16 = replace(EYES, sizes=(900_000_000,))


def test_a_projector_comes_with_the_model_in_the_chosen_precision(page, desk, qtbot):
    choose(qtbot, page, desk, MODEL, LARGE, EYES_F16)
    page.detail.table.choose(MODEL)
    box, button = page.detail.projector_box, page.detail.act_button
    assert [box.itemText(at) for at in range(box.count())] == [
        "With mmproj-F16.gguf · 900 MB",
        "With mmproj-F32.gguf · 1.8 GB",
        "Without a projector",
    ]
    assert button.text() == "Download 2.9 GB"
    assert button.accessibleName() == "Download: tiny-Q4_K_M.gguf, with its projector"
    desk.answer("hub.headers", (made_header(),))
    box.setFocus()
    qtbot.keyClick(box, Qt.Key.Key_Down)
    assert button.text() == "Download 3.8 GB"
    assert desk.called("fits.headers")[-1][-1] == {"projector_bytes": 1_800_000_000}
    qtbot.keyClick(box, Qt.Key.Key_Down)
    assert button.text() == "Download"
    qtbot.keyClick(box, Qt.Key.Key_Up)
    button.click()
    assert [each for (each,) in desk.called("downloads.add")] == [MODEL, LARGE]
    page.detail.table.choose(EYES_F16)  # alone: nothing comes with it
    assert not box.isVisible()


def test_a_model_that_is_here_gets_its_projector_later(page, desk, qtbot):
    choose(qtbot, page, desk, MODEL, EYES_F16)
    there = progress(MODEL, DownloadState.DONE)
    desk.show_downloads(there)
    page.detail.table.choose(MODEL)
    get = page.detail.projector_button
    assert (page.detail.act_button.text(), get.isVisible()) == ("Load", True)
    get.click()
    assert [each for (each,) in desk.called("downloads.add")] == [EYES_F16]
    desk.show_downloads(there, progress(EYES_F16, DownloadState.RUNNING))
    assert not get.isVisible()
    desk.show_downloads(there, progress(EYES_F16, DownloadState.FAILED))
    get.click()
    assert desk.called("downloads.resume") == [(EYES_F16.name,)]
    assert len(desk.called("downloads.add")) == 1


def test_a_projector_that_is_here_is_not_loaded_alone(page, desk, qtbot):
    """As of a repository with nothing else in it."""
    choose(qtbot, page, desk, EYES_F16)
    page.detail.table.choose(EYES_F16)
    button = page.detail.act_button
    assert button.text() == "Download"
    assert "never loaded alone" in page.detail.file_words.text()
    desk.show_downloads(progress(EYES_F16, DownloadState.DONE))
    assert button.text() == "Show in downloads"
    with qtbot.waitSignal(page.detail.page_requested):
        button.click()
    assert desk.called("loader.load") == []


def test_the_projector_of_a_model_is_looked_for_where_it_came_from(page, desk, qtbot):
    page.find_projector(TINY.id, "tiny-Q4_K_M")
    desk.answer("hub.look", RepoPage(TINY, (MODEL, LARGE, EYES_F16)))
    assert page.detail._file == EYES_F16
    assert page.search.text() == TINY.id
    page.find_projector(TINY.id, "tiny-Q4_K_M")
    desk.answer("hub.look", RepoPage(TINY, (MODEL,)))
    assert page.detail.facts.text().startswith("This repository has no projector.")
    page.find_projector("", "tiny")
    assert desk.called("hub.search")[-1][0].text == "tiny"


def test_tab_goes_from_the_top_to_the_foot(page, desk, qtbot):
    choose(qtbot, page, desk, SMALL)
    page.search.setFocus()
    passed = []
    for _ in range(20):
        passed.append(page.focusWidget().objectName())
        qtbot.keyClick(page.focusWidget(), Qt.Key.Key_Tab)
        if page.focusWidget() is page.search:
            break
    assert passed == [
        "library_search", "hub_filter_button", "search_again_button", "hub_sort", "hub_language",
        "hub_licence", "hub_age", "hub_author", "hub_gguf_only", "hub_fitting", "hub_results",
        "open_page_button", "hub_detail_tabs", "hub_files", "download_button",
        "hub_settings_button",
    ]  # fmt: skip


def test_what_cannot_be_loaded_alone_is_said_and_not_read(page, desk, qtbot):
    choose(qtbot, page, desk, SMALL, PARTS, EYES)
    page.detail.table.choose(PARTS)
    assert "Parts of this model are missing" in page.detail.file_words.text()
    assert not page.detail.act_button.isEnabled()
    page.detail.table.choose(EYES)
    assert "projector" in page.detail.file_words.text()
    assert desk.called("hub.headers") == []


def test_the_button_follows_the_download(page, desk, qtbot):
    choose(qtbot, page, desk, SMALL)
    page.detail.table.choose(SMALL)
    button = page.detail.act_button
    qtbot.mouseClick(button, Qt.MouseButton.LeftButton)
    assert desk.called("downloads.add") == [(SMALL,)]
    there = DownloadProgress(
        "d1",
        TINY.id,
        "_tiny-Q4_K_M.gguf",
        "/w",
        "/w/x.gguf",
        1,
        98_000_000,
        44_100_000,
        DownloadState.RUNNING,
        NOW,
        names=SMALL.names,
        revision=SMALL.revision,
        sha256s=SMALL.sha256s,
    )
    page.detail._on_downloads((there,))
    assert button.text() == "45% downloaded…"
    page.detail._on_downloads((replace(there, done_bytes=97_900_000),))
    assert button.text() == "99% downloaded…"
    with qtbot.waitSignal(page.page_requested) as asked:
        qtbot.mouseClick(button, Qt.MouseButton.LeftButton)
    assert asked.args == ["downloads"]
    page.detail._on_downloads((replace(there, state=DownloadState.DONE),))
    assert button.text() == "Load"
    qtbot.mouseClick(button, Qt.MouseButton.LeftButton)
    assert desk.called("loader.load") == [("/w/x.gguf",)]
    elsewhere = replace(there, state=DownloadState.DONE, names=(f"other/{SMALL.name}",))
    page.detail._on_downloads((elsewhere,))
    assert button.text() == "Download"


def test_a_gated_repository_says_so_before_the_download(page, desk, qtbot):
    choose(qtbot, page, desk, SMALL, repo=GATED)
    assert page.detail.gate_note.isVisible()
    qtbot.mouseClick(page.detail.token_button, Qt.MouseButton.LeftButton)
    assert page._dialog.isVisible()
    page._dialog.close()
    desk.turn(token_where="keyring")
    page._dialog.token_changed.emit()
    desk.answer("hub.look", RepoPage(GATED, (SMALL,)))
    assert not page.detail.gate_note.isVisible()


def test_without_files_or_card_it_is_said(page, desk, qtbot):
    choose(qtbot, page, desk)
    assert page.detail.no_files.isVisible()
    assert not page.detail.table.isVisible()
    desk.answer("hub.card", "")
    assert "no model card" in page.detail.card.text
    desk.fail("hub.card", "server", "Trouble there. Try again.")
    assert "Trouble there." in page.detail.card.text


def test_where_there_is_no_room_both_stand_in_turn(page, desk, qtbot):
    page.resize(400, 560)
    search(qtbot, page, desk, "gguf", TINY, GATED)
    assert page.results.isVisible()
    assert not page.detail.isVisible()
    assert not page.filters.isVisible()
    page.results.choose(0)
    assert desk.called("hub.look") == []
    row = page.results.visualRect(page.results.results.index(0)).center()
    qtbot.mouseClick(page.results.viewport(), Qt.MouseButton.LeftButton, pos=row)
    desk.answer("hub.look", RepoPage(TINY, (SMALL,)))
    assert page.detail.isVisible()
    assert not page.results.isVisible()
    qtbot.mouseClick(page.detail.back_button, Qt.MouseButton.LeftButton)
    assert page.results.isVisible()
    page.resize(900, 560)
    assert page.results.isVisible()
    assert page.detail.isVisible()
    assert page.filters.isVisible()


def test_texts_of_a_hub_are_shown_as_text(page, desk, qtbot):
    evil = HubRepo("ana/x", "<b>ana</b>\u202e\n", licence="<img src=x>", architecture="a\nb")
    file = HubFile("ana/x", COMMIT, ("a\n\u202eb.gguf",), (1,), ("",))
    choose(qtbot, page, desk, file, repo=evil)
    for text in (page.detail.facts.text(), page.detail.table.weights.cell(file, FILE)):
        assert "\n" not in text
        assert "\u202e" not in text
    assert page.detail.facts.textFormat() is Qt.TextFormat.PlainText


# --- names and looks ----------------------------------------------------------------------------


def test_everything_has_a_name(page, desk, qtbot):
    choose(qtbot, page, desk, SMALL)
    page.open_dialog()
    for root in (page, page._dialog):
        for kind in (QAbstractButton, QLineEdit, QComboBox):
            for widget in root.findChildren(kind):
                if isinstance(widget.parent(), QLineEdit | QComboBox) or not widget.isVisibleTo(
                    root
                ):
                    continue
                assert widget.accessibleName() or getattr(widget, "text", str)(), (
                    widget.objectName()
                )
    page._dialog.close()
    assert page.findChild(QWidget, "library_search").accessibleName() == "Search the hub"
    assert page.findChild(QWidget, "hub_results").accessibleName() == "Repositories found"
    index = page.results.results.index(0)
    spoken = index.data(Qt.ItemDataRole.AccessibleTextRole)
    assert spoken.startswith("ana/tiny-GGUF. 135M · 1.2k downloads · 56 likes. updated ")
    table = page.detail.table.weights
    assert table.index(0, FIT).data(Qt.ItemDataRole.AccessibleTextRole) == "Memory: probably fits"
    assert [table.headerData(n, Qt.Orientation.Horizontal) for n in range(5)] == list(COLUMNS)


@pytest.mark.parametrize(("mode", "percent"), [("light", 100), ("dark", 200)])
def test_it_is_painted_in_each_look(page, desk, theme, qtbot, mode, percent):
    choose(qtbot, page, desk, SMALL, PARTS, EYES)
    desk.answer("hub.card", "# Tiny\n\nSee [this](https://example.org).\n\n```sh\nls\n```")
    theme.set_mode(mode)
    theme.set_zoom(percent)
    page.detail.tabs.setCurrentIndex(1)
    assert not page.grab().isNull()
    page.detail.tabs.setCurrentIndex(0)
    assert not page.grab().isNull()
    height = page.detail.table.verticalHeader().defaultSectionSize()
    assert height == page.detail.table._delegate.row_height()


def test_nobody_is_told_any_more_when_it_is_gone(qtbot, desk, theme):
    page = HubPage(desk, theme)
    page.open_dialog()
    page._dialog.close()
    page.deleteLater()
    qtbot.waitUntil(lambda: not desk.followers and not desk.download_followers)


# --- the card -----------------------------------------------------------------------------------


@pytest.fixture
def card(qtbot, theme):
    made = CardView(theme)
    qtbot.addWidget(made)
    made.resize(400, 200)
    made.show()
    qtbot.waitExposed(made)
    return made


def test_a_card_scrolls_with_the_keys_and_is_copied(card, qtbot, qapp):
    text = "\n\n".join(f"Paragraph {n} of this card." for n in range(200))
    card.show_text(text)
    bar = card.verticalScrollBar()
    assert bar.maximum() > 1000
    qtbot.keyClick(card, Qt.Key.Key_PageDown)
    assert bar.value() == bar.pageStep()
    qtbot.keyClick(card, Qt.Key.Key_End)
    assert bar.value() == bar.maximum()
    qtbot.keyClick(card, Qt.Key.Key_Home)
    assert bar.value() == 0
    qtbot.keyClick(card, Qt.Key.Key_C, Qt.KeyboardModifier.ControlModifier)
    assert qapp.clipboard().text() == text
    assert card.accessibleDescription() == text
    bar.setValue(500)
    card.show_text("Another one")
    assert bar.value() == 0


def test_a_link_of_a_card_is_asked_about(card, qtbot):
    card.show_text("[here](https://example.org/x)")
    qtbot.waitUntil(lambda: card._link_at(QPoint(20, 10).toPointF()) != "")
    with qtbot.waitSignal(card.link_pressed) as pressed:
        qtbot.mouseClick(card.viewport(), Qt.MouseButton.LeftButton, pos=QPoint(20, 10))
    assert pressed.args == ["https://example.org/x"]
    dialog = card.findChild(QWidget, "link_dialog")
    assert dialog is not None
    dialog.close()


def test_a_huge_card_is_read_in_slices(card, qtbot):
    card.show_text("\n".join(f"* item {n} with `code` and **bold**" for n in range(20_000)))
    qtbot.waitUntil(lambda: card._body.is_whole, timeout=20_000)
    assert not card._reading.isActive()
    card.verticalScrollBar().setValue(card.verticalScrollBar().maximum())
    assert not card.grab().isNull()


def test_the_library_looks_for_the_projector_of_a_model(qtbot, desk, bridge, theme):
    view = LibraryView(desk, bridge, theme)
    qtbot.addWidget(view)
    desk.loader.path = "/models/tiny-VL-Q4_0.gguf"
    desk.loader.name_of = lambda path: "tiny-VL-Q4_0"
    desk.projectors.repository = lambda path: TINY.id if path == desk.loader.path else ""
    view.find_projector()
    assert desk.called("hub.look")[-1][:2] == (TINY.id, "")
    assert view.page().objectName() == "hub_page"
    view.find_projector("/elsewhere/other.gguf")
    assert desk.called("hub.search")[-1][0].text == "tiny-VL-Q4_0"
    view.defaults().get_requested.emit("/elsewhere/other.gguf")
    assert len(desk.called("hub.search")) == 2
