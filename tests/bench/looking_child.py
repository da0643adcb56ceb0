"""One window that looks into its replies, measured from inside; run by `looking_rows`.

    python tests/bench/looking_child.py ROW DATA_DIR …

Prints one line of JSON.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
if __name__ == "__main__":
    sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from bench.gui_child import SIZE, _Gaps, _settle, _wait  # noqa: E402

BARE_CHAIN = {
    "temperature": 0.8,
    "top_k": 40,
    "top_p": 0.95,
    "min_p": 0.05,
    "repeat_penalty": 1.0,
    "seed": 1,
}
"""As `app.bench.sides.SAMPLING`, the chain of the bare loop."""


def speed(data_dir: str, gguf: str, panel: str, tokens: str) -> dict[str, Any]:
    """Tokens/s of a continuation in a window with a panel open, by the engine's clock. `panel`
    empty: nothing is looked at."""
    import main
    from app.bench.sides import TEXT

    app = main.build(["--data-dir", data_dir, "--offline", "--gguf", gguf])
    try:
        app.window.resize(*SIZE)
        _wait(app, lambda: app._made is not None and app.desk.loader.state.state == "ready")
        for name, value in (BARE_CHAIN | {"max_tokens": int(tokens)}).items():
            app.desk.settings.set(name, value)
        app.desk.shelf.open_new_text()
        _settle(app, 0.3)
        if panel:
            look(app, panel)
        _settle(app, 0.5)
        app.desk.text.go_on(TEXT, len(TEXT))
        _wait(app, lambda: app.desk.replies.is_generating)
        _wait(app, lambda: not app.desk.replies.is_generating, wake_ms=200)  # asking costs, too
        loaded, counts = app.desk.loader.state.loaded, app.desk.shelf.path[-1].counts
        assert loaded is not None
        return {
            "tokens_per_s": counts.tokens_per_s,
            "generated": counts.generated,
            "ctx": loaded.n_ctx,
            "threads": loaded.n_threads,
            "ubatch": loaded.n_ubatch,
            "gpu_layers": loaded.n_gpu_layers,
        }
    finally:
        app.close()


def look(app: Any, panel: str) -> None:
    """Open the panels at one of them, and the token view."""
    app.window.section_acts.show(True)
    app.window.section_acts.section().show_panel(panel)
    if not app.desk.settings.now.token_view:
        app.window.action_registry.run("toggle_token_view")


def stream(data_dir: str, script: str, panel: str) -> dict[str, Any]:
    """The longest gap in the event loop while a reply streams under the token view."""
    import main

    app = main.build(["--data-dir", data_dir, "--offline", "--scripted", script])
    try:
        app.window.resize(*SIZE)
        _wait(app, lambda: app._made is not None and app.desk.loader.state.state == "ready")
        look(app, panel)
        _settle(app, 0.5)
        assert app.window.windowHandle().isExposed()
        view = app.window.chat.transcript
        repaints, began, thread = view.repaints, time.monotonic(), time.thread_time()
        gaps = _Gaps()
        app.desk.replies.send("Explain it.")
        _wait(app, lambda: app.desk.replies.is_generating)
        _wait(app, lambda: not app.desk.replies.is_generating)
        seconds = time.monotonic() - began
        found = {
            "longest_gap_ms": gaps.end(),
            "longest_cpu_ms": gaps.longest_cpu_ms(),
            "gaps_ms": gaps.longest(8),
            "gui_cpu_share": (time.thread_time() - thread) / seconds,
            "repaints_per_s": (view.repaints - repaints) / seconds,
            "generated": app.desk.shelf.path[-1].counts.generated,
            "seconds": seconds,
        }
        assert app.window.section_acts.looking().traces, "the panels saw nothing"
        return found
    finally:
        app.close()


def opening(data_dir: str) -> dict[str, Any]:
    """From the click on an old reply until its trace is in the table, painted."""
    import main

    app = main.build(["--data-dir", data_dir, "--offline"])
    try:
        app.window.resize(*SIZE)
        _wait(app, lambda: app._made is not None and app.desk.shelf.path)
        _settle(app, 0.5)
        # Panels and numpy are there, as for whoever looked at another reply before.
        look(app, "Tokens")
        looking = app.window.section_acts.looking()
        replies = [m for m in app.desk.shelf.path if m.role.value == "assistant"]
        _wait(app, lambda: looking.traces)
        _settle(app, 0.5)
        gaps, began, cpu = _Gaps(), time.monotonic(), time.process_time()
        looking.look_at(replies[0].id)
        _wait(app, lambda: looking.message.id == replies[0].id and looking.traces)
        app.window.section_acts.section().repaint()
        wall, processor = time.monotonic() - began, time.process_time() - cpu
        _settle(app, 0.5)
        return {
            "wall_ms": wall * 1000,
            "cpu_ms": processor * 1000,
            "n_tokens": len(looking.traces),
            "longest_gap_ms": gaps.end(),
            "longest_cpu_ms": gaps.longest_cpu_ms(),
        }
    finally:
        app.close()


def _paint(app: Any) -> None:
    """What is due to be painted is, by the loop: a repaint of ours would make two turns one."""
    for _ in range(2):
        app.application.processEvents()


def inside(data_dir: str, gguf: str, n_tokens: str, is_all_open: str) -> dict[str, Any]:
    """From the click on a token, in a text of so many tokens, until its first picture is painted,
    and until all of it is, the lens too; then token by token. `is_all_open`: "1" or "": every card
    or those that are open at first."""
    import main
    from app.bench.sides import TEXT

    app = main.build(["--data-dir", data_dir, "--offline", "--gguf", gguf])
    try:
        app.window.resize(*SIZE)
        _wait(app, lambda: app._made is not None and app.desk.loader.state.state == "ready")
        for name, value in (BARE_CHAIN | {"max_tokens": N_STEPPED + 2}).items():
            app.desk.settings.set(name, value)
        app.desk.shelf.open_new_text()
        _settle(app, 0.3)
        words = TEXT.split(" ")  # most of them are one token
        more = int(n_tokens) - N_STEPPED
        text = " ".join((words * (more // len(words) + 1))[: int(more * 0.94)])
        app.desk.text.go_on(text, len(text))
        _wait(app, lambda: app.desk.replies.is_generating)
        _wait(app, lambda: not app.desk.replies.is_generating)
        look(app, "Inside")
        looking, panel = (
            app.window.section_acts.looking(),
            app.window.section_acts.section().panel(),
        )
        _wait(app, lambda: len(looking.traces) and looking.words is not None)
        _settle(app, 1.0)
        view = panel.view
        gaps, began, cpu = _Gaps(), time.monotonic(), time.thread_time()
        looking.select(1)
        _wait(app, lambda: view.seen is not None and view.seen.has("attention"))
        _paint(app)
        first = time.monotonic() - began
        _wait(app, lambda: view.seen.is_whole)
        _paint(app)
        whole, first_gui = time.monotonic() - began, time.thread_time() - cpu
        n_read, seconds = view.seen.n_read, view.seen.seconds
        if is_all_open:
            for card in panel.cards:
                card.set_open(True)
            _wait(app, lambda: not view.is_waiting)
            _settle(app, 2.0)
        click_gap = gaps.end()
        steps, gaps = [], _Gaps()
        for _ in range(N_STEPPED // 2):
            at = time.monotonic()
            view.step(1)
            _wait(app, lambda: not view.is_waiting and view.seen is not None and view.seen.is_whole)
            steps.append(time.monotonic() - at)
        for _ in range(N_STEPPED // 2):  # as with a key that is held down
            view.step(-1)
            _settle(app, 0.05)
        _wait(app, lambda: not view.is_waiting)
        return {
            "n_text": len(view.text),
            "first_ms": first * 1000,
            "whole_ms": whole * 1000,
            "engine_ms": seconds * 1000,
            "gui_cpu_ms": first_gui * 1000,
            "n_read": n_read,
            "click_gap_ms": click_gap,
            "step_ms": sorted(steps)[len(steps) // 2] * 1000,
            "longest_gap_ms": gaps.end(),
            "longest_cpu_ms": gaps.longest_cpu_ms(),
            "gaps_ms": gaps.longest(5),
        }
    finally:
        app.close()


N_STEPPED = 30

ROWS: dict[str, Callable[..., dict[str, Any]]] = {
    "speed": speed,
    "stream": stream,
    "opening": opening,
    "inside": inside,
}

if __name__ == "__main__":
    print(json.dumps(ROWS[sys.argv[1]](*sys.argv[2:])))
