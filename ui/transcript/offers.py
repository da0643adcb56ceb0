"""What can be done with one message: names, words and keys, for its menu, its buttons, its keys.

What must hold: everything that a button offers is in the menu too, and has a key while the
keyboard is on the message. What changes the path is not offered while a reply grows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from PySide6.QtCore import Qt

from app.chat.attachments.document_parts import PARTS, mode_of
from app.chat.replies.summary_nodes import stands_of
from models.records import Message, MessageState, Role
from ui.markdown.layouts import Pressable

CUT_SHORT = frozenset({"max_tokens", "stopped", "context_full", "deadline", "stop_string"})


@dataclass(frozen=True, slots=True)
class Offer:
    """One entry. `key` as it is shown; `is_lasting`: it can be asked for while a reply grows."""

    name: str
    label: str
    key: str = ""
    is_lasting: bool = False


class ActsOnMessages(Protocol):
    """What mouse and keyboard may ask of their view."""

    def offers_of(self, index: int) -> list[Offer]: ...
    def ask_for(self, index: int, offer: Offer) -> None: ...
    def trigger(self, index: int, action: Pressable) -> None: ...
    def step_version(self, index: int, step: int) -> None: ...
    def copy(self, form: str = ...) -> None: ...
    def copy_text(self, text: str) -> None: ...


LINE = Offer("", "")
CHOOSE_FORMAT = Offer("choose_format", "Choose a format…")
_TRY_AGAIN = Offer("try_again", "Try again")
COPY = Offer("copy_message", "Copy message", is_lasting=True)
_PICTURE = (
    Offer("copy_picture", "Copy as a picture"),
    Offer("save_picture", "Save as a picture…", "P"),
)
READ_ALOUD = Offer("read_aloud", "Read aloud", "L", is_lasting=True)
_RAW = Offer("toggle_raw", "Show plain text", "U", is_lasting=True)
_SHAPED = Offer("toggle_raw", "Show as Markdown", "U", is_lasting=True)
_REPLY = (
    Offer("retry", "Regenerate", "R"),
    Offer("continue", "Continue", "C"),
    Offer("answers", "Generate several replies…", "A"),
    Offer("seeds", "Many seeds…", "N"),
    Offer("begin", "Start the reply yourself…", "W"),
    Offer("run_again", "Rerun exactly", "X"),
    Offer("settings", "Generation settings…", "G", is_lasting=True),
)
_QUESTION = (
    Offer("retry", "Regenerate reply", "R"),
    Offer("answers", "Generate several replies…", "A"),
    Offer("seeds", "Many seeds…", "N"),
    Offer("begin", "Start the reply yourself…", "W"),
)
_SEARCH_AGAIN = Offer("search_again", "Search the documents again")
_SUMMARY = (
    Offer("show_summarized", "Show the summarized messages", "O", is_lasting=True),
    Offer("summarize_again", "Summarize again", "R"),
)
_COMPARE = Offer("compare", "Compare versions", "V", is_lasting=True)
_SHAPE = (
    Offer("insert_above", "Insert a message above…", "Shift+I"),
    Offer("insert_below", "Insert a message below…", "I"),
)
_SWAP = {
    Role.USER: Offer("swap_role", "Change to assistant", "S"),
    Role.ASSISTANT: Offer("swap_role", "Change to you", "S"),
}
_PLACES = (
    Offer("branch_off", "Branch to a new chat", "B"),
    Offer("map", "Branch map…", "M", is_lasting=True),
)
_DELETE = Offer("trash", "Delete", "Del")
_DELETE_WITH_REST = Offer("trash", "Delete with everything after it", "Del")
_DELETE_ALONE = Offer("trash_alone", "Delete only this message", "Shift+Del")


def offers(message: Message, *, is_last: bool, is_raw: bool = False) -> list[Offer]:
    """The menu of a message, `LINE` between its parts."""
    is_reply = message.role is Role.ASSISTANT
    found = [COPY, *_PICTURE]
    if is_reply:
        found += [READ_ALOUD, _SHAPED if is_raw else _RAW]
    if message.state is not MessageState.UNREADABLE:
        asks = _SUMMARY if stands_of(message) is not None else _QUESTION
        found += [Offer("edit", "Edit…", "E"), LINE, *(_REPLY if is_reply else asks)]
        if any(mode_of(each) == PARTS for each in message.attachments):
            found.append(_SEARCH_AGAIN)
    if message.sibling_count > 1:
        found.append(_COMPARE)
    found += [LINE, *_SHAPE]
    if message.role in _SWAP and message.state is not MessageState.UNREADABLE:
        found.append(_SWAP[message.role])
    found += [LINE, *_PLACES, LINE]
    return [*found, _DELETE] if is_last else [*found, _DELETE_WITH_REST, _DELETE_ALONE]


def quick_offers(message: Message) -> list[Offer]:
    """What stands beside a message as buttons."""
    by_name = {offer.name: offer for offer in offers(message, is_last=True)}
    names = ["edit", "copy_message"]
    if stands_of(message) is not None:
        names = ["show_summarized", "summarize_again", *names]
    if message.role is Role.ASSISTANT:
        names = ["retry", "continue", *names] if is_cut_short(message) else ["retry", *names]
    return [by_name[name] for name in names if name in by_name]


def is_cut_short(message: Message) -> bool:
    """Whether a reply ended before its writer did, so that going on lies near."""
    is_reply = message.role is Role.ASSISTANT
    has_text = bool(message.content or message.reasoning or message.token_ids)
    is_cut = message.state in (MessageState.STOPPED, MessageState.INTERRUPTED)
    return is_reply and has_text and (is_cut or message.stop_reason in CUT_SHORT)


def ways_out(message: Message) -> list[Offer]:
    """What helps where a reply failed: what would fail again is no way out."""
    if message.stop_reason == "bad_template":
        return [CHOOSE_FORMAT, _TRY_AGAIN]
    if message.stop_reason != "prompt_too_long":
        return [_TRY_AGAIN]
    room = message.settings.get("room")
    room = room if isinstance(room, dict) else {}
    found = []
    if isinstance(room.get("result"), str):
        found.append(Offer("shorten_result", "Shorten the tool's result…"))
    if room.get("can_enlarge") is True:
        found.append(Offer("enlarge", "Enlarge the context window"))
    if room.get("can_trim") is True:
        found.append(Offer("trim", "Drop oldest messages"))
    return [*found, Offer("new_chat", "New chat")]


_KEYS = {
    (Qt.Key.Key_E, False): "edit",
    (Qt.Key.Key_R, False): "retry",
    (Qt.Key.Key_O, False): "show_summarized",
    (Qt.Key.Key_C, False): "continue",
    (Qt.Key.Key_A, False): "answers",
    (Qt.Key.Key_N, False): "seeds",
    (Qt.Key.Key_W, False): "begin",
    (Qt.Key.Key_V, False): "compare",
    (Qt.Key.Key_I, False): "insert_below",
    (Qt.Key.Key_I, True): "insert_above",
    (Qt.Key.Key_S, False): "swap_role",
    (Qt.Key.Key_B, False): "branch_off",
    (Qt.Key.Key_P, False): "save_picture",
    (Qt.Key.Key_M, False): "map",
    (Qt.Key.Key_U, False): "toggle_raw",
    (Qt.Key.Key_X, False): "run_again",
    (Qt.Key.Key_G, False): "settings",
    (Qt.Key.Key_L, False): "read_aloud",
    (Qt.Key.Key_Delete, False): "trash",
    (Qt.Key.Key_Delete, True): "trash_alone",
}


def offer_for_key(message: Message, key: int, *, is_shifted: bool, is_last: bool) -> Offer | None:
    """What a key means on a message; None where it means nothing there."""
    name = _KEYS.get((Qt.Key(key), is_shifted))
    if name == "retry" and stands_of(message) is not None:
        name = "summarize_again"
    found = (offer for offer in offers(message, is_last=is_last) if offer.name == name)
    return next(found, None) if name else None
