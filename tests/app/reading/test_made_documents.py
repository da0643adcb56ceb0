"""Documents by the programs that people have them from (`tests/files/documents/make.py`): all of
the text, in order, with the pages, sheets and chapters that it has."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path

import pytest
from each import each

from app.reading.document import (
    DOCX,
    EPUB,
    HTML,
    ODP,
    ODS,
    ODT,
    PDF,
    PPTX,
    XLSX,
    Document,
    DocumentRefused,
)

MADE = Path(__file__).parents[2] / "files" / "documents"

OFFICE = """[Header] Ada's notes

# Efficient offices

# 1. Introduction

The first flight of an office[^1] is affluent & fine.

[^1]: Measured in 2026.

## 1.1 Steps

1. Fill the form
  a) in ink
  b) twice
2. Send it
- one dot
- another dot

| Fruit | Prices |  |
| --- | --- | --- |
| Apple | 1.20 | 2\\|40 |

# 2. Other scripts

שלום 123 עולם.

مرحبا بالعالم، السلام عليكم.

日本語の文章です。漢字とかな。

The second page
has two lines."""

# LibreOffice prints a deletion struck through, and exports it so.
OFFICE_PDF = """[Page 1]

Ada's notes
Efficient offices
1.Introduction
The first flight of an office1 is affluent & fine.a word that was deleted
1.1Steps
1.Fill the form
a)in ink
b)twice
2.Send it
•one dot
•another dot
Fruit Prices
Apple 1.20 2|40
2.Other scripts
שלום 123 עולם.
مرحبا بالعالم، السلام عليكم.
日本語の文章です。漢字とかな。
1 Measured in 2026.
1

[Page 2]

Ada's notes
The second page
has two lines.
2"""

OFFICE_EPUB = """Efficient offices

Introduction

The first flight of an office1 is affluent & fine.a word that was deleted

Steps

Fill the form

in ink

twice

Send it

one dot

another dot

| Fruit | Prices |  |
| --- | --- | --- |
| Apple | 1.20 | 2\\|40 |

1Measured in 2026.

Other scripts

שלום 123 עולם.

مرحبا بالعالم، السلام عليكم.

日本語の文章です。漢字とかな。

The second page
has two lines."""

OFFICE_HTML = """Ada's notes

Efficient offices

# 1.Introduction

The first flight of an office1 is affluent & fine.a word that was deleted

## 1.1Steps

1. Fill the form
  1. in ink
  2. twice
2. Send it
- one dot
- another dot

| Fruit | Prices |  |
| --- | --- | --- |
| Apple | 1.20 | 2\\|40 |

# 2.Other scripts

שלום 123 עולם.

مرحبا بالعالم، السلام عليكم.

日本語の文章です。漢字とかな。

The second page
has two lines.

1Measured in 2026.

2"""

PANDOC = """# Written with pandoc

# First chapter

Some emphasis, code and a note.[^1]

[^1]: What the note says.

1. one
2. two
  - inner

| Name | Size |
| --- | --- |
| Alpha | 1 |
| Beta | 2 |

# Second chapter

A quotation.

The end."""

PANDOC_EPUB = """# Written with pandoc

# First chapter

Some emphasis, code and a note.1

1. one
2. two
  - inner

| Name | Size |
| --- | --- |
| Alpha | 1 |
| Beta | 2 |

1. What the note says.↩︎

# Second chapter

> A quotation.

The end."""

TWO_COLUMNS = """[Page 1]

1 Introduction
The first column begins here. An efficient office affords five flights of afflicted waffles, and the
uncharacteristically overhyphenated internationalisation of misunderstandings extraordinarily \
disproportionately counterrevolutionarily goes on.1 COLUMN
ONE ENDS.
1A note at the foot.
2 Results
The second column starts here: a2 + b2 = c2 and
naïve café. COLUMN TWO ENDS.
1

[Page 2]

Page two goes on.
2"""

PRINTED = """[Page 1]

Printed by a browser
Column one: the first fluffy
office of five affairs, which is
long enough to be broken into
several lines of text, so that
there is something to put into
an order.
Column two comes after it,
with its own words, and is as
long as the other one, more or
less, if the browser fills both
to the same height.
Fruit Price
Apple 1.20
שלום עולם

[Page 2]

Page two of the print."""

SHEETS = """# Sales 2026

Day\tShare\tSum\tPrice\tAt
2026-03-09\t25.6%\t-1,234,567.89\t€1,234.50\t14:05

\t\t0.1

# Größe

two lines\t42"""

SLIDES = """[Slide 1]

# First slide

- one
  - inner
- two

[Notes] Say hello.

[Slide 2]

# Second slide

| Fruit | Price |
| --- | --- |
| Apple | 1.20 |"""

CHAPTERS = ["1. Introduction", "1.1 Steps", "2. Other scripts"]


@each(
    ("name", "media_type", "text", "labels"),
    [
        ("text.odt", ODT, OFFICE, ["Efficient offices", *CHAPTERS]),
        ("text.docx", DOCX, OFFICE, ["Efficient offices", *CHAPTERS]),
        ("text.pdf", PDF, OFFICE_PDF, ["page 1", "page 2"]),
        ("text.epub", EPUB, OFFICE_EPUB, ["Section 1", "Introduction", "Other scripts"]),
        ("text.html", HTML, OFFICE_HTML, ["1.Introduction", "1.1Steps", "2.Other scripts"]),
        ("pandoc.odt", ODT, PANDOC, ["Written with pandoc", "First chapter", "Second chapter"]),
        ("pandoc.docx", DOCX, PANDOC, ["Written with pandoc", "First chapter", "Second chapter"]),
        ("pandoc.epub", EPUB, PANDOC_EPUB, ["First chapter", "Second chapter"]),
        ("two_columns.pdf", PDF, TWO_COLUMNS, ["page 1", "page 2"]),
        ("page.pdf", PDF, PRINTED, ["page 1", "page 2"]),
        ("sheets.xlsx", XLSX, SHEETS, ["Sales 2026", "Größe"]),
        ("sheets.ods", ODS, SHEETS, ["Sales 2026", "Größe"]),
        # its author asks viewers not to copy, and nobody for a password
        ("restricted.pdf", PDF, "[Page 1]\n\nKept from others.", ["page 1"]),
        ("slides.pptx", PPTX, SLIDES, ["slide 1", "slide 2"]),
        ("slides.odp", ODP, SLIDES, ["slide 1", "slide 2"]),
        ("gnumeric.xlsx", XLSX, SHEETS, ["Sales 2026", "Größe"]),
    ],
)
def test_a_document_is_read_as_it_is_shown(
    name: str,
    media_type: str,
    text: str,
    labels: list[str],
    read_here: Callable[[Path], Document],
) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # openpyxl says what a file lacks
        document = read_here(MADE / name)
    assert document.text == text
    assert (document.name, document.media_type, document.note) == (name, media_type, "")
    assert document.size_bytes == (MADE / name).stat().st_size
    assert [place.label for place in document.places] == labels
    for place in document.places:
        head = text[place.start :].lstrip("#[ ").partition("\n")[0]
        is_there = head.lower().startswith(place.label.lower()) or place.label == "Section 1"
        assert is_there, "a place begins with its words"


def test_one_with_a_password_is_refused(read_here: Callable[[Path], Document]) -> None:
    with pytest.raises(DocumentRefused, match="protected with a password"):
        read_here(MADE / "locked.pdf")
