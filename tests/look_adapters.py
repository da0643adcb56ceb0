"""Makes the pictures of adapters: `docs/adapters/*.png`, light and dark, at 100 % and 200 %.

Run by hand, from the repository's root, after a change that is seen:

    .venv/bin/python tests/look_adapters.py

The included weights are steered: a control vector is made from two groups of prompts, and a reply
is written without it and with it, at a fixed seed. Look at the pictures before they are committed.
No test: nothing here asserts.
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

import look_inside  # noqa: E402
from screenshots import settle, wait_for  # noqa: E402

if TYPE_CHECKING:
    from main import App
    from ui.windows.vectors_window import VectorsWindow

OUT = ROOT / "docs" / "adapters"
SIZES = {100: (1440, 900), 200: (1900, 1160)}
NAME = "More cheerful"
PAIRS = (
    ("You are overjoyed. How was your day?", "You are miserable. How was your day?"),
    (
        "You love everything. Tell me about the rain.",
        "You hate everything. Tell me about the rain.",
    ),
    ("You feel wonderful. Describe the city.", "You feel awful. Describe the city."),
    (
        "You are full of joy. What do you think of Mondays?",
        "You are full of grief. What do you think of Mondays?",
    ),
)
SCALE, FIRST, LAST = 1.5, 8, 20
QUESTION = "How are you today?"


def make(app: App) -> VectorsWindow:
    desk = app.desk
    app.window.lazy.show_vectors()
    bench = app.window.lazy._vectors_window
    assert bench is not None
    bench.name_field.setText(NAME)
    for field, texts in zip(bench.examples, zip(*PAIRS, strict=True), strict=True):
        field.setPlainText("\n".join(texts))
    bench.make_button.click()
    wait_for(app, lambda: bool(desk.vectors.all) and not desk.vectors.making)
    settle(app)
    return bench


def compare(app: App) -> None:
    desk = app.desk
    path = desk.vectors.all[0].path
    vector = {"path": path, "scale": SCALE, "first": FIRST, "last": LAST}
    desk.levels.change("chat", "control_vectors", [vector])
    desk.replies.send(QUESTION)
    wait_for(app, lambda: len(desk.shelf.path) == 2 and not desk.replies.is_generating)
    app.window.section_acts.go_to("Sampling", "Adapters")
    desk.with_without.ask()
    settle(app)
    wait_for(app, lambda: not desk.replies.is_generating)
    settle(app)


def main() -> None:
    from main import build

    look_inside.OUT = OUT
    with tempfile.TemporaryDirectory() as folder:
        app = build(["--data-dir", folder, "--offline"])
        try:
            app.window.resize(*SIZES[100])
            wait_for(app, lambda: app.desk.loader.state.state == "ready")
            for name, value in {"seed": 7, "max_tokens": 40}.items():
                app.desk.settings.set(name, value)
            bench = make(app)
            compare(app)
            for zoom, size in SIZES.items():
                for theme in ("light", "dark"):
                    app.desk.settings.set("theme", theme)
                    app.desk.settings.set("zoom_percent", zoom)
                    app.window.resize(*size)
                    settle(app)
                    settle(app)
                    look_inside.save(app.window, f"with-without-{theme}-{zoom}")
                    look_inside.save(bench, f"vector-{theme}-{zoom}")
        finally:
            app.close()


if __name__ == "__main__":
    main()
