"""Pages that are turned, numbered, or filled in without their looks: as a viewer shows them."""

from __future__ import annotations

import pytest
from pdfs import form, pdf

from app.reading import child
from app.reading.child import answer
from app.reading.messages import DocumentRead, ReadDocument

LINES = ("The first line is written,", "and the second one", "comes after the first,", "the end.")
LABELS = b"/PageLabels<</Nums[0<</S/r>>2<</S/D/P(A-)>>]>>"


def read(raw, folder):
    (folder / "a.pdf").write_bytes(raw)
    reply = answer(ReadDocument(str(folder / "a.pdf"), "a.pdf"), lambda done, total: None)
    assert isinstance(reply, DocumentRead), reply
    return reply


@pytest.fixture(autouse=True)
def without_limits(monkeypatch):
    """This process goes on."""
    monkeypatch.setattr(child, "limit_process", lambda: None)


def turned(angle):
    """Lines whose letters are turned by so many degrees, to the left."""
    cos, sin = {0: (1, 0), 90: (0, 1), 180: (-1, 0), 270: (0, -1)}[angle]
    return "".join(
        f"BT /F1 12 Tf {cos} {sin} {-sin} {cos} {300 + 14 * n * sin} {400 - 14 * n * cos} Tm"
        f" ({line}) Tj ET "
        for n, line in enumerate(LINES)
    ).encode()


def test_lines_have_their_order_however_page_and_letters_are_turned(tmp_path):
    upright = pdf([turned(angle) for angle in (0, 90, 180, 270)])
    for page in (b"0", b"90", b"180", b"270"):
        raw = upright.replace(b"/Type/Page/", b"/Rotate %s/Type/Page/" % page)
        pages = "\n\n".join(f"[Page {n}]\n\n" + "\n".join(LINES) for n in range(1, 5))
        assert read(raw, tmp_path).text == pages, page


def test_a_page_says_what_is_printed_on_it_as_its_number(tmp_path):
    raw = pdf(["one", "two", "three"]).replace(b"/Type/Catalog", b"/Type/Catalog" + LABELS)
    reply = read(raw, tmp_path)
    heads = ("[Page 1, numbered i]", "[Page 2, numbered ii]", "[Page 3, numbered A-1]")
    assert reply.text == "\n\n".join(
        f"{head}\n\n{text}" for head, text in zip(heads, ("one", "two", "three"), strict=True)
    )
    assert [label for _, label in reply.places] == ["page 1", "page 2", "page 3"]


def test_a_value_is_read_that_the_viewer_is_to_draw(tmp_path):
    raw = form("Name:", "Ada", is_drawn=False)
    assert read(raw, tmp_path).text == "[Page 1]\n\nName:\nAda"


def test_what_lies_beside_the_page_is_not_read(tmp_path):
    texts = ("seen", 72, 700), ("cut off", 72, 90), ("above", 72, 900), ("left", -300, 600)
    page = " ".join(f"BT /F1 12 Tf {x} {y} Td ({text}) Tj ET" for text, x, y in texts).encode()
    raw = pdf([page, page])
    cut = raw.replace(b"/MediaBox[", b"/CropBox[0 842 595 100]/MediaBox[", 1)
    whole = "[Page 1]\n\nseen\n\n[Page 2]\n\nseen\ncut off"
    assert read(cut, tmp_path).text == whole
