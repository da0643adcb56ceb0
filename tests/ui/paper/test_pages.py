"""PDFs, as PDFium reads them back."""

from __future__ import annotations

import html
import io
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import docx
import pypdf
import pypdfium2
import pytest
from exported_chats import HOSTILE, NOON, message, rich_chat

from app.chat.exchange import docx_file, html_page
from app.chat.exchange.choices import Choices
from app.chat.exchange.pdf_finish import finish
from app.chat.exchange.reading import Chat
from models.records import Conversation, MessageState, Role, WholeConversation
from ui.look.theme import Theme
from ui.paper.pages import Pages, PdfPress
from ui.paper.parts import parts_of_chat
from ui.paper.styles import PaperTheme

IMAGE = pypdfium2.raw.FPDF_PAGEOBJ_IMAGE


def printed(chat: Chat, path: Path, paper: Any = "A4", **options: Any) -> Any:
    pages = Pages(path, chat.title, paper, PaperTheme("light"))
    for part in parts_of_chat(chat, Choices("pdf", **options)):
        pages.add(part)
    pages.end()
    finish(path, pages.marks)
    return pypdfium2.PdfDocument(path)


def chat_of(*texts: str, role: Role = Role.ASSISTANT) -> Chat:
    messages = tuple(message(n, role, text, n - 1 or None) for n, text in enumerate(texts, 1))
    conversation = Conversation("c", "Long", NOON, NOON, active_leaf_id=messages[-1].id)
    made = rich_chat()
    return Chat(made.store, WholeConversation(conversation, messages), made.drawings)


def texts_of(document: Any) -> list[str]:
    return [page.get_textpage().get_text_range().replace("\r\n", "\n") for page in document]


def test_the_text_can_be_read_again_in_order(qapp: Any, tmp_path: Path) -> None:
    document = printed(rich_chat(), tmp_path / "chat.pdf", branches=True)
    text = "\n".join(texts_of(document))
    assert document.get_metadata_dict()["Title"] == "Primes & <b>more</b>"
    marks = [(mark.get_title(), mark.get_dest().get_index()) for mark in document.get_toc()]
    titles = [title for title, _ in marks]
    assert titles[:3] == [
        *("System prompt", "You: What are primes? <b>Twice</b>"),
        "SmolLM2: # Prime numbers The **sieve** of *Eratosthenes* ~~slowly~~ f",
    ]
    assert "Branch 1" in titles
    assert [page for _, page in marks] == sorted(page for _, page in marks)
    wanted = (
        *("Primes & <b>more</b>", "Be </style> brief.", "photo <1>.png", "page 12, page 3"),
        *("What are primes?", "<b>Twice</b>", "Reasoning", "Prime numbers", "Eratosthenes"),
        *("2. Cross out multiples:", "of 3", "and so on", "100 25", "def primes(n):"),
        *("# <b>not bold</b>", "العربية من اليمين", "Ελληνικά", "Use the tool.", "look_up"),
        *("[2, 3, 5]", "Ten of them.", "<script>alert(1)</script>", "Branch 1", "two divisors."),
    )
    found = [text.find(words) for words in wanted]
    assert -1 not in found, wanted[found.index(-1)]
    assert found == sorted(found)
    assert text.rstrip().endswith(str(len(document))), "the page's number"
    assert document[0].get_size() == pytest.approx((595, 842), abs=1)
    images = [each.get_px_size() for each in document[0].get_objects([IMAGE])]
    assert (4, 3) in images, "the picture; letters that no font has may be others"
    raw = (tmp_path / "chat.pdf").read_bytes()
    assert b"/JavaScript" not in raw
    assert set(addresses_of(tmp_path / "chat.pdf")) == {"https://example.org/sieve?a=1&b=2"}
    assert HOSTILE[:20] in text


def test_a_reply_that_is_not_whole_says_so_wherever_it_is_read(qapp: Any, tmp_path: Path) -> None:
    chat = rich_chat()
    states = (MessageState.STOPPED, MessageState.STREAMING)
    replies = tuple(
        message(n, Role.ASSISTANT, "Half", n - 1 or None, state=state)
        for n, state in enumerate(states, 1)
    )
    conversation = Conversation("c", "Cut", NOON, NOON, active_leaf_id="m2")
    chat.whole = WholeConversation(conversation, replies)
    file = io.BytesIO()
    docx_file.write(file, chat, Choices("docx"), NOON)
    paragraphs = "\n".join(each.text for each in docx.Document(file).paragraphs)
    page = "".join(html_page.page(chat, Choices("html"), NOON))
    (printed_page,) = texts_of(printed(chat, tmp_path / "cut.pdf"))
    for text in (paragraphs, page, printed_page):
        assert -1 < text.find("Stopped.") < text.find("Still being written.")


def addresses_of(path: Path) -> list[str]:
    """Of the links, as pypdf reads them."""
    links = [link for page in pypdf.PdfReader(path).pages for link in page.get("/Annots", ())]
    actions = [link.get_object()["/A"] for link in links]
    assert {action["/S"] for action in actions} == {"/URI"}
    return [action["/URI"] for action in actions]


