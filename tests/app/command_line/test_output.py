"""The lines of `ask --json`: whole, in order, and written together where they come together."""

from __future__ import annotations

import io
import json
import threading

import pytest

from app.command_line.output import JsonLines, json_text
from app.engine.protocol.messages import Note, TextFlushed


class CountedWrites(io.StringIO):
    """Remembers how often it was written to."""

    def __init__(self) -> None:
        super().__init__()
        self.writes = 0

    def write(self, text: str) -> int:
        self.writes += 1
        return super().write(text)


def test_what_comes_together_is_written_together() -> None:
    stdout = CountedWrites()
    lines = JsonLines(stdout)
    for text in "abc":
        lines.event(TextFlushed(1, text, "content"))
    assert stdout.getvalue() == ""
    lines.flush()
    lines.flush()
    assert stdout.writes == 1
    assert [json.loads(line)["text"] for line in stdout.getvalue().splitlines()] == ["a", "b", "c"]


def test_everything_else_takes_along_what_was_kept() -> None:
    stdout = CountedWrites()
    lines = JsonLines(stdout)
    lines.event(TextFlushed(1, "a", "content"))
    lines.event(Note(1, "kind", "A sentence."))
    names = [json.loads(line)["event"] for line in stdout.getvalue().splitlines()]
    assert names == ["text_flushed", "note"]


@pytest.mark.parametrize("mark", ["\x0b", "\x1c", "\x85", "\u2028", "\u2029"])
def test_an_object_stays_in_one_line_whatever_its_text_holds(mark: str) -> None:
    """Seen once: a byte token whose text ended a line for the reader of the lines."""
    stdout = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", newline="")
    text = f"one{mark}two\u2027three"
    line = json_text({"text": text}, stdout)
    assert line.splitlines() == [line]
    assert json.loads(line) == {"text": text}


def test_two_threads_lose_and_double_nothing() -> None:
    stdout = io.StringIO()
    lines = JsonLines(stdout)

    def write(first: int) -> None:
        for number in range(first, first + 500):
            lines.event(TextFlushed(1, str(number), "content"))
            lines.flush()

    threads = [threading.Thread(target=write, args=(first,)) for first in (0, 500)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    seen = sorted(int(json.loads(line)["text"]) for line in stdout.getvalue().splitlines())
    assert seen == list(range(1000))
