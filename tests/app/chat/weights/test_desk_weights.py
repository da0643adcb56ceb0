"""Loading, failing to load, unloading, and what the desk says of it."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest

from app.chat import events
from app.engine.protocol.messages import Failed, Finished
from app.gguf import starter
from app.gguf.refusal import HeaderRefused

FAILING = {
    "load": {"fail": {"kind": "not_a_gguf", "sentence": "“x” is a text file.", "evidence": "e"}},
    "replies": [{"text": "Never."}],
}


def test_load_is_told_from_begin_to_end(make_room):
    room = make_room({"load": {"ms": 200, "steps": 4}, "replies": [{"text": "Hi"}]}).start_ready()
    fractions = [event.fraction for event in room.of(events.LoadProgressed)]
    assert fractions == sorted(fractions)
    assert fractions[-1] == 1.0
    state = room.desk.loader.state
    assert state.loaded is not None
    assert state.weights_name


def test_failed_load_says_why_and_leaves_the_chat_usable(make_room):
    room = make_room(FAILING).start()
    room.until(lambda: room.desk.loader.state.sentence == "“x” is a text file.")
    assert room.desk.loader.state.state == "stopped"
    assert any(n.sentence == "“x” is a text file." for n in room.of(events.Noticed))

    assert room.desk.replies.send("Hello")
    room.until(lambda: room.of(events.SendQueued))
    assert room.desk.replies.is_waiting
    assert [m.content for m in room.desk.shelf.path] == ["Hello"]
    assert room.desk.loader.state.state == "stopped", "it must not be tried again unasked"


def test_a_servers_model_that_is_chosen_before_the_engine_is_there(make_room):
    room = make_room({"replies": [{"text": "Hi"}]})
    room.desk.loader.load("engine://gone/org/m")
    room.start()
    room.until(lambda: "isn't in Settings → Engines" in room.desk.loader.state.sentence)


def bad_script(**happening: Any) -> dict[str, Any]:
    """Everything loads but weights called “bad”."""
    return {"load": {"match": "bad", **happening}, "replies": [{"text": "Hi."}]}


def refuse_all(path: Path) -> None:
    raise HeaderRefused("not_a_gguf", f"“{path.name}” is a text file. Choose another file.")


def test_file_with_a_bad_header_leaves_the_loaded_weights_alone(make_room, tmp_path: Path):
    room = make_room(check_weights=refuse_all).start_ready()
    before = room.desk.loader.state
    states = len(room.of(events.EngineStateChanged))
    room.desk.loader.load(str(tmp_path / "notes.gguf"))
    notice = room.until(lambda: room.of(events.Noticed))[-1]
    assert notice.level == "error"
    assert notice.sentence == (
        f"“notes.gguf” is a text file. Choose another file. “{before.weights_name}” stays loaded."
    )
    assert room.desk.loader.state is before
    assert len(room.of(events.EngineStateChanged)) == states


def test_headers_are_read_beside_the_owners_thread(make_room, tmp_path: Path):
    let_go, threads = threading.Event(), []

    def slow(path: Path) -> None:
        threads.append(threading.get_ident())
        let_go.wait(20)

    room = make_room(check_weights=slow).start_ready()
    room.desk.loader.load(str(tmp_path / "other.gguf"))
    room.until(lambda: threads)
    assert threads != [threading.get_ident()]
    assert room.ask("Hello").content, "the loaded weights answer meanwhile"
    let_go.set()
    room.until(lambda: room.desk.loader.state.weights_name == "other")
    room.until(lambda: room.desk.loader.state.state == "ready")


def test_only_the_file_chosen_last_is_loaded(make_room, tmp_path: Path):
    let_go = threading.Event()

    def first_waits(path: Path) -> None:
        if path.stem == "first":
            let_go.wait(20)

    room = make_room(check_weights=first_waits).start_ready()
    room.desk.loader.load(str(tmp_path / "first.gguf"))
    room.desk.loader.load(str(tmp_path / "second.gguf"))
    room.until(lambda: room.desk.loader.state.weights_name == "second")
    let_go.set()
    room.until(lambda: room.desk.loader.state.state == "ready")
    assert room.ask("Hello").weights_name == "second"
    assert all(e.weights_name != "first" for e in room.of(events.EngineStateChanged))


def test_unloading_forgets_a_file_that_is_still_looked_at(make_room, tmp_path: Path):
    let_go, looked = threading.Event(), threading.Event()

    def slow(path: Path) -> None:
        let_go.wait(20)
        looked.set()

    room = make_room(check_weights=slow).start_ready()
    room.desk.loader.load(str(tmp_path / "other.gguf"))
    room.desk.loader.unload()
    room.until(lambda: room.desk.loader.state.state == "stopped")
    let_go.set()
    room.until(looked.is_set)
    room.ask("Hello")
    assert all(e.weights_name != "other" for e in room.of(events.EngineStateChanged))


@pytest.mark.parametrize(
    "happening",
    [
        {"fail": {"kind": "unsupported", "sentence": "“bad.gguf” is too new.", "evidence": "e"}},
        {"signal": "SEGV"},
    ],
)
def test_failed_load_brings_the_weights_before_it_back(make_room, tmp_path: Path, happening):
    room = make_room(bad_script(**happening)).start_ready()
    before = room.desk.loader.state.weights_name
    room.desk.loader.load(str(tmp_path / "bad.gguf"))
    notice = room.until(lambda: room.of(events.Noticed))[-1]
    assert notice.sentence.endswith(f" “{before}” was reloaded.")
    assert "“bad.gguf”" in notice.sentence
    assert notice.level == "error"
    room.until(lambda: room.desk.loader.state.state == "ready")
    assert room.desk.loader.state.weights_name == before
    assert not any(e.sentence for e in room.of(events.EngineStateChanged)), "it is told once"
    assert room.ask("Hello").content == "Hi."
    assert all("bad" not in weights.path for weights in room.desk.loader.known_weights())


def test_weights_that_do_not_come_back_are_not_tried_for_ever(make_room, tmp_path: Path):
    room = make_room(bad_script(fail={"kind": "unsupported", "sentence": "“x” is bad."}))
    room.start_ready()
    room._script.write_text(json.dumps(FAILING))  # from the next child on nothing loads
    room.desk.loader.load(str(tmp_path / "bad.gguf"))
    room.until(lambda: room.desk.loader.state.sentence)
    assert room.desk.loader.state.state == "stopped"
    assert [n.sentence.count("was reloaded") for n in room.of(events.Noticed)] == [1, 0]


def test_same_weights_come_back_as_they_were_loaded_before(make_room):
    script = bad_script(match="", above_n_ctx=5000, fail={"kind": "x", "sentence": "Too much."})
    room = make_room(script).start_ready()
    room.desk.settings.set("n_ctx", 100_000)
    room.desk.loader.load(room.desk.loader.state.loaded.path)
    room.until(lambda: room.of(events.Noticed))
    room.until(lambda: room.desk.loader.state.state == "ready")
    assert room.desk.loader.state.loaded.n_ctx == 4096


def test_same_weights_do_not_come_back_after_they_crashed(make_room):
    room = make_room(bad_script(match="", above_n_ctx=5000, signal="SEGV")).start_ready()
    room.desk.settings.set("n_ctx", 100_000)
    room.desk.loader.load(room.desk.loader.state.loaded.path)
    room.until(lambda: room.desk.loader.state.state == "crashed")
    assert room.desk.loader.state.sentence
    assert "again" not in room.until(lambda: room.of(events.Noticed))[-1].sentence


class _Held:
    """A listener of the engine whose news of a load come when the test says so."""

    def __init__(self, room: Any) -> None:
        self._desk = room.desk
        self._take = room.desk._take
        self.kept: list[Any] = []
        self.is_keeping = True
        room.desk._inbox._handle = self

    def __call__(self, event: Any) -> None:
        if self.is_keeping:
            self.kept.append(event)
        else:
            self._take(event)

    def let_go(self) -> None:
        self.is_keeping = False
        for event in self.kept:
            self._take(event)


def choose_while_the_ending_is_under_way(room: Any, first: Path, second: Path, ended: type) -> None:
    """`first` has loaded, or failed, and the desk does not know it when `second` is chosen."""
    held = _Held(room)
    room.desk.loader.load(str(first))
    room.until(lambda: any(isinstance(e, ended) and hasattr(e, "id") for e in held.kept))
    room.desk.loader.load(str(second))
    held.let_go()


def test_weights_are_recorded_with_what_they_are(make_room, tmp_path: Path):
    """Chosen while the ending of another load is under way."""
    room = make_room(bad_script(match="none")).start_ready()
    first, second = tmp_path / "first.gguf", tmp_path / "second.gguf"
    choose_while_the_ending_is_under_way(room, first, second, Finished)
    assert room.desk.loader.path == str(second)
    assert str(second) not in {w.path for w in room.desk.loader.known_weights()}, (
        "it is not loaded yet"
    )
    room.until(lambda: room.desk.loader.state.state == "ready" and not room.desk.loader.is_loading)
    state = room.desk.loader.state
    assert (state.weights_name, Path(state.loaded.path)) == ("second", second)
    assert {str(first), str(second)} <= {w.path for w in room.desk.loader.known_weights()}
    assert room.ask("Hello").weights_name == "second"


def test_weights_whose_ending_came_late_come_back(make_room, tmp_path: Path):
    room = make_room(bad_script(fail={"kind": "x", "sentence": "“bad” is bad."})).start_ready()
    good, bad = tmp_path / "good.gguf", tmp_path / "bad.gguf"
    choose_while_the_ending_is_under_way(room, good, bad, Finished)
    room.until(lambda: any("was reloaded" in n.sentence for n in room.of(events.Noticed)))
    room.until(lambda: room.desk.loader.state.state == "ready" and not room.desk.loader.is_loading)
    assert room.desk.loader.state.weights_name == "good"
    assert str(bad) not in {w.path for w in room.desk.loader.known_weights()}


def test_a_failure_that_came_late_is_not_that_of_the_next_choice(make_room, tmp_path: Path):
    room = make_room(bad_script(fail={"kind": "x", "sentence": "“bad” is bad."})).start_ready()
    bad, good = tmp_path / "bad.gguf", tmp_path / "good.gguf"
    choose_while_the_ending_is_under_way(room, bad, good, Failed)
    assert room.desk.loader.path == str(good)
    room.until(lambda: room.desk.loader.state.state == "ready" and not room.desk.loader.is_loading)
    assert room.desk.loader.state.weights_name == "good"


@pytest.mark.parametrize("then", ["choose", "unload"])
def test_choice_between_a_failure_and_what_comes_back_for_it(make_room, tmp_path: Path, then: str):
    """Known to have failed, but the engine is not gone yet."""
    room = make_room(bad_script(fail={"kind": "x", "sentence": "“bad” is bad."})).start_ready()
    before = room.desk.loader.state.weights_name
    bad, worse = tmp_path / "bad.gguf", tmp_path / "bad-too.gguf"
    room.desk.loader.load(str(bad))
    room.until(lambda: room.desk.loader._failed is not None)
    if then == "unload":
        room.desk.loader.unload()
        room.until(lambda: room.desk.loader.state.state == "stopped")
        return
    room.desk.loader.load(str(worse))
    room.until(lambda: any("was reloaded" in n.sentence for n in room.of(events.Noticed)))
    room.until(lambda: room.desk.loader.state.state == "ready" and not room.desk.loader.is_loading)
    assert room.desk.loader.state.weights_name == before


def test_cancelled_load_brings_nothing_back(make_room, tmp_path: Path):
    room = make_room(bad_script(hang=True, ms=50, steps=5)).start_ready()
    room.desk.loader.load(str(tmp_path / "bad.gguf"))
    room.until(lambda: room.desk.loader.state.state == "loading")
    room.desk.loader.cancel()
    room.until(lambda: room.desk.loader.state.state == "stopped")
    assert room.desk.loader.state.loaded is None


def test_crash_during_load_is_not_tried_again(make_room):
    room = make_room({"load": {"signal": "SEGV"}, "replies": [{"text": "Never."}]}).start()
    room.until(lambda: room.desk.loader.state.state == "crashed")
    assert room.desk.loader.state.sentence
    states_before = len(room.of(events.EngineStateChanged))
    room.desk.replies.send("Hello")
    room.until(lambda: room.of(events.SendQueued))
    assert len(room.of(events.EngineStateChanged)) == states_before


def test_load_can_be_cancelled(make_room):
    room = make_room({"load": {"ms": 20_000, "steps": 100}, "replies": [{"text": "Hi"}]}).start()
    room.until(lambda: room.desk.loader.state.state == "loading")
    room.desk.loader.cancel()
    room.until(lambda: room.desk.loader.state.state == "stopped")
    assert room.desk.loader.state.loaded is None


def test_unload_and_send_loads_again(make_room):
    room = make_room().start_ready()
    room.desk.loader.unload()
    room.until(lambda: room.desk.loader.state.state == "stopped")
    assert room.desk.loader.state.loaded is None
    assert room.ask("Hello").content == "Paris is the capital of France."


def test_loading_others_stops_the_reply_and_keeps_its_text(make_room, tmp_path: Path):
    script = {
        "replies": [{"tokens": [{"text": "again ", "ms": 5, "repeat": 4000}]}],
    }
    room = make_room(script).start_ready()
    room.desk.replies.send("Go on")
    room.until(lambda: room.growing(30))
    other = tmp_path / "Ž модели 🙂 & #.gguf"
    other.write_bytes(b"GGUF")
    room.desk.loader.load(str(other))
    reply = room.until(room.ended_reply)
    assert reply.state == "stopped"
    assert reply.content.startswith("again again")
    room.until(
        lambda: (
            room.desk.loader.state.state == "ready"
            and room.desk.loader.state.weights_name == "Ž модели 🙂 & #"
        )
    )


def test_file_dropped_before_the_start_is_loaded(make_room, tmp_path: Path):
    early = tmp_path / "early.gguf"
    early.write_bytes(b"GGUF")
    room = make_room()
    room.desk.loader.load(str(early))
    room.start_ready()
    assert room.desk.loader.state.weights_name == "early"


def test_file_name_that_is_no_text_is_refused_in_words(make_room):
    room = make_room().start_ready()
    room.desk.loader.load("/tmp/weights-\udcff.gguf")
    sentence = room.of(events.Noticed)[-1].sentence
    assert "Rename" in sentence
    assert "“weights-�.gguf”" in sentence
    assert room.desk.loader.state.state == "ready"


def test_last_used_weights_load_at_the_next_start(make_room, tmp_path: Path):
    room = make_room().start_ready()
    other = tmp_path / "other.gguf"
    other.write_bytes(b"GGUF")
    room.desk.loader.load(str(other))
    room.until(lambda: room.desk.loader.state.weights_name == "other")
    room.until(lambda: room.desk.loader.state.state == "ready")
    room.close()

    again = make_room(gguf=None).start_ready()
    assert again.desk.loader.state.weights_name == "other"
    assert again.desk.loader.known_weights()[0].path == str(other)


def test_included_weights_load_when_nothing_was_used(make_room):
    room = make_room(gguf=None).start_ready()
    assert room.desk.loader.state.weights_name == starter.NAME
    assert [w.name for w in room.desk.loader.known_weights()] == [starter.NAME]


def test_without_any_weights_the_desk_says_how_to_get_some(make_room, monkeypatch):
    monkeypatch.setattr(starter, "find", lambda: None)
    room = make_room(gguf=None).start()
    room.until(lambda: room.desk.loader.state.sentence)
    assert room.desk.loader.state.sentence == starter.HOW_TO_GET_WEIGHTS
    assert room.desk.loader.known_weights() == []
    room.desk.replies.send("Hello?")
    room.until(lambda: room.of(events.SendQueued))


def test_reply_and_weights_are_kept_with_the_hash_of_the_file(make_room):
    room = make_room(
        {"load": {"loaded": {"fast_hash": "abc"}}, "replies": [{"text": "Yes."}]}
    ).start_ready()
    room.ask("Hello")
    assert room.stored()[-1].weights_hash == "abc"
    known = room.desk.around.store.list_weights().result(10)
    assert [weights.fast_hash for weights in known] == ["abc"]


def test_script_is_not_remembered_as_weights(make_room):
    room = make_room(remember_weights=False).start_ready()
    assert [w.name for w in room.desk.loader.known_weights()] == [starter.NAME]


@pytest.mark.usefixtures("soon")
def test_context_is_counted_for_the_meter(make_room):
    room = make_room().start_ready()
    room.ask("Hello")
    size = room.desk.loader.state.loaded.n_ctx
    used = room.until(lambda: [e.used for e in room.of(events.ContextCounted) if e.used])[-1]
    assert all(event.size == size for event in room.of(events.ContextCounted))
    room.desk.shelf.save_draft("a rather long draft with quite a few words in it " * 4)
    room.until(lambda: room.of(events.ContextCounted)[-1].used > used + 20)
    room.desk.shelf.open_new()
    room.until(lambda: room.of(events.ContextCounted)[-1].used == 0)


def test_log_lines_are_kept_and_told(make_room):
    script = {
        "replies": [{"tokens": [{"log": "a line of the log"}, {"text": "Hi"}]}],
    }
    room = make_room(script).start_ready()
    room.ask("Hello")
    assert any(text == "a line of the log" for _, text in room.desk.loader.log_lines())
    assert any(e.text == "a line of the log" for e in room.of(events.LogLineArrived))


def test_note_is_said_once_per_conversation(make_room):
    script = {
        "replies": [{"tokens": [{"note": ["no_template", "No template."]}, {"text": "Hi"}]}],
    }
    room = make_room(script).start_ready()
    room.ask("Hello")
    room.ask("Hello again")
    assert [n.sentence for n in room.of(events.Noticed)].count("No template.") == 1


def test_settings_are_checked_stored_and_told(make_room):
    room = make_room().start()
    room.desk.settings.set("top_k", 7)
    assert room.of(events.SettingsChanged)[-1].names == {"top_k"}
    room.desk.settings.set("top_k", "many")
    assert room.of(events.Noticed)[-1].level == "error"
    assert room.desk.settings.now.top_k == 7
    room.desk.settings.set("theme", "dark")
    room.close()

    again = make_room()
    assert again.desk.settings.now.theme == "dark", "known before the database is open"
    again.start()
    assert again.desk.settings.now.top_k == 7


def test_settings_changed_before_the_store_is_open_are_kept(make_room):
    room = make_room()
    room.desk.settings.set("zoom_percent", 150)
    room.start()
    assert room.desk.settings.now.zoom_percent == 150
    room.close()
    again = make_room().start()
    assert again.desk.settings.now.zoom_percent == 150


def test_included_file_that_has_vanished_is_not_listed(make_room, tmp_path, monkeypatch):
    gone = tmp_path / "gone.gguf"
    monkeypatch.setattr(starter, "find", lambda: starter.StarterWeights(gone, "Included"))
    room = make_room().start_ready()
    assert str(gone) not in [weights.path for weights in room.desk.loader.known_weights()]
