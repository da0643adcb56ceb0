"""A conversation that has outgrown the window: what is left out, so that the rest fits.

Two policies. *stop* leaves nothing out: a prompt that is too long is refused in words.
*drop_oldest* leaves out the oldest turns, a user's message together with what answered it.
The system prompt, turns with a pinned message, and the last turn always stay.

**Why down to 60 % at once.** The KV cache knows a prompt by its beginning. If each turn left out
just enough, each prompt would begin differently, and the whole window would be read again for
every message. So a cut frees a good part of the window; until that is used up, the following
prompts begin as the one before them, and only what is new is read.

**Why the cut holds.** Nothing is remembered. The conversation is played through from its first
turn, as it once happened: wherever a prompt would not have fitted, turns are left out. Playing
the next turn passes through the same states, so it ends with the same cut, after a restart too:

    window 100, room for a reply 6, system 5, each message 10 (a turn is 20)

    prompt of turn    1    2    3    4    5    6    7    8
    would have       15   35   55   75  95!   75  95!   75
    turns left out    -    -    -    -  1-2  1-2  1-4  1-4
    has              15   35   55   75   55   75   55   75

In turn 5 the prompt would have 95 of 94 tokens: turns are left out from the first on until at most
60 tokens are there. Turn 6 begins with the same tokens as turn 5. In turn 7 it is full again.

Sizes are read off the rendered prompt: a message is as long as its own tokens and the scaffold
before them. Templates may do otherwise with fewer messages, so what was chosen is rendered and
counted again; where it still does not fit, more goes. A turn that has its answer is cut as when it
was asked, then once more if the answer does not fit: so the path alone and the path with a short
question behind it have one cut.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Literal

import msgspec

from app.engine.prompts.prompt import BuiltPrompt, PromptNote
from app.engine.prompts.tokens import PromptPart
from app.engine.protocol.messages import PromptCount
from app.engine.protocol.prompt_messages import (
    ChatMessage,
    ChatPrompt,
    CutMessage,
    Prompt,
    TextPrompt,
)
from app.refusal import Refusal

Policy = Literal["stop", "drop_oldest"]
Build = Callable[[Prompt], BuiltPrompt]

TARGET: Final = 0.6
"""Share of the window that is used after a cut."""

FAR: Final = 8
"""What lies more than so many windows back is not even measured. The same rule as for the cut
itself, on a larger scale: it holds for several windows, then moves on by several."""

CUT_NOTE: Final = "turns_left_out"

REPLY_SHARE: Final = 16
"""One sixteenth of the window is kept for the reply, as long as there is something to leave out."""


class PromptTooLong(Refusal):
    """The prompt does not fit. `used` tokens, where the window holds `limit`."""

    def __init__(self, sentence: str, used: int, limit: int) -> None:
        super().__init__("prompt_too_long", sentence, f"{used}/{limit}")
        self.used = used
        self.limit = limit


@dataclass(frozen=True, slots=True)
class Sized:
    """A message as far as fitting needs it. `stays`: it is pinned."""

    role: str
    n_tokens: int
    stays: bool = False


@dataclass(slots=True)
class Turn:
    """A user's message and what follows it, by index. `opening`: tokens of the first one."""

    indices: list[int] = field(default_factory=list)
    n_tokens: int = 0
    opening: int = 0
    stays: bool = False


def turns_of(messages: Sequence[Sized]) -> list[Turn]:
    """Cut a conversation before each user's message. System prompts are no part of a turn.

    >>> [turn.indices for turn in turns_of([Sized("system", 5), Sized("user", 9),
    ...                                     Sized("assistant", 9), Sized("user", 9)])]
    [[1, 2], [3]]
    """
    turns: list[Turn] = []
    for index, message in enumerate(messages):
        if message.role == "system":
            continue
        if message.role == "user" or not turns:
            turns.append(Turn(opening=message.n_tokens))
        turn = turns[-1]
        turn.indices.append(index)
        turn.n_tokens += message.n_tokens
        turn.stays = turn.stays or message.stays
    return turns


def left_out(messages: Sequence[Sized], overhead: int, window: int) -> list[Turn]:
    """The turns that are left out of the prompt for the last turn, oldest first.

    `overhead`: tokens that belong to no message.

    >>> chat = [Sized("user", 10), Sized("assistant", 10)] * 4 + [Sized("user", 10)]
    >>> [turn.indices for turn in left_out(chat, 5, 100)]
    [[0, 1], [2, 3]]
    """
    turns = turns_of(messages)
    base = overhead + sum(m.n_tokens for m in messages if m.role == "system")
    limit, target = window - window // REPLY_SHARE, int(window * TARGET)
    first = 0  # the oldest turn that is there, apart from those that stay
    gone: list[Turn] = []
    held = base  # tokens of all that is there, before the turn that is asked
    for number, turn in enumerate(turns):
        is_last = number == len(turns) - 1
        # What answers the last turn already was asked for by its opening, as in every other one.
        for asked in (turn.opening, turn.n_tokens) if is_last else (turn.opening,):
            if held + asked > limit:
                while first < number and held + asked > target:
                    if not turns[first].stays:
                        gone.append(turns[first])
                        held -= turns[first].n_tokens
                    first += 1
        held += turn.n_tokens
    return gone


