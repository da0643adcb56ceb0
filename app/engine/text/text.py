"""Bytes of tokens become the text that may be shown: whole characters, no stop string, parts.

    token bytes → characters → content or reasoning → stop strings held back

Each step is a small machine with `feed` and `flush`. What must hold for any way to cut the
stream into tokens: the joined output is the same; no U+FFFD appears unless the bytes really
are no UTF-8 (a character that is cut off at the end is no text, and not replaced); no part of a
stop string that matches is ever given out; and nothing that the weights wrote is lost, whatever
the reasoning tags do (`reasoning.py`).
"""

from __future__ import annotations

import codecs
import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, AnyStr, Literal, Protocol

from app.engine.protocol.tool_messages import Part

Piece = tuple[Part, str]


class Between(str):
    """Text of a reply that stands between what was written, as the empty line between two messages
    in channels: no stop string begins, ends or goes on in it."""

    __slots__ = ()


class CharacterStream:
    """UTF-8 that arrives in pieces: bytes wait until their character is whole.

    >>> stream = CharacterStream()
    >>> stream.feed(b"\\xf0\\x9f"), stream.feed(b"\\x99\\x82!")
    ('', '🙂!')

    Bytes that can no longer become a character give U+FFFD, just as
    `bytes.decode("utf-8", "replace")` of the whole would. A character that is still unfinished
    when the stream ends is not given out at all: whoever goes on from there completes it.
    """

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def feed(self, data: bytes) -> str:
        return self._decoder.decode(data)

    @property
    def state(self) -> tuple[bytes, int]:
        """The bytes that wait; setting it goes back to them."""
        return self._decoder.getstate()

    @state.setter
    def state(self, state: tuple[bytes, int]) -> None:
        self._decoder.setstate(state)


@dataclass(frozen=True, slots=True)
class Match:
    """What ended a text: `reason` as in `Summary.stop_reason`, and the words that did it."""

    reason: Literal["stop_string", "turn_end"]
    words: str


class StopMatcher:
    """Finds the first stop string in a stream and never gives out a part of it.

    The match that ends first wins; of those that end together, the longest one. So the result
    does not depend on how the text was cut. `turn_end` (see `turn_end.py`) is one more of them,
    which at the end of the stream needs no line break after it. Where it is a stop string as well,
    the stop string is what was met.

    >>> matcher = StopMatcher(["beta gamma"])
    >>> matcher.feed("alpha beta ga"), matcher.feed("lore")
    ('alpha ', 'beta galore')
    """

    def __init__(self, stops: list[str], turn_end: str = "") -> None:
        self._stops = [*stops, turn_end] if turn_end else stops
        self._n_own = len(stops)
        self._marker = turn_end.rstrip()
        self._held = ""
        self.matched: Match | None = None

    def feed(self, text: str) -> str:
        """Return what may be shown now. After a match nothing more comes out."""
        if self.matched is not None:
            return ""
        if not self._stops:
            return text
        text = self._held + text
        found = self._first_match(text)
        if found is not None:
            start, self.matched = found
            self._held = ""
            return text[:start]
        keep = max(overlap(text, stop) for stop in self._stops)
        self._held = text[len(text) - keep :]
        return text[: len(text) - keep]

    def pass_over(self, text: str) -> str:
        """As `feed`, of what was said before: a stop string in it has not stopped anything."""
        text = self._held + text
        ends = [text.rfind(stop) + len(stop) for stop in self._stops if stop in text]
        rest = text[max(ends, default=0) :]
        keep = max((overlap(rest, stop) for stop in self._stops), default=0)
        self._held = text[len(text) - keep :]
        return text[: len(text) - keep]

    def release(self) -> str:
        """What was held back was a near miss, since something else follows: it is text."""
        held, self._held = self._held, ""
        return held

    def flush(self) -> str:
        """The end of the stream: what was held back is text, unless it is the turn's end."""
        held = self.release()
        if self._marker and held.endswith(self._marker):
            self.matched = Match("turn_end", self._marker)
            held = held.removesuffix(self._marker)
        return held

    def _first_match(self, text: str) -> tuple[int, Match] | None:
        found = [
            (start + len(stop), start, number)
            for number, stop in enumerate(self._stops)
            if (start := text.find(stop)) >= 0
        ]
        if not found:
            return None
        _, start, number = min(found)
        if number < self._n_own:
            return start, Match("stop_string", self._stops[number])
        return start, Match("turn_end", self._marker)


