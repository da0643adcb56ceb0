"""Running a reply again: what is asked for, what is said of the result, what stands against it."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from app.chat.events import Noticed
from app.chat.replies.again import first_difference
from app.chat.replies.recorded import MAX_SYSTEM_PROMPT, settings_of
from app.chat.settings.settings import Settings
from app.engine.protocol.stages import MinP, Temperature
from models.records import Message, MessageState, Role

TWO = {"replies": [{"text": "one two three"}, {"text": "one two four"}]}


def words(room: Any) -> str:
    return next(e.sentence for e in reversed(room.of(Noticed)) if "Rerun:" in e.sentence)


def run_again(room: Any, message: Message) -> Message:
    room.desk.again.run(message.id)
    return room.until(
        lambda: (r := room.ended_reply()) and r.id != message.id and r, "the second reply"
    )


def test_same_text_is_called_identical_and_stands_as_another_version(make_room: Any) -> None:
    room = make_room().start_ready()
    first = room.ask("Hello")
    second = run_again(room, first)
    assert words(room) == f"Rerun: identical, all {len(first.token_ids or ()):,} tokens."
    assert (second.parent_id, second.sibling_index) == (first.parent_id, 1)
    assert second.seed == first.seed
    assert second.settings["repeatable"] is True
    assert second.settings["again"] == {
        "of": first.id, "first_difference": None, "is_whole": True,
    }  # fmt: skip


def test_other_text_is_called_different_at_its_token(make_room: Any) -> None:
    room = make_room(TWO).start_ready()
    first = room.ask("Hello")
    second = run_again(room, first)
    place = first_difference(first, second)
    assert place is not None
    assert f"first differs at token {place + 1}" in words(room)
    assert "repeatable" in words(room)


def test_settings_are_those_of_the_reply_and_not_of_today(make_room: Any) -> None:
    room = make_room().start_ready()
    room.desk.settings.set("temperature", 0.6)
    room.desk.levels.change("chat", "min_p", 0.2)
    room.desk.settings.set("system_prompt", "Then.")
    first = room.ask("Hello")
    assert first.settings["levels"] == {"min_p": "chat"}
    room.desk.settings.set("temperature", 2.0)
    room.desk.levels.reset("chat", "min_p")
    room.desk.settings.set("system_prompt", "Now.")
    second = run_again(room, first)
    assert second.settings["sampling"]["filters"] == first.settings["sampling"]["filters"]
    assert second.settings["system_prompt"] == "Then."


def test_other_weights_are_refused_in_words(make_room: Any) -> None:
    room = make_room().start_ready()
    first = room.ask("Hello")
    other = dataclasses.replace(first, weights_hash="other", weights_name="Big ones")
    room.desk.shelf._path[first.id] = other
    room.desk.again.run(first.id)
    assert "“Big ones”" in room.of(Noticed)[-1].sentence
    assert not room.desk.replies.is_generating


@pytest.mark.parametrize(
    ("first", "second", "place"),
    [
        ([1, 2, 3], [1, 2, 3], None),
        ([1, 2, 3], [1, 9, 3], 1),
        ([1, 2, 3], [1, 2], 2),
        ([1, 2], [1, 2, 3], 2),
        ([], [1], 0),
    ],
)
def test_first_difference_counts_tokens(first: Any, second: Any, place: int | None) -> None:
    one, other = (
        Message(
            "m",
            "c",
            None,
            Role.ASSISTANT,
            "",
            None,
            token_ids=tuple(ids),  # type: ignore[arg-type]
        )
        for ids in (first, second)
    )
    assert first_difference(one, other) == place
    cut = dataclasses.replace(other, state=MessageState.STOPPED)
    if len(second) < len(first) and first[: len(second)] == second:
        assert first_difference(one, cut) is None


def test_recorded_settings_come_back_whole(make_room: Any) -> None:
    room = make_room().start_ready()
    chain = [{"stage": "min_p", "p": 0.1}, {"stage": "temperature", "t": 0.9}, {"stage": "dist"}]
    room.desk.levels.change("chat", "chain", chain)
    room.desk.levels.change("chat", "banned_strings", ["x"])
    message = room.ask("Hello")
    settings, refusal = settings_of(message.settings, Settings())
    assert refusal == ""
    assert settings.stages()[:2] == (MinP(p=0.1), Temperature(t=0.9))
    assert settings.banned_strings == ("x",)


def test_long_system_prompt_is_known_again_by_its_hash(make_room: Any) -> None:
    room = make_room().start_ready()
    text = "x" * (MAX_SYSTEM_PROMPT + 1)
    room.desk.settings.set("system_prompt", text)
    first = room.ask("Hello")
    assert "system_prompt" not in first.settings
    assert settings_of(first.settings, Settings(system_prompt=text))[1] == ""
    room.desk.settings.set("system_prompt", "short")
    room.desk.again.run(first.id)
    assert "system prompt has changed" in room.of(Noticed)[-1].sentence


@pytest.mark.parametrize("recorded", [{}, {"sampling": 1}, {"sampling": {"filters": [1]}}])
def test_settings_that_cannot_be_read_are_said(recorded: dict[str, Any]) -> None:
    settings, refusal = settings_of(recorded, Settings())
    assert settings == Settings()
    assert refusal.endswith(".")
    assert "system prompt" not in refusal


def test_the_real_engine_says_the_same_again(
    forked_engines: None, make_room: Any, data_dir: Path, made_gguf: Path
) -> None:
    """By the real engine, drawn and not greedy: the repetition of a repeatable reply."""
    room = make_room(gguf=made_gguf, is_real=True)
    room.desk.settings.set("n_threads", 1)
    for name, value in (("temperature", 1.0), ("max_tokens", 12), ("min_tokens", 12)):
        room.desk.settings.set(name, value)
    room.desk.settings.set("repeatable", True)
    room.start_ready()
    first = room.ask("Write one sentence about rain.")
    second = run_again(room, first)
    assert len(first.token_ids or ()) == 12
    assert second.token_ids == first.token_ids
    assert words(room) == "Rerun: identical, all 12 tokens."
