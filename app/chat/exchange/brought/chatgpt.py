"""ChatGPT's archive: `conversations.json`, or several of it, with the files beside them.

A list of chats. Each has a `mapping` of nodes by id (id, parent, children, message), of which one
is `current_node`. What one turn is on the screen are several nodes there: `thoughts` (reasoning),
its recap, `code` to a tool (its `recipient`), the tool's result, and the reply's text. Known from
exports and bug reports: nodes without a message, roots that are missing, circles, messages that the
app itself hides, times as numbers, texts or null, parts that are null or objects, and private
characters around citations.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, Final

from app.chat.exchange.brought import shapes
from app.chat.exchange.brought.looks import Look
from app.chat.exchange.brought.media import picture_type, read_picture
from app.chat.exchange.brought.pieces import Cut, values
from app.chat.exchange.brought.places import Place
from app.chat.exchange.brought.told import Brought, NotUnderstood, Told
from app.chat.exchange.brought.trees import Chat, File, Node, assembled, folder_of, tool_call
from app.engine.protocol.tool_messages import ToolCall
from models.records import Folder, MessageState, Role, WholeConversation

APP: Final = "ChatGPT"
HIDDEN: Final = "Messages that ChatGPT hides"

_ROLES: Final = {role.value: role for role in Role}
_FILE_ID: Final = re.compile(r"file[-_][0-9A-Za-z]{8,}")
_POINTER: Final = re.compile(r"(?:file-service|sediment)://(?:[^/]*#)?(file[-_][0-9A-Za-z]+)")
_CITED: Final = re.compile("\ue200[^\ue200\ue201]*\ue201|[\ue200-\ue206]")
_PICTURES: Final = (".png", ".jpg", ".jpeg", ".webp", ".gif", ".dat", "")
_ALL: Final = "all"
_NODE: Final = {"id", "message", "parent"}
_MAY_BE_EMPTY: Final = ("", "text", "multimodal_text", "code", "execution_output")
_INSTRUCTIONS: Final = ("user_editable_context", "model_editable_context")


def claims(place: Place) -> Sequence[str]:
    return [name for name in place.named(".json") if _is_export(place.look(name))]


def _is_export(look: Look) -> bool:
    """The title may stand behind a mapping that is longer than what is looked at."""
    return look.has("mapping") and ("title" in look.keys or look.deeper >= _NODE)


def read(place: Place, names: Sequence[str]) -> Iterator[Brought]:
    files = _files(place)
    folders: set[str] = set()
    for name in names:
        with place.open(name) as file:
            for value in values(file):
                if isinstance(value, Cut):
                    yield NotUnderstood(f"{value.why}", name)
                    value = value.value
                    if not isinstance(value, dict) or "mapping" not in value:
                        continue
                yield from _chat(value, place, files, folders)


def _files(place: Place) -> dict[str, str]:
    """The archive's files by the ids that messages name them by."""
    found: dict[str, str] = {}
    for entry in place.entries:
        if (match := _FILE_ID.search(entry.base)) and entry.suffix != ".json":
            found.setdefault(match[0], entry.name)
    return found


def _chat(
    value: object, place: Place, files: dict[str, str], folders: set[str]
) -> Iterator[Folder | WholeConversation | NotUnderstood]:
    told = Told(shapes.line(shapes.mapping(value).get("title")) or place.name)
    if not isinstance(value, dict) or not isinstance(value.get("mapping"), dict):
        yield NotUnderstood("Entries that aren't chats", told.where)
        return
    chat = Chat(
        APP,
        shapes.key(value.get("conversation_id")) or shapes.key(value.get("id")),
        shapes.line(value.get("title")),
        shapes.time(value.get("create_time")),
        shapes.time(value.get("update_time")),
        is_pinned=value.get("is_starred") is True or bool(value.get("pinned_time")),
        is_archived=value.get("is_archived") is True,
        leaf=shapes.key(value.get("current_node")),
    )
    if not chat.key:  # of the first exports
        chat.key = f"{chat.title} {value.get('create_time')} {min(value['mapping'], default='')}"
    project = shapes.key(value.get("gizmo_id")) or shapes.key(value.get("conversation_template_id"))
    if project.startswith("g-p-"):
        folder = folder_of(APP, project, f"ChatGPT project {project[4:10]}", chat.created_at)
        chat.folder_id = folder.id
        if project not in folders:
            folders.add(project)
            yield folder
            yield NotUnderstood(
                "Names of projects: rename their folders in the sidebar", folder.name
            )
    nodes = [
        _node(key, each, chat, _Attached(place, files), told)
        for key, each in value["mapping"].items()
    ]
    whole = assembled(chat, _by_children(nodes, value["mapping"]), told.of)
    yield from told.all()
    if whole is None:
        yield NotUnderstood("Chats without a message", told.where)
    else:
        yield whole


