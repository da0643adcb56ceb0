"""What one sees of a web page: blocks, lists, tables, quotations; scripts and hidden parts not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from each import each
from zips import epub

from app.reading.document import Document

TABLE = "<table><caption>Prices</caption><thead><tr><th>Fruit<th>Price</thead>"


@each(
    ("body", "text"),
    [
        ("<h1>One\n  two</h1><p>a <b>b</b>\n c<br>d</p>e", "# One two\n\na b c\nd\n\ne"),
        ("<ul><li>a<ul><li>b</ul><li><p>c</p><p>d</p></ul>f", "- a\n  - b\n- c\n\n  d\n\nf"),
        ("<ol start=3><li>a<li value=7>b<li>c</ol>", "3. a\n7. b\n8. c"),
        (
            f"{TABLE}<tr><td>Apple<td>1|2</table>",
            "Prices\n\n| Fruit | Price |\n| --- | --- |\n| Apple | 1\\|2 |",
        ),
        ("<table><tr><td rowspan=2>a<td>b<tr><td>c</table>", "| a | b |\n| --- | --- |\n|  | c |"),
        ("<table><tr><td>frame</table>after", "frame\n\nafter"),
        ("<blockquote><p>said</p><p>more</p></blockquote>end", "> said\n\n> more\n\nend"),
        ("<pre>  x = 1\n\n  y</pre>", "```\n  x = 1\n\n  y\n```"),
        ("<script>no()</script><style>p{}</style><noscript>no</noscript>yes<!-- no -->", "yes"),
        ("<p hidden>no</p><p style='color: red; display: none'>no<p>yes", "yes"),
        ("<img alt='A cat'><img> <select><option>x</select> <input> seen", "A cat seen"),
        ("a&nbsp;b &amp; &lt;c&gt; &#x1F642; &copy;", "a\u00a0b & <c> 🙂 ©"),
        ("<p dir=rtl>שלום</p><ruby>漢<rt>kan</rt></ruby>", "שלום\n\n漢"),
        ("<dl><dt>Term<dd>What it is</dl>", "Term\n\nWhat it is"),
        (
            (
                "<p><math alttext=x^2><semantics><mi>x</mi><annotation>x^2</annotation></math> is "
                "<math><semantics><mi>y</mi><annotation>\\y</annotation></math>, "
                "<span class=katex-html aria-hidden=true>y</span><math><mi>a</mi><mo>+</mo></math>"
            ),
            "x^2 is \\y, a+",
        ),
        ("<dialog>no</dialog><dialog open>yes</dialog>", "yes"),
        (
            "Name <input value='Ada'><input type=hidden value=no><input type=password value=no>",
            "Name Ada",
        ),
        ("<details><summary>More</summary>inside</details>", "More\n\ninside"),
    ],
)
def test_a_page_is_read_as_it_is_seen(
    body: str, text: str, read_here: Callable[[Path], Document], tmp_path: Path
) -> None:
    (tmp_path / "a.html").write_text(f"<!DOCTYPE html><title>T</title>{body}", "utf-8")
    assert read_here(tmp_path / "a.html").text == text


@each(
    ("raw", "text"),
    [
        ("<html><p>größer 漢".encode(), "größer 漢"),
        ("<html><meta charset=windows-1251><p>Привет".encode("cp1251"), "Привет"),
        ("<html><meta charset=shift_jis><p>日本".encode("shift_jis"), "日本"),
        ("<html><p>caf\u00e9 “x”".encode("cp1252"), "café “x”"),
        ("<html><meta charset=no-such><p>caf\u00e9".encode("cp1252"), "café"),
        ("\ufeff<html><p>größer".encode("utf-16-le"), "größer"),
        ("<?xml version='1.0' encoding='utf-8'?><html><p>größer</p></html>".encode(), "größer"),
        (b"<html><p>a\0b\xff\xfe", "abÿþ"),
    ],
)
def test_its_encoding_is_found(
    raw: bytes, text: str, read_here: Callable[[Path], Document], tmp_path: Path
) -> None:
    (tmp_path / "a.htm").write_bytes(raw)
    assert read_here(tmp_path / "a.htm").text == text


def test_a_book_has_the_chapters_of_its_contents(
    read_here: Callable[[Path], Document], tmp_path: Path
) -> None:
    """Two of them in one file; in its XHTML empty elements are closed, and nothing is lost."""
    page = (
        '<html xmlns="http://www.w3.org/1999/xhtml"><head><title/><script src="x"/></head><body>'
        '<h1 id="one">The start</h1><p>a&nbsp;b</p><h1 id="two">The end</h1><p>c</p></body></html>'
    )
    point = "<navPoint><navLabel><text>{}</text></navLabel><content src='a.xhtml#{}'/></navPoint>"
    contents = f"<ncx>{point.format('Start', 'one')}{point.format('End', 'two')}</ncx>"
    package = (
        '<package><manifest><item id="n" href="t.ncx" media-type="x"/><item id="a" href="a.xhtml"'
        ' media-type="application/xhtml+xml"/></manifest><spine toc="n"><itemref idref="a"/>'
        '<itemref idref="gone"/></spine></package>'
    )
    parts = {"OPS/a.opf": package, "OPS/t.ncx": contents}
    (tmp_path / "a.epub").write_bytes(epub({"a.xhtml": page}, parts))
    book = read_here(tmp_path / "a.epub")
    assert book.text == "# The start\n\na\u00a0b\n\n# The end\n\nc"
    assert [(place.start, place.label) for place in book.places] == [(0, "Start"), (18, "End")]


def test_what_is_lost_of_a_page_is_said(
    read_here: Callable[[Path], Document], tmp_path: Path
) -> None:
    (tmp_path / "a.html").write_bytes(b"<html>" + b"<b>x" * 5000)
    page = read_here(tmp_path / "a.html")
    assert page.text.startswith("xxx")
    assert page.note.endswith("some of its text is missing.")
    (tmp_path / "a.html").write_bytes(b"<html>" + b"<b>x</i>" * 50)
    assert read_here(tmp_path / "a.html").note == ""
