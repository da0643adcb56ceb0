"""Fuzzy search over names: what fits, in which order, and that many chats do not hold it up."""

from __future__ import annotations

import time
from functools import partial

from hypothesis import given, strategies as st

from ui.shell.palette_rows import LIMIT, Row, fits, ranked


def row(title: str, **fields: object) -> Row:
    return Row(title, lambda: None, **fields)  # type: ignore[arg-type]


ACTIONS = [row("New chat"), row("Search chats"), row("Settings"), row("Unload the model")]


def titles(query: str, actions: list[Row] = ACTIONS, chats: tuple[str, ...] = ()) -> list[str]:
    return [r.title for r in ranked(query, actions, ((t, partial(row, t)) for t in chats))]


def test_beginnings_of_words_come_before_letters_inside() -> None:
    assert titles("nc", [row("Once more"), row("New chat")])[0] == "New chat"
    assert titles("set", [row("Reset zoom"), row("Settings")])[0] == "Settings"
    assert titles("chat", [row("cheap artists"), row("Search chats")])[0] == "Search chats"


def test_a_word_that_people_type_finds_what_is_called_otherwise() -> None:
    actions = [
        row("Move this chat to the trash", also=("delete chat",)),
        row("Unload the model"),
        row("Delete the message"),
    ]
    assert titles("delete chat", actions) == ["Move this chat to the trash"]
    assert titles("delete", actions)[0] == "Delete the message"
    assert titles("dlt", actions) == ["Delete the message"], "typed in pieces, only titles fit"


def test_letters_must_come_in_their_order() -> None:
    assert titles("tesn") == []
    assert fits("chatnew", "New chat") is None


@given(st.text(min_size=1, max_size=30), st.data())
def test_what_is_found_is_where_it_says(text: str, data: st.DataObject) -> None:
    places = data.draw(st.lists(st.integers(0, len(text) - 1), unique=True, min_size=1))
    query = "".join(text[place] for place in sorted(places))
    found = fits(query, text)
    if found is None or query.isspace():
        return
    letters = [c for c in query.casefold() if not c.isspace()]
    assert len(found[1]) <= len(letters)
    assert list(found[1]) == sorted(set(found[1]))


@given(st.text(max_size=40), st.text(max_size=40))
def test_no_text_breaks_it(query: str, text: str) -> None:
    fits(query, text)


def test_case_and_spaces_do_not_matter() -> None:
    assert titles("NEW  CHAT") == ["New chat"]
    assert titles("straße", [], ("In der Straße",)) == ["In der Straße"]


def test_without_a_query_all_that_can_be_done_then_the_newest_chats() -> None:
    actions = [row("New chat"), Row("Stop", lambda: None, is_enabled=False)]
    assert titles("", actions, ("newest", "older")) == ["New chat", "newest", "older"]


def test_what_cannot_be_done_now_comes_last() -> None:
    actions = [Row("Stop it", lambda: None, is_enabled=False), row("Stop all")]
    assert titles("stop", actions) == ["Stop all", "Stop it"]


def test_chats_are_found_among_many_in_time() -> None:
    many = (*(f"Chat about subject number {n}" for n in range(100_000)), "Zebra crossing")
    began = time.thread_time()
    found = titles("zebra", ACTIONS, many)
    took = time.thread_time() - began
    assert found == ["Zebra crossing"]
    assert took < 1.0, f"{took:.3f} s"
    assert len(titles("subject", ACTIONS, many)) == LIMIT
