"""Replies in channels, as gpt-oss writes them: reasoning and answer are messages of their own.

    ⟨channel⟩analysis⟨message⟩thoughts⟨end⟩⟨start⟩assistant⟨channel⟩final⟨message⟩answer⟨return⟩

The format is OpenAI's harmony. Its marks are control tokens, and so is the prompt's end
(⟨start⟩assistant): what comes first is a header or a mark. What must hold: only control tokens are
marks, since weights may well write "<|end|>" as ordinary words (llama.cpp calls four of them
user-defined, to have them shown; here they count as control tokens). So marks travel through the
text machines as noncharacters, which Unicode reserves for a program's own use.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping
from typing import Final, Literal

from app.engine.protocol.tool_messages import Part
from app.engine.text.calls import ChannelReader
from app.engine.text.text import Between, Piece

_START, _CHANNEL, _MESSAGE, _END, _CONSTRAIN = "\ufdd0", "\ufdd1", "\ufdd2", "\ufdd3", "\ufdd4"

MARKS: Final = {
    "<|start|>": _START,
    "<|channel|>": _CHANNEL,
    "<|message|>": _MESSAGE,
    "<|end|>": _END,
    "<|constrain|>": _CONSTRAIN,
}
"""Texts of the control tokens, and as what they reach the splitter."""

ANALYSIS: Final = "analysis"
TO_ANSWER: Final = "<|end|><|start|>assistant<|channel|>final<|message|>"
"""From reasoning to the answer, where somebody else writes it."""

_ANY: Final = re.compile(f"([{''.join(MARKS.values())}])")
_LONGEST_HEADER: Final = 256


def channel_marks(control_ids: Mapping[str, int]) -> dict[int, bytes]:
    """ID → the bytes that stand for it; empty for a vocabulary that has no channels."""
    if not {"<|start|>", "<|channel|>", "<|message|>"} <= control_ids.keys():
        return {}
    return {control_ids[t]: mark.encode() for t, mark in MARKS.items() if t in control_ids}


class ChannelSplitter:
    """Tells reasoning from content by the channel of each message.

    `final`, no channel at all, and commentary that is addressed to nobody are content; analysis
    and what is addressed to a tool are reasoning. A second message in the same part follows after
    an empty line. A header is scaffold, as its marks are, and never shown, apart from an address;
    one that is too long to be one is text. `inside`: the prompt has already begun a message.

    >>> splitter = ChannelSplitter()
    >>> c, m, e, s = (MARKS[f"<|{name}|>"] for name in ("channel", "message", "end", "start"))
    >>> splitter.feed(f"{c}analysis{m}2+2{e}{s}assistant{c}final{m}4")
    [('reasoning', '2+2'), ('content', '4')]
    """

    def __init__(self, inside: Part | None = None) -> None:
        self._state: Literal["header", "body", "outside"] = "outside" if inside is None else "body"
        self._part: Part = inside or "content"
        self._header = ""
        self._owed = ""
        self.reader: ChannelReader | None = None
        """Reads what is addressed to tools, where a reply may call some."""
        self._has_content = inside == "content"
        self._has_reasoning = inside == "reasoning"

    def __copy__(self) -> ChannelSplitter:
        other = ChannelSplitter.__new__(ChannelSplitter)
        other.__dict__ |= self.__dict__
        other.reader = copy.copy(self.reader)
        return other

    @property
    def unclosed(self) -> bool:
        """Whether no answer has begun."""
        return not self._has_content and (self.reader is None or not self.reader.n_begun)

    @property
    def closing(self) -> str:
        """What would end the reasoning that it is inside of; nothing where it is in none."""
        return TO_ANSWER if self._state == "body" and self._part == "reasoning" else ""

    @property
    def is_at_a_tag(self) -> bool:
        """A mark is one token, so none has half arrived."""
        return False

    def feed(self, text: str) -> list[Piece]:
        out: list[Piece] = []
        for part in _ANY.split(text):
            if part in MARKS.values():
                self._mark(part, out)
            elif part:
                self._read(part, out)
        return out

    def flush(self) -> list[Piece]:
        """The end of the stream: what might have become a header is text; a header is scaffold."""
        out: list[Piece] = []
        self._end_call(out, is_cut=True)
        held, self._header = self._header, ""
        return [*out, ("content", held)] if self._state == "outside" and held else out

    def _end_call(self, out: list[Piece], *, is_cut: bool = False) -> None:
        if self.reader is not None and self.reader.begun is not None:
            text = self.reader.end(is_cut=is_cut)
            out += [("content", text)] if text else []
            self._has_content = self._has_content or bool(text)

    def _mark(self, mark: str, out: list[Piece]) -> None:
        self._end_call(out)
        if mark == _MESSAGE:
            self._begin_message()
        elif mark == _END:
            self._state, self._header = "outside", ""
        elif mark == _CONSTRAIN:
            self._header += " "
        else:
            self._header = "" if mark == _START else f"{self._header} "
            self._state = "header"

    def _begin_message(self) -> None:
        """The header is whole: "assistant final", "analysis", "commentary to=functions.f json"."""
        words, self._header = self._header.split(), ""
        address = next((word for word in words if word.startswith("to=")), "")
        if self.reader is not None and address:
            self._begin("call")
            self.reader.begin(address.removeprefix("to="))
            return
        is_reasoning = "final" not in words and (ANALYSIS in words or address != "")
        self._begin("reasoning" if is_reasoning else "content")
        self._owed += f"{address}\n" if address else ""

    def _begin(self, part: Part) -> None:
        self._state, self._part = "body", part
        was_there = self._has_reasoning if part == "reasoning" else self._has_content
        was_there = was_there and part != "call"
        self._owed = "\n\n" if was_there else ""

    def _read(self, text: str, out: list[Piece]) -> None:
        if self._state == "outside":  # only an address may stand here without a mark before it
            text, self._header = self._header + text, ""
            bare = text.lstrip()
            if "to=".startswith(bare):
                self._header = text
                return
            if bare.startswith("to="):
                self._state = "header"
            else:
                self._begin("content")
        if self._state == "header":
            self._header += text
            if len(self._header) <= _LONGEST_HEADER:
                return
            text, self._header = self._header, ""
            self._begin("content")
        out += [(self._part, Between(self._owed))] if self._owed else []
        out.append((self._part, text))
        if self._part == "call" and self.reader is not None:
            self.reader.feed(text)
        self._owed = ""
        self._has_reasoning = self._has_reasoning or self._part == "reasoning"
        self._has_content = self._has_content or self._part == "content"
