"""Makes the pictures of the import: `docs/import/*.png`, light and dark, at 100 % and 200 %.

Run by hand, from the repository's root, after a change that is seen:

    .venv/bin/python tests/look_import.py

An archive of ChatGPT's with made-up chats is dropped on the window, so that any machine makes the
same pictures. Look at them before they are committed. No test: nothing here asserts.
"""

from __future__ import annotations

import os
import random
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from tour import offscreen  # noqa: E402

os.environ["QT_QPA_PLATFORM"] = offscreen()

import foreign_exports as exports  # noqa: E402
from foreign_exports import T0, gpt_chat, said, tree  # noqa: E402
from screenshots import settle, wait_for  # noqa: E402

if TYPE_CHECKING:
    from main import App

OUT = ROOT / "docs" / "import"
SIZES = {100: (1000, 680), 200: (1800, 1300)}
FOX = {"attachments": [{"id": "f", "name": "fox.pdf"}]}
TITLES = (
    "Sourdough that does not rise", "Rust lifetimes, explained", "Trip to Lofoten in May",
    "Letter to the landlord", "Bayes' theorem with dice", "Names for a grey cat",
    "Why is my query slow?", "Birthday speech", "Chord progressions in Dorian",
    "Knee pain when running", "Excel: sum by month", "Reading list on Byzantium",
)  # fmt: skip


def chats() -> list[dict[str, Any]]:
    draw = random.Random(7)
    found = []
    for number, title in enumerate(TITLES):
        nodes: dict[str, Any] = {}
        above = None
        for turn in range(draw.randrange(2, 30)):
            key = f"n{turn}"
            role = "assistant" if turn % 2 else "user"
            more = {"about": {"model_slug": "gpt-4o"}} if turn % 2 else {}
            nodes[key] = (above, said(role, f"{title} ({turn})", at=T0 + turn, **more))
            above = key
        days = draw.randrange(1, 700) * 86_400
        found.append(
            gpt_chat(title, tree(nodes), above, id=f"c{number}")
            | {"create_time": T0 + days, "update_time": T0 + days + 9000}
        )
    hidden = tree(
        {
            "a": (None, said("user", "Paint a fox.", about=FOX)),
            "b": ("a", said("tool", "secret", weight=0.0)),
            "c": ("b", said("assistant", kind="canvas", content={"x": 1})),
        }
    )  # fmt: skip
    return [*found, gpt_chat("A fox in watercolours", hidden, "c"), exports.gpt_branches()]


def in_each_look(app: App, take: Callable[[App, str], None]) -> None:
    for theme, zoom in ((t, z) for z in SIZES for t in ("light", "dark")):
        app.desk.settings.set("theme", theme)
        app.desk.settings.set("zoom_percent", zoom)
        app.window.resize(*SIZES[zoom])
        settle(app)
        take(app, f"{theme}-{zoom}")


def take_dialog(app: App, look: str) -> None:
    from PySide6.QtWidgets import QTreeWidget

    from ui.windows.import_dialog import ImportDialog

    dialog = app.window.findChild(ImportDialog)
    assert dialog is not None
    for tree_of_kinds in dialog.findChildren(QTreeWidget):
        tree_of_kinds.collapseAll()
    settle(app)
    dialog.grab().save(str(OUT / f"dialog-{look}.png"))


def main() -> None:
    from main import build

    OUT.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        archive = exports.gpt_archive(Path(folder) / "chatgpt-export.zip", chats())
        again = exports.gpt_archive(Path(folder) / "earlier.zip", chats()[:2])
        app = build(["--data-dir", f"{folder}/data", "--offline"])
        try:
            wait_for(app, lambda: app.desk.exchange._around.store is not None)
            from ui.windows.import_dialog import ImportDialog

            app.desk.exchange.take_files([str(again)])
            wait_for(app, lambda: app.window.findChild(ImportDialog) is not None)
            app.window.findChild(ImportDialog).accept()
            wait_for(app, lambda: len(app.desk.shelf.conversations) == 2)
            settle(app)
            app.desk.exchange.take_files([str(archive)])
            wait_for(app, lambda: app.window.findChild(ImportDialog) is not None)
            in_each_look(app, take_dialog)
        finally:
            app.close()


if __name__ == "__main__":
    main()
