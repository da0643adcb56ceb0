"""Looks at a GGUF's header beside the owner's thread: disks sleep, and networks hang."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path

Check = Callable[[Path], object]
"""Reads a file's header; raises HeaderRefused if it cannot be used."""


def refusal_of(path: Path, check: Check) -> Future[str]:
    """Why the file cannot be used, in a sentence; empty if it can. Nobody waits for the thread
    at the end of the program."""
    future: Future[str] = Future()

    def look() -> None:
        from app.gguf.refusal import HeaderRefused  # here: not needed before the first paint

        try:
            check(path)
        except HeaderRefused as refused:
            future.set_result(refused.sentence)
        except Exception as error:  # noqa: BLE001 - a fault of ours must not hide the file
            future.set_exception(error)
        else:
            future.set_result("")

    threading.Thread(target=look, name="file-check", daemon=True).start()
    return future
