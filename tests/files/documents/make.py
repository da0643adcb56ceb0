"""Makes the documents beside this file, each by the program that people have it from.

    python tests/files/documents/make.py        # Debian 12: see PROGRAMS

They are kept, since the tests ask for none of these programs. What each holds is written out here
once, and what should be read out of it in `tests/app/reading/test_made_documents.py`.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
from datetime import datetime
from pathlib import Path

import openpyxl

HERE = Path(__file__).parent
PROGRAMS = {
    "soffice": "LibreOffice 7.4.7",
    "pdflatex": "pdfTeX 1.40.24 (TeX Live 2022)",
    "chromium": "Chromium 156",
    "ssconvert": "Gnumeric 1.12.55",
    "pandoc": "pandoc 2.17.1",
}

HEAD = """<?xml version="1.0" encoding="UTF-8"?>
<office:document xmlns:office="urn:oasis:names:tc:opendocument:xmlns:office:1.0"
 xmlns:style="urn:oasis:names:tc:opendocument:xmlns:style:1.0"
 xmlns:text="urn:oasis:names:tc:opendocument:xmlns:text:1.0"
 xmlns:table="urn:oasis:names:tc:opendocument:xmlns:table:1.0"
 xmlns:fo="urn:oasis:names:tc:opendocument:xmlns:xsl-fo-compatible:1.0"
 xmlns:number="urn:oasis:names:tc:opendocument:xmlns:datastyle:1.0"
 xmlns:of="urn:oasis:names:tc:opendocument:xmlns:of:1.2"
 xmlns:dc="http://purl.org/dc/elements/1.1/"
 office:version="1.3" """

TEXT = (
    HEAD
    + """office:mimetype="application/vnd.oasis.opendocument.text">
<office:styles>
 <style:style style:name="Standard" style:family="paragraph"/>
 <style:style style:name="Title" style:family="paragraph" style:parent-style-name="Standard"/>
 <style:style style:name="Heading_20_1" style:display-name="Heading 1" style:family="paragraph"
  style:parent-style-name="Standard" style:default-outline-level="1"/>
 <style:style style:name="Heading_20_2" style:display-name="Heading 2" style:family="paragraph"
  style:parent-style-name="Standard" style:default-outline-level="2"/>
 <text:outline-style style:name="Outline">
  <text:outline-level-style text:level="1" style:num-format="1" style:num-suffix="."/>
  <text:outline-level-style text:level="2" style:num-format="1" text:display-levels="2"/>
 </text:outline-style>
</office:styles>
<office:automatic-styles>
 <style:style style:name="Break" style:family="paragraph" style:parent-style-name="Standard">
  <style:paragraph-properties fo:break-before="page"/></style:style>
 <style:style style:name="Right" style:family="paragraph" style:parent-style-name="Standard">
  <style:paragraph-properties style:writing-mode="rl-tb"/></style:style>
 <text:list-style style:name="Steps">
  <text:list-level-style-number text:level="1" style:num-format="1" style:num-suffix="."/>
  <text:list-level-style-number text:level="2" style:num-format="a" style:num-suffix=")"/>
 </text:list-style>
 <text:list-style style:name="Dots">
  <text:list-level-style-bullet text:level="1" text:bullet-char="•"/>
 </text:list-style>
 <style:page-layout style:name="Page"><style:header-style/><style:footer-style/></style:page-layout>
</office:automatic-styles>
<office:master-styles>
 <style:master-page style:name="Standard" style:page-layout-name="Page">
  <style:header><text:p>Ada's notes</text:p></style:header>
  <style:footer><text:p><text:page-number>1</text:page-number></text:p></style:footer>
 </style:master-page>
