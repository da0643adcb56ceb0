"""The texts of the tour and of the glossary, as they are read on the screen."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from each import each

from app.chat.tour.chapters import (
    Chapter,
    Sentence,
    Step,
    Term,
    Unless,
    chapters,
    glossary,
    said,
)
from app.chat.tour.terms import terms_in
from app.insight.tour.facts import Fact
from app.insight.tour.names import NAMES
from ui.section.kinds import KINDS
from ui.section.sampling.stage_words import WORDS as STAGES
from ui.tour.acts import ACTS

MOST_WORDS = 90
MOST_WORDS_OF_ALL = 5 * 238
"""Read in five minutes: adults read 238 words a minute (Brysbaert 2019)."""

UI = Path(__file__).parents[4] / "ui"
FIELD = re.compile(r"\{[a-z0-9_]+\}")
NUMBER_WORDS = re.compile(
    r"\b(zero|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|twenty|thirty|hundreds?|"
    r"thousands?|millions?|billions?|twice|half|double|dozens?)\b",
    re.IGNORECASE,
)
EXAMPLES = {name: Fact(0, described.shown) for name, described in NAMES.items()}
RARE = ("position_otherwise", "no_attention", "end_rank", "first_lead", "n_window_layers")
"""What is known where something else is not."""
USUAL = {name: fact for name, fact in EXAMPLES.items() if name not in RARE}
STEPS = [
    pytest.param(step, id=f"{number}-{step.name}")
    for number, chapter in enumerate(chapters(), 1)
    for step in chapter.steps
]
TERMS = [pytest.param(term, id=term.name) for term in glossary()]


def texts(sentences: Iterator[Sentence]) -> Iterator[str]:
    for sentence in sentences:
        yield sentence.text if isinstance(sentence, Unless) else sentence


def n_words(step: Step) -> int:
    """As far as it is read without doing anything, with all of its facts known."""
    try_ = [step.try_] if step.try_ else []
    asked = [step.predict.ask] if step.predict is not None else []
    return len(said([*step.see, *step.why, *try_, *asked], USUAL).split())


def test_there_are_eight_chapters_of_two_or_three_steps() -> None:
    assert [chapter.title for chapter in chapters()] == [
        "From text to tokens",
        "Numbers with a place",
        "Looking back",
        "Layer by layer",
        "From scores to a word",
        "Again and again",
        "Other ways, faster ways",
        "What it costs, what it never does",
    ]
    assert all(len(chapter.steps) in (2, 3) for chapter in chapters())


@pytest.mark.parametrize("chapter", chapters(), ids=lambda chapter: chapter.title)
def test_the_names_of_steps_are_unique(chapter: Chapter) -> None:
    names = [step.name for step in chapter.steps]
    assert len(set(names)) == len(names)
    assert all(re.fullmatch(r"[a-z_]+", name) for name in names)


def test_it_is_read_in_five_minutes() -> None:
    assert sum(n_words(step) for chapter in chapters() for step in chapter.steps) <= (
        MOST_WORDS_OF_ALL
    )


@each("step", STEPS)
def test_a_step_is_short(step: Step) -> None:
    assert n_words(step) + len(said(step.done, USUAL).split()) <= MOST_WORDS


@each("step", STEPS)
def test_a_step_says_something_before_anything_is_known(step: Step) -> None:
    assert said(step.see, {})
    assert said(step.why, {})


@each("step", STEPS)
def test_a_step_has_one_thing_to_try_which_is_answered(step: Step) -> None:
    assert step.try_
    assert said(step.done, {})
    assert step.act in ACTS
    assert said((step.try_,), {}) == step.try_


def test_every_act_is_asked_for() -> None:
    steps = [step for chapter in chapters() for step in chapter.steps]
    assert {each.act for step in steps for each in (step, step.in_text())} == set(ACTS)


@each("step", STEPS)
def test_in_a_text_document_nothing_is_said_of_messages(step: Step) -> None:
    """There are none to send or to click."""
    other = step.in_text()
    assert other.try_
    assert said(other.done, {})
    assert other.act in ACTS
    asked = other.try_.replace("In a chat, right-click a message for that.", "")
    assert not re.search(r"message|right-click", asked), asked


@each("step", STEPS)
def test_numbers_are_facts(step: Step) -> None:
    for text in texts(step.sentences()):
        without = FIELD.sub("", text)
        assert not re.search(r"\d", without), text
        assert not NUMBER_WORDS.search(without), text
        assert "{" not in without, text


@each("step", STEPS)
def test_sentences_are_whole(step: Step) -> None:
    for text in texts(step.sentences()):
        shown = said((text,), EXAMPLES)
        assert shown[-1] in ".?”)", shown
        assert shown[0].isupper() or shown[0] in "“+0123456789", shown
        assert "  " not in shown


@cache
def strings_of(folder: Path) -> frozenset[str]:
    """All texts in code."""
    return frozenset(
        node.value
        for path in folder.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    )


def test_what_is_to_be_pressed_is_called_so() -> None:
    """Names of buttons and menu entries stand in quotes."""
    known = strings_of(UI)
    for chapter in chapters():
        for step in chapter.steps:
            other = step.in_text()
            told = said((step.try_, *step.done, other.try_, *other.done), EXAMPLES)
            for label in re.findall(r"“([^{}”]+)”", told):
                if label not in {fact.text for fact in EXAMPLES.values()}:
                    is_open = label.endswith(" …")  # what follows depends on what is chosen
                    beginning = label.removesuffix("…")
                    assert label in known or (
                        is_open and any(text.startswith(beginning) for text in known)
                    ), label


@each("step", STEPS)
def test_a_guess_is_about_a_number(step: Step) -> None:
    if step.predict is not None:
        assert step.predict.ask.endswith("?")
        assert NAMES[step.predict.fact].unit != "text"


# --- the glossary -------------------------------------------------------------------------------

ASKED = (
    *("prompt", "token", "ID", "embedding", "position", "attention", "head", "FFN", "residual"),
    *("logit", "softmax", "temperature", "top-k", "top-p", "greedy", "beam search", "prefill"),
    *("decode", "KV cache", "batching", "quantisation", "speculative decoding"),
    *("flash attention", "detokenisation", "min-p", "entropy", "surprise", "RoPE", "KV head"),
    *("grouped-query attention", "sink", "lens", "ablation", "DRY", "XTC", "mirostat", "seed"),
    *("context window", "chat template", "special token", "BPE", "byte fallback", "rank"),
    *("log-probability", "tokens/s", "bits per weight", "mmap", "offload"),
)


def test_each_term_that_a_reader_may_ask_for_is_there() -> None:
    assert set(ASKED) - {term.name for term in glossary()} == set()


def test_every_sampler_stage_is_a_term() -> None:
    words = {word.casefold() for term in glossary() for word in term.words}
    titles = {re.sub(r" \d$", "", stage.title.casefold()) for stage in STAGES.values()}
    assert titles - words == set()


def test_a_word_belongs_to_one_term() -> None:
    words = [word.casefold() for term in glossary() for word in term.words]
    assert sorted(word for word in set(words) if words.count(word) > 1) == []
    names = [term.name for term in glossary()]
    assert len(set(names)) == len(names)


@each("term", TERMS)
def test_a_term_is_told_in_two_sentences(term: Term) -> None:
    sentences = re.split(r"(?<=[.?])\s+(?=[A-ZÀ-Ý“])", term.text)
    assert len(sentences) == 2, sentences
    assert all(sentence.endswith(".") for sentence in sentences)
    assert not re.search(r"\d|[{}]", term.text)
    assert not NUMBER_WORDS.search(term.text)


@each("term", TERMS)
def test_a_term_shows_a_widget(term: Term) -> None:
    assert term.show.widget
    assert term.words
    assert term.show.panel in {"", *(kind.title for kind in KINDS)}


@pytest.mark.parametrize("term", [term for term in glossary() if term.otherwise], ids=str)
def test_what_to_do_first_is_one_sentence_about_what_is_there(term: Term) -> None:
    assert term.otherwise.endswith(".")
    assert term.otherwise.count(".") == 1
    for label in re.findall(r"“([^”]+)”", term.otherwise):
        assert label in strings_of(UI)


def test_what_is_quoted_is_no_term() -> None:
    assert [found.term.name for found in terms_in("“token” has a logit, “·cache”")] == ["logit"]


@pytest.mark.parametrize(
    "text", ["Text is cut into pieces", "It passes all blocks", "A typical reply"]
)
def test_a_word_that_means_something_else_there_is_no_term(text: str) -> None:
    assert terms_in(text) == ()
