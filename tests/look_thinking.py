"""Makes the pictures of thinking: `docs/thinking/*.png`, light and dark, at 100 % and 200 %.

Run by hand, from the repository's root, after a change that is seen:

    .venv/bin/python tests/look_thinking.py

The scripted engine plays a model that reasons, so that any machine makes the same pictures. Look at
them before they are committed. No test: nothing here asserts.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from tour import offscreen  # noqa: E402

os.environ["QT_QPA_PLATFORM"] = offscreen()

from screenshots import settle, wait_for  # noqa: E402

if TYPE_CHECKING:
    from main import App

OUT = ROOT / "docs" / "thinking"
SIZES = {100: (1180, 720), 200: (1700, 1040)}
LIMIT = 24
QUESTION = "A train leaves at 9:40 and takes 2 h 35 min. When does it arrive?"
THOUGHTS = (
    "It leaves at 9:40. Two hours later it is 11:40, and 35 minutes after that 12:15. Wait, let me "
    "check this once more. 9:40 and 35 minutes are 10:15, and two hours more are 12:15. Both ways "
    "give the same time, but I could also count in minutes from midnight, to be quite sure of it."
)
ANSWER = "The train arrives at **12:15**.\n\n- 9:40 + 2 h = 11:40\n- 11:40 + 35 min = 12:15"


def script() -> dict[str, Any]:
    def words(text: str, part: str) -> list[dict[str, Any]]:
        pieces = [f" {word}" for word in text.split(" ")]
        pieces[0] = pieces[0][1:]
        return [{"text": piece, "part": part, "ms": 1, "probability": 0.6} for piece in pieces]

    return {
        "thinking": {"choices": ["off", "on", "low", "high"], "auto": "on", "has_reasoning": True},
        "replies": [{"tokens": [*words(THOUGHTS, "reasoning"), *words(ANSWER, "content")]}],
    }


def talk(app: App) -> None:
    app.desk.thinking.choose("low", "chat")
    app.desk.thinking.limit_to(LIMIT, "chat")
    app.desk.replies.send(QUESTION)
    wait_for(app, lambda: len(app.desk.shelf.path) == 2 and not app.desk.replies.is_generating)
    settle(app)
    app.desk.thinking.begin_with("Count in minutes from midnight:")


def in_each_look(app: App, take: Callable[[App, str], None]) -> None:
    for zoom, size in SIZES.items():
        for theme in ("light", "dark"):
            app.desk.settings.set("theme", theme)
            app.desk.settings.set("zoom_percent", zoom)
            app.window.resize(*size)
            settle(app)
            app.window.chat.transcript.scroll_to_end()
            settle(app)
            take(app, f"{theme}-{zoom}")


def take_control(app: App, look: str) -> None:
    from PySide6.QtGui import QPainter

    app.window.chat.toasts.hide()
    control = app.window.thinking
    control.menu.aboutToShow.emit()
    control.menu.resize(control.menu.sizeHint())
    settle(app)
    picture = app.window.grab()
    # A menu is a window of its own: it is put where it opens.
    menu, button = control.menu.grab(), control.button
    place = button.mapTo(app.window, button.rect().topRight())
    painter = QPainter(picture)
    painter.drawPixmap(place.x() - menu.width(), place.y() - menu.height(), menu)
    painter.end()
    picture.save(str(OUT / f"control-{look}.png"))


def take_limit(app: App, look: str) -> None:
    app.window.grab().save(str(OUT / f"limit-{look}.png"))


def open_tokens(app: App) -> None:
    """The reply as tokens, and the one that closes its reasoning in the panel."""
    app.window.action_registry.run("panel_tokens")
    app.window.action_registry.run("toggle_token_view")
    looking = app.window.section_acts.looking()
    wait_for(app, lambda: len(looking.traces) > 0)
    looking.select(next(n for n, token in enumerate(looking.traces) if token.inserted))
    settle(app)


def main() -> None:
    from main import build

    OUT.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        played = Path(folder) / "Thinker.json"
        played.write_text(json.dumps(script()))
        app = build(["--data-dir", f"{folder}/data", "--offline", "--scripted", str(played)])
        try:
            wait_for(app, lambda: app.desk.loader.state.state == "ready")
            wait_for(app, lambda: app.desk.thinking.offer.has_reasoning)
            talk(app)
            in_each_look(app, take_control)
            open_tokens(app)
            in_each_look(app, take_limit)
        finally:
            app.close()


if __name__ == "__main__":
    main()
