"""The choice of a draft model: it is kept, and speculative decoding follows it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from pytestqt.qtbot import QtBot

from app.chat.weights.draft_partners import EFFECT, DraftCandidate, Partners
from ui.library.defaults.draft_list import DraftList
from ui.look.theme import Theme

SMALL = DraftCandidate("/small.gguf", "small", 1_000_000)


@pytest.fixture
def kept() -> dict[str, Any]:
    return {}


@pytest.fixture
def drafts(theme: Theme, qtbot: QtBot, kept: dict[str, Any]) -> DraftList:
    def resolved(path: str) -> Any:
        return SimpleNamespace(settings=SimpleNamespace(drafts=kept.get("drafts", "off")))

    def keep(name: str, value: object) -> str:
        if value == "/refused.gguf":
            return "Not kept."
        kept[name] = value
        return ""

    desk: Any = SimpleNamespace(
        defaults=SimpleNamespace(
            value=lambda path, name: kept.get(name, ""),
            resolved=resolved,
            reset=lambda path, names: [kept.pop(name) for name in names],
        ),
        partners=SimpleNamespace(
            find=lambda path, then: then(
                Partners((SMALL, DraftCandidate("/refused.gguf", "other", 5)))
            )
        ),
        loader=SimpleNamespace(name_of=str),
    )
    shown = DraftList(desk, theme, keep)
    qtbot.addWidget(shown)
    shown.show()
    shown.show_path("/large.gguf")
    return shown


def test_the_choice_turns_it_on_and_none_turns_it_off(
    drafts: DraftList, kept: dict[str, Any]
) -> None:
    assert drafts.words.text() == EFFECT
    drafts.list.setCurrentRow(1)
    assert kept == {"draft": "/small.gguf", "drafts": "model"}
    drafts.list.setCurrentRow(0)
    assert kept == {"draft": ""}


def test_none_leaves_a_lookup_as_it_is(drafts: DraftList, kept: dict[str, Any]) -> None:
    kept |= {"draft": "/small.gguf", "drafts": "lookup"}
    drafts.show_path("/large.gguf")
    drafts.list.setCurrentRow(0)
    assert kept == {"draft": "", "drafts": "lookup"}


def test_what_cannot_be_kept_is_said(drafts: DraftList, kept: dict[str, Any]) -> None:
    drafts.list.setCurrentRow(2)
    assert kept == {}
    assert drafts.words.text() == "Not kept."
