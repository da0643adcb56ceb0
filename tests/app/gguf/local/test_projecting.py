"""Which projector belongs to which weights, by the disk and by the library's list."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Callable
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from each import each
from made_projectors import PLAIN, put_projector, put_weights
from placed_weights import looked_into

from app.engine.planning.projector_plan import projector_sizes
from app.gguf.facts import facts_of
from app.gguf.header import Header, TensorInfo, read_header
from app.gguf.local import projecting
from app.gguf.local.entries import entries
from app.gguf.local.places import Origin, Place, PlaceLayout
from app.gguf.local.projecting import Pairing, all_projectors, find_projectors
from app.gguf.projector import MAX_PATCHES


def both(top: Path, weights: Path, *places: Place) -> list[Path]:
    """What is found beside weights, best first: the disk and the library say the same."""
    found = entries(looked_into(*(places or (top,))))
    (entry,) = [each for each in found if weights in each.all_paths]
    listed = [each.path for each in Pairing(found).of(entry)]
    assert listed == [each.path for each in find_projectors(weights)]
    return listed


def test_what_a_header_says(tmp_path: Path) -> None:
    seen = facts_of(read_header(put_projector(tmp_path / "mmproj-F16.gguf", 96)))
    assert (seen.kind, seen.quantisation) == ("projector", "F16")
    assert seen.projector is not None
    assert (seen.projector.kind, seen.projector.widths) == ("gemma3", (96,))
    assert (seen.projector.sees, seen.projector.hears) == (True, False)
    assert seen.projector.vision.n_patches == 4
    heard = facts_of(read_header(put_projector(tmp_path / "a.gguf", sees=False, hears=True)))
    assert heard.projector is not None
    assert (heard.projector.sees, heard.projector.hears) == (False, True)
    old = facts_of(read_header(put_projector(tmp_path / "old.gguf", 80, is_old=True))).projector
    assert old is not None
    assert old.fits(80)
    assert not old.fits(79)
    damaged = {
        "clip.vision.patch_size": 1,
        "clip.vision.image_size": 2**19,
        "clip.projector_type": 3,
    }
    odd = facts_of(read_header(put_projector(tmp_path / "odd.gguf", **damaged))).projector
    assert odd is not None
    assert (odd.kind, odd.vision.n_patches) == ("", MAX_PATCHES)
    weights = facts_of(read_header(put_weights(tmp_path / "w.gguf")))
    assert (weights.projector, weights.takes_pictures) == (None, True)


def lm_studio(top: Path) -> tuple[Path, list[Path]]:
    folder = top / "ana" / "tiny-VL-GGUF"
    weights = put_weights(folder / "tiny-VL-Q4_K_M.gguf")
    put_projector(folder / "mmproj-tiny-VL-F32.gguf", kind="f32")
    f16 = put_projector(folder / "mmproj-tiny-VL-F16.gguf", kind="f16", name="tiny")
    return weights, [f16, folder / "mmproj-tiny-VL-F32.gguf"]


def several_models(top: Path) -> tuple[Path, list[Path]]:
    """One flat folder: by name, and a name that says another model is no match."""
    weights = put_weights(top / "Gemma-3-4B-it-Q4_0.gguf")
    put_weights(top / "other-7B-Q4_0.gguf")
    put_projector(top / "mmproj-other-7B-f16.gguf")
    put_projector(top / "mmproj-gemma-3-12b-it-f16.gguf", 128)
    return weights, [put_projector(top / "mmproj-gemma-3-4b-it-f16.gguf")]


def plain_for_those_that_see(top: Path) -> tuple[Path, list[Path]]:
    put_weights(top / "texts-7B-Q4_0.gguf", template=PLAIN)
    weights = put_weights(top / "pictures-7B-Q4_0.gguf")
    return weights, [put_projector(top / "mmproj-F16.gguf")]


def not_for_those_that_do_not(top: Path) -> tuple[Path, list[Path]]:
    weights = put_weights(top / "texts-7B-Q4_0.gguf", template=PLAIN)
    put_weights(top / "pictures-7B-Q4_0.gguf")
    put_projector(top / "mmproj-F16.gguf")
    return weights, []


def alone(top: Path) -> tuple[Path, list[Path]]:
    """As LLaVA's: the template knows no pictures, and no name says anything."""
    put_weights(top / "llava" / "ggml-model-q4_k.gguf", template=PLAIN)
    weights = put_weights(top / "llava" / "ggml-model-q5_k.gguf", template=PLAIN)
    return weights, [put_projector(top / "llava" / "mmproj-model-f16.gguf", is_old=True)]


def other_size(top: Path) -> tuple[Path, list[Path]]:
    put_projector(top / "mmproj-F16.gguf", 128)
    return put_weights(top / "tiny-Q4_0.gguf"), []


