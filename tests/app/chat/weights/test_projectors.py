"""Which projector is loaded with which weights, and what is said where a picture isn't taken."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from made_projectors import PLAIN, put_projector, put_weights
from placed_weights import looked_into

from app.chat.weights.load_settings import NO_PROJECTOR
from app.chat.weights.projectors import Projectors, Taking
from app.engine.planning.fit import fit
from app.engine.planning.load_plan import Machine
from app.engine.planning.placement import DeviceMemory
from app.engine.planning.projector_plan import (
    by_size,
    chosen_projector,
    left_beside,
    projector_parts,
    projector_sizes,
)
from app.engine.planning.sizes import MIB
from app.engine.protocol.loading_messages import BESIDE, LoadOptions, MemoryPart
from app.engine.protocol.media_messages import ProjectorOffer
from app.engine.protocol.remote_messages import EngineOffer, Lack
from app.gguf.header import read_header
from app.gguf.local import projecting
from app.gguf.local.entries import entries
from app.gguf.local.places import Origin, Place

SEEING = ProjectorOffer("/mmproj.gguf", "gemma3", images=True)
REPO = "ana/tiny-VL-GGUF"


@dataclass
class FakeLoader:
    path: str = ""
    is_loading: bool = False
    own: dict[str, str] = field(default_factory=dict)
    loaded: Any = None

    def projector_of(self, path: str) -> str:
        return self.own.get(path, "")

    def projector_among(self, paths: list[str]) -> str:
        return next(filter(None, map(self.projector_of, paths)), "")

    def name_of(self, path: str) -> str:
        return Path(path).stem


@dataclass
class FakeLoaded:
    projector: ProjectorOffer | None = None
    remote: EngineOffer | None = None


@dataclass
class Came:
    path: str
    repo_id: str = REPO


@dataclass
class Here:
    """Files in a folder, found as those of LM Studio."""

    top: Path
    loader: FakeLoader = field(default_factory=FakeLoader)

    def look(self, origin: Origin = Origin.LM_STUDIO) -> Projectors:
        found = entries(looked_into(Place(origin, self.top)))
        return Projectors(self.loader, lambda: found)  # type: ignore[arg-type]


@pytest.fixture
def here(tmp_path: Path) -> Here:
    return Here(tmp_path)


def load(here: Here, path: Path, offer: ProjectorOffer | None = None) -> None:
    here.loader.path, here.loader.loaded = str(path), FakeLoaded(offer)


def test_the_best_is_used_unless_another_or_none_is_chosen(here: Here) -> None:
    folder = here.top / REPO
    weights = str(put_weights(folder / "tiny-VL-Q4_0.gguf"))
    best = put_projector(folder / "mmproj-F16.gguf")
    other = put_projector(folder / "mmproj-F32.gguf", kind="f32")
    away = put_projector(here.top / "x" / "y" / "z-mmproj.gguf")
    found = here.look()
    assert [p.path for p in found.of(weights)] == [best, other]
    assert [p.path for p in found.choices(weights)] == [best, other, away]
    assert found.beside(weights) == str(best)
    for chosen, expected in (("", best), (str(away), away), (NO_PROJECTOR, None), ("/gone", None)):
        here.loader.own[weights] = chosen
        used = found.used(weights)
        assert (used.path if used is not None else None) == expected
    assert found.repository(weights) == REPO
    assert here.look(Origin.FOLDER).repository(weights) == REPO
    assert (found.of("/gone.gguf"), found.beside("/gone.gguf")) == ((), None)


def test_a_copy_of_a_model_has_the_projector_beside_the_other(here: Here) -> None:
    folder = here.top / "x" / "tiny"
    weights = put_weights(folder / "tiny-VL-Q4_0.gguf")
    seeing = put_projector(folder / "mmproj-tiny-VL-F16.gguf")
    put_weights(folder / "other.gguf")
    copy = here.top / "a" / "backup.gguf"
    copy.parent.mkdir(parents=True)
    copy.hardlink_to(weights)
    found = here.look()
    for path in (weights, copy):
        assert [each.path for each in found.of(str(path))] == [seeing]
        assert not found.may_need_one(str(path))


def test_what_came_from_one_repository_belongs_together(here: Here) -> None:
    weights = put_weights(here.top / "tiny-Q4_0.gguf", template=PLAIN)
    put_weights(here.top / "other-Q4_0.gguf", template=PLAIN)
    seeing = put_projector(here.top / "mmproj-F16.gguf")
    found = here.look(Origin.DOWNLOADS)
    assert found.of(str(weights)) == ()
    assert found.repository(str(weights)) == ""
    found.take_downloads([Came(str(weights)), Came(str(seeing))])  # type: ignore[list-item]
    assert [p.path for p in found.of(str(weights))] == [seeing]
    assert found.repository(str(weights)) == REPO


def test_why_a_picture_is_not_taken_and_what_would_do(here: Here) -> None:
    folder = here.top / REPO
    weights = put_weights(folder / "tiny-VL-Q4_0.gguf")
    found = here.look()
    assert found.taking("image") == Taking()  # nothing is chosen
    here.loader.path = str(weights)
    assert found.taking("image").way == "get"  # not loaded, but known
    load(here, weights, SEEING)
    assert found.taking("image") == Taking()
    assert found.taking("audio").way == "other"
    load(here, weights, ProjectorOffer("/p", why="It is damaged."))
    broken = found.taking("image")
    assert "It is damaged." in broken.why
    assert (broken.way, broken.button) == ("choose", "Choose a projector…")
    load(here, weights)
    assert found.taking("image").way == "get"
    put_projector(folder / "mmproj\n-F16.gguf")
    found = here.look()
    load(here, weights, ProjectorOffer("/p", why="It is damaged."))
    assert found.taking("image").way == "reload"  # there is another one by now
    load(here, weights)
    later = found.taking("image")
    assert later.way == "reload"
    assert "“mmproj\\n-F16.gguf”, which isn't loaded with it yet" in later.why
    assert found.taking("audio").way == "other"
    here.loader.own[str(weights)] = NO_PROJECTOR
    assert found.taking("image").way == "use"
    here.loader.own.clear()
    here.loader.is_loading = True
    assert found.taking("image") == Taking()  # what comes can
    blind = put_weights(here.top / "a" / "b" / "blind.gguf", template=PLAIN)
    here.loader.is_loading = False
    load(here, blind)
    assert here.look().taking("image").way == "other"
    seeing = put_weights(here.top / "seeing.gguf")
    load(here, seeing)
    assert here.look(Origin.FOLDER).taking("image").way == "choose"


def test_of_a_servers_model_what_it_says(here: Here) -> None:
    here.loader.path = "engine://e1/m"
    told = EngineOffer("e1", "Mine", "vllm", missing=[Lack("audio", "No sounds.")])
    here.loader.loaded = FakeLoaded(remote=told)
    found = here.look()
    assert found.taking("image") == Taking()
    assert found.taking("audio") == Taking("No sounds.", "other")
    here.loader.loaded = None
    assert found.taking("image") == Taking()


# --- memory -------------------------------------------------------------------------------------

HOST = DeviceMemory("CPU", "", "cpu", 8 << 30, 16 << 30)
GPU = DeviceMemory("CUDA0", "", "gpu", 2 << 30, 2 << 30)


def test_what_a_projector_takes_and_where(tmp_path: Path) -> None:
    path = put_projector(tmp_path / "mmproj.gguf", kind="f32")
    sizes = projector_sizes(read_header(path))
    assert sizes is not None
    assert sizes.weights_bytes == 32 * 64 * 4
    assert sizes.picture_bytes > 16 * MIB
    assert projector_sizes(read_header(put_weights(tmp_path / "w.gguf"))) is None
    large = put_projector(tmp_path / "q.gguf", **{"clip.projector_type": "qwen2.5vl_merger"})
    any_size = projector_sizes(read_header(large))
    assert any_size is not None
    assert any_size.picture_bytes > sizes.picture_bytes
    heard = projector_sizes(read_header(put_projector(tmp_path / "a.gguf", sees=False, hears=True)))
    assert heard is not None
    assert by_size(100).weights_bytes == 100

    assert projector_parts(sizes, [GPU]) == [MemoryPart("CUDA0", "projector", sizes.size_bytes)]
    small = DeviceMemory("CUDA0", "", "gpu", sizes.size_bytes // 2, 2 << 30)
    for devices in ([], [small]):
        parts = projector_parts(sizes, devices)
        assert parts == [MemoryPart("CPU", "projector", sizes.size_bytes)]
        left = left_beside(Machine((HOST, GPU)), parts)
        assert left.host.free_bytes == HOST.free_bytes - sizes.size_bytes
        assert left.devices[1] == GPU


def test_the_fit_of_weights_has_it_in_it(tmp_path: Path) -> None:
    header = read_header(put_weights(tmp_path / "w.gguf"))
    options = LoadOptions(n_ctx=512)
    alone, size = fit(header, options, [HOST]), by_size(1 << 30)
    both = fit(header, options, [HOST], projector=size)
    assert both.need_bytes == alone.need_bytes + size.size_bytes
    assert "the projector up to" in both.why
    assert both.free_bytes == alone.free_bytes
    on_gpu = fit(header, options, [HOST, GPU], projector=size)
    need = {each.name: each for each in on_gpu.devices}
    assert any(part.what == "projector" for part in need["CUDA0"].parts)
    assert need["CUDA0"].free_bytes == GPU.free_bytes
    too_much = fit(header, options, [HOST], projector=by_size(9 << 30))
    assert (too_much.words, too_much.verdict) == ("fits without its projector", "fits with less")
    assert too_much.need_bytes == alone.need_bytes
    assert "no room for its projector (up to 10.7 GB), so it's loaded without" in too_much.why
    neither = DeviceMemory("CPU", "", "cpu", 1 << 20, 16 << 30)
    assert fit(header, options, [neither], projector=size).verdict == "does not fit"


def test_a_load_takes_the_one_beside_it(tmp_path: Path) -> None:
    weights = put_weights(tmp_path / "tiny.gguf")
    assert chosen_projector(weights, BESIDE) == ""
    seeing = put_projector(tmp_path / "mmproj.gguf")
    assert chosen_projector(weights, BESIDE) == str(seeing)
    assert (chosen_projector(weights, ""), chosen_projector(weights, "/x")) == ("", "/x")


def test_what_is_set_for_a_file_goes_to_the_engine_and_waits_for_a_load(make_room: Any) -> None:
    room = make_room({"replies": [{"text": "Hi."}], "projector": {"audio": True}}).start_ready()
    desk = room.desk
    path = desk.loader.path
    assert desk.loader.loaded.projector.path == BESIDE
    assert desk.projectors.taking("audio") == Taking()
    assert desk.defaults.own(path) == {}
    assert desk.defaults.awaiting_load(path) == ()
    assert desk.defaults.change(path, "projector", NO_PROJECTOR) == ""
    assert desk.defaults.awaiting_load(path) == ("projector",)
    desk.loader.load(path)
    room.until(lambda: not desk.loader.is_loading and desk.loader.loaded is not None)
    assert desk.loader.loaded.projector is None
    assert "no projector" in desk.projectors.taking("image").why
    assert desk.defaults.change(path, "projector", "/mmproj.gguf") == ""
    desk.loader.load(path)
    room.until(lambda: not desk.loader.is_loading and desk.loader.loaded is not None)
    assert desk.loader.loaded.projector.path == "/mmproj.gguf"


def test_a_library_of_many_is_asked_for_each_row_that_is_painted(
    here: Here, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each file is held against what lies near it, once."""
    put_weights(here.top / "one" / "tiny-VL-Q4_0.gguf")
    put_projector(here.top / "one" / "mmproj-tiny-VL.gguf")
    few = entries(looked_into(here.top))
    (seeing,) = [each for each in few if each.facts is not None and each.facts.kind == "chat"]
    paths = [Path(f"/w/{number}/m-{number}.gguf") for number in range(300)]
    found = (*few, *(replace(seeing, path=path, parts=(path,)) for path in paths))
    compared: list[object] = []
    rank = projecting._rank
    monkeypatch.setattr(projecting, "_rank", lambda *two: compared.append(two) or rank(*two))
    projectors = Projectors(here.loader, lambda: found)  # type: ignore[arg-type]
    for _ in range(2):
        used = [projectors.used(str(each.path)) for each in found]
    assert sum(each is not None for each in used) == 1
    assert len(compared) == 1
