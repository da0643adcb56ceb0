"""Texts and the line use the facts that are in the table, and the table has no others."""

from __future__ import annotations

import re

from each import each

from app.chat.tour.chapters import chapters, facts_in, glossary
from app.insight.tour.line import STAGES
from app.insight.tour.names import NAMES


def used() -> dict[str, str]:
    """Facts of the line and of all texts, and where each stands."""
    found = {stage.fact: f"line: {stage.name}" for stage in STAGES}
    for chapter in chapters():
        for step in chapter.steps:
            where = f"{chapter.title}: {step.name}"
            for sentence in step.sentences():
                found |= dict.fromkeys(facts_in(sentence), where)
                if not isinstance(sentence, str):
                    found[sentence.lacks] = where
            if step.predict is not None:
                found[step.predict.fact] = where
    for term in glossary():
        found |= dict.fromkeys(facts_in(term.text), f"glossary: {term.name}")
    return found


def test_every_fact_that_is_said_is_in_the_table() -> None:
    assert {name: where for name, where in used().items() if name not in NAMES} == {}


def test_every_fact_of_the_table_is_said() -> None:
    assert set(NAMES) - set(used()) == set()


@each("name", NAMES)
def test_a_fact_says_what_it_is(name: str) -> None:
    assert re.fullmatch(r"[a-z0-9_]+", name)
    assert all(NAMES[name])


def test_no_meaning_stands_twice() -> None:
    meanings = [name.meaning for name in NAMES.values() if name.meaning != "what it gives to it"]
    assert len(set(meanings)) == len(meanings)