def llama_cache(top: Path) -> tuple[Path, list[Path]]:
    put_weights(top / "org_b-2b-it-GGUF_b-2b-it-Q4_K_M.gguf")
    put_projector(top / "org_b-2b-it-GGUF_mmproj-model-f16.gguf")
    weights = put_weights(top / "org_a-3-4b-it-GGUF_a-3-4b-it-Q4_K_M.gguf")
    return weights, [put_projector(top / "org_a-3-4b-it-GGUF_mmproj-model-f16.gguf")]


def hugging_face(top: Path) -> tuple[Path, list[Path]]:
    """Weights in a folder of one revision, the projector above them, or in another one."""
    repository = top / "models--ana--tiny-GGUF"
    blobs, first = repository / "blobs", repository / "snapshots" / "a"
    put_weights(blobs / "one.gguf").rename(blobs / ("1" * 64))
    put_projector(blobs / "two.gguf").rename(blobs / ("2" * 64))
    (first / "Q4_0").mkdir(parents=True)
    (repository / "snapshots" / "b").mkdir()
    weights, seeing = first / "Q4_0" / "tiny-Q4_0.gguf", first / "mmproj-F16.gguf"
    weights.symlink_to(blobs / ("1" * 64))
    seeing.symlink_to(blobs / ("2" * 64))
    return weights, [seeing]


def folder_below(top: Path) -> tuple[Path, list[Path]]:
    weights = put_weights(top / "tiny-VL-Q4_0.gguf")
    return weights, [put_projector(top / "mmproj" / "mmproj-tiny-VL-F16.gguf")]


def with_another_model(top: Path) -> tuple[Path, list[Path]]:
    put_weights(top / "medical-4b" / "medical-4b-Q4_0.gguf")
    put_projector(top / "medical-4b" / "mmproj-F16.gguf", name="Medical 4b")
    return put_weights(top / "gemma-3-4b-Q4_0.gguf"), []


def a_sister(top: Path) -> tuple[Path, list[Path]]:
    """The same embedding, and one letter, or number, is another."""
    weights = put_weights(top / "MiniCPM-V-2_6-Q4_K_M.gguf")
    put_weights(top / "MiniCPM-o-2_6-Q4_K_M.gguf")
    for name in ("MiniCPM-o-2_6", "openbmb_MiniCPM-V-2_5", "openbmb_MiniCPM-V-2_6-70B"):
        put_projector(top / f"mmproj-{name}-f16.gguf")
    return weights, []


def with_points(top: Path) -> tuple[Path, list[Path]]:
    weights = put_weights(top / "MiniCPM-V-2.6.i1-Q4_K_M.gguf")
    put_weights(top / "qwen2-vl-7b.Q8_0.gguf")
    return weights, [put_projector(top / "MiniCPM-V-2_6.mmproj-Q8_0.gguf")]


def in_parts(top: Path) -> tuple[Path, list[Path]]:
    put_projector(top / "mmproj-F16-00001-of-00002.gguf")
    put_projector(top / "mmproj-F16-00002-of-00002.gguf")
    return put_weights(top / "tiny-VL-Q4_0.gguf"), []


def by_a_link(top: Path) -> tuple[Path, list[Path]]:
    """What lies beside the file, wherever its link does."""
    real = put_weights(top / "store" / "x" / "tiny-VL-Q4_0.gguf")
    put_weights(top / "store" / "x" / "other-70B-Q4_0.gguf")
    put_projector(top / "store" / "x" / "mmproj-other-70B.gguf")
    (top / "mine").mkdir()
    (top / "mine" / "my.gguf").symlink_to(real)
    return top / "mine" / "my.gguf", [put_projector(top / "store" / "x" / "mmproj-tiny-VL.gguf")]


def not_utf8(top: Path) -> tuple[Path, list[Path]]:
    plain = put_projector(top / "mmproj.gguf")
    try:
        plain.rename(top / "mmproj-\udcff.gguf")
    except OSError:  # such names can't be on this disk
        plain.unlink()
    return put_weights(top / "tiny-VL-Q4_0.gguf"), []


def elsewhere(top: Path) -> tuple[Path, list[Path]]:
    put_projector(top / "x" / "y" / "mmproj-tiny-VL-F16.gguf")
    return put_weights(top / "z" / "tiny-VL-Q4_0.gguf"), []


def test_odd_headers_do_no_harm() -> None:
    """Whatever a header claims: no error, and a reserve that a machine could have."""
    source = random.Random(20)
    odd = (True, 0, 1, -1, 14, 2560, 2**19, 2**63, -(2**62), 3.5, "x", "\x1b[0m" * 9, [1], "mmproj")
    names = ("projection_dim", "image_size", "patch_size", "embedding_length", "projector_type")
    keys = [f"clip.{at}.{name}" for at in ("vision", "audio") for name in names]
    keys += ["clip.vision.feed_forward_length", "clip.has_audio_encoder", "general.type"]
    for _ in range(300):
        told = {key: source.choice(odd) for key in keys if source.random() < 0.7}
        shape = tuple(source.choice((0, 1, -3, 64, 2**40)) for _ in range(source.randint(0, 3)))
        tensors = (TensorInfo("mm.2.weight", shape, "F16", 0, 2**40),)
        metadata: dict[str, Any] = {"general.architecture": "clip", **told}
        header = Header(Path("x.gguf"), 9, 3, metadata, {}, tensors, 0, 9)
        facts, sizes = facts_of(header).projector, projector_sizes(header)
        assert facts is not None
        assert sizes is not None
        assert 0 <= sizes.picture_bytes < 2**37
        assert isinstance(facts.fits(64), bool)