</office:master-styles>
<office:body><office:text text:use-soft-page-breaks="true">
 <text:tracked-changes><text:changed-region text:id="ct1"><text:deletion>
  <office:change-info><dc:creator>Ada</dc:creator><dc:date>2026-01-02T03:04:05</dc:date>
  </office:change-info><text:p>a word that was deleted</text:p></text:deletion>
 </text:changed-region></text:tracked-changes>
 <text:p text:style-name="Title">Efficient offices</text:p>
 <text:h text:style-name="Heading_20_1" text:outline-level="1">Introduction</text:h>
 <text:p>The first flight of an office<text:note text:note-class="footnote"
  ><text:note-citation>1</text:note-citation><text:note-body><text:p>Measured in 2026.</text:p
  ></text:note-body></text:note> is <text:span>affluent</text:span> &amp; fine.<text:change
  text:change-id="ct1"/></text:p>
 <text:h text:style-name="Heading_20_2" text:outline-level="2">Steps</text:h>
 <text:list text:style-name="Steps">
  <text:list-item><text:p>Fill the form</text:p>
   <text:list><text:list-item><text:p>in ink</text:p></text:list-item>
    <text:list-item><text:p>twice</text:p></text:list-item></text:list></text:list-item>
  <text:list-item><text:p>Send it</text:p></text:list-item>
 </text:list>
 <text:list text:style-name="Dots">
  <text:list-item><text:p>one dot</text:p></text:list-item>
  <text:list-item><text:p>another dot</text:p></text:list-item>
 </text:list>
 <table:table table:name="Prices"><table:table-column table:number-columns-repeated="3"/>
  <table:table-row><table:table-cell><text:p>Fruit</text:p></table:table-cell>
   <table:table-cell table:number-columns-spanned="2"><text:p>Prices</text:p></table:table-cell>
   <table:covered-table-cell/></table:table-row>
  <table:table-row><table:table-cell><text:p>Apple</text:p></table:table-cell>
   <table:table-cell><text:p>1.20</text:p></table:table-cell>
   <table:table-cell><text:p>2|40</text:p></table:table-cell></table:table-row>
 </table:table>
 <text:h text:style-name="Heading_20_1" text:outline-level="1">Other scripts</text:h>
 <text:p text:style-name="Right">שלום 123 עולם.</text:p>
 <text:p text:style-name="Right">مرحبا بالعالم، السلام عليكم.</text:p>
 <text:p>日本語の文章です。漢字とかな。</text:p>
 <text:p text:style-name="Break">The second page<text:line-break/>has two lines.</text:p>
</office:text></office:body></office:document>
"""
)

SHEETS = (
    HEAD
    + """office:mimetype="application/vnd.oasis.opendocument.spreadsheet">
<office:automatic-styles>
 <number:date-style style:name="D"><number:year number:style="long"/><number:text>-</number:text>
  <number:month number:style="long"/><number:text>-</number:text><number:day number:style="long"/>
 </number:date-style>
 <number:percentage-style style:name="P"><number:number number:decimal-places="1"
  number:min-decimal-places="1" number:min-integer-digits="1"/><number:text>%</number:text>
 </number:percentage-style>
 <number:number-style style:name="N"><number:number number:decimal-places="2"
  number:min-decimal-places="2" number:min-integer-digits="1" number:grouping="true"/>
 </number:number-style>
 <number:currency-style style:name="C"><number:currency-symbol>€</number:currency-symbol>
  <number:number number:decimal-places="2" number:min-decimal-places="2"
   number:min-integer-digits="1" number:grouping="true"/></number:currency-style>
 <number:time-style style:name="T"><number:hours number:style="long"/><number:text>:</number:text>
  <number:minutes number:style="long"/></number:time-style>
 <style:style style:name="cD" style:family="table-cell" style:data-style-name="D"/>
 <style:style style:name="cP" style:family="table-cell" style:data-style-name="P"/>
 <style:style style:name="cN" style:family="table-cell" style:data-style-name="N"/>
 <style:style style:name="cC" style:family="table-cell" style:data-style-name="C"/>
 <style:style style:name="cT" style:family="table-cell" style:data-style-name="T"/>
