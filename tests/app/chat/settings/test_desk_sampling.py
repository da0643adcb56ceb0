"""The chain of the open chat through the desk: kept with the chat, and asked of the engine."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from app.chat.events import Noticed, PresetsListed
from app.chat.settings.sampler_links import OFF, neutralised, stages_of_reply, switched, with_stage
from app.chat.surroundings import ALWAYS
from app.engine.protocol.messages import GrammarChecked
from app.engine.protocol.stages import Dist, Temperature, TopK


@pytest.fixture
def room(make_room: Any) -> Any:
    return make_room().start_ready()


def test_the_chain_stays_with_its_chat(room: Any, make_room: Any) -> None:
    links = room.desk.chain.links()
    room.desk.chain.put(switched(with_stage(links, 1, TopK(3)), 2, is_on=False))
    room.ask("Where?")
    wanted = room.desk.chain.links()
    conversation_id = room.desk.shelf.open.id
    room.desk.shelf.open_new()
    assert room.desk.chain.links() == links
    room.close()
    again = make_room().start_ready()
    again.desk.shelf.open_stored(conversation_id)
    again.until(lambda: again.desk.shelf.open.id == conversation_id)
    assert again.desk.chain.links() == wanted
    assert [link.is_on for link in wanted] == [True, True, False, True, True, True]


def test_a_reply_is_drawn_with_the_stages_that_are_on(room: Any) -> None:
    room.desk.chain.put(neutralised(room.desk.chain.links()))
    assert stages_of_reply(room.ask("Where?").settings) == (Dist(),)


def test_resetting_leaves_what_is_no_stage(room: Any) -> None:
    room.desk.levels.change("chat", "seed", 5)
    room.desk.chain.put(neutralised(room.desk.chain.links()))
    assert room.desk.chain.is_own()
    room.desk.chain.reset()
    assert not room.desk.chain.is_own()
    assert room.desk.levels.own("chat") == {"seed": 5}


def test_what_is_taken_out_or_reset_can_be_had_back(room: Any) -> None:
    changed = with_stage(room.desk.chain.links(), 1, TopK(3))
    room.desk.chain.put(switched(changed, 2, is_on=False))
    shown = room.desk.chain.links()
    room.desk.chain.put((*shown[:3], *shown[4:]), "Min-p removed.")
    notice = room.of(Noticed)[-1]
    assert notice.sentence == "Min-p removed."
    room.desk.levels.change("chat", "seed", 5)
    room.desk.shelf.undo(notice.undo)
    assert room.desk.chain.links() == shown
    assert room.desk.levels.own("chat")["seed"] == 5
    room.desk.chain.reset()
    assert not room.desk.chain.is_own()
    room.desk.shelf.undo(room.of(Noticed)[-1].undo)
    assert room.desk.chain.links() == shown


def test_having_it_back_reaches_the_chat_that_it_was_in(room: Any) -> None:
    room.ask("Where?")
    first = room.desk.shelf.open.id
    links = room.desk.chain.links()
    room.desk.chain.put((*links[:1], *links[2:]), "Top-k removed.")
    room.desk.shelf.open_new()
    room.desk.shelf.undo(room.of(Noticed)[-1].undo)
    assert room.desk.chain.links() == links
    room.desk.shelf.open_stored(first)
    room.until(lambda: room.desk.shelf.open.id == first)
    assert room.desk.chain.links() == links


def test_a_chain_that_cannot_be_is_refused_in_words(room: Any) -> None:
    links = room.desk.chain.links()
    too_many = (*(replace(links[1], stage=TopK(k)) for k in range(1, 40)), links[-1])
    assert "at most 32 stages" in room.desk.chain.put(too_many)
    assert room.desk.chain.links() == links


def test_who_may_not_write_is_told(make_room: Any) -> None:
    make_room().start().close()
    room = make_room(read_only=True).start()
    links = room.desk.chain.links()
    room.desk.chain.put(with_stage(links, 4, Temperature(1.5)))
    assert room.of(Noticed)[-1].sentence == "Another window writes."
    assert room.desk.chain.links() == links


def test_a_preset_brings_its_whole_chain_and_can_be_left(room: Any) -> None:
    room.desk.presets.list()
    room.until(lambda: room.of(PresetsListed))
    careful = next(preset for preset in room.desk.presets.all if preset.name == "Careful")
    room.desk.chain.put(neutralised(room.desk.chain.links()))
    room.desk.presets.apply(careful.id)
    assert OFF not in room.desk.levels.own("chat")
    shown = room.desk.chain.links()
    assert all(link.is_on for link in shown)
    assert room.desk.presets.applied() == (careful, True)
    room.desk.presets.leave()
    assert room.desk.presets.applied() == (None, False)
    assert room.desk.chain.links() == shown


def test_a_grammar_is_checked_by_the_engine(room: Any) -> None:
    found: list[GrammarChecked] = []
    room.desk.questions.check_grammar('root ::= "a" b', "", found.append, pytest.fail, still=ALWAYS)
    room.until(lambda: found)
    assert (found[0].line, found[0].column) == (1, 14)


def test_without_weights_nobody_can_check(make_room: Any) -> None:
    room = make_room(gguf=None).start()
    failed: list[str] = []
    room.desk.questions.check_grammar("root ::= x", "", pytest.fail, failed.append, still=ALWAYS)
    assert failed == ["This needs a loaded model. Load one first."]
