"""Makes the pictures of README: the window with the included weights, light and dark.

Run by hand, from the repository's root, after a change that is seen:

    .venv/bin/python tests/screenshots.py

It talks with the real weights, at a fixed seed, and writes `docs/chat-light.png` and
`docs/chat-dark.png`. Look at them before they are committed. No test: nothing here asserts.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

if TYPE_CHECKING:
    from main import App

SIZE = (1440, 900)
SETTINGS = {"theme": "light", "seed": 7, "temperature": 0.2, "max_tokens": 160}
CHATS = (
    ("What is the capital of France?",),
    ("Who wrote Romeo and Juliet?",),
    (
        "How do plants make food from sunlight?",
        "Show me the Python code for a function that adds two numbers.",
    ),
)
LONGEST_S = 180


def wait_for(app: App, is_true: Callable[[], bool]) -> None:
    """Run the event loop until something holds; give up after `LONGEST_S`."""
    latest = time.monotonic() + LONGEST_S
    while not is_true():
        if time.monotonic() > latest:
            raise SystemExit("That took too long. Is the machine busy?")
        app.application.processEvents()
        time.sleep(0.01)


def talk(app: App) -> None:
    """Hold the conversations, the one to be shown last."""
    for questions in CHATS:
        app.desk.shelf.open_new()
        for question in questions:
            app.desk.replies.send(question)
            wait_for(app, lambda: not app.desk.replies.is_generating)


def settle(app: App) -> None:
    """Let what was asked for be painted."""
    until = time.monotonic() + 0.5
    wait_for(app, lambda: time.monotonic() > until)


def take(app: App, theme: str) -> None:
    app.desk.settings.set("theme", theme)
    settle(app)
    app.window.chat.transcript.scroll_to_end()
    settle(app)
    path = ROOT / "docs" / f"chat-{theme}.png"
    path.parent.mkdir(exist_ok=True)
    app.window.grab().save(str(path))


def main() -> None:
    from main import build

    with tempfile.TemporaryDirectory() as folder:
        app = build(["--data-dir", folder, "--offline"])
        try:
            app.window.resize(*SIZE)
            wait_for(app, lambda: app.desk.loader.state.state == "ready")
            for name, value in SETTINGS.items():
                app.desk.settings.set(name, value)
            talk(app)
            for theme in ("light", "dark"):
                take(app, theme)
        finally:
            app.close()


if __name__ == "__main__":
    main()
