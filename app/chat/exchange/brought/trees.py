"""A chat out of another app's nodes.

What must hold, whatever the nodes say: the tree has no circle, parents stand before children, and
no message is lost; ids are made of the app's own, so the same chat brought again has the same ones
(`models.conversations.exchange`).

A node without a role, or with nothing to say, is no message: what stands below it moves up, and its
reasoning goes to the first reply below. One whose parent is not there is a beginning of its own; a
circle is cut where it is first met. What a reply had with it (a picture that was made) is the
result of a call beside it, which is where such things are shown here.
"""

from __future__ import annotations

import json
import uuid
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from hashlib import blake2b
from typing import Any, Final

from app.chat.exchange.refusals import FileRefused
from app.chat.replies.calls import as_answer, with_calls
from app.engine.protocol.tool_messages import MAX_CALLS, ToolCall
from app.reading.files import on_one_line
from models.records import (
    Attachment,
    Conversation,
    File as FileBytes,
    Folder,
    Message,
    MessageCounts,
    MessageState,
    Role,
    WholeConversation,
)

MAX_TEXT: Final = 8_000_000
"""Of one message, in characters: more than any model reads, and what the window still shows."""

_NAMESPACE: Final = uuid.UUID("b0b5d5d7-55a1-4c5e-9a0e-7a3f2b1c6d20")
NEVER: Final = datetime(1970, 1, 1, tzinfo=UTC)
_LONGEST_TITLE: Final = 60


@dataclass(frozen=True, slots=True)
class File:
    """What goes along with a message. `read` gets its bytes, where there are any: of a picture.
    Without bytes or text only its name stands, in the message."""

    name: str
    text: str = ""
    media_type: str = ""
    size_bytes: int = 0
    width: int = 0
    height: int = 0
    read: Callable[[], bytes] | None = None


@dataclass(slots=True)
class Node:
    """`key`: what the app calls it, or what it is known by (`Keys`), within its chat. `answers`:
    the call whose result it is; without an id, the first one above that is still open."""

    key: str
    parent: str | None = None
    role: Role | None = None
    content: str = ""
    reasoning: str = ""
    created_at: datetime | None = None
    weights_name: str = ""
    author: str = ""
    state: MessageState = MessageState.COMPLETE
    error: str = ""
    is_pinned: bool = False
    calls: list[ToolCall] = field(default_factory=list)
    answers: ToolCall | None = None
    files: list[File] = field(default_factory=list)
    seconds: float | None = None
    """How long it was thought about."""
    is_shown: bool = False
    """Whether it is among those that the app shows, for readers that need to know."""


@dataclass(slots=True)
class Chat:
    """What an app says of a chat. `key`: by which it is known again, among all of the app's."""

    app: str
    key: str
    title: str = ""
    created_at: datetime | None = None
    updated_at: datetime | None = None
    system_prompt: str = ""
    is_pinned: bool = False
    is_archived: bool = False
    folder_id: str | None = None
    tags: tuple[str, ...] = ()
    leaf: str = ""

    def tell_time(self, nodes: Sequence[Node], written_at: datetime | None) -> None:
        """When its file was written, where nothing in it tells a time."""
        if self.created_at is None and not any(node.created_at for node in nodes):
            self.updated_at = written_at


class Keys:
    """For messages that have no id of their own: known by what they say.

    >>> keys = Keys()
    >>> keys.of("user", "yes") == Keys().of("user", "yes"), keys.of("user", "yes")[-2:]
    (True, '#1')
    """

    def __init__(self) -> None:
        self._seen: Counter[str] = Counter()

    def of(self, *parts: str) -> str:
        digest = blake2b("\0".join(parts).encode("utf-8", "replace"), digest_size=16).hexdigest()
        number = self._seen[digest]
        self._seen[digest] += 1
        return f"{digest}#{number}"


def made_id(app: str, *parts: str) -> str:
    """The same in every import."""
    return str(uuid.uuid5(_NAMESPACE, json.dumps([app, *parts])))


def folder_of(
    app: str, key: str, name: str, created_at: datetime | None, parent: str = ""
) -> Folder:
    return Folder(
        made_id(app, "folder", key),
        name or app,
        created_at or NEVER,
        made_id(app, "folder", parent) if parent else None,
    )


