"""Speculative decoding from the palette: each way is an action, and sets the open chat."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from PySide6.QtWidgets import QWidget
from pytestqt.qtbot import QtBot

from ui.chat.drafting_acts import add_drafting_actions
from ui.shell.actions import Actions


def test_each_way_is_an_action_of_the_chat(qtbot: QtBot) -> None:
    window = QWidget()
    qtbot.addWidget(window)
    set_now: dict[str, str] = {"drafts": "off"}

    def change(level: str, name: str, value: str) -> None:
        assert level == "chat"
        set_now[name] = value

    loaded = SimpleNamespace(draft="")
    desk: Any = SimpleNamespace(
        levels=SimpleNamespace(
            change=change,
            resolved=lambda: SimpleNamespace(settings=SimpleNamespace(**set_now)),
        ),
        loader=SimpleNamespace(remote=None, loaded=loaded),
    )
    actions = Actions(window)
    add_drafting_actions(desk, actions)
    actions.run("drafts_lookup")
    assert set_now == {"drafts": "lookup"}
    checked = {each.name: each.is_checked() for each in actions if each.is_checked is not None}
    assert checked == {"drafts_off": False, "drafts_lookup": True, "drafts_model": False}
    actions.run("drafts_model")  # none is loaded
    assert set_now == {"drafts": "lookup"}
    loaded.draft = "small.gguf"
    actions.run("drafts_model")
    assert set_now == {"drafts": "model"}
