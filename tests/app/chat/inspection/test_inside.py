"""What the network made of a token: asked of the text that was read, in two parts, and kept."""

from __future__ import annotations

from array import array
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from made_prompts import shown

from app.chat.events import TraceRead
from app.chat.inspection import inside as words
from app.chat.inspection.inside import ReadText, Seen
from app.chat.replies.cut_versions import CUTS, CutVersion, as_recorded
from app.chat.surroundings import ALWAYS, Still
from app.engine.protocol.cut_messages import Cut
from app.engine.protocol.frames import Array
from app.engine.protocol.inside_messages import HEAD_SCORES, GraphOffer, LookInside, Missing
from app.engine.protocol.media_messages import MediaSpan
from app.engine.protocol.messages import TokenTrace
from app.engine.protocol.prompt_messages import ShownPart
from app.insight.prompt.parts import tokens_of
from models.records import Message

SCRIPT: dict[str, Any] = {
    "replies": [{"text": "It is Paris."}, {"text": "It is Rome."}],
}
SLOW: dict[str, Any] = {
    "replies": [{"tokens": [{"text": "again ", "ms": 5, "repeat": 4000}]}],
}
QUICK = ("residual", "logits")
ALL = (*QUICK, "lens")


class Looked:
    """Whoever asks: what came, in order."""

    def __init__(self, room: Any) -> None:
        self.room = room
        self.texts: list[ReadText] = []
        self.seen: list[Seen] = []
        self.failed: list[str] = []
        self.progress: list[tuple[int, int]] = []

    def traces(self, message: Message) -> tuple[TokenTrace, ...]:
        traces = self.room.desk.growing.trace_of(message.id)
        if traces is None:
            self.room.desk.growing.read_trace(message.id)
            self.room.until(
                lambda: any(e.message_id == message.id for e in self.room.of(TraceRead)), "trace"
            )
            traces = self.room.of(TraceRead)[-1].tokens
        return tuple(traces)

    def text(self, message: Message) -> ReadText:
        self.room.desk.inside.read(
            message, self.traces(message), self.texts.append, self.failed.append, still=ALWAYS
        )
        self.room.until(lambda: self.texts or self.failed, "the text")
        assert not self.failed, self.failed
        return self.texts[-1]

    def refused(self, message: Message) -> str:
        traces = self.traces(message)
        self.room.desk.inside.read(
            message, traces, self.texts.append, self.failed.append, still=ALWAYS
        )
        self.room.until(lambda: self.texts or self.failed, "an answer")
        assert not self.texts
        return self.failed[-1]

    def look(self, text: ReadText, place: int, want: tuple[str, ...] = ALL) -> Seen:
        self.seen.clear()
        self.ask(text, place, want)
        self.room.until(lambda: self.failed or (self.seen and self.seen[-1].is_whole), "the answer")
        return self.seen[-1]

    def ask(
        self, text: ReadText, place: int, want: tuple[str, ...] = ALL, still: Still = ALWAYS
    ) -> None:
        self.room.desk.inside.look(
            text,
            place,
            want,
            self.seen.append,
            self.failed.append,
            lambda done, total: self.progress.append((done, total)),
            still=still,
        )

    def commands(self) -> list[LookInside]:
        return self.room.commands


@pytest.fixture
def looked(make_room: Any) -> Looked:
    return watched(make_room(SCRIPT).start_ready())


def watched(room: Any) -> Looked:
    """What goes to the engine is noted."""
    engine = room.desk.loader.engine
    ask, room.commands = engine.request, []

    def request(command: Any, listener: Any = None) -> int:
        room.commands += [command] * isinstance(command, LookInside)
        return ask(command, listener)

    engine.request = request
    return Looked(room)


