"""A conversation that has outgrown the window: what is left out, so that the rest fits.

Four policies. *stop* leaves nothing out: a prompt that is too long is refused in words.
*drop_oldest* leaves out the oldest turns, a user's message together with what answered it.
*keep_ends* leaves out the middle: the first exchange goes only where nothing else is left to go.
*summarize* leaves out what *drop_oldest* does; whoever asks has put a summary of it among the
messages, which stays. The system prompt, turns with a pinned message, and the last turn always
stay.

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
from itertools import pairwise
from typing import Final, Literal

import msgspec

from app.engine.prompts.midway import TARGET, Stretch, parts_without
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

Policy = Literal["stop", "drop_oldest", "keep_ends", "summarize"]
Build = Callable[[Prompt], BuiltPrompt]

FAR: Final = 8
"""What lies more than so many windows back is not even measured. The same rule as for the cut
itself, on a larger scale: it holds for several windows, then moves on by several."""

_GUESSED_CELLS: Final = 256
"""Of a picture."""

CUT_NOTE: Final = "turns_left_out"

HEAD_SHARE: Final = 8
"""One eighth of the window is the beginning of a plain text whose ends are kept."""

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


def n_opening(turns: Sequence[Turn], messages: Sequence[Sized]) -> int:
    """How many turns the first exchange is: two where a reply without a question comes first."""
    opens = bool(turns) and messages[turns[0].indices[0]].role == "user"
    return min(1 if opens else 2, len(turns))


def left_out(
    messages: Sequence[Sized], overhead: int, window: int, *, keep_first: bool = False
) -> list[Turn]:
    """The turns that are left out of the prompt for the last turn, in the order in which they went.

    `overhead`: tokens that belong to no message. `keep_first`: the first exchange goes only where
    nothing else is left to go.

    >>> chat = [Sized("user", 10), Sized("assistant", 10)] * 4 + [Sized("user", 10)]
    >>> [turn.indices for turn in left_out(chat, 5, 100)]
    [[0, 1], [2, 3]]
    >>> [turn.indices for turn in left_out(chat, 5, 100, keep_first=True)]
    [[2, 3], [4, 5]]
    """
    turns = turns_of(messages)
    kept = n_opening(turns, messages) if keep_first else 0
    base = overhead + sum(m.n_tokens for m in messages if m.role == "system")
    limit, target = window - window // REPLY_SHARE, int(window * TARGET)
    first = kept  # the oldest turn that is there, apart from those that stay
    opening = list(reversed(turns[:kept]))
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
                # A turn that fits in no way was asked in a larger window: it takes nothing along.
                stay = sum(each.n_tokens for each in turns[:number] if each.stays)
                fits = is_last or base + stay + asked <= window
                while opening and fits and number >= kept and held + asked > limit:
                    if not opening[-1].stays:
                        gone.append(opening[-1])
                        held -= opening[-1].n_tokens
                    opening.pop()
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
    if policy != "stop" and isinstance(prompt, TextPrompt):
        built = _keep_end(build(prompt), window, policy)
        return replace(built, stretches=_text_stretches(built, window, policy))
    if policy == "stop" or not isinstance(prompt, ChatPrompt):
        built = build(prompt)
        if len(built.ids) > window:
            words = _too_long if isinstance(prompt, ChatPrompt) else _text_too_long
            raise PromptTooLong(words(len(built.ids), window), len(built.ids), window)
        return built
    return _drop_far(prompt, build, window, keep_first=policy == "keep_ends")


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
        return PromptCount(len(built.ids), n_ctx, media=built.media)
    named = [message.message_id for message in built.cut if message.message_id]
    first, last = (named[0], named[-1]) if named else ("", "")
    return PromptCount(
        len(built.ids), n_ctx, len(built.cut), built.n_whole, last, first, built.media
    )


def _keep_end(built: BuiltPrompt, window: int, policy: Policy) -> BuiltPrompt:
    """Of a text that is too long, leave out the beginning, but for the token that begins a text;
    where both ends are kept, what comes after the first eighth of a window.

    As with conversations the cut moves in large steps: texts that grow have the same beginning
    until a step is used up.
    """
    limit = window - window // REPLY_SHARE
    n_whole = len(built.ids)
    if n_whole <= limit:
        return built
    step = max(1, limit - int(window * TARGET))
    n_gone = -(-(n_whole - limit) // step) * step
    first = text_head(built.parts, window, policy)
    end = first + n_gone
    what = "middle" if policy == "keep_ends" else "beginning"
    why = " A text can't be summarized." if policy == "summarize" else ""
    note = PromptNote(
        CUT_NOTE,
        f"The text is longer than the context window, so its {what} ({n_gone:,} tokens) was "
        f"dropped from this prompt.{why} Nothing is deleted.",
    )
    return replace(
        built,
        ids=built.ids[:first] + built.ids[end:],
        parts=parts_without(built.parts, [Stretch(first, end)]),
        cut=[CutMessage(None, "text", n_gone)],
        notes=[*built.notes, note],
        n_whole=n_whole,
    )


def text_head(parts: Sequence[PromptPart], window: int, policy: Policy) -> int:
    """How many of a text's first tokens always stay."""
    first = min((part.end for part in parts[:1] if part.origin == "scaffold"), default=0)
    return first + window // HEAD_SHARE if policy == "keep_ends" else first


