"""Drawings of formulas for who writes a file: asked for one by one, on the asker's thread.

TeX is untrusted, so it is set by the process of `formula_child`. What must hold: no formula takes
longer than its deadline (that process is ended, and the next formula gets a new one); what can't
be drawn is None, and its source is written.
"""

from __future__ import annotations

import json
import queue
import subprocess
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import IO, Any, Final

from app.engine.client.process import child_command
from app.markdown.formula_child import SIZE

START_S: Final = 25.0
DEADLINE_S: Final = 8.0
MAX_CHARS: Final = 2000
MAX_KEPT: Final = 600
MAX_LATE: Final = 5
"""Formulas that came to no end; after so many no other one is set."""
LOOK_EVERY_S: Final = 0.1


@dataclass(frozen=True, slots=True)
class Drawing:
    """Lengths in em: `ascent` above the baseline, `descent` below. Of the colour `INK`."""

    svg: str
    width: float
    ascent: float
    descent: float


class FormulaDrawings:
    """Of one export; `close` ends its process. `check` raises where nobody waits any more."""

    def __init__(
        self, command: list[str] | None = None, check: Callable[[], None] = lambda: None
    ) -> None:
        self._command = command
        self._check = check
        self._n_late = 0
        self._process: subprocess.Popen[bytes] | None = None
        self._answers: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._reader: threading.Thread | None = None
        self._kept: OrderedDict[tuple[str, bool], Drawing | None] = OrderedDict()
        self._is_new = False

    def find(self, tex: str, *, is_display: bool) -> Drawing | None:
        """Waits for it, within the deadline."""
        key = (tex, is_display)
        if key not in self._kept:
            self._kept[key] = self._drawn(tex, is_display) if len(tex) <= MAX_CHARS else None
            if len(self._kept) > MAX_KEPT:
                self._kept.popitem(last=False)
        self._kept.move_to_end(key)
        return self._kept[key]

    def close(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        process.wait()
        if self._reader is not None:
            self._reader.join()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()

    def _drawn(self, tex: str, is_display: bool) -> Drawing | None:
        if self._n_late >= MAX_LATE:
            return None
        request = json.dumps({"id": 0, "tex": tex, "is_display": is_display}).encode()
        try:
            process = self._running()
            assert process.stdin is not None
            process.stdin.write(request + b"\n")
            process.stdin.flush()
            answer = self._answer(START_S if self._is_new else DEADLINE_S)
            self._is_new = False
            return _drawing(json.loads(answer))
        except queue.Empty:
            self._n_late += 1
        except (OSError, ValueError, KeyError, TypeError):
            pass
        self.close()
        return None

    def _answer(self, deadline_s: float) -> bytes:
        end = time.monotonic() + deadline_s
        while True:
            self._check()
            try:
                return self._answers.get(timeout=LOOK_EVERY_S)
            except queue.Empty:
                if time.monotonic() >= end:
                    raise

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            self._answers = queue.SimpleQueue()
            self._process = subprocess.Popen(
                self._command or child_command("formulas"),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
            )
            self._reader = threading.Thread(
                target=_read, args=(self._process.stdout, self._answers), daemon=True
            )
            self._reader.start()
            self._is_new = True
        return self._process


def _read(pipe: IO[bytes], answers: queue.SimpleQueue[bytes]) -> None:
    for line in pipe:
        answers.put(line)
    answers.put(b"")  # it has ended: no answer will come


def _drawing(answer: dict[str, Any]) -> Drawing | None:
    if "svg" not in answer:
        return None
    top, width, height = (float(answer[name]) / SIZE for name in ("top", "width", "height"))
    return Drawing(str(answer["svg"]), width, -top, height + top)
