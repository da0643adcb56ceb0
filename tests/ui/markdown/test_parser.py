"""Blocks and spans: what Markdown means here, and what it may not do."""

from __future__ import annotations

import pytest

from ui.markdown.blocks import (
    Block,
    CodeBlock,
    LiteralBlock,
    RuleBlock,
    Span,
    TableBlock,
    TextBlock,
    plain_text,
)
from ui.markdown.document import Document
from ui.markdown.parser import is_openable


def blocks(source: str, **options: bool) -> list[Block]:
    document = Document(source, **options)
    return [block for segment in document.segments for block in document.blocks(segment)]


def spans(source: str) -> tuple[Span, ...]:
    (block,) = blocks(source)
    assert isinstance(block, TextBlock)
    return block.spans


def text(source: str) -> str:
    return "\n".join(plain_text(block) for block in blocks(source))


def test_inline_styles() -> None:
    assert spans("a **b** *c* ~~d~~ `e` ***f***") == (
        Span("a "),
        Span("b", is_bold=True),
        Span(" "),
        Span("c", is_italic=True),
        Span(" "),
        Span("d", is_struck=True),
        Span(" "),
        Span("e", is_code=True),
        Span(" "),
        Span("f", is_bold=True, is_italic=True),
    )


def test_line_breaks_stay() -> None:
    assert spans("Roses are red,\nviolets are blue") == (Span("Roses are red,\nviolets are blue"),)


@pytest.mark.parametrize(
    "source",
    [
        "<smirk>",
        "a <result>x</result>",
        "#include <stdio.h>",
        "<select><option>a</select>",
        "<!-- comment -->",
        "<style>body { color: red }</style>",
        "&lt;b&gt; &amp; &nbsp; &copy;",
        "1 < 2 and a<b",
        "<",
        "<img src=x onerror=alert(1)>",
        "<div>\n\n",
    ],
)
def test_html_is_text(source: str) -> None:
    assert text(source) == source.strip()


@pytest.mark.parametrize(
    "source",
    [
        "I have $24000 and you have $40000",
        "$\\$0.60$",
        "\\(x_1 * y * z_2\\)",
        "\\[a * b * c\\]",
        "$$a *b* c$$",
        "$HOME",
    ],
)
def test_mathematics_and_money_stay_as_written(source: str) -> None:
    shown = text(source)
    assert shown == (source if "$\\$" not in source else "$$0.60$")


def test_math_block_is_literal() -> None:
    (block,) = blocks("$$\na\n===\nb\n$$")
    assert block == LiteralBlock("$$\na\n===\nb\n$$", is_mono=True)


def test_links_keep_only_openable_targets() -> None:
    assert spans("[a](https://x.test/p)") == (Span("a", href="https://x.test/p"),)
    assert spans("[a](mailto:a@x.test)") == (Span("a", href="mailto:a@x.test"),)
    assert spans("[a](notes.html)") == (Span("a"), Span(" (notes.html)", is_dim=True))
    for bad in ("javascript:alert(1)", "file:///etc/passwd", "data:text/html,x", "vbscript:x"):
        assert not any(span.href for span in spans(f"[a]({bad})")), bad
        assert bad.split(":")[0] in text(f"[a]({bad})"), "the address is shown"


def test_bare_links() -> None:
    assert spans("see https://x.test/a_b_c. Or <https://y.test>") == (
        Span("see "),
        Span("https://x.test/a_b_c", href="https://x.test/a_b_c"),
        Span(". Or "),
        Span("https://y.test", href="https://y.test"),
    )


def test_images_are_placeholders_with_the_address() -> None:
    assert spans("![a cat](https://x.test/cat.png)") == (
        Span("image: a cat ", is_dim=True),
        Span("https://x.test/cat.png", href="https://x.test/cat.png"),
    )
    assert not any(span.href for span in spans("![x](cat.png)"))


def test_reference_links_reach_across_the_text() -> None:
    assert spans_of_first("[docs] here\n\ntext\n\n[docs]: https://x.test") == "https://x.test"


def spans_of_first(source: str) -> str:
    first = blocks(source)[0]
    assert isinstance(first, TextBlock)
    return first.spans[0].href


def test_headings() -> None:
    levels = [block.level for block in blocks("# a\n\n### b\n\nc\n===")]
    assert levels == [1, 3, 1]


def test_lists_nest_and_number() -> None:
    found = blocks("1. a\n   - b\n     - c\n2. d\n\n- [x] e\n- [ ] f")
    frames = [(b.frame.nest, b.frame.marker) for b in found]
    assert frames == [
        ("l", "1."),
        ("ll", "◦"),
        ("lll", "▪"),
        ("l", "2."),
        ("l", "☑"),
        ("l", "☐"),
    ]


def test_second_paragraph_of_an_item_has_no_marker() -> None:
    found = blocks("- a\n\n  b")
    assert [(b.frame.marker, plain_text(b)) for b in found] == [("•", "a"), ("", "b")]


def test_empty_item_is_kept() -> None:
    found = blocks("- a\n-\n- b")
    assert [b.frame.marker for b in found] == ["•", "•", "•"]


def test_quotes_nest() -> None:
    found = blocks("> a\n>\n> > b\n>\n> - c")
    assert [b.frame.nest for b in found] == ["q", "qq", "ql"]
    assert [b.frame.joins_quote for b in found][:1] == [False]


def test_code_in_a_list() -> None:
    found = blocks("1. a\n   ```py\n   x = 1\n   ```")
    assert isinstance(found[1], CodeBlock)
    assert (found[1].code, found[1].language, found[1].frame.nest) == ("x = 1", "py", "l")


def test_table() -> None:
    (table,) = blocks("| a | b | c |\n|:--|:-:|--:|\n| 1 | **2** | 3 |")
    assert isinstance(table, TableBlock)
    assert table.aligns == ("left", "center", "right")
    assert table.header[0] == (Span("a"),)
    assert table.rows[0][1] == (Span("2", is_bold=True),)
    assert plain_text(table) == "a\tb\tc\n1\t2\t3"


def test_long_table_continues_without_a_header() -> None:
    rows = "\n".join(f"| {i} |" for i in range(60))
    found = blocks(f"| n |\n|---|\n{rows}")
    assert [b.is_continuation for b in found] == [False] + [True] * (len(found) - 1)
    assert "\n".join(plain_text(b) for b in found) == "\n".join(["n", *map(str, range(60))])


def test_rule() -> None:
    assert isinstance(blocks("***")[0], RuleBlock)


def test_plain_text_is_literal_and_split_by_direction() -> None:
    found = blocks("*a* <b>\n# c\nשלום\n12\nd", is_plain=True)
    assert [plain_text(b) for b in found] == ["*a* <b>\n# c", "שלום\n12", "d"]
    assert [b.is_joined for b in found] == [False, True, True]


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("https://a", True),
        ("HTTP://A", True),
        ("mailto:a@b", True),
        ("https://", False),
        ("file:///a", False),
        ("javascript:a", False),
        ("//a", False),
        ("", False),
    ],
)
def test_openable(target: str, expected: bool) -> None:
    assert is_openable(target) is expected
