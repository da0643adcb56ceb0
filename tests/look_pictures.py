"""Makes the pictures of pictures: `docs/pictures/*.png`, light and dark, at 100 % and 200 %.

Run by hand, from the repository's root, after a change that is seen:

    .venv/bin/python tests/look_pictures.py

The scripted engine plays a projector, so that any machine makes the same pictures; what stands in
them is drawn here. Look at them before they are committed. No test: nothing here asserts.
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

from look_inside import Visit  # noqa: E402
from PIL import Image, ImageDraw  # noqa: E402
from screenshots import settle, wait_for  # noqa: E402

if TYPE_CHECKING:
    from main import App

OUT = Path(os.environ.get("LOOK_OUT", ROOT / "docs" / "pictures"))
SIZES = {100: (1200, 800), 200: (1900, 1400)}
SCRIPT: dict[str, Any] = {
    "load": {"loaded": {"n_ctx": 8192}},
    "replies": [
        {"match": "What is this?", "text": "A low **sun** over dark hills, mirrored in water."},
        {"text": "The light: from morning on the left to night on the right."},
    ],
    "projector": {"tokens": 256, "kind": "gemma3"},
}
SKIES = [
    ((250, 190, 120), (120, 80, 140)),
    ((120, 180, 240), (220, 235, 250)),
    ((20, 24, 60), (70, 60, 110)),
    ((250, 220, 160), (220, 120, 90)),
    ((160, 200, 190), (240, 240, 220)),
    ((90, 110, 150), (200, 190, 200)),
]


def landscape(number: int, width: int = 1800, height: int = 1200) -> Image.Image:
    """Sky, sun, hills and water."""
    above, below = SKIES[number % len(SKIES)]
    column = Image.new("RGB", (1, 64))
    for y in range(64):
        column.putpixel(
            (0, y), tuple(a + (b - a) * y // 63 for a, b in zip(above, below, strict=True))
        )  # type: ignore[arg-type]
    image = column.resize((width, height), Image.Resampling.BICUBIC)
    draw = ImageDraw.Draw(image)
    sun = width * (2 + number % 4) // 7
    radius = height // 10
    draw.ellipse(
        (sun - radius, height // 3, sun + radius, height // 3 + 2 * radius), (255, 240, 190)
    )
    for hill in range(3):
        tone = tuple(c // (3 + hill) for c in below)
        base = height * (5 + hill) // 9
        points = [
            (x, base - (x * (7 + number + hill) // 9) % (height // 5))
            for x in range(0, width + 1, width // 6)
        ]
        draw.polygon([(0, height), *points, (width, height)], tone)
    draw.rectangle((0, height * 4 // 5, width, height), tuple(c * 2 // 3 for c in above))
    return image


def make_files(folder: Path) -> list[Path]:
    paths = [folder / f"lake {number + 1}.jpg" for number in range(6)]
    for number, path in enumerate(paths):
        size = (1200, 1800) if number == 4 else (1800, 1200)
        landscape(number, *size).save(path, quality=92)
    return paths


def attach(app: App, *paths: Path) -> None:
    app.desk.attachments.add_files([str(path) for path in paths])
    drafted = app.desk.attachments
    wait_for(app, lambda: len(drafted.of_open) == len(paths))
    wait_for(app, lambda: all(each.tokens for each in drafted.of_open))


def ask(app: App, text: str) -> None:
    before = len(app.desk.shelf.path)
    app.desk.replies.send(text)
    wait_for(
        app, lambda: len(app.desk.shelf.path) == before + 2 and not app.desk.replies.is_generating
    )


def in_each_look(app: App, take: Callable[[App, str], None], *looks: tuple[str, int]) -> None:
    for theme, zoom in looks or [(t, z) for z in SIZES for t in ("light", "dark")]:
        app.desk.settings.set("theme", theme)
        app.desk.settings.set("zoom_percent", zoom)
        app.window.resize(*SIZES[zoom])
        settle(app)
        app.window.chat.transcript.scroll_to_end()
        wait_drawn(app)
        take(app, f"{theme}-{zoom}")


def wait_drawn(app: App) -> None:
    """Until every small picture that was painted is there."""
    for _ in range(3):
        settle(app)
        app.window.grab()
        wait_for(app, lambda: not app.window.composing.thumbnails._asked)


def taking(name: str) -> Callable[[App, str], None]:
    def take(app: App, look: str) -> None:
        app.window.grab().save(str(OUT / f"{name}-{look}.png"))

    return take


def take_viewer(app: App, look: str) -> None:
    from ui.pictures.viewer import MediaViewer

    app.window.composing.open_attachment(app.desk.shelf.path[0].attachments[0].id)
    viewer = app.window.findChild(MediaViewer, "media_viewer")
    wait_for(app, lambda: viewer.canvas.image is not None)
    settle(app)
    viewer.grab().save(str(OUT / f"viewer-{look}.png"))
    viewer.close()
    settle(app)


def take_prompt(app: App, look: str) -> None:
    visit = Visit(app)
    if not app.window.columns.is_section_shown:
        visit.do("toggle_section")
    visit.section().show_panel("Prompt")
    panel = visit.section().panel()
    wait_for(app, lambda: panel.text.is_whole and panel._of.tokens is not None)
    panel.text.scroll_to(panel._of.tokens.media[0].start)
    settle(app)
    app.window.grab()
    wait_for(app, lambda: panel._thumbnails is not None and not panel._thumbnails._asked)
    settle(app)
    app.window.grab().save(str(OUT / f"prompt-{look}.png"))
    visit.do("toggle_section")


def refuse(app: App, path: Path) -> None:
    """The same model without its projector."""
    from app.engine.client.engine import Engine

    load = Engine.load
    Engine.load = lambda engine, path, options=None, saved=None, projector="": load(  # type: ignore[assignment]
        engine, path, options, saved, ""
    )
    app.desk.loader.load(app.desk.loader.path)
    wait_for(app, lambda: app.desk.loader.loaded is not None and not app.desk.loader.is_loading)
    app.desk.attachments.add_files([str(path)])
    wait_for(app, lambda: bool(app.desk.attachments.of_open))


def main() -> None:
    from main import build

    OUT.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        files = make_files(folder)
        script = folder / "Gemma 3 4B.json"
        script.write_text(json.dumps(SCRIPT))
        app = build(["--data-dir", str(folder / "data"), "--offline", "--scripted", str(script)])
        try:
            wait_for(app, lambda: app.desk.loader.state.state == "ready")
            attach(app, files[0])
            ask(app, "What is this?")
            in_each_look(app, take_viewer, ("light", 100), ("dark", 200))
            attach(app, *files[1:])
            in_each_look(app, taking("composer"), ("light", 100), ("dark", 200))
            ask(app, "What changes from one to the next?")
            in_each_look(app, taking("chat"))
            in_each_look(app, take_prompt, ("light", 100), ("dark", 200))
            refuse(app, files[2])
            in_each_look(app, taking("unseen"), ("light", 100), ("dark", 200))
        finally:
            app.close()


if __name__ == "__main__":
    main()
