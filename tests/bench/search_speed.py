"""How long a search takes, from the key to the painted rows, in the real window.

`python tests/bench/search_speed.py [FOLDER]` builds a million messages (in a temporary folder,
which it removes; in FOLDER, it is kept and used again) and prints a table: for each kind of
question of the speed budget the median and the 95th percentile. Each sample types the last key
of another text and waits for the paint that follows its answer. Beside it stands the processor
time that all threads took together, which other programs cannot lengthen.
"""

from __future__ import annotations

import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from app.chat.events import SearchAnswered

ROOT = Path(__file__).resolve().parents[2]
N_MESSAGES = 1_000_000
SAMPLES = 40
BUDGET_MS = 50.0
LONGEST_S = 20.0
SIZE = (1440, 900)
SEED = 7


class Figures(NamedTuple):
    """Milliseconds from the key to the painted rows (`cpu`: of the processor), and how many rows
    there were at most."""

    median_ms: float
    p95_ms: float
    most_ms: float
    cpu_p95_ms: float
    most_rows: int


Sample = tuple[float, float, int]
"""Milliseconds, milliseconds of the processor, rows."""


def questions(count: int) -> dict[str, list[str]]:
    """So many texts of each kind, made of the words that the database is made of."""
    from million_messages import FREQUENT, Words, word

    words, dice = Words(), random.Random(SEED)  # whose first sentences are titles there
    frequent = [*FREQUENT, *(word(rank) for rank in range(len(FREQUENT), 60))]
    sentences = [words.sentence().rstrip(".").split() for _ in range(count)]
    starts = [dice.randrange(len(sentence) - 1) for sentence in sentences]
    pairs = zip(sentences, starts, strict=True)
    return {
        "frequent word": [frequent[number % 60] for number in range(count)],
        "two-letter prefix": [dice.choice(frequent)[:2] for _ in range(count)],
        "phrase": [f'"{" ".join(sentence[at : at + 2])}"' for sentence, at in pairs],
        "two Chinese characters": [
            "".join(dice.choices(words.signs[:12], k=2)) for _ in range(count)
        ],
        "no hit": [f"xq{dice.choice(frequent)}" for _ in range(count)],
    }


class Watched:
    """The window on the big database, and the way to measure one search in it."""

    def __init__(self, data_dir: Path) -> None:
        from PySide6.QtCore import QEvent, QObject, QTimer

        import main

        script = data_dir / "script.json"
        script.write_text('{"loop": true, "replies": [{"text": "Yes."}]}')
        self.app = main.build(["--data-dir", str(data_dir), "--offline", "--scripted", str(script)])
        self._heart = QTimer()
        self._heart.start(10)  # what is waited for may be a time
        self.window = self.app.window
        self.window.resize(*SIZE)
        self.desk = self.app.desk
        self.wait(lambda: bool(self.desk.shelf.conversations))
        self.sidebar = self.window.sidebar
        watched = self

        class Paints(QObject):
            def eventFilter(self, _widget: QObject, event: QEvent) -> bool:
                if event.type() == QEvent.Type.Paint:
                    watched.painted()
                return False

        self._answered = ""
        self._painted_at: float | None = None
        self._paints = Paints()
        self.sidebar.results.viewport().installEventFilter(self._paints)
        self.app.bridge.on(SearchAnswered, self._on_answered)

    def _on_answered(self, event: object) -> None:
        if getattr(event, "is_first", False):
            self._answered = getattr(event, "typed", "")

    def painted(self) -> None:
        """Called before the paint; its end is taken by the next turn of the event loop."""
        if self._answered == self.sidebar.search_field.text():
            self._painted_at = self._painted_at or -1.0

    def wait(self, condition: Callable[[], bool]) -> None:
        """As the program waits: asleep until something happens. A loop that asks again and again
        would hold the interpreter that the database thread needs."""
        from PySide6.QtCore import QEventLoop

        ends_at = time.monotonic() + LONGEST_S
        while not condition():
            self.app.application.processEvents(QEventLoop.ProcessEventsFlag.WaitForMoreEvents)
            if time.monotonic() > ends_at:
                raise SystemExit("The window did not answer in time. Is the machine busy?")

    def measure(self, text: str) -> Sample:
        """From the last key of a text to its painted rows."""
        from PySide6.QtGui import QInputMethodEvent
        from PySide6.QtWidgets import QApplication

        field = self.sidebar.search_field
        field.setText(text[:-1])
        self._settle(text[:-1])
        self._painted_at = None
        event = QInputMethodEvent()
        event.setCommitString(text[-1])
        begun, cpu_begun = time.perf_counter(), time.process_time()
        QApplication.sendEvent(field, event)
        self.wait(lambda: self._painted_at is not None)
        taken = (time.perf_counter() - begun) * 1e3
        cpu = (time.process_time() - cpu_begun) * 1e3
        assert field.text() == text
        return taken, cpu, self.sidebar.results.model().rowCount()

    def _settle(self, text: str) -> None:
        """Wait for the answer to what stands there before the last key."""
        if text.strip():
            self.wait(lambda: self._answered == text)
        quiet = time.monotonic() + 0.03
        self.wait(lambda: time.monotonic() > quiet)

    def close(self) -> None:
        self.app.close()


def figures(samples: list[Sample]) -> Figures:
    times, cpu = (sorted(sample[part] for sample in samples) for part in (0, 1))
    place = min(len(samples) - 1, round(0.95 * len(samples)))
    most_rows = max(rows for _taken, _cpu, rows in samples)
    return Figures(statistics.median(times), times[place], times[-1], cpu[place], most_rows)


def measure(data_dir: Path, samples: int = SAMPLES) -> dict[str, Figures]:
    """Each kind's figures. The kinds take turns, so that what else the machine does falls on all
    of them; the first question of each is asked once beforehand."""
    watched = Watched(data_dir)
    asked = questions(samples)
    try:
        for texts in asked.values():
            watched.measure(texts[0])
        taken: dict[str, list[Sample]] = {kind: [] for kind in asked}
        for number in range(samples):
            for kind, texts in asked.items():
                taken[kind].append(watched.measure(texts[number]))
    finally:
        watched.close()
    return {kind: figures(each) for kind, each in taken.items()}


def database_in(data_dir: Path, count: int = N_MESSAGES) -> None:
    """Build it, where it is not there yet."""
    from million_messages import build

    path = data_dir / "db" / "cutaway.sqlite3"
    if not path.exists():
        path.parent.mkdir(parents=True, mode=0o700, exist_ok=True)
        build(path, count)


def main() -> int:
    os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
    with tempfile.TemporaryDirectory() as temporary:
        data_dir = Path(sys.argv[1] if len(sys.argv) > 1 else temporary)
        print(f"A database of {N_MESSAGES:,} messages takes some minutes to build.", flush=True)
        database_in(data_dir)
        found = measure(data_dir)
    print(f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors")
    print(f"{'kind':24} {'median':>8} {'p95':>8} {'most':>8} {'cpu p95':>8}  rows")
    for kind, each in found.items():
        print(
            f"{kind:24} {each.median_ms:6.1f}ms {each.p95_ms:6.1f}ms {each.most_ms:6.1f}ms"
            f" {each.cpu_p95_ms:6.1f}ms"
            f"  {each.most_rows}"
        )
    return 0 if all(each.p95_ms < BUDGET_MS for each in found.values()) else 1


if __name__ == "__main__":
    sys.path[:0] = [str(ROOT), str(Path(__file__).parent)]
    raise SystemExit(main())