def test_the_text_is_the_prompt_and_what_was_written(looked: Looked) -> None:
    looked.room.ask("Which city?")
    reply = looked.room.ask("And of Italy?")
    text = looked.text(reply)
    spelled = b"".join(text.pieces(0, len(text))).decode()
    assert spelled == (reply.rendered_prompt or "") + "It is Rome."
    assert text.n_prompt == reply.counts.prompt_tokens
    places = [text.place_of(index) for index in range(4)]
    assert [text.piece(place) for place in places] == [b"It", b" is", b" Rome", b"."]
    assert [text.index_of(place) for place in places] == [0, 1, 2, 3]
    assert text.index_of(text.n_prompt - 1) is None
    assert looked.text(reply) is text


def test_what_is_quick_comes_first_and_the_lens_after_it(looked: Looked) -> None:
    text = looked.text(looked.room.ask("Which city?"))
    place = text.place_of(2) - 1
    whole = looked.look(text, place)
    first, second = looked.seen
    assert second is whole
    assert (first.is_whole, set(first.arrays)) == (False, {"residual", "logits"})
    assert set(whole.arrays) > {"residual", "logits", "lens_ids", "lens_target_ranks"}
    assert int(whole.arrays["logits"].argmax()) == whole.target == text.ids[place + 1]
    assert whole.arrays["lens_target_ranks"][-1].tolist() == [0]
    assert [command.token_ids for command in looked.commands()] == [[*text.ids[: place + 1]]] * 2
    assert looked.progress[-1] == (place, place)


