"""The parts of a document under its message: in the text's order, the best where there are many."""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime

from app.chat.attachments.document_parts import with_sent
from app.insight.retrieval.choice import Part
from models.records import Attachment
from ui.look.theme import Theme
from ui.markdown.styles import Styles
from ui.transcript.chips import words_of
from ui.transcript.part_pills import MOST, OPEN_MORE, OPEN_PART, part_of, pill_rows


def attached(scores: list[float], mode: str = "parts") -> Attachment:
    when = datetime(2026, 1, 1, tzinfo=UTC)
    one = Attachment("a", "c", "x.pdf", "x" * 900, 9, when, details={"mode": mode})
    parts = [Part(n * 9, n * 9 + 9, score, f"page {n}") for n, score in enumerate(scores)]
    return with_sent(one, parts, by="words")


def test_pills_stand_in_order_inside_the_width(qapp: object) -> None:
    styles = Styles(Theme("light"))
    pills = pill_rows([attached([1.0, 4.0, 2.0])], 400, 30, styles)
    assert [pill.label for pill in pills] == [
        "Open page 0 · 1.0",
        "Open page 1 · 4.0",
        "Open page 2 · 2.0",
    ]
    assert [part_of(pill.payload) for pill in pills] == [("a", 0), ("a", 1), ("a", 2)]
    assert [pill.payload.rpartition("#")[2] for pill in pills] == ["25", "100", "50"]
    assert round(pills[-1].rect.right()) == 400
    assert pills[0].rect.top() == 30
    narrow = pill_rows([attached([1.0, 4.0, 2.0])], 100, 30, styles)
    assert len({pill.rect.top() for pill in narrow}) == 3
    assert all(0 <= pill.rect.left() < pill.rect.right() <= 100 for pill in narrow)


def test_of_two_documents_each_part_says_whose_it_is(qapp: object) -> None:
    two = [attached([1.0]), dataclasses.replace(attached([2.0]), id="b", name="y.pdf")]
    labels = [
        pill.label for pill in pill_rows([*two, attached([])], 600, 0, Styles(Theme("light")))
    ]
    assert labels == ["Open page 0 · 1.0 · x.pdf", "Open page 0 · 2.0 · y.pdf"]


def test_of_many_the_best_are_shown(qapp: object) -> None:
    scores = [float(n % 7 + 1) for n in range(20)]
    pills = pill_rows([attached(scores)], 600, 0, Styles(Theme("light")))
    assert [pill.name for pill in pills] == [OPEN_PART] * (MOST - 1) + [OPEN_MORE]
    shown = [part_of(pill.payload)[1] for pill in pills[:-1]]
    assert shown == sorted(shown)
    assert min(scores[n] for n in shown) >= sorted(scores)[-(MOST - 1)]
    assert pills[-1].label == "Open 13 more"
    assert part_of(pills[-1].payload)[1] not in shown


def test_a_chip_says_how_far_the_search_is(qapp: object) -> None:
    sought = dataclasses.replace(attached([]), tokens=16)
    details = {name: value for name, value in sought.details.items() if name != "by"}
    assert words_of(dataclasses.replace(sought, details=details)) == "x.pdf"
    assert words_of(sought) == "x.pdf · nothing of it · 16 tokens"
    assert words_of(attached([0.0])) == "x.pdf · its beginning"
    assert words_of(attached([2.0])) == "x.pdf · 1 part"


def test_what_has_no_scores_has_no_pills(qapp: object) -> None:
    styles = Styles(Theme("light"))
    assert pill_rows([attached([0.0]), attached([1.0], "pages"), attached([])], 99, 0, styles) == []
