"""Makes the pictures of the server: `docs/server/*.png`, each theme at 100 % and 200 %.

Run by hand, from the repository's root, after a change that is seen:

    .venv/bin/python tests/look_server.py

The window serves the included weights while it chats: programs ask through the real HTTP server,
one by the `openai` package. Shown are the requests, one of them as a chat with its tokens, one that
is still written, the lanes of the engine, and the settings. Look at the pictures before they are
committed. No test: nothing here asserts.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from tour import offscreen  # noqa: E402

os.environ["QT_QPA_PLATFORM"] = offscreen()

from screenshots import settle, wait_for  # noqa: E402

if TYPE_CHECKING:
    from PySide6.QtWidgets import QWidget

    from main import App

OUT = ROOT / "docs" / "server"
SIZE = (1440, 900)
SETTINGS = {"theme": "light", "seed": 7, "temperature": 0.4, "max_tokens": 60, "server_port": 0}
THEMES, ZOOMS = ("light", "dark"), (100, 200)
SCHEMA = {
    "type": "object",
    "properties": {
        "animal": {"type": "string", "maxLength": 20},
        "legs": {"enum": [0, 2, 4, 6, 8]},
    },
    "required": ["animal", "legs"],
    "additionalProperties": False,
}


def take(app: App, widget: QWidget, name: str, *, is_live: bool = False) -> None:
    """In each theme and size; of what moves only once."""
    for theme in THEMES[: 1 if is_live else None]:
        for zoom in ZOOMS[: 1 if is_live else None]:
            app.desk.settings.set("theme", theme)
            app.desk.settings.set("zoom_percent", zoom)
            settle(app)
            widget.grab().save(str(OUT / f"{name}-{theme}-{zoom}.png"))
    app.desk.settings.set("theme", THEMES[0])
    app.desk.settings.set("zoom_percent", ZOOMS[0])
    settle(app)


class Script(threading.Thread):
    """A program of somebody else's, which asks the window."""

    def __init__(self, url: str, prompt: str, **fields: Any) -> None:
        super().__init__(daemon=True)
        self.answer = ""
        self._url, self._prompt, self._fields = url, prompt, fields
        self.start()

    def run(self) -> None:
        from openai import OpenAI

        with OpenAI(base_url=f"{self._url}/v1", api_key="none") as client:
            said = client.chat.completions.create(
                model="default",
                messages=[{"role": "user", "content": self._prompt}],
                **self._fields,
            )
        self.answer = said.choices[0].message.content or ""


def as_json(url: str) -> Script:
    form = {"type": "json_schema", "json_schema": {"name": "animal", "schema": SCHEMA}}
    return Script(url, "Name an animal and its number of legs.", response_format=form, seed=7)


def serve(app: App) -> str:
    server = app.desk.server
    server.set_on(True)
    wait_for(app, lambda: server.state.state == "on")
    return str(server.state.url)


def requests(app: App, url: str) -> None:
    desk, window = app.desk, app.window
    desk.replies.send("Write a short story about a lighthouse.")
    wait_for(app, lambda: desk.growing.is_any)
    script = as_json(url)
    wait_for(app, lambda: not script.is_alive())
    print(json.loads(script.answer))
    for prompt in ("What is the capital of France?", "Count to five."):
        other = Script(url, prompt, max_tokens=24, seed=7)
        wait_for(app, lambda other=other: not other.is_alive())  # type: ignore[misc]
    wait_for(app, lambda: not desk.replies.is_generating and not desk.server.is_busy)
    window.action_registry.run("server_requests")
    settle(app)
    take(app, window.server_acts._window, "requests")
    window.server_acts._window.close()


def as_chat(app: App) -> None:
    desk, window = app.desk, app.window
    first = next(iter(desk.server.log))
    desk.server.open(first.number)
    window.section_acts.go_to("Tokens")
    settle(app)
    take(app, window, "as_chat")


def growing(app: App, url: str) -> None:
    desk, window = app.desk, app.window
    desk.shelf.open_new()
    desk.settings.set("max_tokens", 200)
    desk.replies.send("Write a poem about the sea.")
    scripts = [
        Script(url, f"Tell me about {what}.", max_tokens=90) for what in ("rain", "snow", "wind")
    ]
    window.section_acts.go_to("Time", "Batch")
    record = desk.lanes.record
    wait_for(app, lambda: sum(visit.written > 4 for visit in record.present) > 2)
    panel = window.section_acts.section().panel()
    panel.area.verticalScrollBar().setValue(panel.lanes.y())
    settle(app)
    take(app, window, "lanes", is_live=True)
    last = list(desk.server.log)[-1]
    wait_for(app, lambda: (last.tokens_out or 0) > 20)
    desk.server.open(last.number)
    window.section_acts.go_to("Tokens")
    settle(app)
    settle(app)
    take(app, window, "growing", is_live=True)
    wait_for(app, lambda: not any(script.is_alive() for script in scripts))
    wait_for(app, lambda: not desk.server.is_busy)


def page(app: App) -> None:
    app.window.show_settings("server")
    settle(app)
    take(app, app.window._settings_window, "settings")


def main() -> None:
    from main import build

    OUT.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        app = build(["--data-dir", folder, "--offline"])
        try:
            app.window.resize(*SIZE)
            wait_for(app, lambda: app.desk.loader.state.state == "ready")
            for name, value in SETTINGS.items():
                app.desk.settings.set(name, value)
            url = serve(app)
            requests(app, url)
            as_chat(app)
            growing(app, url)
            page(app)
        finally:
            app.close()


if __name__ == "__main__":
    main()
