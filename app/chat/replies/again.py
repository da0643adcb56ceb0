"""Run a reply again, exactly: same path, settings and seed, and the engine in repeatable mode.

The second reply stands beside the first as another version. At its end the two are compared,
token by token: "identical", or "first differs at token n". Two repeatable runs on the same
machine are the same to the last bit; a first reply that was written beside others, or with
another number of threads, may part from its repetition where two tokens were almost equal.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Final

from app.chat.conversations.shelf import Shelf
from app.chat.events import Noticed
from app.chat.replies.beam_versions import BEAMS
from app.chat.replies.cut_versions import CUTS
from app.chat.replies.recorded import settings_of
from app.chat.replies.replies import Replies
from app.chat.replies.reply import NOTHING, Beginning, Branch, Reply
from app.chat.settings.levels import resolved_for
from app.chat.settings.resolved import IN_CHAIN, SHAPING
from app.chat.settings.settings import as_stored
from app.chat.surroundings import Surroundings
from app.chat.weights.loading import Loader
from models.records import Message, MessageState, Role

AGAIN: Final = "again"
"""In a reply's settings: which reply it repeats, and where it first differs (None: nowhere)."""

OTHER_WEIGHTS: Final = "This reply was written by “{name}”. Load that model to rerun it."
NOTHING_TO_COMPARE: Final = "This reply has no text of its own, so there is nothing to rerun."
FROM_BEAMS: Final = "This text came from a beam search; a rerun repeats its tokens. "
TOOL_CHOICE: Final = "tool_choice"
"""In the settings of a reply that a program asked for: which tool it had to call, or that it had
to. A chat asks for no such thing."""

HAD_TO_CALL: Final = (
    "This reply was required to call a tool, so it can't be rerun exactly. Regenerate it; for a "
    "program's request, use “Copy as curl” in Server requests."
)
NO_SEED: Final = "The seed of this reply is unknown, so it can't be rerun exactly."


class Again:
    def __init__(
        self, around: Surroundings, shelf: Shelf, loader: Loader, replies: Replies
    ) -> None:
        self._around = around
        self._shelf = shelf
        self._loader = loader
        self._replies = replies

    def run(self, message_id: str) -> None:
        """Ask for the reply once more; what stands against it is said in words."""
        message = self._shelf.message(message_id)
        if message is None or message.role is not Role.ASSISTANT:
            return
        refusal = self._refusal(message)
        conversation = self._shelf.conversation(message.conversation_id)
        if not refusal and conversation is not None:
            present = resolved_for(self._around, self._loader, conversation).settings
            settings, refusal = settings_of(message.settings, present)
        if refusal or conversation is None:
            self._around.emit(Noticed("warning", refusal))
            return
        numbers = IN_CHAIN if settings.chain else ()
        changes: dict[str, Any] = {
            name: as_stored(getattr(settings, name)) for name in SHAPING if name not in numbers
        }
        changes |= {"seed": message.seed, "repeatable": True, AGAIN: message}
        changes["tools"] = settings.tools
        if CUTS in message.settings:
            changes[CUTS] = message.settings[CUTS]
        if BEAMS in message.settings:
            changes[BEAMS] = message.settings[BEAMS]
        if message.state is not MessageState.COMPLETE and message.token_ids:
            changes["max_tokens"] = len(message.token_ids)  # it was cut there, not by itself
        self._replies.answer(message_id, (changes,), given_to(message))

    def _refusal(self, message: Message) -> str:
        if not (message.content or message.reasoning):
            return NOTHING_TO_COMPARE
        if (remote := self._loader.remote) is not None and (why := remote.why_not("repeatable")):
            return f"{why} Regenerate the reply instead."
        if message.seed is None:
            return NO_SEED
        if message.settings.get(TOOL_CHOICE):
            return HAD_TO_CALL
        if self._loader.loaded is not None and message.weights_hash != self._loader.weights_hash:
            return OTHER_WEIGHTS.format(name=message.weights_name or "another model")
        return ""


def compared(around: Surroundings, reply: Reply, message: Message) -> Message:
    """A reply ends: if it repeats another one, say how they compare and keep that."""
    first = reply.changes.get(AGAIN)
    if not isinstance(first, Message):
        return message
    whole = message.state is MessageState.COMPLETE
    place = first_difference(first, message)
    of_beams = FROM_BEAMS if BEAMS in first.settings else ""
    around.emit(Noticed("info", of_beams + _words(first, message, place)))
    found = {"of": first.id, "first_difference": place, "is_whole": whole}
    return dataclasses.replace(message, settings={**message.settings, AGAIN: found})


def _words(first: Message, message: Message, place: int | None) -> str:
    n_tokens = len(message.token_ids or ())
    if place is None:
        if message.state is not MessageState.COMPLETE:
            return f"Rerun: identical as far as it went ({n_tokens:,} tokens)."
        return f"Rerun: identical, all {n_tokens:,} tokens."
    words = f"Rerun: first differs at token {place + 1:,}."
    was, now = first.settings.get("load"), message.settings.get("load")
    if isinstance(was, dict) and isinstance(now, dict) and was != now:
        names = [name for name in now if was.get(name) != now[name]]
        return f"{words} The model was loaded differently ({', '.join(names)})."
    if not first.settings.get("repeatable"):
        return (
            f"{words} The first one wasn't generated in repeatable mode, but this one was. Rerun "
            "this one for a fair comparison."
        )
    return words


def first_difference(first: Message, second: Message) -> int | None:
    """The place (from 0) of the first token in which they differ. None: nowhere.

    Of a second one that was cut only what is there counts.
    """
    if first.token_ids is None or second.token_ids is None:
        one, other = first.reasoning + first.content, second.reasoning + second.content
        return None if one == other else 0
    pairs = zip(first.token_ids, second.token_ids, strict=False)
    place = next((i for i, (a, b) in enumerate(pairs) if a != b), None)
    if place is not None:
        return place
    shorter, longer = len(second.token_ids), len(first.token_ids)
    is_cut = second.state is not MessageState.COMPLETE and shorter < longer
    return None if shorter == longer or is_cut else min(shorter, longer)


def given_to(message: Message) -> Beginning:
    """What the reply began with, as far as it was given and not drawn."""
    given = message.settings.get("given")
    if not isinstance(given, dict):
        return NOTHING
    n_tokens, source_id = given.get("tokens"), given.get("message_id")
    ids = message.token_ids if isinstance(n_tokens, int) else None
    chosen = given.get("chosen")
    if isinstance(chosen, list) and isinstance(n_tokens, int) and ids is not None:
        return Branch(
            "",
            "",
            ids[:n_tokens],
            message.id,
            chosen_ids=ids[n_tokens : n_tokens + len(chosen)],
            weights_hash=message.weights_hash or "",
        )
    return Beginning(
        message.content[: int(given.get("characters") or 0)],
        message.reasoning[: int(given.get("reasoning_characters") or 0)],
        None if ids is None else ids[:n_tokens],
        source_id if isinstance(source_id, str) else None,
    )
