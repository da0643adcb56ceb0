"""Conversations to measure the window with, written straight into a data folder."""

from __future__ import annotations

import json
import sqlite3
import sys
import uuid
from array import array
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

from models.records import Conversation
from models.search.index import cut
from models.store.store import Store

QUESTION = "What does step {} of the plan need, and how long will it take? I have 3 hours."
ANSWER = (
    "Step {} needs **two** things:\n\n1. a list of what is there,\n2. some time.\n\n"
    "Run `make step{}` first, then look at the [log](https://example.org/{}). It should say how "
    "many files were read, and which of them were left out because nobody has used them.\n"
)
CODE = "\n```python\ndef step(n: int) -> int:\n    return n + {}\n```\n"
TABLE = "\n| part | hours |\n|---|---:|\n| reading | {} |\n| writing | 2 |\n"
COUNTS = {"generated": 100, "tokens_per_s": 41.5, "first_token_s": 0.3, "reused": 900}
SETTINGS = {"temperature": 0.3, "top_k": 40, "top_p": 0.95, "min_p": 0.05, "context_policy": "x"}
N_IDS = 100


def make_chat(data_dir: Path, length: int, title: str = "A long chat", n_ctx: int = 0) -> str:
    """A stored conversation of `length` messages, every second one a reply with its token IDs,
    figures and settings; its id. `n_ctx`: the window of the weights that are loaded with it."""
    data_dir.mkdir(parents=True, exist_ok=True)
    chat_id = str(uuid.uuid4())
    now = datetime.now(UTC)
    store = Store.open(data_dir, backup_after_s=None)
    try:
        store.create_conversation(
            Conversation(chat_id, title, now, now, active_leaf_id=f"{chat_id}-{length}")
        ).result(60)
        store.set_setting("last_conversation_id", chat_id).result(60)
        store.set_setting("n_ctx", n_ctx).result(60)
    finally:
        store.close()
    with closing(sqlite3.connect(data_dir / "db" / "cutaway.sqlite3")) as raw, raw:
        raw.create_function("search_text", 1, cut, deterministic=True)
        first = raw.execute("SELECT coalesce(max(row_id), 0) FROM message").fetchone()[0]
        chat = raw.execute("SELECT row_id FROM conversation WHERE id = ?", (chat_id,)).fetchone()[0]
        raw.executemany(
            "INSERT INTO message (row_id, id, conversation_row_id, parent_row_id, role, state, "
            "created_us, is_pinned, content, reasoning, counts, settings, token_ids) "
            "VALUES (?, ?, ?, ?, ?, 'complete', ?, 0, ?, '', ?, ?, ?)",
            (_row(number, first, chat, chat_id) for number in range(1, length + 1)),
        )
    return chat_id


def _row(number: int, first: int, chat: int, chat_id: str) -> tuple[object, ...]:
    is_reply = number % 2 == 0
    parent = first + number - 1 if number > 1 else None
    text = answer(number) if is_reply else QUESTION.format(number)
    return (
        first + number,
        f"{chat_id}-{number}",
        chat,
        parent,
        "assistant" if is_reply else "user",
        number * 1_000_000,
        text,
        json.dumps(COUNTS) if is_reply else None,
        json.dumps(SETTINGS) if is_reply else None,
        _ids(number) if is_reply else None,
    )


def _ids(number: int) -> bytes:
    ids = array("i", [(number * 31 + i * 977) % 49_000 for i in range(N_IDS)])
    if sys.byteorder == "big":
        ids.byteswap()
    return ids.tobytes()


def answer(number: int) -> str:
    """Markdown as replies have it: each tenth with code, each tenth with a table."""
    text = ANSWER.format(number, number, number)
    if number % 20 == 0:
        return text + CODE.format(number)
    if number % 20 == 10:
        return text + TABLE.format(number)
    return text


def technical_reply(n_bytes: int) -> str:
    """About so many bytes with prose, code, a table and mathematics."""
    part = (
        "## Part {0}\n\nThe sum $\\sum_{{i=1}}^{{{0}}} x_i^2$ is what **matters** here, and costs "
        "$12 per hour at most, as the table says. Nothing of it is lost on the way.\n\n"
        "$$\\int_0^{{{0}}} \\frac{{e^{{-x}}}}{{1 + x^2}}\\,dx$$\n\n"
        "```python\ndef part_{0}(values: list[float]) -> float:\n"
        '    """The sum of squares."""\n    total = 0.0\n    for value in values:\n'
        "        total += value ** 2\n    return total / {0}\n```\n\n"
        "| name | value | share |\n|:---|---:|---:|\n| first | {0} | 12 % |\n"
        "| second | 7 | 3 % |\n\n"
        "- one thing\n- another, with `code`\n\n"
    )
    parts: list[str] = []
    while sum(map(len, parts)) < n_bytes:
        parts.append(part.format(len(parts) + 1))
    return "".join(parts)[:n_bytes]
