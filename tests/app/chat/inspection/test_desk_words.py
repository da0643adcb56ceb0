"""The words of the loaded weights: read when asked for, once, and only for their own replies."""

from __future__ import annotations

from typing import Any

from app.chat import events
from app.engine.protocol.messages import ReadVocabulary

SCRIPT: dict[str, Any] = {"replies": [{"text": "blue sky"}]}


def test_ids_of_a_reply_have_words_once_they_were_asked_for(make_room, monkeypatch):
    room = make_room(SCRIPT).start_ready()
    reply = room.ask("Colour?")
    asked: list[ReadVocabulary] = []
    request = room.desk._engine.request

    def spy(command: Any) -> int:
        asked.extend([command] if isinstance(command, ReadVocabulary) else [])
        return int(request(command))

    monkeypatch.setattr(room.desk._engine, "request", spy)
    assert reply.weights_hash
    assert room.desk.words.of(reply.weights_hash) is None
    for _ in range(3):
        room.desk.words.read()
    room.until(lambda: room.of(events.VocabularyRead), "the vocabulary")
    room.desk.words.read()
    assert len(asked) == 1
    words = room.desk.words.of(reply.weights_hash)
    assert "".join(words.text(i) for i in reply.token_ids) == "blue sky"
    assert room.desk.words.of("others") is None
    assert room.desk.words.of(None) is None


def test_a_growing_trace_is_the_one_that_grows(make_room):
    slow = {"replies": [{"tokens": [{"text": "on ", "ms": 5, "repeat": 400}]}]}
    room = make_room(slow).start_ready()
    room.desk.replies.send("Go")
    room.until(lambda: len(room.of(events.TokenRecorded)) > 3, "some tokens")
    message_id = room.of(events.TokenRecorded)[-1].message_id
    trace = room.desk.growing.trace_of(message_id)
    before = len(trace)
    room.until(lambda: len(trace) > before, "more of it")
    room.desk.replies.stop()
    room.until(lambda: room.desk.growing.trace_of(message_id) is None, "its end")
    assert len(trace) == len(room.of(events.TokenRecorded))
