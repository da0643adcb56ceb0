"""Lines of tokens: nothing is lost, nothing is wider than a line, and it comes in slices."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, strategies as st

from ui.section.prompt.lines import PromptLines

CELL = 10.0


class Strip:
    def __init__(self, pieces: Sequence[bytes]) -> None:
        self._pieces = list(pieces)

    def __len__(self) -> int:
        return len(self._pieces)

    def pieces(self, first: int, end: int) -> list[bytes]:
        return self._pieces[first:end]


def measure(text: str) -> float:
    """Wide signs take two cells, combining ones none."""
    return CELL * sum(2 if c > "\u2e80" else 0 if "\u0300" <= c < "\u0370" else 1 for c in text)


def lines_of(pieces: Sequence[bytes], n_cells: int = 12) -> PromptLines:
    lines = PromptLines(Strip(pieces), n_cells * CELL, measure)
    assert lines.read(60)
    return lines


def texts(lines: PromptLines) -> list[list[str]]:
    """What each box of each line shows."""
    found = []
    for line in range(lines.n_lines):
        row = []
        for box in lines.boxes_of_line(line):
            spelling = lines.groups.spellings[lines.group_of_box[box]]
            start, end = lines.cut(box)
            row.append(spelling.shown[start:end])
        found.append(row)
    return found


def test_a_line_ends_where_it_is_full_and_behind_a_line_end() -> None:
    lines = lines_of([b"The", b" sky", b" is", b" blue", b".\n", b"\n", b"Yes"])
    assert texts(lines) == [["The", "·sky", "·is"], ["·blue", ".↵"], ["↵"], ["Yes"]]
    assert [lines.x[box] for box in lines.boxes_of_line(0)] == [0, 30, 70]


def test_a_wide_piece_goes_on_in_the_next_line() -> None:
    lines = lines_of([b"ab", b"x" * 30, b"c"])
    assert texts(lines) == [["ab"], ["x" * 12], ["x" * 12], ["x" * 6, "c"]]
    assert len(lines.boxes_of_token(1)) == 3


def test_tokens_of_one_character_share_its_box() -> None:
    lines = lines_of([b"T", b"\xc3", b"\xbcr", b"!"])
    assert texts(lines) == [["T", "ür", "!"]]
    assert lines.boxes_of_token(1) == lines.boxes_of_token(2)
    assert [lines.token_at(0, x) for x in (5, 12, 19, 22, 29, 35, 41)] == [0, 1, 1, 2, 2, 3, None]
    assert lines.token_at(0, 400, is_near=True) == 3
    assert lines.token_at(1, 0) is None


def test_up_and_down_stay_in_the_column() -> None:
    lines = lines_of([b"aaaa", b"bbbb", b"c\n", b"dd", b"eeeeee", b"\n", b"f"])
    assert texts(lines) == [["aaaa", "bbbb", "c↵"], ["dd", "eeeeee", "↵"], ["f"]]
    assert lines.token_beside(1, 1) == 4
    assert lines.token_beside(4, -1) == 1
    assert lines.token_beside(4, 1) == 6
    assert lines.token_beside(0, -5) == 0


def test_text_that_ends_with_a_line_end_has_no_empty_line_behind_it() -> None:
    assert lines_of([b"a\n"]).n_lines == 1
    assert lines_of([]).n_lines == 1
    assert texts(lines_of([])) == [[]]


PIECES = st.lists(
    st.sampled_from(
        [
            *(b"a", b" word", b"\n", b" \n\n ", b"\xf0\x9f", b"\x99\x82", b"\xff", b""),
            *(b"long" * 9, b"<|im_end|>"),
            *(text.encode() for text in ("模型", "e\u0301", "ش")),
        ]
    ),
    max_size=40,
)


@given(PIECES, st.integers(1, 30))
def test_every_token_stands_somewhere_once_and_no_line_is_too_wide(
    pieces: list[bytes], n_cells: int
) -> None:
    lines = lines_of(pieces, n_cells)
    at = 0
    for line in range(lines.n_lines):
        x = 0.0
        for box in lines.boxes_of_line(line):
            assert box == at
            at += 1
            assert lines.x[box] == pytest.approx(x)
            x += lines.width[box]
            assert lines.line_of_box(box) == line
        assert x <= max(n_cells * CELL, 2 * CELL) + 0.01
    assert at == len(lines.x)
    shown = ["".join(row) for row in texts(lines)]
    whole = "".join(spelling.shown for spelling in lines.groups.spellings)
    assert "".join(shown) == whole
    for token in range(len(pieces)):
        boxes = lines.boxes_of_token(token)
        assert boxes
        assert all(token in lines.tokens_of_box(box) for box in boxes)


@given(PIECES, st.integers(4, 30))
def test_what_is_written_is_what_is_shown(pieces: list[bytes], n_cells: int) -> None:
    lines = lines_of(pieces, n_cells)
    for line, row in enumerate(texts(lines)):
        written = lines.runs(line)
        cells: dict[float, str] = {}
        for x, text in (*written.letters, *written.marks):
            for number, character in enumerate(text):
                if character != " ":
                    place = x + measure(text[:number])
                    cells[place] = cells.get(place, "") + character
        spelled = "".join(cells[place] for place in sorted(cells))
        assert sorted(spelled) == sorted("".join(row))


def test_marks_are_apart_from_letters_and_few_stretches_are_written() -> None:
    lines = lines_of([b"The", b" sky", b" is\n"], 40)
    written = lines.runs(0)
    assert written.letters == ((0.0, "The sky is"),)
    assert written.marks == ((0.0, "   ·   ·  ↵"),)
    wide = lines_of([b"a", " 模".encode(), b" b"], 40).runs(0)
    assert wide.letters == ((0.0, "a"), (10.0, "·模"), (40.0, " b"))
    assert wide.marks == ((40.0, "·"),)


def test_it_is_laid_out_a_slice_at_a_time() -> None:
    lines = PromptLines(Strip([b" word"] * 3000), 200, measure)
    n_slices = 0
    while not lines.read(0):
        n_slices += 1
        assert lines.groups.n_tokens == 256 * n_slices
        assert lines.boxes_of_token(256 * n_slices) == range(0)
    assert n_slices == 11
    assert lines.is_whole
    whole = PromptLines(Strip([b" word"] * 3000), 200, measure)
    assert whole.read(60)
    assert (whole.x, whole.n_lines) == (lines.x, lines.n_lines)


def test_a_character_that_a_slice_cuts_is_put_together() -> None:
    pieces = [b"a"] * 255 + [b"\xc3", b"\xbc"] + [b"b"] * 10
    lines = PromptLines(Strip(pieces), 100_000, measure)
    while not lines.read(0):
        pass
    assert "".join(texts(lines)[0]) == "a" * 255 + "ü" + "b" * 10