def tool_call(call_id: str, name: str, arguments: object) -> ToolCall:
    """A call as it is kept: its arguments as a JSON object.

    >>> tool_call("1", "python", "print(1)").arguments
    '{"input": "print(1)"}'
    """
    value = arguments
    if isinstance(arguments, str):
        try:
            value = json.loads(arguments) if len(arguments) < MAX_TEXT else arguments
        except (ValueError, RecursionError):
            value = arguments
    if not isinstance(value, dict):
        value = {} if value in (None, "") else {"input": value}
    return ToolCall(call_id, name or "tool", json.dumps(value, ensure_ascii=False))


def assembled(
    chat: Chat,
    nodes: Sequence[Node],
    left_out: Callable[[str], object],
    *,
    may_be_empty: bool = False,
) -> WholeConversation | None:
    """The chat; None where it holds no message, unless it may. `left_out` is told what does not
    come as it was."""
    made = _Assembly(chat, left_out)
    made.add(_ordered(nodes))
    return made.whole() if made.has_messages or may_be_empty else None


def linked(nodes: Iterable[Node]) -> list[Node]:
    """Each below the one before it: of an app that knows no branches."""
    above: str | None = None
    found = []
    for node in nodes:
        node.parent = above
        above = node.key
        found.append(node)
    return found


def versions_of(texts: Sequence[str], shown: str, at: float | None) -> tuple[list[str], int]:
    """The versions of a message and which of them is shown, for apps that write the shown one
    twice: among its versions (at `at`, if they say), and as the message, where edits stand.

    >>> versions_of(["A", "B"], "B, edited", 1), versions_of(["A", "B"], "A", None)
    ((['A', 'B, edited'], 1), (['A', 'B'], 0))
    """
    versions = list(texts)
    if at is not None and 0 <= at < len(versions):
        chosen = int(at)
        versions[chosen] = shown or versions[chosen]
    elif shown in versions:
        chosen = versions.index(shown)
    else:
        chosen = len(versions)
        versions.append(shown)
    return versions, chosen


def _ordered(nodes: Sequence[Node]) -> list[tuple[Node, Node | None]]:
    """Parents before children, each with its parent, siblings as they were given. One key stands
    for one node: the first, unless that one is empty."""
    known: dict[str, Node] = {}
    for node in nodes:
        if node.key not in known or known[node.key].role is None:
            known[node.key] = node
    below: defaultdict[str | None, list[Node]] = defaultdict(list)
    for node in known.values():
        below[node.parent if node.parent in known else None].append(node)
    found: list[tuple[Node, Node | None]] = []
    done: set[str] = set()

    def walk(top: Node) -> None:
        waiting: list[tuple[Node, Node | None]] = [(top, None)]
        while waiting:
            node, above = waiting.pop()
            if node.key in done:
                continue
            done.add(node.key)
            found.append((node, above))
            waiting += [(each, node) for each in reversed(below[node.key])]

    for top in below[None]:
        walk(top)
    for node in known.values():  # those in circles
        if node.key not in done:
            walk(node)
    return found


class Bytes(Mapping[str, FileBytes]):
    """The bytes of pictures, read when they are asked for: a chat may have many. One that cannot be
    read is empty."""

    def __init__(self) -> None:
        self._reads: dict[str, tuple[str, Callable[[], bytes]]] = {}

    def add(self, attachment_id: str, media_type: str, read: Callable[[], bytes]) -> None:
        self._reads[attachment_id] = (media_type, read)

    def __getitem__(self, attachment_id: str) -> FileBytes:
        media_type, read = self._reads[attachment_id]
        try:
            return media_type, read()
        except FileRefused:
            return media_type, b""

    def __contains__(self, attachment_id: object) -> bool:
        return attachment_id in self._reads

    def __iter__(self) -> Iterator[str]:
        return iter(self._reads)

    def __len__(self) -> int:
        return len(self._reads)


