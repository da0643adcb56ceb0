"""The messages of one conversation and what is known of their heights.

Ten thousand messages cost ten thousand guesses and no layout: an item is made when its
message comes into view, and dropped again when many others came since.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from models.records import Message, Role
from ui.markdown.styles import Styles
from ui.transcript.body import Body
from ui.transcript.heights import Heights
from ui.transcript.item import MessageItem
from ui.transcript.results import as_shown

if TYPE_CHECKING:
    from ui.transcript.tokens.document import TokenDocument

MAX_ITEMS = 120


class Rows:
    """Messages by index, their items, where each begins. Heights start at 0. `is_bare`: the
    messages are to be read and copied, nothing else is offered (answers side by side)."""

    def __init__(self, styles: Styles, width: float) -> None:
        self._take_look(styles, width)
        self._messages: list[Message] = []
        self._items: dict[int, MessageItem] = {}
        self._indexes: dict[str, int] = {}
        self._heights = Heights()
        self.is_bare = False
        self._tokens_of: Callable[[Message], TokenDocument] | None = None

    def __len__(self) -> int:
        return len(self._messages)

    @property
    def total(self) -> float:
        return self._heights.total

    @property
    def width(self) -> float:
        return self._width

    def top(self, index: int) -> float:
        return self._heights.top(index)

    def at(self, y: float) -> int:
        return self._heights.at(y)

    def height(self, index: int) -> float:
        return self._heights[index]

    def message(self, index: int) -> Message:
        item = self._items.get(index)
        return item.message if item is not None else self._messages[index]

    def index_of(self, message_id: str) -> int | None:
        return self._indexes.get(message_id)

    def item(self, index: int) -> MessageItem:
        """The item of a message, made at first use."""
        item = self._items.get(index)
        if item is None:
            item = MessageItem(self._messages[index], self._styles, self._width)
            item.is_bare = self.is_bare
            if self._tokens_of is not None:
                item.show_tokens(self._tokens_of(item.message))
            self._items[index] = item
        return item

    def has_item(self, index: int) -> bool:
        """Whether a message was in view lately."""
        return index in self._items

    @property
    def items_made(self) -> int:
        """How many messages have an item now."""
        return len(self._items)

    def bodies(self, top: float, bottom: float) -> list[Body]:
        """The texts between two heights."""
        if not self._messages:
            return []
        shown = range(self.at(top), self.at(bottom) + 1)
        items = [self._items[index] for index in shown if index in self._items]
        return [body for item in items for body in item.bodies()]

    def refresh_formulas(self) -> None:
        """Lay out again what waits for pictures of formulas."""
        for index, item in self._items.items():
            for body in item.bodies():
                body.refresh_formulas()
            self._heights.set(index, item.height)

    # Changing

    def set_tokens(self, tokens_of: Callable[[Message], TokenDocument] | None) -> None:
        """Show messages as tokens; None: as Markdown."""
        self._tokens_of = tokens_of
        for index, item in self._items.items():
            item.show_tokens(tokens_of(item.message) if tokens_of is not None else None)
            self._heights.set(index, item.height)

    def forget(self, index: int) -> None:
        """Let go of an item that is not in view, unless it knows what its message does not."""
        item = self._items.get(index)
        if item is not None and item.is_kept and self._tokens_of is not None:
            item.show_tokens(self._tokens_of(item.message))
        elif item is not None:
            self._messages[index] = item.message
            del self._items[index]

    def set_messages(self, messages: Sequence[Message]) -> int:
        """Another path: items and heights of messages that are on both are kept.

        How many messages both begin with.
        """
        old = {item.message.id: item for item in self._items.values()}
        same = _common_length(self._messages, messages)
        self._heights.truncate(same)
        self._messages = [as_shown(message) for message in messages]
        self._indexes = {message.id: i for i, message in enumerate(messages)}
        self._items = {}
        for message_id, item in old.items():
            index = self._indexes.get(message_id)
            if index is not None:
                item.set_message(self._messages[index])
                self._items[index] = item
        for message in self._messages[same:]:
            self._heights.append(self._guess(message))
        for index, item in self._items.items():
            self._heights.set(index, item.height)
        return same

    def prepend(self, messages: Sequence[Message]) -> None:
        """More of the same path, above what is here."""
        count = len(messages)
        messages = [as_shown(message) for message in messages]
        self._messages[:0] = messages
        self._indexes = {message.id: i for i, message in enumerate(self._messages)}
        self._items = {index + count: item for index, item in self._items.items()}
        self._heights.prepend([self._guess(message) for message in messages])

    def append(self, message: Message) -> int:
        index, message = len(self._messages), as_shown(message)
        self._messages.append(message)
        self._indexes[message.id] = index
        self._heights.append(self._guess(message))
        return index

    def change(self, message: Message) -> int | None:
        """Take over another state of a message; None where it is not here."""
        index, message = self._indexes.get(message.id), as_shown(message)
        if index is None:
            return None
        self._messages[index] = message
        if index in self._items:
            self._items[index].set_message(message)
            self.measure(index)
        else:
            self._heights.set(index, self._guess(message))
        return index

    def measure(self, index: int) -> None:
        """Note an item's height as it is now."""
        self._heights.set(index, self.item(index).height)

    def restyle(self, styles: Styles, width: float) -> None:
        """Another look or width: all heights become guesses, layouts are made anew."""
        self._take_look(styles, width)
        for item in self._items.values():
            item.restyle(styles, width)
        self._guess_all()

    def _take_look(self, styles: Styles, width: float) -> None:
        self._styles, self._width = styles, width
        # Asked for once and not for each of ten thousand guesses.
        self._line_step, self._around = styles.line_step, round(styles.px(64))

    # Layout

    def ensure(self, top: float, bottom: float) -> bool:
        """Lay out what stands between two heights; whether any height changed."""
        changed = False
        index = self.at(top)
        while index < len(self._messages) and self.top(index) <= bottom:
            item = self.item(index)
            y = self.top(index)
            item.ensure(top - y, bottom - y)
            if item.height != self._heights[index]:
                self._heights.set(index, item.height)
                changed = True
            index += 1
        return changed

    def release(self, top: float, bottom: float) -> None:
        """Let go of what is far from the view."""
        first, last = self.at(top), self.at(bottom)
        for index, item in self._items.items():
            y = self.top(index)
            if first - 1 <= index <= last + 1:
                item.release(top - y, bottom - y)
            elif abs(index - first) > 20:
                item.release_all()
        if len(self._items) > MAX_ITEMS:
            self._drop_items(first, last)

    def _drop_items(self, first: int, last: int) -> None:
        middle = (first + last) / 2
        far = sorted(self._items, key=lambda index: -abs(index - middle))
        for index in far[: len(self._items) - MAX_ITEMS // 2]:
            item = self._items[index]
            if not item.is_kept:
                self._messages[index] = item.message
                del self._items[index]

    def _guess_all(self) -> None:
        heights = [self._guess(message) for message in self._messages]
        for index, item in self._items.items():
            heights[index] = item.height
        self._heights = Heights(heights)

    def _guess(self, message: Message) -> float:
        share = 0.75 if message.role is not Role.ASSISTANT else 1.0
        per_line = max(1.0, self._width * share / self._styles.char_width)
        length = len(message.content)
        # Whole pixels: what comes above then moves nothing by a fraction of one.
        return round((1 + length / per_line + length / 300) * self._line_step) + self._around


def _common_length(first: Sequence[Message], second: Sequence[Message]) -> int:
    """How many messages two paths begin with together."""
    for i, (one, other) in enumerate(zip(first, second, strict=False)):
        if one is not other and one.id != other.id:
            return i
    return min(len(first), len(second))
