"""Makes the pictures of several answers at once: `docs/batch/*.png`, each theme at 100 % and 200 %.

Run by hand, from the repository's root, after a change that is seen:

    .venv/bin/python tests/look_batch.py

Eight replies of the included weights to one question stand side by side, first while they are
written, with the engine's slots as lanes beside them; then the same prompt is drawn with many
seeds. What is done is what a user does. Look at the pictures before they are committed. No test:
nothing here asserts.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from tour import offscreen  # noqa: E402

os.environ["QT_QPA_PLATFORM"] = offscreen()

from screenshots import settle, wait_for  # noqa: E402

if TYPE_CHECKING:
    from PySide6.QtWidgets import QWidget

    from main import App

OUT = ROOT / "docs" / "batch"
SIZE = (1440, 900)
QUESTION = "Name an animal and say what it eats."
ANSWERS = 8
SETTINGS = {"theme": "light", "seed": 7, "temperature": 1.2, "max_tokens": 40}
THEMES, ZOOMS = ("light", "dark"), (100, 200)


def take(app: App, widget: QWidget, name: str, *, is_live: bool = False) -> None:
    """In each theme and size; of what moves only once."""
    for theme in THEMES[: 1 if is_live else None]:
        for zoom in ZOOMS[: 1 if is_live else None]:
            app.desk.settings.set("theme", theme)
            app.desk.settings.set("zoom_percent", zoom)
            settle(app)
            if name == "lanes":  # its card, from the top
                panel = app.window.section_acts.section().panel()
                panel.area.verticalScrollBar().setValue(panel.lanes.y())
                settle(app)
            widget.grab().save(str(OUT / f"{name}-{theme}-{zoom}.png"))
    app.desk.settings.set("theme", THEMES[0])
    app.desk.settings.set("zoom_percent", ZOOMS[0])
    settle(app)


def answers(app: App) -> None:
    desk, window = app.desk, app.window
    desk.replies.send(QUESTION)
    wait_for(app, lambda: not desk.replies.is_generating)
    window.section_acts.go_to("Time", "Batch")
    window.message_acts.do_here("answers")
    dialog = window.message_acts._asking
    dialog.count.setCurrentIndex(ANSWERS - 2)
    settle(app)
    take(app, dialog, "asking")
    dialog.ask.click()
    record = desk.lanes.record
    wait_for(app, lambda: sum(v.written > 2 for v in record.visits.values()) > ANSWERS)
    take(app, window, "writing", is_live=True)
    wait_for(app, lambda: not desk.replies.is_generating)
    settle(app)
    wait_for(app, lambda: not record.present)
    take(app, window, "lanes")


def seeds(app: App) -> None:
    window = app.window
    window.message_acts.do_here("seeds")
    shown = window.message_acts._seeds
    shown.length.setCurrentIndex(0)
    shown.count.setCurrentIndex(shown.count.count() - 1)
    shown.start_button.click()
    wait_for(app, lambda: not app.desk.seeds.is_running)
    settle(app)
    take(app, shown, "seeds")


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
            answers(app)
            seeds(app)
        finally:
            app.close()


if __name__ == "__main__":
    main()
