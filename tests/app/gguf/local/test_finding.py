"""What lies in a folder. Rows D09, D11, D12, E03 and E13 (folders)."""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
from gguf_writer import bpe_vocabulary, tiny_llama
from placed_weights import chosen, hashed, looked_into, names_in, part, put

from app.gguf.local.entries import entries
from app.gguf.local.finding import has_changed, is_weights_name, look_at, scan
from app.gguf.local.ollama_store import ollama_name
from app.gguf.local.places import Origin, Place, PlaceLayout
from app.gguf.local.seen import LookedFile, Scan

AWKWARD = (
    "Ž models 模型 🙂",
    "it's 100 % #1 & “more”",
    "trailing dot.",
    " space before",
    "new\nline",
)


@pytest.fixture(scope="session")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("weights") / "tiny.gguf"
    tiny_llama(path, vocabulary=bpe_vocabulary(["hello"]), metadata={"general.name": "Tiny"})
    return path.read_bytes()


# --- walking ----------------------------------------------------------------------------------


def test_d12_files_at_any_depth_are_found_once_also_in_a_loop(tmp_path: Path) -> None:
    for depth in range(5):
        put(tmp_path.joinpath(*"abcd"[:depth], f"depth{depth}.gguf"))
    (tmp_path / "a" / "b" / "up").symlink_to(tmp_path)
    (tmp_path / "itself").symlink_to("itself")
    (tmp_path / "again").symlink_to(tmp_path / "a")
    (tmp_path / "linked.gguf").symlink_to(tmp_path / "a" / "depth1.gguf")
    found = entries(looked_into(tmp_path))
    assert [weights.name for weights in found] == [f"depth{depth}" for depth in range(5)]
    assert all(weights.can_load and not weights.also_at for weights in found)


def test_d12_two_thousand_files_are_found(tmp_path: Path, whole: bytes) -> None:
    for number in range(2000):
        folder = tmp_path / f"{number % 40:02d}"
        folder.mkdir(exist_ok=True)
        (folder / f"weights-{number:04d}.gguf").write_bytes(b"")
    steps = itertools.count()
    found = scan(chosen(tmp_path), lambda: next(steps) and None)
    assert len({seen.path for seen in found.files}) == 2000
    assert next(steps) > 2000  # it can be broken off at each of them
    assert len(entries(LookedFile(seen) for seen in found.files)) == 2000


def test_a_walk_ends_where_the_pace_raises(tmp_path: Path) -> None:
    for number in range(20):
        put(tmp_path / f"{number}.gguf")
    calls = itertools.count()

    def pace() -> None:
        if next(calls) == 5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        scan(chosen(tmp_path), pace)
    assert next(calls) == 6


_AS_NOBODY = """
import os, sys
from pathlib import Path
from app.gguf.local.finding import look_at, scan
from app.gguf.local.places import Origin, Place

place = Place(Origin.FOLDER, Path(sys.argv[1]), is_chosen=True)
[look_at(seen) for seen in scan(place).files]  # nothing is left to import
if os.geteuid() == 0:
    os.setgid(65534)
    os.setuid(65534)
found = scan(place)
looked = [look_at(seen) for seen in found.files]
print(*found.troubles, *[each.trouble or each.seen.path.name for each in looked], sep="\\n")
"""


def test_e13_what_may_not_be_read_is_named_and_the_rest_goes_on() -> None:
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        folder.chmod(0o755)
        put(folder / "closed" / "a.gguf")
        put(folder / "open" / "b.gguf")
        put(folder / "open" / "c.gguf").chmod(0)
        (folder / "closed").chmod(0)
        done = subprocess.run(
            [sys.executable, "-c", _AS_NOBODY, made],
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
            cwd=Path(__file__).parents[4],
        )
        (folder / "closed").chmod(0o700)
    folder_trouble, readable, closed = done.stdout.splitlines()
    assert folder_trouble.startswith(f"You don't have permission to read “{folder / 'closed'}”.")
    assert "remove the folder" in folder_trouble
    assert readable == "b.gguf"
    assert "can't be read" in closed


def test_e13_every_refusal_of_a_folder_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(tmp_path / "good" / "a.gguf")
    for name in ("closed", "broken"):
        (tmp_path / name).mkdir()
    errors = {"closed": PermissionError(13, "no"), "broken": OSError(5, "Input/output error")}
    list_folder = os.scandir

    def scandir(folder: Path) -> object:
        if folder.name in errors:
            raise errors[folder.name]
        return list_folder(folder)

    monkeypatch.setattr("app.gguf.local.finding.os.scandir", scandir)
    found = scan(chosen(tmp_path))
    assert [seen.path.name for seen in found.files] == ["a.gguf"]
    assert len(found.troubles) == 2
    assert any("have permission to read" in sentence for sentence in found.troubles)
    assert any("Input/output error" in sentence for sentence in found.troubles)