def overlap(text: AnyStr, wanted: AnyStr) -> int:
    """Length of the longest end of `text` that is a proper beginning of `wanted`.

    >>> overlap("a red ro", "rose"), overlap(b"rose", b"rose")
    (2, 0)
    """
    start = max(len(text) - len(wanted) + 1, 0)
    while (start := text.find(wanted[:1], start)) >= 0:
        if wanted.startswith(text[start:]):
            return len(text) - start
        start += 1
    return 0


class Splitter(Protocol):
    """Tells the parts of a reply apart while it streams."""

    @property
    def unclosed(self) -> bool:
        """Whether the reply would end without an answer if it ended now."""

    @property
    def closing(self) -> str:
        """What would end the reasoning that it is inside of; nothing where it is in none."""

    @property
    def is_at_a_tag(self) -> bool:
        """Whether what came last may become the tag that closes reasoning."""

    def feed(self, text: str) -> list[Piece]: ...
    def flush(self) -> list[Piece]: ...


class Reader(Protocol):
    """Reads calls of tools (`calls.py`)."""

    n_begun: int

    @property
    def begun(self) -> str | None: ...
    def take(self) -> list[Any]: ...


@dataclass(frozen=True, slots=True)
class TextMark:
    """How the machines of a `ReplyText` stood at one moment."""

    decoder: tuple[bytes, int]
    matchers: dict[Part, StopMatcher]
    part: Part
    splitter: Splitter | None
    n_texts: dict[Part, int]
    n_thought: int


@dataclass(frozen=True, slots=True)
class Reading:
    """What one more token adds: pieces to show, and what ended the text, if anything did."""

    pieces: list[Piece]
    stop: Match | None


