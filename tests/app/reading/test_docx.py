"""What Word writes and others do not: pages, tracked changes, controls, boxes, clauses' numbers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from each import each
from zips import W, docx

from app.reading.document import Document, Place

R = "<w:r><w:t>{}</w:t></w:r>"
P = f"<w:p>{R}</w:p>"


def paragraph(*parts: str) -> str:
    return f"<w:p>{''.join(parts)}</w:p>"


def row(*cells: str) -> str:
    """A cell's properties, if any, stand before its first paragraph."""
    return f"<w:tr>{''.join(f'<w:tc>{cell}</w:tc>' for cell in cells)}</w:tr>"


def merged(how: str) -> str:
    return f"<w:tcPr><w:{how}/></w:tcPr>"


@pytest.fixture
def read(read_here: Callable[[Path], Document], tmp_path: Path) -> Callable[..., Document]:
    def read_docx(body: str, parts: Any = None) -> Document:
        path = tmp_path / "a.docx"
        path.write_bytes(docx(body, parts))
        return read_here(path)

    return read_docx


BOX = f"<w:txbxContent>{P.format('box')}</w:txbxContent>"


@each(
    ("body", "text"),
    [
        # tracked changes, as if all were accepted
        (
            paragraph(
                f"<w:ins>{R.format('new ')}</w:ins>",
                "<w:del><w:r><w:delText>old</w:delText></w:r></w:del>",
                R.format("end"),
            ),
            "new end",
        ),
        (
            f"<w:moveFrom>{P.format('x')}</w:moveFrom><w:moveTo>{P.format('moved')}</w:moveTo>",
            "moved",
        ),
        # within content controls, links and fields
        (
            f"<w:sdt><w:sdtPr/><w:sdtContent>{P.format('in')}</w:sdtContent></w:sdt>",
            "in",
        ),
        (
            paragraph(
                f"<w:hyperlink>{R.format('a link')}</w:hyperlink>",
                "<w:r><w:instrText>PAGE</w:instrText></w:r>",
                f"<w:fldSimple>{R.format(' 7')}</w:fldSimple>",
            ),
            "a link 7",
        ),
        # a box's text comes once, after its paragraph
        (
            paragraph(
                R.format("before"),
                f"<w:r><c:AlternateContent xmlns:c='c'><c:Choice>{BOX}</c:Choice>",
                f"<c:Fallback>{BOX}</c:Fallback></c:AlternateContent></w:r>",
                R.format(" after"),
            ),
            "before after\n\nbox",
        ),
        (
            paragraph("<w:r><w:drawing><d:docPr xmlns:d='d' descr='A cat'/></w:drawing></w:r>"),
            "[Picture: A cat]",
        ),
        (paragraph("<m:oMath xmlns:m='m'><m:r><m:t>a+b</m:t></m:r></m:oMath>"), "a+b"),
        (
            paragraph(
                "<w:r><w:t>one</w:t><w:tab/><w:t>two</w:t><w:br/><w:t>three</w:t>",
                "<w:noBreakHyphen/><w:sym w:char='03B1'/><w:sym w:char='F0B7'/></w:r>",
            ),
            "one\ttwo\nthree-α",
        ),
        (
            paragraph(
                f"<w:r><w:ruby><w:rt>{R.format('kan')}</w:rt>",
                f"<w:rubyBase>{R.format('漢')}</w:rubyBase></w:ruby></w:r>",
            ),
            "漢",
        ),
        # cells that reach down and across, one with two paragraphs
        (
            "<w:tbl>"
            + row(
                merged("vMerge w:val='restart'") + P.format("A"),
                merged("gridSpan w:val='2'") + P.format("B"),
            )
            + row(merged("vMerge") + P.format("A"), P.format("c") + P.format("d"), P.format("e"))
            + "</w:tbl>",
            "| A | B |  |\n| --- | --- | --- |\n|  | c d | e |",
        ),
        # a table of one cell is a frame
        (f"<w:tbl>{row(P.format('one') + P.format('two'))}</w:tbl>", "one\n\ntwo"),
        (
            "<w:tbl>"
            + row(
                f"{P.format('x')}<w:tbl>{row(P.format('1'), P.format('2'))}</w:tbl>",
                P.format("y"),
            )
            + "</w:tbl>",
            "| x 1 · 2 | y |\n| --- | --- |",
        ),
    ],
)
def test_the_text_is_what_word_shows(body: str, text: str, read: Callable[..., Document]) -> None:
    assert read(body).text == text


def test_a_table_ends_with_its_page_and_goes_on_upon_the_next(
    read: Callable[..., Document],
) -> None:
    begins = paragraph("<w:r><w:lastRenderedPageBreak/><w:t>c</w:t></w:r>")
    within = paragraph(R.format("e"), "<w:r><w:lastRenderedPageBreak/><w:t>f</w:t></w:r>")
    rows = row(P.format("a"), P.format("b")) + row(begins, P.format("d")) + row(within, within)
    outline = "| {} | {} |\n| --- | --- |"
    assert read(f"<w:tbl>{rows}</w:tbl>{P.format('after')}").text.split("\n\n") == [
        "[Page 1]",
        outline.format("a", "b"),
        "[Page 2]",
        outline.format("c", "d") + "\n| ef | ef |",
        "[Page 3]",
        "[Page 4]",
        "after",
    ]
    layout = row(P.format("a") + begins + P.format("b"))
    assert read(f"<w:tbl>{layout}</w:tbl>").text.split("\n\n") == (
        ["[Page 1]", "a", "[Page 2]", "c", "b"]
    )


