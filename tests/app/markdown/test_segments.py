"""Where a text is cut, and that cutting never changes what it means."""

from __future__ import annotations

import pytest
from each import each

from app.markdown.document import Document
from app.markdown.segments import (
    MAX_CHARS,
    MAX_CODE_LINES,
    MAX_TABLE_LINES,
    SegmentKind,
    indent_of,
    is_definition,
    is_fence_end,
    is_forming,
    language_of,
)

PROSE, LIST, CODE, TABLE, MATH = (
    SegmentKind.PROSE,
    SegmentKind.LIST,
    SegmentKind.CODE,
    SegmentKind.TABLE,
    SegmentKind.MATH,
)


def cut(source: str) -> list[tuple[SegmentKind, str]]:
    return [(segment.kind, segment.text) for segment in Document(source).segments]


def test_example_of_the_module() -> None:
    assert cut("# Title\n\nSome\ntext.\n\n```py\nx = 1\n```\n") == [
        (PROSE, "# Title"),
        (PROSE, "Some\ntext."),
        (CODE, "x = 1"),
    ]


@each(
    ("source", "kinds"),
    [
        ("a\nb", [PROSE]),
        ("a\n\nb", [PROSE, PROSE]),
        ("a\n# b\nc", [PROSE, PROSE, PROSE]),
        ("a\n===\nb", [PROSE]),
        ("- a\n- b", [LIST, LIST]),
        ("- a\n\n  more of a\n\n- b", [LIST, LIST]),
        ("a\n- b", [PROSE, LIST]),
        ("a\n2. b", [PROSE]),
        ("a\n1. b", [PROSE, LIST]),
        ("- a\n  ```\n\n  x\n  ```\n- b", [LIST, LIST]),
        ("- a\n```\nx\n```", [LIST, CODE]),
        ("    code\n\n    code", [PROSE]),
        ("> a\n> ```\n>\n> x\nb", [PROSE]),
        ("| a |\n|---|\n| 1 |\nstill a row\n\nb", [TABLE, PROSE]),
        ("intro\n| a | b |\n|---|---|\n| 1 | 2 |", [PROSE, TABLE]),
        ("a | b\nc | d", [PROSE]),
        ("$$\na\n=\nb\n$$\nc", [MATH, PROSE]),
        ("\\[\nx\n\\]", [MATH]),
        ("$$x$$ is inline", [PROSE]),
        ("```\nunclosed\n\n# no heading", [CODE]),
        ("~~~\n```\n~~~", [CODE]),
        ("````\n```\n````", [CODE]),
        ("```js` not a fence", [PROSE]),
        ("", []),
        ("\n \n", []),
    ],
)
def test_kinds(source: str, kinds: list[SegmentKind]) -> None:
    assert [kind for kind, _text in cut(source)] == kinds


def test_numbers_continue_across_segments() -> None:
    segments = Document("1. a\n1. b\n\n1. c\n\ntext\n\n1. d").segments
    assert [s.number for s in segments] == [1, 2, 3, None, 1]


def test_tight_items_are_marked() -> None:
    segments = Document("- a\n- b\n\n- c").segments
    assert [s.is_tight for s in segments[1:]] == [True, False]
    after_table = Document("| a |\n|---|\n| b |\n\n- c").segments[1]
    assert not after_table.is_tight


def test_fence_indent_is_taken_off() -> None:
    assert cut("  ```\n  x\n    y\n  ```") == [(CODE, "x\n  y")]


def test_long_code_is_cut_into_parts_of_one_group() -> None:
    lines = [f"line {i}" for i in range(3 * MAX_CODE_LINES)]
    segments = Document("```py\n" + "\n".join(lines) + "\n```\nafter").segments
    code = [s for s in segments if s.kind is CODE]
    assert len(code) == 3
    assert [s.is_last_part for s in code] == [False, False, True]
    assert [s.line for s in code] == [0, MAX_CODE_LINES, 2 * MAX_CODE_LINES]
    group = code[0].group
    assert group is not None
    assert all(s.group is group for s in code)
    assert group.is_closed
    assert group.code == "\n".join(lines) + "\n"
    assert segments[-1].text == "after"


def test_code_with_a_giant_line_is_copied_whole() -> None:
    giant = "x" * (5 * MAX_CHARS)
    segments = Document(f"```\na\n{giant}\nb\n```").segments
    assert len(segments) > 3
    assert all(len(s.text) <= 2 * MAX_CHARS for s in segments)
    assert segments[0].group is not None
    assert segments[0].group.code == f"a\n{giant}\nb\n"


def test_long_table_is_cut_with_its_head() -> None:
    rows = "\n".join(f"| {i} | x |" for i in range(3 * MAX_TABLE_LINES))
    segments = Document(f"| n | v |\n|---|---|\n{rows}").segments
    assert len(segments) > 2
    assert {s.kind for s in segments} == {TABLE}
    assert segments[0].head == ""
    assert segments[1].head == "| n | v |\n|---|---|"
    assert all(s.first is segments[0] for s in segments[1:])


def test_no_segment_is_large() -> None:
    sources = ["word " * 50_000, "x" * 300_000, "漢字" * 100_000, "- a\n" + "  b\n" * 50_000]
    sources += ["> quote\n" * 20_000, "| a |\n|---|\n" + "| b |\n" * 20_000]
    sources += ["- a\n  ```\n" + "  code\n" * 20_000 + "  ```"]
    for source in sources:
        largest = max(len(s.text) for s in Document(source).segments)
        assert largest <= 2 * MAX_CHARS, source[:20]


def test_cutting_long_text_loses_nothing() -> None:
    source = " ".join(f"word{i}" for i in range(5_000))
    texts = [s.text.rstrip() for s in Document(source).segments]
    assert " ".join(texts) == source


@pytest.mark.parametrize(
    "line", ["```", "``", "#", "1", "12.", "-", "|--", "$$", "[", "~~", "**", "==", "\\["]
)
def test_forming_lines(line: str) -> None:
    assert is_forming(line)


@pytest.mark.parametrize("line", ["word", "# a", "- a", "", "12 apples", "**bold", "[a]"])
def test_lines_that_are_clear(line: str) -> None:
    assert not is_forming(line)


def test_fence_end() -> None:
    assert is_fence_end("````  ", "```")
    assert not is_fence_end("``", "```")
    assert not is_fence_end("``` py", "```")
    assert not is_fence_end("    ```", "```")


@pytest.mark.parametrize(
    ("info", "language"),
    [
        ("py", "py"),
        (" python title=x", "python"),
        ("{.rust}", "rust"),
        ("c++", "c++"),
        ("   ", ""),
        ("🙂", ""),
    ],
)
def test_language(info: str, language: str) -> None:
    assert language_of(info) == language


def test_small_things() -> None:
    assert indent_of("\t  a") == 6
    assert is_definition("[a]: https://x.test")
    assert is_definition("[^1]: a footnote")
    assert not is_definition("[^]: no label")
    assert not is_definition("[^a b]: no label")
