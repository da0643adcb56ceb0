"""Jan's threads: a folder for each, with `thread.json` and `messages.jsonl`.

Messages stand one a line, without branches. Their content is a list of parts (text, pictures as
data); calls of tools and their results stand in a reply's metadata. Times are seconds in older
releases and milliseconds in newer ones.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, Final

from app.chat.exchange.brought import shapes
from app.chat.exchange.brought.media import data_picture
from app.chat.exchange.brought.pieces import Cut, lines, values
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
from app.chat.exchange.brought.trees import Chat, File, Keys, Node, assembled, tool_call
from models.records import MessageState, Role

APP: Final = "Jan"
_ROLES: Final = {role.value: role for role in Role}


def claims(place: Place) -> Sequence[str]:
    return [
        *(name for name in place.named(".jsonl") if _is(place, name, "thread.message")),
        *(name for name in place.named(".json") if _is_thread(place, name)),
    ]


def _is(place: Place, name: str, kind: str) -> bool:
    look = place.look(name)
    return not look.is_list and look.text("object") == kind


def _is_thread(place: Place, name: str) -> bool:
    return _is(place, name, "thread") or place.look(name).has("id", "assistants", "metadata")


def read(place: Place, names: Sequence[str]) -> Iterator[Brought]:
    threads = {name.rpartition("/")[0]: name for name in names if _is_thread(place, name)}
    messages = {n.rpartition("/")[0]: n for n in names if _is(place, n, "thread.message")}
    for folder in dict.fromkeys((*threads, *messages)):
        told = Told(folder.rpartition("/")[2] or place.name)
        thread: dict[str, Any] = {}
        if folder in threads:
            with place.open(threads[folder]) as file:
                for value in values(file):
                    if isinstance(value, Cut):
                        told.of(value.why)
                    thread = shapes.mapping(value.value if isinstance(value, Cut) else value)
        yield from _chat(place, folder, thread, messages.get(folder), told)
        yield from told.all()


def _chat(
    place: Place, folder: str, thread: dict[str, Any], name: str | None, told: Told
) -> Iterator[Brought]:
    about = shapes.mapping(thread.get("metadata"))
    assistant = next(shapes.mappings(thread.get("assistants")), {})
    key = shapes.key(thread.get("id")) or folder.rpartition("/")[2]
    chat = Chat(
        APP,
        key,
        shapes.line(thread.get("title")) or shapes.line(about.get("title")),
        shapes.time(thread.get("created") or thread.get("created_at")),
        shapes.time(thread.get("updated") or about.get("updated_at")),
        shapes.text(assistant.get("instructions")),
        is_pinned=about.get("isFavorite") is True,
    )
    told.where = chat.title or told.where
    model = shapes.line(shapes.mapping(assistant.get("model")).get("id"))
    found: list[dict[str, Any]] = []
    if name is not None:
        with place.open(name) as file:
            for value in lines(file):
                if isinstance(value, dict):
                    found.append(value)
                else:
                    told.of("Lines of messages.jsonl that can't be read")
    if not chat.key and found:
        chat.key = shapes.key(found[0].get("thread_id"))
    times = [shapes.time(each.get("created_at")) for each in found]
    if all(time is not None for time in times):  # some releases write the newest first
        found.sort(key=lambda each: shapes.number(each.get("created_at")) or 0)
    keys = Keys()
    nodes: list[Node] = []
    for message in found:
        nodes += _nodes(message, nodes[-1].key if nodes else None, model, keys, told)
    whole = assembled(chat, nodes, told.of)
    if whole is None:
        told.of("Chats without a message")
    else:
        yield whole


def _nodes(
    message: dict[str, Any], above: str | None, model: str, keys: Keys, told: Told
) -> list[Node]:
    about = shapes.mapping(message.get("metadata"))
    role = _ROLES.get(shapes.text(message.get("role")))
    if role is None:
        told.of(f"Messages by “{shapes.line(message.get('role')) or 'nobody'}”")
        return []
    files: list[File] = []
    steps = list(_steps(message.get("content"), files, told))
    for call in shapes.mappings(about.get("tool_calls")):
        steps = [*steps, *_call(call)]
    if len(steps) > 1 and isinstance(steps[-1], Result) and isinstance(steps[0], Said):
        steps = [*steps[1:], steps[0]]  # the text is what followed the tools
    files += [
        File(shapes.line(each.get("name")) or "File")
        for each in shapes.mappings(message.get("attachments"))
    ]
    is_stopped = message.get("status") in ("stopped", "pending")
    node = Node(
        keys.of(shapes.key(message.get("id")), json.dumps(message.get("content"), sort_keys=True)),
        above,
        role,
        created_at=shapes.time(message.get("created_at")),
        weights_name=shapes.line(about.get("modelId") or about.get("model")) or model,
        state=MessageState.STOPPED if is_stopped else MessageState.COMPLETE,
        files=files,
    )
    if role is Role.ASSISTANT:
        return stepped(node, steps)
    node.content = "\n\n".join(step.text for step in steps if isinstance(step, Said))
    return [node]


def _steps(content: object, files: list[File], told: Told) -> Iterator[Step]:
    if isinstance(content, str):
        yield from without_thoughts(shapes.text(content))
        return
    for part in shapes.mappings(content):
        kind = shapes.text(part.get("type"))
        text = part.get("text")
        said = shapes.text(text) or shapes.text(shapes.mapping(text).get("value"))
        match kind:
            case "text":
                yield from without_thoughts(said)
            case "reasoning" | "thinking":
                yield Thought(said or shapes.text(part.get("reasoning")))
            case "image_url" | "image":
                image = part.get("image_url") or part.get("image")
                url = shapes.text(shapes.mapping(image).get("url")) or shapes.text(image)
                files.append(data_picture(url, "Picture"))
            case _:
                told.of(f"Parts of the kind “{shapes.line(kind) or 'none'}”")


def _call(value: dict[str, Any]) -> Iterator[Step]:
    tool = shapes.mapping(value.get("tool"))
    function = shapes.mapping(tool.get("function"))
    call = tool_call(
        shapes.key(tool.get("id")), shapes.line(function.get("name")), function.get("arguments")
    )
    yield Called(call)
    response = shapes.mapping(value.get("response"))
    texts = [shapes.text(each.get("text")) for each in shapes.mappings(response.get("content"))]
    if response:
        yield Result(call, "\n\n".join(filter(None, texts)) or shapes.text(response.get("error")))
