"""text-generation-webui's chats: a JSON file each, in a folder of the character's.

`internal` is a list of pairs, what was asked and what was answered; `visible` the same as HTML.
`metadata` tells by `user_0`, `assistant_0` … times, versions and models. A greeting answers a
question of its own kind.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from app.chat.exchange.brought import shapes
from app.chat.exchange.brought.media import data_picture
from app.chat.exchange.brought.pieces import Cut, values
from app.chat.exchange.brought.places import Place
from app.chat.exchange.brought.steps import Said, Thought, without_thoughts
from app.chat.exchange.brought.told import Brought, Told
from app.chat.exchange.brought.trees import (
    Chat,
    File,
    Keys,
    Node,
    assembled,
    folder_of,
    made_id,
    versions_of,
)
from models.records import Role

APP: Final = "text-generation-webui"
GREETING: Final = "<|BEGIN-VISIBLE-CHAT|>"

_MODES: Final = ("chat", "instruct", "logs")
_NAMED: Final = "%Y%m%d-%H-%M-%S"


def claims(place: Place) -> Sequence[str]:
    return [
        name
        for name in place.named(".json")
        if not (look := place.look(name)).is_list
        and (look.has("internal", "visible") or look.has("data", "data_visible"))
    ]


def read(place: Place, names: Sequence[str]) -> Iterator[Brought]:
    folders: set[str] = set()
    for name in names:
        parts = name.split("/")[:-1]
        folder = parts[-1] if parts and parts[-1] not in _MODES else ""
        if folder and folder not in folders:
            folders.add(folder)
            yield folder_of(APP, folder, folder, None)
        told = Told(name)
        with place.open(name) as file:
            for value in values(file):
                if isinstance(value, Cut):
                    told.of(value.why)
                    value = value.value
                if isinstance(value, dict):
                    yield from _chat(value, name, place.changed_at(name), folder, told)
        yield from told.all()


def _chat(
    value: dict[str, Any], name: str, written_at: datetime | None, folder: str, told: Told
) -> Iterator[Brought]:
    base = name.rpartition("/")[2].removesuffix(".json")
    about = shapes.mapping(value.get("metadata"))
    created_at = _named_time(base)
    chat = Chat(
        APP,
        f"{folder} {base}",
        "" if created_at else base,
        created_at,
        folder_id=made_id(APP, "folder", folder) if folder else None,
    )
    pairs = shapes.listed(value.get("internal")) or shapes.listed(value.get("data"))
    keys = Keys()
    nodes: list[Node] = []
    for number, pair in enumerate(pairs):
        if not isinstance(pair, list) or len(pair) != 2:
            told.of("Entries that are no question and answer")
            continue
        for role, text in ((Role.USER, pair[0]), (Role.ASSISTANT, pair[1])):
            of = shapes.mapping(about.get(f"{role.value}_{number}"))
            above = next((node.key for node in reversed(nodes) if node.is_shown), None)
            if shapes.text(text).strip() not in ("", GREETING) or of.get("attachments"):
                nodes += _versions(shapes.text(text), role, of, folder, above, keys)
    chat.leaf = next((node.key for node in reversed(nodes) if node.is_shown), "")
    chat.tell_time(nodes, written_at)
    whole = assembled(chat, nodes, told.of)
    if whole is None:
        told.of("Chats without a message")
    else:
        yield whole


def _versions(
    text: str, role: Role, about: dict[str, Any], character: str, above: str | None, keys: Keys
) -> Iterator[Node]:
    versions = list(shapes.mappings(about.get("versions")))
    at = shapes.number(about.get("current_version_index"))
    texts = [shapes.text(version.get("content")) for version in versions]
    texts, chosen = versions_of(texts, text, at)
    for number, own in enumerate(texts):
        version = versions[number] if number < len(versions) else about
        node = Node(
            keys.of(role, own),
            above,
            role,
            created_at=_time(version.get("timestamp")) or _time(about.get("timestamp")),
            weights_name=shapes.line(version.get("model_name") or about.get("model_name")),
            author=character if role is Role.ASSISTANT and character != "Assistant" else "",
            files=list(_files(about)),
            is_shown=number == chosen,
        )
        if role is Role.ASSISTANT:
            steps = list(without_thoughts(own))
            node.reasoning = "\n\n".join(s.text for s in steps if isinstance(s, Thought))
            node.content = "".join(s.text for s in steps if isinstance(s, Said))
        else:
            node.content = own
        yield node


def _files(about: dict[str, Any]) -> Iterator[File]:
    for each in shapes.mappings(about.get("attachments")):
        name = shapes.line(each.get("name")) or "File"
        picture = data_picture(shapes.text(each.get("image_data")), name)
        yield picture if picture.read else File(name, shapes.text(each.get("content")))


def _time(value: object) -> datetime | None:
    """`Jan 05, 2025 14:03`, in English whatever the machine speaks."""
    months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
    if isinstance(value, str) and value[:3] in months and len(value) < 40:
        try:
            numbered = f"{months.index(value[:3]) + 1:02d}{value[3:]}"
            return datetime.strptime(numbered, "%m %d, %Y %H:%M").replace(tzinfo=UTC)
        except ValueError:
            return None
    return shapes.time(value)


def _named_time(base: str) -> datetime | None:
    """Files are called by when their chat began."""
    try:
        return datetime.strptime(base[:17], _NAMED).replace(tzinfo=UTC)
    except ValueError:
        return None
