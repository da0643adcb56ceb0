"""Makes the pictures of a way through the chat: `docs/tour/*.png`, light and dark, 100 and 200 %.

Run by hand, from the repository's root, after a change that is seen:

    .venv/bin/python tests/tour.py [SCENE …]

The scripted engine answers, so the pictures are the same on every machine; real weights stand in
`tests/screenshots.py`. Everything is done as a user does it, by the window's own actions and keys.
Look at the pictures before they are committed. No test: nothing here asserts.
"""

from __future__ import annotations

import atexit
import json
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

SCREEN = {"name": "desk", "x": 0, "y": 0, "width": 1920, "height": 1200}
"""Windows grow with the zoom as far as their screen lets them, and Qt's own is 800×800."""


def offscreen() -> str:
    """The platform without a display, with a screen of ours."""
    scale = {"logicalDpi": 96, "logicalBaseDpi": 96, "dpr": 1}
    with tempfile.NamedTemporaryFile("w", suffix=".json", delete=False) as file:
        json.dump({"screens": [SCREEN | scale]}, file)
    atexit.register(os.unlink, file.name)
    return f"offscreen:configfile={file.name}"


os.environ.setdefault("QT_QPA_PLATFORM", offscreen())
ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from screenshots import settle, wait_for  # noqa: E402

if TYPE_CHECKING:
    from PySide6.QtWidgets import QWidget

    from main import App

OUT = ROOT / "docs" / "tour"
SIZES = {100: (1280, 800), 200: (1440, 900)}

GAUSS = r"""The sum of the first $n$ numbers is a quadratic polynomial:

$$\sum_{k=1}^{n} k = \frac{n(n+1)}{2}$$

Written forwards and backwards, the $n$ columns each add up to $n + 1$: twice the sum.[^1]

```python
def triangular(n: int) -> int:
    # The sum of 1 … n without a loop.
    if n < 0:
        raise ValueError("n must not be negative")
    return n * (n + 1) // 2
```

| n | by loop | by formula |
|---:|---:|---:|
| 10 | 55 | 55 |
| 100 | 5,050 | 5,050 |
| 1,000,000 | 500,000,500,000 | 500,000,500,000 |

- [x] proved by pairing
- [ ] proved by induction

[^1]: The story says that Gauss saw this at the age of nine; it would cost $5 to check.
"""

LOOP = r"""A loop needs $n$ additions, the formula three operations, whatever $n$ is:

```python
total = 0
for k in range(1, n + 1):
    total += k
```

So the loop is $\mathcal{O}(n)$ and the formula $\mathcal{O}(1)$."""

STAIRCASE = r"""Think of a **staircase** of blocks, one block high at first, then two, then three.

1. Build a second one just like it.
2. Turn it over and put it on the first.
3. You have a rectangle, $n$ blocks wide and $n + 1$ blocks high.

Half of the rectangle is yours: $\frac{n(n+1)}{2}$ blocks."""

REPLIES = [
    {"match": "first n numbers", "text": GAUSS, "ms": 0},
    {"match": "fast is a loop", "text": LOOP, "ms": 0},
    {"match": "harbour", "text": "Hamburg lies on the Elbe, about 110 km from the sea.", "ms": 0},
    {"text": "In one word: **pairing**. Add each number to its mirror image.", "ms": 0},
    {"text": STAIRCASE, "ms": 0},
    {
        "text": "Put the numbers 1 to $n$ on cards. Take the smallest and the largest together: "
        "$n + 1$. Take the next two: $n + 1$ again. You do this $n/2$ times.",
        "ms": 0,
    },
]
QUESTIONS = (
    "What is the sum of the first n numbers, and why?",
    "How fast is a loop against the formula?",
)


class Tour:
    """The window with the scripted engine, and a picture of whatever it shows."""

    def __init__(self, app: App, folder: Path) -> None:
        self.app = app
        self.folder = folder
        self.desk = app.desk
        self.window = app.window

    def wait(self, is_true: Callable[[], Any]) -> None:
        wait_for(self.app, lambda: bool(is_true()))

    def do(self, name: str) -> None:
        """One of the window's actions, as from the command palette."""
        self.window.action_registry.run(name)
        settle(self.app)

    def ask(self, text: str) -> None:
        before = len(self.desk.shelf.path)
        self.desk.replies.send(text)
        self.wait(
            lambda: len(self.desk.shelf.path) >= before + 2 and not self.desk.replies.is_generating
        )

    def picture(self, scene: str, again: Callable[[], object], *, of: QWidget | None) -> None:
        """Of the window or of `of`, in both themes and sizes; `again` brings the place on screen
        once more, since another size moves it."""
        for percent, size in SIZES.items():
            self.desk.settings.set("zoom_percent", percent)
            self.window.resize(*size)
            for theme in ("light", "dark"):
                self.desk.settings.set("theme", theme)
                settle(self.app)
                OUT.mkdir(parents=True, exist_ok=True)
                again()
                settle(self.app)
                (of or self.window).grab().save(str(OUT / f"{scene}-{theme}-{percent}.png"))
        self.desk.settings.set("zoom_percent", 100)
        self.window.resize(*SIZES[100])
        settle(self.app)