def fit_prompt(prompt: Prompt, build: Build, window: int, policy: Policy) -> BuiltPrompt:
    """Build the prompt so that it fits into `window` tokens, or raise PromptTooLong.

    What was left out is in the result's `cut`, with a note; `n_whole` counts the whole. Tokens
    that the reply begins with change no cut as long as they fit behind it: the prompt above them
    is the one that they were first written after.
    """
    if isinstance(prompt, ChatPrompt | TextPrompt) and prompt.begin_ids:
        return _fit_begun(prompt, build, window, policy)
    if policy == "drop_oldest" and isinstance(prompt, TextPrompt):
        return _keep_end(build(prompt), window)
    if policy != "drop_oldest" or not isinstance(prompt, ChatPrompt):
        built = build(prompt)
        if len(built.ids) > window:
            words = _too_long if isinstance(prompt, ChatPrompt) else _text_too_long
            raise PromptTooLong(words(len(built.ids), window), len(built.ids), window)
        return built
    return _drop_far(prompt, build, window)


def _fit_begun(
    prompt: ChatPrompt | TextPrompt, build: Build, window: int, policy: Policy
) -> BuiltPrompt:
    begin_ids = prompt.begin_ids
    bare = msgspec.structs.replace(prompt, begin_ids=[])
    built = fit_prompt(bare, build, window, policy)
    room = window - len(begin_ids)
    if len(built.ids) > room:
        try:
            built = fit_prompt(bare, build, max(room, 0), policy)
        except PromptTooLong as error:
            used = error.used + len(begin_ids)
            raise PromptTooLong(_begun_too_long(used, window), used, window) from error
    start, used = len(built.ids), len(built.ids) + len(begin_ids)
    if used > window:  # of a text nothing has to stay, so that nothing has been refused yet
        raise PromptTooLong(_begun_too_long(used, window), used, window)
    part = PromptPart(start, used, "assistant")
    return replace(
        built,
        ids=[*built.ids, *begin_ids],
        parts=[*built.parts, part],
        n_begun=len(begin_ids),
        n_whole=built.n_whole and built.n_whole + len(begin_ids),
    )


def counted(built: BuiltPrompt, n_ctx: int) -> PromptCount:
    """What the meter is told of a prompt that fits."""
    if not built.cut:
        return PromptCount(len(built.ids), n_ctx)
    named = [message.message_id for message in built.cut if message.message_id]
    last = named[-1] if named else ""
    return PromptCount(len(built.ids), n_ctx, len(built.cut), built.n_whole, last)


