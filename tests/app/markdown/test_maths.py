"""What is mathematics and what is money, a variable of a shell, or prose."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from app.markdown.blocks import MathBlock, TextBlock, plain_text
from app.markdown.document import Document
from app.markdown.maths import inline_formula


def formulas(source: str) -> list[str]:
    """The TeX of all formulas in a text."""
    document = Document(source)
    found = []
    for block in (b for segment in document.segments for b in document.blocks(segment)):
        if isinstance(block, MathBlock):
            found.append(block.tex)
        elif isinstance(block, TextBlock):
            found += [span.tex for span in block.spans if span.tex]
    return found


@pytest.mark.parametrize(
    "source",
    [
        "I have $24000 and you have $40000",
        "$\\$0.60$",
        "from $5-10$ or $20 each",
        "$USD/5$ and $EUR-10$",
        "It costs 5$, or $5, or 10$",
        "US$5_000 and US$6_000",
        "`$HOME` and `$x^2$`",
        "echo $HOME/bin:$PATH",
        "$a = 1; $b = $a + 2;",
        "I paid $$ and got $$ back",
        "$5$ and $1,000.50$",
        "$ x^2 $ has spaces",
        "$HOME$ and $USER$ and $PWD:$x",
        "about $20 (or $30), $40/$50 and $60k$70k",
        "$1$ $-1$ $24000$ $0.60$",
        "$10 million - $20 million = a loss",
        "$x^2\n+ 1$ goes over a line",
        "unclosed $x^2 and \\( y and \\[ z",
        "\\\\(x\\\\)",
        "\\[some words\\](not a link)",
        "```\n$$\nx^2\n$$\n```",
        "    $$x^2$$",
    ],
)
def test_not_mathematics(source: str) -> None:
    assert formulas(source) == []


@pytest.mark.parametrize(
    ("source", "tex"),
    [
        ("\\(x\\)", ["x"]),
        ("\\(5\\)", ["5"]),
        ("$x$", ["x"]),
        ("cards, $1$ to $n$, for $5 and $6", ["n"]),
        ("$f(x)$, $x'$ and $2x$", ["f(x)", "x'", "2x"]),
        ("$n/2$ times, $(n)/2$ or $n-1$", ["n/2", "(n)/2", "n-1"]),
        ("a ($E = mc^2$).", ["E = mc^2"]),
        ("$2^{10} = 1024$", ["2^{10} = 1024"]),
        ("$\\alpha$ costs $5", ["\\alpha"]),
        ("$24000 is $x$", ["x"]),
        ("$$ E = mc^2 $$", ["E = mc^2"]),
        ("$$\nE\n$$", ["E"]),
        ("\\[\na\n\\].", ["a."]),
        ("**$x_1$** and _$y_2$_", ["x_1", "y_2"]),
        ("\\(a * b * c\\) and \\(d_1 _e_\\)", ["a * b * c", "d_1 _e_"]),
        ("# About $n^2$", ["n^2"]),
        ("$AB$, $xy$, $ABC$, $n!$", ["AB", "xy", "ABC", "n!"]),
        ("$a, b, c$ in $[0, 1]$ or $(x, y)$", ["a, b, c", "[0, 1]", "(x, y)"]),
        ("$50\\%$ of $O(n \\log n)$", ["50\\%", "O(n \\log n)"]),
        ("$p/q$, $x - y$ and $a < b$", ["p/q", "x - y", "a < b"]),
    ],
)
def test_mathematics(source: str, tex: list[str]) -> None:
    assert formulas(source) == tex


@given(st.text(st.sampled_from("$\\()[]x1 ^_={}a.,\n")))
def test_a_formula_is_found_inside_of_the_text_and_never_loops(text: str) -> None:
    for start in range(len(text)):
        found = inline_formula(text, start)
        if found is not None:
            opening, tex, end = found
            assert start < end <= len(text)
            assert text[start:end].startswith(opening)
            assert tex in text[start:end]


@given(st.lists(st.sampled_from([*"$\\()[]x1 ^_={}a.,", "$$", "\\(", "\\)", "\\$"])))
def test_no_dollar_is_lost(pieces: list[str]) -> None:
    """It is there as text, or in the source of a formula; only an escape is taken away."""
    text = "".join(pieces)
    document = Document(f"a{text}a")
    blocks = [b for segment in document.segments for b in document.blocks(segment)]
    assert sum(plain_text(block).count("$") for block in blocks) == text.count("$")
