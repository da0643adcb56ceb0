"""Growing texts: the same result as at once, without an exception on the way, in linear work."""

from __future__ import annotations

import random

import pytest
from examples import examples
from hypothesis import given, settings, strategies as st

from app.markdown.blocks import Block, CodeBlock, TableBlock, TextBlock, plain_text
from app.markdown.document import Document

SAMPLE = """# Title

Some *text* with `code`, **bold** and <tags>.
Second line [ref] https://example.test/x

- a
- b
  - nested
    ```py
    x = "```"
    ```
- [x] c

1. one

   more

2. two

> quote **a**
> - item

| a | b |
|---|:-:|
| 1 | 2 |
| 3 | `x` |

``` python
def f():

    return 1
```

~~~
tilde ``` inside
~~~

$$
a
=
b
$$

Last line, \\(x\\), $y^2$ costs $5, or $24000 of $\\$0.60$[^1] and[^two].

Then \\[ a_1
+ b \\] follows.

- step
  $$
  x = 1
  $$

[^1]: A note
    of two lines.
[^two]: Another.

[ref]: https://ref.test

```
unclosed"""

MARKS = "``` |``` x|~~~|- |1. |> |# |**|*|`|_|[a](|)|![|]|<b>|&lt;|$|$$|\\(|\\)|\\[|\\]|===|---"
NOTES = "[^1]|[^1]: |[ ] |[x] |x^2|$x$|www.a.b|https://a.b/("
PIECES = st.sampled_from(
    [
        *MARKS.split("|"),
        *NOTES.split("|"),
        "|",
        "|---|",
        "\n",
        "\n\n",
        "    ",
        "\t",
        "word ",
        "é漢",
        "😀",
        "\r\n",
    ]
)
ODD = ("\x00", "\u2028", "[r]: http://x", "\ud800")


def blocks(document: Document) -> list[Block]:
    return [block for segment in document.segments for block in document.blocks(segment)]


def grown(source: str, sizes: list[int]) -> Document:
    document = Document(is_open=True)
    position, i = 0, 0
    while position < len(source):
        size = sizes[i % len(sizes)]
        document.append(source[position : position + size])
        document.take_changes()
        blocks(document)
        position += size
        i += 1
    document.set_open(False)
    return document


@pytest.mark.parametrize("size", [1, 2, 3, 7, 64, 1000])
def test_streaming_ends_as_at_once(size: int) -> None:
    document = grown(SAMPLE, [size])
    assert document.source == SAMPLE
    assert blocks(document) == blocks(Document(SAMPLE))


@given(
    st.lists(PIECES | st.sampled_from(ODD), max_size=40),
    st.lists(st.integers(1, 9), min_size=1, max_size=5),
)
@settings(max_examples=examples(150))
def test_any_text_in_any_pieces(pieces: list[str], sizes: list[int]) -> None:
    source = "".join(pieces)
    document = grown(source, sizes)
    assert document.source == source
    assert blocks(document) == blocks(Document(source))


@given(
    st.lists(
        st.sampled_from(["a\n", "12\n", "a | b\n", "- a\n", "\n", "b" * 700 + "\n"]), max_size=9
    )
)
@settings(max_examples=examples(40))
def test_many_short_lines_are_cut_alike_however_they_come(lines: list[str]) -> None:
    """Lines of a paragraph are taken many at a time where many are there."""
    source = "".join(line * 80 for line in lines)
    at_once, grew = Document(source), grown(source, [501, 7])
    assert [(s.kind, s.text) for s in at_once.segments] == [(s.kind, s.text) for s in grew.segments]
    assert all(s.text.count("\n") < 160 for s in at_once.segments if s.kind == "prose")


def test_forming_fence_never_shows_as_text() -> None:
    source = "Here:\n\n```python\nx = 1\n```\n\nDone"
    for end in range(len(source) + 1):
        document = Document(source[:end], is_open=True)
        for block in blocks(document):
            if isinstance(block, TextBlock):
                assert "`" not in plain_text(block), source[:end]


