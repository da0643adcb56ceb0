"""The vocabulary: all of it, searched without a wait, with scores from the file; IDs to text."""

from __future__ import annotations

import time
from array import array
from collections.abc import Callable, Iterator
from dataclasses import replace as with_changes
from typing import Any

import pytest
from made_words import BYTE, CONTROL, made_pieces
from PySide6.QtCore import Qt
from pytestqt.modeltest import ModelTester
from pytestqt.qtbot import QtBot
from recording_desk import FakeBridge, FakeDesk, loaded
from squeezed import squeezed_headings

from app.chat.events import EngineStateChanged, VocabularyRead
from app.chat.inspection.questions import NO_WEIGHTS
from app.chat.settings.settings import Settings
from app.chat.surroundings import Still
from app.engine.protocol.pieces import Pieces
from app.gguf.vocabulary import FileVocabulary
from ui.look.fonts import MONO_FAMILY
from ui.look.theme import Theme
from ui.section.panel import Tools
from ui.section.tokens.vocabulary_browser import NO_IDS, READING, VocabularyBrowser
from ui.section.tokens.vocabulary_model import ID, VocabularyModel

TEXTS = [b"<s>", b"\xff", b"h", b"e", b"he", b" the", "ü".encode(), b"The"]
ATTRIBUTES = [CONTROL, BYTE]
FILE = FileVocabulary(
    model="gpt2",
    pre="smollm",
    tokens=("<s>", "ÿ", "h", "e", "he", "Ġthe", "Ã¼", "The"),
    types=bytes([3, 6, 1, 1, 1, 1, 1, 1]),
    scores=array("f"),
    merges=("h e", "Ġt he"),
    add_space_prefix=False,
)


class Vocabularies:
    """The desk's side: which weights are loaded, and what was asked about their file."""

    def __init__(self, desk: FakeDesk, bridge: FakeBridge) -> None:
        self._desk, self._bridge = desk, bridge
        self.pieces: dict[str, Pieces] = {}
        self.asked: list[tuple[Callable[[Any], None], Callable[[str], None]]] = []
        desk.words.of = self.pieces.get
        desk.vocabulary.read = self._read

    def _read(
        self, then: Callable[[Any], None], failed: Callable[[str], None], still: Still
    ) -> None:
        self.asked.append(
            (
                lambda file: then(file) if still() else None,
                lambda sentence: failed(sentence) if still() else None,
            )
        )

    def load(self, name: str, pieces: Pieces | None = None) -> None:
        state = EngineStateChanged("ready", name, loaded(fast_hash=name))
        self._desk.loader.state = state
        self._bridge.emit_event(state)
        if pieces is not None:
            self.pieces[name] = pieces
            self._bridge.emit_event(VocabularyRead(name))


@pytest.fixture
def vocabularies(desk: FakeDesk, bridge: FakeBridge, tools: Tools) -> Vocabularies:
    return Vocabularies(desk, bridge)


@pytest.fixture
def room(tools: Tools, vocabularies: Vocabularies, qtbot: QtBot) -> Iterator[VocabularyBrowser]:
    built = VocabularyBrowser(tools)
    qtbot.addWidget(built)
    built.resize(396, 700)
    built.show()
    qtbot.waitExposed(built)
    built.set_active(True)
    yield built
    built.set_active(False)


def rows(room: VocabularyBrowser) -> list[list[str]]:
    model = room.model
    return [
        [model.data(model.index(row, column)) for column in range(model.columnCount())]
        for row in range(model.rowCount())
    ]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_largest_ids_and_ranks_are_whole(
    room: VocabularyBrowser, vocabularies: Vocabularies, tools: Tools, scheme: str
) -> None:
    """Those of 262,144 tokens: an ID that ends in dots is none."""
    tools.theme.set_mode(scheme)
    vocabularies.load("w1", made_pieces([b"x"] * 262_144))
    last = room.model.index(room.model.rowCount() - 1, 0)
    assert room.model.data(last) == "262143"
    assert room.table.sizeHintForIndex(last).width() <= room.table.columnWidth(0)


def test_without_weights_and_before_they_are_read_it_is_said(
    room: VocabularyBrowser, vocabularies: Vocabularies, desk: FakeDesk
) -> None:
    assert (room.sentence.text(), room.ids_sentence.text()) == (NO_WEIGHTS, NO_WEIGHTS)
    vocabularies.load("w1")
    assert room.sentence.text() == READING
    assert desk.called("words.read")
    assert rows(room) == []


