"""Every prefix of nasty messages can be shown: laid out, painted, hit, and it does not flicker."""

from __future__ import annotations

import pytest
from PySide6.QtCore import QPointF, QRectF
from PySide6.QtGui import QImage, QPainter
from PySide6.QtWidgets import QApplication

from app.markdown.blocks import CodeBlock, plain_text
from app.markdown.document import Document
from ui.look.theme import Theme
from ui.markdown.styles import Styles
from ui.transcript.body import Body

NASTY = {
    "fence with language": "A:\n\n```python\nx = '`'\n```\nB",
    "fence with a space": '``` \nx\n``` \n\n```  py  title="a b"\ny\n```',
    "tildes": "~~~\na ``` b\n~~~\n~~~~ js\n~~~\n~~~~",
    "nested fences": "````md\n```py\nx\n```\n````\n- a\n  ```\n  b\n  ```\n> ```\n> c\n> ```",
    "unclosed fence": "words\n```c++\nint x;\n\n\n",
    "odd info": "```{.python #id}\nx\n```\n```\t\ty\nz\n```\n```\u00a0ü\nq\n```",
    "setext": "Title\n===\nSub\n---\n- - -\n***\n_ _ _",
    "lists": "1) a\n2) b\n   - c\n      1. d\n\n         e\n-\n- \n* x\n+ y",
    "tables": "| a | b\n|---|:-:\n| `|` | \\| |\n| c\n\n| only |\n|---",
    "links": '[a](b) [c](<d e> "t") [x][y] [z]\n\n[y]: https://y.test\n![i](j) <https://k.l>',
    "html": "<b>x</b> <!-- c --> <style> &lt; &#x41; <smirk> #include <x> <unclosed",
    "money": "$24000 and $40000, $\\$0.60$, $HOME, US$5, $$ and $$",
    "formulas": "\\(x\\) $y^2$ \\[ z \\] $$\na\n$$ b \\( c \\[ d $e^f",
    "notes": "a[^1] b[^2][^3]\n\n[^1]: c\n[^2]:\n    d\n[^3]: e\n\n    f",
    "directions": "مرحبا **abc** 12\n\n- שלום $x$\n\n| א | b |\n|--|--|\n| ג | d |\n\n😀 שלום",
    "controls": "a\x00b\u2028c\u2029d\ufeffe\r\nf\rg\u202eh\u200d👩‍👩‍👧",
    "emphasis": "**a *b** c* __d ~~e__ f~~ ***g* h** `i *j` k*",
    "deep": "> " * 30 + "a\n" + "- " * 30 + "b\n" + "[" * 60 + "]" * 60 + "*" * 60 + "_" * 60,
}


@pytest.fixture(scope="module")
def styles(qapp: QApplication) -> Styles:
    return Styles(Theme("dark"))


@pytest.mark.parametrize("kind", NASTY)
def test_every_prefix_is_laid_out_and_painted(styles: Styles, kind: str) -> None:
    source = NASTY[kind]
    grows = Body(Document(is_open=True), styles, 240)
    image = QImage(260, 400, QImage.Format.Format_RGB32)
    for char in source:
        grows.document.append(char)
        grows.read()
        grows.ensure(0, 4000)
        painter = QPainter(image)
        grows.paint(painter, QPointF(0, 0), QRectF(0, 0, 260, 400))
        painter.end()
        for y in range(0, round(grows.height), 40):
            grows.spot_at(QPointF(100, y))
            grows.link_at(QPointF(100, y))
            grows.sideways_at(QPointF(100, y))
        grows.actions(0, grows.height)
    grows.document.set_open(False)
    grows.read()
    whole = Body(Document(source), styles, 240)
    for body in (grows, whole):
        body.ensure(0, 100_000)
    assert grows.document.source == source
    assert grows.height == whole.height


@pytest.mark.parametrize("kind", NASTY)
def test_what_was_closed_stays_as_it_is(kind: str) -> None:
    """A segment that is not the open end is never replaced, unless a label gets its target."""
    source = NASTY[kind]
    document = Document(is_open=True)
    before: list[object] = []
    for char in source:
        document.append(char)
        document.take_changes()
        now = document.segments
        if "]:" not in source:
            stable = [s for s in before if not getattr(s, "is_open", False)]
            assert all(a is b for a, b in zip(stable, now, strict=False))
        before = list(now)


@pytest.mark.parametrize("info", ["python", " py ", "py title=x", "{.py}", "C++", "", "  "])
def test_a_fence_is_code_from_its_first_line_to_its_last(info: str) -> None:
    """While it forms nothing is shown of it; from then on it is one block of code that grows."""
    code = "a = 1\n\nb = '```'\n"
    source = f"Before\n\n```{info}\n{code}```\n"
    shown = []
    for end in range(len(source) + 1):
        document = Document(source[:end], is_open=True)
        found = [b for s in document.segments for b in document.blocks(s)]
        assert all("`" not in plain_text(b) for b in found if not isinstance(b, CodeBlock))
        shown += [b.code for b in found if isinstance(b, CodeBlock)]
    assert shown[-1] == code.removesuffix("\n")
    assert all(code.startswith(text) for text in shown)
    assert [len(text) for text in shown] == sorted(len(text) for text in shown)
