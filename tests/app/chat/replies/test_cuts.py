"""Replies with cuts as versions: what each is, that they share a beginning, and that one can be run
again, by the real engine on a small random file."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
from gguf_writer import Shape, tiny_llama

from app.chat import events
from app.chat.replies.again import NO_SEED
from app.chat.replies.cut_versions import CUTS, CutVersion, as_recorded, cuts_of, with_cuts
from app.chat.replies.cuts import NOTHING_CUT
from app.engine.planning.estimate import cut_bytes
from app.engine.protocol.cut_messages import Cut
from app.engine.protocol.messages import Generate
from app.engine.protocol.prompt_messages import IdsPrompt
from models.records import Message, MessageState, Role

HEAD = [Cut("head", 1, 2)]


@pytest.fixture
def room(forked_engines: None, make_room: Any, data_dir: Path, tmp_path: Path) -> Any:
    path = tmp_path / "tiny.gguf"
    tiny_llama(path, shape=Shape(n_layer=2, n_head=4, n_head_kv=2), kind="f32")
    room = make_room(gguf=path, is_real=True)
    for name, value in (
        *(("n_threads", 1), ("temperature", 1.0), ("seed", 3)),
        *(("max_tokens", 12), ("min_tokens", 12)),
    ):
        room.desk.settings.set(name, value)
    return room.start_ready()


def versions(room: Any, source: Message, count: int) -> list[Message]:
    """All that stand beside a reply, once `count` have ended."""

    def ended() -> list[Message] | None:
        if room.desk.replies.is_generating:
            return None
        stored = [m for m in all_stored(room, source) if m.parent_id == source.parent_id]
        done = [m for m in stored if m.state is MessageState.COMPLETE]
        return sorted(done, key=lambda m: m.sibling_index) if len(done) == count else None

    found: list[Message] = room.until(ended, f"{count} versions")
    return found


def all_stored(room: Any, source: Message) -> list[Message]:
    found: dict[str, Message] = {}
    for event in room.events:
        if isinstance(event, events.PathChanged):
            found |= {m.id: m for m in event.messages}
        elif isinstance(event, events.MessageAdded | events.MessageChanged):
            found[event.message.id] = event.message
    return [m for m in found.values() if m.role is Role.ASSISTANT]


@pytest.mark.weights
def test_what_they_take_is_known_before(room: Any) -> None:
    first = room.ask("Hello")  # of at most twelve tokens
    said = room.desk.cuts.takes_bytes(first.id, 24)
    assert said == cut_bytes(room.desk.loader.loaded, 24, 12) > 0
    assert room.desk.cuts.takes_bytes("nobody's", 24) == 0


@pytest.mark.weights
def test_three_versions_from_one_beginning(room: Any) -> None:
    first = room.ask("Hello")
    room.desk.cuts.run(first.id, 4, HEAD, "zero", seed=7)
    _, whole, cut, control = versions(room, first, 4)
    begun = room.of(events.AnswersBegan)[-1].messages
    for messages in (begun, (whole, cut, control)):
        known = [cuts_of(message.settings) for message in messages]
        assert [version and version.role for version in known] == ["whole", "cut", "control"]
    assert known[1] is not None
    assert known[2] is not None
    assert known[1].label == "Without head 2 of layer 1 (zero)"
    assert known[2].parts != HEAD
    assert (known[2].parts[0].kind, known[2].parts[0].layer, known[2].seed) == ("head", 1, 7)
    assert len({version.group for version in known if version is not None}) == 1
    assert {version.of for version in known if version is not None} == {first.id}
    beginning = first.token_ids[:4]
    for message in (whole, cut, control):
        assert message.token_ids[:4] == beginning
        assert len(message.token_ids) == 16
        assert message.seed == first.seed
        assert message.settings["temperature"] == first.settings["temperature"]
    assert len({message.token_ids for message in (whole, cut, control)}) > 1
    assert first.settings.get(CUTS) is None
    # An ordinary reply afterwards knows nothing of it.
    assert room.ask("Go on.").settings.get(CUTS) is None


@pytest.mark.weights
def test_what_was_cut_is_cut_again(room: Any) -> None:
    room.desk.settings.set("repeatable", True)
    first = room.ask("Hello")
    room.desk.cuts.run(first.id, 0, [Cut("layer", 0)], "mean", seed=7)
    _, whole, cut, _ = versions(room, first, 4)
    assert whole.token_ids == first.token_ids  # nothing cut, from the first token on
    assert cut.token_ids != first.token_ids
    room.desk.tree.go_to(cut.id)
    room.until(lambda: room.desk.shelf.is_on_path(cut.id), "the version on screen")
    room.desk.again.run(cut.id)
    repeated = versions(room, first, 5)[-1]
    assert repeated.token_ids == cut.token_ids
    assert repeated.settings[CUTS] == cut.settings[CUTS]
    assert repeated.settings["again"]["first_difference"] is None


@pytest.mark.weights
def test_what_stands_against_it_is_said(room: Any) -> None:
    first = room.ask("Hello")
    n_before = len(room.desk.shelf.path)

    def said(cuts: list[Cut], index: int = 0, message: Message = first) -> str:
        before = len(room.of(events.Noticed))
        room.desk.cuts.run(message.id, index, cuts)
        room.until(lambda: len(room.of(events.Noticed)) > before, "the sentence")
        return str(room.of(events.Noticed)[-1].sentence)

    assert said([]) == NOTHING_CUT
    assert said([Cut("head", 1, 4)]) == "A layer of this model has the heads 0 to 3."
    assert said([Cut("ffn", 2)]) == "This model has the layers 0 to 1."
    assert "Only 12 tokens" in said(HEAD, index=40)
    room.desk.shelf.update(dataclasses.replace(first, seed=None))
    assert said(HEAD) == NO_SEED
    assert len(room.desk.shelf.path) == n_before


# --- what is recorded -----------------------------------------------------------------------------


def test_a_version_comes_back_as_it_was_recorded() -> None:
    version = CutVersion([*HEAD, Cut("ffn", 0)], "zero", "control", "m", 4, "g", 9)
    assert cuts_of({CUTS: as_recorded(version)}) == version


@pytest.mark.parametrize(
    "strange",
    [None, 3, "head", {}, {"parts": [{"kind": "head"}]}, {"parts": [], "mode": "half"}],
)
def test_what_cannot_be_read_is_no_cut(strange: Any) -> None:
    request = Generate(1, IdsPrompt([1]))
    assert cuts_of({CUTS: strange}) is None
    assert with_cuts(request, strange) == request


def test_a_request_says_what_is_cut() -> None:
    request = Generate(1, IdsPrompt([1]))
    cut = with_cuts(request, as_recorded(CutVersion(HEAD, "zero")))
    assert (cut.cuts, cut.cut_mode) == (HEAD, "zero")
    whole = with_cuts(request, as_recorded(CutVersion([], "zero", "whole")))
    assert whole.cuts == []  # in the same context, and nothing is cut