def test_pages_are_those_of_words_last_layout(read: Callable[..., Document]) -> None:
    turn = "<w:lastRenderedPageBreak/>"
    body = (
        P.format("first")
        + f"<w:p><w:r>{turn}<w:t>second</w:t></w:r></w:p>"
        + f"<w:p>{R.format('goes on')}<w:r>{turn}<w:t> to the third</w:t></w:r></w:p>"
        + P.format("third")
    )
    document = read(body)
    assert document.text == (
        "[Page 1]\n\nfirst\n\n[Page 2]\n\nsecond\n\ngoes on to the third\n\n[Page 3]\n\nthird"
    )
    assert document.places == (Place(0, "page 1"), Place(17, "page 2"), Place(57, "page 3"))


NUMBERING = f"""<w:numbering xmlns:w="{W}">
<w:abstractNum w:abstractNumId="1">
 <w:lvl w:ilvl="0"><w:start w:val="3"/>
  <w:numFmt w:val="upperRoman"/><w:lvlText w:val="§ %1"/></w:lvl>
 <w:lvl w:ilvl="1"><w:numFmt w:val="lowerLetter"/><w:lvlText w:val="%1 (%2)"/></w:lvl>
 <w:lvl w:ilvl="2"><w:numFmt w:val="bullet"/><w:lvlText w:val=""/></w:lvl></w:abstractNum>
<w:num w:numId="5"><w:abstractNumId w:val="1"/></w:num>
<w:num w:numId="6"><w:abstractNumId w:val="1"/>
 <w:lvlOverride w:ilvl="0"><w:startOverride w:val="1"/></w:lvlOverride></w:num></w:numbering>"""

STYLES = f"""<w:styles xmlns:w="{W}">
<w:style w:styleId="H1"><w:name w:val="heading 1"/></w:style>
<w:style w:styleId="Own"><w:name w:val="Own"/><w:basedOn w:val="H1"/></w:style>
<w:style w:styleId="Deep"><w:name w:val="Deep"/><w:pPr><w:outlineLvl w:val="2"/></w:pPr></w:style>
<w:style w:styleId="Unseen"><w:name w:val="Unseen"/><w:rPr><w:vanish/></w:rPr></w:style>
<w:style w:styleId="Seen"><w:name w:val="Seen"/><w:basedOn w:val="Unseen"/>
<w:rPr><w:vanish w:val="0"/></w:rPr></w:style>
<w:style w:styleId="Loop"><w:basedOn w:val="Loop"/></w:style></w:styles>"""


def test_clauses_have_the_numbers_that_are_shown(read: Callable[..., Document]) -> None:
    def item(text: str, level: int, number: int = 5, style: str = "") -> str:
        own = f"<w:pStyle w:val='{style}'/>" if style else ""
        listed = f"<w:numPr><w:ilvl w:val='{level}'/><w:numId w:val='{number}'/></w:numPr>"
        return f"<w:p><w:pPr>{own}{listed}</w:pPr>{R.format(text)}</w:p>"

    body = (
        item("Scope", 0, style="Own")
        + item("who", 1)
        + item("what", 1)
        + item("dot", 2)
        + P.format("between")
        + item("Term", 0, style="H1")
        + item("when", 1)
        + item("Annex", 0, number=6)
        + "<w:p><w:pPr><w:pStyle w:val='Deep'/></w:pPr><w:r><w:t>Third</w:t></w:r></w:p>"
        + "<w:p><w:pPr><w:pStyle w:val='Loop'/></w:pPr><w:r><w:t>plain</w:t></w:r></w:p>"
    )
    document = read(body, {"word/numbering.xml": NUMBERING, "word/styles.xml": STYLES})
    assert document.text.split("\n\n") == [
        "# § III Scope",
        "  III (a) who\n  III (b) what\n    - dot",
        "between",
        "# § IV Term",
        "  IV (a) when\n§ I Annex",
        "### Third",
        "plain",
    ]
    assert [place.label for place in document.places] == ["§ III Scope", "§ IV Term", "Third"]


def test_the_strict_variant_has_other_names_for_the_same(
    read_here: Callable[[Path], Document], tmp_path: Path
) -> None:
    raw = docx(P.format("strict"), names="urn:purl:ooxml:wordprocessingml:main")
    (tmp_path / "a.docx").write_bytes(raw)
    assert read_here(tmp_path / "a.docx").text == "strict"


def test_what_is_hidden_is_left_out(read: Callable[..., Document]) -> None:
    def run(text: str, properties: str) -> str:
        return f"<w:r><w:rPr>{properties}</w:rPr><w:t>{text}</w:t></w:r>"

    def styled(style: str, *runs: str) -> str:
        return paragraph(f'<w:pPr><w:pStyle w:val="{style}"/></w:pPr>', *runs)

    own = "<w:footnoteReference w:id='2'/>"
    body = (
        paragraph(R.format("seen"), run("unseen", "<w:vanish/>"), f"<w:r>{own}</w:r>")
        + paragraph(run("unseen", '<w:rStyle w:val="Unseen"/>'))
        + styled("Unseen", R.format("unseen"), run(" but", '<w:vanish w:val="false"/>'))
        + styled("Seen", R.format("seen, too"))
    )
    note = f"<w:footnote w:id='2'>{paragraph(run('unseen', '<w:vanish/>'), R.format('x'))}"
    notes = f'<w:footnotes xmlns:w="{W}">{note}</w:footnote></w:footnotes>'
    parts = {"word/styles.xml": STYLES, "word/footnotes.xml": notes}
    assert read(body, parts).text == "seen[^1]\n\n[^1]: x\n\nbut\n\nseen, too"
