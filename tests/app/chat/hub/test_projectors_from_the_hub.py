"""The way of a projector: seen beside its model on the hub, fetched, found, chosen for the load."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from fake_hub.hub import FakeHub
from fake_hub.repos import FakeFile, FakeRepo
from made_projectors import put_projector, put_weights

from app.engine.protocol.loading_messages import BESIDE
from app.hub.projectors import projectors_for
from app.library import local
from models.records import DownloadState

REPO = "ana/tiny-VL-GGUF"


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[FakeHub]:
    made = {
        "tiny-VL-Q4_0.gguf": put_weights(tmp_path / "made" / "w.gguf"),
        "mmproj-tiny-VL-f16.gguf": put_projector(tmp_path / "made" / "p.gguf"),
        "mmproj-tiny-VL-F32.gguf": put_projector(tmp_path / "made" / "q.gguf", kind="f32"),
    }
    monkeypatch.setattr(local, "WATCH_INTERVAL_S", 0.05)
    with FakeHub() as hub:
        files = [FakeFile(name, path.read_bytes()) for name, path in made.items()]
        hub.add(FakeRepo(REPO, files))
        monkeypatch.setenv("HF_ENDPOINT", hub.endpoint)
        yield hub


def test_it_comes_with_its_model_and_is_loaded_with_it(
    make_room: Callable[..., Any], hub: FakeHub
) -> None:
    room = make_room().start_ready()
    desk, pages = room.desk, []
    room.until(lambda: desk.downloads._downloads is not None, "the queue")
    desk.hub.look(REPO, "", pages.append, pages.append)
    room.until(lambda: pages, "the repository")
    files = pages[0].files
    assert [file.name for file in files if file.is_projector] == [
        "mmproj-tiny-VL-f16.gguf",
        "mmproj-tiny-VL-F32.gguf",
    ]
    model = next(file for file in files if not file.is_projector)
    best = projectors_for(model.name, files)[0]
    assert best.quantisation == "F16"
    for file in (model, best):
        desk.downloads.add(file)
    room.until(
        lambda: [each.state for each in desk.downloads.all] == [DownloadState.DONE] * 2, "both"
    )
    folder = room.data_dir / "weights" / REPO
    path = str(folder / model.name)
    desk.local.begin()
    room.until(lambda: desk.projectors.of(path), "the library")
    assert [each.path for each in desk.projectors.of(path)] == [folder / best.name]
    assert desk.projectors.repository(path) == REPO
    assert not desk.projectors.may_need_one(path)
    assert desk.loader.projector_wish(path) == str(folder / best.name)
    (folder / best.name).unlink()
    room.until(lambda: desk.local.look_again() or not desk.projectors.of(path), "it is gone")
    assert (desk.loader.projector_wish(path), desk.loader.projector_known(path)) == (BESIDE, "")
    assert desk.loader.projector_known("/not/looked/for.gguf") == BESIDE