def _keep_end(built: BuiltPrompt, window: int) -> BuiltPrompt:
    """Of a text that is too long, leave out the beginning, but for the token that begins a text.

    As with conversations the cut moves in large steps: texts that grow have the same beginning
    until a step is used up.
    """
    limit = window - window // REPLY_SHARE
    n_whole = len(built.ids)
    if n_whole <= limit:
        return built
    step = max(1, limit - int(window * TARGET))
    n_gone = -(-(n_whole - limit) // step) * step
    first = min((part.end for part in built.parts[:1] if part.origin == "scaffold"), default=0)
    ids = built.ids[:first] + built.ids[first + n_gone :]
    parts = [
        PromptPart(max(first, part.start - n_gone), max(first, part.end - n_gone), part.origin)
        for part in built.parts
        if part.end > first + n_gone
    ]
    note = PromptNote(
        CUT_NOTE,
        f"The text is longer than the context window, so its beginning ({n_gone:,} tokens) was "
        "dropped from this prompt. Nothing is deleted.",
    )
    cut = [CutMessage(None, "text", n_gone)]
    kept_parts = [*built.parts[:1], *parts] if first else parts
    return replace(
        built, ids=ids, parts=kept_parts, cut=cut, notes=[*built.notes, note], n_whole=n_whole
    )


def _drop_far(prompt: ChatPrompt, build: Build, window: int) -> BuiltPrompt:
    """Of a conversation of many windows, leave out the far past by the length of its text alone,
    so that it need not be rendered each time; then measure what is nearer."""
    guessed = [Sized(m.role, _guess(m), m.is_pinned) for m in prompt.messages]
    far = [i for turn in left_out(guessed, 0, FAR * window) for i in turn.indices]
    near = _drop_oldest(_without(prompt, far), build, window)
    if not far:
        return near
    cut = [
        *(
            CutMessage(prompt.messages[i].message_id, guessed[i].role, guessed[i].n_tokens)
            for i in far
        ),
        *near.cut,
    ]
    notes = [note for note in near.notes if note.kind != CUT_NOTE]
    n_far = sum(guessed[i].n_tokens for i in far)
    return replace(near, cut=cut, notes=[*notes, _cut_note(cut)], n_whole=near.n_whole + n_far)


def _drop_oldest(prompt: ChatPrompt, build: Build, window: int) -> BuiltPrompt:
    numbered = msgspec.structs.replace(
        prompt,
        messages=[
            msgspec.structs.replace(m, message_id=str(i)) for i, m in enumerate(prompt.messages)
        ],
    )
    whole = built = build(numbered)
    sizes, overhead = measure(prompt.messages, whole)
    gone: list[int] = []
    if len(whole.ids) > window - window // REPLY_SHARE:
        gone = [i for turn in left_out(sizes, overhead, window) for i in turn.indices]
        built = build(_without(numbered, gone)) if gone else whole
    step = 1
    while len(built.ids) > window:
        # The template made more of the rest than its share of the whole: leave out more.
        more = [t for t in turns_of(sizes)[:-1] if not t.stays and t.indices[0] not in gone]
        if not more:
            used = len(built.ids)
            raise PromptTooLong(_rest_too_long(used, window), used, window)
        gone += [i for turn in more[:step] for i in turn.indices]
        built = build(_without(numbered, gone))
        step *= 2
    return _named(built, prompt.messages, sorted(gone), sizes, len(whole.ids))


def measure(messages: Sequence[ChatMessage], whole: BuiltPrompt) -> tuple[list[Sized], int]:
    """How many tokens each message takes in `whole`, whose parts name messages by index; and how
    many belong to none.

    >>> from app.engine.prompts.tokens import PromptPart
    >>> parts = [PromptPart(0, 2, "scaffold"), PromptPart(2, 5, "user", "0"),
    ...          PromptPart(5, 9, "scaffold")]
    >>> measure([ChatMessage("user", "Hi")], BuiltPrompt([0] * 9, "", parts))
    ([Sized(role='user', n_tokens=3, stays=False)], 6)
    """
    sizes = [0] * len(messages)
    overhead, waiting, is_first = 0, 0, True
    for part in whole.parts:
        n_tokens = part.end - part.start
        if part.message_id is None:
            waiting += n_tokens
            continue
        if is_first:  # what begins every prompt, whichever message comes first
            overhead, waiting, is_first = waiting, 0, False
        sizes[int(part.message_id)] += n_tokens + waiting
        waiting = 0
    overhead += waiting
    if is_first:  # nobody can tell where the messages are: by their own length
        sizes, overhead = [_guess(message) for message in messages], 0
    sized = [Sized(m.role, n, m.is_pinned) for m, n in zip(messages, sizes, strict=True)]
    return sized, overhead


def _guess(message: ChatMessage) -> int:
    """Never less than it will be for most texts, and the same each time."""
    return 8 + (len(message.token_ids or ()) or len(message.content.encode()) // 3)


def _without(prompt: ChatPrompt, gone: list[int]) -> ChatPrompt:
    left = frozenset(gone)
    kept = [m for i, m in enumerate(prompt.messages) if i not in left]
    return msgspec.structs.replace(prompt, messages=kept)


def _named(
    built: BuiltPrompt,
    messages: Sequence[ChatMessage],
    gone: list[int],
    sizes: list[Sized],
    n_whole: int,
) -> BuiltPrompt:
    """The prompt with the messages' own ids again, and what was left out."""

    def own(number: str | None) -> str | None:
        return messages[int(number)].message_id if number else None

    cut = [CutMessage(messages[i].message_id, messages[i].role, sizes[i].n_tokens) for i in gone]
    return replace(
        built,
        parts=[replace(part, message_id=own(part.message_id)) for part in built.parts],
        retokenized=[own(number) or "" for number in built.retokenized],
        returned=[own(number) or "" for number in built.returned],
        notes=[*built.notes, _cut_note(cut)] if cut else built.notes,
        cut=cut,
        n_whole=n_whole,
    )


def _cut_note(cut: list[CutMessage]) -> PromptNote:
    n_tokens = sum(message.n_tokens for message in cut)
    what = "message was" if len(cut) == 1 else f"{len(cut):,} messages were"
    return PromptNote(
        CUT_NOTE,
        f"The chat is longer than the context window, so its oldest {what} dropped from this "
        f"prompt ({n_tokens:,} tokens). Nothing is deleted.",
    )


def _too_long(used: int, window: int) -> str:
    return (
        f"The chat has {used:,} tokens, but the context window holds only {window:,}. Shorten "
        "it, drop oldest messages, or reload the model with a larger context window."
    )


def _begun_too_long(used: int, window: int) -> str:
    return (
        f"The chat and the start of this reply have {used:,} tokens, but the context window "
        f"holds only {window:,}. Branch earlier in the reply, or reload the model with a larger "
        "context window."
    )


def _text_too_long(used: int, window: int) -> str:
    return (
        f"The text has {used:,} tokens, but the context window holds only {window:,}. Shorten "
        "it, or reload the model with a larger context window."
    )


def _rest_too_long(used: int, window: int) -> str:
    return (
        f"The system prompt, pinned messages and last message have {used:,} tokens, but the "
        f"context window holds only {window:,}. Shorten them, or reload the model with a larger "
        "context window."
    )