def test_all_tokens_with_bytes_and_type_then_ranks_from_the_file(
    room: VocabularyBrowser, vocabularies: Vocabularies
) -> None:
    vocabularies.load("w1", made_pieces(TEXTS, ATTRIBUTES))
    assert rows(room)[:2] == [
        ["0", "<s>", "3C 73 3E", "control", ""],
        ["1", "⟨FF⟩", "FF", "byte", ""],
    ]
    assert room.card.figure.text() == "8 tokens"
    ((then, _failed),) = vocabularies.asked
    then(FILE)
    assert [row[-1] for row in rows(room)] == ["", "", "", "", "0", "1", "", ""]
    assert room.model.headerData(4, Qt.Orientation.Horizontal) == "Rank"
    assert room.sentence.text().startswith("byte-level BPE, 2 merges.")


def test_what_is_said_of_the_file_of_other_weights_comes_too_late(
    room: VocabularyBrowser, vocabularies: Vocabularies
) -> None:
    vocabularies.load("w1", made_pieces(TEXTS, ATTRIBUTES))
    vocabularies.load("w2", made_pieces(TEXTS, ATTRIBUTES))
    (_, failed_of_first), (then, failed) = vocabularies.asked
    then(FILE)
    said = room.sentence.text()
    failed_of_first("The first file is gone.")
    assert room.sentence.text() == said
    failed("This one is gone, too.")
    assert room.sentence.text() == "This one is gone, too."


def test_scores_where_there_are_no_merges(
    room: VocabularyBrowser, vocabularies: Vocabularies
) -> None:
    vocabularies.load("w1", made_pieces(TEXTS, ATTRIBUTES))
    scores = array("f", [0, 0, -1, -2.5, -1000, 0, 0, 0])
    vocabularies.asked[0][0](with_changes(FILE, model="llama", merges=(), scores=scores))
    assert [row[-1] for row in rows(room)][2:5] == ["−1", "−2.5", "−1000"]
    assert room.model.headerData(4, Qt.Orientation.Horizontal) == "Score"
    assert room.sentence.text().startswith("SentencePiece. ")


def test_why_the_file_says_nothing_is_said(
    room: VocabularyBrowser, vocabularies: Vocabularies
) -> None:
    vocabularies.load("w1", made_pieces(TEXTS))
    vocabularies.asked[0][1]("The file is gone.")
    assert room.sentence.text() == "The file is gone."
    assert len(rows(room)) == 8


def test_another_vocabulary_takes_its_place_and_late_files_are_dropped(
    room: VocabularyBrowser, vocabularies: Vocabularies
) -> None:
    vocabularies.load("w1", made_pieces(TEXTS, ATTRIBUTES))
    vocabularies.load("w2", made_pieces([b"x"]))
    assert [row[1] for row in rows(room)] == ["x"]
    vocabularies.asked[0][0](FILE)
    assert rows(room) == [["0", "x", "78", "normal", ""]]


@pytest.mark.parametrize(
    ("query", "found"), [("he", [4, 5, 7]), ("3", [3]), ("0xff", [1]), ("·the", [5]), ("zz", [])]
)
def test_it_is_searched_after_the_last_key(
    query: str,
    found: list[int],
    room: VocabularyBrowser,
    vocabularies: Vocabularies,
    qtbot: QtBot,
) -> None:
    vocabularies.load("w1", made_pieces(TEXTS, ATTRIBUTES))
    room.search.setText(query)
    assert len(rows(room)) == 8
    figure = f"{len(found)} of 8 tokens"
    qtbot.waitUntil(lambda: room.card.figure.text() == figure)
    assert [int(row[0]) for row in rows(room)] == found
    room.search.clear()
    qtbot.waitUntil(lambda: room.card.figure.text() == "8 tokens")
    assert len(rows(room)) == 8


N_TOKENS = 262_144
SLICE_S = 0.03


@pytest.fixture(scope="module")
def many() -> Pieces:
    return made_pieces([b"e%d" % at for at in range(N_TOKENS)])


def test_262144_tokens_are_searched_in_slices(
    room: VocabularyBrowser, vocabularies: Vocabularies, many: Pieces, qtbot: QtBot
) -> None:
    """No slice holds the window's thread for longer than stated, in processor seconds, though
    every token is found; a second search replaces one that still goes on."""
    vocabularies.load("w1", many)
    took: list[float] = []
    search_on = room._search_on

    def timed() -> None:
        begun = time.thread_time()
        search_on()
        took.append(time.thread_time() - begun)

    room._slices.timeout.disconnect()
    room._slices.timeout.connect(timed)
    room.search.setText("e")
    room._search()
    assert 0 < room.model.rowCount() < N_TOKENS
    qtbot.waitUntil(lambda: not room._slices.isActive(), timeout=20_000)
    assert room.model.rowCount() == N_TOKENS
    assert len(took) > 5
    assert sorted(took)[-2] < SLICE_S
    room._search()
    room.search.setText("e77777")
    room._search()
    qtbot.waitUntil(lambda: not room._slices.isActive())
    assert [row[1] for row in rows(room)] == ["e77777"]


