"""Events of a fast thread arrive in order, in few posts, and never hold the owner long."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable

import pytest

from app.chat.inbox import Inbox

Posts = queue.SimpleQueue[Callable[[], None]]


def run_all(posts: Posts) -> int:
    count = 0
    while not posts.empty():
        posts.get()()
        count += 1
    return count


def test_many_events_make_one_post() -> None:
    posts: Posts = queue.SimpleQueue()
    seen: list[int] = []
    after: list[int] = []
    inbox: Inbox[int] = Inbox(posts.put, seen.append, lambda: after.append(len(seen)), 10.0)
    for number in range(100):
        inbox.put(number)
    assert run_all(posts) == 1
    assert seen == list(range(100))
    assert after == [100]


def test_long_work_is_cut_into_turns() -> None:
    posts: Posts = queue.SimpleQueue()
    inbox: Inbox[int] = Inbox(posts.put, lambda _: time.sleep(0.004), lambda: None, 0.008)
    for number in range(20):
        inbox.put(number)
    assert run_all(posts) >= 3


def test_nothing_is_lost_or_reordered_between_threads() -> None:
    posts: Posts = queue.SimpleQueue()
    seen: list[tuple[int, int]] = []
    inbox: Inbox[tuple[int, int]] = Inbox(posts.put, seen.append, lambda: None)
    threads = [
        threading.Thread(target=lambda who=who: [inbox.put((who, i)) for i in range(2000)])
        for who in range(3)
    ]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads) or not posts.empty():
        run_all(posts)
    for who in range(3):
        assert [i for w, i in seen if w == who] == list(range(2000))


def test_event_that_fails_does_not_block_the_next() -> None:
    posts: Posts = queue.SimpleQueue()
    seen: list[int] = []

    def handle(number: int) -> None:
        if number == 0:
            raise ValueError("a fault of ours")
        seen.append(number)

    inbox: Inbox[int] = Inbox(posts.put, handle, lambda: None)
    inbox.put(0)
    inbox.put(1)
    with pytest.raises(ValueError, match="fault"):
        posts.get()()
    run_all(posts)
    assert seen == [1]
