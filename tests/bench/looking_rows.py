"""What looking into a reply costs: the rows of the speed budget with panels open.

    python tests/bench/looking_rows.py FILE.gguf [ROUNDS]

prints, with the machine's load: tokens/s of the window with each panel and the token view open ÷
the bare loop, in turns; the longest gap of the event loop while 32,000 tokens stream; and how
long it takes to open the trace of an old reply of 4,000 tokens; and how long from a click on a
token until the panel Inside has painted it, with the longest gap while one steps on.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
if __name__ == "__main__":
    sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from bench import fresh_process  # noqa: E402
from bench.gui_chats import technical_reply  # noqa: E402
from made_traces import trace_of  # noqa: E402

from app.bench.sides import Conditions, run_bare  # noqa: E402
from app.insight.trace.columns import pack  # noqa: E402
from models.records import Conversation, Message, MessageCounts, MessageState, Role  # noqa: E402
from models.store.store import Store  # noqa: E402

PATIENCE_S = 600
PANELS = ("Tokens", "Sampling", "Cache", "Prompt", "Time")


def measure(row: str, *arguments: str | Path) -> dict[str, Any]:
    """One run of one row in a fresh process."""
    return fresh_process.run("looking_child.py", row, *arguments, patience_s=PATIENCE_S)


def speed(folder: Path, gguf: str, rounds: int = 3, tokens: int = 200) -> dict[str, Any]:
    """Window ÷ bare with each panel open, the pairs' median; "" is the window alone."""
    ratios: dict[str, list[float]] = {}
    for number in range(rounds):
        for panel in ("", *PANELS):
            found = measure("speed", folder / f"{panel}{number}", gguf, panel, str(tokens))
            conditions = Conditions(
                gguf, "", found["threads"], found["ctx"], found["ubatch"], found["gpu_layers"]
            )
            bare = run_bare(conditions, found["generated"])
            ratios.setdefault(panel, []).append(found["tokens_per_s"] / bare.tokens_per_s)
    return {
        panel or "closed": {
            "ratio": round(statistics.median(each), 3),
            "all": [round(one, 3) for one in each],
        }
        for panel, each in ratios.items()
    }


def streaming(folder: Path, n_tokens: int, panel: str, token_ms: float = 5) -> dict[str, Any]:
    """A reply of so many scripted tokens under the token view, with a panel open."""
    folder.mkdir(parents=True, exist_ok=True)
    text = technical_reply(n_tokens * 3)[: n_tokens * 3]
    pieces = [{"text": text[at : at + 3], "ms": token_ms} for at in range(0, len(text), 3)]
    script = folder / "stream.json"
    script.write_text(
        json.dumps({"load": {"ms": 5}, "loop": True, "replies": [{"tokens": pieces}]})
    )
    store = Store.open(folder / "data", backup_after_s=None)
    try:
        store.set_setting("n_ctx", 65_536).result(60)
    finally:
        store.close()
    return measure("stream", folder / "data", script, panel)


def opening(folder: Path, n_tokens: int = 4_000) -> dict[str, Any]:
    """A chat with a reply of so many recorded tokens and a short one behind it."""
    folder.mkdir(parents=True, exist_ok=True)
    store = Store.open(folder, backup_after_s=None)
    now = datetime.now(UTC)
    try:
        store.create_conversation(Conversation("chat", "Old", now, now)).result(60)
        parent: str | None = None
        for name, length in (("old", n_tokens), ("new", 3)):
            question = Message(f"q {name}", "chat", parent, Role.USER, "Go on.", created_at=now)
            store.append_message(question).result(60)
            traces = trace_of([b" word"] * length)
            reply = Message(
                name,
                "chat",
                question.id,
                Role.ASSISTANT,
                " word" * length,
                created_at=now,
                state=MessageState.COMPLETE,
                counts=MessageCounts(generated=length),
            )
            store.append_message(reply).result(60)
            store.save_trace(name, lambda traces=traces: pack(traces)).result(60)
            parent = name
        store.set_active_leaf("chat", "new").result(60)
        store.set_setting("last_conversation_id", "chat").result(60)
    finally:
        store.close()
    return measure("opening", folder)


def inside(folder: Path, gguf: str, n_tokens: int = 500, *, is_all_open: bool) -> dict[str, Any]:
    """A token of a text that the model has just written, and the next ones; see the child."""
    folder.mkdir(parents=True, exist_ok=True)
    return measure("inside", folder, gguf, str(n_tokens), "1" if is_all_open else "")


def main() -> None:
    gguf = sys.argv[1]
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 3
    print("load:", os.getloadavg(), "cores:", os.cpu_count())
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        print("opening:", min((opening(folder / f"o{i}") for i in range(3)), key=_wall))
        for is_all_open in (False, True):
            found = inside(folder / f"i{is_all_open}", gguf, is_all_open=is_all_open)
            print("inside", "all cards" if is_all_open else "as at first", found)
        for panel in PANELS:
            print("streaming", panel, streaming(folder / f"s{panel}", 32_000, panel, 1))
        began = time.monotonic()
        print("speed:", speed(folder / "speed", gguf, rounds))
        print(f"in {time.monotonic() - began:.0f} s; load:", os.getloadavg())


def _wall(found: dict[str, Any]) -> float:
    return float(found["wall_ms"])


if __name__ == "__main__":
    main()
