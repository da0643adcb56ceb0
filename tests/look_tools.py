"""Makes the pictures of tools: `docs/tools/*.png`, light and dark, at 100 % and 200 %.

Run by hand, from the repository's root, after a change that is seen:

    .venv/bin/python tests/look_tools.py

The scripted engine calls, and the scripted server answers, so that any machine makes the same
pictures. Look at them before they are committed. No test: nothing here asserts.
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
from tool_talk import scripted  # noqa: E402

if TYPE_CHECKING:
    from main import App

OUT = ROOT / "docs" / "tools"
SIZES = {100: (1000, 680), 200: (1800, 1200)}
QUESTION = "What time is it in Tokyo?"
CALL = {"name": "get_current_time", "arguments": {"timezone": "Asia/Tokyo"}}
SCRIPT: dict[str, Any] = {
    "replies": [
        {"match": "Tokyo?", "text": "Let me look that up.", "calls": [CALL]},
        {"text": "It is **9:30 in the morning** in Tokyo, on the 1st of December."},
    ]
}


def start_server(app: App) -> str:
    server = scripted(command="python3", arguments=("tests/tool_server.py",), folder=str(ROOT))
    app.desk.tools.put(server)
    wait_for(app, lambda: app.desk.tools.state(server.id).state == "ready")
    return server.id


def ask(app: App) -> None:
    app.desk.replies.send(QUESTION)
    wait_for(app, lambda: app.desk.tool_calls.asked is not None)


def answer(app: App) -> None:
    app.desk.tool_calls.run()
    wait_for(app, lambda: len(app.desk.shelf.path) == 4 and not app.desk.replies.is_generating)


def open_result(app: App) -> None:
    rows = app.window.chat.transcript.rows
    rows.item(2).toggle_reasoning()
    app.window.chat.transcript.remeasure(2)


def in_each_look(app: App, take: Callable[[App, str], None], *looks: tuple[str, int]) -> None:
    for theme, zoom in looks or [(t, z) for z in SIZES for t in ("light", "dark")]:
        app.desk.settings.set("theme", theme)
        app.desk.settings.set("zoom_percent", zoom)
        app.window.resize(*SIZES[zoom])
        settle(app)
        app.window.chat.transcript.scroll_to_end()
        settle(app)
        take(app, f"{theme}-{zoom}")


def taking(name: str) -> Callable[[App, str], None]:
    def take(app: App, look: str) -> None:
        app.window.grab().save(str(OUT / f"{name}-{look}.png"))

    return take


def take_settings(app: App, look: str) -> None:
    from PySide6.QtWidgets import QPushButton

    app.window.show_settings("tools")
    window = app.window.settings_window()
    rows = window.tool_rows
    button = rows.findChild(QPushButton, "server_tools_button")
    if not button.isChecked():
        button.click()
    settle(app)
    window.grab().save(str(OUT / f"settings-{look}.png"))


def main() -> None:
    from main import build

    OUT.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "script.json"
        script.write_text(json.dumps(SCRIPT))
        app = build(["--data-dir", f"{folder}/data", "--offline", "--scripted", str(script)])
        try:
            wait_for(app, lambda: app.desk.loader.state.state == "ready")
            start_server(app)
            ask(app)
            in_each_look(app, taking("call"))
            answer(app)
            open_result(app)
            in_each_look(app, taking("result"))
            in_each_look(app, take_settings, ("light", 100), ("dark", 200))
        finally:
            app.close()


if __name__ == "__main__":
    main()
