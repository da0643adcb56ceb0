"""Laid-out blocks: wrapping, positions, tables that fit, colours of code, directions."""

from __future__ import annotations

import pytest
from PySide6.QtCore import QPointF, QRectF
from PySide6.QtGui import QColor, QFont, QFontMetricsF, QImage, QPainter
from PySide6.QtWidgets import QApplication

from app.markdown.blocks import Span, plain_text
from app.markdown.document import Document
from app.markdown.highlight import GroupHighlight, needs_group_highlight, runs, runs_of_part
from ui.look.theme import Theme
from ui.markdown.code_layout import HEADER, PADDING, CodeLayout
from ui.markdown.layouts import SegmentLayout, TextLayout
from ui.markdown.styles import Styles
from ui.markdown.table_layout import TableLayout
from ui.widgets.utf16 import slice_utf16, utf16_length

WIDTH = 400.0


@pytest.fixture
def styles(qapp: QApplication) -> Styles:
    return Styles(Theme("light"))


def laid_out(source: str, styles: Styles, width: float = WIDTH, **options: bool) -> SegmentLayout:
    document = Document(source, **options)
    return SegmentLayout(document, document.segments[0], styles, width, is_first=True)


def painted(layout: SegmentLayout, styles: Styles, width: float = WIDTH) -> QImage:
    image = QImage(int(width), max(1, int(layout.height)), QImage.Format.Format_RGB32)
    image.fill(QColor(styles.colors.chat))
    painter = QPainter(image)
    layout.paint(painter, QPointF(0, 0), {}, QRectF(image.rect()))
    painter.end()
    return image


def ink_columns(image: QImage, styles: Styles) -> tuple[int, int]:
    """The first and last column that is not the plane's colour."""
    plane = QColor(styles.colors.chat).rgb()
    columns = [
        x
        for x in range(image.width())
        if any(image.pixel(x, y) != plane for y in range(image.height()))
    ]
    return columns[0], columns[-1]


@pytest.mark.parametrize(
    "source", ["word " * 100, "x" * 3000, "漢字" * 1000, "- " + "x" * 500, "> " + "y" * 500]
)
def test_long_text_wraps_inside_its_width(styles: Styles, source: str) -> None:
    layout = laid_out(source, styles)
    assert layout.height > 3 * styles.line_step
    assert layout.natural_width <= WIDTH + 1
    assert ink_columns(painted(layout, styles), styles)[1] < WIDTH


def test_headings_come_in_three_sizes(styles: Styles) -> None:
    sizes = [laid_out(f"{'#' * level} How plants grow", styles) for level in (1, 2, 3)]
    widths = [layout.natural_width for layout in sizes]
    assert widths == sorted(set(widths), reverse=True)
    assert widths[0] > 1.25 * widths[2]
    assert widths[2] > laid_out("**How plants grow**", styles).natural_width
    heights = [layout.height for layout in sizes]
    assert heights == sorted(heights, reverse=True)


def test_a_large_heading_wraps_without_touching_itself(styles: Styles) -> None:
    one, two = laid_out("# Tj", styles), laid_out("# " + "Tjgyp " * 12, styles)
    lines = round(two.height / one.height)
    assert lines > 1
    assert two.height == lines * one.height > lines * styles.line_step


def test_link_in_a_large_heading_is_found_only_on_its_words(styles: Styles) -> None:
    layout = laid_out("# See [this](https://e.org) word", styles)
    middle = layout.height / 2
    hits = {x for x in range(int(layout.natural_width)) if layout.link_at(QPointF(x, middle))}
    assert 30 < len(hits) < layout.natural_width / 2


@pytest.mark.parametrize(
    ("text", "weight"),
    [
        ("bold", QFont.Weight.DemiBold),
        ("“größer” – жирный", QFont.Weight.DemiBold),
        ("重点。", QFont.Weight.Bold),
        ("중요:", QFont.Weight.Bold),
        ("「強調」", QFont.Weight.Bold),
        ("عريض", QFont.Weight.Bold),
    ],
)
@pytest.mark.parametrize("level", [0, 4])
def test_bold_in_a_script_that_the_carried_fonts_lack_is_seen(
    styles: Styles, text: str, weight: QFont.Weight, level: int
) -> None:
    """Many machines have one regular font for it, which Qt draws bolder only from Bold on."""
    made = styles.span_format(Span(text, is_bold=not level), level=level)
    assert made.font().weight() == weight
    plain = styles.span_format(Span(text))
    assert plain.font().weight() == QFont.Weight.Normal