def _by_children(nodes: list[Node], mapping: dict[str, Any]) -> list[Node]:
    """Siblings in the order that their parent lists them in; some exports know parents by that
    alone."""
    known = {node.key: node for node in nodes}
    place: dict[str, int] = {}
    for key, each in mapping.items():
        for at, child in enumerate(shapes.listed(shapes.mapping(each).get("children"))):
            if isinstance(child, str) and child in known:
                place.setdefault(child, at)
                if known[child].parent not in known:
                    known[child].parent = key
    return sorted(nodes, key=lambda node: place.get(node.key, 0))


class _Attached:
    def __init__(self, place: Place, files: dict[str, str]) -> None:
        self._place = place
        self._files = files

    def picture(self, part: dict[str, Any], name: str = "") -> File:
        found = _POINTER.search(shapes.text(part.get("asset_pointer")))
        return self.file(
            found[1] if found else "",
            name or "Picture",
            int(shapes.number(part.get("width")) or 0),
            int(shapes.number(part.get("height")) or 0),
            may_be_picture=True,
        )

    def file(
        self, file_id: str, name: str, width: int = 0, height: int = 0, *, may_be_picture: bool
    ) -> File:
        entry = self._files.get(file_id)
        if entry is None:
            return File(name)
        head = self._place.head(entry, 64)
        if may_be_picture and (media_type := picture_type(head)):
            read = partial(read_picture, self._place, entry)
            return File(name, "", media_type, 0, width, height, read)
        return File(name, read_text(self._place, entry))


def read_text(place: Place, entry: str) -> str:
    """Of an attached file that is plain text; "" for others."""
    from app.chat.attachments.text_files import MAX_BYTES, FileRefused as NotText, decoded

    raw = place.head(entry, MAX_BYTES + 1)
    try:
        return decoded(entry, raw).text if len(raw) <= MAX_BYTES else ""
    except NotText:
        return ""


def _node(key: str, value: Any, chat: Chat, attached: _Attached, told: Told) -> Node:
    value = shapes.mapping(value)
    node = Node(key, shapes.key(value.get("parent")) or None)
    message = value.get("message")
    if not isinstance(message, dict):
        return node
    about = shapes.mapping(message.get("metadata"))
    author = shapes.mapping(message.get("author"))
    content = shapes.mapping(message.get("content"))
    role = _ROLES.get(shapes.text(author.get("role")))
    node.created_at = shapes.time(message.get("create_time"))
    kind = shapes.text(content.get("content_type"))
    if kind in _INSTRUCTIONS:
        chat.system_prompt = chat.system_prompt or _instructions(content)
        return node
    text, files = _said(kind, content, attached, told)
    if kind == "thoughts":
        node.reasoning = text
        return node
    if kind == "reasoning_recap":
        node.seconds = shapes.number(about.get("finished_duration_sec"))
        return node
    if about.get("is_visually_hidden_from_conversation") is True or (
        message.get("weight") == 0 and role in (Role.SYSTEM, Role.TOOL)
    ):
        if text.strip() or files:
            told.of(HIDDEN)
        return node
    if role is None:
        if text.strip() or files:
            told.of(f"Messages by “{shapes.line(author.get('role')) or 'nobody'}”")
        return node
    files += [
        attached.file(
            shapes.key(each.get("id")),
            shapes.line(each.get("name")) or "File",
            may_be_picture=False,
        )
        for each in shapes.mappings(about.get("attachments"))
        if not _is_among(shapes.key(each.get("id")), content)
    ]
    node.role = role
    node.content = _without_marks(text, about)
    node.files = files
    recipient = shapes.line(message.get("recipient")) or _ALL
    if role is Role.ASSISTANT:
        node.weights_name = shapes.line(about.get("model_slug"))
        if recipient not in (_ALL, "assistant"):
            node.calls = [tool_call(key, recipient, text)]
            node.content = ""
        elif shapes.text(message.get("status")) == "in_progress":
            node.state = MessageState.INTERRUPTED
            node.error = ""
        elif kind == "code" and text.strip():
            node.content = _fenced(text, shapes.line(content.get("language")))
    elif role is Role.TOOL:
        node.answers = ToolCall("", shapes.line(author.get("name")), "")
    return node