</office:automatic-styles>
<office:body><office:spreadsheet>
 <table:table table:name="Sales 2026">
  <table:table-row>
   <table:table-cell office:value-type="string"><text:p>Day</text:p></table:table-cell>
   <table:table-cell office:value-type="string"><text:p>Share</text:p></table:table-cell>
   <table:table-cell office:value-type="string"><text:p>Sum</text:p></table:table-cell>
   <table:table-cell office:value-type="string"><text:p>Price</text:p></table:table-cell>
   <table:table-cell office:value-type="string"><text:p>At</text:p></table:table-cell>
  </table:table-row>
  <table:table-row>
   <table:table-cell table:style-name="cD" office:value-type="date"
    office:date-value="2026-03-09"/>
   <table:table-cell table:style-name="cP" office:value-type="percentage"
    office:value="0.256"/>
   <table:table-cell table:style-name="cN" office:value-type="float"
    office:value="-1234567.891"/>
   <table:table-cell table:style-name="cC" office:value-type="currency"
    office:value="1234.5"/>
   <table:table-cell table:style-name="cT" office:value-type="time"
    office:time-value="PT14H05M00S"/>
  </table:table-row>
  <table:table-row table:number-rows-repeated="3"><table:table-cell/></table:table-row>
  <table:table-row><table:table-cell table:number-columns-repeated="2"/>
   <table:table-cell office:value-type="float" office:value="0.1" table:formula="of:=0.4/4"/>
  </table:table-row>
 </table:table>
 <table:table table:name="Größe"><table:table-row>
  <table:table-cell office:value-type="string"><text:p>two</text:p
   ><text:p>lines</text:p></table:table-cell>
  <table:table-cell office:value-type="float" office:value="42"/></table:table-row></table:table>
</office:spreadsheet></office:body></office:document>
"""
)

TEX = r"""\documentclass[10pt,twocolumn]{article}
\usepackage[utf8]{inputenc}
\begin{document}
\section{Introduction}
The first column begins here. An efficient office affords five flights of afflicted waffles, and
the uncharacteristically overhyphenated internationalisation of misunderstandings extraordinarily
disproportionately counterrevolutionarily goes on.\footnote{A note at the foot.} COLUMN ONE ENDS.
\newpage
\section{Results}
The second column starts here: $a^2 + b^2 = c^2$ and na\"ive caf\'e. COLUMN TWO ENDS.
\newpage
Page two goes on.
\end{document}
"""

PAGE = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Printed</title><style>
@page { size: A5 } body { font: 11pt "DejaVu Serif" } .two { columns: 2 }
.next { break-before: page }</style></head><body><h1>Printed by a browser</h1>
<div class="two"><p>Column one: the first fluffy office of five affairs, which is long enough to be
broken into several lines of text, so that there is something to put into an order.</p>
<p>Column two comes after it, with its own words, and is as long as the other one, more or less, if
the browser fills both to the same height.</p></div>
<table><tr><th>Fruit</th><th>Price</th></tr><tr><td>Apple</td><td>1.20</td></tr></table>
<p dir="rtl" lang="he">שלום עולם</p><p class="next">Page two of the print.</p></body></html>
"""

MARKDOWN = """---
title: Written with pandoc
---

# First chapter

Some *emphasis*, `code` and a note.[^n]

[^n]: What the note says.

1. one
2. two
   - inner

Name   Size
-----  -----
Alpha   1
Beta    2

# Second chapter {#second}

> A quotation.

The end.
"""


SHORT = (
    HEAD
    + """office:mimetype="application/vnd.oasis.opendocument.text"><office:body><office:text>
<text:p>Kept from others.</text:p></office:text></office:body></office:document>
"""
)
SECRET = {"type": "string", "value": "secret"}
LOCKED = {"EncryptFile": {"type": "boolean", "value": "true"}, "DocumentOpenPassword": SECRET}
RESTRICTED = {
    "RestrictPermissions": {"type": "boolean", "value": "true"},
    "PermissionPassword": SECRET,
    "EnableCopyingOfContent": {"type": "boolean", "value": "false"},
}

SLIDES = """# First slide

- one
    - inner
- two

::: notes
Say hello.
:::

# Second slide

Fruit   Price
-----   -----
Apple   1.20
"""

NUMBERS = (0, 1, -1, 42, 0.256, 0.5, 1234567.891, -1234.5, 0.1 + 0.2, 1e-7, 1e15, -0.004)
NUMBER_CODES = (
    "General", "0", "0.00", "#,##0", "#,##0.00", "0%", "0.0%", "0.00E+00", "0.0##", "#.##",
    "000", '0.0 "kg"', "$#,##0.00", "[$€-407] #,##0.00", "#,##0 [$kr-41D]",
    "#,##0.00;[Red]-#,##0.00", "0;(0)", '0;-0;"none"', "#,##0,", '"#"0', "_-* #,##0.00_-", "@",
)  # fmt: skip
MOMENTS = [
    datetime.fromisoformat(moment)
    for moment in ("2026-03-09T14:05:07", "1999-12-31T00:00:00", "2024-02-29T09:30:59")
]
DATE_CODES = (
    "yyyy-mm-dd", "dd/mm/yyyy", "d.m.yy", "mmm d, yyyy", "dddd, mmmm d", "hh:mm", "h:mm AM/PM",
    "hh:mm:ss", "yyyy-mm-dd hh:mm", "mm:ss", "ddd dd mmm", 'yyyy"年"m"月"',
)  # fmt: skip


