"""The choice of a projector for one model."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pytestqt.qtbot import QtBot

from app.chat.weights.load_settings import NO_PROJECTOR
from app.gguf.local.projecting import Projector
from app.gguf.projector import ProjectorFacts
from ui.library.defaults.projector_list import EFFECT, NEEDS_ONE, ProjectorList
from ui.look.theme import Theme

FACTS = ProjectorFacts("gemma3", True, True, (64,))
BEST = Projector(Path("/m/mmproj-F16.gguf"), 900_000_000, FACTS, "F16")
OTHER = Projector(Path("/m/mmproj-F32.gguf"), 1_800_000_000, FACTS, "F32")


@pytest.fixture
def kept() -> dict[str, Any]:
    return {}


def made(theme: Theme, qtbot: QtBot, kept: dict[str, Any], *found: Projector) -> ProjectorList:
    def keep(name: str, value: object) -> str:
        if value == str(OTHER.path):
            return "Not kept."
        kept[name] = value
        return ""

    desk: Any = SimpleNamespace(
        defaults=SimpleNamespace(value=lambda path, name: kept.get(name, "")),
        projectors=SimpleNamespace(
            of=lambda path: found[:1],
            choices=lambda path: found,
            may_need_one=lambda path: not found,
        ),
    )
    shown = ProjectorList(desk, theme, keep)
    qtbot.addWidget(shown)
    shown.show()
    shown.show_path("/m/large.gguf")
    return shown


def rows(shown: ProjectorList) -> list[str]:
    return [shown.list.item(at).text() for at in range(shown.list.count())]


def test_the_best_another_or_none(theme: Theme, qtbot: QtBot, kept: dict[str, Any]) -> None:
    shown = made(theme, qtbot, kept, BEST, OTHER)
    assert rows(shown) == [
        "Automatic: mmproj-F16.gguf · 900 MB",
        "None",
        "mmproj-F16.gguf · 900 MB · sees pictures and hears",
        "mmproj-F32.gguf · 1.8 GB · sees pictures and hears",
    ]
    assert shown.list.currentRow() == 0
    assert not shown.get_button.isVisible()
    shown.list.setCurrentRow(1)
    assert kept == {"projector": NO_PROJECTOR}
    shown.list.setCurrentRow(3)
    assert shown.words.text() == "Not kept."
    shown.list.setCurrentRow(2)
    assert (kept, shown.words.text()) == ({"projector": str(BEST.path)}, EFFECT)
    shown._take_file("/elsewhere/mmproj.gguf")
    assert rows(shown)[-1] == "mmproj.gguf"
    assert shown.list.currentRow() == 4


def test_where_there_is_none_one_can_be_had(
    theme: Theme, qtbot: QtBot, kept: dict[str, Any]
) -> None:
    shown = made(theme, qtbot, kept)
    assert rows(shown) == ["Automatic: none was found", "None"]
    assert NEEDS_ONE in shown.words.text()
    with qtbot.waitSignal(shown.get_requested) as asked:
        shown.get_button.click()
    assert asked.args == ["/m/large.gguf"]