def test_a_chosen_folder_that_is_gone_is_named_another_programs_is_not(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    assert "can't be found" in scan(chosen(gone)).troubles[0]
    assert not scan(Place(Origin.JAN, gone)).troubles
    put(gone / "a.gguf")
    assert has_changed(Scan(chosen(gone)))


def test_d09_d11_awkward_names_are_found_and_read(tmp_path: Path) -> None:
    for name in AWKWARD:
        put(tmp_path / name / f"{name}.gguf")
    deep = tmp_path.joinpath(*["folder with a long name"] * 12)
    put(deep / "deep.gguf")
    assert len(os.fspath(deep)) > 260
    found = entries(looked_into(tmp_path))
    assert {weights.name for weights in found} == {*AWKWARD, "deep"}
    assert all(weights.can_load for weights in found)


@pytest.mark.skipif(sys.platform != "linux", reason="names of files are bytes on Linux only")
def test_a_name_that_is_no_text_is_listed(tmp_path: Path) -> None:
    put(tmp_path / os.fsdecode(b"\xff\xfe.gguf"))
    (found,) = entries(looked_into(tmp_path))
    assert found.name == os.fsdecode(b"\xff\xfe")


def test_pipes_folders_and_foreign_files_are_no_weights(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.gguf")
    (tmp_path / "folder.gguf").mkdir()
    (tmp_path / "._a.gguf").write_bytes(b"of macOS")
    (tmp_path / "readme.txt").write_text("no")
    put(tmp_path / ".Trash-1000" / "deleted.gguf")
    put(tmp_path / "$RECYCLE.BIN" / "deleted.gguf")
    put(tmp_path / "folder.gguf" / "inside.GGUF")
    assert names_in(tmp_path) == ["inside"]


def test_a_link_that_leads_nowhere_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.gguf").symlink_to(tmp_path / "gone.gguf")
    found = scan(chosen(tmp_path))
    assert not found.files
    assert "links to a file that no longer exists" in found.troubles[0]


def test_a_change_is_seen_by_times_and_sizes(tmp_path: Path) -> None:
    first = put(tmp_path / "below" / "a.gguf")
    found = scan(chosen(tmp_path))
    assert not has_changed(found)
    with first.open("ab") as file:
        file.write(b"more")
    assert has_changed(found)
    found = scan(chosen(tmp_path))
    put(tmp_path / "below" / "b.gguf")
    assert has_changed(found)
    found = scan(chosen(tmp_path))
    first.unlink()
    assert has_changed(found)


def test_what_could_not_be_read_and_can_be_now_is_a_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No time of a folder tells of permissions, of a disk behind a link, or of a pulled blob."""
    is_closed, list_folder = True, os.scandir
    put(tmp_path / "folder" / "closed" / "a.gguf")

    def closed(path: Any) -> Any:
        if is_closed and Path(path).name == "closed":
            raise PermissionError(13, "no")
        return list_folder(path)

    monkeypatch.setattr(os, "scandir", closed)
    folder = scan(chosen(tmp_path / "folder"))
    away = tmp_path / "disk" / "b.gguf"
    (tmp_path / "links").mkdir()
    (tmp_path / "links" / "b.gguf").symlink_to(away)
    links = scan(chosen(tmp_path / "links"))
    parts = [put(tmp_path / "parts" / part(number, 2)) for number in (1, 2)]
    parts[1].unlink()
    single = scan(Place(Origin.OPENED, parts[0]))
    jan = tmp_path / "jan"
    jan.mkdir()
    (jan / "model.yml").write_text(f"model_path: {away}\n")
    imported = scan(Place(Origin.JAN, jan))
    digest = "0" * 64
    ollama = tmp_path / "ollama"
    ollama_model(ollama, digest, "registry.ollama.ai", "library", "tiny", "latest")
    pulled = scan(Place(Origin.OLLAMA, ollama, PlaceLayout.OLLAMA))
    scans = (folder, links, single, imported, pulled)
    assert [has_changed(each) for each in scans] == [False] * 5
    is_closed = False
    put(away)
    put(parts[1])
    put(ollama / "blobs" / f"sha256-{digest}")
    assert [has_changed(each) for each in scans] == [True] * 5


# --- what is not whole ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    [
        "a.gguf.part",
        "a.gguf.incomplete",
        "a.gguf.crdownload",
        "a.gguf.downloadInProgress",
        "a.gguf.download",
        "a.gguf.aria2",
        "Unconfirmed 1234.crdownload",
        "incomplete-a.gguf",
        "downloading_a.gguf",
        "sha256-00-partial",
    ],
)
def test_e03_downloads_that_have_not_ended_are_not_listed(name: str, tmp_path: Path) -> None:
    put(tmp_path / name)
    assert names_in(tmp_path) == []
    assert not is_weights_name(name)


@pytest.mark.parametrize("ending", [".part", ".crdownload", ".aria2", ".PART"])
def test_e03_a_file_beside_its_own_download_is_not_whole(ending: str, tmp_path: Path) -> None:
    put(tmp_path / "a.gguf")
    (tmp_path / f"a.gguf{ending}").write_bytes(b"half")
    (found,) = entries(looked_into(tmp_path))
    assert not found.can_load
    assert "still being downloaded" in found.trouble


def test_e03_a_cut_file_says_so(tmp_path: Path, whole: bytes) -> None:
    (tmp_path / "cut.gguf").write_bytes(whole[: len(whole) // 2])
    (found,) = entries(looked_into(tmp_path))
    assert not found.can_load
    assert f"{len(whole) // 2:,} of {len(whole):,} bytes" in found.trouble


# --- stores of other programs -----------------------------------------------------------------


def hugging_face_blob(hub: Path, repo: str, name: str, title: str, revision: str = "rev1") -> Path:
    folder = hub / f"models--{repo.replace('/', '--')}"
    blob = put(folder / "blobs" / "made", title)
    digest = hashlib.sha256(blob.read_bytes()).hexdigest()
    blob = blob.rename(blob.with_name(digest))
    link = folder / "snapshots" / revision / name
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(Path("../../blobs") / digest)
    return link


def test_hugging_faces_cache_is_used_in_place_and_its_blob_names_are_hints(tmp_path: Path) -> None:
    link = hugging_face_blob(tmp_path / "hub", "a/b-GGUF", "b-Q4_0.gguf", "same")
    newer = tmp_path / "hub/models--a--b-GGUF/snapshots/rev2/b-Q4_0.gguf"
    newer.parent.mkdir()
    newer.symlink_to(link.resolve())
    (link.resolve().parent / f"{'0' * 64}.incomplete").write_bytes(b"GGUF")
    copy = put(tmp_path / "mine" / "copy.gguf", "same")
    looked = looked_into(Place(Origin.HUGGING_FACE, tmp_path / "hub"), tmp_path / "mine")
    mine, cached = sorted(entries(looked), key=lambda weights: str(weights.path))[::-1]
    assert cached.path == link
    assert cached.name == "b-Q4_0"
    assert cached.sha256 == link.resolve().name
    assert not cached.is_computed
    assert mine.path == copy
    # The other file's hash is computed, the blob's is still only claimed: one entry all the same.
    half_known = [e if e.seen.named_sha256 else hashed([e])[0] for e in looked]
    (found,) = entries(half_known)
    assert (found.path, found.also_at) == (link, (copy,))
    assert not found.is_computed
    (found,) = entries(hashed(looked))
    assert found.is_computed


def test_a_blob_that_is_not_what_its_name_says_is_damaged(tmp_path: Path) -> None:
    link = hugging_face_blob(tmp_path, "a/b", "b.gguf", "same")
    data = bytearray(link.read_bytes())
    data[-1] ^= 1
    link.resolve().write_bytes(bytes(data))
    (found,) = entries(hashed(looked_into(Place(Origin.HUGGING_FACE, tmp_path))))
    assert not found.can_load
    assert "doesn't match the checksum in its name" in found.trouble


def ollama_model(models: Path, digest: str, *parts: str, kind: str = "model") -> None:
    manifest = models.joinpath("manifests", *parts)
    manifest.parent.mkdir(parents=True, exist_ok=True)
    layer = {"mediaType": f"application/vnd.ollama.image.{kind}", "digest": f"sha256:{digest}"}
    other = {"mediaType": "application/vnd.ollama.image.license", "digest": "sha256:../../x"}
    manifest.write_text(json.dumps({"schemaVersion": 2, "layers": [other, layer]}))


def ollama_blob(models: Path, title: str) -> Path:
    made = put(models / "blobs" / "made", title)
    return made.rename(made.with_name(f"sha256-{hashlib.sha256(made.read_bytes()).hexdigest()}"))


def test_ollamas_blobs_are_used_in_place_under_the_names_of_the_manifests(tmp_path: Path) -> None:
    blob = ollama_blob(tmp_path, "llama")
    digest = blob.name.removeprefix("sha256-")
    library = ("registry.ollama.ai", "library", "llama3.2")
    ollama_model(tmp_path, digest, *library, "3b")
    ollama_model(tmp_path, digest, *library, "latest")
    ollama_model(tmp_path, "0" * 64, "registry.ollama.ai", "someone", "gone", "q4")
    (tmp_path / "blobs" / f"sha256-{'1' * 64}-partial").write_bytes(b"GGUF")
    place = Place(Origin.OLLAMA, tmp_path, PlaceLayout.OLLAMA)
    found = scan(place)
    (weights,) = entries([look_at(seen) for seen in found.files])
    assert (weights.path, weights.name) == (blob, "llama3.2:3b, llama3.2:latest")
    assert (weights.sha256, weights.is_computed) == (digest, False)
    assert weights.can_load
    assert found.troubles == [
        "“someone/gone:q4” from Ollama is incomplete: the model file is missing. Pull it again."
    ]
    assert not has_changed(found)
    ollama_model(tmp_path, digest, "hf.co", "x", "y", "z")
    assert has_changed(found)


def test_a_store_of_ollama_is_known_as_such_in_any_folder(tmp_path: Path) -> None:
    """The service may have been told to keep it anywhere, where nobody else is told."""
    store = tmp_path / "disk" / "ollama"
    digest = ollama_blob(store, "llama").name.removeprefix("sha256-")
    ollama_model(store, digest, "registry.ollama.ai", "library", "tiny", "latest")
    put(tmp_path / "disk" / "a.gguf")
    found = scan(chosen(tmp_path))
    looked = [look_at(seen) for seen in found.files]
    assert [(e.name, e.origin) for e in entries(looked)] == [
        ("a", "Folder"),
        ("tiny:latest", "Ollama"),
    ]
    known = looked_into(Place(Origin.OLLAMA, store, PlaceLayout.OLLAMA))
    assert len(entries([*looked, *known])) == 2
    assert not has_changed(found)
    ollama_model(store, digest, "registry.ollama.ai", "library", "tiny", "3b")
    assert has_changed(found)


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"layers": 3}', '{"layers": [3, {}]}', "[" * 100_000]
)
def test_a_manifest_that_makes_no_sense_is_passed_over(text: str, tmp_path: Path) -> None:
    manifest = tmp_path / "manifests" / "a" / "b"
    manifest.parent.mkdir(parents=True)
    manifest.write_text(text)
    found = scan(Place(Origin.OLLAMA, tmp_path, PlaceLayout.OLLAMA))
    assert (found.files, found.troubles) == ([], [])


def test_a_manifest_never_leads_out_of_the_blobs(tmp_path: Path) -> None:
    put(tmp_path / "secret.gguf")
    (tmp_path / "blobs" / "sha256-").mkdir(parents=True)
    ollama_model(tmp_path, "/../../secret.gguf", "a", "b", "c", "d")
    found = scan(Place(Origin.OLLAMA, tmp_path, PlaceLayout.OLLAMA))
    assert (found.files, found.troubles) == ([], [])


def test_ollamas_names() -> None:
    assert ollama_name(("registry.ollama.ai", "someone", "model", "q8")) == "someone/model:q8"
    assert ollama_name(("example.com", "library", "model", "q8")) == "example.com/library/model:q8"


def test_jans_folders_name_what_is_called_model(tmp_path: Path) -> None:
    put(tmp_path / "menlo" / "lucy-Q4_K_M" / "model.gguf")
    assert names_in(tmp_path) == ["lucy-Q4_K_M"]


def test_a_link_to_what_is_no_disk_is_not_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(tmp_path / "proc" / "a.gguf")
    put(tmp_path / "mine" / "b.gguf")
    (tmp_path / "mine" / "link").symlink_to(tmp_path / "proc")
    monkeypatch.setattr("app.gguf.local.finding._NOT_REAL", (tmp_path / "proc",))
    assert names_in(tmp_path / "mine") == ["b"]


def test_what_another_program_keeps_closed_is_said_in_other_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_path: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "stat", refuse)
    (sentence,) = scan(Place(Origin.OLLAMA, tmp_path, PlaceLayout.OLLAMA)).troubles
    assert "exclude models from other apps" in sentence
    assert not scan(Place(Origin.OPENED, tmp_path / "a.gguf")).troubles


def test_what_jan_imported_without_copying_is_found_where_it_lies(tmp_path: Path) -> None:
    here, elsewhere = tmp_path / "jan", put(tmp_path / "a b" / "Ž mine.gguf")
    put(here / "lucy" / "model.gguf")
    for name, line in {
        "imported": f"name: mine\nmodel_path: '{elsewhere}'\nsize_bytes: 3\n",
        "lucy": "model_path: llamacpp/models/lucy/model.gguf\n",
        "gone": f"model_path: {tmp_path}/gone.gguf\n",
        "odd": "model_path:\n\0",
    }.items():
        (here / name).mkdir(exist_ok=True)
        (here / name / "model.yml").write_text(line)
    found = entries(looked_into(Place(Origin.JAN, here)))
    assert {(weights.name, weights.origin) for weights in found} == {
        ("lucy", Origin.JAN),
        ("Ž mine", Origin.JAN),
    }
    assert len(looked_into(here)) == 1  # in a folder of one's own it is only a text
