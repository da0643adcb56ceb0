"""A chat as exports read it: its texts at once, its traces and pictures one by one.

What must hold: every message that isn't in the trash stands in exactly one `Stretch`, whatever the
tree looks like; nothing that is large is held longer than it takes to write it.
"""

from __future__ import annotations

import contextlib
from collections import defaultdict, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Final

from app.chat.documents.text_document import document
from app.chat.exchange.markdown_format import active_path
from app.chat.replies.calls import answered_by
from app.chat.replies.summary_nodes import stands_of
from app.engine.protocol.messages import TokenTrace
from app.insight.trace.columns import TraceUnreadable, unpack
from app.markdown.formula_drawings import FormulaDrawings
from models.records import (
    Attachment,
    Conversation,
    ConversationKind,
    Message,
    MessageState,
    Role,
    WholeConversation,
)
from models.store.store import Store

NAMES: Final = {
    Role.USER: "You",
    Role.ASSISTANT: "Assistant",
    Role.SYSTEM: "System",
    Role.TOOL: "Tool",
}

_TROUBLES: Final = {
    MessageState.STREAMING: "Still being written.",
    MessageState.STOPPED: "Stopped.",
    MessageState.INTERRUPTED: "Interrupted.",
    MessageState.FAILED: "Failed.",
    MessageState.UNREADABLE: "This message can't be read.",
}


@dataclass(frozen=True, slots=True)
class Stretch:
    """Messages one below the other. `number` 0: the path on screen; others branch off below the
    message `above` (None: they begin the chat anew)."""

    number: int
    above: Message | None
    messages: list[Message]


@dataclass(slots=True)
class Chat:
    """`check` raises where nobody wants the file any more; writers call `step` for each message.
    `numbers`: of each message, counted as they are written. `branches_at`: the numbers of the
    stretches that go on otherwise where a message stands."""

    store: Store
    whole: WholeConversation
    drawings: FormulaDrawings
    check: Callable[[], None] = lambda: None
    step: Callable[[], None] = lambda: None
    numbers: dict[str, int] = field(default_factory=dict)
    branches_at: dict[str, list[int]] = field(default_factory=dict)

    @property
    def conversation(self) -> Conversation:
        return self.whole.conversation

    @property
    def title(self) -> str:
        return " ".join(self.conversation.title.split()) or "Chat"

    def stretches(self, *, all_versions: bool) -> list[Stretch]:
        """The path on screen, then what branches off it, then what branches off that."""
        self.branches_at.clear()
        below: dict[str | None, list[Message]] = defaultdict(list)
        for message in self.whole.messages:
            below[message.parent_id].append(message)
        versions = {
            message.id: replace(message, sibling_index=place, sibling_count=len(family))
            for family in below.values()
            for place, message in enumerate(family)
        }
        path = [versions[message.id] for message in active_path(self.whole)]
        found = [Stretch(0, None, path)]
        told = {message.id for message in path}
        todo = deque(found if all_versions else ())
        while todo:
            for message in todo.popleft().messages:
                for other in below[message.parent_id]:
                    if other.id in told:
                        continue
                    line = [versions[other.id]]
                    while under := below[line[-1].id]:
                        line.append(versions[under[-1].id])
                    told.update(each.id for each in line)
                    above = versions.get(other.parent_id or "")
                    found.append(Stretch(len(found), above, line))
                    self.branches_at.setdefault(message.id, []).append(found[-1].number)
                    todo.append(found[-1])
        written = (message for stretch in found for message in stretch.messages)
        self.numbers = {message.id: number for number, message in enumerate(written, 1)}
        return found

    def trace(self, message: Message) -> list[TokenTrace]:
        """Of a reply; empty where none was recorded, or it can't be read."""
        if message.role is not Role.ASSISTANT:
            return []
        blob = self.store.load_trace(message.id).result()
        with contextlib.suppress(TraceUnreadable):
            return unpack(blob) if blob else []
        return []

    def picture(self, attachment: Attachment) -> bytes:
        """Of a picture; empty of all else, and where its bytes are gone."""
        if attachment.kind != "picture":
            return b""
        found = self.store.load_file(attachment.id).result()
        return found[1] if found else b""


def as_one_text(whole: WholeConversation) -> WholeConversation:
    """A text document is stored as its changes; who reads it wants the text that they make."""
    path = active_path(whole)
    if whole.conversation.kind is not ConversationKind.TEXT or not path:
        return whole
    text = Message(
        id=path[-1].id,
        conversation_id=whole.conversation.id,
        parent_id=None,
        role=Role.SYSTEM,
        content=document(path),
        created_at=path[-1].created_at,
        settings={"author": "Text"},
    )
    return WholeConversation(replace(whole.conversation, active_leaf_id=text.id), (text,))


def paths(chat: WholeConversation) -> Iterator[list[Message]]:
    """Each way from the first message down to a last one."""
    messages = {message.id: message for message in chat.messages}
    parents = {message.parent_id for message in chat.messages}
    for leaf in chat.messages:
        if leaf.id in parents:
            continue
        path: list[Message] = []
        at: Message | None = leaf
        while at is not None:
            path.append(at)
            at = messages.get(at.parent_id or "")
        yield path[::-1]


def who_said(message: Message) -> str:
    """The name over a message."""
    if stands_of(message) is not None:
        return "Summary"
    if message.author:
        return _line(message.author)
    name = NAMES[message.role]
    if message.role is Role.ASSISTANT and message.weights_name:
        return _line(message.weights_name)
    called = answered_by(message).name
    return f"{name}: {_line(called)}" if called else name


def trouble_of(message: Message) -> str:
    """What stands below a message that isn't whole."""
    usual = _TROUBLES.get(message.state, "")
    return message.error or usual if usual else ""


def _line(text: str) -> str:
    return " ".join(text.split())