def _is_among(file_id: str, content: dict[str, Any]) -> bool:
    """Whether a picture stands among the parts, too."""
    return bool(file_id) and any(
        file_id in shapes.text(part.get("asset_pointer"))
        for part in shapes.mappings(content.get("parts"))
    )


def _instructions(content: dict[str, Any]) -> str:
    """Of somebody who told ChatGPT about themselves, and how it should answer."""
    names = ("user_profile", "user_instructions", "model_set_context", "repository", "repo_summary")
    return "\n\n".join(filter(None, (shapes.text(content.get(name)).strip() for name in names)))


def _said(
    kind: str, content: dict[str, Any], attached: _Attached, told: Told
) -> tuple[str, list[File]]:
    """The text of a message, and its pictures."""
    match kind:
        case "thoughts":
            return "\n\n".join(map(_thought, shapes.mappings(content.get("thoughts")))), []
        case "reasoning_recap":
            return shapes.text(content.get("content")), []
        case "tether_quote":
            quoted = [shapes.line(content.get("title")), shapes.line(content.get("url"))]
            head = " · ".join(filter(None, quoted))
            return "\n\n".join(filter(None, (head, shapes.text(content.get("text"))))), []
        case "tether_browsing_display":
            named = (content.get("result"), content.get("summary"))
            return "\n\n".join(filter(None, map(shapes.text, named))), []
        case "system_error":
            named = (content.get("name"), content.get("text"))
            return ": ".join(filter(None, map(shapes.text, named))), []
    texts: list[str] = []
    files: list[File] = []
    for part in shapes.listed(content.get("parts")):
        if isinstance(part, str):
            texts.append(shapes.text(part))
        elif isinstance(part, dict):
            _part(part, texts, files, attached, told)
        elif part is not None:
            told.of("Parts of messages that are no text")
    for name in ("text", "result"):
        if not texts and not files:
            texts += filter(None, [shapes.text(content.get(name))])
    if not texts and not files and kind not in _MAY_BE_EMPTY:
        told.of(f"Messages of the kind “{shapes.line(kind)}”")
    return "\n\n".join(filter(str.strip, texts)), files


def _part(
    part: dict[str, Any], texts: list[str], files: list[File], attached: _Attached, told: Told
) -> None:
    kind = shapes.text(part.get("content_type"))
    if kind == "image_asset_pointer":
        files.append(attached.picture(part))
    elif kind == "audio_transcription":
        texts.append(shapes.text(part.get("text")))
    elif kind in ("audio_asset_pointer", "real_time_user_audio_video_asset_pointer"):
        told.of("Recordings of voices: their words come as text")
        files += map(attached.picture, shapes.mappings(part.get("frames_asset_pointers")))
    elif text := shapes.text(part.get("text")) or shapes.text(part.get("content")):
        texts.append(text)
    else:
        told.of(f"Parts of the kind “{shapes.line(kind) or 'none'}”")


def _thought(value: dict[str, Any]) -> str:
    heading, said = shapes.line(value.get("summary")), shapes.text(value.get("content"))
    return "\n\n".join(filter(None, (f"**{heading}**" if heading else "", said)))


def _fenced(text: str, language: str) -> str:
    fence = "`" * max(3, 1 + max(map(len, re.findall("`+", text)), default=0))
    return f"{fence}{language if language not in ('unknown', 'null') else ''}\n{text}\n{fence}"


def _without_marks(text: str, about: dict[str, Any]) -> str:
    """Citations as ChatGPT words them, and without its private characters."""
    if _CITED.search(text):
        for each in shapes.mappings(about.get("content_references")):
            matched = shapes.text(each.get("matched_text"))
            if "\ue200" in matched:
                text = text.replace(matched, shapes.text(each.get("alt")))
        text = _CITED.sub("", text)
    return text
