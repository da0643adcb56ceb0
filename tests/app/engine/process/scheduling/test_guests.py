"""A person's replies come first; what other programs asked for loses nothing by it but time."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
from native_session import GREEDY, NativeSession, load_quietly

from app.engine.process.native.native import NativeLog
from app.engine.process.native.weights import Weights
from app.engine.process.scheduling.guests import GuestShare
from app.engine.process.scheduling.scheduler import Scheduler
from app.engine.protocol.messages import Finished, Stopped, Summary
from app.engine.protocol.stages import Greedy, Sampling

ENDLESS = Sampling(filters=[], select=Greedy(), ban_end_token=True)
LONG = [3 + i % 700 for i in range(300)]


@pytest.fixture(scope="module")
def two_slots(made_gguf: object, native_log: NativeLog) -> Iterator[Weights]:
    """Small random weights that answer two at once."""
    weights = load_quietly(made_gguf, native_log, n_ctx=1024, n_ubatch=64, n_threads=1, n_slots=2)  # type: ignore[arg-type]
    yield weights
    weights.close()


@pytest.fixture
def session(two_slots: Weights, native_log: NativeLog) -> NativeSession:
    return NativeSession(two_slots, native_log)


def _texts(session: NativeSession, request_id: int) -> list[int]:
    ending = session.ending(request_id)
    assert isinstance(ending, Finished | Stopped)
    assert isinstance(ending.result, Summary)
    return ending.result.token_ids


def _alone(session: NativeSession, ids: list[int], count: int) -> list[int]:
    return session.reply(ids, ENDLESS, max_tokens=count).token_ids


def test_a_person_takes_the_slot_of_a_guest_which_goes_on_later(session: NativeSession) -> None:
    first, second = _alone(session, [5, 6, 7], 30), _alone(session, [9, 8, 7], 30)
    guests = [
        session.add(ids, ENDLESS, max_tokens=30, is_guest=True) for ids in ([5, 6, 7], [9, 8, 7])
    ]
    for _ in range(6):
        session.scheduler.step()
    before = [len(session.tokens(guest)) for guest in guests]
    assert all(before)
    person = session.add([4, 5, 6], ENDLESS, max_tokens=8)
    session.scheduler.step()
    assert session.scheduler.open_ids == {*guests, person}
    while len(session.tokens(person)) < 8:
        session.scheduler.step()
    set_aside = session.scheduler._aside
    assert [reply.request.id for reply in set_aside] == [guests[1]]
    session.run()
    assert _texts(session, guests[0]) == first
    assert _texts(session, guests[1]) == second


def test_guests_wait_behind_all_that_a_person_asked_for(session: NativeSession) -> None:
    persons = [session.add([3 + i, 4, 5], ENDLESS, max_tokens=4) for i in range(2)]
    session.scheduler.step()
    guest = session.add([7, 8, 9], ENDLESS, max_tokens=2, is_guest=True)
    persons.append(session.add([30, 31, 32], ENDLESS, max_tokens=4))
    session.run()
    first = {request: session.events.index(session.tokens(request)[0]) for request in persons}
    assert session.events.index(session.tokens(guest)[0]) > max(first.values())


def test_they_rest_while_a_persons_prompt_is_read_and_have_their_share_of_what_is_written(
    session: NativeSession,
) -> None:
    guest = session.add([5, 6, 7], ENDLESS, max_tokens=400, is_guest=True)
    for _ in range(3):
        session.scheduler.step()
    person = session.add(LONG, ENDLESS, max_tokens=300)
    before = len(session.tokens(guest))
    while not session.tokens(person):
        session.scheduler.step()
    assert len(session.tokens(guest)) == before
    share = session.scheduler._guests
    seconds = [0.0, 0.0]
    after = share.after

    def count(step_s: float, *, persons: bool, guests: bool) -> None:
        # As on a machine on which a second row costs three fifths of a step.
        seconds[guests] += 0.6 if guests else 0.0
        seconds[0] += 1.0
        after(0.016 if guests else 0.01, persons=persons, guests=guests)

    share.after = count  # type: ignore[method-assign]
    while len(session.tokens(person)) < 300:
        session.scheduler.step()
    served = len(session.tokens(guest)) - before
    assert 300 / 8 / 0.6 * 0.8 <= served <= 300 / 8 / 0.6 * 1.1
    assert seconds[1] / seconds[0] <= 1 / 7
    session.run()
    assert len(session.tokens(guest)) == 400


def test_one_step_that_took_seconds_is_no_reason_to_rest_for_a_minute() -> None:
    share = GuestShare()

    def steps_until_guests_join(alone_s: float, joint_s: float) -> int:
        share.after(alone_s, persons=True, guests=False)
        share.after(joint_s, persons=True, guests=True)
        steps = 0
        while not share.may_join:
            share.after(alone_s, persons=True, guests=False)
            steps += 1
        return steps

    assert steps_until_guests_join(0.02, 5.0) * 0.02 <= 2.1
    # Where steps are long by themselves, what guests cost is paid for whole.
    assert steps_until_guests_join(1.0, 4.0) == pytest.approx(24, abs=1)


def test_what_is_set_aside_can_be_stopped(session: NativeSession) -> None:
    guests = [session.add([5 + i, 6, 7], ENDLESS, max_tokens=90, is_guest=True) for i in range(2)]
    for _ in range(4):
        session.scheduler.step()
    session.add([4, 5, 6], ENDLESS, max_tokens=9)
    session.scheduler.step()
    assert session.scheduler.stop(guests[1])
    session.scheduler.step()
    ending = session.ending(guests[1])
    assert isinstance(ending, Stopped)
    assert isinstance(ending.result, Summary)
    assert ending.result.token_ids == [t.token.token_id for t in session.tokens(guests[1])]
    session.run()
    assert isinstance(session.ending(guests[0]), Finished)


def test_a_guest_that_is_read_makes_way_for_a_person_who_is_about_to_come(
    session: NativeSession,
) -> None:
    guest = session.add(LONG, GREEDY, max_tokens=2, is_guest=True)
    session.scheduler.step()
    session.scheduler.expect(99)
    steps = _evaluated(session.scheduler)
    session.scheduler.step()
    assert not session.scheduler.has_work
    assert _evaluated(session.scheduler) == steps
    session.scheduler.arrived(99)
    session.run()
    assert isinstance(session.ending(guest), Finished)


def test_and_breaks_off_the_pass_that_it_is_in(
    session: NativeSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    guest = session.add(LONG, GREEDY, max_tokens=2, is_guest=True)
    decode, codes = session.weights.decode, []

    def expect_within(batch: object) -> int:
        if not codes:
            other = threading.Thread(target=session.scheduler.expect, args=[99])
            other.start()
            other.join()
        codes.append(decode(batch))
        return codes[-1]

    monkeypatch.setattr(session.weights, "decode", expect_within)
    session.scheduler.step()
    assert codes == [2]
    session.scheduler.arrived(99)
    session.run()
    assert isinstance(session.ending(guest), Finished)


def test_a_repeatable_reply_of_a_person_waits_for_no_guest(session: NativeSession) -> None:
    alone = session.reply([4, 5, 6], ENDLESS, max_tokens=6, repeatable=True)
    guests = [session.add([5 + i, 6, 7], ENDLESS, max_tokens=40, is_guest=True) for i in range(2)]
    for _ in range(4):
        session.scheduler.step()
    person = session.add([4, 5, 6], ENDLESS, max_tokens=6, repeatable=True)
    while len(session.tokens(person)) < 6:
        session.scheduler.step()
    assert all(len(session.tokens(guest)) < 40 for guest in guests)
    session.run()
    assert _texts(session, person) == alone.token_ids
    assert all(len(_texts(session, guest)) == 40 for guest in guests)


def _evaluated(scheduler: Scheduler) -> int:
    return sum(slot.reply.evaluated for slot in scheduler._slots if slot.reply is not None)