class ReplyText:
    """The machines in a row, and the whole text so far.

    Stop strings end the answer. Reasoning may hold them (it quotes the question, it has empty
    lines), unless `stops_in_reasoning`; then they are looked for in all that is written, tags
    included. What ends a turn ends the reply anywhere. `n_thought`: so many tokens were reasoning,
    tags not counted. `tail`: bytes of a character that was begun before the reply goes on here.
    """

    def __init__(
        self,
        stops: list[str],
        splitter: Splitter | None,
        turn_end: str = "",
        *,
        stops_in_reasoning: bool = False,
        tail: bytes = b"",
    ) -> None:
        self._characters = CharacterStream()
        self._characters.feed(tail)
        self._splitter = splitter
        self._is_whole = splitter is None or stops_in_reasoning
        self._matchers: dict[Part, StopMatcher] = {"content": StopMatcher(stops, turn_end)}
        if not self._is_whole:
            self._matchers["reasoning"] = StopMatcher([], turn_end)
            self._matchers["call"] = StopMatcher([], turn_end)
        self._part: Part = "content"
        self._texts: dict[Part, list[str]] = {"content": [], "reasoning": [], "call": []}
        self.n_thought = 0
        self.counts_thought = True

    @property
    def calls(self) -> Reader | None:
        """What reads the calls of tools in it; None where it may call none."""
        return getattr(self._splitter, "reader", None)

    @property
    def content(self) -> str:
        return "".join(self._texts["content"])

    @property
    def reasoning(self) -> str:
        return "".join(self._texts["reasoning"])

    @property
    def closing(self) -> str:
        """What would end the reasoning that the reply is inside of; nothing where it is in none, or
        in the middle of a character or of the closing tag."""
        is_torn = bool(self._characters.state[0])
        if self._splitter is None or is_torn or self._splitter.is_at_a_tag:
            return ""
        return self._splitter.closing

    @property
    def closing_by_force(self) -> str:
        """The same, wherever it is."""
        return "" if self._splitter is None else self._splitter.closing

    @property
    def reasoning_unclosed(self) -> bool:
        return self._splitter is not None and self._splitter.unclosed

    def feed(self, data: bytes) -> Reading:
        was_inside = self._is_inside
        reading = self._feed(data)
        self.n_thought += self.counts_thought and was_inside and self._is_inside
        return reading

    @property
    def _is_inside(self) -> bool:
        return bool(self.closing_by_force)

    def _feed(self, data: bytes) -> Reading:
        text = self._characters.feed(data)
        if self._is_whole:
            text = self._matchers["content"].feed(text)
        return self._reading(self._split(text), StopMatcher.feed)

    def begin(self, data: bytes) -> list[Piece]:
        """What the reply begins with, read as if it had come here; it may end anywhere."""
        was_inside = self._is_inside
        pieces = self._begin(data)
        self.n_thought += self.counts_thought and was_inside and self._is_inside
        return pieces

    def _begin(self, data: bytes) -> list[Piece]:
        text = self._characters.feed(data)
        if self._is_whole:
            text = self._matchers["content"].pass_over(text)
        return self._reading(self._split(text), StopMatcher.pass_over).pieces

    def end_part(self) -> list[Piece]:
        """A part ends that no tag closes (the scripted engine's): what was held is its text."""
        text = self._matchers["content"].release() if self._is_whole else ""
        return self._kept(self._split(text))

    def mark(self) -> TextMark:
        """A place to which `restore` can go back, any number of times."""
        return TextMark(
            self._characters.state,
            {part: copy.copy(matcher) for part, matcher in self._matchers.items()},
            self._part,
            copy.copy(self._splitter),
            {part: len(texts) for part, texts in self._texts.items()},
            self.n_thought,
        )

    def restore(self, mark: TextMark) -> None:
        """Forget what was fed since `mark`."""
        self._characters.state = mark.decoder
        self._matchers = {part: copy.copy(matcher) for part, matcher in mark.matchers.items()}
        self._part = mark.part
        self._splitter = copy.copy(mark.splitter)
        for part, n_texts in mark.n_texts.items():
            del self._texts[part][n_texts:]
        self.n_thought = mark.n_thought

    def flush(self) -> Reading:
        """The end of the reply. After a stop string nothing that was held comes out of it; nor does
        a character that is not whole."""
        text = self._matchers["content"].flush() if self._is_whole else ""
        pieces = self._split(text)
        if self._splitter is not None:
            pieces += self._splitter.flush()
        reading = self._reading(pieces, StopMatcher.feed)
        if self._is_whole:
            return reading
        held = self._matchers[self._part].flush()
        rest = self._kept([(self._part, held)] if held else [])
        return Reading([*reading.pieces, *rest], self._stop)

    @property
    def _stop(self) -> Match | None:
        found = (matcher.matched for matcher in self._matchers.values())
        return next((match for match in found if match is not None), None)

    def _split(self, text: str) -> list[Piece]:
        if not text:
            return []
        return [("content", text)] if self._splitter is None else self._splitter.feed(text)

    def _reading(self, pieces: list[Piece], see: Callable[[StopMatcher, str], str]) -> Reading:
        """The pieces as they may be shown, each part past its own stop strings."""
        if self._is_whole:
            return Reading(self._kept(pieces), self._stop)
        shown: list[Piece] = []
        for part, text in pieces:
            if part != self._part:
                held = self._matchers[self._part].release()
                shown += [(self._part, held)] if held else []
                self._part = part
            if isinstance(text, Between):
                held = self._matchers[part].release()
                shown.append((part, held + text))
                continue
            text = see(self._matchers[part], text)
            shown += [(part, text)] if text else []
            if self._stop is not None:
                break
        return Reading(self._kept(shown), self._stop)

    def _kept(self, pieces: list[Piece]) -> list[Piece]:
        """Those of one part that follow one another are one."""
        kept: list[Piece] = []
        for part, text in pieces:
            self._texts[part].append(text)
            if kept and kept[-1][0] == part:
                kept[-1] = (part, kept[-1][1] + text)
            else:
                kept.append((part, str(text)))
        return kept