def test_what_grows_with_a_long_text_comes_an_array_at_a_time_or_is_too_large_for_any_frame(
    make_room: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded = {"loaded": {"n_head": 4, "n_layer": 4}}
    looked = watched(make_room({**SCRIPT, "load": loaded}).start_ready())
    text = looked.text(looked.room.ask("Which city?"))
    place = text.place_of(2) - 1
    a_number_each = 4 * 4 * 4 * (place + 1)
    monkeypatch.setattr(words, "ROOM_BYTES", 2 * a_number_each - 1)
    whole = looked.look(text, place, ("attention", "value_norms", *ALL))
    asked = [command.want for command in looked.commands()]
    assert asked == [[*QUICK], ["attention"], ["value_norms"], ["lens"]]
    assert {"attention", "lens_ids", *QUICK} < set(whole.arrays)
    monkeypatch.setattr(words, "MAX_FRAME_BYTES", a_number_each + 2**20 - 1)
    whole = looked.look(text, place + 1, ("attention", *QUICK))
    assert looked.commands()[-1].want == [*QUICK]
    assert f"to {place + 2:,} tokens is too large" in whole.missing["attention"]


def test_going_back_asks_nothing_and_what_is_wanted_besides_alone_is_asked_for(
    looked: Looked,
) -> None:
    text = looked.text(looked.room.ask("Which city?"))
    looked.look(text, 3, QUICK)
    looked.look(text, 4, QUICK)
    n_asked = len(looked.commands())
    again = looked.look(text, 3, QUICK)
    assert (again.place, again.is_whole, len(looked.commands())) == (3, True, n_asked)
    more = looked.look(text, 3, (*QUICK, "attention"))
    assert [command.want for command in looked.commands()[n_asked:]] == [["attention"]]
    assert set(more.arrays) == {"residual", "logits", "attention"}


def test_a_token_of_the_prompt_is_looked_at_as_well_and_behind_the_end_nothing_is_known(
    looked: Looked,
) -> None:
    text = looked.text(looked.room.ask("Which city?"))
    assert looked.look(text, 0).target == text.ids[1]
    last = looked.look(text, len(text) - 1)
    assert (last.target, last.arrays["lens_target_ranks"].shape) == (None, (4, 0))


def test_of_a_branch_the_first_tokens_are_in_the_prompt(looked: Looked) -> None:
    first = looked.room.ask("Which city?")
    assert first.token_ids is not None
    looked.room.desk.branches.at(first.id, 2, first.token_ids[0])
    room = looked.room
    reply = room.until(lambda: (r := room.ended_reply()) and r.id != first.id and r, "the branch")
    text = looked.text(reply)
    traces = looked.traces(reply)
    assert text.n_head == 2
    assert text.n_prompt == reply.counts.prompt_tokens
    for index, token in enumerate(traces):
        assert text.ids[text.place_of(index)] == token.token_id
        assert text.piece(text.place_of(index)) == token.piece


def test_a_newer_question_ends_an_older_one(make_room: Any) -> None:
    looked = watched(make_room({**SCRIPT, "inside": {"ms": 50}}).start_ready())
    text = looked.text(looked.room.ask("Which city?"))
    looked.ask(text, 3)
    looked.ask(text, 4)
    looked.room.until(lambda: looked.seen and looked.seen[-1].is_whole, "the newer answer")
    assert {seen.place for seen in looked.seen} == {4}
    assert looked.failed == []


def test_an_answer_that_nobody_waits_for_any_more_is_dropped(make_room: Any) -> None:
    looked = watched(make_room({**SCRIPT, "inside": {"ms": 50}}).start_ready())
    text = looked.text(looked.room.ask("Which city?"))
    waits = [True]
    looked.ask(text, 3, QUICK, lambda: waits[0])
    waits[0] = False
    looked.room.until(lambda: not looked.room.desk.questions._asked, "its end")
    assert (looked.seen, looked.failed) == ([], [])


def test_after_stop_nobody_is_called(make_room: Any) -> None:
    looked = watched(make_room({**SCRIPT, "inside": {"ms": 60_000}}).start_ready())
    text = looked.text(looked.room.ask("Which city?"))
    looked.ask(text, 3)
    looked.room.desk.inside.stop()
    looked.room.ask("Again?")  # it would wait a minute
    assert (looked.seen, looked.failed) == ([], [])


def test_the_oldest_answers_go_first(looked: Looked, monkeypatch: pytest.MonkeyPatch) -> None:
    text = looked.text(looked.room.ask("Which city?"))
    size = looked.look(text, 0, QUICK).size_bytes
    assert size == sum(np.prod(a.shape) * 4 for a in looked.seen[-1].arrays.values())
    monkeypatch.setattr(words, "KEPT_BYTES", 2 * size)
    for place in (1, 2):
        looked.look(text, place, QUICK)
    n_asked = len(looked.commands())
    looked.look(text, 1, QUICK)
    assert len(looked.commands()) == n_asked
    looked.look(text, 0, QUICK)
    assert len(looked.commands()) == n_asked + 1


def test_nothing_is_kept_of_what_is_unloaded(looked: Looked) -> None:
    room = looked.room
    reply = room.ask("Which city?")
    text = looked.text(reply)
    looked.look(text, 3, QUICK)
    path = room.desk.loader.path
    room.desk.loader.unload()
    room.until(lambda: room.desk.loader.loaded is None, "unloaded")
    room.until(lambda: not room.desk.inside._kept, "nothing is kept")
    room.desk.loader.load(path)
    room.until(lambda: room.desk.loader.state.state == "ready", "loaded again")
    n_asked = len(looked.commands())
    assert looked.look(looked.text(reply), 3, QUICK).is_whole
    assert len(looked.commands()) == n_asked + 1


def test_what_a_network_does_not_offer_is_asked_for_once(make_room: Any) -> None:
    missing = {"lens": "No lens here.", "residual": "No stream here."}
    looked = watched(make_room({**SCRIPT, "inside": {"missing": missing}}).start_ready())
    text = looked.text(looked.room.ask("Which city?"))
    seen = looked.look(text, 3)
    assert (dict(seen.missing), set(seen.arrays)) == (missing, {"logits"})
    n_asked = len(looked.commands())
    assert looked.look(text, 3).is_whole
    assert len(looked.commands()) == n_asked


def test_a_failure_is_told_in_the_engine_s_words(make_room: Any) -> None:
    fail = {"kind": "out_of_memory", "sentence": "No room for that."}
    looked = watched(make_room({**SCRIPT, "inside": {"fail": fail}}).start_ready())
    text = looked.text(looked.room.ask("Which city?"))
    looked.ask(text, 3)
    looked.room.until(lambda: looked.failed, "the failure")
    assert (looked.seen, looked.failed) == ([], ["No room for that."])


def test_after_a_restart_it_is_the_same_text(make_room: Any) -> None:
    looked = watched(make_room(SCRIPT).start_ready())
    before = looked.text(looked.room.ask("Which city?"))
    looked.room.close()
    again = watched(make_room(SCRIPT).start_ready())
    reply = again.room.until(again.room.ended_reply, "the stored reply")
    text = again.text(reply)
    assert text.ids == before.ids
    assert text.pieces(0, len(text)) == before.pieces(0, len(before))
    again.look(text, len(text) - 2)
    assert again.seen[-1].target == text.ids[-1]


def test_a_document_is_looked_into_as_well(looked: Looked) -> None:
    room = looked.room
    room.desk.shelf.open_new_text()
    room.desk.text.save("Once upon a time", 4)
    assert room.desk.text.go_on("Once upon a time", 4)
    reply = room.until(room.ended_reply, "the continuation")
    text = looked.text(reply)
    assert b"".join(text.pieces(0, len(text))) == b"OnceIt is Paris."


# --- what cannot be looked into -----------------------------------------------------------------


def test_a_message_of_the_user_has_nothing_to_look_into(looked: Looked) -> None:
    looked.room.ask("Which city?")
    assert looked.room.desk.inside.refusal(looked.room.desk.shelf.path[0]) == words.NOT_A_REPLY


def test_a_reply_that_grows_is_looked_into_when_it_is_finished(make_room: Any) -> None:
    looked = watched(make_room(SLOW).start_ready())
    looked.room.desk.replies.send("Go on")
    growing = looked.room.until(looked.room.growing, "some text")
    assert looked.refused(growing) == words.GROWING
    looked.room.desk.replies.stop()
    reply = looked.room.until(looked.room.ended_reply, "the end")
    looked.failed.clear()
    assert looked.text(reply).message_id == reply.id


def test_without_the_model_that_wrote_it_nothing_is_asked(looked: Looked) -> None:
    room = looked.room
    reply = room.ask("Which city?")
    looked.text(reply)
    looked.texts.clear()
    room.desk.loader.unload()
    room.until(lambda: room.desk.loader.loaded is None, "unloaded")
    assert looked.refused(reply) == words.NOTHING_LOADED
    assert looked.commands() == []


def test_a_reply_of_another_model_says_which_one(looked: Looked) -> None:
    reply = looked.room.ask("Which city?")
    other = replace(reply, weights_hash="other", weights_name="Llama")
    assert looked.room.desk.inside.refusal(other) == words.OTHER_LOADED.format(name="Llama")


def test_where_the_exact_prompt_is_unknown_it_is_not_guessed(
    looked: Looked, monkeypatch: pytest.MonkeyPatch
) -> None:
    prompts = looked.room.desk.prompts
    read = prompts.read

    def doubt(message_id: str, then: Any, *, still: Any) -> None:
        read(message_id, lambda of: then(replace(of, is_given=False, sentence="Why.")), still=still)

    monkeypatch.setattr(prompts, "read", doubt)
    assert looked.refused(looked.room.ask("Which city?")) == words.UNKNOWN_PROMPT + "Why."


def test_what_the_heads_do_is_measured_once(make_room: Any) -> None:
    room = make_room(SCRIPT).start_ready()
    found: list[words.HeadNames] = []
    room.desk.inside.name_heads(found.append, pytest.fail, still=ALWAYS)
    assert found == []
    room.until(lambda: found, "names")
    assert found[0].scores.shape == (4, 4, len(HEAD_SCORES))
    room.desk.inside.name_heads(found.append, pytest.fail, still=ALWAYS)
    assert found[1] is found[0]  # at once


def test_what_a_graph_lacks_is_learned_once_per_load(make_room: Any) -> None:
    reasons = {"attention": "This architecture has no attention."}
    room = make_room({**SCRIPT, "inside": {"missing": reasons}}).start_ready()
    found: list[Any] = []
    room.desk.inside.learn(found.append, still=ALWAYS)
    assert found == []
    room.until(lambda: found, "what is lacking")
    assert found[0].items() >= reasons.items()
    assert "residual" not in found[0]
    room.desk.inside.learn(found.append, still=ALWAYS)
    assert found[1] is found[0]  # at once
    before = room.desk.loader.loaded
    room.desk.loader.load(before.path)
    room.until(
        lambda: room.desk.loader.loaded is not before and room.desk.loader.loaded, "loaded again"
    )
    room.desk.inside.learn(found.append, still=ALWAYS)
    assert len(found) == 2
    room.until(lambda: len(found) == 3, "asked again")


def test_what_some_layers_have_is_not_lacking(looked: Looked) -> None:
    room, found = looked.room, list[Any]()
    offer = GraphOffer(3, [Missing("attention", "Some."), Missing("logits", "None.")], [])
    offer.in_some_layers.append("attention")
    asked: list[Any] = []
    room.desk.inside._questions.ask = lambda _command, _kind, then, _failed, **_: asked.append(then)
    room.desk.inside.learn(found.append, still=ALWAYS)
    asked[0](offer)
    assert found == [{"logits": "None."}]


def test_the_lens_of_more_places_is_asked_for_once_beside_what_is_looked_at(
    looked: Looked,
) -> None:
    text = looked.text(looked.room.ask("Which city?"))
    whole = looked.look(text, text.n_prompt)
    n_asked, found = len(looked.commands()), []
    looked.room.desk.inside.lens_at(text, text.n_prompt, found.append, pytest.fail, still=ALWAYS)
    assert np.array_equal(found[0].arrays["lens_ids"], whole.arrays["lens_ids"])
    assert len(looked.commands()) == n_asked  # it was known
    for _ in range(2):
        found.clear()
        looked.room.desk.inside.lens_at(
            text, text.n_prompt - 1, found.append, pytest.fail, still=ALWAYS
        )
        looked.room.until(lambda: found, "the lens")
        assert found[0].place == text.n_prompt - 1
    assert [c.want for c in looked.commands()[n_asked:]] == [["lens"]]


class Rows:
    """Rows of the matrix, as they come."""

    def __init__(self, looked: Looked, text: ReadText) -> None:
        self._looked = looked
        self._text = text
        self.found: list[Any] = []
        self.failed: list[str] = []

    def ask(self, place: int, layer: int, still: Still = ALWAYS) -> None:
        self._looked.room.desk.inside.row_at(
            self._text, place, layer, self.found.append, self.failed.append, still=still
        )

    def wait(self, count: int) -> None:
        self._looked.room.until(lambda: len(self.found) == count or self.failed, "a row")


def test_a_row_of_the_matrix_is_one_layer_s_and_asked_for_once(looked: Looked) -> None:
    text = looked.text(looked.room.ask("Which city?"))
    rows, place = Rows(looked, text), text.n_prompt - 1
    rows.ask(place, 2)
    rows.wait(1)
    (command,) = looked.commands()
    assert command.token_ids == text.ids[: place + 1].tolist()
    assert (command.layers, command.only_layers) == ([2], True)
    rows.ask(place, 2)
    assert rows.found[1] is rows.found[0]  # at once
    rows.ask(place, 1)
    rows.wait(3)
    whole = looked.look(text, place, (*words.ROW_WANTED, "logits"))
    for row, layer in ((rows.found[0], 2), (rows.found[2], 1)):
        for name, values in zip(words.ROW_WANTED, row, strict=True):
            assert np.array_equal(values, whole.arrays[name][layer])
    assert [each.want for each in looked.commands()[:2]] == [[*words.ROW_WANTED]] * 2


def test_a_row_of_what_is_looked_at_is_the_one_that_is_shown(looked: Looked) -> None:
    text = looked.text(looked.room.ask("Which city?"))
    whole = looked.look(text, text.n_prompt, ("attention", "k_after"))
    rows = Rows(looked, text)
    rows.ask(text.n_prompt, 3)
    rows.wait(1)
    assert looked.commands()[-1].want == ["q_after"]  # the rest is known
    assert np.array_equal(rows.found[0].shares, whole.arrays["attention"][3])
    whole = looked.look(text, text.n_prompt, (*words.ROW_WANTED,))
    n_asked = len(looked.commands())
    rows.ask(text.n_prompt, 0)
    assert len(rows.found) == 2  # at once
    assert len(looked.commands()) == n_asked
    assert np.array_equal(rows.found[1].query, whole.arrays["q_after"][0])


def test_a_row_that_is_wanted_no_more_comes_to_nobody(looked: Looked) -> None:
    text = looked.text(looked.room.ask("Which city?"))
    old, new, left = (Rows(looked, text) for _ in range(3))
    old.ask(1, 0)
    new.ask(2, 0)  # a newer one
    new.wait(1)
    left.ask(3, 0, still=lambda: False)
    left.ask(4, 0)
    looked.room.desk.inside.stop_rows()
    new.ask(2, 1)
    new.wait(2)
    assert old.found == left.found == []
    assert [*old.failed, *new.failed, *left.failed] == []


def test_a_layer_without_attention_has_no_row(make_room: Any) -> None:
    script = {**SCRIPT, "inside": {"missing": {"attention": "It has none."}}}
    looked = watched(make_room(script).start_ready())
    rows = Rows(looked, looked.text(looked.room.ask("Which city?")))
    rows.ask(1, 0)
    rows.wait(1)
    assert rows.failed == ["It has none."]


def test_a_row_too_large_for_a_frame_is_not_asked_for(
    make_room: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded = {"loaded": {"n_head": 4, "n_layer": 4}}
    looked = watched(make_room({**SCRIPT, "load": loaded}).start_ready())
    text = looked.text(looked.room.ask("Which city?"))
    monkeypatch.setattr(words, "MAX_FRAME_BYTES", 2**20)
    rows = Rows(looked, text)
    rows.ask(1, 0)
    assert rows.failed == [words.LAYER_TOO_LONG.format(n=2)]
    assert looked.commands() == []


def test_of_a_reply_that_was_written_with_cuts_it_is_said_that_nothing_is_cut_here(
    looked: Looked,
) -> None:
    """Of the one beside it, in which nothing was cut, it would be wrong."""
    reply = looked.room.ask("Which city?")
    assert looked.text(reply).note == ""
    for parts, note in (([], ""), ([Cut("head", 1, 2)], words.WRITTEN_WITH_CUTS)):
        version = as_recorded(CutVersion(parts))
        looked.texts.clear()
        looked.room.desk.inside._text = None
        settings = {**reply.settings, CUTS: version}
        assert looked.text(replace(reply, settings=settings)).note == note


def test_a_cell_of_a_picture_is_told_by_its_place() -> None:
    pieces = (b"<s>", *[b""] * 6, b" What")
    ids = [1, -900, -901, -902, -903, -904, -905, 7]
    prompt = tokens_of(
        shown(
            [ShownPart(0, 8, "user")],
            pieces,
            token_ids=Array.of("i4", ids),
            media=[MediaSpan(1, 6, "p", 3, 2)],
        )
    )
    text = ReadText("m1", "", prompt, array("i", [*ids, 8]), 0, (b" is",))
    assert text.words(5) == "picture, row 2, column 2"
    assert [text.words(place) for place in (0, 7, 8)] == ["<s>", "·What", "·is"]
    assert text.pieces(0, 9) == [b"<s>", *["▪".encode()] * 6, b" What", b" is"]