def test_inline_code_stands_on_the_plane_of_code(styles: Styles) -> None:
    made = styles.span_format(Span("x", is_code=True))
    assert made.background().color() == QColor(styles.colors.code)


def line_starts(layout: SegmentLayout, styles: Styles) -> list[int]:
    """The first column with ink in each line of a code block."""
    code = layout.placed[0].layout
    assert isinstance(code, CodeLayout)
    image = painted(layout, styles)
    plane = QColor(styles.colors.code).rgb()
    top, step = round(styles.px(HEADER)), round(styles.code_step)
    count = round((layout.height - styles.px(HEADER + PADDING)) / step)
    inside = range(round(styles.px(PADDING)), round(WIDTH - styles.px(PADDING)))
    return [
        next(
            (
                x
                for x in inside
                if any(image.pixel(x, top + i * step + y) != plane for y in range(step))
            ),
            -1,
        )
        for i in range(count)
    ]


def wrapped_code(code: str, styles: Styles) -> SegmentLayout:
    """Code as it is laid out where one of its lines is too long for one part."""
    document = Document(f"```\n{code}\n```")
    group = document.segments[0].group
    assert group is not None
    group.is_broken = True
    return SegmentLayout(document, document.segments[0], styles, WIDTH, is_first=True)


# A letter of two UTF-16 units that is seen in no font: some fonts' faces make their line higher.
@pytest.mark.parametrize("start", ["", "é\U000e0100 = 1\n"])
def test_wrapped_code_hangs_behind_its_own_indent(styles: Styles, start: str) -> None:
    code = f"{start}    if {'alpha and ' * 9}:\n        pass"
    begin, *more, last = line_starts(wrapped_code(code, styles), styles)[bool(start) :]
    letter = QFontMetricsF(styles.code).horizontalAdvance(" ")
    assert len(more) >= 2
    assert all(abs(x - begin - 2 * letter) < letter for x in more)
    assert abs(last - begin - 4 * letter) < letter


def test_deeply_indented_code_keeps_room_for_its_words(styles: Styles) -> None:
    layout = wrapped_code(f"{' ' * 200}{'word ' * 30}", styles)
    assert max(line_starts(layout, styles)[-3:]) < WIDTH * 0.6


def test_positions_in_wrapped_code_find_their_way_back(styles: Styles) -> None:
    layout = wrapped_code(f"    if {'alpha and ' * 9}:", styles)
    code = layout.placed[0].layout
    assert isinstance(code, CodeLayout)
    found = {
        code.position_at(QPointF(x, y))
        for y in range(round(styles.px(HEADER)), round(layout.height), 4)
        for x in range(0, round(WIDTH), 3)
    }
    assert found == set(range(len(code.text) + 1))


def test_line_height_is_that_of_a_book(styles: Styles) -> None:
    assert laid_out("one\ntwo\nthree", styles).height == 3 * 23


@pytest.mark.parametrize(
    ("source", "space"),
    [
        ("words\n\n- a\n- b", 12),
        ("> quoted\n\n- a\n- b", 12),
        ("- a\n\n1. b", 12),
        ("- a\n- b", 4),
        ("words\n- a", 4),
    ],
)
def test_a_list_stands_apart_from_what_is_above_it(
    styles: Styles, source: str, space: float
) -> None:
    document = Document(source)
    second = SegmentLayout(document, document.segments[1], styles, WIDTH)
    assert second.placed[0].space_above == space


def test_positions_find_their_way_back(styles: Styles) -> None:
    layout = laid_out("hello 😀 world and more words to wrap " * 5, styles)
    text = layout.placed[0].layout.text
    for y in (5, 30, 60):
        for x in (0, 50, 200, 390):
            block, position = layout.position_at(QPointF(x, y))
            assert block == 0
            assert 0 <= position <= utf16_length(text)
    assert layout.position_at(QPointF(0, 0)) == (0, 0)
    assert layout.position_at(QPointF(WIDTH, 10_000))[1] == utf16_length(text)


def test_utf16_slices() -> None:
    assert utf16_length("a😀b") == 4
    assert slice_utf16("a😀b", 1, 3) == "😀"
    assert slice_utf16("plain", 1, 3) == "la"


def test_link_is_found_only_on_its_words(styles: Styles) -> None:
    layout = laid_out("[link](https://x.test) and a long tail of words", styles)
    text_layout = layout.placed[0].layout
    assert isinstance(text_layout, TextLayout)
    rect, target = text_layout.links()[0]
    assert target == "https://x.test"
    assert layout.link_at(rect.center()) == target
    assert layout.link_at(QPointF(rect.right() + 40, rect.center().y())) == ""
    assert [a.name for a in layout.actions()] == ["open_link"]


