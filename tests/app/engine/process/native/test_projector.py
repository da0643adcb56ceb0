"""Projectors beside weights: what loads, what does not and why, and what the weights are then."""

from __future__ import annotations

import itertools
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gguf_writer import Tensor, write_gguf
from native_session import load_in_float32
from small_networks import small_network
from small_projectors import bmp, gif, jpeg, png, small_projector, wav

from app.engine.process.native import projector as projecting
from app.engine.process.native.native import NativeLog
from app.engine.process.native.weights import Weights
from app.engine.protocol.loading_messages import MemoryPart
from app.engine.protocol.media_messages import Media, ProjectorOffer
from app.refusal import Refusal


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("text") / "text.gguf"
    small_network(path, "grouped")
    return path


Load = Callable[[Path], Weights]
ROOT = Path(__file__).parents[5]


@pytest.fixture
def load(text: Path, native_log: NativeLog) -> Any:
    """Weights with a projector, freed at the end."""
    loaded: list[Weights] = []

    def with_projector(path: Path) -> Weights:
        loaded.append(load_in_float32(text, native_log, projector=str(path)))
        return loaded[-1]

    yield with_projector
    for weights in loaded:
        weights.close()


def test_what_a_projector_offers_is_told(load: Load, tmp_path: Path) -> None:
    path = tmp_path / "eyes.gguf"
    small_projector(path, "mlp")
    weights = load(path)
    size = path.stat().st_size
    assert weights.loaded.projector == ProjectorOffer(str(path), "mlp", True, False, 32, 16, size)
    (taken,) = [each.size_bytes for each in weights.loaded.memory if each.what == "projector"]
    assert size < taken < size + 2**20  # with the buffer for a picture
    small_projector(path, "ultravox")
    offer = load(path).loaded.projector
    assert offer is not None
    assert (offer.kind, offer.images, offer.audio) == ("ultravox", False, True)