def test_links_lead_where_they_say_and_say_nothing_else(qapp: Any, tmp_path: Path) -> None:
    """Whatever Qt would make of an address: it escapes nothing that ends a text in a PDF."""
    links = {
        "https://x.test/)>>/A<</S/JavaScript/JS(app.alert(1))>>": (
            "https://x.test/%29%3E%3E/A%3C%3C/S/JavaScript/JS%28app.alert%281%29%29%3E%3E"
        ),
        "https://x.test/%29%3E": "https://x.test/%29%3E",
        "https://x.test/日?q=%C3%BC": "https://x.test/%E6%97%A5?q=%C3%BC",
        "https://münchen.test/": "https://xn--mnchen-3ya.test/",
        "mailto:a@x.test": "mailto:a@x.test",
    }
    text = "\n\n".join(f"[link](<{html.escape(address)}>)" for address in links)
    table = "\n\n| a |\n|---|\n| https://x.test/cell |\n"
    path = tmp_path / "links.pdf"
    document = printed(chat_of(text + table), path)
    assert addresses_of(path) == [*links.values(), "https://x.test/cell"]
    assert texts_of(document)[0].count("link") == len(links)


def test_long_texts_are_cut_between_lines_and_nothing_is_said_twice(
    qapp: Any, tmp_path: Path
) -> None:
    code = "\n".join(f"line_{n:03} = {n}  # {'as wide as a page ' * 3}" for n in range(150))
    prose = " ".join(f"word{n:03}" for n in range(900))
    rows = "\n".join(f"| row{n:03} | {'wide enough ' * 4} |" for n in range(70))
    reply = f"{prose}\n\n```python\n{code}\n```\n\n| a | b |\n|---|---|\n{rows}\n"
    said = "\n".join(f"said{n:03}{' and nothing else' * 3}" for n in range(120))
    chat = chat_of(reply)
    user = message(2, Role.USER, said, 1)
    conversation = Conversation("c", "Long", NOON, NOON, active_leaf_id="m2")
    chat.whole = WholeConversation(conversation, (*chat.whole.messages, user))
    document = printed(chat, tmp_path / "long.pdf", paper="Letter")
    pages = texts_of(document)
    assert len(pages) >= 6
    assert document[0].get_size() == pytest.approx((612, 792), abs=1)
    told = re.findall(r"word\d{3}|line_\d{3}|row\d{3}|said\d{3}", "\n".join(pages))
    assert told == [
        *(f"word{n:03}" for n in range(900)),
        *(f"line_{n:03}" for n in range(150)),
        *(f"row{n:03}" for n in range(70)),
        *(f"said{n:03}" for n in range(120)),
    ]
    assert "\n".join(pages).count("python") == 1
    for number, page in enumerate(pages, 1):
        assert page.rstrip().endswith(str(number))


def test_what_is_too_wide_becomes_smaller_or_wraps(qapp: Any, tmp_path: Path) -> None:
    cells = [f"unbreakable{n:02}" for n in range(14)]
    table = f"| {' | '.join(cells)} |\n|{'---|' * 14}\n| {' | '.join(cells[::-1])} |\n"
    line = "x" * 150 + "END"
    document = printed(chat_of(f"{table}\n```\n{line}\n```\n"), tmp_path / "wide.pdf")
    (text,) = texts_of(document)
    assert re.findall(r"unbreakable\d\d", text) == cells + cells[::-1]
    assert "".join(re.findall("x+(?:END)?|END", text)) == line
    width, _ = document[0].get_size()
    for part in document[0].get_objects():
        left, _, right, _ = part.get_bounds()
        assert left >= 0, "nothing is cut off"
        assert right <= width


def test_a_disk_that_is_full_is_told(qapp: Any, tmp_path: Path) -> None:
    if not Path("/dev/full").exists():
        with pytest.raises(OSError, match=r"\w"):
            Pages(tmp_path / "no" / "folder.pdf", "", "A4", PaperTheme("light"))
        return
    pages = Pages(Path("/dev/full"), "Full", "A4", PaperTheme("light"))
    for part in parts_of_chat(chat_of("text"), Choices("pdf")):
        pages.add(part)
    with pytest.raises(OSError, match=r"\w"):
        pages.end()


def test_the_press_is_led_by_another_thread(qtbot: Any, theme: Theme, tmp_path: Path) -> None:
    press, path, chat = PdfPress(theme), tmp_path / "chat.pdf", rich_chat()
    with ThreadPoolExecutor(1) as pool:
        printing = pool.submit(press.print_chat, chat, Choices("pdf"), path)
        qtbot.waitUntil(printing.done, timeout=20_000)
        printing.result()
        assert "Ten of them." in "".join(texts_of(pypdfium2.PdfDocument(path)))

        checks = iter(range(5))

        def check() -> None:
            if next(checks, None) is None:
                raise InterruptedError("not wanted any more")

        chat.check = chat.step = check
        printing = pool.submit(press.print_chat, chat, Choices("pdf"), path)
        qtbot.waitUntil(printing.done, timeout=20_000)
        with pytest.raises(InterruptedError):
            printing.result()
    pages = press._pages
    assert pages is not None
    assert not pages._painter.isActive()
    press.close()
