"""Makes the pictures of exports: `docs/export/*.png`.

Run by hand, from the repository's root, after a change that is seen:

    .venv/bin/python tests/look_export.py

The web page is painted by Chromium, which must be installed. Look at them before they are
committed. No test: nothing here asserts.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from tour import offscreen  # noqa: E402

os.environ["QT_QPA_PLATFORM"] = offscreen()

import pypdfium2  # noqa: E402
from exported_chats import MARKDOWN  # noqa: E402
from screenshots import settle, wait_for  # noqa: E402

if TYPE_CHECKING:
    from main import App

OUT = ROOT / "docs" / "export"
SCRIPT: dict[str, Any] = {"replies": [{"text": MARKDOWN.rpartition("---")[0].strip()}]}
QUESTION = "How do I find all prime numbers up to a hundred?"


def dialog(app: App, theme: str, zoom: int) -> None:
    from ui.windows.export_dialog import ExportDialog

    app.desk.settings.set("theme", theme)
    app.desk.settings.set("zoom_percent", zoom)
    app.window.resize(900 * zoom // 100, 600 * zoom // 100)
    settle(app)
    app.window.exchange_acts.export()
    shown = app.window.findChild(ExportDialog)
    assert shown is not None
    shown.format.setCurrentIndex(shown.format.findData("html"))
    settle(app)
    shown.grab().save(str(OUT / f"dialog-{theme}-{zoom}.png"))
    shown.reject()
    settle(app)


def files(app: App, folder: Path) -> None:
    from app.chat.events import Noticed
    from app.chat.exchange.choices import Choices
    from ui.paper.pages import PdfPress

    app.desk.settings.set("theme", "light")
    app.desk.settings.set("zoom_percent", 100)
    told: list[str] = []
    app.window._bridge.on(Noticed, lambda event: told.append(event.sentence))
    app.desk.exchange.press = PdfPress(app.window._theme, app.window)
    for form in ("html", "pdf"):
        target = folder / f"chat.{form}"
        app.desk.exchange.export([app.desk.shelf.open.id], str(target), Choices(form))
        wait_for(app, lambda target=target: any(target.name in words for words in told))
    page = pypdfium2.PdfDocument(folder / "chat.pdf")[0]
    page.render(scale=1.2).to_pil().save(OUT / "pdf.png")
    chromium = shutil.which("chromium") or "chromium"
    subprocess.run(
        [
            *(chromium, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"),
            *(f"--screenshot={OUT / 'page.png'}", "--window-size=820,1180"),
            (folder / "chat.html").as_uri(),
        ],
        check=True,
        capture_output=True,
    )


def picture(app: App) -> None:
    from PySide6.QtGui import QGuiApplication

    clipboard = QGuiApplication.clipboard()
    clipboard.clear()
    app.window.action_registry.run("copy_picture")
    wait_for(app, lambda: not clipboard.image().isNull())
    clipboard.image().save(str(OUT / "message.png"))


def main() -> None:
    from main import build

    OUT.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "script.json"
        script.write_text(json.dumps(SCRIPT))
        app = build(["--data-dir", f"{folder}/data", "--offline", "--scripted", str(script)])
        try:
            wait_for(app, lambda: app.desk.loader.state.state == "ready")
            app.desk.replies.send(QUESTION)
            wait_for(app, lambda: len(app.desk.shelf.path) == 2)
            wait_for(app, lambda: not app.desk.replies.is_generating)
            for theme, zoom in (("light", 100), ("dark", 200)):
                dialog(app, theme, zoom)
            files(app, Path(folder))
            picture(app)
        finally:
            app.close()


if __name__ == "__main__":
    main()
