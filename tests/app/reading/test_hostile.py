"""Files that nobody should have written: each costs a sentence, or gives the text that it has."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from each import each
from pdfs import PICTURE, assembled, form, pdf, stream
from zips import claiming, docx, encrypted, epub, office, opendocument, zipped

from app.reading import child
from app.reading.child import answer
from app.reading.document import MAX_FILE_BYTES
from app.reading.messages import DocumentNotRead, DocumentRead, ReadDocument

ENTITIES = "".join(
    f'<!ENTITY e{n} "{f"&e{n - 1};" * 10 if n else "laugh" * 10}">' for n in range(12)
)
LAUGHS = f"<!DOCTYPE x [{ENTITIES}]>"
OUTSIDE = '<!DOCTYPE x [<!ENTITY out SYSTEM "file:///etc/passwd">]>'
P = "<w:p><w:r><w:t>{}</w:t></w:r></w:p>"
CELL = '<table:table-cell table:number-columns-repeated="{}">{}</table:table-cell>'
ROW = (
    '<table:table><table:table-row table:number-rows-repeated="1048576">{}</table:table-row>'
    "</table:table>"
)
LOCKED = {"META-INF/manifest.xml": "<m><encryption-data/></m>"}
DRM = {"META-INF/encryption.xml": '<e><EncryptionMethod Algorithm="aes"/></e>'}
CATALOG = b"<</Type/Catalog/Pages 2 0 R>>"


def unheard(done: int, total: int) -> None:
    pass


@pytest.fixture(autouse=True)
def without_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """This process goes on."""
    monkeypatch.setattr(child, "limit_process", lambda: None)


@each(
    ("name", "raw", "kind"),
    [
        # wrong types, empty ones, what is protected
        ("a.pdf", b"%PDF-1.7\n" + b"\xff" * 5000, "Damaged"),
        ("cut.pdf", pdf(["Hello"])[:200], "Damaged"),
        ("old.doc", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + b"W" * 600, "Old Office format"),
        (
            "locked.docx",
            b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + "EncryptedPackage".encode("utf-16-le"),
            "Protected with a password",
        ),
        ("key.docx", encrypted(docx(P.format("x"))), "Protected with a password"),
        ("key.odt", opendocument("text", "", LOCKED), "Protected with a password"),
        ("a.zip", zipped({"x.txt": "x"}), "Archive"),
        ("empty.zip", zipped({}), "Archive"),
        ("cut.docx", docx(P.format("x"))[:-40], "Damaged"),
        ("slides.pptx", zipped(office("ppt/presentation.xml")), "Damaged"),
        ("drawing.odg", opendocument("graphics", ""), "Not supported"),
        ("no text.docx", docx("<w:p/>"), "No text"),
        ("page.html", b"<html><script>1</script><body><br></body></html>", "No text"),
        ("scan.pdf", pdf([PICTURE, PICTURE]), "No text (scanned)"),
        ("blank.pdf", pdf(["", ""]), "No text"),
        ("none.pdf", pdf([]), "Damaged"),
        ("drm.epub", epub({"a.xhtml": "<p>x</p>"}, DRM), "Copy-protected"),
        # archives that claim too much
        (
            "claims.docx",
            claiming(docx(P.format("x")), "word/document.xml", 0x7FFF_FFFF),
            "Too large unpacked",
        ),
        (
            "parts.docx",
            docx(P.format("x"), {f"x{n}": "" for n in range(20_001)}),
            "Too large unpacked",
        ),
        ("missing.docx", zipped(office("word/document.xml")), "Damaged"),
        (
            "not.docx",
            zipped(office("word/document.xml") | {"word/document.xml": "no XML"}),
            "Damaged",
        ),
        ("sheets.xlsx", zipped(office("xl/workbook.xml") | {"xl/workbook.xml": "<x/>"}), "Damaged"),
        # XML that nests, or repeats, without end
        ("deep.docx", docx("<w:sdt>" * 5000 + "</w:sdt>" * 5000), "Damaged"),
        ("laughs.docx", docx(P.format("so &e11; funny"), head=LAUGHS), "Damaged"),
        (
            "wide.ods",
            opendocument("spreadsheet", ROW.format(CELL.format(16_384, "<text:p>x</text:p>"))),
            "More text than 8 MB",
        ),
        ("void.ods", opendocument("spreadsheet", ROW.format(CELL.format(16_384, ""))), "No text"),
        # pages that go round in circles, or are not there
        (
            "round.pdf",
            assembled([CATALOG, b"<</Type/Pages/Kids[2 0 R 2 0 R]/Count 2>>"]),
            "No text (scanned)",
        ),
        ("many.pdf", assembled([CATALOG, b"<</Type/Pages/Kids[]/Count 2000000000>>"]), "Damaged"),
    ],
)
def test_it_is_refused_in_words(name: str, raw: bytes, kind: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(raw)
    reply = answer(ReadDocument(str(tmp_path / name), name), unheard)
    assert isinstance(reply, DocumentNotRead), reply
    assert reply.kind == kind
    assert name in reply.sentence
    assert reply.sentence.endswith(".")


@each(
    ("name", "raw", "text"),
    [
        ("laughs.epub", epub({"a.xhtml": f"{LAUGHS}<p>&e11;"}), "]>\n\n&e11;"),
        ("out.docx", docx(P.format("see &out; there"), head=OUTSIDE), "see"),
        ("out.epub", epub({"a.xhtml": f"{OUTSIDE}<p>see &out; there</p>"}), "see"),
        (
            "names.docx",
            docx(P.format("kept"), {"../../../up.txt": "x", "/etc/root.txt": "x", "a\0b": "x"}),
            "kept",
        ),
        ("is a pdf.docx", pdf(["Right"]), "[Page 1]\n\nRight"),
        ("late.pdf", b"\n" * 900 + pdf(["Late"]), "[Page 1]\n\nLate"),
        ("deep.html", b"<html>" + b"<div>" * 2000 + b"deep", "deep"),
        ("tables.html", b"<html>" + b"<table><tr><td>" * 30 + b"in", "in"),
        (
            "wide.html",
            b"<html><table><tr><td colspan=999999999 rowspan=999999999>a<td>b",
            "| a | b |\n| --- | --- |",
        ),
        ("twice.epub", epub({"a.xhtml": "<p>once</p>", "../OPS/a.xhtml": "<p>twice</p>"}), "once"),
        ("form.pdf", form("Name:", "Ada"), "[Page 1]\n\nName:\nAda"),
        (
            "launch.pdf",
            pdf(["Text"], [stream(b"x"), b"<</S/Launch/F(calc.exe)>>"], b"/OpenAction 7 0 R"),
            "[Page 1]\n\nText",
        ),
        (
            "endless.pdf",
            pdf([b"BT /F1 9 Tf (Seen) Tj ET /X Do " + b"q " * 9000]),
            "[Page 1]\n\nSeen",
        ),
        (
            "lies.pdf",
            pdf(["Length"]).replace(b"/Length ", b"/Length 20000000"),
            "[Page 1]\n\nLength",
        ),
    ],
)
def test_its_text_is_read(name: str, raw: bytes, text: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(raw)
    reply = answer(ReadDocument(str(tmp_path / name), name), unheard)
    assert isinstance(reply, DocumentRead), reply
    assert reply.text.startswith(text)
    assert len(reply.text) < len(text) + 10, "nothing was put in"
    assert [each.name for each in tmp_path.iterdir()] == [name]
    (tmp_path / name).unlink()


@pytest.mark.skipif(os.name == "nt", reason="pipes in the file system")
def test_what_is_no_plain_file_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.pdf")
    (tmp_path / "large.pdf").write_bytes(b"%PDF-1.7")
    os.truncate(tmp_path / "large.pdf", 2 * MAX_FILE_BYTES)  # nothing is written
    (tmp_path / "zero.pdf").symlink_to("/dev/zero")
    kinds = {}
    for name in ("pipe.pdf", "large.pdf", "zero.pdf", "gone.pdf", "."):
        reply = answer(ReadDocument(str(tmp_path / name), name), unheard)
        assert isinstance(reply, DocumentNotRead)
        kinds[name] = reply.kind
    assert kinds == {
        "pipe.pdf": "Not a regular file",
        "large.pdf": "Larger than 256 MB",
        "zero.pdf": "Not a regular file",
        "gone.pdf": "Missing",
        ".": "Folder",
    }