def _text_stretches(built: BuiltPrompt, window: int, policy: Policy) -> list[Stretch]:
    """A text has no turns: what always stays aside, it may go piece by piece."""
    step = max(window // REPLY_SHARE, 1)
    first, end = text_head(built.parts, window, policy), len(built.ids)
    return [
        Stretch(start, start + step, (CutMessage(None, "text", step),))
        for start in range(first, end - step, step)
    ]


def _drop_far(prompt: ChatPrompt, build: Build, window: int, *, keep_first: bool) -> BuiltPrompt:
    """Of a conversation of many windows, leave out the far past by the length of its text alone,
    so that it need not be rendered each time; then measure what is nearer."""
    guessed = [Sized(m.role, _guess(m), m.is_pinned) for m in prompt.messages]
    turns = left_out(guessed, 0, FAR * window, keep_first=keep_first)
    far = sorted(i for turn in turns for i in turn.indices)
    near = _drop_oldest(_without(prompt, far), build, window, keep_first=keep_first)
    if not far:
        return near
    far_cut = [
        CutMessage(prompt.messages[i].message_id, guessed[i].role, guessed[i].n_tokens) for i in far
    ]
    # Where even the first exchange had to go in the end, it stands before all of them.
    n_before = sum(i < far[0] for i in _places(near.cut, prompt.messages))
    cut = [*near.cut[:n_before], *far_cut, *near.cut[n_before:]]
    notes = [note for note in near.notes if note.kind != CUT_NOTE]
    n_far = sum(guessed[i].n_tokens for i in far)
    note = _cut_note(cut, is_middle=keep_first and not n_before)
    return replace(near, cut=cut, notes=[*notes, note], n_whole=near.n_whole + n_far)


def _places(cut: Sequence[CutMessage], messages: Sequence[ChatMessage]) -> list[int]:
    """Where in a conversation messages that were left out stand; without an id, at its end."""
    at = {message.message_id: i for i, message in enumerate(messages) if message.message_id}
    return [at.get(message.message_id or "", len(messages)) for message in cut]


def _drop_oldest(prompt: ChatPrompt, build: Build, window: int, *, keep_first: bool) -> BuiltPrompt:
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
        turns = left_out(sizes, overhead, window, keep_first=keep_first)
        gone = [i for turn in turns for i in turn.indices]
        built = build(_without(numbered, gone)) if gone else whole
    step = 1
    while len(built.ids) > window:
        # The template made more of the rest than its share of the whole: leave out more.
        more = [t for t in _in_order(sizes, keep_first) if t.indices[0] not in gone]
        if not more:
            used = len(built.ids)
            raise PromptTooLong(_rest_too_long(used, window), used, window)
        gone += [i for turn in more[:step] for i in turn.indices]
        built = build(_without(numbered, gone))
        step *= 2
    built = replace(built, stretches=_stretches(built, prompt.messages, gone, sizes, keep_first))
    is_middle = keep_first and bool(gone) and min(gone) > min(turns_of(sizes)[0].indices)
    return _named(built, prompt.messages, sorted(gone), sizes, len(whole.ids), is_middle=is_middle)


def _stretches(
    built: BuiltPrompt,
    messages: Sequence[ChatMessage],
    gone: Sequence[int],
    sizes: Sequence[Sized],
    keep_first: bool,
) -> list[Stretch]:
    """Where the turns lie that may still go, in the order in which they would. Without its own
    question a turn has none: what stands before its text is not what stands before the next's."""
    starts: dict[int, int] = {}
    for part in built.parts:
        if part.message_id is not None:
            starts.setdefault(int(part.message_id), part.start)
    there = [turn.indices for turn in turns_of(sizes) if turn.indices[0] not in gone]
    next_of = {turn[0]: following[0] for turn, following in pairwise(there)}
    found = []
    for turn in _in_order(sizes, keep_first):
        first = turn.indices[0]
        start, end = starts.get(first), starts.get(next_of.get(first, -1))
        if start is None or end is None or messages[first].role != "user" or end <= start:
            continue
        cut = [
            CutMessage(messages[i].message_id, messages[i].role, sizes[i].n_tokens)
            for i in turn.indices
        ]
        found.append(Stretch(start, end, tuple(cut)))
    return found


def _in_order(sizes: Sequence[Sized], keep_first: bool) -> list[Turn]:
    """The turns that may go, in the order in which they would."""
    turns = turns_of(sizes)
    first = n_opening(turns, sizes) if keep_first else 0
    return [turn for turn in [*turns[first:-1], *turns[:first]] if _may_go(turn, turns)]


def _may_go(turn: Turn, turns: Sequence[Turn]) -> bool:
    return not turn.stays and turn is not turns[-1]


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
    n_text = len(message.token_ids or ()) or len(message.content.encode()) // 3
    return 8 + n_text + _GUESSED_CELLS * len(message.media)


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
    *,
    is_middle: bool,
) -> BuiltPrompt:
    """The prompt with the messages' own ids again, and what was left out."""

    def own(number: str | None) -> str | None:
        return messages[int(number)].message_id if number else None

    cut = [CutMessage(messages[i].message_id, messages[i].role, sizes[i].n_tokens) for i in gone]
    if cut:
        # What stands before the first message counts as what begins every prompt, and may be more.
        more = n_whole - len(built.ids) - sum(each.n_tokens for each in cut)
        n_first = max(cut[0].n_tokens + more, 0)
        cut[0] = msgspec.structs.replace(cut[0], n_tokens=n_first)
    return replace(
        built,
        parts=[replace(part, message_id=own(part.message_id)) for part in built.parts],
        retokenized=[own(number) or "" for number in built.retokenized],
        returned=[own(number) or "" for number in built.returned],
        notes=[*built.notes, _cut_note(cut, is_middle=is_middle)] if cut else built.notes,
        cut=cut,
        n_whole=n_whole,
    )


def _cut_note(cut: list[CutMessage], *, is_middle: bool) -> PromptNote:
    """`is_middle`: the first exchange is still there."""
    n_tokens = sum(message.n_tokens for message in cut)
    what = "message" if len(cut) == 1 else f"{len(cut):,} messages"
    which = f"{what} in its middle" if is_middle else f"its oldest {what}"
    were = "was" if len(cut) == 1 else "were"
    which = f"a {which}" if is_middle and len(cut) == 1 else which
    return PromptNote(
        CUT_NOTE,
        f"The chat is longer than the context window, so {which} {were} dropped from this "
        f"prompt ({n_tokens:,} tokens). Nothing is deleted.",
    )


def _too_long(used: int, window: int) -> str:
    return (
        f"The chat has {used:,} tokens, but the context window holds only {window:,}. Shorten "
        "it, let messages be dropped, or reload the model with a larger context window."
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
