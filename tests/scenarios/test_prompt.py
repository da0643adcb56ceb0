"""The exact prompt, looked at in the whole window, from the first click."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QLabel, QPushButton, QWidget

from ui.section.prompt.panel import PromptPanel

SCRIPT: dict[str, Any] = {
    "load": {"ms": 20},
    "replies": [
        {"text": "Paris, of course.", "prompt_probabilities": [0.5, 0.25, 0.001]},
        {"text": "Rome, I think.", "prompt_probabilities": [0.5, 0.25, 0.001]},
    ],
}


def open_panel(person: Any) -> PromptPanel:
    """As a user does: the panels, then their tab."""
    person.window.action_registry.run("toggle_section")
    section = person.wait(lambda: person.window.findChild(QWidget, "section"))
    titles = [section.tabs.tabText(at) for at in range(section.tabs.count())]
    section.tabs.setCurrentIndex(titles.index("Prompt"))
    panel: PromptPanel = person.wait(lambda: person.window.findChild(PromptPanel))
    return panel


def sentence(person: Any) -> str:
    return str(person.find(QLabel, "prompt_sentence").text())


def test_the_prompt_of_a_reply_its_surprise_and_its_difference(open_window: Any) -> None:
    person = open_window(SCRIPT)
    person.wait_ready()
    panel = open_panel(person)
    person.wait(lambda: sentence(person))  # nothing yet, and it says what to do
    person.send("Which city?")
    first = person.wait_ended()
    person.wait(lambda: sentence(person).startswith("The exact prompt"))
    assert panel._of.text == first.rendered_prompt
    person.send("And of Italy?")
    second = person.wait_ended()
    person.wait(lambda: panel._of.text == second.rendered_prompt and panel._of.is_given)
    note = person.find(QLabel, "prompt_note")

    person.click("prompt_surprise")
    person.wait(lambda: "Computed now" in note.text())
    assert note.text().startswith("Mean ")

    person.click("prompt_difference")
    person.wait(lambda: note.text().startswith("Same beginning"))
    n_same = len(first.rendered_prompt + first.content)
    assert panel._of.text[:n_same] == first.rendered_prompt + first.content
    assert f"Recorded as cached: {second.counts.reused}" in note.text()
    assert f"Same beginning: {second.counts.reused} tokens" in note.text()
    assert len(person.app.desk.shelf.path) == 4


def test_what_is_sent_is_what_was_shown_as_the_next_prompt(open_window: Any) -> None:
    person = open_window(SCRIPT)
    person.wait_ready()
    panel = open_panel(person)
    person.click("prompt_of_next")
    person.wait(lambda: "Write a message" in sentence(person))
    person.type("Which city?")
    person.wait(lambda: "Which city?" in panel._of.text)
    shown = panel._of
    person.press(Qt.Key.Key_Return)
    assert person.wait_ended().rendered_prompt == shown.text
    person.wait(lambda: "Paris" in panel._of.text)  # what would come next has grown


def test_the_prompt_of_a_reply_from_an_earlier_day(open_window: Any) -> None:
    person = open_window(SCRIPT)
    person.wait_ready()
    person.send("Which city?")
    prompt = person.wait_ended().rendered_prompt
    person.app.close()

    again = open_window(SCRIPT)
    again.wait_ready()
    again.wait(lambda: len(again.app.desk.shelf.path) == 2)
    panel = open_panel(again)
    again.wait(lambda: sentence(again).startswith("The exact prompt"))
    assert panel._of.text == prompt
    assert again.find(QPushButton, "prompt_surprise").isEnabled()


@pytest.mark.weights
def test_surprise_is_had_between_two_turns_and_costs_the_chat_nothing(
    open_window: Any, starter_gguf: Path
) -> None:
    person = open_window(None, "--gguf", str(starter_gguf))
    desk = person.app.desk
    for name, value in {"n_threads": 1, "seed": 7, "temperature": 0.0, "max_tokens": 12}.items():
        desk.settings.set(name, value)
    person.wait_ready()
    panel = open_panel(person)
    person.send("What is the capital of France?")
    first = person.wait_ended()
    person.wait(lambda: panel._of.is_given)
    assert panel._of.text == first.rendered_prompt
    assert panel._of.tokens is not None
    assert len(panel._of.tokens) == first.counts.prompt_tokens
    note = person.find(QLabel, "prompt_note")
    person.click("prompt_surprise")
    person.wait(lambda: "Computed now" in note.text())
    surprise = panel._surprise
    assert surprise is not None
    assert surprise.n_known == len(panel._of.tokens) - 1
    # “assistant” after the opening of a turn surprises nobody, the question does.
    text = panel._of.text.encode()
    question = next(p for p in panel._of.tokens.parts if p.origin == "user")
    template = panel._of.tokens.parts[-1]
    assert text.endswith(b"<|im_start|>assistant\n")
    asked = surprise.mean(question.start, question.end)
    opening = surprise.mean(template.start + 2, template.end)
    assert asked is not None
    assert opening is not None
    assert opening < 1 < asked

    person.send("And of Italy?")
    second = person.wait_ended()
    # All of the first turn but the reply's last token, which was never decoded.
    assert second.counts.reused >= first.counts.prompt_tokens + first.counts.generated - 1
    person.wait(lambda: panel._of.is_given and panel._of.text == second.rendered_prompt)
    person.click("prompt_difference")
    person.wait(lambda: note.text().startswith("Same beginning"))
    assert f"Recorded as cached: {second.counts.reused}" in note.text()
