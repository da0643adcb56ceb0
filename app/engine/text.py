"""Bytes of tokens become the text that may be shown: whole characters, no stop string, parts.

    token bytes → characters → stop strings held back → content or reasoning

Each step is a small machine with `feed` and `flush`. What must hold for any way to cut the
stream into tokens: the joined output is the same; no U+FFFD appears unless the bytes really
are no UTF-8; no part of a stop string that matches is ever given out; and nothing that the
weights wrote is lost, whatever the reasoning tags do.
"""

from __future__ import annotations

import codecs
import copy
from dataclasses import dataclass
from typing import AnyStr, Final, Literal, Protocol

Part = Literal["content", "reasoning"]
Piece = tuple[Part, str]

REASONING_TAGS: Final[tuple[tuple[str, str], ...]] = (
    ("<think>", "</think>"),
    ("<thinking>", "</thinking>"),
    ("[THINK]", "[/THINK]"),
    ("<reasoning>", "</reasoning>"),
    ("<seed:think>", "</seed:think>"),
    ("<|START_THINKING|>", "<|END_THINKING|>"),
    ("◁think▷", "◁/think▷"),
)
"""Opening and closing tags, as reasoning weights write them."""


class CharacterStream:
    """UTF-8 that arrives in pieces: bytes wait until their character is whole.

    >>> stream = CharacterStream()
    >>> stream.feed(b"\\xf0\\x9f"), stream.feed(b"\\x99\\x82!")
    ('', '🙂!')

    Bytes that can no longer become a character give U+FFFD, just as
    `bytes.decode("utf-8", "replace")` of the whole would.
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

    def flush(self) -> str:
        """The end of the stream: a character that was left unfinished becomes U+FFFD."""
        return self._decoder.decode(b"", final=True)


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

    def flush(self) -> str:
        """The end of the stream: what was held back was a near miss, so it is text."""
        held, self._held = self._held, ""
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


class ReasoningSplitter:
    """Tells reasoning from content by the tags that reasoning weights write.

    A tag opens reasoning only at the very start of a reply (white space may come before it), so
    a `<think>` in a code block stays text. Templates that write the opening tag themselves
    start the splitter `inside`. The first closing tag ends reasoning for good; line breaks
    beside the tags belong to neither part. Without a closing tag all that came is reasoning
    and `unclosed` says so; a closing tag that nothing opened is ordinary text, except as the
    first thing of a reply, where it closes reasoning that the template opened and closed.

    >>> splitter = ReasoningSplitter()
    >>> splitter.feed("\\n<thi"), splitter.feed("nk>2+2</think>\\n\\n4")
    ([], [('reasoning', '2+2'), ('content', '4')])
    """

    def __init__(
        self,
        *,
        inside: bool = False,
        closing: str = REASONING_TAGS[0][1],
        keep_breaks: bool = False,
    ) -> None:
        self._state: Literal["start", "reasoning", "content"] = "reasoning" if inside else "start"
        self._closing = closing
        self._held = ""
        self._skip_breaks = inside and not keep_breaks

    @property
    def unclosed(self) -> bool:
        return self._state == "reasoning"

    def feed(self, text: str) -> list[Piece]:
        out: list[Piece] = []
        text = self._held + text
        self._held = ""
        while text:
            text = self._step(text, out)
        return out

    def flush(self) -> list[Piece]:
        """The end of the stream: what was held back for a possible tag is text."""
        held, self._held = self._held, ""
        if not held:
            return []
        part: Part = "reasoning" if self._state == "reasoning" else "content"
        return [(part, held)]

    def _step(self, text: str, out: list[Piece]) -> str:
        """Consume a part of `text`; return the rest, or "" when all is consumed or held."""
        if self._skip_breaks:
            text = text.lstrip("\n")
            self._skip_breaks = not text
        if not text:
            return ""
        if self._state == "start":
            return self._step_start(text)
        if self._state == "content":
            out.append(("content", text))
            return ""
        return self._step_reasoning(text, out)

    def _step_start(self, text: str) -> str:
        bare = text.lstrip()
        for opening, closing in REASONING_TAGS:
            if bare.startswith(opening):
                self._state, self._closing, self._skip_breaks = "reasoning", closing, True
                return bare[len(opening) :]
            if bare.startswith(closing):
                self._state, self._skip_breaks = "content", True
                return bare[len(closing) :]
        if not bare or any(tag.startswith(bare) for pair in REASONING_TAGS for tag in pair):
            self._held = text
            return ""
        self._state = "content"
        return text

    def _step_reasoning(self, text: str, out: list[Piece]) -> str:
        """Up to the closing tag; line breaks before a possible tag wait with it."""
        at = text.find(self._closing)
        if at >= 0:
            inner = text[:at].rstrip("\n")
            if inner:
                out.append(("reasoning", inner))
            self._state, self._skip_breaks = "content", True
            return text[at + len(self._closing) :]
        keep = overlap(text, self._closing)
        shown = text[: len(text) - keep].rstrip("\n")
        self._held = text[len(shown) :]
        if shown:
            out.append(("reasoning", shown))
        return ""


class Splitter(Protocol):
    """Tells the parts of a reply apart while it streams."""

    @property
    def unclosed(self) -> bool:
        """Whether the reply would end without an answer if it ended now."""

    def feed(self, text: str) -> list[Piece]: ...
    def flush(self) -> list[Piece]: ...


@dataclass(frozen=True, slots=True)
class TextMark:
    """How the machines of a `ReplyText` stood at one moment."""

    decoder: tuple[bytes, int]
    matcher: StopMatcher
    splitter: Splitter | None
    n_content: int
    n_reasoning: int


@dataclass(frozen=True, slots=True)
class Reading:
    """What one more token adds: pieces to show, and what ended the text, if anything did."""

    pieces: list[Piece]
    stop: Match | None


class ReplyText:
    """The three machines in a row, and the whole text so far."""

    def __init__(self, stops: list[str], splitter: Splitter | None, turn_end: str = "") -> None:
        self._characters = CharacterStream()
        self._matcher = StopMatcher(stops, turn_end)
        self._splitter = splitter
        self._content: list[str] = []
        self._reasoning: list[str] = []

    @property
    def content(self) -> str:
        return "".join(self._content)

    @property
    def reasoning(self) -> str:
        return "".join(self._reasoning)

    @property
    def reasoning_unclosed(self) -> bool:
        return self._splitter is not None and self._splitter.unclosed

    def feed(self, data: bytes) -> Reading:
        shown = self._matcher.feed(self._characters.feed(data))
        return Reading(self._split(shown), self._matcher.matched)

    def begin(self, data: bytes) -> list[Piece]:
        """What the reply begins with, read as if it had come here; it may end anywhere."""
        return self._split(self._matcher.pass_over(self._characters.feed(data)))

    def mark(self) -> TextMark:
        """A place to which `restore` can go back, any number of times."""
        return TextMark(
            self._characters.state,
            copy.copy(self._matcher),
            copy.copy(self._splitter),
            len(self._content),
            len(self._reasoning),
        )

    def restore(self, mark: TextMark) -> None:
        """Forget what was fed since `mark`."""
        self._characters.state = mark.decoder
        self._matcher = copy.copy(mark.matcher)
        self._splitter = copy.copy(mark.splitter)
        del self._content[mark.n_content :]
        del self._reasoning[mark.n_reasoning :]

    def flush(self) -> Reading:
        """The end of the reply. After a stop string nothing that was held comes out of it."""
        shown = self._matcher.feed(self._characters.flush())
        stop = self._matcher.matched
        if stop is None:
            shown += self._matcher.flush()
        pieces = self._split(shown)
        if self._splitter is not None:
            pieces += self._keep(self._splitter.flush())
        return Reading(pieces, self._matcher.matched)

    def _split(self, text: str) -> list[Piece]:
        if not text:
            return []
        pieces: list[Piece] = [("content", text)] if self._splitter is None else []
        if self._splitter is not None:
            pieces = self._splitter.feed(text)
        return self._keep(pieces)

    def _keep(self, pieces: list[Piece]) -> list[Piece]:
        for part, text in pieces:
            (self._content if part == "content" else self._reasoning).append(text)
        return pieces


def opened_reasoning(text: str) -> str | None:
    """The closing tag that `text` (the end of a rendered prompt) waits for, if it does.

    >>> opened_reasoning("<|im_start|>assistant\\n<think>\\n")
    '</think>'
    """
    bare = text.rstrip()
    for opening, closing in REASONING_TAGS:
        if bare.endswith(opening):
            return closing
    return None


def last_opened(text: str) -> str:
    """The closing tag that belongs to the last opening tag in a prompt.

    >>> last_opened("<think>old</think> so [THINK] we were")
    '[/THINK]'
    """
    return max(REASONING_TAGS, key=lambda pair: text.rfind(pair[0]))[1]


def reasoning_tags(template: str) -> tuple[str, str]:
    """The tags that a chat template speaks of, or the most common ones.

    >>> reasoning_tags("{{ '[THINK]' + m.reasoning_content + '[/THINK]' }}")
    ('[THINK]', '[/THINK]')
    """
    named = (pair for pair in REASONING_TAGS if pair[0] in template or pair[1] in template)
    return next(named, REASONING_TAGS[0])


def unclosed_reasoning(text: str) -> str | None:
    """The closing tag that a reply to be continued waits for: it starts with an open tag."""
    bare = text.lstrip()
    for opening, closing in REASONING_TAGS:
        if bare.startswith(opening) and closing not in bare:
            return closing
    return None
