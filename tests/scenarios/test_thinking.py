"""Thinking is switched by keys, on small real weights with a template that knows it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from gguf_writer import bpe_vocabulary, tiny_llama
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QMenu, QPlainTextEdit

TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n"
    "{% if enable_thinking is defined and not enable_thinking %}<think>\n\n</think>\n\n"
    "{% else %}<think>\n{% endif %}{% endif %}"
)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Weights that say “hm” for ever inside reasoning, and “Six” behind it."""
    vocabulary = bpe_vocabulary(["hm", "Six", "\n\n"])
    ids = vocabulary.id_of
    end = ids("<|im_end|>")
    successors = {ids("\n"): ids("hm"), ids("hm"): ids("hm"), ids(":"): ids("hm")}
    successors |= {ids("\n\n"): ids("Six"), ids("Six"): end}
    path = tmp_path / "thinker.gguf"
    tiny_llama(path, vocabulary=vocabulary, successors=successors, template=TEMPLATE)
    return path


@pytest.mark.weights
def test_thinking_is_limited_switched_off_and_begun_by_keys(open_window: Any, file: Path) -> None:
    person = open_window(None, "--gguf", str(file))
    person.wait_ready()
    desk, window = person.app.desk, person.window
    person.wait(lambda: desk.thinking.offer.choices == ["off", "on"])

    desk.thinking.limit_to(5)
    person.send("How many legs have ants?")
    limited = person.wait_ended()
    assert (limited.reasoning, limited.content) == ("hm" * 5, "Six")
    assert limited.settings["reasoning"] == {"n_tokens": 5, "limit": 5}

    keys = Qt.KeyboardModifier
    person.press(Qt.Key.Key_K, keys.ControlModifier | keys.AltModifier)
    menu = person.find(QMenu, "thinking_menu")
    person.wait(menu.isVisible)
    for _ in menu.actions():
        QTest.keyClick(menu, Qt.Key.Key_Down)
        if menu.activeAction().text() == "Off":
            break
    QTest.keyClick(menu, Qt.Key.Key_Return)
    person.wait(lambda: desk.thinking.chosen == "off")
    person.send("And bees?")
    off = person.wait_ended()
    assert (off.reasoning, off.content) == ("", "Six")
    assert off.rendered_prompt.endswith("assistant\n<think>\n\n</think>\n\n")

    # What is begun is reasoning, so it is on for this reply.
    window.action_registry.run("begin_reasoning")
    field = person.find(QPlainTextEdit, "reasoning_start")
    person.qtbot.keyClicks(field, "Legs:")
    QTest.keyClick(field, Qt.Key.Key_Return, Qt.KeyboardModifier.ControlModifier)
    person.wait(lambda: desk.thinking.thoughts == "Legs:")
    person.send("And flies?")
    begun = person.wait_ended()
    assert begun.reasoning.startswith("Legs:hm")
    assert begun.content == "Six"
    assert "assistant\n<think>\nLegs:" in begun.rendered_prompt + begun.reasoning
    assert desk.thinking.thoughts == ""
