"""The table of tokens: its order and filter against plain sorting, as it grows, and as CSV."""

from __future__ import annotations

import csv
import io
import math
import struct
import time
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import pytest
from examples import examples
from hypothesis import given, settings, strategies as st
from made_traces import trace_of
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QTableView
from pytestqt.modeltest import ModelTester
from pytestqt.qtbot import QtBot

from app.engine.protocol.frames import Array
from app.engine.protocol.messages import TokenTrace, VocabularyTable
from app.engine.protocol.pieces import Pieces
from app.insight.trace.table import TraceTable
from ui.section.tokens.model import (
    BYTES,
    COLUMNS,
    ENTROPY,
    ID,
    NUMBER,
    PROBABILITY,
    RANK,
    TIME,
    TOKEN,
    TYPE,
    TokenModel,
)

DOWN = Qt.SortOrder.DescendingOrder
UP = Qt.SortOrder.AscendingOrder
ATTRIBUTES = {100: 4, 101: 8, 102: 32, 103: 16, 104: 1, 105: 2}
KINDS = {100: "normal", 101: "control", 102: "byte", 103: "user-defined", 104: "unknown"}


def words() -> Pieces:
    offsets = list(range(107))
    return Pieces(
        VocabularyTable(
            Array("i8", [107], struct.pack("<107q", *offsets)),
            b"x" * 106,
            Array("i4", [106], struct.pack("<106i", *(ATTRIBUTES.get(i, 4) for i in range(106)))),
        )
    )


def token(**fields: Any) -> TokenTrace:
    return msgspec.structs.replace(trace_of([fields.pop("piece", b"x")])[0], **fields)


@st.composite
def tokens(draw: Callable[..., Any]) -> list[TokenTrace]:
    few = st.sampled_from
    return [
        token(
            index=at,
            piece=draw(few([b"a", b" A", b"b\n", b"\xff", b"\xc3", "ü".encode(), b""])),
            token_id=draw(few(range(98, 108))),
            logprob=draw(few([-0.5, -0.25, -3.0, -math.inf, 0.0])),
            rank=draw(few([1, 2, 40_000])),
            entropy=draw(few([0.0, 1.5, 7.25])),
            ms=draw(few([1.0, 20.0, 20.5])),
        )
        for at in range(draw(st.integers(0, 20)))
    ]


def key_of(column: int, each: TokenTrace) -> Any:
    return {
        NUMBER: each.index,
        TOKEN: each.piece,
        ID: each.token_id,
        PROBABILITY: each.logprob,
        RANK: each.rank,
        ENTROPY: each.entropy,
        TIME: each.ms,
        TYPE: words().kind(each.token_id) or "",
        BYTES: each.piece,
    }[column]


def expected(
    found: Sequence[TokenTrace], column: int, order: Qt.SortOrder, wanted: str
) -> list[int]:
    """Sorted by hand: one token after another goes behind the last that must stand before it."""
    rows: list[TokenTrace] = []
    for each in found:
        text = each.piece.decode("utf-8", "replace").lower()
        shown = text.replace(" ", "·").replace("\n", "↵")
        if wanted and str(each.token_id) != wanted and wanted.lower() not in text + "\0" + shown:
            continue
        at = len(rows)
        while at and (
            key_of(column, rows[at - 1]) < key_of(column, each)
            if order is DOWN
            else key_of(column, rows[at - 1]) > key_of(column, each)
        ):
            at -= 1
        rows.insert(at, each)
    return [each.index for each in rows]


def places(model: TokenModel) -> list[int]:
    return [model.place_of(row) for row in range(model.rowCount())]


