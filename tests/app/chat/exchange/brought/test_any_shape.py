"""Whatever stands in an export, reading it ends in chats that hold together, or in words."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import foreign_exports as exports
import role_player_exports as players
from each import each
from examples import examples
from hypothesis import HealthCheck, given, settings, strategies as st

from models.records import Role

NAMES = (
    "conversations.json",
    "claude.json",
    "1.conversation.json",
    "chat-export.json",
    "messages.jsonl",
    "tavern.jsonl",
    "card.json",
    "webui.json",
    "session.json",
    "chatting.json",
)
ODD = [
    *(None, True, 7, -1, -1e300, "", "x", "\0", "\ud800", [], {}, [None], [[]], {"type": "text"}),
    *("1e999", "nan", 10**18, 10**400, "data:image/png;base64,é", "<think>", "{{[INPUT]}}"),
]


def samples(folder: Path) -> dict[str, Any]:
    """An export of each app, as values: by the name that its file has."""
    jan = exports.jan_folder(folder / "jan") / "threads" / "t1"
    lines = (jan / "messages.jsonl").read_text().split("\n")
    lm = exports.lm_folder(folder / "lm") / "conversations/Work/Old/1.conversation.json"
    return {
        "conversations.json": [exports.gpt_branches()],
        "claude.json": [exports.claude_branches()],
        "1.conversation.json": json.loads(lm.read_text()),
        "chat-export.json": [exports.webui_branches()],
        "messages.jsonl": [json.loads(line) for line in lines if line.startswith('{"')],
        "tavern.jsonl": [
            *(players.HEADER, players.GREETING, players.QUESTION, players.ANSWER),
            *(players.HIDDEN, players.NARRATED),
        ],
        "card.json": players.CARD,
        "webui.json": players.WEBUI_LOG,
        "session.json": players.SESSION,
        "chatting.json": players.CHATTING,
    }


def places(value: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The way to everything in a value."""
    inside = value.items() if isinstance(value, dict) else []
    inside = enumerate(value) if isinstance(value, list) else inside
    return [at, *(way for key, below in inside for way in places(below, (*at, key)))]


def changed(value: Any, way: tuple[Any, ...], new: Any) -> Any:
    value = copy.deepcopy(value)
    at = value
    for key in way[:-1]:
        at = at[key]
    at[way[-1]] = new
    return value


@each("name", NAMES)
def test_no_value_anywhere_is_a_fault(
    read: Callable[[Path], Any], tmp_path_factory: Any, name: str
) -> None:
    folder = tmp_path_factory.mktemp("any")
    sample = samples(folder)[name]
    ways = [way for way in places(sample) if len(way) > 1]
    path = folder / name

    def write(value: Any, lost: int) -> None:
        text = "\n".join(map(json.dumps, value)) if name.endswith("l") else json.dumps(value)
        path.write_text(text[: len(text) - lost])

    write(sample, 0)
    assert read(path).chats  # what is changed is one that is read

    @settings(max_examples=examples(60), suppress_health_check=list(HealthCheck))
    @given(
        changes=st.lists(st.tuples(st.sampled_from(ways), st.sampled_from(ODD)), max_size=3),
        lost=st.integers(0, 40),
    )
    def holds(changes: list[Any], lost: int) -> None:
        value = sample
        for way, new in changes:
            try:
                value = changed(value, way, new)
            except (KeyError, IndexError, TypeError):
                continue  # an earlier change took it away
        write(value, lost)
        for chat in read(path).chats:
            check(chat)

    holds()


def check(chat: Any) -> None:
    ids: set[str] = set()
    calls: set[str] = set()
    for message in chat.messages:
        assert message.parent_id is None or message.parent_id in ids
        assert message.id not in ids
        assert message.created_at.tzinfo is not None
        ids.add(message.id)
        calls |= {call["id"] for call in message.settings.get("tool_calls", ())}
        if message.role is Role.TOOL:
            assert message.settings["tool_call"]["id"] in calls
    assert chat.conversation.active_leaf_id in (ids or {None})
    assert chat.conversation.title
    attached = [a.id for message in chat.messages for a in message.attachments]
    assert len(set(attached)) == len(attached)
