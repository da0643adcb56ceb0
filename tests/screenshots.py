"""Makes the pictures of README: a chat with the included weights and a panel, light and dark.

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
    from PySide6.QtWidgets import QWidget

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
LOOKED_AT = b" return"
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


def scroll(section: QWidget, to: str | QWidget) -> None:
    """What is in view to its end, to its beginning, or so that a widget begins at the top."""
    from PySide6.QtCore import QPoint
    from PySide6.QtWidgets import QScrollArea

    for area in section.findChildren(QScrollArea):
        if not area.isVisible():
            continue
        bar, inner = area.verticalScrollBar(), area.widget()
        if isinstance(to, str):
            bar.setValue(bar.maximum() if to == "end" else bar.minimum())
        elif inner is not None and inner.isAncestorOf(to):
            bar.setValue(to.mapTo(inner, QPoint(0, 0)).y())


def open_inside(app: App) -> None:
    """The panel beside the chat, with the lens on a token."""
    acts = app.window.section_acts
    app.window.action_registry.run("toggle_section")
    section, looking = acts.section(), acts.looking()
    section.show_panel("Inside")
    wait_for(app, lambda: len(looking.traces) > 0)
    pieces = [token.piece for token in looking.traces]
    looking.select(pieces.index(LOOKED_AT))
    panel = section.panel()
    (lens,) = (card for card in panel.cards if card.name == "lens")
    for card in panel.cards:
        card.set_open(card is lens)
    wait_for(app, lambda: panel.view.seen is not None and not panel.view.is_waiting)
    settle(app)
    wait_for(app, lambda: not app.desk.questions._asked)
    settle(app)
    scroll(section, lens)


def take(app: App, theme: str) -> None:
    app.desk.settings.set("theme", theme)
    settle(app)
    app.window.chat.transcript.scroll_to_end()
    settle(app)
    app.window.grab().save(str(ROOT / "docs" / f"chat-{theme}.png"))


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
            open_inside(app)
            for theme in ("light", "dark"):
                take(app, theme)
        finally:
            app.close()


if __name__ == "__main__":
    main()
