"""The tour's texts: chapters, their steps, and the glossary, read from `resources/tour/`.

They are data, so that they can be translated and read by people who write no code. A sentence holds
facts as `{name}`; one of which a fact isn't known is left out, so a text never claims what this
file or this reply doesn't have:

    said(("It has ID {id}.", "RoPE turns it by {angle}."), {"id": Fact(7042, "7042")})
    →  "It has ID 7042."
"""

from __future__ import annotations

import functools
import re
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec

from app.insight.tour.facts import Facts

FOLDER: Final = Path(__file__).parents[3] / "resources" / "tour" / "en"
GLOSSARY: Final = "glossary.toml"
_FACT: Final = re.compile(r"\{([a-z0-9_]+)\}")


class _Data(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """As it stands in a file; a field that nobody knows is refused there."""


class Spot(_Data, frozen=True):
    """A widget of the window: `widget` is its object name, `panel` a tab of the section ("": the
    chat), `room` a room of the panel, or a card of *Inside*."""

    widget: str = ""
    panel: str = ""
    room: str = ""


class Unless(_Data, frozen=True):
    """A sentence that is said only where the fact `lacks` isn't known."""

    text: str
    lacks: str


Sentence = str | Unless


class Guess(_Data, frozen=True):
    """A number is asked for before it is shown."""

    ask: str
    fact: str


class Instead(_Data, frozen=True):
    """What a step has otherwise where no messages are."""

    try_: str = msgspec.field(name="try")
    act: str
    done: tuple[Sentence, ...]
    at: Spot | None = None


class Step(_Data, frozen=True):
    """What stands on the card beside `at`: what is seen, why it matters, and one thing to `try_`,
    which is recognised as `act` and answered by `done`. `page`: whether it has something to say
    where nothing can be tried, on a page that was saved. `text`: in a text document. `returns`:
    another token is only visited; the next step is about the one before."""

    name: str
    at: Spot
    see: tuple[Sentence, ...]
    why: tuple[Sentence, ...] = ()
    predict: Guess | None = None
    try_: str = msgspec.field(default="", name="try")
    act: str = ""
    done: tuple[Sentence, ...] = ()
    page: bool = True
    text: Instead | None = None
    returns: bool = False

    def in_text(self) -> Step:
        """As it is in a text document."""
        other = self.text
        if other is None:
            return self
        at = other.at or self.at
        return msgspec.structs.replace(
            self, at=at, try_=other.try_, act=other.act, done=other.done, text=None
        )

    def sentences(self) -> Iterator[Sentence]:
        """All that it may say."""
        yield from (*self.see, *self.why, *self.done)
        if self.try_:
            yield self.try_
        if self.predict is not None:
            yield self.predict.ask
        if self.text is not None:
            yield from (self.text.try_, *self.text.done)


class Chapter(_Data, frozen=True):
    title: str
    steps: tuple[Step, ...]


class Term(_Data, frozen=True):
    """An entry of the glossary. `words`: as it stands on the screen. `show`: where it is alive.
    `otherwise`: what to do where that isn't there; empty: all that it needs is a model and a
    reply."""

    name: str
    words: tuple[str, ...]
    text: str
    show: Spot
    otherwise: str = ""


class Glossary(_Data, frozen=True):
    terms: tuple[Term, ...]


def facts_in(sentence: Sentence) -> set[str]:
    """The names of the facts in a sentence."""
    return set(_FACT.findall(sentence if isinstance(sentence, str) else sentence.text))


def said(sentences: Iterable[Sentence], facts: Facts) -> str:
    """The sentences that hold, with their facts in their places.

    >>> said(("One of {n}.", Unless("No RoPE.", lacks="rope_base")), {})
    'No RoPE.'
    """
    return " ".join(_said(sentences, facts))


def _said(sentences: Iterable[Sentence], facts: Facts) -> Iterator[str]:
    for sentence in sentences:
        if isinstance(sentence, Unless):
            if sentence.lacks in facts:
                continue
            sentence = sentence.text
        if facts_in(sentence) <= facts.keys():
            yield _FACT.sub(lambda found: facts[found[1]].text, sentence)


@functools.cache
def chapters(folder: Path = FOLDER) -> tuple[Chapter, ...]:
    """In the order of their files. Raises ValueError, which names the file and the fault."""
    files = sorted(path for path in folder.glob("*.toml") if path.name != GLOSSARY)
    return tuple(_read(path, Chapter) for path in files)


@functools.cache
def glossary(folder: Path = FOLDER) -> tuple[Term, ...]:
    """By name. Raises ValueError, which names the fault."""
    found = _read(folder / GLOSSARY, Glossary)
    return tuple(sorted(found.terms, key=lambda term: term.name.casefold()))


_Read = TypeVar("_Read", bound=_Data)


def _read(path: Path, kind: type[_Read]) -> _Read:
    try:
        data: dict[str, Any] = tomllib.loads(path.read_text("utf-8"))
        return msgspec.convert(data, kind)
    except (tomllib.TOMLDecodeError, msgspec.ValidationError, UnicodeDecodeError) as error:
        raise ValueError(f"{path.name}: {error}") from error