def write_formats(path: Path) -> None:
    """Each value under each code; what LibreOffice shows for them is kept beside it."""
    book = openpyxl.Workbook()
    sheet = book.active
    assert sheet is not None
    for values, codes in ((NUMBERS, NUMBER_CODES), (MOMENTS, DATE_CODES)):
        for code in codes:
            sheet.append([code, *values])
            for cell in sheet[sheet.max_row][1:]:
                cell.number_format = code
    sheet.column_dimensions["A"].width = 30
    for letter in "BCDEFGHIJKLM":
        sheet.column_dimensions[letter].width = 40
    book.save(path)


def run(*command: str, cwd: Path) -> None:
    subprocess.run(command, cwd=cwd, check=True, capture_output=True, timeout=180)


def main() -> None:
    for program in PROGRAMS:
        assert shutil.which(program), f"{program} is missing"
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        (work / "text.fodt").write_text(TEXT, "utf-8")
        (work / "sheets.fods").write_text(SHEETS, "utf-8")
        (work / "two_columns.tex").write_text(TEX, "utf-8")
        (work / "page.html").write_text(PAGE, "utf-8")
        (work / "pandoc.md").write_text(MARKDOWN, "utf-8")
        office = ("soffice", "--headless", f"-env:UserInstallation=file://{work}/profile")
        for source, kind in (
            ("text.fodt", "odt"),
            ("text.fodt", "docx"),
            ("text.fodt", "pdf"),
            ("text.fodt", "epub"),
            ("text.fodt", "html"),
            ("sheets.fods", "xlsx"),
            ("sheets.fods", "ods"),
        ):
            run(*office, "--convert-to", kind, source, cwd=work)
        write_formats(work / "formats.xlsx")
        csv = "csv:Text - txt - csv (StarCalc):9,34,76,1,,0,false,true"
        run(*office, "--convert-to", csv, "formats.xlsx", cwd=work)
        run("ssconvert", "sheets.ods", "gnumeric.xlsx", cwd=work)
        run("pandoc", "pandoc.md", "-o", "pandoc.docx", cwd=work)
        run("pandoc", "pandoc.md", "-o", "pandoc.epub", cwd=work)
        run("pandoc", "pandoc.md", "-o", "pandoc.odt", cwd=work)
        (work / "slides.md").write_text(SLIDES, "utf-8")
        run("pandoc", "slides.md", "-o", "slides.pptx", cwd=work)
        run(*office, "--convert-to", "odp", "slides.pptx", cwd=work)
        (work / "short.fodt").write_text(SHORT, "utf-8")
        for name, options in (("locked.pdf", LOCKED), ("restricted.pdf", RESTRICTED)):
            kind = f"pdf:writer_pdf_Export:{json.dumps(options)}"
            run(*office, "--convert-to", kind, "short.fodt", cwd=work)
            (work / "short.pdf").rename(work / name)
        run("pdflatex", "-interaction=batchmode", "two_columns.tex", cwd=work)
        flags = ("--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={work}/chromium")
        run(
            "chromium",
            *flags,
            "--no-pdf-header-footer",
            "--print-to-pdf=page.pdf",
            "page.html",
            cwd=work,
        )
        for name in MADE:
            shutil.copyfile(work / name, HERE / name)


MADE = (
    "text.odt", "text.docx", "text.pdf", "text.epub", "text.html", "sheets.xlsx", "sheets.ods",
    "gnumeric.xlsx", "pandoc.docx", "pandoc.epub", "pandoc.odt", "two_columns.pdf", "page.pdf",
    "formats.xlsx", "formats.csv", "slides.pptx", "slides.odp",
    "locked.pdf", "restricted.pdf",
)  # fmt: skip

if __name__ == "__main__":
    main()