SHOWN_S = 0.1


def test_262144_tokens_are_shown_and_scrolled_at_once(
    room: VocabularyBrowser, vocabularies: Vocabularies, many: Pieces
) -> None:
    begun = time.thread_time()
    vocabularies.load("w1", many)
    room.table.grab()
    room.table.scrollToBottom()
    room.table.grab()
    assert time.thread_time() - begun < SHOWN_S


def test_a_token_is_gone_to_also_before_the_vocabulary_is_read(
    room: VocabularyBrowser, vocabularies: Vocabularies
) -> None:
    room.go_to(900)
    vocabularies.load("w1", made_pieces([b"e%d" % at for at in range(1000)]))
    assert room.table.currentIndex().row() == 900
    assert room.table.rowAt(room.table.viewport().height() // 2) in range(898, 903)
    room.search.setText("e77")
    room._search()
    room.go_to(3)
    assert (room.search.text(), room.table.currentIndex().row()) == ("", 3)
    assert room.model.rowCount() == 1000


@pytest.mark.parametrize("text", ["2 3 5", "[2, 3, 5]", "2,3,5"])
def test_ids_become_text(text: str, room: VocabularyBrowser, vocabularies: Vocabularies) -> None:
    vocabularies.load("w1", made_pieces(TEXTS, ATTRIBUTES))
    assert room.ids_sentence.text() == NO_IDS
    room.ids.setText(text)
    assert room.ids_text.toPlainText() == "he the"
    assert room.ids_card.figure.text() == "3 tokens · 6 bytes"
    assert room.ids_sentence.text() == ""


def test_ids_that_are_none_and_bytes_that_are_no_text_are_said(
    room: VocabularyBrowser, vocabularies: Vocabularies
) -> None:
    vocabularies.load("w1", made_pieces(TEXTS, ATTRIBUTES))
    room.ids.setText("1 2 8")
    assert room.ids_sentence.text() == "8 isn't a token here: IDs go from 0 to 7."
    assert room.ids_text.toPlainText() == ""
    room.ids.setText("one")
    assert room.ids_sentence.text().startswith("“one” isn't an ID.")
    room.ids.setText("1 2")
    assert room.ids_text.toPlainText() == "\ufffdh"
    assert room.ids_sentence.text().startswith("� marks bytes")


def test_qt_finds_no_fault_with_the_model(qtmodeltester: ModelTester) -> None:
    model = VocabularyModel()
    model.show(made_pieces(TEXTS, ATTRIBUTES))
    qtmodeltester.check(model)
    model.show_found()
    model.add_found([3, 5])
    qtmodeltester.check(model)
    assert [model.id_of(row) for row in range(2)] == [3, 5]
    assert [model.row_of(token_id) for token_id in (5, 1)] == [1, None]


def test_everything_has_a_name(room: VocabularyBrowser) -> None:
    widgets = (room.search, room.table, room.ids, room.ids_text)
    assert [widget.objectName() for widget in widgets] == [
        *("vocabulary_search", "vocabulary_table", "ids_field", "ids_text"),
    ]
    assert all(widget.accessibleName() for widget in widgets)


def test_all_columns_are_in_view(room: VocabularyBrowser) -> None:
    """In a section of the usual width, with the bar that many rows have."""
    room.resize(376, 700)
    header = room.table.horizontalHeader()
    last = header.sectionPosition(header.count() - 1)
    assert last + header.fontMetrics().horizontalAdvance("49,152") + 8 <= (
        room.table.viewport().width() - 12
    )


@pytest.mark.parametrize(("family", "size_px"), [(MONO_FAMILY, 14), ("", 24)])
def test_headings_and_ids_are_whole_in_any_font(
    room: VocabularyBrowser, vocabularies: Vocabularies, theme: Theme, family: str, size_px: int
) -> None:
    theme.set_fonts(Settings(font_text=family, text_px=size_px))
    vocabularies.load("a", made_pieces([b"x"] * 262_144))
    assert squeezed_headings(room.table) == []
    last = room.model.index(262_143, ID)
    assert room.table.sizeHintForIndex(last).width() <= room.table.columnWidth(ID)
