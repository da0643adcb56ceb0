"""Reading what another app wrote, without a window or a store."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from app.chat.exchange.brought.formats import recognised
from app.chat.exchange.brought.places import opened_place
from app.chat.exchange.brought.told import NotUnderstood
from models.records import WholeConversation


class Read:
    """All that a place brings."""

    def __init__(self, path: Path) -> None:
        with opened_place(path) as place:
            found = recognised(place)
            self.apps = [each.format.app for each in found]
            self.all: list[Any] = [brought for each in found for brought in each.read(place)]
            self.chats = [each for each in self.all if isinstance(each, WholeConversation)]
            self.files = [dict(chat.files) for chat in self.chats]
        self.left_out = [each for each in self.all if isinstance(each, NotUnderstood)]

    @property
    def chat(self) -> WholeConversation:
        (chat,) = self.chats
        return chat

    @property
    def missing(self) -> dict[str, int]:
        counts: dict[str, int] = {}
        for each in self.left_out:
            counts[each.what] = counts.get(each.what, 0) + each.count
        return counts


@pytest.fixture
def read() -> Callable[[Path], Read]:
    return Read


def outline(chat: WholeConversation) -> list[str]:
    """The tree, a line a message: how deep, who, what."""
    depth: dict[str, int] = {}
    lines = []
    for message in chat.messages:
        depth[message.id] = 0 if message.parent_id is None else depth[message.parent_id] + 1
        lines.append(f"{depth[message.id]} {message.role}: {message.content}")
    return lines


@pytest.fixture(name="outline")
def outline_fixture() -> Callable[[WholeConversation], list[str]]:
    return outline
