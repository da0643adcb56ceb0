"""LM Studio's chats: a folder of `….conversation.json`, in folders of the user's, or one of them.

Messages stand in a list; each has `versions`, of which one is selected, and what follows belongs to
that one. A reply's version has `steps`: blocks of content (of which some are styled as thinking),
calls of tools and their results, and notes for LM Studio itself. Messages have no ids, so they are
known by what they say.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from functools import partial
from typing import Any, Final

from app.chat.exchange.brought import shapes
from app.chat.exchange.brought.media import picture_type, read_picture
from app.chat.exchange.brought.pieces import Cut, values
from app.chat.exchange.brought.places import Place
from app.chat.exchange.brought.steps import (
    Called,
    Result,
    Said,
    Step,
    Thought,
    stepped,
    without_thoughts,
)
from app.chat.exchange.brought.told import Brought, Told
from app.chat.exchange.brought.trees import (
    Chat,
    File,
    Keys,
    Node,
    assembled,
    folder_of,
    made_id,
    tool_call,
)
from app.engine.protocol.tool_messages import ToolCall
from models.records import Role

APP: Final = "LM Studio"
_MARKS: Final = frozenset(
    {
        "systemPrompt",
        "tokenCount",
        "usePerChatPredictionConfig",
        "perChatPredictionConfig",
        "preset",
    }
)
_SILENT: Final = frozenset({"debugInfoBlock", "status", "toolStatus"})
_SYSTEM_PROMPT: Final = "llm.prediction.systemPrompt"
_ROLES: Final = {role.value: role for role in Role}


def claims(place: Place) -> Sequence[str]:
    return [
        name
        for name in place.named(".json")
        if not (look := place.look(name)).is_list
        and look.has("messages", "createdAt")
        and look.keys & _MARKS
    ]


def read(place: Place, names: Sequence[str]) -> Iterator[Brought]:
    files = {entry.base: entry.name for entry in place.entries}
    folders: set[str] = set()
    for name in names:
        told = Told(name)
        folder = _folder(name)
        for depth in range(1, len(folder) + 1):
            path = "/".join(folder[:depth])
            if path not in folders:
                folders.add(path)
                yield folder_of(APP, path, folder[depth - 1], None, "/".join(folder[: depth - 1]))
        with place.open(name) as file:
            for value in values(file):
                if isinstance(value, Cut):
                    told.of(value.why)
                    value = value.value
                if isinstance(value, dict) and value.get("messages"):
                    yield from _chat(value, name, folder, _Files(place, files), told)
                else:
                    told.of("Chats without a message")
        yield from told.all()


def _folder(name: str) -> list[str]:
    """The user's own folders around a chat, the outermost first."""
    parts = name.split("/")[:-1]
    return parts[parts.index("conversations") + 1 :] if "conversations" in parts else parts


class _Files:
    def __init__(self, place: Place, files: dict[str, str]) -> None:
        self._place = place
        self._files = files

    def changed_at(self, name: str) -> datetime | None:
        return self._place.changed_at(name)

    def file(self, part: dict[str, Any]) -> File:
        entry = self._files.get(shapes.text(part.get("fileIdentifier")))
        name = shapes.line(part.get("fileName") or part.get("fileIdentifier")) or "File"
        if entry is not None and (kind := picture_type(self._place.head(entry, 64))):
            return File(name, media_type=kind, read=partial(read_picture, self._place, entry))
        return File(name)


def _chat(
    value: dict[str, Any], name: str, folder: list[str], files: _Files, told: Told
) -> Iterator[Brought]:
    created = value.get("createdAt")
    fields = shapes.mappings(shapes.mapping(value.get("perChatPredictionConfig")).get("fields"))
    own = next((f.get("value") for f in fields if f.get("key") == _SYSTEM_PROMPT), "")
    times = [
        shapes.time(value.get(each)) for each in ("assistantLastMessagedAt", "userLastMessagedAt")
    ]
    chat = Chat(
        APP,
        shapes.key(created) or name.rpartition("/")[2],
        shapes.line(value.get("name")),
        shapes.time(created) or files.changed_at(name),
        max((time for time in times if time is not None), default=None),
        shapes.text(value.get("systemPrompt")) or shapes.text(own),
        is_pinned=value.get("pinned") is True,
        folder_id=made_id(APP, "folder", "/".join(folder)) if folder else None,
    )
    told.where = chat.title or name
    last = shapes.mapping(value.get("lastUsedModel"))
    nodes = list(_nodes(value, files, told))
    for node in nodes:
        if node.role is Role.ASSISTANT and not node.weights_name:
            node.weights_name = shapes.line(last.get("identifier"))
    chat.leaf = _leaf(nodes)
    whole = assembled(chat, nodes, told.of)
    if whole is None:
        told.of("Chats without a message")
    else:
        yield whole


