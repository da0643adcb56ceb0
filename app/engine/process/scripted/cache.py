"""The KV cache as a script has it: made-up cells, held and parked as the real engine would.

The chat that wrote last has cells; the others are parked in host memory when it begins. Nothing
is shared, and nothing is too large for the cap. What a stored chat has written counts as saved on
disk where there is a folder for it; it outlives no run, and no file is made.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import count
from typing import Final

from app.engine.process.scripted.script import ScriptFailure
from app.engine.process.scripted.take import Take
from app.engine.prompts.tokens import PromptPart
from app.engine.protocol.cache_messages import (
    CacheMap,
    CacheSlot,
    CellPart,
    CellRun,
    ChangeCache,
    LastTurn,
    ParkedCopy,
)
from app.engine.protocol.frames import Array
from app.engine.protocol.loading_messages import Loaded
from app.engine.protocol.media_messages import MediaSpan
from app.engine.protocol.saved_messages import (
    DropSaved,
    ForgetChats,
    SavedCommand,
    SavedCopy,
    SavedFolder,
    UseSaved,
)

CAP_BYTES: Final = 2**30

BUSY: Final = ScriptFailure("busy", "A reply is being generated. Stop it or wait, then try again.")
READ_ONLY: Final = ScriptFailure(
    "bad_setting",
    "Saved chats can't be removed here: this window is read-only, or saving is off.",
)
NOTHING: Final = ScriptFailure("bad_setting", "This chat isn't in the cache. Send a message first.")


@dataclass(slots=True)
class _Held:
    """A conversation's tokens. `take`: the reply that is written there."""

    ids: list[int]
    parts: list[PromptPart]
    n_prompt: int
    reply_id: str
    number: int
    media: list[MediaSpan]
    take: Take | None = None

    def now(self) -> list[int]:
        """The last token that was drawn is in no cell yet."""
        return self.ids if self.take is None else self.ids + self.take.token_ids[:-1]


