"""Blocks of whole texts: what the screen cuts is one again."""

from __future__ import annotations

from app.markdown.blocks import CodeBlock, LiteralBlock, TableBlock
from app.markdown.whole import whole_blocks


def test_long_code_and_long_tables_are_one_block() -> None:
    code = "\n".join(f"x = {n}" for n in range(500))
    rows = "\n".join(f"| {n} | b |" for n in range(100))
    blocks = list(whole_blocks(f"a\n\n```py\n{code}\n```\n\n| h | i |\n|---|---|\n{rows}\n\nend\n"))
    assert [type(block).__name__ for block in blocks] == [
        *("TextBlock", "CodeBlock", "TableBlock", "TextBlock")
    ]
    assert isinstance(blocks[1], CodeBlock)
    assert (blocks[1].code, blocks[1].language) == (code, "py")
    assert isinstance(blocks[2], TableBlock)
    assert [row[0][0].text for row in blocks[2].rows] == [str(n) for n in range(100)]


def test_plain_text_is_one_block_letter_by_letter() -> None:
    text = "# no heading\n\n" + "line\n" * 1000 + "**end**"
    assert list(whole_blocks(text, is_plain=True)) == [LiteralBlock(text)]
    assert list(whole_blocks(" \n", is_plain=True)) == []
