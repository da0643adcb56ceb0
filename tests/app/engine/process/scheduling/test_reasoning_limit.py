"""Reasoning that is closed by force, on small real weights.

The proof is against a run that knows nothing of limits: its prompt is what the limited reply had
said when it was closed, closing tag and all, and it must go on with the same tokens.
"""

from __future__ import annotations

import time

import pytest
from native_session import NativeSession, ReadyPrompt

from app.engine.process.cache.slot import splitter_for
from app.engine.protocol.messages import Finished, Generate, Note, Summary
from app.engine.protocol.prompt_messages import ChatMessage, ChatPrompt
from app.engine.protocol.stages import Greedy, Sampling

pytestmark = pytest.mark.weights

TEXT = "Say when.<think>\n"
CLOSING = "\n</think>\n\n"
LIMIT, LENGTH = 6, 30
ON = Sampling([], Greedy(), ban_end_token=True)


def words(session: NativeSession, count: int) -> list[int]:
    """So many tokens, a word each."""
    ids = session.weights.vocabulary.tokenize(" ajs" * count)
    assert len(ids) == count
    return ids


def ask(
    session: NativeSession,
    limit: int,
    sampling: Sampling = ON,
    prompt: ReadyPrompt | None = None,
    forced: list[int] | None = None,
) -> tuple[Summary, list[int], list[bool], list[str]]:
    """The summary; the tokens, and which of them were inserted; what was said."""
    ids = session.weights.vocabulary.tokenize(TEXT)
    chat = ChatPrompt([ChatMessage("user", "Say when.")], reasoning_budget=limit)
    number = 1000 + len(session.events)  # never used before
    generate = Generate(number, chat, sampling, max_tokens=LENGTH, forced_ids=forced or [])
    ready = prompt or ReadyPrompt(ids, rendered=TEXT)
    session.scheduler.add(generate, ready, time.perf_counter())
    session.run()
    ending = session.ending(generate.id)
    assert isinstance(ending, Finished), ending
    assert isinstance(ending.result, Summary)
    tokens = [event.token for event in session.tokens(generate.id)]
    notes = [event.sentence for event in session.of(generate.id) if isinstance(event, Note)]
    inserted = [token.inserted for token in tokens]
    assert all(token.chosen for token in tokens if token.inserted)
    return ending.result, [token.token_id for token in tokens], inserted, notes


def test_it_is_closed_at_the_limit_and_goes_on_as_if_it_had_been_said(
    made_session: NativeSession,
) -> None:
    chosen = words(made_session, LIMIT)
    closing = made_session.weights.vocabulary.tokenize(CLOSING, special=True)
    free, free_ids, no_marks, _ = ask(made_session, 0, forced=chosen)
    assert (free.reasoning_tokens, free.reasoning_limit) == (LENGTH, 0)
    assert not any(no_marks)
    assert free.text == ""

    limited, ids, inserted, notes = ask(made_session, LIMIT, forced=chosen)
    end = LIMIT + len(closing)
    assert ids[:end] == free_ids[:LIMIT] + closing
    assert inserted == [False] * LIMIT + [True] * len(closing) + [False] * (LENGTH - end)
    assert (limited.reasoning_tokens, limited.reasoning_limit) == (LIMIT, LIMIT)
    assert notes == ["Reasoning ended at the limit of 6 tokens."] == limited.notes
    assert limited.reasoning == " ajs" * LIMIT
    assert limited.text

    behind = made_session.weights.vocabulary.tokenize(TEXT) + ids[:end]
    expected = made_session.reply(behind, ON, max_tokens=LENGTH - end)
    assert ids[end:] == expected.token_ids


def test_a_limit_that_is_not_reached_changes_nothing(made_session: NativeSession) -> None:
    _, free_ids, _, _ = ask(made_session, 0)
    limited, ids, inserted, notes = ask(made_session, LENGTH + 1)
    assert ids == free_ids
    assert not any(inserted)
    assert limited.reasoning_limit == 0
    assert notes == ["The reply ended during its reasoning, without an answer."]


def test_what_a_reply_goes_on_from_counts(made_session: NativeSession) -> None:
    ids = made_session.weights.vocabulary.tokenize(TEXT)
    prompt = ReadyPrompt(ids, rendered=TEXT, n_continued=LIMIT - 1)
    limited, _, inserted, _ = ask(made_session, LIMIT, prompt=prompt, forced=words(made_session, 1))
    assert inserted[:2] == [False, True]
    assert limited.reasoning_tokens == LIMIT


def test_tokens_of_a_branch_come_before_the_limit(made_session: NativeSession) -> None:
    chosen = words(made_session, LIMIT + 2)
    _, ids, inserted, _ = ask(made_session, LIMIT, forced=chosen)
    assert ids[: len(chosen)] == chosen
    assert inserted.index(True) == len(chosen)


def test_it_is_closed_between_whole_characters(made_session: NativeSession) -> None:
    """The limit falls behind the second byte of a character of three."""
    vocabulary = made_session.weights.vocabulary
    chosen = vocabulary.tokenize("€€€")
    assert len(chosen) == 9
    limited, ids, inserted, _ = ask(made_session, 8, forced=chosen)
    assert ids[:9] == chosen
    assert inserted.index(True) == 9
    assert limited.reasoning == "€€€"


def test_a_closing_tag_that_has_begun_is_let_come(made_session: NativeSession) -> None:
    chosen = made_session.weights.vocabulary.tokenize("So.\n</think>\n\nYes")
    at = len(made_session.weights.vocabulary.tokenize("So.\n</th"))
    limited, ids, inserted, _ = ask(made_session, at, forced=chosen)
    assert ids[: len(chosen)] == chosen
    assert not any(inserted)
    assert (limited.reasoning, limited.text[:3]) == ("So.", "Yes")


def test_what_looks_like_a_tag_for_good_is_closed_all_the_same(
    made_session: NativeSession,
) -> None:
    chosen = made_session.weights.vocabulary.tokenize("<" * 20)
    _, _, inserted, _ = ask(made_session, 4, forced=chosen)
    assert inserted.index(True) == 20


def test_a_grammar_goes_before_the_limit(made_session: NativeSession) -> None:
    sampling = Sampling([], Greedy(), grammar="root ::= [a-z ]+", ban_end_token=True)
    limited, _, inserted, notes = ask(made_session, LIMIT, sampling)
    assert not any(inserted)
    assert limited.reasoning_limit == 0
    assert notes[0] == "The grammar doesn't allow the reasoning to be closed, so it went on."
    assert len(notes) == 2  # the other one says that there was no answer


def test_a_banned_string_goes_before_the_limit(made_session: NativeSession) -> None:
    sampling = Sampling([], Greedy(), banned_strings=["</think>"], ban_end_token=True)
    limited, _, _, notes = ask(made_session, LIMIT, sampling, forced=words(made_session, LIMIT))
    assert notes[0].startswith("What closes the reasoning completes a banned string")
    assert (limited.reasoning_limit, limited.text) == (0, "")
    assert limited.reasoning_tokens > LIMIT


def test_what_is_ordinary_text_has_no_limit() -> None:
    chat = ChatPrompt([ChatMessage("user", "Hi")], reasoning_budget=1)
    splitter = splitter_for(Generate(1, chat), "assistant\n")
    assert splitter is not None
    splitter.feed("Hello")
    assert splitter.closing == ""
