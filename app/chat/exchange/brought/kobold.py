"""KoboldCpp's and KoboldAI's saved sessions: one JSON file, which is one text.

`prompt` and `actions` in a row are the text. What it is depends on the mode: in instruct mode turns
stand behind marks (`{{[INPUT]}}`, `{{[OUTPUT]}}`), in chat mode behind names at the beginnings of
lines; stories and adventures are text, and become a text document. `memory` is the system prompt.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, Final

from app.chat.exchange.brought import shapes
from app.chat.exchange.brought.pieces import Cut, values
from app.chat.exchange.brought.places import Place
from app.chat.exchange.brought.steps import Said, Thought, without_thoughts
from app.chat.exchange.brought.told import Brought, Told
from app.chat.exchange.brought.trees import Chat, Keys, Node, assembled, linked
from models.records import ConversationKind, Role

APP: Final = "KoboldCpp"
MAX_TURNS: Final = 100_000
"""One is at least 12 characters in the file and a kilobyte here; what follows stays in the last."""

_CHAT, _INSTRUCT = 3, 4
_MARK: Final = re.compile(r"\n?\{\{\[(INPUT|OUTPUT|SYSTEM)(?:_END)?\]\}\}\n?")
_PICTURE: Final = re.compile(r"\[<\|[a-z]\|[^|\]]{0,2000}\|[a-z]\|>\]")
_ROLES: Final = {"INPUT": Role.USER, "OUTPUT": Role.ASSISTANT, "SYSTEM": Role.SYSTEM}
_DROPPED: Final = (
    ("authorsnote", "Author's notes"),
    ("worldinfo", "World info"),
    ("documentdb_data", "Documents of the session"),
)


def claims(place: Place) -> Sequence[str]:
    return [
        name
        for name in place.named(".json")
        if not (look := place.look(name)).is_list
        and look.has("gamestarted")
        and look.keys & {"actions", "prompt", "memory"}
    ]


def read(place: Place, names: Sequence[str]) -> Iterator[Brought]:
    for name in names:
        told = Told(name)
        with place.open(name) as file:
            for value in values(file):
                if isinstance(value, Cut):
                    told.of(value.why)
                    value = value.value
                if isinstance(value, dict):
                    yield from _session(value, name, place.changed_at(name), told)
        yield from told.all()


def _session(
    value: dict[str, Any], name: str, written_at: datetime | None, told: Told
) -> Iterator[Brought]:
    settings = shapes.mapping(value.get("savedsettings"))
    base = name.rpartition("/")[2].removesuffix(".json")
    for field, what in _DROPPED:
        if value.get(field):
            told.of(what)
    actions = shapes.listed(value.get("actions"))
    text = "".join(map(shapes.text, (value.get("prompt"), *actions)))
    text, n_pictures = _PICTURE.subn("", text)
    told.of("Pictures of the session", n_pictures)
    title = shapes.line(settings.get("title")) or base
    memory = shapes.text(value.get("memory")).strip()
    chat = Chat(APP, f"{base} {Keys().of(text[:2000])}", title, None, written_at, memory)
    keys = Keys()
    mode = shapes.number(settings.get("opmode"))
    turns: list[tuple[Role, str, str]] = []
    if mode == _INSTRUCT or _MARK.search(text):
        turns = list(_instructed(_unmarked(text, settings)))
    elif mode == _CHAT:
        turns = list(_chatted(text, settings))
    if turns:
        nodes = linked(_node(keys, *turn) for turn in turns)
        whole = assembled(chat, nodes, told.of)
    else:
        whole = assembled(chat, [Node(keys.of(text), None, Role.USER, text)], told.of)
        if whole is not None:
            as_text = replace(whole.conversation, kind=ConversationKind.TEXT)
            whole = replace(whole, conversation=as_text)
    if whole is None:
        told.of("Sessions without a text")
    else:
        yield whole


def _node(keys: Keys, role: Role, text: str, author: str) -> Node:
    steps = list(without_thoughts(text)) if role is Role.ASSISTANT else [Said(text)]
    return Node(
        keys.of(role, text),
        None,
        role,
        "".join(step.text for step in steps if isinstance(step, Said)).strip(),
        "\n\n".join(step.text for step in steps if isinstance(step, Thought)),
        author=author if role is Role.ASSISTANT else "",
    )


def _unmarked(text: str, settings: dict[str, Any]) -> str:
    """Older sessions have the tags themselves where newer ones have marks."""
    for field, mark in (("instruct_starttag", "INPUT"), ("instruct_endtag", "OUTPUT")):
        tag = shapes.text(settings.get(field)).strip()
        if len(tag) > 2 and "{{[" not in tag:
            text = text.replace(tag, "{{[" + mark + "]}}")
    return text


def _instructed(text: str) -> Iterator[tuple[Role, str, str]]:
    parts = _MARK.split(text, MAX_TURNS)
    if parts[0].strip():
        yield Role.ASSISTANT if len(parts) > 1 else Role.USER, parts[0], ""
    for mark, said in zip(parts[1::2], parts[2::2], strict=True):
        if said.strip():
            yield _ROLES[mark], said, ""


def _chatted(text: str, settings: dict[str, Any]) -> Iterator[tuple[Role, str, str]]:
    """Turns begin a line with a name; several that may answer are written `Ada||$||Bob`."""
    own = shapes.line(settings.get("chatname")) or "You"
    others = shapes.line(settings.get("chatopponent")).split("||$||")
    names = [name for name in (own, *others) if name]
    begin = re.compile(rf"^({'|'.join(map(re.escape, names))}) ?:[ \t]?", re.M)
    parts = begin.split(text, MAX_TURNS)
    if parts[0].strip() and len(parts) > 1:
        yield Role.SYSTEM, parts[0], ""
    for name, said in zip(parts[1::2], parts[2::2], strict=True):
        if said.strip():
            yield Role.USER if name == own else Role.ASSISTANT, said, name
