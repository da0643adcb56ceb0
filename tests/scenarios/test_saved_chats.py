"""The window is closed in a long chat, and opened again: it goes on as if it had not been."""

from __future__ import annotations

from typing import Any

import pytest

from app.chat.surroundings import ALWAYS
from app.engine.protocol.cache_messages import CacheMap
from models.records import Message

pytestmark = pytest.mark.weights

LINE = "The lighthouse keeper counted the ships, wrote their names into his book, and slept. "


def told(person: Any) -> CacheMap:
    answers: list[Any] = []
    person.app.desk.cache.read(answers.append, answers.append, still=ALWAYS)
    person.wait(lambda: answers)
    assert isinstance(answers[0], CacheMap), answers
    return answers[0]


def send(person: Any, text: str, patience_ms: int = 20_000) -> Message:
    desk = person.app.desk
    assert desk.replies.send(text)
    person.qtbot.waitUntil(
        lambda: not desk.replies.is_generating and person.reply() is not None, timeout=patience_ms
    )
    reply = person.reply()
    assert isinstance(reply, Message)
    return reply


def check_reopened(open_window: Any, gguf: Any, n_lines: int, patience_ms: int) -> None:
    def begin() -> Any:
        person = open_window(None, "--gguf", str(gguf))
        person.wait_ready()
        for name, value in (("max_tokens", 8), ("min_tokens", 8), ("temperature", 0.0)):
            person.app.desk.settings.set(name, value)
        return person

    person = begin()
    first = send(person, LINE * n_lines, patience_ms)
    unclosed = send(person, "And then?")
    person.app.close()
    person = begin()
    person.wait(lambda: len(person.app.desk.shelf.path) == 4)
    person.wait(lambda: told(person).parked)  # it was read as the chat came on screen
    reply = send(person, "And then?")
    assert reply.settings["reuse_source"] == "saved"
    assert reply.counts.reused >= first.counts.prompt_tokens
    assert reply.counts.evaluated <= unclosed.counts.evaluated
    print(
        f"{reply.counts.reused:,} tokens came back; first token {reply.counts.first_token_s:.3f} s "
        f"in the window that was opened again, {unclosed.counts.first_token_s:.3f} s before it was "
        f"closed, {first.counts.first_token_s:.2f} s unread"
    )


@pytest.mark.soak
def test_a_chat_of_two_thousand_tokens_goes_on_after_a_restart(
    open_window: Any, starter_gguf: Any
) -> None:
    check_reopened(open_window, starter_gguf, 112, 240_000)


def test_a_second_window_beside_it_shows_what_is_saved(open_window: Any, made_gguf: Any) -> None:
    """It may only read: nothing that it does removes a file."""
    first = open_window(None, "--gguf", str(made_gguf))
    first.wait_ready()
    first.app.desk.settings.set("max_tokens", 4)
    send(first, LINE * 2)
    first.app.desk.loader.unload()  # what is unloaded is saved
    folder = first.app.desk.data_dir / "kv"
    first.wait(lambda: list(folder.glob("*.kv")))
    before = sorted(folder.iterdir())
    second = open_window(None, "--gguf", str(made_gguf))
    second.wait_ready()
    second.wait(lambda: told(second).saved)
    second.app.desk.saved_chats.drop_all()
    second.app.desk.settings.set("saved_chats_mb", 0)
    second.app.close()
    assert sorted(folder.iterdir()) == before
