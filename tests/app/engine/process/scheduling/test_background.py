"""A reply in the background: a summary that is written while nobody else is served."""

from __future__ import annotations

from native_session import NativeSession

from app.engine.protocol.messages import TokenArrived
from app.engine.protocol.stages import Greedy, Sampling

ENDLESS = Sampling(filters=[], select=Greedy(), ban_end_token=True)


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
    session.reply([5, 6, 7, *range(300, 360)], ENDLESS, max_tokens=5, is_background=True)
    after = {s.conversation: list(s.cells.ids) for s in session.scheduler._slots if len(s.cells)}
    assert after == cells
    assert not list(session.scheduler._space.parking)
    following = [*range(10, 200), *chat.token_ids, 9]
    again = session.reply(following, ENDLESS, max_tokens=2, conversation="chat")
    assert (again.reuse_source, again.evaluated) == ("slot", 2)