def test_where_there_is_no_room_for_both_the_weights_stand_alone(
    load: Load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "eyes.gguf"
    small_projector(path, "mlp")
    parts = [MemoryPart("CPU", "projector", 1 << 50)]
    monkeypatch.setattr("app.engine.process.native.weights.projector_parts", lambda *_: parts)
    weights = load(path)
    assert weights.projector is None
    assert weights.loaded.projector is not None
    assert "too little memory for it beside the model" in weights.loaded.projector.why
    assert weights.loaded.projector.why in weights.loaded.notes[-1]
    assert not any(part.what == "projector" for part in weights.loaded.estimate)


def _cut(path: Path) -> None:
    small_projector(path, "mlp")
    path.write_bytes(path.read_bytes()[:-5000])


def _without_tensors(path: Path) -> None:
    small_projector(path, "mlp", block_count=5)


WRONG: list[tuple[str, Callable[[Path], Any], str]] = [
    ("nothing there", lambda path: None, "eyes.gguf"),
    ("no GGUF", lambda path: path.write_bytes(b"PK\3\4" + bytes(4000)), "zip archive"),
    ("weights", lambda path: small_network(path, "grouped"), "not a projector but a llama file"),
    ("cut off", _cut, "incomplete"),
    ("another width", lambda p: small_projector(p, "gemma3", projection_dim=96), "96 numbers"),
    ("another width inside", lambda p: small_projector(p, "mlp", text_width=96), "another model"),
    ("an unknown type", lambda p: small_projector(p, "mlp", name="telepathy"), "doesn't know"),
    ("one that is not supported", lambda p: small_projector(p, "mlp", name="hunyuanvl"), "support"),
    ("tensors that are missing", _without_tensors, "lacks tensors"),
    ("no heads", lambda p: small_projector(p, "mlp", **{"attention.head_count": 0}), "damaged"),
    ("odd heads", lambda p: small_projector(p, "mlp", **{"attention.head_count": 3}), "damaged"),
    ("no patches", lambda p: small_projector(p, "mlp", patch_size=0), "damaged"),
    ("large patches", lambda p: small_projector(p, "mlp", patch_size=64), "damaged"),
    ("a huge picture", lambda p: small_projector(p, "mlp", image_size=2**31 - 1), "damaged"),
    ("no sizes", lambda p: small_projector(p, "mlp", image_size=None), "damaged"),
    (
        "frames that don't go up",
        lambda p: small_projector(p, "ultravox", **{"projector.stack_factor": 8}),
        "joins 8 frames",
    ),
    (
        "no tensors",
        lambda p: write_gguf(p, architecture="clip", tensors={"t": Tensor((1,), [0])}),
        "load",
    ),
]


@pytest.mark.parametrize(("name", "write", "words"), WRONG, ids=[name for name, _, _ in WRONG])
def test_one_that_cannot_be_used_leaves_the_weights(
    name: str, write: Callable[[Path], Any], words: str, load: Load, tmp_path: Path
) -> None:
    path = tmp_path / "eyes.gguf"
    write(path)
    weights = load(path)
    assert weights.projector is None
    offer = weights.loaded.projector
    assert offer is not None
    assert words in offer.why
    assert any(offer.why in note for note in weights.loaded.notes)
    assert weights.loaded.n_layer == 3


HEARD = """
import sys
from app.engine.process.native import projector
from app.engine.process.native.native import NativeLog
from app.engine.process.native.weights import load
from app.engine.protocol.loading_messages import LoadOptions
from app.engine.protocol.media_messages import Media

projector._check_stacking = lambda header: None
text, path, sound = sys.argv[1:]
options, log = LoadOptions(n_ctx=64, n_threads=1), NativeLog()
log.install()
weights = load(
    text, options, log=log, on_progress=lambda *_: None, is_cancelled=lambda: False, projector=path
)
(seen,) = weights.projector.see(Media("s", "audio", open(sound, "rb").read()))
while not weights.projector.passes.step(seen.chunk):
    pass
"""


@pytest.mark.soak
def test_frames_are_joined_where_llama_cpp_can_and_nowhere_else(text: Path, tmp_path: Path) -> None:
    """Whoever is refused would have ended the process, and nobody else would."""
    told, sound = set(), tmp_path / "sound.wav"
    sound.write_bytes(wav(0.1))
    for width, factor in itertools.product((24, 32, 40), (1, 2, 4, 6, 7, 8, 16)):
        path = tmp_path / f"{width} {factor}.gguf"
        more = {"embedding_length": width, "projector.stack_factor": factor}
        small_projector(path, "ultravox", **more)
        command = [sys.executable, "-c", HEARD, str(text), str(path), str(sound)]
        ran = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
        is_sound = ran.returncode == 0
        assert is_sound or "Invalid number of output tokens" in ran.stderr, ran.stderr
        why = ""
        try:
            projecting.checked_header(str(path), 64)
        except Refusal as refused:
            why = refused.sentence
        assert ("can't compute" in why) != is_sound, (width, factor)
        told.add(is_sound)
    assert told == {True, False}


def test_an_engine_without_the_library_says_so(
    load: Load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "llama_cpp.mtmd_cpp", None)
    path = tmp_path / "eyes.gguf"
    small_projector(path, "mlp")
    offer = load(path).loaded.projector
    assert offer is not None
    assert "has no part for pictures" in offer.why


def test_each_format_is_seen_and_each_file_remembered_once(load: Load, tmp_path: Path) -> None:
    path = tmp_path / "eyes.gguf"
    small_projector(path, "mlp")
    weights = load(path)
    projector = weights.projector
    assert projector is not None
    ids = []
    for data in (png(20, 20), jpeg(20, 20), gif(20, 20), gif(20, 20, frames=9), bmp(20, 20)):
        (seen,) = projector.see(Media("p", "image", data))
        assert projector.see(Media("q", "image", data))[0] is seen
        ids.append(tuple(seen.ids))
    assert len(set(ids)) == 5
    small_projector(path, "mlp", seed=1)
    other = load(path).projector
    assert other is not None
    assert tuple(other.see(Media("p", "image", png(20, 20)))[0].ids) != ids[0]
    for kind, data in (
        ("audio", wav(0.1)),
        ("audio", png(4, 4)),
        ("image", b"GIF89a\4\0\4\0\0\0\0"),
    ):
        with pytest.raises(Refusal):
            projector.see(Media("p", kind, data))  # type: ignore[arg-type]


def test_what_was_seen_makes_way_for_what_is_newer(
    load: Load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "eyes.gguf"
    small_projector(path, "mlp")
    projector = load(path).projector
    assert projector is not None
    each = projecting._size(projector.see(Media("p", "image", png(9, 9, 9))))
    monkeypatch.setattr(projecting, "KEPT_BYTES", 3 * each)
    seen = [projector.see(Media("p", "image", png(9, 9, seed)))[0] for seed in range(4)]
    assert len(projector._known) == 3
    assert projector.see(Media("p", "image", png(9, 9, 3)))[0] is seen[3]
    assert projector.see(Media("p", "image", png(9, 9, 0)))[0] is not seen[0]


def test_a_chat_of_many_pictures_holds_few_of_them(
    load: Load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "eyes.gguf"
    small_projector(path, "mlp")
    projector = load(path).projector
    assert projector is not None

    def computed(chunk: object) -> Any:
        assert isinstance(chunk, projecting.Chunk)
        while not projector.passes.step(chunk):
            pass
        return chunk.vectors

    files = [Media(f"p{seed}", "image", png(9, 9, seed)) for seed in range(12)]
    whole = computed(projector.see(files[0])[0].chunk)
    projector._known.clear()
    projector._outlines.clear()
    pixels = projector._least_bytes
    monkeypatch.setattr(projecting, "KEPT_BYTES", 4 * pixels)
    prompt = [projector.see(each)[0] for each in files]
    held = sum(seen.chunk.size_bytes for seen in prompt)  # type: ignore[attr-defined]
    assert 0 < held <= 4 * pixels
    assert np.array_equal(computed(prompt[0].chunk), whole)  # cut anew
    monkeypatch.setattr(projector, "_decoded", None)  # another count decodes none of them
    assert [projector.see(each)[0].ids for each in files] == [seen.ids for seen in prompt]