def test_forming_closing_fence_is_not_code() -> None:
    document = Document("```\nx = 1\n``", is_open=True)
    assert [plain_text(b) for b in blocks(document)] == ["x = 1"]


def test_forming_table_never_shows_as_text() -> None:
    source = "Here:\n\n| a | b |\n|---|---|\n| 1 | 2 |\n"
    for end in range(len(source) + 1):
        found = blocks(Document(source[:end], is_open=True))
        shown = [plain_text(b) for b in found if isinstance(b, TextBlock)]
        assert not any("|-" in text for text in shown), source[:end]
    assert isinstance(blocks(Document(source, is_open=True))[-1], TableBlock)


def test_open_bold_and_code_show_without_marks() -> None:
    found = blocks(Document("This is **bol", is_open=True))
    assert plain_text(found[0]) == "This is bol"
    found = blocks(Document("Use `prin", is_open=True))
    assert plain_text(found[0]) == "Use prin"


def test_held_back_text_appears_at_the_end() -> None:
    document = Document("42", is_open=True)
    assert blocks(document) == []
    document.set_open(False)
    assert [plain_text(b) for b in blocks(document)] == ["42"]


def test_closed_segments_stay_the_same_objects() -> None:
    document = Document("one\n\ntwo\n\nthr", is_open=True)
    document.take_changes()
    before = document.segments
    document.append("ee and more")
    changed = document.take_changes()
    assert changed == 2
    assert document.segments[0] is before[0]
    assert document.segments[1] is before[1]


def test_later_definition_reaches_earlier_links() -> None:
    document = Document("[a] here\n\ntext\n\n", is_open=True)
    assert blocks(document)[0].spans[0].href == ""
    document.take_changes()
    document.append("[a]: https://x.test\n\nend\n")
    assert document.take_changes() == 0
    assert blocks(document)[0].spans[0].href == "https://x.test"


def long_reply() -> str:
    paragraph = "The **quick** brown fox `jumps` over the dog, and *then* more follows.\n\n"
    code = "```python\n" + "def f(x):\n    return x + 1  # comment\n" * 400 + "```\n\n"
    table = "| n | v |\n|---|---|\n" + "".join(f"| {i} | `x` and y |\n" for i in range(500))
    items = "\n".join(f"{i}. item {i} with some words" for i in range(1, 300))
    return f"{paragraph * 100}{code}{table}\n{items}\n\n{'word ' * 4000}"


def test_work_is_linear() -> None:
    """60 kB in four-byte pieces, read at every 40 bytes as repaints would: the characters
    that are parsed stay within a bound for each read, whatever came before."""
    source = long_reply()
    assert len(source) > 60_000
    document = Document(is_open=True)
    reads, worst = 0, 0
    for start in range(0, len(source), 40):
        for piece in range(start, min(start + 40, len(source)), 4):
            document.append(source[piece : piece + 4])
        before = document.parsed_chars
        document.take_changes()
        blocks(document)
        reads += 1
        worst = max(worst, document.parsed_chars - before)
    assert worst < 7_000
    assert document.parsed_segments < 3 * reads
    assert document.parsed_chars / reads < 2_500


def test_definition_in_the_open_paragraph() -> None:
    source = "``` ``` \n[r]: http://x"
    assert blocks(grown(source, [1])) == blocks(Document(source))


def test_nothing_is_read_before_it_is_asked_for() -> None:
    document = Document("text\n" * 100)
    assert document.parsed_segments == 0
    assert document.source_length == 500


def test_random_prefixes_of_a_reply_are_fine() -> None:
    source = long_reply()
    choice = random.Random(7)
    for _ in range(20):
        end = choice.randrange(len(source))
        document = Document(source[:end], is_open=True)
        assert document.source == source[:end]
        assert document.segments


def test_code_group_of_an_open_block_knows_its_code() -> None:
    document = Document("```py\na\nb\n", is_open=True)
    (segment,) = document.segments
    assert isinstance(blocks(document)[0], CodeBlock)
    assert segment.group is not None
    assert segment.group.code == "a\nb\n"
    assert not segment.group.is_closed
