"""The whole window with llama.cpp and the included weights, once from end to end."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.weights


def test_the_included_weights_answer_and_remember(open_window):
    """A first run: nothing is configured, a question is typed at once, weights come after it."""
    person = open_window()
    person.send("What is the capital of France?")
    person.qtbot.waitUntil(
        lambda: not person.app.desk.is_generating and person.reply() is not None, timeout=90_000
    )
    reply = person.reply()
    assert "Paris" in reply.content
    assert reply.state == "complete"
    assert reply.weights_name == "SmolLM2 135M (included)"
    assert reply.counts.generated
    assert reply.counts.prompt_tokens > 10
    assert reply.seed is not None

    person.app.desk.set_setting("max_tokens", 4)
    person.send("And of Italy?")
    person.qtbot.waitUntil(lambda: not person.app.desk.is_generating, timeout=60_000)
    second = person.reply()
    assert second.stop_reason == "max_tokens"
    assert second.counts.reused >= reply.counts.prompt_tokens, (
        "the next turn reads only what is new"
    )


def test_a_file_that_is_no_weights_costs_nothing(open_window, tmp_path):
    """The working weights stay while a text file called .gguf is refused."""
    notes = tmp_path / "notes.gguf"
    notes.write_text("just a few words")
    person = open_window()
    desk = person.app.desk
    person.qtbot.waitUntil(lambda: desk.engine_state.state == "ready", timeout=60_000)
    desk.load_weights(str(notes))
    toasts = person.app.window.chat.toasts
    person.qtbot.waitUntil(lambda: bool(toasts.cards()), timeout=10_000)
    sentence = toasts.cards()[0].notice.sentence
    assert "“notes.gguf” is a text file" in sentence
    assert "“SmolLM2 135M (included)” stays as it is." in sentence
    assert desk.engine_state.state == "ready"