def main() -> None:
    from main import build

    wanted = set(sys.argv[1:])
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "Demo.json"
        script.write_text(json.dumps({"load": {"ms": 1}, "replies": REPLIES}), encoding="utf-8")
        app = build(["--data-dir", f"{folder}/data", "--offline", "--scripted", str(script)])
        try:
            tour = Tour(app, Path(folder))
            app.window.resize(*SIZES[100])
            tour.wait(lambda: app.desk.loader.state.state == "ready")
            for scene, show in SCENES.items():
                shown = show(tour)
                if not wanted or scene in wanted:
                    tour.picture(scene, lambda scene=scene: look_at(tour, scene), of=shown)
                close_dialogs(tour)
        finally:
            app.close()


# --- the way, in order; each scene leaves the window as the next one expects it ------------------


def first_run(_tour: Tour) -> QWidget | None:
    return None


def technical_chat(tour: Tour) -> QWidget | None:
    for question in QUESTIONS:
        tour.ask(question)
    return None


def edit_third_message(tour: Tour) -> QWidget | None:
    tour.window.message_acts.do("edit", tour.desk.shelf.path[2].id)
    settle(tour.app)
    return None


def two_answers(tour: Tour) -> QWidget | None:
    from PySide6.QtCore import Qt
    from PySide6.QtTest import QTest

    QTest.keyClick(tour.app.application.focusWidget(), Qt.Key.Key_Escape)
    tour.ask("Say it so that a child sees it.")
    question = tour.desk.shelf.path[-2]
    tour.desk.replies.ask_several(question.id, [{"seed": 1}, {"seed": 2}])
    tour.wait(lambda: not tour.desk.replies.is_generating)
    settle(tour.app)
    return None


def branch_map(tour: Tour) -> QWidget | None:
    tour.do("branch_map")
    return top_dialog(tour)


def found_by_a_word(tour: Tour) -> QWidget | None:
    from PySide6.QtTest import QTest
    from PySide6.QtWidgets import QWidget

    tour.desk.shelf.open_new()
    tour.ask("Tell me about the harbour of Hamburg.")
    tour.do("search_chats")
    field = tour.window.findChild(QWidget, "search_field")
    QTest.keyClicks(field, "staircase")
    settle(tour.app)
    return None


def palette(tour: Tour) -> QWidget | None:
    from PySide6.QtWidgets import QWidget

    field = tour.window.findChild(QWidget, "search_field")
    field.clear()
    tour.do("palette")
    return None


def settings(tour: Tour) -> QWidget | None:
    tour.window.show_settings()
    settle(tour.app)
    return top_dialog(tour)


def trash(tour: Tour) -> QWidget | None:
    tour.do("trash_chat")
    tour.do("open_trash")
    return top_dialog(tour)


def export(tour: Tour) -> QWidget | None:
    tour.do("export_chats")
    return top_dialog(tour)


def bring_in(tour: Tour) -> QWidget | None:
    """A file with a chat that is there and one that is new."""
    from dataclasses import replace

    from app.chat.exchange import json_file
    from models.records import WholeConversation

    here = tour.desk.shelf.conversations[0]
    store = tour.desk.around.store
    assert store is not None
    there = store.read_whole(here.id).result()
    new = replace(there.conversation, id="new", title="Notes from a journey", active_leaf_id=None)
    path = tour.folder / "Cutaway chats.json"
    with path.open("wb") as file:
        json_file.write(file, [there, WholeConversation(new, ())], [], [], new.created_at)
    tour.desk.exchange.preview([str(path)])
    tour.wait(lambda: top_dialog(tour) is not None)
    return top_dialog(tour)


def look_at(tour: Tour, scene: str) -> None:
    """Scroll to what the scene is about."""
    bar = tour.window.chat.transcript.verticalScrollBar()
    if scene.startswith("2"):
        bar.setValue(0)
    elif scene.startswith("3"):
        tour.window.message_acts.do("edit", tour.desk.shelf.path[2].id)


def top_dialog(tour: Tour) -> QWidget | None:
    """The window that is open beside the main one."""
    settle(tour.app)
    others = [w for w in tour.app.application.topLevelWidgets() if w.isVisible()]
    return next((w for w in reversed(others) if w is not tour.window), None)


def close_dialogs(tour: Tour) -> None:
    for widget in tour.app.application.topLevelWidgets():
        if widget is not tour.window and widget.isVisible():
            widget.close()
    settle(tour.app)


SCENES: dict[str, Callable[[Tour], QWidget | None]] = {
    "1-first-run": first_run,
    "2-technical-chat": technical_chat,
    "3-edit-third-message": edit_third_message,
    "4-two-answers": two_answers,
    "5-branch-map": branch_map,
    "6-found-by-a-word": found_by_a_word,
    "7-palette": palette,
    "8-settings": settings,
    "9-trash": trash,
    "10-export": export,
    "11-import": bring_in,
}

if __name__ == "__main__":
    main()
