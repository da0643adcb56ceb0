"""What is set for single weights, loaded or not; what waits for a load; what is taken back."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest
from gguf_writer import bpe_vocabulary, tiny_llama

from app.chat import events
from app.chat.weights.draft_partners import NONE_SMALLER, Partners
from app.engine.protocol.loading_messages import LoadOptions
from app.gguf.local.entries import FoundWeights
from models.records import Weights

OTHER = "/weights/other-Q4_K_M.gguf"


def path_of(room: Any) -> str:
    return str(room.desk.loader.path)


def asked_options(room: Any) -> LoadOptions:
    """What the engine was asked for last."""
    attempt = room.desk.loader._attempt
    assert attempt is not None
    options: LoadOptions = attempt.options
    return options


def test_weights_that_were_never_used_have_defaults_too_and_they_outlive_the_window(
    make_room: Any,
) -> None:
    room = make_room().start_ready()
    desk = room.desk
    assert desk.defaults.own(OTHER) == {}
    for name, value in (
        ("n_ctx", 2048),
        ("temperature", 0.9),
        ("load.n_ubatch", 128),
        ("load.rope.kind", "linear"),
        ("notes", "Good at verse."),
        ("system_prompt", ""),
    ):
        assert desk.defaults.change(OTHER, name, value) == ""
    room.close()

    again = make_room().start_ready()
    again.until(lambda: again.desk.defaults.own(OTHER))
    own = again.desk.defaults.own(OTHER)
    assert own["n_ctx"], own["load.n_ubatch"] == (2048, 128)
    assert own["load.rope.kind"] == "linear"
    assert own["system_prompt"] == ""
    assert own["notes"] == again.desk.defaults.value(OTHER, "notes") == "Good at verse."
    found = again.desk.defaults.resolved(OTHER)
    assert (found.settings.temperature, found.level_of("temperature")) == (0.9, "weights")
    assert found.level_of("top_k") == "app"
    (known,) = (each for each in again.desk.loader.known_weights() if each.path == OTHER)
    assert known.name == "other-Q4_K_M"
    # What is loaded is not touched by it.
    assert again.desk.levels.resolved().settings.temperature != 0.9


def test_next_load_asks_for_all_of_it(make_room: Any, tmp_path: Path) -> None:
    room = make_room().start_ready()
    other = tmp_path / "other.json"
    other.write_text(json.dumps({"loop": True, "replies": [{"text": "Hi."}]}))
    for name, value in (("n_ctx", 1024), ("load.use_mlock", True), ("type_k", "q8_0")):
        assert room.desk.defaults.change(str(other), name, value) == ""
    room.desk.loader.load(str(other))
    asked = asked_options(room)
    assert (asked.n_ctx, asked.use_mlock, asked.type_k) == (1024, True, "q8_0")


def test_what_waits_for_a_load_is_named_until_they_are_loaded_again(make_room: Any) -> None:
    room = make_room().start_ready()
    desk, path = room.desk, path_of(room)
    assert desk.defaults.awaiting_load(path) == ()
    desk.defaults.change(path, "load.n_ubatch", 64)
    desk.defaults.change(path, "n_ctx", 512)
    desk.defaults.change(path, "temperature", 1.0)
    assert desk.defaults.awaiting_load(path) == ("n_ctx", "n_ubatch")
    assert desk.defaults.awaiting_load(OTHER) == ()
    assert desk.levels.resolved().settings.temperature == 1.0  # a reply has it at once
    desk.loader.load(path)
    room.until(lambda: not desk.defaults.awaiting_load(path), "the load")
    room.until(lambda: desk.loader.state.state == "ready")
    assert desk.defaults.awaiting_load(path) == ()
    desk.defaults.change(path, "n_threads", 3)  # counts at once
    assert desk.defaults.awaiting_load(path) == ()


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("n_ctx", -1, "context window"),
        ("load.n_ubatch", 0, "Prefill batch"),
        ("load.no_such", 1, "no_such"),
        ("theme", "dark", "isn't a model setting"),
        ("notes", "x" * 30_000, "limited"),
        ("notes", 3, "limited"),
        ("chat_format", "odd", "chat format"),
    ],
)
def test_a_refusal_is_a_sentence_and_changes_nothing(
    make_room: Any, name: str, value: object, words: str
) -> None:
    room = make_room().start_ready()
    assert words in room.desk.defaults.change(OTHER, name, value)
    assert room.desk.defaults.own(OTHER) == {}


def test_what_does_not_go_together_is_refused_where_it_is_set(make_room: Any) -> None:
    desk = make_room().start_ready().desk
    assert desk.defaults.change(OTHER, "type_v", "q8_0") == ""
    assert "needs flash attention" in desk.defaults.change(OTHER, "flash_attention", "off")
    assert "flash_attention" not in desk.defaults.own(OTHER)
    assert desk.defaults.change(OTHER, "load.n_slots", 8) == ""
    assert "too small for 8 replies" in desk.defaults.change(OTHER, "load.n_ubatch", 4)


def test_reset_lets_the_app_speak_and_can_be_undone(make_room: Any) -> None:
    room = make_room().start_ready()
    desk = room.desk
    for name, value in (("top_k", 5), ("load.n_ubatch", 64), ("draft", "/d.gguf"), ("notes", "N")):
        desk.defaults.change(OTHER, name, value)
    desk.defaults.reset(OTHER, ["top_k", "load.n_ubatch"])
    assert desk.defaults.own(OTHER) == {"draft": "/d.gguf", "notes": "N"}
    desk.defaults.change(OTHER, "top_k", 7)
    desk.defaults.reset_all(OTHER)
    assert desk.defaults.own(OTHER) == {"notes": "N"}
    notice = room.of(events.Noticed)[-1]
    assert "other-Q4_K_M" in notice.sentence
    desk.shelf.undo(notice.undo)
    assert desk.defaults.own(OTHER) == {"draft": "/d.gguf", "notes": "N", "top_k": 7}


def test_a_draft_model_is_loaded_with_the_next_load(make_room: Any) -> None:
    room = make_room().start_ready()
    desk, path = room.desk, path_of(room)
    assert desk.defaults.change(path, "draft", "/d.gguf") == ""
    assert desk.loader.options_of(path).draft == "/d.gguf"
    assert desk.defaults.awaiting_load(path) == ("draft",)
    desk.loader.load(path)
    assert asked_options(room).draft == "/d.gguf"


def test_where_nothing_can_be_kept_it_is_said(make_room: Any) -> None:
    make_room().start_ready()
    second = make_room(read_only=True).start()
    assert second.desk.defaults.change(OTHER, "top_k", 5) == "Another window writes."
    assert second.desk.defaults.own(OTHER) == {}


def test_rubbish_that_is_stored_is_as_if_it_were_not_there(make_room: Any) -> None:
    room = make_room().start_ready()
    room.store.upsert_weights(
        Weights(OTHER, "Other", 1, settings={"load": 7, "draft": [1], "notes": {}, "n_ctx": "x"})
    ).result(5)
    room.close()
    again = make_room().start_ready()
    again.until(lambda: any(w.path == OTHER for w in again.desk.loader.known_weights()))
    assert again.desk.defaults.value(OTHER, "load.n_ubatch") is None
    assert again.desk.defaults.value(OTHER, "draft") == ""
    assert again.desk.loader.options_of(OTHER) == again.desk.settings.now.load_options()


def test_the_same_content_elsewhere_has_the_same_defaults_until_it_has_its_own(
    make_room: Any, tmp_path: Path
) -> None:
    first, second = tmp_path / "first.gguf", tmp_path / "second.gguf"
    first.touch()
    room = make_room().start_ready()
    desk = room.desk
    same = FoundWeights(first, (first,), (), 1, "Folder", "First", also_at=(second,))
    desk.local.found = lambda: (same,)
    desk.defaults.change(str(first), "top_k", 5)
    assert desk.defaults.own(str(second)) == {"top_k": 5}
    assert desk.loader.options_of(str(second)) == desk.loader.options_of(str(first))
    desk.defaults.change(str(second), "seed", 3)
    assert desk.defaults.own(str(second)) == {"top_k": 5, "seed": 3}
    assert desk.defaults.own(str(first)) == {"top_k": 5}
    desk.defaults.reset_all(str(second))
    assert desk.defaults.own(str(second)) == {}


# --- draft partners -------------------------------------------------------------------------------


def partners(room: Any, path: Path) -> Partners:
    got: list[Partners] = []
    room.desk.partners.find(str(path), got.append)
    found: Partners = room.until(lambda: got, "the partners")[0]
    return found


def test_who_asked_for_partners_before_somebody_else_did_is_not_answered(
    make_room: Any, tmp_path: Path
) -> None:
    room, path = make_room().start_ready(), tmp_path / "large.gguf"
    tiny_llama(path, vocabulary=bpe_vocabulary(["hello"]))
    before: list[Partners] = []
    room.desk.partners.find(str(path), before.append)
    looks = [t for t in threading.enumerate() if t.name == "draft-partners"]
    partners(room, path)
    for thread in looks:
        thread.join(20)
    room.pump()
    assert before == []


def test_smaller_weights_with_the_same_vocabulary_are_found_by_themselves(
    make_room: Any, tmp_path: Path
) -> None:
    words, others = bpe_vocabulary(["hello"]), bpe_vocabulary(["world"])
    large = tmp_path / "large.gguf"
    tiny_llama(large, vocabulary=words, kind="f32")
    tiny_llama(tmp_path / "small.gguf", vocabulary=words, kind="f16")
    tiny_llama(tmp_path / "strange.gguf", vocabulary=others, kind="f16")
    end = {"tokenizer.ggml.eos_token_id": 1}
    tiny_llama(tmp_path / "ends.gguf", vocabulary=words, kind="f16", metadata=end)
    (tmp_path / "broken.gguf").write_bytes(b"GGUF")
    (tmp_path / "link.gguf").symlink_to(large)
    room = make_room().start_ready()
    for name in ("large", "small", "strange", "ends", "broken", "link"):
        room.desk.defaults.change(str(tmp_path / f"{name}.gguf"), "notes", "known")
    found = partners(room, large)
    assert [each.name for each in found.fitting] == ["small"]
    why = {each.candidate.name: each.difference for each in found.others}
    assert why["strange"] in ("different tokens", f"{len(others):,} tokens, not {len(words):,}")
    assert why["ends"] == "a different end token"
    assert "incomplete" in why["broken"]
    assert "large" not in why
    assert "link" not in why
    none = partners(room, tmp_path / "broken.gguf")
    assert none.fitting == none.others == ()
    assert "incomplete" in none.sentence
    assert partners(room, tmp_path / "small.gguf").others  # the broken one is smaller


def test_where_nothing_is_smaller_that_is_said(make_room: Any, tmp_path: Path) -> None:
    tiny_llama(tmp_path / "only.gguf")
    room = make_room().start_ready()
    assert partners(room, tmp_path / "only.gguf").sentence == NONE_SMALLER


def test_a_file_that_is_gone_has_no_partners_but_a_sentence(make_room: Any, tmp_path: Path) -> None:
    room = make_room().start_ready()
    assert "no longer exists" in partners(room, tmp_path / "gone.gguf").sentence
