"""What a page is made of: all that is known of one token when it is saved."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, NamedTuple

from app.engine.protocol.messages import TokenTrace
from app.engine.protocol.stages import Stage
from app.insight.inside.wrote import Written
from app.insight.prompt.parts import PromptTokens
from app.insight.time.timeline import Stretch
from app.insight.tour.facts import Facts
from app.insight.trace.tokens_shown import visible

NOT_KNOWN: Final = "This wasn’t recorded."
MOST_LETTERS: Final = 48
"""Of a token, where it stands in a picture."""


class Run(NamedTuple):
    """Some words of a text. `term`: the glossary's name for them, or nothing."""

    text: str
    term: str = ""


@dataclass(frozen=True, slots=True)
class Passage:
    """What is said at a step, and its name."""

    step: str
    runs: tuple[Run, ...]


@dataclass(frozen=True, slots=True)
class Told:
    """A chapter."""

    title: str
    passages: tuple[Passage, ...]


class Entry(NamedTuple):
    """Of the glossary."""

    name: str
    text: str


@dataclass(frozen=True, slots=True)
class Material:
    """`ids` and `pieces`: of prompt and reply, of which `n_prompt` are the prompt's; of the reply
    alone where the prompt isn't known. `at`: the token that is followed, among them. `arrays` are
    about the token before it (`inside_messages.AXES`), over `at` tokens. `missing`: why an array
    isn't there, or "text" (the prompt), "written", and "inside" for all that would have to be seen
    in the network. `index`: of the followed token in the reply, of which `token_ms` has the times.
    """

    facts: Facts
    ids: Sequence[int]
    pieces: Sequence[bytes]
    at: int
    word: Callable[[int], str]
    n_prompt: int = 0
    prompt: PromptTokens | None = None
    arrays: Mapping[str, Any] = field(default_factory=dict)
    missing: Mapping[str, str] = field(default_factory=dict)
    written: Written | None = None
    token: TokenTrace | None = None
    index: int | None = None
    stages: tuple[Stage, ...] = ()
    n_vocab: int | None = None
    stretches: tuple[Stretch, ...] = ()
    token_ms: Sequence[float] = ()

    def why(self, *names: str) -> str:
        """Why something isn't there."""
        found = (self.missing.get(name) for name in (*names, "inside"))
        return next((sentence for sentence in found if sentence), NOT_KNOWN)

    def piece(self, place: int) -> str:
        """A token of the text."""
        return short(visible(self.pieces[place]))

    def said(self, token_id: int) -> str:
        """Any token of the vocabulary."""
        return short(self.word(token_id))

    @property
    def target(self) -> int:
        """The ID of the token that is followed."""
        return self.ids[self.at]


@dataclass(frozen=True, slots=True)
class Head:
    """What stands at the top. `asked`: the message that was answered; empty where there is none.
    `notes`: what the numbers are subject to."""

    asked: str
    model: str
    saved_at: datetime
    notes: tuple[str, ...] = ()


def short(text: str, most: int = MOST_LETTERS) -> str:
    """
    >>> short("a" * 50)[-2:], short("Paris"), short("")
    ('a…', 'Paris', '(empty)')
    """
    return (text if len(text) <= most else f"{text[: most - 1]}…") or "(empty)"


def ends(n: int, first: int, last: int) -> tuple[range, range]:
    """Of so many the first and the last, all where there are no more.

    >>> ends(10, 2, 3), ends(4, 2, 3)
    ((range(0, 2), range(7, 10)), (range(0, 4), range(4, 4)))
    """
    if n <= first + last:
        return range(n), range(n, n)
    return range(first), range(n - last, n)
