"""The surprise of a prompt: asked beside the conversations, and never in a reply's way."""

from __future__ import annotations

import math
from typing import Any

import pytest

from app.chat.inspection import prompt_scoring as words, questions
from app.chat.inspection.prompt_reading import PromptOf
from app.chat.surroundings import ALWAYS
from app.engine.protocol.cache_messages import CacheMap, ChangeCache, ReadCache
from app.engine.protocol.messages import Generate, PromptScores
from app.engine.protocol.pieces import unpack
from app.engine.protocol.prompt_messages import IdsPrompt

SCRIPT: dict[str, Any] = {
    "replies": [{"text": "Paris", "prompt_probabilities": [0.5, 0.25]}],
}
SLOW: dict[str, Any] = {
    "replies": [
        {"match": "on", "tokens": [{"text": "again ", "ms": 5, "repeat": 4000}]},
        {"text": "late", "prefill": {"ms": 60_000}, "prompt_probabilities": [0.5]},
    ],
}


class Asked:
    """Who asks, and what came of it."""

    def __init__(self, room: Any, token_ids: Any) -> None:
        self.scores: list[PromptScores] = []
        self.ended: list[str] = []
        room.desk.scoring.ask(
            token_ids, self.scores.append, lambda: self.ended.append(""), self.ended.append
        )


def prompt_of(room: Any, message_id: str) -> PromptOf:
    found: list[PromptOf] = []
    room.desk.prompts.read(message_id, found.append, still=ALWAYS)
    room.until(lambda: found, "the prompt")
    return found[0]


def test_each_token_but_the_first_has_its_surprise_and_no_message_comes_of_it(
    make_room: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    room = make_room(SCRIPT).start_ready()
    reply = room.ask("Which city?")
    tokens = prompt_of(room, reply.id).tokens
    assert tokens is not None
    sent: list[Any] = []
    request = room.desk._engine.request
    monkeypatch.setattr(room.desk._engine, "request", lambda c: (sent.append(c), request(c))[1])
    before = room.desk.shelf.path
    asked = Asked(room, tokens.ids)
    room.until(lambda: asked.ended, "its end")
    assert asked.ended == [""]
    ids = [token_id for event in asked.scores for token_id in event.token_ids]
    assert ids == list(tokens.ids[1:])
    logprobs = [value for event in asked.scores for value in unpack(event.logprobs)]
    assert logprobs[:2] == pytest.approx([math.log(0.5), math.log(0.25)])
    assert room.desk.shelf.path == before
    assert [message.id for message in room.stored()] == [message.id for message in before]
    command, drop = sent
    assert drop == ChangeCache(0, "drop", words.CONVERSATION)
    assert isinstance(command, Generate)
    assert (command.conversation, command.max_tokens) == (words.CONVERSATION, 1)
    assert command.prompt == IdsPrompt(list(tokens.ids))
    assert reply.conversation_id != words.CONVERSATION
    again = Asked(room, tokens.ids)
    room.until(lambda: again.ended, "another time")
    assert again.ended == [""]


def test_it_is_refused_while_a_reply_is_written(make_room: Any) -> None:
    room = make_room(SLOW).start_ready()
    room.desk.replies.send("Go on")
    room.until(room.growing, "a reply")
    assert Asked(room, [1, 2]).ended == [words.BUSY]
    room.desk.replies.stop()
    room.until(room.ended_reply, "its end")
    asked = Asked(room, [1, 2])
    assert asked.ended == []
    assert Asked(room, [1, 2]).ended == [words.ALREADY]
    room.desk.scoring.stop()
    assert asked.ended == []


def test_it_gives_way_to_a_reply(make_room: Any) -> None:
    room = make_room(SLOW).start_ready()
    asked = Asked(room, [1, 2, 3])
    room.desk.replies.send("Go on")
    room.until(room.growing, "the reply")
    assert asked.ended == [words.ENDED_FOR_A_REPLY]
    assert not asked.scores


def test_whoever_stops_it_is_called_no_more_and_may_ask_again(make_room: Any) -> None:
    room = make_room(SLOW).start_ready()
    asked = Asked(room, [1, 2, 3])
    room.desk.scoring.stop()
    room.desk.scoring.stop()
    room.desk.replies.send("Go on")  # the engine is free again at once
    room.until(room.growing, "a reply")
    assert (asked.ended, asked.scores) == ([], [])


def test_a_prompt_of_one_token_and_a_missing_engine_are_said_at_once(make_room: Any) -> None:
    room = make_room({**SCRIPT, "load": {"fail": ["not_a_gguf", "No."]}})
    room.start()
    assert Asked(room, [1]).ended == [words.TOO_SHORT]
    assert Asked(room, [1, 2]).ended == [questions.NO_WEIGHTS]
    assert Asked(room, [1, 2]).ended == [questions.NO_WEIGHTS]


def test_what_ends_with_the_engine_is_said(make_room: Any) -> None:
    room = make_room(SLOW).start_ready()
    asked = Asked(room, [1, 2])
    room.desk.loader.unload()
    room.until(lambda: asked.ended, "its end")
    assert asked.ended == [questions.ENDED]


def cached(room: Any) -> set[str]:
    """Whose tokens the KV cache and the host memory hold."""
    found: list[Any] = []
    room.desk.questions.ask(ReadCache(0), CacheMap, found.append, pytest.fail, still=ALWAYS)
    room.until(lambda: found, "the cache")
    assert isinstance(found[0], CacheMap)
    return {each.conversation for each in (*found[0].slots, *found[0].parked)}


def test_it_leaves_nothing_in_the_cache(make_room: Any) -> None:
    room = make_room(SCRIPT).start_ready()
    reply = room.ask("Which city?")
    asked = Asked(room, [1, 2, 3])
    room.until(lambda: asked.ended, "its end")
    assert cached(room) == {reply.conversation_id}
    late = make_room(SLOW, read_only=True).start_ready()
    stopped = Asked(late, [1, 2, 3])
    late.desk.scoring.stop()
    late.until(lambda: not late.desk.questions._asked, "its end")
    assert cached(late) == set()
    assert stopped.ended == []
