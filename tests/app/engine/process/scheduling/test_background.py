"""A reply in the background: a summary that is written while nobody else is served."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import Any, Final

import pytest
from native_session import NativeSession, load_quietly

from app.engine.process.native.native import NativeLog
from app.engine.process.native.weights import Weights
from app.engine.process.scheduling.admission import NO_ROOM_BEHIND
from app.engine.protocol.loading_messages import LoadOptions
from app.engine.protocol.messages import Failed, TokenArrived
from app.engine.protocol.stages import Greedy, Sampling

ENDLESS = Sampling(filters=[], select=Greedy(), ban_end_token=True)
TITLE = [5, 6, 7, *range(300, 360)]
PASSING: Final[dict[str, Any]] = {"reuse_prefix": False}
"""As titles and summaries are asked for: of no chat, and nobody goes on from them."""


@pytest.fixture(scope="module")
def one_slot(made_gguf: object, native_log: NativeLog) -> Iterator[Weights]:
    weights = load_quietly(made_gguf, native_log, n_ctx=1024, n_ubatch=64, n_threads=1, n_slots=1)  # type: ignore[arg-type]
    yield weights
    weights.close()


def order(session: NativeSession) -> list[int]:
    return [event.id for event in session.events if isinstance(event, TokenArrived)]


def test_it_rests_while_anybody_else_reads_or_writes(made_session: NativeSession) -> None:
    session = made_session
    behind = session.add([5, 6, 7], ENDLESS, max_tokens=20, is_background=True)
    while len(session.tokens(behind)) < 3:
        session.scheduler.step()
    asked = session.add([*range(10, 200)], ENDLESS, max_tokens=10)
    session.run()
    first = order(session).index(asked)
    assert order(session)[first : first + 10] == [asked] * 10
    assert len(session.tokens(behind)) == 20
    alone = session.reply([5, 6, 7], ENDLESS, max_tokens=20, reuse_prefix=False)
    assert [t.token.token_id for t in session.tokens(behind)] == alone.token_ids


def test_it_goes_on_beside_a_reply_that_waits_for_a_person(made_session: NativeSession) -> None:
    session = made_session
    held = session.add([8, 9], ENDLESS, hold=True, max_tokens=3)
    while not session.scheduler.is_held:
        session.scheduler.step()
    behind = session.add([5, 6, 7], ENDLESS, max_tokens=5, is_background=True)
    session.run()
    assert len(session.tokens(behind)) == 5
    session.scheduler.stop(held)
    session.run()


def test_it_gives_its_cells_to_whoever_needs_them(made_session: NativeSession) -> None:
    """And nobody waits for its end."""
    session = made_session
    n_ctx = session.weights.n_ctx
    behind = session.add(
        [3 + i % 700 for i in range(600)], ENDLESS, max_tokens=9, is_background=True
    )
    while len(session.tokens(behind)) < 2:
        session.scheduler.step()
    asked = session.add([4 + i % 700 for i in range(n_ctx - 20)], ENDLESS, max_tokens=15)
    session.run()
    first = order(session).index(asked)
    assert order(session)[first : first + 15] == [asked] * 15
    assert len(session.tokens(behind)) == 9


def test_it_leaves_the_cells_of_others_where_they_are_and_none_of_its_own(
    made_session: NativeSession,
) -> None:
    """As a title does: the chat that was answered goes on from its cells, which were not moved."""
    session = made_session
    chat = session.reply([*range(10, 200)], ENDLESS, max_tokens=5, conversation="chat")
    cells = {s.conversation: list(s.cells.ids) for s in session.scheduler._slots if len(s.cells)}
    session.reply(TITLE, ENDLESS, max_tokens=5, is_background=True, **PASSING)
    after = {s.conversation: list(s.cells.ids) for s in session.scheduler._slots if len(s.cells)}
    assert after == cells
    assert not list(session.scheduler._space.parking)
    following = [*range(10, 200), *chat.token_ids, 9]
    again = session.reply(following, ENDLESS, max_tokens=2, conversation="chat")
    assert (again.reuse_source, again.evaluated) == ("slot", 2)


@pytest.mark.parametrize("is_repeatable", [False, True])
def test_nobody_waits_for_its_slot(
    one_slot: Weights, native_log: NativeLog, is_repeatable: bool
) -> None:
    session = NativeSession(one_slot, native_log)
    alone = session.reply([5, 6, 7], ENDLESS, max_tokens=20, **PASSING).token_ids
    session = NativeSession(one_slot, native_log)
    behind = session.add([5, 6, 7], ENDLESS, max_tokens=20, is_background=True, **PASSING)
    later = session.add([6, 7], ENDLESS, max_tokens=2, is_background=True, **PASSING)
    while len(session.tokens(behind)) < 2:
        session.scheduler.step()
    asked = session.add([8, 9], ENDLESS, max_tokens=10, repeatable=is_repeatable)
    guest = session.add([9, 9], ENDLESS, max_tokens=10, is_guest=True)
    session.run()
    assert [each for each, _ in groupby(order(session))] == [behind, asked, guest, behind, later]
    assert [t.token.token_id for t in session.tokens(behind)] == alone
    assert not list(session.scheduler._space.parking), "and nothing of it is kept"


def test_one_that_is_aside_can_be_stopped(one_slot: Weights, native_log: NativeLog) -> None:
    session = NativeSession(one_slot, native_log)
    behind = session.add(TITLE, ENDLESS, max_tokens=20, is_background=True, **PASSING)
    while len(session.tokens(behind)) < 2:
        session.scheduler.step()
    session.add([8, 9], ENDLESS, max_tokens=3)
    session.scheduler.step()
    session.scheduler.stop(behind)
    session.run()
    assert session.ending(behind) is not None
    assert not session.scheduler.open_ids
    assert not list(session.scheduler._space.parking)


def test_it_is_refused_where_a_chat_would_lose_its_cells(
    one_slot: Weights, native_log: NativeLog
) -> None:
    """The only slot is the chat's, and nothing may be parked. With a place it is parked."""
    for cap, is_refused in ((0, True), (None, False)):
        session = NativeSession(one_slot, native_log, options=LoadOptions(parked_bytes=cap))
        chat = session.reply([*range(10, 200)], ENDLESS, max_tokens=5, conversation="chat")
        behind = session.add(TITLE, ENDLESS, max_tokens=5, is_background=True, **PASSING)
        session.run()
        ending = session.ending(behind)
        assert isinstance(ending, Failed) is is_refused
        assert not is_refused or ending.sentence == NO_ROOM_BEHIND  # type: ignore[union-attr]
        following = [*range(10, 200), *chat.token_ids, 9]
        again = session.reply(following, ENDLESS, max_tokens=2, conversation="chat")
        assert (again.reuse_source, again.evaluated) == ("slot" if is_refused else "parked", 2)