class _Assembly:
    def __init__(self, chat: Chat, left_out: Callable[[str], object]) -> None:
        self._chat = chat
        self._left_out = left_out
        self._id = made_id(chat.app, "chat", chat.key)
        self._messages: dict[str, Message] = {}
        self._kept: dict[str, str | None] = {}
        """The message that a node is, or the one above it, by the node's key."""
        self._thoughts: dict[str, _Thoughts] = {}
        """Reasoning on its way down, by the key of the node that it has come to."""
        self._said: set[str] = set()
        """Nodes whose reasoning has come to a message."""
        self._open: dict[str, list[ToolCall]] = {}
        """Calls that wait for a result below this message."""
        self._bytes = Bytes()

    def add(self, nodes: Sequence[tuple[Node, Node | None]]) -> None:
        for node, above in nodes:
            thoughts = self._thoughts.get(above.key, _NO_THOUGHTS) if above else _NO_THOUGHTS
            parent = self._kept[above.key] if above else None
            if node.role is None or not _says_something(node):
                self._thoughts[node.key] = thoughts.and_of(node)
                self._kept[node.key] = parent
                continue
            if node.role is Role.ASSISTANT:
                self._said |= thoughts.origins
                node.reasoning = "\n\n".join(filter(None, (thoughts.text, node.reasoning)))
                node.seconds = node.seconds or thoughts.seconds
            elif node.role is Role.TOOL:
                self._thoughts[node.key] = thoughts
            elif thoughts.text:  # somebody wrote on before the reply began
                parent = self._thought(thoughts, parent, node)
            self._add(node, parent)
        for node, _ in reversed(nodes):
            thoughts = self._thoughts.get(node.key, _NO_THOUGHTS)
            if thoughts.text and not thoughts.origins & self._said:
                self._kept[node.key] = self._thought(thoughts, self._kept[node.key], node)

    def _thought(self, thoughts: _Thoughts, parent: str | None, node: Node) -> str:
        """A reply of reasoning alone: it was stopped before it said anything."""
        self._said |= thoughts.origins
        key = min(thoughts.origins)
        self._add(
            Node(
                f"{key} thought",
                None,
                Role.ASSISTANT,
                reasoning=thoughts.text,
                created_at=node.created_at,
                state=MessageState.STOPPED,
                seconds=thoughts.seconds,
            ),
            parent,
        )
        return self._kept[f"{key} thought"] or ""

    def _add(self, node: Node, parent: str | None) -> None:
        chat = self._chat
        message_id = made_id(chat.app, "message", chat.key, node.key)
        above = self._messages.get(parent or "")
        if len(node.content) > MAX_TEXT or len(node.reasoning) > MAX_TEXT:
            self._left_out(f"The rest of messages longer than {MAX_TEXT:,} characters")
        if len(node.calls) > MAX_CALLS:
            self._left_out(f"Calls of tools beyond {MAX_CALLS} in one reply")
            node.calls = node.calls[:MAX_CALLS]
        settings: dict[str, Any] = with_calls({}, node.calls)
        said_by = {"author": node.author} if node.author else {}
        role = node.role or Role.ASSISTANT
        if role is Role.TOOL:
            waiting = list(self._open.get(parent or "", ()))
            answered = _answered(node, waiting)
            if answered is None:
                self._left_out("Tool results without a call (imported as replies)")
                role = Role.ASSISTANT
            else:
                waiting.remove(answered)
                settings = as_answer(answered)
                self._open[message_id] = waiting
        elif node.calls:
            self._open[message_id] = list(node.calls)
        created_at = (
            node.created_at
            or (above.created_at if above else None)
            or chat.created_at
            or chat.updated_at
            or NEVER
        )
        files = [file for file in node.files if file.text or file.read]
        missing = [file for file in node.files if not (file.text or file.read)]
        content = node.content[:MAX_TEXT]
        if missing:
            self._left_out("Files missing from the export (named in the messages)")
            names = "\n".join(f"[Attached: {file.name}]" for file in missing)
            content = f"{content}\n\n{names}" if content.strip() else names
        shown_by: ToolCall | None = None
        if role is Role.ASSISTANT and files:  # a reply has no attachments here; a result may
            shown_by = tool_call(f"{message_id} files", "show_files", {})
            settings = with_calls({}, [*node.calls, shown_by])
        attached = message_id if shown_by is None else made_id(message_id, "files")
        attachments = tuple(
            self._attachment(file, attached, place, created_at) for place, file in enumerate(files)
        )
        self._messages[message_id] = Message(
            id=message_id,
            conversation_id=self._id,
            parent_id=parent,
            role=role,
            content=content,
            reasoning=node.reasoning[:MAX_TEXT],
            created_at=created_at,
            state=node.state,
            error=node.error or None,
            is_pinned=node.is_pinned,
            settings=settings | said_by,
            weights_name=(node.weights_name or None) if role is Role.ASSISTANT else None,
            counts=MessageCounts(reasoning_s=node.seconds) if node.seconds else MessageCounts(),
            attachments=() if shown_by else attachments,
        )
        if shown_by is not None:
            self._open[attached] = self._open.get(message_id, [])
            self._messages[attached] = Message(
                id=attached,
                conversation_id=self._id,
                parent_id=message_id,
                role=Role.TOOL,
                content=", ".join(each.name for each in attachments),
                created_at=created_at,
                settings=as_answer(shown_by),
                attachments=attachments,
            )
        self._kept[node.key] = attached

    def _attachment(
        self, file: File, message_id: str, place: int, created_at: datetime
    ) -> Attachment:
        attachment_id = made_id(self._chat.app, "attachment", message_id, str(place), file.name)
        is_picture = file.read is not None
        if file.read is not None:
            self._bytes.add(attachment_id, file.media_type, file.read)
        if len(file.text) > MAX_TEXT:
            self._left_out(f"The rest of attached texts longer than {MAX_TEXT:,} characters")
        details = {"width": file.width, "height": file.height, "media_type": file.media_type}
        return Attachment(
            id=attachment_id,
            conversation_id=self._id,
            name=on_one_line(file.name),
            text="" if is_picture else file.text[:MAX_TEXT],
            size_bytes=file.size_bytes or len(file.text.encode("utf-8", "replace")),
            created_at=created_at,
            message_id=message_id,
            position=place,
            kind="picture" if is_picture else "text",
            details=details if is_picture else {},
        )

    @property
    def has_messages(self) -> bool:
        return bool(self._messages)

    def whole(self) -> WholeConversation:
        chat = self._chat
        messages = tuple(self._messages.values())
        times = [message.created_at for message in messages if message.created_at != NEVER]
        created_at = chat.created_at or min(times, default=None) or chat.updated_at or NEVER
        leaf_id = self._kept.get(chat.leaf) or self._last(messages)
        conversation = Conversation(
            id=self._id,
            title=chat.title or _beginning_of(messages),
            created_at=created_at,
            updated_at=chat.updated_at or max(times, default=created_at),
            folder_id=chat.folder_id,
            is_pinned=chat.is_pinned,
            is_archived=chat.is_archived,
            system_prompt=chat.system_prompt[:MAX_TEXT],
            active_leaf_id=leaf_id,
            is_titled_by_user=bool(chat.title),
            tags=chat.tags,
        )
        return WholeConversation(conversation, messages, files=self._bytes, is_brought=True)

    def _last(self, messages: Sequence[Message]) -> str | None:
        """The newest leaf, where the app doesn't say which one was shown."""
        above = {message.parent_id for message in messages}
        leaves = [message for message in messages if message.id not in above]
        newest = max(reversed(leaves), key=lambda message: message.created_at, default=None)
        return None if newest is None else newest.id


