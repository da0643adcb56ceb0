"""Makes the pictures of documents: `docs/documents/*.png`, light and dark, at 100 % and 200 %.

Run by hand, from the repository's root, after a change that is seen:

    .venv/bin/python tests/look_documents.py

A PDF of 200 pages about towns is asked about; the scripted engine answers, so that any machine
makes the same pictures. Look at them before they are committed. No test: nothing here asserts.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from tour import offscreen  # noqa: E402

os.environ["QT_QPA_PLATFORM"] = offscreen()

from long_document import N_PAGES, TOWNS, page_text  # noqa: E402
from pdfs import pdf  # noqa: E402
from screenshots import settle, wait_for  # noqa: E402

if TYPE_CHECKING:
    from main import App

OUT = Path(os.environ.get("LOOK_OUT", ROOT / "docs" / "documents"))
SIZES = {100: (1100, 760), 200: (1800, 1200)}
TOWN = TOWNS[136]
QUESTION = f"How deep is the harbour of {TOWN}?"
SCRIPT: dict[str, Any] = {
    "load": {"loaded": {"n_ctx": 8192}},
    "replies": [
        {"match": "Who keeps", "text": f"The light of {TOWN} is kept by {TOWN[::-1]}."},
        {"text": f"The harbour of {TOWN} is **89.7 metres** deep (page 137)."},
    ],
}


def the_pdf(folder: Path) -> Path:
    """Towns of the coast, 200 pages."""
    path = folder / "Towns of the coast.pdf"
    path.write_bytes(
        pdf(["\n".join(textwrap.wrap(page_text(n), 90)) for n in range(1, N_PAGES + 1)])
    )
    return path


def in_each_look(
    app: App,
    take: Callable[[App, str], None],
    *looks: tuple[str, int],
    size: tuple[int, int] | None = None,
) -> None:
    for theme, zoom in looks or [(t, z) for z in SIZES for t in ("light", "dark")]:
        app.desk.settings.set("theme", theme)
        app.desk.settings.set("zoom_percent", zoom)
        app.window.resize(*(size or SIZES[zoom]))
        settle(app)
        app.window.chat.transcript.scroll_to_end()
        settle(app)
        take(app, f"{theme}-{zoom}")


def taking(name: str) -> Callable[[App, str], None]:
    def take(app: App, look: str) -> None:
        app.window.grab().save(str(OUT / f"{name}-{look}.png"))

    return take


def type_and_wait(app: App, text: str, is_there: Callable[[], Any]) -> None:
    app.window.chat.composer.insert_text(text)
    wait_for(app, is_there)
    settle(app)


def take_window(app: App, look: str) -> None:
    (attachment,) = app.desk.shelf.path[0].attachments
    documents = app.window.composing.documents
    best = max(
        range(len(attachment.details["sent"])), key=lambda n: attachment.details["sent"][n][2]
    )
    documents.open_part(attachment.id, best)
    settle(app)
    window = documents._windows[attachment.id]
    px = app.window._theme.px
    window.resize(px(720), px(560))
    settle(app)
    window.grab().save(str(OUT / f"document-{look}.png"))
    window.close()
    settle(app)


def show_prompt(app: App) -> None:
    """The panel Prompt, beside the reply."""
    from PySide6.QtWidgets import QWidget

    acts = {action.name: action for action in app.window.action_registry}
    acts["panel_prompt"].run()

    def is_there() -> bool:
        bar = app.window.findChild(QWidget, "prompt_parts")
        return bar is not None and bar.isVisible()

    wait_for(app, is_there)


def main() -> None:
    from main import build

    OUT.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "script.json"
        script.write_text(json.dumps(SCRIPT))
        app = build(["--data-dir", f"{folder}/data", "--offline", "--scripted", str(script)])
        try:
            wait_for(app, lambda: app.desk.loader.state.state == "ready")
            held = app.desk.attachments
            held.add_files([str(the_pdf(Path(folder)))])
            wait_for(app, lambda: held.of_open and held.of_open[0].details.get("chosen"))
            type_and_wait(
                app,
                QUESTION,
                lambda: (
                    TOWN in str(held.of_open[0].details.get("question")) and held.of_open[0].tokens
                ),
            )
            in_each_look(app, taking("composer"))
            app.window.chat.composer.send()
            shelf = app.desk.shelf
            wait_for(app, lambda: len(shelf.path) == 2 and not app.desk.replies.is_generating)
            type_and_wait(app, "Who keeps its light?", lambda: app.desk.draft_parts.of_earlier())
            in_each_look(app, taking("parts"))
            in_each_look(app, take_window, ("light", 100), ("dark", 200))
            show_prompt(app)
            looks = (("light", 100), ("dark", 100))
            in_each_look(app, taking("prompt"), *looks, size=(1440, 900))
        finally:
            app.close()


if __name__ == "__main__":
    main()
