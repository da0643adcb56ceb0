"""The whole window with llama.cpp and the included weights, once from end to end."""

from __future__ import annotations

import pytest

from app.insight.trace.tokens_shown import visible
from ui.section.sampling.chain_room import ChainRoom

pytestmark = pytest.mark.weights


def test_the_included_weights_answer_and_remember(open_window):
    """A first run: nothing is configured, a question is typed at once, weights come after it."""
    person = open_window()
    person.app.desk.settings.set("n_threads", 1)  # several wait for each other on a busy machine
    person.app.desk.settings.set("temperature", 0.0)  # by chance it may say something else
    person.send("What is the capital of France?")
    person.qtbot.waitUntil(
        lambda: not person.app.desk.replies.is_generating and person.reply() is not None,
        timeout=90_000,
    )
    reply = person.reply()
    assert "Paris" in reply.content
    assert reply.state == "complete"
    assert reply.weights_name == "SmolLM2 135M (included)"
    assert reply.counts.generated
    assert reply.counts.prompt_tokens > 10
    assert reply.seed is not None

    person.app.desk.settings.set("max_tokens", 4)
    person.send("And of Italy?")
    person.qtbot.waitUntil(lambda: not person.app.desk.replies.is_generating, timeout=60_000)
    second = person.reply()
    assert second.stop_reason == "max_tokens"
    assert second.counts.reused >= reply.counts.prompt_tokens, (
        "the next turn reads only what is new"
    )


def test_each_token_s_sampling_is_shown_as_it_was(open_window):
    """Every token of a reply: what its stages left becomes fewer and fewer, and where the mark of
    the draw is shown it stands on the token that was drawn."""
    person = open_window()
    person.wait(lambda: person.app.desk.loader.state.state != "loading")
    desk = person.app.desk
    for name, value in {"n_threads": 1, "seed": 7, "temperature": 1.2, "max_tokens": 16}.items():
        desk.settings.set(name, value)
    desk.settings.set("section_panel", "Sampling")
    person.window.section_acts.show(True)
    person.send("What is the capital of France, and what is it known for?")
    person.qtbot.waitUntil(
        lambda: not desk.replies.is_generating and person.reply() is not None, timeout=90_000
    )
    looking = person.window.section_acts.looking()
    person.wait(lambda: len(looking.traces) > 5 and looking.words is not None)
    room = person.find(ChainRoom, "chain_room")
    marks = 0
    for at, token in enumerate(looking.traces):
        looking.select(at)
        views = [card.evidence for card in room.chain.cards]
        assert all(view.isVisible() for view in views)
        left = [int(view.left.text().split(" ")[0].replace(",", "")) for view in views]
        assert left == sorted(left, reverse=True)
        assert left[:2] == [49_152, 40]
        for view in views:
            (drawn,) = [bar for bar in view.bars.bars if bar.is_drawn] or [view.bars.bars[0]]
            assert sum(bar.share for bar in view.bars.bars) <= 1 + 1e-3
            assert drawn.share > 0
        mark = views[-1].mark
        if mark.isVisible():
            (hit,) = [s for s in mark.segments if s.start <= mark.uniform < s.end]
            assert hit.is_drawn
            assert hit.name == visible(token.piece)
            marks += 1
    assert marks == len(looking.traces)


def test_a_file_that_is_no_weights_costs_nothing(open_window, made_gguf, tmp_path):
    """The working weights stay while a text file called .gguf is refused."""
    notes = tmp_path / "notes.gguf"
    notes.write_text("just a few words")
    person = open_window(None, "--gguf", str(made_gguf))
    desk = person.app.desk
    person.wait_ready()
    desk.loader.load(str(notes))
    toasts = person.app.window.chat.toasts
    person.qtbot.waitUntil(lambda: bool(toasts.cards()), timeout=10_000)
    sentence = toasts.cards()[0].notice.sentence
    assert "“notes.gguf” is a text file" in sentence
    assert "“made” stays loaded." in sentence
    assert desk.loader.state.state == "ready"