class ScriptCache:
    """`begin` and `end` are called where a reply is played; the rest answers commands, on another
    thread: what it looks through is replaced and never changed."""

    def __init__(self) -> None:
        self._cells: dict[str, _Held] = {}
        self._parked: dict[str, _Held] = {}
        self._saved: dict[str, _Held] = {}
        self._folder: SavedFolder | None = None
        self._turns: dict[str, LastTurn] = {}
        self._numbers = count(1)

    def reused(self, conversation: str, ids: list[int]) -> tuple[int, str]:
        """Tokens of a prompt that are known already, and where from."""
        places = ((self._cells, "slot"), (self._parked, "parked"), (self._saved, "saved"))
        for where, source in places:
            held = where.get(conversation)
            same = _common(held.ids, ids[:-1]) if held is not None else 0
            if same:
                return same, source
        return 0, ""

    def begin(self, take: Take) -> None:
        """A reply is written: its chat takes the cells, and those of others are parked."""
        conversation = take.command.conversation
        others = {**self._parked, **self._cells}
        others.pop(conversation, None)
        self._parked = others
        held = _Held(
            take.prompt_ids,
            take.prompt_parts,
            len(take.prompt_ids),
            take.command.reply_id,
            next(self._numbers),
            take.media,
            take,
        )
        self._cells = {conversation: held}

    def shift(self, take: Take) -> None:
        """The prompt of a reply has become shorter in the middle of it."""
        held = self._cells[take.command.conversation]
        shorter = replace(
            held,
            ids=take.prompt_ids,
            parts=take.prompt_parts,
            n_prompt=len(take.prompt_ids),
            media=take.media,
        )
        self._cells = {**self._cells, take.command.conversation: shorter}

    def end(self, take: Take) -> None:
        held = self._cells.get(take.command.conversation)
        self._turns = {**self._turns, take.command.conversation: _turn(take)}
        if held is not None:
            # An end token is drawn from the scores of the last token, which is in a cell then.
            has_ended = take.stop_reason == "end_token"
            held.ids = held.ids + take.token_ids if has_ended else held.now()
            held.take = None
            if take.command.is_stored and self._may_save:
                self._saved = {**self._saved, take.command.conversation: held}

    @property
    def _may_save(self) -> bool:
        folder = self._folder
        return folder is not None and folder.may_write and folder.cap_bytes > 0

    # --- commands ---------------------------------------------------------------------------

    def map(self, loaded: Loaded) -> CacheMap:
        per_token = loaded.kv_bytes_per_token
        slots = [
            _slot(number, conversation, held, per_token)
            for number, (conversation, held) in enumerate(self._cells.items())
        ]
        parked = [
            ParkedCopy(held.number, conversation, len(held.ids), len(held.ids) * per_token, 0)
            for conversation, held in self._parked.items()
        ]
        turns = dict(self._turns)
        for conversation, held in self._cells.items():
            if held.take is not None:
                turns[conversation] = _turn(held.take)
        return CacheMap(
            n_ctx=loaded.n_ctx,
            n_used=sum(slot.token_ids.shape[0] for slot in slots),
            slots=slots,
            parked=parked,
            parked_bytes=sum(copy.size_bytes for copy in parked),
            parked_cap_bytes=CAP_BYTES,
            turns=list(turns.values()),
            saved=[
                SavedCopy(held.number, chat, len(held.ids), len(held.ids) * per_token, 0, True)
                for chat, held in self._saved.items()
            ],
            saved_bytes=sum(len(held.ids) * per_token for held in self._saved.values()),
            saved_cap_bytes=self._folder.cap_bytes if self._folder is not None else 0,
        )

    def use(self, folder: SavedFolder | None) -> None:
        self._folder = folder

    def keep(self, command: SavedCommand) -> ScriptFailure | None:
        """What is said of the disk; why it cannot be done, if it cannot."""
        if isinstance(command, UseSaved):
            self.use(command.saved)
        elif isinstance(command, DropSaved):
            if not self._may_save:
                return READ_ONLY
            self._saved = {
                chat: held
                for chat, held in self._saved.items()
                if command.number not in (0, held.number)
            }
        elif isinstance(command, ForgetChats):
            for chat in command.conversations:
                self._cells = _without(self._cells, chat)
                self._parked = _without(self._parked, chat)
                self._saved = _without(self._saved, chat)
        return None

    def change(self, command: ChangeCache) -> ScriptFailure | None:
        """Why it cannot be done; None where it is done."""
        conversation = command.conversation
        if self.is_busy:
            return BUSY
        if command.act == "clear":
            self._cells, self._parked, self._saved = {}, {}, {}
            return None
        if command.copy:
            self._parked = {c: h for c, h in self._parked.items() if h.number != command.copy}
            return None
        if command.act == "drop" and conversation in (*self._cells, *self._parked, *self._saved):
            self._saved = _without(self._saved, conversation)
            self._cells = _without(self._cells, conversation)
            self._parked = _without(self._parked, conversation)
            return None
        held = self._cells.get(conversation)
        if held is None:
            return NOTHING
        if command.act == "park":
            self._parked = {**self._parked, conversation: held}
            self._cells = _without(self._cells, conversation)
        elif command.act == "keep_prefix":
            held.ids = held.ids[: max(command.keep, 1)]
        return None

    @property
    def is_busy(self) -> bool:
        return any(held.take is not None for held in self._cells.values())

    def n_tokens(self, conversation: str) -> int:
        held = self._cells.get(conversation) or self._parked.get(conversation)
        return len(held.now()) if held is not None else 0


def _without(held: dict[str, _Held], conversation: str) -> dict[str, _Held]:
    return {name: one for name, one in held.items() if name != conversation}


def _slot(number: int, conversation: str, held: _Held, per_token: int) -> CacheSlot:
    ids = held.now()
    n_prompt = min(held.n_prompt, len(ids))
    parts = [
        CellPart(part.start, min(part.end, n_prompt), part.origin, part.message_id)
        for part in held.parts
        if part.start < n_prompt
    ]
    if n_prompt < len(ids):
        parts.append(CellPart(n_prompt, len(ids), "reply", held.reply_id or None))
    return CacheSlot(
        sequence=number,
        conversation=conversation,
        is_busy=held.take is not None,
        first_position=0,
        token_ids=Array.of("i4", ids),
        runs=[CellRun(held.number, 0, len(ids))],
        parts=parts,
        state_bytes=len(ids) * per_token,
        media=[span for span in held.media if span.start + span.count <= len(ids)],
    )


def _turn(take: Take) -> LastTurn:
    return LastTurn(
        take.command.conversation,
        take.reused,
        take.evaluated,
        len(take.token_ids),
        take.reuse_source,
        take.dropped,
    )


def _common(first: list[int], second: list[int]) -> int:
    same = 0
    while same < min(len(first), len(second)) and first[same] == second[same]:
        same += 1
    return same