@each(
    "make",
    [
        lm_studio,
        several_models,
        plain_for_those_that_see,
        not_for_those_that_do_not,
        alone,
        other_size,
        llama_cache,
        hugging_face,
        folder_below,
        with_another_model,
        a_sister,
        with_points,
        in_parts,
        by_a_link,
        not_utf8,
        elsewhere,
    ],
)
def test_the_layouts_of_other_programs(
    make: Callable[[Path], tuple[Path, list[Path]]], tmp_path: Path
) -> None:
    top = tmp_path / make.__name__
    weights, expected = make(top)
    assert both(top, weights) == expected


def test_in_ollamas_store_the_manifest_says_it(tmp_path: Path) -> None:
    blobs = tmp_path / "blobs"

    def blob(path: Path) -> str:
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        path.rename(blobs / f"sha256-{digest}")
        return digest

    mine = blob(put_weights(blobs / "w.gguf", name="a", template=PLAIN))
    other = blob(put_weights(blobs / "o.gguf", name="b"))
    seeing = blob(put_projector(blobs / "p.gguf"))
    layers = {"llava": (mine, seeing), "blind": (other,)}
    for name, digests in layers.items():
        manifest = tmp_path / "manifests" / "registry.ollama.ai" / "library" / name / "7b"
        manifest.parent.mkdir(parents=True)
        kinds = ("model", "projector")
        told = [
            {"mediaType": f"application/vnd.ollama.image.{kind}", "digest": f"sha256:{digest}"}
            for kind, digest in zip(kinds, digests, strict=False)
        ]
        manifest.write_text(json.dumps({"layers": told}))
    place = Place(Origin.OLLAMA, tmp_path, PlaceLayout.OLLAMA)
    assert both(tmp_path, blobs / f"sha256-{mine}", place) == [blobs / f"sha256-{seeing}"]
    assert both(tmp_path, blobs / f"sha256-{other}", place) == []


def test_jan_says_what_it_imported_together(tmp_path: Path) -> None:
    weights = put_weights(tmp_path / "w" / "tiny-VL.gguf")
    seeing = put_projector(tmp_path / "p" / "q" / "mmproj.gguf")
    told = tmp_path / "jan" / "tiny" / "model.yml"
    told.parent.mkdir(parents=True)
    told.write_text(f"model_path: {weights}\nmmproj_path: {seeing}\n")
    found = entries(looked_into(Place(Origin.JAN, tmp_path / "jan")))
    (entry,) = [each for each in found if each.path == weights]
    assert [each.path for each in Pairing(found).of(entry)] == [seeing]


def test_beside_a_file_that_was_opened_alone(tmp_path: Path) -> None:
    weights = put_weights(tmp_path / "tiny-VL-Q4_0.gguf")
    put_weights(tmp_path / "other-Q4_0.gguf")
    seeing = put_projector(tmp_path / "mmproj-tiny-VL.gguf")
    place = Place(Origin.OPENED, weights)
    assert both(tmp_path, weights, place) == [seeing]
    assert len(entries(looked_into(place))) == 2  # and nothing else of the folder


def test_all_that_could_be_chosen(tmp_path: Path) -> None:
    put_projector(tmp_path / "b" / "one-mmproj.gguf")
    put_projector(tmp_path / "a" / "two-mmproj.gguf", sees=True, hears=True)
    put_projector(tmp_path / "wide-mmproj.gguf", 128)
    found = all_projectors(64, entries(looked_into(tmp_path)))
    assert [(p.path.name, p.senses) for p in found] == [
        ("one-mmproj.gguf", "sees pictures"),
        ("two-mmproj.gguf", "sees pictures and hears"),
    ]


def test_a_folder_that_hangs_is_left_to_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a network drive does: what lies beside the file was found before."""
    weights = put_weights(tmp_path / "m" / "tiny.gguf")
    seeing = put_projector(tmp_path / "m" / "mmproj.gguf")
    goes_on = Event()
    monkeypatch.setattr(projecting, "_folders", lambda folder: [goes_on.wait() and folder])
    monkeypatch.setattr(projecting, "LOOK_S", 0.05)
    try:
        assert [each.path for each in find_projectors(weights)] == [seeing]
    finally:
        goes_on.set()


def test_a_file_that_is_not_there_has_none(tmp_path: Path) -> None:
    assert find_projectors(tmp_path / "gone.gguf") == ()
    put_projector(tmp_path / "mmproj.gguf").write_bytes(b"GGUF")
    assert find_projectors(put_weights(tmp_path / "tiny.gguf")) == ()
