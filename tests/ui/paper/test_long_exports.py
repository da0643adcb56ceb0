"""A chat of 10,000 messages in every format: bounded memory, and a window that goes on."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import psutil
import pytest
from exported_chats import NOON, FakeStore, done, message
from made_traces import trace_of

from app.chat.exchange.choices import SUFFIXES, Choices, Form
from app.chat.exchange.exporting import Export
from app.insight.trace.columns import pack
from models.records import Conversation, Role, WholeConversation
from ui.look.theme import Theme
from ui.paper.pages import PdfPress
from ui.paper.steps import Steps

N = 10_000
MOST_BYTES = 450_000_000
LONGEST_STEP_S = 0.25
"""On a machine that does other things as well; 0.03 s when it is idle."""
REPLY = """Number {n} has **parts**:

- one with `code`
- one with $x_{n}$ in it

| a | b |
|---|---|
| {n} | 2 |

```python
print({n})
```
"""


class LongStore(FakeStore):
    def __init__(self) -> None:
        trace = pack(trace_of([b" word"] * 50))
        messages = []
        for n in range(1, N + 1):
            role = Role.USER if n % 2 else Role.ASSISTANT
            text = f"Question {n}" if n % 2 else REPLY.replace("{n}", str(n % 50))
            messages.append(message(n, role, text, n - 1 or None))
        super().__init__({each.id: trace for each in messages}, {})
        conversation = Conversation("c", "Long", NOON, NOON, active_leaf_id=messages[-1].id)
        self._whole = WholeConversation(conversation, tuple(messages))

    def read_texts(self, _conversation_id: str) -> Any:
        return done(self._whole)


@pytest.mark.soak
@pytest.mark.parametrize("form", ["html", "docx", "training", "tokens", "pdf"])
def test_ten_thousand_messages(
    qtbot: Any, theme: Theme, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: Form
) -> None:
    steps: list[float] = []
    on_asked = Steps._on_asked

    def timed(self: Steps, act: Any, future: Any) -> None:
        begun = time.perf_counter()
        on_asked(self, act, future)
        steps.append(time.perf_counter() - begun)

    monkeypatch.setattr(Steps, "_on_asked", timed)
    store: Any = LongStore()
    path = tmp_path / f"long{SUFFIXES[form]}"
    press = PdfPress(theme)
    export = Export(
        store,
        ("c",),
        path,
        NOON,
        lambda: None,
        Choices(form),
        press=press,
    )
    counts: list[int] = []
    process = psutil.Process()
    before = most = process.memory_info().rss
    thread = threading.Thread(target=lambda: counts.append(export.run()))
    thread.start()
    turns, begun = 0, time.perf_counter()
    while thread.is_alive():
        qtbot.wait(5)
        turns += 1
        most = max(most, process.memory_info().rss)
    assert counts == [1]
    assert path.stat().st_size > 100_000
    assert most - before < MOST_BYTES
    assert time.perf_counter() - begun < turns * LONGEST_STEP_S, "the window went on"
    if form == "pdf":
        assert len(steps) > N
        assert sorted(steps)[-3] < LONGEST_STEP_S, "but for what else the machine did"
