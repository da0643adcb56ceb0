"""A chat that has everything an export writes, and what stands in for store and formulas."""

from __future__ import annotations

import struct
import zlib
from concurrent.futures import Future
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from made_traces import trace_of

from app.chat.exchange.reading import Chat
from app.chat.replies.calls import as_answer, with_calls
from app.engine.protocol.tool_messages import ToolCall
from app.insight.trace.columns import pack
from app.markdown.formula_child import INK
from app.markdown.formula_drawings import Drawing
from models.records import (
    Attachment,
    Conversation,
    Message,
    MessageCounts,
    MessageState,
    Role,
    WholeConversation,
)

NOON: Final = datetime(2026, 5, 3, 12, 0, tzinfo=UTC)
HOSTILE: Final = (
    "<script>alert(1)</script> <img src=x onerror=alert(2)> </pre></style></title>"
    "<svg/onload=alert(3)> <a href='javascript:alert(4)'>x</a> ]]> &lt;b&gt; \x00\x07\u202edlrow"
)
MARKDOWN: Final = """# Prime numbers

The **sieve** of *Eratosthenes* ~~slowly~~ finds all primes up to $n$ in $O(n \\log \\log n)$; see
[the article](https://example.org/sieve?a=1&b=2) and `primes(30)`.

$$\\sum_{p \\le n} \\frac{1}{p} \\approx \\ln \\ln n$$

1. Write the numbers.
2. Cross out multiples:
   - of 2
   - of 3

   > and so on

3. What is left is prime.

- [x] done
- [ ] to do

| n | primes | share |
|:--|------:|:-----:|
| 10 | 4 | `40%` |
| 100 | 25 | **25%** |

```python
def primes(n):  # a comment
    sieve = [True] * (n + 1)
    return [i for i in range(2, n + 1) if sieve[i]]  # <b>not bold</b>
```

---

العربية من اليمين إلى اليسار · 日本語の段落です。 · emoji 🙂🏳️‍🌈 · Ελληνικά
"""


def png(width: int = 4, height: int = 3) -> bytes:
    """A picture in one colour."""

    def part(name: bytes, data: bytes) -> bytes:
        check = zlib.crc32(name + data)
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", check)

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    rows = zlib.compress((b"\0" + b"\x0f\x6e\x84" * width) * height)
    return b"\x89PNG\r\n\x1a\n" + part(b"IHDR", head) + part(b"IDAT", rows) + part(b"IEND", b"")


class FakeStore:
    """Answers what a `Chat` asks."""

    def __init__(self, traces: dict[str, bytes], files: dict[str, bytes]) -> None:
        self._traces, self._files = traces, files

    def load_trace(self, message_id: str) -> Future[Any]:
        return done(self._traces.get(message_id))

    def load_file(self, attachment_id: str) -> Future[Any]:
        found = self._files.get(attachment_id)
        return done(None if found is None else ("image/png", found))


class Drawn:
    """Every formula as the same bar."""

    def find(self, tex: str, *, is_display: bool) -> Drawing | None:
        svg = (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 -20 40 24" onload="alert(1)">'
            f'<path d="M 0 0 L 40 0" fill="{INK}"/><script>alert(1)</script></svg>'
        )
        return Drawing(svg, 1.6, 0.8, 0.2) if "\\bad" not in tex else None


def done(value: Any) -> Future[Any]:
    future: Future[Any] = Future()
    future.set_result(value)
    return future


def message(number: int, role: Role, content: str, parent: int | None, **fields: Any) -> Message:
    return Message(
        id=f"m{number}",
        conversation_id="c",
        parent_id=None if parent is None else f"m{parent}",
        role=role,
        content=content,
        created_at=NOON + timedelta(minutes=number),
        **fields,
    )


def attachment(name: str, message_id: str, **fields: Any) -> Attachment:
    made = {"text": "the whole text", "size_bytes": 14, **fields}
    return Attachment(f"a-{name}", "c", name, created_at=NOON, message_id=message_id, **made)


CALL: Final = ToolCall("call_1", "look_up", '{"n": 30}')


def rich_chat() -> Chat:
    """m1 asks, m2 answers (m9 is another version), m3 … m6 use a tool, m7 is hostile, m8 failed."""
    picture = attachment("photo <1>.png", "m1", kind="picture", text="", details={})
    paper = attachment(
        "paper.pdf",
        "m1",
        kind="document",
        details={"mode": "parts", "sent": [[0, 5, 1.5, "page 12"], [9, 12, 1.0, "page 3"]]},
    )
    messages = (
        message(
            1, Role.USER, "What are primes?\n  <b>Twice</b>", None, attachments=(picture, paper)
        ),
        message(
            2,
            Role.ASSISTANT,
            MARKDOWN,
            1,
            reasoning="I **think** of $x$.",
            weights_name="SmolLM2",
            counts=MessageCounts(generated=3, tokens_per_s=12.5),
        ),
        message(3, Role.USER, "Use the tool.", 2),
        message(4, Role.ASSISTANT, "", 3, settings=with_calls({}, [CALL])),
        message(5, Role.TOOL, "[2, 3, 5]", 4, settings=dict(as_answer(CALL))),
        message(6, Role.ASSISTANT, "Ten of them.", 5, weights_name="SmolLM2"),
        message(7, Role.USER, HOSTILE, 6),
        message(8, Role.ASSISTANT, "", 7, state=MessageState.FAILED, error=HOSTILE),
        message(9, Role.ASSISTANT, "Numbers with two divisors.", 1, weights_name=HOSTILE),
        message(10, Role.USER, "Only two?", 9),
    )
    conversation = Conversation(
        id="c",
        title="Primes & <b>more</b>",
        created_at=NOON,
        updated_at=NOON,
        system_prompt="Be </style> brief.",
        active_leaf_id="m8",
    )
    pieces = (b"Ten", b" \xf0\x9f", b"\x99\x82", b"=1+1", b"<b>.")
    traces = {"m6": pack(trace_of(pieces, (0.9, 0.5, 0.5, 0.02, 0.3)))}
    store: Any = FakeStore(traces, {picture.id: png()})
    drawings: Any = Drawn()
    return Chat(store, WholeConversation(conversation, messages), drawings)
