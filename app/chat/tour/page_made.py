"""The page of one token, made of what was asked for it (`page.py`): facts, texts, pictures."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, overload

import numpy as np

from app.chat.replies.written_by import drawn_with
from app.chat.settings.sampler_links import stages_of_reply
from app.chat.tour.chapters import Chapter, chapters, glossary, said
from app.chat.tour.terms import terms_in
from app.chat.tour.wish import Run as PageRun
from app.engine.protocol.messages import TokenTrace
from app.engine.protocol.pieces import Pieces
from app.insight.inside.embedding import folded_words
from app.insight.inside.votes import votes
from app.insight.time.timeline import from_stored
from app.insight.tour import seen as of
from app.insight.tour.facts import Fact, Facts
from app.insight.tour.file import (
    cell_facts,
    computer_facts,
    fingerprint,
    header_facts,
    loaded_facts,
    machine_facts,
    position_facts,
    window_facts,
)
from app.insight.tour.page.material import Entry, Head, Material, Passage, Run, Told, short
from app.insight.tour.page.page import html_of
from app.insight.tour.reply import reply_facts, settings_facts, speed_facts
from app.insight.tour.text import place_facts, prompt_facts
from app.insight.tour.token import token_facts
from app.insight.trace.message_tokens import ids_of, pieces_of, times_of
from app.insight.trace.tokens_shown import visible
from models.records import Message

if TYPE_CHECKING:
    from app.chat.inspection.inside import ReadText, Seen
    from app.engine.protocol.loading_messages import Loaded

MEASURED: Final = frozenset(("step_with", "step_without", "cache_gain"))
"""Facts that nobody measures unasked."""

LAST_WORDS: Final = 60
"""Tokens."""

LONGEST_FACT: Final = 200
"""Letters: a token may be a whole sentence."""


class _Pieces(Sequence[bytes]):
    """Those of a text, as they are asked for."""

    def __init__(self, text: ReadText) -> None:
        self._text = text

    def __len__(self) -> int:
        return len(self._text)

    @overload
    def __getitem__(self, place: int) -> bytes: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[bytes]: ...
    def __getitem__(self, place: int | slice) -> bytes | Sequence[bytes]:
        if isinstance(place, slice):
            return [self._text.piece(each) for each in range(*place.indices(len(self)))]
        return self._text.piece(place)


def maker(run: PageRun, memory_bytes: int, saved_at: datetime) -> Callable[[], str]:
    """What makes the page, on any thread: a trace that is read by others isn't touched there."""
    wish, loaded = run.wish, run.loaded
    message, traces, index = wish.message, wish.traces, wish.index
    token = traces[index]
    text: ReadText | None = run.found.get("text")
    pieces: Sequence[bytes] = pieces_of(traces, 0, len(traces)) if text is None else _Pieces(text)
    ids = ids_of(traces) if text is None else text.ids
    token_ms = times_of(traces)

    def make() -> str:
        words: Pieces | None = run.found.get("words")
        seen: Seen | None = run.found.get("inside")

        def word(token_id: int) -> str:
            known = words is not None and 0 <= token_id < len(words)
            return visible(words.piece(token_id)) if known and words else f"ID {token_id}"

        facts = _facts(run, token, memory_bytes, word)
        material = Material(
            facts=facts,
            ids=ids,
            pieces=pieces,
            at=index if text is None else text.place_of(index),
            word=word,
            n_prompt=0 if text is None else text.n_prompt,
            prompt=None if text is None else text.prompt,
            arrays={} if seen is None else seen.arrays,
            missing={**run.missing, **({} if seen is None else seen.missing)},
            written=run.found.get("written"),
            token=token,
            index=index,
            stages=stages_of_reply(message.settings),
            n_vocab=None if loaded is None else loaded.n_vocab,
            stretches=from_stored(message.settings.get("timeline")),
            token_ms=token_ms,
        )
        about = "" if text is None else text.note
        notes = (*((about,) if about else ()), *(() if seen is None else seen.notes))
        head = Head(wish.asked or _end_of(text), _model_of(message, loaded), saved_at, notes)
        told = [_told(chapter, facts) for chapter in chapters()]
        return html_of(head, told, _entries(told), material)

    return make