@given(
    found=tokens(),
    column=st.integers(0, len(COLUMNS) - 1),
    order=st.sampled_from([UP, DOWN]),
    wanted=st.sampled_from(["", "a", "A", "ü", "·", "↵", "101", "nothing"]),
    is_table=st.booleans(),
    cut=st.integers(0, 20),
)
@settings(max_examples=examples(300))
def test_order_and_filter_are_those_of_sorting_by_hand_and_growing_changes_nothing(
    found: list[TokenTrace],
    column: int,
    order: Qt.SortOrder,
    wanted: str,
    is_table: bool,
    cut: int,
) -> None:
    model = TokenModel()
    model.set_words(words())
    whole: Any = TraceTable(found) if is_table else found
    model.show(whole)
    model.sort(column, order)
    model.set_filter(wanted)
    assert places(model) == expected(found, column, order, wanted)
    growing = TraceTable(found[:cut])
    model.show(growing)
    for each in found[cut:]:
        growing.append(each)
        model.grow()
    assert places(model) == expected(found, column, order, wanted)
    growing.truncate(cut)
    model.grow()
    assert places(model) == expected(found[:cut], column, order, wanted)
    growing.truncate(cut // 2)  # and as many others come before anybody looks
    now = found[: cut // 2]
    for each in found[: cut - cut // 2]:
        now.append(msgspec.structs.replace(each, index=len(now)))
        growing.append(now[-1])
    model.grow()
    assert places(model) == expected(now, column, order, wanted)


def test_qt_finds_no_fault_with_it(qtmodeltester: ModelTester) -> None:
    model = TokenModel()
    table = TraceTable(trace_of([b"a", b"b", b"c"]))
    model.show(table)
    model.sort(ENTROPY, DOWN)
    qtmodeltester.check(model)
    table.append(trace_of([b"x", b"d"])[1])
    model.grow()
    model.set_filter("d")
    qtmodeltester.check(model)


def test_the_row_of_a_place_in_any_order() -> None:
    model = TokenModel()
    model.show(trace_of([b"a", b"b", b"ab"]))
    assert [model.row_of(at) for at in (0, 2, 3, None)] == [0, 2, None, None]
    model.sort(TOKEN, DOWN)
    assert [model.row_of(at) for at in range(3)] == [2, 0, 1]
    model.set_filter("b")
    assert [model.row_of(at) for at in range(3)] == [None, 0, 1]


def shown(model: TokenModel, row: int, role: Qt.ItemDataRole = Qt.ItemDataRole.DisplayRole) -> Any:
    return [model.data(model.index(row, column), role) for column in range(len(COLUMNS))]


def test_a_row_says_what_was_recorded_in_its_units(qtbot: QtBot) -> None:
    model = TokenModel()
    one = token(
        piece=b" \xc3\xbc",
        logprob=math.log(0.773),
        rank=1234,
        entropy=2.345,
        ms=19.96,
        token_id=101,
    )
    model.show([one])
    assert shown(model, 0) == ["1", "·ü", "101", "77.3", "1,234", "2.35", "20.0", "", "20 C3 BC"]
    model.show([token(ms=1234.5)])
    assert shown(model, 0)[TIME] == "1,234"
    assert read(model)[0]["Time ms"] == "1234.5"
    model.show([one])
    with qtbot.waitSignal(model.dataChanged):
        model.set_words(words())
    assert shown(model, 0)[TYPE] == "control"
    headings = [
        model.headerData(column, Qt.Orientation.Horizontal) for column in range(len(COLUMNS))
    ]
    assert headings == [
        *("# ↑", "Token", "ID", "Prob.\n%", "Rank", "Entropy\nbit", "Time\nms", "Type", "Bytes"),
    ]


@pytest.mark.parametrize("entropy", [0.0, -0.0, -1e-7])
def test_no_entropy_is_below_zero(entropy: float) -> None:
    """Where one candidate has all, the sum's last digits may fall on the other side."""
    model = TokenModel()
    model.show([token(entropy=entropy)])
    assert shown(model, 0)[ENTROPY] == "0.00"


def test_the_column_that_is_sorted_by_is_marked() -> None:
    model = TokenModel()
    model.sort(ENTROPY, DOWN)
    assert model.headerData(ENTROPY, Qt.Orientation.Horizontal) == "Entropy\nbit ↓"
    model.sort(RANK)
    assert model.headerData(RANK, Qt.Orientation.Horizontal) == "Rank\n↑"
    assert model.headerData(NUMBER, Qt.Orientation.Horizontal) == "#"


def test_types_are_known_with_the_words_and_sorted_by(qtbot: QtBot) -> None:
    model = TokenModel()
    model.show([token(token_id=i, index=i - 100) for i in range(100, 105)])
    model.sort(TYPE)
    assert places(model) == [0, 1, 2, 3, 4]
    model.set_words(words())
    kinds = [shown(model, row)[TYPE] for row in range(5)]
    assert kinds == sorted(KINDS.values())
    model.set_words(None)
    assert [shown(model, row)[TYPE] for row in range(5)] == [""] * 5


def test_tokens_that_the_sampler_did_not_draw_are_marked() -> None:
    model = TokenModel()
    model.show([token(), token(chosen=True), token(drafted=True)])
    roles = Qt.ItemDataRole.AccessibleTextRole
    assert [shown(model, row, roles)[TOKEN] for row in range(3)] == [
        *(None, "x, chosen by you", "x, drafted"),
    ]
    origins = [row["Origin"] for row in read(model)]
    assert origins == ["drawn", "chosen by you", "drafted"]


def read(model: TokenModel) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(model.as_csv())))


def test_csv_is_read_back_as_the_table_stands() -> None:
    pieces = [b'"quoted", with commas', b"=\n", b"a\r\n;", "ü".encode(), b"\xff"]
    found = [
        token(piece=piece, index=at, token_id=100 + at, rank=10_000 * at + 1, ms=0.1 * at)
        for at, piece in enumerate(pieces)
    ]
    model = TokenModel()
    model.set_words(words())
    model.show(found)
    model.sort(RANK, DOWN)
    rows = read(model)
    assert [int(row["#"]) for row in rows] == [5, 4, 3, 2, 1]
    for row, each in zip(rows, reversed(found), strict=True):
        assert bytes.fromhex(row["Bytes"]) == each.piece
        assert int(row["ID"]) == each.token_id
        assert int(row["Rank"]) == each.rank
        assert float(row["Prob. %"]) == pytest.approx(100 * math.exp(each.logprob), rel=0.01)
        assert float(row["Entropy bit"]) == pytest.approx(each.entropy, abs=0.005)
        assert float(row["Time ms"]) == pytest.approx(each.ms, abs=0.05)
        assert row["Type"] == KINDS[each.token_id]
    assert rows[3]["Token"] == "'=↵", "no spreadsheet takes it for a formula"
    model.set_filter("ü")
    assert [row["Token"] for row in read(model)] == ["ü"]


N_TOKENS = 32_000
FIRST_S = 0.1
SORTED_S = 0.1
GROWN_S = 0.005


def test_32000_tokens_are_shown_sorted_and_followed_within_the_stated_times(qtbot: QtBot) -> None:
    """Processor seconds: what the GUI's thread itself takes, on a busy machine too."""
    few = trace_of([b"piece%d" % (at % 999) for at in range(1000)])
    table = TraceTable(few[at % 1000] for at in range(N_TOKENS))
    model = TokenModel()
    model.set_words(words())
    view = QTableView()
    qtbot.addWidget(view)
    view.setModel(model)
    view.resize(400, 500)
    view.show()
    qtbot.waitExposed(view)
    for stored in (table, table[:]):
        assert took(lambda stored=stored: model.show(stored)) < FIRST_S
        view.grab()
        for column in (PROBABILITY, ENTROPY, RANK, TIME, ID, TOKEN, TYPE):
            assert took(lambda column=column: model.sort(column, DOWN)) < SORTED_S
        model.sort(NUMBER, UP)
        assert took(lambda: model.set_filter("piece99")) < SORTED_S
        assert model.rowCount() == 10 * 32
        model.set_filter("")
    model.show(table)
    for column in (NUMBER, PROBABILITY):
        model.sort(column, DOWN if column else UP)
        for each in few[:10]:
            table.append(each)
        assert took(model.grow) < GROWN_S
        assert model.rowCount() == len(table)


def took(act: Callable[[], Any]) -> float:
    begun = time.thread_time()
    act()
    return time.thread_time() - begun


def test_each_column_has_a_heading_a_unit_and_a_hint() -> None:
    model = TokenModel()
    for column, name in enumerate(each.title for each in COLUMNS):
        assert model.headerData(column, Qt.Orientation.Horizontal).startswith(name)
        hint = model.headerData(column, Qt.Orientation.Horizontal, Qt.ItemDataRole.ToolTipRole)
        assert len(hint) > len(name)
