"""Claude's archive: `conversations.json` (one or several), `projects.json`, `users.json`.

A chat is a list `chat_messages`; newer exports name each one's `parent_message_uuid`, older ones
stand in their order. A message's `content` is a list of blocks (text, thinking, tool_use,
tool_result), and `text` is what is left of it for old readers. Attached texts come with what was
read out of them; of files only the names. No export tells which model answered.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from app.chat.exchange.brought import shapes
from app.chat.exchange.brought.pieces import Cut, values
from app.chat.exchange.brought.places import Place
from app.chat.exchange.brought.steps import Called, Result, Said, Step, Thought, stepped
from app.chat.exchange.brought.told import Brought, NotUnderstood, Told
from app.chat.exchange.brought.trees import (
    Chat,
    File,
    Node,
    assembled,
    folder_of,
    made_id,
    tool_call,
)
from app.engine.protocol.tool_messages import ToolCall
from models.records import Role

APP: Final = "Claude"
_ROLES: Final = {"human": Role.USER, "user": Role.USER, "assistant": Role.ASSISTANT}
_NO_PARENT: Final = "00000000-0000-4000-8000-000000000000"
_UNSHOWN: Final = "```\nThis block is not supported on your current device yet.\n```"
_SILENT: Final = frozenset({"token_budget", "flag"})
"""Blocks that say nothing to anybody."""


def claims(place: Place) -> Sequence[str]:
    names = list(place.named(".json"))
    chats = [name for name in names if place.look(name).has("uuid", "chat_messages")]
    if not chats:
        return []
    return [*(name for name in names if _is_of_projects(place, name)), *chats]


def _is_of_projects(place: Place, name: str) -> bool:
    return place.look(name).has("uuid", "name") and bool(
        place.look(name).keys & {"docs", "prompt_template"}
    )


def read(place: Place, names: Sequence[str]) -> Iterator[Brought]:
    projects: dict[str, dict[str, Any]] = {}
    met: set[str] = set()
    for name in names:
        is_of_projects = _is_of_projects(place, name)
        with place.open(name) as file:
            for value in values(file):
                if isinstance(value, Cut):
                    yield NotUnderstood(value.why, name)
                    value = value.value
                    if not isinstance(value, dict) or "chat_messages" not in value:
                        continue
                if is_of_projects and isinstance(value, dict):
                    projects[shapes.key(value.get("uuid"))] = value
                else:
                    yield from _chat(value, place, projects, met)
    for key, project in projects.items():
        if key not in met:
            yield from _unused(project)


def _unused(project: dict[str, Any]) -> Iterator[NotUnderstood]:
    """The export names projects, but not always which chats belong to them."""
    if project.get("docs") or shapes.text(project.get("prompt_template")).strip():
        what = "Projects without chats in the export: their documents and instructions"
        yield NotUnderstood(what, shapes.line(project.get("name")))


def _chat(
    value: object, place: Place, projects: dict[str, dict[str, Any]], met: set[str]
) -> Iterator[Brought]:
    told = Told(shapes.line(shapes.mapping(value).get("name")) or place.name)
    if not isinstance(value, dict) or not isinstance(value.get("chat_messages"), list):
        yield NotUnderstood("Entries that aren't chats", told.where)
        return
    chat = Chat(
        APP,
        shapes.key(value.get("uuid")),
        shapes.line(value.get("name")),
        shapes.time(value.get("created_at")),
        shapes.time(value.get("updated_at")),
        is_pinned=value.get("is_starred") is True,
        leaf=shapes.key(value.get("current_leaf_message_uuid")),
    )
    if not chat.key:
        chat.key = f"{chat.title} {value.get('created_at')}"
    within = shapes.mapping(value.get("project"))
    project = shapes.key(value.get("project_uuid")) or shapes.key(within.get("uuid"))
    if project:
        about = projects.get(project, within)
        chat.folder_id = made_id(APP, "folder", project)
        chat.system_prompt = shapes.text(about.get("prompt_template"))
        if project not in met:
            met.add(project)
            name, began = shapes.line(about.get("name")), shapes.time(about.get("created_at"))
            yield folder_of(APP, project, name, began or chat.created_at)
            n_docs = len(shapes.listed(about.get("docs")))
            if n_docs:
                yield NotUnderstood("Documents of projects", name, n_docs)
    whole = assembled(chat, _nodes(value["chat_messages"], told), told.of)
    yield from told.all()
    if whole is None:
        yield NotUnderstood("Chats without a message", told.where)
    else:
        yield whole


def _nodes(messages: list[Any], told: Told) -> list[Node]:
    found: list[Node] = []
    above: str | None = None
    known = {shapes.key(each.get("uuid")) for each in shapes.mappings(messages)}
    for number, message in enumerate(messages):
        if not isinstance(message, dict):
            if message is not None:
                told.of("Entries that aren't messages")
            continue
        key = shapes.key(message.get("uuid")) or f"message {number}"
        parent = shapes.key(message.get("parent_message_uuid"))
        role = _ROLES.get(shapes.text(message.get("sender")))
        if role is None:
            told.of(f"Messages by “{shapes.line(message.get('sender')) or 'nobody'}”")
        is_root = parent == _NO_PARENT
        node = Node(
            key,
            parent if parent in known else None if is_root else above,
            role,
            created_at=shapes.time(message.get("created_at")),
            files=_files(message),
        )
        steps = list(_steps(message, told))
        if role is None:
            found.append(node)
        elif role is Role.ASSISTANT:
            found += stepped(node, steps)
        else:
            node.content = "\n\n".join(step.text for step in steps if isinstance(step, Said))
            found.append(node)
        above = key
    return found


def _files(message: dict[str, Any]) -> list[File]:
    attached = [
        File(
            shapes.line(each.get("file_name")) or "Pasted text",
            shapes.text(each.get("extracted_content")),
            size_bytes=int(shapes.number(each.get("file_size")) or 0),
        )
        for each in shapes.mappings(message.get("attachments"))
    ]
    others = [
        File(shapes.line(each.get("file_name")) or "File")
        for name in ("files", "files_v2")
        for each in shapes.mappings(message.get(name))
    ]
    known = {file.name for file in attached}
    return [*attached, *{file.name: file for file in others if file.name not in known}.values()]


def _steps(message: dict[str, Any], told: Told) -> Iterator[Step]:
    """What a message holds; its `text` where no block says anything."""
    content = message.get("content")
    found = [step for block in shapes.mappings(content) for step in _block(block, told)]
    text = shapes.text(content) if isinstance(content, str) else shapes.text(message.get("text"))
    if not found and text.strip():
        yield Said(text.replace(_UNSHOWN, "").strip("\n"))
    yield from found


def _block(block: dict[str, Any], told: Told) -> Iterator[Step]:
    kind = shapes.text(block.get("type"))
    match kind:
        case "text":
            text = shapes.text(block.get("text")).replace(_UNSHOWN, "").strip("\n")
            if text:
                yield Said(text)
        case "thinking":
            text = shapes.text(block.get("thinking"))
            if text.strip():
                began = shapes.time(block.get("start_timestamp"))
                ended = shapes.time(block.get("stop_timestamp"))
                yield Thought(text, (ended - began).total_seconds() if began and ended else None)
        case "tool_use":
            call_id = shapes.key(block.get("id"))
            yield Called(tool_call(call_id, shapes.line(block.get("name")), block.get("input")))
        case "tool_result":
            whose = ToolCall(
                shapes.key(block.get("tool_use_id")), shapes.line(block.get("name")), ""
            )
            yield Result(whose, _result(block.get("content"), told))
        case "voice_note":
            yield Said(shapes.text(block.get("text")))
        case _ if kind not in _SILENT:
            told.of(f"Blocks of the kind “{shapes.line(kind) or 'none'}”")


def _result(content: object, told: Told) -> str:
    texts = [shapes.text(content)] if isinstance(content, str) else []
    for part in shapes.mappings(content):
        kind = shapes.text(part.get("type"))
        text = shapes.text(part.get("text"))
        if kind == "knowledge" or (not text and part.get("url")):
            head = " · ".join(filter(None, (shapes.line(part.get(n)) for n in ("title", "url"))))
            text = "\n".join(filter(None, (head, text)))
        if text:
            texts.append(text)
        elif kind != "text":
            told.of(f"Results of the kind “{shapes.line(kind) or 'none'}”")
    return "\n\n".join(texts)