def _end_of(text: ReadText | None) -> str:
    """Of a text that nobody asked: its last words before the reply."""
    if text is None:
        return ""
    first = max(text.n_prompt - LAST_WORDS, 0)
    words = b"".join(text.pieces(first, text.n_prompt)).decode("utf-8", "replace")
    return f"… {words}" if first else words


def _model_of(message: Message, loaded: Loaded | None) -> str:
    name = message.weights_name or ("" if loaded is None else loaded.name)
    return name or "An unnamed model"


def _facts(run: PageRun, token: TokenTrace, memory_bytes: int, word: Callable[[int], str]) -> Facts:
    """As the tour has them; what was recorded as the reply was written comes last."""
    wish, loaded = run.wish, run.loaded
    message, found = wish.message, run.found
    facts: dict[str, Fact] = {n: f for n, f in wish.known.items() if n in MEASURED}
    facts |= computer_facts(memory_bytes)
    if loaded is not None:
        facts |= _of_file(loaded, found)
    text: ReadText | None = found.get("text")
    if text is not None:
        place = text.place_of(wish.index) - 1
        facts |= prompt_facts(text.prompt)
        if place >= 0:
            facts |= place_facts(text, place)
            facts |= _of_place(text, place, loaded, found, word)
    facts |= reply_facts(message)
    facts |= speed_facts(message)
    stages = stages_of_reply(message.settings)
    facts |= settings_facts(drawn_with(message.settings, stages))
    n_cells = message.counts.context_used
    if loaded is not None and n_cells is not None:
        facts |= cell_facts(loaded, n_cells)
    facts |= token_facts(message, token, wish.index, loaded)
    return {name: replace(f, text=short(f.text, LONGEST_FACT)) for name, f in facts.items()}


def _of_file(loaded: Loaded, found: Mapping[str, Any]) -> Facts:
    facts = {**loaded_facts(loaded)}
    if "machine" in found:
        facts |= machine_facts(found["machine"])
    if "header" in found:
        facts |= header_facts(found["header"].facts)
    if "hash" in found:
        facts["hash_now"] = fingerprint(found["hash"])
    if "rotations" in found:
        facts |= position_facts(found["rotations"], found.get("position"))
    return facts


def _of_place(
    text: ReadText,
    place: int,
    loaded: Loaded | None,
    found: Mapping[str, Any],
    word: Callable[[int], str],
) -> Facts:

    facts: dict[str, Fact] = {}
    if loaded is not None:
        facts |= window_facts(loaded, place)
    if "nearest" in found and "words" in found:
        own = [text.ids[place]]
        facts |= of.nearest_facts(folded_words(found["nearest"], own, found["words"]), word)
    if "written" in found:
        facts |= of.written_facts(found["written"], word)
    seen: Seen | None = found.get("inside")
    if seen is None:
        return facts
    facts |= of.attention_facts(seen.arrays, seen.missing, lambda at: visible(text.piece(at)))
    facts |= of.layer_facts(seen.arrays, None, 0, word)
    if "logits" in seen.arrays:
        target = text.target(place)
        logits = np.asarray(seen.arrays["logits"], np.float32)
        facts |= of.vote_facts(votes(logits, also=target), target, word)
    return facts


# --- what is said -------------------------------------------------------------------------------


def _told(chapter: Chapter, facts: Facts) -> Told:
    """Without what can only be tried in the window."""
    return Told(
        chapter.title,
        tuple(
            Passage(step.name, tuple(_runs(said((*step.see, *step.why), facts))))
            for step in chapter.steps
            if step.page
        ),
    )


def _runs(text: str) -> Iterator[Run]:
    """A text, cut where terms of the glossary stand."""
    at = 0
    for found in terms_in(text):
        yield Run(text[at : found.first])
        yield Run(text[found.first : found.end], found.term.name)
        at = found.end
    yield Run(text[at:])


def _entries(told: Sequence[Told]) -> list[Entry]:
    """The terms that occur."""
    runs = (run for each in told for passage in each.passages for run in passage.runs)
    there = {run.term for run in runs}
    return [Entry(term.name, term.text) for term in glossary() if term.name in there]