def test_code_has_a_copy_action_with_the_exact_code(styles: Styles) -> None:
    layout = laid_out("```py\nx = 1\n\n```\n", styles)
    (action,) = layout.actions()
    assert (action.name, action.payload) == ("copy_code", "x = 1\n\n")
    nested = laid_out("- a\n  ```\n  y\n  ```", styles)
    assert [a.payload for a in nested.actions()] == ["y\n"]


def test_code_is_coloured(styles: Styles) -> None:
    image = painted(laid_out("```python\nimport os  # why\n```", styles), styles)
    colors = {image.pixelColor(x, y).name() for x in range(200) for y in range(image.height())}
    assert styles.colors.code in colors
    assert styles.colors.code_keyword in colors or len(colors) > 20


def test_runs_are_lazy_and_exact() -> None:
    found = list(runs("def f():\n    return 'a'  # b\n", "python"))
    assert (0, 3, "code_keyword") in found
    assert (4, 1, "code_name") in found
    colors = [color for _start, _length, color in found]
    assert "code_string" in colors
    assert colors[-1] == "code_comment"
    assert list(runs("anything", "no-such-language")) == []
    assert list(runs("anything", "")) == []


def test_group_is_coloured_across_its_parts() -> None:
    """A docstring that is longer than a part stays a string in the next part."""
    code = 'x = """\n' + "words in a string\n" * 150 + '"""\ny = 2'
    document = Document(f"```python\n{code}\n```\n")
    group = document.segments[0].group
    assert group is not None
    assert needs_group_highlight(group)
    highlight = GroupHighlight(group)
    while not highlight.step(0.0005):
        pass
    assert not needs_group_highlight(group)
    second = document.segments[1]
    colored = runs_of_part(group, second.line, second.text.count("\n") + 1)
    assert colored is not None
    assert {color for _s, _n, color in colored} == {"code_string"}
    covered = sum(length for _s, length, _c in colored)
    assert covered == len(second.text.replace("\n", ""))


def test_table_shrinks_into_its_column(styles: Styles) -> None:
    header = "| " + " | ".join(f"column {i}" for i in range(12)) + " |"
    rule = "|" + "---|" * 12
    row = "| " + " | ".join("some longer words" for _ in range(12)) + " |"
    layout = laid_out(f"{header}\n{rule}\n{row}", styles)
    assert layout.natural_width <= WIDTH + 1
    narrow = laid_out("| a | b |\n|---|---|\n| 1 | 2 |", styles)
    assert narrow.natural_width < 120


def test_short_columns_stay_whole_while_wide_ones_give_way(styles: Styles) -> None:
    long = "many words that would like a line of their own " * 3
    layout = laid_out(f"| a | b | c |\n|---|---|---|\n| n log n | {long} | {long} |", styles)
    table = layout.placed[0].layout
    assert isinstance(table, TableLayout)
    lines = [cell.lines.height / styles.line_step for cell in table._cells[1]]
    assert lines[0] == 1
    assert lines[1] == lines[2] > 3
    assert table.natural_width <= WIDTH


def test_table_positions_and_links(styles: Styles) -> None:
    layout = laid_out("| a | b |\n|---|---|\n| one | [x](https://x.test) |", styles)
    placed = layout.placed[0]
    assert isinstance(placed.layout, TableLayout)
    assert placed.layout.text == "a\tb\none\tx"
    right = QPointF(placed.layout.natural_width - 12, placed.rect.height() - 12)
    assert layout.link_at(right) == "https://x.test"
    assert layout.position_at(QPointF(0, placed.rect.height() - 12)) == (0, 4)


def test_a_table_from_right_to_left_begins_at_the_right(styles: Styles) -> None:
    layout = laid_out("| א | ב |\n|---|---|\n| ג | word |", styles)
    table = layout.placed[0].layout
    assert isinstance(table, TableLayout)
    first, second = (cell.x for cell in table._cells[0])
    assert first > second > WIDTH / 2
    left, right = ink_columns(painted(layout, styles), styles)
    assert left > WIDTH / 2
    assert right == WIDTH - 1
    assert layout.position_at(QPointF(WIDTH - 5, 10)) == (0, 0)
    assert layout.position_at(QPointF(0, 10))[1] >= 2


