"""Cells laid out by runs, cut where message or turn change; squares and what they stand for."""

from __future__ import annotations

import random
import time

import msgspec
import pytest
from each import each
from made_cache import slot, told

from app.engine.protocol.cache_messages import CellPart, LastTurn
from app.engine.protocol.frames import Array
from app.engine.protocol.media_messages import MediaSpan
from app.insight.cache.cells import CellMap, CellStretch, Grid, grid_for, squares


def test_a_shared_beginning_stands_once() -> None:
    """As in the module's example: a has 7 tokens; b has the first 3 of them and 2 of its own."""
    cells = CellMap(told(slot(0, [(1, 0, 7)]), slot(1, [(1, 0, 3), (2, 3, 5)], conversation="b")))
    assert cells.n_used == 9
    assert [(s.first, s.n, s.position, s.holders) for s in cells.stretches] == [
        (0, 3, 0, (0, 1)),
        (3, 4, 3, (0,)),
        (7, 2, 3, (1,)),
    ]
    assert [cells.token_id(cell) for cell in (0, 6, 7, 8, 9)] == [1000, 1006, 2003, 2004, None]
    assert cells.at(9) is None
    assert cells.at(-1) is None


def test_of_those_who_share_the_open_chat_is_named() -> None:
    parts_a, parts_b = [CellPart(0, 3, "user", "m1")], [CellPart(0, 3, "user", "m9")]
    slots = (
        slot(0, [(1, 0, 3)], parts_a, "a"),
        slot(1, [(1, 0, 3)], parts_b, "b"),
    )
    assert CellMap(told(*slots), prefer="b").stretches[0].message_id == "m9"
    assert CellMap(told(*slots), prefer="b").stretches[0].holders == (1, 0)
    assert CellMap(told(*slots)).stretches[0].message_id == "m1"


PARTS = [
    CellPart(0, 2, "scaffold"),
    CellPart(2, 5, "user", "m1"),
    CellPart(5, 6, "scaffold"),
    CellPart(6, 8, "attachment", "m1"),
    CellPart(8, 11, "reply", "m2"),
]


def test_cells_are_cut_where_messages_and_turns_change() -> None:
    turn = LastTurn("a", 4, 4, 4, "slot")
    cells = CellMap(told(slot(0, [(5, 0, 12)], PARTS), turns=[turn]))
    assert [(s.first, s.n, s.origin, s.message_id, s.turn) for s in cells.stretches] == [
        (0, 2, "scaffold", None, "reused"),
        (2, 2, "user", "m1", "reused"),
        (4, 1, "user", "m1", "evaluated"),
        (5, 1, "scaffold", None, "evaluated"),
        (6, 2, "attachment", "m1", "evaluated"),
        (8, 3, "assistant", "m2", "written"),
        (11, 1, "unknown", None, "written"),
    ]
    assert cells.counts(lambda s: s.origin) == {
        "scaffold": 3,
        "user": 3,
        "attachment": 2,
        "assistant": 3,
        "unknown": 1,
    }
    assert cells.counts(lambda s: s.turn) == {"reused": 4, "evaluated": 4, "written": 4}
    assert cells.cells_of("m1") == (2, 7)
    assert cells.cells_of("nobody") is None
    # Tokens of a message are counted through whatever stands between its parts.
    assert [cells.cell_of("m1", index) for index in range(6)] == [2, 3, 4, 6, 7, None]
    assert cells.cell_of("m2", 2) == 10


def test_of_a_chat_without_a_turn_nothing_is_said_of_it() -> None:
    turn = LastTurn("a", 4, 4, 4, "slot")
    cells = CellMap(told(slot(0, [(1, 0, 5)], conversation="b"), turns=[turn]))
    assert {stretch.turn for stretch in cells.stretches} == {""}


def test_the_newest_turn_of_a_chat_counts() -> None:
    turns = [LastTurn("a", 4, 4, 4, "slot"), LastTurn("a", 9, 1, 0, "parked")]
    cells = CellMap(told(slot(0, [(1, 0, 10)]), turns=turns))
    assert cells.counts(lambda s: s.turn) == {"reused": 9, "evaluated": 1}


def test_an_empty_cache_has_no_cells() -> None:
    cells = CellMap(told())
    assert (cells.n_used, cells.stretches, cells.at(0)) == (0, (), None)


def test_what_begins_a_plain_text_is_no_template() -> None:
    text = [CellPart(0, 1, "scaffold"), CellPart(1, 6, "text"), CellPart(6, 9, "reply", "m1")]
    chat = [CellPart(0, 2, "scaffold"), CellPart(2, 5, "user", "m2")]
    cells = CellMap(told(slot(0, [(1, 0, 9)], text), slot(1, [(2, 0, 5)], chat, "b"), n_used=14))
    origins = [stretch.origin for stretch in cells.stretches]
    assert origins == ["bos", "text", "assistant", "scaffold", "user"]


