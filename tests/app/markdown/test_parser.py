"""Blocks and spans: what Markdown means here, and what it may not do."""

from __future__ import annotations

import pytest

from app.markdown.blocks import (
    Block,
    CodeBlock,
    LiteralBlock,
    MathBlock,
    RuleBlock,
    Span,
    TableBlock,
    TextBlock,
    plain_text,
)
from app.markdown.document import Document
from app.markdown.parser import is_openable


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
        "1 < 2 and a<b",
        "<",
        "<img src=x onerror=alert(1)>",
        "<div>\n\n",
    ],
)
def test_html_is_text(source: str) -> None:
    assert text(source) == source.strip()


@pytest.mark.parametrize(
    ("source", "shown"),
    [
        ("&lt;b&gt; &amp; &copy;", "<b> & ©"),
        ("K&auml;se &#228; &#xe4;", "Käse ä ä"),
        ("&lt;b&gt;not bold&lt;/b&gt;", "<b>not bold</b>"),
        ("&#42;not emphasis&#42;", "*not emphasis*"),
        ("R&D, AT&T; &nothing; &", "R&D, AT&T; &nothing; &"),
        ("`&amp;`", "&amp;"),
        ("&#0;", "\ufffd"),
    ],
)
def test_an_entity_is_its_character(source: str, shown: str) -> None:
    assert text(source) == shown


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
    assert shown == source


def test_math_block_is_one_formula_whatever_markdown_would_see_in_it() -> None:
    (block,) = blocks("$$\na\n===\nb\n$$")
    assert block == MathBlock("a\n===\nb", "$$\na\n===\nb\n$$")


@pytest.mark.parametrize("source", ["$$\nx^2\n", "\\[\nx^2\n\nwords"])
def test_math_block_that_does_not_end_shows_its_source(source: str) -> None:
    assert blocks(source)[0] == LiteralBlock(source.partition("\n\n")[0].rstrip(), is_mono=True)


def test_formula_in_the_middle_of_a_paragraph_stands_on_its_own_line() -> None:
    found = blocks("Then \\[ x^2 \\] follows $y$.")
    assert [type(block) for block in found] == [TextBlock, MathBlock, TextBlock]
    assert [plain_text(block) for block in found] == ["Then", "\\[ x^2 \\]", "follows $y$."]
    assert [block.frame.is_tight for block in found] == [False, True, True]


def test_math_block_in_a_list_and_in_a_quote_keeps_its_place() -> None:
    found = blocks("- a\n  $$\n  x\n  + y\n  $$\n\n> \\[\n> x = 1\n> \\]")
    formulas = [block for block in found if isinstance(block, MathBlock)]
    assert [(block.tex, block.frame.nest) for block in formulas] == [
        ("x\n+ y", "l"),
        ("x = 1", "q"),
    ]


def test_footnotes_show_their_label_where_they_are_defined_anywhere() -> None:
    found = blocks("A[^1], B[^long-one], C[^none].\n\n[^1]: One `x`.\n[^long-one]: Two\n    more.")
    first, one, two = found
    assert plain_text(first) == "A[1], B[long-one], C[^none]."
    assert [span.text for span in first.spans if span.is_note] == ["[1]", "[long-one]"]
    assert (plain_text(one), one.frame.marker, one.frame.nest) == ("One x.", "1", "l")
    assert (plain_text(two), two.frame.marker) == ("[long-one] Two\nmore.", "")


@pytest.mark.parametrize(
    ("source", "targets"),
    [
        ("https://en.test/a_(b))", ["https://en.test/a_(b)"]),
        ("(see https://e.test/x).", ["https://e.test/x"]),
        ("www.example.test/a, and so on", ["http://www.example.test/a"]),
        ("www. and https:// and awww.a.test", []),
        ("a.www.b.test user@www.c.test", []),
        ("**https://e.test/x**", ["https://e.test/x"]),
        ("`https://e.test`", []),
        ("ftp://e.test javascript://e.test file:///etc", []),
        ("https://e.test/?a=1&b=2!", ["https://e.test/?a=1&b=2"]),
    ],
)
def test_bare_addresses_are_links_without_what_stands_around(
    source: str, targets: list[str]
) -> None:
    (block,) = blocks(source)
    assert [span.href for span in block.spans if span.href] == targets
    assert plain_text(block) == source.replace("*", "").replace("`", "")


def test_data_in_the_place_of_an_image_is_cut() -> None:
    (block,) = blocks(f"![dot](data:image/png;base64,{'A' * 2000})")
    assert len(plain_text(block)) < 100
    assert "2,022 characters" in plain_text(block)


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