def test_a_table_that_nearly_fits_is_squeezed(styles: Styles) -> None:
    cell = "some words that go on for a while"
    two, four = (
        laid_out("|" + f" {cell} |" * n + "\n|" + "---|" * n, styles, width=styles.px(288))
        for n in (2, 4)
    )
    assert two.placed[0].layout.sideways.limit == 0
    assert four.placed[0].layout.sideways.limit > 200


def test_parts_of_a_table_share_their_columns(styles: Styles) -> None:
    rows = "\n".join(f"| {i} | {'wide ' * (i % 7)} |" for i in range(60))
    document = Document(f"| n | v |\n|---|---|\n{rows}")
    widths = {
        SegmentLayout(document, segment, styles, WIDTH).placed[0].layout.natural_width
        for segment in document.segments
    }
    assert len(widths) == 1


@pytest.mark.parametrize("source", ["שלום עולם", "😀 שלום world", "12 مرحبا", "- مرحبا", "> مرحبا"])
def test_right_to_left_starts_at_the_right(styles: Styles, source: str) -> None:
    left, right = ink_columns(painted(laid_out(source, styles), styles), styles)
    assert left > WIDTH / 2
    assert right > WIDTH - 40


def test_left_to_right_starts_at_the_left(styles: Styles) -> None:
    left, right = ink_columns(painted(laid_out("hello שלום", styles), styles), styles)
    assert left < 5
    assert right < WIDTH / 2


def test_code_stays_left_to_right(styles: Styles) -> None:
    layout = laid_out("```\nשלום = 1\n```", styles)
    assert not layout.placed[0].is_rtl


@pytest.mark.parametrize(
    ("words", "from_the_left"),
    [
        ("שלום hello 123 עולם", "עולם hello 123 שלום"),
        ("hello שלום עולם there", "hello עולם שלום there"),
        ("שלום hello", "hello שלום"),
    ],
)
@pytest.mark.parametrize("form", ["{}\n", "| a |\n|---|\n| {} |\n", "- {}\n"])
def test_words_in_two_directions_stand_where_they_are_seen(
    form: str, words: str, from_the_left: str, styles: Styles
) -> None:
    source = form.format(words)
    layout = laid_out(source, styles)
    document = Document(source)
    texts = [plain_text(block) for block in document.blocks(document.segments[0])]
    block, text = next((at, text) for at, text in enumerate(texts) if words in text)
    places = {}
    for word in words.split():
        start = text.index(word)
        (rect,) = layout.rects(block, start, start + len(word))
        places[word] = rect
        assert layout.position_at(rect.center())[1] in range(start, start + len(word) + 1)
    assert sorted(places, key=lambda word: places[word].left()) == from_the_left.split()
    one, *others = sorted(places.values(), key=QRectF.left)
    for other in others:
        assert other.left() > one.right()
        one = other


def test_a_part_that_turns_stands_in_two_places_and_its_link_is_under_them(styles: Styles) -> None:
    layout = laid_out("שלום [hello](https://a.example) 123 עולם", styles)
    (hello,) = layout.rects(0, 5, 10)
    assert layout.link_at(hello.center()) == "https://a.example"
    (number,) = layout.rects(0, 11, 14)
    assert layout.link_at(number.center()) == ""
    left, right = layout.rects(0, 2, 8)
    assert left.left() == pytest.approx(hello.left())
    assert left.right() < hello.right() < right.left()


@pytest.mark.parametrize("zoom", [80, 150, 300])
@pytest.mark.parametrize("source", ["# Head", "text", "- a", "```\nx\n```", "| a |\n|---|\n| b |"])
def test_zoom_scales_heights(qapp: QApplication, zoom: int, source: str) -> None:
    plain = laid_out(source, Styles(Theme("light", 100))).height
    zoomed = laid_out(source, Styles(Theme("light", zoom))).height
    assert zoomed == pytest.approx(plain * zoom / 100, rel=0.12)


def test_boxes_of_tasks_are_icons_of_the_same_size_done_or_not(styles: Styles) -> None:
    plane = QColor(styles.colors.chat).rgb()

    def spots(source: str) -> list[tuple[int, int]]:
        box = painted(laid_out(source, styles), styles).copy(0, 0, 24, int(styles.line_step))
        places = [(x, y) for x in range(box.width()) for y in range(box.height())]
        return [place for place in places if box.pixel(*place) != plane]

    def size(inked: list[tuple[int, int]]) -> list[int]:
        return [max(each) - min(each) for each in zip(*inked, strict=True)]

    empty, done = spots("- [ ] open"), spots("- [x] done")
    assert size(empty) == size(done)
    assert abs(size(empty)[0] - size(empty)[1]) <= 1
    assert len(done) > len(empty)
