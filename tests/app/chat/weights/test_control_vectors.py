"""Control vectors made at the desk: kept as files, listed, renamed, deleted and brought back."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest

from app.chat.events import Noticed, VectorsListed, VectorsWanted
from app.chat.replies.with_without import NO_MESSAGE, NOTHING_ON, WITHOUT_WORDS
from app.chat.weights.control_vectors import ASIDE, NAMES, UNNAMED
from app.engine.process.native.control_vectors import check_vector, read_directions
from app.gguf.header import read_header
from app.gguf.vector_file import KnownVector, read_vector

SCRIPT: dict[str, Any] = {"replies": [{"text": "Fine, thank you."}]}
TOWARDS: Final = ["Be glad.\nHow was it?", "Be happy."]
AWAY: Final = ["Be sad.\nHow was it?", "Be gloomy."]


class Bench:
    def __init__(self, room: Any) -> None:
        self.room = room
        self.vectors = room.desk.vectors
        self.made: list[KnownVector] = []
        self.failed: list[str] = []
        self.steps: list[tuple[int, int]] = []

    def make(self, name: str = "More cheerful", method: str = "mean", **how: Any) -> None:
        groups = (how.pop("towards", TOWARDS), how.pop("away", AWAY))
        self.vectors.make(
            name,
            *groups,
            method,
            self.made.append,
            self.failed.append,
            lambda *step: self.steps.append(step),
            **{"is_chat": True, **how},
        )

    def wait(self) -> KnownVector:
        self.room.until(lambda: self.made or self.failed, "an answer")
        assert not self.failed
        return self.made[-1]


@pytest.fixture
def bench(make_room: Any) -> Bench:
    return Bench(make_room(SCRIPT).start_ready())


def test_one_is_made_and_kept_with_what_it_was_made_of(bench: Bench) -> None:
    bench.make()
    assert bench.vectors.making == "More cheerful"
    known = bench.wait()
    assert bench.vectors.making == ""
    facts = read_vector(Path(known.path))
    assert replace(facts, separation=known.facts.separation) == known.facts
    assert (facts.name, facts.method, facts.is_chat) == ("More cheerful", "mean", True)
    assert (facts.positive, facts.negative) == (tuple(TOWARDS), tuple(AWAY))
    assert facts.weights_hash == "scripted"
    assert facts.separation == pytest.approx([1.0, 0.9, 0.8])
    assert bench.steps[-1] == (4, 4)
    header = read_header(Path(known.path))
    assert [tensor.name for tensor in header.tensors] == [f"direction.{n}" for n in (1, 2, 3)]
    directions = read_directions(header, 4)
    assert directions.shape == (3, 32)
    assert np.isfinite(directions).all()
    assert bench.room.of(VectorsListed)[-1].vectors == (known,)


def test_what_is_made_fits_the_form_that_the_engine_takes(bench: Bench, tmp_path: Path) -> None:
    from gguf_writer import Shape, tiny_llama

    bench.make()
    known = bench.wait()
    tiny_llama(tmp_path / "m.gguf", shape=Shape(n_embd=32, n_layer=4))
    check_vector(read_header(Path(known.path)), read_header(tmp_path / "m.gguf"))


def test_they_are_listed_renamed_deleted_and_brought_back(bench: Bench, make_room: Any) -> None:
    bench.make("First")
    first = bench.wait()
    bench.made.clear()
    bench.make("Second")
    second = bench.wait()
    vectors, content = bench.vectors, Path(first.path).read_bytes()
    vectors.rename(first.path, "  Another\nname ")
    assert vectors.name_of(first.path) == "Another name"
    names = Path(first.path).with_name("names.json")
    bench.room.until(names.is_file, "the names")
    assert Path(first.path).read_bytes() == content, "replies know it by its content"
    vectors.delete(second.path)
    assert [each.path for each in vectors.all] == [first.path]
    bench.room.until(lambda: not Path(second.path).exists(), "moved aside")
    undo = bench.room.of(Noticed)[-1].undo
    bench.room.desk.shelf.undo(undo)
    bench.room.until(lambda: Path(second.path).exists(), "back")
    vectors.delete(second.path)
    bench.room.until(lambda: not Path(second.path).exists(), "moved aside")
    bench.room.close()
    assert not list(Path(second.path).parent.glob(f"{ASIDE}*")), "gone for good"
    again = make_room(SCRIPT).start()
    again.desk.vectors.list()
    again.until(lambda: again.of(VectorsListed), "the list")
    assert [(v.path, v.name) for v in again.desk.vectors.all] == [(first.path, "Another name")]
    again.desk.vectors.export(first.path, target := Path(first.path).parent.parent / "out.gguf")
    again.until(lambda: target.is_file() and target.read_bytes() == content, "a copy")


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ({"name": " "}, UNNAMED),
        ({"away": []}, "at least one example"),
        ({"method": "pca", "away": ["a"]}, "here 2 and 1"),
        ({"towards": ["x" * 20_001]}, "20,000 characters"),
    ],
    ids=str,
)
def test_what_cannot_be_made_is_refused_in_words(
    bench: Bench, how: dict[str, Any], words: str
) -> None:
    bench.make(**how)
    assert len(bench.failed) == 1
    assert words in bench.failed[0]
    assert bench.vectors.making == ""


def test_it_can_be_stopped_and_a_later_one_counts(make_room: Any) -> None:
    bench = Bench(make_room({**SCRIPT, "inside": {"ms": 60_000, "chunks": 2}}).start_ready())
    bench.make()
    bench.vectors.stop()
    assert bench.vectors.making == ""
    bench.room.desk.questions.tokenize("a", bench.made.append, bench.failed.append, still=bool)
    assert not bench.made


def test_names_that_are_no_names_are_left_out(bench: Bench) -> None:
    bench.make()
    known = bench.wait()
    folder = Path(known.path).parent
    (folder / "names.json").write_text('["no", "object"]')
    (folder / "foreign.gguf").write_bytes(b"GGUF and nothing")
    before = len(bench.room.of(VectorsListed))
    bench.vectors.list()
    bench.room.until(lambda: len(bench.room.of(VectorsListed)) > before, "the list")
    assert [each.name for each in bench.vectors.all] == ["More cheerful"]
    bench.vectors.show()
    assert bench.room.of(VectorsWanted)


def test_a_new_name_leaves_those_of_others_alone(bench: Bench) -> None:
    """Also of one that is deleted just now, and comes back."""
    paths = []
    for name in ("First", "Second"):
        bench.made.clear()
        bench.make(name)
        paths.append(bench.wait().path)
    bench.vectors.rename(paths[0], "Serene")
    names = Path(paths[0]).with_name(NAMES)
    bench.room.until(lambda: names.exists() and "Serene" in names.read_text(), "the name")
    bench.vectors.delete(paths[0])
    bench.vectors.rename(paths[1], "Other")
    bench.room.until(lambda: "Other" in names.read_text(), "the other name")
    bench.room.desk.shelf.undo(f"vector {paths[0]}")
    bench.room.until(lambda: Path(paths[0]).exists(), "the file")
    before = len(bench.room.of(VectorsListed))
    bench.vectors.list()
    bench.room.until(lambda: len(bench.room.of(VectorsListed)) > before, "the list")
    assert sorted(each.name for each in bench.vectors.all) == ["Other", "Serene"]


# --- in a reply -----------------------------------------------------------------------------------


def test_a_reply_names_its_adapters_and_is_run_again_with_them(bench: Bench) -> None:
    room, desk = bench.room, bench.room.desk
    bench.make()
    path = bench.wait().path
    desk.levels.change("chat", "control_vectors", [{"path": path, "scale": 1.5, "last": 2}])
    reply = room.ask("How are you?")
    (used,) = reply.settings["control_vectors"]
    assert (used["path"], used["scale"], used["last"]) == (path, 1.5, 2)
    assert len(used["hash"]) == 32
    desk.levels.change("chat", "control_vectors", [])
    desk.again.run(reply.id)
    again = room.until(lambda: (m := room.ended_reply()) and m.id != reply.id and m, "the rerun")
    assert again.settings["control_vectors"] == [used]
    Path(path).unlink()
    desk.again.run(again.id)
    failed = room.until(
        lambda: (m := room.ended_reply()) and m.id not in (reply.id, again.id) and m, "the end"
    )
    assert failed.state == "failed"
    assert f"{path}” no longer exists" in (failed.error or "")


def test_with_and_without_are_two_versions_of_one_seed(bench: Bench) -> None:
    room, desk = bench.room, bench.room.desk
    desk.with_without.ask()
    assert room.of(Noticed)[-1].sentence == NO_MESSAGE
    bench.make()
    path = bench.wait().path
    room.ask("How are you?")
    desk.with_without.ask()
    assert room.of(Noticed)[-1].sentence == NOTHING_ON
    desk.levels.change("chat", "control_vectors", [{"path": path}])
    desk.with_without.ask()
    room.until(lambda: room.ended_reply() and not desk.replies.is_generating, "both")
    found = room.store.siblings(desk.shelf.path[-1].id).result(20)
    mine = {m.settings.get("preset_name"): m for m in found if m.settings.get("preset_name")}
    assert set(mine) == {WITHOUT_WORDS, "More cheerful × 1"}
    without, steered = mine[WITHOUT_WORDS], mine["More cheerful × 1"]
    assert without.seed == steered.seed
    assert "control_vectors" not in without.settings
    assert steered.settings["control_vectors"][0]["path"] == path
