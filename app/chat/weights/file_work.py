"""Work on a file, on a thread of its own; its answer comes on the desk's.

A disk that sleeps so keeps nobody else waiting, and nobody waits for the thread at the end of the
program.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

from app.chat.surroundings import Still, Surroundings

T = TypeVar("T")


def begin(work: Callable[[], T], name: str) -> tuple[Future[T], threading.Thread]:
    """Start it on a thread of this name."""
    future: Future[T] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:  # noqa: BLE001 - whoever asked is told
            future.set_exception(error)

    thread = threading.Thread(target=run, name=name, daemon=True)
    thread.start()
    return future, thread


def answer(
    around: Surroundings,
    future: Future[T],
    then: Callable[[T], None],
    failed: Callable[[str], None],
    sentence: Callable[[BaseException], str],
    still: Still,
) -> None:
    """Give the result to `then`, or the sentence of what it raised to `failed`."""

    def settle() -> None:
        error = future.exception()
        if error is None:
            then(future.result())
        else:
            failed(sentence(error))

    future.add_done_callback(lambda _: around.hand_over(settle, still))