# --- squares ------------------------------------------------------------------------------------


@each("n_used", [0, 70, 256, 4000, 4096, 32_000, 131_072])
@each("n_ctx", [300, 4096, 32_768, 131_072])
@each("width", [1, 276, 396, 1200])
def test_every_grid_holds_what_is_used_and_fits(n_used: int, n_ctx: int, width: int) -> None:
    n_used = min(n_used, n_ctx)
    grid = grid_for(n_used, n_ctx, width, 208, 4, 11)
    assert max(n_used, 1) <= grid.n_shown <= n_ctx
    assert grid.n_squares * grid.per_square >= grid.n_shown
    assert grid.rows * grid.pitch <= 208
    assert grid.columns * grid.pitch <= max(width, 4)
    assert 4 <= grid.pitch <= 11


@each("width", [276, 342, 376, 700])
@each("n_used", [0, 70, 300, 900])
def test_rows_are_whole_and_fill_the_width(width: int, n_used: int) -> None:
    grid = grid_for(n_used, 8192, width, 208, 4, 11)
    assert grid.n_squares == grid.rows * grid.columns
    assert grid.columns in (16, 32, 64, 128, 256)
    assert grid.columns * grid.pitch >= 0.75 * width
    assert grid.pitch >= 8 or n_used > 256, "as large as there is room for"


@pytest.mark.parametrize("scale", [1, 2, 3])
def test_squares_are_as_large_at_every_zoom(scale: int) -> None:
    grid = grid_for(140, 256, 376 * scale, 208 * scale, 4 * scale, 11 * scale)
    assert (grid.columns, grid.rows, grid.pitch) == (32, 8, 11 * scale)


def test_squares_keep_their_size_while_a_reply_grows() -> None:
    grids = {grid_for(n, 32_768, 396, 208, 4, 11) for n in range(0, 32_768, 7)}
    assert len(grids) <= 8


def test_a_square_has_the_colour_of_its_first_cell() -> None:
    cells = CellMap(told(slot(0, [(1, 0, 11)], PARTS)))
    numbers = {"scaffold": 2, "user": 3, "attachment": 4, "assistant": 5}

    def color_of(stretch: CellStretch) -> int:
        return numbers[stretch.origin]

    one = squares(cells, Grid(14, 1, 4, 11), color_of, 1)
    assert list(one) == [2, 2, 3, 3, 3, 2, 4, 4, 5, 5, 5, 1, 1, 1, 0, 0]
    three = squares(cells, Grid(14, 3, 4, 11), color_of, 1)
    assert list(three) == [2, 3, 4, 5, 1, 0, 0, 0]


def test_any_layout_agrees_with_looking_up_each_cell() -> None:
    chance = random.Random(5)
    for _ in range(40):
        slots, number = [], 1
        for sequence in range(4):
            runs, at = [], 0
            for _ in range(chance.randrange(1, 4)):
                end = at + chance.randrange(1, 40)
                runs.append((number, at, end))
                number, at = number + 1, end
            slots.append(slot(sequence, runs))
        cells, per = CellMap(told(*slots)), chance.choice([1, 2, 8])
        grid = Grid(cells.n_used + 5, per, 9, 4)
        drawn = squares(cells, grid, lambda s: 2 + s.holders[0], 1)
        for square in range(grid.n_squares):
            at_cell = cells.at(square * per)
            assert drawn[square] == (1 if at_cell is None else 2 + at_cell.holders[0])


def test_a_full_window_is_laid_out_quickly() -> None:
    parts = [CellPart(i * 40, i * 40 + 40, "user", f"m{i}") for i in range(32_768 // 40)]
    full = told(slot(0, [(1, 0, 32_768)], parts), n_ctx=32_768)
    took = []
    for _ in range(5):
        began = time.thread_time()
        cells = CellMap(full)
        squares(cells, grid_for(32_768, 32_768, 396, 208, 4, 11), lambda _s: 2, 1)
        took.append(time.thread_time() - began)
    assert cells.n_used == 32_768
    assert min(took) < 0.02


def test_cells_of_a_picture_are_known_by_their_place_on_it() -> None:
    held = slot(0, [(1, 0, 9)], [CellPart(0, 9, "user", "m1")])
    ids = Array.of("i4", [5, 6, -900, -901, -902, -903, -904, -905, 7])
    picture = MediaSpan(2, 6, "p", 3, 2)
    held = msgspec.structs.replace(held, token_ids=ids, media=[picture])
    cells = CellMap(told(held, n_used=9))
    assert [cells.media_at(cell) for cell in (1, 2, 7, 8)] == [
        None,
        (picture, 0),
        (picture, 5),
        None,
    ]
