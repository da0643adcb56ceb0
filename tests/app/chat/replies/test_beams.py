"""A search in the open chat, and a text of it as a reply, by the real engine on a small file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from gguf_writer import Shape, tiny_llama

from app.chat import events
from app.chat.inspection.questions import NO_WEIGHTS
from app.chat.replies.again import FROM_BEAMS
from app.chat.replies.beam_versions import BEAMS, BeamVersion, as_recorded, beams_of
from app.chat.replies.beams import (
    CHANGED,
    MOVED_ON,
    NO_TEXT_YET,
    NOT_HERE,
    NOTHING_YET,
    STOPPED,
    BeamOptions,
    Origin,
)
from app.chat.replies.branch_at import NO_IDS
from app.engine.protocol.beam_messages import STOPS_NOTHING
from app.engine.protocol.pieces import unpack
from models.records import Message

OPTIONS = BeamOptions(3, 5, 0.5)


@pytest.fixture
def room(forked_engines: None, make_room: Any, data_dir: Path, tmp_path: Path) -> Any:
    path = tmp_path / "tiny.gguf"
    tiny_llama(path, shape=Shape(n_layer=2, n_head=4, n_head_kv=2), kind="f32")
    room = make_room(gguf=path, is_real=True)
    for name, value in (
        *(("n_threads", 1), ("temperature", 1.0), ("seed", 3)),
        *(("max_tokens", 8), ("min_tokens", 8)),
    ):
        room.desk.settings.set(name, value)
    return room.start_ready()


def search(room: Any, origin: Origin | None, options: BeamOptions = OPTIONS) -> Any:
    assert origin is not None
    room.desk.beams.search(origin, options)
    room.until(lambda: not room.desk.beams.is_running, "the end of the search")
    assert room.desk.beams.state == "found", room.desk.beams.sentence
    return room.desk.beams.tree


def used(room: Any, number: int) -> Message:
    before = room.last
    room.desk.beams.use(number)
    taken: Message = room.until(
        lambda: (r := room.ended_reply()) and r is not before and r.state == "complete" and r,
        "the version",
    )
    assert taken.error is None
    return taken


def notices(room: Any) -> list[str]:
    return [event.sentence for event in room.of(events.Noticed)]


@pytest.mark.weights
def test_any_text_of_a_search_at_the_last_question_becomes_a_version(room: Any) -> None:
    first = room.ask("Hello")
    tree = search(room, room.desk.beams.origin_here())
    for rank, leaf in ((1, tree.leaves[0]), (len(tree.leaves), tree.leaves[-1])):
        taken = used(room, leaf)
        assert list(taken.token_ids) == [i for i in tree.ids(leaf) if i not in _ends(room)]
        assert taken.parent_id == first.parent_id
        version = beams_of(taken.settings)
        assert version is not None
        node = tree.grown[leaf].node
        assert (version.rank, version.n_found) == (rank, len(tree.leaves))
        assert (version.total, version.score) == (node.total, node.score)
        assert (version.width, version.length, version.length_penalty) == (3, 5, 0.5)
        # What is measured as it is written is what the search has added up.
        before = len(room.of(events.TraceRead))
        room.desk.growing.read_trace(taken.id)
        room.until(lambda n=before: len(room.of(events.TraceRead)) > n, "the trace")
        tokens = room.of(events.TraceRead)[-1].tokens
        measured = sum(token.logprob for token in tokens)
        ended = tree.grown[leaf].node.logprob if tree.fate(leaf) == "finished" else 0.0
        assert measured == pytest.approx(node.total - ended, abs=0.01)
        assert all(len(unpack(token.alternative_ids)) > 1 for token in tokens)
    assert first.settings.get(BEAMS) is None
    assert room.ask("Go on.").settings.get(BEAMS) is None


def _ends(room: Any) -> list[int]:
    loaded = room.desk.loader.loaded
    assert loaded is not None
    ids: list[int] = loaded.eog_ids
    return ids


@pytest.mark.weights
def test_a_search_goes_on_from_a_token_of_a_reply_and_of_its_version(room: Any) -> None:
    first = room.ask("Hello")
    early = search(room, room.desk.beams.origin_at(first.id, 2))
    tree = search(room, room.desk.beams.origin_at(first.id, 3))
    leaf = next(n for n in tree.leaves if tree.fate(n) == "cut off")
    taken = used(room, leaf)
    assert list(taken.token_ids) == [*first.token_ids[:3], *tree.ids(leaf)]
    assert taken.sibling_count == 2

    # Of the version: within what it has from the first one, and behind that.
    again = search(room, room.desk.beams.origin_at(taken.id, 2))
    assert [again.ids(n) for n in again.leaves] == [early.ids(n) for n in early.leaves]
    total = again.grown[again.leaves[0]].node.total
    assert total == pytest.approx(early.grown[early.leaves[0]].node.total, abs=0.01)
    deeper = search(room, room.desk.beams.origin_at(taken.id, 5))
    last = used(room, deeper.leaves[0])
    assert list(last.token_ids)[:5] == list(taken.token_ids)[:5]


@pytest.mark.weights
def test_a_rerun_repeats_the_tokens_and_says_what_it_was(room: Any) -> None:
    room.ask("Hello")
    tree = search(room, room.desk.beams.origin_here())
    taken = used(room, tree.leaves[0])
    room.desk.again.run(taken.id)
    again = room.until(
        lambda: (r := room.ended_reply()) and r.id != taken.id and r.state == "complete" and r,
        "the rerun",
    )
    assert again.token_ids == taken.token_ids
    assert beams_of(again.settings) == beams_of(taken.settings)
    assert notices(room)[-1].startswith(FROM_BEAMS)
    assert "identical" in notices(room)[-1]


@pytest.mark.weights
def test_a_text_is_taken_behind_the_prompt_that_was_searched(room: Any) -> None:
    first = room.ask("Hello")
    tree = search(room, room.desk.beams.origin_here())
    room.desk.settings.set("system_prompt", "Say something else.")
    room.desk.settings.set("drafts", "lookup")
    taken = used(room, tree.leaves[0])
    assert taken.settings["system_prompt"] == first.settings["system_prompt"]
    assert "drafts" not in taken.settings
    assert taken.counts.prompt_tokens == tree.found.n_before


@pytest.mark.weights
def test_a_text_goes_on_from_its_caret(room: Any) -> None:
    room.desk.shelf.open_new_text()
    beams = room.desk.beams
    assert beams.why_not() == NO_TEXT_YET
    room.desk.text.save("Once upon a time, there was", 16)
    origin = beams.origin_here()
    assert (origin.caret, origin.before) == (16, "Once upon a time")
    tree = search(room, origin)
    taken = used(room, tree.leaves[0])
    assert list(taken.token_ids) == [i for i in tree.ids(tree.leaves[0]) if i not in _ends(room)]
    said = tree.text(tree.leaves[0]).decode("utf-8", "replace")
    assert room.desk.text.text == f"Once upon a time{taken.content}, there was"
    assert said.startswith(taken.content)
    # Another text of the search is another version of it, and stands in its place.
    other = used(room, tree.leaves[1])
    assert room.desk.text.text == f"Once upon a time{other.content}, there was"
    assert (other.parent_id, other.sibling_count) == (taken.parent_id, 2)
    # One of a later search stands where that began.
    room.desk.text.save(room.desk.text.text, 16)
    tree = search(room, beams.origin_here())
    third = used(room, tree.leaves[0])
    assert room.desk.text.text == f"Once upon a time{third.content}{other.content}, there was"
    room.desk.text.save("Twice upon a time", 16)
    beams.use(tree.leaves[-1])
    assert notices(room)[-1] == CHANGED


@pytest.mark.weights
def test_a_temporary_chat_is_searched_as_well(room: Any) -> None:
    room.desk.temporary.open()
    room.ask("Hello")
    tree = search(room, room.desk.beams.origin_here())
    taken = used(room, tree.leaves[0])
    assert beams_of(taken.settings) is not None
    # It ends with all that was searched in it, also in the middle of a search.
    for length in (5, 200):
        if length == 200:
            room.desk.temporary.open()
            room.ask("Hello")
            room.desk.beams.search(room.desk.beams.origin_here(), BeamOptions(8, length, 0.0))
        room.desk.temporary.end()
        room.pump()
        assert (room.desk.beams.state, room.desk.beams.origin) == ("none", None)
        assert not room.desk.beams.tree.grown


@pytest.mark.weights
def test_a_grammar_binds_the_texts_and_they_can_be_taken_without_it(room: Any) -> None:
    room.ask("Hello")
    room.desk.settings.set("min_tokens", 0)
    room.desk.settings.set("grammar", 'root ::= "a" | "b"')
    tree = search(room, room.desk.beams.origin_here())
    assert {tree.text(leaf) for leaf in tree.leaves} == {b"a", b"b"}
    room.desk.settings.set("grammar", 'root ::= "c"')
    taken = used(room, tree.leaves[0])
    assert taken.content in ("a", "b")
    assert STOPS_NOTHING not in room.desk.beams.sentence
    room.desk.settings.set("stop_strings", ["b"])
    search(room, room.desk.beams.origin_here())
    assert STOPS_NOTHING in room.desk.beams.sentence


def test_what_stands_against_it_is_said(room: Any) -> None:
    desk = room.desk
    assert desk.beams.why_not() == NOTHING_YET
    assert desk.beams.origin_here() is None
    first = room.ask("Hello")
    assert desk.beams.why_not() == ""
    origin = desk.beams.origin_here()
    desk.beams.search(origin, BeamOptions(9, 5, 0.5))
    assert (desk.beams.state, "between 1 and 8" in desk.beams.sentence) == ("failed", True)
    desk.beams.search(desk.beams.origin_at(first.id, 999), OPTIONS)
    room.until(lambda: not desk.beams.is_running, "the end")
    assert (desk.beams.state, desk.beams.sentence) == ("failed", MOVED_ON)
    desk.tree.edit(first.id, "I was edited.")
    edited = room.until(lambda: (m := room.last) and m.id != first.id and m, "the edit")
    desk.beams.search(desk.beams.origin_at(edited.id, 1), OPTIONS)
    room.until(lambda: not desk.beams.is_running, "the end")
    assert desk.beams.state == "failed"
    assert desk.beams.sentence == NO_IDS or "stored" in desk.beams.sentence

    tree = search(room, desk.beams.origin_here())
    desk.shelf.open_new()
    desk.beams.use(tree.leaves[0])
    assert notices(room)[-1] == NOT_HERE
    desk.beams.search(origin, OPTIONS)
    assert (desk.beams.state, desk.beams.sentence) == ("failed", NOT_HERE)


def test_a_search_is_stopped_and_what_it_found_can_be_used(
    forked_children: None, make_room: Any
) -> None:
    script = {
        "replies": [{"text": "Paris is the capital of France and a city."}],
        "inside": {"ms": 40, "chunks": 4},
    }
    room = make_room(script).start_ready()
    room.ask("Where?")
    beams = room.desk.beams
    beams.search(beams.origin_here(), BeamOptions(3, 200, 0.0))
    room.until(lambda: beams.tree.step >= 2, "two steps")
    beams.stop()
    assert (beams.state, beams.sentence) == ("stopped", STOPPED)
    steps = beams.tree.step
    taken = used(room, beams.tree.leaves[0])
    assert beams_of(taken.settings) is not None
    assert beams.tree.step == steps
    # A newer search ends an older one, and nothing of that comes into its tree.
    beams.search(beams.origin_here(), BeamOptions(2, 200, 0.0))
    beams.search(beams.origin_here(), BeamOptions(1, 3, 0.0))
    room.until(lambda: not beams.is_running, "the end")
    assert beams.state == "found"
    assert beams.tree.step <= 3


def test_without_a_model_nothing_is_searched(forked_children: None, make_room: Any) -> None:
    room = make_room({"replies": [{"text": "Paris."}]}).start_ready()
    room.ask("Where?")
    origin = room.desk.beams.origin_here()
    room.desk.loader.unload()
    room.until(lambda: room.desk.loader.loaded is None, "unloaded")
    assert room.desk.beams.why_not() == NO_WEIGHTS
    room.desk.beams.search(origin, OPTIONS)
    assert room.desk.beams.state == "failed"
    assert room.desk.beams.sentence == NO_WEIGHTS


@pytest.mark.parametrize(
    "stored",
    [
        None,
        3,
        {},
        {"width": 99, "length": 3},
        {"width": "x"},
        {**as_recorded(BeamVersion(2, 3, 0.5, 1, 2, -1.0, -0.5)), "length": 0},
    ],
)
def test_what_is_no_record_of_a_search_is_none(stored: Any) -> None:
    assert beams_of({BEAMS: stored}) is None
    assert beams_of({}) is None
    version = BeamVersion(2, 3, 0.5, 0, 2, -1.0, -0.5, True)
    assert beams_of({BEAMS: as_recorded(version)}) == version
    assert version.label == "Beam search: the greedy text"
