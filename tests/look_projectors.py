"""Makes the pictures of projectors: `docs/projectors/*.png`, light at 100 % and dark at 200 %.

Run by hand, from the repository's root, after a change that is seen:

    .venv/bin/python tests/look_projectors.py [SCENE …]

Files with a header, and nothing in them, lie in a home made for the pictures and on a hub on
loopback: a model with two projectors, one that lacks its own. No test: nothing here asserts.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

import look_inside  # noqa: E402
import look_library  # noqa: E402
from fake_hub.hub import FakeHub  # noqa: E402
from fake_hub.repos import FakeFile, FakeRepo  # noqa: E402
from gguf_writer import Tensor, Typed, write_gguf  # noqa: E402
from look_library import Stay, at_home  # noqa: E402
from made_projectors import SEEING  # noqa: E402
from screenshots import settle  # noqa: E402

if TYPE_CHECKING:
    from PySide6.QtWidgets import QWidget

OUT = ROOT / "docs" / "projectors"
REPO = "harbour/Lookout-4B-GGUF"
WIDTH = 2560
PICTURES = {("light", 100), ("dark", 200)}


def large(path: Path, n_rows: int, kind: str, type_id: int, metadata: dict[str, Any]) -> Path:
    """A file whose header claims a matrix of so many rows; on the disk it is a hole."""
    path.parent.mkdir(parents=True, exist_ok=True)
    template = None if metadata["general.architecture"] == "clip" else SEEING
    claimed = Tensor((4,), (0.0,) * 4, kind="f32", type_id=type_id, stored_shape=(WIDTH, n_rows))
    layout = write_gguf(path, template=template, metadata=metadata, tensors={kind: claimed})
    n_bytes = {0: 4, 1: 2, 8: 34 / 32}[type_id]
    os.truncate(path, layout.data_start + int(WIDTH * n_rows * n_bytes))
    return path


def weights(path: Path, n_rows: int = 90_000) -> Path:
    told = {
        "general.architecture": "llama",
        "general.name": "Lookout 4B it",
        "general.file_type": Typed("u32", 7),
        "llama.embedding_length": Typed("u32", WIDTH),
        "llama.block_count": Typed("u32", 34),
        "llama.context_length": Typed("u32", 131_072),
        "llama.attention.head_count": Typed("u32", 8),
        "llama.attention.head_count_kv": Typed("u32", 4),
    }
    return large(path, n_rows, "blk.0.ffn_up.weight", 8, told)


def projector(path: Path, type_id: int) -> Path:
    told = {
        "general.architecture": "clip",
        "general.type": "mmproj",
        "general.file_type": Typed("u32", type_id),
        "clip.has_vision_encoder": True,
        "clip.projector_type": "gemma3",
        "clip.vision.projection_dim": Typed("u32", WIDTH),
        "clip.vision.image_size": Typed("u32", 896),
        "clip.vision.patch_size": Typed("u32", 14),
        "clip.vision.embedding_length": Typed("u32", 1152),
        "clip.vision.feed_forward_length": Typed("u32", 4304),
        "clip.vision.attention.head_count": Typed("u32", 16),
    }
    return large(path, 16_000, "mm.input_projection.weight", type_id, told)


class Look(Stay):
    def picture(self, scene: str, widget: QWidget | None = None) -> None:
        if self.wanted and scene not in self.wanted:
            return
        for theme, percent in PICTURES:
            self.desk.settings.set("zoom_percent", percent)
            self.desk.settings.set("theme", theme)
            self.view.resize(*look_library.SIZES[percent])
            settle(self.app)
            settle(self.app)
            look_inside.save(self.view, f"{scene}-{theme}-{percent}")
        self.desk.settings.set("zoom_percent", 100)
        settle(self.app)


def on_the_hub(stay: Look) -> None:
    from PySide6.QtWidgets import QTableView

    told: list[str] = []
    stay.wait(lambda: not stay.desk.hub.state.why_offline)
    stay.desk.hub.set_endpoint(stay.hub.endpoint, told.append, lambda t: sys.exit(t.sentence))
    stay.wait(lambda: told)
    page = stay.go("hub")
    stay.view.resize(*look_library.SIZES[100])
    page.search.setText(f"{REPO}:Q8_0")
    page.search_now()
    files = page.findChild(QTableView, "hub_files")
    stay.wait(lambda: files.isVisible() and "it takes" in page.detail.file_words.text())
    stay.picture("hub")


def on_this_computer(stay: Look, home: Path) -> None:
    stay.desk.settings.set("weights_folders", (str(home / "models"),))
    page = stay.go("local")
    stay.desk.local.look_again()
    stay.wait(lambda: len(page.model.shown) == 4)
    for row, each in enumerate(page.model.shown):
        if each.name.startswith("Lighthouse"):
            page.table.selectRow(row)
    settle(stay.app)
    stay.picture("local")
    seeing = next(str(each.path) for each in page.model.shown if each.name.startswith("Lookout"))
    stay.window.lazy.show_defaults(seeing, "projector")
    settle(stay.app)
    stay.picture("defaults")


def main() -> None:
    from main import build

    look_inside.OUT = OUT
    OUT.mkdir(exist_ok=True)
    with at_home() as home, tempfile.TemporaryDirectory() as folder, FakeHub() as hub:
        own, made = home / "models" / REPO, Path(folder)
        weights(own / "Lookout-4B-it-Q8_0.gguf")
        projector(own / "mmproj-Lookout-4B-it-F16.gguf", 1)
        projector(own / "mmproj-Lookout-4B-it-F32.gguf", 0)
        alone = home / "models" / "harbour" / "Lighthouse-3B-GGUF" / "Lighthouse-3B-it-Q8_0.gguf"
        weights(alone, 80_000)
        files = [
            FakeFile("Lookout-4B-it-Q8_0.gguf", weights(made / "w.gguf")),
            FakeFile("mmproj-Lookout-4B-it-F16.gguf", projector(made / "p.gguf", 1)),
            FakeFile("mmproj-Lookout-4B-it-F32.gguf", projector(made / "q.gguf", 0)),
        ]
        hub.add(FakeRepo(REPO, files, downloads=48_210, likes=96, updated_days=40))
        data = home / ".local" / "share" / "cutaway"
        data.parent.mkdir(parents=True)
        app = build(["--data-dir", str(data)])
        try:
            stay = Look(app, hub, set(sys.argv[1:]))
            on_the_hub(stay)
            on_this_computer(stay, home)
        finally:
            app.close()


if __name__ == "__main__":
    main()