def test_one_that_was_set_aside_does_not_come_back_at_a_chats_cost(
    one_slot: Weights, native_log: NativeLog
) -> None:
    session = NativeSession(one_slot, native_log, options=LoadOptions(parked_bytes=0))
    behind = session.add(TITLE, ENDLESS, max_tokens=20, is_background=True, **PASSING)
    while len(session.tokens(behind)) < 2:
        session.scheduler.step()
    session.reply([*range(10, 200)], ENDLESS, max_tokens=5, conversation="chat")
    assert isinstance(session.ending(behind), Failed)
    assert [len(s.cells) > 190 for s in session.scheduler._slots] == [True]


def test_one_that_a_person_asked_for_leaves_nothing_either(made_session: NativeSession) -> None:
    session = made_session
    session.reply([*range(10, 200)], ENDLESS, max_tokens=5, conversation="chat")
    session.reply(TITLE, ENDLESS, max_tokens=5, **PASSING)
    session.reply([*range(400, 600)], ENDLESS, max_tokens=5, conversation="other")
    held = [s.conversation for s in session.scheduler._slots if len(s.cells)]
    assert [*held, *(p.conversation for p in session.scheduler._space.parking)] == ["other", "chat"]


def test_where_it_fits_beside_a_long_chat_the_chat_stays_where_it_is(
    made_session: NativeSession,
) -> None:
    """It needs fewer cells than a pass could read."""
    session = made_session
    n_ctx = session.weights.n_ctx
    session.reply([3 + i % 700 for i in range(n_ctx - 50)], ENDLESS, max_tokens=1)
    session.reply([*range(300, 323)], ENDLESS, max_tokens=5, is_background=True, **PASSING)
    assert [len(s.cells) for s in session.scheduler._slots if len(s.cells)] == [n_ctx - 50]
    assert not list(session.scheduler._space.parking)


def test_a_guest_that_came_later_never_waits_for_what_is_in_the_background(
    one_slot: Weights, native_log: NativeLog
) -> None:
    """Which waits for it: neither would ever begin."""
    session = NativeSession(one_slot, native_log)
    behind = session.add([5, 6, 7], ENDLESS, max_tokens=9, is_background=True, is_guest=True)
    while not session.tokens(behind):
        session.scheduler.step()
    asked = session.add([8, 9], ENDLESS, max_tokens=2)
    session.scheduler.step()
    guest = session.add([10, 11], ENDLESS, max_tokens=2, is_guest=True)
    session.run()
    assert [len(session.tokens(each)) for each in (asked, guest, behind)] == [2, 2, 9]