@dataclass(frozen=True, slots=True)
class _Thoughts:
    text: str = ""
    seconds: float | None = None
    origins: frozenset[str] = frozenset()

    def and_of(self, node: Node) -> _Thoughts:
        if not node.reasoning.strip() and not node.seconds:
            return self
        return _Thoughts(
            "\n\n".join(filter(None, (self.text, node.reasoning))),
            node.seconds or self.seconds,
            self.origins | {node.key} if node.reasoning.strip() else self.origins,
        )


_NO_THOUGHTS: Final = _Thoughts()


def _says_something(node: Node) -> bool:
    """Reasoning alone is handed on to the reply that follows."""
    return bool(node.content.strip() or node.calls or node.files or node.error)


def _answered(node: Node, waiting: Sequence[ToolCall]) -> ToolCall | None:
    wanted = node.answers or ToolCall("", "", "")
    for call in waiting:
        if wanted.id and call.id == wanted.id:
            return call
    for call in waiting:
        if not wanted.id and (not wanted.name or call.name == wanted.name):
            return call
    return waiting[0] if waiting and not wanted.id else None


def _beginning_of(messages: Sequence[Message]) -> str:
    """Of what was asked first, as a title."""
    for message in messages:
        words = " ".join(message.content[:500].split())
        if words and message.role in (Role.USER, Role.ASSISTANT):
            return words[:_LONGEST_TITLE].rstrip() + ("…" if len(words) > _LONGEST_TITLE else "")
    return "Chat"
