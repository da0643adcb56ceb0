"""Values that were passed over when the header was read."""

from __future__ import annotations

from pathlib import Path

import pytest
from gguf_writer import Typed, write_gguf

from app.gguf.header import Entry, read_header
from app.gguf.items import MAX_ITEM_BYTES, MAX_ITEMS, ShownText, read_items, read_text
from app.gguf.refusal import HeaderRefused
from app.gguf.source import FileSource


def entry_of(path: Path, key: str) -> Entry:
    return read_header(path).entries[key]


def whole(text: str) -> ShownText:
    return ShownText(text, len(text.encode()), is_whole=True)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "weights.gguf"
    values = {
        "a.numbers": Typed("array:i16", list(range(-500, 1500))),
        "a.texts": [f"Ž{n}" for n in range(1500)],
        "a.long": ["é" * 3000, "🙂" * 1024, "x" * 5000, "after"],
        "a.empty": Typed("array:f32", []),
        "a.text": "x" * (3 << 20),
        "a.short": "short",
        "a.wide": "x" + "🙂" * (1 << 19),
    }
    write_gguf(path, metadata=values)
    return path


def test_items_of_numbers_and_texts(path: Path) -> None:
    with FileSource(path) as source:
        numbers, texts = entry_of(path, "a.numbers"), entry_of(path, "a.texts")
        assert read_items(source, numbers, 498, 4) == [-2, -1, 0, 1]
        assert read_items(source, numbers, 1998, 10) == [1498, 1499]
        assert read_items(source, texts, 1498, 10) == [whole("Ž1498"), whole("Ž1499")]
        assert read_items(source, texts, 0, 1) == [whole("Ž0")]
        assert read_items(source, texts, 1500, 10) == read_items(source, texts, 10**9, 1) == []
        assert len(read_items(source, numbers, -5, 10**9)) == MAX_ITEMS
        assert read_items(source, entry_of(path, "a.empty"), 0, 10) == []


def test_long_texts_are_cut_between_characters(path: Path) -> None:
    with FileSource(path) as source:
        long, wide, plain, after = read_items(source, entry_of(path, "a.long"), 0, 10)
    assert long == ShownText("é" * (MAX_ITEM_BYTES // 2), 6000, is_whole=False)
    assert wide == whole("🙂" * 1024)
    assert plain == ShownText("x" * MAX_ITEM_BYTES, 5000, is_whole=False)
    assert after == whole("after")
    with FileSource(path) as source:
        text = read_text(source, entry_of(path, "a.text"))
        assert (len(text.text), text.size_bytes, text.is_whole) == (1 << 20, 3 << 20, False)
        assert read_text(source, entry_of(path, "a.short")) == whole("short")
        wide_text = read_text(source, entry_of(path, "a.wide")).text
    assert wide_text == "x" + "🙂" * ((1 << 18) - 1)


def test_a_file_that_is_another_one_by_now(path: Path) -> None:
    texts, text = entry_of(path, "a.texts"), entry_of(path, "a.text")
    path.write_bytes(b"\xff" * texts.end)
    with FileSource(path) as source:
        for wrong in (lambda: read_items(source, texts, 0, 5), lambda: read_text(source, text)):
            with pytest.raises(HeaderRefused, match="Open it again"):
                wrong()


def test_what_is_no_array_or_text(path: Path) -> None:
    with FileSource(path) as source:
        with pytest.raises(ValueError, match="array"):
            read_items(source, entry_of(path, "a.text"), 0, 1)
        with pytest.raises(ValueError, match="string"):
            read_text(source, entry_of(path, "a.texts"))
