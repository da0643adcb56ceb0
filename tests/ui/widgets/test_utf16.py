"""Places in a text as Qt counts them."""

from __future__ import annotations

from hypothesis import given, strategies as st
from PySide6.QtGui import QTextDocument

from ui.widgets.utf16 import slice_utf16, utf16_length


@given(st.text(alphabet="aé北😀 \u0301", max_size=20), st.text(alphabet="b😀𠀋", max_size=5))
def test_lengths_and_parts_are_those_of_qt(before: str, part: str) -> None:
    text = before + part + "end"
    start = utf16_length(before)
    assert QTextDocument(text).characterCount() == utf16_length(text) + 1
    assert slice_utf16(text, start, start + utf16_length(part)) == part