def _leaf(nodes: list[Node]) -> str:
    """The last one that is selected: the only ones that something hangs below, and the last."""
    chosen = [node for node in nodes if node.is_shown]
    return chosen[-1].key if chosen else ""


def _nodes(value: dict[str, Any], files: _Files, told: Told) -> Iterator[Node]:
    keys = Keys()
    above: str | None = None
    for message in shapes.listed(value.get("messages")):
        versions = list(shapes.mappings(shapes.mapping(message).get("versions")))
        if not versions and isinstance(message, dict) and "content" in message:
            versions = [message]  # of the first releases
        at = shapes.number(shapes.mapping(message).get("currentlySelected"))
        selected = int(at) if at is not None and 0 <= at < len(versions) else len(versions) - 1
        below = above
        for number, version in enumerate(versions):
            nodes = _version(version, above, keys, files, told)
            for node in nodes:
                node.is_shown = number == selected
            if number == selected and nodes:
                below = nodes[-1].key
            yield from nodes
        above = below


def _version(
    version: dict[str, Any], above: str | None, keys: Keys, files: _Files, told: Told
) -> list[Node]:
    role = _ROLES.get(shapes.text(version.get("role")))
    attached: list[File] = []
    steps: list[Step] = []
    model = shapes.line(shapes.mapping(version.get("senderInfo")).get("senderName"))
    for part in _parts(version.get("content")):
        steps += _part(part, files, attached, told)
    for step in shapes.mappings(version.get("steps")):
        kind = shapes.text(step.get("type"))
        if kind != "contentBlock":
            if kind not in _SILENT:
                told.of(f"Steps of the kind “{shapes.line(kind) or 'none'}”")
            continue
        made_by = shapes.mapping(step.get("genInfo"))
        model = (
            shapes.line(made_by.get("identifier") or made_by.get("indexedModelIdentifier")) or model
        )
        is_thought = shapes.mapping(step.get("style")).get("type") == "thinking"
        said = [
            s for part in _parts(step.get("content")) for s in _part(part, files, attached, told)
        ]
        text = "".join(each.text for each in said if isinstance(each, Said))
        if is_thought:
            steps.append(Thought(_untagged(text)))
        elif text.strip():
            steps += without_thoughts(text)
        steps += [each for each in said if not isinstance(each, Said)]
    if role is None:
        told.of(f"Messages by “{shapes.line(version.get('role')) or 'nobody'}”")
        return []
    node = Node(keys.of(role, repr(steps)), above, role, weights_name=model, files=attached)
    if role is Role.ASSISTANT:
        return stepped(node, steps)
    node.content = "".join(step.text for step in steps if isinstance(step, Said))
    return [node]


def _untagged(text: str) -> str:
    return text.strip().removeprefix("<think>").removesuffix("</think>").strip("\n")


def _parts(content: object) -> Iterator[dict[str, Any]]:
    if isinstance(content, str):
        yield {"type": "text", "text": content}
    else:
        yield from shapes.mappings(content)


def _part(part: dict[str, Any], files: _Files, attached: list[File], told: Told) -> Iterator[Step]:
    match shapes.text(part.get("type")):
        case "text":
            yield Said(shapes.text(part.get("text")))
        case "file":
            attached.append(files.file(part))
        case "toolCallRequest":
            yield Called(_call(part, part.get("parameters") or part.get("arguments")))
        case "toolCallResult":
            result = part.get("content")
            yield Result(_call(part, None), _result(result))
        case kind:
            told.of(f"Parts of the kind “{shapes.line(kind) or 'none'}”")


def _call(part: dict[str, Any], arguments: object) -> ToolCall:
    call_id = next(
        filter(None, (shapes.key(part.get(n)) for n in ("toolCallRequestId", "callId", "id"))), ""
    )
    return tool_call(call_id, shapes.line(part.get("name")), arguments)


def _result(value: object) -> str:
    """Written as JSON of a list of parts, or as it is."""
    if isinstance(value, str):
        return shapes.text(shapes.unquoted(value))
    return "\n\n".join(
        filter(None, (shapes.text(each.get("text")) for each in shapes.mappings(value)))
    )
