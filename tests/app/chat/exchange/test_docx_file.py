"""The Word document, read back by python-docx."""

from __future__ import annotations

import io
import zipfile
from dataclasses import replace
from typing import Any

import lxml.etree
from docx import Document
from docx.shared import Mm
from exported_chats import NOON, png, rich_chat

from app.chat.exchange import docx_file
from app.chat.exchange.choices import Choices

ID = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}id"
W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"


def written(chat: Any = None, **options: Any) -> tuple[Any, bytes]:
    file = io.BytesIO()
    docx_file.write(file, chat or rich_chat(), Choices("docx", **options), NOON)
    return Document(io.BytesIO(file.getvalue())), file.getvalue()


def test_all_is_there_in_order_and_in_its_style() -> None:
    document, data = written(branches=True)
    assert document.core_properties.title == "Primes & <b>more</b>"
    told = [(each.style.name, each.text) for each in document.paragraphs if each.text]
    assert told[0] == ("Title", "Primes & <b>more</b>")
    heads = [text for style, text in told if style == "Heading 2"]
    assert [head.partition(" · ")[0] for head in heads[:5]] == [
        *("System prompt", "You", "SmolLM2", "You", "Assistant")
    ]
    assert ("Heading 1", "Branch 1") in told
    assert ("Dim", "Goes on after message 1.") in told
    assert ("Heading 3", "Prime numbers") in told
    assert ("Reasoning", "I think of $x$.") in told
    numbered = [text for style, text in told if style.startswith("List")]
    assert numbered == [
        *("Write the numbers.", "Cross out multiples:", "of 2", "of 3", "and so on"),
        *("What is left is prime.", "☑\tdone", "☐\tto do"),
    ]
    code = next(text for style, text in told if style == "Code" and "def primes" in text)
    assert code.splitlines()[0] == "def primes(n):  # a comment"
    assert any("$$\\sum" in text for _, text in told)
    assert ("Dim", "Attached: paper.pdf · page 12, page 3") in told
    (table,) = document.tables
    rows = [[cell.text for cell in row.cells] for row in table.rows]
    assert rows == [["n", "primes", "share"], ["10", "4", "40%"], ["100", "25", "25%"]]
    assert len(document.inline_shapes) == 1
    bold = [run.text for each in document.paragraphs for run in each.runs if run.bold]
    assert "sieve" in bold
    hostile = [text for _, text in told if "<script>alert(1)</script>" in text]
    assert len(hostile) == 3
    assert all("\x00" not in text for text in hostile)
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        relations = archive.read("word/_rels/document.xml.rels").decode()
        assert relations.count('TargetMode="External"') == 1
        assert "https://example.org/sieve?a=1&amp;b=2" in relations
        for name in archive.namelist():
            if name.endswith((".xml", ".rels")):
                lxml.etree.fromstring(archive.read(name))


def test_numbers_begin_anew_with_each_list() -> None:
    chat = rich_chat()
    chat.whole.messages[1].__class__  # noqa: B018
    source = "1. a\n2. b\n\ntext\n\n7. c\n8. d\n"
    writer = docx_file._Writer(chat, Choices("docx"))
    writer._text(source)
    numbering = writer.document.part.numbering_part.element
    ids = [
        each._p.pPr.numPr.numId.val for each in writer.document.paragraphs if each.text in "abcd"
    ]
    assert ids[0] == ids[1] != ids[2] == ids[3]
    starts = [
        numbering.num_having_numId(each).find(f"{W}lvlOverride/{W}startOverride").get(f"{W}val")
        for each in (ids[0], ids[2])
    ]
    assert starts == ["1", "7"]


def test_text_that_runs_from_right_to_left_says_so() -> None:
    document, _ = written()
    arabic = next(each for each in document.paragraphs if "العربية" in each.text)
    assert arabic._p.pPr.find(f"{W}bidi") is not None


def test_links_are_told_once_and_no_longer_than_word_takes_them() -> None:
    chat = rich_chat()
    long = "https://e.test/" + "y" * 3000
    text = f"[a](https://e.test/1) [b](https://e.test/2) [c](https://e.test/1) [d]({long})"
    reply = replace(chat.whole.messages[1], content=text)
    chat.whole = replace(chat.whole, messages=(chat.whole.messages[0], reply))
    document, _ = written(chat)
    links = document.element.body.iter(f"{W}hyperlink")
    shown = {link.xpath("string()"): document.part.rels[link.get(ID)].target_ref for link in links}
    first, second = "https://e.test/1", "https://e.test/2"
    assert shown == {"a": first, "b": second, "c": first}
    assert any("d" in each.text for each in document.paragraphs)


def test_a_picture_has_room_on_its_page() -> None:
    chat = rich_chat()
    (name,) = chat.store._files
    for size in ((2, 3000), (3000, 2), (4, 3)):
        chat.store._files[name] = png(*size)
        (shape,) = written(chat)[0].inline_shapes
        assert 0 < shape.width <= Mm(166)
        assert 0 < shape.height <= docx_file.MOST_PICTURE


def test_reasoning_can_be_left_out() -> None:
    document, _ = written(reasoning=False)
    assert not [each for each in document.paragraphs if each.style.name == "Reasoning"]
    assert any("[2, 3, 5]" in each.text for each in document.paragraphs)
